//! The software of one 4 KiB I/O: a gateway and three stores, each a whole [`Core`] of its own, on sockets and files that
//! are memory of this thread. What is left out is the kernel (system calls, TCP, waking) and most copies that it makes;
//! what is left is everything of ours. Nanoseconds per I/O, of the gateway and of the stores.
//!
//! `cargo bench -p amita-node --bench path`; `-- DEPTH SECONDS read|write|trace` may follow; `trace` says what
//! tracing costs.

mod driver;
mod tracing;

use amita_frontend::{Event, Flow, Front, FrontId, StorageService, Who};
use amita_metadata::model::State;
use amita_metadata::{Call, Event as Change};
use amita_node::control::{FromCore, Record, ToCore};
use amita_node::mail::Mail;
use amita_node::{Core, CoreConfig};
use amita_reactor::{Driver, Inbox, Outbox, Pool, Slice, Time, Wait};
use amita_types::io::Op;
use amita_types::placement::Level;
use amita_types::{BLOCK_BYTES, ClusterId, Epoch, GroupIndex, NodeId, PoolId, StoreId, VolumeId, map};
use driver::{MemoryDriver, Net};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

const CLUSTER: ClusterId = ClusterId(0xbe4c);
const NODES: u32 = 4;
const STORE_BYTES: u64 = 640 << 20;
const VOLUME_BYTES: u64 = 256 << 20;
const GROUPS: u32 = 64;
const NAME: &str = "bench";
/// Rounds of a measurement.
const ROUNDS: u32 = 40;

fn address(node: u32) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 7000 + node as u16))
}

fn json<T: serde::Serialize>(record: &T) -> Vec<u8> {
    serde_json::to_vec(record).expect("a record is plain data")
}

/// What the load hears.
#[derive(Default)]
struct Heard {
    volume: Option<VolumeId>,
    /// Operations under way.
    under_way: u32,
    done: u64,
}

struct Load(Rc<RefCell<Heard>>);

impl Front for Load {
    fn received(&mut self, _: Time, _: &mut Inbox, _: &mut Outbox, _: &Pool, _: &mut dyn StorageService) -> Flow {
        Flow::Go
    }

    fn event(&mut self, _: Time, event: Event, _: &mut Outbox, _: &Pool, _: &mut dyn StorageService) -> Flow {
        let mut heard = self.0.borrow_mut();
        match event {
            Event::Opened { result, .. } => heard.volume = Some(result.expect("the volume opens").id),
            Event::Done { result, .. } => {
                assert_eq!(result, Ok(()));
                heard.under_way -= 1;
                heard.done += 1;
            }
            other => panic!("{other:?}"),
        }
        Flow::Go
    }

    fn tick(&mut self, _: Time, _: &mut Outbox, _: &Pool, _: &mut dyn StorageService) -> Flow {
        Flow::Go
    }

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn wants_input(&self) -> bool {
        false
    }

    fn receive_bytes(&self) -> usize {
        0
    }

    fn end_pass(&mut self, _: Time, _: &mut Inbox, _: &mut Outbox, _: &Pool, _: &mut dyn StorageService) -> Flow {
        Flow::Go
    }

    fn closed(&mut self, _: &mut dyn StorageService) {}
}

struct Node {
    driver: MemoryDriver,
    core: Core,
    wait: Wait,
    spent: Duration,
    passes: u64,
}

struct Bench {
    metadata: State,
    nodes: Vec<Node>,
    heard: Rc<RefCell<Heard>>,
    front: FrontId,
    at: u64,
}

impl Bench {
    fn new() -> Bench {
        let started = Instant::now();
        let net = Rc::new(RefCell::new(Net::default()));
        let mut metadata = State::new();
        let mut put = |key: String, value: Vec<u8>| drop(metadata.txn(&Call::put(key, value)).expect("it is sound"));
        put(
            map::cluster_key(),
            json(&map::Cluster {
                id: CLUSTER,
                version: 1,
            }),
        );
        let members: Vec<StoreId> = (2..=NODES).map(|node| StoreId(node.into())).collect();
        for node in 1..=NODES {
            let name = format!("n{node}");
            let record = map::Node {
                site: String::new(),
                rack: String::new(),
                maintenance: false,
                client: false,
                gateway: false,
                unprotected: false,
                metrics: None,
                api: None,
                fabric2: None,
                id: NodeId(node),
                name: name.clone(),
                fabric: address(node).to_string(),
                nbd: None,
                nbd_socket: None,
                nvme: None,
                cores: 1,
            };
            put(map::node_key(&name), json(&record));
        }
        for &id in &members {
            let store = map::Store {
                class: String::new(),
                duty: map::StoreDuty::Normal,
                paused: None,
                id,
                node: NodeId(id.0 as u32),
                path: format!("disk-{}", id.0),
                size_bytes: STORE_BYTES,
                weight: 1,
            };
            put(map::store_key(id), json(&store));
            let parameters = amita_store::FormatParams {
                store: id,
                cluster: CLUSTER,
                size_bytes: STORE_BYTES,
                log_bytes: None,
            };
            let mut image = vec![0; STORE_BYTES as usize];
            for (offset, bytes) in amita_store::format(&parameters).expect("the size is possible") {
                image[offset as usize..offset as usize + bytes.len()].copy_from_slice(&bytes);
            }
            net.borrow_mut().put_disk(&store.path, image);
        }
        let pool = map::Pool {
            failure_domain: Level::Node,
            class: None,
            id: PoolId(1),
            name: "p".to_owned(),
            kind: map::PoolKind::Replicated {
                copies: 3,
                min_copies: 2,
            },
            groups: GROUPS,
            chunk_bytes: 4 << 20,
        };
        put(map::pool_key("p"), json(&pool));
        for index in (0..GROUPS).map(GroupIndex) {
            let group = map::Group {
                syncing: Vec::new(),
                index,
                epoch: Epoch(1),
                in_sync: members.clone(),
                members: members.clone(),
            };
            put(map::group_key(PoolId(1), index), json(&group));
        }
        let volume = map::Volume::new(VolumeId(1), NAME, "p", VOLUME_BYTES);
        put(map::volume_key(NAME), json(&volume));

        let mut nodes = Vec::new();
        for node in 1..=NODES {
            let mut driver = MemoryDriver::new(&net, started);
            let mut core = Core::new(config(node, &driver), Mail::alone());
            core.listen_fabric(&mut driver, address(node)).expect("it is free");
            if node > 1 {
                let path = format!("disk-{node}");
                core.open_store(&mut driver, Path::new(&path)).expect("it is there");
            }
            nodes.push(Node {
                driver,
                core,
                wait: Wait::No,
                spent: Duration::ZERO,
                passes: 0,
            });
        }
        let heard = Rc::new(RefCell::new(Heard::default()));
        let load = Load(heard.clone());
        let front = nodes[0].core.fronts.attach(move |_| Box::new(load));
        let mut bench = Bench {
            metadata,
            nodes,
            heard,
            front,
            at: 0,
        };
        let records: Vec<Record> = bench.metadata.keys().map(record).collect();
        for node in &mut bench.nodes {
            for record in &records {
                node.core.control(ToCore::Record(record.clone()));
            }
        }
        bench
    }

    /// One pass of everybody who has something to do.
    fn turn(&mut self, completions: &mut Vec<amita_reactor::Completion>) {
        for at in 0..self.nodes.len() {
            let node = &mut self.nodes[at];
            if node.wait == Wait::UntilEvent && !node.driver.is_ready() {
                continue;
            }
            let before = Instant::now();
            node.driver.poll(Wait::No, completions);
            node.wait = node.core.pass(&mut node.driver, completions);
            node.spent += before.elapsed();
            node.passes += 1;
            if node.core.has_control() {
                self.serve_control(at);
            }
        }
    }

    fn serve_control(&mut self, at: usize) {
        let asked: Vec<FromCore> = self.nodes[at].core.take_control().collect();
        for message in asked {
            match message {
                FromCore::Metadata { call, request } => {
                    let before = self.metadata.revision();
                    let result = Ok(self.metadata.txn(&request).expect("a sound call"));
                    self.nodes[at].core.control(ToCore::Metadata { call, result });
                    let changes: Vec<Record> = self
                        .metadata
                        .history_after(before)
                        .flat_map(|batch| &batch.events)
                        .filter_map(|change| match change {
                            Change::Put(kv) => Some(record(kv)),
                            _ => None,
                        })
                        .collect();
                    for node in &mut self.nodes {
                        for record in &changes {
                            node.core.control(ToCore::Record(record.clone()));
                        }
                        node.wait = Wait::No;
                    }
                }
                FromCore::Warning(text) => println!("warning: {text}"),
                _ => {}
            }
        }
    }

    fn settle(&mut self, completions: &mut Vec<amita_reactor::Completion>, until: impl Fn(&Heard) -> bool) {
        let patience = Instant::now();
        while !until(&self.heard.borrow()) {
            self.turn(completions);
            assert!(patience.elapsed() < Duration::from_secs(60), "nothing gets on");
        }
    }

    fn open(&mut self, completions: &mut Vec<amita_reactor::Completion>) {
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(300) {
            self.turn(completions);
        }
        let front = self.front;
        self.nodes[0]
            .core
            .fronts
            .with(front, |_, service| service.open(front, 0, NAME, &Who::Program));
        self.nodes[0].wait = Wait::No;
        self.settle(completions, |heard| heard.volume.is_some());
    }

    /// Keeps `depth` operations under way.
    fn submit(&mut self, depth: u32, write: bool, blocks: u32, data: &Slice) {
        let mut heard = self.heard.borrow_mut();
        let volume = heard.volume.expect("it is open");
        let length = blocks * BLOCK_BYTES;
        let places = VOLUME_BYTES / u64::from(length);
        let front = self.front;
        let at = &mut self.at;
        self.nodes[0].core.fronts.with(front, |_, service| {
            while heard.under_way < depth {
                heard.under_way += 1;
                *at += 1;
                let offset = *at * 7919 % places * u64::from(length);
                if write {
                    service.submit(front, *at, volume.into(), Op::Write { offset, length }, data.clone());
                } else {
                    service.submit(front, *at, volume.into(), Op::Read { offset, length }, Slice::default());
                }
            }
        });
        self.nodes[0].wait = Wait::No;
    }

    fn run(&mut self, depth: u32, write: bool, blocks: u32, length: Duration) -> u64 {
        let data = Slice::copy_from(&vec![5; (blocks * BLOCK_BYTES) as usize]);
        let mut completions = Vec::new();
        let before = self.heard.borrow().done;
        let start = Instant::now();
        while start.elapsed() < length {
            for _ in 0..16 {
                self.submit(depth, write, blocks, &data);
                self.turn(&mut completions);
            }
        }
        self.settle(&mut completions, |heard| heard.under_way == 0);
        self.heard.borrow().done - before
    }

    fn round(&mut self, depth: u32, write: bool, length: Duration) -> Round {
        for node in &mut self.nodes {
            (node.spent, node.passes, node.driver.calls) = (Duration::ZERO, 0, [0; 4]);
        }
        let done = self.run(depth, write, 1, length) as f64;
        let each = |node: &Node| node.spent.as_nanos() as f64 / done;
        Round {
            gateway: each(&self.nodes[0]),
            stores: self.nodes[1..].iter().map(each).sum(),
            done,
        }
    }

    /// The best of many short rounds: what disturbs a machine makes rounds dearer, never cheaper.
    fn measure(&mut self, what: &str, depth: u32, write: bool, length: Duration) {
        self.run(depth, write, 1, length / 5);
        let mut best = Round::default();
        for _ in 0..ROUNDS {
            let round = self.round(depth, write, length / ROUNDS);
            if best.done == 0.0 || round.gateway + round.stores < best.gateway + best.stores {
                best = round;
            }
        }
        let last = |node: &Node| node.driver.calls.iter().sum::<u64>() as f64 / node.passes as f64;
        println!(
            "node.path.{what}.4k.qd{depth:<3} {:6.0} ns: gateway {:5.0}, stores {:5.0} together; calls of a pass {:.1} and {:.1}",
            best.gateway + best.stores,
            best.gateway,
            best.stores,
            last(&self.nodes[0]),
            last(&self.nodes[1]),
        );
    }
}

/// What an I/O took, in nanoseconds.
#[derive(Default)]
struct Round {
    gateway: f64,
    stores: f64,
    done: f64,
}

fn record(kv: &amita_metadata::KeyValue) -> Record {
    Record {
        key: kv.key.clone(),
        value: Some(kv.value.clone()),
        revision: kv.mod_revision,
        created: kv.create_revision,
    }
}

fn config(node: u32, driver: &MemoryDriver) -> CoreConfig {
    let id = NodeId(node);
    CoreConfig {
        node: id,
        core: 0,
        cores: 1,
        stores: usize::from(node > 1),
        links_per_peer: 1,
        dials_others: true,
        secret_links: true,
        refused_for: Duration::from_millis(150),
        stale_after: Duration::from_secs(1),
        nvme: amita_nvme::Config::default(),
        iscsi: amita_iscsi::Config::default(),
        silent_for: Duration::from_secs(5),
        fabric: amita_fabric::Config::new(CLUSTER, id, node.into(), driver.pool().clone()),
        store: amita_store::Config {
            cluster: Some(CLUSTER),
            ..amita_store::Config::default()
        },
        sequencer: amita_sequencer::Config::default(),
        opener: amita_sequencer::OpenerConfig::new(id, ""),
        moves: false,
        trace: amita_node::trace::TraceConfig::default(),
        faults: amita_node::Faults::NONE,
    }
}

fn main() {
    let given: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let number = |at: usize, otherwise: u64| given.get(at).map_or(otherwise, |word| word.parse().expect("a number"));
    let (depth, seconds) = (number(0, 32) as u32, number(1, 2));
    let mut bench = Bench::new();
    let mut completions = Vec::new();
    bench.open(&mut completions);
    // Everything is written once, so that reads find data.
    let blocks = VOLUME_BYTES / u64::from(BLOCK_BYTES);
    let data = Slice::copy_from(&vec![7; 32 * BLOCK_BYTES as usize]);
    for _ in 0..blocks / 32 / 8 {
        bench.submit(8, true, 32, &data);
        bench.settle(&mut completions, |heard| heard.under_way == 0);
    }
    let only = given.get(2).map_or("", String::as_str);
    let length = Duration::from_secs(seconds);
    if only == "trace" {
        tracing::always();
    }
    for write in [false, true] {
        let what = if write { "write" } else { "read" };
        for node in &mut bench.nodes {
            node.driver.keeps_data = !write;
        }
        for depth in [depth, 1] {
            if only == "trace" {
                bench.compare_tracing(what, depth, write, length);
            }
            if only.is_empty() || (only == what && depth == number(0, 32) as u32) {
                bench.measure(what, depth, write, length);
            }
        }
    }
}
