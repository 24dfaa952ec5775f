//! Space, as an asker sees it: a store that is full says so, serves and deletes; what is deleted returns, exactly.

use crate::common::{BLOCK, Requester, Rig, Rng};
use amita_reactor::Slice;
use amita_types::message::{AnswerBody, ClearRequest, Refusal, RequestBody};
use amita_types::{BlockRange, ChunkIndex, Version};
use std::collections::BTreeMap;
use std::time::Duration;

const BLOCKS: u16 = 16;
const SIZE: u64 = 1 << 20;
/// More than fit, and few enough that the index takes a small part.
const CHUNKS: u64 = 12;

/// A store, its owner, and what was written.
struct Used {
    rig: Rig,
    asker: Requester,
    rng: Rng,
    versions: BTreeMap<u64, Version>,
    blocks: BTreeMap<(u64, u16), Vec<u8>>,
}

impl Used {
    fn new(seed: u64, volatile: bool) -> Used {
        let mut rig = Rig::fresh(SIZE, volatile);
        let mut asker = Requester::new(1);
        asker.blocks_per_chunk = BLOCKS;
        asker.fence(&mut rig).expect("a fresh store takes any owner");
        Used {
            rig,
            asker,
            rng: Rng(seed),
            versions: BTreeMap::new(),
            blocks: BTreeMap::new(),
        }
    }

    fn next(&self, chunk: u64) -> (Version, Version) {
        let previous = self.versions.get(&chunk).copied().unwrap_or_default();
        (previous.next(self.asker.generation).expect("few writes"), previous)
    }

    fn write(&mut self, chunk: u64, first: u16, count: u16) -> Result<(), Refusal> {
        let bytes = self.rng.bytes(usize::from(count) * BLOCK);
        let (version, previous) = self.next(chunk);
        let offset = u32::from(first) * BLOCK as u32;
        let done = self
            .asker
            .write(&mut self.rig, chunk, offset, &bytes, version, previous)?;
        assert_eq!(done, AnswerBody::Done);
        self.versions.insert(chunk, version);
        for (block, bytes) in (first..).zip(bytes.chunks(BLOCK)) {
            self.blocks.insert((chunk, block), bytes.to_vec());
        }
        Ok(())
    }

    fn clear(&mut self, chunk: u64, first: u16, count: u16) -> Result<(), Refusal> {
        let (version, previous) = self.next(chunk);
        let request = self.asker.request(RequestBody::Clear(ClearRequest {
            chunk: ChunkIndex(chunk),
            range: BlockRange::new(first, count),
            version,
            previous,
        }));
        let done = self.asker.ask(&mut self.rig, request, Slice::default()).answer.result?;
        assert_eq!(done, AnswerBody::Done);
        self.versions.insert(chunk, version);
        self.blocks
            .retain(|&(other, block), _| other != chunk || !(first..first + count).contains(&block));
        Ok(())
    }

    /// Writes until not even one block fits anywhere.
    fn fill(&mut self) -> Refusal {
        let mut largest = BLOCKS;
        let mut chunk = 0;
        loop {
            chunk = (chunk + 1) % CHUNKS;
            let first = self.rng.below(usize::from(BLOCKS - largest) + 1) as u16;
            if let Err(refusal) = self.write(chunk, first, largest) {
                assert_eq!(refusal, Refusal::NoSpace);
                if largest == 1 {
                    return refusal;
                }
                largest /= 2;
            }
        }
    }

    /// The log says what is verified; what was freed can be used again.
    fn mark(&mut self) {
        for _ in 0..2 {
            self.rig.advance(Duration::from_secs(1));
            self.rig.run();
        }
    }

    /// Slots that are free, or hold pages of the index, which come and go.
    fn free_blocks(&self) -> u64 {
        let status = self.rig.store.status();
        assert_eq!(
            status.blocks,
            self.blocks.len() as u64,
            "as much is used as was written"
        );
        let used = (status.capacity_bytes - status.free_bytes) / BLOCK as u64;
        assert_eq!(used, status.blocks + status.leaf_pages);
        status.capacity_bytes / BLOCK as u64 - status.blocks
    }

    /// All that was written is there, and nothing else.
    fn compare(&mut self) {
        let chunks: Vec<u64> = self.versions.keys().copied().collect();
        for chunk in chunks {
            assert_eq!(self.asker.open(&mut self.rig, chunk), self.versions[&chunk]);
            let (bytes, _) = self.asker.read(&mut self.rig, chunk, 0, BLOCKS).expect("reads go on");
            for (block, bytes) in (0..).zip(bytes.chunks(BLOCK)) {
                let zeros = vec![0; BLOCK];
                let expected = self.blocks.get(&(chunk, block)).unwrap_or(&zeros);
                assert!(bytes == expected, "block {block} of chunk {chunk}");
            }
        }
    }
}

/// A full store says so, and goes on serving and deleting; then it can be written again, time after time.
#[test]
fn full_and_full_again() {
    for seed in 0..8 {
        let mut used = Used::new(seed, seed % 2 == 1);
        let capacity = used.rig.store.status().capacity_bytes / BLOCK as u64;
        for round in 0..4 {
            used.fill();
            used.mark();
            let before = (used.versions.clone(), used.free_blocks());
            // What is refused changes nothing.
            for chunk in 0..CHUNKS {
                if let Err(refusal) = used.write(chunk, 0, BLOCKS) {
                    assert_eq!(refusal, Refusal::NoSpace);
                }
            }
            assert_eq!(used.versions, before.0, "a store that is full takes no write");
            assert!(
                before.1 < capacity / 4,
                "seed {seed}, round {round}: {} of {capacity} blocks are free, and no write is taken",
                before.1
            );
            used.compare();
            let held = used.blocks.len();
            for _ in 0..4 {
                let chunk = used.rng.below(CHUNKS as usize) as u64;
                used.clear(chunk, 0, BLOCKS).expect("there is always room to delete");
            }
            used.mark();
            let deleted = (held - used.blocks.len()) as u64;
            assert_eq!(used.free_blocks(), before.1 + deleted, "what was deleted returns");
            used.compare();
            // Most of it can be written again.
            let mut written = 0;
            while written < 2 * deleted
                && used
                    .write(written % CHUNKS, (written / CHUNKS) as u16 % BLOCKS, 1)
                    .is_ok()
            {
                written += 1;
            }
            assert!(
                written * 2 >= deleted,
                "seed {seed}: {deleted} blocks were deleted, {written} written"
            );
        }
    }
}

/// A store that is full stays usable after a restart.
#[test]
fn full_and_mounted_again() {
    for seed in 0..8 {
        let mut used = Used::new(seed, seed % 2 == 1);
        used.fill();
        let mut rng = Rng(seed);
        let image = used.rig.cut(&mut rng);
        used.rig = used.rig.reopened(image);
        used.rig.run();
        used.asker.fence(&mut used.rig).expect("the owner is known");
        used.compare();
        assert_eq!(used.write(0, 0, BLOCKS), Err(Refusal::NoSpace));
        for chunk in 0..CHUNKS / 2 {
            used.clear(chunk, 0, BLOCKS).expect("there is always room to delete");
        }
        used.mark();
        used.write(0, 0, BLOCKS).expect("there is room again");
        used.compare();
    }
}
