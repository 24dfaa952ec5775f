//! The network between nodes, and between hosts and gateways: each port is reached through a forwarder of ours, where bytes
//! are delayed, held up, and cut off in the middle of a frame.
//!
//! A forwarder knows who dials: the first frame of a link is the dialler's hello (docs/protocol-wire.md), which names its
//! node. So the weather is set for each pair and each direction of asking. TCP keeps the order of bytes; a message that a
//! lossy link drops is one that comes later, and holds up all behind it. That is what [`Weather::late`] does.

use amita_sim::random::Random;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The dialler's node in its hello: a frame's prefix of 16 bytes, then cluster (16) and session (8).
const HELLO_NODE: std::ops::Range<usize> = 40..44;
/// Who dials, where that is not asked for: a host.
pub const HOST: u32 = u32::MAX;
/// How often a forwarder looks for new connections and for what it is told.
const LOOK: Duration = Duration::from_millis(5);
/// How long a quiet connection is waited for before it is cut all the same.
const QUIET: Duration = Duration::from_millis(50);
const CHUNK_BYTES: usize = 64 << 10;

/// What it is like between a node that dials and one that is dialled. The default: nothing is wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weather {
    /// Every piece takes so much longer.
    pub delay: Duration,
    /// So many of a thousand pieces come later by that much.
    pub late: (u64, Duration),
    /// So many bytes a second pass on each link, in each direction; zero: as many as come.
    pub bytes_per_s: u64,
    /// What the dialler says stays on the way.
    pub holds_questions: bool,
    /// What the dialled node says stays on the way.
    pub holds_answers: bool,
}

/// Which way bytes go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Questions,
    Answers,
}

/// What is spoken on a forwarder's links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speech {
    /// The fabric: the dialler's hello says which node it is.
    Fabric,
    /// A protocol of hosts, which are not told apart: all of them count as [`HOST`]. (In NBD the server speaks first.)
    Hosts,
}

/// One link through a forwarder.
struct Link {
    /// The node that dialled.
    from: u32,
    dialler: TcpStream,
    target: TcpStream,
    /// It is to break in the middle of what comes next.
    cut: AtomicBool,
    over: AtomicBool,
}

impl Link {
    fn end(&self) {
        self.over.store(true, Ordering::Release);
        // Either may be gone already.
        let _ = self.dialler.shutdown(Shutdown::Both);
        let _ = self.target.shutdown(Shutdown::Both);
    }
}

#[derive(Default)]
struct Shared {
    weather: Mutex<BTreeMap<u32, Weather>>,
    changed: Condvar,
    links: Mutex<Vec<Arc<Link>>>,
    /// Does anybody listen behind it? If not, nobody listens here either.
    open: AtomicBool,
    stop: AtomicBool,
    cut_links: AtomicU64,
    late_pieces: AtomicU64,
    held_pieces: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn weather(&self, from: u32) -> Weather {
        lock(&self.weather).get(&from).copied().unwrap_or_default()
    }

    /// Waits as the weather makes a piece of so many bytes wait.
    fn wait(&self, link: &Link, way: Way, bytes: usize, random: &mut Random) {
        let weather = self.weather(link.from);
        let passing_us = (bytes as u64 * 1_000_000).checked_div(weather.bytes_per_s);
        let mut time = weather.delay + Duration::from_micros(passing_us.unwrap_or(0));
        if random.below(1000) < weather.late.0 {
            self.late_pieces.fetch_add(1, Ordering::Relaxed);
            time += weather.late.1;
        }
        let until = Instant::now() + time;
        let mut held = false;
        let mut all = lock(&self.weather);
        loop {
            let weather = all.get(&link.from).copied().unwrap_or_default();
            let holds = match way {
                Way::Questions => weather.holds_questions,
                Way::Answers => weather.holds_answers,
            };
            let left = until.saturating_duration_since(Instant::now());
            if (!holds && left.is_zero()) || link.over.load(Ordering::Acquire) || self.stop.load(Ordering::Acquire) {
                break;
            }
            held |= holds;
            let time = if holds { QUIET } else { left };
            all = self
                .changed
                .wait_timeout(all, time)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        if held {
            self.held_pieces.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Carries bytes one way until the link ends.
    fn carry(&self, link: &Link, way: Way, mut random: Random) {
        let (mut from, mut to) = match way {
            Way::Questions => (&link.dialler, &link.target),
            Way::Answers => (&link.target, &link.dialler),
        };
        let mut bytes = vec![0; CHUNK_BYTES];
        loop {
            let read = from.read(&mut bytes);
            let length = match read {
                Ok(0) => break,
                Ok(length) => length,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if link.over.load(Ordering::Acquire) || link.cut.load(Ordering::Acquire) {
                        break;
                    }
                    continue;
                }
                Err(_) => break,
            };
            self.wait(link, way, length, &mut random);
            if link.over.load(Ordering::Acquire) {
                break;
            }
            if link.cut.swap(false, Ordering::AcqRel) {
                // No frame is shorter than 24 bytes: without its last few the last one is not whole. Or anywhere.
                let most = if random.percent(50) { length.min(23) } else { length };
                let kept = length - random.within(1, most as u64) as usize;
                let _ = to.write_all(&bytes[..kept]);
                self.cut_links.fetch_add(1, Ordering::Relaxed);
                return link.end();
            }
            if to.write_all(&bytes[..length]).is_err() {
                break;
            }
        }
        // Where nothing passes, word of the end does not pass either: the other one goes on believing in the link.
        self.wait(link, Way::Questions, 0, &mut random);
        self.wait(link, Way::Answers, 0, &mut random);
        link.end();
    }
}

/// A forwarder to one node.
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Listens at `address` and forwards to `target`.
    pub fn start(address: SocketAddr, target: SocketAddr, speech: Speech, seed: u64) -> Proxy {
        let shared = Arc::new(Shared::default());
        shared.open.store(true, Ordering::Release);
        let behind = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("proxy".to_owned())
            .spawn(move || listen(&behind, address, target, speech, &Random::new(seed)))
            .expect("a thread");
        Proxy {
            shared,
            address,
            thread: Some(thread),
        }
    }

    /// Where it is reached.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on it is like this for what the node numbered `from` dials.
    pub fn set(&self, from: u32, weather: Weather) {
        lock(&self.shared.weather).insert(from, weather);
        self.shared.changed.notify_all();
    }

    /// Nothing is wrong any more.
    pub fn clear(&self) {
        lock(&self.shared.weather).clear();
        self.shared.changed.notify_all();
    }

    /// Breaks the links that this node has dialled, in the middle of what they carry next. All links without a node.
    pub fn cut(&self, from: Option<u32>) {
        for link in lock(&self.shared.links).iter() {
            if from.is_none_or(|from| from == link.from) {
                link.cut.store(true, Ordering::Release);
            }
        }
    }

    /// The process behind it is gone: connections end, and further ones are refused, as the kernel does.
    pub fn close(&self) {
        self.shared.open.store(false, Ordering::Release);
        lock(&self.shared.links).drain(..).for_each(|link| link.end());
    }

    /// There is a process behind it again.
    pub fn open(&self) {
        self.shared.open.store(true, Ordering::Release);
    }

    /// Links that were cut, pieces that came late, pieces that were held: so far.
    pub fn counts(&self) -> (u64, u64, u64) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (
            count(&self.shared.cut_links),
            count(&self.shared.late_pieces),
            count(&self.shared.held_pieces),
        )
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.close();
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen(shared: &Arc<Shared>, address: SocketAddr, target: SocketAddr, speech: Speech, random: &Random) {
    let mut listener: Option<TcpListener> = None;
    let mut number = 0;
    while !shared.stop.load(Ordering::Acquire) {
        if !shared.open.load(Ordering::Acquire) {
            listener = None;
            std::thread::sleep(LOOK);
            continue;
        }
        let listening = match &listener {
            Some(listening) => listening,
            None => match TcpListener::bind(address) {
                Ok(bound) => {
                    bound.set_nonblocking(true).expect("a listener that does not block");
                    listener.insert(bound)
                }
                Err(_) => {
                    std::thread::sleep(LOOK);
                    continue;
                }
            },
        };
        match listening.accept() {
            Ok((dialler, _)) => {
                number += 1;
                let (shared, random) = (Arc::clone(shared), random.fork(number));
                // It ends with the link; the links end with the forwarder.
                let _ = std::thread::Builder::new()
                    .name("link".to_owned())
                    .spawn(move || serve(&shared, dialler, target, speech, &random));
            }
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}

/// One link: the dialler's hello tells who it is, where it says one, then both ways are carried.
fn serve(shared: &Arc<Shared>, mut dialler: TcpStream, target: SocketAddr, speech: Speech, random: &Random) {
    let prepared = dialler
        .set_nonblocking(false)
        .and_then(|()| dialler.set_nodelay(true))
        .and_then(|()| dialler.set_read_timeout(Some(Duration::from_secs(2))));
    let mut hello = Vec::new();
    let mut from = HOST;
    if speech == Speech::Fabric {
        hello.resize(HELLO_NODE.end, 0);
        if dialler.read_exact(&mut hello).is_err() {
            return;
        }
        from = u32::from_le_bytes(hello[HELLO_NODE].try_into().expect("four bytes"));
    }
    if prepared.is_err() {
        return;
    }
    let Ok(mut target) = TcpStream::connect_timeout(&target, Duration::from_secs(1)) else {
        return;
    };
    let prepared = target
        .set_nodelay(true)
        .and_then(|()| target.set_read_timeout(Some(QUIET)))
        .and_then(|()| dialler.set_read_timeout(Some(QUIET)));
    if prepared.is_err() {
        return;
    }
    let mut link = Link {
        from,
        dialler,
        target: target.try_clone().expect("a descriptor"),
        cut: AtomicBool::new(false),
        over: AtomicBool::new(false),
    };
    shared.wait(&link, Way::Questions, 0, &mut random.fork(0));
    if target.write_all(&hello).is_err() {
        return;
    }
    link.target = target;
    let link = Arc::new(link);
    {
        let mut links = lock(&shared.links);
        links.retain(|link| !link.over.load(Ordering::Acquire));
        links.push(Arc::clone(&link));
    }
    if !shared.open.load(Ordering::Acquire) {
        link.end();
    }
    std::thread::scope(|scope| {
        scope.spawn(|| shared.carry(&link, Way::Answers, random.fork(1)));
        shared.carry(&link, Way::Questions, random.fork(2));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use amita_harness::ports;

    /// A node that answers each piece with itself.
    fn echo() -> SocketAddr {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a listener");
        let address = listener.local_addr().expect("bound");
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                std::thread::spawn(move || {
                    let mut bytes = [0; 1024];
                    while let Ok(length @ 1..) = stream.read(&mut bytes) {
                        if stream.write_all(&bytes[..length]).is_err() {
                            break;
                        }
                    }
                });
            }
        });
        address
    }

    fn dial(proxy: &Proxy, node: u32) -> TcpStream {
        let mut stream = TcpStream::connect(proxy.address()).expect("it listens");
        let mut hello = [0; HELLO_NODE.end];
        hello[HELLO_NODE].copy_from_slice(&node.to_le_bytes());
        stream.write_all(&hello).expect("sent");
        let mut back = hello;
        stream.read_exact(&mut back).expect("answered");
        assert_eq!(back, hello);
        stream
    }

    fn proxy() -> Proxy {
        let address = SocketAddr::from(([127, 0, 0, 1], ports::free()));
        let proxy = Proxy::start(address, echo(), Speech::Fabric, 1);
        while TcpStream::connect(address).is_err() {
            std::thread::sleep(LOOK);
        }
        proxy
    }

    #[test]
    fn it_cuts_and_holds_only_what_it_is_told() {
        let proxy = proxy();
        let (mut one, mut two) = (dial(&proxy, 1), dial(&proxy, 2));
        let mut back = [0; 100];
        proxy.set(
            1,
            Weather {
                holds_answers: true,
                ..Weather::default()
            },
        );
        one.write_all(&[1; 100]).expect("sent");
        two.write_all(&[2; 100]).expect("sent");
        two.read_exact(&mut back).expect("the other link goes on");
        one.set_read_timeout(Some(Duration::from_millis(200))).expect("set");
        assert!(one.read(&mut back).is_err(), "it holds answers");
        proxy.clear();
        one.read_exact(&mut back).expect("it comes when it is let go");
        proxy.cut(Some(1));
        one.write_all(&[1; 100]).expect("sent");
        let mut rest = Vec::new();
        let _ = one.read_to_end(&mut rest);
        assert!(rest.len() < 100, "{} bytes of a frame that was cut", rest.len());
        two.write_all(&[2; 100]).expect("sent");
        two.read_exact(&mut back).expect("the other link goes on");
        assert_eq!(proxy.counts().0, 1);
    }

    #[test]
    fn word_of_a_links_end_is_held_too() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a listener");
        let target = listener.local_addr().expect("bound");
        let address = SocketAddr::from(([127, 0, 0, 1], ports::free()));
        let proxy = Proxy::start(address, target, Speech::Hosts, 1);
        let host = loop {
            match TcpStream::connect(address) {
                Ok(stream) => break stream,
                Err(_) => std::thread::sleep(LOOK),
            }
        };
        let (mut gateway, _) = listener.accept().expect("a connection");
        let held = Weather {
            holds_questions: true,
            ..Weather::default()
        };
        proxy.set(HOST, held);
        drop(host);
        gateway.set_read_timeout(Some(Duration::from_millis(300))).expect("set");
        let heard = gateway.read(&mut [0]);
        assert!(
            heard.is_err(),
            "it hears of the end through a network that is cut: {heard:?}"
        );
        proxy.clear();
        gateway.set_read_timeout(None).expect("set");
        assert!(matches!(gateway.read(&mut [0]), Ok(0) | Err(_)));
    }

    #[test]
    fn closed_it_refuses() {
        let proxy = proxy();
        let mut one = dial(&proxy, 1);
        proxy.close();
        assert!(matches!(one.read(&mut [0]), Ok(0) | Err(_)));
        while TcpStream::connect(proxy.address()).is_ok() {
            std::thread::sleep(LOOK);
        }
        proxy.open();
        while TcpStream::connect(proxy.address()).is_err() {
            std::thread::sleep(LOOK);
        }
        dial(&proxy, 1);
    }
}
