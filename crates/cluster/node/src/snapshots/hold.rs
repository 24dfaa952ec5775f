//! The last snapshot of a volume that moves to another pool: its owner holds from before it takes it (M2 to M4 of decision 080).
//!
//! Holding, it begins nothing of the volume's hosts, and what was under way has ended before its cores adopt the number: so nothing is acknowledged,
//! and nothing is read, that the snapshot has not. The transaction that seals it says in the volume's record that its owner holds
//! ([`Lineage::held`](map::Lineage::held)). From when that is sent on, the owner lets go only behind a transaction that takes it back; the
//! switch of the move compares the same record. Before that it lets go by itself when its time is up, and the snapshot is one like any other.
//!
//! A switch is heard of as any change of a name is: whoever has the volume open drops it then, and goes on with what it is in the other pool.

use super::{Effect, Order, Snapshots, Step, Taking, json};
use crate::faults::Fault;
use amita_control::admin::LONGEST_HOLD;
use amita_metadata::{self as meta, Call};
use amita_reactor::driver::Time;
use amita_types::map::{self, Volume};
use amita_types::{SnapshotId, VolumeId};
use std::time::Duration;

/// An owner that holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    /// Until then.
    until: Time,
    /// The record may say so: only the metadata ends it.
    is_said: bool,
}

impl Taking {
    /// When it is to be let go of.
    pub(super) fn lets_go_at(&self) -> Option<Time> {
        let hold = self.hold?;
        // Whatever it is at: as long as nothing was sent that says so, it ends by itself.
        let is_due = matches!(self.step, Step::Held(_)) || !hold.is_said;
        is_due.then_some(hold.until)
    }

    /// May the record say that we hold?
    pub(super) fn may_be_said_to_hold(&self) -> bool {
        self.hold.is_some_and(|hold| hold.is_said)
    }

    /// The transaction that is about to be sent says that we hold, if there is time left.
    pub(super) fn seals_on_hold(&mut self, now: Time) -> bool {
        let Some(hold) = &mut self.hold else { return false };
        let holds = now < hold.until;
        hold.is_said |= holds;
        holds
    }
}

impl Snapshots {
    /// From now on nothing of hosts is begun.
    pub(super) fn hold(&mut self, volume: VolumeId, number: SnapshotId) {
        let (now, cores) = (self.now, self.cores);
        let Some(taking) = self.volumes.get_mut(&volume) else {
            return;
        };
        // Whatever is wished.
        let longest = Duration::from_millis(taking.wish.hold_ms.unwrap_or_default().into()).min(LONGEST_HOLD);
        taking.hold = Some(Hold {
            until: now.plus(longest),
            is_said: false,
        });
        taking.step = Step::Draining(number, (0..cores).collect());
        let order = Order::Hold;
        self.effects.push_back(Effect::Order(volume, taking.generation, order));
    }

    /// The time may be up.
    pub(super) fn end_hold_in_time(&mut self, now: Time, volume: VolumeId) {
        let Some(taking) = self.volumes.get_mut(&volume) else {
            return;
        };
        if taking.lets_go_at().is_none_or(|at| now < at) {
            return;
        }
        match taking.step {
            Step::Held(_) if self.faults.has(Fault::LetGoUnasked) => drop(self.remove(volume)),
            Step::Held(number) => {
                taking.step = Step::Returning(number);
                self.go_on(volume);
            }
            Step::Draining(number, _) => {
                self.let_hosts_go(volume);
                self.adopt(volume, number);
            }
            _ => self.let_hosts_go(volume),
        }
    }

    fn let_hosts_go(&mut self, volume: VolumeId) {
        let Some(taking) = self.volumes.get_mut(&volume) else {
            return;
        };
        if taking.hold.take().is_some() {
            let order = Order::LetGo;
            self.effects.push_back(Effect::Order(volume, taking.generation, order));
        }
    }

    /// The snapshot is sealed, as was sent.
    pub(super) fn sealed(&mut self, now: Time, volume: VolumeId, number: SnapshotId) -> bool {
        let is_said = self.volumes.get(&volume).is_some_and(Taking::may_be_said_to_hold);
        match is_said {
            // Whether the record says so is read before it is let go of.
            true => self.found_sealed(now, volume, number, true),
            false => _ = self.end(volume),
        }
        true
    }

    /// The snapshot is sealed, and the record says whether we hold.
    pub(super) fn found_sealed(&mut self, now: Time, volume: VolumeId, number: SnapshotId, held: bool) {
        self.now = now;
        match self.volumes.get_mut(&volume) {
            Some(taking) if held && taking.hold.is_some() => taking.step = Step::Held(number),
            _ => _ = self.end(volume),
        }
    }

    /// The record was read: what it says of us is taken back, unless the volume has moved.
    pub(super) fn give_back(&mut self, now: Time, volume: VolumeId, number: SnapshotId, reply: &meta::Reply) {
        if let Some((mut record, revision)) = self.ours(volume, reply.value(0)) {
            if !record.lineage.held {
                self.end(volume);
                return;
            }
            record.lineage.held = false;
            let Some(taking) = self.volumes.get_mut(&volume) else {
                return;
            };
            taking.step = Step::LettingGo(number);
            let call = Call::put_if(map::volume_key(&taking.name), revision, json(&record));
            return self.call(volume, call);
        }
        let found = reply.value(0).map(|found| found.json::<Volume>());
        match found {
            // Nobody knows what it says.
            Some(Err(_)) => {
                if let Some(taking) = self.volumes.get_mut(&volume) {
                    (taking.step, taking.retry) = (Step::Returning(number), Some(now.plus(super::PAUSE)));
                }
            }
            // Another one owns it: what is begun now its stores refuse.
            Some(Ok(found)) if found.id == volume => _ = self.end(volume),
            // It has moved, or was deleted: this node drops it when it hears of that, and until then begins nothing.
            _ => {
                if let Some(taking) = self.volumes.get_mut(&volume) {
                    taking.hold = None;
                }
                self.end(volume);
            }
        }
    }
}
