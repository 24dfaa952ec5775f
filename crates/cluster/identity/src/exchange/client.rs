//! Asking the authority.

use super::http::{self, BadHttp};
use super::{JOIN, RENEW, TRUST, Timed};
use crate::authority::Answer;
use crate::certificate::{authority_hash, peer_name};
use crate::clock::{Clock, UnixSeconds};
use crate::error::IdentityError;
use crate::folder::{Identity, PendingKey, parse_chain};
use crate::live::Live;
use crate::name::{Name, Role};
use crate::tls::{self, Expected, server_name};
use crate::token::{AuthorityHash, Token};
use crate::trust::{Refusal, Trust, Usage};
use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, Error, StreamOwned};
use std::io::Write;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// How long one answer is waited for, the connection included.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks the authority's server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorityClient {
    server: String,
}

impl AuthorityClient {
    /// Of the server at `HOST:PORT`.
    ///
    /// # Errors
    /// It is not of that form.
    pub fn new(server: &str) -> Result<AuthorityClient, IdentityError> {
        let port = server.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        match port {
            Some(1..) => Ok(AuthorityClient {
                server: server.to_owned(),
            }),
            _ => Err(IdentityError::Server {
                server: server.to_owned(),
                why: "give it as HOST:PORT".to_owned(),
            }),
        }
    }

    /// Makes an identity in a folder with a token, as who the token was made for; that has to be a holder of this role and
    /// name.
    ///
    /// # Errors
    /// There is one already; the server is not the authority of the token, or does not take it.
    pub fn join(
        &self,
        token: &Token,
        folder: &std::path::Path,
        (role, name): (Role, &str),
        clock: &Clock,
    ) -> Result<Identity, IdentityError> {
        Identity::check_absent(folder)?;
        let pending = PendingKey::make(folder)?;
        let provider = tls::provider();
        let verifier = ByHash {
            authority: token.authority(),
            algorithms: provider.signature_verification_algorithms,
        };
        let config = tls::client_config_with(provider, clock.clone(), Arc::new(verifier), None);
        let text = token.to_text();
        let answer = self.answer(config, JOIN, Some(text.as_str()), pending.request())?;
        let given = name_in(&answer)?;
        if (given.role(), given.name()) != (role, name) {
            return Err(self.failed(format!(
                "the token is for {} {}, and not for {role} {name}",
                given.role(),
                given.name()
            )));
        }
        pending.install(&answer.certificate, &answer.trust, Some(token.authority()), clock.now())
    }

    /// Renews the identity: a new key, a new certificate, the newest trust list, in its folder and in use.
    ///
    /// # Errors
    /// The server cannot be reached, is not the authority's, or refuses; the identity is as it was.
    pub fn renew(&self, live: &Arc<Live>) -> Result<(), IdentityError> {
        let folder = live
            .folder()
            .ok_or_else(|| self.failed("the identity lies in no folder".to_owned()))?;
        let pending = PendingKey::make(folder)?;
        let config = live.client_config(Expected::any(&[Role::Authority]));
        let answer = self.answer(config, RENEW, None, pending.request())?;
        let given = name_in(&answer)?;
        if given != live.name() {
            return Err(self.failed(format!("it gave a certificate for {given} to {}", live.name())));
        }
        pending.install(&answer.certificate, &answer.trust, None, live.clock().now())?;
        live.reload().map(drop)
    }

    /// Gets the trust list, and takes it if it is newer. `true`: it was.
    ///
    /// # Errors
    /// The server cannot be reached or is not the authority's; the list is older than one that was seen, or foreign.
    pub fn refresh_trust(&self, live: &Arc<Live>) -> Result<bool, IdentityError> {
        let config = live.client_config(Expected::any(&[Role::Authority]));
        let text = self.exchange(config, "GET", TRUST, None, "")?;
        live.install_trust(&text)
    }

    fn answer(
        &self,
        config: Arc<ClientConfig>,
        path: &str,
        token: Option<&str>,
        request: &str,
    ) -> Result<Answer, IdentityError> {
        let text = self.exchange(config, "POST", path, token, request)?;
        Answer::parse(&text).ok_or_else(|| self.failed("its answer is not what was asked for".to_owned()))
    }

    fn exchange(
        &self,
        config: Arc<ClientConfig>,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: &str,
    ) -> Result<String, IdentityError> {
        let socket = self.connect()?;
        let connection = ClientConnection::new(config, server_name()).map_err(|why| self.failed(why.to_string()))?;
        let mut stream = StreamOwned::new(connection, Timed::new(socket, PATIENCE));
        let sent = stream.write_all(http::request(method, path, token, body).as_bytes());
        sent.and_then(|()| stream.flush()).map_err(|why| self.broken(why))?;
        let (status, text) = http::read_answer(&mut stream).map_err(|why| match why {
            BadHttp::Io(why) => self.broken(why),
            other => self.failed(other.to_string()),
        })?;
        match status {
            200 => Ok(text),
            _ => Err(self.failed(text.trim().to_owned())),
        }
    }

    fn connect(&self) -> Result<TcpStream, IdentityError> {
        let unreachable = |why: std::io::Error| IdentityError::Unreachable {
            server: self.server.clone(),
            why: why.to_string(),
        };
        let mut last = std::io::ErrorKind::NotFound.into();
        for address in self.server.to_socket_addrs().map_err(unreachable)? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(socket) => return Ok(socket),
                Err(why) => last = why,
            }
        }
        Err(unreachable(last))
    }

    fn failed(&self, why: String) -> IdentityError {
        IdentityError::Server {
            server: self.server.clone(),
            why,
        }
    }

    /// The connection ended: by a refusal of TLS, or by the network.
    fn broken(&self, why: std::io::Error) -> IdentityError {
        let refusal = why.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        match refusal {
            Some(refusal) => self.failed(tls::explain(refusal)),
            None => IdentityError::Unreachable {
                server: self.server.clone(),
                why: why.to_string(),
            },
        }
    }
}

fn name_in(answer: &Answer) -> Result<Name, IdentityError> {
    let chain = parse_chain(&answer.certificate).map_err(IdentityError::Request)?;
    peer_name(&chain[0]).map_err(|why| IdentityError::Refused {
        whose: "the certificate that came back".to_owned(),
        why,
    })
}

/// Believes the authority's server by the hash that a token has of its root.
#[derive(Debug)]
struct ByHash {
    authority: AuthorityHash,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ByHash {
    fn judge(&self, leaf: &CertificateDer<'_>, rest: &[CertificateDer<'_>], now: UnixTime) -> Result<(), Refusal> {
        let is_it = |root: &&CertificateDer<'_>| authority_hash(root).ok() == Some(self.authority);
        let root = rest.iter().find(is_it).ok_or(Refusal::UnknownAuthority)?;
        let root = crate::pem::encode(crate::pem::CERTIFICATE, root);
        let trust = Trust::unsigned(&root, None).map_err(Refusal::Path)?;
        let cluster = peer_name(leaf)?.cluster();
        let name = trust.judge(
            std::slice::from_ref(leaf),
            Usage::Server,
            cluster,
            UnixSeconds::from(now),
        )?;
        Expected::any(&[Role::Authority]).check(name).map(drop)
    }
}

impl ServerCertVerifier for ByHash {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.judge(end_entity, intermediates, now)?;
        Ok(ServerCertVerified::assertion())
    }

    tls::signatures!();
}
