//! Paths that a volume lacks: a gateway that was away when it was staged, or is new. The kernel keeps those that it has, and makes none; so gateways are asked now and
//! then, and what is missing is connected as those that are there.

use super::machine::Machine;
use super::nvme::{self, Path, SETTINGS, failed};
use super::{Node, discovery};
use crate::id;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;
use tonic::Status;

/// How often.
const EVERY: Duration = Duration::from_secs(30);
/// And how long after a volume was staged by some of its paths only.
const SOON: Duration = Duration::from_secs(3);

/// Gateways that are asked each time, at most.
const MOST_ASKED: usize = 64;

impl Node {
    /// Connects paths that are missing, for as long as it runs.
    pub async fn keep_paths(self) {
        let mut said = String::new();
        loop {
            let ended = self.clone().wait(Node::end_of_leftovers).await;
            if let Err(why) = ended {
                log::debug!("what was left from before is not looked at: {}", why.message());
            }
            // What a volume lacks that was just staged its gateways have heard of soon.
            if tokio::time::timeout(EVERY, self.paths_are_missing.notified())
                .await
                .is_ok()
            {
                tokio::time::sleep(SOON).await;
            }
            let made = self.clone().wait(Node::connect_missing).await;
            let why = made.err().map(|why| why.message().to_owned()).unwrap_or_default();
            if !why.is_empty() && why != said {
                log::warn!("paths that are missing are not connected: {why}");
            }
            said = why;
        }
    }

    /// The number of a volume of this driver by its subsystem's qualified name.
    pub(super) fn number(&self, nqn: &str) -> Option<u64> {
        let before = id::subsystem_before(&self.driver.name);
        let (_, name) = nqn.rsplit_once(':')?;
        name.strip_prefix(&before)?.parse().ok()
    }

    /// Connects what gateways have of the volumes that are here, and this machine has not; how many there were. Ends paths to gateways that left.
    pub(super) fn connect_missing(&self) -> Result<usize, Status> {
        let machine = self.machine();
        self.end_of_discovery()?;
        let all = nvme::paths(machine)?;
        let own: Vec<&Path> = all.iter().filter(|path| self.number(&path.nqn).is_some()).collect();
        let known = self.ask_gateways(&own)?;
        let mut made = 0;
        for entry in &known {
            let is_there = |path: &&&Path| path.nqn == entry.nqn && path.address == Some(entry.address);
            if own.iter().any(|path| is_there(&path)) || self.gateways.is_slow(machine, entry.address) {
                continue;
            }
            match self.connect_like(&entry.nqn, entry.address) {
                Ok(true) => made += 1,
                Ok(false) => {}
                Err(why) => log::debug!("a path of {} is missing still: {}", entry.nqn, why.message()),
            }
        }
        self.end_of_left(&own, &known)?;
        Ok(made)
    }

    /// What gateways know of the subsystems of these paths. A gateway tells a host of what it has proven itself for, and one that does not answer tells nothing: so
    /// each subsystem is asked for by a path of its own, with the proofs of that, until one gateway has named it; most are named with the first one.
    fn ask_gateways(&self, own: &[&Path]) -> Result<Vec<discovery::Entry>, Status> {
        let machine = self.machine();
        let names: BTreeSet<&str> = own.iter().map(|path| path.nqn.as_str()).collect();
        let mut known: Vec<discovery::Entry> = Vec::new();
        let mut asked = BTreeSet::new();
        let mut trouble = None;
        for path in own.iter().filter(|path| path.state == "live") {
            let Some(address) = path.address else { continue };
            if known.iter().any(|entry| entry.nqn == path.nqn) {
                continue;
            }
            // What a host has to prove by TLS, a gateway does not tell it without.
            let proofs = secrets(machine, path) + tls(machine, path);
            if asked.len() == MOST_ASKED || !asked.insert((address, proofs.clone())) {
                continue;
            }
            match self.ask_gateway(address, &proofs) {
                Ok(said) => {
                    let said = said.into_iter().filter(|entry| names.contains(entry.nqn.as_str()));
                    let said: Vec<discovery::Entry> = said.filter(|entry| !known.contains(entry)).collect();
                    known.extend(said);
                }
                Err(why) => trouble = Some(why),
            }
        }
        match trouble {
            Some(why) if known.is_empty() => Err(why),
            _ => Ok(known),
        }
    }

    /// The kernel tries a path for ever. One to a gateway that is not named any more, which may be one that is started anew, is ended when it has been away for long
    /// and the volume has others.
    fn end_of_left(&self, own: &[&Path], known: &[discovery::Entry]) -> Result<(), Status> {
        let machine = self.machine();
        let is_named = |nqn: &str, address: Option<SocketAddr>| {
            let mut all = known.iter().filter(|entry| entry.nqn == nqn);
            all.any(|entry| address.is_none_or(|address| address == entry.address))
        };
        let left = own.iter().filter_map(|path| {
            let address = path.address?;
            let is_left = path.state != "live" && is_named(&path.nqn, None) && !is_named(&path.nqn, Some(address));
            is_left.then(|| (path.nqn.clone(), address))
        });
        for (nqn, address) in self.gateways.left_for_long(machine, left.collect()) {
            let Some(_hold) = self.number(&nqn).and_then(|number| self.hold(number).ok()) else {
                continue;
            };
            // Looked at anew: it may have come again since.
            let now = nvme::paths(machine)?;
            let has_others = now.iter().any(|path| path.nqn == nqn && path.state == "live");
            let is_it = |path: &&Path| path.nqn == nqn && path.address == Some(address) && path.state != "live";
            if let Some(path) = now.iter().find(is_it).filter(|_| has_others) {
                log::info!("{nqn} has no gateway at {address} any more: its path is ended");
                nvme::end(machine, path)?;
            }
        }
        Ok(())
    }

    /// A path to a discovery service that was left behind, by a driver that has ended in the middle.
    fn end_of_discovery(&self) -> Result<(), Status> {
        let machine = self.machine();
        let own = id::host_nqn(self.host);
        for path in nvme::paths(machine)? {
            // The kernel tells the name that the service has for itself, which is one of its cluster's own, and not the one that it was asked for by. Those that do not
            // tell the kind (before 5.17) tell no more.
            let is_one = path.nqn == discovery::NQN
                || self.number(&path.nqn).is_none()
                    && attribute(machine, &path, "cntrltype").as_deref() == Some("discovery");
            if is_one && attribute(machine, &path, "hostnqn").as_deref() == Some(&own) {
                nvme::end(machine, &path)?;
            }
        }
        Ok(())
    }

    /// What a gateway knows for this host.
    fn ask_gateway(&self, address: SocketAddr, proofs: &str) -> Result<Vec<discovery::Entry>, Status> {
        let machine = self.machine();
        let line = format!(
            "nqn={},transport=tcp,traddr={},trsvcid={},hostnqn={},hostid={}{proofs}",
            discovery::NQN,
            address.ip(),
            address.port(),
            id::host_nqn(self.host),
            self.host
        );
        let said = self.gateways.connect(machine, address, &line, false);
        let said = said.map_err(|missing| {
            Status::unavailable(format!("{address} has no discovery for this host: {}", missing.why()))
        })?;
        let number = said
            .split([',', '\n'])
            .find_map(|field| field.trim().strip_prefix("instance="));
        let number = number.ok_or_else(|| Status::internal(format!("the kernel says {said:?} of a path")))?;
        let log = machine.discovery_log(&format!("/dev/nvme{number}"));
        nvme::end_named(machine, &format!("nvme{number}"))?;
        Ok(discovery::entries(&log.map_err(failed("the discovery log"))?))
    }

    /// Connects a path as one that is there; not, where the volume is at work, or gone.
    fn connect_like(&self, nqn: &str, address: SocketAddr) -> Result<bool, Status> {
        let machine = self.machine();
        let Some(number) = self.number(nqn) else {
            return Ok(false);
        };
        let Ok(_hold) = self.hold(number) else {
            return Ok(false);
        };
        // Looked at anew: it may have been unstaged since.
        let all = nvme::paths(machine)?;
        let Some(like) = all.iter().find(|path| path.nqn == nqn && path.state == "live") else {
            return Ok(false);
        };
        let line = format!(
            "nqn={nqn},transport=tcp,traddr={},trsvcid={},hostnqn={},hostid={}{}{}",
            address.ip(),
            address.port(),
            id::host_nqn(self.host),
            self.host,
            settings(machine, like),
            secrets(machine, like)
        );
        let made = self.gateways.connect(machine, address, &line, false);
        made.map_err(|missing| Status::unavailable(format!("{address}: {}", missing.why())))?;
        log::info!("{nqn} has a path more: {address}");
        Ok(true)
    }
}

/// What the kernel tells of a path; none: nothing.
fn attribute(machine: &dyn Machine, path: &Path, name: &str) -> Option<String> {
    let text = machine.read(&nvme::file(path, name)).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty() && text != "none" && text != "(null)")
}

/// The settings of a path, as a line has them; what is not told is as it is where nothing is said.
fn settings(machine: &dyn Machine, path: &Path) -> String {
    let mut all = String::new();
    for (_, option, usual) in SETTINGS {
        let told = |name: &str| attribute(machine, path, name);
        let value = match option {
            // With the queue of administration.
            "nr_io_queues" => told("queue_count")
                .and_then(|count| count.parse::<u32>().ok())
                .map(|count| count.saturating_sub(1).max(1).to_string()),
            "keep_alive_tmo" => told("kato"),
            option => told(option),
        };
        match value.as_deref() {
            Some("off") if option == "ctrl_loss_tmo" => all += &format!(",{option}=-1"),
            Some("off") => {}
            Some(value) if value.parse::<i64>().is_ok() => all += &format!(",{option}={value}"),
            _ => all += &format!(",{option}={usual}"),
        }
    }
    all + tls(machine, path)
}

/// Whether a path is protected: its keys are in the kernel's keyring.
fn tls(machine: &dyn Machine, path: &Path) -> &'static str {
    attribute(machine, path, "tls_key").map_or("", |_| ",tls")
}

/// What a path has proven itself by.
fn secrets(machine: &dyn Machine, path: &Path) -> String {
    let one = |name: &str| {
        attribute(machine, path, name)
            .filter(|secret| nvme::is_word(secret))
            .map_or_else(String::new, |secret| format!(",{name}={secret}"))
    };
    one("dhchap_secret") + &one("dhchap_ctrl_secret")
}
