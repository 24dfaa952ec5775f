//! Hosts of a volume that moves are slowed when its passes do not get shorter (decision 080): their writes wait on the core of their connection,
//! before they are routed and before they pass limits (S16), and go with their host (R9).
//!
//! The record of the move says how fast they may write, and by whom that was said. It holds while that one has the key of who is at the move, which
//! goes with his lease; and only for a time after the record was heard of last, whatever the metadata says, or does not say, since then. Whoever
//! is at a move writes the record more often than that.
//!
//! No write waits for longer than two seconds, at whatever rate: hosts have timers, and queues that are as long as they like.
//!
//! Each core lets so much pass by itself, and asks nobody: hosts never wait for an owner that lends, and what is let pass at many cores together
//! is seen by who is at the move, who slows them further.

use super::context::Context;
use super::forward::Forwarding;
use super::route;
use crate::faults::Fault;
use crate::mail::Origin;
use amita_frontend::FrontId;
use amita_reactor::Slice;
use amita_reactor::driver::Time;
use amita_types::io::Op;
use amita_types::{BLOCK_BYTES, VolumeId};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Three times as long as it takes until a mover notes its place.
const LAPSE: Duration = Duration::from_secs(90);
/// No write waits for longer: hosts give one up after half a minute, and in front of it may stand all that their queues hold.
const LONGEST: Duration = Duration::from_secs(2);
/// A core that is late catches up with so much.
const LATE: Duration = Duration::from_millis(5);

/// A write that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub origin: Origin,
    pub op: Op,
    pub payload: Slice,
}

/// Writes of a volume.
#[derive(Debug)]
struct Line {
    /// Bytes a second.
    rate: u64,
    /// If nothing is heard until then, all goes.
    lapses: Time,
    /// When the next one may go: it pays for those before it (virtual scheduling).
    next: Time,
    waiting: VecDeque<Waiting>,
}

impl Line {
    /// When the first of what waits goes.
    fn due(&self) -> Option<Time> {
        let latest = self.waiting.front()?.origin.arrived.plus(LONGEST);
        Some(self.next.min(latest))
    }
}

/// Volumes whose hosts are slowed at this core.
#[derive(Debug, Default)]
pub(super) struct Slowed {
    lines: BTreeMap<VolumeId, Line>,
    /// What is slowed no more, and goes.
    freed: VecDeque<(VolumeId, Waiting)>,
    /// How many have gone later than they would have.
    waited: u64,
}

impl Slowed {
    /// When [`go_on`] is wanted.
    #[inline]
    pub(super) fn deadline(&self) -> Option<Time> {
        if self.lines.is_empty() {
            return None;
        }
        let due = |line: &Line| line.due().map_or(line.lapses, |due| due.min(line.lapses));
        self.lines.values().map(due).min()
    }

    /// Whose writes wait.
    pub(super) fn fronts(&self) -> impl Iterator<Item = FrontId> {
        let waiting = self.lines.values().flat_map(|line| &line.waiting);
        let waiting = waiting.chain(self.freed.iter().map(|(_, waiting)| waiting));
        waiting.map(|waiting| waiting.origin.front)
    }

    /// How many writes have waited.
    pub(super) fn waited(&self) -> u64 {
        self.waited
    }

    /// Are hosts of the volume slowed?
    #[inline]
    pub(super) fn holds(&self, volume: VolumeId) -> bool {
        !self.lines.is_empty() && self.lines.contains_key(&volume)
    }

    /// Is anybody slowed?
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        !self.lines.is_empty()
    }

    /// A write of such a volume waits for its turn.
    pub(super) fn hold(&mut self, volume: VolumeId, waiting: Waiting) {
        match self.lines.get_mut(&volume) {
            Some(line) => line.waiting.push_back(waiting),
            None => self.freed.push_back((volume, waiting)),
        }
    }

    /// Hosts may write so many bytes a second from now on; none: as many as they like.
    fn set(&mut self, now: Time, volume: VolumeId, rate: Option<u64>) {
        let Some(rate) = rate else {
            return self.free(volume);
        };
        let lapses = now.plus(LAPSE);
        let line = self.lines.entry(volume).or_insert(Line {
            rate,
            lapses,
            next: Time(0),
            waiting: VecDeque::new(),
        });
        (line.rate, line.lapses) = (rate.max(1), lapses);
    }

    /// Hosts of the volume are slowed no more.
    pub(super) fn free(&mut self, volume: VolumeId) {
        if let Some(line) = self.lines.remove(&volume) {
            let late = line.waiting.iter().filter(|one| one.origin.arrived < line.next);
            self.waited += late.count() as u64;
            self.freed.extend(line.waiting.into_iter().map(|one| (volume, one)));
        }
    }

    /// Hosts have gone, in order of their fronts, and what waits of them goes with them.
    pub(super) fn cancel(&mut self, gone: &[FrontId]) {
        let keeps = |waiting: &Waiting| gone.binary_search(&waiting.origin.front).is_err();
        for line in self.lines.values_mut() {
            line.waiting.retain(keeps);
        }
        self.freed.retain(|(_, waiting)| keeps(waiting));
    }

    /// The next that goes.
    fn pop(&mut self, now: Time) -> Option<(VolumeId, Waiting)> {
        if let Some(freed) = self.freed.pop_front() {
            return Some(freed);
        }
        let mut lines = self.lines.iter_mut();
        let (volume, line) = lines.find(|(_, line)| line.due().is_some_and(|due| due <= now))?;
        let waiting = line.waiting.pop_front()?;
        self.waited += u64::from(waiting.origin.arrived < line.next);
        let earliest = Time(now.0.saturating_sub(LATE.as_nanos() as u64));
        let next = line.next.max(earliest).plus(cost(&waiting.op, line.rate));
        // What went though it was not its turn is not to be paid for by all that come after it.
        line.next = next.min(now.plus(LONGEST));
        Some((*volume, waiting))
    }
}

/// How long a write pays for: one of less than a block changes one, and what is cleared brings a pass nothing to write, however long it is.
fn cost(op: &Op, rate: u64) -> Duration {
    let block = u64::from(BLOCK_BYTES);
    let bytes = match op {
        Op::Clear { .. } => block,
        _ => op.length().max(block),
    };
    Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / rate)
}

/// What may go does. Asked several times a pass.
#[inline]
pub(super) fn go_on(cx: &mut Context, forwarding: &mut Forwarding, now: Time, left: &[FrontId]) -> bool {
    if !cx.slowed.is_any() && cx.slowed.freed.is_empty() && !cx.view.has_slowed() {
        return false;
    }
    go_on_slowed(cx, forwarding, now, left)
}

fn go_on_slowed(cx: &mut Context, forwarding: &mut Forwarding, now: Time, left: &[FrontId]) -> bool {
    for volume in cx.view.take_slowed() {
        // One that has moved already has no hosts by this number.
        let rate = cx.view.slowed(volume).filter(|_| cx.view.present(volume) == volume);
        if rate.is_some() || !cx.config.faults.has(Fault::SlowForGood) {
            cx.slowed.set(now, volume, rate);
        }
    }
    if !left.is_empty() && !cx.config.faults.has(Fault::HoldForGoneHosts) {
        cx.slowed.cancel(left);
    }
    let lapsed = cx.slowed.lines.iter().filter(|(_, line)| line.lapses <= now);
    for volume in lapsed.map(|(volume, _)| *volume).collect::<Vec<_>>() {
        cx.slowed.free(volume);
    }
    let mut moved = false;
    while let Some((
        volume,
        Waiting {
            mut origin,
            op,
            payload,
        },
    )) = cx.slowed.pop(now)
    {
        moved = true;
        // It may have moved since.
        let volume = cx.view.present(volume);
        // This core has looked after the connection until now: the host is there, and has not gone on (R9).
        origin.kept = cx.clock.began();
        match forwarding.gate.holds(volume) {
            true => forwarding.gate.hold(now, origin, volume, op, payload),
            false => route::route(cx, forwarding, now, origin, volume, op, payload),
        }
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOLUME: VolumeId = VolumeId(7);

    fn at(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    fn write(tag: u64, length: u32) -> Waiting {
        let origin = Origin {
            core: 0,
            front: FrontId(tag % 2),
            tag,
            arrived: Time(0),
            parsed: Time(0),
            kept: Time(0),
            trace: amita_types::TraceId::NONE,
            host: amita_frontend::HostKey::NONE,
            generation: amita_types::Generation(0),
            snapshot: amita_types::SnapshotId::HEAD,
        };
        Waiting {
            origin,
            op: Op::Write { offset: 0, length },
            payload: Slice::default(),
        }
    }

    fn popped(slowed: &mut Slowed, now: Time) -> Vec<u64> {
        std::iter::from_fn(|| slowed.pop(now).map(|(_, waiting)| waiting.origin.tag)).collect()
    }

    /// 4 MiB a second are a block each millisecond, nearly.
    #[test]
    fn writes_go_at_the_rate_in_their_order_and_small_ones_pay_for_a_block() {
        let mut slowed = Slowed::default();
        slowed.set(at(0), VOLUME, Some(4096 * 1000));
        for (tag, length) in [(1, 4096), (2, 512), (3, 8192), (4, 4096), (5, 4096)] {
            slowed.hold(VOLUME, write(tag, length));
        }
        assert_eq!(popped(&mut slowed, at(0)), [1]);
        assert_eq!(slowed.deadline(), Some(at(1)));
        assert_eq!(popped(&mut slowed, at(1)), [2]);
        assert_eq!(popped(&mut slowed, at(2)), [3]);
        assert_eq!(popped(&mut slowed, at(3)), [] as [u64; 0]);
        assert_eq!(popped(&mut slowed, at(4)), [4]);
        // It catches up with some milliseconds, and no more.
        for tag in 6..100 {
            slowed.hold(VOLUME, write(tag, 4096));
        }
        assert_eq!(popped(&mut slowed, at(1000)).len(), 6);
        assert_eq!(slowed.deadline(), Some(at(1001)));
    }

    #[test]
    fn what_is_cleared_pays_for_a_block_however_long_it_is() {
        let mut slowed = Slowed::default();
        slowed.set(at(0), VOLUME, Some(4096 * 1000));
        let (offset, length) = (0, 1 << 30);
        slowed.hold(
            VOLUME,
            Waiting {
                op: Op::Clear { offset, length },
                ..write(1, 4096)
            },
        );
        slowed.hold(VOLUME, write(2, 4096));
        assert_eq!(popped(&mut slowed, at(0)), [1]);
        assert_eq!(popped(&mut slowed, at(1)), [2]);
    }

    #[test]
    fn no_write_waits_for_more_than_two_seconds() {
        let mut slowed = Slowed::default();
        slowed.set(at(0), VOLUME, Some(1 << 20));
        for tag in 0..64 {
            slowed.hold(VOLUME, write(tag, 1 << 20));
        }
        assert_eq!((popped(&mut slowed, at(0)), slowed.waited()), (vec![0], 0));
        assert_eq!(popped(&mut slowed, at(1000)).len(), 1);
        assert_eq!(popped(&mut slowed, at(1900)), [] as [u64; 0]);
        assert_eq!(slowed.deadline(), Some(at(2000)));
        assert_eq!((popped(&mut slowed, at(2000)).len(), slowed.waited()), (62, 63));
        // They have not paid for all that.
        let mut late = write(64, 4096);
        late.origin.arrived = at(2001);
        slowed.hold(VOLUME, late);
        assert_eq!(slowed.deadline(), Some(at(4000)));
        assert_eq!(popped(&mut slowed, at(4000)), [64]);
    }

    #[test]
    fn what_waits_goes_with_its_host_or_when_nobody_is_slowed_any_more() {
        let mut slowed = Slowed::default();
        slowed.set(at(0), VOLUME, Some(1));
        for tag in 0..6 {
            slowed.hold(VOLUME, write(tag, 4096));
        }
        assert_eq!(popped(&mut slowed, at(0)), [0]);
        slowed.cancel(&[FrontId(1)]);
        slowed.set(at(1), VOLUME, None);
        assert!(!slowed.holds(VOLUME) && !slowed.is_any());
        assert_eq!(popped(&mut slowed, at(1)), [2, 4]);
        // Nobody is slowed who came a moment too late to hear of it.
        slowed.hold(VOLUME, write(7, 4096));
        assert_eq!(popped(&mut slowed, at(1)), [7]);
    }
}
