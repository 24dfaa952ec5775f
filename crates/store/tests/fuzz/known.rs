//! Faults of the store that are found and not mended yet: images that meet one are left out, so that the targets can find
//! others. Their inputs are the `open` lines of `regressions.txt`. Whoever mends one deletes it here and takes the word
//! `open` from its line.

use crate::common::{BLOCK, STORE};
use amita_store::format::checkpoint::{self, Item, PageReader};
use amita_store::format::page::LogPage;
use amita_store::format::record::{Fence, Record, RecordReader};
use amita_store::format::superblock::{OFFSETS, Superblock};

/// Does the image meet a fault that is known? Says which.
pub fn known(image: &[u8]) -> Option<&'static str> {
    if superblocks(image).any(|found| is_near_the_end(&found)) {
        return Some(
            "a superblock's counters are so large that the next step overflows: Superblock::decode takes them",
        );
    }
    if fences(image).any(|fence| !is_possible(&fence)) {
        return Some("a fence's blocks of a chunk are no power of two up to 1024: get_fence takes them");
    }
    None
}

fn superblocks(image: &[u8]) -> impl Iterator<Item = Superblock> {
    let pages = OFFSETS
        .iter()
        .filter_map(|&at| image.get(at as usize..at as usize + BLOCK));
    pages.filter_map(|page| Superblock::decode(page).ok())
}

fn is_near_the_end(found: &Superblock) -> bool {
    let checkpoint = found.checkpoint;
    [
        found.generation,
        found.mount,
        checkpoint.id,
        checkpoint.tail,
        found.mount_start,
    ]
    .iter()
    .any(|&number| number > u64::MAX - (1 << 32))
}

fn is_possible(fence: &Fence) -> bool {
    fence.blocks_per_chunk.is_power_of_two() && u32::from(fence.blocks_per_chunk) <= amita_cluster::MAX_BLOCKS_PER_CHUNK
}

/// The fences of all pages that a mount might read.
fn fences(image: &[u8]) -> impl Iterator<Item = Fence> {
    image.chunks_exact(BLOCK).flat_map(|page| {
        let log = LogPage::decode(page, STORE)
            .map(|found| found.records)
            .unwrap_or_default();
        let records = RecordReader::new(log).map_while(Result::ok);
        let logged = records.filter_map(|record| match record {
            Record::Fence(fence) => Some(fence),
            _ => None,
        });
        let header = checkpoint::Header::get(page).unwrap_or_default();
        let reader = PageReader::new(page, STORE, header.checkpoint, header.index);
        let items = reader.into_iter().flatten().map_while(Result::ok);
        let kept = items.filter_map(|item| match item {
            Item::Group(fence) => Some(fence),
            _ => None,
        });
        logged.chain(kept).collect::<Vec<_>>()
    })
}
