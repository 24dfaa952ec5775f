//! What the kernel has counted of the links: asked for now and then, by whoever judges the network.

use super::Fabric;
use crate::connection::Phase;
use crate::event::Link;
use amita_reactor::Driver;
use amita_reactor::driver::PathCounts;
use amita_types::NodeId;
use amita_types::link::Network;

/// A link that is up, and what the kernel has counted of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkPath {
    /// Never another one's.
    pub link: Link,
    /// The node at the other end.
    pub peer: NodeId,
    /// By which network: of the peer's two where this end has connected, else of this end's.
    pub network: Network,
    /// Did this end connect?
    pub outgoing: bool,
    /// Since the link was made, in the direction in which this end sends.
    pub counts: PathCounts,
}

impl Fabric {
    /// Asks for the counts of links of either direction, of the places `from..from + most` of the table: one system call for each that
    /// is up. Says where to go on; `None`: that was the last place.
    pub fn paths(&self, driver: &mut dyn Driver, from: usize, most: usize, found: &mut Vec<LinkPath>) -> Option<usize> {
        let end = from.saturating_add(most).min(self.slots.len());
        let up = self.slots.get(from..end).unwrap_or_default().iter().flatten();
        for connection in up.filter(|connection| connection.phase == Phase::Up) {
            found.extend(driver.path(connection.socket).map(|counts| LinkPath {
                link: connection.link,
                peer: connection.peer,
                network: connection.network,
                outgoing: connection.outgoing,
                counts,
            }));
        }
        (end < self.slots.len()).then_some(end)
    }
}
