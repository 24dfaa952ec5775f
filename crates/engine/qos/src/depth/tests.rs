use super::{Depth, DepthLimits, ENOUGH};
use amita_reactor::Time;
use std::time::Duration;

const LIMITS: DepthLimits = DepthLimits { least: 2, most: 32 };
const TARGET: Duration = Duration::from_millis(1);

/// A second of I/O that took so long, a thousand of it.
fn second(depth: &mut Depth, now: &mut Time, took: Duration, target: Option<Duration>) {
    for _ in 0..1000 {
        *now = now.plus(Duration::from_millis(1));
        depth.begin();
        depth.end(*now, took, target);
    }
}

#[test]
fn it_shrinks_while_targets_are_missed_and_grows_again() {
    let (mut depth, mut now) = (Depth::new(LIMITS), Time(0));
    second(&mut depth, &mut now, TARGET * 2, None);
    assert_eq!(depth.width(), 32, "nobody is watched");
    second(&mut depth, &mut now, TARGET * 2, Some(TARGET));
    assert_eq!(depth.width(), 2, "down to the least, and no further");
    second(&mut depth, &mut now, TARGET, Some(TARGET));
    assert_eq!(depth.width(), 2, "as much as just does is not more");
    second(&mut depth, &mut now, TARGET / 2, Some(TARGET));
    assert!((10..=13).contains(&depth.width()), "by one a span: {}", depth.width());
    second(&mut depth, &mut now, TARGET, None);
    assert_eq!(depth.width(), 32, "who is watched has gone");
}

#[test]
fn one_of_a_hundred_may_be_late() {
    let (mut depth, mut now) = (Depth::new(LIMITS), Time(0));
    for each in 0..10 * ENOUGH {
        now = now.plus(Duration::from_millis(1));
        depth.begin();
        let took = if each % ENOUGH == 50 { TARGET * 9 } else { TARGET };
        depth.end(now, took, Some(TARGET));
    }
    assert_eq!(depth.width(), 32);
}

#[test]
fn a_fixed_depth_is_kept() {
    let mut depth = Depth::new(DepthLimits { least: 0, most: 0 });
    assert_eq!((depth.width(), depth.under_way()), (1, 0));
    assert!(depth.has_room());
    depth.begin();
    assert!(!depth.has_room());
    depth.end(Time(0), Duration::ZERO, None);
    assert!(depth.has_room());
}
