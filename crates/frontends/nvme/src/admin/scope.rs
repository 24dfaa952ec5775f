//! Whom a controller serves, and what of the cluster's settings it shows to them.

use crate::admin::{ALL_NAMESPACES, Session};
use crate::catalog::{Catalog, Namespace, Subsystem};
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
    /// The namespace of that number, if it is one that hosts can use.
    pub(super) fn namespace(&self, nsid: u32) -> Option<&Arc<Namespace>> {
        self.subsystem.as_ref()?.namespace(nsid)
    }

    /// The namespaces that hosts can use, in order of their number.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &Arc<Namespace>> {
        self.subsystem.iter().flat_map(|subsystem| subsystem.sound())
    }

    /// The namespaces that a command names.
    pub(super) fn numbers(&self, nsid: u32) -> Vec<u32> {
        match nsid {
            ALL_NAMESPACES => self.namespaces().map(|namespace| namespace.nsid).collect(),
            _ => vec![nsid],
        }
    }
}
