//! What the API refuses, as gRPC says it (decision 086, "Errors").

use super::Answer;
use serde::Deserialize;
use tonic::{Code, Status};

/// Why a request was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// No node has answered; it may have been done.
    #[error("no node of the cluster answers: {0}")]
    NoAnswer(String),
    /// An answer of another form.
    #[error("a node's answer cannot be read: {0}")]
    Unreadable(String),
    /// It was refused (RFC 9457).
    #[error("{detail}")]
    Refused {
        /// The status.
        status: u16,
        /// What stays.
        code: String,
        /// For people.
        detail: String,
    },
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Problem {
    code: String,
    detail: String,
}

impl Trouble {
    pub(super) fn refused(answer: &Answer) -> Trouble {
        let Problem { code, detail } = serde_json::from_slice(&answer.body).unwrap_or_default();
        let detail = match detail.as_str() {
            "" => format!("a node answers {}", answer.status),
            _ => detail,
        };
        Trouble::Refused {
            status: answer.status,
            code,
            detail,
        }
    }

    /// Was it refused with this code?
    #[must_use]
    pub fn is(&self, wanted: &str) -> bool {
        matches!(self, Trouble::Refused { code, .. } if code == wanted)
    }

    /// Is there none of that name?
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.is("not-found")
    }

    fn code(&self) -> Code {
        let Trouble::Refused { status, code, .. } = self else {
            return match self {
                Trouble::NoAnswer(_) => Code::Unavailable,
                _ => Code::Internal,
            };
        };
        match code.as_str() {
            "bad-request" | "bad-setting" | "too-large" => Code::InvalidArgument,
            "unauthenticated" => Code::Unauthenticated,
            "denied" => Code::PermissionDenied,
            "not-found" => Code::NotFound,
            "exists" => Code::AlreadyExists,
            "in-use" | "wrong-state" | "ambiguous" => Code::FailedPrecondition,
            "no-room" | "cannot-place" => Code::ResourceExhausted,
            "raced" | "changed" | "in-progress" => Code::Aborted,
            "too-many" | "metadata-away" | "not-in-time" | "suspect" => Code::Unavailable,
            // What stands between: a proxy that has no node.
            _ if matches!(status, 429 | 502..=504) => Code::Unavailable,
            _ => Code::Internal,
        }
    }
}

impl From<Trouble> for Status {
    fn from(trouble: Trouble) -> Status {
        Status::new(trouble.code(), trouble.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_problem_has_its_code() {
        let of = |status: u16, body: &str| {
            let body = body.as_bytes().to_vec();
            let trouble = Trouble::refused(&Answer {
                status,
                tag: None,
                body,
            });
            (Status::from(trouble.clone()).code(), trouble.to_string())
        };
        let exists = r#"{"code":"exists","detail":"a volume named db exists already"}"#;
        assert_eq!(
            of(409, exists),
            (Code::AlreadyExists, "a volume named db exists already".to_owned())
        );
        for (code, wanted) in [
            ("bad-setting", Code::InvalidArgument),
            ("denied", Code::PermissionDenied),
            ("in-use", Code::FailedPrecondition),
            ("no-room", Code::ResourceExhausted),
            ("changed", Code::Aborted),
            ("not-in-time", Code::Unavailable),
            ("of-the-future", Code::Internal),
        ] {
            assert_eq!(
                of(409, &format!(r#"{{"code":"{code}","detail":"x"}}"#)).0,
                wanted,
                "{code}"
            );
        }
        assert_eq!(of(503, "<html>").0, Code::Unavailable);
        assert_eq!(of(500, ""), (Code::Internal, "a node answers 500".to_owned()));
        assert_eq!(
            Status::from(Trouble::NoAnswer("x".to_owned())).code(),
            Code::Unavailable
        );
    }
}
