//! Where the next record goes.
//!
//! Administration goes on, whatever somebody has put into the log's keys: a place is found where nothing is, and who verifies the log
//! finds what was done to it. So the head is believed where the record that it names is there and was written once; else the end is
//! looked for.

use super::{PAGE, head_key, json, place_of, put, read, record_key, records, trimmed_key};
use amita_audit::{Draft, Hash, Head, Line, MAX_SEQ};
use amita_metadata::{Call, Compare, Error, KeyValue, Op, Transact};

/// Where the next record goes.
pub(super) struct Place {
    pub(super) head: Option<Head>,
    /// Of the head's key; zero: there is none.
    pub(super) revision: u64,
    /// The head was missing, damaged or set back, and the end was looked for.
    pub(super) found: bool,
}

impl Place {
    pub(super) fn read(meta: &dyn Transact) -> Result<Place, Error> {
        Place::of(meta, meta.txn(&Call::get(head_key()))?.value(0), false)
    }

    /// `wrong`: the record that the head names is not there, or there is one where it says that the next one goes.
    pub(super) fn of(meta: &dyn Transact, found: Option<&KeyValue>, wrong: bool) -> Result<Place, Error> {
        let revision = found.map_or(0, |found| found.mod_revision);
        let head: Option<Head> = found.and_then(|found| found.json().ok());
        // Behind the highest number is no room.
        if head.is_some_and(|head| head.seq < MAX_SEQ) && !wrong {
            return Ok(Place {
                head,
                revision,
                found: false,
            });
        }
        let end = end(meta, head)?;
        Ok(Place {
            head: end,
            revision,
            found: end.is_some() || found.is_some(),
        })
    }

    pub(super) fn is_at(&self, found: Option<&KeyValue>) -> bool {
        found.map_or(0, |found| found.mod_revision) == self.revision
    }

    pub(super) fn line(&self, draft: &Draft) -> Line {
        let mut draft = draft.clone();
        if self.found {
            let text = "the log's head was missing or wrong, and the end was looked for; ";
            draft.text.insert_str(0, text);
        }
        draft.after(self.head.as_ref())
    }

    pub(super) fn call(&self, line: &Line, more: Vec<Op>, and: Option<Compare>) -> Call {
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
        if let Some(head) = self.head.filter(|_| !self.found) {
            compares.push(Compare::Version {
                key: record_key(head.seq),
                equals: 1,
            });
        }
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

/// The last record of the log, as far as that can be told without its head: nothing is in the place behind it. `None`: the log begins
/// there. `head`: what it says, right or not.
fn end(meta: &dyn Transact, head: Option<Head>) -> Result<Option<Head>, Error> {
    let trimmed = meta.txn(&Call::get(trimmed_key()))?;
    let trimmed: Option<Head> = trimmed.value(0).and_then(|found| found.json().ok());
    let hints = [head, trimmed].into_iter().flatten().map(|hint| hint.seq);
    for hint in hints.chain([0]) {
        // The record that was trimmed last is not there, and the next one is.
        let around: Vec<u64> = (hint.max(1)..=MAX_SEQ).take(2).collect();
        let found = read(meta, around.iter().copied())?;
        if let Some((place, _)) = around.iter().zip(found).find(|(_, found)| found.is_some())
            && let Some(free) = free_behind(meta, *place)?
        {
            return before(meta, free, trimmed).map(Some);
        }
    }
    // Neither at the beginning nor where anything says: that of all which is the last. More than a client takes, or a server
    // gives, is nobody's log, and then one begins anew.
    if let Ok(all) = meta.txn(&Call::prefix(records())) {
        let last = all.values(0).iter().filter_map(|found| place_of(&found.key)).max();
        if let Some(free) = last.map(|last| last + 1).filter(|free| *free <= MAX_SEQ) {
            return before(meta, free, trimmed).map(Some);
        }
    }
    match first_free(meta)? {
        1 => Ok(None),
        free => before(meta, free, trimmed).map(Some),
    }
}

/// A place where nothing is, behind one where something is: the first such, where they follow each other without a gap. `None`: not
/// found.
fn free_behind(meta: &dyn Transact, place: u64) -> Result<Option<u64>, Error> {
    let steps: Vec<u64> = (0..u64::BITS)
        .map(|power| place.saturating_add(1 << power))
        .take_while(|step| *step <= MAX_SEQ)
        .collect();
    let found = read(meta, steps.iter().copied())?;
    let taken = found.iter().take_while(|found| found.is_some()).count();
    let (mut taken, mut free) = (
        taken.checked_sub(1).map_or(place, |last| steps[last]),
        steps.get(taken).copied().unwrap_or(MAX_SEQ + 1),
    );
    while free - taken > 1 {
        let middle = taken + (free - taken) / 2;
        if read(meta, [middle])?[0].is_some() {
            taken = middle;
        } else {
            free = middle;
        }
    }
    Ok((free <= MAX_SEQ).then_some(free))
}

/// The first place where nothing is. There are not so many keys that there is none.
fn first_free(meta: &dyn Transact) -> Result<u64, Error> {
    let mut from = 1;
    loop {
        let found = read(meta, from..from + PAGE)?;
        if let Some(free) = (from..)
            .zip(&found)
            .find_map(|(place, found)| found.is_none().then_some(place))
        {
            return Ok(free);
        }
        from += PAGE;
    }
}

/// What the record in that place follows: its number is the one before, its hash that of the last of some before that can be read, and
/// [`Hash::NOTHING`] where none can.
fn before(meta: &dyn Transact, place: u64, trimmed: Option<Head>) -> Result<Head, Error> {
    let seq = place.saturating_sub(1);
    if let Some(trimmed) = trimmed.filter(|trimmed| trimmed.seq == seq) {
        return Ok(trimmed);
    }
    let found = read(meta, place.saturating_sub(PAGE).max(1)..place)?;
    let parse = |found: &KeyValue| Line::parse(std::str::from_utf8(&found.value).ok()?).ok();
    let line = found.iter().rev().find_map(|found| parse(found.as_ref()?));
    Ok(Head {
        seq,
        hash: line.map_or(Hash::NOTHING, |line| line.head().hash),
    })
}
