//! The audit log of the cluster: who did what, chained by hashes, in the metadata.
//!
//! ```text
//! /amita/audit/records/000000000012   HASH {"seq":12,"prev":"…",…}    as amita-audit makes them
//! /amita/audit/head                   {"seq":12,"hash":"…"}            the newest
//! /amita/audit/trimmed                {"seq":8,"hash":"…"}             the newest of those that were trimmed
//! ```
//! A record and the head are written by one transaction, which compares the head: of two commands at once one is behind the
//! other, and the log cannot fork (`place.rs`). Old records are trimmed by the coordinator, by one transaction for each batch, which
//! also writes a record that says so (`trim.rs`).
//!
//! Whoever can write keys puts here what he likes, of any length: nothing is read by a prefix, but so many keys by their names that
//! an answer stays below what a client takes.
//!
//! The log is apart from the events: those are for people, and nobody misses one; this is evidence. Nothing is decided by it
//! either, and a watch of everything passes it over. It is not among the records that stores keep a copy of: what must
//! outlive the metadata is shipped (`amita audit ship`).

mod place;
mod trim;

pub use trim::trim;

use crate::access::Action;
use amita_audit::{Draft, Fault, Head, Line, MAX_SEQ, Outcome, Proof, Retention, Summary, Verifier, Whence, Who};
use amita_metadata::server::Peer;
use amita_metadata::{Call, Error, KeyValue, Op, Refusal, Transact};
use amita_types::map::PREFIX;
use place::Place;
use std::net::IpAddr;

/// What is kept: the coordinator trims what is beyond either, and a log that was trimmed earlier is broken. With their keys the records
/// take less than the reserve of a server whose quota is used up.
pub const RETENTION: Retention = Retention {
    records: 20_000,
    bytes: 8 << 20,
};
/// Records of one page. Each may be of 1.5 MiB, as long as a server takes a request: a client takes answers of 256 MiB.
const PAGE: u64 = 64;
/// Where so many pages are missing, nothing is looked for behind them.
const MAX_EMPTY_PAGES: u32 = 1000;
/// How often a log is gone through anew that was trimmed meanwhile.
const ROUNDS: u32 = 8;
/// How often a lost race is tried again. Each time somebody else has written a record.
const RACES: u32 = 256;

/// The prefix of all that belongs to the log.
#[must_use]
pub fn prefix() -> String {
    format!("{PREFIX}audit/")
}

fn records() -> String {
    prefix() + "records/"
}

/// The key of a record.
#[must_use]
pub fn record_key(seq: u64) -> String {
    format!("{}{seq:012}", records())
}

fn head_key() -> String {
    prefix() + "head"
}

fn trimmed_key() -> String {
    prefix() + "trimmed"
}

/// The number of a key as [`record_key`] makes them: other keys are no part of the log.
fn place_of(key: &str) -> Option<u64> {
    let seq = key.strip_prefix(&records())?.parse().ok()?;
    (seq <= MAX_SEQ && record_key(seq) == key).then_some(seq)
}

/// Adds a record, and returns its number and hash.
///
/// # Errors
/// The metadata is away, or refuses.
pub fn append(meta: &dyn Transact, draft: &Draft) -> Result<Head, Error> {
    let mut place = Place::read(meta)?;
    let mut is_tried = false;
    for _ in 0..RACES {
        let line = place.line(draft);
        let call = place.call(&line, Vec::new(), None);
        match meta.txn(&call) {
            Ok(reply) if reply.succeeded => return Ok(line.head()),
            // An answer that was lost: it may have been written by an attempt before.
            Ok(reply) if is_it(reply.value(1), &line) => return Ok(line.head()),
            // Where the head is the same, it is wrong.
            Ok(reply) => place = Place::of(meta, reply.value(0), place.is_at(reply.value(0)))?,
            Err(why @ Error::Unknown { .. }) => {
                let key = record_key(line.head().seq);
                if is_it(meta.txn(&Call::get(key))?.value(0), &line) {
                    return Ok(line.head());
                }
                // It was not written. A disk that is full says so each time.
                if std::mem::replace(&mut is_tried, true) {
                    return Err(why);
                }
                place = Place::read(meta)?;
            }
            Err(why) => return Err(why),
        }
    }
    Err(Error::Unavailable {
        what: format!("others write to the audit log all the time ({RACES} lost races)"),
        endpoints: head_key(),
    })
}

fn is_it(found: Option<&KeyValue>, line: &Line) -> bool {
    found.is_some_and(|found| found.value == line.text().as_bytes())
}

fn put(key: String, value: Vec<u8>) -> Op {
    Op::Put {
        key,
        value,
        lease: None,
    }
}

fn json(head: &Head) -> Vec<u8> {
    serde_json::to_vec(head).expect("plain data")
}

/// Where the log begins and ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The newest of those that were trimmed.
    pub trimmed: Option<Head>,
    /// The newest of all, as the log says.
    pub head: Option<Head>,
}

/// Where the log begins and ends.
///
/// # Errors
/// The metadata is away.
pub fn bounds(meta: &dyn Transact) -> Result<Bounds, Error> {
    let call = Call {
        then: vec![Op::Get { key: trimmed_key() }, Op::Get { key: head_key() }],
        ..Call::default()
    };
    let reply = meta.txn(&call)?;
    let read = |index| reply.value(index).and_then(|found| found.json().ok());
    Ok(Bounds {
        trimmed: read(0),
        head: read(1),
    })
}

/// The records from this number on that lie on one page with it, each with its place.
///
/// # Errors
/// The metadata is away.
pub fn page(meta: &dyn Transact, from: u64) -> Result<Vec<(u64, String)>, Error> {
    let places = from..=(from / PAGE * PAGE + PAGE - 1).min(MAX_SEQ);
    let found = read(meta, places.clone())?;
    let text = |found: &KeyValue| String::from_utf8_lossy(&found.value).into_owned();
    Ok(places
        .zip(found)
        .filter_map(|(place, found)| Some((place, text(found.as_ref()?))))
        .collect())
}

/// What stands in that place.
///
/// # Errors
/// The metadata is away.
pub fn record(meta: &dyn Transact, place: u64) -> Result<Option<String>, Error> {
    let reply = meta.txn(&Call::get(record_key(place)))?;
    let text = |found: &KeyValue| String::from_utf8_lossy(&found.value).into_owned();
    Ok(reply.value(0).map(text))
}

/// What stands in these places: no more of them than [`PAGE`].
fn read(meta: &dyn Transact, places: impl IntoIterator<Item = u64>) -> Result<Vec<Option<KeyValue>>, Error> {
    let key = |place| Op::Get { key: record_key(place) };
    let then: Vec<Op> = places.into_iter().map(key).collect();
    if then.is_empty() {
        return Ok(Vec::new());
    }
    let count = then.len();
    let reply = meta.txn(&Call {
        then,
        ..Call::default()
    })?;
    Ok((0..count).map(|index| reply.value(index).cloned()).collect())
}

/// All records from this number on, in pages.
///
/// # Errors
/// The metadata is away, or what `each` says.
pub fn for_each<E: From<Error>>(
    meta: &dyn Transact,
    from: u64,
    mut each: impl FnMut(u64, &str) -> Result<(), E>,
) -> Result<(), E> {
    let bounds = bounds(meta)?;
    let last = bounds.head.map_or(0, |head| head.seq);
    let (mut from, mut empty) = (from.max(1), 0);
    // Where the last that was trimmed is there still, the mark is false.
    if let Some(trimmed) = bounds.trimmed.filter(|trimmed| from <= trimmed.seq)
        && read(meta, [from, trimmed.seq])?.iter().all(Option::is_none)
    {
        from = trimmed.next();
    }
    // Further than the head says as long as there is something, for it may have been set back; and not for ever, for it may say
    // anything.
    while (from <= last.saturating_add(PAGE) || empty == 0) && empty < MAX_EMPTY_PAGES {
        let found = page(meta, from)?;
        empty = if found.is_empty() { empty + 1 } else { 0 };
        for (place, text) in found {
            each(place, &text)?;
        }
        from = (from / PAGE + 1) * PAGE;
    }
    Ok(())
}

/// What stands in the way of a sound log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsound {
    /// What is wrong with it.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// It cannot be read.
    #[error(transparent)]
    Metadata(#[from] Error),
}

/// Goes through the whole log. `known`: records that are known from elsewhere; `retention`: what it keeps at least.
///
/// # Errors
/// What is wrong first, or the metadata is away.
pub fn verify(meta: &dyn Transact, known: &[Head], retention: Retention) -> Result<Summary, Unsound> {
    for _ in 1..ROUNDS {
        let begin = bounds(meta)?;
        match verify_from(meta, &begin, known, retention) {
            // The coordinator may have trimmed it after we have asked where it begins. Whoever moves the mark all the time gets
            // the fault.
            Err(Unsound::Fault(_)) if bounds(meta)?.trimmed != begin.trimmed => {}
            found => return found,
        }
    }
    verify_from(meta, &bounds(meta)?, known, retention)
}

fn verify_from(meta: &dyn Transact, begin: &Bounds, known: &[Head], retention: Retention) -> Result<Summary, Unsound> {
    let verifier = Verifier::new(begin.trimmed.as_ref()).keeping(retention);
    let mut verifier = known.iter().fold(verifier, |verifier, head| verifier.known(*head));
    let first = verifier.next();
    for_each(meta, first, |place, text| {
        verifier.take(place, text).map(drop).map_err(Unsound::from)
    })?;
    // Records that were written meanwhile are there, and the head may be a later one.
    let mut end = bounds(meta)?.head;
    while let Some(head) = end.filter(|head| head.seq >= verifier.next()) {
        let new = page(meta, verifier.next())?;
        if new.is_empty() {
            break;
        }
        for (place, text) in new {
            verifier.take(place, &text)?;
        }
        if head.seq >= verifier.next() {
            continue;
        }
        end = bounds(meta)?.head;
    }
    let last = verifier.next().saturating_sub(1);
    let summary = verifier.end(end.as_ref())?;
    // Without a head the log ends wherever somebody has cut it.
    if end.is_none() && (last > 0 || !meta.txn(&Call::prefix(records()))?.values(0).is_empty()) {
        return Err(Fault::NoHead { last }.into());
    }
    Ok(summary)
}

/// What the log says of who was refused by the metadata's server: what their own command wanted to write of it where it is a
/// refusal in their own name, since it knows the action; else which keys they wanted.
#[must_use]
pub fn refused(peer: &Peer, source: IpAddr, call: Option<&Call>, asked: &str) -> Draft {
    let role = peer
        .operator_role
        .map_or_else(|| peer.role.text(), amita_identity::OperatorRole::text);
    let who = Who {
        name: peer.name.clone(),
        role: role.to_owned(),
        proof: Proof::Certificate,
    };
    let ops = call.map_or(&[][..], |call| &call.then);
    let own = ops.iter().find_map(|op| match op {
        Op::Put { key, value, .. } if key.starts_with(&records()) => {
            let line = Line::parse(std::str::from_utf8(value).ok()?).ok()?;
            let record = line.record();
            // Only what a command of ours could have wanted: not the log's own upkeep.
            let is_ours = Action::ALL.iter().any(|action| action.name() == record.action);
            let theirs = record.outcome == Outcome::Refused && record.who.name == peer.name;
            (theirs && is_ours).then(|| record.clone())
        }
        _ => None,
    });
    let address = Some(source.to_string());
    if let Some(own) = own {
        let whence = Whence { address, ..own.whence };
        return Draft::new(who, whence, &own.action, &own.object, Outcome::Refused).saying(own.text);
    }
    let whence = Whence {
        address,
        ..Whence::default()
    };
    let keys: Vec<&str> = ops.iter().map(Op::key).collect();
    let object = match keys[..] {
        [] => String::new(),
        [only] => only.to_owned(),
        [first, ..] => format!("{first} and {} more", keys.len() - 1),
    };
    Draft::new(who, whence, "metadata.access", &object, Outcome::Refused).saying(format!(
        "the metadata's server refused {asked}: the certificate's role may not"
    ))
}

/// Has the server refused it because of who asked?
#[must_use]
pub fn is_denied(error: &Error) -> bool {
    matches!(error, Error::Refused { reason: Refusal::Server { code, .. } } if code == "PermissionDenied")
}

#[cfg(test)]
pub(crate) mod tests;
