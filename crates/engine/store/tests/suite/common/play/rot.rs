//! Bits of data rot, and blocks come to lie where others belong; nothing of it may be served.

use super::super::BLOCK;
use super::super::model::Blocks;
use super::game::{Game, Key, Step};
use super::truth::{Held, View};
use amita_types::BlockIndex;
use std::rc::Rc;

impl Game {
    pub fn rots(&self) -> bool {
        self.rules
            .weights
            .iter()
            .any(|(step, weight)| *step == Step::Rot && *weight > 0)
    }

    /// Some block that is held, of the volume itself or of a snapshot, is not what it was.
    pub fn rot(&mut self) {
        // What is not verified yet is what a crash leaves, and replay says so: another test's matter.
        self.settle_and_mark();
        let copies: Vec<Rc<Blocks>> = self
            .chunks
            .values()
            .flat_map(|c| c.held.copies().cloned().collect::<Vec<_>>())
            .collect();
        if copies.is_empty() {
            return;
        }
        let blocks = &copies[self.rng.below(copies.len())].blocks;
        let Some(data) = &blocks[self.rng.below(blocks.len())].0 else {
            return;
        };
        let Some(at) = self.place_of(data) else { return };
        let slots = self.rig.disk.view.len() / BLOCK;
        if self.rng.chance(3) {
            // Another block's content, which is whole.
            let other = (slots / 2 + self.rng.below(slots / 2)) * BLOCK;
            let bytes = self.rig.disk.view[other..other + BLOCK].to_vec();
            self.rig.disk.view[at..at + BLOCK].copy_from_slice(&bytes);
            self.misplaced.insert(at, bytes);
        } else {
            self.rig.disk.view[at + self.rng.below(BLOCK)] ^= 1 << self.rng.below(8);
        }
        let bytes = self.rig.disk.view[at..at + BLOCK].to_vec();
        self.rig.disk.durable[at..at + BLOCK].copy_from_slice(&bytes);
        self.score.rotted += 1;
        self.say(|| format!("    rot at {at}"));
    }

    /// Where on the disk a block's bytes are: all blocks are different.
    fn place_of(&self, data: &[u8]) -> Option<usize> {
        let places = (0..).step_by(BLOCK).zip(self.rig.disk.view.chunks_exact(BLOCK));
        let stray = |at| self.misplaced.get(&at).is_some_and(|stray| stray == data);
        let mut found = places.filter(|(at, place)| *place == data && !stray(*at));
        found.next().map(|(at, _)| at)
    }

    /// The store says that a block is damaged, while all is at rest: it must be.
    pub fn compare_damage(&mut self, key: Key, snapshot: u32, block: BlockIndex, candidates: &[Rc<Held>]) {
        let is_damaged = |held: &Rc<Held>| {
            held.views(snapshot).into_iter().any(|view| match view {
                View::Content(blocks) => {
                    let data = &blocks.blocks[usize::from(block.0)].0;
                    data.as_ref().is_some_and(|data| self.place_of(data).is_none())
                }
                View::Unwritten | View::Gone => false,
            })
        };
        assert!(
            candidates.iter().any(is_damaged),
            "{key:?}: block {} of snapshot {snapshot} is whole, and is called damaged",
            block.0
        );
        self.score.damaged_rightly += 1;
    }
}
