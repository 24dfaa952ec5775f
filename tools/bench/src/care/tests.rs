//! What is compared with what.

use super::{CARES, judge};
use crate::case::{Case, Front, Mix, Placement};
use crate::report::{Figure, Figures};
use crate::turns::{Sample, Turn};

fn sample(cpu_us: f64, iops: f64) -> Sample {
    Sample {
        cpu_us,
        latency_us: 2.0 * cpu_us,
        iops,
    }
}

/// The machine was twice as slow in the second turn, for all.
fn judged(placement: Placement, depth: u32) -> Vec<Figure> {
    let turn = |slow: f64| -> Turn {
        [(8.0, 1000.0), (9.0, 900.0), (8.5, 990.0), (10.0, 790.0)]
            .map(|(cpu_us, iops)| sample(cpu_us * slow, iops / slow))
            .to_vec()
    };
    let case = Case {
        placement,
        ..Case::new(Front::Nbd, Mix::Write, depth)
    };
    let mut figures = Figures::default();
    judge(&case, &[turn(1.0), turn(2.0), turn(1.0)], &mut figures);
    figures.all().to_vec()
}

#[test]
fn each_is_compared_with_the_one_without_of_its_own_turn() {
    let figures = judged(Placement::OneCore, 32);
    let of = |name: &str| {
        let found = figures.iter().find(|figure| figure.name == name);
        found.unwrap_or_else(|| panic!("no {name}: {figures:?}")).clone()
    };
    let added = of("care.write.4k.qd32.one_core.encrypted.added_cpu_us");
    assert_eq!((added.value, added.target, added.holds), (1.0, Some(1.2), Some(true)));
    let added = of("care.write.4k.qd32.one_core.limited.added_cpu_us");
    assert_eq!((added.value, added.target, added.holds), (0.5, Some(0.1), Some(false)));
    assert_eq!(of("care.write.4k.qd32.one_core.all.rate_left").target, None);
    assert_eq!(figures.iter().filter(|figure| figure.target.is_some()).count(), 2);
}

#[test]
fn the_rate_is_judged_where_the_client_has_a_core_of_its_own() {
    let figures = judged(Placement::TwoCores, 32);
    let judged_ones: Vec<&Figure> = figures.iter().filter(|figure| figure.target.is_some()).collect();
    assert_eq!(judged_ones.len(), 1);
    assert!(judged_ones[0].name.ends_with(".all.rate_left") && judged_ones[0].holds == Some(false));
    // One at a time is mostly waiting.
    assert!(
        judged(Placement::TwoCores, 1)
            .iter()
            .all(|figure| figure.target.is_none())
    );
    assert_eq!(CARES[0].name, "off");
}
