//! Persistent reservations of two initiators, by hand and as clusters of hosts fence each other.

use crate::host::Host;
use crate::target::Target;
use amita_terminal::error::Result;

const WRITE: &str = "dd if=/dev/urandom of=$device bs=4k count=4 oflag=direct status=none";
const READ: &str = "dd if=$device of=/dev/null bs=4k count=4 iflag=direct status=none";

/// TEST UNIT READY, by which the agent takes what a path has to tell before it asks for something. Without the option that of Debian 13
/// (sg3-utils 1.48) sends no command at all, and the agent fails at its second path, with any target.
const TURS: &str = "/usr/bin/sg_turs --low";

/// Every path is an I_T nexus, which registers for itself.
const LIBRARY: &str = r#"
each() { local session; for session in $(sessions $target); do "$@" /dev/$(session_disk $session) || return $?; done; }
first() { echo /dev/$(session_disk $(sessions $target | head -n 1)); }
out() { sg_persist --no-inquiry --out "$@" >/tmp/persist 2>&1 || { cat /tmp/persist; return 1; }; }
report() { sg_persist --no-inquiry --in --read-keys $(first); sg_persist --no-inquiry --in --read-reservation $(first); }
device=$(device $target)
"#;

fn on(host: &Host, target: &dyn Target, script: &str) -> Result<String> {
    host.sh(&format!("target={}\n{LIBRARY}\n{script}", target.nqn()))
}

fn refused(host: &Host, target: &dyn Target, command: &str) -> Result<String> {
    on(
        host,
        target,
        &format!("{command} 2>&1 && fail 'this was not refused: {command}'; true"),
    )
}

/// Register, reserve, be refused, outlive the loss of the owner's gateway, preempt, release, clear: `sg_persist`.
pub fn by_hand(alpha: &Host, beta: &Host, target: &mut dyn Target) -> Result<String> {
    let nqn = target.nqn().to_owned();
    let count = target.portals().len();
    for host in [alpha, beta] {
        host.connect_all(target, "")?;
    }
    for (host, key) in [(alpha, "0xa"), (beta, "0xb")] {
        let register = format!("each out --register-ignore --param-sark={key} --param-aptpl || fail register");
        on(host, target, &register)?;
    }
    on(
        alpha,
        target,
        "out --reserve --param-rk=0xa --prout-type=5 $(first) || fail reserve",
    )?;
    let reported = on(beta, target, "report")?;
    let mut seen = format!("write exclusive of those registered, held by alpha: {reported}");
    on(alpha, target, WRITE)?;
    on(beta, target, WRITE)?;
    on(
        beta,
        target,
        "each out --register --param-rk=0xb --param-sark=0 || fail unregister",
    )?;
    on(beta, target, READ)?;
    seen += &format!("beta, registered no more: {}", refused(beta, target, WRITE)?);
    let steal = "out --reserve --param-rk=0xb --prout-type=5 $(first)";
    seen += &format!("and: {}", refused(beta, target, steal)?);

    target.relocate(0)?;
    target.kill(0)?;
    for host in [alpha, beta] {
        host.sh(&format!("await_paths {nqn} {}", count - 1))?;
    }
    on(alpha, target, WRITE)?;
    refused(beta, target, WRITE)?;
    target.revive(0)?;
    for host in [alpha, beta] {
        host.sh(&format!("await_paths {nqn} {count} 180"))?;
    }
    refused(beta, target, WRITE)?;
    seen += "the same with the owner's gateway gone, and back\n";

    on(
        beta,
        target,
        "each out --register-ignore --param-sark=0xb || fail register
         out --preempt-abort --param-rk=0xb --param-sark=0xa --prout-type=6 $(first) || fail preempt",
    )?;
    seen += &format!(
        "exclusive access of those registered, taken by beta: {}",
        on(beta, target, "report")?
    );
    on(beta, target, WRITE)?;
    refused(alpha, target, WRITE)?;
    refused(alpha, target, READ)?;
    on(
        beta,
        target,
        "out --release --param-rk=0xb --prout-type=6 $(first) || fail release",
    )?;
    on(alpha, target, WRITE)?;
    on(beta, target, "out --clear --param-rk=0xb $(first) || fail clear")?;
    seen += &format!("cleared: {}", on(alpha, target, "report")?);
    for host in [alpha, beta] {
        host.disconnect(target)?;
    }
    Ok(seen)
}

/// `fence_scsi`, as pacemaker calls it: both hosts unfence themselves, one fences the other while that writes, and that comes back.
pub fn by_agent(alpha: &Host, beta: &Host, target: &dyn Target) -> Result<String> {
    for host in [alpha, beta] {
        host.connect_all(target, "")?;
        host.sh("rm -rf /run/cluster; mkdir -p /run/cluster /var/run/cluster")?;
    }
    let agent = |host: &Host, action: &str, key: &str| {
        on(
            host,
            target,
            &format!(
                "fence_scsi '--sg_turs-path={TURS}' --devices=$device --action={action} --key={key} >/tmp/fence 2>&1; status=$?
                 cat /tmp/fence; echo \"{action} of {key} by {}: $status\"; exit $status",
                host.guest.name()
            ),
        )
    };
    let (first, second) = ("a1000001", "a1000002");
    let mut seen = agent(alpha, "on", first)? + &agent(beta, "on", second)?;
    for host in [alpha, beta] {
        on(host, target, WRITE)?;
    }
    seen += &agent(beta, "off", first)?;
    seen += &format!("alpha, fenced: {}", refused(alpha, target, WRITE)?);
    on(beta, target, WRITE)?;
    seen += &on(beta, target, "report")?;
    seen += &agent(alpha, "on", first)?;
    on(alpha, target, WRITE)?;
    on(beta, target, "out --clear --param-rk=0xa1000002 $(first) || fail clear")?;
    for host in [alpha, beta] {
        host.disconnect(target)?;
    }
    Ok(seen)
}
