//! The identity folder: what a machine has of an identity.
//!
//! ```text
//! DIR/             0700
//!   key.pem        0600  the private key (PKCS#8); it was made here and never leaves
//!   cert.pem             the certificate, then those between it and the authority
//!   ca.pem               the roots that are trusted
//!   trust                the authority's signed list: roots, and what was revoked (`trust.rs`)
//!   seen                 the highest number of such a list that was ever taken
//!   crl.pem              revocation lists of an outside authority; looked at where there is no `trust`
//! ```
//!
//! The files of an outside authority work as well: `key.pem`, `cert.pem` and `ca.pem`, where the certificate has the one URI.
//!
//! A new key and its certificate are put in place so that a crash at any moment leaves a pair that fits: the certificate is
//! written as `cert.next.pem`, the key replaces `key.pem`, and then the certificate is renamed. Whoever opens the folder in
//! between finds a key that fits the next certificate only, and does the last step.

use crate::certificate::{Facts, Serial};
use crate::clock::UnixSeconds;
use crate::error::IdentityError;
use crate::files::{self, Lock, MAX_FILE_BYTES, MAX_KEY_BYTES, Privacy};
use crate::key::PrivateKey;
use crate::name::Name;
use crate::pem;
use crate::token::AuthorityHash;
use crate::trust::{Refusal, Trust, Usage};
use rcgen::{CertificateParams, DistinguishedName};
use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use webpki::EndEntityCert;

const KEY: &str = "key.pem";
const CERTIFICATE: &str = "cert.pem";
const NEXT_CERTIFICATE: &str = "cert.next.pem";
const ROOTS: &str = "ca.pem";
const LISTS: &str = "crl.pem";
const TRUST: &str = "trust";
const SEEN: &str = "seen";

/// Who this is, with what it proves it by and what it trusts.
pub struct Identity {
    facts: Facts,
    certified: Arc<CertifiedKey>,
    trust: Arc<Trust>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({}, {})", self.facts.name, self.facts.serial)
    }
}

impl Identity {
    /// Reads a folder, and checks all of it: rights and owners, that key and certificate fit, that the certificate is by an
    /// authority of `ca.pem`, valid now and not revoked.
    ///
    /// # Errors
    /// What is wrong, where, and what mends it.
    pub fn open(folder: &Path, now: UnixSeconds) -> Result<Identity, IdentityError> {
        let trust = Identity::trust_of(folder)?;
        let (key, chain) = match pair_of(folder)? {
            Some(pair) => pair,
            None => {
                // Somebody is putting a new pair in place, or was, and crashed.
                let lock = files::lock(folder)?;
                complete(folder, &lock)?;
                pair_of(folder)?.ok_or_else(|| {
                    IdentityError::content(
                        &folder.join(CERTIFICATE),
                        format!(
                            "the certificate is for another key than {}: put the pair together again, or join anew",
                            folder.join(KEY).display()
                        ),
                    )
                })?
            }
        };
        let identity = Identity::of(&key, chain, Arc::new(trust), folder)?;
        identity.check(folder, now)?;
        Ok(identity)
    }

    /// What is in the folder, whether it is valid or not: for showing it.
    ///
    /// # Errors
    /// It cannot be read, or others could have touched it.
    pub fn show(folder: &Path) -> Result<(Facts, Trust), IdentityError> {
        let trust = Identity::trust_of(folder)?;
        let path = folder.join(CERTIFICATE);
        let chain = chain_of(&path)?.ok_or_else(|| missing(folder, CERTIFICATE))?;
        let facts = Facts::of(&chain[0]).map_err(|why| refused(&path, why))?;
        Ok((facts, trust))
    }

    /// What the folder trusts; the folder may have no key and certificate yet.
    fn trust_of(folder: &Path) -> Result<Trust, IdentityError> {
        if !files::check_folder(folder)? {
            return Err(missing(folder, KEY));
        }
        let path = folder.join(ROOTS);
        let roots = files::read(&path, Privacy::Public, MAX_FILE_BYTES)?.ok_or_else(|| missing(folder, ROOTS))?;
        let signed = folder.join(TRUST);
        let seen = seen(folder)?;
        let Some(text) = files::read(&signed, Privacy::Public, MAX_FILE_BYTES)? else {
            if let Some(seen) = seen {
                return Err(IdentityError::content(
                    &signed,
                    format!("it is gone, and list {seen} was taken here once: put it back, or join anew"),
                ));
            }
            let lists = folder.join(LISTS);
            let lists = files::read(&lists, Privacy::Public, MAX_FILE_BYTES)?;
            return Trust::unsigned(&roots, lists.as_ref().map(|text| text.as_str()))
                .map_err(|why| IdentityError::content(&path, why));
        };
        let trusted = Trust::unsigned(&roots, None).map_err(|why| IdentityError::content(&path, why))?;
        let trust = Trust::signed(&text, trusted.roots())?;
        let (given, seen) = (trust.number().unwrap_or(0), seen.unwrap_or(0));
        if given < seen {
            return Err(IdentityError::OlderTrust { given, seen });
        }
        Ok(trust)
    }

    pub(crate) fn of(
        key: &PrivateKey,
        chain: Vec<CertificateDer<'static>>,
        trust: Arc<Trust>,
        place: &Path,
    ) -> Result<Identity, IdentityError> {
        let facts = Facts::of(chain.first().ok_or_else(|| refused(place, Refusal::Nothing))?)
            .map_err(|why| refused(place, why))?;
        let signing = key
            .signing_key()
            .ok_or_else(|| IdentityError::content(&place.join(KEY), "not a key that TLS can use (PKCS#8)"))?;
        Ok(Identity {
            facts,
            certified: Arc::new(CertifiedKey::new(chain, signing)),
            trust,
        })
    }

    /// Would the others believe it?
    fn check(&self, folder: &Path, now: UnixSeconds) -> Result<(), IdentityError> {
        let cluster = self.facts.name.cluster();
        if let Some(other) = self.trust.cluster().filter(|other| *other != cluster) {
            return Err(IdentityError::OtherCluster {
                name: self.facts.name.clone(),
                cluster: other,
            });
        }
        for usage in [Usage::Client, Usage::Server] {
            match self.trust.judge(self.chain(), usage, cluster, now) {
                Ok(_) => {}
                Err(Refusal::Expired { since, .. }) => {
                    return Err(IdentityError::Expired {
                        path: folder.to_owned(),
                        name: self.facts.name.clone(),
                        since,
                    });
                }
                Err(Refusal::NotYet { from, now }) => {
                    return Err(IdentityError::NotYet {
                        path: folder.to_owned(),
                        name: self.facts.name.clone(),
                        from,
                        now,
                    });
                }
                Err(why) => return Err(refused(&folder.join(CERTIFICATE), why)),
            }
        }
        Ok(())
    }

    /// Who this is.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.facts.name
    }

    /// What its certificate says.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Until when its certificate is valid.
    #[must_use]
    pub fn not_after(&self) -> UnixSeconds {
        self.facts.not_after
    }

    /// Its certificate's number.
    #[must_use]
    pub fn serial(&self) -> &Serial {
        &self.facts.serial
    }

    /// What it trusts.
    #[must_use]
    pub fn trust(&self) -> &Arc<Trust> {
        &self.trust
    }

    /// Its certificate, then those between it and the authority.
    #[must_use]
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.certified.cert
    }

    pub(crate) fn certified(&self) -> &Arc<CertifiedKey> {
        &self.certified
    }

    /// The same, where something else is trusted.
    pub(crate) fn trusting(&self, trust: Trust) -> Identity {
        Identity {
            facts: self.facts.clone(),
            certified: self.certified.clone(),
            trust: Arc::new(trust),
        }
    }
}

fn missing(folder: &Path, missing: &'static str) -> IdentityError {
    IdentityError::NoIdentity {
        path: folder.to_owned(),
        missing,
    }
}

fn refused(path: &Path, why: Refusal) -> IdentityError {
    IdentityError::Refused {
        whose: path.display().to_string(),
        why,
    }
}

fn chain_of(path: &Path) -> Result<Option<Vec<CertificateDer<'static>>>, IdentityError> {
    let Some(text) = files::read(path, Privacy::Public, MAX_FILE_BYTES)? else {
        return Ok(None);
    };
    parse_chain(&text)
        .map(Some)
        .map_err(|why| IdentityError::content(path, why))
}

pub(crate) fn parse_chain(text: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let blocks = pem::decode(text)?;
    let chain: Vec<_> = pem::of_label(&blocks, pem::CERTIFICATE)
        .map(|der| CertificateDer::from(der.to_vec()))
        .collect();
    if chain.is_empty() {
        return Err("no certificate is in it".to_owned());
    }
    Ok(chain)
}

fn key_of(folder: &Path) -> Result<PrivateKey, IdentityError> {
    let path = folder.join(KEY);
    let text = files::read(&path, Privacy::Secret, MAX_KEY_BYTES)?.ok_or_else(|| missing(folder, KEY))?;
    let blocks = pem::decode(&text).map_err(|why| IdentityError::content(&path, why))?;
    let key = pem::of_label(&blocks, pem::PRIVATE_KEY)
        .map(PrivateKey::from_der)
        .next();
    key.ok_or_else(|| {
        IdentityError::content(
            &path,
            "no key in PKCS#8 (BEGIN PRIVATE KEY) is in it: `openssl pkcs8 -topk8 -nocrypt` makes one of other forms",
        )
    })
}

/// Does the certificate hold this key?
fn fits(key: &PrivateKey, chain: &[CertificateDer<'_>]) -> bool {
    let certified = chain.first().and_then(|leaf| EndEntityCert::try_from(leaf).ok());
    let certified = certified.map(|leaf| leaf.subject_public_key_info().as_ref().to_vec());
    certified.is_some() && certified == key.public()
}

/// Key and certificate; none: they do not fit.
fn pair_of(folder: &Path) -> Result<Option<(PrivateKey, Vec<CertificateDer<'static>>)>, IdentityError> {
    let key = key_of(folder)?;
    let Some(chain) = chain_of(&folder.join(CERTIFICATE))? else {
        return match folder.join(NEXT_CERTIFICATE).exists() {
            true => Ok(None),
            false => Err(missing(folder, CERTIFICATE)),
        };
    };
    Ok(fits(&key, &chain).then_some((key, chain)))
}

/// The last step of putting a pair in place.
fn complete(folder: &Path, _: &Lock) -> Result<(), IdentityError> {
    let (next, certificate) = (folder.join(NEXT_CERTIFICATE), folder.join(CERTIFICATE));
    match chain_of(&next)? {
        Some(chain) if fits(&key_of(folder)?, &chain) => files::rename(&next, &certificate),
        _ => Ok(()),
    }
}

fn seen(folder: &Path) -> Result<Option<u64>, IdentityError> {
    let path = folder.join(SEEN);
    let Some(text) = files::read(&path, Privacy::Public, MAX_FILE_BYTES)? else {
        return Ok(None);
    };
    let number = text.trim().parse();
    number.map(Some).map_err(|_| {
        IdentityError::content(
            &path,
            "not the number of a trust list: write the one from the file `trust` into it",
        )
    })
}

/// Takes a newer list into the folder; `None`: it is there already.
pub(crate) fn install_trust(folder: &Path, text: &str) -> Result<Option<Trust>, IdentityError> {
    let lock = files::lock(folder)?;
    let current = Identity::trust_of(folder)?;
    take_trust(folder, &current, text, &lock)
}

fn take_trust(folder: &Path, current: &Trust, text: &str, lock: &Lock) -> Result<Option<Trust>, IdentityError> {
    let trust = Trust::signed(text, current.roots())?;
    let given = trust.number().unwrap_or(0);
    let known = current.number().unwrap_or(0).max(seen(folder)?.unwrap_or(0));
    if let Some(cluster) = current.cluster().filter(|cluster| Some(*cluster) != trust.cluster()) {
        return Err(IdentityError::ForeignTrust(format!("it is not of cluster {cluster}")));
    }
    if given < known {
        return Err(IdentityError::OlderTrust { given, seen: known });
    }
    if current.text() == Some(text) {
        return Ok(None);
    }
    if given == known && current.number().is_some() {
        return Err(IdentityError::ForeignTrust(format!(
            "it has number {given} as the one that is known has, and says something else"
        )));
    }
    write_trust(folder, &trust, lock)?;
    Ok(Some(trust))
}

fn write_trust(folder: &Path, trust: &Trust, _: &Lock) -> Result<(), IdentityError> {
    // The list first: whichever of the older and the newer roots stand in `ca.pem`, one of them has signed it.
    if let (Some(text), Some(number)) = (trust.text(), trust.number()) {
        files::write(&folder.join(TRUST), Privacy::Public, text)?;
        files::write(&folder.join(SEEN), Privacy::Public, &format!("{number}\n"))?;
    }
    files::write(&folder.join(ROOTS), Privacy::Public, &trust.roots_pem())
}

/// A key that was made for a folder and is not in it yet: what a certificate is asked for with. It lies in memory only, so
/// that an identity that is not renewed stays as it was.
#[derive(Debug)]
pub struct PendingKey {
    folder: PathBuf,
    key: PrivateKey,
    request: String,
}

impl PendingKey {
    /// Makes a key, and a signing request of it. The request names nobody: the authority decides who this is.
    ///
    /// # Errors
    /// The folder cannot be made, or others can look into it.
    pub fn make(folder: &Path) -> Result<PendingKey, IdentityError> {
        files::make_folder(folder)?;
        let key = PrivateKey::generate()?;
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = DistinguishedName::new();
        let request = parameters
            .serialize_request(&*key.pair()?)
            .map_err(IdentityError::make("a signing request"))?;
        Ok(PendingKey {
            folder: folder.to_owned(),
            key,
            request: pem::encode(pem::REQUEST, request.der()).to_string(),
        })
    }

    /// The signing request (PKCS#10) as PEM.
    #[must_use]
    pub fn request(&self) -> &str {
        &self.request
    }

    /// Puts the key, its certificate (PEM, the leaf first) and the authority's trust list in place. `authority`: whom to
    /// believe where the folder trusts nobody yet; where it does, its own roots count.
    ///
    /// # Errors
    /// The answer is not for this key, not by who was asked, or does not hold now: key and certificate are as they were.
    pub fn install(
        self,
        certificate: &str,
        trust: &str,
        authority: Option<AuthorityHash>,
        now: UnixSeconds,
    ) -> Result<Identity, IdentityError> {
        let folder = &self.folder;
        let place = folder.join(CERTIFICATE);
        let chain = parse_chain(certificate).map_err(|why| IdentityError::content(&place, why))?;
        if !fits(&self.key, &chain) {
            return Err(IdentityError::content(
                &place,
                "the certificate that came back is for another key",
            ));
        }
        let lock = files::lock(folder)?;
        let (trusted, is_new) = match authority {
            Some(authority) => (Trust::signed_by(trust, authority)?, true),
            None => {
                let current = Identity::trust_of(folder)?;
                let taken = take_trust(folder, &current, trust, &lock)?;
                (taken.unwrap_or(current), false)
            }
        };
        let identity = Identity::of(&self.key, chain, Arc::new(trusted), folder)?;
        identity.check(folder, now)?;
        if is_new {
            write_trust(folder, &identity.trust, &lock)?;
        }
        let next = folder.join(NEXT_CERTIFICATE);
        files::write(&next, Privacy::Public, certificate)?;
        files::write(&folder.join(KEY), Privacy::Secret, &self.key.to_pem())?;
        files::rename(&next, &place)?;
        Ok(identity)
    }
}

/// Is there an identity in the folder already, or a part of one?
pub(crate) fn is_taken(folder: &Path) -> Option<PathBuf> {
    let files = [KEY, CERTIFICATE, ROOTS, TRUST];
    files.iter().map(|name| folder.join(name)).find(|path| path.exists())
}

impl Identity {
    /// Refuses a folder in which there is an identity already, or a part of one.
    ///
    /// # Errors
    /// The file that is there.
    pub fn check_absent(folder: &Path) -> Result<(), IdentityError> {
        match is_taken(folder) {
            None => Ok(()),
            Some(path) => Err(IdentityError::Exists { path }),
        }
    }
}
