//! Answers that several share. Whoever says how old an answer may be (`Cache-Control: max-age`, RFC 9111, section 5.2.1.1) gets one that
//! this node has given, or is about to give, to somebody else who may see the same; whoever does not say it has it looked up.
//!
//! Pages stay open, many of them, and each wants the cluster's health again and again, which is made of all of its records. Of those who
//! ask at once one has it looked up, and the others wait for it.

use crate::guard::Own;
use crate::problem::{Code, Problem};
use crate::session::{Api, Asker, LONGEST_QUEUE};
use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{ACCEPT, AGE, CACHE_CONTROL, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Older than this nothing is, whatever would do.
const OLDEST: Duration = Duration::from_secs(60);
/// Answers that are kept; for a further one that goes which nobody wants and which is the oldest.
const MAX_KEPT: usize = 64;
/// Longer ones are not.
const MAX_BYTES: u64 = 256 << 10;
/// For so long nobody waits for an answer that could not be kept when it was looked up last.
const APART: Duration = Duration::from_secs(5);

/// Who may see what: by their name, role and proof, what they ask for, and how it is to be told.
type Key = [String; 3];

/// The answers of a node.
#[derive(Debug, Default)]
pub(crate) struct Answers(Mutex<HashMap<Key, Arc<Place>>>);

/// Locked while its answer is looked up.
#[derive(Debug, Default)]
struct Place(tokio::sync::Mutex<Option<Found>>);

/// What a look-up has brought.
#[derive(Clone, Debug)]
struct Found {
    /// When it began; where nothing is kept, when it ended.
    since: Instant,
    /// None: it is not to be kept, because it has failed or is long, or for what it does.
    kept: Option<Kept>,
}

#[derive(Clone, Debug)]
struct Kept {
    headers: HeaderMap,
    body: Bytes,
}

impl Answers {
    /// The place of an answer; none, where all are in use.
    fn place(&self, key: Key) -> Option<Arc<Place>> {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = places.get(&key) {
            return Some(Arc::clone(place));
        }
        if places.len() >= MAX_KEPT {
            places.retain(|_, place| {
                let idle = place.idle_since();
                idle.is_none_or(|since| since.is_some_and(|since| since.elapsed() < OLDEST))
            });
        }
        if places.len() >= MAX_KEPT {
            let idle = places
                .iter()
                .filter_map(|(key, place)| Some((place.idle_since()?, key)));
            let oldest = idle.min_by_key(|(since, _)| *since).map(|(_, key)| key.clone())?;
            places.remove(&oldest);
        }
        Some(Arc::clone(places.entry(key).or_default()))
    }
}

impl Place {
    /// None: somebody is about to use it. Else of when its answer is, if it has one.
    fn idle_since(self: &Arc<Self>) -> Option<Option<Instant>> {
        if Arc::strong_count(self) > 1 {
            return None;
        }
        let found = self.0.try_lock().ok()?;
        Some(found.as_ref().map(|found| found.since))
    }
}

impl Kept {
    fn response(&self, age: Duration) -> Response {
        let mut response = Response::new(Body::from(self.body.clone()));
        *response.headers_mut() = self.headers.clone();
        response.headers_mut().insert(AGE, HeaderValue::from(age.as_secs()));
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
    share_within(LONGEST_QUEUE, &api, request, next).await
}

/// The same for somebody who waits no longer than this for what is looked up for somebody else.
async fn share_within(patience: Duration, api: &Api, request: Request, next: Next) -> Response {
    let (came, age) = (Instant::now(), max_age(&request));
    let place = age.and_then(|_| key(&request)).and_then(|key| api.answers().place(key));
    let (Some(age), Some(place)) = (age, place) else {
        return next.run(request).await;
    };
    let Ok(mut found) = tokio::time::timeout(patience, place.0.lock()).await else {
        return next.run(request).await;
    };
    if let Some(Found { since, kept }) = &*found {
        match kept {
            // What was looked up while this one waited is as new as its own would have been.
            Some(kept) if *since >= came || since.elapsed() < age => return kept.response(since.elapsed()),
            None if since.elapsed() < APART => {
                drop(found);
                return next.run(request).await;
            }
            _ => {}
        }
    }
    *found = None;
    let since = Instant::now();
    let (response, kept) = look_up(request, next).await;
    // Nobody waits for a while from when it is known that there is nothing to wait for.
    let since = if kept.is_some() { since } else { Instant::now() };
    *found = Some(Found { since, kept });
    response
}

/// The answer, and what is to be kept of it.
async fn look_up(request: Request, next: Next) -> (Response, Option<Kept>) {
    let response = next.run(request).await;
    let length = response.body().size_hint().exact();
    let is_long = length.is_none_or(|length| length > MAX_BYTES);
    if response.status() != StatusCode::OK || is_long || response.extensions().get::<Own>().is_some() {
        return (response, None);
    }
    let (parts, body) = response.into_parts();
    // Its whole length is known: it is there, and not on its way.
    let Ok(body) = to_bytes(body, MAX_BYTES as usize).await else {
        let why = "the answer broke off; ask again";
        return (Problem::new(Code::Internal, why).into_response(), None);
    };
    let kept = Kept {
        headers: parts.headers.clone(),
        body: body.clone(),
    };
    (Response::from_parts(parts, Body::from(body)), Some(kept))
}

#[cfg(test)]
mod tests;
