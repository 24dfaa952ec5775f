//! What is checked of a vault as a whole; each room has its own question.

mod checks;
mod damage;
mod ends;
mod faults;
mod folder;
mod foreign;
mod locks;
mod parts;
mod points;
mod races;

use crate::backup::{Change, Volume};
use crate::entry::Identity;
use crate::error::Error;
use crate::read::Sink;
use crate::session::Session;
use crate::slot::Cost;
use crate::store::ObjectStore;
use crate::vault::{Options, Vault};
use crate::{BLOCK_BYTES, store::memory::Memory};
use amita_testkit::Random;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// Rules that tests switch off, to see that they find it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Switches {
    /// A sweep waits for no session: pruning in one phase.
    pub sweeps_at_once: bool,
    /// A sweep does not look once more at what points need.
    pub sweeps_blindly: bool,
    /// Points that are forgotten before a sweep are gone for it.
    pub has_no_ghosts: bool,
    /// Sessions find pieces in condemned packs.
    pub builds_on_condemned: bool,
    /// What a fenced session says counts.
    pub fences_do_not_hold: bool,
    /// An object that is there is taken for the one that was to be put.
    pub takes_what_is_there_for_its_own: bool,
    /// What cannot be read is zeros.
    pub reads_what_is_missing_as_zeros: bool,
    /// The journal ends where an entry is missing.
    pub takes_a_gap_for_the_end: bool,
    /// What is to be made once is not looked for when it is made.
    pub makes_twice: bool,
}

pub(crate) const PASSPHRASE: &[u8] = b"a passphrase";
/// Argon2id's least.
pub(crate) const CHEAP: Cost = Cost {
    memory_kib: 8,
    passes: 1,
    lanes: 1,
};
const BLOCK: u64 = BLOCK_BYTES as u64;

pub(crate) fn options() -> Options {
    Options {
        pack_bytes: 20_000,
        packs_per_entry: 2,
        retain: None,
    }
}

pub(crate) fn new_vault(store: &Arc<Memory>) -> Vault {
    Vault::create(store.clone() as Arc<dyn ObjectStore>, PASSPHRASE, CHEAP, options()).expect("a vault")
}

/// A volume as it should be: its blocks that are not zeros, each by the seed of its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Image {
    pub bytes: u64,
    pub blocks: BTreeMap<u64, u64>,
}

/// Half of a block compresses.
pub(crate) fn block(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = vec![seed as u8; BLOCK_BYTES];
    bytes[..BLOCK_BYTES / 2].fill_with(|| random.below(256) as u8);
    bytes[0] |= 1;
    bytes
}

impl Image {
    pub fn new(bytes: u64) -> Image {
        Image {
            bytes,
            blocks: BTreeMap::new(),
        }
    }

    pub fn write(&mut self, block: u64, seed: u64) {
        self.blocks.insert(block, seed);
    }

    /// These blocks as a stream of changes; neighbours come together.
    pub fn changes(&self, blocks: impl IntoIterator<Item = u64>) -> Vec<Change> {
        let mut blocks: Vec<u64> = blocks.into_iter().filter(|block| block * BLOCK < self.bytes).collect();
        blocks.sort_unstable();
        blocks.dedup();
        let mut changes: Vec<Change> = Vec::new();
        for number in blocks {
            let at = number * BLOCK;
            match (self.blocks.get(&number), changes.last_mut()) {
                (Some(seed), Some(Change::Bytes { offset, bytes })) if *offset + bytes.len() as u64 == at => {
                    bytes.extend(block(*seed));
                }
                (None, Some(Change::Zeros { offset, length })) if *offset + *length == at => *length += BLOCK,
                (Some(seed), _) => changes.push(Change::Bytes {
                    offset: at,
                    bytes: block(*seed),
                }),
                (None, _) => changes.push(Change::Zeros {
                    offset: at,
                    length: BLOCK,
                }),
            }
        }
        changes
    }

    /// All that is not zeros.
    pub fn all(&self) -> Vec<Change> {
        self.changes(self.blocks.keys().copied())
    }

    pub fn resize(&mut self, bytes: u64) {
        self.bytes = bytes;
        self.blocks.retain(|block, _| block * BLOCK < bytes);
    }
}

pub(crate) fn identity(number: u8) -> Identity {
    Identity {
        cluster: [7; 16],
        volume: [number; 16],
        name: format!("disk{number}"),
    }
}

pub(crate) fn volume(number: u8, image: &Image, parent: Option<u64>) -> Volume {
    Volume {
        identity: identity(number),
        bytes: image.bytes,
        encrypted: false,
        snapshot: (3, parent.unwrap_or(0) + 1),
        parent,
        compares: false,
    }
}

pub(crate) fn stream(changes: Vec<Change>) -> impl Iterator<Item = io::Result<Change>> {
    changes.into_iter().map(Ok)
}

/// A session that makes one point of one volume, and is left open.
pub(crate) fn publish(
    session: &mut Session,
    image: &Image,
    parent: Option<u64>,
    changes: Vec<Change>,
) -> Result<u64, Error> {
    let made = session.backup(&volume(1, image, parent), &mut stream(changes))?;
    session.publish("point", 1_700_000_000, vec![made])
}

pub(crate) fn backup(
    vault: &mut Vault,
    image: &Image,
    parent: Option<u64>,
    changes: Vec<Change>,
) -> Result<u64, Error> {
    let mut session = vault.begin("backup")?;
    let point = publish(&mut session, image, parent, changes)?;
    session.end()?;
    Ok(point)
}

/// Takes what is restored, and sees that nothing is left out or comes twice.
#[derive(Debug, Default)]
pub(crate) struct Restored {
    pub end: u64,
    pub blocks: BTreeMap<u64, Vec<u8>>,
}

impl Sink for Restored {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        assert_eq!(offset, self.end, "in order, without a gap");
        for (number, block) in (offset / BLOCK..).zip(bytes.chunks(BLOCK_BYTES)) {
            if block.iter().any(|byte| *byte != 0) {
                self.blocks.insert(number, block.to_vec());
            }
        }
        self.end += bytes.len() as u64;
        Ok(())
    }

    fn zeros(&mut self, offset: u64, length: u64) -> io::Result<()> {
        assert_eq!(offset, self.end, "in order, without a gap");
        self.end += length;
        Ok(())
    }
}

pub(crate) fn restore(vault: &Vault, point: u64) -> Result<Restored, Error> {
    let mut reader = vault.reader(point, 0)?;
    let bytes = reader.volume().bytes;
    let mut restored = Restored::default();
    reader.restore(0, bytes, &mut restored)?;
    Ok(restored)
}

/// What is wrong with a point.
pub(crate) fn differs(vault: &Vault, point: u64, image: &Image) -> Result<(), String> {
    let restored = restore(vault, point).map_err(|error| format!("point {point}: {error}"))?;
    if restored.end != image.bytes {
        return Err(format!(
            "point {point} has {} bytes instead of {}",
            restored.end, image.bytes
        ));
    }
    let wanted: BTreeMap<u64, Vec<u8>> = image.blocks.iter().map(|(at, seed)| (*at, block(*seed))).collect();
    match wanted == restored.blocks {
        true => Ok(()),
        false => Err(format!("point {point} has other bytes")),
    }
}

#[track_caller]
pub(crate) fn check(vault: &Vault, point: u64, image: &Image) {
    if let Err(why) = differs(vault, point, image) {
        panic!("{why}");
    }
}
