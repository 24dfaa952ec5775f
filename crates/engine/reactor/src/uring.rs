//! The driver over the kernel's `io_uring`.
//!
//! A pass of the core above starts operations; [`Driver::poll`] hands all of them over with one system call and
//! collects what has completed. Around that stand the measures that keep a pass cheap (measured in
//! `docs/decisions/001-driver.md`):
//!
//! * Sends carry everything for their peer as one vector; the kernel goes on by itself after a short one.
//! * Receives go straight into the caller's buffer. After one that emptied the socket the next waits for more
//!   before it tries.
//! * Files in memory are read and written at once, without the ring (which would hand them to a worker thread), and
//!   complete at the next poll; if nothing urgent was started meanwhile, that poll does not enter the kernel.
//! * Discards of a file are a hole that the ring punches; those of a block device have a thread (`discard`).
//! * Before it blocks, a core gives way for a moment, as long as that has paid lately (`pace`).
//!
//! Memory that the kernel may look at is owned by `ring`; the other unsafe leaves are `sys` and `map`. This file has
//! none.

mod discard;
mod doorbell;
mod file;
mod filter;
mod guard;
mod listener;
#[allow(unsafe_code)]
mod map;
mod pace;
#[allow(unsafe_code)]
mod ring;
mod socket;
#[allow(unsafe_code)]
mod sys;
mod transfer;

pub use doorbell::Doorbell;
pub use guard::Guard;

use crate::admission::AcceptLimits;
use crate::buf::{BufMut, Pool, Segments};
use crate::driver::{
    Completion, Driver, DriverCounts, FileId, FileInfo, ListenerId, Outcome, PathCounts, SocketId, Time, TimerId,
    Token, Wait, Waker,
};
use crate::timer::Timers;
use crate::waker::Kick;
use discard::Discarder;
use file::{Opened, Way};
use listener::Listener;
use pace::Pace;
use ring::{Payload, Reaped, Ring, RingSettings, Target, Verb};
use socket::Sockets;
use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Polls in a row that may return inline completions without handing started operations over.
const MAX_HELD_BACK: u32 = 2;

/// Settings of a driver.
#[derive(Clone, Debug)]
pub struct UringConfig {
    /// Deliver completions only when the core asks (`DEFER_TASKRUN`) instead of at any system call.
    pub defer_taskrun: bool,
    /// After a receive that emptied the socket, let the next wait before it tries.
    pub poll_first: bool,
    /// Register the pool's memory with the kernel when the first file is opened for direct I/O.
    pub register_buffers: bool,
    /// Keep sockets and files in the ring's table. It brought nothing measurable, and it has a price: the table of a
    /// process that was killed is emptied late, so its peers learn of its death after 25 to 60 ms instead of 5, and its
    /// store stays locked as long.
    pub register_files: bool,
    /// Sends of at least so many bytes go without a copy. None: never; on loopback copying is cheaper at any size.
    pub zero_copy_bytes: Option<usize>,
    /// Reads and writes of files in memory (or in the kernel's cache) of at most so many bytes are done at once, by the
    /// core itself; larger ones by a worker of the kernel, so that none holds up the core for long (1 MiB takes about
    /// 100 us).
    pub inline_bytes: usize,
    /// Map files that are in memory, instead of reading and writing them by calls.
    pub map_files: bool,
    /// How often to give way before blocking, at most; 0: never.
    pub yields: u32,
    /// So many reads and writes of a device go to the kernel together, without waiting for the pass to end: the device
    /// begins with them while the core starts more. 0: all of them at the end of the pass.
    pub device_batch: usize,
    /// Writes to a disk with a volatile cache go through it, each by itself, so that whoever writes need not flush
    /// ([`FileInfo::volatile_cache`] is false then). Off: with a processor to itself the store is faster by flushes
    /// that its batches share (docs/benchmarks/store.md); where processors are crowded, writes that go through win.
    pub write_through: bool,
}

impl Default for UringConfig {
    fn default() -> UringConfig {
        UringConfig {
            defer_taskrun: false,
            poll_first: true,
            register_buffers: true,
            register_files: false,
            zero_copy_bytes: None,
            inline_bytes: 1 << 20,
            map_files: true,
            yields: 1000,
            device_batch: 8,
            write_through: false,
        }
    }
}

/// When the first driver of this process was made: all of them count their time from there, so that cores can compare.
static STARTED: OnceLock<u64> = OnceLock::new();

/// What an operation of the ring belongs to.
enum Meta {
    Receive {
        socket: SocketId,
        token: Token,
    },
    Send {
        socket: SocketId,
        token: Token,
        total: usize,
        done: usize,
        zero_copy: bool,
        error: Option<io::Error>,
        /// Polls before it was started.
        polls: u64,
    },
    Connect {
        socket: SocketId,
        token: Token,
    },
    Accept {
        listener: u32,
    },
    Read {
        file: u32,
        token: Token,
        total: usize,
        done: usize,
        bounce: Option<BufMut>,
    },
    Write {
        file: u32,
        token: Token,
        total: usize,
        done: usize,
        bounce: Option<Segments>,
    },
    Flush {
        token: Token,
    },
    Discard {
        file: u32,
        token: Token,
    },
    Wake,
}

struct OpenFile {
    /// Shared with the thread that discards.
    file: Arc<File>,
    target: Target,
    way: Way,
    is_device: bool,
    /// Of a file in memory.
    map: Option<map::Map>,
}

struct EventFile(OwnedFd);

impl Kick for Arc<EventFile> {
    fn kick(&self) {
        sys::signal(&self.0);
    }
}

/// A driver of one core. It may be made on one thread and used on another; the thread that polls first keeps it.
pub struct UringDriver {
    // First, so that it is dropped first: the kernel lets go of everything before files, sockets and memory go.
    ring: Ring<Meta>,
    sockets: Sockets,
    listeners: Vec<Listener>,
    /// When one of them is next to be looked at, if any is.
    listeners_due: Option<Time>,
    files: Vec<OpenFile>,
    discarder: Option<Discarder>,
    timers: Timers,
    /// In nanoseconds of the machine's clock.
    started: u64,
    now: Time,
    pool: Pool,
    config: UringConfig,
    waker: Waker,
    event_file: Arc<EventFile>,
    wake_armed: bool,
    pace: Pace,
    /// Completions that did not come from the ring.
    ready: Vec<Completion>,
    /// A descriptor that is held for the moment when no other is left: see [`UringDriver::turn_away`].
    spare: Option<OwnedFd>,
    reaped: Vec<Reaped>,
    vectors: sys::Vectors,
    /// Of what this poll has collected, sends that ended as they were handed over, which nobody waits for.
    sent_at_once: usize,
    /// It gave way while only those were there, and nothing came: the wait that follows is the same one.
    in_vain: bool,
    /// Somebody waits for what was started: a peer, a device.
    urgent: bool,
    held_back: u32,
    /// Reads and writes of devices that were started and not handed over yet.
    device_started: usize,
    counts: DriverCounts,
}

impl UringDriver {
    /// Sets a ring up, over the memory of `pool`. An error says what the kernel refuses.
    pub fn new(config: UringConfig, pool: Pool) -> io::Result<UringDriver> {
        let event_file = Arc::new(EventFile(sys::event_file()?));
        Ok(UringDriver {
            ring: Ring::new(RingSettings {
                defer_taskrun: config.defer_taskrun,
            })?,
            sockets: Sockets::default(),
            listeners: Vec::new(),
            listeners_due: None,
            files: Vec::new(),
            discarder: None,
            timers: Timers::new(),
            started: *STARTED.get_or_init(sys::clock_ns),
            now: Time(0),
            pool,
            config,
            waker: Waker::new(Box::new(event_file.clone())),
            event_file,
            wake_armed: false,
            pace: Pace::default(),
            ready: Vec::new(),
            spare: sys::event_file().ok(),
            reaped: Vec::new(),
            vectors: sys::Vectors::default(),
            sent_at_once: 0,
            in_vain: false,
            urgent: false,
            held_back: 0,
            device_started: 0,
            counts: DriverCounts::default(),
        })
    }

    fn update_time(&mut self) {
        self.now = Time(sys::clock_ns().saturating_sub(self.started));
    }

    fn complete(&mut self, token: Token, outcome: Outcome) {
        self.ready.push(Completion { token, outcome });
    }

    /// Keeps the event file watched, so that a waker can end a block.
    fn arm_wake(&mut self) {
        if !self.wake_armed {
            let target = Target {
                descriptor: self.event_file.0.as_raw_fd(),
                registered: None,
            };
            self.ring.start(Verb::Wake, target, Payload::None, Meta::Wake);
            self.wake_armed = true;
        }
    }

    /// Moves everything that has happened to `completions`.
    fn collect(&mut self, completions: &mut Vec<Completion>) {
        let mut reaped = std::mem::take(&mut self.reaped);
        self.ring.reap(&mut reaped);
        for event in reaped.drain(..) {
            self.ended(event);
        }
        self.reaped = reaped;
        self.collect_discards();
        completions.append(&mut self.ready);
        if self.waker.take_note() {
            completions.push(Completion {
                token: Token::default(),
                outcome: Outcome::Woken,
            });
        }
    }

    fn fire_timers(&mut self, completions: &mut Vec<Completion>) {
        if self.timers.deadline().is_some_and(|at| at <= self.now) {
            while let Some(token) = self.timers.expire(self.now) {
                completions.push(Completion {
                    token,
                    outcome: Outcome::Timer,
                });
            }
        }
    }

    /// How long a block may take.
    fn limit(&self) -> Option<Duration> {
        let next = self.listeners_due.into_iter().chain(self.timers.deadline()).min()?;
        Some(next.since(self.now))
    }

    /// Gives way for a moment, where that pays; has more come meanwhile?
    fn give_way(&mut self, completions: &mut Vec<Completion>) -> bool {
        let before = completions.len();
        self.pace.begin();
        while self.pace.should_yield(self.config.yields) {
            self.pace.give_way();
            self.counts.yields += 1;
            // The kernel has run what it had for this ring on the way back; if not, it says so.
            if self.ring.has_deferred() {
                self.submit();
            }
            self.collect(completions);
            if completions.len() > before {
                self.pace.found();
                return true;
            }
        }
        false
    }

    /// Gives way for a moment and then blocks, until there is something.
    fn wait(&mut self, completions: &mut Vec<Completion>) {
        if !std::mem::take(&mut self.in_vain) && self.give_way(completions) {
            return self.update_time();
        }
        self.update_time();
        let limit = self.limit();
        if limit == Some(Duration::ZERO) || !self.waker.fall_asleep() {
            return;
        }
        let before = self.now;
        if let Err(error) = self.ring.wait(limit) {
            panic!("io_uring_enter: {error}"); // the ring is broken: nothing can complete any more
        }
        self.waker.awake();
        self.update_time();
        let blocked = self.now.since(before);
        self.counts.blocks += 1;
        self.counts.blocked_ns += blocked.as_nanos() as u64;
        self.pace.blocked(blocked);
    }

    fn submit(&mut self) {
        if let Err(error) = self.ring.submit() {
            panic!("io_uring_enter: {error}"); // as above
        }
    }

    /// One completion of the ring.
    fn ended(&mut self, event: Reaped) {
        let result = match event.result {
            error if error < 0 => Err(io::Error::from_raw_os_error(-error)),
            count => Ok(count as usize),
        };
        match self.ring.meta(event.slot) {
            Some(Meta::Receive { .. }) => self.receive_ended(event, result),
            Some(Meta::Send { .. }) => self.send_ended(event, result),
            Some(Meta::Connect { .. }) => self.connect_ended(event, result),
            Some(Meta::Accept { .. }) => self.accept_ended(event, result),
            Some(Meta::Read { .. }) => self.read_ended(event, result),
            Some(Meta::Write { .. }) => self.write_ended(event, result),
            Some(Meta::Flush { token }) => {
                let token = *token;
                self.ring.take(event.slot);
                self.complete(
                    token,
                    Outcome::Flushed {
                        result: result.map(drop),
                    },
                );
            }
            Some(Meta::Discard { .. }) => self.discard_ended(event, result),
            Some(Meta::Wake) => {
                self.ring.take(event.slot);
                self.wake_armed = false;
            }
            None => panic!("a completion of an operation that has ended"),
        }
    }
}

/// Errors after which the same operation is simply tried again.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN))
}

impl Driver for UringDriver {
    fn now(&self) -> Time {
        self.now
    }

    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn open(&mut self, path: &Path) -> io::Result<(FileId, FileInfo)> {
        let Opened {
            file,
            info,
            way,
            is_device,
        } = file::open(path, self.config.write_through)?;
        if matches!(way, Way::Direct { .. }) && self.config.register_buffers {
            self.ring.register_arena(&self.pool);
        }
        let target = self
            .sockets
            .target(&mut self.ring, file.as_raw_fd(), self.config.register_files);
        // Where it cannot be mapped (no address space left, say), calls do as well.
        let map = (way == Way::Memory && self.config.map_files).then(|| map::Map::new(&file, info.size_bytes).ok());
        self.files.push(OpenFile {
            map: map.flatten(),
            file: Arc::new(file),
            target,
            way,
            is_device,
        });
        Ok((FileId((self.files.len() - 1) as u32), info))
    }

    fn read(&mut self, file: FileId, offset: u64, buffer: BufMut, token: Token) {
        self.start_read(file, offset, buffer, token);
    }

    fn write(&mut self, file: FileId, offset: u64, data: Segments, token: Token) {
        self.start_write(file, offset, data, token);
    }

    fn flush(&mut self, file: FileId, token: Token) {
        self.start_flush(file, token);
    }

    fn discard(&mut self, file: FileId, offset: u64, bytes: u64, token: Token) {
        self.start_discard(file, offset, bytes, token);
    }

    fn listen(&mut self, address: SocketAddr, token: Token) -> io::Result<(ListenerId, SocketAddr)> {
        let (listener, bound) = Listener::bind(address, token)?;
        let index = self.listeners.len() as u32;
        self.listeners.push(listener);
        self.accept(index);
        Ok((ListenerId(index), bound))
    }

    fn limit_accepts(&mut self, listener: ListenerId, limits: AcceptLimits) {
        self.limit_listener(listener, limits);
    }

    fn set_known(&mut self, listener: ListenerId, address: IpAddr, is_known: bool) {
        self.set_known_at(listener, address, is_known);
    }

    fn listen_local(&mut self, listener: UnixListener, token: Token) -> io::Result<ListenerId> {
        let index = self.listeners.len() as u32;
        self.listeners.push(Listener::local(listener, token)?);
        self.accept(index);
        Ok(ListenerId(index))
    }

    fn connect(&mut self, address: SocketAddr, token: Token) {
        self.start_connect(address, token);
    }

    fn send(&mut self, socket: SocketId, data: Segments, token: Token) {
        self.start_send(socket, data, token);
    }

    fn receive(&mut self, socket: SocketId, buffer: BufMut, token: Token) {
        self.start_receive(socket, buffer, token);
    }

    fn cancel_receive(&mut self, socket: SocketId) {
        self.cancel_receive_of(socket);
    }

    fn close(&mut self, socket: SocketId) {
        self.close_socket(socket);
    }

    fn watch_peer(&mut self, socket: SocketId, patience: Duration) {
        self.watch_socket(socket, patience);
    }

    fn unheard(&mut self, socket: SocketId) -> Option<Duration> {
        self.unheard_of(socket)
    }

    fn path(&mut self, socket: SocketId) -> Option<PathCounts> {
        self.path_of(socket)
    }

    fn abort(&mut self, socket: SocketId) {
        self.abort_socket(socket);
    }

    fn timer(&mut self, at: Time, token: Token) -> TimerId {
        self.timers.arm(at, token)
    }

    fn cancel_timer(&mut self, timer: TimerId) {
        self.timers.cancel(timer);
    }

    fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>) {
        self.counts.polls += 1;
        self.sent_at_once = 0;
        self.update_time();
        self.arm_wake();
        self.look_at_listeners();
        // What completed inline is handled first, unless somebody waits for what was started: it may start more, and
        // then all of it goes with one call.
        let hold_back = !self.ready.is_empty() && !self.urgent && self.held_back < MAX_HELD_BACK;
        if hold_back {
            self.held_back += 1;
        } else {
            self.held_back = 0;
            self.urgent = false;
            self.device_started = 0;
            if self.ring.has_unsubmitted() || self.ring.has_deferred() {
                self.in_vain = false;
                self.submit();
            }
        }
        self.collect(completions);
        self.fire_timers(completions);
        if wait == Wait::UntilEvent && self.sent_at_once > 0 && self.sent_at_once == completions.len() {
            // That what was just sent has gone is worth no pass of its own, if an answer comes soon.
            self.in_vain = !self.give_way(completions);
        }
        while wait == Wait::UntilEvent && completions.is_empty() {
            self.wait(completions);
            self.collect(completions);
            self.fire_timers(completions);
            self.look_at_listeners();
            if completions.is_empty() && (!self.wake_armed || self.ring.has_unsubmitted()) {
                self.arm_wake();
                self.submit();
            }
        }
        // The time that goes with completions is never older than they are. A process that was frozen in between would
        // else weigh leases by a time before their answers came, and serve what is stale (R4).
        self.update_time();
    }

    fn finished(&mut self, completions: &mut Vec<Completion>) {
        if !self.ready.is_empty() {
            std::mem::swap(&mut self.ready, completions);
            // As at the end of a poll.
            self.update_time();
        }
    }

    fn refresh(&mut self) {
        self.update_time();
    }

    fn counts(&self) -> DriverCounts {
        DriverCounts {
            enters: self.ring.enters(),
            cpu_ns: sys::thread_cpu_ns(),
            accepts: self.accept_counts(),
            ..self.counts
        }
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

#[cfg(test)]
mod tests;
