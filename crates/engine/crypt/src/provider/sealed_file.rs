//! Key-encryption keys of the cluster's sealing key: the file that gateways are given for the keys of hosts, too (`amita-keys`).
//!
//! The file's keys are not used for two things: whoever loads it derives those for data keys (`SealKey::derive(PURPOSE)`) and gives
//! them to [`SealedFile::new`], in the file's order. The first one wraps, all of them unwrap: so a sealing key is changed by putting a
//! new line in front, giving the file to all nodes, and wrapping all data keys again.

use super::local::{KEK_BYTES, Kek};
use super::passphrase::BadPassphrase;
use super::{Next, Provider, Random};
use crate::key::DataKey;
use crate::wrapped::{Binding, By, KeyError, Label, Told, WrappedKey};
use crate::wrapping::{Which, WrappingKey};
use std::fmt;
use zeroize::Zeroizing;

/// What keys are derived for from a file's sealing keys.
pub const PURPOSE: &str = "data keys of volumes";
const KIND: &str = "a sealed file";

/// See the module.
pub struct SealedFile {
    keks: Vec<Kek>,
}

impl SealedFile {
    /// Of the keys that a file's sealing keys give for [`PURPOSE`]. `None`: there are none.
    #[must_use]
    pub fn new(derived: Vec<Zeroizing<[u8; KEK_BYTES]>>) -> Option<SealedFile> {
        let kek = |derived| Kek::new(Box::new(derived));
        let keks: Vec<Kek> = derived.into_iter().map(kek).collect();
        (!keks.is_empty()).then_some(SealedFile { keks })
    }

    /// Is this one wrapped with the first key? Those that are not are to be wrapped again before an older key leaves the file.
    #[must_use]
    pub fn is_newest(&self, wrapped: &WrappedKey) -> bool {
        matches!(&wrapped.by, By::SealedFile { kek, .. } if *kek == self.keks[0].id)
    }
}

impl SealedFile {
    fn by(&self, by: &WrappingKey) -> Option<&Kek> {
        let Which::SealedFile { kek: id } = &by.0 else {
            return None;
        };
        self.keks.iter().find(|kek| kek.id == *id)
    }
}

impl Provider for SealedFile {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn first(&mut self) -> Result<WrappingKey, BadPassphrase> {
        let kek = self.keks[0].id;
        Ok(WrappingKey(Which::SealedFile { kek }))
    }

    fn all(&mut self) -> Result<Vec<WrappingKey>, BadPassphrase> {
        let of = |kek: &Kek| WrappingKey(Which::SealedFile { kek: kek.id });
        Ok(self.keks.iter().map(of).collect())
    }

    fn has(&mut self, by: &WrappingKey) -> Result<bool, BadPassphrase> {
        Ok(self.by(by).is_some())
    }

    fn wrap_by(
        &mut self,
        by: &WrappingKey,
        binding: &Binding,
        key: &DataKey,
        random: Random<'_>,
    ) -> Result<Next<WrappedKey>, KeyError> {
        let label = Label::new(binding, key);
        let found = self.by(by).ok_or_else(|| KeyError::NotHere {
            key: binding.key,
            by: by.clone(),
            given: KIND,
        })?;
        let kek = found.id;
        let (nonce, wrapped) = found.wrap(&label.associated(&Told::SealedFile { kek: &kek }), key, random);
        let by = By::SealedFile { kek, nonce, wrapped };
        Ok(Next::Done(WrappedKey { label, by }))
    }

    fn unwrap(&mut self, binding: &Binding, wrapped: &WrappedKey) -> Result<Next<DataKey>, KeyError> {
        wrapped.expect(binding)?;
        let By::SealedFile {
            kek: id,
            nonce,
            wrapped: bytes,
        } = &wrapped.by
        else {
            return Err(wrapped.other_provider(KIND));
        };
        let key = binding.key;
        let kek = self.keks.iter().find(|kek| kek.id == *id);
        let kek = kek.ok_or_else(|| KeyError::OtherKek {
            key,
            kek: id.to_string(),
        })?;
        let associated = wrapped.label.associated(&Told::SealedFile { kek: id });
        let opened = kek.unwrap(&associated, nonce, bytes).ok_or(KeyError::Damaged { key })?;
        wrapped.label.accept(&opened[..crate::DATA_KEY_BYTES]).map(Next::Done)
    }
}

impl fmt::Debug for SealedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keks.iter().map(|kek| kek.id)).finish()
    }
}

#[cfg(test)]
mod tests;
