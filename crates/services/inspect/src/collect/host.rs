//! The machine: its kernel, its processors, its memory, and what the node's process may take.

use super::Root;
use crate::inventory::{Host, Limits, Swap, short};
use std::collections::BTreeSet;

/// Reads them. `uring`: what the kernel's `io_uring` can do, see [`uring`].
#[must_use]
pub fn host(root: &Root, uring: Result<Vec<String>, String>) -> Host {
    Host {
        boot_id: root.read("proc/sys/kernel/random/boot_id").map(|id| short(&id)).into(),
        kernel: root
            .read("proc/sys/kernel/osrelease")
            .map(|release| short(&release))
            .into(),
        uring: uring.into(),
        uring_disabled: match root.has("proc/sys/kernel/io_uring_disabled") {
            true => root.number("proc/sys/kernel/io_uring_disabled").into(),
            false => root.read("proc/sys/kernel/osrelease").map(|_| 0).into(),
        },
        governors: governors(root).into(),
        huge_pages: huge_pages(root).into(),
        memory_bytes: kib(root, "proc/meminfo", "MemTotal").into(),
        swap: swap(root).into(),
        limits: limits(root).into(),
    }
}

/// What the kernel's `io_uring` can do, by the names of its feature bits.
///
/// # Errors
/// No ring can be made.
pub fn uring() -> Result<Vec<String>, String> {
    let ring = io_uring::IoUring::new(2).map_err(|why| format!("no ring can be made: {why}"))?;
    let can = ring.params();
    let features = [
        ("single_mmap", can.is_feature_single_mmap()),
        ("nodrop", can.is_feature_nodrop()),
        ("submit_stable", can.is_feature_submit_stable()),
        ("fast_poll", can.is_feature_fast_poll()),
        ("sqpoll_nonfixed", can.is_feature_sqpoll_nonfixed()),
        ("ext_arg", can.is_feature_ext_arg()),
        ("native_workers", can.is_feature_native_workers()),
        ("resource_tagging", can.is_feature_resource_tagging()),
        ("skip_cqe_on_success", can.is_feature_skip_cqe_on_success()),
        ("linked_file", can.is_feature_linked_file()),
    ];
    let there = features.iter().filter(|(_, there)| *there);
    Ok(there.map(|(name, _)| (*name).to_owned()).collect())
}

fn governors(root: &Root) -> Result<Vec<String>, String> {
    let folder = "sys/devices/system/cpu";
    let mut found = BTreeSet::new();
    for name in root.names(folder)? {
        let digits = name
            .strip_prefix("cpu")
            .filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        if digits.is_none() || !root.has(&format!("{folder}/{name}/cpufreq")) {
            continue;
        }
        found.insert(short(&root.read(&format!("{folder}/{name}/cpufreq/scaling_governor"))?));
    }
    match found.is_empty() {
        true => Err("the kernel does not set the processors' frequency (a guest, or the firmware does)".to_owned()),
        false => Ok(found.into_iter().collect()),
    }
}

/// The chosen one stands in brackets.
fn huge_pages(root: &Root) -> Result<String, String> {
    let path = "sys/kernel/mm/transparent_hugepage/enabled";
    let text = root.read(path)?;
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen
        .map(|(word, _)| short(word))
        .ok_or_else(|| format!("/{path} says {text:?}"))
}

/// A line "Name: 123 kB", in bytes.
fn kib(root: &Root, path: &str, name: &str) -> Result<u64, String> {
    let text = root.read(path)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    let kib = number.ok_or_else(|| format!("/{path} does not say {name}"))?;
    Ok(kib.saturating_mul(1024))
}

fn swap(root: &Root) -> Result<Swap, String> {
    Ok(Swap {
        total_bytes: kib(root, "proc/meminfo", "SwapTotal")?,
        process_bytes: kib(root, "proc/self/status", "VmSwap")?,
    })
}

/// Of a line "Max open files  1024  4096  files" the first number: the limit that holds.
fn limits(root: &Root) -> Result<Limits, String> {
    let text = root.read("proc/self/limits")?;
    let limit = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let word = line.and_then(|rest| rest.split_whitespace().next());
        match word {
            Some("unlimited") => Ok(None),
            Some(number) => number.parse().map(Some).map_err(|_| format!("{name} is {number:?}")),
            None => Err(format!("/proc/self/limits does not say {name}")),
        }
    };
    Ok(Limits {
        open_files: limit("Max open files")?,
        locked_bytes: limit("Max locked memory")?,
    })
}
