//! Subsystems: what hosts connect to by NVMe over Fabrics.
//!
//! A subsystem is a setting of the cluster, not of a gateway: any gateway that speaks NVMe serves it, unless it names the
//! ones that do. Nobody may connect until hosts are allowed.

use super::nqn::check_nqn;
use super::unreadable::{HasDisks, Known, Listed, named};
use super::{AdminError, Result, check_name, cluster, get, json, names_under, nodes, put_if, remove, tries};
use amita_metadata::{Call, Compare, Op, Transact};
use amita_types::ClusterId;
use amita_types::map::{self, Subsystem};
use std::collections::BTreeSet;

/// Subsystems of a cluster, at most: a discovery log has an entry of 1 KiB for each at each gateway.
pub const MAX_SUBSYSTEMS: usize = 1024;
/// The longest name: with the default qualified name's first part it fits into 223 bytes.
pub const MAX_SUBSYSTEM_NAME_BYTES: usize = 128;

/// What a subsystem is made as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubsystemSpec {
    pub name: String,
    /// Its qualified name; none: [`default_nqn`].
    pub nqn: Option<String>,
    /// The names of the nodes that serve it; empty: all that speak NVMe.
    pub gateways: Vec<String>,
    /// May any host connect?
    pub any_host: bool,
    /// Are connections without TLS refused?
    pub tls_required: bool,
}

/// What is changed of a subsystem; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubsystemChange {
    /// The nodes that serve it; empty: all.
    pub gateways: Option<Vec<String>>,
    /// May any host connect?
    pub any_host: Option<bool>,
    /// Are connections without TLS refused?
    pub tls_required: Option<bool>,
}

/// The qualified name that a subsystem has if nobody says otherwise: with the first eight digits of the cluster's id, so
/// that those of two clusters differ.
#[must_use]
pub fn default_nqn(cluster: ClusterId, name: &str) -> String {
    format!("nqn.2026-11.io.amita:{}:{name}", first_digits(cluster))
}

/// The first eight hexadecimal digits of the cluster's id.
fn first_digits(cluster: ClusterId) -> String {
    format!("{:08x}", cluster.0 >> 96)
}

/// All subsystems by name.
///
/// # Errors
/// The metadata is away.
pub fn subsystems(meta: &dyn Transact) -> Result<Listed<Subsystem>> {
    Listed::read(meta, Subsystem::WHAT, &Subsystem::prefix())
}

/// The same, for who has to know what those that cannot be read may say.
pub(super) fn all_subsystems(meta: &dyn Transact) -> Result<Known<Subsystem>> {
    Known::read(meta)
}

/// A subsystem by name.
///
/// # Errors
/// There is none of that name; the metadata is away.
pub fn subsystem(meta: &dyn Transact, name: &str) -> Result<Subsystem> {
    find_subsystem(meta, name).map(|(found, _)| found)
}

/// With its record's revision.
pub(super) fn find_subsystem(meta: &dyn Transact, name: &str) -> Result<(Subsystem, u64)> {
    match named(meta, Subsystem::WHAT, name, &map::subsystem_key(name))? {
        Some(found) => Ok(found),
        None => Err(AdminError::NoSuch {
            what: "subsystem",
            name: name.to_owned(),
            there: names_under(meta, &map::subsystems_prefix())?,
        }),
    }
}

/// Makes a subsystem without namespaces.
///
/// # Errors
/// A bad name or qualified name, one that is taken, no such gateway; the metadata is away or refuses.
pub fn create_subsystem(meta: &dyn Transact, spec: &SubsystemSpec) -> Result<Subsystem> {
    let SubsystemSpec { name, .. } = spec;
    check_name("subsystem", name)?;
    if name.len() > MAX_SUBSYSTEM_NAME_BYTES {
        return Err(AdminError::BadName {
            what: "subsystem",
            name: name.clone(),
            why: format!(
                "it has {} bytes; choose one of at most {MAX_SUBSYSTEM_NAME_BYTES}",
                name.len()
            ),
        });
    }
    let cluster = cluster(meta)?.id;
    let nqn = spec.nqn.clone().unwrap_or_else(|| default_nqn(cluster, name));
    check_nqn("subsystem", &nqn)?;
    check_gateways(meta, &spec.gateways)?;
    // The counter is the guard as well: of two that are made at once with the same qualified name one tries again.
    let counter = map::counter_key("subsystems");
    for _ in tries(meta) {
        let (last, revision) = get::<u64>(meta, &counter)?.unwrap_or((0, 0));
        let known = all_subsystems(meta)?;
        if known.is_unreadable(name) || known.readable.iter().any(|known| known.name == *name) {
            return Err(exists(name));
        }
        known.none_may_say("have the qualified name", &nqn)?;
        if let Some(other) = known.readable.iter().find(|known| known.nqn == nqn) {
            return Err(AdminError::BadSetting {
                what: "subsystem",
                name: name.clone(),
                why: format!(
                    "{nqn} is the qualified name of subsystem {}; choose another",
                    other.name
                ),
            });
        }
        if known.count() >= MAX_SUBSYSTEMS {
            return Err(AdminError::Full {
                what: "cluster",
                name: cluster.to_string(),
                of: "subsystems",
                most: MAX_SUBSYSTEMS,
            });
        }
        let number = last.checked_add(1).ok_or_else(|| AdminError::Damaged {
            key: counter.clone(),
            what: "no number is left",
        })?;
        let made = Subsystem {
            name: name.clone(),
            nqn: nqn.clone(),
            serial: format!("{}{number:08X}", first_digits(cluster).to_uppercase()),
            gateways: each_once(&spec.gateways),
            any_host: spec.any_host,
            tls_required: spec.tls_required,
            hosts: Vec::new(),
            namespaces: Vec::new(),
        };
        let key = map::subsystem_key(name);
        let call = Call {
            compares: vec![unchanged(&key, 0), unchanged(&counter, revision)],
            then: vec![put(key, &made), put(counter.clone(), &number)],
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(made);
        }
    }
    Err(AdminError::TooManyRaces { key: counter })
}

fn exists(name: &str) -> AdminError {
    AdminError::Exists {
        what: "subsystem",
        name: name.to_owned(),
    }
}

/// Names in their order, each once however often it was said.
pub(super) fn each_once(names: &[String]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    names.iter().filter(|name| seen.insert(*name)).cloned().collect()
}

/// Gateways are named before they serve a protocol, but not before they exist.
pub(super) fn check_gateways(meta: &dyn Transact, gateways: &[String]) -> Result<()> {
    if gateways.is_empty() {
        return Ok(());
    }
    let known: Vec<String> = nodes(meta)?
        .into_iter()
        .filter(|node| !node.client)
        .map(|node| node.name)
        .collect();
    match gateways.iter().find(|name| !known.contains(name)) {
        None => Ok(()),
        Some(name) => Err(AdminError::NoSuch {
            what: "node",
            name: name.clone(),
            there: known,
        }),
    }
}

/// Changes who serves a subsystem, whether any host may connect, or whether it has to be by TLS. A host that is connected and may no more
/// is cut off.
///
/// # Errors
/// No such subsystem or gateway; the metadata is away or refuses.
pub fn set_subsystem(meta: &dyn Transact, name: &str, change: &SubsystemChange) -> Result<Subsystem> {
    if let Some(gateways) = &change.gateways {
        check_gateways(meta, gateways)?;
    }
    change_subsystem(meta, name, |found| {
        if let Some(gateways) = &change.gateways {
            found.gateways = each_once(gateways);
        }
        if let Some(any_host) = change.any_host {
            found.any_host = any_host;
        }
        if let Some(tls_required) = change.tls_required {
            found.tls_required = tls_required;
        }
        Ok(())
    })
}

/// Reads, changes and writes a subsystem's record, again where somebody else was faster.
pub(super) fn change_subsystem(
    meta: &dyn Transact,
    name: &str,
    mut change: impl FnMut(&mut Subsystem) -> Result<()>,
) -> Result<Subsystem> {
    let key = map::subsystem_key(name);
    for _ in tries(meta) {
        let (old, revision) = find_subsystem(meta, name)?;
        let mut new = old.clone();
        change(&mut new)?;
        if new == old || put_if(meta, &key, revision, &new)? {
            return Ok(new);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// Deletes a subsystem. Its volumes stay; hosts that are connected lose it. `None`: nobody could read what it was.
///
/// # Errors
/// None of that name, or it has namespaces, or its record cannot be read (and `force` is not given); the metadata is away or refuses.
pub fn delete_subsystem(meta: &dyn Transact, name: &str, force: bool) -> Result<Option<Subsystem>> {
    let key = map::subsystem_key(name);
    for _ in tries(meta) {
        let (found, revision) = match find_subsystem(meta, name) {
            Err(AdminError::Unreadable { .. }) if force => return remove(meta, &key).map(|_| None),
            found => found?,
        };
        if !found.namespaces.is_empty() && !force {
            return Err(AdminError::HasNamespaces {
                subsystem: name.to_owned(),
                namespaces: found.namespaces.len(),
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

/// The comparison that a record is as it was read (0: it is not there).
pub(crate) fn unchanged(key: &str, revision: u64) -> Compare {
    Compare::ModRevision {
        key: key.to_owned(),
        equals: revision,
    }
}

/// The operation that writes a record.
pub(super) fn put<T: serde::Serialize>(key: String, record: &T) -> Op {
    Op::Put {
        key,
        value: json(record),
        lease: None,
    }
}

/// The counter that every change of what volumes are used for compares and raises: a volume is at most one namespace
/// and at most one LUN, has no other use beside that unless asked, and is not deleted while it has one, whoever does what at the same time.
pub(super) fn uses_guard(meta: &dyn Transact) -> Result<(u64, u64)> {
    Ok(get::<u64>(meta, &map::counter_key("namespaces"))?.unwrap_or((0, 0)))
}
