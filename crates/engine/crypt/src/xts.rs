//! XTS-AES-256 (IEEE 1619-2018, clause 5; NIST SP 800-38E) by aws-lc, for data units of whole AES blocks.
//!
//! aws-lc-rs has no XTS, so this calls the C beneath it (`EVP_aes_256_xts`), and is the crate's only `unsafe`. A context of aws-lc has the
//! expanded keys and the tweak of one unit, so threads cannot share one that works. Therefore one context for each direction is keyed
//! and then only read, and each unit is worked on by a copy: 152 bytes on the stack, and a piece of heap with the expanded keys, which
//! aws-lc wipes when the unit is done. No lock is held at any time.
//! `docs/decisions/078-blocks-are-encrypted-by-place-and-version.md` has what else was measured.
//!
//! aws-lc has no path with tables that are looked up by secrets: where the processor has no AES instructions it is vector permutations
//! (`vpaes`) or bit slices (`aes_nohw`), one AES block after the other.
#![allow(unsafe_code)]

use aws_lc_sys::{
    CRYPTO_library_init, EVP_CIPHER_CTX, EVP_CIPHER_CTX_cleanup, EVP_CIPHER_CTX_copy, EVP_CIPHER_CTX_free,
    EVP_CIPHER_CTX_init, EVP_CIPHER_CTX_new, EVP_CipherInit_ex, EVP_CipherUpdate, EVP_aes_256_xts,
};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use zeroize::Zeroizing;

/// Bytes of an AES block.
const AES_BLOCK_BYTES: usize = 16;
/// AES blocks of the longest data unit here, 4 KiB. (The standard allows 2^20.)
pub(crate) const MAX_BLOCKS: usize = 256;
/// Bytes of each of the two keys.
pub(crate) const KEY_BYTES: usize = 32;
/// What aws-lc's functions give back when they have done what they should.
const DONE: c_int = 1;

/// Both keys, expanded for both directions. They are wiped when they are dropped.
pub(crate) struct Xts {
    encrypts: Master,
    decrypts: Master,
}

impl Xts {
    /// Expands both keys.
    ///
    /// # Panics
    /// When they are the same, which no data key's are, or when there is no memory.
    pub fn new(data: &[u8; KEY_BYTES], tweak: &[u8; KEY_BYTES]) -> Xts {
        let mut key = Zeroizing::new([0; 2 * KEY_BYTES]);
        key[..KEY_BYTES].copy_from_slice(data);
        key[KEY_BYTES..].copy_from_slice(tweak);
        Xts {
            encrypts: Master::new(&key, Direction::Encrypt),
            decrypts: Master::new(&key, Direction::Decrypt),
        }
    }

    /// Encrypts one data unit into `to`.
    ///
    /// # Panics
    /// When the unit is not of 1 to [`MAX_BLOCKS`] whole AES blocks, or `to` is not as long.
    pub fn encrypt(&self, tweak: u128, from: &[u8], to: &mut [u8]) {
        self.encrypts.unit(tweak, from, to);
    }

    /// Decrypts one data unit into `to`.
    ///
    /// # Panics
    /// As [`Xts::encrypt`].
    pub fn decrypt(&self, tweak: u128, from: &[u8], to: &mut [u8]) {
        self.decrypts.unit(tweak, from, to);
    }
}

#[derive(Clone, Copy)]
enum Direction {
    Decrypt = 0,
    Encrypt = 1,
}

/// A context with keys and without a tweak. Nothing changes it until it is dropped.
struct Master(NonNull<EVP_CIPHER_CTX>);

// SAFETY: the context and what it points to belong to this `Master` alone, and aws-lc ties neither to a thread.
unsafe impl Send for Master {}
// SAFETY: all that is done by `&Master` is to copy it. `EVP_CIPHER_CTX_copy` takes its source as const, and of that it only reads: it
// copies the structure and `cipher_data`, and XTS' `EVP_CTRL_COPY` (`aes_xts_ctrl`) turns the copy's inner pointers to the copy's own keys.
unsafe impl Sync for Master {}

impl Master {
    fn new(key: &[u8; 2 * KEY_BYTES], direction: Direction) -> Master {
        // SAFETY: it may be called at any time, from any thread and more than once. (It finds out what the processor has, which the
        // form of expanded keys depends on.)
        unsafe { CRYPTO_library_init() };
        // SAFETY: it has no conditions.
        let context = unsafe { EVP_CIPHER_CTX_new() };
        let master = Master(NonNull::new(context).expect("no memory for a context of aws-lc"));
        // SAFETY: the context is a new one and nobody else has it; the cipher is a constant of the library; the key is of the 64 bytes
        // that the cipher has, and is copied; without an engine and a tweak null is right.
        let done = unsafe {
            EVP_CipherInit_ex(
                master.0.as_ptr(),
                EVP_aes_256_xts(),
                ptr::null_mut(),
                key.as_ptr(),
                ptr::null(),
                direction as c_int,
            )
        };
        assert!(
            done == DONE,
            "aws-lc does not take the key: both halves are the same, or there is no memory"
        );
        master
    }

    fn unit(&self, tweak: u128, from: &[u8], to: &mut [u8]) {
        assert!(
            from.len() == to.len(),
            "a unit of {} bytes into {}",
            from.len(),
            to.len()
        );
        assert!(
            from.len().is_multiple_of(AES_BLOCK_BYTES) && (1..=MAX_BLOCKS).contains(&(from.len() / AES_BLOCK_BYTES)),
            "a unit of {} bytes",
            from.len()
        );
        let mut working = Working::new();
        working.copy(self);
        working.begin(tweak);
        working.update(from, to);
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        // SAFETY: the context is of `EVP_CIPHER_CTX_new`, and nobody has it any more. `OPENSSL_free` wipes what it frees.
        unsafe { EVP_CIPHER_CTX_free(self.0.as_ptr()) };
    }
}

/// A context for one unit. What it has on the heap is wiped when it is dropped, also by a panic; on the stack is only the tweak.
struct Working(EVP_CIPHER_CTX);

impl Working {
    fn new() -> Working {
        let mut context = MaybeUninit::uninit();
        // SAFETY: it is valid for writes; the function writes all of it, to zeros but for one number, and zeros are a value of each of
        // its fields (pointers and numbers). Nothing points to it, so that it may be moved.
        Working(unsafe {
            EVP_CIPHER_CTX_init(context.as_mut_ptr());
            context.assume_init()
        })
    }

    fn copy(&mut self, master: &Master) {
        // SAFETY: both are initialized; the target is borrowed by us alone, and of the source the function only reads (see `Sync` of
        // `Master`). If it fails the target has nothing left that would be freed twice.
        let done = unsafe { EVP_CIPHER_CTX_copy(&raw mut self.0, master.0.as_ptr()) };
        assert!(done == DONE, "no memory for a copy of a context of aws-lc");
    }

    fn begin(&mut self, tweak: u128) {
        let tweak = tweak.to_le_bytes();
        // SAFETY: the context is ours alone and has a cipher, so cipher, engine and key may be null, and -1 leaves its direction; the
        // tweak is of the 16 bytes that the cipher has, and is copied.
        let done = unsafe {
            EVP_CipherInit_ex(
                &raw mut self.0,
                ptr::null(),
                ptr::null_mut(),
                ptr::null(),
                tweak.as_ptr(),
                -1,
            )
        };
        assert!(done == DONE, "aws-lc does not take a tweak of 16 bytes");
    }

    /// # Panics
    /// When both are not as long.
    fn update(&mut self, from: &[u8], to: &mut [u8]) {
        let bytes = c_int::try_from(from.len()).expect("a unit is short");
        assert!(from.len() == to.len(), "as long");
        let mut written = 0;
        // SAFETY: the context is ours alone; `from` may be read and `to` written for `bytes` bytes, and they do not overlap, as one is
        // borrowed mutably. XTS has a block size of 1 here, so as many bytes are written as are read.
        let done =
            unsafe { EVP_CipherUpdate(&raw mut self.0, to.as_mut_ptr(), &raw mut written, from.as_ptr(), bytes) };
        assert!(
            done == DONE && written == bytes,
            "aws-lc has worked on {written} bytes of {bytes}"
        );
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        // SAFETY: the context is initialized, ours alone, and not used again. `OPENSSL_free` wipes the keys.
        let done = unsafe { EVP_CIPHER_CTX_cleanup(&raw mut self.0) };
        assert!(done == DONE, "aws-lc does not clean a context up");
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;
