//! Tokens: what a new machine is let in with, once and soon.
//!
//! ```text
//! amita-join-1.BASE64URL( id (16 bytes) | secret (32 bytes) | hash of the authority's key (32 bytes) )
//! ```
//!
//! The secret shows the authority that the machine was asked for; the hash shows the machine that it talks to the authority,
//! before it has anything else to know it by. The authority keeps a hash of the secret only: who reads its folder cannot
//! join.

use crate::certificate::hex;
use aws_lc_rs::{constant_time, digest, rand};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use zeroize::Zeroizing;

const PREFIX: &str = "amita-join-1.";
const ID: usize = 16;
const SECRET: usize = 32;
const HASH: usize = 32;

/// How long a token is good for: time to walk to the other machine.
pub const TOKEN_LIFE: Duration = Duration::from_secs(15 * 60);

/// What an authority is known by: SHA-256 of its public key (SubjectPublicKeyInfo).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct AuthorityHash(pub [u8; HASH]);

impl AuthorityHash {
    /// Of a public key.
    pub(crate) fn of(public_key: &[u8]) -> AuthorityHash {
        AuthorityHash(sha256(&[public_key]))
    }
}

impl fmt::Display for AuthorityHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for AuthorityHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

pub(crate) fn sha256(parts: &[&[u8]]) -> [u8; HASH] {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(part);
    }
    context.finish().as_ref().try_into().expect("32 bytes")
}

/// Why a token cannot be used. It never says what the token is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadToken {
    /// It is no token.
    #[error("this is no token of the form amita-join-1....: was all of it copied?")]
    Form,
    /// The authority does not take it: one sentence for all reasons, so that nobody learns from it.
    #[error(
        "the token is not taken: it is unknown, was used already, or is older than 15 minutes; `amita node token` makes a new one"
    )]
    NotTaken,
}

/// A token. It is wiped when it is dropped.
#[derive(Clone)]
pub struct Token {
    id: [u8; ID],
    secret: Zeroizing<[u8; SECRET]>,
    authority: AuthorityHash,
}

impl Token {
    /// A new one, for machines that shall find that authority.
    #[must_use]
    pub(crate) fn generate(authority: AuthorityHash) -> Token {
        let mut id = [0; ID];
        let mut secret = Zeroizing::new([0; SECRET]);
        rand::fill(&mut id).expect("the kernel gives random numbers");
        rand::fill(&mut *secret).expect("the kernel gives random numbers");
        Token { id, secret, authority }
    }

    /// What it is called: it may be shown.
    #[must_use]
    pub fn id(&self) -> String {
        hex(&self.id)
    }

    /// The authority that it is good with.
    #[must_use]
    pub fn authority(&self) -> AuthorityHash {
        self.authority
    }

    /// What the authority keeps of its secret.
    pub(crate) fn kept(&self) -> [u8; HASH] {
        sha256(&[b"amita-join-1 secret", &self.id, &*self.secret])
    }

    /// Is this the token of which that was kept?
    pub(crate) fn is(&self, kept: &[u8]) -> bool {
        constant_time::verify_slices_are_equal(&self.kept(), kept).is_ok()
    }

    /// Its text, to be handed over.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(ID + SECRET + HASH));
        for part in [&self.id[..], &*self.secret, &self.authority.0] {
            bytes.extend_from_slice(part);
        }
        let encoded = Zeroizing::new(URL_SAFE_NO_PAD.encode(&*bytes));
        let mut text = Zeroizing::new(String::with_capacity(PREFIX.len() + encoded.len()));
        text.push_str(PREFIX);
        text.push_str(&encoded);
        text
    }
}

impl FromStr for Token {
    type Err = BadToken;

    fn from_str(text: &str) -> Result<Token, BadToken> {
        let encoded = text.trim().strip_prefix(PREFIX).ok_or(BadToken::Form)?;
        let mut bytes = Zeroizing::new([0; ID + SECRET + HASH]);
        let length = URL_SAFE_NO_PAD
            .decode_slice(encoded, &mut *bytes)
            .map_err(|_| BadToken::Form)?;
        if length != bytes.len() {
            return Err(BadToken::Form);
        }
        let (id, rest) = bytes.split_first_chunk::<ID>().ok_or(BadToken::Form)?;
        let (secret, hash) = rest.split_first_chunk::<SECRET>().ok_or(BadToken::Form)?;
        Ok(Token {
            id: *id,
            secret: Zeroizing::new(*secret),
            authority: AuthorityHash(hash.try_into().map_err(|_| BadToken::Form)?),
        })
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.id())
    }
}
