//! Flows under limits of their own and of several.

use super::{BYTES, Bed, SECOND, client, near, operations};
use super::{Cost, Direction, Elsewhere, Limit, Scheduler, config};
use crate::faults::{Fault, Faults};
use crate::scheduler::{Class, Flow, Standing};
use amita_reactor::Time;

#[test]
fn a_limit_holds_and_others_have_the_rest() {
    let mut bed = Bed::new(10_000, Faults::NONE);
    let limiter = bed.scheduler.add_limiter(Time(0), &operations(1_000, 5));
    let limited = bed.flow(client(50), &[limiter], 8);
    let free = bed.flow(client(1), &[], 8);
    let served = bed.run(2 * SECOND);
    assert!(served[limited] <= 2_005 && near(served[limited], 2_000), "{served:?}");
    assert!(near(served[free], 18_000) && bed.idle == 0, "{served:?}");
}

/// Volumes of a tenant, whose limit is below what they want, by their weights, however much others press from other tenants.
#[test]
fn a_tenants_volumes_share_its_limit_by_weight() {
    for faults in [
        Faults::NONE,
        Faults::NONE.with(Fault::ForgetShared),
        Faults::NONE.with(Fault::WakeByArrival),
    ] {
        let mut bed = Bed::new(20_000, faults);
        let tenant = bed.scheduler.add_limiter(Time(0), &operations(2_000, 20));
        for of in 1..=4 {
            let own = bed.scheduler.add_limiter(Time(0), &operations(5_000, 50));
            bed.flow(client(of), &[own, tenant], 4);
        }
        bed.flow(client(10), &[], 8);
        let served = bed.run(4 * SECOND);
        let all: u64 = served[..4].iter().sum();
        let holds = all <= 8_020 && near(all, 8_000);
        let fair = (0..4).all(|at| near(served[at], 800 * (at as u64 + 1)));
        assert_eq!(holds && fair, faults == Faults::NONE, "{served:?}");
        assert_eq!(bed.idle, 0, "the other one has the rest");
    }
}

/// A volume that its own limit holds keeps nobody from the tenant's.
#[test]
fn who_is_held_elsewhere_passes_the_turn_on() {
    let mut bed = Bed::new(50_000, Faults::NONE);
    let tenant = bed.scheduler.add_limiter(Time(0), &operations(5_000, 10));
    let slow = bed.scheduler.add_limiter(Time(0), &operations(100, 5));
    let held = bed.flow(client(100), &[slow, tenant], 4);
    let one = bed.flow(client(1), &[tenant], 4);
    let other = bed.flow(client(1), &[tenant], 4);
    let served = bed.run(2 * SECOND);
    assert!(near(served[held], 200), "{served:?}");
    assert!(near(served[one], 4_900) && near(served[other], 4_900), "{served:?}");
}

#[test]
fn reads_go_on_while_writes_are_held() {
    let mut scheduler = Scheduler::new(config(Faults::NONE));
    let mut limits = operations(1_000_000, 1_000);
    limits.operations.write = Some(Limit::new(1, 1).unwrap());
    let limiter = scheduler.add_limiter(Time(0), &limits);
    let flow = scheduler.add(client(1), &[limiter]).unwrap();
    for item in 0..8_u32 {
        let direction = if item < 4 { Direction::Write } else { Direction::Read };
        let cost = Cost::piece(direction, BYTES);
        let put = scheduler.enqueue(Time(0), flow, item, cost, Elsewhere::default());
        put.unwrap();
    }
    let mut went = Vec::new();
    while let Some(dispatch) = scheduler.next(Time(0)) {
        went.push(dispatch.item);
        scheduler.done(Time(0), dispatch.ticket);
    }
    assert_eq!(went, [0, 4, 5, 6, 7]);
    assert_eq!(scheduler.wake_at(), Some(Time(SECOND)));
}

#[test]
fn limits_and_weights_change_while_flows_wait() {
    let mut bed = Bed::new(10_000, Faults::NONE);
    let limiter = bed.scheduler.add_limiter(Time(0), &operations(100, 1));
    let one = bed.flow(client(1), &[limiter], 8);
    let other = bed.flow(client(1), &[], 8);
    assert!(near(bed.run(SECOND)[one], 100));
    bed.scheduler.set_limits(Time(bed.now), limiter, &operations(2_000, 20));
    assert!(near(bed.run(SECOND)[one], 2_000));
    let set = bed.scheduler.set(Time(bed.now), bed.flows[one], client(3), &[]);
    set.unwrap();
    bed.scheduler.remove_limiter(limiter);
    let served = bed.run(SECOND);
    assert!(near(served[one], 7_500) && near(served[other], 2_500), "{served:?}");
    // A reservation begins now; nothing is owed for before.
    let reserved = Flow {
        reservation: 5_000 * u64::from(BYTES),
        ..client(1)
    };
    let set = bed.scheduler.set(Time(bed.now), bed.flows[other], reserved, &[]);
    set.unwrap();
    let served = bed.run(SECOND / 10);
    assert!(near(served[other], 500), "{served:?}");
}

/// A reservation that is due has the first turn at a shared limit, too.
#[test]
fn a_reservation_holds_within_a_shared_limit() {
    let mut bed = Bed::new(10_000, Faults::NONE);
    let tenant = bed.scheduler.add_limiter(Time(0), &operations(1_000, 10));
    let reserved = Flow {
        reservation: 500 * u64::from(BYTES),
        ..client(1)
    };
    let small = bed.flow(reserved, &[tenant], 4);
    for _ in 0..9 {
        bed.flow(client(1), &[tenant], 4);
    }
    let scrub = bed.flow(Flow::new(Class::Scrub, Standing::Free), &[], 4);
    let served = bed.run(4 * SECOND);
    assert!(served[small] * 100 >= 2_000 * 95, "{served:?}");
    assert!(served[scrub] > 30_000, "idle time is nobody's: {served:?}");
}
