//! Network interfaces, each by itself and against those of the other nodes.

use super::{named, told, voices};
use crate::code::{Check, Code};
use crate::gather::Facts;
use crate::inventory::{Inventory, Known, Nic};
use crate::sheet::{Place, Sheet};

/// Of so many packets one may fail without a word.
const PACKETS_OF_AN_ERROR: u64 = 100_000;
/// Fewer errors than these are of the time when the cable was put in.
const MIN_ERRORS: u64 = 20;

pub(super) fn check(facts: &Facts, sheet: &mut Sheet) {
    let told = told(facts, &[Check::Nics, Check::Mtu], sheet);
    let mut serving: Vec<(&str, &Nic)> = Vec::new();
    for (node, inventory) in &told {
        match inventory.nics.get() {
            Err(why) => {
                sheet.blind(Check::Nics, Place::node(node), why);
                sheet.blind(Check::Mtu, Place::node(node), why);
            }
            Ok(nics) => {
                let own: Vec<&Nic> = nics.iter().filter(|nic| !nic.serves.is_empty()).collect();
                if own.is_empty() {
                    sheet.blind(
                        Check::Nics,
                        Place::node(node),
                        "no interface has an address that the node serves at",
                    );
                }
                serving.extend(own.iter().map(|nic| (*node, *nic)));
                links(node, &own, sheet);
            }
        }
        note_left_out(node, inventory, sheet);
    }
    for (node, nic) in &serving {
        by_itself(node, nic, sheet);
    }
    let mut judged: Vec<Vec<(&str, &str)>> = Vec::new();
    for what in ["fabric", "fabric2", "nvme", "iscsi", "nbd"] {
        let same: Vec<(&str, &Nic)> = serving
            .iter()
            .copied()
            .filter(|(_, nic)| nic.serves.iter().any(|own| own == what))
            .collect();
        // The same interfaces mostly serve everything: what is wrong with them is said once.
        let names = same.iter().map(|(node, nic)| (*node, nic.name.as_str())).collect();
        if !judged.contains(&names) {
            speeds(what, &same, sheet);
            lengths(what, &same, sheet);
            judged.push(names);
        }
    }
}

fn note_left_out(node: &str, inventory: &Inventory, sheet: &mut Sheet) {
    for what in &inventory.left_out {
        let check = if what.ends_with("disks") {
            Check::Disks
        } else {
            Check::Latency
        };
        sheet.blind(check, Place::node(node), format!("did not fit into its record: {what}"));
    }
}

fn by_itself(node: &str, nic: &Nic, sheet: &mut Sheet) {
    let place = || Place::part("nic", node, &nic.name);
    sheet.look(Check::Nics);
    if !nic.up {
        sheet.find(
            Code::NicDown,
            place(),
            format!("{} is down, and {} is served by it", nic.name, nic.serves.join(", ")),
        );
    }
    for joined in nic.bond.iter().filter(|joined| !joined.up) {
        let reason = format!(
            "{} of bond {} is down; {} ports are joined",
            joined.name,
            nic.name,
            nic.bond.len()
        );
        sheet.find(Code::BondDegraded, place(), reason);
    }
    if nic.full_duplex == Known::Is(false) {
        let speed = nic
            .speed()
            .map_or_else(String::new, |speed| format!(" at {speed} Mbit/s"));
        sheet.find(
            Code::NicHalfDuplex,
            place(),
            format!("{} runs at half duplex{speed}", nic.name),
        );
    }
    if nic.errors >= MIN_ERRORS && nic.errors.saturating_mul(PACKETS_OF_AN_ERROR) > nic.packets {
        let reason = format!(
            "{} of {} packets failed or were damaged since it is up; its link changed {} times",
            nic.errors, nic.packets, nic.carrier_changes
        );
        sheet.find(Code::NicErrors, place(), reason);
    }
    if nic.is_virtual && nic.bond.is_empty() {
        return;
    }
    for (what, why) in [
        ("speed", nic.speed_mbit.get().err()),
        ("duplex", nic.full_duplex.get().err()),
    ] {
        if let Some(why) = why {
            sheet.blind(Check::Nics, place(), format!("{what}: {why}"));
        }
    }
}

/// A real interface without a second port.
fn links(node: &str, own: &[&Nic], sheet: &mut Sheet) {
    let real: Vec<&&Nic> = own
        .iter()
        .filter(|nic| !nic.is_virtual || !nic.bond.is_empty())
        .collect();
    match real.as_slice() {
        [] => sheet.blind(
            Check::Paths,
            Place::node(node),
            "it serves by no interface with a device of its own (loopback, a bridge, a container's)",
        ),
        [only] => {
            sheet.look(Check::Paths);
            if only.bond.len() < 2 {
                let reason = format!(
                    "{} are served by {} alone, which joins no ports",
                    only.serves.join(", "),
                    only.name
                );
                sheet.find(Code::LinkSingle, Place::node(node), reason);
            }
        }
        _ => sheet.look(Check::Paths),
    }
}

/// Against the speed that most have; where they are as many, the greater one.
fn speeds(what: &str, same: &[(&str, &Nic)], sheet: &mut Sheet) {
    let voices = voices(same.iter().filter_map(|(node, nic)| Some((*node, nic.speed()?))));
    let Some((usual, who)) = voices.first() else { return };
    for (node, nic) in same {
        if let Some(speed) = nic.speed().filter(|speed| speed < usual) {
            let reason = format!(
                "{} runs at {speed} Mbit/s, and {what} of {} is served at {usual} Mbit/s",
                nic.name,
                named(who.iter().copied())
            );
            sheet.find(Code::NicSlow, Place::part("nic", node, &nic.name), reason);
        }
    }
}

/// Loopback's length is nobody else's matter.
fn lengths(what: &str, same: &[(&str, &Nic)], sheet: &mut Sheet) {
    let mut said = Vec::new();
    for (node, nic) in same.iter().filter(|(_, nic)| nic.name != "lo") {
        if let Some(mtu) = sheet.look_at(Check::Mtu, Place::part("nic", node, &nic.name), &nic.mtu) {
            said.push((*node, *mtu));
        }
    }
    let voices = voices(said);
    if voices.len() < 2 {
        return;
    }
    let each = voices
        .iter()
        .map(|(mtu, who)| format!("{mtu} at {}", named(who.iter().copied())));
    let reason = format!(
        "{what} is served with different MTUs: {}",
        each.collect::<Vec<_>>().join("; ")
    );
    sheet.find(Code::MtuDiffers, Place::cluster(), reason);
}
