//! Which key-encryption key a cluster wraps its data keys with, as `/amita/wrapping-key` says it:
//!
//! ```text
//! {"sealed-file": {"kek": "5a..."}}
//! {"passphrase": {"kek": "5a...", "salt": "...", "argon2id": {"memory-kib": 65536, "passes": 3, "lanes": 4}}}
//! {"transit": {"mount": "transit", "key": "amita"}}
//! {"kmip": {"key": "fb4b5b9c-6188-4c63-8142-fe9c328129fc"}}
//! ```
//!
//! Of what somebody else keeps it says the name, and of the others nothing that a wrapped key does not say: by the identifier, 64 bits of a hash, whoever has a key-encryption key sees whether it is
//! the cluster's. With one salt for the cluster a passphrase is stretched once by each who opens what it has wrapped.

use crate::hex::Hex;
use crate::provider::passphrase::Cost;
use crate::wrapped::{By, KEK_ID_BYTES, SALT_BYTES, WrappedKey};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A key-encryption key, by what tells it from any other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WrappingKey(pub(crate) Which);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Which {
    SealedFile {
        kek: Hex<KEK_ID_BYTES>,
    },
    Passphrase {
        kek: Hex<KEK_ID_BYTES>,
        salt: Hex<SALT_BYTES>,
        argon2id: Cost,
    },
    Transit {
        mount: String,
        key: String,
    },
    Kmip {
        key: String,
    },
}

impl WrappingKey {
    /// Does somebody else keep it (Vault, a KMIP server), so that it is known by its name alone?
    #[must_use]
    pub fn is_kept_elsewhere(&self) -> bool {
        matches!(self.0, Which::Transit { .. } | Which::Kmip { .. })
    }

    /// Does a KMIP server keep it?
    #[must_use]
    pub fn is_of_kmip(&self) -> bool {
        matches!(self.0, Which::Kmip { .. })
    }

    /// What tells it from others of its kind: of a key and of a passphrase the identifier, of Vault's `MOUNT/NAME`, of a KMIP server's its unique
    /// identifier.
    #[must_use]
    pub fn identifier(&self) -> String {
        match &self.0 {
            Which::SealedFile { kek } | Which::Passphrase { kek, .. } => kek.to_string(),
            Which::Transit { mount, key } => format!("{mount}/{key}"),
            Which::Kmip { key } => key.clone(),
        }
    }

    /// Is it made of a passphrase and a salt?
    #[must_use]
    pub fn is_of_passphrase(&self) -> bool {
        matches!(self.0, Which::Passphrase { .. })
    }
}

impl fmt::Display for WrappingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Which::SealedFile { kek } => write!(f, "sealed-file {kek}"),
            Which::Passphrase { kek, argon2id, .. } => write!(f, "passphrase {kek} ({argon2id})"),
            Which::Transit { mount, key } => write!(f, "transit {mount}/{key}"),
            Which::Kmip { key } => write!(f, "kmip {key}"),
        }
    }
}

impl WrappedKey {
    /// What has wrapped it. Of Vault's keys the version is not told: Vault looks after these itself.
    #[must_use]
    pub fn wrapping_key(&self) -> WrappingKey {
        WrappingKey(match &self.by {
            By::SealedFile { kek, .. } => Which::SealedFile { kek: *kek },
            By::Passphrase {
                kek, salt, argon2id, ..
            } => Which::Passphrase {
                kek: *kek,
                salt: *salt,
                argon2id: *argon2id,
            },
            By::Transit { mount, key, .. } => Which::Transit {
                mount: mount.clone(),
                key: key.clone(),
            },
            By::Kmip { key, .. } => Which::Kmip { key: key.clone() },
        })
    }
}
