//! What went wrong, as a client is told: RFC 9457, with a code that stays and a sentence that says what to do.

use amita_control::access::Denied;
use amita_control::admin::AdminError;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use std::fmt;
use utoipa::ToSchema;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $code:ident $text:literal $status:ident,)+) => {
        /// What went wrong. Scripts may rely on a code; the sentences beside it are for people, and change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Code {
            $($(#[doc = $doc])+ $code,)+
        }

        impl Code {
            /// All of them.
            pub const ALL: &[Code] = &[$(Code::$code,)+];

            /// As it is written.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self { $(Code::$code => $text,)+ }
            }

            /// The status that goes with it (RFC 9110, section 15).
            #[must_use]
            pub fn status(self) -> StatusCode {
                match self { $(Code::$code => StatusCode::$status,)+ }
            }

            /// What it is, in a sentence.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Code::$code => concat!($($doc),+),)+ }.trim()
            }
        }
    };
}

codes! {
    /// The request cannot be read: its path, a parameter, a header or its body.
    BadRequest "bad-request" BAD_REQUEST,
    /// A name or a setting that cannot be.
    BadSetting "bad-setting" UNPROCESSABLE_ENTITY,
    /// Nobody has shown who asks.
    Unauthenticated "unauthenticated" UNAUTHORIZED,
    /// Who asks may not.
    Denied "denied" FORBIDDEN,
    /// A page of another site has asked.
    CrossSite "cross-site" FORBIDDEN,
    /// The request is for a host that this is not.
    Misdirected "misdirected" MISDIRECTED_REQUEST,
    /// There is none of that name.
    NotFound "not-found" NOT_FOUND,
    /// The path exists, and cannot be asked in this way.
    MethodNotAllowed "method-not-allowed" METHOD_NOT_ALLOWED,
    /// The name is taken.
    Exists "exists" CONFLICT,
    /// It is in use, protected, or needed by something else.
    InUse "in-use" CONFLICT,
    /// A quota or a limit has no room for it.
    NoRoom "no-room" CONFLICT,
    /// It is not in the state that this needs.
    WrongState "wrong-state" CONFLICT,
    /// Several have the name: say which one is meant.
    Ambiguous "ambiguous" CONFLICT,
    /// The stores that there are cannot hold it as its pool's rule wants.
    CannotPlace "cannot-place" CONFLICT,
    /// Others are at the same, or changed it again and again: try again.
    Raced "raced" CONFLICT,
    /// It was changed since it was read: `If-Match` names what it was.
    Changed "changed" PRECONDITION_FAILED,
    /// What destroys needs `If-Match`, so that nothing is destroyed but what was looked at.
    NeedsIfMatch "needs-if-match" PRECONDITION_REQUIRED,
    /// The request is being carried out: it was sent before, with the same key of idempotency.
    InProgress "in-progress" CONFLICT,
    /// The key of idempotency was used for another request.
    KeyReused "key-reused" UNPROCESSABLE_ENTITY,
    /// What came is not the whole image, or not the one that it was said to be: what was written of it is there.
    Incomplete "incomplete" UNPROCESSABLE_ENTITY,
    /// The body is larger than any that is wanted.
    TooLarge "too-large" PAYLOAD_TOO_LARGE,
    /// More requests than this node takes at one time.
    TooMany "too-many" TOO_MANY_REQUESTS,
    /// Whoever does this has not done it in time: it is given up, unless the sentence says otherwise.
    NotInTime "not-in-time" GATEWAY_TIMEOUT,
    /// The metadata is away. It may be that the change was made.
    MetadataAway "metadata-away" SERVICE_UNAVAILABLE,
    /// The cluster has found something that it will not go on with.
    Suspect "suspect" SERVICE_UNAVAILABLE,
    /// A fault in Amita: it is in the node's log.
    Internal "internal" INTERNAL_SERVER_ERROR,
}

/// Where codes are explained, followed by one.
const PAGES: &str = "https://amita.dev/problems/";
/// RFC 9457, section 6.1.
const MEDIA_TYPE: &str = "application/problem+json";

/// An error (RFC 9457).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Problem {
    /// Where the code is explained.
    #[serde(rename = "type")]
    #[schema(example = "https://amita.dev/problems/exists")]
    pub page: String,
    /// What the code means.
    #[schema(example = "The name is taken.")]
    pub title: String,
    /// The status of the answer.
    #[schema(example = 409)]
    pub status: u16,
    /// What went wrong here, and what to do about it.
    pub detail: String,
    /// What went wrong, as one word that stays.
    #[schema(example = "exists")]
    pub code: String,
    /// What the thing is by now, where it was changed: a header of the answer.
    #[serde(skip)]
    tag: Option<Box<str>>,
}

impl Problem {
    /// A code, and what it is here.
    #[must_use]
    pub fn new(code: Code, detail: impl ToString) -> Problem {
        Problem {
            page: format!("{PAGES}{}", code.text()),
            title: code.meaning().to_owned(),
            status: code.status().as_u16(),
            detail: detail.to_string(),
            code: code.text().to_owned(),
            tag: None,
        }
    }

    /// With the entity tag of what is there now.
    pub(crate) fn tagged(self, tag: String) -> Problem {
        Problem {
            tag: Some(tag.into()),
            ..self
        }
    }

    /// It came after this was done by the same request, which stays: names of actions.
    pub(crate) fn after(self, done: &[&str]) -> Problem {
        let detail = format!(
            "{}. Before that this was done, and stays: {}",
            self.detail.trim_end_matches('.'),
            done.join(", ")
        );
        Problem { detail, ..self }
    }

    #[cfg(test)]
    pub(crate) fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl From<AdminError> for Problem {
    fn from(error: AdminError) -> Problem {
        Problem::new(code_of(&error), &error)
    }
}

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Problem {
        Problem::new(Code::Denied, denied)
    }
}

fn code_of(error: &AdminError) -> Code {
    use amita_metadata::Error;
    match error {
        AdminError::Metadata(Error::Unavailable { .. } | Error::Unknown { .. }) => Code::MetadataAway,
        AdminError::Metadata(_) | AdminError::Damaged { .. } => Code::Internal,
        AdminError::Denied(_) => Code::Denied,
        AdminError::BadName { .. } | AdminError::BadSetting { .. } => Code::BadSetting,
        AdminError::NoCluster
        | AdminError::NoSuch { .. }
        | AdminError::NotAllowed { .. }
        | AdminError::InitiatorNotAllowed { .. } => Code::NotFound,
        AdminError::Exists { .. } => Code::Exists,
        AdminError::OverQuota { .. } | AdminError::Full { .. } => Code::NoRoom,
        AdminError::Suspected { .. } | AdminError::NothingOpens { .. } => Code::Suspect,
        AdminError::Ambiguous { .. } => Code::Ambiguous,
        AdminError::Placement { .. } | AdminError::NodesAway { .. } | AdminError::RuleUnmet { .. } => Code::CannotPlace,
        AdminError::Changed => Code::Changed,
        AdminError::TooManyRaces { .. } | AdminError::BeingTaken { .. } | AdminError::TakenBeside { .. } => Code::Raced,
        AdminError::InUse { .. }
        | AdminError::Protected { .. }
        | AdminError::HasSnapshots { .. }
        | AdminError::IsOpen { .. }
        | AdminError::Attached { .. }
        | AdminError::AttachedStill { .. }
        | AdminError::SnapshotAttached { .. }
        | AdminError::ServedByNvme { .. }
        | AdminError::Exported { .. }
        | AdminError::HasNamespaces { .. }
        | AdminError::Allowed { .. }
        | AdminError::IsLun { .. }
        | AdminError::WrittenBeside { .. }
        | AdminError::HasLuns { .. }
        | AdminError::InitiatorAllowed { .. }
        | AdminError::NodeLives { .. }
        | AdminError::NodeNeeded { .. }
        | AdminError::OwnerSilent { .. }
        | AdminError::PoolInUse { .. }
        | AdminError::RepositoryInUse { .. }
        | AdminError::StillNeeded { .. } => Code::InUse,
        AdminError::BeingClosed { .. }
        | AdminError::NoKeys { .. }
        | AdminError::Unreadable { .. }
        | AdminError::ReadOnlyExport { .. }
        | AdminError::Copying { .. }
        | AdminError::Moving { .. }
        | AdminError::Closed { .. }
        | AdminError::Mirror { .. }
        | AdminError::Mirrored { .. }
        | AdminError::MirrorsPoint { .. }
        | AdminError::Shrinking { .. }
        | AdminError::OnlyMark { .. }
        | AdminError::WouldWait { .. }
        | AdminError::NodeTaken { .. }
        | AdminError::StoreServed { .. }
        | AdminError::StoreOutdated { .. }
        | AdminError::ImportTaken { .. } => Code::WrongState,
        // One that this build does not know.
        _ => Code::WrongState,
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let kind = HeaderValue::from_static(MEDIA_TYPE);
        let mut response = (status, [(header::CONTENT_TYPE, kind)], body).into_response();
        let pauses = [(Code::InProgress, "1"), (Code::TooMany, "5")];
        if let Some((_, pause)) = pauses.into_iter().find(|(code, _)| self.code == code.text()) {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from_static(pause));
        }
        if let Some(tag) = self.tag.and_then(|tag| HeaderValue::try_from(&*tag).ok()) {
            response.headers_mut().insert(header::ETAG, tag);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A program that asks again where it is told to does so when another snapshot is being taken.
    #[test]
    fn what_others_are_at_is_to_be_tried_again() {
        let busy = Problem::from(AdminError::BeingTaken {
            of: "db@b".to_owned(),
            what: "snapshot of the volume",
            other: "a".to_owned(),
        });
        let beside = Problem::from(AdminError::TakenBeside {
            volume: "db".to_owned(),
            what: "snapshot of it",
            other: "a".to_owned(),
        });
        for problem in [busy, beside] {
            assert_eq!((problem.status, problem.code.as_str()), (409, "raced"), "{problem:?}");
        }
    }

    #[test]
    fn codes_are_words_and_each_is_one() {
        let texts: BTreeSet<&str> = Code::ALL.iter().map(|code| code.text()).collect();
        assert_eq!(texts.len(), Code::ALL.len());
        for code in Code::ALL {
            assert!(
                code.text().chars().all(|c| c.is_ascii_lowercase() || c == '-'),
                "{code:?}"
            );
            assert!(
                code.status().is_client_error() || code.status().is_server_error(),
                "{code:?}"
            );
            assert!(code.meaning().ends_with('.'), "{code:?}");
        }
    }
}
