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

use super::history::{History, State};
use super::leaves::{HEAD, NO_MEM};
use super::{Chunk, ChunkKey, Entry, Index, LEAF_ENTRIES, LOST, Leaf, LeafRef, Location, PARTS};
use crate::format::Slot;
use crate::format::checkpoint::{ChunkItem, LeafPlace, Leaves, PageWriter, StateItem, flag};
use crate::format::record::{Mark, RollEntry};
use amita_types::{BlockIndex, BlockRange, MAX_BLOCKS_PER_CHUNK, SnapshotId, Version};
use std::ops::Range;

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
#[derive(Clone, Copy, Debug)]
pub(crate) struct StateLook {
    pub above: SnapshotId,
    pub to: SnapshotId,
    pub version: Version,
    pub open: bool,
}

/// Is one of these (ascending) above `above`, and not above `to`?
fn stands_for(above: SnapshotId, to: SnapshotId, these: &[SnapshotId]) -> bool {
    let first = these.partition_point(|number| *number <= above);
    these.get(first).is_some_and(|number| *number <= to)
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
        let place = self.history().and_then(|history| history.place_for(at));
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
        let Some(history) = self.history() else {
            return if above < to { Framed::Fits } else { Framed::Taken };
        };
        match history.states().get(history.place_above(above)) {
            Some(state) if (state.above, state.to, state.version) == (above, to, version) => match history.open() {
                Some(open) if open == to => Framed::There,
                _ => Framed::Taken,
            },
            next if above < to && history.open().is_none() && next.is_none_or(|next| to <= next.above) => Framed::Fits,
            _ => Framed::Taken,
        }
    }

    /// Has it states that nobody could be served: open ones, or of a history that was given up?
    pub fn is_ajar(&self) -> bool {
        self.history().is_some_and(|history| {
            let beyond = history.newest().is_some_and(|newest| newest.to > self.snapshot);
            beyond || history.open().is_some()
        })
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
        let history = self.history()?;
        let first = history.place_above(above);
        let mut living = live;
        for state in history.states()[first..].iter().take_while(|state| state.to <= to) {
            living = &living[living.partition_point(|living| *living <= state.above)..];
            if state.above >= above && living.first().is_none_or(|living| *living > state.to) {
                return Some(state.to);
            }
        }
        None
    }

    /// Is its newest state one that no snapshot of `live` (ascending) needs, and that stands for none above `to`?
    pub fn is_newest_dead(&self, to: SnapshotId, live: &[SnapshotId]) -> bool {
        let newest = self.history().and_then(History::newest);
        newest.is_some_and(|state| self.dead_state(state.above, to, live).is_some())
    }

    /// The states that stand for snapshots above `from`, oldest first.
    pub fn states_above(&self, from: SnapshotId) -> impl Iterator<Item = StateLook> + '_ {
        let history = self.history();
        let first = history.map_or(0, |history| history.place_above(from));
        let open = history.and_then(History::open);
        self.states()[first..].iter().map(move |state| StateLook {
            above: state.above,
            to: state.to,
            version: state.version,
            open: open == Some(state.to),
        })
    }

    /// The state up to a snapshot.
    pub fn state_look(&self, to: SnapshotId) -> Option<StateLook> {
        let place = self.history()?.place_of(to)?;
        self.states_above(self.states()[place].above).next()
    }
}

impl Index {
    /// What a mark is to be left of, when the state up to `to` goes, for the sake of one of these snapshots (ascending).
    pub fn mark_of_state(&self, key: ChunkKey, to: SnapshotId, marked: &[SnapshotId]) -> Option<Mark> {
        let StateLook { above, version, .. } = self.chunk(key).state_look(to)?;
        stands_for(above, to, marked).then_some(Mark { above, to, version })
    }

    /// A mark above `above` up to `to` that stands for none of these snapshots (each list ascending): its name.
    pub fn dead_mark(
        &self,
        key: ChunkKey,
        (above, to): (SnapshotId, SnapshotId),
        kept: [&[SnapshotId]; 2],
    ) -> Option<SnapshotId> {
        let mut within = self.marks(key).filter(|mark| mark.above >= above && mark.to <= to);
        let dead = within.find(|mark| !kept.iter().any(|kept| stands_for(mark.above, mark.to, kept)));
        dead.map(|mark| mark.to)
    }

    /// Where the leaf of a part lies that `view` uses.
    pub fn location(&self, chunk: ChunkKey, view: View, part: usize) -> Location {
        let part = part as u8;
        let seen_in = match view {
            View::Head => None,
            View::State(place) => {
                let history = self.chunk(chunk).history().expect("the view is one of it");
                history.seen_in(history.states()[place].to, part)
            }
        };
        let to = seen_in.unwrap_or(HEAD);
        Location { chunk, to, part }
    }

    /// Before a change that names snapshot `to`: keeps the chunk as it was for the snapshots since its last change.
    pub fn freeze(&mut self, key: ChunkKey, to: SnapshotId) {
        let chunk = self.chunk_mut(key);
        assert!(to > chunk.snapshot, "only a newer snapshot freezes a chunk");
        let state = State {
            version: chunk.durable,
            above: chunk.snapshot,
            to,
        };
        chunk.snapshot = to;
        self.add_state(key, state);
    }

    fn add_state(&mut self, key: ChunkKey, state: State) {
        let states = &mut self.chunks[key.0].states;
        self.histories += u64::from(states.is_none());
        self.states += 1;
        states.get_or_insert_default().insert(state);
    }

    /// Makes an open state between the others: it has nothing of its own.
    pub fn frame(&mut self, key: ChunkKey, above: SnapshotId, to: SnapshotId, version: Version) {
        self.add_state(key, State { version, above, to });
        self.states_mut(key).set_open(to);
    }

    /// An open state is what it should be.
    pub fn close(&mut self, key: ChunkKey, to: SnapshotId) {
        if let Some(states) = &mut self.chunk_mut(key).states
            && states.open() == Some(to)
        {
            states.set_open(SnapshotId::HEAD);
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
        let history = self.chunk(key).history();
        let own = |place: usize| {
            let to = history?.states().get(place)?.to;
            history?.leaf(to, part).map(|_| Location { chunk: key, to, part })
        };
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
        let older = self.older(key, place, part);
        let history = self.chunk(key).history().expect("the state is one of it");
        let to = history.states()[place].to;
        let at = Location { chunk: key, to, part };
        if history.leaf(to, part).is_none() {
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
        if self.older(key, place, part).is_some() {
            return;
        }
        let to = self.chunk(key).states()[older].to;
        let at = Location { chunk: key, to, part };
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
        self.chunk(key).history().and_then(|history| history.place_of(to))
    }

    /// The leaf of its own that the next older state than one has of a part.
    fn older(&self, key: ChunkKey, place: usize, part: u8) -> Option<LeafRef> {
        let history = self.chunk(key).history()?;
        let older = history.states().get(place.checked_sub(1)?)?;
        history.leaf(older.to, part).copied()
    }

    /// The leaves that must be in memory for a state to be dropped, or (`None`) the chunk itself.
    pub fn needed_to_drop(&self, key: ChunkKey, place: Option<usize>) -> Vec<Location> {
        let chunk = self.chunk(key);
        let Some(place) = place else {
            let own = (0..PARTS).map(|part| self.location(key, View::Head, part));
            let whole = BlockRange::new(0, MAX_BLOCKS_PER_CHUNK as u16);
            return own.chain(self.missing_of_states(key, whole)).collect();
        };
        let history = chunk.history().expect("the state is one of it");
        let to = history.states()[place].to;
        let older = place.checked_sub(1).map(|older| history.states()[older].to);
        let mut needed = Vec::new();
        for part in (0..PARTS as u8).filter(|&part| history.leaf(to, part).is_some()) {
            let at = |to| Location { chunk: key, to, part };
            match older {
                // It inherits the leaf as it is.
                Some(older) if history.leaf(older, part).is_none() => continue,
                Some(older) => needed.push(at(older)),
                None => {}
            }
            needed.push(at(to));
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
        let history = self.chunk(key).history().expect("the state is one of it");
        let to = history.states()[place].to;
        let older_to = place.checked_sub(1).map(|older| history.states()[older].to);
        for part in 0..PARTS as u8 {
            let history = self.chunk(key).history().expect("the state is one of it");
            let Some(&leaf) = history.leaf(to, part) else { continue };
            let older = older_to.map(|older| history.leaf(older, part).copied());
            if let (Some(older), Some(None)) = (older_to, older) {
                self.states_mut(key).hand_down(part, to, older);
                self.cache.moved(leaf, older);
                continue;
            }
            let older = older.flatten();
            let newer = *self.leaf_ref(self.newer(key, place, usize::from(part)));
            self.states_mut(key).take(to, part);
            self.state_parts -= 1;
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
        let none = states.states().is_empty();
        self.states -= 1;
        if none {
            self.remove_state_pages(key, |_| false);
            self.chunk_mut(key).states = None;
            self.histories -= 1;
        }
    }

    /// Drops the state for the snapshots up to `to`, or the mark of that name, or ([`SnapshotId::HEAD`]) the chunk itself.
    pub fn drop_of(&mut self, key: ChunkKey, to: SnapshotId, freed: &mut impl FnMut(Slot)) {
        if to == SnapshotId::HEAD {
            self.drop_head(key, freed);
        } else if let Some(place) = self.state_to(key, to) {
            self.drop_state(key, place, freed);
        } else {
            self.marks.remove(key, to);
        }
    }

    /// Drops the chunk itself; its states stay. All its leaves are in memory.
    fn drop_head(&mut self, key: ChunkKey, freed: &mut impl FnMut(Slot)) {
        for part in 0..PARTS {
            let at = self.location(key, View::Head, part);
            let leaf = *self.leaf_ref(at);
            let history = self.chunk(key).history();
            let newest = history.and_then(History::newest).map(|state| state.to);
            match newest.filter(|_| history.is_some_and(|history| !history.newest_has(part as u8))) {
                // The newest state shares the leaf: now it is its own.
                Some(to) => {
                    self.chunk_mut(key).parts[part] = LeafRef::NEVER;
                    self.states_mut(key).put(to, part as u8, leaf);
                    self.state_parts += 1;
                    self.cache.moved(leaf, to);
                }
                None => {
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

    pub(super) fn states_mut(&mut self, key: ChunkKey) -> &mut History {
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
        for mark in self.marks(key) {
            writer.mark(&mark);
        }
        let Some(history) = chunk.history() else { return };
        let mut from = 0;
        for page in history.pages().iter().filter(|page| !page.stale) {
            let places = history.places_of(page);
            self.dump_states(history, from..places.start, writer);
            writer.older(&Index::older_item(page));
            from = places.end;
        }
        self.dump_states(history, from..history.states().len(), writer);
    }

    fn dump_states(&self, history: &History, places: Range<usize>, writer: &mut PageWriter<'_>) {
        let mut cleared = Vec::new();
        let open = history.open();
        history.each_of(places, |state, parts| {
            let leaves = self.leaf_places(parts.iter().copied(), &mut cleared);
            writer.state(&StateItem {
                version: state.version,
                above: state.above,
                to: state.to,
                open: open == Some(state.to),
                leaves,
            });
            for (part, version) in cleared.drain(..) {
                writer.cleared(part, version);
            }
            true
        });
    }

    pub(super) fn leaf_places(
        &self,
        parts: impl Iterator<Item = (u8, LeafRef)>,
        cleared: &mut Vec<(u32, Version)>,
    ) -> Leaves {
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
        use crate::format::checkpoint::{
            CHUNK_BYTES, MARK_BYTES, OLDER_BYTES, PAST_BYTES, STATE_BYTES, STATE_PART_BYTES,
        };
        let chunk = self.chunk(key);
        let (mut states, mut leaves, mut pages) = (chunk.state_count(), 0, 0);
        if let Some(history) = chunk.history() {
            leaves = history.leaf_count();
            for page in history.pages().iter().filter(|page| !page.stale) {
                states -= usize::from(page.states);
                leaves -= usize::from(page.leaves);
                pages += 1;
            }
        }
        CHUNK_BYTES
            + if self.pasts.item(key).is_some() { PAST_BYTES } else { 0 }
            + states as u64 * STATE_BYTES
            + leaves as u64 * STATE_PART_BYTES
            + pages * OLDER_BYTES
            + self.marks(key).len() as u64 * MARK_BYTES
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
        if let Some(mut history) = self.chunk_mut(key).states.take() {
            let pages = history.remove_pages(|_| false);
            self.note_released_pages(&pages);
            self.histories -= 1;
            self.states -= history.states().len() as u64;
            self.state_parts -= history.leaf_count() as u64;
            for (_, leaf) in (0..PARTS as u8).flat_map(|part| history.leaves_of(part)) {
                self.release_ref(leaf);
            }
        }
        self.released_pages.clear();
        self.forget(key);
    }

    /// Takes over a state from a checkpoint; `false`: it is impossible.
    pub fn load_state(&mut self, key: ChunkKey, item: &StateItem) -> bool {
        let chunk = self.chunk(key);
        let last = chunk.history().and_then(History::newest);
        let loaded_to = chunk.history().map_or(SnapshotId::HEAD, History::loaded_to);
        let right = item.above < item.to
            && (item.to <= chunk.snapshot || chunk.loose)
            && loaded_to <= item.above
            && last.is_none_or(|last| chunk.loose || last.version <= item.version)
            && !(item.open && chunk.history().is_some_and(|history| history.open().is_some()));
        if !right {
            return false;
        }
        self.chunk_mut(key).accepted.state = item.version;
        let &StateItem { version, above, to, .. } = item;
        self.add_state(key, State { version, above, to });
        if item.open {
            self.states_mut(key).set_open(to);
        }
        self.load_leaves(key, to, &item.leaves);
        true
    }

    fn load_leaves(&mut self, key: ChunkKey, to: SnapshotId, leaves: &[(u8, LeafPlace)]) {
        for &(part, place) in leaves {
            let at = Location { chunk: key, to, part };
            self.state_has_part(at);
            self.load_place(at, place);
        }
    }

    /// Takes over a part that one write cleared whole, from a checkpoint; `false`: it is impossible.
    pub fn load_cleared(&mut self, key: ChunkKey, to: SnapshotId, first: u32, version: Version) -> bool {
        let part = first as usize / LEAF_ENTRIES;
        if part >= PARTS {
            return false;
        }
        let at = Location {
            chunk: key,
            to,
            part: part as u8,
        };
        self.state_has_part(at);
        self.load_cleared_part(at, version)
    }

    /// A state has this part of its own, if it has not yet.
    fn state_has_part(&mut self, at: Location) {
        if at.is_head() {
            return;
        }
        let states = self.states_mut(at.chunk);
        if states.leaf(at.to, at.part).is_none() {
            states.put(at.to, at.part, LeafRef::NEVER);
            self.state_parts += 1;
        }
    }

    /// Every leaf of a chunk and its states, each once: for a look at all of them.
    pub fn all_leaves(&self, key: ChunkKey) -> Vec<Location> {
        let own = (0..PARTS as u8).map(|part| (HEAD, part));
        let mut all: Vec<Location> = own.map(|(to, part)| Location { chunk: key, to, part }).collect();
        if let Some(history) = self.chunk(key).history() {
            history.each(|state, leaves| {
                let to = state.to;
                all.extend(leaves.iter().map(|&(part, _)| Location { chunk: key, to, part }));
            });
        }
        all
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
        let Some(history) = chunk.history() else { return false };
        let newest = history.newest().expect("a history has a state");
        if !chunk.loose {
            return entry.version <= newest.version;
        }
        match history.leaf(newest.to, (block / LEAF_ENTRIES) as u8) {
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
        let parts = (first..end).flat_map(|part| {
            let leaves = chunk
                .history()
                .into_iter()
                .flat_map(move |history| history.leaves_of(part));
            leaves.map(move |(to, _)| Location { chunk: key, to, part })
        });
        parts
            .filter(|&at| matches!(self.leaf(at), Leaf::Away(_) | Leaf::Loading))
            .collect()
    }

    /// The states of a chunk, oldest first.
    pub fn look_states(&self, key: ChunkKey) -> Vec<StateLook> {
        self.chunk(key).states_above(SnapshotId::HEAD).collect()
    }
}
