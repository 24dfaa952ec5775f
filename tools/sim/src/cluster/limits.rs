//! Limits of volumes, and what passes them.
//!
//! What all gates of all nodes let pass together is poured into a bucket that leaks at the rate of the limit (at that of the fastest clock), and
//! must never hold more than the burst: that is rate x T + burst for every interval at once. It begins when every core that runs
//! has heard of the limits, and what was lent under others has lapsed.
//!
//! An owner that was deposed, lives and does not know it may go on lending; nothing of that is carried out by it (stores in sync have adopted
//! the newer generation before that one lends). So what passes by its tokens when its successor's have been used is counted apart, for each
//! such owner, as long as it has the volume open, and what it has lent holds.

mod joint;

use super::operator::Desk;
use super::{Cluster, SETTLE, Setup, node_id, volume_id, volume_name};
use crate::faults::Member;
use crate::random::Random;
use amita_control::{admin, limits};
use amita_node::limits::Counts;
use amita_qos::limits::BUCKETS;
use amita_reactor::Time;
use amita_types::map::{Limit, Limits, Measures};
use amita_types::{NodeId, VolumeId};
use std::collections::BTreeMap;
use std::time::Duration;

/// What was lent has lapsed by then, by whichever clock.
const LAPSED: Duration = Duration::from_millis(1_200);
/// The streams of chance.
const LIMITS: u64 = 82;
const PARTS: i128 = 1_000_000_000;

/// The leaky buckets of a volume's limits.
#[derive(Clone, Debug)]
struct Leaks {
    at: Time,
    levels: [i128; BUCKETS],
}

impl Leaks {
    fn new(at: Time) -> Leaks {
        let levels = [0; BUCKETS];
        Leaks { at, levels }
    }

    /// So much passes; which limit that is too much for.
    fn pour(&mut self, now: Time, fastest: u64, limits: &amita_qos::Limits, passed: &[u64; BUCKETS]) -> Option<usize> {
        let elapsed = i128::from(now.0 - self.at.0);
        self.at = now;
        let mut found = None;
        for (place, limit) in limits.in_order().into_iter().enumerate() {
            let Some(limit) = limit else { continue };
            let gone = i128::from(limit.rate()) * elapsed * i128::from(fastest) / 1_000_000;
            let level = &mut self.levels[place];
            *level = (*level - gone).max(0) + i128::from(passed[place]) * PARTS;
            // Rounded down each time: a billionth of a token.
            if *level > i128::from(limit.burst()) * PARTS + PARTS / 1000 {
                found = Some(place);
            }
        }
        found
    }
}

/// What is known of a limited volume.
#[derive(Debug)]
struct Watched {
    limits: Option<amita_qos::Limits>,
    /// All have heard of the limits, and what went before has lapsed then.
    heard: Option<Time>,
    leaks: Option<Leaks>,
    /// The newest owner by whose tokens something has passed.
    newest: u64,
    /// When each owner had the volume open last.
    open: BTreeMap<u64, Time>,
    /// What passed by those of owners that did not know that they were none any more.
    deposed: BTreeMap<u64, Leaks>,
}

#[derive(Debug)]
pub(super) struct Watch {
    volumes: Vec<Watched>,
    /// Of each core of each process: what had passed when it was looked at last.
    seen: BTreeMap<(Member, u64, usize, u64), Counts>,
    random: Random,
    fastest: u64,
    joints: joint::Joints,
}

impl Watch {
    pub fn new(setup: &Setup) -> Watch {
        let volumes = if setup.limited { setup.volumes } else { 0 };
        let watched = |_| Watched {
            limits: None,
            heard: None,
            leaks: None,
            newest: 0,
            open: BTreeMap::new(),
            deposed: BTreeMap::new(),
        };
        Watch {
            volumes: (0..volumes).map(watched).collect(),
            seen: BTreeMap::new(),
            random: Random::new(setup.seed).fork(LIMITS),
            joints: joint::Joints::new(setup.limited && setup.jointly),
            fastest: setup.clocks.iter().copied().max().unwrap_or(1_000_000),
        }
    }
}

/// Less than hosts want, and enough that everything ends in time.
fn draw(random: &mut Random) -> Limits {
    let mut one = |rates: &[u64], first: usize| {
        let mut limit = |place: usize, percent: u64| {
            let rate = *random.pick(rates);
            let usual = limits::usual_burst(rate, place);
            let burst = usual + random.below(1 + usual / 2);
            let limit = Limit {
                rate,
                burst,
                peak: None,
            };
            random.percent(percent).then_some(limit)
        };
        Measures {
            read: limit(first, 25),
            write: limit(first + 1, 25),
            both: limit(first + 2, 60),
        }
    };
    Limits {
        iops: one(&[100, 300, 2_000], 0),
        bandwidth: one(&[4 << 20, 16 << 20, 60 << 20], BUCKETS / 2),
    }
}

impl Cluster {
    pub(super) fn limit(&mut self, now: Time, volume: u64) {
        let wanted = draw(&mut self.limits.random);
        if self.limits.joints.is_next(&mut self.limits.random) {
            return self.limit_jointly(now, wanted);
        }
        self.set_limits(now, volume, wanted);
    }

    pub(super) fn unlimit(&mut self, now: Time, volume: u64) {
        self.set_limits(now, volume, Limits::default());
    }

    fn set_limits(&mut self, now: Time, volume: u64, wanted: Limits) {
        let desk = Desk::new(&mut self.metadata, now);
        let set = admin::set_limits(&desk, &volume_name(volume), |limits| *limits = wanted);
        if let Err(why) = set {
            let why = format!("a volume is not limited: {why}");
            self.hosts.violation.get_or_insert(why);
            return;
        }
        self.tell(|| format!("limits of {}: {wanted:?}", volume_name(volume)));
        self.coverage.hit(match wanted.is_empty() {
            true => "limits.cleared",
            false => "limits.set",
        });
        let watched = &mut self.limits.volumes[volume as usize];
        watched.limits = limits::read(&wanted).ok().filter(|_| !wanted.is_empty());
        (watched.heard, watched.leaks) = (None, None);
        watched.deposed.clear();
    }

    /// A core has ended a pass: what has it let pass?
    pub(super) fn watch_limits(&mut self, member: Member, core: usize) -> Result<(), String> {
        if self.limits.volumes.is_empty() {
            return Ok(());
        }
        let of = self.nodes[member].each_core().nth(core);
        if of.is_some_and(amita_node::Core::holds_for_gone_hosts) {
            return Err(format!(
                "I/O of a host that has gone waits for a limit at node {} core {core}",
                member + 1
            ));
        }
        for volume in 0..self.limits.volumes.len() as u64 {
            self.watch_limit(member, core, volume)?;
        }
        self.watch_joints(member, core)
    }

    fn watch_limit(&mut self, member: Member, core: usize, volume: u64) -> Result<(), String> {
        let id = volume_id(volume);
        let Some(gate) = self.nodes[member].each_core().nth(core).map(amita_node::Core::gate) else {
            return Ok(());
        };
        let found = gate.counts().find(|(of, _)| *of == id).map(|(_, counts)| counts);
        let is_long = gate.is_long(id);
        let epoch = gate.limits(id).map_or(0, |(_, epoch)| epoch.0);
        let now = self.world.now();
        let open = self.nodes[member].each_core().nth(core);
        if let Some(open) = open.and_then(|core| core.shards().generation(id)) {
            self.limits.volumes[volume as usize].open.insert(open.0.into(), now);
        }
        let place = (member, self.nodes[member].process, core, volume);
        let Some(counts) = found else {
            self.limits.seen.remove(&place);
            return Ok(());
        };
        let before = self.limits.seen.insert(place, counts).unwrap_or_default();
        self.coverage
            .add("limits.held", counts.held.saturating_sub(before.held));
        if !self.all_have_heard(now, volume) {
            return Ok(());
        }
        let passed = passed(&before, &counts);
        if passed.iter().all(|much| *much == 0) {
            return Ok(());
        }
        let (fastest, watched) = (self.limits.fastest, &mut self.limits.volumes[volume as usize]);
        let Some(limits) = watched.limits else { return Ok(()) };
        let lends = watched.open.get(&epoch).is_some_and(|last| now <= last.plus(LAPSED));
        let is_deposed = epoch < watched.newest && lends;
        let leaks = match is_deposed {
            true => watched.deposed.entry(epoch).or_insert_with(|| Leaks::new(now)),
            false => watched.leaks.get_or_insert_with(|| Leaks::new(now)),
        };
        let too_much = leaks.pour(now, fastest, &limits, &passed);
        watched.newest = watched.newest.max(epoch);
        self.coverage.hit(match is_deposed {
            true => "limits.passed_by_deposed",
            false => "limits.passed",
        });
        if is_long {
            self.coverage.hit("limits.passed_by_long_leases");
        }
        let Some(place) = too_much else { return Ok(()) };
        Err(format!(
            "more has passed of {} than rate x time + burst of {:?}, with {passed:?} at node {} core {core} under owner {epoch}",
            volume_name(volume),
            (limits::NAMES[place], limits.in_order()[place]),
            member + 1,
        ))
    }

    /// Every core that runs goes by the limits that the record has, and has for long enough.
    fn all_have_heard(&mut self, now: Time, volume: u64) -> bool {
        let watched = &self.limits.volumes[volume as usize];
        let Some(limits) = watched.limits else { return false };
        if watched.heard.is_none() {
            let mut cores = self.nodes.iter().flat_map(|node| node.each_core());
            let knows = |core: &amita_node::Core| {
                let known = core.gate().limits(volume_id(volume));
                known.is_some_and(|(known, _)| *known == limits)
            };
            if !cores.all(knows) {
                return false;
            }
            self.limits.volumes[volume as usize].heard = Some(now);
        }
        let heard = self.limits.volumes[volume as usize].heard;
        heard.is_some_and(|heard| now >= heard.plus(LAPSED))
    }

    /// Everything that waited has ended with the limits. Without them everything else goes on.
    pub(super) fn end_limits(&mut self) -> Result<(), String> {
        let now = self.world.now();
        for volume in 0..self.limits.volumes.len() as u64 {
            self.unlimit(now, volume);
        }
        self.unlimit_jointly(now);
        // Hosts have their answers, or have given up: of those that have, something may wait still at a core that stood still.
        let limit = now.plus(SETTLE);
        while let Some((node, volume, waiting)) = self.waits_for_a_limit().filter(|_| self.blocked.is_empty()) {
            if self.world.now() >= limit {
                return Err(format!(
                    "{waiting} operations of volume {volume} wait for a limit at node {node}, {SETTLE:?} after the limits were taken away"
                ));
            }
            self.step(limit)?;
        }
        Ok(())
    }

    /// A node at which operations of a volume wait for a limit, and how many.
    fn waits_for_a_limit(&self) -> Option<(NodeId, VolumeId, u64)> {
        let nodes = self.nodes.iter().enumerate();
        let mut counts = nodes.flat_map(|(member, node)| {
            let cores = node.each_core().flat_map(|core| core.gate().counts());
            cores.map(move |(volume, counts)| (node_id(member), volume, counts.waiting))
        });
        counts.find(|(_, _, waiting)| *waiting > 0)
    }
}

/// What has passed of each limit's measure since.
fn passed(before: &Counts, now: &Counts) -> [u64; BUCKETS] {
    let since = |now: [u64; 2], before: [u64; 2]| {
        // A volume that was not limited for a while is counted anew.
        let [read, write] = match now[0] >= before[0] && now[1] >= before[1] {
            true => [now[0] - before[0], now[1] - before[1]],
            false => now,
        };
        [read, write, read + write]
    };
    let (operations, bytes) = (since(now.operations, before.operations), since(now.bytes, before.bytes));
    [
        operations[0],
        operations[1],
        operations[2],
        bytes[0],
        bytes[1],
        bytes[2],
    ]
}
