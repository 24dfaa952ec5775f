//! A data key as it stands in the metadata: `/amita/secrets/IMAGE/NUMBER`.
//!
//! ```text
//! {"version": 1, "algorithm": "aes-256-xts", "tenant": "acme", "volume": 3, "image": 7, "number": 1,
//!  "check": "0f...", "by": {"sealed-file": {"kek": "5a...", "nonce": "...", "wrapped": "..."}}}
//! ```
//!
//! Everything but `wrapped` is in the clear and is authenticated with it (`Label::associated`): a record that was changed, or that
//! stands where another belongs, does not open. `check` tells the key that opens from any other, whoever has opened it.

use crate::hex::Hex;
use crate::key::{BadKey, CheckValue, DATA_KEY_BYTES, DataKey};
use crate::provider::kmip::{self, KmipError};
use crate::provider::passphrase::{BadPassphrase, Cost};
use crate::provider::transit::{self, TransitError};
use crate::wrapping::WrappingKey;
use amita_types::capability::MAX_TENANT_BYTES;
use amita_types::map::{KeyName, KeyNumber};
use amita_types::{ClusterId, VolumeId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The longest record, in bytes.
pub const MAX_RECORD_BYTES: usize = 4096;
const RECORD_VERSION: u32 = 1;
/// What is authenticated begins with this; it goes with [`RECORD_VERSION`].
const LABEL: &[u8] = b"amita-crypt wrapped key 1\0";
/// Bytes of the tag of AES-GCM.
pub(crate) const TAG_BYTES: usize = 16;
/// Bytes of a wrapped key: the data key and a tag.
pub(crate) const WRAPPED_BYTES: usize = DATA_KEY_BYTES + TAG_BYTES;
pub(crate) const NONCE_BYTES: usize = 12;
pub(crate) const KEK_ID_BYTES: usize = 8;
pub(crate) const SALT_BYTES: usize = 16;

/// What blocks are encrypted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Algorithm {
    /// AES-256-XTS of blocks, by place and version ([`BlockCipher`](crate::BlockCipher)).
    #[serde(rename = "aes-256-xts")]
    Aes256Xts,
}

impl Algorithm {
    /// Its name in records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Aes256Xts => "aes-256-xts",
        }
    }
}

/// Whose a data key is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Binding {
    /// The tenant of the volume, where it has one.
    pub tenant: Option<String>,
    /// Which of the volume's keys.
    pub key: KeyName,
}

/// Why a data key is not to be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The record has another form.
    #[error(
        "the record of a data key is not what this version reads ({what}): it was changed, or written by a later version"
    )]
    Form {
        /// What is wrong with it.
        what: String,
    },
    /// The record is of a later version.
    #[error(
        "the record of a data key has version {version}, and this program reads {RECORD_VERSION}: start a newer one"
    )]
    Version {
        /// The record's.
        version: u32,
    },
    /// The record is another key's.
    #[error("the record of data key {wanted} is that of {found}: it was moved, put the right one back")]
    Elsewhere {
        /// What was looked for.
        wanted: KeyName,
        /// What it says.
        found: KeyName,
    },
    /// The record is of another tenant's volume.
    #[error("data key {key} was wrapped for another tenant: wrap it again for this one, with the right to both")]
    Tenant {
        /// The key.
        key: KeyName,
    },
    /// Somebody else wraps.
    #[error("data key {key} is wrapped by {by}, and this node was given {given} to open it: give it {by}")]
    OtherProvider {
        /// The key.
        key: KeyName,
        /// What has wrapped it.
        by: &'static str,
        /// What was asked.
        given: &'static str,
    },
    /// It was wrapped with a key-encryption key that is not there.
    #[error(
        "data key {key} was wrapped with key-encryption key {kek}, which is not in this node's file: give it the cluster's, with that line"
    )]
    OtherKek {
        /// The key.
        key: KeyName,
        /// What the key-encryption key is called, in hexadecimal digits.
        kek: String,
    },
    /// It was to be wrapped with a key-encryption key that is not there.
    #[error("data key {key} is to be wrapped by {by}, which {given} does not have")]
    NotHere {
        /// The key.
        key: KeyName,
        /// The key-encryption key.
        by: WrappingKey,
        /// Who does not have it.
        given: &'static str,
    },
    /// The passphrase is another one.
    #[error(
        "the passphrase is not the one that data key {key} was wrapped with (or salt or cost in its record were changed)"
    )]
    OtherPassphrase {
        /// The key.
        key: KeyName,
    },
    /// It does not open with the key that it was wrapped with.
    #[error("data key {key} does not open: its record was changed; put the right one back")]
    Damaged {
        /// The key.
        key: KeyName,
    },
    /// What opens is another key. Nothing was read with it.
    #[error(
        "what opens as data key {key} is another key: its check value is {found}, and the record says {wanted}; nothing was read with it"
    )]
    OtherKey {
        /// The key.
        key: KeyName,
        /// The record's check value.
        wanted: CheckValue,
        /// That of what has opened.
        found: CheckValue,
    },
    /// What opens is no data key.
    #[error("what opens as data key {key} is none: {why}")]
    NoKey {
        /// The key.
        key: KeyName,
        /// Why not.
        why: BadKey,
    },
    /// The passphrase cannot be used so.
    #[error("data key {key}: {why}")]
    Passphrase {
        /// The key.
        key: KeyName,
        /// Why not.
        why: BadPassphrase,
    },
    /// A KMIP server does not do what was asked, which was of no data key.
    #[error("{0}")]
    KmipProbe(KmipError),
    /// A KMIP server does not do it.
    #[error("data key {key}: {why}")]
    Kmip {
        /// The key.
        key: KeyName,
        /// Why not.
        why: KmipError,
    },
    /// The answer is of another protocol than the question.
    #[error("what came back is by another protocol than it was asked by")]
    OtherProtocol,
    /// Vault does not do what was asked, which was of no data key.
    #[error("{0}")]
    Vault(TransitError),
    /// Vault does not do it.
    #[error("data key {key}: {why}")]
    Transit {
        /// The key.
        key: KeyName,
        /// Why not.
        why: TransitError,
    },
}

/// What has wrapped a key, what it was told, and what it gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum By {
    SealedFile {
        kek: Hex<KEK_ID_BYTES>,
        nonce: Hex<NONCE_BYTES>,
        wrapped: Hex<WRAPPED_BYTES>,
    },
    Passphrase {
        kek: Hex<KEK_ID_BYTES>,
        salt: Hex<SALT_BYTES>,
        argon2id: Cost,
        nonce: Hex<NONCE_BYTES>,
        wrapped: Hex<WRAPPED_BYTES>,
    },
    Transit {
        mount: String,
        key: String,
        /// Vault may serve several.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cluster: Option<ClusterId>,
        wrapped: String,
    },
    Kmip {
        key: String,
        /// The server may serve several.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cluster: Option<ClusterId>,
        nonce: Hex<NONCE_BYTES>,
        wrapped: Hex<WRAPPED_BYTES>,
    },
}

impl By {
    pub fn provider(&self) -> &'static str {
        match self {
            By::SealedFile { .. } => "a sealed file",
            By::Passphrase { .. } => "a passphrase",
            By::Transit { .. } => "Vault's transit engine",
            By::Kmip { .. } => "a key of a KMIP server",
        }
    }
}

/// What is told and authenticated of a key beside it, before there is something wrapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub binding: Binding,
    pub algorithm: Algorithm,
    pub check: CheckValue,
}

impl Label {
    pub fn new(binding: &Binding, key: &DataKey) -> Label {
        Label {
            binding: binding.clone(),
            algorithm: Algorithm::Aes256Xts,
            check: key.check_value(),
        }
    }

    /// What is authenticated with a wrapped key: all that the record says, and what `by` was told. Each part has a length of its own or a
    /// fixed one, so that no two records have the same.
    pub fn associated(&self, by: &Told<'_>) -> Vec<u8> {
        let KeyName { volume, image, number } = self.binding.key;
        let algorithm = match self.algorithm {
            Algorithm::Aes256Xts => 1,
        };
        let mut bytes = Vec::with_capacity(256);
        let mut put = |part: &[u8]| bytes.extend_from_slice(part);
        let text = |text: &str| u32::try_from(text.len()).expect("records are short").to_le_bytes();
        put(LABEL);
        put(&[algorithm, u8::from(self.binding.tenant.is_some())]);
        let tenant = self.binding.tenant.as_deref().unwrap_or_default();
        put(&text(tenant));
        put(tenant.as_bytes());
        put(&volume.0.to_le_bytes());
        put(&image.0.to_le_bytes());
        put(&number.0.to_le_bytes());
        put(self.check.bytes());
        match by {
            Told::SealedFile { kek } => {
                put(&[1]);
                put(&kek.0);
            }
            Told::Passphrase { kek, salt, cost } => {
                put(&[2]);
                put(&kek.0);
                put(&salt.0);
                put(&cost.bytes());
            }
            Told::Transit { mount, key, cluster } => {
                put(&[3]);
                for part in [*mount, *key] {
                    put(&text(part));
                    put(part.as_bytes());
                }
                // Behind all else: where there is none, it ends before.
                if let Some(cluster) = cluster {
                    put(&cluster.0.to_le_bytes());
                }
            }
            Told::Kmip { key, cluster } => {
                put(&[4]);
                put(&text(key));
                put(key.as_bytes());
                if let Some(cluster) = cluster {
                    put(&cluster.0.to_le_bytes());
                }
            }
        }
        bytes
    }

    /// Is what has opened the key that the record tells of?
    pub fn accept(&self, opened: &[u8]) -> Result<DataKey, KeyError> {
        let name = self.binding.key;
        let key = DataKey::from_bytes(opened).map_err(|why| KeyError::NoKey { key: name, why })?;
        let found = key.check_value();
        if found != self.check {
            let wanted = self.check;
            return Err(KeyError::OtherKey {
                key: name,
                wanted,
                found,
            });
        }
        Ok(key)
    }
}

/// What the provider was told, which is authenticated as well.
pub(crate) enum Told<'a> {
    SealedFile {
        kek: &'a Hex<KEK_ID_BYTES>,
    },
    Passphrase {
        kek: &'a Hex<KEK_ID_BYTES>,
        salt: &'a Hex<SALT_BYTES>,
        cost: Cost,
    },
    Transit {
        mount: &'a str,
        key: &'a str,
        cluster: Option<ClusterId>,
    },
    Kmip {
        key: &'a str,
        cluster: Option<ClusterId>,
    },
}

/// A data key as it stands in the metadata. It tells what it is of, and not what it is.
#[derive(Clone, PartialEq, Eq)]
pub struct WrappedKey {
    pub(crate) label: Label,
    pub(crate) by: By,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    version: u32,
    algorithm: Algorithm,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    volume: VolumeId,
    image: VolumeId,
    number: KeyNumber,
    check: CheckValue,
    by: By,
}

/// Only the version, of a record of any version.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

impl WrappedKey {
    /// Reads and checks a record.
    ///
    /// # Errors
    /// It is none that this version reads. The error repeats nothing of it but numbers.
    pub fn parse(text: &str) -> Result<WrappedKey, KeyError> {
        let form = |what: String| KeyError::Form { what };
        if text.len() > MAX_RECORD_BYTES {
            return Err(form(format!("{} bytes, of {MAX_RECORD_BYTES}", text.len())));
        }
        let place = |error: &serde_json::Error| form(format!("line {}, column {}", error.line(), error.column()));
        if let Ok(Versioned { version }) = serde_json::from_str(text)
            && version != RECORD_VERSION
        {
            return Err(KeyError::Version { version });
        }
        let record: Record = serde_json::from_str(text).map_err(|error| place(&error))?;
        let key = KeyName {
            volume: record.volume,
            image: record.image,
            number: record.number,
        };
        if let Some(tenant) = &record.tenant
            && !(1..=MAX_TENANT_BYTES).contains(&tenant.len())
        {
            return Err(form(format!("a tenant's name of {} bytes", tenant.len())));
        }
        match &record.by {
            By::SealedFile { .. } => {}
            By::Passphrase { argon2id, .. } => argon2id.check().map_err(|why| KeyError::Passphrase { key, why })?,
            By::Transit {
                mount,
                key: name,
                wrapped,
                ..
            } => {
                transit::check_record(mount, name, wrapped).map_err(|why| KeyError::Transit { key, why })?;
            }
            By::Kmip { key: name, .. } => kmip::check_record(name).map_err(|why| KeyError::Kmip { key, why })?,
        }
        Ok(WrappedKey {
            label: Label {
                binding: Binding {
                    tenant: record.tenant,
                    key,
                },
                algorithm: record.algorithm,
                check: record.check,
            },
            by: record.by,
        })
    }

    /// The record's text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let Label {
            binding,
            algorithm,
            check,
        } = &self.label;
        let record = Record {
            version: RECORD_VERSION,
            algorithm: *algorithm,
            tenant: binding.tenant.clone(),
            volume: binding.key.volume,
            image: binding.key.image,
            number: binding.key.number,
            check: *check,
            by: self.by.clone(),
        };
        serde_json::to_string(&record).expect("texts and numbers")
    }

    /// Whose key it says that it is.
    #[must_use]
    pub fn binding(&self) -> &Binding {
        &self.label.binding
    }

    /// What blocks are encrypted by with it.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.label.algorithm
    }

    /// The key's check value. A key that is wrapped again keeps it.
    #[must_use]
    pub fn check_value(&self) -> CheckValue {
        self.label.check
    }

    /// Who has wrapped it, for people, and for finding those that an older key-encryption key has.
    #[must_use]
    pub fn wrapped_by(&self) -> String {
        match &self.by {
            By::SealedFile { kek, .. } => format!("sealed-file {kek}"),
            By::Passphrase { kek, argon2id, .. } => format!("passphrase {kek} ({argon2id})"),
            By::Transit {
                mount, key, wrapped, ..
            } => {
                let version = wrapped.split(':').nth(1).unwrap_or_default();
                format!("transit {mount}/{key} {version}")
            }
            By::Kmip { key, .. } => format!("kmip {key}"),
        }
    }

    /// Which version of Vault's key has wrapped it, where that has: rotated, Vault's key wraps by the next one.
    #[must_use]
    pub fn transit_version(&self) -> Option<u32> {
        match &self.by {
            By::Transit { wrapped, .. } => transit::version_of(wrapped),
            _ => None,
        }
    }

    /// Is it the record of this key? Said before anything is opened, so that who opens a volume is told what is wrong with its records.
    pub(crate) fn expect(&self, binding: &Binding) -> Result<(), KeyError> {
        let (wanted, found) = (binding.key, self.label.binding.key);
        if wanted != found {
            return Err(KeyError::Elsewhere { wanted, found });
        }
        if binding.tenant != self.label.binding.tenant {
            return Err(KeyError::Tenant { key: wanted });
        }
        Ok(())
    }

    pub(crate) fn other_provider(&self, given: &'static str) -> KeyError {
        let (key, by) = (self.label.binding.key, self.by.provider());
        KeyError::OtherProvider { key, by, given }
    }
}

impl fmt::Debug for WrappedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WrappedKey")
            .field("binding", self.binding())
            .field("check", &self.check_value())
            .field("by", &self.wrapped_by())
            .finish()
    }
}

#[cfg(test)]
mod tests;
