use super::*;
use crate::buf::{PoolConfig, Slice};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Instant;

mod accepts;
mod discards;
mod files;
mod sockets;
mod waiting;

fn pool() -> Pool {
    Pool::new(PoolConfig::with_total(16 << 20)).unwrap()
}

/// A driver and what it has completed and nobody has asked for yet.
struct Bench {
    driver: UringDriver,
    done: Vec<Completion>,
}

impl Bench {
    fn new(config: UringConfig) -> Bench {
        Bench {
            driver: UringDriver::new(config, pool()).unwrap(),
            done: Vec::new(),
        }
    }

    /// Polls until there is a completion with this token; anything else is kept.
    fn wait(&mut self, token: u64) -> Outcome {
        let started = Instant::now();
        loop {
            if let Some(at) = self.done.iter().position(|done| done.token == Token(token)) {
                return self.done.remove(at).outcome;
            }
            assert!(
                started.elapsed() < Duration::from_secs(20),
                "token {token} did not complete"
            );
            let guard = self
                .driver
                .timer(self.driver.now().plus(Duration::from_secs(1)), Token(u64::MAX));
            self.driver.poll(Wait::UntilEvent, &mut self.done);
            self.driver.cancel_timer(guard);
            self.done.retain(|done| done.token != Token(u64::MAX));
        }
    }

    /// Polls for a time and gives what completed.
    fn run(&mut self, length: Duration) -> Vec<Completion> {
        let until = Instant::now() + length;
        while Instant::now() < until {
            self.driver
                .timer(self.driver.now().plus(Duration::from_millis(5)), Token(u64::MAX));
            self.driver.poll(Wait::UntilEvent, &mut self.done);
        }
        self.done.retain(|done| done.token != Token(u64::MAX));
        std::mem::take(&mut self.done)
    }

    /// A stream of the driver whose other end is an ordinary socket.
    fn stream(&mut self) -> (SocketId, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        self.driver.connect(listener.local_addr().unwrap(), Token(1));
        match self.wait(1) {
            Outcome::Connected { result } => (result.unwrap(), listener.accept().unwrap().0),
            other => panic!("{other:?}"),
        }
    }

    fn receive(&mut self, socket: SocketId, token: u64) {
        let buffer = self.driver.pool().take(64 << 10).unwrap();
        self.driver.receive(socket, buffer, Token(token));
    }

    fn received(&mut self, token: u64) -> io::Result<Vec<u8>> {
        match self.wait(token) {
            Outcome::Received { buffer, result } => result.map(|count| buffer[..count].to_vec()),
            other => panic!("{other:?}"),
        }
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| (at as u32).wrapping_mul(2_654_435_761).to_le_bytes()[2])
        .collect()
}

/// Both ways of running the ring must behave the same.
fn each_way(test: impl Fn(UringConfig)) {
    for defer_taskrun in [false, true] {
        for poll_first in [false, true] {
            test(UringConfig {
                defer_taskrun,
                poll_first,
                ..UringConfig::default()
            });
        }
    }
}

#[test]
fn a_driver_may_move_to_its_thread() {
    fn is_send<T: Send>(_: &T) {}
    let mut bench = Bench::new(UringConfig::default());
    let (listener, address) = bench.driver.listen("127.0.0.1:0".parse().unwrap(), Token(7)).unwrap();
    assert_eq!(listener, ListenerId(0));
    is_send(&bench.driver);
    let thread = std::thread::spawn(move || {
        let _client = TcpStream::connect(address).unwrap();
        matches!(bench.wait(7), Outcome::Accepted { .. })
    });
    assert!(thread.join().unwrap());
}

/// Nobody suspends a machine in a test. But the kernel tells for how long this one is up, with the time that it has slept
/// since then: the clock that drivers read says the same.
#[test]
fn the_clock_counts_what_the_machine_sleeps() {
    let up_ns = || {
        let text = std::fs::read_to_string("/proc/uptime").unwrap();
        let seconds: f64 = text.split(' ').next().unwrap().parse().unwrap();
        (seconds * 1e9) as u64
    };
    let rounded = 10_000_000;
    let before = up_ns();
    let read = super::sys::clock_ns();
    let after = up_ns() + rounded;
    assert!((before..=after).contains(&read), "{before}, {read}, {after}");
}
