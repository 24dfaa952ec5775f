//! Who may use which volume by its name: the judgement, by what the metadata says.
//!
//! A volume is served under its name when it was exported, to the clients that the export names; and to clients whose
//! certificates grant it, whether it was exported or not (decision 038). Whoever may not use it is told the same as whoever asks
//! for a volume that does not exist.

use crate::view::View;
use amita_frontend::{Export, Source, Who};
use amita_reactor::Time;
use amita_types::VolumeId;
use amita_types::capability::{self, Rights, Scope};
use amita_types::map::{self, Volume};

/// What a session uses by the right of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Who its client is.
    pub who: Who,
    /// What it has open, and whether the volume is for it to read only.
    pub open: Option<(Source, bool)>,
    /// Since when it is known that the volume is another one than this node knows of.
    pub unseen: Option<Time>,
}

/// How a client may use a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    pub read_only: bool,
}

/// May `who` use the volume, or read its snapshot, and how? What a volume was before it was reverted is read as its snapshots alone.
#[must_use]
pub fn judge_source(view: &View, source: Source, who: &Who) -> Option<Grant> {
    let source = view.present_source(source);
    let is_former = view.volume_of(source.volume).is_some_and(Volume::is_former);
    match is_former {
        false => judge(view, source.volume, who),
        true if source.is_head() => None,
        true => judge(view, view.volume_with(source.volume)?.id, who),
    }
}

/// May `who` use the volume, and how?
#[must_use]
pub fn judge(view: &View, volume: VolumeId, who: &Who) -> Option<Grant> {
    if *who == Who::Program {
        return Some(Grant { read_only: false });
    }
    // A deleted volume is nobody's, and neither is one that is to be a copy and is none yet: whatever a certificate says.
    let is_deleted = |record: &Volume| map::is_hidden(&record.name);
    if view.volume_of(volume).is_some_and(is_deleted) || view.is_copying(volume) {
        return None;
    }
    // Looked for last: for whoever is not let in nothing is.
    let is_others = || view.is_namespace(volume) || view.is_unshared_lun(volume);
    let is_served = || !is_others() || view.export(volume).is_some_and(|export| export.shared);
    let grants = [by_export(view, volume, who), by_certificate(view, volume, who)];
    // The wider right counts.
    let widest = grants.into_iter().flatten().min_by_key(|grant| grant.read_only);
    widest.filter(|_| is_served())
}

fn by_export(view: &View, volume: VolumeId, who: &Who) -> Option<Grant> {
    let export = view.export(volume)?;
    let client = match who {
        Who::Client(client) => Some(client),
        Who::Program | Who::Local => None,
        Who::Stranger => return None,
    };
    if export.any_client || client.is_some_and(|client| export.clients.iter().any(|known| **known == *client.name)) {
        let read_only = export.read_only;
        return Some(Grant { read_only });
    }
    let grant = client?.grant.as_deref()?;
    let is_tenants = export.tenants.iter().any(|tenant| tenant == grant.tenant());
    let rights = rights_in(grant, |scope| scope == Scope::Tenant).filter(|_| is_tenants)?;
    Some(Grant {
        read_only: export.read_only || !rights.writes(),
    })
}

fn by_certificate(view: &View, volume: VolumeId, who: &Who) -> Option<Grant> {
    let Who::Client(client) = who else { return None };
    let record = view.volume_of(volume)?;
    let rights = rights_in(client.grant.as_deref()?, |scope| match scope {
        // By any number that it has, or had while what it was is there: a revert takes no right away. For ever is the host's number alone.
        Scope::Volume(id) => id == record.host() || record.has_data(id),
        Scope::Pool(id) => view.pool_of(&record.pool) == Some(id),
        Scope::Tenant => false,
    })?;
    Some(Grant {
        read_only: !rights.writes(),
    })
}

/// What a certificate lets its holder do, by all of its entries that are about the matter; `None`: not even read.
fn rights_in(grant: &capability::Grant, is_about: impl Fn(Scope) -> bool) -> Option<Rights> {
    let entries = grant.entries().iter().filter(|entry| is_about(entry.scope));
    let rights = entries.map(|entry| entry.rights).reduce(Rights::and)?;
    rights.reads().then_some(rights)
}

/// The volumes that `who` may use, as they are listed.
#[must_use]
pub fn listed(view: &View, who: &Who) -> Vec<Export> {
    // There are none, and to look takes time.
    if *who == Who::Stranger {
        return Vec::new();
    }
    let export = |volume: &Volume| {
        let Grant { read_only } = judge(view, volume.id, who)?;
        Some(Export {
            name: volume.name.clone(),
            size_bytes: volume.size_bytes,
            read_only,
            description: format!("volume {} in pool {}", volume.host(), volume.pool),
        })
    };
    view.volumes().filter_map(export).collect()
}

#[cfg(test)]
mod tests;
