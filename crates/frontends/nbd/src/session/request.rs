//! What NBD keeps with a request, and what its errors are called.

use crate::reply::Failure;
use crate::wire::Errno;
use amita_frontend::pieces::Pieces;
use amita_types::io::IoError;

/// How a request is answered, and how far that has come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Kind {
    /// By its verdict alone.
    #[default]
    Verdict,
    /// A read whose reply begins when all of it is in.
    Gather,
    /// A read that is answered by a chunk for each piece, in whatever order they come.
    Chunks,
    /// A read too long to gather, answered by a simple reply: its pieces leave in order as they come. `cursor`: those that
    /// are not submitted.
    Stream { cursor: Pieces },
    /// What each context says of a range, chunk by chunk, and of a chunk context by context.
    Status {
        /// The client wants one extent.
        one: bool,
        /// The first byte of the volume that is not asked for yet, and the place of the context that is asked for next.
        next: u64,
        asks: u16,
        /// Up to here extents are known, and the place of the context of which they come next.
        known: u64,
        tells: u16,
        /// One past the last byte to be told.
        end: u64,
    },
}

/// A request under way, beside what the engine knows of it.
#[derive(Debug, Default)]
pub(crate) struct Request {
    pub kind: Kind,
    pub cookie: u64,
    /// Bytes of its range.
    pub length: u32,
    /// For [`Kind::Status`]: lengths and flags, for each context. Gone when it is answered: what hundreds of slots kept would be megabytes.
    pub extents: Vec<Vec<(u32, u32)>>,
}

impl Request {
    /// Begins a new request where another one was: keeps its memory.
    pub fn begin(&mut self, kind: Kind, cookie: u64, length: u32) {
        self.kind = kind;
        self.cookie = cookie;
        self.length = length;
        self.extents.clear();
    }
}

/// The volume was closed to hosts. It ends the session as well: whoever opens it again is told how it is then.
pub(super) const CLOSED: Failure = Failure::new(
    Errno::Shutdown,
    "the volume is closed to hosts: the other end of its mirror is written",
);

/// The error of the protocol for an error of the volume ("Error values").
pub(super) fn failure_of(error: IoError) -> Failure {
    let (errno, message) = match error {
        IoError::NoSpace => (
            Errno::NoSpc,
            "no space left on a store that holds this part of the volume",
        ),
        IoError::ReadOnly => (Errno::Perm, "the volume is open for reading only"),
        IoError::OutOfRange | IoError::Invalid => (Errno::Inval, "the volume refused the range"),
        IoError::Lost => (Errno::Shutdown, "the volume is no longer served here"),
        IoError::Closed => return CLOSED,
        IoError::Unavailable => (Errno::Io, "no copy of this part of the volume can be reached"),
        IoError::Damaged => (Errno::Io, "no intact copy of this part of the volume was found"),
        IoError::Busy => (Errno::Io, "the volume was busy for too long"),
        _ => (Errno::Io, "input/output error"),
    };
    Failure::new(errno, message)
}
