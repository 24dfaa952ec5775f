//! Secrets of CHAP, as iSCSI uses it.

use std::fmt;
use zeroize::Zeroizing;

/// The shortest secret: 96 bits. With a shorter one a login has to end where IPsec does not protect it (RFC 7143, 12.1.3).
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
         (RFC 7143, 12.1.3)"
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

#[cfg(test)]
mod tests;
