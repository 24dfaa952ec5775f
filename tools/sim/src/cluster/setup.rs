//! What a run is made of: the size of the cluster, its settings, its clients and its faults, all from the seed.

use super::clones::Cloning;
use super::deletion::Passers;
use super::moves::Migrating;
use super::networks::Measured;
use super::operator::Chores;
use super::sealed::Sealed;
use super::settings::Settings;
use crate::faults::{Fault, Limits, Member, Plan, Step};
use crate::random::Random;
use crate::workload::Profile;
use amita_control::coordinator;
use amita_fabric::secure::Protection;
use amita_types::BLOCK_BYTES;
use amita_types::recovery::SlowStores;
use std::time::Duration;

/// No write of a host that is slowed waits for longer (`crates/cluster/node/src/core/slowed.rs`).
const SLOWED_FOR: Duration = Duration::from_secs(2);

/// Rules switched off, each a planted bug that the checkers must find. Without the feature `planted` there are none.
#[derive(Clone, Debug, Default)]
pub struct Plants {
    pub store: amita_store::Faults,
    pub volume: amita_sequencer::Faults,
    pub coordinator: amita_control::Faults,
    /// Of the gateways.
    pub node: amita_node::Faults,
    /// Of the iSCSI fronts.
    pub iscsi: amita_iscsi::Faults,
    /// R9: NVMe fronts keep hosts that are silent while what they have sent grows old, and know of no keep alive time.
    pub keep_silent_hosts: bool,
    /// R9: NVMe fronts carry out what comes of hosts that were silent for so long that they may have gone.
    pub believe_silent_hosts: bool,
    /// R9: programs send again at once what may still be carried out where it was sent first.
    pub resend_at_once: bool,
    /// Of what is asked of the metadata.
    pub metadata: Careless,
    /// R4: a host's clock does not count the time in which it is suspended.
    pub clock_stands_still: bool,
    /// R4: reads rest on leases, though no clock shows how long a machine was paused.
    pub trust_clocks: bool,
    /// Of the connections.
    pub fabric: amita_fabric::Faults,
    /// Of what is lent of limits, and of the order at stores.
    pub qos: amita_qos::Faults,
    /// S9: a clone does not hold the snapshot that it was made from.
    pub forget_pins: bool,
    /// S13: a clone lets go of its parents when its chunks are not made.
    pub flatten_unmade: bool,
    /// Clones are counted without what they have from their parents.
    pub count_without_parents: bool,
    /// S8: a volume is made smaller without what lies behind its new end having been cleared.
    pub shrink_uncleared: bool,
    /// S14: keys that are not as they should be.
    pub keys: super::sealed::Careless,
    /// S13: a volume is reverted before its stores have adopted the generation of who reverts it.
    pub revert_unadopted: bool,
}

/// By what hosts speak to gateways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// NVMe/TCP, by a path to each gateway.
    Nvme,
    /// iSCSI, by a session at each portal.
    Iscsi,
    /// NBD, by one connection to any gateway.
    Nbd,
    /// The same, by the product's own client.
    Client,
}

/// Hosts that use the product's fronts over connections of the simulated network.
#[derive(Clone, Copy, Debug)]
pub struct Fronted {
    /// By what they speak.
    pub protocol: Protocol,
    /// The keep alive time.
    pub keep_alive: Duration,
    /// A request that waits for longer ends the connection.
    pub io_timeout: Duration,
    /// How long a program looks for a gateway that serves its volume.
    pub patience: Duration,
    /// The pause before a connection is tried again.
    pub reconnect: Duration,
    /// I/O queues of a controller.
    pub queues: u16,
    /// Paths that are as good as each other are used in turn.
    pub round_robin: bool,
    /// Kernels of NVMe hosts go on to send what a controller's connections have queued that was given up. (Linux drops it.) Those of initiators always
    /// do, though open-iscsi drops it as well.
    pub lingers: bool,
    /// What only initiators have.
    pub iscsi: Initiators,
}

/// How initiators are set up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Initiators {
    /// How long commands wait for their session to be there again.
    pub replacement: Duration,
    /// Between two checks of a path.
    pub polling: Duration,
    pub digests: bool,
    pub initial_r2t: bool,
    /// They and targets prove to have secrets.
    pub proves: bool,
    /// Between two reinstatements of a session for no reason.
    pub reinstates: Option<Duration>,
    /// Every other host speaks NVMe/TCP, to the same volumes.
    pub beside_nvme: bool,
    /// Every other one of these registers as well, where volumes are reserved, and the others are strangers: the first does.
    pub first_registers: bool,
    /// They use all paths alike, whatever the target says of their access.
    pub multibus: bool,
    /// Some of their reads go by a copy, to a volume that is there for nothing else.
    pub copies: bool,
    /// The type of the persistent reservation that the hosts of a volume keep (SPC-4), by which they fence one another off.
    pub reserves: Option<u8>,
}

impl Initiators {
    fn draw(random: &mut Random) -> Initiators {
        Initiators {
            replacement: Duration::from_millis(*random.pick(&[0, 500, 2000, 5000])),
            polling: Duration::from_millis(*random.pick(&[500, 2000])),
            digests: random.percent(30),
            initial_r2t: random.percent(50),
            proves: random.percent(50),
            beside_nvme: random.percent(25),
            reinstates: random
                .percent(30)
                .then(|| Duration::from_millis(random.within(200, 1500))),
            // Write Exclusive, and Exclusive Access, to registrants; reserved by one of them, or by all.
            reserves: random.percent(40).then(|| *random.pick(&[5, 5, 6, 7, 8])),
            first_registers: random.percent(50),
            multibus: false,
            copies: false,
        }
    }
}

/// For longer than any run.
const FOR_EVER: Duration = Duration::from_secs(3600);

impl Fronted {
    /// By what the host of that number speaks.
    #[must_use]
    pub fn protocol_of(&self, number: u32) -> Protocol {
        match self.iscsi.beside_nvme && number % 2 == 1 {
            true => Protocol::Nvme,
            false => self.protocol,
        }
    }

    /// Does the host of that number register for the reservation of its volume, if there is one?
    #[must_use]
    pub fn registers(&self, number: u32) -> bool {
        let may = match self.protocol_of(number) {
            Protocol::Iscsi => true,
            _ => (number % 4 == 1) == self.iscsi.first_registers,
        };
        self.iscsi.reserves.is_some() && may
    }

    /// Have hosts paths to all gateways?
    #[must_use]
    pub fn has_paths(&self) -> bool {
        matches!(self.protocol, Protocol::Nvme | Protocol::Iscsi)
    }

    /// As Linux is set up, with times that vary.
    fn draw(random: &mut Random, protocol: Protocol) -> Fronted {
        Fronted {
            protocol,
            keep_alive: Duration::from_secs(*random.pick(&[2, 5, 5])),
            io_timeout: Duration::from_secs(match protocol {
                // What takes longer is aborted, or with all others of its unit, which nobody then hears of.
                Protocol::Iscsi => *random.pick(&[1, 2, 5, 10]),
                _ => *random.pick(&[3, 10, 30]),
            }),
            patience: FOR_EVER,
            reconnect: Duration::from_millis(*random.pick(&[50, 300, 2000])),
            queues: *random.pick(&[1, 1, 2]),
            round_robin: random.percent(50),
            lingers: false,
            iscsi: match protocol {
                Protocol::Iscsi => Initiators::draw(random),
                _ => Initiators::default(),
            },
        }
    }

    /// Hosts with the defaults of the product's guide.
    #[must_use]
    pub fn usual(protocol: Protocol) -> Fronted {
        Fronted {
            protocol,
            keep_alive: Duration::from_secs(5),
            io_timeout: Duration::from_secs(30),
            patience: FOR_EVER,
            reconnect: Duration::from_secs(2),
            queues: 1,
            round_robin: true,
            lingers: false,
            iscsi: Initiators {
                replacement: Duration::from_secs(5),
                polling: Duration::from_secs(2),
                initial_r2t: true,
                ..Initiators::default()
            },
        }
    }
}

/// A run whose work takes longer than this (virtual) time heals everything and sees what becomes of it.
const WORK: Duration = Duration::from_secs(60);
/// As above, for the few runs that live long.
const LONG_WORK: Duration = Duration::from_secs(3 * 3600);

/// One run of so many has chunks of several leaves, many of them, sparsely written.
const WIDE_ONE_IN: u64 = 60;

/// The streams of chance of the initiators.
const MULTIBUS: u64 = 75;
const COPIES: u64 = 76;
const INITIATORS: u64 = 73;
/// Of hosts that linger: by it those of seed 1014071 of moves do, which was the first to have a write come late that way.
const LINGERS: u64 = 146;
/// And of limits: two.
const LIMITS: u64 = 80;
/// Of moves.
const MOVES: u64 = 90;

/// One run of so many has encrypted volumes.
const SEALED_ONE_IN: u64 = 6;
/// The stream of chance of that. By it none of the seeds has any that are known to take rare paths, or to find a mutant: these are what they were.
const SEALED: u64 = 778;

/// In one run of so many a node lies.
const LIAR_ONE_IN: u64 = 8;
/// One run of so many has gateways that pass over no owner that lives.
const PATIENT_ONE_IN: u64 = 8;
/// In one run of so many a member forgets what it has answered.
const FORGETFUL_ONE_IN: u64 = 8;
/// And they wait for so long: longer than a node's lease.
const OWNER_PATIENCE: Duration = Duration::from_secs(8);

/// Compares that calls to the metadata are made without: rules switched off on the way to the service.
#[derive(Clone, Copy, Debug, Default)]
pub struct Careless {
    /// R2: a sequencer moves groups without comparing their records.
    pub blind_eviction: bool,
    /// R6: an opener raises the generation without comparing the volume's record.
    pub blind_raise: bool,
    /// R12: the coordinator does not compare that the dead are dead, nor the groups' records.
    pub blind_coordinator: bool,
    /// R2: a promotion does not compare that no generation was raised since.
    pub blind_promotion: bool,
    /// M1: the switch of a move does not compare the volume's record.
    pub blind_switch: bool,
    /// P1: what a mover notes does not compare that he is it.
    pub blind_claim: bool,
}

impl Careless {
    /// Takes the compares out of a mover's call.
    pub fn strip_of_mover(self, call: &mut amita_metadata::Call) {
        use amita_metadata::{Compare, Op};
        let target = amita_types::map::volume_key("~");
        let switches = |op: &Op| matches!(op, Op::Delete { key } if key.starts_with(&target));
        let blind_switch = self.blind_switch && call.then.iter().any(switches);
        let takes = call.then.len() == 1 && call.otherwise.is_empty();
        call.compares.retain(|compare| match compare {
            Compare::ModRevision { key, .. } if blind_switch => {
                !key.contains("/volumes/") && !key.contains("/snapshots/")
            }
            Compare::ModRevision { key, .. } if self.blind_claim && !takes => !key.contains("/copies/by/"),
            _ => true,
        });
    }

    /// Takes the compares out of a call.
    pub fn strip(self, by_coordinator: bool, call: &mut amita_metadata::Call) {
        if by_coordinator && self.blind_promotion {
            let raised = |compare: &amita_metadata::Compare| matches!(compare, amita_metadata::Compare::ModRevision { key, .. } if key.contains("/raised/"));
            call.compares.retain(|compare| !raised(compare));
        }
        let puts = |what: &str| {
            let mut then = call.then.iter();
            then.any(|op| matches!(op, amita_metadata::Op::Put { key, .. } if key.contains(what)))
        };
        let (groups, volumes) = (puts("/groups/"), puts("/volumes/"));
        let careless = match by_coordinator {
            true => self.blind_coordinator && groups,
            false => (self.blind_eviction && groups) || (self.blind_raise && volumes),
        };
        if careless {
            call.compares.retain(|compare| match compare {
                amita_metadata::Compare::ModRevision { key, .. } if self.blind_coordinator => {
                    !key.contains("/groups/") && !key.contains("/live/")
                }
                amita_metadata::Compare::ModRevision { key, .. } if groups => !key.contains("/groups/"),
                _ => false,
            });
        }
    }
}

/// Bytes of a store: enough that every gateway is granted what it may have in flight. (It takes no memory before it is
/// written.)
pub const STORE_BYTES: u64 = 128 << 20;

/// Everything that a run is made of.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The seed of all chance.
    pub seed: u64,
    pub nodes: usize,
    /// Stores of each node.
    pub stores: usize,
    /// Pools; all have the same settings.
    pub pools: u32,
    /// Volumes, all of one size, dealt out to the pools in turn.
    pub volumes: u64,
    /// Cores of each node.
    pub cores: Vec<usize>,
    /// How links between nodes are protected; none: not at all.
    pub protection: Option<Protection>,
    /// Connections to each peer.
    pub links_per_peer: usize,
    /// Groups of each pool: a power of two.
    pub groups: u32,
    /// Copies of each chunk.
    pub copies: u8,
    /// Writes wait below this.
    pub min_copies: u8,
    /// Bytes of a chunk.
    pub chunk_bytes: u32,
    /// Blocks of each volume: whole chunks.
    pub blocks: u64,
    /// Bytes of each store.
    pub store_bytes: u64,
    /// Bytes of its log.
    pub log_bytes: u64,
    /// How fast each node's clock runs, in millionths of the true time.
    pub clocks: Vec<u64>,
    /// From the first of each of these nodes nothing ever reaches the second.
    pub apart: Vec<(usize, usize)>,
    /// No I/O waits longer for its answer at a gateway that stands, whatever fails.
    pub expect_progress: Option<Duration>,
    /// Do disks lose what was not flushed?
    pub volatile_cache: bool,
    /// The disks' alignment.
    pub alignment: u32,
    /// A peer whose port refuses for so long is taken for dead.
    pub refused_for: Duration,
    /// A peer that is silent for so long is taken for dead.
    pub silent_for: Duration,
    /// A host that waits so long for an answer gives up and goes to another gateway.
    pub host_patience: Duration,
    /// So many hosts stay at their gateway as long as it answers, wherever the others go.
    pub loyal_hosts: u32,
    /// So many hosts, the first ones, use all gateways at once, as NVMe hosts with several paths do.
    pub shared_hosts: u32,
    /// All hosts use the product's fronts.
    pub fronted: Option<Fronted>,
    /// No I/O of those may fail.
    pub expect_no_failures: bool,
    /// Hosts wait for what is under way before they leave a gateway that they can still reach.
    pub polite_hosts: bool,
    /// Nothing fails, so nobody may lose its place in an in-sync set.
    pub expect_no_eviction: bool,
    /// Everything is scrubbed in the end, and what snapshots have is then whole on every store in sync.
    pub scrubbed_last: bool,
    /// But for the stores of this node.
    pub may_be_evicted: Option<Member>,
    /// No volume is taken over more often than this.
    pub most_takeovers: Option<u32>,
    /// Disks are too small for the volume: errors say so, and nothing else happens.
    pub expect_full: bool,
    /// The coordinator's settings; without any there is no coordinator.
    pub coordinator: Option<coordinator::Config>,
    /// How links between nodes are measured, and what becomes of whom is found sick; none: they are not.
    pub measured: Option<Measured>,
    /// How much later than its node a coordinator looks at what has changed.
    pub coordinator_lag: Duration,
    /// What nodes are told: time-outs, limits, windows.
    pub settings: Settings,
    /// Buggify inside the product's code, drawn from this seed; none: none.
    pub buggify: Option<u64>,
    /// So often of a thousand what one core has for another is held back, and for so long at most; none: as `buggify`
    /// draws.
    pub slow_mail: Option<(u64, Duration)>,
    /// The work is cut short after so long (in virtual time).
    pub work: Duration,
    /// The clients.
    pub profile: Profile,
    /// What goes wrong.
    pub plan: Plan,
    /// Volumes that are made and deleted meanwhile.
    pub passers: Passers,
    /// What is cloned.
    pub cloning: Cloning,
    /// Is there a node that lies?
    pub liar: bool,
    /// All volumes are encrypted, and these are their keys.
    pub sealed: Option<Sealed>,
    /// Which rules are switched off.
    pub plants: Plants,
    /// What an operator does meanwhile.
    pub chores: Chores,
    /// Volumes are limited, and their limits change.
    pub limited: bool,
    /// So are a tenant and the pool.
    pub jointly: bool,
    /// It is said how volumes stand among others, and that changes; stores have no more than so many requests under way at once.
    pub turns: Option<u32>,
    /// Volumes move to other pools.
    pub migrating: Migrating,
}

impl Setup {
    /// Nodes that hosts use: the first ones.
    #[must_use]
    pub fn gateways(&self) -> usize {
        self.nodes - self.migrating.movers
    }

    /// Have nodes two networks?
    #[must_use]
    pub fn has_second(&self) -> bool {
        self.measured.is_some_and(|measured| measured.two)
    }

    /// The number of the volume that hosts copy to and read there. It is beyond the others, and is not judged: what is read there is.
    #[must_use]
    pub fn scratch(&self) -> Option<u64> {
        let fronted = self.fronted.filter(|fronted| fronted.protocol == Protocol::Iscsi)?;
        fronted.iscsi.copies.then_some(self.volumes)
    }

    /// When hosts find out that their gateway has gone without a word. (By NVMe/TCP keep alives tell.)
    #[must_use]
    pub fn hosts_notice(&self) -> Duration {
        match self.fronted {
            Some(fronted) if fronted.protocol == Protocol::Nbd => fronted.io_timeout,
            // It asks after a second, and waits for four.
            Some(fronted) if fronted.protocol == Protocol::Client => Duration::from_secs(5),
            _ => Duration::ZERO,
        }
    }

    /// The setup of a seed. One in forty has disks that are smaller than its volume, one a member that lies, and one measures the links
    /// between its nodes; nothing else is wrong there.
    #[must_use]
    pub fn draw(seed: u64) -> Setup {
        match seed % 40 {
            39 => Setup::cramped(seed),
            37 => Setup::infiltrated(seed),
            33 => Setup::measuring(seed),
            _ => Setup::draw_roomy(seed),
        }
    }

    /// Volumes are limited to less than their hosts want, and the limits change. Everything else is as it is drawn.
    #[must_use]
    pub fn limited(seed: u64) -> Setup {
        let mut setup = Setup::draw_roomy(seed);
        let mut random = Random::new(seed).fork(LIMITS);
        setup.limited = true;
        let profile = &mut setup.profile;
        profile.operations = profile.operations.max(300);
        profile.pause_ns = *random.pick(&[10_000, 100_000, 2_000_000]);
        profile.depth = *random.pick(&[2, 4, 8]);
        setup.work = WORK;
        let mut limits = Random::new(seed).fork(LIMITS + 1);
        setup
            .chores
            .add_limits(&mut limits, setup.volumes, setup.profile.operations);
        setup
    }

    /// The same of a tenant and of the pool, beside single volumes.
    #[must_use]
    pub fn jointly_limited(seed: u64) -> Setup {
        Setup {
            jointly: true,
            ..Setup::limited(seed)
        }
    }

    /// Something is said of how volumes stand among others, and stores have little under way at once. Everything else is as it is drawn.
    #[must_use]
    pub fn ordered(seed: u64) -> Setup {
        let mut setup = Setup::draw_roomy(seed);
        let mut random = Random::new(seed).fork(LIMITS + 2);
        setup.turns = Some(*random.pick(&[1, 2, 4]));
        let profile = &mut setup.profile;
        profile.operations = profile.operations.max(300);
        profile.pause_ns = *random.pick(&[10_000, 100_000]);
        profile.depth = *random.pick(&[4, 8]);
        setup.work = WORK;
        setup
            .chores
            .add_ranks(&mut random, setup.volumes, setup.profile.operations);
        setup
    }

    /// Volumes move to the other pool, and back, while everything goes wrong that is drawn, and more in single moments of a move.
    #[must_use]
    pub fn migrating(seed: u64) -> Setup {
        // Chunks of a size that few have, and lives of hours, take too long here.
        let is_plain = |setup: &Setup| setup.work == WORK && setup.chunk_bytes < 64 * BLOCK_BYTES;
        let mut setups = (0..64).map(|turn| Setup::draw_roomy(seed + (turn << 40)));
        let setup = setups.find(is_plain).expect("most are");
        let mut random = Random::new(seed).fork(MOVES);
        let mut setup = Setup {
            seed,
            nodes: 5,
            pools: 2,
            shared_hosts: 0,
            passers: Passers::default(),
            liar: false,
            migrating: Migrating {
                movers: 2,
                trouble_per_mille: *random.pick(&[0, 2, 5, 15]),
                slow_calls: Duration::from_millis(*random.pick(&[0, 0, 0, 4, 20])),
                hosts_go: random.percent(20),
                short_holds: !seed.is_multiple_of(4),
                mirror: None,
            },
            ..setup
        };
        setup.cores.resize(setup.nodes, 1);
        setup.clocks.resize(setup.nodes, 1_000_000);
        setup.store_bytes = STORE_BYTES * 2 * (3 * setup.volumes + u64::from(setup.cloning.most));
        match &mut setup.fronted {
            Some(fronted) => fronted.iscsi.copies = false,
            None => setup.profile.compare_percent = 0,
        }
        let profile = &mut setup.profile;
        // For as long as moves take.
        profile.operations = profile.operations.max(1200);
        profile.pause_ns = *random.pick(&[3_000_000, 12_000_000, 30_000_000]);
        let (volumes, operations) = (setup.volumes, profile.operations);
        setup.chores.add_migrations(&mut random, volumes, operations);
        // Writes may wait for that long where hosts are slowed (080), and for what they wait for otherwise.
        setup.host_patience += SLOWED_FOR;
        setup
    }

    /// Disks that are smaller than the volume.
    #[must_use]
    pub fn cramped(seed: u64) -> Setup {
        let mut setup = Setup::quiet(seed);
        setup.store_bytes = 1 << 20;
        setup.groups = 1;
        (setup.blocks, setup.profile.blocks) = (288, 288);
        setup.profile.hot_percent = 5;
        setup.profile.read_percent = 10;
        setup.profile.clear_percent = 5;
        setup.profile.max_blocks = 8;
        setup.profile.operations = 400;
        (setup.expect_full, setup.expect_no_eviction) = (true, true);
        setup
    }

    /// A member speaks in the names of the others. They lose nothing by that.
    #[must_use]
    pub fn infiltrated(seed: u64) -> Setup {
        let mut setup = Setup::quiet(seed);
        let mut random = Random::new(seed).fork(2);
        let node = random.below(setup.nodes as u64) as usize;
        setup.profile.operations = 400;
        setup.profile.pause_ns = 4_000_000;
        let for_ns = 2_000_000_000;
        let lies = (random.within(5, 60) as u32, Fault::Lies { node, for_ns });
        let moves = (1..4).map(|round| {
            let gateway = random.below(3) as usize;
            (round * 100, Fault::Move { gateway })
        });
        let steps = std::iter::once(lies)
            .chain(moves)
            .map(|(after_operations, fault)| Step {
                after_operations,
                delay_ns: 0,
                fault,
            });
        setup.plan.steps = steps.collect();
        (setup.expect_no_eviction, setup.may_be_evicted) = (true, Some(node));
        setup
    }

    fn draw_roomy(seed: u64) -> Setup {
        let mut random = Random::new(seed).fork(1);
        // One run in thirty lives for hours, with long silences and faults of minutes.
        let long = random.below(30) == 0;
        let nodes = *random.pick(&[3, 3, 3, 4, 5]);
        let stores = *random.pick(&[1, 1, 1, 2]);
        let volumes = *random.pick(&[1, 1, 1, 2, 3]);
        let pools = if volumes > 1 && random.percent(50) { 2 } else { 1 };
        let cores = (0..nodes).map(|_| if random.percent(30) { 2 } else { 1 }).collect();
        let copies = if nodes == 3 { *random.pick(&[3, 3, 3, 2]) } else { 3 };
        let min_copies = if copies == 2 { 1 } else { *random.pick(&[2, 2, 2, 1]) };
        let blocks_per_chunk = *random.pick(&[8, 16, 32]);
        let blocks = blocks_per_chunk * random.within(2, if volumes == 1 { 6 } else { 3 });
        let mut profile = Profile::draw(&mut random, volumes, blocks, blocks_per_chunk);
        if long {
            profile.live_long(&mut random);
        }
        let limits = Limits {
            nodes,
            operations: profile.operations,
            spare: usize::from(copies - min_copies).min(1),
            eviction_ns: 1_500_000_000,
        };
        let mut plan = Plan::draw(&mut random, limits);
        if long {
            plan.last_longer(&mut random);
        }
        // By chance of its own, as what follows.
        let mut wide = Random::new(seed).fork(21);
        let is_wide = !long && wide.below(WIDE_ONE_IN) == 0;
        let (blocks_per_chunk, blocks) = match is_wide {
            true => {
                let chunk = *wide.pick(&[512, 1024]);
                (chunk, chunk * wide.within(2, if volumes == 1 { 16 } else { 6 }))
            }
            false => (blocks_per_chunk, blocks),
        };
        if is_wide {
            profile.widen(&mut wide, blocks, blocks_per_chunk);
        }
        // By chance of its own: the other half of the seeds are what they were before there were such hosts.
        let mut more = Random::new(seed).fork(20);
        let shared_hosts = match more.below(10) {
            0..5 => 0,
            5..9 => profile.clients,
            _ => more.within(1, u64::from(profile.clients)) as u32,
        };
        if shared_hosts > 0 {
            plan.add_for_shared(&mut more, limits);
        }
        let mut forgetful = Random::new(seed).fork(48);
        if min_copies >= 2 && forgetful.below(FORGETFUL_ONE_IN) == 0 {
            plan.add_lost_ends(&mut forgetful, limits);
        }
        let mut planned = Random::new(seed).fork(23);
        if planned.below(4) == 0 {
            plan.add_planned_work(&mut planned, limits);
        }
        // By chance of its own as well: a third of the seeds speak NVMe/TCP, a tenth NBD.
        let mut fronts = Random::new(seed).fork(26);
        let fronted = match fronts.below(30) {
            0..10 => Some(Fronted::draw(&mut fronts, Protocol::Nvme)),
            10..13 => Some(Fronted::draw(&mut fronts, Protocol::Nbd)),
            _ => None,
        };
        // And of those that speak NBD half are the product's own programs.
        let mut programs = Random::new(seed).fork(31);
        let fronted = fronted.map(|fronted| match fronted.protocol {
            Protocol::Nbd if programs.percent(50) => Fronted {
                protocol: Protocol::Client,
                ..fronted
            },
            _ => fronted,
        });
        // By chance of its own: of those that would use several gateways without a protocol a third do so by iSCSI.
        let mut initiators = Random::new(seed).fork(INITIATORS);
        let fronted = match fronted {
            None if shared_hosts > 0 && initiators.below(3) == 0 => {
                Some(Fronted::draw(&mut initiators, Protocol::Iscsi))
            }
            other => other,
        };
        let shared_hosts = if fronted.is_some() { 0 } else { shared_hosts };
        let fronted = fronted.map(|mut fronted| {
            // By chance of its own.
            fronted.iscsi.multibus = Random::new(seed).fork(MULTIBUS).percent(30);
            fronted.iscsi.copies = Random::new(seed).fork(COPIES).percent(30);
            fronted.lingers = Random::new(seed).fork(LINGERS).below(4) == 0;
            if long {
                // In hours of silence nothing new is heard of paths.
                (fronted.iscsi.polling, fronted.iscsi.reinstates) = (Duration::from_secs(20), None);
            }
            fronted
        });
        let is_iscsi = fronted.is_some_and(|fronted| fronted.protocol == Protocol::Iscsi);
        if is_iscsi {
            fronts = initiators;
        }
        let has_paths = fronted.is_some_and(|fronted| fronted.has_paths());
        // An NBD host that loses the way to its gateway is out of it for half a minute: programs go on by themselves then.
        let is_nbd = fronted.is_some_and(|fronted| fronted.protocol == Protocol::Nbd);
        if fronted.is_some() && !is_nbd {
            plan.add_for_fronts(&mut fronts, limits);
        }
        profile.compare_percent = if shared_hosts > 0 || has_paths {
            *more.pick(&[0, 0, 10, 40])
        } else {
            0
        };
        if fronted.is_some_and(|fronted| fronted.protocol == Protocol::Client) {
            // It sends them again, and zeros of one time cannot be told from those of another.
            profile.clear_percent = 0;
        }
        let passers = Passers::draw(seed);
        let cloning = Cloning::draw(seed);
        let mut chores = Random::new(seed).fork(22);
        let chores = Chores::draw(&mut chores, volumes, blocks, blocks_per_chunk, profile.operations);
        // By chance of its own, as above. Hosts that use several gateways, or namespaces, do not let go of a volume.
        let mut chores = chores;
        if shared_hosts == 0 && fronted.is_none() {
            chores.add_shrinks(&mut Random::new(seed).fork(43), volumes, profile.operations);
        }
        // Some nodes with two cores have more, in half of the runs.
        let mut cores: Vec<usize> = cores;
        let mut further = Random::new(seed).fork(24);
        if further.percent(50) {
            let several = cores.iter_mut().filter(|cores| **cores > 1);
            several.for_each(|cores| *cores = further.within(2, super::node::MAX_CORES as u64) as usize);
        }
        // By chance of its own, as above.
        let mut of_machines = Random::new(seed).fork(25);
        let exact = of_machines.percent(40);
        let clock = |random: &mut Random| {
            if exact {
                1_000_000
            } else {
                random.within(900_000, 1_100_000)
            }
        };
        let clocks = (0..nodes).map(|_| clock(&mut of_machines)).collect();
        let confirm_reads = of_machines.percent(12);
        if of_machines.percent(60) {
            plan.add_of_machines(&mut of_machines, limits, confirm_reads && shared_hosts == 0);
        }
        // By chance of its own, as above.
        let protection = *Random::new(seed).fork(41).pick(&[
            None,
            Some(Protection::Auth),
            Some(Protection::Auth),
            Some(Protection::Secret),
        ]);
        let mut setup = Setup {
            seed,
            protection,
            nodes,
            stores,
            pools,
            volumes,
            cores,
            links_per_peer: *random.pick(&[1, 1, 2]),
            groups: *random.pick(&[1, 2, 4]),
            copies,
            min_copies,
            chunk_bytes: blocks_per_chunk as u32 * BLOCK_BYTES,
            blocks,
            store_bytes: STORE_BYTES * 2 * (volumes + u64::from(passers.volumes) + u64::from(cloning.most)),
            log_bytes: *random.pick(&[64 * 4096, 100 * 4096, 256 * 4096]),
            clocks,
            apart: Vec::new(),
            expect_progress: None,
            volatile_cache: random.percent(50),
            alignment: *random.pick(&[1, 512, 4096]),
            refused_for: Duration::from_millis(*random.pick(&[100, 300])),
            silent_for: Duration::from_millis(*random.pick(&[700, 1200])),
            host_patience: Duration::from_millis(*random.pick(&[1500, 3000])),
            loyal_hosts: u32::from(random.percent(12)),
            shared_hosts,
            fronted,
            expect_no_failures: false,
            polite_hosts: random.percent(50),
            expect_no_eviction: false,
            scrubbed_last: false,
            may_be_evicted: None,
            most_takeovers: None,
            expect_full: false,
            coordinator: Some(patience(*random.pick(&[200, 600, 1200]))),
            measured: None,
            coordinator_lag: Duration::from_millis(*random.pick(&[0, 0, 50, 400])),
            settings: Settings::draw(&mut random),
            buggify: random.percent(60).then(|| random.bits()),
            slow_mail: None,
            work: if long { LONG_WORK } else { WORK },
            profile,
            plan,
            passers,
            cloning,
            liar: Random::new(seed).fork(42).below(LIAR_ONE_IN) == 0,
            sealed: (Random::new(seed).fork(SEALED).below(SEALED_ONE_IN) == 0).then(|| Sealed::new(seed)),
            plants: Plants::default(),
            chores,
            limited: false,
            jointly: false,
            turns: None,
            migrating: Migrating::default(),
        };
        setup.settings.confirm_reads = confirm_reads;
        // Apart from the rest of the plan.
        let is_patient = Random::new(seed).fork(47).below(PATIENT_ONE_IN) == 0;
        setup.settings.owner_patience = is_patient.then_some(OWNER_PATIENCE);
        setup
    }

    /// A small cluster in which nothing goes wrong by itself: what scenarios start from.
    #[must_use]
    pub fn quiet(seed: u64) -> Setup {
        let mut random = Random::new(seed).fork(1);
        let (blocks, blocks_per_chunk) = (48, 16);
        let profile = Profile {
            clients: 3,
            depth: 4,
            operations: 250,
            pause_ns: 2_000_000,
            ..Profile::draw(&mut random, 1, blocks, blocks_per_chunk)
        };
        Setup {
            seed,
            protection: Some(Protection::Auth),
            nodes: 3,
            stores: 1,
            pools: 1,
            volumes: 1,
            cores: vec![1; 3],
            links_per_peer: 1,
            groups: 2,
            copies: 3,
            min_copies: 2,
            chunk_bytes: blocks_per_chunk as u32 * BLOCK_BYTES,
            blocks,
            store_bytes: STORE_BYTES,
            log_bytes: 64 * 4096,
            clocks: vec![1_000_000; 3],
            apart: Vec::new(),
            expect_progress: None,
            volatile_cache: true,
            alignment: 4096,
            refused_for: Duration::from_millis(200),
            silent_for: Duration::from_millis(1000),
            host_patience: Duration::from_millis(1500),
            loyal_hosts: 0,
            shared_hosts: 0,
            fronted: None,
            expect_no_failures: false,
            polite_hosts: false,
            expect_no_eviction: false,
            scrubbed_last: false,
            may_be_evicted: None,
            most_takeovers: None,
            expect_full: false,
            coordinator: Some(patience(600)),
            measured: None,
            coordinator_lag: Duration::ZERO,
            settings: Settings::default(),
            buggify: None,
            slow_mail: None,
            work: WORK,
            profile,
            plan: Plan::default(),
            passers: Passers::default(),
            cloning: Cloning::default(),
            liar: false,
            sealed: None,
            plants: Plants::default(),
            chores: Chores::default(),
            limited: false,
            jointly: false,
            turns: None,
            migrating: Migrating::default(),
        }
    }
}

/// A coordinator that waits so short a time that nodes which are gone for seconds only are evicted, and that tries a slow store
/// again before a run has to be at its full strength.
#[must_use]
pub fn patience(patience_ms: u64) -> coordinator::Config {
    let slow_stores = SlowStores {
        // Twice as long the second time, and that is the last within an hour.
        rest_s: 20,
        ..SlowStores::default()
    };
    coordinator::Config {
        patience: Duration::from_millis(patience_ms),
        start_patience: Duration::from_millis(3 * patience_ms),
        rejoin_pause: Duration::from_millis(patience_ms / 2),
        backoff: (Duration::from_millis(300), Duration::from_secs(4)),
        slow_stores,
        ..coordinator::Config::default()
    }
}
