//! One client's work at many servers: it gets its reservation once, and not at each (dmClock).

use super::{BYTES, SECOND, client, config};
use crate::faults::Faults;
use crate::limits::{Cost, Direction};
use crate::scheduler::{Flow, FlowId, Scheduler, Ticket};
use crate::tracker::{Elsewhere, Tracker};
use amita_reactor::Time;
use amita_testkit::Random;

const SERVERS: usize = 4;

struct Server {
    scheduler: Scheduler<usize>,
    flows: [FlowId; 2],
    busy: Option<(u64, usize, Ticket)>,
}

fn servers(reserved: Flow) -> Vec<Server> {
    let server = |_| {
        let mut scheduler = Scheduler::new(config(Faults::NONE));
        let flows = [reserved, client(1_000)].map(|flow| scheduler.add(flow, &[]).unwrap());
        Server {
            scheduler,
            flows,
            busy: None,
        }
    };
    (0..SERVERS).map(server).collect()
}

/// Requests a second of a client with a reservation of 1,000 in all, whose work goes to the servers as `skew` says (in a hundred, to
/// the first); another of much weight fills each of them.
fn reserved_rate(skew: u64, tells: bool) -> u64 {
    let mut random = Random::new(skew);
    let mut servers = servers(Flow {
        reservation: 1_000 * u64::from(BYTES),
        ..client(1)
    });
    let mut tracker = Tracker::default();
    let (mut waiting, mut noise, mut served) = (0, [0; SERVERS], 0);
    let (each, seconds) = (SECOND / 2_000, 10);
    let cost = Cost::piece(Direction::Read, BYTES);
    let mut now = 0;
    while now < seconds * SECOND {
        while waiting < 64 {
            let at = if random.percent(skew) {
                0
            } else {
                random.below(SERVERS as u64) as usize
            };
            let told = tracker.ask(at);
            let elsewhere = if tells { told } else { Elsewhere::default() };
            let server = &mut servers[at];
            let put = server.scheduler.enqueue(Time(now), server.flows[0], 0, cost, elsewhere);
            put.unwrap();
            waiting += 1;
        }
        for (at, server) in servers.iter_mut().enumerate() {
            if let Some((_, whose, ticket)) = server.busy.take_if(|(end, ..)| *end <= now) {
                server.scheduler.done(Time(now), ticket);
                if whose == 0 {
                    tracker.answered(at, ticket.work, ticket.reserved);
                    waiting -= 1;
                    served += 1;
                } else {
                    noise[at] -= 1;
                }
            }
            while noise[at] < 4 {
                let put = server
                    .scheduler
                    .enqueue(Time(now), server.flows[1], 1, cost, Elsewhere::default());
                put.unwrap();
                noise[at] += 1;
            }
            if server.busy.is_none()
                && let Some(dispatch) = server.scheduler.next(Time(now))
            {
                server.busy = Some((now + each, dispatch.item, dispatch.ticket));
            }
        }
        now += each / 4;
    }
    served / seconds
}

#[test]
fn a_reservation_counts_once_over_all_servers() {
    for skew in [0, 20] {
        let told = reserved_rate(skew, true);
        assert!((950..=1_060).contains(&told), "skew {skew}: {told}");
        let untold = reserved_rate(skew, false);
        assert!(untold > 2_000, "each server gives it all, unless it is told: {untold}");
    }
}
