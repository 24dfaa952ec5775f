//! Strangers who connect as often as they can, over the simulated network.

use super::*;
use amita_reactor::sim::{SimConfig, SimDriver, World, node_ip};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Node 1 is the gateway.
const STRANGERS: std::ops::Range<u32> = 2..42;
const HOST: u32 = 50;
const STEP: Duration = Duration::from_millis(10);

struct Siege {
    world: World,
    gateway: SimDriver,
    others: BTreeMap<u32, SimDriver>,
    fronts: Fronts,
    address: SocketAddr,
}

impl Siege {
    fn new(seed: u64) -> Siege {
        let mut world = World::new(seed, SimConfig::default());
        let mut gateway = world.driver(1);
        let others = STRANGERS.chain([HOST]).map(|node| (node, world.driver(node)));
        let others = others.collect();
        let mut fronts = Fronts::default();
        let make: MakeFront = Box::new(move |_, _, peer, _| {
            let known = Rc::new(Cell::new(peer.ip() == node_ip(HOST)));
            Box::new(Sink { known })
        });
        let (_, address) = fronts
            .listen(&mut gateway, SocketAddr::new(node_ip(1), 0), make)
            .unwrap();
        Siege {
            world,
            gateway,
            others,
            fronts,
            address,
        }
    }

    fn connect(&mut self, node: u32) {
        let address = self.address;
        self.others
            .get_mut(&node)
            .unwrap()
            .connect(address, amita_reactor::Token(7));
    }

    fn run(&mut self, length: Duration) {
        let until = self.world.now().plus(length);
        let mut completions = Vec::new();
        while let Some(node) = self.world.next_until(until) {
            let Some(other) = self.others.get_mut(&node) else {
                self.gateway.poll(Wait::No, &mut completions);
                for completion in completions.drain(..) {
                    self.fronts.completion(&mut self.gateway, completion);
                }
                self.fronts.tick(&mut self.gateway);
                self.fronts.end_pass(&mut self.gateway);
                self.fronts.flush(&mut self.gateway);
                continue;
            };
            other.poll(Wait::No, &mut Vec::new());
        }
    }

    /// Every stranger connects several times in each step.
    fn flood(&mut self, steps: usize) {
        for _ in 0..steps {
            for stranger in STRANGERS {
                (0..3).for_each(|_| self.connect(stranger));
            }
            self.run(STEP);
        }
    }

    fn sessions_from(&self, address: IpAddr) -> usize {
        let from = |session: &Session| matches!(session.peer, Some(Peer::Remote(peer)) if peer.ip() == address);
        self.fronts.sessions.values().filter(|session| from(session)).count()
    }
}

#[test]
fn a_flood_of_strangers_makes_no_more_sessions_than_the_budget_has_and_keeps_no_host_out() {
    let mut siege = Siege::new(1);
    // A host that was here, and is not now.
    siege.connect(HOST);
    siege.run(STEP);
    assert_eq!(siege.sessions_from(node_ip(HOST)), 1);
    siege.fronts.drop_hosts(&mut siege.gateway);
    siege.flood(100);
    let rate = ACCEPTS.strangers;
    let taken = siege.gateway.counts().accepts.taken - 1;
    assert!(
        taken <= u64::from(rate.burst + rate.per_second),
        "{taken} in the first second"
    );
    assert!(taken >= u64::from(rate.burst), "{taken}");
    siege.flood(100);
    let next = siege.gateway.counts().accepts.taken - 1 - taken;
    assert!(next <= u64::from(rate.per_second * 3 / 2), "{next} in the next");
    assert_eq!(
        siege.fronts.next - 1,
        taken + next + 1,
        "for the others no session was made"
    );
    assert!(siege.fronts.strangers.count <= MAX_STRANGERS);
    for round in 1..=20 {
        siege.connect(HOST);
        siege.flood(1);
        assert_eq!(siege.sessions_from(node_ip(HOST)), round);
    }
}
