//! What a store should hold, in the simplest form that can be: the history of each chunk, and the bytes after each of
//! its changes.

use super::BLOCK;
use amita_cluster::Version;
use std::collections::{BTreeMap, VecDeque};

/// What one change does.
#[derive(Clone, Debug)]
pub enum Change {
    Write { offset: u32, bytes: Vec<u8> },
    Clear { first: u16, count: u16 },
    Roll(Vec<(u16, Option<Vec<u8>>, Version)>),
}

/// A chunk's blocks at one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    pub version: Version,
    /// Data and version of each block; no data: it reads as zeros.
    pub blocks: Vec<(Option<Vec<u8>>, Version)>,
}

impl Blocks {
    pub fn new(count: usize) -> Blocks {
        Blocks {
            version: Version::NONE,
            blocks: vec![(None, Version::NONE); count],
        }
    }

    pub fn apply(&mut self, version: Version, change: &Change) {
        self.version = version;
        match change {
            Change::Write { offset, bytes } => {
                for (at, &byte) in bytes.iter().enumerate() {
                    let at = *offset as usize + at;
                    let (data, entry) = &mut self.blocks[at / BLOCK];
                    data.get_or_insert_with(|| vec![0; BLOCK])[at % BLOCK] = byte;
                    *entry = version;
                }
            }
            Change::Clear { first, count } => {
                for block in *first..first + count {
                    self.blocks[usize::from(block)] = (None, version);
                }
            }
            Change::Roll(entries) => {
                for (block, data, entry) in entries {
                    self.blocks[usize::from(*block)] = (data.clone(), *entry);
                }
            }
        }
    }

    pub fn bytes(&self, first: u16, count: u16) -> Vec<u8> {
        let range = usize::from(first)..usize::from(first + count);
        let zeros = vec![0; BLOCK];
        self.blocks[range].iter().flat_map(|(data, _)| data.clone().unwrap_or_else(|| zeros.clone())).collect()
    }

    pub fn newest(&self, first: u16, count: u16) -> Version {
        let range = usize::from(first)..usize::from(first + count);
        self.blocks[range].iter().map(|(_, version)| *version).max().unwrap_or_default()
    }
}

/// A chunk: what is acknowledged, and what was sent since.
#[derive(Clone, Debug)]
pub struct Chunk {
    pub acknowledged: Blocks,
    pub pending: VecDeque<(Version, Version, Change)>,
}

impl Chunk {
    /// The version of the last change that was sent.
    pub fn last(&self) -> Version {
        self.pending.back().map_or(self.acknowledged.version, |(version, ..)| *version)
    }

    pub fn send(&mut self, version: Version, previous: Version, change: Change) {
        assert_eq!(previous, self.last());
        self.pending.push_back((version, previous, change));
    }

    /// The first pending change is acknowledged.
    pub fn acknowledge(&mut self, version: Version) {
        let (first, _, change) = self.pending.pop_front().expect("something was sent");
        assert_eq!(first, version, "a chunk's changes are acknowledged in their order");
        self.acknowledged.apply(version, &change);
    }

    /// Every state that may be seen now, oldest first.
    pub fn states(&self) -> Vec<Blocks> {
        let mut states = vec![self.acknowledged.clone()];
        for (version, _, change) in &self.pending {
            let mut next = states.last().expect("one at least").clone();
            next.apply(*version, change);
            states.push(next);
        }
        states
    }

    /// After a crash the store says that it is at `version`: nothing acknowledged may be missing.
    pub fn settle(&mut self, version: Version) {
        let states = self.states();
        let state = states.into_iter().find(|state| state.version == version);
        self.acknowledged = state.unwrap_or_else(|| {
            panic!(
                "the chunk is at {version}; {} is acknowledged, {} was sent",
                self.acknowledged.version,
                self.last()
            )
        });
        self.pending.clear();
    }
}

/// All chunks.
#[derive(Clone, Debug)]
pub struct Model {
    pub chunks: BTreeMap<u64, Chunk>,
    blocks: usize,
}

impl Model {
    pub fn new(blocks: usize) -> Model {
        Model {
            chunks: BTreeMap::new(),
            blocks,
        }
    }

    pub fn chunk(&mut self, index: u64) -> &mut Chunk {
        let blocks = self.blocks;
        self.chunks.entry(index).or_insert_with(|| Chunk {
            acknowledged: Blocks::new(blocks),
            pending: VecDeque::new(),
        })
    }
}
