//! What a listener takes of a flood.

use super::*;
use crate::admission::{AcceptLimits, Rate};
use crate::driver::{AcceptCounts, ListenerId};

const STRANGERS: u32 = 40;
const KNOWN: u32 = 50;
const LIMITS: AcceptLimits = AcceptLimits {
    strangers: Rate {
        per_second: 60,
        burst: 90,
    },
    source: Rate {
        per_second: 30,
        burst: 30,
    },
    known: Rate {
        per_second: 1000,
        burst: 1000,
    },
};
/// Between two connects of each stranger.
const GAP: Duration = Duration::from_millis(5);

struct Flooded {
    bench: Bench,
    listener: ListenerId,
    address: SocketAddr,
}

impl Flooded {
    /// Node 1 listens; nodes 2 and on connect.
    fn new(seed: u64) -> Flooded {
        let mut bench = Bench::new(seed, KNOWN);
        let (listener, address) = bench
            .driver(1)
            .listen(SocketAddr::new(node_ip(1), 0), Token(1))
            .unwrap();
        bench.driver(1).limit_accepts(listener, LIMITS);
        bench.driver(1).set_known(listener, node_ip(KNOWN), true);
        Flooded {
            bench,
            listener,
            address,
        }
    }

    /// So many strangers connect as often as they can for so long; how many of them the listener's node was told of.
    fn flood(&mut self, strangers: u32, length: Duration) -> usize {
        let mut told = 0;
        for _ in 0..(length.as_nanos() / GAP.as_nanos()) {
            for stranger in 2..2 + strangers {
                let address = self.address;
                self.bench.driver(stranger).connect(address, Token(2));
            }
            self.bench.run(GAP);
            told += self.accepted().len();
        }
        told
    }

    /// Who has come in, since this was last asked.
    fn accepted(&mut self) -> Vec<IpAddr> {
        let done = self.bench.done(1).into_iter();
        let peers = done.filter_map(|done| match done.outcome {
            Outcome::Accepted { peer, .. } => Some(peer.ip()),
            _ => None,
        });
        peers.collect()
    }

    fn counts(&mut self) -> AcceptCounts {
        self.bench.driver(1).counts().accepts
    }
}

#[test]
fn of_a_flood_as_many_are_taken_as_the_budget_has_and_it_comes_back() {
    for seed in 0..3 {
        let mut flooded = Flooded::new(seed);
        let first = flooded.flood(STRANGERS, Duration::from_secs(1));
        assert!(
            (90..=150).contains(&first),
            "what was saved up, and a second's: {first}"
        );
        for _ in 0..3 {
            let next = flooded.flood(STRANGERS, Duration::from_secs(1));
            assert!((40..=80).contains(&next), "{next} in a second");
        }
        let counts = flooded.counts();
        assert!(counts.pauses >= 8, "{counts:?}");
        assert_eq!(counts.refused, 0, "the rule stood before anybody was above the budget");
        // Those who were not answered come again for a while.
        flooded.bench.run(Duration::from_secs(5));
        flooded.accepted();
        let again = flooded.flood(STRANGERS, Duration::from_millis(20));
        assert_eq!(again, 90, "all that can be saved up");
    }
}

#[test]
fn who_is_known_comes_in_during_a_flood_at_once_and_who_is_not_known_any_more_does_not() {
    let mut flooded = Flooded::new(1);
    flooded.flood(STRANGERS, Duration::from_secs(1));
    let listener = flooded.listener;
    for _ in 0..100 {
        let address = flooded.address;
        flooded.bench.driver(KNOWN).connect(address, Token(3));
        for stranger in 2..2 + STRANGERS {
            flooded.bench.driver(stranger).connect(address, Token(2));
        }
        flooded.bench.run(GAP);
        assert!(flooded.accepted().contains(&node_ip(KNOWN)));
    }
    flooded.bench.driver(1).set_known(listener, node_ip(KNOWN), false);
    let mut came_in = 0;
    for _ in 0..100 {
        let address = flooded.address;
        flooded.bench.driver(KNOWN).connect(address, Token(3));
        flooded.flood(STRANGERS, GAP);
        came_in += flooded
            .accepted()
            .iter()
            .filter(|peer| **peer == node_ip(KNOWN))
            .count();
    }
    assert!(came_in <= 30, "{came_in}: no more than any other address");
}

#[test]
fn one_address_that_floods_keeps_out_nobody_else() {
    let mut flooded = Flooded::new(2);
    for round in 0..20 {
        flooded.flood(1, Duration::from_millis(100));
        let (address, other) = (flooded.address, 10 + round);
        flooded.bench.driver(other).connect(address, Token(3));
        flooded.bench.run(GAP);
        assert!(flooded.accepted().contains(&node_ip(other)), "round {round}");
    }
}

#[test]
fn who_is_not_answered_is_let_in_when_he_is_repeated_and_sees_no_error() {
    let mut flooded = Flooded::new(3);
    for _ in 0..3 {
        flooded.flood(STRANGERS, GAP);
    }
    assert_eq!(flooded.counts().pauses, 1);
    let address = flooded.address;
    flooded.bench.done(45);
    flooded.bench.driver(45).connect(address, Token(3));
    flooded.bench.run(Duration::from_secs(4));
    let outcomes = flooded.bench.done(45);
    assert!(
        matches!(
            &outcomes[..],
            [Completion {
                outcome: Outcome::Connected { result: Ok(_) },
                ..
            }]
        ),
        "{outcomes:?}"
    );
}

#[test]
fn without_limits_everybody_is_taken() {
    let mut bench = Bench::new(4, 2);
    let (_, address) = bench
        .driver(1)
        .listen(SocketAddr::new(node_ip(1), 0), Token(1))
        .unwrap();
    for _ in 0..2000 {
        bench.driver(2).connect(address, Token(2));
    }
    bench.run(Duration::from_millis(100));
    assert_eq!(bench.done(1).len(), 2000);
    assert_eq!(bench.driver(1).counts().accepts.taken, 2000);
}
