//! Where volumes lie, and from where Kubernetes is told that they are used: at real nodes.

use super::node::NodePart;
use super::{Driver, of, wanted};
use crate::world::{World, eventually};
use amita_csi::wire::common::{Topology, TopologyRequirement};
use amita_csi::wire::controller::{CreateVolumeRequest, CreateVolumeResponse, GetCapacityRequest, GetCapacityResponse};
use amita_csi::wire::identity::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, PluginCapabilityServiceType as Service,
    PluginCapabilityTypeOneOf as Kind,
};
use amita_csi::wire::node::{NodeGetInfoRequest, NodeGetInfoResponse};

const SITE: &str = "topology.csi.amita.io/site";
const RACK: &str = "topology.csi.amita.io/rack";
/// `RESOURCE_EXHAUSTED`, as gRPC writes it.
const RESOURCE_EXHAUSTED: &str = "8";

fn at(site: &str) -> Topology {
    Topology {
        segments: of(&[(SITE, site)]),
    }
}

fn tells_of_places(said: GetPluginCapabilitiesResponse) -> bool {
    let is_it = |kind: Option<Kind>| matches!(kind, Some(Kind::Service(found)) if found.r#type == Service::VolumeAccessibilityConstraints as i32);
    said.capabilities.into_iter().any(|one| is_it(one.r#type))
}

#[test]
fn volumes_are_bound_to_where_their_pool_lies_if_their_class_says_so() {
    let world = World::with_volume();
    let nodes = world.json(&["node", "list"]);
    for node in nodes.as_array().expect("nodes") {
        let name = node["name"].as_str().expect("a name");
        world.amita_done(&["node", "place", name, "--site", "hall", "--rack", name]);
    }
    let driver = Driver::begin_with(&world, &["--topology"]);
    let said = driver.ask(
        "csi.v1.Identity/GetPluginCapabilities",
        &GetPluginCapabilitiesRequest {},
    );
    assert!(tells_of_places(said.expect("capabilities")));
    let request = |name: &str, reach: &str, site: &str| CreateVolumeRequest {
        parameters: of(&[("pool", "demo"), ("onDelete", "now"), ("accessibleFrom", reach)]),
        accessibility_requirements: Some(TopologyRequirement {
            requisite: vec![at(site)],
            preferred: vec![at(site)],
        }),
        ..wanted(name, 64)
    };
    let make = |name: &str, reach: &str, site: &str| {
        let made: Result<CreateVolumeResponse, String> =
            driver.ask("csi.v1.Controller/CreateVolume", &request(name, reach, site));
        made.map(|made| made.volume.expect("a volume"))
    };
    let here = make("pvc-1", "site", "hall").expect("made");
    assert_eq!(here.accessible_topology, [at("hall")]);
    assert_eq!(make("pvc-1", "site", "hall").expect("it is there"), here);
    assert_eq!(make("pvc-2", "site", "elsewhere"), Err(RESOURCE_EXHAUSTED.to_owned()));
    let anywhere = make("pvc-3", "everywhere", "elsewhere").expect("made");
    assert_eq!(anywhere.accessible_topology, []);
    let room = |site: &str| {
        let request = GetCapacityRequest {
            parameters: of(&[("pool", "demo"), ("accessibleFrom", "site")]),
            accessible_topology: Some(at(site)),
            ..Default::default()
        };
        let said: GetCapacityResponse = driver.ask("csi.v1.Controller/GetCapacity", &request).expect("room");
        said.available_capacity
    };
    // Stores tell of their room by and by.
    eventually("the pool has room", || room("hall") > 0);
    assert_eq!(room("elsewhere"), 0);
    for volume in [here, anywhere] {
        driver.delete(&volume.volume_id).expect("gone");
    }
    driver.end();
    world.end(&[]);
}

#[test]
fn a_node_tells_where_it_stands_and_is_not_started_where_it_should_and_does_not_know() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let place = folder.join("place");
    let file = place.display().to_string();
    NodePart::refused(folder, &["--topology"], "neither its site nor its zone");
    std::fs::write(&place, "site=hall\nrack=r1\n").expect("a file");
    let node = NodePart::begin(folder, &["--topology", "--place-file", &file]);
    let told: Result<NodeGetInfoResponse, String> = node.ask("csi.v1.Node/NodeGetInfo", &NodeGetInfoRequest {});
    let there = told.expect("what it is").accessible_topology.expect("a place");
    assert_eq!(there.segments, of(&[(SITE, "hall"), (RACK, "r1")]));
    let said = node.ask(
        "csi.v1.Identity/GetPluginCapabilities",
        &GetPluginCapabilitiesRequest {},
    );
    assert!(tells_of_places(said.expect("capabilities")));
    node.end();
}
