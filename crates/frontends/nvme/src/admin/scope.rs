//! Whom a controller serves, and what of the cluster's settings it shows to them.

use crate::admin::{ALL_NAMESPACES, MAX_NAMESPACES, Session};
use crate::catalog::{Catalog, Namespace, Subsystem};
use amita_types::BLOCK_BYTES;
use std::sync::Arc;

/// Who has connected, to what, and what there is of it.
#[derive(Debug)]
pub(crate) struct Scope {
    pub session: Session,
    pub catalog: Arc<Catalog>,
    /// The subsystem of the moment; none of a discovery controller, or when it was removed.
    pub subsystem: Option<Arc<Subsystem>>,
}

impl Scope {
    /// The namespace of that number, if it is one that hosts can see.
    pub(super) fn namespace(&self, nsid: u32) -> Option<&Arc<Namespace>> {
        let found = self.subsystem.as_ref()?.namespace(nsid);
        found.filter(|namespace| is_visible(namespace))
    }

    /// The namespaces that hosts can see, in order of their number.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &Arc<Namespace>> {
        let all = self.subsystem.iter().flat_map(|subsystem| &subsystem.namespaces);
        all.filter(|namespace| is_visible(namespace))
    }

    /// The namespaces that a command names.
    pub(super) fn numbers(&self, nsid: u32) -> Vec<u32> {
        match nsid {
            ALL_NAMESPACES => self.namespaces().map(|namespace| namespace.nsid).collect(),
            _ => vec![nsid],
        }
    }
}

/// The settings are checked where they are made; a namespace that cannot be described to a host is not shown to it.
pub(super) fn is_visible(namespace: &Namespace) -> bool {
    (1..=MAX_NAMESPACES).contains(&namespace.nsid)
        && matches!(namespace.block_bytes, 512 | 4096)
        && namespace.chunk_bytes >= BLOCK_BYTES
        && namespace.chunk_bytes.is_power_of_two()
}
