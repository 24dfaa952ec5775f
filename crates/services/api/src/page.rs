//! Lists in pieces, entity tags, and `If-Match`.

use crate::problem::{Code, Problem};
use aws_lc_rs::digest::{SHA256, digest};
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use utoipa::{IntoParams, ToSchema};

/// The most items of one answer, and as many as are given where nobody says.
pub const MOST: usize = 1000;
const USUAL: usize = 100;

/// Which piece of a list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Cursor {
    /// The most items of the answer: 1 to 1000; 100 where it is not said.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
    /// Only items behind this one: `next` of the answer before.
    pub after: Option<String>,
}

/// A piece of a list. Items that are made or deleted meanwhile shift nothing: a piece begins behind a name.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Page<T> {
    /// In the order of their names.
    pub items: Vec<T>,
    /// What `after` is to be for the next piece; null: this was the last.
    pub next: Option<String>,
}

impl Cursor {
    /// The piece of these, which are in the order of their names.
    ///
    /// # Errors
    /// The limit cannot be.
    pub fn cut<T>(&self, all: impl IntoIterator<Item = T>, name: impl Fn(&T) -> &str) -> Result<Page<T>, Problem> {
        let limit = self.limit.unwrap_or(USUAL);
        if !(1..=MOST).contains(&limit) {
            let why = format!("limit is {limit}; it can be 1 to {MOST}");
            return Err(Problem::new(Code::BadRequest, why));
        }
        let is_behind = |item: &T| self.after.as_deref().is_none_or(|after| name(item) > after);
        let mut rest = all.into_iter().filter(is_behind);
        let items: Vec<T> = rest.by_ref().take(limit).collect();
        let next = rest.next().and_then(|_| items.last()).map(|last| name(last).to_owned());
        Ok(Page { items, next })
    }
}

/// One thing with its entity tag (RFC 9110, section 8.8.3): the same content has the same tag at every node.
#[derive(Clone, Debug)]
pub struct Tagged<T>(pub StatusCode, pub T);

/// The entity tag of what is shown so.
pub fn tag(content: &impl Serialize) -> String {
    let bytes = serde_json::to_vec(content).unwrap_or_default();
    let hash = digest(&SHA256, &bytes);
    let mut text = String::from("\"");
    for byte in &hash.as_ref()[..16] {
        let _ = write!(text, "{byte:02x}");
    }
    text.push('"');
    text
}

impl<T: Serialize> IntoResponse for Tagged<T> {
    fn into_response(self) -> Response {
        let tag = tag(&self.1);
        let mut response = (self.0, axum::Json(self.1)).into_response();
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            response.headers_mut().insert(header::ETAG, tag);
        }
        response
    }
}

/// What was there when it was looked at (RFC 9110, section 13.1.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IfMatch(Option<Vec<String>>);

impl IfMatch {
    /// Is that what is there?
    ///
    /// # Errors
    /// It is not.
    pub fn check(&self, now: &impl Serialize) -> Result<(), Problem> {
        let Some(tags) = &self.0 else { return Ok(()) };
        let now = tag(now);
        if tags.iter().any(|tag| tag == "*" || *tag == now) {
            return Ok(());
        }
        let why = format!("it was changed since; it is {now} now: read it again, and decide anew");
        Err(Problem::new(Code::Changed, why))
    }

    /// For what destroys: it was looked at before.
    ///
    /// # Errors
    /// The request does not say what is to be destroyed, or that is not what is there.
    pub fn demand(&self, now: &impl Serialize) -> Result<(), Problem> {
        if self.0.is_none() {
            let why =
                "say what is to go: If-Match with the ETag by which it was read; `If-Match: *` means whatever is there";
            return Err(Problem::new(Code::NeedsIfMatch, why));
        }
        self.check(now)
    }
}

impl<S: Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<IfMatch, Problem> {
        let mut tags: Option<Vec<String>> = None;
        for value in parts.headers.get_all(header::IF_MATCH) {
            let text = value
                .to_str()
                .map_err(|_| Problem::new(Code::BadRequest, "If-Match is no list of entity tags"))?;
            let found = text.split(',').map(|tag| tag.trim().to_owned());
            tags.get_or_insert_default().extend(found);
        }
        Ok(IfMatch(tags))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names<'a>(page: &'a Page<&'static str>) -> (Vec<&'static str>, Option<&'a str>) {
        (page.items.clone(), page.next.as_deref())
    }

    #[test]
    fn pieces_make_the_whole_and_the_last_one_says_so() {
        let all = ["a", "b", "c", "d"];
        let cut = |limit, after: Option<&str>| {
            let cursor = Cursor {
                limit,
                after: after.map(str::to_owned),
            };
            cursor.cut(all, |name| name)
        };
        assert_eq!(names(&cut(Some(2), None).unwrap()), (vec!["a", "b"], Some("b")));
        assert_eq!(names(&cut(Some(2), Some("b")).unwrap()), (vec!["c", "d"], None));
        // One that is gone meanwhile is no end.
        assert_eq!(names(&cut(Some(1), Some("bb")).unwrap()), (vec!["c"], Some("c")));
        assert_eq!(names(&cut(None, Some("z")).unwrap()), (vec![], None));
        for limit in [0, 1001] {
            assert_eq!(cut(Some(limit), None).unwrap_err().code, "bad-request");
        }
    }

    #[test]
    fn what_was_changed_is_not_taken_for_what_was_read() {
        let old = tag(&1);
        assert_eq!(old, tag(&1));
        assert_ne!(old, tag(&2));
        let of = |tags: &[&str]| IfMatch(Some(tags.iter().map(|&tag| tag.to_owned()).collect()));
        assert!(of(&[&old]).demand(&1).is_ok());
        assert!(of(&["\"x\"", &old]).demand(&1).is_ok());
        assert!(of(&["*"]).demand(&2).is_ok());
        assert_eq!(of(&[&old]).demand(&2).unwrap_err().code, "changed");
        assert_eq!(IfMatch(None).demand(&1).unwrap_err().code, "needs-if-match");
        assert!(IfMatch(None).check(&1).is_ok());
    }
}
