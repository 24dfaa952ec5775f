//! The handshake of protected links: TLS 1.3, with this node's certificate and the peer's.
//!
//! The fabric hands bytes over and gets bytes back ([`amita_fabric::secure::Handshake`]); rustls does the rest, without I/O.
//! When it is over, TLS is: the secrets of the frames are exported from it (RFC 8446, section 7.5; RFC 5705), and its own
//! records are not used any more. Tickets are off, so that not one byte of TLS follows the handshake.

use amita_fabric::secure::{Handshake, Handshakes, Peer, Protection, Recorded, SECRET_BYTES, Secrets, Step};
use amita_identity::{Expected, Live, Role, Usage, peer_name, server_name};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};
use std::fmt;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The label of the exporter.
const LABEL: &[u8] = b"EXPORTER-amita-fabric-1";
/// A record's header: type, version, length.
const HEADER_BYTES: usize = 5;
/// The longest record (RFC 8446, section 5.2).
const MAX_RECORD_BYTES: usize = (16 << 10) + 256;

/// Makes the handshakes of a node.
#[derive(Debug)]
pub struct TlsHandshakes {
    live: Arc<Live>,
    protection: Protection,
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl TlsHandshakes {
    /// With this identity; links get that protection.
    #[must_use]
    pub fn new(live: Arc<Live>, protection: Protection) -> TlsHandshakes {
        const PEERS: &[Role] = &[Role::Node, Role::Gateway];
        let protocols = vec![protection.alpn().to_vec()];
        let mut client = ClientConfig::clone(&live.client_config(Expected::any(PEERS)));
        client.alpn_protocols.clone_from(&protocols);
        let mut server = ServerConfig::clone(&live.server_config(PEERS));
        server.alpn_protocols = protocols;
        TlsHandshakes {
            live,
            protection,
            client: Arc::new(client),
            server: Arc::new(server),
        }
    }
}

impl Handshakes for TlsHandshakes {
    fn protection(&self) -> Protection {
        self.protection
    }

    fn call(&self, callee: &Recorded) -> Result<Box<dyn Handshake + Send>, String> {
        let connection = ClientConnection::new(self.client.clone(), server_name()).map_err(|why| why.to_string())?;
        Ok(Box::new(TlsHandshake {
            connection: connection.into(),
            protection: self.protection,
            callee: Some(callee.clone()),
        }))
    }

    fn accept(&self) -> Result<Box<dyn Handshake + Send>, String> {
        let connection = ServerConnection::new(self.server.clone()).map_err(|why| why.to_string())?;
        Ok(Box::new(TlsHandshake {
            connection: connection.into(),
            protection: self.protection,
            callee: None,
        }))
    }

    fn trusts(&self, peer: &Peer) -> bool {
        let chain: Vec<CertificateDer<'_>> = peer.certificates.iter().map(|der| der.as_slice().into()).collect();
        // Which end had called makes no difference to whether it is still believed: leaves are good for both.
        self.live.judge(&chain, Usage::Client).is_ok()
    }
}

/// One of them, at one end.
struct TlsHandshake {
    connection: Connection,
    protection: Protection,
    /// Whom this end has called.
    callee: Option<Recorded>,
}

impl fmt::Debug for TlsHandshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsHandshake")
            .field("callee", &self.callee)
            .finish_non_exhaustive()
    }
}

/// The record at the front, if it is whole. What cannot be one is known by its first two bytes (RFC 8446, section 5.1).
fn record(data: &[u8]) -> Result<Option<&[u8]>, String> {
    let no_tls = || Err("it does not speak TLS".to_owned());
    if data.first().is_some_and(|kind| !(20..=23).contains(kind)) || data.get(1).is_some_and(|major| *major != 3) {
        return no_tls();
    }
    let Some(header) = data.first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    let bytes = usize::from(u16::from_be_bytes([header[3], header[4]]));
    if bytes > MAX_RECORD_BYTES {
        return no_tls();
    }
    Ok(data.get(..HEADER_BYTES + bytes))
}

impl TlsHandshake {
    fn flush(&mut self, out: &mut Vec<u8>) {
        while self.connection.wants_write() {
            // Into memory: it cannot fail.
            if !self.connection.write_tls(out).is_ok_and(|bytes| bytes > 0) {
                break;
            }
        }
    }

    fn take(&mut self, mut record: &[u8]) -> Result<(), String> {
        while !record.is_empty() {
            let taken = self.connection.read_tls(&mut record).map_err(|why| why.to_string())?;
            if taken == 0 {
                return Err("TLS takes no more".to_owned());
            }
            self.connection.process_new_packets().map_err(|why| why.to_string())?;
        }
        Ok(())
    }

    /// Both ends have proven themselves to TLS: who is it, and what is the link protected by?
    fn finish(&self) -> Result<Step, String> {
        if self.connection.alpn_protocol() != Some(self.protection.alpn()) {
            return Err(format!(
                "it did not agree on links with the protection `{}`; all nodes of a cluster have the same",
                self.protection
            ));
        }
        let chain = self.connection.peer_certificates().unwrap_or_default();
        let leaf = chain.first().ok_or("it showed no certificate")?;
        let name = peer_name(leaf).map_err(|why| why.to_string())?;
        let role = match name.role() {
            Role::Node => amita_fabric::secure::Role::Node,
            Role::Gateway => amita_fabric::secure::Role::Gateway,
            Role::Client => amita_fabric::secure::Role::Client,
            Role::Operator => amita_fabric::secure::Role::Operator,
            other => return Err(format!("a certificate of {other} has no place between nodes")),
        };
        let peer = Peer {
            role,
            name: name.name().to_owned(),
            certificates: chain.iter().map(|der| der.to_vec()).collect(),
        };
        if let Some(callee) = &self.callee
            && !peer.may_be(callee)
        {
            return Err(format!("node {} was called, and {peer} has answered", callee.name));
        }
        let mut both = Zeroizing::new([0; 2 * SECRET_BYTES]);
        self.connection
            .export_keying_material(&mut *both, LABEL, Some(self.protection.alpn()))
            .map_err(|why| why.to_string())?;
        let (mut caller, mut acceptor) = (Zeroizing::new([0; SECRET_BYTES]), Zeroizing::new([0; SECRET_BYTES]));
        caller.copy_from_slice(&both[..SECRET_BYTES]);
        acceptor.copy_from_slice(&both[SECRET_BYTES..]);
        let secrets = match self.callee {
            Some(_) => Secrets {
                send: caller,
                receive: acceptor,
            },
            None => Secrets {
                send: acceptor,
                receive: caller,
            },
        };
        Ok(Step::Done { peer, secrets })
    }
}

impl Handshake for TlsHandshake {
    fn advance(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(usize, Step), String> {
        let mut taken = 0;
        loop {
            self.flush(out);
            if !self.connection.is_handshaking() {
                return self.finish().map(|step| (taken, step));
            }
            // Record by record: what follows the last one belongs to the frames.
            let Some(record) = record(&input[taken..])? else {
                return Ok((taken, Step::More));
            };
            taken += record.len();
            if let Err(why) = self.take(record) {
                // The alert, which tells the other end which side to mend.
                self.flush(out);
                return Err(why);
            }
        }
    }
}

#[cfg(test)]
mod tests;
