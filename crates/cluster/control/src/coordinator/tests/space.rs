//! Stores that fill.

use super::*;
use amita_types::condition::{Condition, Fullness, StoreSpace, Thresholds, condition_key, thresholds_key};

fn say(scene: &mut Scene, from: u32, percent: u64) {
    let space = StoreSpace {
        store: store(from),
        capacity_bytes: 1000,
        free_bytes: 1000 - percent * 10,
    };
    let condition = Condition {
        stores: vec![space],
        troubles: Vec::new(),
    };
    scene.put(&condition_key(node(from), 0), &condition);
    scene.run();
}

fn told(scene: &Scene) -> Vec<(u8, Fullness)> {
    let fills = scene.warnings.iter().filter_map(|warning| match warning {
        Warning::StoreFills { percent, fullness, .. } => Some((*percent, *fullness)),
        _ => None,
    });
    fills.collect()
}

#[test]
fn a_threshold_is_told_once_each_way() {
    let mut scene = Scene::led(3, 8, 2);
    for percent in [10, 84, 85, 86, 84, 85, 83] {
        say(&mut scene, 1, percent);
    }
    assert_eq!(told(&scene), [(85, Fullness::NearFull)], "it hovers there");
    for percent in [95, 94, 96, 93] {
        say(&mut scene, 1, percent);
    }
    assert_eq!(told(&scene).len(), 2);
    assert_eq!(told(&scene)[1], (95, Fullness::Full));
    say(&mut scene, 1, 20);
    assert_eq!(told(&scene)[2], (20, Fullness::Roomy));
    let kinds: Vec<&str> = scene
        .warnings
        .iter()
        .filter(|warning| matches!(warning, Warning::StoreFills { .. }))
        .map(|warning| warning.draft().kind.name())
        .collect();
    assert_eq!(kinds, ["store-near-full", "store-full", "store-roomy"]);
}

#[test]
fn other_thresholds_hold_at_once() {
    let mut scene = Scene::led(3, 8, 2);
    say(&mut scene, 2, 60);
    assert_eq!(told(&scene), []);
    let thresholds = Thresholds {
        near_full_percent: 50,
        full_percent: 70,
        ..Thresholds::default()
    };
    scene.put(&thresholds_key(), &thresholds);
    scene.run();
    assert_eq!(told(&scene), [(60, Fullness::NearFull)]);
    say(&mut scene, 2, 61);
    assert_eq!(told(&scene).len(), 1);
    scene.put(&thresholds_key(), &Thresholds::default());
    scene.run();
    assert_eq!(told(&scene)[1], (61, Fullness::Roomy));
}

fn levels(scene: &Scene) -> Vec<(bool, u8, u8, u64, u64)> {
    let fills = scene.warnings.iter().filter_map(|warning| match warning {
        Warning::PoolFills {
            above,
            level,
            percent,
            used_bytes,
            raw_bytes,
            ..
        } => Some((*above, *level, *percent, *used_bytes, *raw_bytes)),
        _ => None,
    });
    fills.collect()
}

#[test]
fn a_pools_level_is_told_once_each_way() {
    let mut scene = Scene::led(3, 8, 2);
    for from in 1..=3 {
        say(&mut scene, from, 70);
    }
    assert_eq!(levels(&scene), []);
    say(&mut scene, 1, 84);
    assert_eq!(levels(&scene), [], "74 % of all three");
    say(&mut scene, 2, 71);
    assert_eq!(levels(&scene), [(true, 75, 75, 2250, 3000)]);
    for percent in [83, 84, 80, 84] {
        say(&mut scene, 1, percent);
    }
    assert_eq!(levels(&scene).len(), 1, "it hovers there");
    for from in 1..=3 {
        say(&mut scene, from, 96);
    }
    let told = levels(&scene);
    let told: Vec<(bool, u8)> = told.iter().map(|(above, level, ..)| (*above, *level)).collect();
    assert_eq!(told, [(true, 75), (true, 85), (true, 95)]);
    let thresholds = Thresholds {
        pool_percents: [97, 98, 99],
        ..Thresholds::default()
    };
    scene.put(&thresholds_key(), &thresholds);
    scene.run();
    assert_eq!(levels(&scene).last(), Some(&(false, 99, 96, 2880, 3000)));
    say(&mut scene, 1, 80);
    assert_eq!(levels(&scene).last(), Some(&(false, 98, 90, 2720, 3000)));
    let kinds: Vec<&str> = scene
        .warnings
        .iter()
        .map(|warning| warning.draft().kind.name())
        .collect();
    assert!(kinds.contains(&"pool-fills") && kinds.contains(&"pool-roomy"));
}
