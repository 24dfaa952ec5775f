//! Who may call this core during a flood of strangers: the driver is told, so that nobody is accepted in vain.

use super::{Fabric, Operation, token};
use crate::connection::{Connection, Phase};
use amita_reactor::{Driver, ListenerId};
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// The addresses whose connections do not count as strangers'.
#[derive(Debug, Default)]
pub(super) struct Callers {
    listener: Option<ListenerId>,
    /// Those that the driver was told of.
    known: BTreeSet<IpAddr>,
    /// Peers or links have come or gone since.
    stale: bool,
}

impl Fabric {
    /// Lets peers connect. Returns the bound address.
    pub fn listen(&mut self, driver: &mut dyn Driver, address: SocketAddr) -> io::Result<SocketAddr> {
        let (listener, bound) = driver.listen(address, token(Operation::Accept, 0))?;
        driver.limit_accepts(listener, self.config.limits.accepts);
        self.callers.listener = Some(listener);
        self.callers_changed();
        Ok(bound)
    }

    /// The driver is told at the end of the pass.
    pub(super) fn callers_changed(&mut self) {
        self.callers.stale = true;
    }

    /// Tells the driver whose addresses are known now: those of peers, and those that links have come from.
    pub(super) fn tell_callers(&mut self, driver: &mut dyn Driver) {
        let Some(listener) = self.callers.listener.filter(|_| self.callers.stale) else {
            return;
        };
        self.callers.stale = false;
        let is_link = |connection: &&Connection| connection.phase == Phase::Up && !connection.outgoing;
        let connections = self.slots.iter().filter_map(Option::as_deref).filter(is_link);
        let callers = connections.filter_map(|connection| connection.address);
        let of = |address: SocketAddr| address.ip().to_canonical();
        let peers: BTreeSet<IpAddr> = self.peer_addresses().map(of).collect();
        let known: BTreeSet<IpAddr> = callers.map(of).chain(peers.iter().copied()).collect();
        for gone in self.callers.known.difference(&known) {
            driver.set_known(listener, *gone, false);
        }
        // Where there is no room for all, there is for those that were known first.
        let new = known.difference(&self.callers.known).copied();
        let (nodes, others): (Vec<IpAddr>, Vec<IpAddr>) = new.partition(|new| peers.contains(new));
        for new in nodes.into_iter().chain(others) {
            driver.set_known(listener, new, true);
        }
        self.callers.known = known;
    }
}
