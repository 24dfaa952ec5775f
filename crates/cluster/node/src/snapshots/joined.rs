//! A snapshot that is one of a set (S4), at the owner of its volume.
//!
//! When its number is in the volume's record it is *prepared*, and waits. Whoever leads the set ([`crate::sets`]) then asks for three
//! steps, each answered when it is done:
//!
//! 1. *Adopt*: all cores carry the number, and what carries it is held: not acknowledged, and not shown by reads (S2).
//! 2. *Release*: the cores let go. Where they have not yet it was *held*, and else it has *lapsed*: after [`HOLD`] an owner lets go
//!    by itself, so that no host waits longer because a leader, or another owner, is slow or gone.
//! 3. *Settle*: nothing that is older is without its acknowledgement (S7).
//!
//! Then the set's record says how it ends. Where it is ready the number is sealed, here or by the raise of the next owner; where it is
//! void, or gone, the number is withdrawn.

use super::{Effect, Order, Snapshots, Step, json, put};
use crate::faults::Fault;
use crate::view::View;
use amita_fabric::{Cut, CutOutcome, CutStep, Link};
use amita_metadata::{self as meta, Call, Compare, Op};
use amita_reactor::driver::Time;
use amita_types::map::{self, SetState, Snapshot, SnapshotName, SnapshotSet, SnapshotState, SnapshotWish};
use amita_types::{Generation, SetId, SnapshotId, VolumeId};
use std::time::Duration;

/// The longest that an owner holds for a set.
pub const HOLD: Duration = Duration::from_millis(300);
/// How long a number that is prepared, or has let go, waits for word of its set. A leader that is alive gives the set up before.
const LEADER_PATIENCE: Duration = Duration::from_secs(60);

/// Who has asked for a step, and gets its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// This node leads.
    Here { tag: u64 },
    /// A peer does.
    Link {
        /// The core that holds the link.
        core: usize,
        link: Link,
        tag: u64,
    },
}

/// What is kept of a set for one of its volumes.
#[derive(Debug)]
pub(super) struct Joined {
    pub set: SnapshotSet,
    /// Whoever leads has asked for this step, and waits.
    pub asker: Option<(Asker, CutStep)>,
    /// When the hold ends by itself.
    pub lapses: Option<Time>,
    /// It has.
    lapsed: bool,
    /// After it has let go: until when it waits for how the set ends.
    pub patience: Option<Time>,
    /// The set's record says how it ends: ready, or void.
    decided: Option<bool>,
}

impl Joined {
    fn new(set: &SnapshotSet) -> Joined {
        Joined {
            set: set.clone(),
            asker: None,
            lapses: None,
            lapsed: false,
            patience: None,
            decided: None,
        }
    }

    /// Makes the set void, unless its record has changed since this revision.
    fn voided(&self, revision: u64) -> Call {
        let void = self.set.voided("the gateway that leads it is silent", true);
        Call::put_if(map::set_key(void.id), revision, json(&void))
    }

    /// What is wished of the volume of this name, as the set's record has it; none: it is decided, or gone.
    pub fn wish(&mut self, volume: &str, value: Option<&meta::KeyValue>) -> Option<(SnapshotWish, u64)> {
        let value = value?;
        let set = value.json::<SnapshotSet>().ok()?;
        if set.id != self.set.id || set.state != SetState::Taking {
            return None;
        }
        let wish = set.wish(volume);
        self.set = set;
        Some((wish, value.mod_revision))
    }
}

impl Snapshots {
    /// Begins with what sets want of the volumes that are open here, and hears how they have ended.
    pub(super) fn look_at_sets(&mut self, now: Time, view: &View, open: &impl Fn(VolumeId) -> Option<Generation>) {
        self.now = now;
        let joined = self.volumes.iter().filter_map(|(volume, taking)| {
            let set = taking.joined.as_ref()?.set.id;
            match view.set(set).map(|(set, _)| &set.state) {
                Some(SetState::Taking) => None,
                Some(SetState::Ready) => Some((*volume, true)),
                // Its record goes when it is void, or all of its volumes have sealed theirs.
                Some(SetState::Void(_)) | None => Some((*volume, false)),
            }
        });
        let decided: Vec<(VolumeId, bool)> = joined.collect();
        for (volume, ready) in decided {
            self.decided(volume, ready);
        }
        for (set, revision) in view.sets() {
            for member in &set.volumes {
                let volume = member.id;
                if self.volumes.contains_key(&volume) || self.put_off.contains_key(&volume) {
                    continue;
                }
                let (Some(generation), Some(record)) = (open(volume), view.volume_of(volume)) else {
                    continue;
                };
                let is_unsealed = record.lineage.set == Some(set.id);
                let wanted = match set.state {
                    SetState::Taking => true,
                    SetState::Ready => is_unsealed,
                    SetState::Void(_) => is_unsealed && record.generation == generation,
                };
                if !wanted {
                    continue;
                }
                let wish = (set.wish(&record.name), revision);
                self.take(now, record, generation, wish, Some(Joined::new(set)));
                if set.state != SetState::Taking
                    && let Some(taking) = self.volumes.get_mut(&volume)
                {
                    // Nothing is given out any more: the record is told how it has ended.
                    taking.step = Step::Reading;
                    self.go_on(volume);
                }
            }
        }
    }

    /// The set of a volume is ready, or void.
    fn decided(&mut self, volume: VolumeId, ready: bool) {
        let Some(taking) = self.volumes.get_mut(&volume) else {
            return;
        };
        let Some(joined) = &mut taking.joined else { return };
        joined.decided = Some(ready);
        match taking.step {
            Step::Requiring { .. } if !ready => drop(self.remove(volume)),
            Step::Prepared { number, .. } if ready => self.adopt(volume, number),
            Step::Prepared { number, .. } => self.finish(volume, number, false),
            Step::Holding(number) => self.let_go(volume, number),
            Step::Settling(number, _) if !ready => self.finish(volume, number, false),
            Step::Settled(number) => self.finish(volume, number, ready),
            // It is looked at when that has ended.
            _ => {}
        }
    }

    /// The number is in the volume's record: it waits for whoever leads, who may have asked already.
    pub(super) fn prepared(&mut self, volume: VolumeId, number: SnapshotId) {
        let now = self.now;
        let Some(taking) = self.volumes.get_mut(&volume) else {
            return;
        };
        let Some(joined) = &mut taking.joined else { return };
        taking.step = Step::Prepared {
            number,
            until: now.plus(LEADER_PATIENCE),
        };
        if let Some((_, CutStep::Adopt)) = joined.asker {
            joined.lapses = Some(now.plus(HOLD));
            self.adopt(volume, number);
        }
    }

    /// Nobody has asked for anything for long: whoever led is gone, and so is whoever should have voided the set.
    pub(super) fn void_without_leader(&mut self, volume: VolumeId, number: SnapshotId) {
        let Some(taking) = self.volumes.get_mut(&volume) else {
            return;
        };
        let Some(joined) = &taking.joined else { return };
        let void = joined.voided(taking.wish_revision);
        taking.step = Step::Voiding(number);
        self.call(volume, void);
    }

    /// The same, where it has let go. It stays as it is: what is older is waited for, and how the set ends the watch tells.
    pub(super) fn void_when_let_go(&mut self, now: Time, volume: VolumeId) {
        let Some(taking) = self.volumes.get_mut(&volume) else {
            return;
        };
        let Some(joined) = &mut taking.joined else { return };
        if joined.patience.is_some_and(|at| now >= at) {
            joined.patience = Some(now.plus(LEADER_PATIENCE));
            let void = joined.voided(taking.wish_revision);
            self.call(volume, void);
        }
    }

    /// Whoever leads the set asks for a step. `leads`: it is the owner of the set's first volume, as far as is known here.
    pub fn asked(&mut self, now: Time, asker: Asker, leads: bool, cut: &Cut) {
        self.now = now;
        let found = self.volumes.get_mut(&cut.volume).filter(|taking| {
            let set = taking.joined.as_ref().map(|joined| joined.set.id);
            leads && taking.generation == cut.generation && set == Some(cut.set)
        });
        let Some(taking) = found else {
            return self.effects.push_back(Effect::Answer(asker, CutOutcome::NotOwner));
        };
        let Some(joined) = &mut taking.joined else { return };
        if joined.patience.is_some() {
            joined.patience = Some(now.plus(LEADER_PATIENCE));
        }
        if let Some((before, _)) = joined.asker.replace((asker, cut.step)) {
            // Asked anew: it was given up there.
            self.effects.push_back(Effect::Answer(before, CutOutcome::NotOwner));
        }
        let lapsed = joined.lapsed;
        match (cut.step, &taking.step) {
            (CutStep::Adopt, Step::Prepared { number, .. }) => {
                joined.lapses = Some(now.plus(HOLD));
                let number = *number;
                self.adopt(cut.volume, number);
            }
            // The watch of the leader was quicker than the answer to what is under way here.
            (CutStep::Adopt, Step::Reading | Step::Resolving(_) | Step::Doubting(_) | Step::Beginning(_)) => {}
            (CutStep::Adopt, Step::Adopting(..)) => {}
            (CutStep::Adopt, Step::Holding(_)) => self.answer(cut.volume, CutStep::Adopt, CutOutcome::Adopted),
            (CutStep::Release, Step::Holding(number)) => {
                let number = *number;
                self.answer(cut.volume, CutStep::Release, CutOutcome::Held);
                self.let_go(cut.volume, number);
            }
            (CutStep::Release, Step::Settling(..) | Step::Settled(_)) => {
                let outcome = if lapsed { CutOutcome::Lapsed } else { CutOutcome::Held };
                self.answer(cut.volume, CutStep::Release, outcome);
            }
            (CutStep::Settle, Step::Settling(..)) => {}
            (CutStep::Settle, Step::Settled(_)) => self.answer(cut.volume, CutStep::Settle, CutOutcome::Settled),
            (step, _) => self.answer(cut.volume, step, CutOutcome::NotOwner),
        }
    }

    /// Whoever asked for this step has its answer.
    fn answer(&mut self, volume: VolumeId, step: CutStep, outcome: CutOutcome) {
        let taking = self.volumes.get_mut(&volume);
        let asker = taking
            .and_then(|taking| taking.joined.as_mut())
            .and_then(|joined| joined.asker.take_if(|(_, asked)| *asked == step));
        if let Some((asker, _)) = asker {
            self.effects.push_back(Effect::Answer(asker, outcome));
        }
    }

    /// All cores carry the number, and hold.
    pub(super) fn adopted(&mut self, volume: VolumeId, number: SnapshotId) {
        self.answer(volume, CutStep::Adopt, CutOutcome::Adopted);
        let joined = self.volumes.get(&volume).and_then(|taking| taking.joined.as_ref());
        let is_decided = joined.is_some_and(|joined| joined.decided.is_some());
        if is_decided || self.faults.has(Fault::LetGoAlone) {
            self.let_go(volume, number);
        }
    }

    /// It has been held for as long as it may be.
    pub(super) fn lapse(&mut self, now: Time, volume: VolumeId, number: SnapshotId) {
        let taking = self.volumes.get_mut(&volume);
        let Some(joined) = taking.and_then(|taking| taking.joined.as_mut()) else {
            return;
        };
        if joined.lapses.is_some_and(|at| now >= at) {
            joined.lapsed = true;
            self.let_go(volume, number);
        }
    }

    /// What carries the number is acknowledged from now on.
    fn let_go(&mut self, volume: VolumeId, number: SnapshotId) {
        let (cores, now) = (self.cores, self.now);
        let Some(taking) = self.volumes.get_mut(&volume) else {
            return;
        };
        taking.step = Step::Settling(number, (0..cores).collect());
        let order = Effect::Order(volume, taking.generation, Order::Release(number));
        self.effects.push_back(order);
        let decided = taking.joined.as_mut().and_then(|joined| {
            joined.lapses = None;
            joined.patience = Some(now.plus(LEADER_PATIENCE));
            joined.decided
        });
        if decided == Some(false) {
            self.finish(volume, number, false);
        }
    }

    /// Nothing that is older is left.
    pub(super) fn settled(&mut self, volume: VolumeId, number: SnapshotId) {
        let Some(taking) = self.volumes.get(&volume) else {
            return;
        };
        let decided = taking.joined.as_ref().and_then(|joined| joined.decided);
        self.answer(volume, CutStep::Settle, CutOutcome::Settled);
        if let Some(ready) = decided {
            self.finish(volume, number, ready);
        }
    }

    /// The number is sealed, or withdrawn.
    fn finish(&mut self, volume: VolumeId, number: SnapshotId, ready: bool) {
        if let Some(taking) = self.volumes.get_mut(&volume) {
            taking.step = match ready {
                true => Step::Looking(number),
                false => Step::Withdrawing(number),
            };
            self.go_on(volume);
        }
    }

    /// The records of a number whose set is void were read: they go.
    pub(super) fn withdraw(&mut self, now: Time, volume: VolumeId, number: SnapshotId, reply: &meta::Reply) {
        let Some((record, revision)) = self.ours(volume, reply.value(0)) else {
            self.put_off(now, volume);
            return;
        };
        let Some(taking) = self.volumes.get_mut(&volume) else {
            return;
        };
        let set = taking.joined.as_ref().map(|joined| joined.set.id);
        if !record.lineage.taking || record.lineage.number != number || record.lineage.set != set {
            self.end(volume);
            return;
        }
        let plan = (record, revision);
        let mut call = withdrawal(&plan, reply.value(1));
        if let Some(found) = reply.value(2)
            && found.json::<SnapshotName>().is_ok_and(|name| name.number == number)
        {
            call.compares.push(Compare::ModRevision {
                key: found.key.clone(),
                equals: found.mod_revision,
            });
            let key = found.key.clone();
            call.then.push(Op::Delete { key });
        }
        taking.step = Step::Withdrawn(number);
        self.call(volume, call);
    }

    /// Whether the set is decided that the volume's last number was taken for.
    pub(super) fn resolved(&mut self, now: Time, volume: VolumeId, set: SetId, reply: &meta::Reply) {
        let Some((mut record, revision)) = self.ours(volume, reply.value(0)) else {
            self.put_off(now, volume);
            return;
        };
        let Some(taking) = self.volumes.get_mut(&volume) else {
            return;
        };
        let number = record.lineage.number;
        if !record.lineage.taking || record.lineage.set != Some(set) {
            // It has ended meanwhile.
            taking.step = Step::Reading;
            return self.go_on(volume);
        }
        let found = reply.value(1).map(|found| found.json::<SnapshotSet>());
        let own = reply
            .value(2)
            .and_then(|found| Some((found, found.json::<Snapshot>().ok()?)));
        let call = match (found, own) {
            (Some(Ok(found)), Some((key, mut snapshot))) if found.state == SetState::Ready => {
                record.lineage.end(true);
                if let SnapshotState::Taking(generation) = snapshot.state {
                    snapshot.state = SnapshotState::Sealed(generation);
                }
                let mut call = Call::put_if(map::volume_key(&record.name), revision, json(&record));
                call.then.push(put(key.key.clone(), &snapshot));
                call
            }
            (Some(Ok(found)), _) if found.state == SetState::Taking => {
                let ours = taking.joined.as_ref().is_some_and(|joined| joined.set.id == set);
                if ours {
                    taking.tried = Some(number);
                    return self.begun(volume, number);
                }
                self.put_off(now, volume);
                return;
            }
            (Some(Err(_)), _) => {
                self.put_off(now, volume);
                return;
            }
            _ => withdrawal(&(record, revision), reply.value(2)),
        };
        taking.step = Step::Ending;
        self.call(volume, call);
    }

    /// It was made void, or somebody has decided: the watch tells.
    pub(super) fn back_to_waiting(&mut self, now: Time, volume: VolumeId, number: SnapshotId) {
        if let Some(taking) = self.volumes.get_mut(&volume) {
            let until = now.plus(LEADER_PATIENCE);
            taking.step = Step::Prepared { number, until };
            let decided = taking.joined.as_ref().and_then(|joined| joined.decided);
            if let Some(ready) = decided {
                self.decided(volume, ready);
            }
        }
    }
}

/// The volume's record says that its number is void, and the snapshot's record goes.
fn withdrawal((record, revision): &(map::Volume, u64), snapshot: Option<&meta::KeyValue>) -> Call {
    let mut record = record.clone();
    record.lineage.end(false);
    let mut call = Call::put_if(map::volume_key(&record.name), *revision, json(&record));
    if let Some(found) = snapshot {
        call.compares.push(Compare::ModRevision {
            key: found.key.clone(),
            equals: found.mod_revision,
        });
        let key = found.key.clone();
        call.then.push(Op::Delete { key });
    }
    call
}
