//! The audit log of the cluster: who did what, chained by hashes, in the metadata.
//!
//! ```text
//! /amita/audit/records/000000000012   HASH {"seq":12,"prev":"…",…}    as amita-audit makes them
//! /amita/audit/head                   {"seq":12,"hash":"…"}            the newest
//! /amita/audit/trimmed                {"seq":8,"hash":"…"}             the newest of those that were trimmed
//! ```
//! A record and the head are written by one transaction, which compares the head: of two commands at once one is behind the
//! other, and the log cannot fork. Old records are trimmed by the coordinator, by one transaction for each batch, which
//! also writes a record that says so.
//!
//! The log is apart from the events: those are for people, and nobody misses one; this is evidence. Nothing is decided by it
//! either, and a watch of everything passes it over. It is not among the records that stores keep a copy of: what must
//! outlive the metadata is shipped (`amita audit ship`).

use crate::access::Action;
use amita_audit::{
    Draft, Fault, Hash, Head, Line, MAX_SEQ, Outcome, Proof, Retention, Summary, TRIM, Verifier, Whence, Who, now_ms,
    trimmed,
};
use amita_metadata::server::Peer;
use amita_metadata::{Call, Compare, Error, KeyValue, Op, Refusal, Transact};
use amita_types::map::PREFIX;
use std::net::IpAddr;
use std::time::Duration;

/// What is kept: the coordinator trims what is beyond both, and a log that was trimmed earlier is broken.
pub const RETENTION: Retention = Retention {
    records: 20_000,
    age: Duration::from_secs(400 * 24 * 3600),
};
/// Records of one page: the keys of a page have all but the last digits in common.
const PAGE: u64 = 1000;
/// Where so many pages are missing, nothing is looked for behind them.
const MAX_EMPTY_PAGES: u32 = 64;
/// Records that one transaction takes away.
const TRIM_BATCH: usize = 100;
/// Fewer than these too many are left: each transaction that trims adds a record itself.
const TRIM_LEAST: u64 = 10;
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
            Ok(reply) => {
                let is_there = reply.value(1).is_some();
                place = Place::of(meta, reply.value(0), is_there && place.is_at(reply.value(0)))?;
            }
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

fn read(record: &KeyValue) -> Option<Line> {
    Line::parse(std::str::from_utf8(&record.value).ok()?).ok()
}

/// The last record behind which there is room for another, where no head can be believed. The hash is that of the last that can
/// be read up to there, if any can.
fn end_of(found: &[KeyValue]) -> Option<Head> {
    let places: Vec<(u64, &KeyValue)> = found
        .iter()
        .filter_map(|record| Some((place_of(&record.key)?, record)))
        .collect();
    let has_room = |at: usize| {
        let next = places[at].0 + 1;
        next <= MAX_SEQ && places.get(at + 1).is_none_or(|(place, _)| *place != next)
    };
    let at = (0..places.len()).rev().find(|at| has_room(*at))?;
    let line = places[..=at].iter().rev().find_map(|(_, record)| read(record));
    Some(Head {
        seq: places[at].0,
        hash: line.map_or(Hash::NOTHING, |line| line.head().hash),
    })
}

/// Where the next record goes.
struct Place {
    head: Option<Head>,
    /// Of the head's key; zero: there is none.
    revision: u64,
    /// The head was missing, damaged or set back, and the end was looked for.
    found: bool,
}

impl Place {
    fn read(meta: &dyn Transact) -> Result<Place, Error> {
        Place::of(meta, meta.txn(&Call::get(head_key()))?.value(0), false)
    }

    /// `behind`: there is a record where the head says that the next one goes.
    fn of(meta: &dyn Transact, found: Option<&KeyValue>, behind: bool) -> Result<Place, Error> {
        let revision = found.map_or(0, |found| found.mod_revision);
        let head: Option<Head> = found.and_then(|found| found.json().ok());
        // Behind the highest number is no room.
        if head.is_some_and(|head| head.seq < MAX_SEQ) && !behind {
            return Ok(Place {
                head,
                revision,
                found: false,
            });
        }
        // Administration goes on: who damages the log must not stop it by that, and the records say what was found.
        let reply = meta.txn(&Call::prefix(records()))?;
        let last = end_of(reply.values(0));
        let found = last.is_some();
        Ok(Place {
            head: last,
            revision,
            found,
        })
    }

    fn is_at(&self, found: Option<&KeyValue>) -> bool {
        found.map_or(0, |found| found.mod_revision) == self.revision
    }

    fn line(&self, draft: &Draft) -> Line {
        let mut draft = draft.clone();
        if self.found {
            let text = "the log's head was missing or wrong, and the end was looked for; ";
            draft.text.insert_str(0, text);
        }
        draft.after(self.head.as_ref())
    }

    fn call(&self, line: &Line, more: Vec<Op>, and: Option<Compare>) -> Call {
        let key = record_key(line.head().seq);
        let mut compares = vec![
            Compare::ModRevision {
                key: head_key(),
                equals: self.revision,
            },
            Compare::CreateRevision {
                key: key.clone(),
                equals: 0,
            },
        ];
        compares.extend(and);
        let mut then = vec![
            put(key.clone(), line.text().into_bytes()),
            put(head_key(), json(&line.head())),
        ];
        then.extend(more);
        Call {
            compares,
            then,
            otherwise: vec![Op::Get { key: head_key() }, Op::Get { key }],
        }
    }
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
    let digits = record_key(from / PAGE * PAGE);
    let common = &digits[..digits.len() - 3];
    let reply = meta.txn(&Call::prefix(common))?;
    let record = |found: &KeyValue| {
        let place = place_of(&found.key)?;
        let text = String::from_utf8_lossy(&found.value).into_owned();
        (place >= from).then_some((place, text))
    };
    Ok(reply.values(0).iter().filter_map(record).collect())
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
    let last = bounds(meta)?.head.map_or(0, |head| head.seq);
    let (mut from, mut empty) = (from.max(1), 0);
    // One page more than the head says, for it may have been set back; and not for ever, for it may say anything.
    while from <= last.saturating_add(PAGE) && empty < MAX_EMPTY_PAGES {
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
    if end.is_none() && last > 0 {
        return Err(Fault::NoHead { last }.into());
    }
    Ok(summary)
}

/// Takes the oldest records away, those that are more than are kept and those whose follower is older than is kept (so that it
/// shows their age); returns how many. For the coordinator, now and then.
///
/// # Errors
/// The metadata is away.
pub fn trim(meta: &dyn Transact, who: &Who, retention: Retention) -> Result<u64, Error> {
    let age_ms = retention.age.as_millis().try_into().unwrap_or(u64::MAX);
    let limit = now_ms().saturating_sub(age_ms);
    let mut gone = 0;
    while let Some(count) = trim_batch(meta, who, retention.records, limit)? {
        gone += count;
    }
    Ok(gone)
}

/// `None`: there is nothing to trim, or somebody else was faster.
fn trim_batch(meta: &dyn Transact, who: &Who, most: u64, limit_ms: u64) -> Result<Option<u64>, Error> {
    let reply = meta.txn(&Call {
        then: vec![Op::Get { key: trimmed_key() }, Op::Get { key: head_key() }],
        ..Call::default()
    })?;
    let begin: Option<Head> = reply.value(0).and_then(|found| found.json().ok());
    let Some(head) = reply.value(1).and_then(|found| found.json::<Head>().ok()) else {
        return Ok(None);
    };
    // By a head that is not the log's, all of it would be too much.
    let newest = meta.txn(&Call::get(record_key(head.seq)))?;
    let newest = newest.value(0).and_then(read);
    if newest.is_none_or(|newest| newest.head() != head) {
        return Ok(None);
    }
    let first = begin.map_or(1, |begin| begin.next());
    let surplus = head.next().saturating_sub(first).saturating_sub(most);
    let surplus = if surplus < TRIM_LEAST { 0 } else { surplus };
    let doomed = doomed(meta, begin.as_ref(), surplus, limit_ms)?;
    let Some(last) = doomed.last() else { return Ok(None) };
    let mut draft = Draft::new(who.clone(), Whence::default(), TRIM, &trimmed(last), Outcome::Done);
    draft.text = format!("{} records were dropped", doomed.len());
    let delete = doomed.iter().map(|head| Op::Delete {
        key: record_key(head.seq),
    });
    let more: Vec<Op> = delete.chain([put(trimmed_key(), json(last))]).collect();
    let same = Compare::ModRevision {
        key: trimmed_key(),
        equals: reply.value(0).map_or(0, |found| found.mod_revision),
    };
    let place = Place::read(meta)?;
    let line = place.line(&draft);
    let trimmed = meta.txn(&place.call(&line, more, Some(same)))?.succeeded;
    Ok(trimmed.then_some(doomed.len() as u64))
}

/// The oldest records that go, as many as one batch takes: `surplus` of them, and those whose follower is older than the limit.
fn doomed(meta: &dyn Transact, begin: Option<&Head>, surplus: u64, limit_ms: u64) -> Result<Vec<Head>, Error> {
    let mut doomed: Vec<Head> = Vec::new();
    // The newest one stays: the next one follows it.
    let mut before: Option<Head> = None;
    let mut verifier = Verifier::new(begin);
    loop {
        let page = page(meta, verifier.next())?;
        if page.is_empty() {
            return Ok(doomed);
        }
        for (place, text) in page {
            // Where something is wrong, nothing is taken away: it is evidence.
            let Ok(line) = verifier.take(place, &text) else {
                return Ok(doomed);
            };
            if let Some(before) = before.replace(line.head()) {
                let goes = (doomed.len() as u64) < surplus || line.record().unix_ms < limit_ms;
                if !goes || doomed.len() == TRIM_BATCH {
                    return Ok(doomed);
                }
                doomed.push(before);
            }
        }
    }
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
