//! A flow with a latency target beside one that fills whatever is below.

use super::{BYTES, Config, Cost, DepthLimits, Direction, Elsewhere, Flow, Scheduler, Time, client, config};
use crate::faults::Faults;
use std::collections::VecDeque;
use std::time::Duration;

const MS: u64 = 1_000_000;
const TARGET: Duration = Duration::from_millis(1);
/// A device does one after the other, each in so long.
const EACH: u64 = MS / 10;

/// Of a hundred requests of the flow, how many were later than its target; and what the device did in a hundred steps.
fn late(target: Option<Duration>, most: u32) -> (u64, u64) {
    let mut scheduler = Scheduler::new(Config {
        depth: DepthLimits { least: 1, most },
        ..config(Faults::NONE)
    });
    let watched = Flow {
        latency_target: target,
        ..client(1)
    };
    let [watched, noisy] = [watched, client(1)].map(|flow| scheduler.add(flow, &[]).unwrap());
    let cost = Cost::piece(Direction::Read, BYTES);
    let mut device = VecDeque::new();
    let (mut seen, mut missed, mut done) = (0, 0, 0);
    let mut noise = 0;
    for step in 0..100_000 {
        let now = Time(step * EACH);
        // One each 5 ms; sixty-four of the other always.
        if step % 50 == 0 {
            scheduler.enqueue(now, watched, 0, cost, Elsewhere::default()).unwrap();
        }
        while noise < 64 {
            scheduler.enqueue(now, noisy, 1, cost, Elsewhere::default()).unwrap();
            noise += 1;
        }
        if let Some((item, ticket)) = device.pop_front() {
            scheduler.done(now, ticket);
            // The first half is for learning.
            let counts = step > 50_000;
            noise -= item;
            done += u64::from(counts);
            if item == 0 && counts {
                seen += 1;
                missed += u64::from(now.since(ticket.since) > TARGET);
            }
        }
        while let Some(dispatch) = scheduler.next(now) {
            device.push_back((dispatch.item, dispatch.ticket));
        }
    }
    (missed * 100 / seen, done * 100 / 50_000)
}

#[test]
fn a_target_bounds_what_is_under_way() {
    let (missed, _) = late(None, 64);
    assert!(missed > 90, "without one it waits behind all that is below: {missed} %");
    let (missed, done) = late(Some(TARGET), 64);
    assert!(missed <= 1, "{missed} %");
    assert!(done >= 99, "and the device has enough to do: {done} %");
}
