//! Volumes that are cloned from snapshots while hosts work (S6 to S9): each has a guest who reads and writes it at any gateway.
//!
//! What a guest has not written must be what the snapshot has: always the same, the same for every clone of it and for what stores
//! hold of it in the end, and for all blocks together what a crash could have left at one moment of the volume. What he has written
//! must be there. Some are cloned again, when their guest has stopped for a moment: that clone begins with what he knows. Some are
//! deleted; while there is one, the snapshot cannot be.

use super::deletion::seconds;
use super::operator::Desk;
use super::session::Heard;
use super::shrink::Whose;
use super::{Cluster, SETTLE, pool_of, volume_id, volume_name};
use crate::faults::Member;
use crate::random::Random;
use crate::stamp::{self, SECTORS_PER_BLOCK, Sector, Stamp};
use amita_control::admin::{self, AdminError, Deletion, TakingState};
use amita_frontend::{Event, FrontId, Who};
use amita_metadata::Call;
use amita_reactor::{Slice, Time};
use amita_types::io::{IoError, Op, Payload};
use amita_types::map::{self, About, SnapshotWish};
use amita_types::{BLOCK_BYTES, GroupId, SnapshotId, VolumeId};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// Before a guest tries again to open its volume, or what failed.
const RETRY: Duration = Duration::from_millis(40);
/// Between two looks at a deletion, or a wish, under way, and the patience with it.
const LOOK: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(10);
/// I/O that a guest has under way.
const DEPTH: usize = 2;
/// The tags of writes: this and the block.
const WRITE: u64 = 1 << 32;
/// What a guest writes begins so.
const MARK: u64 = 0x656e_6f6c_6361_6d61;

/// What a run has of them.
#[derive(Clone, Debug, Default)]
pub struct Cloning {
    /// Of a hundred snapshots of a volume that are taken so many are cloned; again and again, while there may be more clones.
    pub percent: u64,
    /// The most clones.
    pub most: u32,
    /// Of a hundred clones so many are cloned again.
    pub again_percent: u64,
    /// Of a hundred so many are deleted.
    pub gone_percent: u64,
    /// Of a hundred so many are flattened, and what they were made from is deleted.
    pub flat_percent: u64,
    /// Of a hundred operations of a guest so many write.
    pub write_percent: u64,
    /// Guests open their volume and touch nothing before it is flattened, which is not asked for before a member that comes back was
    /// called whole for it: chunks are made between that and its coming in sync.
    pub late: bool,
    /// Of a hundred clones so many are made smaller, and larger again.
    pub shrunk_percent: u64,
    /// Of a hundred nobody ever opens so many.
    pub idle_percent: u64,
}

impl Cloning {
    /// Drawn from chance of its own.
    #[must_use]
    pub fn draw(seed: u64) -> Cloning {
        let mut random = Random::new(seed).fork(41);
        match random.below(3) {
            0 => Cloning::default(),
            _ => Cloning {
                percent: random.within(30, 100),
                most: random.within(1, 6) as u32,
                again_percent: *random.pick(&[0, 40, 80]),
                gone_percent: *random.pick(&[0, 30, 70]),
                write_percent: *random.pick(&[5, 30, 60]),
                flat_percent: *random.pick(&[0, 40, 80]),
                late: false,
                shrunk_percent: *Random::new(seed).fork(44).pick(&[0, 40, 80]),
                idle_percent: *Random::new(seed).fork(45).pick(&[0, 30]),
            },
        }
    }
}

/// What a snapshot of a volume has, as its clones show it.
struct Root {
    volume: u64,
    number: SnapshotId,
    between: (u64, u64),
    /// By the block in the volume.
    base: BTreeMap<u64, Vec<Stamp>>,
}

/// The number of what was cleared: no write has it.
const CLEARED: u64 = 0;

/// What a guest may find in a block that he has written: the numbers of his writes; [`None`]: what was there before.
type Possible = Vec<Option<u64>>;

struct Guest {
    name: String,
    id: VolumeId,
    root: usize,
    /// What the clone that it was cloned from had then, beside the root.
    inherited: BTreeMap<u64, u64>,
    own: BTreeMap<u64, Possible>,
    /// Blocks of which a write may be on its way still, after whatever came later.
    late: BTreeSet<u64>,
    blocks: u64,
    gateway: Member,
    at: Option<(u64, FrontId, Rc<RefCell<Heard>>)>,
    open: Option<VolumeId>,
    again: Time,
    /// Blocks with I/O under way, and the number of the write, if it is one.
    under_way: BTreeMap<u64, Option<u64>>,
    /// How much he asks for.
    left: u64,
    /// What is to be read in the end.
    unread: Option<BTreeSet<u64>>,
    /// He stops, so that his volume can be cloned.
    clone_at: Option<Time>,
    wish: Option<SnapshotWish>,
    delete_at: Option<Time>,
    deletion: Option<(Deletion, Time, Time)>,
    deleted: bool,
    /// What he was made from: a volume and its snapshot, by name.
    from: (String, String),
    flatten_at: Option<Time>,
    /// His volume is being flattened.
    flattening: bool,
    shrink_at: Option<Time>,
    /// He lets go of it, so that it can be made smaller.
    rests: bool,
    /// He never comes.
    is_idle: bool,
}

/// All of a run.
pub struct Clones {
    setup: Cloning,
    random: Random,
    /// Chance of flattenings alone, and of guests who never come.
    flats: Random,
    idles: Random,
    made: u32,
    writes: u64,
    roots: Vec<Root>,
    guests: Vec<Guest>,
    /// Deleted ones that stay hidden, for others were cloned from them.
    hidden: u32,
    /// Some could not be read to the end: something waits for ever.
    has_waited: bool,
    looks: Time,
    flat_looks: Time,
    ending: bool,
}

impl Clones {
    /// None yet.
    pub fn new(setup: Cloning, random: Random) -> Clones {
        Clones {
            setup,
            flats: random.fork(1),
            idles: random.fork(2),
            random,
            made: 0,
            writes: 0,
            roots: Vec::new(),
            guests: Vec::new(),
            hidden: 0,
            has_waited: false,
            looks: Time(0),
            flat_looks: Time(0),
            ending: false,
        }
    }

    /// When something is next due.
    pub fn next(&self) -> Option<Time> {
        let guests = self.guests.iter().filter(|guest| !guest.deleted);
        let times = guests.flat_map(|guest| {
            let opens = (guest.at.is_none() && !guest.rests && !guest.is_idle).then_some(guest.again);
            // One waits for the other: what cannot be done yet is not due.
            let deletes = match &guest.deletion {
                Some((_, at, _)) => Some(*at),
                None => guest.delete_at.filter(|_| guest.wish.is_none() && !guest.rests),
            };
            let clones = guest.clone_at.filter(|_| guest.deletion.is_none() && !guest.rests);
            let shrinks = guest.shrink_at.filter(|_| guest.deletion.is_none() && !guest.rests);
            let flattens = match guest.flattening {
                true => Some(self.flat_looks),
                false => guest.flatten_at.filter(|_| guest.deletion.is_none()),
            };
            [opens, deletes, clones, flattens, shrinks]
        });
        let looks = (self.hidden > 0).then_some(self.looks);
        times.flatten().chain(looks).min()
    }
}

impl Guest {
    fn leave(&mut self, now: Time) {
        (self.at, self.open) = (None, None);
        for (block, write) in std::mem::take(&mut self.under_way) {
            // It may have been carried out, or not, or be on its way still.
            if let Some(write) = write {
                self.late.insert(block);
                self.own.entry(block).or_insert_with(|| vec![None]).push(Some(write));
            } else if let Some(unread) = &mut self.unread {
                // Nobody has seen it yet.
                unread.insert(block);
            }
        }
        self.again = now.plus(RETRY);
    }
}

impl Cluster {
    /// A snapshot of a volume is taken: the operator may clone it.
    pub(super) fn clone_taken(&mut self, now: Time, index: usize) -> Result<(), String> {
        let taken = &self.snapshots.taken[index];
        let root = Root {
            volume: taken.volume,
            number: taken.number,
            between: taken.between,
            base: BTreeMap::new(),
        };
        let (volume, name) = (volume_name(taken.volume), taken.name.clone());
        let setup = self.clones.setup.clone();
        if setup.most == 0 || !self.clones.random.percent(setup.percent) {
            return Ok(());
        }
        self.clones.roots.push(root);
        let root = self.clones.roots.len() - 1;
        while self.clones.made < setup.most {
            self.make_clone(now, (&volume, &name), root, BTreeMap::new())?;
            if self.clones.random.percent(60) {
                break;
            }
        }
        Ok(())
    }

    fn make_clone(
        &mut self,
        now: Time,
        (volume, snapshot): (&str, &str),
        root: usize,
        inherited: BTreeMap<u64, u64>,
    ) -> Result<(), String> {
        self.clones.made += 1;
        let name = format!("clone-{}", self.clones.made);
        let desk = Desk::new(&mut self.metadata, now);
        let about = About::of(VolumeId(0));
        let made = admin::clone_volume(&desk, volume, snapshot, &name, &about)
            .map_err(|why| format!("{volume}@{snapshot} cannot be cloned: {why}"))?;
        if self.setup.plants.forget_pins {
            self.forget_pin(now, &made);
        }
        self.tell(|| format!("{name} is cloned from {volume}@{snapshot}"));
        self.coverage.hit(match made.parents.len() {
            1 => "clone.made",
            _ => "clone.made_of_clone",
        });
        let setup = self.clones.setup.clone();
        let random = &mut self.clones.random;
        let blocks = made.size_bytes / u64::from(BLOCK_BYTES);
        let mut some = |percent: u64, longest: u64| {
            let at = Time(now.0 + random.within(20_000_000, longest));
            random.percent(percent).then_some(at)
        };
        let (clone_at, delete_at) = (
            some(setup.again_percent, 600_000_000),
            some(setup.gone_percent, 1_500_000_000),
        );
        let flats = &mut self.clones.flats;
        let flatten_at = Time(now.0 + flats.within(5_000_000, 800_000_000));
        let flatten_at = flats.percent(setup.flat_percent).then_some(flatten_at);
        let random = &mut self.shrinks.random;
        let shrink_at = Time(now.0 + random.within(5_000_000, 600_000_000));
        let shrink_at = random.percent(setup.shrunk_percent).then_some(shrink_at);
        let is_idle = self.clones.idles.percent(setup.idle_percent);
        let (clone_at, flatten_at, shrink_at) = match is_idle {
            true => (None, None, None),
            false => (clone_at, flatten_at, shrink_at),
        };
        let gateway = self.clones.random.below(self.nodes.len() as u64) as usize;
        self.clones.guests.push(Guest {
            name,
            id: made.id,
            root,
            inherited,
            own: BTreeMap::new(),
            late: BTreeSet::new(),
            blocks,
            gateway,
            at: None,
            open: None,
            again: Time(now.0 + self.clones.random.below(100_000_000)),
            under_way: BTreeMap::new(),
            left: 6 * blocks,
            unread: None,
            clone_at,
            wish: None,
            delete_at,
            deletion: None,
            deleted: false,
            from: (volume.to_owned(), snapshot.to_owned()),
            flatten_at,
            flattening: false,
            shrink_at,
            rests: false,
            is_idle,
        });
        Ok(())
    }

    /// What was cloned is not held by it.
    fn forget_pin(&mut self, now: Time, made: &map::Volume) {
        let Some(parent) = made.parents.first() else { return };
        let key = map::snapshot_key(parent.volume, parent.number);
        let record = self.metadata.state().get(&key).and_then(|found| found.json().ok());
        if let Some(record) = record {
            let free = map::Snapshot { clones: 0, ..record };
            self.metadata.operate(now, &Call::put(key, super::records::json(&free)));
        }
    }

    /// Everything about clones that is due.
    pub(super) fn use_clones(&mut self, now: Time) -> Result<(), String> {
        for index in 0..self.clones.guests.len() {
            if self.clones.guests[index].deleted {
                continue;
            }
            self.hear_for_clone(now, index)?;
            self.act_for_clone(now, index);
            self.clone_clone(now, index)?;
            self.flatten_clone(now, index)?;
            self.shrink_clone(now, index);
            self.delete_clone(now, index)?;
        }
        self.end_flattens(now)?;
        self.purge_hidden(now)
    }

    /// The operator has a clone flattened.
    fn flatten_clone(&mut self, now: Time, index: usize) -> Result<(), String> {
        let ending = self.clones.ending;
        let guest = &mut self.clones.guests[index];
        if guest.flatten_at.is_none_or(|at| now < at) || guest.deletion.is_some() || guest.flattening {
            return Ok(());
        }
        if self.clones.setup.late && !ending {
            if !self.is_called_whole(index) {
                self.clones.guests[index].flatten_at = Some(now.plus(LOOK));
                return Ok(());
            }
            self.coverage.hit("clone.flatten_late");
        }
        let guest = &mut self.clones.guests[index];
        guest.flatten_at = None;
        if ending {
            return Ok(());
        }
        let desk = Desk::new(&mut self.metadata, now);
        let asked = admin::flatten_volume(&desk, &guest.name, Duration::from_nanos(now.0));
        let asked = asked.map_err(|why| format!("{} cannot be flattened: {why}", guest.name))?;
        guest.flattening = true;
        self.clones.flat_looks = now.plus(LOOK * 4);
        if self.setup.plants.flatten_unmade {
            let made = map::Flatten {
                done: asked.chunks,
                ..asked
            };
            let key = map::flatten_key(made.volume);
            self.metadata.operate(now, &Call::put(key, super::records::json(&made)));
        }
        let name = self.clones.guests[index].name.clone();
        self.tell(|| format!("{name} is being flattened"));
        self.coverage.hit("clone.flatten");
        Ok(())
    }

    /// The operator makes a clone smaller.
    fn shrink_clone(&mut self, now: Time, index: usize) {
        let guest = &mut self.clones.guests[index];
        if guest.shrink_at.is_none_or(|at| now < at) || guest.deletion.is_some() || guest.rests {
            return;
        }
        guest.shrink_at = None;
        let (name, blocks) = (guest.name.clone(), guest.blocks);
        self.begin_shrink(now, Whose::Guest(index), name, blocks);
    }

    /// A guest lets go of his volume; or may use it again.
    pub(super) fn rest_clone(&mut self, index: usize, rests: bool) {
        let guest = &mut self.clones.guests[index];
        guest.rests = rests;
        if !rests {
            guest.again = self.world.now();
        }
    }

    /// He has, and nobody else is about it.
    pub(super) fn has_let_go_of_clone(&self, index: usize) -> bool {
        let guest = &self.clones.guests[index];
        guest.at.is_none() && guest.wish.is_none() && guest.deletion.is_none()
    }

    /// None: it is gone. `false`: it is being deleted.
    pub(super) fn is_clone_there(&self, index: usize) -> Option<bool> {
        let guest = &self.clones.guests[index];
        (!guest.deleted).then_some(guest.deletion.is_none())
    }

    /// A clone has so many blocks now.
    pub(super) fn resize_clone(&mut self, index: usize, blocks: u64) {
        self.clones.guests[index].blocks = blocks;
    }

    /// Somebody has asked to clear blocks of a clone.
    pub(super) fn may_be_cleared(&mut self, index: usize, blocks: Range<u64>) {
        let own = &mut self.clones.guests[index].own;
        for block in blocks {
            own.entry(block).or_insert_with(|| vec![None]).push(Some(CLEARED));
        }
    }

    /// They are cleared, by who has the volume alone: nothing that was asked for before comes any more.
    pub(super) fn are_cleared(&mut self, index: usize, blocks: Range<u64>) {
        let guest = &mut self.clones.guests[index];
        for block in blocks {
            guest.own.insert(block, vec![Some(CLEARED)]);
            guest.late.remove(&block);
        }
    }

    /// How many there were.
    pub(super) fn clones_count(&self) -> usize {
        self.clones.guests.len()
    }

    /// Some wait for ever, for what nobody can tell.
    pub(super) fn clones_wait(&self) -> bool {
        self.clones.has_waited
    }

    /// A clone that was not deleted: its record, the volume at its root, and how many blocks it has.
    pub(super) fn clone_there(&self, index: usize) -> Option<(map::Volume, u64, u64)> {
        let guest = self.clones.guests.get(index).filter(|guest| !guest.deleted)?;
        let record = self.metadata.state().get(&map::volume_key(&guest.name))?;
        let record: map::Volume = record.json().ok()?;
        Some((record, self.clones.roots[guest.root].volume, guest.blocks))
    }

    /// Has a block of a clone data, by what its guest knows? None: he does not know.
    pub(super) fn clone_has_data(&self, index: usize, block: u64) -> Option<bool> {
        let guest = &self.clones.guests[index];
        if guest.late.contains(&block) {
            return None;
        }
        match guest.own.get(&block).map(Vec::as_slice) {
            Some([Some(write)]) => return Some(*write != CLEARED),
            Some([None]) | None => {}
            Some(_) => return None,
        }
        if let Some(write) = guest.inherited.get(&block) {
            return Some(*write != CLEARED);
        }
        // What reads as zeros may have been written so in part.
        let base = self.clones.roots[guest.root].base.get(&block)?;
        base.iter().any(|stamp| *stamp != Stamp::ZERO).then_some(true)
    }

    /// Is a member that comes back called whole for a clone by its owner, and not in sync yet?
    fn is_called_whole(&self, index: usize) -> bool {
        let guest = &self.clones.guests[index];
        let pool = pool_of(&self.setup, self.clones.roots[guest.root].volume);
        let found = self.metadata.state().get(&map::whole_key(pool, guest.id));
        let whole = found.and_then(|found| found.json::<map::Whole>().ok());
        let mut members = whole.into_iter().flat_map(|whole| whole.members);
        members.any(|member| {
            let id = GroupId {
                pool,
                index: member.group,
            };
            let syncs = |own: &map::Syncing| (own.store, own.since) == (member.store, member.since);
            self.group(id).is_ok_and(|group| group.syncing.iter().any(syncs))
        })
    }

    /// Clones of which all is made let go of their parents, and what they were made from may go.
    fn end_flattens(&mut self, now: Time) -> Result<(), String> {
        let is_due = self.clones.guests.iter().any(|guest| guest.flattening);
        if !is_due || now < self.clones.flat_looks {
            return Ok(());
        }
        self.clones.flat_looks = now.plus(LOOK * 4);
        let desk = Desk::new(&mut self.metadata, now);
        let ended = admin::end_flattens(&desk).map_err(|why| format!("no flattening ends: {why}"))?;
        if let Some((volume, why)) = ended.failed.first() {
            return Err(format!("the flattening of volume {volume} cannot end: {why}"));
        }
        for index in 0..self.clones.guests.len() {
            let guest = &self.clones.guests[index];
            let state = self.metadata.state();
            if !guest.flattening || state.get(&map::flatten_key(guest.id)).is_some() {
                continue;
            }
            let record = state.get(&map::volume_key(&guest.name));
            let record: Option<map::Volume> = record.and_then(|found| found.json().ok());
            let (id, name, from) = (guest.id, guest.name.clone(), guest.from.clone());
            self.clones.guests[index].flattening = false;
            let Some(record) = record else { continue };
            if !record.parents.is_empty() {
                return Err(format!("{name} is flat, and its record names {:?}", record.parents));
            }
            self.coverage.hit("clone.flattened");
            self.tell(|| format!("{name} is flat"));
            if self.clones.setup.late {
                // He begins, and another owner opens its chunks.
                let to = self.clones.flats.below(self.nodes.len() as u64) as Member;
                self.plan_move(now, (id, name.clone()), to);
            }
            let desk = Desk::new(&mut self.metadata, now);
            match admin::delete_snapshot(&desk, &from.0, &from.1) {
                Ok(gone) => {
                    self.snapshots.forget(gone.volume, gone.number);
                    self.coverage.hit(match gone.hidden {
                        true => "clone.parent_hidden",
                        false => "clone.parent_gone",
                    });
                    self.tell(|| format!("{}@{} is deleted", from.0, from.1));
                }
                // It, or its volume, was deleted before.
                Err(AdminError::NoSuch { .. }) => {}
                Err(why) => return Err(format!("{}@{} cannot be deleted: {why}", from.0, from.1)),
            }
        }
        Ok(())
    }

    /// What is hidden goes when nothing was cloned from it any more.
    fn purge_hidden(&mut self, now: Time) -> Result<(), String> {
        if self.clones.hidden == 0 || now < self.clones.looks {
            return Ok(());
        }
        self.clones.looks = now.plus(LOOK * 20);
        let desk = Desk::new(&mut self.metadata, now);
        let purged = admin::purge_what_is_due(&desk, 8, Duration::from_secs(seconds(now)));
        let purged = purged.map_err(|why| format!("nothing hidden is purged: {why}"))?;
        if let Some((what, why)) = purged.failed.first() {
            return Err(format!("{what} cannot be purged: {why}"));
        }
        let state = self.metadata.state();
        let is_hidden = |guest: &&Guest| state.get(&map::volume_key(&map::hidden_name(guest.id))).is_some();
        let left = self.clones.guests.iter().filter(is_hidden).count() as u32;
        let before = std::mem::replace(&mut self.clones.hidden, left);
        self.coverage
            .add("clone.hidden_gone", u64::from(before.saturating_sub(left)));
        Ok(())
    }

    fn hear_for_clone(&mut self, now: Time, index: usize) -> Result<(), String> {
        let guest = &mut self.clones.guests[index];
        if let Some((process, ..)) = &guest.at {
            let node = &self.nodes[guest.gateway];
            if node.process != *process || !node.is_up() {
                guest.leave(now);
            }
        }
        loop {
            let guest = &mut self.clones.guests[index];
            let next = guest
                .at
                .as_ref()
                .and_then(|(_, _, heard)| heard.borrow_mut().events.pop_front());
            match next {
                None => return Ok(()),
                Some(Event::Opened { result: Ok(info), .. }) => guest.open = Some(info.id),
                Some(Event::Opened { result: Err(_), .. } | Event::Lost { .. }) => {
                    self.hang_up_clone(now, index);
                    return Ok(());
                }
                Some(Event::Done { tag, result, payload }) => self.done_for_clone(now, index, tag, result, &payload)?,
                Some(_) => {}
            }
        }
    }

    fn done_for_clone(
        &mut self,
        now: Time,
        index: usize,
        tag: u64,
        result: Result<(), IoError>,
        payload: &Payload,
    ) -> Result<(), String> {
        let guest = &mut self.clones.guests[index];
        let block = tag & (WRITE - 1);
        let write = guest.under_way.remove(&block).flatten();
        if tag >= WRITE {
            let Some(write) = write else { return Ok(()) };
            match result {
                Ok(()) if !guest.late.contains(&block) => drop(guest.own.insert(block, vec![Some(write)])),
                _ => {
                    guest.late.insert(block);
                    guest.own.entry(block).or_insert_with(|| vec![None]).push(Some(write));
                }
            }
            self.coverage.add("clone.wrote", u64::from(result.is_ok()));
            return Ok(());
        }
        if result.is_err() {
            if let Some(unread) = &mut guest.unread {
                // In the end each block must be seen: he tries again in a moment, by any gateway.
                unread.insert(block);
                self.coverage.hit("clone.read_again");
                self.hang_up_clone(now, index);
            }
            return Ok(());
        }
        self.coverage.hit("clone.read");
        if guest.unread.is_some() {
            self.coverage.hit("clone.read_in_the_end");
        }
        let zeros = [0; BLOCK_BYTES as usize];
        let bytes: &[u8] = match payload {
            Payload::Data(data) => data,
            _ => &zeros,
        };
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let name = &guest.name;
        let possible = guest.own.get(&block).cloned().unwrap_or_else(|| vec![None]);
        let found = (word(0) == MARK).then(|| word(8));
        let is_zero = bytes.iter().all(|byte| *byte == 0);
        let inherited = guest.inherited.get(&block).copied();
        if is_zero && (possible.contains(&Some(CLEARED)) || (possible.contains(&None) && inherited == Some(CLEARED))) {
            self.coverage.hit("clone.read_cleared");
            return Ok(());
        }
        let is_inherited = possible.contains(&None) && found == inherited;
        if let Some(found) = found
            && !is_inherited
        {
            let is_whole = (0..bytes.len())
                .step_by(16)
                .all(|at| (word(at), word(at + 8)) == (MARK, found));
            return match is_whole && possible.contains(&Some(found)) {
                true => Ok(()),
                false => Err(format!(
                    "block {block} of {name} holds its guest's write {found}, and may hold {possible:?}"
                )),
            };
        }
        if !is_inherited {
            return Err(format!(
                "block {block} of {name} holds what it had first, and may hold {possible:?} (or {:?} of what it comes from)",
                guest.inherited.get(&block)
            ));
        }
        if found.is_some() {
            self.coverage.hit("clone.read_of_clone");
            return Ok(());
        }
        let root = &mut self.clones.roots[guest.root];
        let sector = Sector((root.volume * self.setup.blocks + block) * SECTORS_PER_BLOCK as u64);
        let stamps = stamp::parse(bytes, 1, sector).map_err(|corrupt| format!("{name}: {corrupt}"))?;
        self.coverage.hit("clone.read_inherited");
        let known = root.base.entry(block).or_insert_with(|| stamps.clone());
        if *known != stamps {
            return Err(format!(
                "block {block} of {name} is {stamps:?}, and snapshot {} that it comes from had {known:?}",
                root.number.0
            ));
        }
        Ok(())
    }

    fn act_for_clone(&mut self, now: Time, index: usize) {
        let guest = &mut self.clones.guests[index];
        if guest.at.is_none() && now >= guest.again && !guest.rests && !guest.is_idle {
            let up: Vec<Member> = (0..self.nodes.len())
                .filter(|member| self.nodes[*member].is_up())
                .collect();
            if !up.is_empty() {
                guest.gateway = *self.clones.random.pick(&up);
            }
            let node = &mut self.nodes[guest.gateway];
            match node.attach(0) {
                Some((front, heard)) => {
                    let process = node.process;
                    let name = guest.name.clone();
                    node.ask(0, front, |service| service.open(front, 0, &name, &Who::Program));
                    guest.at = Some((process, front, heard));
                }
                None => guest.again = now.plus(RETRY),
            }
        }
        let (Some((_, front, _)), Some(volume)) = (&guest.at, guest.open) else {
            return;
        };
        let front = *front;
        let is_early = self.clones.setup.late && (guest.flatten_at.is_some() || guest.flattening);
        let stops = guest.clone_at.is_some_and(|at| at <= now) || guest.wish.is_some() || guest.deletion.is_some();
        let stops = stops || (is_early && guest.unread.is_none()) || guest.rests;
        if guest.rests && guest.under_way.is_empty() && guest.wish.is_none() {
            return self.hang_up_clone(now, index);
        }
        while guest.under_way.len() < DEPTH && !stops {
            let random = &mut self.clones.random;
            let (block, writes) = match &mut guest.unread {
                Some(unread) => match unread.pop_first() {
                    Some(block) => (block, false),
                    None => break,
                },
                None if guest.left == 0 => break,
                None => (
                    random.below(guest.blocks),
                    random.percent(self.clones.setup.write_percent),
                ),
            };
            guest.left = guest.left.saturating_sub(1);
            if guest.under_way.contains_key(&block) {
                if let Some(unread) = &mut guest.unread {
                    unread.insert(block);
                }
                break;
            }
            let offset = block * u64::from(BLOCK_BYTES);
            let length = BLOCK_BYTES;
            let (op, tag, data) = if writes {
                self.clones.writes += 1;
                let write = self.clones.writes;
                guest.under_way.insert(block, Some(write));
                let words = [MARK.to_le_bytes(), write.to_le_bytes()].concat();
                let data = words.repeat(BLOCK_BYTES as usize / words.len());
                (Op::Write { offset, length }, WRITE + block, Slice::copy_from(&data))
            } else {
                guest.under_way.insert(block, None);
                (Op::Read { offset, length }, block, Slice::default())
            };
            self.nodes[guest.gateway].ask(0, front, |service| service.submit(front, tag, volume.into(), op, data));
        }
    }

    fn hang_up_clone(&mut self, now: Time, index: usize) {
        let guest = &mut self.clones.guests[index];
        if let Some((process, front, heard)) = &guest.at {
            heard.borrow_mut().gone = true;
            let node = &mut self.nodes[guest.gateway];
            if node.process == *process {
                node.detach(0, *front);
            }
        }
        guest.leave(now);
    }

    /// A guest has stopped: a snapshot of his volume is taken, and cloned.
    fn clone_clone(&mut self, now: Time, index: usize) -> Result<(), String> {
        let most = self.clones.setup.most;
        let (made, ending) = (self.clones.made, self.clones.ending);
        let guest = &mut self.clones.guests[index];
        let name = guest.name.clone();
        if let Some(wish) = guest.wish.clone() {
            if guest.clone_at.is_some_and(|at| now < at) {
                return Ok(());
            }
            guest.clone_at = Some(now.plus(LOOK));
            let desk = Desk::new(&mut self.metadata, now);
            let state = admin::snapshot_state(&desk, &wish).map_err(|why| why.to_string())?;
            let taken = match state {
                TakingState::Waiting if !ending => return Ok(()),
                TakingState::Waiting => {
                    admin::drop_snapshot_wish(&desk, &wish).map_err(|why| why.to_string())?;
                    return Ok(());
                }
                TakingState::Taken(_) => true,
                _ => false,
            };
            let guest = &mut self.clones.guests[index];
            (guest.wish, guest.clone_at) = (None, None);
            if taken && made < most {
                let mut inherited = guest.inherited.clone();
                for (block, possible) in &guest.own {
                    inherited.extend(possible.first().copied().flatten().map(|write| (*block, write)));
                }
                let root = guest.root;
                self.make_clone(now, (&name, &wish.name), root, inherited)?;
            }
            return Ok(());
        }
        if guest.clone_at.is_none_or(|at| at > now) || guest.deletion.is_some() || guest.rests {
            return Ok(());
        }
        let settled = guest.own.values().all(|possible| possible.len() == 1) && guest.under_way.is_empty();
        if !settled || made >= most || ending {
            // What he does not know nobody can be judged by.
            let is_waiting = !guest.under_way.is_empty() && !ending;
            guest.clone_at = is_waiting.then(|| now.plus(LOOK));
            return Ok(());
        }
        let desk = Desk::new(&mut self.metadata, now);
        let wished = admin::ask_snapshot(&desk, &name, "again", BTreeMap::new(), Duration::from_nanos(now.0));
        let guest = &mut self.clones.guests[index];
        match wished {
            Ok(wish) => (guest.wish, guest.clone_at) = (Some(wish), Some(now.plus(LOOK))),
            Err(_) => guest.clone_at = None,
        }
        Ok(())
    }

    /// The operator deletes a clone, for good.
    fn delete_clone(&mut self, now: Time, index: usize) -> Result<(), String> {
        let guest = &mut self.clones.guests[index];
        if guest.delete_at.is_none_or(|at| now < at) || guest.wish.is_some() || guest.rests {
            return Ok(());
        }
        if guest.deletion.is_none() {
            let deletion = Deletion::new(&guest.name, true, seconds(now));
            guest.deletion = Some((deletion, now, now.plus(PATIENCE)));
            self.hang_up_clone(now, index);
        }
        let guest = &mut self.clones.guests[index];
        let Some((mut deletion, at, until)) = guest.deletion.take() else {
            return Ok(());
        };
        if now < at {
            guest.deletion = Some((deletion, at, until));
            return Ok(());
        }
        let desk = Desk::new(&mut self.metadata, now);
        let step = match deletion.step(&desk) {
            Ok(None) if now < until => {
                guest.deletion = Some((deletion, now.plus(LOOK), until));
                return Ok(());
            }
            Ok(None) => deletion.give_up(&desk).map(Some),
            step => step,
        };
        guest.delete_at = None;
        match step {
            Ok(deleted) => {
                guest.deleted = true;
                let is_hidden = deleted.as_ref().is_some_and(|deleted| deleted.hidden);
                self.clones.hidden += u32::from(is_hidden);
                self.coverage.hit(match is_hidden {
                    true => "clone.hidden",
                    false => "clone.deleted",
                });
                let name = guest.name.clone();
                self.tell(|| format!("{name} is deleted"));
                Ok(())
            }
            Err(why) => Err(format!("{} cannot be deleted: {why}", guest.name)),
        }
    }

    /// The operator deletes those that there are, each when nothing holds it any more; are there any?
    pub(super) fn delete_clones(&mut self) -> bool {
        let now = self.world.now();
        let guests = self.clones.guests.iter_mut().filter(|guest| !guest.deleted);
        let left = guests.map(|guest| {
            guest.wish = None;
            guest.delete_at.get_or_insert(now);
        });
        left.count() > 0 || self.clones.hidden > 0
    }

    /// Is there what was cloned from a volume? It shares blocks with that, flattened or not, and may hold snapshots that were deleted.
    pub(super) fn is_cloned(&self, volume: u64) -> bool {
        let roots = &self.clones.roots;
        let mut guests = self.clones.guests.iter().filter(|guest| !guest.deleted);
        guests.any(|guest| roots[guest.root].volume == volume)
    }

    /// The volumes by whose number those that were cloned are hashed to groups: nothing is wrong any more, and each is read once more.
    pub(super) fn end_clones(&mut self) -> Result<(), String> {
        let begun = self.world.now();
        self.clones.ending = true;
        for guest in self.clones.guests.iter_mut().filter(|guest| !guest.deleted) {
            let unread = (0..guest.blocks).filter(|_| !guest.is_idle);
            guest.unread = Some(unread.collect());
        }
        let limit = begun.plus(SETTLE);
        loop {
            let now = self.world.now();
            let guests = &self.clones.guests;
            let waits = |guest: &&Guest| {
                let reads = guest.unread.as_ref().is_none_or(|unread| !unread.is_empty());
                !guest.deleted && (reads || guest.flattening || !guest.under_way.is_empty() || guest.wish.is_some())
            };
            let Some(name) = guests.iter().find(waits).map(|guest| guest.name.clone()) else {
                break;
            };
            if now >= limit {
                let may_block = (0..self.setup.volumes).any(|volume| self.may_block_in(volume));
                if may_block || self.ledger.is_anything_damaged() || self.setup.expect_full {
                    self.coverage.hit("clone.waits");
                    self.clones.has_waited = true;
                    break;
                }
                return Err(format!(
                    "nothing is wrong any more, and after {SETTLE:?} {name} is not read\n{}",
                    self.describe()
                ));
            }
            self.step(limit)?;
        }
        for index in 0..self.clones.guests.len() {
            self.hang_up_clone(self.world.now(), index);
            self.clones.guests[index].again = Time(u64::MAX);
        }
        Ok(())
    }

    /// What clones have shown of each snapshot was the volume at one moment, and is what stores hold of it.
    pub(super) fn judge_clones(&mut self) -> Result<(), String> {
        for root in &self.clones.roots {
            let (number, volume) = (root.number.0, volume_name(root.volume));
            let first = root.volume * self.setup.blocks;
            let base = root.base.iter().map(|(block, stamps)| (first + block, stamps.clone()));
            let base: BTreeMap<u64, Vec<Stamp>> = base.collect();
            self.history.check_cut(&base, root.between).map_err(|why| {
                format!("what clones have of snapshot {number} of {volume} is no moment of it: {why}")
            })?;
            self.coverage.add("judge.clone_blocks", base.len() as u64);
            let taken = self.snapshots.taken.iter();
            let mut taken = taken.filter(|taken| (taken.volume, taken.number) == (root.volume, root.number));
            let Some(taken) = taken.next() else { continue };
            for (block, held) in &taken.held {
                if base.get(block).is_some_and(|base| base != held) {
                    return Err(format!(
                        "block {block} is {held:?} in snapshot {number} of {volume}, and its clones have {:?}",
                        base.get(block)
                    ));
                }
                self.coverage
                    .add("judge.clone_as_snapshot", u64::from(base.contains_key(block)));
            }
        }
        Ok(())
    }

    /// The volume by whose number the chunks of a volume are hashed to groups.
    pub(super) fn place_of(&self, volume: VolumeId) -> VolumeId {
        let guests = self.clones.guests.iter();
        let clone = guests.into_iter().find(|guest| guest.id == volume);
        clone.map_or(volume, |guest| volume_id(self.clones.roots[guest.root].volume))
    }

    /// The events to look at again: none wait in vain.
    pub(super) fn is_cloning(&self) -> bool {
        let busy = |guest: &Guest| !guest.deleted && (guest.deletion.is_some() || guest.delete_at.is_some());
        self.clones.guests.iter().any(busy)
    }
}
