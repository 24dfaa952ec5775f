//! A store is brought up to date (rule R5): a chunk joins the owner's history, and at last it is whole again.

use super::op::{Change, Op};
use super::{Asker, Store};
use crate::fences::Right;
use crate::index::{ChunkKey, OpSlot, WORST_BYTES_PER_JOIN};
use amita_reactor::Slice;
use amita_types::message::{AnswerBody, JoinedAnswer, OpenedAnswer, Problem, Refusal};
use amita_types::{ChunkId, SnapshotId, Version};

/// What is said when all changes before it are durable.
#[derive(Clone, Copy, Debug)]
pub(super) enum Say {
    /// Whether the chunk is incomplete, and since when.
    Joined,
    /// The same, and its version.
    Opened,
    /// That it is done.
    Done,
}

impl Store {
    /// Where the chunk will be incomplete when what was accepted is durable: the version at which it was last whole.
    pub(super) fn accepted_incomplete(&self, key: ChunkKey) -> Option<Version> {
        let mut found = self.index.incomplete(key);
        let mut pending = self.index.chunk(key).first_pending;
        while pending != OpSlot::NONE {
            let op = self.ops.get(pending);
            match op.change {
                Change::Join(base) => found = Some(base),
                Change::Whole => found = None,
                _ => {}
            }
            pending = op.next;
        }
        found
    }

    /// The chunk's history goes on at version `at`.
    pub(super) fn join(&mut self, asker: Asker, right: Right, chunk: ChunkId, at: Version, snapshot: SnapshotId) {
        if at.generation() > asker.generation {
            return self.invalid(asker, Problem::Version);
        }
        let (accepted, base) = match self.index.find(chunk) {
            None => (Version::NONE, None),
            Some(key) => {
                let known = self.index.chunk(key);
                if known.deleted || known.deleting {
                    return self.invalid(asker, Problem::Snapshot);
                }
                (known.accepted, self.accepted_incomplete(key))
            }
        };
        // A chunk that goes on where it is, whole or not, and one that has gone on in the asker's own history.
        let own = accepted > Version::NONE && accepted.generation() == asker.generation && at <= accepted;
        if accepted == at || own {
            return self.say(asker, chunk, Say::Joined);
        }
        if right.serves && base.is_none() {
            // Nobody may take from those in sync what they have.
            return self.invalid(asker, Problem::Members);
        }
        if !self.join_fits() {
            let passing = self.space.claims.unapplied_bytes > 0 || self.space_will_return();
            return self.refuse(asker, if passing { Refusal::Busy } else { Refusal::NoSpace });
        }
        let key = self.index.touch(chunk);
        let op = Op {
            version: at,
            previous: accepted,
            snapshot,
            // Like no write's.
            length_bytes: u32::MAX,
            index_bytes: WORST_BYTES_PER_JOIN,
            ..Op::new(Change::Join(base.unwrap_or(accepted)), Some(asker), key)
        };
        let known = self.index.chunk_mut(key);
        known.accepted = at;
        known.accepted_snapshot = known.accepted_snapshot.max(snapshot);
        known.loose_soon = true;
        known.set_last(None);
        self.queue(op);
    }

    /// The chunk holds everything up to its version.
    pub(super) fn whole(&mut self, asker: Asker, chunk: ChunkId, version: Version) {
        let found = self.index.find(chunk);
        let accepted = found.map_or(Version::NONE, |key| self.index.chunk(key).accepted);
        if accepted != version {
            return self.refuse(asker, Refusal::WrongPredecessor { current: accepted });
        }
        let Some(key) = found.filter(|&key| self.accepted_incomplete(key).is_some()) else {
            return self.say(asker, chunk, Say::Done);
        };
        let op = Op {
            version,
            previous: version,
            ..Op::new(Change::Whole, Some(asker), key)
        };
        self.queue(op);
    }

    /// Says something of a chunk when all that was accepted of it is durable.
    pub(super) fn say(&mut self, asker: Asker, chunk: ChunkId, say: Say) {
        let Some(key) = self.index.find(chunk) else {
            return self.answer(asker, say.of(Version::NONE, None), Slice::default());
        };
        let known = self.index.chunk(key);
        if known.first_pending == OpSlot::NONE {
            let body = say.of(known.durable, self.index.incomplete(key));
            return self.answer(asker, body, Slice::default());
        }
        let op = Op {
            version: known.accepted,
            previous: known.accepted,
            ..Op::new(Change::Say(say), Some(asker), key)
        };
        self.queue(op);
    }

    /// Is all before it durable? Then it is said.
    pub(super) fn prepare_say(&mut self, key: OpSlot, say: Say) -> Option<bool> {
        let chunk = self.ops.get(key).chunk;
        let known = self.index.chunk(chunk);
        if known.first_pending != key {
            return None;
        }
        let body = say.of(known.durable, self.index.incomplete(chunk));
        self.end_unlogged(key, Ok(body));
        Some(false)
    }
}

impl Say {
    fn of(self, version: Version, incomplete: Option<Version>) -> AnswerBody {
        match self {
            Say::Joined => AnswerBody::Joined(JoinedAnswer { incomplete }),
            Say::Opened => AnswerBody::Opened(OpenedAnswer { version, incomplete }),
            Say::Done => AnswerBody::Done,
        }
    }
}
