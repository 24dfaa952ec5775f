//! What a token stands for, sealed into the token itself: every gateway that has the key can open it, and nobody keeps a register.

use super::form::{BODY_BYTES, TOKEN_BYTES, Token, invalid};
use super::sum::{SUM_BYTES, Sum};
use super::{MAX_RANGES, MAX_TOKEN_BYTES};
use crate::block::{be_u32, be_u64};
use crate::plan::{Extent, Place};
use crate::sense::{Sense, code};
use amita_frontend::Source;
use amita_types::{SnapshotId, VolumeId};
use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest;
use std::fmt;

/// What is summed as one.
pub(crate) const SECTION_BYTES: u64 = 4 << 20;
/// How many of them a token has at the most.
pub(crate) const MAX_SECTIONS: usize = (MAX_TOKEN_BYTES / SECTION_BYTES) as usize;

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;
/// Random bytes that a token takes: its identifier, its nonce, the seed of its sums.
pub(super) const RANDOM_BYTES: usize = 8 + NONCE_LEN + SEED_BYTES;
pub(super) const SEED_BYTES: usize = 16;

const TAG_BYTES: usize = 16;
/// What is sealed: a version, three counts, the chunks' size, the source, the end, the seed; then ranges, then sums.
const HEADER_BYTES: usize = 48;
const RANGE_BYTES: usize = 12;
const CONTENTS_BYTES: usize = HEADER_BYTES + MAX_RANGES as usize * RANGE_BYTES + MAX_SECTIONS * SUM_BYTES;
const VERSION: u8 = 1;
/// Ranges are kept in this unit, which every logical block is a multiple of.
const UNIT_BYTES: u64 = 512;

const _: () = assert!(NONCE_LEN + CONTENTS_BYTES + TAG_BYTES <= BODY_BYTES);

/// What a token stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contents {
    pub place: Place,
    /// At most [`MAX_RANGES`].
    pub extents: Vec<Extent>,
    /// From then on it stands for nothing; in seconds since 1970.
    pub until: u64,
    pub seed: [u8; SEED_BYTES],
    /// Of each section; none where the blocks cannot change (a snapshot's).
    pub sums: Vec<[u8; SUM_BYTES]>,
}

impl Contents {
    fn encode(&self) -> [u8; CONTENTS_BYTES] {
        let mut bytes = [0; CONTENTS_BYTES];
        bytes[0] = VERSION;
        bytes[1] = self.extents.len() as u8;
        bytes[2] = self.sums.len() as u8;
        let Source { volume, snapshot } = self.place.source;
        bytes[4..8].copy_from_slice(&self.place.chunk_bytes.to_be_bytes());
        bytes[8..16].copy_from_slice(&volume.0.to_be_bytes());
        bytes[16..20].copy_from_slice(&snapshot.0.to_be_bytes());
        bytes[20..24].copy_from_slice(&self.place.block_bytes.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.until.to_be_bytes());
        bytes[32..48].copy_from_slice(&self.seed);
        let (ranges, sums) = bytes[HEADER_BYTES..].split_at_mut(usize::from(MAX_RANGES) * RANGE_BYTES);
        for (place, extent) in ranges.chunks_exact_mut(RANGE_BYTES).zip(&self.extents) {
            place[..8].copy_from_slice(&(extent.offset / UNIT_BYTES).to_be_bytes());
            place[8..].copy_from_slice(&((extent.length / UNIT_BYTES) as u32).to_be_bytes());
        }
        for (place, sum) in sums.chunks_exact_mut(SUM_BYTES).zip(&self.sums) {
            place.copy_from_slice(sum);
        }
        bytes
    }

    /// `None`: it is of another version of this program.
    fn parse(bytes: &[u8]) -> Option<Contents> {
        let (counts, rest) = (bytes.get(..CONTENTS_BYTES)?, &bytes[HEADER_BYTES..CONTENTS_BYTES]);
        let (ranges, sums) = (usize::from(counts[1]), usize::from(counts[2]));
        if counts[0] != VERSION || ranges > usize::from(MAX_RANGES) || sums > MAX_SECTIONS {
            return None;
        }
        let source = Source {
            volume: VolumeId(be_u64(&bytes[8..])),
            snapshot: SnapshotId(be_u32(&bytes[16..])),
        };
        let (of_ranges, of_sums) = rest.split_at(usize::from(MAX_RANGES) * RANGE_BYTES);
        Some(Contents {
            place: Place {
                source,
                uuid: [0; 16],
                chunk_bytes: be_u32(&bytes[4..]),
                block_bytes: be_u32(&bytes[20..]),
            },
            extents: of_ranges
                .chunks_exact(RANGE_BYTES)
                .take(ranges)
                .map(|range| Extent {
                    offset: be_u64(range) * UNIT_BYTES,
                    length: u64::from(be_u32(&range[8..])) * UNIT_BYTES,
                })
                .collect(),
            until: be_u64(&bytes[24..]),
            seed: *bytes[32..].first_chunk()?,
            sums: of_sums
                .chunks_exact(SUM_BYTES)
                .take(sums)
                .filter_map(|sum| sum.first_chunk().copied())
                .collect(),
        })
    }

    /// How many bytes it represents.
    pub fn bytes(&self) -> u64 {
        self.extents.iter().map(|extent| extent.length).sum()
    }

    /// Can what it stands for change?
    pub fn can_change(&self) -> bool {
        self.place.source.is_head()
    }

    pub fn with_sums(mut self, sums: &[Sum]) -> Contents {
        let count = if self.can_change() { sections(self.bytes()) } else { 0 };
        let sums = sums.iter().copied().chain(std::iter::repeat(Sum::default()));
        self.sums = sums.take(count).map(Sum::encode).collect();
        self
    }
}

/// How many sections so many bytes have.
pub(crate) fn sections(bytes: u64) -> usize {
    (bytes.div_ceil(SECTION_BYTES) as usize).min(MAX_SECTIONS)
}

struct Key {
    /// By which two are told apart.
    id: [u8; 8],
    cipher: LessSafeKey,
}

/// What tokens are sealed with: the first key seals, all of them open.
pub struct TokenKeys(Vec<Key>);

impl fmt::Debug for TokenKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenKeys({})", self.0.len())
    }
}

impl PartialEq for TokenKeys {
    fn eq(&self, other: &TokenKeys) -> bool {
        let ids = |keys: &TokenKeys| keys.0.iter().map(|key| key.id).collect::<Vec<_>>();
        ids(self) == ids(other)
    }
}

impl Eq for TokenKeys {}

impl TokenKeys {
    /// Of these keys, the one that seals first; `None`: there is none.
    #[must_use]
    pub fn new(keys: &[[u8; KEY_BYTES]]) -> Option<TokenKeys> {
        let keys: Vec<Key> = keys
            .iter()
            .map(|key| {
                let mut context = digest::Context::new(&digest::SHA256);
                context.update(b"amita token key id");
                context.update(key);
                let mut id = [0; 8];
                id.copy_from_slice(&context.finish().as_ref()[..8]);
                let unbound = UnboundKey::new(&AES_256_GCM_SIV, key).expect("32 bytes make a key for AES-256");
                Key {
                    id,
                    cipher: LessSafeKey::new(unbound),
                }
            })
            .collect();
        (!keys.is_empty()).then_some(TokenKeys(keys))
    }

    /// The token that stands for this; `unit`: the logical unit by which it was asked for. With the same random bytes twice, only the same
    /// contents could be told to be the same (AES-GCM-SIV, RFC 8452).
    pub(super) fn seal(&self, unit: [u8; 16], contents: &Contents, random: &[u8; RANDOM_BYTES]) -> Token {
        let mut token = Token {
            identifier: be_u64(random),
            unit,
            bytes: contents.bytes(),
            block_bytes: contents.place.block_bytes,
            body: [0; BODY_BYTES],
        };
        let mut nonce = [0; NONCE_LEN];
        nonce.copy_from_slice(&random[8..8 + NONCE_LEN]);
        let mut sealed = contents.encode();
        let tag = self.0[0]
            .cipher
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(token.head()),
                &mut sealed,
            )
            .expect("AES-GCM-SIV seals up to 64 GiB");
        let parts = nonce.iter().chain(&sealed).chain(tag.as_ref());
        token.body.iter_mut().zip(parts).for_each(|(to, from)| *to = *from);
        token
    }

    /// What a token of a host stands for.
    ///
    /// # Errors
    /// It is none of this cluster's, or was changed.
    pub(super) fn open(&self, bytes: &[u8; TOKEN_BYTES]) -> Result<Contents, Sense> {
        let token = Token::parse(bytes)?;
        let (nonce, rest) = token.body.split_at(NONCE_LEN);
        let (sealed, rest) = rest.split_at(CONTENTS_BYTES + TAG_BYTES);
        let opened = self.0.iter().find_map(|key| {
            let mut nonce_of = [0; NONCE_LEN];
            nonce_of.copy_from_slice(nonce);
            let mut plain = sealed.to_vec();
            let nonce = Nonce::assume_unique_for_key(nonce_of);
            let opened = key.cipher.open_in_place(nonce, Aad::from(token.head()), &mut plain);
            opened.ok().and_then(|plain| Contents::parse(plain))
        });
        let is_clean = rest.iter().all(|byte| *byte == 0);
        opened.filter(|_| is_clean).ok_or(invalid(code::TOKEN_UNKNOWN))
    }
}
