//! The network interfaces.

use super::Root;
use crate::inventory::{Joined, Known, MAX_NICS, Nic, short};
use std::collections::BTreeMap;
use std::net::IpAddr;

const FOLDER: &str = "sys/class/net";

/// What a node serves, and the address that it does it at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serving {
    /// `fabric`, `fabric2`, `nbd`, `nvme` or `iscsi`.
    pub what: &'static str,
    /// Where it listens; every address of the machine, where it is none.
    pub address: IpAddr,
}

/// Reads those that have a device, join others, or have an address that is served at; those that are served by come first.
///
/// # Errors
/// The kernel does not list them.
pub fn nics(root: &Root, addresses: &BTreeMap<String, Vec<IpAddr>>, serving: &[Serving]) -> Result<Vec<Nic>, String> {
    let mut all = Vec::new();
    for name in root.names(FOLDER)? {
        let folder = format!("{FOLDER}/{name}");
        // A file that is there beside the interfaces, once bonding was loaded.
        if !root.has(&format!("{folder}/statistics")) {
            continue;
        }
        let own = addresses.get(&name).map_or(&[][..], Vec::as_slice);
        let serves = served_at(own, serving);
        let is_virtual = !root.has(&format!("{folder}/device"));
        let bond = bond(root, &folder);
        if is_virtual && serves.is_empty() && bond.is_empty() {
            continue;
        }
        all.push(read(root, &name, serves, is_virtual, bond));
    }
    all.sort_by_key(|nic| (nic.serves.is_empty(), nic.name.clone()));
    all.truncate(MAX_NICS);
    Ok(all)
}

/// An address that is none listens at every one of the machine but loopback's, which nobody else reaches; every loopback address is that of
/// the one interface, which has but one of them.
fn served_at(own: &[IpAddr], serving: &[Serving]) -> Vec<String> {
    let here = |found: &&Serving| match found.address {
        address if address.is_unspecified() => own.iter().any(|known| !known.is_loopback()),
        address if address.is_loopback() => own.iter().any(IpAddr::is_loopback),
        address => own.contains(&address),
    };
    let mut serves: Vec<String> = serving.iter().filter(here).map(|found| found.what.to_owned()).collect();
    // Several portals may be at one interface.
    serves.dedup();
    serves
}

fn read(root: &Root, name: &str, serves: Vec<String>, is_virtual: bool, bond: Vec<Joined>) -> Nic {
    let folder = format!("{FOLDER}/{name}");
    let count = |what: &str| root.number::<u64>(&format!("{folder}/statistics/{what}")).unwrap_or(0);
    Nic {
        name: short(name),
        serves,
        up: is_up(root, &folder),
        is_virtual,
        speed_mbit: speed(root, &folder).into(),
        full_duplex: duplex(root, &folder).into(),
        mtu: root.number(&format!("{folder}/mtu")).into(),
        packets: count("rx_packets").saturating_add(count("tx_packets")),
        errors: count("rx_errors").saturating_add(count("tx_errors")),
        carrier_changes: root.number(&format!("{folder}/carrier_changes")).unwrap_or(0),
        bond,
    }
}

fn is_up(root: &Root, folder: &str) -> bool {
    // Loopback and some drivers are "unknown".
    root.read(&format!("{folder}/operstate"))
        .is_ok_and(|state| state != "down" && state != "lowerlayerdown")
}

/// The kernel says -1 where there is no link, and refuses where the driver cannot tell.
fn speed(root: &Root, folder: &str) -> Result<u64, String> {
    let speed: i64 = root.number(&format!("{folder}/speed"))?;
    u64::try_from(speed)
        .ok()
        .filter(|speed| *speed > 0)
        .ok_or_else(|| "it has no speed".to_owned())
}

fn duplex(root: &Root, folder: &str) -> Result<bool, String> {
    match root.read(&format!("{folder}/duplex"))?.as_str() {
        "full" => Ok(true),
        "half" => Ok(false),
        other => Err(format!("duplex is {other:?}")),
    }
}

fn bond(root: &Root, folder: &str) -> Vec<Joined> {
    let joined = root.read(&format!("{folder}/bonding/slaves")).unwrap_or_default();
    let names = joined.split_whitespace().take(MAX_NICS);
    names
        .map(|name| Joined {
            name: short(name),
            up: is_up(root, &format!("{FOLDER}/{name}")),
        })
        .collect()
}

impl Nic {
    /// Megabits a second, where that is known.
    #[must_use]
    pub fn speed(&self) -> Option<u64> {
        match self.speed_mbit {
            Known::Is(speed) => Some(speed),
            Known::NotKnown(_) => None,
        }
    }
}
