//! What happens is told as it happens.

use super::world::{Watching, World};
use amita_control::events::{Draft, Kind, Writer};
use amita_types::NodeId;
use serde_json::json;

fn happens(world: &World, writer: &mut Writer, text: &str) {
    writer.add(Draft::new(Kind::NodeGone, ["n1"], text));
    let call = writer.next().unwrap();
    world.client.txn(&call).unwrap();
    writer.written(&call);
}

#[test]
fn events_are_told_once_and_those_that_were_missed_are_made_up_for() {
    let world = World::new();
    let mut writer = Writer::new(NodeId(1), 7);
    happens(&world, &mut writer, "before anybody watches");
    let mut watching = Watching::start(world.address(0), "/api/v1/events/watch", &[]);
    let begin = watching.next();
    assert!(begin.data.is_none(), "{begin:?}");
    happens(&world, &mut writer, "one");
    let first = watching.next();
    let data = first.data.unwrap();
    assert_eq!(
        (&data["text"], &data["kind"], &data["node"]),
        (&json!("one"), &json!("node-gone"), &json!("n1"))
    );
    let listed = world.ask("GET", "/api/v1/events?order=newest&limit=1", None).done(200);
    assert_eq!(listed.body["items"][0], data, "as the list has it");
    drop(watching);
    happens(&world, &mut writer, "two");
    happens(&world, &mut writer, "three");
    // At another node, with what was seen last; and with where it began.
    for (seen, texts) in [(first.id, &["two", "three"][..]), (begin.id, &["one", "two", "three"])] {
        let last = format!("Last-Event-ID: {}", seen.unwrap());
        let mut watching = Watching::start(world.address(1), "/api/v1/events/watch", &[&last]);
        for text in texts {
            assert_eq!(watching.next_data()["text"], *text);
        }
        assert!(watching.next().data.is_none(), "from here on");
    }
    // An id of other metadata, which is further: all is told.
    let mut watching = Watching::start(world.address(0), "/api/v1/events/watch", &["Last-Event-ID: 99999999"]);
    assert_eq!(watching.next_data()["text"], "before anybody watches");
}

#[test]
fn what_has_changed_is_told_by_its_kind() {
    let world = World::new();
    let mut watching = Watching::start(world.address(0), "/api/v1/changes/watch", &[]);
    assert_eq!(watching.next_data(), json!({ "kinds": [] }), "it is there");
    let wanted = json!({ "name": "v", "pool": "main", "size_bytes": 1 << 20 });
    world.ask("POST", "/api/v1/volumes", Some(&wanted)).done(201);
    let mut kinds: Vec<String> = Vec::new();
    while !kinds.iter().any(|kind| kind == "volumes") {
        kinds = serde_json::from_value(watching.next_data()["kinds"].clone()).unwrap();
        assert!(
            !kinds.is_empty() && !kinds.iter().any(|kind| kind == "hosts"),
            "{kinds:?}"
        );
    }
}

#[test]
fn who_may_not_look_watches_nothing() {
    let world = World::new();
    let line = "Authorization: Bearer amita-api-1.AAAA";
    for path in ["/api/v1/events/watch", "/api/v1/changes/watch"] {
        world.send(0, "GET", path, &[line], None).is(401, "unauthenticated");
    }
}
