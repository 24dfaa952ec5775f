//! What the collector's answer means.
//!
//! By the specification of OTLP (OTLP/HTTP Response): 2xx is taken, with what was not told of in the body; 429, 502, 503 and 504 may be sent
//! again, after `Retry-After` where there is one; whatever else is not to be sent again.

use crate::proto::{ExportTraceServiceResponse, RpcStatus};
use crate::readable;
use bytes::Bytes;
use http::StatusCode;
use prost::Message as _;
use std::time::{Duration, SystemTime};

/// An answer, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Of HTTP.
    pub status: StatusCode,
    /// The header `Retry-After`.
    pub retry_after: Option<String>,
    /// Is the body protobuf, by its header?
    pub is_protobuf: bool,
    /// What follows.
    pub body: Bytes,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was taken, but for so many spans.
    Accepted {
        /// Spans that the collector did not take.
        rejected: u64,
        /// What it has to say, for people; mostly nothing.
        message: String,
    },
    /// It is to be sent again: after so long, if the collector says that.
    Again {
        /// From now on.
        after: Option<Duration>,
        /// Why, for people.
        why: String,
    },
    /// It is never to be sent again.
    Refused {
        /// Why, for people.
        why: String,
    },
}

impl Answer {
    /// What is to be done; `now`: for a `Retry-After` that is a date.
    #[must_use]
    pub fn verdict(&self, now: SystemTime) -> Verdict {
        if self.status.is_success() {
            // A body that is not understood was sent by somebody who has said yes.
            let read = ExportTraceServiceResponse::decode(self.body.clone());
            let partial = read
                .ok()
                .filter(|_| self.is_protobuf)
                .and_then(|answer| answer.partial_success);
            let partial = partial.unwrap_or_default();
            return Verdict::Accepted {
                rejected: u64::try_from(partial.rejected_spans).unwrap_or(0),
                message: readable(&partial.error_message),
            };
        }
        let why = self.why();
        match self.status {
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => Verdict::Again {
                after: self.retry_after.as_deref().and_then(|text| retry_after(text, now)),
                why,
            },
            _ => Verdict::Refused { why },
        }
    }

    fn why(&self) -> String {
        let told = RpcStatus::decode(self.body.clone()).ok().filter(|_| self.is_protobuf);
        let told = told.map(|status| readable(&status.message)).unwrap_or_default();
        let more = match self.status {
            status if status.is_redirection() => ": redirections are not followed; give the address that it leads to",
            StatusCode::NOT_FOUND => ": is the path right?",
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ": see --otlp-headers",
            _ => "",
        };
        if told.is_empty() {
            format!("it answers {}{more}", self.status)
        } else {
            format!("it answers {} ({told}){more}", self.status)
        }
    }
}

/// `Retry-After` (RFC 9110, section 10.2.3): seconds, or a date. What is neither is none.
fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    Some(at.duration_since(now).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::ExportTracePartialSuccess;
    use proptest::prelude::*;
    use std::time::UNIX_EPOCH;

    fn answer(status: u16, retry_after: Option<&str>, body: Vec<u8>) -> Verdict {
        let answer = Answer {
            status: StatusCode::from_u16(status).unwrap(),
            retry_after: retry_after.map(str::to_owned),
            is_protobuf: true,
            body: body.into(),
        };
        answer.verdict(UNIX_EPOCH + Duration::from_secs(1_000_000_000))
    }

    #[test]
    fn a_yes_may_be_a_partial_one() {
        let whole = Verdict::Accepted {
            rejected: 0,
            message: String::new(),
        };
        assert_eq!(answer(200, None, Vec::new()), whole);
        assert_eq!(answer(202, None, b"not protobuf".to_vec()), whole);
        let partial = ExportTraceServiceResponse {
            partial_success: Some(ExportTracePartialSuccess {
                rejected_spans: 7,
                error_message: "too\nold".to_owned(),
            }),
        };
        assert_eq!(
            answer(200, None, partial.encode_to_vec()),
            Verdict::Accepted {
                rejected: 7,
                message: "too old".to_owned()
            }
        );
    }

    #[test]
    fn four_answers_are_to_be_sent_again_and_no_other() {
        for status in 300..600 {
            let is_again = matches!(answer(status, None, Vec::new()), Verdict::Again { after: None, .. });
            assert_eq!(is_again, [429, 502, 503, 504].contains(&status), "{status}");
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let after = |text| match answer(503, Some(text), Vec::new()) {
            Verdict::Again { after, .. } => after.map(|after| after.as_secs()),
            other => panic!("{other:?}"),
        };
        assert_eq!(after("120"), Some(120));
        assert_eq!(after(" 0 "), Some(0));
        assert_eq!(after("99999999999999999999999"), Some(u64::MAX));
        // 1,000,000,000 s are 2001-09-09 01:46:40.
        assert_eq!(after("Sun, 09 Sep 2001 01:47:00 GMT"), Some(20));
        assert_eq!(after("Sun, 09 Sep 2001 01:46:00 GMT"), Some(0), "it is past");
        assert_eq!(after("soon"), None);
        assert_eq!(after("-5"), None);
        assert_eq!(after(""), None);
    }

    #[test]
    fn the_reason_is_told_in_one_line() {
        let status = RpcStatus {
            code: 3,
            message: "bad\u{1b}[31m id".to_owned(),
        };
        let Verdict::Refused { why } = answer(400, None, status.encode_to_vec()) else {
            panic!("refused")
        };
        assert_eq!(why, "it answers 400 Bad Request (bad [31m id)");
        let Verdict::Refused { why } = answer(301, None, Vec::new()) else {
            panic!("refused")
        };
        assert!(why.contains("redirections are not followed"), "{why}");
        let long = RpcStatus {
            code: 0,
            message: "ü".repeat(1000),
        };
        let Verdict::Refused { why } = answer(500, None, long.encode_to_vec()) else {
            panic!("refused")
        };
        assert!(
            why.chars().count() >= 1000,
            "it is cut when no secret is in it any more"
        );
        assert!(crate::clipped(&why).chars().count() < 400, "{why}");
    }

    proptest! {
        #[test]
        fn any_answer_has_a_verdict(status in 200u16..600, after in proptest::option::of(".{0,40}"), body in any::<Vec<u8>>()) {
            let verdict = answer(status, after.as_deref(), body);
            prop_assert_eq!(matches!(verdict, Verdict::Accepted { .. }), status < 300);
        }
    }
}
