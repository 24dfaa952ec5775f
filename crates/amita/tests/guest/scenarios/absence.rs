//! What a host goes through whose only gateway is away for longer than Linux waits by itself, and one that is rebooted.

use crate::host::{Host, PATIENCE, await_line};
use crate::target::Target;
use amita_harness::guest::Running;
use amita_terminal::error::{Failure, Result};
use amita_terminal::interrupt;
use std::time::Duration;

/// Longer than the ten minutes after which a kernel that is told nothing gives a controller up.
const AWAY: Duration = Duration::from_secs(660);
/// What `amita volume attach` prints: attempts to connect never end, I/O waits for ten minutes and fails then.
const AS_PRINTED: &str = "--reconnect-delay=2 --ctrl-loss-tmo=-1 --fast_io_fail_tmo=600";
/// Without the second: I/O waits for as long as it takes.
const PATIENT: &str = "--reconnect-delay=2 --ctrl-loss-tmo=-1";
/// How long a host may take to go down, emulated as it is.
const REBOOT: Duration = Duration::from_secs(300);

/// How many of its lines begin with that word.
fn count(running: &Running<'_>, word: &str) -> usize {
    let text = running.so_far();
    text.lines().filter(|line| line.starts_with(word)).count()
}

/// Waits for two lines more that begin with that word: the second of them is of what began after this call.
fn await_two_more(running: &Running<'_>, word: &str) -> Result<()> {
    let wanted = count(running, word) + 2;
    let found = interrupt::poll(PATIENCE, Duration::from_millis(100), || {
        if running.has_ended() {
            return Err(Failure::new(format!("it ended too early:\n{}", running.so_far())));
        }
        Ok((count(running, word) >= wanted).then_some(()))
    })?;
    found.ok_or_else(|| Failure::new(format!("no more of {word:?}:\n{}", running.so_far())))
}

/// The only gateway of two subsystems is away for eleven minutes. Where I/O waits, a file system sees nothing of it but a pause; where it
/// waits for ten minutes, as `attach` has it, what was under way fails then. In both cases the path comes back by itself with the gateway,
/// and writing goes on.
pub fn only_gateway(host: &Host, target: &mut dyn Target, patient: &str) -> Result<String> {
    let nqn = target.nqn().to_owned();
    let portal = target.portals()[0];
    let (address, port) = (portal.ip(), portal.port());
    host.sh(&format!(
        "connect {address} {port} {nqn} {AS_PRINTED} && await_paths {nqn} 1
         connect {address} {port} {patient} {PATIENT} && await_paths {patient} 1
         device=$(device {patient}); modprobe ext4; mkfs.ext4 -q -F $device && mount $device /mnt || fail ext4"
    ))?;
    let files = host.start(
        "number=0
         while [ ! -e /tmp/stop ]; do
             number=$((number + 1))
             dd if=/dev/urandom of=/mnt/$((number % 16)) bs=64k count=1 conv=fsync status=none || fail \"write $number\"
             echo \"file $number\"; sleep 0.5
         done",
    )?;
    let blocks = host.start(&format!(
        "device=$(device {nqn}); number=0
         while [ ! -e /tmp/stop ]; do
             number=$((number + 1))
             if dd if=/dev/urandom of=$device bs=4k count=1 oflag=direct status=none 2>/dev/null; then echo \"block $number\"
             else echo \"error $number\"; fi
             sleep 0.5
         done"
    ))?;
    await_two_more(&files, "file")?;
    await_two_more(&blocks, "block")?;
    target.kill(0)?;
    interrupt::sleep(AWAY)?;
    await_line(&blocks, |line| line.starts_with("error"))?;
    if files.has_ended() {
        return Err(Failure::new(format!(
            "an error of the file system:\n{}",
            files.so_far()
        )));
    }
    let seen = [count(&files, "file"), count(&blocks, "error")];
    target.revive(0)?;
    host.sh(&format!("await_paths {nqn} 1 180; await_paths {patient} 1 180"))?;
    await_two_more(&files, "file")?;
    await_two_more(&blocks, "block")?;
    host.sh("touch /tmp/stop")?;
    files.wait(PATIENCE)?.success()?;
    blocks.wait(PATIENCE)?.success()?;
    host.sh(&format!(
        "grep -q ' /mnt ext4 rw' /proc/mounts || fail 'the file system is read-only'
         umount /mnt || fail umount
         e2fsck -f -n $(device {patient}) >/tmp/check 2>&1 || {{ cat /tmp/check; fail 'the file system is not sound'; }}
         disconnect {patient}"
    ))?;
    host.disconnect(target)?;
    Ok(format!(
        "away for {} s: {} files before and as many as one likes after, without an error; {} blocks failed, and were written again when \
         it was back",
        AWAY.as_secs(),
        seen[0],
        seen[1]
    ))
}

/// The host goes down as `shutdown -r` has it, while the disk is mounted and written to: whoever runs is told to end, file systems are
/// unmounted, and the kernel starts the machine anew. That comes to an end.
pub fn reboot(host: &Host, target: &dyn Target) -> Result<String> {
    let nqn = target.nqn();
    host.connect(target, 0, AS_PRINTED)?;
    host.sh(&format!(
        "device=$(device {nqn}); modprobe ext4; mkfs.ext4 -q -F $device && mount $device /mnt || fail ext4
         head -c 8M /dev/zero | tr '\\0' x >/mnt/kept && sync -f /mnt || fail 'a file'
         (while :; do head -c 1M /dev/urandom >/mnt/more; done) >/dev/null 2>&1 &
         echo $! >/tmp/writer
         # The guest has no init that would do this.
         setsid bash -c 'sleep 5; kill $(cat /tmp/writer); sleep 1; umount /mnt || umount -l /mnt; busybox reboot -f' \\
             </dev/null >/dev/null 2>&1 &"
    ))?;
    host.guest.await_end(REBOOT)?;
    Ok("the machine went down".to_owned())
}

/// The host is there again, and so is what it had made durable.
pub fn after_reboot(host: &Host, target: &dyn Target) -> Result<String> {
    let nqn = target.nqn();
    host.connect(target, 0, AS_PRINTED)?;
    let seen = host.sh(&format!(
        "device=$(device {nqn}); modprobe ext4; mount $device /mnt || fail mount
         head -c 8M /dev/zero | tr '\\0' x | cmp - /mnt/kept || fail 'what was synced is not there'
         ls -l /mnt | tail -n +2; umount /mnt; no_errors"
    ))?;
    host.disconnect(target)?;
    Ok(seen)
}
