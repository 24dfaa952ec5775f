//! KMIP's messages, as far as three operations go: `Encrypt`, `Decrypt` and `Get` (OASIS KMIP 1.4, sections 4.11, 4.29, 4.30 and 6).

use super::{KmipAsks, KmipError};
use crate::ttlv::{self, BadTtlv, HEAD_BYTES, Item, MAX_MESSAGE_BYTES, Value, Writer};
use crate::wrapped::{NONCE_BYTES, TAG_BYTES};
use zeroize::Zeroizing;

/// How much of a server's own words an error repeats, in characters.
const MAX_SAID: usize = 200;

/// Tags and enumerations, by the names of the specification (sections 9.1.3.1 and 9.1.3.2).
pub(crate) mod code {
    pub const BATCH_COUNT: u32 = 0x42_000d;
    pub const BATCH_ITEM: u32 = 0x42_000f;
    pub const BLOCK_CIPHER_MODE: u32 = 0x42_0011;
    pub const CRYPTOGRAPHIC_ALGORITHM: u32 = 0x42_0028;
    pub const CRYPTOGRAPHIC_LENGTH: u32 = 0x42_002a;
    pub const CRYPTOGRAPHIC_PARAMETERS: u32 = 0x42_002b;
    pub const NONCE: u32 = 0x42_003d;
    pub const KEY_BLOCK: u32 = 0x42_0040;
    pub const KEY_FORMAT_TYPE: u32 = 0x42_0042;
    pub const KEY_MATERIAL: u32 = 0x42_0043;
    pub const KEY_VALUE: u32 = 0x42_0045;
    pub const KEY_WRAPPING_DATA: u32 = 0x42_0046;
    pub const MAXIMUM_RESPONSE_SIZE: u32 = 0x42_0050;
    pub const OBJECT_TYPE: u32 = 0x42_0057;
    pub const OPERATION: u32 = 0x42_005c;
    pub const PROTOCOL_VERSION: u32 = 0x42_0069;
    pub const PROTOCOL_VERSION_MAJOR: u32 = 0x42_006a;
    pub const PROTOCOL_VERSION_MINOR: u32 = 0x42_006b;
    pub const REQUEST_HEADER: u32 = 0x42_0077;
    pub const REQUEST_MESSAGE: u32 = 0x42_0078;
    pub const REQUEST_PAYLOAD: u32 = 0x42_0079;
    pub const RESPONSE_HEADER: u32 = 0x42_007a;
    pub const RESPONSE_MESSAGE: u32 = 0x42_007b;
    pub const RESPONSE_PAYLOAD: u32 = 0x42_007c;
    pub const RESULT_MESSAGE: u32 = 0x42_007d;
    pub const RESULT_REASON: u32 = 0x42_007e;
    pub const RESULT_STATUS: u32 = 0x42_007f;
    pub const SYMMETRIC_KEY: u32 = 0x42_008f;
    pub const UNIQUE_IDENTIFIER: u32 = 0x42_0094;
    pub const DATA: u32 = 0x42_00c2;
    pub const TAG_LENGTH: u32 = 0x42_00ce;
    pub const ADDITIONAL_DATA: u32 = 0x42_00fe;
    pub const AUTHENTICATION_TAG: u32 = 0x42_00ff;

    pub const OPERATION_GET: u32 = 0x0a;
    pub const OPERATION_ENCRYPT: u32 = 0x1f;
    pub const OPERATION_DECRYPT: u32 = 0x20;
    pub const MODE_GCM: u32 = 9;
    pub const ALGORITHM_AES: u32 = 3;
    pub const FORMAT_RAW: u32 = 1;
    pub const OBJECT_SYMMETRIC_KEY: u32 = 2;
    pub const STATUS_SUCCESS: u32 = 0;
    pub const STATUS_FAILED: u32 = 1;
    pub const STATUS_UNDONE: u32 = 3;
}

/// The version of the protocol that is spoken: major and minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KmipVersion(pub(super) u8, pub(super) u8);

/// What asks for one operation.
pub(super) fn request(version: KmipVersion, asks: KmipAsks, payload: impl FnOnce(&mut Writer)) -> Zeroizing<Vec<u8>> {
    Writer::message(code::REQUEST_MESSAGE, |message| {
        message.structure(code::REQUEST_HEADER, |header| {
            header.structure(code::PROTOCOL_VERSION, |spoken| {
                spoken.integer(code::PROTOCOL_VERSION_MAJOR, version.0.into());
                spoken.integer(code::PROTOCOL_VERSION_MINOR, version.1.into());
            });
            header.integer(code::MAXIMUM_RESPONSE_SIZE, MAX_MESSAGE_BYTES as i32);
            header.integer(code::BATCH_COUNT, 1);
        });
        message.structure(code::BATCH_ITEM, |item| {
            item.enumeration(code::OPERATION, asks.code());
            item.structure(code::REQUEST_PAYLOAD, payload);
        });
    })
}

/// AES in Galois/Counter mode, with a tag of 16 bytes.
pub(super) fn gcm(payload: &mut Writer) {
    payload.structure(code::CRYPTOGRAPHIC_PARAMETERS, |parameters| {
        parameters.enumeration(code::BLOCK_CIPHER_MODE, code::MODE_GCM);
        parameters.enumeration(code::CRYPTOGRAPHIC_ALGORITHM, code::ALGORITHM_AES);
        parameters.integer(code::TAG_LENGTH, TAG_BYTES as i32);
    });
}

/// The length of an answer whose first bytes these are: with them, in bytes.
///
/// # Errors
/// It is no answer of KMIP's, or too long.
pub fn answer_length(head: [u8; HEAD_BYTES]) -> Result<usize, BadTtlv> {
    ttlv::length(head, code::RESPONSE_MESSAGE)
}

const fn wrong(what: &'static str) -> KmipError {
    KmipError::Answer { what }
}

/// The one item with this tag, if there is any.
fn maybe<'b, 'a>(items: &'b [Item<'a>], tag: u32) -> Result<Option<&'b Value<'a>>, KmipError> {
    let mut found = items.iter().filter(|item| item.tag == tag);
    match (found.next(), found.next()) {
        (first, None) => Ok(first.map(|item| &item.value)),
        (_, Some(_)) => Err(wrong("something that stands in it once is there twice")),
    }
}

fn structure<'b, 'a>(items: &'b [Item<'a>], tag: u32, what: &'static str) -> Result<&'b [Item<'a>], KmipError> {
    match maybe(items, tag)? {
        Some(Value::Structure(inside)) => Ok(inside),
        _ => Err(wrong(what)),
    }
}

fn integer(items: &[Item<'_>], tag: u32, what: &'static str) -> Result<i32, KmipError> {
    match maybe(items, tag)? {
        Some(Value::Integer(value)) => Ok(*value),
        _ => Err(wrong(what)),
    }
}

fn enumeration(items: &[Item<'_>], tag: u32, what: &'static str) -> Result<u32, KmipError> {
    match maybe(items, tag)? {
        Some(Value::Enumeration(value)) => Ok(*value),
        _ => Err(wrong(what)),
    }
}

fn bytes<'a>(items: &[Item<'a>], tag: u32, what: &'static str) -> Result<&'a [u8], KmipError> {
    match maybe(items, tag)? {
        Some(Value::Bytes(value)) => Ok(value),
        _ => Err(wrong(what)),
    }
}

/// What an answer says to the one operation that was asked for: of a success all of it, in which the payload is.
pub(super) struct Answered<'a> {
    version: KmipVersion,
    operation: Option<u32>,
    payload: Option<Vec<Item<'a>>>,
}

/// Reads an answer to that.
///
/// # Errors
/// It is none, or a refusal.
pub(super) fn read(message: &[u8], asked: KmipAsks) -> Result<Answered<'_>, KmipError> {
    let mut items = ttlv::read(message, code::RESPONSE_MESSAGE)?;
    let header = structure(&items, code::RESPONSE_HEADER, "it has no header")?;
    let spoken = structure(header, code::PROTOCOL_VERSION, "it says no version of the protocol")?;
    let number = |tag| {
        let number = integer(spoken, tag, "its version of the protocol is none")?;
        u8::try_from(number).map_err(|_| wrong("its version of the protocol is none"))
    };
    let version = KmipVersion(
        number(code::PROTOCOL_VERSION_MAJOR)?,
        number(code::PROTOCOL_VERSION_MINOR)?,
    );
    if integer(header, code::BATCH_COUNT, "it does not say how many answers it has")? != 1 {
        return Err(wrong("it has more answers than there were questions, or none"));
    }
    structure(&items, code::BATCH_ITEM, "it has no answer in it")?;
    let at = items.iter().position(|item| item.tag == code::BATCH_ITEM);
    let Some(Value::Structure(mut answer)) = at.map(|at| items.swap_remove(at).value) else {
        return Err(wrong("it has no answer in it"));
    };
    match enumeration(&answer, code::RESULT_STATUS, "it does not say what has come of it")? {
        code::STATUS_SUCCESS => {}
        code::STATUS_FAILED | code::STATUS_UNDONE => return Err(refused(&answer, asked)?),
        _ => return Err(wrong("it is to come later, which nobody has asked for")),
    }
    let operation = match maybe(&answer, code::OPERATION)? {
        Some(_) => Some(enumeration(&answer, code::OPERATION, "its operation is none")?),
        None => None,
    };
    let payload = match maybe(&answer, code::RESPONSE_PAYLOAD)? {
        None => None,
        Some(_) => {
            structure(&answer, code::RESPONSE_PAYLOAD, "what it gives is no structure")?;
            let at = answer.iter().position(|item| item.tag == code::RESPONSE_PAYLOAD);
            match at.map(|at| answer.swap_remove(at).value) {
                Some(Value::Structure(payload)) => Some(payload),
                _ => None,
            }
        }
    };
    Ok(Answered {
        version,
        operation,
        payload,
    })
}

fn refused(answer: &[Item<'_>], asked: KmipAsks) -> Result<KmipError, KmipError> {
    let reason = match maybe(answer, code::RESULT_REASON)? {
        Some(_) => Some(enumeration(
            answer,
            code::RESULT_REASON,
            "the reason of its refusal is none",
        )?),
        None => None,
    };
    let said = match maybe(answer, code::RESULT_MESSAGE)? {
        Some(Value::Text(said)) => said.chars().filter(|each| !each.is_control()).take(MAX_SAID).collect(),
        Some(_) => return Err(wrong("the words of its refusal are no text")),
        None => String::new(),
    };
    Ok(KmipError::Refused { asked, reason, said })
}

/// What was encrypted: as many bytes as were given, and the tag.
pub(super) struct Encrypted<'a> {
    pub data: &'a [u8],
    pub tag: &'a [u8; TAG_BYTES],
}

impl<'a> Answered<'a> {
    /// What it gives for this operation by this key.
    fn payload(&self, version: KmipVersion, operation: u32, key: &str) -> Result<&[Item<'a>], KmipError> {
        if self.version != version {
            return Err(KmipError::Spoken {
                asked: version,
                spoken: self.version,
            });
        }
        if self.operation != Some(operation) {
            return Err(wrong("it is of another operation"));
        }
        let payload = self.payload.as_deref().ok_or(wrong("it gives nothing"))?;
        match maybe(payload, code::UNIQUE_IDENTIFIER)? {
            Some(Value::Text(found)) if *found == key => Ok(payload),
            _ => Err(wrong("it is of another key")),
        }
    }

    pub fn encrypted(
        &self,
        version: KmipVersion,
        key: &str,
        nonce: &[u8; NONCE_BYTES],
    ) -> Result<Encrypted<'a>, KmipError> {
        let payload = self.payload(version, code::OPERATION_ENCRYPT, key)?;
        // It is there where the server has chosen it, which nobody has asked for.
        if maybe(payload, code::NONCE)?.is_some() && bytes(payload, code::NONCE, "its nonce is no bytes")? != nonce {
            return Err(wrong("it was encrypted by another nonce"));
        }
        let tag = bytes(
            payload,
            code::AUTHENTICATION_TAG,
            "there is no tag, so that nothing is bound",
        )?;
        Ok(Encrypted {
            data: bytes(payload, code::DATA, "there is nothing encrypted in it")?,
            tag: tag.try_into().map_err(|_| wrong("its tag has not 16 bytes"))?,
        })
    }

    pub fn decrypted(&self, version: KmipVersion, key: &str) -> Result<&'a [u8], KmipError> {
        let payload = self.payload(version, code::OPERATION_DECRYPT, key)?;
        bytes(payload, code::DATA, "there is nothing decrypted in it")
    }

    /// An AES key of 256 bits, as it is.
    pub fn got(&self, version: KmipVersion, key: &str) -> Result<&'a [u8; 32], KmipError> {
        let payload = self.payload(version, code::OPERATION_GET, key)?;
        let kind = enumeration(payload, code::OBJECT_TYPE, "it does not say what it gives")?;
        if kind != code::OBJECT_SYMMETRIC_KEY {
            return Err(KmipError::NoKey {
                what: "it is no symmetric key",
            });
        }
        let object = structure(payload, code::SYMMETRIC_KEY, "there is no key in it")?;
        let block = structure(object, code::KEY_BLOCK, "its key has no block")?;
        if maybe(block, code::KEY_WRAPPING_DATA)?.is_some() {
            return Err(KmipError::NoKey {
                what: "it is given wrapped by another key",
            });
        }
        if enumeration(block, code::KEY_FORMAT_TYPE, "its key has no format")? != code::FORMAT_RAW {
            return Err(wrong("its key has another format than raw bytes, which were asked for"));
        }
        // Both may be left out where the key's value says them.
        for (tag, wanted, what) in [
            (
                code::CRYPTOGRAPHIC_ALGORITHM,
                code::ALGORITHM_AES,
                "it is no key of AES",
            ),
            (code::CRYPTOGRAPHIC_LENGTH, 256, "it has not 256 bits"),
        ] {
            let found = match maybe(block, tag)? {
                None => continue,
                Some(Value::Enumeration(found)) if tag == code::CRYPTOGRAPHIC_ALGORITHM => *found,
                Some(Value::Integer(found)) if tag == code::CRYPTOGRAPHIC_LENGTH => *found as u32,
                Some(_) => return Err(wrong("its key's algorithm or length is none")),
            };
            if found != wanted {
                return Err(KmipError::NoKey { what });
            }
        }
        let value = structure(block, code::KEY_VALUE, "its key has no value")?;
        let material = bytes(value, code::KEY_MATERIAL, "its key has no bytes")?;
        material.try_into().map_err(|_| KmipError::NoKey {
            what: "it has not 256 bits",
        })
    }
}
