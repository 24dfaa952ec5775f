//! From the key that an operator configures to the key that TLS is keyed with (NVMe/TCP Transport 1.1, 3.6.1.3).
//!
//! ```text
//! configured PSK  --"HostNQN", the host's NQN-->  retained PSK  --"nvme-tls-psk", context-->  TLS PSK
//! ```
//!
//! Each arrow is HKDF-Extract without salt and HKDF-Expand-Label. The first one is left out if the configured key names
//! no hash. The context of the second is the identity itself in version 0, and the hash's number and the digest of the
//! key in version 1:
//!
//! ```text
//! NVMe0Rhh HOSTNQN SUBNQN
//! NVMe1Rhh HOSTNQN SUBNQN DIGEST       digest: base64(HMAC(retained PSK, "HOSTNQN SUBNQN NVMe-over-Fabrics"))
//! ```
//!
//! The keys that `nvme-cli` puts into the host's keyring are derived by its library. Up to libnvme 1.14 (Debian 13 has
//! 1.13) that wrote what HKDF-Expand-Label expands in a form of its own: the length as the processor has it, which is
//! little-endian, and label and context without their lengths. Both forms are known here ([`Dialect`]): a host of either
//! kind proves by its binder which one it uses.

use amita_keys::{Hash, TlsKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, HKDF_SHA384, HKDF_SHA512, KeyType, Prk, Salt};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt;
use zeroize::Zeroizing;

const DIGEST_SEED: &str = "NVMe-over-Fabrics";
/// A context in HKDF-Expand-Label has a length of one byte.
const MAX_CONTEXT_BYTES: usize = 255;
/// An NQN has at most this many bytes (NVM Express Base 2.1, 4.7).
const MAX_NQN_BYTES: usize = 223;

/// How HKDF-Expand-Label is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// As RFC 8446, 7.1 has it, and libnvme from 1.15 on.
    Standard,
    /// As libnvme did it before, and does it when asked for compatibility.
    Libnvme,
}

impl Dialect {
    /// Both.
    pub const ALL: [Dialect; 2] = [Dialect::Standard, Dialect::Libnvme];
}

/// What a host says who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PskIdentity {
    /// 0 or 1.
    pub version: u8,
    /// The hash of the cipher suite.
    pub hash: Hash,
    /// The host's NQN.
    pub hostnqn: String,
    /// The NQN of the subsystem that it connects to.
    pub subnqn: String,
    /// The digest of the key, in version 1.
    digest: Option<String>,
}

impl PskIdentity {
    /// Reads an identity of a retained key. None if it is something else, a generated key for instance.
    #[must_use]
    pub fn parse(text: &str) -> Option<PskIdentity> {
        let rest = text.strip_prefix("NVMe")?;
        let mut parts = rest.split(' ');
        let (version, hash) = match parts.next()? {
            "0R01" => (0, Hash::Sha256),
            "0R02" => (0, Hash::Sha384),
            "1R01" => (1, Hash::Sha256),
            "1R02" => (1, Hash::Sha384),
            _ => return None,
        };
        let (hostnqn, subnqn) = (parts.next()?, parts.next()?);
        let digest = if version == 1 {
            Some(parts.next()?.to_owned())
        } else {
            None
        };
        let fits = |nqn: &str| (1..=MAX_NQN_BYTES).contains(&nqn.len());
        if parts.next().is_some() || !fits(hostnqn) || !fits(subnqn) {
            return None;
        }
        Some(PskIdentity {
            version,
            hash,
            hostnqn: hostnqn.into(),
            subnqn: subnqn.into(),
            digest,
        })
    }
}

impl fmt::Display for PskIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PskIdentity {
            version,
            hash,
            hostnqn,
            subnqn,
            digest,
        } = self;
        write!(f, "NVMe{version}R{:02} {hostnqn} {subnqn}", hash.id())?;
        match digest {
            None => Ok(()),
            Some(digest) => write!(f, " {digest}"),
        }
    }
}

/// A pre-shared key of TLS, with its identity.
#[derive(Clone)]
pub struct Psk {
    pub identity: PskIdentity,
    pub(super) secret: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for Psk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Psk")
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

impl Psk {
    /// Derives the key that a host and a subsystem share in an identity of that version. None if the context is too long
    /// for the standard's form, which happens in version 0 with NQNs of more than 120 characters.
    #[must_use]
    pub fn derive(key: &TlsKey, version: u8, hostnqn: &str, subnqn: &str, dialect: Dialect) -> Option<Psk> {
        let hash = key.cipher_hash();
        let retained = match key.transform() {
            None => Zeroizing::new(key.configured().to_vec()),
            Some(transform) => {
                let configured = key.configured();
                extract_and_expand(
                    dialect,
                    transform,
                    configured,
                    "HostNQN",
                    hostnqn.as_bytes(),
                    configured.len(),
                )?
            }
        };
        let digest = (version == 1).then(|| {
            let parts = [hostnqn, " ", subnqn, " ", DIGEST_SEED].map(str::as_bytes);
            STANDARD.encode(hash.hmac(&retained, &parts))
        });
        let context = match &digest {
            None => format!("NVMe0R{:02} {hostnqn} {subnqn}", hash.id()),
            Some(digest) => format!("{:02} {digest}", hash.id()),
        };
        let secret = extract_and_expand(
            dialect,
            hash,
            &retained,
            "nvme-tls-psk",
            context.as_bytes(),
            hash.len_bytes(),
        )?;
        Some(Psk {
            identity: PskIdentity {
                version,
                hash,
                hostnqn: hostnqn.into(),
                subnqn: subnqn.into(),
                digest,
            },
            secret,
        })
    }
}

/// Length of what is expanded.
struct Bytes(usize);

impl KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

pub(super) fn hkdf(hash: Hash) -> aws_lc_rs::hkdf::Algorithm {
    match hash {
        Hash::Sha256 => HKDF_SHA256,
        Hash::Sha384 => HKDF_SHA384,
        Hash::Sha512 => HKDF_SHA512,
    }
}

/// HKDF-Extract (RFC 5869, 2.2) without salt: as many zeros as the hash has bytes.
pub(super) fn extract(hash: Hash, secret: &[u8]) -> Prk {
    Salt::new(hkdf(hash), &[]).extract(secret)
}

/// HKDF-Expand-Label (RFC 8446, 7.1), with the prefix "tls13 ".
pub(super) fn expand_label(
    dialect: Dialect,
    prk: &Prk,
    label: &str,
    context: &[u8],
    bytes: usize,
) -> Option<Zeroizing<Vec<u8>>> {
    let length = u16::try_from(bytes).ok()?;
    let label = format!("tls13 {label}");
    let info: Vec<u8> = match dialect {
        Dialect::Standard => {
            if context.len() > MAX_CONTEXT_BYTES {
                return None;
            }
            [
                &length.to_be_bytes()[..],
                &[label.len() as u8],
                label.as_bytes(),
                &[context.len() as u8],
                context,
            ]
            .concat()
        }
        Dialect::Libnvme => [&length.to_le_bytes()[..], label.as_bytes(), context].concat(),
    };
    let mut out = Zeroizing::new(vec![0; bytes]);
    prk.expand(&[&info], Bytes(bytes)).ok()?.fill(&mut out).ok()?;
    Some(out)
}

fn extract_and_expand(
    dialect: Dialect,
    hash: Hash,
    secret: &[u8],
    label: &str,
    context: &[u8],
    bytes: usize,
) -> Option<Zeroizing<Vec<u8>>> {
    expand_label(dialect, &extract(hash, secret), label, context, bytes)
}
