use super::{Arrivals, Io, Ios};
use crate::case::{Mix, Order};
use crate::load::protocol::{Job, Outcome};

fn job(mix: Mix, order: Order) -> Job {
    Job {
        mix,
        order,
        block_bytes: 8192,
        depth: 1,
        size_bytes: 10 * 8192 + 4096,
        ramp_seconds: 0.0,
        seconds: 1.0,
        rate: None,
        ios: None,
        seed: 7,
    }
}

#[test]
fn in_order_it_is_block_after_block_and_then_from_the_start() {
    let mut ios = Ios::new(&job(Mix::Write, Order::Sequential), 0);
    let offsets: Vec<u64> = (0..12).map(|_| ios.draw().offset / 8192).collect();
    assert_eq!(offsets, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]);
}

#[test]
fn at_random_each_whole_block_is_met_and_none_beyond_the_region() {
    let mut ios = Ios::new(&job(Mix::Mixed, Order::Random), 3);
    let all: Vec<Io> = (0..10_000).map(|_| ios.draw()).collect();
    for block in 0..10u64 {
        let met = all.iter().filter(|io| io.offset == block * 8192).count();
        assert!((800..1200).contains(&met), "block {block} was met {met} times in 10000");
    }
    assert!(all.iter().all(|io| io.offset % 8192 == 0 && io.offset < 10 * 8192));
    let reads = all.iter().filter(|io| io.read).count();
    assert!((6700..7300).contains(&reads), "{reads} reads in 10000");
}

#[test]
fn volumes_have_chances_of_their_own_and_a_seed_repeats() {
    let offsets = |volume| {
        let mut ios = Ios::new(&job(Mix::Read, Order::Random), volume);
        (0..50).map(|_| ios.draw().offset).collect::<Vec<_>>()
    };
    assert_ne!(offsets(0), offsets(1));
    assert_eq!(offsets(1), offsets(1));
}

#[test]
fn arrivals_come_at_their_rate_and_by_chance() {
    let mut arrivals = Arrivals::new(50_000.0, 1);
    let mut due = Vec::new();
    while arrivals.due_ns() < 1_000_000_000 {
        due.push(arrivals.due_ns());
        arrivals.advance();
    }
    assert!((49_000..51_000).contains(&due.len()), "{} in a second", due.len());
    let gaps: Vec<f64> = due.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
    // What marks chance: the gaps deviate by as much as they are long.
    assert!((deviation / mean - 1.0).abs() < 0.05, "{deviation} of {mean}");
}

#[test]
fn noise_is_the_standard_error_and_outcomes_add_up() {
    let mut one = Outcome {
        seconds: 0.4,
        tenths: vec![90, 110, 90, 110],
        ..Outcome::default()
    };
    assert!((one.noise() - 0.0577).abs() < 0.001, "{}", one.noise());
    let mut other = one.clone();
    for _ in 0..200 {
        other.read.record(1000);
    }
    one.add(&other);
    assert_eq!(one.tenths, [180, 220, 180, 220]);
    assert!((one.iops() - 500.0).abs() < 1e-6);
    assert_eq!(Outcome::default().noise(), 0.0);
}
