//! Disks by iSCSI: sessions by the host's open-iscsi, what sysfs says of them, and one disk of all paths by the host's dm-multipath (decision 092).
//!
//! All paths of a LUN have its NAA name, of whichever attachment they are, and dm-multipath puts what has one name into one map. What a lost attachment has queued in its map
//! would go by the paths of the next one. So sessions are made that look for no disk by themselves; whoever is let in by the newest name ends what there is of others; and only then
//! disks are looked for.

use super::machine::Kind;
use super::nvme::{Disk, failed, is_word, size};
use super::tools::{Record, wwid};
use super::{Node, nvme};
use crate::controller::context;
use crate::id;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tonic::Status;

const SESSIONS: &str = "/sys/class/iscsi_session";
const CONNECTIONS: &str = "/sys/class/iscsi_connection";
/// A disk is looked for so often,
const LOOKS: u32 = 150;
/// with so much time between.
const LOOK: Duration = Duration::from_millis(100);
/// By now the paths of all sessions are there that come; what is missing then is done without.
const PATHS: u32 = 20;
/// Multipathd is told of paths that are in no map once in so many looks.
const ADD_AGAIN: u32 = 20;
/// Multipathd looks at all disks anew, once, where it has made no map of a path that it was told of.
const RECONFIGURE: u32 = 70;
/// A gateway that has not heard yet of a volume that was just published refuses: it is asked again for so long, where there is no session,
const PATIENCE: Duration = Duration::from_secs(3);
/// with so much time between.
const AGAIN: Duration = Duration::from_millis(500);
/// Secrets of the request.
const SECRET: &str = "iscsiChapSecret";
const TARGET_SECRET: &str = "iscsiChapTargetSecret";

/// What a node logs in to.
pub(super) struct Target {
    iqn: String,
    lun: u16,
    naa: String,
    initiator: String,
    portals: Vec<(SocketAddr, u16)>,
    /// Settings of a record, by their names.
    secrets: Vec<(String, String)>,
}

/// A session.
pub(super) struct Session {
    name: String,
    pub target: String,
    address: Option<SocketAddr>,
    is_live: bool,
}

/// A disk by one session.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Path {
    /// Host, channel, target and LUN: those of later sessions are larger.
    place: Vec<u64>,
    name: String,
    naa: String,
}

/// A folder of sysfs that is not there has nothing in it; nor has one that goes away while it is looked at.
fn list(node: &Node, path: &str) -> Vec<String> {
    node.machine().list(path).unwrap_or_default()
}

fn read(node: &Node, path: &str) -> String {
    let text = node.machine().read(path).unwrap_or_default();
    text.trim_matches(['\0', '\n', ' ']).to_owned()
}

fn sessions(node: &Node) -> Vec<Session> {
    let all = list(node, SESSIONS).into_iter().map(|name| {
        let number = name.strip_prefix("session").unwrap_or_default().to_owned();
        let connection = |what: &str| read(node, &format!("{CONNECTIONS}/connection{number}:0/persistent_{what}"));
        let ip: Option<IpAddr> = connection("address").parse().ok();
        Session {
            target: read(node, &format!("{SESSIONS}/{name}/targetname")),
            address: ip.zip(connection("port").parse().ok()).map(SocketAddr::from),
            is_live: read(node, &format!("{SESSIONS}/{name}/state")) == "LOGGED_IN",
            name,
        }
    });
    all.collect()
}

/// The disks of a session.
fn paths(node: &Node, session: &Session) -> Vec<Path> {
    let device = format!("{SESSIONS}/{}/device", session.name);
    let mut all = Vec::new();
    for target in list(node, &device)
        .into_iter()
        .filter(|name| name.starts_with("target"))
    {
        for place in list(node, &format!("{device}/{target}")) {
            let folder = format!("{device}/{target}/{place}");
            let numbers = place.split(':').map(str::parse).collect::<Result<Vec<u64>, _>>();
            let (Ok(numbers), Some(name)) = (numbers, list(node, &format!("{folder}/block")).pop()) else {
                continue;
            };
            let naa = read(node, &format!("{folder}/wwid"));
            all.push(Path {
                place: numbers,
                name,
                naa: naa.strip_prefix("naa.").unwrap_or(&naa).to_ascii_lowercase(),
            });
        }
    }
    all
}

/// The map that the disk of a name is; none: there is none.
fn map_of(node: &Node, naa: &str) -> Option<Disk> {
    let wanted = format!("mpath-{}", wwid(naa));
    let mut maps = list(node, "/sys/block")
        .into_iter()
        .filter(|name| name.starts_with("dm-"));
    let name = maps.find(|name| read(node, &format!("/sys/block/{name}/dm/uuid")) == wanted)?;
    let mut known: Vec<String> = list(node, &format!("/sys/block/{name}/slaves"));
    known.sort();
    Some(Disk { name, paths: known })
}

/// What multipath calls a map.
fn map_name(node: &Node, disk: &Disk) -> String {
    match read(node, &format!("/sys/block/{}/dm/name", disk.name)) {
        name if name.is_empty() => disk.name.clone(),
        name => name,
    }
}

impl Target {
    /// Of what the controller has told; none: it is not by iSCSI.
    pub(super) fn read(
        told: &BTreeMap<String, String>,
        secrets: &BTreeMap<String, String>,
    ) -> Result<Option<Target>, Status> {
        let Some(iqn) = told.get(context::IQN) else {
            return Ok(None);
        };
        let wrong = |key: &str| Status::invalid_argument(format!("the publish context has no {key} that can be"));
        let text = |key: &str| {
            let found = told.get(key).filter(|text| is_word(text) && !text.starts_with('-'));
            found.ok_or_else(|| wrong(key))
        };
        let one = |text: &str| {
            let (address, tag) = text.split_once('#')?;
            Some((address.parse().ok()?, tag.parse().ok()?))
        };
        let portals = told.get(context::PORTALS).ok_or_else(|| wrong(context::PORTALS))?;
        let portals = portals.split(',').map(one).collect::<Option<Vec<_>>>();
        let naa = text(context::NAA)?.to_ascii_lowercase();
        if !naa.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong(context::NAA));
        }
        let is_name = |name: &str| is_word(name) && name.starts_with("iqn.");
        if !is_name(iqn) || !is_name(text(context::INITIATOR)?) {
            return Err(wrong(context::IQN));
        }
        let initiator = text(context::INITIATOR)?.clone();
        Ok(Some(Target {
            lun: text(context::LUN)?.parse().map_err(|_| wrong(context::LUN))?,
            portals: portals.ok_or_else(|| wrong(context::PORTALS))?,
            secrets: chap(&initiator, iqn, secrets)?,
            iqn: iqn.clone(),
            naa,
            initiator,
        }))
    }

    /// Is it this target?
    pub(super) fn is(&self, name: &str) -> bool {
        self.iqn == name
    }

    fn own(&self, node: &Node) -> Vec<Session> {
        let all = sessions(node).into_iter();
        all.filter(|session| session.target == self.iqn).collect()
    }

    /// Logs in where it is not, and finds the disk. One session is enough to go on; those that are there iscsid keeps. To a disk that is in use no path is added: one that is not
    /// registered would fail writes, and multipathd takes it as soon as it is there.
    pub(super) fn connect(&self, node: &Node, is_of: impl Fn(&str) -> bool) -> Result<Disk, Status> {
        if let Some(there) = self.disk(node)?
            && !node.is_free(&there)?
        {
            return Ok(there);
        }
        self.log_in(node)?;
        self.end_others(node, is_of)?;
        self.scan(node)?;
        self.await_disk(node)
    }

    fn log_in(&self, node: &Node) -> Result<(), Status> {
        let machine = node.machine();
        let interface = format!("amita-{}", id::sum(&node.driver.name, 4));
        {
            // Two volumes would make it at one time.
            let _hold = node.interface.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            node.tools.interface(machine, &interface, &self.initiator)?;
        }
        let there = self.own(node);
        let is_there = |portal: &SocketAddr| there.iter().any(|session| session.address == Some(*portal));
        let mut missing: Vec<(SocketAddr, u16)> = self
            .portals
            .iter()
            .copied()
            .filter(|(portal, _)| !is_there(portal))
            .collect();
        let mut silent = Vec::new();
        missing.retain(|(portal, _)| match machine.reach(*portal) {
            Ok(()) => true,
            Err(why) => {
                silent.push(format!("{portal}: {why}"));
                false
            }
        });
        let until = machine.now() + PATIENCE;
        loop {
            let mut refused = Vec::new();
            let mut reasons = silent.clone();
            for (portal, tag) in missing {
                let record = Record {
                    target: &self.iqn,
                    portal: &portal.to_string(),
                    tag,
                };
                if let Err(why) = node.tools.log_in(machine, &interface, &record, &self.secrets) {
                    // Without the programs there is nothing to try again.
                    if why.code() == tonic::Code::FailedPrecondition {
                        return Err(why);
                    }
                    reasons.push(format!("{portal}: {}", why.message()));
                    refused.push((portal, tag));
                }
            }
            if self.own(node).iter().any(|session| session.is_live) {
                for reason in &reasons {
                    log::warn!("a path of {} is not there: {reason}", self.iqn);
                }
                return Ok(());
            }
            if refused.is_empty() || machine.now() + AGAIN > until {
                return Err(Status::unavailable(format!(
                    "no gateway of {} lets this node log in: {}",
                    self.iqn,
                    reasons.join("; ")
                )));
            }
            missing = refused;
            machine.pause(AGAIN);
        }
    }

    /// Ends what this machine has of the volume by another name, which was an attachment that was lost, and a map that was left of one. What was queued there fails.
    fn end_others(&self, node: &Node, is_of: impl Fn(&str) -> bool) -> Result<(), Status> {
        let is_other = |name: &str| name != self.iqn && is_of(name);
        if let Some(other) = sessions(node).into_iter().find(|session| is_other(&session.target)) {
            log::warn!(
                "{} was lost to this node, and is ended: what it had queued there fails",
                other.target
            );
            leave(node, is_other)?;
        }
        let own: Vec<Path> = self.own(node).iter().flat_map(|session| paths(node, session)).collect();
        match map_of(node, &self.naa) {
            Some(map) if !map.paths.iter().any(|path| own.iter().any(|own| own.name == *path)) => {
                end_of_map(node, &map)
            }
            _ => Ok(()),
        }
    }

    /// Has sessions look for the LUN that have not.
    fn scan(&self, node: &Node) -> Result<(), Status> {
        for session in self.own(node) {
            if !session.is_live || !paths(node, &session).is_empty() {
                continue;
            }
            // Where the session is a device, its host is one above.
            let hosts = format!("{SESSIONS}/{}/device/../scsi_host", session.name);
            for host in list(node, &hosts) {
                let file = format!("{hosts}/{host}/scan");
                node.machine()
                    .write(&file, &format!("- - {}", self.lun))
                    .map_err(failed(&file))?;
            }
        }
        Ok(())
    }

    fn await_disk(&self, node: &Node) -> Result<Disk, Status> {
        let machine = node.machine();
        let (mut told, mut seen) = (None, Vec::new());
        for look in 0..LOOKS {
            if look > 0 {
                machine.pause(LOOK);
            }
            let live: Vec<Session> = self.own(node).into_iter().filter(|session| session.is_live).collect();
            let mut own: Vec<Path> = live.iter().flat_map(|session| paths(node, session)).collect();
            if let Some(other) = own.iter().find(|path| path.naa != self.naa) {
                return Err(Status::internal(format!(
                    "{} of {} is disk {:?}, and not {}",
                    other.name, self.iqn, other.naa, self.naa
                )));
            }
            own.sort();
            seen = own.into_iter().map(|path| path.name).collect();
            if seen.is_empty() || (seen.len() < live.len() && look < PATHS) {
                continue;
            }
            if told.is_none() {
                node.tools.know(machine, &self.naa)?;
            }
            let is_due = told.is_none_or(|told| look >= told + ADD_AGAIN);
            if look == RECONFIGURE {
                node.tools.reconfigure(machine)?;
            } else if is_due {
                told = Some(look);
                let there = map_of(node, &self.naa).map(|map| map.paths).unwrap_or_default();
                for path in seen.iter().filter(|path| !there.contains(path)) {
                    node.tools.add_path(machine, path);
                }
            }
            let Some(map) = map_of(node, &self.naa) else { continue };
            if seen.iter().all(|path| map.paths.contains(path))
                && size(machine, &map)? > 0
                && machine.kind(&map.device()).map_err(failed("the disk"))? == Some(Kind::Disk)
            {
                return Ok(Disk { paths: seen, ..map });
            }
        }
        let seconds = (LOOK * LOOKS).as_secs();
        Err(Status::unavailable(match seen.is_empty() {
            true => format!(
                "{} is logged in to, and LUN {} has not come within {seconds} s",
                self.iqn, self.lun
            ),
            false => format!(
                "multipathd has made no disk of {} within {seconds} s (`multipathd show paths`; is disk {} in a blacklist?)",
                seen.join(", "),
                wwid(&self.naa)
            ),
        }))
    }

    /// The disk, if it is there by this target.
    pub(super) fn disk(&self, node: &Node) -> Result<Option<Disk>, Status> {
        let mut own: Vec<Path> = self.own(node).iter().flat_map(|session| paths(node, session)).collect();
        own.sort();
        let map = map_of(node, &self.naa).filter(|map| own.iter().any(|path| map.paths.contains(&path.name)));
        Ok(map.map(|map| Disk {
            paths: own
                .into_iter()
                .map(|path| path.name)
                .filter(|path| map.paths.contains(path))
                .collect(),
            name: map.name,
        }))
    }
}

/// What a record has of secrets (CHAP): the initiator's, under its iSCSI name, and the target's, under the target's.
fn chap(initiator: &str, iqn: &str, secrets: &BTreeMap<String, String>) -> Result<Vec<(String, String)>, Status> {
    let secret = |key: &str| {
        let found = secrets.get(key);
        match found.is_some_and(|text| text.is_empty() || text.contains(['\n', '\0'])) {
            true => Err(Status::invalid_argument(format!(
                "the secret {key} has what no secret has"
            ))),
            false => Ok(found),
        }
    };
    let mut all = Vec::new();
    let mut set = |name: &str, value: &str| all.push((format!("node.session.auth.{name}"), value.to_owned()));
    let own = secret(SECRET)?;
    if let Some(own) = own {
        set("authmethod", "CHAP");
        set("chap_algs", "SHA3-256,SHA256");
        set("username", initiator);
        set("password", own);
    }
    match (own, secret(TARGET_SECRET)?) {
        (None, Some(_)) => {
            return Err(Status::invalid_argument(format!(
                "there is a {TARGET_SECRET}, and no {SECRET}: who proves nothing is proven nothing to"
            )));
        }
        (_, Some(of_target)) => {
            set("username_in", iqn);
            set("password_in", of_target);
        }
        _ => {}
    }
    Ok(all)
}

/// The names of the disks that sessions have.
fn naas(node: &Node, own: &[Session]) -> BTreeSet<String> {
    let all = own.iter().flat_map(|session| paths(node, session));
    all.map(|path| path.naa).collect()
}

/// The maps of these targets' disks.
pub(super) fn maps(node: &Node, is_meant: impl Fn(&str) -> bool) -> Vec<Disk> {
    let all = sessions(node).into_iter();
    let own: Vec<Session> = all.filter(|session| is_meant(&session.target)).collect();
    naas(node, &own).iter().filter_map(|naa| map_of(node, naa)).collect()
}

/// Ends the sessions with these targets, of whose disks nobody uses anything here, and forgets them. A target of the driver's has one LUN, so that a session goes with it.
pub(super) fn leave(node: &Node, is_meant: impl Fn(&str) -> bool) -> Result<(), Status> {
    let machine = node.machine();
    let present = machine.kind(SESSIONS).map_err(failed(SESSIONS))?;
    // Nobody has spoken iSCSI since this machine was started.
    if present.is_none() {
        return Ok(());
    }
    let own: Vec<Session> = sessions(node)
        .into_iter()
        .filter(|session| is_meant(&session.target))
        .collect();
    let live = own.iter().filter(|session| session.is_live);
    let live: Vec<String> = live
        .flat_map(|session| paths(node, session))
        .map(|path| path.name)
        .collect();
    let disks = naas(node, &own);
    let maps: Vec<Disk> = disks.iter().filter_map(|naa| map_of(node, naa)).collect();
    maps.iter().try_for_each(|map| node.not_used(map))?;
    for map in &maps {
        if !map.paths.iter().any(|path| live.contains(path)) {
            node.tools.end_of_waiting(machine, &map_name(node, map));
        }
        let claim = node.claimed(map)?;
        if let Err(why) = claim.sync() {
            log::error!("not all that was written came to {}: {why}", map.device());
        }
        drop(claim);
        end_of_map(node, map)?;
    }
    for naa in &disks {
        node.tools.forget(machine, naa);
    }
    let mut targets: Vec<String> = own.into_iter().map(|session| session.target).collect();
    match node.tools.targets(machine) {
        Ok(known) => targets.extend(known.into_iter().filter(|name| is_meant(name))),
        // Where the driver cannot speak it, it has left nothing; and a record without a session does nothing by itself.
        Err(why) if targets.is_empty() => log::debug!("there may be records of targets: {}", why.message()),
        Err(why) => return Err(why),
    }
    targets.sort();
    targets.dedup();
    for target in targets {
        node.tools.log_out(machine, &target)?;
    }
    match sessions(node).into_iter().find(|session| is_meant(&session.target)) {
        None => Ok(()),
        Some(left) => Err(Status::unavailable(format!(
            "{} has a session still ({})",
            left.target, left.name
        ))),
    }
}

/// Takes a map away, if nobody uses it; what waits for a path there fails.
fn end_of_map(node: &Node, map: &Disk) -> Result<(), Status> {
    node.not_used(map)?;
    let name = map_name(node, map);
    node.tools.end_of_waiting(node.machine(), &name);
    node.tools.flush(node.machine(), &name)
}

/// The map that has this number, if it is one of multipath.
pub(super) fn map_at(node: &Node, number: &str) -> Option<Disk> {
    let folder = format!("/sys/dev/block/{number}");
    let event = read(node, &format!("{folder}/uevent"));
    let name = event.lines().find_map(|line| line.strip_prefix("DEVNAME="))?.to_owned();
    let is_map = read(node, &format!("/sys/block/{name}/dm/uuid")).starts_with("mpath-");
    is_map.then(|| Disk {
        paths: list(node, &format!("/sys/block/{name}/slaves")),
        name,
    })
}

/// What waits for a path in the map of this number fails, where no session is live that it has a path by: else whoever closes what lies on it would wait as well.
pub(super) fn end_of_waiting_at(node: &Node, number: &str) {
    let Some(map) = map_at(node, number) else { return };
    let all = sessions(node);
    let live = all.iter().filter(|session| session.is_live);
    let mut live = live.flat_map(|session| paths(node, session));
    if !live.any(|path| map.paths.contains(&path.name)) {
        node.tools.end_of_waiting(node.machine(), &map_name(node, &map));
    }
}

/// Takes away what is left of a map whose sessions are all gone: nothing else tells whose it was.
pub(super) fn end_of_bare_map(node: &Node, number: &str, map: &Disk) -> Result<(), Status> {
    match map_at(node, number) {
        Some(left) if left.name == map.name && left.paths.is_empty() => end_of_map(node, &left),
        _ => Ok(()),
    }
}

/// Has the kernel look how large the paths of a map are, and the map be as large. It may be on its way: it is asked again.
pub(super) fn look_again(node: &Node, disk: &Disk) -> Result<(), Status> {
    let machine = node.machine();
    for path in list(node, &format!("/sys/block/{}/slaves", disk.name)) {
        // A path that is away says nothing.
        let _ = machine.write(&format!("/sys/block/{path}/device/rescan"), "1");
    }
    node.tools.resize(machine, &map_name(node, disk))
}

/// Has this machine no NVMe/TCP, and iSCSI?
pub(super) fn alone(node: &Node) -> bool {
    let Err(why) = nvme::ready(node.machine()) else {
        return false;
    };
    let can = node.tools.can(node.machine());
    if can {
        log::info!("volumes come by iSCSI alone: {}", why.message());
    }
    can
}
