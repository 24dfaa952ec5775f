//! The door: takes connections, has them prove who they are, and hands over those that did.
//!
//! It has a thread of its own, so that strangers cost those who are inside nothing but the processor's time. Who stands in the
//! door costs at most [`HANDSHAKE_BYTES`] and [`HANDSHAKE_TIMEOUT`], and there are [`MAX_HANDSHAKES`] places: when they are
//! taken the one who has stood there for longest leaves, of the address that has most of them. An honest handshake takes
//! milliseconds, so it ends long before it would be the oldest. How many come to stand there in a second is bounded before
//! (`entrance`).

use super::access::{self, Peer, Touch};
use super::complaints::Complaints;
use super::entrance::{Entrance, Stay};
use amita_identity::{Live, UnixSeconds, Usage};
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The most connections that have not proved anything yet.
pub const MAX_HANDSHAKES: usize = 256;
/// The most bytes that are read of one before it has: a hello and a chain of certificates take 4 KiB. What is kept of them,
/// and of our own words, stays below 64 KiB.
pub const HANDSHAKE_BYTES: usize = 32 * 1024;
/// The longest that one may take.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// After this an accept that failed is tried again: no file descriptors are left, or the peer was faster.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// HTTP/2, as TLS names it.
const ALPN: &[u8] = b"h2";

/// Knows certificates' holders.
pub trait Judge: Send + Sync {
    /// Whose chain is it (the leaf comes first), and is it believed now?
    ///
    /// # Errors
    /// Why not.
    fn judge(&self, chain: &[CertificateDer<'_>]) -> Result<Peer, String>;

    /// Grows whenever the judgement of a chain may have changed: established connections are judged again then.
    fn generation(&self) -> u64;
}

impl Judge for Live {
    fn judge(&self, chain: &[CertificateDer<'_>]) -> Result<Peer, String> {
        let judged = Live::judge(self, chain, Usage::Client);
        judged.map(Peer::from).map_err(|why| why.to_string())
    }

    fn generation(&self) -> u64 {
        Live::generation(self)
    }
}

/// What a server of TLS needs. The configuration is to ask each client for a certificate.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
    judge: Arc<dyn Judge>,
}

impl Tls {
    #[must_use]
    pub fn new(mut config: Arc<ServerConfig>, judge: Arc<dyn Judge>) -> Tls {
        if config.alpn_protocols.is_empty() {
            Arc::make_mut(&mut config).alpn_protocols = vec![ALPN.to_vec()];
        }
        Tls { config, judge }
    }

    /// By an identity of the cluster, which may be renewed meanwhile; it lets in whom the table of rights names.
    #[must_use]
    pub fn of(live: &Arc<Live>) -> Tls {
        Tls::new(live.server_config(&access::roles()), Arc::clone(live) as Arc<dyn Judge>)
    }

    pub(super) fn judge(&self) -> &dyn Judge {
        &*self.judge
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

/// Who has come in.
pub(super) struct Admitted {
    /// Off the door's event loop.
    socket: std::net::TcpStream,
    tls: Option<Box<TlsStream<Socket>>>,
    guest: Guest,
}

/// Who somebody is, as the door has found.
pub(super) struct Guest {
    pub(super) source: IpAddr,
    /// `None`: nobody is asked.
    pub(super) peer: Option<Peer>,
    pub(super) chain: Vec<CertificateDer<'static>>,
    /// When his certificate ends.
    pub(super) not_after: UnixSeconds,
    /// Of one who has proven it: while this is kept his address stays known.
    stay: Option<Stay>,
}

/// The bytes of an admitted connection.
pub(super) enum Inside {
    Plain(TcpStream),
    Tls(Box<TlsStream<Socket>>),
}

impl Admitted {
    /// Takes it into the event loop that this is called in.
    pub(super) fn enter(self) -> io::Result<(Inside, Guest)> {
        let socket = TcpStream::from_std(self.socket)?;
        let inside = match self.tls {
            None => Inside::Plain(socket),
            Some(mut tls) => {
                tls.get_mut().0.stream = Some(socket);
                Inside::Tls(tls)
            }
        };
        Ok((inside, self.guest))
    }
}

/// Takes connections for ever.
pub(super) async fn open(
    listener: TcpListener,
    mut entrance: Entrance,
    tls: Option<Tls>,
    inside: mpsc::Sender<Admitted>,
) {
    let places = Arc::new(Places::default());
    let complaints = Arc::new(Complaints::default());
    let (shows, mut shown) = mpsc::channel(MAX_HANDSHAKES);
    let stays = entrance.stays();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(address) = shown.recv() => {
                entrance.has_shown(address);
                continue;
            }
            () = entrance.next_look() => continue,
        };
        let Ok((stream, from)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        if !entrance.admits(&stream, from) {
            continue;
        }
        let (shows, stays) = (shows.clone(), stays.clone());
        let (tls, inside, complaints) = (tls.clone(), inside.clone(), Arc::clone(&complaints));
        places.stand(source_of(from), move |place| {
            tokio::spawn(async move {
                let _place = place;
                let mut admitted =
                    match tokio::time::timeout(HANDSHAKE_TIMEOUT, admit(stream, from, tls.as_ref())).await {
                        Ok(Ok(admitted)) => admitted,
                        // Whoever looks whether the port is open is nobody to be told of.
                        Ok(Err(why)) if why == SAID_NOTHING => return,
                        Ok(Err(why)) => return complaints.say(&format!("{from} was not let in: {why}")),
                        Err(_) => return complaints.say(&format!("{from} was not let in: it took too long")),
                    };
                // Without TLS nobody has proven anything.
                if admitted.tls.is_some() {
                    let address = from.ip().to_canonical();
                    admitted.guest.stay = Some(stays.begin(address));
                    // Where that is full there are enough who are known.
                    let _ = shows.try_send(address);
                }
                // The other thread takes it at once; where it has ended, so has this.
                let _ = inside.send(admitted).await;
            })
            .abort_handle()
        });
    }
}

/// Why somebody was not let in who has closed the connection without a byte.
const SAID_NOTHING: &str = "it said nothing";

async fn admit(stream: TcpStream, from: SocketAddr, tls: Option<&Tls>) -> Result<Admitted, String> {
    let words = |error: io::Error| error.to_string();
    stream.set_nodelay(true).map_err(words)?;
    let source = source_of(from);
    // Who says nothing is not let in.
    if stream.peek(&mut [0]).await.map_err(words)? == 0 {
        return Err(SAID_NOTHING.to_owned());
    }
    let Some(tls) = tls else {
        return Ok(Admitted {
            socket: stream.into_std().map_err(words)?,
            tls: None,
            guest: Guest {
                source,
                peer: None,
                chain: Vec::new(),
                not_after: UnixSeconds(u64::MAX),
                stay: None,
            },
        });
    };
    let socket = Socket {
        stream: Some(stream),
        left: HANDSHAKE_BYTES,
    };
    let handshake = TlsAcceptor::from(Arc::clone(&tls.config)).accept(socket).await;
    let mut stream = handshake.map_err(|error| handshake_words(&error))?;
    let chain: Vec<CertificateDer<'static>> = stream.get_ref().1.peer_certificates().unwrap_or_default().to_vec();
    let leaf = chain.first().ok_or("it showed no certificate")?;
    let not_after = amita_identity::not_after(leaf).map_err(|why| why.to_string())?;
    let peer = tls.judge.judge(&chain)?;
    if !access::may(Some(&peer), Touch::Connect) {
        return Err(format!("{peer} has no business with the metadata"));
    }
    let socket = &mut stream.get_mut().0;
    socket.left = usize::MAX;
    let socket = socket.stream.take().ok_or("its socket is gone")?;
    Ok(Admitted {
        socket: socket.into_std().map_err(words)?,
        tls: Some(Box::new(stream)),
        guest: Guest {
            source,
            peer: Some(peer),
            chain,
            not_after,
            stay: None,
        },
    })
}

/// Which side is to be mended.
fn handshake_words(error: &io::Error) -> String {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(rustls::Error::InvalidMessage(_)) => {
            "it does not speak TLS: give that machine an identity, and write https:// there".to_owned()
        }
        Some(rustls::Error::NoCertificatesPresented) => {
            "it showed no certificate: give that machine an identity".to_owned()
        }
        Some(rustls::Error::InvalidCertificate(why)) => {
            format!(
                "its certificate is not accepted ({why}): mend its identity, or the authorities that are trusted here"
            )
        }
        Some(rustls::Error::AlertReceived(alert)) => {
            format!(
                "it does not accept our certificate ({alert:?}): mend our identity, or the authorities that it trusts"
            )
        }
        _ => error.to_string(),
    }
}

/// What counts as one source: an address, or the network of a host with IPv6.
fn source_of(address: SocketAddr) -> IpAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from(u128::from(address) >> 64 << 64)),
    }
}

/// The socket beneath TLS: it is counted what comes in, and it moves from one event loop to another.
pub(super) struct Socket {
    stream: Option<TcpStream>,
    /// So much more is read of it.
    left: usize,
}

impl Socket {
    fn stream(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        self.stream
            .as_mut()
            .map(Pin::new)
            .ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.left == 0 {
            return Poll::Ready(Err(io::Error::other("it says too much for a handshake")));
        }
        let before = buf.filled().len();
        let read = self.stream()?.poll_read(cx, buf);
        if self.left != usize::MAX {
            self.left = self.left.saturating_sub(buf.filled().len() - before);
        }
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_shutdown(cx)
    }
}

impl AsyncRead for Inside {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Inside::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Inside::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Inside {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Inside::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Inside::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Inside::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Inside::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Inside::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Inside::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// The places in the door, in the order in which they were taken.
#[derive(Default)]
struct Places(Mutex<Taken>);

#[derive(Default)]
struct Taken {
    next: u64,
    taken: VecDeque<Standing>,
}

struct Standing {
    number: u64,
    source: IpAddr,
    task: AbortHandle,
}

/// Given back when it is dropped.
struct Place {
    places: Arc<Places>,
    number: u64,
}

impl Places {
    /// Takes a place for what `start` begins; where there is none, somebody leaves.
    fn stand(self: &Arc<Self>, source: IpAddr, start: impl FnOnce(Place) -> AbortHandle) {
        let mut places = self.lock();
        let number = places.next;
        places.next += 1;
        let task = start(Place {
            places: Arc::clone(self),
            number,
        });
        let leaves = if places.taken.len() >= MAX_HANDSHAKES {
            places.remove_one()
        } else {
            None
        };
        places.taken.push_back(Standing { number, source, task });
        drop(places);
        if let Some(leaves) = leaves {
            leaves.task.abort();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// The oldest of the source that has most.
    fn remove_one(&mut self) -> Option<Standing> {
        let mut each: HashMap<IpAddr, usize> = HashMap::new();
        for standing in &self.taken {
            *each.entry(standing.source).or_default() += 1;
        }
        let most = each.values().copied().max()?;
        let index = self.taken.iter().position(|standing| each[&standing.source] == most)?;
        self.taken.remove(index)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = self.places.lock();
        if let Some(index) = places.taken.iter().position(|standing| standing.number == self.number) {
            places.taken.remove(index);
        }
    }
}
