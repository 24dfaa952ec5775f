//! The event queue, links, gateways and the metadata of the cluster in miniature.

use super::client::{Client, Clock};
use super::faults::Profile;
use super::store::Store;
use crate::io::CallId;
use crate::{Counters, Faults, Opener, OwnerReply, Sequencer};
use amita_crypt::Keychain;
use amita_metadata::{Call, Error, Reply};
use amita_reactor::{Slice, Time};
use amita_testkit::Random;
use amita_types::map::{self, PoolKind};
use amita_types::message::{Answer, Request, RequestBody, WriteRequest};
use amita_types::{BLOCK_BYTES, Epoch, Generation, GroupIndex, NodeId, PoolId, StoreId, VolumeId};
use std::collections::BTreeMap;
use std::sync::Arc;

pub const MS: u64 = 1_000_000;
pub const GATEWAYS: usize = 3;
pub const STORES: usize = 4;
pub const CHUNKS: u64 = 3;
pub const BLOCKS: u64 = 8;
/// Their names; a run may have fewer.
pub const VOLUMES: [&str; 2] = ["v", "w"];
pub const GROUPS: u32 = 2;
/// Far more than a run has.
const MAX_EVENTS: u64 = 400_000;

pub enum Event {
    ToStore {
        gateway: usize,
        store: usize,
        link: u64,
        request: Request,
        payload: Slice,
    },
    ToGateway {
        gateway: usize,
        store: usize,
        link: u64,
        answer: Answer,
        payload: Slice,
    },
    Flush {
        store: usize,
        incarnation: u64,
    },
    Cut {
        gateway: usize,
        store: usize,
        ns: u64,
    },
    LinkUp {
        gateway: usize,
        store: usize,
    },
    SeenDown {
        gateway: usize,
        store: usize,
        link: u64,
    },
    Crash {
        store: usize,
        ns: u64,
        forgets: bool,
    },
    Restart {
        store: usize,
    },
    Lost {
        store: usize,
        incarnation: u64,
    },
    MetaCall {
        gateway: usize,
        incarnation: u64,
        call: CallId,
        request: Call,
        /// Whose call it is, where it is a sequencer's.
        by: (usize, Generation),
    },
    MetaReply {
        gateway: usize,
        incarnation: u64,
        call: CallId,
        result: Result<Reply, Error>,
    },
    AskOwner {
        from: usize,
        volume: usize,
        incarnation: u64,
        to: usize,
        generation: Generation,
    },
    OwnerReply {
        gateway: usize,
        volume: usize,
        incarnation: u64,
        reply: OwnerReply,
    },
    Client {
        gateway: usize,
        volume: usize,
    },
    Open {
        gateway: usize,
        volume: usize,
    },
    Kill {
        gateway: usize,
    },
    MetaOut {
        gateway: usize,
        ns: u64,
    },
    Split {
        gateway: usize,
        other: usize,
        mask: u64,
        ns: u64,
    },
    Spike {
        gateway: usize,
        store: usize,
        ns: u64,
    },
    /// A watch tells of a group's record.
    Hint {
        gateway: usize,
        group: map::Group,
    },
    /// A gateway writes down what its sequencers say of syncing stores.
    Claim {
        gateway: usize,
        incarnation: u64,
        volume: usize,
        generation: Generation,
    },
    /// The coordinator looks at the metadata, and later does what it has decided.
    Look,
    Decided {
        change: super::coordinator::Change,
    },
    Freeze {
        gateway: Option<usize>,
        store: usize,
        ns: u64,
    },
    /// Another set of stores should hold a group.
    Move,
    /// The coordinator evicts a store that nothing is wrong with.
    Evict,
}

#[derive(Default)]
pub struct Link {
    /// Zero: none.
    pub link: u64,
    /// What the gateway believes.
    pub seen: u64,
    pub blocked_until: u64,
    pub to_store_at: u64,
    pub to_gateway_at: u64,
    /// Nothing arrives until then, either way.
    pub spike_until: u64,
}

pub struct Gateway {
    pub incarnation: u64,
    /// By volume.
    pub openers: Vec<Option<(Opener, u64)>>,
    /// Of all volumes.
    pub cores: Vec<(Sequencer, u64)>,
    /// By volume: what its sequencers have said.
    pub claims: Vec<super::coordinator::Claims>,
    /// Nothing moves until then.
    pub frozen_until: u64,
    pub meta_out_until: u64,
    /// No other gateway reaches it until then.
    pub alone_until: u64,
    pub links: Vec<Link>,
    pub client: Client,
}

/// How often the world itself saw something.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub takeovers: u64,
    pub raise_races: u64,
    pub busy_owners: u64,
    pub released: u64,
    pub deposed: u64,
    pub unknown_calls: u64,
    pub listed: u64,
    pub claimed: u64,
    pub promoted: u64,
    pub promotion_races: u64,
    pub given_up: u64,
    pub useless: u64,
}

pub struct World {
    pub now: u64,
    pub sequence: u64,
    pub events: u64,
    pub queue: BTreeMap<(u64, u64), Event>,
    pub random: Random,
    pub profile: Profile,
    pub planted: Faults,
    pub stores: Vec<Store>,
    pub flushing: Vec<bool>,
    pub gateways: Vec<Gateway>,
    pub meta: amita_metadata::model::State,
    pub clock: Clock,
    pub next_link: u64,
    pub next_base: u64,
    /// The epoch of each group when a generation was raised (R6).
    pub raised: BTreeMap<(usize, Generation), Vec<Epoch>>,
    /// Which write of which chunk brought a stamp.
    pub stamps: BTreeMap<u64, (super::store::Key, amita_types::Version)>,
    /// By volume, where they are encrypted.
    pub keys: Vec<Arc<Keychain>>,
    pub sealed: super::sealed::Seen,
    pub counters: Counters,
    pub seen: Seen,
    pub failure: Option<String>,
    pub settling: bool,
    /// Stores that are gone for ever.
    pub dead: Vec<usize>,
    pub trace: bool,
}

pub fn volume_id(index: usize) -> VolumeId {
    VolumeId(5 + index as u64)
}

pub fn store_id(index: usize) -> StoreId {
    StoreId(0x1000 + index as u128)
}

/// The node that serves it.
pub fn node_of(index: usize) -> NodeId {
    NodeId(1 + index as u32)
}

impl World {
    pub fn new(seed: u64, profile: Profile, planted: Faults) -> World {
        let mut random = Random::new(seed);
        let keys: Vec<Arc<Keychain>> = match profile.encrypted {
            true => (0..profile.volumes)
                .map(|volume| super::sealed::keychain(seed, volume))
                .collect(),
            false => Vec::new(),
        };
        let mut meta = amita_metadata::model::State::new();
        let mut put = |key: String, value: Vec<u8>| {
            meta.txn(&Call::put(key, value)).expect("the model takes it");
        };
        let pool = map::Pool {
            failure_domain: amita_types::placement::Level::Node,
            class: None,
            id: PoolId(1),
            name: "p".to_owned(),
            kind: PoolKind::Replicated {
                copies: profile.copies as u8,
                min_copies: profile.min_copies as u8,
            },
            groups: GROUPS,
            chunk_bytes: BLOCKS as u32 * BLOCK_BYTES,
        };
        put(map::pool_key("p"), serde_json::to_vec(&pool).unwrap());
        for index in 0..pool.groups {
            let first = random.below(STORES as u64) as usize;
            let members: Vec<StoreId> = (0..profile.copies).map(|at| store_id((first + at) % STORES)).collect();
            let group = map::Group {
                syncing: Vec::new(),
                index: GroupIndex(index),
                epoch: Epoch(1),
                members: members.clone(),
                in_sync: members,
            };
            put(
                map::group_key(pool.id, group.index),
                serde_json::to_vec(&group).unwrap(),
            );
        }
        for (index, name) in VOLUMES.iter().take(profile.volumes).enumerate() {
            let volume = map::Volume {
                keys: keys.get(index).map(|keys| keys.ring().clone()),
                ..map::Volume::new(volume_id(index), name, "p", CHUNKS * BLOCKS * u64::from(BLOCK_BYTES))
            };
            put(map::volume_key(name), serde_json::to_vec(&volume).unwrap());
        }
        for node in 0..GATEWAYS {
            put(map::live_key(NodeId(node as u32)), b"{}".to_vec());
        }
        let stores = (0..STORES)
            .map(|index| {
                let full = index == 1 && profile.full_store;
                let capacity = if full { 14 } else { profile.capacity };
                let mut store = Store::new(store_id(index), capacity);
                store.busy_percent = profile.busy_percent;
                store.damage_percent = if index == 0 { profile.damage_percent } else { 0 };
                store
            })
            .collect();
        let gateways = (0..GATEWAYS)
            .map(|_| Gateway {
                incarnation: 0,
                openers: (0..profile.volumes).map(|_| None).collect(),
                cores: Vec::new(),
                claims: (0..profile.volumes).map(|_| Default::default()).collect(),
                frozen_until: 0,
                meta_out_until: 0,
                alone_until: 0,
                links: (0..STORES).map(|_| Link::default()).collect(),
                client: Client::default(),
            })
            .collect();
        let mut world = World {
            now: MS,
            sequence: 0,
            events: 0,
            queue: BTreeMap::new(),
            random,
            profile,
            planted,
            stores,
            flushing: vec![false; STORES],
            gateways,
            meta,
            clock: Clock::default(),
            next_link: 0,
            next_base: 0,
            raised: BTreeMap::new(),
            stamps: BTreeMap::new(),
            keys,
            sealed: super::sealed::Seen::default(),
            counters: Counters::default(),
            seen: Seen::default(),
            failure: None,
            settling: false,
            dead: Vec::new(),
            trace: std::env::var_os("AMITA_TRACE").is_some(),
        };
        for gateway in 0..GATEWAYS {
            for store in 0..STORES {
                world.after(0, Event::LinkUp { gateway, store });
            }
        }
        world
    }

    pub fn after(&mut self, ns: u64, event: Event) {
        self.at(self.now + ns, event);
    }

    pub fn at(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), event);
    }

    pub fn fail(&mut self, why: String) {
        if self.trace {
            eprintln!("{:>9} FAILED {why}", self.now / 1000);
        }
        self.failure.get_or_insert(why);
    }

    pub fn say(&self, text: impl FnOnce() -> String) {
        if self.trace {
            eprintln!("{:>9} {}", self.now / 1000, text());
        }
    }

    /// Runs until `end`, or until something is found wrong.
    pub fn run_until(&mut self, end: u64) {
        let mut spins = 0;
        while self.failure.is_none() {
            let next_event = self.queue.first_key_value().map_or(u64::MAX, |(key, _)| key.0);
            let next_due = self.next_due();
            let next = next_event.min(next_due).max(self.now);
            if next > end {
                break;
            }
            spins = if next == self.now { spins + 1 } else { 0 };
            if spins > 20_000 {
                self.fail("it spins without time passing".to_owned());
                break;
            }
            self.events += 1;
            if self.events > MAX_EVENTS {
                self.fail("it never ends".to_owned());
            }
            self.now = next;
            if next_due <= next_event {
                self.tick();
            } else {
                let (_, event) = self.queue.pop_first().expect("looked at above");
                self.handle(event);
            }
            self.drain();
        }
        self.now = self.now.max(end);
    }

    fn next_due(&self) -> u64 {
        let mut due = u64::MAX;
        for gateway in &self.gateways {
            let mut of = u64::MAX;
            for (sequencer, _) in &gateway.cores {
                of = of.min(sequencer.deadline().map_or(u64::MAX, |at| at.0));
            }
            for (opener, _) in gateway.openers.iter().flatten() {
                of = of.min(opener.deadline().map_or(u64::MAX, |at| at.0));
            }
            if of != u64::MAX {
                due = due.min(of.max(gateway.frozen_until));
            }
        }
        for store in &self.stores {
            due = due.min(store.fence_due().unwrap_or(u64::MAX));
        }
        due
    }

    fn tick(&mut self) {
        let now = Time(self.now);
        for gateway in &mut self.gateways {
            if gateway.frozen_until > self.now {
                continue;
            }
            for (sequencer, _) in &mut gateway.cores {
                sequencer.tick(now);
            }
            for (opener, _) in gateway.openers.iter_mut().flatten() {
                opener.tick(now);
            }
        }
        for store in 0..STORES {
            if self.stores[store].fence_due().is_some_and(|due| due <= self.now) {
                self.stores[store].fences_go_on(self.now);
                self.after_store(store);
            }
        }
    }

    /// Until when what an event is for stands still.
    fn frozen_until(&self, event: &Event) -> u64 {
        match event {
            Event::ToStore { store, .. } | Event::Flush { store, .. } => self.stores[*store].frozen_until,
            Event::ToGateway { gateway, .. }
            | Event::LinkUp { gateway, .. }
            | Event::SeenDown { gateway, .. }
            | Event::MetaReply { gateway, .. }
            | Event::OwnerReply { gateway, .. }
            | Event::Client { gateway, .. }
            | Event::Open { gateway, .. }
            | Event::Hint { gateway, .. }
            | Event::Claim { gateway, .. } => self.gateways[*gateway].frozen_until,
            Event::AskOwner { to, .. } => self.gateways[*to].frozen_until,
            _ => 0,
        }
    }

    fn handle(&mut self, event: Event) {
        let until = self.frozen_until(&event);
        if until > self.now {
            return self.at(until, event);
        }
        let now = Time(self.now);
        match event {
            Event::ToStore {
                gateway,
                store,
                link,
                request,
                payload,
            } => {
                if self.gateways[gateway].links[store].link == link {
                    self.check_fence(&request);
                    self.look_at_payload(&request, &payload);
                    self.note_stamps(&request, &payload);
                    self.say(|| {
                        format!(
                            "s{store} <- g{gateway} {:x} {:?} {:?}",
                            request.id.0,
                            request.scope.epoch,
                            brief(&request.body)
                        )
                    });
                    let (stores, random) = (&mut self.stores, &mut self.random);
                    stores[store].request(self.now, random, link, request, payload);
                    self.after_store(store);
                }
            }
            Event::ToGateway {
                gateway,
                store,
                link,
                answer,
                payload,
            } => {
                if self.gateways[gateway].links[store].seen == link {
                    self.say(|| {
                        format!(
                            "g{gateway} <- s{store} {:x} +{} {:?}",
                            answer.id.0, answer.credit_blocks, answer.result
                        )
                    });
                    let base = answer.id.0 >> 40 << 40;
                    for (sequencer, of) in &mut self.gateways[gateway].cores {
                        if *of == base {
                            sequencer.answer(now, node_of(store), answer, payload);
                            break;
                        }
                    }
                }
            }
            Event::Flush { store, incarnation } => {
                if self.stores[store].incarnation == incarnation {
                    self.flushing[store] = false;
                    self.stores[store].flush(self.now);
                    self.after_store(store);
                }
            }
            Event::Cut { gateway, store, ns } => self.cut(gateway, store, ns),
            Event::LinkUp { gateway, store } => self.link_up(gateway, store),
            Event::SeenDown { gateway, store, link } => self.seen_down(gateway, store, link),
            Event::Crash { store, ns, forgets } => self.crash(store, ns, forgets),
            Event::Restart { store } => self.restart(store),
            Event::Lost { store, incarnation } => {
                // The fabric of a node that is gone: certain, and quicker than silence.
                if self.stores[store].incarnation == incarnation && !self.stores[store].up {
                    for gateway in &mut self.gateways {
                        if gateway.frozen_until > self.now {
                            continue;
                        }
                        for (sequencer, _) in &mut gateway.cores {
                            sequencer.store_lost(now, store_id(store));
                        }
                    }
                }
            }
            Event::MetaCall {
                gateway,
                incarnation,
                call,
                request,
                by,
            } => {
                self.meta_call(gateway, incarnation, call, &request, by);
            }
            Event::MetaReply {
                gateway,
                incarnation,
                call,
                result,
            } => {
                let state = &mut self.gateways[gateway];
                if state.incarnation != incarnation {
                    return;
                }
                let base = call.0 >> 40 << 40;
                let mut openers = state.openers.iter_mut().flatten();
                match openers.find(|(_, of)| *of == base) {
                    Some((opener, _)) => opener.meta(now, call, result),
                    None => {
                        for (sequencer, of) in &mut state.cores {
                            if *of == base {
                                sequencer.meta(now, call, result);
                                break;
                            }
                        }
                    }
                }
            }
            Event::AskOwner {
                from,
                volume,
                incarnation,
                to,
                generation,
            } => self.asked((from, incarnation), volume, to, generation),
            Event::OwnerReply {
                gateway,
                volume,
                incarnation,
                reply,
            } => {
                let state = &mut self.gateways[gateway];
                if state.incarnation == incarnation
                    && let Some((opener, _)) = &mut state.openers[volume]
                {
                    opener.owner(reply);
                }
            }
            Event::Client { gateway, volume } => self.client(gateway, volume),
            Event::Open { gateway, volume } => self.open(gateway, volume),
            Event::Kill { gateway } => self.kill(gateway),
            Event::MetaOut { gateway, ns } => self.gateways[gateway].meta_out_until = self.now + ns,
            Event::Split {
                gateway,
                other,
                mask,
                ns,
            } => self.split(gateway, other, mask, ns),
            Event::Spike { gateway, store, ns } => self.gateways[gateway].links[store].spike_until = self.now + ns,
            Event::Hint { gateway, group } => {
                for (sequencer, _) in &mut self.gateways[gateway].cores {
                    sequencer.hint(now, group.index, group.epoch, !group.syncing.is_empty());
                }
            }
            Event::Claim {
                gateway,
                incarnation,
                volume,
                generation,
            } => {
                if self.gateways[gateway].incarnation == incarnation {
                    self.claim(gateway, volume, generation);
                }
            }
            Event::Look => self.look(),
            Event::Decided { change } => self.decided(change),
            Event::Freeze { gateway, store, ns } => {
                let until = self.now + ns;
                match gateway {
                    Some(gateway) => self.gateways[gateway].frozen_until = until,
                    None => self.stores[store].frozen_until = until,
                }
            }
            Event::Move => self.move_group(),
            Event::Evict => self.evict_any(),
        }
    }
}

fn brief(body: &RequestBody) -> String {
    match body {
        RequestBody::Write(WriteRequest {
            chunk,
            offset_bytes,
            version,
            previous,
            ..
        }) => {
            format!(
                "Write {} at {} {version} after {previous}",
                chunk.0,
                offset_bytes / BLOCK_BYTES
            )
        }
        other => format!("{other:?}"),
    }
}
