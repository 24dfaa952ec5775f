//! Tests of the index against a plain map with whole copies for its snapshots, and through a checkpoint.

use super::*;
use crate::format::PAGE_BYTES;
use crate::format::checkpoint::{Item, PageReader, PageWriter};
use crate::format::{leaf, states};
use amita_types::{ChunkIndex, StoreId, VolumeId};
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
    Freeze { chunk: u64, by: u32 },
    Drop { chunk: u64, which: usize },
    Checkpoint,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..3u64, 0..1024u16).prop_map(|(chunk, block)| Step::Set { chunk, block }),
        6 => (0..3u64, 0..130u16).prop_map(|(chunk, block)| Step::Set { chunk, block }),
        3 => (0..3u64, 0..1024u16, 1..300u16).prop_map(|(chunk, first, count)| Step::Clear {
            chunk,
            first,
            count: count.min(1024 - first),
        }),
        3 => (0..3u64, 1..4u32).prop_map(|(chunk, by)| Step::Freeze { chunk, by }),
        2 => (0..3u64, 0..4usize).prop_map(|(chunk, which)| Step::Drop { chunk, which }),
        1 => Just(Step::Checkpoint),
    ];
    proptest::collection::vec(step, 1..150)
}

type Blocks = BTreeMap<u16, Entry>;

#[derive(Clone, Debug, Default)]
struct Model {
    now: Blocks,
    snapshot: u32,
    /// (above, to, what it was)
    states: Vec<(u32, u32, Blocks)>,
}

/// Pages of leaves, as a disk would have them.
#[derive(Default)]
struct Pages {
    next: u32,
    bytes: BTreeMap<u32, Vec<u8>>,
}

impl Pages {
    /// Every changed leaf gets a page.
    fn write(&mut self, index: &mut Index) {
        let mut dirty = Vec::new();
        for key in index.keys().collect::<Vec<_>>() {
            index.dirty_leaves(key, &mut dirty);
            for &at in &dirty {
                if index.cleared_whole(at).is_some() {
                    index.written(at, None);
                    continue;
                }
                let mut page = vec![0; PAGE_BYTES];
                let chunk = index.chunk(key).id;
                let sum = leaf::encode(&mut page, STORE, chunk, usize::from(at.part), 9, index.entries_of(at));
                let slot = Slot(1_000_000 + self.next);
                self.next += 1;
                index.written(at, Some((slot, sum)));
                index.settle(at, slot);
                self.bytes.insert(slot.0, page);
            }
        }
        self.write_states(index);
        for page in index.released_pages.drain(..) {
            assert!(self.bytes.remove(&page.0).is_some(), "a page is given back once");
        }
        assert_eq!(index.dirty(), 0);
        assert_eq!(index.pages(), self.bytes.len() as u64);
    }

    /// States that are in no page go to some, but for the newest one.
    fn write_states(&mut self, index: &mut Index) {
        for key in index.keys().collect::<Vec<_>>() {
            index.drop_stale_pages(key);
            for mut places in index.states_for_pages(key, 1) {
                while places.len() >= LEAST_OF_PAGE {
                    let mut page = vec![0x5a; PAGE_BYTES];
                    let mut filled = index.fill_state_page(key, places.clone(), STORE, &mut page);
                    filled.slot = Slot(1_000_000 + self.next);
                    self.next += 1;
                    places.start += usize::from(filled.states);
                    index.add_state_page(key, filled);
                    self.bytes.insert(filled.slot.0, page);
                }
            }
        }
    }

    /// Reads all leaves that are not in memory.
    fn read(&self, index: &mut Index) {
        for key in index.keys().collect::<Vec<_>>() {
            for at in index.all_leaves(key) {
                if let Leaf::Away(slot) = index.leaf(at) {
                    let mem = index.load_begin(at);
                    assert_eq!(index.leaf(at), Leaf::Loading);
                    let (loading, sum) = index.loading(mem);
                    assert_eq!(loading, at);
                    let chunk = index.chunk(key).id;
                    let part = usize::from(at.part);
                    let entries = leaf::decode(&self.bytes[&slot.0], STORE, chunk, part, sum, u32::MAX);
                    index.load_end(mem, Some(&entries.expect("as it was written")));
                }
            }
        }
    }
}

fn pages_say_what_is_so(index: &Index) {
    for key in index.keys() {
        let Some(history) = index.chunk(key).history() else {
            continue;
        };
        for page in history.pages().iter().filter(|page| !page.stale) {
            index.check_state_page(key, page, STORE);
        }
    }
}

/// Writes the directory into pages and reads them into another index, as checkpoint and mount do.
fn through_a_checkpoint(index: &mut Index, pages: &mut Pages) -> Index {
    pages.write(index);
    let mut buffer = vec![0x5a; 256 * PAGE_BYTES];
    let mut writer = PageWriter::new(&mut buffer, STORE, 9, 0);
    let space = writer.space();
    let mut bound = 0;
    for key in index.keys() {
        index.dump(key, 5, &mut writer);
        bound += index.dump_bytes(key);
    }
    assert!(
        space - writer.space() <= bound.max(1) + PAGE_BYTES as u64,
        "a chunk takes no more than was said"
    );
    assert!(bound <= index.checkpoint_bytes(), "what is counted is enough");
    if index.state_pages == 0 {
        assert_eq!(bound, index.checkpoint_bytes(), "what is counted is what is there");
    }
    let filled = writer.finish();
    let mut other = Index::default();
    let mut chunk = None;
    for page in 0..filled.pages {
        let bytes = &buffer[page * PAGE_BYTES..][..PAGE_BYTES];
        for item in PageReader::new(bytes, STORE, 9, page as u64).expect("as it was written") {
            match item.expect("as it was written") {
                Item::Chunk(item) => {
                    assert_eq!(item.position, 5);
                    chunk = Some((other.load_chunk(&item), SnapshotId::HEAD));
                }
                Item::State(item) => {
                    let (key, _) = chunk.unwrap();
                    assert!(other.load_state(key, &item));
                    chunk = Some((key, item.to));
                }
                Item::Older(item) => {
                    let (key, _) = chunk.unwrap();
                    assert!(other.load_older(key, &item));
                }
                Item::Mark(mark) => {
                    let (key, _) = chunk.unwrap();
                    other.set_mark(key, mark);
                }
                Item::Cleared { first, version, .. } => {
                    let (key, state) = chunk.unwrap();
                    assert!(other.load_cleared(key, state, first, version));
                }
                other => panic!("nobody wrote {other:?}"),
            }
        }
    }
    for look in other.look_state_pages() {
        let chunk = other.chunk(look.chunk).id;
        let decoded = states::decode(&pages.bytes[&look.slot.0], STORE, chunk, look.sum, u32::MAX);
        other
            .load_state_page(look, &decoded.expect("as it was written"))
            .expect("as it was written");
    }
    pages_say_what_is_so(index);
    pages_say_what_is_so(&other);
    // Half of the leaves are dropped from memory before all are read back.
    index.evict(0, 3);
    pages.read(&mut other);
    pages.read(index);
    other
}

fn same(index: &Index, models: &BTreeMap<u64, Model>) {
    for (&chunk, model) in models {
        let Some(key) = index.find(id(chunk)) else {
            assert!(model.now.is_empty());
            continue;
        };
        let check = |view: View, blocks: &Blocks| {
            for block in 0..1024 {
                let expected = blocks.get(&block).copied().unwrap_or(Entry::NEVER);
                assert_eq!(
                    index.entry(key, view, BlockIndex(block)),
                    expected,
                    "{view:?} of {chunk}, block {block}"
                );
            }
        };
        check(View::Head, &model.now);
        assert_eq!(index.chunk(key).state_count(), model.states.len());
        for (place, (_, to, blocks)) in model.states.iter().enumerate() {
            assert_eq!(index.chunk(key).seen(SnapshotId(*to)), Seen::As(View::State(place)));
            check(View::State(place), blocks);
        }
    }
}

fn used(models: &BTreeMap<u64, Model>) -> BTreeSet<u32> {
    let blocks = models
        .values()
        .flat_map(|model| std::iter::once(&model.now).chain(model.states.iter().map(|(.., blocks)| blocks)));
    let entries = blocks
        .flat_map(|blocks| blocks.values())
        .filter(|entry| entry.has_data());
    entries.map(|entry| entry.slot.0).collect()
}

proptest! {
    #[test]
    fn it_is_a_map_with_snapshots(steps in steps()) {
        let mut index = Index::default();
        let mut pages = Pages::default();
        let mut models: BTreeMap<u64, Model> = (0..3).map(|chunk| (chunk, Model::default())).collect();
        let mut held: BTreeSet<u32> = BTreeSet::new();
        for (at, step) in steps.into_iter().enumerate() {
            let version = Version(at as u64 + 1);
            let mut freed = Vec::new();
            match step {
                Step::Set { chunk, block } => {
                    let key = index.touch(id(chunk));
                    let entry = Entry { slot: Slot(at as u32), sum: at as u32 ^ 0xabc, version };
                    held.insert(at as u32);
                    freed.extend(index.set(key, BlockIndex(block), entry));
                    models.get_mut(&chunk).unwrap().now.insert(block, entry);
                    index.chunk_mut(key).durable = version;
                }
                Step::Clear { chunk, first, count } => {
                    let key = index.touch(id(chunk));
                    index.clear(key, BlockRange::new(first, count), version, |slot| freed.push(slot));
                    for block in first..first + count {
                        models.get_mut(&chunk).unwrap().now.insert(block, Entry::cleared(version));
                    }
                    index.chunk_mut(key).durable = version;
                }
                Step::Freeze { chunk, by } => {
                    let model = models.get_mut(&chunk).unwrap();
                    if let Some(key) = index.find(id(chunk)) {
                        let to = model.snapshot + by;
                        index.freeze(key, SnapshotId(to));
                        model.states.push((model.snapshot, to, model.now.clone()));
                        model.snapshot = to;
                    }
                }
                Step::Drop { chunk, which } => {
                    let model = models.get_mut(&chunk).unwrap();
                    if which < model.states.len() {
                        let key = index.find(id(chunk)).unwrap();
                        let (_, to, _) = model.states.remove(which);
                        index.drop_of(key, SnapshotId(to), &mut |slot| freed.push(slot));
                    }
                }
                Step::Checkpoint => {
                    let other = through_a_checkpoint(&mut index, &mut pages);
                    same(&other, &models);
                }
            }
            for slot in freed {
                prop_assert!(held.remove(&slot.0), "slot {} is given back twice", slot);
            }
            prop_assert_eq!(&held, &used(&models), "exactly what nothing needs is given back");
        }
        same(&index, &models);
        let other = through_a_checkpoint(&mut index, &mut pages);
        same(&other, &models);
        same(&index, &models);
        // Everything is dropped: nothing is left.
        for chunk in 0..3 {
            let Some(key) = index.find(id(chunk)) else { continue };
            for (_, to, _) in &models[&chunk].states {
                index.drop_of(key, SnapshotId(*to), &mut |slot| assert!(held.remove(&slot.0)));
            }
            index.drop_of(key, SnapshotId::HEAD, &mut |slot| assert!(held.remove(&slot.0)));
            index.forget(key);
        }
        prop_assert!(held.is_empty());
        prop_assert_eq!((index.pages(), index.dirty(), index.leaf_bytes(), index.len()), (0, 0, 0, 0));
    }
}

fn filled(chunks: u64, entry: impl Fn(u32) -> Entry) -> Index {
    let mut index = Index::default();
    for chunk in 0..chunks {
        let key = index.touch(id(chunk));
        for block in 0..1024u16 {
            let n = (chunk * 1024) as u32 + u32::from(block);
            index.set(key, BlockIndex(block), entry(n));
        }
        index.chunk_mut(key).durable = Version(1);
    }
    Pages::default().write(&mut index);
    index
}

#[test]
fn memory_is_16_bytes_a_block_at_worst_and_far_less_in_runs() {
    const CHUNKS: u64 = 1024;
    let per_block = |index: &Index| index.memory_bytes() as f64 / (CHUNKS * 1024) as f64;
    let fragmented = filled(CHUNKS, |n| Entry {
        slot: Slot(n.wrapping_mul(0x9e37_79b9) >> 2),
        sum: n,
        version: Version(u64::from(n) + 1),
    });
    // 16 for the entries, and the head of a chunk and what manages its leaves for each 1024.
    let bytes = per_block(&fragmented);
    assert!((16.0..17.5).contains(&bytes), "{bytes} bytes a block");
    // Written 32 blocks at once: one run for them, and a checksum each.
    let runs = filled(CHUNKS, |n| Entry {
        slot: Slot(n),
        sum: n,
        version: Version(u64::from(n / 32) + 1),
    });
    let bytes = per_block(&runs);
    assert!((4.0..6.5).contains(&bytes), "{bytes} bytes a block");
    let mut cleared = Index::default();
    for chunk in 0..CHUNKS {
        let key = cleared.touch(id(chunk));
        cleared.clear(key, BlockRange::new(0, 1024), Version(1), |_| {});
    }
    assert_eq!(cleared.leaf_bytes(), 0);
}

#[test]
fn what_the_disk_has_is_dropped_when_memory_is_short() {
    let mut index = filled(16, |n| Entry {
        slot: Slot(n ^ 5),
        sum: n,
        version: Version(u64::from(n) + 1),
    });
    let all = index.leaf_bytes();
    assert_eq!(all, 16 * PARTS as u64 * LEAF_BYTES);
    for _ in 0..100 {
        index.evict(all / 10, 64);
    }
    assert!(index.leaf_bytes() <= all / 10);
    // A changed leaf stays, and one of a chunk on which something is under way.
    let key = index.find(id(3)).unwrap();
    let mem = match index.leaf(index.location(key, View::Head, 0)) {
        Leaf::Here => None,
        _ => Some(index.load_begin(index.location(key, View::Head, 0))),
    };
    if let Some(mem) = mem {
        index.load_end(mem, Some(&[Entry::NEVER; LEAF_ENTRIES]));
    }
    index.clear(key, BlockRange::new(0, 128), Version(9), |_| {});
    if index.leaf(index.location(key, View::Head, 1)) != Leaf::Here {
        let mem = index.load_begin(index.location(key, View::Head, 1));
        index.load_end(mem, Some(&[Entry::NEVER; LEAF_ENTRIES]));
    }
    index.chunk_mut(key).queue.first = OpSlot(7);
    for _ in 0..100 {
        index.evict(0, 64);
    }
    assert_eq!(index.leaf(index.location(key, View::Head, 0)), Leaf::Here);
    assert_eq!(index.leaf(index.location(key, View::Head, 1)), Leaf::Here);
    let other = index.find(id(4)).unwrap();
    assert!(matches!(
        index.leaf(index.location(other, View::Head, 2)),
        Leaf::Away(_)
    ));
}
