use super::rig::{CHUNK_BYTES, MS, Rig, old, store, version};
use crate::config::{MAX_STORE_BYTES, MAX_WRITES_PER_CHUNK};
use crate::io::Warning;
use crate::task::Kind;
use crate::{Fault, Faults};
use amita_reactor::Time;
use amita_types::io::{IoError, Op};
use amita_types::message::{
    AllocationAnswer, AnswerBody, ChangesAnswer, ClearRequest, DataAnswer, Refusal, Request, RequestBody, RollRequest,
    SettleRequest, SettledAnswer, WriteRequest,
};
use amita_types::{BLOCK_BYTES, Version};

fn versions(requests: &[Request]) -> Vec<(Version, Version)> {
    let of = |request: &Request| match request.body {
        RequestBody::Write(WriteRequest { version, previous, .. })
        | RequestBody::Clear(ClearRequest { version, previous, .. }) => (previous, version),
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
        let RequestBody::Write(WriteRequest {
            offset_bytes,
            length_bytes,
            version: given,
            previous,
            sums,
            ..
        }) = &request.body
        else {
            panic!("a write was expected")
        };
        assert_eq!((*offset_bytes, *length_bytes), (1000, 6000));
        // R1: our generation, the counter goes on; the predecessor is named.
        assert_eq!((*given, *previous), (version(6), old(5)));
        // A piece to the block's end, then the rest.
        assert_eq!(
            sums.as_slice(),
            [amita_types::crc32c(&data[..3096]), amita_types::crc32c(&data[..2904])]
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
    let asked = rig.settles();
    assert_eq!(asked.len(), 2);
    rig.credit = 1;
    rig.accept(&asked[0], AnswerBody::Settled(SettledAnswer { full: false }));
    assert_eq!(rig.writes(1).len(), 0);
    rig.accept(&asked[1], AnswerBody::Settled(SettledAnswer { full: false }));
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
    let asked = rig.settles();
    // What may bring space must not wait behind what needs it.
    let clear = rig.clear(4096, 4096);
    let (one, two) = (rig.writes(1), rig.writes(2));
    assert!(matches!(one[0].body, RequestBody::Clear(_)));
    assert_eq!(versions(&one), [(old(5), version(6))]);
    for request in &asked {
        rig.accept(request, AnswerBody::Settled(SettledAnswer { full: true }));
    }
    // The clear's end may bring credits: still no verdict.
    assert_eq!(rig.result(write), None);
    rig.done(&one);
    rig.done(&two);
    assert_eq!(rig.result(clear), Some(Ok(())));
    let asked = rig.settles();
    assert_eq!(asked.len(), 2);
    for request in &asked {
        rig.accept(request, AnswerBody::Settled(SettledAnswer { full: true }));
    }
    assert_eq!(rig.result(write), Some(Err(IoError::NoSpace)));
    assert!(
        rig.calls.is_empty(),
        "nobody is evicted for want of space that was never promised"
    );
}

#[test]
fn a_link_that_ends_before_the_store_has_said_anything_says_nothing_of_space() {
    let mut rig = Rig::new(1, 1);
    rig.credit = 0;
    let write = rig.write(0, &[1; 4096]);
    rig.answer_fences();
    rig.answer_opens(|_| old(5));
    // Asked again and again, without a verdict, for almost as long as the write waits.
    for _ in 0..49 {
        for request in rig.settles() {
            rig.accept(&request, AnswerBody::Settled(SettledAnswer { full: false }));
        }
        rig.pass_ms(10);
    }
    for request in rig.settles() {
        rig.accept(&request, AnswerBody::Settled(SettledAnswer { full: false }));
    }
    rig.pass_ms(100);
    assert_eq!(rig.settles().len(), 1, "asked after 500 ms, and not answered");
    rig.down(1);
    rig.up(1);
    rig.answer_fences();
    assert_eq!(rig.result(write), None, "only the store can say that it is full");
    let asked = rig.settles();
    assert_eq!(asked.len(), 1);
    rig.accept(&asked[0], AnswerBody::Settled(SettledAnswer { full: false }));
    assert_eq!(rig.result(write), Some(Err(IoError::NoSpace)));
}

/// What comes again by a new link may find fewer credits than it needs: a refusal gives back no more than it had.
#[test]
fn a_refused_resend_makes_no_credits() {
    let mut rig = Rig::open(2, 1);
    rig.write(0, &[1; 32 * 4096]);
    let (one, two) = (rig.writes(1), rig.writes(2));
    assert_eq!((one.len(), two.len()), (1, 1));
    rig.down(2);
    rig.credit = 8;
    rig.up(2);
    rig.answer_fences();
    rig.credit = 0;
    let again = rig.writes(2);
    assert_eq!(again.len(), 1);
    rig.refuse(&again[0], Refusal::Busy);
    let number = rig
        .sequencer
        .cx
        .stores
        .slot_of(super::rig::store(2))
        .expect("it is known");
    assert_eq!(
        rig.sequencer.cx.stores[number].credits.blocks, 8,
        "as many as were granted"
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
            block: amita_types::BlockIndex(0),
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
    rig.pass_ms(20_000);
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

/// All members agree on a version that has no next one (an older build believed a lie): the chunk's writes fail, its
/// reads do not, and the process goes on.
#[test]
fn a_chunk_whose_counter_has_ended_can_be_read_and_not_written() {
    let last = amita_types::Version::new(amita_types::Generation(2), amita_types::Version::COUNTER_MAX).unwrap();
    let mut rig = Rig::new(2, 1);
    let read = rig.read(0, 4096);
    rig.answer_fences();
    rig.answer_opens(|_| last);
    rig.answer_reads(last);
    assert_eq!(rig.result(read), Some(Ok(())));
    let ios = [rig.write(0, &[1; 4096]), rig.clear(0, 4096), rig.write(4096, &[1; 512])];
    assert!(ios.iter().all(|&io| rig.result(io) == Some(Err(IoError::Damaged))));
    assert_eq!(rig.warnings.len(), 1);
    assert!(rig.stopped.is_none() && rig.sent.is_empty());
}

/// A store that has nothing to grant for the moment is no store that is full: only when it says so a write fails.
#[test]
fn a_write_fails_for_want_of_space_only_when_a_store_says_that_it_is_full() {
    let play = |full_without_word: bool| {
        let config = crate::Config {
            faults: if full_without_word {
                Faults::NONE.with(Fault::FullWithoutWord)
            } else {
                Faults::NONE
            },
            ..crate::Config::default()
        };
        let mut rig = Rig::with(2, 1, 1, config);
        rig.credit = 0;
        let io = rig.write(0, &[1; 4096]);
        rig.answer_fences();
        rig.answer_opens(|_| old(5));
        let asked = rig.settles();
        assert!(
            asked
                .iter()
                .all(|asked| matches!(asked.body, RequestBody::Settle(SettleRequest { want: 1, back: 0 })))
        );
        for request in &asked {
            rig.accept(request, AnswerBody::Settled(SettledAnswer { full: false }));
        }
        (rig, io)
    };
    let (mut rig, io) = play(false);
    for _ in 0..20 {
        assert_eq!((rig.result(io), rig.settles().len()), (None, 0), "not at once");
        rig.pass_ms(10);
        let asked = rig.settles();
        assert_eq!(asked.len(), 2, "it is asked again");
        for request in &asked {
            rig.accept(request, AnswerBody::Settled(SettledAnswer { full: false }));
        }
    }
    rig.pass_ms(10);
    let asked = rig.settles();
    rig.credit = 1;
    rig.accept(&asked[0], AnswerBody::Settled(SettledAnswer { full: false }));
    rig.credit = 0;
    rig.accept(&asked[1], AnswerBody::Settled(SettledAnswer { full: true }));
    assert_eq!(rig.result(io), Some(Err(IoError::NoSpace)));

    let (rig, io) = play(true);
    assert_eq!(
        rig.result(io),
        Some(Err(IoError::NoSpace)),
        "with the rule switched off"
    );
}

/// What is not used is kept from others, so it goes back: first all but one write's worth, then the rest. What a store
/// has not taken is still ours.
#[test]
fn credits_that_are_not_used_are_given_back() {
    let mut rig = Rig::open(2, 1);
    (rig.credit, rig.takes_back) = (0, false);
    rig.pass_ms(1000);
    // Fences and openings brought some thousands each.
    let asked = rig.settles();
    assert_eq!(asked.len(), 2);
    let back: Vec<u32> = asked
        .iter()
        .map(|request| match request.body {
            RequestBody::Settle(SettleRequest { want: 0, back }) => back,
            ref other => panic!("{other:?}"),
        })
        .collect();
    assert!(back.iter().all(|&back| back >= 1000), "{back:?}");
    rig.accept(&asked[0], AnswerBody::Settled(SettledAnswer { full: false }));
    rig.refuse(&asked[1], Refusal::Busy);
    rig.pass_ms(300);
    let again = rig.settles();
    assert_eq!(again.len(), 1, "what was refused is given back another time");
    assert!(matches!(again[0].body, RequestBody::Settle(SettleRequest { want: 0, back: same }) if same == back[1]));
    rig.accept(&again[0], AnswerBody::Settled(SettledAnswer { full: false }));
    // One write's worth is kept, so that the next one need not ask.
    let io = rig.write(0, &[1; 4096]);
    let (one, two) = (rig.writes(1), rig.writes(2));
    rig.done(&one);
    rig.done(&two);
    assert_eq!((rig.result(io), rig.settles().len()), (Some(Ok(())), 0));
    rig.pass_ms(9_000);
    assert!(rig.settles().is_empty());
    rig.pass_ms(2_000);
    let last = rig.settles();
    assert_eq!(last.len(), 2);
    assert!(
        last.iter()
            .all(|last| matches!(last.body, RequestBody::Settle(SettleRequest { want: 0, back: 32 })))
    );
    for request in &last {
        rig.accept(request, AnswerBody::Settled(SettledAnswer { full: false }));
    }
    rig.pass_ms(60_000);
    assert!(rig.settles().is_empty(), "nothing is left, and nothing is said");
    let io = rig.write(0, &[1; 4096]);
    assert_eq!((rig.writes(1).len(), rig.result(io)), (0, None));
    rig.credit = 8;
    for request in &rig.settles() {
        rig.accept(request, AnswerBody::Settled(SettledAnswer { full: false }));
    }
    assert_eq!((rig.writes(1).len(), rig.writes(2).len()), (1, 1));
}

/// A link ends with a request on it that gives something back: the next one counts from nothing.
#[test]
fn what_was_given_back_on_a_link_that_ended_does_not_come_back() {
    let mut rig = Rig::open(2, 1);
    rig.takes_back = false;
    rig.pass_ms(1000);
    assert_eq!(rig.settles().len(), 2);
    rig.down(2);
    rig.credit = 0;
    rig.up(2);
    rig.answer_fences();
    let io = rig.write(0, &[1; 4096]);
    assert_eq!(rig.writes(1).len(), 0, "the other has granted nothing yet");
    let asked = rig.settles();
    assert_eq!(asked.len(), 1);
    rig.accept(&asked[0], AnswerBody::Settled(SettledAnswer { full: true }));
    assert_eq!(rig.result(io), Some(Err(IoError::NoSpace)));
}

/// At the pool's least a member whose block has rotted under a part cannot be evicted, and refuses the write for ever.
/// It is rolled forward to what the other has, the writes behind it included.
#[test]
fn a_part_of_a_rotten_block_is_carried_out_at_the_least_number_of_copies() {
    use amita_types::message::Change;
    let mut rig = Rig::open(2, 2);
    let part = rig.write(512, &[1; 512]);
    let behind = rig.write(8192, &[2; 4096]);
    let (one, two) = (rig.writes(1), rig.writes(2));
    rig.done(&one);
    let block = amita_types::BlockIndex(0);
    rig.refuse(&two[0], Refusal::Damaged { block });
    assert!(rig.sent.is_empty(), "what was sent behind it is answered first");
    rig.refuse(&two[1], Refusal::WrongPredecessor { current: old(5) });
    // What comes now waits: nothing gets a version between the question and the roll-forward.
    let later = rig.write(0, &[3; 4096]);
    rig.answer_opens(|id| if id == store(1) { version(7) } else { old(5) });
    let listing = rig.take(|_, body| matches!(body, RequestBody::Changes(_)));
    assert_eq!((listing.len(), listing[0].store), (1, store(1)));
    let bytes = [[7u8; 4096], [8; 4096]];
    let sums = [amita_types::crc32c(&bytes[0]), amita_types::crc32c(&bytes[1])];
    let entries = [(0, 6), (2, 7)]
        .into_iter()
        .zip(sums)
        .map(|((block, counter), sum)| Change {
            block: amita_types::BlockIndex(block),
            version: version(counter),
            sum: Some(sum),
        });
    let entries: Vec<Change> = entries.collect();
    rig.accept(&listing[0], AnswerBody::Changes(ChangesAnswer { entries, more: None }));
    let reads = rig.take(|_, body| matches!(body, RequestBody::Read(_)));
    assert_eq!(reads.len(), 2);
    for (at, request) in reads.iter().enumerate() {
        let body = AnswerBody::Data(DataAnswer {
            version: version(7),
            sums: [sums[at]].into_iter().collect(),
            runs: Box::default(),
        });
        rig.answer(request, Ok(body), amita_reactor::Slice::copy_from(&bytes[at]));
    }
    let rolls = rig.take(|_, body| matches!(body, RequestBody::Roll(_)));
    assert_eq!((rolls.len(), rolls[0].store), (1, store(2)));
    assert!(
        matches!(rolls[0].body, RequestBody::Roll(RollRequest { version: to, previous, .. }) if (to, previous) == (version(7), old(5)))
    );
    assert_eq!((rig.result(part), rig.result(behind)), (None, None));
    rig.accept(&rolls[0], AnswerBody::Done);
    rig.do_call();
    assert_eq!((rig.result(part), rig.result(behind)), (Some(Ok(())), Some(Ok(()))));
    let (one, two) = (rig.writes(1), rig.writes(2));
    assert_eq!(versions(&one), [(version(7), version(8))]);
    rig.done(&one);
    rig.done(&two);
    assert_eq!(rig.result(later), Some(Ok(())));
    assert_eq!((rig.group(0).in_sync.len(), rig.sequencer.counters().caught_up), (2, 1));
}

/// A store that ends while the end of its log has rotted is back without what it had answered, and is needed. It is rolled forward to
/// what the other has; it is not read from, and goes when there is another.
#[test]
fn who_lacks_what_it_has_answered_is_caught_up_at_the_least_number_of_copies() {
    use amita_types::message::Change;
    let mut rig = Rig::open(2, 2);
    let acknowledged = rig.write(0, &[1; 4096]);
    let io = rig.forget(acknowledged);
    rig.answer_opens(|id| if id == store(1) { version(7) } else { old(5) });
    let listing = rig.take(|_, body| matches!(body, RequestBody::Changes(_)));
    assert_eq!((listing.len(), listing[0].store), (1, store(1)));
    let sum = amita_types::crc32c(&[1; 4096]);
    let entries = [(0, 6, Some(sum)), (2, 7, None)].map(|(block, counter, sum)| Change {
        block: amita_types::BlockIndex(block),
        version: version(counter),
        sum,
    });
    let entries = entries.to_vec();
    rig.accept(&listing[0], AnswerBody::Changes(ChangesAnswer { entries, more: None }));
    let reads = rig.reads();
    rig.answer_blocks(&reads[0], version(7), 1);
    let rolls = rig.take(|_, body| matches!(body, RequestBody::Roll(_)));
    assert_eq!((rolls.len(), rolls[0].store), (1, store(2)));
    assert!(
        matches!(&rolls[0].body, RequestBody::Roll(roll) if (roll.version, roll.previous, roll.entries.len()) == (version(7), old(5), 2))
    );
    rig.accept(&rolls[0], AnswerBody::Done);
    rig.do_call();
    assert_eq!(rig.result(io), Some(Ok(())));
    assert_eq!((rig.group(0).in_sync.len(), rig.sequencer.counters().caught_up), (2, 1));
    for _ in 0..4 {
        rig.read(0, 4096);
        let asked = rig.reads();
        assert!(!asked.is_empty() && asked.iter().all(|request| request.store == store(1)));
    }
}

/// A member that has lost its memory claims more than was ever given out: nobody gets that.
#[test]
fn nobody_is_caught_up_to_what_was_never_given_out() {
    let mut rig = Rig::open(2, 2);
    let io = rig.write(0, &[1; 4096]);
    let (one, two) = (rig.writes(1), rig.writes(2));
    rig.done(&one);
    rig.refuse(&two[0], Refusal::WrongPredecessor { current: old(4) });
    rig.answer_opens(|id| if id == store(1) { version(9) } else { old(4) });
    let asked = rig.take(|_, body| matches!(body, RequestBody::Changes(_) | RequestBody::Roll(_)));
    assert_eq!((asked.len(), rig.result(io)), (0, None));
    let why = "its copies are at 3:9, and 2:5 was acknowledged, 3:6 given out";
    assert!(
        matches!(&rig.warnings[..], [.., Warning::Implausible { why: said, .. }] if said == why),
        "{:?}",
        rig.warnings
    );
}

/// A member refuses a write and is sent it again: it owes it since then, and its leases count from the first sending all the same.
#[test]
fn what_is_sent_again_is_owed_since_then() {
    let mut rig = Rig::open(2, 2);
    let first = rig.now;
    let io = rig.write(0, &[1; 4096]);
    let (one, two) = (rig.writes(1), rig.writes(2));
    rig.done(&one);
    rig.pass_ms(5);
    rig.refuse(&two[0], Refusal::NoSpace);
    let refused = rig.now;
    let mut again = Vec::new();
    while again.is_empty() {
        rig.pass_ms(5);
        again = rig.writes(2);
    }
    let tasks = &rig.sequencer.cx.tasks;
    let mut writes = tasks.slots().filter(|&slot| matches!(tasks[slot].kind, Kind::Write(_)));
    let slot = writes.next().expect("it has no acknowledgement");
    let two = tasks[slot].waiting.iter().next().expect("it waits for that one");
    let (sent_at, owed_since) = (tasks[slot].sent_at[two], tasks[slot].owed_since[two]);
    assert_eq!(sent_at, first, "R4: the first of several sends is the safe one");
    assert!(
        owed_since > refused && owed_since <= rig.now,
        "{owed_since:?}, refused {refused:?}"
    );
    rig.done(&again);
    assert_eq!(rig.result(io), Some(Ok(())));
}

/// As above; the only other copy cannot be read for the moment, the link to the member breaks, and then it succeeds.
#[test]
fn catching_a_member_up_is_tried_again() {
    let mut rig = Rig::open(2, 2);
    let part = rig.write(512, &[1; 512]);
    let (one, two) = (rig.writes(1), rig.writes(2));
    rig.done(&one);
    let block = amita_types::BlockIndex(0);
    rig.refuse(&two[0], Refusal::Damaged { block });
    rig.answer_opens(|id| if id == store(1) { version(6) } else { old(5) });
    let listing = rig.take(|_, body| matches!(body, RequestBody::Changes(_)));
    rig.refuse(&listing[0], Refusal::Damaged { block });
    // It is asked again; nobody is left to copy from.
    rig.answer_opens(|id| if id == store(1) { version(6) } else { old(5) });
    assert!(rig.sent.is_empty(), "not at once");
    rig.down(2);
    rig.up(2);
    rig.pass_ms(300);
    rig.answer_fences();
    let two = rig.writes(2);
    assert_eq!(versions(&two), [(old(5), version(6))]);
    rig.refuse(&two[0], Refusal::Damaged { block });
    rig.answer_opens(|id| if id == store(1) { version(6) } else { old(5) });
    let listing = rig.take(|_, body| matches!(body, RequestBody::Changes(_)));
    rig.accept(
        &listing[0],
        AnswerBody::Changes(ChangesAnswer {
            entries: Vec::new(),
            more: None,
        }),
    );
    let rolls = rig.take(|_, body| matches!(body, RequestBody::Roll(_)));
    rig.accept(&rolls[0], AnswerBody::Done);
    rig.do_call();
    assert_eq!(rig.result(part), Some(Ok(())));
}

/// A clear of a chunk of which there is nothing asks for that, as a read does, and leaves no chunk behind on any store.
#[test]
fn a_clear_of_what_was_never_written_writes_nothing() {
    let never = amita_types::Version::NONE;
    let mut rig = Rig::new(2, 1);
    let io = rig.clear(0, 8192);
    rig.answer_fences();
    rig.answer_opens(|_| never);
    let looks = rig.take(|_, body| matches!(body, RequestBody::Allocation(_)));
    assert_eq!(looks.len(), 1);
    let nothing = Box::new([0; 16]);
    rig.accept(
        &looks[0],
        AnswerBody::Allocation(AllocationAnswer {
            allocated: nothing,
            version: None,
        }),
    );
    rig.answer_renewals();
    assert_eq!(rig.result(io), Some(Ok(())));
    assert!(rig.writes(1).is_empty() && rig.writes(2).is_empty());

    // What is written meanwhile may be there, or may not: where it is, it is cleared.
    let io = rig.clear(0, 8192);
    let write = rig.write(4096, &[1; 4096]);
    let (one, two) = (rig.writes(1), rig.writes(2));
    rig.done(&one);
    rig.done(&two);
    assert_eq!(rig.result(write), Some(Ok(())));
    let mut allocated = Box::new([0; 16]);
    allocated[0] = 0b10;
    let looks = rig.take(|_, body| matches!(body, RequestBody::Allocation(_)));
    rig.accept(
        &looks[0],
        AnswerBody::Allocation(AllocationAnswer {
            allocated,
            version: None,
        }),
    );
    rig.answer_renewals();
    let one = rig.writes(1);
    assert!(matches!(one[0].body, RequestBody::Clear(_)));
    assert_eq!(versions(&one), [(version(1), version(2))]);
    let two = rig.writes(2);
    rig.done(&one);
    rig.done(&two);
    assert_eq!(rig.result(io), Some(Ok(())));
}
