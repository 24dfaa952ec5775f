//! The first message of a TLS connection, before the library sees it: which keys the host offers, and whether it has
//! them.
//!
//! The library must be given the key before it is given the message, and the key can be known only from the message.
//! So it is read here, without being taken: the offered identities (RFC 8446, 4.2.11), and their binders, by which the
//! host proves that it has the key (4.2.11.2). The proof is checked here already, since one identity of version 0 can
//! stand for two keys (see [`super::derive`]), and so that a stranger costs some hashes and no connection of the library.
//! The library checks it again.

use super::derive::{Dialect, Psk, PskIdentity, expand_label, extract, hkdf};
use amita_keys::Hash;
use aws_lc_rs::hmac;

const RECORD_HANDSHAKE: u8 = 0x16;
const RECORD_HEAD_BYTES: usize = 5;
const MAX_RECORD_BYTES: usize = 1 << 14;
const CLIENT_HELLO: u8 = 1;
const HANDSHAKE_HEAD_BYTES: usize = 4;
/// A ClientHello has some hundred bytes, and some thousand with the shares of post-quantum groups.
pub(super) const MAX_HELLO_BYTES: usize = 16 << 10;
/// More identities than these are not looked at: a Linux host offers one.
const MAX_OFFERS: usize = 8;

const EXTENSION_PRE_SHARED_KEY: u16 = 41;

/// What was found at the front of the stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Not all of it has come; it has at least this many bytes in all.
    Incomplete(usize),
    /// It is no ClientHello, or none that can be read.
    Wrong(&'static str),
    /// A host that offers these keys; none if it wants to be known by a certificate.
    Hello(Hello),
}

/// A ClientHello, as far as it matters.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Hello {
    pub offers: Vec<Offer>,
    /// The message up to the binders: what they sign.
    signed: Vec<u8>,
}

/// A key that the host says to have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub identity: Vec<u8>,
    binder: Vec<u8>,
}

/// Reads a message from its front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(front)
    }

    fn number(&mut self, bytes: usize) -> Option<usize> {
        Some(
            self.take(bytes)?
                .iter()
                .fold(0, |number, byte| number << 8 | usize::from(*byte)),
        )
    }

    /// A vector with its length before it, in that many bytes.
    fn vector(&mut self, length_bytes: usize) -> Option<Reader<'a>> {
        let bytes = self.number(length_bytes)?;
        self.take(bytes).map(Reader)
    }
}

/// Looks at the front of the stream.
pub(super) fn find(stream: &[u8]) -> Found {
    // The message may be cut into several records (RFC 8446, 5.1).
    let mut message = Vec::new();
    let mut rest = stream;
    loop {
        let seen = stream.len() - rest.len();
        let Some((head, after)) = rest.split_first_chunk::<RECORD_HEAD_BYTES>() else {
            return Found::Incomplete(seen + RECORD_HEAD_BYTES);
        };
        let bytes = usize::from(u16::from_be_bytes([head[3], head[4]]));
        if head[0] != RECORD_HANDSHAKE || head[1] != 3 || bytes == 0 || bytes > MAX_RECORD_BYTES {
            return Found::Wrong("no TLS handshake");
        }
        if seen + RECORD_HEAD_BYTES + bytes > MAX_HELLO_BYTES {
            return Found::Wrong("the TLS handshake begins with too long a message");
        }
        let Some((body, after)) = after.split_at_checked(bytes) else {
            return Found::Incomplete(seen + RECORD_HEAD_BYTES + bytes);
        };
        message.extend_from_slice(body);
        rest = after;
        let Some(head) = message.first_chunk::<HANDSHAKE_HEAD_BYTES>() else {
            continue;
        };
        let [kind, a, b, c] = *head;
        let bytes = HANDSHAKE_HEAD_BYTES + (usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c));
        if kind != CLIENT_HELLO {
            return Found::Wrong("the TLS handshake does not begin with a ClientHello");
        }
        if bytes > MAX_HELLO_BYTES {
            return Found::Wrong("the TLS handshake begins with too long a message");
        }
        if message.len() >= bytes {
            message.truncate(bytes);
            return read(message).map_or(Found::Wrong("a ClientHello that cannot be read"), Found::Hello);
        }
    }
}

fn read(message: Vec<u8>) -> Option<Hello> {
    let mut reader = Reader(&message[HANDSHAKE_HEAD_BYTES..]);
    // Version, random, session id, cipher suites, compression methods.
    reader.take(2 + 32)?;
    reader.vector(1)?;
    reader.vector(2)?;
    reader.vector(1)?;
    if reader.0.is_empty() {
        return Some(Hello::default());
    }
    let mut extensions = reader.vector(2)?;
    if !reader.0.is_empty() {
        return None;
    }
    while !extensions.0.is_empty() {
        let kind = extensions.number(2)?;
        let mut body = extensions.vector(2)?;
        if kind != usize::from(EXTENSION_PRE_SHARED_KEY) {
            continue;
        }
        // "The "pre_shared_key" extension MUST be the last extension in the ClientHello" (RFC 8446, 4.2.11).
        if !extensions.0.is_empty() {
            return None;
        }
        let mut identities = body.vector(2)?;
        let binders_bytes = body.0.len();
        let mut binders = body.vector(2)?;
        if !body.0.is_empty() {
            return None;
        }
        let mut offers = Vec::new();
        while !identities.0.is_empty() {
            let identity = identities.vector(2)?.0;
            identities.take(4)?;
            let binder = binders.vector(1)?.0;
            if offers.len() < MAX_OFFERS {
                offers.push(Offer {
                    identity: identity.to_vec(),
                    binder: binder.to_vec(),
                });
            }
        }
        if !binders.0.is_empty() {
            return None;
        }
        let mut signed = message;
        signed.truncate(signed.len() - binders_bytes);
        return Some(Hello { offers, signed });
    }
    Some(Hello::default())
}

impl Hello {
    /// Is the offer's binder as long as the hash of its identity?
    pub fn has_hash_of(&self, offer: &Offer, identity: &PskIdentity) -> bool {
        offer.binder.len() == identity.hash.len_bytes()
    }

    /// Does the binder of an offer prove that the host has this key?
    pub fn proves(&self, offer: &Offer, psk: &Psk) -> bool {
        let hash = psk.identity.hash;
        binder_key(hash, &psk.secret)
            .is_some_and(|key| hmac::verify(&key, &hash.digest(&self.signed), &offer.binder).is_ok())
    }
}

/// The key that binders of an external key are made with (RFC 8446, 7.1 and 4.4.4).
fn binder_key(hash: Hash, psk: &[u8]) -> Option<hmac::Key> {
    let bytes = hash.len_bytes();
    let early = extract(hash, psk);
    let binder = expand_label(Dialect::Standard, &early, "ext binder", &hash.digest(&[]), bytes)?;
    let binder = aws_lc_rs::hkdf::Prk::new_less_safe(hkdf(hash), &binder);
    let finished = expand_label(Dialect::Standard, &binder, "finished", &[], bytes)?;
    Some(hmac::Key::new(hash.hmac_algorithm(), &finished))
}
