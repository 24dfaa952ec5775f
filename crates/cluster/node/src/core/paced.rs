//! What copies, moves and backups of volumes read, and their questions for what has data, which open chunks, give way to hosts (decision 080): at the core that sequences what is read, by the same pace as recovery
//! ([`amita_sequencer::pace`]), as data that is to lie elsewhere.
//!
//! Here it is known how hosts of that core fare, beside background work and without it. Whoever makes a pass, wherever, writes no more than it
//! has read, so all of it keeps to that. A read of a sealed snapshot brings the same whenever it is carried out: it may wait. What goes without
//! waiting for its turn has no leave, and neither counts as recovery's nor pays; nor is it taken for a host's.
//!
//! What is read for a pass is told by the record of the copy, which names the snapshot, and for a backup by the snapshot's label: whoever else reads
//! the same one meanwhile waits likewise. A last pass names none, for hosts wait for it.

use super::context::Context;
use super::forward::Forwarding;
use super::route;
use crate::forwarder::FORWARDED;
use crate::mail::Origin;
use crate::shards::{Leave, Sake};
use crate::view::Reader;
use amita_frontend::HostKey;
use amita_reactor::Slice;
use amita_reactor::driver::Time;
use amita_types::io::Op;
use amita_types::message::Purpose;
use amita_types::{SnapshotId, VolumeId};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

/// What has waited for that long goes, window by window, whatever hosts feel: a pass comes to its end, and whoever has asked does not take this owner
/// for dead.
const LONGEST: Duration = Duration::from_secs(4);
/// Of what has waited for that long one window goes, and then none for this long.
const BETWEEN: Duration = Duration::from_millis(5);
/// A read costs as much as so many bytes beside its own, as in the order at stores.
const REQUEST_BYTES: u64 = 16 << 10;
/// What goes by one leave: a largest piece, or some small ones, for a pass that brings scattered blocks has no more of them under way than of large
/// pieces.
const WINDOW_BYTES: u64 = (128 << 10) + REQUEST_BYTES;

/// A read that waits.
#[derive(Debug)]
struct Waiting {
    origin: Origin,
    volume: VolumeId,
    op: Op,
    since: Time,
    purpose: Purpose,
}

/// Those of one core, in the order of coming.
#[derive(Debug, Default)]
pub(super) struct Paced {
    waiting: VecDeque<Waiting>,
    /// When it is asked again whether the first may go; none: at once.
    due: Option<Time>,
    /// Before then none goes for having waited for long.
    next_old: Time,
}

impl Paced {
    /// When [`go_on`] is wanted.
    #[inline]
    pub(super) fn deadline(&self) -> Option<Time> {
        self.due.filter(|_| !self.waiting.is_empty())
    }

    /// The first ones, as many as go by one leave.
    fn window(&mut self) -> Vec<Waiting> {
        let mut work = 0;
        let fits = |waiting: &&Waiting| {
            let is_first = work == 0;
            work += waiting.op.length() + REQUEST_BYTES;
            is_first || work <= WINDOW_BYTES
        };
        let count = self.waiting.iter().take_while(fits).count();
        self.waiting.drain(..count).collect()
    }
}

/// Who reads it, if no host waits for it.
#[inline]
pub(super) fn reader(cx: &Context, origin: &Origin, volume: VolumeId, op: &Op) -> Option<Reader> {
    let may_be = origin.front == FORWARDED && origin.host == HostKey::NONE && origin.snapshot > SnapshotId::HEAD;
    if !may_be || op.is_write() || cx.shards.generation(volume).is_none() {
        return None;
    }
    // Questions for what was changed find most chunks untouched.
    let waits = matches!(op, Op::Read { .. } | Op::Allocation { .. });
    reader_of(cx, volume, origin.snapshot).map(|reader| Reader {
        gives_way: reader.gives_way && waits,
        ..reader
    })
}

fn reader_of(cx: &Context, volume: VolumeId, snapshot: SnapshotId) -> Option<Reader> {
    cx.view.reader(volume, snapshot, |data| cx.slowed.holds(data))
}

/// It waits for its turn, or goes at once: what does not give way stands behind nobody.
pub(super) fn hold(
    cx: &mut Context,
    forwarding: &mut Forwarding,
    now: Time,
    origin: Origin,
    volume: VolumeId,
    op: Op,
    reader: Reader,
) {
    let since = now;
    let waiting = Waiting {
        origin,
        volume,
        op,
        since,
        purpose: reader.purpose,
    };
    if !reader.gives_way {
        return begin(cx, forwarding, now, waiting, None);
    }
    cx.paced.waiting.push_back(waiting);
    if cx.paced.waiting.len() == 1 {
        turn(cx, forwarding, now);
    }
}

/// Those go that may. Asked several times a pass: the pace only when one of them has ended, or it has said so.
#[inline]
pub(super) fn go_on(cx: &mut Context, forwarding: &mut Forwarding, now: Time) -> bool {
    if cx.paced.waiting.is_empty() {
        return false;
    }
    let is_due = cx.paced.due.is_none_or(|due| due <= now);
    (cx.shards.take_leave_ended() | is_due) && turn(cx, forwarding, now)
}

fn turn(cx: &mut Context, forwarding: &mut Forwarding, now: Time) -> bool {
    cx.paced.due = None;
    let mut moved = let_go(cx, forwarding, now);
    while let Some(first) = cx.paced.waiting.front() {
        let latest = first.since.plus(LONGEST).max(cx.paced.next_old);
        match cx.shards.pacer().start_copy(now) {
            Ok(leave) => {
                moved = true;
                let leave = Leave::new(RefCell::new(leave));
                for waiting in cx.paced.window() {
                    begin(cx, forwarding, now, waiting, Some(Leave::clone(&leave)));
                }
            }
            Err(_) if latest <= now => {
                cx.paced.next_old = now.plus(BETWEEN);
                moved = true;
                for waiting in cx.paced.window() {
                    begin(cx, forwarding, now, waiting, None);
                }
            }
            Err(at) => {
                cx.paced.due = Some(at.min(latest));
                break;
            }
        }
    }
    moved
}

/// What does not give way any more goes: hosts are slowed by now, or it is not copied any more.
fn let_go(cx: &mut Context, forwarding: &mut Forwarding, now: Time) -> bool {
    let gives_way = |cx: &Context, waiting: &Waiting| {
        let reader = reader_of(cx, waiting.volume, waiting.origin.snapshot);
        reader.is_some_and(|reader| reader.gives_way)
    };
    if cx.paced.waiting.iter().all(|waiting| gives_way(cx, waiting)) {
        return false;
    }
    let waiting = std::mem::take(&mut cx.paced.waiting);
    let (wait, go): (VecDeque<_>, VecDeque<_>) = waiting.into_iter().partition(|waiting| gives_way(cx, waiting));
    cx.paced.waiting = wait;
    for waiting in go {
        begin(cx, forwarding, now, waiting, None);
    }
    true
}

fn begin(cx: &mut Context, forwarding: &mut Forwarding, now: Time, waiting: Waiting, leave: Option<Leave>) {
    let Waiting {
        origin,
        volume,
        op,
        purpose,
        ..
    } = waiting;
    let sake = Sake::Background(leave, purpose);
    let begun = cx.shards.begin_for(now, origin, volume, op, Slice::default(), sake);
    route::declined(cx, forwarding, now, origin, volume, op, begun);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(lengths: &[u32]) -> Vec<usize> {
        let origin = Origin {
            core: 0,
            front: FORWARDED,
            tag: 0,
            arrived: Time(0),
            parsed: Time(0),
            kept: Time(0),
            trace: amita_types::TraceId::NONE,
            host: amita_frontend::HostKey::NONE,
            generation: amita_types::Generation(0),
            snapshot: SnapshotId(1),
        };
        let waiting = |&length: &u32| Waiting {
            origin,
            volume: VolumeId(1),
            op: match length {
                0 => Op::Allocation { offset: 0 },
                _ => Op::Read { offset: 0, length },
            },
            since: Time(0),
            purpose: Purpose::Move,
        };
        let mut paced = Paced {
            waiting: lengths.iter().map(waiting).collect(),
            ..Paced::default()
        };
        std::iter::from_fn(|| Some(paced.window().len()).filter(|count| *count > 0)).collect()
    }

    #[test]
    fn small_reads_go_together_and_a_large_one_by_itself() {
        assert_eq!(windows(&[128 << 10, 128 << 10]), [1, 1]);
        assert_eq!(windows(&[4096; 20]), [7, 7, 6]);
        assert_eq!(windows(&[4096, 128 << 10, 4096]), [1, 1, 1]);
        assert_eq!(windows(&[1 << 20, 4096]), [1, 1]);
        assert_eq!(windows(&[]), [] as [usize; 0]);
        assert_eq!(windows(&[0; 20]), [9, 9, 2], "questions for what has data");
    }
}
