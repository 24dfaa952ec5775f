//! A snapshot as a disk that cannot be written.

use crate::host::Host;
use crate::target::Target;
use amita_terminal::error::Result;

/// A file system that is in use when the snapshot is taken (`take`: of namespace 1, as namespace 2) is mounted from it, read-only, and
/// has what was there then; the one in use goes on. Nothing writes to the snapshot.
pub fn mounted(host: &Host, target: &dyn Target, take: impl FnOnce() -> Result<()>) -> Result<String> {
    let nqn = target.nqn();
    host.connect_all(target, "")?;
    host.sh(&format!(
        "device=$(device {nqn}); modprobe ext4
         mkfs.ext4 -q -F $device && mount $device /mnt || fail 'mkfs and mount'
         head -c 8M /dev/urandom >/mnt/data && sync && sha256sum </mnt/data >/tmp/sum"
    ))?;
    take()?;
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
