//! What is known of one chunk of the volume, once touched.

use crate::members::Members;
use crate::sequencer::open::Opening;
use crate::table::{GroupSlot, ListPlace, TaskSlot};
use crate::task::List;
use amita_types::{ChunkIndex, Generation, SnapshotId, Version};

/// One chunk of the volume, once touched.
#[derive(Debug)]
pub(in crate::sequencer) struct Chunk {
    pub index: ChunkIndex,
    pub group: GroupSlot,
    pub state: ChunkState,
    pub log: Log,
    pub queues: Queues,
    /// Reads whose answer waits until their version is committed (R3) or for leases (R4).
    pub held: List,
    pub lag: Lag,
    /// The place in the group's list of busy chunks.
    pub busy_at: Option<ListPlace>,
    /// The place in the group's list of chunks that wait to be opened, or are being opened.
    pub opening_at: Option<ListPlace>,
    /// Members that could not give what a roll-forward needs.
    pub bad_sources: Members,
    /// It was said that the chunk cannot be gone on with.
    pub implausible: bool,
    pub history: History,
    /// No write gets a version for a moment: the chunk is compared with a syncing member's copy.
    pub held_back: bool,
}

#[derive(Debug)]
pub(in crate::sequencer) enum ChunkState {
    /// Never touched, or the last opening failed.
    Closed,
    /// Waits until its group is fenced.
    Waiting,
    Opening(Box<Opening>),
    Open,
}

/// Its versions, and the writes that have one.
#[derive(Debug, Default)]
pub(in crate::sequencer) struct Log {
    /// The version given out last.
    pub issued: Version,
    /// The snapshot number that it carries (S3).
    pub number: SnapshotId,
    /// The newest version that every in-sync member has.
    pub committed: Version,
    /// The newest state that members have made by writes of ours: the snapshots above the first and up to the second have the chunk at this
    /// version.
    state: (SnapshotId, SnapshotId, Version),
    /// Writes that have a version, in its order; the first is the one after `committed`.
    pub writes: List,
    pub count: u32,
}

/// I/O that waits: for the chunk's opening, for credits, for a limit.
#[derive(Debug, Default)]
pub(in crate::sequencer) struct Queues {
    pub writes: List,
    pub clears: List,
    pub reads: List,
    /// Compare-and-writes that wait for their turn.
    pub compares: List,
    /// The one whose turn it is; no other write gets a version.
    pub comparing: Option<TaskSlot>,
    /// It, while it waits: for writes that have a version, or, as a write, for what writes wait for.
    pub compared: List,
    /// The chunk stands in [`Intake::blocked`](crate::sequencer::intake::Intake::blocked).
    pub blocked: bool,
}

/// Members that have not carried out writes that they were sent.
#[derive(Debug, Default)]
pub(in crate::sequencer) struct Lag {
    /// Those that refused a write and to which writes are sent again once all that they have is answered.
    pub stalled: Members,
    /// Of those, members that cannot carry a write out, because what it is to be merged with has rotted, or because they lack what
    /// they have answered: they are caught up with the others instead (see `catch_up`).
    pub behind: Members,
    /// The chunk is being opened once more for that, with writes that have a version.
    pub catching: bool,
    /// Members in sync that lack something acknowledged, or were rolled forward to it, and whose entries were not compared since: where
    /// one is in doubt it is not read (see `doubt`).
    pub unproven: Members,
}

/// Syncing members that go on with its history (R5).
#[derive(Debug, Default)]
pub(in crate::sequencer) struct History {
    /// Those that do: they take its writes like all others.
    pub joined: Members,
    /// Those that were asked to.
    pub joining: Members,
}

impl Chunk {
    /// A chunk on its first touch.
    pub fn new(index: ChunkIndex, group: GroupSlot) -> Chunk {
        Chunk {
            index,
            group,
            state: ChunkState::Closed,
            log: Log::default(),
            queues: Queues::default(),
            held: List::default(),
            lag: Lag::default(),
            busy_at: None,
            opening_at: None,
            bad_sources: Members::NONE,
            implausible: false,
            history: History::default(),
            held_back: false,
        }
    }
}

impl Log {
    /// The chunk is whole at `version` on every member.
    pub fn open_at(&mut self, version: Version, number: SnapshotId) {
        self.issued = version;
        self.number = number;
        self.committed = version;
        self.state = Default::default();
    }

    /// The version that every member in sync has for a snapshot, as far as that is known; the newest one is for the head.
    pub fn least_at(&self, at: SnapshotId) -> Version {
        let (above, to, version) = self.state;
        match at {
            SnapshotId::HEAD => self.committed,
            // No write has come to the chunk since it was taken.
            at if at > self.number => self.committed,
            at if at > above && at <= to => version.min(self.committed),
            _ => Version::NONE,
        }
    }

    /// May a copy of the one history be at this version? What was acknowledged is history, whoever wrote it; what is newer we have given
    /// out, for an opening leaves nothing between the two. So one of an older generation there is of a history that was given up.
    pub fn may_show(&self, version: Version, ours: Generation) -> bool {
        version <= self.committed || (version <= self.issued && version.generation() == ours)
    }

    /// The next write gets its version (R1), and its number (S3); those of the one before, which it names.
    pub fn issue(&mut self, version: Version, number: SnapshotId) -> (Version, SnapshotId) {
        assert!(version > self.issued, "versions only grow");
        assert!(number >= self.number, "numbers never go down in a chunk's history");
        self.count += 1;
        if number > self.number {
            self.state = (self.number, number, self.issued);
        }
        let previous = std::mem::replace(&mut self.issued, version);
        (previous, std::mem::replace(&mut self.number, number))
    }

    /// The first write is on every member.
    pub fn commit(&mut self, previous: Version, version: Version) {
        assert_eq!(previous, self.committed, "acknowledged in the order of versions");
        self.committed = version;
        assert!(self.committed <= self.issued);
        self.count -= 1;
    }
}

impl Queues {
    /// Where a write waits, or a clear.
    pub fn of_writes(&mut self, clear: bool) -> &mut List {
        match clear {
            true => &mut self.clears,
            false => &mut self.writes,
        }
    }

    /// Does anything wait?
    pub fn waits(&self) -> bool {
        let queues = [&self.reads, &self.clears, &self.writes, &self.compares, &self.compared];
        !queues.iter().all(|queue| queue.is_empty())
    }

    /// Empties them all, in the order in which they are to be failed; nothing is compared any more.
    pub fn take_all(&mut self) -> [List; 5] {
        self.comparing = None;
        [
            std::mem::take(&mut self.writes),
            std::mem::take(&mut self.clears),
            std::mem::take(&mut self.reads),
            std::mem::take(&mut self.compares),
            std::mem::take(&mut self.compared),
        ]
    }
}

impl Lag {
    /// The member is sent the chunk's writes like all others: its link is new, or it has left.
    pub fn forget(&mut self, members: Members) {
        self.stalled = self.stalled.without(members);
        self.behind = self.behind.without(members);
    }
}
