//! What the checkers let pass, and on what grounds: the one place where that is said.
//!
//! A host that is told "lost", a write that waits for ever because too few copies are left, a block that nobody can
//! read any more: each is right where something in *that run* has made it so, and a fault of the product everywhere
//! else. So whoever wants to let something pass asks the [`Ledger`], which knows what was injected when, into whom, and
//! until when, and finds the cause or says that there is none. What was let pass is counted beside its causes, and a
//! campaign in which there is more of it than its causes explain ([`ROWS`]) has failed, though every single case had a
//! cause.
//!
//! Causes come from what *happened* in a run, and not from what its plan allows.

use crate::coverage::Coverage;
use crate::faults::{Fault, Member};
use amita_reactor::Time;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// After a trouble has ended, what it has made wrong may take so long to be right again: a link that is found to be
/// dead, a lease that lapses, a volume that is taken over, read leases that run out, each with the longest setting of a
/// run.
const GRACE: Duration = Duration::from_secs(5);
/// A gateway that is well has heard of a record after so long.
const HEARD: Duration = Duration::from_millis(300);
/// So long after its start a node knows the cluster's volumes.
const BEGINNING: Duration = Duration::from_millis(300);

/// What a checker lets pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Excuse {
    /// A host was told that its volume is not served here any more.
    Lost,
    /// A host with several paths was told that nobody knows whether its operation was done.
    Unsure,
    /// A host with several paths was told that its gateway cannot reach the volume.
    Unavailable,
    /// A host waited for longer than its patience.
    GaveUp,
    /// A volume that somebody owned was opened by somebody.
    TakenOver,
    /// A host was told that no intact copy was found.
    Damaged,
    /// A host was told that there is no space left.
    NoSpace,
    /// A store refuses to serve, until it is mounted anew or for good.
    StoreFailed,
    /// A chunk's I/O waits for ever, because too few of its group's stores can serve.
    Blocked,
    /// A group does not get back to its full strength, because a copy is rotten.
    StaysOut,
    /// A copy of a block, or of a list of changes, is damaged in the end.
    DamagedCopy,
    /// Copies of a chunk differ that nobody could open: what the longest has more is rotten.
    Unopened,
    /// A block was not read in the end.
    Unread,
    /// A host was told that there is no such block, in a part that the volume has grown by.
    NotGrown,
    /// A write was carried out more than once, the last time before it was answered.
    CarriedOutAgain,
}

/// What is wrong with a node, or with all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Its process stands still.
    Process,
    /// Its process is gone, or has just started again.
    Gone,
    /// The cluster's first moments: its processes have heard of nothing yet.
    Beginning,
    /// A store of it does not serve.
    StoreOut,
    /// It is not reached, or late.
    Link,
    /// Its disk is slow or stands still.
    SlowDisk,
    /// A disk ends nothing, or not everything, for a while.
    HungDisk,
    /// Its disk fails.
    DiskErrors,
    /// What it holds is not what was written.
    Rot,
    /// The metadata is not reached, or does not answer.
    Metadata,
    /// Hosts, or the operator, want volumes to be elsewhere.
    Move,
    /// Disks are smaller than what is written.
    Full,
    /// A volume has grown, and not all have heard of it.
    Grown,
    /// It does not reach another one, for the whole run.
    Apart,
}

/// Whom it concerns: bits of nodes.
type Nodes = u64;
const EVERYBODY: Nodes = Nodes::MAX;

/// Something that went wrong in a run.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    kind: Kind,
    from: Time,
    /// None: it has not ended.
    until: Option<Time>,
    nodes: Nodes,
}

/// A case that a checker would let pass.
#[derive(Clone, Copy, Debug)]
pub struct Plea {
    pub excuse: Excuse,
    /// Since when it could have been caused: when the operation was asked for, when the session began.
    pub since: Time,
    /// When it was met.
    pub at: Time,
    /// The volume that it is about; none: all.
    pub volume: Option<u64>,
    /// The gateway, or the node of the store, that it is about.
    pub node: Member,
}

/// What went wrong in a run, and what was let pass because of it.
#[derive(Clone, Debug)]
pub struct Ledger {
    troubles: Vec<Trouble>,
    /// When, and by which node, each volume's generation was raised.
    raised: BTreeMap<u64, Vec<(Time, Member)>>,
    used: BTreeMap<Excuse, u64>,
    /// Hosts whose gateway has lost power find out after this: they have nothing to send, and wait for answers.
    hosts_notice: Duration,
    /// Hosts that want a volume elsewhere wait until those that have it open close it.
    polite: bool,
    /// The gateway at which each volume's hosts want it, if they wait, and since when: until that has it.
    wanted: BTreeMap<u64, (Member, Time)>,
}

fn bit(node: Member) -> Nodes {
    1 << node
}

impl Ledger {
    /// Nothing has happened. A cluster begins with nodes that have heard of nothing; on disks that are too small
    /// (`full`) there is no space. Hosts that wait for answers find out after `hosts_notice` that their gateway has
    /// gone without a word.
    #[must_use]
    pub fn new(full: bool, hosts_notice: Duration) -> Ledger {
        let mut ledger = Ledger {
            troubles: Vec::new(),
            raised: BTreeMap::new(),
            used: BTreeMap::new(),
            hosts_notice,
            polite: false,
            wanted: BTreeMap::new(),
        };
        if full {
            ledger.add(Kind::Full, Time::default(), None, EVERYBODY);
        }
        ledger
    }

    /// Hosts wait for others to close a volume, for as long as those need.
    #[must_use]
    pub fn polite(self, polite: bool) -> Ledger {
        Ledger { polite, ..self }
    }

    fn add(&mut self, kind: Kind, from: Time, until: Option<Time>, nodes: Nodes) {
        self.troubles.push(Trouble {
            kind,
            from,
            until,
            nodes,
        });
    }

    /// A fault of the plan is injected.
    pub fn injected(&mut self, now: Time, fault: &Fault) {
        let until = |for_ns: u64| Some(Time(now.0 + for_ns));
        let (kind, until, nodes) = match *fault {
            // The node's end and start are told by themselves.
            Fault::PowerCut { .. } | Fault::CoordinatorPowerCut { .. } | Fault::Kill { .. } => return,
            Fault::Freeze { node, for_ns }
            | Fault::CoreFreeze { node, for_ns, .. }
            | Fault::Suspend { node, for_ns }
            | Fault::Pause { node, for_ns } => (Kind::Process, until(for_ns), bit(node)),
            Fault::Cut { a, b } => (Kind::Link, until(0), bit(a) | bit(b)),
            Fault::Partition { ref side, for_ns, .. } => {
                let nodes = side.iter().fold(0, |nodes, node| nodes | bit(*node));
                (Kind::Link, until(for_ns), nodes)
            }
            // Who speaks in the name of others does not answer for itself.
            Fault::SlowNetwork { node, for_ns, .. }
            | Fault::BadLinks { node, for_ns, .. }
            | Fault::Lies { node, for_ns } => (Kind::Link, until(for_ns), bit(node)),
            Fault::HostsCut { gateway } => (Kind::Link, until(0), bit(gateway)),
            Fault::HostsApart { gateway, for_ns, .. }
            | Fault::HostsSlow { gateway, for_ns, .. }
            | Fault::Isolated { gateway, for_ns, .. } => (Kind::Link, until(for_ns), bit(gateway)),
            Fault::MetadataAway { for_ns } | Fault::MetadataLossy { for_ns, .. } | Fault::MetadataFull { for_ns } => {
                (Kind::Metadata, until(for_ns), EVERYBODY)
            }
            Fault::MetadataCutOff { node, for_ns } | Fault::WatchLate { node, for_ns } => {
                (Kind::Metadata, until(for_ns), bit(node))
            }
            Fault::SlowDisk { node, for_ns, .. } => (Kind::SlowDisk, until(for_ns), bit(node)),
            // What it has not ended after 5 s fails the store.
            Fault::StalledDisk { node, for_ns } | Fault::HangingDisk { node, for_ns, .. } => {
                (Kind::HungDisk, until(for_ns), bit(node))
            }
            Fault::DiskErrors { node, for_ns, .. } | Fault::ReadErrors { node, for_ns, .. } => {
                (Kind::DiskErrors, until(for_ns), bit(node))
            }
            Fault::LyingDisk { node, .. } => (Kind::Rot, None, bit(node)),
            // Only what was really flipped counts.
            Fault::Rot { .. } | Fault::LostEnd { .. } => return,
            Fault::Move { .. } | Fault::PlannedMove { .. } => (Kind::Move, until(0), EVERYBODY),
            // Planned work fails no client.
            Fault::Drain { .. } | Fault::Maintenance { .. } | Fault::SickNetworks { .. } => return,
        };
        self.add(kind, now, until, nodes);
    }

    /// A node's process has ended.
    pub fn ended(&mut self, now: Time, node: Member) {
        self.add(Kind::Gone, now, None, bit(node));
    }

    /// A node's process has started.
    pub fn started(&mut self, now: Time, node: Member) {
        let ours = |trouble: &&mut Trouble| {
            matches!(trouble.kind, Kind::Gone | Kind::StoreOut | Kind::Process) && trouble.nodes == bit(node)
        };
        for trouble in self.troubles.iter_mut().filter(ours) {
            trouble.until.get_or_insert(now.plus(BEGINNING));
        }
        let kind = if now == Time::default() {
            Kind::Beginning
        } else {
            Kind::Gone
        };
        self.add(kind, now, Some(now.plus(BEGINNING)), bit(node));
    }

    /// A bit that a node's disk holds was flipped.
    pub fn rotted(&mut self, now: Time, node: Member) {
        self.add(Kind::Rot, now, None, bit(node));
    }

    /// A store does not serve. (Where it may not be evicted, writes wait until it does.)
    pub fn store_failed(&mut self, now: Time, node: Member) {
        self.add(Kind::StoreOut, now, None, bit(node));
    }

    /// All stores of the node serve again.
    pub fn stores_serve(&mut self, now: Time, node: Member) {
        let ours = |trouble: &&mut Trouble| trouble.kind == Kind::StoreOut && trouble.nodes == bit(node);
        for trouble in self.troubles.iter_mut().filter(ours) {
            trouble.until.get_or_insert(now);
        }
    }

    /// Two nodes do not reach each other, for the whole run.
    pub fn parted(&mut self, a: Member, b: Member) {
        self.add(Kind::Apart, Time::default(), None, bit(a) | bit(b));
    }

    /// The hosts of a volume go to another gateway.
    pub fn moved(&mut self, now: Time) {
        self.add(Kind::Move, now, Some(now), EVERYBODY);
    }

    /// The hosts of a volume want it at this gateway, which has it when others have closed it.
    pub fn wanted(&mut self, now: Time, volume: u64, gateway: Member) {
        if self.polite {
            self.wanted.insert(volume, (gateway, now));
        }
    }

    /// A volume has grown.
    pub fn grown(&mut self, now: Time) {
        self.add(Kind::Grown, now, Some(now.plus(HEARD)), EVERYBODY);
    }

    /// Has anything been damaged?
    #[must_use]
    pub fn is_anything_damaged(&self) -> bool {
        let damages = |trouble: &Trouble| matches!(trouble.kind, Kind::Rot | Kind::DiskErrors);
        self.troubles.iter().any(damages)
    }

    /// Every fault ends, but for what has rotted, disks that stand still, and disks that are too small.
    pub fn healed(&mut self, now: Time) {
        for trouble in &mut self.troubles {
            let stays = matches!(
                trouble.kind,
                Kind::Rot
                    | Kind::Full
                    | Kind::SlowDisk
                    | Kind::HungDisk
                    | Kind::Process
                    | Kind::Gone
                    | Kind::Beginning
                    | Kind::StoreOut
                    | Kind::Apart
            );
            if !stays {
                trouble.until = Some(trouble.until.unwrap_or(now).min(now));
            }
        }
    }

    /// A node has raised a volume's generation: `before` owned it. Where that one's process has ended since, however
    /// long ago, nobody owned it any more, and the first to be asked for it has it.
    pub fn raised(&mut self, at: Time, volume: u64, by: Member, before: Option<Member>) -> Option<Plea> {
        let raised = self.raised.entry(volume).or_default();
        let last = raised.last().map_or(Time::default(), |(at, _)| *at);
        raised.push((at, by));
        let wished = self.wanted.get(&volume).filter(|(gateway, _)| *gateway == by);
        let wished = wished.map_or(at, |(_, since)| *since);
        if wished < at {
            self.wanted.remove(&volume);
        }
        let node = before?;
        let mut troubles = self.troubles.iter();
        let has_ended = troubles.any(|trouble| {
            let is_its = trouble.kind == Kind::Gone && trouble.nodes == bit(node);
            is_its && trouble.from >= last
        });
        Some(Plea {
            excuse: Excuse::TakenOver,
            since: if has_ended { last } else { wished },
            at,
            volume: Some(volume),
            node,
        })
    }

    /// When, and by which node, each volume's generation was raised.
    #[must_use]
    pub fn raises(&self) -> &BTreeMap<u64, Vec<(Time, Member)>> {
        &self.raised
    }

    /// The nodes that have owned a volume, as bits.
    #[must_use]
    pub fn owners(&self, volume: u64) -> u64 {
        let raised = self.raised.get(&volume).into_iter().flatten();
        raised.fold(0, |nodes, (_, by)| nodes | bit(*by))
    }

    /// Has what a node holds rotted?
    #[must_use]
    pub fn is_rotten(&self, node: Member) -> bool {
        let mut troubles = self.troubles.iter();
        troubles.any(|trouble| trouble.kind == Kind::Rot && trouble.nodes & bit(node) != 0)
    }

    /// Has what a node holds rotted, or has one of its disks failed to read or write? Then blocks of it may have been brought anew: to
    /// another slot, where what has rotted could not be replaced in its own (S12).
    #[must_use]
    pub fn may_be_mended(&self, node: Member) -> bool {
        let mends = |kind: Kind| matches!(kind, Kind::Rot | Kind::DiskErrors);
        let mut troubles = self.troubles.iter();
        troubles.any(|trouble| mends(trouble.kind) && trouble.nodes & bit(node) != 0)
    }

    /// May it pass? Then it is counted. `nodes` are those (as bits) that can have caused it.
    ///
    /// # Errors
    /// Nothing that happened explains it.
    pub fn excuse(&mut self, plea: Plea, nodes: u64) -> Result<(), String> {
        if !self.is_explained(&plea, nodes) {
            return Err(format!(
                "{} at {} us (since {} us, node {}, volume {:?}), and nothing that was injected explains it; the last troubles: {:?}",
                plea.excuse.story(),
                plea.at.0 / 1000,
                plea.since.0 / 1000,
                plea.node + 1,
                plea.volume.map(|volume| volume + 1),
                self.troubles.iter().rev().take(3).collect::<Vec<_>>(),
            ));
        }
        *self.used.entry(plea.excuse).or_default() += 1;
        Ok(())
    }

    fn is_explained(&self, plea: &Plea, nodes: Nodes) -> bool {
        let own = bit(plea.node);
        let is_in_time = |trouble: &Trouble| {
            let grace = match (trouble.kind, plea.excuse) {
                (Kind::Grown | Kind::Beginning, _) => Duration::ZERO,
                // Then they go to another gateway.
                (Kind::Process | Kind::Gone | Kind::Link, Excuse::TakenOver) => self.hosts_notice + GRACE,
                _ => GRACE,
            };
            let ended = trouble.until.is_some_and(|until| until.plus(grace) < plea.since);
            trouble.from <= plea.at && !ended
        };
        let any = |nodes: Nodes, kinds: &[Kind]| {
            let mut troubles = self.troubles.iter();
            troubles.any(|trouble| kinds.contains(&trouble.kind) && trouble.nodes & nodes != 0 && is_in_time(trouble))
        };
        const STANDING: [Kind; 11] = [
            Kind::Process,
            Kind::Gone,
            Kind::Beginning,
            Kind::StoreOut,
            Kind::Link,
            Kind::Apart,
            Kind::SlowDisk,
            Kind::HungDisk,
            Kind::DiskErrors,
            Kind::Metadata,
            Kind::Move,
        ];
        match plea.excuse {
            // Somebody has taken it away; the first raise since the session began may have been its own. A gateway that
            // stood still may not have known at that time that it had lost it already.
            Excuse::Lost => {
                let raised = plea.volume.and_then(|volume| self.raised.get(&volume));
                let raised = raised.map_or(&[][..], Vec::as_slice);
                if raised.last().is_some_and(|(_, by)| *by != plea.node) {
                    return true;
                }
                let since = raised.iter().filter(|(at, _)| *at >= plea.since);
                let (mut own, mut others) = (0, 0);
                since.for_each(|(_, by)| *if *by == plea.node { &mut own } else { &mut others } += 1);
                others > 0 || own > 1
            }
            // A write of a part of a rotten block waits for as long as its member may not be evicted.
            Excuse::GaveUp => any(nodes | own, &STANDING) || any(nodes, &[Kind::Rot]),
            Excuse::Unsure | Excuse::Unavailable | Excuse::TakenOver => any(nodes | own, &STANDING),
            Excuse::StoreFailed => any(own, &[Kind::DiskErrors, Kind::HungDisk, Kind::Rot]) || self.is_heard_late(plea),
            Excuse::Damaged | Excuse::Blocked | Excuse::StaysOut | Excuse::Unopened | Excuse::Unread => {
                any(nodes | own, &[Kind::Rot, Kind::DiskErrors])
            }
            Excuse::DamagedCopy => any(own, &[Kind::Rot]),
            Excuse::NoSpace => any(nodes | own, &[Kind::Full]),
            // A gateway that is not well hears of it late.
            Excuse::NotGrown => {
                let has_grown = self.troubles.iter().any(|trouble| trouble.kind == Kind::Grown);
                any(own, &[Kind::Grown]) || (has_grown && any(nodes | own, &STANDING))
            }
            // By its own count only.
            Excuse::CarriedOutAgain => false,
        }
    }

    /// A disk failed while its node's process stood still: that hears of it when it goes on, however long the disk is sound by then.
    fn is_heard_late(&self, plea: &Plea) -> bool {
        let ours = |kind: Kind| {
            let is_ours = move |trouble: &&Trouble| trouble.kind == kind && trouble.nodes == bit(plea.node);
            self.troubles.iter().filter(is_ours)
        };
        ours(Kind::DiskErrors).any(|disk| {
            ours(Kind::Process).any(|still| {
                let together = disk.until.is_none_or(|until| still.from <= until);
                let until = |trouble: &Trouble| trouble.until.map(|until| until.plus(GRACE));
                let goes_on = until(still).is_none_or(|until| until >= disk.from && until >= plea.since);
                together && goes_on && disk.from <= plea.at && still.from <= plea.at
            })
        })
    }

    /// How often something was injected that breaks connections between gateways.
    fn links_broken(&self) -> u64 {
        let breaks = |trouble: &&Trouble| matches!(trouble.kind, Kind::Link | Kind::Process | Kind::Gone | Kind::Apart);
        // The start of each node is told too, and breaks nothing.
        let begun = |trouble: &&Trouble| trouble.from > Time::default();
        self.troubles.iter().filter(breaks).filter(begun).count() as u64
    }

    /// The history of so many blocks is only explained where writes were carried out more than once: a gateway that has
    /// lost the link to the owner sends them again. One link that breaks concerns what was under way, `most`
    /// operations.
    ///
    /// # Errors
    /// Fewer links broke than that would take.
    pub fn carried_out_again(&mut self, blocks: u64, most: u64) -> Result<(), String> {
        let broken = self.links_broken();
        if blocks > broken * most {
            return Err(format!(
                "{blocks} blocks are as if writes had been carried out more than once, and {broken} times a link can have \
                 broken with {most} operations under way"
            ));
        }
        *self.used.entry(Excuse::CarriedOutAgain).or_default() += blocks;
        Ok(())
    }

    /// Adds what was let pass to what a run has met.
    pub fn count(&self, coverage: &mut Coverage) {
        for (excuse, times) in &self.used {
            coverage.add(excuse.path(), *times);
        }
        let count = |is: &dyn Fn(Kind) -> bool| self.troubles.iter().filter(|trouble| is(trouble.kind)).count() as u64;
        coverage.add(
            "cause.troubles",
            count(&|kind| !matches!(kind, Kind::Full | Kind::Grown | Kind::Beginning)),
        );
        coverage.add("cause.links_broken", self.links_broken());
        coverage.add("run.full", count(&|kind| kind == Kind::Full));
        coverage.hit("run.played");
    }
}

impl Excuse {
    /// The name under which it is counted.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Excuse::Lost => "excuse.lost",
            Excuse::Unsure => "excuse.unsure",
            Excuse::Unavailable => "excuse.unavailable",
            Excuse::GaveUp => "excuse.gave_up",
            Excuse::TakenOver => "excuse.taken_over",
            Excuse::Damaged => "excuse.damaged",
            Excuse::NoSpace => "excuse.no_space",
            Excuse::StoreFailed => "excuse.store_failed",
            Excuse::Blocked => "excuse.blocked",
            Excuse::StaysOut => "excuse.stays_out",
            Excuse::DamagedCopy => "excuse.damaged_copy",
            Excuse::Unopened => "excuse.unopened",
            Excuse::Unread => "excuse.unread",
            Excuse::NotGrown => "excuse.not_grown",
            Excuse::CarriedOutAgain => "excuse.carried_out_again",
        }
    }

    fn story(self) -> &'static str {
        match self {
            Excuse::Lost => "a host was told that its volume is lost",
            Excuse::Unsure => "a host was told that nobody knows whether it was done",
            Excuse::Unavailable => "a host was told that its volume cannot be reached",
            Excuse::GaveUp => "a host waited for longer than its patience",
            Excuse::TakenOver => "a volume was taken from its owner",
            Excuse::Damaged => "a host was told that no intact copy was found",
            Excuse::NoSpace => "a host was told that there is no space left",
            Excuse::StoreFailed => "a store has failed",
            Excuse::Blocked => "a chunk's I/O waits for ever",
            Excuse::StaysOut => "a group does not get back to its full strength",
            Excuse::DamagedCopy => "a copy is damaged",
            Excuse::Unopened => "copies of a chunk differ",
            Excuse::Unread => "a block was not read in the end",
            Excuse::NotGrown => "a host was told that its volume has no such block",
            Excuse::CarriedOutAgain => "a write was carried out again",
        }
    }
}

/// How much of an excuse a campaign may use.
struct Row {
    excuse: &'static str,
    /// The paths whose counts together are its causes.
    causes: &'static [&'static str],
    /// So many of a hundred causes may be used as the excuse.
    percent: u64,
}

const fn row(excuse: &'static str, causes: &'static [&'static str], percent: u64) -> Row {
    Row {
        excuse,
        causes,
        percent,
    }
}

/// Seeds that a campaign must have for its sums to mean something.
const LEAST_RUNS: u64 = 1000;

/// All that is let pass, beside what it comes from. The ceilings are about twice what 2,500 seeds used.
const ROWS: &[Row] = &[
    row("excuse.lost", &["excuse.taken_over"], 4),
    row("excuse.taken_over", &["cause.troubles"], 25),
    row("excuse.unsure", &["cause.troubles"], 7),
    row("excuse.unavailable", &["cause.troubles"], 32),
    row("excuse.gave_up", &["cause.troubles"], 16),
    row("excuse.carried_out_again", &["cause.links_broken"], 1),
    row("excuse.damaged", &["disk.bit_flipped", "disk.read_error"], 10),
    row("excuse.not_grown", &["operator.grow", "operator.grown_again"], 2600),
    row("excuse.no_space", &["run.full"], 45_000),
    row(
        "excuse.store_failed",
        &["disk.write_error", "disk.flush_error", "disk.bit_flipped"],
        32,
    ),
    row("excuse.blocked", &["disk.write_error", "disk.bit_flipped"], 2),
    row("excuse.stays_out", &["disk.bit_flipped"], 3),
    row("excuse.damaged_copy", &["disk.bit_flipped"], 106),
    row("excuse.unopened", &["disk.bit_flipped"], 1),
    row("excuse.unread", &["disk.bit_flipped"], 9),
    row("judge.epoch_unsure", &["judge.epoch_fenced"], 8),
    row("run.work_cut_short", &["run.played"], 4),
];

/// What a campaign has let pass, as a table; and whether that is no more than its causes explain. A few seeds say
/// nothing of that: there it is only shown.
#[must_use]
pub fn table(coverage: &Coverage) -> (String, bool) {
    let mut text = format!(
        "  {:<28}{:>9}{:>9}  of what caused it\n",
        "let pass", "times", "ceiling"
    );
    let mut within = true;
    for row in ROWS {
        let used = coverage.count(row.excuse);
        let causes: u64 = row.causes.iter().map(|cause| coverage.count(cause)).sum();
        let ceiling = (causes * row.percent).div_ceil(100);
        let is_over = used > ceiling && coverage.count("run.played") >= LEAST_RUNS;
        let over = if is_over { "  OVER ITS CEILING" } else { "" };
        within &= !is_over;
        let causes: Vec<String> = row
            .causes
            .iter()
            .map(|cause| format!("{cause} {}", coverage.count(cause)))
            .collect();
        let _ = writeln!(
            text,
            "  {:<28}{used:>9}{ceiling:>9}  {}{over}",
            row.excuse,
            causes.join(", ")
        );
    }
    (text, within)
}

#[cfg(test)]
mod tests;
