//! Who leads no more, and what changes within a step.

use super::rules::pruning;
use super::*;

/// What somebody else does meanwhile.
type Meddling<'a> = &'a dyn Fn(&Mutex<State>);

/// Something happens right after a step has read who leads and which policies there are.
struct Meanwhile<'a> {
    meta: &'a Mutex<State>,
    what: Mutex<Option<Meddling<'a>>>,
}

impl Transact for Meanwhile<'_> {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, amita_metadata::Error> {
        let reply = self.meta.txn(call);
        if let Some(what) = self.what.lock().unwrap().take() {
            what(self.meta);
        }
        reply
    }
}

impl Rig {
    /// Something happens between what a step reads and what it does.
    fn step_while(&mut self, what: &dyn Fn(&Mutex<State>)) {
        let clock = self.clock();
        let meta = Meanwhile {
            meta: &self.meta,
            what: Mutex::new(Some(what)),
        };
        match self.runner.step(&meta, Some(NODE), clock) {
            Ok(()) | Err(AdminError::TooManyRaces { .. }) => {}
            Err(why) => panic!("{why}"),
        }
    }
}

fn depose(meta: &Mutex<State>) {
    let other = json(&serde_json::json!({"node": 9, "session": 1}));
    meta.txn(&Call::put(election_key(), other)).unwrap();
}

#[test]
fn nothing_is_deleted_or_wished_by_what_was_so_when_a_step_began() {
    let set = |change: PolicyChange| {
        move |meta: &Mutex<State>| {
            admin::set_policy(meta, "p", &change).unwrap();
        }
    };
    let (rules, pause) = (set(keeping(400)), set(paused(true)));
    let delete = |meta: &Mutex<State>| {
        admin::delete_policy(meta, "p").unwrap();
    };
    let happenings: [Meddling<'_>; 4] = [&rules, &pause, &delete, &depose];
    for (index, what) in happenings.into_iter().enumerate() {
        let (mut rig, db, _) = pruning();
        rig.step_while(what);
        assert_eq!(rig.names(db).len(), 301 - MOST_DELETED, "happening {index}");
        for _ in 0..5 {
            rig.step();
        }
        assert_eq!(rig.names(db).len(), 301 - MOST_DELETED, "happening {index}");
        let mut rig = Rig::new();
        rig.volumes(20);
        rig.of_all("p", "0 * * * *", 1);
        rig.at(MONDAY);
        rig.wall = MONDAY + HOUR;
        rig.step();
        assert_eq!(rig.wishes().len(), MOST_BEGUN);
        rig.step_while(what);
        assert_eq!(rig.wishes().len(), MOST_BEGUN, "happening {index}");
    }
}

#[test]
fn who_does_not_lead_does_nothing() {
    let mut rig = Rig::new();
    rig.volumes(3);
    let policy = rig.of_all("p", "0 * * * *", 1);
    rig.at(MONDAY);
    let before = rig.runs(&policy);
    rig.lead(NodeId(9));
    rig.wall = MONDAY + HOUR;
    rig.step();
    assert_eq!((rig.runs(&policy), rig.wishes().len()), (before, 0));
    // A suspected metadata is as good as away.
    rig.lead(NODE);
    rig.put(format!("{}x", map::suspect_prefix()), &"?");
    rig.step();
    assert!(rig.wishes().is_empty());
}

/// Somebody else leads since this node has read that it does.
struct Deposed<'a>(&'a Mutex<State>);

impl Transact for Deposed<'_> {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, amita_metadata::Error> {
        let reply = self.0.txn(call);
        if call.is_read_only() {
            let other = Call::put(election_key(), json(&serde_json::json!({"node": 9, "session": 1})));
            self.0.txn(&other)?;
        }
        reply
    }
}

#[test]
fn who_was_deposed_writes_nothing_down() {
    let mut rig = Rig::new();
    rig.volumes(3);
    let policy = rig.of_all("p", "0 * * * *", 1);
    rig.at(MONDAY);
    let before = rig.runs(&policy);
    rig.wall = MONDAY + HOUR;
    let clock = rig.clock();
    let said = rig.runner.step(&Deposed(&rig.meta), Some(NODE), clock);
    assert!(matches!(said, Err(AdminError::TooManyRaces { .. })), "{said:?}");
    assert_eq!((rig.runs(&policy), rig.wishes().len()), (before, 0));
}

/// Whoever led before has wished a snapshot, and has died; before the next one leads, the policy is paused, or deleted.
#[test]
fn what_a_dead_leader_has_wished_is_taken_back_with_its_policy() {
    for deleted in [false, true] {
        let mut rig = Rig::new();
        let db = rig.volume(1, "db");
        let other = rig.volume(2, "other");
        rig.policy("p", PolicyTarget::Volume("db".to_owned()), "0 * * * *", 5);
        rig.at(MONDAY);
        rig.silent.extend([db, other]);
        rig.wall = MONDAY + HOUR;
        rig.step();
        let now = Duration::from_secs(MONDAY);
        admin::ask_snapshot(&rig.meta, "other", "by-hand", BTreeMap::new(), now).unwrap();
        assert_eq!(rig.wishes().len(), 2);
        rig.crash();
        match deleted {
            true => drop(admin::delete_policy(&rig.meta, "p").unwrap()),
            false => drop(admin::set_policy(&rig.meta, "p", &paused(true)).unwrap()),
        }
        rig.step();
        let left: Vec<VolumeId> = rig.wishes().into_iter().map(|(volume, ..)| volume).collect();
        assert_eq!(left, [other], "what an operator wishes stays");
    }
}

/// Changes nothing.
struct Away<'a>(&'a Mutex<State>);

impl Transact for Away<'_> {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, amita_metadata::Error> {
        match call.is_read_only() {
            true => self.0.txn(call),
            false => Err(amita_metadata::Error::Unavailable {
                what: "it is away".to_owned(),
                endpoints: "nowhere".to_owned(),
            }),
        }
    }
}

#[test]
fn what_a_deleted_policy_has_wished_is_taken_back_when_the_metadata_is_there_again() {
    let mut rig = Rig::new();
    let db = rig.volume(1, "db");
    rig.policy("p", PolicyTarget::Volume("db".to_owned()), "0 * * * *", 5);
    rig.at(MONDAY);
    rig.silent.insert(db);
    rig.wall = MONDAY + HOUR;
    rig.step();
    admin::delete_policy(&rig.meta, "p").unwrap();
    let clock = rig.clock();
    let said = rig.runner.step(&Away(&rig.meta), Some(NODE), clock);
    assert!(matches!(said, Err(AdminError::Metadata(_))), "{said:?}");
    assert_eq!(rig.wishes().len(), 1);
    rig.step();
    assert!(rig.wishes().is_empty());
}

/// Clones are made all the time: whoever deletes a snapshot loses against them.
struct Cloning<'a>(&'a Mutex<State>);

impl Transact for Cloning<'_> {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, amita_metadata::Error> {
        let guard = map::counter_key("namespaces");
        let reads = call
            .then
            .iter()
            .any(|op| matches!(op, Op::Get { key } if *key == guard));
        let reply = self.0.txn(call);
        if reads {
            self.0.txn(&Call::put(guard, "1"))?;
        }
        reply
    }
}

#[test]
fn a_deletion_that_is_lost_to_others_is_done_later() {
    let (mut rig, db, policy) = pruning();
    for _ in 0..3 {
        let clock = rig.clock();
        rig.runner.step(&Cloning(&rig.meta), Some(NODE), clock).unwrap();
        assert_eq!(rig.names(db).len(), 301 - MOST_DELETED);
    }
    rig.settle();
    let last = rig.runs(&policy).last.unwrap();
    assert_eq!((rig.names(db).len(), last.failed, last.deleted), (1, 0, 300));
    // Not without end.
    let (mut rig, _, policy) = pruning();
    for _ in 0..100_000 {
        let clock = rig.clock();
        rig.runner.step(&Cloning(&rig.meta), Some(NODE), clock).unwrap();
        rig.steady += BUSY;
        if rig.runs(&policy).run.is_none() {
            break;
        }
    }
    let last = rig.runs(&policy).last.unwrap();
    assert_eq!(last.failed, 1);
    assert!(last.why[0].contains("cannot be deleted"), "{:?}", last.why);
}
