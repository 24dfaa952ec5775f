use super::{Asker, Effect, Order, Snapshots, Word};
use crate::control::Record;
use crate::view::View;
use amita_fabric::CutOutcome;
use amita_metadata::model::State as Metadata;
use amita_metadata::{Call, Error, Op};
use amita_reactor::driver::Time;
use amita_sequencer::CallId;
use amita_types::map::{self, Lineage, Snapshot, SnapshotState, SnapshotWish};
use amita_types::{ClusterId, Generation, NodeId, SnapshotId, StoreId, VolumeId};
use std::collections::BTreeMap;
use std::time::Duration;

mod hold;
mod joined;

const VOLUME: VolumeId = VolumeId(7);
const OURS: Generation = Generation(3);
const CORES: usize = 2;
const ONE: SnapshotId = SnapshotId(1);

/// Snapshots of one volume, with metadata that answers when it is asked to.
struct Rig {
    metadata: Metadata,
    snapshots: Snapshots,
    now: Time,
    orders: Vec<Order>,
    answers: Vec<(Asker, CutOutcome)>,
    calls: Vec<(CallId, Call)>,
}

fn json(record: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(record).unwrap()
}

impl Rig {
    fn new() -> Rig {
        let mut rig = Rig {
            metadata: Metadata::default(),
            snapshots: Snapshots::new(NodeId(1), CORES, 0x55 << 20),
            now: Time(1_000_000_000),
            orders: Vec::new(),
            answers: Vec::new(),
            calls: Vec::new(),
        };
        rig.put(
            map::cluster_key(),
            &map::Cluster {
                id: ClusterId(1),
                version: map::SNAPSHOTS_SINCE,
            },
        );
        rig.put_volume(OURS, NodeId(1), Lineage::default());
        rig
    }

    /// One whose volume is open here, and a snapshot wished of it.
    fn wished(name: &str) -> Rig {
        let mut rig = Rig::new();
        rig.wish(name);
        rig.look();
        rig
    }

    fn put(&mut self, key: String, record: &impl serde::Serialize) -> u64 {
        self.metadata.txn(&Call::put(key, json(record))).unwrap().revision
    }

    fn put_volume(&mut self, generation: Generation, owner: NodeId, lineage: Lineage) {
        let volume = map::Volume {
            generation,
            owner: Some(owner),
            lineage,
            ..map::Volume::new(VOLUME, "v", "p", 1 << 30)
        };
        self.put(map::volume_key("v"), &volume);
    }

    fn wish(&mut self, name: &str) {
        let wish = SnapshotWish {
            volume: "v".to_owned(),
            name: name.to_owned(),
            asked_at: 17,
            labels: BTreeMap::new(),
            refused: None,
            hold_ms: None,
        };
        self.put(map::snapshot_wish_key(VOLUME), &wish);
    }

    /// Looks at what the watch has told.
    fn look(&mut self) {
        self.look_with(Ok(true));
    }

    /// The same, where this is known of the keys of what the volume moves to.
    fn look_with(&mut self, has_keys: Result<bool, String>) {
        let mut view = View::default();
        for kv in self.metadata.txn(&Call::prefix(map::PREFIX)).unwrap().values(0) {
            view.apply(&Record {
                key: kv.key.clone(),
                value: Some(kv.value.clone()),
                revision: kv.mod_revision,
                created: kv.create_revision,
            });
        }
        let open = |volume| (volume == VOLUME).then_some(OURS);
        self.snapshots.look(self.now, &view, open, |_| has_keys.clone());
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(effect) = self.snapshots.next_effect() {
            match effect {
                Effect::Call(id, call) => self.calls.push((id, call)),
                Effect::Answer(asker, outcome) => self.answers.push((asker, outcome)),
                Effect::Order(volume, generation, order) => {
                    assert_eq!((volume, generation), (VOLUME, OURS));
                    self.orders.push(order);
                }
            }
        }
    }

    fn say(&mut self, core: usize, word: Word) {
        self.snapshots.said(VOLUME, OURS, core, word);
        self.collect();
    }

    fn answer(&mut self, id: CallId, result: Result<amita_metadata::Reply, Error>) {
        assert!(
            self.snapshots.answered(self.now, id, &result),
            "it is one of these calls"
        );
        self.collect();
    }

    /// Carries out the calls that there are, and those that follow.
    fn do_calls(&mut self) {
        while let Some((id, call)) = self.calls.pop() {
            let reply = self.metadata.txn(&call).unwrap();
            self.answer(id, Ok(reply));
        }
    }

    /// The next call is done, or not, and nobody says so.
    fn lose_call(&mut self, done: bool) {
        let (id, call) = self.calls.pop().expect("one is under way");
        if done {
            self.metadata.txn(&call).unwrap();
        }
        let error = Error::Unknown {
            what: "time-out".to_owned(),
            endpoint: "m".to_owned(),
        };
        self.answer(id, Err(error));
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now.plus(time);
        self.snapshots.tick(self.now, |_| vec![StoreId(9)]);
        self.collect();
    }

    fn lineage(&self) -> Lineage {
        let found = self.metadata.get(&map::volume_key("v")).unwrap();
        found.json::<map::Volume>().unwrap().lineage
    }

    fn snapshot(&self, number: SnapshotId) -> Option<Snapshot> {
        self.metadata.get(&map::snapshot_key(VOLUME, number))?.json().ok()
    }

    fn refused(&self) -> Option<String> {
        let found = self.metadata.get(&map::snapshot_wish_key(VOLUME))?;
        found.json::<SnapshotWish>().unwrap().refused
    }

    /// To the moment at which all cores carry the number.
    fn released(name: &str) -> Rig {
        let mut rig = Rig::wished(name);
        rig.say(0, Word::Required);
        rig.do_calls();
        for core in 0..CORES {
            rig.say(core, Word::Adopted(ONE));
        }
        rig
    }
}

#[test]
fn is_taken_step_by_step() {
    let mut rig = Rig::wished("a");
    assert_eq!(rig.orders, [Order::Require]);
    assert!(
        rig.calls.is_empty(),
        "S2: no number before all stores have adopted the generation"
    );
    rig.say(0, Word::Required);
    rig.do_calls();
    let taking = Lineage {
        number: ONE,
        sealed: SnapshotId::HEAD,
        taking: true,
        set: None,
        ..Lineage::default()
    };
    assert_eq!(
        rig.lineage(),
        taking,
        "S1: it is in the record before a write carries it"
    );
    assert_eq!(rig.snapshot(ONE).unwrap().state, SnapshotState::Taking(OURS));
    assert_eq!(rig.orders[1..], [Order::Adopt(ONE)]);
    rig.say(0, Word::Adopted(ONE));
    rig.say(0, Word::Adopted(ONE));
    assert_eq!(rig.orders.len(), 2, "S2: not before all cores carry it");
    rig.say(1, Word::Adopted(ONE));
    assert_eq!(rig.orders[2..], [Order::Release(ONE)]);
    rig.say(1, Word::Settled(ONE));
    rig.do_calls();
    assert_eq!(rig.lineage(), taking, "S7: core 0 has older writes under way");
    rig.say(0, Word::Settled(ONE));
    rig.do_calls();
    let sealed = Lineage {
        number: ONE,
        sealed: ONE,
        taking: false,
        set: None,
        ..Lineage::default()
    };
    assert_eq!(rig.lineage(), sealed);
    let snapshot = rig.snapshot(ONE).unwrap();
    assert_eq!(snapshot.state, SnapshotState::Sealed(OURS));
    assert_eq!(
        (snapshot.name.as_str(), snapshot.taken_at, snapshot.size_bytes),
        ("a", 17, 1 << 30)
    );
    assert!(
        rig.metadata.get(&map::snapshot_wish_key(VOLUME)).is_none(),
        "the wish has come true"
    );
    // The next one.
    rig.orders.clear();
    rig.wish("b");
    rig.look();
    rig.say(0, Word::Required);
    rig.do_calls();
    assert_eq!(rig.orders, [Order::Require, Order::Adopt(SnapshotId(2))]);
}

#[test]
fn what_was_done_without_an_answer_is_found_again() {
    for done in [true, false] {
        let mut rig = Rig::wished("a");
        rig.say(0, Word::Required);
        let (id, call) = rig.calls.pop().unwrap();
        let reply = rig.metadata.txn(&call).unwrap();
        rig.answer(id, Ok(reply));
        rig.lose_call(done);
        assert_eq!(rig.orders.len(), 1, "nobody knows whether the number is in the record");
        rig.pass(Duration::from_secs(1));
        rig.do_calls();
        assert_eq!(rig.orders[1..], [Order::Adopt(ONE)], "done: {done}");
        assert_eq!(rig.lineage().number, ONE);
    }
    for done in [true, false] {
        let mut rig = Rig::released("a");
        (0..CORES).for_each(|core| rig.say(core, Word::Settled(ONE)));
        let (id, call) = rig.calls.pop().unwrap();
        let reply = rig.metadata.txn(&call).unwrap();
        rig.answer(id, Ok(reply));
        rig.lose_call(done);
        rig.pass(Duration::from_secs(1));
        rig.do_calls();
        assert_eq!(rig.lineage().sealed, ONE, "done: {done}");
        assert!(rig.metadata.get(&map::snapshot_wish_key(VOLUME)).is_none());
        assert!(rig.snapshots.deadline().is_none(), "nothing is left to do");
    }
}

#[test]
fn a_deposed_owner_seals_nothing_and_the_next_one_takes_another_number() {
    let mut rig = Rig::released("a");
    (0..CORES).for_each(|core| rig.say(core, Word::Settled(ONE)));
    // The raise comes before the seal, and makes the number void.
    let void = Lineage {
        number: ONE,
        ..Lineage::default()
    };
    rig.put_volume(Generation(4), NodeId(2), void);
    rig.do_calls();
    assert_eq!(rig.lineage(), void);
    assert_eq!(rig.snapshot(ONE).unwrap().state, SnapshotState::Taking(OURS));
    assert!(
        rig.metadata.get(&map::snapshot_wish_key(VOLUME)).is_some(),
        "it is wished still"
    );
    // It comes back: by a name that the void one has.
    rig.put_volume(OURS, NodeId(1), void);
    rig.orders.clear();
    rig.pass(Duration::from_secs(2));
    rig.look();
    rig.say(0, Word::Required);
    rig.do_calls();
    assert_eq!(
        rig.orders,
        [Order::Require, Order::Adopt(SnapshotId(2))],
        "S1: never again the same"
    );
    assert!(rig.snapshot(ONE).is_none(), "the void one gives its name up");
}

#[test]
fn a_resize_in_between_is_kept() {
    let mut rig = Rig::released("a");
    (0..CORES).for_each(|core| rig.say(core, Word::Settled(ONE)));
    let (id, call) = rig.calls.pop().unwrap();
    let reply = rig.metadata.txn(&call).unwrap();
    rig.answer(id, Ok(reply));
    let key = map::volume_key("v");
    let mut grown: map::Volume = rig.metadata.get(&key).unwrap().json().unwrap();
    grown.size_bytes = 2 << 30;
    rig.put(key.clone(), &grown);
    rig.do_calls();
    assert_eq!(
        rig.lineage().sealed,
        SnapshotId::HEAD,
        "the record has changed since it was read"
    );
    rig.pass(Duration::from_secs(1));
    rig.do_calls();
    assert_eq!(rig.lineage().sealed, ONE);
    let volume: map::Volume = rig.metadata.get(&key).unwrap().json().unwrap();
    assert_eq!(volume.size_bytes, 2 << 30);
    assert_eq!(
        rig.snapshot(ONE).unwrap().size_bytes,
        1 << 30,
        "as it was when the snapshot began"
    );
}

#[test]
fn a_wish_that_cannot_be_is_answered() {
    let mut taken = Rig::released("a");
    (0..CORES).for_each(|core| taken.say(core, Word::Settled(ONE)));
    taken.do_calls();
    taken.wish("a");
    taken.look();
    taken.say(0, Word::Required);
    taken.do_calls();
    assert!(taken.refused().unwrap().contains("has a snapshot \"a\" already"));
    let orders = taken.orders.len();
    taken.look();
    assert_eq!(taken.orders.len(), orders, "it is answered");

    let mut early = Rig::wished("a");
    early.put(
        map::cluster_key(),
        &map::Cluster {
            id: ClusterId(1),
            version: 1,
        },
    );
    early.say(0, Word::Required);
    early.do_calls();
    assert!(early.refused().unwrap().contains("version is 1"));
    assert_eq!(early.lineage(), Lineage::default());

    let mut stuck = Rig::wished("a");
    stuck.pass(Duration::from_secs(30));
    stuck.do_calls();
    let why = stuck.refused().unwrap();
    assert!(why.contains(&StoreId(9).to_string()), "which store is missed: {why}");
}

#[test]
fn a_wish_that_was_taken_back_comes_to_nothing() {
    let mut rig = Rig::wished("a");
    let key = map::snapshot_wish_key(VOLUME);
    let call = Call {
        then: vec![Op::Delete { key }],
        ..Call::default()
    };
    rig.metadata.txn(&call).unwrap();
    rig.say(0, Word::Required);
    rig.do_calls();
    assert_eq!(rig.orders, [Order::Require]);
    assert_eq!(rig.lineage(), Lineage::default());
}

#[test]
fn words_of_an_older_generation_do_not_count() {
    let mut rig = Rig::wished("a");
    rig.snapshots.said(VOLUME, Generation(2), 0, Word::Required);
    rig.collect();
    assert!(rig.calls.is_empty());
    rig.snapshots.lost(VOLUME, Generation(2));
    rig.say(0, Word::Required);
    assert_eq!(rig.calls.len(), 1, "it is about an older one");
    rig.snapshots.lost(VOLUME, OURS);
    assert!(rig.snapshots.deadline().is_none());
}

/// Found by the simulator (seed 440): the second snapshot was refused because the first one had its own name already.
#[test]
fn a_wish_that_came_in_the_place_of_another_is_judged_by_its_own_name() {
    let mut rig = Rig::released("a");
    (0..CORES).for_each(|core| rig.say(core, Word::Settled(ONE)));
    rig.do_calls();
    // The watch tells of the first wish still, and the second one is there when the records are read.
    rig.wish("a");
    rig.look();
    rig.wish("b");
    rig.say(0, Word::Required);
    rig.do_calls();
    assert_eq!(rig.refused(), None);
    assert_eq!(rig.snapshot(SnapshotId(2)).unwrap().name, "b");
}

#[test]
fn a_refusal_that_may_not_have_been_heard_is_said_again() {
    for done in [true, false] {
        let mut rig = Rig::wished("a");
        rig.pass(Duration::from_secs(30));
        rig.lose_call(done);
        rig.look();
        assert_eq!(rig.orders, [Order::Require], "not at once");
        rig.pass(Duration::from_secs(2));
        rig.look();
        if done {
            assert_eq!(rig.orders, [Order::Require], "it was heard");
            continue;
        }
        assert_eq!(
            rig.orders,
            [Order::Require; 2],
            "S2 anew: stores may have answered since"
        );
        rig.say(0, Word::Required);
        rig.do_calls();
        assert_eq!(rig.orders[2..], [Order::Adopt(ONE)]);
    }
}

#[test]
fn a_wish_that_names_another_volume_than_its_key_is_refused() {
    let mut rig = Rig::new();
    let wish = SnapshotWish {
        volume: "w".to_owned(),
        name: "a".to_owned(),
        asked_at: 17,
        labels: BTreeMap::new(),
        refused: None,
        hold_ms: None,
    };
    rig.put(map::snapshot_wish_key(VOLUME), &wish);
    rig.look();
    rig.say(0, Word::Required);
    rig.do_calls();
    assert!(rig.refused().unwrap().contains("it is about volume \"w\""));
    assert_eq!(rig.lineage(), Lineage::default());
}

#[test]
fn no_snapshot_is_taken_of_what_a_volume_was_before_a_revert() {
    let mut rig = Rig::new();
    let former = Lineage {
        former_of: Some(VOLUME),
        ..Lineage::default()
    };
    rig.put_volume(OURS, NodeId(1), former);
    rig.wish("a");
    rig.look();
    rig.say(0, Word::Required);
    rig.do_calls();
    assert!(rig.refused().unwrap().contains("reverted meanwhile"));
    assert_eq!(rig.lineage(), former);
}
