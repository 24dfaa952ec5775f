//! Who may call this core during a flood of strangers: the driver is told, so that nobody is accepted in vain.

use super::{Fabric, Operation, token};
use crate::connection::{Connection, Phase};
use amita_reactor::{Driver, ListenerId};
use amita_types::link::Network;
use arrayvec::ArrayVec;
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// The addresses whose connections do not count as strangers'.
#[derive(Debug, Default)]
pub(super) struct Callers {
    /// One for each network.
    listeners: ArrayVec<ListenerId, 2>,
    /// Those that the driver was told of.
    known: BTreeSet<IpAddr>,
    /// Peers or links have come or gone since.
    stale: bool,
}

impl Fabric {
    /// Lets peers connect. Returns the bound address.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn listen(&mut self, driver: &mut dyn Driver, address: SocketAddr) -> io::Result<SocketAddr> {
        self.listen_by(driver, Network::First, address)
    }

    /// The same by one of two networks, each of which is listened to once. Either has the bounds of accepts for itself, so that a flood
    /// of strangers by one network keeps out nobody by the other; those of handshakes hold for both together.
    ///
    /// # Errors
    /// The address cannot be bound, or somebody listens to both networks already.
    pub fn listen_by(
        &mut self,
        driver: &mut dyn Driver,
        network: Network,
        address: SocketAddr,
    ) -> io::Result<SocketAddr> {
        if self.callers.listeners.is_full() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let (listener, bound) = driver.listen(address, token(Operation::Accept, network.index() as u64))?;
        driver.limit_accepts(listener, self.config.limits.accepts);
        self.callers.listeners.push(listener);
        // Whoever listens anew has been told of nobody.
        self.callers.known.clear();
        self.callers_changed();
        Ok(bound)
    }

    /// The driver is told at the end of the pass.
    pub(super) fn callers_changed(&mut self) {
        self.callers.stale = true;
    }

    /// Tells the driver whose addresses are known now: those of peers, and those that links have come from.
    pub(super) fn tell_callers(&mut self, driver: &mut dyn Driver) {
        if self.callers.listeners.is_empty() || !self.callers.stale {
            return;
        }
        self.callers.stale = false;
        let is_link = |connection: &&Connection| connection.phase == Phase::Up && !connection.outgoing;
        let connections = self.slots.iter().filter_map(Option::as_deref).filter(is_link);
        let callers = connections.filter_map(|connection| connection.address);
        let of = |address: SocketAddr| address.ip().to_canonical();
        let peers: BTreeSet<IpAddr> = self.peer_addresses().map(of).collect();
        let known: BTreeSet<IpAddr> = callers.map(of).chain(peers.iter().copied()).collect();
        let listeners = self.callers.listeners.clone();
        let mut tell = |address: IpAddr, is_known: bool| {
            for listener in &listeners {
                driver.set_known(*listener, address, is_known);
            }
        };
        for gone in self.callers.known.difference(&known) {
            tell(*gone, false);
        }
        // Where there is no room for all, there is for those that were known first.
        let new = known.difference(&self.callers.known).copied();
        let (nodes, others): (Vec<IpAddr>, Vec<IpAddr>) = new.partition(|new| peers.contains(new));
        for new in nodes.into_iter().chain(others) {
            tell(new, true);
        }
        self.callers.known = known;
    }
}
