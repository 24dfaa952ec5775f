//! An end that is no primary is removed; a mirror is added again under its name; and who uses its volumes.

use super::super::clone::overtaken;
use super::super::iscsi::{made, of, subsystem};
use super::*;
use crate::mirror::Refused;

/// Another mirror's number, with other digits at its beginning.
const OTHER: MirrorId = MirrorId(0xabcd_ef01 << 96);

fn begun(far: &dyn Transact) -> u64 {
    let near = near();
    cut(&near, 0, 0);
    saw(far, record(&near).standing);
    let claim = claim(far);
    begin_pass(far, "dr", claim, &[1 << 30, 1 << 30]).unwrap().unwrap();
    claim
}

/// A far end that has arrived at a point.
fn arrived() -> (Mutex<State>, u64) {
    let far = far();
    let claim = begun(&far);
    let opened = [open(&far, "db"), open(&far, "log")];
    change(&far, |record| {
        for (place, generation) in record.pass.as_mut().unwrap().places.iter_mut().zip(opened) {
            (place.whole, place.generation) = (true, generation);
        }
    });
    assert_eq!(arrive(&far, "dr", claim, NOW).unwrap(), Some(false));
    take_sets(&far);
    assert_eq!(arrive(&far, "dr", claim, NOW).unwrap(), Some(true));
    (far, claim)
}

fn is_ordinary(meta: &dyn Transact) {
    assert!(mirrors(meta).unwrap().is_empty());
    for name in ["db", "log"] {
        let found = volume(meta, name).unwrap();
        assert!(found.closed.is_none(), "{name} is open to hosts");
        delete_volume(meta, name, true, 9, &mut || false).unwrap();
    }
}

/// The near end is lost before the first point has arrived: nothing else would ever open the volumes.
#[test]
fn an_end_that_never_arrived_at_a_point_is_left() {
    let untouched = far();
    assert_eq!(why(force_mirror(&untouched, "dr")), Refused::NoPoint);
    let before = volume(&untouched, "db").unwrap().generation;
    leave_mirror(&untouched, "dr").unwrap();
    assert!(
        volume(&untouched, "db").unwrap().generation > before,
        "whoever had it is fenced"
    );
    is_ordinary(&untouched);
    let in_a_pass = far();
    let claim = begun(&in_a_pass);
    assert_eq!(why(force_mirror(&in_a_pass, "dr")), Refused::NoPoint);
    leave_mirror(&in_a_pass, "dr").unwrap();
    assert!(begin_pass(&in_a_pass, "dr", claim, &[1, 1]).is_err());
    is_ordinary(&in_a_pass);
}

/// What a far end is to make.
fn targets() -> [TargetWish<'static>; 2] {
    ["db", "log"].map(|name| TargetWish {
        name,
        pool: "main",
        size_bytes: 1 << 30,
        keys: None,
    })
}

/// A far end in which the second volume's name was taken, and why it was joined by halves.
fn halves() -> (Mutex<State>, AdminError) {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    create_volume(&meta, "log", "main", 4096).unwrap();
    let refused = add_mirrored(&meta, &wish(true), MirrorEpoch(0), &targets(), ("somebody", NOW)).unwrap_err();
    (meta, refused)
}

/// The second volume's name is taken at the far end, and the operator gives up.
#[test]
fn an_end_that_was_joined_by_halves_is_left() {
    let (meta, refused) = halves();
    assert!(matches!(refused, AdminError::Exists { .. }), "{refused}");
    assert!(volume(&meta, "db").unwrap().closed.is_some());
    leave_mirror(&meta, "dr").unwrap();
    is_ordinary(&meta);
}

/// What had been in the way is gone, and while the rest is made the mirror's record changes.
#[test]
fn an_end_that_was_joined_by_halves_is_gone_on_with_while_its_record_changes() {
    let (meta, _) = halves();
    delete_volume(&meta, "log", true, 9, &mut || false).unwrap();
    let before = record(&meta);
    let race = overtaken(&meta, Box::new(|meta| change(meta, |record| record.interval_s += 1)));
    let joined = add_mirrored(&race, &wish(true), MirrorEpoch(0), &targets(), ("somebody", NOW)).unwrap();
    let names: Vec<&str> = joined.volumes.iter().map(|volume| volume.name.as_str()).collect();
    assert_eq!(names, ["db", "log"]);
    assert_eq!(joined.interval_s, before.interval_s + 1, "what others changed stays");
    for made in &joined.volumes {
        let found = volume(&meta, &made.name).unwrap();
        assert!(found.id == made.id && found.closed.is_some());
    }
}

#[test]
fn an_end_is_left_at_its_point_and_not_in_a_pass_behind_it() {
    let (far, claim) = arrived();
    let point = record(&far).standing.points[0].clone();
    leave_mirror(&far, "dr").unwrap();
    assert_eq!(
        begin_pass(&far, "dr", claim, &[1, 1]).unwrap_err().to_string(),
        mirror(&far, "dr").unwrap_err().to_string()
    );
    let kept = snapshot(&far, "db", &point.snapshots).unwrap();
    assert!(!kept.protected, "it is the operator's");
    is_ordinary(&far);
    // It is no moment's behind a pass that was begun: nothing is changed.
    let (far, _) = arrived();
    change(&far, |record| {
        record.begun = Some(map::PointName {
            number: 2,
            ..point.name
        })
    });
    let before = record(&far);
    assert_eq!(why(leave_mirror(&far, "dr")), Refused::Begun { at: point.name });
    assert_eq!(record(&far), before);
    assert!(volume(&far, "db").unwrap().closed.is_some());
    delete_mirrored(&far, "dr", 9, &mut || false).unwrap();
    assert!(volumes(&far).unwrap().is_empty() && mirrors(&far).unwrap().is_empty());
}

#[test]
fn the_volumes_of_an_end_that_is_left_may_be_deleted_with_it() {
    let far = far();
    begun(&far);
    assert!(matches!(
        delete_volume(&far, "db", true, 9, &mut || false),
        Err(AdminError::Closed { .. })
    ));
    // One of them may not go: nothing is changed.
    protect_volume(&far, "log", true).unwrap();
    let before = (record(&far), volumes(&far).unwrap());
    let refused = delete_mirrored(&far, "dr", 9, &mut || false).unwrap_err();
    assert!(matches!(refused, AdminError::Protected { .. }), "{refused}");
    assert_eq!((record(&far), volumes(&far).unwrap()), before);
    protect_volume(&far, "log", false).unwrap();
    delete_mirrored(&far, "dr", 9, &mut || false).unwrap();
    assert!(volumes(&far).unwrap().is_empty() && mirrors(&far).unwrap().is_empty());
    // Hosts use a primary's.
    let near = near();
    assert!(matches!(
        why(delete_mirrored(&near, "dr", 9, &mut || false)),
        Refused::Role { .. }
    ));
    assert!(matches!(why(leave_mirror(&near, "dr")), Refused::Role { .. }));
    assert!(volume(&near, "db").is_ok());
}

/// Who was deposed keeps what it has; and a removal that was cut short is neither joined over nor lost.
#[test]
fn a_deposed_end_is_left_as_it_is_and_half_a_removal_is_done_again() {
    let meta = near();
    cut(&meta, 0, 0);
    depose_mirror(&meta, "dr", MirrorEpoch(1)).unwrap();
    assert!(close_mirrored(&meta, "dr").unwrap());
    leave_mirror(&meta, "dr").unwrap();
    is_ordinary(&meta);
    let far = far();
    change(&far, |record| record.joining = true);
    let found = volume(&far, "db").unwrap();
    put(&far, map::volume_key("db"), &Volume { closed: None, ..found });
    let refused = complete_mirrored(&far, "dr").unwrap_err();
    assert!(refused.to_string().contains("removal"), "{refused}");
    leave_mirror(&far, "dr").unwrap();
    is_ordinary(&far);
}

fn again() -> MirrorWish<'static> {
    MirrorWish {
        id: OTHER,
        ..wish(false)
    }
}

/// What a mirror has left is the operator's: one of the same name cuts its own.
#[test]
fn a_mirror_that_is_added_again_cuts_points_beside_those_of_before() {
    let meta = near();
    let old = cut(&meta, 0, 0);
    remove_mirror(&meta, "dr", true).unwrap();
    protect_snapshot(&meta, "db", &old.snapshots, true).unwrap();
    add_mirror(&meta, &again(), &["db".to_owned(), "log".to_owned()]).unwrap();
    let new = cut(&meta, 0, 0);
    assert_eq!(new.name, old.name);
    assert_eq!(new.snapshots, "mirror-dr-abcdef01-0-1");
    assert!(
        snapshot(&meta, "db", &old.snapshots).unwrap().protected,
        "by the operator still"
    );
    assert!(snapshot(&meta, "log", &old.snapshots).is_ok());
    assert_eq!(cut(&meta, 0, 60).name.number, 2);
}

/// Another's snapshot has the name of a point: it stays what it is, and whoever asks for the point is told.
#[test]
fn a_snapshot_of_anothers_is_left_alone_and_told_of() {
    let meta = near();
    let first = cut(&meta, 0, 0);
    let of = snapshot(&meta, "db", &first.snapshots).unwrap();
    remove_mirror(&meta, "dr", true).unwrap();
    protect_snapshot(&meta, "db", &first.snapshots, true).unwrap();
    // Of the same first digits.
    let same = MirrorWish {
        id: MirrorId(78),
        ..wish(false)
    };
    add_mirror(&meta, &same, &["db".to_owned(), "log".to_owned()]).unwrap();
    let refused = cut_point(&meta, "dr", MirrorEpoch(0), NOW).unwrap_err();
    assert!(
        matches!(&refused, AdminError::Exists { name, .. } if name.contains(&first.snapshots)),
        "{refused}"
    );
    let kept = snapshot(&meta, "db", &first.snapshots).unwrap();
    assert_eq!((kept.number, kept.protected), (of.number, true));
}

/// A set that comes to nothing for a reason that lasts is asked for anew, and does so aloud.
#[test]
fn why_a_set_came_to_nothing_is_told() {
    let meta = near();
    assert_eq!(cut_point(&meta, "dr", MirrorEpoch(0), NOW).unwrap(), Cutting::Waiting);
    let void = |again| {
        let sets: Vec<SnapshotSet> = list(&meta, &map::sets_prefix()).unwrap();
        let open = sets.iter().find(|set| set.state == SetState::Taking).unwrap();
        put(&meta, map::set_key(open.id), &open.voided("a store is full", again));
    };
    void(true);
    assert_eq!(cut_point(&meta, "dr", MirrorEpoch(0), NOW).unwrap(), Cutting::Waiting);
    void(false);
    let told = cut_point(&meta, "dr", MirrorEpoch(0), NOW).unwrap_err();
    assert!(told.to_string().contains("a store is full"), "{told}");
    assert_eq!(
        cut_point(&meta, "dr", MirrorEpoch(0), NOW).unwrap(),
        Cutting::Waiting,
        "it is asked for anew"
    );
    assert_eq!(take_sets(&meta), 1);
    assert_eq!(cut(&meta, 0, 0).name.number, 1);
}

#[test]
fn a_name_that_leaves_no_room_for_its_points_is_refused() {
    let long = "m".repeat(crate::mirror::MAX_NAME_BYTES);
    let wish_of = |name| MirrorWish { name, ..wish(false) };
    let meta = near_volumes();
    let too_long = format!("{long}m");
    let refused = add_mirror(&meta, &wish_of(&too_long), &["db".to_owned()]).unwrap_err();
    assert!(matches!(refused, AdminError::BadName { .. }), "{refused}");
    let made = add_mirror(&meta, &wish_of(&long), &["db".to_owned()]).unwrap();
    let point = map::PointName {
        epoch: MirrorEpoch(999_999_999_999),
        number: 1 << 48,
    };
    let name = format!("{}-again-{}", crate::mirror::snapshots_of(&made, point), point.epoch);
    assert!(name.len() <= 128, "{} bytes", name.len());
}

/// The owners are asked, and say that so many use the volume, or let go of it.
fn answering(meta: &dyn Transact, clients: Option<u64>) -> impl FnMut() -> bool + '_ {
    move || {
        for name in ["db", "log"] {
            let key = map::closing_key(volume(meta, name).unwrap().id);
            let Some((asked, _)) = get::<map::Closing>(meta, &key).unwrap() else {
                continue;
            };
            assert!(!asked.force);
            match clients {
                Some(_) => {
                    put(meta, key, &map::Closing { clients, ..asked });
                }
                None => {
                    let then = vec![Op::Delete { key }];
                    meta.txn(&Call {
                        then,
                        ..Call::default()
                    })
                    .unwrap();
                }
            }
        }
        true
    }
}

/// A gateway stays a volume's owner when its last client has gone: that is no use.
#[test]
fn a_primary_is_demoted_where_no_host_uses_its_volumes() {
    let meta = near();
    let refused = demote_unused(&meta, "dr", &mut answering(&meta, Some(3))).unwrap_err();
    assert!(
        matches!(&refused, AdminError::InUse { name, clients: 3, .. } if name == "db"),
        "{refused}"
    );
    let silent = demote_unused(&meta, "dr", &mut || false).unwrap_err();
    assert!(matches!(silent, AdminError::OwnerSilent { .. }), "{silent}");
    let key = map::closing_key(volume(&meta, "db").unwrap().id);
    assert!(
        get::<map::Closing>(&meta, &key).unwrap().is_none(),
        "nobody is asked any more"
    );
    assert_eq!(record(&meta).standing.role, MirrorRole::Primary);
    let demoted = demote_unused(&meta, "dr", &mut answering(&meta, None)).unwrap();
    assert_eq!(demoted.standing.role, MirrorRole::Demoting);
    assert!(matches!(
        why(demote_unused(&meta, "dr", &mut || panic!("nobody is asked"))),
        Refused::Role { .. }
    ));
}

/// Others were cloned from a point of it, so that it is hidden only: whoever wants it back has an ordinary volume.
#[test]
fn what_was_deleted_with_its_mirror_is_open_when_it_is_had_back() {
    let (far, _) = arrived();
    let point = record(&far).standing.points[0].snapshots.clone();
    clone_volume(&far, "db", &point, "test", &map::About::of(VolumeId(0))).unwrap();
    let before = volume(&far, "db").unwrap();
    // The other volume's deletion is cut short: the mirror is there.
    half_deleted(&far);
    assert!(matches!(
        undelete_volume(&far, "db", None),
        Err(AdminError::Closed { volume, .. }) if volume == "db"
    ));
    protect_volume(&far, "log", false).unwrap();
    delete_mirrored(&far, "dr", 9, &mut || false).unwrap();
    let back = undelete_volume(&far, "db", None).unwrap();
    assert_eq!(volume(&far, "db").unwrap(), back);
    assert_eq!((back.id, back.owner, &back.closed), (before.id, None, &None));
    assert!(
        back.generation > before.generation,
        "whoever had it closed has it no more"
    );
    let raised = get::<map::Raised>(&far, &map::raised_key(pools(&far).unwrap()[0].id)).unwrap();
    assert_eq!(raised.unwrap().0.generation, back.generation);
    may_take_snapshot(&far, &back).unwrap();
    delete_volume(&far, "test", true, 9, &mut || false).unwrap();
    delete_volume(&far, "db", true, 9, &mut || false).unwrap();
}

/// Nobody asks the owner of any volume before it is seen that none is offered: who does I/O by NVMe or iSCSI is no client that an owner counts.
#[test]
fn a_primary_whose_volume_is_a_namespace_or_a_lun_is_demoted_by_force_alone() {
    let meta = near();
    subsystem(&meta);
    create_target(&meta, &made("t")).unwrap();
    let tried = |meta: &Mutex<State>| {
        let refused = demote_unused(meta, "dr", &mut || panic!("nobody is asked")).unwrap_err();
        assert_eq!(record(meta).standing.role, MirrorRole::Primary);
        for name in ["db", "log"] {
            let key = map::closing_key(volume(meta, name).unwrap().id);
            assert!(get::<map::Closing>(meta, &key).unwrap().is_none(), "{name}");
        }
        refused
    };
    // The second one.
    let nsid = add_namespace(&meta, "s", "log", None, 4096).unwrap().nsid;
    let refused = tried(&meta);
    assert!(
        matches!(&refused, AdminError::Attached { volume, nsid: 1, .. } if volume == "log"),
        "{refused}"
    );
    assert!(refused.to_string().contains("--force"), "{refused}");
    remove_namespace(&meta, "s", nsid).unwrap();
    add_lun(&meta, "t", &of("log")).unwrap();
    let refused = tried(&meta);
    assert!(
        matches!(&refused, AdminError::IsLun { name, .. } if name == "log"),
        "{refused}"
    );
    assert!(refused.to_string().contains("--force"), "{refused}");
    assert_eq!(
        demote_mirror(&meta, "dr").unwrap().standing.role,
        MirrorRole::Demoting,
        "whoever says so"
    );
}

/// A snapshot is read on, whatever its volume is.
#[test]
fn a_snapshot_that_hosts_read_holds_up_no_demotion() {
    let meta = near();
    let point = cut(&meta, 0, 0);
    subsystem(&meta);
    let of_point = format!("log@{}", point.snapshots);
    add_namespace(&meta, "s", &of_point, None, 4096).unwrap();
    let demoted = demote_unused(&meta, "dr", &mut answering(&meta, None)).unwrap();
    assert_eq!(demoted.standing.role, MirrorRole::Demoting);
}

/// Does something just before the first change that is made.
struct Before<'a, F: Fn()> {
    meta: &'a Mutex<State>,
    left: AtomicUsize,
    does: F,
}

impl<F: Fn()> Transact for Before<'_, F> {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, Error> {
        let changes = call
            .then
            .iter()
            .any(|op| !matches!(op, Op::Get { .. } | Op::Prefix { .. }));
        if changes && self.left.swap(0, Ordering::Relaxed) == 1 {
            (self.does)();
        }
        self.meta.txn(call)
    }
}

/// A removal with the volumes that is cut short: one volume is protected when the first one is about to go.
fn half_deleted(meta: &Mutex<State>) -> Mirror {
    let cut_short = Before {
        meta,
        left: AtomicUsize::new(1),
        does: || {
            protect_volume(meta, "log", true).unwrap();
        },
    };
    let refused = delete_mirrored(&cut_short, "dr", 9, &mut || false).unwrap_err();
    assert!(matches!(refused, AdminError::Protected { .. }), "{refused}");
    assert!(volume(meta, "db").is_err());
    assert!(volume(meta, "log").unwrap().closed.is_some(), "nobody has it meanwhile");
    record(meta)
}

/// In the middle of a pass: what is left of it is no moment's, and is never opened as if it were (T2).
#[test]
fn a_removal_that_is_cut_short_forgets_neither_the_point_nor_the_pass() {
    let (far, claim) = arrived();
    let near = near();
    cut(&near, 0, 0);
    cut(&near, 0, 60);
    saw(&far, record(&near).standing);
    begin_pass(&far, "dr", claim, &[1 << 30, 1 << 30]).unwrap().unwrap();
    let before = record(&far);
    let at = before.standing.point.unwrap();
    let left = half_deleted(&far);
    assert!(left.leaving && left.pass.is_none() && left.begun.is_some());
    assert_eq!((left.standing, left.begun), (before.standing, before.begun));
    assert_eq!(why(leave_mirror(&far, "dr")), Refused::Begun { at });
    assert!(volume(&far, "log").unwrap().closed.is_some());
    assert_eq!(
        why(begin_pass(&far, "dr", claim, &[1 << 30, 1 << 30])),
        Refused::Leaving
    );
    assert_eq!(why(arrive(&far, "dr", claim, NOW)), Refused::Leaving);
    assert_eq!(why(pause_mirror(&far, "dr", None)), Refused::Leaving);
    let gone = force_mirror(&far, "dr").unwrap_err();
    assert!(
        matches!(&gone, AdminError::NoSuch { name, .. } if name == "db"),
        "{gone}"
    );
    assert_eq!(record(&far).standing.role, MirrorRole::Secondary);
    protect_volume(&far, "log", false).unwrap();
    delete_mirrored(&far, "dr", 9, &mut || false).unwrap();
    assert!(volumes(&far).unwrap().is_empty() && mirrors(&far).unwrap().is_empty());
}

/// Nothing is gone yet, and the operator promotes it instead: it goes back to its point.
#[test]
fn a_promotion_by_force_ends_a_removal_that_has_done_nothing() {
    let (far, claim) = arrived();
    let near = near();
    cut(&near, 0, 0);
    cut(&near, 0, 60);
    saw(&far, record(&near).standing);
    begin_pass(&far, "dr", claim, &[1 << 30, 1 << 30]).unwrap().unwrap();
    change(&far, |record| (record.leaving, record.pass) = (true, None));
    let forced = force_mirror(&far, "dr").unwrap();
    assert_eq!((forced.standing.role, forced.leaving), (MirrorRole::Promoting, false));
    assert!(forced.begun.is_some() && forced.standing.point.is_some());
}

/// Its own side of the split is given up by nobody's hand, and its volumes do not go on to go back (T14).
#[test]
fn a_deposed_end_whose_removal_is_cut_short_is_deposed_still() {
    let meta = near();
    cut(&meta, 0, 0);
    let other = Standing {
        role: MirrorRole::Primary,
        epoch: MirrorEpoch(1),
        points: record(&meta).standing.points,
        ..Standing::default()
    };
    saw(&meta, other);
    depose_mirror(&meta, "dr", MirrorEpoch(1)).unwrap();
    assert!(close_mirrored(&meta, "dr").unwrap());
    begin_return(&meta, "dr").unwrap().unwrap();
    let before = record(&meta);
    let left = half_deleted(&meta);
    assert_eq!(
        (left.standing.role, &left.returning),
        (MirrorRole::Deposed, &before.returning)
    );
    assert_eq!(crate::mirror::next(&left), crate::mirror::Next::Leave);
    let claim = claim(&meta);
    assert!(follow_mirror(&meta, "dr", claim).is_err());
    let log = volume(&meta, "log").unwrap().host();
    assert_eq!(why(returned(&meta, "dr", claim, log)), Refused::Leaving);
    assert_eq!(why(complete_mirrored(&meta, "dr")), Refused::Leaving);
    assert_eq!(why(leave_mirror(&meta, "dr")), Refused::Leaving);
    assert!(volume(&meta, "log").unwrap().closed.is_some());
    assert!(!close_mirrored(&meta, "dr").unwrap(), "nothing is to be closed again");
}

/// A removal begins, and opens a volume, between the look at the doors and the note that it is joined.
#[test]
fn what_is_being_removed_is_not_joined() {
    let far = far();
    change(&far, |record| record.joining = true);
    let racing = Before {
        meta: &far,
        left: AtomicUsize::new(1),
        does: || {
            change(&far, |record| record.leaving = true);
            let open = crate::admin::mirror::Door::Open(ID);
            crate::admin::mirror::set_door(&far, "db", open, &[]).unwrap().unwrap();
        },
    };
    assert_eq!(why(complete_mirrored(&racing, "dr")), Refused::Leaving);
    assert!(record(&far).joining);
    let target = TargetWish {
        name: "more",
        pool: "main",
        size_bytes: 1 << 30,
        keys: None,
    };
    let more = add_mirrored(&far, &wish(true), MirrorEpoch(0), &[target], ("somebody", NOW));
    assert_eq!(why(more), Refused::Leaving);
    assert!(volume(&far, "more").is_err());
    leave_mirror(&far, "dr").unwrap();
    is_ordinary(&far);
}

/// A pass is begun between the look at what can be promoted and the note: it is looked at again, for now the volumes would have to go back.
#[test]
fn what_is_looked_at_before_a_promotion_is_what_is_promoted() {
    let (far, claim) = arrived();
    let spec = ExportSpec {
        any_client: true,
        read_only: true,
        ..ExportSpec::default()
    };
    export_volume(&far, "log", &spec).unwrap();
    let near = near();
    cut(&near, 0, 0);
    cut(&near, 0, 60);
    saw(&far, record(&near).standing);
    let racing = Before {
        meta: &far,
        left: AtomicUsize::new(1),
        does: || {
            begin_pass(&far, "dr", claim, &[1 << 30, 1 << 30]).unwrap().unwrap();
        },
    };
    let refused = force_mirror(&racing, "dr").unwrap_err();
    assert!(matches!(refused, AdminError::ReadOnlyExport { .. }), "{refused}");
    assert_eq!(record(&far).standing.role, MirrorRole::Secondary);
}

/// Going back takes two snapshots of each volume: without room for them it is not begun.
#[test]
fn nothing_goes_back_without_room_for_its_snapshots() {
    let (far, claim) = arrived();
    let near = near();
    cut(&near, 0, 0);
    cut(&near, 0, 60);
    saw(&far, record(&near).standing);
    begin_pass(&far, "dr", claim, &[1 << 30, 1 << 30]).unwrap().unwrap();
    let quota = |snapshots| set_quota(&far, "main", |quota| quota.snapshots = Some(snapshots)).unwrap();
    // Each has one.
    quota(5);
    let refused = force_mirror(&far, "dr").unwrap_err();
    assert!(matches!(refused, AdminError::OverQuota { .. }), "{refused}");
    quota(6);
    assert_eq!(force_mirror(&far, "dr").unwrap().standing.role, MirrorRole::Promoting);
}
