//! What must hold after every event: looked at in tests and in the simulator, because it walks through everything.

use super::Sequencer;
use super::state::ChunkState;
use crate::members::Members;
use crate::table::{ChunkSlot, Key, TaskSlot};
use crate::task::{Kind, List};
use amita_types::StoreId;
use std::collections::BTreeSet;

impl Sequencer {
    /// Walks through everything and panics where something does not hold that must hold between events.
    pub fn check(&self) {
        if self.stopped {
            return;
        }
        self.check_stores();
        self.check_groups();
        for chunk in self.chunks.keys() {
            self.check_chunk(chunk);
        }
        let ios = self.live().filter(|&slot| match &self.tasks[slot].kind {
            Kind::Write(write) => !write.told,
            Kind::Read(_) => true,
            _ => false,
        });
        assert_eq!(ios.count(), self.intake.ios, "every I/O is a task");
        assert!(self.agenda.wake <= self.due(), "what is due has its timer");
        // As stores grow faster, what is under way may be due a little earlier than it was when its timer was set.
        let oldest = self.tasks.oldest().map(|slot| self.tasks[slot].asked_at);
        assert!(
            oldest.is_none_or(|at| self.agenda.wake <= at.plus(self.silent_after())),
            "what is asked has its timer"
        );
    }

    fn live(&self) -> impl Iterator<Item = TaskSlot> + '_ {
        self.tasks
            .slots()
            .filter(|&slot| !matches!(self.tasks[slot].kind, Kind::Free))
    }

    fn check_stores(&self) {
        for number in self.stores.keys() {
            let store = &self.stores[number];
            let (mut awaited, mut writes, mut bytes) = (0, 0, 0);
            for slot in self.live() {
                let task = &self.tasks[slot];
                let Some(position) = self.position(task.group, number) else {
                    continue;
                };
                if task.waiting.has(position) {
                    awaited += 1;
                    if let Kind::Write(write) = &task.kind {
                        writes += 1;
                        bytes += write.payload.len() as u64;
                    }
                }
                if task.sent.has(position) && task.waiting.has(position) {
                    assert!(store.up, "nothing is under way on a link that has ended");
                }
            }
            assert_eq!((awaited, writes, bytes), (store.awaited, store.writes, store.bytes));
            assert!(awaited == 0 || store.owes, "its silence is noticed");
            assert_eq!(self.silence.stores.contains(&number), store.owes);
        }
    }

    fn check_groups(&self) {
        for number in self.groups.keys() {
            let group = &self.groups[number];
            assert!(
                group.ready.without(group.all()).is_empty(),
                "who left serves nothing (R4, R10)"
            );
            let names = |members: Members| -> BTreeSet<StoreId> {
                let ids = members.iter().map(|position| group.members[position]);
                ids.map(|number| self.stores[number].id).collect()
            };
            let record = &group.record;
            assert_eq!(
                names(group.current),
                record.in_sync.iter().copied().collect(),
                "the set is the record's"
            );
            assert_eq!(
                names(group.syncing),
                record.syncing.iter().map(|syncing| syncing.store).collect()
            );
            assert!(group.current.and(group.syncing).is_empty());
            assert!(group.entered.without(group.syncing).is_empty());
            assert!(group.whole.without(group.entered).is_empty());
            for position in group.ready.iter() {
                assert!(self.stores[group.members[position]].up);
            }
            for slot in self.live().filter(|&slot| self.tasks[slot].group == number) {
                assert!(
                    self.tasks[slot].waiting.without(group.all()).is_empty(),
                    "who left owes nothing"
                );
            }
            let stuck = group.touched && !group.missed.and(group.current).is_empty();
            assert_eq!(self.groups.stuck.contains(&number), stuck);
            assert!(group.waiting.is_empty() || group.starved || !self.is_fenced(number) || !group.paused.is_empty());
            if let Some(fence) = group.fence {
                assert!(matches!(self.tasks[fence].kind, Kind::Fence { epoch } if epoch == group.record.epoch));
            }
        }
    }

    fn all_of(&self, list: List) -> Vec<TaskSlot> {
        let mut all = Vec::new();
        let mut cursor = list.head();
        while let Some(slot) = cursor {
            all.push(slot);
            cursor = self.tasks.next(slot);
        }
        all
    }

    fn check_chunk(&self, number: ChunkSlot) {
        let chunk = &self.chunks[number];
        let group = &self.groups[chunk.group];
        assert!(chunk.committed <= chunk.issued);
        assert!(
            chunk.behind.without(chunk.stalled).is_empty(),
            "who is behind is sent nothing"
        );
        assert_eq!(chunk.busy_at.is_some(), !chunk.writes.is_empty());
        if let Some(at) = chunk.busy_at {
            assert_eq!(group.busy[at.at()], number);
        }
        let writes = self.all_of(chunk.writes);
        assert_eq!(writes.len(), chunk.write_count as usize);
        let mut version = chunk.committed;
        for &slot in &writes {
            let Kind::Write(write) = &self.tasks[slot].kind else {
                panic!("a chunk's writes are writes")
            };
            assert_eq!(write.previous, version, "an unbroken row of versions (R1)");
            assert_eq!(write.version.counter(), version.counter() + 1);
            assert_eq!(write.version.generation(), self.owned.generation);
            version = write.version;
        }
        assert_eq!(version, chunk.issued);
        for position in group.writers().iter() {
            // Except where it refused something, a member is sent a chunk's writes without a gap (R1).
            if !chunk.stalled.has(position) && self.can_send(chunk.group, position) {
                let missing = writes
                    .iter()
                    .any(|&slot| self.tasks[slot].waiting.has(position) && !self.tasks[slot].sent.has(position));
                assert!(!missing, "what may be sent is sent");
            }
        }
        match chunk.state {
            ChunkState::Open => {
                let queued = [
                    chunk.queued_reads,
                    chunk.queued_clears,
                    chunk.queued_writes,
                    chunk.queued_compares,
                    chunk.compared,
                ];
                assert!(
                    chunk.blocked || queued.iter().all(List::is_empty),
                    "what waits is looked at again"
                );
            }
            ChunkState::Closed => assert!(writes.is_empty()),
            ChunkState::Waiting | ChunkState::Opening(_) => {
                assert!(chunk.catching || (writes.is_empty() && chunk.held.is_empty()));
                assert!(group.touched && group.opens);
                let at = chunk.opening_at.expect("it stands in the list");
                assert_eq!(group.opening[at.at()], number);
                let waits = matches!(chunk.state, ChunkState::Waiting);
                assert_eq!(group.waiting.contains(&number), waits, "what waits has its turn");
            }
        }
    }
}
