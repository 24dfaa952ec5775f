//! How hard background work may press: bringing members up to date now, scrubbing and moving data as well.
//!
//! **The story.** A rebuild that runs as fast as it can takes the disks from the clients; one that runs at a fixed rate is
//! too fast on a busy day and too slow at night. So background work asks before each window (up to 128 KiB) whether it
//! may start, and while clients are at work the answer hangs on how they fare.
//!
//! **Mechanism.** One [`Pace`] a core. It counts the latency of all clients' I/O on that core, in spans of 200 ms, reads
//! and writes apart. Spans in which no background work ran teach what is normal; when work goes on for long it pauses for
//! a moment now and then, to learn that anew. A span with background work is compared with normal: is the p99 beyond the
//! allowed factor, or the mean beyond what the allowed loss of throughput means (a client with a fixed queue that is to keep
//! 70 % of its throughput may see 1/0.7 of its mean latency)? Then the *width*, the number of windows under way at once,
//! shrinks by a factor; while there is room it grows by a little. A width below one stands for pauses between windows.
//! Where nothing that ran was urgent, half of the loss of throughput is allowed: what a core sees of its clients is not all
//! that they feel, and nobody's data waits for it.
//! Idle clients need no care: the width grows without them, and returns to where it was when they are back.
//!
//! **Levels.** What is more urgent goes first: less urgent work starts nothing while more urgent work waits. Each level has
//! limits of its own that hold always, and a width that it keeps whatever the clients feel, the most urgent the widest; and no
//! pause is longer than two seconds. So whatever is begun ends. An operator may have lost copies brought back at a rate that is
//! kept, too, and pay for it with the clients' latency.
//!
//! **Copies of volumes** are data that is to lie elsewhere, under the limits of that. They ask whenever one of their windows ends, which would leave
//! no room to others: while moving data, or scrubbing, waits beside them, they take turns by the clock. And they keep nobody out by waiting.
//!
//! It is a pure state machine: time comes in.

mod clients;
mod pass;

pub use pass::{Pacer, Pass};

use amita_reactor::Time;
use amita_types::recovery::{Limits, Recovery};
use clients::{Clients, Mood, Spares};
use std::time::Duration;

/// Why background work is done, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A group stands at its least number of copies.
    Critical,
    /// A group lacks a copy.
    Degraded,
    /// Data is to lie elsewhere.
    Rebalance,
    /// Copies are compared.
    Scrub,
}

const LEVELS: [Level; 4] = [Level::Critical, Level::Degraded, Level::Rebalance, Level::Scrub];
/// A span of clients' I/O that is judged at once, if enough was done in it.
const SPAN: Duration = Duration::from_millis(200);
/// Work that was refused for a reason that has no end of its own asks again after so long.
const RETRY: Duration = Duration::from_millis(5);
/// After so long without asking, more urgent work is not thought to wait any more.
const URGENT: Duration = Duration::from_millis(20);
/// While copies of volumes want to go on as well as what else is not urgent, each has its turn for so long; less than [`URGENT`].
const TURN: Duration = Duration::from_millis(10);
/// The width is counted in thousandths of a window.
const ONE: u32 = 1000;
/// The widest: no device needs more from one core.
const WIDEST: u32 = 32 * ONE;
/// Where it begins while clients are at work.
const FIRST: u32 = ONE;
/// What each level keeps whatever the clients feel. Below a hundredth even a window that costs the clients many times their
/// latency does not show in their p99.
const LEAST: [u32; LEVELS.len()] = [ONE / 20, ONE / 100, ONE / 200, ONE / 500];
/// The levels that bring lost copies back: theirs is the rate that an operator wants kept.
const KEEPS_RATE: [bool; LEVELS.len()] = [true, true, false, false];
/// What a window counts as for the rate that is kept, whatever it moves: most of those that compare find nothing to move, and they cost the
/// clients something as well.
const WINDOW_BYTES: u64 = 128 << 10;
/// However low the rate that is kept, one window owes it no more than this.
const LONGEST_DEBT: Duration = Duration::from_secs(3600);
/// What was moved faster than the rate that is kept counts for this much of what comes.
const CREDIT: Duration = Duration::from_secs(1);
/// The longest pause between two windows.
const LONGEST_GAP: Duration = Duration::from_secs(2);
/// What a span is taken for in which work was slower than that: it hung, and is no measure of a pause.
const LONGEST_WINDOW: Duration = Duration::from_millis(500);
/// While work goes on, what is normal is learned anew so often.
const REFRESH: Duration = Duration::from_secs(20);
/// Such a pause ends after so long, whatever was learned.
const LONGEST_QUIET: Duration = Duration::from_secs(1);

/// The limits of one level.
#[derive(Debug, Default)]
struct Gate {
    limits: Limits,
    /// Windows under way.
    active: u16,
    /// When what was moved is paid for.
    paid: Time,
    /// From then on the rate that is kept is not reached, and a window starts whatever the clients feel.
    behind: Time,
    /// When it was last refused.
    refused: Option<Time>,
}

impl Gate {
    fn has_all_windows(&self) -> bool {
        self.limits.windows > 0 && self.active >= self.limits.windows
    }
}

/// Who takes turns where nothing is urgent.
#[derive(Clone, Copy, Debug)]
enum Party {
    /// Copies of volumes.
    Copies,
    /// Data that is to lie elsewhere, and copies that are compared.
    Others,
}

/// A pause of background work, so that what is normal is seen.
#[derive(Clone, Copy, Debug)]
struct Quiet {
    began: Time,
    /// The clean span has begun.
    clean: bool,
}

/// What a core's background work has done, and how it is held back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PaceStatus {
    /// Windows that were started.
    pub started: u64,
    /// Bytes that were moved.
    pub bytes: u64,
    /// How many windows may be under way at once, in thousandths.
    pub width: u32,
    /// The clients' p99 latency of reads and of writes without background work, as last learned.
    pub normal_p99: [Duration; 2],
    /// How often the width shrank.
    pub shrunk: u64,
    /// Pauses that were made to see what is normal.
    pub pauses: u64,
}

/// The pace of one core.
#[derive(Debug)]
pub struct Pace {
    settings: Recovery,
    gates: [Gate; LEVELS.len()],
    /// Bytes a second that are kept, this core's share; zero: none.
    least_bytes_per_s: u64,
    now: Time,
    clients: Clients,
    /// Windows may be under way, in thousandths; while clients are at work.
    width: u32,
    /// The same, while they are idle.
    idle_width: u32,
    idle: bool,
    /// A width below one: nothing starts before then.
    gap: Time,
    /// When copies of volumes were last refused; and when what takes turns with them was.
    refused: [Option<Time>; 2],
    span_began: Time,
    /// The most urgent background work that ran in this span.
    worked: Option<Level>,
    quiet: Option<Quiet>,
    /// When what is normal was last seen.
    learned: Option<Time>,
    status: PaceStatus,
}

impl Pace {
    /// One of `cores` that share a node's limits.
    #[must_use]
    pub fn new(settings: &Recovery, cores: u16) -> Pace {
        let mut pace = Pace {
            settings: settings.clone(),
            gates: Default::default(),
            least_bytes_per_s: 0,
            now: Time(0),
            clients: Clients::default(),
            width: FIRST,
            idle_width: FIRST,
            idle: true,
            gap: Time(0),
            refused: [None; 2],
            span_began: Time(0),
            worked: None,
            quiet: None,
            learned: None,
            status: PaceStatus::default(),
        };
        pace.set(settings, cores);
        pace
    }

    /// Takes other settings. What is under way goes on.
    pub fn set(&mut self, settings: &Recovery, cores: u16) {
        let of = [settings.critical, settings.degraded, settings.rebalance, settings.scrub];
        for (gate, limits) in self.gates.iter_mut().zip(of) {
            gate.limits = share(limits, cores);
            gate.paid = gate.paid.min(self.now);
            gate.behind = gate.behind.min(self.now);
        }
        self.least_bytes_per_s = settings.least_bytes_per_s.div_ceil(u64::from(cores.max(1)));
        self.settings = settings.clone();
    }

    /// A client's I/O has ended.
    pub fn client(&mut self, now: Time, write: bool, latency: Duration) {
        self.advance(now);
        let many = self.clients.record(write, latency);
        if self.idle && many {
            // They are back: what was learned with them holds at once.
            self.idle = false;
        }
    }

    /// May a window start? If not, it may be asked again at the moment that is returned. Each start has its [`Pace::end`].
    ///
    /// # Errors
    /// It may not; the moment lies after `now`.
    pub fn start(&mut self, now: Time, level: Level) -> Result<(), Time> {
        self.advance(now);
        let Some(until) = self.hindrance(now, level, Party::Others) else {
            self.gates[level as usize].refused = None;
            self.begin(level);
            return Ok(());
        };
        self.gates[level as usize].refused = Some(now);
        // Whoever compares copies and is kept by limits of that alone does not wait for what is copied.
        if level == Level::Rebalance || level == Level::Scrub && !self.is_at_limit(now, level) {
            self.refused[Party::Others as usize] = Some(now);
        }
        Err(until.max(now.plus(Duration::from_millis(1))))
    }

    /// The same for what a copy of a volume reads, at [`Level::Rebalance`].
    ///
    /// # Errors
    /// As [`Pace::start`].
    pub fn start_copy(&mut self, now: Time) -> Result<(), Time> {
        self.advance(now);
        let Some(until) = self.hindrance(now, Level::Rebalance, Party::Copies) else {
            self.begin(Level::Rebalance);
            return Ok(());
        };
        self.refused[Party::Copies as usize] = Some(now);
        Err(until.max(now.plus(Duration::from_millis(1))))
    }

    /// A window starts that must not wait: clients wait for it.
    pub fn force(&mut self, now: Time, level: Level) {
        self.advance(now);
        self.gates[level as usize].refused = None;
        self.begin(level);
    }

    fn begin(&mut self, level: Level) {
        let (now, cost) = (self.now, self.kept_time());
        let gate = &mut self.gates[level as usize];
        gate.active = gate.active.saturating_add(1);
        gate.behind = gate.behind.max(now).plus(cost).min(now.plus(cost + CREDIT));
        self.worked = Some(self.worked.map_or(level, |other| other.min(level)));
        self.status.started += 1;
    }

    /// How long a window takes at the rate that is kept.
    fn kept_time(&self) -> Duration {
        let ns = WINDOW_BYTES * 1_000_000_000 / self.least_bytes_per_s.max(1);
        Duration::from_nanos(ns).min(LONGEST_DEBT)
    }

    /// When a window of that level starts whatever the clients feel; none: it has no rate to keep.
    fn kept_from(&self, level: Level) -> Option<Time> {
        let keeps = self.least_bytes_per_s > 0 && KEEPS_RATE[level as usize];
        keeps.then_some(self.gates[level as usize].behind)
    }

    fn is_at_limit(&self, now: Time, level: Level) -> bool {
        let gate = &self.gates[level as usize];
        gate.has_all_windows() || gate.paid > now
    }

    /// When the turn of the others is over, if they wait and it is theirs.
    fn turn_of_others(&self, now: Time, level: Level, of: Party) -> Option<Time> {
        let others = match of {
            Party::Copies => Party::Others,
            // By limits of their own they are kept, and not by who has others.
            Party::Others if level == Level::Scrub && self.is_at_limit(now, Level::Rebalance) => return None,
            Party::Others => Party::Copies,
        };
        let refused = self.refused[others as usize].filter(|_| level >= Level::Rebalance)?;
        let turn = TURN.as_nanos() as u64;
        let number = now.0 / turn;
        let is_theirs = now.since(refused) < URGENT && number % 2 == others as u64;
        is_theirs.then_some(Time((number + 1) * turn))
    }

    fn hindrance(&mut self, now: Time, level: Level, of: Party) -> Option<Time> {
        let gate = &self.gates[level as usize];
        if gate.has_all_windows() {
            return Some(now.plus(RETRY));
        }
        if gate.paid > now {
            return Some(gate.paid);
        }
        if let Some(until) = self.turn_of_others(now, level, of) {
            return Some(until);
        }
        let urgent = &self.gates[..level as usize];
        if urgent
            .iter()
            .any(|gate| gate.refused.is_some_and(|at| now.since(at) < URGENT))
        {
            return Some(now.plus(RETRY));
        }
        if !self.settings.automatic {
            return None;
        }
        self.want_quiet(now);
        if self.quiet.is_some() {
            return Some(now.plus(RETRY));
        }
        let kept_from = self.kept_from(level);
        if kept_from.is_some_and(|at| at <= now) {
            return None;
        }
        let until = self.by_width(now, level)?;
        Some(kept_from.map_or(until, |at| at.min(until)))
    }

    /// Until when the clients keep a window from starting.
    fn by_width(&self, now: Time, level: Level) -> Option<Time> {
        let active: u32 = self.gates.iter().map(|gate| u32::from(gate.active)).sum();
        let width = self.width(level);
        if active > 0 && (active + 1) * ONE > width {
            return Some(now.plus(RETRY));
        }
        (width < ONE && self.gap > now).then_some(self.gap)
    }

    fn width(&self, level: Level) -> u32 {
        let width = if self.idle { self.idle_width } else { self.width };
        width.max(LEAST[level as usize])
    }

    /// A window has ended that started at `started`; it moved so much, by so many requests.
    pub fn end(&mut self, now: Time, level: Level, started: Time, bytes: u64, requests: u32) {
        self.advance(now);
        let width = self.width(level);
        let gate = &mut self.gates[level as usize];
        assert!(gate.active > 0, "a window ends once");
        gate.active -= 1;
        self.status.bytes += bytes;
        let second = 1_000_000_000_u64;
        let per_bytes = bytes.saturating_mul(second).checked_div(gate.limits.bytes_per_s);
        let per_requests = (u64::from(requests) * second).checked_div(u64::from(gate.limits.iops));
        let cost = per_bytes.unwrap_or(0).max(per_requests.unwrap_or(0));
        gate.paid = Time(gate.paid.0.max(now.0) + cost);
        if width < ONE {
            let took = now.since(started).min(LONGEST_WINDOW);
            let gap = took * (ONE - width) / width;
            self.gap = now.plus(gap.min(LONGEST_GAP));
        }
    }

    /// What has been done.
    #[must_use]
    pub fn status(&self) -> PaceStatus {
        PaceStatus {
            width: if self.idle { self.idle_width } else { self.width },
            normal_p99: self.clients.normal_p99(),
            ..self.status
        }
    }

    /// The most urgent level with windows under way.
    fn working(&self) -> Option<Level> {
        let most_urgent = self.gates.iter().position(|gate| gate.active > 0)?;
        Some(LEVELS[most_urgent])
    }

    /// Begins a pause where what is normal is not known, or not any more, and clients are at work.
    fn want_quiet(&mut self, now: Time) {
        let old = self.learned.is_none_or(|at| now.since(at) >= REFRESH);
        if self.quiet.is_none() && old && !self.idle {
            self.status.pauses += 1;
            self.quiet = Some(Quiet {
                began: now,
                clean: false,
            });
        }
    }

    /// Ends the span, if it is over.
    fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
        if let Some(quiet) = self.quiet {
            if !quiet.clean && self.working().is_none() {
                self.quiet = Some(Quiet { clean: true, ..quiet });
                self.begin_span(now);
            }
            if now.since(quiet.began) >= LONGEST_QUIET {
                // Too little was done to learn from: what was known must do.
                self.quiet = None;
                self.learned = Some(now);
            }
        }
        let length = now.since(self.span_began);
        if length < SPAN {
            return;
        }
        let spares = self.worked.map(|level| Spares::of(level, &self.settings));
        match self.clients.judge(length, spares) {
            // A little more is needed.
            Mood::Unsure => return,
            Mood::Idle => {
                self.idle = true;
                if self.worked.is_some() {
                    self.idle_width = (self.idle_width * 2).min(WIDEST);
                }
            }
            Mood::Normal => {
                self.idle = false;
                self.learned = Some(now);
                self.quiet = self.quiet.filter(|quiet| !quiet.clean);
            }
            Mood::Hurt { percent } => {
                self.idle = false;
                self.status.shrunk += 1;
                let (times, of) = if percent > 200 { (1, 2) } else { (7, 10) };
                self.width = (self.width * times / of).max(LEAST[Level::Scrub as usize]);
            }
            Mood::Content => {
                self.idle = false;
                let more = if self.width < ONE { self.width / 4 + 1 } else { ONE / 2 };
                self.width = (self.width + more).min(WIDEST);
            }
            Mood::Fine => self.idle = false,
        }
        self.begin_span(now);
    }

    fn begin_span(&mut self, now: Time) {
        self.span_began = now;
        self.worked = self.working();
        self.clients.begin_span();
    }
}

/// One core's share of a node's limits. What is limited stays so, however many cores there are.
fn share(limits: Limits, cores: u16) -> Limits {
    let cores = cores.max(1);
    Limits {
        bytes_per_s: limits.bytes_per_s.div_ceil(u64::from(cores)),
        iops: limits.iops.div_ceil(u32::from(cores)),
        windows: limits.windows.div_ceil(cores),
    }
}

#[cfg(test)]
mod tests;
