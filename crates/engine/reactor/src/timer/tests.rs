use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Step {
    Arm(u64),
    Cancel(usize),
    Expire(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..500u64).prop_map(Step::Arm),
        2 => (0..100usize).prop_map(Step::Cancel),
        1 => (0..50u64).prop_map(Step::Expire),
    ];
    proptest::collection::vec(step, 1..200)
}

proptest! {
    /// Against a map in the order of time and arming.
    #[test]
    fn timers_fire_once_in_order_unless_cancelled(steps in steps()) {
        let mut timers = Timers::new();
        let mut model: BTreeMap<(u64, u64), TimerId> = BTreeMap::new();
        let mut ids: Vec<(TimerId, (u64, u64))> = Vec::new();
        let mut now = 0;
        for (order, step) in steps.into_iter().enumerate() {
            let order = order as u64;
            match step {
                Step::Arm(after) => {
                    let id = timers.arm(Time(now + after), Token(order));
                    prop_assert!(ids.iter().all(|(other, _)| *other != id), "ids are never used again");
                    ids.push((id, (now + after, order)));
                    model.insert((now + after, order), id);
                }
                Step::Cancel(which) if !ids.is_empty() => {
                    let (id, key) = ids[which % ids.len()];
                    prop_assert_eq!(timers.cancel(id), model.remove(&key).is_some());
                }
                Step::Cancel(_) => {}
                Step::Expire(after) => {
                    now += after;
                    while let Some(token) = timers.expire(Time(now)) {
                        let ((at, order), _) = model.pop_first().unwrap();
                        prop_assert!(at <= now);
                        prop_assert_eq!(token, Token(order));
                    }
                    prop_assert!(model.keys().next().is_none_or(|(at, _)| *at > now));
                }
            }
            prop_assert_eq!(timers.len(), model.len());
            prop_assert_eq!(timers.deadline(), model.keys().next().map(|(at, _)| Time(*at)));
        }
    }
}

#[test]
fn a_warm_set_of_timers_keeps_its_size() {
    let mut timers = Timers::new();
    for round in 0..10_000u64 {
        let kept = timers.arm(Time(round + 10), Token(round));
        let cancelled = timers.arm(Time(round + 20), Token(round));
        assert!(timers.cancel(cancelled) && !timers.cancel(cancelled));
        timers.expire(Time(round));
        assert_ne!(kept, cancelled);
    }
    assert!(timers.slots.len() <= 12, "{} slots", timers.slots.len());
}
