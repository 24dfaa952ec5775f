//! Free ports on loopback.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the range from which the kernel takes ports for outgoing connections, so that none of them takes a port
/// between our look and our use.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// A port that nobody listens on, not given out before by this process.
///
/// # Panics
/// When all of twelve thousand ports are taken.
#[must_use]
pub fn free() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Processes that look at the same time start at different places.
    let start = (std::process::id().wrapping_mul(37) % u32::from(COUNT)) as u16;
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        let port = FIRST + (start + step) % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port on 127.0.0.1 between {FIRST} and {}", FIRST + COUNT);
}

/// The first of several ports in a row that nobody listens on, none of them given out before by this process: a node of
/// several cores listens on as many.
///
/// # Panics
/// When all of twelve thousand ports are taken.
#[must_use]
pub fn free_row(count: u16) -> u16 {
    loop {
        let first = free();
        // Each one is the next, unless somebody else has it, or asks at the same time.
        if (1..count).all(|step| free() == first + step) {
            return first;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{free, free_row};
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
}
