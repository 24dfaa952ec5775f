//! Stores that are slow.

use super::*;
use amita_types::recovery::{HealthReport, Recovery, SlowPolicy, SlowStores, StoreHealth, health_key, recovery_key};

/// A node says of each store whether it is slow, and for how long.
fn say(scene: &mut Scene, from: u32, beat: u64, of: &[(u32, Option<u32>)]) {
    let stores = of.iter().map(|&(number, slow)| StoreHealth {
        store: store(number),
        slow: slow.is_some(),
        for_s: slow.unwrap_or(0),
        why: "it crawls".to_owned(),
    });
    let report = HealthReport {
        beat,
        stores: stores.collect(),
    };
    scene.put(&health_key(node(from), 0), &report);
    scene.run();
}

fn holds(scene: &Scene, number: u32) -> usize {
    let groups = scene.groups();
    groups
        .iter()
        .filter(|group| group.in_sync.contains(&store(number)))
        .count()
}

fn told(scene: &Scene) -> Vec<Option<String>> {
    let slow = scene.warnings.iter().filter_map(|warning| match warning {
        Warning::SlowStore { hindrance, .. } => Some(hindrance.clone()),
        _ => None,
    });
    slow.collect()
}

#[test]
fn a_store_that_most_find_slow_for_long_leaves() {
    let mut scene = Scene::led(3, 8, 2);
    say(&mut scene, 1, 1, &[(3, Some(10))]);
    assert_eq!(holds(&scene, 3), 8, "not for long enough");
    say(&mut scene, 2, 1, &[(3, None)]);
    say(&mut scene, 1, 2, &[(3, Some(31))]);
    assert_eq!(holds(&scene, 3), 8, "one of two is not most");
    say(&mut scene, 3, 1, &[(3, Some(29))]);
    assert_eq!(holds(&scene, 3), 0);
    assert_eq!(told(&scene), vec![None]);
    assert!(
        scene
            .warnings
            .iter()
            .any(|warning| warning.to_string().starts_with("slow store: "))
    );
    // It rests, however well it is said to be.
    scene.wait(60);
    scene.run();
    assert_eq!(holds(&scene, 3), 0);
    let rest = SlowStores::default().rest_s;
    assert_eq!(scene.machine.deadline(), Some(scene.now.plus(SECOND * (rest - 60))));
    scene.wait(rest - 60);
    scene.run();
    // No volume was ever opened: it is whole as soon as it is listed.
    assert_eq!(holds(&scene, 3), 8, "it is tried again");
    // Still slow: it goes at once, and for twice as long.
    say(&mut scene, 1, 9, &[(3, Some(40))]);
    assert_eq!(holds(&scene, 3), 0);
    scene.wait(2 * rest - 1);
    scene.run();
    assert_eq!(holds(&scene, 3), 0);
    scene.wait(1);
    scene.run();
    assert_eq!(holds(&scene, 3), 8);
}

#[test]
fn old_reports_and_those_of_the_dead_do_not_count() {
    let mut scene = Scene::led(3, 4, 2);
    say(&mut scene, 1, 1, &[(3, Some(20))]);
    scene.wait(16);
    say(&mut scene, 2, 1, &[(3, None)]);
    scene.put(&recovery_key(), &Recovery::default());
    scene.run();
    assert_eq!((holds(&scene, 3), told(&scene)), (4, vec![]));
    let mut scene = Scene::led(4, 4, 2);
    scene.die(node(1));
    scene.run();
    say(&mut scene, 1, 1, &[(3, Some(100))]);
    assert_eq!(holds(&scene, 3), 4);
}

#[test]
fn nobody_leaves_who_is_needed() {
    // The least number of copies is all.
    let mut scene = Scene::led(3, 4, 3);
    say(&mut scene, 1, 1, &[(3, Some(40))]);
    assert_eq!(holds(&scene, 3), 4);
    assert_eq!(
        told(&scene),
        vec![Some("4 of its groups have no copy to spare".to_owned())]
    );
    say(&mut scene, 1, 2, &[(3, Some(45))]);
    assert_eq!(told(&scene).len(), 1, "it is said once");

    // Another one is missing.
    let mut scene = Scene::led(4, 4, 2);
    scene.die(node(2));
    scene.run();
    scene.wait(3);
    scene.run();
    assert_eq!(holds(&scene, 2), 0);
    say(&mut scene, 1, 1, &[(3, Some(40))]);
    assert_eq!(holds(&scene, 3), 4);
}

#[test]
fn one_at_a_time_and_only_so_many_in_an_hour() {
    let mut scene = Scene::led(5, 4, 2);
    say(&mut scene, 1, 1, &[(2, Some(40)), (3, Some(50))]);
    assert_eq!((holds(&scene, 2), holds(&scene, 3)), (0, 4));
    assert!(
        told(&scene)[1]
            .as_ref()
            .is_some_and(|why| why.contains("one at a time")),
        "{:?}",
        told(&scene)
    );
}

#[test]
fn the_policy_says_what_is_done() {
    for (policy, expected) in [(SlowPolicy::Off, 0), (SlowPolicy::Propose, 1)] {
        let mut scene = Scene::led(3, 4, 2);
        let settings = Recovery {
            slow_stores: SlowStores {
                policy,
                ..SlowStores::default()
            },
            ..Recovery::default()
        };
        scene.put(&recovery_key(), &settings);
        say(&mut scene, 1, 1, &[(3, Some(400))]);
        assert_eq!((holds(&scene, 3), told(&scene).len()), (4, expected));
    }
}

#[test]
fn a_dead_store_does_not_wait_for_a_slow_one() {
    let mut scene = Scene::led(3, 4, 2);
    say(&mut scene, 1, 1, &[(3, Some(20))]);
    scene.put(
        &recovery_key(),
        &Recovery {
            slow_stores: SlowStores {
                after_s: 10,
                ..SlowStores::default()
            },
            ..Recovery::default()
        },
    );
    scene.tell(usize::MAX);
    assert_eq!(scene.calls.len(), 1);
    // The other one dies before the slow one has left: one of them can.
    scene.calls.clear();
    let pending: Vec<_> = scene.machine.calls.pending.keys().copied().collect();
    for call in pending {
        scene.apply(Event::Ended {
            call,
            result: Err(Error::Unavailable {
                what: String::new(),
                endpoints: String::new(),
            }),
        });
    }
    scene.die(node(2));
    scene.tell(usize::MAX);
    scene.wait(3);
    scene.run();
    assert_eq!((holds(&scene, 2), holds(&scene, 3)), (0, 4));
}
