//! Inline volumes at real nodes: what the node's part makes for a pod, and deletes. Where the machine of the tests connects no disks, the pod is never shown
//! its volume, and it goes all the same.

use super::node::NodePart;
use super::{ONE, apis, of};
use crate::world::World;
use amita_csi::wire::common::{
    VolumeCapability, VolumeCapabilityAccessMode, VolumeCapabilityAccessModeMode as Mode,
    VolumeCapabilityAccessTypeOneOf as AccessType, VolumeCapabilityMountVolume,
};
use amita_csi::wire::node::{
    NodePublishVolumeRequest, NodePublishVolumeResponse, NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse,
};
use std::os::unix::fs::PermissionsExt;

/// What kubelet calls the volume.
const NAME: &str = "csi-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
/// `INVALID_ARGUMENT`, as gRPC writes it.
const INVALID_ARGUMENT: &str = "3";

#[test]
fn a_pods_volume_goes_with_it() {
    let world = World::with_volume();
    // Without a node to ask it is not started.
    NodePart::refused(world.folder(), &["--inline"], "no node is named");
    let (by_api, identity) = (apis(&world), world.operator());
    // A machine that has a way to connect disks, as far as it says, and connects none.
    let tools = world.file("bin");
    std::fs::create_dir(&tools).expect("a folder");
    let iscsiadm = tools.join("iscsiadm");
    std::fs::write(
        &iscsiadm,
        "#!/bin/sh\n[ \"$1\" = --version ] && exit 0\necho 'no iscsid answers' >&2\nexit 20\n",
    )
    .expect("a script");
    std::fs::set_permissions(&iscsiadm, std::fs::Permissions::from_mode(0o755)).expect("it may be run");
    let node = NodePart::begin_beside(
        world.folder(),
        &tools,
        &[
            "--inline",
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
        ],
    );
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
    let made = || -> Vec<serde_json::Value> {
        let label = format!("csi.amita.io/inline={ONE}");
        let listed = world.json(&["volume", "list", "--label", &label]);
        listed.as_array().expect("volumes").clone()
    };
    let publish = "csi.v1.Node/NodePublishVolume";
    let refused: Result<NodePublishVolumeResponse, _> = node.ask(publish, &wanted(&[("pool", "demo")]));
    assert_eq!(refused, Err(INVALID_ARGUMENT.to_owned()));
    assert!(made().is_empty());
    // Twice: kubelet asks until it is shown, or wanted no more.
    for _ in 0..2 {
        let shown: Result<NodePublishVolumeResponse, _> = node.ask(publish, &wanted(&[("size", "64Mi")]));
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
        let gone: Result<NodeUnpublishVolumeResponse, _> = node.ask("csi.v1.Node/NodeUnpublishVolume", &request);
        gone.expect("gone");
        assert!(made().is_empty());
    }
    let left = world.json(&["subsystem", "list"]);
    assert!(!left.to_string().contains("csi-"), "{left}");
    node.end();
    world.end(&[]);
}
