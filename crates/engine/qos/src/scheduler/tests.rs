mod latency;
mod limited;
mod many;
mod model;

use super::{Class, Config, Dispatch, Flow, FlowError, FlowId, Scheduler, Standing, Ticket};
use crate::bucket::Limit;
use crate::depth::DepthLimits;
use crate::faults::{Fault, Faults};
use crate::limits::{Cost, Direction, Limits};
use crate::tracker::Elsewhere;
use amita_reactor::Time;
use std::num::NonZeroU16;

const SECOND: u64 = 1_000_000_000;
const BYTES: u32 = 4096;

fn weight(weight: u16) -> NonZeroU16 {
    NonZeroU16::new(weight).unwrap()
}

fn client(of: u16) -> Flow {
    Flow {
        weight: weight(of),
        ..Flow::new(Class::Client, Standing::Free)
    }
}

/// Work is bytes, so that shares are plain.
fn config(faults: Faults) -> Config {
    Config {
        operation_bytes: 0,
        depth: DepthLimits { least: 1, most: 1 },
        faults,
        ..Config::default()
    }
}

fn operations(rate: u64, burst: u64) -> Limits {
    let mut limits = Limits::default();
    limits.operations.both = Some(Limit::new(rate, burst).unwrap());
    limits
}

/// A device that does so many requests of 4 KiB a second, one after the other, and flows that always have `keep` waiting.
struct Bed {
    scheduler: Scheduler<usize>,
    flows: Vec<FlowId>,
    keep: Vec<usize>,
    waiting: Vec<usize>,
    served: Vec<u64>,
    reserved: Vec<u64>,
    now: u64,
    each: u64,
    idle: u64,
}

impl Bed {
    fn new(per_second: u64, faults: Faults) -> Bed {
        Bed {
            scheduler: Scheduler::new(config(faults)),
            flows: Vec::new(),
            keep: Vec::new(),
            waiting: Vec::new(),
            served: Vec::new(),
            reserved: Vec::new(),
            now: 0,
            each: SECOND / per_second,
            idle: 0,
        }
    }

    fn flow(&mut self, flow: Flow, limiters: &[super::LimiterId], keep: usize) -> usize {
        let id = self.scheduler.add(flow, limiters).unwrap();
        self.flows.push(id);
        self.keep.push(keep);
        self.waiting.push(0);
        self.served.push(0);
        self.reserved.push(0);
        self.flows.len() - 1
    }

    fn fill(&mut self) {
        for at in 0..self.flows.len() {
            while self.waiting[at] < self.keep[at] {
                let cost = Cost::piece(Direction::Read, BYTES);
                let (now, flow) = (Time(self.now), self.flows[at]);
                let put = self.scheduler.enqueue(now, flow, at, cost, Elsewhere::default());
                put.unwrap();
                self.waiting[at] += 1;
            }
        }
    }

    /// Runs for so long; what was served meanwhile, by flows.
    fn run(&mut self, ns: u64) -> Vec<u64> {
        let (before, end) = (self.served.clone(), self.now + ns);
        while self.now < end {
            self.fill();
            match self.scheduler.next(Time(self.now)) {
                Some(Dispatch { item, ticket }) => {
                    self.waiting[item] -= 1;
                    self.served[item] += 1;
                    self.reserved[item] += u64::from(ticket.reserved);
                    self.now += self.each;
                    self.scheduler.done(Time(self.now), ticket);
                }
                None => {
                    let wake = self.scheduler.wake_at().map_or(end, |at| at.0.min(end));
                    assert!(wake > self.now, "nothing goes, and nothing is to be waited for");
                    self.idle += wake - self.now;
                    self.now = wake;
                }
            }
        }
        self.served
            .iter()
            .zip(before)
            .map(|(now, before)| now - before)
            .collect()
    }
}

/// Within 5 %.
fn near(is: u64, should: u64) -> bool {
    is * 100 >= should * 95 && is * 100 <= should * 105
}

#[test]
fn shares_go_by_weight() {
    let mut bed = Bed::new(10_000, Faults::NONE);
    for of in [1, 2, 5] {
        bed.flow(client(of), &[], 3);
    }
    let served = bed.run(SECOND);
    assert!(
        near(served[0], 1_250) && near(served[1], 2_500) && near(served[2], 6_250),
        "{served:?}"
    );
}

/// A rebuild's part is the same beside one volume and beside two hundred.
#[test]
fn classes_share_whatever_the_number_of_their_flows() {
    for volumes in [1, 200] {
        let mut bed = Bed::new(76_000, Faults::NONE);
        let recovery = bed.flow(Flow::new(Class::Recovery, Standing::Free), &[], 4);
        for _ in 0..volumes {
            bed.flow(client(1), &[], 2);
        }
        let served = bed.run(SECOND);
        assert!(near(served[recovery], 12_000), "{volumes}: {}", served[recovery]);
    }
}

#[test]
fn a_reservation_holds_and_is_no_more_than_that() {
    for faults in [Faults::NONE, Faults::NONE.with(Fault::ReserveByWeight)] {
        let mut bed = Bed::new(10_000, faults);
        let reservation = 3_000 * u64::from(BYTES);
        let quiet = bed.flow(
            Flow {
                reservation,
                ..client(1)
            },
            &[],
            8,
        );
        bed.flow(client(99), &[], 64);
        let served = bed.run(4 * SECOND);
        assert!(near(served[quiet], 12_000), "{served:?}");
        // Alone for a while, it is given all by weight; when the other one is back, what is reserved is due as before.
        bed.keep[1] = 0;
        bed.run(2 * SECOND);
        bed.keep[1] = 64;
        let served = bed.run(SECOND);
        assert_eq!(near(served[quiet], 3_000), faults == Faults::NONE, "{served:?}");
    }
}

/// Who was idle gets its part from now on, and nothing for then.
#[test]
fn idle_flows_do_not_save_up() {
    for faults in [Faults::NONE, Faults::NONE.with(Fault::IdleSaves)] {
        let mut bed = Bed::new(10_000, faults);
        let reservation = 1_000 * u64::from(BYTES);
        bed.flow(client(1), &[], 4);
        let late = bed.flow(
            Flow {
                reservation,
                ..client(1)
            },
            &[],
            1,
        );
        let scrub = bed.flow(Flow::new(Class::Scrub, Standing::Free), &[], 1);
        bed.run(SECOND / 100);
        (bed.keep[late], bed.keep[scrub]) = (0, 0);
        bed.run(10 * SECOND);
        (bed.keep[late], bed.keep[scrub]) = (4, 4);
        let served = bed.run(SECOND);
        let is_fair = near(served[0], served[late]) && served[scrub] < 400;
        assert_eq!(is_fair, faults == Faults::NONE, "{served:?}");
    }
}

#[test]
fn within_a_volume_the_order_stays() {
    for (standing, faults, holds) in [
        (Standing::Versioned, Faults::NONE, true),
        (Standing::Free, Faults::NONE, true),
        (Standing::Versioned, Faults::NONE.with(Fault::Overtake), false),
    ] {
        let mut scheduler = Scheduler::new(config(faults));
        let flows = [1, 2].map(|_| scheduler.add(Flow::new(Class::Client, standing), &[]).unwrap());
        for item in 0..40_u32 {
            // A versioned flow is one queue, reads and writes together; of a free one each direction is.
            let direction = Direction::ALL[usize::from(item % 3 == 0)];
            let flow = flows[item as usize % 2];
            let put = scheduler.enqueue(Time(0), flow, item, Cost::piece(direction, BYTES), Elsewhere::default());
            put.unwrap();
        }
        let (mut last, mut ordered) = ([None; 4], true);
        while let Some(Dispatch { item, ticket }) = scheduler.next(Time(1)) {
            let lane = if standing == Standing::Free {
                usize::from(item % 3 == 0)
            } else {
                0
            };
            let last = &mut last[item as usize % 2 * 2 + lane];
            ordered &= *last < Some(item);
            *last = Some(item);
            scheduler.done(Time(1), ticket);
        }
        assert_eq!(ordered, holds);
        assert_eq!(scheduler.waiting(), 0);
    }
}

#[test]
fn what_has_a_version_is_never_held() {
    let mut scheduler = Scheduler::<u32>::new(config(Faults::NONE));
    let limiter = scheduler.add_limiter(Time(0), &operations(1, 1));
    let versioned = Flow::new(Class::Client, Standing::Versioned);
    assert_eq!(scheduler.add(versioned, &[limiter]), Err(FlowError::LimitedVersion));
    let flow = scheduler.add(versioned, &[]).unwrap();
    let set = scheduler.set(Time(0), flow, versioned, &[limiter]);
    assert_eq!(set, Err(FlowError::LimitedVersion));
    let limiters = [0; 5].map(|_| scheduler.add_limiter(Time(0), &operations(1, 1)));
    assert_eq!(scheduler.add(client(1), &limiters), Err(FlowError::TooManyLimiters));
}

#[test]
fn a_host_that_goes_takes_its_requests_with_it() {
    let mut scheduler = Scheduler::new(config(Faults::NONE));
    let limiter = scheduler.add_limiter(Time(0), &operations(1, 1));
    let flow = scheduler.add(client(1), &[limiter]).unwrap();
    let put = |scheduler: &mut Scheduler<u32>, item: u32| {
        let cost = Cost::piece(Direction::Write, BYTES);
        scheduler
            .enqueue(Time(0), flow, item, cost, Elsewhere::default())
            .unwrap();
    };
    (0..6).for_each(|item| put(&mut scheduler, item));
    let first = scheduler.next(Time(0)).unwrap();
    assert_eq!(first.item, 0);
    scheduler.done(Time(0), first.ticket);
    assert!(scheduler.next(Time(0)).is_none(), "held");
    assert_eq!(scheduler.cancel(Time(0), flow, |item| item % 2 == 1), 3);
    let wake = scheduler.wake_at().unwrap();
    assert_eq!(wake, Time(SECOND));
    let second = scheduler.next(wake).unwrap();
    assert_eq!(second.item, 2);
    scheduler.done(wake, second.ticket);
    assert_eq!(scheduler.cancel(wake, flow, |_| true), 1);
    assert_eq!((scheduler.waiting(), scheduler.wake_at()), (0, None));
    put(&mut scheduler, 9);
    scheduler.remove(wake, flow);
    scheduler.remove_limiter(limiter);
    assert_eq!(scheduler.waiting(), 0);
    // Its place is another's; what was under way of it ends as ever.
    let other = scheduler.add(client(1), &[]).unwrap();
    assert_ne!(other, flow);
}

#[test]
fn places_are_bounded_and_come_back() {
    let config = Config {
        waiting: 2,
        ..config(Faults::NONE)
    };
    let mut scheduler = Scheduler::new(config);
    let flow = scheduler.add(client(1), &[]).unwrap();
    let cost = Cost::piece(Direction::Read, BYTES);
    let put = |scheduler: &mut Scheduler<u32>| scheduler.enqueue(Time(0), flow, 7, cost, Elsewhere::default());
    assert_eq!(
        [put(&mut scheduler), put(&mut scheduler), put(&mut scheduler)],
        [Ok(()), Ok(()), Err(7)]
    );
    let one = scheduler.next(Time(0)).unwrap();
    assert!(scheduler.next(Time(0)).is_none(), "one may be under way");
    assert_eq!(put(&mut scheduler), Ok(()));
    scheduler.done(Time(0), one.ticket);
    assert_eq!(scheduler.depth(), (0, 1));
    assert!(scheduler.next(Time(0)).is_some());
}

/// The latency that counts is what others cost: not its own queue, not its own limit.
#[test]
fn a_request_waits_for_others_from_when_it_could_have_gone() {
    let mut scheduler = Scheduler::new(config(Faults::NONE));
    let limiter = scheduler.add_limiter(Time(0), &operations(1_000, 1));
    let flow = scheduler.add(client(1), &[limiter]).unwrap();
    let cost = Cost::piece(Direction::Read, BYTES);
    for item in 0..2 {
        scheduler
            .enqueue(Time(0), flow, item, cost, Elsewhere::default())
            .unwrap();
    }
    let one = scheduler.next(Time(5)).unwrap();
    assert_eq!(one.ticket.since, Time(0));
    scheduler.done(Time(9), one.ticket);
    let wake = scheduler.wake_at().unwrap();
    let two: Dispatch<u32> = scheduler.next(wake).unwrap();
    assert_eq!(two.ticket.since, wake);
    let _: Ticket = two.ticket;
}
