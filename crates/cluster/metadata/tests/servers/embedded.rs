//! What only the embedded server must do, and what the client does with servers that misbehave.

use crate::common::{Kind, Server};
use amita_metadata::model::State;
use amita_metadata::server::{self, Config, StartError};
use amita_metadata::{Call, Client, Compare, Error, LeaseId, Op, Options, Refusal, Waited};
use proptest::prelude::*;
use redb::ReadableDatabase;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

fn hasty(endpoints: &[String]) -> Client {
    let options = Options {
        timeout: Duration::from_millis(900),
        connect_timeout: Duration::from_millis(200),
        ..Options::default()
    };
    Client::connect_with(endpoints, options).unwrap()
}

fn start_error(path: &Path) -> StartError {
    server::start(Config::new(ANY, path)).expect_err("it must not start")
}

#[test]
fn an_occupied_port_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind(ANY).unwrap();
    let address = taken.local_addr().unwrap();
    let error = server::start(Config::new(address, folder.path().join("meta"))).unwrap_err();
    assert!(matches!(error, StartError::PortOccupied { .. }), "{error}");
    assert!(error.to_string().contains(&address.to_string()));
    assert!(!folder.path().join("meta").exists(), "nothing was made");
}

#[test]
fn a_file_in_use_is_named_and_not_harmed() {
    let server = Server::start(Kind::Embedded);
    let client = server.client();
    client.txn(&Call::put("/k", "v")).unwrap();
    let path = server.folder.path().join("meta");
    let error = start_error(&path);
    assert!(matches!(error, StartError::Locked { .. }), "{error}");
    client.txn(&Call::put("/k", "w")).unwrap();
}

#[test]
fn files_that_are_something_else_are_refused_and_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other");
    for content in [&b"#!/bin/sh\n"[..], &[0; 4096], &[0xff; 100_000]] {
        std::fs::write(&path, content).unwrap();
        let error = start_error(&path);
        assert!(matches!(error, StartError::NotOurs { .. }), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), content, "it was not changed");
    }
    let error = start_error(folder.path());
    assert!(error.to_string().contains("folder"), "{error}");
    let error = start_error(&folder.path().join("none/meta"));
    assert!(matches!(error, StartError::File { .. }), "{error}");

    // The database of another program.
    let path = folder.path().join("foreign");
    let database = redb::Database::create(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    let table: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("theirs");
    transaction.open_table(table).unwrap().insert("k", 1).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let error = start_error(&path);
    assert!(matches!(error, StartError::NotOurs { .. }), "{error}");
    let database = redb::Database::open(&path).unwrap();
    let transaction = database.begin_read().unwrap();
    assert_eq!(transaction.list_tables().unwrap().count(), 1, "nothing was added");
}

#[test]
fn damage_is_found_at_the_start() {
    let mut server = Server::start(Kind::Embedded);
    server.client().txn(&Call::put("/k", "v")).unwrap();
    server.stop();
    let path = server.folder.path().join("meta");
    let whole = std::fs::read(&path).unwrap();
    // A file cut short is refused, or opens with what it had: it never starts with something else.
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let error = start_error(&path);
    assert!(
        matches!(error, StartError::Damaged { .. } | StartError::File { .. }),
        "{error:?}"
    );
    // A record that contradicts the others.
    std::fs::write(&path, &whole).unwrap();
    let database = redb::Database::open(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    let about: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("about");
    transaction.open_table(about).unwrap().insert("revision", 77).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let error = start_error(&path);
    assert!(
        matches!(&error, StartError::Damaged { what, .. } if what.contains("77")),
        "{error}"
    );
}

#[test]
fn strangers_harm_nobody() {
    let server = Server::start(Kind::Embedded);
    let client = server.client();
    client.txn(&Call::put("/k", "v")).unwrap();
    // Many that connect and say nothing, some that speak another protocol, some that break off.
    let silent: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    for greeting in [
        &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
        b"\x16\x03\x01\x02\x00",
        &[0xff; 4096],
    ] {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // It may answer something; then it closes. After so many, one more is reset, which may come before the greeting.
        let mut answer = Vec::new();
        let _ = stream
            .write_all(greeting)
            .and_then(|()| stream.read_to_end(&mut answer));
    }
    let mut cut = TcpStream::connect(server.address).unwrap();
    let _ = cut.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x7f");
    drop(cut);
    assert!(
        client.txn(&Call::get("/k")).unwrap().value(0).is_some(),
        "others are served"
    );
    // Who says nothing is closed.
    let mut first = &silent[0];
    first.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(first.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn etcdctl_works_with_it() {
    let binary = Path::new("/usr/bin/etcdctl");
    assert!(
        binary.exists(),
        "this test needs etcd's own client: apt-get install etcd-client"
    );
    let server = Server::start(Kind::Embedded);
    let endpoint = format!("http://{}", server.address);
    let etcdctl = |arguments: &[&str]| {
        let output = Command::new(binary)
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &endpoint])
            .args(arguments)
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    };
    let ok = |arguments: &[&str]| {
        let (success, output, errors) = etcdctl(arguments);
        assert!(success, "etcdctl {arguments:?}: {errors}");
        output
    };
    assert_eq!(ok(&["put", "/amita/a", "1"]), "OK");
    assert_eq!(ok(&["put", "/amita/b", "2"]), "OK");
    assert_eq!(ok(&["get", "/amita/", "--prefix", "--print-value-only"]), "1\n2");
    assert_eq!(ok(&["get", "", "--prefix", "--keys-only"]), "/amita/a\n\n/amita/b");
    assert_eq!(ok(&["get", "/amita/", "--prefix", "--limit", "1"]), "/amita/a\n1");
    assert_eq!(ok(&["del", "/amita/a"]), "1");
    let granted = ok(&["lease", "grant", "60"]);
    let lease = granted.split(' ').nth(1).unwrap().to_owned();
    ok(&["put", "--lease", &lease, "/amita/live/1", "x"]);
    assert!(ok(&["lease", "timetolive", "--keys", &lease]).contains("/amita/live/1"));
    assert!(ok(&["lease", "keep-alive", "--once", &lease]).contains("keepalived"));
    assert!(ok(&["lease", "list"]).contains(&lease));
    assert!(ok(&["lease", "revoke", &lease]).contains("revoked"));
    assert_eq!(ok(&["get", "/amita/live/1"]), "");
    assert!(ok(&["endpoint", "health"]).is_empty() || ok(&["endpoint", "status"]).contains("amita"));
    let (success, _, errors) = etcdctl(&["get", "a", "c"]);
    assert!(
        !success && errors.contains("not served"),
        "what is not served says so: {errors}"
    );
    let (success, _, errors) = etcdctl(&["member", "list"]);
    assert!(!success && errors.contains("embedded server"), "{errors}");
    assert!(ok(&["compaction", "3"]).contains("compacted"));
}

/// A server that takes everything and answers nothing.
#[test]
fn a_silent_server_leaves_writes_unknown_and_reads_undone() {
    let listener = TcpListener::bind(ANY).unwrap();
    let client = hasty(&[listener.local_addr().unwrap().to_string()]);
    let started = Instant::now();
    let error = client.txn(&Call::put("/k", "v")).unwrap_err();
    assert!(matches!(error, Error::Unknown { .. }), "{error}");
    assert!(error.to_string().contains("may or may not"));
    let error = client.txn(&Call::get("/k")).unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(started.elapsed() < Duration::from_secs(8), "time-outs end calls");
}

/// A server that breaks off in the middle of each call.
#[test]
fn a_server_that_breaks_off_leaves_writes_unknown() {
    let listener = TcpListener::bind(ANY).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(16) {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let client = hasty(&[address.to_string()]);
    assert!(matches!(client.txn(&Call::put("/k", "v")), Err(Error::Unknown { .. })));
    assert!(matches!(client.txn(&Call::get("/k")), Err(Error::Unavailable { .. })));
}

#[test]
fn another_endpoint_serves_when_one_does_not() {
    let server = Server::start(Kind::Embedded);
    let silent = TcpListener::bind(ANY).unwrap();
    let closed = amita_testkit::loopback::free_address();
    let endpoints = [
        closed.to_string(),
        silent.local_addr().unwrap().to_string(),
        server.address.to_string(),
    ];
    let client = hasty(&endpoints);
    // The first refuses: surely not done there. The second is silent: a read goes on to the third.
    assert!(client.txn(&Call::get("/k")).is_ok());
    assert!(
        client.txn(&Call::put("/k", "v")).is_ok(),
        "and it is remembered who serves"
    );
    let error = Client::connect(&[] as &[&str]).unwrap_err();
    assert!(matches!(error, Error::Setting { .. }));
    let many: Vec<String> = (0..17).map(|port| format!("127.0.0.1:{port}")).collect();
    assert!(Client::connect(&many).is_err());
}

/// A member of the metadata cluster that is frozen: its kernel takes everything, and nobody answers. What was sent there is
/// unknown soon and not after the long time that a living server may take; the next call goes to another member.
#[test]
fn a_frozen_server_is_given_up_soon() {
    let server = Server::start(Kind::Embedded);
    let frozen = TcpListener::bind(ANY).unwrap();
    let options = Options {
        // Without asking whether it lives, this test would not end.
        timeout: Duration::from_secs(24 * 3600),
        ..Options::default()
    };
    let endpoints = [frozen.local_addr().unwrap().to_string(), server.address.to_string()];
    let client = Client::connect_with(&endpoints, options.clone()).unwrap();
    let error = client.txn(&Call::put("/k", "v")).unwrap_err();
    assert!(matches!(error, Error::Unknown { .. }), "{error}");
    assert!(client.txn(&Call::put("/k", "w")).is_ok(), "by the other one");
    // What may be repeated is, at once.
    let client = Client::connect_with(&endpoints, options.clone()).unwrap();
    assert!(client.txn(&Call::get("/k")).is_ok());
}

#[test]
fn long_history_is_forgotten_in_the_order_it_came() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("meta");
    let config = Config {
        history: 50,
        ..Config::new(ANY, &path)
    };
    let handle = server::start(config.clone()).unwrap();
    let client = hasty(&[handle.address().to_string()]);
    for i in 0..200 {
        client.txn(&Call::put("/k", i.to_string())).unwrap();
    }
    let mut watch = client.watch("/k", 3);
    match watch.wait(Duration::from_secs(5)) {
        Waited::Item(Err(Error::Refused {
            reason: Refusal::Compacted { compacted },
        })) => {
            assert!((140..=151).contains(&compacted), "{compacted}");
        }
        other => panic!("{other:?}"),
    }
    let revision = client.txn(&Call::get("/k")).unwrap().revision;
    handle.stop();
    let handle = server::start(config).unwrap();
    let client = hasty(&[handle.address().to_string()]);
    assert_eq!(client.txn(&Call::get("/k")).unwrap().revision, revision);
    match client.watch("/k", revision - 20).wait(Duration::from_secs(5)) {
        Waited::Item(Ok(batch)) => assert_eq!((batch.events.len(), batch.revision), (21, revision)),
        other => panic!("{other:?}"),
    }
}

/// A watcher that does not read holds nobody up, and still gets everything.
#[test]
fn a_slow_watcher_misses_nothing() {
    let server = Server::start(Kind::Embedded);
    let client = server.client();
    let value = "x".repeat(20_000);
    let first = client.txn(&Call::put("/w", "")).unwrap().revision;
    let mut watch = client.watch("/w", first);
    for _ in 0..1500 {
        client.txn(&Call::put("/w", value.as_str())).unwrap();
    }
    let mut next = first;
    while next <= first + 1500 {
        match watch.wait(Duration::from_secs(20)) {
            Waited::Item(Ok(batch)) => {
                for event in batch.events {
                    assert_eq!(event.revision(), next);
                    next += 1;
                }
            }
            other => panic!("{other:?} at revision {next}"),
        }
    }
}

/// Serves for [`what_was_answered_survives_sigkill`], in a process of its own, until it is killed.
#[test]
#[ignore = "the other half of what_was_answered_survives_sigkill"]
fn serves_until_killed() {
    let Ok(folder) = std::env::var("AMITA_TEST_FOLDER") else {
        return;
    };
    let handle = server::start(Config::new(ANY, Path::new(&folder).join("meta"))).unwrap();
    let port = Path::new(&folder).join("port");
    std::fs::write(port.with_extension("new"), handle.address().to_string()).unwrap();
    std::fs::rename(port.with_extension("new"), port).unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn what_was_answered_survives_sigkill() {
    let folder = tempfile::tempdir().unwrap();
    let port = folder.path().join("port");
    // What each key's last answered write was, over several lives of the server.
    let mut answered: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for life in 0..4_u64 {
        let _ = std::fs::remove_file(&port);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "embedded::serves_until_killed", "--ignored"])
            .env("AMITA_TEST_FOLDER", folder.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        let address = loop {
            if let Ok(address) = std::fs::read_to_string(&port) {
                break address;
            }
            assert!(
                Instant::now() < until && child.try_wait().unwrap().is_none(),
                "the server did not start"
            );
            std::thread::sleep(Duration::from_millis(10));
        };
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let client = hasty(std::slice::from_ref(&address));
                std::thread::spawn(move || {
                    let (key, mut last) = (format!("/k/{writer}"), None);
                    for count in life * 1_000_000.. {
                        match client.txn(&Call::put(key.as_str(), count.to_string())) {
                            Ok(reply) => last = Some((count, reply.revision)),
                            Err(_) => break,
                        }
                    }
                    (key, last)
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(400));
        child.kill().unwrap();
        child.wait().unwrap();
        for writer in writers {
            let (key, last) = writer.join().unwrap();
            answered.insert(key, last.expect("each writer got some answers"));
        }
        let handle = server::start(Config::new(ANY, folder.path().join("meta"))).unwrap();
        let client = hasty(&[handle.address().to_string()]);
        let newest = client.txn(&Call::get("/x")).unwrap().revision;
        for (key, (count, revision)) in &answered {
            let reply = client.txn(&Call::get(key.as_str())).unwrap();
            let found = reply.value(0).expect("it was answered");
            let value: u64 = std::str::from_utf8(&found.value).unwrap().parse().unwrap();
            // One more may have been done without an answer.
            assert!(
                value == *count && found.mod_revision == *revision || value == count + 1,
                "{key}: {value} for {count}"
            );
            assert!(newest >= found.mod_revision);
        }
        handle.stop();
    }
}

/// What was answered holds after a restart, also where nothing was written since.
#[test]
fn a_compaction_that_was_answered_is_durable() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config::new(ANY, folder.path().join("meta"));
    let handle = server::start(config.clone()).unwrap();
    let client = hasty(&[handle.address().to_string()]);
    for _ in 0..3 {
        client.txn(&Call::put("/k", "v")).unwrap();
    }
    client.compact(3).unwrap();
    handle.stop();
    let handle = server::start(config).unwrap();
    let client = hasty(&[handle.address().to_string()]);
    for (revision, done) in [(2, true), (3, true), (4, false)] {
        match client.compact(revision) {
            Err(Error::Refused {
                reason: Refusal::Compacted { .. },
            }) => assert!(done, "{revision}"),
            Ok(()) => assert!(!done, "{revision}"),
            Err(error) => panic!("{revision}: {error}"),
        }
    }
    handle.stop();
}

#[derive(Clone, Debug)]
enum Step {
    Txn(Call),
    Grant,
    Revoke(usize),
    Compact(u64),
    Restart,
}

fn key() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["/a", "/a/1", "/a/2", "/b/1", "/b/2", "/c"]).prop_map(str::to_owned)
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        1 => key().prop_map(|key| Op::Get { key }),
        1 => key().prop_map(|key| Op::Prefix { key }),
        3 => (key(), any::<u8>(), prop::option::of(1..4_i64)).prop_map(|(key, value, lease)| Op::Put {
            key,
            value: vec![value],
            lease: lease.map(LeaseId),
        }),
        1 => key().prop_map(|key| Op::Delete { key }),
        1 => key().prop_map(|key| Op::DeletePrefix { key }),
    ]
}

fn compare() -> impl Strategy<Value = Compare> {
    prop_oneof![
        (key(), 0..12_u64).prop_map(|(key, equals)| Compare::ModRevision { key, equals }),
        (key(), 0..12_u64).prop_map(|(key, equals)| Compare::CreateRevision { key, equals }),
        (key(), 0..3_u64).prop_map(|(key, equals)| Compare::Version { key, equals }),
        (key(), any::<u8>()).prop_map(|(key, value)| Compare::Value {
            key,
            equals: vec![value]
        }),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    let ops = || prop::collection::vec(op(), 0..4);
    (prop::collection::vec(compare(), 0..2), ops(), ops()).prop_map(|(compares, then, otherwise)| Call {
        compares,
        then,
        otherwise,
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        20 => call().prop_map(Step::Txn),
        2 => Just(Step::Grant),
        1 => (0..4_usize).prop_map(Step::Revoke),
        1 => (1..40_u64).prop_map(Step::Compact),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// The server answers every call as the model does, over restarts, and has the same history in the end.
    #[test]
    fn the_server_does_what_the_model_does(steps in steps()) {
        let folder = tempfile::tempdir().unwrap();
        let config = Config::new(ANY, folder.path().join("meta"));
        let mut handle = server::start(config.clone()).unwrap();
        let mut client = hasty(&[handle.address().to_string()]);
        let mut model = State::new();
        let mut leases = Vec::new();
        let now = Duration::ZERO;
        for step in steps {
            match step {
                Step::Txn(call) => match (client.txn(&call), model.txn(&call)) {
                    (Ok(theirs), Ok(ours)) => prop_assert_eq!(theirs, ours, "{:?}", call),
                    // Which of several leases is missing the wire does not say.
                    (Err(Error::Refused { .. }), Err(_)) => {}
                    (theirs, ours) => prop_assert!(false, "{:?}: {:?} and {:?}", call, theirs, ours),
                },
                Step::Grant => {
                    let theirs = client.lease_grant(3600).unwrap().id;
                    prop_assert_eq!(theirs, model.lease_grant(now, 3600, None).unwrap());
                    leases.push(theirs);
                }
                Step::Revoke(index) => {
                    let id = leases.get(index).copied().unwrap_or(LeaseId(99));
                    prop_assert_eq!(client.lease_revoke(id), model.lease_revoke(id).map_err(Error::from));
                }
                Step::Compact(revision) => {
                    prop_assert_eq!(client.compact(revision).is_ok(), model.compact(revision).is_ok());
                }
                Step::Restart => {
                    handle.stop();
                    handle = server::start(config.clone()).unwrap();
                    client = hasty(&[handle.address().to_string()]);
                }
            }
        }
        let all = client.txn(&Call::prefix("")).unwrap();
        prop_assert_eq!(all.values(0).iter().collect::<Vec<_>>(), model.keys().collect::<Vec<_>>());
        prop_assert_eq!(all.revision, model.revision());
        let expected: Vec<_> = model.changes("", model.compacted() + 1).unwrap().flat_map(|batch| batch.events).collect();
        let mut seen = Vec::new();
        let mut watch = client.watch("", model.compacted() + 1);
        while seen.len() < expected.len() {
            match watch.wait(Duration::from_secs(10)) {
                Waited::Item(Ok(batch)) => seen.extend(batch.events),
                other => panic!("{other:?}"),
            }
        }
        prop_assert_eq!(seen, expected);
    }
}
