//! Members that are behind are rolled forward from state to state (S5, R8).

use super::rig::{Rig, old, store, version};
use crate::{Config, IoId};
use amita_types::io::IoError;
use amita_types::message::{
    AnswerBody, Change, ChangesAnswer, ChangesRequest, Problem, ReadRequest, Refusal, Request, RequestBody,
    RollRequest, StateInfo, StatesAnswer, StatesRequest,
};
use amita_types::{BlockIndex, SnapshotId, Version};

const ONE: SnapshotId = SnapshotId(1);
const TWO: SnapshotId = SnapshotId(2);

fn cleared(block: u16, version: Version) -> Change {
    Change {
        block: BlockIndex(block),
        version,
        sum: None,
    }
}

/// The chunk at that version, for the snapshots up to `to`.
fn state(above: u32, to: u32, version: Version) -> StateInfo {
    StateInfo {
        above: SnapshotId(above),
        to: SnapshotId(to),
        version,
        open: false,
        mark: false,
    }
}

/// The source is asked for its states above this snapshot, and has these.
fn list_states(rig: &mut Rig, above: u32, states: &[StateInfo], more: Option<SnapshotId>) -> Request {
    let asked = rig.take(|_, body| matches!(body, RequestBody::States(_)));
    assert_eq!(asked.len(), 1, "one member is asked");
    assert!(matches!(asked[0].body, RequestBody::States(StatesRequest { from, .. }) if from.0 == above));
    let answer = StatesAnswer {
        number: TWO,
        born: SnapshotId::HEAD,
        states: states.to_vec(),
        more,
    };
    rig.accept(&asked[0], AnswerBody::States(answer));
    asked[0].clone()
}

/// The one question for entries that was asked: as of which snapshot, and above which version.
fn listing(rig: &mut Rig) -> (Request, u32, Version) {
    let mut asked = rig.take(|_, body| matches!(body, RequestBody::Changes(_)));
    assert_eq!(asked.len(), 1, "one member is asked for its entries");
    let asked = asked.remove(0);
    let RequestBody::Changes(ChangesRequest { since, .. }) = asked.body else {
        unreachable!("taken so")
    };
    let at = asked.scope.snapshot.0;
    (asked, at, since)
}

/// The source lists a block, and the target gets it: to which version, and by which number.
fn roll(rig: &mut Rig, asked: &Request, entry: Change) -> (Request, Version, u32) {
    let entries = vec![entry];
    rig.accept(asked, AnswerBody::Changes(ChangesAnswer { entries, more: None }));
    let mut rolls = rig.take(|_, body| matches!(body, RequestBody::Roll(_)));
    assert_eq!(rolls.len(), 1);
    let sent = rolls.remove(0);
    let RequestBody::Roll(RollRequest { version, .. }) = sent.body else {
        unreachable!("taken so")
    };
    rig.accept(&sent, AnswerBody::Done);
    let number = sent.scope.snapshot.0;
    (sent, version, number)
}

fn open_at(rig: &mut Rig, one: (Version, u32), two: (Version, u32)) {
    rig.answer_opens_at(|id| {
        let (version, number) = if id == store(1) { one } else { two };
        (version, SnapshotId(number))
    });
}

/// Two members, and none can be spared; a read that waits for its chunk, which member 2 has at an older version and number.
fn behind() -> (Rig, IoId) {
    let mut rig = Rig::numbered(2, 2, TWO, Config::default());
    let read = rig.read(0, 4096);
    rig.answer_fences();
    open_at(&mut rig, (old(9), 2), (old(5), 0));
    (rig, read)
}

/// Its block has rotted under the write of a part of it, which it refuses, and all that follows.
#[test]
fn what_a_member_refuses_comes_with_its_state() {
    let mut rig = Rig::open(2, 2);
    let before = rig.write(100, &[1; 50]);
    rig.sequencer.adopt_number(rig.now, ONE);
    rig.collect();
    let after = rig.write(8192, &[2; 4096]);
    rig.sequencer.release_number(rig.now, ONE);
    rig.collect();
    let (one, two) = (rig.writes(1), rig.writes(2));
    rig.done(&one);
    rig.refuse(&two[0], Refusal::Damaged { block: BlockIndex(0) });
    rig.refuse(&two[1], Refusal::WrongPredecessor { current: old(5) });
    // It is opened once more.
    open_at(&mut rig, (version(7), 1), (old(5), 0));
    let states = [state(0, 1, version(6))];
    list_states(&mut rig, 0, &states, None);
    let (asked, at, since) = listing(&mut rig);
    assert_eq!((at, since), (1, old(5)), "what snapshot 1 has");
    let (_, to, number) = roll(&mut rig, &asked, cleared(0, version(6)));
    assert_eq!((to, number), (version(6), 0), "it makes no state of it yet");
    assert_eq!(rig.result(before), None);
    // Whoever begins again here finds it at a version of the one history.
    open_at(&mut rig, (version(7), 1), (version(6), 0));
    list_states(&mut rig, 0, &states, None);
    let (asked, at, since) = listing(&mut rig);
    assert_eq!((at, since), (0, version(6)));
    let (_, to, number) = roll(&mut rig, &asked, cleared(2, version(7)));
    assert_eq!((to, number), (version(7), 1), "now it does");
    rig.do_call();
    assert_eq!(rig.result(before), Some(Ok(())));
    assert_eq!(rig.result(after), Some(Ok(())));
    assert_eq!(rig.settled, [ONE], "all have the same for it");
}

#[test]
fn states_are_passed_one_by_one() {
    let (mut rig, read) = behind();
    let mut mark = state(0, 1, old(5));
    mark.mark = true;
    // A page of what the member has; and that of which only the version is left.
    list_states(&mut rig, 0, &[mark], Some(ONE));
    list_states(&mut rig, 1, &[state(1, 2, old(7))], None);
    let (asked, at, since) = listing(&mut rig);
    assert_eq!((at, since), (2, old(5)));
    let entry = Change {
        sum: Some(amita_types::crc32c(&[3; 4096])),
        ..cleared(0, old(7))
    };
    let entries = vec![entry];
    rig.accept(&asked, AnswerBody::Changes(ChangesAnswer { entries, more: None }));
    let fetch = rig.reads();
    assert_eq!(fetch[0].scope.snapshot, TWO, "from the state, and not from the chunk");
    assert!(matches!(fetch[0].body, RequestBody::Read(ReadRequest { least, .. }) if least == old(7)));
    rig.answer_blocks(&fetch[0], old(7), 3);
    let rolls = rig.take(|_, body| matches!(body, RequestBody::Roll(_)));
    assert_eq!(rolls[0].scope.snapshot, ONE, "the number of the state's version");
    assert!(matches!(rolls[0].body, RequestBody::Roll(RollRequest { version, .. }) if version == old(7)));
    rig.accept(&rolls[0], AnswerBody::Done);
    open_at(&mut rig, (old(9), 2), (old(7), 1));
    list_states(&mut rig, 1, &[state(1, 2, old(7))], None);
    let (asked, at, since) = listing(&mut rig);
    assert_eq!((at, since), (0, old(7)));
    let (_, to, number) = roll(&mut rig, &asked, cleared(0, old(9)));
    assert_eq!((to, number), (old(9), 2));
    rig.do_call();
    rig.answer_reads(old(9));
    assert_eq!(rig.result(read), Some(Ok(())));
}

#[test]
fn a_state_that_is_deleted_meanwhile_costs_nobody_its_place() {
    let (mut rig, _) = behind();
    list_states(&mut rig, 0, &[state(0, 1, old(7))], None);
    let (asked, ..) = listing(&mut rig);
    let what = Problem::Snapshot;
    rig.refuse(&asked, Refusal::Invalid { what });
    assert!(rig.calls.is_empty() && rig.warnings.is_empty());
    open_at(&mut rig, (old(9), 2), (old(5), 0));
    list_states(&mut rig, 0, &[], None);
    let (asked, at, since) = listing(&mut rig);
    assert_eq!((at, since), (0, old(5)), "there is nothing between");
    let (_, to, number) = roll(&mut rig, &asked, cleared(0, old(9)));
    assert_eq!((to, number), (old(9), 2));
}

/// Of the chunk itself the same is so.
#[test]
fn a_state_that_nobody_has_intact_is_not_left_out() {
    let (mut rig, read) = behind();
    list_states(&mut rig, 0, &[state(0, 1, old(7))], None);
    let (asked, ..) = listing(&mut rig);
    rig.refuse(&asked, Refusal::Damaged { block: BlockIndex(0) });
    open_at(&mut rig, (old(9), 2), (old(5), 0));
    assert_eq!(rig.result(read), Some(Err(IoError::Damaged)));
}

#[test]
fn who_lacks_a_state_that_nobody_has_intact_goes_where_it_can_be_spared() {
    let mut rig = Rig::new(2, 1);
    rig.sequencer.adopt_number(rig.now, TWO);
    rig.collect();
    let read = rig.read(0, 4096);
    rig.answer_fences();
    open_at(&mut rig, (old(9), 2), (old(5), 0));
    list_states(&mut rig, 0, &[state(0, 1, old(7))], None);
    let (asked, ..) = listing(&mut rig);
    rig.refuse(&asked, Refusal::Damaged { block: BlockIndex(0) });
    open_at(&mut rig, (old(9), 2), (old(5), 0));
    rig.do_call();
    assert_eq!(rig.group(0).in_sync, [store(1)]);
    rig.answer_fences();
    open_at(&mut rig, (old(9), 2), (old(9), 2));
    rig.answer_reads(old(9));
    assert_eq!(rig.result(read), Some(Ok(())));
}

/// What no member in sync says: another one is asked, and here there is none.
#[test]
fn states_that_make_no_sense_are_not_gone_by() {
    let open = StateInfo {
        open: true,
        ..state(0, 1, old(7))
    };
    let wrong = [
        (Some(open), None),
        (Some(state(1, 1, old(7))), None),
        (Some(state(1, 3, old(7))), None),
        (None, Some(SnapshotId::HEAD)),
    ];
    for (states, more) in wrong {
        let (mut rig, read) = behind();
        list_states(&mut rig, 0, states.as_slice(), more);
        open_at(&mut rig, (old(9), 2), (old(5), 0));
        assert_eq!(rig.result(read), Some(Err(IoError::Damaged)), "{states:?}");
    }
}
