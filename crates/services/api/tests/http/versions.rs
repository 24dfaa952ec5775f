//! `GET /api`: which versions there are.

use super::world::World;
use amita_identity::OperatorRole::Viewer;
use amita_types::map;
use serde_json::json;

#[tokio::test]
async fn a_client_learns_which_version_to_speak() {
    let world = World::new();
    let said = world.ask(Viewer, "GET", "/api", None).await.done(200);
    assert_eq!(
        said.body["versions"],
        json!([{ "name": "v1", "path": "/api/v1", "state": "stable" }])
    );
    assert_eq!(said.body["software"], env!("CARGO_PKG_VERSION"));
    assert_eq!(said.body["known_cluster_version"], map::METADATA_VERSION);
    assert_eq!(said.body["cluster_version"], map::NEW_CLUSTER_VERSION);
    // What it names is there, and what it does not name is told to be nowhere.
    let path = said.body["versions"][0]["path"].as_str().unwrap();
    world
        .ask(Viewer, "GET", &format!("{path}/cluster"), None)
        .await
        .done(200);
    world
        .ask(Viewer, "GET", "/api/v2/cluster", None)
        .await
        .is(404, "not-found");
}

/// A specification that is served is the one that is checked in.
#[tokio::test]
async fn the_specification_is_served() {
    let world = World::new();
    let said = world.ask(Viewer, "GET", "/openapi.json", None).await.done(200);
    assert_eq!(said.body, serde_json::to_value(amita_api::specification()).unwrap());
}
