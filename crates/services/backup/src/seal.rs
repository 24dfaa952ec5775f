//! Keys, and how objects are sealed.
//!
//! ```text
//! 0   "AMITABK" (7), version '1'
//! 8   kind of object (1): journal 2, pack 3, checkpoint 4
//! 9   compressed (1): 0 or 1
//! 10  length of what is sealed before compression (6, little-endian); 0 in packs
//! 16  salt (32): random, of this object alone
//! 48  AES-256-GCM of the body, and its tag (16); a pack has many instead
//! ```
//!
//! Each object has a key of its own: HKDF-Expand of the vault's key with its kind and its salt. So nonces are numbers inside of one object,
//! and none is ever used twice. Associated are the head, the vault and the object's name: an object that stands under another name, or in
//! another vault, does not open.

use crate::codec::Malformed;
use crate::error::Error;
use crate::piece::{Class, ID_BYTES, PieceId, compress, expand};
use crate::vault::VaultId;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk};
use aws_lc_rs::hmac;
use zeroize::Zeroizing;

/// What an object's head begins with; the next byte is the version.
pub(crate) const MAGIC: &[u8; 7] = b"AMITABK";
/// The version that is written.
pub(crate) const VERSION: u8 = b'1';
pub(crate) const HEAD_BYTES: usize = 48;
pub(crate) const SALT_BYTES: usize = 32;
pub(crate) const TAG_BYTES: usize = 16;
/// The longest body: of a checkpoint, which is not made of a vault whose is longer.
pub(crate) const MAX_BODY_BYTES: usize = 1 << 30;

/// A vault's key: 256 random bits.
pub(crate) type MasterKey = Zeroizing<[u8; 32]>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Journal = 2,
    Pack = 3,
    Checkpoint = 4,
}

pub(crate) fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| Error::Cryptography("no random numbers"))?;
    Ok(bytes)
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn derive(secret: &[u8; 32], what: &[&[u8]]) -> Result<Zeroizing<[u8; 32]>, Error> {
    let mut key = Zeroizing::new([0; 32]);
    let filled = Prk::new_less_safe(HKDF_SHA256, secret)
        .expand(what, Length(32))
        .and_then(|output| output.fill(&mut key[..]));
    filled.map_err(|_| Error::Cryptography("no key is derived"))?;
    Ok(key)
}

/// What is derived from a vault's key.
pub(crate) struct Keys {
    vault: VaultId,
    objects: Zeroizing<[u8; 32]>,
    names: hmac::Key,
}

/// The key of one object.
pub(crate) struct ObjectKey(LessSafeKey);

impl ObjectKey {
    pub fn seal(&self, nonce: u32, associated: &[u8], body: &mut Vec<u8>) -> Result<(), Error> {
        self.0
            .seal_in_place_append_tag(place(nonce), Aad::from(associated), body)
            .map_err(|_| Error::Cryptography("nothing is sealed"))
    }

    pub fn open<'a>(&self, nonce: u32, associated: &[u8], sealed: &'a mut [u8]) -> Result<&'a [u8], Malformed> {
        let opened = self.0.open_in_place(place(nonce), Aad::from(associated), sealed);
        opened
            .map(|body| &*body)
            .map_err(|_| Malformed("its seal does not open"))
    }
}

fn place(nonce: u32) -> Nonce {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&nonce.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

impl Keys {
    pub fn new(vault: VaultId, master: &MasterKey) -> Result<Keys, Error> {
        let names = derive(master, &[b"amita-backup/1 names of pieces"])?;
        Ok(Keys {
            vault,
            objects: derive(master, &[b"amita-backup/1 objects"])?,
            names: hmac::Key::new(hmac::HMAC_SHA256, &names[..]),
        })
    }

    pub fn name(&self, class: Class, bytes: &[u8]) -> PieceId {
        let mut context = hmac::Context::with_key(&self.names);
        context.update(&[class as u8]);
        context.update(bytes);
        let mut id = [0; ID_BYTES];
        id.copy_from_slice(&context.sign().as_ref()[..ID_BYTES]);
        PieceId(id)
    }

    pub fn object(&self, kind: Kind, salt: &[u8; SALT_BYTES]) -> Result<ObjectKey, Error> {
        let key = derive(&self.objects, &[&[kind as u8], salt])?;
        let key = UnboundKey::new(&AES_256_GCM, &key[..]).map_err(|_| Error::Cryptography("no key is made"))?;
        Ok(ObjectKey(LessSafeKey::new(key)))
    }

    /// What a seal is bound to: the object's head, the vault, the object's name, and what else is said of it.
    pub fn associated(&self, head: &[u8; HEAD_BYTES], name: &str, more: &[u8]) -> Vec<u8> {
        [
            &head[..],
            &self.vault.0,
            &(name.len() as u32).to_le_bytes(),
            name.as_bytes(),
            more,
        ]
        .concat()
    }

    /// A whole object.
    pub fn seal(&self, kind: Kind, name: &str, body: &[u8]) -> Result<Vec<u8>, Error> {
        if body.len() > MAX_BODY_BYTES {
            return Err(Error::Limit {
                what: "an object",
                most: MAX_BODY_BYTES as u64,
            });
        }
        let packed = compress(body);
        let salt = random()?;
        let head = head(kind, packed.is_some(), body.len(), &salt);
        let mut sealed = packed.unwrap_or_else(|| body.to_vec());
        self.object(kind, &salt)?
            .seal(0, &self.associated(&head, name, &[]), &mut sealed)?;
        Ok([&head[..], &sealed].concat())
    }

    /// The body of an object that was read under `name`.
    pub fn open(&self, kind: Kind, name: &str, mut bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
        let damaged = |why: Malformed| Error::Damaged {
            object: name.to_owned(),
            why: why.0,
        };
        let head = parse_head(kind, name, &bytes)?;
        let key = self.object(kind, &head.salt)?;
        let associated = self.associated(&head.bytes, name, &[]);
        let body = key.open(0, &associated, &mut bytes[HEAD_BYTES..]).map_err(damaged)?;
        if head.compressed {
            return expand(body, head.length).map_err(damaged);
        }
        Ok(body.to_vec())
    }
}

pub(crate) fn head(kind: Kind, compressed: bool, length: usize, salt: &[u8; SALT_BYTES]) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..7].copy_from_slice(MAGIC);
    head[7] = VERSION;
    head[8] = kind as u8;
    head[9] = u8::from(compressed);
    head[10..16].copy_from_slice(&(length as u64).to_le_bytes()[..6]);
    head[16..].copy_from_slice(salt);
    head
}

pub(crate) struct Head {
    pub bytes: [u8; HEAD_BYTES],
    pub compressed: bool,
    pub length: usize,
    pub salt: [u8; SALT_BYTES],
}

/// Checks what every object begins with.
pub(crate) fn parse_head(kind: Kind, name: &str, bytes: &[u8]) -> Result<Head, Error> {
    let damaged = |why| Error::Damaged {
        object: name.to_owned(),
        why,
    };
    let head = bytes
        .first_chunk::<HEAD_BYTES>()
        .ok_or_else(|| damaged("it is too short"))?;
    if &head[..7] != MAGIC {
        return Err(damaged("it does not begin as an object of a backup does"));
    }
    if head[7] != VERSION {
        return Err(Error::NewerFormat {
            object: name.to_owned(),
            version: char::from(head[7]),
        });
    }
    if head[8] != kind as u8 {
        return Err(damaged("it is an object of another kind"));
    }
    let mut length = [0; 8];
    length[..6].copy_from_slice(&head[10..16]);
    let length = usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX);
    if head[9] > 1 || length > MAX_BODY_BYTES {
        return Err(damaged("its head says what cannot be"));
    }
    let mut salt = [0; SALT_BYTES];
    salt.copy_from_slice(&head[16..]);
    Ok(Head {
        bytes: *head,
        compressed: head[9] == 1,
        length,
        salt,
    })
}
