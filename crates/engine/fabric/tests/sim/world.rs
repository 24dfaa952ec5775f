//! A simulated world with some nodes in it.

use super::common::relay::Relay;
use super::common::{Node, Raw};
use amita_reactor::core::Service;
use amita_reactor::sim::{SimConfig, SimDriver, World};
use amita_reactor::{Completion, Time};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

pub const PORT: u16 = 7400;

pub enum Kind {
    Node(Box<Node>),
    Raw(Raw),
    Relay(Relay),
}

pub struct Cluster {
    pub world: World,
    services: BTreeMap<u32, (SimDriver, Kind)>,
    completions: Vec<Completion>,
}

pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl Cluster {
    pub fn new(seed: u64) -> Cluster {
        Cluster::with(seed, SimConfig::default())
    }

    pub fn with(seed: u64, config: SimConfig) -> Cluster {
        Cluster {
            world: World::new(seed, config),
            services: BTreeMap::new(),
            completions: Vec::new(),
        }
    }

    pub fn address(&self, node: u32) -> SocketAddr {
        SocketAddr::new(self.world.address(node), PORT)
    }

    /// Starts a node that listens at its address.
    pub fn start(&mut self, number: u32, node: Node) {
        let address = self.address(number);
        self.add(number, Kind::Node(Box::new(node.listen(address))));
    }

    /// Starts nodes 1 and 2, of which 1 has a link to 2.
    pub fn pair(seed: u64, one: Node, two: Node) -> Cluster {
        let mut cluster = Cluster::new(seed);
        let address = cluster.address(2);
        cluster.start(1, one.peer(2, address));
        cluster.start(2, two);
        cluster
    }

    pub fn start_raw(&mut self, number: u32, raw: Raw) {
        self.add(number, Kind::Raw(raw));
    }

    fn add(&mut self, number: u32, service: Kind) {
        let driver = self.world.driver(number);
        self.services.insert(number, (driver, service));
    }

    pub fn node(&mut self, number: u32) -> &mut Node {
        match &mut self.services.get_mut(&number).expect("started").1 {
            Kind::Node(node) => node,
            Kind::Raw(_) | Kind::Relay(_) => panic!("{number} is no node"),
        }
    }

    pub fn raw(&mut self, number: u32) -> &mut Raw {
        match &mut self.services.get_mut(&number).expect("started").1 {
            Kind::Raw(raw) => raw,
            Kind::Node(_) | Kind::Relay(_) => panic!("{number} is not raw"),
        }
    }

    /// Starts somebody between whoever calls `number` and node `target`.
    pub fn start_relay(&mut self, number: u32, target: u32) {
        let (address, target) = (self.address(number), self.address(target));
        self.add(number, Kind::Relay(Relay::new(address, target)));
    }

    pub fn relay(&mut self, number: u32) -> &mut Relay {
        match &mut self.services.get_mut(&number).expect("started").1 {
            Kind::Relay(relay) => relay,
            Kind::Node(_) | Kind::Raw(_) => panic!("{number} is no relay"),
        }
    }

    /// The process dies.
    pub fn kill(&mut self, number: u32) {
        self.world.kill(number);
        self.services.remove(&number);
    }

    pub fn power_cut(&mut self, number: u32) {
        self.world.power_cut(number);
        self.services.remove(&number);
    }

    /// A pass of every service, for those that were given something to do from outside, and then time.
    pub fn run(&mut self, length: Duration) {
        self.poke();
        let end = self.world.now().plus(length);
        self.run_until(end, |_| false);
    }

    /// Runs until it is so; panics after a minute.
    pub fn run_till(&mut self, what: impl FnMut(&mut Cluster) -> bool) {
        self.poke();
        let end = self.world.now().plus(seconds(60));
        assert!(self.run_until(end, what), "not within a minute");
    }

    fn run_until(&mut self, end: Time, mut what: impl FnMut(&mut Cluster) -> bool) -> bool {
        while !what(self) {
            let Some(number) = self.world.next_until(end) else {
                return false;
            };
            self.pass(number);
        }
        true
    }

    pub fn poke(&mut self) {
        for (driver, _) in self.services.values_mut() {
            driver.again();
        }
    }

    fn pass(&mut self, number: u32) {
        let (driver, service) = self.services.get_mut(&number).expect("started");
        match service {
            Kind::Node(node) => driver.run(&mut **node as &mut dyn Service, &mut self.completions),
            Kind::Raw(raw) => driver.run(raw, &mut self.completions),
            Kind::Relay(relay) => driver.run(relay, &mut self.completions),
        }
    }
}
