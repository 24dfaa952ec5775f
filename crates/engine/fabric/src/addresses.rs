//! Where a peer is reached.

use amita_types::link::Network;
use std::net::SocketAddr;

/// The addresses of a peer: of one network, or of two that lead to the same process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// By the first network.
    pub first: SocketAddr,
    /// By the second, if there is one.
    pub second: Option<SocketAddr>,
}

impl Addresses {
    /// The address by that network.
    #[must_use]
    pub fn by(&self, network: Network) -> Option<SocketAddr> {
        match network {
            Network::First => Some(self.first),
            Network::Second => self.second,
        }
    }

    /// All of them.
    pub fn each(&self) -> impl Iterator<Item = SocketAddr> + use<> {
        [Some(self.first), self.second].into_iter().flatten()
    }
}

impl From<SocketAddr> for Addresses {
    fn from(first: SocketAddr) -> Addresses {
        Addresses { first, second: None }
    }
}
