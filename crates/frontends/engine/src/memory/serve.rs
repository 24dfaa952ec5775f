//! A host loop over blocking sockets: one thread a connection. Not for production: it waits, and it copies nothing but
//! also batches nothing.

use super::{MemoryService, Volumes};
use crate::front::{CloseReason, Flow, Front};
use crate::service::{Event, FrontId};
use amita_reactor::{Inbox, Outbox, Pool, Time};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a client may leave its end of the connection full.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a waiting thread looks whether the server is to stop.
const STOP_INTERVAL: Duration = Duration::from_millis(200);
/// A connection's thread needs little stack.
const STACK_BYTES: usize = 256 << 10;

/// A connected socket.
pub trait Connection: Read + Write + Send + 'static {
    /// Bounds reads and writes.
    fn set_timeouts(&self, read: Duration, write: Duration) -> io::Result<()>;

    /// This end's address and the other's.
    fn addresses(&self) -> io::Result<(SocketAddr, SocketAddr)>;
}

impl Connection for TcpStream {
    fn set_timeouts(&self, read: Duration, write: Duration) -> io::Result<()> {
        self.set_nodelay(true)?;
        self.set_read_timeout(Some(read))?;
        self.set_write_timeout(Some(write))
    }

    fn addresses(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.local_addr()?, self.peer_addr()?))
    }
}

impl Connection for UnixStream {
    fn set_timeouts(&self, read: Duration, write: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(read))?;
        self.set_write_timeout(Some(write))
    }

    fn addresses(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        Err(ErrorKind::Unsupported.into())
    }
}

/// What came neither from the socket nor from the service.
pub type Look = Box<dyn FnMut(&mut MemoryService) -> Option<Event>>;

/// A connection that was accepted.
pub struct Accepted {
    /// Its protocol's side of it.
    pub front: Box<dyn Front>,
    /// Called now and then.
    pub look: Look,
}

/// What is served: a protocol with its settings.
pub trait Accept: Send + Sync + 'static {
    /// A host has connected. The addresses are this end's and the other's; a Unix socket has none.
    ///
    /// # Errors
    /// When the protocol needs what the connection does not have.
    fn accept(
        &self,
        id: FrontId,
        now: Time,
        addresses: Option<(SocketAddr, SocketAddr)>,
        service: &mut MemoryService,
        outbox: &mut Outbox,
    ) -> io::Result<Accepted>;
}

/// Serves one connection to its end; says why it ended.
pub fn serve(
    socket: impl Connection,
    protocol: &dyn Accept,
    id: FrontId,
    volumes: Volumes,
    pool: &Pool,
    stop: &AtomicBool,
) -> Result<CloseReason, io::Error> {
    let start = Instant::now();
    let now = || Time(start.elapsed().as_nanos() as u64);
    let mut service = MemoryService::new(volumes, pool.clone());
    let mut outbox = Outbox::new();
    let addresses = socket.addresses().ok();
    let accepted = protocol.accept(id, now(), addresses, &mut service, &mut outbox)?;
    let result = run(socket, accepted, &mut service, outbox, &now, stop);
    service.volumes.gone(id);
    result
}

/// Runs a front over a socket.
fn run(
    mut socket: impl Connection,
    accepted: Accepted,
    service: &mut MemoryService,
    mut outbox: Outbox,
    now: &impl Fn() -> Time,
    stop: &AtomicBool,
) -> Result<CloseReason, io::Error> {
    let Accepted { mut front, mut look } = accepted;
    let pool = service.pool.clone();
    let pool = &pool;
    let mut inbox = Inbox::new();
    let result = (|| {
        while !stop.load(Ordering::Relaxed) {
            if let Some(event) = look(service) {
                service.events.push_back((FrontId(0), event));
            }
            // What the front asked for, until it asks for nothing more.
            loop {
                service.run();
                while let Some((_, event)) = service.events.pop_front() {
                    if let Flow::Close { reason } = front.event(now(), event, &mut outbox, pool, service) {
                        return Ok(reason);
                    }
                }
                if let Flow::Close { reason } = front.end_pass(now(), &mut inbox, &mut outbox, pool, service) {
                    return Ok(reason);
                }
                if let Some(segments) = outbox.next_send() {
                    for segment in &segments {
                        socket.write_all(segment)?;
                    }
                    outbox.sent(segments);
                } else if service.queue.is_empty() && service.events.is_empty() {
                    break;
                }
            }
            let wait = front
                .deadline()
                .map_or(STOP_INTERVAL, |at| at.since(now()).min(STOP_INTERVAL));
            socket.set_timeouts(wait.max(Duration::from_millis(1)), WRITE_TIMEOUT)?;
            let Some(mut buffer) = inbox.start_receive(pool, front.receive_bytes()) else {
                return Err(ErrorKind::OutOfMemory.into());
            };
            let result = socket.read(&mut buffer);
            inbox.received(buffer, *result.as_ref().unwrap_or(&0));
            let flow = match result {
                Ok(0) => return Ok(CloseReason::Goodbye),
                Ok(_) => {
                    // What has come may rest on what has changed while it was waited for.
                    let flow = match look(service) {
                        Some(event) => front.event(now(), event, &mut outbox, pool, service),
                        None => Flow::Go,
                    };
                    match flow {
                        Flow::Go => front.received(now(), &mut inbox, &mut outbox, pool, service),
                        flow => flow,
                    }
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    front.tick(now(), &mut outbox, pool, service)
                }
                Err(error) => return Err(error),
            };
            if let Flow::Close { reason } = flow {
                return Ok(reason);
            }
        }
        Ok(CloseReason::Goodbye)
    })();
    front.closed(service);
    result
}

/// A server of volumes in memory; it stops when it is dropped.
pub struct Server {
    shared: Arc<Shared>,
    listener: Option<std::thread::JoinHandle<()>>,
    address: Option<SocketAddr>,
}

struct Shared {
    protocol: Box<dyn Accept>,
    volumes: Volumes,
    pool: Pool,
    stop: AtomicBool,
    next: AtomicU64,
    connections: AtomicUsize,
}

impl Server {
    fn shared(protocol: impl Accept, volumes: Volumes, pool: Pool) -> Arc<Shared> {
        Arc::new(Shared {
            protocol: Box::new(protocol),
            volumes,
            pool,
            stop: AtomicBool::new(false),
            next: AtomicU64::new(1),
            connections: AtomicUsize::new(0),
        })
    }

    /// Serves on a TCP port; 0 takes a free one.
    pub fn tcp(address: SocketAddr, protocol: impl Accept, volumes: Volumes, pool: Pool) -> io::Result<Server> {
        let listener = TcpListener::bind(address)?;
        let address = Some(listener.local_addr()?);
        listener.set_nonblocking(true)?;
        let shared = Self::shared(protocol, volumes, pool);
        let accept = move || {
            let (socket, _) = listener.accept()?;
            socket.set_nonblocking(false)?;
            Ok(socket)
        };
        let listener = Some(shared.clone().listen(accept)?);
        Ok(Server {
            shared,
            listener,
            address,
        })
    }

    /// Serves on a Unix socket.
    pub fn unix(path: &Path, protocol: impl Accept, volumes: Volumes, pool: Pool) -> io::Result<Server> {
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        let shared = Self::shared(protocol, volumes, pool);
        let accept = move || {
            let (socket, _) = listener.accept()?;
            socket.set_nonblocking(false)?;
            Ok(socket)
        };
        let listener = Some(shared.clone().listen(accept)?);
        Ok(Server {
            shared,
            listener,
            address: None,
        })
    }

    /// The bound TCP address.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// How many connections are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn listen<C: Connection>(
        self: Arc<Self>,
        accept: impl Fn() -> io::Result<C> + Send + 'static,
    ) -> io::Result<std::thread::JoinHandle<()>> {
        std::thread::Builder::new().name("listen".into()).spawn(move || {
            while !self.stop.load(Ordering::Relaxed) {
                match accept() {
                    Ok(socket) => self.clone().start(socket),
                    Err(_) => std::thread::sleep(Duration::from_millis(2)),
                }
            }
        })
    }

    fn start(self: Arc<Self>, socket: impl Connection) {
        let id = FrontId(self.next.fetch_add(1, Ordering::Relaxed));
        self.connections.fetch_add(1, Ordering::Relaxed);
        let shared = self.clone();
        let thread = std::thread::Builder::new()
            .name("host".into())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let result = serve(
                    socket,
                    &*self.protocol,
                    id,
                    self.volumes.clone(),
                    &self.pool,
                    &self.stop,
                );
                if let Ok(reason) = result
                    && reason != CloseReason::Goodbye
                {
                    eprintln!("connection {}: {reason}", id.0);
                }
                self.connections.fetch_sub(1, Ordering::Relaxed);
            });
        if thread.is_err() {
            shared.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
        // Its threads look every now and then; a test must not leave any behind.
        let until = Instant::now() + Duration::from_secs(5);
        while self.shared.connections.load(Ordering::Relaxed) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
