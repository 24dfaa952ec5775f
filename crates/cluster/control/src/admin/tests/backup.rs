//! Repositories and policies of backups: what can be, and what stays together whoever does what at the same time.

use super::*;
use amita_types::VolumeId;
use amita_types::map::{BackupRun, BackupRuns, MAX_BACKUP_REPOSITORIES, Target};
use std::time::Duration;

mod task;
mod verification;

const NOW: Duration = Duration::from_secs(1_704_067_200);

fn place() -> RepositoryChange {
    RepositoryChange {
        address: Some("/backup".to_owned()),
        key_file: Some("/etc/amita/backup.key".to_owned()),
        ..RepositoryChange::default()
    }
}

fn nightly() -> BackupChange {
    BackupChange {
        target: Some(PolicyTarget::Label {
            key: "tier".to_owned(),
            value: "gold".to_owned(),
        }),
        repository: Some("off-site".to_owned()),
        schedule: Some("0 3 * * *".to_owned()),
        keep: KeepChange {
            last: Some(3),
            ..KeepChange::default()
        },
        ..BackupChange::default()
    }
}

/// The same, which verifies its repository.
fn verifying(schedule: Option<&str>, percent: Option<u32>) -> BackupChange {
    BackupChange {
        verify: VerifyChange {
            schedule: schedule.map(str::to_owned),
            percent,
            is_off: false,
        },
        ..nightly()
    }
}

/// A cluster with a repository, and a volume.
fn prepared() -> Mutex<State> {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    create_volume(&meta, "db", "main", 4096 << 10).unwrap();
    add_backup_repository(&meta, "off-site", &place()).unwrap();
    meta
}

fn refused<T: std::fmt::Debug>(found: Result<T>, says: &str) {
    let why = found.expect_err(says).to_string();
    assert!(why.contains(says), "{says:?} is not in {why:?}");
}

#[test]
fn repositories_that_cannot_be_are_refused() {
    let meta = cluster_of(2);
    let add = |change: RepositoryChange| add_backup_repository(&meta, "r", &change);
    let text = |text: &str| Some(text.to_owned());
    refused(add_backup_repository(&meta, "a/b", &place()), "a/b");
    refused(add(RepositoryChange::default()), "needs an address");
    for (change, says) in [
        (
            RepositoryChange {
                address: text("backup"),
                ..place()
            },
            "by its whole path",
        ),
        (
            RepositoryChange {
                address: text("s3:///x"),
                ..place()
            },
            "names no bucket",
        ),
        (
            RepositoryChange {
                address: text("s3://b/x"),
                ..place()
            },
            "--s3-credentials",
        ),
        (
            RepositoryChange {
                key_file: text("key"),
                ..place()
            },
            "whole path at the nodes",
        ),
        (
            RepositoryChange {
                address: text("/a\nb"),
                ..place()
            },
            "control characters",
        ),
        (
            RepositoryChange {
                s3_endpoint: text("https://user:secret@host"),
                ..place()
            },
            "without a user",
        ),
        (
            RepositoryChange {
                vault: text("xyz"),
                ..place()
            },
            "32 hexadecimal digits",
        ),
        (
            RepositoryChange {
                lock_days: Some(3),
                ..place()
            },
            "only a bucket",
        ),
        (
            RepositoryChange {
                nodes: Some(vec!["n1".to_owned(), "n9".to_owned()]),
                ..place()
            },
            "n9",
        ),
    ] {
        refused(add(change), says);
    }
    assert!(backup_repositories(&meta).unwrap().is_empty());
    let named = RepositoryChange {
        nodes: Some(vec!["n2".to_owned(), "n1".to_owned(), "n2".to_owned()]),
        limit_bytes_per_s: Some(5),
        ..place()
    };
    assert_eq!(add(named).unwrap().nodes, ["n1", "n2"]);
    refused(add(place()), "r");
    let freed = RepositoryChange {
        nodes: Some(Vec::new()),
        limit_bytes_per_s: Some(0),
        ..RepositoryChange::default()
    };
    let freed = set_backup_repository(&meta, "r", &freed).unwrap();
    assert!(freed.is_for("n7") && freed.limit_bytes_per_s.is_none() && freed.address == "/backup");
    for number in 1..MAX_BACKUP_REPOSITORIES {
        add_backup_repository(&meta, &format!("r{number}"), &place()).unwrap();
    }
    refused(add_backup_repository(&meta, "more", &place()), "no more can be");
}

#[test]
fn backup_policies_that_cannot_be_are_refused() {
    let meta = prepared();
    let create = |name: &str, change: &BackupChange| create_backup_policy(&meta, name, change, NOW);
    refused(create("a/b", &nightly()), "a/b");
    for (change, says) in [
        (BackupChange::default(), "needs a schedule"),
        (
            BackupChange {
                repository: Some("nowhere".to_owned()),
                ..nightly()
            },
            "nowhere",
        ),
        (
            BackupChange {
                target: Some(PolicyTarget::Volume("nobody".to_owned())),
                ..nightly()
            },
            "nobody",
        ),
        (
            BackupChange {
                target: Some(PolicyTarget::Pool("main".to_owned())),
                ..nightly()
            },
            "not for a pool",
        ),
        (
            BackupChange {
                schedule: Some("never".to_owned()),
                ..nightly()
            },
            "five fields are wanted",
        ),
        (
            BackupChange {
                keep: KeepChange::default(),
                ..nightly()
            },
            "would keep nothing",
        ),
        (
            BackupChange {
                limit_s: Some(5),
                ..nightly()
            },
            "time limit of 5 s",
        ),
        (verifying(Some("@never"), None), "@never"),
        (verifying(Some("@weekly"), Some(0)), "0 % of the repository"),
        (verifying(Some("@weekly"), Some(101)), "101 % of the repository"),
        (verifying(None, Some(5)), "give a schedule"),
    ] {
        refused(create("p", &change), says);
    }
    let made = create("p", &nightly()).unwrap();
    assert_eq!((made.since, made.limit_s), (NOW.as_secs(), 86_400));
    refused(create("p", &nightly()), "p");
    let one = BackupChange {
        target: Some(PolicyTarget::Volume("db".to_owned())),
        ..BackupChange::default()
    };
    let later = NOW + Duration::from_secs(60);
    let changed = set_backup_policy(&meta, "p", &one, later).unwrap();
    assert_eq!(changed.since, NOW.as_secs(), "it counts as before");
    assert_eq!(changed.target, Target::Volume(volume(&meta, "db").unwrap().host()));
    let paused = BackupChange {
        paused: Some(true),
        ..BackupChange::default()
    };
    assert_eq!(
        set_backup_policy(&meta, "p", &paused, later).unwrap().since,
        later.as_secs()
    );
    // A name that comes again has another number.
    delete_backup_policy(&meta, "p").unwrap();
    assert_ne!(create("p", &nightly()).unwrap().id, made.id);
}

#[test]
fn a_run_is_asked_for_where_one_can_be_begun() {
    let meta = prepared();
    let made = create_backup_policy(&meta, "p", &nightly(), NOW).unwrap();
    assert_eq!(made.asked, 0);
    assert_eq!(run_backup_policy(&meta, "p").unwrap().asked, 1);
    refused(run_backup_policy(&meta, "q"), "there is p");
    let runner = Op::Put {
        key: map::backup_runner_key(made.id),
        value: serde_json::to_vec("n1").unwrap(),
        lease: None,
    };
    let hold = Call {
        then: vec![runner],
        ..Call::default()
    };
    meta.txn(&hold).unwrap();
    refused(run_backup_policy(&meta, "p"), "under way at node n1");
    let free = Call {
        then: vec![Op::Delete {
            key: map::backup_runner_key(made.id),
        }],
        ..Call::default()
    };
    meta.txn(&free).unwrap();
    let paused = BackupChange {
        paused: Some(true),
        ..BackupChange::default()
    };
    set_backup_policy(&meta, "p", &paused, NOW).unwrap();
    refused(run_backup_policy(&meta, "p"), "it is paused");
}

#[test]
fn a_repository_stays_known_while_a_policy_uses_it() {
    let meta = prepared();
    create_backup_policy(&meta, "p", &nightly(), NOW).unwrap();
    let held = remove_backup_repository(&meta, "off-site").unwrap_err();
    assert!(
        matches!(&held, AdminError::RepositoryInUse { policies, .. } if policies == &["p"]),
        "{held}"
    );
    delete_backup_policy(&meta, "p").unwrap();
    remove_backup_repository(&meta, "off-site").unwrap();
    refused(create_backup_policy(&meta, "p", &nightly(), NOW), "off-site");
}

#[test]
fn whoever_has_the_key_notes_and_nobody_else() {
    let meta = prepared();
    let policy = create_backup_policy(&meta, "p", &nightly(), NOW).unwrap();
    let made = meta
        .txn(&Call::get(map::backup_policy_key("p")))
        .unwrap()
        .value(0)
        .unwrap()
        .create_revision;
    let take = || {
        let key = map::backup_runner_key(policy.id);
        meta.txn(&Call::put(key, serde_json::to_vec("n1").unwrap()))
            .unwrap()
            .revision
    };
    let runs = BackupRuns {
        schedule: "0 3 * * * in UTC".to_owned(),
        run: Some(BackupRun::default()),
        ..BackupRuns::default()
    };
    let first = take();
    let noted = note_backup(&meta, &policy, made, first, 0, &runs).unwrap().unwrap();
    // Another node has taken it: what the first one says does not count any more.
    let second = take();
    assert_eq!(note_backup(&meta, &policy, made, first, noted, &runs).unwrap(), None);
    assert_eq!(note_backup(&meta, &policy, made, second, 0, &runs).unwrap(), None);
    let again = note_backup(&meta, &policy, made, second, noted, &runs)
        .unwrap()
        .unwrap();
    let status = backup_policy(&meta, "p", NOW).unwrap();
    assert_eq!(
        (status.runner.as_deref(), status.runs),
        (Some("n1"), Some(runs.clone()))
    );
    // What a policy of before comes to is nothing of one of the same name.
    delete_backup_policy(&meta, "p").unwrap();
    create_backup_policy(&meta, "p", &nightly(), NOW).unwrap();
    assert_eq!(note_backup(&meta, &policy, made, second, again, &runs).unwrap(), None);
    assert_eq!(note_backup(&meta, &policy, made, second, 0, &runs).unwrap(), None);
}

#[test]
fn what_is_done_by_rules_is_noted_only_while_they_are_the_policys() {
    let meta = prepared();
    let policy = create_backup_policy(&meta, "p", &nightly(), NOW).unwrap();
    let says = || {
        let reply = meta.txn(&Call::get(map::backup_policy_key("p"))).unwrap();
        reply.value(0).unwrap().mod_revision
    };
    let key = map::backup_runner_key(policy.id);
    let claim = meta.txn(&Call::put(key, b"\"n1\"".to_vec())).unwrap().revision;
    let runs = BackupRuns {
        prune_owed: true,
        ..BackupRuns::default()
    };
    let before = says();
    let note = |says, claim, revision| note_backup_by_rules(&meta, &policy, says, claim, revision, &runs).unwrap();
    let noted = note(before, claim, 0).unwrap();
    assert_eq!(note(before, claim + 1, noted), None, "another node has the key");
    let more = BackupChange {
        keep: KeepChange {
            last: Some(30),
            ..KeepChange::default()
        },
        ..BackupChange::default()
    };
    set_backup_policy(&meta, "p", &more, NOW).unwrap();
    assert_eq!(note(before, claim, noted), None, "it keeps more by now");
    assert!(note(says(), claim, noted).is_some());
}

#[test]
fn what_cannot_be_read_is_told_and_begun_anew_when_an_operator_says_so() {
    let meta = prepared();
    let policy = create_backup_policy(&meta, "p", &nightly(), NOW).unwrap();
    meta.txn(&Call::put(map::backup_runs_key(policy.id), b"{".to_vec()))
        .unwrap();
    let facts = status(&meta).unwrap().facts;
    let failing = facts.iter().find(|fact| fact.name == "backup-failing").unwrap();
    assert!(failing.text.contains("begins it anew"), "{}", failing.text);
    let shown = backup_policy(&meta, "p", NOW).unwrap();
    assert!(shown.fault.is_some() && shown.next_at.is_none());
    let figure = || figures(&meta).unwrap().backups.remove(0);
    assert_eq!(figure().failing, 1, "the metric says what the fact says");
    // It has never succeeded: its age grows all the same.
    assert_eq!(figure().succeeded_at, Some(policy.since));
    let resume = BackupChange {
        paused: Some(false),
        ..BackupChange::default()
    };
    set_backup_policy(&meta, "p", &resume, NOW).unwrap();
    assert_eq!(backup_policy(&meta, "p", NOW).unwrap().fault, None);
    assert_eq!(figure().failing, 0);
    let runs = BackupRuns {
        succeeded_at: Some(NOW.as_secs() + 9),
        ..BackupRuns::default()
    };
    let key = map::backup_runs_key(policy.id);
    meta.txn(&Call::put(key, serde_json::to_vec(&runs).unwrap())).unwrap();
    assert_eq!(figure().succeeded_at, runs.succeeded_at);
}

#[test]
fn a_policy_is_for_what_has_its_label_and_names_what_is_gone() {
    let meta = prepared();
    let policy = create_backup_policy(&meta, "p", &nightly(), NOW).unwrap();
    let none = backup_volumes(&meta, &policy).unwrap();
    assert!(none.volumes.is_empty());
    assert_eq!(none.lacks.len(), 1);
    assert!(
        none.lacks[0].starts_with("no volume has the label tier=gold")
            && none.lacks[0].contains("policy set p --label"),
        "{none:?}"
    );
    let labels = [("tier".to_owned(), "gold".to_owned())].into();
    label_volume(&meta, "db", &labels, &[]).unwrap();
    let id = volume(&meta, "db").unwrap().host();
    let there = BackupVolumes {
        volumes: vec![(id, "db".to_owned())],
        lacks: Vec::new(),
    };
    assert_eq!(backup_volumes(&meta, &policy).unwrap(), there);
    let one = BackupChange {
        target: Some(PolicyTarget::Volume("db".to_owned())),
        ..BackupChange::default()
    };
    let policy = set_backup_policy(&meta, "p", &one, NOW).unwrap();
    assert_eq!(backup_volumes(&meta, &policy).unwrap(), there);
    let gone = map::BackupPolicy {
        target: Target::Volumes(vec![id, VolumeId(99)]),
        ..policy
    };
    let found = backup_volumes(&meta, &gone).unwrap();
    assert_eq!(found.volumes, there.volumes);
    assert!(
        found.lacks[0].contains(&format!("volume number {} of the policy is deleted", VolumeId(99)))
            && found.lacks[0].contains("`amita backup policy set p --volume"),
        "{found:?}"
    );
}

#[test]
fn what_nobody_can_read_is_not_left_out_in_silence() {
    let meta = prepared();
    create_volume(&meta, "log", "main", 4096 << 10).unwrap();
    let policy = create_backup_policy(&meta, "p", &nightly(), NOW).unwrap();
    let labels = [("tier".to_owned(), "gold".to_owned())].into();
    label_volume(&meta, "db", &labels, &[]).unwrap();
    let (db, log) = (volume(&meta, "db").unwrap(), volume(&meta, "log").unwrap());
    let spoil = |key: String| drop(meta.txn(&Call::put(key, b"{".to_vec())).unwrap());
    // Of volumes that are there no more nobody asks.
    spoil(map::about_key(VolumeId(777)));
    spoil(map::volume_key(".trash"));
    assert!(backup_volumes(&meta, &policy).unwrap().lacks.is_empty());
    let about = map::about_key(log.id);
    spoil(about.clone());
    let found = backup_volumes(&meta, &policy).unwrap();
    assert_eq!(found.volumes.len(), 1);
    assert!(found.lacks.len() == 1 && found.lacks[0].contains(&about), "{found:?}");
    let named = map::BackupPolicy {
        target: Target::Volumes(vec![db.host(), log.host()]),
        ..policy.clone()
    };
    assert!(
        backup_volumes(&meta, &named).unwrap().lacks.is_empty(),
        "it goes by no label"
    );
    let key = map::volume_key("log");
    spoil(key.clone());
    for policy in [&policy, &named] {
        let found = backup_volumes(&meta, policy).unwrap();
        assert!(found.lacks.iter().any(|why| why.contains(&key)), "{found:?}");
    }
}
