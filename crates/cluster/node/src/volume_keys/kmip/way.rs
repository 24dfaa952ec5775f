//! Questions to KMIP servers and their answers, by a connection to each that stays open for the next one.
//!
//! Of several servers the first one that is well is asked. One that has not answered, or has refused, comes last for some seconds, and then has its
//! place again.

use super::line::Place;
use crate::volume_keys::file::{KeyFileError, read, read_public};
use crate::volume_keys::keeper::{LOOK, Pause, Trouble};
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
/// An address takes a connection within this, or within a third of what its server has: then the next one is tried.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// A connection that nobody has used for so long is not used again: who lies in between may have forgotten it, or the other side may be gone.
const RESTS: Duration = Duration::from_secs(20);
/// Nor is one that is older, whatever its use: what TLS has of keys in its buffers goes with it, and the client's certificate may be another one.
const LASTS: Duration = Duration::from_secs(300);
/// By one that was kept an answer is there within this; else a fresh one is tried, in the time that is left.
const KEPT_LIMIT: Duration = Duration::from_secs(2);
/// The most addresses of a name that are tried.
const MAX_TRIED: usize = 2;

/// The way to one server, or to several.
pub(super) struct Way {
    place: Place,
    /// As the line has them.
    pub(super) servers: Vec<Server>,
    /// So long each of them is waited for.
    each: Duration,
}

pub(super) struct Server {
    pub(super) host: Host,
    pub(super) open: Option<Open>,
    /// While it holds, the others are asked first.
    pub(super) pause: Pause,
}

pub(super) struct Open {
    stream: TlsStream<TcpStream>,
    /// Since then nobody has used it.
    pub(super) rested: Instant,
    /// From then on nobody uses it.
    pub(super) until: Instant,
}

impl Open {
    fn is_good(&self) -> bool {
        self.rested.elapsed() <= RESTS && Instant::now() < self.until
    }
}

/// What a server's answer is worth.
enum Told {
    /// It is one, or no other server would say anything else.
    Answer(Zeroizing<Vec<u8>>),
    /// The record may be another's, or the server may be in trouble.
    Unclear(Zeroizing<Vec<u8>>),
}

impl Way {
    pub fn new(place: Place) -> Way {
        let servers = place.servers.iter().map(|host| Server {
            host: host.clone(),
            open: None,
            pause: Pause::default(),
        });
        Way {
            servers: servers.collect(),
            each: (LIMIT / place.servers.len() as u32).min(EACH_LIMIT),
            place,
        }
    }

    /// Asks one server after the other, those first that have answered last, within [`LIMIT`], until one answers. What refuses a record's tag has
    /// answered.
    ///
    /// # Errors
    /// None of them answers, or all refuse: why, for people. It may have come there all the same.
    pub async fn ask(&mut self, request: &KmipRequest) -> Result<Zeroizing<Vec<u8>>, Trouble> {
        let now = Instant::now();
        let mut order: Vec<usize> = (0..self.servers.len()).collect();
        order.sort_by_key(|at| self.servers[*at].pause.holds(now).is_some());
        let (mut failed, mut unclear) = (Vec::new(), None);
        for at in order {
            match self.ask_one(request, at).await {
                Ok(Told::Answer(answer)) => return Ok(answer),
                Ok(Told::Unclear(answer)) => unclear = unclear.or(Some(answer)),
                Err(trouble) => failed.push(trouble),
            }
        }
        unclear.ok_or_else(|| Trouble::of_all(failed))
    }

    /// Asks this one of them alone, unless it has not answered a moment ago.
    ///
    /// # Errors
    /// It does not answer, or refuses: why, for people, and who.
    pub async fn ask_at(&mut self, request: &KmipRequest, at: usize) -> Result<Zeroizing<Vec<u8>>, Trouble> {
        let server = &self.servers[at];
        let named = format!("KMIP server at {}", server.host.authority());
        let told = match server.pause.holds(Instant::now()) {
            Some(trouble) => Err(trouble.clone()),
            None => self.ask_one(request, at).await,
        };
        match told {
            Ok(Told::Answer(answer) | Told::Unclear(answer)) => Ok(answer),
            // Of several its name stands there already.
            Err(trouble) if self.servers.len() > 1 => Err(trouble),
            Err(Trouble { why, is_passing }) => Err(Trouble {
                why: format!("{named}: {why}"),
                is_passing,
            }),
        }
    }

    async fn ask_one(&mut self, request: &KmipRequest, at: usize) -> Result<Told, Trouble> {
        let answer = match tokio::time::timeout(self.each, self.exchange(request, at)).await {
            Ok(answer) => answer.map_err(|why| (why, true)),
            Err(_) => Err((
                format!("it has not answered within {} s", self.each.as_secs_f32()),
                true,
            )),
        };
        let told = answer.and_then(|answer| match look(request, &answer) {
            // One that cannot now, or says what nobody understands, is as good as none.
            Err(why) if why.is_passing() || why.is_of_all() => Err((why.to_string(), why.is_passing())),
            Err(why) if why.is_unclear() => Ok(Told::Unclear(answer)),
            _ => Ok(Told::Answer(answer)),
        });
        let has_others = self.servers.len() > 1;
        let server = &mut self.servers[at];
        match told {
            Ok(told) => {
                server.pause = Pause::default();
                Ok(told)
            }
            Err((why, is_passing)) => {
                server.open = None;
                let why = match has_others {
                    true => format!("{}: {why}", server.host.authority()),
                    false => why,
                };
                let trouble = Trouble { why, is_passing };
                server.pause.begin(Instant::now(), trouble.clone());
                Err(trouble)
            }
        }
    }

    /// Ends connections that are used no more.
    pub fn let_go(&mut self) {
        for server in &mut self.servers {
            server.open = server.open.take().filter(Open::is_good);
        }
    }

    /// Until then there is nothing to be done.
    pub fn wait(&self) -> Duration {
        match self.servers.iter().any(|server| server.open.is_some()) {
            true => RESTS,
            false => LOOK,
        }
    }

    async fn exchange(&mut self, request: &KmipRequest, at: usize) -> Result<Zeroizing<Vec<u8>>, String> {
        if let Some(mut open) = self.servers[at].open.take().filter(Open::is_good)
            && let Ok(Ok(answer)) = tokio::time::timeout(KEPT_LIMIT, send(&mut open.stream, request)).await
        {
            open.rested = Instant::now();
            self.servers[at].open = Some(open);
            return Ok(answer);
        }
        let mut stream = self.connect(&self.servers[at].host).await?;
        let answer = send(&mut stream, request).await?;
        let now = Instant::now();
        self.servers[at].open = Some(Open {
            stream,
            rested: now,
            until: now + LASTS,
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
            let limit = CONNECT_LIMIT.min(self.each / 3);
            let stream = match tokio::time::timeout(limit, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => stream,
                Ok(Err(why)) => {
                    last = format!("{address} takes no connection: {why}");
                    continue;
                }
                Err(_) => {
                    last = format!("{address} takes no connection within {:.1} s", limit.as_secs_f32());
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
