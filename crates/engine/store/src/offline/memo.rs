//! The memo of a store that is looked at from outside; see [`crate::memo`].

use super::{Offline, PartEntries, ReadAt};
use crate::format::PAGE_BYTES;
use crate::index::LEAF_ENTRIES;
use crate::memo::{Head, PLACES, VOLUME, content_position, head_position};
use amita_types::{BlockIndex, ChunkId, ChunkIndex, SnapshotId};

/// A whole copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoCopy {
    /// What its first page says.
    pub head: Head,
    /// What was to be kept.
    pub content: Vec<u8>,
}

impl<R: ReadAt> Offline<R> {
    /// The newest whole copy; `None`: there is none.
    #[must_use]
    pub fn memo(&self) -> Option<MemoCopy> {
        let mut heads: Vec<(u64, Head)> = (0..PLACES)
            .filter_map(|place| {
                let (chunk, block) = head_position(place);
                let mut page = [0; PAGE_BYTES];
                self.memo_block(&self.memo_chunk(chunk)?, block, &mut page)?;
                Some((place, Head::decode(&page)?))
            })
            .collect();
        heads.sort_unstable_by_key(|(_, head)| std::cmp::Reverse(head.number));
        heads.into_iter().find_map(|(place, head)| self.memo_copy(place, head))
    }

    fn memo_copy(&self, place: u64, head: Head) -> Option<MemoCopy> {
        let blocks = head.length_bytes.div_ceil(PAGE_BYTES as u64);
        let mut content = vec![0; blocks as usize * PAGE_BYTES];
        let mut chunk: Option<(ChunkIndex, Vec<PartEntries>)> = None;
        for (at, page) in content.chunks_mut(PAGE_BYTES).enumerate() {
            let (index, block) = content_position(place, at as u64);
            if chunk.as_ref().is_none_or(|(of, _)| *of != index) {
                chunk = Some((index, self.memo_chunk(index)?));
            }
            self.memo_block(&chunk.as_ref()?.1, block, page)?;
        }
        content.truncate(head.length_bytes as usize);
        // It may be of a copy that was being written when the power failed, or be damaged.
        (amita_types::crc32c(&content) == head.sum).then_some(MemoCopy { head, content })
    }

    fn memo_chunk(&self, index: ChunkIndex) -> Option<Vec<PartEntries>> {
        self.entries(ChunkId { volume: VOLUME, index }, SnapshotId::HEAD)
    }

    fn memo_block(&self, chunk: &[PartEntries], block: BlockIndex, page: &mut [u8]) -> Option<()> {
        let part = chunk.get(usize::from(block.0) / LEAF_ENTRIES)?.as_ref().ok()?;
        let at = part.binary_search_by_key(&block, |(found, _)| *found).ok()?;
        let (_, entry) = part[at];
        if !entry.has_data() {
            return None;
        }
        self.reader.read_at(self.offset_of(entry.slot), page).ok()
    }
}
