//! What an event costs in a large pool: looks at the records of stores, groups, chunks and tasks, which are the same on
//! every machine. Each of these walked through everything once.

use super::rig::{CHUNK_BYTES, Rig, old, store};
use crate::table::looks;
use amita_metadata::Call;
use amita_types::GroupIndex;
use amita_types::map::{self, Syncing};
use amita_types::message::RequestBody;
use amita_types::{Generation, PoolId, SnapshotId, StoreId, VolumeId};

const STORES: u32 = 1000;
const GROUPS: u32 = 1024;
const CHUNKS: u64 = 10_000;

/// The looks that something takes.
fn count<R>(run: impl FnOnce() -> R) -> (R, u64) {
    let before = looks();
    let result = run();
    let looks = looks() - before;
    println!("{looks} looks");
    (result, looks)
}

/// Reads of every chunk, answered until all have ended.
fn open_all(rig: &mut Rig) {
    for chunk in 0..CHUNKS {
        rig.read(chunk * CHUNK_BYTES, 4096);
    }
    while rig.sequencer.counters().opened < CHUNKS {
        rig.answer_fences();
        rig.answer_opens(|_| old(5));
    }
    while !rig.sequencer.is_idle() {
        rig.answer_reads(old(5));
    }
    rig.answer_renewals();
    rig.ended.clear();
}

/// A pool of a thousand stores, and a volume of which every chunk is open.
fn opened() -> Rig {
    let mut rig = Rig::wide(STORES, GROUPS, CHUNKS);
    open_all(&mut rig);
    rig
}

/// All are asked for at once: most wait for their turn, and each end of an opening lets another begin.
#[test]
fn a_chunk_is_opened_without_a_look_at_all_groups() {
    let mut rig = Rig::wide(STORES, GROUPS, CHUNKS);
    let ((), looks) = count(|| open_all(&mut rig));
    let each = looks / CHUNKS;
    assert!(each <= 500, "{each} looks for each chunk");
}

/// The same where all of them lie in one group: the list of those that wait is long.
#[test]
fn the_chunks_of_one_group_do_not_wait_for_each_other() {
    let mut rig = Rig::wide(3, 1, CHUNKS);
    let ((), looks) = count(|| open_all(&mut rig));
    let each = looks / CHUNKS;
    assert!(each <= 500, "{each} looks for each chunk");
}

/// Reads, each of which is late: a tick is due while it waits, which may send it to a second member.
fn late_reads(rig: &mut Rig, rounds: u64) -> u64 {
    let ((), looks) = count(|| {
        for round in 0..rounds {
            rig.read((round % 16) * CHUNK_BYTES, 4096);
            rig.now = rig.sequencer.deadline().expect("it is late some time").max(rig.now);
            rig.sequencer.tick(rig.now);
            rig.collect();
            rig.answer_reads(old(5));
        }
    });
    looks / rounds
}

/// Time passes for one volume of many: only a few stores owe it anything.
#[test]
fn a_tick_looks_at_those_who_owe_something() {
    let mut rig = opened();
    // What stores have granted and nobody has used is given back, once.
    late_reads(&mut rig, 100);
    let each = late_reads(&mut rig, 100);
    // A look at each store now and then, for credits that nobody uses.
    assert!(each <= 1500, "{each} looks for each read and its ticks");
}

/// Chunks of some groups wait for a store that is away, while others are read.
#[test]
fn a_store_that_is_missed_costs_no_look_at_all_groups() {
    let mut rig = Rig::wide(STORES, GROUPS, CHUNKS);
    // Not of a group that the reads need.
    let group_of = |chunk| {
        let id = amita_types::ChunkId {
            volume: amita_types::VolumeId(9),
            index: amita_types::ChunkIndex(chunk),
        };
        id.group(GROUPS).0
    };
    let used: Vec<u32> = (0..16).map(group_of).collect();
    let free = |group: &u32| used.iter().all(|used| used.abs_diff(*group) > 5);
    let away = (100..900).find(free).expect("most are not used");
    rig.down(u128::from(away) + 1);
    let waits = |chunk: &u64| (away - 2..=away).contains(&group_of(*chunk));
    let waiting = (0..CHUNKS).filter(waits).count() as u64;
    assert!(waiting > 0);
    for chunk in 0..CHUNKS {
        rig.read(chunk * CHUNK_BYTES, 4096);
    }
    while rig.sequencer.counters().opened < CHUNKS - waiting {
        rig.answer_fences();
        rig.answer_opens(|_| old(5));
        rig.answer_reads(old(5));
    }
    for _ in 0..5 {
        rig.answer_reads(old(5));
    }
    rig.ended.clear();
    late_reads(&mut rig, 20);
    let each = late_reads(&mut rig, 20);
    assert!(each <= 1500, "{each} looks for each read and its ticks");
    assert!(rig.calls.is_empty(), "it is not lost yet");
    rig.pass_ms(3000);
    assert!(!rig.calls.is_empty(), "then it is");
}

/// A store comes to every group, with chunks of all of them open.
#[test]
fn a_newcomer_costs_a_look_at_the_chunks_of_its_groups() {
    let mut rig = opened();
    let newcomer = store(5000);
    let ((), looks) = count(|| {
        for index in 0..GROUPS {
            list_syncing(&mut rig, index, newcomer);
        }
        while !rig.calls.is_empty() {
            rig.do_call();
        }
    });
    assert_eq!(rig.sequencer.counters().sync_started, u64::from(GROUPS));
    let each = looks / u64::from(GROUPS);
    assert!(
        each <= 1000,
        "{each} looks for each group, of {} chunks",
        CHUNKS / u64::from(GROUPS)
    );
}

/// A clone whose parent is being brought up to date on a store that has come to every group: none of these may begin.
#[test]
fn who_waits_for_the_parents_costs_no_look_at_each_event() {
    let parent = map::Parent {
        volume: VolumeId(5),
        number: SnapshotId(3),
        generation: Generation(2),
    };
    let mut rig = Rig::wide_clone(STORES, GROUPS, 16, vec![parent]);
    for chunk in 0..16 {
        rig.read(chunk * CHUNK_BYTES, 4096);
    }
    while rig.sequencer.counters().opened < 16 {
        rig.answer_fences();
        rig.answer_opens(|_| old(5));
    }
    rig.answer_reads(old(5));
    rig.answer_renewals();
    rig.ended.clear();
    late_reads(&mut rig, 100);
    let before = late_reads(&mut rig, 100);
    rig.up(5000);
    for index in 0..GROUPS {
        list_syncing(&mut rig, index, store(5000));
    }
    while !rig.calls.is_empty() {
        rig.do_call();
    }
    rig.answer_fences();
    let listed = rig.take(|_, body| matches!(body, RequestBody::Chunks(_)));
    assert!(listed.is_empty(), "none may begin");
    assert_eq!(rig.sequencer.counters().sync_started, u64::from(GROUPS));
    late_reads(&mut rig, 20);
    let each = late_reads(&mut rig, 100);
    assert!(
        each <= before + 500,
        "{each} looks for each read and its ticks, and {before} before"
    );
}

fn list_syncing(rig: &mut Rig, index: u32, newcomer: StoreId) {
    let mut group = rig.group(index);
    group.epoch = group.epoch.next();
    let since = group.epoch;
    group.syncing.push(Syncing { store: newcomer, since });
    let key = map::group_key(PoolId(1), GroupIndex(index));
    let call = Call::put(key, serde_json::to_vec(&group).unwrap());
    rig.metadata.txn(&call).unwrap();
    rig.sequencer.hint(rig.now, GroupIndex(index), group.epoch, true);
    rig.collect();
}

/// What is asked at every scrape, in the core that serves.
#[test]
fn a_status_costs_no_look_at_all_groups() {
    let mut rig = opened();
    for index in [3, 700] {
        list_syncing(&mut rig, index, store(5000));
    }
    while !rig.calls.is_empty() {
        rig.do_call();
    }
    let (status, looks) = count(|| rig.sequencer.status());
    assert_eq!((status.chunks as u64, status.stuck_groups.len()), (CHUNKS, 0));
    assert!(looks <= 50, "{looks} looks");
}
