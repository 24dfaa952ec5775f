//! What is said of channels that fail, over a model of the metadata.

use super::*;
use amita_control::admin;
use amita_control::events::{self, Query};
use amita_metadata::{Call, Transact, model};
use amita_types::condition::failing_channels_prefix;
use amita_types::{ClusterId, NodeId};
use std::sync::Mutex;

/// A cluster, and what a node that tells knows of its channels.
struct World {
    meta: Mutex<model::State>,
    events: Writer,
    sent: BTreeMap<String, Delivery>,
}

impl World {
    fn new(channels: &[&str]) -> World {
        let meta = Mutex::new(model::State::new());
        admin::init_cluster(&meta, ClusterId(7)).unwrap();
        World {
            meta,
            events: Writer::new(NodeId(1), 1),
            sent: channels
                .iter()
                .map(|&name| (name.to_owned(), Delivery::default()))
                .collect(),
        }
    }

    fn known(&self) -> BTreeMap<String, Known> {
        let prefix = failing_channels_prefix();
        let reply = self.meta.txn(&Call::prefix(prefix.as_str())).unwrap();
        let records = reply.values(0).iter();
        records
            .map(|found| (found.key[prefix.len()..].to_owned(), Known::of(found)))
            .collect()
    }

    /// Says what is to be said; how many records that were.
    fn say(&mut self) -> usize {
        let told = self.sent.iter().map(|(name, sent)| (name.as_str(), Some(sent)));
        let changes = changes(&self.known(), &told.collect());
        let count = changes.len();
        for change in changes {
            let call = Call {
                then: change.ops(&mut self.events),
                ..Call::default()
            };
            self.meta.txn(&call).unwrap();
        }
        count
    }

    fn fails(&mut self, channel: &str, times: u64) {
        let sent = self.sent.get_mut(channel).unwrap();
        (0..times).for_each(|at| sent.failed("nobody takes connections there", at));
    }

    /// The channels of which the status says that they fail, and its sentence.
    fn facts(&self) -> Vec<(String, String)> {
        let status = admin::status(&self.meta).unwrap();
        let fails = status.facts.iter().filter(|fact| fact.name == "channel-fails");
        fails.map(|fact| (fact.objects.join(" "), fact.text.clone())).collect()
    }

    fn told(&self) -> Vec<(String, Vec<String>)> {
        let all = events::query(&self.meta, &Query::default()).unwrap();
        all.into_iter().map(|event| (event.kind, event.objects)).collect()
    }
}

fn event(kind: &str, channel: &str) -> (String, Vec<String>) {
    (kind.to_owned(), vec![channel.to_owned()])
}

#[test]
fn a_channel_fails_after_some_attempts_and_until_it_takes_a_message() {
    let mut world = World::new(&["hook", "mail"]);
    world.fails("hook", FAILS_AFTER - 1);
    assert_eq!(world.say(), 0);
    assert_eq!(world.facts(), []);
    world.fails("hook", 1);
    assert_eq!(world.say(), 1);
    let facts = world.facts();
    assert_eq!((facts.len(), facts[0].0.as_str()), (1, "hook"));
    assert!(
        facts[0].1.contains("5 attempts") && facts[0].1.contains("nobody takes"),
        "{facts:?}"
    );
    assert_eq!(world.say(), 0, "it is said already, also by who tells after this one");
    world.fails("hook", 1);
    assert_eq!(world.say(), 1);
    assert!(world.facts()[0].1.contains("6 attempts"), "the sentence goes on");
    assert_eq!(world.told(), [event("channel-fails", "hook")], "and the event is one");
    world.sent.get_mut("hook").unwrap().delivered("node-down", "1", 9);
    assert_eq!((world.say(), world.facts()), (1, Vec::new()));
    assert_eq!(
        world.told(),
        [event("channel-fails", "hook"), event("channel-works", "hook")]
    );
    assert_eq!(world.say(), 0);
}

#[test]
fn of_a_channel_that_is_gone_nothing_is_said() {
    let mut world = World::new(&["hook"]);
    world.fails("hook", 9);
    world.say();
    world.sent.clear();
    assert_eq!((world.say(), world.facts()), (1, Vec::new()));
    assert_eq!(
        world.told(),
        [event("channel-fails", "hook")],
        "it does not work either"
    );
}

#[test]
fn what_is_not_written_down_is_not_said_and_what_nobody_can_read_is_said_anew() {
    let mut world = World::new(&["hook"]);
    world.fails("hook", FAILS_AFTER);
    let unwritten = BTreeMap::from([("hook", None)]);
    assert!(changes(&world.known(), &unwritten).is_empty());
    let bad = Call::put(failing_channel_key("hook"), "?");
    world.meta.txn(&bad).unwrap();
    assert_eq!(world.say(), 1);
    assert_eq!(world.facts()[0].0, "hook");
    assert_eq!(world.told(), []);
}
