//! XTS-AES-256 (IEEE 1619-2018, clause 5; NIST SP 800-38E), for data units of whole AES blocks.
//!
//! Each AES block is whitened before and after by a mask: the first one is the tweak, encrypted by the second key, and each next one
//! is the one before times x in GF(2^128). The masks of a unit are made eight at a time, so that none waits for the one before, and
//! AES gets all of the unit at once, so that it can work on as many blocks side by side as the processor likes.

use aes::cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use aes::{Aes256, Aes256Enc, Block};

/// AES blocks of the longest data unit here, 4 KiB. (The standard allows 2^20.)
pub(crate) const MAX_BLOCKS: usize = 256;
/// Bytes of each of the two keys.
pub(crate) const KEY_BYTES: usize = 32;
/// Masks that are made side by side.
const LANES: usize = 8;

/// Both keys, expanded. They are wiped when they are dropped.
pub(crate) struct Xts {
    data: Aes256,
    tweak: Aes256Enc,
}

type Masks = [u128; MAX_BLOCKS];

impl Xts {
    pub fn new(data: &[u8; KEY_BYTES], tweak: &[u8; KEY_BYTES]) -> Xts {
        Xts {
            data: Aes256::new(data.into()),
            tweak: Aes256Enc::new(tweak.into()),
        }
    }

    /// Encrypts one data unit into `to`.
    ///
    /// # Panics
    /// When the unit is not of 1 to [`MAX_BLOCKS`] whole AES blocks, or `to` is not as long.
    pub fn encrypt(&self, tweak: u128, from: &[u8], to: &mut [u8]) {
        let masks = &mut [0; MAX_BLOCKS];
        let (blocks, masks) = self.begin(tweak, from, to, masks);
        self.data.encrypt_blocks(blocks);
        whiten(blocks, masks);
    }

    /// Decrypts one data unit into `to`.
    ///
    /// # Panics
    /// As [`Xts::encrypt`].
    pub fn decrypt(&self, tweak: u128, from: &[u8], to: &mut [u8]) {
        let masks = &mut [0; MAX_BLOCKS];
        let (blocks, masks) = self.begin(tweak, from, to, masks);
        self.data.decrypt_blocks(blocks);
        whiten(blocks, masks);
    }

    /// The unit whitened, in `to`, and its masks.
    fn begin<'a>(
        &self,
        tweak: u128,
        from: &[u8],
        to: &'a mut [u8],
        masks: &'a mut Masks,
    ) -> (&'a mut [Block], &'a [u128]) {
        assert!(
            from.len() == to.len(),
            "a unit of {} bytes into {}",
            from.len(),
            to.len()
        );
        let (source, rest) = Array::slice_as_chunks(from);
        assert!(
            rest.is_empty() && (1..=MAX_BLOCKS).contains(&source.len()),
            "a unit of {} bytes",
            from.len()
        );
        let (blocks, _) = Array::slice_as_chunks_mut(to);
        let masks = &mut masks[..source.len()];
        self.fill(tweak, masks);
        for ((block, from), mask) in blocks.iter_mut().zip(source).zip(&*masks) {
            *block = Array((number(from) ^ mask).to_le_bytes());
        }
        (blocks, masks)
    }

    fn fill(&self, tweak: u128, masks: &mut [u128]) {
        let mut first: Block = Array(tweak.to_le_bytes());
        self.tweak.encrypt_block(&mut first);
        let mut lanes = [number(&first); LANES];
        for at in 1..LANES {
            lanes[at] = double(lanes[at - 1]);
        }
        for group in masks.chunks_mut(LANES) {
            group.copy_from_slice(&lanes[..group.len()]);
            lanes = lanes.map(times_x8);
        }
    }
}

fn whiten(blocks: &mut [Block], masks: &[u128]) {
    for (block, mask) in blocks.iter_mut().zip(masks) {
        *block = Array((number(block) ^ mask).to_le_bytes());
    }
}

/// A block as the standard reads it: little-endian.
fn number(block: &Block) -> u128 {
    u128::from_le_bytes(block.0)
}

/// Times x, modulo x^128 + x^7 + x^2 + x + 1.
fn double(mask: u128) -> u128 {
    (mask << 1) ^ ((mask >> 127) * 0x87)
}

/// Times x^8. What leaves at the top is eight bits, and comes back as itself times x^7 + x^2 + x + 1.
fn times_x8(mask: u128) -> u128 {
    let top = mask >> 120;
    (mask << 8) ^ top ^ (top << 1) ^ (top << 2) ^ (top << 7)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;
