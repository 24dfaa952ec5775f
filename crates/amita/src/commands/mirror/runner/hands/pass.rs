//! A pass: what the other end's point has is brought, volume by volume, and all of them are sealed in one set (decision 081; passes: 080).
//!
//! All targets stay open, by one gateway, until the set is taken: it counts where each was sealed under the generation by which it was written last
//! (T4). A place is what is durable; whoever goes on there writes the same again.

use super::super::far::Far;
use super::{Gateway, TAKING_EVERY, TAKING_FOR, now};
use crate::admin::Described;
use crate::commands::mirror::wire::{OwnedFrame, Reader};
use crate::commands::volume::data::{BLOCK_BYTES, Data, is_alone, not_alone};
use amita_control::admin::{self, MAX_VOLUME_BYTES};
use amita_control::mirror::snapshots_of;
use amita_terminal::error::{Context as _, Failure, Kind, Result};
use amita_types::Generation;
use amita_types::map::{Mirror, MirrorPass, PassPlace, Seen, SnapshotState};
use std::io::Read;
use std::time::{Duration, Instant};

/// The other end is looked at so often, as between passes: who asks here whether it lives goes by that.
const LOOK: Duration = Duration::from_secs(5);
/// Where it has not answered, a pass that goes on is not held up by that again before this.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// How often the place is noted: what a pass loses when its runner dies.
const NOTE_EVERY: Duration = Duration::from_secs(5);

impl Gateway {
    pub(super) fn pass(&mut self, record: &Mirror, far: &dyn Far, sizes: &[u64]) -> Result<()> {
        let Some(mut pass) = record.pass.clone() else {
            return Ok(());
        };
        if pass.places.len() != record.volumes.len() || pass.places.len() != sizes.len() {
            return Err(Failure::new("the pass is not of the mirror's volumes").kind(Kind::Conflict));
        }
        if self.is_sealed(record, &pass) {
            // By whoever was at it before: an opening now would be later than what was sealed.
            return self.arrive();
        }
        (self.noted, self.looks) = (Instant::now(), Instant::now() + LOOK);
        for at in 0..pass.places.len() {
            if !pass.places[at].whole {
                self.bring_volume((record, far), &mut pass, at)?;
            }
        }
        for at in 0..pass.places.len() {
            if !self.opened.contains(&at) {
                self.open(record, &mut pass, at)?;
            }
        }
        self.arrive()
    }

    /// Is the set of the pass taken already, of volumes that nobody has opened since?
    fn is_sealed(&self, record: &Mirror, pass: &MirrorPass) -> bool {
        let name = snapshots_of(record, pass.to);
        let is_taken = |(volume, place): (&amita_types::map::MirrorVolume, &PassPlace)| {
            let found = admin::mirrored_volume(&self.client, record, volume.id).ok();
            let taken = found.and_then(|found| admin::snapshot(&self.client, &found.name, &name).ok());
            place.whole && taken.is_some_and(|taken| taken.state == SnapshotState::Sealed(place.generation))
        };
        record.volumes.iter().zip(&pass.places).all(is_taken)
    }

    fn arrive(&self) -> Result<()> {
        let until = Instant::now() + TAKING_FOR;
        loop {
            match admin::arrive(&self.client, &self.name, self.claim, now()).described()? {
                Some(true) => return Ok(()),
                Some(false) if Instant::now() >= until => {
                    let what = format!(
                        "the snapshots of the point were not taken within {} s: a store does not answer and is not out of its groups yet",
                        TAKING_FOR.as_secs()
                    );
                    return Err(Failure::new(what).kind(Kind::Unreachable).advice("See `amita status`"));
                }
                Some(false) => self.wanted.rest(TAKING_EVERY)?,
                None => return Err(self.wanted.lose()),
            }
        }
    }

    fn bring_volume(&mut self, (record, far): (&Mirror, &dyn Far), pass: &mut MirrorPass, at: usize) -> Result<()> {
        let name = record.volumes[at].name.as_str();
        let (mut from, size_bytes, mut whole) = ask(far, pass, (at, name))?;
        pass.places[at].total_bytes = size_bytes;
        self.grow(record, at, size_bytes)?;
        self.open(record, pass, at)?;
        let Some(mut target) = self.target.take() else {
            return Err(Failure::new(format!("volume {name} is not open any more")));
        };
        if target.size_bytes() > size_bytes {
            // That may last, and the other end waits for nobody who takes nothing.
            drop(from);
            let cut_off = self.cut_off(record, &mut target, pass.places[at].generation, (at, size_bytes));
            let again = cut_off.and_then(|()| ask(far, pass, (at, name)));
            (from, whole) = match again {
                Ok((from, same, whole)) if same == size_bytes => (from, whole),
                other => {
                    self.target = Some(target);
                    let what = format!("volume {name}: the point has another size by now");
                    return Err(other.err().unwrap_or_else(|| Failure::new(what).kind(Kind::Conflict)));
                }
            };
        }
        // Of what was never written nothing has to be cleared.
        let clears = whole || pass.base.is_some() || pass.clears;
        let brought = self.write(&mut target, &mut from, pass, (at, clears), (record, far));
        if brought.is_err() {
            let place = &mut pass.places[at];
            place.done_bytes = target.place().unwrap_or(place.done_bytes).min(place.done_bytes);
            // The failure that is told is the first one.
            let _ = self.note(pass, at, false);
        }
        self.target = Some(target);
        brought
    }

    /// The volume is made as large as the point's, where it is smaller.
    fn grow(&self, record: &Mirror, at: usize, size_bytes: u64) -> Result<()> {
        let found = admin::mirrored_volume(&self.client, record, record.volumes[at].id).described()?;
        if found.size_bytes >= size_bytes {
            return Ok(());
        }
        match admin::resize_mirrored(&self.client, &found.name, size_bytes, (record, self.claim)).described()? {
            Some(_) => Ok(()),
            None => Err(self.wanted.lose()),
        }
    }

    /// Where it is larger it is made as small: what lies behind the point's end is cleared first, as when an operator makes a volume smaller (decision 055),
    /// so that it is zeros when the volume grows again.
    fn cut_off(
        &self,
        record: &Mirror,
        target: &mut Data,
        generation: Generation,
        (at, size_bytes): (usize, u64),
    ) -> Result<()> {
        let found = admin::mirrored_volume(&self.client, record, record.volumes[at].id).described()?;
        if found.size_bytes <= size_bytes {
            return Ok(());
        }
        if found.generation != generation {
            return Err(not_alone(&found.name, "of it is cleared"));
        }
        // All of it is durable on every copy then.
        target.clear(size_bytes)?;
        match admin::shrink_mirrored(&self.client, &found, size_bytes, (record, self.claim)).described()? {
            Some(_) => Ok(()),
            None => Err(self.wanted.lose()),
        }
    }

    /// Opens a volume as its one owner, and notes by which generation, before anything is written.
    fn open(&mut self, record: &Mirror, pass: &mut MirrorPass, at: usize) -> Result<()> {
        let id = record.volumes[at].id;
        let before = admin::mirrored_volume(&self.client, record, id).described()?;
        let target = match self.target.take() {
            Some(open) => open.beside(&before.name)?,
            None => self.way(record).open(&before.name)?,
        };
        let now = admin::mirrored_volume(&self.client, record, id).described();
        let is_ours = now.as_ref().is_ok_and(|now| is_alone(&target, &before, now));
        self.target = Some(target);
        let now = now?;
        if !is_ours {
            return Err(not_alone(&before.name, "more is brought"));
        }
        // What is closed is written by runners alone, and each has noted its generation before: what is noted as done holds, whoever has opened
        // it in between.
        pass.places[at].generation = now.generation;
        self.note(pass, at, false)?;
        self.opened.insert(at);
        Ok(())
    }

    /// Notes how far a volume is, if the mirror is ours still.
    fn note(&mut self, pass: &MirrorPass, at: usize, goes_on: bool) -> Result<()> {
        self.noted = Instant::now();
        let (to, place) = (pass.to, pass.places[at]);
        let noted = admin::note_mirror(&self.client, &self.name, self.claim, &|record| {
            let own = record.pass.as_mut().filter(|own| own.to == to);
            if let Some(found) = own.and_then(|own| own.places.get_mut(at)) {
                *found = place;
            }
            if goes_on {
                record.ails = self.renewal.ails(record, now());
            }
        });
        match noted.described()? {
            Some(_) => Ok(()),
            None => Err(self.wanted.lose()),
        }
    }

    fn write<R: Read>(
        &mut self,
        target: &mut Data,
        from: &mut Reader<R>,
        pass: &mut MirrorPass,
        (at, clears): (usize, bool),
        (record, far): (&Mirror, &dyn Far),
    ) -> Result<()> {
        let name = record.volumes[at].name.as_str();
        let size_bytes = pass.places[at].total_bytes;
        loop {
            self.wanted.check()?;
            self.look(record, far)?;
            match next(from, name)? {
                OwnedFrame::Begin { .. } => {
                    return Err(Failure::new(format!("volume {name}: what comes of it begins twice")));
                }
                OwnedFrame::Data { offset, bytes } => {
                    let length = bytes.len() as u64;
                    within(name, (offset, length), size_bytes)?;
                    let wanted = &self.wanted;
                    self.pace.take(length, || wanted.rate(), |time| wanted.rest(time))?;
                    target.write(offset, &bytes)?;
                    pass.places[at].written_bytes += length;
                    self.note_at_times(target, pass, at)?;
                }
                OwnedFrame::Zeros { offset, length } => {
                    within(name, (offset, length), size_bytes)?;
                    if clears {
                        target.write_zeroes(offset, length)?;
                    }
                }
                OwnedFrame::Reached(offset) => {
                    within(name, (offset, 0), size_bytes)?;
                    self.reached(target, pass, at, offset)?;
                }
                OwnedFrame::End(end) => {
                    if end != size_bytes {
                        return Err(Failure::new(format!(
                            "volume {name}: what comes of it ends at {end} of {size_bytes} bytes"
                        )));
                    }
                    target.finish()?;
                    let place = &mut pass.places[at];
                    (place.done_bytes, place.whole) = (size_bytes, true);
                    return self.note(pass, at, true);
                }
            }
        }
    }

    /// Looks at the other end where it is time, and notes what it is; and the token by which it knows this one is renewed.
    fn look(&mut self, record: &Mirror, far: &dyn Far) -> Result<()> {
        if Instant::now() < self.looks {
            return Ok(());
        }
        let looked = far.look();
        self.looks = Instant::now() + if looked.is_ok() { LOOK } else { LOOK_AGAIN };
        let link = match looked {
            Ok(link) => link,
            // What is read of it comes, or does not: that is told.
            Err(why) => {
                log::debug!("mirror {}: {}", self.name, why.what);
                return Ok(());
            }
        };
        let seen = Seen {
            standing: link.standing,
            at: now().as_secs(),
            clock: link.clock,
        };
        match admin::see_mirror(&self.client, &self.name, self.claim, &seen) {
            Ok(Some(after)) => {
                self.renewal.look(&self.client, &after, (&record.peer, far), now());
                Ok(())
            }
            Ok(None) => Err(self.wanted.lose()),
            Err(why) => {
                log::debug!(
                    "mirror {}: what is seen of the other end is not noted: {why}",
                    self.name
                );
                Ok(())
            }
        }
    }

    /// Everything before is begun. What of it is durable is noted, at times.
    fn reached(&mut self, target: &Data, pass: &mut MirrorPass, at: usize, offset: u64) -> Result<()> {
        let place = &mut pass.places[at];
        place.done_bytes = place.done_bytes.max(offset);
        self.note_at_times(target, pass, at)
    }

    fn note_at_times(&mut self, target: &Data, pass: &mut MirrorPass, at: usize) -> Result<()> {
        if self.noted.elapsed() <= NOTE_EVERY {
            return Ok(());
        }
        let place = &mut pass.places[at];
        let begun = place.done_bytes;
        place.done_bytes = target.place().unwrap_or(begun).min(begun);
        let noted = self.note(pass, at, true);
        pass.places[at].done_bytes = begun;
        noted
    }
}

/// What a volume comes from.
type Source = Reader<Box<dyn Read>>;

/// Asks for what the pass's point has of a volume, behind what is done: what comes, the volume's size at the point, and whether it is all of it.
fn ask(far: &dyn Far, pass: &MirrorPass, (at, name): (usize, &str)) -> Result<(Source, u64, bool)> {
    let mut from = far.data(pass.to, name, pass.base, pass.places[at].done_bytes)?;
    match next(&mut from, name)? {
        OwnedFrame::Begin { size_bytes, whole } => {
            can_be(name, size_bytes)?;
            Ok((from, size_bytes, whole))
        }
        _ => Err(Failure::new(format!(
            "volume {name}: what comes of it does not begin with its size"
        ))),
    }
}

fn next<R: Read>(from: &mut Reader<R>, name: &str) -> Result<OwnedFrame> {
    let next = from.next().context(|| format!("volume {name}, from the other end"))?;
    next.ok_or_else(|| Failure::new(format!("volume {name}: what comes of it was cut short")).kind(Kind::Unreachable))
}

/// Can a volume have that size at a point? What it has at the other end now says nothing of that: it may be larger or smaller since.
fn can_be(name: &str, size_bytes: u64) -> Result<()> {
    match size_bytes > 0 && size_bytes <= MAX_VOLUME_BYTES && size_bytes.is_multiple_of(BLOCK_BYTES as u64) {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "volume {name}: the other end says that its point has {size_bytes} bytes of it, which is no volume's size"
        ))
        .kind(Kind::Conflict)),
    }
}

/// Whole blocks, within the volume.
fn within(name: &str, (offset, length): (u64, u64), size_bytes: u64) -> Result<()> {
    let block = BLOCK_BYTES as u64;
    let is_whole = offset.is_multiple_of(block) && length.is_multiple_of(block);
    match is_whole && offset.checked_add(length).is_some_and(|end| end <= size_bytes) {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "volume {name}: what comes of it is of no blocks of its {size_bytes} bytes: {length} at {offset}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_has_what_a_volume_can_have() {
        for good in [4096, 1 << 30, MAX_VOLUME_BYTES] {
            assert!(can_be("db", good).is_ok(), "{good}");
        }
        for bad in [0, 4097, MAX_VOLUME_BYTES + 4096, u64::MAX] {
            assert!(can_be("db", bad).is_err_and(|why| why.kind == Kind::Conflict), "{bad}");
        }
    }

    #[test]
    fn what_is_no_block_of_the_volume_is_not_written() {
        let size_bytes = 1 << 20;
        for good in [(0, 4096), (4096, 0), (size_bytes, 0), (0, size_bytes)] {
            assert!(within("db", good, size_bytes).is_ok(), "{good:?}");
        }
        for bad in [(1, 4096), (0, 4095), (size_bytes, 4096), (u64::MAX - 4095, 8192)] {
            assert!(within("db", bad, size_bytes).is_err(), "{bad:?}");
        }
    }
}
