//! Goes through a log and says what is wrong first.
//!
//! What can be found without knowing anything from elsewhere: a record that was changed, taken out, put in or moved, and an end
//! that was cut off without the head being set back. Who can write the whole log can also compute all hashes anew from some
//! record on, or cut off the end and set the head back: that is found by who knows a later head ([`Verifier::known`]), as
//! the cursor of a shipper and the last `verify` do.
//!
//! A log is trimmed at its beginning, and a record says so. Whoever can write could trim it early, to hide what they did, and write
//! that record too: so it is counted what was left at that time ([`Retention`]), by the records that are still there. Times count for
//! nothing there: they are chosen by whoever writes, and what could show that one is false may be among what was trimmed.

use crate::hash::Hash;
use crate::record::{Head, Line, Outcome, Record, TRIM};
use std::collections::BTreeSet;

/// What is wrong with a log: the first thing that is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A record's text is not what its hash is of.
    #[error("record {seq} was changed: its hash is not that of what it says")]
    Changed {
        /// Its number.
        seq: u64,
    },
    /// A record cannot be read.
    #[error("record {seq} cannot be read: {why}")]
    Unreadable {
        /// Its number.
        seq: u64,
        /// What is wrong with it.
        why: String,
    },
    /// Records are not there.
    #[error("{} left out: the next one that is there is record {}", records(*from, *to), to.saturating_add(1))]
    LeftOut {
        /// The first of them.
        from: u64,
        /// The last of them.
        to: u64,
    },
    /// A record stands in another's place.
    #[error("in the place of record {place} stands record {says}: records were moved")]
    Moved {
        /// Where.
        place: u64,
        /// What number it has.
        says: u64,
    },
    /// A record was exchanged for one that is sound by itself.
    #[error("record {seq} was exchanged for another: record {} follows one with another hash", seq.saturating_add(1))]
    Exchanged {
        /// Its number.
        seq: u64,
    },
    /// The log does not begin where it is said to.
    #[error("record {seq} is the first that is there, and it follows another than the one that was trimmed last")]
    Begin {
        /// Its number.
        seq: u64,
    },
    /// What was trimmed was trimmed by nobody.
    #[error("{} gone, and no record of the log says that they were trimmed", records(1, first - 1))]
    Trimmed {
        /// The first that is there.
        first: u64,
    },
    /// What was trimmed should have been kept.
    #[error(
        "{} gone, and record {trim}, which says that they were trimmed, came too early for that: neither so many records nor so many \
         bytes of them were left", records(1, first - 1)
    )]
    TrimmedEarly {
        /// The first that is there.
        first: u64,
        /// The record that says so.
        trim: u64,
    },
    /// A record that was known is gone, and with it what it could show.
    #[error(
        "record {seq} was known, and was trimmed: the log begins with record {first}, and nothing was compared with it"
    )]
    KnownGone {
        /// Its number.
        seq: u64,
        /// The first that is there.
        first: u64,
    },
    /// Nothing says where the log ends.
    #[error(
        "the log's head is not there, or cannot be read: how many records there should be is not known, and {last} is the last that \
         was found"
    )]
    NoHead {
        /// The last that was found.
        last: u64,
    },
    /// The end is missing.
    #[error("the log was cut off: it ends with record {last}, and had {head}")]
    CutOff {
        /// The last that is there.
        last: u64,
        /// How many there were.
        head: u64,
    },
    /// There is more than there should be.
    #[error("the log's head names record {head}, and there are later ones: it was set back")]
    SetBack {
        /// What the head names.
        head: u64,
    },
    /// The head names another record than the last.
    #[error("record {seq} is not the one that the log's head names: one of them was changed")]
    HeadDiffers {
        /// Its number.
        seq: u64,
    },
    /// A record is another than the one that was known.
    #[error(
        "record {seq} is not the one that was known ({known}): it, or one before it, was forged, and what follows computed anew"
    )]
    Forged {
        /// Its number.
        seq: u64,
        /// The hash that was known.
        known: Hash,
    },
}

fn records(from: u64, to: u64) -> String {
    if from == to {
        format!("record {from} is")
    } else {
        format!("records {from} to {to} are")
    }
}

impl Fault {
    /// The number of the first record with which something is wrong.
    #[must_use]
    pub fn seq(&self) -> u64 {
        match *self {
            Fault::Changed { seq }
            | Fault::Unreadable { seq, .. }
            | Fault::KnownGone { seq, .. }
            | Fault::Exchanged { seq }
            | Fault::Begin { seq }
            | Fault::HeadDiffers { seq }
            | Fault::Forged { seq, .. } => seq,
            Fault::LeftOut { from, .. } => from,
            Fault::Moved { place, .. } => place,
            Fault::Trimmed { .. } | Fault::TrimmedEarly { .. } => 1,
            Fault::CutOff { last, .. } | Fault::NoHead { last } => last.saturating_add(1),
            Fault::SetBack { head } => head.saturating_add(1),
        }
    }
}

/// What a log keeps at least: a record goes only while so many are behind it, or so many bytes of them. Each is counted as the records
/// that are left show it, whatever their times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The newest so many stay, unless they have more bytes than that.
    pub records: u64,
    /// Bytes of their lines ([`Line::kept_bytes`]).
    pub bytes: u64,
}

impl Retention {
    /// May records go, with so much left behind them?
    #[must_use]
    pub fn allows(&self, records: u64, bytes: u64) -> bool {
        records >= self.records || bytes >= self.bytes
    }
}

/// A record that says that others were trimmed.
#[derive(Clone, Copy, Debug)]
struct Trim {
    seq: u64,
    /// What was left: records, that one among them, and their bytes.
    records: u64,
    bytes: u64,
}

/// What a sound log holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// How many records.
    pub records: u64,
    /// The first that is there: those before were trimmed.
    pub first: u64,
    /// The last: whoever keeps this elsewhere can tell later whether anything up to here was changed.
    pub head: Option<Head>,
    /// Actions that began and did not end: their command was killed, or is still at work.
    pub unended: Vec<u64>,
}

/// Takes the records of a log in their order.
#[derive(Clone, Debug)]
pub struct Verifier {
    first: u64,
    begin: Option<Hash>,
    last: Option<Head>,
    known: Vec<Head>,
    open: BTreeSet<u64>,
    /// The one that says where this log begins, in the end.
    trims: Vec<Trim>,
    retention: Option<Retention>,
    count: u64,
    bytes: u64,
}

impl Verifier {
    /// Of a log whose records up to `trimmed` (that one included) were trimmed; `None`: it begins with the first.
    #[must_use]
    pub fn new(trimmed: Option<&Head>) -> Verifier {
        Verifier {
            first: trimmed.map_or(1, Head::next),
            begin: Some(trimmed.map_or(Hash::NOTHING, |head| head.hash)),
            last: None,
            known: Vec::new(),
            open: BTreeSet::new(),
            trims: Vec::new(),
            retention: None,
            count: 0,
            bytes: 0,
        }
    }

    /// Of the part of a log behind a record that is known; what was trimmed is not asked for.
    #[must_use]
    pub fn behind(head: Head) -> Verifier {
        Verifier {
            first: 1,
            last: Some(head),
            ..Verifier::new(None)
        }
    }

    /// The same, of a log that keeps so much: what was trimmed earlier is a fault.
    #[must_use]
    pub fn keeping(mut self, retention: Retention) -> Verifier {
        self.retention = Some(retention);
        self
    }

    /// The same, where this record is known from elsewhere.
    #[must_use]
    pub fn known(mut self, head: Head) -> Verifier {
        self.known.push(head);
        self
    }

    /// The number of the next record.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.last.map_or(self.first, |last| last.next())
    }

    /// Takes the next record, which was found in that place.
    ///
    /// # Errors
    /// What is wrong with it, or with the one before.
    pub fn take(&mut self, place: u64, text: &str) -> Result<Line, Fault> {
        let wanted = self.next();
        if place > wanted {
            return Err(Fault::LeftOut {
                from: wanted,
                to: place - 1,
            });
        }
        if place < wanted {
            return Err(Fault::Moved {
                place: wanted,
                says: place,
            });
        }
        let line = Line::parse(text).map_err(|why| Fault::Unreadable {
            seq: place,
            why: why.to_string(),
        })?;
        if !line.is_sound() {
            return Err(Fault::Changed { seq: place });
        }
        let record = line.record();
        if record.seq != place {
            return Err(Fault::Moved {
                place,
                says: record.seq,
            });
        }
        match (&self.last, self.begin) {
            (Some(last), _) if record.prev != last.hash => return Err(Fault::Exchanged { seq: last.seq }),
            (None, Some(begin)) if record.prev != begin => return Err(Fault::Begin { seq: place }),
            _ => {}
        }
        let head = line.head();
        if let Some(known) = self
            .known
            .iter()
            .find(|known| known.seq == head.seq && known.hash != head.hash)
        {
            return Err(Fault::Forged {
                seq: head.seq,
                known: known.hash,
            });
        }
        self.count += 1;
        self.bytes = self.bytes.saturating_add(line.kept_bytes());
        self.note(record);
        self.last = Some(head);
        Ok(line)
    }

    fn note(&mut self, record: &Record) {
        if record.outcome == Outcome::Begun {
            self.open.insert(record.seq);
        }
        if let Some(begun) = record.of {
            self.open.remove(&begun);
        }
        // One that was refused has trimmed nothing: what it says is chosen by who was refused.
        if record.action == TRIM
            && record.outcome == Outcome::Done
            && let Ok(last) = record.object.parse::<Head>()
            && last.next() == self.first
            && Some(last.hash) == self.begin
        {
            self.trims.push(Trim {
                seq: record.seq,
                records: self.count,
                bytes: self.bytes,
            });
        }
    }

    /// Is what was trimmed, if anything, rightly gone?
    fn check_begin(&self) -> Result<(), Fault> {
        let first = self.first;
        if first <= 1 {
            return Ok(());
        }
        let Some(told) = self.trims.last() else {
            return Err(Fault::Trimmed { first });
        };
        let early = |retention: Retention| {
            let allows = |trim: &Trim| retention.allows(trim.records, trim.bytes);
            !self.trims.iter().any(allows)
        };
        if self.retention.is_some_and(early) {
            return Err(Fault::TrimmedEarly { first, trim: told.seq });
        }
        // The one that was trimmed last is known by its hash still.
        for known in self.known.iter().filter(|known| known.seq < first) {
            let (seq, hash) = (known.seq, known.hash);
            if known.next() < first {
                return Err(Fault::KnownGone { seq, first });
            }
            if Some(hash) != self.begin {
                return Err(Fault::Forged { seq, known: hash });
            }
        }
        Ok(())
    }

    /// Nothing follows. `head`: what the log says its last record is.
    ///
    /// # Errors
    /// What is wrong with the end, or with the beginning.
    pub fn end(self, head: Option<&Head>) -> Result<Summary, Fault> {
        let last = self.last.map_or(self.first.saturating_sub(1), |last| last.seq);
        let named = head.map_or(last, |head| head.seq);
        let latest = self.known.iter().map(|known| known.seq).max().unwrap_or(0).max(named);
        if latest > last {
            return Err(Fault::CutOff { last, head: latest });
        }
        if named < last {
            return Err(Fault::SetBack { head: named });
        }
        if let (Some(head), Some(found)) = (head, &self.last)
            && head.hash != found.hash
        {
            return Err(Fault::HeadDiffers { seq: last });
        }
        self.check_begin()?;
        Ok(Summary {
            records: self.count,
            first: self.first,
            head: self.last,
            unended: self.open.into_iter().collect(),
        })
    }
}
