//! One HTTP/2 connection to one endpoint, opened by ourselves: as long as none is open, nothing was sent.

use super::Options;
use super::tls::{FirstWords, Stream, words};
use crate::error::Error;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::body::Body;

/// etcd's port.
const DEFAULT_PORT: u16 = 2379;
/// Bytes that a server may have on its way to us unasked, per stream and per connection: a full map of a large cluster.
const WINDOW_BYTES: u32 = 4 * 1024 * 1024;

/// A server that more try to reach than it takes has its kernel drop requests to connect, or closes at once what came in, and has
/// places again a quarter of a second later (`amita_reactor::admission`). Our kernel would ask again after a second, which is when we
/// have given up.
const REDIAL_AFTER: Duration = Duration::from_millis(300);
/// How often a server that closes at once is asked again.
const MOST_REDIALS: u32 = 2;

const NOT_A_WORD: &str = "the server closed the connection after the TLS handshake without a word: its log says why";

fn setting(why: String) -> Error {
    Error::Setting { why }
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    host: String,
    port: u16,
    uri: http::Uri,
    secure: bool,
}

impl Endpoint {
    /// Without a scheme it is TLS for who has what TLS needs.
    pub(super) fn parse(text: &str, options: &Options) -> Result<Endpoint, Error> {
        let bad = |message: &str| {
            let message = format!(
                "{text:?} is no metadata endpoint: {message}; write HOST:PORT, https://HOST:PORT or http://HOST:PORT"
            );
            Error::Setting { why: message }
        };
        let (secure, address) = match text.trim().split_once("://") {
            None => (options.tls.is_some(), text.trim()),
            Some(("http", address)) => (false, address),
            Some(("https", address)) => (true, address),
            Some(_) => return Err(bad("unknown scheme")),
        };
        match (secure, options.tls.is_some()) {
            (true, false) => {
                return Err(setting(format!(
                    "the metadata at {address} speaks TLS, which needs an identity of ours: pass --identity DIR, or set AMITA_IDENTITY"
                )));
            }
            (false, true) if !options.insecure_network => {
                return Err(setting(format!(
                    "the metadata at {address} is not spoken to plainly by who has an identity: write https://{address}, or pass \
                     --insecure-network in a network of the cluster's own"
                )));
            }
            _ => {}
        }
        let authority: http::uri::Authority = address
            .trim_end_matches('/')
            .parse()
            .map_err(|error| bad(&format!("{error}")))?;
        if authority.host().is_empty() || authority.as_str().contains('@') {
            return Err(bad("no host"));
        }
        let host = authority
            .host()
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let port = match authority.port_u16() {
            Some(port) => port,
            None if authority.as_str() == authority.host() => DEFAULT_PORT,
            None => return Err(bad("the port is no number below 65536")),
        };
        let name = if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        };
        let uri = format!("{}://{name}", if secure { "https" } else { "http" })
            .parse()
            .map_err(|error| bad(&format!("{error}")))?;
        let endpoint = Endpoint {
            host,
            port,
            uri,
            secure,
        };
        if !secure && !endpoint.is_loopback() && !options.insecure_network {
            return Err(setting(format!(
                "the metadata at {endpoint} is not spoken to plainly, since whoever is on the way could read and change all of \
                 it: pass --identity DIR (or set AMITA_IDENTITY), or --insecure-network in a network of the cluster's own"
            )));
        }
        Ok(endpoint)
    }

    /// Within the time that the options give it.
    pub(super) async fn dial(&self, options: &Options) -> Result<TcpStream, String> {
        let deadline = Instant::now() + options.connect_timeout;
        let mut dials = JoinSet::new();
        let dialled = loop {
            dials.spawn(TcpStream::connect((self.host.clone(), self.port)));
            let until = deadline.min(Instant::now() + REDIAL_AFTER);
            match tokio::time::timeout_at(until, dials.join_next()).await {
                Ok(Some(Ok(dialled))) => break dialled,
                Ok(_) => break Err(io::Error::other("the runtime has ended")),
                Err(_) if until == deadline => {
                    return Err(format!("no connection within {:?}", options.connect_timeout));
                }
                Err(_) => {}
            }
        };
        let stream = dialled.map_err(|error| error.to_string())?;
        if !self.secure && !options.insecure_network {
            // A name leads where this machine's tables say.
            let peer = stream.peer_addr().map_err(|error| error.to_string())?;
            if !peer.ip().to_canonical().is_loopback() {
                return Err(format!(
                    "{} is another machine ({peer}), and is not spoken to plainly without --insecure-network",
                    self.host
                ));
            }
        }
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        Ok(stream)
    }

    /// By TLS, where it is spoken there.
    pub(super) async fn prove(&self, mut dialled: TcpStream, options: &Options) -> Result<Stream, String> {
        let Some(tls) = options.tls.as_ref().filter(|_| self.secure) else {
            return Ok(Stream::plain(dialled));
        };
        let mut redials = 0;
        loop {
            match Stream::secure(dialled, &self.host, tls).await {
                Ok(stream) => return Ok(stream),
                // Closed at once: nobody has looked at us.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset && redials < MOST_REDIALS => redials += 1,
                Err(error) => return Err(words(&error)),
            }
            tokio::time::sleep(REDIAL_AFTER).await;
            dialled = self.dial(options).await?;
        }
    }

    pub(super) fn is_loopback(&self) -> bool {
        let ip = self.host.parse::<std::net::IpAddr>();
        self.host.eq_ignore_ascii_case("localhost") || ip.is_ok_and(|ip| ip.to_canonical().is_loopback())
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.uri.authority().map_or("", |authority| authority.as_str()))
    }
}

/// A connection of a client, as its answers name it. Another one may lead to another server, also at the same address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line(u64);

/// An open connection; clones share it.
#[derive(Clone)]
pub(super) struct Connection {
    sender: http2::SendRequest<Body>,
    pub(super) endpoint: Endpoint,
    /// Tells connections of one client apart.
    pub(super) number: u64,
    first: FirstWords,
}

impl Connection {
    /// Its first words have to come within `patience`.
    pub(super) async fn open(
        endpoint: &Endpoint,
        number: u64,
        options: &Options,
        patience: Duration,
    ) -> Result<Connection, String> {
        let dialled = endpoint.dial(options).await?;
        // What proves who is who takes a busy server longer than to accept.
        let opening = async {
            let stream = endpoint.prove(dialled, options).await?;
            let first = stream.first_words();
            let (sender, driver) = http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .keep_alive_interval(options.ping_interval)
                .keep_alive_timeout(options.ping_timeout)
                .initial_stream_window_size(WINDOW_BYTES)
                .initial_connection_window_size(WINDOW_BYTES)
                .handshake(TokioIo::new(stream))
                .await
                .map_err(|error| first.refusal().unwrap_or_else(|| error.to_string()))?;
            // Its end is seen by `is_closed` and by the calls that are under way.
            if endpoint.secure {
                let told = first.clone();
                tokio::spawn(async move {
                    let ended = driver.await;
                    told.end(ended.map_or_else(|error| format!("{NOT_A_WORD} ({error})"), |()| NOT_A_WORD.to_owned()));
                });
                first.wait().await?;
            } else {
                tokio::spawn(async move { driver.await.unwrap_or(()) });
            }
            Ok::<_, String>((sender, first))
        };
        let (sender, first) = tokio::time::timeout(patience, opening)
            .await
            .map_err(|_| format!("no word within {patience:?}"))??;
        Ok(Connection {
            sender,
            endpoint: endpoint.clone(),
            number,
            first,
        })
    }

    /// Why the server surely did nothing of what it was asked here, where it is known.
    pub(super) fn refusal(&self) -> Option<String> {
        self.first.refusal()
    }

    pub(super) fn line(&self) -> Line {
        Line(self.number)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    pub(super) fn grpc(&self, most_bytes: usize) -> tonic::client::Grpc<Connection> {
        tonic::client::Grpc::with_origin(self.clone(), self.endpoint.uri.clone()).max_decoding_message_size(most_bytes)
    }
}

impl tower_service::Service<http::Request<Body>> for Connection {
    type Response = http::Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.sender.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(self.sender.send_request(request))
    }
}

#[cfg(test)]
mod tests;
