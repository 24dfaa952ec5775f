//! Volumes by iSCSI on nodes whose kernel has no NVMe/TCP: open-iscsi, dm-multipath and udev are the distribution's. A node is lost with its volume, as in `lost.rs`.

use super::lost::{At, STAGING, ask, bring, controller, delete, end, ext4, id_of, make, take_off, unstage};
use super::{MIB, Pod};
use crate::cluster::Gateways;
use crate::steps::Steps;
use crate::target::Target;
use amita_csi::wire::common::CapacityRange;
use amita_csi::wire::controller::*;
use amita_csi::wire::node::*;
use amita_terminal::error::{Failure, Result};

/// What scripts may use beside the driver's.
const ISCSI: &str = concat!(
    include_str!("../../../../../tests/guest/common.sh"),
    include_str!("../../../../../tests/guest/iscsi.sh")
);
/// Nothing of a volume is left at this machine: no session, no record, no map.
const CLEAN: &str = "
    clean
    ! ls /sys/class/iscsi_session/session* 2>/dev/null || fail 'a session is left'
    ! iscsiadm -m node 2>/dev/null || fail 'a record is left'
    ! dmsetup ls --target multipath | grep '(' || fail 'a map is left'
    ! grep '^/' /etc/multipath/wwids || fail 'a name is left'";

/// The driver on a machine that has iSCSI, and no NVMe/TCP.
fn starts(pod: &Pod, name: &str) -> Result<String> {
    // What waits for a path fails soon, so that the end of a late write is seen.
    let settings = amita_control::guide::iscsi::multipath().into_iter();
    let settings = settings.map(|line| match line.contains("no_path_retry") {
        true => "        no_path_retry  2".to_owned(),
        false => line,
    });
    let settings: Vec<String> = settings.collect();
    pod.sh(&format!(
        "{ISCSI}
         modprobe -qr nvme-tcp; [ ! -e /dev/nvme-fabrics ] || fail 'it has NVMe/TCP'
         find /lib/modules/ -name 'nvme-*.ko*' -delete
         host_starts iqn.1993-08.org.debian:01:{name} <<'END'\n{}\nEND
         drivers; by_port; uname -r",
        settings.join("\n")
    ))
}

fn with_iscsi(pod: &Pod, script: &str) -> Result<String> {
    pod.sh(&format!("{ISCSI}\n{script}"))
}

#[test]
#[ignore = "two guests, gateways that are killed: for a soak"]
fn a_volume_comes_by_iscsi_grows_and_moves_from_a_lost_node() {
    let mut gateways = Gateways::start_portals(64 * MIB).expect("a cluster");
    let (controller, process) = controller(&gateways);
    let (alpha, beta) = (Pod::boot("worker-1", &gateways), Pod::boot("worker-2", &gateways));
    let (first, second) = (At::Port(alpha.port), At::Port(beta.port));
    let portals = gateways.portals().len();
    let mut steps = Steps::of("volumes by iSCSI", &[]);
    for (pod, name) in [(&alpha, "worker-1"), (&beta, "worker-2")] {
        steps.step("a node starts", || starts(pod, name));
    }
    let (one, two) = (id_of(&gateways, &first), id_of(&gateways, &second));
    assert!(one.ends_with(".iscsi") && two.ends_with(".iscsi"), "{one} {two}");
    let volume = make(&gateways, &controller, ("pvc-1", None), ext4(), &[]);
    let mut iqn = String::new();
    steps.step("it comes by all portals", || {
        iqn = bring(&gateways, &controller, &first, &one, &volume)?["iqn"].clone();
        // Sent again, by another driver: all of it is there.
        with_iscsi(&alpha, "pkill -KILL -x amita; rm -f /tmp/csi/*.sock; drivers")?;
        bring(&gateways, &controller, &first, &one, &volume)?;
        with_iscsi(
            &alpha,
            &format!(
                "await_paths {iqn} {portals}; multipath -ll; sg_persist --in --read-full-status /dev/$(session_disk $(sessions {iqn} | head -n 1))
                 seq 100000 >{STAGING}/before && sync -f {STAGING}; no_errors"
            ),
        )
    });
    steps.step("a gateway is killed, and comes again", || {
        gateways.kill(0)?;
        with_iscsi(
            &alpha,
            &format!("seq 50000 >{STAGING}/meanwhile && sync -f {STAGING} || fail 'it was not written'; no_errors"),
        )?;
        gateways.revive(0)?;
        with_iscsi(
            &alpha,
            &format!(
                "await_paths {iqn} {portals} 120
                 for path in $(paths {iqn} | awk '{{ print $NF }}'); do sg_persist --in --read-keys /dev/$path >/dev/null || fail \"no $path\"; done
                 for round in $(seq 20); do seq 20000 >{STAGING}/again && sync -f {STAGING} || fail 'a path fails writes'; done
                 no_errors; multipath -ll"
            ),
        )
    });
    steps.step("it grows", || {
        let bytes = Some(CapacityRange {
            required_bytes: 128 << 20,
            limit_bytes: 0,
        });
        let larger = ControllerExpandVolumeRequest {
            volume_id: volume.id.clone(),
            capacity_range: bytes.clone(),
            ..Default::default()
        };
        let _: ControllerExpandVolumeResponse = ask(
            &gateways,
            &controller,
            "csi.v1.Controller/ControllerExpandVolume",
            &larger,
        )?;
        let larger = NodeExpandVolumeRequest {
            volume_id: volume.id.clone(),
            volume_path: STAGING.to_owned(),
            capacity_range: bytes,
            ..Default::default()
        };
        let grown: NodeExpandVolumeResponse = ask(&gateways, &first, "csi.v1.Node/NodeExpandVolume", &larger)?;
        assert_eq!(grown.capacity_bytes, 128 << 20);
        with_iscsi(
            &alpha,
            &format!("df --output=size -m {STAGING} | tail -n 1 | awk '$1 < 100 {{ exit 1 }} {{ print }}'"),
        )
    });
    let sum = alpha.sh(&format!("sha256sum <{STAGING}/before")).expect("a sum");
    steps.step("it is lost, and the volume is used at the second", || {
        // Beside the file system one that has the disk open, and will write to it when it is another's.
        alpha.sh(&format!(
            "device=$(awk '$5 == \"{STAGING}\" {{ print $(NF-1) }}' /proc/self/mountinfo)
             [ -b \"$device\" ] || fail \"no disk: $device\"
             (
                 exec 3<>\"$device\"
                 while [ ! -e /tmp/csi/go ]; do sleep 0.1; done
                 dd if=/dev/urandom bs=1M count=32 oflag=direct >&3 2>/tmp/csi/dd
                 echo $? >/tmp/csi/ended
             ) >/dev/null 2>&1 &"
        ))?;
        take_off(&gateways, &controller, &one, &volume)?;
        let told = bring(&gateways, &controller, &second, &two, &volume)?;
        let there = beta.sh(&format!(
            "echo mine >{STAGING}/after && sync -f {STAGING} && sha256sum <{STAGING}/before"
        ))?;
        match there == sum && told["iqn"] != iqn && told.contains_key("preempt") {
            true => Ok(format!("it was told to preempt {}", told["preempt"])),
            false => Err(Failure::new(format!("{there} and not {sum}, told {told:?}"))),
        }
    });
    steps.step("the first one's late write fails", || {
        alpha.sh("touch /tmp/csi/go
             for wait in $(seq 1200); do [ -s /tmp/csi/ended ] && break; sleep 0.1; done
             cat /tmp/csi/dd; [ \"$(cat /tmp/csi/ended)\" = 1 ] || fail 'what was written late was taken, or waits'")
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
    steps.step("the first one comes back, cleans up, and has it again", || {
        unstage(&gateways, &first, &volume)?;
        with_iscsi(&alpha, CLEAN)?;
        unstage(&gateways, &second, &volume)?;
        take_off(&gateways, &controller, &two, &volume)?;
        with_iscsi(&beta, CLEAN)?;
        bring(&gateways, &controller, &first, &one, &volume)?;
        let there = alpha.sh(&format!("sha256sum <{STAGING}/before"))?;
        match there == sum {
            true => Ok(there),
            false => Err(Failure::new(format!("{there} and not {sum}"))),
        }
    });
    steps.step("it is let go of", || {
        unstage(&gateways, &first, &volume)?;
        take_off(&gateways, &controller, &one, &volume)?;
        with_iscsi(&alpha, CLEAN)?;
        delete(&gateways, &controller, &volume)
    });
    steps.finish();
    end(gateways, process, (alpha, beta));
}
