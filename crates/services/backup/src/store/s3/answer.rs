//! What an answer means.

use super::wire::Answer;
use crate::store::StoreError;

/// The longest part of an error's text that is shown.
const MAX_SHOWN: usize = 300;

/// What is done about an answer.
pub enum Meant {
    /// Whoever asked knows.
    Answer(Answer),
    /// It fails for good.
    Error(StoreError),
    /// It may be otherwise in a moment.
    Later(String),
}

impl Answer {
    /// What an element of the body has. An error's body is small, and nothing is decided by what it lacks but how it is told.
    pub fn tag(&self, name: &str) -> Option<String> {
        let text = std::str::from_utf8(&self.body).ok()?;
        let (open, close) = (format!("<{name}>"), format!("</{name}>"));
        let (_, rest) = text.split_once(&open)?;
        let (inner, _) = rest.split_once(&close)?;
        Some(inner.trim().chars().take(MAX_SHOWN).collect())
    }

    /// Does "not found" speak of the object, and not of the bucket or of something before it that knows no S3?
    pub fn is_of_the_object(&self) -> bool {
        self.tag("Code").as_deref() == Some("NoSuchKey")
    }

    /// As people read it.
    fn told(&self) -> String {
        let code = self.tag("Code").unwrap_or_default();
        let message = self.tag("Message").unwrap_or_default();
        match (code.is_empty(), message.is_empty()) {
            (true, _) => format!("it answered {}", self.status),
            (false, true) => format!("it answered {} ({code})", self.status),
            (false, false) => format!("it answered {} ({code}: {message})", self.status),
        }
    }

    /// It was refused, and what to do.
    pub fn refused(&self, what: &str) -> StoreError {
        let told = self.told();
        let region = self.region.as_deref();
        let advice = match (self.tag("Code").as_deref().unwrap_or_default(), self.status) {
            ("NoSuchBucket", _) => "there is no such bucket: make it first, and look at its name and at --s3-endpoint",
            ("SignatureDoesNotMatch", _) => {
                "the secret is not that of the access key, or something on the way changes requests"
            }
            ("InvalidAccessKeyId", _) => "it does not know the access key",
            ("ExpiredToken" | "InvalidToken", _) => "the credentials are lent, and over",
            ("RequestTimeTooSkewed", _) => "this machine's clock is wrong",
            (
                "AuthorizationHeaderMalformed"
                | "PermanentRedirect"
                | "TemporaryRedirect"
                | "IllegalLocationConstraintException",
                _,
            )
            | (_, 301 | 307) => match region {
                Some(region) => {
                    return StoreError::Refused(format!(
                        "{told}; the bucket is in another region: --s3-region {region}"
                    ));
                }
                None => "is the bucket in another region? --s3-region",
            },
            ("BadDigest" | "XAmzContentChecksumMismatch" | "XAmzContentSHA256Mismatch", _) => {
                "what arrived is not what was sent"
            }
            (_, 403) => "who has this access key may not do that: it has to put, get, list and delete objects",
            (_, 404) => "is that an S3 endpoint? --s3-endpoint",
            _ => return StoreError::Refused(format!("cannot {what}: {told}")),
        };
        StoreError::Refused(format!("{told}; {advice}"))
    }
}

/// What an answer means for whoever sends it again.
pub fn meant(answer: Answer) -> Meant {
    let code = answer.tag("Code").unwrap_or_default();
    let is_full =
        |code: &str| code.contains("StorageFull") || code.contains("QuotaExceeded") || code == "InsufficientCapacity";
    match answer.status {
        507 => Meant::Error(StoreError::Full),
        status if status >= 400 && is_full(&code) => Meant::Error(StoreError::Full),
        // What is not there is not there, also tomorrow.
        501 => Meant::Answer(answer),
        // 409: two writers at one moment, of which neither has won yet.
        408 | 409 | 429 | 500.. => Meant::Later(answer.told()),
        400 if matches!(code.as_str(), "RequestTimeout" | "SlowDown" | "IncompleteBody") => Meant::Later(answer.told()),
        _ => Meant::Answer(answer),
    }
}
