//! A certificate of the operator's own, for browsers.
//!
//! A node's certificate names its holder in the cluster and no host, and its authority may make no other: no browser can check it.
//! So the API can show a second one, by an authority that browsers trust. Processes of the cluster know a node by the first one only, and
//! must go on seeing it. A connection says which of the two it wants before it is shown either: browsers, `curl` and libraries of HTTP name the
//! host that they look for (RFC 6066, section 3) or the protocol that they speak (RFC 7301); processes of the cluster do neither, because they
//! look for a name in the cluster ([`amita_identity::Live::client_config`]).

use amita_identity::{Clock, Outline, UnixSeconds, not_after};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, Error as TlsError};
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio_rustls::rustls;
use zeroize::Zeroizing;

/// How often the files are looked at: as often as those of an identity.
const LOOK: Duration = Duration::from_secs(5);
/// What goes on being wrong is told again after so long.
const AGAIN: Duration = Duration::from_secs(600);
/// The longest chain, and the longest key, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Of the system's user 0.
const ROOT: u32 = 0;

/// Why a certificate cannot be shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadCertificate {
    /// A file cannot be read.
    #[error("{}: {why}; give a file that this process may read", path.display())]
    Unreadable {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        why: io::Error,
    },
    /// Somebody else may read the key, or owns it.
    #[error("{}: {why}; `chown` and `chmod 600` make it this user's alone, and make a new key if others could have read this one", path.display())]
    Loose {
        /// The key's file.
        path: PathBuf,
        /// Who else.
        why: String,
    },
    /// A file is not what it should be.
    #[error("{}: {why}", path.display())]
    Content {
        /// Which one.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Each is well, and they do not go together.
    #[error("the certificate {} is for another key than {}: give the two that were made together", certificate.display(), key.display())]
    Pair {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's.
        key: PathBuf,
    },
}

/// A certificate and its key in two files, which are read again when they change.
pub struct Shown {
    certificate: PathBuf,
    key: PathBuf,
    current: RwLock<Current>,
}

#[derive(Clone)]
struct Current {
    certified: Arc<CertifiedKey>,
    not_after: UnixSeconds,
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shown")
            .field("certificate", &self.certificate)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl Shown {
    /// Reads both (PEM: the certificate, then those between it and its authority; its key).
    ///
    /// # Errors
    /// What is wrong, where, and what mends it.
    pub fn open(certificate: &Path, key: &Path) -> Result<Arc<Shown>, BadCertificate> {
        let current = read(certificate, key)?;
        Ok(Arc::new(Shown {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            current: RwLock::new(current),
        }))
    }

    /// Until when it is valid, in words; and whether that is over.
    #[must_use]
    pub fn validity(&self) -> (String, bool) {
        let until = self.current().not_after;
        (until.to_string(), until <= Clock::system().now())
    }

    /// What it says of itself; none: its first certificate cannot be read, which [`Shown::open`] rules out.
    #[must_use]
    pub fn outline(&self) -> Option<Outline> {
        let current = self.current();
        current.certified.cert.first().and_then(|leaf| Outline::of(leaf).ok())
    }

    /// Reads the files again. `false`: the certificate is the same.
    ///
    /// # Errors
    /// What is wrong; what was shown goes on being shown.
    pub fn reload(&self) -> Result<bool, BadCertificate> {
        if chain(&self.certificate)? == self.current().certified.cert {
            return Ok(false);
        }
        let read = read(&self.certificate, &self.key)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = read;
        Ok(true)
    }

    fn current(&self) -> Current {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks at the files for as long as it is polled, and says what has changed.
    pub(crate) async fn keep(self: Arc<Self>) {
        let mut faults = Faults::default();
        loop {
            tokio::time::sleep(LOOK).await;
            let shown = Arc::clone(&self);
            // A disk may take its time.
            let Ok(reloaded) = tokio::task::spawn_blocking(move || shown.reload()).await else {
                return;
            };
            match reloaded {
                Ok(true) => log::info!(
                    target: "api",
                    "the certificate for browsers has changed; it is valid until {}",
                    self.validity().0
                ),
                Ok(false) => {}
                Err(why) => {
                    if let Some(text) = faults.news(why.to_string(), Instant::now()) {
                        log::warn!(target: "api", "the certificate for browsers cannot be read again, and the one before is shown: {text}");
                    }
                    continue;
                }
            }
            faults = Faults::default();
        }
    }
}

/// What is wrong with files that change. Two that belong together are not replaced at one moment, so that what is wrong once may be right at
/// the next look.
#[derive(Default)]
struct Faults {
    seen: Option<String>,
    told: Option<(String, Instant)>,
}

impl Faults {
    fn news(&mut self, text: String, now: Instant) -> Option<String> {
        let is_first = self.seen.replace(text.clone()).as_ref() != Some(&text);
        let is_told = |(told, at): &(String, Instant)| *told == text && now.saturating_duration_since(*at) < AGAIN;
        if is_first || self.told.as_ref().is_some_and(is_told) {
            return None;
        }
        self.told = Some((text.clone(), now));
        Some(text)
    }
}

fn read(certificate: &Path, key: &Path) -> Result<Current, BadCertificate> {
    let chain = chain(certificate)?;
    let content = |why: String| BadCertificate::Content {
        path: certificate.to_owned(),
        why,
    };
    let leaf = chain
        .first()
        .ok_or_else(|| content("there is no certificate in it".to_owned()))?;
    let not_after = not_after(leaf).map_err(|why| content(why.to_string()))?;
    let key_der = key_of(key)?;
    let certified = CertifiedKey::from_der(chain, key_der, &aws_lc_rs::default_provider()).map_err(|why| match why {
        TlsError::InconsistentKeys(_) => BadCertificate::Pair {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
        },
        TlsError::InvalidCertificate(CertificateError::BadEncoding) => content("its certificate cannot be read".to_owned()),
        other => BadCertificate::Content {
            path: key.to_owned(),
            why: format!("a key of a kind that TLS cannot use here ({other}); ECDSA (P-256), Ed25519 and RSA of 2,048 bits or more can be"),
        },
    })?;
    let certified = Arc::new(certified);
    Ok(Current { certified, not_after })
}

fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, BadCertificate> {
    let (mut file, _) = open(path)?;
    let text = text(&mut file, path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let content = |why: String| BadCertificate::Content {
        path: path.to_owned(),
        why,
    };
    let found = found.map_err(|why| content(format!("not PEM: {why}")))?;
    if found.is_empty() {
        return Err(content("there is no certificate in it (BEGIN CERTIFICATE)".to_owned()));
    }
    Ok(found)
}

fn key_of(path: &Path) -> Result<PrivateKeyDer<'static>, BadCertificate> {
    let (mut file, found) = open(path)?;
    check(&found, rustix::process::geteuid().as_raw()).map_err(|why| BadCertificate::Loose {
        path: path.to_owned(),
        why,
    })?;
    let text = text(&mut file, path)?;
    PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|why| BadCertificate::Content {
        path: path.to_owned(),
        why: match why {
            PemError::NoItemsFound if text.contains("ENCRYPTED") => {
                "the key is protected by a password; `openssl pkey -in FILE -out NEW` writes one without".to_owned()
            }
            PemError::NoItemsFound => "there is no key in it (BEGIN PRIVATE KEY)".to_owned(),
            // What is in it is not said: it is a secret.
            _ => "not PEM".to_owned(),
        },
    })
}

/// The rule of PostgreSQL: this user's alone, or root's, who may let a group read it (as Debian's `ssl-cert` does).
fn check(found: &std::fs::Metadata, user: u32) -> Result<(), String> {
    let allowed = match found.uid() {
        ROOT => 0o740,
        owner if owner == user => 0o700,
        owner => {
            return Err(format!(
                "it belongs to user {owner}, who may read it, and this is user {user}"
            ));
        }
    };
    let mode = found.mode() & 0o777;
    if mode & !allowed == 0 {
        return Ok(());
    }
    Err(format!("others may read or change the key (its rights are {mode:04o})"))
}

fn open(path: &Path) -> Result<(File, std::fs::Metadata), BadCertificate> {
    let unreadable = |why| BadCertificate::Unreadable {
        path: path.to_owned(),
        why,
    };
    let file = File::open(path).map_err(unreadable)?;
    // Of the open file, not of the name: they cannot be exchanged in between.
    let found = file.metadata().map_err(unreadable)?;
    if !found.is_file() || found.len() > MAX_FILE_BYTES {
        return Err(BadCertificate::Content {
            path: path.to_owned(),
            why: "not a regular file of at most 1 MiB".to_owned(),
        });
    }
    Ok((file, found))
}

fn text(file: &mut File, path: &Path) -> Result<Zeroizing<String>, BadCertificate> {
    // Room for all of it at once: a text that grows leaves copies of a secret behind.
    let bytes = file.metadata().map_or(0, |found| found.len().min(MAX_FILE_BYTES));
    let mut text = Zeroizing::new(String::with_capacity(usize::try_from(bytes).unwrap_or(0) + 1));
    let read = file.take(MAX_FILE_BYTES).read_to_string(&mut text);
    match read {
        Ok(_) => Ok(text),
        Err(why) if why.kind() == io::ErrorKind::InvalidData => Err(BadCertificate::Content {
            path: path.to_owned(),
            why: "not a text: give it in PEM (`openssl x509 -inform DER` or `openssl pkey -inform DER` convert it)"
                .to_owned(),
        }),
        Err(why) => Err(BadCertificate::Unreadable {
            path: path.to_owned(),
            why,
        }),
    }
}

/// Shows the one certificate or the other.
#[derive(Debug)]
pub(crate) struct ForBrowsers {
    /// What shows the node's own one.
    pub own: Arc<dyn ResolvesServerCert>,
    pub shown: Arc<Shown>,
}

impl ResolvesServerCert for ForBrowsers {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let is_of_the_cluster = hello.server_name().is_none() && hello.alpn().is_none();
        if is_of_the_cluster {
            return self.own.resolve(hello);
        }
        Some(self.shown.current().certified)
    }
}

#[cfg(test)]
mod tests;
