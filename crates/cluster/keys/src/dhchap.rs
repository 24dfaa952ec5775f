//! Secrets of DH-HMAC-CHAP.

use crate::hash::Hash;
use crate::interchange::{KeyError, decode, encode};
use std::fmt;
use zeroize::Zeroizing;

const PREFIX: &str = "DHHC-1";
/// What a key is transformed with, behind the NQN of the entity that it belongs to (NVM Express Base 2.1, 8.3.4.5.7).
const SEED: &[u8] = b"NVMe-over-Fabrics";

/// A secret in the representation `DHHC-1:hh:BASE64:` (NVM Express Base 2.1, 8.3.4.5.8): it belongs to one entity, a
/// host or a subsystem, whose NQN goes into it when it is used.
#[derive(Clone, PartialEq, Eq)]
pub struct DhchapSecret {
    /// The function that it is transformed with before use; none: it is used as it is.
    transform: Option<Hash>,
    key: Zeroizing<Vec<u8>>,
}

impl DhchapSecret {
    /// Reads and checks a text.
    pub fn parse(text: &str) -> Result<DhchapSecret, KeyError> {
        let (digits, key) = decode(PREFIX, "nvme gen-dhchap-key", text)?;
        let transform = match digits {
            "00" => None,
            "01" => Some(Hash::Sha256),
            "02" => Some(Hash::Sha384),
            "03" => Some(Hash::Sha512),
            other => {
                return Err(KeyError::Hash {
                    given: other.chars().take(8).collect(),
                    known: "00, 01, 02 and 03",
                });
            }
        };
        // The length goes with the hash: the transformed key is as long as the one that was handed over.
        if let Some(hash) = transform
            && key.len() != hash.len_bytes()
        {
            return Err(KeyError::Length {
                given: key.len(),
                wanted: match hash {
                    Hash::Sha256 => "32",
                    Hash::Sha384 => "48",
                    Hash::Sha512 => "64",
                },
            });
        }
        Ok(DhchapSecret { transform, key })
    }

    /// A new secret for the entity of that NQN, out of random numbers.
    #[must_use]
    pub fn generate(transform: Option<Hash>, nqn: &str, random: &mut dyn FnMut(&mut [u8])) -> DhchapSecret {
        let mut raw = Zeroizing::new(vec![0; transform.map_or(32, Hash::len_bytes)]);
        random(&mut raw);
        DhchapSecret::from_raw(transform, nqn, &raw)
    }

    /// A secret made of given bytes, as `nvme gen-dhchap-key --secret` does it: with a hash function the bytes are not
    /// handed over themselves, but their HMAC over the NQN.
    pub(crate) fn from_raw(transform: Option<Hash>, nqn: &str, raw: &[u8]) -> DhchapSecret {
        let key = match transform {
            None => Zeroizing::new(raw.to_vec()),
            Some(hash) => Zeroizing::new(hash.hmac(raw, &[nqn.as_bytes(), SEED])),
        };
        DhchapSecret { transform, key }
    }

    /// Its text, to be handed over.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        encode(PREFIX, self.transform.map_or(0, Hash::id), &self.key)
    }

    /// The key that responses are made with: transformed for the entity that it belongs to.
    #[must_use]
    pub fn key_for(&self, nqn: &str) -> Zeroizing<Vec<u8>> {
        match self.transform {
            None => self.key.clone(),
            Some(hash) => Zeroizing::new(hash.hmac(&self.key, &[nqn.as_bytes(), SEED])),
        }
    }
}

impl fmt::Debug for DhchapSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DhchapSecret(secret)")
    }
}
