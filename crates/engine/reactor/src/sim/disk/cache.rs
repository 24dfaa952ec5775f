//! What has been done and is not durable, and what becomes of it.

use super::{Disk, PAGE_BYTES, SECTOR_BYTES, length_of};
use crate::buf::{Segments, Slice};
use crate::sim::coverage::Fault;
use crate::sim::disk::Backing;
use crate::sim::engine::Engine;
use crate::sim::random::Random;
use std::ops::Range;

/// Changes that are not durable are at most so many; beyond it the oldest is destaged.
const CACHE_CHANGES: usize = 256;

/// What a write or a discard makes of a range.
pub(super) struct CachedWrite {
    pub offset: u64,
    pub data: Segments,
    pub discard: bool,
}

impl CachedWrite {
    pub fn range(&self) -> Range<u64> {
        self.offset..self.offset + length_of(&self.data)
    }
}

/// A change that is not durable.
pub(super) struct Cached {
    pub order: u64,
    pub change: CachedWrite,
    /// It is durable only with a note in the file system's journal: a discard of a file, or a write into a hole.
    journaled: bool,
    /// A flush has failed to make it durable, and none will: it is read until it is overwritten or the power goes.
    pub ghost: bool,
}

impl Cached {
    /// What nobody will make durable, by pages: each is there until it is overwritten.
    fn into_ghosts(self) -> impl Iterator<Item = Cached> {
        let (order, range) = (self.order, self.change.range());
        let mut at = range.start;
        std::iter::from_fn(move || {
            (at < range.end).then(|| {
                let end = (at + 1).next_multiple_of(PAGE_BYTES as u64).min(range.end);
                let data = part_of(&self.change.data, at - range.start, end - at);
                let change = CachedWrite {
                    offset: std::mem::replace(&mut at, end),
                    data,
                    discard: false,
                };
                Cached {
                    order,
                    change,
                    journaled: false,
                    ghost: true,
                }
            })
        })
    }
}

impl Disk {
    /// A write takes effect.
    pub(super) fn apply(&mut self, offset: u64, data: &Segments) {
        let range = offset..offset + length_of(data);
        let covers = |bad: &Range<u64>| range.start <= bad.start && bad.end <= range.end;
        self.faults.unreadable.retain(|bad| !covers(bad));
        self.faults.rotten.retain(|bad| !covers(bad));
        self.undefined.remove(range);
        self.put(CachedWrite {
            offset,
            data: data.clone(),
            discard: false,
        });
    }

    /// A discard takes effect.
    pub(super) fn apply_discard(&mut self, engine: &mut Engine, range: Range<u64>) {
        let change = self.discarded(engine, &range);
        if self.config.backing == Backing::Device {
            self.undefined.insert(range);
        }
        self.put(change);
    }

    /// What a discard makes of a range: a hole of a file, which is zeros; on a device anything, page by page.
    pub(super) fn discarded(&self, engine: &mut Engine, range: &Range<u64>) -> CachedWrite {
        let mut data = Segments::new();
        let mut at = range.start;
        while at < range.end {
            let end = (at + 1).next_multiple_of(PAGE_BYTES as u64).min(range.end);
            let mut page = vec![0; (end - at) as usize];
            if self.config.backing == Backing::Device {
                match engine.random.below(3) {
                    0 => self.load(at, &mut page),
                    1 => {}
                    _ => noise(&mut page, engine.random.bits()),
                }
            }
            data.push(Slice::copy_from(&page));
            at = end;
        }
        CachedWrite {
            offset: range.start,
            data,
            discard: true,
        }
    }

    /// A change is there for reads from now on; durable or not.
    fn put(&mut self, change: CachedWrite) {
        self.completed += 1;
        let (order, range) = (self.completed, change.range());
        let hides = |cached: &Cached| {
            let other = cached.change.range();
            other.start < range.end && range.start < other.end
        };
        self.cache.retain(|cached| !(cached.ghost && hides(cached)));
        let punches = self.punches(&change);
        let journaled = punches || self.holes.touches(&range);
        if self.config.volatile_cache || punches {
            self.cache.push(Cached {
                order,
                change,
                journaled,
                ghost: false,
            });
        } else if journaled {
            // Only what falls into a hole waits for the journal.
            for (part, hole) in self.holes.cut(range.clone()) {
                let data = part_of(&change.data, part.start - range.start, part.end - part.start);
                if !hole {
                    self.durable.store_all(part.start, &data);
                    continue;
                }
                let change = CachedWrite {
                    offset: part.start,
                    data,
                    discard: false,
                };
                self.cache.push(Cached {
                    order,
                    change,
                    journaled,
                    ghost: false,
                });
            }
        } else {
            self.durable.store_all(change.offset, &change.data);
        }
        if punches {
            self.holes.insert(range);
        }
        if self.cache.len() > CACHE_CHANGES {
            let oldest = self.cache.iter().find(|cached| !cached.ghost);
            let oldest = oldest.map_or(0, |cached| cached.order);
            self.make_durable(oldest, |_| true);
        }
    }

    /// Everything is durable.
    pub(super) fn destage(&mut self) {
        self.make_durable(u64::MAX, |_| true);
    }

    /// The changes up to an order become durable as far as `keep` says so; the others of them are gone.
    pub(super) fn make_durable(&mut self, up_to: u64, mut keep: impl FnMut(&Cached) -> bool) {
        // Without a cache beneath, what waits for the journal is on the device: one commit takes all of it.
        let up_to = if self.config.volatile_cache { up_to } else { u64::MAX };
        let covered = self.cache.partition_point(|cached| cached.order <= up_to);
        let rest = self.cache.split_off(covered);
        let mut ghosts = Vec::new();
        for cached in std::mem::take(&mut self.cache) {
            if cached.ghost {
                ghosts.push(cached);
            } else if keep(&cached) {
                self.store(&cached.change);
            } else if self.faults.ghosts && !cached.change.discard {
                ghosts.extend(cached.into_ghosts());
            }
        }
        ghosts.extend(rest);
        self.cache = ghosts;
        self.find_holes();
    }

    /// The holes are those of what is durable, and those that are not durable yet.
    pub(super) fn find_holes(&mut self) {
        self.holes = self.durable_holes.clone();
        for cached in &self.cache {
            if self.punches(&cached.change) {
                self.holes.insert(cached.change.range());
            }
        }
    }

    /// A change is durable.
    fn store(&mut self, change: &CachedWrite) {
        self.durable.store_all(change.offset, &change.data);
        self.note(change, change.range());
    }

    /// What was a hole is none any more where a change is durable, or the other way round.
    fn note(&mut self, change: &CachedWrite, part: Range<u64>) {
        if self.punches(change) {
            self.durable_holes.insert(part);
        } else if !change.discard {
            self.durable_holes.remove(part);
        }
    }

    /// Does it make a hole?
    fn punches(&self, change: &CachedWrite) -> bool {
        change.discard && self.config.backing != Backing::Device
    }

    /// Writes past everything.
    pub(super) fn write_durably(&mut self, offset: u64, bytes: &[u8]) {
        let range = offset..offset + bytes.len() as u64;
        self.durable.store(offset, bytes);
        self.undefined.remove(range.clone());
        self.holes.remove(range.clone());
        self.durable_holes.remove(range);
    }

    /// The power is gone: what of the changes that were not durable is left.
    pub(super) fn lose_power(&mut self, engine: &mut Engine) {
        // A device may answer differently for a discarded range when it comes back; then it is settled.
        let undefined = std::mem::take(&mut self.undefined);
        for range in undefined.iter() {
            let mut at = range.start;
            while at < range.end {
                let end = (at + 1).next_multiple_of(PAGE_BYTES as u64).min(range.end);
                let mut page = vec![0; (end - at) as usize];
                match engine.random.below(4) {
                    0 => self.durable.store(at, &page),
                    1 => {
                        noise(&mut page, engine.random.bits());
                        self.durable.store(at, &page);
                    }
                    _ => {}
                }
                at = end;
            }
        }
        let mut cache = std::mem::take(&mut self.cache);
        cache.retain(|cached| !cached.ghost);
        let journal_lost = cache.iter().any(|cached| cached.journaled) && engine.random.below(2) == 0;
        if journal_lost {
            engine.coverage.count(Fault::CutJournal);
        }
        for cached in cache {
            if !(journal_lost && cached.journaled) {
                self.settle(engine, &cached.change);
            }
        }
    }

    /// All, nothing or some sectors of a change that was not durable.
    pub(super) fn settle(&mut self, engine: &mut Engine, change: &CachedWrite) {
        match engine.random.below(3) {
            0 => {
                engine.coverage.count(Fault::CutKept);
                self.store(change);
            }
            1 => engine.coverage.count(Fault::CutLost),
            _ => {
                engine.coverage.count(Fault::CutTorn);
                let mut kept = Vec::new();
                self.durable.store_some(change.offset, &change.data, |sector| {
                    let keep = engine.random.below(2) == 0;
                    if keep {
                        kept.push(sector as u64);
                    }
                    keep
                });
                let (range, sector_bytes) = (change.range(), SECTOR_BYTES as u64);
                for sector in kept {
                    let start = (range.start / sector_bytes + sector) * sector_bytes;
                    self.note(change, start.max(range.start)..(start + sector_bytes).min(range.end));
                }
            }
        }
    }

    pub(super) fn flip(&mut self, engine: &mut Engine, offset: u64, bit: u8) {
        engine.coverage.count(Fault::DiskBitFlipped);
        self.destage();
        let mut byte = [0];
        self.load(offset, &mut byte);
        self.durable.store(offset, &[byte[0] ^ (1 << (bit & 7))]);
    }
}

/// Fills a page with what means nothing.
fn noise(page: &mut [u8], seed: u64) {
    let mut random = Random::new(seed);
    for word in page.chunks_mut(8) {
        let bits = random.bits().to_le_bytes();
        word.copy_from_slice(&bits[..word.len()]);
    }
}

/// `length` bytes from `start`.
pub(super) fn part_of(data: &Segments, start: u64, length: u64) -> Segments {
    let (mut skip, mut left) = (start as usize, length as usize);
    let mut pieces = Segments::new();
    for piece in data {
        let from = skip.min(piece.len());
        let take = left.min(piece.len() - from);
        if take > 0 {
            pieces.push(piece.slice(from..from + take));
        }
        skip -= from;
        left -= take;
    }
    pieces
}
