//! Batches are sent in time, and not too often.

use super::*;
use proptest::prelude::*;

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn pacing() -> Pacing {
    Pacing {
        first_pause: s(1),
        longest_pause: s(30),
        longest_wanted: s(3600),
        patience: s(300),
        ..Pacing::default()
    }
}

#[test]
fn pauses_double_and_end_with_a_success() {
    let mut delivery = Delivery::new(pacing());
    let mut now = s(5);
    let mut pauses = Vec::new();
    assert_eq!(delivery.next(now), Next::Send);
    for _ in 0..8 {
        delivery.deferred(now, None, 255);
        let Next::Wait(pause) = delivery.next(now) else {
            panic!("it rests")
        };
        pauses.push(pause.as_secs());
        now += pause;
        assert_eq!(delivery.next(now), Next::Send);
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 30]);
    assert_eq!(delivery.failures(), 8);
    delivery.accepted();
    assert_eq!((delivery.next(now), delivery.failures()), (Next::Send, 0));
    delivery.deferred(now, None, 0);
    assert_eq!(delivery.next(now), Next::Wait(Duration::from_millis(500)), "half of it");
}

#[test]
fn the_collector_is_believed_when_it_says_how_long() {
    let mut delivery = Delivery::new(pacing());
    assert_eq!(delivery.next(s(0)), Next::Send);
    delivery.deferred(s(0), Some(s(120)), 7);
    assert_eq!(delivery.next(s(1)), Next::Wait(s(119)));
    assert_eq!(delivery.next(s(119)), Next::Wait(s(1)));
    assert_eq!(delivery.next(s(120)), Next::Send);
    delivery.deferred(s(120), Some(Duration::ZERO), 7);
    let soon = Duration::from_millis(500);
    assert_eq!(delivery.next(s(120)), Next::Wait(soon), "never at once");
    assert_eq!(delivery.next(s(120) + soon), Next::Send);
    // Longer than the batch is kept: it is given up, and the next one waits on.
    delivery.deferred(s(120), Some(s(1000)), 7);
    assert_eq!(delivery.next(s(121)), Next::Wait(s(179)), "until it is late");
    assert_eq!(delivery.next(s(300)), Next::GiveUp);
    assert_eq!(
        delivery.next(s(301)),
        Next::Wait(s(300)),
        "the next one, until it is late as well"
    );
    // Nobody is left alone for ever.
    let mut delivery = Delivery::new(pacing());
    delivery.deferred(s(0), Some(Duration::MAX), 7);
    assert_eq!(delivery.not_before, s(3600));
}

#[test]
fn what_is_refused_is_done_with_and_the_next_one_waits() {
    let mut delivery = Delivery::new(pacing());
    assert_eq!(delivery.next(s(10)), Next::Send);
    delivery.refused(s(10), 255);
    assert_eq!(delivery.next(s(10)), Next::Wait(s(1)));
    assert_eq!(delivery.next(s(11)), Next::Send);
    delivery.refused(s(11), 255);
    assert_eq!(delivery.next(s(11)), Next::Wait(s(2)));
}

#[derive(Clone, Debug)]
enum Said {
    Accepted,
    Refused,
    Deferred(Option<u64>),
}

fn said() -> impl Strategy<Value = Said> {
    prop_oneof![
        Just(Said::Accepted),
        Just(Said::Refused),
        proptest::option::of(0u64..5000).prop_map(Said::Deferred),
    ]
}

proptest! {
    /// Nothing is sent before the collector wants it, and no batch is held for longer than the patience.
    #[test]
    fn no_batch_is_early_and_none_is_held_for_long(all in proptest::collection::vec((said(), any::<u8>(), 0u64..40), 1..80)) {
        let mut delivery = Delivery::new(pacing());
        let (mut now, mut not_before, mut began) = (Duration::ZERO, Duration::ZERO, None);
        for (said, random, later) in all {
            let mut steps = 0;
            loop {
                let since = *began.get_or_insert(now);
                match delivery.next(now) {
                    Next::Send => break,
                    Next::GiveUp => {
                        prop_assert!(now >= since + s(300));
                        began = None;
                    }
                    Next::Wait(pause) => {
                        prop_assert!(pause > Duration::ZERO);
                        prop_assert!(now + pause <= since + s(300), "held until after it is late");
                        now += pause;
                    }
                }
                steps += 1;
                prop_assert!(steps < 100, "it never sends");
            }
            prop_assert!(now >= not_before, "before it was wanted");
            match said {
                Said::Accepted => {
                    delivery.accepted();
                    began = None;
                }
                Said::Refused => {
                    delivery.refused(now, random);
                    began = None;
                }
                Said::Deferred(wanted) => {
                    delivery.deferred(now, wanted.map(s), random);
                    not_before = now + s(wanted.unwrap_or(0)).min(s(3600));
                }
            }
            now += s(later);
        }
    }
}
