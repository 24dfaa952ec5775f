//! Pre-shared keys of TLS, as they are handed over.

use crate::hash::Hash;
use crate::interchange::{KeyError, decode, encode};
use std::fmt;
use zeroize::Zeroizing;

const PREFIX: &str = "NVMeTLSkey-1";

/// A configured pre-shared key in the interchange format `NVMeTLSkey-1:hh:BASE64:` (NVMe/TCP Transport 1.1, 3.6.1.5).
/// What TLS is keyed with is derived from it.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsKey {
    transform: Option<Hash>,
    key: Zeroizing<Vec<u8>>,
}

impl TlsKey {
    /// Reads and checks a text.
    pub fn parse(text: &str) -> Result<TlsKey, KeyError> {
        let (digits, key) = decode(PREFIX, "nvme gen-tls-key", text)?;
        let transform = match digits {
            "00" => None,
            "01" => Some(Hash::Sha256),
            "02" => Some(Hash::Sha384),
            other => {
                return Err(KeyError::Hash {
                    given: other.chars().take(8).collect(),
                    known: "00, 01 and 02",
                });
            }
        };
        let wanted = match (transform, key.len()) {
            (None, 32 | 48) => None,
            (None, _) => Some("32 or 48"),
            (Some(hash), bytes) if bytes == hash.len_bytes() => None,
            (Some(Hash::Sha256), _) => Some("32"),
            (Some(_), _) => Some("48"),
        };
        match wanted {
            None => Ok(TlsKey { transform, key }),
            Some(wanted) => Err(KeyError::Length {
                given: key.len(),
                wanted,
            }),
        }
    }

    /// A new key for SHA-256 (and AES-128) or SHA-384 (and AES-256), out of random numbers.
    ///
    /// # Panics
    /// With SHA-512, which no cipher suite of NVMe/TCP has.
    #[must_use]
    pub fn generate(hash: Hash, random: &mut dyn FnMut(&mut [u8])) -> TlsKey {
        assert!(hash != Hash::Sha512, "no cipher suite has SHA-512");
        let mut key = Zeroizing::new(vec![0; hash.len_bytes()]);
        random(&mut key);
        TlsKey {
            transform: Some(hash),
            key,
        }
    }

    /// Its text, to be handed over.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        encode(PREFIX, self.transform.map_or(0, Hash::id), &self.key)
    }

    /// The function that the retained key is derived with; none: the configured key is the retained one.
    #[must_use]
    pub fn transform(&self) -> Option<Hash> {
        self.transform
    }

    /// The hash of the cipher suite that it goes with: by its length if it names none.
    #[must_use]
    pub fn cipher_hash(&self) -> Hash {
        match (self.transform, self.key.len()) {
            (Some(hash), _) => hash,
            (None, 48) => Hash::Sha384,
            (None, _) => Hash::Sha256,
        }
    }

    /// The configured key itself.
    #[must_use]
    pub fn configured(&self) -> &[u8] {
        &self.key
    }
}

impl fmt::Debug for TlsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsKey(secret)")
    }
}
