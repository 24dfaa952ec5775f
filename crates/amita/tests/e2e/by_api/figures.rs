//! Figures by the API: what nodes count, what they remember, and where the time of I/Os went.

use super::{Workstation, apis};
use crate::world::{VOLUME, World};
use serde_json::Value;

fn names(value: &Value) -> Vec<&str> {
    let fields = value.as_object().expect("an object").keys();
    fields.map(String::as_str).collect()
}

#[test]
fn top_trace_and_history_tell_by_the_api_what_they_tell_by_the_metadata() {
    // By the API no node's metrics have to be reached.
    let world = World::serving(&["--trace-one-in", "1", "--metrics", "off"]);
    let work = Workstation {
        by_api: apis(&world).join(","),
        identity: world.operator_with("viewer"),
        world: &world,
    };
    let mut client = world.open(0);
    for block in 0..8 {
        client.write(block * 4096, &[7; 4096]).expect("written");
    }
    let top = work.json(&["top", "--once", "--interval", "0.5"]);
    assert_eq!(
        (&top["nodes"], &top["silent"]),
        (&3.into(), &Value::Array(Vec::new())),
        "{top}"
    );
    for (kind, count) in [("stores", 3), ("cores", 3)] {
        assert_eq!(top[kind].as_array().map(Vec::len), Some(count), "{top}");
    }
    let volumes = top["volumes"].as_array().expect("volumes");
    assert!(
        volumes
            .iter()
            .any(|volume| volume["volume"] == VOLUME && volume["node"] == "n1"),
        "{top}"
    );
    let shown = work.done(&["top", "--once", "--interval", "0.2"]);
    for word in ["IOPS", "passes/s", VOLUME, "n3/0"] {
        assert!(shown.contains(word), "{word}: {shown}");
    }

    let traces = work.json(&["trace", "--count", "50", "--volume", VOLUME]);
    let traces = traces.as_array().expect("traces");
    let writes: Vec<&Value> = traces.iter().filter(|trace| trace["op"] == "write").collect();
    assert!(writes.len() >= 8, "{traces:?}");
    for trace in writes {
        assert_eq!(
            (&trace["node"], &trace["volume"]),
            (&"n1".into(), &VOLUME.into()),
            "{trace}"
        );
        let last = trace["last_node"].as_str();
        assert!(last.is_some_and(|node| ["n1", "n2", "n3"].contains(&node)), "{trace}");
    }
    let shown = work.done(&["trace", "--count", "1", "--volume", VOLUME]);
    assert!(
        shown.contains("the last to answer") && shown.contains(VOLUME),
        "{shown}"
    );
    for (arguments, code) in [
        (&["trace", "--volume", "no-such"][..], 4),
        (&["trace", "--count", "1000"], 2),
        (&["top", "--once", "--interval", "0"], 2),
    ] {
        let refused = work.run(arguments);
        assert_eq!(refused.status.code(), Some(code), "{arguments:?}: {}", refused.text);
    }

    // Of the same minutes both ways tell the same, but for what has come in between.
    let question = ["history", "cluster", "used", "--since", "5m", "--step", "10s"];
    let (there, here) = (work.json(&question), world.json(&question));
    assert_eq!(names(&there), names(&here));
    for field in ["object", "metric", "unit", "step_s", "resolution_s"] {
        assert_eq!(there[field], here[field], "{field}");
    }
    client.close();
    world.end(&[]);
}

#[test]
fn figures_are_told_by_another_node_where_one_is_gone() {
    let mut world = World::with_volume();
    let (by_api, identity) = (apis(&world).join(","), world.operator());
    world.cluster.kill_node(0);
    let work = Workstation {
        by_api,
        identity,
        world: &world,
    };
    let top = work.json(&["top", "--once", "--interval", "0.3"]);
    let answered = top["nodes"].as_u64().expect("a number");
    assert_eq!(answered, 2, "{top}");
    assert_eq!(top["silent"][0]["node"], "n1", "{top}");
    work.done(&["history", "cluster", "iops"]);
    world.end(crate::world::A_NODE_IS_GONE);
}
