//! The record layer: what protects each frame of a link, once the handshake has given its secrets.
//!
//! Each direction has a secret, made of it a key, and a counter of frames, which is the nonce and is never sent: a frame that
//! is repeated, left out, moved or changed fails at its tag, and the link ends. After [`crate::limits::REKEY_FRAMES`] frames
//! the secret is followed by the next one (HKDF, RFC 5869) and forgotten. The cipher is AEGIS-128X2 (RFC 10032): one pass over
//! a frame of 4 KiB takes a quarter of what GMAC takes (`docs/decisions/028-record-layer.md`).
//!
//! ```text
//! auth:    head, its CRC field 0 │ tag (16) │ payload                 tag over head and payload
//! secret:  prefix (16), CRC 0    │ E(rest of the head) │ tag (16) │ E(payload)     associated: the prefix
//! ```

use crate::codec::PREFIX_BYTES;
use crate::secure::{Protection, SECRET_BYTES, Secrets};
use aegis::aegis128x2::{Aegis128X2, Aegis128X2Mac};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk};
use std::fmt;
use zeroize::Zeroizing;

/// Bytes that a tag adds to a frame.
pub(crate) const TAG_BYTES: usize = 16;
const KEY_BYTES: usize = 16;
const NONCE_BYTES: usize = 16;

/// A frame whose tag is wrong: somebody on the way has changed, repeated, left out or added one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forged;

struct Bytes(usize);

impl KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

fn expand(secret: &[u8; SECRET_BYTES], label: &[u8], out: &mut [u8]) {
    Prk::new_less_safe(HKDF_SHA256, secret)
        .expand(&[label], Bytes(out.len()))
        .and_then(|okm| okm.fill(out))
        .expect("a short output");
}

/// One direction of a link.
struct Direction {
    secret: Zeroizing<[u8; SECRET_BYTES]>,
    key: Zeroizing<[u8; KEY_BYTES]>,
    /// The next frame's number.
    number: u64,
    rekey_frames: u64,
}

impl Direction {
    fn new(secret: Zeroizing<[u8; SECRET_BYTES]>, rekey_frames: u64) -> Direction {
        let mut direction = Direction {
            secret,
            key: Zeroizing::default(),
            number: 0,
            rekey_frames: rekey_frames.max(1),
        };
        expand(&direction.secret, b"amita fabric key", &mut *direction.key);
        direction
    }

    /// The nonce of the next frame; its key is [`Direction::key`].
    fn next(&mut self) -> [u8; NONCE_BYTES] {
        if self.number > 0 && self.number.is_multiple_of(self.rekey_frames) {
            self.follow();
        }
        let mut nonce = [0; NONCE_BYTES];
        nonce[..8].copy_from_slice(&self.number.to_le_bytes());
        self.number += 1;
        nonce
    }

    #[cold]
    fn follow(&mut self) {
        let mut next = Zeroizing::new([0; SECRET_BYTES]);
        expand(&self.secret, b"amita fabric next", &mut *next);
        self.secret = next;
        expand(&self.secret, b"amita fabric key", &mut *self.key);
    }
}

/// Both directions of a link.
pub(crate) struct Records {
    protection: Protection,
    send: Direction,
    receive: Direction,
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records")
            .field("protection", &self.protection)
            .field("sent", &self.send.number)
            .field("received", &self.receive.number)
            .finish_non_exhaustive()
    }
}

impl Records {
    pub(crate) fn new(protection: Protection, secrets: Secrets, rekey_frames: u64) -> Records {
        Records {
            protection,
            send: Direction::new(secrets.send, rekey_frames),
            receive: Direction::new(secrets.receive, rekey_frames),
        }
    }

    pub(crate) fn protection(&self) -> Protection {
        self.protection
    }

    /// Protects a frame that is sent in the clear: its tag. The head's CRC field becomes 0, the tag stands for it.
    pub(crate) fn authenticate(&mut self, head: &mut [u8], payload: &[u8]) -> [u8; TAG_BYTES] {
        clear_crc(head);
        let nonce = self.send.next();
        mac(&self.send.key, &nonce, head, payload).finalize()
    }

    /// Encrypts a frame: the head in place, the payload to `out`, which has its length. Returns the tag.
    pub(crate) fn encrypt(&mut self, head: &mut [u8], payload: &[u8], out: &mut [u8]) -> [u8; TAG_BYTES] {
        clear_crc(head);
        let nonce = self.send.next();
        let (prefix, rest) = head.split_at_mut(PREFIX_BYTES);
        seal(&self.send.key, &nonce, prefix, rest, payload, out)
    }

    /// Is this frame the next one that the peer has sent?
    pub(crate) fn verify(&mut self, head: &[u8], tag: &[u8; TAG_BYTES], payload: &[u8]) -> Result<(), Forged> {
        has_no_crc(head)?;
        let nonce = self.receive.next();
        let mac = mac(&self.receive.key, &nonce, head, payload);
        mac.verify(tag).map_err(|_| Forged)
    }

    /// Decrypts the frame: the rest of the head, then the payload, to `out`, which has the length of both. Nothing is in it
    /// when the frame is not the next one that the peer has sent.
    pub(crate) fn decrypt(
        &mut self,
        head: &[u8],
        tag: &[u8; TAG_BYTES],
        payload: &[u8],
        out: &mut [u8],
    ) -> Result<(), Forged> {
        has_no_crc(head)?;
        let nonce = self.receive.next();
        let (prefix, rest) = head.split_at(PREFIX_BYTES);
        open(&self.receive.key, &nonce, prefix, [rest, payload], tag, out)
    }
}

type Key = [u8; KEY_BYTES];
type Nonce = [u8; NONCE_BYTES];

fn mac(key: &Key, nonce: &Nonce, head: &[u8], payload: &[u8]) -> Aegis128X2Mac<TAG_BYTES> {
    let mut mac = Aegis128X2Mac::new_with_nonce(key, nonce);
    mac.update(head);
    mac.update(payload);
    mac
}

fn seal(key: &Key, nonce: &Nonce, known: &[u8], head: &mut [u8], payload: &[u8], out: &mut [u8]) -> [u8; TAG_BYTES] {
    let mut encryptor = Aegis128X2::<TAG_BYTES>::new(key, nonce).encryptor(known);
    encryptor.update_in_place(head);
    encryptor.update(payload, out);
    encryptor.finalize()
}

fn open(
    key: &Key,
    nonce: &Nonce,
    known: &[u8],
    text: [&[u8]; 2],
    tag: &[u8; TAG_BYTES],
    out: &mut [u8],
) -> Result<(), Forged> {
    let cipher = Aegis128X2::<TAG_BYTES>::new(key, nonce);
    let mut decryptor = cipher.decryptor(known, out);
    let done = decryptor
        .update(text[0])
        .and_then(|()| decryptor.update(text[1]))
        .and_then(|()| decryptor.finalize(tag).map(|_| ()));
    done.map_err(|_| Forged)
}

const CRC_BYTES: usize = 4;

fn clear_crc(head: &mut [u8]) {
    head[..CRC_BYTES].fill(0);
}

/// Those four bytes are under the tag as well; what is not zero there was not made by this layer.
fn has_no_crc(head: &[u8]) -> Result<(), Forged> {
    let is_zero = head.first_chunk() == Some(&[0; CRC_BYTES]);
    is_zero.then_some(()).ok_or(Forged)
}

#[cfg(test)]
mod tests;
