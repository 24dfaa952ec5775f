//! Data keys: what blocks are encrypted with, what they are called, and how a wrong one is told from the right one.

use crate::hex::Hex;
use crate::xts::KEY_BYTES;
use aws_lc_rs::{constant_time, hmac};
use serde::{Deserialize, Serialize};
use std::fmt;
use zeroize::Zeroizing;

/// Bytes of a data key: two keys of AES-256, the data's and the tweak's (IEEE 1619-2018, 5.1).
pub const DATA_KEY_BYTES: usize = 2 * KEY_BYTES;
const CHECK_BYTES: usize = 16;
/// What a check value is the HMAC of.
const CHECK_LABEL: &[u8] = b"amita-crypt 1 key check value";

/// What is no data key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadKey {
    /// It has another length.
    #[error("a data key has {DATA_KEY_BYTES} bytes, not {given}")]
    Length {
        /// Bytes.
        given: usize,
    },
    /// XTS would be weaker than it claims (FIPS 140-3 Implementation Guidance, C.I).
    #[error("both halves of the data key are the same")]
    Halves,
}

/// What an image's blocks are encrypted with. It lies in one place of memory, and is wiped there.
pub struct DataKey(Box<Zeroizing<[u8; DATA_KEY_BYTES]>>);

impl DataKey {
    /// A new one.
    ///
    /// # Panics
    /// When what should be random gives both halves alike: nothing secret can be made of it.
    #[must_use]
    pub fn generate(random: &mut dyn FnMut(&mut [u8])) -> DataKey {
        let mut key = DataKey(Box::new(Zeroizing::new([0; DATA_KEY_BYTES])));
        random(&mut key.0[..]);
        assert!(
            key.check_halves().is_ok(),
            "random numbers repeat after {KEY_BYTES} bytes"
        );
        key
    }

    /// One that exists.
    ///
    /// # Errors
    /// It cannot be one.
    pub fn from_bytes(bytes: &[u8]) -> Result<DataKey, BadKey> {
        if bytes.len() != DATA_KEY_BYTES {
            return Err(BadKey::Length { given: bytes.len() });
        }
        let mut key = DataKey(Box::new(Zeroizing::new([0; DATA_KEY_BYTES])));
        key.0.copy_from_slice(bytes);
        key.check_halves()?;
        Ok(key)
    }

    fn check_halves(&self) -> Result<(), BadKey> {
        let (data, tweak) = self.halves();
        match constant_time::verify_slices_are_equal(data, tweak) {
            Ok(()) => Err(BadKey::Halves),
            Err(_) => Ok(()),
        }
    }

    /// What tells this key from any other, and nothing else of it: it stands in the clear beside the wrapped key.
    #[must_use]
    pub fn check_value(&self) -> CheckValue {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.expose());
        let tag = hmac::sign(&key, CHECK_LABEL);
        let mut value = [0; CHECK_BYTES];
        value.copy_from_slice(&tag.as_ref()[..CHECK_BYTES]);
        CheckValue(Hex(value))
    }

    pub(crate) fn expose(&self) -> &[u8; DATA_KEY_BYTES] {
        &self.0
    }

    /// The data's key, and the tweak's.
    pub(crate) fn halves(&self) -> (&[u8; KEY_BYTES], &[u8; KEY_BYTES]) {
        let halves = self.0.as_chunks::<KEY_BYTES>().0;
        (&halves[0], &halves[1])
    }
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DataKey(..)")
    }
}

/// The first half of an HMAC with SHA-256 under the data key: by it a wrong key is found before anything is read with it.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CheckValue(Hex<CHECK_BYTES>);

impl CheckValue {
    pub(crate) fn bytes(&self) -> &[u8; CHECK_BYTES] {
        &self.0.0
    }
}

impl fmt::Display for CheckValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for CheckValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests;
