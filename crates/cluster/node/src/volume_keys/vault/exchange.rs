//! One request to Vault and its answer, by a connection that stays open for the next one.

use super::line::Place;
use crate::volume_keys::file::read_public;
use crate::volume_keys::reading;
use amita_crypt::{HttpRequest, HttpResponse, TOKEN_HEADER, Zeroizing};
use bytes::Bytes;
use http::header::{HOST, HeaderValue, USER_AGENT};
use http::{HeaderName, Request};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

/// A connection is made within this, each address of a name.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// All of a request is done within this: names, connection, TLS and answer.
const LIMIT: Duration = Duration::from_secs(8);
/// A connection that nobody has used for so long is not used again: who lies in between may have forgotten it, or the other side may be gone.
const RESTS: Duration = Duration::from_secs(20);
/// By one that has rested an answer begins within this; else a fresh one is tried, in the time that is left.
const KEPT_LIMIT: Duration = Duration::from_secs(2);
/// The most addresses of a name that are tried.
const MAX_TRIED: usize = 2;
/// The most bytes of an answer's head.
const MAX_HEAD: usize = 16 * 1024;

/// The way to one Vault.
pub(super) struct Way {
    place: Place,
    pub(super) open: Option<Open>,
}

pub(super) struct Open {
    sender: SendRequest<Full<Bytes>>,
    connection: JoinHandle<()>,
    /// Since then nobody has used it.
    pub(super) rested: Instant,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Way {
    pub fn new(place: Place) -> Way {
        Way { place, open: None }
    }

    /// Asks, within [`LIMIT`].
    ///
    /// # Errors
    /// There is no answer: why, for people. It may have come there all the same.
    pub async fn ask(&mut self, request: &HttpRequest, token: &str) -> Result<HttpResponse, String> {
        // Authorities are files, which are read by threads of their own.
        match tokio::time::timeout(LIMIT, self.exchange(request, token)).await {
            Ok(done) => done,
            Err(_) => {
                self.open = None;
                Err(format!("it has not answered within {} s", LIMIT.as_secs()))
            }
        }
    }

    async fn exchange(&mut self, request: &HttpRequest, token: &str) -> Result<HttpResponse, String> {
        // One that has rested may be closed by the other side just now, or nobody may be there any more (another server of Vault's has its
        // address): a fresh one tells.
        let is_good = |open: &Open| !open.sender.is_closed() && open.rested.elapsed() <= RESTS;
        if let Some(mut open) = self.open.take().filter(is_good) {
            let sent = send(&mut open, self.made(request, token)?);
            if let Ok(Ok(answer)) = tokio::time::timeout(KEPT_LIMIT, sent).await {
                return self.read(open, answer).await;
            }
        }
        let mut open = self.connect().await?;
        let answer = send(&mut open, self.made(request, token)?).await?;
        self.read(open, answer).await
    }

    /// As it goes over the wire.
    fn made(&self, request: &HttpRequest, token: &str) -> Result<Request<Full<Bytes>>, String> {
        let bad = |_| "the request cannot be made".to_owned();
        let mut made = Request::builder()
            .method(request.method)
            .uri(&request.path)
            .header(HOST, self.place.authority())
            .body(Full::new(Bytes::copy_from_slice(&request.body)))
            .map_err(bad)?;
        let headers = made.headers_mut();
        headers.insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("amita/", env!("CARGO_PKG_VERSION"))),
        );
        let shown = request.headers.iter().map(|(name, value)| (*name, value.as_str()));
        for (name, value) in shown.chain([(TOKEN_HEADER, token)]) {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| "the request cannot be made".to_owned())?;
            let mut value = HeaderValue::from_str(value).map_err(|_| "the request cannot be made".to_owned())?;
            // It is not shown by what prints headers.
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(made)
    }

    /// The answer, whole; its connection is kept for the next one.
    async fn read(&mut self, mut open: Open, answer: http::Response<Incoming>) -> Result<HttpResponse, String> {
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), HttpResponse::MAX_BODY_BYTES)
            .collect()
            .await
            .map_err(|why| format!("its answer is cut off, or too long: {why}"))?;
        // With room for all of it, in one place that is wiped. (What HTTP and TLS have had of it is theirs.)
        let body = body.to_bytes();
        let mut kept = Zeroizing::new(Vec::with_capacity(body.len()));
        kept.extend_from_slice(&body);
        if !open.sender.is_closed() {
            open.rested = Instant::now();
            self.open = Some(open);
        }
        Ok(HttpResponse { status, body: kept })
    }

    async fn connect(&self) -> Result<Open, String> {
        let place = &self.place;
        let found = lookup_host((place.host.as_str(), place.port)).await;
        let found = found.map_err(|why| format!("its name is not found: {why}"))?;
        let mut last = "its name has no address".to_owned();
        for address in found.take(MAX_TRIED) {
            let stream = match tokio::time::timeout(CONNECT_LIMIT, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => stream,
                Ok(Err(why)) => {
                    last = format!("{address} takes no connection: {why}");
                    continue;
                }
                Err(_) => {
                    last = format!("{address} takes no connection within {} s", CONNECT_LIMIT.as_secs());
                    continue;
                }
            };
            let _ = stream.set_nodelay(true);
            let Some(authorities) = &place.ca_file else {
                return shake_hands(stream).await;
            };
            let authorities = authorities.clone();
            // It is waited for only so long.
            let read = move || reading::within(&authorities, reading::LIMIT, read_public);
            let pem = tokio::task::spawn_blocking(read).await;
            let pem = pem.map_err(|_| "its ca-file was not read".to_owned())?;
            let pem = pem.map_err(|why| format!("its ca-file is of no use: {why}"))?;
            let name = ServerName::try_from(place.host.clone()).map_err(|_| "its host is no name".to_owned())?;
            let connector = TlsConnector::from(Arc::new(believing(&pem)?));
            let stream = connector.connect(name, stream).await;
            return shake_hands(stream.map_err(|why| format!("TLS fails: {why}"))?).await;
        }
        Err(last)
    }
}

/// TLS with whom these certificates vouch for, and nobody else.
fn believing(pem: &str) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|why| format!("its ca-file cannot be read: {why}"))?;
        let added = roots.add(certificate);
        added.map_err(|why| format!("a certificate of its ca-file is none: {why}"))?;
    }
    if roots.is_empty() {
        return Err("there is no certificate in its ca-file".to_owned());
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|why| format!("TLS: {why}"))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

async fn shake_hands<S>(stream: S) -> Result<Open, String>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = hyper::client::conn::http1::Builder::new();
    builder.max_buf_size(MAX_HEAD);
    let (sender, connection) = builder
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|why| format!("HTTP fails: {why}"))?;
    let connection = tokio::spawn(async move {
        let _ = connection.await;
    });
    let rested = Instant::now();
    Ok(Open {
        sender,
        connection,
        rested,
    })
}

async fn send(open: &mut Open, request: Request<Full<Bytes>>) -> Result<http::Response<Incoming>, String> {
    let failed = |why: hyper::Error| format!("its connection breaks: {why}");
    open.sender.ready().await.map_err(failed)?;
    open.sender.send_request(request).await.map_err(failed)
}
