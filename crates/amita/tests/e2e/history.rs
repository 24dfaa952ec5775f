//! What nodes remember: asked of a node that did nothing of it.

use crate::world::{A_NODE_IS_GONE, VOLUME, World, eventually};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longer than two of the intervals in which figures are taken.
const LOAD: Duration = Duration::from_secs(23);

/// What the API of a node answers, by the operator's certificate.
fn ask(world: &World, node: &str, path: &str) -> Value {
    let nodes = world.json(&["node", "list"]);
    let found = nodes
        .as_array()
        .expect("nodes")
        .iter()
        .find(|found| found["name"] == node);
    let api = found.expect("the node")["api"].as_str().expect("an API");
    let operator = world.operator();
    let file = |name: &str| Path::new(&operator).join(name).display().to_string();
    let (cert, key, url) = (file("cert.pem"), file("key.pem"), format!("https://{api}/api/v1{path}"));
    let said = world.done(
        "curl",
        &[
            "--silent",
            "--show-error",
            "--insecure",
            "--cert",
            &cert,
            "--key",
            &key,
            &url,
        ],
    );
    serde_json::from_str(&said).unwrap_or_else(|why| panic!("{why}: {said}"))
}

/// How many were counted, by the averages of each ten seconds.
fn counted(answer: &Value) -> f64 {
    let points = answer["points"]
        .as_array()
        .unwrap_or_else(|| panic!("no points in {answer}"));
    points
        .iter()
        .map(|point| point["mean"].as_f64().expect("a number") * 10.0)
        .sum()
}

fn missing(answer: &Value) -> Vec<&str> {
    let nodes = answer["missing"].as_array().expect("a list").iter();
    nodes.map(|node| node["node"].as_str().expect("a name")).collect()
}

#[test]
#[ignore = "figures are taken every ten seconds, and three times are wanted: scripts/soak runs it"]
fn another_node_tells_what_a_volume_did_and_names_one_that_was_killed() {
    let mut world = World::with_volume();
    let names: Vec<String> = world.cluster.nodes().iter().map(|node| node.name.clone()).collect();
    let mut client = world.open(0);
    let (mut written, until) = (0_u64, Instant::now() + LOAD);
    while Instant::now() < until {
        client.write(written % 1000 * 4096, &[7; 4096]).expect("written");
        written += 1;
    }
    let question = format!("/history?object=volume/{VOLUME}&metric=write-iops&step=10");
    // Its last interval is over ten seconds later at most. One that is half without load is told by its average, over the whole of it.
    eventually("the third node tells of all writes", || {
        let answer = ask(&world, &names[2], &question);
        assert_eq!(missing(&answer), Vec::<&str>::new(), "{answer}");
        let found = counted(&answer);
        assert!(found <= written as f64 * 1.2, "{written} were written: {answer}");
        found >= written as f64 * 0.8
    });
    let owner = ask(&world, &names[0], &question);
    assert_eq!(owner["unit"], "1/s");
    let of_cluster = ask(&world, &names[1], "/history?object=cluster&metric=latency&step=10");
    assert!(
        of_cluster["points"][0]["percentiles"]["p99"].as_u64().expect("a time") > 0,
        "{of_cluster}"
    );
    let top = ask(&world, &names[1], "/history/top");
    assert_eq!(top["rows"][0]["name"], VOLUME, "{top}");
    let map = ask(&world, &names[1], &format!("/history/heatmap?object=volume/{VOLUME}"));
    assert!(!map["columns"].as_array().expect("columns").is_empty(), "{map}");
    let used = ask(&world, &names[1], "/history?object=cluster&metric=used&step=10");
    assert!(used["points"][0]["mean"].as_f64().expect("bytes") > 0.0, "{used}");
    let traces = ask(&world, &names[2], &format!("/traces?volume={VOLUME}&limit=5"));
    let trace = &traces["traces"][0];
    assert_eq!(
        (&trace["node"], &trace["op"]),
        (&names[0].as_str().into(), &"write".into()),
        "{traces}"
    );

    let said = world.json(&["history", &format!("volume/{VOLUME}"), "write-iops", "--step", "10s"]);
    assert!(counted(&said) >= written as f64 * 0.8, "{said}");
    let text = world.amita_done(&["history", "cluster", "latency", "--since", "5m", "--step", "10s"]);
    assert!(text.contains("p99") && text.contains('█'), "{text}");

    drop(client);
    world.cluster.kill_node(1);
    let answer = ask(&world, &names[2], &question);
    assert_eq!(missing(&answer), [names[1].as_str()], "{answer}");
    assert!(
        counted(&answer) >= written as f64 * 0.8,
        "its owner still answers: {answer}"
    );
    world.end(A_NODE_IS_GONE);
}
