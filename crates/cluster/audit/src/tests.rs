//! Whatever is done to a log is found, and named.

use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn draft(action: &str) -> Draft {
    let who = Who {
        name: "amita://c/operator/eve".to_owned(),
        role: "admin".to_owned(),
        proof: Proof::Certificate,
    };
    Draft::new(who, Whence::default(), action, "disk0", Outcome::Done)
}

/// A log of so many records.
fn log(records: u64) -> Vec<(u64, String)> {
    let mut head: Option<Head> = None;
    let mut lines = Vec::new();
    for _ in 0..records {
        let line = draft("volume.create").after(head.as_ref());
        head = Some(line.head());
        lines.push((line.head().seq, line.text()));
    }
    lines
}

fn head_of(log: &[(u64, String)]) -> Option<Head> {
    log.last().map(|(_, text)| Line::parse(text).unwrap().head())
}

fn check(verifier: Verifier, log: &[(u64, String)], head: Option<Head>) -> Result<Summary, Fault> {
    let mut verifier = verifier;
    for (place, text) in log {
        verifier.take(*place, text)?;
    }
    verifier.end(head.as_ref())
}

fn verify(log: &[(u64, String)], head: Option<Head>) -> Result<Summary, Fault> {
    check(Verifier::new(None), log, head)
}

/// The record with another text and a hash of its own again.
fn forged(text: &str, change: impl FnOnce(&mut Value)) -> String {
    let (_, body) = text.split_once(' ').unwrap();
    let mut value: Value = serde_json::from_str(body).unwrap();
    change(&mut value);
    let body = value.to_string();
    format!("{} {body}", Hash::of(&body))
}

#[test]
fn a_sound_log_is_sound_and_its_head_is_told() {
    let log = log(5);
    let head = head_of(&log);
    let found = verify(&log, head).unwrap();
    assert_eq!((found.records, found.first, found.head), (5, 1, head));
    assert_eq!(verify(&[], None).unwrap().records, 0);
    let head = head.unwrap();
    assert_eq!(head.to_string().parse(), Ok(head));
    assert!("5".parse::<Head>().is_err() && "5:xy".parse::<Head>().is_err());
}

#[test]
fn a_changed_record_is_named() {
    let sound = log(5);
    let head = head_of(&sound);
    let mut log = sound.clone();
    log[2].1 = log[2].1.replace("disk0", "disk9");
    assert_eq!(verify(&log, head), Err(Fault::Changed { seq: 3 }));
    // With its hash computed anew, the next one gives it away; the last one, the head.
    log[2].1 = forged(&sound[2].1, |record| record["object"] = json!("disk9"));
    assert_eq!(verify(&log, head), Err(Fault::Exchanged { seq: 3 }));
    let mut log = sound.clone();
    log[4].1 = forged(&sound[4].1, |record| record["who"]["name"] = json!("x"));
    assert_eq!(verify(&log, head), Err(Fault::HeadDiffers { seq: 5 }));
    let mut log = sound;
    log[0].1 = "nothing".to_owned();
    assert_eq!(verify(&log, head).unwrap_err().seq(), 1);
}

#[test]
fn what_is_left_out_moved_or_cut_off_is_named() {
    let sound = log(6);
    let head = head_of(&sound);
    let without = |range: std::ops::Range<usize>| {
        let mut log = sound.clone();
        log.drain(range);
        log
    };
    assert_eq!(verify(&without(2..4), head), Err(Fault::LeftOut { from: 3, to: 4 }));
    assert_eq!(verify(&without(0..1), head), Err(Fault::LeftOut { from: 1, to: 1 }));
    assert_eq!(verify(&without(4..6), head), Err(Fault::CutOff { last: 4, head: 6 }));
    assert_eq!(verify(&[], head), Err(Fault::CutOff { last: 0, head: 6 }));
    let set_back = head_of(&without(4..6));
    assert_eq!(verify(&sound, set_back), Err(Fault::SetBack { head: 4 }));
    // Two texts have changed places.
    let mut log = sound.clone();
    (log[1].1, log[2].1) = (log[2].1.clone(), log[1].1.clone());
    assert_eq!(verify(&log, head), Err(Fault::Moved { place: 2, says: 3 }));
    assert_eq!(
        Fault::LeftOut { from: 3, to: 4 }.to_string(),
        "records 3 to 4 are left out: the next one that is there is record 5"
    );
}

#[test]
fn a_log_that_was_computed_anew_or_cut_off_with_its_head_is_found_by_who_knows_a_later_head() {
    let sound = log(6);
    let known = head_of(&sound).unwrap();
    // From record 3 on everything is another story, and fits.
    let mut other = sound[..2].to_vec();
    let mut head = head_of(&other);
    for seq in 3..=8 {
        let line = draft("volume.delete").after(head.as_ref());
        head = Some(line.head());
        other.push((seq, line.text()));
    }
    assert!(verify(&other, head).is_ok(), "by itself it is sound");
    let knowing = Verifier::new(None).known(known);
    assert_eq!(
        check(knowing.clone(), &other, head),
        Err(Fault::Forged {
            seq: 6,
            known: known.hash
        })
    );
    let short = &sound[..4];
    assert!(verify(short, head_of(short)).is_ok());
    assert_eq!(
        check(knowing, short, head_of(short)),
        Err(Fault::CutOff { last: 4, head: 6 })
    );
    // Who goes on from what is known sees it at once.
    assert_eq!(
        check(Verifier::behind(head_of(&sound[..4]).unwrap()), &other[4..], None),
        Err(Fault::Exchanged { seq: 4 })
    );
}

#[test]
fn a_trimmed_log_is_sound_when_a_record_says_so() {
    let mut log = log(6);
    let gone = head_of(&log[..4]).unwrap();
    assert_eq!(
        check(Verifier::new(Some(&gone)), &log[4..], head_of(&log)),
        Err(Fault::Trimmed { first: 5 })
    );
    let mut trim = draft(TRIM);
    trim.object = trimmed(&gone);
    let line = trim.after(head_of(&log).as_ref());
    log.push((7, line.text()));
    let found = check(Verifier::new(Some(&gone)), &log[4..], head_of(&log)).unwrap();
    assert_eq!((found.records, found.first), (3, 5));
    // An anchor that somebody has moved.
    let moved = head_of(&log[..5]).unwrap();
    assert_eq!(
        check(Verifier::new(Some(&moved)), &log[5..], head_of(&log)),
        Err(Fault::Trimmed { first: 6 })
    );
    let other = Head {
        seq: 4,
        hash: Hash::of("x"),
    };
    assert_eq!(
        check(Verifier::new(Some(&other)), &log[4..], head_of(&log)),
        Err(Fault::Begin { seq: 5 })
    );
}

/// A log of which the first `gone` were trimmed `days` after the first that stays was made: the mark, and what is left.
fn trimmed_log(records: u64, gone: usize, days: u64) -> (Head, Vec<(u64, String)>) {
    let mut log = log(records);
    let last = head_of(&log[..gone]).unwrap();
    let mut trim = draft(TRIM);
    trim.object = trimmed(&last);
    // The past, for nothing of tomorrow is believed.
    let first = Line::parse(&log[gone].1).unwrap().record().unix_ms;
    let mut head = Some(last);
    for (_, text) in &mut log[gone..] {
        let mut again = draft("volume.create");
        again.unix_ms = first - days * 24 * 3600 * 1000;
        let line = again.after(head.as_ref());
        head = Some(line.head());
        *text = line.text();
    }
    let line = trim.after(head.as_ref());
    log.push((line.head().seq, line.text()));
    (last, log.split_off(gone))
}

/// Whoever writes keys deletes the beginning of the log, moves its mark, and tells that as a trim.
#[test]
fn a_trim_that_came_too_early_is_named() {
    let retention = |records, bytes| Retention { records, bytes };
    let verify = |(gone, left): &(Head, Vec<(u64, String)>), retention: Retention| {
        check(Verifier::new(Some(gone)).keeping(retention), left, head_of(left))
    };
    let early = Err(Fault::TrimmedEarly { first: 5, trim: 9 });
    let young = trimmed_log(8, 4, 30);
    assert_eq!(verify(&young, retention(20_000, u64::MAX)), early);
    assert_eq!(verify(&young, retention(6, u64::MAX)), early);
    assert!(verify(&young, retention(5, u64::MAX)).is_ok(), "as many were left");
    let bytes = young.1.iter().map(|(_, text)| Line::parse(text).unwrap().kept_bytes());
    let bytes: u64 = bytes.sum();
    assert!(
        verify(&young, retention(20_000, bytes)).is_ok(),
        "as long ones were left"
    );
    assert_eq!(verify(&young, retention(20_000, bytes + 1)), early);
    // What comes later was not there then.
    let (gone, mut left) = young;
    left.push((10, draft("volume.create").after(head_of(&left).as_ref()).text()));
    assert_eq!(verify(&(gone, left), retention(6, bytes + 1)), early);
}

/// Whoever writes keys adds a record of long ago, deletes all before it, and tells that as a trim: a time that somebody chose is no
/// reason.
#[test]
fn no_record_makes_others_old_by_what_it_says_of_its_time() {
    let keeps = Retention {
        records: 20_000,
        bytes: 8 << 20,
    };
    for unix_ms in [0, 1, now_ms() - 401 * 24 * 3600 * 1000] {
        let all = log(8);
        let gone = head_of(&all).unwrap();
        let mut old = draft("volume.create");
        old.unix_ms = unix_ms;
        let mut left = vec![(9, old.after(Some(&gone)).text())];
        let mut trim = draft(TRIM);
        trim.object = trimmed(&gone);
        left.push((10, trim.after(head_of(&left).as_ref()).text()));
        let found = check(Verifier::new(Some(&gone)).keeping(keeps), &left, head_of(&left));
        assert_eq!(found, Err(Fault::TrimmedEarly { first: 9, trim: 10 }), "{unix_ms}");
    }
}

/// One line of many bytes does not stand for many records.
#[test]
fn a_line_counts_for_no_more_than_the_longest_that_is_written() {
    let long = forged(&log(1)[0].1, |record| record["text"] = json!("x".repeat(1 << 20)));
    let long = Line::parse(&long).unwrap();
    assert!(long.is_sound());
    assert_eq!(long.kept_bytes(), MAX_BODY_BYTES as u64);
}

#[test]
fn a_known_record_that_was_trimmed_shows_nothing_and_that_is_said() {
    let all = log(8);
    let (gone, left) = trimmed_log(8, 4, 400);
    let knowing = |known| check(Verifier::new(Some(&gone)).known(known), &left, head_of(&left));
    let third = head_of(&all[..3]).unwrap();
    assert_eq!(knowing(third), Err(Fault::KnownGone { seq: 3, first: 5 }));
    assert!(knowing(gone).is_ok(), "the mark itself is known by its hash");
    let other = Head {
        hash: Hash::of("x"),
        ..gone
    };
    assert_eq!(
        knowing(other),
        Err(Fault::Forged {
            seq: 4,
            known: other.hash
        })
    );
}

/// What a viewer has the server write, or a hand that writes keys: a number on which additions break.
#[test]
fn no_number_that_somebody_chose_ends_a_verifier_or_whoever_appends() {
    let edge = Head {
        seq: u64::MAX,
        hash: Hash::of("x"),
    };
    for beyond in [0, MAX_SEQ + 1, u64::MAX] {
        assert!(format!("{beyond}:{}", edge.hash).parse::<Head>().is_err(), "{beyond}");
        let json = json!({ "seq": beyond, "hash": edge.hash });
        assert!(serde_json::from_value::<Head>(json).is_err(), "{beyond}");
        let line = forged(&draft("x").after(None).text(), |record| record["seq"] = json!(beyond));
        assert!(Line::parse(&line).is_err(), "{beyond}");
    }
    let last = format!("{MAX_SEQ}:{}", edge.hash).parse::<Head>().unwrap();
    assert_eq!(last.next(), MAX_SEQ + 1);
    // Heads made in another way are counted on from as well.
    assert_eq!(draft("x").after(Some(&edge)).head().seq, u64::MAX);
    let mut verifier = Verifier::new(Some(&edge)).known(edge);
    let _ = verifier.take(u64::MAX, &log(1)[0].1);
    assert!(verifier.end(None).is_err());
    assert!(Verifier::behind(edge).take(3, "").is_err());
    // A refused trim, of whatever: after a real one it is neither the one that is looked for nor counted on from.
    let mut log = log(6);
    let gone = head_of(&log[..4]).unwrap();
    for (place, outcome, object) in [
        (7, Outcome::Refused, edge.to_string()),
        (8, Outcome::Refused, trimmed(&gone)),
        (9, Outcome::Done, edge.to_string()),
    ] {
        let mut trim = draft(TRIM);
        (trim.object, trim.outcome) = (object, outcome);
        log.push((place, trim.after(head_of(&log).as_ref()).text()));
        let found = check(Verifier::new(Some(&gone)), &log[4..], head_of(&log));
        assert_eq!(found, Err(Fault::Trimmed { first: 5 }), "{place}");
    }
}

#[test]
fn actions_without_an_end_are_told() {
    let mut begun = draft("pool.create");
    begun.outcome = Outcome::Begun;
    let first = begun.clone().after(None);
    let second = begun.after(Some(&first.head()));
    let mut done = draft("pool.create");
    done.of = Some(1);
    let third = done.after(Some(&second.head()));
    let log: Vec<_> = [first, second, third]
        .iter()
        .map(|line| (line.head().seq, line.text()))
        .collect();
    assert_eq!(verify(&log, head_of(&log)).unwrap().unended, [2]);
}

#[test]
fn keys_are_in_no_record() {
    let mut changes = Changes::default();
    let host = |dhchap: &str| json!({ "nqn": "n", "dhchap": dhchap, "tls": null }).to_string();
    let (old, new) = (host("seal-1:SECRET-A"), host("seal-1:SECRET-B"));
    changes.add("/amita/nvme/hosts/n", Some(old.as_bytes()), Some(new.as_bytes()), false);
    changes.add("/amita/nvme/hosts/m", None, Some(old.as_bytes()), false);
    let initiator = json!({ "name": "i", "chap": "seal-1:SECRET-C", "chap_target": "seal-1:SECRET-D" }).to_string();
    changes.add("/amita/iscsi/initiators/i", None, Some(initiator.as_bytes()), false);
    let data_key = |wrapped: &str| {
        json!({ "volume": 3, "check": "0f", "by": { "transit": { "key": "k", "wrapped": wrapped } } }).to_string()
    };
    let (old, new) = (data_key("SECRET-E"), data_key("SECRET-F"));
    changes.add("/amita/secrets/3/1", Some(old.as_bytes()), Some(new.as_bytes()), false);
    changes.add("/amita/secrets/3/1", Some(old.as_bytes()), None, false);
    changes.add("/amita/secrets/3/2", Some(old.as_bytes()), Some(new.as_bytes()), false);
    let mirror = |token: &str| json!({ "name": "m", "peer": { "cluster": "c", "token": token } }).to_string();
    let (old, new) = (mirror("seal-1:SECRET-G"), mirror("seal-1:SECRET-H"));
    changes.add("/amita/mirrors/of/m", Some(old.as_bytes()), Some(new.as_bytes()), false);
    let (told, more) = changes.finish();
    let text = serde_json::to_string(&told).unwrap();
    assert!(!text.contains("SECRET") && !text.contains("seal-1"), "{text}");
    assert_eq!(told[0].before.as_ref().unwrap()["dhchap"], "(a key)");
    assert_eq!(told[0].after.as_ref().unwrap()["dhchap"], "(another key)");
    assert_eq!(told[1].after.as_ref().unwrap()["tls"], Value::Null);
    let initiator = json!({ "name": "i", "chap": "(a key)", "chap_target": "(a key)" });
    assert_eq!(told[2].after, Some(initiator));
    assert_eq!(
        told[4].after.as_ref().unwrap()["by"]["transit"]["wrapped"],
        "(another key)"
    );
    assert_eq!(more, 0);
}

#[test]
fn a_change_of_which_it_is_not_known_whether_it_was_made_is_told_as_such() {
    let mut changes = Changes::default();
    changes.add("/a", Some(b"1"), Some(b"2"), true);
    changes.add("/b", Some(b"1"), Some(b"2"), true);
    changes.add("/b", Some(b"1"), Some(b"3"), false);
    let told = serde_json::to_value(changes.finish().0).unwrap();
    let wanted = json!([
        { "key": "/a", "before": 1, "after": 2, "perhaps": true },
        { "key": "/b", "before": 1, "after": 3 },
    ]);
    assert_eq!(told, wanted);
}

#[test]
fn what_is_large_is_told_by_its_length() {
    let mut changes = Changes::default();
    let long = json!({ "text": "x".repeat(2000) }).to_string();
    changes.add("/a", None, Some(long.as_bytes()), false);
    changes.add("/b", Some(b"not json"), None, false);
    for key in 0..100 {
        changes.add(&format!("/k{key}"), None, Some(b"{}"), false);
    }
    let (told, more) = changes.finish();
    assert_eq!(told[0].after, Some(json!({ "bytes": long.len() })));
    assert_eq!(told[1].before, Some(json!({ "bytes": 8 })));
    assert_eq!((told.len(), more), (MAX_CHANGES, 102 - MAX_CHANGES));
    // The longest record fits what receivers of syslog take by default.
    let mut draft = draft("x").saying("y".repeat(10_000));
    draft.changes = told;
    assert!(draft.after(None).text().len() < 8 << 10);
}

/// What who is refused can have written, and what a command can have changed: below syslog's 8 KiB, however it is escaped.
#[test]
fn no_record_is_longer_than_it_may_be() {
    for text in ["\u{1}", "\u{202e}", "\u{e0041}", "\"", "é", "x", "\u{1f600}"] {
        let long = text.repeat(20_000);
        let who = Who {
            name: long.clone(),
            role: long.clone(),
            proof: Proof::Certificate,
        };
        let whence = Whence {
            host: long.clone(),
            uid: Some(u32::MAX),
            address: Some(long.clone()),
        };
        let mut changes = Changes::default();
        for key in 0..3 * MAX_CHANGES {
            let key = format!("{key}{}", if key % 2 == 0 { long.as_str() } else { "" });
            changes.add(&key, Some(b"1"), Some(b"1"), false);
            let large = json!(text.repeat(300)).to_string();
            changes.add(&key, None, Some(large.as_bytes()), true);
        }
        let mut draft = Draft::new(who, whence, &long, &long, Outcome::Refused).saying(&long);
        (draft.of, draft.unix_ms) = (Some(MAX_SEQ), u64::MAX);
        let (told, more) = changes.finish();
        assert!(more > 0 && !told.is_empty());
        draft.changes = told;
        let head = head_of(&log(1)).map(|head| Head {
            seq: MAX_SEQ - 1,
            ..head
        });
        let draft = draft.adding(" (7 more)");
        let line = draft.clone().after(head.as_ref());
        let body = line.text().len() - 65;
        assert!(body <= MAX_BODY_BYTES && body > MAX_BODY_BYTES / 4, "{text:?}: {body}");
        assert!(line.record().text.ends_with(" (7 more)") && line.record().text.contains('…'));
        assert_eq!(line.record().changes, draft.changes, "they have their room");
        assert_eq!(Line::parse(&line.text()).unwrap(), line);
        // Changes that come in another way than by their list.
        let mut draft = draft;
        let key = long.clone();
        draft.changes.push(Change {
            key,
            before: None,
            after: None,
            perhaps: false,
        });
        let line = draft.after(head.as_ref());
        assert!(line.text().len() - 65 <= MAX_BODY_BYTES);
        assert!(
            line.record().text.ends_with("(1 changed keys are left out)"),
            "{}",
            line.record().text
        );
    }
}

/// What a terminal obeys stands in no line, and is what it was for who reads the JSON.
#[test]
fn nothing_in_a_line_is_obeyed() {
    let hostile = "a\u{9b}2J\u{7f}\u{202e}b\u{2028}\u{200b}\u{feff}\u{e0041}\u{1b}[2Jé😀";
    let mut draft = draft("volume.create").saying(hostile);
    draft.object = hostile.to_owned();
    let line = draft.after(None);
    let text = line.text();
    assert!(!text.chars().any(|c| c.is_control()), "{text:?}");
    assert_eq!(plain(&text), text);
    assert!(
        text.contains("a\\u009b2J\\u007f\\u202eb\\u2028\\u200b\\ufeff\\udb40\\udc41\\u001b[2Jé😀"),
        "{text}"
    );
    let read = Line::parse(&text).unwrap();
    assert!(read.is_sound());
    assert_eq!(
        (read.record().object.as_str(), read.record().text.as_str()),
        (hostile, hostile)
    );
    assert_eq!(inert("{\n \"a\": 1\n}"), "{\n \"a\": 1\n}");
    // What is wrong with a line is told without it.
    let wrong = forged(&text, |record| record["outcome"] = json!(hostile));
    let why = Line::parse(&wrong).unwrap_err().to_string();
    assert_eq!(plain(&why), why);
}

#[test]
fn what_strangers_cause_is_told_of_now_and_then() {
    let start = Instant::now();
    let limit = |most, pause_s| Limit {
        most,
        pause: Duration::from_secs(pause_s),
    };
    let mut allowances = Allowances::new(limit(2, 10), limit(100, 1), start);
    let mut take = |now| allowances.take("eve", now).map(|missed| missed.own);
    assert_eq!((take(start), take(start)), (Some(0), Some(0)));
    assert_eq!((take(start), take(start)), (None, None));
    allowances.miss("eve", 3, start);
    let mut take = |now| allowances.take("eve", now).map(|missed| missed.own);
    let later = start + Duration::from_secs(11);
    assert_eq!((take(later), take(later)), (Some(5), None));
    let much_later = start + Duration::from_secs(1000);
    assert_eq!((0..9).filter(|_| take(much_later).is_some()).count(), 2);
    assert_eq!(limit(2, 10).within(Duration::from_secs(95)), 11);
}

#[test]
fn who_makes_noise_hides_nobody_and_all_of_them_stay_within_bounds() {
    let start = Instant::now();
    let limit = |most, pause_s| Limit {
        most,
        pause: Duration::from_secs(pause_s),
    };
    let (each, all) = (limit(4, 600), limit(16, 60));
    let mut allowances = Allowances::new(each, all, start);
    let told = |allowances: &mut Allowances, source: &str, now, times| {
        (0..times).filter(|_| allowances.take(source, now).is_some()).count()
    };
    assert_eq!(told(&mut allowances, "noisy", start, 1000), 4);
    assert_eq!(
        allowances.take("quiet", start),
        Some(Missed { own: 0, others: 996 }),
        "another has none the less"
    );
    assert_eq!(
        allowances.take("noisy", start + each.pause),
        Some(Missed { own: 996, others: 0 }),
        "what was left out is its own"
    );
    // As many sources as there can be, for a long time.
    let mut allowances = Allowances::new(each, all, start);
    let mut count = 0;
    for second in (0..7200).step_by(10) {
        let now = start + Duration::from_secs(second);
        for source in 0..8 {
            count += told(&mut allowances, &format!("s{}", second * 8 + source), now, 2);
        }
    }
    let most = usize::try_from(all.within(Duration::from_secs(7200))).unwrap();
    assert!(count <= most && count > most / 2, "{count} of {most}");
    let addresses = [
        "192.0.2.1",
        "192.0.2.2",
        "2001:db8::1",
        "2001:db8::2:0:0:9",
        "2001:db8:0:1::1",
        "::ffff:192.0.2.1",
    ];
    let networks = addresses.map(|address| network(address.parse().unwrap()).to_string());
    assert_eq!(
        networks,
        [
            "192.0.2.1",
            "192.0.2.2",
            "2001:db8::",
            "2001:db8::",
            "2001:db8:0:1::",
            "192.0.2.1"
        ]
    );
}

/// So many that they use up what all have together: what they leave no room for is told by what is told of them.
#[test]
fn what_a_few_leave_no_room_for_is_counted_in_what_is_told_of_them() {
    let start = Instant::now();
    let limit = |most, pause_s| Limit {
        most,
        pause: Duration::from_secs(pause_s),
    };
    let mut allowances = Allowances::new(limit(2, 600), limit(4, 200), start);
    for noisy in ["a", "b", "c", "d"] {
        while allowances.take(noisy, start).is_some() {}
    }
    assert_eq!((0..7).filter_map(|_| allowances.take("quiet", start)).count(), 0);
    let later = start + Duration::from_secs(600);
    let told = allowances.take("a", later).unwrap();
    // One each of b, c and d, and the quiet one's.
    assert_eq!(told, Missed { own: 1, others: 10 });
    assert_eq!(
        told.text(),
        " (1 more of theirs were refused since the last such record; 10 refusals of others are in no record so far)"
    );
    assert_eq!(Missed::default().text(), "");
    // Those who have no allowance of their own are nobody's.
    let mut allowances = Allowances::new(limit(2, 600), limit(u32::MAX, 1), start);
    let mut others = 0;
    for source in 0..5000 {
        while allowances.take(&source.to_string(), start).is_some() {}
        others += 1;
    }
    allowances.miss("", 3, start);
    let told = allowances.take("9999", start + Duration::from_secs(600)).unwrap();
    assert_eq!(
        told,
        Missed {
            own: 0,
            others: others + 3
        }
    );
}

proptest! {
    /// One byte of one record is another one: the log is not sound any more, and nothing panics.
    #[test]
    fn any_changed_byte_is_found(record in 0..4usize, at in any::<prop::sample::Index>(), with in 0x20..0x7fu8) {
        let mut log = log(4);
        let head = head_of(&log);
        let mut bytes = log[record].1.clone().into_bytes();
        let at = at.index(bytes.len());
        prop_assume!(bytes[at] != with);
        bytes[at] = with;
        log[record].1 = String::from_utf8(bytes).unwrap();
        prop_assert!(verify(&log, head).is_err());
    }

    #[test]
    fn no_text_panics(text in "([0-9a-f]{64} )?[ -~]{0,80}") {
        let _ = Line::parse(&text);
        let _ = text.parse::<Head>();
    }
}
