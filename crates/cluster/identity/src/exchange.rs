//! Between machines and the authority: `POST /v1/join`, `POST /v1/renew` and `GET /v1/trust`, by HTTP/1.1 on TLS 1.3.
//!
//! | request | who may | body | answer |
//! | --- | --- | --- | --- |
//! | `POST /v1/join` | who has a token (`authorization: Bearer ...`) | a signing request (PEM) | certificate (PEM), then the trust list |
//! | `POST /v1/renew` | who shows a certificate of the cluster's | a signing request (PEM) | the same |
//! | `GET /v1/trust` | everybody: it is signed, and no secret | | the trust list |
//!
//! One request a connection, answered and closed. Both ends are plain blocking code: the authority is asked a few times a week
//! by each machine, and once a minute for the list.

mod client;
mod http;
mod server;
mod upkeep;

pub use client::AuthorityClient;
pub use server::AuthorityServer;
pub use upkeep::Upkeep;

use crate::authority::Answer;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

const JOIN: &str = "/v1/join";
const RENEW: &str = "/v1/renew";
const TRUST: &str = "/v1/trust";
const TRUST_BEGINS: &str = "amita-trust-1\n";

impl Answer {
    /// As it is on the way.
    fn to_text(&self) -> String {
        format!("{}{}", self.certificate, self.trust)
    }

    fn parse(text: &str) -> Option<Answer> {
        let at = text.find(&format!("\n{TRUST_BEGINS}"))? + 1;
        let (certificate, trust) = text.split_at(at);
        Some(Answer {
            certificate: certificate.to_owned(),
            trust: trust.to_owned(),
        })
    }
}

/// A socket all of whose reads and writes together end at some time.
struct Timed {
    socket: Arc<TcpStream>,
    until: Instant,
}

impl Timed {
    fn new(socket: impl Into<Arc<TcpStream>>, patience: Duration) -> Timed {
        Timed {
            socket: socket.into(),
            until: Instant::now() + patience,
        }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(Some(left))
    }

    /// Waits for the first byte, and leaves it there. 0: there is none.
    fn peek(&self) -> io::Result<usize> {
        self.socket.set_read_timeout(self.left()?)?;
        self.socket.peek(&mut [0]).map_err(late)
    }
}

/// The system says `WouldBlock` when a socket's time is over.
fn late(why: io::Error) -> io::Error {
    match why.kind() {
        ErrorKind::WouldBlock => ErrorKind::TimedOut.into(),
        _ => why,
    }
}

impl Read for Timed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(self.left()?)?;
        (&*self.socket).read(into).map_err(late)
    }
}

impl Write for Timed {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(self.left()?)?;
        (&*self.socket).write(from).map_err(late)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self.socket).flush()
    }
}

#[cfg(test)]
mod tests;
