//! The share of limits and of the scheduler in an I/O, in nanoseconds: what is put in, asked for and ended, one after the other, by the
//! flows of a core that are always at work.
//!
//! `cargo bench -p amita-qos`

use amita_qos::lease::{GrantorConfig, HolderConfig, HolderId, LEASE, LONG_LEASE, LeaseEpoch, Standing};
use amita_qos::lines::Standings;
use amita_qos::scheduler::{Config, LimiterId, Standing as FlowStanding};
use amita_qos::{
    Class, Cost, DepthLimits, Direction, Elsewhere, Faults, Flow, FlowId, Grantor, Holder, Limit, Limiter, Limits,
    Lines, Scheduler,
};
use amita_reactor::Time;
use std::hint::black_box;
use std::num::NonZeroU16;
use std::time::Instant;

const ROUNDS: u64 = 4_000_000;
/// Requests of each flow that wait.
const QUEUED: usize = 4;
/// Between two I/Os of a core that does a million a second.
const TICK_NS: u64 = 1_000;

fn measure(name: &str, mut round: impl FnMut(u64)) {
    (0..ROUNDS / 10).for_each(&mut round);
    let start = Instant::now();
    (ROUNDS / 10..ROUNDS / 10 + ROUNDS).for_each(&mut round);
    let each = start.elapsed().as_nanos() as f64 / ROUNDS as f64;
    println!("{name:<52} {each:8.1} ns");
}

fn limits(operations: u64) -> Limits {
    let mut limits = Limits::default();
    limits.operations.both = Limit::of_rate(operations, 1).ok();
    limits.bytes.both = Limit::of_rate(operations * 8192, 128 << 10).ok();
    limits
}

/// A core with so many volumes at work; each under two limits, which hold it if `rate` is below what it would get.
struct Bench {
    scheduler: Scheduler<u32>,
    flows: Vec<FlowId>,
    held: u64,
}

impl Bench {
    fn new(count: u32, rate: Option<u64>, reservation: u64) -> Bench {
        let mut scheduler = Scheduler::new(Config {
            waiting: count as usize * QUEUED,
            depth: DepthLimits { least: 4, most: 64 },
            ..Config::default()
        });
        let tenant = rate.map(|rate| scheduler.add_limiter(Time(0), &limits(rate * u64::from(count))));
        let mut flows = Vec::new();
        for at in 0..count {
            let own = rate.map(|rate| scheduler.add_limiter(Time(0), &limits(rate)));
            let chain: Vec<LimiterId> = own.into_iter().chain(tenant).collect();
            let flow = Flow {
                weight: NonZeroU16::MIN.saturating_add(at as u16 % 7),
                reservation,
                ..Flow::new(Class::Client, FlowStanding::Free)
            };
            flows.push(scheduler.add(flow, &chain).expect("a flow"));
        }
        let mut bench = Bench {
            scheduler,
            flows,
            held: 0,
        };
        for at in 0..count {
            (0..QUEUED).for_each(|_| bench.put(Time(0), at));
        }
        bench
    }

    fn put(&mut self, now: Time, at: u32) {
        let cost = Cost::piece(Direction::Read, 4096);
        let put = self
            .scheduler
            .enqueue(now, self.flows[at as usize], at, cost, Elsewhere::default());
        assert!(put.is_ok(), "there is a place for each");
    }

    /// One goes, ends, and another comes in its place.
    fn round(&mut self, round: u64) {
        let now = Time(round * TICK_NS);
        match self.scheduler.next(now) {
            Some(dispatch) => {
                self.scheduler.done(now, dispatch.ticket);
                self.put(now, dispatch.item);
            }
            None => self.held += 1,
        }
    }
}

/// A store with so many volumes at work, of each of which so many wait; or with one request at a time, and none that waits.
fn lines(count: u32, queued: usize) {
    let mut lines = Lines::new(Config {
        waiting: count as usize * queued.max(1),
        depth: DepthLimits { least: 4, most: 64 },
        ..Config::default()
    });
    let standings = |at: u32| Standings {
        weight: NonZeroU16::MIN.saturating_add(at as u16 % 7),
        reservation: 0,
        latency_target: None,
    };
    let ids: Vec<_> = (0..count).map(|at| lines.add(standings(at))).collect();
    let cost = Cost::piece(Direction::Read, 4096);
    for at in 0..count {
        for _ in 0..queued {
            let put = lines.push(Time(0), ids[at as usize], Class::Client, at, cost);
            assert!(put.is_ok(), "there is a place for each");
        }
    }
    let mut next = 0;
    measure(&format!("qos.lines.volumes{count}.waiting{queued}.cpu_ns"), |round| {
        let now = Time(round * TICK_NS);
        if queued == 0 {
            next = (next + 1) % count;
            let put = lines.push(now, ids[next as usize], Class::Client, next, cost);
            assert!(put.is_ok(), "there is a place for it");
        }
        lines.go(now);
        while let Some(handed) = lines.take() {
            let turn = handed.turn.expect("it stood in a line");
            lines.done(now, turn.ticket);
            if queued > 0 {
                let put = lines.push(now, ids[handed.item as usize], Class::Client, handed.item, cost);
                assert!(put.is_ok(), "there is a place for each");
                break;
            }
        }
    });
}

fn leases() {
    let limit = Limit::new(1_000_000, 200_000).expect("a limit");
    let config = GrantorConfig {
        epoch: LeaseEpoch(1),
        lease: LEASE,
        long_lease: LONG_LEASE,
        largest: 1,
        standing: Standing::default(),
        faults: Faults::NONE,
    };
    let mut grantor = Grantor::first(Time(0), limit, config).expect("a grantor");
    grantor.mandate(Time(u64::MAX));
    let config = HolderConfig {
        lease: LEASE,
        is_long: false,
        largest: 1,
        standing_rate: 0,
        faults: Faults::NONE,
    };
    let id = HolderId { place: 0, session: 0 };
    let mut holder = Holder::new(Time(0), id, LeaseEpoch(1), config).expect("a holder");
    let mut passed = 0_u64;
    measure("qos.lease.spend.cpu_ns", |round| {
        let now = Time(round * 2 * TICK_NS);
        passed += u64::from(holder.spend(now, 1));
        if let Some(ask) = holder.ask(now, 100, 1) {
            grantor.ask(now, &ask);
            grantor.poll(now, |grant| {
                holder.grant(now, &grant);
            });
        }
    });
    assert!(passed > ROUNDS / 2, "{passed}");
}

fn main() {
    let mut limiter = Limiter::new(Time(0), &limits(2_000_000), Faults::NONE);
    measure("qos.limiter.two_buckets.cpu_ns", |round| {
        let now = Time(round * TICK_NS);
        if black_box(limiter.admits(now, Direction::Read)) {
            limiter.charge(now, Cost::piece(Direction::Read, 4096));
        }
    });
    for count in [1, 16, 1_000] {
        let mut bench = Bench::new(count, None, 0);
        measure(&format!("qos.scheduler.flows{count}.cpu_ns"), |round| {
            bench.round(round)
        });
        assert_eq!(bench.held, 0);
        let mut bench = Bench::new(count, None, 100 << 20);
        measure(&format!("qos.scheduler.flows{count}.reserved.cpu_ns"), |round| {
            bench.round(round)
        });
        let mut bench = Bench::new(count, Some(2_000_000), 0);
        measure(&format!("qos.scheduler.flows{count}.limits.cpu_ns"), |round| {
            bench.round(round)
        });
        assert_eq!(bench.held, 0);
        // Each volume, and their tenant, may do half of what there is time for.
        let mut bench = Bench::new(count, Some(500_000 / u64::from(count)), 0);
        measure(&format!("qos.scheduler.flows{count}.held.cpu_ns"), |round| {
            bench.round(round)
        });
        assert!(bench.held > ROUNDS / 3, "{} rounds had nothing", bench.held);
    }
    for count in [16, 1_000] {
        lines(count, 0);
        lines(count, QUEUED);
    }
    leases();
}
