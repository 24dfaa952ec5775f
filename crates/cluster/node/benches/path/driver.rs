//! A driver without a kernel: sockets and files are memory of this thread, so that what is measured is the software
//! between them.

use amita_reactor::driver::{
    Completion, Driver, FileId, FileInfo, ListenerId, Outcome, SocketId, Time, TimerId, Token, Wait, Waker,
};
use amita_reactor::timer::Timers;
use amita_reactor::{BufMut, Pool, PoolConfig, Segments, Slice};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Bytes of buffers of each core.
const POOL_BYTES: usize = 64 << 20;

struct Socket {
    owner: usize,
    peer: usize,
    /// What has come in and was not received yet.
    inbox: VecDeque<Slice>,
    receive: Option<(BufMut, Token)>,
}

/// What all drivers of the run share.
#[derive(Default)]
pub struct Net {
    sockets: Vec<Socket>,
    listeners: BTreeMap<SocketAddr, (usize, Token)>,
    ready: Vec<Vec<Completion>>,
    /// Files by their path.
    disks: BTreeMap<String, Vec<u8>>,
}

impl Net {
    /// Puts a file there.
    pub fn put_disk(&mut self, path: &str, image: Vec<u8>) {
        self.disks.insert(path.to_owned(), image);
    }

    fn deliver(&mut self, to: usize) {
        let socket = &mut self.sockets[to];
        if socket.inbox.is_empty() {
            return;
        }
        let Some((mut buffer, token)) = socket.receive.take() else {
            return;
        };
        let mut bytes = 0;
        while let Some(piece) = socket.inbox.front_mut()
            && bytes < buffer.len()
        {
            let count = piece.len().min(buffer.len() - bytes);
            buffer[bytes..bytes + count].copy_from_slice(&piece[..count]);
            bytes += count;
            piece.skip(count);
            if piece.is_empty() {
                socket.inbox.pop_front();
            }
        }
        let result = Ok(bytes);
        let outcome = Outcome::Received { buffer, result };
        self.ready[socket.owner].push(Completion { token, outcome });
    }
}

/// One core's.
pub struct MemoryDriver {
    net: Rc<RefCell<Net>>,
    core: usize,
    pool: Pool,
    started: Instant,
    now: Time,
    timers: Timers,
    files: Vec<Vec<u8>>,
    /// Are written bytes kept? Where nobody reads them, copying them would be measured instead of the software.
    pub keeps_data: bool,
    /// Calls that a kernel would have got, by kind: sends, receives, reads, writes.
    pub calls: [u64; 4],
}

impl MemoryDriver {
    pub fn new(net: &Rc<RefCell<Net>>, started: Instant) -> MemoryDriver {
        let core = net.borrow().ready.len();
        net.borrow_mut().ready.push(Vec::new());
        MemoryDriver {
            net: net.clone(),
            core,
            pool: Pool::new(PoolConfig::with_total(POOL_BYTES)).expect("memory for the buffers"),
            started,
            now: Time(1),
            timers: Timers::new(),
            files: Vec::new(),
            keeps_data: true,
            calls: [0; 4],
        }
    }

    /// Has anything completed, or a timer come?
    pub fn is_ready(&self) -> bool {
        let now = self.clock();
        !self.net.borrow().ready[self.core].is_empty() || self.timers.deadline().is_some_and(|at| at <= now)
    }

    fn clock(&self) -> Time {
        Time(self.started.elapsed().as_nanos() as u64 + 1)
    }

    fn complete(&self, token: Token, outcome: Outcome) {
        self.net.borrow_mut().ready[self.core].push(Completion { token, outcome });
    }
}

impl Driver for MemoryDriver {
    fn now(&self) -> Time {
        self.now
    }

    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn open(&mut self, path: &Path) -> io::Result<(FileId, FileInfo)> {
        let disk = self.net.borrow_mut().disks.remove(&path.display().to_string());
        let disk = disk.ok_or(io::ErrorKind::NotFound)?;
        let info = FileInfo {
            size_bytes: disk.len() as u64,
            alignment: 1,
            volatile_cache: false,
            inline: true,
            discard: false,
            discard_makes_holes: false,
            holes: false,
        };
        self.files.push(disk);
        Ok((FileId(self.files.len() as u32 - 1), info))
    }

    fn read(&mut self, file: FileId, offset: u64, mut buffer: BufMut, token: Token) {
        self.calls[2] += 1;
        let bytes = buffer.len();
        buffer.copy_from_slice(&self.files[file.0 as usize][offset as usize..][..bytes]);
        let result = Ok(());
        self.complete(token, Outcome::Read { buffer, result });
    }

    fn write(&mut self, file: FileId, offset: u64, data: Segments, token: Token) {
        self.calls[3] += 1;
        if self.keeps_data {
            let mut at = offset as usize;
            for piece in &data {
                self.files[file.0 as usize][at..at + piece.len()].copy_from_slice(piece);
                at += piece.len();
            }
        }
        let result = Ok(());
        self.complete(token, Outcome::Written { data, result });
    }

    fn flush(&mut self, _: FileId, token: Token) {
        self.complete(token, Outcome::Flushed { result: Ok(()) });
    }

    fn discard(&mut self, _: FileId, _: u64, _: u64, token: Token) {
        let result = Err(io::ErrorKind::Unsupported.into());
        self.complete(token, Outcome::Discarded { result });
    }

    fn listen(&mut self, address: SocketAddr, token: Token) -> io::Result<(ListenerId, SocketAddr)> {
        self.net.borrow_mut().listeners.insert(address, (self.core, token));
        Ok((ListenerId(0), address))
    }

    fn connect(&mut self, address: SocketAddr, token: Token) {
        let mut net = self.net.borrow_mut();
        let Some(&(owner, accepts)) = net.listeners.get(&address) else {
            drop(net);
            let result = Err(io::ErrorKind::ConnectionRefused.into());
            return self.complete(token, Outcome::Connected { result });
        };
        let first = net.sockets.len();
        for (owner, peer) in [(self.core, first + 1), (owner, first)] {
            net.sockets.push(Socket {
                owner,
                peer,
                inbox: VecDeque::with_capacity(1 << 10),
                receive: None,
            });
        }
        let outcome = Outcome::Accepted {
            socket: SocketId(first as u64 + 1),
            peer: address,
        };
        let token_of_accept = accepts;
        net.ready[owner].push(Completion {
            token: token_of_accept,
            outcome,
        });
        drop(net);
        let result = Ok(SocketId(first as u64));
        self.complete(token, Outcome::Connected { result });
    }

    fn send(&mut self, socket: SocketId, data: Segments, token: Token) {
        self.calls[0] += 1;
        let mut net = self.net.borrow_mut();
        let peer = net.sockets[socket.0 as usize].peer;
        net.sockets[peer].inbox.extend(data.iter().cloned());
        net.deliver(peer);
        drop(net);
        self.complete(token, Outcome::Sent { data, result: Ok(()) });
    }

    fn receive(&mut self, socket: SocketId, buffer: BufMut, token: Token) {
        self.calls[1] += 1;
        let mut net = self.net.borrow_mut();
        net.sockets[socket.0 as usize].receive = Some((buffer, token));
        net.deliver(socket.0 as usize);
    }

    fn close(&mut self, socket: SocketId) {
        panic!("nothing closes {socket:?} here");
    }

    fn watch_peer(&mut self, _: SocketId, _: Duration) {}

    fn abort(&mut self, socket: SocketId) {
        self.close(socket);
    }

    fn timer(&mut self, at: Time, token: Token) -> TimerId {
        self.timers.arm(at, token)
    }

    fn cancel_timer(&mut self, timer: TimerId) {
        self.timers.cancel(timer);
    }

    fn poll(&mut self, _: Wait, completions: &mut Vec<Completion>) {
        completions.append(&mut self.net.borrow_mut().ready[self.core]);
        self.now = self.clock();
        while let Some(token) = self.timers.expire(self.now) {
            let outcome = Outcome::Timer;
            completions.push(Completion { token, outcome });
        }
    }

    fn finished(&mut self, completions: &mut Vec<Completion>) {
        // What the files did is done at once; what the sockets did comes from elsewhere.
        let ready = &mut self.net.borrow_mut().ready[self.core];
        completions.extend(ready.extract_if(.., |done| {
            matches!(
                done.outcome,
                Outcome::Read { .. } | Outcome::Written { .. } | Outcome::Flushed { .. }
            )
        }));
    }

    fn refresh(&mut self) {
        self.now = self.clock();
    }

    fn waker(&self) -> Waker {
        Waker::idle()
    }
}
