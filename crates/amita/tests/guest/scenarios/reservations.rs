//! Persistent reservations of two hosts, as cluster file systems use them.

use crate::host::Host;
use crate::target::Target;
use amita_terminal::error::Result;

/// Register, acquire, be refused, outlive the loss of the owner's gateway, preempt, release, clear.
pub fn two_hosts(alpha: &Host, beta: &Host, target: &mut dyn Target) -> Result<String> {
    let nqn = target.nqn().to_owned();
    let count = target.portals().len();
    let on = |host: &Host, script: &str| host.sh(&format!("device=$(device {nqn})\n{script}"));
    let write = "dd if=/dev/urandom of=$device bs=4k count=4 oflag=direct status=none";
    let read = "dd if=$device of=/dev/null bs=4k count=4 iflag=direct status=none";
    let report = "nvme resv-report $device --eds --output-format=json | tr -d ' \\n\\t'; echo";
    for host in [alpha, beta] {
        host.connect_all(target, "")?;
    }
    let mut seen = String::new();

    on(
        alpha,
        "nvme resv-register $device --nrkey=0xa --rrega=0 || fail 'register a'",
    )?;
    on(
        beta,
        "nvme resv-register $device --nrkey=0xb --rrega=0 || fail 'register b'",
    )?;
    on(
        alpha,
        "nvme resv-acquire $device --crkey=0xa --rtype=1 --racqa=0 || fail acquire",
    )?;
    let reported = on(beta, report)?;
    seen += &format!("write exclusive, held by alpha: {reported}");
    on(alpha, write)?;
    on(beta, read)?;
    seen += &format!(
        "beta may read, and to write is refused: {}",
        first(&on(beta, &refuse(write))?)
    );
    on(
        beta,
        &refuse("nvme resv-acquire $device --crkey=0xb --rtype=1 --racqa=0"),
    )?;
    on(
        beta,
        &refuse("nvme resv-acquire $device --crkey=0xdead --prkey=0xa --rtype=1 --racqa=1"),
    )?;

    target.relocate(0)?;
    target.kill(0)?;
    alpha.sh(&format!("await_paths {nqn} {}", count - 1))?;
    beta.sh(&format!("await_paths {nqn} {}", count - 1))?;
    on(alpha, write)?;
    on(beta, &refuse(write))?;
    let after = on(beta, report)?;
    seen += &format!("with the owner's gateway gone, the same holds: {after}");
    target.revive(0)?;
    for host in [alpha, beta] {
        host.sh(&format!("await_paths {nqn} {count} 180"))?;
    }
    on(beta, &refuse(write))?;

    on(
        beta,
        "nvme resv-acquire $device --crkey=0xb --prkey=0xa --rtype=2 --racqa=1 || fail preempt",
    )?;
    seen += &format!("exclusive access, taken by beta: {}", on(beta, report)?);
    on(beta, write)?;
    on(alpha, &refuse(write))?;
    on(
        alpha,
        &refuse("dd if=$device of=/dev/null bs=4k count=1 iflag=direct status=none"),
    )?;
    on(
        beta,
        "nvme resv-release $device --crkey=0xb --rtype=2 --rrela=0 || fail release",
    )?;
    on(alpha, write)?;
    on(beta, "nvme resv-release $device --crkey=0xb --rrela=1 || fail clear")?;
    seen += &format!("cleared: {}", on(alpha, report)?);
    for host in [alpha, beta] {
        host.disconnect(target)?;
    }
    Ok(seen)
}

/// A script that succeeds when the command fails.
fn refuse(command: &str) -> String {
    format!("{command} 2>&1 && fail 'this was not refused: {command}'; true")
}

fn first(text: &str) -> String {
    format!("{}\n", text.lines().next().unwrap_or_default())
}
