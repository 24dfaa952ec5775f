//! Everything that must hold is looked at.

mod data;
mod lost;
mod superblocks;
mod users;

use super::{LeafFault, Offline, Problem, ReadAt, Report, User, checkpoint_items};
use crate::config::Config;
use crate::error::MountError;
use crate::format::checkpoint::{Item, flag};
use crate::format::superblock::{Fault, Superblock};
use crate::format::{PAGE_BYTES, Slot};
use crate::index::{Chunk, ChunkKey, Entry, LEAF_ENTRIES, Location, PARTS, StateLook};
use crate::slot_map::SlotMap;
use amita_types::{BlockIndex, ChunkId, SnapshotId, Version};
use rustc_hash::{FxHashMap, FxHashSet};

/// How often a store is looked at that is written meanwhile.
const ATTEMPTS: u32 = 3;

/// What to look at.
#[derive(Clone, Copy, Debug)]
pub struct CheckOptions {
    /// Also read all data and compare it with its checksums.
    pub data: bool,
    /// The most problems that are listed; the rest is counted.
    pub most: usize,
}

impl Default for CheckOptions {
    fn default() -> CheckOptions {
        CheckOptions {
            data: false,
            most: 1000,
        }
    }
}

/// How far a check has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub what: &'static str,
    /// So much is done
    pub done: u64,
    pub total: u64,
}

/// Checks a store that may be served at the same time. What is found in a store that is written meanwhile may only look like
/// a problem: then it is looked at again, up to three times in all, and only what is found every time counts.
pub fn check(
    reader: &impl ReadAt,
    config: &Config,
    options: &CheckOptions,
    progress: &mut dyn FnMut(Progress),
) -> Report {
    let mut attempts = 0;
    let mut gone = 0;
    let mut before: Option<Report> = None;
    loop {
        attempts += 1;
        let (mut report, state) = once(reader, config, options, progress);
        let moved = !report.is_clean() && state != State::of(reader, config);
        // One that is not written any more is what it is now.
        if moved && let Some(before) = &before {
            let all = report.problems.len();
            // Where nothing could be looked at, that stands.
            report
                .problems
                .retain(|problem| matches!(problem, Problem::Refused(_)) || before.problems.contains(problem));
            gone += (all - report.problems.len()) as u64;
        } else if let Some(before) = &before {
            let missing = before
                .problems
                .iter()
                .filter(|problem| !report.problems.contains(problem));
            gone += missing.count() as u64;
        }
        if !moved || report.is_clean() || attempts == ATTEMPTS {
            if attempts > 1 || moved {
                report.remarks.push(Problem::Changed { attempts, gone });
            }
            return report;
        }
        before = Some(report);
    }
}

/// What changes with every write.
#[derive(Debug, PartialEq)]
struct State {
    copies: [Result<Superblock, Fault>; 2],
    /// Where the log ends.
    end: Result<(u64, u32), MountError>,
}

impl State {
    fn of(reader: &impl ReadAt, config: &Config) -> State {
        match Offline::open(reader, config.clone()) {
            Ok(offline) => State::opened(&offline),
            Err(error) => State::refused(reader, error),
        }
    }

    fn opened<R: ReadAt>(offline: &Offline<R>) -> State {
        State {
            copies: *offline.superblocks(),
            end: Ok(offline.store.look_log_end()),
        }
    }

    fn refused(reader: &impl ReadAt, error: MountError) -> State {
        State {
            copies: super::superblocks(reader),
            end: Err(error),
        }
    }
}

fn once(
    reader: &impl ReadAt,
    config: &Config,
    options: &CheckOptions,
    progress: &mut dyn FnMut(Progress),
) -> (Report, State) {
    progress(Progress {
        what: "mounting",
        done: 0,
        total: 0,
    });
    match Offline::open(reader, config.clone()) {
        Ok(mut offline) => {
            let state = State::opened(&offline);
            (offline.check(options, progress), state)
        }
        Err(error) => {
            let mut report = Report::default();
            let copies = super::superblocks(reader);
            superblocks::check(&copies, &mut report, options.most);
            if let MountError::CheckpointDamaged { .. } = error
                && let Some(superblock) = super::newest(&copies)
            {
                states_on_disk(reader, &superblock, &mut report, options.most);
            }
            let state = State::refused(reader, error.clone());
            report.add(Problem::Refused(error), options.most);
            (report, state)
        }
    }
}

/// Says of a checkpoint that cannot be mounted whose states are out of order.
fn states_on_disk(reader: &impl ReadAt, superblock: &Superblock, report: &mut Report, most: usize) {
    let mut chunk: Option<(ChunkId, SnapshotId, bool)> = None;
    let mut last: Option<(SnapshotId, Version)> = None;
    checkpoint_items(reader, superblock, &mut |place, item| match item {
        Ok(Item::Chunk(item)) => {
            let known = item.flags & flag::GONE == 0;
            chunk = known.then_some((item.chunk, item.snapshot, item.flags & flag::LOOSE != 0));
            last = None;
        }
        Ok(Item::State(item)) => {
            let Some((id, snapshot, loose)) = chunk else { return };
            let state = (item.above, item.to, item.version);
            if let Some(what) = wrong_state(state, last, snapshot, loose) {
                let (above, to) = (item.above, item.to);
                let offset = Some(place.offset);
                report.add(
                    Problem::States {
                        chunk: id,
                        above,
                        to,
                        what,
                        offset,
                    },
                    most,
                );
            }
            last = Some((item.to, item.version));
        }
        // What is in a page of its own is looked at when the mount has read it.
        Ok(Item::Older(item)) => last = Some((item.to, Version::NONE)),
        _ => {}
    });
}

/// What is wrong with a state (above, to, version) that follows another one (to, version) of a chunk? In a `loose` one
/// versions go up and down.
fn wrong_state(
    (above, to, version): (SnapshotId, SnapshotId, Version),
    last: Option<(SnapshotId, Version)>,
    newest: SnapshotId,
    loose: bool,
) -> Option<&'static str> {
    match last {
        _ if above >= to => Some("stands for no snapshot"),
        _ if to > newest && !loose => Some("stands for snapshots that the chunk has not seen"),
        Some((before, _)) if above < before => Some("overlaps the state before it"),
        Some((_, before)) if version < before && !loose => Some("is older than the state before it"),
        _ => None,
    }
}

impl<R: ReadAt> Offline<R> {
    /// Looks at everything that must hold; see [`Problem`]. A store that is served meanwhile is better looked at by [`check`].
    pub fn check(&mut self, options: &CheckOptions, progress: &mut dyn FnMut(Progress)) -> Report {
        let mut report = Report::default();
        superblocks::check(&self.copies, &mut report, options.most);
        let mount = self.store.status().mount;
        report.mount = Some(mount);
        if mount.ended_short {
            let (sequence, _) = self.store.look_log_end();
            let offset = self.store.look_superblock().geometry.log_page_offset(sequence);
            let batches = mount.batches_dropped;
            report.add(
                Problem::EndedShort {
                    sequence,
                    offset,
                    batches,
                },
                options.most,
            );
        }
        let slots = self.store.look_superblock().geometry.slots;
        let mut checker = Checker {
            offline: self,
            options,
            report,
            users: SlotMap::new(slots),
            twice: FxHashSet::default(),
            own: FxHashMap::default(),
            to_verify: Vec::new(),
        };
        checker.chunks(progress);
        checker.find_lost();
        checker.compare_users(progress);
        checker.compare_allocator();
        checker.report
    }
}

/// A check under way.
struct Checker<'a, R> {
    offline: &'a Offline<R>,
    options: &'a CheckOptions,
    report: Report,
    /// The users of every slot, counted anew.
    users: SlotMap,
    /// Slots that are known to be used by two that may not.
    twice: FxHashSet<Slot>,
    /// The slots of the chunk that is being looked at.
    own: FxHashMap<Slot, (User, BlockIndex, Entry)>,
    /// Its blocks whose data is to be read.
    to_verify: Vec<(User, BlockIndex, Entry)>,
}

/// Which leaf is looked at.
#[derive(Clone, Copy, Debug)]
struct LeafAt {
    chunk: ChunkId,
    snapshot: SnapshotId,
    part: u8,
}

impl LeafAt {
    fn user(self) -> User {
        User::Leaf {
            chunk: self.chunk,
            snapshot: self.snapshot,
            part: self.part,
        }
    }

    fn block(self, at: usize) -> BlockIndex {
        BlockIndex(u16::from(self.part) * LEAF_ENTRIES as u16 + at as u16)
    }

    fn data(self, block: BlockIndex) -> User {
        User::Data {
            chunk: self.chunk,
            snapshot: self.snapshot,
            block,
        }
    }
}

impl<R: ReadAt> Checker<'_, R> {
    fn add(&mut self, problem: Problem) {
        self.report.add(problem, self.options.most);
    }

    fn offset(&self, slot: Slot) -> u64 {
        self.offline.slot_offset(slot)
    }

    fn chunks(&mut self, progress: &mut dyn FnMut(Progress)) {
        let offline = self.offline;
        let index = offline.store.look_index();
        let total = index.len() as u64;
        for (done, key) in (0..).zip(index.keys()) {
            if done % 64 == 0 {
                let what = "looking at chunks";
                progress(Progress { what, done, total });
            }
            self.chunk(key);
        }
        self.report.seen.chunks = total;
        self.report.seen.clones = index.origins() as u64;
    }

    fn chunk(&mut self, key: ChunkKey) {
        let offline = self.offline;
        let index = offline.store.look_index();
        let chunk = index.chunk(key);
        let states = index.look_states(key);
        self.report.seen.states += states.len() as u64;
        self.states(chunk, &states);
        let origin = index.origin(key);
        if origin.index != chunk.id.index {
            self.add(Problem::Origin {
                chunk: chunk.id,
                origin,
            });
        }
        self.own.clear();
        for (slot, snapshot) in index.look_pages_of_states(key) {
            let chunk = chunk.id;
            self.report.seen.state_pages += 1;
            self.claim(slot, User::States { chunk, snapshot });
        }
        let leaves = index.all_leaves(key);
        let (head, own) = leaves.split_at(PARTS);
        // Which older state has the same part of its own.
        let mut last: [Option<SnapshotId>; PARTS] = [None; PARTS];
        let older = own.iter().map(|at| last[usize::from(at.part)].replace(at.to));
        let older: Vec<Option<SnapshotId>> = older.collect();
        for (&at, &before) in head.iter().zip(&last).chain(own.iter().zip(&older)) {
            if index.look_is_never(at) {
                continue;
            }
            if chunk.deleted && at.is_head() {
                let (chunk, part) = (chunk.id, at.part);
                self.add(Problem::DeletedHasBlocks { chunk, part });
            }
            // What joined another history holds what is above its version, until it is whole.
            let limit = if chunk.loose {
                Version(u64::MAX)
            } else {
                limit(&states, chunk.durable, at, before)
            };
            self.leaf(at, leaf_at(chunk.id, at), limit);
        }
        if self.options.data {
            self.verify(index.place(key));
        }
    }

    fn states(&mut self, chunk: &Chunk, states: &[StateLook]) {
        let (newest, durable, loose) = (chunk.snapshot, chunk.durable, chunk.loose);
        let chunk = chunk.id;
        let mut last = None;
        for state in states {
            let (above, to) = (state.above, state.to);
            let mut what = wrong_state((above, to, state.version), last, newest, loose);
            if what.is_none() && state.version > durable && !loose {
                what = Some("is newer than the chunk");
            }
            if let Some(what) = what {
                self.add(Problem::States {
                    chunk,
                    above,
                    to,
                    what,
                    offset: None,
                });
            }
            last = Some((to, state.version));
        }
    }

    fn leaf(&mut self, at: Location, whose: LeafAt, limit: Version) {
        let offline = self.offline;
        let index = offline.store.look_index();
        self.report.seen.leaves += 1;
        let page = index.look_page(at);
        if let Some((slot, _)) = page {
            self.claim(slot, whose.user());
        }
        self.report.seen.leaf_pages_read += u64::from(matches!(index.leaf(at), crate::index::Leaf::Away(_)));
        let entries = match offline.leaf(at) {
            Ok(entries) => entries,
            Err(fault) => return self.lost(whose, page.map(|(slot, _)| slot), fault),
        };
        for (n, &entry) in entries.iter().enumerate() {
            self.entry(whose, whose.block(n), entry, limit);
        }
    }

    fn lost(&mut self, whose: LeafAt, slot: Option<Slot>, fault: LeafFault) {
        self.report.seen.leaves_lost += 1;
        let offset = slot.map(|slot| self.offset(slot));
        self.add(Problem::Leaf {
            chunk: whose.chunk,
            snapshot: whose.snapshot,
            part: whose.part,
            slot,
            offset,
            fault,
        });
    }

    fn entry(&mut self, whose: LeafAt, block: BlockIndex, entry: Entry, limit: Version) {
        let LeafAt { chunk, snapshot, .. } = whose;
        if entry.version > limit {
            self.add(Problem::EntryTooNew {
                chunk,
                snapshot,
                block,
                version: entry.version,
                limit,
            });
        }
        if !entry.has_data() {
            return;
        }
        self.report.seen.entries += 1;
        let slot = entry.slot;
        if entry.version == Version::NONE {
            self.add(Problem::NoVersion {
                chunk,
                snapshot,
                block,
                slot,
            });
        }
        let user = whose.data(block);
        match self.own.get(&slot) {
            Some((first, other, known)) => {
                if (*other, known.sum, known.version) != (block, entry.sum, entry.version) && self.twice.insert(slot) {
                    let (first, offset) = (*first, self.offset(slot));
                    self.add(Problem::UsedTwice {
                        slot,
                        offset,
                        first,
                        other: user,
                    });
                }
            }
            None => {
                self.own.insert(slot, (user, block, entry));
                if self.claim(slot, user) && self.options.data {
                    self.to_verify.push((user, block, entry));
                }
            }
        }
    }

    /// Counts a user of a slot; `true`: the first one.
    fn claim(&mut self, slot: Slot, user: User) -> bool {
        if !self.offline.store.look_slot_map().has(slot) {
            let offset = self.offset(slot);
            self.add(Problem::UsedButFree { slot, offset, user });
        }
        let first = !self.users.has(slot);
        if first {
            self.users.claim(slot);
        } else {
            self.users.share(slot);
        }
        first
    }
}

fn leaf_at(chunk: ChunkId, at: Location) -> LeafAt {
    LeafAt {
        chunk,
        snapshot: at.to,
        part: at.part,
    }
}

/// The version that no entry of a leaf is above: that of the oldest state that looks into it. `before` is the next older state that
/// has this part of its own.
fn limit(states: &[StateLook], durable: Version, at: Location, before: Option<SnapshotId>) -> Version {
    let own = states.binary_search_by_key(&at.to, |state| state.to);
    let own = own.map_or(durable, |place| states[place].version);
    let oldest = states.partition_point(|state| Some(state.to) <= before);
    let oldest = states.get(oldest).filter(|oldest| at.is_head() || oldest.to < at.to);
    oldest.map_or(own, |oldest| oldest.version)
}

const PAGE: u64 = PAGE_BYTES as u64;
