//! A snapshot as a disk that cannot be written, and clones of snapshots that were taken under load.

use crate::host::{Host, PATIENCE, await_line};
use crate::target::Target;
use amita_terminal::error::{Failure, Result};

/// Writes files that can be checked, and checks them.
const FILES: &str = include_str!("files.py");
/// A snapshot is taken when so many files more were made since the last one.
const FILES_BETWEEN: usize = 40;

/// A target whose namespace 1 can have snapshots, and clones of them.
pub trait Snapshotted: Target {
    /// Takes a snapshot of namespace 1, and makes it namespace 2.
    fn show(&mut self) -> Result<()>;

    /// Takes a snapshot of namespace 1.
    fn take(&mut self, snapshot: &str) -> Result<()>;

    /// Makes a clone of a snapshot a namespace as well; its number.
    fn lend(&mut self, snapshot: &str, clone: &str) -> Result<u32>;

    /// Takes that namespace away, and deletes the clone and the snapshot.
    fn take_back(&mut self, nsid: u32, snapshot: &str, clone: &str) -> Result<()>;
}

/// A file system that is in use when the snapshot is taken is mounted from it (namespace 2), read-only, and
/// has what was there then; the one in use goes on. Nothing writes to the snapshot.
pub fn mounted(host: &Host, target: &mut dyn Snapshotted) -> Result<String> {
    let nqn = target.nqn().to_owned();
    host.connect_all(target, "")?;
    host.sh(&format!(
        "device=$(device {nqn}); modprobe ext4
         mkfs.ext4 -q -F $device && mount $device /mnt || fail 'mkfs and mount'
         head -c 8M /dev/urandom >/mnt/data && sync && sha256sum </mnt/data >/tmp/sum"
    ))?;
    target.show()?;
    let seen = host.sh(&format!(
        "device=$(device {nqn}); was=${{device%n1}}n2
         there() {{ [ -b $was ]; }}
         await 60 'the second disk' there
         head -c 8M /dev/urandom >/mnt/data && sync
         echo \"getro=$(blockdev --getro $device),$(blockdev --getro $was)\"
         [ $(blockdev --getro $device) = 0 ] || fail 'the volume is read-only'
         [ $(blockdev --getro $was) = 1 ] || fail 'the snapshot is not read-only'
         ids() {{ cat /sys/block/${{1##*/}}/uuid; }}
         [ \"$(ids $device)\" != \"$(ids $was)\" ] || fail 'one UUID for two disks'
         blockdev --setrw $was 2>/dev/null
         dd if=/dev/zero of=$was bs=4k count=1 oflag=direct 2>/tmp/dd && fail 'it was written'
         mkdir -p /was && mount -t ext4 -o ro,noload $was /was || fail 'the snapshot does not mount'
         [ \"$(sha256sum </was/data)\" = \"$(cat /tmp/sum)\" ] || fail 'the file in the snapshot differs'
         [ \"$(sha256sum </mnt/data)\" != \"$(cat /tmp/sum)\" ] || fail 'the volume did not go on'
         ls /was | tr '\\n' ' '
         umount /was /mnt || fail umount"
    ))?;
    host.disconnect(target)?;
    Ok(seen)
}

/// A file system that is snapshotted while files come and go in it, each of them synced before it counts, and fio writes beside them. Each
/// snapshot's clone is mounted, which replays its journal; it has every file that was durable before the snapshot was asked for, and is
/// sound, while the load goes on. So is the file system itself in the end.
pub fn file_system_under_load(
    host: &Host,
    target: &mut dyn Snapshotted,
    kind: &str,
    snapshots: usize,
) -> Result<String> {
    let (make, options, check, replayed) = match kind {
        "ext4" => ("mkfs.ext4 -q -F", "", "e2fsck -f -n", "EXT4-fs (%): recovery complete"),
        _ => (
            "mkfs.xfs -q -f",
            "-o nouuid",
            "xfs_repair -n",
            "XFS (%): Ending recovery",
        ),
    };
    let nqn = target.nqn().to_owned();
    host.connect_all(target, "")?;
    host.sh(&format!(
        "device=$(device {nqn}); modprobe {kind}
         {make} $device && mount $device /mnt || fail 'mkfs and mount'
         mkdir -p /mnt/files /was; rm -f /tmp/stop; : >/tmp/log
         cat >/tmp/files.py <<'END'
{FILES}END"
    ))?;
    let load = host.start(
        "fio --name=load --filename=/mnt/fio --size=24m --direct=1 --ioengine=libaio --iodepth=8 --rw=randwrite \\
             --bsrange=4k-32k --rate=4m --time_based --runtime=3600 >/tmp/fio.out 2>&1 &
         echo begun
         python3 -S -E /tmp/files.py write /mnt/files /tmp/log /tmp/stop || fail 'the writers'
         kill -INT $! || fail 'fio had ended'
         wait $!; grep -q 'err= 0' /tmp/fio.out || { cat /tmp/fio.out; fail fio; }
         echo 'all ended'",
    )?;
    await_line(&load, |line| line == "begun")?;
    let mut seen = String::new();
    for number in 1..=snapshots {
        let (snapshot, clone) = (format!("{kind}-{number}"), format!("{kind}-clone-{number}"));
        host.sh(&format!(
            "enough() {{ [ $(grep -c made /tmp/log) -ge {} ]; }}
             await 120 'files' enough; cp /tmp/log /tmp/before",
            number * FILES_BETWEEN
        ))?;
        target.take(&snapshot)?;
        host.sh("cp /tmp/log /tmp/after")?;
        let nsid = target.lend(&snapshot, &clone)?;
        if load.has_ended() {
            return Err(Failure::new(format!("the load has ended: {}", load.so_far())));
        }
        let checked = host.sh(&format!(
            "clone=$(device {nqn} {nsid}); name=${{clone##*/}}
             mount -t {kind} {options} $clone /was || fail 'the clone does not mount'
             dmesg | grep -qF \"$(echo '{replayed}' | sed \"s/%/$name/\")\" || fail 'no journal was replayed'
             python3 -S -E /tmp/files.py check /was/files /tmp/before /tmp/after || fail 'files differ'
             umount /was || fail umount
             {check} $clone >/tmp/check 2>&1 || {{ cat /tmp/check; fail 'the clone is not sound'; }}
             no_errors; dmesg -C"
        ))?;
        seen += &format!("{snapshot}: {checked}");
        target.take_back(nsid, &snapshot, &clone)?;
        host.sh(&format!(
            "gone_too() {{ ! device_name {nqn} {nsid}; }}; await 60 'no clone' gone_too"
        ))?;
    }
    host.sh("touch /tmp/stop")?;
    load.wait(PATIENCE)?.success()?;
    seen += &host.sh(&format!(
        "device=$(device {nqn}); umount /mnt || fail umount
         {check} $device >/tmp/check 2>&1 || {{ cat /tmp/check; fail 'the file system is not sound'; }}
         mount $device /mnt && python3 -S -E /tmp/files.py check /mnt/files /tmp/log /tmp/log || fail 'files differ'
         umount /mnt; no_errors"
    ))?;
    host.disconnect(target)?;
    Ok(seen)
}
