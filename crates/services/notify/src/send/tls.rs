//! TLS to receivers: by the system's authorities, or by those that the channel names and no others.

use crate::channel::Channel;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The certificates of a PEM text.
///
/// # Errors
/// There is none, or one cannot be read.
pub fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let all = all.map_err(|why| format!("the authorities' certificates cannot be read: {why}"))?;
    if all.is_empty() {
        return Err("there is no certificate in what is given as the authorities'".to_owned());
    }
    let mut roots = RootCertStore::empty();
    for certificate in &all {
        let added = roots.add(certificate.clone());
        added.map_err(|why| format!("one of the authorities' certificates is none: {why}"))?;
    }
    Ok(all)
}

/// Whom a channel believes.
pub(super) fn authorities(channel: &Channel) -> Result<Vec<CertificateDer<'static>>, String> {
    if let Some(pem) = &channel.authority {
        return certificates(pem);
    }
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let why = found
            .errors
            .first()
            .map_or_else(|| "there are none".to_owned(), ToString::to_string);
        return Err(format!(
            "this node's system has no authorities to believe ({why}): install ca-certificates, or name them (--ca FILE)"
        ));
    }
    // One that cannot be read is no reason to believe none.
    let mut roots = RootCertStore::empty();
    let readable = found
        .certs
        .into_iter()
        .filter(|certificate| roots.add(certificate.clone()).is_ok());
    Ok(readable.collect())
}

fn config(channel: &Channel) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    let (good, _) = roots.add_parsable_certificates(authorities(channel)?);
    if good == 0 {
        return Err("none of the authorities' certificates can be read".to_owned());
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|why| format!("TLS: {why}"))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Speaks TLS on a connection, with who is called so.
pub(super) async fn wrap(channel: &Channel, host: &str, stream: TcpStream) -> Result<TlsStream<TcpStream>, String> {
    let name = ServerName::try_from(host.to_owned()).map_err(|_| format!("{host} is no name of a server"))?;
    let connector = TlsConnector::from(Arc::new(config(channel)?));
    connector
        .connect(name, stream)
        .await
        .map_err(|why| format!("TLS with {host} fails: {why}"))
}
