//! Packs: objects of many pieces.
//!
//! ```text
//! 0    head (48), see seal.rs
//! 48   the pieces, each compressed or not, sealed, with its tag (16): nonce 1, 2, 3...
//! ...  the directory, sealed: nonce 0
//! end  length of the sealed directory (4), zero (4), "AMITAEND" (8)
//! ```
//!
//! A pack tells what it has, so that it can be checked by itself; whoever works with a vault knows it from the journal.

use crate::codec::{Cursor, Malformed, Writer};
use crate::error::Error;
use crate::piece::{Class, ID_BYTES, MAX_PIECE_BYTES, MAX_RAW_BYTES, PieceId, compress, expand};
use crate::seal::{HEAD_BYTES, Keys, Kind, ObjectKey, SALT_BYTES, TAG_BYTES, head, parse_head, random};
use crate::state::SessionId;
use std::fmt;

const END: &[u8; 8] = b"AMITAEND";
const FOOT_BYTES: usize = 16;
/// The longest pack: offsets have 32 bits.
pub(crate) const MAX_PACK_BYTES: u64 = 1 << 30;
/// Pieces of a pack: nonces have 32 bits, and a directory is read as a whole.
pub(crate) const MAX_PACK_PIECES: usize = 1 << 18;
/// A directory's record is at least so long.
const RECORD_BYTES: usize = ID_BYTES + 3;

/// The name of a pack: who made it, and which of theirs it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackName {
    /// Who made it.
    pub session: SessionId,
    /// Which one, from 0 on.
    pub count: u32,
}

impl fmt::Display for PackName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:08x}", self.session.0, self.count)
    }
}

impl PackName {
    /// The pack of the last part of an object's name; none: it is no pack's.
    #[must_use]
    pub fn parse(text: &str) -> Option<PackName> {
        let (session, count) = text.split_once('-')?;
        let name = PackName {
            session: SessionId(u64::from_str_radix(session, 16).ok()?),
            count: u32::from_str_radix(count, 16).ok()?,
        };
        (name.to_string() == text).then_some(name)
    }

    pub(crate) fn encode(self, writer: &mut Writer) {
        writer.number(self.session.0);
        writer.number(self.count.into());
    }

    pub(crate) fn decode(cursor: &mut Cursor) -> Result<PackName, Malformed> {
        Ok(PackName {
            session: SessionId(cursor.number()?),
            count: cursor.u32()?,
        })
    }
}

/// Where a piece lies in its pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub id: PieceId,
    pub class: Class,
    pub compressed: bool,
    /// Length before compression.
    pub raw: u32,
    /// Length in the pack, with its tag.
    pub stored: u32,
    pub offset: u32,
}

impl Record {
    /// What the seal of a piece is bound to beside its pack.
    fn bound(&self) -> Vec<u8> {
        let mut bytes = self.id.0.to_vec();
        bytes.push(self.class as u8);
        bytes.push(u8::from(self.compressed));
        bytes.extend_from_slice(&self.raw.to_le_bytes());
        bytes
    }
}

/// What a pack has, in the order in which it lies there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directory {
    pub(crate) records: Vec<Record>,
}

impl Directory {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.number(self.records.len() as u64);
        for record in &self.records {
            writer.fixed(&record.id.0);
            writer.u8(record.class as u8 | (u8::from(record.compressed) << 7));
            writer.number(record.raw.into());
            writer.number(record.stored.into());
        }
        writer.0
    }

    /// Reads one.
    ///
    /// # Errors
    /// Pieces that are longer than pieces are, or more than a pack can have.
    pub fn parse(bytes: &[u8]) -> Result<Directory, Malformed> {
        let mut cursor = Cursor(bytes);
        let directory = Directory::decode(&mut cursor)?;
        cursor.end()?;
        Ok(directory)
    }

    pub(crate) fn decode(cursor: &mut Cursor) -> Result<Directory, Malformed> {
        let count = cursor.count(RECORD_BYTES)?;
        if count == 0 || count > MAX_PACK_PIECES {
            return Err(Malformed("a pack has no pieces, or too many"));
        }
        let mut records = Vec::with_capacity(count);
        let mut offset = HEAD_BYTES as u64;
        for _ in 0..count {
            let id = PieceId(cursor.array()?);
            let flags = cursor.u8()?;
            let class = Class::parse(flags & 0x7f)?;
            let (raw, stored) = (cursor.u32()?, cursor.u32()?);
            let most = if class == Class::Data {
                MAX_PIECE_BYTES
            } else {
                MAX_RAW_BYTES
            };
            let compressed = flags & 0x80 != 0;
            let body = (stored as usize).checked_sub(TAG_BYTES);
            let fits = body.is_some_and(|body| {
                if compressed {
                    body < raw as usize
                } else {
                    body == raw as usize
                }
            });
            if raw == 0 || raw as usize > most || !fits {
                return Err(Malformed("a piece of a pack has a length that cannot be"));
            }
            records.push(Record {
                id,
                class,
                compressed,
                raw,
                stored,
                offset: offset as u32,
            });
            offset += u64::from(stored);
            if offset > MAX_PACK_BYTES {
                return Err(Malformed("a pack is longer than it may be"));
            }
        }
        Ok(Directory { records })
    }
}

/// A pack, as the journal tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pack {
    pub salt: [u8; SALT_BYTES],
    /// Length of the object.
    pub bytes: u64,
    pub directory: Directory,
}

impl Pack {
    pub fn encode(&self, writer: &mut Writer) {
        writer.fixed(&self.salt);
        writer.number(self.bytes);
        writer.fixed(&self.directory.encode());
    }

    pub fn decode(cursor: &mut Cursor) -> Result<Pack, Malformed> {
        Ok(Pack {
            salt: cursor.array()?,
            bytes: cursor.number()?,
            directory: Directory::decode(cursor)?,
        })
    }

    fn head(&self) -> [u8; HEAD_BYTES] {
        head(Kind::Pack, false, 0, &self.salt)
    }

    /// The piece of a slot, out of what lies in its place.
    pub fn open(&self, keys: &Keys, object: &str, slot: u32, stored: Vec<u8>) -> Result<Vec<u8>, Malformed> {
        let key = keys.object(Kind::Pack, &self.salt);
        let key = key.map_err(|_| Malformed("its key cannot be derived"))?;
        self.open_with(&key, keys, object, slot, stored)
    }

    fn open_with(
        &self,
        key: &ObjectKey,
        keys: &Keys,
        object: &str,
        slot: u32,
        mut stored: Vec<u8>,
    ) -> Result<Vec<u8>, Malformed> {
        let record = &self.directory.records[slot as usize];
        if stored.len() != record.stored as usize {
            return Err(Malformed("it is shorter than it was"));
        }
        let associated = keys.associated(&self.head(), object, &record.bound());
        let body = key.open(slot + 1, &associated, &mut stored)?;
        let raw = if record.compressed {
            expand(body, record.raw as usize)?
        } else {
            body.to_vec()
        };
        // The seal says who wrote it; the name says that it is what was asked for.
        let named = keys.name(record.class, &raw) == record.id;
        named
            .then_some(raw)
            .ok_or(Malformed("a piece in it is not what its name says"))
    }

    /// Checks a whole pack: what it says of itself, and each piece. Hands each piece on.
    pub fn check(
        &self,
        keys: &Keys,
        object: &str,
        bytes: &[u8],
        each: &mut dyn FnMut(&Record, Vec<u8>),
    ) -> Result<(), Error> {
        let damaged = |why: Malformed| Error::Damaged {
            object: object.to_owned(),
            why: why.0,
        };
        let found = parse_head(Kind::Pack, object, bytes)?;
        if found.bytes != self.head() {
            return Err(damaged(Malformed("it is not the pack that was put")));
        }
        if bytes.len() as u64 != self.bytes {
            return Err(damaged(Malformed("it has another length than it had")));
        }
        let key = keys.object(Kind::Pack, &self.salt)?;
        let directory = open_directory(keys, &key, object, bytes).map_err(damaged)?;
        if directory != self.directory {
            return Err(damaged(Malformed("its directory is not the one that was put")));
        }
        for (slot, record) in self.directory.records.iter().enumerate() {
            let at = record.offset as usize;
            let stored = bytes.get(at..at + record.stored as usize).unwrap_or_default().to_vec();
            let raw = self
                .open_with(&key, keys, object, slot as u32, stored)
                .map_err(damaged)?;
            each(record, raw);
        }
        Ok(())
    }
}

fn open_directory(keys: &Keys, key: &ObjectKey, object: &str, bytes: &[u8]) -> Result<Directory, Malformed> {
    let early = Malformed("it ends too early");
    let (rest, foot) = bytes.split_last_chunk::<FOOT_BYTES>().ok_or(early)?;
    if &foot[8..] != END || foot[4..8] != [0; 4] {
        return Err(Malformed("its end is not a pack's"));
    }
    let length = u32::from_le_bytes([foot[0], foot[1], foot[2], foot[3]]) as usize;
    let (front, sealed) = rest
        .len()
        .checked_sub(length)
        .map(|at| rest.split_at(at))
        .ok_or(early)?;
    let head = front.first_chunk::<HEAD_BYTES>().ok_or(early)?;
    let mut sealed = sealed.to_vec();
    let body = key.open(0, &keys.associated(head, object, &[]), &mut sealed)?;
    Directory::parse(body)
}

/// A pack that is being filled.
pub(crate) struct Builder {
    pub name: PackName,
    object: String,
    key: ObjectKey,
    salt: [u8; SALT_BYTES],
    bytes: Vec<u8>,
    directory: Directory,
}

impl Builder {
    pub fn new(keys: &Keys, name: PackName, object: String) -> Result<Builder, Error> {
        let salt = random()?;
        Ok(Builder {
            name,
            object,
            key: keys.object(Kind::Pack, &salt)?,
            salt,
            bytes: head(Kind::Pack, false, 0, &salt).to_vec(),
            directory: Directory::default(),
        })
    }

    pub fn object(&self) -> &str {
        &self.object
    }

    pub fn is_full(&self, most: u64) -> bool {
        self.bytes.len() as u64 >= most || self.directory.records.len() >= MAX_PACK_PIECES
    }

    pub fn push(&mut self, keys: &Keys, id: PieceId, class: Class, raw: &[u8]) -> Result<(), Error> {
        let packed = compress(raw);
        let mut record = Record {
            id,
            class,
            compressed: packed.is_some(),
            raw: raw.len() as u32,
            stored: 0,
            offset: self.bytes.len() as u32,
        };
        let mut body = packed.unwrap_or_else(|| raw.to_vec());
        let head = head(Kind::Pack, false, 0, &self.salt);
        let associated = keys.associated(&head, &self.object, &record.bound());
        let nonce = self.directory.records.len() as u32 + 1;
        self.key.seal(nonce, &associated, &mut body)?;
        record.stored = body.len() as u32;
        self.bytes.extend_from_slice(&body);
        self.directory.records.push(record);
        Ok(())
    }

    /// The object, and what the journal is to tell of it.
    pub fn finish(&mut self, keys: &Keys) -> Result<(Vec<u8>, Pack), Error> {
        let mut sealed = self.directory.encode();
        let head = head(Kind::Pack, false, 0, &self.salt);
        self.key
            .seal(0, &keys.associated(&head, &self.object, &[]), &mut sealed)?;
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.extend_from_slice(&sealed);
        bytes.extend_from_slice(&(sealed.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(END);
        let pack = Pack {
            salt: self.salt,
            bytes: bytes.len() as u64,
            directory: std::mem::take(&mut self.directory),
        };
        Ok((bytes, pack))
    }
}
