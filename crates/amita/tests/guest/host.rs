//! A guest as a host of NVMe/TCP or iSCSI: scripts with the functions of `tests/guest/nvme.sh` or `tests/guest/iscsi.sh`.

use crate::target::Target;
use amita_harness::guest::{Config, Guest, Running};
use amita_harness::scratch::Scratch;
use amita_harness::tool::Output;
use amita_terminal::error::{Failure, Result};
use std::time::Duration;

/// What scripts may use.
const NVME: &str = concat!(
    include_str!("../../../../tests/guest/common.sh"),
    include_str!("../../../../tests/guest/nvme.sh")
);
const ISCSI: &str = concat!(
    include_str!("../../../../tests/guest/common.sh"),
    include_str!("../../../../tests/guest/iscsi.sh")
);
/// How long one script may take: the processor is emulated, and the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// A guest and the folder of its files.
pub struct Host {
    pub guest: Guest,
    library: &'static str,
    _scratch: Scratch,
}

impl Host {
    /// Boots a guest, a host of NVMe/TCP.
    pub fn boot(name: &str, cpus: u32) -> Host {
        Host::boot_with(name, cpus, NVME)
    }

    /// Boots a guest, a host of iSCSI: open-iscsi, multipathd and udev run in it, with the settings that the product prints for them.
    pub fn boot_initiator(name: &str, cpus: u32) -> Host {
        let host = Host::boot_with(name, cpus, ISCSI);
        let settings = amita_control::guide::iscsi::multipath().join("\n");
        let script = format!("host_starts {} <<'END'\n{settings}\nEND", initiator(name));
        host.sh(&script).expect("an initiator");
        host
    }

    fn boot_with(name: &str, cpus: u32, library: &'static str) -> Host {
        let scratch = Scratch::make("guest", None, None, 0).expect("a folder");
        let mut config = Config::new(name, scratch.folder());
        config.cpus = cpus;
        let guest = Guest::boot(&config).expect("a guest");
        Host {
            guest,
            library,
            _scratch: scratch,
        }
    }

    fn run(&self, script: &str) -> Result<Output> {
        let mut output = self.guest.run(&self.with_library(script), PATIENCE)?;
        // Not the library, with which every script begins.
        output.name = format!("{}: {}", self.guest.name(), script.trim());
        Ok(output)
    }

    /// Runs a script that must succeed; what it printed.
    pub fn sh(&self, script: &str) -> Result<String> {
        Ok(self.run(script)?.success()?.text)
    }

    /// After a step that failed: what it left in the guest must not fail the next one.
    pub fn clean(&self) {
        let cleaned = self.run(
            "pkill -KILL fio; pkill -KILL sysbench; pkill -KILL mariadbd; pkill -KILL pgbench; pkill -KILL postgres; sleep 0.2
             umount -l /mnt/db /mnt /was/data /was/log /data /log 2>/dev/null; disconnect_all; sleep 0.5; dmesg -C",
        );
        if let Err(failure) = cleaned {
            println!("         cleaning up failed, too: {failure}");
        }
    }

    /// Runs a script that must fail; what it printed.
    pub fn must_fail(&self, script: &str) -> Result<String> {
        let output = self.run(script)?;
        if output.status.success() {
            return Err(Failure::new(format!(
                "this should have failed: {script}\n{}",
                output.text
            )));
        }
        Ok(output.text)
    }

    pub fn start(&self, script: &str) -> Result<Running<'_>> {
        self.guest.start(&self.with_library(script))
    }

    /// What the host calls itself.
    pub fn nqn(&self) -> Result<String> {
        Ok(self.sh("cat /etc/nvme/hostnqn")?.trim().to_owned())
    }

    /// Connects to one gateway.
    pub fn connect(&self, target: &dyn Target, gateway: usize, options: &str) -> Result<String> {
        let portal = target.portals()[gateway];
        self.sh(&format!(
            "connect {} {} {} {options}",
            portal.ip(),
            portal.port(),
            target.nqn()
        ))
    }

    /// Connects to all gateways.
    pub fn connect_all(&self, target: &dyn Target, options: &str) -> Result<()> {
        for gateway in 0..target.portals().len() {
            self.connect(target, gateway, options)?;
        }
        self.sh(&format!("await_paths {} {}", target.nqn(), target.portals().len()))?;
        Ok(())
    }

    fn with_library(&self, script: &str) -> String {
        format!("{}\n{script}\n", self.library)
    }

    /// Disconnects from the target, and waits until nothing is left.
    pub fn disconnect(&self, target: &dyn Target) -> Result<()> {
        self.sh(&format!("disconnect {}", target.nqn())).map(drop)
    }
}

/// What a guest of this name calls itself by iSCSI.
pub fn initiator(name: &str) -> String {
    format!("iqn.1993-08.org.debian:01:{name}")
}

/// Waits until a running script has printed a line that `wanted` takes, and fails if it ends before.
pub fn await_line(running: &Running<'_>, wanted: impl Fn(&str) -> bool) -> Result<()> {
    let found = amita_terminal::interrupt::poll(PATIENCE, Duration::from_millis(50), || {
        let text = running.so_far();
        if text.lines().any(&wanted) {
            return Ok(Some(()));
        }
        if running.has_ended() {
            return Err(Failure::new(format!("it ended too early:\n{text}")));
        }
        Ok(None)
    })?;
    found.ok_or_else(|| Failure::new(format!("it did not get so far:\n{}", running.so_far())))
}
