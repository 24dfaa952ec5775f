//! Which client a certificate names.
//!
//! TLS has checked the certificate before: an authority that the gateway trusts has signed it. This only reads the name: of
//! the cluster's own authority it is the URI `amita://CLUSTER/client/NAME`, of any other authority the subject's common name.

use amita_types::ClusterId;
use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

/// What names of the cluster's own authority begin with.
const SCHEME: &str = "amita:";
/// The longest name, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// Whom a certificate names.
#[derive(Debug, PartialEq, Eq)]
pub struct Named {
    pub name: String,
    /// The cluster's own authority has named it.
    pub by_cluster: bool,
}

/// The client that the certificate names. One that names somebody of a cluster is held to that: of another cluster, or in
/// another role, it names no client here.
pub fn client_name(certificate: &CertificateDer<'_>, cluster: Option<ClusterId>) -> Result<Named, &'static str> {
    let Ok((rest, parsed)) = X509Certificate::from_der(certificate) else {
        return Err("its certificate cannot be read");
    };
    if !rest.is_empty() {
        return Err("its certificate cannot be read");
    }
    let alternatives = parsed.subject_alternative_name();
    let alternatives = alternatives.map_err(|_| "its certificate's names cannot be read")?;
    let uris = alternatives.iter().flat_map(|found| &found.value.general_names);
    let mut ours = uris.filter_map(|name| match name {
        GeneralName::URI(uri) if uri.starts_with(SCHEME) => Some(*uri),
        _ => None,
    });
    let (name, by_cluster) = match (ours.next(), ours.next()) {
        (None, _) => {
            let mut names = parsed.subject().iter_common_name();
            match (names.next().and_then(|name| name.as_str().ok()), names.next()) {
                (Some(name), None) => (name, false),
                _ => return Err("its certificate has no common name, or several"),
            }
        }
        (Some(uri), None) => {
            let name = of_cluster(uri, cluster).ok_or("its certificate names no client of this cluster")?;
            (name, true)
        }
        (Some(_), Some(_)) => return Err("its certificate has several names of a cluster"),
    };
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
        return Err("the name in its certificate is none");
    }
    let name = name.to_owned();
    Ok(Named { name, by_cluster })
}

/// The NAME of `amita://CLUSTER/client/NAME`, of this cluster.
fn of_cluster(uri: &str, cluster: Option<ClusterId>) -> Option<&str> {
    let mut parts = uri.strip_prefix("amita://")?.splitn(3, '/');
    let (found, role, name) = (parts.next()?, parts.next()?, parts.next()?);
    let is_here = found == cluster?.to_string();
    (is_here && role == "client" && !name.contains('/')).then_some(name)
}

#[cfg(test)]
mod tests;
