//! Links, silence and promises: what belongs to a store and not to a group.

use super::{NEVER, Sequencer};
use crate::config::{BUSY_PATIENCE, IDLE_PATIENCE, PROMISE_PERCENT};
use crate::faults::Fault;
use crate::members::{Members, Position};
use crate::table::{GroupSlot, StoreSlot, TaskSlot};
use crate::task::Kind;
use amita_reactor::buggify::{Point, buggify};
use amita_reactor::{Slice, Time};
use amita_types::StoreId;
use amita_types::message::RequestBody;
use std::time::Duration;

/// Whose silence may matter: a few of the stores of a large pool.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// Stores that owe an answer, or for which an opening waits, and some of which that was so a moment ago.
    pub stores: Vec<StoreSlot>,
    /// Groups with chunks that are to be opened, and some that had any a moment ago.
    openings: Vec<GroupSlot>,
    /// How often it was looked for openings that wait.
    round: u64,
}

/// What an answer says of the store that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// It cannot take more now, or is being mounted.
    Busy,
    /// It answers; that needs no disk.
    Speaks,
    /// It has done what it was asked then.
    Works(Time),
}

impl Sequencer {
    /// There is an ordered link to the store, on which nothing was sent yet. One of which no group says anything yet is
    /// remembered: it may be listed as syncing while its link stands, and nobody says then once more that it does.
    pub fn store_up(&mut self, now: Time, id: StoreId) {
        if self.stopped {
            return;
        }
        let number = self.store_number(now, id);
        if self.stores[number].up {
            // A new link without word of the old one's end: what was under way there is gone.
            self.link_ended(now, number);
        }
        let store = &mut self.stores[number];
        store.up = true;
        store.lost = false;
        store.poisoned = false;
        store.refusing = false;
        store.worked = false;
        store.stuck = false;
        store.heard = now;
        store.owes_since = now;
        let due = now.plus(self.config.store_timeout);
        self.arm(due);
        // First on the link: the fences (R6). Writes are resent when they are answered.
        for index in 0..self.groups.touched.len() {
            self.send_fence(now, self.groups.touched[index]);
        }
        self.finish(now);
    }

    /// The link to the store has ended. Requests stay and are sent again when there is a new one; reads go elsewhere.
    pub fn store_down(&mut self, now: Time, id: StoreId) {
        let Some(number) = self.stores.slot_of(id) else {
            return;
        };
        if self.stopped || !self.stores[number].up {
            return;
        }
        self.link_ended(now, number);
        self.finish(now);
    }

    /// The store is surely dead, or was silent for too long: its groups go on without it (R12).
    pub fn store_lost(&mut self, now: Time, id: StoreId) {
        let Some(number) = self.stores.slot_of(id) else {
            return;
        };
        if self.stopped {
            return;
        }
        self.lose(now, number);
        self.finish(now);
    }

    pub(super) fn lose(&mut self, now: Time, number: StoreSlot) {
        let store = &mut self.stores[number];
        if !store.lost {
            store.lost = true;
            store.lost_at = now;
        }
        self.metadata.evictions = true;
        self.intake.is_due = true;
    }

    fn link_ended(&mut self, now: Time, number: StoreSlot) {
        let store = &mut self.stores[number];
        store.up = false;
        store.credit = 0;
        store.forget_words();
        store.in_doubt.clear();
        if store.awaited == 0 {
            store.heard = now;
        }
        for slot in self.tasks.slots() {
            if matches!(self.tasks[slot].kind, Kind::Free) {
                continue;
            }
            let group = self.tasks[slot].group;
            let Some(position) = self.position(group, number) else {
                continue;
            };
            if !self.tasks[slot].waiting.has(position) {
                continue;
            }
            self.tasks[slot].sent.remove(position);
            match &mut self.tasks[slot].kind {
                // Kept, and sent again on the next link.
                Kind::Write(write) => write.charged.remove(position),
                Kind::Fence { .. } => {}
                Kind::Read(_) => self.give_up_on(now, slot, position),
                Kind::Confirm => self.confirmed(slot, position),
                Kind::Settle { .. } => self.end_settle(slot, position),
                Kind::Orphan => self.settle_and_drop(slot, position),
                Kind::Join => self.join_lost(slot, position),
                Kind::Sync(step) => {
                    let step = *step;
                    self.sync_lost(now, slot, position, step);
                }
                // Its chunk is opened anew, from the start.
                Kind::Open(_) => {}
                Kind::Free => unreachable!(),
            }
        }
        for index in 0..self.groups.touched.len() {
            let group = self.groups.touched[index];
            if let Some(position) = self.position(group, number)
                && self.groups[group].all().has(position)
            {
                self.unready(group, position);
                if self.groups[group].current.has(position) {
                    self.reset_openings(group);
                }
                // Writes that it refused are among those that are sent again, all of them, in order.
                for index in 0..self.groups[group].busy.len() {
                    let chunk = self.groups[group].busy[index];
                    self.chunks[chunk].stalled.remove(position);
                    self.chunks[chunk].behind.remove(position);
                }
                self.send_fence(now, group);
            }
        }
        self.intake.is_due = true;
        self.arm_silence(now);
    }

    /// The store's accounts begin at zero: what waits for it was charged to those before, and is charged when it is sent.
    fn forget_charges(&mut self, number: StoreSlot) {
        for slot in self.tasks.slots() {
            let Some(position) = self.position(self.tasks[slot].group, number) else {
                continue;
            };
            let task = &mut self.tasks[slot];
            if task.waiting.has(position)
                && !task.sent.has(position)
                && let Kind::Write(write) = &mut task.kind
            {
                write.charged.remove(position);
            }
        }
    }

    /// A store's position in a group.
    pub(super) fn position(&self, group: GroupSlot, number: StoreSlot) -> Option<Position> {
        self.groups[group].members.find(number)
    }

    /// A store has said something. One that only says that it is busy (because it is being mounted, say) is as silent
    /// as one that says nothing; so is one of which only the process lives (R12).
    pub(super) fn heard(&mut self, now: Time, number: StoreSlot, credit_blocks: u32, news: News) {
        let memory_is_life = self.config.faults.has(Fault::MemoryIsLife);
        if matches!(news, News::Works(_)) && self.stores[number].poisoned {
            self.forget_charges(number);
        }
        let store = &mut self.stores[number];
        store.refusing = news == News::Busy;
        match news {
            News::Works(sent_at) => {
                if std::mem::take(&mut store.poisoned) {
                    // It was mounted anew. Its accounts begin at zero, as on a new link (R7), and with this answer.
                    store.credit = 0;
                    store.in_doubt.clear();
                    store.forget_words();
                    store.unfit = false;
                }
                store.heard = now;
                store.served = store.served.max(sent_at);
                store.worked = true;
                store.lost &= store.stuck;
            }
            News::Speaks if memory_is_life => {
                store.heard = now;
                store.lost = false;
            }
            News::Busy | News::Speaks => {}
        }
        store.credit += u64::from(credit_blocks);
        if credit_blocks > 0 && store.writes == 0 {
            self.note_credits(number);
        }
        // The end of any request may have brought what waiting writes need.
        self.intake.is_due = true;
    }

    /// A store that was lost or stuck, and has answered all that it owed, is as good as any other: nothing else would come that
    /// says so. (What comes out of its memory says little, but nothing that needs its disk is owed. Not one that is busy or
    /// being mounted.)
    pub(super) fn answered_all(&mut self, number: StoreSlot) {
        let store = &mut self.stores[number];
        if store.awaited == 0 && store.up && (store.lost || store.stuck) && !store.poisoned && !store.refusing {
            (store.stuck, store.lost) = (false, false);
            self.intake.is_due = true;
        }
    }

    // ---- silence ----

    /// Finds stores that owe an answer and have done nothing for too long, or have done what they were asked later.
    pub(super) fn listen_for_silence(&mut self, now: Time) {
        self.look_for_stuck(now);
        self.look_for_missed();
        for index in 0..self.silence.stores.len() {
            let number = self.silence.stores[index];
            let store = &self.stores[number];
            let quiet = now.since(store.heard) >= self.patience(store);
            // Its link ends again and again before it has done anything.
            let idle = store.idle_since != NEVER && now.since(store.idle_since) >= self.idle_patience(store);
            let silent = quiet || idle || store.stuck || buggify(Point::LoseStore);
            if silent && !store.lost && (store.awaited > 0 || self.is_missed(number)) {
                self.lose(now, number);
            }
        }
    }

    pub(super) fn arm_silence(&mut self, now: Time) {
        self.look_for_missed();
        let Sequencer { stores, silence, .. } = self;
        silence.stores.retain(|&number| {
            let store = &mut stores[number];
            store.owes = store.awaited > 0 || store.missed == silence.round;
            store.owes
        });
        for index in 0..self.silence.stores.len() {
            let number = self.silence.stores[index];
            let store = &self.stores[number];
            if !store.lost && (store.awaited > 0 || self.is_missed(number)) {
                let due = store.heard.plus(self.patience(store)).max(now);
                self.arm(due);
            }
            let store = &self.stores[number];
            if store.idle_since != NEVER && !store.lost {
                self.arm(store.idle_since.plus(self.idle_patience(store)).max(now));
            }
            let store = &self.stores[number];
            if store.awaited > 0 && store.up {
                self.arm(store.look_at.max(now));
            }
        }
    }

    /// For how long a store may do nothing.
    fn patience(&self, store: &super::state::Store) -> Duration {
        if store.refusing && store.worked && !self.config.faults.has(Fault::BusyIsSilence) {
            // It is not being mounted: it has too much to do, and others get on.
            self.config.store_timeout * BUSY_PATIENCE
        } else {
            self.config.store_timeout
        }
    }

    /// For how long a store may owe work and do none, however often its link comes back.
    fn idle_patience(&self, store: &super::state::Store) -> Duration {
        self.patience(store) * IDLE_PATIENCE
    }

    /// A single operation of a disk may hang while others go on (R12): a store that owes an answer for too long, and has
    /// answered what it was asked later, is stuck. One that answers in the order in which it was asked is slow, however long
    /// it takes. All requests are walked through, but only once in the time that one may take.
    fn look_for_stuck(&mut self, now: Time) {
        // Only stores that owe an answer can be stuck, and all of those are in the list.
        let due = |number: &StoreSlot| {
            let store = &self.stores[*number];
            store.awaited > 0 && store.up && now >= store.look_at
        };
        if self.config.faults.has(Fault::MemoryIsLife) || !self.silence.stores.iter().any(due) {
            return;
        }
        let timeout = self.config.store_timeout;
        for &number in &self.silence.stores {
            let store = &mut self.stores[number];
            store.stuck = false;
            // None of what was sent until now is owed for too long before then; a slow store is looked at more often.
            store.look_at = now.plus(timeout);
        }
        for slot in self.tasks.slots() {
            let task = &self.tasks[slot];
            if matches!(task.kind, Kind::Free) {
                continue;
            }
            let members = &self.groups[task.group].members;
            for position in task.waiting.and(task.sent).iter() {
                let store = &mut self.stores[members[position]];
                let since = task.sent_at[position].max(store.owes_since);
                let due = since.plus(timeout);
                if due <= now {
                    store.stuck |= store.served > since;
                    store.look_at = store.look_at.min(now.plus(timeout / 8));
                } else {
                    store.look_at = store.look_at.min(due);
                }
            }
        }
    }

    /// The same for the members of one group, of which a chunk is to be opened.
    pub(super) fn arm_silence_of(&mut self, now: Time, group: GroupSlot) {
        for position in self.groups[group].current.iter() {
            let store = &self.stores[self.groups[group].members[position]];
            if !store.up && !store.lost {
                let due = store.heard.plus(self.config.store_timeout).max(now);
                self.arm(due);
            }
        }
    }

    /// Chunks of the group are to be opened.
    pub(super) fn note_opening(&mut self, group: GroupSlot) {
        if !std::mem::replace(&mut self.groups[group].opens, true) {
            self.silence.openings.push(group);
        }
    }

    /// Finds the stores without a link for which an opening waits.
    fn look_for_missed(&mut self) {
        self.silence.round += 1;
        if self.config.faults.has(Fault::ServeHalfFenced) {
            self.note_all_openings();
        }
        let mut index = 0;
        while let Some(&number) = self.silence.openings.get(index) {
            let group = &mut self.groups[number];
            if group.opening.is_empty() && !self.config.faults.has(Fault::ServeHalfFenced) {
                group.opens = false;
                self.silence.openings.swap_remove(index);
                continue;
            }
            index += 1;
            for position in group.current.iter() {
                let number = group.members[position];
                let store = &mut self.stores[number];
                if !store.up {
                    store.missed = self.silence.round;
                    if !std::mem::replace(&mut store.owes, true) {
                        self.silence.stores.push(number);
                    }
                }
            }
        }
    }

    /// Does I/O wait for a store to which there is no link, as [`Sequencer::look_for_missed`] has found?
    fn is_missed(&self, number: StoreSlot) -> bool {
        let store = &self.stores[number];
        !store.up && store.missed == self.silence.round
    }

    // ---- promises ----

    /// Whose promises count (R4): those that are in sync, or may be by a record that we have not read yet.
    pub(super) fn promisers(&self, group: GroupSlot) -> Members {
        let group = &self.groups[group];
        if self.config.faults.has(Fault::NoClaimedPromises) {
            return group.current;
        }
        group.current.or(group.whole)
    }

    /// A promise counts from the moment when the request was sent (R4): the store counts its own from later.
    pub(super) fn promised(&mut self, slot: TaskSlot, position: Position, number: StoreSlot, promise_ms: u16) {
        let arrival = self.config.faults.has(Fault::PromiseFromArrival);
        let sent_at = if arrival {
            self.stores[number].heard
        } else {
            self.tasks[slot].sent_at[position]
        };
        // The store's clock may run faster than ours.
        let percent = if self.config.faults.has(Fault::WholePromise) {
            100
        } else {
            PROMISE_PERCENT
        };
        let promise = Duration::from_millis(u64::from(promise_ms)) * percent / 100;
        let store = &mut self.stores[number];
        store.promise = promise;
        store.confirmed = store.confirmed.max(sent_at);
        store.promise_until = store.promise_until.max(sent_at.plus(promise));
    }

    /// Are there enough promises that no lawful takeover can have happened yet? A new owner must fence all in-sync
    /// members, of which it can have evicted all but the least number: so one more than can be evicted. `since`: when the
    /// read was sent that asks. Without clocks, so many members must have known no other owner after that.
    pub(super) fn is_promised(&self, now: Time, group: GroupSlot, since: Time) -> bool {
        if self.config.faults.has(Fault::NoPromises) {
            return true;
        }
        let promisers = self.promisers(group);
        let group = &self.groups[group];
        let holds = |&position: &Position| {
            let store = &self.stores[group.members[position]];
            if self.config.confirm_reads {
                store.confirmed >= since
            } else {
                store.promise_until > now
            }
        };
        let held = promisers.iter().filter(holds).count();
        held > promisers.count().saturating_sub(self.owned.min_copies)
    }

    /// Asks members whose promise is half over (or gone) for a new one, beside what goes to them anyway. `since`: as above.
    pub(super) fn renew_promises(&mut self, now: Time, group: GroupSlot, besides: Members, since: Time) {
        for position in self.promisers(group).without(besides).iter() {
            let number = self.groups[group].members[position];
            let store = &self.stores[number];
            let wanted = if self.config.confirm_reads {
                store.confirmed < since
            } else {
                store.promise_until < now.plus(store.promise / 2) || store.promise_until <= now
            };
            if wanted {
                self.confirm(now, group, position);
            }
        }
    }

    /// Sends an empty request, unless one is under way.
    pub(super) fn confirm(&mut self, now: Time, group: GroupSlot, position: Position) {
        let number = self.groups[group].members[position];
        if self.stores[number].confirm.is_some() || !self.can_send(group, position) {
            return;
        }
        self.counters.confirms += 1;
        let slot = self.tasks.add(Kind::Confirm, group, None);
        self.stores[number].confirm = Some(slot);
        self.stores[number].confirm_at = now;
        self.expect(now, slot, position);
        self.send(now, slot, position, RequestBody::Confirm, Slice::default());
    }

    /// The empty request has been answered (well or not), or its link has ended.
    pub(super) fn confirmed(&mut self, slot: TaskSlot, position: Position) {
        let number = self.groups[self.tasks[slot].group].members[position];
        assert_eq!(
            self.stores[number].confirm,
            Some(slot),
            "a store is asked for one promise at a time"
        );
        self.stores[number].confirm = None;
        self.settle_and_drop(slot, position);
    }

    // ---- being left alone ----

    /// Leaves a member alone for a moment.
    pub(super) fn pause(&mut self, now: Time, group: GroupSlot, position: Position, pause: Duration) {
        if !self.groups[group].paused.has(position) {
            self.groups[group].paused.add(position);
            let until = now.plus(pause);
            self.agenda.pauses.push((until, group, position));
            self.arm(until);
        }
    }

    pub(super) fn end_pauses(&mut self, now: Time) {
        let mut index = 0;
        while index < self.agenda.pauses.len() {
            let (until, group, position) = self.agenda.pauses[index];
            if until > now {
                index += 1;
                continue;
            }
            self.agenda.pauses.swap_remove(index);
            self.groups[group].paused.remove(position);
            self.send_fence(now, group);
            self.resend(now, group, position);
            self.catch_up_again(now, group);
            self.open_chunks(now, group);
            self.intake.is_due = true;
        }
    }

    /// May something other than a fence be sent to the member?
    pub(super) fn can_send(&self, group: GroupSlot, position: Position) -> bool {
        let group = &self.groups[group];
        group.ready.and(group.all()).without(group.paused).has(position) && self.stores[group.members[position]].up
    }
}
