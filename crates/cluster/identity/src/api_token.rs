//! Tokens of the API: what a program shows that has no certificate.
//!
//! ```text
//! amita-api-1.BASE64URL( id (16 bytes) | secret (32 bytes) )
//! ```
//!
//! The cluster keeps a hash of the secret: who reads the metadata, or a copy of it, cannot use the API by that. The secret is random,
//! and as long as a key, so that a plain hash of it cannot be searched. The fixed beginning is there for those who look through logs
//! and repositories for what should not be in them.

use crate::certificate::hex;
use crate::token::sha256;
use aws_lc_rs::{constant_time, rand};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::fmt;
use std::str::FromStr;
use zeroize::Zeroizing;

const PREFIX: &str = "amita-api-1.";
const ID: usize = 16;
const SECRET: usize = 32;

/// It is no token of the API. It never says what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no token of the form amita-api-1....: was all of it copied?")]
pub struct BadApiToken;

/// A token of the API. It is wiped when it is dropped.
#[derive(Clone)]
pub struct ApiToken {
    id: [u8; ID],
    secret: Zeroizing<[u8; SECRET]>,
}

impl ApiToken {
    /// A new one.
    #[must_use]
    pub fn generate() -> ApiToken {
        let mut id = [0; ID];
        let mut secret = Zeroizing::new([0; SECRET]);
        rand::fill(&mut id).expect("the kernel gives random numbers");
        rand::fill(&mut *secret).expect("the kernel gives random numbers");
        ApiToken { id, secret }
    }

    /// What it is called, in 32 hexadecimal digits: it may be shown.
    #[must_use]
    pub fn id(&self) -> String {
        hex(&self.id)
    }

    /// What the cluster keeps of its secret, in 64 hexadecimal digits.
    #[must_use]
    pub fn kept(&self) -> String {
        hex(&sha256(&[b"amita-api-1 secret", &self.id, &*self.secret]))
    }

    /// Is this the token of which that was kept?
    #[must_use]
    pub fn is(&self, kept: &str) -> bool {
        constant_time::verify_slices_are_equal(self.kept().as_bytes(), kept.as_bytes()).is_ok()
    }

    /// Its text, to be handed over.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(ID + SECRET));
        bytes.extend_from_slice(&self.id);
        bytes.extend_from_slice(&*self.secret);
        let encoded = Zeroizing::new(URL_SAFE_NO_PAD.encode(&*bytes));
        let mut text = Zeroizing::new(String::with_capacity(PREFIX.len() + encoded.len()));
        text.push_str(PREFIX);
        text.push_str(&encoded);
        text
    }
}

impl FromStr for ApiToken {
    type Err = BadApiToken;

    fn from_str(text: &str) -> Result<ApiToken, BadApiToken> {
        let encoded = text.trim().strip_prefix(PREFIX).ok_or(BadApiToken)?;
        let mut bytes = Zeroizing::new([0; ID + SECRET]);
        let length = URL_SAFE_NO_PAD.decode_slice(encoded, &mut *bytes);
        if length != Ok(bytes.len()) {
            return Err(BadApiToken);
        }
        let (id, secret) = bytes.split_first_chunk::<ID>().ok_or(BadApiToken)?;
        Ok(ApiToken {
            id: *id,
            secret: Zeroizing::new(secret.try_into().map_err(|_| BadApiToken)?),
        })
    }
}

impl fmt::Debug for ApiToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiToken({})", self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_itself_and_no_other() {
        let [one, other] = [ApiToken::generate(), ApiToken::generate()];
        let again: ApiToken = format!(" {}\n", *one.to_text()).parse().unwrap();
        assert_eq!(again.id(), one.id());
        assert!(again.is(&one.kept()));
        assert!(!other.is(&one.kept()) && !one.is("") && !one.is(&other.kept()));
    }

    #[test]
    fn what_is_shown_of_it_has_no_secret() {
        let token = ApiToken::generate();
        let shown = format!("{token:?}");
        assert_eq!(shown, format!("ApiToken({})", token.id()));
        let secret = &token.to_text()[PREFIX.len() + 24..];
        assert!(!shown.contains(secret) && !token.kept().contains(secret));
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let whole = ApiToken::generate().to_text();
        let short = &whole[..whole.len() - 1];
        let long = format!("{}A", *whole);
        for text in ["", "amita-api-1.", "amita-join-1.AAAA", short, &long, "amita-api-1.é"] {
            assert_eq!(text.parse::<ApiToken>().err(), Some(BadApiToken), "{text}");
        }
    }
}
