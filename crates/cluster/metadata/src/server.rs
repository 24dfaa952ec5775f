//! The embedded server: one process, one file, the subset of the etcd v3 API that Amita uses, over gRPC.
//!
//! For one machine and for tests: it is durable (each transaction is on the disk before it is answered) but it is one
//! server, so the metadata is away when it is. A cluster that must go on without any one machine uses etcd itself; there
//! is one client for both, and one suite of tests runs against both. `etcdctl get --prefix /amita/` works with either.
//!
//! Two threads: one speaks HTTP/2 (`service`), the other owns the keys (`engine`, [`crate::model`]) and the file
//! (`disk`); it takes all requests that wait, carries them out, and makes them durable with one commit.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};

mod disk;
mod engine;
mod grpc;
mod service;
mod space;

/// The most connections; more are closed at once.
pub const MAX_CONNECTIONS: usize = 1024;
/// The most requests and watches under way on one connection.
pub const MAX_STREAMS: u32 = 1024;
/// The most bytes of one request: etcd's `--max-request-bytes`.
pub const MAX_REQUEST_BYTES: usize = 1536 * 1024;
/// A connection that says nothing for so long after it was opened is closed.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(5);
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
}

impl Config {
    /// The default settings for this address and file.
    #[must_use]
    pub fn new(listen: SocketAddr, path: impl Into<PathBuf>) -> Config {
        Config {
            listen,
            path: path.into(),
            history: DEFAULT_HISTORY,
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
    stop: Option<oneshot::Sender<()>>,
    network: Option<JoinHandle<()>>,
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
        // Dropping the sender is the signal.
        self.stop = None;
        if let Some(network) = self.network.take() {
            // A thread that panicked has said so itself.
            let _ = network.join();
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
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(StartError::Resources)?;
    let listener = {
        let _inside = runtime.enter();
        TcpListener::from_std(listener).map_err(listen_error)?
    };
    let (stop, stopped) = oneshot::channel();
    let service = service::Service::new(engine.requests());
    let network = std::thread::Builder::new()
        .name("amita-meta-net".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, service) => {}
                    _ = stopped => {}
                }
            });
        })
        .map_err(StartError::Resources)?;
    Ok(Handle {
        address,
        stop: Some(stop),
        network: Some(network),
        engine: Some(engine),
    })
}

async fn accept(listener: TcpListener, service: service::Service) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(_) => {
                // Out of file descriptors, or the peer was faster: neither may make this loop spin.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            continue;
        };
        let service = service.clone();
        tokio::spawn(async move {
            let _place = place;
            serve(stream, service).await;
        });
    }
}

async fn serve(stream: TcpStream, service: service::Service) {
    let speaks = tokio::time::timeout(FIRST_BYTE_TIMEOUT, stream.peek(&mut [0])).await;
    if !matches!(speaks, Ok(Ok(1))) || stream.set_nodelay(true).is_err() {
        return;
    }
    let connection = hyper::server::conn::http2::Builder::new(hyper_util::rt::TokioExecutor::new())
        .timer(hyper_util::rt::TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .serve_connection(hyper_util::rt::TokioIo::new(stream), service);
    // A peer that breaks the rules, or goes away, ends its own connection only.
    let _ = connection.await;
}
