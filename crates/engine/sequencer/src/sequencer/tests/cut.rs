//! Snapshots: the number of writes, what is held for it, and when it may be taken and sealed.

use super::rig::{CHUNK_BYTES, Rig, old, store, version};
use crate::Config;
use crate::io::Warning;
use amita_types::io::{ChangedChunks, Differs, IoError, Op, Payload};
use amita_types::message::{
    AllocationAnswer, AnswerBody, DifferRequest, DiffersAnswer, JoinRequest, Problem, ReadRequest, Refusal, Request,
    RequestBody, Scope,
};
use amita_types::{SnapshotId, StoreId, Version};

const ONE: SnapshotId = SnapshotId(1);

fn numbers(requests: &[Request]) -> Vec<u32> {
    requests.iter().map(|request| request.scope.snapshot.0).collect()
}

fn adopt(rig: &mut Rig, number: SnapshotId) {
    rig.sequencer.adopt_number(rig.now, number);
    rig.collect();
}

fn release(rig: &mut Rig, number: SnapshotId) {
    rig.sequencer.release_number(rig.now, number);
    rig.collect();
}

#[test]
fn a_write_carries_the_number_that_was_adopted_when_it_got_its_version() {
    let mut rig = Rig::open(2, 1);
    rig.write(0, &[1; 4096]);
    adopt(&mut rig, ONE);
    rig.write(0, &[2; 4096]);
    rig.clear(4096, 4096);
    for number in 1..=2 {
        let sent = rig.writes(number);
        assert_eq!(numbers(&sent), [0, 1, 1]);
    }
    let read = rig.read(8192, 4096);
    assert_eq!(numbers(&rig.reads()), [0], "a read is of the volume itself");
    assert_eq!(rig.result(read), None);
}

#[test]
fn a_write_that_is_sent_again_has_the_number_of_its_version() {
    let mut rig = Rig::open(2, 1);
    rig.write(0, &[1; 4096]);
    assert_eq!(rig.writes(2).len(), 1);
    adopt(&mut rig, ONE);
    rig.write(0, &[2; 4096]);
    rig.down(2);
    rig.up(2);
    rig.answer_fences();
    assert_eq!(numbers(&rig.writes(2)), [0, 1], "S3: whatever was adopted since");
}

#[test]
fn nobody_hears_of_what_carries_a_number_before_all_cores_do() {
    let mut rig = Rig::open(2, 1);
    let before = rig.write(0, &[1; 4096]);
    adopt(&mut rig, ONE);
    let after = rig.write(0, &[2; 4096]);
    for number in 1..=2 {
        let sent = rig.writes(number);
        rig.done(&sent);
    }
    assert_eq!(rig.result(before), Some(Ok(())), "it is older");
    assert_eq!(rig.result(after), None, "it is held");
    assert!(rig.settled.is_empty(), "another core may give out older ones still");
    // A read that finds it is held as well.
    let read = rig.read(0, 4096);
    let asked = rig.reads();
    rig.answer_blocks(&asked[0], version(7), 2);
    rig.answer_renewals();
    assert_eq!(rig.result(read), None);
    release(&mut rig, ONE);
    assert_eq!(rig.result(after), Some(Ok(())));
    assert_eq!(rig.result(read), Some(Ok(())));
    assert!(matches!(rig.payload(read), Payload::Data(data) if data[0] == 2));
    assert_eq!(rig.settled, [ONE]);
}

#[test]
fn it_is_settled_when_all_older_writes_are_acknowledged() {
    let mut rig = Rig::open(2, 1);
    let old_write = rig.write(0, &[1; 4096]);
    adopt(&mut rig, ONE);
    let new_write = rig.write(8192, &[2; 4096]);
    release(&mut rig, ONE);
    assert!(rig.settled.is_empty(), "an older write is under way");
    let (one, two) = (rig.writes(1), rig.writes(2));
    rig.done(&one);
    rig.done(&two[..1]);
    assert_eq!(rig.result(old_write), Some(Ok(())));
    assert_eq!(rig.result(new_write), None);
    assert_eq!(rig.settled, [ONE], "newer ones do not matter");
    rig.done(&two[1..]);
    assert_eq!(rig.settled, [ONE], "once");
}

#[test]
fn without_writes_it_is_settled_at_once_and_every_one_in_its_turn() {
    let mut rig = Rig::open(2, 1);
    for number in 1..=3 {
        adopt(&mut rig, SnapshotId(number));
        release(&mut rig, SnapshotId(number));
    }
    assert_eq!(rig.settled, [1, 2, 3].map(SnapshotId));
    adopt(&mut rig, ONE);
    release(&mut rig, ONE);
    rig.write(0, &[1; 4096]);
    assert_eq!(numbers(&rig.writes(1)), [3], "numbers never go down");
    assert_eq!(rig.settled.len(), 3);
}

#[test]
fn all_stores_in_sync_adopt_the_generation_before_a_snapshot() {
    let mut rig = Rig::wide(5, 8, 100);
    rig.sequencer.require_generation(rig.now);
    rig.collect();
    let fences = rig.fences();
    let mut asked: Vec<StoreId> = fences.iter().map(|request| request.store).collect();
    asked.sort_unstable();
    asked.dedup();
    assert_eq!(
        asked,
        (1..=5).map(store).collect::<Vec<_>>(),
        "each store, though nothing was touched"
    );
    let (last, others): (Vec<_>, Vec<_>) = fences.into_iter().partition(|request| request.store == store(4));
    for request in &others {
        rig.accept(request, AnswerBody::Fenced);
    }
    assert_eq!(rig.adopted, 0);
    assert_eq!(rig.sequencer.lacking_generation(), [store(4)]);
    rig.accept(&last[0], AnswerBody::Fenced);
    assert_eq!(rig.adopted, 1, "one fence a store is enough");
    assert!(rig.sequencer.lacking_generation().is_empty());
    rig.sequencer.require_generation(rig.now);
    rig.collect();
    assert_eq!(rig.adopted, 2, "for the next one nothing is to be asked");
    assert!(rig.fences().iter().all(|request| request.store == store(4)));
}

#[test]
fn a_store_that_is_evicted_is_not_waited_for() {
    let mut rig = Rig::new(3, 2);
    rig.sequencer.require_generation(rig.now);
    rig.collect();
    for request in rig.fences() {
        if request.store != store(3) {
            rig.accept(&request, AnswerBody::Fenced);
        }
    }
    assert_eq!(rig.adopted, 0);
    rig.lost(3);
    rig.do_call();
    assert_eq!(rig.group(0).in_sync, [store(1), store(2)]);
    assert_eq!(rig.adopted, 1);
}

#[test]
fn a_chunk_is_opened_with_the_number_of_its_version() {
    let mut rig = Rig::new(2, 1);
    adopt(&mut rig, SnapshotId(4));
    release(&mut rig, SnapshotId(4));
    rig.read(0, 4096);
    rig.answer_fences();
    rig.answer_opens_at(|_| (old(5), SnapshotId(3)));
    rig.answer_reads(old(5));
    rig.list_syncing(9);
    rig.up(9);
    rig.answer_fences();
    rig.write(0, &[1; 4096]);
    let joins = rig.take(|_, body| matches!(body, RequestBody::Join(_)));
    let [
        Request {
            scope: Scope { snapshot, .. },
            body: RequestBody::Join(JoinRequest { at, .. }),
            ..
        },
    ] = joins[..]
    else {
        panic!("one member joins: {joins:?}")
    };
    assert_eq!(
        (at, snapshot),
        (old(5), SnapshotId(3)),
        "S3: of the version that it names"
    );
    assert_eq!(numbers(&rig.writes(1)), [4]);
}

#[test]
fn a_copy_that_knows_a_newer_snapshot_than_the_volume_is_not_served() {
    let mut rig = Rig::new(2, 1);
    let read = rig.read(0, 4096);
    rig.answer_fences();
    rig.answer_opens_at(|_| (old(5), SnapshotId(1)));
    assert_eq!(rig.result(read), Some(Err(IoError::Damaged)));
    assert!(matches!(rig.warnings[..], [Warning::Implausible { .. }]));
}

#[test]
fn a_volume_goes_on_with_the_number_of_its_record() {
    let mut rig = Rig::numbered(2, 1, SnapshotId(7), Config::default());
    rig.open_chunk();
    let io = rig.write(CHUNK_BYTES - 4096, &[1; 4096]);
    let (one, two) = (rig.writes(1), rig.writes(2));
    assert_eq!(numbers(&one), [7]);
    rig.done(&one);
    rig.done(&two);
    assert_eq!(rig.result(io), Some(Ok(())), "all of them are released, or void");
    assert!(rig.settled.is_empty());
}

#[test]
fn a_snapshot_is_read_as_it_is_and_only_read() {
    let mut rig = Rig::open(2, 1);
    adopt(&mut rig, ONE);
    let (offset, length) = (0, 4096);
    let read = Op::Read { offset, length };
    let early = rig.submit_at(ONE, read);
    assert_eq!(rig.result(early), Some(Err(IoError::Invalid)), "not all cores carry it");
    release(&mut rig, ONE);
    let unknown = rig.submit_at(SnapshotId(2), read);
    assert_eq!(rig.result(unknown), Some(Err(IoError::Invalid)));
    let clear = Op::Clear { offset, length: 4096 };
    let written = rig.submit_at(ONE, clear);
    assert_eq!(rig.result(written), Some(Err(IoError::ReadOnly)));
    let io = rig.submit_at(ONE, read);
    let sent = rig.reads();
    assert_eq!(numbers(&sent), [1]);
    let least = |request: &Request| match request.body {
        RequestBody::Read(ReadRequest { least, .. }) => least,
        _ => panic!("{request:?}"),
    };
    assert_eq!(least(&sent[0]), old(5), "no write has come since");
    rig.answer_read(&sent[0], old(2));
    assert_eq!(rig.result(io), Some(Ok(())));
    let io = rig.submit_at(ONE, Op::Allocation { offset });
    let sent = rig.take(|_, body| matches!(body, RequestBody::Allocation(_)));
    assert_eq!(numbers(&sent), [1]);
    let allocated = Box::new([1; 16]);
    rig.accept(
        &sent[0],
        AnswerBody::Allocation(AllocationAnswer {
            allocated,
            version: Some(old(2)),
        }),
    );
    assert_eq!(rig.result(io), Some(Ok(())));
}

/// A member may lack what it has answered (R8), and have no larger number yet: what it has would pass for the snapshot.
#[test]
fn what_a_snapshot_has_at_least_is_asked_for() {
    let (two, three) = (SnapshotId(2), SnapshotId(3));
    let mut rig = Rig::open(2, 1);
    let write = |rig: &mut Rig, number: u32| {
        rig.write(0, &[1; 4096]);
        let writes = [rig.writes(1), rig.writes(2)];
        assert_eq!(numbers(&writes[0]), [number]);
        writes
    };
    let asked = |rig: &mut Rig, at: SnapshotId| {
        let (offset, length) = (0, 4096);
        rig.submit_at(at, Op::Read { offset, length });
        let sent = rig.reads();
        match sent[0].body {
            RequestBody::Read(ReadRequest { least, newest, .. }) => (least, newest),
            _ => panic!("{sent:?}"),
        }
    };
    let least = |rig: &mut Rig, at: SnapshotId| asked(rig, at).0;
    let six = write(&mut rig, 0);
    for number in [ONE, two] {
        adopt(&mut rig, number);
        release(&mut rig, number);
    }
    assert_eq!(least(&mut rig, two), old(5), "not more than all have");
    six.iter().for_each(|writes| rig.done(writes));
    assert_eq!(least(&mut rig, two), version(6));
    let seven = write(&mut rig, 2);
    seven.iter().for_each(|writes| rig.done(writes));
    for at in [ONE, two] {
        assert_eq!(least(&mut rig, at), version(6), "the state that the last one has made");
    }
    adopt(&mut rig, three);
    release(&mut rig, three);
    let eight = write(&mut rig, 3);
    eight.iter().for_each(|writes| rig.done(writes));
    assert_eq!(least(&mut rig, three), version(7));
    // Of older ones it is not known any more: who has all of the chunk has them.
    assert_eq!(asked(&mut rig, two), (Version::NONE, Some(version(8))));
    // Who lacks it is as unfit as any.
    rig.submit_at(
        three,
        Op::Read {
            offset: 0,
            length: 4096,
        },
    );
    let sent = rig.reads();
    rig.refuse(&sent[0], Refusal::Behind { current: old(5) });
    rig.do_call();
    assert!(!rig.group(0).in_sync.contains(&sent[0].store));
}

/// The volume was made smaller since.
#[test]
fn a_snapshot_is_read_behind_the_end_of_its_volume() {
    let mut rig = Rig::open(2, 1);
    adopt(&mut rig, ONE);
    release(&mut rig, ONE);
    let behind = Op::Read {
        offset: 200 * CHUNK_BYTES,
        length: 4096,
    };
    let io = rig.submit_at(SnapshotId::HEAD, behind);
    assert_eq!(rig.result(io), Some(Err(IoError::OutOfRange)));
    let io = rig.submit_at(ONE, behind);
    assert_eq!(rig.result(io), None, "the chunk is opened first");
    assert!(!rig.sent.is_empty());
}

#[test]
fn what_was_changed_is_asked_of_one_member() {
    let (two, three) = (SnapshotId(2), SnapshotId(3));
    let mut rig = Rig::open(2, 1);
    for number in [ONE, two] {
        adopt(&mut rig, number);
        release(&mut rig, number);
    }
    let offset = 4096;
    let differ = |since| Op::Differ { offset, since };
    // Of nothing, of what is not older, of what not all cores carry.
    for (at, since) in [
        (SnapshotId::HEAD, SnapshotId::HEAD),
        (ONE, ONE),
        (ONE, two),
        (SnapshotId::HEAD, three),
    ] {
        let io = rig.submit_at(at, differ(since));
        assert_eq!(rig.result(io), Some(Err(IoError::Invalid)), "{since:?} at {at:?}");
    }
    for at in [SnapshotId::HEAD, two] {
        let io = rig.submit_at(at, differ(ONE));
        let sent = rig.take(|_, body| matches!(body, RequestBody::Differ(_)));
        assert_eq!(numbers(&sent), [at.0]);
        let RequestBody::Differ(DifferRequest {
            since, least, newest, ..
        }) = sent[0].body
        else {
            panic!("{sent:?}")
        };
        assert_eq!(since, ONE);
        assert_eq!((least, newest), (old(5), Some(old(5))), "all that was acknowledged");
        let differs = Box::new(Differs {
            changed: [3; 16],
            allocated: [1; 16],
        });
        rig.accept(
            &sent[0],
            AnswerBody::Differs(DiffersAnswer {
                differs: differs.clone(),
                version: Some(old(5)),
            }),
        );
        assert_eq!(rig.result(io), Some(Ok(())));
        assert_eq!(rig.payload(io), Payload::Differs(differs));
    }
}

/// What is told of the first chunks.
fn changed_chunks<const N: usize>(rig: &mut Rig, at: SnapshotId, since: SnapshotId) -> [Option<bool>; N] {
    let io = rig.submit_at(at, Op::ChangedChunks { offset: 5000, since });
    assert_eq!(rig.result(io), Some(Ok(())), "{since:?} at {at:?}");
    let Payload::Data(bytes) = rig.payload(io) else {
        panic!("it is bytes")
    };
    let chunks = ChangedChunks::read(&bytes).expect("so many bytes");
    std::array::from_fn(|chunk| chunks.of(chunk as u64))
}

#[test]
fn which_chunks_were_changed_is_told_out_of_memory() {
    let (two, three) = (SnapshotId(2), SnapshotId(3));
    let mut rig = Rig::open(2, 1);
    for number in [ONE, two] {
        adopt(&mut rig, number);
        release(&mut rig, number);
    }
    rig.sent.clear();
    for (at, since) in [
        (SnapshotId::HEAD, ONE),
        (two, SnapshotId::HEAD),
        (ONE, ONE),
        (ONE, two),
        (three, ONE),
    ] {
        let io = rig.submit_at(at, Op::ChangedChunks { offset: 0, since });
        assert_eq!(rig.result(io), Some(Err(IoError::Invalid)), "{since:?} at {at:?}");
    }
    assert_eq!(
        changed_chunks(&mut rig, two, ONE),
        [Some(false); 3],
        "one that is open, and two that are not"
    );
    rig.write(0, &[1; 4096]);
    adopt(&mut rig, three);
    release(&mut rig, three);
    // It is not opened yet.
    rig.write(2 * CHUNK_BYTES, &[1; 4096]);
    rig.sent.clear();
    let told = [Some(true), Some(false), Some(true)];
    assert_eq!(changed_chunks(&mut rig, three, two), told);
    assert_eq!(changed_chunks(&mut rig, three, ONE), told);
    assert!(rig.sent.is_empty(), "no store is asked");
}

#[test]
fn which_chunks_were_changed_is_not_known_of_what_was_before_the_volume_was_opened() {
    let (five, six, seven) = (SnapshotId(5), SnapshotId(6), SnapshotId(7));
    let config = Config {
        cores: 2,
        ..Config::default()
    };
    let mut rig = Rig::numbered(2, 1, five, config);
    for number in [six, seven] {
        adopt(&mut rig, number);
        release(&mut rig, number);
    }
    assert_eq!(
        changed_chunks(&mut rig, six, five),
        [None; 32],
        "others wrote behind it"
    );
    let told: [_; 32] = changed_chunks(&mut rig, seven, six);
    let ours = told.iter().filter(|told| **told == Some(false)).count();
    let others = told.iter().filter(|told| told.is_none()).count();
    assert!(
        ours > 0 && others > 0 && ours + others == 32,
        "the other core has its own: {told:?}"
    );
}

#[test]
fn what_cannot_be_compared_any_more_costs_no_member_its_place() {
    let mut rig = Rig::open(2, 1);
    adopt(&mut rig, ONE);
    release(&mut rig, ONE);
    let io = rig.submit_at(SnapshotId::HEAD, Op::Differ { offset: 0, since: ONE });
    let what = Problem::Snapshot;
    for _ in 0..2 {
        let sent = rig.take(|_, body| matches!(body, RequestBody::Differ(_)));
        assert_eq!(sent.len(), 1, "one after the other is asked");
        rig.refuse(&sent[0], Refusal::Invalid { what });
    }
    assert_eq!(rig.result(io), Some(Err(IoError::Damaged)));
    assert!(rig.calls.is_empty() && rig.warnings.is_empty());
}

#[test]
fn a_member_that_has_dropped_a_snapshot_keeps_its_place() {
    let mut rig = Rig::open(2, 1);
    adopt(&mut rig, ONE);
    release(&mut rig, ONE);
    let (offset, length) = (0, 4096);
    let io = rig.submit_at(ONE, Op::Read { offset, length });
    let what = Problem::Snapshot;
    for _ in 0..2 {
        let sent = rig.reads();
        assert_eq!(sent.len(), 1, "one after the other is asked");
        rig.refuse(&sent[0], Refusal::Invalid { what });
    }
    assert_eq!(rig.result(io), Some(Err(IoError::Damaged)));
    assert!(rig.calls.is_empty() && rig.warnings.is_empty());
}
