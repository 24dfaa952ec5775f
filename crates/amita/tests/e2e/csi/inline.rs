//! Inline volumes at real nodes: what the node's part makes for a pod, and deletes. Where the machine of the tests connects no disks, the pod is never shown
//! its volume, and it goes all the same.

use super::{ONE, Said, call, of};
use crate::world::{World, binary, eventually};
use amita_csi::wire::common::{
    VolumeCapability, VolumeCapabilityAccessMode, VolumeCapabilityAccessModeMode as Mode,
    VolumeCapabilityAccessTypeOneOf as AccessType, VolumeCapabilityMountVolume,
};
use amita_csi::wire::node::{
    NodePublishVolumeRequest, NodePublishVolumeResponse, NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse,
};
use amita_harness::tool;
use prost::Message;
use std::time::Duration;

/// What kubelet calls the volume.
const NAME: &str = "csi-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
/// `INVALID_ARGUMENT`, as gRPC writes it.
const INVALID_ARGUMENT: &str = "3";

#[test]
fn a_pods_volume_goes_with_it() {
    let world = World::with_volume();
    let nodes = world.json(&["node", "list"]);
    let nodes = nodes.as_array().expect("nodes").iter();
    let apis: Vec<&str> = nodes.map(|node| node["api"].as_str().expect("an API")).collect();
    let (by_api, identity) = (apis.join(","), world.operator());
    let socket = world.file("node.sock");
    let endpoint = format!("unix://{}", socket.display());
    let words = [
        "csi",
        "node",
        "--node",
        "n",
        "--host-id",
        ONE,
        "--endpoint",
        &endpoint,
        "--inline",
    ];
    // Without a node to ask it is not started.
    let refused = tool::run(world.folder(), binary(), words, Duration::from_secs(30)).expect("it runs");
    assert!(
        !refused.status.success() && refused.text.contains("no node is named"),
        "{}",
        refused.text
    );
    let more = [
        "--by-api",
        &by_api,
        "--identity",
        &identity,
        "--inline-parameter",
        "pool=demo",
        "--inline-parameter",
        "onDelete=now",
        "--inline-max-size",
        "64Mi",
    ];
    let mut process = tool::start(world.folder(), binary(), words.iter().chain(&more)).expect("it starts");
    eventually("the node serves", || socket.exists());
    let target = world.file("pod").display().to_string();
    let wanted = |attributes: &[(&str, &str)]| NodePublishVolumeRequest {
        volume_id: NAME.to_owned(),
        target_path: target.clone(),
        volume_capability: Some(VolumeCapability {
            access_mode: Some(VolumeCapabilityAccessMode {
                mode: Mode::SingleNodeWriter as i32,
            }),
            access_type: Some(AccessType::Mount(VolumeCapabilityMountVolume::default())),
        }),
        volume_context: of(&[
            &[
                ("csi.storage.k8s.io/ephemeral", "true"),
                ("csi.storage.k8s.io/pod.name", "web-0"),
            ],
            attributes,
        ]
        .concat()),
        ..Default::default()
    };
    fn ask<A: Message + Default>(
        world: &World,
        socket: &std::path::Path,
        method: &str,
        message: &impl Message,
    ) -> Result<A, String> {
        match call(world.folder(), socket, "csi", method, message) {
            Said::Message { message, .. } => Ok(message),
            Said::Status { code, why } => {
                println!("{method}: {code} {why}");
                Err(code)
            }
            Said::Nothing(why) => panic!("{method} has no status: {why}"),
        }
    }
    let made = || -> Vec<serde_json::Value> {
        let label = format!("csi.amita.io/inline={ONE}");
        let listed = world.json(&["volume", "list", "--label", &label]);
        listed.as_array().expect("volumes").clone()
    };
    let publish = "csi.v1.Node/NodePublishVolume";
    let refused: Result<NodePublishVolumeResponse, _> = ask(&world, &socket, publish, &wanted(&[("pool", "demo")]));
    assert_eq!(refused, Err(INVALID_ARGUMENT.to_owned()));
    assert!(made().is_empty());
    // Twice: kubelet asks until it is shown, or wanted no more.
    for _ in 0..2 {
        let shown: Result<NodePublishVolumeResponse, _> = ask(&world, &socket, publish, &wanted(&[("size", "64Mi")]));
        println!("shown: {}", shown.is_ok());
        let made = made();
        assert_eq!(made.len(), 1, "{made:?}");
        assert_eq!(made[0]["labels"]["csi.storage.k8s.io/pod.name"], "web-0", "{made:?}");
    }
    let request = NodeUnpublishVolumeRequest {
        volume_id: NAME.to_owned(),
        target_path: target.clone(),
    };
    for _ in 0..2 {
        let gone: Result<NodeUnpublishVolumeResponse, _> =
            ask(&world, &socket, "csi.v1.Node/NodeUnpublishVolume", &request);
        gone.expect("gone");
        assert!(made().is_empty());
    }
    let left = world.json(&["subsystem", "list"]);
    assert!(!left.to_string().contains("csi-"), "{left}");
    assert!(
        process.stop().is_some_and(|status| status.success()),
        "{}",
        process.last_words()
    );
    world.end(&[]);
}
