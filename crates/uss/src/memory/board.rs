//! The register of NVMe controllers, shared by all connections, which may be on different threads.

use crate::nvme::{Call, Catalog, Hub, Mouth, Word};
use crate::service::FrontId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
struct Inner {
    hub: Hub,
    catalog: Arc<Catalog>,
    /// What was said and not taken.
    said: BTreeMap<FrontId, Vec<(u64, Word)>>,
}

/// A register with the settings of the moment.
#[derive(Clone, Debug, Default)]
pub struct Board(Arc<Mutex<Inner>>);

impl Board {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes new settings.
    pub fn set_catalog(&self, catalog: Arc<Catalog>) {
        self.lock().catalog = catalog;
    }

    /// The settings.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.lock().catalog.clone()
    }

    /// How many controllers there are.
    #[must_use]
    pub fn controllers(&self) -> usize {
        self.lock().hub.controllers()
    }

    /// A front asks.
    pub fn call(&self, front: FrontId, tag: u64, call: Call) {
        let inner = &mut *self.lock();
        let leaves = matches!(call, Call::Leave);
        inner.hub.call(Mouth { core: 0, front }, tag, call, &inner.catalog);
        while let Some((mouth, tag, word)) = inner.hub.next_word() {
            inner.said.entry(mouth.front).or_default().push((tag, word));
        }
        if leaves {
            // Nobody is there any more to hear it.
            inner.said.remove(&front);
        }
    }

    /// What was said to a front.
    #[must_use]
    pub fn take(&self, front: FrontId) -> Vec<(u64, Word)> {
        self.lock().said.remove(&front).unwrap_or_default()
    }
}
