//! The owner's hold: it begins before the number is adopted, and from when the record may say so on ends only by the metadata's word.

use super::super::Step;
use super::*;
use amita_control::admin::LONGEST_HOLD;

const HOLD: u32 = 30;
const OTHER: NodeId = NodeId(2);

impl Rig {
    /// One whose owner is asked to hold.
    fn wished_to_hold() -> Rig {
        Rig::wished_to_hold_for(HOLD)
    }

    fn wished_to_hold_for(ms: u32) -> Rig {
        let mut rig = Rig::new();
        let wish = SnapshotWish {
            volume: "v".to_owned(),
            name: "last".to_owned(),
            asked_at: 17,
            labels: BTreeMap::new(),
            refused: None,
            hold_ms: Some(ms),
        };
        rig.put(map::snapshot_wish_key(VOLUME), &wish);
        rig
    }

    /// The same, which has put the number into the record.
    fn for_a_move() -> Rig {
        let mut rig = Rig::wished_to_hold();
        rig.look();
        rig.say(0, Word::Required);
        rig.do_calls();
        assert_eq!(
            rig.orders,
            [Order::Require, Order::Hold],
            "nothing is adopted before it is drained"
        );
        rig
    }

    /// All that is older is acknowledged: the next call reads the record, and the one behind seals it.
    fn settled() -> Rig {
        let mut rig = Rig::for_a_move();
        for word in [Word::Drained, Word::Adopted(ONE), Word::Settled(ONE)] {
            (0..CORES).for_each(|core| rig.say(core, word));
        }
        assert_eq!(rig.calls.len(), 1);
        rig
    }

    fn held() -> Rig {
        let mut rig = Rig::settled();
        rig.do_calls();
        assert!(rig.record().lineage.held);
        rig
    }

    fn record(&self) -> map::Volume {
        self.metadata.get(&map::volume_key("v")).unwrap().json().unwrap()
    }

    fn lets_go(&self) -> bool {
        self.orders.contains(&Order::LetGo)
    }
}

/// What it moves to is encrypted by a key of its own.
#[test]
fn who_could_not_open_what_it_is_to_be_does_not_hold_for_it() {
    let mut rig = Rig::wished_to_hold();
    let mut record = rig.record();
    let target = map::Volume {
        id: VolumeId(8),
        name: map::moving_name(VolumeId(8)),
        ..record.clone()
    };
    rig.put(map::volume_key(&target.name), &target);
    record.lineage.moving = Some(target.id);
    rig.put(map::volume_key("v"), &record);
    rig.look_with(Ok(false));
    assert!(rig.orders.is_empty() && rig.calls.is_empty(), "they are on their way");
    rig.look_with(Err("no line of the file has it".to_owned()));
    rig.do_calls();
    assert!(
        rig.refused()
            .is_some_and(|why| why.contains("no line of the file has it"))
    );
    rig.say(0, Word::Required);
    assert!(rig.calls.is_empty() && !rig.orders.contains(&Order::Hold));
}

/// Hosts' I/O that another core has taken in is carried out for a second only (R9).
#[test]
fn nobody_holds_for_longer_than_is_borne_whatever_is_wished() {
    let mut rig = Rig::wished_to_hold_for(60_000);
    rig.look();
    rig.say(0, Word::Required);
    rig.do_calls();
    assert_eq!(rig.orders, [Order::Require, Order::Hold]);
    rig.pass(LONGEST_HOLD - Duration::from_millis(1));
    assert!(!rig.lets_go());
    rig.pass(Duration::from_millis(1));
    assert!(rig.lets_go());
}

/// The metadata fell silent before anything was said of a hold.
#[test]
fn what_was_not_said_lets_go_in_time_whatever_it_is_at() {
    let mut rig = Rig::settled();
    for step in [Step::Reading, Step::Beginning(ONE), Step::Refusing] {
        let taking = rig.snapshots.volumes.get_mut(&VOLUME).expect("it is being taken");
        assert!(!taking.may_be_said_to_hold());
        taking.step = step;
        assert!(taking.lets_go_at().is_some());
    }
    rig.pass(Duration::from_millis(HOLD.into()));
    assert!(rig.lets_go());
}

#[test]
fn nothing_of_hosts_is_under_way_on_any_core_when_the_number_is_adopted() {
    let mut rig = Rig::for_a_move();
    rig.say(0, Word::Drained);
    assert!(!rig.orders.contains(&Order::Adopt(ONE)));
    rig.say(1, Word::Drained);
    assert!(rig.orders.contains(&Order::Adopt(ONE)));
}

#[test]
fn the_transaction_that_seals_it_says_that_its_owner_holds() {
    let rig = Rig::held();
    let lineage = rig.record().lineage;
    assert_eq!((lineage.number, lineage.sealed, lineage.held), (ONE, ONE, true));
    assert!(!rig.lets_go());
}

#[test]
fn it_is_let_go_of_behind_the_record_and_not_before() {
    let mut rig = Rig::held();
    rig.pass(Duration::from_millis(HOLD.into()));
    assert!(!rig.lets_go() && rig.calls.len() == 1, "it reads the record");
    rig.do_calls();
    assert!(rig.lets_go() && !rig.record().lineage.held);
    assert_eq!(rig.record().lineage.sealed, ONE, "the snapshot stays");
}

#[test]
fn while_the_metadata_is_silent_it_holds() {
    let mut rig = Rig::held();
    rig.pass(Duration::from_millis(HOLD.into()));
    rig.lose_call(false);
    for _ in 0..50 {
        rig.pass(Duration::from_millis(100));
        if !rig.calls.is_empty() {
            rig.lose_call(false);
        }
        assert!(!rig.lets_go());
    }
    rig.pass(Duration::from_millis(100));
    rig.do_calls();
    assert!(rig.lets_go());
}

#[test]
fn a_volume_that_has_moved_is_not_let_go_of() {
    let mut rig = Rig::held();
    // The switch: the name stands for what is in the other pool.
    let moved = map::Volume {
        id: VolumeId(8),
        pool: "q".to_owned(),
        ..rig.record()
    };
    rig.put(map::volume_key("v"), &moved);
    rig.pass(Duration::from_millis(HOLD.into()));
    rig.do_calls();
    assert!(!rig.lets_go(), "what it holds goes where the volume is");
    assert_eq!(rig.record().id, VolumeId(8));
}

#[test]
fn a_switch_that_comes_before_its_word_makes_that_fail() {
    let mut rig = Rig::held();
    rig.pass(Duration::from_millis(HOLD.into()));
    // It has read the record, and is about to write it.
    let (id, call) = rig.calls.pop().unwrap();
    let reply = rig.metadata.txn(&call).unwrap();
    rig.answer(id, Ok(reply));
    let moved = map::Volume {
        id: VolumeId(8),
        ..rig.record()
    };
    rig.put(map::volume_key("v"), &moved);
    rig.do_calls();
    rig.pass(Duration::from_millis(1));
    rig.do_calls();
    assert!(!rig.lets_go());
}

#[test]
fn what_is_not_drained_in_time_is_let_go_of_at_once_and_the_snapshot_is_like_any_other() {
    let mut rig = Rig::for_a_move();
    rig.say(0, Word::Drained);
    rig.pass(Duration::from_millis(HOLD.into()));
    assert!(rig.lets_go());
    for word in [Word::Adopted(ONE), Word::Settled(ONE)] {
        (0..CORES).for_each(|core| rig.say(core, word));
    }
    rig.do_calls();
    let lineage = rig.record().lineage;
    assert_eq!((lineage.sealed, lineage.held), (ONE, false));
}

#[test]
fn where_nobody_knows_whether_the_record_says_so_it_is_read_before_it_is_let_go_of() {
    for done in [false, true] {
        let mut rig = Rig::settled();
        // The record is read, and sealed: nobody says so.
        let (id, call) = rig.calls.pop().unwrap();
        let reply = rig.metadata.txn(&call).unwrap();
        rig.answer(id, Ok(reply));
        rig.lose_call(done);
        rig.pass(Duration::from_millis(HOLD.into()));
        assert!(!rig.lets_go(), "{done}");
        rig.pass(Duration::from_millis(100));
        rig.do_calls();
        rig.pass(Duration::from_millis(100));
        rig.do_calls();
        assert!(rig.lets_go() && !rig.record().lineage.held, "{done}");
        assert_eq!(rig.record().lineage.sealed, ONE);
    }
}

#[test]
fn a_volume_that_another_one_has_taken_over_is_let_go_of() {
    let mut rig = Rig::held();
    let lineage = Lineage {
        held: false,
        ..rig.record().lineage
    };
    rig.put_volume(Generation(4), OTHER, lineage);
    rig.pass(Duration::from_millis(HOLD.into()));
    rig.do_calls();
    assert!(rig.lets_go(), "its stores refuse what it begins");
    assert_eq!(rig.record().owner, Some(OTHER));
}

#[test]
fn a_volume_that_has_moved_before_its_owner_knew_that_it_was_sealed_is_not_let_go_of() {
    let mut rig = Rig::settled();
    let (id, call) = rig.calls.pop().unwrap();
    let reply = rig.metadata.txn(&call).unwrap();
    rig.answer(id, Ok(reply));
    // It is sealed, nobody says so, and the mover is quick.
    rig.lose_call(true);
    let moved = map::Volume {
        id: VolumeId(8),
        ..rig.record()
    };
    rig.put(map::volume_key("v"), &moved);
    rig.pass(Duration::from_millis(100));
    rig.do_calls();
    rig.pass(Duration::from_millis(100));
    rig.do_calls();
    assert!(!rig.lets_go());
}
