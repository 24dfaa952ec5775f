//! Requests and what is owed on them: one place where both are counted.

use super::context::Context;
use super::credits;
use crate::faults::Fault;
use crate::io::Effect;
use crate::members::Position;
use crate::table::TaskSlot;
use crate::task::Kind;
use amita_reactor::{Slice, Time};
use amita_types::SnapshotId;
use amita_types::message::{Request, RequestBody, Scope};

impl Context {
    /// Sends a task's request to a member. The task awaits it already. What changes a chunk names the number of its version; all
    /// else is about the volume itself.
    pub fn send(&mut self, now: Time, slot: TaskSlot, position: Position, body: RequestBody, payload: Slice) {
        let number = match &self.tasks[slot].kind {
            Kind::Write(_) if self.config.faults.has(Fault::NumberWhenSent) => self.cut.number,
            Kind::Write(write) => write.number,
            _ => SnapshotId::HEAD,
        };
        self.send_at(now, slot, position, number, body, payload);
    }

    /// The same, and the request is about this snapshot, or carries its number.
    pub fn send_at(
        &mut self,
        now: Time,
        slot: TaskSlot,
        position: Position,
        snapshot: SnapshotId,
        body: RequestBody,
        payload: Slice,
    ) {
        let task = &mut self.tasks[slot];
        debug_assert!(task.waiting.has(position) && !task.sent.has(position));
        task.sent.add(position);
        for since in [&mut task.sent_at[position], &mut task.owed_since[position]] {
            if *since == Time(0) {
                *since = now;
            }
        }
        if task.steps.first_sent == Time(0) {
            task.steps.first_sent = now;
        }
        let (trace, purpose) = (task.trace, task.purpose);
        let group = &self.groups[task.group];
        let store = self.stores[group.members[position]].id;
        let request = Request {
            id: self.tasks.id(slot),
            store,
            scope: Scope {
                volume: self.owned.volume.id,
                generation: self.owned.generation,
                group: group.id,
                epoch: group.record.epoch,
                snapshot,
            },
            trace,
            purpose,
            body,
        };
        self.effects.push_back(Effect::Send {
            store,
            request,
            payload,
        });
    }

    /// A task awaits an answer of a member from now on.
    pub fn expect(&mut self, now: Time, slot: TaskSlot, position: Position) {
        let task = &mut self.tasks[slot];
        assert!(!task.waiting.has(position), "one answer of each member is awaited");
        task.waiting.add(position);
        task.sent.remove(position);
        (task.sent_at[position], task.owed_since[position]) = (Time(0), Time(0));
        let group = task.group;
        let number = self.groups[group].members[position];
        let store = &mut self.stores[number];
        store.via = Some(group);
        let begins = store.owed.awaited == 0;
        let kind = &self.tasks[slot].kind;
        let write_bytes = match kind {
            Kind::Write(write) => Some(write.payload.len() as u64),
            _ => None,
        };
        store.expect(now, self.config.store_timeout, kind.is_work(), write_bytes);
        if begins {
            if !std::mem::replace(&mut store.owed.listed, true) {
                self.silence.stores.push(number);
            }
            self.agenda.arm(store.owed.heard.plus(self.config.store_timeout));
        }
    }

    /// A task awaits no answer of a member any more.
    pub fn settle(&mut self, slot: TaskSlot, position: Position) {
        let task = &mut self.tasks[slot];
        assert!(task.waiting.has(position), "settled once");
        task.waiting.remove(position);
        let number = self.groups[task.group].members[position];
        let store = &mut self.stores[number];
        store.owed.settle();
        if let Kind::Write(write) = &self.tasks[slot].kind {
            store.owed.writes -= 1;
            if !(self.config.faults.has(Fault::ForgetBytes) && write.version.counter().is_multiple_of(64)) {
                store.owed.bytes -= write.payload.len() as u64;
            }
            if store.owed.writes == 0 {
                credits::note(self, number);
            }
        }
    }

    /// A member has answered what an I/O needed of it.
    pub fn note_answer(&mut self, now: Time, slot: TaskSlot, position: Position) {
        let group = self.tasks[slot].group;
        self.tasks[slot].steps.answered = (now, Some(self.groups[group].members[position]));
    }

    pub fn settle_all(&mut self, slot: TaskSlot) {
        for position in self.tasks[slot].waiting.iter() {
            self.settle(slot, position);
        }
    }

    pub fn settle_and_drop(&mut self, slot: TaskSlot, position: Position) {
        self.settle(slot, position);
        if self.tasks[slot].waiting.is_empty() {
            self.tasks.remove(slot);
        }
    }
}
