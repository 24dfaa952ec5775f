//! The offline check names what is planted into an image, and nothing else.

mod planter;
mod readers;

use crate::common::fixture::Fixture;
use crate::common::{BLOCK, CLUSTER, Disk, Requester, Rig, STORE, VOLUME, params, version};
use amita_reactor::{Pool, Slice, Time};
use amita_store::format::checkpoint::LeafPlace;
use amita_store::format::page::LogPage;
use amita_store::format::superblock::{Fault, OFFSETS, Superblock};
use amita_store::format::{Geometry, Place, Slot, seal};
use amita_store::offline::{CheckOptions, DataFault, LeafFault, Offline, Problem, ReadAt, Report, User, check};
use amita_store::{Config, Entry, MountError, State};
use amita_types::message::{AnswerBody, CloneRequest, RequestBody};
use amita_types::{BlockIndex, ChunkId, ChunkIndex, SnapshotId, Version, VolumeId};
use planter::Planter;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;

const CLONE: VolumeId = VolumeId(70);
/// The chunk with states, the one without, and the clone of the first.
const FIRST: ChunkId = chunk(VOLUME, 0);
const SECOND: ChunkId = chunk(VOLUME, 1);
const CLONED: ChunkId = chunk(CLONE, 0);
const SIZE: u64 = 4 << 20;

const fn chunk(volume: VolumeId, index: u64) -> ChunkId {
    ChunkId {
        volume,
        index: ChunkIndex(index),
    }
}

fn after(counter: u64) -> Version {
    if counter == 0 {
        Version::NONE
    } else {
        version(1, counter)
    }
}

struct Base {
    rig: Rig,
    asker: Requester,
}

impl Base {
    fn ask(&mut self, volume: VolumeId, snapshot: u32, body: RequestBody, payload: &[u8]) {
        let mut request = self.asker.request(body);
        request.scope.volume = volume;
        request.scope.snapshot = SnapshotId(snapshot);
        let told = self.asker.ask(&mut self.rig, request, Slice::copy_from(payload));
        told.answer.result.expect("it is done");
    }

    fn write(&mut self, index: u64, block: u16, snapshot: u32, counter: u64) {
        let fill = (index as u8) << 6 | counter as u8;
        let bytes = vec![fill; BLOCK];
        let offset = u32::from(block) * BLOCK as u32;
        let (next, previous) = (after(counter), after(counter - 1));
        let body = self.asker.write_request(index, offset, &bytes, next, previous).body;
        self.ask(VOLUME, snapshot, body, &bytes);
    }
}

/// A store with a chunk that has two states, one that has none, and a clone, all in a checkpoint; and some log behind it.
fn base() -> Vec<u8> {
    let mut base = Base {
        rig: Rig::fresh(SIZE, true),
        asker: Requester::new(1),
    };
    base.asker.fence(&mut base.rig).expect("it is the first");
    for block in 0..8 {
        base.write(0, block, 0, u64::from(block) + 1);
        base.write(1, block, 0, u64::from(block) + 1);
    }
    base.write(0, 1, 1, 9);
    base.write(0, 2, 2, 10);
    let mut fence = base.asker.fence_request();
    fence.scope.volume = CLONE;
    let told = base.asker.ask(&mut base.rig, fence, Slice::default());
    assert_eq!(told.answer.result, Ok(AnswerBody::Fenced));
    let body = RequestBody::Clone(CloneRequest {
        chunk: ChunkIndex(0),
        origin: VOLUME,
        at: SnapshotId(1),
    });
    base.ask(CLONE, 0, body, &[]);
    for counter in 1.. {
        if base.rig.store.status().counters.checkpoints > 0 {
            // What comes now is in the log only.
            base.write(1000, 1, 0, counter);
            break;
        }
        base.write(1000, 0, 0, counter);
    }
    base.rig.run();
    // A mount notes that all of it is verified.
    let mut again = base.rig.reopened(base.rig.disk.view.clone());
    again.run();
    assert_eq!(*again.store.state(), State::Serving);
    again.disk.view
}

fn look(image: &[u8], data: bool) -> Report {
    let options = CheckOptions {
        data,
        ..CheckOptions::default()
    };
    check(&image, &Config::default(), &options, &mut |_| {})
}

/// What a planted change makes of the report.
fn planted(change: impl FnOnce(&mut Planter)) -> Report {
    let mut planter = Planter::new(&base());
    change(&mut planter);
    look(&planter.finish(), false)
}

fn of_first(block: u16) -> User {
    User::Data {
        chunk: FIRST,
        snapshot: SnapshotId::HEAD,
        block: BlockIndex(block),
    }
}

fn of_second(block: u16) -> User {
    User::Data {
        chunk: SECOND,
        snapshot: SnapshotId::HEAD,
        block: BlockIndex(block),
    }
}

/// A slot that nothing uses, nor the log behind the checkpoint.
fn free_slot(planter: &mut Planter) -> Slot {
    let slots = planter.superblock.geometry.slots;
    (0..slots)
        .rev()
        .map(Slot)
        .find(|&slot| !planter.is_held(slot))
        .expect("the store is not full")
}

#[test]
fn a_sound_store_is_clean_and_the_planter_changes_nothing_by_itself() {
    let image = base();
    for image in [image.clone(), Planter::new(&image).finish()] {
        let report = look(&image, true);
        assert_eq!((&report.problems[..], &report.remarks[..]), (&[][..], &[][..]));
        let seen = report.seen;
        assert_eq!((seen.chunks, seen.clones, seen.states), (4, 1, 2));
        // The clone and its origin share seven blocks as they were, and the one that the origin has changed since.
        assert_eq!(seen.slots_shared, 8);
        assert_eq!((seen.slots_leaked, seen.leaves_lost), (0, 0));
        assert_eq!(seen.slots_held, seen.blocks_verified + seen.leaf_pages());
        assert!(report.mount.expect("mounted").records_replayed > 0);
    }
}

trait LeafPages {
    fn leaf_pages(&self) -> u64;
}

impl LeafPages for amita_store::offline::Seen {
    /// Every leaf has a page here, but for one that the log has made.
    fn leaf_pages(&self) -> u64 {
        self.slots_held - self.blocks_verified
    }
}

#[test]
fn a_flipped_bit_in_a_superblock() {
    let sound = base();
    for offset in OFFSETS {
        let mut image = sound.clone();
        image[offset as usize + 100] ^= 4;
        let report = look(&image, true);
        assert_eq!(report.problems, []);
        let fault = Fault::Checksum;
        assert_eq!(report.remarks, [Problem::Superblock { offset, fault }]);
    }
    let mut image = sound;
    for offset in OFFSETS {
        image[offset as usize + 100] ^= 4;
    }
    let report = look(&image, true);
    assert!(
        matches!(
            report.problems[..],
            [Problem::Refused(MountError::SuperblockDamaged { .. })]
        ),
        "{report:?}"
    );
}

#[test]
fn superblocks_that_disagree() {
    let with = |change: fn(&mut Superblock)| {
        let mut planter = Planter::new(&base());
        let mut other = planter.superblock;
        change(&mut other);
        planter.put_superblock(1, &other);
        (look(&planter.image, true), planter.superblock.generation)
    };
    let (report, generation) = with(|other| other.mount_start -= 1);
    let what = "what they say, with the same generation";
    let generations = [generation; 2];
    assert_eq!(report.problems, [Problem::SuperblocksDisagree { generations, what }]);

    let (report, generation) = with(|other| other.generation -= 2);
    let generations = [generation, generation - 2];
    let what = "more than one change";
    assert_eq!(report.problems, [Problem::SuperblocksDisagree { generations, what }]);

    let (report, generation) = with(|other| other.generation -= 1);
    assert_eq!(report.problems, []);
    let (older, newer) = (generation - 1, generation);
    assert_eq!(report.remarks, [Problem::SuperblocksApart { older, newer }]);
}

#[test]
fn a_flipped_bit_in_the_checkpoint() {
    let mut image = base();
    let superblock = Planter::new(&image).superblock;
    let offset = superblock.geometry.checkpoint_offsets[superblock.checkpoint.area as usize];
    image[offset as usize + 77] ^= 1;
    let report = look(&image, true);
    assert_eq!(report.problems.len(), 1, "{report:?}");
    assert_eq!(
        (report.problems[0].kind(), report.problems[0].offset()),
        ("refused", Some(offset))
    );
}

#[test]
fn a_damaged_page_of_the_log_below_the_mark() {
    let mut image = base();
    let superblock = Planter::new(&image).superblock;
    assert!(superblock.checkpoint.tail < superblock.mount_start);
    let sequence = superblock.mount_start - 1;
    let offset = superblock.geometry.log_page_offset(sequence);
    let at = offset as usize;
    assert!(LogPage::decode(&image[at..at + BLOCK], STORE).is_some());
    image[at + 200] ^= 1;
    let report = look(&image, true);
    let [Problem::Refused(MountError::LogDamaged { sequence: found, .. })] = report.problems[..] else {
        panic!("{report:?}")
    };
    assert_eq!((found, report.problems[0].offset()), (sequence, Some(offset)));
}

fn bad_leaf(report: &Report, chunk: ChunkId, slot: Slot, fault: LeafFault) {
    let [
        Problem::Leaf {
            chunk: found,
            snapshot: SnapshotId::HEAD,
            part: 0,
            slot: Some(place),
            fault: why,
            ..
        },
    ] = &report.problems[..]
    else {
        panic!("{report:#?}")
    };
    assert_eq!((*found, *place, why), (chunk, slot, &fault));
    let [Problem::HeldByLostLeaves { slots, .. }] = report.remarks[..] else {
        panic!("{report:#?}")
    };
    assert!(slots > 0, "what the leaf held is in use, and nobody is known");
}

#[test]
fn a_flipped_bit_in_a_leaf() {
    let mut planter = Planter::new(&base());
    let slot = planter.leaf(SECOND, None);
    let at = planter.slot_at(slot);
    planter.image[at + 60] ^= 8;
    bad_leaf(&look(&planter.image, true), SECOND, slot, LeafFault::Checksum);
}

#[test]
fn a_leaf_that_the_log_needs() {
    let written_later = chunk(VOLUME, 1000);
    let mut planter = Planter::new(&base());
    let slot = planter.leaf(written_later, None);
    let at = planter.slot_at(slot);
    planter.image[at + 60] ^= 8;
    let report = look(&planter.image, true);
    assert_eq!(report.mount.expect("mounted").leaves_lost, 1);
    let expected = Problem::Leaf {
        chunk: written_later,
        snapshot: SnapshotId::HEAD,
        part: 0,
        slot: Some(slot),
        offset: Some(at as u64),
        fault: LeafFault::Checksum,
    };
    assert_eq!(report.problems, [expected]);
}

#[test]
fn another_chunks_leaf() {
    let mut planter = Planter::new(&base());
    let (slot, other) = (planter.leaf(SECOND, None), planter.leaf(CLONED, None));
    let (to, from) = (planter.slot_at(slot), planter.slot_at(other));
    planter.image.copy_within(from..from + BLOCK, to);
    let fault = LeafFault::Foreign { chunk: CLONED, part: 0 };
    bad_leaf(&look(&planter.image, true), SECOND, slot, fault);
}

#[test]
fn an_older_leaf() {
    let mut planter = Planter::new(&base());
    let slot = planter.leaf(SECOND, None);
    let mut entries = planter.entries(SECOND, None);
    entries[3].version = version(1, 1);
    planter.write_leaf(slot, SECOND, 0, &entries);
    bad_leaf(
        &look(&planter.image, true),
        SECOND,
        slot,
        LeafFault::Stale { checkpoint: 0 },
    );
}

#[test]
fn data_in_place_of_a_leaf() {
    let mut planter = Planter::new(&base());
    let slot = planter.leaf(SECOND, None);
    let at = planter.slot_at(slot);
    planter.image[at..at + BLOCK].fill(7);
    seal(&mut planter.image[at..at + BLOCK]);
    bad_leaf(&look(&planter.image, true), SECOND, slot, LeafFault::NoLeaf);
}

#[test]
fn a_leaf_that_is_known_to_be_lost() {
    let report = planted(|planter| {
        let slot = planter.leaf(SECOND, None);
        planter.set_leaf(SECOND, LeafPlace::Lost);
        planter.set_held(slot, false);
    });
    assert_eq!(report.problems.len(), 1, "{report:?}");
    assert!(
        matches!(
            report.problems[0],
            Problem::Leaf {
                chunk: SECOND,
                part: 0,
                slot: None,
                fault: LeafFault::Lost,
                ..
            }
        ),
        "{report:?}"
    );
    assert_eq!(report.remarks, [Problem::HeldByLostLeaves { slots: 8, counts: 0 }]);
}

#[test]
fn a_lost_leaf_does_not_explain_more_than_it_can_have_held() {
    let report = planted(|planter| {
        let slot = planter.leaf(SECOND, None);
        planter.set_leaf(SECOND, LeafPlace::Lost);
        planter.set_held(slot, false);
        for _ in 0..130 {
            let slot = free_slot(planter);
            planter.set_held(slot, true);
        }
    });
    assert!(
        report
            .problems
            .iter()
            .any(|problem| matches!(problem, Problem::Leaked { .. })),
        "{report:?}"
    );
    assert_eq!(report.seen.slots_leaked, 138);
}

#[test]
fn a_slot_used_twice_in_a_chunk() {
    let mut slot = Slot(0);
    let report = planted(|planter| {
        let mut orphan = Slot(0);
        planter.edit(SECOND, None, |entries| {
            orphan = entries[5].slot;
            slot = entries[6].slot;
            entries[5].slot = slot;
        });
        planter.set_held(orphan, false);
    });
    assert_eq!(report.problems.len(), 1, "{report:?}");
    let Problem::UsedTwice {
        slot: found,
        first,
        other,
        ..
    } = report.problems[0]
    else {
        panic!("{report:?}")
    };
    assert_eq!((found, first, other), (slot, of_second(5), of_second(6)));
}

#[test]
fn a_slot_used_by_two_chunks_that_are_no_clones_of_one_another() {
    let mut slot = Slot(0);
    let report = planted(|planter| {
        let stolen = planter.entries(FIRST, None)[2];
        slot = stolen.slot;
        let mut orphan = Slot(0);
        planter.edit(SECOND, None, |entries| {
            orphan = entries[2].slot;
            entries[2].slot = slot;
        });
        planter.set_held(orphan, false);
        planter.set_users(slot, 2);
    });
    assert_eq!(report.problems.len(), 1, "{report:?}");
    let Problem::UsedTwice {
        slot: found,
        first,
        other,
        ..
    } = report.problems[0]
    else {
        panic!("{report:?}")
    };
    assert_eq!(found, slot);
    assert!([first, other].contains(&of_first(2)) && [first, other].contains(&of_second(2)));
}

#[test]
fn a_leaf_in_a_slot_of_data() {
    let mut slot = Slot(0);
    let report = planted(|planter| {
        slot = planter.leaf(SECOND, None);
        let mut orphan = Slot(0);
        planter.edit(FIRST, None, |entries| {
            orphan = entries[2].slot;
            entries[2].slot = slot;
        });
        planter.set_held(orphan, false);
        planter.set_users(slot, 2);
    });
    assert_eq!(report.problems.len(), 1, "{report:?}");
    assert!(matches!(report.problems[0], Problem::UsedTwice { slot: found, .. } if found == slot));
}

#[test]
fn a_leaked_slot() {
    let mut slot = Slot(0);
    let report = planted(|planter| {
        slot = free_slot(planter);
        planter.set_held(slot, true);
    });
    assert_eq!(report.problems.len(), 1, "{report:?}");
    assert!(matches!(report.problems[0], Problem::Leaked { slot: found, count: 1, .. } if found == slot));
    assert!(report.problems[0].to_string().contains("4096 bytes are lost"));
}

#[test]
fn a_slot_in_use_that_is_free_in_the_map() {
    let mut slot = Slot(0);
    let report = planted(|planter| {
        slot = planter.entries(SECOND, None)[4].slot;
        planter.set_held(slot, false);
    });
    assert_eq!(report.problems.len(), 1, "{report:?}");
    let Problem::UsedButFree { slot: found, user, .. } = report.problems[0] else {
        panic!("{report:?}")
    };
    assert_eq!((found, user), (slot, of_second(4)));
}

#[test]
fn a_wrong_count_of_a_clones_slot() {
    for count in [1, 3] {
        let mut slot = Slot(0);
        let report = planted(|planter| {
            slot = planter.entries(CLONED, None)[4].slot;
            planter.set_users(slot, count);
        });
        assert_eq!(report.problems.len(), 1, "{report:?}");
        let Problem::WrongCount {
            slot: found,
            map,
            users,
            ..
        } = report.problems[0]
        else {
            panic!("{report:?}")
        };
        assert_eq!((found, map, users), (slot, u64::from(count), 2));
    }
}

#[test]
fn an_entry_above_its_chunk() {
    let report = planted(|planter| planter.edit(SECOND, None, |entries| entries[1].version = version(1, 9)));
    let expected = Problem::EntryTooNew {
        chunk: SECOND,
        snapshot: SnapshotId::HEAD,
        block: BlockIndex(1),
        version: version(1, 9),
        limit: version(1, 8),
    };
    assert_eq!(report.problems, [expected]);
}

#[test]
fn an_entry_above_its_state() {
    let report = planted(|planter| {
        // The newer state has the chunk's ninth change, which the chunk still has.
        for state in [Some(1), None] {
            planter.edit(FIRST, state, |entries| {
                assert_eq!(entries[1].version, version(1, 9));
                entries[1].version = version(1, 10);
            });
        }
    });
    let expected = Problem::EntryTooNew {
        chunk: FIRST,
        snapshot: SnapshotId(2),
        block: BlockIndex(1),
        version: version(1, 10),
        limit: version(1, 9),
    };
    assert_eq!(report.problems, [expected]);
}

#[test]
fn data_that_no_write_wrote() {
    let mut slot = Slot(0);
    let report = planted(|planter| {
        planter.edit(SECOND, None, |entries| {
            slot = entries[1].slot;
            entries[1].version = Version::NONE;
        });
    });
    let expected = Problem::NoVersion {
        chunk: SECOND,
        snapshot: SnapshotId::HEAD,
        block: BlockIndex(1),
        slot,
    };
    assert_eq!(report.problems, [expected]);
}

#[test]
fn states_out_of_order() {
    let report = planted(|planter| {
        let (a, b) = (planter.state_line(FIRST, 0), planter.state_line(FIRST, 1));
        planter.lines.swap(a, b);
    });
    let [
        Problem::States {
            chunk: FIRST,
            above,
            to,
            offset: Some(offset),
            ..
        },
        Problem::Refused(MountError::CheckpointDamaged { offset: page, .. }),
    ] = report.problems[..]
    else {
        panic!("{report:?}")
    };
    assert_eq!((above, to, offset), (SnapshotId(0), SnapshotId(1), page));
}

#[test]
fn a_state_newer_than_its_chunk() {
    let report = planted(|planter| planter.state(FIRST, 1).version = version(1, 11));
    let [
        Problem::States {
            chunk: FIRST,
            to: SnapshotId(2),
            what: "is newer than the chunk",
            ..
        },
    ] = report.problems[..]
    else {
        panic!("{report:?}")
    };
}

#[test]
fn a_clone_of_another_part_of_a_volume() {
    let report = planted(|planter| {
        for line in &mut planter.lines {
            if let planter::Line::Origin(origin) = line {
                origin.index = ChunkIndex(5);
            }
        }
    });
    let origin = Problem::Origin {
        chunk: CLONED,
        origin: chunk(VOLUME, 5),
    };
    assert_eq!(report.problems[0], origin);
    // And so it cannot share anything with the first chunk.
    assert!(
        report.problems[1..]
            .iter()
            .all(|problem| matches!(problem, Problem::UsedTwice { .. }))
    );
    assert_eq!(report.problems.len(), 9);
}

#[test]
fn a_rotten_block() {
    let mut planter = Planter::new(&base());
    let entry = planter.entries(SECOND, None)[3];
    let at = planter.slot_at(entry.slot);
    planter.image[at + 1000] ^= 1;
    assert!(
        look(&planter.image, false).is_clean(),
        "data is read only when asked for"
    );
    let expected = |fault| Problem::Data {
        user: of_second(3),
        version: entry.version,
        slot: entry.slot,
        offset: at as u64,
        fault,
    };
    assert_eq!(look(&planter.image, true).problems, [expected(DataFault::Checksum)]);
    planter.image[at..at + BLOCK].fill(0);
    assert_eq!(look(&planter.image, true).problems, [expected(DataFault::Zeros)]);
}

#[test]
fn a_misplaced_block() {
    let mut planter = Planter::new(&base());
    let entries = planter.entries(SECOND, None);
    let (from, to) = (planter.slot_at(entries[3].slot), planter.slot_at(entries[4].slot));
    planter.image.copy_within(from..from + BLOCK, to);
    let expected = Problem::Data {
        user: of_second(4),
        version: entries[4].version,
        slot: entries[4].slot,
        offset: to as u64,
        fault: DataFault::OfBlock(BlockIndex(3)),
    };
    assert_eq!(look(&planter.image, true).problems, std::slice::from_ref(&expected));
    // With its checksum, too: the place is bound into it.
    planter.edit(SECOND, None, |entries| entries[4].sum = entries[3].sum);
    assert_eq!(look(&planter.finish(), true).problems, [expected]);
    // Bound to the right place it would be right.
    let mut planter = Planter::new(&base());
    planter.image.copy_within(from..from + BLOCK, to);
    planter.edit(SECOND, None, |entries| {
        let place = Place::of(SECOND);
        entries[4].sum = place.bind(BlockIndex(4), place.bind(BlockIndex(3), entries[3].sum));
    });
    assert_eq!(look(&planter.finish(), true).problems, []);
}

#[test]
fn no_more_problems_are_listed_than_asked_for() {
    let mut planter = Planter::new(&base());
    planter.edit(SECOND, None, |entries| {
        for entry in &mut entries[..8] {
            entry.version = version(1, 9);
        }
    });
    let options = CheckOptions { data: false, most: 3 };
    let image = planter.finish();
    let report = check(&&image[..], &Config::default(), &options, &mut |_| {});
    assert_eq!((report.problems.len(), report.more), (3, 5));
}

#[test]
fn what_a_chunk_is_can_be_asked() {
    let image = base();
    let offline = Offline::open(&image[..], Config::default()).expect("it is mounted");
    assert_eq!(offline.chunks().count(), 4);
    assert_eq!(offline.volumes().len(), 2);
    let look = offline.chunk(FIRST).expect("it was written");
    assert_eq!(
        (look.version, look.snapshot, look.deleted),
        (version(1, 10), SnapshotId(2), false)
    );
    let states: Vec<_> = look.states.iter().map(|s| (s.above.0, s.to.0, s.version)).collect();
    assert_eq!(states, [(0, 1, version(1, 8)), (1, 2, version(1, 9))]);
    let clone = offline.chunk(CLONED).expect("it was cloned");
    assert_eq!((clone.origin, clone.version), (FIRST, version(1, 8)));
    let at = |snapshot| {
        let parts = offline.entries(FIRST, SnapshotId(snapshot)).expect("kept");
        let entries: Vec<_> = parts.into_iter().flat_map(|part| part.expect("whole")).collect();
        assert_eq!(entries.len(), 8);
        (entries[1].1.version, entries[2].1.version)
    };
    assert_eq!(at(1), (version(1, 2), version(1, 3)));
    assert_eq!(at(2), (version(1, 9), version(1, 3)));
    assert_eq!(at(0), (version(1, 9), version(1, 10)));
    assert!(offline.chunk(chunk(VOLUME, 99)).is_none());
    let of = |chunk, snapshot| {
        let parts = offline.entries(chunk, SnapshotId(snapshot)).expect("kept");
        let entries: Vec<_> = parts.into_iter().flat_map(|part| part.expect("whole")).collect();
        entries[3]
    };
    // Each block is bound to its place, a clone's to that of its origin.
    let (block, entry) = of(SECOND, 0);
    let content = |origin, block| offline.content(origin, block, entry);
    assert_eq!(content(SECOND, block), Some(vec![0x44; BLOCK]));
    assert_eq!((content(SECOND, BlockIndex(4)), content(FIRST, block)), (None, None));
    let (block, entry) = of(CLONED, 0);
    assert_eq!(offline.content(FIRST, block, entry), Some(vec![4; BLOCK]));
    assert_eq!(offline.content(FIRST, block, Entry::NEVER), None);
    assert_eq!(offline.superblock().cluster, CLUSTER);
    // A second life of the same image finds the same: nothing was written.
    let mut rig = Rig::open(
        Disk::new(image.clone(), false),
        Config::default(),
        Time(1),
        1,
        Pool::heap(),
    );
    rig.run();
    assert_eq!(*rig.store.state(), State::Serving);
    assert_ne!(image, crate::common::image(&params(SIZE)));
}

#[test]
fn the_fixture_is_clean() {
    let fixture = Fixture::parse(include_str!("fixtures/store-v1.txt"));
    let report = look(&fixture.image, true);
    assert_eq!(report.problems, []);
    assert_eq!(report.seen.blocks_verified, fixture.blocks());
    assert!(report.seen.chunks > 0);
}
