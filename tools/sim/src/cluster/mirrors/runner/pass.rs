//! What is done to a mirror's volumes themselves: a pass, and going back to a point.

use super::super::wire::{Did, FarAnswer, FarAsk, Taken};
use super::{Failure, Result, Turn, said};
use crate::cluster::moves::line::{Ask, End, Opened, Piece};
use crate::cluster::records::json;
use amita_control::admin::{self, AdminError, TakingState};
use amita_control::mirror::snapshots_of;
use amita_metadata::{Call, Compare, Op, Transact};
use amita_types::map::{self, Mirror, MirrorPass, PassPlace, Point, Snapshot, SnapshotState, Volume};
use amita_types::{Generation, PoolId, VolumeId};
use std::collections::BTreeMap;
use std::time::Duration;

/// How often the place is noted.
const NOTE_EVERY: Duration = Duration::from_millis(30);
/// Snapshots are waited for so long, and it is looked so often.
const TAKING_FOR: Duration = Duration::from_secs(6);
const TAKING_EVERY: Duration = Duration::from_millis(10);
/// A node hears of a record within this, mostly.
const HEARD: Duration = Duration::from_millis(45);
/// Writes under way.
const DEPTH: usize = 8;

pub(in crate::cluster::mirrors) fn is_alone(open: &Opened, before: &Volume, now: &Volume) -> bool {
    now.id == before.id && Some(now.generation) == before.generation.next() && open.size_bytes == now.size_bytes
}

impl Turn<'_> {
    /// The product's runner has gateways of its own, which end with a pass. Those of the simulation go on, and own what was open there: that is taken
    /// from them, so that whoever opens it, there as well, raises its generation.
    fn take_from_own_gateway(&self, before: Volume) -> Result<Volume> {
        if before.owner != Some(self.node) {
            return Ok(before);
        }
        let key = map::volume_key(&before.name);
        let found = self.line.txn(&Call::get(key.clone())).map_err(AdminError::from)?;
        let revision = found.value(0).map_or(0, |found| found.mod_revision);
        let now: Option<Volume> = found.value(0).and_then(|found| found.json().ok());
        let (Some(generation), false) = (before.generation.next(), before.lineage.taking) else {
            return Err(said("a snapshot of it is being taken"));
        };
        if now.as_ref() != Some(&before) {
            return Err(said("the volume was changed meanwhile"));
        }
        let taken = Volume {
            generation,
            owner: None,
            ..before
        };
        let raised = map::Raised {
            volume: taken.id,
            generation,
        };
        let put = |key: String, value: Vec<u8>| Op::Put {
            key,
            value,
            lease: None,
        };
        let call = Call {
            compares: vec![Compare::ModRevision {
                key: key.clone(),
                equals: revision,
            }],
            then: vec![put(map::raised_key(PoolId(1)), json(&raised)), put(key, json(&taken))],
            otherwise: Vec::new(),
        };
        if !self.line.txn(&call).map_err(AdminError::from)?.succeeded {
            return Err(said("the volume was changed meanwhile"));
        }
        // The node hears of it.
        self.rest(HEARD)?;
        Ok(taken)
    }

    pub(super) fn pass(&mut self, record: &Mirror, sizes: &[u64]) -> Result<()> {
        let Some(mut pass) = record.pass.clone() else {
            return Ok(());
        };
        if pass.places.len() != record.volumes.len() || pass.places.len() != sizes.len() {
            return Err(said("the pass is not of the mirror's volumes"));
        }
        if self.is_sealed(record, &pass) {
            self.line.say(Ask::Hit("mirror.sealed_before"));
            return self.arrive();
        }
        self.did(Did::Writes);
        for at in 0..pass.places.len() {
            if !pass.places[at].whole {
                self.bring_volume(record, &mut pass, at)?;
                if self.plants.has(amita_control::Fault::ArriveInParts) {
                    return self.arrive();
                }
            }
        }
        for at in 0..pass.places.len() {
            if !self.opened.contains(&at) {
                self.open(record, &mut pass, at)?;
            }
        }
        self.arrive()
    }

    fn is_sealed(&self, record: &Mirror, pass: &MirrorPass) -> bool {
        let name = snapshots_of(record, pass.to);
        let is_taken = |(volume, place): (&amita_types::map::MirrorVolume, &PassPlace)| {
            let found = admin::mirrored_volume(self.line, record, volume.id).ok();
            let taken = found.and_then(|found| admin::snapshot(self.line, &found.name, &name).ok());
            place.whole && taken.is_some_and(|taken| taken.state == SnapshotState::Sealed(place.generation))
        };
        record.volumes.iter().zip(&pass.places).all(is_taken)
    }

    fn arrive(&self) -> Result<()> {
        let until = self.line.now() + TAKING_FOR;
        self.did(Did::Seals);
        loop {
            match admin::arrive(self.line, &self.name, self.claim, self.now())? {
                Some(true) => {
                    self.line.say(Ask::Hit("mirror.arrived"));
                    return Ok(());
                }
                Some(false) if self.line.now() >= until => {
                    return Err(said("the snapshots of the point were not taken in time"));
                }
                Some(false) => self.rest(TAKING_EVERY)?,
                None => return Err(self.lose()),
            }
        }
    }

    fn bring_volume(&mut self, record: &Mirror, pass: &mut MirrorPass, at: usize) -> Result<()> {
        let name = record.volumes[at].name.clone();
        let mut open = None;
        let mut noted = self.line.now();
        loop {
            self.check()?;
            let ask = FarAsk::Take {
                point: pass.to,
                volume: name.clone(),
                base: pass.base,
                after: pass.places[at].done_bytes,
            };
            let FarAnswer::Taken(taken) = self.line.far(ask)? else {
                return Err(said("it answers something else"));
            };
            let target = match open {
                Some(open) => open,
                None => {
                    pass.places[at].total_bytes = taken.size_bytes;
                    self.grow(record, at, taken.size_bytes)?;
                    let open = self.open(record, pass, at)?;
                    self.cut_off(record, open, pass.places[at].generation, (at, taken.size_bytes))?;
                    open
                }
            };
            open = Some(target);
            let clears = taken.whole || pass.base.is_some() || pass.clears;
            self.line.say(Ask::Hit(match (pass.base.is_some(), taken.whole) {
                (true, false) => "mirror.took_differences",
                (true, true) => "mirror.took_all_again",
                (false, _) => "mirror.took_all",
            }));
            let written = self.write(at, target, &taken, clears);
            let place = &mut pass.places[at];
            if let Err(why) = written {
                // The failure that is told is the first one.
                let _ = self.note(pass, at);
                return Err(why);
            }
            place.done_bytes = place.done_bytes.max(taken.reached);
            if place.done_bytes >= taken.size_bytes {
                place.whole = true;
                return self.note(pass, at);
            }
            if self.line.now().saturating_sub(noted) > NOTE_EVERY {
                noted = self.line.now();
                self.note(pass, at)?;
            }
        }
    }

    fn grow(&self, record: &Mirror, at: usize, size_bytes: u64) -> Result<()> {
        let found = admin::mirrored_volume(self.line, record, record.volumes[at].id)?;
        if found.size_bytes >= size_bytes {
            return Ok(());
        }
        match admin::resize_mirrored(self.line, &found.name, size_bytes, (record, self.claim))? {
            Some(_) => Ok(()),
            None => Err(self.lose()),
        }
    }

    fn cut_off(
        &self,
        record: &Mirror,
        target: Opened,
        generation: Generation,
        (at, size_bytes): (usize, u64),
    ) -> Result<()> {
        if target.size_bytes <= size_bytes {
            return Ok(());
        }
        let found = admin::mirrored_volume(self.line, record, record.volumes[at].id)?;
        if found.generation != generation {
            return Err(said("others have the volume, and nothing of it is cleared"));
        }
        let mut offset = size_bytes;
        while offset < found.size_bytes && !self.plants.has(amita_control::Fault::CutOffUncleared) {
            self.check()?;
            let end = (offset - offset % target.chunk_bytes + target.chunk_bytes).min(found.size_bytes);
            let length = end - offset;
            let clear = vec![Piece::Clear { offset, length }];
            self.line.io(End::Nth(at), clear).map_err(Failure::Said)?;
            offset = end;
        }
        match admin::shrink_mirrored(self.line, &found, size_bytes, (record, self.claim))? {
            Some(_) => Ok(()),
            None => Err(self.lose()),
        }
    }

    /// Opens a volume as its one owner, and notes by which generation, before anything is written.
    fn open(&mut self, record: &Mirror, pass: &mut MirrorPass, at: usize) -> Result<Opened> {
        let id = record.volumes[at].id;
        let before = self.take_from_own_gateway(admin::mirrored_volume(self.line, record, id)?)?;
        let target = self
            .line
            .open(End::Nth(at), &before.name, None)
            .map_err(Failure::Said)?;
        if !self.opened.contains(&at) {
            self.opened.push(at);
        }
        let now = admin::mirrored_volume(self.line, record, id)?;
        if !is_alone(&target, &before, &now) {
            self.line.say(Ask::Hit("mirror.not_alone"));
            return Err(said(format!("others have opened volume {}", before.name)));
        }
        pass.places[at].generation = now.generation;
        self.note(pass, at)?;
        Ok(target)
    }

    fn note(&self, pass: &MirrorPass, at: usize) -> Result<()> {
        let (to, place) = (pass.to, pass.places[at]);
        let noted = admin::note_mirror(self.line, &self.name, self.claim, &|record| {
            let own = record.pass.as_mut().filter(|own| own.to == to);
            if let Some(found) = own.and_then(|own| own.places.get_mut(at)) {
                *found = place;
            }
            record.ails = None;
        });
        match noted? {
            Some(_) => Ok(()),
            None => Err(self.lose()),
        }
    }

    /// Writes a piece, and waits for all of it: what is answered is durable.
    fn write(&self, at: usize, target: Opened, taken: &Taken, clears: bool) -> Result<()> {
        let mut pieces = Vec::new();
        for (offset, data, length) in &taken.pieces {
            if offset + length > target.size_bytes {
                return Err(said("what comes is of no blocks of the volume"));
            }
            match data {
                Some(data) => pieces.push(Piece::Write {
                    offset: *offset,
                    data: data.clone(),
                }),
                None if clears => pieces.push(Piece::Clear {
                    offset: *offset,
                    length: *length,
                }),
                None => {}
            }
        }
        while !pieces.is_empty() {
            self.check()?;
            let rest = pieces.split_off(pieces.len().min(DEPTH));
            let now = std::mem::replace(&mut pieces, rest);
            self.line.io(End::Nth(at), now).map_err(Failure::Said)?;
        }
        Ok(())
    }

    /// Makes a volume what it was at the point, by the transaction of `amita volume revert` (decision 056).
    pub(super) fn revert(&mut self, record: &Mirror, volume: VolumeId, point: &Point, keep: bool) -> Result<()> {
        self.check()?;
        let mut before = admin::mirrored_volume(self.line, record, volume)?;
        let to = admin::snapshot(self.line, &before.name, &point.snapshots)?;
        if to.size_bytes > before.size_bytes {
            let grown = admin::resize_mirrored(self.line, &before.name, to.size_bytes, (record, self.claim))?;
            before = grown.ok_or_else(|| self.lose())?;
        }
        admin::may_revert(self.line, &before, &to, Some(record.id))?;
        let before = self.take_from_own_gateway(before)?;
        let open = self.line.open(End::Nth(0), &before.name, None).map_err(Failure::Said)?;
        let owned = self.own(record, &before, open, &to);
        self.line.say(Ask::Close(End::Nth(0)));
        let (owned, taken) = owned?;
        let revert = admin::Revert {
            volume: &owned,
            to: &to,
            before: &taken,
            keep,
            now: self.now(),
            keys: None,
            mirror: Some(record.id),
        };
        let reverted = admin::revert_volume(self.line, &revert);
        if reverted.is_err() {
            let gone = admin::delete_snapshot(self.line, &owned.name, &taken.name);
            drop(gone);
        }
        reverted?;
        self.line.say(Ask::Hit("mirror.reverted"));
        Ok(())
    }

    /// The volume as it is owned here, and what was taken of it: all its stores have adopted the generation then.
    fn own(&self, record: &Mirror, before: &Volume, open: Opened, to: &Snapshot) -> Result<(Volume, Snapshot)> {
        let owned = admin::volume(self.line, &before.name)?;
        if !is_alone(&open, before, &owned) {
            return Err(said("others have opened the volume"));
        }
        self.check()?;
        // No two are taken in one moment.
        let name = format!("before-revert-{}", self.line.now().as_nanos());
        let labels = BTreeMap::from([("amita:revert".to_owned(), to.name.clone())]);
        let wish = admin::ask_mirrors_snapshot(self.line, &owned.name, &name, labels, self.now(), record.id)?;
        let until = self.line.now() + TAKING_FOR;
        loop {
            match admin::snapshot_state(self.line, &wish)? {
                TakingState::Taken(taken) => return Ok((owned, taken)),
                TakingState::Waiting if self.line.now() < until => self.rest(TAKING_EVERY)?,
                TakingState::Waiting => {
                    admin::drop_snapshot_wish(self.line, &wish)?;
                    return Err(said("the snapshot was not taken in time"));
                }
                TakingState::Refused(why) => return Err(said(why)),
                _ => return Err(said("the snapshot was not taken")),
            }
        }
    }
}
