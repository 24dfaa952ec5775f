//! A member in sync lacks what it has acknowledged: what is read of it, when it goes, and when it is one like any other again (R8).

use super::rig::{CHUNK_BYTES, Rig, old, store, version};
use crate::Config;
use crate::io::Warning;
use amita_types::io::{IoError, Op, Payload};
use amita_types::message::{
    AllocationAnswer, AnswerBody, Change, ChangesAnswer, ChunkState, Refusal, Request, RequestBody, StateInfo,
    StatesAnswer,
};
use amita_types::{BlockIndex, ChunkIndex, SnapshotId, StoreId, Version};

const FIRST: SnapshotId = SnapshotId(1);
const SECOND: SnapshotId = SnapshotId(2);

fn cleared(block: u16, version: Version) -> Change {
    Change {
        block: BlockIndex(block),
        version,
        sum: None,
    }
}

/// What both have of chunk 0 in the end.
fn entries(_: StoreId) -> Vec<Change> {
    vec![cleared(0, version(6)), cleared(2, version(7))]
}

/// Two copies, and both are needed. Chunks 0 and 1 are open at 2:5; store 2 is back without a write of chunk 0 that it had answered, and
/// was caught up to 3:7.
fn caught_up(number: SnapshotId) -> Rig {
    let mut rig = match number {
        SnapshotId::HEAD => Rig::new(2, 2),
        number => Rig::numbered(2, 2, number, Config::default()),
    };
    rig.open_chunk();
    let other = rig.read(CHUNK_BYTES, 4096);
    rig.answer_opens(|_| old(5));
    rig.answer_reads(old(5));
    assert_eq!(rig.result(other), Some(Ok(())));
    let acknowledged = rig.clear(0, 4096);
    let io = rig.forget(acknowledged);
    rig.answer_opens_at(|id| match id == store(1) {
        true => (version(7), number),
        false => (old(5), SnapshotId::HEAD),
    });
    for request in rig.take(|_, body| matches!(body, RequestBody::States(_))) {
        let body = StatesAnswer {
            number,
            born: SnapshotId::HEAD,
            states: Vec::new(),
            more: None,
        };
        rig.accept(&request, AnswerBody::States(body));
    }
    let listing = rig.take(|_, body| matches!(body, RequestBody::Changes(_)));
    let entries = entries(store(1));
    rig.accept(&listing[0], AnswerBody::Changes(ChangesAnswer { entries, more: None }));
    let rolls = rig.take(|_, body| matches!(body, RequestBody::Roll(_)));
    rig.done(&rolls);
    rig.do_call();
    assert_eq!(rig.result(io), Some(Ok(())));
    let counters = rig.sequencer.counters();
    assert_eq!((counters.caught_up, counters.doubted, counters.cleared), (1, 1, 0));
    rig
}

/// Answers what a look at store 2 asks, for so long; returns what was asked for entries and states.
fn look(
    rig: &mut Rig,
    turns: u32,
    entries: impl Fn(StoreId) -> Vec<Change>,
    states: impl Fn(StoreId) -> Vec<StateInfo>,
) -> Vec<Request> {
    let mut asked = Vec::new();
    for _ in 0..turns {
        let held = |chunk, version| ChunkState {
            chunk: ChunkIndex(chunk),
            version,
            incomplete: None,
        };
        rig.answer_chunks(|_| vec![held(0, version(7)), held(1, old(5))]);
        let requests = rig.take(|_, body| {
            matches!(
                body,
                RequestBody::Open(_) | RequestBody::Changes(_) | RequestBody::States(_)
            )
        });
        for request in requests {
            match &request.body {
                RequestBody::Open(open) => {
                    let version = if open.chunk == ChunkIndex(0) {
                        version(7)
                    } else {
                        old(5)
                    };
                    rig.opened_at(&request, version);
                }
                RequestBody::Changes(changes) => {
                    let entries = match changes.chunk {
                        ChunkIndex(0) => entries(request.store),
                        _ => Vec::new(),
                    };
                    rig.accept(&request, AnswerBody::Changes(ChangesAnswer { entries, more: None }));
                    asked.push(request);
                }
                _ => {
                    let body = StatesAnswer {
                        number: SECOND,
                        born: SnapshotId::HEAD,
                        states: states(request.store),
                        more: None,
                    };
                    rig.accept(&request, AnswerBody::States(body));
                    asked.push(request);
                }
            }
        }
        rig.answer_renewals();
        rig.pass_ms(20);
    }
    asked
}

fn no_states(_: StoreId) -> Vec<StateInfo> {
    Vec::new()
}

/// The chunk was something else for the first snapshot.
fn states(version: Version) -> Vec<StateInfo> {
    vec![StateInfo {
        above: SnapshotId::HEAD,
        to: FIRST,
        version,
        open: false,
        mark: false,
    }]
}

/// Reads, and says who was asked, and for which version at least.
fn asked(rig: &mut Rig, at: SnapshotId, chunk: u64) -> Vec<(StoreId, Version)> {
    let (offset, length) = (chunk * CHUNK_BYTES, 4096);
    rig.submit_at(at, Op::Read { offset, length });
    let least = |request: Request| match request.body {
        RequestBody::Read(read) => (request.store, read.least),
        body => panic!("a read was expected, not {body:?}"),
    };
    rig.reads().into_iter().map(least).collect()
}

#[test]
fn one_in_doubt_is_read_where_no_other_can_be() {
    let mut rig = caught_up(SnapshotId::HEAD);
    for chunk in [0, 1] {
        for _ in 0..4 {
            let by = asked(&mut rig, SnapshotId::HEAD, chunk);
            assert!(matches!(by[..], [(id, _)] if id == store(1)), "{by:?}");
        }
    }
    let mut rig = caught_up(SnapshotId::HEAD);
    rig.down(1);
    assert_eq!(asked(&mut rig, SnapshotId::HEAD, 1), [(store(2), old(5))]);
    let rolled = rig.read(0, 4096);
    assert!(rig.reads().is_empty(), "what it was rolled forward in was not compared");
    rig.up(1);
    rig.answer_fences();
    let request = rig.reads().remove(0);
    assert_eq!(request.store, store(1));
    rig.answer_read(&request, version(6));
    assert_eq!(rig.result(rolled), Some(Ok(())));
}

#[test]
fn what_snapshots_have_is_not_read_from_one_in_doubt() {
    let mut rig = caught_up(SECOND);
    rig.down(1);
    assert_eq!(
        asked(&mut rig, FIRST, 1),
        [],
        "its states may end before what they must have"
    );
    let differ = Op::Differ {
        since: FIRST,
        offset: CHUNK_BYTES,
    };
    let _ = rig.submit_at(SnapshotId::HEAD, differ);
    assert!(rig.take(|_, body| matches!(body, RequestBody::Differ(_))).is_empty());
    assert_eq!(asked(&mut rig, SnapshotId::HEAD, 1), [(store(2), old(5))]);
}

#[test]
fn what_was_on_its_way_when_the_doubt_came_does_not_count() {
    let mut rig = Rig::numbered(2, 2, SECOND, Config::default());
    rig.open_chunk();
    let mut requests = Vec::new();
    let io = loop {
        let (offset, length) = (0, 4096);
        let io = rig.submit_at(FIRST, Op::Read { offset, length });
        requests.extend(rig.reads());
        if requests.last().is_some_and(|request| request.store == store(2)) {
            break io;
        }
    };
    let request = requests.pop().expect("store 2 was asked");
    rig.read(0, 4096);
    let second = rig.reads().remove(0);
    let write = rig.write(8192, &[1; 4096]);
    let (one, two) = (rig.writes(1), rig.writes(2));
    rig.done(&one);
    rig.refuse(&two[0], Refusal::WrongPredecessor { current: old(4) });
    rig.answer_read(&request, old(3));
    assert_eq!((rig.result(io), rig.result(write)), (None, None));
    let again = rig.reads();
    assert!(
        again.iter().any(|request| request.store == store(1)),
        "{again:?}, beside {second:?}"
    );
}

#[test]
fn who_lacks_nothing_is_in_doubt_no_more() {
    let mut rig = caught_up(SnapshotId::HEAD);
    let compared = look(&mut rig, 20, entries, no_states);
    assert_eq!(
        compared.len(),
        2,
        "of both, the chunk that it was rolled forward in, and once"
    );
    assert!(
        matches!(&compared[0].body, RequestBody::Changes(changes) if (changes.chunk, changes.since) == (ChunkIndex(0), Version::NONE))
    );
    assert_eq!(rig.sequencer.counters().cleared, 1);
    rig.down(1);
    assert_eq!(asked(&mut rig, SnapshotId::HEAD, 0), [(store(2), version(7))]);
    assert_eq!(rig.group(0).in_sync.len(), 2);
}

#[test]
fn who_has_something_else_is_not_read_any_more() {
    let mut rig = caught_up(SnapshotId::HEAD);
    // A block of a history that nobody else has.
    let forked = |id: StoreId| match id == store(2) {
        true => vec![cleared(0, version(6)), cleared(1, old(5)), cleared(2, version(7))],
        false => entries(id),
    };
    // It is said once, however long it stays.
    look(&mut rig, 150, forked, no_states);
    let is_it = |warning: &Warning| {
        matches!(
            warning,
            Warning::Differing {
                block: BlockIndex(1),
                ..
            }
        )
    };
    assert!(rig.warnings.iter().any(is_it));
    assert_eq!(
        (rig.sequencer.counters().cleared, rig.sequencer.counters().differing),
        (0, 1)
    );
    rig.down(1);
    assert_eq!(asked(&mut rig, SnapshotId::HEAD, 1), []);
}

#[test]
fn a_store_that_may_have_ended_is_looked_at_once_more() {
    let mut rig = caught_up(SnapshotId::HEAD);
    // It is compared, and gone for a moment before that is answered.
    let held = |chunk, version| ChunkState {
        chunk: ChunkIndex(chunk),
        version,
        incomplete: None,
    };
    rig.answer_chunks(|_| vec![held(0, version(7)), held(1, old(5))]);
    rig.down(2);
    rig.up(2);
    rig.answer_fences();
    look(&mut rig, 20, entries, no_states);
    assert_eq!(
        rig.sequencer.counters().cleared,
        0,
        "what it said before is not what it has now"
    );
    look(&mut rig, 60, entries, no_states);
    assert_eq!(rig.sequencer.counters().cleared, 1);
}

#[test]
fn states_are_compared_too() {
    let mut rig = caught_up(SECOND);
    let short = |id: StoreId| states(if id == store(2) { old(3) } else { old(4) });
    let compared = look(&mut rig, 20, entries, short);
    let of = |chunk| {
        let is_it = |request: &&Request| matches!(&request.body, RequestBody::States(states) if states.chunk == ChunkIndex(chunk));
        compared.iter().filter(is_it).count()
    };
    assert_eq!((of(0), of(1)), (2, 2), "each chunk's, of both");
    assert_eq!(rig.sequencer.counters().cleared, 0);
    // The volume itself is the same.
    rig.down(1);
    assert_eq!(asked(&mut rig, FIRST, 1), []);
    assert_eq!(asked(&mut rig, SnapshotId::HEAD, 1), [(store(2), old(5))]);

    let mut rig = caught_up(SECOND);
    look(&mut rig, 20, entries, |_| states(old(4)));
    assert_eq!(rig.sequencer.counters().cleared, 1);
    rig.down(1);
    assert_eq!(asked(&mut rig, FIRST, 1), [(store(2), old(5))]);
}

#[test]
fn what_it_lacks_besides_it_gets() {
    let mut rig = caught_up(SnapshotId::HEAD);
    let held = |chunk, version| ChunkState {
        chunk: ChunkIndex(chunk),
        version,
        incomplete: None,
    };
    rig.answer_chunks(|id| {
        let other = if id == store(1) { old(5) } else { old(3) };
        vec![held(0, version(7)), held(1, other)]
    });
    // Chunk 1 is open at 2:5, and it says that it is at 2:3.
    for _ in 0..10 {
        for request in rig.take(|_, body| matches!(body, RequestBody::Open(_) | RequestBody::Changes(_))) {
            match &request.body {
                RequestBody::Open(open) => {
                    let version = match (open.chunk, request.store == store(1)) {
                        (ChunkIndex(0), _) => version(7),
                        (_, true) => old(5),
                        (_, false) => old(3),
                    };
                    rig.opened_at(&request, version);
                }
                _ => {
                    let entries = Vec::new();
                    rig.accept(&request, AnswerBody::Changes(ChangesAnswer { entries, more: None }));
                }
            }
        }
        rig.answer_renewals();
        rig.pass_ms(20);
    }
    let rolls = rig.take(|_, body| matches!(body, RequestBody::Roll(_)));
    assert!(
        matches!(&rolls[..], [one] if one.store == store(2) && matches!(&one.body, RequestBody::Roll(roll) if roll.version == old(5))),
        "{rolls:?}"
    );
    assert_eq!(rig.sequencer.counters().caught_up, 2);
}

#[test]
fn who_is_lost_goes_before_who_is_in_doubt() {
    let mut rig = Rig::open(3, 2);
    rig.read(0, 4096);
    let request = rig.reads().remove(0);
    let (doubted, lost) = (request.store, store(request.store.0 % 3 + 1));
    rig.refuse(&request, Refusal::Behind { current: old(3) });
    // The metadata is away for a moment.
    rig.refuse_call();
    rig.down(lost.0);
    rig.lost(lost.0);
    while rig.calls.is_empty() {
        rig.pass_ms(5);
    }
    rig.do_call();
    let in_sync = rig.group(0).in_sync;
    assert!(
        in_sync.len() == 2 && in_sync.contains(&doubted) && !in_sync.contains(&lost),
        "{in_sync:?}"
    );
    rig.pass_ms(500);
    let waits = |warning: &Warning| matches!(warning, Warning::BelowMinCopies { .. });
    assert!(!rig.warnings.iter().any(waits), "nothing waits for it");
}

#[test]
fn who_is_found_behind_by_a_read_is_caught_up_where_it_is_needed() {
    let mut rig = Rig::open(2, 2);
    let io = rig.read(0, 4096);
    let request = rig.reads().remove(0);
    rig.refuse(&request, Refusal::Behind { current: old(3) });
    let other = rig.reads().remove(0);
    assert_ne!(other.store, request.store);
    rig.answer_read(&other, old(5));
    assert_eq!(rig.result(io), Some(Ok(())));
    let behind = request.store;
    rig.answer_opens(|id| if id == behind { old(3) } else { old(5) });
    let listing = rig.take(|_, body| matches!(body, RequestBody::Changes(_)));
    assert!(matches!(&listing[..], [one] if one.store == other.store), "{listing:?}");
    let entries = vec![cleared(0, old(4)), cleared(1, old(5))];
    rig.accept(&listing[0], AnswerBody::Changes(ChangesAnswer { entries, more: None }));
    let rolls = rig.take(|_, body| matches!(body, RequestBody::Roll(_)));
    assert!(matches!(&rolls[..], [one] if one.store == behind), "{rolls:?}");
    assert_eq!(rig.sequencer.counters().caught_up, 1);
}

#[test]
fn a_scrub_that_finds_a_member_behind_has_it_caught_up() {
    let mut rig = Rig::open(2, 2);
    rig.scrub();
    let mut is_found = false;
    for _ in 0..20 {
        rig.answer_chunks(|_| {
            vec![ChunkState {
                chunk: ChunkIndex(0),
                version: old(5),
                incomplete: None,
            }]
        });
        rig.answer_opens(|id| if id == store(2) && is_found { old(3) } else { old(5) });
        for request in rig.take(|_, body| matches!(body, RequestBody::Verify(_))) {
            match request.store == store(2) {
                true => {
                    is_found = true;
                    rig.refuse(&request, Refusal::Behind { current: old(3) });
                }
                false => {
                    let body = amita_types::message::VerifiedAnswer {
                        entries: Vec::new(),
                        damaged: Vec::new(),
                        more: None,
                    };
                    rig.accept(&request, AnswerBody::Verified(body));
                }
            }
        }
        rig.pass_ms(20);
    }
    let counters = rig.sequencer.counters();
    assert_eq!((counters.doubted, counters.caught_up), (1, 1));
    let listing = rig.take(|id, body| id == store(1) && matches!(body, RequestBody::Changes(_)));
    let since = |request: &Request| matches!(&request.body, RequestBody::Changes(changes) if changes.since == old(3));
    assert!(listing.iter().any(since), "{listing:?}");
}

/// A block of a W7 that nobody else has, at 2:7: it lies between what was acknowledged and what was given out.
#[test]
fn what_was_never_given_out_is_not_read() {
    let mut rig = Rig::open(2, 2);
    let io = rig.read(0, 4096);
    let request = rig.reads().remove(0);
    let write = rig.write(8192, &[1; 4096]);
    rig.answer_read(&request, old(7));
    for number in [1, 2] {
        let writes = rig.writes(number);
        rig.done(&writes);
    }
    assert_eq!((rig.result(write), rig.result(io)), (Some(Ok(())), None));
    let other = rig.reads().remove(0);
    assert_ne!(other.store, request.store);
    rig.answer_read(&other, old(5));
    assert_eq!(rig.result(io), Some(Ok(())));
}

/// The same, of which blocks it has: the answer names its version, and what a store says that does not is held as before.
#[test]
fn what_was_never_given_out_is_not_shown() {
    let mut rig = Rig::open(2, 2);
    let write = rig.write(8192, &[1; 4096]);
    let io = rig.submit(Op::Allocation { offset: 0 }, &[]);
    let answer = |blocks, version| {
        AnswerBody::Allocation(AllocationAnswer {
            allocated: Box::new([blocks; 16]),
            version,
        })
    };
    let asked = |rig: &mut Rig| rig.take(|_, body| matches!(body, RequestBody::Allocation(_))).remove(0);
    let request = asked(&mut rig);
    rig.accept(&request, answer(1, Some(old(7))));
    for number in [1, 2] {
        let writes = rig.writes(number);
        rig.done(&writes);
    }
    assert_eq!((rig.result(write), rig.result(io)), (Some(Ok(())), None));
    let other = asked(&mut rig);
    assert_ne!(other.store, request.store);
    rig.accept(&other, answer(2, Some(version(6))));
    assert_eq!(rig.payload(io), Payload::Allocation(Box::new([2; 16])));
}

#[test]
fn states_that_the_other_one_has_trimmed_are_no_doubt() {
    let mark = |version| StateInfo {
        mark: true,
        ..states(version)[0]
    };
    let more = |id: StoreId| if id == store(2) { states(old(4)) } else { Vec::new() };
    let older = |id: StoreId| vec![mark(if id == store(2) { old(3) } else { old(4) })];
    let newer = |id: StoreId| vec![mark(if id == store(2) { old(4) } else { old(3) })];
    type States<'a> = &'a dyn Fn(StoreId) -> Vec<StateInfo>;
    let cases: [(States, u64); 3] = [(&more, 1), (&older, 1), (&newer, 0)];
    for (index, (states, cleared)) in cases.into_iter().enumerate() {
        let mut rig = caught_up(SECOND);
        look(&mut rig, 20, entries, states);
        assert_eq!(rig.sequencer.counters().cleared, cleared, "case {index}");
    }
}

#[test]
fn what_is_not_alike_is_compared_again_and_nothing_else() {
    let mut rig = caught_up(SECOND);
    let short = |id: StoreId| states(if id == store(2) { old(3) } else { old(4) });
    look(&mut rig, 20, entries, short);
    let asked = look(&mut rig, 60, entries, |_| states(old(4)));
    assert_eq!(rig.sequencer.counters().cleared, 1);
    assert!(!asked.is_empty());
    let listed = rig.take(|_, body| matches!(body, RequestBody::Chunks(_)));
    assert!(listed.is_empty());
}

/// A window that is written while it is listed is listed once more, and those before it are not.
#[test]
fn a_chunk_that_is_written_is_compared_all_the_same() {
    let mut rig = caught_up(SnapshotId::HEAD);
    let (mut at, mut first, mut compared) = (version(7), true, 0);
    for _ in 0..40 {
        let held = |chunk, version| ChunkState {
            chunk: ChunkIndex(chunk),
            version,
            incomplete: None,
        };
        rig.answer_chunks(|_| vec![held(0, at), held(1, old(5))]);
        let requests = rig.take(|_, body| matches!(body, RequestBody::Open(_) | RequestBody::Changes(_)));
        for request in requests {
            match &request.body {
                RequestBody::Open(_) => rig.opened_at(&request, at),
                RequestBody::Changes(changes) => {
                    let (mut entries, mut more) = (Vec::new(), None);
                    if changes.from == BlockIndex(0) {
                        compared += 1;
                        (entries, more) = (self::entries(request.store), Some(BlockIndex(32)));
                    } else if std::mem::take(&mut first) {
                        rig.clear(40 * 4096, 4096);
                        at = version(8);
                        for number in [1, 2] {
                            let writes = rig.writes(number);
                            rig.done(&writes);
                        }
                    } else if at == version(8) && compared > 0 {
                        entries = vec![cleared(40, at)];
                    }
                    rig.accept(&request, AnswerBody::Changes(ChangesAnswer { entries, more }));
                }
                body => panic!("{body:?}"),
            }
        }
        rig.answer_renewals();
        rig.pass_ms(20);
    }
    assert_eq!((compared, rig.sequencer.counters().cleared), (2, 1));
}

/// Both have lost what they had acknowledged, and one has a block that the other has not.
#[test]
fn a_read_that_nobody_may_answer_ends() {
    let forked = |id: StoreId| match id == store(2) {
        true => vec![cleared(0, version(6)), cleared(1, old(5)), cleared(2, version(7))],
        false => entries(id),
    };
    for (refusal, error) in [
        (Refusal::Behind { current: old(5) }, IoError::Unavailable),
        (Refusal::Damaged { block: BlockIndex(0) }, IoError::Damaged),
    ] {
        let mut rig = caught_up(SnapshotId::HEAD);
        let io = rig.read(0, 4096);
        let request = rig.reads().remove(0);
        rig.refuse(&request, refusal);
        look(&mut rig, 900, forked, no_states);
        assert_eq!(rig.result(io), None, "a look may still end the doubt");
        look(&mut rig, 150, forked, no_states);
        assert_eq!(rig.result(io), Some(Err(error)));
        let said = |warning: &Warning| matches!(warning, Warning::Implausible { .. });
        assert!(rig.warnings.iter().any(said));
    }
}

/// What nothing will change is not compared five times, and said as often.
#[test]
fn two_in_doubt_that_differ_are_told_once_a_look() {
    // Of one chunk in two blocks.
    let forked = |id: StoreId| match id == store(2) {
        true => vec![cleared(0, version(5)), cleared(1, old(5)), cleared(2, version(7))],
        false => entries(id),
    };
    let mut rig = caught_up(SnapshotId::HEAD);
    rig.read(0, 4096);
    let request = rig.reads().remove(0);
    rig.refuse(&request, Refusal::Behind { current: old(5) });
    look(&mut rig, 1200, forked, no_states);
    let said = |warning: &&Warning| matches!(warning, Warning::Differing { .. });
    let times = rig.warnings.iter().filter(said).count();
    assert!(
        rig.sequencer.counters().differing > times as u64,
        "each block is counted"
    );
    assert!(
        (2..=10).contains(&times),
        "by each of the two, after 2, 4, 8 and 16 s: {times}"
    );
}

#[test]
fn behind_a_chunk_that_differs_for_good_others_are_read_again() {
    let forked = |id: StoreId| match id == store(2) {
        true => vec![cleared(0, version(6)), cleared(1, old(5)), cleared(2, version(7))],
        false => entries(id),
    };
    let mut rig = caught_up(SnapshotId::HEAD);
    rig.read(0, 4096);
    let request = rig.reads().remove(0);
    rig.refuse(&request, Refusal::Behind { current: old(5) });
    let io = rig.read(CHUNK_BYTES, 4096);
    for _ in 0..2 {
        let request = rig.reads().remove(0);
        rig.refuse(&request, Refusal::Behind { current: old(4) });
    }
    look(&mut rig, 400, forked, no_states);
    assert_eq!(rig.sequencer.counters().cleared, 0);
    rig.answer_reads(old(5));
    assert_eq!(rig.result(io), Some(Ok(())));
}

#[test]
fn who_was_looked_at_in_vain_keeps_nobody_else_waiting() {
    let mut rig = caught_up(SECOND);
    let short = |id: StoreId| states(if id == store(2) { old(3) } else { old(4) });
    // Three times four seconds, and pauses of two and four: the next one is of eight.
    look(&mut rig, 950, entries, short);
    assert_eq!(rig.sequencer.counters().cleared, 0);
    rig.read(CHUNK_BYTES, 4096);
    let request = rig.reads().remove(0);
    assert_eq!(request.store, store(1));
    rig.refuse(&request, Refusal::Behind { current: old(4) });
    look(&mut rig, 100, entries, |_| states(old(4)));
    assert_eq!(rig.sequencer.counters().cleared, 1);
    look(&mut rig, 500, entries, |_| states(old(4)));
    assert_eq!(rig.sequencer.counters().cleared, 2);
}

#[test]
fn two_in_doubt_that_have_the_same_are_read_again() {
    let mut rig = caught_up(SnapshotId::HEAD);
    let io = rig.read(0, 4096);
    let request = rig.reads().remove(0);
    rig.refuse(&request, Refusal::Behind { current: old(5) });
    look(&mut rig, 200, entries, no_states);
    assert_eq!(rig.sequencer.counters().cleared, 2);
    rig.answer_reads(version(6));
    assert_eq!(rig.result(io), Some(Ok(())));
}

#[test]
fn one_in_doubt_is_copied_from_where_no_other_can_be() {
    let mut rig = Rig::open(3, 3);
    let find_behind = |rig: &mut Rig, id: StoreId, has: Version| {
        loop {
            rig.read(0, 4096);
            let request = rig.reads().remove(0);
            if request.store == id {
                rig.refuse(&request, Refusal::Behind { current: old(3) });
                break;
            }
            rig.answer_read(&request, old(5));
        }
        rig.answer_reads(old(5));
        rig.answer_opens(|asked| if asked == id { has } else { old(5) });
        rig.answer_reads(old(5));
    };
    find_behind(&mut rig, store(1), old(5));
    find_behind(&mut rig, store(3), old(3));
    let listing = rig.take(|_, body| matches!(body, RequestBody::Changes(changes) if changes.since == old(3)));
    assert!(matches!(&listing[..], [one] if one.store == store(2)), "{listing:?}");
}

#[test]
fn who_is_lost_goes_before_who_refuses_a_write() {
    let mut rig = Rig::open(3, 2);
    rig.write(0, &[1; 4096]);
    let two = rig.writes(2);
    rig.refuse(&two[0], Refusal::WrongPredecessor { current: old(3) });
    // The metadata is away for a moment.
    rig.refuse_call();
    rig.down(3);
    rig.lost(3);
    while rig.calls.is_empty() {
        rig.pass_ms(5);
    }
    rig.do_call();
    assert_eq!(rig.group(0).in_sync, [store(1), store(2)]);
}
