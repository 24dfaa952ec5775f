//! Answers that several share. Whoever says how old an answer may be (`Cache-Control: max-age`, RFC 9111, section 5.2.1.1) gets one that
//! this node has given, or is about to give, to somebody else who may see the same; whoever does not say it has it looked up.
//!
//! Pages stay open, many of them, and each wants the cluster's health again and again, which is made of all of its records. Of those who
//! ask at once one has it looked up, and the others wait for it.

use crate::session::{Api, Asker};
use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::{ACCEPT, AGE, CACHE_CONTROL, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Older than this nothing is, whatever would do.
const OLDEST: Duration = Duration::from_secs(60);
/// Answers that are kept.
const MAX_KEPT: usize = 128;
/// Longer ones are not.
const MAX_BYTES: u64 = 256 << 10;

/// Who may see what: by their name, role and proof, what they ask for, and how it is to be told.
type Key = [String; 3];

/// The answers of a node.
#[derive(Debug, Default)]
pub(crate) struct Answers(Mutex<HashMap<Key, Arc<Place>>>);

#[derive(Debug, Default)]
struct Place(tokio::sync::Mutex<Option<Kept>>);

/// An answer. It was looked up after `since`.
#[derive(Clone, Debug)]
struct Kept {
    since: Instant,
    headers: HeaderMap,
    body: Bytes,
}

impl Place {
    /// Is there nothing in it any more that would do for anybody, and nobody who is about to put something in?
    fn is_over(self: &Arc<Self>) -> bool {
        let Ok(kept) = self.0.try_lock() else { return false };
        Arc::strong_count(self) == 1 && kept.as_ref().is_none_or(|kept| kept.since.elapsed() > OLDEST)
    }
}

impl Answers {
    /// The place of an answer; none, where there are too many.
    fn place(&self, key: Key) -> Option<Arc<Place>> {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = places.get(&key) {
            return Some(Arc::clone(place));
        }
        if places.len() >= MAX_KEPT {
            places.retain(|_, place| !place.is_over());
        }
        if places.len() >= MAX_KEPT {
            return None;
        }
        Some(Arc::clone(places.entry(key).or_default()))
    }
}

impl Kept {
    fn response(&self) -> Response {
        let mut response = Response::new(Body::from(self.body.clone()));
        *response.headers_mut() = self.headers.clone();
        let age = HeaderValue::from(self.since.elapsed().as_secs());
        response.headers_mut().insert(AGE, age);
        response
    }
}

/// How old an answer may be; none, where this request's own is wanted.
fn max_age(request: &Request) -> Option<Duration> {
    let headers = request.headers();
    let is_plain = !headers.contains_key(IF_MATCH) && !headers.contains_key(IF_NONE_MATCH);
    if request.method() != Method::GET || !is_plain {
        return None;
    }
    let said = headers
        .get_all(CACHE_CONTROL)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let mut found = None;
    for directive in said.flat_map(|text| text.split(',')) {
        let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
        match name.trim().to_ascii_lowercase().as_str() {
            "max-age" => found = value.trim().trim_matches('"').parse().ok().map(Duration::from_secs),
            "no-cache" | "no-store" => return None,
            _ => {}
        }
    }
    found.filter(|age| !age.is_zero()).map(|age| age.min(OLDEST))
}

fn key(request: &Request) -> Option<Key> {
    let asker = request.extensions().get::<Asker>()?;
    let accept = request.headers().get(ACCEPT).map(|value| format!("{value:?}"));
    Some([
        format!("{:?}", asker.0.who()),
        request.uri().path_and_query()?.to_string(),
        accept.unwrap_or_default(),
    ])
}

/// Answers by what was answered before, where that will do.
pub(crate) async fn share(State(api): State<Api>, request: Request, next: Next) -> Response {
    let (came, age) = (Instant::now(), max_age(&request));
    let place = age.and_then(|_| key(&request)).and_then(|key| api.answers().place(key));
    let (Some(age), Some(place)) = (age, place) else {
        return next.run(request).await;
    };
    let mut kept = place.0.lock().await;
    // What was looked up while this one waited is as new as its own would have been.
    let will_do = |kept: &&Kept| kept.since >= came || kept.since.elapsed() < age;
    if let Some(kept) = kept.as_ref().filter(will_do) {
        return kept.response();
    }
    *kept = None;
    let since = Instant::now();
    let response = next.run(request).await;
    let length = response.body().size_hint().exact();
    if response.status() != StatusCode::OK || length.is_none_or(|length| length > MAX_BYTES) {
        return response;
    }
    let (parts, body) = response.into_parts();
    // Its whole length is known, so that it is there, and not on its way.
    let Ok(body) = to_bytes(body, MAX_BYTES as usize).await else {
        return Response::from_parts(parts, Body::empty());
    };
    *kept = Some(Kept {
        since,
        headers: parts.headers.clone(),
        body: body.clone(),
    });
    Response::from_parts(parts, Body::from(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn age_of(method: &str, headers: &[(&str, &str)]) -> Option<u64> {
        let mut request = http::Request::builder().method(method).uri("/api/v1/health");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        max_age(&request.body(Body::empty()).unwrap()).map(|age| age.as_secs())
    }

    #[test]
    fn only_who_says_so_gets_what_is_older() {
        assert_eq!(age_of("GET", &[]), None);
        assert_eq!(age_of("GET", &[("cache-control", "max-age=5")]), Some(5));
        assert_eq!(
            age_of("GET", &[("cache-control", "no-transform, Max-Age = 7")]),
            Some(7)
        );
        assert_eq!(age_of("GET", &[("cache-control", "max-age=3600")]), Some(60));
        for not in [
            "max-age=0",
            "max-age=-1",
            "max-age=x",
            "max-age",
            "no-cache, max-age=5",
            "max-age=5, no-store",
        ] {
            assert_eq!(age_of("GET", &[("cache-control", not)]), None, "{not}");
        }
        assert_eq!(age_of("POST", &[("cache-control", "max-age=5")]), None);
        assert_eq!(
            age_of("GET", &[("cache-control", "max-age=5"), ("if-none-match", "\"a\"")]),
            None
        );
    }

    #[test]
    fn so_many_are_kept_and_no_more() {
        let answers = Answers::default();
        let key = |number: usize| ["who".to_owned(), format!("/{number}"), String::new()];
        let held: Vec<_> = (0..MAX_KEPT)
            .map(|number| answers.place(key(number)).unwrap())
            .collect();
        assert!(answers.place(key(MAX_KEPT)).is_none());
        assert!(Arc::ptr_eq(&held[3], &answers.place(key(3)).unwrap()));
        drop(held);
        assert!(answers.place(key(MAX_KEPT)).is_some());
        assert_eq!(answers.0.lock().unwrap().len(), 1);
    }
}
