//! Volumes that are encrypted at the node, by a passphrase of a Secret (decision 099).

use super::*;
use crate::parameters::LUKS_BYTES;
use host::{BY_NAME, Luks};
use std::collections::BTreeSet;

const PASSPHRASE: &str = "correct horse battery";
const OTHER: &str = "staple of another claim";

fn secret(now: &str, previous: &str) -> BTreeMap<String, String> {
    let all = [
        ("encryptionPassphrase", now),
        ("encryptionPassphrasePrevious", previous),
    ];
    let said = all.into_iter().filter(|(_, value)| !value.is_empty());
    said.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn context() -> BTreeMap<String, String> {
    BTreeMap::from([("encryptedBySecret".to_owned(), "true".to_owned())])
}

fn stage_by(
    host: &Host,
    capability: VolumeCapability,
    more: &[(&str, &str)],
    secrets: BTreeMap<String, String>,
) -> Result<(), Status> {
    let request = NodeStageVolumeRequest {
        volume_context: context(),
        publish_context: sealed(told(more)),
        secrets,
        ..stage_of(capability, more)
    };
    node(host).stage(&request).map(drop)
}

/// What the controller tells of such a volume.
fn sealed(mut told: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let disk = told.remove("uuid").expect("a disk");
    told.insert("sealed-uuid".to_owned(), disk);
    told
}

fn stage(host: &Host) -> Result<(), Status> {
    stage_by(host, writer("ext4"), EXCLUSIVE, secret(PASSPHRASE, ""))
}

fn stage_disk(host: &Host) -> Result<(), Status> {
    let disk = block(Mode::SingleNodeWriter);
    stage_by(host, disk, EXCLUSIVE, secret(PASSPHRASE, ""))
}

fn to_bind() -> NodePublishVolumeRequest {
    NodePublishVolumeRequest {
        volume_id: VOLUME.to_owned(),
        publish_context: sealed(told(EXCLUSIVE)),
        volume_context: context(),
        staging_target_path: STAGING.to_owned(),
        target_path: TARGET.to_owned(),
        volume_capability: Some(block(Mode::SingleNodeWriter)),
        ..Default::default()
    }
}

fn bind(host: &Host) -> Result<(), Status> {
    node(host).publish(&to_bind()).map(drop)
}

/// A disk of LUKS with ext4, opened by these.
fn made(passphrases: &[&str]) -> Host {
    let host = Host::new(&nqn());
    {
        let mut state = host.state();
        state.content = Some("crypto_LUKS".to_owned());
        state.luks = Some(Luks {
            passphrases: passphrases.iter().map(|one| (*one).to_owned()).collect(),
            content: Some("ext4".to_owned()),
            cipher: "aes-xts-plain64",
        });
    }
    host
}

fn opened_by(host: &Host) -> Vec<String> {
    let luks = host.state().luks.clone().expect("LUKS");
    luks.passphrases.into_iter().collect()
}

#[test]
fn a_volume_is_encrypted_before_anything_is_on_it_and_its_text_is_what_pods_see() {
    let host = Host::new(&nqn());
    stage(&host).expect("staged");
    {
        let state = host.state();
        assert_eq!(state.content.as_deref(), Some("crypto_LUKS"));
        assert_eq!(
            state.luks.as_ref().and_then(|luks| luks.content.as_deref()),
            Some("ext4")
        );
        assert!(state.mounts[0].source.starts_with(BY_NAME), "{:?}", state.mounts);
        assert_eq!(state.holder, Some(key(own())));
        let name = state.mapping.as_ref().map(|mapping| mapping.name.as_str());
        assert!(
            name.is_some_and(|name| name.starts_with("amita-csi-") && name.ends_with("-7-259-3")),
            "{name:?}"
        );
        // Nobody who looks at the machine's processes, or at the log of this driver, reads it.
        assert!(
            state.ran.iter().all(|line| !line.contains(PASSPHRASE)),
            "{:?}",
            state.ran
        );
        let made = state
            .ran
            .iter()
            .find(|line| line.starts_with("cryptsetup luksFormat"))
            .expect("made");
        for words in [
            "--offset 32768",
            "--sector-size 4096",
            "--cipher aes-xts-plain64",
            "--pbkdf-memory 65536",
            "--luks2-metadata-size 16k --luks2-keyslots-size 16352k",
        ] {
            assert!(made.contains(words), "{made}");
        }
    }
    publish(&host, writer(""), false).expect("shown");
    assert_eq!(code(unstage(&host)), Code::FailedPrecondition);
    assert!(host.state().mapping.is_some());
    unpublish(&host).expect("shown no longer");
    unstage(&host).expect("gone");
    {
        let state = host.state();
        assert!(state.mapping.is_none() && state.paths.is_empty() && state.mounts.is_empty());
        let written: Vec<&str> = state.synced.iter().map(String::as_str).collect();
        assert_eq!(written, [STAGING, "/dev/dm-7", "/dev/nvme3n1"]);
    }
    stage(&host).expect("staged again");
    assert_eq!(opened_by(&host), [PASSPHRASE]);
    assert_eq!(host.state().formatted, 1);
}

/// Images of machines have their partitions counted in the blocks that the class says.
#[test]
fn its_text_has_the_blocks_of_its_class() {
    let host = Host::new(&nqn());
    let mut volume_context = context();
    volume_context.insert("blockSize".to_owned(), "512".to_owned());
    let request = NodeStageVolumeRequest {
        volume_context,
        secrets: secret(PASSPHRASE, ""),
        ..stage_of(block(Mode::SingleNodeWriter), EXCLUSIVE)
    };
    node(&host).stage(&request).expect("staged");
    let state = host.state();
    let mut made = state
        .ran
        .iter()
        .filter(|line| line.starts_with("cryptsetup luksFormat"));
    assert!(made.any(|line| line.contains("--sector-size 512 ")), "{:?}", state.ran);
}

#[test]
fn each_call_may_be_cut_anywhere() {
    let shown: Step = |host| publish(host, writer(""), false);
    let by_another: Step = |host| stage_by(host, writer("ext4"), EXCLUSIVE, secret(OTHER, PASSPHRASE));
    everywhere(&[], stage);
    everywhere(&[], stage_disk);
    everywhere(&[stage], unstage);
    everywhere(&[stage], shown);
    everywhere(&[stage_disk], bind);
    everywhere(&[stage_disk, bind], unpublish);
    everywhere(&[stage_disk, bind, unpublish], unstage);
    everywhere(&[stage, unstage], by_another);
}

#[test]
fn what_was_cut_while_it_was_made_is_made_anew() {
    let host = Host::new(&nqn());
    host.state().is_luks_format_killed = true;
    stage(&host).expect_err("killed");
    assert!(host.state().has_data && host.state().paths.is_empty());
    host.state().is_mkfs_killed = true;
    stage(&host).expect_err("killed");
    assert_eq!(host.state().content.as_deref(), Some("crypto_LUKS"));
    stage(&host).expect("made anew");
    let state = host.state();
    assert_eq!((state.formatted, state.holder), (1, Some(key(own()))));
}

#[test]
fn without_its_passphrase_a_volume_is_not_opened() {
    let host = made(&[PASSPHRASE]);
    let before = host.state().luks.clone();
    for wrong in [secret(OTHER, ""), secret(OTHER, "neither is this one")] {
        let refused = stage_by(&host, writer("ext4"), EXCLUSIVE, wrong).expect_err("refused");
        assert_eq!(refused.code(), Code::FailedPrecondition);
        assert!(refused.message().contains("encryptionPassphrasePrevious"), "{refused}");
        assert!(!refused.message().contains(OTHER), "{refused}");
    }
    for none in [secret("", ""), secret("", PASSPHRASE), secret("short", "")] {
        assert_eq!(
            code(stage_by(&host, writer("ext4"), EXCLUSIVE, none)),
            Code::InvalidArgument
        );
    }
    let state = host.state();
    assert_eq!(state.luks, before);
    assert!(state.paths.is_empty() && state.mapping.is_none());
}

#[test]
fn another_passphrase_takes_the_place_of_the_one_before() {
    let host = made(&[PASSPHRASE]);
    let by = |host: &Host, now: &str, previous: &str| stage_by(host, writer("ext4"), EXCLUSIVE, secret(now, previous));
    by(&host, OTHER, PASSPHRASE).expect("staged");
    assert_eq!(opened_by(&host), [OTHER]);
    unstage(&host).expect("gone");
    // The Secret may say so for longer.
    by(&host, OTHER, PASSPHRASE).expect("staged again");
    unstage(&host).expect("gone");
    assert_eq!(code(by(&host, PASSPHRASE, "")), Code::FailedPrecondition);
    // Both open it, where that was cut.
    let host = made(&[PASSPHRASE, OTHER]);
    by(&host, OTHER, PASSPHRASE).expect("staged");
    assert_eq!(opened_by(&host), [OTHER]);
    assert_eq!(host.state().formatted, 0);
}

/// Keys are changed by one node that writes, and by no other.
#[test]
fn what_is_only_read_or_shared_keeps_its_keys() {
    let readers = || block(Mode::MultiNodeMultiWriter);
    let host = made(&[PASSPHRASE]);
    stage_by(&host, readers(), &[], secret(OTHER, PASSPHRASE)).expect("staged");
    assert_eq!(opened_by(&host), [PASSPHRASE]);
    assert_eq!(
        code(stage_by(&made(&[PASSPHRASE]), readers(), &[], secret(OTHER, ""))),
        Code::FailedPrecondition
    );
    let host = made(&[PASSPHRASE]);
    host.state().is_read_only = true;
    stage_by(&host, writer("ext4"), &[], secret(OTHER, PASSPHRASE)).expect("staged");
    assert_eq!(opened_by(&host), [PASSPHRASE]);
    assert!(
        host.state()
            .mapping
            .as_ref()
            .is_some_and(|mapping| mapping.is_read_only)
    );
    // Two nodes would each make a key, and one of them the one that counts.
    let host = Host::new(&nqn());
    let refused = stage_by(&host, readers(), &[], secret(PASSPHRASE, "")).expect_err("refused");
    assert!(refused.message().contains("several nodes"), "{refused}");
    assert!(host.state().luks.is_none());
}

#[test]
fn what_is_in_the_clear_stays_so() {
    for holds in ["ext4", "partitions", "ambivalent"] {
        let host = Host::new(&nqn());
        host.state().content = Some(holds.to_owned());
        assert_eq!(code(stage(&host)), Code::FailedPrecondition, "{holds}");
        assert_eq!(host.state().content.as_deref(), Some(holds));
    }
    let host = Host::new(&nqn());
    host.state().has_data = true;
    assert_eq!(code(stage(&host)), Code::FailedPrecondition);
    assert!(host.state().luks.is_none());
    // And what is encrypted is nothing else, to a class that does not say so.
    let host = made(&[PASSPHRASE]);
    assert_eq!(code(super::stage(&host, "ext4")), Code::FailedPrecondition);
}

/// A head that opens by any passphrase would have what is written there in the clear.
#[test]
fn a_head_that_encrypts_nothing_is_not_used() {
    let host = made(&[PASSPHRASE]);
    host.state().luks.as_mut().expect("LUKS").cipher = "cipher_null-ecb";
    let refused = stage(&host).expect_err("refused");
    assert!(
        refused.code() == Code::FailedPrecondition && refused.message().contains("cipher_null-ecb"),
        "{refused}"
    );
    assert!(host.state().mapping.is_none());
}

/// A gateway may show the head that there is to who looks, and another one to who opens it, adds a passphrase to it or takes one away.
#[test]
fn what_is_looked_at_is_what_is_opened() {
    let lie = Luks {
        passphrases: BTreeSet::from(["the gateway's own".to_owned()]),
        content: Some("ext4".to_owned()),
        cipher: "cipher_null-ecb",
    };
    for (keys, now, previous) in [
        (&[PASSPHRASE][..], PASSPHRASE, ""),
        (&[PASSPHRASE], OTHER, PASSPHRASE),
        (&[PASSPHRASE, OTHER], OTHER, PASSPHRASE),
    ] {
        let host = made(keys);
        host.state().lies = Some(lie.clone());
        stage_by(&host, writer("ext4"), EXCLUSIVE, secret(now, previous)).expect("staged");
        let mapped = host.state().mapping.as_ref().map(|mapping| mapping.cipher);
        assert_eq!(mapped, Some("aes-xts-plain64"));
        let shown = host.state().luks.clone().expect("LUKS");
        // What a gateway has made is opened by no passphrase of the Secret's afterwards.
        assert!(
            shown == lie || (shown.cipher == "aes-xts-plain64" && opened_by(&host) == [now]),
            "{shown:?}"
        );
    }
}

#[test]
fn a_raw_disk_is_shown_by_what_decrypts_it() {
    let host = Host::new(&nqn());
    assert_eq!(code(bind(&host)), Code::FailedPrecondition);
    stage_disk(&host).expect("staged");
    bind(&host).expect("bound");
    bind(&host).expect("bound already");
    assert!(host.state().mounts[0].root.starts_with("/mapper/amita-csi-"));
    assert_eq!(code(unstage(&host)), Code::FailedPrecondition);
    unpublish(&host).expect("bound no longer");
    unstage(&host).expect("gone");
    let state = host.state();
    assert!(state.mapping.is_none() && state.luks.as_ref().is_some_and(|luks| luks.content.is_none()));
}

/// Drivers of before look for the disk under the usual name alone, whatever it holds; and this one attaches it for nobody who would use it as it is.
#[test]
fn the_disk_itself_is_shown_to_nobody() {
    let none = BTreeMap::new();
    let before = nvme::Target::read(own(), &sealed(told(EXCLUSIVE)), &none, &none);
    let refused = before.err().expect("refused");
    assert!(refused.message().contains("has no uuid"), "{refused}");
    let host = Host::new(&nqn());
    for access in [writer("ext4"), block(Mode::SingleNodeWriter)] {
        let request = NodeStageVolumeRequest {
            publish_context: sealed(told(EXCLUSIVE)),
            ..stage_of(access, EXCLUSIVE)
        };
        let refused = node(&host).stage(&request).expect_err("refused");
        assert_eq!(refused.code(), Code::FailedPrecondition);
        assert!(refused.message().contains("encryptedBySecret"), "{refused}");
    }
    assert!(host.state().lines.is_empty(), "nobody is asked for it");
    stage_disk(&host).expect("staged");
    let in_the_clear = NodePublishVolumeRequest {
        volume_context: none,
        ..to_bind()
    };
    assert_eq!(code(node(&host).publish(&in_the_clear)), Code::FailedPrecondition);
    assert!(host.state().mounts.is_empty());
}

/// What a VolumeAttachment has stays in it while the driver is updated.
#[test]
fn what_was_published_under_the_usual_name_goes_on() {
    let host = Host::new(&nqn());
    let request = NodeStageVolumeRequest {
        volume_context: context(),
        secrets: secret(PASSPHRASE, ""),
        ..stage_of(block(Mode::SingleNodeWriter), EXCLUSIVE)
    };
    assert!(request.publish_context.contains_key("uuid"));
    node(&host).stage(&request).expect("staged");
    let request = NodePublishVolumeRequest {
        publish_context: told(EXCLUSIVE),
        ..to_bind()
    };
    node(&host).publish(&request).expect("bound");
    assert!(host.state().mounts[0].root.starts_with("/mapper/amita-csi-"));
    // And is published anew in between.
    bind(&host).expect("bound already");
    unpublish(&host).expect("bound no longer");
    unstage(&host).expect("gone");
    stage_disk(&host).expect("staged again");
    assert_eq!(opened_by(&host), [PASSPHRASE]);
}

#[test]
fn what_decrypts_a_disk_grows_with_it() {
    let host = Host::new(&nqn());
    stage(&host).expect("staged");
    let grow = |disk: u64| {
        host.state().will_have = Some(disk);
        let request = NodeExpandVolumeRequest {
            volume_id: VOLUME.to_owned(),
            volume_path: STAGING.to_owned(),
            capacity_range: Some(CapacityRange {
                required_bytes: 3 << 30,
                limit_bytes: 0,
            }),
            ..Default::default()
        };
        let grown = node(&host).expand(&request)?;
        let seen = host.state().file_system_bytes;
        assert_eq!(grown.capacity_bytes, seen.cast_signed());
        Ok::<_, Status>(seen)
    };
    assert_eq!(code(grow(2 << 30)), Code::Unavailable);
    // As a controller of before makes it, for which the head is within what is wanted.
    assert_eq!(grow(3 << 30).expect("grown"), (3 << 30) - LUKS_BYTES);
    assert_eq!(grow((3 << 30) + LUKS_BYTES).expect("grown"), 3 << 30);
}

/// Kubelet may name a place where it was shown to a pod that has gone since.
#[test]
fn what_decrypts_a_raw_disk_grows_with_it() {
    let host = Host::new(&nqn());
    stage_disk(&host).expect("staged");
    bind(&host).expect("bound");
    for (at, bytes) in [(TARGET, 3_u64 << 30), ("/var/lib/kubelet/pods/2/volume", 4 << 30)] {
        host.state().will_have = Some(bytes + LUKS_BYTES);
        let request = NodeExpandVolumeRequest {
            volume_id: VOLUME.to_owned(),
            volume_path: at.to_owned(),
            capacity_range: Some(CapacityRange {
                required_bytes: bytes.cast_signed(),
                limit_bytes: 0,
            }),
            ..Default::default()
        };
        let grown = node(&host).expand(&request).expect("grown");
        let mapped = host.state().mapping.as_ref().map(|mapping| mapping.bytes);
        assert_eq!(
            (grown.capacity_bytes, mapped),
            (bytes.cast_signed(), Some(bytes)),
            "{at}"
        );
    }
}

/// What lies on a disk that is gone: its mount, and what decrypted it.
fn dead_mapping(host: &Host) {
    let subsystem = VolumeId::parse(VOLUME).expect("an id").subsystem(USUAL_NAME);
    let name = format!("amita-{subsystem}-259-9");
    let mut state = host.state();
    state.mounts.push(host::Mount {
        source: format!("{BY_NAME}{name}"),
        root: "/".to_owned(),
        at: STAGING.to_owned(),
        kind: "ext4".to_owned(),
        is_read_only: false,
    });
    state.mapping = Some(host::Mapped {
        name,
        bytes: 1 << 20,
        is_read_only: false,
        cipher: "aes-xts-plain64",
    });
}

#[test]
fn a_dead_mapping_is_in_nobodys_way() {
    let host = made(&[PASSPHRASE]);
    dead_mapping(&host);
    stage(&host).expect("staged");
    let state = host.state();
    let name = state.mapping.as_ref().map(|mapping| mapping.name.as_str());
    assert!(name.is_some_and(|name| name.ends_with("-259-3")), "{name:?}");
    assert_eq!(state.mounts.len(), 1);
}

/// A mapping that somebody has closed, or that lies on a disk that is gone, is no reason to show the disk.
#[test]
fn what_is_not_open_is_not_shown() {
    let host = Host::new(&nqn());
    stage_disk(&host).expect("staged");
    host.state().mapping = None;
    let refused = node(&host).publish(&to_bind()).expect_err("refused");
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("staged anew"), "{refused}");
    assert!(host.state().mounts.is_empty());
    stage_disk(&host).expect("staged anew");
    bind(&host).expect("bound");
}

/// Each passphrase takes memory while it is tried: a machine that starts anew with many volumes opens them one behind another.
#[test]
fn only_some_volumes_are_opened_at_one_time() {
    let host = Host::new(&nqn());
    let node = node(&host);
    let request = || NodeStageVolumeRequest {
        publish_context: sealed(told(EXCLUSIVE)),
        volume_context: context(),
        secrets: secret(PASSPHRASE, ""),
        ..stage_of(writer("ext4"), EXCLUSIVE)
    };
    let none = std::time::Duration::ZERO;
    let turn = || node.openings.take(&host, none);
    let mut held: Vec<_> = (0..crate::node::crypt::AT_ONCE)
        .map(|_| turn().expect("a turn"))
        .collect();
    assert!(turn().is_none());
    let refused = node.stage(&request()).expect_err("refused");
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(refused.message().contains("at one time"), "{refused}");
    assert!(host.state().luks.is_none() && host.state().paths.is_empty());
    held.pop();
    node.stage(&request()).expect("staged");
    // It is given back.
    assert!(turn().is_some());
    // What is open already needs none.
    held.push(turn().expect("a turn"));
    node.stage(&request()).expect("staged already");
}

#[test]
fn what_cryptsetup_ends_with_is_told() {
    for (what, code, wanted, says) in [
        ("open", 5, Code::FailedPrecondition, "in use"),
        ("open", 3, Code::Unavailable, "memory"),
        ("open", -1, Code::Unavailable, "signal"),
        ("open", 1, Code::Internal, "has ended with 1"),
        ("luksFormat", 5, Code::FailedPrecondition, "in use"),
        ("luksDump", 4, Code::Internal, "has ended with 4"),
    ] {
        let host = Host::new(&nqn());
        host.state().cryptsetup_fails = Some((what, code));
        let refused = stage(&host).expect_err("refused");
        assert_eq!(refused.code(), wanted, "{refused}");
        let message = refused.message();
        assert!(
            message.contains(says) && message.contains(what) && message.contains("it says why"),
            "{refused}"
        );
        assert!(host.state().mapping.is_none());
        host.state().cryptsetup_fails = None;
        stage(&host).expect("staged");
        host.state().cryptsetup_fails = Some(("close", 5));
        let refused = unstage(&host).expect_err("refused");
        assert!(
            refused.code() == Code::FailedPrecondition && refused.message().contains("in use"),
            "{refused}"
        );
        assert!(!host.state().paths.is_empty());
        host.state().cryptsetup_fails = None;
        unstage(&host).expect("gone");
    }
    let host = Host::new(&nqn());
    stage(&host).expect("staged");
    let node = node(&host);
    let id = VolumeId::parse(VOLUME).expect("an id");
    let all = node.mappings(&node.mappings_of(id.number));
    host.state().cryptsetup_fails = Some(("close", 1));
    assert_eq!(code(node.end_of_mapping(&all[0])), Code::Internal);
}

/// The volume is at another node by now, and kubelet cleans up where it was.
#[test]
fn a_dead_mapping_goes_with_its_volume() {
    let host = made(&[PASSPHRASE]);
    dead_mapping(&host);
    unstage(&host).expect("gone");
    let state = host.state();
    assert!(state.mapping.is_none() && state.mounts.is_empty());
}

/// What has its name by then is not made one of LUKS in its place.
#[test]
fn a_disk_that_goes_away_keeps_its_name_to_itself() {
    let host = Host::new(&nqn());
    host.state().goes_before_pin = true;
    assert_eq!(code(stage(&host)), Code::Unavailable);
    {
        let mut state = host.state();
        assert!(state.luks.is_none() && state.ran.iter().all(|line| !line.starts_with("cryptsetup luks")));
        state.goes_before_pin = false;
    }
    stage(&host).expect("staged");
    assert_eq!(host.state().pins, 0);
}

#[test]
fn who_has_no_cryptsetup_is_told_so() {
    let host = Host::new(&nqn());
    host.state().has_no_cryptsetup = true;
    let refused = stage(&host).expect_err("refused");
    assert!(
        refused.code() == Code::FailedPrecondition && refused.message().contains("cryptsetup"),
        "{refused}"
    );
    assert!(host.state().paths.is_empty());
    // What is not encrypted needs none.
    unstage(&host).expect("nothing is there");
    super::stage(&host, "ext4").expect("staged");
}
