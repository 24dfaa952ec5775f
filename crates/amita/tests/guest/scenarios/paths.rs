//! Several paths to one namespace, of which some go away.

use crate::host::{Host, PATIENCE, await_line};
use crate::scenarios::disk::tools_of;
use crate::target::Target;
use amita_harness::guest::Running;
use amita_terminal::error::{Failure, Result};
use amita_terminal::interrupt;
use std::time::{Duration, Instant};

/// Where the rounds of a verification lie.
const SIZE: &str = "4m";

/// A verification that goes on until it is told to stop.
pub(super) struct Rounds<'a> {
    host: &'a Host,
    running: Running<'a>,
}

impl<'a> Rounds<'a> {
    pub(super) fn start(host: &'a Host, target: &dyn Target) -> Result<Rounds<'a>> {
        Rounds::of(host, &format!("$(device {})", target.nqn()))
    }

    /// Of a file: a device, or one in a file system.
    fn of(host: &'a Host, file: &str) -> Result<Rounds<'a>> {
        let rounds = Rounds {
            host,
            running: host.start(&format!("file={file}; verify_rounds $file 0 {SIZE} /tmp/stop"))?,
        };
        rounds.further(1)?;
        Ok(rounds)
    }

    fn done(&self) -> usize {
        self.running
            .so_far()
            .lines()
            .filter(|line| line.starts_with("round "))
            .count()
    }

    /// Waits for so many rounds that began after this call.
    pub(super) fn further(&self, count: usize) -> Result<()> {
        // The round that is under way began before.
        let wanted = format!("round {}", self.done() + 1 + count);
        await_line(&self.running, |line| line == wanted)
    }

    pub(super) fn stop(self) -> Result<String> {
        self.host.sh("touch /tmp/stop")?;
        let text = self.running.wait(PATIENCE)?.success()?.text;
        text.lines()
            .find(|line| line.ends_with("verified"))
            .map(str::to_owned)
            .ok_or_else(|| Failure::new(format!("no result: {text}")))
    }
}

/// A gateway is killed and comes back under verification, first that of the optimized path, then the other one: no error,
/// no wrong byte, all paths live again.
pub fn gateway_killed(host: &Host, target: &mut dyn Target) -> Result<String> {
    let count = target.portals().len();
    let nqn = target.nqn().to_owned();
    host.connect_all(target, "")?;
    target.relocate(0)?;
    let mut seen = host.sh(&format!("ana {nqn}"))?;
    let rounds = Rounds::start(host, target)?;
    for gateway in 0..2 {
        target.kill(gateway)?;
        host.sh(&format!("await_paths {nqn} {}", count - 1))?;
        rounds.further(1)?;
        seen += &format!(
            "without gateway {gateway}:\n{}",
            host.sh(&format!("paths {nqn}; ana {nqn}"))?
        );
        target.revive(gateway)?;
        host.sh(&format!("await_paths {nqn} {count} 180"))?;
        rounds.further(1)?;
    }
    seen += &rounds.stop()?;
    seen += &host.sh(&format!("no_errors; echo; ana {nqn}"))?;
    host.disconnect(target)?;
    Ok(seen)
}

/// A planned move there and back under verification: the host sees the states change, and no error.
pub fn planned_move(host: &Host, target: &mut dyn Target) -> Result<String> {
    let nqn = target.nqn().to_owned();
    host.connect_all(target, "")?;
    let rounds = Rounds::start(host, target)?;
    let mut seen = String::new();
    for gateway in [1, 0] {
        target.relocate(gateway)?;
        let portal = target.portals()[gateway];
        seen += &host.sh(&format!(
            "await 90 'gateway {gateway} is the optimized one' optimized {nqn} {} {}
             echo 'moved to gateway {gateway}:'; ana {nqn}",
            portal.ip(),
            portal.port()
        ))?;
        rounds.further(1)?;
    }
    seen += &rounds.stop()?;
    host.sh("no_errors")?;
    host.disconnect(target)?;
    Ok(seen)
}

/// A file in a file system under verification while the gateway of the optimized path is killed and comes back, and while the disk moves to
/// another one and back: no error, no wrong byte, and the file system is sound by new connections.
pub fn file_system(host: &Host, target: &mut dyn Target, kind: &str) -> Result<String> {
    let count = target.portals().len();
    let nqn = target.nqn().to_owned();
    let (make, check) = tools_of(kind);
    host.connect_all(target, "")?;
    target.relocate(0)?;
    host.sh(&format!(
        "device=$(device {nqn}); modprobe {kind}; {make} $device || fail mkfs; mount $device /mnt || fail mount"
    ))?;
    let rounds = Rounds::of(host, "/mnt/data")?;
    target.kill(0)?;
    host.sh(&format!("await_paths {nqn} {}", count - 1))?;
    rounds.further(1)?;
    target.revive(0)?;
    host.sh(&format!("await_paths {nqn} {count} 180"))?;
    for gateway in [1, 0] {
        target.relocate(gateway)?;
        rounds.further(1)?;
    }
    let seen = rounds.stop()?;
    host.sh("sha256sum /mnt/data >/tmp/sum; umount /mnt || fail umount; no_errors")?;
    host.disconnect(target)?;
    host.connect_all(target, "")?;
    host.sh(&format!(
        "device=$(device {nqn})
         {check} $device >/tmp/check 2>&1 || {{ cat /tmp/check; fail 'the file system is not sound'; }}
         mount $device /mnt && sha256sum -c /tmp/sum >/dev/null || fail 'the file differs'
         umount /mnt; no_errors"
    ))?;
    host.disconnect(target)?;
    Ok(format!("{kind}: {seen}, sound and the same by new connections"))
}

/// A target whose gateways can be frozen.
pub trait Freezable: Target {
    /// Stops a gateway's process; its connections stay.
    fn freeze(&mut self, gateway: usize) -> Result<()>;

    /// Lets it go on.
    fn thaw(&mut self, gateway: usize) -> Result<()>;

    /// How long others wait before they take over.
    fn lease(&self) -> Duration;
}

/// No ghost write (rule R9 of the protocol). The gateway of the optimized path stands still with writes in its socket.
/// The host gives the path up and repeats them by another one; then it writes something else there. When the first gateway
/// wakes it finds the old writes, and they must not happen.
pub fn frozen_gateway(host: &Host, target: &mut dyn Freezable) -> Result<String> {
    let nqn = target.nqn().to_owned();
    let count = target.portals().len();
    host.connect_all(target, "--keep-alive-tmo 5")?;
    target.relocate(0)?;
    host.sh(&format!(
        "device=$(device {nqn}); for pattern in old new; do yes $pattern | head -c 2M >/tmp/$pattern; done
         dd if=/tmp/new of=$device bs=16k oflag=direct status=none"
    ))?;
    target.freeze(0)?;
    let began = Instant::now();
    // Many at once, so that they are all in the frozen gateway's socket before the path is given up.
    let old = host.sh(&format!(
        "device=$(device {nqn})
         for i in $(seq 0 31); do
             dd if=/tmp/old of=$device bs=16k seek=$((i * 4)) skip=$((i * 4)) count=4 oflag=direct status=none || echo failed >>/tmp/failed &
         done; wait; [ ! -e /tmp/failed ] || fail 'a write failed'
         dd if=$device bs=64k count=32 iflag=direct status=none | cmp - /tmp/old || fail 'the repeated writes are not there'
         paths {nqn}"
    ))?;
    let repeated = began.elapsed();
    host.sh(&format!(
        "device=$(device {nqn}); dd if=/tmp/new of=$device bs=16k oflag=direct status=none || fail 'the new writes'"
    ))?;
    interrupt::sleep((target.lease() * 2).saturating_sub(began.elapsed()))?;
    let frozen = began.elapsed();
    target.thaw(0)?;
    host.sh(&format!("await_paths {nqn} {count} 180"))?;
    for _ in 0..5 {
        host.sh(&format!(
            "device=$(device {nqn})
             dd if=$device bs=64k count=32 iflag=direct status=none | cmp - /tmp/new || fail 'a ghost write'; sleep 0.5"
        ))?;
    }
    // By the one that was frozen, too.
    target.relocate(0)?;
    host.sh(&format!(
        "device=$(device {nqn}); dd if=$device bs=64k count=32 iflag=direct status=none | cmp - /tmp/new || fail 'a ghost write'
         no_errors"
    ))?;
    host.disconnect(target)?;
    Ok(format!(
        "{old}repeated by another path within {:.1} s, overwritten, woken after {:.1} s: what was written last is there",
        repeated.as_secs_f64(),
        frozen.as_secs_f64()
    ))
}
