//! Tests of the format: what is written is read; what is not whole is refused; bytes stay where they are.

use super::page::{Header, LogPage, RECORDS_BYTES};
use super::record::{
    Change, Fence, MAX_RECORD_BYTES, MAX_ROLL_ENTRIES, Mark, Record, RecordReader, RecordWriter, RollEntry, Run,
};
use super::superblock::{Checkpoint, Fault, Superblock};
use super::*;
use crate::error::FormatError;
use amita_types::message::{MAX_MEMBERS, MAX_PIECES, MemberSet};
use amita_types::{
    BlockIndex, BlockRange, ChunkId, ChunkIndex, ClusterId, Epoch, Generation, GroupId, GroupIndex, NodeId, PoolId,
    SnapshotId, StoreId, Version, VolumeId,
};
use proptest::prelude::*;

mod older;

fn superblock() -> Superblock {
    Superblock {
        generation: 3,
        store: StoreId(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
        cluster: ClusterId(0x1112),
        geometry: Geometry::divide(1 << 30, None).unwrap(),
        checkpoint: Checkpoint {
            area: 1,
            id: 5,
            pages: 6,
            last_sum: 0xaabb_ccdd,
            tail: 7,
            tail_sum: 0x1122_3344,
        },
        mount: 8,
        mount_start: 9,
    }
}

#[test]
fn superblocks_are_read_as_written() {
    let page = superblock().encode();
    assert_eq!(Superblock::decode(&page), Ok(superblock()));
    assert_eq!(Superblock::decode(&page[..100]), Err(Fault::Magic));
    for at in 8..PAGE_BYTES {
        let mut damaged = page.clone();
        damaged[at] ^= 0x10;
        assert_eq!(Superblock::decode(&damaged), Err(Fault::Checksum), "byte {at}");
    }
}

/// The bytes of version 1, as `docs/format.md` has them. From the first release on this test never changes: a disk of then
/// is read for ever.
#[test]
fn the_bytes_of_a_superblock_stay_where_they_are() {
    let page = superblock().encode();
    assert_eq!(&page[..8], b"AMITASTO");
    assert_eq!(page[8..16], [1, 0, 0, 0, 0, 16, 0, 0]);
    assert_eq!(page[24..32], 3u64.to_le_bytes());
    assert_eq!(page[32..40], [0x10, 0x0f, 0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 0x09]);
    assert_eq!(page[64..72], (1u64 << 30).to_le_bytes());
    assert_eq!(page[72..80], (64u64 << 10).to_le_bytes());
    assert_eq!(page[124..128], 1u32.to_le_bytes());
    assert_eq!(page[144..148], 0xaabb_ccddu32.to_le_bytes());
    assert_eq!(page[152..160], 7u64.to_le_bytes());
    assert_eq!(page[168..176], 9u64.to_le_bytes());
    assert!(page[176..PAGE_BODY_BYTES].iter().all(|&byte| byte == 0));
    assert_eq!(
        page[PAGE_BODY_BYTES..],
        amita_types::crc32c(&page[..PAGE_BODY_BYTES]).to_le_bytes()
    );
}

proptest! {
    #[test]
    fn every_size_is_divided_without_overlap(pages in 256..(1u64 << 33)) {
        match Geometry::divide(pages * PAGE_BYTES as u64, None) {
            Ok(geometry) => {
                prop_assert_eq!(geometry.check(), Ok(()));
                // At least nine tenths of all but the smallest stores hold data.
                if pages > 2048 {
                    prop_assert!(geometry.capacity_bytes() * 10 >= geometry.size_bytes * 9);
                }
            }
            Err(FormatError::TooLarge { most_bytes, .. }) => prop_assert!(most_bytes < pages * PAGE_BYTES as u64),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}

#[test]
fn the_largest_store_is_16_tib_of_data() {
    let size = (16u64 << 40) + (400 << 30);
    let geometry = Geometry::divide(size, None);
    let Err(FormatError::TooLarge { most_bytes, .. }) = geometry else {
        panic!("{geometry:?}")
    };
    let geometry = Geometry::divide(most_bytes, None).unwrap();
    assert!(u64::from(geometry.slots) > u64::from(u32::MAX) - 64);
}

fn chunk() -> ChunkId {
    ChunkId {
        volume: VolumeId(u64::MAX),
        index: ChunkIndex(0x0123_4567_89ab_cdef),
    }
}

fn fence(members: usize) -> Fence {
    Fence {
        volume: VolumeId(9),
        generation: Generation::MAX,
        owner: NodeId(7),
        group: GroupId {
            pool: PoolId(5),
            index: GroupIndex(6),
        },
        epoch: Epoch(1 << 60),
        blocks_per_chunk: 1024,
        in_sync: (0..members)
            .map(|n| StoreId(n as u128 + (1 << 100)))
            .collect::<MemberSet>(),
        syncing: MemberSet::new(),
    }
}

/// With stores that are being brought up to date.
fn syncing_fence() -> Fence {
    Fence {
        syncing: [StoreId(77), StoreId(1 << 90)].into_iter().collect(),
        ..fence(MAX_MEMBERS - 2)
    }
}

/// What brings a store up to date.
fn resync_records() -> Vec<Record> {
    let entries = |count: u16| {
        (0..count).map(|n| RollEntry {
            block: BlockIndex(n),
            version: Version(u64::from(n)),
            slot: if n % 3 == 0 { Slot::NONE } else { Slot(u32::from(n)) },
            sum: u32::from(n) * 77,
        })
    };
    vec![
        Record::Fence(syncing_fence()),
        Record::Join {
            chunk: chunk(),
            version: Version(3),
            previous: Version(9),
            base: Version(7),
            snapshot: SnapshotId(12),
        },
        Record::Mend {
            chunk: chunk(),
            version: Version(3),
            entries: entries(32).collect(),
        },
        Record::Mend {
            chunk: chunk(),
            version: Version(5),
            entries: entries(128).collect(),
        },
        Record::Whole {
            chunk: chunk(),
            version: Version(5),
            born: None,
        },
    ]
}

fn state_records() -> Vec<Record> {
    let (chunk, version) = (chunk(), Version(5));
    let entries: Vec<RollEntry> = (0..32u16)
        .map(|n| RollEntry {
            block: BlockIndex(n + 100),
            version: Version(u64::from(n)),
            slot: if n % 3 == 0 { Slot::NONE } else { Slot(u32::from(n)) },
            sum: u32::from(n) * 7,
        })
        .collect();
    vec![
        Record::Frame {
            chunk,
            version,
            above: SnapshotId(3),
            to: SnapshotId(6),
            state: Version(4),
        },
        Record::Put {
            chunk,
            version,
            to: SnapshotId(6),
            own: entries
                .iter()
                .map(|entry| entry.slot != Slot::NONE && entry.slot.0 % 2 == 0)
                .collect(),
            entries,
        },
        Record::Close {
            chunk,
            version,
            to: SnapshotId(6),
        },
        Record::Whole {
            chunk,
            version,
            born: Some(SnapshotId(2)),
        },
        Record::Mark {
            chunk,
            mark: Mark {
                above: SnapshotId(3),
                to: SnapshotId(6),
                version: Version(4),
            },
        },
    ]
}

fn records() -> Vec<Record> {
    let entries = || {
        (0..MAX_ROLL_ENTRIES as u16).map(|n| RollEntry {
            block: BlockIndex(n),
            version: Version(u64::from(n) + 3),
            slot: if n % 3 == 0 { Slot::NONE } else { Slot(u32::from(n)) },
            sum: u32::from(n) * 77,
        })
    };
    let sums = (0..MAX_PIECES as u32).map(|n| n ^ 0xdead_beef).collect();
    vec![
        Record::Write {
            chunk: chunk(),
            version: Version(u64::MAX),
            previous: Version(u64::MAX - 1),
            snapshot: SnapshotId(0x0a0b_0c0d),
            range: BlockRange::new(991, MAX_PIECES as u16),
            runs: (0..MAX_PIECES as u32)
                .map(|n| Run {
                    slot: Slot(n * 2),
                    count: 1,
                })
                .collect(),
            sums,
        },
        Record::Clear {
            chunk: chunk(),
            version: Version(4),
            previous: Version(3),
            snapshot: SnapshotId(7),
            range: BlockRange::new(0, 1024),
        },
        Record::Roll {
            chunk: chunk(),
            version: Version(50),
            previous: Version(2),
            snapshot: SnapshotId(0),
            entries: entries().collect(),
            last: true,
        },
        Record::Fence(fence(MAX_MEMBERS)),
        Record::Fence(fence(1)),
        Record::Clone {
            chunk: chunk(),
            origin: ChunkId {
                volume: VolumeId(2),
                index: chunk().index,
            },
            version: Version(51),
            entries: entries().collect(),
            last: false,
        },
        Record::Drop {
            chunk: chunk(),
            snapshot: SnapshotId(u32::MAX),
            kept_for: SnapshotId(0),
        },
    ]
}

fn put(writer: &mut RecordWriter<'_>, record: &Record) {
    let change = |chunk, version, previous, snapshot| Change {
        chunk,
        version,
        previous,
        snapshot,
    };
    match record {
        Record::Write {
            chunk,
            version,
            previous,
            snapshot,
            range,
            runs,
            sums,
        } => writer.write(&change(*chunk, *version, *previous, *snapshot), *range, runs, sums),
        Record::Clear {
            chunk,
            version,
            previous,
            snapshot,
            range,
        } => writer.clear(&change(*chunk, *version, *previous, *snapshot), *range),
        Record::Roll {
            chunk,
            version,
            previous,
            snapshot,
            entries,
            last,
        } => writer.roll(&change(*chunk, *version, *previous, *snapshot), entries, *last),
        Record::Fence(fence) => writer.fence(fence),
        Record::Clone {
            chunk,
            origin,
            version,
            entries,
            last,
        } => writer.clone(*chunk, *origin, *version, entries, *last),
        Record::Drop {
            chunk,
            snapshot,
            kept_for,
        } => writer.drop(*chunk, *snapshot, *kept_for),
        Record::Join {
            chunk,
            version,
            previous,
            base,
            snapshot,
        } => writer.join(&change(*chunk, *version, *previous, *snapshot), *base),
        Record::Mend {
            chunk,
            version,
            entries,
        } => writer.mend(*chunk, *version, entries),
        Record::Whole {
            chunk,
            version,
            born: None,
        } => writer.whole(*chunk, *version),
        Record::Whole {
            chunk,
            version,
            born: Some(born),
        } => writer.whole_born(*chunk, *version, *born),
        Record::Frame {
            chunk,
            version,
            above,
            to,
            state,
        } => writer.frame(*chunk, *version, (*above, *to), *state),
        Record::Put {
            chunk,
            version,
            to,
            entries,
            own,
        } => writer.put(*chunk, *version, *to, entries, own),
        Record::Close { chunk, version, to } => writer.close(*chunk, *version, *to),
        Record::Mark { chunk, mark } => writer.mark(*chunk, mark),
    }
}

#[test]
fn records_are_read_as_written() {
    for record in records().into_iter().chain(resync_records()).chain(state_records()) {
        let mut bytes = vec![0; RECORDS_BYTES];
        let mut writer = RecordWriter::resume(&mut bytes, 0, 0);
        put(&mut writer, &record);
        let (used, count) = writer.used();
        assert_eq!(count, 1);
        let long = matches!(
            record,
            Record::Roll { .. } | Record::Clone { .. } | Record::Mend { .. } | Record::Put { .. }
        );
        assert!(used <= MAX_RECORD_BYTES || long);
        let mut reader = RecordReader::new(&bytes[..used]);
        assert_eq!(reader.next(), Some(Ok(record)));
        assert_eq!(reader.next(), None);
        // Cut off anywhere, it is an error and no more.
        for length in 1..used {
            assert!(
                matches!(RecordReader::new(&bytes[..length]).next(), Some(Err(_))),
                "{length} of {used}"
            );
        }
    }
}

proptest! {
    /// A page whose checksum is right but whose records are anything at all.
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), which in 0..12usize, at in 0..200usize) {
        let mut page = vec![0; RECORDS_BYTES];
        let mut writer = RecordWriter::resume(&mut page, 0, 0);
        let mut all = records();
        all.extend(resync_records());
        put(&mut writer, &all[which]);
        let (used, _) = writer.used();
        let at = at % used;
        let end = (at + bytes.len()).min(used);
        page[at..end].copy_from_slice(&bytes[..end - at]);
        for records in [&bytes[..], &page[..used]] {
            let mut reader = RecordReader::new(records);
            for _ in 0..1000 {
                match reader.next() {
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => break,
                }
            }
        }
    }

    #[test]
    fn no_page_makes_the_readers_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0..5u8) {
        let mut page = vec![0; PAGE_BYTES];
        page[..bytes.len()].copy_from_slice(&bytes);
        let magic: &[u8] = [&b"ALOG"[..], b"ACKP", b"AMITASTO", b"ALEF", b"ASTA"][usize::from(kind)];
        page[..magic.len()].copy_from_slice(magic);
        seal(&mut page);
        let _ = Superblock::decode(&page);
        let _ = LogPage::decode(&page, StoreId(1));
        let sum = sealed(&page).map_or(0, |sealed| sealed.sum);
        let _ = leaf::decode(&page, StoreId(1), chunk(), 0, sum, 1000);
        let _ = states::decode(&page, StoreId(1), chunk(), sum, 1000);
        if let Ok(mut reader) = checkpoint::PageReader::new(&page, StoreId(1), 0, 0) {
            for _ in 0..1000 {
                match reader.next() {
                    Some(Ok(checkpoint::Item::Slots { bits, .. })) => drop(bits.words().count()),
                    Some(Ok(checkpoint::Item::Shared(counts))) => drop(counts.iter().count()),
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => break,
                }
            }
        }
    }
}

#[test]
fn a_log_page_must_be_this_stores_own() {
    let store = StoreId(1 << 70 | 5);
    let header = Header {
        magic: page::MAGIC,
        version: FORMAT_VERSION,
        store: page::tag(store),
        mount: 1,
        sequence: 10,
        mark: 10,
        previous_sum: 0,
        index: 0,
        pages: 1,
        used: 0,
        records: 0,
        reserved: 0,
    };
    let decodes = |header: Header| {
        let mut page = vec![0; PAGE_BYTES];
        header.put(&mut page);
        seal(&mut page);
        LogPage::decode(&page, store).is_some()
    };
    assert!(decodes(header));
    assert!(!decodes(Header { store: 6, ..header }));
    assert!(
        !decodes(Header { mark: 11, ..header }),
        "a page cannot be verified before it is written"
    );
    assert!(!decodes(Header { index: 1, ..header }));
    assert!(!decodes(Header { pages: 33, ..header }));
    assert!(!decodes(Header {
        used: u16::MAX,
        ..header
    }));
    assert!(!decodes(Header {
        version: FORMAT_VERSION + 1,
        ..header
    }));
}

#[test]
fn the_checksum_of_zeros_is_what_reads_say() {
    assert_eq!(
        amita_types::crc32c(&[0; PAGE_BYTES]),
        crate::store::blocks::ZERO_BLOCK_SUM
    );
}

fn leaves() -> checkpoint::Leaves {
    [
        (0, checkpoint::LeafPlace::At(Slot(77), 0x1234_5678)),
        (3, checkpoint::LeafPlace::Never),
        (7, checkpoint::LeafPlace::Lost),
    ]
    .into_iter()
    .collect()
}

fn chunk_item() -> checkpoint::ChunkItem {
    checkpoint::ChunkItem {
        chunk: chunk(),
        version: Version(11),
        position: 12,
        born: SnapshotId(1),
        snapshot: SnapshotId(9),
        flags: checkpoint::flag::DELETED,
        leaves: leaves(),
    }
}

fn state_item() -> checkpoint::StateItem {
    checkpoint::StateItem {
        version: Version(8),
        above: SnapshotId(1),
        to: SnapshotId(5),
        open: false,
        leaves: leaves(),
    }
}

#[test]
fn items_are_read_as_written() {
    use checkpoint::Item;
    let mut pages = vec![0; 4 * PAGE_BYTES];
    let mut writer = checkpoint::PageWriter::new(&mut pages, StoreId(2), 3, 4);
    let mut bits = [0; checkpoint::SLOTS_PER_ITEM as usize / 64];
    writer.group(&fence(2));
    writer.volume(VolumeId(9), 7, NodeId(6));
    writer.chunk(&chunk_item());
    writer.origin(chunk());
    writer.cleared(1, Version(10));
    writer.state(&state_item());
    let past = checkpoint::PastItem {
        base: Some(Version(11)),
    };
    writer.past(past);
    let open = checkpoint::StateItem {
        open: true,
        ..state_item()
    };
    writer.state(&open);
    writer.group(&syncing_fence());
    writer.slots(13, 0, &bits);
    bits[3] = 0xff00_ff00;
    // Put aside in the middle.
    let paused = writer.pause();
    let mut writer = checkpoint::PageWriter::resume(&mut pages, StoreId(2), 3, 4, paused);
    writer.slots(14, 4096, &bits);
    writer.shared(&[(Slot(4096 + 200), 3), (Slot(4096 + 201), 1)]);
    writer.slots(15, 8192, &[u64::MAX; checkpoint::SLOTS_PER_ITEM as usize / 64]);
    let filled = writer.finish();
    let mut items = Vec::new();
    for (index, page) in pages.chunks(PAGE_BYTES).take(filled.pages).enumerate() {
        let reader = checkpoint::PageReader::new(page, StoreId(2), 3, 4 + index as u64).unwrap();
        items.extend(reader.map(|item| item.expect("as it was written")));
    }
    assert_eq!(items[2], Item::Chunk(chunk_item()));
    assert_eq!(items[3], Item::Origin(chunk()));
    let version = Version(10);
    let (first, count) = (128, 128);
    assert_eq!(items[4], Item::Cleared { first, count, version });
    assert_eq!(items[5], Item::State(state_item()));
    assert_eq!(items[6], Item::Past(past));
    assert_eq!(items[7], Item::State(open));
    assert_eq!(items[8], Item::Group(syncing_fence()));
    let Item::Slots {
        position: 14,
        first: 4096,
        bits: read,
    } = items[10]
    else {
        panic!("{:?}", items[10])
    };
    assert!(read.words().eq(bits));
    let Item::Shared(counts) = &items[11] else { panic!() };
    assert!(counts.iter().eq([(Slot(4296), 3), (Slot(4297), 1)]));
    let Item::Slots { bits: read, .. } = items[12] else {
        panic!()
    };
    assert!(read.words().all(|word| word == u64::MAX));
}

#[test]
fn a_leaf_is_only_what_was_written_there() {
    let mut entries = [crate::Entry::NEVER; crate::index::LEAF_ENTRIES];
    for (n, entry) in entries.iter_mut().enumerate().step_by(3) {
        *entry = crate::Entry {
            slot: Slot(n as u32),
            sum: n as u32 * 9,
            version: Version(n as u64 + 1),
        };
    }
    let mut page = vec![0xa5; PAGE_BYTES];
    let sum = leaf::encode(&mut page, StoreId(2), chunk(), 3, 5, entries.iter().copied());
    assert_eq!(
        *leaf::decode(&page, StoreId(2), chunk(), 3, sum, 1000).unwrap(),
        entries
    );
    assert!(
        leaf::decode(&page, StoreId(2), chunk(), 2, sum, 1000).is_err(),
        "another part"
    );
    assert!(
        leaf::decode(&page, StoreId(3), chunk(), 3, sum, 1000).is_err(),
        "another store"
    );
    assert!(
        leaf::decode(&page, StoreId(2), chunk(), 3, sum ^ 1, 1000).is_err(),
        "another time"
    );
    assert!(
        leaf::decode(&page, StoreId(2), chunk(), 3, sum, 100).is_err(),
        "a slot outside"
    );
    let other = ChunkId {
        volume: VolumeId(1),
        ..chunk()
    };
    assert!(
        leaf::decode(&page, StoreId(2), other, 3, sum, 1000).is_err(),
        "another chunk"
    );
}

#[test]
fn a_place_is_bound_and_taken_out_again() {
    let place = Place::of(chunk());
    let sum = 0x1234_5678;
    assert_eq!(place.bind(BlockIndex(5), place.bind(BlockIndex(5), sum)), sum);
    let bound: std::collections::BTreeSet<u32> = (0..1024).map(|block| place.bind(BlockIndex(block), sum)).collect();
    assert_eq!(bound.len(), 1024, "no two blocks of a chunk look alike");
}

/// What version 1 writes, byte for byte (as one checksum each). From the first release on these numbers never change: a disk
/// of then is read for ever.
#[test]
fn the_bytes_of_log_checkpoint_and_leaves_stay_where_they_are() {
    let mut records_bytes = vec![0; 16 * RECORDS_BYTES];
    let mut at = 0;
    for record in records() {
        let mut writer = RecordWriter::resume(&mut records_bytes[at..], 0, 0);
        put(&mut writer, &record);
        at += writer.used().0;
    }
    let header = Header {
        magic: page::MAGIC,
        version: 1,
        store: 2,
        mount: 3,
        sequence: 5,
        mark: 4,
        previous_sum: 6,
        index: 7,
        pages: 8,
        used: 9,
        records: 10,
        reserved: 0,
    };
    let mut page = vec![0; PAGE_BYTES];
    header.put(&mut page);
    let mut checkpoint_pages = vec![0; 2 * PAGE_BYTES];
    let mut writer = checkpoint::PageWriter::new(&mut checkpoint_pages, StoreId(2), 3, 4);
    writer.group(&fence(2));
    writer.volume(VolumeId(9), 7, NodeId(6));
    writer.chunk(&chunk_item());
    writer.origin(chunk());
    writer.cleared(3, Version(10));
    writer.state(&state_item());
    writer.slots(13, 4096, &std::array::from_fn::<u64, 64, _>(|n| n as u64));
    writer.shared(&[(Slot(4096 + 65), 3)]);
    assert_eq!(writer.finish().pages, 1);
    let mut leaf_page = vec![0; PAGE_BYTES];
    let entries = (0..crate::index::LEAF_ENTRIES as u32).map(|n| crate::Entry {
        slot: Slot(n),
        sum: n * 3,
        version: Version(u64::from(n)),
    });
    leaf::encode(&mut leaf_page, StoreId(2), chunk(), 6, 5, entries);
    let bodies = [
        &records_bytes[..at],
        &page,
        &checkpoint_pages[..PAGE_BODY_BYTES],
        &leaf_page[..PAGE_BODY_BYTES],
    ];
    let sums = bodies.map(amita_types::crc32c);
    assert_eq!(sums, [1_385_941_818, 3_660_360_371, 2_318_658, 3_866_148_199]);
}

/// The same for what brings a store up to date.
#[test]
fn the_bytes_of_joins_and_mends_stay_where_they_are() {
    let mut records_bytes = vec![0; 4 * RECORDS_BYTES];
    let mut at = 0;
    for record in resync_records() {
        let mut writer = RecordWriter::resume(&mut records_bytes[at..], 0, 0);
        put(&mut writer, &record);
        at += writer.used().0;
    }
    let mut pages = vec![0; PAGE_BYTES];
    let mut writer = checkpoint::PageWriter::new(&mut pages, StoreId(2), 3, 4);
    writer.group(&syncing_fence());
    writer.past(checkpoint::PastItem {
        base: Some(Version(11)),
    });
    assert_eq!(writer.finish().pages, 1);
    let sums = [&records_bytes[..at], &pages[..PAGE_BODY_BYTES]].map(amita_types::crc32c);
    assert_eq!(sums, [2_696_389_961, 1_893_421_040]);
}

#[test]
fn the_bytes_of_what_a_state_gets_stay_where_they_are() {
    let mut bytes = vec![0; RECORDS_BYTES];
    let mut writer = RecordWriter::resume(&mut bytes, 0, 0);
    for record in state_records().iter().take(4) {
        put(&mut writer, record);
    }
    let (used, count) = writer.used();
    assert_eq!((used, count), (44 + 36 + 32 * 20 + 2 * 36, 4));
    assert_eq!(amita_types::crc32c(&bytes[..used]), 2_066_944_251);
}

#[test]
fn the_bytes_of_a_mark_stay_where_they_are() {
    let mut bytes = vec![0; RECORDS_BYTES];
    let mut writer = RecordWriter::resume(&mut bytes, 0, 0);
    let records = state_records();
    put(&mut writer, &records[4]);
    let (used, count) = writer.used();
    assert_eq!((used, count), (36, 1));
    assert_eq!(bytes[..4], [16, 0, 36, 0]);
    assert_eq!(bytes[20..28], 4_u64.to_le_bytes(), "the version");
    let bounds = [3_u32, 6].map(u32::to_le_bytes).concat();
    assert_eq!(bytes[28..36], bounds[..], "above, and up to");
}

/// Thousands of states, one after the other: of one chunk after another, over pages, with what belongs to the last of them in between.
#[test]
fn many_states_are_read_as_written() {
    use checkpoint::{Item, LeafPlace, STATE_BYTES, STATE_PART_BYTES, StateItem};
    let mut word = 7_u64;
    let mut below = |n: u64| {
        word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
        amita_types::layout::mix(word) % n
    };
    let (mut to, mut version) = (0_u32, 0_u64);
    let mut items = Vec::new();
    let mut bound = 0;
    for n in 0..3000_u32 {
        // Mostly the next snapshot and a few versions later; the largest that can be; and some that go down, as in loose chunks.
        let above = to + [0, 0, 0, 3][below(4) as usize];
        to = above + [1, 1, 1, 1, 40][below(5) as usize];
        version = match below(40) {
            0 => version.saturating_sub(5),
            1 => version + (1 << 40),
            _ => version + below(100),
        };
        let mut leaves = checkpoint::Leaves::new();
        for part in 0..crate::index::PARTS as u8 {
            if below(5) == 0 {
                let place = match below(10) {
                    0 => LeafPlace::Never,
                    1 => LeafPlace::Lost,
                    _ => LeafPlace::At(Slot(n), n * 3),
                };
                leaves.push((part, place));
            }
        }
        bound += STATE_BYTES + STATE_PART_BYTES * leaves.len() as u64;
        items.push(StateItem {
            version: Version(version),
            above: SnapshotId(above),
            to: SnapshotId(to),
            open: below(50) == 0,
            leaves,
        });
        if n == 2000 {
            (to, version) = (0, 1 << 50);
        }
    }
    let mut pages = vec![0x5a; 64 * PAGE_BYTES];
    let mut writer = checkpoint::PageWriter::new(&mut pages, StoreId(2), 3, 4);
    for (n, item) in items.iter().enumerate() {
        match n {
            2001 => writer.chunk(&chunk_item()),
            100 | 101 | 700 => writer.cleared(2, Version(9)),
            // Put aside, between two states.
            900 => {
                let paused = writer.pause();
                writer = checkpoint::PageWriter::resume(&mut pages, StoreId(2), 3, 4, paused);
            }
            _ => {}
        }
        writer.state(item);
    }
    let filled = writer.finish();
    let bytes = (filled.pages * PAGE_BYTES) as u64;
    assert!(bytes * 100 < bound * 60, "{bytes} bytes where {bound} were spoken for");
    let (mut read, mut others) = (Vec::new(), 0);
    for (index, page) in pages.chunks(PAGE_BYTES).take(filled.pages).enumerate() {
        let reader = checkpoint::PageReader::new(page, StoreId(2), 3, 4 + index as u64).unwrap();
        for item in reader {
            match item.expect("as it was written") {
                Item::State(item) => read.push(item),
                Item::Chunk(_) | Item::Cleared { .. } => others += 1,
                other => panic!("nobody wrote {other:?}"),
            }
        }
    }
    assert_eq!(others, 4);
    assert_eq!(read, items);
    // The largest state takes no more than is spoken for.
    let largest = StateItem {
        version: Version(u64::MAX),
        above: SnapshotId(7),
        to: SnapshotId(u32::MAX),
        open: true,
        leaves: (0..crate::index::PARTS as u8)
            .map(|part| (part, LeafPlace::At(Slot(9), 1)))
            .collect(),
    };
    let mut writer = checkpoint::PageWriter::new(&mut pages, StoreId(2), 3, 4);
    let space = writer.space();
    writer.state(&largest);
    let most = STATE_BYTES + STATE_PART_BYTES * crate::index::PARTS as u64;
    assert!(space - writer.space() <= most);
}

/// An item of states that is cut off anywhere, or begins with one that follows none, is no item.
#[test]
fn states_that_are_cut_off_are_refused() {
    let mut pages = vec![0; PAGE_BYTES];
    let mut writer = checkpoint::PageWriter::new(&mut pages, StoreId(2), 3, 0);
    let state = state_item();
    writer.state(&state);
    let next = checkpoint::StateItem {
        above: state.to,
        to: SnapshotId(state.to.0 + 1),
        version: Version(state.version.0 + 1),
        ..state.clone()
    };
    writer.state(&next);
    assert_eq!(writer.finish().pages, 1);
    let read = |page: &[u8]| -> Result<Vec<checkpoint::StateItem>, &'static str> {
        let mut page = page.to_vec();
        seal(&mut page);
        let items = checkpoint::PageReader::new(&page, StoreId(2), 3, 0)?;
        let items = items.collect::<Result<Vec<_>, _>>()?;
        let state = |item| match item {
            checkpoint::Item::State(item) => item,
            other => panic!("nobody wrote {other:?}"),
        };
        Ok(items.into_iter().map(state).collect())
    };
    assert_eq!(read(&pages), Ok(vec![state, next]));
    let used = u16::from_le_bytes([pages[32], pages[33]]);
    for shorter in 1..used - 4 {
        let mut cut = pages.clone();
        cut[32..34].copy_from_slice(&(used - shorter).to_le_bytes());
        cut[42..44].copy_from_slice(&(used - shorter).to_le_bytes());
        match read(&cut) {
            Ok(states) => assert_eq!(states.len(), 1, "the first one alone is whole"),
            Err(what) => assert!(what.contains("cut off") || what.contains("wrong length"), "{what}"),
        }
    }
    // The form is the first byte of the item's body.
    for (form, what) in [(0x10, "unknown form"), (0, "follows none"), (1, "follows none")] {
        let mut wrong = pages.clone();
        wrong[44] = form;
        assert!(read(&wrong).is_err_and(|error| error.contains(what)), "{form}");
    }
}
