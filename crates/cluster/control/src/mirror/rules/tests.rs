//! Each rule of decision 081 that an end's own record decides: what would be so without the comparison is asked for, and refused.

use super::*;
use amita_types::MirrorId;
use amita_types::map::{MirrorPeer, MirrorVolume};

fn name(epoch: u64, number: u64) -> PointName {
    PointName {
        epoch: MirrorEpoch(epoch),
        number,
    }
}

fn point(epoch: u64, number: u64) -> Point {
    let name = name(epoch, number);
    Point {
        name,
        cut_at: 1_000 + number,
        snapshots: format!("mirror-dr-00000000-{name}"),
        arrived_at: None,
    }
}

fn points(names: &[(u64, u64)]) -> Vec<Point> {
    names.iter().map(|(epoch, number)| point(*epoch, *number)).collect()
}

fn standing(role: MirrorRole, epoch: u64, at: Option<(u64, u64)>, has: &[(u64, u64)]) -> Standing {
    Standing {
        role,
        epoch: MirrorEpoch(epoch),
        point: at.map(|(epoch, number)| name(epoch, number)),
        points: points(has),
        ..Standing::default()
    }
}

fn saw(standing: Standing) -> Option<Seen> {
    Some(Seen {
        standing,
        at: 5_000,
        clock: 5_000,
    })
}

/// An end of two volumes that has seen this of the other one.
fn end(odd: bool, own: Standing, other: Standing) -> Mirror {
    let number = own
        .points
        .iter()
        .map(|point| point.name.number)
        .max()
        .unwrap_or_default();
    Mirror {
        id: MirrorId(77),
        name: "dr".to_owned(),
        odd,
        standing: own,
        number,
        cutting: None,
        begun: None,
        pass: None,
        returning: None,
        fresh: false,
        joining: false,
        leaving: false,
        split: false,
        volumes: [("db", 1), ("log", 2)]
            .map(|(name, id)| MirrorVolume {
                name: name.to_owned(),
                id: VolumeId(id),
            })
            .to_vec(),
        peer: MirrorPeer::default(),
        token_ends_at: None,
        seen: saw(other),
        interval_s: 60,
        keep: 2,
        limit_bytes_per_s: None,
        alert_after_s: None,
        never_deposed: false,
        paused: None,
        ails: None,
    }
}

use MirrorRole::{Demoting, Deposed, Primary, Promoting, Secondary};

fn handed_over(epoch: u64, at: (u64, u64), has: &[(u64, u64)]) -> Standing {
    Standing {
        handed: true,
        ..standing(Secondary, epoch, Some(at), has)
    }
}

/// A far end at point 0-1, whose near end is primary in epoch 0 and has points 0-1 to 0-3.
fn far() -> Mirror {
    let other = standing(Primary, 0, None, &[(0, 1), (0, 2), (0, 3)]);
    end(true, standing(Secondary, 0, Some((0, 1)), &[(0, 1)]), other)
}

/// The volumes are where the pass was to bring them.
fn bring(mirror: &mut Mirror) {
    for place in &mut mirror.pass.as_mut().unwrap().places {
        (place.done_bytes, place.whole) = (place.total_bytes, true);
    }
}

#[test]
fn t1_it_is_at_a_point_when_all_volumes_have_it() {
    let mut mirror = far();
    mirror.begin_pass(&[10, 20]).unwrap();
    mirror.pass.as_mut().unwrap().places[0].whole = true;
    let to = name(0, 3);
    assert_eq!(mirror.arrive(to, "s".to_owned(), 6_000), Err(Refused::NotWhole { to }));
    mirror.pass.as_mut().unwrap().places.truncate(1);
    assert_eq!(mirror.arrive(to, "s".to_owned(), 6_000), Err(Refused::NotWhole { to }));
    mirror.begin_pass(&[10, 20]).unwrap();
    bring(&mut mirror);
    assert_eq!(
        mirror.arrive(name(0, 2), "s".to_owned(), 6_000),
        Err(Refused::NoSuch(name(0, 2)))
    );
    mirror.arrive(to, "s".to_owned(), 6_000).unwrap();
    assert_eq!(
        (mirror.standing.point, mirror.begun, mirror.number),
        (Some(to), None, 3)
    );
    // By the near end's clock, which the far end has seen.
    assert_eq!(mirror.standing.find(to).unwrap().cut_at, 1_003);
    assert_eq!(lag(&mirror, 5_010), Some(5_000 - 1_003 + 10));
}

#[test]
fn t2_who_is_promoted_goes_back_first_wherever_a_pass_was_begun() {
    let mut mirror = far();
    mirror.begin_pass(&[10, 20]).unwrap();
    mirror.force().unwrap();
    assert_eq!((mirror.standing.role, mirror.begun), (Promoting, Some(name(0, 3))));
    assert!(mirror.pass.is_none() && mirror.split);
    assert!(
        matches!(mirror.ready(), Err(Refused::NotWhole { .. })),
        "the middle of a pass"
    );
    assert_eq!(mirror.gone_back("again".to_owned()), Err(Refused::Returning));
    mirror.returned(VolumeId(1)).unwrap();
    assert_eq!(
        mirror.gone_back("again".to_owned()),
        Err(Refused::Returning),
        "one of two"
    );
    mirror.returned(VolumeId(2)).unwrap();
    mirror.gone_back("again".to_owned()).unwrap();
    // T15: what is compared from now on lies on this side of the revert.
    assert_eq!(mirror.standing.find(name(0, 1)).unwrap().snapshots, "again");
    mirror.ready().unwrap();
    assert_eq!((mirror.standing.role, mirror.standing.epoch), (Primary, MirrorEpoch(1)));
}

#[test]
fn t3_a_pass_compares_with_what_it_is_at() {
    let mut mirror = far();
    let begun = mirror.begin_pass(&[10, 20]).unwrap();
    assert_eq!((begun.to, begun.base), (name(0, 3), Some(name(0, 1))));
    let seen = &mut mirror.seen.as_mut().unwrap().standing.points;
    seen.push(point(0, 4));
    // It is left, and goes over into one to the next point, from the beginning.
    mirror.pass.as_mut().unwrap().places[0].done_bytes = 5;
    let begun = mirror.begin_pass(&[10, 20]).unwrap();
    assert_eq!((begun.to, begun.base), (name(0, 4), Some(name(0, 1))), "not with 0-3");
    assert_eq!(mirror.pass.as_ref().unwrap().places[0].done_bytes, 0);
    // What the near end has no more is compared with nothing, and what the point has not is cleared.
    mirror.seen.as_mut().unwrap().standing.points.remove(0);
    let begun = mirror.begin_pass(&[10, 20]).unwrap();
    assert_eq!((begun.base, mirror.pass.as_ref().unwrap().clears), (None, true));
    // Where nothing was ever written nothing need be.
    let mut first = end(
        true,
        standing(Secondary, 0, None, &[]),
        standing(Primary, 0, None, &[(0, 1)]),
    );
    first.fresh = true;
    first.begin_pass(&[10, 20]).unwrap();
    assert!(!first.pass.as_ref().unwrap().clears && !first.fresh);
    first.begin_pass(&[10, 20]).unwrap();
    assert!(first.pass.as_ref().unwrap().clears, "the one that was left has written");
}

#[test]
fn a_pass_is_of_the_epoch_that_both_are_in_and_of_who_can_be_followed() {
    let mut mirror = far();
    mirror.seen.as_mut().unwrap().standing.epoch = MirrorEpoch(2);
    assert!(matches!(mirror.begin_pass(&[1, 1]), Err(Refused::Epoch { .. })));
    let mut mirror = far();
    mirror.seen.as_mut().unwrap().standing.role = Demoting;
    assert!(matches!(mirror.begin_pass(&[1, 1]), Err(Refused::NotServing { .. })));
    let mut mirror = far();
    mirror.standing.point = Some(name(0, 3));
    assert_eq!(mirror.begin_pass(&[1, 1]), Err(Refused::Nothing));
    mirror.seen = None;
    assert_eq!(mirror.begin_pass(&[1, 1]), Err(Refused::Unheard));
}

#[test]
fn t5_the_last_point_is_one_that_was_begun_behind_the_demotion() {
    let mut mirror = end(false, standing(Primary, 0, None, &[(0, 1)]), Standing::default());
    let before = mirror.begin_cut(MirrorEpoch(0), 1_100).unwrap();
    mirror.demote().unwrap();
    assert_eq!(
        mirror.hand(&before),
        Err(Refused::NoSuch(before.name)),
        "somebody could write behind it"
    );
    assert!(mirror.end_cut(&before).is_err());
    let last = mirror.begin_cut(MirrorEpoch(0), 1_200).unwrap();
    assert!(last.name > before.name);
    mirror.hand(&last).unwrap();
    let standing = &mirror.standing;
    assert_eq!(
        (standing.role, standing.handed, standing.point),
        (Secondary, true, Some(last.name))
    );
    assert!(standing.serves() && standing.find(last.name).is_some());
}

#[test]
fn t6_in_order_it_is_promoted_at_the_last_point_alone() {
    let other = handed_over(0, (0, 3), &[(0, 1), (0, 3)]);
    let mut mirror = end(true, standing(Secondary, 0, Some((0, 1)), &[(0, 1)]), other.clone());
    let why = Refused::NotAtLast {
        own: Some(name(0, 1)),
        last: name(0, 3),
    };
    assert_eq!(mirror.promote(), Err(why));
    let mut mirror = end(true, standing(Secondary, 0, Some((0, 3)), &[(0, 3)]), other);
    mirror.promote().unwrap();
    assert_eq!(
        (mirror.standing.role, mirror.standing.epoch),
        (Promoting, MirrorEpoch(1))
    );
    assert!(!mirror.split);
    // And not by one that is primary still.
    assert!(matches!(far().promote(), Err(Refused::NotHanded { is: Primary, .. })));
}

#[test]
fn t7_a_demotion_is_worth_something_in_its_epoch() {
    let other = handed_over(0, (0, 3), &[(0, 3)]);
    let mut mirror = end(true, standing(Secondary, 1, Some((0, 3)), &[(0, 3)]), other);
    assert!(matches!(mirror.promote(), Err(Refused::NotHanded { .. })));
    assert!(matches!(mirror.decline(), Err(Refused::NotHanded { .. })));
}

#[test]
fn t8_a_demotion_is_taken_back_when_it_was_declined() {
    let own = handed_over(2, (2, 4), &[(2, 4)]);
    for (declined, epoch) in [(None, 2), (Some(0), 2), (None, 1)] {
        let other = Standing {
            declined: declined.map(MirrorEpoch),
            ..standing(Secondary, epoch, Some((2, 4)), &[(2, 4)])
        };
        let mut mirror = end(false, own.clone(), other);
        let epoch = MirrorEpoch(2);
        assert_eq!(mirror.take_back(), Err(Refused::NotDeclined { epoch }));
    }
    let other = Standing {
        declined: Some(MirrorEpoch(2)),
        ..standing(Secondary, 2, Some((2, 4)), &[(2, 4)])
    };
    let mut mirror = end(false, own, other);
    mirror.take_back().unwrap();
    assert_eq!(
        (mirror.standing.role, mirror.standing.epoch),
        (Promoting, MirrorEpoch(4))
    );
    assert!(far().take_back().is_err(), "it was never demoted");
}

#[test]
fn t9_who_has_declined_is_not_promoted_by_that_demotion() {
    let other = handed_over(0, (0, 3), &[(0, 3)]);
    let mut mirror = end(true, standing(Secondary, 0, Some((0, 3)), &[(0, 3)]), other);
    mirror.decline().unwrap();
    let epoch = MirrorEpoch(0);
    assert_eq!(mirror.promote(), Err(Refused::Declined { epoch }));
    // By a later one it may be.
    mirror.see(saw(handed_over(2, (2, 4), &[(2, 4)])).unwrap()).unwrap();
    (mirror.standing.epoch, mirror.standing.point) = (MirrorEpoch(2), Some(name(2, 4)));
    mirror.promote().unwrap();
}

#[test]
fn t10_points_are_named_by_their_epochs() {
    // Both have cut their second one, behind a split.
    let own = standing(Deposed, 0, None, &[(0, 1), (0, 2)]);
    let other = standing(Primary, 1, None, &[(0, 1), (1, 2)]);
    assert_eq!(common(&own, &other), Some(name(0, 1)));
    let mut mirror = end(false, standing(Primary, 2, None, &[(0, 1)]), Standing::default());
    let cut = mirror.begin_cut(MirrorEpoch(2), 9).unwrap();
    assert_eq!((cut.name, &*cut.snapshots), (name(2, 2), "mirror-dr-00000000-2-2"));
    let (own, asked) = (MirrorEpoch(2), MirrorEpoch(0));
    assert_eq!(
        mirror.begin_cut(asked, 9),
        Err(Refused::Epoch { own, asked }),
        "it cuts in its own alone"
    );
    mirror.end_cut(&cut).unwrap();
    assert!(matches!(far().begin_cut(MirrorEpoch(0), 9), Err(Refused::Role { .. })));
    assert_eq!("2-2".parse::<PointName>(), Ok(name(2, 2)));
    assert!("2".parse::<PointName>().is_err());
}

#[test]
fn epochs_are_taken_by_one_end_alone() {
    for (odd, own, other, next) in [
        (false, 0, 1, 2),
        (false, 2, 1, 4),
        (true, 0, 0, 1),
        (true, 1, 4, 5),
        (true, 3, 2, 5),
    ] {
        let mirror = end(
            odd,
            standing(Secondary, own, None, &[]),
            standing(Primary, other, None, &[]),
        );
        assert_eq!(mirror.next_epoch(), MirrorEpoch(next), "{odd} {own} {other}");
    }
}

/// A near end that was deposed, and has written behind 0-2.
fn deposed() -> Mirror {
    let own = standing(Deposed, 0, None, &[(0, 1), (0, 2), (0, 3)]);
    end(false, own, standing(Primary, 1, Some((0, 2)), &[(0, 2), (1, 4)]))
}

#[test]
fn t11_who_was_deposed_goes_back_to_the_common_point_before_it_follows() {
    let mut mirror = deposed();
    assert!(mirror.follow().is_err() && mirror.begin_pass(&[1, 1]).is_err());
    assert_eq!(mirror.begin_return().unwrap(), Some(name(0, 2)));
    assert_eq!(mirror.next(), Next::Return);
    assert_eq!(mirror.end_return("again".to_owned()), Err(Refused::Returning));
    mirror.returned(VolumeId(1)).unwrap();
    assert_eq!(
        mirror.end_return("again".to_owned()),
        Err(Refused::Returning),
        "one of two"
    );
    assert_eq!(mirror.force(), Err(Refused::Returning), "it is no moment's");
    mirror.returned(VolumeId(2)).unwrap();
    mirror.end_return("again".to_owned()).unwrap();
    let standing = &mirror.standing;
    assert_eq!(
        (standing.role, standing.epoch, standing.point),
        (Secondary, MirrorEpoch(1), Some(name(0, 2)))
    );
    let has: Vec<PointName> = standing.points.iter().map(|point| point.name).collect();
    assert_eq!(has, [name(0, 1), name(0, 2)], "0-3 is of no history that is left");
    assert_eq!(standing.find(name(0, 2)).unwrap().snapshots, "again");
    assert_eq!(mirror.begin_pass(&[1, 1]).unwrap().base, Some(name(0, 2)));
}

#[test]
fn t13_without_a_common_point_it_has_none_until_all_was_copied() {
    let mut mirror = deposed();
    mirror.seen = saw(standing(Primary, 1, None, &[(1, 4)]));
    assert_eq!(mirror.begin_return().unwrap(), None);
    mirror.end_return("kept".to_owned()).unwrap();
    assert_eq!((mirror.standing.role, mirror.standing.point), (Secondary, None));
    assert!(mirror.standing.points.is_empty(), "nor one that it had");
    // Until the first pass is begun it is what it was: by an operator's word it is kept, where the other end is lost.
    let mut kept = mirror.clone();
    kept.force().unwrap();
    assert_eq!((kept.standing.role, kept.begun), (Promoting, None));
    let mut fresh = mirror.clone();
    fresh.fresh = true;
    assert_eq!(fresh.force(), Err(Refused::NoPoint), "nothing was ever brought");
    let begun = mirror.begin_pass(&[1, 1]).unwrap();
    assert_eq!((begun.base, mirror.pass.as_ref().unwrap().clears), (None, true));
    assert_eq!(mirror.force(), Err(Refused::NoPoint));
    mirror.seen = saw(handed_over(1, (1, 4), &[(1, 4)]));
    assert!(matches!(mirror.promote(), Err(Refused::NotAtLast { .. })));
    bring(&mut mirror);
    mirror.arrive(name(1, 4), "s".to_owned(), 6_000).unwrap();
    mirror.promote().unwrap();
}

#[test]
fn t14_by_itself_it_follows_only_who_has_its_point() {
    // It was demoted in order, and the other end was promoted by force at an earlier point.
    let own = handed_over(0, (0, 3), &[(0, 2), (0, 3)]);
    let mut mirror = end(false, own.clone(), standing(Primary, 1, Some((0, 2)), &[(0, 2)]));
    assert_eq!(mirror.next(), Next::Depose);
    assert_eq!(mirror.follow(), Err(Refused::OwnData));
    mirror.depose(MirrorEpoch(1)).unwrap();
    assert_eq!((mirror.standing.role, mirror.next()), (Deposed, Next::Wait));
    // Where it has that, it goes over by itself, and is deposed by nobody.
    let mut mirror = end(false, own, standing(Primary, 1, Some((0, 3)), &[(0, 3)]));
    assert_eq!(mirror.next(), Next::GoOver);
    assert!(mirror.depose(MirrorEpoch(1)).is_err());
    mirror.follow().unwrap();
    let standing = &mirror.standing;
    assert_eq!(
        (standing.epoch, standing.handed, standing.point),
        (MirrorEpoch(1), false, Some(name(0, 3)))
    );
    // Not before that can be followed.
    mirror.seen = saw(Standing {
        role: Promoting,
        ..self::standing(Promoting, 3, None, &[(0, 3)])
    });
    assert!(matches!(mirror.follow(), Err(Refused::NotServing { .. })));
}

#[test]
fn a_primary_closes_when_it_hears_of_a_later_epoch_and_of_no_other() {
    let near = || {
        end(
            false,
            standing(Primary, 2, None, &[(0, 1)]),
            standing(Secondary, 0, None, &[]),
        )
    };
    let own = MirrorEpoch(2);
    for heard in [0, 2] {
        assert_eq!(near().depose(MirrorEpoch(heard)), Err(Refused::NotLater { own }));
    }
    let mut mirror = near();
    mirror.depose(MirrorEpoch(3)).unwrap();
    assert_eq!(mirror.standing.role, Deposed);
    assert!(mirror.depose(MirrorEpoch(5)).is_err(), "once");
    let mut mirror = near();
    mirror.never_deposed = true;
    assert_eq!(mirror.depose(MirrorEpoch(3)), Err(Refused::NeverDeposed));
    mirror.seen = saw(standing(Primary, 3, None, &[]));
    assert_eq!(mirror.next(), Next::Serve);
    // By force it keeps what it is, and takes the next one.
    let mut mirror = deposed();
    mirror.force().unwrap();
    assert_eq!((mirror.standing.epoch, mirror.split), (MirrorEpoch(2), true));
    mirror.ready().unwrap();
    mirror.see(saw(standing(Secondary, 2, None, &[])).unwrap()).unwrap();
    assert!(!mirror.split, "the ends agree");
}

#[test]
fn t16_the_newest_common_point_is_never_let_go() {
    let own = standing(Primary, 0, None, &[(0, 1), (0, 2), (0, 3), (0, 4)]);
    let mut mirror = end(false, own, standing(Secondary, 0, Some((0, 2)), &[(0, 1), (0, 2)]));
    let gone = mirror.let_go();
    assert_eq!(gone, points(&[(0, 1)]));
    assert_eq!(mirror.standing.points, points(&[(0, 2), (0, 3), (0, 4)]));
    // It says that it is at one that this end has not.
    let own = standing(Primary, 0, None, &[(0, 2), (0, 3)]);
    let mut mirror = end(false, own, standing(Secondary, 0, Some((0, 9)), &[(0, 2), (0, 9)]));
    assert!(mirror.let_go().is_empty());
    // A secondary keeps so many, the one that it is at, and the newest that both have.
    let has = [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (0, 6)];
    let own = standing(Secondary, 0, Some((0, 6)), &has);
    let mut mirror = end(true, own, standing(Primary, 0, None, &[(0, 2), (0, 7)]));
    assert_eq!(mirror.let_go(), points(&[(0, 1), (0, 3)]));
    // One that was demoted, or deposed, lets nothing go.
    let mut mirror = end(
        false,
        handed_over(0, (0, 3), &[(0, 1), (0, 3)]),
        standing(Secondary, 0, None, &[]),
    );
    assert!(mirror.let_go().is_empty() && deposed().let_go().is_empty());
}

/// What is kept of the other end is bounded, and leaves room for the next epoch and the next number.
#[test]
fn what_the_other_end_cannot_be_is_not_believed() {
    let near = || end(false, standing(Primary, 2, None, &[(0, 1)]), Standing::default());
    let far = |epoch, has: &[(u64, u64)]| standing(Secondary, epoch, has.first().copied(), has);
    let many: Vec<(u64, u64)> = (0..400).map(|number| (0, number)).collect();
    let declined = Standing {
        declined: Some(MirrorEpoch(u64::MAX)),
        ..far(2, &[])
    };
    let handed = handed_over(4, (0, 1), &[(0, 1)]);
    for absurd in [
        far(2, &many),
        far(u64::MAX - 1, &[]),
        far(2, &[(0, 1 << 50)]),
        far(2, &[(3, 1)]),
        // This end's own epochs are taken by this end.
        standing(Primary, 4, None, &[]),
        standing(Promoting, 4, None, &[]),
        handed,
        declined,
    ] {
        let mut mirror = near();
        let before = mirror.clone();
        let refused = mirror.see(saw(absurd.clone()).unwrap());
        assert!(matches!(refused, Err(Refused::Absurd(_))), "{absurd:?}");
        assert_eq!(mirror, before, "nothing is noted");
    }
    for good in [
        far(2, &many[..MAX_POINTS]),
        standing(Primary, 3, None, &[(0, 1), (3, 2)]),
        standing(Deposed, 1, None, &[(0, 1)]),
        handed_over(3, (3, 4), &[(3, 4)]),
    ] {
        let mut mirror = near();
        mirror.see(saw(good).unwrap()).unwrap();
        let points = mirror.seen.unwrap().standing.points;
        assert!(
            points.iter().all(|point| point.snapshots.is_empty()),
            "names there are nothing here"
        );
    }
}

/// Points that nobody has said they are at do not add up until none can be cut.
#[test]
fn a_primary_keeps_a_few_of_the_points_that_nobody_has_claimed() {
    let has: Vec<(u64, u64)> = (1..=40).map(|number| (0, number)).collect();
    let numbers =
        |mirror: &Mirror| -> Vec<u64> { mirror.standing.points.iter().map(|point| point.name.number).collect() };
    let near = |other| end(false, standing(Primary, 0, None, &has), other);
    let mut mirror = near(standing(Secondary, 0, Some((0, 7)), &[(0, 5), (0, 7)]));
    assert_eq!(mirror.let_go().len(), 31);
    assert_eq!(numbers(&mirror), [7, 33, 34, 35, 36, 37, 38, 39, 40]);
    // One that is at none, but has one that is common.
    let mut mirror = near(standing(Deposed, 0, None, &[(0, 5)]));
    mirror.let_go();
    assert_eq!(numbers(&mirror), [5, 33, 34, 35, 36, 37, 38, 39, 40], "T16");
    // So neither a pass nor a demotion waits for ever where it is full.
    let full: Vec<(u64, u64)> = (1..=MAX_POINTS as u64).map(|number| (0, number)).collect();
    for role in [Primary, Demoting] {
        let mut mirror = end(false, standing(role, 0, None, &full), Standing::default());
        mirror.seen = None;
        let cut = mirror.begin_cut(MirrorEpoch(0), 9_000).unwrap();
        assert_eq!(cut.name, name(0, MAX_POINTS as u64 + 1));
        match role {
            Primary => mirror.end_cut(&cut).unwrap(),
            _ => mirror.hand(&cut).unwrap(),
        }
        assert_eq!(mirror.standing.newest(), Some(&cut));
    }
    // Nor does one that follows get more than there is room for.
    let mut mirror = far();
    mirror.standing.points = points(&full);
    mirror.standing.point = Some(name(0, MAX_POINTS as u64));
    mirror.seen = saw(standing(Primary, 0, None, &[(0, 300)]));
    mirror.begin_pass(&[1, 1]).unwrap();
    bring(&mut mirror);
    mirror.arrive(name(0, 300), "s".to_owned(), 6_000).unwrap();
    assert!(mirror.standing.points.len() < 8);
}

/// The near end's clock was ahead when the point was cut, and was set back.
#[test]
fn a_point_of_later_is_not_young_and_its_age_counts_from_when_it_arrived() {
    let of_later = point(0, 3);
    assert!(of_later.is_young(1_003, 60) && of_later.is_young(1_062, 60));
    assert!(!of_later.is_young(1_063, 60) && !of_later.is_young(1_002, 60));
    let mut mirror = far();
    mirror.begin_pass(&[10, 20]).unwrap();
    bring(&mut mirror);
    mirror.arrive(name(0, 3), "s".to_owned(), 6_000).unwrap();
    mirror.seen.as_mut().unwrap().clock = 900;
    assert_eq!(
        lag(&mirror, 6_500),
        Some(500),
        "else it were of no age, however long nothing comes"
    );
    mirror.seen.as_mut().unwrap().clock = 1_003;
    assert_eq!(lag(&mirror, 5_000), Some(0));
    // A point of before there was such a field has none.
    let old: Point = serde_json::from_str(r#"{"epoch":0,"number":3,"cut_at":5,"snapshots":"x"}"#).unwrap();
    assert_eq!(old.arrived_at, None);
}

#[test]
fn nothing_is_brought_before_it_is_joined() {
    let mut mirror = far();
    mirror.joining = true;
    assert_eq!(mirror.begin_pass(&[10, 20]), Err(Refused::Joining));
    mirror.joining = false;
    mirror.begin_pass(&[10, 20]).unwrap();
    bring(&mut mirror);
    mirror.joining = true;
    assert_eq!(mirror.arrive(name(0, 3), "s".to_owned(), 6_000), Err(Refused::Joining));
}

/// It is deposed while it goes back to be promoted: an operator's resync begins anew, and force is not refused by what nobody goes on with.
#[test]
fn who_is_deposed_goes_back_to_nothing_by_itself() {
    let mut mirror = far();
    mirror.begin_pass(&[10, 20]).unwrap();
    mirror.force().unwrap();
    mirror.returned(VolumeId(1)).unwrap();
    mirror.seen = saw(standing(Primary, 2, None, &[(0, 1), (2, 4)]));
    mirror.depose(MirrorEpoch(2)).unwrap();
    assert_eq!((&mirror.returning, mirror.next()), (&None, Next::Wait));
    assert_eq!(mirror.begun, Some(name(0, 3)), "and it is no moment's still");
    assert_eq!(mirror.clone().begin_return(), Ok(Some(name(0, 1))));
    mirror.force().unwrap();
    assert!(mirror.ready().is_err());
}

#[test]
fn a_resync_that_has_done_nothing_yet_is_given_up_by_force() {
    let mut mirror = deposed();
    mirror.begin_return().unwrap();
    assert_eq!(mirror.force(), Err(Refused::Returning), "somebody may be at it");
    assert!(mirror.give_up_return(true));
    assert_eq!(mirror.next(), Next::Wait);
    assert!(mirror.returned(VolumeId(1)).is_err());
    // It goes on where it is not promoted.
    let mut again = mirror.clone();
    assert_eq!(again.begin_return(), Ok(Some(name(0, 2))));
    assert_eq!(again.next(), Next::Return);
    again.returned(VolumeId(1)).unwrap();
    assert!(!again.give_up_return(true), "a volume has gone back");
    mirror.force().unwrap();
    assert_eq!((mirror.standing.role, mirror.returning), (Promoting, None));
}
