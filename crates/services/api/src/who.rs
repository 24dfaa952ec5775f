//! Who asks: by the certificate of the connection, or by a token of the request.

use crate::problem::{Code, Problem};
use crate::session::{Api, Asker};
use amita_audit::Whence;
use amita_control::access::{Caller, Role};
use amita_control::admin;
use amita_identity::ApiToken;
use amita_types::MirrorId;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{AUTHORIZATION, CONNECTION, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, StatusCode};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// For so long a token that was good is not asked about again: one that is revoked is good for no longer than this.
pub const TOKEN_TRUST: Duration = Duration::from_secs(5);
/// The most tokens that are remembered.
const MAX_KNOWN: usize = 1024;

/// Where a request comes from, as the connection has seen it.
#[derive(Clone, Debug, Default)]
pub(crate) struct From(pub Whence);

/// When the token that was shown ends, in seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends(pub u64);

/// What whoever asks has shown: it is looked at again while what they have asked for lasts.
#[derive(Clone)]
pub(crate) enum Standing {
    /// A certificate. Is it still good?
    Certificate(Arc<dyn Fn() -> bool + Send + Sync>),
    /// A token.
    Token {
        id: String,
        /// What the cluster keeps of it.
        kept: String,
        /// In seconds since 1970.
        ends_at: u64,
    },
}

impl fmt::Debug for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Standing")
    }
}

impl Standing {
    /// May they still? None: nobody can say at present.
    pub(crate) async fn is_good(&self, api: &Api) -> Option<bool> {
        match self {
            Standing::Certificate(is_good) => Some(is_good()),
            Standing::Token { ends_at, .. } if now().as_secs() >= *ends_at => Some(false),
            Standing::Token { id, kept, .. } => {
                let (id, kept) = (id.clone(), kept.clone());
                let found = api.check(move |meta| Ok(admin::is_token_good(meta, &id, &kept, now())?));
                found.await.ok()
            }
        }
    }
}

/// Tokens that were good a moment ago.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<HashMap<String, Good>>);

#[derive(Clone, Debug)]
struct Good {
    asked_at: Instant,
    name: String,
    role: Role,
    /// The mirror whose other end holds it.
    mirror: Option<MirrorId>,
    /// In seconds since 1970.
    ends_at: u64,
}

impl Known {
    fn find(&self, kept: &str, now: Duration) -> Option<Good> {
        let known = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let good = known.get(kept)?;
        (good.asked_at.elapsed() < TOKEN_TRUST && now.as_secs() < good.ends_at).then(|| good.clone())
    }

    fn remember(&self, kept: String, good: Good) {
        let mut known = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if known.len() >= MAX_KNOWN {
            known.retain(|_, good| good.asked_at.elapsed() < TOKEN_TRUST);
        }
        if known.len() < MAX_KNOWN {
            known.insert(kept, good);
        }
    }
}

/// Since 1970.
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Finds out who asks. Whoever shows a token is who the token says, whatever else they show.
pub(crate) async fn find(State(api): State<Api>, mut request: Request, next: Next) -> Response {
    if let Some(shown) = request.headers().get(AUTHORIZATION) {
        let asker = match read(shown) {
            Ok(token) => check(&api, token, request.extensions().get::<From>()).await,
            Err(problem) => Err(problem),
        };
        match asker {
            Ok((asker, ends, standing)) => {
                request.extensions_mut().insert(asker);
                request.extensions_mut().insert(ends);
                request.extensions_mut().insert(standing);
            }
            Err(problem) => return refuse(problem),
        }
    }
    let asker = request.extensions().get::<Asker>();
    if asker.is_none() && request.method() != Method::OPTIONS {
        return refuse(nobody());
    }
    if asker.is_some_and(|asker| asker.0.is_end() && !is_own(&asker.0, request.uri().path())) {
        return refuse(not_own());
    }
    next.run(request).await
}

/// Is this path of the mirror whose other end asks? Whatever else there is at the API is nothing for them, whatever it lets others see.
fn is_own(caller: &Caller, path: &str) -> bool {
    let within = path.strip_prefix(crate::PREFIX);
    let link = within.and_then(|path| path.strip_prefix("/mirror-links/"));
    let id = link.and_then(|rest| rest.split('/').next());
    caller.mirror().is_some_and(|own| id == Some(own.to_string().as_str()))
}

/// A mirror's other end asks for something else.
pub(crate) fn not_own() -> Problem {
    let why = "this token is for the other end of a mirror, and good for what that asks of this mirror alone; `amita token create` makes others";
    Problem::new(Code::Denied, why)
}

/// Nobody has shown who asks.
pub(crate) fn nobody() -> Problem {
    Problem::new(
        Code::Unauthenticated,
        "show a certificate of this cluster, or a token (Authorization: Bearer TOKEN); `amita operator create` makes the one, \
         `amita token create` the other",
    )
}

fn refuse(problem: Problem) -> Response {
    let is_stranger = problem.status == StatusCode::UNAUTHORIZED;
    let mut response = problem.into_response();
    if is_stranger {
        // RFC 6750, section 3.
        let challenge = HeaderValue::from_static("Bearer realm=\"amita\"");
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        // A stranger has no place to keep.
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

fn read(shown: &HeaderValue) -> Result<ApiToken, Problem> {
    let text = shown.to_str().unwrap_or_default();
    let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
    if !scheme.eq_ignore_ascii_case("bearer") {
        let why = "Authorization is not of the form `Bearer TOKEN`; `amita token create` makes a token";
        return Err(Problem::new(Code::Unauthenticated, why));
    }
    token.parse().map_err(|why| Problem::new(Code::Unauthenticated, why))
}

async fn check(api: &Api, token: ApiToken, from: Option<&From>) -> Result<(Asker, Ends, Standing), Problem> {
    let whence = from.cloned().unwrap_or_default().0;
    let (id, kept, now) = (token.id(), token.kept(), now());
    let good = match api.known_tokens().find(&kept, now) {
        Some(good) => good,
        None => {
            let asked_at = Instant::now();
            let found = api
                .check(move |meta| Ok(admin::check_token(meta, &token, now)?))
                .await?;
            let (record, role) = found.ok_or_else(|| {
                let why = "the token is not taken: it is unknown, was revoked or has ended; `amita token list` shows those there are";
                Problem::new(Code::Unauthenticated, why)
            })?;
            let good = Good {
                asked_at,
                name: format!("token {} ({})", record.name, &record.id[..8]),
                role,
                mirror: record.mirror,
                ends_at: record.ends_at,
            };
            api.known_tokens().remember(kept.clone(), good.clone());
            good
        }
    };
    let asker = Asker(Caller::by_token(&good.name, good.role, whence).bound_to(good.mirror));
    let ends_at = good.ends_at;
    Ok((asker, Ends(ends_at), Standing::Token { id, kept, ends_at }))
}
