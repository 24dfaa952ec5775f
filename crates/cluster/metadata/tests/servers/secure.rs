//! The embedded server by TLS: who is let in, who is told what, and what one of them, or a crowd of strangers, can hold.

use crate::common::{Kind, SHORT, Server, by_tls};
use crate::pki::{Authority, Leaf};
use amita_identity::{Clock, Live, Name};
use amita_metadata::client::{SERVER_NAME, Tls};
use amita_metadata::server::{self, Config, MAX_HANDSHAKES, OperatorRole, Refusals, Role, StartError};
use amita_metadata::{Call, Client, Error, Op, Options, Refusal, Waited};
use amita_types::ClusterId;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn put(client: &Client, key: &str) -> Result<u64, Error> {
    client.txn(&Call::put(key, "v")).map(|reply| reply.revision)
}

/// Surely not done, and says which side to mend.
fn refused(client: &Client, words: &str) {
    let error = put(client, "/bad").unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains(words), "{words}: {error}");
}

#[test]
fn who_proves_nothing_is_not_let_in_and_knows_which_side_to_mend() {
    let server = Server::start(Kind::Secure);
    let (ours, foreign) = (&server.secure().authority, Authority::new("foreign"));
    let client = server.client();
    put(&client, "/k").unwrap();
    refused(&server.client_with(by_tls(ours.client(None))), "we showed none");
    refused(&server.client_of(&foreign.leaf("node")), "mend the identity here");
    refused(&server.client_of(&ours.expired("node")), "expired");
    refused(
        &server.client_with(by_tls(foreign.client(Some(&server.secure().node)))),
        "mend the server's certificate",
    );
    // Plainly.
    refused(&server.client_with(SHORT), "write https://");
    // A certificate of ours, of somebody unknown, and of one who has no business here.
    refused(&server.client_of(&ours.leaf("nobody")), "its log says why");
    let volume_user = server.secure().leaf(Role::Client, "c1");
    refused(&server.client_of(&volume_user), "its log says why");
    for role in [Role::Gateway, Role::Operator] {
        put(&server.client_of(&server.secure().leaf(role, "x")), "/k").unwrap();
    }
    assert!(
        client.txn(&Call::get("/bad")).unwrap().value(0).is_none(),
        "nothing was done"
    );
}

/// What etcd's own client says with this certificate, or why it fails.
fn etcdctl(server: &Server, leaf: &Leaf, arguments: &[&str]) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let [certificate, key] = leaf.write(folder.path(), "own");
    let authority = folder.path().join("authority.pem");
    std::fs::write(&authority, &server.secure().authority.pem).unwrap();
    let output = Command::new("/usr/bin/etcdctl")
        .env("ETCDCTL_API", "3")
        .args(["--endpoints", &format!("https://{}", server.address)])
        .args([Path::new("--cacert"), &authority, Path::new("--cert"), &certificate])
        .args([Path::new("--key"), &key])
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr))
    }
}

#[test]
fn viewers_read_and_watch_and_whatever_else_they_ask_for_is_refused_and_told() {
    let mut server = Server::start(Kind::Secure);
    let (refusals, heard) = Refusals::channel();
    server.stop();
    let config = Config {
        refusals: Some(refusals),
        ..server.config()
    };
    let _running = server::start(config).unwrap();
    let (ours, tenant) = (server.client(), server.secure().operator(OperatorRole::Tenant, "t"));
    let from = put(&ours, "/k").unwrap();
    let lease = ours.lease_grant(60).unwrap();
    refused(&server.client_of(&tenant), "its log says why");
    for role in [OperatorRole::Viewer, OperatorRole::Auditor] {
        let leaf = server.secure().operator(role, "eve");
        let client = server.client_of(&leaf);
        assert!(client.txn(&Call::get("/k")).unwrap().value(0).is_some());
        let mut watch = client.watch("/k", from);
        assert!(matches!(watch.wait(Duration::from_secs(20)), Waited::Item(Ok(_))));
        let denied = |result: Result<(), Error>| match result {
            Err(Error::Refused {
                reason: Refusal::Server { code, .. },
            }) => assert_eq!(code, "PermissionDenied"),
            other => panic!("{other:?}"),
        };
        denied(put(&client, "/k").map(drop));
        denied(client.txn(&Call::put_if("/new", 0, "v")).map(drop));
        denied(client.lease_grant(60).map(drop));
        denied(client.lease_keepalive(lease.id).map(drop));
        denied(client.lease_revoke(lease.id));
        denied(client.compact(from));
        for arguments in [["alarm", "list"], ["alarm", "disarm"]] {
            let refused = etcdctl(&server, &leaf, &arguments).unwrap_err();
            assert!(refused.contains("permission denied"), "{refused}");
        }
        assert!(
            etcdctl(&server, &leaf, &["endpoint", "status"]).is_ok(),
            "it says nothing of keys"
        );
        for asked in [
            "a change",
            "a change",
            "a lease",
            "a lease's renewal",
            "a lease's end",
            "a compaction of the history",
            "the alarms",
            "the alarms",
        ] {
            let (told, _) = heard.next(Duration::from_secs(20)).unwrap();
            assert_eq!((told.asked, told.peer.operator_role), (asked, Some(role)));
            assert_eq!(
                (told.source, told.call.is_some()),
                (Ipv4Addr::LOCALHOST.into(), asked == "a change")
            );
        }
    }
    put(
        &server.client_of(&server.secure().operator(OperatorRole::Operator, "op")),
        "/k",
    )
    .unwrap();
    assert!(heard.next(Duration::ZERO).is_err());
    ours.lease_keepalive(lease.id).unwrap();
    assert!(ours.txn(&Call::get("/new")).unwrap().value(0).is_none());
}

#[test]
fn tls_to_a_plain_server_is_told_as_such() {
    let server = Server::start(Kind::Embedded);
    refused(
        &server.client_of(&server.secure().node),
        "the server does not speak TLS",
    );
    let endpoint = [format!("http://{}", server.address)];
    let options = by_tls(server.secure().authority.client(None));
    let error = Client::connect_with(&endpoint, options.clone()).unwrap_err();
    assert!(error.to_string().contains("--insecure-network"), "{error}");
    let options = Options {
        insecure_network: true,
        ..options
    };
    put(&Client::connect_with(&endpoint, options).unwrap(), "/k").unwrap();
}

#[test]
fn a_plain_server_is_for_this_machine_unless_told_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config::new("0.0.0.0:0".parse().unwrap(), folder.path().join("meta"));
    let error = server::start(config.clone()).unwrap_err();
    assert!(matches!(error, StartError::Open { .. }), "{error}");
    assert!(error.to_string().contains("--insecure-network"));
    assert!(!folder.path().join("meta").exists(), "nothing was made");
    let config = Config {
        insecure_network: true,
        ..config
    };
    server::start(config).unwrap().stop();
}

#[test]
fn revoked_peers_are_cut_off_at_once_and_others_are_not() {
    let server = Server::start(Kind::Secure);
    let lost = server.secure().leaf(Role::Node, "lost");
    let (client, thief) = (server.client(), server.client_of(&lost));
    let from = put(&thief, "/k").unwrap();
    let (mut ours, mut theirs) = (client.watch("/k", from + 1), thief.watch("/k", from + 1));
    put(&client, "/k").unwrap();
    assert!(matches!(theirs.wait(Duration::from_secs(20)), Waited::Item(Ok(_))));
    assert!(matches!(ours.wait(Duration::from_secs(20)), Waited::Item(Ok(_))));
    server.secure().known.revoke(&lost);
    let until = Instant::now() + Duration::from_secs(20);
    while put(&thief, "/stolen").is_ok() {
        assert!(Instant::now() < until, "it is still served");
        std::thread::sleep(Duration::from_millis(20));
    }
    refused(&thief, "its log says why");
    put(&client, "/k").unwrap();
    assert!(matches!(ours.wait(Duration::from_secs(20)), Waited::Item(Ok(_))));
    assert_eq!(theirs.wait(Duration::from_millis(500)), Waited::Nothing);
}

#[test]
fn a_connection_ends_with_the_certificate_that_it_was_made_with() {
    let server = Server::start(Kind::Secure);
    let leaf = server.secure().authority.ending("brief", Duration::from_secs(15));
    server.secure().known.add_operator(&leaf, OperatorRole::Viewer, "brief");
    let (ours, theirs) = (server.client(), server.client_of(&leaf));
    let from = put(&ours, "/k").unwrap();
    let mut watch = theirs.watch("/k", from);
    assert!(matches!(watch.wait(Duration::from_secs(20)), Waited::Item(Ok(_))));
    let until = Instant::now() + Duration::from_secs(60);
    while theirs.txn(&Call::get("/k")).is_ok() {
        assert!(Instant::now() < until, "it is still served");
        std::thread::sleep(Duration::from_millis(100));
    }
    put(&ours, "/k").unwrap();
    assert_eq!(watch.wait(Duration::from_millis(500)), Waited::Nothing);
}

/// Far more connections than there are places, none of which ever ends its handshake: some say nothing, some the beginning of a
/// hello, some bytes of anything. Who is inside goes on, and who has a certificate comes in.
#[test]
fn a_crowd_of_half_open_connections_costs_nobody_else_anything() {
    half_open_connections(2_500);
}

#[test]
#[ignore = "a minute and a half: for a soak"]
fn ten_thousand_half_open_connections_cost_nobody_else_anything() {
    half_open_connections(10_000);
}

fn half_open_connections(wanted: usize) {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).unwrap();
    // Where the system gives less, as many as it gives.
    let crowd = limit.maximum.map_or(wanted, |most| wanted.min(most as usize - 2000));
    assert!(crowd > 4 * MAX_HANDSHAKES, "{crowd} are no crowd");
    let server = Server::start(Kind::Secure);
    let client = server.client();
    put(&client, "/k").unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let worker = {
        let (client, over) = (client.clone(), Arc::clone(&over));
        std::thread::spawn(move || {
            let mut calls = 0;
            while !over.load(Ordering::SeqCst) {
                put(&client, "/k").expect("who is inside is served");
                calls += 1;
            }
            calls
        })
    };
    let sayings: [&[u8]; 4] = [
        b"",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &[0x16; 600],
    ];
    let mut strangers = Vec::with_capacity(crowd);
    for number in 0..crowd {
        let Ok(mut stranger) = TcpStream::connect(server.address) else {
            continue;
        };
        // One that was turned away already hears nothing.
        let _ = stranger.write_all(sayings[number % sayings.len()]);
        strangers.push(stranger);
        if number % (wanted / 4) == 0 {
            put(&server.client(), "/new").expect("who has a certificate comes in");
        }
    }
    put(&server.client(), "/new").expect("who has a certificate comes in");
    over.store(true, Ordering::SeqCst);
    assert!(worker.join().unwrap() > 0);
    // Whoever stood there was turned away.
    let mut first = &strangers[0];
    first.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    match first.read(&mut [0; 64]) {
        Ok(0) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        Ok(bytes) => panic!("{bytes} bytes for one who said nothing"),
    }
}

/// A hello of 16 MiB by its length field: it is read no further than it must be.
#[test]
fn a_handshake_that_says_too_much_is_broken_off() {
    let server = Server::start(Kind::Secure);
    let mut stranger = TcpStream::connect(server.address).unwrap();
    stranger.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut record = vec![0x16, 3, 1, 0x40, 0];
    record.extend([1, 0, 0xff, 0xff]);
    record.resize(5 + 0x4000, 0);
    // It is closed before all of that is taken.
    let written = (0..4096).take_while(|_| stranger.write_all(&record).is_ok()).count();
    assert!(written < 4096);
    put(&server.client(), "/k").unwrap();
}

#[test]
fn one_peer_has_not_all_leases_and_those_of_others_are_not_its() {
    let mut server = Server::start(Kind::Secure);
    let (greedy, honest) = (
        server.secure().leaf(Role::Node, "greedy"),
        server.secure().leaf(Role::Node, "honest"),
    );
    let client = server.client_of(&greedy);
    let mut held = 0;
    let error = loop {
        match client.lease_grant(24 * 3600) {
            Ok(_) => held += 1,
            Err(error) => break error,
        }
        assert!(held < 1000);
    };
    assert!(error.to_string().contains("revoke some"), "{error}");
    let other = server.client_of(&honest);
    let lease = other.lease_grant(60).unwrap();
    // Not by the next start either.
    server.stop();
    server.resume();
    assert!(client.lease_grant(60).is_err());
    let denied = |result: Result<(), Error>| match result {
        Err(Error::Refused {
            reason: Refusal::Server { code, .. },
        }) => assert_eq!(code, "PermissionDenied"),
        other => panic!("{other:?}"),
    };
    denied(client.lease_revoke(lease.id));
    denied(client.lease_keepalive(lease.id).map(drop));
    other.lease_keepalive(lease.id).unwrap();
    let operator = server.client_of(&server.secure().leaf(Role::Operator, "admin"));
    operator.lease_revoke(lease.id).unwrap();
}

#[test]
fn an_answer_of_more_than_there_is_memory_for_is_refused_before_anything_is_done() {
    let server = Server::start(Kind::Secure);
    let client = server.client();
    for number in 0..8 {
        client
            .txn(&Call::put(format!("/large/{number}"), vec![7; 1 << 19]))
            .unwrap();
    }
    // 4 MiB, 128 times.
    let mut call = Call {
        then: vec![Op::Prefix { key: "/large/".into() }; 127],
        ..Call::default()
    };
    call.then.push(Op::Put {
        key: "/done".into(),
        value: vec![],
        lease: None,
    });
    let error = client.txn(&call).unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains("ask for less"), "{error}");
    assert!(client.txn(&Call::get("/done")).unwrap().value(0).is_none());
    call.then.drain(..120);
    let reply = client.txn(&call).unwrap();
    assert_eq!(reply.values(6).len(), 8, "what there is memory for is answered");
}

#[test]
fn above_the_quota_nothing_is_added_and_room_is_made_by_deleting() {
    let server = Server::start(Kind::Embedded);
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::new("127.0.0.1:0".parse().unwrap(), folder.path().join("meta"));
    config.quota_bytes = 1 << 20;
    drop(server);
    let handle = server::start(config).unwrap();
    let endpoint = handle.address().to_string();
    let client = Client::connect_with(std::slice::from_ref(&endpoint), SHORT).unwrap();
    let large = |number: usize| client.txn(&Call::put(format!("/large/{number}"), vec![7; 100 << 10]));
    let held = (0..100).take_while(|number| large(*number).is_ok()).count();
    assert!((5..=10).contains(&held), "{held}");
    assert!(large(0).is_ok(), "what leaves it as large");
    let etcdctl = |arguments: &[&str]| {
        let output = Command::new("/usr/bin/etcdctl")
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &endpoint])
            .args(arguments)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(etcdctl(&["alarm", "list"]).contains("NOSPACE"));
    assert!(client.lease_grant(60).is_ok(), "who lives can say so");
    let call = Call {
        then: vec![Op::Delete { key: "/large/1".into() }],
        ..Call::default()
    };
    client.txn(&call).unwrap();
    assert!(!etcdctl(&["alarm", "list"]).contains("NOSPACE"));
    large(1).unwrap();
    // The history of what was overwritten is kept within bounds of its own.
    let first = client.txn(&Call::get("/large/1")).unwrap().revision;
    for _ in 0..20 {
        large(1).unwrap();
    }
    match client.watch("/large/", first).wait(Duration::from_secs(20)) {
        Waited::Item(Err(Error::Refused {
            reason: Refusal::Compacted { .. },
        })) => {}
        other => panic!("{other:?}"),
    }
    handle.stop();
}

/// With identities of the cluster, as they come from its own authority.
#[test]
fn identities_of_the_cluster_are_known_by_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let cluster = ClusterId(7);
    let authority = amita_identity::Authority::create(&at("ca"), cluster, Clock::system()).unwrap();
    let live = |role, name: &str| {
        let folder = at(&format!("{role}-{name}"));
        authority
            .make_identity(&folder, &Name::new(cluster, role, name).unwrap())
            .unwrap();
        Live::open(&folder, Clock::system()).unwrap()
    };
    let start = |live: &Arc<Live>, file: &str| {
        let mut config = Config::new("127.0.0.1:0".parse().unwrap(), at(file));
        config.tls = Some(server::Tls::of(live));
        server::start(config).unwrap()
    };
    let own = live(Role::Node, SERVER_NAME);
    let handle = start(&own, "meta");
    let client = |live: &Arc<Live>, handle: &server::Handle| {
        let options = Options {
            tls: Some(Tls::of(live)),
            ..SHORT
        };
        Client::connect_with(&[handle.address().to_string()], options).unwrap()
    };
    let node = live(Role::Node, "n1");
    for live in [&node, &live(Role::Gateway, "g1"), &live(Role::Operator, "admin")] {
        put(&client(live, &handle), "/k").unwrap();
    }
    refused(&client(&live(Role::Client, "c1"), &handle), "mend the identity here");
    // A node that says it were the metadata.
    let impostor = start(&live(Role::Node, "n2"), "other");
    refused(&client(&node, &impostor), "mend the server's certificate");
    impostor.stop();
    // What is revoked is cut off when the server hears of it.
    let lost = client(&node, &handle);
    put(&lost, "/k").unwrap();
    authority.revoke("n1").unwrap();
    own.install_trust(&authority.trust().unwrap()).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while put(&lost, "/stolen").is_ok() {
        assert!(Instant::now() < until, "it is still served");
        std::thread::sleep(Duration::from_millis(20));
    }
    refused(&lost, "revoked");
    handle.stop();
}
