//! A copy is made: passes, each to a snapshot of the source (decision 080, P1 to P5).

use super::last::Missed;
use crate::admin::Described;
use crate::commands::claim::Claim;
use crate::commands::pace::{self, Pace, Rate};
use crate::commands::volume::data::{BLOCK_BYTES, Content, Data, Way, is_alone, not_alone, runs};
use crate::commands::volume::diff;
use crate::commands::wanted::Wanted;
use amita_client::{Config, Extent};
use amita_control::admin::{self, AdminError, Completion, Converging, Deletion, Fate, Lap, Pass};
use amita_metadata::Client;
use amita_terminal::error::{Failure, Kind, Result};
use amita_types::map::{self, CopyPlace, Copying, Snapshot, SnapshotState};
use amita_types::{SnapshotId, VolumeId};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often the place is noted: what a copy loses when its runner dies. Each note is in the copy of the metadata that each store keeps.
const NOTE_EVERY: Duration = Duration::from_secs(30);
/// How often it is looked whether a snapshot is taken, at first and later, and for how long. What hosts write meanwhile is brought by the next pass.
const TAKING_FIRST: Duration = Duration::from_millis(2);
const TAKING_EVERY: Duration = Duration::from_millis(100);
pub(super) const TAKING_FOR: Duration = Duration::from_secs(60);
/// Who had the target is waited for so long when it is to go.
const CLOSING_FOR: Duration = Duration::from_secs(30);
/// Where no request ends for so long, the gateways are for others.
const STALL: Duration = Duration::from_secs(120);

/// How it went.
pub enum Worked {
    /// It is whole, or is removed; or stands still; or others are at it.
    Ended,
    /// It is tried again: why it does not go on.
    Left(String),
}

/// What is next.
pub(super) enum Step {
    More,
    Ended,
}

/// One copy, made here.
pub struct Work {
    pub(super) client: Client,
    config: Config,
    pub(super) volume: VolumeId,
    pub(super) claim: u64,
    pub(super) wanted: Rc<Wanted<Copying>>,
    pace: Pace,
    /// Hosts wait: no rate holds.
    pub(super) hurries: bool,
    /// The target, open.
    pub(super) target: Option<Data>,
    /// Of a move: by which gateway the source was read last. It is not joined anew for the last pass.
    source: Option<Data>,
    /// Of a move: the pass before; none: it was another runner's. How long it took until the next one is told when that is known.
    pub(super) lap: Option<Lap>,
    /// When the snapshot of the pass that is under way was to be taken.
    pub(super) lap_began: Instant,
    pub(super) converging: Converging,
    /// What it has taken so far, of the pass that is under way, to ask which blocks were changed.
    asked_in: Duration,
    /// And to wait for its rate.
    paced_in: Duration,
    /// Of a last pass: its owner has let go for long behind that, so that it is a pass as any.
    pub(super) hurries_until: Instant,
    pub(super) missed: Missed,
    noted: Instant,
}

pub(super) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl Work {
    pub fn new(client: Client, config: Config, volume: VolumeId, claim: &Claim, stop: Arc<AtomicBool>) -> Work {
        let keys = (map::copying_key(volume), map::copier_key(volume));
        let wanted = Wanted::new(client.clone(), keys, claim.revision, (Arc::clone(&claim.lost), stop));
        Work {
            client,
            config,
            volume,
            claim: claim.revision,
            wanted: Rc::new(wanted),
            pace: Pace::new(),
            hurries: false,
            target: None,
            source: None,
            lap: None,
            lap_began: Instant::now(),
            converging: Converging::default(),
            asked_in: Duration::ZERO,
            paced_in: Duration::ZERO,
            hurries_until: Instant::now(),
            missed: Missed::default(),
            noted: Instant::now(),
        }
    }

    /// Until it is done, or does not go on here.
    pub fn run(&mut self) -> Worked {
        loop {
            let step = self.step();
            let why = match step {
                Ok(Step::More) => continue,
                Ok(Step::Ended) => {
                    self.close();
                    return Worked::Ended;
                }
                Err(why) => why,
            };
            self.close();
            if self.wanted.is_over() {
                return Worked::Ended;
            }
            // Paused, or taken back: the record says so.
            if self.wanted.was_called_off() {
                continue;
            }
            let what = match why.advice.is_empty() {
                true => why.what,
                false => format!("{}. {}", why.what, why.advice),
            };
            let noted = admin::note_copy(&self.client, self.volume, self.claim, &|record| {
                record.ails = Some(what.clone());
            });
            if let Err(more) = noted {
                log::debug!("why copy {} does not go on is not noted: {more}", self.volume);
            }
            return Worked::Left(what);
        }
    }

    fn step(&mut self) -> Result<Step> {
        // What is tidied up is so whatever is said of it.
        self.wanted.go_by_nothing();
        let Some(record) = admin::copy_of(&self.client, self.volume).described()? else {
            return Ok(Step::Ended);
        };
        if record.whole {
            self.close();
            return match record.moving {
                Some(_) => self.end_move(&record),
                None => self.end(&record),
            };
        }
        if record.cancelled || admin::copy_target(&self.client, &record).described()?.is_none() {
            return self.remove(&record);
        }
        if record.paused.is_some() {
            return Ok(Step::Ended);
        }
        let says = |now: &Copying| (!now.cancelled && now.paused.is_none()).then_some(now.limit_bytes_per_s);
        self.wanted.go_by(&record, says);
        if record.place.last.is_none() {
            self.settle(&record)?;
            return Ok(Step::More);
        }
        self.hurries = false;
        match admin::next_pass(&self.client, &record).described()? {
            Pass::To { of, snapshot, base } => self.pass(&record, &of, &snapshot, base.as_deref()).map(|()| Step::More),
            Pass::Done if record.moving.is_some() => self.move_on(&record),
            Pass::Done => {
                // Not closed before: where a store of its pool is brought up to date, a node opens at once what nobody has, and that would not be
                // told from one who writes.
                let completed = admin::complete_copy(&self.client, self.volume, self.claim).described()?;
                self.close();
                match completed {
                    Completion::Whole | Completion::Anew => Ok(Step::More),
                    Completion::Lost => Err(self.wanted.lose()),
                }
            }
        }
    }

    /// What was taken for it goes, and its record.
    fn end(&self, record: &Copying) -> Result<Step> {
        admin::remove_copy_snapshot(&self.client, record).described()?;
        match admin::end_copy(&self.client, self.volume, self.claim).described()? {
            true => Ok(Step::Ended),
            false => Err(self.wanted.lose()),
        }
    }

    /// It is taken back: nothing of it is left behind.
    fn remove(&mut self, record: &Copying) -> Result<Step> {
        self.close();
        if admin::copy_target(&self.client, record).described()?.is_some() {
            let fate = Fate::Purge {
                snapshots: true,
                now: now().as_secs(),
            };
            let until = Instant::now() + CLOSING_FOR;
            let mut pause = || {
                std::thread::sleep(TAKING_EVERY);
                Instant::now() < until && !self.wanted.is_over()
            };
            // Another node may have done so, and the name be another volume's by now.
            let deletion = Deletion::of(&record.name, true, fate).only(record.volume);
            admin::carry_out(&self.client, deletion, &mut pause).described()?;
        }
        if record.moving.is_some() {
            self.held(admin::stay_in_pool(&self.client, record, self.claim))?;
            admin::forget_move_snapshots(&self.client, record, &[]).described()?;
        }
        self.end(record)
    }

    /// Takes the snapshot that the copy is to be.
    fn settle(&mut self, record: &Copying) -> Result<()> {
        let until = Instant::now() + TAKING_FOR;
        let mut every = TAKING_FIRST;
        self.lap_began = Instant::now();
        let taken = loop {
            let taken = admin::take_copy_snapshot(&self.client, record, self.claim, now());
            if let Some(taken) = taken.described()? {
                break taken;
            }
            self.untaken(until, &record.of, &record.snapshot, &mut every)?;
        };
        self.note(&|record| {
            // The source may have got another size since it was asked for.
            if !record.snapshots {
                record.place.total_bytes = taken.size_bytes;
            }
            record.place.last = Some(taken.number);
            record.ails = None;
        })
    }

    fn untaken(&self, until: Instant, of: &str, name: &str, every: &mut Duration) -> Result<()> {
        self.untaken_within(until, of, name, *every)?;
        *every = TAKING_EVERY.min(*every * 2);
        Ok(())
    }

    /// The same, looked at so often.
    pub(super) fn untaken_within(&self, until: Instant, of: &str, name: &str, every: Duration) -> Result<()> {
        if Instant::now() >= until {
            let what = format!(
                "snapshot {name} of {of} was not taken within {} s: no gateway opens the volume, or a store of it does not answer and is \
                 not out of its groups yet",
                TAKING_FOR.as_secs()
            );
            return Err(Failure::new(what).kind(Kind::Unreachable).advice("See `amita status`"));
        }
        self.wanted.rest(every)
    }

    /// Notes something of the copy, if it is ours still.
    pub(super) fn note(&mut self, by: &dyn Fn(&mut Copying)) -> Result<()> {
        self.noted = Instant::now();
        match admin::note_copy(&self.client, self.volume, self.claim, by).described()? {
            Some(_) => Ok(()),
            None => Err(self.wanted.lose()),
        }
    }

    fn note_place(&mut self, place: &CopyPlace) -> Result<()> {
        self.note(&|record| {
            record.place = *place;
            record.ails = None;
        })
    }

    fn way(&self) -> Way {
        let wanted = Rc::clone(&self.wanted);
        Way::of(self.config.clone(), None)
            .stalling(STALL)
            .wanted(move || wanted.check())
    }

    pub(super) fn close(&mut self) {
        for open in [self.target.take(), self.source.take()].into_iter().flatten() {
            open.close();
        }
        self.lap = None;
        self.converging.begin_anew();
    }

    /// Opens the target as its one owner, and of that size. What was left of passes that were not done goes.
    fn open(&mut self, record: &Copying, place: &mut CopyPlace, size_bytes: u64) -> Result<Data> {
        let name = &record.name;
        if let Some(target) = self.target.take() {
            if target.size_bytes() != size_bytes {
                target.close();
            } else if let Err(why) = self.note_place(place) {
                target.close();
                return Err(why);
            } else {
                return Ok(target);
            }
        }
        // Before it is opened: what was begun of it is void then.
        self.held(admin::drop_point_wish(&self.client, record, self.claim))?;
        let fitted = admin::fit_copy(&self.client, record, self.claim, size_bytes).described()?;
        let before = fitted.ok_or_else(|| self.wanted.lose())?;
        // Whoever was at it has come to the end of a pass, and perhaps to its snapshot.
        let is_whole = place.pass != SnapshotId::HEAD && place.pass_bytes == size_bytes;
        // Others may have had it (P1).
        place.found(before.generation);
        self.note_place(place)?;
        let target = self.way().open(name)?;
        let ready = admin::volume(&self.client, name).described().and_then(|now| {
            if now.id != record.volume || !is_alone(&target, &before, &now) {
                return Err(not_alone(name, "more is copied"));
            }
            // Not before: where this opening comes to nothing, another's may have that generation.
            place.generation = now.generation;
            // Nothing is sealed any more under the generation of before. What was counts (P4), where nobody else has had the target: a number that
            // was given to it is not given again.
            let is_whole = is_whole && place.pass_bytes == size_bytes;
            if is_whole && admin::has_point(&self.client, record, place.pass, before.generation).described()? {
                place.passed_bytes = place.passed_bytes.saturating_add(place.pass_bytes);
                (place.base, place.mixed) = (place.pass, false);
                (place.pass, place.pass_bytes) = (SnapshotId::HEAD, 0);
            }
            self.note_place(place)?;
            let noted = Copying {
                place: *place,
                ..record.clone()
            };
            self.held(admin::drop_points(&self.client, &noted, self.claim))
        });
        match ready {
            Ok(()) => Ok(target),
            Err(why) => {
                target.close();
                Err(why)
            }
        }
    }

    /// What was done by the claim.
    pub(super) fn held(&self, done: std::result::Result<bool, AdminError>) -> Result<()> {
        match done.described()? {
            true => Ok(()),
            false => Err(self.wanted.lose()),
        }
    }

    /// Has the target been ours alone since it was opened?
    fn is_ours_still(&self, record: &Copying, place: &CopyPlace) -> Result<()> {
        let now = admin::volume(&self.client, &record.name).described()?;
        match now.id == record.volume && now.generation == place.generation {
            true => Ok(()),
            false => Err(not_alone(&record.name, "of this pass counts")),
        }
    }

    /// Takes the target's snapshot behind a pass. It counts where it was sealed under the generation by which the pass was made: else others
    /// may have written in between, and it goes with the next opening.
    fn take_point(&self, record: &Copying, place: &CopyPlace, of: &Snapshot) -> Result<()> {
        let until = Instant::now() + TAKING_FOR;
        let mut every = TAKING_FIRST;
        let point = loop {
            let taken = admin::take_point(&self.client, record, of, self.claim, now());
            if let Some(taken) = taken.described()? {
                break taken;
            }
            self.untaken(until, &record.name, &of.name, &mut every)?;
        };
        match point.state == SnapshotState::Sealed(place.generation) || of.number <= place.base {
            true => Ok(()),
            false => Err(not_alone(&record.name, "of this pass counts")),
        }
    }

    /// Makes the target what the snapshot is.
    fn pass(&mut self, record: &Copying, of: &str, snapshot: &Snapshot, base: Option<&str>) -> Result<()> {
        let mut place = record.place;
        let written_bytes = place.written_bytes;
        if place.pass != snapshot.number {
            // Of one that was left, more may be written than was noted. What a base is compared with covers that (P3).
            place.mixed |= place.pass != SnapshotId::HEAD && place.base == SnapshotId::HEAD;
            place.passed_bytes = place.passed_bytes.saturating_add(place.pass_bytes);
            (place.pass, place.pass_bytes) = (snapshot.number, 0);
        }
        let mut target = self.open(record, &mut place, snapshot.size_bytes)?;
        if place.base == snapshot.number && place.pass == SnapshotId::HEAD {
            self.target = Some(target);
            return Ok(());
        }
        // What another runner has done of it is not known.
        let is_whole = place.pass_bytes == 0;
        (self.asked_in, self.paced_in) = (Duration::ZERO, Duration::ZERO);
        let begun = Instant::now();
        let copied = self.copy(&mut target, &mut place, of, snapshot, base, record.moving.is_some());
        let took = begun.elapsed();
        if copied.is_err() {
            place.pass_bytes = target.place().unwrap_or(place.pass_bytes).min(place.pass_bytes);
            // The failure that is told is the first one.
            let _ = self.note(&|record| record.place = place);
        }
        self.target = Some(target);
        copied?;
        place.pass_bytes = snapshot.size_bytes;
        self.note_place(&place)?;
        let is_own = record.takes && record.place.last == Some(snapshot.number);
        // Of a move the snapshot that was taken for it, too: it tells that all stores of the target have heard of this opening (M5).
        // Where its number came to nothing the next one's tells it.
        let tells = || match record.moving {
            Some(_) => admin::is_number_free(&self.client, record, snapshot.number).described(),
            None => Ok(false),
        };
        if record.snapshots && !is_own || is_own && tells()? {
            self.take_point(record, &place, snapshot)?;
        }
        self.is_ours_still(record, &place)?;
        place.passed_bytes = place.passed_bytes.saturating_add(place.pass_bytes);
        (place.base, place.mixed) = (snapshot.number, false);
        (place.pass, place.pass_bytes) = (SnapshotId::HEAD, 0);
        let bytes = place.written_bytes.saturating_sub(written_bytes);
        self.lap = is_whole.then(|| Lap::of(bytes, took, self.asked_in, self.paced_in));
        self.note_place(&place)
    }

    /// Copies from the place on. `place` says how much of it was begun.
    pub(super) fn copy(
        &mut self,
        target: &mut Data,
        place: &mut CopyPlace,
        of: &str,
        snapshot: &Snapshot,
        base: Option<&str>,
        stays: bool,
    ) -> Result<()> {
        // A mark is no base for what has to be written whole, and was not asked for then.
        let base = base.filter(|_| !place.mixed);
        let mut source = match (self.source.take(), base) {
            (Some(open), base) => open.reopen(of, base)?,
            (None, Some(base)) => self.way().open_since(of, base)?,
            (None, None) => self.way().open(of)?,
        };
        let copied = self
            .is_it(of, snapshot, base, place)
            .and_then(|()| self.copy_from(&mut source, target, place, snapshot.size_bytes, base.is_some()));
        match stays && copied.is_ok() {
            true => self.source = Some(source),
            false => source.close(),
        }
        copied
    }

    /// A snapshot may have been deleted, and another one have its name, before it was opened.
    fn is_it(&self, of: &str, snapshot: &Snapshot, base: Option<&str>, place: &CopyPlace) -> Result<()> {
        let (volume, name) = admin::split(of).described()?;
        let found = admin::snapshot(&self.client, volume, name.unwrap_or_default()).described()?;
        let mut is_it = (found.volume, found.number) == (snapshot.volume, snapshot.number);
        if let Some(base) = base {
            let found = admin::snapshot_or_mark(&self.client, volume, base).described()?;
            is_it &= (found.volume, found.number) == (snapshot.volume, place.base);
        }
        match is_it {
            true => Ok(()),
            false => Err(Failure::new(format!("{of} was changed meanwhile")).kind(Kind::Conflict)),
        }
    }

    fn copy_from(
        &mut self,
        source: &mut Data,
        target: &mut Data,
        place: &mut CopyPlace,
        size_bytes: u64,
        compares: bool,
    ) -> Result<()> {
        if source.size_bytes() < size_bytes || target.size_bytes() < size_bytes {
            return Err(Failure::new("the copy's source and target are smaller than they were").kind(Kind::Conflict));
        }
        // Of what was never written nothing has to be cleared.
        let zeros = place.mixed || place.base != SnapshotId::HEAD;
        while place.pass_bytes < size_bytes {
            self.wanted.check()?;
            let at = place.pass_bytes;
            let begun = Instant::now();
            let (mut extents, until) = diff::next(source, (at, size_bytes), compares)?;
            extents.retain(|extent| zeros || !extent.is_zero);
            self.asked_in += begun.elapsed();
            self.hurries &= Instant::now() < self.hurries_until;
            self.extents(source, target, place, extents.into(), zeros)?;
            self.reached(target, place, until)?;
        }
        if zeros {
            // It may have been larger.
            target.clear(size_bytes)?;
        }
        target.finish()
    }

    fn rate(&self) -> Rate {
        self.wanted.rate().filter(|_| !self.hurries)
    }

    fn take(&mut self, bytes: u64) -> Result<()> {
        let (wanted, hurries) = (&self.wanted, self.hurries);
        let rate = || wanted.rate().filter(|_| !hurries);
        let begun = Instant::now();
        let taken = self.pace.take(bytes, rate, |time| wanted.rest(time));
        self.paced_in += begun.elapsed();
        taken
    }

    /// Everything before is begun. What of it is durable is noted, at times.
    fn reached(&mut self, target: &Data, place: &mut CopyPlace, at: u64) -> Result<()> {
        place.pass_bytes = at;
        if self.noted.elapsed() <= NOTE_EVERY {
            return Ok(());
        }
        let durable = CopyPlace {
            pass_bytes: target.place().unwrap_or(at).min(at),
            ..*place
        };
        self.note_place(&durable)
    }

    /// Copies these, in parts that keep to the rate. Of a part all is asked for at once: hosts change blocks here and there, and one after the
    /// other they would take as many round trips as there are.
    fn extents(
        &mut self,
        source: &mut Data,
        target: &mut Data,
        place: &mut CopyPlace,
        mut extents: VecDeque<Extent>,
        zeros: bool,
    ) -> Result<()> {
        loop {
            let part = pace::part(&mut extents, pace::window(self.rate()));
            let Some(last) = part.last() else {
                return Ok(());
            };
            let end = last.offset + last.length;
            self.take(pace::data_bytes(&part))?;
            // In the order of their places, for of what is under way the oldest tells how far all is done.
            source.each_extent(&part, |offset, content| {
                let bytes = match content {
                    Content::Zeros(length) => return target.write_zeroes(offset, length),
                    Content::Bytes(bytes) => bytes,
                };
                let mut done = 0;
                for (start, stop) in runs(bytes, BLOCK_BYTES) {
                    if zeros && start > done {
                        target.write_zeroes(offset + done as u64, (start - done) as u64)?;
                    }
                    target.write(offset + start as u64, &bytes[start..stop])?;
                    place.written_bytes += (stop - start) as u64;
                    done = stop;
                }
                match zeros && bytes.len() > done {
                    true => target.write_zeroes(offset + done as u64, (bytes.len() - done) as u64),
                    false => Ok(()),
                }
            })?;
            // What is compared may be long, and slow by the rate.
            self.reached(target, place, end)?;
        }
    }
}
