//! Alerts are told by a webhook: in the words of the status, at least once, by one node at a time.

use crate::posted::Posted;
use crate::world::{A_NODE_IS_GONE, A_NODE_RETURNS, WRITES_WAIT, World, eventually};
use amita_keys::SealKey;
use amita_notify::admin;
use amita_notify::send::sign;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The channel's key: nobody may see it.
const KEY: &str = "hunter2-signs-it";

/// A request that was taken.
#[derive(Clone)]
struct Taken {
    signature: Option<String>,
    body: Vec<u8>,
    json: Value,
}

/// A receiver, and all that it was sent.
#[derive(Clone)]
struct Receiver {
    port: u16,
    taken: Arc<Mutex<Vec<Taken>>>,
}

impl Receiver {
    fn new() -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let receiver = Receiver {
            port: listener.local_addr().expect("an address").port(),
            taken: Arc::default(),
        };
        let taken = Arc::clone(&receiver.taken);
        // It ends with the process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if let Some(request) = take(stream) {
                    taken.lock().expect("nobody panicked").push(request);
                }
            }
        });
        receiver
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hunter2-path", self.port)
    }

    fn all(&self) -> Vec<Taken> {
        self.taken.lock().expect("nobody panicked").clone()
    }

    /// What was told of alerts with that code and object: the state, and the rest.
    fn told(&self, code: &str, object: &str) -> Vec<(String, Value)> {
        let all = self.all();
        let alerts = all
            .iter()
            .flat_map(|taken| taken.json["alerts"].as_array().cloned().unwrap_or_default());
        let about = alerts.filter(|alert| alert["code"] == code && alert["object"] == object);
        about
            .map(|alert| (alert["state"].as_str().expect("a state").to_owned(), alert))
            .collect()
    }

    fn states(&self, code: &str, object: &str) -> Vec<String> {
        self.told(code, object).into_iter().map(|(state, _)| state).collect()
    }
}

fn take(mut stream: std::net::TcpStream) -> Option<Taken> {
    let posted = Posted::read(&stream)?;
    stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").ok()?;
    Some(Taken {
        signature: posted.header("amita-signature"),
        json: serde_json::from_slice(&posted.body).ok()?,
        body: posted.body,
    })
}

/// Which node tells: its place in the cluster.
fn leader(world: &World) -> usize {
    let meta = world.cluster.metadata_client().expect("the metadata");
    let mut found = None;
    eventually("somebody tells", || {
        let leader = admin::leader(&meta).expect("the metadata answers");
        let name = leader.map(|leader| leader.node);
        found = world
            .cluster
            .nodes()
            .iter()
            .position(|node| Some(&node.name) == name.as_ref());
        found.is_some()
    });
    found.expect("somebody tells")
}

fn name(world: &World, node: usize) -> String {
    world.cluster.nodes()[node].name.clone()
}

#[test]
fn a_channel_is_tested_by_the_node_that_tells_and_shows_its_secrets_to_nobody() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (seal, secret) = (file("seal"), file("secret"));
    SealKey::generate().save(seal.as_ref()).expect("saved");
    std::fs::write(&secret, format!("{KEY}\n")).expect("written");
    let world = World::serving(&["--seal-key", &seal]);
    let receiver = Receiver::new();
    let url = receiver.url();
    let add = |more: &[&str]| {
        let own = [
            "notify",
            "add",
            "webhook",
            "hook",
            "--url",
            &url,
            "--secret-file",
            &secret,
        ];
        world.amita(&[&own[..], more].concat())
    };
    let said = add(&["--allow-loopback"]);
    assert!(
        said.text.contains("--seal-key") && !said.text.contains(KEY),
        "{}",
        said.text
    );
    let said = add(&["--seal-key", &seal]);
    assert!(said.text.contains("loopback"), "{}", said.text);
    let made = add(&["--seal-key", &seal, "--allow-loopback", "--json"])
        .success()
        .expect("made")
        .text;
    leader(&world);
    let tested = world.amita_done(&["notify", "test", "hook"]);
    assert!(tested.contains("204 No Content"), "{tested}");
    let taken = receiver.all().pop().expect("a test");
    assert_eq!(taken.json["kind"], "test");
    let signature = taken.signature.expect("a signature");
    let at = signature["t=".len()..]
        .split(',')
        .next()
        .expect("a time")
        .parse()
        .expect("a number");
    assert_eq!(signature, sign(KEY, at, &taken.body));
    // A receiver that is not there is said to be that.
    let nowhere = TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("an address");
    let server = nowhere.to_string();
    world.amita_done(&[
        "notify",
        "add",
        "syslog",
        "log",
        "--by",
        "tcp",
        "--server",
        &server,
        "--allow-loopback",
    ]);
    let said = world.amita(&["notify", "test", "log"]);
    assert!(said.text.contains("does not take connections"), "{}", said.text);
    // Silences, and what is wrong with some.
    let made_silence = world.json(&[
        "alert",
        "silence",
        "add",
        "--code",
        "store-*",
        "--for",
        "2h",
        "--why",
        "new disks",
    ]);
    let id = made_silence["id"].as_str().expect("an id").to_owned();
    assert_eq!(world.json(&["alert", "silence", "list"])[0]["why"], "new disks");
    world.amita_done(&["alert", "silence", "remove", &id]);
    let said = world.amita(&["alert", "silence", "add", "--for", "91d", "--why", "x", "--code", "*"]);
    assert!(said.text.contains("90 days"), "{}", said.text);
    let alerts = world.json(&["alert", "list"]);
    assert!(
        alerts
            .as_array()
            .expect("a list")
            .iter()
            .all(|alert| alert["severity"] != "critical"),
        "{alerts}"
    );
    // Everything that the cluster says and knows.
    let meta = world.cluster.metadata_client().expect("the metadata");
    let records = meta.txn(&amita_metadata::Call::prefix("/amita/")).expect("read");
    let records: Vec<String> = records
        .values(0)
        .iter()
        .map(|found| String::from_utf8_lossy(&found.value).into_owned())
        .collect();
    let shown = [
        made,
        world.amita_done(&["notify", "list", "--json"]),
        world.amita_done(&["audit", "list", "--json"]),
        records.join("\n"),
    ];
    for text in shown {
        assert!(!text.contains("hunter2"), "{text}");
    }
    world.amita_done(&["notify", "remove", "hook"]);
    world.amita_done(&["notify", "remove", "log"]);
    assert_eq!(world.json(&["notify", "list"]), serde_json::json!([]));
    world.end(&[]);
}

/// Each message once, or the same again.
fn check_messages(all: &[Taken]) {
    let mut by_id: BTreeMap<String, Value> = BTreeMap::new();
    for taken in all.iter().filter(|taken| taken.json["kind"] != "test") {
        let id = taken.json["id"].as_str().expect("an id").to_owned();
        let told = |json: &Value| {
            let alerts = json["alerts"].as_array().expect("alerts").iter();
            let each = alerts.map(|alert| (alert["id"].to_string(), alert["state"].to_string()));
            each.collect::<Vec<_>>()
        };
        if let Some(same) = by_id.insert(id.clone(), taken.json.clone()) {
            assert_eq!(told(&same), told(&taken.json), "message {id} tells two things");
        }
    }
    // None of them is about what another one has told.
    let mut firing: BTreeMap<String, u32> = BTreeMap::new();
    for message in by_id.values().filter(|message| message["kind"] == "alerts") {
        for alert in message["alerts"]
            .as_array()
            .expect("alerts")
            .iter()
            .filter(|alert| alert["state"] == "firing")
        {
            *firing
                .entry(format!("{} {}", alert["id"], alert["severity"]))
                .or_default() += 1;
        }
    }
    assert!(firing.values().all(|count| *count == 1), "told twice: {firing:?}");
}

/// By the channel `hook`, until the dead one is removed.
fn a_channel_that_fails_is_told_by_the_other(world: &World, receiver: &Receiver) {
    let says = || {
        let facts = world.json(&["status"])["facts"].clone();
        let facts = facts.as_array().expect("facts").iter();
        let fails = facts.filter(|fact| fact["name"] == "channel-fails");
        fails.map(|fact| fact["objects"].clone()).collect::<Vec<_>>()
    };
    eventually("the status says that it fails", || {
        says() == [serde_json::json!(["dead"])]
    });
    let events = world.amita_done(&["events", "--json", "--kind", "channel-fails"]);
    assert_eq!(events.lines().count(), 1, "{events}");
    eventually("the other channel tells it", || {
        receiver.states("channel-fails", "dead") == ["firing"]
    });
    world.amita_done(&["notify", "remove", "dead"]);
    assert_eq!(says(), Vec::<Value>::new());
    eventually("and its end", || {
        receiver.states("channel-fails", "dead") == ["firing", "resolved"]
    });
}

#[test]
#[ignore = "an alert waits half a minute before it is told, and as long until it is over: scripts/soak runs it"]
fn a_killed_node_is_told_by_whoever_lives_and_so_is_its_return() {
    let mut world = World::of(4);
    let receiver = Receiver::new();
    let url = receiver.url();
    world.amita_done(&[
        "notify",
        "add",
        "webhook",
        "hook",
        "--url",
        &url,
        "--allow-loopback",
        "--group-wait",
        "1s",
    ]);
    // One that is dead keeps nobody waiting.
    let nowhere = TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("an address");
    let dead = format!("http://{nowhere}/");
    world.amita_done(&[
        "notify",
        "add",
        "webhook",
        "dead",
        "--url",
        &dead,
        "--allow-loopback",
        "--group-wait",
        "1s",
    ]);
    let first = leader(&world);
    let victim = (first + 1) % 4;
    let began = Instant::now();
    world.cluster.kill_node(victim);
    let victim_name = name(&world, victim);
    eventually("the alert is known", || {
        let alerts = world.json(&["alert", "list"]);
        alerts
            .as_array()
            .expect("a list")
            .iter()
            .any(|alert| alert["code"] == "node-down" && alert["object"] == *victim_name)
    });
    // In the middle: the alert is pending, and whoever would tell dies.
    world.cluster.kill_node(first);
    let first_name = name(&world, first);
    eventually("the killed node is told", || {
        !receiver.states("node-down", &victim_name).is_empty()
    });
    eprintln!(
        "told {} s after the kill, by another node than the one that had seen it",
        began.elapsed().as_secs()
    );
    eventually("so is the one that told", || {
        !receiver.states("node-down", &first_name).is_empty()
    });
    let second = leader(&world);
    assert!(second != first && second != victim);
    let (_, told) = receiver.told("node-down", &victim_name).remove(0);
    let facts = world.json(&["status"])["facts"].clone();
    let fact = facts
        .as_array()
        .expect("facts")
        .iter()
        .find(|fact| fact["name"] == "node-down" && fact["objects"][0] == *victim_name);
    let fact = fact.expect("the fact");
    assert_eq!(
        (&told["what"], &told["advice"]),
        (&fact["text"], &fact["advice"]),
        "the words of the status"
    );
    assert_eq!(
        (told["runbook"].as_str(), told["labels"]["node"].as_str()),
        (Some("AmitaNodeDown"), Some(victim_name.as_str()))
    );
    // Somebody looks after it.
    let id = told["id"].as_str().expect("an id");
    let known = world.json(&["alert", "ack", id, "--note", "on my way"]);
    assert_eq!(known["acknowledged"]["note"], "on my way");
    let channels = world.json(&["notify", "list"]);
    let of = |name: &str| {
        channels
            .as_array()
            .expect("a list")
            .iter()
            .find(|channel| channel["name"] == name)
            .cloned()
            .expect("it")
    };
    assert!(
        of("dead")["failures"].as_u64() > Some(0) && of("hook")["failures"] == 0,
        "{channels}"
    );
    for node in [victim, first] {
        world.cluster.start_node(node).expect("it starts again");
        world.cluster.await_node(node).expect("it serves again");
    }
    for name in [&victim_name, &first_name] {
        eventually("its return is told", || {
            receiver.states("node-down", name).contains(&"resolved".to_owned())
        });
        assert_eq!(receiver.states("node-down", name), ["firing", "resolved"]);
    }
    a_channel_that_fails_is_told_by_the_other(&world, &receiver);
    check_messages(&receiver.all());
    thread::sleep(Duration::from_secs(2));
    let dead = &["could not be told of alerts"][..];
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS, WRITES_WAIT, dead].concat());
}
