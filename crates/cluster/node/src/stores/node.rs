//! Which core of a node serves which of its stores.

use amita_types::StoreId;

/// The stores of a node, as one of its cores has heard of them.
#[derive(Debug, Default)]
pub struct NodeStores {
    cores: Vec<(StoreId, usize)>,
    /// How many could not be mounted.
    unmounted: usize,
}

impl NodeStores {
    /// A core has begun to serve a store. One that was mounted anew is there already.
    pub fn serves(&mut self, store: StoreId, core: usize) {
        if !self.cores.contains(&(store, core)) {
            self.cores.push((store, core));
        }
    }

    /// A store could not be mounted.
    pub fn unmounted(&mut self) {
        self.unmounted += 1;
    }

    /// The core that serves a store, if it is one of this node.
    #[must_use]
    pub fn core_of(&self, store: StoreId) -> Option<usize> {
        let found = self.cores.iter().find(|(known, _)| *known == store);
        found.map(|(_, core)| *core)
    }

    /// The stores of this node.
    pub fn all(&self) -> impl Iterator<Item = StoreId> {
        self.cores.iter().map(|(store, _)| *store)
    }

    /// Is one of so many stores still being mounted? Then nobody knows yet that one that is asked for is none of them: to
    /// say so would cost a good store its place.
    #[must_use]
    pub fn may_still_come(&self, stores: usize) -> bool {
        self.cores.len() + self.unmounted < stores
    }
}
