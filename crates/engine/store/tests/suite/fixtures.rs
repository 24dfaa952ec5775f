//! Stores that earlier versions of the format wrote are read for ever: one text file for each version, in
//! `tests/suite/fixtures`. Each says what must be read from it, so that the tests need nothing of the program that wrote it.
//!
//! Nothing is released yet, so that of version 1 may still be made anew. A fixture is never changed once its version has been
//! released. A new version of the format adds its own: raise
//! `FORMAT_VERSION`, let `fixtures/story.rs` do what is new in the format as well, run
//!
//! ```text
//! WRITE_FIXTURE=1 cargo test -p amita-store --test suite fixtures:: -- --ignored
//! ```
//!
//! which writes `store-vN.txt`, and add N to [`VERSIONS`]. It writes no other version's file, and none that is there.

mod story;

use crate::common::fixture::{Expected, Fixture};
use crate::common::{BLOCK, CLUSTER, Disk, Rig, Rng, STORE, sums};
use amita_reactor::{Pool, Time};
use amita_store::format::FORMAT_VERSION;
use amita_store::{Config, State};
use amita_types::message::{AnswerBody, ClearRequest, ReadRequest, RequestBody, WriteRequest};
use amita_types::{BlockRange, ChunkIndex};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The versions of the format of which there is a fixture.
const VERSIONS: [u32; 1] = [1];

fn path(format: u32) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/suite/fixtures/store-v{format}.txt"))
}

fn load(format: u32) -> Fixture {
    let path = path(format);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Fixture::parse(&text)
}

fn mount(disk: Disk, alignment: u32) -> Rig {
    let config = Config {
        cluster: Some(CLUSTER),
        ..Config::default()
    };
    let mut rig = Rig::open(disk, config, Time(1), alignment, Pool::heap());
    rig.pump();
    rig
}

#[test]
fn there_is_one_of_each_version() {
    assert_eq!(VERSIONS.to_vec(), (1..=FORMAT_VERSION).collect::<Vec<_>>());
}

#[test]
fn every_version_is_read() {
    for format in VERSIONS {
        let fixture = load(format);
        for (volatile, alignment) in [(false, 1), (true, 512), (true, 4096)] {
            let mut rig = mount(Disk::new(fixture.image.clone(), volatile), alignment);
            rig.run();
            let found = rig.store.status();
            assert_eq!((found.id, found.cluster), (STORE, CLUSTER));
            assert_eq!(found.mount.batches_dropped, fixture.dropped);
            assert_eq!(found.mount.ended_short, fixture.dropped > 0);
            assert!(!found.mount.superblock_damaged);
            fixture.check_older(&mut rig);
            fixture.check(&mut rig);
            // What the mount has changed is read as well, and nothing is dropped a second time.
            let mut again = rig.reopened(rig.disk.durable.clone());
            again.run();
            assert_eq!(again.store.status().mount.batches_dropped, 0);
            fixture.check_older(&mut again);
            fixture.check(&mut again);
        }
    }
}

/// Whatever a mount changes of an older version's store, the power may fail at any moment of it.
#[test]
fn a_first_mount_may_be_cut_off_anywhere() {
    for format in VERSIONS {
        let fixture = load(format);
        let mut cuts = 0;
        for operations in 0.. {
            let mut rig = mount(Disk::new(fixture.image.clone(), true), 512);
            for _ in 0..operations {
                if !rig.flights.is_empty() {
                    rig.complete(0);
                }
            }
            let done = *rig.store.state() == State::Serving;
            for seed in 0..8 {
                let mut again = rig.reopened(rig.cut(&mut Rng(operations * 8 + seed)));
                again.run();
                fixture.check(&mut again);
                cuts += 1;
            }
            if done {
                break;
            }
        }
        assert!(cuts > 50, "a mount reads and writes something");
    }
}

/// An older version's store goes on under this version: new owners, new writes over the old, a crash, and all of it is
/// there.
#[test]
fn every_version_goes_on() {
    for format in VERSIONS {
        let mut fixture = load(format);
        let mut rig = mount(Disk::new(fixture.image.clone(), true), 512);
        rig.run();
        let mut owners = fixture.owners.clone();
        for owner in &mut owners {
            owner.asker.generation = owner.asker.generation.next().expect("few takeovers");
            owner.node += 100;
            assert_eq!(owner.fence(&mut rig), Ok(AnswerBody::Fenced));
        }
        // Enough to fill the log more than once, so that checkpoints are taken over what was found.
        for round in 0..20u16 {
            for (place, chunk) in fixture.chunks.iter_mut().filter(|(place, _)| place.snapshot == 0) {
                let owner = owners.iter_mut().find(|owner| owner.asker.volume.0 == place.volume);
                let owner = owner.expect("each volume has one");
                let block = (round % 3) * 5;
                let next = chunk.version.next(owner.asker.generation).expect("few writes");
                if round % 4 == 3 {
                    let body = RequestBody::Clear(ClearRequest {
                        chunk: ChunkIndex(place.chunk),
                        range: BlockRange::new(block, 2),
                        version: next,
                        previous: chunk.version,
                    });
                    assert_eq!(owner.ask(&mut rig, body, &[]).0, Ok(AnswerBody::Done));
                    for block in [block, block + 1] {
                        let cleared = Expected {
                            version: next,
                            data: None,
                        };
                        chunk.blocks.insert(block, cleared);
                    }
                } else {
                    let bytes = story::pattern(place.volume, place.chunk, block.into(), next).repeat(BLOCK / 16);
                    let body = RequestBody::Write(WriteRequest {
                        chunk: ChunkIndex(place.chunk),
                        offset_bytes: u32::from(block) * BLOCK as u32,
                        length_bytes: BLOCK as u32,
                        version: next,
                        previous: chunk.version,
                        sums: sums(0, &bytes),
                    });
                    assert_eq!(owner.ask(&mut rig, body, &bytes).0, Ok(AnswerBody::Done));
                    let data = Some((amita_types::crc32c(&bytes), bytes));
                    chunk.blocks.insert(block, Expected { version: next, data });
                }
                chunk.version = next;
            }
        }
        fixture.owners = owners;
        fixture.check(&mut rig);
        assert!(rig.store.status().counters.checkpoints > 1);
        let mut again = rig.reopened(rig.cut(&mut Rng(9)));
        again.run();
        fixture.check_older(&mut again);
        fixture.check(&mut again);
    }
}

/// Bit by bit: in a fixture of an older version, too, nothing damaged is served. One bit of each data block.
#[test]
fn rot_in_an_older_store_is_not_served() {
    for format in VERSIONS {
        let fixture = load(format);
        for (place, chunk) in &fixture.chunks {
            for (block, expected) in &chunk.blocks {
                let Some((_, bytes)) = &expected.data else { continue };
                let mut disk = Disk::new(fixture.image.clone(), false);
                let slot = disk.view.chunks(BLOCK).rposition(|page| page == bytes);
                let slot = slot.expect("the data is in the file") * BLOCK;
                disk.view[slot + usize::from(*block) % BLOCK] ^= 0x10;
                let mut rig = mount(disk, 1);
                rig.run();
                if *rig.store.state() != State::Serving {
                    continue;
                }
                let mut owner = fixture
                    .owners
                    .iter()
                    .find(|o| o.asker.volume.0 == place.volume)
                    .cloned();
                let owner = owner.as_mut().expect("each volume has one");
                owner.reading = place.snapshot;
                let body = RequestBody::Read(ReadRequest {
                    chunk: ChunkIndex(place.chunk),
                    range: BlockRange::new(*block, 1),
                    least: expected.version,
                    versions: false,
                    newest: None,
                });
                let (result, payload) = owner.ask(&mut rig, body, &[]);
                assert!(result.is_err() && payload.is_empty(), "{place}/{block}");
            }
        }
    }
}

#[test]
fn version_1_has_one_of_everything() {
    let below = [4, 5, 6, 7, 8, 9, 10, 11, 12];
    has(1, &[1, 2, 4, 6, 7, 8, 9, 10, 11], &below, &[5, 6, 7]);
}

/// What docs/format.md says of a version, read by itself: the checkpoint of its fixture has these items, the log these
/// records from the tail to the last page's mark, and these beyond it.
fn has(format: u32, items_there: &[usize], below: &[u8], beyond: &[u8]) {
    let image = load(format).image;
    let u16_at = |at: usize| usize::from(u16::from_le_bytes(image[at..at + 2].try_into().unwrap()));
    let u32_at = |at: usize| u32::from_le_bytes(image[at..at + 4].try_into().unwrap());
    let u64_at = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().unwrap());
    assert_eq!((&image[..8], u32_at(8)), (&b"AMITASTO"[..], format));
    let (log, log_pages) = (u64_at(72) as usize, u64_at(80));
    let (tail, mount, mount_start) = (u64_at(152), u64_at(160), u64_at(168));
    assert!(
        mount > 1 && tail > 0 && u64_at(128) > 1,
        "mounted and checkpointed twice"
    );
    let area = u64_at(88 + 8 * u32_at(124) as usize) as usize;
    let pages_used = u64_at(136) as usize;
    assert!(pages_used > 0);

    let mut items = BTreeSet::new();
    for page in (area..).step_by(BLOCK).take(pages_used) {
        assert_eq!(&image[page..page + 4], b"ACKP");
        let mut at = page + 40;
        while at < page + 40 + u16_at(page + 32) {
            items.insert(u16_at(at));
            at += u16_at(at + 2);
        }
    }
    assert_eq!(items, items_there.iter().copied().collect());

    // Where the log stands beyond the tail: records below the last mark, and beyond it.
    let pages: BTreeMap<u64, usize> = (0..log_pages as usize)
        .map(|place| log + place * BLOCK)
        .filter(|&page| &image[page..page + 4] == b"ALOG")
        .map(|page| (u64_at(page + 24), page))
        .collect();
    let end = *pages.last_key_value().expect("there is a log").0 + 1;
    let mark = pages
        .values()
        .map(|&page| u64_at(page + 32))
        .max()
        .expect("there is a log");
    assert!(
        mount_start <= tail && tail < mark && mark + 2 < end && end > log_pages,
        "{tail} {mark} {end}"
    );
    let kinds = |from: u64, to: u64| {
        let mut kinds = BTreeSet::new();
        for (_, &page) in pages.range(from..to) {
            let mut at = page + 56;
            for _ in 0..u16_at(page + 50) {
                kinds.insert(image[at]);
                at += u16_at(at + 2);
            }
            assert_eq!(at, page + 56 + u16_at(page + 48));
        }
        kinds
    };
    assert_eq!(kinds(tail, mark), below.iter().copied().collect());
    assert_eq!(kinds(mark, end), beyond.iter().copied().collect());
    assert!(
        pages.range(tail..).any(|(_, &page)| u16_at(page + 46) > 1),
        "a batch of several pages"
    );
    assert!(
        pages.values().any(|&page| u16_at(page + 50) == 0),
        "a page without records"
    );
    let mounts: BTreeSet<u64> = pages.values().map(|&page| u64_at(page + 16)).collect();
    assert!(mounts.len() > 1, "pages of several mounts");
}

/// Only the version that is named by [`FORMAT_VERSION`] can write its own fixture; see the head of this file.
#[test]
#[ignore = "writes the fixture of the present format version, which is done once in its life"]
fn write_the_fixture_of_this_version() {
    let wanted = std::env::var_os("WRITE_FIXTURE").is_some();
    assert!(wanted, "set WRITE_FIXTURE=1 if you mean it; see the head of this file");
    let path = path(FORMAT_VERSION);
    assert!(
        !path.exists(),
        "{} is there already: it is never changed",
        path.display()
    );
    let fixture = story::tell();
    let remarks = format!(
        "# A store as format version {FORMAT_VERSION} wrote it, cut off at work, and what must be read from it: for ever, by every later\n\
         # version, unchanged. crates/engine/store/tests/suite/common/fixture.rs explains the lines, tests/suite/fixtures.rs reads them.\n\
         #\n\
         # {} bytes, mounted twice, two checkpoints; behind the second one the log goes on: records below the mark of the\n\
         # last page, and beyond it. The data of the very last batch did not reach the disk, so that the batch does not count.\n\n",
        fixture.image.len()
    );
    let text = remarks + &fixture.to_text();
    // What was written is what will be read.
    let read = Fixture::parse(&text);
    assert!(read.image == fixture.image && read.chunks == fixture.chunks);
    let mut rig = mount(Disk::new(read.image.clone(), false), 1);
    rig.run();
    read.check(&mut rig);
    std::fs::write(&path, text).expect("the fixture can be written");
}
