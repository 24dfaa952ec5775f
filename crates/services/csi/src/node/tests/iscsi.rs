//! Volumes by iSCSI. As with NVMe/TCP, each call is cut at each thing that it does; and programs of the host fail.

use super::host::Cut;
use super::initiator::{Initiator, NAA};
use super::*;
use crate::protocol::NodeId;

const OLD: &str = "89abcdef";
const ATTACHMENT: u32 = 7;

fn node(machine: &Initiator) -> Node {
    let driver = Driver::new(USUAL_NAME).expect("a name");
    Node::new(Arc::new(machine.clone()), driver, own(), 0)
}

fn iqn(number: &str) -> String {
    let id = VolumeId::parse(VOLUME).expect("an id");
    format!("iqn.2026-11.io.amita:{number}:{}", id.subsystem(USUAL_NAME))
}

fn current() -> String {
    iqn("01234567")
}

fn machine() -> Initiator {
    Initiator::new(&current())
}

fn keys() -> id::Keys {
    id::Keys::of(own(), Some(ATTACHMENT))
}

fn told_of(iqn: &str, more: &[(&str, &str)]) -> BTreeMap<String, String> {
    let initiator = NodeId {
        host: own(),
        iscsi_alone: true,
    };
    let (initiator, attachment) = (initiator.initiator(), ATTACHMENT.to_string());
    let own = [
        ("iqn", iqn),
        ("lun", "0"),
        ("naa", NAA),
        ("initiator", initiator.as_str()),
        ("portals", "192.0.2.1:3260#1,192.0.2.2:3260#2"),
        ("attachment", attachment.as_str()),
        ("exclusive", "1"),
    ];
    let all = own.iter().chain(more);
    all.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn request(capability: VolumeCapability, told: BTreeMap<String, String>) -> NodeStageVolumeRequest {
    NodeStageVolumeRequest {
        volume_id: VOLUME.to_owned(),
        publish_context: told,
        staging_target_path: STAGING.to_owned(),
        volume_capability: Some(capability),
        ..Default::default()
    }
}

fn stage_told(machine: &Initiator, more: &[(&str, &str)]) -> Result<(), Status> {
    let request = request(writer("ext4"), told_of(&current(), more));
    node(machine).stage(&request).map(drop)
}

fn stage(machine: &Initiator) -> Result<(), Status> {
    stage_told(machine, &[])
}

fn stage_disk(machine: &Initiator) -> Result<(), Status> {
    let request = request(block(Mode::SingleNodeWriter), told_of(&current(), &[]));
    node(machine).stage(&request).map(drop)
}

fn unstage(machine: &Initiator) -> Result<(), Status> {
    let request = NodeUnstageVolumeRequest {
        volume_id: VOLUME.to_owned(),
        staging_target_path: STAGING.to_owned(),
    };
    node(machine).unstage(&request).map(drop)
}

fn bind(machine: &Initiator) -> Result<(), Status> {
    let request = NodePublishVolumeRequest {
        volume_id: VOLUME.to_owned(),
        publish_context: told_of(&current(), &[]),
        staging_target_path: STAGING.to_owned(),
        target_path: TARGET.to_owned(),
        volume_capability: Some(block(Mode::SingleNodeWriter)),
        ..Default::default()
    };
    node(machine).publish(&request).map(drop)
}

fn unbind(machine: &Initiator) -> Result<(), Status> {
    let request = NodeUnpublishVolumeRequest {
        volume_id: VOLUME.to_owned(),
        target_path: TARGET.to_owned(),
    };
    node(machine).unpublish(&request).map(drop)
}

type Step = fn(&Initiator) -> Result<(), Status>;

fn nothing_is_left(machine: &Initiator) {
    let state = machine.state();
    assert!(state.sessions.is_empty() && state.records.is_empty(), "{state:?}");
    assert!(state.map.is_none() && !state.is_known, "{state:?}");
}

fn everywhere(before: &[Step], call: Step) {
    let fresh = || {
        let machine = machine();
        for step in before {
            step(&machine).expect("what comes before");
        }
        machine.host.cut(None);
        machine
    };
    let whole = fresh();
    call(&whole).expect("it works when it is not cut");
    let done = whole.host.done();
    call(&whole).expect("it works again");
    let end = whole.shape();
    assert!(done > 0 && done < 80, "{done}");
    for cut in (1..=done).flat_map(|at| [Cut::Before(at), Cut::After(at)]) {
        for restarts in [false, true] {
            let machine = fresh();
            machine.host.cut(Some(cut));
            // What is only for order may fail: it is not told of.
            let _ = call(&machine);
            machine.host.cut(None);
            if restarts && before.is_empty() {
                machine.reboot();
            }
            call(&machine).unwrap_or_else(|why| panic!("{cut:?}, {restarts}: {why}"));
            assert_eq!(machine.shape(), end, "{cut:?}, {restarts}");
        }
    }
}

/// Also where the machine is started anew between the two: the sessions of before are other registrants then.
#[test]
fn each_call_may_be_cut_anywhere() {
    everywhere(&[], stage);
    everywhere(&[], stage_disk);
    everywhere(&[stage], unstage);
    everywhere(&[stage_disk], unstage);
    everywhere(&[stage_disk], bind);
    everywhere(&[stage_disk, bind], unbind);
}

#[test]
fn a_volume_comes_by_all_portals_and_goes_without_a_trace() {
    let machine = machine();
    stage(&machine).expect("staged");
    {
        let state = machine.state();
        let name = format!("iqn.2026-11.io.amita:csi-host:{}.iscsi", own());
        assert_eq!(state.interface, Some(name));
        assert_eq!(state.map.as_ref().map(Vec::len), Some(2));
        let record = &state.records[&(current(), "192.0.2.2:3260".to_owned())];
        assert_eq!(record["node.session.timeo.replacement_timeout"], "5");
        // Each path is registered, and one holds it.
        assert_eq!(state.registered.values().copied().collect::<Vec<_>>(), [keys().own; 2]);
        assert!(state.holder.is_some());
    }
    assert_eq!(machine.host.state().content.as_deref(), Some("ext4"));
    stage(&machine).expect("staged already");
    // It is mounted elsewhere, too, by the name that the map has.
    let elsewhere = |machine: &Initiator| {
        let mut host = machine.host.state();
        let mut mount = host.mounts[0].clone();
        mount.at = "/mnt".to_owned();
        host.mounts.push(mount);
    };
    elsewhere(&machine);
    assert_eq!(code(unstage(&machine)), Code::FailedPrecondition);
    machine.host.state().mounts.clear();
    machine.host.state().is_used_elsewhere = true;
    assert_eq!(code(unstage(&machine)), Code::FailedPrecondition);
    machine.host.state().is_used_elsewhere = false;
    unstage(&machine).expect("gone");
    unstage(&machine).expect("gone already");
    nothing_is_left(&machine);
    assert!(machine.state().holder.is_some(), "it stays until the next one takes it");
}

/// All that it had queued is in a map of the same name.
#[test]
fn what_was_lost_is_ended_before_disks_are_looked_for() {
    let machine = machine();
    machine.state().lets_in.insert(iqn(OLD));
    let of_old = request(writer("ext4"), told_of(&iqn(OLD), &[]));
    node(&machine).stage(&of_old).expect("staged");
    // In use it is not taken away under its users, and nothing is sent by the new paths.
    assert_eq!(code(stage(&machine)), Code::FailedPrecondition);
    {
        let state = machine.state();
        assert!(state.sessions.iter().all(|session| session.target == iqn(OLD)));
        assert_eq!(state.sessions.len(), 2);
    }
    machine.host.state().mounts.clear();
    for session in &mut machine.state().sessions {
        session.is_live = false;
    }
    stage(&machine).expect("staged");
    {
        let state = machine.state();
        assert!(state.sessions.iter().all(|session| session.target == current()));
        assert!(state.records.keys().all(|(target, _)| *target == current()));
    }
    // A call that comes late is of what lets nobody in any more, and ends nothing.
    machine.host.state().mounts.clear();
    machine.state().lets_in.remove(&iqn(OLD));
    assert_eq!(code(node(&machine).stage(&of_old)), Code::Unavailable);
    assert_eq!(machine.state().sessions.len(), 2);
    assert!(machine.state().records.keys().all(|(target, _)| *target == current()));
}

#[test]
fn a_map_without_paths_goes_with_its_mount() {
    let machine = machine();
    stage(&machine).expect("staged");
    machine.lose();
    unstage(&machine).expect("gone");
    let state = machine.state();
    assert!(state.map.is_none() && state.records.is_empty());
    drop(state);
    // One that nobody had unstaged is not what the volume comes by next.
    stage(&machine).expect("staged");
    machine.lose();
    assert_eq!(code(stage(&machine)), Code::FailedPrecondition);
    machine.host.state().mounts.clear();
    stage(&machine).expect("staged");
    assert_eq!(machine.state().map.as_ref().map(Vec::len), Some(2));
}

#[test]
fn one_portal_is_enough_and_who_refuses_is_asked_again() {
    let machine = machine();
    machine.host.state().away.insert("192.0.2.1:3260".to_owned());
    machine.state().refusals.insert("192.0.2.2:3260".to_owned(), 2);
    stage_disk(&machine).expect("staged");
    assert_eq!(machine.state().map.as_ref().map(Vec::len), Some(1));
    // What came back is a path when the disk is staged again, and not in use: each path is registered before.
    machine.host.state().away.clear();
    stage_disk(&machine).expect("staged");
    assert_eq!(machine.state().map.as_ref().map(Vec::len), Some(2));
    assert_eq!(machine.state().registered.len(), 2);
    bind(&machine).expect("bound");
    unbind(&machine).expect("bound no longer");
    unstage(&machine).expect("gone");
    machine.state().lets_in.clear();
    let refused = stage(&machine).expect_err("nobody lets it in");
    assert!(refused.message().contains("login rejected"), "{refused}");
    nothing_is_left(&machine);
    // Nor is a path added under a mount.
    machine.state().lets_in.insert(current());
    machine.host.state().away.insert("192.0.2.1:3260".to_owned());
    stage(&machine).expect("staged");
    machine.host.state().away.clear();
    stage(&machine).expect("staged already");
    assert_eq!(machine.state().sessions.len(), 1);
}

#[test]
fn a_program_that_fails_is_told_of_and_nothing_is_left() {
    for (part, exit, said, wanted, text) in [
        (
            "iscsiadm",
            127,
            "chroot: No such file",
            Code::FailedPrecondition,
            "open-iscsi",
        ),
        (
            "--login",
            20,
            "iscsid is not running",
            Code::Unavailable,
            "iscsid is not running",
        ),
        ("node.startup", 124, "", Code::Unavailable, "has not ended within 30 s"),
        ("multipath -a", 1, "no wwids", Code::Unavailable, "no wwids"),
        ("multipathd", 0, "fail", Code::Unavailable, "reconfigure"),
        ("multipathd", 1, "refused", Code::Unavailable, "refused"),
    ] {
        let machine = machine();
        machine.state().fails = Some((part, exit, said, usize::MAX));
        let why = stage(&machine).expect_err("it failed");
        assert_eq!(why.code(), wanted, "{why}");
        assert!(why.message().contains(text), "{why}");
        nothing_is_left(&machine);
        machine.state().fails = None;
        stage(&machine).expect("it works again");
    }
    // What cannot be ended stays, and is ended when it is asked for again.
    for part in ["multipath -f", "iscsiadm -m node", "--logout", "-o delete"] {
        let machine = machine();
        stage(&machine).expect("staged");
        machine.state().fails = Some((part, 1, "no", 1));
        unstage(&machine).expect_err("it failed");
        unstage(&machine).expect("it works again");
        nothing_is_left(&machine);
    }
    // It takes a path late, or looks at all anew.
    let machine = machine();
    machine.state().is_deaf = true;
    stage(&machine).expect("staged");
    let machine = self::machine();
    machine.state().fails = Some(("multipathd add", 1, "fail", 2));
    stage(&machine).expect("staged");
    assert!(!machine.state().said.iter().any(|line| line.contains("reconfigure")));
    let machine = self::machine();
    machine.state().other = Some("60000000000000000000000000000001");
    let why = stage(&machine).expect_err("another disk");
    assert!(why.message().contains("and not"), "{why}");
    nothing_is_left(&machine);
}

#[test]
fn a_host_that_is_lost_writes_no_more() {
    let other = id::Keys::of(Uuid::from_u128(2), Some(3));
    let text = |key: u64| format!("{key:#018x}");
    let lost = |held: u64| {
        let machine = machine();
        let mut state = machine.state();
        // Three paths, one of which has another key; and somebody who was cut before he held anything.
        state.registered = [(1000, held), (1001, other.own), (1002, other.own), (1003, 0xaa)].into();
        state.holder = Some(1000);
        drop(state);
        machine
    };
    let machine = lost(other.own);
    assert_eq!(code(stage(&machine)), Code::FailedPrecondition);
    let all = format!("{},{}", text(other.own), text(0xaa));
    stage_told(&machine, &[("preempt", &all)]).expect("staged");
    let only_own = |machine: &Initiator| {
        let state = machine.state();
        assert_eq!(state.registered.values().copied().collect::<Vec<_>>(), [keys().own; 2]);
        assert!(state.holder.is_some_and(|holder| holder < 1000));
    };
    only_own(&machine);
    assert_eq!(machine.host.state().formatted, 1);
    // It was making a file system.
    let machine = lost(other.making);
    machine.host.state().has_data = true;
    let all = format!("{},{}", text(other.making), text(0xaa));
    stage_told(&machine, &[("preempt", &all), ("unfinished", "1")]).expect("staged");
    only_own(&machine);
    assert_eq!(machine.host.state().formatted, 1);
    // A key that holds nothing says nothing of the disk: this host was cut when it was about to take what another one has made whole.
    let machine = lost(other.own);
    machine.state().registered.insert(1004, keys().making);
    machine.host.state().content = Some("ext4".to_owned());
    let all = format!("{},{}", text(other.own), text(0xaa));
    stage_told(&machine, &[("preempt", &all)]).expect("staged");
    only_own(&machine);
    assert_eq!(machine.host.state().formatted, 0);
    // For several nodes nobody holds it.
    let machine = lost(other.own);
    let mut told = told_of(&current(), &[("preempt", &text(other.own)), ("release", "1")]);
    told.remove("exclusive");
    node(&machine)
        .stage(&request(block(Mode::MultiNodeMultiWriter), told))
        .expect("staged");
    assert!(machine.state().registered.is_empty() && machine.state().holder.is_none());
}

#[test]
fn a_mkfs_that_is_cut_is_made_anew() {
    for restarts in [false, true] {
        let machine = machine();
        machine.host.state().is_mkfs_killed = true;
        stage(&machine).expect_err("killed");
        if restarts {
            machine.reboot();
        }
        stage(&machine).expect("staged");
        assert_eq!(machine.host.state().formatted, 1, "{restarts}");
        let state = machine.state();
        assert_eq!(state.registered[&state.holder.expect("held")], keys().own);
    }
}

#[test]
fn it_grows() {
    let machine = machine();
    stage(&machine).expect("staged");
    machine.state().will_have = Some(2 << 30);
    let request = NodeExpandVolumeRequest {
        volume_id: VOLUME.to_owned(),
        volume_path: STAGING.to_owned(),
        capacity_range: Some(CapacityRange {
            required_bytes: 2 << 30,
            limit_bytes: 0,
        }),
        ..Default::default()
    };
    machine.state().fails = Some(("resize", 1, "not yet", 1));
    let grown = node(&machine).expand(&request).expect("grown");
    assert_eq!(grown.capacity_bytes, 2 << 30);
    let said = machine.state().said.clone();
    assert!(
        said.iter()
            .filter(|line| *line == "multipathd resize map mpatha")
            .count()
            > 1
    );
}

#[test]
fn chap_is_kept_in_records_and_nowhere_else() {
    let machine = machine();
    let mut wanted = request(writer("ext4"), told_of(&current(), &[]));
    wanted.secrets = BTreeMap::from([("iscsiChapTargetSecret".to_owned(), "other".to_owned())]);
    assert_eq!(code(node(&machine).stage(&wanted)), Code::InvalidArgument);
    wanted
        .secrets
        .insert("iscsiChapSecret".to_owned(), "open sesame".to_owned());
    node(&machine).stage(&wanted).expect("staged");
    {
        let state = machine.state();
        let record = &state.records[&(current(), "192.0.2.1:3260".to_owned())];
        assert_eq!(record["node.session.auth.authmethod"], "CHAP");
        assert_eq!(Some(&record["node.session.auth.username"]), state.interface.as_ref());
        assert_eq!(record["node.session.auth.password"], "open sesame");
        assert_eq!(record["node.session.auth.username_in"], current());
        assert_eq!(record["node.session.auth.password_in"], "other");
    }
    unstage(&machine).expect("gone");
    nothing_is_left(&machine);
    for wrong in [
        ("lun", "x"),
        ("naa", "../sda"),
        ("portals", "192.0.2.1:3260"),
        ("initiator", "-v"),
        ("iqn", "-T"),
    ] {
        assert_eq!(code(stage_told(&machine, &[wrong])), Code::InvalidArgument, "{wrong:?}");
    }
}

#[test]
fn a_node_says_that_it_has_iscsi_alone() {
    let machine = machine();
    let info = node(&machine).info();
    assert_eq!(info.node_id, format!("{}.iscsi", own()));
    // In a container: the host's programs are in its own root.
    machine.state().root = Some("/host");
    let in_container = node(&machine).with_host_root(Some("/host".to_owned()));
    assert_eq!(in_container.info().node_id, info.node_id);
    let staged = in_container.stage(&request(writer("ext4"), told_of(&current(), &[])));
    staged.expect("staged");
    machine.state().fails = Some(("iscsiadm", 127, "no such program", 1));
    assert_eq!(in_container.info().node_id, own().to_string());
    machine.state().has_nvme = true;
    machine.host.state().multipath = "Y";
    assert_eq!(in_container.info().node_id, own().to_string());
}

/// What decrypts a map is closed before the map is taken away.
#[test]
fn a_volume_that_is_encrypted_here_comes_and_goes() {
    fn stage_by_secret(machine: &Initiator) -> Result<(), Status> {
        stage_told_by_secret(machine, "sealed-naa")
    }
    fn stage_told_by_secret(machine: &Initiator, name: &str) -> Result<(), Status> {
        let text = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        let mut told = told_of(&current(), &[]);
        let naa = told.remove("naa").expect("a disk");
        told.insert(name.to_owned(), naa);
        let request = NodeStageVolumeRequest {
            volume_context: text("encryptedBySecret", "true"),
            secrets: text("encryptionPassphrase", "correct horse battery"),
            ..request(writer("ext4"), told)
        };
        node(machine).stage(&request).map(drop)
    }
    let machine = machine();
    stage_by_secret(&machine).expect("staged");
    {
        let state = machine.host.state();
        let name = state.mapping.as_ref().map(|mapping| mapping.name.as_str());
        assert!(name.is_some_and(|name| name.ends_with("-7-253-0")), "{name:?}");
        assert_eq!(state.content.as_deref(), Some("crypto_LUKS"));
    }
    // By the name that it was published by before there was that one.
    stage_told_by_secret(&machine, "naa").expect("staged already");
    unstage(&machine).expect("gone");
    assert!(machine.host.state().mapping.is_none());
    nothing_is_left(&machine);
    stage_by_secret(&machine).expect("staged again");
    assert_eq!(machine.host.state().formatted, 1);
    // What nobody can write any more keeps nobody waiting.
    machine.lose();
    unstage(&machine).expect("gone");
    assert!(machine.host.state().mapping.is_none() && machine.state().map.is_none());
    everywhere(&[stage_by_secret], unstage);
}
