//! What goes when there is too much.
//!
//! Only a sound log is trimmed: what was done to it is evidence, and a number that somebody chose must not decide what goes. So
//! before anything goes, all of it is gone through, from where it begins to the record that the head names.

use super::place::Place;
use super::{PAGE, Unsound, bounds, head_key, json, page, put, record_key, trimmed_key};
use amita_audit::{Draft, Fault, Head, Outcome, Retention, TRIM, Verifier, Whence, Who, trimmed};
use amita_metadata::{Call, Compare, Error, Op, Transact};

/// Records that one transaction takes away.
const TRIM_BATCH: usize = 100;
/// Fewer than these too many are left: each transaction that trims adds a record itself.
const TRIM_LEAST: usize = 10;

/// Takes the oldest records away, as many as are more than is kept; returns how many. For the coordinator, now and then. How old
/// they are is of no account: times are chosen by who writes, and clocks go wrong.
///
/// # Errors
/// There is too much, or nobody can say how much, and something is wrong with the log: nothing goes. Or the metadata is away.
pub fn trim(meta: &dyn Transact, who: &Who, retention: Retention) -> Result<u64, Unsound> {
    let begin = bounds(meta)?;
    let doomed = match doomed(meta, begin.trimmed, begin.head, retention) {
        // Another coordinator was faster.
        Err(Unsound::Fault(_)) if bounds(meta)?.trimmed != begin.trimmed => return Ok(0),
        found => found?,
    };
    let mut gone = 0;
    let mut mark = begin.trimmed;
    for batch in doomed.chunks(TRIM_BATCH) {
        if batch.len() < TRIM_LEAST || !trim_batch(meta, who, mark, batch)? {
            break;
        }
        gone += batch.len() as u64;
        mark = batch.last().copied();
    }
    Ok(gone)
}

/// `false`: somebody else was faster.
fn trim_batch(meta: &dyn Transact, who: &Who, mark: Option<Head>, doomed: &[Head]) -> Result<bool, Error> {
    let Some(last) = doomed.last() else { return Ok(false) };
    let reply = meta.txn(&Call {
        then: vec![Op::Get { key: trimmed_key() }, Op::Get { key: head_key() }],
        ..Call::default()
    })?;
    let found = reply.value(0);
    if found.and_then(|found| found.json().ok()) != mark {
        return Ok(false);
    }
    let mut draft = Draft::new(who.clone(), Whence::default(), TRIM, &trimmed(last), Outcome::Done);
    draft.text = format!("{} records were dropped", doomed.len());
    let delete = doomed.iter().map(|head| Op::Delete {
        key: record_key(head.seq),
    });
    let more: Vec<Op> = delete.chain([put(trimmed_key(), json(last))]).collect();
    let same = Compare::ModRevision {
        key: trimmed_key(),
        equals: found.map_or(0, |found| found.mod_revision),
    };
    let place = Place::of(meta, reply.value(1), false)?;
    let line = place.line(&draft);
    Ok(meta.txn(&place.call(&line, more, Some(same)))?.succeeded)
}

/// The oldest records, as many as are more than is kept.
fn doomed(
    meta: &dyn Transact,
    mark: Option<Head>,
    head: Option<Head>,
    retention: Retention,
) -> Result<Vec<Head>, Unsound> {
    // The next record will say where the end is.
    let Some(head) = head else { return Ok(Vec::new()) };
    let mut verifier = Verifier::new(mark.as_ref());
    let first = verifier.next();
    if head.seq < first {
        return Err(Fault::SetBack { head: head.seq }.into());
    }
    let is_short = |count: u64| !retention.allows(count.saturating_sub(TRIM_LEAST as u64), most_bytes(count));
    if is_short(head.next() - first) {
        return Ok(Vec::new());
    }
    let mut lines: Vec<(Head, u64)> = Vec::new();
    while verifier.next() <= head.seq {
        let found = page(meta, verifier.next())?;
        if found.is_empty() {
            break;
        }
        for (place, text) in found.into_iter().filter(|(place, _)| *place <= head.seq) {
            let line = verifier.take(place, &text)?;
            lines.push((line.head(), line.kept_bytes()));
        }
    }
    let last = verifier.next() - 1;
    if last < head.seq {
        return Err(Fault::CutOff { last, head: head.seq }.into());
    }
    if lines.last().is_none_or(|(last, _)| *last != head) {
        return Err(Fault::HeadDiffers { seq: head.seq }.into());
    }
    // Each goes while enough is behind it.
    let (mut records, mut bytes) = (0, 0);
    let mut kept = 0;
    for (_, own) in lines.iter().rev() {
        if records > 0 && retention.allows(records, bytes) {
            break;
        }
        (records, bytes, kept) = (records + 1, bytes + own, kept + 1);
    }
    lines.truncate(lines.len() - kept);
    Ok(lines.into_iter().map(|(head, _)| head).collect())
}

/// The most bytes that so many records have.
fn most_bytes(records: u64) -> u64 {
    records.saturating_mul(amita_audit::MAX_BODY_BYTES as u64)
}

const _: () = assert!(TRIM_BATCH + 4 <= amita_metadata::MAX_OPS && PAGE as usize <= amita_metadata::MAX_OPS);
