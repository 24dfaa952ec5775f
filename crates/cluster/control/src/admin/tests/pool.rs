//! How a pool goes: only when nothing lies in it, whoever does what at the same time.

use super::*;
use amita_types::VolumeId;
use amita_types::map::{Recycling, Target};
use std::time::Duration;

/// Does something between what is read and what is written, once.
struct Between<'a, F: Fn(&dyn Transact) + Sync> {
    meta: &'a Mutex<State>,
    /// It comes before a transaction that writes this.
    before: fn(&Op) -> bool,
    does: F,
    left: AtomicUsize,
}

impl<F: Fn(&dyn Transact) + Sync> Transact for Between<'_, F> {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, Error> {
        let is_it = !call.compares.is_empty() && call.then.iter().any(self.before);
        if is_it && self.left.swap(0, Ordering::Relaxed) > 0 {
            (self.does)(self.meta);
        }
        self.meta.txn(call)
    }
}

fn between<F: Fn(&dyn Transact) + Sync>(meta: &Mutex<State>, before: fn(&Op) -> bool, does: F) -> Between<'_, F> {
    Between {
        meta,
        before,
        does,
        left: AtomicUsize::new(1),
    }
}

fn deletes_a_pool(op: &Op) -> bool {
    matches!(op, Op::Delete { key } if *key == map::pool_key("main"))
}

fn makes_a_volume(op: &Op) -> bool {
    matches!(op, Op::Put { key, .. } if *key == map::volume_key("v"))
}

fn makes_a_policy(op: &Op) -> bool {
    matches!(op, Op::Put { key, .. } if *key == map::policy_key("nightly"))
}

fn purge_of(meta: &dyn Transact, name: &str) {
    let fate = Fate::Purge {
        snapshots: false,
        now: 1,
    };
    carry_out(meta, Deletion::of(name, false, fate), &mut || false).unwrap();
}

fn nightly(meta: &dyn Transact) -> Result<map::Policy> {
    let change = PolicyChange {
        target: Some(PolicyTarget::Pool("main".to_owned())),
        schedule: Some("0 3 * * *".to_owned()),
        keep: KeepChange {
            last: Some(3),
            ..KeepChange::default()
        },
        ..PolicyChange::default()
    };
    create_policy(meta, "nightly", &change)
}

#[test]
fn a_pool_goes_with_all_that_is_its_own_and_its_number_is_not_given_again() {
    let meta = cluster_of(3);
    let first = create_pool(&meta, &spec(3)).unwrap();
    let other = PoolSpec {
        name: "other".to_owned(),
        ..spec(3)
    };
    let other = create_pool(&meta, &other).unwrap();
    set_recycle_time(&meta, "main", Duration::from_secs(60)).unwrap();
    set_quota(&meta, "main", |quota| quota.volumes = Some(5)).unwrap();
    let groups_before = groups(&meta, other.id).unwrap();
    assert_eq!(delete_pool(&meta, "main").unwrap().id, first.id);
    let left = meta.txn(&Call::prefix(map::PREFIX)).unwrap();
    let own = format!("/{}", first.id);
    let left: Vec<&str> = left.values(0).iter().map(|found| found.key.as_str()).collect();
    let of_it = ["groups", "whole", "raised", "quotas", "recycling"].map(|kind| format!("{}{kind}{own}", map::PREFIX));
    for prefix in &of_it {
        assert!(!left.iter().any(|key| key.starts_with(prefix.as_str())), "{left:?}");
    }
    assert!(
        get::<Recycling>(&meta, &map::recycling_key(first.id))
            .unwrap()
            .is_none()
    );
    assert_eq!(
        groups(&meta, other.id).unwrap(),
        groups_before,
        "those of another pool stay"
    );
    let gone = delete_pool(&meta, "main").unwrap_err();
    assert!(matches!(gone, AdminError::NoSuch { what: "pool", .. }), "{gone}");
    let again = create_pool(&meta, &spec(3)).unwrap();
    assert!(again.id > other.id, "{}", again.id);
}

#[test]
fn a_pool_that_something_lies_in_or_is_for_stays_and_says_what() {
    let meta = cluster_of(3);
    let pool = create_pool(&meta, &spec(3)).unwrap();
    create_volume(&meta, "v", "main", 1 << 20).unwrap();
    create_volume(&meta, "w", "main", 1 << 20).unwrap();
    let fate = Fate::Recycle {
        deleted_at: 5,
        purge_at: 500,
    };
    carry_out(&meta, Deletion::of("w", false, fate), &mut || false).unwrap();
    nightly(&meta).unwrap();
    let refused = delete_pool(&meta, "main").unwrap_err();
    let expected = AdminError::PoolInUse {
        pool: "main".to_owned(),
        volumes: vec!["v".to_owned()],
        deleted: vec!["w".to_owned()],
        policies: vec!["nightly".to_owned()],
    };
    assert_eq!(refused, expected);
    let said = refused.to_string();
    for word in ["(v)", "(w)", "(nightly)", "amita volume purge"] {
        assert!(said.contains(word), "{said}");
    }
    purge_of(&meta, "v");
    delete_policy(&meta, "nightly").unwrap();
    assert!(delete_pool(&meta, "main").is_err(), "what can be had back lies in it");
    purge_volume(&meta, "w", 9).unwrap();
    assert_eq!(delete_pool(&meta, "main").unwrap().id, pool.id);
}

/// What nobody can read may be a volume in it.
#[test]
fn a_pool_is_not_deleted_while_a_volume_cannot_be_read_or_the_metadata_is_suspected() {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    let key = map::volume_key("x");
    meta.txn(&Call::put(key.as_str(), "?")).unwrap();
    assert!(delete_pool(&meta, "main").is_err());
    meta.txn(&Call {
        then: vec![Op::Delete { key }],
        ..Call::default()
    })
    .unwrap();
    let why = "it is old".to_owned();
    meta.txn(&Call::put(map::suspect_key(NodeId(1)), json(&map::Suspect { why })))
        .unwrap();
    let refused = delete_pool(&meta, "main").unwrap_err();
    assert!(matches!(refused, AdminError::Suspected { .. }), "{refused}");
}

/// A volume comes into the pool between the look and the deletion: the pool stays.
#[test]
fn a_volume_that_comes_meanwhile_keeps_the_pool() {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    let race = between(&meta, deletes_a_pool, |meta| {
        create_volume(meta, "v", "main", 1 << 20).unwrap();
    });
    let refused = delete_pool(&race, "main").unwrap_err();
    assert!(matches!(refused, AdminError::PoolInUse { .. }), "{refused}");
    assert_eq!(pools(&meta).unwrap().len(), 1);
    assert_eq!(volume(&meta, "v").unwrap().id, VolumeId(1));
    // It came and went again: nothing lies in it.
    purge_of(&meta, "v");
    let race = between(&meta, deletes_a_pool, |meta| {
        create_volume(meta, "v", "main", 1 << 20).unwrap();
        purge_of(meta, "v");
    });
    delete_pool(&race, "main").unwrap();
    assert!(pools(&meta).unwrap().is_empty());
}

/// The pool goes while a volume is being made in it: no volume lies in a pool that does not exist.
#[test]
fn a_pool_that_goes_meanwhile_gets_no_volume_and_no_policy() {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    let delete = |meta: &dyn Transact| {
        delete_pool(meta, "main").unwrap();
    };
    let refused = create_volume(&between(&meta, makes_a_volume, delete), "v", "main", 1 << 20).unwrap_err();
    assert!(matches!(refused, AdminError::NoSuch { what: "pool", .. }), "{refused}");
    assert!(volumes(&meta).unwrap().is_empty());
    // And where another one has its name by then, the volume lies in that.
    let old = create_pool(&meta, &spec(3)).unwrap();
    let anew = |meta: &dyn Transact| {
        delete_pool(meta, "main").unwrap();
        create_pool(meta, &spec(3)).unwrap();
    };
    create_volume(&between(&meta, makes_a_volume, anew), "v", "main", 1 << 20).unwrap();
    assert!(pools(&meta).unwrap()[0].id > old.id);
    purge_of(&meta, "v");
    assert!(nightly(&between(&meta, makes_a_policy, delete)).is_err());
    assert!(policies(&meta, Duration::ZERO).unwrap().0.is_empty());
}

/// A policy comes between the look and the deletion; and one that is there is changed to be for the pool.
#[test]
fn a_policy_that_comes_meanwhile_keeps_the_pool() {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    let race = between(&meta, deletes_a_pool, |meta| drop(nightly(meta).unwrap()));
    let refused = delete_pool(&race, "main").unwrap_err();
    assert!(
        matches!(&refused, AdminError::PoolInUse { policies, .. } if policies == &["nightly"]),
        "{refused}"
    );
    let of_label = PolicyChange {
        target: Some(PolicyTarget::Label {
            key: "a".to_owned(),
            value: "b".to_owned(),
        }),
        ..PolicyChange::default()
    };
    set_policy(&meta, "nightly", &of_label).unwrap();
    let race = between(&meta, deletes_a_pool, |meta| {
        let of_pool = PolicyChange {
            target: Some(PolicyTarget::Pool("main".to_owned())),
            ..PolicyChange::default()
        };
        let changed = set_policy(meta, "nightly", &of_pool).unwrap();
        assert_eq!(changed.target, Target::Pool("main".to_owned()));
    });
    let refused = delete_pool(&race, "main").unwrap_err();
    assert!(matches!(refused, AdminError::PoolInUse { .. }), "{refused}");
}

#[test]
fn a_class_that_no_store_has_is_named_with_those_that_there_are() {
    let meta = cluster_of(3);
    let floppy = PoolSpec {
        class: Some("floppy".to_owned()),
        ..spec(3)
    };
    let refused = create_pool(&meta, &floppy).unwrap_err().to_string();
    assert!(
        refused.contains("class floppy") && refused.contains("amita disk class"),
        "{refused}"
    );
    classify_store(&meta, store_of(NodeId(1)).id, "nvme").unwrap();
    let refused = create_pool(&meta, &floppy).unwrap_err().to_string();
    assert!(refused.contains("there are nvme"), "{refused}");
}

/// The beginning of a UUID that is too short says so, and one of several says which.
#[test]
fn the_beginning_of_a_store_says_what_is_missing() {
    let meta = cluster_of(3);
    let whole = store_of(NodeId(1)).id.to_string();
    assert_eq!(find_store(&meta, &whole).unwrap().id.to_string(), whole);
    let several = find_store(&meta, "0000").unwrap_err().to_string();
    assert!(several.contains("3 UUIDs begin so"), "{several}");
    let short = find_store(&meta, "0").unwrap_err().to_string();
    assert!(short.contains("write more of it"), "{short}");
    let none = find_store(&meta, "ffff").unwrap_err();
    assert!(matches!(none, AdminError::NoSuch { what: "store", .. }), "{none}");
}
