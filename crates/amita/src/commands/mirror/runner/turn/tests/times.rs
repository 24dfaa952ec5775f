//! When the other end is looked at, and what that holds up.

use super::*;

/// A look at an end that is gone takes so long: as many addresses, each of which is waited for.
const DEAD: Duration = Duration::from_secs(15);

fn second(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn the_other_end_is_looked_at_also_where_the_clock_was_set_back() {
    let own = record(standing(MirrorRole::Primary, 2, &[]));
    let (meta, claim) = meta(&own);
    let there = There::is(standing(MirrorRole::Secondary, 2, &[]));
    let (time, mut turn, mut hands) = (Time::is(NOW), Turn::new("dr", claim), Did::new());
    assert_eq!(turn.turn(&meta, Some(&there), &mut hands, &time), Ok(EVERY));
    time.pass(second(2));
    assert_eq!(turn.turn(&meta, Some(&there), &mut hands, &time), Ok(EVERY));
    assert_eq!(there.looks.get(), 1, "it is not time yet");
    time.pass(second(3));
    time.wall.set(NOW - second(7200));
    assert_eq!(turn.turn(&meta, Some(&there), &mut hands, &time), Ok(EVERY));
    assert_eq!(there.looks.get(), 2);
    let seen = now_is(&meta).seen.expect("it was seen");
    assert_eq!(seen.at, (NOW - second(7200)).as_secs(), "by the clock as it is now");
}

/// It is asked for a point again when the time is over that was counted, whatever the clock says.
#[test]
fn a_point_is_asked_for_also_where_the_clock_was_set_back() {
    let old = point(name(2, 1), 90);
    let there = There {
        cut: Some(old.clone()),
        ..There::is(standing(MirrorRole::Primary, 2, std::slice::from_ref(&old)))
    };
    let (meta, claim) = meta(&far_end());
    let (time, mut turn, mut hands) = (Time::is(NOW), Turn::new("dr", claim), Did::new());
    assert_eq!(turn.turn(&meta, Some(&there), &mut hands, &time), Ok(EVERY));
    time.pass(LOOK);
    time.wall.set(NOW - second(7200));
    assert_eq!(turn.turn(&meta, Some(&there), &mut hands, &time), Ok(EVERY));
    assert_eq!(there.cuts.get(), 2);
}

#[test]
fn the_time_between_looks_is_counted_from_the_end_of_the_one_before() {
    let own = record(standing(MirrorRole::Primary, 2, &[]));
    let (meta, claim) = meta(&own);
    let time = Rc::new(Time::is(NOW));
    let there = There {
        slow: Some((Rc::clone(&time), DEAD)),
        ..There::default()
    };
    let (mut turn, mut hands) = (Turn::new("dr", claim), Did::new());
    for looks in [1, 1, 2] {
        assert_eq!(turn.turn(&meta, Some(&there), &mut hands, &*time), Ok(EVERY));
        assert_eq!(there.looks.get(), looks);
        time.pass(LOOK / 2);
    }
}

/// The record says something else: what is asked was not answered, and that is no silence of the other end.
#[test]
fn a_look_that_was_called_off_is_none() {
    let (meta, claim) = meta(&far_end());
    let there = There::is(standing(MirrorRole::Primary, 2, &[point(name(2, 1), 5)]));
    there.is_called_off.set(true);
    let (time, mut turn, mut hands) = (Time::is(NOW), Turn::new("dr", claim), Did::new());
    let ended = turn.turn(&meta, Some(&there), &mut hands, &time);
    assert!(ended.is_err_and(|why| why.kind == Kind::Interrupted));
    assert!(turn.unheard().is_none());
    there.is_called_off.set(false);
    assert_eq!(turn.turn(&meta, Some(&there), &mut hands, &time), Ok(EVERY));
    assert!(there.looks.get() == 2 && turn.is_heard(), "it is looked at at once");
}

/// Also one that was never heard: why is not lost.
#[test]
fn a_secondary_says_why_it_hears_nothing() {
    let (done, after, _) = turned(&far_end(), &There::default());
    assert!(after.seen.is_none() && done.is_err_and(|why| why.what.contains("nobody")));
}
