//! Sending: one message to one receiver, once, within a time.

mod connect;
mod mail;
mod syslog;
pub mod tls;
mod webhook;

pub use syslog::{line as syslog_line, local as syslog_local};
pub use webhook::{SIGNATURE, sign};

use crate::channel::{Channel, Kind, Secrets};
use crate::message::Message;
use std::time::Duration;

/// The longest time that an attempt takes, from the look-up of the receiver's name to its answer.
pub const TIMEOUT: Duration = Duration::from_secs(8);

/// What the receiver has said; or why it was not told, in a sentence.
pub type Said = Result<String, String>;

/// Sends a message; this takes no longer than [`TIMEOUT`]. It makes an event loop of its own: call it on a thread that may wait.
///
/// # Errors
/// Why it was not taken, or is not known to be.
pub fn send(channel: &Channel, secrets: &Secrets, message: &Message, node: &str) -> Said {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build();
    let runtime = runtime.map_err(|why| format!("no event loop: {why}"))?;
    let said = runtime.block_on(async {
        let attempt = attempt(channel, secrets, message, node);
        match tokio::time::timeout(TIMEOUT, attempt).await {
            Ok(said) => said,
            Err(_) => Err(format!("no answer within {} s", TIMEOUT.as_secs())),
        }
    });
    // A look-up of a name that hangs keeps nobody waiting.
    runtime.shutdown_background();
    said.map(|text| readable(&text)).map_err(|text| readable(&text))
}

async fn attempt(channel: &Channel, secrets: &Secrets, message: &Message, node: &str) -> Said {
    match &channel.kind {
        Kind::Webhook { origin } => webhook::post(channel, origin, secrets, message).await,
        Kind::Mail { .. } => mail::send(channel, secrets, message).await,
        Kind::Syslog { by, server } => syslog::send(channel, *by, server, message, node).await,
    }
}

/// What strangers say, as it may be shown: one line, and not a long one.
fn readable(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    crate::clip(line.trim(), 300)
}
