//! Who may connect: hosts that are not allowed, DH-HMAC-CHAP, TLS with pre-shared keys.

use crate::host::{Host, PATIENCE, await_line};
use crate::target::Target;
use amita_terminal::error::{Failure, Result};

/// Every target's discovery subsystem.
const DISCOVERY: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// What a host has to prove; texts as `nvme gen-dhchap-key` and `nvme gen-tls-key` print them.
#[derive(Default)]
pub struct Keys {
    pub dhchap: Option<String>,
    pub dhchap_controller: Option<String>,
    pub tls: Option<String>,
}

/// A target that lets in whom it was told to, and nobody else.
pub trait Guarded: Target {
    /// Lets a host in that proves what these keys say.
    fn allow(&mut self, host: &str, keys: &Keys) -> Result<()>;

    /// Lets it in no more.
    fn forget(&mut self, host: &str) -> Result<()>;
}

fn refused(host: &Host, target: &dyn Target, options: &str) -> Result<String> {
    let portal = target.portals()[0];
    let (address, port, nqn) = (portal.ip(), portal.port(), target.nqn());
    host.must_fail(&format!(
        "dmesg -C; connect {address} {port} {nqn} --fast_io_fail_tmo=1 {options}"
    ))?;
    let said = host.sh(&format!(
        "gone {nqn} || fail 'a controller is left'; dmesg | sed 's/^[^]]*] //' | grep -iE 'connect|auth|handshake|tls|rejected' | tail -n 1"
    ))?;
    Ok(format!("{}\n", said.trim()))
}

/// Connects by every path, writes and reads back a little, disconnects.
fn accepted(host: &Host, target: &dyn Target, options: &str) -> Result<String> {
    host.connect_all(target, options)?;
    used(host, target)
}

/// The same by one path: what a host has to prove is slow to compute for an emulated processor.
fn accepted_by_one(host: &Host, target: &dyn Target, options: &str) -> Result<String> {
    host.connect(target, 0, options)?;
    used(host, target)
}

fn used(host: &Host, target: &dyn Target) -> Result<String> {
    let seen = host.sh(&format!(
        "device=$(device {nqn}); head -c 256k /dev/urandom >/tmp/data
         dd if=/tmp/data of=$device bs=64k oflag=direct status=none && dd if=$device bs=64k count=4 iflag=direct status=none |
             cmp - /tmp/data || fail 'what was written is not there'
         echo \"$(paths {nqn} | grep -c live) paths, 256 KiB written and read\"",
        nqn = target.nqn()
    ))?;
    host.disconnect(target)?;
    Ok(seen)
}

/// A host that is not listed does not get in, and sees nothing of the subsystem; one that is, does; and when it is allowed
/// no more while it is connected, it is cut off.
pub fn host_not_allowed(host: &Host, target: &mut dyn Guarded) -> Result<String> {
    let name = host.nqn()?;
    let portal = target.portals()[0];
    let (address, port, nqn) = (portal.ip(), portal.port(), target.nqn().to_owned());
    let mut seen = format!("not listed: {}", refused(host, target, "")?);
    let log = host.sh(&format!(
        "nvme discover --transport tcp --traddr {address} --trsvcid {port} || true"
    ))?;
    if log.contains(&nqn) {
        return Err(Failure::new(format!("the discovery log shows what it must not: {log}")));
    }
    target.allow(&name, &Keys::default())?;
    // Settings reach gateways in a moment.
    host.sh(&format!(
        "listed() {{ nvme discover --transport tcp --traddr {address} --trsvcid {port} | grep -q {nqn}; }}
         await 30 'the discovery log shows {nqn}' listed"
    ))?;
    seen += &format!("listed: {}", accepted(host, target, "")?);
    host.connect_all(target, "--ctrl-loss-tmo 2")?;
    target.forget(&name)?;
    host.sh(&format!("await 90 'it is cut off' gone {nqn}"))?;
    seen += &format!("no more: cut off, and {}", refused(host, target, "")?);
    Ok(seen)
}

/// A host that keeps a discovery connection is told when a subsystem appears to it: the kernel says so to `udev`, whose rule
/// (of nvme-cli's package) has it connected. The guest has no `udev`: the step listens in its place and does what the rule
/// says.
pub fn autoconnect(host: &Host, target: &mut dyn Guarded) -> Result<String> {
    let name = host.nqn()?;
    let portal = target.portals()[0];
    let (address, port, nqn, count) = (
        portal.ip(),
        portal.port(),
        target.nqn().to_owned(),
        target.portals().len(),
    );
    let rule = host.sh("grep -h -A4 'NVME_AEN}==\"0x70f002\"' /usr/lib/udev/rules.d/70-nvmf-autoconnect.rules")?;
    if !rule.contains("nvmf-connect@--device") {
        return Err(Failure::new(format!(
            "nvme-cli's rule says something else now:\n{rule}"
        )));
    }
    let told = host.start(&format!(
        "nvme discover --persistent --keep-alive-tmo 30 --transport tcp --traddr {address} --trsvcid {port} >/dev/null || fail discover
         python3 - <<'END'
import socket
events = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 15)  # NETLINK_KOBJECT_UEVENT
events.bind((0, 1))
print('listening', flush=True)
while True:
    words = events.recv(65536).decode(errors='replace').split('\\0')
    if 'NVME_AEN=0x70f002' in words:
        print(' '.join(word for word in words if word.startswith(('DEVNAME=', 'NVME_'))), flush=True)
        break
END"
    ))?;
    await_line(&told, |line| line == "listening")?;
    target.allow(&name, &Keys::default())?;
    await_line(&told, |line| line.contains("NVME_AEN=0x70f002"))?;
    let said = told.wait(PATIENCE)?.success()?.text;
    let event = said
        .lines()
        .find(|line| line.contains("NVME_AEN"))
        .unwrap_or_default()
        .to_owned();
    let device = event.split_whitespace().find_map(|word| word.strip_prefix("DEVNAME="));
    let device = device.ok_or_else(|| Failure::new(format!("the event names no device: {event}")))?;
    host.sh(&format!(
        "nvme connect-all --device={device} --transport=tcp --traddr={address} --trsvcid={port} --quiet || fail connect-all
         await_paths {nqn} {count}"
    ))?;
    let seen = used(host, target)?;
    target.forget(&name)?;
    host.sh("nvme disconnect-all; dmesg -C")?;
    Ok(format!("told: {event}; {seen}"))
}

/// DH-HMAC-CHAP: the right key, a wrong one, none; then both ways, with the controller's key right and wrong.
pub fn chap(host: &Host, target: &mut dyn Guarded) -> Result<String> {
    let name = host.nqn()?;
    let mut seen = String::new();
    // A secret as it is, and one that is transformed with the host's name by each of the hashes.
    for hmac in 0..4 {
        let make = || host.sh(&format!("nvme gen-dhchap-key --hmac={hmac} --nqn {name}"));
        let (right, wrong, controller) = (make()?, make()?, make()?);
        let (right, wrong, controller) = (right.trim(), wrong.trim(), controller.trim());
        let keys = Keys {
            dhchap: Some(right.to_owned()),
            dhchap_controller: Some(controller.to_owned()),
            tls: None,
        };
        target.allow(&name, &keys)?;
        settle(host)?;
        let one_way = format!("--dhchap-secret={right}");
        let accept = if hmac == 0 { accepted } else { accepted_by_one };
        seen += &format!("hash {hmac}: {}", accept(host, target, &one_way)?);
        let both = format!("--dhchap-secret={right} --dhchap-ctrl-secret");
        seen += &format!(
            "both ways: {}",
            accepted_by_one(host, target, &format!("{both}={controller}"))?
        );
        if hmac < 2 {
            seen += &format!(
                "wrong key: {}",
                refused(host, target, &format!("--dhchap-secret={wrong}"))?
            );
            seen += &format!("no key: {}", refused(host, target, "")?);
            seen += &format!(
                "wrong key of the controller: {}",
                refused(host, target, &format!("{both}={wrong}"))?
            );
        }
        target.forget(&name)?;
    }
    Ok(seen)
}

/// TLS 1.3 by a pre-shared key: the right one, a wrong one, and no TLS at all.
pub fn tls(host: &Host, target: &mut dyn Guarded) -> Result<String> {
    let (name, nqn) = (host.nqn()?, target.nqn().to_owned());
    host.sh("modprobe tls
         printf '[debug]\\nloglevel=1\\ntls=1\\n[authenticate]\\nkeyrings=.nvme\\n' >/etc/tlshd.conf
         tlshd --stderr --config /etc/tlshd.conf >/tmp/tlshd.log 2>&1 &
         sleep 1; pgrep -x tlshd >/dev/null || { cat /tmp/tlshd.log; fail 'no tlshd'; }")?;
    let insert = |key: &str| {
        host.sh(&format!(
            "keyctl clear %:.nvme; nvme check-tls-key --identity=1 --subsysnqn {nqn} --hostnqn {name} --insert --keydata='{}'",
            key.trim()
        ))
    };
    let mut seen = String::new();
    let explained = |failure: Failure| {
        let log = host
            .sh("tail -n 20 /tmp/tlshd.log; dmesg | tail -n 5")
            .unwrap_or_default();
        Failure::new(format!("{failure}\n{log}"))
    };
    // Keys of SHA-384 are proven with SHA-256 by the tlshd of Debian 13, and refused: `docs/operating/nvme.md`.
    let make = || {
        host.sh(&format!(
            "nvme gen-tls-key --hmac=1 --identity=1 --subsysnqn {nqn} --hostnqn {name}"
        ))
    };
    let (right, wrong) = (make()?, make()?);
    let keys = Keys {
        tls: Some(right.trim().to_owned()),
        ..Keys::default()
    };
    target.allow(&name, &keys)?;
    settle(host)?;
    insert(&right)?;
    seen += &format!("right key: {}", accepted(host, target, "--tls").map_err(explained)?);
    let digests = accepted_by_one(host, target, "--tls --hdr-digest --data-digest");
    seen += &format!("with digests: {}", digests.map_err(explained)?);
    let portal = target.portals()[0];
    let discovered = host.sh(&format!(
        "own=$(nvme discover --transport tcp --traddr {address} --trsvcid {port} |
             awk '/^subtype: *current discovery/ {{ found = 1 }} found && /^subnqn:/ {{ print $2; exit }}')
         [ -n \"$own\" ] || fail 'the discovery subsystem has no name of its own'
         # nvme-cli asks by the well-known name, learns the subsystem's own one, and goes on by that.
         for subsystem in {DISCOVERY} $own; do
             nvme check-tls-key --identity=1 --subsysnqn $subsystem --hostnqn {name} --insert --keydata='{key}' >/dev/null
         done
         nvme discover --tls --transport tcp --traddr {address} --trsvcid {port} | tee /tmp/log
         grep -q 'subnqn: *{nqn}$' /tmp/log || fail 'the log does not name {nqn}'",
        key = right.trim(),
        address = portal.ip(),
        port = portal.port(),
    ));
    let records = discovered.map_err(explained)?.matches("subnqn").count();
    seen += &format!("discovery by TLS: {records} records\n");
    insert(&wrong)?;
    seen += &format!("wrong key: {}", refused(host, target, "--tls")?);
    seen += &format!("without TLS: {}", refused(host, target, "")?);
    target.forget(&name)?;
    host.sh("keyctl clear %:.nvme; pkill tlshd; true")?;
    Ok(seen)
}

/// Until the gateways know what was changed: a second is their habit, and the machine may be busy. A host that shows
/// nothing is refused before and after, so that there is nothing to look at.
fn settle(host: &Host) -> Result<()> {
    host.sh("sleep 3").map(drop)
}
