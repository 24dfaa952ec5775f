//! The cycles that are always run, the replay of one, and the soak.

use crate::cycle;
use crate::plan::Plan;
use crate::world::{NODES, Shape, World, disks_missing};
use amita_harness::tool;
use amita_sim::random::Random;
use std::time::{Duration, Instant};

/// The longest freeze and the longest time that a node is down, in a test and in a soak. The lease is 5 s.
const LONGEST: Duration = Duration::from_secs(5);
const LONGEST_IN_SOAK: Duration = Duration::from_secs(60);
/// In a soak so many of a hundred cycles may last long.
const LONG_PERCENT: u64 = 10;

/// What nodes say as an error when a disk fails, and what a person has to look after then.
const A_DISK_FAILED: &[&str] = &["does not serve"];

/// So many cycles of a soak or a replay share a cluster.
const SHARED: usize = 10;

/// Runs the cycles of these seeds: those with failing disks on one cluster, the others on another. After each cycle
/// every group must come to have all of its copies again, and the next one begins.
fn run(seeds: &[u64], longest: impl Fn(u64) -> Duration) {
    let started = Instant::now();
    let plans: Vec<Plan> = seeds
        .iter()
        .map(|&seed| Plan::draw(seed, NODES, longest(seed)))
        .collect();
    let (disks, plain): (Vec<&Plan>, Vec<&Plan>) = plans.iter().partition(|plan| plan.needs_disks());
    let mut done = share(&plain, false);
    if let Some(why) = disks_missing() {
        println!("{} cycles with failing disks are left out: {why}", disks.len());
    } else {
        done += share(&disks, true);
    }
    println!(
        "{} cycles, {done} operations, {:.0} s: nothing lost, nothing stale",
        plans.len(),
        started.elapsed().as_secs_f64()
    );
}

/// Runs cycles on one cluster; how many operations were answered.
fn share(plans: &[&Plan], disks: bool) -> u64 {
    let Some(first) = plans.first() else { return 0 };
    let etcd = Random::new(first.seed).fork(2).percent(20) && tool::find("etcd").is_ok();
    let poisons = plans.iter().any(|plan| !plan.poisons().is_empty());
    let allowed = if poisons { A_DISK_FAILED } else { &[] };
    let mut world = World::start(Shape { disks, etcd }, first.seed);
    let mut done = 0;
    let mut before = None;
    for (number, plan) in plans.iter().enumerate() {
        println!("cycle {plan}\n  alone: AMITA_CHAOS_SEED={}", plan.seed);
        let seen = cycle::run(&mut world, number as u32 + 1, plan);
        done += seen.done();
        // What an earlier cycle has written stays as it is through the next one's faults.
        if let Some(before) = before.replace(seen) {
            cycle::judge_again(&world, &before);
        }
    }
    world.end(allowed);
    done
}

fn in_test(seeds: std::ops::Range<u64>) {
    run(&seeds.collect::<Vec<_>>(), |_| LONGEST);
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
#[ignore = "as long as several others: scripts/soak runs it"]
fn cycles_10_to_14() {
    in_test(10..15);
}

#[test]
#[ignore = "as long as several others: scripts/soak runs it"]
fn cycles_15_to_19() {
    in_test(15..20);
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// One cycle again, or `AMITA_CHAOS_CYCLES` of them from `AMITA_CHAOS_SEED` on.
#[test]
#[ignore = "runs what AMITA_CHAOS_SEED says"]
fn replay() {
    let first = number("AMITA_CHAOS_SEED").expect("AMITA_CHAOS_SEED says which seed");
    let count = number("AMITA_CHAOS_CYCLES").unwrap_or(1);
    let seeds: Vec<u64> = (first..first + count).collect();
    seeds.chunks(SHARED).for_each(|some| run(some, long_sometimes));
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
    let seeds: Vec<u64> = (first..first + count).collect();
    for some in seeds.chunks(SHARED) {
        if started.elapsed() < seconds {
            run(some, long_sometimes);
        }
    }
}
