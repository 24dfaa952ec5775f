//! Verification by policies: what operators say of it, and what is told of what it found.

use super::*;
use amita_types::map::{BackupDamage, BackupPointLost, BackupVerified};

#[test]
fn a_policy_verifies_when_and_how_much_it_is_told_to() {
    let meta = prepared();
    create_backup_policy(&meta, "p", &nightly(), NOW).unwrap();
    let set = |verify: VerifyChange, now: u64| {
        let change = BackupChange {
            verify,
            ..BackupChange::default()
        };
        let set = set_backup_policy(&meta, "p", &change, NOW + Duration::from_secs(now)).unwrap();
        set.verify
            .map(|verify| (verify.schedule, verify.percent, verify.since - NOW.as_secs()))
    };
    let change = |schedule: Option<&str>, percent: Option<u32>| verifying(schedule, percent).verify;
    let of = |schedule: &str, percent, since| Some((schedule.to_owned(), percent, since));
    refused(verify_backup_policy(&meta, "p"), "--verify PATTERN");
    assert_eq!(set(change(Some("@weekly"), None), 1), of("@weekly", 5, 1));
    assert_eq!(set(change(None, Some(20)), 2), of("@weekly", 20, 1));
    assert_eq!(
        set(change(Some("@weekly"), None), 3),
        of("@weekly", 20, 1),
        "it is the one that it was"
    );
    assert_eq!(set(change(Some("@daily"), None), 4), of("@daily", 20, 4));
    assert_eq!(set(VerifyChange::default(), 5), of("@daily", 20, 4));
    // Asked for, also where one of before had dealt with more.
    let asked = || verify_backup_policy(&meta, "p").unwrap().verify.unwrap().asked;
    assert_eq!((asked(), asked()), (1, 2));
    let policy = backup_policy(&meta, "p", NOW).unwrap().policy;
    assert_eq!(policy.asked, 0, "no backup was asked for");
    let known = BackupVerified {
        runs: BackupRuns {
            asked: 7,
            ..BackupRuns::default()
        },
        ..BackupVerified::default()
    };
    let key = map::backup_verified_key(policy.id);
    meta.txn(&Call::put(key.clone(), serde_json::to_vec(&known).unwrap()))
        .unwrap();
    assert_eq!(asked(), 8);
    meta.txn(&Call::put(map::backup_verifier_key(policy.id), b"\"n1\"".to_vec()))
        .unwrap();
    refused(verify_backup_policy(&meta, "p"), "n1");
    // A backup is asked for all the same.
    run_backup_policy(&meta, "p").unwrap();
    let off = VerifyChange {
        is_off: true,
        ..VerifyChange::default()
    };
    assert_eq!(set(off, 6), None);
    // Switched on again it counts from when a node sees that, whatever was under way before; what was found is known still.
    let before = BackupVerified {
        runs: BackupRuns {
            schedule: "@daily in UTC".to_owned(),
            after: 5,
            run: Some(BackupRun {
                due: 5,
                attempts: 1,
                ..BackupRun::default()
            }),
            runs: 3,
            last: Some(BackupRun {
                failed: 1,
                ..BackupRun::default()
            }),
            ..BackupRuns::default()
        },
        rounds: 2,
        ..BackupVerified::default()
    };
    let record = || {
        let reply = meta.txn(&Call::get(key.as_str())).unwrap();
        reply.value(0).unwrap().json::<BackupVerified>().unwrap()
    };
    meta.txn(&Call::put(key.clone(), serde_json::to_vec(&before).unwrap()))
        .unwrap();
    assert_eq!(set(VerifyChange::default(), 7), None);
    assert_eq!(record(), before);
    assert_eq!(set(change(Some("@daily"), None), 8), of("@daily", 5, 8));
    let anew = record();
    assert_eq!((anew.runs.run, anew.runs.schedule.as_str()), (None, ""));
    assert_eq!(anew.runs.last, None, "what begins has not failed");
    assert_eq!((anew.runs.runs, anew.runs.failures, anew.rounds), (3, 0, 2));
    let shown = backup_policy(&meta, "p", NOW).unwrap().verification.unwrap();
    assert!(shown.late_s == 0 && !shown.is_overdue(), "{shown:?}");
    // Nor has what goes on after a pause; what is under way stays.
    let pause = |paused: bool| {
        let change = BackupChange {
            paused: Some(paused),
            ..BackupChange::default()
        };
        set_backup_policy(&meta, "p", &change, NOW).unwrap();
    };
    pause(true);
    meta.txn(&Call::put(key.clone(), serde_json::to_vec(&before).unwrap()))
        .unwrap();
    pause(false);
    let resumed = record();
    assert_eq!((resumed.runs.last, resumed.runs.run), (None, before.runs.run.clone()));
    // A program of before writes the policy without it: that is told, until an operator says what is meant.
    let mut known = backup_policy(&meta, "p", NOW).unwrap().policy;
    known.verify = None;
    let policy = map::backup_policy_key("p");
    meta.txn(&Call::put(policy, serde_json::to_vec(&known).unwrap()))
        .unwrap();
    let fact = || {
        status(&meta)
            .unwrap()
            .facts
            .into_iter()
            .find(|fact| fact.name == "backup-unverified")
    };
    assert!(fact().unwrap().text.contains("--no-verify"));
    let off = VerifyChange {
        is_off: true,
        ..VerifyChange::default()
    };
    assert_eq!(set(off, 9), None);
    assert_eq!(fact(), None);
    // Whoever deletes it leaves nothing.
    delete_backup_policy(&meta, "p").unwrap();
    assert!(meta.txn(&Call::get(key)).unwrap().value(0).is_none());
}

#[test]
fn policies_verify_where_no_program_of_before_forgets_that() {
    let meta = prepared();
    let version = |version: u32| {
        let record = map::Cluster {
            version,
            ..cluster(&meta).unwrap()
        };
        meta.txn(&Call::put(map::cluster_key(), serde_json::to_vec(&record).unwrap()))
            .unwrap();
    };
    version(map::VERIFY_SINCE - 1);
    refused(
        create_backup_policy(&meta, "p", &verifying(Some("@weekly"), None), NOW),
        "amita cluster finalize",
    );
    create_backup_policy(&meta, "p", &nightly(), NOW).unwrap();
    let set = || set_backup_policy(&meta, "p", &verifying(Some("@weekly"), None), NOW);
    refused(set(), "amita cluster finalize");
    version(map::VERIFY_SINCE);
    assert!(set().unwrap().verify.is_some());
    // What is said of it already can be changed, and taken away, whatever the version.
    version(map::VERIFY_SINCE - 1);
    assert_eq!(set().unwrap().verify.unwrap().percent, 5);
}

#[test]
fn what_a_verification_found_is_a_fact_and_a_figure() {
    let meta = prepared();
    let policy = create_backup_policy(&meta, "p", &verifying(Some("@yearly"), None), NOW).unwrap();
    let fact = |name: &str| status(&meta).unwrap().facts.into_iter().find(|fact| fact.name == name);
    let figure = || figures(&meta).unwrap().backups.remove(0).verified.unwrap();
    assert!(fact("backup-damaged").is_none());
    assert_eq!((figure().damaged, figure().ended_at), (0, Some(NOW.as_secs())));
    // Years have passed since, and nobody has the key file.
    assert!(fact("backup-unverified").unwrap().text.contains("off-site"));
    let (made, seen) = {
        let reply = meta.txn(&Call::get(map::backup_policy_key("p"))).unwrap();
        let found = reply.value(0).unwrap();
        (found.create_revision, found.mod_revision)
    };
    let claim = meta.txn(&Call::put(map::backup_verifier_key(policy.id), b"\"n1\"".to_vec()));
    let claim = claim.unwrap().revision;
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let found = BackupVerified {
        runs: BackupRuns {
            schedule: "@yearly in UTC".to_owned(),
            after: now,
            succeeded_at: Some(now),
            ..BackupRuns::default()
        },
        repository: "off-site".to_owned(),
        vault: "v".to_owned(),
        damage: vec![BackupDamage {
            object: "packs/v/1-0".to_owned(),
            why: "packs/v/1-0 is missing".to_owned(),
            found: 5,
        }],
        points_lost: vec![BackupPointLost {
            point: 9,
            name: "p/1/t".to_owned(),
            why: "packs/v/1-0 is missing".to_owned(),
        }],
        ..BackupVerified::default()
    };
    let note =
        |made, claim, revision| note_backup_verified(&meta, &policy, (made, seen), claim, revision, &found).unwrap();
    let late = note_backup_verified(&meta, &policy, (made, seen - 1), claim, 0, &found);
    assert_eq!(late.unwrap(), None, "the policy was changed since it was read");
    assert_eq!(note(made, claim + 1, 0), None, "another node has the key");
    assert_eq!(note(made + 1, claim, 0), None, "it is another policy of that name");
    let noted = note(made, claim, 0).unwrap();
    assert_eq!(note(made, claim, 0), None, "somebody has written it since");
    assert!(note(made, claim, noted).is_some());
    let damaged = fact("backup-damaged").unwrap();
    assert_eq!(damaged.objects, ["p", "off-site", "packs/v/1-0"]);
    for part in ["off-site", "packs/v/1-0 is missing", "point 9 (p/1/t) is not whole"] {
        assert!(damaged.text.contains(part), "{}", damaged.text);
    }
    assert!(fact("backup-unverified").is_none());
    // That nothing is known of points is not that they are whole.
    let mut revision = meta
        .txn(&Call::get(map::backup_verified_key(policy.id)))
        .unwrap()
        .value(0)
        .unwrap()
        .mod_revision;
    for (looked_at, owed, says) in [
        (None, false, "was not looked at yet"),
        (Some(now), true, "was not looked at yet"),
        (Some(now), false, "all points are whole"),
    ] {
        let told = BackupVerified {
            points_lost: Vec::new(),
            looked_at,
            points_owed: owed,
            ..found.clone()
        };
        revision = note_backup_verified(&meta, &policy, (made, seen), claim, revision, &told)
            .unwrap()
            .unwrap();
        let text = fact("backup-damaged").unwrap().text;
        assert!(text.contains(says), "{text}");
    }
    // Of what is counted alone nothing is named.
    let counted = BackupVerified {
        damage: Vec::new(),
        more_damage: 3,
        ..found.clone()
    };
    revision = note_backup_verified(&meta, &policy, (made, seen), claim, revision, &counted)
        .unwrap()
        .unwrap();
    let text = fact("backup-damaged").unwrap().text;
    assert!(
        text.contains("has found: 3 objects, which are not known by name; point 9"),
        "{text}"
    );
    note(made, claim, revision).unwrap();
    let of = figure();
    assert_eq!((of.damaged, of.points_lost, of.ended_at), (1, 1, Some(now)));
    // Where another repository is used now it is of the former one.
    let elsewhere = RepositoryChange {
        address: Some("/elsewhere".to_owned()),
        ..place()
    };
    add_backup_repository(&meta, "other", &elsewhere).unwrap();
    let to = |repository: &str| BackupChange {
        repository: Some(repository.to_owned()),
        ..BackupChange::default()
    };
    set_backup_policy(&meta, "p", &to("other"), NOW).unwrap();
    let former = fact("backup-damaged").unwrap();
    assert_eq!(former.objects, damaged.objects);
    for part in ["Repository off-site", "used before other"] {
        assert!(former.text.contains(part), "{}", former.text);
    }
    assert!(
        former.advice.contains("until the policy begins to verify other"),
        "{}",
        former.advice
    );
    set_backup_policy(&meta, "p", &to("off-site"), NOW).unwrap();
    // It is known still where it is verified no more, and where it is paused.
    let off = BackupChange {
        verify: VerifyChange {
            is_off: true,
            ..VerifyChange::default()
        },
        paused: Some(true),
        ..BackupChange::default()
    };
    set_backup_policy(&meta, "p", &off, NOW).unwrap();
    let advice = fact("backup-damaged").unwrap().advice;
    assert!(
        advice.contains("set p --verify PATTERN"),
        "nobody reads it again: {advice}"
    );
    assert_eq!((figure().damaged, figure().late_s), (1, None));
    assert!(fact("backup-unverified").is_none(), "an operator has said so");
    // What nobody can read is told of, and begun anew when an operator says so.
    meta.txn(&Call::put(map::backup_verified_key(policy.id), b"{".to_vec()))
        .unwrap();
    assert!(fact("backup-damaged").is_none());
    assert!(fact("backup-unverified").unwrap().text.contains("begins it anew"));
    let on = BackupChange {
        paused: Some(false),
        ..verifying(Some("@yearly"), None)
    };
    let shown = backup_policy(&meta, "p", NOW).unwrap().verification.unwrap();
    assert!(shown.fault.unwrap().contains("begins it anew"));
    set_backup_policy(&meta, "p", &on, Duration::from_secs(now)).unwrap();
    let shown = backup_policy(&meta, "p", Duration::from_secs(now))
        .unwrap()
        .verification
        .unwrap();
    assert_eq!((shown.fault, shown.record, shown.late_s), (None, None, 0));
}
