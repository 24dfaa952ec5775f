//! TLS to the collector: by the system's authorities, or by those of a file and no others.

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The longest file of authorities, in bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Whom this believes.
///
/// # Errors
/// The file, or the system, has no authority that can be read.
pub(crate) fn config(authorities: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let roots = match authorities {
        Some(path) => of_file(path)?,
        None => of_system()?,
    };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|why| format!("TLS: {why}"))?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn of_file(path: &Path) -> Result<RootCertStore, String> {
    let bad = |why: String| {
        format!(
            "{}: {why}; give a file with the authorities' certificates (PEM)",
            path.display()
        )
    };
    let found = std::fs::metadata(path).map_err(|why| bad(why.to_string()))?;
    if !found.is_file() || found.len() > MAX_FILE_BYTES {
        return Err(bad(format!("not a regular file of at most {MAX_FILE_BYTES} bytes")));
    }
    let text = std::fs::read(path).map_err(|why| bad(why.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|why| bad(format!("not PEM: {why}")))?;
        let added = roots.add(certificate);
        added.map_err(|why| bad(format!("one of its certificates is none: {why}")))?;
    }
    if roots.is_empty() {
        return Err(bad("there is no certificate in it".to_owned()));
    }
    Ok(roots)
}

fn of_system() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // One that cannot be read is no reason to believe none.
    let (good, _) = roots.add_parsable_certificates(found.certs);
    if good == 0 {
        return Err(
            "this node's system has no authorities to believe: install ca-certificates, or name them (--otlp-ca FILE)"
                .to_owned(),
        );
    }
    Ok(roots)
}

/// Speaks TLS on a connection, with who is called so.
pub(crate) async fn wrap(
    authorities: Option<&Path>,
    host: &str,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>, String> {
    let name = ServerName::try_from(host.to_owned()).map_err(|_| format!("{host} is no name of a server"))?;
    let connector = TlsConnector::from(config(authorities)?);
    let wrapped = connector.connect(name, stream).await;
    wrapped.map_err(|why| format!("TLS with {host} fails: {why}"))
}
