//! All records at the start, and every change after, of metadata that is believed ([`crate::past`]).
//!
//! Whenever the stream of the watch breaks everything is read anew and judged before anybody hears of it: who answers then may
//! be an older copy. What has not changed is not told again.

use super::standing::Standing;
use super::{Notice, PAUSES, Patience, Sink, Stop, lead};
use crate::past::{Doubt, List, Past, PastFile};
use crate::records::alerts_prefix;
use crate::{audit, events};
use amita_metadata::{Batch, Call, Client, Error, Event, KeyValue, Line, Op, Waited, Watch, WatchStop};
use amita_types::map::PREFIX;
use std::mem::Discriminant;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long one wait lasts: only so that the thread sees a stop that came before its watch was known.
const LOOK: Duration = Duration::from_secs(60);
/// How often metadata that is not believed is read again.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);
/// What is known is kept before it is told where it concerns rights, but not more often than this: what comes meanwhile waits,
const BETWEEN_SAVES: Duration = Duration::from_millis(100);
/// and soon where only the revision has grown.
const SAVE_AFTER: Duration = Duration::from_secs(10);
/// If it cannot be kept, it is tried again so soon,
const SAVE_AGAIN: Duration = Duration::from_secs(1);
/// and that is said so often.
const BETWEEN_WARNINGS: Duration = Duration::from_secs(600);

/// What the thread is given.
pub(super) struct Watcher<'a> {
    pub(super) client: &'a Client,
    pub(super) sink: &'a Sink,
    pub(super) stop: &'a Stop,
    /// The watch that runs, for who stops it.
    pub(super) current: &'a Mutex<Option<WatchStop>>,
    pub(super) events: &'a Sender<lead::Input>,
    pub(super) standing: &'a Standing,
}

/// What is known, and what of it is durable.
struct Known {
    past: Past,
    file: Option<PastFile>,
    /// When it was saved last, and when it is to be again.
    saved: Option<Instant>,
    due: Option<Instant>,
    /// When it was said that it cannot be.
    said: Option<Instant>,
    /// Changes that are told when what they change is kept.
    held: Vec<Event>,
    /// Why what was read last was not believed.
    refused: Option<Discriminant<Doubt>>,
    /// All records were told.
    is_told: bool,
}

impl Watcher<'_> {
    /// Runs until it is stopped. `past`: what an earlier process has known.
    pub(super) fn run(&self, past: Past, file: Option<PastFile>) {
        let mut known = Known {
            past,
            file,
            saved: None,
            due: None,
            said: None,
            held: Vec::new(),
            refused: None,
            is_told: false,
        };
        let (mut patience, mut pause) = (Patience::new(), PAUSES.0);
        while !self.stop.is_set() {
            let Some((list, line)) = self.believed(&mut known, &mut patience, &mut pause) else {
                continue;
            };
            let revision = self.take_over(&mut known, list);
            let mut watch = self.client.watch_unbroken(PREFIX, revision + 1, line);
            *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(watch.stopper());
            let began = Instant::now();
            let ended = self.listen(&mut watch, &mut known);
            self.tell(known.keep(self.sink));
            self.standing.unsure();
            if began.elapsed() >= PAUSES.1 {
                pause = PAUSES.0;
            }
            match ended {
                // The history was compacted away, or somebody refuses.
                Some(why) if !is_away(&why) => patience.failed(self.stop, self.sink, "the watch broke", &why),
                // One that ends at once is not asked for again and again.
                _ => self.rest(&mut pause),
            }
        }
        known.save(self.sink);
    }

    fn rest(&self, pause: &mut Duration) {
        self.stop.wait(*pause);
        *pause = (*pause * 2).min(PAUSES.1);
    }

    /// All records, if they can be read, and are to be believed; and by which connection they were.
    fn believed(&self, known: &mut Known, patience: &mut Patience, pause: &mut Duration) -> Option<(List, Line)> {
        let (list, line) = match read(self.client) {
            Ok(found) => found,
            // Who keeps the lease says so.
            Err(why) if known.is_told && is_away(&why) => {
                self.rest(pause);
                return None;
            }
            Err(why) => {
                patience.failed(self.stop, self.sink, "the metadata cannot be read", &why);
                return None;
            }
        };
        patience.worked(self.sink, "the watch");
        let Err(doubt) = known.past.judge(&list) else {
            return Some((list, line));
        };
        let kind = std::mem::discriminant(&doubt);
        if known.refused.replace(kind) != Some(kind) {
            self.refuse(&doubt);
        }
        self.stop.wait(REFUSED_PAUSE);
        None
    }

    /// Tells what is new; the revision as of which it is.
    fn take_over(&self, known: &mut Known, list: List) -> u64 {
        let (revision, anew) = (list.revision, known.refused.take().is_some());
        let news = known.past.adopt(list, anew);
        // Before anybody acts by it: who begins again must not know less.
        known.save(self.sink);
        self.standing.believe();
        if anew {
            let _ = self.events.send(lead::Input::Believed);
            (self.sink)(Notice::Believed);
        }
        news.gone.into_iter().for_each(|key| self.gone(key, revision));
        news.there.into_iter().for_each(|record| self.there(record));
        if std::mem::replace(&mut known.is_told, true) && !anew {
            self.seen();
        } else {
            let _ = self.events.send(lead::Input::Settled);
            (self.sink)(Notice::Settled { revision });
        }
        revision
    }

    /// Tells every change, until the watch ends: by what, unless it was stopped.
    fn listen(&self, watch: &mut Watch, known: &mut Known) -> Option<Error> {
        while !self.stop.is_set() {
            match watch.wait(known.pause(LOOK)) {
                Waited::Item(Ok(batch)) => self.tell(known.hear(batch, self.sink)),
                Waited::Item(Err(why)) => return Some(why),
                Waited::Nothing => {}
                Waited::Ended => return None,
            }
            if known.is_due() {
                self.tell(known.keep(self.sink));
            }
        }
        None
    }

    fn tell(&self, changes: Vec<Event>) {
        if changes.is_empty() {
            return;
        }
        for event in changes {
            match event {
                Event::Put(record) => self.there(record),
                Event::Delete { key, mod_revision } => self.gone(key, mod_revision),
            }
        }
        self.seen();
    }

    fn there(&self, record: KeyValue) {
        let notice = Notice::Record {
            key: record.key.clone(),
            value: Some(record.value.clone()),
            revision: record.mod_revision,
            created: record.create_revision,
        };
        let _ = self.events.send(lead::Input::Record(record));
        (self.sink)(notice);
    }

    fn gone(&self, key: String, revision: u64) {
        let _ = self.events.send(lead::Input::Gone {
            key: key.clone(),
            revision,
        });
        (self.sink)(Notice::Record {
            key,
            value: None,
            revision,
            created: 0,
        });
    }

    fn seen(&self) {
        let _ = self.events.send(lead::Input::Seen);
        (self.sink)(Notice::Seen);
    }

    fn refuse(&self, doubt: &Doubt) {
        let why = doubt.to_string();
        self.standing.refuse(why.clone());
        let _ = self.events.send(lead::Input::Doubted);
        let is_older = matches!(doubt, Doubt::Older { .. });
        (self.sink)(Notice::Doubted { why, is_older });
    }
}

impl Known {
    /// How long to wait for changes, at most.
    fn pause(&self, longest: Duration) -> Duration {
        let until = self.due.map(|at| at.saturating_duration_since(Instant::now()));
        until.map_or(longest, |until| until.min(longest))
    }

    fn is_due(&self) -> bool {
        self.due.is_some_and(|at| at <= Instant::now())
    }

    fn soon(&mut self, pause: Duration) {
        if self.file.is_some() {
            let at = Instant::now() + pause;
            self.due = Some(self.due.map_or(at, |due| due.min(at)));
        }
    }

    /// Takes note of changes; those that may be told now.
    fn hear(&mut self, batch: Batch, sink: &Sink) -> Vec<Event> {
        let changes: Vec<Event> = batch
            .events
            .into_iter()
            .filter(|event| !is_only_told(event.key()))
            .collect();
        let mut rights = false;
        for event in &changes {
            rights |= self.past.note(event);
        }
        self.past.pass(batch.revision);
        if !rights && self.held.is_empty() {
            self.soon(SAVE_AFTER);
            return changes;
        }
        self.held.extend(changes);
        let since = self.saved.map_or(BETWEEN_SAVES, |at| at.elapsed());
        match BETWEEN_SAVES.checked_sub(since).filter(|rest| !rest.is_zero()) {
            Some(rest) => {
                self.soon(rest);
                Vec::new()
            }
            None => self.keep(sink),
        }
    }

    /// Keeps what is known; what waited for that.
    fn keep(&mut self, sink: &Sink) -> Vec<Event> {
        self.save(sink);
        // Also if it cannot be kept: a node that heard nothing more would do more harm.
        std::mem::take(&mut self.held)
    }

    fn save(&mut self, sink: &Sink) {
        self.due = None;
        let Some(file) = self.file.as_ref().filter(|_| self.past.revision() > 0) else {
            return;
        };
        let now = Instant::now();
        let kept = file.save(&self.past);
        self.saved = Some(Instant::now());
        let Err(why) = kept else {
            self.said = None;
            return;
        };
        if self.said.is_none_or(|at| now.duration_since(at) >= BETWEEN_WARNINGS) {
            self.said = Some(now);
            sink(Notice::Warn(format!(
                "what this node knows of the metadata cannot be kept in {}: {why}. Once it is started anew, it takes an older copy \
                 of the metadata for what it was",
                file.path().display()
            )));
        }
        self.soon(SAVE_AGAIN);
    }
}

/// Does nobody answer?
fn is_away(why: &Error) -> bool {
    matches!(why, Error::Unavailable { .. } | Error::Unknown { .. })
}

/// Is nothing here decided by the records of that key? What is read of them and what is heard of them is left out alike: of a record
/// that was read and whose changes were not heard, the next read would show a past that is not what is known.
fn is_only_told(key: &str) -> bool {
    [events::prefix(), audit::prefix(), alerts_prefix()]
        .iter()
        .any(|log| key.starts_with(log))
}

/// All records but those that are only told, as of one revision.
fn read(client: &Client) -> Result<(List, Line), Error> {
    let call = Call {
        then: beginnings().map(|key| Op::Prefix { key }).collect(),
        ..Call::default()
    };
    let (reply, line) = client.txn_on_line(&call)?;
    Ok((wanted(List::of(&call, &reply)), line))
}

/// What is read, without what is only told.
fn wanted(mut list: List) -> List {
    list.records.retain(|record| !is_only_told(&record.key));
    list
}

/// What the keys of all records but the events and the audit log begin with: those may be many, so they are not even asked for. The events are the only ones below the prefix that begin with `ev`, the
/// audit log's the only ones that begin with `au`.
fn beginnings() -> impl Iterator<Item = String> {
    let beside = |first: char, second: char| {
        ('a'..='z')
            .filter(move |letter| *letter != second)
            .map(move |letter| format!("{first}{letter}"))
    };
    let others = ('a'..='z')
        .filter(|letter| !['a', 'e'].contains(letter))
        .map(String::from);
    others
        .chain(beside('a', 'u'))
        .chain(beside('e', 'v'))
        .map(|beginning| format!("{PREFIX}{beginning}"))
}

#[cfg(test)]
mod tests;
