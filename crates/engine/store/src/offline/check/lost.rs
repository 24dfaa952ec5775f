//! Leaves that the mount needed and could not read: the checkpoint still says where they are.

use super::super::{LeafFault, Problem, ReadAt, checkpoint_items};
use super::Checker;
use crate::format::Slot;
use crate::format::checkpoint::{Item, LeafPlace, Leaves};
use amita_types::ChunkId;
use rustc_hash::FxHashMap;

impl<R: ReadAt> Checker<'_, R> {
    /// Says of leaves that are lost where they are and what is wrong with them, as far as the checkpoint on the disk knows.
    pub(super) fn find_lost(&mut self) {
        let mut lost: FxHashMap<(ChunkId, u8), Option<(Slot, LeafFault)>> = FxHashMap::default();
        for problem in &self.report.problems {
            if let Problem::Leaf {
                chunk,
                part,
                fault: LeafFault::Lost,
                ..
            } = problem
            {
                lost.insert((*chunk, *part), None);
            }
        }
        if lost.is_empty() {
            return;
        }
        let offline = self.offline;
        let mut chunk = None;
        let mut look = |chunk: Option<ChunkId>, leaves: &Leaves| {
            let Some(chunk) = chunk else { return };
            for &(part, place) in leaves {
                if let (Some(found @ None), LeafPlace::At(slot, sum)) = (lost.get_mut(&(chunk, part)), place) {
                    let fault = offline.leaf_page(slot, sum, chunk, usize::from(part)).err();
                    *found = fault.map(|fault| (slot, fault));
                }
            }
        };
        checkpoint_items(&offline.reader, &offline.superblock(), &mut |_, item| match item {
            Ok(Item::Chunk(item)) => {
                chunk = Some(item.chunk);
                look(chunk, &item.leaves);
            }
            Ok(Item::State(item)) => look(chunk, &item.leaves),
            _ => {}
        });
        for problem in &mut self.report.problems {
            if let Problem::Leaf {
                chunk,
                part,
                slot,
                offset,
                fault: fault @ LeafFault::Lost,
                ..
            } = problem
                && let Some(Some((found, why))) = lost.get(&(*chunk, *part))
            {
                *slot = Some(*found);
                *offset = Some(offline.slot_offset(*found));
                *fault = why.clone();
            }
        }
    }
}
