//! Verifications by a policy: what they read, and what is known behind them.

use super::super::super::check::{Check, piece};
use super::*;
use amita_backup::verify::{Reading, Report, Stretch, read_packs};
use amita_types::map::{BackupVerified, BackupVerify};
use std::cell::Cell;
use std::collections::BTreeSet;

impl World {
    /// The policy verifies so many percent, and was asked to so often.
    fn verifies(&self, percent: u32, asked: u64) -> u64 {
        let verify = BackupVerify {
            schedule: "@yearly".to_owned(),
            percent,
            since: MONDAY,
            percent_since: 0,
            asked,
        };
        let verified = BackupPolicy {
            verify: Some(verify),
            ..policy("p", 1)
        };
        self.put(map::backup_policy_key("p"), &verified);
        self.put(map::backup_verifier_key(PolicyId(1)), &"n1")
    }

    /// One verification of so many percent, the `asked`th.
    fn verify(&self, percent: u32, asked: u64) -> BackupVerified {
        let verified = self.attempt_to_verify(percent, asked);
        assert!(verified.runs.run.is_none(), "{verified:?}");
        verified
    }

    /// The same, whether it comes to its end or not: another attempt at it is the next one that is asked for.
    fn attempt_to_verify(&self, percent: u32, asked: u64) -> BackupVerified {
        let claim = self.verifies(percent, asked);
        let with = Attempt {
            claim,
            ..self.attempt()
        };
        Check { with }.run().unwrap();
        self.verified()
    }

    fn verified(&self) -> BackupVerified {
        let reply = self
            .meta
            .txn(&Call::get(map::backup_verified_key(PolicyId(1))))
            .unwrap();
        reply.value(0).unwrap().json().unwrap()
    }

    /// The files of the packs, in the order in which they are read.
    fn packs(&self) -> Vec<PathBuf> {
        let folder = self.path("store").join("packs").join(self.id.to_string());
        let mut packs: Vec<PathBuf> = std::fs::read_dir(folder)
            .unwrap()
            .map(|found| found.unwrap().path())
            .collect();
        packs.sort();
        packs
    }
}

/// Changes one byte of it, and changes it back.
fn flip(pack: &std::path::Path) {
    let mut bytes = std::fs::read(pack).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    std::fs::write(pack, bytes).unwrap();
}

fn name_of(pack: &std::path::Path) -> &str {
    pack.file_name().unwrap().to_str().unwrap()
}

#[test]
fn what_is_damaged_is_named_until_it_was_read_again_and_is_whole() {
    let world = World::new(None);
    world.point(2, &["a", "b"]);
    let point = world.point(3, &["a", "b"]);
    let clean = world.verify(100, 1);
    assert_eq!((clean.damaged(), clean.lost(), clean.rounds), (0, 0, 1));
    assert_eq!(clean.packs, world.packs().len() as u64);
    let last = clean.runs.last.as_ref().unwrap();
    assert_eq!((last.points, last.failed, clean.runs.runs), (2, 0, 1));
    assert!(last.read_bytes > 0 && clean.runs.read_bytes == last.read_bytes && clean.whole_since.is_some());

    let pack = world.packs().pop().unwrap();
    flip(&pack);
    let found = world.verify(100, 2);
    let object = &found.damage[0].object;
    assert!(
        object.ends_with(name_of(&pack)) && found.damage[0].why.contains(object),
        "{found:?}"
    );
    assert_eq!(found.damaged(), 1);
    assert!(
        found
            .points_lost
            .iter()
            .any(|lost| lost.point == point && lost.name.starts_with("p/1/")),
        "{found:?}"
    );
    assert_eq!(found.runs.failures, 0, "it has done what it was to do");
    // It is read first, however little else is.
    let again = world.verify(1, 3);
    assert_eq!(again.damage, found.damage);
    flip(&pack);
    let mended = world.verify(1, 4);
    assert_eq!((mended.damaged(), mended.lost()), (0, 0), "{mended:?}");
    // A missing one is found without being read, and nobody puts it back.
    std::fs::remove_file(&pack).unwrap();
    let missing = world.verify(1, 5);
    assert!(
        missing.damage[0].why.contains("is missing") && !pack.exists(),
        "{missing:?}"
    );
    assert_eq!((missing.damaged(), missing.lost()), (1, 1));
    assert_eq!(world.vault().state().sessions().len(), 0);
    // Where nothing needs it any more, and pruning has removed it from the vault, it is forgotten.
    let mut vault = world.vault();
    vault.forget(&[point]).unwrap();
    amita_backup::prune::run(&mut vault).unwrap();
    let pruned = world.verify(1, 6);
    assert_eq!((pruned.damaged(), pruned.lost()), (0, 0), "{pruned:?}");
    assert!(pruned.runs.last.unwrap().points == 1 && !world.packs().contains(&pack));
}

#[test]
fn shares_come_round_and_each_pack_has_its_turn() {
    let world = World::new(None);
    for hour in 0..5 {
        world.point(hour, &["a", "b"]);
    }
    let packs = world.packs();
    // With one percent each run reads one pack, the one behind the last.
    let mut places = Vec::new();
    for asked in 1..packs.len() as u64 {
        let verified = world.verify(1, asked);
        assert_eq!((verified.packs, verified.rounds), (asked, 0));
        places.push(verified.place.unwrap());
    }
    let names: Vec<&str> = packs.iter().map(|pack| name_of(pack)).collect();
    assert_eq!(places, names[..names.len() - 1]);
    // The last one is damaged: by the last run of the round it is found, and its points are told of.
    flip(packs.last().unwrap());
    let ended = world.verify(1, packs.len() as u64);
    assert_eq!((ended.rounds, ended.place.clone()), (1, None));
    assert!(
        ended
            .damage
            .iter()
            .any(|damage| damage.object.ends_with(names[names.len() - 1])),
        "{ended:?}"
    );
    // A journal's entry that nobody needs, for there is a checkpoint, is read as often as all packs are.
    world.vault().checkpoint().unwrap();
    let entry = world.path("store").join("journal").join(world.id.to_string());
    let entry = entry.join(format!("{:020}", 2));
    flip(&entry);
    assert_eq!(world.verify(1, 100).damaged(), ended.damaged(), "no round has ended");
    let all = world.verify(100, 101);
    assert!(
        all.damage.iter().any(|damage| damage.object.starts_with("journal/")),
        "{all:?}"
    );
    // It is read each time then, and so it is known when it is whole again.
    flip(&entry);
    let mended = world.verify(1, 102);
    assert!(
        mended.damage.iter().all(|damage| damage.object.starts_with("packs/")),
        "{mended:?}"
    );
}

#[test]
fn whoever_verified_before_is_over_and_what_cannot_be_read_is_tried_again() {
    let world = World::new(None);
    world.point(3, &["a", "b"]);
    let dead = world.session(&verification_session_name(CLUSTER, &policy("p", 1)));
    let backup = world.session(&session_name(CLUSTER, &policy("p", 1)));
    world.put(map::backup_runner_key(PolicyId(1)), &"n2");
    world.verify(5, 1);
    let open: Vec<SessionId> = world.vault().state().sessions().keys().copied().collect();
    assert_eq!(open, [backup], "and {dead} is over");
    // Without its key file it fails, and is tried again: what was found before is known still.
    flip(&world.packs()[0]);
    let found = world.verify(100, 2);
    assert_eq!(found.damaged(), 1);
    let key = std::fs::read(world.path("key")).unwrap();
    std::fs::remove_file(world.path("key")).unwrap();
    let claim = world.verifies(100, 3);
    let with = Attempt {
        claim,
        ..world.attempt()
    };
    Check { with }.run().unwrap();
    let failed = world.verified();
    let run = failed.runs.run.as_ref().unwrap();
    assert!(
        run.failed == 1 && run.again_at.is_some() && !run.why.is_empty(),
        "{failed:?}"
    );
    assert_eq!(failed.damage, found.damage);
    std::fs::write(world.path("key"), key).unwrap();
    // One that has lost the key notes nothing.
    let with = Attempt {
        claim: claim - 1,
        ..world.attempt()
    };
    Check { with }.run().unwrap();
    assert_eq!(world.verified(), failed);
}

#[test]
fn one_that_is_paused_has_not_failed_and_goes_on_from_where_it_was() {
    let world = World::new(None);
    world.point(3, &["a", "b"]);
    let before = world.verify(1, 1);
    // A run is under way when somebody pauses the policy.
    let mut under_way = before.clone();
    under_way.runs.run = Some(BackupRun {
        due: MONDAY,
        began: MONDAY,
        attempts: 1,
        ..BackupRun::default()
    });
    world.put(map::backup_verified_key(PolicyId(1)), &under_way);
    let mut paused = policy("p", 1);
    paused.paused = true;
    paused.verify = Some(BackupVerify {
        schedule: "@yearly".to_owned(),
        percent: 1,
        since: MONDAY,
        percent_since: 0,
        asked: 1,
    });
    world.put(map::backup_policy_key("p"), &paused);
    let claim = world.put(map::backup_verifier_key(PolicyId(1)), &"n1");
    let with = Attempt {
        claim,
        ..world.attempt()
    };
    Check { with }.run().unwrap();
    let found = world.verified();
    assert_eq!(
        (found.runs.run.as_ref(), found.runs.schedule.as_str()),
        (None, "paused")
    );
    assert_eq!(
        (found.runs.failures, &found.runs.last, &found.place),
        (0, &before.runs.last, &before.place)
    );
}

#[test]
fn what_was_read_under_a_session_that_was_over_counts_for_nothing() {
    let world = World::new(None);
    world.point(3, &["a", "b"]);
    let lost = world.packs().remove(0);
    let mut vault = world.vault();
    let mut found = 0;
    let read = piece(&mut vault, "a check", |vault| {
        // Another one takes it for dead, and what it reads is swept.
        let mut other = world.vault();
        let open: Vec<SessionId> = other.state().sessions().keys().copied().collect();
        other.fence(open[0]).unwrap();
        std::fs::remove_file(&lost).unwrap();
        let mut report = Report::default();
        let stretch = Stretch {
            bytes: u64::MAX,
            ..Stretch::default()
        };
        let reading = Reading {
            suspects: &BTreeSet::new(),
            ends: &|| false,
            until: None,
        };
        read_packs(vault, stretch, reading, &mut report);
        found = report.damage.len();
        Ok(())
    });
    assert_eq!(found, 1, "it was missing");
    assert_eq!(read.unwrap_err().code, "session-over");
}

#[test]
fn a_pack_that_cannot_be_read_keeps_no_other_from_being_read() {
    let world = World::new(None);
    for hour in 0..3 {
        world.point(hour, &["a"]);
    }
    let packs = world.packs();
    let unread = &packs[1];
    let bytes = std::fs::read(unread).unwrap();
    std::fs::remove_file(unread).unwrap();
    // A folder of its name is opened, and cannot be read.
    std::fs::create_dir(unread).unwrap();
    let failed = world.attempt_to_verify(100, 1);
    let run = failed.runs.run.as_ref().unwrap();
    assert!(run.failed == 1 && run.why[0].contains(name_of(unread)), "{failed:?}");
    assert!(failed.unread.as_ref().unwrap().ends_with(name_of(unread)), "{failed:?}");
    assert_eq!(failed.damaged(), 0, "the store may be away");
    // It cannot be read still, and others can.
    let passed = world.verify(100, 2);
    assert_eq!(
        (passed.rounds, passed.damaged(), &passed.unread),
        (1, 1, &None),
        "{passed:?}"
    );
    assert!(
        passed.damage[0].why.contains("cannot read it") && passed.lost() > 0,
        "{passed:?}"
    );
    assert_eq!(passed.packs, packs.len() as u64 - 1);
    // So it is until it can be, and no round fails by it.
    let round = world.verify(100, 3);
    assert_eq!(
        (round.rounds, round.runs.failures, &round.damage),
        (2, 0, &passed.damage)
    );
    assert_eq!((round.whole_unread, round.packs), (1, 2 * (packs.len() as u64 - 1)));
    std::fs::remove_dir(unread).unwrap();
    std::fs::write(unread, bytes).unwrap();
    let mended = world.verify(1, 4);
    assert_eq!((mended.damaged(), mended.lost()), (0, 0), "{mended:?}");
}

#[test]
fn one_whose_session_is_over_in_the_middle_notes_nothing_of_what_it_missed() {
    let world = World::new(None);
    world.point(3, &["a", "b"]);
    let before = world.verify(100, 1);
    let (id, store, key, lost) = (
        world.id,
        world.path("store"),
        world.path("key"),
        world.packs().remove(0),
    );
    let is_done = Cell::new(false);
    // As soon as it reads under a session another one takes it for dead, and what it reads is swept.
    let ending = interrupt::ending(move || {
        let store = Arc::new(Folder::open(&store).unwrap());
        let mut vault = Vault::open(store, id, Key::load(&key).unwrap().bytes(), Options::default()).unwrap();
        let open: Vec<SessionId> = vault.state().sessions().keys().copied().collect();
        if !is_done.get() && !open.is_empty() {
            vault.fence(open[0]).unwrap();
            std::fs::remove_file(&lost).unwrap();
            is_done.set(true);
        }
        false
    });
    let fenced = world.attempt_to_verify(100, 2);
    drop(ending);
    let run = fenced.runs.run.as_ref().unwrap();
    assert!(run.failed == 1 && run.read_bytes == 0, "{fenced:?}");
    assert_eq!((fenced.damaged(), fenced.lost(), fenced.rounds), (0, 0, before.rounds));
    assert_eq!(world.verify(100, 3).damaged(), 1, "it is missing by now");
}

/// A run under way that has failed before, at its third attempt.
fn failed_before(known: &BackupVerified, read_bytes: u64) -> BackupVerified {
    let mut known = known.clone();
    known.runs.run = Some(BackupRun {
        due: MONDAY,
        began: MONDAY,
        attempts: 3,
        failed: 1,
        why: vec!["it was away".to_owned()],
        read_bytes,
        ..BackupRun::default()
    });
    known
}

#[test]
fn one_that_its_limit_ends_has_failed_where_it_has_not_come_on() {
    let mut world = World::new(None);
    world.point(3, &["a", "b"]);
    let clean = world.verify(100, 1);
    world.ends = Ends::new(Arc::new(AtomicBool::new(false)), Duration::ZERO);
    let key = || map::backup_verified_key(PolicyId(1));
    // It has come on: what failed before is over.
    let mut known = failed_before(&clean, 0);
    known.unread = Some("packs/x".to_owned());
    world.put(key(), &known);
    let gone_on = world.attempt_to_verify(100, 2);
    let run = gone_on.runs.run.as_ref().unwrap();
    assert_eq!(
        (run.failed, run.attempts, run.why.len(), &gone_on.unread),
        (0, 1, 0, &None),
        "{gone_on:?}"
    );
    assert!(run.read_bytes > 0 && run.again_at.is_none());
    // Nothing is left of it but entries of the journal: that is something, too.
    let mut known = failed_before(&gone_on, u64::MAX);
    (known.looked_due, known.again_due) = (Some(MONDAY), Some(MONDAY));
    known.journal_round = known.rounds - 1;
    world.put(key(), &known);
    let read = world.attempt_to_verify(100, 3);
    assert_eq!(
        (read.journal_round, read.runs.run.as_ref().unwrap().failed),
        (read.rounds, 0),
        "{read:?}"
    );
    // Nothing at all is a failure.
    let mut known = failed_before(&read, u64::MAX);
    (known.looked_due, known.again_due) = (Some(MONDAY), Some(MONDAY));
    world.put(key(), &known);
    let failed = world.attempt_to_verify(100, 4);
    let run = failed.runs.run.as_ref().unwrap();
    assert!(run.failed == 1 && run.why[0].contains("did not come on"), "{failed:?}");
}

#[test]
fn a_look_that_the_limit_ends_goes_on_behind_what_was_to_come_after_it() {
    let mut world = World::new(None);
    for hour in 0..3 {
        world.point(hour, &["a"]);
    }
    let clean = world.verify(100, 1);
    let points = world.points();
    let lost = world.packs().pop().unwrap();
    flip(&lost);
    world.ends = Ends::new(Arc::new(AtomicBool::new(false)), Duration::ZERO);
    // It ends once the first point was looked at.
    let stop = |most: usize| {
        let asked = Cell::new(0);
        interrupt::ending(move || {
            asked.set(asked.get() + 1);
            asked.get() > most
        })
    };
    let mut ended = None;
    for most in 0..60 {
        world.put(map::backup_verified_key(PolicyId(1)), &failed_before(&clean, 0));
        let ending = stop(most);
        let found = world.attempt_to_verify(100, 2);
        drop(ending);
        if found.points_place == Some(points[0]) {
            ended = Some(found);
            break;
        }
    }
    let ended = ended.expect("it was ended behind the first point");
    let run = ended.runs.run.as_ref().unwrap();
    assert!(
        ended.points_owed && ended.looked_due == Some(run.due) && run.failed == 0,
        "{ended:?}"
    );
    // Packs have their turn before it goes on; by what they find it begins anew.
    let done = world.attempt_to_verify(100, 3);
    assert_eq!(
        (done.points_place, done.points_owed, done.lost()),
        (None, false, 1),
        "{done:?}"
    );
    assert!(done.runs.run.as_ref().unwrap().read_bytes > 0);
}

#[test]
fn a_round_ends_however_fast_the_repository_grows() {
    let world = World::new(None);
    world.point(0, &["a"]);
    world.point(1, &["a"]);
    let packs = world.packs();
    for (asked, hour) in (1..).zip(2..2 + packs.len() as u64) {
        // More is put between than is read each time.
        let verified = world.verify(1, asked);
        let is_last = asked == packs.len() as u64;
        assert_eq!(verified.rounds, u64::from(is_last), "{verified:?}");
        let last = name_of(packs.last().unwrap());
        assert_eq!(verified.round_end.as_deref(), (!is_last).then_some(last));
        world.point(hour, &["a"]);
    }
    // The next one is up to what is there now.
    let next = world.verify(1, 100);
    let now = world.packs();
    assert_eq!(next.place.as_deref(), Some(name_of(&packs[0])));
    assert_eq!(next.round_end.as_deref(), Some(name_of(now.last().unwrap())));
}

#[test]
fn what_says_most_is_looked_at_first_and_once_a_run() {
    let world = World::new(None);
    for hour in 0..3 {
        world.point(hour, &["a"]);
    }
    let clean = world.verify(1, 1);
    assert!(clean.looked_at.is_some() && !clean.points_owed, "{clean:?}");
    // What is missing is known, and which points need it, however far behind it lies.
    let packs = world.packs();
    let missing = std::fs::read(&packs[5]).unwrap();
    std::fs::remove_file(&packs[5]).unwrap();
    let found = world.verify(1, 2);
    assert!(
        found.damage[0].object.ends_with(name_of(&packs[5])) && found.lost() == 1,
        "{found:?}"
    );
    assert_eq!(found.looked_due, None, "the next run looks again, whenever it is due");
    // What the walk itself finds is looked for in the trees before the run ends.
    std::fs::write(&packs[5], missing).unwrap();
    flip(&packs[2]);
    let walked = world.verify(1, 3);
    assert!(
        walked.damage[0].object.ends_with(name_of(&packs[2])) && walked.lost() == 1 && !walked.points_owed,
        "{walked:?}"
    );
    // The journal is read where a round has ended since it was: also where that was in a run that failed behind it.
    assert_eq!((walked.rounds, walked.journal_round), (0, 0));
    let mut known = walked;
    (known.rounds, known.journal_round) = (3, 2);
    world.put(map::backup_verified_key(PolicyId(1)), &known);
    assert_eq!(world.verify(1, 4).journal_round, 3);
}

#[test]
fn of_more_than_are_named_none_is_forgotten_and_none_counted_twice() {
    let world = World::new(None);
    // A point of 200 packs and some: each run of bytes is a piece, and each piece a pack.
    let store = Arc::new(Folder::open(&world.path("store")).unwrap());
    let key = Key::load(&world.path("key")).unwrap();
    let options = Options {
        pack_bytes: 1,
        ..Options::default()
    };
    let mut vault = Vault::open(store, world.id, key.bytes(), options).unwrap();
    let volume = amita_backup::Volume {
        identity: world.subject("a").identity,
        bytes: 4 << 20,
        encrypted: false,
        snapshot: (5, 1),
        parent: None,
        compares: false,
    };
    let mut changes = (0..200_u64).map(|number| {
        let bytes = (number + 1).to_le_bytes().repeat(512);
        Ok::<_, std::io::Error>(Change::Bytes {
            offset: number * 8192,
            bytes,
        })
    });
    let mut session = vault.begin("a backup").unwrap();
    let made = session.backup(&volume, &mut changes).unwrap();
    session.publish("p/1/x", MONDAY as i64, vec![made]).unwrap();
    session.end().unwrap();
    let packs = world.packs();
    assert!(packs.len() > 200, "{}", packs.len());
    for pack in &packs[..200] {
        flip(pack);
    }
    // Again and again: its number and the point are what they were.
    for (asked, percent) in [(1, 100), (2, 100), (3, 1), (4, 40), (5, 100)] {
        let found = world.verify(percent, asked);
        assert_eq!(
            (found.damage.len(), found.more_packs.len(), found.more_damage),
            (128, 72, 0),
            "{asked}"
        );
        assert_eq!((found.damaged(), found.lost()), (200, 1), "{asked}");
    }
    // The named ones are mended: the point is not whole by the others.
    for pack in &packs[..128] {
        flip(pack);
    }
    let rest = world.verify(1, 6);
    assert_eq!((rest.damaged(), rest.lost()), (72, 1));
    assert_eq!(
        (rest.damage.len(), rest.more_packs.len()),
        (72, 0),
        "there is room to name them"
    );
    for pack in &packs[128..200] {
        flip(pack);
    }
    // They are read again first, as any that is named.
    let mended = world.verify(1, 7);
    assert_eq!((mended.damaged(), mended.lost()), (0, 0), "{mended:?}");
}
