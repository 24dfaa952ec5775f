//! What goes wrong in a run, drawn from its seed.
//!
//! Each seed picks its own few kinds of faults and how many of them (swarm testing: Groce and others, 2012): a run in
//! which everything fails at once hides what needs one thing to go right. Faults are injected when a number of
//! operations has been asked for, so that they land in the middle of the work however long that takes.
//!
//! A fault ends by itself, or at the latest when the run heals everything for its closing checks.

use crate::random::Random;
use amita_types::link::Network;
use amita_types::recovery::SickPolicy;
use std::fmt;

const MS: u64 = 1_000_000;

/// A node of the simulated cluster: its index.
pub type Member = usize;

/// Something that goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The node loses power: what its disks had not made durable is lost, or torn. It starts again after a while.
    PowerCut {
        /// Which.
        node: Member,
        /// How long it is off.
        for_ns: u64,
    },
    /// The node of the coordinator loses power, whichever that is by then. Plans do not draw it: it is injected into
    /// others than the victims.
    CoordinatorPowerCut {
        /// How long it is off.
        for_ns: u64,
    },
    /// Its process is killed; what was handed to the disk may still be written. It starts again after a while.
    Kill {
        /// Which.
        node: Member,
        /// How long it is gone.
        for_ns: u64,
    },
    /// Its process stands still (a stopped virtual machine): connections stay, nothing is handled.
    Freeze {
        /// Which.
        node: Member,
        /// How long.
        for_ns: u64,
    },
    /// One core of its process stands still, and the others go on.
    CoreFreeze {
        /// Which.
        node: Member,
        /// Which of its cores.
        core: usize,
        /// How long.
        for_ns: u64,
    },
    /// Its machine is suspended: as a freeze, and a clock that does not count such times stands still.
    Suspend {
        /// Which.
        node: Member,
        /// How long.
        for_ns: u64,
    },
    /// Its machine is paused, and none of its clocks shows it.
    Pause {
        /// Which.
        node: Member,
        /// How long.
        for_ns: u64,
    },
    /// Operations of one of the node's disks do not end, others do.
    HangingDisk {
        /// Which.
        node: Member,
        /// So many reads of a thousand.
        reads: u32,
        /// So many writes and flushes of a thousand.
        writes: u32,
        /// How long.
        for_ns: u64,
    },
    /// Some reads of the node's disks fail, those of a mount too.
    ReadErrors {
        /// Which.
        node: Member,
        /// So many of a thousand.
        per_mille: u32,
        /// How long.
        for_ns: u64,
    },
    /// The metadata service has no space for changes: it says so after it has made one, and then before.
    MetadataFull {
        /// How long.
        for_ns: u64,
    },
    /// All connections between two nodes break, in the middle of whatever they carry.
    Cut {
        /// One.
        a: Member,
        /// The other.
        b: Member,
    },
    /// Nothing passes between the two sides.
    Partition {
        /// These nodes, and all others.
        side: Vec<Member>,
        /// Which direction is lost.
        lost: Lost,
        /// Is the metadata service on the far side?
        metadata: bool,
        /// How long.
        for_ns: u64,
    },
    /// The network to and from the node is slow.
    SlowNetwork {
        /// Which.
        node: Member,
        /// On top of the usual delay.
        extra_ns: u64,
        /// How long.
        for_ns: u64,
    },
    /// Nobody reaches the metadata service.
    MetadataAway {
        /// How long.
        for_ns: u64,
    },
    /// One node does not reach it.
    MetadataCutOff {
        /// Which.
        node: Member,
        /// How long.
        for_ns: u64,
    },
    /// One node's watch is told nothing, though its calls go through.
    WatchLate {
        /// Which.
        node: Member,
        /// How long.
        for_ns: u64,
    },
    /// What the node's stores answer to others is changed on its way, now and then: into answers of stores that are not its own.
    Lies {
        /// Which.
        node: Member,
        /// How long.
        for_ns: u64,
    },
    /// Some of its answers are lost.
    MetadataLossy {
        /// So many of a hundred.
        percent: u64,
        /// How long.
        for_ns: u64,
    },
    /// The node's disk takes long.
    SlowDisk {
        /// Which.
        node: Member,
        /// So many times the usual time.
        factor: u32,
        /// How long.
        for_ns: u64,
    },
    /// Nothing on the node's disk completes.
    StalledDisk {
        /// Which.
        node: Member,
        /// How long.
        for_ns: u64,
    },
    /// Some operations of the node's disk end in errors.
    DiskErrors {
        /// Which.
        node: Member,
        /// So many of a thousand.
        per_mille: u32,
        /// How long.
        for_ns: u64,
    },
    /// Some writes of the node's disk do nothing and claim success. No store can be right on such a disk; that it is
    /// found out is for one scenario, and plans do not draw it.
    LyingDisk {
        /// Which.
        node: Member,
        /// So many of a thousand.
        per_mille: u32,
        /// How long.
        for_ns: u64,
    },
    /// Bits of the node's data rot.
    Rot {
        /// Which.
        node: Member,
        /// How many blocks are hit.
        blocks: u64,
    },
    /// A page of the end of its log rots, which no mark says to be durable, and its process is killed: it is back without what it has
    /// answered, and does not know it. One node's alone in a run, as of rot, and only where another copy is always left.
    LostEnd {
        /// Which.
        node: Member,
        /// How long it is gone.
        for_ns: u64,
    },
    /// Nothing passes between a gateway and some of the hosts, or all.
    HostsApart {
        /// Which gateway.
        gateway: Member,
        /// Which host; none: all of them.
        host: Option<u32>,
        /// Which direction is lost; outgoing: what the gateway sends.
        lost: Lost,
        /// How long.
        for_ns: u64,
    },
    /// A gateway reaches nobody, and nobody reaches it: neither hosts nor other nodes. It runs.
    Isolated {
        /// Which.
        gateway: Member,
        /// Which direction is lost; outgoing: what the gateway sends.
        lost: Lost,
        /// Is the metadata service out of reach, too?
        metadata: bool,
        /// How long.
        for_ns: u64,
    },
    /// The network between a gateway and hosts is slow.
    HostsSlow {
        /// Which.
        gateway: Member,
        /// On top of the usual delay.
        extra_ns: u64,
        /// How long.
        for_ns: u64,
    },
    /// The hosts go to another gateway, which takes the volume over.
    Move {
        /// Which.
        gateway: Member,
    },
    /// The operator wants volumes to be owned by this gateway, wherever their hosts are.
    PlannedMove {
        /// Which.
        gateway: Member,
    },
    /// The operator has the node's stores drained, and changes his mind after a while.
    Drain {
        /// Which.
        node: Member,
        /// How long.
        for_ns: u64,
    },
    /// The operator says that the node is in maintenance, and that it is not any more.
    Maintenance {
        /// Which.
        node: Member,
        /// How long.
        for_ns: u64,
    },
    /// The connections of hosts with several paths to this gateway break.
    HostsCut {
        /// Which.
        gateway: Member,
    },
    /// The links between a node and others are bad, for minutes. Plans do not draw it: runs in which links are measured have their own.
    BadLinks {
        /// Which.
        node: Member,
        /// The others.
        peers: Vec<Member>,
        /// What is wrong with them.
        bad: Bad,
        /// In which direction; outgoing: as the node sends.
        way: Lost,
        /// By which of the networks.
        networks: Vec<Network>,
        /// How long.
        for_ns: u64,
    },
    /// The operator says what is to become of nodes whose network is sick. Plans do not draw it either.
    SickNetworks {
        /// What is done.
        policy: SickPolicy,
    },
}

/// What is wrong with a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// It loses so many segments of a thousand.
    Lossy {
        /// So many.
        per_mille: u32,
    },
    /// Everything takes longer.
    Late {
        /// By this.
        extra_ns: u64,
    },
    /// Nothing passes.
    Cut,
    /// Connections break, and are refused by something on the way.
    Refused,
}

/// Links that are bad for less than this are not to be found so: nodes look at them every ten seconds, and three times in a row.
const SHORTEST_ILLNESS_NS: u64 = 20_000 * MS;

impl Fault {
    /// The nodes on either side of links that it makes bad for long enough to be found; none where it makes none so.
    #[must_use]
    pub fn bad_sides(&self, nodes: usize) -> Option<(Vec<Member>, Vec<Member>)> {
        let but = |side: &[Member]| -> Vec<Member> { (0..nodes).filter(|node| !side.contains(node)).collect() };
        let (one, other, for_ns) = match self {
            Fault::BadLinks {
                node, peers, for_ns, ..
            } => (vec![*node], peers.clone(), *for_ns),
            Fault::Partition { side, for_ns, .. } => (side.clone(), but(side), *for_ns),
            Fault::Isolated { gateway, for_ns, .. } => (vec![*gateway], but(&[*gateway]), *for_ns),
            _ => return None,
        };
        (for_ns >= SHORTEST_ILLNESS_NS).then_some((one, other))
    }

    /// How long links are bad by it; zero where it makes none so.
    #[must_use]
    pub fn bad_for_ns(&self) -> u64 {
        match self {
            Fault::BadLinks { for_ns, .. } | Fault::Partition { for_ns, .. } | Fault::Isolated { for_ns, .. } => {
                *for_ns
            }
            _ => 0,
        }
    }

    /// Does it reach this network? What parts nodes parts them by all.
    #[must_use]
    pub fn is_of(&self, network: Network) -> bool {
        match self {
            Fault::BadLinks { networks, .. } => networks.contains(&network),
            _ => true,
        }
    }

    /// May a node be found to lose what it sends? Where only what is sent to it is lost, its own segments are there. `is_node`: it is the
    /// node whose links are bad, and not one of the others.
    #[must_use]
    pub fn loses_of(&self, is_node: bool) -> bool {
        match self {
            Fault::BadLinks {
                bad: Bad::Lossy { .. },
                way,
                ..
            } => match way {
                Lost::Both => true,
                Lost::Outgoing => is_node,
                Lost::Incoming => !is_node,
            },
            _ => true,
        }
    }
}

/// Which direction of a partition is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Both.
    Both,
    /// What the side sends.
    Outgoing,
    /// What is sent to the side.
    Incoming,
}

/// The kinds, for the choice of a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    PowerCut,
    Kill,
    QuickRestart,
    Freeze,
    Cut,
    Partition,
    SlowNetwork,
    MetadataAway,
    MetadataCutOff,
    MetadataLossy,
    SlowDisk,
    StalledDisk,
    DiskErrors,
    Rot,
    Move,
}

const KINDS: [Kind; 15] = [
    Kind::PowerCut,
    Kind::Kill,
    Kind::QuickRestart,
    Kind::Freeze,
    Kind::Cut,
    Kind::Partition,
    Kind::SlowNetwork,
    Kind::MetadataAway,
    Kind::MetadataCutOff,
    Kind::MetadataLossy,
    Kind::SlowDisk,
    Kind::StalledDisk,
    Kind::DiskErrors,
    Kind::Rot,
    Kind::Move,
];

/// A fault and when it is injected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// When so many operations have been asked for ...
    pub after_operations: u32,
    /// ... and so long after that.
    pub delay_ns: u64,
    /// What.
    pub fault: Fault,
}

/// What goes wrong in a run, in the order of its triggers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The faults.
    pub steps: Vec<Step>,
    /// The nodes that faults hit which may cost them their place in the in-sync sets.
    pub victims: Vec<Member>,
}

/// What a plan may do.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Nodes of the cluster.
    pub nodes: usize,
    /// Operations of the clients.
    pub operations: u32,
    /// So many stores may be evicted and writes still go on.
    pub spare: usize,
    /// After so long an absence a store is evicted, roughly.
    pub eviction_ns: u64,
}

impl Plan {
    /// Draws the plan of a seed.
    #[must_use]
    pub fn draw(random: &mut Random, limits: Limits) -> Plan {
        // One run in sixteen has no faults: it must be perfect, and it shows what the others are compared with.
        if random.below(16) == 0 {
            return Plan::default();
        }
        let mut kinds: Vec<Kind> = KINDS.into_iter().filter(|_| random.percent(28)).collect();
        if kinds.is_empty() {
            kinds.push(*random.pick(&KINDS));
        }
        // Faults that evict are injected into as many nodes as can be spared. A few runs spare nothing, and expect
        // writes to wait.
        let victims_count = if random.percent(8) {
            limits.nodes
        } else {
            limits.spare.min(limits.nodes - 1)
        };
        let mut victims: Vec<Member> = (0..limits.nodes).collect();
        while victims.len() > victims_count {
            victims.swap_remove(random.below(victims.len() as u64) as usize);
        }
        victims.sort_unstable();
        let count = if random.percent(70) {
            random.within(1, 7)
        } else {
            random.within(8, 16)
        };
        let mut steps: Vec<Step> = (0..count)
            .map(|_| {
                let after_operations = random.below(u64::from(limits.operations)) as u32;
                let delay_ns = random.below(20 * MS);
                let kind = *random.pick(&kinds);
                Step {
                    after_operations,
                    delay_ns,
                    fault: draw_fault(random, kind, &victims, limits),
                }
            })
            .collect();
        steps.sort_by_key(|step| step.after_operations);
        Plan { steps, victims }
    }

    /// The end of one member's log rots, now and then: one that can be spared, where there is one.
    pub fn add_lost_ends(&mut self, random: &mut Random, limits: Limits) {
        if self.steps.is_empty() {
            // A run without faults stays one.
            return;
        }
        let any = random.below(limits.nodes as u64) as usize;
        let node = self.victims.first().copied().unwrap_or(any);
        for _ in 0..random.within(1, 4) {
            self.steps.push(Step {
                after_operations: random.below(u64::from(limits.operations)) as u32,
                delay_ns: random.below(20 * MS),
                fault: Fault::LostEnd {
                    node,
                    for_ns: random.within(MS, limits.eviction_ns / 3),
                },
            });
        }
        self.steps.sort_by_key(|step| step.after_operations);
    }

    /// Does the node lie?
    #[must_use]
    pub fn lies(&self, member: Member) -> bool {
        let mut steps = self.steps.iter();
        steps.any(|step| matches!(step.fault, Fault::Lies { node, .. } if node == member))
    }

    /// More of what concerns hosts with several paths: connections of theirs that break, planned moves, gateways that
    /// stand still for about as long as such hosts wait.
    pub fn add_for_shared(&mut self, random: &mut Random, limits: Limits) {
        let kinds = [random.percent(50), random.percent(50), random.percent(40)];
        for _ in 0..random.within(1, 8) {
            let any = random.below(limits.nodes as u64) as usize;
            let fault = match random.below(3) {
                0 if kinds[0] => Fault::HostsCut { gateway: any },
                1 if kinds[1] => Fault::PlannedMove { gateway: any },
                2 if kinds[2] => Fault::Freeze {
                    node: any,
                    for_ns: random.within(200 * MS, limits.eviction_ns * 4),
                },
                _ => continue,
            };
            self.steps.push(Step {
                after_operations: random.below(u64::from(limits.operations)) as u32,
                delay_ns: random.below(20 * MS),
                fault,
            });
        }
        self.steps.sort_by_key(|step| step.after_operations);
    }

    /// Work that an operator plans: nothing of it may be seen by a client.
    pub fn add_planned_work(&mut self, random: &mut Random, limits: Limits) {
        for _ in 0..random.within(1, 5) {
            let node = random.below(limits.nodes as u64) as usize;
            let for_ns = random.within(50 * MS, 3000 * MS);
            let fault = if random.percent(75) {
                Fault::Drain { node, for_ns }
            } else {
                Fault::Maintenance { node, for_ns }
            };
            self.steps.push(Step {
                after_operations: random.below(u64::from(limits.operations)) as u32,
                delay_ns: random.below(20 * MS),
                fault,
            });
        }
        self.steps.sort_by_key(|step| step.after_operations);
    }

    /// More of what machines do: single cores and whole hosts that stand still, disks and single operations that hang,
    /// disks that cannot be read for a while, a metadata service that is full. `paused`: clocks may not show it.
    pub fn add_of_machines(&mut self, random: &mut Random, limits: Limits, paused: bool) {
        let kinds: Vec<u64> = (0..5).filter(|_| random.percent(40)).collect();
        if kinds.is_empty() || self.steps.is_empty() {
            // A run without faults stays one.
            return;
        }
        for _ in 0..random.within(1, 5) {
            let any = random.below(limits.nodes as u64) as usize;
            let victim = self.victims.first().copied();
            // As in other plans: what may cost a place is injected into those that can be spared.
            let long = limits.eviction_ns * random.within(2, 12) / 2;
            let (node, for_ns) = match victim {
                Some(victim) if random.percent(60) => (victim, long),
                _ => (any, random.within(MS, limits.eviction_ns / 3)),
            };
            let fault = match *random.pick(&kinds) {
                0 => Fault::CoreFreeze {
                    node,
                    core: random.below(2) as usize,
                    for_ns,
                },
                1 if paused => Fault::Pause { node, for_ns },
                1 => Fault::Suspend { node, for_ns },
                2 => Fault::HangingDisk {
                    node,
                    reads: *random.pick(&[0, 0, 20, 1000]),
                    writes: *random.pick(&[5, 50, 1000]),
                    for_ns: for_ns * random.within(1, 4),
                },
                3 => Fault::ReadErrors {
                    node: any,
                    per_mille: random.within(10, 600) as u32,
                    for_ns: random.within(MS, 2000 * MS),
                },
                _ => Fault::MetadataFull {
                    for_ns: random.within(100 * MS, 3000 * MS),
                },
            };
            self.steps.push(Step {
                after_operations: random.below(u64::from(limits.operations)) as u32,
                delay_ns: random.below(20 * MS),
                fault,
            });
        }
        self.steps.sort_by_key(|step| step.after_operations);
    }

    /// More of what concerns hosts with connections: their links to gateways, gateways that are cut off from everybody,
    /// planned moves.
    pub fn add_for_fronts(&mut self, random: &mut Random, limits: Limits) {
        let kinds = [
            random.percent(50),
            random.percent(50),
            random.percent(40),
            random.percent(40),
            random.percent(30),
        ];
        let lost = |random: &mut Random| *random.pick(&[Lost::Both, Lost::Both, Lost::Outgoing, Lost::Incoming]);
        for _ in 0..random.within(1, 8) {
            let gateway = random.below(limits.nodes as u64) as usize;
            let for_ns = random.within(10 * MS, 8000 * MS);
            let fault = match random.below(5) {
                0 if kinds[0] => Fault::HostsCut { gateway },
                1 if kinds[1] => Fault::HostsApart {
                    gateway,
                    host: random.percent(50).then(|| random.below(6) as u32),
                    lost: lost(random),
                    for_ns,
                },
                // It costs stores their place where it lasts: only whom the cluster can spare.
                2 if kinds[2] && self.victims.contains(&gateway) => Fault::Isolated {
                    gateway,
                    lost: lost(random),
                    metadata: random.percent(50),
                    for_ns,
                },
                3 if kinds[3] => Fault::PlannedMove { gateway },
                4 if kinds[4] => Fault::HostsSlow {
                    gateway,
                    extra_ns: random.within(MS, 400 * MS),
                    for_ns,
                },
                _ => continue,
            };
            self.steps.push(Step {
                after_operations: random.below(u64::from(limits.operations)) as u32,
                delay_ns: random.below(20 * MS),
                fault,
            });
        }
        self.steps.sort_by_key(|step| step.after_operations);
    }

    /// In a long life some faults last for minutes: those that are long enough to cost a place anyway, and those that
    /// cost none. (A disk that stands still does so to its end, whatever heals meanwhile: it is not among them. So does a process, and that is
    /// waited for.)
    pub fn last_longer(&mut self, random: &mut Random) {
        for step in &mut self.steps {
            let factor = random.within(1, 60);
            match &mut step.fault {
                Fault::PowerCut { node, for_ns } | Fault::Kill { node, for_ns } | Fault::Freeze { node, for_ns }
                    if self.victims.contains(node) =>
                {
                    *for_ns *= factor;
                }
                Fault::Partition { side, for_ns, .. } if side.iter().all(|node| self.victims.contains(node)) => {
                    *for_ns *= factor;
                }
                Fault::MetadataAway { for_ns }
                | Fault::MetadataCutOff { for_ns, .. }
                | Fault::MetadataLossy { for_ns, .. } => *for_ns *= factor,
                _ => {}
            }
        }
    }
}

fn draw_fault(random: &mut Random, kind: Kind, victims: &[Member], limits: Limits) -> Fault {
    let any = random.below(limits.nodes as u64) as usize;
    let victim = if victims.is_empty() {
        None
    } else {
        Some(*random.pick(victims))
    };
    // Long enough to be evicted for, or too short for it; the latter may hit anybody.
    let (node, for_ns) = match victim {
        Some(victim) if random.percent(60) => (victim, limits.eviction_ns * random.within(2, 6) / 2),
        _ => (any, random.within(MS, limits.eviction_ns / 3)),
    };
    let short_ns = random.within(MS, 400 * MS);
    match kind {
        Kind::PowerCut => Fault::PowerCut { node, for_ns },
        Kind::Kill => Fault::Kill { node, for_ns },
        Kind::QuickRestart => {
            let for_ns = random.within(10_000, 20 * MS);
            if random.percent(50) {
                Fault::Kill { node: any, for_ns }
            } else {
                Fault::PowerCut { node: any, for_ns }
            }
        }
        Kind::Freeze => Fault::Freeze { node, for_ns },
        Kind::Cut => {
            let b = (any + 1 + random.below(limits.nodes as u64 - 1) as usize) % limits.nodes;
            Fault::Cut { a: any, b }
        }
        Kind::Partition => {
            let lost = *random.pick(&[Lost::Both, Lost::Both, Lost::Outgoing, Lost::Incoming]);
            Fault::Partition {
                side: vec![node],
                lost,
                metadata: random.percent(50),
                for_ns,
            }
        }
        Kind::SlowNetwork => Fault::SlowNetwork {
            node: any,
            extra_ns: random.within(MS, 60 * MS),
            for_ns: short_ns,
        },
        Kind::MetadataAway => Fault::MetadataAway {
            for_ns: random.within(100 * MS, 4000 * MS),
        },
        Kind::MetadataCutOff => Fault::MetadataCutOff {
            node: any,
            for_ns: random.within(100 * MS, 6000 * MS),
        },
        Kind::MetadataLossy => Fault::MetadataLossy {
            percent: random.within(10, 70),
            for_ns: random.within(500 * MS, 4000 * MS),
        },
        Kind::SlowDisk => Fault::SlowDisk {
            node: any,
            factor: random.within(5, 400) as u32,
            for_ns: short_ns,
        },
        Kind::StalledDisk => Fault::StalledDisk { node, for_ns },
        // These cost a store its place, so they are injected only into whom the cluster can spare.
        Kind::DiskErrors => match victim {
            Some(node) => Fault::DiskErrors {
                node,
                per_mille: random.within(10, 500) as u32,
                for_ns: short_ns,
            },
            None => Fault::SlowDisk {
                node: any,
                factor: 50,
                for_ns: short_ns,
            },
        },
        Kind::Rot => match victim {
            Some(node) => Fault::Rot {
                node,
                blocks: random.within(1, 6),
            },
            None => Fault::SlowDisk {
                node: any,
                factor: 50,
                for_ns: short_ns,
            },
        },
        Kind::Move => Fault::Move { gateway: any },
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "victims {:?}", self.victims)?;
        self.steps
            .iter()
            .try_for_each(|step| writeln!(f, "  at {:4} operations: {:?}", step.after_operations, step.fault))
    }
}

#[cfg(test)]
mod tests;
