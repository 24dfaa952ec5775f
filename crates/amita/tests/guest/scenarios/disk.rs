//! One host, and a namespace as a disk.

use crate::host::{Host, PATIENCE, await_line};
use crate::target::Target;
use amita_terminal::error::{Failure, Result};

/// The discovery log names the subsystem at each gateway.
pub fn discover(host: &Host, target: &dyn Target) -> Result<String> {
    let mut seen = String::new();
    for portal in target.portals() {
        let (address, port, nqn) = (portal.ip(), portal.port(), target.nqn());
        seen = host.sh(&format!(
            "nvme discover --transport tcp --traddr {address} --trsvcid {port} | tee /tmp/log
             grep -q 'subnqn: *{nqn}$' /tmp/log || fail 'the log does not name {nqn}'"
        ))?;
    }
    let entries = seen
        .lines()
        .filter(|line| line.contains("subnqn") || line.contains("traddr") || line.contains("trsvcid"));
    Ok(entries.map(str::trim).collect::<Vec<_>>().join("; "))
}

/// `connect-all` makes a path to every gateway that the log names.
pub fn connect_all(host: &Host, target: &dyn Target) -> Result<String> {
    let portal = target.portals()[0];
    let (address, port, nqn, count) = (portal.ip(), portal.port(), target.nqn(), target.portals().len());
    let seen = host.sh(&format!(
        "nvme connect-all --transport tcp --traddr {address} --trsvcid {port} || fail connect-all
         await_paths {nqn} {count}
         paths {nqn}; ana {nqn}; nvme list-subsys | tail -n +2"
    ))?;
    host.disconnect(target)?;
    Ok(seen)
}

/// What the kernel made of Identify.
pub fn identify(host: &Host, target: &dyn Target) -> Result<String> {
    host.connect(target, 0, "")?;
    let seen = host.sh(&format!(
        "device=$(device {nqn}); name=${{device##*/}}
         nvme id-ctrl /dev/nvme0 | grep -E '^(mn|fr|cntlid|mdts|oncs|fuses|vwc|anacap|cmic|sgls|ioccsz|maxcmd) '
         nvme id-ns $device | grep -E '^(nsze|nsfeat|nmic|rescap|nawun|nacwu|lbaf)' 
         for value in logical_block_size physical_block_size max_hw_sectors_kb discard_granularity discard_max_bytes \\
                 write_zeroes_max_bytes optimal_io_size; do
             echo \"$value=$(cat /sys/block/$name/queue/$value)\"
         done
         [ $(cat /sys/block/$name/queue/discard_max_bytes) -gt 0 ] || fail 'no discard'
         for log in error-log smart-log fw-log 'effects-log --csi=0' supported-log-pages; do
             nvme $log /dev/nvme0 >/dev/null 2>/tmp/why || fail \"no $log: $(cat /tmp/why)\"
         done
         nvme ana-log /dev/nvme0 | head -n 8",
        nqn = target.nqn()
    ))?;
    host.disconnect(target)?;
    Ok(seen)
}

/// What makes a file system, and what looks whether it is sound.
pub fn tools_of(kind: &str) -> (&'static str, &'static str) {
    match kind {
        "ext4" => ("mkfs.ext4 -q -F", "e2fsck -f -n"),
        _ => ("mkfs.xfs -q -f", "xfs_repair -n"),
    }
}

/// A file system that is made, filled, unmounted, mounted again by a new connection, and sound.
pub fn file_system(host: &Host, target: &dyn Target, kind: &str) -> Result<String> {
    let (make, check) = tools_of(kind);
    let nqn = target.nqn();
    host.connect(target, 0, "")?;
    let mut seen = host.sh(&format!(
        "device=$(device {nqn}); modprobe {kind}
         {make} $device || fail mkfs
         mount $device /mnt || fail mount
         head -c 24M /dev/urandom >/mnt/data && cp /mnt/data /mnt/copy && rm /mnt/data && cp -r /etc /mnt/etc
         sync; sha256sum /mnt/copy >/tmp/sum; cat /mnt/etc/*/* 2>/dev/null | sha256sum >/tmp/sum.etc
         fstrim -v /mnt || fail fstrim
         umount /mnt || fail umount"
    ))?;
    host.disconnect(target)?;
    host.connect(target, 0, "")?;
    seen += &host.sh(&format!(
        "device=$(device {nqn})
         {check} $device >/tmp/check 2>&1 || {{ cat /tmp/check; fail 'the file system is not sound'; }}
         tail -n 1 /tmp/check
         mount $device /mnt && sha256sum -c /tmp/sum || fail 'the file differs'
         [ \"$(cat /mnt/etc/*/* 2>/dev/null | sha256sum)\" = \"$(cat /tmp/sum.etc)\" ] || fail 'the small files differ'
         umount /mnt; no_errors"
    ))?;
    host.disconnect(target)?;
    Ok(seen)
}

/// Every block of a part written and read back over eight I/O queues: four to write by and four to read by.
pub fn eight_queues(host: &Host, target: &dyn Target, options: &str) -> Result<String> {
    let nqn = target.nqn();
    host.connect(target, 0, &format!("--nr-io-queues 4 --nr-write-queues 4 {options}"))?;
    host.sh(&format!(
        "paths {nqn} | grep -q 'queues=9 ' || fail 'not eight I/O queues'"
    ))?;
    let seen = verified(host, target)?;
    host.disconnect(target)?;
    Ok(seen)
}

/// Every block of a part written and read back, by four at once, of a target that is connected. No two writes under way
/// overlap: fio's books of what to verify do not bear that (it ends with a double free, on a slow machine).
pub fn verified(host: &Host, target: &dyn Target) -> Result<String> {
    host.sh(&format!(
        "device=$(device {nqn}); paths {nqn}
         fio --filename=$device --direct=1 --ioengine=libaio --rw=randwrite --bsrange=4k-64k --blockalign=4k --iodepth=8 \\
             --serialize_overlap=1 --numjobs=4 --cpus_allowed=0-3 --cpus_allowed_policy=split --size=2m --offset_increment=2m \\
             --verify=crc32c --verify_fatal=1 --group_reporting --name=queues >/tmp/fio.out 2>&1 ||
             {{ cat /tmp/fio.out; fail fio; }}
         grep -E 'read:|write:' /tmp/fio.out; no_errors",
        nqn = target.nqn()
    ))
}

/// Header and data digests on both ways; the kernel would report the first that is wrong.
pub fn digests(host: &Host, target: &dyn Target) -> Result<String> {
    eight_queues(host, target, "--hdr-digest --data-digest")
}

/// What is discarded reads as zeros, and its neighbours stay.
pub fn discard(host: &Host, target: &dyn Target) -> Result<String> {
    let nqn = target.nqn();
    host.connect(target, 0, "")?;
    let seen = host.sh(&format!(
        "device=$(device {nqn})
         head -c 8M /dev/urandom >/tmp/data && dd if=/tmp/data of=$device bs=1M oflag=direct status=none
         blkdiscard --force --offset 1M --length 2M $device || fail blkdiscard
         blkdiscard --force --zeroout --offset 5M --length 1M $device || fail 'write zeroes'
         dd if=/dev/zero of=/tmp/data bs=1M seek=1 count=2 conv=notrunc status=none
         dd if=/dev/zero of=/tmp/data bs=1M seek=5 count=1 conv=notrunc status=none
         dd if=$device bs=1M count=8 iflag=direct status=none | cmp - /tmp/data || fail 'not zeros, or a neighbour changed'
         blkdiscard --force $device || fail 'blkdiscard of the whole device'
         dd if=$device bs=1M count=8 iflag=direct status=none | cmp -n 8388608 - /dev/zero || fail 'not zeros'
         echo '2 MiB discarded, 1 MiB zeroed, then all: zeros, and the neighbours as they were'; no_errors"
    ))?;
    host.disconnect(target)?;
    Ok(seen)
}

/// The guest sees a namespace grow while it is in use, without a word from its user, and a file system on it grows too.
pub fn grow(host: &Host, target: &mut dyn Target, bytes: u64) -> Result<String> {
    host.connect_all(target, "")?;
    let nqn = target.nqn().to_owned();
    let before = host.sh(&format!(
        "device=$(device {nqn}); modprobe ext4; mkfs.ext4 -q -F $device && mount $device /mnt && blockdev --getsize64 $device
         df --output=size -B1 /mnt | tail -n 1"
    ))?;
    target.grow(bytes)?;
    let after = host.sh(&format!(
        "device=$(device {nqn})
         grown() {{ [ \"$(blockdev --getsize64 $device)\" = {bytes} ]; }}
         look_again {nqn}
         await 60 'a device of {bytes} bytes' grown
         blockdev --getsize64 $device; resize2fs $device >/dev/null 2>&1 || fail resize2fs; df --output=size -B1 /mnt | tail -n 1
         head -c 4M /dev/urandom | dd of=$device bs=1M seek=$(({bytes} / 1048576 - 4)) oflag=direct status=none || fail 'the end'
         umount /mnt; no_errors"
    ))?;
    host.disconnect(target)?;
    let words = |text: &str| {
        text.split_whitespace()
            .collect::<Vec<_>>()
            .join(" with a file system of ")
    };
    Ok(format!("{} bytes, then {}", words(&before), words(&after)))
}

/// A host that goes away in the middle of its I/O hurts nobody, and can come back.
pub fn disconnect_under_load(host: &Host, target: &dyn Target) -> Result<String> {
    let nqn = target.nqn();
    host.connect_all(target, "")?;
    let load = host.start(&format!(
        "device=$(device {nqn}); echo begun
         fio --name=load --filename=$device --direct=1 --ioengine=libaio --iodepth=32 --rw=randrw --bs=16k --size=32m \\
             --time_based --runtime=600 >/tmp/load.out 2>&1; echo \"fio ended with $?\""
    ))?;
    await_line(&load, |line| line == "begun")?;
    host.sh("sleep 2; pgrep -x fio >/dev/null || fail 'no load'")?;
    host.disconnect(target)?;
    let ended = load.wait(PATIENCE)?.text;
    if ended.contains("ended with 0") {
        return Err(Failure::new(format!("fio should have failed: {ended}")));
    }
    // What was under way has failed, and the kernel said so.
    host.sh("dmesg -C")?;
    host.connect_all(target, "")?;
    let after = host.sh(&format!(
        "device=$(device {nqn}); head -c 1M /dev/urandom >/tmp/data
         dd if=/tmp/data of=$device bs=64k oflag=direct status=none && dd if=$device bs=64k count=16 iflag=direct status=none |
             cmp - /tmp/data || fail 'after the return'
         paths {nqn}"
    ))?;
    host.disconnect(target)?;
    Ok(format!("{}; then again:\n{after}", ended.replace('\n', " ")))
}

/// Twenty connections one after the other, at each gateway in turn, each with a few bytes; nothing piles up.
pub fn reconnects(host: &Host, target: &dyn Target) -> Result<String> {
    let nqn = target.nqn();
    let portals: Vec<String> = target
        .portals()
        .iter()
        .map(|portal| format!("'{} {}'", portal.ip(), portal.port()))
        .collect();
    host.sh(&format!(
        "portals=({portals})
         for i in $(seq 20); do
             connect ${{portals[i % ${{#portals[@]}}]}} {nqn} >/dev/null 2>&1 || fail \"connect $i\"
             await_paths {nqn} 1
             device=$(device {nqn})
             echo \"connection $i\" | dd of=$device bs=4k conv=sync oflag=direct status=none || fail \"write $i\"
             [ \"$(dd if=$device bs=4k count=1 iflag=direct status=none | tr -d '\\0 ')\" = \"connection$i\" ] || fail \"read $i\"
             disconnect {nqn}
         done
         echo '20 connections at {count} gateways, each read what it wrote'; no_errors",
        portals = portals.join(" "),
        count = portals.len()
    ))
}
