//! Targets: what initiators log in to by iSCSI.
//!
//! A target is a setting of the cluster, not of a gateway: any gateway that speaks iSCSI serves it, unless it names the ones that do.
//! Nobody may log in until initiators are allowed.

use super::subsystem::{check_gateways, each_once, put, unchanged};
use super::unreadable::{HasDisks, Known, Listed, named};
use super::{AdminError, Result, check_name, cluster, get, names_under, put_if, remove, tries};
use amita_metadata::{Call, Op, Transact};
use amita_types::ClusterId;
use amita_types::condition::LOWEST_PERCENT;
use amita_types::iscsi_name;
use amita_types::map::{self, IscsiTarget};
use std::collections::BTreeMap;

/// Targets of a cluster, at most: an answer to `SendTargets` names each with all its portals.
pub const MAX_TARGETS: usize = 1024;
/// The longest name: with the default iSCSI name's first part it fits into 223 bytes.
pub const MAX_TARGET_NAME_BYTES: usize = 128;

/// What a target is made as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetSpec {
    pub name: String,
    /// Its iSCSI name; none: [`default_iqn`].
    pub iqn: Option<String>,
    /// The names of the nodes that serve it; empty: all that speak iSCSI.
    pub gateways: Vec<String>,
    /// May any initiator log in?
    pub any_initiator: bool,
    /// Are logins without CHAP refused?
    pub chap_required: bool,
    /// May initiators have volumes moved to another gateway?
    pub initiators_move: bool,
    /// At how many percent of its pool a LUN's initiators are told that space runs out.
    pub space_warning_percent: Option<u8>,
}

/// What is changed of a target; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetChange {
    /// The nodes that serve it; empty: all.
    pub gateways: Option<Vec<String>>,
    /// May any initiator log in?
    pub any_initiator: Option<bool>,
    /// Are logins without CHAP refused?
    pub chap_required: Option<bool>,
    /// May initiators have volumes moved to another gateway?
    pub initiators_move: Option<bool>,
    pub space_warning: Option<SpaceWarning>,
}

/// When a LUN's initiators are told that space runs out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceWarning {
    /// At so many percent of its pool.
    At(u8),
    /// Where stores count as near full.
    NearFull,
}

/// Is this an iSCSI name? It is given back in its canonical form, by which it is kept.
///
/// # Errors
/// Says what is wrong with it.
pub fn check_iscsi_name(what: &'static str, name: &str) -> Result<String> {
    iscsi_name::canonical(name).map_err(|why| AdminError::BadName {
        what,
        name: name.to_owned(),
        why,
    })
}

/// The iSCSI name that a target has if nobody says otherwise: with the first eight digits of the cluster's id, so that those of two
/// clusters differ. What such a name cannot hold of the target's own is another character there.
#[must_use]
pub fn default_iqn(cluster: ClusterId, name: &str) -> String {
    let own = name.to_ascii_lowercase().replace('_', "-");
    format!("iqn.2026-11.io.amita:{:08x}:{own}", cluster.0 >> 96)
}

/// All targets by name.
///
/// # Errors
/// The metadata is away.
pub fn targets(meta: &dyn Transact) -> Result<Listed<IscsiTarget>> {
    Listed::read(meta, IscsiTarget::WHAT, &IscsiTarget::prefix())
}

/// The same, for who has to know what those that cannot be read may say.
pub(super) fn all_targets(meta: &dyn Transact) -> Result<Known<IscsiTarget>> {
    Known::read(meta)
}

/// The names of targets by their iSCSI names, of those that can be read.
///
/// # Errors
/// The metadata is away.
pub fn target_names(meta: &dyn Transact) -> Result<BTreeMap<String, String>> {
    let known = all_targets(meta)?.readable;
    Ok(known.into_iter().map(|known| (known.iqn, known.name)).collect())
}

/// A target by name.
///
/// # Errors
/// There is none of that name; the metadata is away.
pub fn target(meta: &dyn Transact, name: &str) -> Result<IscsiTarget> {
    find_target(meta, name).map(|(found, _)| found)
}

/// With its record's revision.
pub(super) fn find_target(meta: &dyn Transact, name: &str) -> Result<(IscsiTarget, u64)> {
    match named(meta, IscsiTarget::WHAT, name, &map::iscsi_target_key(name))? {
        Some(found) => Ok(found),
        None => Err(AdminError::NoSuch {
            what: "target",
            name: name.to_owned(),
            there: names_under(meta, &map::iscsi_targets_prefix())?,
        }),
    }
}

fn bad(name: &str, why: String) -> AdminError {
    AdminError::BadSetting {
        what: "target",
        name: name.to_owned(),
        why,
    }
}

fn check_percent(name: &str, percent: u8) -> Result<()> {
    if (LOWEST_PERCENT..=100).contains(&percent) {
        return Ok(());
    }
    Err(bad(
        name,
        format!("space cannot be said to run out at {percent} %; choose {LOWEST_PERCENT} to 100"),
    ))
}

/// Makes a target without LUNs.
///
/// # Errors
/// A bad name or iSCSI name, one that is taken, no such gateway; the metadata is away or refuses.
pub fn create_target(meta: &dyn Transact, spec: &TargetSpec) -> Result<IscsiTarget> {
    let TargetSpec { name, .. } = spec;
    check_name("target", name)?;
    if name.len() > MAX_TARGET_NAME_BYTES {
        return Err(AdminError::BadName {
            what: "target",
            name: name.clone(),
            why: format!(
                "it has {} bytes; choose one of at most {MAX_TARGET_NAME_BYTES}",
                name.len()
            ),
        });
    }
    let cluster = cluster(meta)?.id;
    let iqn = spec.iqn.clone().unwrap_or_else(|| default_iqn(cluster, name));
    let iqn = check_iscsi_name("target", &iqn)?;
    check_gateways(meta, &spec.gateways)?;
    if let Some(percent) = spec.space_warning_percent {
        check_percent(name, percent)?;
    }
    // The counter is the guard: of two that are made at once with the same iSCSI name one tries again.
    let counter = map::counter_key("iscsi-targets");
    for _ in tries(meta) {
        let (made, revision) = get::<u64>(meta, &counter)?.unwrap_or((0, 0));
        let known = all_targets(meta)?;
        if known.is_unreadable(name) || known.readable.iter().any(|known| known.name == *name) {
            return Err(AdminError::Exists {
                what: "target",
                name: name.clone(),
            });
        }
        known.none_may_say("have the iSCSI name", &iqn)?;
        if let Some(other) = known.readable.iter().find(|known| known.iqn == iqn) {
            let why = format!(
                "{iqn} is the iSCSI name of target {}; choose another (`amita target create {name} --iqn IQN`)",
                other.name
            );
            return Err(bad(name, why));
        }
        if known.count() >= MAX_TARGETS {
            return Err(AdminError::Full {
                what: "cluster",
                name: cluster.to_string(),
                of: "targets",
                most: MAX_TARGETS,
            });
        }
        let target = IscsiTarget {
            name: name.clone(),
            iqn: iqn.clone(),
            gateways: each_once(&spec.gateways),
            any_initiator: spec.any_initiator,
            chap_required: spec.chap_required,
            initiators_move: spec.initiators_move,
            space_warning_percent: spec.space_warning_percent,
            initiators: Vec::new(),
            luns: Vec::new(),
        };
        let key = map::iscsi_target_key(name);
        let call = Call {
            compares: vec![unchanged(&key, 0), unchanged(&counter, revision)],
            then: vec![put(key, &target), put(counter.clone(), &made.saturating_add(1))],
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(target);
        }
    }
    Err(AdminError::TooManyRaces { key: counter })
}

/// Changes who serves a target, whether any initiator may log in, whether it has to be by CHAP, what else initiators may, and when space is said
/// to run out. An
/// initiator that is logged in and may no more is cut off.
///
/// # Errors
/// No such target or gateway; a percentage that cannot be; the metadata is away or refuses.
pub fn set_target(meta: &dyn Transact, name: &str, change: &TargetChange) -> Result<IscsiTarget> {
    if let Some(gateways) = &change.gateways {
        check_gateways(meta, gateways)?;
    }
    if let Some(SpaceWarning::At(percent)) = change.space_warning {
        check_percent(name, percent)?;
    }
    change_target(meta, name, |found| {
        if let Some(gateways) = &change.gateways {
            found.gateways = each_once(gateways);
        }
        if let Some(any_initiator) = change.any_initiator {
            found.any_initiator = any_initiator;
        }
        if let Some(chap_required) = change.chap_required {
            found.chap_required = chap_required;
        }
        if let Some(initiators_move) = change.initiators_move {
            found.initiators_move = initiators_move;
        }
        match change.space_warning {
            Some(SpaceWarning::At(percent)) => found.space_warning_percent = Some(percent),
            Some(SpaceWarning::NearFull) => found.space_warning_percent = None,
            None => {}
        }
        Ok(())
    })
}

/// Reads, changes and writes a target's record, again where somebody else was faster.
pub(super) fn change_target(
    meta: &dyn Transact,
    name: &str,
    mut change: impl FnMut(&mut IscsiTarget) -> Result<()>,
) -> Result<IscsiTarget> {
    let key = map::iscsi_target_key(name);
    for _ in tries(meta) {
        let (old, revision) = find_target(meta, name)?;
        let mut new = old.clone();
        change(&mut new)?;
        if new == old || put_if(meta, &key, revision, &new)? {
            return Ok(new);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// Deletes a target. Its volumes stay; initiators that are logged in lose their disks. `None`: nobody could read what it was.
///
/// # Errors
/// None of that name, or it has LUNs, or its record cannot be read (and `force` is not given); the metadata is away or refuses.
pub fn delete_target(meta: &dyn Transact, name: &str, force: bool) -> Result<Option<IscsiTarget>> {
    let key = map::iscsi_target_key(name);
    for _ in tries(meta) {
        let (found, revision) = match find_target(meta, name) {
            Err(AdminError::Unreadable { .. }) if force => return remove(meta, &key).map(|_| None),
            found => found?,
        };
        if !found.luns.is_empty() && !force {
            return Err(AdminError::HasLuns {
                target: name.to_owned(),
                luns: found.luns.len(),
            });
        }
        let call = Call {
            compares: vec![unchanged(&key, revision)],
            then: vec![Op::Delete { key: key.clone() }],
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(Some(found));
        }
    }
    Err(AdminError::TooManyRaces { key })
}
