//! A clone's chunks come from what it was cloned from (S6 to S8).

use super::rig::{CHUNK_BYTES, GENERATION, Rig, old, store, version};
use crate::config::{Config, MAX_OPENINGS};
use crate::io::{IoId, Warning};
use crate::{Fault, Faults};
use amita_metadata::Call;
use amita_types::io::IoError;
use amita_types::map::{self, Parent, Whole, WholeMember};
use amita_types::message::{
    AnswerBody, ChunkState, InheritRequest, JoinedAnswer, OpenedAnswer, Problem, Refusal, Request, RequestBody,
};
use amita_types::{
    BlockIndex, ChunkIndex, Epoch, Generation, GroupIndex, PoolId, SnapshotId, StoreId, Version, VolumeId,
};
use std::time::Duration;

const BLOCK: [u8; 4096] = [7; 4096];

fn parents() -> Vec<Parent> {
    [(5, 3, 2), (4, 1, 1)]
        .map(|(volume, number, generation)| Parent {
            volume: VolumeId(volume),
            number: SnapshotId(number),
            generation: Generation(generation),
        })
        .to_vec()
}

fn cloned(copies: u8) -> Rig {
    Rig::cloned(copies, 1, parents(), Config::default())
}

fn inherits(rig: &mut Rig) -> Vec<Request> {
    rig.take(|_, body| matches!(body, RequestBody::Inherit(_)))
}

/// Of each: whom it went to, and the version at which the chunk is to be made.
fn asked(requests: &[Request]) -> Vec<(StoreId, Version)> {
    let one = |request: &Request| match &request.body {
        RequestBody::Inherit(InheritRequest { version, parents, .. }) => {
            let named = [(VolumeId(5), SnapshotId(3)), (VolumeId(4), SnapshotId(1))];
            assert_eq!(*parents, named, "the nearest first");
            (request.store, *version)
        }
        other => panic!("{other:?}"),
    };
    requests.iter().map(one).collect()
}

fn say(rig: &mut Rig, requests: &[Request], has: impl Fn(StoreId) -> Version) {
    for request in requests {
        let opened = OpenedAnswer {
            version: has(request.store),
            ..OpenedAnswer::NOTHING
        };
        rig.accept(request, AnswerBody::Opened(opened));
    }
}

#[test]
fn what_no_member_has_is_made_before_it_is_read() {
    let mut rig = cloned(2);
    let io = rig.read(0, 4096);
    rig.answer_fences();
    rig.answer_opens(|_| Version::NONE);
    let told = inherits(&mut rig);
    assert_eq!(asked(&told), [(store(1), Version::NONE), (store(2), Version::NONE)]);
    say(&mut rig, &told, |_| old(5));
    let made = inherits(&mut rig);
    assert_eq!(asked(&made), [(store(1), old(5)), (store(2), old(5))]);
    rig.done(&made[..1]);
    assert!(rig.reads().is_empty(), "one member has not made it");
    rig.done(&made[1..]);
    rig.answer_reads(old(5));
    assert_eq!(rig.result(io), Some(Ok(())));
    // From there on it is a chunk like any other, and its history goes on.
    rig.write(0, &BLOCK);
    let writes = rig.writes(1);
    let follows = |request: &Request| matches!(&request.body, RequestBody::Write(write) if (write.previous, write.version) == (old(5), version(6)));
    assert!(writes.iter().all(follows) && writes.len() == 1, "{writes:?}");
    assert_eq!(rig.sequencer.counters().inherited, 1);
}

#[test]
fn what_the_parents_do_not_have_is_not_made() {
    let mut rig = cloned(2);
    let io = rig.write(0, &BLOCK);
    rig.answer_fences();
    rig.answer_opens(|_| Version::NONE);
    let told = inherits(&mut rig);
    say(&mut rig, &told, |_| Version::NONE);
    assert!(inherits(&mut rig).is_empty());
    for number in [1, 2] {
        let writes = rig.writes(number);
        rig.done(&writes);
    }
    assert_eq!(rig.result(io), Some(Ok(())));
}

#[test]
fn a_making_that_was_broken_off_goes_on() {
    // One member has made it, and has a write that the other one lacks.
    let mut rig = cloned(2);
    rig.read(0, 4096);
    rig.answer_fences();
    rig.answer_opens(|id| if id == store(1) { version(6) } else { Version::NONE });
    let told = inherits(&mut rig);
    assert_eq!(asked(&told), [(store(2), Version::NONE)]);
    say(&mut rig, &told, |_| old(5));
    let made = inherits(&mut rig);
    assert_eq!(asked(&made), [(store(2), old(5))]);
    rig.done(&made);
    let listing = rig.take(|_, body| matches!(body, RequestBody::Changes(_)));
    assert!(
        matches!(&listing[..], [one] if matches!(&one.body, RequestBody::Changes(changes) if changes.since == old(5))),
        "rolled forward from what it inherits: {listing:?}"
    );
}

#[test]
fn where_members_inherit_different_things_the_parents_owner_is_asked() {
    let mut rig = cloned(2);
    let io = rig.read(0, 4096);
    rig.answer_fences();
    rig.answer_opens(|_| Version::NONE);
    let told = inherits(&mut rig);
    say(&mut rig, &told, |id| if id == store(1) { old(5) } else { old(4) });
    assert!(
        inherits(&mut rig).is_empty(),
        "nothing is made of what is not settled (S7)"
    );
    assert_eq!(rig.unsettled, [ChunkIndex(0)]);
    // Nobody could; then somebody has.
    rig.sequencer
        .parent_opened(rig.now, ChunkIndex(0), Err(IoError::Unavailable));
    rig.collect();
    rig.pass_ms(1000);
    rig.answer_opens(|_| Version::NONE);
    let told = inherits(&mut rig);
    say(&mut rig, &told, |id| if id == store(1) { old(5) } else { old(4) });
    rig.sequencer.parent_opened(rig.now, ChunkIndex(0), Ok(()));
    rig.collect();
    rig.answer_opens(|_| Version::NONE);
    let told = inherits(&mut rig);
    say(&mut rig, &told, |_| old(5));
    let made = inherits(&mut rig);
    rig.done(&made);
    rig.answer_reads(old(5));
    assert_eq!(rig.result(io), Some(Ok(())));
    assert_eq!(rig.sequencer.counters().unsettled_parents, 2);
}

/// The parent's owner has the chunk open, and its members do not have the same all the same.
#[test]
fn an_owner_that_has_it_open_is_asked_again_after_a_while() {
    let mut rig = cloned(2);
    rig.read(0, 4096);
    rig.answer_fences();
    unsettled(&mut rig);
    parent_opened(&mut rig, Ok(()));
    unsettled(&mut rig);
    parent_opened(&mut rig, Ok(()));
    let asked = |rig: &mut Rig| rig.take(|_, body| matches!(body, RequestBody::Open(_))).len();
    assert_eq!(asked(&mut rig), 0);
    rig.pass_ms(100);
    assert_eq!(asked(&mut rig), 2);
}

/// Two members inherit different things, and the parent's owner is asked.
fn unsettled(rig: &mut Rig) {
    rig.answer_opens(|_| Version::NONE);
    let told = inherits(rig);
    assert_eq!(told.len(), 2);
    say(rig, &told, |id| if id == store(1) { old(5) } else { old(4) });
}

fn parent_opened(rig: &mut Rig, result: Result<(), IoError>) {
    rig.sequencer.parent_opened(rig.now, ChunkIndex(0), result);
    rig.collect();
}

#[test]
fn what_ails_the_parent_is_told_to_the_clones_hosts() {
    for error in [IoError::Damaged, IoError::NoSpace] {
        let mut rig = cloned(2);
        let io = rig.read(0, 4096);
        rig.answer_fences();
        unsettled(&mut rig);
        parent_opened(&mut rig, Err(error));
        rig.pass_ms(100);
        assert_eq!(rig.result(io), None, "it may be open all the same");
        unsettled(&mut rig);
        assert_eq!(rig.result(io), Some(Err(error)));
        assert!(rig.calls.is_empty(), "nobody is evicted");
        // The next touch tries again.
        let again = rig.write(0, &BLOCK);
        unsettled(&mut rig);
        assert_eq!((rig.unsettled.len(), rig.result(again)), (2, None));
    }
}

#[test]
fn a_parents_block_that_cannot_be_read_keeps_no_clone_from_its_chunk() {
    let mut rig = cloned(2);
    let io = rig.read(4096, 4096);
    rig.answer_fences();
    unsettled(&mut rig);
    parent_opened(&mut rig, Err(IoError::Damaged));
    rig.pass_ms(100);
    rig.answer_opens(|_| Version::NONE);
    let told = inherits(&mut rig);
    say(&mut rig, &told, |_| old(5));
    let made = inherits(&mut rig);
    rig.done(&made);
    rig.answer_reads(old(5));
    assert_eq!(rig.result(io), Some(Ok(())));
}

#[test]
fn a_parent_that_nobody_can_open_is_waited_for_so_long_and_no_longer() {
    let mut rig = cloned(2);
    let io = rig.read(0, 4096);
    rig.answer_fences();
    let mut waited = 0;
    loop {
        unsettled(&mut rig);
        if rig.result(io).is_some() {
            break;
        }
        parent_opened(&mut rig, Err(IoError::Unavailable));
        rig.pass_ms(500);
        rig.answer_renewals();
        waited += 500;
        assert!(waited <= 20_000, "it waits for ever");
    }
    assert_eq!((waited, rig.result(io)), (20_000, Some(Err(IoError::Unavailable))));
    // Somebody else's touch has all the time again.
    let later = rig.read(0, 4096);
    unsettled(&mut rig);
    assert_eq!(rig.result(later), None);
    parent_opened(&mut rig, Ok(()));
    rig.answer_opens(|_| Version::NONE);
    let told = inherits(&mut rig);
    say(&mut rig, &told, |_| old(5));
    let made = inherits(&mut rig);
    rig.done(&made);
    rig.answer_reads(old(5));
    assert_eq!(rig.result(later), Some(Ok(())));
}

/// Chunks of which the members do not inherit the same: more of them than may be opened at one time. Nobody has their parent open.
#[test]
fn what_waits_for_the_parents_owner_holds_up_nobody_else() {
    let mut rig = cloned(2);
    let last = 150 * CHUNK_BYTES;
    let io = rig.read(last, 4096);
    rig.answer_fences();
    rig.answer_opens(|_| old(5));
    rig.answer_reads(old(5));
    assert_eq!(rig.result(io), Some(Ok(())));
    let waiting = MAX_OPENINGS + 10;
    for chunk in 0..waiting {
        rig.read(chunk as u64 * CHUNK_BYTES, 4096);
    }
    for _ in 0..3 {
        rig.answer_opens(|_| Version::NONE);
        let told = inherits(&mut rig);
        say(&mut rig, &told, |id| if id == store(1) { old(5) } else { old(4) });
    }
    assert_eq!(rig.unsettled.len(), waiting, "all are asked for");
    for chunk in 0..waiting {
        let chunk = ChunkIndex(chunk as u64);
        rig.sequencer.parent_opened(rig.now, chunk, Err(IoError::Unavailable));
    }
    rig.collect();
    rig.write(last, &BLOCK);
    assert_eq!(
        (rig.writes(1).len(), rig.writes(2).len()),
        (1, 1),
        "no member is left alone"
    );
    let other = rig.read(last + CHUNK_BYTES, 4096);
    rig.answer_opens(|_| old(5));
    rig.answer_reads(old(5));
    assert_eq!(rig.result(other), Some(Ok(())), "there is a place for it");
}

#[test]
fn members_are_asked_less_and_less_often_while_nobody_opens_the_parent() {
    let mut rig = cloned(2);
    rig.read(0, 4096);
    rig.answer_fences();
    let begun = rig.now;
    let mut rounds = 0;
    while rig.now < begun.plus(Duration::from_secs(10)) {
        let opens = rig.take(|_, body| matches!(body, RequestBody::Open(_)));
        for request in &opens {
            rig.accept(request, AnswerBody::Opened(OpenedAnswer::NOTHING));
        }
        let told = inherits(&mut rig);
        say(&mut rig, &told, |id| if id == store(1) { old(5) } else { old(4) });
        if !told.is_empty() {
            rounds += 1;
            parent_opened(&mut rig, Err(IoError::Unavailable));
        }
        rig.pass_ms(10);
        rig.answer_renewals();
    }
    assert!((20..=40).contains(&rounds), "{rounds} times in 10 s");
}

/// What the rule keeps from being: the members make different things of one snapshot.
#[test]
fn without_the_rule_each_member_makes_what_it_has() {
    let config = Config {
        faults: Faults::NONE.with(Fault::InheritUnequal),
        ..Config::default()
    };
    let mut rig = Rig::cloned(2, 1, parents(), config);
    rig.read(0, 4096);
    rig.answer_fences();
    rig.answer_opens(|_| Version::NONE);
    let told = inherits(&mut rig);
    say(&mut rig, &told, |id| if id == store(1) { old(5) } else { old(4) });
    let made = inherits(&mut rig);
    assert_eq!(asked(&made), [(store(1), old(5)), (store(2), old(4))]);
    assert!(rig.unsettled.is_empty());
}

#[test]
fn a_full_store_keeps_its_place() {
    let mut rig = cloned(2);
    let io = rig.read(0, 4096);
    rig.answer_fences();
    rig.answer_opens(|_| Version::NONE);
    let told = inherits(&mut rig);
    say(&mut rig, &told, |_| old(5));
    let made = inherits(&mut rig);
    rig.refuse(&made[0], Refusal::NoSpace);
    assert_eq!(rig.result(io), Some(Err(IoError::NoSpace)));
    assert!(rig.calls.is_empty(), "nobody is evicted");
}

/// What the parent's owner claims.
fn claim(rig: &mut Rig, generation: u32, since: Epoch) {
    let whole = Whole {
        volume: VolumeId(5),
        generation: Generation(generation),
        members: vec![WholeMember {
            group: GroupIndex(0),
            store: store(3),
            since,
        }],
    };
    let value = serde_json::to_vec(&whole).unwrap();
    rig.metadata
        .txn(&Call::put(map::whole_key(PoolId(1), VolumeId(5)), value))
        .unwrap();
}

/// The clone is open, with its first chunk made at 2:5; store 3 has entered.
fn entered(faults: Faults) -> Rig {
    let config = Config {
        faults,
        ..Config::default()
    };
    let mut rig = Rig::cloned(2, 1, parents(), config);
    rig.read(0, 4096);
    rig.answer_fences();
    rig.answer_opens(|_| old(5));
    rig.answer_reads(old(5));
    rig.up(3);
    rig.list_syncing(3);
    rig.answer_fences();
    rig
}

fn lists(rig: &mut Rig) -> usize {
    rig.take(|_, body| matches!(body, RequestBody::Chunks(_))).len()
}

#[test]
fn parents_first() {
    let mut rig = entered(Faults::NONE);
    assert_eq!(lists(&mut rig), 0, "nothing is compared yet");
    // Nobody claims it; then somebody does who did not know the snapshot; then for another time; and at last rightly.
    let since = rig.group(0).syncing[0].since;
    rig.do_call();
    for (generation, since) in [(1, since), (2, Epoch(since.0 - 1))] {
        claim(&mut rig, generation, since);
        rig.pass_ms(700);
        rig.do_call();
        assert_eq!(lists(&mut rig), 0);
    }
    claim(&mut rig, 2, since);
    rig.pass_ms(400);
    rig.do_call();
    assert!(lists(&mut rig) > 0, "now it may begin");
    assert!(entered(Faults::NONE.with(Fault::ParentsLast)).calls.is_empty());
}

#[test]
fn who_comes_back_makes_it_first() {
    let mut rig = entered(Faults::NONE);
    let since = rig.group(0).syncing[0].since;
    claim(&mut rig, 2, since);
    rig.pass_ms(400);
    rig.do_call();
    rig.answer_chunks(|_| {
        vec![ChunkState {
            chunk: ChunkIndex(0),
            version: old(5),
            incomplete: None,
        }]
    });
    assert_eq!(
        rig.wholes.len(),
        1,
        "all hold the same, and what nobody holds is inherited"
    );
    // Another chunk is used for the first time.
    let io = rig.read(CHUNK_BYTES, 4096);
    rig.answer_opens(|_| Version::NONE);
    let told = inherits(&mut rig);
    assert_eq!(asked(&told).len(), 2, "only those in sync say what it is");
    say(&mut rig, &told, |_| old(8));
    let first = inherits(&mut rig);
    assert_eq!(asked(&first), [(store(3), old(8))]);
    rig.done(&first);
    let then = inherits(&mut rig);
    assert_eq!(asked(&then), [(store(1), old(8)), (store(2), old(8))]);
    rig.done(&then);
    rig.answer_reads(old(8));
    assert_eq!(rig.result(io), Some(Ok(())));
    // And before it joins a history it is asked to once more: it may have been away.
    rig.write(0, &BLOCK);
    let sent = rig.sent_to(3);
    assert!(
        matches!(&sent[..], [one, two, ..] if matches!(&one.body, RequestBody::Inherit(inherit) if inherit.version == InheritRequest::ANY)
            && matches!(two.body, RequestBody::Join(_))),
        "{sent:?}"
    );
    rig.accept(&sent[1], AnswerBody::Joined(JoinedAnswer { incomplete: None }));
    assert!(GENERATION > Generation(2));
}

/// Store 3 comes back, and has lost a leaf of the parent. It is not in sync: those that are have what was asked for.
#[test]
fn who_comes_back_without_what_the_parent_has_gives_nobody_an_error() {
    let mut rig = Rig::cloned(2, 2, parents(), Config::default());
    rig.read(0, 4096);
    rig.answer_fences();
    rig.answer_opens(|_| old(5));
    rig.answer_reads(old(5));
    rig.up(3);
    rig.list_syncing(3);
    rig.answer_fences();
    let since = rig.group(0).syncing[0].since;
    claim(&mut rig, 2, since);
    rig.pass_ms(400);
    rig.do_call();
    rig.answer_chunks(|_| {
        vec![ChunkState {
            chunk: ChunkIndex(0),
            version: old(5),
            incomplete: None,
        }]
    });
    let io = rig.read(CHUNK_BYTES, 4096);
    rig.answer_opens(|_| Version::NONE);
    let told = inherits(&mut rig);
    say(&mut rig, &told, |_| old(8));
    let first = inherits(&mut rig);
    assert_eq!(asked(&first), [(store(3), old(8))]);
    rig.refuse(&first[0], Refusal::Damaged { block: BlockIndex(0) });
    assert_eq!(rig.result(io), None, "two intact copies are in sync");
    // It leaves, and the others go on without it.
    rig.do_call();
    assert!(rig.group(0).syncing.is_empty() && rig.group(0).in_sync.len() == 2);
    rig.answer_fences();
    rig.pass_ms(100);
    rig.answer_opens(|_| Version::NONE);
    let told = inherits(&mut rig);
    say(&mut rig, &told, |_| old(8));
    let made = inherits(&mut rig);
    assert_eq!(asked(&made), [(store(1), old(8)), (store(2), old(8))]);
    rig.done(&made);
    rig.answer_reads(old(8));
    assert_eq!(rig.result(io), Some(Ok(())));
}

/// All hold the first chunk, and nothing else.
fn only_the_first(rig: &mut Rig) {
    rig.answer_chunks(|_| {
        vec![ChunkState {
            chunk: ChunkIndex(0),
            version: old(5),
            incomplete: None,
        }]
    });
}

/// The second chunk is used for the first time, and what the members in sync say of it is the same.
fn touched(rig: &mut Rig) -> IoId {
    let io = rig.read(CHUNK_BYTES, 4096);
    rig.answer_opens(|_| Version::NONE);
    let told = inherits(rig);
    assert_eq!(asked(&told), [(store(1), Version::NONE), (store(2), Version::NONE)]);
    say(rig, &told, |_| old(8));
    io
}

/// The members in sync make the second chunk, though store 3 has not, and it is read.
fn made_without_it(rig: &mut Rig, io: IoId) {
    let made = inherits(rig);
    assert_eq!(asked(&made), [(store(1), old(8)), (store(2), old(8))]);
    rig.done(&made);
    rig.answer_reads(old(8));
    assert_eq!(rig.result(io), Some(Ok(())));
    assert!(rig.calls.is_empty(), "nobody leaves");
}

/// Store 3 is brought up to date, and cannot make a chunk just then: it is busy, or lacks what the parent's next owner has rolled forward.
/// The others go on, and it is not called whole before the chunk was compared, though the lists say nothing of it.
#[test]
fn who_comes_back_and_cannot_make_it_is_passed_over() {
    let what = Problem::Version;
    for refusal in [Refusal::Busy, Refusal::Incomplete, Refusal::Invalid { what }] {
        let mut rig = entered(Faults::NONE);
        let since = rig.group(0).syncing[0].since;
        claim(&mut rig, 2, since);
        rig.pass_ms(400);
        rig.do_call();
        let io = touched(&mut rig);
        let first = inherits(&mut rig);
        assert_eq!(asked(&first), [(store(3), old(8))]);
        rig.refuse(&first[0], refusal);
        made_without_it(&mut rig, io);
        only_the_first(&mut rig);
        rig.pass_ms(20);
        assert!(rig.wholes.is_empty(), "it lacks a chunk");
        let sent = rig.sent_to(3);
        let joins = |request: &Request| matches!(request.body, RequestBody::Join(_));
        assert!(sent.iter().any(joins), "{sent:?}");
    }
}

/// The same where its link has broken: what is claimed for the parent is heard of only then.
#[test]
fn who_comes_back_and_is_away_for_a_moment_is_passed_over() {
    let mut rig = entered(Faults::NONE);
    let since = rig.group(0).syncing[0].since;
    claim(&mut rig, 2, since);
    rig.down(3);
    let read = rig.read(CHUNK_BYTES, 4096);
    rig.answer_opens(|_| Version::NONE);
    let told = inherits(&mut rig);
    rig.pass_ms(400);
    rig.do_call();
    say(&mut rig, &told, |_| old(8));
    assert!(rig.sent_to(3).is_empty());
    made_without_it(&mut rig, read);
    // Nor does another one wait for it.
    let io = rig.read(2 * CHUNK_BYTES, 4096);
    rig.answer_opens(|_| Version::NONE);
    let told = inherits(&mut rig);
    say(&mut rig, &told, |_| old(8));
    made_without_it(&mut rig, io);
    // It is back, and the lists have both.
    rig.up(3);
    rig.answer_fences();
    rig.pass_ms(20);
    assert!(lists(&mut rig) > 0 && rig.wholes.is_empty());
}

/// Store 3 was called whole. Nobody will bring it anything more, so what it has not made nobody has.
#[test]
fn who_is_called_whole_is_not_passed_over() {
    let mut rig = entered(Faults::NONE);
    let since = rig.group(0).syncing[0].since;
    claim(&mut rig, 2, since);
    rig.pass_ms(400);
    rig.do_call();
    only_the_first(&mut rig);
    assert_eq!(rig.wholes.len(), 1);
    // It is busy when it is to make one.
    rig.write(0, &BLOCK);
    let joins = rig.take(|_, body| matches!(body, RequestBody::Join(_)));
    rig.read(CHUNK_BYTES, 4096);
    rig.answer_opens(|_| Version::NONE);
    let told = rig.take(|to, body| to != store(3) && matches!(body, RequestBody::Inherit(_)));
    rig.refuse(&joins[0], Refusal::Busy);
    say(&mut rig, &told, |_| old(8));
    let makes = |_: StoreId, body: &RequestBody| matches!(body, RequestBody::Inherit(one) if one.version == old(8));
    assert!(rig.take(makes).is_empty());
    rig.pass_ms(20);
    rig.answer_opens(|_| Version::NONE);
    let told = rig.take(|to, body| to != store(3) && matches!(body, RequestBody::Inherit(_)));
    say(&mut rig, &told, |_| old(8));
    assert_eq!(asked(&rig.take(makes)), [(store(3), old(8))]);
    // It is away: no chunk is opened before it is back, or lost.
    rig.down(3);
    rig.read(3 * CHUNK_BYTES, 4096);
    let opens = |_: StoreId, body: &RequestBody| matches!(body, RequestBody::Open(_));
    assert!(rig.take(opens).is_empty());
    rig.up(3);
    rig.answer_fences();
    assert_eq!(rig.take(opens).len(), 4);
}

/// Time passes, in which the stores and the metadata answer: how often the latter was asked.
fn calls_in(rig: &mut Rig, ms: u64) -> usize {
    let mut calls = 0;
    for _ in 0..ms / 100 {
        rig.pass_ms(100);
        rig.answer_renewals();
        while !rig.calls.is_empty() {
            rig.do_call();
            calls += 1;
        }
    }
    calls
}

#[test]
fn a_parent_that_takes_long_is_asked_after_less_and_less_often() {
    let mut rig = entered(Faults::NONE);
    rig.takes_back = true;
    let since = rig.group(0).syncing[0].since;
    let calls = calls_in(&mut rig, 60_000);
    assert!((8..=14).contains(&calls), "{calls} times in a minute");
    // A claim comes, though not the one that is waited for: the parent's owner is at work.
    claim(&mut rig, 2, Epoch(since.0 - 1));
    let calls = calls_in(&mut rig, 12_000);
    assert!(calls > 2, "{calls} times since it has said something");
    claim(&mut rig, 2, since);
    let begins = (0..110).any(|_| {
        calls_in(&mut rig, 100);
        lists(&mut rig) > 0
    });
    assert!(begins);
}

#[test]
fn nothing_more_is_asked_while_the_metadata_has_not_answered() {
    let mut rig = entered(Faults::NONE);
    rig.takes_back = true;
    for _ in 0..10 {
        assert_eq!(rig.calls.len(), 1);
        rig.pass_ms(500);
        rig.answer_renewals();
    }
    rig.do_call();
    rig.pass_ms(150);
    assert!(rig.calls.is_empty(), "the pause begins with the answer");
    rig.pass_ms(200);
    assert_eq!(rig.calls.len(), 1);
}

/// Parents that have left the record are asked for nothing any more, and what was under way about them begins anew (S13).
#[test]
fn parents_that_have_left_are_named_no_more() {
    let mut rig = cloned(2);
    let io = rig.read(0, 4096);
    rig.answer_fences();
    rig.answer_opens(|_| Version::NONE);
    assert_eq!(inherits(&mut rig).len(), 2);
    let shed = |rig: &mut Rig, parents: &[Parent]| {
        rig.sequencer.shed_parents(rig.now, parents);
        rig.collect();
    };
    // An older record, or one that cannot be this one's, says nothing.
    shed(&mut rig, &parents());
    shed(&mut rig, &parents()[1..]);
    assert!(rig.take(|_, body| matches!(body, RequestBody::Open(_))).is_empty());
    shed(&mut rig, &parents()[..1]);
    rig.answer_opens(|_| Version::NONE);
    let told = inherits(&mut rig);
    let named = |request: &Request| match &request.body {
        RequestBody::Inherit(inherit) => inherit.parents == [(VolumeId(5), SnapshotId(3))],
        _ => false,
    };
    assert!(told.len() == 2 && told.iter().all(named), "{told:?}");
    // An opening that waits for the parent's owner goes on without.
    say(&mut rig, &told, |id| if id == store(1) { old(5) } else { old(4) });
    assert_eq!(rig.unsettled, [ChunkIndex(0)]);
    shed(&mut rig, &[]);
    rig.answer_opens(|_| Version::NONE);
    assert!(inherits(&mut rig).is_empty());
    rig.answer_reads(Version::NONE);
    assert_eq!(rig.result(io), Some(Ok(())));
}

/// A snapshot that stands again in older records, and that stores have trimmed: nobody has what the clone is to be made of. The stores are
/// well, and other volumes need them.
#[test]
fn what_stores_have_trimmed_is_an_error_of_the_clone_and_evicts_nobody() {
    let ask = |rig: &mut Rig| {
        rig.answer_opens(|_| Version::NONE);
        let told = inherits(rig);
        assert_eq!(told.len(), 2);
        let what = Problem::Snapshot;
        rig.refuse(&told[0], Refusal::Invalid { what });
        rig.accept(&told[1], AnswerBody::Opened(OpenedAnswer::NOTHING));
    };
    let mut rig = cloned(2);
    let io = rig.read(0, 4096);
    rig.answer_fences();
    let mut waited = 0;
    loop {
        ask(&mut rig);
        if rig.result(io).is_some() {
            break;
        }
        rig.pass_ms(500);
        rig.answer_renewals();
        waited += 500;
        assert!(waited <= 20_000, "it waits for ever");
    }
    assert_eq!((waited, rig.result(io)), (20_000, Some(Err(IoError::Damaged))));
    assert!(rig.calls.is_empty(), "nobody is evicted");
    assert!(rig.unsettled.is_empty(), "the parent's owner cannot help");
    let is_told =
        |warning: &Warning| matches!(warning, Warning::NotKept { parents, .. } if parents.contains("of volume 5"));
    assert!(rig.warnings.iter().any(is_told), "{:?}", rig.warnings);
    // The parents were about to leave the record: what waits goes on without them.
    let later = rig.read(0, 4096);
    ask(&mut rig);
    assert_eq!(rig.result(later), None);
    rig.sequencer.shed_parents(rig.now, &[]);
    rig.collect();
    rig.answer_opens(|_| old(5));
    rig.answer_reads(old(5));
    assert_eq!(rig.result(later), Some(Ok(())));
}
