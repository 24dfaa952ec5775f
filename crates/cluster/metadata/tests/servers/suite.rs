//! One suite for the embedded server, plainly and by TLS, and a real etcd: what Amita relies on, both must do.

use crate::common::{Kind, Server};
use amita_metadata::{Batch, Call, Client, Compare, Error, Event, LeaseId, Op, OpReply, Refusal, Waited, Watch};
use std::time::{Duration, Instant};

macro_rules! both {
    ($($name:ident),* $(,)?) => {
        mod embedded { $(#[test] fn $name() { super::$name(super::Kind::Embedded) })* }
        mod secure { $(#[test] fn $name() { super::$name(super::Kind::Secure) })* }
        mod etcd { $(#[test] fn $name() { super::$name(super::Kind::Etcd) })* }
    };
}

both!(
    ranges_and_prefixes,
    compare_and_set_and_lost_races,
    refusals_say_why,
    leases_expire_and_take_their_keys,
    keepalive_holds_a_lease,
    a_watch_sees_every_change_in_order_and_resumes,
    a_watch_outlives_a_restart,
    an_unbroken_watch_ends_with_its_stream,
    an_unbroken_watch_begins_by_no_other_connection,
    restart_keeps_keys_revisions_and_leases,
    an_outage_is_told_and_passes,
    compacted_history_is_a_clear_error,
    eight_threads_count_by_compare_and_set,
);

fn put(client: &Client, key: &str, value: &str) -> u64 {
    client.txn(&Call::put(key, value)).unwrap().revision
}

fn value(client: &Client, key: &str) -> Option<String> {
    let reply = client.txn(&Call::get(key)).unwrap();
    reply
        .value(0)
        .map(|value| String::from_utf8(value.value.clone()).unwrap())
}

fn leased(key: &str, lease: LeaseId) -> Call {
    let op = Op::Put {
        key: key.into(),
        value: b"alive".to_vec(),
        lease: Some(lease),
    };
    Call {
        then: vec![op],
        ..Call::default()
    }
}

/// Events until there are `count`, in the order and the batches in which they came.
fn events(watch: &mut Watch, count: usize) -> Vec<Event> {
    let mut events = Vec::new();
    while events.len() < count {
        match watch.wait(Duration::from_secs(20)) {
            Waited::Item(Ok(Batch { events: more, revision })) => {
                assert_eq!(more.last().unwrap().revision(), revision);
                events.extend(more);
            }
            other => panic!("{other:?} after {} of {count} events", events.len()),
        }
    }
    assert_eq!(events.len(), count);
    events
}

fn ranges_and_prefixes(kind: Kind) {
    let server = Server::start(kind);
    let client = server.client();
    let first = put(&client, "/a/1", "one");
    put(&client, "/a/2", "two");
    put(&client, "/a/", "bare");
    put(&client, "/a0", "beyond");
    put(&client, "/b/1", "other");
    let last = put(&client, "/a/1", "uno");
    let reply = client.txn(&Call::prefix("/a/")).unwrap();
    assert!(reply.succeeded && reply.revision == last);
    let keys: Vec<&str> = reply.values(0).iter().map(|value| value.key.as_str()).collect();
    assert_eq!(keys, ["/a/", "/a/1", "/a/2"]);
    let one = &reply.values(0)[1];
    assert_eq!(
        (one.create_revision, one.mod_revision, one.version, one.lease),
        (first, last, 2, None)
    );
    assert_eq!(client.txn(&Call::prefix("")).unwrap().values(0).len(), 5);
    assert!(client.txn(&Call::get("/a")).unwrap().values(0).is_empty());

    let call = Call {
        then: vec![
            Op::DeletePrefix { key: "/a/".into() },
            Op::Get { key: "/a/1".into() },
            Op::Put {
                key: "/c".into(),
                value: vec![0, 255],
                lease: None,
            },
            Op::Get { key: "/c".into() },
            Op::Delete { key: "/none".into() },
        ],
        ..Call::default()
    };
    let reply = client.txn(&call).unwrap();
    assert_eq!(reply.revision, last + 1);
    assert_eq!(reply.results[0], OpReply::Deleted(3));
    assert_eq!(reply.results[1], OpReply::Values(vec![]));
    assert_eq!(reply.value(3).unwrap().value, [0, 255]);
    assert_eq!(reply.results[4], OpReply::Deleted(0));
    assert_eq!(
        client.txn(&Call::get("/c")).unwrap().revision,
        last + 1,
        "reads change nothing"
    );
}

fn compare_and_set_and_lost_races(kind: Kind) {
    let server = Server::start(kind);
    let (ours, theirs) = (server.client(), server.client());
    assert!(ours.txn(&Call::put_if("/k", 0, "ours")).unwrap().succeeded);
    let lost = theirs.txn(&Call::put_if("/k", 0, "theirs")).unwrap();
    assert!(!lost.succeeded, "created once only");
    let found = lost.value(0).unwrap().clone();
    assert_eq!(found.value, b"ours");
    assert!(
        theirs
            .txn(&Call::put_if("/k", found.mod_revision, "theirs"))
            .unwrap()
            .succeeded
    );
    assert!(
        !ours
            .txn(&Call::put_if("/k", found.mod_revision, "again"))
            .unwrap()
            .succeeded
    );
    assert_eq!(value(&ours, "/k").as_deref(), Some("theirs"));

    for (compare, holds) in [
        (
            Compare::Value {
                key: "/k".into(),
                equals: b"theirs".to_vec(),
            },
            true,
        ),
        (
            Compare::Value {
                key: "/k".into(),
                equals: b"ours".to_vec(),
            },
            false,
        ),
        (
            Compare::Value {
                key: "/none".into(),
                equals: vec![],
            },
            false,
        ),
        (
            Compare::CreateRevision {
                key: "/k".into(),
                equals: found.create_revision,
            },
            true,
        ),
        (
            Compare::CreateRevision {
                key: "/none".into(),
                equals: 0,
            },
            true,
        ),
        (
            Compare::Version {
                key: "/k".into(),
                equals: 2,
            },
            true,
        ),
        (
            Compare::ModRevision {
                key: "/none".into(),
                equals: 0,
            },
            true,
        ),
        (
            Compare::ModRevision {
                key: "/k".into(),
                equals: 0,
            },
            false,
        ),
    ] {
        let call = Call {
            compares: vec![compare.clone()],
            ..Call::default()
        };
        assert_eq!(ours.txn(&call).unwrap().succeeded, holds, "{compare:?}");
    }
    // All or nothing: one compare that fails spoils both writes.
    let both = Call {
        compares: vec![
            Compare::ModRevision {
                key: "/new".into(),
                equals: 0,
            },
            Compare::ModRevision {
                key: "/k".into(),
                equals: 1,
            },
        ],
        then: vec![
            Op::Put {
                key: "/new".into(),
                value: vec![],
                lease: None,
            },
            Op::Put {
                key: "/k".into(),
                value: vec![],
                lease: None,
            },
        ],
        otherwise: vec![],
    };
    assert!(!ours.txn(&both).unwrap().succeeded);
    assert_eq!(value(&ours, "/new"), None);
}

fn refusals_say_why(kind: Kind) {
    let server = Server::start(kind);
    let client = server.client();
    let before = put(&client, "/a", "1");
    let gone = LeaseId(0x7777);
    assert_eq!(
        client.txn(&leased("/b", gone)),
        Err(Refusal::LeaseNotFound(gone).into())
    );
    assert_eq!(client.lease_keepalive(gone), Err(Refusal::LeaseNotFound(gone).into()));
    assert_eq!(client.lease_revoke(gone), Err(Refusal::LeaseNotFound(gone).into()));
    assert_eq!(
        client.lease_time_to_live(gone),
        Err(Refusal::LeaseNotFound(gone).into())
    );
    assert!(matches!(
        client.lease_grant(0),
        Err(Error::Refused {
            reason: Refusal::BadTtl { .. }
        })
    ));
    assert!(matches!(client.compact(before + 9), Err(Error::Refused { .. })));
    let put_op = |key: &str| Op::Put {
        key: key.into(),
        value: vec![],
        lease: None,
    };
    let twice = Call {
        then: vec![put_op("/b"), put_op("/b")],
        ..Call::default()
    };
    assert!(matches!(
        client.txn(&twice),
        Err(Error::Refused {
            reason: Refusal::DuplicateKey { .. }
        })
    ));
    let many = Call {
        then: (0..129).map(|i| put_op(&format!("/m{i}"))).collect(),
        ..Call::default()
    };
    assert!(matches!(
        client.txn(&many),
        Err(Error::Refused {
            reason: Refusal::TooManyOps { .. }
        })
    ));
    let most = Call {
        then: (0..128).map(|i| put_op(&format!("/m{i}"))).collect(),
        ..Call::default()
    };
    assert!(client.txn(&most).is_ok(), "what is allowed is served");
    let large = vec![7; amita_metadata::MAX_CALL_BYTES - 10];
    assert!(
        client.txn(&Call::put("/l", large.clone())).is_ok(),
        "what is allowed is served"
    );
    assert_eq!(client.txn(&Call::get("/l")).unwrap().value(0).unwrap().value, large);
}

fn leases_expire_and_take_their_keys(kind: Kind) {
    let server = Server::start(kind);
    let client = server.client();
    let lease = client.lease_grant(1).unwrap();
    assert!((1..=3).contains(&lease.ttl_s));
    let other = client.lease_grant(60).unwrap();
    assert_ne!(lease.id, other.id);
    let put_at = client.txn(&leased("/live/1", lease.id)).unwrap().revision;
    client.txn(&leased("/live/2", other.id)).unwrap();
    client.txn(&leased("/live/3", lease.id)).unwrap();
    put(&client, "/live/3", "freed from its lease");
    let read = client.txn(&Call::get("/live/1")).unwrap();
    assert_eq!(read.value(0).unwrap().lease, Some(lease.id));

    let mut watch = client.watch("/live/1", put_at + 1);
    let gone = events(&mut watch, 1);
    assert!(
        matches!(&gone[0], Event::Delete { key, .. } if key == "/live/1"),
        "{gone:?}"
    );
    assert_eq!(value(&client, "/live/1"), None);
    assert!(value(&client, "/live/2").is_some() && value(&client, "/live/3").is_some());
    assert_eq!(
        client.lease_keepalive(lease.id),
        Err(Refusal::LeaseNotFound(lease.id).into())
    );
    client.lease_revoke(other.id).unwrap();
    assert_eq!(value(&client, "/live/2"), None);
}

fn keepalive_holds_a_lease(kind: Kind) {
    let server = Server::start(kind);
    let client = server.client();
    let lease = client.lease_grant(2).unwrap();
    client.txn(&leased("/live/1", lease.id)).unwrap();
    let until = Instant::now() + Duration::from_secs(2 * lease.ttl_s);
    while Instant::now() < until {
        assert_eq!(client.lease_keepalive(lease.id).unwrap(), lease.ttl_s);
        std::thread::sleep(Duration::from_millis(500));
    }
    assert!(value(&client, "/live/1").is_some());
    assert!(client.lease_time_to_live(lease.id).unwrap() <= lease.ttl_s);
}

fn a_watch_sees_every_change_in_order_and_resumes(kind: Kind) {
    let server = Server::start(kind);
    let client = server.client();
    put(&client, "/w/before", "0");
    let from = client.txn(&Call::prefix("/w/")).unwrap().revision + 1;
    // Some before the watch starts, the others while it runs; other prefixes in between.
    let mut expected = Vec::new();
    let mut change = |i: u32| {
        let key = format!("/w/{}", i % 3);
        if i % 5 == 4 {
            let call = Call {
                then: vec![Op::Delete { key: key.clone() }],
                ..Call::default()
            };
            let reply = client.txn(&call).unwrap();
            if reply.results[0] == OpReply::Deleted(1) {
                expected.push((key, None, reply.revision));
            }
        } else {
            let revision = put(&client, &key, &i.to_string());
            expected.push((key, Some(i.to_string()), revision));
        }
        put(&client, "/elsewhere", "x");
    };
    (0..10).for_each(&mut change);
    let mut watch = client.watch("/w/", from);
    (10..40).for_each(&mut change);
    let seen = events(&mut watch, expected.len());
    let plain = |event: &Event| match event {
        Event::Put(kv) => (
            kv.key.clone(),
            Some(String::from_utf8(kv.value.clone()).unwrap()),
            kv.mod_revision,
        ),
        Event::Delete { key, mod_revision } => (key.clone(), None, *mod_revision),
    };
    assert_eq!(seen.iter().map(plain).collect::<Vec<_>>(), expected);
    drop(watch);

    // Another one goes on from the middle.
    let middle = expected.len() / 2;
    let mut watch = client.watch("/w/", expected[middle].2);
    let seen = events(&mut watch, expected.len() - middle);
    assert_eq!(seen.iter().map(plain).collect::<Vec<_>>(), expected[middle..]);

    // One revision with many keys comes at once; and a watch of one's own thread is stopped from another.
    let put_op = |i: u32| Op::Put {
        key: format!("/w/{i}"),
        value: vec![],
        lease: None,
    };
    let revision = client
        .txn(&Call {
            then: (0..5).map(put_op).collect(),
            ..Call::default()
        })
        .unwrap()
        .revision;
    match watch.wait(Duration::from_secs(10)) {
        Waited::Item(Ok(batch)) => assert_eq!((batch.revision, batch.events.len()), (revision, 5)),
        other => panic!("{other:?}"),
    }
    let stopper = watch.stopper();
    let reader = std::thread::spawn(move || watch.next());
    std::thread::sleep(Duration::from_millis(50));
    stopper.stop();
    assert_eq!(reader.join().unwrap(), None);
}

fn a_watch_outlives_a_restart(kind: Kind) {
    let mut server = Server::start(kind);
    let client = server.client();
    let from = put(&client, "/w/0", "first");
    let mut watch = client.watch("/w/", from);
    events(&mut watch, 1);
    server.stop();
    assert_eq!(
        watch.wait(Duration::from_millis(300)),
        Waited::Nothing,
        "an outage is no change"
    );
    server.resume();
    let revision = put(&client, "/w/1", "second");
    let seen = events(&mut watch, 1);
    assert_eq!(
        (seen[0].key(), seen[0].revision()),
        ("/w/1", revision),
        "nothing is told twice"
    );
}

fn an_unbroken_watch_ends_with_its_stream(kind: Kind) {
    let mut server = Server::start(kind);
    let client = server.client();
    let from = put(&client, "/w/0", "first");
    let (_, line) = client.txn_on_line(&Call::get("/w/0")).unwrap();
    let mut watch = client.watch_unbroken("/w/", from, line);
    events(&mut watch, 1);
    server.stop();
    server.resume();
    put(&client, "/w/1", "second");
    match watch.wait(Duration::from_secs(20)) {
        Waited::Item(Err(Error::Unavailable { .. })) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(watch.wait(Duration::from_secs(20)), Waited::Ended);
}

/// What answers there now may be other metadata than what was read.
fn an_unbroken_watch_begins_by_no_other_connection(kind: Kind) {
    let mut server = Server::start(kind);
    let client = server.client();
    let from = put(&client, "/w/0", "first");
    let (_, line) = client.txn_on_line(&Call::get("/w/0")).unwrap();
    server.stop();
    server.resume();
    put(&client, "/w/1", "second");
    let mut watch = client.watch_unbroken("/w/", from, line);
    match watch.wait(Duration::from_secs(20)) {
        Waited::Item(Err(Error::Unavailable { .. })) => {}
        other => panic!("{other:?}"),
    }
    let (_, line) = client.txn_on_line(&Call::get("/w/0")).unwrap();
    events(&mut client.watch_unbroken("/w/", from, line), 2);
}

fn restart_keeps_keys_revisions_and_leases(kind: Kind) {
    let mut server = Server::start(kind);
    let client = server.client();
    let first = put(&client, "/k", "1");
    put(&client, "/k", "2");
    put(&client, "/gone", "x");
    let last = client
        .txn(&Call {
            then: vec![Op::Delete { key: "/gone".into() }],
            ..Call::default()
        })
        .unwrap()
        .revision;
    let lease = client.lease_grant(3).unwrap();
    let leased_at = client.txn(&leased("/live", lease.id)).unwrap().revision;
    assert_eq!(leased_at, last + 1);
    server.stop();
    server.resume();
    let reply = client.txn(&Call::get("/k")).unwrap();
    let found = reply.value(0).unwrap();
    assert_eq!((reply.revision, found.value.as_slice()), (leased_at, &b"2"[..]));
    assert_eq!(
        (found.create_revision, found.mod_revision, found.version),
        (first, first + 1, 2)
    );
    assert_eq!(value(&client, "/gone"), None);
    assert!(client.lease_keepalive(lease.id).is_ok(), "the lease is still there");
    let history = events(&mut client.watch("", first), 5);
    assert_eq!(
        history.iter().map(Event::revision).collect::<Vec<_>>(),
        (first..=leased_at).collect::<Vec<_>>()
    );
    // It still expires, and takes its key with it.
    let gone = events(&mut client.watch("/live", leased_at + 1), 1);
    assert_eq!(
        gone[0],
        Event::Delete {
            key: "/live".into(),
            mod_revision: leased_at + 1
        }
    );
    assert_eq!(put(&client, "/k", "3"), leased_at + 2, "revisions go on");
}

fn an_outage_is_told_and_passes(kind: Kind) {
    let mut server = Server::start(kind);
    let client = server.client();
    put(&client, "/k", "1");
    server.stop();
    let error = client.txn(&Call::put("/k", "2")).unwrap_err();
    // The connection's end is noticed by itself, but perhaps not yet: then nobody knows.
    assert!(
        matches!(error, Error::Unavailable { .. } | Error::Unknown { .. }),
        "{error}"
    );
    for call in [Call::put("/k", "2"), Call::get("/k")] {
        let error = client.txn(&call).unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        assert!(
            error.to_string().contains(&server.address.to_string()),
            "it says where: {error}"
        );
    }
    assert!(matches!(client.lease_grant(5), Err(Error::Unavailable { .. })));
    server.resume();
    assert_eq!(value(&client, "/k").as_deref(), Some("1"), "the same client goes on");
    put(&client, "/k", "3");
}

fn compacted_history_is_a_clear_error(kind: Kind) {
    let server = Server::start(kind);
    let client = server.client();
    let revisions: Vec<u64> = (0..10).map(|i| put(&client, "/k", &i.to_string())).collect();
    client.compact(revisions[5]).unwrap();
    assert!(matches!(
        client.compact(revisions[4]),
        Err(Error::Refused {
            reason: Refusal::Compacted { .. }
        })
    ));
    let mut watch = client.watch("/k", revisions[2]);
    match watch.wait(Duration::from_secs(10)) {
        Waited::Item(Err(Error::Refused {
            reason: Refusal::Compacted { compacted },
        })) => {
            assert_eq!(compacted, revisions[5]);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(watch.wait(Duration::from_secs(10)), Waited::Ended);
    let seen = events(&mut client.watch("/k", revisions[6]), 4);
    assert_eq!(seen.iter().map(Event::revision).collect::<Vec<_>>(), revisions[6..]);
    assert_eq!(value(&client, "/k").as_deref(), Some("9"));
}

fn eight_threads_count_by_compare_and_set(kind: Kind) {
    const THREADS: u64 = 8;
    const EACH: u64 = 12;
    let server = Server::start(kind);
    let client = server.client();
    put(&client, "/count", "0");
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            // Half share a connection, half have their own.
            let client = if thread % 2 == 0 {
                client.clone()
            } else {
                server.client()
            };
            std::thread::spawn(move || {
                let mut lost = 0_u64;
                for _ in 0..EACH {
                    let mut reply = client.txn(&Call::get("/count")).unwrap();
                    loop {
                        let found = reply.value(0).unwrap();
                        let count: u64 = std::str::from_utf8(&found.value).unwrap().parse().unwrap();
                        reply = client
                            .txn(&Call::put_if("/count", found.mod_revision, (count + 1).to_string()))
                            .unwrap();
                        if reply.succeeded {
                            break;
                        }
                        lost += 1;
                    }
                }
                lost
            })
        })
        .collect();
    let lost: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(value(&client, "/count"), Some((THREADS * EACH).to_string()));
    assert!(lost > 0, "the threads never met: the test shows nothing");
}
