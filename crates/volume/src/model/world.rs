//! The event queue, links, gateways and the metadata of the cluster in miniature.

use super::client::{Client, Clock};
use super::faults::Profile;
use super::random::Random;
use super::store::Store;
use crate::io::{CallId, Effect, Opened, StopReason};
use crate::{Config, Counters, OpenError, Opener, OpenerConfig, OpenerEffect, OwnerReply, Planted, Sequencer};
use amita_cluster::map::{self, PoolKind};
use amita_cluster::message::{Answer, Request, RequestBody};
use amita_cluster::{
    BLOCK_BYTES, ChunkId, ChunkIndex, Epoch, Generation, GroupIndex, NodeId, PoolId, StoreId, VolumeId,
};
use amita_meta::{Call, Error, Op, Reply};
use amita_reactor::{Slice, Time};
use std::collections::BTreeMap;
use std::time::Duration;

pub const MS: u64 = 1_000_000;
pub const GATEWAYS: usize = 3;
pub const STORES: usize = 4;
pub const CHUNKS: u64 = 3;
pub const BLOCKS: u64 = 8;
pub const VOLUME: VolumeId = VolumeId(5);

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
        generation: Generation,
    },
    MetaReply {
        gateway: usize,
        incarnation: u64,
        call: CallId,
        result: Result<Reply, Error>,
    },
    AskOwner {
        from: usize,
        incarnation: u64,
        to: usize,
        generation: Generation,
    },
    OwnerReply {
        gateway: usize,
        incarnation: u64,
        reply: OwnerReply,
    },
    Client {
        gateway: usize,
    },
    Open {
        gateway: usize,
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
}

#[derive(Default)]
pub struct Link {
    /// Zero: none.
    pub link: u64,
    /// What the gateway believes.
    pub seen: u64,
    pub blocked_until: u64,
    to_store_at: u64,
    to_gateway_at: u64,
    /// Nothing arrives until then, either way.
    spike_until: u64,
}

pub struct Gateway {
    pub incarnation: u64,
    pub opener: Option<(Opener, u64)>,
    pub cores: Vec<(Sequencer, u64)>,
    pub meta_out_until: u64,
    /// No other gateway reaches it until then.
    alone_until: u64,
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
}

pub struct World {
    pub now: u64,
    sequence: u64,
    queue: BTreeMap<(u64, u64), Event>,
    pub random: Random,
    pub profile: Profile,
    pub planted: Planted,
    pub stores: Vec<Store>,
    flushing: Vec<bool>,
    pub gateways: Vec<Gateway>,
    pub meta: amita_meta::model::State,
    pub clock: Clock,
    next_link: u64,
    next_base: u64,
    /// The epoch of each group when a generation was raised (R6).
    raised: BTreeMap<Generation, Vec<Epoch>>,
    pub counters: Counters,
    pub seen: Seen,
    pub failure: Option<String>,
    pub settling: bool,
    /// Stores that are gone for ever.
    pub dead: Vec<usize>,
    trace: bool,
}

pub fn store_id(index: usize) -> StoreId {
    StoreId(0x1000 + index as u128)
}

impl World {
    pub fn new(seed: u64, profile: Profile, planted: Planted) -> World {
        let mut random = Random::new(seed);
        let mut meta = amita_meta::model::State::new();
        let mut put = |key: String, value: Vec<u8>| {
            meta.txn(&Call::put(key, value)).expect("the model takes it");
        };
        let pool = map::Pool {
            id: PoolId(1),
            name: "p".to_owned(),
            kind: PoolKind::Replicated {
                copies: profile.copies as u8,
                min_copies: profile.min_copies as u8,
            },
            groups: 2,
            chunk_bytes: BLOCKS as u32 * BLOCK_BYTES,
        };
        put(map::pool_key("p"), serde_json::to_vec(&pool).unwrap());
        for index in 0..pool.groups {
            let first = random.below(STORES as u64) as usize;
            let members: Vec<StoreId> = (0..profile.copies).map(|at| store_id((first + at) % STORES)).collect();
            let group = map::Group {
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
        let volume = map::Volume {
            id: VOLUME,
            name: "v".to_owned(),
            pool: "p".to_owned(),
            size_bytes: CHUNKS * BLOCKS * u64::from(BLOCK_BYTES),
            generation: Generation(0),
            owner: None,
        };
        put(map::volume_key("v"), serde_json::to_vec(&volume).unwrap());
        for node in 0..GATEWAYS {
            put(map::live_key(NodeId(node as u32)), b"{}".to_vec());
        }
        let stores = (0..STORES)
            .map(|index| {
                let mut store = Store::new(store_id(index), profile.capacity);
                store.busy_percent = profile.busy_percent;
                store.damage_percent = if index == 0 { profile.damage_percent } else { 0 };
                store
            })
            .collect();
        let gateways = (0..GATEWAYS)
            .map(|_| Gateway {
                incarnation: 0,
                opener: None,
                cores: Vec::new(),
                meta_out_until: 0,
                alone_until: 0,
                links: (0..STORES).map(|_| Link::default()).collect(),
                client: Client::default(),
            })
            .collect();
        let mut world = World {
            now: MS,
            sequence: 0,
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

    fn say(&self, text: impl FnOnce() -> String) {
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
            for (sequencer, _) in &gateway.cores {
                due = due.min(sequencer.deadline().map_or(u64::MAX, |at| at.0));
            }
            if let Some((opener, _)) = &gateway.opener {
                due = due.min(opener.deadline().map_or(u64::MAX, |at| at.0));
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
            for (sequencer, _) in &mut gateway.cores {
                sequencer.tick(now);
            }
            if let Some((opener, _)) = &mut gateway.opener {
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

    fn handle(&mut self, event: Event) {
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
                    self.say(|| format!("g{gateway} <- s{store} {:x} {:?}", answer.id.0, answer.result));
                    let base = answer.id.0 >> 40 << 40;
                    for (sequencer, of) in &mut self.gateways[gateway].cores {
                        if *of == base {
                            sequencer.answer(now, answer, payload);
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
                generation,
            } => {
                self.meta_call(gateway, incarnation, call, &request, generation);
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
                match &mut state.opener {
                    Some((opener, of)) if *of == base => opener.meta(now, call, result),
                    _ => {
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
                incarnation,
                to,
                generation,
            } => self.asked(from, incarnation, to, generation),
            Event::OwnerReply {
                gateway,
                incarnation,
                reply,
            } => {
                let state = &mut self.gateways[gateway];
                if state.incarnation == incarnation
                    && let Some((opener, _)) = &mut state.opener
                {
                    opener.owner(reply);
                }
            }
            Event::Client { gateway } => self.client(gateway),
            Event::Open { gateway } => self.open(gateway),
            Event::Kill { gateway } => self.kill(gateway),
            Event::MetaOut { gateway, ns } => self.gateways[gateway].meta_out_until = self.now + ns,
            Event::Split {
                gateway,
                other,
                mask,
                ns,
            } => self.split(gateway, other, mask, ns),
            Event::Spike { gateway, store, ns } => self.gateways[gateway].links[store].spike_until = self.now + ns,
        }
    }

    // ---- stores and links ----

    fn after_store(&mut self, store: usize) {
        if self.stores[store].wants_flush && !self.flushing[store] {
            self.flushing[store] = true;
            let slow = self.random.percent(3);
            let ns = if slow {
                self.random.between(MS, 15 * MS)
            } else {
                self.random.between(20_000, 300_000)
            };
            let incarnation = self.stores[store].incarnation;
            self.after(ns, Event::Flush { store, incarnation });
        }
        for (link, answer, payload) in std::mem::take(&mut self.stores[store].answers) {
            let Some(gateway) = (0..GATEWAYS).find(|&gateway| self.gateways[gateway].links[store].link == link) else {
                continue;
            };
            let delay = self.delay();
            let now = self.now;
            let state = &mut self.gateways[gateway].links[store];
            let spike = state.spike_until.saturating_sub(now);
            state.to_gateway_at = (now + delay + spike).max(state.to_gateway_at + 1);
            let at = state.to_gateway_at;
            self.at(
                at,
                Event::ToGateway {
                    gateway,
                    store,
                    link,
                    answer,
                    payload,
                },
            );
        }
    }

    fn delay(&mut self) -> u64 {
        if self.random.percent(2) {
            self.random.between(MS, 8 * MS)
        } else {
            self.random.between(20_000, 400_000)
        }
    }

    fn cut(&mut self, gateway: usize, store: usize, ns: u64) {
        let state = &mut self.gateways[gateway].links[store];
        let link = std::mem::take(&mut state.link);
        state.blocked_until = state.blocked_until.max(self.now + ns);
        let until = state.blocked_until;
        if link != 0 {
            self.stores[store].link_closed(link);
            // Noticed late at times: what is sent meanwhile goes nowhere.
            let seen = if self.random.percent(50) {
                0
            } else {
                self.random.below(30 * MS)
            };
            self.after(seen, Event::SeenDown { gateway, store, link });
        }
        self.at(until, Event::LinkUp { gateway, store });
    }

    fn seen_down(&mut self, gateway: usize, store: usize, link: u64) {
        if self.gateways[gateway].links[store].seen == link {
            self.say(|| format!("g{gateway} lost its link to s{store}"));
            self.gateways[gateway].links[store].seen = 0;
            for (sequencer, _) in &mut self.gateways[gateway].cores {
                sequencer.store_down(Time(self.now), store_id(store));
            }
        }
    }

    fn link_up(&mut self, gateway: usize, store: usize) {
        let state = &self.gateways[gateway].links[store];
        if state.link != 0 || state.blocked_until > self.now || !self.stores[store].up {
            return;
        }
        let seen = state.seen;
        if seen != 0 {
            self.seen_down(gateway, store, seen);
        }
        self.next_link += 1;
        let state = &mut self.gateways[gateway].links[store];
        state.link = self.next_link;
        state.seen = self.next_link;
        state.to_store_at = self.now;
        state.to_gateway_at = self.now;
        for (sequencer, _) in &mut self.gateways[gateway].cores {
            sequencer.store_up(Time(self.now), store_id(store));
        }
    }

    fn crash(&mut self, store: usize, ns: u64, forgets: bool) {
        if !self.stores[store].up {
            return;
        }
        self.say(|| format!("s{store} crashes"));
        let (stores, random) = (&mut self.stores, &mut self.random);
        stores[store].crash(random);
        if forgets {
            stores[store].forget(random);
        }
        self.flushing[store] = false;
        let incarnation = self.stores[store].incarnation;
        for gateway in 0..GATEWAYS {
            self.cut(gateway, store, ns);
        }
        if self.random.percent(40) {
            let after = self.random.below(20 * MS);
            self.after(after, Event::Lost { store, incarnation });
        }
        self.after(ns, Event::Restart { store });
    }

    pub fn restart(&mut self, store: usize) {
        if !self.stores[store].up && !self.dead.contains(&store) {
            self.say(|| format!("s{store} starts"));
            self.stores[store].start(self.now);
            for gateway in 0..GATEWAYS {
                self.link_up(gateway, store);
            }
        }
    }

    /// Two gateways each reach their own part of the stores, and at times only the second the metadata.
    fn split(&mut self, gateway: usize, other: usize, mask: u64, ns: u64) {
        self.say(|| format!("split: g{gateway} keeps {mask:b}, g{other} the others"));
        for store in 0..STORES {
            let theirs = mask >> store & 1 == 1;
            self.cut(if theirs { other } else { gateway }, store, ns);
        }
        self.gateways[gateway].alone_until = self.now + ns;
        if self.random.percent(60) {
            self.gateways[gateway].meta_out_until = self.now + ns;
        }
        self.after(MS, Event::Open { gateway: other });
    }

    // ---- the metadata ----

    fn meta_send(&mut self, gateway: usize, call: CallId, request: Call, generation: Generation) {
        let incarnation = self.gateways[gateway].incarnation;
        let out = self.now < self.gateways[gateway].meta_out_until;
        let delay = self.delay();
        let wait = self.random.between(MS, 20 * MS);
        let unknown = || Error::Unknown {
            what: "planted".to_owned(),
            endpoint: "m".to_owned(),
        };
        if out && self.random.percent(50) || (!self.settling && self.random.percent(self.profile.meta_fails_percent)) {
            let result = Err(Error::Unavailable {
                what: "planted".to_owned(),
                endpoints: "m".to_owned(),
            });
            return self.after(
                wait,
                Event::MetaReply {
                    gateway,
                    incarnation,
                    call,
                    result,
                },
            );
        }
        if out || (!self.settling && self.random.percent(self.profile.meta_unknown_percent)) {
            self.seen.unknown_calls += 1;
            self.after(
                wait,
                Event::MetaReply {
                    gateway,
                    incarnation,
                    call,
                    result: Err(unknown()),
                },
            );
            if !out && self.random.percent(60) {
                // Done, now or later, though nobody is told.
                let late = self.random.below(40 * MS);
                let nobody = CallId(u64::MAX);
                self.after(
                    late,
                    Event::MetaCall {
                        gateway,
                        incarnation,
                        call: nobody,
                        request,
                        generation,
                    },
                );
            }
            return;
        }
        self.after(
            delay,
            Event::MetaCall {
                gateway,
                incarnation,
                call,
                request,
                generation,
            },
        );
    }

    fn meta_call(&mut self, gateway: usize, incarnation: u64, call: CallId, request: &Call, generation: Generation) {
        let reply = self.meta.txn(request).expect("the calls of sequencers are valid");
        if reply.succeeded {
            self.check_change(request, generation);
        } else if request
            .then
            .iter()
            .any(|op| matches!(op, Op::Put { key, .. } if *key == map::volume_key("v")))
        {
            self.seen.raise_races += 1;
        }
        if call.0 != u64::MAX {
            let delay = self.delay();
            self.after(
                delay,
                Event::MetaReply {
                    gateway,
                    incarnation,
                    call,
                    result: Ok(reply),
                },
            );
        }
    }

    pub fn volume(&self) -> map::Volume {
        self.meta.get(&map::volume_key("v")).unwrap().json().unwrap()
    }

    pub fn group(&self, index: u32) -> map::Group {
        self.meta
            .get(&map::group_key(PoolId(1), GroupIndex(index)))
            .unwrap()
            .json()
            .unwrap()
    }

    /// What no change of the metadata may do.
    fn check_change(&mut self, request: &Call, generation: Generation) {
        for op in &request.then {
            let Op::Put { key, value, .. } = op else { continue };
            if *key == map::volume_key("v") {
                let epochs = (0..2).map(|index| self.group(index).epoch).collect();
                self.raised.insert(self.volume().generation, epochs);
                continue;
            }
            let group: map::Group = serde_json::from_slice(value).unwrap();
            self.say(|| format!("group {} now {:?} at {:?}", group.index, group.in_sync, group.epoch));
            if group.in_sync.len() < self.profile.min_copies {
                self.fail(format!("group {} has fewer than the least copies (R10)", group.index));
            }
            if self.volume().generation != generation {
                self.fail(format!(
                    "a deposed sequencer, {generation}, changed group {} (R2)",
                    group.index
                ));
            }
        }
    }

    /// R6: raise the generation, then read the epoch.
    fn check_fence(&mut self, request: &Request) {
        if let RequestBody::Fence { .. } = request.body
            && let Some(epochs) = self.raised.get(&request.scope.generation)
            && request.scope.epoch < epochs[request.scope.group.index.0 as usize]
        {
            self.fail("a fence with an epoch from before its generation was raised (R6)".to_owned());
        }
    }

    // ---- gateways ----

    pub fn open(&mut self, gateway: usize) {
        if self.gateways[gateway].opener.is_some() {
            return;
        }
        let base = self.base();
        let mut config = OpenerConfig::new(NodeId(gateway as u32), "v");
        config.planted = self.planted;
        config.release_timeout = Duration::from_millis(30);
        let opener = Opener::new(config, base, Time(self.now));
        self.gateways[gateway].opener = Some((opener, base));
    }

    fn base(&mut self) -> u64 {
        self.next_base += 1;
        self.next_base << 40
    }

    fn asked(&mut self, from: usize, incarnation: u64, to: usize, generation: Generation) {
        let owner = &mut self.gateways[to];
        let owns = owner
            .cores
            .first()
            .is_some_and(|(sequencer, _)| !sequencer.is_stopped() && sequencer.generation() == generation);
        let reply = if !owns {
            OwnerReply::NotOwner
        } else if self.random.percent(50) {
            self.seen.busy_owners += 1;
            OwnerReply::Busy
        } else {
            self.seen.released += 1;
            for (sequencer, _) in &mut owner.cores {
                sequencer.release();
            }
            OwnerReply::Released
        };
        let delay = self.delay();
        self.after(
            delay,
            Event::OwnerReply {
                gateway: from,
                incarnation,
                reply,
            },
        );
    }

    pub fn kill(&mut self, gateway: usize) {
        self.say(|| format!("g{gateway} dies"));
        let state = &mut self.gateways[gateway];
        state.incarnation += 1;
        state.opener = None;
        for (sequencer, _) in std::mem::take(&mut state.cores) {
            add(&mut self.counters, sequencer.counters());
        }
        state.client.died(&mut self.clock);
        for store in 0..STORES {
            self.cut(gateway, store, MS);
        }
    }

    fn opened(&mut self, gateway: usize, opened: &Opened) {
        self.say(|| format!("g{gateway} owns generation {}", opened.generation));
        self.seen.takeovers += 1;
        for (mut sequencer, base) in std::mem::take(&mut self.gateways[gateway].cores) {
            sequencer.release();
            self.sequencer_effects(gateway, base, &mut sequencer);
            add(&mut self.counters, sequencer.counters());
        }
        for _ in 0..self.profile.cores {
            let config = Config {
                local_stores: vec![store_id(gateway)],
                store_timeout: Duration::from_millis(150),
                hedge_ms: 12,
                busy_pause: Duration::from_millis(1),
                meta_pause: Duration::from_millis(5),
                meta_pause_most: Duration::from_millis(40),
                planted: self.planted,
            };
            let base = self.base();
            let mut sequencer = Sequencer::new(config, opened.clone(), base, Time(self.now));
            for store in 0..STORES {
                if self.gateways[gateway].links[store].seen != 0 {
                    sequencer.store_up(Time(self.now), store_id(store));
                }
            }
            self.gateways[gateway].cores.push((sequencer, base));
        }
        self.after(0, Event::Client { gateway });
    }

    pub fn core_of(&self, chunk: u64) -> usize {
        let id = ChunkId {
            volume: VOLUME,
            index: ChunkIndex(chunk),
        };
        id.core(self.profile.cores)
    }

    /// Carries out what the sequencers and openers want.
    pub fn drain(&mut self) {
        for gateway in 0..GATEWAYS {
            if let Some((mut opener, base)) = self.gateways[gateway].opener.take() {
                self.opener_effects(gateway, &mut opener);
                if !opener.is_done() {
                    self.gateways[gateway].opener = Some((opener, base));
                }
            }
            let mut cores = std::mem::take(&mut self.gateways[gateway].cores);
            for (sequencer, base) in &mut cores {
                self.sequencer_effects(gateway, *base, sequencer);
            }
            self.gateways[gateway].cores = cores;
        }
    }

    fn opener_effects(&mut self, gateway: usize, opener: &mut Opener) {
        let effects: Vec<OpenerEffect> = opener.effects().collect();
        for effect in effects {
            match effect {
                OpenerEffect::Meta { call, request } => self.meta_send(gateway, call, request, Generation(0)),
                OpenerEffect::AskOwner { node, generation, .. } => {
                    let incarnation = self.gateways[gateway].incarnation;
                    let to = node.0 as usize;
                    // During a split or an outage the owner cannot be reached.
                    if self.now >= self.gateways[to].alone_until.max(self.gateways[to].meta_out_until) {
                        let delay = self.delay();
                        self.after(
                            delay,
                            Event::AskOwner {
                                from: gateway,
                                incarnation,
                                to,
                                generation,
                            },
                        );
                    }
                }
                OpenerEffect::Opened(result) => match *result {
                    Ok(opened) => self.opened(gateway, &opened),
                    Err(OpenError::Busy { .. } | OpenError::Metadata { .. } | OpenError::Contended) => {}
                    Err(error) => self.fail(format!("opening failed: {error}")),
                },
            }
        }
    }

    fn sequencer_effects(&mut self, gateway: usize, _base: u64, sequencer: &mut Sequencer) {
        let generation = sequencer.generation();
        let mut stopped = false;
        let effects: Vec<Effect> = sequencer.effects().collect();
        for effect in effects {
            match effect {
                Effect::Send {
                    store,
                    request,
                    payload,
                } => {
                    let store = (store.0 - 0x1000) as usize;
                    let delay = self.delay();
                    let now = self.now;
                    let link = &mut self.gateways[gateway].links[store];
                    assert_ne!(link.seen, 0, "nothing is sent without a link");
                    if link.link == link.seen {
                        let spike = link.spike_until.saturating_sub(now);
                        link.to_store_at = (now + delay + spike).max(link.to_store_at + 1);
                        let (at, link) = (link.to_store_at, link.link);
                        self.at(
                            at,
                            Event::ToStore {
                                gateway,
                                store,
                                link,
                                request,
                                payload,
                            },
                        );
                    }
                }
                Effect::Meta { call, request } => self.meta_send(gateway, call, request, generation),
                Effect::Done { io, result, payload } => {
                    if stopped && result.is_ok() {
                        self.fail("a sequencer that has stopped acknowledges".to_owned());
                    }
                    self.done(gateway, io, result, &payload);
                }
                Effect::Warn(warning) => self.say(|| format!("g{gateway} warns: {warning}")),
                Effect::Stop { reason } => {
                    self.say(|| format!("g{gateway} stops: {reason}"));
                    stopped = true;
                    match reason {
                        StopReason::Deposed { .. } => self.seen.deposed += 1,
                        StopReason::Released => {}
                        StopReason::Metadata { .. } => self.fail(format!("stopped: {reason}")),
                    }
                }
            }
        }
    }
}

pub fn add(total: &mut Counters, more: &Counters) {
    let Counters {
        writes,
        reads,
        opened,
        rolled,
        evicted,
        adopted,
        resent,
        held,
        unpromised,
        confirms,
        credit_waits,
        hedged,
        stale_epochs,
        not_fenced,
        unknown,
        lost_races,
        damaged,
    } = more;
    total.writes += writes;
    total.reads += reads;
    total.opened += opened;
    total.rolled += rolled;
    total.evicted += evicted;
    total.adopted += adopted;
    total.resent += resent;
    total.held += held;
    total.unpromised += unpromised;
    total.confirms += confirms;
    total.credit_waits += credit_waits;
    total.hedged += hedged;
    total.stale_epochs += stale_epochs;
    total.not_fenced += not_fenced;
    total.unknown += unknown;
    total.lost_races += lost_races;
    total.damaged += damaged;
}

fn brief(body: &RequestBody) -> String {
    match body {
        RequestBody::Write {
            chunk,
            offset_bytes,
            version,
            previous,
            ..
        } => {
            format!(
                "Write {} at {} {version} after {previous}",
                chunk.0,
                offset_bytes / BLOCK_BYTES
            )
        }
        other => format!("{other:?}"),
    }
}
