//! What a chunk was for its snapshots.
//!
//! The first change that names a newer snapshot than the chunk's last one freezes the chunk: a *state* is made, which stands
//! for the snapshots in between and has nothing of its own. Only when a leaf of the chunk is changed the newest state gets
//! the leaf as it was. So the chunk itself is read through its own leaves only, whatever the number of its states; a state
//! looks for a leaf of its own, then in the next newer state, and so on up to the chunk.
//!
//! Which slots nothing needs any more follows without counting: the states (and at last the chunk) that refer to a slot
//! follow one another without a gap. What the chunk replaces is in its newest state too if, and only if, it is not newer
//! than that; what a state that is dropped refers to is needed if its older or its newer neighbour refers to it. Only
//! clones, whose chunks have no order among each other, need counts ([`crate::slot_map`]).

use super::leaves::{HEAD, NO_MEM};
use super::{Chunk, ChunkKey, Entry, Index, LEAF_ENTRIES, LOST, Leaf, LeafRef, Location, PARTS};
use crate::format::Slot;
use crate::format::checkpoint::{ChunkItem, LeafPlace, Leaves, PageWriter, StateItem, flag};
use crate::format::record::RollEntry;
use amita_types::{BlockIndex, BlockRange, MAX_BLOCKS_PER_CHUNK, SnapshotId, Version};

/// A chunk as it was.
#[derive(Debug)]
pub(super) struct State {
    /// For the snapshots above this one
    pub above: SnapshotId,
    /// up to this one.
    pub to: SnapshotId,
    /// Its version then.
    pub version: Version,
    /// Names it in this process.
    pub serial: u32,
    /// It is being brought (S6): its leaves are not all what they should be.
    pub open: bool,
    /// The leaves that have changed since.
    pub parts: Vec<(u8, LeafRef)>,
}

impl State {
    pub fn part(&self, part: u8) -> Option<&LeafRef> {
        self.parts.iter().find(|(own, _)| *own == part).map(|(_, leaf)| leaf)
    }

    pub fn part_mut(&mut self, part: u8) -> Option<&mut LeafRef> {
        self.parts
            .iter_mut()
            .find(|(own, _)| *own == part)
            .map(|(_, leaf)| leaf)
    }

    pub fn put(&mut self, part: u8, leaf: LeafRef) {
        self.parts.push((part, leaf));
    }
}

/// As what a chunk is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Head,
    /// As it was: a state, by its place.
    State(usize),
}

/// What a snapshot has of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It can be read.
    As(View),
    /// The chunk was made later.
    Unborn,
    /// It is not kept any more.
    NotKept,
}

/// May a state be made between the others?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framed {
    Fits,
    /// It is there, and open.
    There,
    /// Another one is in its place.
    Taken,
}

/// A state of a chunk.
#[derive(Clone, Debug)]
pub(crate) struct StateLook {
    pub above: SnapshotId,
    pub to: SnapshotId,
    pub version: Version,
    pub serial: u32,
    pub open: bool,
    /// The parts that are its own.
    pub parts: Vec<u8>,
}

fn part_of(block: BlockIndex) -> u8 {
    (usize::from(block.0) / LEAF_ENTRIES) as u8
}

impl Chunk {
    /// What snapshot `at` has of it.
    pub fn seen(&self, at: SnapshotId) -> Seen {
        if at == SnapshotId::HEAD || at > self.snapshot {
            return if self.deleted {
                Seen::NotKept
            } else {
                Seen::As(View::Head)
            };
        }
        let place = self
            .states()
            .iter()
            .position(|state| state.above < at && at <= state.to);
        match place {
            Some(place) => Seen::As(View::State(place)),
            None if at <= self.born => Seen::Unborn,
            None => Seen::NotKept,
        }
    }

    /// Its version in a view.
    pub fn version(&self, view: View) -> Version {
        match view {
            View::Head => self.durable,
            View::State(place) => self.states()[place].version,
        }
    }

    /// The version of its newest state.
    pub fn newest_state(&self) -> Version {
        self.states().last().map_or(Version::NONE, |state| state.version)
    }

    /// Has it states whose entries versions do not tell from its own, or will it have when what was accepted is durable?
    fn may_be_loose(&self) -> bool {
        (self.loose || self.loose_soon) && self.states.is_some()
    }

    /// Entries of the chunk were replaced by ones that may be older than its newest snapshot.
    pub fn loosen(&mut self) {
        self.loose |= self.states.is_some();
    }

    /// May a state for the snapshots above `above` up to `to` be made? One at a time is open: what stands between two that are
    /// right refers to slots that follow one another, and one that is not right yet may refer to any.
    pub fn framed(&self, above: SnapshotId, to: SnapshotId, version: Version) -> Framed {
        let there = |state: &State| (state.above, state.to, state.version, state.open) == (above, to, version, true);
        let apart = |state: &State| state.to <= above || to <= state.above;
        match self.states() {
            states if states.iter().any(there) => Framed::There,
            states if above < to && states.iter().all(|state| apart(state) && !state.open) => Framed::Fits,
            _ => Framed::Taken,
        }
    }

    /// Has it states that nobody could be served: open ones, or of a history that was given up?
    pub fn is_ajar(&self) -> bool {
        let wrong = |state: &State| state.open || state.to > self.snapshot;
        self.states().iter().any(wrong)
    }

    /// What its states stand for: above which snapshot, and up to which one.
    pub fn kept_for(&self) -> impl Iterator<Item = (SnapshotId, SnapshotId)> {
        self.states().iter().map(|state| (state.above, state.to))
    }

    /// How many states it has.
    pub fn state_count(&self) -> usize {
        self.states().len()
    }

    /// Those of `live` that are the newest for which a state stands.
    pub fn newest_of(&self, live: &[SnapshotId]) -> impl Iterator<Item = SnapshotId> {
        let newest = self.states().iter().map(|state| state.to);
        newest.filter(|to| live.binary_search(to).is_ok())
    }

    /// A state that stands for snapshots above `above` up to `to` only, of which none is in `live` (ascending): the newest
    /// snapshot that it stands for.
    pub fn dead_state(&self, above: SnapshotId, to: SnapshotId, live: &[SnapshotId]) -> Option<SnapshotId> {
        let dead = |state: &&State| {
            let inside = state.above >= above && state.to <= to;
            inside && !live.iter().any(|&live| state.above < live && live <= state.to)
        };
        self.states().iter().find(dead).map(|state| state.to)
    }
}

impl Index {
    /// Where the leaf of a part lies that `view` uses.
    pub fn location(&self, chunk: ChunkKey, view: View, part: usize) -> Location {
        let part = part as u8;
        let from = match view {
            View::Head => &[],
            View::State(place) => &self.chunk(chunk).states()[place..],
        };
        let serial = from
            .iter()
            .find(|state| state.part(part).is_some())
            .map_or(HEAD, |state| state.serial);
        Location { chunk, serial, part }
    }

    /// Before a change that names snapshot `to`: keeps the chunk as it was for the snapshots since its last change.
    pub fn freeze(&mut self, key: ChunkKey, to: SnapshotId) {
        self.next_serial += 1;
        let serial = self.next_serial;
        let chunk = self.chunk_mut(key);
        assert!(to > chunk.snapshot, "only a newer snapshot freezes a chunk");
        let state = State {
            above: chunk.snapshot,
            to,
            version: chunk.durable,
            serial,
            open: false,
            parts: Vec::new(),
        };
        chunk.snapshot = to;
        chunk.states.get_or_insert_default().push(state);
        self.states += 1;
    }

    /// Makes an open state between the others: it has nothing of its own.
    pub fn frame(&mut self, key: ChunkKey, above: SnapshotId, to: SnapshotId, version: Version) {
        self.next_serial += 1;
        let state = State {
            above,
            to,
            version,
            serial: self.next_serial,
            open: true,
            parts: Vec::new(),
        };
        let states = self.chunk_mut(key).states.get_or_insert_default();
        let place = states.partition_point(|state| state.to <= above);
        states.insert(place, state);
        self.states += 1;
    }

    /// An open state is what it should be.
    pub fn close(&mut self, key: ChunkKey, to: SnapshotId) {
        if let Some(place) = self.state_to(key, to) {
            self.states_mut(key)[place].open = false;
        }
    }

    /// The leaves that must be in memory for these blocks' entries to be put into a state.
    pub fn needed_to_put(
        &self,
        key: ChunkKey,
        place: usize,
        blocks: impl Iterator<Item = BlockIndex>,
    ) -> Vec<Location> {
        let mut parts: Vec<u8> = blocks.map(part_of).collect();
        parts.dedup();
        parts
            .into_iter()
            .flat_map(|part| self.around(key, place, part))
            .collect()
    }

    /// Where a state, its newer neighbour and its older one have this part: the first and the last only if it is their own.
    fn around(&self, key: ChunkKey, place: usize, part: u8) -> impl Iterator<Item = Location> + use<> {
        let states = self.chunk(key).states();
        let at = |state: &State| Location {
            chunk: key,
            serial: state.serial,
            part,
        };
        let own = |place: usize| states.get(place).filter(|state| state.part(part).is_some()).map(at);
        let older = place.checked_sub(1).and_then(own);
        let newer = self.newer(key, place, usize::from(part));
        own(place).into_iter().chain([newer]).chain(older)
    }

    /// What a state, its newer neighbour and its older one have for a block: what the state can share. The leaves that
    /// [`Index::needed_to_put`] names are in memory.
    pub fn neighbours(&self, key: ChunkKey, place: usize, block: BlockIndex) -> impl Iterator<Item = Entry> + '_ {
        let around = self.around(key, place, part_of(block));
        around.map(move |at| {
            self.cache
                .entry(*self.leaf_ref(at), usize::from(block.0) % LEAF_ENTRIES)
        })
    }

    /// A state gets these entries; an older state that looked through it keeps what it saw. Slots that nothing of the chunk
    /// refers to any more go to `freed`. The leaves that [`Index::needed_to_put`] names are in memory, or lost.
    pub fn put_entries(&mut self, key: ChunkKey, to: SnapshotId, entries: &[RollEntry], freed: &mut impl FnMut(Slot)) {
        let Some(place) = self.state_to(key, to) else { return };
        for entries in entries.chunk_by(|one, next| part_of(one.block) == part_of(next.block)) {
            self.put_part(key, place, part_of(entries[0].block), entries, freed);
        }
    }

    fn put_part(&mut self, key: ChunkKey, place: usize, part: u8, entries: &[RollEntry], freed: &mut impl FnMut(Slot)) {
        self.keep_for_older(key, place, part);
        let newer = *self.leaf_ref(self.newer(key, place, usize::from(part)));
        let states = self.chunk(key).states();
        let older = place.checked_sub(1).and_then(|older| states[older].part(part)).copied();
        let at = Location {
            chunk: key,
            serial: states[place].serial,
            part,
        };
        if states[place].part(part).is_none() {
            self.copy_leaf(at, newer);
        }
        let own = *self.leaf_ref(at);
        // What a lost leaf referred to is not known, and stays in use; nor can half of a leaf be known.
        if own.is_lost() {
            return;
        }
        let mem = match own.mem {
            NO_MEM => self.cache.add_blank(at),
            mem => mem,
        };
        self.leaf_ref_mut(at).mem = mem;
        let known = !newer.is_lost() && older.is_none_or(|older| !older.is_lost());
        for entry in entries {
            let block = usize::from(entry.block.0) % LEAF_ENTRIES;
            let new = Entry::from(entry);
            let old = std::mem::replace(&mut self.cache.change(mem)[block], new);
            let held = |by: LeafRef| self.cache.entry(by, block).slot == old.slot;
            if known && old.has_data() && old.slot != new.slot && !held(newer) && !older.is_some_and(held) {
                freed(old.slot);
            }
        }
    }

    /// A state gets a leaf of its own, like another one.
    fn copy_leaf(&mut self, at: Location, from: LeafRef) {
        self.state_has_part(at);
        if from.is_lost() {
            self.leaf_ref_mut(at).sum = LOST;
        } else if !from.is_never() {
            let mem = self.cache.add_copy(at, from);
            self.leaf_ref_mut(at).mem = mem;
            self.cache.mark_dirty(mem);
        }
    }

    /// The next older state, if it looks through this one for a part, gets what it sees there.
    fn keep_for_older(&mut self, key: ChunkKey, place: usize, part: u8) {
        let Some(older) = place.checked_sub(1) else { return };
        let states = self.chunk(key).states();
        if states[older].part(part).is_some() {
            return;
        }
        let at = Location {
            chunk: key,
            serial: states[older].serial,
            part,
        };
        let seen = *self.leaf_ref(self.location(key, View::State(place), usize::from(part)));
        self.copy_leaf(at, seen);
    }

    /// Before the chunk itself is dropped: keeps it as it is for the snapshots up to `to`, if that is not one.
    pub fn keep_for(&mut self, key: ChunkKey, to: SnapshotId) {
        if to > self.chunk(key).snapshot {
            self.freeze(key, to);
        }
    }

    /// The state whose newest snapshot is `to`.
    pub fn state_to(&self, key: ChunkKey, to: SnapshotId) -> Option<usize> {
        self.chunk(key).states().iter().position(|state| state.to == to)
    }

    /// The leaves that must be in memory for a state to be dropped, or (`None`) the chunk itself.
    pub fn needed_to_drop(&self, key: ChunkKey, place: Option<usize>) -> Vec<Location> {
        let chunk = self.chunk(key);
        let Some(place) = place else {
            let own = (0..PARTS).map(|part| self.location(key, View::Head, part));
            let whole = BlockRange::new(0, MAX_BLOCKS_PER_CHUNK as u16);
            return own.chain(self.missing_of_states(key, whole)).collect();
        };
        let state = &chunk.states()[place];
        let mut needed = Vec::new();
        for &(part, _) in &state.parts {
            let at = |serial| Location {
                chunk: key,
                serial,
                part,
            };
            let older = place.checked_sub(1).map(|older| &chunk.states()[older]);
            match older {
                // It inherits the leaf as it is.
                Some(older) if older.part(part).is_none() => continue,
                Some(older) => needed.push(at(older.serial)),
                None => {}
            }
            needed.push(at(state.serial));
            needed.push(self.newer(key, place, usize::from(part)));
        }
        needed
    }

    /// Where the next newer state, or the chunk, has this part.
    fn newer(&self, key: ChunkKey, place: usize, part: usize) -> Location {
        let newer = if place + 1 < self.chunk(key).state_count() {
            View::State(place + 1)
        } else {
            View::Head
        };
        self.location(key, newer, part)
    }

    /// Drops a state; slots that nothing of the chunk refers to any more go to `freed`. The leaves that
    /// [`Index::needed_to_drop`] names are in memory.
    fn drop_state(&mut self, key: ChunkKey, place: usize, freed: &mut impl FnMut(Slot)) {
        let parts = std::mem::take(&mut self.states_mut(key)[place].parts);
        self.state_parts -= parts.len() as u64;
        for (part, leaf) in parts {
            if place > 0 && self.chunk(key).states()[place - 1].part(part).is_none() {
                let older = &mut self.states_mut(key)[place - 1];
                let serial = older.serial;
                older.put(part, leaf);
                self.state_parts += 1;
                self.cache.moved(leaf, serial);
                continue;
            }
            let older = place
                .checked_sub(1)
                .map(|older| self.chunk(key).states()[older].part(part));
            let older = older.flatten().copied();
            let newer = *self.leaf_ref(self.newer(key, place, usize::from(part)));
            // What a lost leaf referred to is not known: it stays in use.
            let known = |leaf: LeafRef| !leaf.is_lost();
            if known(leaf) && known(newer) && older.is_none_or(known) {
                for block in 0..LEAF_ENTRIES {
                    let entry = self.cache.entry(leaf, block);
                    let held = |by: LeafRef| self.cache.entry(by, block).slot == entry.slot;
                    if entry.has_data() && !held(newer) && !older.is_some_and(held) {
                        freed(entry.slot);
                    }
                }
            }
            self.release_ref(leaf);
        }
        let states = self.states_mut(key);
        states.remove(place);
        let none = states.is_empty();
        self.states -= 1;
        if none {
            self.chunk_mut(key).states = None;
        }
    }

    /// Drops the state for the snapshots up to `to`, or ([`SnapshotId::HEAD`]) the chunk itself.
    pub fn drop_of(&mut self, key: ChunkKey, to: SnapshotId, freed: &mut impl FnMut(Slot)) {
        if to == SnapshotId::HEAD {
            self.drop_head(key, freed);
        } else if let Some(place) = self.state_to(key, to) {
            self.drop_state(key, place, freed);
        }
    }

    /// Drops the chunk itself; its states stay. All its leaves are in memory.
    fn drop_head(&mut self, key: ChunkKey, freed: &mut impl FnMut(Slot)) {
        for part in 0..PARTS {
            let at = self.location(key, View::Head, part);
            let leaf = *self.leaf_ref(at);
            let newest = self
                .chunk(key)
                .states()
                .last()
                .map(|state| state.part(part as u8).is_some());
            match newest {
                // The newest state shares the leaf: now it is its own.
                Some(false) => {
                    self.chunk_mut(key).parts[part] = LeafRef::NEVER;
                    let newest = self.states_mut(key).last_mut().expect("looked at above");
                    let serial = newest.serial;
                    newest.put(part as u8, leaf);
                    self.state_parts += 1;
                    self.cache.moved(leaf, serial);
                }
                Some(true) | None => {
                    if !leaf.is_lost() {
                        for block in 0..LEAF_ENTRIES {
                            let entry = self.cache.entry(leaf, block);
                            if entry.has_data() && !self.in_a_state(key, part * LEAF_ENTRIES + block, entry) {
                                freed(entry.slot);
                            }
                        }
                    }
                    self.release_leaf(at);
                }
            }
        }
        self.whole(key);
        self.chunk_mut(key).deleted = true;
    }

    #[expect(clippy::box_collection, reason = "as it is kept")]
    fn states_mut(&mut self, key: ChunkKey) -> &mut Box<Vec<State>> {
        self.chunk_mut(key).states.as_mut().expect("the caller knows of one")
    }

    /// The entries of a view that a clone of it gets. All its leaves are in memory.
    pub fn entries_for_clone(&self, key: ChunkKey, view: View) -> Vec<RollEntry> {
        let mut entries = Vec::new();
        for part in 0..PARTS {
            let leaf = *self.leaf_ref(self.location(key, view, part));
            if leaf.is_never() {
                continue;
            }
            for at in 0..LEAF_ENTRIES {
                let entry = self.cache.entry(leaf, at);
                if entry.version > Version::NONE {
                    entries.push(RollEntry {
                        block: BlockIndex((part * LEAF_ENTRIES + at) as u16),
                        version: entry.version,
                        slot: entry.slot,
                        sum: entry.sum,
                    });
                }
            }
        }
        entries
    }

    /// Writes a chunk's items into a checkpoint. All its leaves have pages.
    pub fn dump(&self, key: ChunkKey, position: u64, writer: &mut PageWriter<'_>) {
        let chunk = self.chunk(key);
        let mut cleared = Vec::new();
        let own = (0..PARTS as u8).zip(chunk.parts);
        let own = own.filter(|(_, leaf)| !leaf.is_never());
        let leaves = self.leaf_places(own, &mut cleared);
        writer.chunk(&ChunkItem {
            chunk: chunk.id,
            version: chunk.durable,
            position,
            born: chunk.born,
            snapshot: chunk.snapshot,
            flags: if chunk.deleted { flag::DELETED } else { 0 } | if chunk.loose { flag::LOOSE } else { 0 },
            leaves,
        });
        let origin = self.origin(key);
        if origin != chunk.id {
            writer.origin(origin);
        }
        if let Some(past) = self.pasts.item(key) {
            writer.past(past);
        }
        for (part, version) in cleared.drain(..) {
            writer.cleared(part, version);
        }
        for state in chunk.states() {
            let mut parts = state.parts.clone();
            parts.sort_unstable_by_key(|(part, _)| *part);
            let leaves = self.leaf_places(parts.into_iter(), &mut cleared);
            writer.state(&StateItem {
                version: state.version,
                above: state.above,
                to: state.to,
                open: state.open,
                leaves,
            });
            for (part, version) in cleared.drain(..) {
                writer.cleared(part, version);
            }
        }
    }

    fn leaf_places(&self, parts: impl Iterator<Item = (u8, LeafRef)>, cleared: &mut Vec<(u32, Version)>) -> Leaves {
        let mut leaves = Leaves::new();
        for (part, leaf) in parts {
            match self.leaf_place(leaf) {
                Ok(place) => leaves.push((part, place)),
                Err(version) => cleared.push((u32::from(part), version)),
            }
        }
        leaves
    }

    /// The most bytes that [`Index::dump`] writes for a chunk.
    pub fn dump_bytes(&self, key: ChunkKey) -> u64 {
        use crate::format::checkpoint::{CHUNK_BYTES, PAST_BYTES, STATE_BYTES, STATE_PART_BYTES};
        let states = self.chunk(key).states().iter();
        CHUNK_BYTES
            + if self.pasts.item(key).is_some() { PAST_BYTES } else { 0 }
            + states
                .map(|state| STATE_BYTES + state.parts.len() as u64 * STATE_PART_BYTES)
                .sum::<u64>()
    }

    /// Takes over a chunk from a checkpoint, in place of what the same checkpoint said of it before: the chunk was dropped
    /// and made anew while it was written.
    pub fn load_chunk(&mut self, item: &ChunkItem) -> ChunkKey {
        if let Some(earlier) = self.find(item.chunk) {
            self.unload(earlier);
        }
        let key = self.touch(item.chunk);
        let chunk = self.chunk_mut(key);
        chunk.durable = item.version;
        chunk.accepted.version = item.version;
        chunk.born = item.born;
        chunk.snapshot = item.snapshot;
        chunk.accepted.snapshot = item.snapshot;
        chunk.deleted = item.flags & flag::DELETED != 0;
        chunk.loose = item.flags & flag::LOOSE != 0;
        self.load_leaves(key, HEAD, &item.leaves);
        key
    }

    /// Forgets a chunk that was taken over from a checkpoint. Its slots are in nobody's hands: the map of slots is younger.
    fn unload(&mut self, key: ChunkKey) {
        for part in 0..PARTS {
            self.release_leaf(self.location(key, View::Head, part));
        }
        for state in self.chunk_mut(key).states.take().into_iter().flat_map(|states| *states) {
            self.states -= 1;
            self.state_parts -= state.parts.len() as u64;
            for (_, leaf) in state.parts {
                self.release_ref(leaf);
            }
        }
        self.released_pages.clear();
        self.forget(key);
    }

    /// Takes over a state from a checkpoint; returns its serial number.
    pub fn load_state(&mut self, key: ChunkKey, item: &StateItem) -> Option<u32> {
        let chunk = self.chunk(key);
        let last = chunk.states().last();
        let right = item.above < item.to
            && (item.to <= chunk.snapshot || chunk.loose)
            && last.is_none_or(|last| last.to <= item.above && (chunk.loose || last.version <= item.version));
        if !right {
            return None;
        }
        self.next_serial += 1;
        let serial = self.next_serial;
        let chunk = self.chunk_mut(key);
        chunk.accepted.state = item.version;
        chunk.states.get_or_insert_default().push(State {
            above: item.above,
            to: item.to,
            version: item.version,
            serial,
            open: item.open,
            parts: Vec::new(),
        });
        self.states += 1;
        self.load_leaves(key, serial, &item.leaves);
        Some(serial)
    }

    fn load_leaves(&mut self, key: ChunkKey, serial: u32, leaves: &[(u8, LeafPlace)]) {
        for &(part, place) in leaves {
            let at = Location {
                chunk: key,
                serial,
                part,
            };
            self.state_has_part(at);
            self.load_place(at, place);
        }
    }

    /// Takes over a part that one write cleared whole, from a checkpoint; `false`: it is impossible.
    pub fn load_cleared(&mut self, key: ChunkKey, serial: u32, first: u32, version: Version) -> bool {
        let part = first as usize / LEAF_ENTRIES;
        if part >= PARTS {
            return false;
        }
        let at = Location {
            chunk: key,
            serial,
            part: part as u8,
        };
        self.state_has_part(at);
        self.load_cleared_part(at, version)
    }

    /// A state has this part of its own, if it has not yet.
    fn state_has_part(&mut self, at: Location) {
        if at.serial == HEAD {
            return;
        }
        let state = self
            .states_mut(at.chunk)
            .iter_mut()
            .find(|state| state.serial == at.serial);
        let state = state.expect("just made");
        if state.part(at.part).is_none() {
            state.put(at.part, LeafRef::NEVER);
            self.state_parts += 1;
        }
    }

    /// Every leaf of a chunk and its states, each once: for a look at all of them.
    pub fn all_leaves(&self, key: ChunkKey) -> Vec<Location> {
        let chunk = self.chunk(key);
        let own = (0..PARTS as u8).map(|part| (HEAD, part));
        let states = chunk.states().iter();
        let states = states.flat_map(|state| state.parts.iter().map(|(part, _)| (state.serial, *part)));
        own.chain(states)
            .map(|(serial, part)| Location {
                chunk: key,
                serial,
                part,
            })
            .collect()
    }

    /// The page of a leaf.
    pub fn page_of(&self, at: Location) -> Option<Slot> {
        let slot = self.leaf_ref(at).slot;
        (slot != Slot::NONE).then_some(slot)
    }

    /// Does the newest state refer to what the chunk refers to? Where the chunk's history was always the same one, an entry
    /// that is not newer than the state was there when it was made. The chunk's part is its own already.
    pub(super) fn in_a_state(&self, key: ChunkKey, block: usize, entry: Entry) -> bool {
        let chunk = self.chunk(key);
        let Some(newest) = chunk.states().last() else {
            return false;
        };
        if !chunk.loose {
            return entry.version <= newest.version;
        }
        match newest.part((block / LEAF_ENTRIES) as u8) {
            None => true,
            // Nobody knows: what a lost leaf held stays in use.
            Some(leaf) if leaf.is_lost() => true,
            Some(&leaf) => self.cache.entry(leaf, block % LEAF_ENTRIES).slot == entry.slot,
        }
    }

    /// Which leaves of its states a change of these blocks needs besides the chunk's own ([`Index::missing`]). Empty but for
    /// chunks that have joined, or were mended, and have snapshots.
    pub fn missing_of_states(&self, key: ChunkKey, range: BlockRange) -> Vec<Location> {
        let chunk = self.chunk(key);
        if !chunk.may_be_loose() {
            return Vec::new();
        }
        let first = (usize::from(range.first.0) / LEAF_ENTRIES) as u8;
        let end = (range.end() as usize).div_ceil(LEAF_ENTRIES) as u8;
        // Of all of them: the newest one may be dropped before the change is made.
        let states = chunk.states().iter();
        let own = states.flat_map(|state| state.parts.iter().map(|(part, _)| (state.serial, *part)));
        own.filter(|(_, part)| (first..end).contains(part))
            .map(|(serial, part)| Location {
                chunk: key,
                serial,
                part,
            })
            .filter(|&at| matches!(self.leaf(at), Leaf::Away(_) | Leaf::Loading))
            .collect()
    }

    /// The states of a chunk, oldest first.
    pub fn look_states(&self, key: ChunkKey) -> Vec<StateLook> {
        let states = self.chunk(key).states().iter();
        states
            .map(|state| StateLook {
                above: state.above,
                to: state.to,
                version: state.version,
                serial: state.serial,
                open: state.open,
                parts: state.parts.iter().map(|(part, _)| *part).collect(),
            })
            .collect()
    }
}
