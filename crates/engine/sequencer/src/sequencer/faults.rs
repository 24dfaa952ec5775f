//! What a sequencer does wrong where a rule is switched off, as far as it is more than leaving something out. Nothing of this
//! is part of a build without the feature `planted`: every question for a switch is answered `false` there.

use super::Sequencer;
use crate::members::Members;
use crate::table::{ChunkSlot, GroupSlot, TaskSlot};
use amita_reactor::Time;
use amita_types::io::Payload;
use amita_types::map;

impl Sequencer {
    /// `Fault::AcknowledgeEarly`: the client is told before the write is committed.
    pub(super) fn tell_early(&mut self, slot: TaskSlot) {
        let write = self.tasks[slot].write();
        if std::mem::replace(&mut write.told, true) {
            return;
        }
        let io = write.io;
        let course = self.course(slot);
        self.done(io, Ok(()), Payload::None, course);
    }

    /// `Fault::AcknowledgeByMajority`: the same, once more than half of the members have answered.
    pub(super) fn tell_by_majority(&mut self, slot: TaskSlot) {
        let current = self.groups[self.tasks[slot].group].current.count();
        let left = self.tasks[slot].waiting.count();
        if 2 * (current - left) > current {
            self.tell_early(slot);
        }
    }

    /// `Fault::ForgetClaimed`: who is claimed to be whole is not waited for.
    pub(super) fn forget_claimed(&mut self, chunk: ChunkSlot) {
        let whole = self.groups[self.chunks[chunk].group].whole;
        let slots: Vec<TaskSlot> = self.awaited_writes(chunk).collect();
        for slot in slots {
            let task = &self.tasks[slot];
            self.await_no_more(slot, task.waiting.and(whole).and(task.sent));
        }
    }

    /// `Fault::SkipSyncing`: syncing members are not awaited once the others have answered.
    pub(super) fn forget_syncing(&mut self, slot: TaskSlot) {
        let (group, waiting) = (self.tasks[slot].group, self.tasks[slot].waiting);
        if waiting.without(self.groups[group].syncing).is_empty() {
            self.await_no_more(slot, waiting);
        }
    }

    /// `Fault::IgnoreLost`: a lost member is awaited no more.
    pub(super) fn forget_lost(&mut self, slot: TaskSlot) {
        let members = &self.groups[self.tasks[slot].group].members;
        let mut lost = Members::NONE;
        for position in self.tasks[slot].waiting.iter() {
            if self.stores[members[position]].lost {
                lost.add(position);
            }
        }
        self.await_no_more(slot, lost);
    }

    fn await_no_more(&mut self, slot: TaskSlot, members: Members) {
        for position in members.iter() {
            self.settle(slot, position);
        }
    }

    /// `Fault::ServeHalfFenced`: those of the members that can be reached are enough.
    pub(super) fn only_reachable(&self, group: GroupSlot, members: Members) -> Members {
        let seats = &self.groups[group].members;
        let mut reachable = Members::NONE;
        for position in members.iter() {
            if self.stores[seats[position]].up {
                reachable.add(position);
            }
        }
        reachable
    }

    /// `Fault::ServeHalfFenced`: every touched group is taken for one with chunks to be opened.
    pub(super) fn note_all_openings(&mut self) {
        for index in 0..self.groups.touched.len() {
            self.note_opening(self.groups.touched[index]);
        }
    }

    /// `Fault::TrustUnknown`: an eviction of unknown outcome is taken for done.
    pub(super) fn take_for_done(&mut self, now: Time, groups: Vec<(GroupSlot, Option<map::Group>)>) {
        for (group, record) in groups {
            let revision = self.groups[group].revision + 1;
            self.adopt(now, group, record.expect("an eviction's groups all have one"), revision);
        }
    }
}
