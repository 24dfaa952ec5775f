//! What a mount makes of damage: each kind has an error that says what, where, and what to do; and no image whatever
//! makes it panic.

use crate::common::{BLOCK, Disk, Requester, Rig, Rng, VOLUME, params, version};
use amita_reactor::{Pool, Slice, Time};
use amita_store::format::checkpoint::{Item, PageReader};
use amita_store::format::page::{self, Header};
use amita_store::format::record::{Change, RecordReader, RecordWriter, Run};
use amita_store::format::superblock::{OFFSETS, Superblock};
use amita_store::format::{FORMAT_VERSION, Geometry, PAGE_BYTES, Place, Slot, seal};
use amita_store::{Config, FormatError, MountError, State};
use amita_types::message::{AnswerBody, Refusal};
use amita_types::{ChunkId, ChunkIndex, ClusterId, SnapshotId, Version};
use std::time::Duration;

const SIZE: u64 = 1 << 20;

fn geometry() -> Geometry {
    Geometry::divide(SIZE, None).unwrap()
}

fn mounted(image: Vec<u8>, config: Config) -> Rig {
    let mut rig = Rig::open(Disk::new(image, false), config, Time(1), 1, Pool::heap());
    rig.run();
    rig
}

fn refused(image: Vec<u8>) -> MountError {
    match mounted(image, Config::default()).store.state() {
        State::Refused(error) => error.clone(),
        other => panic!("the store is {other:?}"),
    }
}

/// A store that was used: (its bytes, its owner, the version of chunk 0).
fn used(writes: u64) -> (Vec<u8>, Requester, Version) {
    let mut rig = Rig::fresh(SIZE, false);
    let mut asker = Requester::new(1);
    asker.fence(&mut rig).unwrap();
    let mut rng = Rng(writes);
    let mut previous = Version::NONE;
    for n in 0..writes {
        let next = version(1, n + 1);
        let bytes = rng.bytes(BLOCK);
        asker
            .write(&mut rig, 0, rng.below(64) as u32 * BLOCK as u32, &bytes, next, previous)
            .unwrap();
        previous = next;
    }
    (rig.disk.durable, asker, previous)
}

fn reseal(image: &mut [u8], offset: u64) {
    seal(&mut image[offset as usize..][..PAGE_BYTES]);
}

#[test]
fn what_is_no_store() {
    assert_eq!(refused(vec![0; SIZE as usize]), MountError::NotAStore);
    assert_eq!(refused(Rng(1).bytes(SIZE as usize)), MountError::NotAStore);
    assert_eq!(refused(vec![]), MountError::NotAStore);
    assert_eq!(refused(vec![1; 5000]), MountError::NotAStore);
    assert!(refused(vec![0; 100]).to_string().contains("check the path"));
}

#[test]
fn damaged_superblocks() {
    let (image, mut asker, at) = used(5);
    for which in 0..2 {
        let mut one = image.clone();
        one[OFFSETS[which] as usize + 70] ^= 1;
        let mut rig = mounted(one, Config::default());
        assert_eq!(*rig.store.state(), State::Serving);
        assert!(rig.store.status().mount.superblock_damaged);
        asker.fence(&mut rig).unwrap();
        assert_eq!(asker.open(&mut rig, 0), at);
        let again = mounted(rig.disk.durable.clone(), Config::default());
        assert!(
            !again.store.status().mount.superblock_damaged,
            "the mount wrote both anew"
        );
    }
    let mut both = image;
    both[OFFSETS[0] as usize + 70] ^= 1;
    both[OFFSETS[1] as usize] ^= 1;
    let error = refused(both);
    assert!(
        matches!(&error, MountError::SuperblockDamaged { what } if what.contains("wrong checksum")),
        "{error}"
    );
}

#[test]
fn newer_formats_are_left_alone() {
    let (image, ..) = used(1);
    let mut newer = image.clone();
    newer[8] = FORMAT_VERSION as u8 + 8;
    reseal(&mut newer, OFFSETS[0]);
    let found = FORMAT_VERSION + 8;
    let known = FORMAT_VERSION;
    let before = newer.clone();
    let rig = mounted(newer, Config::default());
    assert_eq!(
        *rig.store.state(),
        State::Refused(MountError::NewerFormat { found, known })
    );
    assert_eq!(rig.disk.durable, before);
    let mut features = image;
    features[17] = 4;
    reseal(&mut features, OFFSETS[0]);
    assert_eq!(refused(features), MountError::UnknownFeatures { features: 0x400 });
}

/// Whoever meets a store of another version is told which it is, which are known, and what to do.
#[test]
fn a_store_of_another_version_says_so() {
    let (image, ..) = used(1);
    for found in [FORMAT_VERSION + 1, FORMAT_VERSION + 2, u32::MAX] {
        let mut other = image.clone();
        for offset in OFFSETS {
            other[offset as usize + 8..][..4].copy_from_slice(&found.to_le_bytes());
            reseal(&mut other, offset);
        }
        let said = refused(other).to_string();
        let wanted = format!(
            "the store has format version {found}, this program knows {FORMAT_VERSION}; run a newer version of Amita on it"
        );
        assert_eq!(said, wanted);
    }
}

#[test]
fn another_clusters_store() {
    let (image, ..) = used(1);
    let config = Config {
        cluster: Some(ClusterId(5)),
        ..Config::default()
    };
    let rig = mounted(image.clone(), config);
    let error = MountError::OtherCluster {
        store: crate::common::STORE,
        found: crate::common::CLUSTER,
        expected: ClusterId(5),
    };
    assert_eq!(*rig.store.state(), State::Refused(error));
    assert_eq!(rig.disk.durable, image, "nothing is written to it");
}

#[test]
fn a_truncated_file() {
    let (mut image, ..) = used(1);
    image.truncate(SIZE as usize - 4096);
    let error = MountError::Truncated {
        found_bytes: SIZE - 4096,
        expected_bytes: SIZE,
    };
    assert_eq!(refused(image.clone()), error);
    image.truncate(10_000);
    assert!(matches!(
        refused(image),
        MountError::Truncated {
            found_bytes: 10_000,
            ..
        }
    ));
}

#[test]
fn a_damaged_checkpoint() {
    let (image, ..) = used(100);
    let superblock = Superblock::decode(&image[..PAGE_BYTES]).unwrap();
    assert!(superblock.checkpoint.pages > 0);
    let offset = geometry().checkpoint_offsets[superblock.checkpoint.area as usize];
    let mut damaged = image;
    damaged[offset as usize + 200] ^= 1;
    assert!(matches!(refused(damaged), MountError::CheckpointDamaged { offset: at, .. } if at == offset));
}

#[test]
fn a_damaged_log_is_never_taken_for_its_end() {
    let (image, ..) = used(20);
    let superblock = Superblock::decode(&image[..PAGE_BYTES]).unwrap();
    // Any page but the last few, which nobody says were durable.
    for sequence in superblock.checkpoint.tail..superblock.checkpoint.tail + 15 {
        let offset = geometry().log_page_offset(sequence);
        let mut damaged = image.clone();
        damaged[offset as usize + 300] ^= 1;
        let error = refused(damaged);
        assert!(
            matches!(error, MountError::LogDamaged { offset: at, .. } if at == offset),
            "{error}"
        );
    }
}

/// A checkpoint is written while I/O goes on. Its map of slots has what the log says up to there, though no mark may say so yet: without that its
/// chunks would use slots that are free (D5).
#[test]
fn what_a_checkpoint_rests_on_is_never_taken_for_the_end() {
    let rests_on = |image: &[u8], superblock: &Superblock| {
        let Superblock { store, checkpoint, .. } = superblock;
        let start = geometry().checkpoint_offsets[checkpoint.area as usize] as usize;
        let pages = image[start..].chunks_exact(PAGE_BYTES).zip(0..checkpoint.pages);
        let items = pages.flat_map(|(page, index)| PageReader::new(page, *store, checkpoint.id, index).unwrap());
        let positions = items.filter_map(|item| match item.unwrap() {
            Item::Slots { position, .. } => Some(position),
            _ => None,
        });
        positions.max().unwrap_or_default()
    };
    let mut rng = Rng(5);
    let mut rig = Rig::fresh(SIZE, false);
    let mut asker = Requester::new(1);
    asker.fence(&mut rig).unwrap();
    let (mut previous, mut seen, mut refusals) = (Version::NONE, 0, 0);
    for n in 0..600 {
        let next = version(1, n + 1);
        let bytes = rng.bytes(BLOCK);
        let offset = rng.below(64) as u32 * BLOCK as u32;
        let request = asker.write_request(0, offset, &bytes, next, previous);
        rig.send(asker.link, request, Slice::copy_from(&bytes));
        previous = next;
        for _ in 0..4 {
            rig.store.end_pass(rig.now);
            rig.pump();
            if !rig.flights.is_empty() {
                rig.complete(0);
            }
        }
        let image = &rig.disk.durable;
        let superblock = Superblock::decode(&image[..PAGE_BYTES]).unwrap();
        if std::mem::replace(&mut seen, superblock.checkpoint.id) == superblock.checkpoint.id {
            continue;
        }
        for sequence in superblock.checkpoint.tail..rests_on(image, &superblock) {
            let offset = geometry().log_page_offset(sequence);
            let mut damaged = image.clone();
            damaged[offset as usize + 300] ^= 1;
            let error = refused(damaged);
            assert!(
                matches!(error, MountError::LogDamaged { offset: at, .. } if at == offset),
                "{error}"
            );
            refusals += 1;
        }
    }
    assert!(refusals > 0, "{seen} checkpoints");
}

#[test]
fn what_an_earlier_mount_accepted_stays_accepted() {
    // Mounted twice: the second mount's replay is a verified mark, although no page of the log says so.
    let (image, ..) = used(3);
    let rig = mounted(image, Config::default());
    let mut damaged = rig.disk.durable.clone();
    let last = rig.store.status().log_pages_used - 1;
    damaged[geometry().log_page_offset(last) as usize + 300] ^= 1;
    assert!(matches!(refused(damaged), MountError::LogDamaged { sequence, .. } if sequence == last));
}

#[test]
fn data_below_the_mark_is_damage_of_its_block_only() {
    let (mut image, mut asker, at) = used(30);
    let start = geometry().slots_offset as usize;
    // Rot in every slot: those that are beyond the mark are the end of the log, the others stay known.
    for slot in image[start..].chunks_mut(PAGE_BYTES) {
        slot[7] ^= 1;
    }
    let mut rig = mounted(image, Config::default());
    let report = rig.store.status().mount;
    assert!(report.ended_short && report.batches_dropped <= 2, "{report:?}");
    asker.fence(&mut rig).unwrap();
    let open = asker.open(&mut rig, 0);
    assert!(open.counter() >= at.counter() - 2);
    let blocks = rig.store.status().blocks;
    let damaged = (0..64)
        .filter(|&block| asker.read(&mut rig, 0, block, 1).is_err())
        .count();
    assert_eq!(damaged as u64, blocks, "not one of them is served");
}

#[test]
fn a_device_that_fails() {
    let (image, ..) = used(10);
    let broken = |range: std::ops::Range<u64>| {
        let mut rig = Rig::open(
            Disk::new(image.clone(), false),
            Config::default(),
            Time(1),
            1,
            Pool::heap(),
        );
        rig.broken = Some(range);
        rig.run();
        rig.store
    };
    // One superblock is enough. A page of the log may hold what was acknowledged, or the proof that something was.
    let store = broken(0..1);
    assert!(*store.state() == State::Serving && store.status().mount.superblock_damaged);
    assert!(matches!(
        broken(0..OFFSETS[1] + 1).state(),
        State::Refused(MountError::Device { .. })
    ));
    let third = geometry().log_page_offset(3);
    let behind = geometry().log_page_offset(11);
    for page in [third, behind] {
        let store = broken(page..page + 1);
        let State::Refused(MountError::Device { offset, .. }) = store.state() else {
            panic!("{:?}", store.state());
        };
        assert_eq!(*offset, page);
    }
    let mut rig = Rig::open(Disk::new(image, false), Config::default(), Time(1), 1, Pool::heap());
    rig.pump();
    while matches!(rig.flights[0], crate::common::Flight::Read { .. }) {
        rig.complete(0);
    }
    rig.complete_with(0, Err(std::io::Error::other("read-only device")));
    assert!(matches!(rig.store.state(), State::Refused(MountError::Device { .. })));
}

#[test]
fn an_index_beyond_its_limit() {
    let (image, ..) = used(10);
    let config = Config {
        index_bytes: 1000,
        ..Config::default()
    };
    let limit_bytes = 1000;
    assert_eq!(
        *mounted(image, config).store.state(),
        State::Refused(MountError::IndexTooLarge { limit_bytes })
    );
}

/// Appends a page to the log of a store, as a program with a fault could.
fn append(image: &mut [u8], write: impl FnOnce(&mut RecordWriter<'_>)) {
    let superblock = Superblock::decode(&image[..PAGE_BYTES]).unwrap();
    let mut sequence = superblock.checkpoint.tail;
    let mut sum = superblock.checkpoint.tail_sum;
    loop {
        let offset = geometry().log_page_offset(sequence) as usize;
        let bytes = &mut image[offset..offset + PAGE_BYTES];
        let next = page::LogPage::decode(bytes, crate::common::STORE).filter(|page| page.header.sequence == sequence);
        if let Some(page) = next {
            sum = page.sum;
            sequence += 1;
            continue;
        }
        bytes.fill(0);
        let mut writer = RecordWriter::resume(&mut bytes[Header::BYTES..PAGE_BYTES - 4], 0, 0);
        write(&mut writer);
        let (used, records) = writer.used();
        Header {
            magic: page::MAGIC,
            version: FORMAT_VERSION,
            store: page::tag(crate::common::STORE),
            mount: superblock.mount,
            sequence,
            mark: sequence,
            previous_sum: sum,
            index: 0,
            pages: 1,
            used: used as u16,
            records,
            reserved: 0,
        }
        .put(bytes);
        seal(bytes);
        return;
    }
}

#[test]
fn records_that_contradict_the_checkpoint() {
    let (image, _, at) = used(3);
    let chunk = ChunkId {
        volume: VOLUME,
        index: ChunkIndex(0),
    };
    let next = version(1, at.counter() + 1);
    let change = |previous| Change {
        chunk,
        version: next,
        previous,
        snapshot: SnapshotId::HEAD,
    };
    let range = amita_types::BlockRange::new(0, 1);
    let run = |slot| {
        [Run {
            slot: Slot(slot),
            count: 1,
        }]
    };
    let mut good = image.clone();
    append(&mut good, |writer| writer.clear(&change(at), range));
    assert_eq!(*mounted(good, Config::default()).store.state(), State::Serving);
    let mut gap = image.clone();
    append(&mut gap, |writer| writer.clear(&change(version(1, 99)), range));
    assert!(matches!(refused(gap), MountError::Inconsistent { what } if what.contains("7/0")));
    let mut outside = image.clone();
    append(&mut outside, |writer| {
        writer.write(&change(at), range, &run(u32::MAX - 1), &[0])
    });
    assert!(matches!(refused(outside), MountError::Inconsistent { .. }));
    // A slot that another block has already.
    let (image, _, at) = used(1);
    let change = Change {
        chunk,
        version: version(1, at.counter() + 1),
        previous: at,
        snapshot: SnapshotId::HEAD,
    };
    let log = &image[geometry().log_page_offset(1) as usize..][..PAGE_BYTES];
    let first = RecordReader::new(page::LogPage::decode(log, crate::common::STORE).unwrap().records).next();
    let Some(Ok(amita_store::format::record::Record::Write {
        runs,
        sums,
        range: at_block,
        ..
    })) = first
    else {
        panic!()
    };
    let other = amita_types::BlockRange::new(at_block.first.0 ^ 512, 1);
    // As a program would write it that has lost its free map: the checksum is right for the new place.
    let place = Place::of(chunk);
    let sums = [place.bind(other.first, place.bind(at_block.first, sums[0]))];
    let mut twice = image.clone();
    append(&mut twice, |writer| writer.write(&change, other, &runs, &sums));
    assert!(matches!(refused(twice), MountError::Inconsistent { what } if what.contains("disagree on slot")));
}

#[test]
fn sizes_that_cannot_be() {
    let mut small = params(SIZE);
    small.size_bytes = 512 << 10;
    assert!(
        matches!(amita_store::format(&small), Err(FormatError::TooSmall { least_bytes, .. }) if least_bytes == 1 << 20)
    );
    small.size_bytes = (1 << 20) + 5;
    let rounded_bytes = 1 << 20;
    assert!(
        matches!(amita_store::format(&small), Err(FormatError::NotWholeBlocks { rounded_bytes: r, .. }) if r == rounded_bytes)
    );
    small.size_bytes = 1 << 45;
    assert!(matches!(amita_store::format(&small), Err(FormatError::TooLarge { .. })));
}

#[test]
fn a_format_fills_the_whole_file() {
    let params = params(5 << 20);
    let mut written = vec![false; params.size_bytes as usize / PAGE_BYTES];
    let mut last = Vec::new();
    let mut format = amita_store::format(&params).unwrap();
    let mut bytes = 0;
    for (offset, data) in &mut format {
        bytes += data.len() as u64;
        let first = offset as usize / PAGE_BYTES;
        written[first..first + data.len() / PAGE_BYTES].fill(true);
        last.push(offset);
    }
    assert!(written.iter().all(|&page| page));
    assert_eq!(last[last.len() - 2..], OFFSETS);
    assert_eq!((format.total_bytes(), format.done_bytes()), (bytes, bytes));
}

/// Random damage: flipped bits, torn pages, pages moved to other places, with and without a fresh checksum.
#[test]
fn no_image_makes_a_mount_panic_or_serve_what_was_never_written() {
    let mut served = 0;
    let mut refusals = 0;
    let mut images = std::collections::HashMap::new();
    let pages = geometry().slots_offset as usize / PAGE_BYTES + 40;
    for seed in 0..2000 {
        let mut rng = Rng(seed);
        let writes = [3, 20, 60, 100][rng.below(4)];
        let (mut image, mut asker, _) = images.entry(writes).or_insert_with(|| used(writes)).clone();
        let fresh = rng.chance(2);
        for _ in 0..1 + rng.below(3) {
            let page = rng.below(pages) * PAGE_BYTES;
            match rng.below(4) {
                0 => {
                    for _ in 0..1 + rng.below(8) {
                        image[page + rng.below(PAGE_BYTES)] ^= 1 << rng.below(8);
                    }
                }
                1 => {
                    let length = 1 + rng.below(16);
                    let noise = rng.bytes(length);
                    let at = page + rng.below(200);
                    image[at..at + length].copy_from_slice(&noise);
                }
                2 => {
                    let from = rng.below(pages) * PAGE_BYTES;
                    image.copy_within(from..from + PAGE_BYTES, page);
                }
                _ => image[page..page + 512 * (1 + rng.below(7))].fill(0),
            }
            if fresh {
                reseal(&mut image, page as u64);
            }
        }
        let mut rig = mounted(image, Config::default());
        if *rig.store.state() != State::Serving {
            refusals += 1;
            continue;
        }
        served += 1;
        // It may be that even the fence is gone; whatever is served is whole (the harness checks the sums).
        if asker.fence(&mut rig) == Ok(AnswerBody::Fenced) {
            for block in 0..64 {
                let _ = asker.read(&mut rig, 0, block, 1);
            }
        }
    }
    println!("{served} served, {refusals} refused");
    assert!(served > 300 && refusals > 300);
}

/// The link stands while a store is mounted anew, so nothing but an answer ends the wait of who asks then.
#[test]
fn who_asks_a_store_that_is_mounted_anew_is_answered_in_its_name() {
    let mut rig = Rig::fresh(64 << 20, false);
    let mut asker = Requester::new(1);
    asker.fence(&mut rig).expect("it serves");
    rig.store.device_hangs(rig.now, Duration::from_secs(5));
    let link = asker.link;
    let (before, meanwhile) = (asker.fence_request(), asker.fence_request());
    // What was answered before, and has not left yet, leaves.
    rig.store.request(rig.now, link, before.clone(), Slice::default());
    rig.store.mount_anew();
    assert_eq!(*rig.store.state(), State::Mounting);
    rig.send(link, meanwhile.clone(), Slice::default());
    for (request, refusal) in [(before, Refusal::Poisoned), (meanwhile, Refusal::Busy)] {
        let told = rig.take(link, request.id).expect("it is answered");
        assert_eq!((told.answer.store, told.answer.result), (request.store, Err(refusal)));
    }
    rig.run();
    asker.fence(&mut rig).expect("it serves again");
}
