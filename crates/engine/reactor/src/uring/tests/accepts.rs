//! What a listener takes of a flood, from many addresses of this machine (all of 127.0.0.0/8, RFC 1122, section 3.2.1.3).

use super::*;
use crate::admission::{AcceptLimits, Rate};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, connect, recv, socket_with};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

const LIMITS: AcceptLimits = AcceptLimits {
    strangers: Rate {
        per_second: 20,
        burst: 30,
    },
    source: Rate {
        per_second: 20,
        burst: 10,
    },
    known: Rate {
        per_second: 1000,
        burst: 1000,
    },
};
const KNOWN: Ipv4Addr = Ipv4Addr::new(127, 9, 0, 1);
const PATIENCE: Duration = Duration::from_secs(60);

fn stranger(number: u32) -> Ipv4Addr {
    Ipv4Addr::new(127, 1, (number / 250) as u8, (number % 250 + 1) as u8)
}

/// Begins to connect, from that address.
fn call(from: Ipv4Addr, to: SocketAddr) -> OwnedFd {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
    bind(&socket, &SocketAddrV4::new(from, 0)).unwrap();
    match connect(&socket, &to) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => socket,
        Err(error) => panic!("{error}"),
    }
}

/// Has it come to an end, connected or not?
fn is_closed(client: &OwnedFd) -> bool {
    match recv(client, &mut [0u8], RecvFlags::DONTWAIT) {
        Ok((_, count)) => count == 0,
        Err(error) => error != rustix::io::Errno::AGAIN,
    }
}

struct Flooded {
    bench: Bench,
    listener: ListenerId,
    address: SocketAddr,
    number: u32,
    taken: Vec<(SocketId, IpAddr)>,
}

impl Flooded {
    fn new(config: UringConfig) -> Flooded {
        Flooded::with(config, LIMITS)
    }

    fn with(config: UringConfig, limits: AcceptLimits) -> Flooded {
        let mut bench = Bench::new(config);
        let (listener, address) = bench.driver.listen("127.0.0.1:0".parse().unwrap(), Token(1)).unwrap();
        bench.driver.limit_accepts(listener, limits);
        bench.driver.set_known(listener, KNOWN.into(), true);
        bench.driver.poll(Wait::No, &mut bench.done);
        Flooded {
            bench,
            listener,
            address,
            number: 0,
            taken: Vec::new(),
        }
    }

    /// So many connect from there and are reset at once, before anybody has accepted them.
    fn resets(&mut self, from: Ipv4Addr, count: u32) {
        for _ in 0..count {
            sys::close_at_once(call(from, self.address));
        }
        self.pass();
    }

    /// So many strangers connect, each from another address, and go away.
    fn flood(&mut self, count: u32) {
        let calls: Vec<OwnedFd> = (0..count)
            .map(|_| {
                self.number += 1;
                call(stranger(self.number % 4000), self.address)
            })
            .collect();
        self.pass();
        drop(calls);
    }

    fn pass(&mut self) {
        self.bench.driver.poll(Wait::No, &mut self.bench.done);
        for done in self.bench.done.drain(..) {
            if let Outcome::Accepted { socket, peer } = done.outcome {
                self.taken.push((socket, peer.ip()));
            }
        }
    }

    fn strangers(&self) -> usize {
        self.taken
            .iter()
            .filter(|(_, peer)| *peer != IpAddr::from(KNOWN))
            .count()
    }

    fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Flooded) -> bool) {
        let by = Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(Instant::now() < by, "never: {what}");
            self.pass();
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn of_a_flood_as_many_are_taken_as_the_budget_has_and_it_comes_back() {
    each_way(|config| {
        let mut flooded = Flooded::new(config);
        let begun = flooded.bench.driver.now();
        flooded.until("the budget is used up", |flooded| {
            flooded.flood(100);
            flooded.bench.driver.counts().accepts.pauses > 0
        });
        for _ in 0..50 {
            flooded.flood(100);
        }
        let seconds = flooded.bench.driver.now().since(begun).as_secs_f64();
        let most = 31 + (20.0 * seconds).ceil() as usize;
        assert!(flooded.strangers() <= most, "{} of {most}", flooded.strangers());
        let counts = flooded.bench.driver.counts().accepts;
        assert_eq!(counts.taken as usize, flooded.taken.len());
        // Most of them cost nothing at all: the kernel has dropped them.
        assert!(counts.refused < 3000, "{counts:?}");
        // It comes back, for those who are patient: who meets it in a moment without the filter is closed at once, and calls again.
        let mut late: Vec<(Ipv4Addr, OwnedFd)> = (0..15)
            .map(|number| stranger(5000 + number))
            .map(|from| (from, call(from, flooded.address)))
            .collect();
        flooded.until("the late ones come in", |flooded| {
            late.retain_mut(|(from, client)| {
                let is_taken = flooded.taken.iter().any(|(_, peer)| *peer == IpAddr::from(*from));
                if !is_taken && is_closed(client) {
                    *client = call(*from, flooded.address);
                }
                !is_taken
            });
            late.is_empty()
        });
    });
}

#[test]
fn who_is_known_comes_in_during_a_flood() {
    let mut flooded = Flooded::new(UringConfig::default());
    flooded.until("the budget is used up", |flooded| {
        flooded.flood(100);
        flooded.bench.driver.counts().accepts.pauses > 0
    });
    for round in 0..20 {
        let client = call(KNOWN, flooded.address);
        flooded.until("who is known comes in", |flooded| {
            flooded.flood(20);
            flooded
                .taken
                .iter()
                .filter(|(_, peer)| *peer == IpAddr::from(KNOWN))
                .count()
                > round
        });
        drop(client);
    }
    // What was accepted meanwhile has no filter, which would look at each of its packets.
    let sockets: Vec<SocketId> = flooded.taken.iter().map(|(socket, _)| *socket).collect();
    for socket in sockets {
        let descriptor = flooded.bench.driver.sockets.descriptor(socket).expect("it is open");
        assert!(sys::detach_filter(descriptor).is_err(), "it has one");
    }
}

#[test]
fn who_becomes_known_during_a_flood_comes_in_then() {
    let mut flooded = Flooded::new(UringConfig::default());
    let (listener, late) = (flooded.listener, Ipv4Addr::new(127, 9, 0, 2));
    flooded.until("the budget is used up", |flooded| {
        flooded.flood(100);
        flooded.bench.driver.counts().accepts.pauses > 0
    });
    flooded.bench.driver.set_known(listener, late.into(), true);
    let _client = call(late, flooded.address);
    flooded.until("he comes in", |flooded| {
        flooded.flood(20);
        flooded.taken.iter().any(|(_, peer)| *peer == IpAddr::from(late))
    });
}

#[test]
fn connections_that_are_reset_at_once_cost_whoever_makes_them() {
    each_way(|config| {
        let source = Rate {
            per_second: 5,
            burst: 5,
        };
        let mut flooded = Flooded::with(config, AcceptLimits { source, ..LIMITS });
        let (one, begun) = (stranger(1), flooded.bench.driver.now());
        let mut clients = Vec::new();
        for round in 0..40 {
            flooded.resets(one, 50);
            let other = stranger(1000 + round);
            assert!(flooded.bench.driver.passes(flooded.listener, other.into()));
            if round % 4 == 0 {
                clients.push(call(other, flooded.address));
                clients.push(call(KNOWN, flooded.address));
            }
        }
        // Nobody else is kept out, be he known or not; but for one or two, perhaps, that share a bucket with the one.
        flooded.until("others come in", |flooded| flooded.taken.len() >= 18);
        let seconds = flooded.bench.driver.now().since(begun).as_secs_f64();
        let counts = flooded.bench.driver.counts().accepts;
        assert!(counts.pauses > 0);
        // As many as came before the rule, whenever there was none: not 2000.
        let most = (2 + (4.0 * seconds) as u64) * 50 + 10;
        assert!(counts.refused <= most, "{counts:?} in {seconds} s");
    });
}

#[test]
fn from_a_known_address_connections_that_are_reset_at_once_have_a_bound_too() {
    let mut flooded = Flooded::new(UringConfig::default());
    let second = Ipv4Addr::new(127, 9, 0, 2);
    flooded.bench.driver.set_known(flooded.listener, second.into(), true);
    let begun = flooded.bench.driver.now();
    flooded.until("strangers are kept out", |flooded| {
        flooded.flood(100);
        flooded.bench.driver.counts().accepts.pauses > 0
    });
    let before = flooded.bench.driver.counts().accepts.refused;
    for _ in 0..100 {
        flooded.resets(KNOWN, 50);
    }
    let _client = call(second, flooded.address);
    flooded.until("others who are known come in", |flooded| {
        flooded.taken.iter().any(|(_, peer)| *peer == IpAddr::from(second))
    });
    let seconds = flooded.bench.driver.now().since(begun).as_secs_f64();
    let refused = flooded.bench.driver.counts().accepts.refused - before;
    // A quarter of what all who are known have.
    let most = 250 + (2.0 + 4.0 * seconds) as u64 * 50 + (250.0 * seconds) as u64;
    assert!(refused >= 200 && refused <= most, "{refused} of {most}, in {seconds} s");
}

#[test]
fn the_kernel_says_whence_one_came_who_is_gone() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(listener) = std::net::TcpListener::bind(address) else {
            eprintln!("{address} is not here: not tested");
            continue;
        };
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let from = client.local_addr().unwrap();
        sys::close_at_once(client.into());
        let gone = OwnedFd::from(listener.accept().unwrap().0);
        assert!(sys::peer_address(&gone).is_err(), "it has been reset");
        assert_eq!(sys::former_peer(&gone).unwrap(), from);
    }
}

#[test]
fn what_is_accepted_has_the_options_of_its_listener() {
    let mut bench = Bench::new(UringConfig::default());
    let (_, address) = bench.driver.listen("127.0.0.1:0".parse().unwrap(), Token(1)).unwrap();
    let _client = TcpStream::connect(address).unwrap();
    let Outcome::Accepted { socket, .. } = bench.wait(1) else {
        panic!("nobody came")
    };
    let descriptor = bench.driver.sockets.descriptor(socket).expect("it is open");
    let stream = TcpStream::from(descriptor.try_clone().unwrap());
    assert!(stream.nodelay().unwrap());
    assert!(rustix::net::sockopt::socket_keepalive(&stream).unwrap());
    assert_eq!(
        rustix::net::sockopt::tcp_keepidle(&stream).unwrap(),
        Duration::from_secs(60)
    );
    assert_eq!(
        rustix::net::sockopt::tcp_keepintvl(&stream).unwrap(),
        Duration::from_secs(10)
    );
    assert_eq!(rustix::net::sockopt::tcp_keepcnt(&stream).unwrap(), 3);
}
