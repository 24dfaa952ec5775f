//! What copies and moves of volumes read gives way to hosts (decision 080): at the core that sequences what is read, by the same pace as recovery
//! ([`amita_sequencer::pace`]), as data that is to lie elsewhere.
//!
//! Here it is known how hosts of that core fare, beside background work and without it. Whoever makes a pass, wherever, writes no more than it
//! has read, so all of it keeps to that. A read of a sealed snapshot brings the same whenever it is carried out: it may wait.
//!
//! What is read for a pass is told by the record of the copy, which names the snapshot: whoever else reads the same one meanwhile waits likewise.
//! A last pass names none, for hosts wait for it.

use super::context::Context;
use super::forward::Forwarding;
use super::route;
use crate::forwarder::FORWARDED;
use crate::mail::Origin;
use amita_reactor::Slice;
use amita_reactor::driver::Time;
use amita_sequencer::pace::Level;
use amita_types::io::Op;
use amita_types::{SnapshotId, VolumeId};
use std::collections::VecDeque;
use std::time::Duration;

/// Nothing waits for longer, whatever hosts feel: a pass comes to its end, and whoever has asked does not take this owner for dead.
const LONGEST: Duration = Duration::from_secs(4);

/// A read that waits.
#[derive(Debug)]
struct Waiting {
    origin: Origin,
    volume: VolumeId,
    op: Op,
    since: Time,
}

/// Those of one core, in the order of coming.
#[derive(Debug, Default)]
pub(super) struct Paced {
    waiting: VecDeque<Waiting>,
    /// When the first may go.
    due: Option<Time>,
}

impl Paced {
    /// When [`go_on`] is wanted.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.due.filter(|_| !self.waiting.is_empty())
    }
}

/// Is it read for a pass?
pub(super) fn is_paced(cx: &Context, origin: &Origin, volume: VolumeId, op: &Op) -> bool {
    origin.front == FORWARDED
        && origin.snapshot > SnapshotId::HEAD
        && matches!(op, Op::Read { .. })
        && cx.view.pass(volume, origin.snapshot).is_some()
        && cx.shards.generation(volume).is_some()
}

/// It waits for its turn, or goes at once.
pub(super) fn hold(cx: &mut Context, forwarding: &mut Forwarding, now: Time, origin: Origin, volume: VolumeId, op: Op) {
    let since = now;
    cx.paced.waiting.push_back(Waiting {
        origin,
        volume,
        op,
        since,
    });
    if cx.paced.waiting.len() == 1 {
        go_on(cx, forwarding, now);
    }
}

/// Those go that may.
pub(super) fn go_on(cx: &mut Context, forwarding: &mut Forwarding, now: Time) -> bool {
    let mut moved = false;
    while let Some(first) = cx.paced.waiting.front() {
        let latest = first.since.plus(LONGEST);
        // Nor does what is not copied any more.
        let gives_way = cx.view.pass(first.volume, first.origin.snapshot) == Some(true);
        let pacer = cx.shards.pacer();
        let leave = match latest <= now || !gives_way {
            true => Ok(pacer.force(now, Level::Rebalance)),
            false => pacer.start(now, Level::Rebalance),
        };
        let mut leave = match leave {
            Ok(leave) => leave,
            Err(at) => {
                cx.paced.due = Some(at.min(latest));
                break;
            }
        };
        let Some(Waiting { origin, volume, op, .. }) = cx.paced.waiting.pop_front() else {
            break;
        };
        moved = true;
        if let Op::Read { length, .. } = op {
            leave.add(u64::from(length), 1);
        }
        let begun = cx
            .shards
            .begin_by(now, origin, volume, op, Slice::default(), Some(leave));
        route::declined(cx, forwarding, now, origin, volume, op, begun);
    }
    moved
}
