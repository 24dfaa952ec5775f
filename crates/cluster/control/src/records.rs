//! The records of the metadata, as a copy of them is kept on every store (`docs/format.md`, "The memo").
//!
//! ```text
//! amita-records 1\n
//! life 0 revision 1234 records 2\n
//! /amita/cluster 52 {"id":"…","version":1}\n
//! /amita/volumes/disk0 118 {"id":1,"name":"disk0",…}\n
//! ```
//! Each line has a key, the bytes of its value, and the value. A person with nothing but `strings` can read it.

use crate::coordinator::election_key;
use amita_types::link::links_prefix;
use amita_types::map::{self, PREFIX};
use std::collections::BTreeMap;
use std::io::Write as _;

/// The first line.
const FORM: &str = "amita-records 1";

/// The records as they were at a revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// Which life of the metadata: see [`map::Life`].
    pub life: u64,
    /// The metadata's revision.
    pub revision: u64,
    /// Keys and values.
    pub values: BTreeMap<String, Vec<u8>>,
}

/// `/amita/inventory/NODE_ID/...`: what a node says of the machine that it runs on. It goes with the node's own record.
#[must_use]
pub fn inventory_prefix() -> String {
    format!("{PREFIX}inventory/")
}

/// `/amita/alerts/...`: what is told to whom at this moment. Nothing is decided by it but what the notifier does next.
#[must_use]
pub fn alerts_prefix() -> String {
    format!("{PREFIX}alerts/")
}

/// Is this key worth keeping? Not what says who is there at this moment, what follows from the rest, what happened, or what
/// was wished of owners: nobody owns a volume, or serves a store, when the records come back.
#[must_use]
pub fn is_kept(key: &str) -> bool {
    const LEFT_OUT: &[&str] = &[
        "audit/",
        "live/",
        "events/",
        "whole/",
        "raised/",
        "suspect/",
        "moves/",
        "taking/",
        "sets/",
        "flattening/",
        "copies/by/",
        "mirrors/by/",
        "closing/",
        "mounts/",
        "condition/",
        "policy-runs/",
        "backups/runs/",
        "backups/by/",
        "backups/verified/",
        "backups/verifying/",
        "backups/tasks/",
        "inventory/",
        "alerts/",
        "sick-disks/",
    ];
    let Some(path) = key.strip_prefix(PREFIX) else {
        return false;
    };
    let is_of_links = key.starts_with(&links_prefix());
    key != election_key() && !is_of_links && !LEFT_OUT.iter().any(|prefix| path.starts_with(prefix))
}

impl Records {
    /// Which life of the metadata the records say they are of.
    #[must_use]
    pub fn said_life(&self) -> u64 {
        let life = self.values.get(&map::life_key());
        life.and_then(|value| serde_json::from_slice::<map::Life>(value).ok())
            .map_or(0, |life| life.number)
    }

    /// As bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let bytes: usize = self
            .values
            .iter()
            .map(|(key, value)| key.len() + value.len() + 12)
            .sum();
        let mut out = Vec::with_capacity(bytes + 128);
        let (life, revision, count) = (self.life, self.revision, self.values.len());
        let _ = writeln!(out, "{FORM}\nlife {life} revision {revision} records {count}");
        for (key, value) in &self.values {
            let _ = write!(out, "{key} {} ", value.len());
            out.extend_from_slice(value);
            out.push(b'\n');
        }
        out
    }

    /// From bytes.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn decode(bytes: &[u8]) -> Result<Records, String> {
        let mut rest = bytes;
        let form = line(&mut rest)?;
        if form != FORM {
            return Err(format!(
                "it begins with {form:?}, not with {FORM:?}: another version of the program wrote it"
            ));
        }
        let head: Vec<&str> = line(&mut rest)?.split(' ').collect();
        let ["life", life, "revision", revision, "records", count] = head[..] else {
            return Err("its second line does not say life, revision and number of records".to_owned());
        };
        let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text:?}: {error}"));
        let (life, revision, count) = (number(life)?, number(revision)?, number(count)?);
        let mut values = BTreeMap::new();
        while !rest.is_empty() {
            let key = word(&mut rest)?;
            let length = number(word(&mut rest)?)? as usize;
            let (Some(value), Some(b'\n')) = (rest.get(..length), rest.get(length)) else {
                return Err(format!("the value of {key} is cut off"));
            };
            values.insert(key.to_owned(), value.to_vec());
            rest = &rest[length + 1..];
        }
        if values.len() as u64 != count {
            return Err(format!("it has {} records and says that it has {count}", values.len()));
        }
        Ok(Records { life, revision, values })
    }
}

fn until<'a>(rest: &mut &'a [u8], end: u8) -> Result<&'a str, String> {
    let at = rest.iter().position(|&byte| byte == end).ok_or("it is cut off")?;
    let (found, after) = rest.split_at(at);
    *rest = &after[1..];
    std::str::from_utf8(found).map_err(|_| "a key is no text".to_owned())
}

fn line<'a>(rest: &mut &'a [u8]) -> Result<&'a str, String> {
    until(rest, b'\n')
}

fn word<'a>(rest: &mut &'a [u8]) -> Result<&'a str, String> {
    until(rest, b' ')
}

#[cfg(test)]
mod tests;
