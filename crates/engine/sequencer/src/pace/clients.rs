//! How the clients fare: their latency now, against what is normal.

use super::Level;
use crate::histogram::Histogram;
use amita_types::recovery::Recovery;
use std::time::Duration;

/// Fewer I/Os a second than these, and the clients count as idle.
const IDLE_IOPS: u64 = 25;
/// A span is judged when so many have ended in it, or when it has lasted so long.
const ENOUGH: u64 = 100;
const LONGEST_SPAN: Duration = Duration::from_secs(1);
/// So few of a kind say nothing.
const FEW: u64 = 20;
/// The p99 of fewer is the luck of one: their p90 is taken instead.
const MANY: u64 = 100;
/// What of the mean is kept from one span to the next: three quarters.
const FADES: (u64, u64) = (3, 4);
/// When so many are remembered as normal, the older ones begin to fade.
const REMEMBERED: u64 = 4000;
/// Below so much of the tail that they may have, in percent, background work may press harder.
const ROOM_PERCENT: u64 = 80;

/// How the clients fared in a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    /// Too little was done to say; the span goes on.
    Unsure,
    /// There are none.
    Idle,
    /// No background work ran: it was learned what is normal.
    Normal,
    /// They suffer more than they may: so much of it.
    Hurt { percent: u64 },
    /// There is room.
    Content,
    /// Neither.
    Fine,
}

/// How much of what is normal clients keep beside background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spares {
    /// Their p99, in percent of the normal one, at most.
    p99_percent: u32,
    /// Their throughput, in percent of the normal one, at least.
    iops_percent: u32,
}

impl Spares {
    /// Beside work of which nothing was more urgent than `level`.
    pub(super) fn of(level: Level, settings: &Recovery) -> Spares {
        let allowed = settings.iops_percent;
        Spares {
            p99_percent: settings.p99_percent,
            iops_percent: match level {
                Level::Critical | Level::Degraded => allowed,
                Level::Rebalance | Level::Scrub => allowed.midpoint(100),
            },
        }
    }

    /// Below so much of the mean that they may have, in percent, background work may press harder: a third of the loss that is allowed is left. Of a
    /// normal mean `iops_percent` are suffered, so that less than that never is.
    fn room_percent(self) -> u64 {
        let allowed = u64::from(self.iops_percent);
        allowed + 100_u64.saturating_sub(allowed).div_ceil(3)
    }
}

/// Reads, or writes.
#[derive(Debug, Default)]
struct Kind {
    span: Histogram,
    normal: Histogram,
    /// Beside background work, the older the less: nanoseconds, and of so many. The mean of one span of a few hundred is off by a fifth where some take ten
    /// times as long.
    recent: (u64, u64),
}

/// The clients of one core.
#[derive(Debug, Default)]
pub(super) struct Clients {
    reads: Kind,
    writes: Kind,
}

impl Kind {
    fn learn(&mut self) {
        if self.normal.count() >= REMEMBERED {
            self.normal.halve();
        }
        self.normal.add(&self.span);
    }

    /// Counts the span as one beside background work.
    fn remember(&mut self) {
        let (ns, count) = (self.span.mean().as_nanos() as u64, self.span.count());
        let (sum, all) = self.recent;
        self.recent = (
            (sum.saturating_mul(FADES.0) / FADES.1).saturating_add(ns.saturating_mul(count)),
            all.saturating_mul(FADES.0) / FADES.1 + count,
        );
    }

    /// How much they suffer; `None` where that cannot be told.
    fn suffering(&self, spares: Spares) -> Option<Suffering> {
        if self.span.count() < FEW || self.normal.count() < FEW {
            return None;
        }
        let permille = if self.span.count() >= MANY { 990 } else { 900 };
        let ratio =
            |found: Duration, normal: Duration| found.as_nanos() as u64 * 100 / (normal.as_nanos() as u64).max(1);
        let tail = ratio(self.span.permille(permille), self.normal.permille(permille));
        let tail = tail * 100 / u64::from(spares.p99_percent.max(1));
        let recent = Duration::from_nanos(self.recent.0 / self.recent.1.max(1));
        let mean = ratio(recent, self.normal.mean());
        let mean = mean * u64::from(spares.iops_percent) / 100;
        Some(Suffering {
            percent: tail.max(mean),
            has_room: tail < ROOM_PERCENT && mean < spares.room_percent(),
        })
    }
}

/// How clients fare beside background work.
#[derive(Clone, Copy, Debug)]
struct Suffering {
    /// Of what they may suffer.
    percent: u64,
    /// They may suffer some more.
    has_room: bool,
}

impl Clients {
    /// Counts an I/O; true when so many were counted in this span that the clients are surely not idle.
    pub(super) fn record(&mut self, write: bool, latency: Duration) -> bool {
        if write {
            self.writes.span.record(latency);
        } else {
            self.reads.span.record(latency);
        }
        self.count() >= FEW
    }

    fn count(&self) -> u64 {
        self.reads.span.count() + self.writes.span.count()
    }

    pub(super) fn begin_span(&mut self) {
        self.reads.span.clear();
        self.writes.span.clear();
    }

    /// A span of at least the usual length. `spares` is none where no background work ran.
    pub(super) fn judge(&mut self, length: Duration, spares: Option<Spares>) -> Mood {
        let count = self.count();
        if u128::from(count) * 1000 < u128::from(IDLE_IOPS) * length.as_millis() {
            self.forget();
            return Mood::Idle;
        }
        if count < ENOUGH && length < LONGEST_SPAN {
            return Mood::Unsure;
        }
        let Some(spares) = spares else {
            self.reads.learn();
            self.writes.learn();
            self.forget();
            return Mood::Normal;
        };
        self.reads.remember();
        self.writes.remember();
        let both = [self.reads.suffering(spares), self.writes.suffering(spares)];
        let (mut percent, mut has_room) = (0, both.iter().any(Option::is_some));
        for suffering in both.into_iter().flatten() {
            percent = percent.max(suffering.percent);
            has_room &= suffering.has_room;
        }
        match percent {
            // There is less of it from now on: what was before says nothing of that.
            percent if percent > 100 => {
                self.forget();
                Mood::Hurt { percent }
            }
            _ if has_room => Mood::Content,
            _ => Mood::Fine,
        }
    }

    fn forget(&mut self) {
        (self.reads.recent, self.writes.recent) = ((0, 0), (0, 0));
    }

    /// Of reads and of writes.
    pub(super) fn normal_p99(&self) -> [Duration; 2] {
        [self.reads.normal.permille(990), self.writes.normal.permille(990)]
    }
}
