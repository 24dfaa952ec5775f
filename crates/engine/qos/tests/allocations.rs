//! An I/O allocates nothing: what is needed is taken while flows and holders are added.

use amita_qos::lease::{HolderConfig, HolderId, LEASE, LONG_LEASE, LeaseEpoch, Standing};
use amita_qos::scheduler::{Config, Standing as FlowStanding};
use amita_qos::{
    Class, Cost, Direction, Elsewhere, Faults, Flow, FlowId, Grant, Grantor, Holder, Limit, Limits, Scheduler, Tracker,
};
use amita_reactor::Time;
use amita_testkit::Random;
use amita_testkit::allocations::{self, Counting};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const FLOWS: usize = 500;

fn operations(rate: u64, burst: u64) -> Limits {
    let mut limits = Limits::default();
    limits.operations.both = Some(Limit::new(rate, burst).expect("a limit"));
    limits
}

/// Flows of ten tenants, each with a limit of its own as well; some have reservations.
fn scheduler() -> (Scheduler<u64>, Vec<FlowId>) {
    let mut scheduler = Scheduler::new(Config::default());
    let tenants: Vec<_> = (0..10)
        .map(|_| scheduler.add_limiter(Time(0), &operations(20_000, 500)))
        .collect();
    let flows = (0..FLOWS).map(|at| {
        let own = scheduler.add_limiter(Time(0), &operations(1_000, 20));
        let flow = Flow {
            reservation: if at % 3 == 0 { 1 << 20 } else { 0 },
            ..Flow::new(Class::ALL[at % 6], FlowStanding::Free)
        };
        scheduler.add(flow, &[own, tenants[at % 10]]).expect("a flow")
    });
    let flows = flows.collect();
    (scheduler, flows)
}

#[test]
fn the_scheduler_allocates_nothing() {
    let (mut scheduler, flows) = scheduler();
    let mut random = Random::new(1);
    let mut tracker = Tracker::default();
    tracker.ask(3);
    let before = allocations::count();
    let (mut now, mut passed) = (0, 0);
    for number in 0..200_000 {
        let flow = flows[random.below(FLOWS as u64) as usize];
        let cost = Cost::piece(Direction::ALL[number as usize % 2], 4096);
        let elsewhere: Elsewhere = tracker.ask(number as usize % 4);
        let _ = scheduler.enqueue(Time(now), flow, number, cost, elsewhere);
        while let Some(dispatch) = scheduler.next(Time(now)) {
            passed += 1;
            scheduler.done(Time(now), dispatch.ticket);
        }
        now += 10_000;
    }
    assert_eq!(allocations::count() - before, 0);
    assert!(passed > 100_000, "{passed}");
}

#[test]
fn leases_allocate_nothing() {
    let limit = Limit::new(100_000, 20_000).expect("a limit");
    let config = amita_qos::lease::GrantorConfig {
        epoch: LeaseEpoch(1),
        lease: LEASE,
        long_lease: LONG_LEASE,
        largest: 1,
        standing: Standing::default(),
        faults: Faults::NONE,
    };
    let mut grantor = Grantor::first(Time(0), limit, config).expect("a grantor");
    grantor.mandate(Time(u64::MAX));
    let holder = |place| {
        let config = HolderConfig {
            lease: LEASE,
            is_long: false,
            largest: 1,
            standing_rate: 10,
            faults: Faults::NONE,
        };
        let id = HolderId { place, session: 1 };
        Holder::new(Time(0), id, LeaseEpoch(1), config).expect("a holder")
    };
    let mut holders: Vec<Holder> = (0..8).map(holder).collect();
    let mut grants: Vec<Grant> = Vec::with_capacity(holders.len());
    let (mut before, mut passed) = (0, 0);
    for step in 0..20_000 {
        if step == 1_000 {
            before = allocations::count();
        }
        let now = Time(step * 100_000);
        for holder in &mut holders {
            passed += (0..4).filter(|_| holder.spend(now, 1)).count();
            if let Some(ask) = holder.ask(now, 400, 1) {
                grantor.ask(now, &ask);
            }
        }
        grantor.poll(now, |grant| grants.push(grant));
        for grant in grants.drain(..) {
            holders[grant.holder.place as usize].grant(now, &grant);
        }
    }
    assert_eq!(allocations::count() - before, 0);
    assert!(passed > 150_000, "{passed}");
}
