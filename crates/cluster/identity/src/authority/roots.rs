//! Roots: the certificates of the authority and the keys that they sign with.

use super::hash_of;
use crate::certificate::{self, Serial, common_name};
use crate::clock::UnixSeconds;
use crate::error::IdentityError;
use crate::files::{self, MAX_FILE_BYTES, MAX_KEY_BYTES, Privacy};
use crate::key::{Pair, PrivateKey};
use crate::pem;
use crate::token::AuthorityHash;
use crate::trust::Sign;
use amita_types::ClusterId;
use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DistinguishedName, DnType, GeneralSubtree, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, NameConstraints, SerialNumber, SigningKey,
};
use rustls::pki_types::CertificateDer;
use std::path::{Path, PathBuf};
use std::time::Duration;
use time::OffsetDateTime;
use webpki::EndEntityCert;

const KEYS: &str = "ca-key.pem";
const ROOTS: &str = "ca.pem";
const SIGNS_FROM: &str = "signs-from: ";
const ROOT_LIFE: Duration = Duration::from_secs(3653 * 24 * 3600);
/// A root is valid from a day before it was made on, for clocks that are behind.
const BACKDATED: Duration = Duration::from_secs(24 * 3600);
/// A domain that is nobody's (RFC 2606): the only one that certificates by a root may name, so that none of them is of use
/// in the web, should anybody ever have a browser trust the root.
const NOBODYS: &str = "amita.invalid";

pub(super) fn date(at: UnixSeconds) -> Result<OffsetDateTime, IdentityError> {
    at.date().ok_or_else(|| IdentityError::Make {
        what: "a date",
        why: format!("{} seconds after 1970 is in no calendar: is the clock right?", at.0),
    })
}

/// One root, and its key.
pub(super) struct Root {
    certificate: CertificateDer<'static>,
    key: PrivateKey,
    /// From when on it signs, where there is an older one.
    pub(super) signs_from: UnixSeconds,
}

impl Root {
    /// The `generation`-th of a cluster.
    pub(super) fn generate(
        cluster: ClusterId,
        generation: u32,
        now: UnixSeconds,
        signs_from: UnixSeconds,
    ) -> Result<Root, IdentityError> {
        let key = PrivateKey::generate()?;
        let mut root = CertificateParams::default();
        root.serial_number = Some(SerialNumber::from_slice(Serial::generate().bytes()));
        root.not_before = date(now.before(BACKDATED))?;
        root.not_after = date(now.after(ROOT_LIFE))?;
        root.distinguished_name = DistinguishedName::new();
        root.distinguished_name
            .push(DnType::CommonName, format!("Amita {cluster} authority {generation}"));
        root.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        root.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        root.name_constraints = Some(NameConstraints {
            permitted_subtrees: vec![GeneralSubtree::DnsName(NOBODYS.to_owned())],
            excluded_subtrees: vec![
                GeneralSubtree::IpAddress(CidrSubnet::V4([0; 4], [0; 4])),
                GeneralSubtree::IpAddress(CidrSubnet::V6([0; 16], [0; 16])),
            ],
        });
        let made = root
            .self_signed(&*key.pair()?)
            .map_err(IdentityError::make("the authority's certificate"))?;
        Ok(Root {
            certificate: made.der().clone(),
            key,
            signs_from,
        })
    }

    pub(super) fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    pub(super) fn hash(&self) -> Result<AuthorityHash, IdentityError> {
        hash_of(&self.certificate)
    }

    pub(super) fn not_after(&self) -> Result<UnixSeconds, IdentityError> {
        let (_, until) = certificate::validity(&self.certificate).map_err(|why| IdentityError::Refused {
            whose: "the authority's certificate".to_owned(),
            why,
        })?;
        Ok(until)
    }

    /// Which of the cluster's it is.
    pub(super) fn generation(&self) -> Result<u32, IdentityError> {
        let parsed = certificate::parse(&self.certificate).map_err(|why| IdentityError::Refused {
            whose: "the authority's certificate".to_owned(),
            why,
        })?;
        let name = common_name(parsed.subject());
        Ok(name
            .rsplit(' ')
            .next()
            .and_then(|number| number.parse().ok())
            .unwrap_or(1))
    }

    /// Signs with the certificate library.
    pub(super) fn with_issuer<T>(&self, sign: impl FnOnce(&Issuer<'_, &KeyPair>) -> T) -> Result<T, IdentityError> {
        let pair: Pair = self.key.pair()?;
        let issuer = Issuer::from_ca_cert_der(&self.certificate, &*pair)
            .map_err(IdentityError::make("use of the authority's certificate"))?;
        Ok(sign(&issuer))
    }
}

impl Sign for Root {
    fn hash(&self) -> Result<AuthorityHash, IdentityError> {
        hash_of(&self.certificate)
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, IdentityError> {
        self.key
            .pair()?
            .sign(message)
            .map_err(IdentityError::make("a signature"))
    }
}

/// One root, or two while the authority is exchanged; the newest first.
pub(super) struct Roots(Vec<Root>);

impl Roots {
    pub(super) fn new(roots: Vec<Root>) -> Roots {
        Roots(roots)
    }

    /// What is already in a folder in which an authority is to be made.
    pub(super) fn is_there(folder: &Path) -> Option<PathBuf> {
        let files = [ROOTS, KEYS].map(|name| folder.join(name));
        files.into_iter().find(|path| path.exists())
    }

    pub(super) fn all(&self) -> &[Root] {
        &self.0
    }

    pub(super) fn newest(&self) -> &Root {
        &self.0[0]
    }

    /// The one that is to go.
    pub(super) fn old(&self) -> Option<&Root> {
        self.0.get(1)
    }

    /// The one that everybody trusts, also who has not heard of a new one yet: the authority's server is known by it.
    pub(super) fn oldest(&self) -> &Root {
        self.old().unwrap_or_else(|| self.newest())
    }

    /// The one that signs at that time.
    pub(super) fn signer(&self, now: UnixSeconds) -> &Root {
        match self.old() {
            Some(old) if now < self.newest().signs_from => old,
            _ => self.newest(),
        }
    }

    pub(super) fn add(&mut self, new: Root) {
        self.0.insert(0, new);
    }

    pub(super) fn drop_old(&mut self) -> Option<Root> {
        (self.0.len() > 1).then(|| self.0.pop())?
    }

    pub(super) fn certificates(&self) -> Vec<CertificateDer<'static>> {
        self.0.iter().map(|root| root.certificate.clone()).collect()
    }

    pub(super) fn pem(&self) -> String {
        let texts = self
            .0
            .iter()
            .map(|root| pem::encode(pem::CERTIFICATE, &root.certificate).to_string());
        texts.collect()
    }

    pub(super) fn read(folder: &Path) -> Result<Roots, IdentityError> {
        let (roots, keys) = (folder.join(ROOTS), folder.join(KEYS));
        let absent = || IdentityError::NoAuthority {
            path: folder.to_owned(),
        };
        let text = files::read(&roots, Privacy::Public, MAX_FILE_BYTES)?.ok_or_else(absent)?;
        let secret = files::read(&keys, Privacy::Secret, MAX_KEY_BYTES)?.ok_or_else(absent)?;
        let blocks = pem::decode(&text).map_err(|why| IdentityError::content(&roots, why))?;
        let times: Vec<_> = text.lines().filter_map(|line| line.strip_prefix(SIGNS_FROM)).collect();
        let certificates: Vec<_> = pem::of_label(&blocks, pem::CERTIFICATE).collect();
        if certificates.is_empty() || certificates.len() > 2 || certificates.len() != times.len() {
            return Err(IdentityError::content(
                &roots,
                "it holds not one or two certificates, each behind a line `signs-from: SECONDS`: put it back from a copy",
            ));
        }
        let secrets = pem::decode(&secret).map_err(|why| IdentityError::content(&keys, why))?;
        let private: Vec<_> = pem::of_label(&secrets, pem::PRIVATE_KEY)
            .map(PrivateKey::from_der)
            .collect();
        let mut found = Vec::new();
        for (der, time) in certificates.into_iter().zip(times) {
            let certificate = CertificateDer::from(der.to_vec());
            let public = EndEntityCert::try_from(&certificate)
                .map_err(|why| IdentityError::content(&roots, why.to_string()))?
                .subject_public_key_info();
            let is_of = |key: &&PrivateKey| key.public().as_deref() == Some(public.as_ref());
            let key = private.iter().find(is_of).cloned();
            let key =
                key.ok_or_else(|| IdentityError::content(&keys, "the key of a certificate in ca.pem is not in it"))?;
            let signs_from = time.trim().parse().map(UnixSeconds);
            found.push(Root {
                certificate,
                key,
                signs_from: signs_from.map_err(|_| IdentityError::content(&roots, "a `signs-from` is no number"))?,
            });
        }
        Ok(Roots(found))
    }

    pub(super) fn write_keys(&self, folder: &Path) -> Result<(), IdentityError> {
        let mut text = zeroize::Zeroizing::new(String::with_capacity(MAX_KEY_BYTES as usize));
        for root in &self.0 {
            text.push_str(&root.key.to_pem());
        }
        files::write(&folder.join(KEYS), Privacy::Secret, &text)
    }

    pub(super) fn write(&self, folder: &Path) -> Result<(), IdentityError> {
        let one = |root: &Root| {
            let certificate = pem::encode(pem::CERTIFICATE, &root.certificate);
            format!("{SIGNS_FROM}{}\n{}", root.signs_from.0, *certificate)
        };
        let text: String = self.0.iter().map(one).collect();
        files::write(&folder.join(ROOTS), Privacy::Public, &text)
    }
}
