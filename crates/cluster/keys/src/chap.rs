//! Secrets of CHAP, as iSCSI uses it.

use crate::sealed::{SealError, SealKey};
use std::fmt;
use zeroize::Zeroizing;

/// The shortest secret: 96 bits. With a shorter one a login has to end where IPsec does not protect it (RFC 7143, 9.2.1).
pub const MIN_CHAP_SECRET_BYTES: usize = 12;
/// The longest one: what initiators keep. Windows takes 16 bytes at most.
pub const MAX_CHAP_SECRET_BYTES: usize = 255;
/// A secret that is made here is so long: all initiators take it, and it has 96 random bits.
const MADE_BYTES: usize = 16;
/// Sixty-four characters that no shell, no file of settings and no field of a form takes for something else.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._";

/// Why a text is no secret. It never says what the text is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChapError {
    /// Too short, or too long.
    #[error("a secret for CHAP has {MIN_CHAP_SECRET_BYTES} to {MAX_CHAP_SECRET_BYTES} bytes, and this one has {given}")]
    Length {
        /// Its length.
        given: usize,
    },
    /// A character that initiators do not keep as it is.
    #[error("a secret for CHAP has printable characters of ASCII alone, and number {place} of this one is another")]
    Character {
        /// Its place, from 1 on.
        place: usize,
    },
    /// A space where settings are cut.
    #[error("a secret for CHAP neither begins nor ends with a space: initiators would lose it")]
    Space,
    /// Both sides would have to prove the same.
    #[error(
        "the targets' secret is the same as the initiator's: whoever is asked for one could have it said by the other side; choose another \
         (RFC 7143, 9.2.1)"
    )]
    Same,
}

/// A secret of CHAP (RFC 1994; RFC 7143, 12.1.3). Both sides use its bytes as they are.
#[derive(Clone, PartialEq, Eq)]
pub struct ChapSecret(Zeroizing<String>);

impl ChapSecret {
    /// Checks a text. A line break at its end, as files have it, is not of it.
    ///
    /// # Errors
    /// What is wrong with it; never what it is.
    pub fn parse(text: &str) -> Result<ChapSecret, ChapError> {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        if !(MIN_CHAP_SECRET_BYTES..=MAX_CHAP_SECRET_BYTES).contains(&text.len()) {
            return Err(ChapError::Length { given: text.len() });
        }
        let is_strange = |c: char| !(' '..='~').contains(&c);
        if let Some(at) = text.chars().position(is_strange) {
            return Err(ChapError::Character { place: at + 1 });
        }
        if text.starts_with(' ') || text.ends_with(' ') {
            return Err(ChapError::Space);
        }
        Ok(ChapSecret(Zeroizing::new(text.to_owned())))
    }

    /// A new one, out of random numbers.
    #[must_use]
    pub fn generate(random: &mut dyn FnMut(&mut [u8])) -> ChapSecret {
        let mut raw = Zeroizing::new([0; MADE_BYTES]);
        random(&mut *raw);
        let mut text = Zeroizing::new(String::with_capacity(MADE_BYTES));
        for byte in *raw {
            text.push(char::from(ALPHABET[usize::from(byte % 64)]));
        }
        ChapSecret(text)
    }

    /// Its text, to be handed over, or sealed.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// May this be the secret of the targets, where that is the initiator's?
    ///
    /// # Errors
    /// They are the same.
    pub fn other_than(&self, initiator: &ChapSecret) -> Result<(), ChapError> {
        if self == initiator {
            return Err(ChapError::Same);
        }
        Ok(())
    }
}

impl fmt::Debug for ChapSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChapSecret(secret)")
    }
}

/// One of the two secrets that an initiator's record holds.
#[derive(Clone, Copy, Debug)]
pub struct ChapSide<'a> {
    /// The field of the record that it is sealed for.
    pub field: &'static str,
    /// It is to be this one.
    pub new: Option<&'a ChapSecret>,
    /// It is there already, sealed, and stays where there is no new one.
    pub kept: Option<&'a str>,
}

impl ChapSide<'_> {
    fn now(&self, name: &str, key: &SealKey) -> Result<Option<ChapSecret>, PairError> {
        match (self.new, self.kept) {
            (Some(new), _) => Ok(Some(new.clone())),
            (None, Some(sealed)) => Ok(Some(ChapSecret::parse(&key.unseal(name, self.field, sealed)?)?)),
            (None, None) => Ok(None),
        }
    }

    fn sealed(&self, name: &str, key: &SealKey) -> Result<Option<String>, PairError> {
        let sealed = self.new.map(|new| key.seal(name, self.field, new.text()));
        Ok(sealed.transpose()?)
    }
}

/// Why the secrets of an initiator are not sealed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PairError {
    /// They are no such secrets.
    #[error(transparent)]
    Chap(#[from] ChapError),
    /// One cannot be sealed, or one that is there not be opened to be compared.
    #[error(transparent)]
    Seal(#[from] SealError),
}

/// Seals the new secrets of the initiator of that name: its own, and the targets'. What stays is looked at too: never are both the same.
///
/// # Errors
/// They are, or what is there does not open with this key.
pub fn seal_pair(
    name: &str,
    own: &ChapSide<'_>,
    target: &ChapSide<'_>,
    key: &SealKey,
) -> Result<(Option<String>, Option<String>), PairError> {
    if own.new.is_some() || target.new.is_some() {
        let (own, target) = (own.now(name, key)?, target.now(name, key)?);
        if let (Some(own), Some(target)) = (own, target) {
            target.other_than(&own)?;
        }
    }
    Ok((own.sealed(name, key)?, target.sealed(name, key)?))
}

#[cfg(test)]
mod tests;
