//! Leaves that the mount needed and could not read: the checkpoint still says where they are.

use super::super::{LeafFault, Problem, ReadAt, checkpoint_items};
use super::Checker;
use crate::format::Slot;
use crate::format::checkpoint::{Item, LeafPlace, Leaves};
use amita_types::{ChunkId, SnapshotId};
use rustc_hash::FxHashMap;

/// Pages of one part of a chunk that are wrong: of which state the checkpoint says that it is, where, and why.
type Wrong = Vec<(SnapshotId, Slot, LeafFault)>;

/// The one that a state, or the chunk itself, had lost. Since the checkpoint a leaf may only have gone from the chunk to its newest state,
/// and from a state to an older one.
fn lost_by(wrong: &Wrong, snapshot: SnapshotId) -> Option<&(SnapshotId, Slot, LeafFault)> {
    // The chunk itself comes behind all its states.
    let order = |snapshot: SnapshotId| match snapshot {
        SnapshotId::HEAD => SnapshotId(u32::MAX),
        state => state,
    };
    let newer = wrong.iter().filter(|(of, ..)| order(*of) >= order(snapshot));
    newer.min_by_key(|(of, ..)| order(*of))
}

impl<R: ReadAt> Checker<'_, R> {
    /// Says of leaves that are lost where they are and what is wrong with them, as far as the checkpoint on the disk knows.
    pub(super) fn find_lost(&mut self) {
        let mut lost: FxHashMap<(ChunkId, u8), Wrong> = FxHashMap::default();
        for problem in &self.report.problems {
            if let Problem::Leaf {
                chunk,
                part,
                fault: LeafFault::Lost,
                ..
            } = problem
            {
                lost.insert((*chunk, *part), Wrong::new());
            }
        }
        if lost.is_empty() {
            return;
        }
        let offline = self.offline;
        let mut chunk = None;
        let mut look = |chunk: Option<ChunkId>, of: SnapshotId, leaves: &Leaves| {
            let Some(chunk) = chunk else { return };
            for &(part, place) in leaves {
                if let (Some(wrong), LeafPlace::At(slot, sum)) = (lost.get_mut(&(chunk, part)), place) {
                    let fault = offline.leaf_page(slot, sum, chunk, usize::from(part)).err();
                    wrong.extend(fault.map(|fault| (of, slot, fault)));
                }
            }
        };
        checkpoint_items(&offline.reader, &offline.superblock(), &mut |_, item| match item {
            Ok(Item::Chunk(item)) => {
                chunk = Some(item.chunk);
                look(chunk, SnapshotId::HEAD, &item.leaves);
            }
            Ok(Item::State(item)) => look(chunk, item.to, &item.leaves),
            Ok(Item::Older(item)) => {
                let Some(id) = chunk else { return };
                for (state, _) in offline.states_page(item.slot, item.sum, id) {
                    look(chunk, state.to, &state.leaves);
                }
            }
            _ => {}
        });
        for problem in &mut self.report.problems {
            if let Problem::Leaf {
                chunk,
                snapshot,
                part,
                slot,
                offset,
                fault: fault @ LeafFault::Lost,
            } = problem
                && let Some((_, found, why)) = lost.get(&(*chunk, *part)).and_then(|wrong| lost_by(wrong, *snapshot))
            {
                *slot = Some(*found);
                *offset = Some(offline.slot_offset(*found));
                *fault = why.clone();
            }
        }
    }
}
