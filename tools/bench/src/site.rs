//! The cluster as what cases are run on.

use crate::case::Case;
use crate::client::{Clients, Running};
use crate::measure::SystemUnderTest;
use crate::testbed::{Stores, Testbed};
use crate::usage::Watched;
use amita_terminal::error::Result;
use std::time::Duration;

/// A cluster, and the clients that work on it.
pub struct Site {
    // The clients end first: they belong to the cluster.
    clients: Clients,
    /// The cluster.
    pub testbed: Testbed,
    size_bytes: u64,
}

impl Site {
    /// `size_bytes` are worked on in all: several volumes share them.
    #[must_use]
    pub fn new(testbed: Testbed, clients: Clients, size_bytes: u64) -> Site {
        Site {
            clients,
            testbed,
            size_bytes,
        }
    }

    pub fn clients(&mut self) -> &mut Clients {
        &mut self.clients
    }

    /// The cluster, when the clients are not needed any more.
    #[must_use]
    pub fn into_testbed(self) -> Testbed {
        drop(self.clients);
        self.testbed
    }

    /// Bytes of each volume that a case works on: whole blocks of any size.
    #[must_use]
    pub fn region_bytes(&self, case: &Case) -> u64 {
        const LARGEST_BLOCK: u64 = 1 << 20;
        (self.size_bytes / u64::from(case.volumes) / LARGEST_BLOCK).max(1) * LARGEST_BLOCK
    }
}

impl SystemUnderTest for Site {
    fn watched(&self) -> Vec<Watched> {
        self.testbed.watched()
    }

    fn stores(&self) -> Option<Stores> {
        self.testbed.stores().ok()
    }

    fn ready(&mut self, case: &Case) -> Result<()> {
        let region = self.region_bytes(case);
        self.clients.ready(&self.testbed, case, region)
    }

    fn start(&mut self, case: &Case, time: Duration) -> Result<Running<'_>> {
        let region = self.region_bytes(case);
        self.clients.start(&self.testbed, case, region, time)
    }
}
