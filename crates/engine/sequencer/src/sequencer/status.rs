//! What an operator, and a test, see of a sequencer.

use super::agenda::NEVER;
use super::context::Context;
use super::{Sequencer, SyncProgress};
use crate::table::TaskSlot;
use crate::task::Kind;
use amita_reactor::Time;
use amita_types::map::ScrubReport;
use amita_types::{ChunkIndex, Generation, GroupId, StoreId, VolumeId};

/// How often things happened. They feed the status page, and tests that want to see each rare path taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Writes and clears that were acknowledged.
    pub writes: u64,
    /// Reads that were answered.
    pub reads: u64,
    /// Chunks that were opened.
    pub opened: u64,
    /// Members of chunks that were rolled forward (R6).
    pub rolled: u64,
    /// Groups that lost a member by our own compare-and-set.
    pub evicted: u64,
    /// Groups found at a new epoch that another sequencer had set.
    pub adopted: u64,
    /// Writes that were sent again.
    pub resent: u64,
    /// Reads that were held until their version was everywhere (R3).
    pub held: u64,
    /// Reads that waited for leases (R4).
    pub unleased: u64,
    /// Requests for a lease.
    pub lease_renewals: u64,
    /// Times that a chunk was opened once more for a member whose copy had rotted under a write (D7).
    pub caught_up: u64,
    /// Members of groups that were found to lack what they had acknowledged (R8).
    pub doubted: u64,
    /// Those of which a look at everything has shown that they lack nothing more.
    pub cleared: u64,
    /// Chunks that were made from what the volume was cloned from (S8).
    pub inherited: u64,
    /// Times that the owner of what the volume was cloned from was asked to open a chunk, because copies of it differed (S7).
    pub unsettled_parents: u64,
    /// Requests about credits (R7).
    pub settles: u64,
    /// Writes that waited for credits (R7).
    pub credit_waits: u64,
    /// Reads that were also sent to a second member.
    pub hedged: u64,
    /// Refusals because of an older epoch.
    pub stale_epochs: u64,
    /// Refusals by a member that did not know our fence (any more).
    pub not_fenced: u64,
    /// Answers in a store's name by another node than the one that serves it: dropped (R14).
    pub foreign_answers: u64,
    /// Compare-and-sets whose outcome was unknown and read back (R6).
    pub unknown: u64,
    /// Compare-and-sets that another one had overtaken.
    pub lost_races: u64,
    /// Copies that failed their checksum.
    pub damaged: u64,
    /// Damaged blocks that were repaired from another copy.
    pub repaired: u64,
    /// Those that could not be repaired where they lie (S12).
    pub unrestored: u64,
    /// Blocks that differ between intact copies.
    pub differing: u64,
    /// Members of groups that began to be brought up to date.
    pub sync_started: u64,
    /// Those that were dropped again.
    pub sync_dropped: u64,
    /// Those of which we have said that they hold everything.
    pub sync_whole: u64,
    /// Those that were taken into the in-sync set.
    pub sync_promoted: u64,
    /// Chunks at members that go on with their history (R5).
    pub joined: u64,
    /// Chunks that were compared with a member's copy, to the end.
    pub mended: u64,
    /// Blocks that were sent to members that lacked them.
    pub mended_blocks: u64,
    /// Blocks that had changed before they were mended: compared again.
    pub mend_skipped: u64,
    /// Comparisons of chunks that began again from the start.
    pub mend_restarts: u64,
    /// Chunks whose writes were held for a moment, because they changed faster than they were compared.
    pub mend_held: u64,
}

impl Counters {
    /// Adds what another one has counted.
    pub fn add(&mut self, other: &Counters) {
        for ((_, own), (_, more)) in self.each_mut().into_iter().zip(other.each()) {
            *own += more;
        }
    }

    /// Each with its name, in their order.
    #[must_use]
    pub fn each(&self) -> [(&'static str, u64); 37] {
        let mut copy = *self;
        copy.each_mut().map(|(name, value)| (name, *value))
    }

    fn each_mut(&mut self) -> [(&'static str, &mut u64); 37] {
        let Counters {
            writes,
            reads,
            opened,
            rolled,
            evicted,
            adopted,
            resent,
            held,
            unleased,
            lease_renewals,
            caught_up,
            doubted,
            cleared,
            inherited,
            unsettled_parents,
            settles,
            credit_waits,
            hedged,
            stale_epochs,
            not_fenced,
            foreign_answers,
            unknown,
            lost_races,
            damaged,
            repaired,
            unrestored,
            differing,
            sync_started,
            sync_dropped,
            sync_whole,
            sync_promoted,
            joined,
            mended,
            mended_blocks,
            mend_skipped,
            mend_restarts,
            mend_held,
        } = self;
        [
            ("writes", writes),
            ("reads", reads),
            ("opened", opened),
            ("rolled", rolled),
            ("evicted", evicted),
            ("adopted", adopted),
            ("resent", resent),
            ("held", held),
            ("unleased", unleased),
            ("lease_renewals", lease_renewals),
            ("caught_up", caught_up),
            ("doubted", doubted),
            ("cleared", cleared),
            ("inherited", inherited),
            ("unsettled_parents", unsettled_parents),
            ("settles", settles),
            ("credit_waits", credit_waits),
            ("hedged", hedged),
            ("stale_epochs", stale_epochs),
            ("not_fenced", not_fenced),
            ("foreign_answers", foreign_answers),
            ("unknown", unknown),
            ("lost_races", lost_races),
            ("damaged", damaged),
            ("repaired", repaired),
            ("unrestored", unrestored),
            ("differing", differing),
            ("sync_started", sync_started),
            ("sync_dropped", sync_dropped),
            ("sync_whole", sync_whole),
            ("sync_promoted", sync_promoted),
            ("joined", joined),
            ("mended", mended),
            ("mended_blocks", mended_blocks),
            ("mend_skipped", mend_skipped),
            ("mend_restarts", mend_restarts),
            ("mend_held", mend_held),
        ]
    }
}

/// What an operator sees of a sequencer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// It has ended.
    pub stopped: bool,
    /// I/Os that were submitted and have not ended.
    pub ios: usize,
    /// Chunks that were touched.
    pub chunks: usize,
    /// Groups in which writes wait because too few members are left.
    pub stuck_groups: Vec<GroupId>,
    /// Stores that are being brought up to date.
    pub syncs: Vec<SyncProgress>,
    /// How often things happened.
    pub counters: Counters,
}

impl Sequencer {
    #[must_use]
    pub fn volume(&self) -> VolumeId {
        self.cx.owned.volume.id
    }

    #[must_use]
    pub fn volume_name(&self) -> &str {
        &self.cx.owned.volume.name
    }

    #[cfg(test)]
    pub(crate) fn core(&self) -> u16 {
        self.cx.config.core
    }

    #[must_use]
    pub fn generation(&self) -> Generation {
        self.cx.owned.generation
    }

    /// The stores that it knows of: those that hold the volume, and others that it has heard of.
    pub fn store_ids(&self) -> impl Iterator<Item = StoreId> + '_ {
        self.cx.stores.iter().map(|store| store.id)
    }

    /// Has every I/O ended?
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.cx.intake.ios == 0
    }

    /// Is nothing under way at all: no I/O, no fence, no opening, no answer that is owed, no call to the metadata?
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.cx.stopped || (self.cx.tasks.len() == 0 && self.cx.metadata.is_quiet())
    }

    /// Has it ended?
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.cx.stopped
    }

    /// How often things happened.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.cx.counters
    }

    /// What an operator sees.
    #[must_use]
    pub fn status(&self) -> Status {
        let groups = &self.cx.groups;
        Status {
            stopped: self.cx.stopped,
            ios: self.cx.intake.ios,
            chunks: self.cx.chunks.len(),
            stuck_groups: groups.stuck.iter().map(|&group| groups[group].id).collect(),
            syncs: self.progress(NEVER).collect(),
            counters: self.cx.counters,
        }
    }

    /// How far each store has come that is being brought up to date, or was until a moment ago; in no order.
    pub fn progress(&self, now: Time) -> impl Iterator<Item = SyncProgress> + '_ {
        self.resync.tallies.progress(&self.cx.stores, now)
    }

    /// What a scrub that is under way has found in the group that it is at.
    #[must_use]
    pub fn scrub_report(&self) -> Option<ScrubReport> {
        self.resync.scrubs.report()
    }

    /// The chunk of each I/O that was submitted and has not ended: what somebody waits for, and where.
    pub fn waiting_chunks(&self) -> impl Iterator<Item = ChunkIndex> + '_ {
        let Context {
            tasks, chunks, stopped, ..
        } = &self.cx;
        let waits = |slot: &TaskSlot| match &tasks[*slot].kind {
            Kind::Write(write) => !write.told,
            Kind::Read(_) => true,
            _ => false,
        };
        let slots = tasks.slots().filter(move |slot| !stopped && waits(slot));
        slots.map(|slot| chunks[tasks[slot].chunk()].index)
    }
}
