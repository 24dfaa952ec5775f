//! Who does not mind how old an answer is shares it with others.

use super::world::{Said, World};
use serde_json::json;

const PATH: &str = "/api/v1/volumes";
const OLD: &str = "Cache-Control: max-age=60";

fn make(world: &World, name: &str) {
    let wanted = json!({ "name": name, "pool": "main", "size_bytes": 1 << 20 });
    world.ask("POST", PATH, Some(&wanted)).done(201);
}

fn names(said: &Said) -> Vec<&str> {
    let items = said.body["items"].as_array().unwrap();
    items.iter().map(|item| item["name"].as_str().unwrap()).collect()
}

#[test]
fn an_answer_is_shared_by_those_who_say_that_it_may_be_old() {
    let world = World::new();
    make(&world, "a");
    let get = |headers: &[&str]| world.send(0, "GET", PATH, headers, None).done(200);
    let first = get(&[OLD]);
    assert_eq!(names(&first), ["a"]);
    assert_eq!(first.header("age"), None, "it was looked up for this one");
    make(&world, "b");
    let shared = get(&[OLD]);
    assert_eq!(names(&shared), ["a"]);
    assert_eq!(shared.header("etag"), first.header("etag"));
    assert!(shared.header("age").is_some());
    // Nobody else's is old: that of who does not say so, of another node, of another question, of somebody else.
    assert_eq!(names(&get(&[])), ["a", "b"]);
    assert_eq!(names(&world.send(1, "GET", PATH, &[OLD], None).done(200)), ["a", "b"]);
    let longer = format!("{PATH}?limit=9");
    assert_eq!(
        names(&world.send(0, "GET", &longer, &[OLD], None).done(200)),
        ["a", "b"]
    );
    let token = json!({ "name": "other", "role": "viewer" });
    let token = world.ask("POST", "/api/v1/tokens", Some(&token)).done(201).body;
    let bearer = format!("Authorization: Bearer {}", token["secret"].as_str().unwrap());
    assert_eq!(names(&get(&[OLD, &bearer])), ["a", "b"]);
}

#[test]
fn who_may_not_gets_nothing_of_what_others_got() {
    let world = World::new();
    make(&world, "a");
    world.send(0, "GET", PATH, &[OLD], None).done(200);
    let bearer = "Authorization: Bearer amita-nobody-nothing";
    let refused = world.send(0, "GET", PATH, &[OLD, bearer], None);
    assert_eq!(refused.status, 401, "{:?}", refused.body);
    // Nor is a failure kept.
    let missing = format!("{PATH}/later");
    assert_eq!(world.send(0, "GET", &missing, &[OLD], None).status, 404);
    make(&world, "later");
    world.send(0, "GET", &missing, &[OLD], None).done(200);
}
