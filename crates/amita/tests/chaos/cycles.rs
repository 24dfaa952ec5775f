//! The cycles that are always run, the replay of one, and the soak.

use crate::cycle;
use crate::plan::Plan;
use crate::world::{NODES, Shape, World, disks_missing};
use amita::harness::tool;
use amita_sim::random::Random;
use std::time::{Duration, Instant};

/// The longest freeze and the longest time that a node is down, in a test and in a soak. The lease is 5 s.
const LONGEST: Duration = Duration::from_secs(5);
const LONGEST_IN_SOAK: Duration = Duration::from_secs(60);
/// In a soak so many of a hundred cycles may last long.
const LONG_PERCENT: u64 = 10;

/// What nodes say as an error when a disk fails, and what a person has to look after then.
const A_DISK_FAILED: &[&str] = &["does not serve"];

fn shape(plan: &Plan) -> Shape {
    let mut random = Random::new(plan.seed).fork(2);
    Shape {
        disks: plan.needs_disks(),
        etcd: random.percent(20) && tool::find("etcd").is_ok(),
    }
}

/// Plays the cycles of these seeds.
fn play(seeds: impl IntoIterator<Item = u64>, longest: impl Fn(u64) -> Duration) {
    let missing = disks_missing();
    if let Some(why) = &missing {
        println!("cycles with failing disks are left out: {why}");
    }
    let started = Instant::now();
    let (mut cycles, mut done) = (0, 0);
    for seed in seeds {
        let plan = Plan::draw(seed, NODES, longest(seed));
        println!("cycle {plan}");
        println!("  again: AMITA_CHAOS_SEED={seed}");
        if plan.needs_disks() && missing.is_some() {
            continue;
        }
        let mut world = World::start(shape(&plan), seed);
        done += cycle::play(&mut world, 1, &plan);
        cycles += 1;
        world.end(if plan.poisons().is_empty() { &[] } else { A_DISK_FAILED });
    }
    println!(
        "{cycles} cycles, {done} operations, {:.0} s: nothing lost, nothing stale",
        started.elapsed().as_secs_f64()
    );
}

fn in_test(seeds: std::ops::Range<u64>) {
    play(seeds, |_| LONGEST);
}

// Twenty cycles, in four tests so that each is a room of its own for who looks at a failure.

#[test]
fn cycles_0_to_4() {
    in_test(0..5);
}

#[test]
fn cycles_5_to_9() {
    in_test(5..10);
}

#[test]
fn cycles_10_to_14() {
    in_test(10..15);
}

#[test]
fn cycles_15_to_19() {
    in_test(15..20);
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// One cycle again, or `AMITA_CHAOS_CYCLES` of them from `AMITA_CHAOS_SEED` on.
#[test]
#[ignore = "plays what AMITA_CHAOS_SEED says"]
fn replay() {
    let first = number("AMITA_CHAOS_SEED").expect("AMITA_CHAOS_SEED says which seed");
    let count = number("AMITA_CHAOS_CYCLES").unwrap_or(1);
    play(first..first + count, long_sometimes);
}

fn long_sometimes(seed: u64) -> Duration {
    // Seeds of tests are small, and keep their plans.
    if seed >= 1 << 32 && Random::new(seed).fork(3).percent(LONG_PERCENT) {
        LONGEST_IN_SOAK
    } else {
        LONGEST
    }
}

/// `AMITA_CHAOS_CYCLES` cycles (1,000 where nothing is said) on seeds that no earlier run has had, or from
/// `AMITA_CHAOS_SEED` on; at most for `AMITA_CHAOS_SECONDS`.
#[test]
#[ignore = "takes hours"]
fn soak() {
    let fresh = || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.expect("a clock after 1970").as_nanos() as u64
    };
    let first = number("AMITA_CHAOS_SEED").unwrap_or_else(fresh);
    let count = number("AMITA_CHAOS_CYCLES").unwrap_or(1000);
    let seconds = number("AMITA_CHAOS_SECONDS").map_or(Duration::MAX, Duration::from_secs);
    let started = Instant::now();
    play(
        (first..first + count).take_while(|_| started.elapsed() < seconds),
        long_sometimes,
    );
}
