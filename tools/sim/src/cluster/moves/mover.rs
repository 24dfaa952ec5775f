//! Who moves a volume (decision 080): the steps of `amita_node`'s copies (`amita volume migrate`), in their order and by the same functions of
//! `amita_control::admin`; what it reads and writes goes by a gateway of the simulation. The product's own runner stands in the program
//! `amita`, on threads and clocks of the system, which the simulation has none of: what is written here is what is written there, but for
//! times and sizes, which fit volumes of some chunks.

use super::line::{Ask, Brought, End, Line, Opened, Piece};
use amita_control::admin::{self, AdminError, Converging, Deletion, Dressed, Fate, Lap, Next, Pass, Switched};
use amita_metadata::{Call, Compare, Op, Transact};
use amita_types::io::ChangedSearch;
use amita_types::map::{self, CopyPlace, Copying, Moving, Snapshot, SnapshotState};
use amita_types::{BLOCK_BYTES, SnapshotId, VolumeId};
use std::cell::Cell;
use std::time::Duration;

/// How often the place is noted.
const NOTE_EVERY: Duration = Duration::from_millis(25);
/// How often it is looked whether the move is wanted still.
const WANTED_EVERY: Duration = Duration::from_millis(40);
/// How often it is looked whether a snapshot is taken, and for how long.
const TAKING_EVERY: Duration = Duration::from_millis(10);
const TAKING_FOR: Duration = Duration::from_secs(6);
/// The same of the last one: hosts wait.
const LAST_EVERY: Duration = Duration::from_millis(1);
/// Who had the target is waited for so long when it is to go.
const CLOSING_FOR: Duration = Duration::from_secs(3);
/// Blocks of one piece.
const PIECE_BLOCKS: u64 = 4;
/// So much smaller than usual ones are volumes here, and what their hosts write: by that they may be slowed.
const SCALE: u64 = 16;
/// Pieces under way.
const DEPTH: usize = 8;

/// What a mover is told when it begins.
pub(super) struct Begins {
    pub volume: VolumeId,
    /// What the key of who is at it holds.
    pub value: Vec<u8>,
    /// Of a last pass that came late it does not say how long it took.
    pub short_holds: bool,
}

/// Why it does not go on.
enum Failure {
    /// Its process is gone, or another one is at it.
    Lost,
    /// It was called off: the record says so.
    CalledOff,
    Said(String),
}

type Result<T> = std::result::Result<T, Failure>;

/// What is next.
enum Step {
    More,
    Ended,
}

impl From<AdminError> for Failure {
    fn from(why: AdminError) -> Failure {
        Failure::Said(why.to_string())
    }
}

fn said(why: impl Into<String>) -> Failure {
    Failure::Said(why.into())
}

/// Takes the key, and works until it is done or does not go on here.
pub(super) fn run(line: &Line, begins: &Begins) {
    let key = map::copier_key(begins.volume);
    let take = Call {
        compares: vec![Compare::ModRevision {
            key: key.clone(),
            equals: 0,
        }],
        then: vec![Op::Put {
            key: key.clone(),
            value: begins.value.clone(),
            lease: None,
        }],
        otherwise: Vec::new(),
    };
    let claim = match line.txn(&take) {
        Ok(reply) if reply.succeeded => reply.revision,
        // If that was done after all, the key goes with its lease.
        _ => return line.say(Ask::Ended(None)),
    };
    line.say(Ask::Hit("migrate.runner"));
    let mut work = Work {
        line,
        volume: begins.volume,
        claim,
        short_holds: begins.short_holds,
        target: None,
        source: false,
        lap: None,
        lap_began: line.now(),
        converging: Converging::default(),
        is_last: false,
        noted: line.now(),
        looked: Cell::new(line.now()),
        called_off: Cell::new(false),
        lost: Cell::new(false),
    };
    let why = work.run();
    // It is given up, as its lease would be.
    let drop = Call {
        compares: vec![Compare::ModRevision {
            key: key.clone(),
            equals: claim,
        }],
        then: vec![Op::Delete { key }],
        otherwise: Vec::new(),
    };
    let _ = line.txn(&drop);
    line.say(Ask::Ended(why));
}

struct Work<'a> {
    line: &'a Line,
    volume: VolumeId,
    claim: u64,
    short_holds: bool,
    /// The target, open.
    target: Option<Opened>,
    /// The source is open.
    source: bool,
    /// The pass before.
    lap: Option<Lap>,
    /// When the snapshot of the pass that is under way was to be taken.
    lap_began: Duration,
    converging: Converging,
    /// It makes a last pass, of which nothing is noted: hosts wait.
    is_last: bool,
    noted: Duration,
    looked: Cell<Duration>,
    called_off: Cell<bool>,
    lost: Cell<bool>,
}

impl Work<'_> {
    fn is_over(&self) -> bool {
        self.lost.get() || self.line.is_cut()
    }

    fn check(&self) -> Result<()> {
        if self.is_over() {
            return Err(Failure::Lost);
        }
        if self.called_off.get() {
            return Err(Failure::CalledOff);
        }
        if self.line.now().saturating_sub(self.looked.get()) < WANTED_EVERY {
            return Ok(());
        }
        self.looked.set(self.line.now());
        let keys = [map::copying_key(self.volume), map::copier_key(self.volume)];
        let call = Call {
            then: keys.map(|key| Op::Get { key }).to_vec(),
            ..Call::default()
        };
        let Ok(reply) = self.line.txn(&call) else {
            return Ok(());
        };
        let record: Option<Copying> = reply.value(0).and_then(|found| found.json().ok());
        if !record.is_some_and(|record| !record.cancelled && record.paused.is_none()) {
            self.called_off.set(true);
            return Err(Failure::CalledOff);
        }
        match reply.value(1).is_some_and(|found| found.mod_revision == self.claim) {
            true => Ok(()),
            false => Err(self.lose()),
        }
    }

    fn lose(&self) -> Failure {
        self.lost.set(true);
        Failure::Lost
    }

    fn rest(&self, time: Duration) -> Result<()> {
        self.check()?;
        self.line.rest(time);
        self.check()
    }

    /// What was done by the claim.
    fn held(&self, done: std::result::Result<bool, AdminError>) -> Result<()> {
        match done? {
            true => Ok(()),
            false => Err(self.lose()),
        }
    }

    /// Why it does not go on here, where that is to be told.
    fn run(&mut self) -> Option<String> {
        loop {
            let why = match self.step() {
                Ok(Step::More) => continue,
                Ok(Step::Ended) => {
                    self.close();
                    return None;
                }
                Err(why) => why,
            };
            self.close();
            if self.is_over() {
                return None;
            }
            if self.called_off.take() {
                continue;
            }
            let what = match why {
                Failure::Said(what) => what,
                Failure::Lost | Failure::CalledOff => return None,
            };
            let _ = admin::note_copy(self.line, self.volume, self.claim, &|record| {
                record.ails = Some(what.clone());
            });
            return Some(what);
        }
    }

    fn step(&mut self) -> Result<Step> {
        let Some(record) = admin::copy_of(self.line, self.volume)? else {
            return Ok(Step::Ended);
        };
        if record.whole {
            self.close();
            self.held(admin::end_move(self.line, &record, self.claim))?;
            self.line.say(Ask::Hit("migrate.ended"));
            return Ok(Step::Ended);
        }
        if record.cancelled || admin::copy_target(self.line, &record)?.is_none() {
            return self.remove(&record);
        }
        if record.paused.is_some() {
            return Ok(Step::Ended);
        }
        if record.place.last.is_none() {
            self.settle(&record)?;
            return Ok(Step::More);
        }
        match admin::next_pass(self.line, &record)? {
            Pass::To { of, snapshot, base } => self.pass(&record, &of, &snapshot, base.as_deref()).map(|()| Step::More),
            Pass::Done => self.move_on(&record),
        }
    }

    /// It is taken back: nothing of it is left behind.
    fn remove(&mut self, record: &Copying) -> Result<Step> {
        self.close();
        if admin::copy_target(self.line, record)?.is_some() {
            let fate = Fate::Purge {
                snapshots: true,
                now: self.line.now().as_secs(),
            };
            let until = self.line.now() + CLOSING_FOR;
            let mut pause = || {
                self.line.rest(TAKING_EVERY);
                self.line.now() < until && !self.is_over()
            };
            let deletion = Deletion::of(&record.name, true, fate).only(record.volume);
            admin::carry_out(self.line, deletion, &mut pause)?;
        }
        self.held(admin::stay_in_pool(self.line, record, self.claim))?;
        admin::forget_move_snapshots(self.line, record, &[])?;
        admin::remove_copy_snapshot(self.line, record)?;
        self.held(admin::end_copy(self.line, self.volume, self.claim))?;
        self.line.say(Ask::Hit("migrate.removed"));
        Ok(Step::Ended)
    }

    /// Takes the snapshot of the next pass.
    fn settle(&mut self, record: &Copying) -> Result<()> {
        let until = self.line.now() + TAKING_FOR;
        self.lap_began = self.line.now();
        let taken = loop {
            let taken = admin::take_copy_snapshot(self.line, record, self.claim, self.line.now())?;
            if let Some(taken) = taken {
                break taken;
            }
            self.untaken(until, TAKING_EVERY)?;
        };
        self.note(&|record| {
            record.place.last = Some(taken.number);
            record.ails = None;
        })
    }

    fn untaken(&self, until: Duration, every: Duration) -> Result<()> {
        if self.line.now() >= until {
            return Err(said("a snapshot was not taken in time"));
        }
        self.rest(every)
    }

    fn note(&mut self, by: &dyn Fn(&mut Copying)) -> Result<()> {
        self.noted = self.line.now();
        match admin::note_copy(self.line, self.volume, self.claim, by)? {
            Some(_) => Ok(()),
            None => Err(self.lose()),
        }
    }

    fn note_place(&mut self, place: &CopyPlace) -> Result<()> {
        self.note(&|record| {
            record.place = *place;
            record.ails = None;
        })
    }

    fn close(&mut self) {
        if self.target.take().is_some() {
            self.line.say(Ask::Close(End::Target));
        }
        if std::mem::take(&mut self.source) {
            self.line.say(Ask::Close(End::Source));
        }
        self.lap = None;
        self.converging.begin_anew();
    }

    /// Opens the target as its one owner, and of that size. What was left of passes that were not done goes.
    fn open(&mut self, record: &Copying, place: &mut CopyPlace, size_bytes: u64) -> Result<Opened> {
        let name = &record.name;
        if let Some(target) = self.target {
            if target.size_bytes == size_bytes {
                self.note_place(place)?;
                return Ok(target);
            }
            self.target = None;
            self.line.say(Ask::Close(End::Target));
        }
        self.held(admin::drop_point_wish(self.line, record, self.claim))?;
        let fitted = admin::fit_copy(self.line, record, self.claim, size_bytes)?;
        let before = fitted.ok_or_else(|| self.lose())?;
        // Whoever was at it has come to the end of a pass, and perhaps to its snapshot.
        let is_whole = place.pass != SnapshotId::HEAD && place.pass_bytes == size_bytes;
        place.found(before.generation);
        self.note_place(place)?;
        let target = self.line.open(End::Target, name, None).map_err(said)?;
        self.target = Some(target);
        let now = admin::volume(self.line, name)?;
        let is_alone = now.id == before.id
            && Some(now.generation) == before.generation.next()
            && target.size_bytes == now.size_bytes;
        if now.id != record.volume || !is_alone {
            self.line.say(Ask::Hit("migrate.not_alone"));
            return Err(said("others have opened the target"));
        }
        place.generation = now.generation;
        let is_whole = is_whole && place.pass_bytes == size_bytes;
        if is_whole && admin::has_point(self.line, record, place.pass, before.generation)? {
            place.passed_bytes = place.passed_bytes.saturating_add(place.pass_bytes);
            (place.base, place.mixed) = (place.pass, false);
            (place.pass, place.pass_bytes) = (SnapshotId::HEAD, 0);
            self.line.say(Ask::Hit("migrate.point_found"));
        }
        self.note_place(place)?;
        let noted = Copying {
            place: *place,
            ..record.clone()
        };
        self.held(admin::drop_points(self.line, &noted, self.claim))?;
        Ok(target)
    }

    /// Has the target been ours alone since it was opened?
    fn is_ours_still(&self, record: &Copying, place: &CopyPlace) -> Result<()> {
        let now = admin::volume(self.line, &record.name)?;
        match now.id == record.volume && now.generation == place.generation {
            true => Ok(()),
            false => Err(said("others have had the target")),
        }
    }

    /// Takes the target's snapshot behind a pass.
    fn take_point(&self, record: &Copying, place: &CopyPlace, of: &Snapshot) -> Result<()> {
        let until = self.line.now() + TAKING_FOR;
        let point = loop {
            let taken = admin::take_point(self.line, record, of, self.claim, self.line.now())?;
            if let Some(taken) = taken {
                break taken;
            }
            self.untaken(until, TAKING_EVERY)?;
        };
        match point.state == SnapshotState::Sealed(place.generation) || of.number <= place.base {
            true => Ok(()),
            false => Err(said("others have had the target, and its snapshot does not count")),
        }
    }

    /// Makes the target what the snapshot is.
    fn pass(&mut self, record: &Copying, of: &str, snapshot: &Snapshot, base: Option<&str>) -> Result<()> {
        let mut place = record.place;
        let written_bytes = place.written_bytes;
        if place.pass != snapshot.number {
            place.mixed |= place.pass != SnapshotId::HEAD && place.base == SnapshotId::HEAD;
            place.passed_bytes = place.passed_bytes.saturating_add(place.pass_bytes);
            (place.pass, place.pass_bytes) = (snapshot.number, 0);
        }
        let target = self.open(record, &mut place, snapshot.size_bytes)?;
        if place.base == snapshot.number && place.pass == SnapshotId::HEAD {
            return Ok(());
        }
        let is_whole = place.pass_bytes == 0;
        let begun = self.line.now();
        let copied = self.copy(target, &mut place, of, snapshot, base);
        let brought_in = self.line.now().saturating_sub(begun);
        if copied.is_err() {
            let _ = self.note(&|record| record.place = place);
        }
        copied?;
        place.pass_bytes = snapshot.size_bytes;
        self.note_place(&place)?;
        let is_own = record.takes && place.last == Some(snapshot.number);
        // Of a move the snapshot that was taken for it, too: it tells that all stores of the target have heard of this opening (M5).
        if !is_own || admin::is_number_free(self.line, record, snapshot.number)? {
            self.take_point(record, &place, snapshot)?;
        }
        self.is_ours_still(record, &place)?;
        place.passed_bytes = place.passed_bytes.saturating_add(place.pass_bytes);
        (place.base, place.mixed) = (snapshot.number, false);
        (place.pass, place.pass_bytes) = (SnapshotId::HEAD, 0);
        self.lap = is_whole.then_some(Lap {
            bytes: place.written_bytes.saturating_sub(written_bytes) * SCALE,
            took: Duration::ZERO,
            // Volumes are small here: to ask costs nothing beside.
            asked_in: Duration::ZERO,
            brought_in,
        });
        self.line.say(Ask::Hit("migrate.pass"));
        self.note_place(&place)
    }

    /// Copies from the place on. `place` says how much of it was begun.
    fn copy(
        &mut self,
        target: Opened,
        place: &mut CopyPlace,
        of: &str,
        snapshot: &Snapshot,
        base: Option<&str>,
    ) -> Result<()> {
        let base = base.filter(|_| !place.mixed);
        if place.mixed || base.is_none() && place.base != SnapshotId::HEAD {
            self.line.say(Ask::WritesAll);
        }
        self.source = true;
        let source = self.line.open(End::Source, of, base).map_err(said)?;
        self.is_it(of, snapshot, base, place)?;
        self.copy_from(source, target, place, snapshot.size_bytes)
    }

    /// A snapshot may have been deleted, and another one have its name, before it was opened.
    fn is_it(&self, of: &str, snapshot: &Snapshot, base: Option<&str>, place: &CopyPlace) -> Result<()> {
        let (volume, name) = admin::split(of)?;
        let found = admin::snapshot(self.line, volume, name.unwrap_or_default())?;
        let mut is_it = (found.volume, found.number) == (snapshot.volume, snapshot.number);
        if let Some(base) = base {
            let found = admin::snapshot_or_mark(self.line, volume, base)?;
            is_it &= (found.volume, found.number) == (snapshot.volume, place.base);
        }
        match is_it {
            true => Ok(()),
            false => Err(said(format!("{of} was changed meanwhile"))),
        }
    }

    fn copy_from(&mut self, source: Opened, target: Opened, place: &mut CopyPlace, size_bytes: u64) -> Result<()> {
        if source.size_bytes < size_bytes || target.size_bytes < size_bytes {
            return Err(said("the source and the target are smaller than they were"));
        }
        // Of what was never written nothing has to be cleared.
        let zeros = place.mixed || place.base != SnapshotId::HEAD;
        let known = source.since.map(|since| self.line.changed(source, since));
        while place.pass_bytes < size_bytes {
            self.check()?;
            let at = place.pass_bytes;
            let until = (at - at % source.chunk_bytes + source.chunk_bytes).min(size_bytes);
            let is_unchanged = |known: &ChangedSearch| !known.may_be_changed(at / source.chunk_bytes);
            let extents = match source.since {
                Some(_) if known.as_ref().is_some_and(is_unchanged) => {
                    self.line.say(Ask::Hit("migrate.spared"));
                    Vec::new()
                }
                _ => self.line.extents(source, at, until).map_err(said)?,
            };
            for (from, to, is_zero) in extents {
                match is_zero {
                    true if !zeros => {}
                    true => self.write(target, vec![(from, None, to - from)])?,
                    false => self.extent(target, place, (from, to), zeros)?,
                }
            }
            self.reached(place, until)?;
        }
        if zeros && target.size_bytes > size_bytes {
            self.write(target, vec![(size_bytes, None, target.size_bytes - size_bytes)])?;
        }
        Ok(())
    }

    /// Copies one, in parts.
    fn extent(&mut self, target: Opened, place: &mut CopyPlace, (mut at, end): (u64, u64), zeros: bool) -> Result<()> {
        let block = u64::from(BLOCK_BYTES);
        while at < end {
            let until = end.min(at + PIECE_BLOCKS * DEPTH as u64 * block);
            let mut reads = Vec::new();
            let mut from = at;
            while from < until {
                let length = (PIECE_BLOCKS * block).min(until - from);
                reads.push(Piece::Read {
                    offset: from,
                    length: length as u32,
                });
                from += length;
            }
            let brought = self.line.io(End::Source, reads).map_err(said)?;
            let mut from = at;
            let mut writes: Vec<(u64, Option<Vec<u8>>, u64)> = Vec::new();
            for one in brought {
                let Brought::Bytes(bytes) = one else {
                    return Err(said("a read brings no bytes"));
                };
                for piece in bytes.chunks(block as usize) {
                    let is_zero = piece.iter().all(|byte| *byte == 0);
                    match is_zero {
                        true if !zeros => {}
                        true => writes.push((from, None, block)),
                        false => {
                            place.written_bytes += block;
                            match writes.last_mut() {
                                Some((first, Some(data), _))
                                    if *first + data.len() as u64 == from
                                        && data.len() as u64 != PIECE_BLOCKS * block =>
                                {
                                    data.extend_from_slice(piece);
                                }
                                _ => writes.push((from, Some(piece.to_vec()), block)),
                            }
                        }
                    }
                    from += block;
                }
            }
            self.write(target, writes)?;
            at = until;
            self.reached(place, at)?;
        }
        Ok(())
    }

    /// Writes pieces, or zeros, and waits for all: what is answered is durable.
    fn write(&self, target: Opened, writes: Vec<(u64, Option<Vec<u8>>, u64)>) -> Result<()> {
        let mut pieces = Vec::new();
        for (offset, data, length) in writes {
            match data {
                Some(data) => pieces.push(Piece::Write { offset, data }),
                // Inside one chunk.
                None => {
                    let (mut at, end) = (offset, offset + length);
                    while at < end {
                        let until = end.min(at - at % target.chunk_bytes + target.chunk_bytes);
                        pieces.push(Piece::Clear {
                            offset: at,
                            length: until - at,
                        });
                        at = until;
                    }
                }
            }
        }
        while !pieces.is_empty() {
            let rest = pieces.split_off(pieces.len().min(DEPTH));
            let now = std::mem::replace(&mut pieces, rest);
            self.line.io(End::Target, now).map_err(said)?;
        }
        Ok(())
    }

    /// Everything before is durable. That is noted, at times.
    fn reached(&mut self, place: &mut CopyPlace, at: u64) -> Result<()> {
        place.pass_bytes = at;
        match self.line.now().saturating_sub(self.noted) > NOTE_EVERY && !self.is_last {
            true => self.note_place(&place.clone()),
            false => Ok(()),
        }
    }

    /// The target is what the newest snapshot is: there is another pass, or the last one.
    fn move_on(&mut self, record: &Copying) -> Result<Step> {
        let Some(moving) = record.moving else {
            return Ok(Step::Ended);
        };
        let lap = self.lap.take().filter(|_| self.target.is_some());
        let next = lap.map(|lap| {
            let took = self.line.now().saturating_sub(self.lap_began);
            self.converging.behind(Lap { took, ..lap }, moving.taken)
        });
        if next != Some(Next::Last) {
            if self.converging.slowed().is_some() {
                self.line.say(Ask::Hit("migrate.slowed"));
            }
            return self.another_pass(None);
        }
        admin::may_switch(self.line, record)?;
        match admin::dress_move(self.line, record, self.claim)? {
            Dressed::Done => self.last_pass(moving),
            Dressed::Lacks => self.another_pass(None),
            Dressed::Lost => Err(self.lose()),
        }
    }

    /// How many bytes a second hosts may write.
    fn slowed(&self) -> Option<u64> {
        self.converging.slowed().map(|bytes| bytes / SCALE)
    }

    /// `late`: the last pass was not made in time, and took so long.
    fn another_pass(&mut self, late: Option<Duration>) -> Result<Step> {
        if late.is_some() {
            self.converging.late();
        }
        let slowed = self.slowed();
        let next = admin::next_move_pass(self.line, self.volume, self.claim, late, slowed)?;
        let record = next.ok_or_else(|| self.lose())?;
        admin::forget_move_snapshots(self.line, &record, &[record.place.base])?;
        Ok(Step::More)
    }

    /// Its owner takes the last snapshot, and holds.
    fn last_pass(&mut self, moving: Moving) -> Result<Step> {
        let slowed = self.slowed();
        let next = admin::next_move_pass(self.line, self.volume, self.claim, None, slowed)?;
        let mut record = next.ok_or_else(|| self.lose())?;
        let hold = admin::move_hold(moving, Duration::ZERO);
        let asked = self.line.now();
        let until = asked + TAKING_FOR;
        self.line.say(Ask::Hit("migrate.last_pass"));
        let last = loop {
            let taken = admin::take_last_snapshot(self.line, &record, self.claim, hold, self.line.now())?;
            if let Some(taken) = taken {
                break taken;
            }
            self.untaken(until, LAST_EVERY)?;
        };
        self.line.say(Ask::Hit("migrate.held"));
        let began = self.line.now();
        record.place.last = Some(last.number);
        if !self.bring_last(&record, &last)? {
            return Ok(Step::More);
        }
        match admin::switch_volume(self.line, &record, self.claim, last.number)? {
            Switched::Made => {
                let took = self.line.now() - began;
                let volume = self.volume;
                self.line.say(Ask::Tell(format!(
                    "move {volume}: the last pass and the switch took {took:?}"
                )));
                self.close();
                Ok(Step::More)
            }
            Switched::Lost => Err(self.lose()),
            Switched::LetGo => {
                self.line.say(Ask::Hit("migrate.let_go"));
                let took = self.line.now().saturating_sub(asked);
                self.another_pass(Some(if self.short_holds { Duration::ZERO } else { took }))
            }
            Switched::Anew(why) => {
                self.line.say(Ask::Hit("migrate.anew"));
                self.line
                    .say(Ask::Tell(format!("move {}: another last pass: {why}", self.volume)));
                self.another_pass(Some(Duration::ZERO))
            }
        }
    }

    /// The pass is made that the owner holds for. `false`: it is none of which only that snapshot is left.
    fn bring_last(&mut self, record: &Copying, last: &Snapshot) -> Result<bool> {
        let ahead = admin::points_ahead(self.line, record, last.number)?;
        if ahead.iter().any(|point| point.number != last.number) {
            return Ok(false);
        }
        let next = admin::next_pass(self.line, record)?;
        let Pass::To {
            of,
            snapshot,
            base: Some(base),
        } = next
        else {
            return Ok(false);
        };
        let Some(target) = self.target.filter(|target| target.size_bytes == snapshot.size_bytes) else {
            return Ok(false);
        };
        let mut place = record.place;
        (place.pass, place.pass_bytes) = (snapshot.number, 0);
        self.is_last = true;
        let copied = self.copy(target, &mut place, &of, &snapshot, Some(base.as_str()));
        self.is_last = false;
        copied?;
        Ok(true)
    }
}
