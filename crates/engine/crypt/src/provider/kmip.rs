//! Key-encryption keys of a server of keys that speaks KMIP (OASIS, 1.0 to 2.1), in one of two ways ([`KmipWay`]):
//!
//! | way | wrap | unwrap | the key |
//! | --- | --- | --- | --- |
//! | `encrypt` | `Encrypt`, AES-GCM | `Decrypt`, AES-GCM | never leaves the server (KMIP 1.4 and later) |
//! | `get` | `Get`, then AES-256-GCM here | the same | is here while something is wrapped or unwrapped |
//!
//! Both make the same of the same: a record does not say which it was, and where the server gives the key away it opens by either. What a data key
//! is bound to is GCM's additional authenticated data (`Authenticated Encryption Additional Data`, KMIP 1.4), and the nonce is drawn here.
//!
//! A key is named by its `Unique Identifier`, which one server's database gives once; a `Name` may be moved to another one. So a key
//! that is replaced (`Re-key`) has a new identifier, and is another line of the file of volume keys.

pub(crate) mod message;
mod refusal;

use super::local::{KEK_BYTES, Kek};
use super::passphrase::BadPassphrase;
use super::{KmipRequest, Next, Provider, Question, Random};
use crate::hex::Hex;
use crate::key::{DATA_KEY_BYTES, DataKey};
use crate::ttlv::{BadTtlv, Writer};
use crate::wrapped::{Binding, By, KeyError, Label, NONCE_BYTES, Told, WRAPPED_BYTES, WrappedKey};
use crate::wrapping::{Which, WrappingKey};
use amita_types::ClusterId;
use message::code;
pub use message::{KmipVersion, answer_length};
use std::fmt;
use zeroize::Zeroizing;

const KIND: &str = "a key of a KMIP server";
/// What is wrapped to see that the server wraps is bound to this, and is no key.
const PROBE: &[u8] = b"amita-crypt which version";
/// What is wrapped bound to [`PROBE`] is asked back bound to this: who gives it binds nothing.
const OTHER: &[u8] = b"amita-crypt another binding";
/// What is wrapped for that.
const PLAIN: [u8; KEK_BYTES] = [0; KEK_BYTES];
/// The longest identifier of a key, in bytes: servers have UUIDs, numbers and hashes.
const MAX_NAME_BYTES: usize = 128;
/// From this version on what is encrypted may be bound to something.
const BINDS_SINCE: KmipVersion = KmipVersion(1, 4);
const VERSIONS: [KmipVersion; 7] = [
    KmipVersion(1, 0),
    KmipVersion(1, 1),
    KmipVersion(1, 2),
    KmipVersion(1, 3),
    KmipVersion(1, 4),
    KmipVersion(2, 0),
    KmipVersion(2, 1),
];

/// Who wraps with the server's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KmipWay {
    /// The server does, and keeps it.
    Encrypt,
    /// It gives the key, and this program does.
    Get,
}

impl KmipWay {
    /// By its name.
    #[must_use]
    pub fn parse(text: &str) -> Option<KmipWay> {
        match text {
            "encrypt" => Some(KmipWay::Encrypt),
            "get" => Some(KmipWay::Get),
            _ => None,
        }
    }
}

impl KmipVersion {
    /// What most servers speak, and the first in which what is encrypted may be bound to something.
    pub const USUAL: KmipVersion = BINDS_SINCE;

    /// `MAJOR.MINOR`, of those that are known.
    #[must_use]
    pub fn parse(text: &str) -> Option<KmipVersion> {
        VERSIONS.into_iter().find(|version| version.to_string() == text)
    }
}

impl fmt::Display for KmipVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// What a server is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KmipAsks {
    /// `Encrypt`.
    Encrypt,
    /// `Decrypt`.
    Decrypt,
    /// `Get`.
    Get,
}

impl KmipAsks {
    fn code(self) -> u32 {
        match self {
            KmipAsks::Encrypt => code::OPERATION_ENCRYPT,
            KmipAsks::Decrypt => code::OPERATION_DECRYPT,
            KmipAsks::Get => code::OPERATION_GET,
        }
    }
}

/// How far the proof is that a server binds what it wraps: the next question to the same server, if there is any.
#[derive(Debug)]
pub struct KmipProbed(pub Option<Question<KmipProbed>>);

/// What cannot be used with a KMIP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadKmip {
    /// The identifier has other characters, or none, or too many.
    #[error("the unique identifier of the server's key: 1 to {MAX_NAME_BYTES} letters, digits, and - _ . : / + = @")]
    Name,
    /// The server would bind nothing.
    #[error(
        "by KMIP {version} a server binds nothing of what it encrypts: have it give the key (way=get), or speak 1.4 or later with it"
    )]
    Version {
        /// The version.
        version: KmipVersion,
    },
}

/// Why a KMIP server has not done it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KmipError {
    /// It refuses.
    #[error("the server refuses ({}{}{said}){}", refusal::named(*.reason), if .said.is_empty() { "" } else { ": " }, refusal::hint(*.asked, *.reason))]
    Refused {
        /// What it was asked.
        asked: KmipAsks,
        /// Its `Result Reason`.
        reason: Option<u32>,
        /// Its words, shortened.
        said: String,
    },
    /// It answers something else.
    #[error("the server's answer is none to what it was asked: {what}")]
    Answer {
        /// What is wrong with it.
        what: &'static str,
    },
    /// It answers by another version of the protocol.
    #[error(
        "the server answers by KMIP {spoken}, and was asked by {asked}: say version={spoken} in the line, or have the server speak {asked}"
    )]
    Spoken {
        /// By this.
        asked: KmipVersion,
        /// By that.
        spoken: KmipVersion,
    },
    /// What it answers is no message.
    #[error("what the server answers is no message of KMIP's: {0}")]
    Ttlv(#[from] BadTtlv),
    /// What has that identifier is nothing to wrap with.
    #[error("what the server gives for that identifier is no key to wrap with: {what}; name an AES key of 256 bits")]
    NoKey {
        /// What is wrong with it.
        what: &'static str,
    },
    /// It opens what is bound to one thing for who shows another.
    #[error(
        "this server does not bind what it encrypts (Authenticated Encryption Additional Data of KMIP 1.4): nothing is wrapped by it, as each record \
         of a data key would open as any other one; have it give the key (way=get)"
    )]
    BindsNothing,
    /// It does not give back what it has wrapped a moment before, so that what it refuses proves nothing.
    #[error("this server does not open what it has wrapped itself a moment before: nothing is wrapped by it")]
    Unopened,
    /// By the key that the server gives it does not open.
    #[error(
        "it does not open: the record was changed, or the server's key of that identifier is another one than it was; put the right one back"
    )]
    Closed,
    /// The record has something that nobody has put there.
    #[error("the record of a key that a KMIP server's key has wrapped has an identifier that is none")]
    Record,
    /// The record is of another cluster.
    #[error("it was wrapped for cluster {cluster}, and stands in another one's metadata: put the right one back")]
    OtherCluster {
        /// For which.
        cluster: ClusterId,
    },
    /// The record is of another of the server's keys.
    #[error("it was wrapped by the KMIP server's key {key}, and this node was given another: give it that one, too")]
    OtherKey {
        /// Its unique identifier.
        key: String,
    },
}

impl KmipError {
    /// The server may answer the same question soon.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            KmipError::Refused { reason, .. } => refusal::is_passing(*reason),
            KmipError::Ttlv(_) => true,
            _ => false,
        }
    }

    /// It would say the same to whatever it is asked by this key: any refusal but one that may be of a record's tag.
    #[must_use]
    pub fn is_of_all(&self) -> bool {
        matches!(self, KmipError::Refused { asked, reason, .. } if !refusal::is_of_tag(*asked, *reason))
    }

    /// It may be a record's tag that it refuses, or the server's own trouble: another server may say more.
    #[must_use]
    pub fn is_unclear(&self) -> bool {
        matches!(self, KmipError::Refused { asked, reason, .. } if refusal::is_of_tag(*asked, *reason) && refusal::is_unclear(*reason))
    }
}

/// Is it an answer to that, and no refusal?
///
/// # Errors
/// It is not.
pub fn look(request: &KmipRequest, answer: &[u8]) -> Result<(), KmipError> {
    message::read(answer, request.asks).map(drop)
}

/// See the module.
#[derive(Clone)]
pub struct Kmip {
    key: String,
    way: KmipWay,
    version: KmipVersion,
    cluster: Option<ClusterId>,
}

fn check_name(key: &str) -> Result<(), BadKmip> {
    let is_good = |each: char| each.is_ascii_alphanumeric() || "-_.:/+=@".contains(each);
    match (1..=MAX_NAME_BYTES).contains(&key.len()) && key.chars().all(is_good) {
        true => Ok(()),
        false => Err(BadKmip::Name),
    }
}

/// Can it stand in a record?
pub(crate) fn check_record(key: &str) -> Result<(), KmipError> {
    check_name(key).map_err(|_| KmipError::Record)
}

/// What a probe has seen so far.
#[derive(Clone, Copy)]
enum Seen {
    Nothing,
    /// It opens what it has wrapped.
    Opens,
}

/// What a record has of it.
type Wrapped = (Hex<NONCE_BYTES>, Hex<WRAPPED_BYTES>);

impl Kmip {
    /// The server's key with this unique identifier.
    ///
    /// # Errors
    /// It cannot be one, or what it wraps would be bound to nothing.
    pub fn new(key: &str, way: KmipWay, version: KmipVersion) -> Result<Kmip, BadKmip> {
        check_name(key)?;
        if way == KmipWay::Encrypt && version < BINDS_SINCE {
            return Err(BadKmip::Version { version });
        }
        Ok(Kmip {
            key: key.to_owned(),
            way,
            version,
            cluster: None,
        })
    }

    /// Asks whether the server wraps with its key, or gives it. Where the server wraps, it is asked then whether it binds what it wraps: it has to
    /// refuse it as bound to something else, and after that to open it as what it is, so that the refusal was none of something else.
    #[must_use]
    pub fn probe(&self, random: Random<'_>) -> Question<KmipProbed> {
        let mut nonce = [0; NONCE_BYTES];
        random(&mut nonce);
        let asked = self.clone();
        match self.way {
            KmipWay::Get => Question::kmip(self.ask_get(), move |answer| {
                asked.got(answer).map(|_| KmipProbed(None)).map_err(KeyError::KmipProbe)
            }),
            KmipWay::Encrypt => Question::kmip(self.ask_encrypt(&PLAIN, PROBE, &nonce), move |answer| {
                let encrypted = asked
                    .encrypted(answer, &nonce, PLAIN.len())
                    .map_err(KeyError::KmipProbe)?;
                Ok(KmipProbed(Some(asked.binds(encrypted, nonce, Seen::Nothing))))
            }),
        }
    }

    /// Asks for what is wrapped here, bound to [`PROBE`], as if it were bound to something else: it has to refuse that.
    fn binds(&self, encrypted: Vec<u8>, nonce: [u8; NONCE_BYTES], seen: Seen) -> Question<KmipProbed> {
        let asked = self.clone();
        Question::kmip(
            self.ask_decrypt(&encrypted, OTHER, &nonce),
            move |answer| match message::read(answer, KmipAsks::Decrypt) {
                Ok(_) => Err(KeyError::KmipProbe(KmipError::BindsNothing)),
                Err(KmipError::Refused { reason, .. }) if refusal::is_of_tag(KmipAsks::Decrypt, reason) => {
                    Ok(KmipProbed(match seen {
                        Seen::Opens => None,
                        Seen::Nothing => Some(asked.opens(encrypted, nonce, refusal::is_unclear(reason))),
                    }))
                }
                Err(why) => Err(KeyError::KmipProbe(why)),
            },
        )
    }

    /// Asks for the same as what it is. `again`: what it has said before may have been a trouble that has passed, so that is asked once more.
    fn opens(&self, encrypted: Vec<u8>, nonce: [u8; NONCE_BYTES], again: bool) -> Question<KmipProbed> {
        let asked = self.clone();
        Question::kmip(self.ask_decrypt(&encrypted, PROBE, &nonce), move |answer| {
            let opened = message::read(answer, KmipAsks::Decrypt).and_then(|answer| {
                let plain = answer.decrypted(asked.version, &asked.key)?;
                if plain == PLAIN {
                    Ok(())
                } else {
                    Err(KmipError::Unopened)
                }
            });
            match opened {
                Ok(()) => Ok(KmipProbed(again.then(|| asked.binds(encrypted, nonce, Seen::Opens)))),
                Err(KmipError::Refused { reason, .. }) if refusal::is_of_tag(KmipAsks::Decrypt, reason) => {
                    Err(KeyError::KmipProbe(KmipError::Unopened))
                }
                Err(why) => Err(KeyError::KmipProbe(why)),
            }
        })
    }

    fn ask_encrypt(&self, plain: &[u8], associated: &[u8], nonce: &[u8; NONCE_BYTES]) -> KmipRequest {
        KmipRequest::new(
            KmipAsks::Encrypt,
            message::request(self.version, KmipAsks::Encrypt, |payload| {
                payload.text(code::UNIQUE_IDENTIFIER, &self.key);
                message::gcm(payload);
                payload.bytes(code::DATA, plain);
                payload.bytes(code::NONCE, nonce);
                payload.bytes(code::ADDITIONAL_DATA, associated);
            }),
        )
    }

    fn ask_decrypt(&self, encrypted: &[u8], associated: &[u8], nonce: &[u8; NONCE_BYTES]) -> KmipRequest {
        let (data, tag) = encrypted.split_at(encrypted.len() - crate::wrapped::TAG_BYTES);
        KmipRequest::new(
            KmipAsks::Decrypt,
            message::request(self.version, KmipAsks::Decrypt, |payload| {
                payload.text(code::UNIQUE_IDENTIFIER, &self.key);
                message::gcm(payload);
                payload.bytes(code::DATA, data);
                payload.bytes(code::NONCE, nonce);
                payload.bytes(code::ADDITIONAL_DATA, associated);
                payload.bytes(code::AUTHENTICATION_TAG, tag);
            }),
        )
    }

    fn ask_get(&self) -> KmipRequest {
        let payload = |payload: &mut Writer| {
            payload.text(code::UNIQUE_IDENTIFIER, &self.key);
            payload.enumeration(code::KEY_FORMAT_TYPE, code::FORMAT_RAW);
        };
        KmipRequest::new(KmipAsks::Get, message::request(self.version, KmipAsks::Get, payload))
    }

    /// As many bytes as there were, and the tag behind them.
    fn encrypted(&self, answer: &[u8], nonce: &[u8; NONCE_BYTES], length: usize) -> Result<Vec<u8>, KmipError> {
        let answer = message::read(answer, KmipAsks::Encrypt)?;
        let encrypted = answer.encrypted(self.version, &self.key, nonce)?;
        match encrypted.data.len() == length {
            true => Ok([encrypted.data, encrypted.tag].concat()),
            false => Err(KmipError::Answer {
                what: "what is encrypted has another length than what was plain",
            }),
        }
    }

    fn got(&self, answer: &[u8]) -> Result<Kek, KmipError> {
        let answer = message::read(answer, KmipAsks::Get)?;
        let mut bytes = Box::new(Zeroizing::new([0; KEK_BYTES]));
        bytes.copy_from_slice(answer.got(self.version, &self.key)?);
        Ok(Kek::new(bytes))
    }

    fn record(&self, label: Label, (nonce, wrapped): Wrapped) -> WrappedKey {
        let by = By::Kmip {
            key: self.key.clone(),
            cluster: self.cluster,
            nonce,
            wrapped,
        };
        WrappedKey { label, by }
    }
}

impl Provider for Kmip {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn of_cluster(&mut self, cluster: ClusterId) {
        self.cluster = Some(cluster);
    }

    fn first(&mut self) -> Result<WrappingKey, BadPassphrase> {
        let key = self.key.clone();
        Ok(WrappingKey(Which::Kmip { key }))
    }

    fn has(&mut self, by: &WrappingKey) -> Result<bool, BadPassphrase> {
        Ok(*by == self.first()?)
    }

    fn wrap_by(
        &mut self,
        by: &WrappingKey,
        binding: &Binding,
        key: &DataKey,
        random: Random<'_>,
    ) -> Result<Next<WrappedKey>, KeyError> {
        if !self.has(by).is_ok_and(|has| has) {
            return Err(KeyError::NotHere {
                key: binding.key,
                by: by.clone(),
                given: KIND,
            });
        }
        let label = Label::new(binding, key);
        let associated = label.associated(&Told::Kmip {
            key: &self.key,
            cluster: self.cluster,
        });
        let mut nonce = [0; NONCE_BYTES];
        random(&mut nonce);
        let (asked, name) = (self.clone(), binding.key);
        let refuse = move |why| KeyError::Kmip { key: name, why };
        Ok(Next::Ask(match self.way {
            KmipWay::Encrypt => Question::kmip(self.ask_encrypt(key.expose(), &associated, &nonce), move |answer| {
                let encrypted = asked.encrypted(answer, &nonce, DATA_KEY_BYTES).map_err(refuse)?;
                let mut wrapped = [0; WRAPPED_BYTES];
                wrapped.copy_from_slice(&encrypted);
                Ok(asked.record(label, (Hex(nonce), Hex(wrapped))))
            }),
            KmipWay::Get => {
                // It is wrapped when the key has come.
                let key = DataKey::from_bytes(key.expose()).map_err(|why| KeyError::NoKey { key: name, why })?;
                Question::kmip(self.ask_get(), move |answer| {
                    let kek = asked.got(answer).map_err(refuse)?;
                    let wrapped = kek.wrap(&associated, &key, &mut |bytes| bytes.copy_from_slice(&nonce));
                    Ok(asked.record(label, wrapped))
                })
            }
        }))
    }

    fn unwrap(&mut self, binding: &Binding, wrapped: &WrappedKey) -> Result<Next<DataKey>, KeyError> {
        wrapped.expect(binding)?;
        let By::Kmip {
            key: of,
            cluster,
            nonce,
            wrapped: bytes,
        } = &wrapped.by
        else {
            return Err(wrapped.other_provider(KIND));
        };
        let name = binding.key;
        let refuse = move |why| KeyError::Kmip { key: name, why };
        if *of != self.key {
            return Err(refuse(KmipError::OtherKey { key: of.clone() }));
        }
        if let (Some(ours), Some(theirs)) = (self.cluster, *cluster)
            && ours != theirs
        {
            return Err(refuse(KmipError::OtherCluster { cluster: theirs }));
        }
        let label = wrapped.label.clone();
        let associated = label.associated(&Told::Kmip {
            key: of,
            cluster: *cluster,
        });
        let asked = self.clone();
        Ok(Next::Ask(match self.way {
            KmipWay::Encrypt => Question::kmip(self.ask_decrypt(&bytes.0, &associated, &nonce.0), move |answer| {
                let answer = message::read(answer, KmipAsks::Decrypt).map_err(refuse)?;
                label.accept(answer.decrypted(asked.version, &asked.key).map_err(refuse)?)
            }),
            KmipWay::Get => {
                let (nonce, bytes) = (*nonce, *bytes);
                Question::kmip(self.ask_get(), move |answer| {
                    let kek = asked.got(answer).map_err(refuse)?;
                    let opened = kek.unwrap(&associated, &nonce, &bytes);
                    label.accept(&opened.ok_or(refuse(KmipError::Closed))?[..DATA_KEY_BYTES])
                })
            }
        }))
    }
}

impl fmt::Debug for Kmip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kmip({})", self.key)
    }
}

#[cfg(test)]
mod tests;
