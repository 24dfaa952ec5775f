//! A POST to the collector, by a connection that stays open between batches. Redirections are not followed: the collector is the one that the
//! settings name.

use crate::answer::Answer;
use crate::headers::Headers;
use crate::settings::Settings;
use crate::tls;
use bytes::{Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use std::io::Write as _;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinHandle;

/// The media type of OTLP's binary encoding.
const PROTOBUF: &str = "application/x-protobuf";
/// The most addresses of a name that are tried.
const MOST_TRIED: usize = 4;
/// The most bytes of an answer's head.
const MAX_HEAD: usize = 16 * 1024;
/// The most bytes of an answer's body that are read: who says more is not listened to further.
const MAX_BODY: usize = 64 * 1024;

/// The way to the collector.
#[derive(Debug)]
pub(crate) struct Transport {
    settings: Arc<Settings>,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    sender: SendRequest<Full<Bytes>>,
    connection: JoinHandle<()>,
    /// Whom it leads to without TLS.
    plain_to: Option<IpAddr>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Transport {
    pub(crate) fn new(settings: Arc<Settings>) -> Transport {
        Transport { settings, open: None }
    }

    /// Sends one message, and reads the answer. Whoever stops waiting for it closes the connection.
    ///
    /// # Errors
    /// There was no answer, and why, for people; nothing of the headers is in it.
    pub(crate) async fn post(&mut self, headers: &Headers, message: &[u8]) -> Result<Answer, String> {
        let body = match self.settings.gzip {
            true => Bytes::from(gzip(message)?),
            false => Bytes::copy_from_slice(message),
        };
        let settings = Arc::clone(&self.settings);
        // There may be headers by now that there were not when it was opened.
        let may = |open: &Open| open.plain_to.is_none_or(|to| settings.check_plain(to, headers).is_ok());
        // A connection that has rested may be closed by the other side just now: a fresh one tells.
        if let Some(mut open) = self.open.take().filter(|open| !open.sender.is_closed() && may(open))
            && let Ok(response) = send(&mut open, self.request(headers, body.clone())?).await
        {
            return self.finish(open, response).await;
        }
        let mut open = self.connect(headers).await?;
        let response = send(&mut open, self.request(headers, body)?).await?;
        self.finish(open, response).await
    }

    /// Reads the rest of an answer, and keeps its connection for the next one.
    async fn finish(&mut self, open: Open, response: Response<Incoming>) -> Result<Answer, String> {
        let answer = read(response).await?;
        if !open.sender.is_closed() {
            self.open = Some(open);
        }
        Ok(answer)
    }

    fn request(&self, headers: &Headers, body: Bytes) -> Result<Request<Full<Bytes>>, String> {
        let endpoint = &self.settings.endpoint;
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(&endpoint.path)
            .header(HOST, endpoint.authority())
            .header(CONTENT_TYPE, PROTOBUF);
        if self.settings.gzip {
            request = request.header(CONTENT_ENCODING, "gzip");
        }
        let mut request = request
            .body(Full::new(body))
            .map_err(|_| "a request to this address cannot be made".to_owned())?;
        let all: &mut HeaderMap = request.headers_mut();
        all.insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("amita/", env!("CARGO_PKG_VERSION"))),
        );
        for (name, value) in headers.each() {
            all.insert(name.clone(), value.clone());
        }
        Ok(request)
    }

    async fn connect(&self, headers: &Headers) -> Result<Open, String> {
        let settings = &*self.settings;
        let endpoint = &settings.endpoint;
        let found = lookup_host((endpoint.host.as_str(), endpoint.port)).await;
        let found = found.map_err(|why| format!("{} is not found: {why}", endpoint.host))?;
        let mut last = format!("{} has no address", endpoint.host);
        for address in found.take(MOST_TRIED) {
            let stream = match TcpStream::connect(address).await {
                Ok(stream) => stream,
                Err(why) => {
                    last = format!("{address} does not take connections: {why}");
                    continue;
                }
            };
            let _ = stream.set_nodelay(true);
            if endpoint.is_tls {
                let stream = tls::wrap(settings.authorities.as_deref(), &endpoint.host, stream).await?;
                return shake_hands(stream, None).await;
            }
            // Judged by where it leads now, and not by what the name was when the node started.
            settings.check_plain(address.ip(), headers)?;
            return shake_hands(stream, Some(address.ip())).await;
        }
        Err(last)
    }
}

async fn shake_hands<S>(stream: S, plain_to: Option<IpAddr>) -> Result<Open, String>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    TokioIo<S>: Read + Write,
{
    let mut builder = hyper::client::conn::http1::Builder::new();
    builder.max_buf_size(MAX_HEAD);
    let (sender, connection) = builder
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|why| format!("HTTP: {why}"))?;
    let connection = tokio::spawn(async move {
        // How it ended is seen by who sends.
        let _ = connection.await;
    });
    Ok(Open {
        sender,
        connection,
        plain_to,
    })
}

async fn send(open: &mut Open, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, String> {
    open.sender.ready().await.map_err(|why| format!("HTTP: {why}"))?;
    let response = open.sender.send_request(request).await;
    response.map_err(|why| format!("HTTP: {why}"))
}

async fn read(response: Response<Incoming>) -> Result<Answer, String> {
    let (head, mut body) = response.into_parts();
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|why| format!("HTTP: {why}"))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > MAX_BODY {
            return Err(format!("it answers with more than {MAX_BODY} bytes"));
        }
        bytes.extend_from_slice(&data);
    }
    let text = |name: HeaderName| head.headers.get(name).and_then(|value| value.to_str().ok());
    let kind = text(CONTENT_TYPE).unwrap_or_default();
    Ok(Answer {
        status: head.status,
        retry_after: text(RETRY_AFTER).map(str::to_owned),
        is_protobuf: kind.split(';').next().is_some_and(|kind| kind.trim() == PROTOBUF),
        body: bytes.freeze(),
    })
}

fn gzip(message: &[u8]) -> Result<Vec<u8>, String> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let written = encoder.write_all(message).and_then(|()| encoder.finish());
    written.map_err(|why| format!("it cannot be compressed: {why}"))
}
