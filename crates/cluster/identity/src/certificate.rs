//! What stands in a certificate.

use crate::capability;
use crate::clock::UnixSeconds;
use crate::name::Name;
use crate::token::{AuthorityHash, sha256};
use crate::trust::Refusal;
use amita_types::capability::Capability;
use rustls::pki_types::CertificateDer;
use std::fmt;
use std::str::FromStr;
use webpki::EndEntityCert;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

/// A certificate's serial number: unique under one authority. Shown as hexadecimal digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serial(Vec<u8>);

impl Serial {
    /// Octets of one that the authority gives.
    pub(crate) const BYTES: usize = 16;
    /// The longest that anybody may give (RFC 5280, 4.1.2.2), and the octet of the sign.
    const MAX_BYTES: usize = 21;

    /// A new one, out of random numbers: positive, and always of the same length.
    pub(crate) fn generate() -> Serial {
        let mut bytes = [0; Serial::BYTES];
        aws_lc_rs::rand::fill(&mut bytes).expect("the kernel gives random numbers");
        bytes[0] = bytes[0] & 0x3f | 0x40;
        Serial(bytes.to_vec())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn from_bytes(bytes: &[u8]) -> Serial {
        let leading = bytes.iter().take_while(|byte| **byte == 0).count();
        Serial(bytes[leading.min(bytes.len().saturating_sub(1))..].to_vec())
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let whole = digits.len().is_multiple_of(2) && digits.iter().all(u8::is_ascii_hexdigit);
    let pair = |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok();
    whole.then(|| digits.chunks(2).map(pair).collect())?
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Serial {
    type Err = ();

    /// Hexadecimal digits, with or without colons.
    fn from_str(text: &str) -> Result<Serial, ()> {
        let digits: String = text.chars().filter(|c| *c != ':').collect();
        match unhex(&digits) {
            Some(bytes) if !bytes.is_empty() && bytes.len() <= Serial::MAX_BYTES => Ok(Serial::from_bytes(&bytes)),
            _ => Err(()),
        }
    }
}

/// What a certificate says of itself; whether it is believed is [`crate::Trust::judge`]'s to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Whom it names.
    pub name: Name,
    /// Its serial number.
    pub serial: Serial,
    /// It is valid from then on.
    pub not_before: UnixSeconds,
    /// It is valid until then.
    pub not_after: UnixSeconds,
    /// The name of the authority that made it.
    pub issuer: String,
    /// Of a client: what it may. One without may nothing between nodes.
    pub capability: Option<Capability>,
}

impl Facts {
    /// Reads a certificate.
    ///
    /// # Errors
    /// It is none, or names nobody of a cluster, or what it says of a capability is none.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Facts, Refusal> {
        let name = peer_name(certificate)?;
        let parsed = parse(certificate)?;
        let (not_before, not_after) = validity_of(&parsed);
        Ok(Facts {
            serial: Serial::from_bytes(parsed.raw_serial()),
            not_before,
            not_after,
            issuer: common_name(parsed.issuer()),
            capability: capability::find(&parsed, name.role())?,
            name,
        })
    }

    /// When it is to be renewed: in the middle of its life.
    #[must_use]
    pub fn renew_from(&self) -> UnixSeconds {
        UnixSeconds(self.not_before.0 / 2 + self.not_after.0 / 2)
    }
}

/// What a certificate says of itself, also one that names nobody of a cluster: an authority, or one for browsers. Nothing of it is a secret,
/// and whether it is believed is not said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Whom it names: in the cluster, or as X.509 does.
    pub subject: String,
    /// The name of the authority that made it.
    pub issuer: String,
    /// Its serial number.
    pub serial: Serial,
    /// SHA-256 of the certificate, in hexadecimal digits.
    pub fingerprint: String,
    /// It is valid from then on.
    pub not_before: UnixSeconds,
    /// It is valid until then.
    pub not_after: UnixSeconds,
}

impl Outline {
    /// Reads a certificate.
    ///
    /// # Errors
    /// It is none.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Outline, Refusal> {
        let parsed = parse(certificate)?;
        let (not_before, not_after) = validity_of(&parsed);
        let subject = peer_name(certificate).map_or_else(|_| common_name(parsed.subject()), |name| name.to_string());
        Ok(Outline {
            subject,
            issuer: common_name(parsed.issuer()),
            serial: Serial::from_bytes(parsed.raw_serial()),
            fingerprint: hex(&sha256(&[certificate.as_ref()])),
            not_before,
            not_after,
        })
    }
}

/// Whom a certificate names. A server or client of this crate's has already checked the certificate when a handshake is
/// over; this only reads.
///
/// # Errors
/// It is no certificate, or has not exactly one name of a cluster.
pub fn peer_name(certificate: &CertificateDer<'_>) -> Result<Name, Refusal> {
    let parsed = EndEntityCert::try_from(certificate).map_err(Refusal::from)?;
    let mut ours = parsed.valid_uri_names().filter(|uri| uri.starts_with("amita:"));
    match (ours.next(), ours.next()) {
        (Some(uri), None) => uri.parse().map_err(|why| Refusal::Nameless(format!("{why}"))),
        (None, _) => Err(Refusal::Nameless(
            "it has no URI of the form amita://CLUSTER/ROLE/NAME".to_owned(),
        )),
        (Some(_), Some(_)) => Err(Refusal::Nameless("it has several names".to_owned())),
    }
}

/// What a client may, by its certificate; `None`: it has no capability, or is no client's. As [`peer_name`], this only reads.
///
/// # Errors
/// It is no certificate that names somebody of a cluster, or what it says of a capability is none.
pub(crate) fn peer_capability(certificate: &CertificateDer<'_>) -> Result<Option<Capability>, Refusal> {
    let name = peer_name(certificate)?;
    Ok(capability::find(&parse(certificate)?, name.role())?)
}

pub(crate) fn parse<'a>(certificate: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, Refusal> {
    match X509Certificate::from_der(certificate) {
        Ok(([], parsed)) => Ok(parsed),
        _ => Err(Refusal::Malformed("it is no X.509 certificate".to_owned())),
    }
}

fn seconds(time: x509_parser::time::ASN1Time) -> UnixSeconds {
    UnixSeconds(u64::try_from(time.timestamp()).unwrap_or(0))
}

pub(crate) fn common_name(name: &x509_parser::x509::X509Name<'_>) -> String {
    let found = name
        .iter_common_name()
        .next()
        .and_then(|attribute| attribute.as_str().ok());
    found.map_or_else(|| name.to_string(), str::to_owned)
}

/// The hash that an authority is known by: SHA-256 of its public key (SubjectPublicKeyInfo).
pub(crate) fn authority_hash(root: &CertificateDer<'_>) -> Result<AuthorityHash, Refusal> {
    let parsed = parse(root)?;
    Ok(AuthorityHash::of(parsed.public_key().raw))
}

/// Until when a certificate is valid, also one that names nobody of a cluster.
///
/// # Errors
/// It is none.
pub fn not_after(certificate: &CertificateDer<'_>) -> Result<UnixSeconds, Refusal> {
    validity(certificate).map(|(_, not_after)| not_after)
}

/// From when on, and until when, a certificate is valid.
pub(crate) fn validity(certificate: &CertificateDer<'_>) -> Result<(UnixSeconds, UnixSeconds), Refusal> {
    parse(certificate).map(|parsed| validity_of(&parsed))
}

pub(crate) fn validity_of(parsed: &X509Certificate<'_>) -> (UnixSeconds, UnixSeconds) {
    let validity = parsed.validity();
    (seconds(validity.not_before), seconds(validity.not_after))
}
