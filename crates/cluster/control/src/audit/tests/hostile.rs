//! What whoever writes keys puts into the log's: it stops nobody, and nothing goes for it.

use super::*;
use amita_audit::Hash;

const NODE: &str = "node 1";

/// One record that is none, and nothing else.
#[test]
fn one_record_that_cannot_be_read_stops_no_command() {
    let server = filled(3);
    let meta = &server.client;
    write(meta, Op::DeletePrefix { key: prefix() });
    write(meta, put(record_key(1), b"x".to_vec()));
    assert_eq!(append(meta, &draft("v2")).unwrap().seq, 2);
    assert_eq!(append(meta, &draft("v3")).unwrap().seq, 3);
    let text = Line::parse(&text_of(meta, 2)).unwrap().record().text.clone();
    assert!(!text.is_empty(), "it says how its place was found");
    assert!(matches!(fault(meta, &[]), Fault::Unreadable { seq: 1, .. }));
    // At the place that is numbered zero.
    write(meta, Op::DeletePrefix { key: prefix() });
    write(meta, put(record_key(0), b"x".to_vec()));
    assert_eq!(append(meta, &draft("on")).unwrap().seq, 1);
}

/// Where the end is looked for, somebody has made sure that it is not found so.
#[test]
fn whoever_lays_records_where_the_end_is_looked_for_stops_no_command() {
    let server = filled(3);
    let meta = &server.client;
    write(meta, Op::Delete { key: head_key() });
    // Each step from the third on, and the highest places.
    for power in 0..40 {
        let place = 3 + (1_u64 << power);
        if place <= MAX_SEQ {
            write(meta, put(record_key(place), b"x".to_vec()));
        }
    }
    for place in MAX_SEQ - 3..=MAX_SEQ {
        write(meta, put(record_key(place), b"x".to_vec()));
    }
    let found = append(meta, &draft("on")).unwrap().seq;
    assert!(found > 3 && found <= MAX_SEQ);
    assert_eq!(append(meta, &draft("on")).unwrap().seq, found + 1);
    assert!(verify(meta, &[]).is_err());
}

/// A log that was trimmed goes on behind its end, by what any of the two marks says or by what is there.
#[test]
fn a_trimmed_log_whose_marks_are_gone_goes_on_behind_its_end() {
    let server = filled(260);
    let meta = &server.client;
    trim(meta, &who(NODE), keeping(20, u64::MAX)).unwrap();
    let last = bounds(meta).unwrap().head.unwrap().seq;
    write(meta, Op::Delete { key: head_key() });
    assert_eq!(append(meta, &draft("on")).unwrap().seq, last + 1);
    for key in [head_key(), trimmed_key()] {
        write(meta, Op::Delete { key });
    }
    assert!(matches!(fault(meta, &[]), Fault::NoHead { .. }), "it is not empty");
    assert_eq!(append(meta, &draft("on")).unwrap().seq, last + 2);
    assert!(verify(meta, &[]).is_err());
}

/// More than a client takes as one answer.
#[test]
fn values_that_are_too_large_for_one_answer_stop_nobody() {
    let server = filled(3);
    let meta = &server.client;
    let large = vec![b'x'; 1_000_000];
    for place in 4..=300 {
        write(meta, put(record_key(place), large.clone()));
    }
    assert!(
        meta.txn(&Call::prefix(super::super::records())).is_err(),
        "it is too much"
    );
    write(meta, Op::Delete { key: head_key() });
    assert_eq!(append(meta, &draft("on")).unwrap().seq, 301);
    assert!(matches!(fault(meta, &[]), Fault::Unreadable { seq: 4, .. }));
    let mut places = 0;
    for_each::<Error>(meta, 1, |_, _| {
        places += 1;
        Ok(())
    })
    .unwrap();
    assert_eq!(places, 301);
    assert!(matches!(
        trim(meta, &who(NODE), keeping(20, u64::MAX)),
        Err(Unsound::Fault(Fault::Unreadable { seq: 4, .. }))
    ));
}

/// A head that names a record far away, one that another has, and one behind a gap: it is no reason to take anything away.
#[test]
fn a_false_head_has_no_record_trimmed() {
    let server = filled(120);
    let meta = &server.client;
    let true_head = bounds(meta).unwrap().head.unwrap();
    let keeps = keeping(60, u64::MAX);
    let whole = || super::records(meta).iter().filter(|record| record.seq <= 120).count();
    let far = 500_000_000_000;
    for (seq, hash) in [(far, true_head.hash), (120, Hash::of("x")), (121, true_head.hash)] {
        write(meta, put(head_key(), json(&Head { seq, hash })));
        assert!(matches!(trim(meta, &who(NODE), keeps), Err(Unsound::Fault(_))), "{seq}");
        assert_eq!(whole(), 120);
    }
    // One that was believed would make the log begin again far away.
    write(
        meta,
        put(
            head_key(),
            json(&Head {
                seq: far,
                hash: true_head.hash,
            }),
        ),
    );
    let on = append(meta, &draft("on")).unwrap();
    assert_eq!(on.seq, 121);
    // One whose record is there as well.
    let false_head = Head {
        seq: far,
        hash: true_head.hash,
    };
    let line = draft("far").after(Some(&false_head));
    write(meta, put(record_key(far + 1), line.text().into_bytes()));
    write(meta, put(head_key(), json(&line.head())));
    assert!(matches!(trim(meta, &who(NODE), keeps), Err(Unsound::Fault(_))));
    assert_eq!(whole(), 120);
    // A mark behind everything.
    write(meta, put(trimmed_key(), json(&line.head())));
    write(meta, put(head_key(), json(&on)));
    assert!(matches!(trim(meta, &who(NODE), keeps), Err(Unsound::Fault(_))));
    // Nothing more is wrong up to the head.
    write(meta, Op::Delete { key: trimmed_key() });
    assert_eq!(trim(meta, &who(NODE), keeps), Ok(61));
}

/// Records with long names are fewer before they go: what is kept has its place in the reserve of a server that is full.
#[test]
fn a_log_of_long_records_is_trimmed_by_its_bytes() {
    let server = server();
    let meta = &server.client;
    for _ in 0..150 {
        append(meta, &draft(&"v".repeat(500)).saying("w".repeat(1000))).unwrap();
    }
    let keeps = keeping(100_000, 64 << 10);
    let gone = trim(meta, &who(NODE), keeps).unwrap();
    assert!(gone > 90, "{gone}");
    let found = super::super::verify(meta, &[], keeps).unwrap();
    let mut bytes = 0;
    for_each::<Error>(meta, 1, |_, text| {
        bytes += Line::parse(text).unwrap().kept_bytes();
        Ok(())
    })
    .unwrap();
    assert!(((64 << 10)..(80 << 10)).contains(&bytes), "{bytes} of {found:?}");
    assert_eq!(trim(meta, &who(NODE), keeps), Ok(0));
    // A record's key, its hash and what a server counts beside it.
    let around = 128 + record_key(1).len() as u64 + 65;
    let most = RETENTION.bytes + RETENTION.records * around;
    assert!(most < server::RESERVE_BYTES * 7 / 8, "{most}");
}
