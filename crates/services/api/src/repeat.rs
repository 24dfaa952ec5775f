//! Idempotency keys: a request that is sent twice is carried out once.
//!
//! A client that has lost an answer, or whose node has died, sends the request again with the same key, to any node. What was done is
//! kept in the metadata for a day, with its answer. Whoever is at it renews the record; one that was not renewed for half a minute, by
//! the clock of the node that looks, was begun by a node that is gone: the request is carried out anew, and meets with what the first one
//! has left ("exists"), as any request does. Refusals are not kept: nothing was done. Of an answer that does not say whether something
//! was done (5xx) the record stays for that half a minute.

use crate::problem::{Code, Problem};
use crate::session::{Api, Asker};
use crate::who::now;
use amita_audit::Proof;
use amita_control::access::Action;
use amita_control::admin::AdminError;
use amita_metadata::{Call, Compare, Error, Op, Transact};
use amita_types::map::{self, ApiAnswer, ApiReply};
use aws_lc_rs::digest::{Context, SHA256};
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, ETAG, HeaderName, IF_MATCH};
use http::{HeaderValue, Method, StatusCode};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// The header (draft-ietf-httpapi-idempotency-key-header).
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// This answer was given before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// The longest key.
const MAX_KEY_BYTES: usize = 255;
/// The longest body of a request.
pub(crate) const MAX_BODY_BYTES: usize = 256 << 10;
/// The longest body of an answer that is kept.
const MAX_ANSWER_BYTES: usize = 16 << 10;
/// For so long a body may be on its way.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Whoever is at it renews the record so often,
const RENEWAL: Duration = Duration::from_secs(5);
/// and is gone when it has stood still for so long.
const PATIENCE: Duration = Duration::from_secs(30);
/// For so long answers are kept.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// The most answers that are kept; the oldest go first.
const MAX_KEPT: usize = 4096;
/// Records of one transaction.
const BATCH: usize = 64;

/// The answer holds a secret: it is given once, and kept nowhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Secret;

/// What is known of a request with a key.
enum Found {
    /// Nothing: it is taken up now, and the record has this revision.
    TakenUp(u64),
    /// It was answered.
    Answered(ApiReply),
}

/// Records that stand still: their revision, and since when this node has seen that.
#[derive(Debug, Default)]
pub(crate) struct Still(Mutex<HashMap<String, (u64, Instant)>>);

impl Still {
    /// Has nobody changed it for so long that nobody is at it?
    fn is_left(&self, key: &str, revision: u64) -> bool {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= MAX_KEPT {
            seen.retain(|_, (_, since)| since.elapsed() < PATIENCE * 2);
        }
        if seen.len() >= MAX_KEPT {
            return false;
        }
        let (known, since) = seen.entry(key.to_owned()).or_insert_with(|| (revision, Instant::now()));
        if *known != revision {
            (*known, *since) = (revision, Instant::now());
        }
        since.elapsed() >= PATIENCE
    }

    fn forget(&self, key: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

/// Carries a request with a key out once.
pub(crate) async fn once(State(api): State<Api>, request: Request, next: Next) -> Response {
    if [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method()) {
        return next.run(request).await;
    }
    if crate::data::is_stream(&request) {
        return match request.headers().contains_key(&IDEMPOTENCY_KEY) {
            false => next.run(request).await,
            true => Problem::new(
                Code::BadRequest,
                "an image is kept nowhere, so that it cannot be known again by an Idempotency-Key; leave that out",
            )
            .into_response(),
        };
    }
    match with_body(&api, request, next).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    }
}

async fn with_body(api: &Api, request: Request, next: Next) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let body = match timeout(BODY_TIMEOUT, to_bytes(body, MAX_BODY_BYTES)).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => {
            let why = format!("a body has {MAX_BODY_BYTES} bytes at most");
            return Err(Problem::new(Code::TooLarge, why));
        }
        Err(_) => return Err(Problem::new(Code::BadRequest, "the body did not come within 30 s")),
    };
    let asker = parts
        .extensions
        .get::<Asker>()
        .cloned()
        .ok_or_else(crate::who::nobody)?;
    let key = parts.headers.get(&IDEMPOTENCY_KEY).map(read).transpose()?;
    // Of who may change nothing, nothing is to be done once.
    let may_change = Action::ALL
        .iter()
        .any(|action| !action.only_reads() && asker.0.may(*action));
    let Some(key) = key.filter(|_| may_change) else {
        return Ok(next.run(Request::from_parts(parts, Body::from(body))).await);
    };
    // Of who proves nothing the name tells only which node was asked.
    let who = asker.0.who();
    let who = if who.proof == Proof::None {
        ""
    } else {
        who.name.as_str()
    };
    let condition = parts
        .headers
        .get(IF_MATCH)
        .map(HeaderValue::as_bytes)
        .unwrap_or_default();
    let line = format!("{} {}", parts.method, parts.uri);
    // With the key, which is kept nowhere as it is: of a body with a password nobody finds that by trying.
    let asked = hash(&[key.as_bytes(), line.as_bytes(), condition, &body]);
    let key = map::api_answer_key(&hash(&[who.as_bytes(), key.as_bytes()]));
    let revision = match take_up(api, &key, asked.clone()).await? {
        Found::Answered(reply) => return Ok(again(reply)),
        Found::TakenUp(revision) => revision,
    };
    let request = Request::from_parts(parts, Body::from(body));
    let api = api.clone();
    // It goes on when the client has gone: it is done, then, and the answer is kept for when they come again.
    let task = tokio::spawn(async move {
        let (response, revision) = renewing(&api, &key, revision, &asked, next.run(request)).await;
        settle(&api, key, revision, asked, response).await
    });
    task.await.unwrap_or_else(|_| {
        Err(Problem::new(
            Code::Internal,
            "this node could not answer; its log says more",
        ))
    })
}

/// Renews the record while it is worked on; the record's revision then.
async fn renewing(
    api: &Api,
    key: &str,
    mut revision: u64,
    asked: &str,
    work: impl Future<Output = Response>,
) -> (Response, u64) {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            response = &mut work => return (response, revision),
            () = sleep(RENEWAL) => {}
        }
        let (key, record) = (key.to_owned(), begun(asked.to_owned()));
        let renewed = api.ask(move |meta| Ok(put(meta, &key, revision, &record).map_err(AdminError::from)?));
        let mut renewed = std::pin::pin!(renewed);
        // While it is renewed, the work goes on. One that ends meanwhile waits for the renewal: the two would write over each other.
        let (renewed, done) = tokio::select! {
            renewed = &mut renewed => (renewed, None),
            response = &mut work => (renewed.await, Some(response)),
        };
        if let Ok(Some(renewed)) = renewed {
            revision = renewed;
        }
        if let Some(response) = done {
            return (response, revision);
        }
    }
}

fn begun(asked: String) -> ApiAnswer {
    ApiAnswer {
        request: asked,
        begun_at: now().as_secs(),
        answer: None,
    }
}

fn read(key: &HeaderValue) -> Result<&str, Problem> {
    let text = key.to_str().unwrap_or_default();
    if text.is_empty() || text.len() > MAX_KEY_BYTES {
        let why =
            format!("Idempotency-Key is 1 to {MAX_KEY_BYTES} visible ASCII characters; a random UUID is a good one");
        return Err(Problem::new(Code::BadRequest, why));
    }
    Ok(text)
}

/// SHA-256 over parts, each with its length, in hexadecimal digits.
fn hash(parts: &[&[u8]]) -> String {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part);
    }
    let mut text = String::with_capacity(64);
    for byte in context.finish().as_ref() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

async fn take_up(api: &Api, key: &str, asked: String) -> Result<Found, Problem> {
    let (key, still) = (key.to_owned(), api.clone());
    api.ask(move |meta| {
        let reply = meta.txn(&Call::get(&*key)).map_err(AdminError::from)?;
        let mut revision = 0;
        if let Some(found) = reply.value(0) {
            let known: ApiAnswer = found
                .json()
                .map_err(|why| Problem::new(Code::Internal, format!("{key} cannot be read: {why}")))?;
            if known.request != asked {
                let why = "this Idempotency-Key was sent with another request; each request has a key of its own";
                return Err(Problem::new(Code::KeyReused, why));
            }
            if let Some(reply) = known.answer {
                return Ok(Found::Answered(reply));
            }
            if !still.still().is_left(&key, found.mod_revision) {
                return Err(being_done());
            }
            still.still().forget(&key);
            revision = found.mod_revision;
        }
        let taken = put(meta, &key, revision, &begun(asked)).map_err(AdminError::from)?;
        taken.map(Found::TakenUp).ok_or_else(being_done)
    })
    .await
}

fn being_done() -> Problem {
    Problem::new(
        Code::InProgress,
        "a request with this Idempotency-Key is being carried out; send it again in a moment for its answer",
    )
}

/// The record's new revision; none: it was changed meanwhile.
fn put(meta: &dyn Transact, key: &str, revision: u64, record: &ApiAnswer) -> Result<Option<u64>, Error> {
    let value = serde_json::to_vec(record).unwrap_or_default();
    let reply = meta.txn(&Call::put_if(key, revision, value))?;
    Ok(reply.succeeded.then_some(reply.revision))
}

fn again(reply: ApiReply) -> Response {
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, reply.body).into_response();
    let headers = response.headers_mut();
    let mut set = |name: HeaderName, text: &str| {
        if let Ok(value) = HeaderValue::from_str(text) {
            headers.insert(name, value);
        }
    };
    set(CONTENT_TYPE, &reply.kind);
    set(REPLAYED, "true");
    if let Some(tag) = &reply.tag {
        set(ETAG, tag);
    }
    response
}

/// Keeps the answer to what was done; where nothing was done, forgets that the request was taken up.
async fn settle(api: &Api, key: String, revision: u64, asked: String, response: Response) -> Result<Response, Problem> {
    let is_secret = response.extensions().get::<Secret>().is_some();
    let status = response.status();
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, usize::MAX)
        .await
        .map_err(|why| Problem::new(Code::Internal, format!("the answer could not be made: {why}")))?;
    let text = |name: &HeaderName| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let is_kept = status.is_success() && !is_secret && bytes.len() <= MAX_ANSWER_BYTES;
    let body = String::from_utf8(bytes.to_vec()).ok().filter(|_| is_kept);
    let answer = body.map(|body| ApiReply {
        status: status.as_u16(),
        kind: text(&CONTENT_TYPE).unwrap_or_default().to_owned(),
        tag: text(&ETAG).map(str::to_owned),
        body,
    });
    let is_unsure = status.is_server_error();
    let done = api.ask(move |meta| {
        let result = match answer {
            Some(answer) => keep(meta, &key, revision, asked, answer),
            None if is_unsure => Ok(()),
            None => forget(meta, &[(key, revision)]),
        };
        Ok(result.map_err(AdminError::from)?)
    });
    if let Err(why) = done.await {
        // It was done. Whoever asks again meets with that.
        log::warn!("an answer with an idempotency key is not kept: {}", why.detail);
    }
    Ok(Response::from_parts(parts, Body::from(bytes)))
}

/// Keeps an answer, whoever has written to the record meanwhile: it was this request that was done. (Whether its last renewal was made may
/// not be known.)
fn keep(meta: &dyn Transact, key: &str, revision: u64, asked: String, answer: ApiReply) -> Result<(), Error> {
    let record = ApiAnswer {
        answer: Some(answer),
        ..begun(asked)
    };
    if put(meta, key, revision, &record)?.is_some() {
        return Ok(());
    }
    let reply = meta.txn(&Call::get(key))?;
    let Some(found) = reply.value(0) else { return Ok(()) };
    let is_same = found
        .json::<ApiAnswer>()
        .is_ok_and(|known| known.request == record.request && known.answer.is_none());
    if is_same {
        put(meta, key, found.mod_revision, &record)?;
    }
    Ok(())
}

/// Of what was changed meanwhile, nothing is forgotten.
fn forget(meta: &dyn Transact, which: &[(String, u64)]) -> Result<(), Error> {
    for batch in which.chunks(BATCH) {
        if !delete(meta, batch)? {
            for one in batch.chunks(1) {
                delete(meta, one)?;
            }
        }
    }
    Ok(())
}

fn delete(meta: &dyn Transact, batch: &[(String, u64)]) -> Result<bool, Error> {
    let reply = meta.txn(&Call {
        compares: batch.iter().map(unchanged).collect(),
        then: batch.iter().map(|(key, _)| Op::Delete { key: key.clone() }).collect(),
        ..Call::default()
    })?;
    Ok(reply.succeeded)
}

fn unchanged((key, revision): &(String, u64)) -> Compare {
    Compare::ModRevision {
        key: key.clone(),
        equals: *revision,
    }
}

/// Takes away what is older than a day, and the oldest of what is too many.
pub(crate) fn trim(meta: &dyn Transact) -> Result<(), Error> {
    let reply = meta.txn(&Call::prefix(map::api_answers_prefix()))?;
    let mut all: Vec<(u64, String, u64)> = reply
        .values(0)
        .iter()
        .map(|found| {
            let begun_at = found.json::<ApiAnswer>().map_or(0, |answer| answer.begun_at);
            (begun_at, found.key.clone(), found.mod_revision)
        })
        .collect();
    all.sort();
    let limit = now().saturating_sub(KEPT).as_secs();
    let old = all.partition_point(|(begun_at, ..)| *begun_at < limit);
    let doomed = old.max(all.len().saturating_sub(MAX_KEPT));
    let doomed: Vec<(String, u64)> = all.drain(..doomed).map(|(_, key, revision)| (key, revision)).collect();
    forget(meta, &doomed)
}
