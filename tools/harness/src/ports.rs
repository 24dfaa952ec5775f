//! Free ports on loopback.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Mutex, PoisonError};

/// Below the range from which the kernel takes ports for outgoing connections, so that none of them takes a port
/// between our look and our use.
const FIRST: u16 = 20_000;
/// Ports are claimed by the block: a claim is one open socket.
const BLOCK: u16 = 16;
const BLOCKS: u16 = 750;

/// What this process has claimed and has not given out yet.
#[derive(Debug)]
struct Ports {
    /// What holds each block, until this process ends: nothing is left of it then, however it ends.
    claims: BTreeMap<u16, UnixDatagram>,
    next: u16,
}

impl Ports {
    const fn new() -> Ports {
        Ports {
            claims: BTreeMap::new(),
            next: 0,
        }
    }

    /// The next port that nobody listens on, in a block that nobody else has claimed.
    fn take(&mut self) -> u16 {
        // Processes that look at the same time start at different places.
        let start = (std::process::id().wrapping_mul(7) % u32::from(BLOCKS)) as u16;
        let mut looked_at = 0;
        while looked_at < BLOCKS * BLOCK {
            let step = self.next % (BLOCKS * BLOCK);
            let block = (start + step / BLOCK) % BLOCKS;
            if !self.claim(block) {
                let skipped = BLOCK - step % BLOCK;
                self.next = step + skipped;
                looked_at += skipped;
                continue;
            }
            self.next = step + 1;
            looked_at += 1;
            let port = FIRST + block * BLOCK + step % BLOCK;
            if TcpListener::bind(("127.0.0.1", port)).is_ok() {
                return port;
            }
        }
        panic!(
            "no free port on 127.0.0.1 between {FIRST} and {}",
            FIRST + BLOCKS * BLOCK
        );
    }

    /// Whether the block is this process's: a node that is killed and started again finds its port as it left it,
    /// and nobody else answers there in the meantime. An abstract name is bound by one socket of the machine at a
    /// time (unix(7)).
    fn claim(&mut self, block: u16) -> bool {
        if self.claims.contains_key(&block) {
            return true;
        }
        let name = format!("amita-test-ports-{}", FIRST + block * BLOCK);
        let held = SocketAddr::from_abstract_name(name).and_then(|name| UnixDatagram::bind_addr(&name));
        held.map(|held| self.claims.insert(block, held)).is_ok()
    }
}

static PORTS: Mutex<Ports> = Mutex::new(Ports::new());

/// A port that nobody listens on, not given out before by this process, nor by another one until this one ends.
///
/// # Panics
/// When all of twelve thousand ports are taken.
#[must_use]
pub fn free() -> u16 {
    PORTS.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// The first of several ports in a row as [`free`] gives them: a node of several cores listens on as many.
///
/// # Panics
/// When all of twelve thousand ports are taken.
#[must_use]
pub fn free_row(count: u16) -> u16 {
    let mut ports = PORTS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut first = ports.take();
    let mut length = 1;
    while length < count {
        let port = ports.take();
        if port == first + length {
            length += 1;
        } else {
            (first, length) = (port, 1);
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, Ports, free, free_row};
    use std::net::TcpListener;

    #[test]
    fn a_row_is_free_and_given_out_once() {
        let (one, two) = (free_row(4), free_row(4));
        assert!(one.abs_diff(two) >= 4, "{one} and {two}");
        let listeners: Vec<_> = (one..one + 4)
            .map(|port| TcpListener::bind(("127.0.0.1", port)))
            .collect();
        assert!(listeners.iter().all(Result::is_ok), "{listeners:?}");
        assert!(!(one..one + 4).contains(&free()));
    }

    #[test]
    fn a_block_is_one_ones_for_as_long_as_it_lives() {
        let (mut one, mut two) = (Ports::new(), Ports::new());
        let taken: Vec<_> = (0..3 * BLOCK).map(|_| one.take()).collect();
        assert!(one.claims.len() >= 3);
        // The other one begins at the same place, and nobody listens on any of these.
        let others: Vec<_> = (0..3 * BLOCK).map(|_| two.take()).collect();
        assert!(
            others.iter().all(|port| !taken.contains(port)),
            "{taken:?} and {others:?}"
        );
        let block = *one.claims.keys().next().expect("a block");
        assert!(!two.claim(block));
        drop(one);
        assert!(two.claim(block));
    }
}
