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
