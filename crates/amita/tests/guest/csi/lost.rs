//! A node is lost with a volume mounted: the volume comes to another node, and what the lost one writes later is not taken. Two guests are two nodes, the
//! controller runs beside them; what Kubernetes asks is said as curl speaks gRPC.

use super::{MIB, Pod};
use crate::cluster::{Gateways, binary};
use crate::steps::Steps;
use amita_csi::wire::common::{
    CapacityRange, VolumeCapability, VolumeCapabilityAccessMode, VolumeCapabilityAccessModeMode as Mode,
    VolumeCapabilityAccessTypeOneOf as AccessType, VolumeCapabilityMountVolume, VolumeContentSource,
};
use amita_csi::wire::controller::*;
use amita_csi::wire::node::*;
use amita_harness::process::Process;
use amita_harness::tool;
use amita_terminal::error::{Failure, Result};
use prost::Message;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Where kubelet would have it staged.
pub(super) const STAGING: &str = "/tmp/csi/staging";
/// What a volume may take to be used at another node.
const LIMIT: Duration = Duration::from_secs(30);

/// A part of the driver, as it is reached from here.
pub(super) enum At {
    Socket(PathBuf),
    Port(u16),
}

/// What a method answers.
pub(super) fn ask<A: Message + Default>(
    gateways: &Gateways,
    at: &At,
    method: &str,
    message: &impl Message,
) -> Result<A> {
    let file = |name: &str| {
        gateways
            .cluster
            .folder()
            .join(format!("csi-{name}"))
            .display()
            .to_string()
    };
    let (sent, head, said) = (file("sent"), file("head"), file("said"));
    let mut framed = vec![0];
    framed.extend((message.encoded_len() as u32).to_be_bytes());
    framed.extend(message.encode_to_vec());
    std::fs::write(&sent, framed).expect("written");
    let _ = std::fs::remove_file(&said);
    let (url, data) = match at {
        At::Socket(_) => (format!("http://csi/{method}"), format!("@{sent}")),
        At::Port(port) => (format!("http://127.0.0.1:{port}/{method}"), format!("@{sent}")),
    };
    let mut words = vec![
        "--silent",
        "--show-error",
        "--max-time",
        "120",
        "--http2-prior-knowledge",
        "--header",
        "Content-Type: application/grpc",
        "--header",
        "TE: trailers",
        "--data-binary",
        &data,
        "--dump-header",
        &head,
        "--output",
        &said,
    ];
    let path = match at {
        At::Socket(path) => path.display().to_string(),
        At::Port(_) => String::new(),
    };
    if !path.is_empty() {
        words.extend(["--unix-socket", &path]);
    }
    words.push(&url);
    tool::run(gateways.cluster.folder(), "curl", &words, Duration::from_secs(150))?.success()?;
    let head = std::fs::read_to_string(&head).expect("a head");
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    match field("grpc-status:") {
        Some("0") => {
            let bytes = std::fs::read(&said).expect("an answer");
            Ok(A::decode(bytes.get(5..).expect("a frame")).expect("a message"))
        }
        status => Err(Failure::new(format!(
            "{method}: {status:?} {}",
            field("grpc-message:").unwrap_or_default()
        ))),
    }
}

pub(super) fn ext4() -> Option<VolumeCapability> {
    Some(VolumeCapability {
        access_mode: Some(VolumeCapabilityAccessMode {
            mode: Mode::SingleNodeWriter as i32,
        }),
        access_type: Some(AccessType::Mount(VolumeCapabilityMountVolume {
            fs_type: "ext4".to_owned(),
            ..Default::default()
        })),
    })
}

pub(super) fn controller(gateways: &Gateways) -> (At, Process) {
    let socket = gateways.cluster.folder().join("csi.sock");
    let apis: Vec<String> = gateways.cluster.apis().expect("APIs").into_values().collect();
    let identity = gateways.cluster.operator().expect("an identity").expect("one");
    let words = [
        "csi".to_owned(),
        "controller".to_owned(),
        format!("--endpoint=unix://{}", socket.display()),
        format!("--by-api={}", apis.join(",")),
        format!("--identity={}", identity.display()),
    ];
    let process = tool::start(gateways.cluster.folder(), binary(), &words).expect("it starts");
    let until = Instant::now() + Duration::from_secs(60);
    while !socket.exists() {
        assert!(Instant::now() < until, "{}", process.last_words());
        std::thread::sleep(Duration::from_millis(50));
    }
    (At::Socket(socket), process)
}

pub(super) struct Volume {
    pub(super) id: String,
    pub(super) context: BTreeMap<String, String>,
    pub(super) capability: Option<VolumeCapability>,
    /// The class's node-stage secret.
    pub(super) secrets: BTreeMap<String, String>,
}

/// What a driver's node calls itself.
pub(super) fn id_of(gateways: &Gateways, node: &At) -> String {
    let info: NodeGetInfoResponse =
        ask(gateways, node, "csi.v1.Node/NodeGetInfo", &NodeGetInfoRequest {}).expect("who it is");
    info.node_id
}

/// A volume of 64 MiB, which may begin as something that is there, whose class says `parameters`, and that it is deleted at once.
pub(super) fn make(
    gateways: &Gateways,
    controller: &At,
    (name, source): (&str, Option<VolumeContentSource>),
    capability: Option<VolumeCapability>,
    parameters: &[(&str, &str)],
) -> Volume {
    let always = [("pool", "demo"), ("onDelete", "now")];
    let wanted = CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: Some(CapacityRange {
            required_bytes: 64 << 20,
            limit_bytes: 0,
        }),
        volume_capabilities: capability.iter().cloned().collect(),
        parameters: always
            .iter()
            .chain(parameters)
            .map(|&(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
        volume_content_source: source,
        ..Default::default()
    };
    let made: CreateVolumeResponse =
        ask(gateways, controller, "csi.v1.Controller/CreateVolume", &wanted).expect("made");
    let made = made.volume.expect("a volume");
    Volume {
        id: made.volume_id,
        context: made.volume_context,
        capability,
        secrets: BTreeMap::new(),
    }
}

/// Publishes a volume to a node and stages it there; what the node was told.
pub(super) fn bring(
    gateways: &Gateways,
    controller: &At,
    node: &At,
    host: &str,
    volume: &Volume,
) -> Result<BTreeMap<String, String>> {
    let publish = ControllerPublishVolumeRequest {
        volume_id: volume.id.clone(),
        node_id: host.to_owned(),
        volume_capability: volume.capability.clone(),
        volume_context: volume.context.clone(),
        ..Default::default()
    };
    let method = "csi.v1.Controller/ControllerPublishVolume";
    let told: ControllerPublishVolumeResponse = ask(gateways, controller, method, &publish)?;
    let stage = NodeStageVolumeRequest {
        volume_id: volume.id.clone(),
        publish_context: told.publish_context.clone(),
        staging_target_path: STAGING.to_owned(),
        volume_capability: volume.capability.clone(),
        volume_context: volume.context.clone(),
        secrets: volume.secrets.clone(),
    };
    let _: NodeStageVolumeResponse = ask(gateways, node, "csi.v1.Node/NodeStageVolume", &stage)?;
    Ok(told.publish_context)
}

pub(super) fn take_off(gateways: &Gateways, controller: &At, host: &str, volume: &Volume) -> Result<()> {
    let request = ControllerUnpublishVolumeRequest {
        volume_id: volume.id.clone(),
        node_id: host.to_owned(),
        ..Default::default()
    };
    let method = "csi.v1.Controller/ControllerUnpublishVolume";
    ask::<ControllerUnpublishVolumeResponse>(gateways, controller, method, &request).map(drop)
}

/// What a step says whose end is that nothing is left.
pub(super) fn delete(gateways: &Gateways, controller: &At, volume: &Volume) -> Result<String> {
    let request = DeleteVolumeRequest {
        volume_id: volume.id.clone(),
        ..Default::default()
    };
    ask::<DeleteVolumeResponse>(gateways, controller, "csi.v1.Controller/DeleteVolume", &request)?;
    Ok("nothing is left".to_owned())
}

/// The controller ends well, and the nodes before the cluster.
pub(super) fn end<Node>(gateways: Gateways, mut controller: Process, nodes: (Node, Node)) {
    assert!(
        controller.stop().is_some_and(|status| status.success()),
        "{}",
        controller.last_words()
    );
    drop(nodes);
    gateways.end();
}

pub(super) fn unstage(gateways: &Gateways, node: &At, volume: &Volume) -> Result<()> {
    let request = NodeUnstageVolumeRequest {
        volume_id: volume.id.clone(),
        staging_target_path: STAGING.to_owned(),
    };
    ask::<NodeUnstageVolumeResponse>(gateways, node, "csi.v1.Node/NodeUnstageVolume", &request).map(drop)
}

#[test]
fn a_volume_moves_from_a_lost_node_and_late_writes_are_not_taken() {
    let gateways = Gateways::start(64 * MIB).expect("a cluster");
    let (controller, process) = controller(&gateways);
    let (alpha, beta) = (Pod::boot("worker-1", &gateways), Pod::boot("worker-2", &gateways));
    let (first, second) = (At::Port(alpha.port), At::Port(beta.port));
    let mut steps = Steps::of("a lost node", &[]);
    for pod in [&alpha, &beta] {
        steps.step("a node starts", || pod.sh("drivers; by_port; echo serves"));
    }
    let (one, two) = (id_of(&gateways, &first), id_of(&gateways, &second));
    assert_ne!(one, two);
    // What waits for a path fails soon, so that the end of a late write is seen.
    let parameters = [("nvmeFastIoFailTmo", "5"), ("nvmeKeepAliveTmo", "30")];
    let volume = make(&gateways, &controller, ("pvc-1", None), ext4(), &parameters);
    steps.step("the first node writes", || {
        let told = bring(&gateways, &controller, &first, &one, &volume)?;
        assert!(!told.contains_key("preempt"), "{told:?}");
        // Beside it one that has the disk open, and will write to it when it is another's.
        alpha.sh(&format!(
            "seq 100000 >{STAGING}/before && sync -f {STAGING} && sha256sum <{STAGING}/before
             device=$(awk '$5 == \"{STAGING}\" {{ print $(NF-1) }}' /proc/self/mountinfo)
             [ -b \"$device\" ] || fail \"no disk: $device\"
             (
                 exec 3<>\"$device\"
                 while [ ! -e /tmp/csi/go ]; do sleep 0.1; done
                 dd if=/dev/urandom bs=1M count=32 oflag=direct >&3 2>/tmp/csi/dd
                 echo $? >/tmp/csi/ended
             ) >/dev/null 2>&1 &"
        ))
    });
    let sum = alpha.sh(&format!("sha256sum <{STAGING}/before")).expect("a sum");
    steps.step("it is lost, and the volume is used at the second", || {
        let started = Instant::now();
        // Nobody asks the first one: its mount, its paths and its reservation are there still.
        take_off(&gateways, &controller, &one, &volume)?;
        let told = bring(&gateways, &controller, &second, &two, &volume)?;
        let there = beta.sh(&format!(
            "echo mine >{STAGING}/after && sync -f {STAGING} && sha256sum <{STAGING}/before"
        ))?;
        let took = started.elapsed();
        match there == sum && took < LIMIT && told.contains_key("preempt") {
            true => Ok(format!(
                "after {:.1} s; it was told to preempt {}",
                took.as_secs_f64(),
                told["preempt"]
            )),
            false => Err(Failure::new(format!(
                "{there} and not {sum}, after {took:?}, told {told:?}"
            ))),
        }
    });
    steps.step("the first one's late write fails", || {
        // By who had the disk open, over all of it: had one block been taken, the second one's would be gone. And by its file system. The kernel has taken
        // the disk away, for every gateway told it that this host may not connect.
        alpha.sh(&format!(
            "touch /tmp/csi/go
             for wait in $(seq 600); do [ -s /tmp/csi/ended ] && break; sleep 0.1; done
             cat /tmp/csi/dd
             sync -f {STAGING}; echo late 2>&1 >{STAGING}/late && sync -f {STAGING} 2>&1; late=$?
             echo \"dd ended with $(cat /tmp/csi/ended), the file system with $late\"
             [ \"$(cat /tmp/csi/ended)\" = 1 ] && [ $late -ne 0 ] && grep -q 'error writing' /tmp/csi/dd"
        ))
    });
    steps.step("the second one's disk is as it was", || {
        let there = beta.sh(&format!(
            "echo 3 >/proc/sys/vm/drop_caches; sha256sum <{STAGING}/before; [ \"$(cat {STAGING}/after)\" = mine ] || fail 'it is gone'"
        ))?;
        match there == sum {
            true => Ok(there),
            false => Err(Failure::new(format!("{there} and not {sum}"))),
        }
    });
    steps.step("both let go of it", || {
        unstage(&gateways, &second, &volume)?;
        take_off(&gateways, &controller, &two, &volume)?;
        // The first one comes back, and cleans up what it had.
        unstage(&gateways, &first, &volume)?;
        alpha.sh("clean")?;
        beta.sh("clean")?;
        delete(&gateways, &controller, &volume)
    });
    steps.finish();
    end(gateways, process, (alpha, beta));
}

/// The volume goes from the first node to the second and back, and the first one's network is away all the while: what it had queued by the attachment that it lost
/// is never sent, whatever its kernel makes of a refusal (run it with a kernel that goes on for ever, too: `AMITA_GUEST_KERNEL=6.1`).
#[test]
fn what_a_lost_node_had_queued_is_not_sent_when_it_has_the_volume_again() {
    let gateways = Gateways::start(64 * MIB).expect("a cluster");
    let (controller, process) = controller(&gateways);
    let (alpha, beta) = (Pod::boot("worker-1", &gateways), Pod::boot("worker-2", &gateways));
    let (first, second) = (At::Port(alpha.port), At::Port(beta.port));
    let mut steps = Steps::of("a node that comes back", &[]);
    for pod in [&alpha, &beta] {
        steps.step("a node starts", || pod.sh("drivers; by_port; uname -r"));
    }
    let (one, two) = (id_of(&gateways, &first), id_of(&gateways, &second));
    let volume = make(
        &gateways,
        &controller,
        ("pvc-1", None),
        ext4(),
        &[("nvmeKeepAliveTmo", "5")],
    );
    let before = steps_of_loss(&mut steps, &gateways, &controller, &alpha, &first, (&one, &volume));
    let mut written = String::new();
    steps.step("the second node writes, and lets go of it", || {
        take_off(&gateways, &controller, &one, &volume)?;
        let told = bring(&gateways, &controller, &second, &two, &volume)?;
        assert_ne!(told["nqn"], before["nqn"]);
        written = beta.sh(&format!(
            "seq 200000 >{STAGING}/before && sync -f {STAGING} && sha256sum <{STAGING}/before"
        ))?;
        unstage(&gateways, &second, &volume)?;
        take_off(&gateways, &controller, &two, &volume)?;
        Ok("it is nobody's".to_owned())
    });
    steps.step("the first node has it again, and nothing of before is sent", || {
        let publish = ControllerPublishVolumeRequest {
            volume_id: volume.id.clone(),
            node_id: one.clone(),
            volume_capability: ext4(),
            volume_context: volume.context.clone(),
            ..Default::default()
        };
        let method = "csi.v1.Controller/ControllerPublishVolume";
        let told: ControllerPublishVolumeResponse = ask(&gateways, &controller, method, &publish)?;
        assert_ne!(told.publish_context["nqn"], before["nqn"]);
        // Its kernel tries every two seconds: it has been refused several times before the volume is staged.
        alpha.sh("ip link set eth0 up && ip route replace default via 10.0.2.2 && ip route replace 127.0.1.0/24 via 10.0.2.2 src 10.0.2.15 table local && sleep 15 && echo up")?;
        let told = bring(&gateways, &controller, &first, &one, &volume)?;
        // It fails, or is ended: the kernel's send in its name over a connection that is closed raises SIGPIPE (141).
        let there = alpha.sh(&format!(
            "for wait in $(seq 600); do [ -s /tmp/csi/ended ] && break; sleep 0.1; done
             case $(cat /tmp/csi/ended) in
                 1|141) ;;
                 *) fail \"what was queued was taken: $(cat /tmp/csi/ended /tmp/csi/dd)\" ;;
             esac
             for folder in /sys/class/nvme/nvme*; do
                 [ ! -e \"$folder/subsysnqn\" ] || [ \"$(cat \"$folder/subsysnqn\")\" = '{}' ] || fail \"the lost attachment is there: $folder $(cat \"$folder/subsysnqn\" \"$folder/state\")\"
             done
             echo 3 >/proc/sys/vm/drop_caches
             sha256sum <{STAGING}/before",
            told["nqn"]
        ))?;
        match there == written {
            true => Ok(there),
            false => Err(Failure::new(format!("{there} and not {written}"))),
        }
    });
    steps.step("it is let go of", || {
        unstage(&gateways, &first, &volume)?;
        take_off(&gateways, &controller, &one, &volume)?;
        alpha.sh("clean")?;
        beta.sh("clean")
    });
    steps.finish();
    end(gateways, process, (alpha, beta));
}

/// The first node has it, loses its network, and writes all over the disk; what it was told.
fn steps_of_loss(
    steps: &mut Steps<'_>,
    gateways: &Gateways,
    controller: &At,
    alpha: &Pod,
    first: &At,
    (one, volume): (&str, &Volume),
) -> BTreeMap<String, String> {
    let mut told = BTreeMap::new();
    steps.step("the first node loses its network, and goes on writing", || {
        told = bring(gateways, controller, first, one, volume)?;
        alpha.sh(&format!(
            "seq 100000 >{STAGING}/before && sync -f {STAGING}
             device=$(awk '$5 == \"{STAGING}\" {{ print $(NF-1) }}' /proc/self/mountinfo)
             [ -b \"$device\" ] || fail \"no disk: $device\"
             ip link set eth0 down
             (
                 dd if=/dev/urandom bs=1M count=32 oflag=direct of=\"$device\" conv=notrunc 2>/tmp/csi/dd
                 echo $? >/tmp/csi/ended
             ) >/dev/null 2>&1 &
             sleep 10
             [ ! -e /tmp/csi/ended ] || fail 'nothing is queued'
             echo 'it is queued'"
        ))
    });
    told
}
