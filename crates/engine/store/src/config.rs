//! What a store is told when it is opened.

use amita_types::ClusterId;
use std::time::Duration;

/// The settings of one store.
#[derive(Clone, Debug)]
pub struct Config {
    /// The cluster that this node belongs to. A store of another cluster is refused; one that belongs to none yet
    /// joins this one, durably, before it serves. `None`: whatever it is, it is served (tools and tests).
    pub cluster: Option<ClusterId>,
    /// For how long each answer promises that no newer generation is accepted (rule R4). Longer promises make reads
    /// survive longer silences; a takeover waits for them.
    pub promise: Duration,
    /// The budget for the index in memory, in bytes. What is always there (heads of chunks, snapshots, one bit a slot) comes
    /// first; a write that would make that larger than the budget is refused as if the disk were full. The rest is a
    /// cache of leaves: those that were not used for a while are dropped, and cost one read when they are wanted again.
    pub index_bytes: u64,
    /// The most requests that wait for the disk at once; more are refused with `Busy`.
    pub max_requests: usize,
    /// After this much silence an idle store writes one page that says how far its log is verified, so that a crash
    /// finds nothing to read back.
    pub idle_mark_after: Duration,
    /// May the device be told what holds nothing any more?
    pub discard: Discard,
    /// Rules that are switched off, to show that the simulator notices (feature `planted`).
    pub planted: Planted,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            cluster: None,
            promise: Duration::from_millis(250),
            index_bytes: 8 << 30,
            max_requests: 4096,
            idle_mark_after: Duration::from_millis(500),
            discard: Discard::default(),
            planted: Planted::NONE,
        }
    }
}

/// Where free space is discarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discard {
    /// Nowhere.
    Never,
    /// On block devices that take discards.
    #[default]
    Devices,
    /// In regular files, too: they give their space back, and from the first discard on every write is flushed (rule D3).
    Always,
}

/// A rule that can be switched off by the feature `planted`, each a bug that the simulator must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Plant {
    /// R1: a write is applied onto any predecessor.
    AnyPredecessor,
    /// R4: a newer generation does not wait for the promise given to the old owner, nor after a start.
    NoPromiseWait,
    /// R6: a fence is answered at once, what was accepted under the older generation still under way.
    NoDrain,
    /// R7: what an ended account had in flight is granted to others at once.
    GrantsEndAtOnce,
    /// R8: a resend is answered at once, before the original is durable.
    ResendAtOnce,
    /// D1: a freed slot is reused at once.
    ReuseAtOnce,
    /// D2: a batch is answered when it is durable itself, whatever was logged before it.
    AnswersOutOfOrder,
    /// D2: replay does not check that a page names its predecessor's checksum and a known mount.
    ChainUnchecked,
    /// D4: the first bad log page is taken for the end of the log, whatever follows it.
    EndAtFirstBad,
    /// D4: a page that cannot be read is taken for one that was never written whole.
    UnreadableIsTorn,
    /// R6: fences wait for room, like everything else.
    FenceWaitsForRoom,
    /// R6: parts of roll-forwards that came by different links are taken for one.
    RollsOfAnyLink,
    /// D6: a slot that a read is under way on may be reused.
    NoPin,
    /// D6: a slot that is being discarded may be written.
    DiscardUnpinned,
    /// A read's data is not checked against the index.
    SumUnchecked,
    /// Replay accepts a record whose data is not whole.
    ReplayUnverified,
    /// A fence is answered without having been logged.
    FenceNotPersisted,
    /// R2: an older epoch is served.
    OldEpochLetIn,
    /// R6: an older generation is served.
    OldOwnerLetIn,
    /// R4: after a start a newer generation need not wait for what was promised before it.
    PromiseForgotten,
    /// A change is answered when it is accepted.
    AnswerAtOnce,
    /// D1: the mark covers what is not durable.
    MarkEverything,
    /// D3: what is written into a hole of a file is not flushed.
    HolesUnflushed,
    /// D5: a checkpoint counts before it is durable.
    CheckpointUnflushed,
    /// D5: replay leaves the map of slots as the checkpoint has it.
    FreeMapStale,
    /// D7: what a sub-block write is merged with is not checked, and gets a fresh checksum.
    FreshSum,
    /// R5: a store that is being brought up to date, or whose copy of a chunk is incomplete, serves what it has.
    ServesSyncing,
    /// R5: what is pulled or repaired replaces whatever entry is there.
    MendsAnything,
    /// D5: some slots that were given back are nobody's until the next mount. No host ever sees that.
    LosesSlots,
    /// R13: chunks that nothing needs are dropped though nothing durable says why.
    DropUnfenced,
    /// R13: chunks are dropped on the word of an epoch that the store has gone beyond.
    DropRelisted,
    /// R13: a chunk that is on its way out is there as long as it is.
    GoingIsThere,
}

/// The rules that are switched off. Without the feature `planted` there are none, and asking costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Planted {
    #[cfg(feature = "planted")]
    bits: u32,
}

impl Planted {
    /// Every rule holds.
    pub const NONE: Planted = Planted {
        #[cfg(feature = "planted")]
        bits: 0,
    };

    /// These, and `plant` switched off as well.
    #[cfg(feature = "planted")]
    #[must_use]
    pub fn with(self, plant: Plant) -> Planted {
        Planted {
            bits: self.bits | 1 << plant as u32,
        }
    }

    /// Is the rule switched off?
    #[cfg(feature = "planted")]
    #[inline]
    pub(crate) fn has(self, plant: Plant) -> bool {
        self.bits & 1 << plant as u32 != 0
    }

    /// Is the rule switched off? Never.
    #[cfg(not(feature = "planted"))]
    #[inline(always)]
    pub(crate) fn has(self, _: Plant) -> bool {
        false
    }
}
