//! Volumes that are encrypted at the node by a passphrase of a Secret (decision 099): `cryptsetup` and dm-crypt are the distribution's. What the cluster has is looked at from the node's disk.

use super::lost::{self, At, STAGING, Volume, ask, bring, controller, delete, end, ext4, id_of, take_off, unstage};
use super::{MIB, Pod};
use crate::cluster::Gateways;
use crate::steps::Steps;
use amita_csi::wire::common::{
    CapacityRange, VolumeContentSource, VolumeContentSourceSnapshotSource, VolumeContentSourceTypeOneOf as Source,
};
use amita_csi::wire::controller::*;
use amita_csi::wire::node::*;
use amita_terminal::error::{Failure, Result};
use std::collections::BTreeMap;

const FIRST: &str = "correct horse battery";
const SECOND: &str = "staple of another day";
const THIRD: &str = "the clone has its own";
/// What was written, as nobody finds it on the volume's disk.
const NEEDLE: &str = "a needle that is nowhere else";
/// Nothing of a volume is left at this machine, and nothing that decrypts one.
const CLEAN: &str = "clean; ! dmsetup ls --target crypt | grep '(' || fail 'a mapping is left'";

fn text(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    owned.collect()
}

fn secret(now: &str, previous: &str) -> BTreeMap<String, String> {
    text(&[
        ("encryptionPassphrase", now),
        ("encryptionPassphrasePrevious", previous),
    ])
}

/// What its class says beside that it is deleted at once.
const CLASS: [(&str, &str); 3] = [
    ("encryptedBySecret", "true"),
    ("nvmeFastIoFailTmo", "5"),
    ("nvmeKeepAliveTmo", "30"),
];

/// What pods see of a volume is as large as its claim, in a guest.
fn is_as_large(pod: &Pod, bytes: u64) -> Result<String> {
    pod.sh(&format!(
        "number=$(awk '$5 == \"{STAGING}\" {{ print $3 }}' /proc/self/mountinfo)
         seen=$(($(cat /sys/dev/block/$number/size) * 512))
         [ $seen = {bytes} ] || fail \"pods see $seen bytes of {bytes}\"
         echo \"pods see $seen bytes\""
    ))
}

#[test]
#[ignore = "two guests, some minutes: for a soak"]
fn a_volume_is_opened_by_its_secret_and_by_nothing_else() {
    let gateways = Gateways::start(64 * MIB).expect("a cluster");
    let (controller, process) = controller(&gateways);
    let (alpha, beta) = (Pod::boot("worker-1", &gateways), Pod::boot("worker-2", &gateways));
    let (first, second) = (At::Port(alpha.port), At::Port(beta.port));
    let mut steps = Steps::of("keys in a Secret", &[]);
    for pod in [&alpha, &beta] {
        steps.step("a node starts", || {
            pod.sh("modprobe dm-crypt || fail 'no dm-crypt'; drivers; by_port; cryptsetup --version")
        });
    }
    let (one, two) = (id_of(&gateways, &first), id_of(&gateways, &second));
    let make = |name: &str, source: Option<VolumeContentSource>, secrets: BTreeMap<String, String>| -> Volume {
        Volume {
            secrets,
            ..lost::make(&gateways, &controller, (name, source), ext4(), &CLASS)
        }
    };
    let mut volume = make("pvc-1", None, secret(FIRST, ""));
    steps.step("it is encrypted before anything is on it", || {
        bring(&gateways, &controller, &first, &one, &volume)?;
        is_as_large(&alpha, 64 << 20)?;
        alpha.sh(&format!(
            "for line in $(seq 4000); do echo '{NEEDLE}'; done >{STAGING}/text && sync -f {STAGING}
             grep -q '{NEEDLE}' {STAGING}/text || fail 'it is not there'
             disk=$(ls /dev/nvme*n1 | head -n 1); blkid -p -s TYPE -o value $disk | grep -qx crypto_LUKS || fail 'no LUKS'
             ! dd if=$disk bs=1M iflag=direct 2>/dev/null | grep -q -a '{NEEDLE}' || fail 'it is on the disk in the clear'
             dmsetup ls --target crypt | grep -q '^amita-csi-' || fail 'no mapping'
             ! grep -q '{FIRST}' /tmp/csi/node.log || fail 'the log has the passphrase'
             dmsetup table --target crypt; grep encrypted /tmp/csi/node.log"
        ))
    });
    steps.step("it grows without its Secret", || {
        let bytes = Some(CapacityRange {
            required_bytes: 128 << 20,
            limit_bytes: 0,
        });
        let larger = ControllerExpandVolumeRequest {
            volume_id: volume.id.clone(),
            capacity_range: bytes.clone(),
            ..Default::default()
        };
        let method = "csi.v1.Controller/ControllerExpandVolume";
        let _: ControllerExpandVolumeResponse = ask(&gateways, &controller, method, &larger)?;
        let larger = NodeExpandVolumeRequest {
            volume_id: volume.id.clone(),
            volume_path: STAGING.to_owned(),
            capacity_range: bytes,
            ..Default::default()
        };
        let grown: NodeExpandVolumeResponse = ask(&gateways, &first, "csi.v1.Node/NodeExpandVolume", &larger)?;
        assert_eq!(grown.capacity_bytes, 128 << 20);
        is_as_large(&alpha, 128 << 20)?;
        alpha.sh(&format!(
            "df --output=size -m {STAGING} | tail -n 1 | awk '$1 < 90 {{ exit 1 }} {{ print }}'"
        ))
    });
    let sum = alpha.sh(&format!("sha256sum <{STAGING}/text")).expect("a sum");
    let is_there = |pod: &Pod| -> Result<String> {
        let there = pod.sh(&format!("echo 3 >/proc/sys/vm/drop_caches; sha256sum <{STAGING}/text"))?;
        match there == sum {
            true => Ok(there),
            false => Err(Failure::new(format!("{there} and not {sum}"))),
        }
    };
    steps.step("another passphrase does not open it", || {
        unstage(&gateways, &first, &volume)?;
        alpha.sh(CLEAN)?;
        volume.secrets = secret(SECOND, "");
        let refused = bring(&gateways, &controller, &first, &one, &volume);
        alpha.sh(CLEAN)?;
        match refused {
            Err(why) if why.to_string().contains("does%20not%20open") || why.to_string().contains("does not open") => {
                Ok(why.to_string())
            }
            other => Err(Failure::new(format!("{other:?}"))),
        }
    });
    steps.step("it takes the place of the one before", || {
        volume.secrets = secret(SECOND, FIRST);
        bring(&gateways, &controller, &first, &one, &volume)?;
        is_there(&alpha)?;
        unstage(&gateways, &first, &volume)?;
        volume.secrets = secret(FIRST, "");
        if bring(&gateways, &controller, &first, &one, &volume).is_ok() {
            return Err(Failure::new("it is opened by the one before still"));
        }
        volume.secrets = secret(SECOND, "");
        bring(&gateways, &controller, &first, &one, &volume)?;
        is_there(&alpha)
    });
    steps.step("its node is lost, and another one opens it", || {
        take_off(&gateways, &controller, &one, &volume)?;
        bring(&gateways, &controller, &second, &two, &volume)?;
        is_there(&beta)
    });
    steps.step("the lost one comes back, and cleans up", || {
        unstage(&gateways, &first, &volume)?;
        alpha.sh(CLEAN)
    });
    let mut clone = None;
    steps.step("what is made of it has its keys, and then a Secret of its own", || {
        let method = "csi.v1.Controller/CreateSnapshot";
        let snapshot = CreateSnapshotRequest {
            source_volume_id: volume.id.clone(),
            name: "monday".to_owned(),
            ..Default::default()
        };
        beta.sh(&format!("sync -f {STAGING}"))?;
        let taken: CreateSnapshotResponse = ask(&gateways, &controller, method, &snapshot)?;
        let taken = taken.snapshot.expect("a snapshot");
        assert_eq!(taken.size_bytes, 128 << 20);
        let snapshot_id = taken.snapshot_id;
        let source = VolumeContentSource {
            r#type: Some(Source::Snapshot(VolumeContentSourceSnapshotSource {
                snapshot_id: snapshot_id.clone(),
            })),
        };
        let made = make("pvc-2", Some(source), secret(THIRD, SECOND));
        bring(&gateways, &controller, &first, &one, &made)?;
        is_as_large(&alpha, 128 << 20)?;
        is_there(&alpha)?;
        unstage(&gateways, &first, &made)?;
        take_off(&gateways, &controller, &one, &made)?;
        let gone = DeleteSnapshotRequest {
            snapshot_id,
            ..Default::default()
        };
        let _: DeleteSnapshotResponse = ask(&gateways, &controller, "csi.v1.Controller/DeleteSnapshot", &gone)?;
        clone = Some(made);
        // The first one's keys are its own still.
        unstage(&gateways, &second, &volume)?;
        bring(&gateways, &controller, &second, &two, &volume)?;
        is_there(&beta)
    });
    steps.step("they are let go of", || {
        unstage(&gateways, &second, &volume)?;
        take_off(&gateways, &controller, &two, &volume)?;
        for pod in [&alpha, &beta] {
            pod.sh(CLEAN)?;
        }
        delete(&gateways, &controller, clone.as_ref().expect("made"))?;
        delete(&gateways, &controller, &volume)
    });
    steps.finish();
    end(gateways, process, (alpha, beta));
}
