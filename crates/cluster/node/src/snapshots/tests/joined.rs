//! A volume's snapshot that is one of a set (S4).

use super::*;
use amita_fabric::{Cut, CutStep};
use amita_types::SetId;
use amita_types::map::{SetState, SetVolume, SnapshotSet};

const SET: SetId = SetId(3);

impl Rig {
    /// A set of the volume and another one.
    fn with_set() -> Rig {
        let mut rig = Rig::new();
        rig.put_set(SetState::Taking);
        rig.look();
        rig
    }

    fn put_set(&mut self, state: SetState) {
        let volumes = [VOLUME, VolumeId(8)].map(|id| SetVolume {
            id,
            name: format!("v{id}"),
        });
        let set = SnapshotSet {
            id: SET,
            name: "both".to_owned(),
            asked_at: 17,
            labels: BTreeMap::new(),
            volumes: volumes.to_vec(),
            state,
        };
        self.put(map::set_key(SET), &set);
    }

    fn set(&self) -> SetState {
        let found = self.metadata.get(&map::set_key(SET)).unwrap();
        found.json::<SnapshotSet>().unwrap().state
    }

    fn ask(&mut self, tag: u64, step: CutStep) {
        let cut = Cut {
            tag,
            set: SET,
            volume: VOLUME,
            generation: OURS,
            step,
        };
        self.snapshots.asked(self.now, Asker::Here { tag }, true, &cut);
        self.collect();
    }

    fn answers(&mut self) -> Vec<(u64, CutOutcome)> {
        let tag = |asker| match asker {
            Asker::Here { tag } | Asker::Link { tag, .. } => tag,
        };
        self.answers
            .drain(..)
            .map(|(asker, outcome)| (tag(asker), outcome))
            .collect()
    }

    fn prepared() -> Rig {
        let mut rig = Rig::with_set();
        rig.say(0, Word::Required);
        rig.do_calls();
        rig
    }

    /// All cores carry the number, and hold.
    fn holding() -> Rig {
        let mut rig = Rig::prepared();
        rig.ask(1, CutStep::Adopt);
        (0..CORES).for_each(|core| rig.say(core, Word::Adopted(ONE)));
        assert_eq!(rig.answers(), [(1, CutOutcome::Adopted)]);
        rig
    }
}

#[test]
fn is_taken_in_rounds_and_sealed_when_the_set_is_ready() {
    let mut rig = Rig::with_set();
    assert_eq!(rig.orders, [Order::Require]);
    rig.say(0, Word::Required);
    rig.do_calls();
    let taking = Lineage {
        number: ONE,
        sealed: SnapshotId::HEAD,
        taking: true,
        set: Some(SET),
        ..Lineage::default()
    };
    assert_eq!(rig.lineage(), taking);
    assert_eq!(rig.snapshot(ONE).unwrap().set, Some(SET));
    assert_eq!(rig.orders.len(), 1, "no core carries it before the others are prepared");
    rig.ask(1, CutStep::Adopt);
    assert_eq!(rig.orders[1..], [Order::Adopt(ONE)]);
    rig.say(0, Word::Adopted(ONE));
    assert_eq!(rig.answers(), [], "core 1 does not carry it");
    rig.say(1, Word::Adopted(ONE));
    assert_eq!(rig.answers(), [(1, CutOutcome::Adopted)]);
    assert_eq!(rig.orders.len(), 2, "S4: it is held until the others have adopted");
    rig.ask(2, CutStep::Release);
    assert_eq!(rig.answers(), [(2, CutOutcome::Held)]);
    assert_eq!(rig.orders[2..], [Order::Release(ONE)]);
    rig.ask(3, CutStep::Settle);
    rig.say(0, Word::Settled(ONE));
    assert_eq!(rig.answers(), []);
    rig.say(1, Word::Settled(ONE));
    assert_eq!(rig.answers(), [(3, CutOutcome::Settled)]);
    rig.do_calls();
    assert_eq!(rig.lineage(), taking, "S4: ready is the seal");
    rig.put_set(SetState::Ready);
    rig.look();
    rig.do_calls();
    let sealed = Lineage {
        number: ONE,
        sealed: ONE,
        ..Lineage::default()
    };
    assert_eq!(rig.lineage(), sealed);
    assert_eq!(rig.snapshot(ONE).unwrap().state, SnapshotState::Sealed(OURS));
    assert_eq!(rig.set(), SetState::Ready, "its record is the leader's");
    rig.look();
    assert_eq!(rig.orders.len(), 3, "nothing is left to do");
}

#[test]
fn an_owner_lets_go_by_itself_and_says_so() {
    let mut rig = Rig::holding();
    rig.pass(Duration::from_millis(299));
    assert_eq!(rig.orders.len(), 2);
    rig.pass(Duration::from_millis(1));
    assert_eq!(rig.orders[2..], [Order::Release(ONE)]);
    rig.ask(2, CutStep::Release);
    assert_eq!(rig.answers(), [(2, CutOutcome::Lapsed)]);
    // Whoever leads makes it void.
    let void = SetState::Void(amita_types::map::Voided {
        why: "late".to_owned(),
        again: true,
    });
    rig.put_set(void);
    rig.look();
    rig.do_calls();
    let withdrawn = Lineage {
        number: ONE,
        ..Lineage::default()
    };
    assert_eq!(rig.lineage(), withdrawn, "the number is used up");
    assert!(rig.snapshot(ONE).is_none());
    assert!(rig.metadata.get(&map::snapshot_name_key(VOLUME, "both")).is_none());
}

#[test]
fn a_set_that_is_void_holds_nobody() {
    let void = || {
        SetState::Void(amita_types::map::Voided {
            why: "taken over".to_owned(),
            again: true,
        })
    };
    let mut prepared = Rig::prepared();
    prepared.put_set(void());
    prepared.look();
    prepared.do_calls();
    assert_eq!(prepared.orders, [Order::Require]);
    assert!(!prepared.lineage().taking && prepared.snapshot(ONE).is_none());

    let mut adopting = Rig::prepared();
    adopting.ask(1, CutStep::Adopt);
    adopting.put_set(void());
    adopting.look();
    adopting.do_calls();
    assert!(
        adopting.lineage().taking,
        "writes wait for all cores, and then for the release"
    );
    (0..CORES).for_each(|core| adopting.say(core, Word::Adopted(ONE)));
    adopting.do_calls();
    assert_eq!(adopting.orders[2..], [Order::Release(ONE)]);
    assert!(!adopting.lineage().taking);

    let mut holding = Rig::holding();
    holding.put_set(void());
    holding.look();
    holding.do_calls();
    assert_eq!(holding.orders[2..], [Order::Release(ONE)]);
    assert!(!holding.lineage().taking && holding.snapshot(ONE).is_none());
    // And the next one is taken as ever.
    holding.orders.clear();
    holding.wish("a");
    holding.look();
    holding.say(0, Word::Required);
    holding.do_calls();
    assert_eq!(holding.orders, [Order::Require, Order::Adopt(SnapshotId(2))]);
}

#[test]
fn only_who_leads_is_answered_and_by_the_right_generation() {
    let mut rig = Rig::prepared();
    let mut cut = Cut {
        tag: 1,
        set: SET,
        volume: VOLUME,
        generation: OURS,
        step: CutStep::Adopt,
    };
    rig.snapshots.asked(rig.now, Asker::Here { tag: 1 }, false, &cut);
    cut.generation = Generation(2);
    rig.snapshots.asked(rig.now, Asker::Here { tag: 2 }, true, &cut);
    (cut.generation, cut.set) = (OURS, SetId(4));
    rig.snapshots.asked(rig.now, Asker::Here { tag: 3 }, true, &cut);
    rig.collect();
    assert_eq!(rig.answers(), [1, 2, 3].map(|tag| (tag, CutOutcome::NotOwner)));
    assert_eq!(rig.orders, [Order::Require]);
    // It is lost while somebody waits.
    rig.ask(4, CutStep::Adopt);
    rig.snapshots.lost(VOLUME, OURS);
    rig.collect();
    assert_eq!(rig.answers(), [(4, CutOutcome::NotOwner)]);
}

/// The leader's watch may be quicker than the answer to the owner's own transaction.
#[test]
fn a_leader_may_ask_before_the_owner_knows_that_it_is_prepared() {
    let mut rig = Rig::with_set();
    rig.say(0, Word::Required);
    rig.ask(1, CutStep::Adopt);
    assert_eq!((rig.answers(), rig.orders.len()), (Vec::new(), 1));
    rig.do_calls();
    assert_eq!(rig.orders[1..], [Order::Adopt(ONE)]);
    (0..CORES).for_each(|core| rig.say(core, Word::Adopted(ONE)));
    assert_eq!(rig.answers(), [(1, CutOutcome::Adopted)]);
}

#[test]
fn what_cannot_be_taken_makes_the_set_void() {
    let mut rig = Rig::released("both");
    (0..CORES).for_each(|core| rig.say(core, Word::Settled(ONE)));
    rig.do_calls();
    rig.put_set(SetState::Taking);
    rig.look();
    rig.say(0, Word::Required);
    rig.do_calls();
    let SetState::Void(voided) = rig.set() else {
        panic!("a snapshot has the name")
    };
    assert!(
        voided.why.contains("has a snapshot \"both\" already") && !voided.again,
        "{voided:?}"
    );
}

#[test]
fn a_silent_leader_is_not_waited_for_for_ever() {
    let mut rig = Rig::prepared();
    rig.pass(Duration::from_secs(60));
    rig.do_calls();
    assert!(matches!(rig.set(), SetState::Void(voided) if voided.again));
    rig.look();
    rig.do_calls();
    assert!(!rig.lineage().taking && rig.snapshot(ONE).is_none());
}

/// Its first volume was deleted after all had let go: nobody asks for anything any more.
#[test]
fn a_leader_that_falls_silent_after_the_release_keeps_nobody_from_further_snapshots() {
    for settled in [false, true] {
        let mut rig = Rig::holding();
        rig.ask(2, CutStep::Release);
        if settled {
            (0..CORES).for_each(|core| rig.say(core, Word::Settled(ONE)));
        }
        rig.pass(Duration::from_secs(59));
        assert!(rig.calls.is_empty(), "a leader has its time");
        assert!(rig.snapshots.deadline().is_some());
        rig.pass(Duration::from_secs(1));
        rig.do_calls();
        assert!(
            matches!(rig.set(), SetState::Void(voided) if voided.again),
            "settled: {settled}"
        );
        rig.look();
        rig.do_calls();
        assert!(!rig.lineage().taking && rig.snapshot(ONE).is_none());
        rig.orders.clear();
        rig.wish("a");
        rig.look();
        rig.say(0, Word::Required);
        rig.do_calls();
        assert_eq!(rig.orders, [Order::Require, Order::Adopt(SnapshotId(2))]);
    }
}

/// The leader is slow, not gone: what it has decided stays, whatever an owner wanted to do meanwhile.
#[test]
fn an_owner_that_has_lost_patience_finds_the_set_decided() {
    for (settled, unknown) in [(false, false), (true, false), (true, true)] {
        let mut rig = Rig::holding();
        rig.ask(2, CutStep::Release);
        rig.ask(3, CutStep::Settle);
        if settled {
            (0..CORES).for_each(|core| rig.say(core, Word::Settled(ONE)));
        }
        rig.put_set(SetState::Ready);
        rig.pass(Duration::from_secs(60));
        match unknown {
            true => rig.lose_call(true),
            false => rig.do_calls(),
        }
        if !settled {
            (0..CORES).for_each(|core| rig.say(core, Word::Settled(ONE)));
        }
        assert_eq!(rig.set(), SetState::Ready);
        rig.look();
        rig.do_calls();
        assert_eq!(rig.snapshot(ONE).unwrap().state, SnapshotState::Sealed(OURS));
        assert!(!rig.lineage().taking);
    }
}

/// An owner that knows nothing of what it was about to do: its process has forgotten, or the call's outcome is unknown.
#[test]
fn how_an_earlier_set_has_ended_is_told_before_another_number_is_given() {
    for (state, sealed) in [(Some(SetState::Ready), ONE), (None, SnapshotId::HEAD)] {
        let mut rig = Rig::prepared();
        rig.snapshots = Snapshots::new(NodeId(1), CORES, 0x55 << 20);
        rig.orders.clear();
        match state {
            Some(state) => rig.put_set(state),
            None => drop(rig.metadata.txn(&Call {
                then: vec![Op::Delete { key: map::set_key(SET) }],
                ..Call::default()
            })),
        }
        rig.wish("a");
        rig.look();
        rig.say(0, Word::Required);
        rig.do_calls();
        rig.look();
        rig.say(0, Word::Required);
        rig.do_calls();
        let lineage = rig.lineage();
        assert_eq!((lineage.number, lineage.sealed), (SnapshotId(2), sealed));
        let before = rig.snapshot(ONE).map(|snapshot| snapshot.state);
        assert_eq!(before, (sealed == ONE).then_some(SnapshotState::Sealed(OURS)));
    }
}
