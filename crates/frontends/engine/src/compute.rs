//! What a front wants computed that takes milliseconds (the Diffie-Hellman exchange of an authentication): not where I/O is
//! done. It goes out by [`crate::StorageService::compute`] and comes back as [`crate::Event::Computed`].
//!
//! Whoever carries it out bounds how much of it is done for whom, since anybody who can connect can ask for it: by where the
//! front's host [connects from](source_of), and by what it [costs](Computation::cost).

use std::any::Any;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// What was computed: of a type that the front knows.
pub type Computed = Box<dyn Any + Send>;

/// Held by whoever waits for a computation: what nobody waits for any more need not be done.
#[derive(Debug)]
pub struct Wanted {
    _alive: Arc<()>,
}

/// Something to be computed, on whichever thread.
pub struct Computation {
    source: IpAddr,
    cost: Duration,
    alive: Weak<()>,
    run: Box<dyn FnOnce() -> Computed + Send>,
}

impl Computation {
    /// For a host that connects from `source`; it takes about `cost` of a processor.
    #[must_use]
    pub fn new<T: Any + Send>(
        source: IpAddr,
        cost: Duration,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> (Computation, Wanted) {
        let alive = Arc::new(());
        let computation = Computation {
            source: source_of(source),
            cost,
            alive: Arc::downgrade(&alive),
            run: Box::new(move || Box::new(run())),
        };
        (computation, Wanted { _alive: alive })
    }

    /// For whom: an address, or a network.
    #[must_use]
    pub fn source(&self) -> IpAddr {
        self.source
    }

    /// What it takes of a processor, about.
    #[must_use]
    pub fn cost(&self) -> Duration {
        self.cost
    }

    /// Does anybody still wait for it?
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.alive.strong_count() > 0
    }

    /// Computes.
    #[must_use]
    pub fn run(self) -> Computed {
        (self.run)()
    }
}

impl fmt::Debug for Computation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Computation")
            .field("source", &self.source)
            .field("cost", &self.cost)
            .finish_non_exhaustive()
    }
}

/// What is counted as one source: an IPv4 address, or an IPv6 network of 64 bits, since a host has all addresses of its own.
#[must_use]
pub fn source_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let bits = u128::from_be_bytes(address.octets()) >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from(bits))
        }
        four => four,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_what_one_host_has() {
        let source = |text: &str| source_of(text.parse().unwrap()).to_string();
        assert_eq!(source("192.0.2.1"), "192.0.2.1");
        assert_eq!(source("::ffff:192.0.2.1"), "192.0.2.1");
        assert_eq!(source("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(source("2001:db8:1:2::"), "2001:db8:1:2::");
        assert_ne!(source("2001:db8:1:3::1"), source("2001:db8:1:2::1"));
    }

    #[test]
    fn what_nobody_waits_for_is_not_wanted() {
        let (computation, wanted) = Computation::new([192, 0, 2, 1].into(), Duration::from_micros(500), || 7_u32);
        assert!(computation.is_wanted());
        drop(wanted);
        assert!(!computation.is_wanted());
        assert_eq!(computation.run().downcast::<u32>().ok(), Some(Box::new(7)));
    }
}
