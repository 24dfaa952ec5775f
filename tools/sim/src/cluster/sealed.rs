//! Encrypted volumes (S14, S15): their keys, as all gateways have them, and what every payload is held against on its way from one node to
//! another: one content for each key, place and version, and none that a host has written as it is.
//!
//! A key follows from its name, so that nobody has to keep it; where it stands in the metadata it is wrapped as by a sealed file.

use crate::random::Random;
use crate::stamp;
use amita_control::admin::DataKeys;
use amita_crypt::{Binding, DataKey, Keychain, Keys, NotNow, Provider, SealedFile, WrappedKey, WrappingKey, Zeroizing};
use amita_fabric::Message;
use amita_types::layout::mix;
use amita_types::map::{KeyName, KeyNumber, KeyRing};
use amita_types::message::{Request, RequestBody, Run};
use amita_types::{BLOCK_BYTES, BlockIndex, BlockRange, ChunkIndex, ClusterId, Version, VolumeId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Rules switched off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Careless {
    /// S14: a clone writes by its parent's key.
    pub shared_key: bool,
    /// S14: whatever was written is read by the newest key.
    pub present_key: bool,
}

/// The keys of a run.
#[derive(Clone, Debug)]
pub struct Sealed {
    seed: u64,
    careless: Careless,
    state: Arc<Mutex<State>>,
}

/// A key, by its number, a place and a version.
type Tweak = (u64, ChunkIndex, BlockIndex, Version);

/// A checksum, and the first bytes.
type Content = (u32, [u8; 16]);

#[derive(Debug, Default)]
struct State {
    /// By the image.
    rings: BTreeMap<VolumeId, KeyRing>,
    /// What was seen under each.
    seen: BTreeMap<Tweak, Content>,
    failure: Option<String>,
    looked_at: u64,
}

impl Sealed {
    /// Those of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Sealed {
        Sealed {
            seed,
            careless: Careless::default(),
            state: Arc::default(),
        }
    }

    /// For one run, in which these rules are switched off.
    #[must_use]
    pub fn begin(&self, careless: Careless) -> Sealed {
        Sealed {
            careless,
            ..Sealed::new(self.seed)
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ring of a volume that is there from the beginning.
    #[must_use]
    pub fn ring(&self, volume: VolumeId) -> KeyRing {
        let ring = KeyRing::new(KeyName {
            volume,
            image: volume,
            number: KeyNumber(1),
        });
        self.state().rings.insert(volume, ring.clone());
        ring
    }

    /// What a key is made of, and what tells it from others.
    fn number(&self, key: KeyName) -> u64 {
        let image = if self.careless.shared_key { 0 } else { key.image.0 };
        mix(mix(self.seed ^ 0x7365_616c) ^ image) ^ u64::from(key.number.0)
    }

    fn key(&self, key: KeyName) -> DataKey {
        let mut random = Random::new(self.number(key));
        DataKey::generate(&mut |bytes| bytes.fill_with(|| random.bits() as u8))
    }

    /// A message leaves a node.
    pub fn look(&self, message: &Message, payload: &[u8]) {
        if let Message::Request(request) = message
            && !payload.is_empty()
        {
            let mut state = self.state();
            let found = self.check(&mut state, request, payload);
            if let Err(why) = found {
                state.failure.get_or_insert(why);
            }
        }
    }

    fn check(&self, state: &mut State, request: &Request, payload: &[u8]) -> Result<(), String> {
        let Some(ring) = state.rings.get(&request.scope.volume).cloned() else {
            return Ok(());
        };
        let (chunk, blocks) = blocks(&request.body);
        let bytes = BLOCK_BYTES as usize;
        if payload.len() != blocks.len() * bytes {
            let blocks = blocks.len();
            return Err(format!("S15: {} bytes of {blocks} blocks: {request:?}", payload.len()));
        }
        for ((block, version), content) in blocks.into_iter().zip(payload.chunks_exact(bytes)) {
            let place = format!(
                "block {} of chunk {} of volume {}",
                block.0, chunk.0, request.scope.volume
            );
            if stamp::is_plain(content) || super::clones::is_plain(content) {
                return Err(format!("S14: {place} travels as a host has written it"));
            }
            let mut head = [0; 16];
            head.copy_from_slice(&content[..16]);
            let content = (amita_types::crc32c(content), head);
            let at = (self.number(ring.key_of(version)), chunk, block, version);
            if *state.seen.entry(at).or_insert(content) != content {
                return Err(format!("S14: {place} has two contents in version {version}"));
            }
            state.looked_at += 1;
        }
        Ok(())
    }

    /// How many blocks were looked at, and what was wrong with them.
    ///
    /// # Errors
    /// What was.
    pub fn verdict(&self) -> Result<u64, String> {
        let state = self.state();
        match &state.failure {
            Some(why) => Err(why.clone()),
            None => Ok(state.looked_at),
        }
    }

    /// Decrypts what a store holds of a volume; of one that is not encrypted it stays as it is.
    ///
    /// # Errors
    /// The store does not say what a store can say.
    pub fn open(
        &self,
        volume: VolumeId,
        place: (ChunkIndex, BlockRange),
        runs: &[Run],
        payload: &[u8],
    ) -> Result<Vec<u8>, String> {
        let ring = self.state().rings.get(&volume).cloned();
        let Some(ring) = ring else {
            return Ok(payload.to_vec());
        };
        let mut plain = vec![0; payload.len()];
        let keys = self.keychain(&ring).map_err(|why| format!("{why:?}"))?;
        keys.open(place, runs, payload, &mut plain)
            .map_err(|why| why.to_string())?;
        Ok(plain)
    }
}

/// The blocks that a request brings, and the versions of their entries.
fn blocks(body: &RequestBody) -> (ChunkIndex, Vec<(BlockIndex, Version)>) {
    match body {
        RequestBody::Write(write) => {
            let range = BlockRange::of_bytes(write.offset_bytes, write.length_bytes);
            let blocks = range.iter().map(|block| (block, write.version));
            (write.chunk, blocks.collect())
        }
        RequestBody::Roll(roll) => {
            let entries = roll.entries.iter().filter(|entry| entry.sum.is_some());
            (roll.chunk, entries.map(|entry| (entry.block, entry.version)).collect())
        }
        RequestBody::Mend(mend) => {
            let entries = mend.entries.iter().filter(|entry| entry.sum.is_some());
            (mend.chunk, entries.map(|entry| (entry.block, entry.version)).collect())
        }
        RequestBody::Put(put) => {
            let entries = put.entries.iter().enumerate();
            let with_data = entries.filter(|(at, _)| put.with_data & 1 << at != 0);
            let blocks = with_data.map(|(_, entry)| (entry.block, entry.version));
            (put.chunk, blocks.collect())
        }
        RequestBody::Restore(restore) => (restore.chunk, vec![(restore.block, restore.version)]),
        _ => (ChunkIndex(0), Vec::new()),
    }
}

impl Keys for Sealed {
    fn keychain(&self, ring: &KeyRing) -> Result<Arc<Keychain>, NotNow> {
        let newest = ring.newest().key;
        self.state().rings.insert(newest.image, ring.clone());
        let names = ring.eras().iter().map(|era| era.key);
        let made = |name| match self.careless.present_key {
            true => (name, self.key(newest)),
            false => (name, self.key(name)),
        };
        let keychain = Keychain::new(ring, names.map(made).collect());
        keychain.map(Arc::new).map_err(|why| NotNow::Missing(why.to_string()))
    }
}

impl DataKeys for Sealed {
    fn make(&self, _: ClusterId, _: Option<&WrappingKey>, binding: &Binding) -> Result<WrappedKey, String> {
        let mut kek = Zeroizing::new([0; 32]);
        kek[..8].copy_from_slice(&self.seed.to_le_bytes());
        let mut file = SealedFile::new(vec![kek]).ok_or("there is a key")?;
        let mut random = Random::new(self.number(binding.key)).fork(1);
        let wrapped = file
            .wrap(binding, &self.key(binding.key), &mut |bytes| {
                bytes.fill_with(|| random.bits() as u8);
            })
            .map_err(|why| why.to_string())?;
        wrapped.done().ok_or_else(|| "nobody is asked".to_owned())
    }
}
