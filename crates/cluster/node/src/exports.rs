//! Who may use which volume by its name: the judgement, by what the metadata says.
//!
//! A volume is served under its name when it was exported, to the clients that the export names. Whoever may not use it is
//! told the same as whoever asks for a volume that does not exist.

use crate::view::View;
use amita_frontend::{Export, Who};
use amita_types::VolumeId;
use amita_types::map::Volume;

/// What a session uses by the right of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Who its client is.
    pub who: Who,
    /// The volume that it has open, and whether for reading only.
    pub open: Option<(VolumeId, bool)>,
}

/// How a client may use a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    pub read_only: bool,
}

/// May `who` use the volume, and how?
#[must_use]
pub fn judge(view: &View, volume: VolumeId, who: &Who) -> Option<Grant> {
    if *who == Who::Program {
        return Some(Grant { read_only: false });
    }
    let export = view.export(volume)?;
    let is_let_in = match who {
        Who::Program => true,
        Who::Client(name) => export.any_client || export.clients.iter().any(|known| **known == **name),
        Who::Local => export.any_client,
        Who::Stranger => false,
    };
    let read_only = export.read_only;
    // Last: for whoever is not let in nothing is looked for.
    let is_served = is_let_in && (export.shared || !view.is_namespace(volume));
    is_served.then_some(Grant { read_only })
}

/// The volumes that `who` may use, as they are listed.
#[must_use]
pub fn listed(view: &View, who: &Who) -> Vec<Export> {
    let export = |volume: &Volume| {
        let Grant { read_only } = judge(view, volume.id, who)?;
        Some(Export {
            name: volume.name.clone(),
            size_bytes: volume.size_bytes,
            read_only,
            description: format!("volume {} in pool {}", volume.id, volume.pool),
        })
    };
    view.volumes().filter_map(export).collect()
}

#[cfg(test)]
mod tests;
