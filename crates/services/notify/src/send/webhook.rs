//! A POST of JSON, signed.
//!
//! ```text
//! Amita-Signature: t=SECONDS,v1=HEX
//! ```
//! HEX is the HMAC-SHA256 of `SECONDS.BODY` by the channel's key: what was recorded cannot be sent again later, where the receiver looks
//! at the time. A redirection is not followed: the receiver is the one that an admin has named.

use super::{Said, connect, tls};
use crate::channel::{Channel, Secrets, place};
use crate::message::Message;
use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign as hmac};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::Full;
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use std::fmt::Write as _;

/// The header with the signature.
pub const SIGNATURE: HeaderName = HeaderName::from_static("amita-signature");
/// The header with the message's id: the same for each attempt.
const MESSAGE_ID: HeaderName = HeaderName::from_static("amita-message-id");
/// The most bytes of the answer's head.
const MAX_HEAD: usize = 16 * 1024;

/// The signature of a body; `at` is in seconds since 1970.
#[must_use]
pub fn sign(key: &str, at: u64, body: &[u8]) -> String {
    let key = Key::new(HMAC_SHA256, key.as_bytes());
    let mut signed = format!("{at}.").into_bytes();
    signed.extend_from_slice(body);
    let mut text = format!("t={at},v1=");
    for byte in hmac(&key, &signed).as_ref() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Tells a webhook.
pub(super) async fn post(channel: &Channel, origin: &str, secrets: &Secrets, message: &Message) -> Said {
    let (is_tls, rest) = match (origin.strip_prefix("https://"), origin.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (None, Some(rest)) => (false, rest),
        (None, None) => return Err("the webhook's address is no address".to_owned()),
    };
    let (host, port) = place(rest).ok_or("the webhook's address is no address")?;
    let request = request(rest, secrets, message)?;
    let stream = connect::connect(channel, &host, port).await?;
    let status = if is_tls {
        exchange(tls::wrap(channel, &host, stream).await?, request).await?
    } else {
        connect::is_here(&stream)?;
        exchange(stream, request).await?
    };
    match status {
        _ if status.is_success() => Ok(status.to_string()),
        _ if status.is_redirection() => Err(format!(
            "it answers {status}: redirections are not followed; give the channel the address that it leads to"
        )),
        _ => Err(format!("it answers {status}")),
    }
}

fn request(authority: &str, secrets: &Secrets, message: &Message) -> Result<Request<Full<Bytes>>, String> {
    let body = serde_json::to_vec(message).map_err(|why| why.to_string())?;
    let signature = secrets.key.as_ref().map(|key| sign(key, crate::now(), &body));
    let path = secrets.path.as_deref().unwrap_or("/");
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(HOST, authority)
        .header(USER_AGENT, "amita")
        .header(CONTENT_TYPE, "application/json")
        .header(MESSAGE_ID, &message.id);
    if let Some(signature) = signature {
        let value = HeaderValue::from_str(&signature).map_err(|why| why.to_string())?;
        request = request.header(SIGNATURE, value);
    }
    // What is wrong with a path is no more told than the path.
    request
        .body(Full::new(Bytes::from(body)))
        .map_err(|_| "the webhook's path cannot be sent".to_owned())
}

/// Sends it, and waits for the answer's status. The answer's body is nobody's business.
async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> Result<StatusCode, String>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    TokioIo<S>: Read + Write,
{
    let mut builder = hyper::client::conn::http1::Builder::new();
    builder.max_buf_size(MAX_HEAD);
    let (mut sender, connection) = builder
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|why| format!("HTTP: {why}"))?;
    let connection = tokio::spawn(connection);
    let answer = sender.send_request(request).await;
    connection.abort();
    Ok(answer.map_err(|why| format!("HTTP: {why}"))?.status())
}
