//! A key-encryption key that is made of a passphrase, by Argon2id (RFC 9106).
//!
//! Salt and cost stand with each wrapped key, and are authenticated with it. A passphrase has one salt for all that it wraps, so that
//! a node that opens a thousand volumes stretches it once; what others have wrapped, or it with another cost before, costs once more
//! each. To stretch it takes a tenth of a second or more of a processor, and the memory that the cost says: it is not done by a core.

use super::local::{KEK_BYTES, Kek};
use super::{Next, Provider, Random};
use crate::hex::Hex;
use crate::key::{DATA_KEY_BYTES, DataKey};
use crate::wrapped::{Binding, By, KeyError, Label, SALT_BYTES, Told, WrappedKey};
use crate::wrapping::{Which, WrappingKey};
use argon2::{Algorithm, Argon2, Block, Params, Version};
use serde::{Deserialize, Serialize};
use std::fmt;
use zeroize::Zeroizing;

const KIND: &str = "a passphrase";
/// The fewest characters. What is shorter is found by trying, whatever the cost.
const MIN_CHARACTERS: usize = 12;
/// The most bytes: what is longer is the wrong file.
const MAX_BYTES: usize = 1024;
/// Keys that were made of the passphrase and are kept: one a salt and cost.
const MAX_KEPT: usize = 16;

/// What it costs to make a key of a passphrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Cost {
    /// Memory, in KiB.
    pub memory_kib: u32,
    /// How often it is gone through.
    pub passes: u32,
    /// Parts that may be gone through side by side (here it is one after the other).
    pub lanes: u32,
}

impl Cost {
    /// RFC 9106, section 4, the second recommended option: 64 MiB, three passes, four lanes.
    pub const RECOMMENDED: Cost = Cost {
        memory_kib: 64 << 10,
        passes: 3,
        lanes: 4,
    };
    /// The least: what OWASP's Password Storage Cheat Sheet has as the least of Argon2id, 19 MiB and two passes.
    pub const LEAST: Cost = Cost {
        memory_kib: 19 << 10,
        passes: 2,
        lanes: 1,
    };
    /// The most: a record that asks for more is wrong, or wants the node's memory.
    pub const MOST: Cost = Cost {
        memory_kib: 1 << 20,
        passes: 64,
        lanes: 16,
    };

    /// Is it within these bounds?
    ///
    /// # Errors
    /// It is not.
    pub fn check(&self) -> Result<(), BadPassphrase> {
        let within = |part: fn(&Cost) -> u32| (part(&Cost::LEAST)..=part(&Cost::MOST)).contains(&part(self));
        match within(|cost| cost.memory_kib) && within(|cost| cost.passes) && within(|cost| cost.lanes) {
            true => Ok(()),
            false => Err(BadPassphrase::Cost { cost: *self }),
        }
    }

    pub(crate) fn bytes(&self) -> [u8; 12] {
        let mut bytes = [0; 12];
        let parts = [self.memory_kib, self.passes, self.lanes];
        for (place, part) in bytes.chunks_exact_mut(4).zip(parts) {
            place.copy_from_slice(&part.to_le_bytes());
        }
        bytes
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cost {
            memory_kib,
            passes,
            lanes,
        } = self;
        write!(f, "Argon2id, {memory_kib} KiB, {passes} passes, {lanes} lanes")
    }
}

/// Why a passphrase cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadPassphrase {
    /// It is too short.
    #[error("the passphrase has {characters} characters; {MIN_CHARACTERS} are the fewest")]
    Short {
        /// How many it has.
        characters: usize,
    },
    /// It is too long.
    #[error("the passphrase has {bytes} bytes; {MAX_BYTES} are the most")]
    Long {
        /// How many it has.
        bytes: usize,
    },
    /// The cost is out of bounds.
    #[error(
        "{cost}: between {} and {} KiB, {} and {} passes, {} and {} lanes are taken",
        Cost::LEAST.memory_kib, Cost::MOST.memory_kib, Cost::LEAST.passes, Cost::MOST.passes, Cost::LEAST.lanes, Cost::MOST.lanes
    )]
    Cost {
        /// That cost.
        cost: Cost,
    },
    /// The memory is not there.
    #[error("there is no memory of {memory_kib} KiB to make a key of the passphrase")]
    Memory {
        /// What it takes.
        memory_kib: u32,
    },
}

type Salt = Hex<SALT_BYTES>;

/// See the module.
pub struct Passphrase {
    text: Zeroizing<String>,
    /// What is wrapped from now on.
    cost: Cost,
    salt: Salt,
    /// Keys by salt and cost, the newest last.
    made: Vec<(Salt, Cost, Kek)>,
}

impl Passphrase {
    /// Of this text; line ends at its end are not part of it. What it wraps costs that much to open.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn new(text: &str, cost: Cost, random: Random<'_>) -> Result<Passphrase, BadPassphrase> {
        let text = Zeroizing::new(text.trim_end_matches(['\r', '\n']).to_owned());
        let characters = text.chars().count();
        if characters < MIN_CHARACTERS {
            return Err(BadPassphrase::Short { characters });
        }
        if text.len() > MAX_BYTES {
            return Err(BadPassphrase::Long { bytes: text.len() });
        }
        cost.check()?;
        let mut salt = [0; SALT_BYTES];
        random(&mut salt);
        Ok(Passphrase {
            text,
            cost,
            salt: Hex(salt),
            made: Vec::new(),
        })
    }

    /// The key of this salt and cost.
    fn kek(&mut self, salt: Salt, cost: Cost) -> Result<&Kek, BadPassphrase> {
        let known = self.made.iter().position(|(of, at, _)| (*of, *at) == (salt, cost));
        let place = match known {
            Some(place) => place,
            None => {
                cost.check()?;
                let kek = Kek::new(stretch(self.text.as_bytes(), &salt.0, cost)?);
                if self.made.len() == MAX_KEPT {
                    self.made.remove(0);
                }
                self.made.push((salt, cost, kek));
                self.made.len() - 1
            }
        };
        Ok(&self.made[place].2)
    }
}

/// Argon2id, version 1.3. The memory is wiped.
fn stretch(text: &[u8], salt: &[u8], cost: Cost) -> Result<Box<Zeroizing<[u8; KEK_BYTES]>>, BadPassphrase> {
    let Cost {
        memory_kib,
        passes,
        lanes,
    } = cost;
    let params = Params::new(memory_kib, passes, lanes, Some(KEK_BYTES)).map_err(|_| BadPassphrase::Cost { cost })?;
    let mut memory: Zeroizing<Vec<Block>> = Zeroizing::new(Vec::new());
    let blocks = params.block_count();
    memory
        .try_reserve_exact(blocks)
        .map_err(|_| BadPassphrase::Memory { memory_kib })?;
    memory.resize(blocks, Block::new());
    let mut key = Box::new(Zeroizing::new([0; KEK_BYTES]));
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into_with_memory(text, salt, &mut key[..], &mut memory[..])
        .map_err(|_| BadPassphrase::Cost { cost })?;
    Ok(key)
}

impl Provider for Passphrase {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn first(&mut self) -> Result<WrappingKey, BadPassphrase> {
        let (salt, argon2id) = (self.salt, self.cost);
        let kek = self.kek(salt, argon2id)?.id;
        Ok(WrappingKey(Which::Passphrase { kek, salt, argon2id }))
    }

    fn has(&mut self, by: &WrappingKey) -> Result<bool, BadPassphrase> {
        match &by.0 {
            Which::Passphrase { kek, salt, argon2id } => Ok(self.kek(*salt, *argon2id)?.id == *kek),
            _ => Ok(false),
        }
    }

    fn wrap_by(
        &mut self,
        by: &WrappingKey,
        binding: &Binding,
        key: &DataKey,
        random: Random<'_>,
    ) -> Result<Next<WrappedKey>, KeyError> {
        let label = Label::new(binding, key);
        let not_here = || KeyError::NotHere {
            key: binding.key,
            by: by.clone(),
            given: KIND,
        };
        let Which::Passphrase {
            kek: id,
            salt,
            argon2id: cost,
        } = &by.0
        else {
            return Err(not_here());
        };
        let (salt, cost) = (*salt, *cost);
        let made = self
            .kek(salt, cost)
            .map_err(|why| KeyError::Passphrase { key: binding.key, why })?;
        if made.id != *id {
            return Err(not_here());
        }
        let kek = made.id;
        let told = Told::Passphrase {
            kek: &kek,
            salt: &salt,
            cost,
        };
        let (nonce, wrapped) = made.wrap(&label.associated(&told), key, random);
        let by = By::Passphrase {
            kek,
            salt,
            argon2id: cost,
            nonce,
            wrapped,
        };
        Ok(Next::Done(WrappedKey { label, by }))
    }

    fn unwrap(&mut self, binding: &Binding, wrapped: &WrappedKey) -> Result<Next<DataKey>, KeyError> {
        wrapped.expect(binding)?;
        let By::Passphrase {
            kek: id,
            salt,
            argon2id: cost,
            nonce,
            wrapped: bytes,
        } = &wrapped.by
        else {
            return Err(wrapped.other_provider(KIND));
        };
        let key = binding.key;
        let kek = self
            .kek(*salt, *cost)
            .map_err(|why| KeyError::Passphrase { key, why })?;
        if kek.id != *id {
            return Err(KeyError::OtherPassphrase { key });
        }
        let told = Told::Passphrase {
            kek: id,
            salt,
            cost: *cost,
        };
        let opened = kek.unwrap(&wrapped.label.associated(&told), nonce, bytes);
        let opened = opened.ok_or(KeyError::Damaged { key })?;
        wrapped.label.accept(&opened[..DATA_KEY_BYTES]).map(Next::Done)
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Passphrase({})", self.cost)
    }
}

#[cfg(test)]
mod tests;
