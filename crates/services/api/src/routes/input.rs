//! How requests are read, what many of them have in common, and entity tags of what changes by itself.
//!
//! What cannot be read is answered by a [`Problem`], as everything else that goes wrong.

use crate::page::{Cursor, Page, tag};
use crate::problem::{Code, Problem};
use crate::repeat::MAX_BODY_BYTES;
use axum::body::to_bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::response::{IntoResponse, Response};
use axum::{Json, RequestPartsExt as _};
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use utoipa::IntoParams;

fn unreadable(status: StatusCode, why: impl ToString) -> Problem {
    let code = match status {
        StatusCode::PAYLOAD_TOO_LARGE => Code::TooLarge,
        _ => Code::BadRequest,
    };
    Problem::new(code, why)
}

/// The body of a request, in JSON.
pub(super) struct Body<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Body<T>, Problem> {
        let (parts, body) = request.into_parts();
        let bytes = to_bytes(body, MAX_BODY_BYTES)
            .await
            .map_err(|_| Problem::new(Code::TooLarge, format!("a body has {MAX_BODY_BYTES} bytes at most")))?;
        // A list of the fields' values would be read as well: whose they are is then for the next version to change.
        if bytes.trim_ascii_start().first().is_some_and(|first| *first != b'{') {
            return Err(Problem::new(
                Code::BadRequest,
                "the body is no object of JSON: {\"NAME\": VALUE, ...}",
            ));
        }
        let request = Request::from_parts(parts, axum::body::Body::from(bytes));
        let read = Json::<T>::from_request(request, state).await;
        read.map(|Json(body)| Body(body))
            .map_err(|why| unreadable(why.status(), why.body_text()))
    }
}

/// The parameters behind the question mark.
pub(super) struct Parameters<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + 'static> FromRequestParts<S> for Parameters<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Parameters<T>, Problem> {
        let read = parts.extract::<Query<T>>().await;
        read.map(|Query(read)| Parameters(read))
            .map_err(|why| unreadable(why.status(), why.body_text()))
    }
}

/// The parameters one by one, where one may be there more than once.
pub(super) type Pairs = Parameters<Vec<(String, String)>>;

/// The values of a parameter that may be there more than once.
pub(super) fn all_of(pairs: &[(String, String)], name: &str) -> Vec<String> {
    let own = pairs.iter().filter(|(key, _)| key == name);
    own.map(|(_, value)| value.clone()).collect()
}

/// The labels that things of a list must have.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "for the specification: handlers read it by `Pairs`")]
pub(super) struct Labels {
    /// Only those with this label, as KEY=VALUE; once for each that is wanted.
    label: Option<Vec<String>>,
}

/// The same, as they are asked for.
pub(super) struct WantedLabels(Vec<(String, String)>);

impl WantedLabels {
    pub(super) fn of(pairs: &[(String, String)]) -> Result<WantedLabels, Problem> {
        let labels = all_of(pairs, "label").into_iter();
        let read = |label: String| {
            let pair = label.split_once('=').filter(|(key, _)| !key.is_empty());
            let (key, value) =
                pair.ok_or_else(|| Problem::new(Code::BadRequest, format!("{label:?} is no label: write KEY=VALUE")))?;
            Ok((key.to_owned(), value.to_owned()))
        };
        labels.map(read).collect::<Result<_, _>>().map(WantedLabels)
    }

    /// Are all of them there?
    pub(super) fn fit(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|(key, value)| labels.get(key) == Some(value))
    }
}

/// The names in the path, percent-decoded.
pub(super) struct Names<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send + 'static> FromRequestParts<S> for Names<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Names<T>, Problem> {
        let read = parts.extract::<Path<T>>().await;
        read.map(|Path(names)| Names(names))
            .map_err(|why| unreadable(why.status(), why.body_text()))
    }
}

/// What the path names.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "for the specification: handlers read the path by `Names`")]
pub(super) struct Named {
    /// Its name.
    name: String,
}

/// What something was when it was read.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "for the specification: handlers read the header by `IfMatch`")]
pub(super) struct Known {
    /// The ETag by which it was read: where it is another one by now, nothing is done.
    #[param(rename = "If-Match")]
    if_match: Option<String>,
}

/// The same for what destroys.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "for the specification: handlers read the header by `IfMatch`")]
pub(super) struct KnownWell {
    /// The ETag by which it was read: where it is another one by now, nothing is done. `*` is whatever is there.
    #[param(rename = "If-Match")]
    if_match: String,
}

/// Is it to be done though something speaks against it?
#[derive(Clone, Copy, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Force {
    /// Also where something speaks against it that the answer names otherwise.
    #[serde(default)]
    #[param(default = false)]
    pub(super) force: bool,
}

/// A field that may be null, and may be missing: missing is none, null is some none.
#[expect(clippy::option_option, reason = "a missing field and a null mean different things")]
pub(super) fn nullable<'de, T, D>(from: D) -> Result<Option<Option<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::deserialize(from).map(Some)
}

/// Since 1970.
pub(super) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Something that shows what an operator sets beside what changes by itself: how full, how far. Its entity tag is of the former alone:
/// whoever changes it has decided by that, and would be refused all the time otherwise.
pub(super) trait Settings {
    /// What is set.
    fn settings(&self) -> impl Serialize;
}

/// One thing with its entity tag.
pub(super) struct Shown<T>(pub(super) StatusCode, pub(super) T);

impl<T: Serialize + Settings> IntoResponse for Shown<T> {
    fn into_response(self) -> Response {
        let Shown(status, content) = self;
        let tag = HeaderValue::from_str(&tag(&content.settings()));
        let mut response = (status, Json(content)).into_response();
        if let Ok(tag) = tag {
            response.headers_mut().insert(header::ETAG, tag);
        }
        response
    }
}

/// As many digits as the largest number has.
fn padded(number: u64) -> String {
    format!("{number:020}")
}

/// The piece of a list that is in the order of numbers.
pub(super) fn cut_by_number<T>(
    cursor: &Cursor,
    all: impl IntoIterator<Item = T>,
    number: impl Fn(&T) -> u64,
) -> Result<Page<T>, Problem> {
    let after = match &cursor.after {
        None => None,
        Some(text) => {
            let bad = |_| {
                Problem::new(
                    Code::BadRequest,
                    format!("after is {text:?}; give the `next` of the answer before"),
                )
            };
            Some(padded(text.parse().map_err(bad)?))
        }
    };
    let limit = cursor.limit;
    let numbered = all.into_iter().map(|item| (padded(number(&item)), item));
    let page = Cursor { limit, after }.cut(numbered, |(number, _)| number)?;
    Ok(Page {
        items: page.items.into_iter().map(|(_, item)| item).collect(),
        next: page.next,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_ordered_as_numbers() {
        let cut = |limit, after: Option<&str>| {
            let after = after.map(str::to_owned);
            cut_by_number(&Cursor { limit, after }, [2, 9, 10, 100], |number| *number)
        };
        let first = cut(Some(2), None).unwrap();
        assert_eq!(first.items, [2, 9]);
        let rest = cut(None, first.next.as_deref()).unwrap();
        assert_eq!((rest.items, rest.next), (vec![10, 100], None));
        assert_eq!(cut(None, Some("9")).unwrap().items, [10, 100]);
        assert_eq!(cut(None, Some("x")).unwrap_err().code, "bad-request");
    }

    #[test]
    fn null_is_not_missing() {
        #[derive(Deserialize)]
        struct Change {
            #[serde(default, deserialize_with = "nullable")]
            #[expect(clippy::option_option, reason = "it is what is tried here")]
            class: Option<Option<String>>,
        }
        let read = |text: &str| serde_json::from_str::<Change>(text).unwrap().class;
        assert_eq!(read("{}"), None);
        assert_eq!(read(r#"{"class": null}"#), Some(None));
        assert_eq!(read(r#"{"class": "ssd"}"#), Some(Some("ssd".to_owned())));
    }
}
