use super::rig::{CHUNK_BYTES, MS, Rig, old, store, version};
use crate::config::{MAX_STORE_BYTES, MAX_WRITES_PER_CHUNK};
use crate::io::{IoError, Op};
use amita_cluster::message::{AnswerBody, Refusal, Request, RequestBody};
use amita_cluster::{BLOCK_BYTES, Version};
use amita_reactor::Time;

fn versions(requests: &[Request]) -> Vec<(Version, Version)> {
    let of = |request: &Request| match request.body {
        RequestBody::Write { version, previous, .. } | RequestBody::Clear { version, previous, .. } => {
            (previous, version)
        }
        ref other => panic!("a write was expected, not {other:?}"),
    };
    requests.iter().map(of).collect()
}

#[test]
fn goes_to_all_at_once_and_is_acknowledged_when_all_have_it() {
    let mut rig = Rig::open(3, 2);
    let data = vec![7; 6000];
    let io = rig.write(1000, &data);
    let all: Vec<Request> = (1..=3).flat_map(|number| rig.writes(number)).collect();
    assert_eq!(all.len(), 3);
    for request in &all {
        let RequestBody::Write {
            offset_bytes,
            length_bytes,
            version: given,
            previous,
            sums,
            ..
        } = &request.body
        else {
            panic!("a write was expected")
        };
        assert_eq!((*offset_bytes, *length_bytes), (1000, 6000));
        // R1: our generation, the counter goes on; the predecessor is named.
        assert_eq!((*given, *previous), (version(6), old(5)));
        // A piece to the block's end, then the rest.
        assert_eq!(
            sums.as_slice(),
            [
                amita_cluster::crc32c(&data[..3096]),
                amita_cluster::crc32c(&data[..2904])
            ]
        );
    }
    rig.done(&all[..2]);
    assert_eq!(rig.result(io), None);
    rig.done(&all[2..]);
    assert_eq!(rig.result(io), Some(Ok(())));
}

#[test]
fn is_acknowledged_in_the_order_of_versions() {
    let mut rig = Rig::open(2, 1);
    let first = rig.write(0, &[1; 4096]);
    let second = rig.write(8192, &[2; 4096]);
    let (one, two) = (rig.writes(1), rig.writes(2));
    assert_eq!(versions(&one), [(old(5), version(6)), (version(6), version(7))]);
    rig.done(&one);
    rig.done(&two[1..]);
    assert_eq!((rig.result(first), rig.result(second)), (None, None));
    rig.done(&two[..1]);
    assert_eq!(
        rig.ended.iter().map(|ended| ended.0).collect::<Vec<_>>(),
        [first, second]
    );
}

#[test]
fn waits_beyond_the_limits() {
    let mut rig = Rig::open(1, 1);
    let most = u64::from(MAX_WRITES_PER_CHUNK);
    for index in 0..most + 3 {
        rig.write(index % 60 * 4096, &[1; 512]);
    }
    let sent = rig.writes(1);
    assert_eq!(sent.len() as u64, most);
    rig.done(&sent[..2]);
    assert_eq!(rig.writes(1).len(), 2);

    let mut rig = Rig::open(1, 1);
    let large = vec![1; 128 << 10];
    for _ in 0..MAX_STORE_BYTES / large.len() as u64 + 5 {
        rig.write(0, &large);
    }
    let sent = rig.writes(1);
    assert_eq!(sent.len() as u64, MAX_STORE_BYTES / large.len() as u64);
    rig.done(&sent[..1]);
    assert_eq!(rig.writes(1).len(), 1);
}

#[test]
fn waits_for_credits_before_a_version_is_given_out() {
    let mut rig = Rig::new(2, 1);
    rig.credit = 0;
    let io = rig.write(0, &[1; 8192]);
    rig.credit = 1;
    rig.answer_fences();
    rig.credit = 0;
    rig.answer_opens(|_| old(5));
    // R7: one block each is not enough for two; nothing is under way, so both are asked.
    assert_eq!((rig.writes(1).len(), rig.writes(2).len()), (0, 0));
    let confirms = rig.confirms();
    assert_eq!(confirms.len(), 2);
    rig.credit = 1;
    rig.accept(&confirms[0], AnswerBody::Confirmed);
    assert_eq!(rig.writes(1).len(), 0);
    rig.accept(&confirms[1], AnswerBody::Confirmed);
    let (one, two) = (rig.writes(1), rig.writes(2));
    assert_eq!(versions(&one), [(old(5), version(6))]);
    rig.done(&one);
    rig.done(&two);
    assert_eq!(rig.result(io), Some(Ok(())));
    assert_eq!(rig.sequencer.counters().credit_waits, 1);
}

#[test]
fn no_space_is_said_before_anything_is_sent_and_a_clear_goes_past() {
    let mut rig = Rig::new(2, 1);
    rig.credit = 0;
    let write = rig.write(0, &[1; 4096]);
    rig.answer_fences();
    rig.answer_opens(|_| old(5));
    let confirms = rig.confirms();
    // What may bring space must not wait behind what needs it.
    let clear = rig.clear(4096, 4096);
    let (one, two) = (rig.writes(1), rig.writes(2));
    assert!(matches!(one[0].body, RequestBody::Clear { .. }));
    assert_eq!(versions(&one), [(old(5), version(6))]);
    for request in &confirms {
        rig.accept(request, AnswerBody::Confirmed);
    }
    // The clear's end may bring credits: still no verdict.
    assert_eq!(rig.result(write), None);
    rig.done(&one);
    rig.done(&two);
    assert_eq!(rig.result(clear), Some(Ok(())));
    let confirms = rig.confirms();
    assert_eq!(confirms.len(), 2);
    for request in &confirms {
        rig.accept(request, AnswerBody::Confirmed);
    }
    assert_eq!(rig.result(write), Some(Err(IoError::NoSpace)));
    assert!(
        rig.calls.is_empty(),
        "nobody is evicted for want of space that was never promised"
    );
}

#[test]
fn is_sent_again_in_order_after_the_fence_of_a_new_link() {
    let mut rig = Rig::open(2, 1);
    let ios = [rig.write(0, &[1; 4096]), rig.write(0, &[2; 4096]), rig.clear(0, 4096)];
    let one = rig.writes(1);
    rig.writes(2);
    rig.done(&one);
    rig.down(2);
    let late = rig.write(0, &[3; 4096]);
    assert_eq!(rig.writes(2).len(), 0);
    // Its account is gone with the link, so the newest waits for credits.
    rig.up(2);
    assert_eq!(rig.sent.len(), 1, "first the fence, and nothing else: {:?}", rig.sent);
    rig.answer_fences();
    let two = rig.writes(2);
    let expected = [
        (old(5), version(6)),
        (version(6), version(7)),
        (version(7), version(8)),
        (version(8), version(9)),
    ];
    assert_eq!(versions(&two), expected);
    rig.done(&two[..3]);
    assert!(ios.iter().all(|&io| rig.result(io) == Some(Ok(()))));
    let one = rig.writes(1);
    rig.done(&one);
    rig.done(&two[3..]);
    assert_eq!(rig.result(late), Some(Ok(())));
    assert_eq!(rig.sequencer.counters().resent, 3);
}

#[test]
fn a_busy_store_is_left_alone_and_gets_everything_again_in_order() {
    let mut rig = Rig::open(1, 1);
    let ios = [
        rig.write(0, &[1; 4096]),
        rig.write(0, &[2; 4096]),
        rig.write(0, &[3; 4096]),
    ];
    let sent = rig.writes(1);
    rig.refuse(&sent[0], Refusal::Busy);
    // What followed is refused too, for its predecessor: no reason to evict anybody.
    rig.refuse(&sent[1], Refusal::WrongPredecessor { current: old(5) });
    rig.pass_ms(5);
    assert_eq!(rig.writes(1).len(), 0, "not before the last answer is in");
    rig.refuse(&sent[2], Refusal::WrongPredecessor { current: old(5) });
    let again = rig.writes(1);
    assert_eq!(versions(&again), versions(&sent));
    rig.done(&again);
    assert!(ios.iter().all(|&io| rig.result(io) == Some(Ok(()))));
    assert!(rig.calls.is_empty());
}

#[test]
fn a_store_that_does_not_know_the_fence_is_fenced_again() {
    let mut rig = Rig::open(1, 1);
    let io = rig.write(0, &[1; 4096]);
    let sent = rig.writes(1);
    rig.refuse(&sent[0], Refusal::NotFenced);
    assert_eq!(rig.writes(1).len(), 0);
    rig.answer_fences();
    let again = rig.writes(1);
    assert_eq!(again.len(), 1);
    rig.done(&again);
    assert_eq!(rig.result(io), Some(Ok(())));
}

#[test]
fn a_store_that_cannot_apply_the_next_version_is_evicted() {
    for refusal in [
        Refusal::WrongPredecessor { current: old(4) },
        Refusal::NoSpace,
        Refusal::Poisoned,
        Refusal::Damaged {
            block: amita_cluster::BlockIndex(0),
        },
    ] {
        let mut rig = Rig::open(2, 1);
        let io = rig.write(0, &[1; 4096]);
        let (one, two) = (rig.writes(1), rig.writes(2));
        rig.done(&one);
        rig.refuse(&two[0], refusal.clone());
        assert_eq!(rig.result(io), None);
        rig.do_call();
        assert_eq!(rig.group(0).in_sync, [store(1)], "{refusal:?}");
        assert_eq!(rig.result(io), Some(Ok(())));
    }
}

#[test]
fn an_answer_that_was_not_asked_for_evicts() {
    let mut rig = Rig::open(2, 1);
    rig.write(0, &[1; 4096]);
    let two = rig.writes(2);
    rig.accept(&two[0], AnswerBody::Fenced);
    rig.do_call();
    assert_eq!(rig.group(0).in_sync, [store(1)]);
}

#[test]
fn stale_and_doubled_answers_are_nothing() {
    let mut rig = Rig::open(2, 1);
    let io = rig.write(0, &[1; 4096]);
    let (one, two) = (rig.writes(1), rig.writes(2));
    rig.done(&one);
    rig.done(&one);
    assert_eq!(rig.result(io), None);
    let mut strange = one[0].clone();
    strange.store = store(77);
    rig.done(&[strange]);
    rig.done(&two);
    rig.done(&two);
    rig.done(&one);
    assert_eq!(rig.ended.len(), 1);
    // The slot is used again, under another id.
    rig.write(0, &[1; 4096]);
    assert_ne!(rig.writes(1)[0].id, one[0].id);
}

#[test]
fn chunks_do_not_wait_for_each_other() {
    let mut rig = Rig::open(1, 1);
    let io = rig.write(CHUNK_BYTES, &[1; 4096]);
    assert_eq!(rig.writes(1).len(), 0);
    let other = rig.write(0, &[1; 4096]);
    let sent = rig.writes(1);
    rig.done(&sent);
    assert_eq!(rig.result(other), Some(Ok(())));
    rig.answer_opens(|_| Version::NONE);
    let sent = rig.writes(1);
    assert_eq!(versions(&sent), [(Version::NONE, version(1))]);
    rig.done(&sent);
    assert_eq!(rig.result(io), Some(Ok(())));
}

#[test]
fn an_idle_sequencer_wants_no_time() {
    let mut rig = Rig::open(3, 2);
    rig.pass_ms(10_000);
    assert_eq!(rig.sequencer.deadline(), None);
    rig.submit(
        Op::Clear {
            offset: 0,
            length: u64::from(BLOCK_BYTES),
        },
        &[],
    );
    assert_eq!(rig.sequencer.deadline(), Some(Time(rig.now.0 + 2000 * MS)));
}
