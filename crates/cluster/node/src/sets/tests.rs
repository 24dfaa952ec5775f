use super::{Effect, Sets};
use crate::control::Record;
use crate::view::View;
use amita_fabric::{Cut, CutOutcome, CutStep};
use amita_metadata::model::State as Metadata;
use amita_metadata::{Call, Error};
use amita_reactor::driver::Time;
use amita_sequencer::CallId;
use amita_types::map::{self, Lineage, SetState, SetVolume, SnapshotSet};
use amita_types::{Generation, NodeId, SetId, SnapshotId, VolumeId};
use std::collections::BTreeMap;
use std::time::Duration;

const SET: SetId = SetId(3);

/// A set of so many volumes, the first of which is open here.
struct Rig {
    metadata: Metadata,
    sets: Sets,
    now: Time,
    calls: Vec<(CallId, Call)>,
    asked: Vec<(NodeId, Cut)>,
}

fn json(record: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(record).unwrap()
}

impl Rig {
    fn new(volumes: u64) -> Rig {
        let mut rig = Rig {
            metadata: Metadata::default(),
            sets: Sets::new(0x77 << 20),
            now: Time(1_000_000_000),
            calls: Vec::new(),
            asked: Vec::new(),
        };
        let set = SnapshotSet {
            id: SET,
            name: "all".to_owned(),
            asked_at: 1,
            labels: BTreeMap::new(),
            volumes: (1..=volumes)
                .map(|id| SetVolume {
                    id: VolumeId(id),
                    name: format!("v{id}"),
                })
                .collect(),
            state: SetState::Taking,
        };
        rig.metadata.txn(&Call::put(map::set_key(SET), json(&set))).unwrap();
        (1..=volumes).for_each(|id| rig.put_volume(id, Lineage::default()));
        rig.look();
        rig
    }

    /// Volume `id` is node `id % 3`'s.
    fn put_volume(&mut self, id: u64, lineage: Lineage) {
        let volume = map::Volume {
            generation: Generation(id as u32),
            owner: Some(NodeId((id % 3) as u32)),
            lineage,
            ..map::Volume::new(VolumeId(id), &format!("v{id}"), "p", 1 << 30)
        };
        let key = map::volume_key(&volume.name);
        self.metadata.txn(&Call::put(key, json(&volume))).unwrap();
    }

    fn prepare(&mut self, id: u64) {
        let taking = Lineage {
            number: SnapshotId(1),
            sealed: SnapshotId::HEAD,
            taking: true,
            set: Some(SET),
            ..Lineage::default()
        };
        self.put_volume(id, taking);
    }

    fn prepared(volumes: u64) -> Rig {
        let mut rig = Rig::new(volumes);
        (1..=volumes).for_each(|id| rig.prepare(id));
        rig.look();
        rig
    }

    fn look(&mut self) {
        let mut view = View::default();
        for kv in self.metadata.txn(&Call::prefix(map::PREFIX)).unwrap().values(0) {
            view.apply(&Record {
                key: kv.key.clone(),
                value: Some(kv.value.clone()),
                revision: kv.mod_revision,
                created: kv.create_revision,
            });
        }
        self.sets.look(self.now, &view, |volume| volume == VolumeId(1));
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(effect) = self.sets.next_effect() {
            match effect {
                Effect::Call(id, call) => self.calls.push((id, call)),
                Effect::Ask(node, cut) => self.asked.push((node, cut)),
            }
        }
    }

    /// Answers all questions of this step, those that follow included.
    fn answer_all(&mut self, step: CutStep, outcome: CutOutcome) -> usize {
        let mut answered = 0;
        while let Some(at) = self.asked.iter().position(|(_, cut)| cut.step == step) {
            let (node, cut) = self.asked.remove(at);
            assert_eq!((cut.set, cut.generation.0), (SET, cut.volume.0 as u32));
            self.sets.answered_by(self.now, node, cut.tag, outcome);
            self.collect();
            answered += 1;
        }
        answered
    }

    fn do_calls(&mut self) {
        while let Some((id, call)) = self.calls.pop() {
            let reply = self.metadata.txn(&call).unwrap();
            assert!(self.sets.answered(self.now, id, &Ok(reply)));
            self.collect();
        }
        self.look();
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now.plus(time);
        self.sets.tick(self.now);
        self.look();
    }

    fn state(&self) -> Option<SetState> {
        let found = self.metadata.get(&map::set_key(SET))?;
        Some(found.json::<SnapshotSet>().unwrap().state)
    }
}

#[test]
fn a_set_goes_through_its_rounds_in_step() {
    let mut rig = Rig::new(3);
    assert!(rig.asked.is_empty(), "no volume is prepared");
    rig.prepare(1);
    rig.prepare(2);
    rig.look();
    assert!(rig.asked.is_empty(), "volume 3 is not");
    rig.prepare(3);
    rig.look();
    assert_eq!(rig.asked.len(), 3);
    let last = rig.asked.pop().unwrap();
    assert_eq!(rig.answer_all(CutStep::Adopt, CutOutcome::Adopted), 2);
    assert!(rig.asked.is_empty(), "S4: none lets go before all have adopted");
    rig.asked.push(last);
    rig.answer_all(CutStep::Adopt, CutOutcome::Adopted);
    assert_eq!(rig.asked.len(), 3);
    assert_eq!(rig.answer_all(CutStep::Release, CutOutcome::Held), 3);
    assert!(rig.calls.is_empty(), "S7: what is older is waited for");
    assert_eq!(rig.answer_all(CutStep::Settle, CutOutcome::Settled), 3);
    rig.do_calls();
    assert_eq!(rig.state(), Some(SetState::Ready));
    rig.pass(Duration::from_secs(1));
    assert!(rig.calls.is_empty(), "records of volumes name it");
    for id in 1..=3 {
        let sealed = Lineage {
            number: SnapshotId(1),
            sealed: SnapshotId(1),
            ..Lineage::default()
        };
        rig.put_volume(id, sealed);
    }
    rig.look();
    rig.do_calls();
    assert_eq!(rig.state(), None, "it goes when nothing needs it");
    assert!(rig.sets.deadline().is_none() && rig.sets.is_empty());
}

#[test]
fn who_has_let_go_makes_the_set_void() {
    let mut rig = Rig::prepared(2);
    rig.answer_all(CutStep::Adopt, CutOutcome::Adopted);
    let (node, cut) = rig.asked.pop().unwrap();
    rig.answer_all(CutStep::Release, CutOutcome::Held);
    rig.sets.answered_by(rig.now, node, cut.tag, CutOutcome::Lapsed);
    rig.collect();
    rig.do_calls();
    assert!(matches!(rig.state(), Some(SetState::Void(voided)) if voided.again));
    // Whoever wished it reads why; then it goes.
    (1..=2).for_each(|id| rig.put_volume(id, Lineage::default()));
    rig.pass(Duration::from_secs(2));
    assert!(rig.state().is_some());
    rig.pass(Duration::from_secs(60));
    rig.do_calls();
    assert_eq!(rig.state(), None);
}

#[test]
fn an_answer_of_another_node_or_to_another_question_does_not_count() {
    let mut rig = Rig::prepared(2);
    let (node, cut) = rig.asked[0];
    rig.sets
        .answered_by(rig.now, NodeId(node.0 + 1), cut.tag, CutOutcome::NotOwner);
    rig.sets.answered_by(rig.now, node, cut.tag + 100, CutOutcome::NotOwner);
    rig.collect();
    assert!(rig.calls.is_empty());
    rig.answer_all(CutStep::Adopt, CutOutcome::Adopted);
    assert_eq!(rig.asked.len(), 2);
}

#[test]
fn silence_makes_the_set_void() {
    for step in [CutStep::Adopt, CutStep::Release, CutStep::Settle] {
        let mut rig = Rig::prepared(2);
        if step != CutStep::Adopt {
            rig.answer_all(CutStep::Adopt, CutOutcome::Adopted);
        }
        if step == CutStep::Settle {
            rig.answer_all(CutStep::Release, CutOutcome::Held);
        }
        assert!(rig.asked.iter().all(|(_, cut)| cut.step == step));
        rig.pass(Duration::from_secs(60));
        rig.do_calls();
        assert!(matches!(rig.state(), Some(SetState::Void(_))), "{step:?}");
    }
    let mut rig = Rig::new(2);
    rig.pass(Duration::from_secs(40));
    rig.do_calls();
    assert!(
        matches!(rig.state(), Some(SetState::Void(voided)) if !voided.again && voided.why.contains("amita status"))
    );
}

/// A link that breaks takes questions and answers along. Hosts have been let go on by then, so nobody hurries; but who takes a set does not wait for
/// a minute, and nothing is void for it.
#[test]
fn who_has_not_said_that_it_has_settled_is_asked_again() {
    let settling = |volumes| {
        let mut rig = Rig::prepared(volumes);
        rig.answer_all(CutStep::Adopt, CutOutcome::Adopted);
        rig.answer_all(CutStep::Release, CutOutcome::Held);
        rig
    };
    let mut rig = settling(3);
    let (answered, settles) = rig.asked.remove(0);
    rig.sets
        .answered_by(rig.now, answered, settles.tag, CutOutcome::Settled);
    let lost: Vec<(NodeId, Cut)> = rig.asked.drain(..).collect();
    let again_after = rig.sets.deadline().unwrap().since(rig.now);
    rig.pass(again_after);
    let again = |asked: &[(NodeId, Cut)]| asked.iter().map(|(_, cut)| cut.volume).collect::<Vec<_>>();
    assert_eq!(again(&rig.asked), again(&lost), "volume 1 has settled");
    // What was asked before was given up there, which comes late; and where there is no link it is tried again.
    for (node, cut) in &lost {
        rig.sets.answered_by(rig.now, *node, cut.tag, CutOutcome::NotOwner);
    }
    for (node, cut) in rig.asked.drain(..) {
        rig.sets.unreached(rig.now, node, cut.tag);
    }
    rig.collect();
    assert!(rig.calls.is_empty());
    rig.pass(again_after);
    assert_eq!(rig.answer_all(CutStep::Settle, CutOutcome::Settled), 2);
    rig.do_calls();
    assert_eq!(rig.state(), Some(SetState::Ready));
    // An answer to what was asked before is as good as one to what is asked now.
    let mut rig = settling(2);
    let first: Vec<(NodeId, Cut)> = rig.asked.drain(..).collect();
    rig.pass(again_after);
    assert_eq!(rig.asked.len(), 2);
    for (node, cut) in first {
        rig.sets.answered_by(rig.now, node, cut.tag, CutOutcome::Settled);
    }
    rig.collect();
    rig.do_calls();
    assert_eq!(rig.state(), Some(SetState::Ready));
    // Who stays away, and from whom nobody takes over, is given up.
    let mut rig = settling(2);
    for round in 0..6 {
        assert!(rig.calls.is_empty(), "{round}");
        for (node, cut) in rig.asked.drain(..) {
            rig.sets.unreached(rig.now, node, cut.tag);
        }
        rig.collect();
        rig.pass(again_after);
    }
    rig.do_calls();
    assert!(
        matches!(rig.state(), Some(SetState::Void(voided)) if voided.again && voided.why.contains("could not be reached"))
    );
    // Before that who cannot be reached makes it void: hosts wait.
    let mut rig = Rig::prepared(2);
    let (node, cut) = rig.asked.remove(0);
    rig.sets.unreached(rig.now, node, cut.tag);
    rig.collect();
    rig.do_calls();
    assert!(matches!(rig.state(), Some(SetState::Void(voided)) if voided.again));
}

/// S4: a raise has made it void while its owner said that it had held.
#[test]
fn what_a_raise_has_made_void_stays_void() {
    let mut rig = Rig::prepared(2);
    rig.answer_all(CutStep::Adopt, CutOutcome::Adopted);
    rig.answer_all(CutStep::Release, CutOutcome::Held);
    let found = rig.metadata.get(&map::set_key(SET)).unwrap();
    let void = found.json::<SnapshotSet>().unwrap().voided("taken over", true);
    rig.metadata.txn(&Call::put(map::set_key(SET), json(&void))).unwrap();
    rig.answer_all(CutStep::Settle, CutOutcome::Settled);
    rig.do_calls();
    assert!(matches!(rig.state(), Some(SetState::Void(voided)) if voided.why == "taken over"));
}

#[test]
fn a_decision_of_unknown_outcome_is_made_again_or_found() {
    for done in [true, false] {
        let mut rig = Rig::prepared(2);
        rig.answer_all(CutStep::Adopt, CutOutcome::Adopted);
        rig.answer_all(CutStep::Release, CutOutcome::Held);
        rig.answer_all(CutStep::Settle, CutOutcome::Settled);
        let (id, call) = rig.calls.pop().unwrap();
        if done {
            rig.metadata.txn(&call).unwrap();
        }
        let unknown = Error::Unknown {
            what: "time-out".to_owned(),
            endpoint: "m".to_owned(),
        };
        assert!(rig.sets.answered(rig.now, id, &Err(unknown)));
        rig.pass(Duration::from_secs(1));
        rig.do_calls();
        assert_eq!(rig.state(), Some(SetState::Ready), "done: {done}");
    }
}

#[test]
fn few_questions_are_under_way_to_one_node() {
    let mut rig = Rig::prepared(1024);
    assert_eq!(rig.asked.len(), 3 * 64);
    assert_eq!(rig.answer_all(CutStep::Adopt, CutOutcome::Adopted), 1024);
    assert_eq!(rig.answer_all(CutStep::Release, CutOutcome::Held), 1024);
    assert_eq!(rig.answer_all(CutStep::Settle, CutOutcome::Settled), 1024);
    rig.do_calls();
    assert_eq!(rig.state(), Some(SetState::Ready));
}
