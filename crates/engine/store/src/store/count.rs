//! What volumes and their snapshots hold is counted for who asks.
//!
//! **The story.** An operator wants to know what a volume takes, and what comes back if one of its snapshots is deleted. Nothing of
//! that is kept: counts that changed with every record would have to stand in checkpoints, be right after each replay, and
//! need more leaves than a change needs now (what a dropped state had together with one neighbour alone becomes that neighbour's
//! own). So it is counted, from the leaves themselves, which are what is true (`docs/decisions/047`).
//!
//! **Mechanism.** A question names volumes, which snapshots each of them has, and the groups for which this store speaks. A walk goes
//! over all chunks, part by part. A part is counted at one moment: its views from the oldest to the chunk itself, block for
//! block. The views that refer to one slot follow one another without a gap (`index/states`), so a slot is a *run* of views, and
//! who it belongs to follows from whose views these are. How many chunks use a slot the map of slots says. What a clone has not made yet it has from its parents: where a parent's
//! chunk is looked at, what it has there for a snapshot is counted for each clone that has that still. Leaves that are away are read past the cache, one at a time, so that
//! nobody else's go for them. Where the chunk has changed meanwhile, in what was looked at already, the part begins again.
//!
//! **What it is not.** Parts are counted one after the other: of a volume that is written to meanwhile each part is as it was at some
//! moment of the walk; how many use a slot is as it was when its run ended; and a chunk that a clone makes meanwhile may be counted
//! twice, or not at all. What clones share is in each of them: in `used` and `held`; `own` and `unique` leave it out, and `users`
//! tells it apart.
//!
//! **Pace.** A step looks at a few leaves; then there is a pause. Who asks, asks again until it is done; a walk that nobody asks for
//! any more ends.

use super::env::Env;
use super::io::Io;
use super::{Store, inherit, leaves};
use crate::State;
use crate::faults;
use crate::format::superblock::Superblock;
use crate::format::{PAGE_BYTES, Slot, leaf};
use crate::index::{Chunk, ChunkKey, Entry, Holders, Index, LEAF_ENTRIES, Leaf, Location, PARTS, Seen, Stretch};
use crate::slot_map::SlotMap;
use amita_reactor::{BufMut, Time};
use amita_types::{ChunkId, GroupIndex, SnapshotId, VolumeId};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Leaves that one step looks at, of all walks.
const LEAVES: u32 = 64;
/// Parts that one step finds empty, or of no interest.
const LOOKS: u32 = 1024;
/// Looking over so many states takes about as long as looking at a leaf.
const STATES_PER_LOOK: u32 = 32;
/// The pause between two steps.
const PAUSE: Duration = Duration::from_micros(500);
/// Walks at one time. Each reads one leaf at a time, and has some kilobytes, and its answer.
const MOST_WALKS: usize = 4;
/// A walk that nobody has asked for in so long is forgotten, with its answer.
const FORGOTTEN: Duration = Duration::from_secs(10);
/// Not before something happens.
const NEVER: Time = Time(u64::MAX);

/// What is to be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Names it: by this number it is asked for again. Nobody else takes the same.
    pub number: u64,
    /// How many groups the volumes' pool has.
    pub groups: u32,
    /// For these the store speaks; what it has of others is not counted.
    pub speaks_for: BTreeSet<GroupIndex>,
    /// In order of their number. The same for all stores that are asked.
    pub volumes: Arc<[AskedVolume]>,
}

/// A volume that is to be counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskedVolume {
    pub volume: VolumeId,
    /// The volume by whose number its chunks are hashed to groups, where that is another one (rule D8): it is a clone.
    pub place: Option<VolumeId>,
    /// Its snapshots, ascending: what only others have is waiting to be given back.
    pub live: Vec<SnapshotId>,
    /// Those of them that clones need, ascending: they stay, and so does the volume.
    pub pinned: Vec<SnapshotId>,
    /// Snapshots of which volumes it was cloned from, the nearest first; they need not be asked about.
    pub parents: Vec<(VolumeId, SnapshotId)>,
}

/// What one volume has in the groups that were asked for, in blocks: one copy of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeFigures {
    pub volume: VolumeId,
    /// What its head holds, with what it has from its parents.
    pub used: u64,
    /// What its head and all its snapshots hold, with what they have from its parents.
    pub held: u64,
    /// What would be free if the volume were deleted with all its snapshots: what no other one uses; nothing, if clones need one of them.
    pub own: u64,
    /// What was of deleted snapshots, and is not given back yet.
    pub freeing: u64,
    /// Of snapshots that have some: what would be free if this one alone were deleted. Ascending.
    pub unique: Vec<(SnapshotId, u64)>,
    /// What its own chunks refer to, by how many chunks use it, this one included. Ascending. The sum over all volumes, each divided by
    /// its users, is what they have together.
    pub users: Vec<(u32, u64)>,
}

/// How far a count is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Count {
    /// So much of a hundred is done: ask again.
    Counting { percent: u8 },
    /// In order of the volumes' numbers, all that were asked for.
    Done(Arc<[VolumeFigures]>),
    /// The store is not served, or counts for others: ask again.
    Busy,
    /// It cannot be known.
    Unknown(String),
}

/// All counts under way.
#[derive(Debug, Default)]
pub(super) struct Counts {
    walks: Vec<Walk>,
    /// Numbers walks: the number of a question is its asker's.
    begun: u64,
}

#[derive(Debug)]
struct Walk {
    number: u64,
    question: Arc<Question>,
    asked: Time,
    /// When it goes on.
    due: Time,
    /// Of which volumes of the question others are parents.
    heirs: FxHashMap<VolumeId, Heirs>,
    /// The chunk and the part that it is at.
    key: u32,
    part: usize,
    viewers: Option<Viewers>,
    under_way: Option<Part>,
    /// In the order of the question's volumes.
    tallies: Vec<Tally>,
    end: Option<Result<Arc<[VolumeFigures]>, String>>,
}

/// The clones that have a volume among their parents.
#[derive(Debug, Default)]
struct Heirs {
    /// Their places in the question, and from which snapshot they come.
    clones: Vec<(usize, SnapshotId)>,
    /// How many chunks are looked for at most to know which of them inherit one: each counts as a look.
    finds: u32,
}

/// For whom a chunk is counted.
#[derive(Debug)]
struct Viewers {
    chunk: ChunkId,
    /// Its volume's place in the question.
    own: Option<usize>,
    /// The clones that have it from a snapshot, and which of them.
    heirs: BTreeMap<SnapshotId, Vec<usize>>,
}

/// A part that was begun.
#[derive(Debug)]
struct Part {
    chunk: ChunkId,
    /// What was looked at of it.
    seen: Vec<Stretch>,
    runs: Box<[Run; LEAF_ENTRIES]>,
    tally: Tally,
    /// What clones have of it, by the snapshot from which they have it.
    inherited: BTreeMap<SnapshotId, u64>,
    /// A leaf that is being read, by its place, its page and its checksum; or was.
    wanted: Option<(Location, Slot, u32)>,
    page: Option<Result<Box<[Entry; LEAF_ENTRIES]>, ()>>,
}

/// A block's slot, and who has seen it there.
#[derive(Clone, Copy, Debug)]
struct Run {
    slot: Slot,
    holders: Holders,
}

#[derive(Debug, Default)]
struct Tally {
    used: u64,
    held: u64,
    own: u64,
    freeing: u64,
    unique: FxHashMap<SnapshotId, u64>,
    /// What one chunk alone uses; and what several do, by how many.
    alone: u64,
    shared: BTreeMap<u32, u64>,
}

impl Counts {
    /// When the next step is due.
    pub fn deadline(&self) -> Option<Time> {
        let due = self.walks.iter().map(|walk| walk.due).min();
        due.filter(|due| *due < NEVER)
    }
}

/// Somebody asks, for the first time or again.
pub(super) fn ask(store: &mut Store, question: &Arc<Question>) -> Count {
    let now = store.env.now;
    if !question.groups.is_power_of_two() {
        return Count::Unknown(format!("{} groups; their number is a power of two", question.groups));
    }
    if !matches!(store.state, State::Serving) {
        return Count::Busy;
    }
    let counts = &mut store.counts;
    let is_old = |walk: &Walk| walk.due == NEVER && walk.asked.plus(FORGOTTEN) <= now;
    counts.walks.retain(|walk| !is_old(walk) || walk.is_reading());
    if let Some(walk) = counts
        .walks
        .iter_mut()
        .find(|walk| walk.question.number == question.number)
    {
        walk.asked = now;
        let percent = u64::from(walk.key) * 100 / u64::from(store.index.end().max(1));
        return match &walk.end {
            None => Count::Counting {
                percent: percent.min(99) as u8,
            },
            Some(Ok(figures)) => Count::Done(Arc::clone(figures)),
            Some(Err(why)) => Count::Unknown(why.clone()),
        };
    }
    if counts.walks.iter().filter(|walk| walk.end.is_none()).count() >= MOST_WALKS {
        return Count::Busy;
    }
    // Answers wait for whoever may have missed them: the oldest go first.
    while counts.walks.len() >= 2 * MOST_WALKS {
        let ended = counts.walks.iter().filter(|walk| walk.end.is_some());
        let Some(oldest) = ended.map(|walk| walk.number).min() else {
            break;
        };
        counts.walks.retain(|walk| walk.number != oldest);
    }
    counts.begun += 1;
    let mut heirs: FxHashMap<VolumeId, Heirs> = FxHashMap::default();
    for (place, asked) in question.volumes.iter().enumerate() {
        for &(parent, at) in &asked.parents {
            let heirs = heirs.entry(parent).or_default();
            heirs.clones.push((place, at));
            let nearer = asked.parents.iter().position(|(nearer, _)| *nearer == parent);
            heirs.finds += 2 + nearer.unwrap_or(0) as u32;
        }
    }
    counts.walks.push(Walk {
        number: counts.begun,
        question: faults::without_newest(store.config.faults, question),
        asked: now,
        due: now,
        heirs,
        key: 0,
        part: 0,
        viewers: None,
        under_way: None,
        tallies: question.volumes.iter().map(|_| Tally::default()).collect(),
        end: None,
    });
    Count::Counting { percent: 0 }
}

/// The next step of what is due.
pub(super) fn step(store: &mut Store) {
    let now = store.env.now;
    if store.counts.walks.iter().all(|walk| walk.due > now) {
        return;
    }
    let mut walks = std::mem::take(&mut store.counts.walks);
    walks.retain(|walk| walk.end.is_some() || walk.is_reading() || now < walk.asked.plus(FORGOTTEN));
    let mut budget = Budget {
        leaves: LEAVES,
        looks: LOOKS,
    };
    for walk in walks.iter_mut().filter(|walk| walk.due <= now) {
        walk.due = now.plus(PAUSE);
        let (index, map) = (&store.index, &store.space.map);
        if let Some(end) = walk.go_on(&mut store.env, index, map, &store.superblock, &mut budget) {
            walk.due = NEVER;
            walk.under_way = None;
            walk.end = Some(end);
        }
    }
    // Another one is the first to go on next time.
    if !walks.is_empty() {
        walks.rotate_left(1);
    }
    store.counts.walks = walks;
}

/// A leaf was read.
pub(super) fn read_done(store: &mut Store, walk: u64, buffer: &BufMut, result: &io::Result<()>) {
    let (id, slots, now) = (store.env.id, store.superblock.geometry.slots, store.env.now);
    let Some(walk) = store.counts.walks.iter_mut().find(|known| known.number == walk) else {
        return;
    };
    walk.due = now;
    if let Some(part) = &mut walk.under_way
        && let Some((at, _, sum)) = part.wanted
    {
        let page = result.as_ref().ok().and_then(|()| {
            let decoded = leaf::decode(buffer, id, part.chunk, usize::from(at.part), sum, slots);
            decoded.ok()
        });
        part.page = Some(page.ok_or(()));
    }
}

/// What a step may do.
struct Budget {
    leaves: u32,
    looks: u32,
}

impl Walk {
    fn is_reading(&self) -> bool {
        let part = self.under_way.as_ref();
        part.is_some_and(|part| part.wanted.is_some() && part.page.is_none())
    }

    /// Goes on as far as the budget goes, or to a leaf that is not here; or to the end, which is returned.
    fn go_on(
        &mut self,
        env: &mut Env,
        index: &Index,
        map: &SlotMap,
        superblock: &Superblock,
        budget: &mut Budget,
    ) -> Option<Result<Arc<[VolumeFigures]>, String>> {
        if self.is_reading() {
            self.due = NEVER;
            return None;
        }
        while budget.leaves > 0 && budget.looks > 0 {
            if self.key >= index.end() {
                return Some(Ok(self.figures()));
            }
            let key = ChunkKey(self.key);
            let chunk = index.chunk(key);
            // The chunk's place is another one's now, which was not counted yet.
            if self.viewers.as_ref().is_some_and(|viewers| viewers.chunk != chunk.id) {
                (self.part, self.under_way, self.viewers) = (0, None, None);
            }
            if self.viewers.is_none() {
                self.viewers = match self.viewers_of(index, key, budget) {
                    Ok(viewers) => viewers,
                    Err(Incomplete(parent)) => return Some(Err(incomplete(parent))),
                };
            }
            let Some(viewers) = &self.viewers else {
                self.next_chunk();
                continue;
            };
            if chunk.incomplete {
                return Some(Err(incomplete(chunk.id)));
            }
            // Every look goes over the chunk's states, and the snapshots that clones have it from.
            let views = chunk.state_count() + viewers.heirs.len();
            let work = 1 + views as u32 / STATES_PER_LOOK;
            if index.has_nothing(key, self.part) {
                budget.looks = budget.looks.saturating_sub(work);
                self.next_part();
                continue;
            }
            budget.leaves = budget.leaves.saturating_sub(work);
            let own = viewers.own.map(|place| &self.question.volumes[place]);
            let mut stretches = index.stretches(key, self.part, own.map_or(&[], |own| &own.live));
            let seen_by = |snapshot: &SnapshotId| index.leaf_seen(key, self.part, *snapshot);
            let inherited: BTreeMap<SnapshotId, Location> = viewers
                .heirs
                .keys()
                .filter_map(|snapshot| Some((*snapshot, seen_by(snapshot)?)))
                .collect();
            if own.is_none() {
                let wanted: BTreeSet<SnapshotId> = inherited.values().map(|at| at.to).collect();
                stretches.retain(|stretch| wanted.contains(&stretch.at.to));
                if stretches.is_empty() {
                    self.next_part();
                    continue;
                }
            }
            let part = self.under_way.get_or_insert_with(|| Part::new(chunk.id));
            // Of what is not counted for itself nothing may be left to look at, where a snapshot has gone meanwhile.
            if !stretches.starts_with(&part.seen) || part.seen.len() == stretches.len() {
                *part = Part::new(chunk.id);
            }
            let next = stretches[part.seen.len()];
            let heirs = inherited.iter().filter(|(_, at)| **at == next.at);
            let view = Look {
                stretch: next,
                heirs: heirs.map(|(snapshot, _)| *snapshot).collect(),
                map,
            };
            match index.leaf(next.at) {
                Leaf::Here => part.look(&view, |each| index.look_at_entries(next.at, each)),
                Leaf::Away(slot) => {
                    let (_, sum) = index.look_page(next.at).expect("it is away");
                    let wanted = Some((next.at, slot, sum));
                    match part.page.take().filter(|_| part.wanted == wanted) {
                        Some(Ok(page)) => part.look(&view, |each| {
                            page.iter().enumerate().for_each(|(block, entry)| each(block, *entry));
                        }),
                        Some(Err(())) => return Some(Err(damaged(chunk, next.at))),
                        None => {
                            part.wanted = wanted;
                            env.counters.leaf_reads += 1;
                            let (walk, buffer) = (self.number, env.take_surely(PAGE_BYTES));
                            env.start_read(Io::Count { walk }, superblock.geometry.slot_offset(slot), buffer);
                            self.due = NEVER;
                            return None;
                        }
                    }
                }
                // Somebody else reads it.
                Leaf::Loading => return None,
                Leaf::Lost => return Some(Err(damaged(chunk, next.at))),
            }
            if part.seen.len() == stretches.len() {
                part.end(map);
                let (tally, inherited) = (std::mem::take(&mut part.tally), std::mem::take(&mut part.inherited));
                if let Some(place) = viewers.own {
                    self.tallies[place].add(tally);
                }
                for (snapshot, blocks) in inherited {
                    let heirs = viewers.heirs.get(&snapshot);
                    budget.looks = budget
                        .looks
                        .saturating_sub(heirs.map_or(0, Vec::len) as u32 / STATES_PER_LOOK);
                    for &place in heirs.into_iter().flatten() {
                        self.tallies[place].used += blocks;
                        self.tallies[place].held += blocks;
                    }
                }
                self.next_part();
            }
        }
        None
    }

    /// For whom the chunk is counted, if this store speaks for it.
    fn viewers_of(&self, index: &Index, key: ChunkKey, budget: &mut Budget) -> Result<Option<Viewers>, Incomplete> {
        let chunk = index.chunk(key);
        budget.looks -= 1;
        if !chunk.is_there() {
            return Ok(None);
        }
        let volumes = &self.question.volumes;
        let speaks_for = |asked: &AskedVolume| {
            let home = ChunkId {
                volume: asked.place.unwrap_or(asked.volume),
                ..chunk.id
            };
            self.question.speaks_for.contains(&home.group(self.question.groups))
        };
        let own = volumes.binary_search_by_key(&chunk.id.volume, |asked| asked.volume);
        let own = own.ok().filter(|place| speaks_for(&volumes[*place]));
        let mut heirs: BTreeMap<SnapshotId, Vec<usize>> = BTreeMap::new();
        // All that come from one volume are hashed as that is.
        let known = self.heirs.get(&chunk.id.volume);
        let known = known.filter(|known| {
            known
                .clones
                .first()
                .is_some_and(|(place, _)| speaks_for(&volumes[*place]))
        });
        if let Some(known) = known {
            budget.looks = budget.looks.saturating_sub(known.finds);
            for &(place, at) in &known.clones {
                let heir = &volumes[place];
                let made = ChunkId {
                    volume: heir.volume,
                    ..chunk.id
                };
                let has_own = index.find(made).is_some_and(|made| index.chunk(made).is_there());
                if !has_own && inherits(index, &heir.parents, (key, at))? {
                    heirs.entry(at).or_default().push(place);
                }
            }
        }
        let viewers = Viewers {
            chunk: chunk.id,
            own,
            heirs,
        };
        Ok((viewers.own.is_some() || !viewers.heirs.is_empty()).then_some(viewers))
    }

    fn next_part(&mut self) {
        self.under_way = None;
        self.part += 1;
        if self.part == PARTS {
            self.next_chunk();
        }
    }

    fn next_chunk(&mut self) {
        (self.under_way, self.viewers) = (None, None);
        (self.key, self.part) = (self.key + 1, 0);
    }

    fn figures(&mut self) -> Arc<[VolumeFigures]> {
        let tallies = std::mem::take(&mut self.tallies);
        let volumes = self.question.volumes.iter().map(|asked| asked.volume);
        let pinned = self.question.volumes.iter().map(|asked| &asked.pinned);
        let figures = volumes.zip(tallies).zip(pinned).map(|((volume, tally), pinned)| {
            let unique = tally.unique.into_iter();
            let mut unique: Vec<(SnapshotId, u64)> = unique.filter(|(number, _)| !pinned.contains(number)).collect();
            unique.sort_unstable();
            let alone = (tally.alone > 0).then_some((1, tally.alone));
            VolumeFigures {
                volume,
                used: tally.used,
                held: tally.held,
                own: if pinned.is_empty() { tally.own } else { 0 },
                freeing: tally.freeing,
                unique,
                users: alone.into_iter().chain(tally.shared).collect(),
            }
        });
        figures.collect()
    }
}

/// A parent's chunk is not whole here, so what a clone has of it cannot be told.
struct Incomplete(ChunkId);

fn incomplete(chunk: ChunkId) -> String {
    format!("chunk {chunk} is being brought up to date on this store")
}

/// Is it this chunk, as of this snapshot, that a clone with these parents has where it has none of its own? What is not kept is had by
/// nobody: reads of it fail.
fn inherits(
    index: &Index,
    parents: &[(VolumeId, SnapshotId)],
    (key, at): (ChunkKey, SnapshotId),
) -> Result<bool, Incomplete> {
    let check = |key: ChunkKey, at: SnapshotId| {
        let chunk = index.chunk(key);
        match chunk.incomplete {
            true => Err(Some(chunk.id)),
            false if chunk.seen(at) == Seen::NotKept => Err(None),
            false => Ok(()),
        }
    };
    match inherit::nearest_of(index, index.chunk(key).id.index, parents, check) {
        Ok(found) => Ok(found.is_some_and(|(from, seen_at, _)| (from, seen_at) == (key, at))),
        Err(Some(chunk)) => Err(Incomplete(chunk)),
        Err(None) => Ok(false),
    }
}

fn damaged(chunk: &Chunk, at: Location) -> String {
    format!(
        "where the blocks from {} on of chunk {} are cannot be read on this store: `amita volume scrub` repairs it from the other \
         copies",
        leaves::first_block(at).0,
        chunk.id
    )
}

impl Part {
    fn new(chunk: ChunkId) -> Part {
        let nothing = Run {
            slot: Slot::NONE,
            holders: Holders::default(),
        };
        Part {
            chunk,
            seen: Vec::new(),
            runs: Box::new([nothing; LEAF_ENTRIES]),
            tally: Tally::default(),
            inherited: BTreeMap::new(),
            wanted: None,
            page: None,
        }
    }

    /// Looks at the next stretch, of which `entries` tells the leaf.
    fn look(&mut self, look: &Look<'_>, entries: impl FnOnce(&mut dyn FnMut(usize, Entry))) {
        let Part { runs, tally, .. } = self;
        let (stretch, mut blocks) = (look.stretch, 0);
        entries(&mut |block, entry| {
            let run = &mut runs[block];
            blocks += u64::from(entry.has_data());
            if entry.has_data() && entry.slot == run.slot {
                run.holders = run.holders.and(stretch.holders);
            } else {
                tally.count(*run, look.map);
                *run = Run {
                    slot: entry.slot,
                    holders: stretch.holders,
                };
            }
        });
        for snapshot in &look.heirs {
            *self.inherited.entry(*snapshot).or_default() += blocks;
        }
        self.seen.push(stretch);
        (self.wanted, self.page) = (None, None);
    }

    /// All was looked at.
    fn end(&mut self, map: &SlotMap) {
        for run in self.runs.iter() {
            self.tally.count(*run, map);
        }
    }
}

/// A stretch that is looked at.
struct Look<'a> {
    stretch: Stretch,
    /// The snapshots from which clones have what is there.
    heirs: Vec<SnapshotId>,
    map: &'a SlotMap,
}

impl Tally {
    fn count(&mut self, run: Run, map: &SlotMap) {
        if run.slot == Slot::NONE {
            return;
        }
        let users = map.users(run.slot);
        match users {
            1 => self.alone += 1,
            users => *self.shared.entry(users).or_default() += 1,
        }
        let Holders { head, snapshots, only } = run.holders;
        let is_own = users == 1;
        match (head, snapshots) {
            (false, 0) => return self.freeing += u64::from(is_own),
            (false, 1) if is_own => *self.unique.entry(only).or_default() += 1,
            _ => {}
        }
        self.used += u64::from(head);
        self.held += 1;
        self.own += u64::from(is_own);
    }

    fn add(&mut self, other: Tally) {
        self.used += other.used;
        self.held += other.held;
        self.own += other.own;
        self.freeing += other.freeing;
        self.alone += other.alone;
        for (snapshot, count) in other.unique {
            *self.unique.entry(snapshot).or_default() += count;
        }
        for (users, count) in other.shared {
            *self.shared.entry(users).or_default() += count;
        }
    }
}
