//! Older states in pages of their own.
//!
//! A checkpoint that wrote down thousands of states of a chunk, most of which never change again, would be long, and on the way of
//! the chunk's own writes. So those that are not the newest go to *pages*: slots like those of leaves, written with a checkpoint,
//! never changed, named in the next ones in the place of what they say. A page of which a state has changed is *stale*: the
//! next checkpoint does not name it, and has its states itself or in another page.
//!
//! Pages are for the checkpoint only: all states are in memory, and a mount reads all pages.

use super::cache::Data;
use super::history::{History, State, StatePage};
use super::{ChunkKey, Index, LeafRef, Location, PARTS};
use crate::format::Slot;
use crate::format::checkpoint::{Cleared, OlderItem, StateItem};
use crate::format::states::{Decoded, LINES_BYTES, StatesWriter};
use amita_types::{SnapshotId, StoreId, Version};
use std::ops::Range;

/// A page of states that a mount has to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StatePageLook {
    pub chunk: ChunkKey,
    pub slot: Slot,
    /// Its checksum.
    pub sum: u32,
    /// Names it in its chunk: the newest snapshot for which one of its states stands.
    pub to: SnapshotId,
}

/// Fewer states are not worth a page: what a checkpoint says of it is not longer than what is counted for so many.
pub(crate) const LEAST_OF_PAGE: usize = 2;
/// The bytes of a state's line in a page, as a rule: its form, its parts and how much its version is above the last one.
const LINE_BYTES: usize = 6;
/// And of each of its leaves.
const LEAF_BYTES: usize = 8;
/// What a first line has besides.
const FIRST_BYTES: usize = 12;

impl Index {
    /// Gives back the pages of a chunk's states that say what is not so any more; they go to `released_pages`.
    pub fn drop_stale_pages(&mut self, key: ChunkKey) {
        let is_stale = |history: &History| history.pages().iter().any(|page| page.stale);
        if self.chunk(key).history().is_some_and(is_stale) {
            self.remove_state_pages(key, |page| !page.stale);
        }
    }

    /// Gives back those that do not stay.
    pub fn remove_state_pages(&mut self, key: ChunkKey, stays: impl FnMut(&StatePage) -> bool) {
        let Some(history) = self.chunk_mut(key).states.as_mut() else {
            return;
        };
        let slots = history.remove_pages(stays);
        self.note_released_pages(&slots);
    }

    pub(super) fn note_released_pages(&mut self, slots: &[Slot]) {
        self.pages -= slots.len() as u64;
        self.state_pages -= slots.len() as u64;
        self.released_pages.extend(slots);
    }

    /// Which of a chunk's states go to pages: stretches of those that are in none, but for the newest `recent`, if there are twice as many.
    /// Pages beside them that have room for them are given back, and their states written again with them. No page is stale.
    pub fn states_for_pages(&mut self, key: ChunkKey, recent: usize) -> Vec<Range<usize>> {
        let chunk = self.chunk(key);
        // While it is brought its states, these change.
        let Some(history) = chunk
            .history()
            .filter(|history| !chunk.incomplete && history.open().is_none())
        else {
            return Vec::new();
        };
        let least = (2 * recent).max(2);
        let limit = history.states().len().saturating_sub(recent);
        let in_pages: usize = history.pages().iter().map(|page| usize::from(page.states)).sum();
        if limit.saturating_sub(in_pages) + recent < least {
            return Vec::new();
        }
        let mut plan = Plan::default();
        let worth = (least - recent).max(LEAST_OF_PAGE);
        for page in history.pages() {
            let places = history.places_of(page);
            plan.gap(history, places.start, worth);
            plan.page(page, places);
        }
        plan.gap(history, limit, worth);
        plan.end();
        if !plan.given_back.is_empty() {
            self.remove_state_pages(key, |page| plan.given_back.binary_search(&page.to).is_err());
        }
        plan.stretches
    }

    /// Fills a page with the states from the first of `places` on, as many as fit. Their leaves are on the disk.
    pub fn fill_state_page(&self, key: ChunkKey, places: Range<usize>, store: StoreId, page: &mut [u8]) -> StatePage {
        let chunk = self.chunk(key);
        let history = chunk.history().expect("the states are of it");
        let mut writer = StatesWriter::new(page);
        let above = history.states()[places.start].above;
        let mut filled = StatePage {
            slot: Slot::NONE,
            sum: 0,
            above,
            to: above,
            states: 0,
            leaves: 0,
            bytes: 0,
            parts: 0,
            stale: false,
        };
        let mut cleared = Vec::new();
        history.each_of(places, |state, parts| {
            let leaves = self.leaf_places(parts.iter().copied(), &mut cleared);
            let item = StateItem {
                version: state.version,
                above: state.above,
                to: state.to,
                open: false,
                leaves,
            };
            let cleared: Cleared = cleared.drain(..).map(|(part, version)| (part as u8, version)).collect();
            if !writer.push(&item, &cleared) {
                return false;
            }
            filled.to = state.to;
            filled.states += 1;
            filled.leaves += parts.len() as u16;
            filled.parts |= parts.iter().fold(0, |mask, (part, _)| mask | 1 << part);
            true
        });
        (filled.bytes, filled.sum) = writer.finish(store, chunk.id);
        filled
    }

    /// These states are in a page from now on.
    pub fn add_state_page(&mut self, key: ChunkKey, page: StatePage) {
        assert!(
            page.slot != Slot::NONE && page.states > 0,
            "a page is somewhere and has a state"
        );
        self.states_mut(key).add_page(page);
        self.pages += 1;
        self.state_pages += 1;
    }

    /// What a checkpoint says of a page.
    pub(super) fn older_item(page: &StatePage) -> OlderItem {
        OlderItem {
            slot: page.slot,
            sum: page.sum,
            above: page.above,
            to: page.to,
            states: page.states,
            parts: page.parts,
        }
    }

    /// Takes over from a checkpoint that states are in a page, which is read later ([`Index::load_state_page`]); `false`: it is
    /// impossible.
    pub fn load_older(&mut self, key: ChunkKey, item: &OlderItem) -> bool {
        let chunk = self.chunk(key);
        let last = chunk.history().map_or(SnapshotId::HEAD, History::loaded_to);
        if usize::from(item.states) < LEAST_OF_PAGE
            || item.above >= item.to
            || item.above < last
            || (item.to > chunk.snapshot && !chunk.loose)
        {
            return false;
        }
        let states = &mut self.chunks[key.0].states;
        self.histories += u64::from(states.is_none());
        states.get_or_insert_default();
        self.add_state_page(
            key,
            StatePage {
                slot: item.slot,
                sum: item.sum,
                above: item.above,
                to: item.to,
                states: item.states,
                leaves: 0,
                bytes: 0,
                parts: item.parts,
                stale: false,
            },
        );
        true
    }

    /// All pages of states, by their slots.
    pub fn look_state_pages(&self) -> Vec<StatePageLook> {
        let chunks = self.keys().filter_map(|key| Some((key, self.chunk(key).history()?)));
        let mut looks: Vec<StatePageLook> = chunks
            .flat_map(|(chunk, history)| {
                history.pages().iter().map(move |page| StatePageLook {
                    chunk,
                    slot: page.slot,
                    sum: page.sum,
                    to: page.to,
                })
            })
            .collect();
        looks.sort_unstable_by_key(|look| look.slot);
        looks
    }

    /// The pages of a chunk's states: where each is, and the newest snapshot that one of them stands for.
    pub fn look_pages_of_states(&self, key: ChunkKey) -> impl Iterator<Item = (Slot, SnapshotId)> + '_ {
        let history = self.chunk(key).history().into_iter();
        history.flat_map(|history| history.pages().iter().map(|page| (page.slot, page.to)))
    }

    /// Takes over the states of a page that was read; an error says why they are impossible.
    pub fn load_state_page(&mut self, look: StatePageLook, decoded: &Decoded) -> Result<(), &'static str> {
        let key = look.chunk;
        let history = self.chunk(key).history().ok_or("nothing names it")?;
        let page = history.pages().iter().find(|page| page.to == look.to);
        let page = page.ok_or("nothing names it")?;
        let mut parts: [Vec<(SnapshotId, LeafRef)>; PARTS] = Default::default();
        let states = &decoded.states;
        let mut mask = 0;
        for (item, cleared) in states {
            let own = item.leaves.iter().map(|(part, _)| *part);
            mask |= own
                .chain(cleared.iter().map(|(part, _)| *part))
                .fold(0, |mask, part| mask | 1 << part);
        }
        let bounds = (states[0].0.above, states[states.len() - 1].0.to);
        if bounds != (page.above, page.to) || states.len() != usize::from(page.states) || mask != page.parts {
            return Err("it has other states than the checkpoint says");
        }
        let list: Vec<State> = states
            .iter()
            .map(|(item, _)| State {
                version: item.version,
                above: item.above,
                to: item.to,
            })
            .collect();
        let place = history.place_above(page.above);
        let older = place
            .checked_sub(1)
            .map_or(Version::NONE, |older| history.states()[older].version);
        let newer = history
            .states()
            .get(place)
            .map_or(Version(u64::MAX), |newer| newer.version);
        let versions = std::iter::once(older)
            .chain(list.iter().map(|state| state.version))
            .chain([newer]);
        if !self.chunk(key).loose && !versions.is_sorted() {
            return Err("its states are older than those before them");
        }
        let mut leaves = 0;
        for (item, cleared) in states {
            for &(part, place) in &item.leaves {
                let leaf = LeafRef::from(place);
                self.pages += u64::from(leaf.slot != Slot::NONE);
                parts[usize::from(part)].push((item.to, leaf));
            }
            for &(part, version) in cleared {
                let at = Location {
                    chunk: key,
                    to: item.to,
                    part,
                };
                let mem = self.cache.add(at, Data::Cleared(version));
                let leaf = LeafRef { mem, ..LeafRef::NEVER };
                parts[usize::from(part)].push((item.to, leaf));
            }
            leaves += item.leaves.len() + cleared.len();
        }
        self.states += list.len() as u64;
        self.state_parts += leaves as u64;
        let history = self.states_mut(key);
        history.load_states(&list, &parts);
        if let Some(page) = history.page_mut(look.to) {
            (page.leaves, page.bytes) = (leaves as u16, decoded.used);
        }
        let chunk = self.chunk_mut(key);
        chunk.accepted.state = chunk.newest_state();
        Ok(())
    }

    /// The page of states at a chunk's name, for who compares it with what is in memory.
    #[cfg(any(test, feature = "planted"))]
    pub(super) fn check_state_page(&self, key: ChunkKey, page: &StatePage, store: StoreId) {
        let history = self.chunk(key).history().expect("the page is of one");
        let places = history.places_of(page);
        let mut bytes = vec![0; crate::format::PAGE_BYTES];
        history.each_of(places.clone(), |state, leaves| {
            for &(part, leaf) in leaves {
                let dirty = leaf.mem != super::leaves::NO_MEM && self.cache.get(leaf.mem).dirty;
                assert!(
                    !dirty,
                    "leaf {part} of state {} has changed, and its page is not stale",
                    state.to
                );
            }
            true
        });
        let again = self.fill_state_page(key, places, store, &mut bytes);
        assert_eq!(
            (
                again.sum,
                again.above,
                again.to,
                again.states,
                again.leaves,
                again.bytes,
                again.parts
            ),
            (
                page.sum,
                page.above,
                page.to,
                page.states,
                page.leaves,
                page.bytes,
                page.parts
            ),
            "a page says what is so, or is stale"
        );
    }
}

/// Which states go to pages.
#[derive(Default)]
struct Plan {
    stretches: Vec<Range<usize>>,
    /// Pages whose states are written with them, by their names; ascending.
    given_back: Vec<SnapshotId>,
    /// The stretch that is still growing, and the bytes that it takes.
    growing: Option<(Range<usize>, usize)>,
    /// The page before what is looked at next, if it is not given back.
    before: Option<(SnapshotId, Range<usize>, usize)>,
    /// What is looked at next.
    at: usize,
}

impl Plan {
    /// Up to this place nothing is in a page; `least` states are worth one.
    fn gap(&mut self, history: &History, end: usize, least: usize) {
        if end <= self.at {
            return;
        }
        let places = self.at..end;
        self.at = end;
        let bytes = FIRST_BYTES + places.len() * LINE_BYTES + history.leaves_in(&places) * LEAF_BYTES;
        if let Some((growing, known)) = &mut self.growing {
            growing.end = end;
            *known += bytes;
        } else if places.len() >= least {
            self.growing = Some((places, bytes));
            if let Some((to, page, known)) = self.before.take().filter(|(.., known)| known + bytes <= LINES_BYTES) {
                self.given_back.push(to);
                self.growing = Some((page.start..end, known + bytes));
            }
        }
        self.before = None;
    }

    fn page(&mut self, page: &StatePage, places: Range<usize>) {
        self.at = places.end;
        let bytes = usize::from(page.bytes);
        if let Some((growing, known)) = &mut self.growing {
            if *known + bytes <= LINES_BYTES {
                growing.end = places.end;
                *known += bytes;
                self.given_back.push(page.to);
                return;
            }
            self.end();
        }
        self.before = Some((page.to, places, bytes));
    }

    fn end(&mut self) {
        self.stretches.extend(self.growing.take().map(|(places, _)| places));
    }
}
