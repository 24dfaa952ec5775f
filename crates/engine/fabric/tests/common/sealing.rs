//! The record layer once more, written from `docs/protocol-wire.md` and not from the crate: what those use who play peers.
#![allow(dead_code)]

use super::proof::Bytes;
use aegis::aegis128x2::{Aegis128X2, Aegis128X2Mac};
use amita_fabric::secure::{Protection, Secrets};
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk};

pub const TAG_BYTES: usize = 16;
const PREFIX_BYTES: usize = 16;

/// Both directions of a link, for as long as no key is followed by another.
pub struct Sealing {
    protection: Protection,
    send: ([u8; 16], u64),
    receive: ([u8; 16], u64),
}

impl Sealing {
    pub fn new(protection: Protection, secrets: &Secrets) -> Sealing {
        let key = |secret: &[u8; 32]| {
            let mut key = [0; 16];
            let prk = Prk::new_less_safe(HKDF_SHA256, secret);
            let okm = prk.expand(&[b"amita fabric key"], Bytes(16)).expect("a short output");
            okm.fill(&mut key).expect("as long");
            key
        };
        Sealing {
            protection,
            send: (key(&secrets.send), 0),
            receive: (key(&secrets.receive), 0),
        }
    }

    /// A whole frame, as it goes over the wire. `frame` is one of a plain link, so that its CRC stands in it.
    pub fn seal(&mut self, frame: &[u8], head_bytes: usize) -> Vec<u8> {
        let (head, payload) = frame.split_at(head_bytes);
        let mut head = head.to_vec();
        head[..4].fill(0);
        let (key, nonce) = next(&mut self.send);
        match self.protection {
            Protection::Auth => {
                let mut mac = Aegis128X2Mac::<TAG_BYTES>::new_with_nonce(&key, &nonce);
                mac.update(&[&head, payload].concat());
                [&head[..], &mac.finalize(), payload].concat()
            }
            Protection::Secret => {
                let (prefix, rest) = head.split_at(PREFIX_BYTES);
                let mut text = [rest, payload].concat();
                let tag = Aegis128X2::<TAG_BYTES>::new(&key, &nonce).encrypt_in_place(&mut text, prefix);
                let (rest, payload) = text.split_at(rest.len());
                [prefix, rest, &tag, payload].concat()
            }
        }
    }

    /// The frame at the front of `data`, as on a plain link, and its bytes on the wire.
    pub fn open(&mut self, data: &[u8]) -> Option<(Vec<u8>, usize)> {
        let (head_bytes, whole) = lengths(data)?;
        let (head, rest) = data.get(..whole)?.split_at(head_bytes);
        let (tag, payload) = rest.split_first_chunk::<TAG_BYTES>()?;
        let (key, nonce) = next(&mut self.receive);
        let mut frame = match self.protection {
            Protection::Auth => {
                let mut mac = Aegis128X2Mac::<TAG_BYTES>::new_with_nonce(&key, &nonce);
                mac.update(&[head, payload].concat());
                mac.verify(tag).expect("the fabric's tags are right");
                [head, payload].concat()
            }
            Protection::Secret => {
                let (prefix, rest) = head.split_at(PREFIX_BYTES);
                let mut text = [rest, payload].concat();
                Aegis128X2::<TAG_BYTES>::new(&key, &nonce)
                    .decrypt_in_place(&mut text, tag, prefix)
                    .expect("the fabric's tags are right");
                [prefix, &text].concat()
            }
        };
        assert_eq!(frame[..4], [0; 4], "no CRC where there is a tag");
        let crc = amita_types::crc32c(&frame[4..head_bytes]);
        frame[..4].copy_from_slice(&crc.to_le_bytes());
        Some((frame, whole))
    }
}

/// Of the frame at the front: bytes of its head, and of all of it with its tag.
pub fn lengths(data: &[u8]) -> Option<(usize, usize)> {
    let prefix = data.first_chunk::<PREFIX_BYTES>()?;
    let head = usize::from(u16::from_le_bytes([prefix[8], prefix[9]]));
    let payload = u32::from_le_bytes(*prefix[12..].first_chunk()?) as usize;
    Some((head, head + TAG_BYTES + payload))
}

fn next((key, number): &mut ([u8; 16], u64)) -> ([u8; 16], [u8; 16]) {
    let mut nonce = [0; 16];
    nonce[..8].copy_from_slice(&number.to_le_bytes());
    *number += 1;
    (*key, nonce)
}
