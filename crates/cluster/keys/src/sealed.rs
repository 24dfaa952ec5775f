//! Sealing: how keys are kept in the metadata.
//!
//! ```text
//! sealed:1:BASE64( key id (8 bytes) | nonce (12 bytes) | ciphertext | tag (16 bytes) )
//! ```
//!
//! AES-256-GCM with a random nonce: a cluster seals some thousand keys in its life, far from the 2^32 that random
//! nonces are good for. What is authenticated besides is the record (its NQN) and the field that the key stands in, so
//! that a sealed text that is copied into another record or field does not open there. The key id is the beginning of a
//! hash of the sealing key: it tells "another cluster's key" from "damaged".
//!
//! The file has one sealing key a line, `amita-seal-1:BASE64:`. The first one seals, all of them open: a cluster's
//! sealing key is changed by putting a new line in front, giving the file to all gateways, and sealing all records anew.

use crate::system_random;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest;
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

const SEALED_PREFIX: &str = "sealed:1:";
const FILE_PREFIX: &str = "amita-seal-1:";
const KEY_BYTES: usize = 32;
const KEY_ID_BYTES: usize = 8;
const TAG_BYTES: usize = 16;
/// A file of sealing keys is at most this long: eighty keys.
const MAX_FILE_BYTES: u64 = 4096;
/// A text to be sealed is at most this long: keys have a hundred characters.
const MAX_TEXT_BYTES: usize = 1024;

/// Why something cannot be sealed or opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The file cannot be read or written.
    #[error("the sealing key {}: {source}", path.display())]
    File {
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Others could read the file.
    #[error(
        "the sealing key {} can be read by others (mode {mode:03o}): give it to the gateway's user alone (chmod 600)",
        path.display()
    )]
    Permissions {
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Somebody else could change the file, and what it is read as.
    #[error(
        "the sealing key {} belongs to another user (number {owner}): give it to the gateway's user (chown {user}), or to root",
        path.display()
    )]
    Owner {
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who reads it.
        user: u32,
    },
    /// The file has something else in it.
    #[error("the sealing key {}, line {line}: not of the form `amita-seal-1:BASE64:` with 32 bytes", path.display())]
    Content {
        path: PathBuf,
        /// The line, from 1 on.
        line: usize,
    },
    /// The file has no key in it, or is no regular file, or is too long for one.
    #[error("the sealing key {}: {what}", path.display())]
    NoKey { path: PathBuf, what: &'static str },
    /// The text is not of the form of a sealed one.
    #[error("the {field} of {nqn} is not sealed (`sealed:1:...`): set it again")]
    NotSealed {
        /// The record.
        nqn: String,
        field: String,
    },
    /// It was sealed with a key that is not in the file.
    #[error("the {field} of {nqn} was sealed with another key ({key_id}): give this gateway the cluster's sealing key")]
    OtherKey {
        /// The record.
        nqn: String,
        field: String,
        /// What the key is called, in hexadecimal digits.
        key_id: String,
    },
    /// It does not open: damaged, or moved here from another record or field.
    #[error("the {field} of {nqn} does not open: it was changed, or sealed for another record; set it again")]
    Damaged {
        /// The record.
        nqn: String,
        field: String,
    },
    /// It is too long to be a key.
    #[error("the {field} of {nqn} is too long to be a key")]
    TooLong {
        /// The record.
        nqn: String,
        field: String,
    },
}

/// Has this text the form of a sealed one?
#[must_use]
pub fn is_sealed(text: &str) -> bool {
    text.starts_with(SEALED_PREFIX)
}

type KeyId = [u8; KEY_ID_BYTES];

/// One sealing key.
#[derive(Clone)]
struct One {
    id: KeyId,
    bytes: Zeroizing<[u8; KEY_BYTES]>,
}

impl One {
    fn new(bytes: Zeroizing<[u8; KEY_BYTES]>) -> One {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(b"amita-seal-1 key id");
        context.update(&*bytes);
        let id = context.finish().as_ref()[..KEY_ID_BYTES]
            .try_into()
            .expect("a SHA-256 has more bytes");
        One { id, bytes }
    }

    fn cipher(&self) -> LessSafeKey {
        let key = UnboundKey::new(&AES_256_GCM, &*self.bytes).expect("32 bytes make a key for AES-256");
        LessSafeKey::new(key)
    }
}

/// What a cluster's keys are sealed with.
#[derive(Clone)]
pub struct SealKey {
    /// The first one seals, all of them open. Never empty.
    keys: Vec<One>,
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealKey({})", self.id())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// May a file of keys that `user` reads be `owner`'s? Root's may: nothing is hidden from root anyway.
pub(crate) fn may_own(owner: u32, user: u32) -> bool {
    owner == user || owner == 0
}

/// What a sealed text is bound to. An NQN has no zero byte in it, so that the parts cannot run into each other.
fn bound_to(nqn: &str, field: &str) -> Vec<u8> {
    [b"amita sealed 1", nqn.as_bytes(), field.as_bytes()].join(&0)
}

impl SealKey {
    /// A new one.
    #[must_use]
    pub fn generate() -> SealKey {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        system_random(&mut *bytes);
        SealKey {
            keys: vec![One::new(bytes)],
        }
    }

    /// What the key that seals is called: it may be shown.
    #[must_use]
    pub fn id(&self) -> String {
        hex(&self.keys[0].id)
    }

    /// Keys for something else than to seal records, of each key one, in their order: by HMAC with SHA-256, so that neither says anything of another
    /// purpose's or of the sealing key.
    #[must_use]
    pub fn derive(&self, purpose: &str) -> Vec<Zeroizing<[u8; KEY_BYTES]>> {
        let derive = |key: &One| {
            let key = hmac::Key::new(hmac::HMAC_SHA256, &*key.bytes);
            let mut context = hmac::Context::with_key(&key);
            context.update(b"amita-seal-1 derived key ");
            context.update(purpose.as_bytes());
            let tag = context.sign();
            let mut derived = Zeroizing::new([0; KEY_BYTES]);
            derived.copy_from_slice(tag.as_ref());
            derived
        };
        self.keys.iter().map(derive).collect()
    }

    /// Writes it to a new file that only this user can read, durably. A file that exists is not overwritten: what was
    /// sealed with its key would be lost.
    pub fn save(&self, path: &Path) -> Result<(), SealError> {
        let wrong = |source| SealError::File {
            path: path.into(),
            source,
        };
        let mut text = Zeroizing::new(String::new());
        for key in &self.keys {
            let encoded = Zeroizing::new(STANDARD.encode(*key.bytes));
            for part in [FILE_PREFIX, &encoded, ":\n"] {
                text.push_str(part);
            }
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(wrong)?;
        file.write_all(text.as_bytes()).map_err(wrong)?;
        file.sync_all().map_err(wrong)?;
        // And its name: what is sealed by it meanwhile is lost with it.
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(wrong)
    }

    /// Reads a file of sealing keys. It must be of this user alone.
    pub fn load(path: &Path) -> Result<SealKey, SealError> {
        let wrong = |source| SealError::File {
            path: path.into(),
            source,
        };
        let no_key = |what| SealError::NoKey {
            path: path.into(),
            what,
        };
        let file = File::open(path).map_err(wrong)?;
        // Of the open file, not of the name: they cannot be exchanged in between.
        let metadata = file.metadata().map_err(wrong)?;
        if !metadata.is_file() {
            return Err(no_key("not a regular file"));
        }
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(SealError::Permissions {
                path: path.into(),
                mode,
            });
        }
        let user = rustix::process::geteuid().as_raw();
        if !may_own(metadata.uid(), user) {
            return Err(SealError::Owner {
                path: path.into(),
                owner: metadata.uid(),
                user,
            });
        }
        if metadata.size() > MAX_FILE_BYTES {
            return Err(no_key("too long for a file of sealing keys"));
        }
        let mut text = Zeroizing::new(String::with_capacity(MAX_FILE_BYTES as usize));
        file.take(MAX_FILE_BYTES).read_to_string(&mut text).map_err(wrong)?;
        let mut keys = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            keys.push(SealKey::line(line).ok_or(SealError::Content {
                path: path.into(),
                line: index + 1,
            })?);
        }
        if keys.is_empty() {
            return Err(no_key("no sealing key in it"));
        }
        Ok(SealKey { keys })
    }

    /// Those of these lines of a file, which has others too. None: one is of another form, or there are none.
    #[must_use]
    pub fn of_lines(lines: &[&str]) -> Option<SealKey> {
        let keys: Option<Vec<One>> = lines.iter().map(|line| SealKey::line(line.trim())).collect();
        keys.filter(|keys| !keys.is_empty()).map(|keys| SealKey { keys })
    }

    fn line(line: &str) -> Option<One> {
        let encoded = line.strip_prefix(FILE_PREFIX)?.strip_suffix(':')?;
        let decoded = Zeroizing::new(STANDARD.decode(encoded).ok()?);
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        if decoded.len() != KEY_BYTES {
            return None;
        }
        bytes.copy_from_slice(&decoded);
        Some(One::new(bytes))
    }

    /// Seals a text for one field of the record of that NQN.
    pub fn seal(&self, nqn: &str, field: &str, text: &str) -> Result<String, SealError> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(SealError::TooLong {
                nqn: nqn.into(),
                field: field.into(),
            });
        }
        let key = &self.keys[0];
        let mut nonce = [0; NONCE_LEN];
        system_random(&mut nonce);
        let mut sealed = Zeroizing::new(Vec::with_capacity(KEY_ID_BYTES + NONCE_LEN + text.len() + TAG_BYTES));
        sealed.extend_from_slice(&key.id);
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(text.as_bytes());
        let tag = key
            .cipher()
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(bound_to(nqn, field)),
                &mut sealed[KEY_ID_BYTES + NONCE_LEN..],
            )
            .expect("AES-GCM seals up to 64 GiB");
        sealed.extend_from_slice(tag.as_ref());
        Ok(format!("{SEALED_PREFIX}{}", STANDARD.encode(&*sealed)))
    }

    /// Opens what was sealed for that field of that record.
    pub fn unseal(&self, nqn: &str, field: &str, sealed: &str) -> Result<Zeroizing<String>, SealError> {
        let not_sealed = || SealError::NotSealed {
            nqn: nqn.into(),
            field: field.into(),
        };
        let damaged = || SealError::Damaged {
            nqn: nqn.into(),
            field: field.into(),
        };
        let encoded = sealed.strip_prefix(SEALED_PREFIX).ok_or_else(not_sealed)?;
        if encoded.len() > 2 * MAX_TEXT_BYTES {
            return Err(damaged());
        }
        let bytes = STANDARD.decode(encoded).map_err(|_| damaged())?;
        let (id, rest) = bytes.split_first_chunk::<KEY_ID_BYTES>().ok_or_else(damaged)?;
        let (nonce, rest) = rest.split_first_chunk::<NONCE_LEN>().ok_or_else(damaged)?;
        let key = self
            .keys
            .iter()
            .find(|key| key.id == *id)
            .ok_or_else(|| SealError::OtherKey {
                nqn: nqn.into(),
                field: field.into(),
                key_id: hex(id),
            })?;
        let mut text = Zeroizing::new(rest.to_vec());
        let plain = key
            .cipher()
            .open_in_place(
                Nonce::assume_unique_for_key(*nonce),
                Aad::from(bound_to(nqn, field)),
                &mut text,
            )
            .map_err(|_| damaged())?;
        let plain = std::str::from_utf8(plain).map_err(|_| damaged())?;
        Ok(Zeroizing::new(plain.to_owned()))
    }
}
