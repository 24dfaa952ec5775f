//! One question to a KMIP server and its answer, by a connection that stays open for the next one.

use super::line::Place;
use crate::volume_keys::file::{KeyFileError, read, read_public};
use crate::volume_keys::reading;
use crate::volume_keys::words::Host;
use amita_crypt::{HEAD_BYTES, KmipRequest, Zeroizing, answer_length, look};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// All of a question is done within this, whichever servers are asked: names, connections, TLS and answer. Who waits for it waits 12 s.
const LIMIT: Duration = Duration::from_secs(10);
/// No server is waited for longer, also where there is but one.
const EACH_LIMIT: Duration = Duration::from_secs(8);
/// A connection that nobody has used for so long is not used again: who lies in between may have forgotten it, or the other side may be gone.
const RESTS: Duration = Duration::from_secs(20);
/// By one that was kept an answer is there within this; else a fresh one is tried, in the time that is left.
const KEPT_LIMIT: Duration = Duration::from_secs(2);
/// The most addresses of a name that are tried.
const MAX_TRIED: usize = 2;

/// The way to one server, or to one of several.
pub(super) struct Way {
    place: Place,
    /// Which of them is asked: the one that has answered last.
    pub(super) at: usize,
    pub(super) open: Option<Open>,
}

pub(super) struct Open {
    stream: TlsStream<TcpStream>,
    /// Since then nobody has used it.
    pub(super) rested: Instant,
}

impl Way {
    pub fn new(place: Place) -> Way {
        Way {
            place,
            at: 0,
            open: None,
        }
    }

    /// Asks one server after the other, from the one on that has answered last, within [`LIMIT`].
    ///
    /// # Errors
    /// None of them answers, or can now: why, for people. It may have come there all the same.
    pub async fn ask(&mut self, request: &KmipRequest) -> Result<Zeroizing<Vec<u8>>, String> {
        let servers = self.place.servers.clone();
        let each = (LIMIT / servers.len() as u32).min(EACH_LIMIT);
        let mut failed = Vec::new();
        for _ in 0..servers.len() {
            let server = &servers[self.at];
            let answer = match tokio::time::timeout(each, self.exchange(server, request)).await {
                Ok(answer) => answer,
                Err(_) => Err(format!("it has not answered within {} s", each.as_secs_f32())),
            };
            // One that cannot now, or says what nobody understands, is as good as none.
            let answer = answer.and_then(|answer| match look(&answer) {
                Err(why) if why.is_passing() => Err(why.to_string()),
                _ => Ok(answer),
            });
            match answer {
                Ok(answer) => return Ok(answer),
                Err(why) if servers.len() == 1 => failed.push(why),
                Err(why) => failed.push(format!("{}: {why}", server.authority())),
            }
            self.open = None;
            self.at = (self.at + 1) % servers.len();
        }
        Err(failed.join("; "))
    }

    async fn exchange(&mut self, server: &Host, request: &KmipRequest) -> Result<Zeroizing<Vec<u8>>, String> {
        if let Some(mut open) = self.open.take().filter(|open| open.rested.elapsed() <= RESTS)
            && let Ok(Ok(answer)) = tokio::time::timeout(KEPT_LIMIT, send(&mut open.stream, request)).await
        {
            open.rested = Instant::now();
            self.open = Some(open);
            return Ok(answer);
        }
        let mut stream = self.connect(server).await?;
        let answer = send(&mut stream, request).await?;
        self.open = Some(Open {
            stream,
            rested: Instant::now(),
        });
        Ok(answer)
    }

    async fn connect(&self, server: &Host) -> Result<TlsStream<TcpStream>, String> {
        let config = Arc::new(self.config().await?);
        let name = ServerName::try_from(server.name.clone()).map_err(|_| "its host is no name".to_owned())?;
        let found = lookup_host((server.name.as_str(), server.port)).await;
        let found = found.map_err(|why| format!("its name is not found: {why}"))?;
        let mut last = "its name has no address".to_owned();
        for address in found.take(MAX_TRIED) {
            let stream = match TcpStream::connect(address).await {
                Ok(stream) => stream,
                Err(why) => {
                    last = format!("{address} takes no connection: {why}");
                    continue;
                }
            };
            let _ = stream.set_nodelay(true);
            let connected = TlsConnector::from(config).connect(name, stream).await;
            return connected.map_err(|why| format!("TLS fails: {why}"));
        }
        Err(last)
    }

    /// TLS with whom the authorities vouch for, and nobody else, as who has the certificate. Their files are read for each connection: who puts new
    /// ones there has nothing else to do.
    async fn config(&self) -> Result<ClientConfig, String> {
        let Place {
            cert_file,
            key_file,
            ca_file,
            ..
        } = &self.place;
        let authorities = text("ca-file", ca_file, read_public).await?;
        let mut roots = RootCertStore::empty();
        for authority in certificates("ca-file", &authorities)? {
            let added = roots.add(authority);
            added.map_err(|why| format!("a certificate of its ca-file is none: {why}"))?;
        }
        let own = certificates("cert-file", &text("cert-file", cert_file, read_public).await?)?;
        let key = text("key-file", key_file, read).await?;
        let key =
            PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| "there is no private key in its key-file")?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|why| format!("TLS: {why}"))?;
        let config = builder.with_root_certificates(roots).with_client_auth_cert(own, key);
        config.map_err(|why| format!("its cert-file and key-file are not of one another, or none: {why}"))
    }
}

/// What stands in one of the line's files. It is waited for only so long.
async fn text(
    what: &'static str,
    path: &Path,
    read: fn(&Path) -> Result<Zeroizing<String>, KeyFileError>,
) -> Result<Zeroizing<String>, String> {
    let path = path.to_owned();
    let text = tokio::task::spawn_blocking(move || reading::within(&path, reading::LIMIT, read)).await;
    let text = text.map_err(|_| format!("its {what} was not read"))?;
    text.map_err(|why| format!("its {what} is of no use: {why}"))
}

fn certificates(what: &'static str, pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match found {
        Ok(found) if found.is_empty() => Err(format!("there is no certificate in its {what}")),
        Ok(found) => Ok(found),
        Err(why) => Err(format!("its {what} cannot be read: {why}")),
    }
}

async fn send(stream: &mut TlsStream<TcpStream>, request: &KmipRequest) -> Result<Zeroizing<Vec<u8>>, String> {
    let failed = |why: std::io::Error| format!("its connection breaks: {why}");
    stream.write_all(request.bytes()).await.map_err(failed)?;
    stream.flush().await.map_err(failed)?;
    let mut head = [0; HEAD_BYTES];
    stream.read_exact(&mut head).await.map_err(failed)?;
    let length = answer_length(head).map_err(|why| format!("what it answers is no message of KMIP's: {why}"))?;
    // In one place, with room for all of it.
    let mut answer = Zeroizing::new(vec![0; length]);
    answer[..HEAD_BYTES].copy_from_slice(&head);
    stream.read_exact(&mut answer[HEAD_BYTES..]).await.map_err(failed)?;
    Ok(answer)
}
