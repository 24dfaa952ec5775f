use super::*;
use crate::testing::{catalog, target, unit};

#[test]
fn what_can_be_described() {
    assert!(unit(0).is_sound() && unit(MAX_LUN).is_sound());
    let wrong = [
        Unit {
            number: MAX_LUN + 1,
            ..unit(0)
        },
        Unit {
            block_bytes: 520,
            ..unit(0)
        },
        Unit {
            size_bytes: 0,
            ..unit(0)
        },
        Unit {
            size_bytes: 4096 + 512,
            ..unit(0)
        },
        Unit {
            chunk_bytes: 3000,
            ..unit(0)
        },
    ];
    assert!(wrong.iter().all(|unit| !unit.is_sound()));
    let mut target = target(wrong.to_vec());
    target.units.sort_by_key(|unit| unit.number);
    assert_eq!(target.units_of("iqn.2026-01.test:host").count(), 0, "no host sees them");
}

#[test]
fn who_sees_what() {
    let mut target = target(vec![unit(0), unit(1), unit(2)]);
    let seen = |target: &Target, name: &str| -> Vec<u16> { target.units_of(name).map(|unit| unit.number).collect() };
    assert_eq!(seen(&target, "iqn.a"), [0, 1, 2]);
    target.initiators = ["iqn.a", "iqn.b"]
        .into_iter()
        .map(|name| {
            Arc::new(Access {
                name: name.to_owned(),
                mask: (name == "iqn.b").then(|| vec![0, 2]),
            })
        })
        .collect();
    assert_eq!(seen(&target, "iqn.b"), [0, 2], "its own mask counts, whoever else may");
    assert!(target.admits("iqn.c"));
    target.any_initiator = false;
    assert_eq!(seen(&target, "iqn.a"), [0, 1, 2]);
    assert!(seen(&target, "iqn.c").is_empty() && !target.admits("iqn.c") && target.admits("iqn.b"));
}

#[test]
fn what_is_found() {
    let mut catalog = catalog();
    catalog.targets = vec![Arc::new(target(vec![unit(3)]))];
    assert_eq!(
        catalog
            .target("iqn.2026-01.test:target")
            .map(|target| target.units.len()),
        Some(1)
    );
    assert!(catalog.target("iqn.2026-01.test:targe").is_none());
    assert_eq!(catalog.group(2).map(|group| group.node), Some(NodeId(2)));
    assert_eq!(catalog.here().map(|group| group.tag), Some(1));
    let target = catalog.targets[0].clone();
    assert!(target.unit(3).is_some() && target.unit(0).is_none());
    let states = [1, 2, 3].map(|tag| target.units[0].state(tag));
    assert_eq!(states, [Alua::Optimized, Alua::NonOptimized, Alua::Unavailable]);
}

#[test]
fn scarce_space() {
    let space = |used_bytes, total_bytes| Space {
        used_bytes,
        total_bytes,
        warning_percent: 80,
    };
    assert!(!space(79, 100).is_scarce() && space(80, 100).is_scarce());
    assert!(space(u64::MAX, u64::MAX).is_scarce() && !space(0, u64::MAX).is_scarce());
}
