//! Disks by NVMe/TCP: paths by `/dev/nvme-fabrics`, and what sysfs says of them. The kernel makes one disk of all paths of a namespace.

use super::gateways::{Gateways, Missing};
use super::machine::{Kind, Machine};
use crate::controller::context;
use crate::id;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tonic::Status;
use uuid::Uuid;

pub(super) const FABRICS: &str = "/dev/nvme-fabrics";
const CONTROLLERS: &str = "/sys/class/nvme";
const SUBSYSTEMS: &str = "/sys/class/nvme-subsystem";
const MULTIPATH: &str = "/sys/module/nvme_core/parameters/multipath";
/// A disk that is connected is looked for so often,
const LOOKS: u32 = 150;
/// with so much time between.
const LOOK: Duration = Duration::from_millis(100);
/// The kernel is told to look, too, once in so many looks.
const RESCAN: u32 = 20;
/// A gateway that has not heard yet of a volume that was just published refuses: it is asked again for so long, where there is no path,
const PATIENCE: Duration = Duration::from_secs(3);
/// with so much time between.
const AGAIN: Duration = Duration::from_millis(500);
/// `EALREADY`: there is such a path.
pub(super) const ALREADY: i32 = 114;
/// Settings of each path: what the volume's context calls them, what the kernel does, and what they are where nothing is said (decision 069).
pub(super) const SETTINGS: [(&str, &str, &str); 5] = [
    ("nvmeNrIoQueues", "nr_io_queues", "2"),
    ("nvmeKeepAliveTmo", "keep_alive_tmo", "5"),
    ("nvmeReconnectDelay", "reconnect_delay", "2"),
    ("nvmeCtrlLossTmo", "ctrl_loss_tmo", "-1"),
    ("nvmeFastIoFailTmo", "fast_io_fail_tmo", "600"),
];
/// Secrets of the request, and what the kernel calls them.
const SECRETS: [(&str, &str); 2] = [
    ("nvmeDhchapSecret", "dhchap_secret"),
    ("nvmeDhchapCtrlSecret", "dhchap_ctrl_secret"),
];

/// What a node connects to.
pub(super) struct Target {
    nqn: String,
    uuid: String,
    portals: Vec<SocketAddr>,
    /// Which attachment it is; none: the controller did not say.
    number: Option<u32>,
    /// Behind the address, on each line. There may be secrets in it.
    settings: String,
}

/// A disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Disk {
    /// What the kernel calls it.
    pub name: String,
    /// What it calls its paths, where dm-multipath has made it of them; the first one holds what is reserved.
    pub paths: Vec<String>,
}

impl Disk {
    pub(super) fn device(&self) -> String {
        format!("/dev/{}", self.name)
    }

    /// By what it is reserved: dm-multipath asks all paths at once, or any of them, and one that fails fails all.
    pub(super) fn reserved_by(&self) -> String {
        format!("/dev/{}", self.paths.first().unwrap_or(&self.name))
    }
}

/// A path.
pub(super) struct Path {
    name: String,
    pub nqn: String,
    pub address: Option<SocketAddr>,
    pub state: String,
}

pub(super) fn failed(what: &str) -> impl Fn(io::Error) -> Status + '_ {
    move |why| Status::internal(format!("{what}: {why}"))
}

/// What may stand between the commas of a line.
pub(super) fn is_word(text: &str) -> bool {
    !text.is_empty() && !text.contains([',', '\n', '\0', ' '])
}

impl Target {
    /// Of what the controller has told, and the volume's context.
    pub(super) fn read(
        host: Uuid,
        told: &BTreeMap<String, String>,
        volume: &BTreeMap<String, String>,
        secrets: &BTreeMap<String, String>,
    ) -> Result<Target, Status> {
        let text = |key: &str| {
            let found = told
                .get(key)
                .filter(|text| !text.contains(['\n', '\0', ' ']) && !text.is_empty());
            found.ok_or_else(|| Status::invalid_argument(format!("the publish context has no {key}")))
        };
        let portals = text(context::PORTALS)?.split(',').map(str::parse::<SocketAddr>);
        let portals = portals.collect::<Result<Vec<_>, _>>();
        let portals =
            portals.map_err(|why| Status::invalid_argument(format!("an address of a gateway is none: {why}")))?;
        let (nqn, uuid) = (text(context::NQN)?.clone(), text(context::UUID)?.to_ascii_lowercase());
        if !is_word(&nqn) {
            return Err(Status::invalid_argument("the subsystem's name has a comma"));
        }
        let mut settings = format!("hostnqn={},hostid={host}", id::host_nqn(host));
        for (key, option, usual) in SETTINGS {
            let value = volume.get(key).map_or(usual, String::as_str);
            if value.parse::<i64>().is_err() {
                return Err(Status::invalid_argument(format!("{key} is {value:?}, and no number")));
            }
            // Without it I/O waits until there is a path again.
            if !(option == "fast_io_fail_tmo" && value.starts_with('-')) {
                settings += &format!(",{option}={value}");
            }
        }
        // Its key is in the kernel's keyring already (`amita volume attach` says how).
        if volume.get("tlsRequired").is_some_and(|value| value == "true") {
            settings += ",tls";
        }
        for (key, option) in SECRETS {
            if let Some(secret) = secrets.get(key) {
                if !is_word(secret) {
                    return Err(Status::invalid_argument(format!(
                        "the secret {key} has what no key has"
                    )));
                }
                settings += &format!(",{option}={secret}");
            }
        }
        Ok(Target {
            nqn,
            uuid,
            portals,
            number: told.get(context::ATTACHMENT).and_then(|text| text.parse().ok()),
            settings,
        })
    }

    /// Is it this subsystem?
    pub(super) fn is(&self, nqn: &str) -> bool {
        self.nqn == nqn
    }

    /// Connects paths that there are not, and finds the disk; and whether all paths are there. One is enough to go on, and nothing is waited for once it is live:
    /// the kernel tries those again that it has, and what is missing is connected later. `is_of`: which subsystems have this volume.
    pub(super) fn connect(
        &self,
        machine: &dyn Machine,
        gateways: &Gateways,
        is_of: impl Fn(&str) -> bool,
    ) -> Result<(Disk, bool), Status> {
        ready(machine)?;
        let until = machine.now() + PATIENCE;
        self.is_the_newest(machine, &is_of)?;
        let there = paths(machine)?;
        let there: Vec<&Path> = there
            .iter()
            .filter(|path| path.nqn == self.nqn && !path.state.starts_with("deleting"))
            .collect();
        let is_there = |portal: &SocketAddr| there.iter().any(|path| path.address == Some(*portal));
        let missing = self.portals.iter().copied().filter(|portal| !is_there(portal));
        // What kept this machine waiting lately, for whichever volume, is asked where there is no other.
        let (slow, mut missing): (Vec<SocketAddr>, Vec<SocketAddr>) =
            missing.partition(|portal| gateways.is_slow(machine, *portal));
        let mut is_live = there.iter().any(|path| path.state == "live");
        let mut reasons: Vec<String> = Vec::new();
        loop {
            let mut refused = Vec::new();
            for portal in missing {
                if is_live && machine.now() >= until {
                    reasons.push(format!("{portal}: it is asked later"));
                    continue;
                }
                match self.connect_one(machine, gateways, portal, false) {
                    Ok(()) => is_live = true,
                    Err(Missing::Silent(why)) => reasons.push(format!("{portal}: {why}")),
                    Err(Missing::Refused(why)) => refused.push((portal, why)),
                }
            }
            if is_live || refused.is_empty() || machine.now() + AGAIN > until {
                reasons.extend(refused.iter().map(|(portal, why)| format!("{portal}: {why}")));
                break;
            }
            missing = refused.into_iter().map(|(portal, _)| portal).collect();
            machine.pause(AGAIN);
        }
        for portal in slow {
            let connected = match is_live {
                true => Err("it kept this machine waiting lately".to_owned()),
                false => self
                    .connect_one(machine, gateways, portal, true)
                    .map_err(|missing| missing.why().to_string()),
            };
            match connected {
                Ok(()) => is_live = true,
                Err(why) => reasons.push(format!("{portal}: {why}")),
            }
        }
        if !is_live && there.is_empty() {
            let why = format!("no gateway of {} lets this node in: {}", self.nqn, reasons.join("; "));
            return Err(Status::unavailable(why));
        }
        for reason in &reasons {
            log::warn!("a path of {} is not there yet: {reason}", self.nqn);
        }
        self.end_others(machine, &is_of)?;
        let disk = self.await_disk(machine)?;
        // Not every kernel ignores a second disk of one UUID: where the path was away for a moment, there are two.
        match paths(machine)?.iter().find(|path| self.is_another(path, &is_of)) {
            None => Ok((disk, reasons.is_empty())),
            Some(other) => Err(Status::unavailable(format!(
                "{} is there still, and {} was not there long enough to end it",
                other.nqn, self.nqn
            ))),
        }
    }

    /// Is it a path of the volume by another name?
    fn is_another(&self, path: &Path, is_of: &impl Fn(&str) -> bool) -> bool {
        path.nqn != self.nqn && is_of(&path.nqn)
    }

    /// A call that was on its way for long, or sent twice, may be of an attachment that was ended since: what is here of a newer one is not ended for it.
    fn is_the_newest(&self, machine: &dyn Machine, is_of: &impl Fn(&str) -> bool) -> Result<(), Status> {
        let Some(own) = self.number else { return Ok(()) };
        for path in paths(machine)?.iter().filter(|path| self.is_another(path, is_of)) {
            let serial = machine.read(&file(path, "serial")).unwrap_or_default();
            if id::attachment_of_serial(serial.trim()).is_some_and(|number| number > own) {
                return Err(Status::failed_precondition(format!(
                    "{} is here, which is newer than {}: ask with what it was published with last (after a cluster was restored to an earlier \
                     state: nvme disconnect -n {})",
                    path.nqn, self.nqn, path.nqn
                )));
            }
        }
        Ok(())
    }

    fn connect_one(
        &self,
        machine: &dyn Machine,
        gateways: &Gateways,
        portal: SocketAddr,
        is_last: bool,
    ) -> Result<(), Missing> {
        let line = format!(
            "nqn={},transport=tcp,traddr={},trsvcid={},{}",
            self.nqn,
            portal.ip(),
            portal.port(),
            self.settings
        );
        match gateways.connect(machine, portal, &line, is_last) {
            Err(Missing::Refused(why)) if why.raw_os_error() == Some(ALREADY) => Ok(()),
            done => done.map(drop),
        }
    }

    /// Ends what this machine has of the volume by another name: an attachment that was ended without it. Gateways let nobody in by that name, and what is queued
    /// there is to fail. The kernel ignores a disk for as long as another subsystem has one of its UUID. Only whoever is let in by the new name knows
    /// that the other one is the older one.
    fn end_others(&self, machine: &dyn Machine, is_of: &impl Fn(&str) -> bool) -> Result<(), Status> {
        let is_other = |nqn: &str| nqn != self.nqn && is_of(nqn);
        let all = paths(machine)?;
        let is_let_in = all.iter().any(|path| path.nqn == self.nqn && path.state == "live");
        let other = all.iter().find(|path| self.is_another(path, is_of));
        let Some(other) = other.filter(|_| is_let_in) else {
            return Ok(());
        };
        log::warn!(
            "{} was lost to this node, and is ended: what it had queued there fails",
            other.nqn
        );
        disconnect(machine, is_other)?;
        look_again(machine, |nqn| nqn == self.nqn)
    }

    fn await_disk(&self, machine: &dyn Machine) -> Result<Disk, Status> {
        for look in 0..LOOKS {
            if look > 0 {
                machine.pause(LOOK);
            }
            if look % RESCAN == RESCAN / 2 {
                // It was ignored when the kernel looked, and nobody has told it that it may look again.
                look_again(machine, |nqn| nqn == self.nqn)?;
            }
            if let Some(disk) = self.disk(machine)?
                && size(machine, &disk)? > 0
                && machine.kind(&disk.device()).map_err(failed("the disk"))? == Some(Kind::Disk)
            {
                return Ok(disk);
            }
        }
        let seconds = (LOOK * LOOKS).as_secs();
        Err(Status::unavailable(format!(
            "{} is connected, and its disk {} has not come within {seconds} s",
            self.nqn, self.uuid
        )))
    }

    /// The disk, if it is there.
    pub(super) fn disk(&self, machine: &dyn Machine) -> Result<Option<Disk>, Status> {
        let all = disks(machine, |nqn| nqn == self.nqn)?;
        for disk in all {
            let subsystem = format!("/sys/block/{}/uuid", disk.name);
            let uuid = machine.read(&subsystem).unwrap_or_default();
            if uuid.trim().eq_ignore_ascii_case(&self.uuid) {
                return Ok(Some(disk));
            }
        }
        Ok(None)
    }
}

/// Can this machine speak NVMe/TCP, over several paths?
pub(super) fn ready(machine: &dyn Machine) -> Result<(), Status> {
    if machine.kind(FABRICS).map_err(failed(FABRICS))?.is_none() {
        // Where it is built in, or there is no such program, the look behind it says so.
        let _ = machine.run("modprobe", &["nvme-tcp"]);
        if machine.kind(FABRICS).map_err(failed(FABRICS))?.is_none() {
            return Err(Status::failed_precondition(format!(
                "there is no {FABRICS}: the kernel has no nvme-tcp, or /dev is not the machine's"
            )));
        }
    }
    match machine.read(MULTIPATH) {
        Ok(text) if text.trim() == "N" => Err(Status::failed_precondition(
            "the kernel was started with nvme_core.multipath=N: each path would be a disk of its own",
        )),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Err(Status::failed_precondition(
            "the kernel knows no multipath of NVMe (CONFIG_NVME_MULTIPATH): each path would be a disk of its own",
        )),
        _ => Ok(()),
    }
}

/// `traddr=A,trsvcid=P,...` of a path.
fn address(text: &str) -> Option<SocketAddr> {
    let field = |key: &str| text.trim().split(',').find_map(|field| field.strip_prefix(key));
    let (ip, port) = (field("traddr=")?, field("trsvcid=")?);
    Some(SocketAddr::new(ip.parse().ok()?, port.parse().ok()?))
}

/// A folder of sysfs that is not there has nothing in it.
fn list(machine: &dyn Machine, path: &str) -> Result<Vec<String>, Status> {
    match machine.list(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed.map_err(failed(path)),
    }
}

pub(super) fn paths(machine: &dyn Machine) -> Result<Vec<Path>, Status> {
    let names = list(machine, CONTROLLERS)?;
    let read = |name: &str, what: &str| {
        machine
            .read(&format!("{CONTROLLERS}/{name}/{what}"))
            .unwrap_or_default()
    };
    // What goes away while it is looked at has no names.
    Ok(names
        .into_iter()
        .map(|name| Path {
            nqn: read(&name, "subsysnqn").trim().to_owned(),
            address: address(&read(&name, "address")),
            state: read(&name, "state").trim().to_owned(),
            name,
        })
        .collect())
}

/// `nvme0n1`, and not `nvme0c0n1`, which is one path of it.
fn is_disk(name: &str) -> bool {
    let Some((first, second)) = name.strip_prefix("nvme").and_then(|rest| rest.split_once('n')) else {
        return false;
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number(first) && is_number(second)
}

/// The disks of subsystems with such a name.
pub(super) fn disks(machine: &dyn Machine, is_meant: impl Fn(&str) -> bool) -> Result<Vec<Disk>, Status> {
    let mut all = Vec::new();
    for subsystem in list(machine, SUBSYSTEMS)? {
        let folder = format!("{SUBSYSTEMS}/{subsystem}");
        let nqn = machine.read(&format!("{folder}/subsysnqn")).unwrap_or_default();
        if is_meant(nqn.trim()) {
            let names = list(machine, &folder)?.into_iter().filter(|name| is_disk(name));
            all.extend(names.map(|name| Disk {
                name,
                paths: Vec::new(),
            }));
        }
    }
    Ok(all)
}

/// Bytes of a disk; 0: it has none yet.
pub(super) fn size(machine: &dyn Machine, disk: &Disk) -> Result<u64, Status> {
    let text = machine
        .read(&format!("/sys/block/{}/size", disk.name))
        .unwrap_or_default();
    let sectors: u64 = text.trim().parse().unwrap_or(0);
    Ok(sectors.saturating_mul(512))
}

/// The number of its device, as mounts have it.
pub(super) fn number(machine: &dyn Machine, disk: &Disk) -> Result<String, Status> {
    let file = format!("/sys/block/{}/dev", disk.name);
    let text = machine.read(&file).map_err(failed(&file))?;
    Ok(text.trim().to_owned())
}

/// Is it written to by nobody?
pub(super) fn is_read_only(machine: &dyn Machine, disk: &Disk) -> bool {
    let text = machine
        .read(&format!("/sys/block/{}/ro", disk.name))
        .unwrap_or_default();
    text.trim() == "1"
}

/// Ends all paths to subsystems with such a name.
pub(super) fn disconnect(machine: &dyn Machine, is_meant: impl Fn(&str) -> bool) -> Result<(), Status> {
    for path in paths(machine)?.into_iter().filter(|path| is_meant(&path.nqn)) {
        end(machine, &path)?;
    }
    Ok(())
}

/// Ends a path.
pub(super) fn end(machine: &dyn Machine, path: &Path) -> Result<(), Status> {
    end_named(machine, &path.name)
}

/// Ends what the kernel calls so.
pub(super) fn end_named(machine: &dyn Machine, name: &str) -> Result<(), Status> {
    let file = format!("{CONTROLLERS}/{name}/delete_controller");
    match machine.write(&file, "1") {
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
        ended => ended.map_err(failed(&file)),
    }
}

/// A file of sysfs of a path.
pub(super) fn file(path: &Path, name: &str) -> String {
    format!("{CONTROLLERS}/{}/{name}", path.name)
}

/// Has the kernel look how large disks are: their gateway tells it by itself, which may be on its way.
pub(super) fn look_again(machine: &dyn Machine, is_meant: impl Fn(&str) -> bool) -> Result<(), Status> {
    for path in paths(machine)?
        .into_iter()
        .filter(|path| is_meant(&path.nqn) && path.state == "live")
    {
        // A path that has gone away meanwhile says nothing.
        let _ = machine.write(&format!("{CONTROLLERS}/{}/rescan_controller", path.name), "1");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_disks_and_addresses_of_paths() {
        for (name, wanted) in [
            ("nvme0n1", true),
            ("nvme12n34", true),
            ("nvme0c0n1", false),
            ("nvme0", false),
            ("nvme0n1p1", false),
        ] {
            assert_eq!(is_disk(name), wanted, "{name}");
        }
        let one = address("traddr=192.0.2.1,trsvcid=4420,src_addr=192.0.2.9\n");
        assert_eq!(one, "192.0.2.1:4420".parse().ok());
        assert_eq!(
            address("traddr=2001:db8::1,trsvcid=4420"),
            "[2001:db8::1]:4420".parse().ok()
        );
        assert_eq!(address(""), None);
    }
}
