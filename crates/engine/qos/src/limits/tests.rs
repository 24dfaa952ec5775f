use super::{Cost, Direction, LARGEST_BYTES, Limiter, Limits, Measures};
use crate::bucket::Limit;
use crate::faults::Faults;
use amita_reactor::Time;
use amita_testkit::Random;

const SECOND: u64 = 1_000_000_000;

fn limit(rate: u64) -> Option<Limit> {
    Some(Limit::new(rate, rate).unwrap())
}

/// What passes within ten seconds of a host that always has both: reads and writes, and the bytes of both.
fn ten_seconds(limits: &Limits, bytes: u32) -> [u64; 3] {
    let mut limiter = Limiter::new(Time(0), limits, Faults::NONE);
    let (mut now, mut passed) = (0, [0; 3]);
    while now < 10 * SECOND {
        let mut next = u64::MAX;
        for direction in Direction::ALL {
            if limiter.admits(Time(now), direction) {
                limiter.charge(Time(now), Cost::piece(direction, bytes));
                passed[direction as usize] += 1;
                passed[2] += u64::from(bytes);
            }
            let _ = limiter.admits(Time(now), direction);
            next = next.min(limiter.ready_at(direction).0);
        }
        now = now.max(next);
    }
    passed
}

#[test]
fn reads_and_writes_apart_and_together() {
    let mut limits = Limits::default();
    limits.operations.read = limit(1_000);
    limits.operations.write = limit(300);
    assert_eq!(ten_seconds(&limits, 4096)[..2], [10_999, 3_299]);
    limits.operations.both = limit(500);
    let [reads, writes, _] = ten_seconds(&limits, 4096);
    assert_eq!(reads + writes, 5_499);
    assert!(writes <= 3_299 && reads > 0, "{reads} {writes}");
}

#[test]
fn the_narrower_of_operations_and_bytes_holds() {
    let limits = Limits {
        operations: Measures {
            both: limit(1_000),
            ..Measures::default()
        },
        bytes: Measures {
            both: limit(64 << 20),
            ..Measures::default()
        },
    };
    let [reads, writes, _] = ten_seconds(&limits, 4096);
    assert_eq!(reads + writes, 10_999);
    let [.., bytes] = ten_seconds(&limits, LARGEST_BYTES as u32);
    let most = 11 * (64 << 20);
    assert!(bytes <= most && bytes >= most - 2 * LARGEST_BYTES, "{bytes} of {most}");
}

#[test]
fn what_is_not_limited_is_not_held() {
    let mut limits = Limits::default();
    let mut limiter = Limiter::new(Time(0), &limits, Faults::NONE);
    assert!(limiter.admits(Time(0), Direction::Read));
    assert_eq!(limiter.ready_at(Direction::Read), Time(0));
    limits.bytes.write = limit(1);
    limiter.set(Time(5), &limits);
    limiter.charge(Time(5), Cost::piece(Direction::Write, 4096));
    assert!(!limiter.admits(Time(5), Direction::Write) && limiter.admits(Time(5), Direction::Read));
    limiter.set(Time(6), &Limits::default());
    assert!(limiter.admits(Time(6), Direction::Write));
}

/// A tenant's limiter beside the volumes': whatever is done in whatever order, each holds.
#[test]
fn all_of_a_chain_hold() {
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let mut of = |rate: u64| {
            let mut limits = Limits::default();
            limits.operations.both = Some(Limit::new(rate, random.within(10, 50)).unwrap());
            (
                Limiter::new(Time(0), &limits, Faults::NONE),
                limits.operations.both.unwrap(),
            )
        };
        let (mut tenant, shared) = of(400);
        let mut volumes = [of(100), of(250), of(1_000)];
        let mut passed = [0_u64; 3];
        let mut now = 0;
        for _ in 0..20_000 {
            let at = random.below(3) as usize;
            let volume = &mut volumes[at].0;
            if volume.admits(Time(now), Direction::Read) && tenant.admits(Time(now), Direction::Read) {
                let cost = Cost::piece(Direction::Read, 512);
                volume.charge(Time(now), cost);
                tenant.charge(Time(now), cost);
                passed[at] += 1;
            }
            now += random.below(200_000);
        }
        for (passed, (_, limit)) in passed.iter().zip(&volumes) {
            assert!(u128::from(*passed) <= limit.most(now, 1), "seed {seed}");
        }
        let all: u64 = passed.iter().sum();
        assert!(u128::from(all) <= shared.most(now, 1), "seed {seed}");
        assert!(u128::from(all) * 100 >= shared.most(now, 1) * 95, "seed {seed}: {all}");
    }
}
