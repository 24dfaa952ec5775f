//! Members of groups that have missed something are brought up to date (R1, R2, R5).
//!
//! The metadata lists a member as syncing; when it has adopted that epoch it gets every write and must answer it, as all
//! others. Meanwhile it and the in-sync members are asked which chunks they hold, page by page. Where all hold a chunk
//! whole at one version there is nothing to do; each other chunk is compared and mended (see `mend`), a few at a time.
//! When nothing is left we say so, once; the owner of the volume says it in the metadata when the sequencers of all
//! cores have. A member that fails in between is dropped by a new epoch, and begins again some day as a new one.

use super::mend::{Mendings, Mode};
use super::progress::Tallies;
use super::{Page, ask_for_chunks, check_page, is_settled_at, merged};
use crate::config::{MAX_MENDINGS, MAX_SYNC_QUEUE};
use crate::faults::Fault;
use crate::io::Effect;
use crate::members::{ByPosition, Members, Position};
use crate::sequencer::answer::Misbehaved;
use crate::sequencer::context::Context;
use crate::sequencer::parents::{self, PassedOver};
use crate::table::{GroupSlot, SyncSlot, Table, TaskSlot};
use crate::task::{Kind, SyncStep, Tasks};
use amita_reactor::Time;
use amita_types::ChunkIndex;
use std::collections::{BTreeSet, VecDeque};

/// Members that are brought up to date at one time; others wait.
const MAX_SYNCS: usize = 4;

/// All members that are brought up to date.
#[derive(Debug, Default)]
pub(super) struct Syncs {
    /// Members that wait for their turn: group and position.
    waiting: VecDeque<(GroupSlot, Position)>,
    /// None of those that wait may begin while no more than this is known of what is claimed for the parents.
    held_back: Option<usize>,
    members: Table<SyncSlot, Option<Sync>>,
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

impl Syncs {
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.members.iter().all(Option::is_none)
    }

    pub fn keys(&self) -> impl Iterator<Item = SyncSlot> + use<> {
        self.members.keys()
    }

    /// One more is to be brought up to date.
    pub fn wait(&mut self, group: GroupSlot, position: Position) {
        self.held_back = None;
        self.waiting.push_back((group, position));
    }

    /// Those whose turn it is begin. Of a clone nobody does before its parents are whole there (S6).
    pub fn seat(&mut self, cx: &mut Context, now: Time) {
        // Without parents, which may have left the record, nobody waits for them.
        if parents::has_any(cx) && self.held_back == Some(cx.parents.known()) {
            // There may be one in each of the pool's groups: they are not looked at after each event.
            if !self.waiting.is_empty() {
                parents::look_at_claims(cx, now);
            }
            return;
        }
        let mut at = 0;
        while self.members.iter().flatten().count() < MAX_SYNCS
            && let Some(&(group, position)) = self.waiting.get(at)
        {
            if !parents::allows(cx, group, position) {
                parents::look_at_claims(cx, now);
                at += 1;
                continue;
            }
            self.waiting.remove(at);
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
            self.members.put(sync);
        }
        let all_refused = at > 0 && at == self.waiting.len();
        self.held_back = Some(cx.parents.known()).filter(|_| all_refused);
    }

    /// A chunk that the member did not make before the others is compared, whatever the lists say. (Where its turn has not come, they
    /// will say it.)
    pub fn compare_too(&mut self, cx: &Context, mendings: &Mendings, (group, position, index): PassedOver) {
        let is_it = |sync: &Sync| (sync.group, sync.position) == (group, position);
        let found = self
            .members
            .keys()
            .find(|&of| self.members[of].as_ref().is_some_and(is_it));
        let Some((of, sync)) = found.and_then(|of| Some((of, self.members[of].as_mut()?))) else {
            return;
        };
        let chunk = cx.chunks.slot_of(index);
        if chunk.is_some_and(|chunk| mendings.compares(of, chunk)) || sync.todo.contains(&index) {
            return;
        }
        match sync.list {
            Listing::Ended => sync.todo.push_back(index),
            _ => drop(sync.unsettled.insert(index)),
        }
    }

    pub fn advance(&mut self, cx: &mut Context, mendings: &mut Mendings, now: Time, of: SyncSlot) {
        let Some(sync) = &mut self.members[of] else { return };
        if let Listing::Due { at, from } = sync.list
            && sync.todo.len() < MAX_SYNC_QUEUE
        {
            if at > now {
                cx.agenda.put_off(at);
            } else {
                sync.list_chunks(cx, now, of, from);
            }
        }
        while mendings.active() < MAX_MENDINGS
            && let Some(index) = sync.todo.pop_front()
        {
            sync.active += 1;
            let chunk = cx.chunk_slot(index);
            mendings.start(now, Mode::Sync(of), sync.group, sync.position, chunk);
        }
    }

    /// Asks for the same page again, after a moment.
    pub fn list_again(&mut self, cx: &mut Context, now: Time, slot: TaskSlot, of: SyncSlot) {
        cx.settle_all(slot);
        cx.tasks.remove(slot);
        let at = now.plus(cx.config.busy_pause * 10);
        if let Some(sync) = &mut self.members[of]
            && let Listing::Asked { from, .. } = sync.list
        {
            sync.list = Listing::Due { at, from };
        }
        cx.agenda.put_off(at);
        cx.agenda.arm(at);
    }

    /// A member has listed its chunks.
    pub fn listed(
        &mut self,
        cx: &mut Context,
        tallies: &mut Tallies,
        now: Time,
        (slot, position): (TaskSlot, Position),
        of: SyncSlot,
        page: Page,
    ) -> Result<(), Misbehaved> {
        let group = cx.tasks[slot].group;
        let Some(sync) = &mut self.members[of] else {
            cx.settle_and_drop(slot, position);
            return Ok(());
        };
        let Listing::Asked { from, pages } = &mut sync.list else {
            cx.settle_and_drop(slot, position);
            return Ok(());
        };
        check_page(cx, group, *from, &page)?;
        pages[position] = Some(page);
        cx.settle(slot, position);
        if cx.tasks[slot].waiting.is_empty() {
            cx.tasks.remove(slot);
            sync.compare_lists(cx, tallies, now);
        }
        Ok(())
    }

    /// A chunk has been dealt with, or its member is gone.
    pub fn chunk_mended(&mut self, of: SyncSlot) {
        if let Some(sync) = &mut self.members[of] {
            sync.active -= 1;
        }
    }

    /// Says that the member holds everything, if it does.
    pub fn end(&mut self, cx: &mut Context, mendings: &mut Mendings, tallies: &mut Tallies, now: Time, of: SyncSlot) {
        let early = cx.config.faults.has(Fault::ClaimEarly);
        let ended = |sync: &mut Sync| {
            let compared = sync.todo.is_empty() && sync.active == 0;
            matches!(sync.list, Listing::Ended) && (compared || early)
        };
        let Some(Sync { group, position, .. }) = self.members[of].take_if(ended) else {
            return;
        };
        mendings.drop_of(cx, of);
        let store = cx.id_of(group, position);
        tallies.whole(now, store);
        let state = &mut cx.groups[group];
        state.members.whole.add(position);
        cx.counters.sync_whole += 1;
        let (group, since) = (state.id, state.members.since[position]);
        cx.effects.push_back(Effect::Whole { group, store, since });
        if !self.waiting.is_empty() {
            // The next one begins with the next event.
            cx.agenda.put_off(now);
        }
    }

    /// These members are not syncing any more.
    pub fn forget(
        &mut self,
        cx: &mut Context,
        mendings: &mut Mendings,
        tallies: &mut Tallies,
        group: GroupSlot,
        positions: Members,
    ) {
        for index in (0..self.waiting.len()).rev() {
            let (waits, position) = self.waiting[index];
            if waits == group && positions.has(position) {
                self.waiting.remove(index);
                tallies.dropped(cx.id_of(group, position), false);
            }
        }
        for of in self.members.keys() {
            let gone = self.members[of].take_if(|sync| sync.group == group && positions.has(sync.position));
            if let Some(gone) = gone {
                tallies.dropped(cx.id_of(group, gone.position), matches!(gone.list, Listing::Ended));
                orphan_listing(&mut cx.tasks, of);
                mendings.drop_of(cx, of);
            }
        }
    }
}

/// Answers to what was asked for it come to nothing.
fn orphan_listing(tasks: &mut Tasks, gone: SyncSlot) {
    for slot in tasks.slots() {
        if matches!(tasks[slot].kind, Kind::Sync(SyncStep::Chunks(of)) if of == gone) {
            tasks[slot].kind = Kind::Orphan;
        }
    }
}

impl Sync {
    /// Asks the member and all in-sync ones for the chunks that they hold, if all of them can be asked.
    fn list_chunks(&mut self, cx: &mut Context, now: Time, of: SyncSlot, from: ChunkIndex) {
        let members = cx.groups[self.group].members.current.or(Members::one(self.position));
        if !ask_for_chunks(cx, now, (self.group, members), SyncStep::Chunks(of), from) {
            return;
        }
        if from == ChunkIndex(0) && !cx.config.faults.has(Fault::TrustLists) {
            let busy = cx.groups[self.group].busy.iter();
            self.unsettled.extend(busy.map(|chunk| cx.chunks[chunk].index));
            // What is being made from a parent nobody may list yet.
            let openings = cx.groups[self.group].openings.all.iter();
            let openings = openings.filter(|_| parents::has_any(cx));
            self.unsettled.extend(openings.map(|chunk| cx.chunks[chunk].index));
        }
        self.list = Listing::Asked {
            from,
            pages: Default::default(),
        };
    }

    /// All have answered: what differs is to be compared block by block.
    fn compare_lists(&mut self, cx: &Context, tallies: &mut Tallies, now: Time) {
        let list = std::mem::replace(&mut self.list, Listing::Ended);
        let Listing::Asked { pages, .. } = list else {
            unreachable!("the caller has looked")
        };
        let (chunks, end) = merged(*pages);
        let listed = chunks.len() as u64;
        let mut differ = Vec::new();
        for (index, version) in chunks {
            let unsettled = self.unsettled.remove(&index);
            let alike = version.is_some_and(|version| is_settled_at(&cx.chunks, index, version));
            if unsettled || !alike {
                differ.push(index);
            }
        }
        if cx.config.faults.has(Fault::WholeAtOnce) {
            differ.clear();
        }
        let to_do = differ.len() as u64;
        self.todo.extend(differ);
        match end {
            Some(from) => self.list = Listing::Due { at: now, from },
            None => self.todo.extend(std::mem::take(&mut self.unsettled)),
        }
        tallies.listed(cx.id_of(self.group, self.position), listed, to_do, end.is_none());
    }
}
