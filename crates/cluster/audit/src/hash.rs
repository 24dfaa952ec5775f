//! SHA-256, as 64 digits.

use aws_lc_rs::digest;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

const BYTES: usize = 32;

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Hash([u8; BYTES]);

impl Hash {
    /// What the first record of a log names as the one before.
    pub const NOTHING: Hash = Hash([0; BYTES]);

    /// Of a text.
    #[must_use]
    pub fn of(text: &str) -> Hash {
        let digest = digest::digest(&digest::SHA256, text.as_bytes());
        Hash(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no hash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a hash of 64 hexadecimal digits in lower case")]
pub struct BadHash;

impl FromStr for Hash {
    type Err = BadHash;

    fn from_str(text: &str) -> Result<Hash, BadHash> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Ok(byte - b'0'),
            b'a'..=b'f' => Ok(byte - b'a' + 10),
            _ => Err(BadHash),
        };
        if text.len() != 2 * BYTES {
            return Err(BadHash);
        }
        let mut hash = [0; BYTES];
        for (byte, pair) in hash.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Hash(hash))
    }
}

impl From<Hash> for String {
    fn from(hash: Hash) -> String {
        hash.to_string()
    }
}

impl TryFrom<String> for Hash {
    type Error = BadHash;

    fn try_from(text: String) -> Result<Hash, BadHash> {
        text.parse()
    }
}
