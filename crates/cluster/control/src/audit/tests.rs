//! The log in the metadata, with the embedded server.

use super::*;
use amita_audit::{Record, TRIM, trimmed};
use amita_identity::{Name, OperatorRole};
use amita_metadata::server::{self, Config, Handle};
use amita_metadata::{Client, OpReply};
use amita_types::ClusterId;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

mod hostile;

/// The embedded server with a file of its own, and a client. They end in this order.
pub(crate) struct Server {
    pub(crate) client: Client,
    _handle: Handle,
    _folder: tempfile::TempDir,
}

pub(crate) fn server() -> Server {
    server_of(server::DEFAULT_QUOTA_BYTES)
}

/// One that holds so many bytes.
pub(crate) fn server_of(quota_bytes: u64) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let config = Config {
        quota_bytes,
        reserved: crate::access::making_room(),
        ..Config::new("127.0.0.1:0".parse().unwrap(), folder.path().join("meta"))
    };
    let handle = server::start(config).unwrap();
    Server {
        client: Client::connect(&[handle.address().to_string()]).unwrap(),
        _handle: handle,
        _folder: folder,
    }
}

pub(crate) fn records(meta: &dyn Transact) -> Vec<Record> {
    let mut found = Vec::new();
    for_each::<Error>(meta, 0, |_, text| {
        found.push(Line::parse(text).unwrap().record().clone());
        Ok(())
    })
    .unwrap();
    found
}

fn who(name: &str) -> Who {
    Who {
        name: name.to_owned(),
        role: "admin".to_owned(),
        proof: Proof::None,
    }
}

fn draft(object: &str) -> Draft {
    Draft::new(who("eve"), Whence::default(), "volume.create", object, Outcome::Done)
}

/// Puts what there is room for, to the last bytes.
pub(crate) fn fill(meta: &dyn Transact) {
    for (name, bytes) in [("large", 100 << 10), ("small", 1 << 10), ("tiny", 1)] {
        let put = |number: &u32| meta.txn(&Call::put(format!("/fill/{name}/{number}"), vec![7; bytes]));
        assert!((0..10_000).any(|number| put(&number).is_err()), "there is an end");
    }
}

/// A log of so many records.
fn filled(records: u64) -> Server {
    let server = server();
    for number in 1..=records {
        let head = append(&server.client, &draft(&format!("v{number}"))).unwrap();
        assert_eq!(head.seq, number);
    }
    server
}

/// Writes a log of so many records, not as commands do it but at once.
pub(crate) fn filled_to(meta: &dyn Transact, records: u64) -> Head {
    let mut head: Option<Head> = None;
    while head.map_or(1, |head| head.next()) <= records {
        let mut then = Vec::new();
        for seq in (head.map_or(1, |head| head.next())..=records).take(100) {
            let line = draft(&format!("v{seq}")).after(head.as_ref());
            head = Some(line.head());
            then.push(put(record_key(seq), line.text().into_bytes()));
        }
        then.extend(head.map(|head| put(head_key(), json(&head))));
        let reply = meta
            .txn(&Call {
                then,
                ..Call::default()
            })
            .unwrap();
        assert!(reply.results.iter().all(|result| *result == OpReply::Put));
    }
    head.unwrap()
}

fn write(meta: &dyn Transact, op: Op) {
    let then = vec![op];
    meta.txn(&Call {
        then,
        ..Call::default()
    })
    .unwrap();
}

fn text_of(meta: &dyn Transact, seq: u64) -> String {
    let reply = meta.txn(&Call::get(record_key(seq))).unwrap();
    String::from_utf8(reply.value(0).unwrap().value.clone()).unwrap()
}

/// As whoever has read how the chain is made would do it.
fn forge(meta: &dyn Transact, seq: u64, object: &str) {
    let line = Line::parse(&text_of(meta, seq)).unwrap();
    let record = line.record().clone();
    let mut draft = draft(object);
    (draft.unix_ms, draft.who) = (record.unix_ms, record.who);
    let before = (seq > 1).then_some(Head {
        seq: seq - 1,
        hash: record.prev,
    });
    let forged = draft.after(before.as_ref());
    write(meta, put(record_key(seq), forged.text().into_bytes()));
}

/// Of a log that keeps so little as the one of these tests.
fn verify(meta: &dyn Transact, known: &[Head]) -> Result<Summary, Unsound> {
    super::verify(meta, known, keeping(0, 0))
}

fn keeping(records: u64, bytes: u64) -> Retention {
    Retention { records, bytes }
}

fn fault(meta: &dyn Transact, known: &[Head]) -> Fault {
    match verify(meta, known) {
        Err(Unsound::Fault(fault)) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn records_follow_each_other_and_the_log_is_sound() {
    let server = filled(3);
    let found = verify(&server.client, &[]).unwrap();
    assert_eq!((found.records, found.first, found.head.unwrap().seq), (3, 1, 3));
    assert_eq!(bounds(&server.client).unwrap().head, found.head);
    let objects: Vec<_> = records(&server.client)
        .into_iter()
        .map(|record| record.object)
        .collect();
    assert_eq!(objects, ["v1", "v2", "v3"]);
    let empty = super::tests::server();
    assert_eq!(verify(&empty.client, &[]).unwrap().records, 0);
}

#[test]
fn two_at_once_do_not_fork_the_log() {
    let server = server();
    std::thread::scope(|scope| {
        for name in ["a", "b", "c", "d"] {
            let client = server.client.clone();
            scope.spawn(move || {
                for number in 0..25 {
                    append(&client, &draft(&format!("{name}{number}"))).unwrap();
                }
            });
        }
    });
    let found = verify(&server.client, &[]).unwrap();
    assert_eq!(found.records, 100);
    let mut objects: Vec<_> = records(&server.client)
        .into_iter()
        .map(|record| record.object)
        .collect();
    objects.sort();
    objects.dedup();
    assert_eq!(objects.len(), 100, "each record is there once");
}

#[test]
fn what_was_done_to_the_log_is_found_and_named() {
    let server = filled(6);
    let meta = &server.client;
    let sound = verify(meta, &[]).unwrap().head.unwrap();
    let texts: Vec<String> = (1..=6).map(|seq| text_of(meta, seq)).collect();
    let restore = || {
        for (seq, text) in (1..).zip(&texts) {
            write(meta, put(record_key(seq), text.clone().into_bytes()));
        }
        write(meta, put(head_key(), json(&sound)));
        verify(meta, &[sound]).unwrap();
    };
    // A field.
    write(meta, put(record_key(3), texts[2].replace("v3", "v9").into_bytes()));
    assert_eq!(fault(meta, &[]), Fault::Changed { seq: 3 });
    restore();
    // A field, and the hash anew.
    forge(meta, 3, "v9");
    assert_eq!(fault(meta, &[]), Fault::Exchanged { seq: 3 });
    restore();
    forge(meta, 6, "v9");
    assert_eq!(fault(meta, &[]), Fault::HeadDiffers { seq: 6 });
    restore();
    // A record, in the middle and at both ends.
    for (seq, found) in [
        (4, Fault::LeftOut { from: 4, to: 4 }),
        (1, Fault::LeftOut { from: 1, to: 1 }),
        (6, Fault::CutOff { last: 5, head: 6 }),
    ] {
        write(meta, Op::Delete { key: record_key(seq) });
        assert_eq!(fault(meta, &[]), found);
        restore();
    }
    // The order.
    write(meta, put(record_key(2), texts[4].clone().into_bytes()));
    write(meta, put(record_key(5), texts[1].clone().into_bytes()));
    assert_eq!(fault(meta, &[]), Fault::Moved { place: 2, says: 5 });
    restore();
    // The end, with the head: only who knows a later record sees it.
    write(meta, Op::Delete { key: record_key(6) });
    let five = Line::parse(&texts[4]).unwrap().head();
    write(meta, put(head_key(), json(&five)));
    assert_eq!(verify(meta, &[]).unwrap().records, 5);
    assert_eq!(fault(meta, &[sound]), Fault::CutOff { last: 5, head: 6 });
    restore();
    // Everything from a record on, computed anew.
    write(meta, put(head_key(), json(&Line::parse(&texts[3]).unwrap().head())));
    for seq in [5, 6] {
        write(meta, Op::Delete { key: record_key(seq) });
    }
    for object in ["x5", "x6", "x7"] {
        append(meta, &draft(object)).unwrap();
    }
    assert_eq!(verify(meta, &[]).unwrap().records, 7);
    assert_eq!(fault(meta, &[sound]).seq(), 6);
    // The head alone.
    write(meta, put(head_key(), json(&sound)));
    assert!(
        matches!(fault(meta, &[]), Fault::SetBack { head: 6 }),
        "there is a seventh"
    );
}

#[test]
fn who_takes_the_head_away_does_not_stop_anybody_and_is_seen() {
    let server = filled(4);
    let meta = &server.client;
    write(meta, Op::Delete { key: head_key() });
    assert_eq!(append(meta, &draft("v5")).unwrap().seq, 5);
    let last = records(meta).pop().unwrap();
    assert!(last.text.contains("head was missing"), "{last:?}");
    // Set back, and damaged.
    let first = Line::parse(&text_of(meta, 1)).unwrap().head();
    write(meta, put(head_key(), json(&first)));
    assert_eq!(append(meta, &draft("v6")).unwrap().seq, 6);
    write(meta, put(head_key(), b"?".to_vec()));
    assert_eq!(append(meta, &draft("v7")).unwrap().seq, 7);
    assert_eq!(verify(meta, &[]).unwrap().records, 7);
}

/// Whoever writes keys chooses numbers on which additions break, and puts something where the next record goes.
#[test]
fn who_writes_any_number_into_the_log_stops_nobody() {
    let server = filled(3);
    let meta = &server.client;
    let hash = bounds(meta).unwrap().head.unwrap().hash;
    for (round, seq) in [u64::MAX, u64::MAX - 1, MAX_SEQ + 1, MAX_SEQ, 0]
        .into_iter()
        .enumerate()
    {
        let far = serde_json::json!({ "seq": seq, "hash": hash }).to_string().into_bytes();
        write(meta, put(head_key(), far.clone()));
        assert_eq!(append(meta, &draft("on")).unwrap().seq, 4 + round as u64, "{seq}");
        assert_eq!(verify(meta, &[]).unwrap().records, 4 + round as u64);
        write(meta, put(trimmed_key(), far));
        assert_ne!(trim(meta, &who("node 1"), keeping(1000, u64::MAX)), Ok(1), "{seq}");
        let _ = verify(meta, &[]);
        write(meta, Op::Delete { key: trimmed_key() });
    }
    let last = append(meta, &draft("on")).unwrap().seq;
    for place in [last + 1, MAX_SEQ - 1, MAX_SEQ] {
        write(meta, put(record_key(place), b"?".to_vec()));
    }
    for key in [
        format!("{}{}", super::records(), u64::MAX),
        format!("{}7", super::records()),
    ] {
        write(meta, put(key, b"?".to_vec()));
    }
    assert_eq!(append(meta, &draft("on")).unwrap().seq, last + 2);
    assert_eq!(fault(meta, &[]).seq(), last + 1);
}

#[test]
fn old_records_are_trimmed_and_the_rest_is_sound() {
    let server = filled(260);
    let meta = &server.client;
    let all = verify(meta, &[]).unwrap().head.unwrap();
    assert_eq!(trim(meta, &who("node 1"), keeping(1000, u64::MAX)).unwrap(), 0);
    let gone = trim(meta, &who("node 1"), keeping(50, u64::MAX)).unwrap();
    let found = super::verify(meta, &[all], keeping(50, u64::MAX)).unwrap();
    assert!((50..=53).contains(&found.records), "{found:?}");
    assert_eq!(found.first, gone + 1);
    let kept = records(meta);
    assert_eq!(kept[0].seq, found.first);
    assert_eq!(kept.last().unwrap().action, TRIM);
    append(meta, &draft("later")).unwrap();
    verify(meta, &[all]).unwrap();
    // Who moves the mark to hide some more is seen.
    let ten = Line::parse(&text_of(meta, found.first + 10)).unwrap().head();
    for seq in found.first..=ten.seq {
        write(meta, Op::Delete { key: record_key(seq) });
    }
    write(meta, put(trimmed_key(), json(&ten)));
    assert_eq!(fault(meta, &[]), Fault::Trimmed { first: ten.seq + 1 });
    // Who tells that as a trim as well is seen by what was left of the log.
    let mut told = draft(&trimmed(&ten));
    told.action = TRIM.to_owned();
    let told = append(meta, &told).unwrap().seq;
    verify(meta, &[]).unwrap();
    let first = ten.seq + 1;
    match super::verify(meta, &[], RETENTION) {
        Err(Unsound::Fault(fault)) => assert_eq!(fault, Fault::TrimmedEarly { first, trim: told }),
        other => panic!("{other:?}"),
    }
    // What is wrong is not trimmed: it is evidence.
    forge(meta, ten.seq + 1, "x");
    let kept = trim(meta, &who("node 1"), keeping(10, u64::MAX));
    assert!(matches!(kept, Err(Unsound::Fault(_))), "{kept:?}");
    assert!(verify(meta, &[]).is_err());
}

/// Trims the log between two questions.
struct Trimming<'a> {
    meta: &'a dyn Transact,
    questions: AtomicU64,
}

impl Transact for Trimming<'_> {
    fn txn(&self, call: &Call) -> Result<amita_metadata::Reply, Error> {
        if self.questions.fetch_add(1, Ordering::Relaxed) == 1 {
            trim(self.meta, &who("node 1"), keeping(20, u64::MAX)).unwrap();
        }
        self.meta.txn(call)
    }
}

#[test]
fn a_trim_while_it_is_gone_through_is_no_fault() {
    let server = filled(60);
    let meta = Trimming {
        meta: &server.client,
        questions: AtomicU64::new(0),
    };
    let found = super::verify(&meta, &[], keeping(20, u64::MAX)).unwrap();
    assert!(found.first > 1 && found.records >= 20, "{found:?}");
}

#[test]
fn a_log_that_fills_the_metadata_is_trimmed_none_the_less() {
    let server = server_of(1 << 20);
    let meta = &server.client;
    fill(meta);
    for number in 0..30 {
        append(meta, &draft(&format!("v{number}"))).unwrap();
    }
    assert!(trim(meta, &who("node 1"), keeping(5, u64::MAX)).unwrap() >= 20);
    super::verify(meta, &[], keeping(5, u64::MAX)).unwrap();
}

/// Loses the answer to one change, after it was made.
pub(crate) struct Forgetful<'a> {
    pub(crate) meta: &'a dyn Transact,
    pub(crate) armed: AtomicBool,
    /// Is the change made at all?
    pub(crate) makes: bool,
}

impl Transact for Forgetful<'_> {
    fn txn(&self, call: &Call) -> Result<amita_metadata::Reply, Error> {
        if call.is_read_only() || !self.armed.swap(false, Ordering::Relaxed) {
            return self.meta.txn(call);
        }
        if self.makes {
            self.meta.txn(call)?;
        }
        Err(Error::Unknown {
            what: "the answer was lost".to_owned(),
            endpoint: String::new(),
        })
    }
}

#[test]
fn a_record_whose_answer_was_lost_is_there_once() {
    for makes in [true, false] {
        let server = filled(1);
        let meta = Forgetful {
            meta: &server.client,
            armed: AtomicBool::new(true),
            makes,
        };
        assert_eq!(append(&meta, &draft("v2")).unwrap().seq, 2);
        assert_eq!(verify(&server.client, &[]).unwrap().records, 2, "made: {makes}");
    }
}

#[test]
fn a_refusal_by_the_server_is_told_in_the_name_of_who_was_refused() {
    let peer = |name: &str| Peer::from(Name::operator(ClusterId(1), OperatorRole::Viewer, name).unwrap());
    let source: IpAddr = [192, 0, 2, 1].into();
    let call = Call::put("/amita/volumes/v", "{}");
    let told = refused(&peer("eve"), source, Some(&call), "a change");
    assert_eq!(
        (told.action.as_str(), told.object.as_str()),
        ("metadata.access", "/amita/volumes/v")
    );
    assert_eq!((told.who.role.as_str(), told.outcome), ("viewer", Outcome::Refused));
    assert_eq!(told.whence.address.as_deref(), Some("192.0.2.1"));
    // What their own command wanted to write of its refusal is taken over: it knows the action.
    let own = |name: &str, outcome| {
        let mut own = draft("disk0");
        (own.who.name, own.outcome) = (peer(name).name, outcome);
        Place {
            head: None,
            revision: 0,
            found: false,
        }
        .call(&own.after(None), Vec::new(), None)
    };
    let told = refused(&peer("eve"), source, Some(&own("eve", Outcome::Refused)), "a change");
    assert_eq!((told.action.as_str(), told.object.as_str()), ("volume.create", "disk0"));
    let mut upkeep = own("eve", Outcome::Refused);
    let mut trim = draft(&format!("{}:{}", u64::MAX, "00".repeat(32)));
    (trim.action, trim.who.name, trim.outcome) = (TRIM.to_owned(), peer("eve").name, Outcome::Refused);
    upkeep.then[0] = put(record_key(1), trim.after(None).text().into_bytes());
    let told = refused(&peer("eve"), source, Some(&upkeep), "a change");
    assert_eq!(
        told.action, "metadata.access",
        "the log's own upkeep is nobody's command"
    );
    // Not what is in another's name, nor what would be no refusal.
    for call in [own("ada", Outcome::Refused), own("eve", Outcome::Done)] {
        let told = refused(&peer("eve"), source, Some(&call), "a change");
        assert_eq!(
            (told.action.as_str(), told.who.name.as_str()),
            ("metadata.access", peer("eve").name.as_str())
        );
    }
}

#[test]
fn a_large_log_is_read_in_pages() {
    let server = server();
    let meta = &server.client;
    let head = filled_to(meta, 2500);
    assert_eq!(verify(meta, &[]).unwrap().records, 2500);
    let mut places = Vec::new();
    for_each::<Error>(meta, 1990, |place, _| {
        places.push(place);
        Ok(())
    })
    .unwrap();
    assert_eq!((places[0], places.len()), (1990, 511));
    // A head that says anything does not have us look for ever.
    let far = Head {
        seq: 999_999_999_999,
        ..head
    };
    write(meta, put(head_key(), json(&far)));
    assert!(matches!(fault(meta, &[]), Fault::CutOff { last: 2500, .. }));
    // Nor does one that says nothing, or is gone, make the log end where we happen to stop.
    let impossible = Head {
        seq: u64::MAX / 2,
        ..far
    };
    for op in [
        put(head_key(), json(&impossible)),
        put(head_key(), b"{".to_vec()),
        Op::Delete { key: head_key() },
    ] {
        write(meta, op);
        assert!(matches!(fault(meta, &[]), Fault::NoHead { .. }));
    }
}
