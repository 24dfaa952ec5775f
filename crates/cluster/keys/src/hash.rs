//! The hash functions that keys are used with.

use aws_lc_rs::{digest, hmac};

/// A hash function of the SHA-2 family, as NVM Express numbers them (Base 2.1, 8.3.4.5.1: DH-HMAC-CHAP hash
/// identifiers; the same numbers stand in the texts of keys).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hash {
    Sha256 = 1,
    Sha384 = 2,
    Sha512 = 3,
}

impl Hash {
    pub const ALL: [Hash; 3] = [Hash::Sha256, Hash::Sha384, Hash::Sha512];

    /// The one of that number.
    #[must_use]
    pub fn from_id(id: u8) -> Option<Hash> {
        Hash::ALL.into_iter().find(|hash| hash.id() == id)
    }

    #[must_use]
    pub fn id(self) -> u8 {
        self as u8
    }

    /// Bytes of its result.
    #[must_use]
    pub fn len_bytes(self) -> usize {
        self.digest_algorithm().output_len()
    }

    /// As aws-lc-rs knows it.
    #[must_use]
    pub fn digest_algorithm(self) -> &'static digest::Algorithm {
        match self {
            Hash::Sha256 => &digest::SHA256,
            Hash::Sha384 => &digest::SHA384,
            Hash::Sha512 => &digest::SHA512,
        }
    }

    /// HMAC with it, as aws-lc-rs knows it.
    #[must_use]
    pub fn hmac_algorithm(self) -> hmac::Algorithm {
        match self {
            Hash::Sha256 => hmac::HMAC_SHA256,
            Hash::Sha384 => hmac::HMAC_SHA384,
            Hash::Sha512 => hmac::HMAC_SHA512,
        }
    }

    /// The hash of some bytes.
    #[must_use]
    pub fn digest(self, bytes: &[u8]) -> Vec<u8> {
        digest::digest(self.digest_algorithm(), bytes).as_ref().to_vec()
    }

    /// The HMAC of parts that follow each other.
    #[must_use]
    pub fn hmac(self, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        let mut context = hmac::Context::with_key(&hmac::Key::new(self.hmac_algorithm(), key));
        for part in parts {
            context.update(part);
        }
        context.sign().as_ref().to_vec()
    }
}
