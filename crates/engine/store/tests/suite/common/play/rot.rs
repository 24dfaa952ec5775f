//! Bits of data rot, and blocks come to lie where others belong; nothing of it may be served.

use super::super::BLOCK;
use super::super::model::Blocks;
use super::game::{Game, Key, Step, What};
use super::truth::{Held, View};
use amita_reactor::Slice;
use amita_types::message::{RequestBody, RestoreRequest};
use amita_types::{BlockIndex, ChunkIndex, Version};
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
        let data = data.clone();
        let Some(at) = self.place_of(&data) else { return };
        self.rotted.push(data.clone());
        let slots = self.rig.disk.view.len() / BLOCK;
        if self.rng.chance(3) {
            // Another block's content, which is whole.
            let other = (slots / 2 + self.rng.below(slots / 2)) * BLOCK;
            let bytes = self.rig.disk.view[other..other + BLOCK].to_vec();
            if bytes == *data {
                return;
            }
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

    /// Somebody who has the right bytes sends them for a block that has rotted, of any view that has it; or for one that is well.
    pub fn restore(&mut self) {
        self.rotted.retain(|data| Rc::strong_count(data) > 1);
        let data = match self.rotted.len() {
            rotted @ 1.. if !self.rng.chance(5) => self.rotted[self.rng.below(rotted)].clone(),
            _ => {
                let copies = self.chunks.values().flat_map(|chunk| chunk.held.copies());
                let blocks = copies.flat_map(|blocks| blocks.blocks.iter().filter_map(|(data, _)| data.as_ref()));
                let all: Vec<&Rc<Vec<u8>>> = blocks.collect();
                if all.is_empty() {
                    return;
                }
                all[self.rng.below(all.len())].clone()
            }
        };
        let users = self.users_of(&data);
        if !users.is_empty() {
            let user = users[self.rng.below(users.len())];
            self.send_right(user, &data);
        }
    }

    /// All that has rotted and is referred to is restored, one after the other, while all is at rest; then it must be right.
    pub fn restore_all(&mut self) {
        for data in std::mem::take(&mut self.rotted) {
            let Some(&user) = self.users_of(&data).first() else {
                continue;
            };
            self.send_right(user, &data);
            self.rig.run();
            self.listen();
            assert!(
                self.place_of(&data).is_some(),
                "{user:?} was restored, and is not there"
            );
        }
    }

    /// Which blocks of which views have these bytes: chunk, snapshot, block and version. All blocks are different, but for those of clones.
    fn users_of(&self, data: &Rc<Vec<u8>>) -> Vec<(Key, u32, u16, Version)> {
        let mut users = Vec::new();
        for (&key, chunk) in &self.chunks {
            if !self.volumes.iter().any(|volume| volume.id == key.0 && volume.fenced) {
                continue;
            }
            let states = chunk.held.states.iter().map(|state| (state.to, &state.blocks));
            for (snapshot, blocks) in states.chain(chunk.held.head.as_ref().map(|head| (0, head))) {
                for (block, (own, version)) in blocks.blocks.iter().enumerate() {
                    if own.as_ref() == Some(data) {
                        users.push((key, snapshot, block as u16, *version));
                    }
                }
            }
        }
        users
    }

    fn send_right(&mut self, (key, snapshot, block, version): (Key, u32, u16, Version), data: &[u8]) {
        let body = RequestBody::Restore(RestoreRequest {
            chunk: ChunkIndex(key.1),
            block: BlockIndex(block),
            version,
            sum: amita_types::crc32c(data),
        });
        let request = self.volume(key.0).ask(snapshot, body);
        self.rig.restored.insert(data.to_vec());
        self.send(request, Slice::copy_from(data), What::Restore);
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
