//! Members of groups that have missed something are brought up to date (R1, R2, R5).
//!
//! The metadata lists a member as syncing; when it has adopted that epoch it gets every write and must answer it, as all
//! others. Meanwhile it and the in-sync members are asked which chunks they hold, page by page. Where all hold a chunk
//! whole at one version there is nothing to do; each other chunk is compared and mended (see `mend`), a few at a time.
//! When nothing is left we say so, once; the owner of the volume says it in the metadata when the sequencers of all
//! cores have. A member that fails in between is dropped by a new epoch, and begins again some day as a new one.

use super::Sequencer;
use super::mend::{Mending, Mode};
use super::state::ChunkState;
use crate::config::{MAX_MENDINGS, MAX_SYNC_QUEUE};
use crate::faults::Fault;
use crate::io::Effect;
use crate::members::{ByPosition, Members, Position};
use crate::table::{GroupSlot, MendSlot, SyncSlot, Table, TaskSlot};
use crate::task::{Kind, SyncStep};
use amita_reactor::{Slice, Time};
use amita_types::message::{AnswerBody, ChunkState as Held, ChunksAnswer, ChunksRequest, Refusal, RequestBody};
use amita_types::{ChunkId, ChunkIndex, Version};
use std::collections::{BTreeSet, VecDeque};

/// Members that are brought up to date at one time; others wait.
const MAX_SYNCS: usize = 4;

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct Syncs {
    /// Members that wait for their turn: group and position.
    waiting: VecDeque<(GroupSlot, Position)>,
    members: Table<SyncSlot, Option<Sync>>,
    pub(super) mendings: Table<MendSlot, Option<Mending>>,
    /// How many of them are in use.
    pub(super) mending: usize,
    /// When something that was put off is due.
    pub(super) due: Option<Time>,
    pub(super) tallies: super::progress::Tallies,
}

/// One member that is brought up to date.
#[derive(Debug)]
struct Sync {
    group: GroupSlot,
    position: Position,
    list: Listing,
    /// Chunks with writes under way that were given out before the member entered. It does not get those, and where nobody
    /// has them durably yet nobody lists them: these chunks are compared whatever the lists say.
    unsettled: BTreeSet<ChunkIndex>,
    /// Chunks that must be compared.
    todo: VecDeque<ChunkIndex>,
    /// Chunks that are being compared.
    active: usize,
}

/// What is known of the chunks that there are.
#[derive(Debug)]
enum Listing {
    /// The next page begins here; it is asked for from then on.
    Due {
        at: Time,
        from: ChunkIndex,
    },
    /// Members were asked.
    Asked {
        from: ChunkIndex,
        pages: Box<ByPosition<Option<Page>>>,
    },
    Ended,
}

type Page = (Vec<Held>, Option<ChunkIndex>);

impl Syncs {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.members.iter().all(Option::is_none)
    }

    pub(super) fn put_off(&mut self, until: Time) {
        self.due = Some(self.due.map_or(until, |due| due.min(until)));
    }
}

impl Sequencer {
    /// When [`Sequencer::advance_background`] has something to do that was put off.
    pub(super) fn sync_due(&self) -> Option<Time> {
        self.syncs.due
    }

    /// A syncing member has adopted the epoch: it gets all writes from now on.
    pub(super) fn member_entered(&mut self, now: Time, group: GroupSlot, position: Position) {
        let state = &mut self.groups[group];
        if !state.entered.has(position) {
            state.entered.add(position);
            self.syncs.waiting.push_back((group, position));
            self.tally_entered(now, group, position);
        }
    }

    /// Does what can be done for members that are brought up to date, and for copies that are looked at. Called after each
    /// event.
    pub(super) fn advance_background(&mut self, now: Time) {
        while let Some(group) = self.groups.to_touch.pop() {
            self.touch(now, group);
        }
        // What is still to be done then is put off again below.
        self.syncs.due = None;
        if self.syncs.is_empty() && self.scrubs.is_empty() {
            return;
        }
        self.seat_syncs(now);
        for of in self.syncs.members.keys() {
            self.advance_sync(now, of);
        }
        self.advance_scrubs(now);
        for of in self.syncs.mendings.keys() {
            self.advance_mending(now, of);
        }
        for of in self.syncs.members.keys() {
            self.end_sync(now, of);
        }
        if let Some(at) = self.syncs.due {
            self.arm(at);
        }
    }

    fn seat_syncs(&mut self, now: Time) {
        while self.syncs.members.iter().flatten().count() < MAX_SYNCS
            && let Some((group, position)) = self.syncs.waiting.pop_front()
        {
            let sync = Sync {
                group,
                position,
                list: Listing::Due {
                    at: now,
                    from: ChunkIndex(0),
                },
                unsettled: BTreeSet::new(),
                todo: VecDeque::new(),
                active: 0,
            };
            self.syncs.members.put(sync);
        }
    }

    fn sync(&mut self, of: SyncSlot) -> Option<&mut Sync> {
        self.syncs.members[of].as_mut()
    }

    fn advance_sync(&mut self, now: Time, of: SyncSlot) {
        let Some(sync) = self.sync(of) else { return };
        let (group, position) = (sync.group, sync.position);
        if let Listing::Due { at, from } = sync.list
            && sync.todo.len() < MAX_SYNC_QUEUE
        {
            if at > now {
                self.syncs.put_off(at);
            } else {
                self.list_chunks(now, of, from);
            }
        }
        while self.syncs.mending < MAX_MENDINGS
            && let Some(sync) = self.sync(of)
            && let Some(index) = sync.todo.pop_front()
        {
            sync.active += 1;
            let chunk = self.chunk_number(index);
            self.start_mending(now, Mode::Sync(of), group, position, chunk);
        }
    }

    /// Asks the member and all in-sync ones for the chunks that they hold, if all of them can be asked.
    fn list_chunks(&mut self, now: Time, of: SyncSlot, from: ChunkIndex) {
        let Some(sync) = self.sync(of) else { return };
        let (group, position) = (sync.group, sync.position);
        let members = self.groups[group].current.or(Members::one(position));
        if !self.is_fenced(group) || !members.iter().all(|member| self.can_send(group, member)) {
            return;
        }
        let trust_lists = self.config.faults.has(Fault::TrustLists);
        let busy = self.groups[group].busy.iter();
        let unsettled: Vec<ChunkIndex> = busy.map(|&chunk| self.chunks[chunk].index).collect();
        let Some(sync) = self.sync(of) else { return };
        if from == ChunkIndex(0) && !trust_lists {
            sync.unsettled.extend(unsettled);
        }
        sync.list = Listing::Asked {
            from,
            pages: Default::default(),
        };
        let slot = self.tasks.add(Kind::Sync(SyncStep::Chunks(of)), group, None);
        let body = RequestBody::Chunks(ChunksRequest {
            from,
            core: self.config.core,
            cores: self.config.cores.max(1),
            groups: self.owned.pool.groups,
        });
        for member in members.iter() {
            self.expect(now, slot, member);
            self.send(now, slot, member, body.clone(), Slice::default());
        }
    }

    /// Asks for the same page again, after a moment.
    fn relist(&mut self, now: Time, slot: TaskSlot, of: SyncSlot) {
        self.settle_all(slot);
        self.tasks.remove(slot);
        let at = now.plus(self.config.busy_pause * 10);
        if let Some(sync) = self.sync(of)
            && let Listing::Asked { from, .. } = sync.list
        {
            sync.list = Listing::Due { at, from };
        }
        self.syncs.put_off(at);
        self.arm(at);
    }

    fn chunks_listed(&mut self, now: Time, slot: TaskSlot, position: Position, of: SyncSlot, page: Page) {
        let ordered = page.0.windows(2).all(|pair| pair[0].chunk < pair[1].chunk);
        let onwards = page
            .1
            .is_none_or(|more| page.0.last().is_some_and(|last| last.chunk < more));
        let group = self.tasks[slot].group;
        // A chunk of another group, or of another core, has other members, or another sequencer: neither is looked at here.
        let foreign = page.0.iter().any(|held| !self.is_listed_here(group, held.chunk));
        let Some(sync) = self.sync(of) else {
            return self.settle_and_drop(slot, position);
        };
        let Listing::Asked { from, pages } = &mut sync.list else {
            return self.settle_and_drop(slot, position);
        };
        let from = *from;
        if !ordered || !onwards || page.0.first().is_some_and(|first| first.chunk < from) {
            return self.misbehaved(now, slot, position, "a list of chunks without order".to_owned());
        }
        if foreign {
            return self.misbehaved(
                now,
                slot,
                position,
                "a list of chunks that were not asked for".to_owned(),
            );
        }
        pages[position] = Some(page);
        self.settle(slot, position);
        if self.tasks[slot].waiting.is_empty() {
            self.tasks.remove(slot);
            self.compare_lists(now, of);
        }
    }

    /// Is it a chunk that a list of the group's chunks may name, which was asked for by this core?
    pub(super) fn is_listed_here(&self, group: GroupSlot, index: ChunkIndex) -> bool {
        let chunk = ChunkId {
            volume: self.owned.volume.id,
            index,
        };
        let cores = usize::from(self.config.cores.max(1));
        GroupSlot::of(chunk.group(self.owned.pool.groups)) == group
            && chunk.core(cores) == usize::from(self.config.core)
    }

    /// All have answered: what differs is to be compared block by block.
    fn compare_lists(&mut self, now: Time, of: SyncSlot) {
        let Some(sync) = self.sync(of) else { return };
        let list = std::mem::replace(&mut sync.list, Listing::Ended);
        let Listing::Asked { pages, .. } = list else {
            unreachable!("the caller has looked")
        };
        let pages: Vec<Page> = pages.into_iter().flatten().collect();
        let end = pages.iter().filter_map(|(_, more)| *more).min();
        let mut at = vec![0; pages.len()];
        let mut differ = Vec::new();
        let mut listed = 0;
        loop {
            let heads = pages.iter().zip(&at).map(|((chunks, _), &at)| chunks.get(at));
            let first = heads.flatten().map(|held| held.chunk).min();
            let Some(index) = first.filter(|index| end.is_none_or(|end| *index < end)) else {
                break;
            };
            listed += 1;
            let mut version: Option<Version> = None;
            let mut same = true;
            for ((chunks, _), at) in pages.iter().zip(&mut at) {
                match chunks.get(*at).filter(|held| held.chunk == index) {
                    Some(held) => {
                        *at += 1;
                        same &= held.incomplete.is_none() && version.is_none_or(|version| version == held.version);
                        version = Some(held.version);
                    }
                    None => same = false,
                }
            }
            let unsettled = self.sync(of).is_some_and(|sync| sync.unsettled.remove(&index));
            if !same || unsettled || !self.is_settled_at(index, version.unwrap_or_default()) {
                differ.push(index);
            }
        }
        if self.config.faults.has(Fault::WholeAtOnce) {
            differ.clear();
        }
        let Some(sync) = self.sync(of) else { return };
        let (group, position, to_do) = (sync.group, sync.position, differ.len() as u64);
        sync.todo.extend(differ);
        match end {
            Some(from) => sync.list = Listing::Due { at: now, from },
            None => sync.todo.extend(std::mem::take(&mut sync.unsettled)),
        }
        self.tally_listed(group, position, listed, to_do, end.is_none());
    }

    /// Is a chunk that everybody holds at `version` whole at it? One with our own writes under way is not.
    fn is_settled_at(&self, index: ChunkIndex, version: Version) -> bool {
        match self.chunks.slot_of(index) {
            None => true,
            Some(chunk) => {
                let chunk = &self.chunks[chunk];
                !matches!(chunk.state, ChunkState::Open) || chunk.issued == version
            }
        }
    }

    /// A chunk has been dealt with, or its member is gone.
    pub(super) fn chunk_mended(&mut self, of: SyncSlot) {
        if let Some(sync) = self.sync(of) {
            sync.active -= 1;
        }
    }

    /// Says that the member holds everything, if it does.
    fn end_sync(&mut self, now: Time, of: SyncSlot) {
        let early = self.config.faults.has(Fault::ClaimEarly);
        let Some(sync) = self.sync(of) else { return };
        let (listed, compared) = (
            matches!(sync.list, Listing::Ended),
            sync.todo.is_empty() && sync.active == 0,
        );
        if !listed || !(compared || early) {
            return;
        }
        let (group, position) = (sync.group, sync.position);
        self.syncs.members[of] = None;
        self.drop_mendings(of);
        let store = self.id_of(group, position);
        self.tally_whole(now, group, position);
        let state = &mut self.groups[group];
        state.whole.add(position);
        self.counters.sync_whole += 1;
        let (group, since) = (state.id, state.since[position]);
        self.effects.push_back(Effect::Whole { group, store, since });
        if !self.syncs.waiting.is_empty() {
            // The next one begins with the next event.
            self.syncs.put_off(now);
        }
    }

    /// These members are not syncing any more.
    pub(super) fn forget_syncs(&mut self, group: GroupSlot, positions: Members) {
        self.drop_looks(group, positions);
        for index in (0..self.syncs.waiting.len()).rev() {
            let (waits, position) = self.syncs.waiting[index];
            if waits == group && positions.has(position) {
                self.syncs.waiting.remove(index);
                self.tally_dropped(group, position, false);
            }
        }
        for of in self.syncs.members.keys() {
            let gone = self.syncs.members[of].take_if(|sync| sync.group == group && positions.has(sync.position));
            if let Some(gone) = gone {
                self.tally_dropped(group, gone.position, matches!(gone.list, Listing::Ended));
                self.orphan_listing(of);
                self.drop_mendings(of);
            }
        }
    }

    /// Answers to what was asked for it come to nothing.
    fn orphan_listing(&mut self, gone: SyncSlot) {
        for slot in self.tasks.slots() {
            if matches!(self.tasks[slot].kind, Kind::Sync(SyncStep::Chunks(of)) if of == gone) {
                self.tasks[slot].kind = Kind::Orphan;
            }
        }
    }

    /// An answer to a request of this part.
    pub(super) fn sync_answered(
        &mut self,
        now: Time,
        slot: TaskSlot,
        position: Position,
        step: SyncStep,
        body: AnswerBody,
        payload: Slice,
    ) {
        match (step, body) {
            (SyncStep::Chunks(of), AnswerBody::Chunks(ChunksAnswer { chunks, more })) => {
                self.chunks_listed(now, slot, position, of, (chunks, more));
            }
            (SyncStep::Walk, AnswerBody::Chunks(ChunksAnswer { chunks, more })) => {
                self.walk_listed(now, slot, position, &chunks, more);
            }
            (SyncStep::Chunks(_) | SyncStep::Walk, body) => {
                self.misbehaved(
                    now,
                    slot,
                    position,
                    format!("an answer that was not asked for: {body:?}"),
                );
            }
            (SyncStep::Mend(of, step), body) => self.mend_answered(now, slot, position, (of, step), body, payload),
        }
    }

    pub(super) fn sync_refused(
        &mut self,
        now: Time,
        slot: TaskSlot,
        position: Position,
        step: SyncStep,
        refusal: &Refusal,
    ) {
        let of = match step {
            SyncStep::Chunks(of) => of,
            SyncStep::Walk => return self.walk_again(now, slot),
            SyncStep::Mend(of, _) => return self.mend_refused(now, slot, position, of, refusal),
        };
        let group = self.tasks[slot].group;
        if !super::join::passes_by_itself(refusal) {
            self.warn_refused(group, self.groups[group].members[position], refusal);
            self.evict_soon(group, position);
        }
        self.relist(now, slot, of);
    }

    /// The answer will not come.
    pub(super) fn sync_lost(&mut self, now: Time, slot: TaskSlot, position: Position, step: SyncStep) {
        match step {
            SyncStep::Chunks(of) => self.relist(now, slot, of),
            SyncStep::Walk => self.walk_again(now, slot),
            SyncStep::Mend(of, _) => {
                self.settle_and_drop(slot, position);
                self.restart_mending(now, of, slot);
            }
        }
    }
}
