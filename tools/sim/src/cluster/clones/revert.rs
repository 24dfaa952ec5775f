//! Clones are made again what they were (S13; `docs/decisions/056`), as `amita volume revert` does it, by the product's own functions: the
//! operator has the volume alone, takes a snapshot of it, by which all its stores adopt his generation, lets go of it, and then one
//! transaction puts a clone of a snapshot in its place.
//!
//! The snapshots that are taken so are what later reverts go to. From a revert on the guest must find what that snapshot had, and nothing that was
//! written since, forth and back. In some reverts he does not let go: he goes on as long as he is let, by an owner who may not
//! have heard of anything. What he is told of what he asked for after the revert must be true of what the volume is then.

use super::{CLEARED, Guest, LOOK, Possible, RETRY};
use crate::cluster::alone::Seat;
use crate::cluster::node::node_id;
use crate::cluster::operator::Desk;
use crate::cluster::records::json;
use crate::cluster::{Cluster, SETTLE};
use crate::faults::Member;
use crate::random::Random;
use amita_control::admin::{self, AdminError, FormerSweep, TakingState};
use amita_frontend::Event;
use amita_metadata::Call;
use amita_reactor::Time;
use amita_types::map::{self, Snapshot, SnapshotName, SnapshotState, SnapshotWish};
use amita_types::{BLOCK_BYTES, Generation, SnapshotId, VolumeId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// An opening that has not ended after this is given up, and tried elsewhere.
const OPEN_PATIENCE: Duration = Duration::from_secs(4);
/// The operator gives up after this.
const PATIENCE: Duration = Duration::from_secs(12);
/// The most times that one clone is reverted, or that a snapshot of it is taken to be reverted to.
const TIMES: u64 = 5;

/// A snapshot of a clone, and what the volume was then.
pub(super) struct Known {
    name: String,
    number: SnapshotId,
    blocks: u64,
    inherited: BTreeMap<u64, u64>,
    own: BTreeMap<u64, Possible>,
}

/// What one guest's volume has of it.
#[derive(Default)]
pub(super) struct Turns {
    /// When the next one begins, and how many are left.
    pub at: Option<Time>,
    left: u64,
    known: Vec<Known>,
    /// The guest has not let go of the volume, and goes on.
    pub stays: bool,
    /// Where the operator had it, by the node's process, under this number and generation. The command's own gateway has ended when it reverts a
    /// volume; a node goes on, and nobody asks for the volume there before it has heard of that.
    pub shuns: Vec<(Member, u64, VolumeId, Generation)>,
    /// What he had under way when the volume was reverted, by block: it tells nothing.
    pub overtaken: BTreeSet<u64>,
}

impl Turns {
    /// Those of a clone that is made now.
    pub fn draw(random: &mut Random, now: Time, percent: u64) -> Turns {
        let at = next(random, now);
        Turns {
            at: random.percent(percent).then_some(at),
            left: random.within(2, TIMES),
            ..Turns::default()
        }
    }

    /// A snapshot of it is there.
    pub fn know(&mut self, known: Option<Known>) {
        self.known.extend(known);
    }
}

fn next(random: &mut Random, now: Time) -> Time {
    Time(now.0 + random.within(5_000_000, 400_000_000))
}

impl Known {
    /// What a guest knows of his volume.
    pub fn of(guest: &Guest, snapshot: &Snapshot) -> Known {
        Known {
            name: snapshot.name.clone(),
            number: snapshot.number,
            blocks: snapshot.size_bytes / u64::from(BLOCK_BYTES),
            inherited: guest.inherited.clone(),
            own: guest.own.clone(),
        }
    }
}

enum Phase {
    /// The guest lets go of the volume, or it is tried again.
    LetGo,
    /// It is being opened; this was its record before.
    Opening(Box<map::Volume>),
    /// This was asked for.
    Taking(Box<map::Volume>, SnapshotWish),
}

struct Reverting {
    index: usize,
    name: String,
    /// The place of what it is to be again among what is known; none: there is nothing yet.
    to: Option<usize>,
    keep: bool,
    phase: Phase,
    seat: Option<Seat>,
    again: Time,
    until: Time,
}

impl Reverting {
    fn try_again(&mut self, now: Time) {
        (self.phase, self.again) = (Phase::LetGo, now.plus(RETRY));
    }
}

/// All of a run.
pub struct Reverts {
    random: Random,
    all: Vec<Reverting>,
    taken: u32,
    sweep: FormerSweep,
    sweeps_at: Time,
    /// No more begin.
    ended: bool,
}

impl Reverts {
    /// None yet.
    pub fn new(random: Random) -> Reverts {
        Reverts {
            random,
            all: Vec::new(),
            taken: 0,
            sweep: FormerSweep::default(),
            sweeps_at: Time(0),
            ended: false,
        }
    }

    /// Chance for a clone that is made.
    pub fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// When something is next due, though nothing has happened.
    pub fn next(&self) -> Option<Time> {
        let each = self.all.iter().map(|reverting| reverting.again.min(reverting.until));
        each.min()
    }
}

impl Cluster {
    /// Is the node where the operator had the clone, before it was reverted, and has it still what it was?
    pub(super) fn is_shunned(&self, index: usize, member: Member) -> bool {
        let node = &self.nodes[member];
        let has = |volume: VolumeId, generation: Generation| {
            let mut cores = node.each_core();
            cores.any(|core| core.shards().generation(volume) == Some(generation))
        };
        let mut shuns = self.clones.guests[index].turns.shuns.iter();
        shuns.any(|(at, process, volume, under)| (*at, *process) == (member, node.process) && has(*volume, *under))
    }

    /// The operator begins to revert a clone, when its time has come.
    pub(super) fn begin_revert(&mut self, now: Time, index: usize) {
        let ending = self.clones.ending;
        let guest = &mut self.clones.guests[index];
        let is_free = guest.deletion.is_none() && guest.wish.is_none() && !guest.rests;
        // An owner that lives, and is heard, gives nothing away that is used; from one that is not heard any more it is had when its
        // lease has run out, and it may not know of that when it goes on.
        let gateway = &self.nodes[guest.gateway];
        let is_unheard = gateway.frozen_until > now || !self.metadata.reaches(now, node_id(guest.gateway));
        let is_unheard = is_unheard && guest.open.is_some() && !guest.turns.known.is_empty();
        if guest.turns.at.is_none_or(|at| now < at && !is_unheard) || !is_free {
            return;
        }
        guest.turns.at = None;
        let reverts = &mut self.clones.reverts;
        if ending || reverts.ended {
            return;
        }
        let fits = |known: &Known| known.blocks <= guest.blocks;
        let all: Vec<usize> = guest
            .turns
            .known
            .iter()
            .enumerate()
            .filter(|(_, known)| fits(known))
            .map(|(place, _)| place)
            .collect();
        let to = (!all.is_empty()).then(|| *reverts.random.pick(&all));
        // A pretended snapshot is nothing to go back to.
        let keep = to.is_none() || (reverts.random.percent(70) && !self.setup.plants.revert_unadopted);
        let percent = if is_unheard { 90 } else { 10 };
        guest.turns.stays = to.is_some() && guest.open.is_some() && reverts.random.percent(percent);
        guest.rests = true;
        let name = guest.name.clone();
        let target = to.map(|place| guest.turns.known[place].name.clone());
        let stays = guest.turns.stays;
        reverts.all.push(Reverting {
            index,
            name: name.clone(),
            to,
            keep,
            phase: Phase::LetGo,
            seat: None,
            again: now,
            until: now.plus(PATIENCE),
        });
        self.hosts.has_moved = true;
        self.tell(|| format!("{name} is to be {target:?} again; its guest stays: {stays}"));
    }

    /// Everything about reverts that is due.
    pub(in crate::cluster) fn revert_clones(&mut self, now: Time) -> Result<(), String> {
        for mut reverting in std::mem::take(&mut self.clones.reverts.all) {
            if self.revert(now, &mut reverting)? {
                self.clones.reverts.all.push(reverting);
            } else {
                self.leave_seat(reverting.seat.take());
                self.rest_clone(reverting.index, false);
                let turns = &mut self.clones.guests[reverting.index].turns;
                turns.stays = false;
                turns.left = turns.left.saturating_sub(1);
                turns.at = (turns.left > 0).then(|| next(&mut self.clones.reverts.random, now));
            }
        }
        self.sweep_former(now)
    }

    /// Does what is due for one; `false`: it has ended.
    fn revert(&mut self, now: Time, of: &mut Reverting) -> Result<bool, String> {
        if of.seat.as_ref().is_some_and(|seat| !self.is_seated(seat)) {
            of.seat = None;
            self.drop_wish(now, of)?;
            of.try_again(now);
        }
        while let Some(event) = of.seat.as_ref().and_then(Seat::hear) {
            match event {
                Event::Opened { result: Ok(_), .. } => {
                    if let Some(goes_on) = self.opened_to_revert(now, of)? {
                        return Ok(goes_on);
                    }
                }
                Event::Opened { result: Err(_), .. } | Event::Lost { .. } => {
                    self.leave_seat(of.seat.take());
                    self.drop_wish(now, of)?;
                    of.try_again(now);
                }
                _ => {}
            }
        }
        if now >= of.until {
            self.coverage.hit("revert.given_up");
            self.drop_wish(now, of)?;
            return Ok(false);
        }
        if now < of.again {
            return Ok(true);
        }
        match &of.phase {
            Phase::LetGo => {
                of.again = now.plus(LOOK);
                let stays = self.clones.guests[of.index].turns.stays;
                if (stays || self.has_let_go_of_clone(of.index))
                    && let Some((seat, before)) = self.open_alone(&of.name)
                {
                    of.seat = Some(seat);
                    (of.phase, of.again) = (Phase::Opening(Box::new(before)), now.plus(OPEN_PATIENCE));
                }
                Ok(true)
            }
            Phase::Opening(_) => {
                self.leave_seat(of.seat.take());
                of.try_again(now);
                Ok(true)
            }
            Phase::Taking(volume, wish) => {
                let (volume, wish) = (volume.clone(), wish.clone());
                of.again = now.plus(LOOK);
                let desk = Desk::new(&mut self.metadata, now);
                match admin::snapshot_state(&desk, &wish).map_err(|why| why.to_string())? {
                    TakingState::Waiting => Ok(true),
                    TakingState::Taken(before) => self.switch(now, of, &volume, &before),
                    _ => {
                        self.coverage.hit("revert.not_taken");
                        Ok(false)
                    }
                }
            }
        }
    }

    /// Nobody waits for the snapshot any more; it may be taken all the same.
    fn drop_wish(&mut self, now: Time, of: &Reverting) -> Result<(), String> {
        let Phase::Taking(_, wish) = &of.phase else {
            return Ok(());
        };
        let desk = Desk::new(&mut self.metadata, now);
        admin::drop_snapshot_wish(&desk, wish).map_err(|why| why.to_string())
    }

    /// It is open: a snapshot of it is asked for. Says whether it goes on, where that is decided.
    fn opened_to_revert(&mut self, now: Time, of: &mut Reverting) -> Result<Option<bool>, String> {
        let Phase::Opening(before) = &of.phase else {
            return Ok(None);
        };
        let Some(record) = self.alone(before) else {
            self.coverage.hit("revert.not_alone");
            self.leave_seat(of.seat.take());
            of.try_again(now);
            return Ok(None);
        };
        self.clones.reverts.taken += 1;
        let name = format!("before-{}", self.clones.reverts.taken);
        if self.setup.plants.revert_unadopted && of.to.is_some() {
            let before = self.pretend_taken(now, &record, &name);
            return self.switch(now, of, &record, &before).map(Some);
        }
        let desk = Desk::new(&mut self.metadata, now);
        let wish = admin::ask_own_snapshot(&desk, &of.name, &name, BTreeMap::new(), Duration::from_nanos(now.0));
        match wish {
            Ok(wish) => {
                (of.phase, of.again) = (Phase::Taking(Box::new(record), wish), now.plus(LOOK));
                Ok(None)
            }
            Err(why) => {
                self.tell(|| format!("{} is not reverted: {why}", of.name));
                self.coverage.hit("revert.refused");
                Ok(Some(false))
            }
        }
    }

    /// Records say that a snapshot was taken, and no store has heard of its owner.
    fn pretend_taken(&mut self, now: Time, record: &map::Volume, name: &str) -> Snapshot {
        let number = SnapshotId(record.lineage.number.0 + 1);
        let snapshot = Snapshot {
            volume: record.id,
            number,
            name: name.to_owned(),
            size_bytes: record.size_bytes,
            taken_at: 0,
            labels: BTreeMap::new(),
            protected: false,
            clones: 0,
            set: None,
            mark: false,
            hidden: false,
            state: SnapshotState::Sealed(record.generation),
        };
        let named = SnapshotName::new(record.host(), record.id, number);
        let records = [
            (map::snapshot_key(record.id, number), json(&snapshot)),
            (map::snapshot_name_key(record.host(), name), json(&named)),
        ];
        for (key, value) in records {
            self.metadata.operate(now, &Call::put(key, value));
        }
        snapshot
    }

    /// The operator lets go of the volume, and the transaction is made.
    fn switch(
        &mut self,
        now: Time,
        of: &mut Reverting,
        volume: &map::Volume,
        before: &Snapshot,
    ) -> Result<bool, String> {
        let seat = of.seat.take();
        let had = seat.as_ref();
        let had = had.map(|seat| (seat.member, seat.process, volume.id, volume.generation));
        self.leave_seat(seat);
        let guest = &mut self.clones.guests[of.index];
        let taken = Known::of(guest, before);
        // What he wrote meanwhile may be in it, or not.
        let is_known = !guest.turns.stays;
        let Some(place) = of.to else {
            guest.turns.known.extend(is_known.then_some(taken));
            self.coverage.hit("revert.point");
            self.tell(|| format!("{}@{} may be reverted to", of.name, before.name));
            return Ok(false);
        };
        let (name, number) = (guest.turns.known[place].name.clone(), guest.turns.known[place].number);
        let desk = Desk::new(&mut self.metadata, now);
        let to = match admin::snapshot(&desk, &of.name, &name) {
            Ok(to) if to.number == number => to,
            Ok(_) | Err(AdminError::NoSuch { .. } | AdminError::OnlyMark { .. }) => {
                let known = &mut self.clones.guests[of.index].turns.known;
                known.remove(place);
                known.extend(is_known.then_some(taken));
                self.coverage.hit("revert.target_gone");
                return Ok(false);
            }
            Err(why) => return Err(format!("{}@{name}: {why}", of.name)),
        };
        let revert = admin::Revert {
            volume,
            to: &to,
            before,
            keep: of.keep,
            now: Duration::from_nanos(now.0),
            keys: self.setup.sealed.as_ref().map(|sealed| sealed as &dyn admin::DataKeys),
            mirror: None,
        };
        let reverted = admin::revert_volume(&desk, &revert);
        let guest = &mut self.clones.guests[of.index];
        let new = match reverted {
            Ok(new) => new,
            Err(why) => {
                guest.turns.known.extend(is_known.then_some(taken));
                self.tell(|| format!("{} is not reverted: {why}", of.name));
                self.coverage.hit("revert.refused");
                return Ok(false);
            }
        };
        let known = &guest.turns.known[place];
        guest.inherited.clone_from(&known.inherited);
        guest.own.clone_from(&known.own);
        for block in known.blocks..self.setup.blocks {
            guest.own.insert(block, vec![Some(CLEARED)]);
        }
        // Whoever wrote before has ended before.
        guest.late.clear();
        guest.turns.overtaken = guest.under_way.keys().copied().collect();
        guest.turns.shuns.extend(had);
        guest.id = new.id;
        guest.data.push(new.id);
        if of.keep {
            guest.turns.known.extend(is_known.then_some(taken));
        }
        self.coverage.hit("revert.done");
        let guest = &self.clones.guests[of.index];
        let has_stayed = guest.turns.stays && guest.open.is_some();
        self.coverage.add("revert.stayed", u64::from(has_stayed));
        self.coverage.add("revert.of_former", u64::from(to.volume != volume.id));
        self.coverage.add("revert.unkept", u64::from(!of.keep));
        self.tell(|| format!("{} is {name} again, volume {}", of.name, new.id));
        self.drop_known(now, of)?;
        self.clones.hidden = self.count_hidden();
        Ok(false)
    }

    /// Sometimes one of its snapshots is deleted then.
    fn drop_known(&mut self, now: Time, of: &Reverting) -> Result<(), String> {
        let (guest, random) = (&mut self.clones.guests[of.index], &mut self.clones.reverts.random);
        if guest.turns.known.is_empty() || !random.percent(40) {
            return Ok(());
        }
        let place = random.below(guest.turns.known.len() as u64) as usize;
        let marks = random.percent(30);
        let gone = guest.turns.known.remove(place);
        let desk = Desk::new(&mut self.metadata, now);
        let mut deleted = match marks {
            true => admin::mark_snapshot(&desk, &of.name, &gone.name),
            false => admin::delete_snapshot(&desk, &of.name, &gone.name),
        };
        if let (true, Err(AdminError::BadSetting { .. })) = (marks, &deleted) {
            // Nothing could be compared with it.
            self.coverage.hit("revert.mark_refused");
            deleted = admin::delete_snapshot(&desk, &of.name, &gone.name);
        }
        match deleted {
            Ok(deleted) => self.coverage.hit(match (deleted.hidden, deleted.mark) {
                (true, _) => "revert.snapshot_hidden",
                (_, true) => "revert.snapshot_marked",
                _ => "revert.snapshot_deleted",
            }),
            Err(AdminError::NoSuch { .. }) => {}
            Err(why) => return Err(format!("{}@{} cannot be deleted: {why}", of.name, gone.name)),
        }
        self.tell(|| format!("{}@{} is deleted", of.name, gone.name));
        Ok(())
    }

    /// What volumes were goes when nothing needs it.
    fn sweep_former(&mut self, now: Time) -> Result<(), String> {
        if self.clones.hidden == 0 || now < self.clones.reverts.sweeps_at {
            return Ok(());
        }
        self.clones.reverts.sweeps_at = now.plus(LOOK * 20);
        let desk = Desk::new(&mut self.metadata, now);
        let swept = self.clones.reverts.sweep.sweep(&desk);
        let swept = swept.map_err(|why| format!("no former data is looked at: {why}"))?;
        if let Some((volume, why)) = swept.failed.first() {
            return Err(format!("former data {volume} cannot go: {why}"));
        }
        self.coverage.add("revert.former_gone", swept.gone.len() as u64);
        Ok(())
    }

    /// Those that are under way come to their end, now that nothing is wrong any more.
    pub(in crate::cluster) fn end_reverts(&mut self) -> Result<(), String> {
        self.clones.reverts.ended = true;
        let limit = self.world.now().plus(SETTLE);
        for reverting in &mut self.clones.reverts.all {
            reverting.until = limit.plus(SETTLE);
        }
        for guest in &mut self.clones.guests {
            guest.turns.left = 0;
            guest.turns.at = None;
            // Nobody has the volume of an owner that lives and is used.
            guest.turns.stays = false;
        }
        while let Some(first) = self.clones.reverts.all.first() {
            let name = first.name.clone();
            if self.world.now() >= limit {
                let may_wait = (0..self.setup.volumes).any(|volume| self.may_block_in(volume));
                if !may_wait && !self.ledger.is_anything_damaged() {
                    return Err(format!(
                        "nothing is wrong any more, and after {SETTLE:?} {name} is not reverted\n{}",
                        self.describe()
                    ));
                }
                // Some chunk waits for ever.
                let now = self.world.now();
                self.clones
                    .reverts
                    .all
                    .iter_mut()
                    .for_each(|reverting| reverting.until = now);
            }
            self.step(limit.plus(SETTLE))?;
        }
        Ok(())
    }
}
