//! One HTTP/2 connection to one endpoint, opened by ourselves: as long as none is open, nothing was sent.

use super::Options;
use crate::error::{Error, Refusal};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::net::TcpStream;
use tonic::body::Body;

/// etcd's port.
const DEFAULT_PORT: u16 = 2379;
/// Bytes that a server may have on its way to us unasked, per stream and per connection: a full map of a large cluster.
const WINDOW_BYTES: u32 = 4 * 1024 * 1024;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    host: String,
    port: u16,
    uri: http::Uri,
}

impl Endpoint {
    pub(super) fn parse(text: &str) -> Result<Endpoint, Error> {
        let bad = |message: &str| {
            let message = format!("{text:?} is no metadata endpoint: {message}; write HOST:PORT or http://HOST:PORT");
            Error::from(Refusal::Server {
                code: "endpoint".to_owned(),
                message,
            })
        };
        let address = match text.trim().split_once("://") {
            None => text.trim(),
            Some(("http", address)) => address,
            Some(("https", _)) => return Err(bad("TLS to the metadata is not supported yet")),
            Some(_) => return Err(bad("unknown scheme")),
        };
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
        let uri = format!("http://{name}")
            .parse()
            .map_err(|error| bad(&format!("{error}")))?;
        Ok(Endpoint { host, port, uri })
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.uri.authority().map_or("", |authority| authority.as_str()))
    }
}

/// An open connection; clones share it.
#[derive(Clone)]
pub(super) struct Connection {
    sender: http2::SendRequest<Body>,
    pub(super) endpoint: Endpoint,
    /// Tells connections of one client apart.
    pub(super) number: u64,
}

impl Connection {
    pub(super) async fn open(endpoint: &Endpoint, number: u64, options: &Options) -> Result<Connection, String> {
        let opening = async {
            let stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port))
                .await
                .map_err(|e| e.to_string())?;
            stream.set_nodelay(true).map_err(|error| error.to_string())?;
            http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .keep_alive_interval(options.ping_interval)
                .keep_alive_timeout(options.ping_timeout)
                .initial_stream_window_size(WINDOW_BYTES)
                .initial_connection_window_size(WINDOW_BYTES)
                .handshake(TokioIo::new(stream))
                .await
                .map_err(|error| error.to_string())
        };
        let (sender, driver) = tokio::time::timeout(options.connect_timeout, opening)
            .await
            .map_err(|_| format!("no connection within {:?}", options.connect_timeout))??;
        // Its end is seen by `is_closed` and by the calls that are under way.
        tokio::spawn(async move { driver.await.unwrap_or(()) });
        Ok(Connection {
            sender,
            endpoint: endpoint.clone(),
            number,
        })
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
