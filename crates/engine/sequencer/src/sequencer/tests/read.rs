use super::rig::{MS, Rig, old, store, version};
use crate::io::Warning;
use crate::{Config, StopReason, Told};
use amita_reactor::Slice;
use amita_types::io::{IoError, Op, Payload};
use amita_types::message::{
    AllocationAnswer, AnswerBody, DataAnswer, Purpose, ReadRequest, Refusal, RequestBody, Sums,
};
use amita_types::{BlockIndex, Generation, SnapshotId, Version};

#[test]
fn brings_exactly_what_was_asked_for() {
    let mut rig = Rig::open(3, 2);
    let io = rig.read(4096 * 3 + 100, 5000);
    let sent = rig.reads();
    assert_eq!(sent.len(), 1, "one member is asked");
    let RequestBody::Read(ReadRequest { range, least, .. }) = sent[0].body else {
        panic!()
    };
    assert_eq!((range.first.0, range.count, least), (3, 2, old(5)));
    rig.answer_read(&sent[0], old(4));
    let mut right = vec![3; 3996];
    right.resize(5000, 4);
    assert_eq!(rig.payload(io), Payload::Data(Slice::copy_from(&right)));
}

#[test]
fn of_nothing_is_zeros() {
    let mut rig = Rig::open(3, 2);
    let io = rig.read(0, 5000);
    let sent = rig.reads();
    rig.accept(
        &sent[0],
        AnswerBody::Data(DataAnswer {
            version: Version::NONE,
            sums: Sums::new(),
            runs: Box::default(),
        }),
    );
    assert_eq!(rig.payload(io), Payload::Zeros(5000));
}

#[test]
fn is_held_until_its_version_is_everywhere() {
    let mut rig = Rig::open(2, 1);
    rig.write(0, &[1; 4096]);
    let (one, two) = (rig.writes(1), rig.writes(2));
    rig.done(&one);
    let io = rig.read(0, 4096);
    let other = rig.read(4096, 4096);
    let sent = rig.reads();
    rig.answer_read(&sent[0], version(6));
    rig.answer_read(&sent[1], old(5));
    // R3: one store has it; what the other I/O saw is everywhere.
    assert_eq!((rig.result(io), rig.result(other)), (None, Some(Ok(()))));
    rig.done(&two);
    assert_eq!(rig.result(io), Some(Ok(())));
    assert_eq!(rig.sequencer.counters().held, 1);
    // R8: from now on it must be in every answer.
    rig.read(0, 4096);
    assert!(matches!(rig.reads()[0].body, RequestBody::Read(ReadRequest { least, .. }) if least == version(6)));
}

#[test]
fn waits_for_leases() {
    // More than three minus two: two leases.
    let mut rig = Rig::open(3, 2);
    rig.pass_ms(1000);
    let io = rig.read(0, 4096);
    let sent = rig.reads();
    let renewals = rig.renewals();
    assert_eq!(renewals.len(), 2, "the others are asked beside the read");
    rig.answer_read(&sent[0], old(5));
    assert_eq!(rig.result(io), None);
    rig.accept(&renewals[0], AnswerBody::LeaseRenewed);
    assert_eq!(rig.result(io), Some(Ok(())));
}

#[test]
fn a_lease_counts_from_when_the_request_was_sent() {
    let mut rig = Rig::open(1, 1);
    rig.pass_ms(1000);
    let io = rig.read(0, 4096);
    let sent = rig.reads();
    rig.pass_ms(260);
    // The answer took longer than its lease lasts (R4).
    rig.answer_read(&sent[0], old(5));
    assert_eq!(rig.result(io), None);
    let renewals = rig.renewals();
    assert_eq!(renewals.len(), 1);
    rig.accept(&renewals[0], AnswerBody::LeaseRenewed);
    assert_eq!(rig.result(io), Some(Ok(())));
}

#[test]
fn a_store_that_grants_no_lease_is_asked_again_at_leisure() {
    let mut rig = Rig::open(1, 1);
    rig.pass_ms(1000);
    let io = rig.read(0, 4096);
    let sent = rig.reads();
    rig.lease_ms = 0;
    rig.answer_read(&sent[0], old(5));
    let mut asked = 0;
    for _ in 0..50 {
        rig.answer_renewals();
        rig.pass_ms(1);
        asked = rig.sequencer.counters().lease_renewals;
    }
    assert_eq!(rig.result(io), None);
    assert!((10..=60).contains(&asked), "{asked}");
    rig.lease_ms = 250;
    rig.pass_ms(5);
    rig.answer_renewals();
    assert_eq!(rig.result(io), Some(Ok(())));
}

#[test]
fn leases_are_renewed_while_reads_go_on() {
    let mut rig = Rig::open(3, 2);
    for _ in 0..200 {
        rig.pass_ms(10);
        let io = rig.read(0, 4096);
        let sent = rig.reads();
        rig.answer_read(&sent[0], old(5));
        assert_eq!(rig.result(io), Some(Ok(())), "no read waits for a lease");
        rig.answer_renewals();
    }
    assert_eq!(rig.sequencer.counters().unleased, 0);
    let renewals = rig.sequencer.counters().lease_renewals;
    assert!((20..100).contains(&renewals), "{renewals}");
}

#[test]
fn prefers_the_store_in_this_process_unless_it_hangs() {
    let config = Config {
        local_stores: vec![store(2)],
        ..Config::default()
    };
    let mut rig = Rig::with(3, 2, 1, config);
    rig.open_chunk();
    for _ in 0..10 {
        rig.read(0, 4096);
    }
    let sent = rig.reads();
    assert!(sent.iter().all(|request| request.store == store(2)));
    rig.pass_ms(49);
    assert_eq!(rig.reads().len(), 0);
    rig.pass_ms(2);
    // Time-out: each goes to another one as well; so do new ones.
    rig.read(0, 4096);
    let hedged = rig.reads();
    assert_eq!(hedged.len(), 11);
    assert!(hedged.iter().all(|request| request.store != store(2)));
    assert_eq!(rig.sequencer.counters().hedged, 10);
    for request in &hedged {
        rig.answer_read(request, old(5));
    }
    rig.answer_renewals();
    assert_eq!(rig.ended.len(), 11);
    // The slow answers come after all, and are nothing.
    for request in &sent {
        rig.answer_read(request, old(5));
    }
    assert_eq!(rig.ended.len(), 11);
}

#[test]
fn goes_to_the_member_with_the_least_to_do() {
    let mut rig = Rig::open(3, 2);
    for _ in 0..9 {
        rig.read(0, 4096);
    }
    let sent = rig.reads();
    for number in 1..=3 {
        assert_eq!(sent.iter().filter(|request| request.store == store(number)).count(), 3);
    }
}

#[test]
fn a_damaged_copy_is_not_served() {
    let mut rig = Rig::open(2, 1);
    let io = rig.read(0, 8192);
    let first = rig.reads().remove(0);
    rig.refuse(&first, Refusal::Damaged { block: BlockIndex(1) });
    let second = rig.reads().remove(0);
    assert_ne!(first.store, second.store);
    rig.answer_read(&second, old(5));
    assert_eq!(rig.result(io), Some(Ok(())));
    assert!(matches!(
        rig.warnings[0],
        Warning::Damaged {
            block: BlockIndex(1),
            ..
        }
    ));

    // The same, spoiled on its way, and on every copy.
    let io = rig.read(0, 4096);
    for _ in 0..2 {
        let request = rig.reads().remove(0);
        let mut sums = Sums::new();
        sums.push(1);
        let body = AnswerBody::Data(DataAnswer {
            version: old(5),
            sums,
            runs: Box::default(),
        });
        rig.answer(&request, Ok(body), Slice::copy_from(&[0; 4096]));
    }
    assert_eq!(rig.result(io), Some(Err(IoError::Damaged)));
    assert!(
        rig.calls.is_empty(),
        "a damaged block is repaired, its store is not evicted"
    );
}

#[test]
fn a_member_that_is_behind_is_evicted() {
    let mut rig = Rig::open(2, 1);
    let io = rig.read(0, 4096);
    let request = rig.reads().remove(0);
    rig.refuse(&request, Refusal::Behind { current: old(3) });
    let other = rig.reads().remove(0);
    rig.answer_read(&other, old(5));
    rig.answer_renewals();
    rig.do_call();
    assert_eq!(rig.group(0).in_sync, [other.store]);
    assert_eq!(rig.result(io), Some(Ok(())));
}

#[test]
fn goes_elsewhere_at_once_when_the_link_ends() {
    let mut rig = Rig::open(2, 1);
    let io = rig.read(0, 4096);
    let request = rig.reads().remove(0);
    rig.down(request.store.0);
    let other = rig.reads().remove(0);
    assert_ne!(request.store, other.store);
    rig.answer_read(&other, old(5));
    assert_eq!(rig.result(io), Some(Ok(())), "both leases are young");
    rig.down(other.store.0);
    let io = rig.read(0, 4096);
    assert_eq!(rig.reads().len(), 0);
    rig.up(other.store.0);
    rig.answer_fences();
    let request = rig.reads().remove(0);
    rig.answer_read(&request, old(5));
    assert_eq!(rig.result(io), Some(Ok(())));
}

#[test]
fn what_a_newer_owner_wrote_deposes_us() {
    let mut rig = Rig::open(2, 1);
    let io = rig.read(0, 4096);
    let request = rig.reads().remove(0);
    rig.answer_read(&request, Version::new(Generation(4), 9).unwrap());
    assert_eq!(
        rig.stopped,
        Some(StopReason::Deposed {
            generation: Generation(4)
        })
    );
    assert_eq!(rig.result(io), Some(Err(IoError::Lost)));
}

#[test]
fn an_answer_of_another_shape_evicts_and_is_not_served() {
    let mut rig = Rig::open(2, 1);
    let io = rig.read(0, 8192);
    let request = rig.reads().remove(0);
    let mut sums = Sums::new();
    sums.push(1);
    rig.answer(
        &request,
        Ok(AnswerBody::Data(DataAnswer {
            version: old(5),
            sums,
            runs: Box::default(),
        })),
        Slice::copy_from(&[1; 100]),
    );
    let other = rig.reads().remove(0);
    rig.answer_read(&other, old(5));
    assert_eq!(rig.result(io), Some(Ok(())));
    rig.do_call();
    assert_eq!(rig.group(0).in_sync, [other.store]);
}

#[test]
fn allocation_is_held_until_all_that_it_may_show_is_everywhere() {
    let mut rig = Rig::open(2, 1);
    rig.write(0, &[1; 4096]);
    let (one, two) = (rig.writes(1), rig.writes(2));
    rig.done(&one);
    let io = rig.submit(Op::Allocation { offset: 12345 }, &[]);
    let asked = rig.take(|_, body| matches!(body, RequestBody::Allocation(_)));
    let mut allocated = Box::new([0; 16]);
    allocated[0] = 5;
    rig.accept(
        &asked[0],
        AnswerBody::Allocation(AllocationAnswer {
            allocated: allocated.clone(),
            version: None,
        }),
    );
    // Another store says what it shows: nothing of the write.
    let older = rig.submit(Op::Allocation { offset: 12345 }, &[]);
    let asked = rig.take(|_, body| matches!(body, RequestBody::Allocation(_)));
    rig.accept(
        &asked[0],
        AnswerBody::Allocation(AllocationAnswer {
            allocated: allocated.clone(),
            version: Some(old(5)),
        }),
    );
    assert_eq!((rig.result(older), rig.result(io)), (Some(Ok(())), None));
    rig.done(&two);
    assert_eq!(rig.payload(io), Payload::Allocation(allocated));
}

#[test]
fn does_not_wait_for_a_write_in_flight_elsewhere_in_the_chunk() {
    let mut rig = Rig::open(2, 1);
    rig.write(0, &[1; 4096]);
    let io = rig.read(8192, 4096);
    let request = rig.reads().remove(0);
    rig.answer_read(&request, old(2));
    assert_eq!(rig.result(io), Some(Ok(())));
    assert!(rig.now.0 > MS);
}

#[test]
fn a_lease_counts_for_less_than_the_store_keeps_it() {
    // The store's clock may be a quarter faster than ours: its 250 ms are 200 of ours then (R4).
    let mut rig = Rig::open(1, 1);
    rig.pass_ms(1000);
    let io = rig.read(0, 4096);
    let sent = rig.reads();
    rig.pass_ms(201);
    rig.answer_read(&sent[0], old(5));
    assert_eq!(rig.result(io), None, "a new owner may have written by now");
    rig.answer_renewals();
    assert_eq!(rig.result(io), Some(Ok(())));

    let io = rig.read(0, 4096);
    let sent = rig.reads();
    rig.pass_ms(199);
    rig.answer_read(&sent[0], old(5));
    assert_eq!(rig.result(io), Some(Ok(())));
}

fn confirming_reads(copies: u8, min_copies: u8) -> Rig {
    let config = Config {
        confirm_reads: true,
        ..Config::default()
    };
    let mut rig = Rig::with(copies, min_copies, 1, config);
    rig.open_chunk();
    rig
}

#[test]
fn without_clocks_a_read_waits_for_answers_to_what_was_sent_after_it() {
    let mut rig = confirming_reads(3, 2);
    rig.pass_ms(1);
    let io = rig.read(0, 4096);
    let sent = rig.reads();
    let renewals = rig.renewals();
    assert_eq!(renewals.len(), 2, "the others are asked beside the read");
    // However long all of this takes: no clock has to move meanwhile, and none may.
    rig.pass_ms(40);
    rig.answer_read(&sent[0], old(5));
    assert_eq!(rig.result(io), None);
    rig.accept(&renewals[0], AnswerBody::LeaseRenewed);
    assert_eq!(rig.result(io), Some(Ok(())));
}

#[test]
fn without_clocks_an_answer_to_an_older_question_confirms_no_younger_read() {
    let mut rig = confirming_reads(2, 2);
    rig.pass_ms(1);
    let first = rig.read(0, 4096);
    let (read, renewal) = (rig.reads().remove(0), rig.renewals().remove(0));
    rig.pass_ms(1);
    let second = rig.read(0, 4096);
    for sent in rig.reads() {
        rig.answer_read(&sent, old(5));
    }
    assert!(rig.renewals().is_empty(), "one question at a time");
    rig.answer_read(&read, old(5));
    rig.accept(&renewal, AnswerBody::LeaseRenewed);
    // One lease is enough (2 - 2 + 1); the two reads went to different members or to the same one.
    assert_eq!(rig.result(first), Some(Ok(())));
    rig.pass_ms(10);
    rig.answer_renewals();
    assert_eq!(rig.result(second), Some(Ok(())));
}

#[test]
fn without_clocks_a_store_that_grants_no_lease_is_asked_again_at_leisure() {
    let mut rig = confirming_reads(1, 1);
    rig.pass_ms(1);
    let io = rig.read(0, 4096);
    let sent = rig.reads();
    rig.lease_ms = 0;
    rig.answer_read(&sent[0], old(5));
    let before = rig.sequencer.counters().lease_renewals;
    for _ in 0..50 {
        rig.answer_renewals();
        rig.pass_ms(1);
    }
    assert_eq!(rig.result(io), None);
    assert!((10..=60).contains(&(rig.sequencer.counters().lease_renewals - before)));
    rig.lease_ms = 250;
    rig.pass_ms(5);
    rig.answer_renewals();
    assert_eq!(rig.result(io), Some(Ok(())));
}

/// A question about allocation is answered with data, and one about data with a bitmap.
#[test]
fn an_answer_to_another_question_evicts_and_is_not_served() {
    let bitmap = AnswerBody::Allocation(AllocationAnswer {
        allocated: Box::new([u64::MAX; 16]),
        version: None,
    });
    let data = AnswerBody::Data(DataAnswer {
        version: old(5),
        sums: Sums::new(),
        runs: Box::default(),
    });
    let (offset, length) = (0, 4096);
    let asks = [
        (Op::Read { offset, length }, bitmap.clone()),
        (Op::CompareAndWrite { offset, length }, bitmap),
        (Op::Allocation { offset }, data),
    ];
    for (op, body) in asks {
        let mut rig = Rig::open(2, 1);
        let bytes = match op {
            Op::CompareAndWrite { .. } => 8192,
            _ => 0,
        };
        let io = rig.submit(op, &[0; 8192][..bytes]);
        let request = rig
            .take(|_, body| matches!(body, RequestBody::Read(_) | RequestBody::Allocation(_)))
            .remove(0);
        rig.accept(&request, body);
        rig.answer_renewals();
        assert_eq!(rig.result(io), None, "{op:?}");
        rig.do_call();
        assert_eq!(rig.group(0).in_sync.len(), 1, "{op:?}");
    }
}

/// Also to the member that is asked when the first one's copy is damaged.
#[test]
fn what_is_read_for_a_backup_says_so_to_each_that_is_asked() {
    let mut rig = Rig::open(2, 1);
    let told = Told {
        purpose: Purpose::Backup,
        ..Told::default()
    };
    let op = Op::Read {
        offset: 0,
        length: 4096,
    };
    let io = rig.submit_told(SnapshotId::HEAD, op, told);
    let first = rig.reads().remove(0);
    rig.refuse(&first, Refusal::Damaged { block: BlockIndex(0) });
    let second = rig.reads().remove(0);
    assert_ne!(first.store, second.store);
    assert_eq!([first.purpose, second.purpose], [Purpose::Backup; 2]);
    rig.answer_read(&second, old(5));
    assert_eq!(rig.result(io), Some(Ok(())));
    rig.read(8192, 4096);
    assert_eq!(rig.reads()[0].purpose, Purpose::Unsaid, "its task is used again");
}
