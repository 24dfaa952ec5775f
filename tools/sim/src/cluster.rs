//! A cluster in one thread: nodes, disks, networks, metadata, hosts and faults, from one seed.
//!
//! A run has four parts. *Work*: the clients ask, the plan's faults are injected. *Heal*: every fault ends, every node
//! that is down starts again, and what hosts wait for must end in bounded time. *Closing*: a host at some gateway
//! writes and then reads all of the volume, which opens every chunk and brings every in-sync member level. *Judgement*:
//! the power of all nodes is cut, each in-sync store is mounted on its own, and what it holds is compared with its
//! peers, block for block, and with the last reads; then the history is checked for linearizability.

mod alone;
mod blocked;
mod checks;
mod clones;
mod coordinator;
mod deletion;
mod emptied;
mod ending;
pub mod hosts;
mod imposter;
mod inject;
mod liar;
mod limits;
mod mirrors;
mod moves;
mod networks;
pub mod node;
pub mod operator;
mod records;
mod sealed;
mod session;
mod settings;
mod setup;
mod shrink;
mod snapshots;
mod turns;
mod wires;

pub use clones::Cloning;
pub use deletion::Passers;
pub use mirrors::{Mirroring, run_mirrors};
pub use moves::Migrating;
pub use networks::Measured;
pub use sealed::Sealed;
pub use settings::Settings;
pub use setup::{Careless, Fronted, Initiators, Plants, Protocol, Setup, patience};

use crate::campaign::Run;
use crate::coverage::Coverage;
use crate::excuse::{Excuse, Ledger, Plea};
use crate::faults::{Fault, Member};
use crate::history::History;
use crate::metadata::{Delivery, Metadata};
use crate::random::Random;
use crate::solo::write_format;
use crate::stamp::Sector;
use crate::workload::Workload;
use amita_control::coordinator::Config;
use amita_metadata::Event;
use amita_node::control::{FromCore, Record, ToCore};
use amita_reactor::Time;
use amita_reactor::buggify;
use amita_reactor::sim::{DiskConfig, SimConfig, World};
use amita_types::map;
use amita_types::{Generation, GroupId, GroupIndex, PoolId, VolumeId};
use checks::Looks;
use coordinator::{Caller, Lead};
use deletion::Passing;
use hosts::Hosts;
use inject::Injector;
use liar::Liar;
use networks::Networks;
use node::{LIAR_PLACE, Node, at_place, disk, host_at, node_id, store_id};
use records::{describe, json, summary, write_records};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// After the faults have ended, everything that is under way ends within this (virtual) time.
pub const SETTLE: Duration = Duration::from_secs(30);
/// So many steps are enough for the work of a run: hours in which something is tried again all the time show nothing
/// new.
const MOST_STEPS: u64 = 400_000;
/// And every group has all of its members in sync within this.
const RECOVER: Duration = Duration::from_secs(90);
/// A planned move takes no longer than this, where nothing is wrong.
const MOVE_LIMIT: Duration = Duration::from_secs(5);
/// Between two looks at what clones wait for.
const LOOK_AT_CLONES: Duration = Duration::from_millis(1);

#[must_use]
pub fn run(seed: u64) -> Run {
    run_setup(Setup::draw(seed), false)
}

/// Runs a setup; with `trace` it tells on standard error what happens.
#[must_use]
pub fn run_setup(mut setup: Setup, trace: bool) -> Run {
    setup.sealed = setup.sealed.map(|sealed| sealed.begin(setup.plants.keys));
    match setup.buggify {
        Some(seed) => buggify::arm(seed),
        None => drop(buggify::disarm()),
    }
    if let Some((per_mille, slowest)) = setup.slow_mail {
        buggify::steer(setup.seed, buggify::Point::SlowMail, per_mille, slowest);
    }
    let mut cluster = Cluster::new(setup, trace);
    let failure = cluster.run().err();
    if let Some(why) = &failure {
        cluster.tell(|| format!("FAILED: {why}\n{}", cluster.describe()));
    }
    cluster.finish(failure)
}

/// A cluster and what happens to it.
pub struct Cluster {
    setup: Setup,
    world: World,
    metadata: Metadata<Caller>,
    nodes: Vec<Node>,
    /// The coordinator of each node that runs.
    leads: Vec<Option<Lead>>,
    /// What measures links between nodes, where they are measured.
    networks: Networks,
    hosts: Hosts,
    workload: Workload,
    history: History,
    injector: Injector,
    /// Volumes that are made and deleted meanwhile, and stores whose data moves.
    passing: Passing,
    snapshots: snapshots::Snapshots,
    clones: clones::Clones,
    /// Volumes that are made smaller.
    shrinks: shrink::Shrinks,
    /// What the limits of volumes let pass.
    limits: limits::Watch,
    /// What waits at stores.
    turns: turns::Watch,
    /// A node that lies, if there is one.
    liar: Option<Liar>,
    /// Volumes that move to another pool.
    migrations: moves::Migrations,
    coverage: Coverage,
    random: Random,
    deliveries: Vec<Delivery<Caller>>,
    trace: bool,
    /// What went wrong while everything healed: stores have not come back that should have.
    stayed_out: Option<String>,
    /// Folded over everything that passes the control planes.
    hash: u64,
    /// What was injected, and when.
    injected: Vec<(Time, Fault)>,
    /// Planned moves, counted.
    moves_planned: u64,
    /// Those that have not come true, and since when they are wanted.
    moves_since: BTreeMap<u64, Time>,
    /// Under which generation each volume's closing reads were served.
    closed_under: Vec<Generation>,
    /// When stores and sequencers are looked into.
    looks: Looks,
    /// What went wrong, and what is let pass because of it.
    ledger: Ledger,
    /// The metadata's revision up to which the ledger knows it.
    told: u64,
    /// Chunks whose I/O rightly waits for ever: volume and chunk.
    blocked: BTreeSet<(u64, u64)>,
    /// Volumes, and generations, whose hosts were sent to the owner, because it will not give the volume away.
    sent_home: BTreeSet<(u64, Generation)>,
    /// The generation and the owner of each volume, as last seen.
    owned: BTreeMap<u64, (Generation, Member)>,
}

impl Cluster {
    /// The cluster of a setup, all nodes running.
    #[must_use]
    pub fn new(setup: Setup, trace: bool) -> Cluster {
        let random = Random::new(setup.seed);
        let mut world = World::new(setup.seed, SimConfig::default());
        for member in 0..setup.nodes {
            let config = DiskConfig {
                volatile_cache: setup.volatile_cache,
                alignment: setup.alignment,
                ..DiskConfig::flash(setup.store_bytes)
            };
            for store in 0..setup.stores {
                let (disk, id) = (disk(member, store), store_id(member, store));
                world.create_disk(&disk, config.clone());
                let (bytes, log) = (setup.store_bytes, Some(setup.log_bytes));
                write_format(&mut world, &disk, id, node::CLUSTER, bytes, log);
            }
        }
        for (member, &rate) in setup.clocks.iter().enumerate() {
            for core in 0..setup.cores[member] {
                let at = node::place(member, core);
                world.set_clock(at, rate);
                if setup.has_second() {
                    world.set_clock(wires::second(at), rate);
                }
            }
        }
        let mut metadata = Metadata::new(random.fork(10));
        write_records(&mut metadata, &world, &setup);
        let liar = setup.liar.then(|| Liar::new(&mut world, &mut metadata, &setup));
        let mut cluster = Cluster {
            world,
            metadata,
            nodes: (0..setup.nodes).map(|member| Node::new(member, &setup)).collect(),
            leads: (0..setup.nodes).map(|_| None).collect(),
            networks: Networks::new(&setup),
            hosts: Hosts::new(&setup, random.fork(12)),
            workload: Workload::new(setup.profile.clone(), &random.fork(13)),
            history: History::new(),
            injector: Injector::new(setup.plan.clone()),
            passing: Passing::new(&setup, random.fork(15)),
            snapshots: snapshots::Snapshots::default(),
            clones: clones::Clones::new(setup.cloning.clone(), random.fork(16), random.fork(18)),
            shrinks: shrink::Shrinks::new(random.fork(17)),
            limits: limits::Watch::new(&setup),
            turns: turns::Watch::new(&setup),
            liar,
            migrations: moves::Migrations::new(&setup.migrating, setup.volumes, random.fork(19)),
            coverage: Coverage::new(),
            random: random.fork(14),
            deliveries: Vec::new(),
            trace,
            stayed_out: None,
            hash: 0,
            injected: Vec::new(),
            moves_planned: 0,
            moves_since: BTreeMap::new(),
            closed_under: vec![Generation(0); setup.volumes as usize],
            looks: Looks::of(setup.seed),
            ledger: Ledger::new(setup.expect_full, setup.hosts_notice()).polite(setup.polite_hosts),
            told: 0,
            blocked: BTreeSet::new(),
            sent_home: BTreeSet::new(),
            owned: BTreeMap::new(),
            setup,
        };
        cluster.begin_small();
        cluster.tell(|| "begins".to_owned());
        cluster.keep_apart();
        for member in 0..cluster.nodes.len() {
            cluster.start(member);
        }
        cluster.hosts.plug_in(&mut cluster.world, &cluster.setup, trace);
        cluster
    }

    /// Says something of the run, if somebody listens.
    fn tell(&self, what: impl FnOnce() -> String) {
        if self.trace {
            eprintln!("{:>10} us  {}", self.world.now().0 / 1000, what());
        }
    }

    fn run(&mut self) -> Result<(), String> {
        self.tell(|| format!("{:#?}", self.setup));
        self.work()?;
        self.heal();
        if let Some(why) = self.stayed_out.take() {
            return Err(why);
        }
        self.end_chores()?;
        self.end_shrinks()?;
        self.end_reverts()?;
        self.end_migrations()?;
        self.settle()?;
        self.end_limits()?;
        self.end_turns()?;
        self.recover()?;
        self.end_moves()?;
        self.judge_paths()?;
        self.end_snapshots()?;
        self.end_clones()?;
        self.close()?;
        self.judge_holds()?;
        if self.blocked.is_empty() {
            self.judge_space()?;
        }
        self.judge_stores()?;
        self.coverage
            .add("run.blocked_for_good", u64::from(!self.blocked.is_empty()));
        self.judge_metadata()?;
        self.count_measured();
        let (blocks, chunk) = (
            self.setup.blocks,
            u64::from(self.setup.chunk_bytes / amita_types::BLOCK_BYTES),
        );
        let place = |first: Sector| (first.block() / blocks, first.block() % blocks / chunk);
        let taken = self.history.take_over(self.ledger.raises(), place);
        self.coverage.add("judge.taken_over_unanswered", taken);
        self.judge_takeovers()?;
        let late = self
            .history
            .check()
            .map_err(|violation| format!("the volume is not linearizable: {violation}"))?;
        self.coverage.add("excuse.late_write", late);
        self.judge_cuts()?;
        self.judge_clones()?;
        self.judge_emptied()?;
        let profile = self.workload.profile();
        let most = u64::from(profile.clients * profile.depth) * profile.max_blocks;
        self.ledger.carried_out_again(late, most)
    }

    /// Gateways do not take volumes from one another in turns (R10).
    fn judge_takeovers(&self) -> Result<(), String> {
        let Some(most) = self.setup.most_takeovers else {
            return Ok(());
        };
        for volume in 0..self.setup.volumes {
            let record = self.volume(volume)?;
            if record.generation.0 > most {
                let (name, times) = (volume_name(volume), record.generation.0);
                return Err(format!("{name} was taken over {times} times, and {most} are enough"));
            }
        }
        Ok(())
    }

    /// `buggify` does nothing from here on.
    fn disarm(&mut self) {
        for (path, times) in buggify::disarm() {
            self.coverage.add(path, times);
        }
    }

    fn finish(mut self, failure: Option<String>) -> Run {
        self.disarm();
        let counts = self.metadata.counts;
        for (path, times) in [
            ("metadata.answered", counts.answered),
            ("metadata.unavailable", counts.unavailable),
            ("metadata.unknown_not_done", counts.unknown_not_done),
            ("metadata.unknown_done", counts.unknown_done),
            ("metadata.unknown_late", counts.unknown_late),
            ("metadata.compare_failed", counts.compares_failed),
            ("metadata.no_space", counts.no_space),
            ("metadata.session_lapsed", counts.sessions_lapsed),
        ] {
            self.coverage.add(path, times);
        }
        for (fault, times) in self.world.coverage() {
            self.coverage.add(fault, times);
        }
        self.coverage.merge(&self.hosts.coverage);
        let told = self.nodes.iter().map(|node| node.imposter.told()).sum();
        self.coverage.add("liar.in_anothers_name", told);
        self.ledger.count(&mut self.coverage);
        let mut trace = self.world.trace() ^ self.hash;
        for operation in self.history.operations() {
            let end = operation.completed.map_or(0, |(event, time)| event ^ time.0);
            trace = amita_types::layout::mix(trace ^ end);
        }
        Run {
            trace,
            coverage: self.coverage,
            failure,
        }
    }

    /// The clients ask and faults are injected, until everything was asked and has ended, or time is up.
    fn work(&mut self) -> Result<(), String> {
        let limit = Time(self.setup.work.as_nanos() as u64);
        let mut steps = 0;
        while self.world.now() < limit && steps < MOST_STEPS {
            steps += 1;
            let asked = self.workload.is_done() && self.hosts.pending() == 0;
            if asked && self.injector.is_done() {
                return Ok(());
            }
            self.step(limit)?;
        }
        self.coverage.hit("run.work_cut_short");
        Ok(())
    }

    /// Lets the next thing happen, at `limit` at the latest.
    fn step(&mut self, limit: Time) -> Result<(), String> {
        let now = self.world.now();
        self.inject(now);
        self.do_chores(now)?;
        self.look_at_snapshots(now)?;
        self.deliver(now)?;
        self.coordinate(now);
        self.hear_verdicts(now)?;
        self.measure(now)?;
        self.pass_volumes(now)?;
        self.use_clones(now)?;
        self.shrink_volumes(now)?;
        self.revert_clones(now)?;
        self.play_migrations(now)?;
        self.let_lie(now)?;
        self.hosts
            .act(now, &mut self.nodes, &mut self.workload, &mut self.history);
        if let Some(why) = &self.hosts.violation {
            return Err(why.clone());
        }
        self.hear_pleas()?;
        self.check_moves(now)?;
        if let Some(longest) = self.setup.expect_progress
            && let Some(why) = self.hosts.waits_too_long(now, longest, &self.nodes)
        {
            return Err(format!("{why}\n{}", self.describe()));
        }
        for (member, volume) in self.hosts.opened_at.drain(..) {
            // R6: raise the generation, then read the epochs.
            let key = map::volume_key(&volume_name(volume));
            if !self.metadata.has_read_groups(node_id(member), &key) {
                return Err(format!(
                    "node {} serves {key} by groups that it read before it raised the generation",
                    member + 1
                ));
            }
        }
        let next = [
            self.injector.next(),
            self.metadata.next(),
            self.next_coordination(),
            self.next_measurement(),
            self.hosts.next(),
            self.passing.next(),
            // What waits for something else is looked at now and then, and does not stop the time.
            self.clones.next().map(|at| at.max(now.plus(LOOK_AT_CLONES))),
            self.shrinks.next(),
            self.migrations.next().map(|at| at.max(now.plus(LOOK_AT_CLONES / 4))),
            self.workload.next(),
            self.liar.as_ref().map(Liar::next),
        ];
        let until = next
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(limit)
            .min(limit)
            .max(Time(now.0 + 1));
        if let Some(place) = self.world.next_until(until) {
            if place == LIAR_PLACE {
                let now = self.world.now();
                return self.let_lie(now);
            }
            if let Some(number) = host_at(place) {
                let now = self.world.now();
                self.hosts.pass(now, number, &mut self.workload, &mut self.history);
                return Ok(());
            }
            let (member, core) = at_place(place);
            self.nodes[member].pass(core);
            self.look_inside(member, core);
            self.watch_limits(member, core)?;
            self.watch_turns(member, core)?;
            self.hear_control(member, core);
        }
        Ok(())
    }

    /// Hands over what the metadata service has.
    fn deliver(&mut self, now: Time) -> Result<(), String> {
        if self.metadata.next().is_none_or(|at| at > now) {
            return Ok(());
        }
        let mut deliveries = std::mem::take(&mut self.deliveries);
        let frozen: Vec<bool> = self.nodes.iter().map(|node| node.frozen_until > now).collect();
        self.metadata
            .advance(now, |node| frozen[node.0 as usize - 1], &mut deliveries);
        for delivery in deliveries.drain(..) {
            match delivery {
                Delivery::Answer {
                    node,
                    process,
                    tag: Caller::Coordinator,
                    result,
                } => {
                    let member = node.0 as usize - 1;
                    self.note(u64::from(result.is_ok()));
                    if self.nodes[member].process == process {
                        self.answer_coordinator(member, result);
                    }
                }
                Delivery::Answer {
                    node,
                    process,
                    tag: Caller::Mover(serial),
                    result,
                } => {
                    self.note(u64::from(result.is_ok()));
                    if self.nodes[node.0 as usize - 1].process == process {
                        self.mover_was_told(now, serial, result)?;
                    }
                }
                Delivery::Answer {
                    node,
                    process,
                    tag: Caller::Links,
                    result,
                } => {
                    let member = node.0 as usize - 1;
                    self.note(u64::from(result.is_ok()));
                    if self.nodes[member].process == process {
                        self.links_were_told(now, member, &result);
                    }
                }
                Delivery::Answer {
                    node,
                    process,
                    tag: Caller::Core(core, call),
                    result,
                } => {
                    let member = node.0 as usize - 1;
                    self.note(call.0 ^ u64::from(result.is_ok()));
                    if self.nodes[member].process == process {
                        self.tell(|| format!("node {node}: metadata call {:x} ended: {}", call.0, summary(&result)));
                        self.nodes[member].control(core, ToCore::Metadata { call, result });
                    }
                }
                Delivery::Lapsed { node, process } => {
                    let member = node.0 as usize - 1;
                    if self.nodes[member].process == process {
                        self.tell(|| format!("node {node}: its lease has lapsed"));
                        let (dropped, _) = std::sync::mpsc::channel();
                        for core in 0..self.nodes[member].cores() {
                            self.nodes[member].control(core, ToCore::DropHosts(dropped.clone()));
                        }
                    }
                }
                Delivery::Changes { node, process, batch } => {
                    let member = node.0 as usize - 1;
                    self.note(batch.revision);
                    if self.nodes[member].process != process {
                        continue;
                    }
                    if let Some(lead) = &mut self.leads[member] {
                        lead.hear(now, &batch);
                    }
                    self.keeper_hears(now, member, &batch);
                    for event in batch.events {
                        let record = match event {
                            Event::Put(kv) => Record {
                                key: kv.key.clone(),
                                value: Some(kv.value.clone()),
                                revision: kv.mod_revision,
                                created: kv.create_revision,
                            },
                            Event::Delete { key, mod_revision } => Record {
                                key,
                                value: None,
                                revision: mod_revision,
                                created: 0,
                            },
                        };
                        self.networks.hear(member, &record.key, record.value.as_deref());
                        self.nodes[member].control(0, ToCore::Record(record));
                    }
                    if self.setup.fronted.is_some() {
                        self.nodes[member].control(0, ToCore::Settled);
                    }
                }
            }
        }
        self.deliveries = deliveries;
        Ok(())
    }

    fn note(&mut self, what: u64) {
        self.hash = amita_types::layout::mix(self.hash ^ what ^ self.world.now().0);
    }

    /// What a core has for its control plane.
    fn hear_control(&mut self, member: Member, core: usize) {
        for told in self.nodes[member].take_control(core) {
            match told {
                FromCore::Metadata { call, mut request } => {
                    self.setup.plants.metadata.strip(false, &mut request);
                    self.tell(|| {
                        format!(
                            "node {}: metadata call {:x}: {}",
                            member + 1,
                            call.0,
                            describe(&request)
                        )
                    });
                    let (now, process) = (self.world.now(), self.nodes[member].process);
                    self.metadata
                        .call(now, node_id(member), process, Caller::Core(core, call), request);
                }
                FromCore::StoreServes { report, store, .. } => {
                    self.coverage.hit("node.store_serves");
                    self.tell(|| format!("node {}: store {store} serves: {report}", member + 1));
                    if self.nodes[member].failed.remove(&store).is_some() {
                        self.coverage.hit("node.store_returned");
                        if self.nodes[member].failed.is_empty() {
                            self.ledger.stores_serve(self.world.now(), member);
                        }
                    }
                    self.nodes[member].serving.push(store);
                    self.announce(member);
                    let now = self.world.now();
                    self.hold(now, member, vec![store]);
                }
                FromCore::StoreFailed { why, path, .. } => {
                    self.coverage.hit("node.store_failed");
                    self.tell(|| format!("node {}: {path} fails: {why}", member + 1));
                    let place = (0..self.setup.stores).find(|place| disk(member, *place) == path);
                    let place = place.expect("a node fails by its own stores");
                    let store = store_id(member, place);
                    self.nodes[member].failed.insert(store, why);
                    self.store_failed(member);
                    self.nodes[member].serving.retain(|serving| *serving != store);
                    self.announce(member);
                }
                FromCore::StoreStaysOut { path, why } => {
                    self.tell(|| format!("node {}: {path} stays out: {why}", member + 1));
                    let place = (0..self.setup.stores).find(|place| disk(member, *place) == path);
                    let place = place.expect("a node fails by its own stores");
                    self.nodes[member].failed.insert(store_id(member, place), why);
                }
                FromCore::Description(_) | FromCore::Recalled { .. } | FromCore::Kept { .. } => {}
                // Stores serve at once here: whose they are is settled beside the simulator.
                FromCore::StoreMounted { .. } => unreachable!("no store is held"),
                FromCore::VolumeFails { text, .. } | FromCore::VolumeWorks { text, .. } => {
                    self.tell(|| format!("node {}: {text}", member + 1));
                }
                FromCore::Warning(what) | FromCore::Detail(what) => {
                    self.coverage.hit("node.warnings");
                    if what.starts_with("slow store: ") {
                        self.coverage.hit("node.slow_store");
                    }
                    self.tell(|| format!("node {}: {what}", member + 1));
                }
            }
        }
    }

    fn start(&mut self, member: Member) {
        self.tell(|| format!("node {} starts", member + 1));
        self.ledger.started(self.world.now(), member);
        self.nodes[member].start(&mut self.world, &self.setup);
        self.passing.node_starts(member);
        let (now, process) = (self.world.now(), self.nodes[member].process);
        let (lag, faults) = (self.setup.coordinator_lag, self.setup.plants.coordinator);
        self.leads[member] = self
            .setup
            .coordinator
            .map(|config| Lead::new(member, process, Config { faults, ..config }, lag));
        self.begin_to_measure(now, member);
        let value = self.live(member);
        self.metadata.session(now, node_id(member), process, value);
        self.metadata.watch(now, node_id(member), process);
    }

    /// What the node's liveness key says.
    fn live(&self, member: Member) -> Vec<u8> {
        json(&map::Live {
            stores: Some(self.nodes[member].serving.clone()),
            session: self.nodes[member].session(),
            pid: 1,
            version: map::METADATA_VERSION,
        })
    }

    /// The node serves other stores than before.
    fn announce(&mut self, member: Member) {
        let (now, value) = (self.world.now(), self.live(member));
        self.metadata.announce(now, node_id(member), value);
    }

    fn end(&mut self, member: Member, power_cut: bool) {
        if !self.nodes[member].is_up() {
            return;
        }
        self.tell(|| format!("node {} ends, power cut: {power_cut}", member + 1));
        self.ledger.ended(self.world.now(), member);
        self.count_node(member);
        self.nodes[member].end(&mut self.world, power_cut);
        self.leads[member] = None;
        self.end_measuring(member);
        self.metadata.process_ended(node_id(member));
        let now = self.world.now();
        self.hosts.process_ended(now, member, &mut self.workload);
    }

    /// A planned move comes true in bounded time, where nothing is ever wrong.
    fn check_moves(&mut self, now: Time) -> Result<(), String> {
        if !self.setup.expect_no_failures || self.moves_left() == 0 {
            return Ok(());
        }
        match self.moves_since.iter().find(|(_, since)| now >= since.plus(MOVE_LIMIT)) {
            Some((volume, _)) => Err(format!(
                "the move of {} has not come true within {MOVE_LIMIT:?}, and nothing is wrong\n{}",
                volume_name(*volume),
                self.describe()
            )),
            None => Ok(()),
        }
    }

    /// The group's record, as it is.
    fn group(&self, group: GroupId) -> Result<map::Group, String> {
        let key = map::group_key(group.pool, group.index);
        let record = self.metadata.state().get(&key).ok_or(format!("{key} is gone"))?;
        record.json().map_err(|error| error.to_string())
    }

    /// All groups of all pools.
    fn groups(&self) -> impl Iterator<Item = GroupId> + use<> {
        let groups = self.setup.groups;
        let of = move |pool| {
            (0..groups).map(move |index| GroupId {
                pool,
                index: GroupIndex(index),
            })
        };
        (1..=self.setup.pools).map(PoolId).flat_map(of)
    }

    /// The volume's record, as it is.
    fn volume(&self, volume: u64) -> Result<map::Volume, String> {
        let key = map::volume_key(&volume_name(volume));
        let record = self.metadata.state().get(&key).ok_or(format!("{key} is gone"))?;
        record.json().map_err(|error| error.to_string())
    }
}

/// The first volume is number 0.
fn volume_id(volume: u64) -> VolumeId {
    VolumeId(volume + 1)
}

fn volume_name(volume: u64) -> String {
    format!("volume-{}", volume + 1)
}

/// The pool of a volume.
fn pool_of(setup: &Setup, volume: u64) -> PoolId {
    PoolId((volume % u64::from(setup.pools)) as u32 + 1)
}

fn pool_name(pool: PoolId) -> String {
    format!("pool-{}", pool.0)
}

#[cfg(test)]
mod tests;
