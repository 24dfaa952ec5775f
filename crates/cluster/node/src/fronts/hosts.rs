//! Connections of hosts: how many are taken, and whose are taken while strangers flood.

use amita_reactor::driver::{Driver, ListenerId};
use amita_reactor::{AcceptLimits, Rate};
use rustc_hash::FxHashMap;
use std::net::IpAddr;

/// Connections that a listener of NBD or NVMe takes in a second, on one core. One costs it some 40 us until it is closed again, so that
/// strangers take 0.4 % of the core in the long run, and 40 ms after a pause. After a pause as many come at once as places are
/// for them ([`super::MAX_STRANGERS`]): hosts of a gateway that was started anew, which nobody knows yet. One address has twice what it has
/// places for, so that whoever makes too many is told so. Hosts that have shown that they may be here are spared all that; together
/// they may make the queues of ten of the largest controllers in a second.
pub const ACCEPTS: AcceptLimits = AcceptLimits {
    strangers: Rate {
        per_second: 100,
        burst: super::MAX_STRANGERS as u32,
    },
    source: Rate {
        per_second: 50,
        burst: 2 * super::MAX_STRANGERS_OF_SOURCE as u32,
    },
    known: Rate {
        per_second: 1280,
        burst: 2048,
    },
};

/// Addresses that are kept of hosts that have shown that they may be here.
const MAX_KNOWN: usize = 512;

/// The connections of hosts.
#[derive(Default)]
pub(super) struct Hosts {
    /// Sessions with a socket.
    pub sockets: usize,
    listeners: Vec<ListenerId>,
    /// Where hosts are or were that have shown that they may be here.
    known: FxHashMap<IpAddr, Known>,
    /// Grows with each that leaves.
    left: u64,
    /// Addresses that are known here since, of which other cores are to be told: they have the same port.
    learned: Vec<IpAddr>,
}

#[derive(Clone, Copy, Default)]
struct Known {
    sessions: u32,
    /// When the last of them ended, as [`Hosts::left`] counts.
    left: u64,
}

impl Hosts {
    /// Bounds what a listener takes.
    pub fn listens(&mut self, driver: &mut dyn Driver, listener: ListenerId) {
        driver.limit_accepts(listener, ACCEPTS);
        for address in self.known.keys() {
            driver.set_known(listener, *address, true);
        }
        self.listeners.push(listener);
    }

    /// A host at that address has shown that it may be here.
    pub fn has_shown(&mut self, driver: &mut dyn Driver, address: IpAddr) {
        let address = address.to_canonical();
        if let Some(known) = self.known.get_mut(&address) {
            known.sessions += 1;
            return;
        }
        self.learned.push(address);
        self.add(driver, address, Known { sessions: 1, left: 0 });
    }

    /// It has shown that at another core.
    pub fn has_shown_elsewhere(&mut self, driver: &mut dyn Driver, address: IpAddr) {
        self.left += 1;
        let left = self.left;
        match self.known.get_mut(&address) {
            Some(known) => known.left = left,
            None => self.add(driver, address, Known { sessions: 0, left }),
        }
    }

    /// What other cores are to be told.
    pub fn take_learned(&mut self) -> Vec<IpAddr> {
        std::mem::take(&mut self.learned)
    }

    fn add(&mut self, driver: &mut dyn Driver, address: IpAddr, host: Known) {
        if self.known.len() >= MAX_KNOWN {
            // Whoever has been away for longest makes room; where all are here, one more is no stranger, and not known.
            let away = self.known.iter().filter(|(_, known)| known.sessions == 0);
            let Some(longest) = away.min_by_key(|(_, known)| known.left).map(|(address, _)| *address) else {
                return;
            };
            self.known.remove(&longest);
            self.tell(driver, longest, false);
        }
        self.known.insert(address, host);
        self.tell(driver, address, true);
    }

    /// The session of such a host has ended. It stays known: it may come again.
    pub fn has_left(&mut self, address: IpAddr) {
        self.left += 1;
        if let Some(known) = self.known.get_mut(&address.to_canonical()) {
            known.sessions = known.sessions.saturating_sub(1);
            known.left = self.left;
        }
    }

    fn tell(&self, driver: &mut dyn Driver, address: IpAddr, is_known: bool) {
        for listener in &self.listeners {
            driver.set_known(*listener, address, is_known);
        }
    }
}

#[cfg(test)]
mod tests;
