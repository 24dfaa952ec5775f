//! csi-sanity of Kubernetes against a cluster of real processes, the controller and a node. Machines that run these tests have no NVMe/TCP: the cases in
//! which a node mounts a disk run in the guest (`crates/amita/tests/guest/csi.rs`), and here all others.

use super::{Driver, ONE};
use crate::world::{World, binary, eventually};
use amita_harness::csi_sanity::{Outcome, cases, program, that_are};
use amita_harness::process::Process;
use amita_harness::tool;
use std::path::PathBuf;
use std::time::Duration;

/// The suite makes some two hundred calls, of which each unpublishing waits for two seconds.
const PATIENCE: Duration = Duration::from_secs(400);
/// Cases that mount: `--ginkgo.skip` leaves out what fits, and each has to fit.
const MOUNTING: [&str; 6] = [
    "Node Service should work",
    "Node Service should be idempotent",
    "Node Service NodePublishVolume with single node multi writer capability should fail when volume with single node single writer access mode is \
     already mounted at a different target path",
    "Node Service NodeUnpublishVolume should remove target path",
    "Node Service NodeGetVolumeStats should fail when volume does not exist on the specified path",
    "Node Service NodeExpandVolume should work if node-expand is called after node-publish",
];
/// What the suite has for drivers that offer what ours does not.
const NOT_OURS: [&str; 5] = [
    // The suite itself leaves it out, always.
    "ListVolumes pagination should detect volumes added between pages",
    // `--csi.testnodevolumeattachlimit`: how many volumes a node has is its own to say, and Kubernetes' to keep.
    "should fail when publishing more volumes than the node max attach limit",
    // PUBLISH_READONLY.
    "should fail when the volume is already published but is incompatible",
    "should succeed when creating a snapshot with accessibility requirements",
    // GET_VOLUME_HEALTH and the like, new in 1.13.
    "Health",
];

/// A node of the driver, without a disk.
fn node(world: &World) -> (PathBuf, Process) {
    let socket = world.file("node.sock");
    let endpoint = format!("unix://{}", socket.display());
    let words = [
        "csi",
        "node",
        "--endpoint",
        &endpoint,
        "--node",
        "worker-1",
        "--host-id",
        ONE,
    ];
    let process = tool::start(world.folder(), binary(), words).expect("it starts");
    eventually("the node serves", || socket.exists());
    (socket, process)
}

#[test]
fn the_suite_passes_but_for_what_mounts() {
    let world = World::with_volume();
    let driver = Driver::begin(&world);
    let (socket, mut node) = node(&world);
    let file = |name: &str| world.file(name).display().to_string();
    std::fs::write(file("class.yaml"), "pool: demo\nonDelete: now\n").expect("written");
    std::fs::write(file("mutable.yaml"), "iops: \"5000\"\nbandwidth: \"500000000\"\n").expect("written");
    let words = [
        format!("--csi.endpoint=unix://{}", socket.display()),
        format!("--csi.controllerendpoint=unix://{}", driver.socket.display()),
        format!("--csi.mountdir={}", file("mount")),
        format!("--csi.stagingdir={}", file("staging")),
        format!("--csi.testvolumeparameters={}", file("class.yaml")),
        format!("--csi.testvolumemutableparameters={}", file("mutable.yaml")),
        "--csi.testvolumesize=67108864".to_owned(),
        "--csi.testvolumeexpandsize=134217728".to_owned(),
        format!("--ginkgo.skip={}", MOUNTING.map(|case| format!("{case}$")).join("|")),
        format!("--ginkgo.junit-report={}", file("report.xml")),
        "--ginkgo.seed=1".to_owned(),
        "--ginkgo.no-color".to_owned(),
    ];
    let program = program().expect("the suite").display().to_string();
    let ran = tool::run(world.folder(), &program, &words, PATIENCE).expect("it runs");
    let report = std::fs::read_to_string(file("report.xml")).unwrap_or_else(|why| panic!("{why}: {}", ran.text));
    let cases = cases(&report).expect("cases");
    let failed = that_are(&cases, Outcome::Failed);
    assert!(failed.is_empty() && ran.status.success(), "{failed:#?}\n{}", ran.text);
    // Nothing is left out but what is named, and all that is.
    let skipped = that_are(&cases, Outcome::Skipped);
    for case in MOUNTING {
        assert!(skipped.iter().any(|name| name.ends_with(case)), "{case}: {skipped:#?}");
    }
    let known = |name: &&str| MOUNTING.iter().chain(&NOT_OURS).any(|known| name.contains(known));
    let unknown: Vec<&str> = skipped.iter().filter(|name| !known(name)).copied().collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
    let passed = that_are(&cases, Outcome::Passed);
    println!("{} cases passed, {} were left out", passed.len(), skipped.len());
    assert_eq!(passed.len(), 87, "{passed:#?}");
    // And nothing stays.
    assert!(driver.volumes().is_empty() && driver.snapshots().is_empty());
    assert_eq!(world.json(&["subsystem", "list"]), serde_json::json!([]));
    let left = world.json(&["volume", "list"]);
    assert_eq!(left.as_array().map(Vec::len), Some(1), "{left}");
    assert!(
        node.stop().is_some_and(|status| status.success()),
        "{}",
        node.last_words()
    );
    driver.end();
    world.end(&[]);
}
