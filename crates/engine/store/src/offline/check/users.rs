//! The users of every slot, counted anew, against the map of slots.

use super::super::{Problem, Progress, ReadAt, User};
use super::{Checker, leaf_at};
use crate::format::Slot;
use crate::format::checkpoint::SLOTS_PER_ITEM;
use crate::index::LEAF_ENTRIES;
use amita_types::{BlockIndex, ChunkId, Version};
use rustc_hash::{FxHashMap, FxHashSet};

/// What all users of one slot must have in common; a leaf has it with nobody.
type Common = Option<(ChunkId, BlockIndex, u32, Version)>;

impl<R: ReadAt> Checker<'_, R> {
    /// The map of slots against the users that were found.
    pub(super) fn compare_users(&mut self, progress: &mut dyn FnMut(Progress)) {
        if self.users.shared() > 0 {
            self.find_strangers(progress);
        }
        let offline = self.offline;
        let held = offline.store.look_slot_map();
        let lost = self.report.seen.leaves_lost * LEAF_ENTRIES as u64;
        let mut leaked = Runs::default();
        let mut wrong: Vec<(Slot, u64, u64)> = Vec::new();
        for (n, (&map, &users)) in held.words().iter().zip(self.users.words()).enumerate() {
            leaked.add(n as u32, map & !users);
        }
        for first in (0..self.users_end()).step_by(SLOTS_PER_ITEM as usize) {
            let mut counts: FxHashMap<Slot, [u64; 2]> = FxHashMap::default();
            for (slot, more) in held.item_shared(first) {
                counts.entry(slot).or_insert([1, 1])[0] += u64::from(more);
            }
            for (slot, more) in self.users.item_shared(first) {
                counts.entry(slot).or_insert([1, 1])[1] += u64::from(more);
            }
            let differ = counts.into_iter().filter(|(slot, [map, users])| {
                map != users && held.has(*slot) && self.users.has(*slot) && !self.twice.contains(slot)
            });
            let from = wrong.len();
            wrong.extend(differ.map(|(slot, [map, users])| (slot, map, users)));
            wrong[from..].sort_unstable();
        }
        self.report.seen.slots_held = held.count();
        self.report.seen.slots_shared = self.users.shared();
        let (too_many, too_few): (Vec<_>, Vec<_>) = wrong.into_iter().partition(|(_, map, users)| map > users);
        let more: u64 = too_many.iter().map(|(_, map, users)| map - users).sum();
        // What a lost leaf held stays in use.
        let explained = leaked.slots + more > 0 && leaked.slots + more <= lost;
        if explained {
            self.add(Problem::HeldByLostLeaves {
                slots: leaked.slots,
                counts: too_many.len() as u64,
            });
        } else {
            self.report.seen.slots_leaked = leaked.slots;
            for (slot, count) in leaked.runs {
                let offset = self.offset(slot);
                self.add(Problem::Leaked { slot, count, offset });
            }
        }
        let told = if explained { Vec::new() } else { too_many };
        for (slot, map, users) in told.into_iter().chain(too_few) {
            let offset = self.offset(slot);
            self.add(Problem::WrongCount {
                slot,
                offset,
                map,
                users,
            });
        }
    }

    fn users_end(&self) -> u32 {
        self.offline.store.look_superblock().geometry.slots
    }

    /// Slots with several users: all of them must be the same block of the same origin, with the same checksum and version.
    fn find_strangers(&mut self, progress: &mut dyn FnMut(Progress)) {
        let offline = self.offline;
        let index = offline.store.look_index();
        let shared: FxHashSet<Slot> = (0..self.users_end())
            .step_by(SLOTS_PER_ITEM as usize)
            .flat_map(|first| self.users.item_shared(first).map(|(slot, _)| slot))
            .collect();
        let mut firsts: FxHashMap<Slot, (User, Common)> = FxHashMap::default();
        let total = index.len() as u64;
        for (done, key) in (0..).zip(index.keys()) {
            if done % 64 == 0 {
                let what = "looking at what is shared";
                progress(Progress { what, done, total });
            }
            let (id, origin) = (index.chunk(key).id, index.origin(key));
            for at in index.all_leaves(key) {
                if index.look_is_never(at) {
                    continue;
                }
                let whose = leaf_at(id, at);
                if let Some((slot, _)) = index.look_page(at)
                    && shared.contains(&slot)
                {
                    self.meet(&mut firsts, slot, whose.user(), None);
                }
                let Ok(entries) = offline.leaf(at) else { continue };
                for (n, entry) in entries.iter().enumerate() {
                    if entry.has_data() && shared.contains(&entry.slot) {
                        let block = whose.block(n);
                        let common = Some((origin, block, entry.sum, entry.version));
                        self.meet(&mut firsts, entry.slot, whose.data(block), common);
                    }
                }
            }
        }
    }

    fn meet(&mut self, firsts: &mut FxHashMap<Slot, (User, Common)>, slot: Slot, other: User, common: Common) {
        let (first, known) = *firsts.entry(slot).or_insert((other, common));
        let same = first == other || (known.is_some() && known == common);
        if !same && self.twice.insert(slot) {
            let offset = self.offset(slot);
            self.add(Problem::UsedTwice {
                slot,
                offset,
                first,
                other,
            });
        }
    }

    /// What may be written is what nothing uses, and what no checkpoint on the disk names.
    pub(super) fn compare_allocator(&mut self) {
        let offline = self.offline;
        let (held, allocator) = (offline.store.look_slot_map(), offline.store.look_allocator());
        let slots = self.users_end();
        let retired: FxHashSet<Slot> = offline.store.look_retired().collect();
        for (n, (&free, &map)) in (0..).zip(allocator.words().iter().zip(held.words())) {
            let mut wrong = free ^ !map;
            while wrong != 0 {
                let slot = Slot(n * 64 + wrong.trailing_zeros());
                wrong &= wrong - 1;
                if slot.0 >= slots {
                    break;
                }
                let free = allocator.is_free(slot);
                if free || !retired.contains(&slot) {
                    self.add(Problem::Allocator { slot, free });
                }
            }
        }
    }
}

/// Slots that follow one another, put together from words of bits.
#[derive(Default)]
struct Runs {
    runs: Vec<(Slot, u32)>,
    slots: u64,
}

impl Runs {
    fn add(&mut self, word: u32, mut bits: u64) {
        self.slots += u64::from(bits.count_ones());
        while bits != 0 {
            let first = bits.trailing_zeros();
            let count = (!(bits >> first)).trailing_zeros();
            let slot = word * 64 + first;
            match self.runs.last_mut() {
                Some((last, known)) if last.0 + *known == slot => *known += count,
                _ => self.runs.push((Slot(slot), count)),
            }
            if first + count == 64 {
                return;
            }
            bits &= u64::MAX << (first + count);
        }
    }
}
