//! What the REST API keeps: who may use it by a token, and what it has answered.

use super::PREFIX;
use crate::id::MirrorId;
use serde::{Deserialize, Serialize};

/// `/amita/api/tokens/ID`: somebody may use the API by a token. The token itself is known to whoever holds it, and to nobody else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiToken {
    /// What the token is called: 32 hexadecimal digits.
    pub id: String,
    /// Who holds it, as the audit log names them.
    pub name: String,
    /// What they may: a role of operators.
    pub role: String,
    /// SHA-256 over the token's secret, in hexadecimal digits.
    pub kept: String,
    /// Who made it.
    pub made_by: String,
    /// When it was made, in seconds since 1970.
    pub made_at: u64,
    /// From when on it is not good any more, in seconds since 1970.
    pub ends_at: u64,
    /// The mirror whose other end holds it: it is good for what that end may ask, and for nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirror: Option<MirrorId>,
}

/// `/amita/api/answers/HASH`: a request that has an idempotency key was taken up, or answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiAnswer {
    /// SHA-256 over the key and the request, in hexadecimal digits: the key is for no other one.
    pub request: String,
    /// When it was taken up, in seconds since 1970.
    pub begun_at: u64,
    /// What was answered; none: it is being worked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<ApiReply>,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiReply {
    /// The status (RFC 9110, section 15).
    pub status: u16,
    /// `Content-Type`.
    pub kind: String,
    /// `ETag`, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The body.
    pub body: String,
}

/// The prefix of the API's tokens.
#[must_use]
pub fn api_tokens_prefix() -> String {
    format!("{PREFIX}api/tokens/")
}
/// The key of a token of the API.
#[must_use]
pub fn api_token_key(id: &str) -> String {
    format!("{}{id}", api_tokens_prefix())
}
/// The prefix of what the API has answered.
#[must_use]
pub fn api_answers_prefix() -> String {
    format!("{PREFIX}api/answers/")
}
/// The key of what the API has answered; `hash` is over who asked and their idempotency key.
#[must_use]
pub fn api_answer_key(hash: &str) -> String {
    format!("{}{hash}", api_answers_prefix())
}
