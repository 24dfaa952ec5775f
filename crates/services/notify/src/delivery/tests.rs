//! What a channel is told, on a clock that is given.

use super::*;
use crate::alert::{Acknowledgement, Condition, SETTLE_S};
use crate::channel::{GroupBy, Kind};
use crate::message::{From, MOST_TOLD, compose};
use crate::silence::Match;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn channel() -> Channel {
    let origin = "https://h:443".to_owned();
    let mut channel = Channel::new("c", Kind::Webhook { origin }, "eve", 0);
    (channel.wait_s, channel.repeat_s) = (10, 3600);
    channel
}

fn condition(code: &str, object: &str, severity: Severity) -> Condition {
    Condition {
        code: code.to_owned(),
        severity,
        object: object.to_owned(),
        labels: BTreeMap::from([("node".to_owned(), object.to_owned())]),
        what: format!("{object}: {code}."),
        advice: "Look.".to_owned(),
        at_once: true,
    }
}

/// A cluster, a channel of it, and what its receiver has heard.
struct World {
    channel: Channel,
    alerts: Alerts,
    silences: Vec<Silence>,
    delivery: Delivery,
    now: u64,
    ids: u64,
    heard: Vec<Outgoing>,
    /// Does the receiver take what is sent?
    lives: bool,
}

impl World {
    fn new() -> World {
        World {
            channel: channel(),
            alerts: Alerts::default(),
            silences: Vec::new(),
            delivery: Delivery::default(),
            now: 10_000,
            ids: 0,
            heard: Vec::new(),
            lives: true,
        }
    }

    fn step(&mut self, seen: &[Condition]) {
        self.alerts.step(seen, self.now);
        let around = Around {
            channel: &self.channel,
            alerts: &self.alerts,
            silences: &self.silences,
            now: self.now,
        };
        let ids = &mut self.ids;
        self.delivery.step(around, || {
            *ids += 1;
            ids.to_string()
        });
        while self.lives {
            let Some((group, outgoing)) = self.delivery.next() else {
                break;
            };
            let (group, outgoing) = (group.to_owned(), outgoing.clone());
            self.delivery.delivered(&group, &outgoing.id, self.now);
            self.heard.push(outgoing);
        }
    }

    fn run(&mut self, seen: &[Condition], seconds: u64) {
        for _ in 0..seconds {
            self.now += 1;
            self.step(seen);
        }
    }

    /// What was heard since this was asked last: whether it repeats, and what of how many.
    fn told(&mut self) -> Vec<(bool, Stage, usize)> {
        let heard = std::mem::take(&mut self.heard);
        let each = heard
            .iter()
            .map(|message| (message.repeat, message.items[0].stage, message.items.len()));
        each.collect()
    }
}

#[test]
fn what_fires_is_told_once_and_its_end_once() {
    let mut world = World::new();
    let seen = [condition("node-down", "n1", Severity::Warning)];
    world.run(&seen, 9);
    assert_eq!(world.told(), []);
    world.run(&seen, 600);
    assert_eq!(world.told(), [(false, Stage::Firing, 1)]);
    world.run(&[], SETTLE_S + 20);
    assert_eq!(world.told(), [(false, Stage::Resolved, 1)]);
    world.run(&[], 10_000);
    assert_eq!(world.told(), []);
    assert!(world.delivery.groups.is_empty());
}

#[test]
fn what_comes_together_is_told_together_and_groups_apart() {
    let mut world = World::new();
    let mut seen: Vec<Condition> = (0..100)
        .map(|number| condition("store-away", &format!("s{number:02}"), Severity::Warning))
        .collect();
    seen.push(condition("pool-full", "main", Severity::Critical));
    world.run(&seen, 30);
    let mut told = world.told();
    told.sort_by_key(|(_, _, count)| *count);
    assert_eq!(told, [(false, Stage::Firing, 1), (false, Stage::Firing, 100)]);
    // The next ones of the group wait from the last message on.
    seen.push(condition("store-away", "s100", Severity::Warning));
    seen.push(condition("store-away", "s101", Severity::Warning));
    world.run(&seen, 30);
    assert_eq!(world.told(), [(false, Stage::Firing, 2)]);
    world.channel.group_by = GroupBy::All;
    world.run(&seen, 30);
    assert_eq!(world.told(), [], "another grouping is no news");
}

#[test]
fn a_digest_counts_all_and_names_twenty() {
    let mut world = World::new();
    world.lives = false;
    let seen: Vec<Condition> = (0..100)
        .map(|number| condition("store-away", &format!("s{number:02}"), Severity::Warning))
        .collect();
    world.run(&seen, 30);
    let (group, outgoing) = world.delivery.next().unwrap();
    let from = From {
        cluster: "c",
        channel: "c",
        group_by: GroupBy::Code,
    };
    let message = compose(from, group, outgoing, &world.delivery, &world.alerts);
    assert_eq!(message.alerts.len(), MOST_TOLD);
    assert_eq!(
        (
            message.counts.firing,
            message.counts.left_out,
            message.counts.firing_in_group
        ),
        (100, 80, 100)
    );
    assert!(
        message.summary.starts_with("100 alerts fire: s00: store-away."),
        "{}",
        message.summary
    );
    assert!(message.text().contains("And 80 more"));
    assert!(
        message.subject().starts_with("[amita warning x100] "),
        "{}",
        message.subject()
    );
    let bytes = serde_json::to_vec(&message).unwrap().len();
    assert!(bytes < 64 * 1024, "{bytes}");
}

#[test]
fn what_still_fires_is_repeated_until_somebody_looks_after_it() {
    let mut world = World::new();
    let seen = [condition("a", "n1", Severity::Warning)];
    world.run(&seen, 20);
    world.told();
    world.run(&seen, 3600);
    assert_eq!(world.told(), [(true, Stage::Firing, 1)]);
    let alert = world.alerts.alerts.values_mut().next().unwrap();
    alert.acknowledged = Some(Acknowledgement {
        by: "eve".to_owned(),
        at: world.now,
        severity: Severity::Warning,
        note: String::new(),
    });
    world.run(&seen, 8000);
    assert_eq!(world.told(), []);
    world.run(&[condition("a", "n1", Severity::Critical)], 30);
    assert_eq!(world.told(), [(false, Stage::Firing, 1)], "it got worse");
    world.run(&[], 60);
    assert_eq!(world.told(), [(false, Stage::Resolved, 1)]);
}

#[test]
fn a_silence_keeps_from_being_told_and_its_end_tells() {
    let mut world = World::new();
    let silence = |from, until| Silence {
        id: "s".to_owned(),
        matches: Match {
            codes: vec!["a".to_owned()],
            ..Match::default()
        },
        from,
        until,
        by: "eve".to_owned(),
        why: "w".to_owned(),
        made_at: 0,
    };
    world.silences = vec![silence(0, world.now + 100)];
    let seen = [condition("a", "n1", Severity::Warning)];
    world.run(&seen, 99);
    assert_eq!(world.told(), []);
    world.run(&seen, 30);
    assert_eq!(world.told(), [(false, Stage::Firing, 1)]);
    // Of what was told the end is told, silence or not.
    world.silences = vec![silence(0, world.now + 100_000)];
    world.run(&[], 60);
    assert_eq!(world.told(), [(false, Stage::Resolved, 1)]);
    world.run(&seen, 700);
    world.run(&[], 1000);
    assert_eq!(world.told(), [], "silenced from the beginning to the end");
}

#[test]
fn a_receiver_that_was_dead_hears_of_both_in_the_end_and_once() {
    let mut world = World::new();
    world.lives = false;
    let seen = [condition("a", "n1", Severity::Warning)];
    world.run(&seen, 10_000);
    world.run(&[], 5000);
    let waiting = world
        .delivery
        .groups
        .values()
        .filter(|group| group.outgoing.is_some())
        .count();
    assert_eq!(waiting, 1, "nothing piles up");
    world.lives = true;
    world.run(&[], 60);
    assert_eq!(world.told(), [(false, Stage::Firing, 1), (false, Stage::Resolved, 1)]);
}

#[test]
fn one_that_is_not_told_of_ends_is_not() {
    let mut world = World::new();
    world.channel.resolved = false;
    let seen = [condition("a", "n1", Severity::Warning)];
    world.run(&seen, 30);
    world.run(&[], 600);
    assert_eq!(world.told(), [(false, Stage::Firing, 1)]);
    assert!(world.delivery.groups.is_empty());
    let info = [condition("b", "n1", Severity::Info)];
    world.run(&info, 600);
    assert_eq!(world.told(), [], "it matters too little");
}

/// One step of a history.
#[derive(Clone, Debug)]
enum Event {
    Appears(usize, usize),
    Goes(usize),
    Waits(u64),
    Dies,
    Lives,
    /// What was sent arrived, and that was not heard.
    AnswerLost,
    Silence(u64),
    Acknowledge(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0_usize..5, 0_usize..3).prop_map(|(which, severity)| Event::Appears(which, severity)),
        3 => (0_usize..5).prop_map(Event::Goes),
        6 => (1_u64..120).prop_map(Event::Waits),
        1 => Just(Event::Dies),
        2 => Just(Event::Lives),
        1 => Just(Event::AnswerLost),
        1 => (1_u64..400).prop_map(Event::Silence),
        1 => (0_usize..5).prop_map(Event::Acknowledge),
    ]
}

fn silence_for(world: &World, seconds: u64) -> Silence {
    Silence {
        id: "s".to_owned(),
        matches: Match {
            codes: vec!["c1".to_owned()],
            ..Match::default()
        },
        from: world.now,
        until: world.now + seconds,
        by: "eve".to_owned(),
        why: "w".to_owned(),
        made_at: world.now,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// Whatever happens: the receiver is told nothing that it knows unless it is a repetition that is due, it hears of the end of all
    /// that it was told of, and messages have the same id exactly when they are the same.
    #[test]
    fn nothing_is_told_without_cause_and_no_end_is_lost(events in prop::collection::vec(event(), 1..80)) {
        let mut world = World::new();
        let mut seen: BTreeMap<usize, Condition> = BTreeMap::new();
        let mut heard: Vec<(u64, Outgoing)> = Vec::new();
        for event in events.into_iter().chain([Event::Lives]) {
            match event {
                Event::Appears(which, severity) => {
                    let code = format!("c{}", which % 2);
                    seen.insert(which, condition(&code, &format!("n{which}"), Severity::ALL[severity]));
                }
                Event::Goes(which) => drop(seen.remove(&which)),
                Event::Waits(seconds) => {
                    let now: Vec<Condition> = seen.values().cloned().collect();
                    for _ in 0..seconds {
                        world.run(&now, 1);
                        let at = world.now;
                        heard.extend(world.heard.drain(..).map(|message| (at, message)));
                    }
                }
                Event::Dies => world.lives = false,
                Event::Lives => world.lives = true,
                Event::AnswerLost => {
                    if let Some((_, outgoing)) = world.delivery.next() {
                        heard.push((world.now, outgoing.clone()));
                    }
                }
                Event::Silence(seconds) => world.silences = vec![silence_for(&world, seconds)],
                Event::Acknowledge(which) => {
                    if let Some(condition) = seen.get(&which)
                        && let Some(alert) = world.alerts.alerts.get_mut(&condition.id())
                        && alert.state == State::Firing
                    {
                        let severity = alert.condition.severity;
                        alert.acknowledged = Some(Acknowledgement { by: "eve".to_owned(), at: world.now, severity, note: String::new() });
                    }
                }
            }
        }
        // All is well for an hour, and the receiver lives.
        for _ in 0..3600 {
            world.run(&[], 1);
            let at = world.now;
            heard.extend(world.heard.drain(..).map(|message| (at, message)));
        }
        prop_assert!(world.delivery.groups.is_empty(), "nothing is left: {:?}", world.delivery.groups);
        let mut known: BTreeMap<String, (Stage, Severity, u64)> = BTreeMap::new();
        let mut ids: BTreeMap<String, Outgoing> = BTreeMap::new();
        let mut last_told: BTreeMap<String, u64> = BTreeMap::new();
        for (at, message) in &heard {
            if let Some(same) = ids.get(&message.id) {
                prop_assert_eq!(same, message, "one id, one message");
                continue;
            }
            ids.insert(message.id.clone(), message.clone());
            let alerts: BTreeSet<&String> = message.items.iter().map(|item| &item.alert).collect();
            prop_assert_eq!(alerts.len(), message.items.len(), "each alert once");
            for item in &message.items {
                let before = known.get(&item.alert).copied();
                let told_at = last_told.insert(item.alert.clone(), *at).unwrap_or_default();
                match (item.stage, before) {
                    (Stage::Firing, Some((Stage::Firing, severity, _))) if message.repeat => {
                        prop_assert!(at - told_at >= world.channel.repeat_s);
                        prop_assert_eq!(severity, item.severity);
                    }
                    (Stage::Firing, Some((Stage::Firing, severity, _))) => prop_assert!(item.severity > severity, "it is worse"),
                    (Stage::Firing, Some((Stage::Resolved, _, turn))) => prop_assert!(item.turn > turn, "it fires anew"),
                    (Stage::Firing, None) => prop_assert!(!message.repeat),
                    // What was dead for its whole life is told with its end.
                    (Stage::Resolved, Some((Stage::Resolved, _, turn))) => prop_assert!(item.turn > turn),
                    (Stage::Resolved, _) => {}
                }
                known.insert(item.alert.clone(), (item.stage, item.severity, item.turn));
            }
        }
        prop_assert!(known.values().all(|(stage, ..)| *stage == Stage::Resolved), "no end is lost: {known:?}");
    }
}
