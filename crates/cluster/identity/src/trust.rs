//! Trust: which authorities are believed, and which of their certificates no more.
//!
//! The authority hands out both in one text:
//!
//! ```text
//! amita-trust-1
//! cluster: 6d2a6b5e-2f0c-4ad5-9d0b-3a7f1f3f0c11
//! number: 1790000000
//! -----BEGIN CERTIFICATE-----     one or two roots, the newest first
//! -----BEGIN X509 CRL-----        a revocation list (RFC 5280) of each
//! signature: HASH BASE64          by each root's key, over all that stands before the first of these lines
//! ```
//!
//! A list is taken when one of the roots that are trusted *now* has signed it, it is of this cluster, and its number is
//! not below the highest that was ever seen here. So an authority introduces its successor, nobody can bring back an older
//! list on which a stolen certificate is not revoked yet, and the text may travel on any way, also on one that is not
//! trusted. Numbers are the time of making, and one more where that is not enough: an authority that was restored from a
//! copy goes on above the numbers that it has forgotten.
//!
//! With an outside authority there is no such text: the roots are those in `ca.pem`, revocation lists those in `crl.pem`.

use crate::capability::BadCapability;
use crate::certificate::{self, Serial, authority_hash, common_name, peer_capability, peer_name};
use crate::clock::UnixSeconds;
use crate::error::IdentityError;
use crate::name::{Name, Role};
use crate::pem;
use crate::token::AuthorityHash;
use amita_types::ClusterId;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::{CertificateDer, TrustAnchor, UnixTime};
use std::fmt::Write;
use webpki::{
    ALL_VERIFICATION_ALGS, CertRevocationList, EndEntityCert, KeyUsage, OwnedCertRevocationList,
    RevocationOptionsBuilder, UnknownStatusPolicy,
};

const MAGIC: &str = "amita-trust-1";
const SIGNATURE: &str = "signature: ";
/// The most roots that are believed at a time: an old one and a new one, and some where the authority is another's.
const MAX_ROOTS: usize = 8;
/// The longest chain that is looked at, the leaf included.
const MAX_CHAIN: usize = 5;

/// What a certificate is used for in a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// Its holder was dialled.
    Server,
    /// Its holder dialled.
    Client,
}

/// Why a certificate is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// None was shown.
    #[error("no certificate was shown")]
    Nothing,
    /// It cannot be read.
    #[error("the certificate cannot be read: {0}")]
    Malformed(String),
    /// It names nobody of a cluster.
    #[error("the certificate names nobody: {0}")]
    Nameless(String),
    /// No authority that is trusted here made it.
    #[error(
        "the certificate is by no authority that is trusted here: is it of another cluster, or was the authority exchanged?"
    )]
    UnknownAuthority,
    /// It has ended.
    #[error("the certificate has ended on {since}, and it is {now}: it must be renewed, or a clock is wrong")]
    Expired {
        /// When.
        since: UnixSeconds,
        /// What the clock says.
        now: UnixSeconds,
    },
    /// It is not valid yet.
    #[error("the certificate is valid from {from} on, and it is {now}: a clock is wrong")]
    NotYet {
        /// From when on.
        from: UnixSeconds,
        /// What the clock says.
        now: UnixSeconds,
    },
    /// The authority has revoked it.
    #[error("the certificate was revoked")]
    Revoked,
    /// It may not be used so.
    #[error("the certificate may not be used by a {}", if *.0 == Usage::Server { "server" } else { "client" })]
    Usage(Usage),
    /// Its holder is of another cluster.
    #[error("{name} is of another cluster than {cluster}")]
    OtherCluster {
        /// Who.
        name: Name,
        /// This one.
        cluster: ClusterId,
    },
    /// Its holder has another role than those that are let in.
    #[error("{name} is let in nowhere here: {} may", list(wanted))]
    OtherRole {
        /// Who.
        name: Name,
        /// Who may.
        wanted: Vec<Role>,
    },
    /// Its holder is another one than who was dialled.
    #[error("{name} answered, where {wanted} was dialled")]
    OtherName {
        /// Who.
        name: Name,
        /// Who was wanted.
        wanted: String,
    },
    /// What it says that its holder may cannot be believed.
    #[error("the capability in the certificate is refused: {0}")]
    Capability(#[from] BadCapability),
    /// Anything else that is wrong with the path from it to an authority.
    #[error("the certificate is not believed: {0}")]
    Path(String),
}

fn list(roles: &[Role]) -> String {
    roles.iter().map(|role| role.text()).collect::<Vec<_>>().join(", ")
}

impl From<webpki::Error> for Refusal {
    fn from(error: webpki::Error) -> Refusal {
        match error {
            webpki::Error::CertExpired { time, not_after } => Refusal::Expired {
                since: not_after.into(),
                now: time.into(),
            },
            webpki::Error::CertNotValidYet { time, not_before } => Refusal::NotYet {
                from: not_before.into(),
                now: time.into(),
            },
            webpki::Error::CertRevoked => Refusal::Revoked,
            // Another root of the same name, made by somebody else.
            webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey => Refusal::UnknownAuthority,
            webpki::Error::BadDer | webpki::Error::BadDerTime | webpki::Error::TrailingData(_) => {
                Refusal::Malformed(error.to_string())
            }
            other => Refusal::Path(other.to_string()),
        }
    }
}

/// Which authorities are believed, and which of their certificates no more.
#[derive(Debug)]
pub struct Trust {
    roots: Vec<CertificateDer<'static>>,
    anchors: Vec<TrustAnchor<'static>>,
    lists: Vec<CertRevocationList<'static>>,
    /// Of the signed text; none with an outside authority.
    signed: Option<Signed>,
}

#[derive(Debug)]
struct Signed {
    cluster: ClusterId,
    number: u64,
    text: String,
}

impl Trust {
    /// Of `ca.pem`, and `crl.pem` where there is one: what an outside authority gives.
    ///
    /// # Errors
    /// Says what is wrong with the text.
    pub(crate) fn unsigned(roots: &str, lists: Option<&str>) -> Result<Trust, String> {
        let roots = pem::decode(roots)?;
        let lists = lists.map(pem::decode).transpose()?.unwrap_or_default();
        Trust::of(&roots, &lists, None)
    }

    fn of(roots: &[pem::Block], lists: &[pem::Block], signed: Option<Signed>) -> Result<Trust, String> {
        let roots: Vec<CertificateDer<'static>> = pem::of_label(roots, pem::CERTIFICATE)
            .map(|der| CertificateDer::from(der.to_vec()))
            .collect();
        if roots.is_empty() || roots.len() > MAX_ROOTS {
            return Err(format!("{} authorities, where one or two are wanted", roots.len()));
        }
        let mut anchors = Vec::new();
        for root in &roots {
            let parsed = certificate::parse(root).map_err(|why| why.to_string())?;
            if !parsed.is_ca() {
                return Err(format!(
                    "the certificate of {} is no authority's",
                    common_name(parsed.subject())
                ));
            }
            let anchor = webpki::anchor_from_trusted_cert(root).map_err(|why| why.to_string())?;
            anchors.push(anchor.to_owned());
        }
        let lists = pem::of_label(lists, pem::CRL)
            .map(|der| OwnedCertRevocationList::from_der(der).map(CertRevocationList::from))
            .collect::<Result<_, _>>()
            .map_err(|why| format!("the revocation list: {why}"))?;
        Ok(Trust {
            roots,
            anchors,
            lists,
            signed,
        })
    }

    /// A signed text, if one of `trusted` has signed it.
    ///
    /// # Errors
    /// It is no such text, or none of them has.
    pub(crate) fn signed(text: &str, trusted: &[CertificateDer<'_>]) -> Result<Trust, IdentityError> {
        let foreign = |why: String| IdentityError::ForeignTrust(why);
        let (body, signatures) = split(text).ok_or_else(|| foreign(format!("it is no text of the form {MAGIC}")))?;
        let field = |name: &str| {
            let mut found = body
                .lines()
                .filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            found.next().filter(|_| found.next().is_none())
        };
        let cluster = field("cluster").and_then(|id| id.parse().ok());
        let number = field("number").and_then(|number| number.parse().ok());
        let (Some(cluster), Some(number)) = (cluster, number) else {
            return Err(foreign("its cluster or its number is missing".to_owned()));
        };
        // Before anything else of it is read.
        if !trusted.iter().any(|root| is_signed_by(root, body, signatures)) {
            return Err(foreign("no authority that is trusted here has signed it".to_owned()));
        }
        let blocks = pem::decode(body).map_err(foreign)?;
        let signed = Signed {
            cluster,
            number,
            text: text.to_owned(),
        };
        let trust = Trust::of(&blocks, &blocks, Some(signed)).map_err(foreign)?;
        // Else the certificates of a root without one would be refused, all of them.
        if trust.lists.len() != trust.roots.len() {
            return Err(foreign("it has not one revocation list for each authority".to_owned()));
        }
        Ok(trust)
    }

    /// A signed text, if the authority of that hash is in it and has signed it: for who joins, and trusts nothing yet.
    ///
    /// # Errors
    /// It is no such text, or that authority has not signed it.
    pub(crate) fn signed_by(text: &str, authority: AuthorityHash) -> Result<Trust, IdentityError> {
        let blocks = pem::decode(text).map_err(IdentityError::ForeignTrust)?;
        let roots = pem::of_label(&blocks, pem::CERTIFICATE).map(|der| CertificateDer::from(der.to_vec()));
        let known = roots.filter(|root| authority_hash(root).ok() == Some(authority));
        Trust::signed(text, &known.collect::<Vec<_>>())
    }

    /// The roots, as they are in `ca.pem`.
    #[must_use]
    pub fn roots(&self) -> &[CertificateDer<'static>] {
        &self.roots
    }

    /// The roots as PEM.
    #[must_use]
    pub fn roots_pem(&self) -> String {
        let texts = self
            .roots
            .iter()
            .map(|root| pem::encode(pem::CERTIFICATE, root).to_string());
        texts.collect()
    }

    /// The number of the list; none with an outside authority.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        self.signed.as_ref().map(|signed| signed.number)
    }

    /// The cluster that the list is of; none with an outside authority.
    #[must_use]
    pub fn cluster(&self) -> Option<ClusterId> {
        self.signed.as_ref().map(|signed| signed.cluster)
    }

    /// The signed text, to be handed on; none with an outside authority.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.signed.as_ref().map(|signed| signed.text.as_str())
    }

    /// Was a certificate of that number revoked, by any of the authorities?
    #[must_use]
    pub fn revokes(&self, serial: &Serial) -> bool {
        // A list has numbers as DER has them: with an octet for the sign where the first bit is set.
        let signed = [&[0], serial.bytes()].concat();
        let is_on = |list: &CertRevocationList<'_>, number: &[u8]| matches!(list.find_serial(number), Ok(Some(_)));
        let mut lists = self.lists.iter();
        lists.any(|list| is_on(list, serial.bytes()) || is_on(list, &signed))
    }

    /// Who shows this chain (the leaf first), if an authority that is believed made it, it is valid now and not revoked, it
    /// may be used so, its holder is of the cluster, and what it says of a capability is one.
    ///
    /// # Errors
    /// Why it is not believed.
    pub fn judge(
        &self,
        chain: &[CertificateDer<'_>],
        usage: Usage,
        cluster: ClusterId,
        now: UnixSeconds,
    ) -> Result<Name, Refusal> {
        let (leaf, rest) = chain.split_first().ok_or(Refusal::Nothing)?;
        if chain.len() > MAX_CHAIN {
            return Err(Refusal::Path(format!("{} certificates in a chain", chain.len())));
        }
        let parsed = EndEntityCert::try_from(leaf).map_err(Refusal::from)?;
        let purpose = match usage {
            Usage::Server => KeyUsage::server_auth(),
            Usage::Client => KeyUsage::client_auth(),
        };
        let lists: Vec<&CertRevocationList<'_>> = self.lists.iter().collect();
        // Every authority of ours has its list in the signed text; one of another's may have none.
        let unknown = if self.signed.is_some() {
            UnknownStatusPolicy::Deny
        } else {
            UnknownStatusPolicy::Allow
        };
        let revocation = RevocationOptionsBuilder::new(&lists)
            .ok()
            .map(|options| options.with_status_policy(unknown).build());
        let time: UnixTime = now.tls();
        parsed
            .verify_for_usage(
                ALL_VERIFICATION_ALGS,
                &self.anchors,
                rest,
                time,
                purpose,
                revocation,
                None,
            )
            .map_err(|why| match why {
                webpki::Error::RequiredEkuNotFoundContext(_) | webpki::Error::EmptyEkuExtension => {
                    Refusal::Usage(usage)
                }
                other => other.into(),
            })?;
        let name = peer_name(leaf)?;
        if name.cluster() != cluster {
            return Err(Refusal::OtherCluster { name, cluster });
        }
        peer_capability(leaf)?;
        Ok(name)
    }
}

/// What is signed, and the lines with the signatures.
fn split(text: &str) -> Option<(&str, &str)> {
    let after = text.strip_prefix(MAGIC)?;
    if !after.starts_with('\n') {
        return None;
    }
    let at = text.find(&format!("\n{SIGNATURE}"))? + 1;
    Some(text.split_at(at))
}

fn is_signed_by(root: &CertificateDer<'_>, body: &str, signatures: &str) -> bool {
    let (Ok(hash), Ok(parsed)) = (authority_hash(root), EndEntityCert::try_from(root)) else {
        return false;
    };
    let of_it = format!("{SIGNATURE}{hash} ");
    let found = signatures.lines().filter_map(|line| line.strip_prefix(of_it.as_str()));
    let is_right = |signature: &str| {
        let Ok(signature) = STANDARD.decode(signature) else {
            return false;
        };
        parsed
            .verify_signature(webpki::aws_lc_rs::ECDSA_P256_SHA256, body.as_bytes(), &signature)
            .is_ok()
    };
    // One is made for each root; more are nobody's.
    found.take(2).any(is_right)
}

/// What an authority signs with.
pub(crate) trait Sign {
    fn hash(&self) -> Result<AuthorityHash, IdentityError>;
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, IdentityError>;
}

/// Makes the text: roots and lists as PEM, signed by all signers.
pub(crate) fn compose(
    cluster: ClusterId,
    number: u64,
    roots: &str,
    lists: &str,
    signers: &[&dyn Sign],
) -> Result<String, IdentityError> {
    let mut text = format!("{MAGIC}\ncluster: {cluster}\nnumber: {number}\n{roots}{lists}");
    let signed = text.len();
    for signer in signers {
        let signature = STANDARD.encode(signer.sign(&text.as_bytes()[..signed])?);
        let _ = writeln!(text, "{SIGNATURE}{} {signature}", signer.hash()?);
    }
    Ok(text)
}
