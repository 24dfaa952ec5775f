use super::{Drift, Zone};

#[test]
fn what_was_reset_later_shows_less() {
    let mut zone = Zone::<3>::new();
    zone.pass();
    let mut zone = zone.at_least(1, 10).expect("any time may have gone by");
    zone.reset(2);
    zone.pass();
    assert!(zone.at_most(1, 9).is_none());
    let both = zone.at_most(1, 15).expect("clock 1 shows 10 or more");
    assert!(both.at_most(2, 5).is_some());
    assert!(both.above(2, 5).is_none(), "clock 2 is 10 behind clock 1, or more");
}

#[test]
fn bounds_are_exact() {
    let mut zone = Zone::<2>::new();
    zone.pass();
    let at = zone.at_most(1, 7).expect("7 or less");
    assert!(at.at_least(1, 7).is_some());
    assert!(at.above(1, 7).is_none());
    assert!(zone.below(1, 7).expect("less than 7").at_least(1, 7).is_none());
    assert!(zone.below(1, 0).is_none(), "no time is less than none");
}

#[test]
fn a_copy_goes_on_with_its_original() {
    let mut zone = Zone::<3>::new();
    zone.pass();
    let mut zone = zone.at_least(1, 4).expect("any time").at_most(1, 6).expect("any time");
    zone.copy(2, 1);
    zone.pass();
    assert!(zone.at_most(1, 8).expect("4 or more").above(2, 8).is_none());
    zone.forget(1);
    assert!(zone.at_most(1, 0).is_some() && zone.above(1, 1_000).is_some());
    assert!(zone.at_most(2, 3).is_none());
}

#[test]
fn what_is_beyond_the_limit_is_one() {
    let far = |units| {
        let mut zone = Zone::<3>::new();
        zone.pass();
        let mut zone = zone.at_least(1, units).expect("any time");
        zone.reset(2);
        zone.pass();
        zone.limit(100);
        zone
    };
    assert!(far(1_000) == far(2_000));
    assert!(far(50) != far(60));
}

#[test]
fn clocks_that_run_off() {
    let drift = Drift(100);
    assert_eq!(drift.longest(900), 1_000);
    assert_eq!(drift.shortest(1_100), 1_000);
    assert_eq!(Drift(0).longest(77), 77);
}
