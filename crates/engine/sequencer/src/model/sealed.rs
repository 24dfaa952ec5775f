//! Encrypted volumes (S14, S15): their keys, and what every payload is held against on its way to a store: one content for each key, place
//! and version, and none that a client has written as it is.

use super::client::plain;
use super::world::{World, volume_id};
use amita_crypt::{DataKey, Keychain, Keys, NotNow};
use amita_testkit::Random;
use amita_types::map::{KeyName, KeyNumber, KeyRing};
use amita_types::message::{Request, RequestBody};
use amita_types::{BLOCK_BYTES, BlockIndex, BlockRange, ChunkIndex, Version, VolumeId};
use std::collections::BTreeMap;
use std::sync::Arc;

type Tweak = (KeyName, ChunkIndex, BlockIndex, Version);

/// A checksum, and the first bytes.
type Content = (u32, [u8; 16]);

/// What was seen under each key, place and version.
#[derive(Default)]
pub struct Seen(BTreeMap<Tweak, Content>);

/// A gateway has them at once.
#[derive(Debug)]
pub struct Given(pub Arc<Keychain>);

impl Keys for Given {
    fn keychain(&self, ring: &KeyRing) -> Result<Arc<Keychain>, NotNow> {
        assert_eq!(ring, self.0.ring(), "nothing changes it here");
        Ok(self.0.clone())
    }
}

/// The volume's keys; drawn apart, so that a seed plays the same whether its volumes are encrypted or not.
pub fn keychain(seed: u64, volume: usize) -> Arc<Keychain> {
    let id = volume_id(volume);
    let name = KeyName {
        volume: id,
        image: id,
        number: KeyNumber(1),
    };
    let mut random = Random::new(seed ^ 0x6b65_7973 ^ (volume as u64) << 32);
    let mut fill = |bytes: &mut [u8]| bytes.fill_with(|| random.below(256) as u8);
    let key = DataKey::generate(&mut fill);
    let ring = KeyRing::new(name);
    Arc::new(Keychain::new(&ring, vec![(name, key)]).expect("all keys are there"))
}

/// The blocks that a request brings, each with its place in the payload and the version of its entry.
fn blocks(body: &RequestBody) -> (ChunkIndex, Vec<(BlockIndex, Version)>) {
    match body {
        RequestBody::Write(write) => {
            let range = BlockRange::of_bytes(write.offset_bytes, write.length_bytes);
            (write.chunk, range.iter().map(|block| (block, write.version)).collect())
        }
        RequestBody::Roll(roll) => {
            let entries = roll.entries.iter().filter(|entry| entry.sum.is_some());
            (roll.chunk, entries.map(|entry| (entry.block, entry.version)).collect())
        }
        RequestBody::Mend(mend) => {
            let entries = mend.entries.iter().filter(|entry| entry.sum.is_some());
            (mend.chunk, entries.map(|entry| (entry.block, entry.version)).collect())
        }
        _ => (ChunkIndex(0), Vec::new()),
    }
}

impl World {
    pub(super) fn keys_of(&self, volume: VolumeId) -> Option<&Arc<Keychain>> {
        self.keys.get((volume.0 - volume_id(0).0) as usize)
    }

    /// A payload comes by.
    pub(super) fn look_at_payload(&mut self, request: &Request, payload: &[u8]) {
        let Some(keys) = self.keys_of(request.scope.volume).cloned() else {
            return;
        };
        let (chunk, blocks) = blocks(&request.body);
        let bytes = BLOCK_BYTES as usize;
        if payload.len() != blocks.len() * bytes {
            return self.fail(format!(
                "S15: {} bytes of {} blocks: {request:?}",
                payload.len(),
                blocks.len()
            ));
        }
        for ((block, version), content) in blocks.into_iter().zip(payload.chunks_exact(bytes)) {
            if plain(content) {
                return self.fail(format!("S14: block {} of chunk {} is not encrypted", block.0, chunk.0));
            }
            let mut head = [0; 16];
            head.copy_from_slice(&content[..16]);
            let content = (amita_types::crc32c(content), head);
            let at = (keys.ring().key_of(version), chunk, block, version);
            if *self.sealed.0.entry(at).or_insert(content) != content {
                let place = format!("block {} of chunk {}", block.0, chunk.0);
                return self.fail(format!("S14: {place} has two contents in version {version}"));
            }
        }
    }

    /// What a write of an encrypted volume brings, decrypted.
    pub(super) fn plain_of(&self, request: &Request, payload: &[u8]) -> Vec<u8> {
        let RequestBody::Write(write) = &request.body else {
            return Vec::new();
        };
        let Some(keys) = self.keys_of(request.scope.volume) else {
            return payload.to_vec();
        };
        let range = BlockRange::of_bytes(write.offset_bytes, write.length_bytes);
        let run = amita_types::message::Run {
            blocks: range.count,
            version: write.version,
        };
        let mut plain = vec![0; payload.len()];
        match keys.open((write.chunk, range), &[run], payload, &mut plain) {
            Ok(()) => plain,
            Err(_) => Vec::new(),
        }
    }
}
