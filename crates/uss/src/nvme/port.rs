//! One core's side of the target.

use super::catalog::Catalog;
use std::cell::RefCell;
use std::sync::Arc;

/// The settings of the target.
#[derive(Clone, Debug, Default)]
pub struct Config {}

/// One core's side of the target: what all its fronts share.
#[derive(Debug, Default)]
pub struct Port {
    catalog: RefCell<Arc<Catalog>>,
    config: Config,
}

impl Port {
    /// A port that knows of no subsystem yet.
    #[must_use]
    pub fn new(config: Config) -> Port {
        Port {
            catalog: RefCell::default(),
            config,
        }
    }

    /// The settings of the moment.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.borrow().clone()
    }

    /// Takes new settings. The caller then tells every front ([`crate::Event::Settings`]).
    pub fn set_catalog(&self, catalog: Arc<Catalog>) {
        *self.catalog.borrow_mut() = catalog;
    }

    /// The settings of the target.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }
}
