//! The driver of CSI at real nodes: what Kubernetes asks its controller, said on its socket as curl speaks gRPC.

mod burst;
mod chart;
mod inline;
mod node;
mod place;
mod sanity;

use crate::world::{World, binary, eventually};
use amita_csi::wire::common::{
    CapacityRange, VolumeCapability, VolumeCapabilityAccessMode, VolumeCapabilityAccessModeMode as Mode,
    VolumeCapabilityAccessTypeOneOf as AccessType, VolumeCapabilityBlockVolume, VolumeContentSource,
    VolumeContentSourceSnapshotSource, VolumeContentSourceTypeOneOf as Source, VolumeContentSourceVolumeSource,
};
use amita_csi::wire::controller::*;
use amita_csi::wire::group::{CreateVolumeGroupSnapshotRequest, CreateVolumeGroupSnapshotResponse};
use amita_csi::wire::identity::{ProbeRequest, ProbeResponse};
use amita_harness::process::Process;
use amita_harness::tool;
use prost::Message;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

const ONE: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";
const TWO: &str = "7c9e6679-7425-40de-944b-e07fc1f90ae7";
const MIB: i64 = 1 << 20;

/// `FAILED_PRECONDITION`, as gRPC writes it.
const FAILED_PRECONDITION: &str = "9";
/// `ALREADY_EXISTS`.
const ALREADY_EXISTS: &str = "6";

struct Driver<'a> {
    world: &'a World,
    socket: PathBuf,
    process: Process,
}

impl Driver<'_> {
    fn begin(world: &World) -> Driver<'_> {
        Driver::begin_with(world, &[])
    }

    fn begin_with<'a>(world: &'a World, more: &[&str]) -> Driver<'a> {
        let (by_api, identity) = (apis(world), world.operator());
        let socket = world.file("csi.sock");
        let endpoint = format!("unix://{}", socket.display());
        let words = [
            "csi",
            "controller",
            "--endpoint",
            &endpoint,
            "--by-api",
            &by_api,
            "--identity",
            &identity,
        ];
        let words = words.iter().chain(more);
        let process = tool::start(world.folder(), binary(), words).expect("it starts");
        eventually("the driver serves", || socket.exists());
        Driver { world, socket, process }
    }

    /// What a method answers, or the number of its status.
    fn ask<A: Message + Default>(&self, method: &str, message: &impl Message) -> Result<A, String> {
        ask(self.world.folder(), &self.socket, method, message)
    }

    fn make(&self, request: &CreateVolumeRequest) -> Result<(String, i64), String> {
        let made: CreateVolumeResponse = self.ask("csi.v1.Controller/CreateVolume", request)?;
        let made = made.volume.expect("a volume");
        Ok((made.volume_id, made.capacity_bytes))
    }

    fn delete(&self, volume: &str) -> Result<DeleteVolumeResponse, String> {
        let request = DeleteVolumeRequest {
            volume_id: volume.to_owned(),
            ..Default::default()
        };
        self.ask("csi.v1.Controller/DeleteVolume", &request)
    }

    fn take(&self, volume: &str, name: &str) -> Result<String, String> {
        let request = CreateSnapshotRequest {
            source_volume_id: volume.to_owned(),
            name: name.to_owned(),
            ..Default::default()
        };
        let taken: CreateSnapshotResponse = self.ask("csi.v1.Controller/CreateSnapshot", &request)?;
        Ok(taken.snapshot.expect("a snapshot").snapshot_id)
    }

    fn drop_snapshot(&self, snapshot: &str) {
        let request = DeleteSnapshotRequest {
            snapshot_id: snapshot.to_owned(),
            ..Default::default()
        };
        let _: DeleteSnapshotResponse = self.ask("csi.v1.Controller/DeleteSnapshot", &request).expect("gone");
    }

    fn publish(&self, volume: &str, node: &str) -> Result<BTreeMap<String, String>, String> {
        let request = ControllerPublishVolumeRequest {
            volume_id: volume.to_owned(),
            node_id: node.to_owned(),
            volume_capability: Some(disk()),
            ..Default::default()
        };
        let told: ControllerPublishVolumeResponse = self.ask("csi.v1.Controller/ControllerPublishVolume", &request)?;
        Ok(told.publish_context)
    }

    fn unpublish(&self, volume: &str, node: &str) {
        let request = ControllerUnpublishVolumeRequest {
            volume_id: volume.to_owned(),
            node_id: node.to_owned(),
            ..Default::default()
        };
        let _: ControllerUnpublishVolumeResponse = self
            .ask("csi.v1.Controller/ControllerUnpublishVolume", &request)
            .expect("taken off");
    }

    fn volumes(&self) -> Vec<(String, Vec<String>)> {
        let listed: ListVolumesResponse = self
            .ask("csi.v1.Controller/ListVolumes", &ListVolumesRequest::default())
            .expect("a list");
        let entries = listed.entries.into_iter().map(|entry| {
            let nodes = entry.status.expect("a status").published_node_ids;
            (entry.volume.expect("a volume").volume_id, nodes)
        });
        entries.collect()
    }

    fn snapshots(&self) -> Vec<String> {
        let listed: ListSnapshotsResponse = self
            .ask("csi.v1.Controller/ListSnapshots", &ListSnapshotsRequest::default())
            .expect("a list");
        let entries = listed.entries.into_iter();
        entries
            .map(|entry| entry.snapshot.expect("a snapshot").snapshot_id)
            .collect()
    }

    fn end(mut self) {
        let ended = self.process.stop();
        assert!(
            ended.is_some_and(|status| status.success()),
            "{}",
            self.process.last_words()
        );
        assert!(!self.socket.exists());
    }
}

/// Where the nodes' APIs are, as `--by-api` has it.
fn apis(world: &World) -> String {
    let nodes = world.json(&["node", "list"]);
    let nodes = nodes.as_array().expect("nodes").iter();
    let apis: Vec<&str> = nodes.map(|node| node["api"].as_str().expect("an API")).collect();
    apis.join(",")
}

/// What a method answers, or the number of its status.
fn ask<A: Message + Default>(folder: &Path, socket: &Path, method: &str, message: &impl Message) -> Result<A, String> {
    match call(folder, socket, "csi", method, message) {
        Said::Message { message, .. } => Ok(message),
        Said::Status { code, why } => {
            println!("{method}: {code} {why}");
            Err(code)
        }
        Said::Nothing(why) => panic!("{method} has no status: {why}"),
    }
}

/// What came of a call.
enum Said<A> {
    Message {
        message: A,
        /// From before the connection to the last byte, as curl counts it.
        took: Duration,
    },
    Status {
        code: String,
        why: String,
    },
    /// Nobody answered, or not to the end.
    Nothing(String),
}

/// Calls a method as curl speaks gRPC. What is sent and said lies in files of the folder that begin with `place`: each caller at one time has its own.
fn call<A: Message + Default>(
    folder: &Path,
    socket: &Path,
    place: &str,
    method: &str,
    message: &impl Message,
) -> Said<A> {
    let file = |name: &str| folder.join(format!("{place}-{name}"));
    let (sent, head, said) = (file("sent"), file("head"), file("said"));
    let mut framed = vec![0];
    framed.extend((message.encoded_len() as u32).to_be_bytes());
    framed.extend(message.encode_to_vec());
    std::fs::write(&sent, framed).expect("written");
    for old in [&head, &said] {
        let _ = std::fs::remove_file(old);
    }
    let (data, url) = (format!("@{}", sent.display()), format!("http://csi/{method}"));
    let words: [&OsStr; 20] = [
        "--silent".as_ref(),
        "--show-error".as_ref(),
        "--max-time".as_ref(),
        "60".as_ref(),
        "--http2-prior-knowledge".as_ref(),
        "--unix-socket".as_ref(),
        socket.as_ref(),
        "--header".as_ref(),
        "Content-Type: application/grpc".as_ref(),
        "--header".as_ref(),
        "TE: trailers".as_ref(),
        "--data-binary".as_ref(),
        data.as_ref(),
        "--dump-header".as_ref(),
        head.as_ref(),
        "--output".as_ref(),
        said.as_ref(),
        "--write-out".as_ref(),
        "took %{time_total}\n".as_ref(),
        url.as_ref(),
    ];
    let ran = tool::run(folder, "curl", words, Duration::from_secs(90)).expect("curl runs");
    let head = std::fs::read_to_string(&head).unwrap_or_default();
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    match field("grpc-status:") {
        Some("0") => {
            let bytes = std::fs::read(&said).expect("an answer");
            let took = ran.text.lines().find_map(|line| line.strip_prefix("took "));
            let took = took
                .and_then(|seconds| seconds.trim().parse().ok())
                .expect("curl's time");
            Said::Message {
                message: A::decode(bytes.get(5..).expect("a frame")).expect("a message"),
                took: Duration::from_secs_f64(took),
            }
        }
        Some(code) => Said::Status {
            code: code.to_owned(),
            why: field("grpc-message:").unwrap_or_default().to_owned(),
        },
        None => Said::Nothing(format!("{head}{}", ran.text)),
    }
}

fn disk() -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(VolumeCapabilityAccessMode {
            mode: Mode::SingleNodeWriter as i32,
        }),
        access_type: Some(AccessType::Block(VolumeCapabilityBlockVolume {})),
    }
}

fn of(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    owned.collect()
}

fn wanted(name: &str, mebibytes: i64) -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: Some(CapacityRange {
            required_bytes: mebibytes * MIB,
            limit_bytes: 0,
        }),
        volume_capabilities: vec![disk()],
        parameters: of(&[("pool", "demo"), ("onDelete", "now")]),
        ..Default::default()
    }
}

fn from(source: Source) -> Option<VolumeContentSource> {
    Some(VolumeContentSource { r#type: Some(source) })
}

#[test]
fn volumes_and_snapshots_live_and_go_as_kubernetes_asks() {
    let world = World::with_volume();
    let driver = Driver::begin(&world);
    let probed: ProbeResponse = driver
        .ask("csi.v1.Identity/Probe", &ProbeRequest {})
        .expect("it is there");
    assert_eq!(probed.ready, Some(true));
    let request = CreateVolumeRequest {
        mutable_parameters: of(&[("iops", "5000")]),
        ..wanted("pvc-1", 64)
    };
    let (one, bytes) = driver.make(&request).expect("made");
    assert_eq!(bytes, 64 * MIB);
    assert_eq!(driver.make(&request), Ok((one.clone(), bytes)), "it is there");
    assert_eq!(driver.make(&wanted("pvc-1", 128)), Err(ALREADY_EXISTS.to_owned()));
    let shown = world.json(&["volume", "show", "pvc-1"]);
    assert_eq!(shown["labels"]["csi.amita.io/name"], "pvc-1", "{shown}");
    let snapshot = driver.take(&one, "snapshot-1").expect("taken");
    assert_eq!(driver.take(&one, "snapshot-1"), Ok(snapshot.clone()));
    // A larger one of the snapshot, and a clone of the volume, which leaves no snapshot behind.
    let restored = CreateVolumeRequest {
        volume_content_source: from(Source::Snapshot(VolumeContentSourceSnapshotSource {
            snapshot_id: snapshot.clone(),
        })),
        ..wanted("pvc-2", 96)
    };
    let (two, bytes) = driver.make(&restored).expect("made");
    assert_eq!(bytes, 96 * MIB);
    assert_eq!(driver.take(&two, "snapshot-1"), Err(ALREADY_EXISTS.to_owned()));
    let cloned = CreateVolumeRequest {
        volume_content_source: from(Source::Volume(VolumeContentSourceVolumeSource {
            volume_id: one.clone(),
        })),
        ..wanted("pvc-3", 64)
    };
    let (three, _) = driver.make(&cloned).expect("made");
    assert_eq!(driver.snapshots(), [snapshot.as_str()]);
    // Two at one moment.
    let request = CreateVolumeGroupSnapshotRequest {
        name: "group-1".to_owned(),
        source_volume_ids: vec![two.clone(), three.clone()],
        ..Default::default()
    };
    let taken: CreateVolumeGroupSnapshotResponse = driver
        .ask("csi.v1.GroupController/CreateVolumeGroupSnapshot", &request)
        .expect("taken");
    let together = taken.group_snapshot.expect("a group").snapshots;
    assert_eq!(together.len(), 2);
    assert_eq!(driver.snapshots().len(), 3);
    for snapshot in &together {
        driver.drop_snapshot(&snapshot.snapshot_id);
    }
    // The first one goes when its snapshot does.
    driver.delete(&one).expect("gone");
    assert_eq!(driver.snapshots(), [snapshot.as_str()]);
    driver.drop_snapshot(&snapshot);
    for volume in [&two, &three, &one] {
        driver.delete(volume).expect("gone");
    }
    assert!(driver.volumes().is_empty() && driver.snapshots().is_empty());
    let left = world.json(&["volume", "list"]);
    assert_eq!(left.as_array().map(Vec::len), Some(1), "{left}");
    driver.end();
    world.end(&[]);
}

#[test]
fn a_volume_goes_from_a_lost_node_to_the_next_one() {
    let world = World::with_volume();
    let driver = Driver::begin(&world);
    let (volume, _) = driver.make(&wanted("pvc-1", 64)).expect("made");
    let told = driver.publish(&volume, ONE).expect("published");
    assert_eq!(told["portals"].split(',').count(), 3, "{told:?}");
    assert!(
        told.contains_key("exclusive") && told["nqn"].contains(":csi-"),
        "{told:?}"
    );
    assert_eq!(driver.publish(&volume, ONE), Ok(told));
    assert_eq!(driver.volumes(), [(volume.clone(), vec![ONE.to_owned()])]);
    assert_eq!(driver.publish(&volume, TWO), Err(FAILED_PRECONDITION.to_owned()));
    assert_eq!(driver.delete(&volume), Err(FAILED_PRECONDITION.to_owned()));
    // Nobody asks the node that is lost.
    driver.unpublish(&volume, ONE);
    driver.publish(&volume, TWO).expect("published");
    let subsystems = world.json(&["subsystem", "list"]).to_string();
    assert!(subsystems.contains(TWO) && !subsystems.contains(ONE), "{subsystems}");
    driver.unpublish(&volume, TWO);
    assert_eq!(world.json(&["subsystem", "list"]), serde_json::json!([]));
    driver.delete(&volume).expect("gone");
    driver.end();
    world.end(&[]);
}
