//! Kernels, processors, memory and limits.

use super::{named, told, voices};
use crate::code::{Check, Code};
use crate::gather::Facts;
use crate::inventory::{Host, Known};
use crate::sheet::{Place, Severity, Sheet};

/// The oldest kernel that this is tested with.
const OLDEST_KERNEL: (u32, u32) = (5, 15);
/// So much of a process may lie in swap without harm: what it used at its start.
const SWAPPED_BYTES: u64 = 64 << 20;
/// Under so many open files hosts are refused in small clusters already, and under so many in large ones.
const FILES: (u64, u64) = (4096, 65_536);

pub(super) fn check(facts: &Facts, sheet: &mut Sheet) {
    let told = told(facts, &[Check::Kernel, Check::Machine], sheet);
    let hosts: Vec<(&str, &Host)> = told.iter().map(|(node, inventory)| (*node, &inventory.host)).collect();
    for (node, host) in &hosts {
        kernel(node, host, sheet);
        memory(node, host, sheet);
        limits(node, host, sheet);
    }
    let kernels = voices(
        hosts
            .iter()
            .filter_map(|(node, host)| Some((*node, host.kernel.get().ok()?.as_str()))),
    );
    differ(Code::KernelDiffers, "kernels", &kernels, sheet);
    let rings = voices(
        hosts
            .iter()
            .filter_map(|(node, host)| Some((*node, host.uring.get().ok()?.join(" ")))),
    );
    if let Some(((most, _), others)) = rings.split_first() {
        for (can, who) in others {
            let reason = format!(
                "io_uring of {} lacks {}, and has {} more than most nodes'",
                named(who.iter().copied()),
                beyond(most, can),
                beyond(can, most)
            );
            sheet.find(Code::UringDiffers, Place::cluster(), reason);
        }
    }
}

/// The words of one text that another has not.
fn beyond(one: &str, other: &str) -> String {
    let more: Vec<&str> = one
        .split(' ')
        .filter(|word| !other.split(' ').any(|own| own == *word))
        .collect();
    match more.is_empty() {
        true => "nothing".to_owned(),
        false => more.join(", "),
    }
}

fn differ(code: Code, what: &str, voices: &[(&str, Vec<&str>)], sheet: &mut Sheet) {
    if voices.len() < 2 {
        return;
    }
    let each = voices
        .iter()
        .map(|(value, who)| format!("{value} at {}", named(who.iter().copied())));
    sheet.find(
        code,
        Place::cluster(),
        format!("{what} differ: {}", each.collect::<Vec<_>>().join("; ")),
    );
}

/// "6.1.0-38-amd64" is (6, 1).
fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn kernel(node: &str, host: &Host, sheet: &mut Sheet) {
    if let Some(release) = sheet.look_at(Check::Kernel, Place::node(node), &host.kernel) {
        match version(release) {
            Some(version) if version < OLDEST_KERNEL => {
                let (major, minor) = OLDEST_KERNEL;
                let reason = format!("it runs {release}; {major}.{minor} is the oldest that is tested with");
                sheet.find(Code::KernelOld, Place::node(node), reason);
            }
            Some(_) => {}
            None => sheet.blind(
                Check::Kernel,
                Place::node(node),
                format!("{release:?} has no version in it"),
            ),
        }
    }
    sheet.look_at(Check::Kernel, Place::node(node), &host.uring);
    if let Some(level @ 1..) = sheet.look_at(Check::Kernel, Place::node(node), &host.uring_disabled) {
        let who = if *level == 1 { "a group alone" } else { "nobody" };
        let reason = format!("kernel.io_uring_disabled is {level}: {who} may make new rings");
        sheet.find(Code::UringRestricted, Place::node(node), reason);
    }
}

fn memory(node: &str, host: &Host, sheet: &mut Sheet) {
    let place = || Place::node(node);
    if let Some(governors) = sheet.look_at(Check::Machine, place(), &host.governors) {
        let saving: Vec<&str> = governors
            .iter()
            .map(String::as_str)
            .filter(|own| *own != "performance")
            .collect();
        if !saving.is_empty() {
            let reason = format!(
                "governors of its processors: {}; `performance` does not save",
                saving.join(", ")
            );
            sheet.find(Code::GovernorSaves, place(), reason);
        }
    }
    let pages = sheet.look_at(Check::Machine, place(), &host.huge_pages);
    if pages.is_some_and(|pages| pages == "always") {
        sheet.find(
            Code::HugePagesAlways,
            place(),
            "transparent huge pages are on for all programs (`always`)",
        );
    }
    if let Some(swap) = sheet.look_at(Check::Machine, place(), &host.swap) {
        let mib = |bytes: u64| bytes >> 20;
        if swap.process_bytes > SWAPPED_BYTES {
            let reason = format!("{} MiB of the node's process lie in swap", mib(swap.process_bytes));
            sheet.find(Code::ProcessSwapped, place(), reason);
        } else if swap.total_bytes > 0 {
            let of = match host.memory_bytes {
                Known::Is(bytes) => format!(", beside {} MiB of memory", mib(bytes)),
                Known::NotKnown(_) => String::new(),
            };
            let reason = format!(
                "it has {} MiB of swap{of}; the node uses {} MiB of it",
                mib(swap.total_bytes),
                mib(swap.process_bytes)
            );
            sheet.find(Code::SwapOn, place(), reason);
        }
    }
}

fn limits(node: &str, host: &Host, sheet: &mut Sheet) {
    let Some(limits) = sheet.look_at(Check::Machine, Place::node(node), &host.limits) else {
        return;
    };
    let Some(files) = limits.open_files else { return };
    let severity = match files {
        files if files < FILES.0 => Severity::Warning,
        files if files < FILES.1 => Severity::Notice,
        _ => return,
    };
    let reason = format!("it may open {files} files; each host, and each link to a core of another node, is one");
    sheet.find_as(Code::OpenFilesFew, severity, Place::node(node), reason);
}
