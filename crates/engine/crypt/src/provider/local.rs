//! Key-encryption keys that are at hand: AES-256-GCM (NIST SP 800-38D) by aws-lc, with random nonces. A cluster wraps some thousand keys
//! in its life, far from the 2^32 that random nonces of 96 bits are good for.

use crate::hex::Hex;
use crate::key::{DATA_KEY_BYTES, DataKey};
use crate::provider::Random;
use crate::wrapped::{KEK_ID_BYTES, NONCE_BYTES, WRAPPED_BYTES};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::digest;
use zeroize::Zeroizing;

/// Bytes of a key-encryption key.
pub(crate) const KEK_BYTES: usize = 32;

/// One key-encryption key.
pub(crate) struct Kek {
    /// The beginning of a hash of it: tells "another key" from "damaged".
    pub id: Hex<KEK_ID_BYTES>,
    bytes: Box<Zeroizing<[u8; KEK_BYTES]>>,
}

impl Kek {
    pub fn new(bytes: Box<Zeroizing<[u8; KEK_BYTES]>>) -> Kek {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(b"amita-crypt 1 key-encryption key id");
        context.update(&bytes[..]);
        let mut id = [0; KEK_ID_BYTES];
        id.copy_from_slice(&context.finish().as_ref()[..KEK_ID_BYTES]);
        Kek { id: Hex(id), bytes }
    }

    fn cipher(&self) -> LessSafeKey {
        LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &self.bytes[..]).expect("32 bytes make a key for AES-256"))
    }

    pub fn wrap(&self, associated: &[u8], key: &DataKey, random: Random<'_>) -> (Hex<NONCE_BYTES>, Hex<WRAPPED_BYTES>) {
        let mut nonce = [0; NONCE_BYTES];
        random(&mut nonce);
        // Plain for a moment: what is left of it when sealing fails is wiped.
        let mut wrapped = Zeroizing::new([0; WRAPPED_BYTES]);
        let (plain, place) = wrapped.split_at_mut(DATA_KEY_BYTES);
        plain.copy_from_slice(key.expose());
        let tag = self
            .cipher()
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(associated), plain)
            .expect("AES-GCM seals up to 64 GiB");
        place.copy_from_slice(tag.as_ref());
        (Hex(nonce), Hex(*wrapped))
    }

    /// `None`: it was not wrapped so.
    pub fn unwrap(
        &self,
        associated: &[u8],
        nonce: &Hex<NONCE_BYTES>,
        wrapped: &Hex<WRAPPED_BYTES>,
    ) -> Option<Zeroizing<[u8; WRAPPED_BYTES]>> {
        let mut opened = Zeroizing::new(wrapped.0);
        self.cipher()
            .open_in_place(
                Nonce::assume_unique_for_key(nonce.0),
                Aad::from(associated),
                &mut opened[..],
            )
            .ok()?;
        Some(opened)
    }
}
