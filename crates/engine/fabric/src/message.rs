//! What travels on a link.

use amita_types::message::{Answer, Request};
use amita_types::{Generation, SetId, SnapshotId, VolumeId};

/// What one node says to another on a link. Bulk data travels beside it, never inside.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// A sequencer's, to a store of the peer. On outgoing links only.
    Request(Request),
    /// A store's, to a sequencer of the peer. On incoming links only.
    Answer(Answer),
    /// One gateway asks the other to give up a volume, so that it can take it over without waiting for leases to run
    /// out (R10). In both directions of every link.
    Release {
        /// Comes back with the answer.
        tag: u64,
        volume: VolumeId,
        /// The generation that the asker has seen in the metadata: an owner of a newer one is not meant.
        generation: Generation,
        /// The operator wants the volume to move: the owner ends what it has under way, holds back what comes, and
        /// gives the volume up though hosts use it.
        hand_over: bool,
    },
    /// What a host asked one gateway for, to be carried out by the volume's owner. On outgoing links only.
    Forward(Forward),
    /// The answer to [`Message::Forward`]. On incoming links only.
    Forwarded(Forwarded),
    /// The answer to [`Message::Release`].
    Released {
        /// The asker's.
        tag: u64,
        /// What came of it.
        outcome: ReleaseOutcome,
    },
    /// The gateway that leads a set of snapshots has the owner of one of its volumes go on (S4). In both directions of every link.
    Cut(Cut),
    /// The answer to [`Message::Cut`], as soon as that is so.
    CutDone {
        /// The asker's.
        tag: u64,
        /// What came of it.
        outcome: CutOutcome,
    },
}

/// A step of a set of snapshots, of one of its volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Comes back with the answer.
    pub tag: u64,
    pub set: SetId,
    pub volume: VolumeId,
    /// The generation under which the volume's number is in its record: an owner of another one is not meant.
    pub generation: Generation,
    pub step: CutStep,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CutStep {
    /// All cores adopt the number, and what carries it is held.
    Adopt = 1,
    /// It is let go.
    Release = 2,
    /// What carries a smaller number is waited for.
    Settle = 3,
}

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CutOutcome {
    /// All cores carry the number, and hold.
    Adopted = 1,
    /// It was held until now.
    Held = 2,
    /// It was let go before: it was held for too long.
    Lapsed = 3,
    /// Nothing that carries a smaller number is without its acknowledgement.
    Settled = 4,
    /// The number cannot be sealed. Nodes of earlier versions may say so.
    Spoilt = 5,
    /// The volume is not open here under that generation, or is not in that set, or the asker does not lead it.
    NotOwner = 6,
}

/// A request of a host, on its way from the gateway that it came to, to the one that owns the volume. Its payload
/// travels beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// Comes back with the answer. Unique among the sender's unanswered ones.
    pub tag: u64,
    /// The sender's session: the owner refuses one that has ended (R9).
    pub session: u64,
    /// Which host asks, for reservations; zeros: none that they know. (Bytes, since a number of that size would have every message
    /// aligned for it.)
    pub host: [u8; 16],
    pub volume: VolumeId,
    /// The generation by which the sender takes the receiver for the owner. Under no other is this carried out (R9):
    /// what waited at an owner of old, and was sent to its successor since, must not be done when that owner is owner
    /// again.
    pub generation: Generation,
    pub op: ForwardOp,
    /// The first byte.
    pub offset: u64,
    /// How many bytes.
    pub length: u64,
    /// CRC-32C of the payload.
    pub crc: u32,
    /// The owner's clock when this was sent, or less, in nanoseconds: what it said last on this link, and the time
    /// since then by the sender's clock. 0: it has said nothing yet. The owner carries out nothing that is old by this
    /// (R9): bytes that lay on the way may belong to a host that has long gone on by another gateway.
    pub as_of: u64,
    /// The snapshot that is read; [`SnapshotId::HEAD`]: the volume itself is used.
    pub snapshot: SnapshotId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ForwardOp {
    /// Read a range.
    Read = 1,
    /// Write the payload.
    Write = 2,
    /// Unmap blocks.
    Clear = 3,
    /// Which blocks of a chunk are allocated?
    Allocation = 4,
    /// Write the second half of the payload if the range holds the first.
    CompareAndWrite = 5,
    /// Look at the volume's reservation, or change it: the payload says how.
    Reserve = 6,
    /// Which blocks of a chunk were changed since the snapshot whose number stands in place of the length? With
    /// [`OF_CHUNKS`](crate::limits::OF_CHUNKS) there: which chunks?
    Differ = 7,
    /// Lend tokens of the volume's limits: the payload says to whom and how many.
    Lend = 8,
}

/// The answer to a [`Forward`]. What was read travels beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarded {
    /// The request's.
    pub tag: u64,
    /// 0: it was done; else why not. The numbers are the node's.
    pub code: u8,
    /// The form of what was read. The numbers are the node's.
    pub form: u8,
    /// A number that goes with the form.
    pub value: u32,
    /// CRC-32C of the payload.
    pub crc: u32,
    /// The owner's clock, in nanoseconds.
    pub clock: u64,
}

/// What came of a request for release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseOutcome {
    /// The volume has no owner here any more, nothing of it is in flight, and nothing will be.
    Released,
    /// It stays: hosts use it.
    Busy {
        /// How many are connected.
        clients: u32,
    },
    /// It is not owned here, or under another generation.
    NotOwner,
}
