//! The embedded server: one process, one file, the subset of the etcd v3 API that Amita uses, over gRPC.
//!
//! For one machine and for tests: it is durable (each transaction is on the disk before it is answered) but it is one
//! server, so the metadata is away when it is. A cluster that must go on without any one machine uses etcd itself; there
//! is one client for both, and one suite of tests runs against both. `etcdctl get --prefix /amita/` works with either.
//!
//! Three threads: one takes connections and has them prove who they are (`door`), one speaks HTTP/2 (`service`), the third
//! owns the keys (`engine`, [`crate::model`]) and the file (`disk`); it takes all requests that wait, carries them out, and
//! makes them durable with one commit.
//!
//! Who may what is one table (`access`); how much of everything one peer, and all together, may hold is another (`shares`).

use amita_identity::{Clock, UnixSeconds};
use complaints::Complaints;
use door::{Admitted, Guest, Inside};
use entrance::Entrance;
use queue::Queue;
use shares::{Good, Shares};
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use unsent::Unsent;

mod access;
mod complaints;
mod disk;
mod door;
mod engine;
mod entrance;
mod grpc;
mod owners;
mod queue;
mod quota;
mod refusals;
mod scan;
mod service;
mod shares;
mod space;
mod unsent;

pub use access::Peer;
pub use amita_identity::{OperatorRole, Role};
pub use door::{HANDSHAKE_BYTES, HANDSHAKE_TIMEOUT, Judge, MAX_HANDSHAKES, Tls};
pub use quota::{DEFAULT_QUOTA_BYTES, RESERVE_BYTES};
pub use refusals::{Heard, Refusals, Refused};

/// The most connections of who has been let in; more are closed at once.
pub const MAX_CONNECTIONS: usize = 1024;
/// The most requests and watches under way on one connection.
pub const MAX_STREAMS: u32 = 256;
/// The most bytes of one request: etcd's `--max-request-bytes`.
pub const MAX_REQUEST_BYTES: usize = 1536 * 1024;
/// Bytes that a peer may have on their way to us unasked: of one request, and of one connection.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 512 * 1024;
/// The most bytes of a request's head.
const MAX_HEAD_BYTES: u32 = 8 * 1024;
/// Bytes of a stream that wait for a peer that does not read: beyond them nothing is made of what is still to be sent.
const SEND_BYTES: usize = 64 * 1024;
/// Connections that have been let in and wait to be taken.
const QUEUE: usize = 64;
/// How often is looked whether the judgement of certificates has changed.
const JUDGE_PAUSE: Duration = Duration::from_millis(250);
/// How long a certificate's end is waited for at a time: the machine's clock may be set.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// A peer is asked this often whether it lives, and closed when it does not answer.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// How many revisions the history keeps by default: hours of an ordinary cluster. Watches that fell further behind read
/// everything anew.
pub const DEFAULT_HISTORY: usize = 10_000;

/// What to serve, and where.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The file; it is made when it does not exist.
    pub path: PathBuf,
    /// How many revisions the history keeps.
    pub history: usize,
    /// The most bytes of keys and values.
    pub quota_bytes: u64,
    /// Prefixes of keys that are written to make room: they may take [`RESERVE_BYTES`] more.
    pub reserved: Vec<String>,
    /// Whom to let in, and how to prove who we are.
    pub tls: Option<Tls>,
    /// Without TLS, serve also where others than this machine can reach it.
    pub insecure_network: bool,
    /// Where it is told who was refused what.
    pub refusals: Option<Refusals>,
}

impl Config {
    /// The default settings for this address and file.
    #[must_use]
    pub fn new(listen: SocketAddr, path: impl Into<PathBuf>) -> Config {
        Config {
            listen,
            path: path.into(),
            history: DEFAULT_HISTORY,
            quota_bytes: DEFAULT_QUOTA_BYTES,
            reserved: Vec::new(),
            tls: None,
            insecure_network: false,
            refusals: None,
        }
    }
}

/// Why the server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Somebody listens there already.
    #[error("{address} is in use by another program; stop it or choose another address")]
    PortOccupied { address: SocketAddr },
    /// Whoever is on the network could read and change everything.
    #[error(
        "{address} can be reached by other machines, and without TLS whoever reaches it can read and change everything; give the \
         server an identity (--identity DIR), listen on 127.0.0.1, or pass --insecure-network"
    )]
    Open { address: SocketAddr },
    /// It cannot listen there.
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    /// Another process has the file open.
    #[error("{path} is in use by another process; a metadata file has one server at a time")]
    Locked { path: PathBuf },
    /// The file is something else.
    #[error("{path} is no metadata file of Amita: {what}; name another file (it was not changed)")]
    NotOurs { path: PathBuf, what: String },
    /// The file is damaged.
    #[error(
        "the metadata file {path} is damaged: {what}; restore it from a copy, or rebuild it from what the stores know: move it \
         away, start an empty server, and run `amita recover --from-stores`"
    )]
    Damaged {
        path: PathBuf,
        /// What contradicts what.
        what: String,
    },
    /// The file cannot be read or written.
    #[error("cannot open the metadata file {path}: {what}")]
    File { path: PathBuf, what: String },
    /// No thread or event loop.
    #[error("cannot start the metadata server: {0}")]
    Resources(io::Error),
}

/// A server that runs. It stops when this is dropped.
pub struct Handle {
    address: SocketAddr,
    stop: Vec<oneshot::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
    engine: Option<engine::Engine>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({})", self.address)
    }
}

impl Handle {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops it: closes the connections and the file.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // Dropping the senders is the signal.
        self.stop.clear();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
        if let Some(engine) = self.engine.take() {
            engine.stop();
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.end();
    }
}

/// Starts a server; it listens when this returns.
///
/// # Errors
/// See [`StartError`].
pub fn start(config: Config) -> Result<Handle, StartError> {
    if config.tls.is_none() && !config.insecure_network && !config.listen.ip().to_canonical().is_loopback() {
        return Err(StartError::Open { address: config.listen });
    }
    let listener = std::net::TcpListener::bind(config.listen).map_err(|source| {
        if source.kind() == io::ErrorKind::AddrInUse {
            StartError::PortOccupied { address: config.listen }
        } else {
            StartError::Listen {
                address: config.listen,
                source,
            }
        }
    })?;
    let listen_error = |source| StartError::Listen {
        address: config.listen,
        source,
    };
    listener.set_nonblocking(true).map_err(listen_error)?;
    let address = listener.local_addr().map_err(listen_error)?;
    let engine = engine::Engine::start(&config)?;
    let (inside, guests) = mpsc::channel(QUEUE);
    let (tls, requests, refusals) = (config.tls, engine.requests(), config.refusals);
    let network = thread("amita-meta-net", {
        let tls = tls.clone();
        |_| Ok(take_in(guests, requests, tls, refusals))
    })?;
    let door = thread("amita-meta-door", |runtime| {
        let _inside = runtime.enter();
        let listener = TcpListener::from_std(listener).map_err(listen_error)?;
        let entrance = Entrance::new(&listener).map_err(listen_error)?;
        Ok(door::open(listener, entrance, tls, inside))
    })?;
    let (stop, threads) = [door, network].into_iter().unzip();
    Ok(Handle {
        address,
        stop,
        threads,
        engine: Some(engine),
    })
}

/// A thread with an event loop of its own, which ends when the sender is dropped.
fn thread<F: Future<Output = ()> + Send + 'static>(
    name: &str,
    work: impl FnOnce(&tokio::runtime::Runtime) -> Result<F, StartError>,
) -> Result<(oneshot::Sender<()>, JoinHandle<()>), StartError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(StartError::Resources)?;
    let work = work(&runtime)?;
    let (stop, stopped) = oneshot::channel();
    let run = move || {
        runtime.block_on(async {
            tokio::select! {
                () = work => {}
                _ = stopped => {}
            }
        });
    };
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    Ok((stop, thread.map_err(StartError::Resources)?))
}

/// Serves who has come in.
async fn take_in(mut guests: mpsc::Receiver<Admitted>, requests: Queue, tls: Option<Tls>, refusals: Option<Refusals>) {
    let (shares, complaints) = (Shares::new(), Arc::new(Complaints::default()));
    let (judged, generation) = watch::channel(0);
    let mut looks = tokio::time::interval(JUDGE_PAUSE);
    loop {
        let admitted = tokio::select! {
            admitted = guests.recv() => admitted,
            _ = looks.tick(), if tls.is_some() => {
                let newest = tls.as_ref().map_or(0, |tls| tls.judge().generation());
                judged.send_if_modified(|known| std::mem::replace(known, newest) != newest);
                continue;
            }
        };
        let Some(Ok((stream, guest))) = admitted.map(Admitted::enter) else {
            if guests.is_closed() {
                return;
            }
            continue;
        };
        let holder = shares.holder(guest.peer.as_ref(), guest.source);
        let Some(place) = holder.take(Good::Connections, 1) else {
            complaints.say(&format!(
                "{} has too many connections, or all have: one more was closed",
                holder.name()
            ));
            continue;
        };
        let (unsent, name) = (Unsent::default(), Arc::clone(holder.name()));
        let service = service::Service::new(requests.clone(), holder, &guest, refusals.clone(), unsent.clone());
        let (tls, generation, complaints) = (tls.clone(), generation.clone(), Arc::clone(&complaints));
        tokio::spawn(async move {
            let _place = place;
            tokio::select! {
                () = serve(stream, service) => {}
                () = unsent.is_left() => complaints.say(&format!(
                    "a connection of {name} was closed: it does not take what it has asked for"
                )),
                why = disbelief(&guest, tls, generation) => complaints.say(&format!("a connection was closed: {why}")),
            }
        });
    }
}

/// Waits until a guest is not believed any more, or his certificate has ended, and says why.
async fn disbelief(guest: &Guest, tls: Option<Tls>, mut generation: watch::Receiver<u64>) -> String {
    let Some(tls) = tls else {
        return std::future::pending().await;
    };
    loop {
        // What has changed between the door and here is seen as well.
        if let Err(why) = tls.judge().judge(&guest.chain) {
            return why;
        }
        tokio::select! {
            changed = generation.changed() => if changed.is_err() {
                return std::future::pending().await;
            },
            () = ends(guest.not_after) => return format!("its certificate has ended ({})", guest.not_after),
        }
    }
}

/// Waits until that second is over.
async fn ends(not_after: UnixSeconds) {
    loop {
        let left = not_after.after(Duration::from_secs(1)).since(Clock::system().now());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(LONGEST_WAIT)).await;
    }
}

async fn serve(stream: Inside, service: service::Service) {
    let connection = hyper::server::conn::http2::Builder::new(hyper_util::rt::TokioExecutor::new())
        .timer(hyper_util::rt::TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEAD_BYTES)
        .max_send_buf_size(SEND_BYTES)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .serve_connection(hyper_util::rt::TokioIo::new(stream), service);
    // A peer that breaks the rules, or goes away, ends its own connection only.
    let _ = connection.await;
}
