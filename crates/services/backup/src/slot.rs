//! A vault's key, sealed by a passphrase: an object of its own for each passphrase.
//!
//! ```text
//! 0    "AMITABK" (7), version '1'
//! 8    kind (1): 1
//! 9    zero (7)
//! 16   the vault (16)
//! 32   argon2id: memory in KiB (4), passes (4), lanes (4), zero (4)
//! 48   argon2id: salt (16)
//! 64   nonce (12)
//! 76   AES-256-GCM of the vault's key (32), and its tag (16); associated is what stands before
//! 124  SHA-256 of what stands before: a damaged object is told from a wrong passphrase
//! 156  end
//! ```

use crate::codec::Malformed;
use crate::error::Error;
use crate::seal::{MAGIC, MasterKey, VERSION, random};
use crate::vault::VaultId;
use argon2::{Algorithm, Argon2, Block, Params, Version};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::digest::{SHA256, digest};
use zeroize::Zeroizing;

pub(crate) const SLOT_BYTES: usize = 156;
const SEALED_AT: usize = 76;
const SUM_AT: usize = 124;
const KIND: u8 = 1;

/// What it costs to try a passphrase (argon2id, RFC 9106).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Memory, in KiB.
    pub memory_kib: u32,
    /// How many times it is gone through.
    pub passes: u32,
    /// Lanes; they are computed one after the other here.
    pub lanes: u32,
}

impl Default for Cost {
    /// 256 MiB, three times: about a second, once for each opening of a vault.
    fn default() -> Cost {
        Cost {
            memory_kib: 256 << 10,
            passes: 3,
            lanes: 1,
        }
    }
}

impl Cost {
    /// For what nobody has thought up: 256 random bits cannot be tried out, however quickly one try goes.
    pub const OF_RANDOM_BITS: Cost = Cost {
        memory_kib: 1 << 10,
        passes: 1,
        lanes: 1,
    };

    /// Whoever can write into the repository must not be able to have 4 TiB taken.
    pub const MOST: Cost = Cost {
        memory_kib: 4 << 20,
        passes: 64,
        lanes: 16,
    };

    fn is_bearable(self) -> bool {
        let lanes = (1..=Cost::MOST.lanes).contains(&self.lanes);
        lanes && self.memory_kib >= 8 * self.lanes && self.passes >= 1 && self.is_within(Cost::MOST)
    }

    /// Lanes are only another order of the same work.
    fn is_within(self, most: Cost) -> bool {
        self.memory_kib <= most.memory_kib && self.passes <= most.passes
    }
}

/// What a passphrase begins with that was drawn and not thought up: 64 hexadecimal digits follow.
pub const DRAWN: &str = "amita-backup-key-1:";
const DRAWN_DIGITS: usize = 64;

/// Was it drawn?
#[must_use]
pub fn is_drawn(passphrase: &[u8]) -> bool {
    let digits = passphrase.strip_prefix(DRAWN.as_bytes()).unwrap_or_default();
    digits.len() == DRAWN_DIGITS && digits.iter().all(u8::is_ascii_hexdigit)
}

/// An object that has the vault's key, sealed by a passphrase.
#[derive(Clone, PartialEq, Eq)]
pub struct KeySlot {
    vault: VaultId,
    cost: Cost,
    bytes: [u8; SLOT_BYTES],
}

fn sealing_key(passphrase: &[u8], salt: &[u8], cost: Cost) -> Result<LessSafeKey, Error> {
    let failed = |_| Error::Cryptography("argon2id refuses the passphrase or its cost");
    let params = Params::new(cost.memory_kib, cost.passes, cost.lanes, Some(32)).map_err(failed)?;
    let mut memory = Vec::new();
    let blocks = params.block_count();
    let too_large = |_| Error::Cryptography("there is no memory for argon2id");
    memory.try_reserve_exact(blocks).map_err(too_large)?;
    memory.resize(blocks, Block::new());
    let mut key = Zeroizing::new([0; 32]);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into_with_memory(passphrase, salt, &mut key[..], &mut memory[..])
        .map_err(failed)?;
    let key = UnboundKey::new(&AES_256_GCM, &key[..]).map_err(|_| Error::Cryptography("no key is made"))?;
    Ok(LessSafeKey::new(key))
}

impl KeySlot {
    /// Seals a vault's key; by a passphrase that was drawn at that one's cost alone, for at no other it is tried.
    pub(crate) fn seal(vault: VaultId, master: &MasterKey, passphrase: &[u8], cost: Cost) -> Result<KeySlot, Error> {
        let cost = if is_drawn(passphrase) {
            Cost::OF_RANDOM_BITS
        } else {
            cost
        };
        KeySlot::seal_at(vault, master, passphrase, cost)
    }

    pub(crate) fn seal_at(vault: VaultId, master: &MasterKey, passphrase: &[u8], cost: Cost) -> Result<KeySlot, Error> {
        if !cost.is_bearable() {
            return Err(Error::Limit {
                what: "the cost of a passphrase",
                most: 4 << 20,
            });
        }
        let mut bytes = [0; SLOT_BYTES];
        bytes[..7].copy_from_slice(MAGIC);
        bytes[7] = VERSION;
        bytes[8] = KIND;
        bytes[16..32].copy_from_slice(&vault.0);
        for (at, value) in [(32, cost.memory_kib), (36, cost.passes), (40, cost.lanes)] {
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        bytes[48..64].copy_from_slice(&random::<16>()?);
        bytes[64..76].copy_from_slice(&random::<12>()?);
        let key = sealing_key(passphrase, &bytes[48..64], cost)?;
        let mut sealed = master.to_vec();
        let nonce = Nonce::try_assume_unique_for_key(&bytes[64..76]).map_err(|_| Error::Cryptography("no nonce"))?;
        key.seal_in_place_append_tag(nonce, Aad::from(&bytes[..SEALED_AT]), &mut sealed)
            .map_err(|_| Error::Cryptography("nothing is sealed"))?;
        bytes[SEALED_AT..SUM_AT].copy_from_slice(&sealed);
        let sum = digest(&SHA256, &bytes[..SUM_AT]);
        bytes[SUM_AT..].copy_from_slice(sum.as_ref());
        Ok(KeySlot { vault, cost, bytes })
    }

    /// Reads one.
    ///
    /// # Errors
    /// What is wrong with it; of another version, too.
    pub fn parse(bytes: &[u8]) -> Result<KeySlot, Malformed> {
        let bytes: [u8; SLOT_BYTES] = bytes.try_into().map_err(|_| Malformed("a key has another length"))?;
        if &bytes[..7] != MAGIC || bytes[8] != KIND {
            return Err(Malformed("it does not begin as a key does"));
        }
        if bytes[7] != VERSION {
            return Err(Malformed("it is of a version that this one does not know"));
        }
        if digest(&SHA256, &bytes[..SUM_AT]).as_ref() != &bytes[SUM_AT..] {
            return Err(Malformed("its checksum is wrong"));
        }
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let cost = Cost {
            memory_kib: number(32),
            passes: number(36),
            lanes: number(40),
        };
        if !cost.is_bearable() {
            return Err(Malformed("it would cost more memory or time than a key may"));
        }
        let mut vault = VaultId([0; 16]);
        vault.0.copy_from_slice(&bytes[16..32]);
        Ok(KeySlot { vault, cost, bytes })
    }

    /// Whose key it is.
    #[must_use]
    pub fn vault(&self) -> VaultId {
        self.vault
    }

    /// The object.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn is_within(&self, most: Cost) -> bool {
        self.cost.is_within(most)
    }

    /// `None`: it is another passphrase.
    pub(crate) fn open(&self, passphrase: &[u8]) -> Result<Option<MasterKey>, Error> {
        // Others may have put it, at a cost of theirs: nothing is computed for that.
        if is_drawn(passphrase) && self.cost != Cost::OF_RANDOM_BITS {
            return Ok(None);
        }
        let key = sealing_key(passphrase, &self.bytes[48..64], self.cost)?;
        let nonce =
            Nonce::try_assume_unique_for_key(&self.bytes[64..76]).map_err(|_| Error::Cryptography("no nonce"))?;
        let mut sealed = Zeroizing::new(self.bytes[SEALED_AT..SUM_AT].to_vec());
        let Ok(opened) = key.open_in_place(nonce, Aad::from(&self.bytes[..SEALED_AT]), &mut sealed) else {
            return Ok(None);
        };
        let mut master = Zeroizing::new([0; 32]);
        master.copy_from_slice(opened);
        Ok(Some(master))
    }
}
