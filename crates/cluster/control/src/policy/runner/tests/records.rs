//! Records that nobody can read.

use super::*;

#[test]
fn records_that_nobody_can_read_are_left_alone() {
    let mut rig = Rig::new();
    rig.volumes(1);
    let policy = rig.of_all("p", "0 * * * *", 1);
    rig.meta.txn(&Call::put(map::policy_key("bad"), "?")).unwrap();
    rig.meta.txn(&Call::put(map::volume_key("bad"), "?")).unwrap();
    let wrong = Policy {
        id: PolicyId(77),
        name: "wrong".to_owned(),
        schedule: "whenever".to_owned(),
        ..policy.clone()
    };
    rig.put(map::policy_key("wrong"), &wrong);
    rig.at(MONDAY);
    rig.at(MONDAY + HOUR);
    assert_eq!(rig.taken.len(), 1, "the others go on");
    rig.meta.txn(&Call::put(map::policy_runs_key(policy.id), "?")).unwrap();
    rig.at(MONDAY + 2 * HOUR);
    assert_eq!(rig.taken.len(), 1, "what is not known is not guessed");
    // But it is told, once an hour.
    let told = rig.told();
    assert_eq!((told.len(), told[0].0), (1, Kind::PolicyFails), "{told:?}");
    assert!(
        told[0].1.contains("policy p does nothing") && told[0].1.contains("`amita snapshot-policy set p --resume`"),
        "{told:?}"
    );
    rig.at(MONDAY + 2 * HOUR + MINUTE);
    assert_eq!(rig.told(), []);
    rig.at(MONDAY + 3 * HOUR);
    assert_eq!(rig.told().len(), 1);
    let status = admin::policy(&rig.meta, "p", Duration::from_secs(rig.wall)).unwrap();
    assert!(status.fault.unwrap().contains("--resume"));
    assert_eq!((status.runs, status.next_at), (None, None));
    // What is known is not thrown away by it, and what is not is.
    admin::set_policy(&rig.meta, "wrong", &paused(false)).unwrap_err();
    admin::set_policy(&rig.meta, "p", &paused(false)).unwrap();
    rig.at(MONDAY + 3 * HOUR + MINUTE);
    assert_eq!(rig.told()[0].0, Kind::PolicyWorks);
    let known = rig.runs(&policy);
    assert_eq!(known.after, MONDAY + 3 * HOUR + MINUTE);
    admin::set_policy(&rig.meta, "p", &paused(false)).unwrap();
    assert_eq!(rig.runs(&policy), known);
    rig.at(MONDAY + 4 * HOUR);
    assert_eq!(rig.taken.len(), 2);
}

#[test]
fn a_second_policy_of_one_number_does_nothing_and_stops_no_other() {
    let mut rig = Rig::new();
    rig.volumes(1);
    let policy = rig.of_all("p", "0 * * * *", 5);
    let copy = Policy {
        name: "copy".to_owned(),
        ..policy.clone()
    };
    rig.put(map::policy_key("copy"), &copy);
    rig.policy("q", PolicyTarget::Volume("v1".to_owned()), "0 * * * *", 5);
    rig.at(MONDAY);
    rig.at(MONDAY + HOUR);
    assert_eq!(
        rig.names(VolumeId(1)),
        ["p-20240101T010000Z", "q-20240101T010000Z"],
        "the older one has the number"
    );
    let told = rig.told();
    assert!(
        told[0].0 == Kind::PolicyFails
            && told[0]
                .1
                .contains("policy copy does nothing: it has the number of policy p"),
        "{told:?}"
    );
    // Nor where the first one cannot be carried out.
    rig.meta.txn(&Call::put(map::policy_runs_key(policy.id), "?")).unwrap();
    rig.at(MONDAY + 2 * HOUR);
    let names = rig.names(VolumeId(1));
    assert_eq!((names.len(), &*names[2]), (3, "q-20240101T020000Z"));
}

/// What a record says may be anything; sums do not run over.
#[test]
fn figures_that_cannot_grow_stay() {
    let mut rig = Rig::new();
    rig.volumes(1);
    let policy = rig.of_all("p", "0 * * * *", 1);
    rig.at(MONDAY);
    let full = PolicyRuns {
        runs: u64::MAX,
        taken: u64::MAX,
        deleted: u64::MAX,
        missed: u64::MAX,
        untold: u64::MAX,
        ..rig.runs(&policy)
    };
    rig.put(map::policy_runs_key(policy.id), &full);
    for hour in [2, 4] {
        rig.at(MONDAY + hour * HOUR);
    }
    let runs = rig.runs(&policy);
    assert_eq!((runs.runs, runs.taken, runs.missed), (u64::MAX, u64::MAX, u64::MAX));
    assert_eq!(rig.names(VolumeId(1)).len(), 1);
}

#[test]
fn one_policy_that_cannot_be_read_hides_no_other() {
    let rig = Rig::new();
    rig.volumes(3);
    let policy = rig.of_all("p", "0 * * * *", 1);
    rig.meta.txn(&Call::put(map::policy_key("bad"), "?")).unwrap();
    rig.meta.txn(&Call::put(map::volume_key("bad"), "?")).unwrap();
    let (all, unreadable) = admin::policies(&rig.meta, Duration::from_secs(MONDAY)).unwrap();
    assert_eq!(all.len(), 1);
    assert_eq!(unreadable[0].0, map::policy_key("bad"));
    assert_eq!(admin::policy_volumes(&rig.meta, &policy).unwrap().len(), 3);
    assert_eq!(admin::retained(&rig.meta, &policy).unwrap().len(), 3);
    // Others can be made, but not over it.
    rig.policy("q", PolicyTarget::Volume("v1".to_owned()), "0 * * * *", 1);
    let again = PolicyChange {
        target: Some(PolicyTarget::Volume("v1".to_owned())),
        schedule: Some("0 * * * *".to_owned()),
        ..keeping(1)
    };
    let why = admin::create_policy(&rig.meta, "bad", &again).unwrap_err().to_string();
    assert!(why.contains("exists already"), "{why}");
    let none = admin::policy(&rig.meta, "x", Duration::ZERO).unwrap_err().to_string();
    assert!(none.contains("there are bad, p, q"), "{none}");
}
