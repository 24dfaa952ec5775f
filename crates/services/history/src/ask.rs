//! Another node is asked, by its API: with the asker's own certificate where it has one, and in plain text on loopback only where not.

use amita_identity::{Expected, Live, Role, server_name};
use http::{Request, StatusCode, header};
use hyper::body::{Body as _, Incoming};
use hyper_util::rt::TokioIo;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// How long a node may take for its whole answer.
pub const PATIENCE: Duration = Duration::from_secs(3);
/// The longest answer that is taken.
const MAX_ANSWER_BYTES: usize = 16 << 20;
/// So much is shown of why a node refuses.
const MAX_REFUSAL_CHARS: usize = 300;

/// What a node has answered: whether it was done, and the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

impl Said {
    /// The body of an answer that was no refusal.
    ///
    /// # Errors
    /// It was one: what it says.
    pub fn done(self) -> Result<Vec<u8>, String> {
        if self.status == StatusCode::OK.as_u16() {
            return Ok(self.body);
        }
        let problem: Option<serde_json::Value> = serde_json::from_slice(&self.body).ok();
        let detail = problem.as_ref().and_then(|problem| problem["detail"].as_str());
        let says: String = detail
            .unwrap_or("no more than that")
            .chars()
            .take(MAX_REFUSAL_CHARS)
            .collect();
        Err(format!("it answers {}: {says}", self.status))
    }
}

/// Asks the API at `HOST:PORT` of the node `name` for a path and a query.
///
/// # Errors
/// In words: no connection, another node's, no answer in time, or one that is too long.
pub async fn get(address: &str, name: &str, path: &str, identity: Option<&Arc<Live>>) -> Result<Said, String> {
    within(PATIENCE, address, name, path, identity).await
}

async fn within(
    patience: Duration,
    address: &str,
    name: &str,
    path: &str,
    identity: Option<&Arc<Live>>,
) -> Result<Said, String> {
    match tokio::time::timeout(patience, exchange(address, name, path, identity)).await {
        Ok(said) => said,
        Err(_) => Err(format!(
            "{address} did not answer within {:.0} s",
            patience.as_secs_f64()
        )),
    }
}

/// The same, for who has no runtime.
///
/// # Errors
/// The same.
pub fn get_blocking(address: &str, name: &str, path: &str, identity: Option<&Arc<Live>>) -> Result<Said, String> {
    get_blocking_within(address, name, path, identity, PATIENCE)
}

/// The same, for who does not wait for so long.
///
/// # Errors
/// The same.
pub fn get_blocking_within(
    address: &str,
    name: &str,
    path: &str,
    identity: Option<&Arc<Live>>,
    patience: Duration,
) -> Result<Said, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build();
    let runtime = runtime.map_err(|why| why.to_string())?;
    runtime.block_on(within(patience, address, name, path, identity))
}

async fn exchange(address: &str, name: &str, path: &str, identity: Option<&Arc<Live>>) -> Result<Said, String> {
    let stream = TcpStream::connect(address).await;
    let stream = stream.map_err(|why| format!("{address} cannot be reached: {why}"))?;
    let Some(live) = identity else {
        let peer = stream.peer_addr().map_err(|why| why.to_string())?;
        is_own(peer)?;
        return send(stream, address, path).await;
    };
    // A gateway's certificate has the node's name as well.
    let expected = [Role::Node, Role::Gateway].map(|role| Expected::named(role, name));
    let mut why = String::new();
    let mut stream = Some(stream);
    for expected in expected {
        let tcp = match stream.take() {
            Some(tcp) => tcp,
            None => TcpStream::connect(address).await.map_err(|why| why.to_string())?,
        };
        let connector = TlsConnector::from(live.client_config(expected));
        match connector.connect(server_name(), tcp).await {
            Ok(tls) => return send(tls, address, path).await,
            Err(refused) => why = format!("{address} is not believed: {refused}"),
        }
    }
    Err(why)
}

/// Without an identity nothing leaves this machine.
fn is_own(peer: SocketAddr) -> Result<(), String> {
    if peer.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    Err(format!(
        "{peer} is another machine, and without an identity there is nobody to believe it"
    ))
}

async fn send<S>(stream: S, address: &str, path: &str) -> Result<Said, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let failed = |why: hyper::Error| format!("{address} does not answer: {why}");
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(failed)?;
    let driven = tokio::spawn(connection);
    let request = Request::get(path)
        .header(header::HOST, address)
        .header(header::CONNECTION, "close")
        .body(String::new())
        .map_err(|why| why.to_string())?;
    let response = sender.send_request(request).await.map_err(failed)?;
    let status = response.status().as_u16();
    let body = read(response.into_body(), address).await;
    driven.abort();
    Ok(Said { status, body: body? })
}

async fn read(mut body: Incoming, address: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|why| format!("{address} does not answer: {why}"))?;
        let data = frame.data_ref().map_or(&[][..], |data| data.as_ref());
        if bytes.len() + data.len() > MAX_ANSWER_BYTES {
            return Err(format!("{address} answers with more than {MAX_ANSWER_BYTES} bytes"));
        }
        bytes.extend_from_slice(data);
    }
    Ok(bytes)
}
