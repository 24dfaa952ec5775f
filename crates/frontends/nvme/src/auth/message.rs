//! The messages of the authentication transaction (NVM Express Base 2.1, 8.3.4.4 and 8.3.4.5). All numbers are
//! little-endian; a public value of Diffie-Hellman is big-endian.
//!
//! ```text
//! all        0 AUTH_TYPE   1 AUTH_ID   2..4 reserved   4..6 T_ID
//! Negotiate  6 SC_C        7 NAPD      8.. descriptors of 64 bytes:
//!            0 AUTHID (1)  2 HALEN     3 DHLEN   4..34 hash identifiers   34..64 DH group identifiers
//! Challenge  6 HL          8 HashID    9 DHgID   10..12 DHVLEN   12..16 SEQNUM   16.. C1, DH value
//! Reply      6 HL          8 CVALID    10..12 DHVLEN   12..16 SEQNUM   16.. R1, C2 (as long, zero if not valid), DH value
//! Success1   6 HL          8 RVALID    16.. R2 if valid
//! Success2   nothing more; 16 bytes
//! Failure    6 reason code (1)   7 its explanation; 16 bytes, of which the last eight are reserved
//! ```

use super::group::Group;
use amita_keys::Hash;
use std::fmt;

/// AUTH_TYPE of messages that are common to all protocols.
const COMMON: u8 = 0;
/// AUTH_TYPE of DH-HMAC-CHAP.
const DHCHAP: u8 = 1;
/// The protocol's identifier in a descriptor.
const PROTOCOL_DHCHAP: u8 = 1;

const ID_NEGOTIATE: u8 = 0x00;
const ID_CHALLENGE: u8 = 0x01;
const ID_REPLY: u8 = 0x02;
const ID_SUCCESS1: u8 = 0x03;
const ID_SUCCESS2: u8 = 0x04;
const ID_FAILURE2: u8 = 0xf0;
const ID_FAILURE1: u8 = 0xf1;

/// Bytes before what is variable.
const HEAD_BYTES: usize = 16;
const NEGOTIATE_HEAD_BYTES: usize = 8;
const DESCRIPTOR_BYTES: usize = 64;
/// Identifiers that a descriptor has room for, of each kind.
const MAX_IDS: usize = 30;
/// A failure is complete with these; the rest is reserved.
const FAILURE_BYTES: usize = 8;

/// No message is longer: a Reply with the largest group and hash has 16 + 2 * 64 + 1024 bytes, a Negotiate with all
/// descriptors that can be counted is longer, but ends here.
pub const MAX_MESSAGE_BYTES: usize = 4096;

/// Why an authentication failed: the explanation of the reason code (NVM Express Base 2.1, 8.3.4.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The peer has not proven that it has the secret.
    Failed = 1,
    /// No protocol is usable.
    ProtocolNotUsable = 2,
    /// A secure channel was asked for that is not made here.
    ConcatenationMismatch = 3,
    /// No hash function is usable.
    HashNotUsable = 4,
    /// No Diffie-Hellman group is usable.
    GroupNotUsable = 5,
    /// A message has wrong contents.
    IncorrectPayload = 6,
    /// A message that was not to come now.
    IncorrectMessage = 7,
}

impl Reason {
    pub const ALL: [Reason; 7] = [
        Reason::Failed,
        Reason::ProtocolNotUsable,
        Reason::ConcatenationMismatch,
        Reason::HashNotUsable,
        Reason::GroupNotUsable,
        Reason::IncorrectPayload,
        Reason::IncorrectMessage,
    ];
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Failed => "the secret does not match",
            Reason::ProtocolNotUsable => "no authentication protocol in common",
            Reason::ConcatenationMismatch => "secure channel concatenation is not supported",
            Reason::HashNotUsable => "no hash function in common",
            Reason::GroupNotUsable => "no Diffie-Hellman group in common",
            Reason::IncorrectPayload => "a message has wrong contents",
            Reason::IncorrectMessage => "a message out of order",
        })
    }
}

/// A message of either side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The host begins.
    Negotiate(Negotiate),
    /// The controller challenges the host.
    Challenge(Challenge),
    /// The host answers, and may challenge the controller.
    Reply(Reply),
    /// The controller has accepted the host, and answers its challenge.
    Success1(Success1),
    /// The host has accepted the controller.
    Success2,
    /// The controller ends the transaction.
    Failure1(Reason),
    /// The host ends the transaction.
    Failure2(Reason),
}

/// What the host can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Negotiate {
    /// Secure channel concatenation: 0 for none.
    pub concatenation: u8,
    /// Numbers of hash functions and of groups, of each descriptor of this protocol; none: it offers other protocols only.
    pub offers: Option<(Vec<u8>, Vec<u8>)>,
}

/// The controller's challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// The number of the hash function of this transaction.
    pub hash_id: u8,
    /// The number of the group.
    pub group_id: u8,
    /// S1.
    pub sequence: u32,
    /// C1, as long as the hash.
    pub challenge: Vec<u8>,
    /// The controller's public value; empty without a group.
    pub public: Vec<u8>,
}

/// The host's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// S2; 0 if it does not challenge.
    pub sequence: u32,
    /// R1.
    pub response: Vec<u8>,
    /// C2, if it challenges the controller.
    pub challenge: Option<Vec<u8>>,
    /// The host's public value; empty without a group.
    pub public: Vec<u8>,
}

/// The controller's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Success1 {
    /// Bytes of the hash.
    pub hash_bytes: u8,
    /// R2, if it was challenged.
    pub response: Option<Vec<u8>>,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let field = bytes.get(at..at + 2)?;
    Some(u16::from_le_bytes(field.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(field.try_into().ok()?))
}

impl Message {
    /// Reads a message: its transaction, and what it says. More bytes than it needs may follow: hosts send and receive
    /// buffers of a fixed size.
    pub fn decode(bytes: &[u8]) -> Result<(u16, Message), Reason> {
        let transaction = u16_at(bytes, 4).ok_or(Reason::IncorrectPayload)?;
        let message = match (bytes[0], bytes[1]) {
            (COMMON, ID_NEGOTIATE) => Negotiate::decode(bytes).map(Message::Negotiate),
            (COMMON, id @ (ID_FAILURE1 | ID_FAILURE2)) => {
                let explanation = *bytes.get(FAILURE_BYTES - 1).ok_or(Reason::IncorrectPayload)?;
                // One that is not known yet is a failure all the same.
                let reason = Reason::ALL
                    .into_iter()
                    .find(|reason| *reason as u8 == explanation)
                    .unwrap_or(Reason::Failed);
                Some(if id == ID_FAILURE1 {
                    Message::Failure1(reason)
                } else {
                    Message::Failure2(reason)
                })
            }
            (DHCHAP, ID_CHALLENGE) => Challenge::decode(bytes).map(Message::Challenge),
            (DHCHAP, ID_REPLY) => Reply::decode(bytes).map(Message::Reply),
            (DHCHAP, ID_SUCCESS1) => Success1::decode(bytes).map(Message::Success1),
            (DHCHAP, ID_SUCCESS2) => (bytes.len() >= HEAD_BYTES).then_some(Message::Success2),
            _ => return Err(Reason::IncorrectMessage),
        };
        Ok((transaction, message.ok_or(Reason::IncorrectPayload)?))
    }

    /// Writes a message of that transaction.
    #[must_use]
    pub fn encode(&self, transaction: u16) -> Vec<u8> {
        let mut out = vec![0; HEAD_BYTES];
        out[4..6].copy_from_slice(&transaction.to_le_bytes());
        let (kind, id) = match self {
            Message::Negotiate(_) => (COMMON, ID_NEGOTIATE),
            Message::Challenge(_) => (DHCHAP, ID_CHALLENGE),
            Message::Reply(_) => (DHCHAP, ID_REPLY),
            Message::Success1(_) => (DHCHAP, ID_SUCCESS1),
            Message::Success2 => (DHCHAP, ID_SUCCESS2),
            Message::Failure1(_) => (COMMON, ID_FAILURE1),
            Message::Failure2(_) => (COMMON, ID_FAILURE2),
        };
        (out[0], out[1]) = (kind, id);
        match self {
            Message::Negotiate(negotiate) => negotiate.encode(&mut out),
            Message::Challenge(challenge) => challenge.encode(&mut out),
            Message::Reply(reply) => reply.encode(&mut out),
            Message::Success1(success) => {
                out[6] = success.hash_bytes;
                if let Some(response) = &success.response {
                    out[8] = 1;
                    out.extend_from_slice(response);
                }
            }
            Message::Success2 => {}
            Message::Failure1(reason) | Message::Failure2(reason) => {
                // The reason code is always "authentication failed"; the explanation says more.
                out[6] = 1;
                out[7] = *reason as u8;
            }
        }
        out
    }
}

impl Negotiate {
    /// An offer of these.
    #[must_use]
    pub fn of(hashes: &[Hash], groups: &[Group]) -> Negotiate {
        Negotiate {
            concatenation: 0,
            offers: Some((
                hashes.iter().map(|hash| hash.id()).collect(),
                groups.iter().map(|group| group.id()).collect(),
            )),
        }
    }

    fn decode(bytes: &[u8]) -> Option<Negotiate> {
        let concatenation = *bytes.get(6)?;
        let descriptors = usize::from(*bytes.get(7)?);
        let all = bytes.get(NEGOTIATE_HEAD_BYTES..NEGOTIATE_HEAD_BYTES + descriptors * DESCRIPTOR_BYTES)?;
        let ours = all
            .chunks_exact(DESCRIPTOR_BYTES)
            .find(|descriptor| descriptor[0] == PROTOCOL_DHCHAP);
        let Some(ours) = ours else {
            return Some(Negotiate {
                concatenation,
                offers: None,
            });
        };
        let (hashes, groups) = (usize::from(ours[2]), usize::from(ours[3]));
        if !(1..=MAX_IDS).contains(&hashes) || !(1..=MAX_IDS).contains(&groups) {
            return None;
        }
        Some(Negotiate {
            concatenation,
            offers: Some((
                ours[4..4 + hashes].to_vec(),
                ours[4 + MAX_IDS..4 + MAX_IDS + groups].to_vec(),
            )),
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.truncate(NEGOTIATE_HEAD_BYTES);
        out[6] = self.concatenation;
        let Some((hashes, groups)) = &self.offers else { return };
        out[7] = 1;
        let mut descriptor = [0; DESCRIPTOR_BYTES];
        descriptor[0] = PROTOCOL_DHCHAP;
        descriptor[2] = hashes.len() as u8;
        descriptor[3] = groups.len() as u8;
        descriptor[4..4 + hashes.len()].copy_from_slice(hashes);
        descriptor[4 + MAX_IDS..4 + MAX_IDS + groups.len()].copy_from_slice(groups);
        out.extend_from_slice(&descriptor);
    }
}

impl Challenge {
    fn decode(bytes: &[u8]) -> Option<Challenge> {
        let hash_bytes = usize::from(*bytes.get(6)?);
        let public_bytes = usize::from(u16_at(bytes, 10)?);
        let sequence = u32_at(bytes, 12)?;
        let rest = &bytes[HEAD_BYTES..];
        Some(Challenge {
            hash_id: bytes[8],
            group_id: bytes[9],
            sequence,
            challenge: rest.get(..hash_bytes)?.to_vec(),
            public: rest.get(hash_bytes..hash_bytes + public_bytes)?.to_vec(),
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out[6] = self.challenge.len() as u8;
        out[8] = self.hash_id;
        out[9] = self.group_id;
        out[10..12].copy_from_slice(&(self.public.len() as u16).to_le_bytes());
        out[12..16].copy_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&self.challenge);
        out.extend_from_slice(&self.public);
    }
}

impl Reply {
    fn decode(bytes: &[u8]) -> Option<Reply> {
        let hash_bytes = usize::from(*bytes.get(6)?);
        let public_bytes = usize::from(u16_at(bytes, 10)?);
        let sequence = u32_at(bytes, 12)?;
        let valid = match bytes[8] {
            0 => false,
            1 => true,
            _ => return None,
        };
        let rest = &bytes[HEAD_BYTES..];
        let challenge = rest.get(hash_bytes..2 * hash_bytes)?;
        Some(Reply {
            sequence,
            response: rest[..hash_bytes].to_vec(),
            challenge: valid.then(|| challenge.to_vec()),
            public: rest.get(2 * hash_bytes..2 * hash_bytes + public_bytes)?.to_vec(),
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out[6] = self.response.len() as u8;
        out[8] = u8::from(self.challenge.is_some());
        out[10..12].copy_from_slice(&(self.public.len() as u16).to_le_bytes());
        out[12..16].copy_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&self.response);
        match &self.challenge {
            Some(challenge) => out.extend_from_slice(challenge),
            None => out.resize(out.len() + self.response.len(), 0),
        }
        out.extend_from_slice(&self.public);
    }
}

impl Success1 {
    fn decode(bytes: &[u8]) -> Option<Success1> {
        let hash_bytes = *bytes.get(6)?;
        let rest = bytes.get(HEAD_BYTES..)?;
        let response = match bytes[8] {
            0 => None,
            1 => Some(rest.get(..usize::from(hash_bytes))?.to_vec()),
            _ => return None,
        };
        Some(Success1 { hash_bytes, response })
    }
}
