//! Requests are sent: by HTTP/1.1, over TLS or, to whoever wants it, in plain text; one after the other, by one connection that is kept.

use super::request::Request;
use super::settings::S3Settings;
use crate::store::MAX_OBJECT_BYTES;
use bytes::Bytes;
use http::header::{DATE, HOST, USER_AGENT};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::error::Error as _;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use url::Url;

/// For a connection, and for its TLS.
const CONNECT: Duration = Duration::from_secs(10);
/// For a connection that was kept to have sent all of the request before.
const KEPT: Duration = Duration::from_secs(1);
/// For an answer of nothing, and for each MiB that goes or comes.
const ANSWER: Duration = Duration::from_secs(60);
const MIB_TIME: Duration = Duration::from_secs(30);
/// What is under way when all is to end has so long still, and so has each request behind that: whoever ends has something to take back.
const ENDING: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 3000 });
/// How often it is looked whether it is to end.
const LOOK: Duration = Duration::from_millis(100);
const NAME: &str = concat!("amita/", env!("CARGO_PKG_VERSION"));

/// An answer, all of it.
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
    /// Where the bucket is, if the store says so.
    pub region: Option<String>,
    /// What time it is there, in seconds since 1970, if it says so.
    pub now: Option<u64>,
}

/// The way to an endpoint.
pub struct Wire {
    runtime: Runtime,
    tls: Option<Arc<ClientConfig>>,
    kept: Option<SendRequest<Full<Bytes>>>,
    /// Is what waits to end?
    ends: fn() -> bool,
}

impl Wire {
    pub fn new(settings: &S3Settings) -> Result<Wire, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let tls = match settings.base()?.scheme() {
            "https" => Some(tls(settings)?),
            _ => None,
        };
        Ok(Wire {
            runtime: runtime.map_err(|why| format!("no runtime: {why}"))?,
            tls,
            kept: None,
            ends: settings.ends,
        })
    }

    /// The answer; or why there is none, and that it is not known whether it was done.
    pub fn send(&mut self, request: &Request) -> Result<Answer, String> {
        let mib = u32::try_from(request.body.len() >> 20).unwrap_or(u32::MAX);
        let time = ANSWER + MIB_TIME.saturating_mul(mib);
        let (tls, kept) = (self.tls.clone(), self.kept.take());
        let ends = self.ends;
        let sent = self.runtime.block_on(async move {
            tokio::select! {
                sent = send(request, tls, kept, time) => sent,
                () = ended(ends) => Err("there was no answer yet when all was to end".to_owned()),
            }
        });
        let (answer, kept) = sent?;
        self.kept = kept;
        Ok(answer)
    }
}

/// It is to end, and what is under way has had its time.
async fn ended(ends: fn() -> bool) {
    while !ends() {
        sleep(LOOK).await;
    }
    sleep(ENDING).await;
}

type Kept = Option<SendRequest<Full<Bytes>>>;

async fn send(
    request: &Request,
    tls: Option<Arc<ClientConfig>>,
    kept: Kept,
    time: Duration,
) -> Result<(Answer, Kept), String> {
    let mut ready = None;
    // It is not where the other end has answered early, and takes no more of the request before: then it never will be.
    if let Some(mut kept) = kept
        && matches!(timeout(KEPT, kept.ready()).await, Ok(Ok(())))
    {
        ready = Some(kept);
    }
    // One that was kept may have been closed by the other end at any time; then nothing of the request was done, or it is sent again.
    let mut sender = match ready {
        Some(kept) => kept,
        None => connect(&request.url, tls).await?,
    };
    let asked = timeout(time, sender.send_request(built(request)?)).await;
    let answer = asked.map_err(|_| format!("no answer within {} s", time.as_secs()))?;
    let answer = answer.map_err(|why| told("no answer", &why))?;
    let status = answer.status().as_u16();
    let region = answer.headers().get("x-amz-bucket-region");
    let region = region.and_then(|value| value.to_str().ok()).map(str::to_owned);
    let date = answer.headers().get(DATE).and_then(|value| value.to_str().ok());
    let now = date.and_then(|text| httpdate::parse_http_date(text).ok());
    let now = now
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
        .map(|since| since.as_secs());
    let mut incoming = answer.into_body();
    let mut body = Vec::new();
    loop {
        let frame = timeout(ANSWER, incoming.frame()).await;
        let frame = frame.map_err(|_| "the answer stands still".to_owned())?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|why| told("the answer was cut off", &why))?;
        if let Some(data) = frame.data_ref() {
            if body.len() + data.len() > MAX_OBJECT_BYTES {
                return Err("the answer is longer than any object".to_owned());
            }
            body.extend_from_slice(data);
        }
    }
    Ok((
        Answer {
            status,
            body,
            region,
            now,
        },
        Some(sender),
    ))
}

fn told(what: &str, why: &hyper::Error) -> String {
    match why.source() {
        Some(source) => format!("{what}: {why}: {source}"),
        None => format!("{what}: {why}"),
    }
}

fn built(request: &Request) -> Result<hyper::Request<Full<Bytes>>, String> {
    let url = &request.url;
    let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let mut built = hyper::Request::builder()
        .method(request.method.clone())
        .uri(target)
        .header(HOST, &url[url::Position::BeforeHost..url::Position::AfterPort])
        .header(USER_AGENT, NAME);
    for (name, value) in &request.headers {
        built = built.header(*name, value);
    }
    let body = Full::new(request.body.clone());
    built.body(body).map_err(|why| format!("the request cannot be: {why}"))
}

async fn connect(url: &Url, tls: Option<Arc<ClientConfig>>) -> Result<SendRequest<Full<Bytes>>, String> {
    let host = url.host_str().unwrap_or_default();
    let port = url.port_or_known_default().unwrap_or(443);
    // As a certificate and a resolver know it.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let late = |_| format!("{host}:{port} cannot be reached within {} s", CONNECT.as_secs());
    let stream = timeout(CONNECT, TcpStream::connect((host, port))).await.map_err(late)?;
    let stream = stream.map_err(|why| format!("{host}:{port}: {why}"))?;
    // Small requests are many, and wait for nothing.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else {
        return begin(stream).await;
    };
    let name = ServerName::try_from(host.to_owned()).map_err(|_| format!("{host} is no host's name"))?;
    let proved = timeout(CONNECT, TlsConnector::from(tls).connect(name, stream))
        .await
        .map_err(late)?;
    begin(proved.map_err(|why| format!("TLS with {host}:{port}: {why}"))?).await
}

async fn begin<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
) -> Result<SendRequest<Full<Bytes>>, String> {
    let begun = handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = begun.map_err(|why| told("no connection", &why))?;
    // How it ends is told to who waits for an answer.
    tokio::spawn(async move {
        let _ = connection.await;
    });
    poll_fn(|context| sender.poll_ready(context))
        .await
        .map_err(|why| told("no connection", &why))?;
    Ok(sender)
}

fn tls(settings: &S3Settings) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if let Some(pem) = &settings.authorities {
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|why| format!("the authorities: {why}"))?;
            roots
                .add(certificate)
                .map_err(|why| format!("the authorities: {why}"))?;
        }
    }
    if roots.is_empty() {
        return Err("no authorities are known that could prove the endpoint (ca-certificates, or --s3-ca)".to_owned());
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|why| format!("TLS: {why}"))?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
