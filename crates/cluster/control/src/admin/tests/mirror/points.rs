//! Points are cut, arrived at, and kept.

use super::*;
use crate::mirror::Refused;

#[test]
fn a_point_is_a_protected_set_and_is_cut_when_the_interval_is_over() {
    let meta = near();
    let first = cut(&meta, 0, 0);
    assert_eq!(
        (first.name.to_string().as_str(), &*first.snapshots),
        ("0-1", "mirror-dr-00000000-0-1")
    );
    for name in ["db", "log"] {
        let found = snapshot(&meta, name, "mirror-dr-00000000-0-1").unwrap();
        assert!(found.protected && found.set.is_some());
        assert_eq!(found.labels.get(crate::mirror::MIRROR_LABEL), Some(&ID.to_string()));
    }
    assert_eq!(cut(&meta, 0, 59), first, "it is young still");
    let second = cut(&meta, 0, 60);
    assert_eq!(second.name.number, 2);
    assert_eq!(record(&meta).standing.points, [first, second]);
    assert!(record(&meta).cutting.is_none());
    // In its own epoch, and as primary alone.
    assert!(matches!(
        why(cut_point(&meta, "dr", MirrorEpoch(2), NOW)),
        Refused::Epoch { .. }
    ));
    let far = far();
    assert!(matches!(
        why(cut_point(&far, "dr", MirrorEpoch(0), NOW)),
        Refused::Role { .. }
    ));
}

/// T1: a snapshot of one volume alone, or of another set, is no point.
#[test]
fn t1_a_point_is_one_set() {
    let meta = near();
    assert_eq!(cut_point(&meta, "dr", MirrorEpoch(0), NOW).unwrap(), Cutting::Waiting);
    take_sets(&meta);
    // One of them is of another moment.
    let found = snapshot(&meta, "log", "mirror-dr-00000000-0-1").unwrap();
    let other = Snapshot {
        set: Some(amita_types::SetId(99)),
        ..found.clone()
    };
    put(&meta, map::snapshot_key(found.volume, found.number), &other);
    assert_eq!(cut_point(&meta, "dr", MirrorEpoch(0), NOW).unwrap(), Cutting::Waiting);
    assert!(record(&meta).standing.points.is_empty());
    take_sets(&meta);
    assert!(matches!(
        cut_point(&meta, "dr", MirrorEpoch(0), NOW).unwrap(),
        Cutting::Cut(_)
    ));
}

/// T5: the last point counts where each snapshot was sealed under a generation behind its volume's closing.
#[test]
fn t5_the_last_point_is_cut_when_nobody_of_before_can_acknowledge() {
    let meta = near();
    demote_mirror(&meta, "dr").unwrap();
    let refused = cut_point(&meta, "dr", MirrorEpoch(0), NOW).unwrap_err();
    assert!(refused.to_string().contains("open still"), "{refused}");
    assert!(close_mirrored(&meta, "dr").unwrap());
    assert_eq!(cut_point(&meta, "dr", MirrorEpoch(0), NOW).unwrap(), Cutting::Waiting);
    // Taken under the generations that they were closed with, which no owner has made the stores adopt.
    assert_eq!(take_sets(&meta), 1);
    assert_eq!(cut_point(&meta, "dr", MirrorEpoch(0), NOW).unwrap(), Cutting::Waiting);
    assert_eq!(record(&meta).standing.role, MirrorRole::Demoting);
    open(&meta, "db");
    open(&meta, "log");
    let last = cut(&meta, 0, 1);
    let standing = record(&meta).standing;
    assert_eq!(
        (standing.role, standing.handed, standing.point),
        (MirrorRole::Secondary, true, Some(last.name))
    );
    // Whoever asks for a point gets the last one.
    assert_eq!(cut(&meta, 0, 1_000), last);
    assert!(volume(&meta, "db").unwrap().closed.is_some(), "and hosts stay refused");
}

/// A runner of the far end makes a pass to this point: all volumes are brought, under the generations that they were opened by.
fn pass(meta: &dyn Transact, claim: u64) {
    begin_pass(meta, "dr", claim, &[1 << 30, 1 << 30]).unwrap().unwrap();
    let opened = [open(meta, "db"), open(meta, "log")];
    note_mirror(meta, "dr", claim, &|record| {
        for (place, generation) in record.pass.as_mut().unwrap().places.iter_mut().zip(opened) {
            (place.whole, place.generation) = (true, generation);
        }
    })
    .unwrap()
    .unwrap();
}

/// The far end, whose near end has a point.
fn with_point() -> (Mutex<State>, Mutex<State>, Point, u64) {
    let (near, far) = (near(), far());
    let first = cut(&near, 0, 0);
    saw(&far, record(&near).standing);
    let claim = claim(&far);
    (near, far, first, claim)
}

#[test]
fn it_is_at_the_point_when_a_set_of_its_own_says_so() {
    let (_, far, first, claim) = with_point();
    assert!(record(&far).fresh);
    pass(&far, claim);
    assert_eq!(record(&far).begun, Some(first.name), "noted before anything is written");
    assert_eq!(arrive(&far, "dr", claim, NOW).unwrap(), Some(false));
    assert_eq!(record(&far).standing.point, None);
    take_sets(&far);
    assert_eq!(arrive(&far, "dr", claim, NOW).unwrap(), Some(true));
    let record = record(&far);
    assert_eq!(
        (record.standing.point, record.begun, record.pass),
        (Some(first.name), None, None)
    );
    let arrived = Point {
        arrived_at: Some(NOW.as_secs()),
        ..first
    };
    assert_eq!(record.standing.points, [arrived]);
    assert!(snapshot(&far, "db", "mirror-dr-00000000-0-1").unwrap().protected);
}

/// T4: what was sealed under another generation than the pass was made by was sealed when others could write.
#[test]
fn t4_snapshots_of_another_opening_are_no_point() {
    let (_, far, _, claim) = with_point();
    pass(&far, claim);
    assert_eq!(arrive(&far, "dr", claim, NOW).unwrap(), Some(false));
    // Another node has had one of them for a moment.
    open(&far, "log");
    take_sets(&far);
    assert!(matches!(why(arrive(&far, "dr", claim, NOW)), Refused::NotWhole { .. }));
    assert_eq!(record(&far).standing.point, None);
    assert!(snapshot(&far, "db", "mirror-dr-00000000-0-1").is_err(), "they are gone");
    let places = record(&far).pass.unwrap().places;
    let whole: Vec<bool> = places.iter().map(|place| place.whole).collect();
    assert_eq!(
        whole,
        [true, false],
        "what somebody has had who noted nothing is brought again"
    );
}

/// Who is at a pass notes a generation before it writes: the set is taken under that, and nothing is brought again.
#[test]
fn t4_where_the_generation_was_noted_only_the_set_is_taken_anew() {
    let (_, far, first, claim) = with_point();
    pass(&far, claim);
    assert_eq!(arrive(&far, "dr", claim, NOW).unwrap(), Some(false));
    take_sets(&far);
    // It was taken, and its runner died: the next one has opened a volume before it looked.
    let generation = open(&far, "log");
    note_mirror(&far, "dr", claim, &|record| {
        record.pass.as_mut().unwrap().places[1].generation = generation;
    })
    .unwrap();
    assert_eq!(arrive(&far, "dr", claim, NOW).unwrap(), Some(false));
    assert!(snapshot(&far, "db", "mirror-dr-00000000-0-1").is_err(), "they are gone");
    assert!(record(&far).pass.unwrap().places.iter().all(|place| place.whole));
    assert_eq!(arrive(&far, "dr", claim, NOW).unwrap(), Some(false));
    assert_eq!(take_sets(&far), 1);
    assert_eq!(arrive(&far, "dr", claim, NOW).unwrap(), Some(true));
    assert_eq!(record(&far).standing.point, Some(first.name));
}

/// Loses the claim before the first change goes through.
struct Superseded<'a> {
    meta: &'a Mutex<State>,
    left: AtomicUsize,
}

impl Transact for Superseded<'_> {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, Error> {
        let changes = call
            .then
            .iter()
            .any(|op| !matches!(op, Op::Get { .. } | Op::Prefix { .. }));
        if changes && self.left.swap(0, Ordering::Relaxed) == 1 {
            claim(self.meta);
        }
        self.meta.txn(call)
    }
}

/// Who is late deletes nothing that its successor has arrived at.
#[test]
fn a_dead_runner_deletes_no_snapshots() {
    let (_, far, _, claim) = with_point();
    pass(&far, claim);
    arrive(&far, "dr", claim, NOW).unwrap();
    open(&far, "log");
    take_sets(&far);
    let late = Superseded {
        meta: &far,
        left: AtomicUsize::new(1),
    };
    assert_eq!(arrive(&late, "dr", claim, NOW).unwrap(), None);
    for name in ["db", "log"] {
        assert!(snapshot(&far, name, "mirror-dr-00000000-0-1").is_ok(), "{name}");
    }
    assert!(record(&far).pass.unwrap().places.iter().all(|place| place.whole));
}

#[test]
fn a_point_of_a_clock_that_was_set_back_is_followed_by_another() {
    let meta = near();
    let ahead = cut(&meta, 0, 10_000);
    let next = cut(&meta, 0, 0);
    assert_eq!(
        (ahead.name.number, next.name.number),
        (1, 2),
        "not ten thousand seconds later"
    );
}

/// What a runner notes compares its claim (P1).
#[test]
fn who_has_lost_the_claim_notes_nothing() {
    let (near, far, _, old) = with_point();
    pass(&far, old);
    arrive(&far, "dr", old, NOW).unwrap();
    take_sets(&far);
    let new = claim(&far);
    assert_eq!(arrive(&far, "dr", old, NOW).unwrap(), None);
    assert_eq!(
        note_mirror(&far, "dr", old, &|record| record.ails = Some("no".to_owned())).unwrap(),
        None
    );
    assert_eq!(begin_pass(&far, "dr", old, &[1, 1]).unwrap(), None);
    let seen = Seen {
        standing: record(&near).standing,
        at: 1,
        clock: 1,
    };
    assert_eq!(see_mirror(&far, "dr", old, &seen).unwrap(), None);
    assert_eq!(record(&far).standing.point, None);
    assert_eq!(arrive(&far, "dr", new, NOW).unwrap(), Some(true));
}

/// Between the look at the snapshots and the note the role may change: that is one comparison, of the record.
#[test]
fn what_is_promoted_meanwhile_arrives_nowhere() {
    let (_, far, _, claim) = with_point();
    pass(&far, claim);
    arrive(&far, "dr", claim, NOW).unwrap();
    take_sets(&far);
    change(&far, |record| record.standing.role = MirrorRole::Promoting);
    assert!(matches!(why(arrive(&far, "dr", claim, NOW)), Refused::Role { .. }));
}

/// T16: nobody deletes a point of a mirror that stands.
#[test]
fn t16_points_are_nobodys_to_delete() {
    let meta = near();
    let first = cut(&meta, 0, 0);
    let second = cut(&meta, 0, 60);
    for name in [&first.snapshots, &second.snapshots] {
        for refused in [
            protect_snapshot(&meta, "db", name, false).unwrap_err(),
            delete_snapshot(&meta, "db", name).unwrap_err(),
            mark_snapshot(&meta, "db", name).unwrap_err(),
        ] {
            assert!(matches!(refused, AdminError::MirrorsPoint { .. }), "{refused}");
        }
    }
    assert!(matches!(
        delete_volume(&meta, "db", true, 9, &mut || false),
        Err(AdminError::Mirrored { .. })
    ));
    // The far end says that it is at the second one: the first is let go of, the second stays.
    saw(
        &meta,
        Standing {
            point: Some(second.name),
            points: vec![first, second.clone()],
            ..Standing::default()
        },
    );
    assert_eq!(let_points_go(&meta, "dr").unwrap(), 1);
    assert_eq!(sweep_points(&meta, "dr").unwrap(), 2);
    let left: Vec<String> = snapshots(&meta, "db")
        .unwrap()
        .into_iter()
        .map(|found| found.name)
        .collect();
    assert_eq!(left, std::slice::from_ref(&second.snapshots));
    assert_eq!(
        (let_points_go(&meta, "dr").unwrap(), sweep_points(&meta, "dr").unwrap()),
        (0, 0)
    );
    // When the mirror is removed they are the operator's.
    remove_mirror(&meta, "dr", true).unwrap();
    protect_snapshot(&meta, "db", &second.snapshots, false).unwrap();
    delete_snapshot(&meta, "db", &second.snapshots).unwrap();
}
