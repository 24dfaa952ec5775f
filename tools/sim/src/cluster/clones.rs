//! Volumes that are cloned from snapshots while hosts work (S6 to S9): each has a guest who reads and writes it at any gateway.
//!
//! What a guest has not written must be what the snapshot has: always the same, the same for every clone of it and for what stores
//! hold of it in the end, and for all blocks together what a crash could have left at one moment of the volume. What he has written
//! must be there. Some are cloned again, when their guest has stopped for a moment: that clone begins with what he knows. Some are
//! deleted; while there is one, the snapshot cannot be.

mod guest;
mod operator;
mod revert;

use super::operator::Desk;
use super::session::Heard;
use super::{Cluster, SETTLE, volume_name};
use crate::faults::Member;
use crate::random::Random;
use crate::stamp::Stamp;
use amita_control::admin::{self, Deletion};
use amita_frontend::FrontId;
use amita_metadata::Call;
use amita_reactor::Time;
use amita_types::map::{self, About, SnapshotWish};
use amita_types::{BLOCK_BYTES, PoolId, SnapshotId, VolumeId};
use revert::{Reverts, Turns};
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
    /// Of a hundred so many are made again what they were.
    pub reverted_percent: u64,
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
                reverted_percent: *Random::new(seed).fork(46).pick(&[0, 50, 80]),
            },
        }
    }
}

/// What a snapshot of a volume has, as its clones show it.
struct Root {
    volume: u64,
    /// The data that it is of, and in which pool.
    data: VolumeId,
    pool: PoolId,
    number: SnapshotId,
    between: (u64, u64),
    /// By the block in the volume.
    base: BTreeMap<u64, Vec<Stamp>>,
}

/// Is it what a guest has written?
pub(super) fn is_plain(block: &[u8]) -> bool {
    block[..8] == MARK.to_le_bytes()
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
    /// The operator has paused that, when so many chunks were made.
    paused: Option<u64>,
    shrink_at: Option<Time>,
    /// He lets go of it, so that it can be made smaller.
    rests: bool,
    /// He never comes.
    is_idle: bool,
    /// All that his volume ever was, by number.
    data: Vec<VolumeId>,
    turns: Turns,
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
    reverts: Reverts,
}

impl Clones {
    /// None yet.
    pub fn new(setup: Cloning, random: Random, of_reverts: Random) -> Clones {
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
            reverts: Reverts::new(of_reverts),
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
            let is_free = guest.deletion.is_none() && guest.wish.is_none() && !guest.rests;
            let reverts = guest.turns.at.filter(|_| is_free);
            [opens, deletes, clones, flattens, shrinks, reverts]
        });
        let looks = (self.hidden > 0).then_some(self.looks);
        times.flatten().chain(looks).chain(self.reverts.next()).min()
    }
}

impl Cluster {
    /// A snapshot of a volume is taken: the operator may clone it.
    pub(super) fn clone_taken(&mut self, now: Time, index: usize) -> Result<(), String> {
        let taken = &self.snapshots.taken[index];
        let record = self.volume(taken.volume)?;
        let root = Root {
            volume: taken.volume,
            data: record.id,
            pool: self.pool_of(taken.volume),
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
        let keys = self.setup.sealed.as_ref().map(|sealed| sealed as &dyn admin::DataKeys);
        let made = admin::clone_volume_with(&desk, keys, (volume, snapshot), &name, &about)
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
        let percent = if is_idle { 0 } else { setup.reverted_percent };
        let turns = Turns::draw(self.clones.reverts.random(), now, percent);
        let gateway = self.clones.random.below(self.setup.gateways() as u64) as usize;
        // Its snapshot was taken when the end began: it is read like the others.
        let unread = self.clones.ending.then(|| (0..blocks).filter(|_| !is_idle).collect());
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
            unread,
            clone_at,
            wish: None,
            delete_at,
            deletion: None,
            deleted: false,
            from: (volume.to_owned(), snapshot.to_owned()),
            flatten_at,
            flattening: false,
            paused: None,
            shrink_at,
            rests: false,
            is_idle,
            data: vec![made.id],
            turns,
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
            self.begin_revert(now, index);
            self.delete_clone(now, index)?;
        }
        self.end_flattens(now)?;
        self.purge_hidden(now)
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

    /// A clone that was not deleted: its record, the volume at its root, its pool, and how many blocks it has.
    pub(super) fn clone_there(&self, index: usize) -> Option<(map::Volume, u64, PoolId, u64)> {
        let guest = self.clones.guests.get(index).filter(|guest| !guest.deleted)?;
        let record = self.metadata.state().get(&map::volume_key(&guest.name))?;
        let record: map::Volume = record.json().ok()?;
        let root = &self.clones.roots[guest.root];
        Some((record, root.volume, root.pool, guest.blocks))
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

    /// Is there what was cloned from a volume? It shares blocks with that, flattened or not, and may hold snapshots that were deleted.
    pub(super) fn is_cloned(&self, volume: u64) -> bool {
        let roots = &self.clones.roots;
        let mut guests = self
            .clones
            .guests
            .iter()
            .filter(|guest| roots[guest.root].volume == volume);
        guests.any(|guest| !guest.deleted || guest.data.iter().any(|data| self.is_hidden(*data)))
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
        let mut guests = self.clones.guests.iter();
        let clone = guests.find(|guest| guest.data.contains(&volume));
        clone.map_or(volume, |guest| self.clones.roots[guest.root].data)
    }

    /// Is it there under a hidden name?
    fn is_hidden(&self, volume: VolumeId) -> bool {
        self.metadata
            .state()
            .get(&map::volume_key(&map::hidden_name(volume)))
            .is_some()
    }

    /// What is hidden of clones: deleted ones, and what clones were before they were reverted.
    fn count_hidden(&self) -> u32 {
        let all = self.clones.guests.iter().flat_map(|guest| &guest.data);
        all.filter(|data| self.is_hidden(**data)).count() as u32
    }

    /// The events to look at again: none wait in vain.
    pub(super) fn is_cloning(&self) -> bool {
        let busy = |guest: &Guest| !guest.deleted && (guest.deletion.is_some() || guest.delete_at.is_some());
        self.clones.guests.iter().any(busy)
    }
}
