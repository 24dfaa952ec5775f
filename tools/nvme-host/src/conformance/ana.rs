//! Asymmetric namespace access.

use super::{Case, Verdict, check};
use crate::structures::AnaLog;
use crate::wire::{log, status};
use crate::{Controller, commands};

const RULE: &str = "NVMe Base 2.1, 8.1.1 ANA reporting; 5.1.12.1.13 ANA log";

/// The log, where the controller has one.
fn read(controller: &mut Controller) -> Result<AnaLog, Verdict> {
    let identity = controller.identify()?;
    if identity.byte(76) >> 3 & 1 == 0 {
        return Err(Verdict::Skipped("CMIC has no ANA reporting".into()));
    }
    // The size that hosts compute: a header, all groups, all namespaces (Base 2.1, 5.1.12.1.13).
    let groups = identity.dword(348) as usize;
    let namespaces = (identity.dword(540) as usize).max(1).min(identity.dword(516) as usize);
    let bytes = (16 + 32 * groups + 4 * namespaces).clamp(4096, 1 << 20);
    Ok(AnaLog::read(&controller.log(log::ANA, 0, bytes)?)?)
}

pub fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "ana.identify",
            RULE,
            "reads CMIC, ANACAP, ANAGRPMAX, NANAGRPID, ANATT and each namespace's ANAGRPID and NMIC",
            "they go together",
            |subject| {
                let mut controller = subject.controller()?;
                let identity = controller.identify()?;
                read(&mut controller)?;
                check!(identity.byte(343) & 0x1f != 0, "ANACAP is {:#x}", identity.byte(343));
                check!(identity.byte(342) > 0, "ANATT is 0");
                let (highest, count) = (identity.dword(344), identity.dword(348));
                check!(
                    count > 0 && count <= highest,
                    "NANAGRPID is {count}, ANAGRPMAX {highest}"
                );
                for nsid in controller.namespaces()? {
                    let namespace = controller.namespace(nsid)?;
                    let group = namespace.dword(92);
                    check!(group > 0 && group <= highest, "ANAGRPID of {nsid} is {group}");
                    check!(namespace.byte(30) & 1 == 1, "NMIC of {nsid} says that it is not shared");
                }
                Ok(())
            },
        ),
        Case::new(
            "ana.log",
            RULE,
            "reads the ANA log",
            "groups that rise, states that there are, each namespace in its group and in no other",
            |subject| {
                let mut controller = subject.controller()?;
                let log = read(&mut controller)?;
                check!(
                    log.groups.windows(2).all(|pair| pair[0].id < pair[1].id),
                    "the groups do not rise"
                );
                for group in &log.groups {
                    check!(
                        matches!(group.state, 1 | 2 | 3 | 4 | 15),
                        "group {} has state {}",
                        group.id,
                        group.state
                    );
                }
                for nsid in controller.namespaces()? {
                    let due = controller.namespace(nsid)?.dword(92);
                    let of: Vec<u32> = log
                        .groups
                        .iter()
                        .filter(|group| group.namespaces.contains(&nsid))
                        .map(|group| group.id)
                        .collect();
                    check!(of == [due], "namespace {nsid} of group {due} is listed in {of:?}");
                }
                Ok(())
            },
        ),
        Case::new(
            "ana.groups-only",
            "NVMe Base 2.1, 5.1.12.1.13: RGO",
            "reads the log with \"return groups only\"",
            "the same groups, without namespaces",
            |subject| {
                let mut controller = subject.controller()?;
                let whole = read(&mut controller)?;
                let request = commands::log_page(log::ANA, 0, 0, 4096)
                    .map(|command| command.dword(10, u32::from(log::ANA) | 1 << 8 | 1023 << 16));
                let short = AnaLog::read(&controller.call(&request)?.good("Get Log Page")?.data)?;
                check!(
                    short.groups.iter().all(|group| group.namespaces.is_empty()),
                    "there are namespaces"
                );
                let ids = |log: &AnaLog| log.groups.iter().map(|group| group.id).collect::<Vec<_>>();
                check!(
                    ids(&short) == ids(&whole),
                    "the groups are {:?}, not {:?}",
                    ids(&short),
                    ids(&whole)
                );
                Ok(())
            },
        ),
        Case::new(
            "ana.state-holds",
            RULE,
            "reads where the state is optimized or non-optimized",
            "success; where it is inaccessible: that status",
            |subject| {
                let mut disk = subject.disk()?;
                let log = read(&mut disk.controller)?;
                let group = disk.namespace.dword(92);
                let state = log
                    .groups
                    .iter()
                    .find(|known| known.id == group)
                    .map_or(0, |known| known.state);
                let answer = disk.queue.call(&commands::read(disk.nsid, 0, 1, disk.block_bytes))?;
                match state {
                    1 | 2 => super::subject::ended(&answer, status::SUCCESS),
                    3 => super::subject::ended(&answer, status::ANA_INACCESSIBLE),
                    15 => super::subject::ended(&answer, status::ANA_TRANSITION),
                    other => Err(Verdict::Failed(format!("the state is {other}"))),
                }
            },
        ),
    ]
}
