//! Tests of the index against a plain map, and through a checkpoint.

use super::*;
use crate::format::PAGE_BYTES;
use crate::format::checkpoint::{Item, PageReader, PageWriter};
use amita_cluster::{ChunkIndex, StoreId, VolumeId};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const STORE: StoreId = StoreId(77);

fn id(index: u64) -> ChunkId {
    ChunkId {
        volume: VolumeId(3),
        index: ChunkIndex(index),
    }
}

#[derive(Clone, Debug)]
enum Step {
    Set { chunk: u64, block: u16 },
    Clear { chunk: u64, first: u16, count: u16 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..4u64, 0..1024u16).prop_map(|(chunk, block)| Step::Set { chunk, block }),
        (0..4u64, 0..130u16).prop_map(|(chunk, block)| Step::Set { chunk, block }),
        (0..4u64, 0..1024u16, 1..300u16).prop_map(|(chunk, first, count)| Step::Clear {
            chunk,
            first,
            count: count.min(1024 - first),
        }),
    ];
    proptest::collection::vec(step, 1..120)
}

/// Writes the index into pages and reads them into another one, as checkpoint and mount do.
fn through_a_checkpoint(index: &Index) -> Index {
    let mut buffer = vec![0x5a; 256 * PAGE_BYTES];
    let mut writer = PageWriter::new(&mut buffer, STORE, 9, 0);
    let space = writer.space();
    let mut bound = 0;
    for key in (0..index.len() as u32).map(ChunkKey) {
        writer.chunk(index.chunk(key).id, index.chunk(key).durable, 5);
        index.dump(key, &mut writer);
        bound += index.dump_bytes(key);
    }
    assert!(
        space - writer.space() <= bound.max(1),
        "a chunk takes no more than was said"
    );
    let filled = writer.finish();
    assert!(filled.pages as u64 <= index.checkpoint_bytes() / 3000 + 2);
    let mut other = Index::default();
    let mut chunk = None;
    for page in 0..filled.pages {
        let bytes = &buffer[page * PAGE_BYTES..][..PAGE_BYTES];
        let reader = PageReader::new(bytes, STORE, 9, page as u64).expect("as it was written");
        for item in reader {
            match item.expect("as it was written") {
                Item::Chunk {
                    chunk: id,
                    version,
                    position,
                } => {
                    assert_eq!(position, 5);
                    let key = other.touch(id);
                    other.chunk_mut(key).durable = version;
                    chunk = Some(key);
                }
                Item::Cleared { page, version } => assert!(other.load_cleared(chunk.unwrap(), page, version)),
                Item::Entries(entries) => {
                    for (block, slot, sum, version) in entries.iter() {
                        let block = BlockIndex((entries.page * PAGE_ENTRIES + block) as u16);
                        other.set(chunk.unwrap(), block, Entry { slot, sum, version });
                    }
                }
                Item::Group(_) | Item::Volume(_) => panic!("nobody wrote that"),
            }
        }
    }
    other
}

proptest! {
    #[test]
    fn it_is_a_map(steps in steps()) {
        let mut index = Index::default();
        let mut model: BTreeMap<(u64, u16), Entry> = BTreeMap::new();
        let mut used: BTreeSet<u32> = BTreeSet::new();
        for (at, step) in steps.into_iter().enumerate() {
            let version = Version(at as u64 + 1);
            match step {
                Step::Set { chunk, block } => {
                    let key = index.touch(id(chunk));
                    let entry = Entry { slot: Slot(at as u32), sum: at as u32 ^ 0xabc, version };
                    used.insert(at as u32);
                    let old = index.set(key, BlockIndex(block), entry);
                    let expected = model.insert((chunk, block), entry).filter(|old| old.has_data());
                    prop_assert_eq!(old, expected.map(|old| old.slot));
                    old.map(|old| used.remove(&old.0));
                }
                Step::Clear { chunk, first, count } => {
                    let key = index.touch(id(chunk));
                    index.clear(key, BlockRange::new(first, count), version, |slot| assert!(used.remove(&slot.0)));
                    for block in first..first + count {
                        model.insert((chunk, block), Entry::cleared(version));
                    }
                }
            }
        }
        let other = through_a_checkpoint(&index);
        for index in [&index, &other] {
            let mut slots = BTreeSet::new();
            for chunk in 0..4 {
                let Some(key) = index.find(id(chunk)) else { continue };
                for block in 0..1024 {
                    let expected = model.get(&(chunk, block)).copied().unwrap_or(Entry::NEVER);
                    prop_assert_eq!(index.entry(key, BlockIndex(block)), expected);
                }
                slots.extend(index.slots(key).map(|slot| slot.0));
            }
            prop_assert_eq!(&slots, &used);
            prop_assert_eq!(index.data_blocks() as usize, used.len());
        }
        prop_assert_eq!(index.checkpoint_bytes(), other.checkpoint_bytes());
    }
}

#[test]
fn a_cleared_page_gives_its_memory_back() {
    let mut index = Index::default();
    let key = index.touch(id(0));
    let whole = BlockRange::new(0, 1024);
    for round in 0..10u64 {
        for block in 0..1024 {
            let entry = Entry {
                slot: Slot(block),
                sum: 0,
                version: Version(2 * round + 1),
            };
            index.set(key, BlockIndex(block as u16), entry);
        }
        let full = index.checkpoint_bytes();
        let mut freed = 0;
        index.clear(key, whole, Version(2 * round + 2), |_| freed += 1);
        assert_eq!(freed, 1024);
        assert!(index.checkpoint_bytes() < full / 30);
    }
    assert_eq!(index.segments.len(), 1, "the pages are used again");
}

#[test]
fn memory_is_16_bytes_a_block_and_a_head() {
    let mut index = Index::default();
    const CHUNKS: u64 = 64;
    for chunk in 0..CHUNKS {
        let key = index.touch(id(chunk));
        for block in 0..1024u16 {
            let slot = Slot((chunk * 1024) as u32 + u32::from(block));
            index.set(
                key,
                BlockIndex(block),
                Entry {
                    slot,
                    sum: 1,
                    version: Version(1),
                },
            );
        }
    }
    let per_block = index.memory_bytes() as f64 / (CHUNKS * 1024) as f64;
    assert!((16.0..17.0).contains(&per_block), "{per_block} bytes a block");
}
