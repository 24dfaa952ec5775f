//! Agents of several nodes against the embedded metadata server: leases, the election, evictions, outages.

use amita_control::admin::{self, PoolSpec};
use amita_control::agent::{Agent, Config, Notice, STOPPED, Sink};
use amita_control::coordinator::{self, election_key};
use amita_control::events;
use amita_control::past::PastFile;
use amita_metadata::server::{self, Handle};
use amita_metadata::{Call, Client, Error, Op, Options};
use amita_types::map::{self, Group, Live, Store};
use amita_types::placement::Level;
use amita_types::{ClusterId, NodeId, StoreId};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Short enough for a test, long enough for a busy machine.
const TTL_S: u64 = 2;

struct Scene {
    folder: TempDir,
    server: Option<Handle>,
    address: SocketAddr,
}

impl Scene {
    fn new() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let mut scene = Scene {
            folder,
            server: None,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        };
        scene.serve();
        scene
    }

    fn serve(&mut self) {
        let config = server::Config::new(self.address, self.folder.path().join("meta"));
        let server = server::start(config).unwrap();
        self.address = server.address();
        self.server = Some(server);
    }

    fn client(&self) -> Client {
        let options = Options {
            timeout: Duration::from_secs(3),
            ..Options::default()
        };
        Client::connect_with(&[self.address.to_string()], options).unwrap()
    }

    /// A node with a store, registered and started.
    fn node(&self, name: &str, session: u64) -> Running {
        let client = self.client();
        let id = admin::node_number(&client, name).unwrap();
        let store = admin::store_record(store_of(id), id, "/x", 1 << 30);
        admin::register_store(&client, &store).unwrap();
        Running::start(self.client(), id, session)
    }
}

fn store_of(node: NodeId) -> StoreId {
    StoreId(u128::from(node.0))
}

fn config(node: NodeId, session: u64) -> Config {
    let coordinator = coordinator::Config {
        patience: Duration::from_millis(200),
        ..coordinator::Config::default()
    };
    Config {
        lease_ttl_s: TTL_S,
        coordinator,
        ..Config::new(node, session)
    }
}

#[derive(Default)]
struct Heard {
    records: BTreeMap<String, Option<Vec<u8>>>,
    replies: Vec<(u64, Result<amita_metadata::Reply, Error>)>,
    warnings: Vec<String>,
    infos: Vec<String>,
    /// What was said of metadata that is not believed, and whether it is again.
    doubts: Vec<String>,
    believed: bool,
}

struct Running {
    id: NodeId,
    agent: Agent,
    heard: Arc<Mutex<Heard>>,
}

fn sink() -> (Sink, Arc<Mutex<Heard>>) {
    let heard = Arc::new(Mutex::new(Heard::default()));
    let into = Arc::clone(&heard);
    let sink = move |notice| {
        let mut heard = into.lock().unwrap();
        match notice {
            Notice::Record { key, value, .. } => drop(heard.records.insert(key, value)),
            Notice::Reply { call, result } => heard.replies.push((call, result)),
            // Nobody has hosts to drop.
            Notice::Doubted { why, .. } => {
                heard.doubts.push(why);
                heard.believed = false;
            }
            Notice::Believed => heard.believed = true,
            Notice::Settled { .. } | Notice::Seen | Notice::Lapsed { .. } => {}
            Notice::Warn(text) => heard.warnings.push(text),
            Notice::Info(text) => heard.infos.push(text),
        }
    };
    (Arc::new(sink), heard)
}

impl Running {
    fn start(client: Client, id: NodeId, session: u64) -> Running {
        let (sink, heard) = sink();
        let agent = Agent::start(&client, &config(id, session), sink).unwrap();
        agent.store_serves(store_of(id));
        Running { id, agent, heard }
    }

    fn leads(&self) -> bool {
        let heard = self.heard.lock().unwrap();
        heard
            .infos
            .iter()
            .rfind(|text| text.contains("coordinator"))
            .is_some_and(|text| !text.contains("no longer"))
    }

    fn warnings(&self, about: &str) -> usize {
        self.heard
            .lock()
            .unwrap()
            .warnings
            .iter()
            .filter(|text| text.contains(about))
            .count()
    }
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn there(client: &Client, key: &str) -> Option<Vec<u8>> {
    client
        .txn(&Call::get(key))
        .unwrap()
        .value(0)
        .map(|found| found.value.clone())
}

fn groups(client: &Client) -> Vec<Group> {
    client
        .txn(&Call::prefix(format!("{}groups/", map::PREFIX)))
        .unwrap()
        .values(0)
        .iter()
        .map(|found| found.json().unwrap())
        .collect()
}

/// Waits until each node's key names its store: a pool is made of those that are served, and what an agent says of its store it
/// says a little later than it lives.
fn await_stores(client: &Client, nodes: &[Running]) {
    eventually("all stores are shown", || {
        nodes.iter().all(|node| {
            let live = there(client, &map::live_key(node.id));
            let live = live.and_then(|live| serde_json::from_slice::<Live>(&live).ok());
            live.is_some_and(|live| live.stores == Some(vec![store_of(node.id)]))
        })
    });
}

fn make_pool(client: &Client, copies: u8, min_copies: u8) {
    let spec = PoolSpec {
        name: "main".to_owned(),
        copies,
        min_copies,
        groups: 16,
        chunk_bytes: admin::DEFAULT_CHUNK_BYTES,
        level: Level::Node,
        class: None,
    };
    admin::create_pool(client, &spec).unwrap();
}

/// Takes the key of a node's life away, as the end of its lease does. Its agent is gone without a word.
fn kill(client: &Client, running: Running) -> NodeId {
    let id = running.id;
    // Its threads go on, without a lease to renew: nothing of them reaches the metadata.
    let found = client
        .txn(&Call::get(map::live_key(id)))
        .unwrap()
        .value(0)
        .unwrap()
        .clone();
    let impostor = serde_json::to_vec(&Live {
        stores: None,
        session: 999,
        pid: 999,
        version: map::METADATA_VERSION,
    })
    .unwrap();
    let lease = client.lease_grant(60).unwrap();
    let put = Op::Put {
        key: found.key.clone(),
        value: impostor,
        lease: Some(lease.id),
    };
    client
        .txn(&Call {
            then: vec![put],
            ..Call::default()
        })
        .unwrap();
    drop(running.agent);
    client.lease_revoke(lease.id).unwrap();
    id
}

#[test]
fn an_agent_shows_its_node_alive_and_tells_every_record() {
    let scene = Scene::new();
    let client = scene.client();
    admin::init_cluster(&client, ClusterId(1)).unwrap();
    let node = scene.node("a", 11);
    let live: Live = serde_json::from_slice(&there(&client, &map::live_key(node.id)).unwrap()).unwrap();
    assert_eq!((live.session, live.pid), (11, std::process::id()));
    let told = |key: &str| node.heard.lock().unwrap().records.get(key).cloned();
    eventually("the records that were there", || told(&map::cluster_key()).is_some());
    eventually("its own life", || told(&map::live_key(node.id)).is_some());
    client.txn(&Call::put("/amita/volumes/v", "{}")).unwrap();
    eventually("a new record", || {
        told("/amita/volumes/v") == Some(Some(b"{}".to_vec()))
    });
    let delete = Call {
        then: vec![Op::Delete {
            key: "/amita/volumes/v".into(),
        }],
        ..Call::default()
    };
    client.txn(&delete).unwrap();
    eventually("a record that is gone", || told("/amita/volumes/v") == Some(None));
    assert!(told("/other/x").is_none());
    // The lease is renewed for longer than it lives.
    eventually("it leads", || node.leads() && there(&client, &election_key()).is_some());
    std::thread::sleep(Duration::from_secs(2 * TTL_S));
    assert!(there(&client, &map::live_key(node.id)).is_some());
    assert!(node.leads() && there(&client, &election_key()).is_some());

    // Stopped in good order, it says so, makes room for another coordinator, and may start again at once.
    let id = node.id;
    drop(node);
    let live: Live = serde_json::from_slice(&there(&client, &map::live_key(id)).unwrap()).unwrap();
    assert_eq!(live.pid, STOPPED);
    assert_eq!(there(&client, &election_key()), None);
    let started = Instant::now();
    let again = Running::start(scene.client(), id, 12);
    assert!(
        started.elapsed() < Duration::from_secs(TTL_S),
        "it need not wait for the lease to end"
    );
    eventually("it leads again", || again.leads());
}

#[test]
fn a_second_process_of_the_same_node_is_refused() {
    let scene = Scene::new();
    let first = scene.node("a", 1);
    let (sink, heard) = sink();
    let error = Agent::start(&scene.client(), &config(first.id, 2), sink)
        .err()
        .expect("the name is taken");
    assert_eq!((error.node, error.pid), (first.id, std::process::id()));
    assert!(error.to_string().contains("stop the other process"), "{error}");
    assert!(heard.lock().unwrap().infos[0].contains("waiting"));
    assert!(
        there(&scene.client(), &map::live_key(first.id)).is_some(),
        "the first is not disturbed"
    );
}

#[test]
fn cores_calls_are_carried_out_and_answered() {
    let scene = Scene::new();
    let node = scene.node("a", 1);
    for number in 0..50 {
        node.agent
            .call(number, Call::put_if(format!("/amita/test/{}", number % 10), 0, "x"));
    }
    eventually("all answers", || node.heard.lock().unwrap().replies.len() == 50);
    let heard = node.heard.lock().unwrap();
    let numbers: std::collections::BTreeSet<u64> = heard.replies.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers.len(), 50);
    let won = heard
        .replies
        .iter()
        .filter(|(_, result)| result.as_ref().unwrap().succeeded)
        .count();
    assert_eq!(won, 10, "one of five for each key");
}

#[test]
fn a_dead_nodes_stores_are_evicted_whoever_leads() {
    let scene = Scene::new();
    let client = scene.client();
    let mut nodes: Vec<Running> = ["a", "b", "c", "d"].iter().map(|name| scene.node(name, 1)).collect();
    await_stores(&client, &nodes);
    make_pool(&client, 4, 2);
    eventually("somebody leads", || nodes.iter().any(Running::leads));
    assert_eq!(nodes.iter().filter(|node| node.leads()).count(), 1);

    let follower = nodes.iter().position(|node| !node.leads()).unwrap();
    let dead = kill(&client, nodes.remove(follower));
    eventually("the follower's stores are evicted", || {
        groups(&client)
            .iter()
            .all(|group| group.epoch.0 == 2 && !group.in_sync.contains(&store_of(dead)))
    });

    // The coordinator itself dies: another takes over, and evicts it, without the patience of a cold start.
    let leader = nodes.iter().position(Running::leads).unwrap();
    let holder = client
        .txn(&Call::get(election_key()))
        .unwrap()
        .value(0)
        .unwrap()
        .lease
        .unwrap();
    let dead = kill(&client, nodes.remove(leader));
    // Its lease may be gone by its own good order already.
    let _ = client.lease_revoke(holder);
    eventually("another leads", || nodes.iter().any(Running::leads));
    eventually("the old coordinator's stores are evicted", || {
        groups(&client)
            .iter()
            .all(|group| group.epoch.0 == 3 && !group.in_sync.contains(&store_of(dead)))
    });

    // Two are left, and that is the least.
    let dead = kill(&client, nodes.remove(0));
    eventually("the operator is told", || {
        nodes[0].warnings("writes to 16 groups wait") > 0
    });
    assert!(
        groups(&client)
            .iter()
            .all(|group| group.in_sync.contains(&store_of(dead)) && group.epoch.0 == 3)
    );
}

#[test]
fn an_outage_of_the_metadata_is_said_once_and_passes() {
    let mut scene = Scene::new();
    let client = scene.client();
    let nodes: Vec<Running> = ["a", "b", "c"].iter().map(|name| scene.node(name, 1)).collect();
    await_stores(&client, &nodes);
    make_pool(&client, 3, 2);
    eventually("somebody leads", || nodes.iter().any(Running::leads));
    scene.server.take().unwrap().stop();
    std::thread::sleep(Duration::from_secs(2 * TTL_S));
    nodes[0].agent.call(7, Call::get("/amita/x"));
    eventually("the call fails", || {
        let heard = nodes[0].heard.lock().unwrap();
        heard
            .replies
            .iter()
            .any(|(number, result)| *number == 7 && matches!(result, Err(Error::Unavailable { .. })))
    });
    for node in &nodes {
        eventually("it is said", || node.warnings("lease cannot be renewed") > 0);
        assert_eq!(
            node.warnings("lease cannot be renewed"),
            1,
            "said once: {:?}",
            node.heard.lock().unwrap().warnings
        );
    }
    scene.serve();
    for node in &nodes {
        eventually("it is said that it is over", || {
            node.heard
                .lock()
                .unwrap()
                .infos
                .iter()
                .any(|text| text.contains("answers again"))
        });
    }
    // Longer than a lease, and the patience: nobody was evicted for an outage of the metadata.
    std::thread::sleep(Duration::from_secs(TTL_S + 1));
    assert!(groups(&client).iter().all(|group| group.epoch.0 == 1));
    assert!(
        nodes
            .iter()
            .all(|node| there(&client, &map::live_key(node.id)).is_some())
    );
    // What happens now is told again.
    client.txn(&Call::put("/amita/test", "new")).unwrap();
    for node in &nodes {
        eventually("the watch goes on", || {
            node.heard.lock().unwrap().records.contains_key("/amita/test")
        });
    }
    assert!(
        admin::stores(&client)
            .unwrap()
            .iter()
            .map(|store: &Store| store.node)
            .eq(nodes.iter().map(|node| node.id))
    );
}

/// A node whose lease ended unnoticed (it was frozen) takes a new one and is there again.
#[test]
fn a_lost_lease_is_taken_anew() {
    let scene = Scene::new();
    let client = scene.client();
    let node = scene.node("a", 1);
    let lease = client
        .txn(&Call::get(map::live_key(node.id)))
        .unwrap()
        .value(0)
        .unwrap()
        .lease
        .unwrap();
    client.lease_revoke(lease).unwrap();
    eventually("it is there again", || {
        there(&client, &map::live_key(node.id)).is_some()
    });
    assert_eq!(node.warnings("lease had ended"), 1);
    eventually("it leads again, under the new lease", || {
        there(&client, &election_key()).is_some() && node.leads()
    });
}

#[test]
fn a_store_that_fails_is_evicted_and_taken_back_when_it_serves_again() {
    let scene = Scene::new();
    let client = scene.client();
    let nodes: Vec<Running> = ["a", "b", "c"].iter().map(|name| scene.node(name, 1)).collect();
    await_stores(&client, &nodes);
    make_pool(&client, 3, 2);
    eventually("somebody leads", || nodes.iter().any(Running::leads));
    let failed = store_of(nodes[1].id);
    nodes[1].agent.store_failed(failed);
    eventually("it is evicted", || {
        groups(&client)
            .iter()
            .all(|group| group.in_sync.len() == 2 && !group.in_sync.contains(&failed))
    });
    let kinds = || -> Vec<String> {
        let found = events::query(&client, &events::Query::default()).unwrap();
        found.into_iter().map(|event| event.kind).collect()
    };
    eventually("it is told", || kinds().contains(&"stores-evicted".to_owned()));
    nodes[1].agent.store_serves(failed);
    eventually("it is taken back", || {
        groups(&client)
            .iter()
            .all(|group| group.in_sync.contains(&failed) && group.syncing.is_empty() && group.epoch.0 == 4)
    });
    eventually("that is told too", || {
        let kinds = kinds();
        let told = |kind: &str| kinds.iter().any(|own| own == kind);
        told("coordinator-elected") && told("sync-started") && told("sync-finished")
    });
    assert!(
        nodes.iter().all(|node| node
            .heard
            .lock()
            .unwrap()
            .records
            .keys()
            .all(|key| !key.contains("/events/"))),
        "nodes do not listen to what is only told"
    );
    // A node that starts now reads all records but the events.
    let late = scene.node("d", 1);
    eventually("it knows the pool", || {
        late.heard.lock().unwrap().records.contains_key(&map::pool_key("main"))
    });
    assert!(
        late.heard
            .lock()
            .unwrap()
            .records
            .keys()
            .all(|key| !key.contains("/events/"))
    );
    assert!(
        late.heard.lock().unwrap().records.contains_key(&map::cluster_key())
            == there(&client, &map::cluster_key()).is_some()
    );
}

/// Gives a file back that lies aside, under a server that stands still meanwhile; the present one goes there.
fn exchange(scene: &mut Scene, aside: &str) {
    scene.server.take().unwrap().stop();
    let (file, aside) = (scene.folder.path().join("meta"), scene.folder.path().join(aside));
    let third = scene.folder.path().join("third");
    std::fs::rename(&file, &third).unwrap();
    std::fs::rename(&aside, &file).unwrap();
    std::fs::rename(&third, &aside).unwrap();
    scene.serve();
}

#[test]
fn nothing_of_an_older_copy_is_told_and_nothing_asked_of_it() {
    const RIGHT: &str = "/amita/exports/1";
    let mut scene = Scene::new();
    let client = scene.client();
    admin::init_cluster(&client, ClusterId(1)).unwrap();
    let node = scene.node("a", 11);
    let told = |key: &str| node.heard.lock().unwrap().records.get(key).cloned();
    client.txn(&Call::put(RIGHT, "{}")).unwrap();
    eventually("the right", || told(RIGHT) == Some(Some(b"{}".to_vec())));
    eventually("it leads", || node.leads());
    scene.server.take().unwrap().stop();
    std::fs::copy(scene.folder.path().join("meta"), scene.folder.path().join("older")).unwrap();
    scene.serve();
    let delete = Call {
        then: vec![Op::Delete { key: RIGHT.into() }],
        ..Call::default()
    };
    client.txn(&delete).unwrap();
    eventually("the right is gone", || told(RIGHT) == Some(None));
    assert!(node.leads(), "it is the same metadata, and the election goes on");

    exchange(&mut scene, "older");
    eventually("it is noticed", || !node.heard.lock().unwrap().doubts.is_empty());
    eventually("nobody leads by it", || !node.leads());
    // However much is written to it.
    for step in 0..100 {
        client.txn(&Call::put("/amita/test", step.to_string())).unwrap();
    }
    let calls = |number: u64| {
        node.agent.call(number, Call::get(RIGHT));
        eventually("an answer", || {
            let heard = node.heard.lock().unwrap();
            heard.replies.iter().any(|(of, _)| *of == number)
        });
        let heard = node.heard.lock().unwrap();
        heard.replies.iter().find(|(of, _)| *of == number).unwrap().1.clone()
    };
    // Longer than a lease, and several reads.
    for number in 0..TTL_S + 2 {
        std::thread::sleep(Duration::from_secs(1));
        match calls(number) {
            Err(Error::Unavailable { what, .. }) => assert!(what.contains("older copy"), "{what}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(told(RIGHT), Some(None));
        assert_eq!(told("/amita/test"), None);
    }
    let doubts = node.heard.lock().unwrap().doubts.clone();
    assert_eq!(doubts.len(), 1, "said once: {doubts:?}");

    exchange(&mut scene, "older");
    eventually("it is believed", || node.heard.lock().unwrap().believed);
    eventually("it leads", || node.leads() && there(&client, &election_key()).is_some());
    assert!(calls(1000).is_ok());
    assert_eq!(told(RIGHT), Some(None));
    assert_eq!(told("/amita/test"), None);
    client.txn(&Call::put(RIGHT, "{}")).unwrap();
    eventually("a right that was given again", || {
        told(RIGHT) == Some(Some(b"{}".to_vec()))
    });
}

#[test]
fn what_was_seen_outlives_the_process() {
    const RIGHT: &str = "/amita/exports/1";
    let mut scene = Scene::new();
    let client = scene.client();
    admin::init_cluster(&client, ClusterId(1)).unwrap();
    let id = admin::node_number(&client, "a").unwrap();
    let file = PastFile::in_folder(scene.folder.path(), "a");
    let start = |session: u64| {
        let (sink, heard) = sink();
        let mut config = config(id, session);
        config.past = file.load().unwrap().unwrap_or_default();
        config.past_file = Some(file.clone());
        let agent = Agent::start(&client, &config, sink).unwrap();
        Running { id, agent, heard }
    };
    client.txn(&Call::put(RIGHT, "{}")).unwrap();
    scene.server.take().unwrap().stop();
    std::fs::copy(scene.folder.path().join("meta"), scene.folder.path().join("older")).unwrap();
    scene.serve();
    let node = start(1);
    let told = |node: &Running| node.heard.lock().unwrap().records.get(RIGHT).cloned();
    eventually("the right", || told(&node) == Some(Some(b"{}".to_vec())));
    let kept = || std::fs::read_to_string(file.path()).unwrap();
    assert!(kept().contains(RIGHT), "it was kept before it was told: {}", kept());
    // The next one is kept soon, also where nothing else happens.
    let delete = Call {
        then: vec![Op::Delete { key: RIGHT.into() }],
        ..Call::default()
    };
    client.txn(&delete).unwrap();
    eventually("that it is gone is kept", || !kept().contains(RIGHT));
    drop(node);

    exchange(&mut scene, "older");
    let node = start(2);
    eventually("it is noticed", || !node.heard.lock().unwrap().doubts.is_empty());
    for step in 0..100 {
        client.txn(&Call::put("/amita/test", step.to_string())).unwrap();
    }
    drop(node);
    let node = start(3);
    eventually("it is noticed again", || !node.heard.lock().unwrap().doubts.is_empty());
    assert!(node.heard.lock().unwrap().records.is_empty(), "nothing of it is told");
    exchange(&mut scene, "older");
    eventually("it is believed", || node.heard.lock().unwrap().believed);
    eventually("the records", || !node.heard.lock().unwrap().records.is_empty());
    assert_eq!(told(&node), None);
}
