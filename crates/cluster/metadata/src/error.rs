//! What can go wrong, told apart by what the caller must do next.

use crate::call::{LeaseId, MAX_CALL_BYTES, MAX_OPS};

/// Why a call to the metadata failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The call was surely *not* done: no server could be reached, or it said so before doing anything. Try again later.
    #[error("the metadata service is not available: {what}; nothing was changed. Check that it runs at {endpoints}")]
    Unavailable {
        what: String,
        /// The endpoints that were tried.
        endpoints: String,
    },
    /// The call *may* have been done: it was sent, and no answer came back. Read back what it would have changed before
    /// anything is built on either outcome (rule R6: a timed-out compare-and-set is read back).
    #[error("no answer from the metadata service at {endpoint}: {what}; the change may or may not have been made")]
    Unknown {
        what: String,
        /// Whom it was sent to.
        endpoint: String,
    },
    /// The server refused it, and would again: nothing was changed.
    #[error("the metadata service refused: {reason}")]
    Refused { reason: Refusal },
    /// Our own settings do not allow it: nothing was sent, and no server was asked.
    #[error("{why}")]
    Setting { why: String },
}

impl From<Refusal> for Error {
    fn from(reason: Refusal) -> Error {
        Error::Refused { reason }
    }
}

/// Why a server does not do what it is asked. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The history from that revision on is no longer kept: read everything anew and watch from there.
    #[error("the history up to revision {compacted} has been compacted; read the keys anew and watch from there")]
    Compacted {
        /// Everything up to here is gone.
        compacted: u64,
    },
    /// The server is behind what it told before, and stays there.
    #[error("the server is at revision {found}, and has told of revision {seen} before; read the keys anew")]
    WentBack {
        /// The newest revision that it told of.
        seen: u64,
        /// Where it is now.
        found: u64,
    },
    /// A revision that does not exist yet.
    #[error("revision {asked} lies in the future; the newest is {revision}")]
    FutureRevision {
        /// The one asked for.
        asked: u64,
        /// The newest.
        revision: u64,
    },
    /// The lease has expired or was revoked, or never was.
    #[error("lease {0} does not exist (it has expired or was revoked); grant a new one")]
    LeaseNotFound(LeaseId),
    /// A lease with that number exists.
    #[error("lease {0} exists already; choose another number")]
    LeaseExists(LeaseId),
    /// A time to live that is zero or absurd.
    #[error("a lease of {ttl_s} s is not possible; choose 1 to {} s", crate::model::MAX_TTL_S)]
    BadTtl {
        /// What was asked for.
        ttl_s: u64,
    },
    /// More leases than the server holds.
    #[error("{leases} leases exist, and more are not kept; revoke some")]
    TooManyLeases {
        /// How many there are.
        leases: usize,
    },
    /// A branch writes the key twice.
    #[error("the transaction changes key {key:?} twice; merge the two")]
    DuplicateKey { key: String },
    /// A key of no bytes.
    #[error("an empty key")]
    EmptyKey,
    /// More compares or operations than a transaction may have.
    #[error("{ops} operations in one transaction; at most {MAX_OPS}: cut it in parts")]
    TooManyOps { ops: usize },
    /// More bytes than a transaction may have.
    #[error("{bytes} bytes in one transaction; at most {MAX_CALL_BYTES}: cut it in parts")]
    TooLarge { bytes: usize },
    /// A record that this build cannot read.
    #[error("the record {key} is not readable: {what}; it was written by a newer version or by hand")]
    BadRecord { key: String, what: String },
    /// Anything else that a server says.
    #[error("{code}: {message}")]
    Server {
        /// The gRPC status.
        code: String,
        /// Its words.
        message: String,
    },
}
