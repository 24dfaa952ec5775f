//! Roles and the audit log: who may not is refused, by the command and by the metadata's server; that is in the log; and whoever
//! changes the log is found.

use crate::world::{VOLUME, World, eventually};
use amita_identity::{Clock, Live};
use amita_metadata::client::{Options, Tls};
use amita_metadata::{Call, Client};
use serde_json::Value;
use std::io::Read;
use std::net::TcpListener;
use std::path::Path;

/// A connection to the metadata beside all commands.
fn raw(world: &World, identity: &str) -> Client {
    let live = Live::open(Path::new(identity), Clock::system()).expect("an identity");
    let options = Options {
        tls: Some(Tls::of(&live)),
        ..Options::default()
    };
    Client::connect_with(&[world.cluster.endpoint()], options).expect("an address")
}

fn list(world: &World, identity: &str) -> Vec<Value> {
    let all = world.json(&["audit", "list", "--identity", identity]);
    all.as_array().expect("a list").clone()
}

fn find<'a>(list: &'a [Value], action: &str, outcome: &str, object: &str) -> Option<&'a Value> {
    list.iter()
        .find(|found| found["action"] == action && found["outcome"] == outcome && found["object"] == object)
}

#[test]
fn who_may_not_is_refused_and_told_of_and_who_changes_the_log_is_found() {
    let world = World::of(1);
    let ca = world.cluster.authority().expect("an authority").folder().to_owned();
    let ca = ca.to_str().expect("a path of ours");
    let (viewer, auditor) = (world.operator_with("viewer"), world.operator_with("auditor"));
    let daily = world.operator_with("operator");
    let unknown = world.amita(&[
        "operator",
        "create",
        "x",
        "--role",
        "root",
        "--ca",
        ca,
        "--identity",
        "x",
    ]);
    assert_eq!(unknown.status.code(), Some(2), "{}", unknown.text);
    assert!(unknown.text.contains("no role of an operator"), "{}", unknown.text);

    // A viewer looks, and that is all.
    let volumes = world.json(&["volume", "list", "--identity", &viewer]);
    assert_eq!(volumes[0]["name"], VOLUME);
    let create = [
        "volume",
        "create",
        "theirs",
        "--pool",
        "demo",
        "--size",
        "8M",
        "--identity",
    ];
    let refused = world.amita(&[&create[..], &[viewer.as_str()]].concat());
    assert_eq!(refused.status.code(), Some(1), "{}", refused.text);
    for word in ["eve-viewer", "volume.create (theirs)", "for admin and operator"] {
        assert!(refused.text.contains(word), "{word}: {}", refused.text);
    }
    for identity in [&viewer, &daily] {
        let refused = world.amita(&["audit", "list", "--identity", identity]);
        assert!(refused.text.contains("for admin and auditor"), "{}", refused.text);
    }
    let client = raw(&world, &viewer);
    let key = "/amita/volumes/raw";
    let written = client.txn(&Call::put(key, "{}")).expect_err("a viewer writes");
    assert!(written.to_string().contains("does not allow that"), "{written}");
    assert!(client.txn(&Call::get(key)).expect("it reads").value(0).is_none());

    // An operator does; and all of it is in the log, the viewer's refusals by the server's hand.
    world.amita_done(&[&create[..], &[daily.as_str()]].concat());
    eventually("the refusals are in the log", || {
        let told = list(&world, &auditor);
        find(&told, "volume.create", "refused", "theirs").is_some()
            && find(&told, "metadata.access", "refused", key).is_some()
    });
    let told = list(&world, &auditor);
    let refused = find(&told, "volume.create", "refused", "theirs").expect("found before");
    assert_eq!(
        (&refused["who"]["role"], &refused["who"]["proof"]),
        (&"viewer".into(), &"certificate".into())
    );
    assert_eq!(refused["whence"]["address"], "127.0.0.1", "{refused}");
    let done = find(&told, "volume.create", "done", "theirs").expect("it was made");
    let name = done["who"]["name"].as_str().expect("a name");
    assert!(name.ends_with("/operator/eve-operator/operator"), "{done}");
    let change = done["changes"].as_array().expect("changes").iter();
    let mut made = change.filter(|change| change["key"] == "/amita/volumes/theirs");
    assert_eq!(
        made.next().expect("the volume's record")["after"]["size_bytes"],
        8 << 20,
        "{done}"
    );

    // Whole, and shipped: each record once, and later only what is new.
    let verify = ["audit", "verify", "--identity", &auditor];
    let sound = world.json(&verify);
    assert_eq!(sound["ok"], true, "{sound}");
    let head = sound["head"].as_str().expect("a head").to_owned();
    let first = ship(&world, &auditor);
    assert_eq!(first.len() as u64, sound["records"].as_u64().expect("a number"));
    assert!(
        first
            .iter()
            .all(|line| line.starts_with("<1") && line.contains(" amita-audit ")),
        "{first:?}"
    );
    assert!(
        first
            .iter()
            .any(|line| line.contains("volume.create - ") && line.contains("\"refused\""))
    );
    world.amita_done(&["pool", "thresholds", "--near-full", "80"]);
    assert_eq!(
        ship(&world, &auditor).len(),
        2,
        "the beginning and the end of one action"
    );

    // The authority's own log.
    let issued = world.json(&["audit", "list", "--ca", ca]);
    assert!(
        issued.as_array().expect("a list").iter().any(|found| {
            let object = found["object"].as_str().unwrap_or_default();
            found["action"] == "cert.issue" && object.ends_with("/operator/eve-viewer/viewer")
        }),
        "{issued}"
    );
    assert_eq!(world.json(&["audit", "verify", "--ca", ca])["ok"], true);

    // Even who may write everything is found who changes a record.
    let admin = raw(&world, &world.operator());
    let seq = refused["seq"].as_u64().expect("a number");
    let key = format!("/amita/audit/records/{seq:012}");
    let reply = admin.txn(&Call::get(&key)).expect("it reads");
    let text = String::from_utf8(reply.value(0).expect("the record").value.clone()).expect("a text");
    admin
        .txn(&Call::put(&key, text.replace("theirs", "others")))
        .expect("an admin writes");
    let broken = world.amita(&verify);
    assert_eq!(broken.status.code(), Some(1), "{}", broken.text);
    assert!(
        broken.text.contains(&format!("record {seq} was changed")),
        "{}",
        broken.text
    );
    let stopped = world.amita(
        &ship_arguments(&world, "127.0.0.1:9", &auditor)
            .each_ref()
            .map(String::as_str),
    );
    assert!(
        stopped.text.contains(&format!("record {seq} was changed")),
        "{}",
        stopped.text
    );
    // Put back as it was, it is what was known before.
    admin.txn(&Call::put(&key, text)).expect("an admin writes");
    world.amita_done(&[&verify[..], &["--known", head.as_str()]].concat());
    world.end(&[]);
}

fn ship_arguments(world: &World, address: &str, identity: &str) -> [String; 8] {
    let cursor = world.file("cursor").display().to_string();
    [
        "audit",
        "ship",
        "--syslog",
        address,
        "--cursor",
        &cursor,
        "--identity",
        identity,
    ]
    .map(str::to_owned)
}

/// What a receiver of syslog gets.
fn ship(world: &World, identity: &str) -> Vec<String> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let receiver = std::thread::spawn(move || {
        let mut text = String::new();
        let (mut stream, _) = listener.accept().expect("it connects");
        stream.read_to_string(&mut text).expect("it is text");
        text
    });
    world.amita_done(&ship_arguments(world, &address, identity).each_ref().map(String::as_str));
    let text = receiver.join().expect("it was heard");
    let mut rest = text.as_str();
    let mut messages = Vec::new();
    while let Some((length, behind)) = rest.split_once(' ') {
        let (message, after) = behind.split_at(length.parse().expect("a length"));
        messages.push(message.to_owned());
        rest = after;
    }
    messages
}
