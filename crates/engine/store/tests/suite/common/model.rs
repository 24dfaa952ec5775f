//! What a store should hold, in the simplest form that can be: the history of each chunk, and the bytes after each of
//! its changes.

use super::BLOCK;
use amita_types::{BlockIndex, Version};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

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
    pub blocks: Vec<(Option<Rc<Vec<u8>>>, Version)>,
}

impl Blocks {
    pub fn new(count: usize) -> Blocks {
        Blocks {
            version: Version::NONE,
            blocks: vec![(None, Version::NONE); count],
        }
    }

    /// What its blocks hold, but for zeros.
    pub fn data(&self) -> impl Iterator<Item = &Rc<Vec<u8>>> {
        self.blocks.iter().filter_map(|(data, _)| data.as_ref())
    }

    pub fn apply(&mut self, version: Version, change: &Change) {
        self.version = version;
        match change {
            Change::Write { offset, bytes } => {
                let (mut at, mut rest) = (*offset as usize, &bytes[..]);
                while !rest.is_empty() {
                    let (now, later) = rest.split_at(rest.len().min(BLOCK - at % BLOCK));
                    let (data, entry) = &mut self.blocks[at / BLOCK];
                    let data = Rc::make_mut(data.get_or_insert_with(|| Rc::new(vec![0; BLOCK])));
                    data[at % BLOCK..at % BLOCK + now.len()].copy_from_slice(now);
                    *entry = version;
                    at += now.len();
                    rest = later;
                }
            }
            Change::Clear { first, count } => {
                for block in *first..first + count {
                    self.blocks[usize::from(block)] = (None, version);
                }
            }
            Change::Roll(entries) => {
                for (block, data, entry) in entries {
                    self.blocks[usize::from(*block)] = (data.clone().map(Rc::new), *entry);
                }
            }
        }
    }

    pub fn bytes(&self, first: u16, count: u16) -> Vec<u8> {
        let range = usize::from(first)..usize::from(first + count);
        let mut bytes = Vec::with_capacity(range.len() * BLOCK);
        for (data, _) in &self.blocks[range] {
            match data {
                Some(data) => bytes.extend_from_slice(data),
                None => bytes.resize(bytes.len() + BLOCK, 0),
            }
        }
        bytes
    }

    /// Of each block that was ever written: its version and its checksum; none: it was cleared.
    pub fn entries(&self) -> Vec<(BlockIndex, Version, Option<u32>)> {
        let blocks = self.blocks.iter().enumerate();
        let written = blocks.filter(|(_, (_, version))| *version > Version::NONE);
        written
            .map(|(block, (data, version))| {
                let sum = data.as_ref().map(|data| amita_types::crc32c(data));
                (BlockIndex(block as u16), *version, sum)
            })
            .collect()
    }

    pub fn newest(&self, first: u16, count: u16) -> Version {
        let range = usize::from(first)..usize::from(first + count);
        self.blocks[range]
            .iter()
            .map(|(_, version)| *version)
            .max()
            .unwrap_or_default()
    }
}

/// A chunk: what is acknowledged, and what was sent since.
#[derive(Clone, Debug)]
pub struct Chunk {
    pub acknowledged: Blocks,
    pub pending: VecDeque<(Version, Version, Change)>,
    /// The last states that were acknowledged, the present one last, and how many there were in all.
    pub seen: VecDeque<Blocks>,
    pub acknowledgements: usize,
}

const KEPT_STATES: usize = 64;

impl Chunk {
    /// The version of the last change that was sent.
    pub fn last(&self) -> Version {
        self.pending
            .back()
            .map_or(self.acknowledged.version, |(version, ..)| *version)
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
        self.remember();
    }

    fn remember(&mut self) {
        self.seen.push_back(self.acknowledged.clone());
        self.acknowledgements += 1;
        if self.seen.len() > KEPT_STATES {
            self.seen.pop_front();
        }
    }

    /// What a read may see that began after so many acknowledgements; `None`: too long ago.
    pub fn since(&self, acknowledgements: usize) -> Option<impl Iterator<Item = &Blocks>> {
        let back = self.acknowledgements - acknowledgements + 1;
        let first = self.seen.len().checked_sub(back)?;
        Some(self.seen.iter().skip(first))
    }

    /// A change was refused after it had been accepted: it and all that follow it are dropped.
    pub fn drop_from(&mut self, version: Version) {
        if let Some(at) = self.pending.iter().position(|(pending, ..)| *pending == version) {
            self.pending.truncate(at);
        }
    }

    /// The last change that was sent was refused.
    pub fn take_back(&mut self) {
        self.pending.pop_back().expect("something was sent");
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

    /// What is to be seen at `version`; `None`: nothing acknowledged may be missing, and nothing else be there.
    pub fn state(&self, version: Version) -> Option<Blocks> {
        self.states().into_iter().find(|state| state.version == version)
    }

    /// What was acknowledged when the chunk was at `version`.
    pub fn was(&self, version: Version) -> Option<&Blocks> {
        self.seen.iter().find(|state| state.version == version)
    }

    /// After a crash the store says that it is at `version`: nothing acknowledged may be missing.
    pub fn settle(&mut self, version: Version) {
        self.acknowledged = self.state(version).unwrap_or_else(|| {
            panic!(
                "the chunk is at {version}; {} is acknowledged, {} was sent",
                self.acknowledged.version,
                self.last()
            )
        });
        self.pending.clear();
        self.remember();
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
            seen: VecDeque::from([Blocks::new(blocks)]),
            acknowledgements: 0,
        })
    }
}
