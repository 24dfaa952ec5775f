//! What nodes remember, asked of any of them: added up, and who did not answer is named.

use super::world::World;
use amita_api::{
    Api, Counters, IscsiSession, Listener, NodeCounters, Observed, OwnSessions, Server, SessionQuestion, Sessions,
    Trace,
};
use amita_control::admin::{self, TargetSpec};
use amita_history::{Buckets, Counts, History, LEAST_BYTES, Layout, Metric, Object, Place, Totals};
use amita_metadata::Call;
use amita_types::map::{self, Node};
use amita_types::{ClusterId, StoreId};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

const ONE: &str = "iqn.2026-01.io.test:one";
const OTHER: &str = "iqn.2026-01.io.test:two";

/// A minute of figures, so many seconds ago.
const AGO_S: u64 = 120;

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Of a node on which `volume` has done so many writes a second, which took `bucket`.
fn remembered(folder: &Path, node: &str, volume: &str, writes: u64, bucket: u16) -> Arc<History> {
    let place = Place {
        folder: folder.to_owned(),
        bytes: LEAST_BYTES,
        cluster: ClusterId(9),
        node: node.to_owned(),
    };
    let start = (now() - AGO_S) / 60 * 60;
    let layout = Layout::within(LEAST_BYTES).unwrap();
    let history = History::open(&place, layout, start).unwrap().0;
    for step in 0..=6_u64 {
        let count = step * 10 * writes;
        let totals = Totals {
            rates: vec![(Metric::Iops, count), (Metric::Bytes, count * 4096)],
            gauges: Vec::new(),
            latencies: vec![(Metric::WriteLatency, Buckets::of([(bucket, count)], count * 50_000))],
        };
        let space = Totals {
            gauges: vec![(Metric::Used, 300), (Metric::Capacity, 1000)],
            ..Totals::default()
        };
        let counts = Counts {
            now_ns: step * 10_000_000_000,
            objects: vec![
                (Object::Volume(volume.to_owned()), totals.clone()),
                (Object::Store(StoreId(u128::from(writes))), totals),
                (Object::Node, space),
            ],
        };
        history.take(counts, start + step * 10);
    }
    Arc::new(history)
}

fn serve(world: &World, node: &str, history: Option<Arc<History>>) -> Server {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
    let name = node.to_owned();
    let api = Api::watching(world.client.clone()).observing(Observed {
        node: node.to_owned(),
        cluster: ClusterId(9).to_string(),
        identity: None,
        history,
        traces: Some(Arc::new(move |question| {
            assert!(question.limit <= 3);
            vec![trace(&name, if name == "n1" { 20 } else { 10 })]
        })),
        counters: Some(counters(node)),
        sessions: Some(sessions(node)),
    });
    let server = Server::start(listener, None, api, node).unwrap();
    reached_at(world, node, server.address());
    server
}

fn counters(node: &str) -> Counters {
    let name = node.to_owned();
    Arc::new(move || {
        Some(NodeCounters {
            node: 1,
            name: name.clone(),
            cluster: ClusterId(9).to_string(),
            now_ns: 7,
            core_count: 1,
            volumes: Vec::new(),
            stores: Vec::new(),
            cores: Vec::new(),
        })
    })
}

/// Of two initiators one each, and of one of them another one, at two cores.
fn sessions(node: &str) -> Sessions {
    let isid = if node == "n1" { "800000000001" } else { "800000000002" };
    let session = move |core: u64, number: u64, initiator: &str| -> IscsiSession {
        let value = serde_json::json!({
            "node": "", "core": core, "number": number, "initiator": initiator, "proven": true, "peer": "192.0.2.9:999",
            "iqn": "iqn.2026-11.io.amita:00000000:db", "isid": isid, "tsih": 7, "tag": 1, "portal": "192.0.2.1:3260", "since": 9,
            "silent_seconds": 1, "header_digest": true, "data_digest": false, "immediate_data": true, "initial_r2t": true,
            "max_receive_bytes": 262_144, "max_send_bytes": 8192, "max_burst_bytes": 262_144, "first_burst_bytes": 65_536,
            "max_outstanding_r2t": 1, "commands": 128, "under_way": 3,
        });
        serde_json::from_value(value).unwrap()
    };
    Arc::new(move |question: &SessionQuestion| {
        let all = [(0, 5, ONE), (0, 9, OTHER), (3, 1, ONE)];
        let wanted = all.into_iter().filter(|(core, number, initiator)| {
            question.after.is_none_or(|after| (*core, *number) > after)
                && question.initiator.as_ref().is_none_or(|wanted| wanted == initiator)
                && question
                    .iqn
                    .as_ref()
                    .is_none_or(|iqn| iqn == "iqn.2026-11.io.amita:00000000:db")
        });
        let mut sessions: Vec<IscsiSession> = wanted
            .map(|(core, number, initiator)| session(core, number, initiator))
            .collect();
        let is_cut = sessions.len() > question.limit;
        sessions.truncate(question.limit);
        OwnSessions {
            sessions,
            is_cut,
            silent_cores: 0,
        }
    })
}

fn trace(volume: &str, ago_ns: u64) -> Trace {
    let value = serde_json::json!({
        "id": 1, "ago_ns": ago_ns, "volume": volume, "op": "write", "offset": 0, "length": 4096, "total_ns": 9,
        "stages": [{ "stage": "stores", "ns": 9 }], "stores": [],
    });
    serde_json::from_value(value).unwrap()
}

fn reached_at(world: &World, node: &str, address: SocketAddr) {
    let found = admin::nodes(&world.client)
        .unwrap()
        .into_iter()
        .find(|found| found.name == node);
    let record = Node {
        api: Some(address.to_string()),
        ..found.unwrap()
    };
    let record = serde_json::to_vec(&record).unwrap();
    world.client.txn(&Call::put(map::node_key(node), record)).unwrap();
}

fn ask(server: &Server, path: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(super::world::PATIENCE)).unwrap();
    let head = format!(
        "GET /api/v1{path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        server.address()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap())
}

fn done(server: &Server, path: &str) -> Value {
    let (status, body) = ask(server, path);
    assert_eq!(status, 200, "{path}: {body}");
    body
}

fn missing(answer: &Value) -> Vec<(String, String)> {
    let nodes = answer["missing"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    nodes.map(|node| (text(&node["node"]), text(&node["why"]))).collect()
}

#[test]
fn any_node_answers_for_all_and_names_those_that_do_not_answer() {
    let (world, folder) = (World::new(), tempfile::tempdir().unwrap());
    let one = serve(&world, "n1", Some(remembered(folder.path(), "n1", "db", 100, 60)));
    let two = serve(&world, "n2", Some(remembered(folder.path(), "n2", "web", 700, 80)));
    for server in [&one, &two] {
        let answer = done(server, "/history?object=cluster&metric=iops&step=60");
        assert_eq!((&answer["unit"], &answer["step_s"]), (&"1/s".into(), &60.into()));
        let points = answer["points"].as_array().unwrap();
        assert_eq!((points.len(), &points[0]["mean"]), (1, &800.0.into()), "{answer}");
        let left = missing(&answer);
        assert!(
            left.len() == 1 && left[0].0 == "n3" && left[0].1.contains("no API"),
            "{left:?}"
        );
    }
    let of = |object: &str| done(&two, &format!("/history?object={object}&metric=bytes&step=60"));
    assert_eq!(of("node/n1")["points"][0]["mean"], 409_600.0);
    assert_eq!(of("volume/db")["points"][0]["mean"], 409_600.0);
    assert_eq!(of(&format!("store/{}", StoreId(700)))["points"][0]["mean"], 2_867_200.0);
    assert_eq!(of("volume/none")["points"], Value::Array(Vec::new()));
    assert!(missing(&of("node/n1")).is_empty(), "nobody else is asked");
    let latency = done(&one, "/history?object=cluster&metric=latency&step=60");
    assert_eq!(latency["points"][0]["percentiles"]["count"], 48_000);
    let map = done(&one, "/history/heatmap?object=cluster");
    let counts = |column: &Value| {
        column["counts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|n| n.as_u64().unwrap())
            .sum::<u64>()
    };
    assert_eq!(
        map["columns"].as_array().unwrap().iter().map(counts).sum::<u64>(),
        48_000
    );
    let top = done(&one, "/history/top?by=bytes&limit=1");
    assert_eq!(
        (&top["rows"][0]["name"], &top["rest"]["ios"]),
        (&"web".into(), &6_000.into()),
        "{top}"
    );
    let stores = done(&one, "/history/top?of=stores");
    assert_eq!(stores["rows"][1]["name"], StoreId(100).to_string());
    let forecast = done(&one, "/history/forecast?object=cluster");
    assert_eq!(forecast["forecast"], Value::Null, "a minute says nothing");
    let traces = done(&one, "/traces?limit=3");
    let names: Vec<&str> = traces["traces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["node"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["n2", "n1"], "the newest first");
    let named = |answer: &Value| -> Vec<String> {
        let items = answer["items"].as_array().unwrap().iter();
        items.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let all = done(&two, "/counters");
    assert_eq!(
        (named(&all), &all["next"]),
        (vec!["n1".to_owned(), "n2".to_owned()], &Value::Null)
    );
    assert_eq!(missing(&all)[0].0, "n3");
    // In pieces they are the same, and only the nodes of a piece are asked.
    let first = done(&two, "/counters?limit=1");
    assert_eq!((named(&first), &first["next"]), (vec!["n1".to_owned()], &"n1".into()));
    assert!(missing(&first).is_empty(), "{first}");
    let rest = done(&two, "/counters?limit=2&after=n1");
    assert_eq!((named(&rest), &rest["next"]), (vec!["n2".to_owned()], &Value::Null));

    drop(two);
    let answer = done(&one, "/history?object=cluster&metric=iops&step=60");
    assert_eq!(answer["points"][0]["mean"], 100.0);
    assert!(missing(&answer)[0].1.contains("cannot be reached"), "{answer}");
    reached_at(&world, "n2", one.address());
    let left = missing(&done(&one, "/history?object=cluster&metric=iops"));
    assert!(left[0].1.contains("is node n1 here"), "{left:?}");
    let _two = serve(&world, "n2", None);
    let left = missing(&done(&one, "/history/top"));
    assert!(left[0].1.contains("keeps none"), "{left:?}");
}

#[test]
fn any_gateway_tells_the_sessions_of_all() {
    let world = World::new();
    let servers = [serve(&world, "n1", None), serve(&world, "n2", None)];
    let portal = SocketAddr::from(([192, 0, 2, 1], 3260));
    for found in admin::nodes(&world.client).unwrap() {
        admin::register_iscsi_gateway(&world.client, &found.name, found.id, 1, &[portal]).unwrap();
    }
    let spec = TargetSpec {
        name: "db".to_owned(),
        iqn: Some("iqn.2026-11.io.amita:00000000:db".to_owned()),
        ..TargetSpec::default()
    };
    admin::create_target(&world.client, &spec).unwrap();
    let places = |answer: &Value| -> Vec<String> {
        let items = answer["items"].as_array().unwrap().iter();
        let place = |item: &Value| format!("{}/{}/{}", item["node"].as_str().unwrap(), item["core"], item["number"]);
        items.map(place).collect()
    };
    let all = ["n1/0/5", "n1/0/9", "n1/3/1", "n2/0/5", "n2/0/9", "n2/3/1"];
    for server in &servers {
        let answer = done(server, "/iscsi/sessions");
        assert_eq!(places(&answer), all);
        assert_eq!(answer["next"], Value::Null);
        let session = &answer["items"][0];
        assert_eq!(
            (&session["target"], &session["isid"]),
            (&"db".into(), &"800000000001".into())
        );
        // The third speaks iSCSI, and serves no API.
        assert_eq!(missing(&answer)[0].0, "n3");
    }
    for limit in 1..=6 {
        let (mut seen, mut after) = (Vec::new(), String::new());
        loop {
            let answer = done(&servers[1], &format!("/iscsi/sessions?limit={limit}{after}"));
            let piece = places(&answer);
            assert!(piece.len() <= limit);
            seen.extend(piece);
            match answer["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => break,
            }
        }
        assert_eq!(seen, all, "{limit}");
    }
    let of = |query: &str| places(&done(&servers[0], &format!("/iscsi/sessions?{query}")));
    assert_eq!(of("initiator=IQN.2026-01.io.test:two"), ["n1/0/9", "n2/0/9"]);
    assert_eq!(of("node=n2&initiator=iqn.2026-01.io.test:one"), ["n2/0/5", "n2/3/1"]);
    assert_eq!(of("target=db").len(), 6);
    assert!(of("node=none").is_empty());
    let (status, body) = ask(&servers[0], "/iscsi/sessions?target=none");
    assert_eq!((status, &body["code"]), (404, &"not-found".into()), "{body}");
    let (status, body) = ask(&servers[0], "/iscsi/sessions?initiator=host");
    assert_eq!((status, &body["code"]), (422, &"bad-setting".into()), "{body}");
}

#[test]
fn what_cannot_be_asked_is_told_with_what_can() {
    let (world, folder) = (World::new(), tempfile::tempdir().unwrap());
    let one = serve(&world, "n1", Some(remembered(folder.path(), "n1", "db", 100, 60)));
    for (path, expected) in [
        ("/history?object=disk/1&metric=iops", "core/NODE/NUMBER"),
        ("/history?object=cluster&metric=speed", "read-iops"),
        ("/history?object=cluster", "metric"),
        ("/history?object=cluster&metric=iops&from=9&to=3", "ends"),
        ("/history?object=cluster&metric=iops&step=0", "a second"),
        ("/history?object=cluster&metric=iops&step=x", "step"),
        ("/history/heatmap?object=cluster&metric=iops", "no latency"),
        ("/history/top?limit=0", "1 to 100"),
        ("/history/top?by=colour", "by"),
        ("/history/forecast?object=volume/db", "no capacity"),
        (
            "/history/part?object=cluster&metric=iops&from=1&to=600&step=600&resolution=600",
            "no intervals",
        ),
        (
            "/history/top-part?from=0&to=99999999999&step=600&resolution=600",
            "no intervals",
        ),
        ("/traces?limit=1000", "1 to 100"),
        ("/counters?limit=0", "1 to 64"),
        ("/counters?limit=65", "1 to 64"),
        ("/iscsi/sessions?limit=1001", "1 to 1000"),
        ("/iscsi/sessions?after=n1/2", "`next`"),
    ] {
        let (status, body) = ask(&one, path);
        assert_eq!((status, &body["code"]), (400, &"bad-request".into()), "{path}: {body}");
        assert!(body["detail"].as_str().unwrap().contains(expected), "{path}: {body}");
    }
    let from = now() - 47 * 3600;
    let (status, body) = ask(
        &one,
        &format!("/history?object=cluster&metric=iops&step=60&from={from}"),
    );
    assert!(
        status == 400 && body["detail"].as_str().unwrap().contains("2000"),
        "{body}"
    );
}
