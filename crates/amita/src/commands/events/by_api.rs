//! `amita events --follow` by the API: first what was kept, then what happens, from a node that tells it, and from another one where that is gone.
//!
//! The stream is opened before the list is read, so that nothing falls between the two, and its messages have ids (the metadata's revisions) by which
//! any node goes on where the last one was. What comes twice by that is known by its own id, and shown once.

mod messages;

use super::{Arguments, Wanted, query, show};
use crate::by_api::rest::{Rest, encode};
use crate::by_api::stream::Coming;
use crate::by_api::transport::Question;
use amita_control::events::{Event, Severity};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::interrupt;
use amita_types::NodeId;
use http::header::HeaderName;
use messages::{Message, Messages};
use serde::Deserialize;
use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

const LIST: &str = "/api/v1/events?limit=1000";
const WATCH: &str = "/api/v1/events/watch";
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// A node says each 15 s that it is there: one that has said nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(45);
/// Where no node tells for so long, that is told, and the command ends.
const PATIENCE: Duration = Duration::from_secs(120);
/// The pause before nodes are asked again, none of which tells.
const PAUSE: Duration = Duration::from_secs(1);
/// Events that are known again: more than are kept.
const MOST_KNOWN: usize = 20_000;

/// An event, as the API has it.
#[derive(Deserialize)]
struct Told {
    id: String,
    at_ms: u64,
    #[serde(default)]
    node_id: u32,
    kind: String,
    severity: Severity,
    objects: Vec<String>,
    text: String,
}

impl From<Told> for Event {
    fn from(told: Told) -> Event {
        Event {
            unix_ms: told.at_ms,
            node: NodeId(told.node_id),
            kind: told.kind,
            severity: told.severity,
            objects: told.objects,
            text: told.text,
        }
    }
}

/// The ids of events that were shown, or are not wanted.
#[derive(Default)]
struct Known {
    ids: BTreeSet<String>,
    order: VecDeque<String>,
}

impl Known {
    /// Is it news?
    fn is_news(&mut self, id: &str) -> bool {
        if !self.ids.insert(id.to_owned()) {
            return false;
        }
        self.order.push_back(id.to_owned());
        if self.order.len() > MOST_KNOWN
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        true
    }
}

struct Following<'a> {
    rest: &'a Rest,
    wanted: Wanted,
    as_json: bool,
    known: Known,
    /// The id of the last message: where any node goes on.
    last: Option<String>,
}

/// Shows what was kept, and then what happens, until the command is ended.
///
/// # Errors
/// There is no such kind; nobody may be asked so; or no node tells any more.
pub fn follow(arguments: &Arguments, rest: &Rest) -> Result<()> {
    let query = query(arguments)?;
    interrupt::catch();
    let node = match &arguments.object {
        Some(name) => node_of(rest, name)?,
        None => None,
    };
    let mut following = Following {
        rest,
        wanted: Wanted { query, node },
        as_json: arguments.json,
        known: Known::default(),
        last: None,
    };
    match following.run() {
        // Ctrl-C is how it ends.
        Err(failure) if failure.kind == Kind::Interrupted => Ok(()),
        ended => ended,
    }
}

#[derive(Deserialize)]
struct Node {
    id: u32,
}

/// The number of the node of that name, if there is one.
fn node_of(rest: &Rest, name: &str) -> Result<Option<String>> {
    match rest.get::<Node>(&format!("/api/v1/nodes/{}", encode(name))) {
        Ok(node) => Ok(Some(node.id.to_string())),
        Err(failure) if failure.kind == Kind::NotFound => Ok(None),
        Err(failure) => Err(failure),
    }
}

impl Following<'_> {
    fn run(&mut self) -> Result<()> {
        let mut is_listed = false;
        let mut silent_since: Option<Instant> = None;
        loop {
            let begun = Instant::now();
            match self.watch(&mut is_listed, &mut silent_since) {
                // Of a node that ends it at once not more is asked than of one that is gone.
                Ok(()) if begun.elapsed() < PAUSE => interrupt::sleep(PAUSE)?,
                Ok(()) => {}
                Err(failure) if failure.kind == Kind::Unreachable => {
                    if silent_since.get_or_insert_with(Instant::now).elapsed() >= PATIENCE {
                        return Err(failure);
                    }
                    log::warn!("events are asked for anew: {failure}");
                    interrupt::sleep(PAUSE)?;
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Shows what one node tells, until it ends.
    fn watch(&mut self, is_listed: &mut bool, silent_since: &mut Option<Instant>) -> Result<()> {
        let mut question = Question::get(WATCH);
        if let Some(last) = &self.last {
            question = question.header(LAST_EVENT_ID, last);
        }
        let (index, place, mut coming) = self.rest.open(&question)?;
        let mut messages = Messages::default();
        let read = self.read(&mut coming, &mut messages, is_listed, silent_since);
        read.map_err(|failure| {
            if failure.kind != Kind::Unreachable {
                return failure;
            }
            self.rest.lost(index);
            Failure {
                what: format!("{place}: {}", failure.what),
                ..failure
            }
        })
    }

    fn read(
        &mut self,
        coming: &mut Coming,
        messages: &mut Messages,
        is_listed: &mut bool,
        silent_since: &mut Option<Instant>,
    ) -> Result<()> {
        // A stream ends after a while: whoever asks shows anew who they are.
        while let Some(bytes) = self.rest.next(coming, SILENCE)? {
            *silent_since = None;
            let all = messages.take(&bytes).map_err(Failure::new)?;
            for message in all {
                self.take(message)?;
                // The first one says from where on is told: what was before is in the list.
                if !*is_listed && self.last.is_some() {
                    self.list()?;
                    *is_listed = true;
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, message: Message) -> Result<()> {
        if !message.data.is_empty() {
            let told: Told = serde_json::from_str(&message.data)
                .map_err(|why| Failure::new(format!("an event is of another form: {why}")))?;
            self.show(told)?;
        }
        if message.id.is_some() {
            self.last = message.id;
        }
        Ok(())
    }

    fn list(&mut self) -> Result<()> {
        let mut path = format!("{LIST}&since_ms={}", self.wanted.query.since_ms);
        for kind in &self.wanted.query.kinds {
            path.push_str(&format!("&kind={}", encode(kind)));
        }
        let rest = self.rest;
        rest.each(&path, |told| self.show(told))
    }

    fn show(&mut self, told: Told) -> Result<()> {
        if !self.known.is_news(&told.id) {
            return Ok(());
        }
        show(&told.into(), &self.wanted, self.as_json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_of_the_api_is_that_of_the_metadata() {
        let event = Event {
            unix_ms: 5,
            node: NodeId(9),
            kind: "node-gone".to_owned(),
            severity: Severity::Warning,
            objects: vec!["n1".to_owned()],
            text: "It is gone.".to_owned(),
        };
        let told = json!({
            "id": "x", "at_ms": 5, "node": "n9", "node_id": 9, "kind": "node-gone", "severity": "warning",
            "objects": ["n1"], "text": "It is gone.", "later": 1,
        });
        let read: Told = serde_json::from_value(told).expect("an event");
        assert_eq!(Event::from(read), event);
    }

    #[test]
    fn what_comes_twice_is_news_once_and_not_all_is_remembered() {
        let mut known = Known::default();
        assert!(known.is_news("a"));
        assert!(!known.is_news("a"));
        for number in 0..MOST_KNOWN {
            assert!(known.is_news(&number.to_string()));
        }
        assert_eq!((known.ids.len(), known.order.len()), (MOST_KNOWN, MOST_KNOWN));
        assert!(known.is_news("a"), "it was long ago");
    }
}
