//! A node that lies: it proves its number like any other, has read all that the metadata says, owns nothing, and asks for what
//! only owners may have (rule R14).
//!
//! It has a place of its own in the network, the product's fabric, and no store. It fences volumes under generations, at epochs
//! and with members of its choice; writes, rolls forward, joins, mends and drops chunks under rights that the stores know; and asks
//! gateways to hand their volumes over. Nothing of that may be granted, whatever else fails: the first answer that grants
//! something ends the run. What it does to others (a store that keeps what it was told, an owner that is deposed) is for the
//! run's other checkers, which judge such a run like any other.

use super::node::{self, LIAR_PLACE, address, home, node_id, node_name};
use super::records::json;
use super::{Cluster, Setup};
use crate::coverage::Coverage;
use crate::faults::Member;
use crate::handshakes::StandIn;
use crate::random::Random;
use amita_fabric::secure::{Recorded, Security};
use amita_fabric::{Config, Event, Fabric, Link, Message, ReleaseOutcome};
use amita_metadata::Call;
use amita_metadata::model::State;
use amita_reactor::sim::{SimDriver, World};
use amita_reactor::{Completion, Driver, Slice, Time, Wait};
use amita_types::message::{
    Change, ClearRequest, CloseRequest, FenceRequest, FrameRequest, JoinRequest, OpenRequest, PutRequest, ReadRequest,
    Request, RequestBody, RetainSnapshotsRequest, RollRequest, Scope, SettleRequest, StatesRequest, WholeRequest,
    WriteRequest,
};
use amita_types::{
    BLOCK_BYTES, BlockIndex, BlockRange, ChunkIndex, Epoch, Generation, GroupId, NodeId, RequestId, SnapshotId,
    StoreId, TraceId, Version, map,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Between two lies, at first. It grows: a run that takes long is not filled with them.
const PAUSE_NS: (u64, u64) = (500_000, 25_000_000);
/// After so many the pause is twice as long.
const LIES: u64 = 150;

/// The node, and what it has asked for.
pub(super) struct Liar {
    node: NodeId,
    driver: SimDriver,
    fabric: Fabric,
    random: Random,
    completions: Vec<Completion>,
    links: BTreeMap<Member, Link>,
    next: Time,
    lies: u64,
    /// What was not answered yet, by the number of the request or of the question.
    asked: BTreeMap<u64, String>,
}

/// What a volume's owner would know.
struct Known {
    volume: map::Volume,
    pool: map::Pool,
    group: map::Group,
}

impl Known {
    fn scope(&self) -> Scope {
        Scope {
            volume: self.volume.id,
            generation: self.volume.generation,
            group: GroupId {
                pool: self.pool.id,
                index: self.group.index,
            },
            epoch: self.group.epoch,
            snapshot: SnapshotId::HEAD,
        }
    }
}

/// The records of a kind that can be read.
fn records<T: serde::de::DeserializeOwned>(state: &State, prefix: &str) -> Vec<T> {
    let of_kind = state.keys().filter(|found| found.key.starts_with(prefix));
    of_kind.filter_map(|found| found.json().ok()).collect()
}

impl Liar {
    /// The node behind those that serve. The metadata knows it, as it knows a node whose certificate was stolen.
    pub fn new(world: &mut World, metadata: &mut super::Metadata<super::Caller>, setup: &Setup) -> Liar {
        let (member, node) = (setup.nodes, node_id(setup.nodes));
        let name = node_name(member);
        let record = map::Node {
            metrics: None,
            api: None,
            site: String::new(),
            rack: String::new(),
            maintenance: false,
            client: true,
            gateway: false,
            unprotected: false,
            id: node,
            name: name.clone(),
            fabric: String::new(),
            fabric2: None,
            nbd: None,
            nbd_socket: None,
            nvme: None,
            cores: 1,
        };
        metadata.set_up(&Call::put(map::node_key(&name), json(&record)));
        let driver = world.driver(LIAR_PLACE);
        let mut random = Random::new(setup.seed).fork(43);
        let mut config = Config::new(node::CLUSTER, node, random.bits(), driver.pool().clone());
        config.seed = random.bits();
        config.security = setup.protection.map(|protection| {
            let stand_in = StandIn::new(name, protection, random.bits());
            Security::new(Arc::new(stand_in))
        });
        let mut fabric = Fabric::new(config);
        for member in 0..setup.nodes {
            fabric.set_name(node_id(member), Some(Recorded::node(node_name(member))));
            fabric.set_peer(Time::default(), node_id(member), Some(address(world, member)));
        }
        Liar {
            node,
            driver,
            fabric,
            next: Time(random.within(PAUSE_NS.0, 20 * PAUSE_NS.1)),
            random,
            completions: Vec::new(),
            links: BTreeMap::new(),
            lies: 0,
            asked: BTreeMap::new(),
        }
    }

    /// When it is to act next.
    pub fn next(&self) -> Time {
        self.fabric.deadline().map_or(self.next, |at| at.min(self.next))
    }

    /// Takes in what has come, and lies if it is time to.
    fn act(&mut self, now: Time, state: &State, coverage: &mut Coverage) -> Result<(), String> {
        let mut completions = std::mem::take(&mut self.completions);
        self.driver.poll(Wait::No, &mut completions);
        for completion in completions.drain(..) {
            self.fabric.completion(&mut self.driver, completion);
        }
        self.completions = completions;
        self.fabric.tick(&mut self.driver);
        let heard = self.hear(coverage);
        if now >= self.next {
            let pause = self.random.within(PAUSE_NS.0, PAUSE_NS.1) * (1 + self.lies / LIES);
            self.next = Time(now.0 + pause);
            self.lie(state, coverage);
        }
        self.fabric.flush(&mut self.driver);
        heard
    }

    /// Nobody grants it anything.
    fn hear(&mut self, coverage: &mut Coverage) -> Result<(), String> {
        while let Some(event) = self.fabric.next_event() {
            match event {
                Event::Up { link, peer, .. } => drop(self.links.insert(peer.0 as usize - 1, link)),
                Event::Down { link, .. } => self.links.retain(|_, known| *known != link),
                Event::Message { message, .. } => match message {
                    Message::Answer(answer) => {
                        let asked = self.asked.remove(&answer.id.0).unwrap_or_default();
                        if let Ok(granted) = answer.result {
                            return Err(format!(
                                "a store believes a node that lies (R14): {granted:?} to {asked}"
                            ));
                        }
                        coverage.hit("liar.refused");
                    }
                    Message::Released { tag, outcome } => {
                        let asked = self.asked.remove(&tag).unwrap_or_default();
                        if outcome == ReleaseOutcome::Released {
                            return Err(format!("a gateway gives a volume to a node that lies (R14): {asked}"));
                        }
                        coverage.hit("liar.not_released");
                    }
                    // It is asked for nothing, and grants nothing.
                    _ => {}
                },
                _ => {}
            }
        }
        Ok(())
    }

    /// What the owner of some volume would know of one of its groups.
    fn look(&mut self, state: &State) -> Option<Known> {
        let volumes: Vec<map::Volume> = records(state, &map::volume_key(""));
        let volume = volumes.get(self.random.below(volumes.len() as u64) as usize)?.clone();
        let pool: map::Pool = state.get(&map::pool_key(&volume.pool))?.json().ok()?;
        let groups: Vec<map::Group> = records(state, &map::groups_prefix(pool.id));
        let group = groups.get(self.random.below(groups.len() as u64) as usize)?.clone();
        Some(Known { volume, pool, group })
    }

    fn lie(&mut self, state: &State, coverage: &mut Coverage) {
        let Some(known) = self.look(state) else { return };
        if self.random.percent(15) {
            return self.ask_for_release(&known, coverage);
        }
        let mut stores = known.group.members.clone();
        stores.extend(&known.group.in_sync);
        let store = *self.random.pick(&stores);
        let mut scope = known.scope();
        let mut payload = Vec::new();
        let body = if self.random.percent(60) {
            self.bend(&mut scope);
            coverage.hit("liar.fences");
            RequestBody::Fence(self.fence(&known, store))
        } else {
            coverage.hit("liar.asks");
            self.pretend(&known, &mut payload)
        };
        self.lies += 1;
        let request = Request {
            id: RequestId(self.lies),
            store,
            scope,
            trace: TraceId::NONE,
            purpose: Default::default(),
            body,
        };
        let text = format!("{request:?}");
        self.send(home(store).0, Message::Request(request), &payload, text);
    }

    fn send(&mut self, to: Member, message: Message, payload: &[u8], text: String) {
        let Some(&link) = self.links.get(&to) else { return };
        // A link that has just ended, or is full, takes nothing.
        if self.fabric.send(link, message, Slice::copy_from(payload)).is_ok() {
            self.asked.insert(self.lies, text);
        }
    }

    /// Whoever takes part in the hand-over of a volume is named by the operator: not this one.
    fn ask_for_release(&mut self, known: &Known, coverage: &mut Coverage) {
        let Some(owner) = known.volume.owner else { return };
        let hand_over = self.random.percent(60);
        let ours = known.volume.generation;
        let others = [Generation::MAX, Generation(ours.0.saturating_add(1)), Generation(0)];
        let others: Vec<Generation> = others.into_iter().filter(|other| *other != ours).collect();
        // Under the very generation any gateway may ask for what nobody uses: that is no lie.
        let generation = if hand_over && self.random.percent(50) {
            ours
        } else {
            *self.random.pick(&others)
        };
        self.lies += 1;
        let message = Message::Release {
            tag: self.lies,
            volume: known.volume.id,
            generation,
            hand_over,
        };
        coverage.hit("liar.asks_for_release");
        let text = format!("{message:?}");
        self.send(owner.0 as usize - 1, message, &[], text);
    }

    /// Another generation, another epoch, or both.
    fn bend(&mut self, scope: &mut Scope) {
        let (generation, epoch) = (scope.generation.0, scope.epoch.0);
        let generations = [
            generation,
            generation.saturating_add(1),
            generation.saturating_add(1000),
            generation.saturating_sub(1),
            Generation::MAX.0 - 1,
            Generation::MAX.0,
        ];
        let epochs = [epoch, epoch, epoch + 1, epoch + 1000, epoch.saturating_sub(1), u64::MAX];
        scope.generation = Generation(*self.random.pick(&generations)).min(Generation::MAX);
        scope.epoch = Epoch(*self.random.pick(&epochs));
    }

    fn fence(&mut self, known: &Known, store: StoreId) -> FenceRequest {
        let owner = match known.volume.owner {
            Some(owner) if self.random.percent(40) => owner,
            _ => self.node,
        };
        let in_sync = match self.random.below(4) {
            0 => vec![store],
            1 => known.group.members.clone(),
            _ => known.group.in_sync.clone(),
        };
        let listed = known.group.syncing.iter().map(|syncing| syncing.store);
        FenceRequest {
            owner,
            in_sync,
            syncing: listed.collect(),
            blocks_per_chunk: (known.pool.chunk_bytes / BLOCK_BYTES) as u16,
            given_back: self.random.percent(50).then_some(known.volume.generation),
        }
    }

    /// What brings a chunk the states that it lacks, and says that it is whole.
    fn of_states(&mut self, chunk: ChunkIndex, version: Version) -> RequestBody {
        let to = SnapshotId(1);
        match self.random.below(5) {
            0 => RequestBody::Whole(WholeRequest {
                chunk,
                version,
                number: SnapshotId::HEAD,
                born: SnapshotId::HEAD,
            }),
            1 => RequestBody::States(StatesRequest {
                chunk,
                from: SnapshotId::HEAD,
            }),
            2 => RequestBody::Frame(FrameRequest {
                chunk,
                above: SnapshotId::HEAD,
                to,
                version,
            }),
            3 => RequestBody::Put(PutRequest {
                chunk,
                to,
                with_data: 0,
                version,
                entries: Vec::new(),
            }),
            _ => RequestBody::Close(CloseRequest { chunk, to, version }),
        }
    }

    /// A request as the owner makes them, under the owner's right.
    fn pretend(&mut self, known: &Known, payload: &mut Vec<u8>) -> RequestBody {
        let chunks = known.volume.size_bytes / u64::from(known.pool.chunk_bytes);
        let chunk = ChunkIndex(self.random.below(chunks.max(1)));
        let generation = known.volume.generation;
        let counter = *self.random.pick(&[0, 1, 2, 3, 10, 30, Version::COUNTER_MAX - 1]);
        let previous = Version::new(generation, counter).expect("both fit");
        let version = match self.random.percent(30) {
            true => Version::new(generation, Version::COUNTER_MAX).expect("both fit"),
            false => previous.next(generation).expect("below the last"),
        };
        let range = BlockRange::new(0, 1);
        match self.random.below(10) {
            0 => RequestBody::Open(OpenRequest { chunk }),
            1 => {
                *payload = vec![0xbd; BLOCK_BYTES as usize];
                RequestBody::Write(WriteRequest {
                    chunk,
                    offset_bytes: 0,
                    length_bytes: BLOCK_BYTES,
                    version,
                    previous,
                    sums: std::iter::once(amita_types::crc32c(payload)).collect(),
                })
            }
            2 => RequestBody::Clear(ClearRequest {
                chunk,
                range,
                version,
                previous,
            }),
            3 => {
                let entries = match self.random.percent(50) {
                    true => Vec::new(),
                    false => vec![Change {
                        block: BlockIndex(0),
                        version,
                        sum: None,
                    }],
                };
                RequestBody::Roll(RollRequest {
                    chunk,
                    version,
                    previous,
                    entries,
                    first: true,
                    last: true,
                })
            }
            4 => RequestBody::RetainSnapshots(RetainSnapshotsRequest {
                chunk,
                head: false,
                above: SnapshotId::HEAD,
                to: SnapshotId(u32::MAX),
                live: Vec::new(),
            }),
            5 => RequestBody::Join(JoinRequest { chunk, at: version }),
            6 => self.of_states(chunk, version),
            7 => RequestBody::Settle(SettleRequest {
                want: 512,
                back: u32::MAX,
            }),
            8 => RequestBody::RenewLease,
            _ => RequestBody::Read(ReadRequest {
                chunk,
                range,
                least: Version::NONE,
                versions: false,
                newest: None,
            }),
        }
    }
}

impl Cluster {
    /// The node that lies does what it has to do.
    pub(super) fn let_lie(&mut self, now: Time) -> Result<(), String> {
        let Some(liar) = &mut self.liar else { return Ok(()) };
        liar.act(now, self.metadata.state(), &mut self.coverage)
    }
}
