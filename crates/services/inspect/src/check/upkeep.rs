//! Certificates, versions and settings.

use super::{named, told, voices};
use crate::certificates::{Standing, Usage};
use crate::code::{Check, Code};
use crate::gather::Facts;
use crate::inventory::{Certificate, Inventory};
use crate::sheet::{Place, Severity, Sheet};
use amita_types::condition::Thresholds;
use amita_types::recovery::Recovery;
use std::collections::{BTreeMap, BTreeSet};

const DAY_S: u64 = 24 * 3600;

pub(super) fn check(facts: &Facts, sheet: &mut Sheet) {
    let told = told(facts, &[Check::Certificates, Check::Settings], sheet);
    certificates(facts.at, &told, sheet);
    versions(facts, &told, sheet);
    settings(facts, &told, sheet);
}

fn certificates(now: u64, told: &[(&str, &Inventory)], sheet: &mut Sheet) {
    let mut authority: Option<u64> = None;
    for (node, inventory) in told {
        let place = Place::node(node);
        match sheet.look_at(Check::Certificates, place.clone(), &inventory.certificate) {
            None => {}
            // It is a fact of the status where that matters.
            Some(None) => sheet.blind(Check::Certificates, place, "the node has no identity"),
            Some(Some(own)) => {
                ends(now, own, place, sheet);
                authority = authority.into_iter().chain(own.authority_ends).min();
            }
        }
    }
    let Some(ends) = authority else { return };
    let left = ends.saturating_sub(now) / DAY_S;
    let Some(severity) = severity(Standing::of(Usage::Authority, (0, ends), now)) else {
        return;
    };
    let reason = format!("it ends on {}, in {left} days", crate::report::day(ends));
    sheet.find_as(Code::AuthorityEnds, severity, Place::cluster(), reason);
}

fn severity(standing: Standing) -> Option<Severity> {
    match standing {
        Standing::Well => None,
        Standing::Due => Some(Severity::Warning),
        Standing::Late | Standing::Ended => Some(Severity::Critical),
    }
}

fn ends(now: u64, own: &Certificate, place: Place, sheet: &mut Sheet) {
    let life = own.ends.saturating_sub(own.begins).max(1);
    let left = own.ends.saturating_sub(now);
    let standing = Standing::of(Usage::Identity, (own.begins, own.ends), now);
    let Some(severity) = severity(standing) else {
        return;
    };
    let reason = format!(
        "it ends on {}, in {} hours, and is good for {} days in all: it was not renewed at half of that",
        crate::report::day(own.ends),
        left / 3600,
        life / DAY_S
    );
    sheet.find_as(Code::CertificateEnds, severity, place, reason);
}

fn versions(facts: &Facts, told: &[(&str, &Inventory)], sheet: &mut Sheet) {
    let programs = voices(told.iter().map(|(node, inventory)| (*node, inventory.program.as_str())));
    if !programs.is_empty() {
        sheet.look(Check::Versions);
    }
    if programs.len() > 1 {
        let each = programs
            .iter()
            .map(|(version, who)| format!("{version} at {}", named(who.iter().copied())));
        let reason = format!("programs differ: {}", each.collect::<Vec<_>>().join("; "));
        sheet.find(Code::ProgramDiffers, Place::cluster(), reason);
    }
    let versions = &facts.versions;
    for node in &versions.away {
        sheet.blind(Check::Versions, Place::node(node), "the node does not run");
    }
    let least = versions.nodes.values().min().copied();
    if let Some(least) = least {
        sheet.look(Check::Versions);
        if least > versions.cluster && versions.away.is_empty() {
            let reason = format!(
                "the cluster is at version {}, and all nodes know {least}",
                versions.cluster
            );
            sheet.find(Code::VersionNotFinal, Place::cluster(), reason);
        }
    }
}

fn settings(facts: &Facts, told: &[(&str, &Inventory)], sheet: &mut Sheet) {
    sheet.look(Check::Settings);
    of_cluster(facts, sheet);
    let mut names: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for (node, inventory) in told {
        sheet.look(Check::Settings);
        for setting in &inventory.settings {
            names.entry(&setting.name).or_default().push((node, &setting.value));
            if setting.value != setting.usual {
                let reason = format!(
                    "--{} is {}; it is {} where nobody sets it",
                    setting.name, setting.value, setting.usual
                );
                sheet.find(Code::SettingUnusual, Place::node(node), reason);
            }
        }
    }
    for (name, said) in names {
        let values: BTreeSet<&str> = said.iter().map(|(_, value)| *value).collect();
        if values.len() > 1 {
            let each = voices(said.iter().copied());
            let each = each
                .iter()
                .map(|(value, who)| format!("{value} at {}", named(who.iter().copied())));
            let reason = format!("--{name} differs: {}", each.collect::<Vec<_>>().join("; "));
            sheet.find(Code::SettingDiffers, Place::cluster(), reason);
        }
    }
}

fn of_cluster(facts: &Facts, sheet: &mut Sheet) {
    let unusual = |sheet: &mut Sheet, what: &str, is: String, usual: String| {
        if is != usual {
            sheet.find(
                Code::SettingUnusual,
                Place::cluster(),
                format!("{what}: {is}; usual is {usual}"),
            );
        }
    };
    let levels = |own: &Thresholds| {
        let pools: Vec<String> = own.pool_percents.iter().map(u8::to_string).collect();
        format!(
            "near full {} %, full {} %, pools {} %",
            own.near_full_percent,
            own.full_percent,
            pools.join("/")
        )
    };
    unusual(
        sheet,
        "thresholds (`amita pool thresholds`)",
        levels(&facts.thresholds),
        levels(&Thresholds::default()),
    );
    let (own, usual) = (&facts.recovery, Recovery::default());
    let slow = |own: &Recovery| {
        let slow = &own.slow_stores;
        format!("{:?} after {} s, {} an hour", slow.policy, slow.after_s, slow.per_hour).to_lowercase()
    };
    unusual(sheet, "slow stores (`amita recovery set`)", slow(own), slow(&usual));
    let sick = |own: &Recovery| {
        let sick = &own.sick_networks;
        format!("{:?} after {} s, {} an hour", sick.policy, sick.after_s, sick.per_hour).to_lowercase()
    };
    unusual(sheet, "sick networks (`amita recovery set`)", sick(own), sick(&usual));
    let disks = |own: &Recovery| format!("{:?}", own.sick_disks).to_lowercase();
    unusual(sheet, "sick disks (`amita recovery set`)", disks(own), disks(&usual));
    let pace = |own: &Recovery| {
        format!(
            "automatic {}, p99 {} %, IOPS {} %, at least {} B/s",
            own.automatic, own.p99_percent, own.iops_percent, own.least_bytes_per_s
        )
    };
    unusual(sheet, "recovery (`amita recovery set`)", pace(own), pace(&usual));
    let limits = |own: &Recovery| {
        let each = [own.critical, own.degraded, own.rebalance, own.scrub];
        let each = each.map(|level| {
            format!(
                "{} B/s {} IOPS {} windows",
                level.bytes_per_s, level.iops, level.windows
            )
        });
        each.join("; ")
    };
    unusual(
        sheet,
        "recovery's limits (`amita recovery set --level`)",
        limits(own),
        limits(&usual),
    );
}
