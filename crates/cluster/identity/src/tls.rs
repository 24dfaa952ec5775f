//! TLS with identities: 1.3 only, both sides prove who they are, nothing is resumed, nothing is sent early.
//!
//! The peer is judged by its URI, never by a DNS name; which certificates exist and whom they are believed for is asked of
//! the [`Live`] at each handshake.

use crate::clock::UnixSeconds;
use crate::live::Live;
use crate::name::{Name, Role};
use crate::trust::{Refusal, Trust, Usage};
use amita_types::ClusterId;
use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::{CertificateDer, DnsName, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DistinguishedName, Error, OtherError, ServerConfig,
    SignatureScheme,
};
use std::sync::Arc;

/// Whom a connection may end at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    roles: Vec<Role>,
    name: Option<String>,
}

impl Expected {
    /// Any holder of one of these roles.
    #[must_use]
    pub fn any(roles: &[Role]) -> Expected {
        Expected {
            roles: roles.to_vec(),
            name: None,
        }
    }

    /// One of that role and name, and nobody else.
    #[must_use]
    pub fn named(role: Role, name: impl Into<String>) -> Expected {
        Expected {
            roles: vec![role],
            name: Some(name.into()),
        }
    }

    /// Is it whom it may be?
    ///
    /// # Errors
    /// Another role, another name.
    pub fn check(&self, found: Name) -> Result<Name, Refusal> {
        if !self.roles.contains(&found.role()) {
            return Err(Refusal::OtherRole {
                name: found,
                wanted: self.roles.clone(),
            });
        }
        match &self.name {
            Some(wanted) if wanted != found.name() => Err(Refusal::OtherName {
                name: found,
                wanted: wanted.clone(),
            }),
            _ => Ok(found),
        }
    }
}

/// What rustls wants as the name of a server. It is neither sent nor looked at: the certificate's URI counts.
#[must_use]
pub fn server_name() -> ServerName<'static> {
    ServerName::DnsName(DnsName::try_from("amita.invalid").expect("a DNS name"))
}

impl From<Refusal> for Error {
    /// With the alert that tells the peer which side to mend.
    fn from(refusal: Refusal) -> Error {
        let why = match refusal {
            Refusal::Expired { since, now } => CertificateError::ExpiredContext {
                time: now.tls(),
                not_after: since.tls(),
            },
            Refusal::NotYet { from, now } => CertificateError::NotValidYetContext {
                time: now.tls(),
                not_before: from.tls(),
            },
            Refusal::Revoked => CertificateError::Revoked,
            Refusal::UnknownAuthority => CertificateError::UnknownIssuer,
            Refusal::Malformed(_) => CertificateError::BadEncoding,
            other => CertificateError::Other(OtherError(Arc::new(other))),
        };
        Error::InvalidCertificate(why)
    }
}

/// What an error of TLS means, and which side is to be mended.
#[must_use]
pub fn explain(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(why) => {
            let why = match why {
                CertificateError::ExpiredContext { time, not_after } => Refusal::Expired {
                    since: (*not_after).into(),
                    now: (*time).into(),
                }
                .to_string(),
                CertificateError::NotValidYetContext { time, not_before } => Refusal::NotYet {
                    from: (*not_before).into(),
                    now: (*time).into(),
                }
                .to_string(),
                CertificateError::Revoked => Refusal::Revoked.to_string(),
                CertificateError::UnknownIssuer => Refusal::UnknownAuthority.to_string(),
                CertificateError::Other(OtherError(inner)) => inner.to_string(),
                other => other.to_string(),
            };
            format!("the other side is not believed here: {why}")
        }
        Error::NoCertificatesPresented => format!("the other side is not believed here: {}", Refusal::Nothing),
        Error::AlertReceived(alert) => {
            let why = match alert {
                AlertDescription::CertificateExpired => "by its clock this certificate has ended, or is not valid yet",
                AlertDescription::CertificateRevoked => "this certificate was revoked",
                AlertDescription::UnknownCA => "it does not trust the authority of this certificate",
                AlertDescription::CertificateRequired => "it wants a certificate, and none was shown",
                AlertDescription::CertificateUnknown | AlertDescription::BadCertificate => {
                    "this certificate's name or role is not let in there"
                }
                AlertDescription::ProtocolVersion => "it does not speak TLS 1.3",
                other => return format!("the other side ends the connection: {other:?}"),
            };
            format!("the other side refuses us: {why}")
        }
        Error::InvalidMessage(_) => format!("the other side does not speak TLS: {error}"),
        other => other.to_string(),
    }
}

/// The cryptography of all connections.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

pub(crate) fn client_config(live: &Arc<Live>, expected: Expected) -> Arc<ClientConfig> {
    let provider = provider();
    let verifier = Verifier::new(live, expected, true, &provider);
    client_config_with(provider, live.clock().clone(), Arc::new(verifier), Some(live))
}

pub(crate) fn client_config_with(
    provider: Arc<CryptoProvider>,
    clock: crate::Clock,
    verifier: Arc<dyn ServerCertVerifier>,
    live: Option<&Arc<Live>>,
) -> Arc<ClientConfig> {
    let builder = ClientConfig::builder_with_details(provider, Arc::new(clock))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("the provider has suites of TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match live {
        Some(live) => builder.with_client_cert_resolver(Arc::new(Current(live.clone()))),
        None => builder.with_no_client_auth(),
    };
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    config.enable_early_data = false;
    Arc::new(config)
}

pub(crate) fn server_config(live: &Arc<Live>, roles: &[Role], mandatory: bool) -> Arc<ServerConfig> {
    let provider = provider();
    let verifier = Verifier::new(live, Expected::any(roles), mandatory, &provider);
    let mut config = ServerConfig::builder_with_details(provider, Arc::new(live.clock().clone()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("the provider has suites of TLS 1.3")
        .with_client_cert_verifier(Arc::new(verifier))
        .with_cert_resolver(Arc::new(Current(live.clone())));
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    Arc::new(config)
}

/// Shows the certificate that there is now.
#[derive(Debug)]
struct Current(Arc<Live>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.current().certified().clone())
    }
}

impl ResolvesClientCert for Current {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.current().certified().clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Judges a peer by what is trusted now.
#[derive(Debug)]
struct Verifier {
    live: Arc<Live>,
    expected: Expected,
    mandatory: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    fn new(live: &Arc<Live>, expected: Expected, mandatory: bool, provider: &CryptoProvider) -> Verifier {
        Verifier {
            live: live.clone(),
            expected,
            mandatory,
            algorithms: provider.signature_verification_algorithms,
        }
    }

    fn judge(
        &self,
        leaf: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        usage: Usage,
        now: UnixTime,
    ) -> Result<Name, Refusal> {
        let identity = self.live.current();
        let chain: Vec<CertificateDer<'_>> = std::iter::once(leaf).chain(rest).cloned().collect();
        let cluster = identity.name().cluster();
        let name = identity.trust().judge(&chain, usage, cluster, UnixSeconds::from(now))?;
        self.expected.check(name)
    }
}

/// How a verifier with `algorithms` looks at signatures: the same for both ends of a connection. TLS 1.2 is not spoken.
macro_rules! signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &rustls::pki_types::CertificateDer<'_>,
            _: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            Err(rustls::Error::General("TLS 1.2 is not spoken".to_owned()))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &rustls::pki_types::CertificateDer<'_>,
            signature: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            rustls::crypto::verify_tls13_signature(message, certificate, signature, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
            self.algorithms.supported_schemes()
        }
    };
}
pub(crate) use signatures;

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.judge(end_entity, intermediates, Usage::Server, now)?;
        Ok(ServerCertVerified::assertion())
    }

    signatures!();
}

impl ClientCertVerifier for Verifier {
    fn client_auth_mandatory(&self) -> bool {
        self.mandatory
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // Who dials shows what it has: the names of authorities are nobody's business.
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.judge(end_entity, intermediates, Usage::Client, now)?;
        Ok(ClientCertVerified::assertion())
    }

    signatures!();
}

/// For connections to another cluster, by the certificates (PEM) of its authority, and by no others: to whom of it is expected. Nothing is shown
/// to it, and what it has revoked is not known.
///
/// # Errors
/// That is no authority's certificate.
pub fn foreign_client_config(
    authority: &str,
    cluster: ClusterId,
    expected: Expected,
) -> Result<Arc<ClientConfig>, String> {
    let provider = provider();
    let verifier = Foreign {
        trust: Trust::unsigned(authority, None)?,
        cluster,
        expected,
        algorithms: provider.signature_verification_algorithms,
    };
    let clock = crate::Clock::system();
    Ok(client_config_with(provider, clock, Arc::new(verifier), None))
}

/// Judges who is of another cluster.
#[derive(Debug)]
struct Foreign {
    trust: Trust,
    cluster: ClusterId,
    expected: Expected,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Foreign {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let chain: Vec<CertificateDer<'_>> = std::iter::once(end_entity).chain(intermediates).cloned().collect();
        let name = self
            .trust
            .judge(&chain, Usage::Server, self.cluster, UnixSeconds::from(now))?;
        self.expected.check(name)?;
        Ok(ServerCertVerified::assertion())
    }

    signatures!();
}
