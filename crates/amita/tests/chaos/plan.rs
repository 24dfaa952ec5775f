//! What goes wrong in a cycle, drawn from its seed. Each cycle picks its own few kinds of faults and injects those
//! several times (swarm testing: Groce and others, 2012).
//!
//! A seed replays the plan and what the clients ask. It does not replay the machine: real processes meet at other
//! moments each time.

use amita_sim::random::Random;
use std::fmt;
use std::time::Duration;

/// A node, by its index.
pub type Member = usize;

/// Something that goes wrong, for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// SIGKILL; it starts again after a while.
    Kill(Member),
    /// All nodes at once.
    KillAll,
    /// The node that runs the coordinator, whichever that is by then.
    KillCoordinator,
    /// SIGSTOP, then SIGCONT.
    Freeze(Member),
    /// All links to and from the node break in the middle of a frame.
    Cut(Member),
    /// All links to and from the node are slow.
    SlowLinks(Member, Duration),
    /// One message of a hundred to and from the node is late by that much.
    LossyLinks(Member, Duration),
    /// What the node hears stays on the way; what it says arrives.
    Deaf(Member),
    /// What the node says stays on the way; what it hears arrives.
    Mute(Member),
    /// Nothing passes between the node and the others.
    Isolated(Member),
    /// All links between hosts and the gateway break in the middle of a frame.
    HostsCut(Member),
    /// What hosts say to the gateway stays on the way (the first), or what it says to them (the second), or both.
    HostsHeld(Member, bool, bool),
    /// Nothing passes between the node and anybody but the metadata, while its cores run.
    CutOff(Member),
    /// One core of the node stands still; the process's other threads, its lease among them, go on.
    CoreStopped(Member),
    /// Some of the disk's operations fail: so many of a thousand.
    DiskErrors(Member, u32),
    /// The disk is gone.
    DiskLost(Member),
    /// Each operation of the disk takes so much longer.
    SlowDisk(Member, Duration),
    /// The disk completes nothing.
    StalledDisk(Member),
    /// The device refuses writes: no space.
    FullDisk(Member),
    /// The metadata server is killed; it starts again after a while.
    MetadataKilled,
    /// The metadata server stands still.
    MetadataFrozen,
    /// The clients go to another gateway.
    Move(Member),
}

impl Fault {
    /// Does it need a disk that fails on command?
    pub fn needs_disk(self) -> bool {
        matches!(
            self,
            Fault::DiskErrors(..)
                | Fault::DiskLost(_)
                | Fault::SlowDisk(..)
                | Fault::StalledDisk(_)
                | Fault::FullDisk(_)
        )
    }
}

/// One fault with its times, counted from the start of the faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Injection {
    pub at: Duration,
    pub fault: Fault,
    pub length: Duration,
}

/// What goes wrong in a cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// All of it comes from this.
    pub seed: u64,
    /// In the order of their times.
    pub injections: Vec<Injection>,
    /// How long clients work, until everything heals.
    pub length: Duration,
    /// What clients speak.
    pub protocol: Protocol,
}

/// What the clients of a cycle speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// One connection each, to the gateway that most of them use.
    Nbd,
    /// NVMe/TCP with a path to every gateway.
    Nvme,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}, {:?}:", self.seed, self.protocol)?;
        for injection in &self.injections {
            write!(
                f,
                " [{:.1} s: {:?} for {:.1} s]",
                injection.at.as_secs_f64(),
                injection.fault,
                injection.length.as_secs_f64()
            )?;
        }
        Ok(())
    }
}

/// The kinds, before their node and their size are drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Kill,
    KillAll,
    KillCoordinator,
    Freeze,
    Cut,
    SlowLinks,
    LossyLinks,
    Deaf,
    Mute,
    Isolated,
    HostsCut,
    HostsHeld,
    CutOff,
    CoreStopped,
    DiskErrors,
    DiskLost,
    SlowDisk,
    StalledDisk,
    FullDisk,
    MetadataKilled,
    MetadataFrozen,
    Move,
}

const KINDS: [Kind; 22] = [
    Kind::Kill,
    Kind::KillAll,
    Kind::KillCoordinator,
    Kind::Freeze,
    Kind::Cut,
    Kind::SlowLinks,
    Kind::LossyLinks,
    Kind::Deaf,
    Kind::Mute,
    Kind::Isolated,
    Kind::HostsCut,
    Kind::HostsHeld,
    Kind::CutOff,
    Kind::CoreStopped,
    Kind::DiskErrors,
    Kind::DiskLost,
    Kind::SlowDisk,
    Kind::StalledDisk,
    Kind::FullDisk,
    Kind::MetadataKilled,
    Kind::MetadataFrozen,
    Kind::Move,
];

/// The longest time until the next injection, and from the last one to the healing.
const REST_MS: (u64, u64) = (200, 1200);

impl Plan {
    /// The plan of a seed, for so many nodes. Freezes and kills last at most `longest`.
    pub fn draw(seed: u64, nodes: usize, longest: Duration) -> Plan {
        let mut random = Random::new(seed).fork(1);
        let kinds: Vec<Kind> = (0..random.within(1, 4)).map(|_| *random.pick(&KINDS)).collect();
        // Most cycles hit what the pool can spare; some hit any node, and then writes may have to wait for it.
        let any = random.percent(25);
        let victim = random.below(nodes as u64) as usize;
        let mut at = 500;
        let mut end = 0;
        let mut injections = Vec::new();
        // Each kind is injected at least once.
        let count = random.within(kinds.len() as u64, kinds.len() as u64 + 2);
        for number in 0..count as usize {
            let kind = if number < kinds.len() {
                kinds[number]
            } else {
                *random.pick(&kinds)
            };
            let node = if any {
                random.below(nodes as u64) as usize
            } else {
                victim
            };
            let ms = |random: &mut Random, first, last| Duration::from_millis(random.within(first, last));
            let fault = match kind {
                Kind::Kill => Fault::Kill(node),
                Kind::KillAll => Fault::KillAll,
                Kind::KillCoordinator => Fault::KillCoordinator,
                Kind::Freeze => Fault::Freeze(node),
                Kind::Cut => Fault::Cut(node),
                Kind::SlowLinks => Fault::SlowLinks(node, ms(&mut random, 2, 60)),
                Kind::LossyLinks => Fault::LossyLinks(node, ms(&mut random, 100, 400)),
                Kind::Deaf => Fault::Deaf(node),
                Kind::Mute => Fault::Mute(node),
                Kind::Isolated => Fault::Isolated(node),
                Kind::HostsCut => Fault::HostsCut(node),
                Kind::HostsHeld => match random.below(4) {
                    0 => Fault::HostsHeld(node, true, false),
                    1 => Fault::HostsHeld(node, false, true),
                    _ => Fault::HostsHeld(node, true, true),
                },
                Kind::CutOff => Fault::CutOff(node),
                Kind::CoreStopped => Fault::CoreStopped(node),
                Kind::DiskErrors => Fault::DiskErrors(node, random.within(1, 50) as u32),
                Kind::DiskLost => Fault::DiskLost(node),
                Kind::SlowDisk => Fault::SlowDisk(node, ms(&mut random, 2, 100)),
                Kind::StalledDisk => Fault::StalledDisk(node),
                Kind::FullDisk => Fault::FullDisk(node),
                Kind::MetadataKilled => Fault::MetadataKilled,
                Kind::MetadataFrozen => Fault::MetadataFrozen,
                // Anywhere: it takes nobody's place away.
                Kind::Move => Fault::Move(random.below(nodes as u64) as usize),
            };
            let most = match kind {
                Kind::Cut | Kind::HostsCut | Kind::Move => 1,
                Kind::KillAll => 500,
                _ => longest.as_millis() as u64,
            };
            // Often short, so that what is detected by time-outs is hit before and behind them.
            let most = if random.percent(40) { most.min(400) } else { most };
            let length = ms(&mut random, most.min(50), most);
            injections.push(Injection {
                at: Duration::from_millis(at),
                fault,
                length,
            });
            end = end.max(at + length.as_millis() as u64);
            at += random.within(REST_MS.0, REST_MS.1);
        }
        let length = Duration::from_millis(end.max(at) + random.within(REST_MS.0, REST_MS.1));
        let protocol = match Random::new(seed).fork(4).percent(50) {
            true => Protocol::Nvme,
            false => Protocol::Nbd,
        };
        Plan {
            seed,
            injections,
            length,
            protocol,
        }
    }

    /// Does it need disks that fail on command?
    pub fn needs_disks(&self) -> bool {
        self.injections.iter().any(|injection| injection.fault.needs_disk())
    }

    /// May stores fail so that only a restart of their node brings them back?
    pub fn poisons(&self) -> Vec<Member> {
        let mut nodes: Vec<Member> = self
            .injections
            .iter()
            .filter_map(|injection| match injection.fault {
                Fault::DiskErrors(node, _) | Fault::DiskLost(node) | Fault::FullDisk(node) => Some(node),
                _ => None,
            })
            .collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}
