//! What travels on a link.

use amita_cluster::message::{Answer, Request};
use amita_cluster::{Generation, VolumeId};

/// What one node says to another on a link. Bulk data travels beside it, never inside.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// A sequencer's, to a store of the peer. On outgoing links only.
    Request(Request),
    /// A store's, to a sequencer of the peer. On incoming links only.
    Answer(Answer),
    /// One gateway asks the other to give up a volume, so that it can take it over without waiting for promises to run
    /// out (R10). In both directions of every link.
    Release {
        /// Comes back with the answer.
        tag: u64,
        /// Which volume.
        volume: VolumeId,
        /// The generation that the asker has seen in the metadata: an owner of a newer one is not meant.
        generation: Generation,
    },
    /// The answer to [`Message::Release`].
    Released {
        /// The asker's.
        tag: u64,
        /// What came of it.
        outcome: ReleaseOutcome,
    },
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
