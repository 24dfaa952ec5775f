//! What lies between TCP and HTTP/2: nothing or TLS, and what is known of the server by what it said first.
//!
//! In TLS 1.3 a client has finished its handshake before the server has looked at its certificate. A request that is sent at
//! once may be thrown away with the certificate, and nobody could tell that from one that was carried out. So nothing is sent
//! over TLS until the server has said its first bytes of HTTP/2, which it does when it has accepted the client.

use amita_identity::{Expected, Live, Role};
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConfig};
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// HTTP/2, as TLS names it (RFC 9113, section 3.2): etcd answers nothing else to who does not say so.
const ALPN: &[u8] = b"h2";
/// The first bytes of an alert (RFC 8446, section 5.1): what a server of TLS answers to who speaks plainly.
const ALERT: [u8; 2] = [21, 3];
/// An alert in the clear takes seven bytes.
const LAST_WORDS_BYTES: usize = 64;

/// Servers of the metadata are nodes of this name.
pub const SERVER_NAME: &str = "metadata";

/// How a client proves itself and knows its servers. It is asked for a configuration at each new connection, so that
/// certificates and trust may change while the client lives.
#[derive(Clone)]
pub struct Tls(Arc<dyn Fn() -> Arc<ClientConfig> + Send + Sync>);

impl Tls {
    #[must_use]
    pub fn new(config: impl Fn() -> Arc<ClientConfig> + Send + Sync + 'static) -> Tls {
        Tls(Arc::new(config))
    }

    /// By an identity of the cluster, which may be renewed meanwhile; it believes the holder of the name of metadata servers
    /// ([`SERVER_NAME`]) and nobody else.
    #[must_use]
    pub fn of(live: &Arc<Live>) -> Tls {
        Tls::from(live.client_config(Expected::named(Role::Node, SERVER_NAME)))
    }
}

/// One that never changes.
impl From<Arc<ClientConfig>> for Tls {
    fn from(config: Arc<ClientConfig>) -> Tls {
        Tls::new(move || Arc::clone(&config))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

/// What a server has said so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Said {
    #[default]
    Nothing,
    /// Bytes that may be HTTP/2: over TLS it has accepted us.
    Something,
    /// It has refused us before anything could be asked of it.
    Refused(String),
}

/// Shared by the stream and by who waits for its first words.
#[derive(Clone, Debug, Default)]
pub(super) struct FirstWords(Arc<(Mutex<Said>, Notify)>);

impl FirstWords {
    fn get(&self) -> Said {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The first that is told holds.
    fn set(&self, said: impl FnOnce() -> Said) {
        let mut now = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *now == Said::Nothing {
            *now = said();
            self.0.1.notify_waiters();
        }
    }

    /// Nothing more will come.
    pub(super) fn end(&self, why: String) {
        self.set(|| Said::Refused(why));
    }

    /// Why the server surely did nothing of what it was asked, if it is known.
    pub(super) fn refusal(&self) -> Option<String> {
        match self.get() {
            Said::Refused(why) => Some(why),
            Said::Nothing | Said::Something => None,
        }
    }

    /// Waits until the server has accepted us.
    pub(super) async fn wait(&self) -> Result<(), String> {
        loop {
            let told = self.0.1.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            match self.get() {
                Said::Nothing => told.await,
                Said::Something => return Ok(()),
                Said::Refused(why) => return Err(why),
            }
        }
    }
}

/// The bytes beneath HTTP/2.
pub(super) struct Stream {
    bytes: Bytes,
    heard: bool,
    first: FirstWords,
    /// Why a write failed that has not been told yet.
    unwritten: Option<io::Error>,
}

enum Bytes {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    pub(super) fn plain(stream: TcpStream) -> Stream {
        Stream::new(Bytes::Plain(stream))
    }

    /// # Errors
    /// What has ended the handshake; [`words`] says which side is to be mended.
    pub(super) async fn secure(stream: TcpStream, host: &str, tls: &Tls) -> io::Result<Stream> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| io::Error::other(format!("{host:?} can be in no certificate")))?;
        let mut config = (tls.0)();
        if config.alpn_protocols.is_empty() {
            Arc::make_mut(&mut config).alpn_protocols = vec![ALPN.to_vec()];
        }
        let stream = TlsConnector::from(config).connect(name, stream).await?;
        Ok(Stream::new(Bytes::Tls(Box::new(stream))))
    }

    fn new(bytes: Bytes) -> Stream {
        Stream {
            bytes,
            heard: false,
            first: FirstWords::default(),
            unwritten: None,
        }
    }

    pub(super) fn first_words(&self) -> FirstWords {
        self.first.clone()
    }

    fn hear(&mut self, read: &io::Result<()>, fresh: &[u8]) -> Option<io::Error> {
        match read {
            // Who was spoken to plainly may have done what it was asked, and its answers may be lost.
            Err(_) if matches!(self.bytes, Bytes::Plain(_)) => {}
            Err(error) => self.first.end(words(error)),
            Ok(()) if fresh.is_empty() => {}
            Ok(()) if matches!(self.bytes, Bytes::Plain(_)) && fresh.starts_with(&ALERT) => {
                let why = "the server speaks TLS, and was spoken to plainly: write https://, and give an identity (--identity DIR)";
                self.first.end(why.to_owned());
                return Some(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            Ok(()) => self.first.set(|| Said::Something),
        }
        self.heard = !fresh.is_empty();
        None
    }

    /// A server that refuses us says why and closes; who is about to write meanwhile learns of the close first, and would never
    /// look at what was said. So a write that has failed is told when there is something to read, which there is at a connection
    /// that has ended.
    fn or_last_words<T>(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if self.heard {
            return written;
        }
        let why = match (written, self.unwritten.take()) {
            (Poll::Ready(Err(why)), None) | (_, Some(why)) => why,
            (written, None) => return written,
        };
        let mut words = [0; LAST_WORDS_BYTES];
        match self.as_mut().poll_read(cx, &mut ReadBuf::new(&mut words)) {
            // What they mean is kept by `hear`; the writer's error is the connection's end either way.
            Poll::Ready(_) => Poll::Ready(Err(why)),
            Poll::Pending => {
                self.unwritten = Some(why);
                Poll::Pending
            }
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = match &mut self.bytes {
            Bytes::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Bytes::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        };
        let Poll::Ready(read) = read else {
            return Poll::Pending;
        };
        if !self.heard
            && let Some(error) = self.hear(&read, &buf.filled()[before..])
        {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(read)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = match &mut self.bytes {
            Bytes::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Bytes::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        };
        self.or_last_words(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = match &mut self.bytes {
            Bytes::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Bytes::Tls(stream) => Pin::new(stream).poll_flush(cx),
        };
        self.or_last_words(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.bytes {
            Bytes::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Bytes::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// An error of a connection, and which side is to be mended where it is one of TLS.
pub(super) fn words(error: &io::Error) -> String {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(error) => tls_words(error),
        // With what we had sent still unread, a close is a reset.
        None if [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset].contains(&error.kind()) => {
            "the server closed the connection before it said anything: its log says why, if it speaks TLS".to_owned()
        }
        None => error.to_string(),
    }
}

fn tls_words(error: &rustls::Error) -> String {
    use AlertDescription as Alert;
    match error {
        rustls::Error::InvalidCertificate(why) => format!(
            "the server's certificate is not accepted here ({why}): mend the server's certificate, or the authorities that are \
             trusted here"
        ),
        rustls::Error::AlertReceived(Alert::CertificateRequired) => {
            "the server wants a certificate, and we showed none: give an identity here (--identity DIR)".to_owned()
        }
        rustls::Error::AlertReceived(Alert::UnknownCA) => {
            "the server does not trust the authority of our certificate: mend the identity here, or the authorities that the \
             server trusts"
                .to_owned()
        }
        rustls::Error::AlertReceived(Alert::CertificateExpired) => {
            "the server finds our certificate expired: renew the identity here, and look at both clocks".to_owned()
        }
        rustls::Error::AlertReceived(Alert::CertificateRevoked) => {
            "our certificate is revoked: this machine needs a new identity".to_owned()
        }
        rustls::Error::AlertReceived(
            alert @ (Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateUnknown
            | Alert::AccessDenied),
        ) => format!(
            "the server does not accept our certificate, or misses one ({alert:?}): mend the identity here; the server's log \
             says more"
        ),
        rustls::Error::AlertReceived(alert @ (Alert::ProtocolVersion | Alert::HandshakeFailure)) => {
            format!("the server speaks no TLS that is spoken here ({alert:?}): it must speak TLS 1.3")
        }
        rustls::Error::InvalidMessage(_) => {
            "the server does not speak TLS: give it an identity, or write http:// and pass --insecure-network".to_owned()
        }
        error => format!("TLS: {error}"),
    }
}

#[cfg(test)]
mod tests;
