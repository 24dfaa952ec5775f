//! One record: who did what, from where, and how it ended.

use crate::change::Change;
use crate::hash::{BadHash, Hash};
use crate::text::{cut, escaped_len, inert, plain};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

/// The most bytes of a record's JSON: with its hash, and what syslog puts before it, it stays below that one's usual 8 KiB.
pub const MAX_BODY_BYTES: usize = 7 * 1024;
/// The most bytes of texts, as they stand in JSON: the rest is cut off. Of a name and of an object,
const MAX_NAME_BYTES: usize = 512;
/// of why it failed, or what else is to be said,
const MAX_TEXT_BYTES: usize = 1024;
/// of a machine's name (RFC 1035, section 2.3.4),
const MAX_HOST_BYTES: usize = 256;
/// of an action, a role and an address.
const MAX_WORD_BYTES: usize = 64;

/// The highest number of a record: the keys of records have twelve digits, and any reader of JSON holds it exactly.
pub const MAX_SEQ: u64 = 999_999_999_999;

/// The action that takes the oldest records away. Its object is the [`trimmed`] place where the log begins then.
pub const TRIM: &str = "audit.trim";

/// How somebody has proved who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Proof {
    /// By a certificate of the cluster.
    Certificate,
    /// By the password of a user of etcd.
    Password,
    /// By a token: one to join, or one of the API.
    Token,
    /// Not at all: whoever is on the machine or on the network is believed there.
    None,
}

impl Proof {
    /// As it stands in records.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Proof::Certificate => "certificate",
            Proof::Password => "password",
            Proof::Token => "token",
            Proof::None => "none",
        }
    }
}

/// Who did it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Who {
    /// The whole name of the certificate; where there is none, what is known instead.
    pub name: String,
    /// The role in which it was done.
    pub role: String,
    /// How they have proved it.
    pub proof: Proof,
}

/// From where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whence {
    /// The machine's name, as the machine says.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// The number of the user who ran the command there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The network address, as a server has seen it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

/// How far it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It is about to be done. The record of its end names this one.
    Begun,
    /// It is done.
    Done,
    /// It was not done, or not all of it.
    Failed,
    /// The answer to a change was lost: it was done or not, or in part.
    Unknown,
    /// Who asked may not.
    Refused,
}

impl Outcome {
    /// As it stands in records.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Outcome::Begun => "begun",
            Outcome::Done => "done",
            Outcome::Failed => "failed",
            Outcome::Unknown => "unknown",
            Outcome::Refused => "refused",
        }
    }
}

/// What is told, before it has its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// When: milliseconds since 1970, by the clock of who tells.
    pub unix_ms: u64,
    /// Who did it.
    pub who: Who,
    /// From where.
    pub whence: Whence,
    /// What: `volume.create`.
    pub action: String,
    /// To what: a name, an id, a key.
    pub object: String,
    /// How far it came.
    pub outcome: Outcome,
    /// The record with which it began.
    pub of: Option<u64>,
    /// What it changed.
    pub changes: Vec<Change>,
    /// Why it failed or was refused, or what else is to be said.
    pub text: String,
}

impl Draft {
    /// An action of now, without an end yet.
    #[must_use]
    pub fn new(who: Who, whence: Whence, action: &str, object: &str, outcome: Outcome) -> Draft {
        Draft {
            unix_ms: now_ms(),
            who,
            whence,
            action: action.to_owned(),
            object: object.to_owned(),
            outcome,
            of: None,
            changes: Vec::new(),
            text: String::new(),
        }
    }

    /// The same, with what is to be said of it.
    #[must_use]
    pub fn saying(mut self, text: impl fmt::Display) -> Draft {
        self.text = text.to_string();
        self
    }

    /// The same, with more to be said: what was said before is cut off where there is no room for that.
    #[must_use]
    pub fn adding(mut self, more: &str) -> Draft {
        self.text = cut(&self.text, MAX_TEXT_BYTES.saturating_sub(escaped_len(more)));
        self.text.push_str(more);
        self
    }

    /// What it becomes behind that record; `None`: it is the first. It is of [`MAX_BODY_BYTES`] at most: changes that have no place
    /// are counted.
    #[must_use]
    pub fn after(mut self, head: Option<&Head>) -> Line {
        let mut left_out = 0;
        let mut changes = std::mem::take(&mut self.changes);
        loop {
            let mut draft = self.clone();
            if left_out > 0 {
                draft = draft.adding(&format!(" ({left_out} changed keys are left out)"));
            }
            let line = Line::of(draft.placed(head, changes));
            if line.body.len() <= MAX_BODY_BYTES || line.record.changes.is_empty() {
                return line;
            }
            changes = line.record.changes;
            changes.pop();
            left_out += 1;
        }
    }

    fn placed(self, head: Option<&Head>, changes: Vec<Change>) -> Record {
        let (seq, prev) = head.map_or((1, Hash::NOTHING), |head| (head.next(), head.hash));
        Record {
            seq,
            prev,
            unix_ms: self.unix_ms,
            who: Who {
                name: cut(&self.who.name, MAX_NAME_BYTES),
                role: cut(&self.who.role, MAX_WORD_BYTES),
                proof: self.who.proof,
            },
            whence: Whence {
                host: cut(&self.whence.host, MAX_HOST_BYTES),
                uid: self.whence.uid,
                address: self.whence.address.map(|address| cut(&address, MAX_WORD_BYTES)),
            },
            action: cut(&self.action, MAX_WORD_BYTES),
            object: cut(&self.object, MAX_NAME_BYTES),
            outcome: self.outcome,
            of: self.of,
            changes,
            text: cut(&self.text, MAX_TEXT_BYTES),
        }
    }
}

/// A record in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its number; they follow each other.
    pub seq: u64,
    /// The hash of the record before.
    pub prev: Hash,
    /// When: milliseconds since 1970.
    pub unix_ms: u64,
    /// Who did it.
    pub who: Who,
    /// From where.
    pub whence: Whence,
    /// What.
    pub action: String,
    /// To what.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub object: String,
    /// How far it came.
    pub outcome: Outcome,
    /// The record with which it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
    /// What it changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// Why it failed or was refused, or what else is to be said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// A line that is no record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub String);

/// A record as it is kept: its hash and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    hash: Hash,
    body: String,
    record: Record,
}

impl Line {
    fn of(record: Record) -> Line {
        let body = inert(&serde_json::to_string(&record).expect("plain data"));
        Line {
            hash: Hash::of(&body),
            body,
            record,
        }
    }

    /// From what is kept. The hash is the one that stands there, right or not: see [`Line::is_sound`].
    ///
    /// # Errors
    /// What is wrong with its form.
    pub fn parse(text: &str) -> Result<Line, Unreadable> {
        let (hash, body) = text
            .split_once(' ')
            .ok_or_else(|| Unreadable("it has not a hash and a record".to_owned()))?;
        let hash = hash.parse().map_err(|why: BadHash| Unreadable(why.to_string()))?;
        let record: Record = serde_json::from_str(body).map_err(|why| Unreadable(plain(&why.to_string())))?;
        if !is_seq(record.seq) {
            return Err(Unreadable(format!("{} is no record's number", record.seq)));
        }
        Ok(Line {
            hash,
            body: body.to_owned(),
            record,
        })
    }

    /// Is the hash that of the text?
    #[must_use]
    pub fn is_sound(&self) -> bool {
        Hash::of(&self.body) == self.hash
    }

    /// The record.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Its number and hash: what the next one is put behind.
    #[must_use]
    pub fn head(&self) -> Head {
        Head {
            seq: self.record.seq,
            hash: self.hash,
        }
    }

    /// How many bytes it counts for where bytes are counted: none for more than the longest that is written.
    #[must_use]
    pub fn kept_bytes(&self) -> u64 {
        self.body.len().min(MAX_BODY_BYTES) as u64
    }

    /// As it is kept and shipped.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{} {}", self.hash, self.body)
    }
}

/// A record's number and hash, `12:4f1c…`. Who knows one from elsewhere can tell whether the log was changed up to there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The record's number, from 1 to [`MAX_SEQ`]; no other is read.
    #[serde(deserialize_with = "read_seq")]
    pub seq: u64,
    /// Its hash.
    pub hash: Hash,
}

impl Head {
    /// The number of the record behind it.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.seq.saturating_add(1)
    }
}

fn is_seq(seq: u64) -> bool {
    (1..=MAX_SEQ).contains(&seq)
}

/// Whoever writes the log's keys chooses the number: nothing is counted on from one that no log reaches.
fn read_seq<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let seq = u64::deserialize(from)?;
    if is_seq(seq) {
        return Ok(seq);
    }
    Err(serde::de::Error::custom(format!("{seq} is no record's number")))
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, self.hash)
    }
}

impl FromStr for Head {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Head, Unreadable> {
        let wrong = || Unreadable(format!("{text:?} is no record's number and hash (NUMBER:HASH)"));
        let (seq, hash) = text.split_once(':').ok_or_else(wrong)?;
        let seq = seq.parse().ok().filter(|seq| is_seq(*seq)).ok_or_else(wrong)?;
        Ok(Head {
            seq,
            hash: hash.parse().map_err(|_| wrong())?,
        })
    }
}

/// How a record of [`TRIM`] says where the log begins then: behind `head`.
#[must_use]
pub fn trimmed(head: &Head) -> String {
    head.to_string()
}

/// Milliseconds since 1970.
#[must_use]
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis().try_into().unwrap_or(u64::MAX)
}
