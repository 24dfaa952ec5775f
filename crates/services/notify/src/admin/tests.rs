//! What people change, over a model of the metadata.

use super::*;
use crate::alert::{Condition, Severity};
use crate::channel::Kind;
use amita_metadata::model;
use amita_types::condition::failing_channels_prefix;
use std::sync::Mutex;

fn meta() -> Mutex<model::State> {
    Mutex::new(model::State::new())
}

fn hook(name: &str) -> Channel {
    let origin = "https://h.example.org:443".to_owned();
    Channel::new(name, Kind::Webhook { origin }, "eve", 1)
}

fn with_alert(meta: &Mutex<model::State>, now: u64) -> String {
    let condition = Condition {
        code: "node-down".to_owned(),
        severity: Severity::Warning,
        object: "n1".to_owned(),
        labels: BTreeMap::new(),
        what: "Node n1 is down.".to_owned(),
        advice: String::new(),
        at_once: true,
    };
    let mut alerts = Alerts::default();
    alerts.step(std::slice::from_ref(&condition), now);
    meta.txn(&Call::put(records::alerts_key(), json(&alerts))).unwrap();
    condition.id()
}

#[test]
fn channels_are_made_once_and_go_with_what_they_were_told() {
    let meta = meta();
    add_channel(&meta, &hook("a")).unwrap();
    assert!(matches!(add_channel(&meta, &hook("a")), Err(AdminError::Exists { .. })));
    assert!(matches!(
        add_channel(&meta, &hook("a b")),
        Err(AdminError::BadName { .. })
    ));
    meta.txn(&Call::put(records::delivery_key("a"), json(&Delivery::default())))
        .unwrap();
    assert_eq!(deliveries(&meta).unwrap().len(), 1);
    meta.txn(&Call::put(failing_channel_key("a"), "{}")).unwrap();
    remove_channel(&meta, "a").unwrap();
    let left = meta.txn(&Call::prefix(failing_channels_prefix())).unwrap();
    assert!(left.values(0).is_empty(), "what is said of it goes with it");
    assert!(deliveries(&meta).unwrap().is_empty() && channels(&meta).unwrap().is_empty());
    assert!(matches!(remove_channel(&meta, "a"), Err(AdminError::NoSuch { .. })));
    for number in 0..MAX_CHANNELS {
        add_channel(&meta, &hook(&format!("c{number}"))).unwrap();
    }
    assert!(matches!(
        add_channel(&meta, &hook("more")),
        Err(AdminError::Full { .. })
    ));
}

#[test]
fn silences_say_which_and_why_and_end_within_ninety_days() {
    let meta = meta();
    let wanted = |codes: &[&str], until, why: &str| NewSilence {
        matches: Match {
            codes: codes.iter().map(|&code| code.to_owned()).collect(),
            ..Match::default()
        },
        from: 1000,
        until,
        by: "eve".to_owned(),
        why: why.to_owned(),
    };
    for (bad, why) in [
        (wanted(&[], 2000, "w"), "say which"),
        (wanted(&["*"], 1000, "w"), "over before"),
        (wanted(&["*"], 1000 + MAX_SILENCE_S + 1, "w"), "90 days"),
        (wanted(&["*"], 2000, " "), "say why"),
        (wanted(&["*"], 2000, "a\nb"), "say why"),
    ] {
        let said = add_silence(&meta, bad, 1000).unwrap_err().to_string();
        assert!(said.contains(why), "{said}");
    }
    let made = add_silence(&meta, wanted(&["node-*"], 2000, "work"), 1000).unwrap();
    let id = with_alert(&meta, 1500);
    assert_eq!(alert(&meta, &id, 1500).unwrap().silenced_by, Some(made.id.clone()));
    assert_eq!(alert(&meta, &id, 2000).unwrap().silenced_by, None);
    end_silences(&meta, &silences(&meta).unwrap(), 2000 + KEPT_S - 1).unwrap();
    assert_eq!(silences(&meta).unwrap().len(), 1);
    assert_eq!(remove_silence(&meta, &made.id[..6]).unwrap(), made);
    assert!(silences(&meta).unwrap().is_empty());
}

#[test]
fn an_acknowledgement_stands_in_the_alert() {
    let meta = meta();
    let id = with_alert(&meta, 1500);
    assert!(matches!(
        acknowledge(&meta, "0000", "eve", "", 1600),
        Err(AdminError::NoSuch { .. })
    ));
    assert!(
        acknowledge(&meta, &id[..3], "eve", "", 1600).is_err(),
        "three digits are too few"
    );
    let seen = acknowledge(&meta, &id[..8], "eve", " on it ", 1600).unwrap();
    let known = seen.alert.acknowledged.unwrap();
    assert_eq!(
        (known.by.as_str(), known.note.as_str(), known.at),
        ("eve", "on it", 1600)
    );
}
