//! An end comes to be, changes its role, and ends.

use super::*;
use crate::mirror::Refused;
use amita_types::map::PointName;

fn name(epoch: u64, number: u64) -> PointName {
    PointName {
        epoch: MirrorEpoch(epoch),
        number,
    }
}

fn point(epoch: u64, number: u64) -> Point {
    Point {
        name: name(epoch, number),
        cut_at: 1,
        snapshots: format!("mirror-dr-00000000-{epoch}-{number}"),
        arrived_at: None,
    }
}

#[test]
fn the_near_end_is_primary_and_its_volumes_are_of_one_mirror() {
    let meta = near_volumes();
    for (volumes, why) in [
        (vec![], "0 volumes"),
        (vec!["db", "db"], "named twice"),
        (vec!["db", "other"], "other"),
    ] {
        let volumes: Vec<String> = volumes.into_iter().map(str::to_owned).collect();
        let refused = add_mirror(&meta, &wish(false), &volumes).unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
    }
    let before = meta
        .txn(&Call::get(map::volume_key("db")))
        .unwrap()
        .value(0)
        .unwrap()
        .mod_revision;
    let made = add_mirror(&meta, &wish(false), &["db".to_owned()]).unwrap();
    assert_eq!(
        (made.standing.role, made.standing.epoch),
        (MirrorRole::Primary, MirrorEpoch(0))
    );
    let after = meta
        .txn(&Call::get(map::volume_key("db")))
        .unwrap()
        .value(0)
        .unwrap()
        .mod_revision;
    assert!(after > before, "whoever deletes it at this moment compares that");
    assert_eq!(volume(&meta, "db").unwrap().closed, None);
    assert!(matches!(
        add_mirror(&meta, &wish(false), &["log".to_owned()]),
        Err(AdminError::Exists { .. })
    ));
    let again = MirrorWish {
        name: "again",
        id: MirrorId(78),
        ..wish(false)
    };
    let refused = add_mirror(&meta, &again, &["db".to_owned()]).unwrap_err();
    assert!(refused.to_string().contains("in mirror dr"), "{refused}");
    let soon = MirrorWish {
        interval: Some(Duration::from_secs(9)),
        ..again
    };
    assert!(add_mirror(&meta, &soon, &["log".to_owned()]).is_err());
}

#[test]
fn the_far_end_makes_its_volumes_closed_and_ends_what_was_cut_short() {
    let meta = far();
    let found = record(&meta);
    assert_eq!(
        (found.standing.role, found.standing.point),
        (MirrorRole::Secondary, None)
    );
    assert!(found.odd && found.fresh && found.paused.is_none());
    for name in ["db", "log"] {
        let closed = volume(&meta, name).unwrap().closed.unwrap();
        assert_eq!((closed.mirror, &*closed.name), (ID, "dr"));
    }
    // One volume is there when the node that makes them dies; the other one's name is taken then.
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    create_volume(&meta, "log", "main", 1 << 20).unwrap();
    let target = |name| TargetWish {
        name,
        pool: "main",
        size_bytes: 1 << 30,
        keys: None,
    };
    let add = |names: [&'static str; 2]| {
        add_mirrored(
            &meta,
            &wish(true),
            MirrorEpoch(0),
            &names.map(target),
            ("somebody", NOW),
        )
    };
    assert!(matches!(add(["db", "log"]), Err(AdminError::Exists { .. })));
    assert!(record(&meta).joining, "nobody is at it before all are there");
    assert_eq!(add(["db", "log2"]).unwrap().volumes.len(), 2);
    // The node that makes them dies behind the last one: neither that all are there nor an operator's word says that it is joined.
    assert_eq!(add(["db", "log2"]).unwrap().volumes.len(), 2);
    assert_eq!(why(pause_mirror(&meta, "dr", None)), Refused::Joining);
    let claim = claim(&meta);
    assert_eq!(why(begin_pass(&meta, "dr", claim, &[1, 1])), Refused::Joining);
    assert_eq!(why(arrive(&meta, "dr", claim, NOW)), Refused::Joining);
    let joined = complete_mirrored(&meta, "dr").unwrap();
    assert!(!joined.joining && joined.paused.is_none());
    assert!(matches!(
        add(["db", "log2"]),
        Err(AdminError::Exists { what: "mirror", .. })
    ));
    // It needs a cluster whose programs all know of it.
    let mut older = cluster(&meta).unwrap();
    older.version = map::MIRRORS_SINCE - 1;
    put(&meta, map::cluster_key(), &older);
    let other = MirrorWish {
        name: "other",
        id: MirrorId(78),
        ..wish(false)
    };
    let refused = add_mirror(&meta, &other, &["log".to_owned()]).unwrap_err();
    assert!(refused.to_string().contains("finalize"), "{refused}");
}

/// The doors follow the role, in transactions that compare the record.
#[test]
fn volumes_are_closed_and_opened_as_the_record_says_alone() {
    let meta = near();
    assert!(!close_mirrored(&meta, "dr").unwrap(), "a primary's stay open");
    assert_eq!(volume(&meta, "db").unwrap().closed, None);
    demote_mirror(&meta, "dr").unwrap();
    assert!(!open_mirrored(&meta, "dr").unwrap());
    let before = volume(&meta, "db").unwrap().generation;
    assert!(close_mirrored(&meta, "dr").unwrap());
    assert!(volume(&meta, "db").unwrap().generation > before);
    assert!(close_mirrored(&meta, "dr").unwrap(), "done again it does nothing");
    // T2: none is opened where a pass was begun and has not been gone back behind.
    change(&meta, |record| {
        record.standing.role = MirrorRole::Promoting;
        record.begun = Some(name(0, 9));
    });
    assert!(!open_mirrored(&meta, "dr").unwrap());
    assert!(volume(&meta, "db").unwrap().closed.is_some());
    assert!(matches!(ready_mirror(&meta, "dr"), Err(AdminError::Closed { .. })));
    change(&meta, |record| record.begun = None);
    assert!(open_mirrored(&meta, "dr").unwrap());
    assert_eq!(volume(&meta, "log").unwrap().closed, None);
    assert_eq!(ready_mirror(&meta, "dr").unwrap().standing.role, MirrorRole::Primary);
}

/// Fail-over in order, there and back: nothing is copied but what is written.
#[test]
fn it_is_handed_over_and_back() {
    let (near, far) = (near(), far());
    let first = cut(&near, 0, 0);
    // The far end has it.
    change(&far, |record| {
        record.standing.point = Some(first.name);
        record.standing.points = vec![first.clone()];
    });
    demote_mirror(&near, "dr").unwrap();
    saw(&far, record(&near).standing);
    assert!(matches!(why(promote_mirror(&far, "dr")), Refused::NotHanded { .. }));
    close_mirrored(&near, "dr").unwrap();
    open(&near, "db");
    open(&near, "log");
    let last = cut(&near, 0, 1);
    saw(&far, record(&near).standing);
    assert!(matches!(why(promote_mirror(&far, "dr")), Refused::NotAtLast { .. }));
    change(&far, |record| {
        record.standing.point = Some(last.name);
        record.standing.points.push(last.clone());
    });
    promote_mirror(&far, "dr").unwrap();
    assert!(open_mirrored(&far, "dr").unwrap());
    let promoted = ready_mirror(&far, "dr").unwrap();
    assert_eq!(promoted.standing.epoch, MirrorEpoch(1));
    // The near end looks, and follows by itself at the point that it is at.
    let claim = claim(&near);
    let seen = Seen {
        standing: promoted.standing,
        at: 1,
        clock: 1,
    };
    see_mirror(&near, "dr", claim, &seen).unwrap().unwrap();
    assert_eq!(why(depose_mirror(&near, "dr", MirrorEpoch(1))), why_of_known());
    let follows = follow_mirror(&near, "dr", claim).unwrap().unwrap().standing;
    assert_eq!(
        (follows.epoch, follows.point, follows.handed),
        (MirrorEpoch(1), Some(last.name), false)
    );
    assert_eq!(why(begin_pass(&near, "dr", claim, &[1, 1])), Refused::Nothing);
}

fn why_of_known() -> Refused {
    Refused::Role {
        is: MirrorRole::Secondary,
        handed: true,
        wanted: "one that the other end has not got",
    }
}

/// T8, T9: one of the two is promoted by a demotion, whichever comes first.
#[test]
fn t8_t9_a_demotion_is_taken_back_or_followed() {
    let (near, far) = (near(), far());
    demote_mirror(&near, "dr").unwrap();
    close_mirrored(&near, "dr").unwrap();
    open(&near, "db");
    open(&near, "log");
    let last = cut(&near, 0, 0);
    change(&far, |record| {
        record.standing.point = Some(last.name);
        record.standing.points = vec![last.clone()];
    });
    saw(&far, record(&near).standing);
    saw(&near, record(&far).standing);
    assert!(matches!(
        why(take_back_mirror(&near, "dr")),
        Refused::NotDeclined { .. }
    ));
    decline_demotion(&far, "dr").unwrap();
    assert!(matches!(why(promote_mirror(&far, "dr")), Refused::Declined { .. }));
    saw(&near, record(&far).standing);
    assert_eq!(take_back_mirror(&near, "dr").unwrap().standing.epoch, MirrorEpoch(2));
}

/// The decision is by the record that the transaction compares: who reads that it may be promoted, while another one declines, is refused.
#[test]
fn what_was_decided_by_a_record_that_has_changed_is_decided_anew() {
    let far = far();
    let last = point(0, 3);
    change(&far, |record| {
        record.standing.point = Some(last.name);
        record.standing.points = vec![last.clone()];
    });
    saw(
        &far,
        Standing {
            role: MirrorRole::Secondary,
            handed: true,
            point: Some(last.name),
            points: vec![last],
            ..Standing::default()
        },
    );
    let racing = Racing {
        meta: &far,
        left: AtomicUsize::new(1),
    };
    assert!(matches!(why(promote_mirror(&racing, "dr")), Refused::Declined { .. }));
    assert_eq!(record(&far).standing.role, MirrorRole::Secondary);
}

/// Declines before the first change goes through.
struct Racing<'a> {
    meta: &'a Mutex<State>,
    left: AtomicUsize,
}

impl Transact for Racing<'_> {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, Error> {
        let changes = call.then.iter().any(|op| matches!(op, Op::Put { .. }));
        if changes && self.left.swap(0, Ordering::Relaxed) == 1 {
            decline_demotion(self.meta, "dr").unwrap();
        }
        self.meta.txn(call)
    }
}

/// A node that starts has looked by itself: what both ends have is known with that, and a look of before takes the place of no later one.
#[test]
fn who_is_deposed_by_a_look_goes_back_by_it() {
    let meta = near();
    let first = cut(&meta, 0, 0);
    let seen = |points: Vec<Point>| Seen {
        standing: Standing {
            role: MirrorRole::Primary,
            epoch: MirrorEpoch(1),
            points,
            ..Standing::default()
        },
        at: 1,
        clock: 1,
    };
    let looked = seen(vec![first.clone()]);
    assert_eq!(
        depose_seen(&meta, "dr", &looked).unwrap().standing.role,
        MirrorRole::Deposed
    );
    let noted = record(&meta).seen.expect("it was seen").standing;
    assert_eq!((noted.epoch, noted.points[0].name), (MirrorEpoch(1), first.name));
    assert!(matches!(
        why(depose_seen(&meta, "dr", &seen(Vec::new()))),
        Refused::Role { .. }
    ));
    assert_eq!(begin_return(&meta, "dr").unwrap(), Some(first.name));
    // A runner has noted what it saw of that epoch, and is about to depose it.
    let meta = near();
    let first = cut(&meta, 0, 0);
    saw(&meta, seen(vec![first]).standing);
    depose_seen(&meta, "dr", &seen(Vec::new())).unwrap();
    assert_eq!(record(&meta).seen.expect("it was seen").standing.points.len(), 1);
}

/// A primary that hears of a later epoch closes, keeps what it has, and goes back by an operator's word (T11, T12, T15).
#[test]
fn a_deposed_end_waits_and_goes_back_to_the_common_point() {
    let meta = near();
    let first = cut(&meta, 0, 0);
    cut(&meta, 0, 60);
    depose_mirror(&meta, "dr", MirrorEpoch(1)).unwrap();
    assert!(close_mirrored(&meta, "dr").unwrap());
    assert!(matches!(why(begin_return(&meta, "dr")), Refused::Unheard));
    saw(
        &meta,
        Standing {
            role: MirrorRole::Primary,
            epoch: MirrorEpoch(1),
            points: vec![first.clone(), point(1, 2)],
            ..Standing::default()
        },
    );
    assert_eq!(begin_return(&meta, "dr").unwrap(), Some(first.name));
    let claim = claim(&meta);
    assert_eq!(why(gone_back(&meta, "dr", claim, NOW)), Refused::Returning);
    let ids: Vec<VolumeId> = record(&meta).volumes.iter().map(|volume| volume.id).collect();
    for id in ids {
        returned(&meta, "dr", claim, id).unwrap().unwrap();
    }
    // The snapshots of what they are now were not sealed by who had them closed (T12).
    assert_eq!(gone_back(&meta, "dr", claim, NOW).unwrap(), Some(false));
    take_sets(&meta);
    assert_eq!(gone_back(&meta, "dr", claim, NOW).unwrap(), Some(false));
    assert_eq!(record(&meta).standing.role, MirrorRole::Deposed);
    open(&meta, "db");
    open(&meta, "log");
    assert_eq!(gone_back(&meta, "dr", claim, NOW).unwrap(), Some(false));
    take_sets(&meta);
    assert_eq!(gone_back(&meta, "dr", claim, NOW).unwrap(), Some(true));
    let found = record(&meta).standing;
    assert_eq!(
        (found.role, found.epoch, found.point),
        (MirrorRole::Secondary, MirrorEpoch(1), Some(first.name))
    );
    // T15: versions are compared on this side of the revert from now on.
    assert_eq!(found.points.len(), 1);
    assert_eq!(found.points[0].snapshots, "mirror-dr-00000000-0-1-again-1");
    assert!(
        snapshot(&meta, "db", "mirror-dr-00000000-0-1-again-1")
            .unwrap()
            .protected
    );
}

/// T12: what is open to hosts does not go back.
#[test]
fn t12_nothing_goes_back_that_hosts_may_write() {
    let meta = near();
    depose_mirror(&meta, "dr", MirrorEpoch(1)).unwrap();
    let found = record(&meta);
    let claim = claim(&meta);
    let refused = returned(&meta, "dr", claim, found.volumes[0].id).unwrap_err();
    assert!(refused.to_string().contains("open to hosts"), "{refused}");
}

#[test]
fn it_stands_still_when_it_is_told_to_and_a_primary_is_removed() {
    let meta = far();
    assert!(matches!(why(remove_mirror(&meta, "dr", true)), Refused::Role { .. }));
    let paused = map::Paused {
        by: "somebody".to_owned(),
        at: 1,
    };
    assert_eq!(pause_mirror(&meta, "dr", Some(&paused)).unwrap().paused, Some(paused));
    assert_eq!(pause_mirror(&meta, "dr", None).unwrap().paused, None);
    let meta = near();
    remove_mirror(&meta, "dr", true).unwrap();
    assert!(mirrors(&meta).unwrap().is_empty());
    assert!(matches!(mirror(&meta, "dr"), Err(AdminError::NoSuch { .. })));
}

/// What is no step of a role changes nothing of what the end is.
#[test]
fn a_note_changes_no_role() {
    let meta = far();
    let claim = claim(&meta);
    let noted = note_mirror(&meta, "dr", claim, &|record| {
        record.standing.role = MirrorRole::Primary;
        record.ails = Some("the link".to_owned());
    });
    let noted = noted.unwrap().unwrap();
    assert_eq!(
        (noted.standing.role, noted.ails.as_deref()),
        (MirrorRole::Secondary, Some("the link"))
    );
}
