//! How many users slots have besides the first: a byte a slot, in pages that are there where any slot has several.
//!
//! A byte holds what nearly all slots need; the few that have more users than it can say stand in a table beside the pages. So all
//! slots of a TiB may be shared in 259 MiB of memory, of which 2 MiB are a directory that is always there.

use crate::format::Slot;
use crate::format::checkpoint::{COUNTS_ITEM_BYTES, COUNTS_PER_ITEM, PageWriter, SHARED_BYTES};
use rustc_hash::FxHashMap;

/// Slots of a page: those of which one item of a checkpoint tells.
const PER_PAGE: u32 = COUNTS_PER_ITEM;
/// In place of a count that is this or more: the table has it.
const LARGE: u8 = u8::MAX;
/// What a page takes of memory.
pub(super) const PAGE_BYTES: u64 = size_of::<Page>() as u64;
/// From this count on a slot may soon be in the table; each of the others needs so many users more at least.
const NEAR: u8 = 128;

/// What the table takes of memory with room for so many counts: it has places for a power of two of them, of which an eighth, or one, stays free.
fn table_bytes(counts: u64) -> u64 {
    let places = match counts {
        0 => 0,
        1..=7 => (counts + 1).next_power_of_two().max(4),
        _ => (counts * 8).div_ceil(7).next_power_of_two(),
    };
    places * (size_of::<(u32, u32)>() as u64 + 1)
}

/// The counts of [`PER_PAGE`] slots, of which at least one is not 0.
#[derive(Debug)]
struct Page {
    /// How many are not 0.
    shared: u16,
    /// How many of them are in the table.
    large: u16,
    counts: [u8; PER_PAGE as usize],
}

const _: () = assert!(PER_PAGE <= u16::MAX as u32);

impl Page {
    /// Does a checkpoint have a byte for each slot? Else it has a list.
    fn is_dense(&self) -> bool {
        u64::from(self.shared) * SHARED_BYTES > dense_bytes(self.large)
    }

    /// What it takes of a checkpoint at most.
    fn checkpoint_bytes(&self) -> u64 {
        (u64::from(self.shared) * SHARED_BYTES).min(dense_bytes(self.large))
    }
}

/// What a byte for each slot, and a list of those that do not fit one, take of a checkpoint. An item that does not fit the rest of a
/// page leaves it empty, so it counts twice.
fn dense_bytes(large: u16) -> u64 {
    2 * COUNTS_ITEM_BYTES + u64::from(large) * SHARED_BYTES
}

/// The counts of all slots of a store.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pages: Vec<Option<Box<Page>>>,
    /// How many of them are there.
    there: u32,
    /// Counts of [`LARGE`] and more.
    large: FxHashMap<u32, u32>,
    /// Slots whose counts are [`NEAR`] and more, and not in the table.
    near: u64,
    shared: u64,
    checkpoint_bytes: u64,
}

impl Counts {
    pub fn new(slots: u32) -> Counts {
        let mut pages = Vec::new();
        pages.resize_with(slots.div_ceil(PER_PAGE) as usize, || None);
        Counts {
            pages,
            ..Counts::default()
        }
    }

    /// Slots whose count is not 0.
    pub fn shared(&self) -> u64 {
        self.shared
    }

    pub fn get(&self, slot: Slot) -> u32 {
        let page = self.pages.get((slot.0 / PER_PAGE) as usize);
        match page.and_then(Option::as_ref) {
            None => 0,
            Some(page) => self.count(page, slot),
        }
    }

    fn count(&self, page: &Page, slot: Slot) -> u32 {
        match page.counts[(slot.0 % PER_PAGE) as usize] {
            LARGE => self.large.get(&slot.0).copied().unwrap_or(u32::from(LARGE)),
            count => u32::from(count),
        }
    }

    /// A slot, one of those that there are, gets another count.
    pub fn set(&mut self, slot: Slot, count: u32) {
        let place = &mut self.pages[(slot.0 / PER_PAGE) as usize];
        if place.is_none() {
            if count == 0 {
                return;
            }
            self.there += 1;
        }
        let page = place.get_or_insert_with(|| {
            Box::new(Page {
                shared: 0,
                large: 0,
                counts: [0; PER_PAGE as usize],
            })
        });
        self.checkpoint_bytes -= page.checkpoint_bytes();
        let byte = &mut page.counts[(slot.0 % PER_PAGE) as usize];
        let before = std::mem::replace(byte, u8::try_from(count).unwrap_or(LARGE));
        let now = *byte;
        page.shared = page.shared - u16::from(before > 0) + u16::from(now > 0);
        page.large = page.large - u16::from(before == LARGE) + u16::from(now == LARGE);
        self.shared = self.shared - u64::from(before > 0) + u64::from(now > 0);
        let is_near = |count: u8| u64::from((NEAR..LARGE).contains(&count));
        self.near = self.near - is_near(before) + is_near(now);
        match now {
            LARGE => {
                self.large.insert(slot.0, count);
            }
            _ if before == LARGE => {
                self.large.remove(&slot.0);
            }
            _ => {}
        }
        self.checkpoint_bytes += page.checkpoint_bytes();
        if page.shared == 0 {
            *place = None;
            self.there -= 1;
        }
    }

    /// Slots of `slots`, which begin a page, whose count is not 0: ascending.
    pub fn iter(&self, slots: std::ops::Range<u32>) -> impl Iterator<Item = (Slot, u32)> + '_ {
        let pages = self.pages_of(slots);
        pages.flat_map(|(first, page)| self.list(first, page, |count| count > 0))
    }

    fn pages_of(&self, slots: std::ops::Range<u32>) -> impl Iterator<Item = (u32, &Page)> {
        let numbers = slots.start / PER_PAGE..slots.end.div_ceil(PER_PAGE);
        numbers.filter_map(|number| {
            let page = self.pages.get(number as usize)?.as_deref()?;
            Some((number * PER_PAGE, page))
        })
    }

    fn list<'a>(
        &'a self,
        first: u32,
        page: &'a Page,
        which: impl Fn(u8) -> bool + 'a,
    ) -> impl Iterator<Item = (Slot, u32)> + 'a {
        let wanted = (first..).zip(&page.counts).filter(move |(_, count)| which(**count));
        wanted.map(|(slot, _)| (Slot(slot), self.count(page, Slot(slot))))
    }

    /// Writes what a checkpoint says of the slots of `slots`, which begin a page. `list` is for its use.
    pub fn write(&self, slots: std::ops::Range<u32>, writer: &mut PageWriter<'_>, list: &mut Vec<(Slot, u32)>) {
        for (first, page) in self.pages_of(slots) {
            list.clear();
            if page.is_dense() {
                writer.counts(
                    Slot(first),
                    page.counts.iter().map(|&count| if count == LARGE { 0 } else { count }),
                );
                list.extend(self.list(first, page, |count| count == LARGE));
            } else {
                list.extend(self.list(first, page, |count| count > 0));
            }
            writer.shared(list);
        }
    }

    /// The most that [`Counts::write`] writes for these slots.
    pub fn write_bytes(&self, slots: std::ops::Range<u32>) -> u64 {
        self.pages_of(slots).map(|(_, page)| page.checkpoint_bytes()).sum()
    }

    /// The same for all slots.
    pub fn checkpoint_bytes(&self) -> u64 {
        self.checkpoint_bytes
    }

    pub fn memory_bytes(&self) -> u64 {
        let directory = (self.pages.len() * size_of::<Option<Box<Page>>>()) as u64;
        directory + u64::from(self.there) * PAGE_BYTES + table_bytes(self.large.capacity() as u64)
    }

    /// The most memory that it takes to share so many more slots.
    pub fn worst_bytes(&self, slots: u64) -> u64 {
        let missing = self.pages.len() as u64 - u64::from(self.there);
        let large = self.large.len() as u64 + slots.min(self.near) + slots / u64::from(NEAR);
        let table = table_bytes(large).saturating_sub(table_bytes(self.large.capacity() as u64));
        slots.min(missing) * PAGE_BYTES + table
    }
}
