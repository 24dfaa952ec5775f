//! Moves to another pool: what is refused meanwhile, the switch and what it must not pass, crashes between its transactions, two runners.

use super::*;
use amita_types::map::{
    About, CopyPlace, Copying, Export, Namespace, NamespaceSnapshot, Snapshot, SnapshotName, SnapshotState,
    SnapshotWish,
};
use amita_types::{ClusterId, SnapshotId, VolumeId};
use std::collections::BTreeMap;
use std::time::Duration;

pub(super) const MIB: u64 = 1 << 20;
pub(super) const NOW: Duration = Duration::from_secs(100);
pub(super) const SOURCE: VolumeId = VolumeId(1);
pub(super) const TARGET: VolumeId = VolumeId(2);

fn two_pools() -> Mutex<State> {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    let other = PoolSpec {
        name: "other".to_owned(),
        ..spec(2)
    };
    create_pool(&meta, &other).unwrap();
    create_volume(&meta, "db", "main", 64 * MIB).unwrap();
    own(&meta, "db");
    meta
}

pub(super) fn write(meta: &dyn Transact, volume: &Volume) {
    meta.txn(&Call::put(map::volume_key(&volume.name), json(volume)))
        .unwrap();
}

/// Somebody opens it.
pub(super) fn own(meta: &dyn Transact, name: &str) -> Volume {
    let mut now = volume(meta, name).unwrap();
    now.generation = now.generation.next().unwrap();
    now.owner = Some(amita_types::NodeId(1));
    now.lineage.raise();
    write(meta, &now);
    now
}

/// Its owner has taken what is wished, or this; `held`: and holds.
pub(super) fn snap(meta: &dyn Transact, of: &str, name: &str, held: bool) -> Snapshot {
    let mut found = volume(meta, of).unwrap();
    let number = SnapshotId(found.lineage.number.0 + 1);
    (found.lineage.number, found.lineage.sealed, found.lineage.held) = (number, number, held);
    let wish_key = map::snapshot_wish_key(found.id);
    let wish = get::<SnapshotWish>(meta, &wish_key).unwrap();
    let taken = Snapshot {
        volume: found.id,
        number,
        name: name.to_owned(),
        size_bytes: found.size_bytes,
        taken_at: 1,
        labels: wish.map(|(wish, _)| wish.labels).unwrap_or_default(),
        protected: false,
        clones: 0,
        set: None,
        mark: false,
        hidden: false,
        state: SnapshotState::Sealed(found.generation),
    };
    let named = SnapshotName::new(found.host(), found.id, number);
    let call = Call {
        then: vec![
            subsystem::put(map::volume_key(of), &found),
            subsystem::put(map::snapshot_key(found.id, number), &taken),
            subsystem::put(map::snapshot_name_key(found.host(), name), &named),
            Op::Delete { key: wish_key },
        ],
        ..Call::default()
    };
    meta.txn(&call).unwrap();
    taken
}

fn wish(volume: &str) -> MigrateWish<'_> {
    MigrateWish {
        volume,
        pool: Some("other"),
        at_rest: AtRest::AsItIs,
        limit_bytes_per_s: None,
        keys: None,
        now: NOW,
    }
}

pub(super) fn record(meta: &dyn Transact) -> Copying {
    copy_of(meta, TARGET).unwrap().unwrap()
}

/// Somebody is at it; the claim.
pub(super) fn claim(meta: &dyn Transact) -> u64 {
    let key = map::copier_key(TARGET);
    meta.txn(&Call::put(key, b"\"n1\"".to_vec())).unwrap().revision
}

fn place(meta: &dyn Transact, claim: u64, by: &dyn Fn(&mut CopyPlace)) {
    let noted = note_copy(meta, TARGET, claim, &|record| by(&mut record.place)).unwrap();
    assert!(noted.is_some());
}

/// As a runner does it: a pass to each snapshot up to the next one that is taken for the move.
pub(super) fn pass(meta: &dyn Transact, claim: u64) -> SnapshotId {
    assert_eq!(take_copy_snapshot(meta, &record(meta), claim, NOW).unwrap(), None);
    let taken = snap(meta, "db", &record(meta).snapshot, false);
    take_copy_snapshot(meta, &record(meta), claim, NOW).unwrap().unwrap();
    place(meta, claim, &|place| place.last = Some(taken.number));
    let target = own(meta, "~2");
    place(meta, claim, &|place| place.generation = target.generation);
    passes(meta, claim);
    taken.number
}

fn passes(meta: &dyn Transact, claim: u64) {
    while let Pass::To { snapshot, .. } = next_pass(meta, &record(meta)).unwrap() {
        assert_eq!(take_point(meta, &record(meta), &snapshot, claim, NOW).unwrap(), None);
        let point = snap(meta, "~2", &snapshot.name, false);
        assert_eq!(point.number, snapshot.number, "numbers go along (M8)");
        place(meta, claim, &|place| place.base = snapshot.number);
    }
}

/// The last snapshot, behind which the owner holds; its pass is done.
pub(super) fn last(meta: &dyn Transact, claim: u64) -> SnapshotId {
    assert_eq!(dress_move(meta, &record(meta), claim).unwrap(), Dressed::Done);
    next_move_pass(meta, TARGET, claim, None, None).unwrap().unwrap();
    let hold = Duration::from_millis(30);
    let asked = take_last_snapshot(meta, &record(meta), claim, hold, NOW).unwrap();
    assert_eq!(asked, None);
    let key = map::snapshot_wish_key(volume(meta, "db").unwrap().id);
    let wish: SnapshotWish = get(meta, &key).unwrap().unwrap().0;
    assert_eq!(wish.hold_ms, Some(30));
    snap(meta, "db", &record(meta).snapshot, true).number
}

fn last_of(meta: &dyn Transact, claim: u64) -> SnapshotId {
    last(meta, claim)
}

pub(super) fn switch(meta: &dyn Transact, claim: u64, last: SnapshotId) -> Switched {
    switch_volume(meta, &record(meta), claim, last).unwrap()
}

fn is_anew(switched: &Switched) {
    assert!(matches!(switched, Switched::Anew(_)), "{switched:?}");
}

/// A volume with two snapshots, whose move is at its switch.
fn before_switch() -> (Mutex<State>, u64, SnapshotId) {
    let meta = two_pools();
    snap(&meta, "db", "mon", false);
    snap(&meta, "db", "tue", false);
    migrate_volume(&meta, &wish("db")).unwrap();
    let claim = claim(&meta);
    pass(&meta, claim);
    let last = last(&meta, claim);
    (meta, claim, last)
}

fn names(meta: &dyn Transact) -> Vec<(String, u32)> {
    let all = snapshots(meta, "db").unwrap();
    all.into_iter().map(|found| (found.name, found.number.0)).collect()
}

#[test]
fn a_volume_is_in_the_other_pool_from_one_transaction_on() {
    let meta = two_pools();
    export_volume(
        &meta,
        "db",
        &ExportSpec {
            any_client: true,
            ..ExportSpec::default()
        },
    )
    .unwrap();
    label_volume(&meta, "db", &[("team".to_owned(), "a".to_owned())].into(), &[]).unwrap();
    set_tenant(&meta, "db", Some("acme")).unwrap();
    snap(&meta, "db", "mon", false);
    let made = migrate_volume(&meta, &wish("db")).unwrap();
    assert_eq!(
        (made.volume, &*made.name, made.total_bytes()),
        (TARGET, "~2", 128 * MIB)
    );
    assert_eq!(volume(&meta, "db").unwrap().lineage.moving, Some(TARGET));
    let claim = claim(&meta);
    pass(&meta, claim);
    protect_snapshot(&meta, "db", "mon", true).unwrap();
    let before = volume(&meta, "db").unwrap();
    let last = last(&meta, claim);
    assert_eq!(switch(&meta, claim, last), Switched::Made);
    assert_eq!(switch(&meta, claim, last), Switched::Made, "it is told again");
    let now = volume(&meta, "db").unwrap();
    assert_eq!(
        (now.id, &*now.pool, now.host(), now.owner),
        (TARGET, "other", SOURCE, before.owner)
    );
    assert!(now.lineage.given_back && now.lineage.moving.is_none() && !now.lineage.held);
    assert_eq!(now.lineage.number, last, "numbers go on");
    assert!(get::<Export>(&meta, &map::export_key(TARGET)).unwrap().is_some());
    assert!(get::<Export>(&meta, &map::export_key(SOURCE)).unwrap().is_none());
    assert_eq!(about(&meta, TARGET).unwrap().labels["team"], "a");
    let whose: Vec<_> = tenancies(&meta).unwrap();
    assert!(
        matches!(&whose[..], [of] if of.volume == TARGET && of.tenant == "acme"),
        "{whose:?}"
    );
    // By its name, before it is written anew, and behind that.
    assert_eq!(names(&meta), [("mon".to_owned(), 1)]);
    let mon = snapshot(&meta, "db", "mon").unwrap();
    assert_eq!((mon.volume, mon.protected), (TARGET, true));
    assert!(end_move(&meta, &record_or(&meta, &made), claim).unwrap());
    let mon = snapshot(&meta, "db", "mon").unwrap();
    assert_eq!((mon.volume, mon.labels.get(POINT_LABEL)), (TARGET, None));
    assert!(copy_of(&meta, TARGET).unwrap().is_none());
    let under = |volume| meta.txn(&Call::prefix(map::snapshot_names_prefix(volume))).unwrap();
    assert_eq!(under(SOURCE).values(0).len(), 1);
    assert_eq!(under(TARGET).values(0).len(), 0);
    // What it was goes.
    let swept = FormerSweep::default().sweep(&meta).unwrap();
    assert_eq!(swept.gone, [(SOURCE, None)]);
    assert!(
        meta.txn(&Call::prefix(map::snapshots_prefix(SOURCE)))
            .unwrap()
            .values(0)
            .is_empty()
    );
    assert_eq!(names(&meta), [("mon".to_owned(), 1)]);
}

/// What hosts have open is cut at the borders of chunks.
#[test]
fn a_volume_does_not_move_to_smaller_chunks() {
    let meta = two_pools();
    let small = PoolSpec {
        name: "small".to_owned(),
        chunk_bytes: 1 << 20,
        ..spec(2)
    };
    create_pool(&meta, &small).unwrap();
    let to = |volume, pool| {
        let wish = MigrateWish {
            pool: Some(pool),
            ..wish(volume)
        };
        migrate_volume(&meta, &wish)
    };
    let refused = to("db", "small");
    assert!(
        matches!(&refused, Err(AdminError::BadSetting { why, .. }) if why.contains("smaller ones, of 1048576")),
        "{refused:?}"
    );
    create_volume(&meta, "cut", "small", 64 * MIB).unwrap();
    to("cut", "other").unwrap();
}

trait Total {
    fn total_bytes(&self) -> u64;
}

impl Total for Copying {
    fn total_bytes(&self) -> u64 {
        self.place.total_bytes
    }
}

fn record_or(meta: &dyn Transact, made: &Copying) -> Copying {
    copy_of(meta, TARGET).unwrap().unwrap_or_else(|| made.clone())
}

#[test]
fn what_would_not_fit_is_refused_meanwhile() {
    let (meta, claim, _) = before_switch();
    let is_refused = |result: Result<()>| match result {
        Err(AdminError::Moving { volume, job, .. }) => assert_eq!((&*volume, &*job), ("db", "migrate-2")),
        other => panic!("{other:?}"),
    };
    is_refused(migrate_volume(&meta, &wish("db")).map(drop));
    is_refused(delete_volume(&meta, "db", true, 9, &mut || false).map(drop));
    let to = "other-name".to_owned();
    let renamed = carry_out(&meta, Deletion::of("db", true, Fate::Rename { to }), &mut || false);
    is_refused(renamed.map(drop));
    let db = volume(&meta, "db").unwrap();
    is_refused(may_shrink(&meta, &db, 32 * MIB));
    is_refused(may_revert(&meta, &db, &snapshot(&meta, "db", "mon").unwrap(), None));
    // Nobody uses the target.
    let spec = ExportSpec {
        any_client: true,
        ..ExportSpec::default()
    };
    let refused = export_volume(&meta, "~2", &spec);
    assert!(
        matches!(&refused, Err(AdminError::Copying { job, .. }) if job == "migrate-2"),
        "{refused:?}"
    );
    // Growing is followed by another pass; clones of its snapshots stay where they are.
    resize_volume(&meta, "db", 128 * MIB).unwrap();
    clone_volume(&meta, "db", "mon", "clone", &About::of(VolumeId(0))).unwrap();
    is_anew(&switch(&meta, claim, volume(&meta, "db").unwrap().lineage.number));
}

#[test]
fn the_switch_passes_nothing_that_came_in_between() {
    type Between = fn(&Mutex<State>);
    let anew: &[(&str, Between)] = &[
        ("a snapshot is deleted", |meta| {
            drop(delete_snapshot(meta, "db", "mon").unwrap())
        }),
        ("one is protected", |meta| {
            drop(protect_snapshot(meta, "db", "mon", true).unwrap())
        }),
        ("it grows", |meta| drop(resize_volume(meta, "db", 65 * MIB).unwrap())),
        ("others open the target", |meta| drop(own(meta, "~2"))),
        ("it is taken back", |meta| assert!(cancel_copy(meta, TARGET).unwrap())),
        ("a snapshot is wished", |meta| {
            ask_snapshot(meta, "db", "wed", BTreeMap::new(), NOW).unwrap();
        }),
    ];
    for (what, between) in anew {
        let (meta, claim, last) = before_switch();
        between(&meta);
        let switched = switch(&meta, claim, last);
        assert!(matches!(switched, Switched::Anew(_)), "{what}: {switched:?}");
        assert_eq!(volume(&meta, "db").unwrap().id, SOURCE, "{what}");
    }
    let let_go: &[(&str, Between)] = &[
        ("its owner lets go", |meta| {
            let mut db = volume(meta, "db").unwrap();
            db.lineage.held = false;
            write(meta, &db);
        }),
        ("another one takes it over", |meta| drop(own(meta, "db"))),
        ("another one takes it over, and an old record is written", |meta| {
            let mut db = own(meta, "db");
            db.lineage.held = true;
            write(meta, &db);
        }),
        ("a later snapshot is taken", |meta| drop(snap(meta, "db", "wed", false))),
    ];
    for (what, between) in let_go {
        let (meta, claim, last) = before_switch();
        between(&meta);
        assert_eq!(switch(&meta, claim, last), Switched::LetGo, "{what}");
        assert_eq!(volume(&meta, "db").unwrap().id, SOURCE, "{what}");
    }
}

/// Does something else right before the switch itself is sent.
struct Racing<'a> {
    meta: &'a Mutex<State>,
    done: AtomicUsize,
    what: &'a (dyn Fn(&Mutex<State>) + Sync),
}

impl Transact for Racing<'_> {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, Error> {
        if !call.is_read_only() && self.done.fetch_add(1, Ordering::Relaxed) == 0 {
            (self.what)(self.meta);
        }
        self.meta.txn(call)
    }
}

#[test]
fn what_comes_while_the_switch_is_on_its_way_makes_it_fail() {
    type What = fn(&Mutex<State>);
    let all: &[(What, Switched)] = &[
        (
            |meta| {
                let mut db = volume(meta, "db").unwrap();
                db.lineage.held = false;
                write(meta, &db);
            },
            Switched::LetGo,
        ),
        (|meta| drop(own(meta, "db")), Switched::LetGo),
        (|meta| _ = claim(meta), Switched::Lost),
    ];
    for (what, expected) in all {
        let (meta, held, last) = before_switch();
        let racing = Racing {
            meta: &meta,
            done: AtomicUsize::new(0),
            what,
        };
        assert_eq!(switch_volume(&racing, &record(&meta), held, last).unwrap(), *expected);
        assert_eq!(volume(&meta, "db").unwrap().id, SOURCE);
    }
    // What only changes a record that goes along is carried along all the same.
    let (meta, held, last) = before_switch();
    let racing = Racing {
        meta: &meta,
        done: AtomicUsize::new(0),
        what: &|meta| {
            label_volume(meta, "db", &[("late".to_owned(), "yes".to_owned())].into(), &[]).unwrap();
        },
    };
    assert_eq!(
        switch_volume(&racing, &record(&meta), held, last).unwrap(),
        Switched::Made
    );
    assert_eq!(about(&meta, TARGET).unwrap().labels["late"], "yes");
}

/// Whichever of the two comes first keeps the other one away.
#[test]
fn a_volume_that_moves_is_never_being_made_smaller() {
    let meta = two_pools();
    let racing = Racing {
        meta: &meta,
        done: AtomicUsize::new(0),
        what: &|meta| {
            begin_shrink(meta, &volume(meta, "db").unwrap(), 32 * MIB).unwrap();
        },
    };
    let refused = migrate_volume(&racing, &wish("db")).unwrap_err().to_string();
    assert!(refused.contains("being made smaller"), "{refused}");
    let db = volume(&meta, "db").unwrap();
    assert_eq!(db.lineage.moving, None);
    give_up_shrink(&meta, "db").unwrap();
    // It begins to move when who makes it smaller has looked at it.
    migrate_volume(&meta, &wish("db")).unwrap();
    let refused = begin_shrink(&meta, &db, 32 * MIB).unwrap_err();
    assert!(matches!(refused, AdminError::Moving { .. }), "{refused}");
    assert_eq!(about(&meta, SOURCE).unwrap().shrink, None);
}

#[test]
fn two_runners_are_never_at_one_move() {
    let (meta, old, last) = before_switch();
    let new = claim(&meta);
    assert_eq!(switch(&meta, old, last), Switched::Lost);
    assert_eq!(
        dress_move(&meta, &record(&meta), old).unwrap(),
        Dressed::Done,
        "it changes nothing"
    );
    assert!(
        next_move_pass(&meta, TARGET, old, Some(Duration::ZERO), None)
            .unwrap()
            .is_none()
    );
    assert!(!stay_in_pool(&meta, &record(&meta), old).unwrap());
    // The second one opens the target, which raises its generation: what the first has done is not believed before a pass of its own.
    let target = own(&meta, "~2");
    place(&meta, new, &|place| place.found(target.generation));
    assert!(record(&meta).place.mixed);
    is_anew(&switch(&meta, new, last));
    place(&meta, new, &|place| {
        (place.generation, place.mixed) = (target.generation, false);
    });
    is_anew(&switch(&meta, new, last));
    // Behind a snapshot of the target under its own generation it is.
    let db = own(&meta, "db");
    assert_eq!(db.lineage.number, last);
    let next = next_move_pass(&meta, TARGET, new, Some(Duration::from_millis(140)), None);
    // It is held for half as long again as that last pass would have needed.
    let held = move_hold(next.unwrap().unwrap().moving.unwrap(), Duration::ZERO);
    assert_eq!(held, Duration::from_millis(240));
    pass(&meta, new);
    let again = last_of(&meta, new);
    assert_eq!(switch(&meta, new, again), Switched::Made);
    assert_eq!(names(&meta), [("mon".to_owned(), 1), ("tue".to_owned(), 2)]);
}

#[test]
fn a_runner_that_dies_behind_the_switch_is_followed_by_one_that_tidies_up() {
    let (meta, first, last) = before_switch();
    assert_eq!(switch(&meta, first, last), Switched::Made);
    let moved = record(&meta);
    assert!(moved.whole && moved.is_due());
    assert!(!cancel_copy(&meta, TARGET).unwrap(), "there is nothing to take back");
    let db = volume(&meta, "db").unwrap();
    let mon = snapshot(&meta, "db", "mon").unwrap();
    assert!(matches!(
        may_revert(&meta, &db, &mon, None),
        Err(AdminError::Moving { .. })
    ));
    // What is deleted meanwhile stays deleted, and a name that is taken anew stays the new one's.
    delete_snapshot(&meta, "db", "tue").unwrap();
    snap(&meta, "db", "tue", false);
    let second = claim(&meta);
    assert!(!end_move(&meta, &moved, first).unwrap());
    assert!(end_move(&meta, &moved, second).unwrap());
    let number = snapshot(&meta, "db", "tue").unwrap().number;
    assert_eq!(names(&meta), [("mon".to_owned(), 1), ("tue".to_owned(), number.0)]);
    assert!(number > last);
}

#[test]
fn cancelled_the_volume_stays_and_is_used_as_ever() {
    let (meta, claim, _) = before_switch();
    assert!(cancel_copy(&meta, TARGET).unwrap());
    let fate = Fate::Purge {
        snapshots: true,
        now: 1,
    };
    let mut target = volume(&meta, "~2").unwrap();
    target.owner = None;
    write(&meta, &target);
    carry_out(&meta, Deletion::of("~2", true, fate).only(TARGET), &mut || true).unwrap();
    let record = record(&meta);
    assert!(stay_in_pool(&meta, &record, claim).unwrap());
    forget_move_snapshots(&meta, &record, &[]).unwrap();
    assert!(end_copy(&meta, TARGET, claim).unwrap());
    assert_eq!(names(&meta), [("mon".to_owned(), 1), ("tue".to_owned(), 2)]);
    assert_eq!(volume(&meta, "db").unwrap().lineage.moving, None);
    // Under another number.
    assert_eq!(migrate_volume(&meta, &wish("db")).unwrap().volume, VolumeId(3));
}

#[test]
fn a_snapshot_that_hosts_use_keeps_its_volume_where_it_is() {
    let meta = two_pools();
    let mon = snap(&meta, "db", "mon", false);
    create_subsystem(
        &meta,
        &SubsystemSpec {
            name: "s".to_owned(),
            ..SubsystemSpec::default()
        },
    )
    .unwrap();
    let (mut subsystem, _) = get::<map::Subsystem>(&meta, &map::subsystem_key("s")).unwrap().unwrap();
    subsystem.namespaces.push(Namespace {
        nsid: 1,
        volume: SOURCE,
        uuid: Namespace::uuid_of(ClusterId(1), SOURCE),
        block_bytes: 4096,
        snapshot: Some(NamespaceSnapshot {
            number: mon.number,
            size_bytes: mon.size_bytes,
        }),
    });
    meta.txn(&Call::put(map::subsystem_key("s"), json(&subsystem))).unwrap();
    let refused = migrate_volume(&meta, &wish("db")).unwrap_err().to_string();
    assert!(refused.contains("namespace 1 of subsystem s"), "{refused}");
    // The volume itself goes along.
    subsystem.namespaces[0].snapshot = None;
    meta.txn(&Call::put(map::subsystem_key("s"), json(&subsystem))).unwrap();
    migrate_volume(&meta, &wish("db")).unwrap();
    let held = claim(&meta);
    pass(&meta, held);
    let last = last(&meta, held);
    assert_eq!(switch(&meta, held, last), Switched::Made);
    let (subsystem, _) = get::<map::Subsystem>(&meta, &map::subsystem_key("s")).unwrap().unwrap();
    assert_eq!(
        (subsystem.namespaces[0].volume, subsystem.namespaces[0].nsid),
        (TARGET, 1)
    );
}

/// Seed 204 of the simulator's moves: a runner dies behind the seal of one of the volume's own snapshots, and whoever follows it cannot know what is in it.
#[test]
fn a_number_that_was_sealed_and_has_gone_stays_used() {
    let meta = two_pools();
    let own_one = snap(&meta, "db", "monday", false);
    migrate_volume(&meta, &wish("db")).unwrap();
    let by = claim(&meta);
    assert_eq!(take_copy_snapshot(&meta, &record(&meta), by, NOW).unwrap(), None);
    let taken = snap(&meta, "db", &record(&meta).snapshot, false);
    take_copy_snapshot(&meta, &record(&meta), by, NOW).unwrap().unwrap();
    let target = own(&meta, "~2");
    let begun = |place: &mut CopyPlace| {
        (place.last, place.pass, place.generation) = (Some(taken.number), own_one.number, target.generation);
    };
    place(&meta, by, &begun);
    assert_eq!(take_point(&meta, &record(&meta), &own_one, by, NOW).unwrap(), None);
    let point = snap(&meta, "~2", "monday", false);
    // It is there: whoever asks again has it.
    assert_eq!(
        take_point(&meta, &record(&meta), &own_one, by, NOW).unwrap(),
        Some(point)
    );
    assert!(has_point(&meta, &record(&meta), own_one.number, target.generation).unwrap());
    // Somebody else had the target, and it goes.
    let opened = own(&meta, "~2");
    place(&meta, by, &|place| place.generation = opened.generation);
    assert!(drop_points(&meta, &record(&meta), by).unwrap());
    for _ in 0..2 {
        let refused = take_point(&meta, &record(&meta), &own_one, by, NOW).unwrap_err();
        assert!(refused.to_string().contains("used up"), "{refused}");
        let key = map::snapshot_wish_key(TARGET);
        assert!(
            get::<SnapshotWish>(&meta, &key).unwrap().is_none(),
            "no other number is asked for"
        );
    }
    assert!(!has_point(&meta, &record(&meta), own_one.number, opened.generation).unwrap());
}

/// The target's owner has begun with what is wished of it, and somebody else opens it before that is sealed (S2); the number that came to nothing.
fn void(meta: &dyn Transact, name: &str) -> SnapshotId {
    let before = volume(meta, "~2").unwrap();
    let begun = Snapshot {
        state: SnapshotState::Taking(before.generation),
        ..snap(meta, "~2", name, false)
    };
    meta.txn(&Call::put(map::snapshot_key(TARGET, begun.number), json(&begun)))
        .unwrap();
    let mut now = volume(meta, "~2").unwrap();
    (now.lineage.sealed, now.lineage.taking) = (before.lineage.sealed, true);
    write(meta, &now);
    assert!(
        is_number_free(meta, &record(meta), begun.number).unwrap(),
        "it is about to be sealed"
    );
    now.lineage.end(false);
    write(meta, &now);
    let opened = own(meta, "~2");
    let by = get::<String>(meta, &map::copier_key(TARGET)).unwrap().unwrap().1;
    place(meta, by, &|place| place.generation = opened.generation);
    begun.number
}

/// Seed 501387 of the simulator's moves: what came to nothing is there until its name is taken again, and was taken for what was asked for. So that was
/// asked for again, got the next number, and with it that of a snapshot of the volume's own.
#[test]
fn a_number_that_came_to_nothing_is_no_less_used_where_its_record_is_left() {
    let meta = two_pools();
    migrate_volume(&meta, &wish("db")).unwrap();
    let by = claim(&meta);
    assert_eq!(take_copy_snapshot(&meta, &record(&meta), by, NOW).unwrap(), None);
    let taken = snap(&meta, "db", &record(&meta).snapshot, false);
    own(&meta, "~2");
    assert_eq!(take_point(&meta, &record(&meta), &taken, by, NOW).unwrap(), None);
    assert_eq!(void(&meta, &taken.name), taken.number);
    assert!(!is_number_free(&meta, &record(&meta), taken.number).unwrap());
    let refused = take_point(&meta, &record(&meta), &taken, by, NOW).unwrap_err();
    assert!(refused.to_string().contains("used up"), "{refused}");
    // It was taken for the move, so the next one serves: the volume's own is its number there, too.
    let monday = snap(&meta, "db", "monday", false);
    assert_eq!(take_point(&meta, &record(&meta), &monday, by, NOW).unwrap(), None);
    assert_eq!(void(&meta, "monday"), monday.number);
    assert!(!is_number_free(&meta, &record(&meta), monday.number).unwrap());
    let refused = take_point(&meta, &record(&meta), &monday, by, NOW).unwrap_err();
    assert!(refused.to_string().contains("used up"), "{refused}");
}

/// Where the target's number is another snapshot's, the next one would be no copy by its number: neither is it taken, nor does the volume become it.
#[test]
fn a_volume_does_not_become_what_has_its_snapshots_by_other_numbers() {
    let (meta, by, last) = before_switch();
    let all = snapshots(&meta, "db").unwrap();
    let tuesday = all.iter().find(|found| found.name == "tue").unwrap();
    let key = map::snapshot_key(TARGET, tuesday.number);
    let (point, _) = get::<Snapshot>(&meta, &key).unwrap().unwrap();
    let other = Snapshot {
        number: SnapshotId(last.0 + 1),
        ..point
    };
    let moved = Call {
        then: vec![
            Op::Delete { key },
            subsystem::put(map::snapshot_key(TARGET, other.number), &other),
        ],
        ..Call::default()
    };
    meta.txn(&moved).unwrap();
    is_anew(&switch(&meta, by, last));
    let refused = dress_move(&meta, &record(&meta), by).unwrap_err();
    assert!(refused.to_string().contains("number, 2, is used up"), "{refused}");
    assert!(
        get::<Snapshot>(&meta, &map::snapshot_key(TARGET, other.number))
            .unwrap()
            .is_some()
    );
    let mut target = volume(&meta, "~2").unwrap();
    (target.lineage.number, target.lineage.sealed) = (other.number, other.number);
    write(&meta, &target);
    assert!(
        !is_number_free(&meta, &record(&meta), other.number).unwrap(),
        "another one has it"
    );
}
