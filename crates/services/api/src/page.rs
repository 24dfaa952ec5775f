//! Lists in pieces, and entity tags.

use crate::problem::{Code, Problem};
use aws_lc_rs::digest::{SHA256, digest};
use axum::response::{IntoResponse, Response};
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
}
