//! Two clusters, and a mirror between them (decision 081): each is a cluster of the simulation with a world, a metadata and a coordinator of its own,
//! and neither knows anything of the other but what comes by the [`link`]. Both go by one time, in steps that are shorter than the shortest way
//! from one to the other.
//!
//! What is done at an end is done by processes at its nodes, which have their ways to the metadata, with all that is wrong with them: who is at the
//! mirror ([`runner`]), who answers the other end ([`server`]), operators ([`command`]), hosts ([`host`]), and who looks into points. [`judge`] says what
//! must be true of it all.
//!
//! The clocks of the clusters go ten times as fast as the time of the simulation, so that intervals of ten seconds fit short runs, and are set
//! forth and back.

mod command;
mod faults;
mod host;
mod judge;
mod link;
mod resize;
mod runner;
mod server;
pub(super) mod wire;

use super::moves::Out;
use super::moves::line::Line;
use super::node::node_id;
use super::operator::Desk;
use super::{Cluster, Migrating, Plants, Setup, patience, pool_name};
use crate::campaign::Run;
use crate::coverage::Coverage;
use crate::faults::Member;
use crate::random::Random;
use amita_control::admin::{self, MirrorWish, TargetWish};
use amita_metadata::{Call, Compare, Op};
use amita_reactor::Time;
use amita_reactor::buggify;
use amita_types::map::{self, Mirror, MirrorPeer, MirrorRole};
use amita_types::{BLOCK_BYTES, MirrorId, PoolId};
use host::Habits;
use judge::Judge;
use link::{Link, Message, Which};
use resize::{MORE_BLOCKS, Resizes, Sizes};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use wire::Did;

const MS: u64 = 1_000_000;
/// Blocks of a chunk: no I/O crosses its end.
const CHUNK_BLOCKS: u64 = 4;
const BLOCK: u64 = BLOCK_BYTES as u64;
/// The mirror, at both ends.
const NAME: &str = "m";
const ID: MirrorId = MirrorId(0x0a11_ce00_0000_0000_0000_0000_0000_0001);
/// When the clocks of the clusters begin, in seconds since 1970, and how fast they are.
const BEGIN_S: u64 = 1_700_000_000;
const RATE: u32 = 10;
/// The mirror goes on within this, now that nothing is wrong.
const GOES_ON: Duration = Duration::from_secs(90);
/// A run of nothing but the link, at both ends.
const MOST_STEPS: u64 = 3_000_000;

/// A cluster's clock, as those see it who are in it: since 1970.
#[derive(Clone, Debug, Default)]
pub(super) struct Wall {
    /// By how much it was set otherwise, in seconds.
    set_by: Arc<AtomicI64>,
}

impl Wall {
    fn at(&self, line: &Line) -> Duration {
        self.after(line.now())
    }

    fn after(&self, time: Duration) -> Duration {
        let whole = Duration::from_secs(BEGIN_S) + time * RATE;
        let by = self.set_by.load(Ordering::Relaxed);
        let seconds = Duration::from_secs(by.unsigned_abs());
        match by < 0 {
            true => whole.saturating_sub(seconds),
            false => whole + seconds,
        }
    }
}

/// The number that a block holds in all of its words; what nobody has written: the largest.
fn value_of(block: &[u8]) -> u64 {
    let mut words = block
        .chunks(8)
        .map(|word| word.try_into().map_or(u64::MAX, u64::from_le_bytes));
    let first = words.next().unwrap_or(u64::MAX);
    match words.all(|word| word == first) {
        true => first,
        false => u64::MAX,
    }
}

/// What a run of mirrors is made of.
#[derive(Clone, Debug)]
pub struct Mirroring {
    /// The seed of all chance.
    pub seed: u64,
    /// Volumes of the set.
    pub volumes: usize,
    /// Blocks of each, at first.
    pub blocks: u64,
    /// For so long hosts work, and things go wrong.
    pub work: Duration,
    /// Between two faults of an end, at most; none: there are none.
    pub faults_ms: Option<u64>,
    /// The same of the link.
    pub link_ms: Option<u64>,
    /// Between two commands of operators.
    pub commands_ms: Option<u64>,
    /// Between two settings of a clock.
    pub clocks_ms: Option<u64>,
    /// Between two resizes of a volume.
    pub resizes_ms: Option<u64>,
    /// Where the runner writes, something goes wrong with it so often of a thousand.
    pub trouble_per_mille: u64,
    /// The pause of hosts.
    pub pause_ms: u64,
    /// Rules switched off.
    pub plants: Plants,
}

impl Mirroring {
    /// A run in which nothing goes wrong, and nobody commands anything.
    #[must_use]
    pub fn quiet(seed: u64) -> Mirroring {
        let mut random = Random::new(seed).fork(70);
        Mirroring {
            seed,
            volumes: random.within(1, 3) as usize,
            blocks: 24,
            work: Duration::from_secs(12),
            faults_ms: None,
            link_ms: None,
            commands_ms: None,
            clocks_ms: None,
            resizes_ms: None,
            trouble_per_mille: 0,
            pause_ms: *random.pick(&[10, 30, 60]),
            plants: Plants::default(),
        }
    }

    /// What is drawn for a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Mirroring {
        let mut random = Random::new(seed).fork(71);
        Mirroring {
            work: Duration::from_secs(random.within(15, 40)),
            faults_ms: *random.pick(&[None, Some(2500), Some(6000)]),
            link_ms: *random.pick(&[None, Some(2000), Some(6000)]),
            commands_ms: *random.pick(&[None, Some(3000), Some(5000), Some(8000)]),
            clocks_ms: *random.pick(&[None, None, Some(5000)]),
            trouble_per_mille: *random.pick(&[0, 0, 3, 10]),
            resizes_ms: *Random::new(seed).fork(73).pick(&[None, None, Some(1200), Some(3500)]),
            ..Mirroring::quiet(seed)
        }
    }

    fn cluster(&self, end: u64) -> Setup {
        let mut setup = Setup::quiet(self.seed ^ (end + 1) << 56);
        setup.nodes = 5;
        setup.cores = vec![1; 5];
        setup.clocks = vec![1_000_000; 5];
        setup.groups = 2;
        setup.chunk_bytes = CHUNK_BLOCKS as u32 * BLOCK_BYTES;
        (setup.blocks, setup.profile.blocks, setup.profile.blocks_per_chunk) = (8, 8, 4);
        setup.profile.operations = 0;
        setup.profile.clients = 1;
        setup.store_bytes *= 6;
        setup.coordinator = Some(patience(1200));
        setup.migrating = Migrating {
            movers: 2,
            mirror: Some(ID),
            ..Migrating::default()
        };
        setup.plants = self.plants.clone();
        setup
    }
}

/// What a process is there for.
enum Role {
    Host,
    Runner,
    /// It answers this.
    Server(Which),
    Operator,
    /// A volume becomes larger, or smaller.
    Resizer {
        shrinks: bool,
    },
    Looker,
}

/// One of the clusters.
struct End {
    cluster: Cluster,
    wall: Wall,
    processes: BTreeMap<u64, Role>,
    /// The mirror's record, and its revision.
    record: Option<(u64, Mirror)>,
    /// When the next host, runner and looker begin.
    begins: [Time; 3],
    /// When the claim of a runner that is not heard of lapses.
    lapses: Option<(u64, Time)>,
    faults_at: Option<Time>,
    hosts: u64,
    sizes: Sizes,
}

struct Pair {
    setup: Mirroring,
    ends: [End; 2],
    link: Link,
    judge: Judge,
    random: Random,
    resizes: Resizes,
    link_at: Option<Time>,
    commands_at: Option<Time>,
    clocks_at: Option<Time>,
    /// Nothing goes wrong any more.
    healed: bool,
    /// Hosts read all once, and write nothing.
    reads_once: bool,
    /// How often all was read in the end.
    read_all: u64,
    coverage: Coverage,
    steps: u64,
    trace: bool,
}

/// Runs two clusters with a mirror between them.
#[must_use]
pub fn run_mirrors(setup: Mirroring, trace: bool) -> Run {
    drop(buggify::disarm());
    let mut pair = match Pair::new(setup, trace) {
        Ok(pair) => pair,
        Err(why) => {
            return Run {
                failure: Some(why),
                ..Run::default()
            };
        }
    };
    let failure = pair.run().err();
    pair.finish(failure)
}

impl Pair {
    fn new(setup: Mirroring, trace: bool) -> Result<Pair, String> {
        let end = |number: u64| End {
            cluster: Cluster::new(setup.cluster(number), trace),
            wall: Wall::default(),
            processes: BTreeMap::new(),
            record: None,
            begins: [Time(0); 3],
            lapses: None,
            faults_at: None,
            hosts: 0,
            sizes: Sizes::new(setup.volumes, setup.blocks),
        };
        let random = Random::new(setup.seed).fork(72);
        let mut pair = Pair {
            ends: [end(0), end(1)],
            link: Link::new(random.fork(1)),
            judge: Judge::new(
                setup.volumes,
                setup.blocks,
                setup.blocks + setup.resizes_ms.map_or(0, |_| MORE_BLOCKS),
            ),
            resizes: Resizes::new(setup.seed, setup.resizes_ms),
            link_at: setup.link_ms.map(|most| Time(most * MS)),
            commands_at: setup.commands_ms.map(|most| Time(most * MS)),
            clocks_at: setup.clocks_ms.map(|most| Time(most * MS)),
            random: random.fork(2),
            healed: false,
            reads_once: false,
            read_all: 0,
            coverage: Coverage::new(),
            steps: 0,
            trace,
            setup,
        };
        for end in &mut pair.ends {
            end.faults_at = pair.setup.faults_ms.map(|most| Time(most * MS));
        }
        pair.set_up()
            .map_err(|why| format!("the mirror is not set up: {why}"))?;
        Ok(pair)
    }

    fn volumes(&self) -> Vec<String> {
        (1..=self.setup.volumes).map(|number| format!("db-{number}")).collect()
    }

    /// As `amita mirror add` and `join` do it.
    fn set_up(&mut self) -> Result<(), String> {
        let names = self.volumes();
        let pool = pool_name(PoolId(1));
        let size_bytes = self.setup.blocks * u64::from(BLOCK_BYTES);
        let wish = |odd| MirrorWish {
            name: NAME,
            id: ID,
            odd,
            interval: Some(Duration::from_secs(10)),
            keep: 2,
            limit_bytes_per_s: None,
            alert_after: None,
            never_deposed: false,
            peer: MirrorPeer::default(),
        };
        let now = self.ends[0].wall.after(Duration::ZERO);
        let near = &mut self.ends[0].cluster;
        let desk = Desk::new(&mut near.metadata, Time(0));
        for name in &names {
            admin::create_volume(&desk, name, &pool, size_bytes).map_err(|why| why.to_string())?;
        }
        let added = admin::add_mirror(&desk, &wish(false), &names).map_err(|why| why.to_string())?;
        let far = &mut self.ends[1].cluster;
        let desk = Desk::new(&mut far.metadata, Time(0));
        let targets: Vec<TargetWish<'_>> = names
            .iter()
            .map(|name| TargetWish {
                name,
                pool: &pool,
                size_bytes,
                keys: None,
            })
            .collect();
        let epoch = added.standing.epoch;
        admin::add_mirrored(&desk, &wish(true), epoch, &targets, ("operator", now)).map_err(|why| why.to_string())?;
        admin::complete_mirrored(&desk, NAME).map_err(|why| why.to_string())?;
        Ok(())
    }

    fn tell(&self, end: usize, what: impl FnOnce() -> String) {
        if self.trace {
            eprintln!("end {end}:");
            self.ends[end].cluster.tell(what);
        }
    }

    fn run(&mut self) -> Result<(), String> {
        let limit = Time(self.setup.work.as_nanos() as u64);
        while self.now() < limit {
            self.step(limit)?;
        }
        self.heal();
        self.go_on()?;
        self.read_in_the_end()
    }

    fn now(&self) -> Time {
        self.ends[0].cluster.world.now().min(self.ends[1].cluster.world.now())
    }

    /// Lets the next thing happen at the end that is behind.
    fn step(&mut self, limit: Time) -> Result<(), String> {
        self.steps += 1;
        if self.steps > MOST_STEPS {
            return Err("it takes more steps than a run has".to_owned());
        }
        let times = [0, 1].map(|end: usize| self.ends[end].cluster.world.now());
        let end = usize::from(times[1] < times[0]);
        let now = times[end];
        self.act(now, end)?;
        // What the other one says now is heard here no sooner.
        let horizon = Time(times[1 - end].0 + link::LEAST_NS);
        let next = [
            self.link.next().map(|at| at.max(Time(now.0 + MS / 4))),
            self.next_of(end),
        ];
        let next = next.into_iter().flatten().min().unwrap_or(horizon);
        let until = next.min(horizon).min(limit).max(Time(now.0 + 1));
        self.ends[end].cluster.step(until)?;
        self.hear(end)
    }

    fn next_of(&self, end: usize) -> Option<Time> {
        let own = &self.ends[end];
        let now = own.cluster.world.now();
        let mine = [own.faults_at, self.link_at, self.commands_at, self.clocks_at];
        let lapses = own.lapses.map(|(_, at)| at);
        let mine = mine.into_iter().chain([self.resizes.next()]);
        let all = mine.flatten().chain(own.begins).chain(lapses);
        all.filter(|at| *at > now).min()
    }

    /// What is due at an end.
    fn act(&mut self, now: Time, end: usize) -> Result<(), String> {
        self.look_at_record(now, end);
        if let Some(why) = self.judge.violation.take() {
            return Err(why);
        }
        for (which, message) in self.link.come(now, end) {
            match message {
                Message::Ask(ask) => self.serve(now, end, which, ask),
                Message::Answer(result) => {
                    let cluster = &mut self.ends[end].cluster;
                    let frozen = cluster
                        .process_at(which.serial)
                        .map_or(Time(0), |member| cluster.nodes[member].frozen_until);
                    // One that stands still hears of it too late.
                    let result = match frozen > now {
                        true => Err(wire::FarWhy::Unheard("it came too late".to_owned())),
                        false => result,
                    };
                    cluster.was_told_by_far(now, which.serial, result)?;
                }
            }
        }
        self.count_processes(end);
        self.look_for_runner(now, end);
        self.look_for_host(now, end);
        self.look_for_looker(now, end);
        if !self.healed {
            self.let_go_wrong(now, end);
            self.play_resizes(now, end);
        }
        Ok(())
    }

    fn look_at_record(&mut self, now: Time, end: usize) {
        self.look_at_sizes(now, end);
        let own = &mut self.ends[end];
        let found = own.cluster.metadata.state().get(&map::mirror_key(NAME));
        let Some(found) = found else { return };
        let revision = found.mod_revision;
        if own.record.as_ref().is_some_and(|(known, _)| *known == revision) {
            return;
        }
        let Ok(new) = found.json::<Mirror>() else { return };
        let old = own.record.replace((revision, new.clone()));
        let old = old.map(|(_, old)| old);
        self.judge.record(now, end, old.as_ref(), &new);
        self.judge_sizes(end, old.as_ref(), &new);
        let has_arrived = new.standing.role == MirrorRole::Secondary
            && !new.standing.handed
            && old.as_ref().is_some_and(|old| old.standing.point != new.standing.point);
        if has_arrived {
            let sealed = self.sealed_set(end, &new);
            self.judge.arrived(end, &new, sealed);
        }
        self.tell(end, || {
            format!(
                "the mirror is {:?}, pass {:?}, begun {:?}, returning {:?}, ails {:?}",
                new.standing, new.pass, new.begun, new.returning, new.ails
            )
        });
    }

    /// Are the snapshots of the point that an end is at there, of all volumes, taken as one set?
    fn sealed_set(&self, end: usize, record: &Mirror) -> Result<(), String> {
        let state = self.ends[end].cluster.metadata.state();
        let point = record.standing.point.and_then(|point| record.standing.find(point));
        let point = point.ok_or("it is at a point that it has not")?;
        let mut sets = Vec::new();
        for volume in &record.volumes {
            let found = state.get(&map::volume_key(&volume.name));
            let found: map::Volume = found.and_then(|kv| kv.json().ok()).ok_or("a volume is gone")?;
            let all = state
                .keys()
                .filter(|kv| kv.key.starts_with(&map::snapshots_prefix(found.id)));
            let mut all = all.filter_map(|kv| kv.json::<map::Snapshot>().ok());
            let taken = all.find(|snapshot| snapshot.name == point.snapshots);
            let taken = taken.ok_or_else(|| format!("{}@{} is not there", volume.name, point.snapshots))?;
            match taken.state {
                map::SnapshotState::Sealed(_) if taken.set.is_some() => sets.push(taken.set),
                _ => return Err(format!("{}@{} is not taken: {taken:?}", volume.name, point.snapshots)),
            }
        }
        match sets.iter().all(|set| *set == sets[0]) {
            true => Ok(()),
            false => Err(format!("the snapshots of {} are of several sets", point.name)),
        }
    }

    /// What its points have of volumes, and whoever is promoted.
    fn judge_sizes(&mut self, end: usize, old: Option<&Mirror>, new: &Mirror) {
        for point in &new.standing.points {
            let is_same = |known: &map::Point| known.snapshots == point.snapshots;
            let known = old.and_then(|old| old.standing.find(point.name));
            if known.is_some_and(is_same) {
                continue;
            }
            // One that is not there is found by others.
            if let Some(sizes) = self.sizes_of(end, &point.snapshots) {
                self.judge.sized_point(end, new, (point.name, &point.snapshots), sizes);
            }
        }
        let was = old.map(|old| old.standing.role);
        let is_promoted = was == Some(MirrorRole::Promoting) && new.standing.role == MirrorRole::Primary;
        if !is_promoted {
            return;
        }
        // Who makes a volume larger may have come before this look, and may have ended by it.
        let was_grown = std::mem::take(&mut self.ends[end].sizes.grown_promoting);
        if !was_grown && !self.has(end, |role| matches!(role, Role::Resizer { .. })) {
            self.judge.serves(end, &self.ends[end].sizes.now());
        }
    }

    /// Of how many blocks the snapshots of this name are, by volume.
    fn sizes_of(&self, end: usize, snapshots: &str) -> Option<Vec<u64>> {
        let state = self.ends[end].cluster.metadata.state();
        let volumes = self.volumes().into_iter();
        let sizes = volumes.map(|name| {
            let volume: map::Volume = state.get(&map::volume_key(&name))?.json().ok()?;
            let named = state.get(&map::snapshot_name_key(volume.host(), snapshots))?;
            let named: map::SnapshotName = named.json().ok()?;
            let key = map::snapshot_key(volume.data_of(&named), named.number);
            let taken: map::Snapshot = state.get(&key)?.json().ok()?;
            Some(taken.size_bytes / BLOCK)
        });
        sizes.collect()
    }

    fn record(&self, end: usize) -> Option<&Mirror> {
        self.ends[end].record.as_ref().map(|(_, record)| record)
    }

    /// A node where a process may begin.
    fn any_node(&mut self, now: Time, end: usize, for_runners: bool) -> Option<Member> {
        let cluster = &self.ends[end].cluster;
        let first = cluster.setup.gateways();
        let nodes = match for_runners {
            true => first..cluster.nodes.len(),
            false => 0..first,
        };
        let may = |member: &Member| {
            cluster.nodes[*member].is_up()
                && cluster.nodes[*member].frozen_until <= now
                && cluster.metadata.reaches(now, node_id(*member))
        };
        let free: Vec<Member> = nodes.filter(may).collect();
        (!free.is_empty()).then(|| *self.random.pick(&free))
    }

    fn begin(&mut self, end: usize, member: Member, role: Role, run: impl FnOnce(&Line) + Send + 'static) {
        let plants = self.setup.plants.coordinator;
        let own = &mut self.ends[end];
        let serial = own.cluster.begin_process(member, move |line| {
            #[cfg(feature = "planted")]
            amita_control::plant_here(plants);
            let _ = plants;
            run(line);
        });
        own.processes.insert(serial, role);
    }

    /// Those that are gone with their nodes.
    fn count_processes(&mut self, end: usize) {
        let own = &mut self.ends[end];
        let cluster = &own.cluster;
        let before = own.processes.len();
        own.processes.retain(|serial, _| cluster.process_at(*serial).is_some());
        let gone = before - own.processes.len();
        self.coverage.add("mirror.process_died", gone as u64);
    }

    fn has(&self, end: usize, is_it: impl Fn(&Role) -> bool) -> bool {
        self.ends[end].processes.values().any(is_it)
    }

    fn serve(&mut self, now: Time, end: usize, which: Which, ask: wire::FarAsk) {
        let Some(member) = self.any_node(now, end, false) else {
            return;
        };
        let wall = self.ends[end].wall.clone();
        self.begin(end, member, Role::Server(which), move |line| {
            server::serve(line, NAME, &wall, ask);
        });
    }

    fn look_for_runner(&mut self, now: Time, end: usize) {
        let own = &self.ends[end];
        let key = map::mirror_runner_key(NAME);
        let found = own.cluster.metadata.state().get(&key);
        let holder = found.map(|kv| (kv.mod_revision, kv.json::<String>().unwrap_or_default()));
        if let Some((revision, holder)) = holder {
            return self.look_at_claim(now, end, revision, &holder);
        }
        self.ends[end].lapses = None;
        if now < own_begins(&self.ends[end], 1) {
            return;
        }
        self.ends[end].begins[1] = Time(now.0 + self.random.within(60 * MS, 400 * MS));
        let Some(member) = self.any_node(now, end, true) else {
            return;
        };
        let own = &mut self.ends[end];
        let begins = runner::Begins {
            mirror: NAME.to_owned(),
            node: node_id(member),
            value: super::records::json(&own.cluster.next_process().to_string()),
            wall: own.wall.clone(),
            plants: self.setup.plants.coordinator,
        };
        self.begin(end, member, Role::Runner, move |line| runner::run(line, &begins));
    }

    /// The key of a runner that is not heard of goes with its lease.
    fn look_at_claim(&mut self, now: Time, end: usize, revision: u64, holder: &str) {
        let own = &mut self.ends[end];
        let serial = holder.parse().unwrap_or_default();
        let is_kept = own.cluster.process_at(serial).is_some_and(|member| {
            own.processes.contains_key(&serial)
                && own.cluster.nodes[member].frozen_until <= now
                && own.cluster.metadata.reaches(now, node_id(member))
        });
        if is_kept {
            own.lapses = None;
            return;
        }
        let lasts = Time(now.0 + self.random.within(50 * MS, 1500 * MS));
        let (of, at) = *own.lapses.get_or_insert((revision, lasts));
        if of != revision {
            own.lapses = Some((revision, lasts));
            return;
        }
        if now < at {
            return;
        }
        own.lapses = None;
        let key = map::mirror_runner_key(NAME);
        let call = Call {
            compares: vec![Compare::ModRevision {
                key: key.clone(),
                equals: revision,
            }],
            then: vec![Op::Delete { key }],
            otherwise: Vec::new(),
        };
        own.cluster.metadata.operate(now, &call);
        self.coverage.hit("mirror.claim_lapsed");
    }

    fn look_for_host(&mut self, now: Time, end: usize) {
        if now < own_begins(&self.ends[end], 0) || self.has(end, |role| matches!(role, Role::Host)) || self.lets_go(end)
        {
            return;
        }
        self.ends[end].begins[0] = Time(now.0 + self.random.within(30 * MS, 400 * MS));
        let Some(member) = self.any_node(now, end, false) else {
            return;
        };
        if self.may_shrink_yet(end, member) {
            return self.coverage.hit("mirror.host_elsewhere");
        }
        let own = &mut self.ends[end];
        own.hosts += 1;
        let habits = Habits {
            volumes: (1..=self.setup.volumes).map(|number| format!("db-{number}")).collect(),
            told: own.sizes.told.clone(),
            pause: Duration::from_millis(self.setup.pause_ms),
            values: (end as u64 + 1) << 48 | own.hosts << 20,
            reads_once: self.reads_once,
        };
        let random = self.random.fork(own.hosts << 1 | end as u64);
        self.begin(end, member, Role::Host, move |line| host::run(line, &habits, random));
    }

    /// Points that nobody has looked into are looked into.
    fn look_for_looker(&mut self, now: Time, end: usize) {
        if now < own_begins(&self.ends[end], 2) || self.has(end, |role| matches!(role, Role::Looker)) {
            return;
        }
        self.ends[end].begins[2] = Time(now.0 + 20 * MS);
        let Some(record) = self.record(end) else { return };
        let unread = self.judge.unread(end, record);
        if unread.is_empty() {
            return;
        }
        // What an end has of a point that goes is the first to be looked at.
        let (name, snapshots) = self.random.pick(&unread).clone();
        let Some(member) = self.any_node(now, end, false) else {
            return;
        };
        let volumes = self.volumes();
        self.begin(end, member, Role::Looker, move |line| {
            server::look_into(line, &volumes, name, &snapshots);
        });
    }

    /// What processes have said.
    fn hear(&mut self, end: usize) -> Result<(), String> {
        for (serial, now, out) in self.ends[end].cluster.said_of_mirrors() {
            match out {
                Out::Far(ask) => self.link.ask(now, end, serial, *ask),
                Out::Did(did) => self.did(now, end, serial, *did)?,
                Out::Ended(why) => {
                    if let Some(Role::Host) = self.ends[end].processes.remove(&serial)
                        && why.is_none()
                    {
                        self.read_all += u64::from(self.reads_once);
                    }
                }
            }
        }
        Ok(())
    }

    fn did(&mut self, now: Time, end: usize, serial: u64, did: Did) -> Result<(), String> {
        self.look_at_record(now, end);
        if let Some(why) = self.judge.violation.take() {
            return Err(why);
        }
        let record = self.ends[end].record.as_ref().map(|(_, record)| record);
        match did {
            Did::Opened(blocks) => {
                self.coverage.hit("mirror.host_opened");
                let is_short = blocks.iter().any(|blocks| *blocks < self.setup.blocks);
                self.coverage.add("mirror.host_opened_short", u64::from(is_short));
            }
            Did::Refused { is_closed: true } => {
                let is_secondary = record.is_some_and(|record| record.standing.role == MirrorRole::Secondary);
                self.coverage.add("mirror.judged_refused", u64::from(is_secondary));
                self.coverage.hit("mirror.host_refused");
            }
            Did::Refused { is_closed: false } => self.coverage.hit("mirror.host_not_opened"),
            Did::Began { volume, block, value } => self.judge.began(now, end, (volume, block, value), record),
            Did::Acknowledged { value } => self.judge.acknowledged(now, value, record)?,
            Did::Failed { is_closed } => self.coverage.hit(match is_closed {
                true => "mirror.host_shut_out",
                false => "mirror.host_unsure",
            }),
            Did::Read {
                asked,
                volume,
                first,
                values,
            } => {
                let asked = Time(asked.as_nanos() as u64);
                self.judge.read(asked, end, (volume, first), &values)?;
            }
            Did::Point {
                name,
                snapshots,
                content,
            } => self.judge.point(end, name, &snapshots, content)?,
            Did::Shrinks => self.shrinks(now, end, serial),
            Did::Clears {
                volume,
                first,
                count,
                value,
                acknowledged: false,
            } => self.judge.clears(now, end, volume, first..first + count, value),
            Did::Clears { count, value, .. } => {
                for value in value + 1 - count..=value {
                    self.judge.acknowledged(now, value, record)?;
                }
            }
            Did::ClearedAll => self.cleared_all(),
            Did::Served(answer) => {
                if let Some(Role::Server(which)) = self.ends[end].processes.get(&serial) {
                    self.link.answer(now, *which, answer);
                }
            }
            Did::Writes | Did::Seals => {
                let per_mille = self.setup.trouble_per_mille * 20;
                if !self.healed && self.random.below(1000) < per_mille {
                    self.trouble_runner(now, end, serial);
                }
                if !self.healed && self.setup.commands_ms.is_some() && self.random.percent(4) {
                    self.force_in_a_pass(now, end);
                }
            }
        }
        Ok(())
    }
}

fn own_begins(end: &End, which: usize) -> Time {
    end.begins[which]
}
