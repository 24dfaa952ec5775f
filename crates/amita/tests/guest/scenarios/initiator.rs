//! One host of iSCSI with open-iscsi and multipath-tools: what it finds, and what it is told to do.

use crate::host::{Host, initiator};
use crate::target::Target;
use amita_terminal::error::{Failure, Result};

/// A target whose operator is told what a host has to do.
pub trait Printed: Target {
    /// Hands the volume to an initiator: what `amita volume attach --iscsi --json` prints.
    fn attach(&mut self, initiator: &str) -> Result<serde_json::Value>;
}

/// SendTargets at each portal names the target with all portals.
pub fn discover(host: &Host, target: &dyn Target) -> Result<String> {
    let mut seen = String::new();
    for asked in target.portals() {
        seen = host.sh(&format!(
            "iscsiadm -m discovery -t sendtargets -p {asked} | tee /tmp/found || fail discovery"
        ))?;
        for portal in target.portals() {
            let line = format!("{portal},");
            let names = |found: &str| found.starts_with(&line) && found.ends_with(target.nqn());
            if !seen.lines().any(names) {
                return Err(Failure::new(format!("{asked} does not tell of {portal}: {seen}")));
            }
        }
        host.sh("iscsiadm -m node -o delete >/dev/null; iscsiadm -m discoverydb -o delete >/dev/null; true")?;
    }
    Ok(seen)
}

/// The commands that `amita volume attach` prints, as they are: but those of systemd, which the guest has not.
pub fn attach(host: &Host, target: &mut dyn Printed) -> Result<String> {
    let printed = target.attach(&initiator(host.guest.name()))?;
    let linux = &printed["linux"];
    let lines = |of: &str| -> Vec<String> {
        let all = linux[of].as_array().into_iter().flatten();
        all.filter_map(|line| line.as_str().map(str::to_owned)).collect()
    };
    let commands = [lines("prepare"), lines("connect")].concat();
    let count = target.portals().len();
    let (Some(disk), true) = (linux["disk"].as_str(), commands.len() > 3) else {
        return Err(Failure::new(format!("nothing is printed: {printed}")));
    };
    let mut seen = String::new();
    for command in commands.iter().filter(|command| !command.starts_with("systemctl ")) {
        // A gateway learns a moment later that the initiator is allowed.
        seen += &host.sh(&format!(
            "does() {{ {command} >/tmp/said 2>&1; }}; await 60 '{}' does; grep -E 'policy|mpath|AMITA|running' /tmp/said || true",
            command.replace('\'', "")
        ))?;
    }
    seen += &host.sh(&format!(
        "await_paths {nqn} {count}
         settled() {{ [ -b {disk} ]; }}; await 60 'the disk {disk}' settled
         [ $(realpath {disk}) = $(realpath $(device {nqn})) ] || fail 'it is another disk'
         multipath -ll; ana {nqn}
         head -c 1M /dev/urandom >/tmp/data; dd if=/tmp/data of={disk} bs=64k oflag=direct status=none &&
             dd if={disk} bs=64k count=16 iflag=direct status=none | cmp - /tmp/data || fail 'what was written is not there'
         no_errors",
        nqn = target.nqn()
    ))?;
    host.disconnect(target)?;
    Ok(seen)
}

/// What the kernel and sg3-utils make of the disk.
pub fn inquire(host: &Host, target: &dyn Target) -> Result<String> {
    host.connect_all(target, "")?;
    let seen = host.sh(&format!(
        "device=$(device {nqn}); name=$(basename $(realpath $device))
         for value in logical_block_size physical_block_size discard_granularity discard_max_bytes write_zeroes_max_bytes; do
             echo \"$value=$(cat /sys/block/$name/queue/$value)\"
         done
         [ $(cat /sys/block/$name/queue/discard_max_bytes) -gt 0 ] || fail 'no discard'
         identity=
         for session in $(sessions {nqn}); do
             disk=/dev/$(session_disk $session)
             for page in sv di ei mpp bl bdc lbpv; do
                 sg_vpd --page=$page $disk >/tmp/page 2>&1 || {{ cat /tmp/page; fail \"no page $page\"; }}
             done
             own=$(sg_vpd --page=di --quiet $disk | grep -E '^ *(naa|0x3|SCSI name)' | grep -v ',t,' | head -n 1)
             [ -z \"$identity\" ] || [ \"$own\" = \"$identity\" ] || fail \"another disk by $session: $own\"
             identity=$own
             sg_readcap --16 $disk >/tmp/capacity || fail 'READ CAPACITY'
             sg_rtpg --decode $disk >/tmp/groups || fail 'REPORT TARGET PORT GROUPS'
         done
         echo \"$identity\"; grep -E 'Logical block provisioning|Number of logical' /tmp/capacity
         grep -E 'target port group asymmetric access state|target port group id' /tmp/groups
         sg_inq $disk | grep -E 'TPGS|Vendor|Product'; sg_luns $disk | head -n 3; sg_requests $disk || true
         no_errors",
        nqn = target.nqn()
    ))?;
    host.disconnect(target)?;
    Ok(seen)
}

/// A login by two portals, and every block of a part verified by them.
pub fn two_portals(host: &Host, target: &dyn Target, options: &str) -> Result<String> {
    for gateway in 0..2 {
        host.connect(target, gateway, options)?;
    }
    host.sh(&format!("await_paths {} 2", target.nqn()))?;
    let mut seen = crate::scenarios::disk::verified(host, target)?;
    seen += &host.sh(
        "iscsiadm -m session -P 2 | grep -E 'Digest|ImmediateData|InitialR2T|MaxRecvDataSegmentLength|FirstBurstLength|MaxBurstLength' |
             sort | uniq -c",
    )?;
    host.disconnect(target)?;
    Ok(seen)
}

/// Digests of headers and data on both ways.
pub fn digests(host: &Host, target: &dyn Target) -> Result<String> {
    let seen = two_portals(host, target, "--hdr-digest --data-digest")?;
    if seen.matches("Digest: CRC32C").count() < 2 {
        return Err(Failure::new(format!("there were no digests: {seen}")));
    }
    Ok(seen)
}

/// A LUN without a neighbour, and not 0, for which alone the kernel is told to look, as os-brick and the driver for Kubernetes do. What the kernel
/// takes for a target of SCSI-2 until it has answered has the number in INQUIRY as well.
pub fn lone_lun(host: &Host, target: &dyn Target, iqn: &str, number: u16) -> Result<String> {
    let portal = target.portals()[0];
    host.sh(&format!(
        "let_in() {{ connect {address} {port} {iqn} node.session.scan=manual; }}; await 60 'it is let in' let_in
         session=$(sessions {iqn})
         [ -z \"$(session_disk $session {number})\" ] || fail 'the kernel has looked by itself'
         for scan in $sessions_folder/$session/device/../scsi_host/host*/scan; do echo '- - {number}' >$scan; done
         appears() {{ [ -n \"$(session_disk $session {number})\" ]; }}; await 30 'a disk for LUN {number}' appears
         disk=/dev/$(session_disk $session {number})
         sg_inq $disk | grep -E 'Vendor|Product'; dd if=$disk of=/dev/null bs=64k count=16 iflag=direct status=none || fail 'it is not read'
         no_errors; disconnect {iqn}",
        address = portal.ip(),
        port = portal.port(),
    ))
}
