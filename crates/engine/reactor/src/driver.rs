//! The one set of operations that everything above runs on. It has two faces: the kernel's `io_uring`
//! ([`crate::uring`]) and a simulation with virtual time ([`crate::sim`]).
//!
//! An operation is started with a [`Token`] and ends in exactly one [`Completion`] that carries the token and gives
//! back the buffers (an accept ends once per connection, until its listener is closed). Started operations go to the
//! kernel together, at the next [`Driver::poll`]: that is where a pass ends and the next begins.
#![warn(missing_docs)]

use crate::admission::AcceptLimits;
use crate::buf::{BufMut, Pool, Segments};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

/// A moment: nanoseconds of a monotonic clock, one for all drivers of a process, whose zero is the start of its first one (virtual in the
/// simulation).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// The moment `after` later.
    #[must_use]
    pub fn plus(self, after: Duration) -> Time {
        Time(self.0.saturating_add(after.as_nanos() as u64))
    }

    /// How long ago `earlier` was; zero when it is later.
    #[must_use]
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Chosen by whoever starts an operation; comes back with its completion. The reactor does not look inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

/// An open file or block device of this driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId(pub u32);

/// A connected stream of this driver. Never reused for another while the driver lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SocketId(pub u64);

/// A listening socket of this driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId(pub u32);

/// Who connected to a Unix socket, as the kernel says it (`SO_PEERCRED`): as it was when that process called `connect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalPeer {
    /// The number of its user.
    pub user: u32,
    /// The number of its process.
    pub process: u32,
}

/// What is known of an open file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Bytes.
    pub size_bytes: u64,
    /// Offsets, lengths and memory of reads and writes are multiples of this (512 or 4096 with `O_DIRECT`, else 1).
    pub alignment: u32,
    /// Must a write be flushed before it survives a power cut? (`queue/write_cache` of the device beneath, for a file
    /// too; true for a file with [`holes`](FileInfo::holes), whatever its device; false on memory.)
    pub volatile_cache: bool,
    /// Reads and writes complete inline: the backing is memory.
    pub inline: bool,
    /// Can [`Driver::discard`] do anything here? (`queue/discard_max_bytes` of a block device; a file system that can
    /// punch holes beneath a file.) False where it cannot be found out.
    pub discard: bool,
    /// Does a discard leave a hole (the backing is a regular file)? From the first one on, a write into a discarded range
    /// is durable only after a flush, whatever `volatile_cache` said at the start (rule D3). False on memory.
    pub discard_makes_holes: bool,
    /// Had the file, when it was opened, a place that a write would first have to be given, or to be converted: one that
    /// is missing, allocated and not written, or shared? Such a write is durable only after a flush, because the file
    /// system notes it in its journal later (rule D3). True where it cannot be found out; false on a block device and on
    /// memory.
    pub holes: bool,
}

/// What ended.
#[derive(Debug)]
pub struct Completion {
    /// The token that the operation was started with.
    pub token: Token,
    /// How it ended.
    pub outcome: Outcome,
}

/// How an operation ended.
#[derive(Debug)]
pub enum Outcome {
    /// A file read: all of the buffer was filled, or an error (a short read is an error, `UnexpectedEof`).
    Read {
        /// The memory that was given; its contents mean something only after `Ok`.
        buffer: BufMut,
        /// Whole, or not at all.
        result: io::Result<()>,
    },
    /// A file write: all of it, or an error of which nothing can be said about what was written.
    Written {
        /// The segments that were given, for reuse of the vector.
        data: Segments,
        /// Whole, or unknown.
        result: io::Result<()>,
    },
    /// A flush: every write completed before its start is durable, or an error.
    Flushed {
        /// After an error nothing is known of any write since the last good flush.
        result: io::Result<()>,
    },
    /// A discard: the device was told, or an error.
    Discarded {
        /// `Unsupported` where the backing cannot do it: then nothing happened. After any other error nothing is known
        /// of the range, as after success.
        result: io::Result<()>,
    },
    /// A connection came in on the listener whose token this is.
    Accepted {
        /// The new stream (with `TCP_NODELAY`).
        socket: SocketId,
        /// Who connected.
        peer: SocketAddr,
    },
    /// A connection came in on the Unix socket whose token this is.
    AcceptedLocal {
        /// The new stream.
        socket: SocketId,
        /// Who connected.
        peer: LocalPeer,
    },
    /// Accepting ended with an error (too many files, say); the driver goes on with it.
    AcceptFailed {
        /// Why.
        error: io::Error,
    },
    /// A connection was made, or not.
    Connected {
        /// The new stream; `ConnectionRefused` where surely nobody listens.
        result: io::Result<SocketId>,
    },
    /// All segments are with the kernel, or the connection is broken. The emptied vector comes back for reuse.
    Sent {
        /// The segments that were given, for reuse of the vector.
        data: Segments,
        /// All of them, or the stream is of no more use.
        result: io::Result<()>,
    },
    /// Bytes came in, at the front of the buffer; `Ok(0)` where the peer has ended its direction.
    Received {
        /// The memory that was given.
        buffer: BufMut,
        /// How many bytes came in, at the buffer's front.
        result: io::Result<usize>,
    },
    /// A timer's time has come.
    Timer,
    /// Another thread woke this core (see [`crate::mailbox`]); mailboxes are to be drained.
    Woken,
}

/// For how long [`Driver::poll`] may wait when nothing has completed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all: there is work left.
    No,
    /// Until something completes (timers count).
    UntilEvent,
}

/// How often a driver has done what costs, since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriverCounts {
    /// Calls of [`Driver::poll`].
    pub polls: u64,
    /// System calls that hand operations to the kernel, or wait for their ends (`io_uring_enter`).
    pub enters: u64,
    /// Reads and writes of files that the core did by itself, each a system call or more.
    pub file_calls: u64,
    /// How often it gave way before it blocked (`sched_yield`).
    pub yields: u64,
    /// How often it blocked.
    pub blocks: u64,
    /// For how long in all, in nanoseconds.
    pub blocked_ns: u64,
    /// Processor time of the core's thread, in nanoseconds.
    pub cpu_ns: u64,
    /// What listeners did.
    pub accepts: AcceptCounts,
}

/// What the kernel has counted of the way of a connection, since it was made. Losses are those of the direction in which this end
/// sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathCounts {
    /// Segments with data that were sent, those that were sent again included.
    pub sent: u32,
    /// Segments that were sent again.
    pub resent: u32,
    /// Of those: the peer has said that it had them twice (D-SACK), so that nothing was lost.
    pub doubled: u32,
    /// The smoothed round trip, in microseconds.
    pub round_trip_us: u32,
    /// The shortest round trip of the last minutes, in microseconds; 0: none was seen yet.
    pub least_us: u32,
}

/// What the listeners of a driver did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceptCounts {
    /// Connections that were taken.
    pub taken: u64,
    /// Closed at once, because more came than may ([`Driver::limit_accepts`]).
    pub refused: u64,
    /// How often somebody was kept from connecting for a while.
    pub pauses: u64,
    /// Addresses that may go on connecting meanwhile, and that the kernel had no room for: they wait with everybody else.
    pub left_out: u64,
}

impl AcceptCounts {
    /// Both together.
    #[must_use]
    pub fn and(self, other: AcceptCounts) -> AcceptCounts {
        AcceptCounts {
            taken: self.taken + other.taken,
            refused: self.refused + other.refused,
            pauses: self.pauses + other.pauses,
            left_out: self.left_out + other.left_out,
        }
    }
}

/// The operations. One driver belongs to one core; nothing here is shared or locked.
///
/// Offsets and lengths are in bytes. No call blocks, except the ones that say so.
pub trait Driver {
    /// The time of this pass, read after its completions were; it moves only in [`Driver::poll`] and
    /// [`Driver::refresh`].
    fn now(&self) -> Time;

    /// The buffers of this core.
    fn pool(&self) -> &Pool;

    /// Opens a file or a block device for reading and writing, with `O_DIRECT` where the backing allows it, and takes
    /// an exclusive advisory lock. Blocks; for the start only.
    fn open(&mut self, path: &Path) -> io::Result<(FileId, FileInfo)>;

    /// Fills the whole buffer from `offset`.
    fn read(&mut self, file: FileId, offset: u64, buffer: BufMut, token: Token);

    /// Writes all segments, one after the other, from `offset`.
    fn write(&mut self, file: FileId, offset: u64, data: Segments, token: Token);

    /// Makes all writes that have completed durable.
    fn flush(&mut self, file: FileId, token: Token);

    /// Tells the device that `bytes` from `offset` (both multiples of [`FileInfo::alignment`]) are not needed. What they
    /// read as afterwards is undefined (what was there, zeros, anything; not even the same twice) until they are written
    /// again. It takes effect at any moment up to its completion, so nobody may read or write the range meanwhile (rule
    /// D6); and a power cut may undo it, unless a flush followed.
    ///
    /// For the background: it is slow on many devices, and on a file it holds up writes to that file (the file system
    /// locks it), so large ranges are better cut. Where [`FileInfo::discard`] is false it ends in `Unsupported`.
    fn discard(&mut self, file: FileId, offset: u64, bytes: u64, token: Token);

    /// Listens; each connection completes `token` with [`Outcome::Accepted`]. Port 0 takes a free one. Blocks shortly;
    /// for the start only. Returns the bound address.
    fn listen(&mut self, address: SocketAddr, token: Token) -> io::Result<(ListenerId, SocketAddr)>;

    /// Bounds how many connections a listener takes. Whoever would be above that is not let in, by the kernel where it can; what has come
    /// in all the same is closed, and completes nothing. To be said right after [`Driver::listen`]; without it there is no bound.
    fn limit_accepts(&mut self, listener: ListenerId, limits: AcceptLimits) {
        let _ = (listener, limits);
    }

    /// Says that an address is known at a listener, or is not any more: connections from there have a rate of their own.
    fn set_known(&mut self, listener: ListenerId, address: IpAddr, is_known: bool) {
        let _ = (listener, address, is_known);
    }

    /// Accepts at a Unix socket that listens already; each connection completes `token` with [`Outcome::AcceptedLocal`]. For the
    /// start only.
    ///
    /// # Errors
    /// A driver of a network alone has none (`Unsupported`).
    fn listen_local(&mut self, listener: UnixListener, token: Token) -> io::Result<ListenerId> {
        let _ = (listener, token);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Connects (with `TCP_NODELAY`); ends in [`Outcome::Connected`].
    fn connect(&mut self, address: SocketAddr, token: Token);

    /// Sends all segments in order. At most one send per socket may be under way: callers queue (see
    /// [`crate::stream::Outbox`]).
    fn send(&mut self, socket: SocketId, data: Segments, token: Token);

    /// Receives at least one byte into the buffer. At most one receive per socket may be under way.
    fn receive(&mut self, socket: SocketId, buffer: BufMut, token: Token);

    /// Has a receive that nothing has come for end with `Interrupted` and give its buffer back: for a connection that is quiet.
    /// It may end as any receive instead, and a driver whose memory has no bound need not do anything.
    fn cancel_receive(&mut self, socket: SocketId) {
        let _ = socket;
    }

    /// Has a connection break when the other end's machine has not answered for about so long while nothing is under way: it is
    /// asked. Without it that takes minutes. While something is, [`Driver::unheard`] says so. A process there that stands still is none
    /// that does not answer.
    fn watch_peer(&mut self, socket: SocketId, patience: Duration);

    /// For how long nothing has come from the other end's machine, while it is to acknowledge what was sent. `None`: it owes nothing,
    /// also because it has said that it has no room; or this driver breaks such connections by itself.
    fn unheard(&mut self, socket: SocketId) -> Option<Duration> {
        let _ = socket;
        None
    }

    /// What the kernel has counted of the way of this connection: a system call. `None`: it is no such connection, or this driver counts
    /// nothing.
    fn path(&mut self, socket: SocketId) -> Option<PathCounts> {
        let _ = socket;
        None
    }

    /// Closes: what is under way ends with an error completion; the id is dead at once.
    fn close(&mut self, socket: SocketId);

    /// Closes, and has nothing of what was sent and has not reached the other end reach it any more: for a connection that is
    /// given up, when what it carried goes by another one.
    fn abort(&mut self, socket: SocketId);

    /// Fires once at `at` (or at the next poll, if that has passed).
    fn timer(&mut self, at: Time, token: Token) -> TimerId;

    /// Forgets a timer; one that has fired already is not an error.
    fn cancel_timer(&mut self, timer: TimerId);

    /// Hands what was started to the kernel, waits as told, and moves all that has completed to `completions`. The
    /// time moves on.
    fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>);

    /// Moves what has ended at once, while it was started, to `completions` (which is empty): operations on files in memory.
    /// For a pass that wants to follow them up before it ends; else they come with the next poll.
    fn finished(&mut self, completions: &mut Vec<Completion>) {
        debug_assert!(completions.is_empty());
    }

    /// Reads the clock again: for what came by other ways than completions (mail of other cores), so that the time that
    /// goes with it is never older than it is.
    fn refresh(&mut self);

    /// How often it has done what costs. (A driver that costs nothing has nothing to count.)
    fn counts(&self) -> DriverCounts {
        DriverCounts::default()
    }

    /// A sender of wake-ups for other threads: `Woken` completes here after [`Waker::wake`].
    fn waker(&self) -> Waker;
}

pub use crate::timer::TimerId;
pub use crate::waker::Waker;

/// The error of opening a file that another process (or another store of this one) has open.
pub(crate) fn in_use(path: &Path) -> io::Error {
    let text = format!(
        "{}: in use by another process: a store is served by one process at a time",
        path.display()
    );
    io::Error::new(io::ErrorKind::ResourceBusy, text)
}
