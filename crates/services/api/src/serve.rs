//! The server: HTTPS, or plain HTTP on loopback where nobody proves anything.
//!
//! It has threads of its own, and a bounded number of connections and of requests that wait for the metadata; an I/O of a host never waits
//! for it.

use crate::certificate::{ForBrowsers, Shown};
use crate::commands::MAX_COMMANDS;
use crate::guard::Proved;
use crate::lasting::Lasting;
use crate::session::{Api, Asker, MAX_CHECKS, MAX_COPIES, MAX_GATEWAYS, MAX_GATHERS, MAX_VAULTS, MAX_WORK};
use crate::who::{From, Standing};
use amita_audit::Whence;
use amita_control::access::Caller;
use amita_identity::{Live, Name, Role, Usage};
use axum::Router;
use axum::body::Body;
use hyper::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tower_service::Service as _;

/// Connections at once; more are closed as they come.
const MAX_CONNECTIONS: usize = 256;
/// Of them, those of one address.
const MAX_OF_ADDRESS: usize = 64;
/// Threads that wait for the metadata, or for data, or write what is long.
const MAX_WAITING: usize = MAX_WORK + MAX_CHECKS + MAX_COMMANDS + MAX_COPIES + MAX_GATEWAYS + MAX_VAULTS + MAX_GATHERS;
/// A connection ends after so long: by then whoever watches has come again. One by which an image is copied ends when that has.
const LONGEST_CONNECTION: Duration = Duration::from_secs(900);
/// How often it is looked whether that is so,
const LOOK: Duration = Duration::from_secs(5);
/// and for how long it may say what it has begun to say.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// TLS, and the head of a request, must be there in so long.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// How far its threads stand behind the cores: one of this niceness gets a tenth of a processor that a core wants too.
const NICENESS: i32 = 10;
/// The pause after a failed accept, so that failing does not become a loop.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// A server that runs. Dropped, it ends.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    proved: bool,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    router: Router,
    tls: Option<(Arc<Live>, TlsAcceptor)>,
    /// The node's name: for the audit log.
    node: String,
    places: crate::places::Places,
}

/// A place where the API will be served: its address is known before the node that serves it is there.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    shown: Option<Arc<Shown>>,
}

impl Listener {
    /// Listens; who connects waits. `proved`: the server will show who it is, and demand that of others.
    ///
    /// # Errors
    /// The address cannot be bound, or is to be reached by others and nothing would be proved.
    pub fn bind(address: SocketAddr, proved: bool) -> io::Result<Listener> {
        if !proved && !address.ip().is_loopback() {
            let why = "without an identity the API listens on loopback only: whoever reaches it may do everything";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Listener {
            socket: listener,
            shown: None,
        })
    }

    /// Browsers are shown this certificate in place of the node's own one, which they cannot check.
    #[must_use]
    pub fn showing(self, shown: Arc<Shown>) -> Listener {
        let shown = Some(shown);
        Listener { shown, ..self }
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

impl Server {
    /// Answers from threads of its own. Without an identity nothing is proved: everybody who reaches it is an admin. `node`: its name, for
    /// the audit log.
    ///
    /// # Errors
    /// A thread cannot be had.
    pub fn start(listener: Listener, identity: Option<Arc<Live>>, api: Api, node: &str) -> io::Result<Server> {
        let proved = identity.is_some();
        let address = listener.address()?;
        let Listener { socket, shown } = listener;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(MAX_WAITING)
            .build()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(socket)?
        };
        let shared = Arc::new(Shared {
            router: crate::router(api),
            tls: identity.map(|live| acceptor(live, shown.as_ref())),
            node: node.to_owned(),
            places: crate::places::Places::new(MAX_CONNECTIONS, MAX_OF_ADDRESS),
        });
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("amita-api".to_owned())
            .spawn(move || {
                // Of this thread and of those that it starts (Linux). Without it calls are answered all the same.
                let _ = rustix::process::nice(NICENESS);
                runtime.block_on(async {
                    if let Some(shown) = shown {
                        tokio::spawn(shown.keep());
                    }
                    tokio::select! {
                        () = accept(&listener, &shared) => {}
                        _ = stopped => {}
                    }
                });
                // What waits for the metadata is not waited for.
                runtime.shutdown_background();
            })?;
        Ok(Server {
            address,
            proved,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// The URL that all paths begin with.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.proved { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Who shows no certificate may show a token with each request.
fn acceptor(live: Arc<Live>, shown: Option<&Arc<Shown>>) -> (Arc<Live>, TlsAcceptor) {
    let mut config = live.open_server_config(&[Role::Operator, Role::Node, Role::Gateway]);
    if let Some(shown) = shown {
        let mut for_browsers = (*config).clone();
        for_browsers.cert_resolver = Arc::new(ForBrowsers {
            own: Arc::clone(&config.cert_resolver),
            shown: Arc::clone(shown),
        });
        config = Arc::new(for_browsers);
    }
    (live, TlsAcceptor::from(config))
}

async fn accept(listener: &tokio::net::TcpListener, shared: &Arc<Shared>) {
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_REST).await;
            continue;
        };
        let Some(place) = shared.places.take(from.ip()) else {
            continue;
        };
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            let _place = place;
            connection(stream, from.ip(), &shared).await;
        });
    }
}

async fn connection(stream: TcpStream, from: IpAddr, shared: &Arc<Shared>) {
    let whence = Whence {
        address: Some(from.to_string()),
        host: format!("the API of {}", shared.node),
        ..Whence::default()
    };
    let Some((live, acceptor)) = &shared.tls else {
        let asker = Asker(Caller::unproved(whence.clone()));
        return serve(
            stream,
            Peer {
                whence,
                shows: Shows::Unproved(asker),
            },
            shared,
        )
        .await;
    };
    let Ok(Ok(stream)) = tokio::time::timeout(HEAD_TIMEOUT, acceptor.accept(stream)).await else {
        return;
    };
    let shown = stream.get_ref().1.peer_certificates().map(<[_]>::to_vec);
    let name: Option<Name> = shown.as_ref().and_then(|chain| live.judge(chain, Usage::Client).ok());
    let proof = name.zip(shown).map(|(name, chain)| Proof {
        asker: Asker(Caller::of(&name, whence.clone())),
        is_good: is_good(Arc::clone(live), chain),
    });
    serve(
        stream,
        Peer {
            whence,
            shows: Shows::Proof(proof),
        },
        shared,
    )
    .await;
}

/// The other end of a connection.
struct Peer {
    whence: Whence,
    shows: Shows,
}

/// Who it shows itself to be.
enum Shows {
    /// Nothing is proved here: whoever is there.
    Unproved(Asker),
    /// The holder of a certificate, if any.
    Proof(Option<Proof>),
}

/// A certificate that was believed when the connection was made.
struct Proof {
    asker: Asker,
    /// It may have been revoked since, or have ended.
    is_good: Arc<dyn Fn() -> bool + Send + Sync>,
}

fn is_good(live: Arc<Live>, chain: Vec<CertificateDer<'static>>) -> Arc<dyn Fn() -> bool + Send + Sync> {
    Arc::new(move || live.judge(&chain, Usage::Client).is_ok())
}

impl Peer {
    fn mark(&self, request: &mut Request<Incoming>) {
        let marks = request.extensions_mut();
        marks.insert(From(self.whence.clone()));
        match &self.shows {
            Shows::Unproved(asker) => drop(marks.insert(asker.clone())),
            Shows::Proof(proof) => {
                marks.insert(Proved);
                if let Some(proof) = proof.as_ref().filter(|proof| (proof.is_good)()) {
                    marks.insert(proof.asker.clone());
                    marks.insert(Standing::Certificate(Arc::clone(&proof.is_good)));
                }
            }
        }
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S, peer: Peer, shared: &Arc<Shared>) {
    let router = shared.router.clone();
    let lasting = Lasting::default();
    let held = lasting.clone();
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        peer.mark(&mut request);
        request.extensions_mut().insert(held.clone());
        router.clone().call(request.map(Body::new))
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // A peer that breaks the rules, or goes away, ends its own connection only.
    if tokio::time::timeout(LONGEST_CONNECTION, &mut connection).await.is_ok() {
        return;
    }
    while lasting.is_held() {
        if tokio::time::timeout(LOOK, &mut connection).await.is_ok() {
            return;
        }
    }
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(LAST_WORDS, connection).await;
}
