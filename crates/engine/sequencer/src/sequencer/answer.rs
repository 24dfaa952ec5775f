//! An answer comes in: it finds its task, and what it says is sorted out.

use super::store::News;
use super::{Sequencer, UNFIT_PAUSES};
use crate::io::{Effect, StopReason, Warning};
use crate::members::Position;
use crate::table::{GroupSlot, StoreSlot, TaskSlot};
use crate::task::Kind;
use amita_reactor::{Slice, Time};
use amita_types::RequestId;
use amita_types::message::{AllocationAnswer, Answer, AnswerBody, DataAnswer, Problem, Refusal, SettledAnswer};

/// An answer that was awaited.
#[derive(Clone, Copy)]
struct Awaited {
    slot: TaskSlot,
    position: Position,
    store: StoreSlot,
}

impl Sequencer {
    /// A store has answered.
    pub fn answer(&mut self, now: Time, answer: Answer, payload: Slice) {
        if self.stopped {
            return;
        }
        let Some(store) = self.stores.slot_of(answer.store) else {
            return;
        };
        let awaited = self.awaited(answer.id, store);
        if let Some((slot, _)) = awaited
            && self.tasks[slot].kind.is_work()
        {
            self.stores[store].idle_since = now;
        }
        let news = match answer.result {
            Err(Refusal::Busy) => News::Busy,
            _ => self.news_of(awaited),
        };
        self.heard(now, store, answer.credit_blocks, news);
        if let Some((slot, position)) = awaited {
            let member = Awaited { slot, position, store };
            if answer.result.is_ok() && answer.promise_ms > 0 {
                // Only what was done under our generation is a promise to us (R4).
                self.promised(slot, position, store, answer.promise_ms);
            }
            if answer.result.is_ok() {
                self.measure(now, slot, position, store);
            }
            match answer.result {
                Ok(body) => self.accepted(now, member, body, payload),
                Err(refusal) => self.refused(now, member, &refusal),
            }
        } else {
            self.answered_late(answer.id, store, answer.result.is_err());
        }
        self.answered_all(store);
        self.finish(now);
    }

    /// What an answer says of its store. Promises and credits are given out of its memory: its disk may hang meanwhile.
    fn news_of(&self, awaited: Option<(TaskSlot, Position)>) -> News {
        match awaited {
            Some((slot, _)) if matches!(self.tasks[slot].kind, Kind::Confirm | Kind::Settle { .. }) => News::Speaks,
            Some((slot, position)) => News::Works(self.tasks[slot].sent_at[position]),
            None => News::Works(Time(0)),
        }
    }

    /// The task and position that an answer belongs to, where it is still awaited.
    fn awaited(&self, id: RequestId, store: StoreSlot) -> Option<(TaskSlot, Position)> {
        let slot = self.tasks.find(id)?;
        let task = &self.tasks[slot];
        let position = self.position(task.group, store)?;
        // What was not sent in this stint of the member is not answered either: an old answer does not count.
        (task.waiting.has(position) && task.sent.has(position)).then_some((slot, position))
    }

    fn accepted(&mut self, now: Time, member: Awaited, body: AnswerBody, payload: Slice) {
        let Awaited { slot, position, .. } = member;
        match (&self.tasks[slot].kind, body) {
            (Kind::Write(_), AnswerBody::Done) => self.written(now, slot, position),
            (Kind::Read(_), AnswerBody::Data(DataAnswer { version, sums })) => {
                self.data_arrived(now, slot, position, version, &sums, payload);
            }
            (Kind::Read(_), AnswerBody::Allocation(AllocationAnswer { allocated })) => {
                self.allocation_arrived(now, slot, position, allocated);
            }
            (Kind::Fence { .. }, AnswerBody::Fenced) => self.fenced(now, slot, position),
            (Kind::Confirm, AnswerBody::Confirmed) => self.confirmed(slot, position),
            (Kind::Settle { .. }, AnswerBody::Settled(SettledAnswer { full })) => self.settled(slot, position, full),
            (Kind::Orphan, _) => self.settle_and_drop(slot, position),
            (Kind::Join, AnswerBody::Joined(_)) => self.joined(now, slot, position),
            (&Kind::Sync(step), body) => self.sync_answered(now, slot, position, step, body, payload),
            (Kind::Open(_), body) => self.opening_answered(now, slot, position, body, &payload),
            (_, body) => {
                // An answer to another question: the store is not to be trusted with this group.
                let refusal = format!("an answer that was not asked for: {body:?}");
                self.misbehaved(now, slot, position, refusal);
            }
        }
    }

    /// Refusals whose meaning does not depend on what was asked come here first.
    fn refused(&mut self, now: Time, member: Awaited, refusal: &Refusal) {
        let Awaited { slot, position, store } = member;
        let group = self.tasks[slot].group;
        match refusal {
            Refusal::Fenced { generation } if *generation > self.owned.generation => {
                return self.stop(StopReason::Deposed {
                    generation: *generation,
                });
            }
            Refusal::StaleEpoch { .. } => {
                // R2: whoever refuses for an old epoch has learned of a new one; the metadata says which.
                self.counters.stale_epochs += 1;
                self.unready(group, position);
                self.groups[group].in_doubt = true;
                self.reread(group);
            }
            Refusal::NotFenced | Refusal::Fenced { .. } => {
                self.counters.not_fenced += 1;
                self.unready(group, position);
            }
            Refusal::Busy => self.pause(now, group, position, self.config.busy_pause),
            Refusal::Poisoned | Refusal::NoSuchStore => {
                if !self.stores[store].unfit {
                    self.stores[store].unfit = true;
                    self.warn_refused(group, store, refusal);
                }
                self.stores[store].worked = false;
                self.lose(now, store);
                self.pause(now, group, position, self.config.busy_pause * UNFIT_PAUSES);
                if *refusal == Refusal::Poisoned {
                    self.stores[store].poisoned = true;
                }
            }
            _ => {}
        }
        match self.tasks[slot].kind {
            Kind::Write(_) => self.write_refused(now, slot, position, refusal),
            Kind::Read(_) => self.read_refused(now, slot, position, refusal),
            Kind::Fence { .. } => self.fence_refused(now, slot, position, refusal),
            Kind::Confirm => self.confirmed(slot, position),
            Kind::Settle { .. } => self.settle_refused(slot, position),
            Kind::Orphan => self.settle_and_drop(slot, position),
            Kind::Open(_) => self.opening_refused(now, slot, position, refusal),
            Kind::Join => self.join_refused(now, slot, position, refusal),
            Kind::Sync(step) => self.sync_refused(now, slot, position, step, refusal),
            Kind::Free => unreachable!("nothing is awaited from a task that has ended"),
        }
        if *refusal == Refusal::Poisoned {
            self.unready(group, position);
        }
        self.send_fence(now, group);
    }

    /// A member of a group does what no store of this protocol does: it is evicted.
    pub(super) fn misbehaved(&mut self, now: Time, slot: TaskSlot, position: Position, refusal: String) {
        let group = self.tasks[slot].group;
        let store = self.stores[self.groups[group].members[position]].id;
        self.effects.push_back(Effect::Warn(Warning::Refused {
            group: self.groups[group].id,
            store,
            refusal,
        }));
        self.evict_soon(group, position);
        let store = self.groups[group].members[position];
        let what = Problem::Range;
        self.refused(now, Awaited { slot, position, store }, &Refusal::Invalid { what });
    }

    pub(super) fn warn_refused(&mut self, group: GroupSlot, store: StoreSlot, refusal: &Refusal) {
        self.effects.push_back(Effect::Warn(Warning::Refused {
            group: self.groups[group].id,
            store: self.stores[store].id,
            refusal: format!("{refusal:?}"),
        }));
    }
}
