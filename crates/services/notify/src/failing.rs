//! Channels that do not take what they are told.
//!
//! Whoever tells says so in a record ([`FailingChannel`]), of which `amita status` makes a fact: that is what the other channels are
//! told. The event is written with the record, so that it is there once, whichever node tells.

use crate::delivery::Delivery;
use amita_control::events::{Draft, Kind, Writer};
use amita_metadata::{KeyValue, Op};
use amita_types::condition::{FailingChannel, failing_channel_key};
use std::collections::BTreeMap;

/// So many attempts have to fail one after another. With the pauses between them that takes a little more than a minute.
pub(crate) const FAILS_AFTER: u64 = 5;

/// What is said of a channel.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// None: nobody can read it.
    said: Option<FailingChannel>,
    revision: u64,
}

impl Known {
    /// What a record says.
    pub(crate) fn of(record: &KeyValue) -> Known {
        Known {
            said: record.json().ok(),
            revision: record.mod_revision,
        }
    }
}

/// What is to be said of a channel from now on.
#[derive(Debug)]
pub(crate) struct Change {
    channel: String,
    /// The record's, before.
    pub(crate) revision: u64,
    /// None: it does not fail.
    said: Option<FailingChannel>,
    event: Option<Draft>,
}

impl Change {
    /// The record's key.
    pub(crate) fn key(&self) -> String {
        failing_channel_key(&self.channel)
    }

    /// What is done in the metadata.
    pub(crate) fn ops(self, events: &mut Writer) -> Vec<Op> {
        let key = self.key();
        let put = |key, value| Op::Put {
            key,
            value,
            lease: None,
        };
        let record = match &self.said {
            Some(said) => put(key, serde_json::to_vec(said).expect("plain data")),
            None => Op::Delete { key },
        };
        let event = self.event.map(|event| {
            let (key, value) = events.record(event);
            put(key, value)
        });
        std::iter::once(record).chain(event).collect()
    }
}

/// What is to be said of a channel; none: it does not fail.
fn of(channel: &str, delivery: &Delivery) -> Option<FailingChannel> {
    (delivery.failures >= FAILS_AFTER).then(|| FailingChannel {
        channel: channel.to_owned(),
        attempts: delivery.failures,
        why: delivery.why.clone().unwrap_or_default(),
    })
}

/// What is to be said otherwise than it is. `told`: all channels; none: how it went is not written down yet.
pub(crate) fn changes(known: &BTreeMap<String, Known>, told: &BTreeMap<&str, Option<&Delivery>>) -> Vec<Change> {
    let mut changes = Vec::new();
    for (name, delivery) in told {
        let Some(delivery) = delivery else { continue };
        let (before, said) = (known.get(*name), of(name, delivery));
        let event = match (before, &said) {
            (None, None) => continue,
            (Some(known), Some(_)) if known.said == said => continue,
            (Some(_), Some(_)) => None,
            (None, Some(said)) => Some(Draft::new(
                Kind::ChannelFails,
                [name],
                format!(
                    "channel {name} is not told of alerts: {} attempts have failed, the last one by this: {}",
                    said.attempts, said.why
                ),
            )),
            (Some(_), None) => Some(Draft::new(
                Kind::ChannelWorks,
                [name],
                format!("channel {name} is told of alerts again"),
            )),
        };
        changes.push(Change {
            channel: (*name).to_owned(),
            revision: before.map_or(0, |known| known.revision),
            said,
            event,
        });
    }
    let gone = known.iter().filter(|(name, _)| !told.contains_key(name.as_str()));
    changes.extend(gone.map(|(name, known)| Change {
        channel: name.clone(),
        revision: known.revision,
        said: None,
        event: None,
    }));
    changes
}

#[cfg(test)]
mod tests;
