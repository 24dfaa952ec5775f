//! What the sequencers of a core share.

use super::Health;
use crate::pace::Pacer;
use amita_types::recovery::Recovery;
use std::cell::{RefCell, RefMut};
use std::rc::Rc;

/// The care that a core's sequencers take of clients and of stores: the pace of background work, and what is known of
/// slow stores. They run one after the other on one thread: nothing is locked.
#[derive(Clone, Debug)]
pub struct Care {
    /// The pace.
    pub pacer: Pacer,
    health: Rc<RefCell<Health>>,
}

impl Care {
    /// Of one of `cores` that share a node's limits.
    #[must_use]
    pub fn new(settings: &Recovery, cores: u16) -> Care {
        Care {
            pacer: Pacer::new(settings, cores),
            health: Rc::default(),
        }
    }

    /// What is known of slow stores.
    ///
    /// # Panics
    /// When what an earlier call returned is still held.
    #[must_use]
    pub fn health(&self) -> RefMut<'_, Health> {
        self.health.borrow_mut()
    }
}
