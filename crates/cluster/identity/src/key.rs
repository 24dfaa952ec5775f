//! Private keys: made here, kept in memory that is wiped.

use crate::error::IdentityError;
use crate::pem;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::SigningKey;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use zeroize::{Zeroize, Zeroizing};

/// A private key as PKCS#8.
#[derive(Clone)]
pub(crate) struct PrivateKey {
    der: Zeroizing<Vec<u8>>,
}

impl PrivateKey {
    /// A new one: ECDSA on P-256.
    pub(crate) fn generate() -> Result<PrivateKey, IdentityError> {
        let pair = Pair(KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(IdentityError::make("a key"))?);
        Ok(PrivateKey {
            der: Zeroizing::new(pair.serialized_der().to_vec()),
        })
    }

    pub(crate) fn from_der(der: &[u8]) -> PrivateKey {
        PrivateKey {
            der: Zeroizing::new(der.to_vec()),
        }
    }

    pub(crate) fn to_pem(&self) -> Zeroizing<String> {
        pem::encode(pem::PRIVATE_KEY, &self.der)
    }

    fn borrowed(&self) -> PrivateKeyDer<'_> {
        PrivatePkcs8KeyDer::from(self.der.as_slice()).into()
    }

    /// What certificates and requests are signed with.
    pub(crate) fn pair(&self) -> Result<Pair, IdentityError> {
        let pair = KeyPair::try_from(self.der.as_slice()).map_err(IdentityError::make("use of a key"))?;
        Ok(Pair(pair))
    }

    /// What TLS proves itself with; `None`: it is no key that can.
    pub(crate) fn signing_key(&self) -> Option<Arc<dyn SigningKey>> {
        any_supported_type(&self.borrowed()).ok()
    }

    /// The public half, as SubjectPublicKeyInfo.
    pub(crate) fn public(&self) -> Option<Vec<u8>> {
        Some(self.signing_key()?.public_key()?.as_ref().to_vec())
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(secret)")
    }
}

/// A key pair of the certificate library, wiped when it is dropped.
pub(crate) struct Pair(KeyPair);

impl Deref for Pair {
    type Target = KeyPair;
    fn deref(&self) -> &KeyPair {
        &self.0
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}
