//! What must hold after every event: looked at in tests and in the simulator, because it walks through everything.

use super::context::Context;
use super::state::ChunkState;
use super::{Sequencer, group};
use crate::members::Members;
use crate::table::{ChunkSlot, Key, TaskSlot};
use crate::task::{Kind, List, Tasks};
use amita_types::StoreId;
use std::collections::BTreeSet;

impl Sequencer {
    /// Walks through everything and panics where something does not hold that must hold between events.
    pub fn check(&self) {
        check(&self.cx);
        self.resync.check(&self.cx.tasks);
    }
}

fn check(cx: &Context) {
    if cx.stopped {
        return;
    }
    check_stores(cx);
    check_groups(cx);
    for chunk in cx.chunks.keys() {
        check_chunk(cx, chunk);
    }
    let ios = live(&cx.tasks).filter(|&slot| match &cx.tasks[slot].kind {
        Kind::Write(write) => !write.told,
        Kind::Read(_) => true,
        _ => false,
    });
    assert_eq!(ios.count(), cx.intake.ios, "every I/O is a task");
    assert!(cx.agenda.wake <= cx.due(), "what is due has its timer");
    // As stores grow faster, what is under way may be due a little earlier than it was when its timer was set.
    let oldest = cx.tasks.oldest().map(|slot| cx.tasks[slot].asked_at);
    assert!(
        oldest.is_none_or(|at| cx.agenda.wake <= at.plus(cx.config.silent_after())),
        "what is asked has its timer"
    );
}

fn live(tasks: &Tasks) -> impl Iterator<Item = TaskSlot> + '_ {
    tasks.slots().filter(|&slot| !matches!(tasks[slot].kind, Kind::Free))
}

fn check_stores(cx: &Context) {
    for number in cx.stores.keys() {
        let store = &cx.stores[number];
        let (mut awaited, mut writes, mut bytes) = (0, 0, 0);
        for slot in live(&cx.tasks) {
            let task = &cx.tasks[slot];
            let Some(position) = cx.groups.position(task.group, number) else {
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
                assert!(store.link.up, "nothing is under way on a link that has ended");
            }
        }
        assert_eq!(
            (awaited, writes, bytes),
            (store.owed.awaited, store.owed.writes, store.owed.bytes)
        );
        assert!(awaited == 0 || store.owed.listed, "its silence is noticed");
        assert_eq!(cx.silence.stores.contains(&number), store.owed.listed);
    }
}

fn check_groups(cx: &Context) {
    for number in cx.groups.keys() {
        let group = &cx.groups[number];
        assert!(
            group.fence.ready.without(group.members.all()).is_empty(),
            "who left serves nothing (R4, R10)"
        );
        let names = |members: Members| -> BTreeSet<StoreId> {
            let ids = members.iter().map(|position| group.members[position]);
            ids.map(|number| cx.stores[number].id).collect()
        };
        let record = &group.record;
        assert_eq!(
            names(group.members.current),
            record.in_sync.iter().copied().collect(),
            "the set is the record's"
        );
        assert_eq!(
            names(group.members.syncing),
            record.syncing.iter().map(|syncing| syncing.store).collect()
        );
        assert!(group.members.current.and(group.members.syncing).is_empty());
        assert!(group.doubted.without(group.members.current).is_empty());
        assert!(group.doubted.is_empty() || cx.groups.doubted.contains(&number));
        assert!(group.members.entered.without(group.members.syncing).is_empty());
        assert!(group.members.whole.without(group.members.entered).is_empty());
        for position in group.fence.ready.iter() {
            assert!(cx.stores[group.members[position]].link.up);
        }
        for slot in live(&cx.tasks).filter(|&slot| cx.tasks[slot].group == number) {
            assert!(
                cx.tasks[slot].waiting.without(group.members.all()).is_empty(),
                "who left owes nothing"
            );
        }
        assert_eq!(cx.groups.touched.contains(&number), group.is_touched());
        let stuck = group.is_touched() && !group.missed.and(group.members.current).is_empty();
        assert_eq!(cx.groups.stuck.contains(&number), stuck);
        assert!(
            group.openings.waiting.is_empty()
                || group.openings.starved
                || !group::is_fenced(cx, number)
                || !group.paused.is_empty()
        );
        if let Some(fence) = group.fence.task {
            assert!(matches!(cx.tasks[fence].kind, Kind::Fence { epoch } if epoch == group.record.epoch));
        }
    }
}

fn all_of(tasks: &Tasks, list: List) -> Vec<TaskSlot> {
    let mut all = Vec::new();
    let mut cursor = list.head();
    while let Some(slot) = cursor {
        all.push(slot);
        cursor = tasks.next(slot);
    }
    all
}

fn check_chunk(cx: &Context, number: ChunkSlot) {
    let chunk = &cx.chunks[number];
    let group = &cx.groups[chunk.group];
    assert!(chunk.log.committed <= chunk.log.issued);
    assert!(
        chunk.lag.behind.without(chunk.lag.stalled).is_empty(),
        "who is behind is sent nothing"
    );
    assert_eq!(chunk.busy_at.is_some(), !chunk.log.writes.is_empty());
    if let Some(at) = chunk.busy_at {
        assert_eq!(group.busy[at.at()], number);
    }
    let writes = all_of(&cx.tasks, chunk.log.writes);
    assert_eq!(writes.len(), chunk.log.count as usize);
    let mut version = chunk.log.committed;
    for &slot in &writes {
        let Kind::Write(write) = &cx.tasks[slot].kind else {
            panic!("a chunk's writes are writes")
        };
        assert_eq!(write.previous, version, "an unbroken row of versions (R1)");
        assert_eq!(write.version.counter(), version.counter() + 1);
        assert_eq!(write.version.generation(), cx.owned.generation);
        version = write.version;
    }
    assert_eq!(version, chunk.log.issued);
    for position in group.members.writers().iter() {
        // Except where it refused something, a member is sent a chunk's writes without a gap (R1).
        if !chunk.lag.stalled.has(position) && cx.can_send(chunk.group, position) {
            let missing = writes
                .iter()
                .any(|&slot| cx.tasks[slot].waiting.has(position) && !cx.tasks[slot].sent.has(position));
            assert!(!missing, "what may be sent is sent");
        }
    }
    match chunk.state {
        ChunkState::Open => {
            let queued = [
                chunk.queues.reads,
                chunk.queues.clears,
                chunk.queues.writes,
                chunk.queues.compares,
                chunk.queues.compared,
            ];
            assert!(
                chunk.queues.blocked || queued.iter().all(List::is_empty),
                "what waits is looked at again"
            );
        }
        ChunkState::Closed => assert!(writes.is_empty()),
        ChunkState::Waiting | ChunkState::Opening(_) => {
            assert!(chunk.lag.catching || (writes.is_empty() && chunk.held.is_empty()));
            assert!(group.is_touched() && group.openings.listed);
            let at = chunk.opening_at.expect("it stands in the list");
            assert_eq!(group.openings.all[at.at()], number);
            let waits = matches!(chunk.state, ChunkState::Waiting);
            assert_eq!(
                group.openings.waiting.contains(&number),
                waits,
                "what waits has its turn"
            );
        }
    }
}
