//! Exports: volumes that are served by NBD, and to whom.
//!
//! Nothing is served that was not exported. A volume that hosts have by NVMe at the same time would be written by both, and
//! neither would know of the other: that has to be asked for.

use super::copy::none_copies;
use super::lun::no_unshared_lun;
use super::namespace::use_of;
use super::subsystem::{all_subsystems, put, unchanged, uses_guard};
use super::volume::{believable, find_volume};
use super::{AdminError, Result, list, remove, tries};
use amita_metadata::{Call, Transact};
use amita_types::SnapshotId;
use amita_types::capability;
use amita_types::map::{self, Export};

/// Clients of one export, at most: each gateway holds all of them in memory.
pub const MAX_EXPORT_CLIENTS: usize = 1024;
/// The longest name of a client: what the common name of a certificate or the identity of a pre-shared key may be.
pub const MAX_CLIENT_NAME_BYTES: usize = 255;

/// What a volume is exported as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportSpec {
    /// The names of the clients that may use it.
    pub clients: Vec<String>,
    /// The tenants whose clients may use it.
    pub tenants: Vec<String>,
    /// May those use it that prove nothing, and come from the gateway's own machine?
    pub any_client: bool,
    pub read_only: bool,
    /// Also while it is a namespace.
    pub shared: bool,
}

/// All exports.
///
/// # Errors
/// The metadata is away, or a record is not readable.
pub fn exports(meta: &dyn Transact) -> Result<Vec<Export>> {
    list(meta, &map::exports_prefix())
}

/// Exports a volume so, and no other way: what it was exported as before is replaced. Clients that use it and may no more
/// are cut off.
///
/// # Errors
/// No such volume, nobody who may use it, a name that cannot be one; a volume that is a namespace, or a LUN (unless it is to
/// be shared); the metadata is suspected, away or refuses.
pub fn export_volume(meta: &dyn Transact, name: &str, spec: &ExportSpec) -> Result<Export> {
    let sorted = |names: &[String]| {
        let mut names = names.to_vec();
        names.sort();
        names.dedup();
        names
    };
    let (clients, tenants) = (sorted(&spec.clients), sorted(&spec.tenants));
    check_anybody(name, spec)?;
    check_clients(name, &clients)?;
    check_tenants(name, &tenants)?;
    believable(meta)?;
    let guard_key = map::counter_key("namespaces");
    for _ in tries(meta) {
        let (guard, guard_revision) = uses_guard(meta)?;
        let (volume, volume_revision) = find_volume(meta, name)?;
        none_copies(meta, &volume)?;
        if !spec.shared {
            if let Some((subsystem, namespace)) = use_of(&all_subsystems(meta)?, name, volume.id, SnapshotId::HEAD)? {
                return Err(AdminError::ServedByNvme {
                    volume: volume.name,
                    subsystem,
                    nsid: namespace.nsid,
                });
            }
            no_unshared_lun(meta, &volume, "clients of NBD", ", or use --shared")?;
        }
        let export = Export {
            volume: volume.id,
            clients: clients.clone(),
            tenants: tenants.clone(),
            any_client: spec.any_client,
            read_only: spec.read_only,
            shared: spec.shared,
        };
        let call = Call {
            compares: vec![
                unchanged(&guard_key, guard_revision),
                unchanged(&map::volume_key(name), volume_revision),
            ],
            then: vec![
                put(map::export_key(volume.id), &export),
                put(guard_key.clone(), &(guard + 1)),
            ],
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(export);
        }
    }
    Err(AdminError::TooManyRaces { key: guard_key })
}

/// Takes a volume's export away; false: it had none. Clients that use it are cut off, its data stays.
///
/// # Errors
/// No such volume; the metadata is away or refuses.
pub fn unexport_volume(meta: &dyn Transact, name: &str) -> Result<bool> {
    for _ in tries(meta) {
        let (volume, _) = find_volume(meta, name)?;
        // A revert gives the volume another number, and the export goes along.
        let had = remove(meta, &map::export_key(volume.id))?;
        if had || find_volume(meta, name)?.0.id == volume.id {
            return Ok(had);
        }
    }
    Err(AdminError::TooManyRaces {
        key: map::volume_key(name),
    })
}

fn check_anybody(volume: &str, spec: &ExportSpec) -> Result<()> {
    if !spec.clients.is_empty() || !spec.tenants.is_empty() || spec.any_client {
        return Ok(());
    }
    Err(AdminError::BadSetting {
        what: "the export of volume",
        name: volume.to_owned(),
        why: "nobody could use it; name who may (--client NAME, --tenant NAME), or let everybody on the gateway's own \
              machine (--any-client)"
            .to_owned(),
    })
}

fn check_tenants(volume: &str, tenants: &[String]) -> Result<()> {
    if tenants.len() > MAX_EXPORT_CLIENTS {
        return Err(AdminError::Full {
            what: "the export of volume",
            name: volume.to_owned(),
            of: "tenants",
            most: MAX_EXPORT_CLIENTS,
        });
    }
    let bad = |tenant: &String| AdminError::BadName {
        what: "tenant",
        name: tenant.clone(),
        why: capability::tenant_fault(tenant).unwrap_or_else(|| "it is empty".to_owned()),
    };
    let is_bad = |tenant: &&String| tenant.is_empty() || capability::tenant_fault(tenant).is_some();
    tenants.iter().find(is_bad).map_or(Ok(()), |tenant| Err(bad(tenant)))
}

fn check_clients(volume: &str, clients: &[String]) -> Result<()> {
    if clients.len() > MAX_EXPORT_CLIENTS {
        return Err(AdminError::Full {
            what: "the export of volume",
            name: volume.to_owned(),
            of: "clients",
            most: MAX_EXPORT_CLIENTS,
        });
    }
    let bad = |name: &str, why: String| AdminError::BadName {
        what: "client",
        name: name.to_owned(),
        why,
    };
    for name in clients {
        if name.is_empty() {
            return Err(bad(name, "it is empty".to_owned()));
        }
        if name.len() > MAX_CLIENT_NAME_BYTES {
            let why = format!("it has {} bytes, more than {MAX_CLIENT_NAME_BYTES}", name.len());
            return Err(bad(name, why));
        }
        if let Some(found) = name.chars().find(|found| found.is_control()) {
            return Err(bad(name, format!("it contains {found:?}")));
        }
    }
    Ok(())
}
