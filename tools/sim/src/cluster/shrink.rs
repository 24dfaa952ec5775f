//! Volumes that are made smaller while everything else goes on, and larger again after a while (`docs/decisions/055`): those of hosts, who
//! let go of them meanwhile, and clones. It is what `amita volume resize --shrink` does, by the product's own functions: who opens the volume must have it
//! alone, marks it, clears what lies behind the new end, and writes the size.
//!
//! What is cleared is an operation of the history like those of hosts, and of a clone what its guest knows: what comes back when the
//! volume grows reads as zeros, in the end too. One that does not come to its end is given up: the volume has its old size, and
//! of what was to go some reads as zeros.

use super::alone::Seat;
use super::operator::Desk;
use super::{Cluster, SETTLE, volume_name};
use crate::history::{Kind, OperationId};
use crate::random::Random;
use crate::stamp::{SECTORS_PER_BLOCK, Sector};
use amita_control::admin;
use amita_frontend::Event;
use amita_reactor::{Slice, Time};
use amita_types::io::{IoError, Op};
use amita_types::map;
use amita_types::{BLOCK_BYTES, VolumeId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Between two looks whether a volume is let go of, and before the next try.
const LOOK: Duration = Duration::from_millis(5);
const RETRY: Duration = Duration::from_millis(40);
/// An opening that has not ended after this is given up, and tried elsewhere.
const OPEN_PATIENCE: Duration = Duration::from_secs(4);
/// The operator gives up after this.
const PATIENCE: Duration = Duration::from_secs(12);
/// Clears that are under way.
const DEPTH: usize = 4;
/// The client of the history that clears; of each volume one.
const OPERATOR: u32 = 3000;

/// Whose volume it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// One that hosts use: the first one is 0.
    Hosts(u64),
    /// A clone, by its guest.
    Guest(usize),
}

/// How far one has come.
enum Phase {
    /// Whoever uses the volume lets go of it, or it is tried again.
    LetGo,
    /// It is being opened; this was its record before.
    Opening(Box<map::Volume>),
    Clearing(Box<Clearing>),
    /// It is small until then.
    Small(Time),
}

struct Clearing {
    record: map::Volume,
    mark: map::Shrink,
    id: VolumeId,
    /// The first block that nobody has cleared.
    next: u64,
    under_way: BTreeMap<u64, Piece>,
}

/// Blocks of one chunk.
#[derive(Clone, Copy)]
struct Piece {
    first: u64,
    count: u64,
    operation: Option<OperationId>,
}

struct Shrinking {
    whose: Whose,
    name: String,
    /// What it is to have, and what it has otherwise.
    blocks: u64,
    full: u64,
    small_for: Duration,
    /// It grows as soon as a snapshot of it is being taken: the metadata's revision at which that was looked for last.
    hurries: Option<u64>,
    seat: Option<Seat>,
    phase: Phase,
    again: Time,
    until: Time,
}

/// All of a run.
pub struct Shrinks {
    pub random: Random,
    all: Vec<Shrinking>,
    tags: u64,
    /// Blocks of hosts' volumes that were written, and then lay behind an end.
    pub beyond: BTreeSet<u64>,
    /// No more begin.
    pub ended: bool,
}

impl Shrinks {
    /// None yet.
    pub fn new(random: Random) -> Shrinks {
        Shrinks {
            random,
            all: Vec::new(),
            tags: 0,
            beyond: BTreeSet::new(),
            ended: false,
        }
    }

    /// When something is next due, though nothing has happened.
    pub fn next(&self) -> Option<Time> {
        let each = self.all.iter().map(|shrinking| match shrinking.phase {
            Phase::LetGo | Phase::Opening(_) => shrinking.again.min(shrinking.until),
            Phase::Clearing(_) => shrinking.until,
            Phase::Small(until) => until,
        });
        each.min()
    }
}

impl Cluster {
    /// The operator makes a volume smaller, if he does not yet.
    pub(super) fn begin_shrink(&mut self, now: Time, whose: Whose, name: String, full: u64) {
        let is_under_way = self.shrinks.all.iter().any(|shrinking| shrinking.whose == whose);
        if is_under_way || self.shrinks.ended || full < 2 {
            return self.coverage.hit("operator.shrink_too_many");
        }
        let random = &mut self.shrinks.random;
        let blocks = random.within(1, full - 1);
        let small_for = Duration::from_nanos(random.within(1_000_000, 400_000_000));
        let hurries = random.percent(50).then_some(0);
        self.tell(|| format!("{name} is to have {blocks} blocks of {full}"));
        self.coverage.hit("operator.shrink");
        self.let_go(whose, true);
        self.shrinks.all.push(Shrinking {
            whose,
            name,
            blocks,
            full,
            small_for,
            hurries,
            seat: None,
            phase: Phase::LetGo,
            again: now,
            until: now.plus(PATIENCE),
        });
    }

    /// Whoever uses the volume is to let go of it; or may have it again.
    fn let_go(&mut self, whose: Whose, lets_go: bool) {
        match whose {
            Whose::Hosts(volume) => {
                self.workload.rest(volume, lets_go);
                self.hosts.rest(volume, lets_go);
            }
            Whose::Guest(index) => self.rest_clone(index, lets_go),
        }
        // Who has it next takes it over.
        self.hosts.has_moved = true;
    }

    /// Everything about this that is due.
    pub(super) fn shrink_volumes(&mut self, now: Time) -> Result<(), String> {
        if self.shrinks.all.is_empty() {
            return Ok(());
        }
        for mut shrinking in std::mem::take(&mut self.shrinks.all) {
            if self.shrink(now, &mut shrinking)? {
                self.shrinks.all.push(shrinking);
            }
        }
        Ok(())
    }

    /// Does what is due for one; `false`: it has ended.
    fn shrink(&mut self, now: Time, of: &mut Shrinking) -> Result<bool, String> {
        if let Phase::Small(until) = of.phase {
            return if now < until && !self.is_to_hurry(of) {
                Ok(true)
            } else {
                self.grow_again(now, of)
            };
        }
        if of.seat.as_ref().is_some_and(|seat| !self.is_seated(seat)) {
            of.seat = None;
            try_again(now, of);
        }
        while let Some(event) = of.seat.as_ref().and_then(Seat::hear) {
            match event {
                Event::Opened { result: Ok(info), .. } => {
                    let goes_on = self.opened_to_shrink(now, of, info.id)?;
                    if !goes_on {
                        return Ok(false);
                    }
                }
                Event::Opened { result: Err(_), .. } | Event::Lost { .. } => {
                    self.leave_seat(of.seat.take());
                    try_again(now, of);
                }
                Event::Done { tag, result, .. } => self.cleared(now, of, tag, result),
                _ => {}
            }
        }
        if now >= of.until {
            self.coverage.hit("shrink.given_up");
            return self.give_up_shrink(now, of);
        }
        match &of.phase {
            Phase::LetGo if now >= of.again => {
                of.again = now.plus(LOOK);
                if self.is_let_go(of.whose) {
                    self.open_to_shrink(now, of);
                }
            }
            Phase::Opening(_) if now >= of.again => {
                self.leave_seat(of.seat.take());
                try_again(now, of);
            }
            Phase::Clearing(_) => self.clear(now, of)?,
            Phase::LetGo | Phase::Opening(_) | Phase::Small(_) => {}
        }
        Ok(true)
    }

    /// A snapshot of it is being taken, and it grows before the cut.
    fn is_to_hurry(&mut self, of: &mut Shrinking) -> bool {
        let revision = self.metadata.state().revision();
        let is_news = of.hurries.is_some_and(|looked| looked != revision);
        if !is_news {
            return false;
        }
        of.hurries = Some(revision);
        let record = self.metadata.state().get(&map::volume_key(&of.name));
        let record = record.and_then(|found| found.json::<map::Volume>().ok());
        let is_taking = record.is_some_and(|record| record.lineage.taking);
        if is_taking {
            self.coverage.hit("operator.grown_in_a_cut");
        }
        is_taking
    }

    fn is_let_go(&self, whose: Whose) -> bool {
        match whose {
            Whose::Hosts(volume) => self.hosts.have_let_go(volume),
            Whose::Guest(index) => self.has_let_go_of_clone(index),
        }
    }

    fn open_to_shrink(&mut self, now: Time, of: &mut Shrinking) {
        if let Some((seat, before)) = self.open_alone(&of.name) {
            of.seat = Some(seat);
            (of.phase, of.again) = (Phase::Opening(Box::new(before)), now.plus(OPEN_PATIENCE));
        }
    }

    /// It is open. `false`: it may not be made smaller.
    fn opened_to_shrink(&mut self, now: Time, of: &mut Shrinking, id: VolumeId) -> Result<bool, String> {
        let Phase::Opening(before) = &of.phase else {
            return Ok(true);
        };
        let Some(record) = self.alone(before) else {
            self.coverage.hit("shrink.not_alone");
            self.leave_seat(of.seat.take());
            try_again(now, of);
            return Ok(true);
        };
        let desk = Desk::new(&mut self.metadata, now);
        let mark = match admin::begin_shrink(&desk, &record, of.blocks * u64::from(BLOCK_BYTES)) {
            Ok(mark) => mark,
            Err(why) => {
                self.tell(|| format!("{} is not made smaller: {why}", of.name));
                self.coverage.hit("shrink.refused");
                return self.give_up_shrink(now, of);
            }
        };
        of.phase = Phase::Clearing(Box::new(Clearing {
            record,
            mark,
            id,
            next: of.blocks,
            under_way: BTreeMap::new(),
        }));
        Ok(true)
    }

    /// Asks for the next clears; when all are acknowledged the volume has its new size.
    fn clear(&mut self, now: Time, of: &mut Shrinking) -> Result<(), String> {
        let per_chunk = u64::from(self.setup.chunk_bytes / BLOCK_BYTES);
        let (Phase::Clearing(clearing), Some(seat)) = (&mut of.phase, &of.seat) else {
            return Ok(());
        };
        while clearing.next < of.full && clearing.under_way.len() < DEPTH {
            let first = clearing.next;
            let count = (per_chunk - first % per_chunk).min(of.full - first);
            clearing.next += count;
            let operation = match of.whose {
                Whose::Hosts(volume) => {
                    let sector = Sector((volume * self.setup.blocks + first) * SECTORS_PER_BLOCK as u64);
                    let (client, sectors) = (OPERATOR + volume as u32, count as u32 * SECTORS_PER_BLOCK as u32);
                    let id = self.history.invoke(now, client, Kind::Clear, sector, sectors);
                    self.history.asked_of(now, id, seat.member);
                    Some(id)
                }
                Whose::Guest(index) => {
                    self.may_be_cleared(index, first..first + count);
                    None
                }
            };
            let piece = Piece {
                first,
                count,
                operation,
            };
            self.shrinks.tags += 1;
            let tag = self.shrinks.tags;
            clearing.under_way.insert(tag, piece);
            if self.setup.plants.shrink_uncleared {
                seat.pretend(Event::Done {
                    tag,
                    result: Ok(()),
                    payload: amita_types::io::Payload::None,
                });
                continue;
            }
            let op = Op::Clear {
                offset: first * u64::from(BLOCK_BYTES),
                length: count * u64::from(BLOCK_BYTES),
            };
            let (front, id) = (seat.front, clearing.id);
            self.nodes[seat.member].ask(0, front, |service| {
                service.submit(front, tag, id.into(), op, Slice::default());
            });
        }
        if clearing.next < of.full || !clearing.under_way.is_empty() {
            return Ok(());
        }
        let desk = Desk::new(&mut self.metadata, now);
        let ended = admin::end_shrink(&desk, &clearing.record, &clearing.mark);
        self.leave_seat(of.seat.take());
        match ended {
            Ok(record) if record.size_bytes == of.blocks * u64::from(BLOCK_BYTES) => {}
            Ok(record) => {
                return Err(format!(
                    "{} is to have {} blocks, and has {record:?}",
                    of.name, of.blocks
                ));
            }
            Err(why) => {
                self.tell(|| format!("{} is not smaller: {why}", of.name));
                self.coverage.hit("shrink.lost");
                try_again(now, of);
                return Ok(());
            }
        }
        self.tell(|| format!("{} has {} blocks", of.name, of.blocks));
        match of.whose {
            Whose::Hosts(volume) => {
                self.workload.resize(volume, of.blocks);
                let first = volume * self.setup.blocks;
                let beyond = first + of.blocks..first + of.full;
                let written = self.written_blocks();
                self.shrinks
                    .beyond
                    .extend(beyond.filter(|block| written.contains(block)));
                self.coverage.hit("operator.shrunk");
            }
            Whose::Guest(index) => {
                self.resize_clone(index, of.blocks);
                self.coverage.hit("clone.shrunk");
            }
        }
        self.let_go(of.whose, false);
        of.phase = Phase::Small(now.plus(of.small_for));
        Ok(())
    }

    fn cleared(&mut self, now: Time, of: &mut Shrinking, tag: u64, result: Result<(), IoError>) {
        let Phase::Clearing(clearing) = &mut of.phase else {
            return;
        };
        let Some(piece) = clearing.under_way.remove(&tag) else {
            return;
        };
        if result.is_err() {
            // It is done again from the beginning.
            self.coverage.hit("shrink.clear_failed");
            self.leave_seat(of.seat.take());
            return try_again(now, of);
        }
        if let Some(id) = piece.operation {
            self.history.complete(now, id, Vec::new());
        }
        if let Whose::Guest(index) = of.whose {
            self.are_cleared(index, piece.first..piece.first + piece.count);
        }
        self.coverage.add("shrink.cleared", piece.count);
    }

    /// It keeps its size.
    fn give_up_shrink(&mut self, now: Time, of: &mut Shrinking) -> Result<bool, String> {
        self.leave_seat(of.seat.take());
        let desk = Desk::new(&mut self.metadata, now);
        admin::give_up_shrink(&desk, &of.name).map_err(|why| format!("{} does not keep its size: {why}", of.name))?;
        self.tell(|| format!("{} keeps its size", of.name));
        self.let_go(of.whose, false);
        Ok(false)
    }

    /// It gets the size that it had.
    fn grow_again(&mut self, now: Time, of: &mut Shrinking) -> Result<bool, String> {
        if let Whose::Guest(index) = of.whose {
            match self.is_clone_there(index) {
                Some(true) => {}
                Some(false) => {
                    of.phase = Phase::Small(now.plus(LOOK));
                    return Ok(true);
                }
                None => return Ok(false),
            }
        }
        let desk = Desk::new(&mut self.metadata, now);
        let grown = admin::resize_volume(&desk, &of.name, of.full * u64::from(BLOCK_BYTES));
        grown.map_err(|why| format!("{} does not grow again: {why}", of.name))?;
        self.tell(|| format!("{} has {} blocks again", of.name, of.full));
        match of.whose {
            Whose::Hosts(volume) => {
                self.workload.resize(volume, of.full);
                self.coverage.hit("operator.grown_again");
            }
            Whose::Guest(index) => {
                self.resize_clone(index, of.full);
                self.coverage.hit("clone.grown_again");
            }
        }
        self.ledger.grown(now);
        Ok(false)
    }

    /// Nothing is wrong any more: those that are under way come to their end, and all volumes have their size.
    pub(super) fn end_shrinks(&mut self) -> Result<(), String> {
        self.shrinks.ended = true;
        let limit = self.world.now().plus(SETTLE);
        for shrinking in &mut self.shrinks.all {
            shrinking.until = limit.plus(SETTLE);
            if let Phase::Small(until) = &mut shrinking.phase {
                *until = Time(0);
            }
            shrinking.small_for = Duration::ZERO;
        }
        while let Some(first) = self.shrinks.all.first() {
            let name = first.name.clone();
            if self.world.now() >= limit {
                let may_wait = (0..self.setup.volumes).any(|volume| self.may_block_in(volume));
                if !may_wait && !self.ledger.is_anything_damaged() {
                    return Err(format!(
                        "nothing is wrong any more, and after {SETTLE:?} {name} is not smaller\n{}",
                        self.describe()
                    ));
                }
                // Some chunk waits for ever.
                self.coverage.hit("shrink.given_up");
                let now = self.world.now();
                for shrinking in &mut self.shrinks.all {
                    shrinking.until = now;
                }
            }
            self.step(limit.plus(SETTLE))?;
        }
        Ok(())
    }
}

fn try_again(now: Time, of: &mut Shrinking) {
    (of.phase, of.again) = (Phase::LetGo, now.plus(RETRY));
}

/// The volume that hosts use, by its name.
pub(super) fn of_hosts(volume: u64) -> (Whose, String) {
    (Whose::Hosts(volume), volume_name(volume))
}
