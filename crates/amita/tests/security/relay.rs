//! Somebody on the way between nodes: a relay that hands on what passes, whole pieces at a time, and changes what it likes.
//!
//! A link is a handshake of TLS records, and then frames (docs/protocol-wire.md). A frame begins with four bytes of zero, which no
//! record does; its lengths stand at the front, in either protection.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often it looks for new connections, and whether it is over.
const LOOK: Duration = Duration::from_millis(5);
const PREFIX_BYTES: usize = 16;
const TAG_BYTES: usize = 16;
/// Of what passed, so much is kept to be looked into.
const KEPT_BYTES: usize = 64 << 20;

/// Which way something goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From whoever dialled.
    Out,
    /// Back to him.
    Back,
}

/// What passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A record of TLS.
    Record,
    /// A frame, with so many bytes of payload.
    Frame { payload: usize },
}

/// A piece that passes.
pub struct Piece<'a> {
    /// The how manieth connection.
    pub connection: u64,
    pub way: Way,
    pub kind: Kind,
    /// The how manieth of its way and connection.
    pub number: u64,
    pub bytes: &'a [u8],
}

/// What goes on instead of a piece; none: the piece itself.
pub type Tamper = Box<dyn FnMut(&Piece<'_>) -> Option<Vec<u8>> + Send>;

#[derive(Default)]
struct Shared {
    tamper: Mutex<Option<Tamper>>,
    streams: Mutex<Vec<TcpStream>>,
    /// All that passed, as it was handed on.
    passed: Mutex<Vec<u8>>,
    connections: AtomicU64,
    /// The highest number of a connection that frames have passed both ways.
    working: AtomicU64,
    tampered: AtomicU64,
    over: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A relay to one node; it ends when it is dropped.
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Listens at a free port, and hands on to `target`.
    pub fn start(target: SocketAddr) -> Relay {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        listener.set_nonblocking(true).expect("set");
        let address = listener.local_addr().expect("bound");
        let shared = Arc::new(Shared::default());
        let behind = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            while !behind.over.load(Ordering::Acquire) {
                match listener.accept() {
                    Ok((dialler, _)) => serve(&behind, dialler, target),
                    Err(_) => std::thread::sleep(LOOK),
                }
            }
        });
        Relay {
            address,
            shared,
            thread: Some(thread),
        }
    }

    /// Where it is reached.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on this is done to what passes; none: nothing.
    pub fn set(&self, tamper: Option<Tamper>) {
        *lock(&self.shared.tamper) = tamper;
    }

    /// Ends all connections.
    pub fn cut(&self) {
        for stream in lock(&self.shared.streams).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// How many connections there were.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Acquire)
    }

    /// The newest connection that frames have passed both ways, by its number from 1 on.
    pub fn working(&self) -> u64 {
        self.shared.working.load(Ordering::Acquire)
    }

    /// How many pieces were changed.
    pub fn tampered(&self) -> u64 {
        self.shared.tampered.load(Ordering::Acquire)
    }

    /// Did these bytes pass, as they are?
    pub fn has_seen(&self, bytes: &[u8]) -> bool {
        lock(&self.shared.passed)
            .windows(bytes.len())
            .any(|window| window == bytes)
    }

    /// How many bytes were looked at.
    pub fn seen_bytes(&self) -> usize {
        lock(&self.shared.passed).len()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Release);
        self.cut();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Both ways of a connection, each on a thread that ends with it.
fn serve(shared: &Arc<Shared>, dialler: TcpStream, target: SocketAddr) {
    let Ok(answerer) = TcpStream::connect_timeout(&target, Duration::from_secs(1)) else {
        return;
    };
    for stream in [&dialler, &answerer] {
        stream.set_nonblocking(false).expect("set");
        stream.set_nodelay(true).expect("set");
        lock(&shared.streams).push(stream.try_clone().expect("a descriptor"));
    }
    let connection = shared.connections.fetch_add(1, Ordering::AcqRel) + 1;
    let has_frames = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
    for way in [Way::Out, Way::Back] {
        let (from, to) = match way {
            Way::Out => (&dialler, &answerer),
            Way::Back => (&answerer, &dialler),
        };
        let carrier = Carrier {
            shared: Arc::clone(shared),
            connection,
            way,
            from: from.try_clone().expect("a descriptor"),
            to: to.try_clone().expect("a descriptor"),
            has_frames: Arc::clone(&has_frames),
        };
        std::thread::spawn(move || carrier.run());
    }
}

struct Carrier {
    shared: Arc<Shared>,
    connection: u64,
    way: Way,
    from: TcpStream,
    to: TcpStream,
    has_frames: Arc<[AtomicBool; 2]>,
}

/// The kind of the piece at the front, and its bytes; none: it is not whole.
fn front(data: &[u8]) -> Option<(Kind, usize)> {
    if data.first().is_some_and(|first| (20..=23).contains(first)) {
        let header = data.first_chunk::<5>()?;
        let bytes = 5 + usize::from(u16::from_be_bytes([header[3], header[4]]));
        return (data.len() >= bytes).then_some((Kind::Record, bytes));
    }
    let prefix = data.first_chunk::<PREFIX_BYTES>()?;
    let head = usize::from(u16::from_le_bytes([prefix[8], prefix[9]]));
    let payload = u32::from_le_bytes(*prefix[12..].first_chunk()?) as usize;
    let bytes = head + TAG_BYTES + payload;
    (data.len() >= bytes).then_some((Kind::Frame { payload }, bytes))
}

impl Carrier {
    fn run(mut self) {
        let (mut inbox, mut piece, mut number) = (Vec::new(), vec![0; 256 << 10], 0);
        loop {
            match self.from.read(&mut piece) {
                Ok(0) => break,
                Ok(bytes) => inbox.extend_from_slice(&piece[..bytes]),
                Err(why) if why.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break,
            }
            let mut out = Vec::new();
            let mut taken = 0;
            while let Some((kind, bytes)) = front(&inbox[taken..]) {
                self.hand_on(&inbox[taken..taken + bytes], kind, number, &mut out);
                taken += bytes;
                number += 1;
            }
            inbox.drain(..taken);
            let mut passed = lock(&self.shared.passed);
            if passed.len() < KEPT_BYTES {
                passed.extend_from_slice(&out);
            }
            drop(passed);
            if self.to.write_all(&out).is_err() {
                break;
            }
        }
        // Either may be gone already.
        let _ = self.from.shutdown(Shutdown::Both);
        let _ = self.to.shutdown(Shutdown::Both);
    }

    fn hand_on(&self, bytes: &[u8], kind: Kind, number: u64, out: &mut Vec<u8>) {
        let piece = Piece {
            connection: self.connection,
            way: self.way,
            kind,
            number,
            bytes,
        };
        let changed = lock(&self.shared.tamper).as_mut().and_then(|tamper| tamper(&piece));
        if let Some(changed) = changed {
            self.shared.tampered.fetch_add(1, Ordering::AcqRel);
            return out.extend_from_slice(&changed);
        }
        out.extend_from_slice(bytes);
        if kind != Kind::Record {
            let [one, two] = &*self.has_frames;
            let (own, other) = if self.way == Way::Out { (one, two) } else { (two, one) };
            own.store(true, Ordering::Release);
            if other.load(Ordering::Acquire) {
                self.shared.working.fetch_max(self.connection, Ordering::AcqRel);
            }
        }
    }
}
