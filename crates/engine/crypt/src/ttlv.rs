//! TTLV, the encoding of KMIP's messages (OASIS KMIP 1.4, section 9.1): tag, type, length and value, one item inside the other.
//!
//! ```text
//! | tag, 3 bytes | type, 1 byte | length, 4 bytes | value, filled with zeros to a multiple of 8 |      all big-endian
//! ```
//!
//! What is read comes from a network: all of it is checked before anything of it is looked at, and lengths, depth and number of items have
//! limits. What is read stays where it is, so that no copy of a secret is made; what is written is wiped.

use std::fmt;
use zeroize::Zeroizing;

/// Bytes before a value: tag, type and length.
pub const HEAD_BYTES: usize = 8;
/// The longest message that is read, in bytes: an answer about one key has some hundred.
pub const MAX_MESSAGE_BYTES: usize = 16 << 10;
/// A message has structures in structures: of what is asked for here six.
const MAX_DEPTH: usize = 12;
/// The most items of a message: one about one key has some dozens, with all attributes that a server may add.
const MAX_ITEMS: usize = 512;
/// Values are filled to a multiple of this.
const FILL: usize = 8;
/// Room for a message that is written, so that no copy of it is left behind when it grows.
const ROOM_BYTES: usize = 4096;

const STRUCTURE: u8 = 1;
const INTEGER: u8 = 2;
const LONG_INTEGER: u8 = 3;
const BIG_INTEGER: u8 = 4;
const ENUMERATION: u8 = 5;
const BOOLEAN: u8 = 6;
const TEXT: u8 = 7;
const BYTES: u8 = 8;
const DATE_TIME: u8 = 9;
const INTERVAL: u8 = 10;
const DATE_TIME_EXTENDED: u8 = 11;

/// What is no TTLV, or not a message that is read here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadTtlv {
    /// It ends inside of an item.
    #[error("it ends inside of an item")]
    Cut,
    /// There is something behind it.
    #[error("there are bytes behind it")]
    Behind,
    /// It is too long.
    #[error("it has {bytes} bytes, and {MAX_MESSAGE_BYTES} are the most")]
    Long {
        /// What it says of itself.
        bytes: u64,
    },
    /// Another tag begins it.
    #[error("it begins with tag {found:06x}, and not with {wanted:06x}")]
    Tag {
        /// What begins it.
        found: u32,
        /// What is to.
        wanted: u32,
    },
    /// There is no such type.
    #[error("an item has type {kind}, which there is not")]
    Type {
        /// The type.
        kind: u8,
    },
    /// A value of this type has another length.
    #[error("an item of type {kind} has a value of {bytes} bytes")]
    Length {
        /// The type.
        kind: u8,
        /// The value's length.
        bytes: u32,
    },
    /// What a value is filled with is no zeros.
    #[error("what an item is filled with is not zero")]
    Fill,
    /// It is neither true nor false.
    #[error("a boolean is neither 0 nor 1")]
    Boolean,
    /// It is no UTF-8.
    #[error("a text is no UTF-8")]
    Text,
    /// Structures in structures in structures.
    #[error("more than {MAX_DEPTH} structures are inside of each other")]
    Deep,
    /// It has too many items.
    #[error("it has more than {MAX_ITEMS} items")]
    Many,
}

/// What an item has, by its type. Of what nobody here asks for only that it is well-formed is known.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Structure(Vec<Item<'a>>),
    Integer(i32),
    Enumeration(u32),
    Text(&'a str),
    Bytes(&'a [u8]),
    Other,
}

/// Values may be keys: only the type is told.
impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Structure(items) => f.debug_list().entries(items).finish(),
            Value::Integer(_) => f.write_str("Integer"),
            Value::Enumeration(_) => f.write_str("Enumeration"),
            Value::Text(text) => write!(f, "Text({} bytes)", text.len()),
            Value::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
            Value::Other => f.write_str("Other"),
        }
    }
}

/// One item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item<'a> {
    pub tag: u32,
    pub value: Value<'a>,
}

/// The length of a whole message, whose first bytes these are: what is to be read, its head among it.
///
/// # Errors
/// It is another thing, or too long.
pub(crate) fn length(head: [u8; HEAD_BYTES], wanted: u32) -> Result<usize, BadTtlv> {
    let [a, b, c, kind, length @ ..] = head;
    let found = u32::from_be_bytes([0, a, b, c]);
    if found != wanted {
        return Err(BadTtlv::Tag { found, wanted });
    }
    let length = u32::from_be_bytes(length);
    if kind != STRUCTURE || !(length as usize).is_multiple_of(FILL) {
        return Err(BadTtlv::Length { kind, bytes: length });
    }
    let bytes = u64::from(length) + HEAD_BYTES as u64;
    match bytes <= MAX_MESSAGE_BYTES as u64 {
        true => Ok(bytes as usize),
        false => Err(BadTtlv::Long { bytes }),
    }
}

/// The items of a message, which is nothing but one structure with this tag.
///
/// # Errors
/// It is another thing.
pub(crate) fn read(message: &[u8], wanted: u32) -> Result<Vec<Item<'_>>, BadTtlv> {
    let head = message.first_chunk::<HEAD_BYTES>().ok_or(BadTtlv::Cut)?;
    let whole = length(*head, wanted)?;
    match message.len() {
        bytes if bytes < whole => Err(BadTtlv::Cut),
        bytes if bytes > whole => Err(BadTtlv::Behind),
        _ => items(&message[HEAD_BYTES..], 1, &mut 0),
    }
}

/// `count`: of all items that were read before.
fn items<'a>(mut bytes: &'a [u8], depth: usize, count: &mut usize) -> Result<Vec<Item<'a>>, BadTtlv> {
    if depth > MAX_DEPTH {
        return Err(BadTtlv::Deep);
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        *count += 1;
        if *count > MAX_ITEMS {
            return Err(BadTtlv::Many);
        }
        let ([a, b, c, kind, length @ ..], rest) = bytes.split_first_chunk::<HEAD_BYTES>().ok_or(BadTtlv::Cut)?;
        let length = u32::from_be_bytes(*length);
        let filled = (u64::from(length)).next_multiple_of(FILL as u64);
        let filled = usize::try_from(filled).ok().filter(|filled| *filled <= rest.len());
        let (value, behind) = rest.split_at(filled.ok_or(BadTtlv::Cut)?);
        let (value, fill) = value.split_at(length as usize);
        if fill.iter().any(|byte| *byte != 0) {
            return Err(BadTtlv::Fill);
        }
        found.push(Item {
            tag: u32::from_be_bytes([0, *a, *b, *c]),
            value: value_of(*kind, value, depth, count)?,
        });
        bytes = behind;
    }
    Ok(found)
}

fn value_of<'a>(kind: u8, value: &'a [u8], depth: usize, count: &mut usize) -> Result<Value<'a>, BadTtlv> {
    let bytes = value.len() as u32;
    let bad = BadTtlv::Length { kind, bytes };
    let four = || <[u8; 4]>::try_from(value).map_err(|_| bad);
    let eight = || <[u8; 8]>::try_from(value).map_err(|_| bad);
    Ok(match kind {
        STRUCTURE if bytes.is_multiple_of(FILL as u32) => Value::Structure(items(value, depth + 1, count)?),
        INTEGER => Value::Integer(i32::from_be_bytes(four()?)),
        ENUMERATION => Value::Enumeration(u32::from_be_bytes(four()?)),
        INTERVAL => four().map(|_| Value::Other)?,
        LONG_INTEGER | DATE_TIME | DATE_TIME_EXTENDED => eight().map(|_| Value::Other)?,
        BIG_INTEGER if bytes > 0 && bytes.is_multiple_of(FILL as u32) => Value::Other,
        BOOLEAN => match u64::from_be_bytes(eight()?) {
            0 | 1 => Value::Other,
            _ => return Err(BadTtlv::Boolean),
        },
        TEXT => Value::Text(std::str::from_utf8(value).map_err(|_| BadTtlv::Text)?),
        BYTES => Value::Bytes(value),
        STRUCTURE | BIG_INTEGER => return Err(bad),
        kind => return Err(BadTtlv::Type { kind }),
    })
}

/// Writes a message.
pub(crate) struct Writer(Zeroizing<Vec<u8>>);

impl Writer {
    /// A message that is one structure with this tag.
    pub fn message(tag: u32, inside: impl FnOnce(&mut Writer)) -> Zeroizing<Vec<u8>> {
        let mut writer = Writer(Zeroizing::new(Vec::with_capacity(ROOM_BYTES)));
        writer.structure(tag, inside);
        writer.0
    }

    pub fn structure(&mut self, tag: u32, inside: impl FnOnce(&mut Writer)) -> &mut Writer {
        let at = self.0.len();
        self.head(tag, STRUCTURE, 0);
        inside(self);
        let length = (self.0.len() - at - HEAD_BYTES) as u32;
        self.0[at + 4..at + HEAD_BYTES].copy_from_slice(&length.to_be_bytes());
        self
    }

    pub fn integer(&mut self, tag: u32, value: i32) -> &mut Writer {
        self.item(tag, INTEGER, &value.to_be_bytes())
    }

    pub fn enumeration(&mut self, tag: u32, value: u32) -> &mut Writer {
        self.item(tag, ENUMERATION, &value.to_be_bytes())
    }

    pub fn text(&mut self, tag: u32, value: &str) -> &mut Writer {
        self.item(tag, TEXT, value.as_bytes())
    }

    pub fn bytes(&mut self, tag: u32, value: &[u8]) -> &mut Writer {
        self.item(tag, BYTES, value)
    }

    fn item(&mut self, tag: u32, kind: u8, value: &[u8]) -> &mut Writer {
        self.head(tag, kind, value.len() as u32);
        self.0.extend_from_slice(value);
        let filled = self.0.len().next_multiple_of(FILL);
        self.0.resize(filled, 0);
        self
    }

    fn head(&mut self, tag: u32, kind: u8, length: u32) {
        let [_, tag @ ..] = tag.to_be_bytes();
        self.0.extend_from_slice(&tag);
        self.0.push(kind);
        self.0.extend_from_slice(&length.to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
