//! Volumes of a mirror become larger and smaller while all else goes on, by the steps of `amita volume resize`, at the moments that hurt: just as a snapshot
//! of a point is taken, while a point is cut, while the other end brings one, at an end that is closed; and larger again after smaller. It has random
//! numbers of its own: a run in which nothing is resized is what it would be without all of this.
//!
//! Whoever makes a volume smaller has it alone, so the hosts of that end let go before, as an operator has them do. What he clears is an operation of the
//! judge like a write of zeros.

use super::command::Command;
use super::runner::is_alone;
use super::wire::Did;
use super::{BLOCK, CHUNK_BLOCKS, MS, Pair, Role};
use crate::cluster::moves::line::{Ask, End, Line, Piece};
use crate::cluster::node::node_id;
use crate::faults::Member;
use crate::random::Random;
use amita_control::admin::{self, AdminError};
use amita_reactor::Time;
use amita_types::map::{self, About, MirrorRole, Volume};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A moment is waited for so long, and so is an end whose hosts let go.
const WAITS: Duration = Duration::from_secs(5);
/// Whoever has cleared all waits so long for his moment, and looks so often.
const HOLDS: Duration = Duration::from_millis(2500);
const LOOK: Duration = Duration::from_millis(2);
/// A gateway has heard of a larger volume after this, mostly.
const HEARD: Duration = Duration::from_millis(12);
/// Volumes become larger than they were at first by so many blocks at most.
pub(super) const MORE_BLOCKS: u64 = 8;

/// When it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Now,
    /// A point is being cut.
    Cutting,
    /// The volume's record says that a snapshot of it is being taken: its cut is still to come.
    Taking,
    /// The other end brings a point.
    Pass,
}

#[derive(Clone, Copy, Debug)]
struct Wish {
    end: usize,
    volume: usize,
    blocks: u64,
    shrinks: bool,
    when: When,
    until: Time,
}

/// What an end's volumes have.
pub(super) struct Sizes {
    /// By volume: its record's revision, and its blocks.
    known: Vec<(u64, u64)>,
    /// What hosts have heard of it, in blocks.
    pub told: Vec<Arc<AtomicU64>>,
    /// What they hear when.
    to_tell: Vec<(Time, usize, u64)>,
    /// Volumes that have been larger.
    smaller: Vec<bool>,
    /// The operator made one larger while its end was being promoted: its content was as the point says by then.
    pub grown_promoting: bool,
}

impl Sizes {
    pub fn new(volumes: usize, blocks: u64) -> Sizes {
        Sizes {
            known: vec![(0, blocks); volumes],
            told: (0..volumes).map(|_| Arc::new(AtomicU64::new(blocks))).collect(),
            to_tell: Vec::new(),
            smaller: vec![false; volumes],
            grown_promoting: false,
        }
    }

    pub fn now(&self) -> Vec<u64> {
        self.known.iter().map(|(_, blocks)| *blocks).collect()
    }
}

/// All of a run.
pub(super) struct Resizes {
    random: Random,
    every_ms: Option<u64>,
    at: Time,
    wish: Option<Wish>,
    /// Whoever has cleared all, and what tells him that his moment is there.
    holds: Option<(Wish, Arc<AtomicBool>)>,
    go: Arc<AtomicBool>,
    under_way: Option<Wish>,
}

impl Resizes {
    pub fn new(seed: u64, every_ms: Option<u64>) -> Resizes {
        Resizes {
            random: Random::new(seed).fork(74),
            every_ms,
            at: Time(every_ms.unwrap_or_default() * MS),
            wish: None,
            holds: None,
            go: Arc::default(),
            under_way: None,
        }
    }

    pub fn next(&self) -> Option<Time> {
        self.every_ms.map(|_| self.at)
    }

    /// No more begin.
    pub fn end(&mut self) {
        (self.every_ms, self.wish) = (None, None);
        self.go.store(true, Ordering::Relaxed);
    }
}

impl Pair {
    pub(super) fn is_resizing(&self) -> bool {
        (0..2).any(|end| self.has(end, |role| matches!(role, Role::Resizer { .. })))
    }

    /// Hosts of this end let go of its volumes.
    pub(super) fn lets_go(&self, end: usize) -> bool {
        let wished = self.resizes.wish.is_some_and(|wish| wish.end == end && wish.shrinks);
        wished || self.has(end, |role| matches!(role, Role::Resizer { shrinks: true }))
    }

    /// May a volume that this gateway owns become smaller yet? Whoever makes one smaller has a gateway of its own in the product, which ends: who
    /// opens the volume next raises its generation, and a new size that is still on its way to the metadata finds that. That of the simulation
    /// goes on: a host there would write by the generation under which all was cleared.
    pub(super) fn may_shrink_yet(&self, end: usize, member: Member) -> bool {
        (0..self.setup.volumes).any(|volume| {
            let Some((_, record)) = self.volume_of(end, volume) else {
                return false;
            };
            let about = self.ends[end].cluster.metadata.state().get(&map::about_key(record.id));
            let mark = about.and_then(|found| found.json::<About>().ok()?.shrink);
            record.owner == Some(node_id(member)) && mark.is_some_and(|mark| mark.generation == record.generation)
        })
    }

    fn volume_of(&self, end: usize, volume: usize) -> Option<(u64, Volume)> {
        let found = self.ends[end].cluster.metadata.state();
        let found = found.get(&map::volume_key(&format!("db-{}", volume + 1)))?;
        Some((found.mod_revision, found.json().ok()?))
    }

    /// What the volumes of an end have by now.
    pub(super) fn look_at_sizes(&mut self, now: Time, end: usize) {
        if self.setup.resizes_ms.is_none() {
            return;
        }
        for volume in 0..self.setup.volumes {
            let key = map::volume_key(&format!("db-{}", volume + 1));
            let found = self.ends[end].cluster.metadata.state().get(&key);
            let revision = found.map_or(0, |found| found.mod_revision);
            let (known, had) = self.ends[end].sizes.known[volume];
            if revision == known {
                continue;
            }
            let Some((_, record)) = self.volume_of(end, volume) else {
                continue;
            };
            let blocks = record.size_bytes / BLOCK;
            self.ends[end].sizes.known[volume] = (revision, blocks);
            if blocks != had {
                self.resized(now, (end, volume), (had, blocks), &record);
            }
        }
        let sizes = &mut self.ends[end].sizes;
        let (due, later) = std::mem::take(&mut sizes.to_tell)
            .into_iter()
            .partition(|(at, ..)| *at <= now);
        sizes.to_tell = later;
        let due: Vec<(Time, usize, u64)> = due;
        for (_, volume, blocks) in due {
            sizes.told[volume].store(blocks, Ordering::Relaxed);
        }
    }

    fn resized(&mut self, now: Time, (end, volume): (usize, usize), (had, blocks): (u64, u64), record: &Volume) {
        self.judge.sized(now, end, volume, blocks);
        self.tell(end, || format!("volume {volume} has {blocks} blocks, and had {had}"));
        let sizes = &mut self.ends[end].sizes;
        let grows = blocks > had;
        sizes.to_tell.retain(|(_, of, _)| *of != volume);
        match grows {
            true => sizes.to_tell.push((now.plus(HEARD), volume, blocks)),
            false => sizes.told[volume].store(blocks, Ordering::Relaxed),
        }
        let role = self.record(end).map(|record| record.standing.role);
        let is_operators = self.has(end, |role| matches!(role, Role::Resizer { .. }));
        if role == Some(MirrorRole::Promoting) && grows && is_operators {
            self.ends[end].sizes.grown_promoting = true;
        }
        if role != Some(MirrorRole::Primary) {
            return self.coverage.hit(match (role, grows) {
                (Some(MirrorRole::Secondary), true) => "mirror.pass_grew",
                (Some(MirrorRole::Secondary), false) => "mirror.pass_shrank",
                (_, true) => "mirror.grown_on_the_way",
                (_, false) => "mirror.shrunk_on_the_way",
            });
        }
        let is_cutting = self.record(end).is_some_and(|record| record.cutting.is_some());
        let is_bringing = self.record(1 - end).is_some_and(|record| record.pass.is_some());
        let (taking, all) = (record.lineage.taking, &mut self.coverage);
        let hits = match grows {
            true => [
                "mirror.grown",
                "mirror.grown_in_a_cut",
                "mirror.grown_while_cutting",
                "mirror.grown_in_a_pass",
            ],
            false => [
                "mirror.shrunk",
                "mirror.shrunk_in_a_cut",
                "mirror.shrunk_while_cutting",
                "mirror.shrunk_in_a_pass",
            ],
        };
        all.hit(hits[0]);
        all.add(hits[1], u64::from(taking));
        all.add(hits[2], u64::from(is_cutting));
        all.add(hits[3], u64::from(is_bringing));
        let was_smaller = std::mem::replace(&mut self.ends[end].sizes.smaller[volume], !grows);
        self.coverage.add("mirror.grown_again", u64::from(grows && was_smaller));
        if !grows && !self.healed {
            self.behind_a_shrink(now, (end, volume), (had, blocks));
        }
    }

    /// What follows when a volume has become smaller: it grows again, or its end is demoted before the other one has that.
    fn behind_a_shrink(&mut self, now: Time, (end, volume): (usize, usize), (had, blocks): (u64, u64)) {
        let random = &mut self.resizes.random;
        if random.percent(60) {
            let most = self.setup.blocks + MORE_BLOCKS;
            let blocks = match random.percent(50) {
                true => had,
                false => random.within(blocks + 1, most),
            };
            let when = *random.pick(&[When::Now, When::Cutting, When::Taking, When::Taking, When::Pass]);
            self.resizes.wish = Some(Wish {
                end,
                volume,
                blocks,
                shrinks: false,
                when,
                until: now.plus(WAITS),
            });
        } else if self.setup.commands_ms.is_some() && random.percent(70) && !self.is_commanded() {
            self.coverage.hit("mirror.demoted_small");
            self.command(now, end, Command::Demote);
            self.command(now, 1 - end, Command::Promote);
        }
    }

    /// Everything of resizes that is due at an end.
    pub(super) fn play_resizes(&mut self, now: Time, end: usize) {
        let Some(every) = self.resizes.every_ms else { return };
        if self.resizes.at <= now {
            self.resizes.at = Time(now.0 + self.resizes.random.within(MS, every * 2 * MS));
            if self.resizes.wish.is_none() && !self.is_resizing() {
                self.wish_resize(now);
            }
        }
        if let Some((wish, go)) = &self.resizes.holds
            && wish.end == end
            && self.is_moment(wish)
        {
            go.store(true, Ordering::Relaxed);
            self.resizes.holds = None;
        }
        let Some(wish) = self.resizes.wish.filter(|wish| wish.end == end) else {
            return;
        };
        if now >= wish.until {
            self.resizes.wish = None;
            return self.coverage.hit("mirror.resize_missed");
        }
        let is_time = match wish.shrinks {
            true => !self.has(end, |role| matches!(role, Role::Host)),
            false => self.is_moment(&wish),
        };
        if is_time && !self.is_resizing() {
            self.resize(now, wish);
        }
    }

    fn wish_resize(&mut self, now: Time) {
        let is_primary = |end: &usize| {
            self.record(*end)
                .is_some_and(|record| record.standing.role == MirrorRole::Primary)
        };
        let primary = (0..2).find(is_primary);
        let random = &mut self.resizes.random;
        // At an end that is closed, too: it is refused.
        let any = random.below(2) as usize;
        let end = primary.filter(|_| random.percent(90)).unwrap_or(any);
        let volume = random.below(self.setup.volumes as u64) as usize;
        let (has, most) = (self.ends[end].sizes.known[volume].1, self.setup.blocks + MORE_BLOCKS);
        let shrinks = has >= most || has > 1 && random.percent(55);
        let blocks = match shrinks {
            true => random.within(1, has - 1),
            false => random.within(has + 1, most),
        };
        let when = *random.pick(&[When::Now, When::Cutting, When::Taking, When::Pass]);
        // Where hosts let go of an end they may take long for that.
        let waits = if shrinks { WAITS * 2 } else { WAITS };
        self.resizes.wish = Some(Wish {
            end,
            volume,
            blocks,
            shrinks,
            when: if primary == Some(end) { when } else { When::Now },
            until: now.plus(waits),
        });
    }

    fn is_moment(&self, wish: &Wish) -> bool {
        match wish.when {
            When::Now => true,
            When::Cutting => self.record(wish.end).is_some_and(|record| record.cutting.is_some()),
            When::Taking => self
                .volume_of(wish.end, wish.volume)
                .is_some_and(|(_, volume)| volume.lineage.taking),
            When::Pass => self.record(1 - wish.end).is_some_and(|record| record.pass.is_some()),
        }
    }

    fn resize(&mut self, now: Time, wish: Wish) {
        let end = wish.end;
        let owner = self.volume_of(end, wish.volume).and_then(|(_, volume)| volume.owner);
        let cluster = &self.ends[end].cluster;
        // One that owns it would not raise its generation.
        let may = |member: &Member| {
            cluster.nodes[*member].is_up()
                && cluster.nodes[*member].frozen_until <= now
                && cluster.metadata.reaches(now, node_id(*member))
                && owner != Some(node_id(*member))
        };
        let free: Vec<Member> = (0..cluster.setup.gateways()).filter(may).collect();
        if free.is_empty() {
            return;
        }
        let random = &mut self.resizes.random;
        let member = *random.pick(&free);
        let gives_up = random.percent(50);
        self.resizes.wish = None;
        self.resizes.under_way = Some(wish);
        self.resizes.go = Arc::default();
        let own = &mut self.ends[end];
        own.hosts += 1;
        let resize = Resize {
            name: format!("db-{}", wish.volume + 1),
            volume: wish.volume,
            blocks: wish.blocks,
            values: (end as u64 + 1) << 48 | own.hosts << 20,
            go: Arc::clone(&self.resizes.go),
            gives_up,
        };
        self.tell(end, || format!("the operator: {wish:?}"));
        let shrinks = wish.shrinks;
        self.begin(end, member, Role::Resizer { shrinks }, move |line| match shrinks {
            true => shrink(line, &resize),
            false => grow(line, &resize),
        });
    }

    /// Whoever makes a volume smaller has begun to clear.
    pub(super) fn shrinks(&mut self, now: Time, end: usize, serial: u64) {
        if self.healed {
            return;
        }
        if self.setup.trouble_per_mille > 0 && self.resizes.random.percent(12) {
            self.trouble_runner(now, end, serial);
        }
        if self.setup.commands_ms.is_some() && self.resizes.random.percent(10) && !self.is_commanded() {
            self.coverage.hit("mirror.demoted_in_a_shrink");
            self.command(now, end, Command::Demote);
        }
    }

    /// He has cleared all, and waits for his moment.
    pub(super) fn cleared_all(&mut self) {
        match self.resizes.under_way.filter(|_| !self.healed) {
            Some(wish) => self.resizes.holds = Some((wish, Arc::clone(&self.resizes.go))),
            None => self.resizes.go.store(true, Ordering::Relaxed),
        }
    }
}

struct Resize {
    name: String,
    volume: usize,
    blocks: u64,
    /// Its clears are known by numbers behind this.
    values: u64,
    go: Arc<AtomicBool>,
    /// Where it is cut short it is given up; else it stays begun.
    gives_up: bool,
}

fn did(line: &Line, what: Did) {
    line.say(Ask::Did(Box::new(what)));
}

fn end(line: &Line, done: Result<(), AdminError>) {
    if matches!(done, Err(AdminError::Closed { .. })) {
        line.say(Ask::Hit("mirror.resize_refused"));
    }
    line.say(Ask::Ended(done.err().map(|why| why.to_string())));
}

fn grow(line: &Line, resize: &Resize) {
    let bytes = resize.blocks * BLOCK;
    let grown = || admin::resize_volume(line, &resize.name, bytes).map(drop);
    end(
        line,
        match grown() {
            // What was begun before and came to no end is given up first, as the message says.
            Err(AdminError::Shrinking { .. }) => {
                line.say(Ask::Hit("mirror.shrink_given_up"));
                admin::give_up_shrink(line, &resize.name).and_then(|_| grown())
            }
            grown => grown,
        },
    );
}

fn shrink(line: &Line, resize: &Resize) {
    let done = shrunk(line, resize);
    line.say(Ask::Close(End::Nth(0)));
    if let Err(Stopped::Marked(why)) = &done {
        line.say(Ask::Hit("mirror.shrink_cut_short"));
        if resize.gives_up {
            let given_up = admin::give_up_shrink(line, &resize.name);
            drop(given_up);
        }
        return line.say(Ask::Ended(Some(why.clone())));
    }
    end(
        line,
        match done {
            Err(Stopped::Before(why)) => Err(why),
            _ => Ok(()),
        },
    );
}

enum Stopped {
    /// Nothing was done.
    Before(AdminError),
    /// Some may be cleared.
    Marked(String),
}

fn shrunk(line: &Line, resize: &Resize) -> Result<(), Stopped> {
    let before = admin::volume(line, &resize.name).map_err(Stopped::Before)?;
    let bytes = resize.blocks * BLOCK;
    admin::may_shrink(line, &before, bytes).map_err(Stopped::Before)?;
    let not_opened = |why: String| {
        Stopped::Before(AdminError::BadSetting {
            what: "volume",
            name: resize.name.clone(),
            why,
        })
    };
    let open = line.open(End::Nth(0), &resize.name, None).map_err(not_opened)?;
    let volume = admin::volume(line, &resize.name).map_err(Stopped::Before)?;
    if !is_alone(&open, &before, &volume) {
        line.say(Ask::Hit("mirror.shrinks_not_alone"));
        return Err(not_opened("others have it open".to_owned()));
    }
    let mark = admin::begin_shrink(line, &volume, bytes).map_err(Stopped::Before)?;
    did(line, Did::Shrinks);
    let marked = |why: String| Stopped::Marked(why);
    let (mut first, full, mut value) = (resize.blocks, volume.size_bytes / BLOCK, resize.values);
    while first < full {
        let count = (CHUNK_BLOCKS - first % CHUNK_BLOCKS).min(full - first);
        value += count;
        let clear = |acknowledged| Did::Clears {
            volume: resize.volume,
            first,
            count,
            value,
            acknowledged,
        };
        did(line, clear(false));
        let piece = Piece::Clear {
            offset: first * BLOCK,
            length: count * BLOCK,
        };
        line.io(End::Nth(0), vec![piece]).map_err(marked)?;
        did(line, clear(true));
        first += count;
    }
    did(line, Did::ClearedAll);
    let until = line.now() + HOLDS;
    while !resize.go.load(Ordering::Relaxed) && line.now() < until && !line.is_cut() {
        line.rest(LOOK);
    }
    let ended = admin::end_shrink(line, &volume, &mark);
    ended.map(drop).map_err(|why| marked(why.to_string()))
}
