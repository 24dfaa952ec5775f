//! The node on a machine that is made up: no root, no kernel module, no disk. Each call is cut at each thing that it does, before and after it took place.

mod crypt;
mod host;
mod initiator;
mod inline;
mod iscsi;
mod paths;
mod reservations;

use super::machine::Kind;
use super::*;
use crate::capability::tests::{block, mount};
use crate::id;
use crate::wire::common::{
    CapacityRange, VolumeCapability, VolumeCapabilityAccessModeMode as Mode,
    VolumeCapabilityAccessTypeOneOf as AccessType,
};
use crate::{Driver, USUAL_NAME};
use host::{Cut, Host};
use std::collections::BTreeMap;
use tonic::Code;
use wire::*;

const STAGING: &str = "/var/lib/kubelet/staging";
const TARGET: &str = "/var/lib/kubelet/pods/1/volume";
const VOLUME: &str = "7:pvc-1";

fn own() -> Uuid {
    Uuid::from_u128(0x0f8f_ad5b_d9cb_469f_a165_7086_7728_950e)
}

/// What it is known by where it is not told which attachment it is.
fn key(host: Uuid) -> u64 {
    id::reservation_key(host)
}

fn node(host: &Host) -> Node {
    let driver = Driver::new(USUAL_NAME).expect("a name");
    Node::new(Arc::new(host.clone()), driver, own(), 0)
}

fn nqn() -> String {
    let id = VolumeId::parse(VOLUME).expect("an id");
    format!("nqn.2026-11.io.amita:01234567:{}", id.subsystem(USUAL_NAME))
}

fn told(more: &[(&str, &str)]) -> BTreeMap<String, String> {
    let nqn = nqn();
    let own = [
        ("nqn", nqn.as_str()),
        ("uuid", host::DISK_UUID),
        ("portals", "192.0.2.1:4420,192.0.2.2:4420"),
    ];
    let all = own.iter().chain(more);
    all.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn stage_of(capability: VolumeCapability, more: &[(&str, &str)]) -> NodeStageVolumeRequest {
    NodeStageVolumeRequest {
        volume_id: VOLUME.to_owned(),
        publish_context: told(more),
        staging_target_path: STAGING.to_owned(),
        volume_capability: Some(capability),
        ..Default::default()
    }
}

fn writer(fs_type: &str) -> VolumeCapability {
    mount(Mode::SingleNodeWriter, fs_type)
}

const EXCLUSIVE: &[(&str, &str)] = &[("exclusive", "1")];

fn stage(host: &Host, fs_type: &str) -> Result<(), Status> {
    node(host).stage(&stage_of(writer(fs_type), EXCLUSIVE)).map(drop)
}

fn unstage(host: &Host) -> Result<(), Status> {
    let request = NodeUnstageVolumeRequest {
        volume_id: VOLUME.to_owned(),
        staging_target_path: STAGING.to_owned(),
    };
    node(host).unstage(&request).map(drop)
}

fn publish(host: &Host, capability: VolumeCapability, readonly: bool) -> Result<(), Status> {
    let request = NodePublishVolumeRequest {
        volume_id: VOLUME.to_owned(),
        publish_context: told(EXCLUSIVE),
        staging_target_path: STAGING.to_owned(),
        target_path: TARGET.to_owned(),
        volume_capability: Some(capability),
        readonly,
        ..Default::default()
    };
    node(host).publish(&request).map(drop)
}

fn unpublish(host: &Host) -> Result<(), Status> {
    let request = NodeUnpublishVolumeRequest {
        volume_id: VOLUME.to_owned(),
        target_path: TARGET.to_owned(),
    };
    node(host).unpublish(&request).map(drop)
}

fn code<T: std::fmt::Debug>(done: Result<T, Status>) -> Code {
    done.expect_err("refused").code()
}

/// What runs over a machine of its own.
type Step = fn(&Host) -> Result<(), Status>;

fn everywhere(before: &[Step], call: Step) {
    let fresh = || {
        let host = Host::new(&nqn());
        for step in before {
            step(&host).expect("what comes before");
        }
        host.cut(None);
        host
    };
    let whole = fresh();
    call(&whole).expect("it works when it is not cut");
    let done = whole.done();
    call(&whole).expect("it works again");
    let end = whole.shape();
    assert!(done > 0 && done < 40, "{done}");
    for cut in (1..=done).flat_map(|at| [Cut::Before(at), Cut::After(at)]) {
        let host = fresh();
        host.cut(Some(cut));
        call(&host).expect_err("it was cut");
        host.cut(None);
        call(&host).unwrap_or_else(|why| panic!("{cut:?}: {why}"));
        assert_eq!(host.shape(), end, "{cut:?}");
    }
}

#[test]
fn each_call_may_be_cut_anywhere() {
    let ext4: Step = |host| stage(host, "ext4");
    let xfs: Step = |host| stage(host, "xfs");
    let disk: Step = |host| {
        node(host)
            .stage(&stage_of(block(Mode::SingleNodeWriter), EXCLUSIVE))
            .map(drop)
    };
    let shown: Step = |host| publish(host, writer(""), false);
    let shown_to_be_read: Step = |host| publish(host, writer(""), true);
    let bound: Step = |host| publish(host, block(Mode::SingleNodeWriter), false);
    everywhere(&[], ext4);
    everywhere(&[], xfs);
    everywhere(&[], disk);
    everywhere(&[ext4], unstage);
    everywhere(&[disk], unstage);
    everywhere(&[ext4], shown);
    everywhere(&[ext4], shown_to_be_read);
    everywhere(&[disk], bound);
    everywhere(&[ext4, shown], unpublish);
    everywhere(&[disk, bound], unpublish);
}

#[test]
fn a_volume_comes_by_all_paths_and_goes_without_a_trace() {
    let host = Host::new(&nqn());
    stage(&host, "ext4").expect("staged");
    {
        let state = host.state();
        assert_eq!(state.paths.len(), 2);
        let line = &state.lines[0];
        for wanted in [
            "transport=tcp,traddr=192.0.2.1,trsvcid=4420",
            "hostid=0f8fad5b-d9cb-469f-a165-70867728950e",
            "ctrl_loss_tmo=-1",
            "fast_io_fail_tmo=600",
            "nr_io_queues=2",
        ] {
            assert!(line.contains(wanted), "{line}");
        }
        assert_eq!(state.content.as_deref(), Some("ext4"));
        assert_eq!(state.holder, Some(key(own())));
    }
    publish(&host, writer(""), false).expect("shown");
    assert_eq!(code(unstage(&host)), Code::FailedPrecondition);
    // It was unmounted at its own place, and is in use at another.
    unpublish(&host).expect("shown no longer");
    unstage(&host).expect("gone");
    let state = host.state();
    assert!(state.paths.is_empty() && state.mounts.is_empty());
    // Until the next one takes it: late writes of one that was lost before are not taken in between.
    assert_eq!(state.holder, Some(key(own())));
}

#[test]
fn what_holds_something_is_never_formatted() {
    for (holds, wanted) in [
        ("xfs", "ext4"),
        ("ext4", "xfs"),
        ("crypto_LUKS", "ext4"),
        ("partitions", "ext4"),
        ("ambivalent", "xfs"),
    ] {
        let host = Host::new(&nqn());
        host.state().content = Some(holds.to_owned());
        assert_eq!(code(stage(&host, wanted)), Code::FailedPrecondition, "{holds}");
        let state = host.state();
        assert_eq!((state.content.as_deref(), state.formatted), (Some(holds), 0));
    }
    let host = Host::new(&nqn());
    host.state().content = Some("ext4".to_owned());
    stage(&host, "ext4").expect("it is what is wanted");
    assert_eq!(host.state().formatted, 0);
    // A disk that cannot be looked at is not an empty one.
    let host = Host::new(&nqn());
    host.state().content = Some("broken".to_owned());
    assert_eq!(code(stage(&host, "ext4")), Code::Internal);
    assert_eq!(host.state().formatted, 0);
    // Nor is one of which blkid says so: it says it of one that cannot be read, and of data without a mark.
    let host = Host::new(&nqn());
    host.state().is_unreadable = true;
    assert_eq!(code(stage(&host, "ext4")), Code::Internal);
    host.state().is_unreadable = false;
    host.state().has_data = true;
    assert_eq!(code(stage(&host, "ext4")), Code::FailedPrecondition);
    assert_eq!(host.state().formatted, 0);
    host.state().has_data = false;
    stage(&host, "ext4").expect("it is empty");
    assert_eq!(host.state().formatted, 1);
}

#[test]
fn what_cannot_be_staged_leaves_no_path() {
    let host = Host::new(&nqn());
    host.state().content = Some("xfs".to_owned());
    assert_eq!(code(stage(&host, "ext4")), Code::FailedPrecondition);
    {
        let state = host.state();
        assert_eq!(state.lines.len(), 2);
        assert!(state.paths.is_empty(), "{:?}", state.paths);
    }
    // What is in use stays, whatever has failed.
    let host = Host::new(&nqn());
    stage(&host, "ext4").expect("staged");
    host.state().holder = Some(0xaa);
    assert_eq!(code(stage(&host, "ext4")), Code::FailedPrecondition);
    let state = host.state();
    assert_eq!((state.paths.len(), state.mounts.len()), (2, 1));
}

#[test]
fn an_xfs_is_one_that_older_kernels_mount() {
    let host = Host::new(&nqn());
    let mut request = stage_of(writer("xfs"), EXCLUSIVE);
    let options = ("mkfsOptions".to_owned(), "-i size=1024".to_owned());
    request.volume_context = BTreeMap::from([options]);
    node(&host).stage(&request).expect("staged");
    let wanted = "mkfs.xfs -f -K -i nrext64=0 -i size=1024 /dev/nvme3n1";
    let ran = host.state().ran.clone();
    assert!(ran.iter().any(|line| line == wanted), "{ran:?}");
}

/// What is mounted of a disk that is gone is in nobody's way.
#[test]
fn a_dead_mount_is_mounted_anew() {
    let of = |source: &str, at: &str| host::Mount {
        source: source.to_owned(),
        root: "/".to_owned(),
        at: at.to_owned(),
        kind: "ext4".to_owned(),
        is_read_only: false,
    };
    let host = Host::new(&nqn());
    host.state().lost = Some(nqn().replace("01234567", "89abcdef"));
    host.state().content = Some("ext4".to_owned());
    for at in [STAGING, TARGET] {
        let dead = of(host::LOST_DISK, at);
        host.state().mounts.push(dead);
    }
    stage(&host, "ext4").expect("staged");
    publish(&host, writer(""), false).expect("shown");
    {
        let state = host.state();
        let shown: Vec<&str> = state.mounts.iter().map(|mount| mount.source.as_str()).collect();
        assert_eq!(shown, ["/dev/nvme3n1"; 2]);
    }
    // A disk of others' stays.
    let host = Host::new(&nqn());
    host.state().mounts.push(of("/dev/sda1", STAGING));
    assert_eq!(code(stage(&host, "ext4")), Code::Internal);
    assert_eq!(host.state().mounts.len(), 1);
    // The file of a disk that has gone.
    let host = Host::new(&nqn());
    let disk = || block(Mode::SingleNodeWriter);
    node(&host).stage(&stage_of(disk(), EXCLUSIVE)).expect("staged");
    publish(&host, disk(), false).expect("bound");
    host.state().mounts[0].root += "//deleted";
    publish(&host, disk(), false).expect("bound anew");
    let state = host.state();
    let roots: Vec<&str> = state.mounts.iter().map(|mount| mount.root.as_str()).collect();
    assert_eq!(roots, ["/nvme3n1"]);
}

/// Mounts of other name spaces are not seen; the kernel knows them all the same.
#[test]
fn what_is_in_use_elsewhere_is_not_taken_away() {
    let host = Host::new(&nqn());
    stage(&host, "ext4").expect("staged");
    host.state().is_used_elsewhere = true;
    let refused = unstage(&host).expect_err("in use");
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("/dev/nvme3n1 is in use"), "{refused}");
    assert_eq!(host.state().paths.len(), 2);
    assert_eq!(host.state().synced, [STAGING]);
    // A pod that comes meanwhile has the file system that is mounted: no tool can check it.
    stage(&host, "ext4").expect("mounted once more");
    publish(&host, writer(""), false).expect("shown");
    unpublish(&host).expect("shown no longer");
    assert_eq!(code(unstage(&host)), Code::FailedPrecondition);
    host.state().is_used_elsewhere = false;
    unstage(&host).expect("gone");
    let state = host.state();
    assert!(state.paths.is_empty());
    assert_eq!(state.synced.last().map(String::as_str), Some("/dev/nvme3n1"));
}

/// What a pod has on its disk the machine may take for its own.
#[test]
fn who_has_built_on_a_disk_is_named() {
    let host = Host::new(&nqn());
    let request = stage_of(block(Mode::SingleNodeWriter), EXCLUSIVE);
    node(&host).stage(&request).expect("staged");
    host.state().built.push("dm-3");
    let refused = unstage(&host).expect_err("in use");
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("by dm-3 (name-of-dm-3)"), "{refused}");
    assert_eq!(host.state().paths.len(), 2);
    host.state().built.clear();
    unstage(&host).expect("gone");
}

#[test]
fn no_refusal_has_a_secret() {
    let host = Host::new(&nqn());
    let all = ["192.0.2.1:4420", "192.0.2.2:4420"].map(str::to_owned);
    host.state().away.extend(all);
    for secret in ["DHHC-1:00:c2VjcmV0:", "DHHC-1:00:c2Vj cmV0:"] {
        let request = NodeStageVolumeRequest {
            secrets: BTreeMap::from([("nvmeDhchapSecret".to_owned(), secret.to_owned())]),
            ..stage_of(writer("ext4"), EXCLUSIVE)
        };
        let refused = node(&host).stage(&request).expect_err("refused");
        assert!(!refused.message().contains("DHHC"), "{refused}");
    }
    host.state().away.clear();
    let request = NodeStageVolumeRequest {
        secrets: BTreeMap::from([("nvmeDhchapSecret".to_owned(), "DHHC-1:00:c2VjcmV0:".to_owned())]),
        ..stage_of(writer("ext4"), EXCLUSIVE)
    };
    node(&host).stage(&request).expect("staged");
    let state = host.state();
    assert!(state.lines[0].ends_with(",dhchap_secret=DHHC-1:00:c2VjcmV0:"));
    assert!(!state.ran.iter().any(|line| line.contains("DHHC")), "{:?}", state.ran);
}

#[test]
fn a_mount_has_one_path() {
    for bad in ["/", "//", "/a//b", "/a/./b", "/a/../b", "a/b", "/a\n", ""] {
        let said = path(bad, "target path");
        assert_eq!(code(said), Code::InvalidArgument, "{bad:?}");
    }
    assert_eq!(path("/a/b/", "target path").expect("a path"), "/a/b");
    assert_eq!(path("/a/..b/c.", "target path").expect("a path"), "/a/..b/c.");
}

#[test]
fn it_grows_where_it_is_written() {
    let host = Host::new(&nqn());
    stage(&host, "xfs").expect("staged");
    publish(&host, writer("xfs"), true).expect("shown");
    assert_eq!(code(publish(&host, writer("xfs"), false)), Code::AlreadyExists);
    host.state().will_have = Some(2 << 30);
    let request = NodeExpandVolumeRequest {
        volume_id: VOLUME.to_owned(),
        volume_path: TARGET.to_owned(),
        capacity_range: Some(CapacityRange {
            required_bytes: 2 << 30,
            limit_bytes: 0,
        }),
        ..Default::default()
    };
    node(&host).expand(&request).expect("grown");
    assert_eq!(host.state().file_system_bytes, 2 << 30);
    // What its options say to be only read is not grown.
    let host = Host::new(&nqn());
    let mut capability = writer("ext4");
    if let Some(AccessType::Mount(mount)) = &mut capability.access_type {
        mount.mount_flags = vec!["ro".to_owned()];
    }
    node(&host).stage(&stage_of(capability, EXCLUSIVE)).expect("staged");
    let state = host.state();
    assert!(
        !state.ran.iter().any(|line| line.starts_with("resize2fs")),
        "{:?}",
        state.ran
    );
}

#[test]
fn one_call_is_at_work_on_a_volume_whatever_its_id_says() {
    let host = Host::new(&nqn());
    let node = node(&host);
    let _hold = node.hold(7).expect("free");
    let request = NodeStageVolumeRequest {
        volume_id: "07:another".to_owned(),
        ..stage_of(writer("ext4"), EXCLUSIVE)
    };
    assert_eq!(code(node.stage(&request)), Code::Aborted);
}

#[test]
fn what_is_only_read_is_mounted_so_and_not_repaired() {
    let host = Host::new(&nqn());
    host.state().content = Some("xfs".to_owned());
    host.state().is_read_only = true;
    let request = stage_of(mount(Mode::MultiNodeReaderOnly, "xfs"), &[]);
    node(&host).stage(&request).expect("staged");
    let state = host.state();
    assert!(
        state.ran.iter().any(|line| line.contains("-o ro,norecovery,nouuid")),
        "{:?}",
        state.ran
    );
    assert!(
        !state
            .ran
            .iter()
            .any(|line| line.starts_with("xfs_growfs") || line.starts_with("fsck")),
        "{:?}",
        state.ran
    );
}

#[test]
fn a_volume_that_has_grown_is_used_whole() {
    let host = Host::new(&nqn());
    stage(&host, "ext4").expect("staged");
    publish(&host, writer(""), false).expect("shown");
    host.state().will_have = Some(2 << 30);
    let request = NodeExpandVolumeRequest {
        volume_id: VOLUME.to_owned(),
        volume_path: TARGET.to_owned(),
        capacity_range: Some(CapacityRange {
            required_bytes: 2 << 30,
            limit_bytes: 0,
        }),
        ..Default::default()
    };
    let grown = node(&host).expand(&request).expect("grown");
    assert_eq!(
        (grown.capacity_bytes, host.state().file_system_bytes),
        (2 << 30, 2 << 30)
    );
    let larger = NodeExpandVolumeRequest {
        capacity_range: Some(CapacityRange {
            required_bytes: 3 << 30,
            limit_bytes: 0,
        }),
        ..request
    };
    assert_eq!(code(node(&host).expand(&larger)), Code::Unavailable);
}

#[test]
fn figures_are_of_what_is_there() {
    let host = Host::new(&nqn());
    let ask = |volume_path: &str| {
        node(&host).stats(&NodeGetVolumeStatsRequest {
            volume_id: VOLUME.to_owned(),
            volume_path: volume_path.to_owned(),
            ..Default::default()
        })
    };
    assert_eq!(code(ask(TARGET)), Code::NotFound);
    assert_eq!(code(ask("")), Code::InvalidArgument);
    assert_eq!(code(ask("no/path")), Code::NotFound);
    stage(&host, "ext4").expect("staged");
    publish(&host, writer(""), false).expect("shown");
    let usage = ask(TARGET).expect("figures").usage;
    assert_eq!(usage.len(), 2);
    assert_eq!(
        (usage[0].total, usage[0].unit),
        (1 << 30, VolumeUsageUnit::Bytes as i32)
    );
    unpublish(&host).expect("shown no longer");
    unstage(&host).expect("gone");
    node(&host)
        .stage(&stage_of(block(Mode::SingleNodeWriter), EXCLUSIVE))
        .expect("staged");
    publish(&host, block(Mode::SingleNodeWriter), false).expect("bound");
    let usage = ask(TARGET).expect("figures").usage;
    assert_eq!((usage.len(), usage[0].total), (1, 1 << 30));
    assert_eq!(host.kind(TARGET).expect("it"), Some(Kind::Disk));
    assert_eq!(
        code(publish(&host, block(Mode::SingleNodeWriter), true)),
        Code::InvalidArgument
    );
}

#[test]
fn what_is_missing_is_said() {
    let host = Host::new(&nqn());
    let whole = || stage_of(writer(""), EXCLUSIVE);
    let bad = [
        NodeStageVolumeRequest {
            volume_id: String::new(),
            ..whole()
        },
        NodeStageVolumeRequest {
            staging_target_path: String::new(),
            ..whole()
        },
        NodeStageVolumeRequest {
            staging_target_path: "/a/../b".to_owned(),
            ..whole()
        },
        NodeStageVolumeRequest {
            volume_capability: None,
            ..whole()
        },
        NodeStageVolumeRequest {
            publish_context: BTreeMap::new(),
            ..whole()
        },
        NodeStageVolumeRequest {
            secrets: BTreeMap::from([("nvmeDhchapSecret".to_owned(), "a,transport=rdma".to_owned())]),
            ..whole()
        },
    ];
    for request in bad {
        let said = format!("{:?} {:?}", request.volume_id, request.staging_target_path);
        assert_eq!(code(node(&host).stage(&request)), Code::InvalidArgument, "{said}");
    }
    assert_eq!(host.done(), 0);
    assert_eq!(code(publish(&host, writer(""), false)), Code::FailedPrecondition);
    unpublish(&host).expect("nothing is there");
    unstage(&host).expect("nothing is there");
}

/// What is incomplete is told so, also where it names a volume that nobody has.
#[test]
fn what_is_missing_is_said_before_who_is_not_there() {
    let host = Host::new(&nqn());
    let nobodys = || "fake-vol-id".to_owned();
    let shown = NodePublishVolumeRequest {
        volume_id: nobodys(),
        target_path: TARGET.to_owned(),
        ..Default::default()
    };
    assert_eq!(code(node(&host).publish(&shown)), Code::InvalidArgument);
    let named = NodeUnpublishVolumeRequest {
        volume_id: nobodys(),
        ..Default::default()
    };
    assert_eq!(code(node(&host).unpublish(&named)), Code::InvalidArgument);
    let named = NodeUnstageVolumeRequest {
        volume_id: nobodys(),
        ..Default::default()
    };
    assert_eq!(code(node(&host).unstage(&named)), Code::InvalidArgument);
    let named = NodeExpandVolumeRequest {
        volume_id: nobodys(),
        volume_path: "no/path".to_owned(),
        ..Default::default()
    };
    assert_eq!(code(node(&host).expand(&named)), Code::NotFound);
}

#[test]
fn what_is_for_one_pod_is_shown_at_one_place() {
    let other = |capability: VolumeCapability, target_path: &str| NodePublishVolumeRequest {
        volume_id: VOLUME.to_owned(),
        publish_context: told(EXCLUSIVE),
        staging_target_path: STAGING.to_owned(),
        target_path: target_path.to_owned(),
        volume_capability: Some(capability),
        ..Default::default()
    };
    let host = Host::new(&nqn());
    stage(&host, "ext4").expect("staged");
    let alone = || mount(Mode::SingleNodeSingleWriter, "");
    let second = "/var/lib/kubelet/pods/2/volume";
    publish(&host, alone(), false).expect("shown");
    publish(&host, alone(), false).expect("shown there already");
    let refused = node(&host).publish(&other(alone(), second));
    assert_eq!(code(refused), Code::FailedPrecondition);
    assert_eq!(host.state().mounts.len(), 2);
    let several = mount(Mode::SingleNodeMultiWriter, "");
    node(&host).publish(&other(several, second)).expect("shown to two");
    // A disk: beside its place, and not where kubelet binds it for itself.
    let host = Host::new(&nqn());
    let alone = || block(Mode::SingleNodeSingleWriter);
    node(&host).stage(&stage_of(alone(), EXCLUSIVE)).expect("staged");
    let place = |pod: &str| format!("/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/publish/pvc-1/{pod}");
    node(&host).publish(&other(alone(), &place("1"))).expect("bound");
    let kubelets = "/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/pvc-1/dev/1";
    let own = host.state().mounts[0].clone();
    host.state().mounts.push(host::Mount {
        at: kubelets.to_owned(),
        ..own
    });
    node(&host)
        .publish(&other(alone(), &place("1")))
        .expect("bound already");
    let refused = node(&host).publish(&other(alone(), &place("2")));
    assert_eq!(code(refused), Code::FailedPrecondition);
}

#[test]
fn a_host_is_the_same_until_it_is_set_up_anew() {
    let host = Host::new(&nqn());
    let driver = |name: &str| Driver::new(name).expect("a name");
    let usual = driver(USUAL_NAME);
    let first = host_id(&host, "worker-1", &usual).expect("an identifier");
    // It stays what clusters know it by.
    assert_eq!(first.to_string(), "25a717a9-c2ef-8e12-91e5-57df13a76208");
    assert_eq!(host_id(&host, "worker-1", &usual), Ok(first));
    assert_ne!(host_id(&host, "worker-2", &usual), Ok(first));
    // Two drivers of one machine are two hosts.
    assert_ne!(host_id(&host, "worker-1", &driver("csi.example")), Ok(first));
    assert_eq!(crate::id::node(&first.to_string()), Some(first));
    host.state().machine_id = "fedcba9876543210fedcba9876543210".to_owned();
    assert_ne!(host_id(&host, "worker-1", &usual), Ok(first));
    host.state().machine_id.clear();
    assert!(host_id(&host, "worker-1", &usual).is_err());
}
