//! What can be seen from outside: traces of single I/Os, the slow ones, metrics, and what is going on.

use crate::policies::leader;
use crate::world::{PATIENCE, VOLUME, World, eventually};
use amita::nodes;
use amita_harness::tool;
use amita_node::observe::{MetricKind, metrics};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const STAGES: [&str; 7] = ["parse", "hop", "sequence", "send", "stores", "order", "acknowledge"];

fn array<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name]
        .as_array()
        .unwrap_or_else(|| panic!("no array {name} in {value}"))
}

fn number(value: &Value, name: &str) -> u64 {
    value[name]
        .as_u64()
        .unwrap_or_else(|| panic!("no number {name} in {value}"))
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name]
        .as_str()
        .unwrap_or_else(|| panic!("no text {name} in {value}"))
}

/// The stages of a trace: in their order, and together as long as the whole.
fn check_stages(trace: &Value) {
    let stages = array(trace, "stages");
    let names: Vec<&str> = stages.iter().map(|stage| text(stage, "stage")).collect();
    assert_eq!(names, STAGES);
    let sum: u64 = stages.iter().map(|stage| number(stage, "ns")).sum();
    assert_eq!(sum, number(trace, "total_ns"), "{trace}");
}

/// What a store says fits into the time between request and answer, and that into the whole.
fn check_leg(trace: &Value, leg: &Value, stages: &[&str]) {
    let (sent, answered) = (number(leg, "sent_ns"), number(leg, "answered_ns"));
    assert!(sent <= answered && answered <= number(trace, "total_ns"), "{trace}");
    let told = array(leg, "stages");
    let names: Vec<&str> = told.iter().map(|stage| text(stage, "stage")).collect();
    assert_eq!(names, stages, "{trace}");
    // Data and log are written side by side.
    let longest_write = told
        .iter()
        .filter(|stage| matches!(text(stage, "stage"), "data" | "log"));
    let longest_write = longest_write.map(|stage| number(stage, "ns")).max().unwrap_or(0);
    let others = told
        .iter()
        .filter(|stage| !matches!(text(stage, "stage"), "data" | "log"));
    let inside = longest_write + others.map(|stage| number(stage, "ns")).sum::<u64>();
    // The issue stage is never shown as nothing: a nanosecond stands for it.
    assert!(number(leg, "way_ns") + inside <= answered - sent + 1, "{trace}");
}

#[test]
fn every_stage_of_an_io_is_traced() {
    let world = World::serving(&["--trace-one-in", "1"]);
    let mut client = world.open(0);
    for block in 0..8 {
        client.write(block * 4096, &[7; 4096]).expect("written");
    }
    let mut read = vec![0; 4096];
    client.read(0, &mut read).expect("read");
    // Older ones are pushed out by newer ones only; these few are all there.
    let traces = world.json(&["trace", "--count", "50", "--volume", VOLUME]);
    let traces = traces.as_array().expect("traces").clone();
    let of = |op: &str| -> Vec<&Value> { traces.iter().filter(|trace| text(trace, "op") == op).collect() };
    let (writes, reads) = (of("write"), of("read"));
    assert_eq!(writes.len(), 8);
    let nodes: BTreeMap<String, String> = world
        .json(&["disk", "list"])
        .as_array()
        .expect("stores")
        .iter()
        .map(|store| (text(store, "id").to_owned(), text(store, "node_name").to_owned()))
        .collect();
    for trace in &writes {
        assert_eq!((text(trace, "node"), text(trace, "volume")), ("n1", VOLUME));
        assert_ne!(number(trace, "id"), 0);
        check_stages(trace);
        let legs = array(trace, "stores");
        let stores: BTreeSet<&str> = legs.iter().map(|leg| text(leg, "store")).collect();
        assert_eq!(stores.len(), 3, "{trace}");
        for leg in legs {
            let stages: Vec<&str> = array(leg, "stages").iter().map(|stage| text(stage, "stage")).collect();
            // A store on a file in memory has no cache to flush, and says how long it took not to.
            check_leg(trace, leg, &stages);
            assert_eq!(stages, ["issue", "data", "log", "flush", "answer"], "{trace}");
        }
        let last = text(trace, "last_store");
        assert_eq!(text(trace, "last_node"), nodes[last]);
        let latest = legs.iter().max_by_key(|leg| number(leg, "answered_ns")).expect("three");
        let answered = legs.iter().find(|leg| text(leg, "store") == last).expect("one of them");
        assert_eq!(
            number(latest, "answered_ns"),
            number(answered, "answered_ns"),
            "{trace}"
        );
    }
    let read = reads
        .iter()
        .find(|trace| number(trace, "length") == 4096)
        .expect("the read was traced");
    check_stages(read);
    assert_eq!(array(read, "stores").len(), 1);
    check_leg(read, &array(read, "stores")[0], &["issue", "data", "answer"]);

    let shown = world.amita_done(&["trace", "--count", "1", "--volume", VOLUME]);
    for stage in STAGES {
        assert!(shown.contains(stage), "{shown}");
    }
    assert!(shown.contains("through n1") && shown.contains('#'), "{shown}");
    let unknown = world.amita(&["trace", "--volume", "no-such"]);
    assert!(unknown.text.contains("no volume") && unknown.success().is_err());
    drop(client);
    world.end(&[]);
}

/// A store's node stands still for a moment: the write that waited for it is kept, and the store is named.
#[test]
fn a_slow_io_is_kept_with_the_store_that_was_slow() {
    let world = World::serving(&["--trace-one-in", "0"]);
    let mut client = world.open(0);
    client.write(0, &[1; 4096]).expect("written");
    world.cluster.freeze_node(2).expect("frozen");
    let (begins, begun) = std::sync::mpsc::channel();
    let writer = std::thread::spawn(move || {
        begins.send(()).expect("it is waited for");
        client.write(4096, &[2; 4096]).expect("written in the end");
        client
    });
    begun.recv().expect("the writer begins");
    // Long beside what a busy machine may take from the writer.
    std::thread::sleep(Duration::from_secs(1));
    world.cluster.thaw_node(2).expect("thawed");
    let client = writer.join().expect("the writer ends");
    let slow = world.json(&["trace", "--slow", "--count", "20"]);
    let slow = slow
        .as_array()
        .expect("traces")
        .iter()
        .max_by_key(|trace| number(trace, "total_ns"));
    let slow = slow.expect("a slow one was kept");
    assert!(number(slow, "total_ns") >= 200_000_000, "{slow}");
    assert_eq!((number(slow, "offset"), text(slow, "op")), (4096, "write"), "{slow}");
    assert_eq!((number(slow, "id"), text(slow, "last_node")), (0, "n3"), "{slow}");
    check_stages(slow);
    let stages = array(slow, "stages");
    let longest = stages.iter().max_by_key(|stage| number(stage, "ns")).expect("stages");
    assert_eq!(text(longest, "stage"), "stores", "{slow}");
    let shown = world.amita_done(&["trace", "--slow", "--count", "20"]);
    assert!(
        shown.contains("the last to answer: store ") && shown.contains(" of node n3"),
        "{shown}"
    );
    drop(client);
    world.end(&[]);
}

/// Where a node's metrics are, as the metadata says.
pub fn metrics_of(world: &World, name: &str) -> String {
    let nodes = world.json(&["node", "list"]);
    let node = nodes
        .as_array()
        .expect("nodes")
        .iter()
        .find(|node| text(node, "name") == name);
    text(node.expect("the node"), "metrics").to_owned()
}

/// One sample of the text format: name, labels, value. Nothing but what the format allows is taken.
fn sample(line: &str) -> (String, Vec<(String, String)>, f64) {
    let is_name = |text: &str| {
        !text.is_empty()
            && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !text.starts_with(char::is_numeric)
    };
    let (front, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
    let value: f64 = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
    let (name, labels) = match front.split_once('{') {
        None => (front, ""),
        Some((name, labels)) => (name, labels.strip_suffix('}').unwrap_or_else(|| panic!("open: {line}"))),
    };
    assert!(is_name(name), "{line}");
    let mut pairs = Vec::new();
    let mut rest = labels;
    while !rest.is_empty() {
        let (label, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("no label: {line}"));
        let (text, after) = after.split_once('"').unwrap_or_else(|| panic!("open: {line}"));
        assert!(is_name(label), "{line}");
        pairs.push((label.to_owned(), text.to_owned()));
        rest = after.strip_prefix(',').unwrap_or(after);
    }
    (name.to_owned(), pairs, value)
}

#[test]
fn metrics_are_what_prometheus_reads() {
    let world = World::serving(&["--trace-one-in", "1"]);
    let mut client = world.open(0);
    for block in 0..20 {
        client.write(block * 4096, &[7; 4096]).expect("written");
    }
    world.amita_done(&["volume", "limit", "set", VOLUME, "--iops", "1000000", "--weight", "200"]);
    world.amita_done(&["tenant", "add", "acme", VOLUME]);
    world.amita_done(&["tenant", "limit", "set", "acme", "--iops", "1000000"]);
    let create = ["snapshot-policy", "create", "often", "--volume", VOLUME];
    world.amita_done(&[&create[..], &["--schedule", "* * * * * *", "--keep-last", "1"]].concat());
    crate::backup_policies::prepared(&world, &["--verify", "@yearly", "--verify-sample", "100%"]);
    world.amita_done(&["mirror", "add", "dr", VOLUME]);
    let page_of = |name: &str| nodes::get(&metrics_of(&world, name), "/metrics").expect("the page");
    // Of policies, and of how full stores are, the node tells that leads: when it has heard of them.
    let mut of_leader = String::new();
    let mut tells = |told: &[&str]| {
        let (leads, nodes) = (leader(&world) as u64, world.json(&["node", "list"]));
        let nodes = nodes.as_array().expect("nodes").clone();
        let found = nodes.iter().find(|node| number(node, "id") == leads);
        of_leader = page_of(text(found.expect("the node"), "name"));
        told.iter().all(|name| of_leader.contains(&format!("\n{name}{{")))
    };
    let told = [
        "amita_policy_ended_timestamp_seconds",
        "amita_backup_success_timestamp_seconds",
        "amita_mirror_role",
        "amita_pool_fullest_ratio",
    ];
    let what = "a run of each policy has ended, and stores have told their space";
    eventually(what, || tells(&told));
    world.amita_done(&["volume", "create", "other", "--pool", "demo", "--size", "16M"]);
    world.amita_done(&["backup", "task", "back-up", "once", "other", "--to", "off-site"]);
    crate::backup_policies::ask_for(&world, "verify");
    let later = [
        "amita_backup_verified_whole_timestamp_seconds",
        "amita_backup_task_done_timestamp_seconds",
        "amita_backup_task_duration_seconds",
    ];
    eventually("all of the repository was read, and the task is done", || {
        tells(&later) && tells(&told)
    });
    world.amita_done(&["snapshot-policy", "set", "often", "--pause"]);
    world.amita_done(&["backup", "policy", "set", "often", "--pause"]);
    let (mut page, mut written) = (String::new(), 20);
    eventually("the node has looked at its links, and heard of the limit", || {
        client.write(0, &[8; 4096]).expect("written");
        written += 1;
        page = page_of("n1");
        let passes = page.contains("\namita_joint_limit_operations_total{");
        let has = |name: &str| page.contains(&format!("\n{name}{{"));
        passes && has("amita_link_bad") && has("amita_volume_limit_waiting") && has("amita_store_turns_depth")
    });
    // Each core tells what it has counted now and then.
    eventually("the node tells of all that was written", || {
        page = page_of("n1");
        let mut lines = page.lines();
        lines.any(|line| {
            let name = "amita_volume_latency_seconds_count{";
            line.starts_with(name) && line.contains("\"write\"") && line.ends_with(&format!(" {written}"))
        })
    });
    let written = f64::from(written);
    let count = |line: String| page.lines().filter(|&found| found == line).count();
    for metric in metrics() {
        assert_eq!(
            count(format!("# HELP {} {}", metric.name, metric.help)),
            1,
            "{}",
            metric.name
        );
        assert_eq!(
            count(format!("# TYPE {} {}", metric.name, metric.kind.name())),
            1,
            "{}",
            metric.name
        );
        let counter = metric.kind == MetricKind::Counter;
        assert_eq!(counter, metric.name.ends_with("_total"), "{}", metric.name);
    }
    let samples_of =
        |page: &str| -> Vec<_> { page.lines().filter(|line| !line.starts_with('#')).map(sample).collect() };
    let (samples, of_leader) = (samples_of(&page), samples_of(&of_leader));
    // Every sample belongs to a metric, has its labels, and stands once on a page.
    let mut seen = BTreeSet::new();
    let mut with_samples = BTreeSet::new();
    let pages = [("n1", &samples), ("the one that leads", &of_leader)];
    for (page, (name, labels, _)) in pages
        .into_iter()
        .flat_map(|(page, samples)| samples.iter().map(move |one| (page, one)))
    {
        let metric = metrics().find(|metric| match metric.kind {
            MetricKind::Histogram => ["_bucket", "_sum", "_count"]
                .iter()
                .any(|suffix| name.strip_suffix(suffix) == Some(metric.name)),
            _ => name == metric.name,
        });
        let metric = metric.unwrap_or_else(|| panic!("{name} is not defined"));
        let names: Vec<&str> = labels
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(|&name| name != "le")
            .collect();
        assert_eq!(names, metric.labels, "{name}");
        assert!(
            seen.insert((page, name.clone(), labels.clone())),
            "{name} {labels:?} stands twice at {page}"
        );
        with_samples.insert(metric.name);
    }
    // Of a disk that nothing is wrong with nobody has noted anything; no other cluster has joined the mirror; and every backup task has ended.
    let nobody_tells = [
        "amita_disk_level",
        "amita_mirror_lag_seconds",
        "amita_backup_task_oldest_timestamp_seconds",
    ];
    let of_all = metrics()
        .map(|metric| metric.name)
        .filter(|name| !nobody_tells.contains(name));
    let without: Vec<&str> = of_all.filter(|name| !with_samples.contains(name)).collect();
    assert!(
        without.is_empty(),
        "on a node with a volume and a store, or on the one that leads, each metric has a sample: not {without:?}"
    );
    // Buckets grow, and the last one is the count.
    let of = |name: &str, wanted: &[(&str, &str)]| -> Vec<f64> {
        let has = |labels: &[(String, String)]| {
            wanted
                .iter()
                .all(|want| labels.iter().any(|label| (label.0.as_str(), label.1.as_str()) == *want))
        };
        let found = samples.iter().filter(|(found, labels, _)| found == name && has(labels));
        found.map(|(_, _, value)| *value).collect()
    };
    let write = [("volume", VOLUME), ("op", "write")];
    let buckets = of("amita_volume_latency_seconds_bucket", &write);
    assert!(buckets.is_sorted() && buckets.len() > 20, "{buckets:?}");
    let writes = of("amita_volume_latency_seconds_count", &write);
    assert_eq!(
        (writes.as_slice(), buckets.last()),
        ([written].as_slice(), Some(&written))
    );
    assert_eq!(of("amita_volume_bytes_total", &write), [written * 4096.0]);
    assert!(of("amita_volume_latency_seconds_sum", &write)[0] > 0.0);
    assert_eq!(
        of("amita_stage_seconds_count", &[("stage", "stores")])[0],
        of("amita_traces_total", &[]).iter().sum::<f64>()
    );
    assert!(of("amita_core_cpu_seconds_total", &[])[0] > 0.0);
    // Prometheus's own tool, where it is installed.
    if std::process::Command::new("promtool").arg("--version").output().is_ok() {
        let path = world.file("metrics.txt");
        std::fs::write(&path, &page).expect("a file");
        let command = format!("promtool check metrics < {}", path.display());
        let checked = tool::run(world.folder(), "sh", ["-c", command.as_str()], PATIENCE).expect("it runs");
        checked.success().expect("promtool has nothing to say");
    }
    drop(client);
    // On a busy machine a run may take longer than until the next one.
    world.end(&["policy often: "]);
}

#[test]
fn top_shows_what_is_going_on() {
    let world = World::with_volume();
    let mut client = world.open(0);
    let go_on = Arc::new(AtomicBool::new(true));
    let writer = {
        let go_on = go_on.clone();
        std::thread::spawn(move || {
            let until = Instant::now() + PATIENCE;
            while go_on.load(Ordering::Relaxed) && Instant::now() < until {
                client.write(0, &[7; 4096]).expect("written");
            }
        })
    };
    let top = world.json(&["top", "--once", "--interval", "0.5"]);
    let shown = world.amita_done(&["top", "--once", "--interval", "0.2"]);
    go_on.store(false, Ordering::Relaxed);
    writer.join().expect("the writer ends");
    assert_eq!((number(&top, "nodes"), array(&top, "silent").len()), (3, 0), "{top}");
    let real = |value: &Value, name: &str| value[name].as_f64().unwrap_or_else(|| panic!("no {name} in {value}"));
    let volumes = array(&top, "volumes");
    let write = volumes
        .iter()
        .find(|volume| text(volume, "op") == "write")
        .expect("writes");
    assert_eq!((text(write, "volume"), text(write, "node")), (VOLUME, "n1"));
    let iops = real(write, "iops");
    assert!(iops > 1.0, "{top}");
    assert!((real(write, "bytes_per_s") / iops - 4096.0).abs() < 1.0, "{top}");
    let (p50, p99) = (real(write, "p50_us"), real(write, "p99_us"));
    assert!(p50 > 0.0 && p50 <= p99 && p99 < 60e6, "{top}");
    let stores = array(&top, "stores");
    assert_eq!(stores.len(), 3);
    for store in stores {
        assert!(
            store["serves"].as_bool() == Some(true) && real(store, "writes_per_s") > 0.0,
            "{top}"
        );
        assert!((0.0..=100.0).contains(&real(store, "used_percent")), "{top}");
    }
    let cores = array(&top, "cores");
    assert_eq!(cores.len(), 3);
    for core in cores {
        assert!(
            real(core, "passes_per_s") > 0.0 && real(core, "calls_per_op") > 0.0,
            "{top}"
        );
        assert!((0.0..=110.0).contains(&real(core, "cpu_percent")), "{top}");
    }
    for word in ["volume", "IOPS", "p99", "store", "core", "passes/s", VOLUME, "n3/0"] {
        assert!(shown.contains(word), "{shown}");
    }
    world.end(&[]);
}

/// Where a node is told to say nothing, that is what it says.
#[test]
fn a_node_may_tell_nothing() {
    let world = World::serving(&["--metrics", "off"]);
    let nodes = world.json(&["node", "list"]);
    assert!(
        nodes
            .as_array()
            .expect("nodes")
            .iter()
            .all(|node| node.get("metrics").is_none()),
        "{nodes}"
    );
    let top = world.amita(&["top", "--once"]);
    assert!(top.text.contains("start it with --metrics"), "{}", top.text);
    assert!(top.success().is_err());
    world.end(&[]);
}
