//! The driver of one simulated process.

use super::Shared;
use super::engine::Process;
use crate::admission::AcceptLimits;
use crate::buf::{BufMut, Pool, Segments};
use crate::core::Service;
use crate::driver::{
    Completion, Driver, DriverCounts, FileId, FileInfo, ListenerId, Outcome, PathCounts, SocketId, Time, TimerId,
    Token, Wait, Waker,
};
use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// A handle to the world for one process. When the process is dead (killed, or its host without power) every call
/// does nothing, as nothing of it exists any more.
pub struct SimDriver {
    shared: Rc<RefCell<Shared>>,
    process: Process,
    now: Time,
    pool: Pool,
    waker: Waker,
}

impl SimDriver {
    pub(super) fn new(shared: Rc<RefCell<Shared>>, process: Process, waker: Waker) -> SimDriver {
        SimDriver {
            shared,
            process,
            now: Time(0),
            pool: Pool::heap(),
            waker,
        }
    }

    /// The node's number.
    #[must_use]
    pub fn node(&self) -> u32 {
        self.process.node
    }

    /// The node's address.
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        super::node_ip(self.process.node)
    }

    /// One pass of a service: poll, handle, and run again at once if it says that there is work left. To be called
    /// when [`World::next`](super::World::next) names this node.
    pub fn run(&mut self, service: &mut dyn Service, completions: &mut Vec<Completion>) {
        self.poll(Wait::No, completions);
        if service.pass(self, completions) == Wait::No {
            self.again();
        }
    }

    /// The process has work left: it is runnable again at once.
    pub fn again(&mut self) {
        self.shared.borrow_mut().engine.again(self.process);
    }

    /// Runs a call for a living process; the dead one's does nothing.
    fn call<T>(&mut self, what: u64, call: impl FnOnce(&mut Shared, Process) -> T) -> Option<T> {
        let shared = &mut *self.shared.borrow_mut();
        if !shared.engine.is_alive(self.process) {
            return None;
        }
        shared.engine.note(what << 32 | u64::from(self.process.node));
        Some(call(shared, self.process))
    }
}

fn dead() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "this simulated process is dead")
}

impl Driver for SimDriver {
    /// Virtual time stands still during a pass.
    fn refresh(&mut self) {}

    fn now(&self) -> Time {
        self.now
    }

    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn open(&mut self, path: &Path) -> io::Result<(FileId, FileInfo)> {
        let opened = self.call(1, |shared, process| shared.disks.open(&shared.engine, process, path));
        let (file, info) = opened.unwrap_or_else(|| Err(dead()))?;
        Ok((FileId(file), info))
    }

    fn read(&mut self, file: FileId, offset: u64, buffer: BufMut, token: Token) {
        self.call(2, |shared, process| {
            shared.engine.note(offset ^ buffer.len() as u64);
            shared
                .disks
                .start_read(&mut shared.engine, process, file.0, (offset, buffer), token);
        });
    }

    fn write(&mut self, file: FileId, offset: u64, data: Segments, token: Token) {
        self.call(3, |shared, process| {
            shared.engine.note(offset ^ data.len() as u64);
            shared
                .disks
                .start_write(&mut shared.engine, process, file.0, (offset, data), token);
        });
    }

    fn flush(&mut self, file: FileId, token: Token) {
        self.call(4, |shared, process| {
            shared.disks.start_flush(&mut shared.engine, process, file.0, token)
        });
    }

    fn discard(&mut self, file: FileId, offset: u64, bytes: u64, token: Token) {
        self.call(13, |shared, process| {
            shared.engine.note(offset ^ bytes);
            shared
                .disks
                .start_discard(&mut shared.engine, process, file.0, (offset, bytes), token);
        });
    }

    fn listen(&mut self, address: SocketAddr, token: Token) -> io::Result<(ListenerId, SocketAddr)> {
        let bound = self.call(5, |shared, process| {
            shared.net.listen(&shared.engine, process, address, token)
        });
        bound.unwrap_or_else(|| Err(dead()))
    }

    fn limit_accepts(&mut self, listener: ListenerId, limits: AcceptLimits) {
        self.call(14, |shared, process| {
            shared.net.limit_accepts(process, listener, limits)
        });
    }

    fn set_known(&mut self, listener: ListenerId, address: IpAddr, is_known: bool) {
        self.call(15, |shared, process| {
            shared.net.set_known(process, listener, address, is_known);
        });
    }

    fn connect(&mut self, address: SocketAddr, token: Token) {
        self.call(6, |shared, process| {
            shared.net.connect(&mut shared.engine, process, address, token)
        });
    }

    fn send(&mut self, socket: SocketId, data: Segments, token: Token) {
        self.call(7, |shared, process| {
            shared
                .engine
                .note(socket.0 << 32 ^ data.iter().map(|piece| piece.len() as u64).sum::<u64>());
            shared.net.send(&mut shared.engine, process, socket, data, token);
        });
    }

    fn receive(&mut self, socket: SocketId, buffer: BufMut, token: Token) {
        self.call(8, |shared, process| {
            shared.net.receive(&mut shared.engine, process, socket, buffer, token)
        });
    }

    fn close(&mut self, socket: SocketId) {
        self.call(9, |shared, process| {
            shared.net.close(&mut shared.engine, process, socket)
        });
    }

    fn watch_peer(&mut self, socket: SocketId, patience: Duration) {
        self.call(17, |shared, process| {
            shared.net.watch(&mut shared.engine, process, socket, patience)
        });
    }

    fn path(&mut self, socket: SocketId) -> Option<PathCounts> {
        self.call(18, |shared, process| shared.net.path_of(process, socket))
            .flatten()
    }

    fn abort(&mut self, socket: SocketId) {
        self.call(16, |shared, process| {
            shared.net.abort(&mut shared.engine, process, socket)
        });
    }

    fn timer(&mut self, at: Time, token: Token) -> TimerId {
        self.call(10, |shared, process| shared.engine.arm(process, at, token))
            .unwrap_or_default()
    }

    fn cancel_timer(&mut self, timer: TimerId) {
        self.call(11, |shared, process| shared.engine.disarm(process, timer));
    }

    fn poll(&mut self, _: Wait, completions: &mut Vec<Completion>) {
        let polled = self.call(12, |shared, process| {
            let before = completions.len();
            let now = shared.engine.poll(process, completions);
            for completion in &completions[before..] {
                shared.engine.note(completion.token.0 ^ kind(&completion.outcome));
            }
            now
        });
        if let Some(now) = polled {
            self.now = now;
        }
    }

    /// It costs nothing; what listeners did is counted.
    fn counts(&self) -> DriverCounts {
        DriverCounts {
            accepts: self.shared.borrow().net.accepts_of(self.process),
            ..DriverCounts::default()
        }
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

/// Tells outcomes apart in the trace.
fn kind(outcome: &Outcome) -> u64 {
    let (kind, good) = match outcome {
        Outcome::Read { result, .. } => (1, result.is_ok()),
        Outcome::Written { result, .. } => (2, result.is_ok()),
        Outcome::Flushed { result } => (3, result.is_ok()),
        Outcome::Accepted { .. } => (4, true),
        Outcome::AcceptFailed { .. } => (5, false),
        Outcome::Connected { result } => (6, result.is_ok()),
        Outcome::Sent { result, .. } => (7, result.is_ok()),
        Outcome::Received { buffer, result } => match result {
            Ok(bytes) => return 8 ^ mark(&buffer[..*bytes]) << 8,
            Err(_) => (8, false),
        },
        Outcome::Timer => (9, true),
        Outcome::Woken => (10, true),
        Outcome::Discarded { result } => (11, result.is_ok()),
        Outcome::AcceptedLocal { .. } => (12, true),
    };
    kind | u64::from(good) << 7
}

/// A cheap mark of some bytes: their number and their ends.
fn mark(bytes: &[u8]) -> u64 {
    let ends = bytes
        .first()
        .zip(bytes.last())
        .map_or(0, |(first, last)| u64::from(*first) << 8 | u64::from(*last));
    ends << 32 ^ bytes.len() as u64
}
