//! Addresses of this machine that nobody else takes.

use socket2::{SockFilter, SockRef};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};

/// A loopback address that only this process uses. A port of 127.0.0.1 may be the source of somebody's connection by the time
/// that a server listens there; nobody connects from this one.
#[must_use]
pub fn own() -> IpAddr {
    let [_, a, b, c] = std::process::id().to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(127, 64 | a & 0x3f, b, c))
}

/// A free port of [`own`]: bound once and given back.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn free_address() -> SocketAddr {
    let listener = TcpListener::bind((own(), 0)).expect("loopback has ports");
    listener.local_addr().expect("it is bound")
}

/// The first of `count` free ports in a row of [`own`]: a node of several cores listens on as many.
///
/// # Panics
/// When there are none.
#[must_use]
pub fn free_row(count: u16) -> SocketAddr {
    for _ in 0..100 {
        let first = free_address();
        let ports = first.port()..=first.port().saturating_add(count - 1);
        if ports.len() == usize::from(count) && ports.clone().all(|port| TcpListener::bind((own(), port)).is_ok()) {
            return first;
        }
    }
    panic!("no {count} free ports in a row");
}

/// From now on nothing that is sent to this end reaches it, as when its machine has lost its power: packets are dropped before TCP sees
/// them (socket(7), `SO_ATTACH_FILTER`). What it sends itself still goes out.
///
/// # Errors
/// The kernel takes no filters.
pub fn vanish(end: &TcpStream) -> io::Result<()> {
    // BPF_RET | BPF_K of 0 bytes (linux/bpf_common.h).
    let nothing = SockFilter::new(0x06, 0, 0, 0);
    SockRef::from(end).attach_filter(&[nothing])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_free_and_nobody_elses() {
        let first = free_row(4);
        assert!(first.ip().is_loopback() && first.ip() != IpAddr::V4(Ipv4Addr::LOCALHOST));
        let listeners: Vec<_> = (first.port()..=first.port() + 3)
            .map(|port| TcpListener::bind((first.ip(), port)))
            .collect();
        assert!(listeners.iter().all(Result::is_ok), "{listeners:?}");
    }
}
