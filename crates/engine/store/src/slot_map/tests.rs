//! Tests of the map of slots against a plain map of users, and through a checkpoint.

use super::*;
use crate::format::PAGE_BYTES;
use crate::format::checkpoint::{Item, PageReader};
use amita_types::StoreId;
use proptest::prelude::*;
use std::collections::BTreeMap;

const STORE: StoreId = StoreId(77);
/// Two items, and a bit.
const SLOTS: u32 = 2 * SLOTS_PER_ITEM + 100;

#[derive(Clone, Debug)]
enum Step {
    /// Slots that follow one another get so many more users.
    Share { first: u32, slots: u32, users: u32 },
    /// Each of them loses some.
    Release { first: u32, slots: u32, users: u32 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let users = prop_oneof![4 => 1..4u32, 1 => 100..300u32];
    let slots = prop_oneof![3 => 1..30u32, 1 => 500..3000u32];
    let step = (any::<bool>(), 0..SLOTS, slots, users).prop_map(|(shares, first, slots, users)| {
        let slots = slots.min(SLOTS - first);
        match shares {
            true => Step::Share { first, slots, users },
            false => Step::Release { first, slots, users },
        }
    });
    proptest::collection::vec(step, 1..12)
}

/// The map, and how many users each slot has.
struct Both {
    map: SlotMap,
    users: BTreeMap<u32, u32>,
}

impl Both {
    fn new() -> Both {
        Both {
            map: SlotMap::new(SLOTS),
            users: BTreeMap::new(),
        }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Share { first, slots, users } => {
                for slot in first..first + slots {
                    for _ in 0..users {
                        let known = self.users.entry(slot).or_default();
                        *known += 1;
                        let done = match known {
                            1 => self.map.claim(Slot(slot)),
                            _ => self.map.share(Slot(slot)),
                        };
                        assert!(done, "slot {slot} gets user {known}");
                    }
                }
            }
            Step::Release { first, slots, users } => {
                for slot in first..first + slots {
                    for _ in 0..users {
                        let Some(known) = self.users.get_mut(&slot) else { break };
                        *known -= 1;
                        let last = *known == 0;
                        assert_eq!(self.map.release(Slot(slot)), last, "slot {slot} has {known} left");
                        if last {
                            self.users.remove(&slot);
                        }
                    }
                }
            }
        }
    }

    fn compare(&self, map: &SlotMap) {
        assert_eq!(map.wrong, None);
        assert_eq!(map.count(), self.users.len() as u64);
        let shared: Vec<(Slot, u32)> = (0..SLOTS)
            .step_by(SLOTS_PER_ITEM as usize)
            .flat_map(|first| map.item_shared(first).collect::<Vec<_>>())
            .collect();
        let several = self.users.iter().filter(|(_, users)| **users > 1);
        let several: Vec<(Slot, u32)> = several.map(|(slot, users)| (Slot(*slot), users - 1)).collect();
        assert_eq!(shared, several);
        assert_eq!(map.shared(), several.len() as u64);
    }
}

/// Writes the map into pages and reads them into another one, as checkpoint and mount do.
fn through_a_checkpoint(map: &SlotMap) -> SlotMap {
    let items = SLOTS.div_ceil(SLOTS_PER_ITEM);
    let mut buffer = vec![0x5a; 64 * PAGE_BYTES];
    let mut writer = PageWriter::new(&mut buffer, STORE, 9, 0);
    let mut list = Vec::new();
    let mut bound = 0;
    for first in (0..items).map(|item| item * SLOTS_PER_ITEM) {
        bound += map.item_shared_bytes(first);
        writer.slots(5, first, map.item(first));
        map.write_shared(first, &mut writer, &mut list);
    }
    assert_eq!(bound, map.shared_bytes(), "what is counted is what is there");
    let filled = writer.finish();
    let most = crate::format::checkpoint::SLOTS_BYTES * u64::from(items) + bound;
    assert!(
        filled.pages as u64 <= most.div_ceil(PAGE_BYTES as u64) + 1,
        "{} pages for {most} bytes",
        filled.pages
    );
    let mut other = SlotMap::new(SLOTS);
    for page in 0..filled.pages {
        let bytes = &buffer[page * PAGE_BYTES..][..PAGE_BYTES];
        for item in PageReader::new(bytes, STORE, 9, page as u64).expect("as it was written") {
            match item.expect("as it was written") {
                Item::Slots { first, bits, .. } => assert!(other.load(first, bits.words())),
                Item::Shared(counts) => {
                    for (slot, more) in counts.iter() {
                        assert!(other.load_shared(slot, more), "slot {slot} has {more} more");
                    }
                }
                other => panic!("nobody wrote {other:?}"),
            }
        }
    }
    other
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_slot_has_as_many_users_as_it_got(steps in steps()) {
        let mut both = Both::new();
        for step in &steps {
            both.take(step);
            both.compare(&both.map);
        }
        let other = through_a_checkpoint(&both.map);
        both.compare(&other);
        prop_assert_eq!(other.shared_bytes(), both.map.shared_bytes());
    }
}

#[test]
fn counts_around_the_end_of_a_byte() {
    for users in [254, 255, 256, 257, 70_000] {
        let mut both = Both::new();
        both.take(&Step::Share {
            first: 1020,
            slots: 8,
            users,
        });
        both.compare(&both.map);
        both.compare(&through_a_checkpoint(&both.map));
        both.take(&Step::Release {
            first: 1020,
            slots: 8,
            users: 3,
        });
        both.compare(&both.map);
        both.take(&Step::Release {
            first: 1020,
            slots: 8,
            users,
        });
        both.compare(&both.map);
        assert_eq!(both.map.count(), 0);
    }
}

/// What sharing everything costs is told before: a byte a slot and little more of memory, two of a checkpoint.
#[test]
fn what_is_shared_takes_a_byte_a_slot() {
    let mut both = Both::new();
    let nothing = both.map.memory_bytes();
    assert_eq!(both.map.shared_bytes(), 0);
    let worst = both.map.worst_bytes_to_share(u64::from(SLOTS));
    let one = both.map.worst_bytes_to_share(1);
    both.take(&Step::Share {
        first: 5,
        slots: 1,
        users: 2,
    });
    assert_eq!(both.map.memory_bytes() - nothing, one);
    assert_eq!(both.map.worst_bytes_to_share(u64::from(SLOTS)), worst - one);
    both.take(&Step::Share {
        first: 0,
        slots: SLOTS,
        users: 2,
    });
    let all = both.map.memory_bytes() - nothing;
    // Some of them might have had so many users that they stand in the table.
    assert!(all <= worst && worst <= all + 2048, "{all} bytes of {worst}");
    // A page more, for the slots at the end.
    assert!(all <= u64::from(SLOTS + 1024) * 101 / 100);
    assert!(both.map.shared_bytes() <= u64::from(SLOTS + 1024) * 21 / 10);
    both.take(&Step::Release {
        first: 0,
        slots: SLOTS,
        users: 2,
    });
    assert_eq!(both.map.memory_bytes() - nothing, one, "slot 5 has two users still");
    assert_eq!(both.map.shared(), 1);
}

/// Slots get a user more than a byte counts: what their places in the table take was told before, whatever their counts were.
#[test]
fn counts_that_leave_their_bytes_were_told_before() {
    for (users, more) in [(255, 1), (254, 2), (200, 60), (2, 300)] {
        for slots in [1, 3, 4, 7, 8, 14, 15, 28, 29, 500, 1793] {
            let mut both = Both::new();
            both.take(&Step::Share { first: 0, slots, users });
            let before = both.map.memory_bytes();
            let told = both.map.worst_bytes_to_share(u64::from(slots * more));
            both.take(&Step::Share {
                first: 0,
                slots,
                users: more,
            });
            let taken = both.map.memory_bytes() - before;
            assert!(taken > 0, "they are in the table");
            assert!(
                taken <= told,
                "{slots} slots of {users} users: {taken} bytes, {told} were told"
            );
        }
    }
}

#[test]
fn counts_that_cannot_be_are_refused() {
    let mut map = SlotMap::new(SLOTS);
    assert!(!map.load_shared(Slot(3), 1), "nobody has it");
    assert!(map.load(0, std::iter::repeat_n(u64::MAX, WORDS_PER_ITEM)));
    assert!(!map.load_shared(Slot(3), 0) && !map.load_shared(Slot(SLOTS), 1));
    assert!(map.load_shared(Slot(3), 300));
    assert!(!map.load_shared(Slot(3), 2), "it was told already");
    assert_eq!(map.item_shared(0).collect::<Vec<_>>(), [(Slot(3), 300)]);
}
