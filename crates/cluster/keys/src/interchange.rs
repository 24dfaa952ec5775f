//! The form that keys are handed over in: `PREFIX:hh:BASE64:`, where what is encoded is the key and its CRC-32.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crc_fast::{CrcAlgorithm, checksum};
use zeroize::Zeroizing;

/// Bytes of the CRC-32 behind a key.
const CRC_BYTES: usize = 4;
/// Lengths of keys, in bytes.
const KEY_BYTES: [usize; 3] = [32, 48, 64];

/// Why a text is no key. It never says what the text is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// It begins with something else, or lacks a colon.
    #[error("a key has the form `{prefix}:HH:BASE64:`; make one with `{make}`")]
    Form {
        /// How it has to begin.
        prefix: &'static str,
        /// The command that makes one.
        make: &'static str,
    },
    /// The two digits between the colons are none of those that are defined.
    #[error("the key's hash identifier is `{given}`, where {known} are defined")]
    Hash {
        /// What stands there.
        given: String,
        /// What may.
        known: &'static str,
    },
    /// What is between the last colons is not base64.
    #[error("the key is not base64: has a character been lost?")]
    Base64,
    /// The key has another length than its hash function demands.
    #[error("the key has {given} bytes, where {wanted} are demanded")]
    Length {
        /// Its length.
        given: usize,
        /// What is demanded.
        wanted: &'static str,
    },
    /// The check sum is wrong.
    #[error("the key's check sum is wrong: a character was changed on its way here")]
    Sum,
}

/// CRC-32 as of IEEE 802.3, little-endian: what both forms end with.
fn sum(key: &[u8]) -> [u8; CRC_BYTES] {
    let sum = checksum(CrcAlgorithm::Crc32IsoHdlc, key);
    u32::try_from(sum).expect("32 bits").to_le_bytes()
}

/// The text of a key.
pub(crate) fn encode(prefix: &str, hash: u8, key: &[u8]) -> Zeroizing<String> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(key.len() + CRC_BYTES));
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(&sum(key));
    let encoded = Zeroizing::new(STANDARD.encode(&*bytes));
    let mut text = Zeroizing::new(String::with_capacity(prefix.len() + encoded.len() + 8));
    text.push_str(prefix);
    text.push(':');
    text.push(char::from(b'0' + hash / 10));
    text.push(char::from(b'0' + hash % 10));
    text.push(':');
    text.push_str(&encoded);
    text.push(':');
    text
}

/// The two digits and the key that a text holds.
pub(crate) fn decode<'a>(
    prefix: &'static str,
    make: &'static str,
    text: &'a str,
) -> Result<(&'a str, Zeroizing<Vec<u8>>), KeyError> {
    let form = KeyError::Form { prefix, make };
    let mut parts = text.trim().split(':');
    let (Some(first), Some(hash), Some(encoded), Some(""), None) =
        (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(form);
    };
    if first != prefix {
        return Err(form);
    }
    let mut key = Zeroizing::new(STANDARD.decode(encoded).map_err(|_| KeyError::Base64)?);
    let bytes = key.len().saturating_sub(CRC_BYTES);
    if !KEY_BYTES.contains(&bytes) {
        return Err(KeyError::Length {
            given: bytes,
            wanted: "32, 48 or 64",
        });
    }
    if key[bytes..] != sum(&key[..bytes]) {
        return Err(KeyError::Sum);
    }
    key.truncate(bytes);
    Ok((hash, key))
}
