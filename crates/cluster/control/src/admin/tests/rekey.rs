//! Volumes that are written anew in their pool: by another data key, encrypted, or in the clear; what becomes of the key of before, and of quotas.

use super::keys::{Maker, secrets};
use super::migrate::{MIB, NOW, SOURCE, TARGET, claim, last, own, pass, record, snap, switch, write};
use super::*;
use crate::access::Action;
use amita_types::map::{About, KeyRing};

fn made(encrypted: bool, maker: &Maker) -> Mutex<State> {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    let about = About {
        created_at: Some(7),
        ..About::of(SOURCE)
    };
    match encrypted {
        true => make_encrypted_volume(&meta, "db", "main", 64 * MIB, Some(&about), maker),
        false => make_volume(&meta, "db", "main", 64 * MIB, Some(&about)),
    }
    .unwrap();
    own(&meta, "db");
    snap(&meta, "db", "mon", false);
    meta
}

fn wish(at_rest: AtRest, maker: &Maker) -> MigrateWish<'_> {
    MigrateWish {
        volume: "db",
        pool: None,
        at_rest,
        limit_bytes_per_s: None,
        keys: Some(maker),
        now: NOW,
    }
}

/// As a runner does it, up to the switch and what is left to be done behind it.
fn carried_out(meta: &dyn Transact) {
    let held = claim(meta);
    pass(meta, held);
    let last = last(meta, held);
    assert_eq!(switch(meta, held, last), Switched::Made);
    assert!(end_move(meta, &record(meta), held).unwrap());
}

fn ring(meta: &dyn Transact) -> Option<KeyRing> {
    volume(meta, "db").unwrap().keys
}

fn status_of(meta: &dyn Transact, name: &str) -> VolumeStatus {
    let all = volume_statuses(meta).unwrap();
    all.into_iter().find(|found| found.volume.name == name).unwrap()
}

fn refused<T: std::fmt::Debug>(result: Result<T>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn a_volume_gets_another_data_key_in_its_pool_and_that_of_before_is_erased() {
    let maker = Maker::default();
    let meta = made(true, &maker);
    assert_eq!(
        (secrets(&meta), status_of(&meta, "db").data_key_since),
        (vec![1], Some(7))
    );
    let before = ring(&meta).unwrap();
    assert_eq!(volumes_read_by(&meta, &before).unwrap(), ["db"]);
    let asked = wish(AtRest::AsItIs, &maker);
    assert_eq!(may_migrate(&meta, &asked).unwrap().id, SOURCE);
    let begun = migrate_volume(&meta, &asked).unwrap();
    assert_eq!((begun.volume, &*copy_job_id(&begun)), (TARGET, "rekey-2"));
    let job = copy_job(&begun, NOW);
    assert_eq!((job.kind, &*job.object), (JobKind::Rekey, "db"));
    assert_eq!(job.cancelled_by().unwrap(), Action::VolumeRekey);
    assert_eq!(secrets(&meta), [1, 2], "each has its own");
    let said = refused(migrate_volume(&meta, &asked));
    assert!(
        said.contains("is being written anew; `amita job show rekey-2`"),
        "{said}"
    );
    carried_out(&meta);
    let now = volume(&meta, "db").unwrap();
    assert_eq!((now.id, &*now.pool, now.host()), (TARGET, "main", SOURCE));
    let after = ring(&meta).unwrap();
    assert!(
        matches!(after.eras(), [era] if era.key.image == TARGET && era.key != before.newest().key),
        "{after:?}"
    );
    assert_eq!(volumes_read_by(&meta, &before).unwrap(), [""; 0]);
    let status = status_of(&meta, "db");
    assert_eq!(
        (status.created_at, status.data_key_since),
        (Some(7), Some(NOW.as_secs()))
    );
    assert_eq!(snapshot(&meta, "db", "mon").unwrap().volume, TARGET);
    assert_eq!(FormerSweep::default().sweep(&meta).unwrap().gone, [(SOURCE, None)]);
    assert_eq!(secrets(&meta), [2]);
    let said = refused(cancel_job(&meta, &job));
    assert!(said.contains("written anew by now"), "{said}");
}

/// A clone that is flat is read by the key of what it comes from all the same.
#[test]
fn what_clones_are_read_by_stays_until_they_are_written_anew_or_deleted() {
    let maker = Maker::default();
    let meta = made(true, &maker);
    let before = ring(&meta).unwrap();
    migrate_volume(&meta, &wish(AtRest::AsItIs, &maker)).unwrap();
    clone_volume_with(&meta, Some(&maker), ("db", "mon"), "test", &About::of(TARGET)).unwrap();
    assert_eq!(volumes_from(&meta, &volume(&meta, "db").unwrap()).unwrap(), ["test"]);
    assert_eq!(status_of(&meta, "test").data_key_since, Some(7), "its oldest one");
    carried_out(&meta);
    assert_eq!(volumes_read_by(&meta, &before).unwrap(), ["test"]);
    assert!(
        volumes_from(&meta, &volume(&meta, "db").unwrap()).unwrap().is_empty(),
        "what it is now has none"
    );
    assert!(FormerSweep::default().sweep(&meta).unwrap().gone.is_empty());
    assert_eq!(secrets(&meta), [1, 2, 3]);
    // As flattening leaves it: the former data goes, the key does not.
    let mut flat = volume(&meta, "test").unwrap();
    let (_, unpinned) = crate::admin::clone::unpin(&meta, &flat)
        .unwrap()
        .expect("it has a parent");
    let call = Call {
        then: vec![unpinned],
        ..Call::default()
    };
    meta.txn(&call).unwrap();
    (flat.lineage.root, flat.parents) = (Some(flat.place()), Vec::new());
    write(&meta, &flat);
    assert_eq!(volumes_read_by(&meta, &before).unwrap(), ["test"]);
    assert_eq!(FormerSweep::default().sweep(&meta).unwrap().gone, [(SOURCE, None)]);
    assert_eq!(secrets(&meta), [1, 2, 3]);
    delete_volume(&meta, "test", true, 9, &mut || false).unwrap();
    assert_eq!(secrets(&meta), [2]);
}

#[test]
fn a_volume_is_encrypted_in_its_pool_and_is_so_no_more() {
    let maker = Maker::default();
    let meta = made(false, &maker);
    let said = refused(migrate_volume(&meta, &wish(AtRest::AsItIs, &maker)));
    assert!(said.contains("not encrypted") && said.contains("--encrypted"), "{said}");
    let said = refused(migrate_volume(&meta, &wish(AtRest::Plain, &maker)));
    assert!(said.contains("not encrypted"), "{said}");
    let keyless = MigrateWish {
        keys: None,
        ..wish(AtRest::Encrypted, &maker)
    };
    for result in [
        may_migrate(&meta, &keyless).map(drop),
        migrate_volume(&meta, &keyless).map(drop),
    ] {
        assert_eq!(result.unwrap_err().code().name(), "no-volume-keys");
    }
    let there = MigrateWish {
        pool: Some("main"),
        ..wish(AtRest::Encrypted, &maker)
    };
    let said = refused(migrate_volume(&meta, &there));
    assert!(
        said.contains("in pool main already") && said.contains("volume rekey db"),
        "{said}"
    );
    migrate_volume(&meta, &wish(AtRest::Encrypted, &maker)).unwrap();
    carried_out(&meta);
    assert_eq!((ring(&meta).is_some(), secrets(&meta)), (true, vec![2]));
    assert_eq!(status_of(&meta, "db").data_key_since, Some(NOW.as_secs()));

    // No key is made for what is in the clear, and none is needed.
    let meta = made(true, &maker);
    let plain = MigrateWish {
        keys: None,
        ..wish(AtRest::Plain, &maker)
    };
    migrate_volume(&meta, &plain).unwrap();
    assert_eq!(secrets(&meta), [1]);
    carried_out(&meta);
    assert_eq!((ring(&meta), status_of(&meta, "db").data_key_since), (None, None));
    FormerSweep::default().sweep(&meta).unwrap();
    assert_eq!(secrets(&meta), [0; 0]);
}

#[test]
fn a_move_to_another_pool_may_encrypt_or_not() {
    let maker = Maker::default();
    for (at_rest, was, is) in [
        (AtRest::Encrypted, false, true),
        (AtRest::Plain, true, false),
        (AtRest::AsItIs, true, true),
        (AtRest::Plain, false, false),
    ] {
        let meta = made(was, &maker);
        let other = PoolSpec {
            name: "other".to_owned(),
            ..spec(2)
        };
        create_pool(&meta, &other).unwrap();
        let wish = MigrateWish {
            pool: Some("other"),
            ..wish(at_rest, &maker)
        };
        let action = match at_rest {
            AtRest::Plain => Action::VolumeDecrypt,
            _ => Action::VolumeMigrate,
        };
        assert_eq!(migrate_action(wish.pool, at_rest), action);
        assert_eq!(copy_job_id(&migrate_volume(&meta, &wish).unwrap()), "migrate-2");
        carried_out(&meta);
        assert_eq!(
            (ring(&meta).is_some(), &*volume(&meta, "db").unwrap().pool),
            (is, "other")
        );
    }
}

#[test]
fn quotas_count_a_volume_that_is_written_anew_once() {
    let maker = Maker::default();
    let meta = made(true, &maker);
    // Beside its own snapshot those two that are taken for it at a time.
    set_quota(&meta, "main", |quota| {
        (quota.provisioned_bytes, quota.volumes, quota.snapshots) = (Some(64 * MIB), Some(1), Some(3));
    })
    .unwrap();
    migrate_volume(&meta, &wish(AtRest::AsItIs, &maker)).unwrap();
    let of = |meta: &dyn Transact| {
        let asked = asked(meta, "main").unwrap();
        (asked.provisioned_bytes, asked.volumes, asked.snapshots)
    };
    assert_eq!(of(&meta), (64 * MIB, 1, 1));
    let held = claim(&meta);
    pass(&meta, held);
    assert_eq!(of(&meta), (64 * MIB, 1, 2));
    let last = last(&meta, held);
    assert_eq!(switch(&meta, held, last), Switched::Made);
    let (bytes, volumes, _) = of(&meta);
    assert_eq!((bytes, volumes), (64 * MIB, 1));
}

#[test]
fn taken_back_it_is_what_it_was_and_the_new_key_is_erased() {
    let maker = Maker::default();
    let meta = made(true, &maker);
    let before = volume(&meta, "db").unwrap();
    let begun = migrate_volume(&meta, &wish(AtRest::AsItIs, &maker)).unwrap();
    let held = claim(&meta);
    pass(&meta, held);
    cancel_job(&meta, &copy_job(&begun, NOW)).unwrap();
    let fate = Fate::Purge {
        snapshots: true,
        now: 1,
    };
    let mut target = volume(&meta, "~2").unwrap();
    target.owner = None;
    write(&meta, &target);
    carry_out(&meta, Deletion::of("~2", true, fate).only(TARGET), &mut || true).unwrap();
    let record = record(&meta);
    assert!(stay_in_pool(&meta, &record, held).unwrap());
    forget_move_snapshots(&meta, &record, &[]).unwrap();
    assert!(end_copy(&meta, TARGET, held).unwrap());
    let now = volume(&meta, "db").unwrap();
    assert_eq!((now.id, now.keys, now.lineage.moving), (SOURCE, before.keys, None));
    assert_eq!(secrets(&meta), [1]);
}
