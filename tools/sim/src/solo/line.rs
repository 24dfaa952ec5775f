//! What one chunk was sent, in the order of its versions, and what each prefix of that leaves in it.

use crate::stamp::{SECTOR_BYTES, SECTORS_PER_BLOCK, Stamp};
use amita_types::message::Sums;
use amita_types::{BLOCK_BYTES, BlockRange, Version};

/// One write of a line.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub version: Version,
    pub first: u32,
    pub sectors: u32,
    pub stamp: Stamp,
}

impl Entry {
    pub fn blocks(&self) -> BlockRange {
        BlockRange::of_bytes(self.first * SECTOR_BYTES as u32, self.sectors * SECTOR_BYTES as u32)
    }
}

/// What one chunk was sent.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// What the blocks hold below the line: stamp of each sector, version of each block's entry.
    pub base_values: Vec<Stamp>,
    pub base_versions: Vec<Version>,
    pub base: Version,
    pub entries: Vec<Entry>,
    /// So many entries were acknowledged, or counted by a fence.
    pub acknowledged: usize,
    /// The next entry to be sent (all before it were, in this life).
    pub sent: usize,
}

impl Line {
    pub fn version_at(&self, length: usize) -> Version {
        length
            .checked_sub(1)
            .map_or(self.base, |last| self.entries[last].version)
    }

    pub fn length_of(&self, version: Version) -> Option<usize> {
        (0..=self.entries.len()).find(|length| self.version_at(*length) == version)
    }

    pub fn last(&self) -> Version {
        self.version_at(self.entries.len())
    }

    /// What a prefix leaves.
    pub fn state(&self, length: usize) -> (Vec<Stamp>, Vec<Version>) {
        let (mut values, mut versions) = (self.base_values.clone(), self.base_versions.clone());
        for entry in &self.entries[..length] {
            let first = entry.first as usize;
            values[first..first + entry.sectors as usize].fill(entry.stamp);
            for block in entry.blocks().iter() {
                versions[usize::from(block.0)] = entry.version;
            }
        }
        (values, versions)
    }

    /// Forgets what lies beyond a prefix, and takes the prefix as the base.
    pub fn cut_to(&mut self, length: usize) {
        (self.base_values, self.base_versions) = self.state(length);
        self.base = self.version_at(length);
        self.entries.clear();
        self.acknowledged = 0;
        self.sent = 0;
    }
}

/// CRC-32C of what lies in each block.
pub(super) fn piece_sums(offset_bytes: u32, bytes: &[u8]) -> Sums {
    let mut sums = Sums::new();
    let mut at = 0;
    while at < bytes.len() {
        let within = (offset_bytes as usize + at) % BLOCK_BYTES as usize;
        let end = bytes.len().min(at + BLOCK_BYTES as usize - within);
        sums.push(amita_types::crc32c(&bytes[at..end]));
        at = end;
    }
    sums
}

/// Stamps, block by block, for a message.
pub(super) fn list(stamps: &[Stamp]) -> String {
    let blocks: Vec<String> = stamps
        .chunks(SECTORS_PER_BLOCK)
        .map(|block| {
            let same = block.iter().all(|stamp| *stamp == block[0]);
            let all: Vec<String> = block.iter().map(Stamp::to_string).collect();
            if same { all[0].clone() } else { all.join(",") }
        })
        .collect();
    blocks.join(" ")
}
