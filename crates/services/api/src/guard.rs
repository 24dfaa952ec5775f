//! What a browser must not be made to do, and what an answer may be used for.
//!
//! A page of another site can have a browser ask here, with its certificate (cross-site request forgery), and under a name of that
//! site's own, which it lets point here (DNS rebinding). It cannot keep the browser from saying where a request comes from.

use crate::problem::{Code, Problem};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use http::uri::Authority;
use http::{HeaderValue, Method};
use std::net::IpAddr;

/// Said by browsers: where a request comes from (Fetch Metadata Request Headers, section 2.3).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What no answer is without: it is what it says that it is, stands in no frame, runs nothing, and is kept by nobody.
const ALWAYS: &[(HeaderName, &str)] = &[
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (CACHE_CONTROL, "no-store"),
];

/// The connection has shown who this server is: a name that is not its own cannot have led here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Proved;

/// Of a response: whoever asked has it for themselves, for having it does more than look. It is shared with nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Own;

/// Looks at a request before anything else does, and at its answer behind everything.
pub(crate) async fn guard(request: Request, next: Next) -> Response {
    let mut response = match check(&request) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    for (name, value) in ALWAYS {
        let headers = response.headers_mut();
        if !headers.contains_key(name) {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
    response
}

fn check(request: &Request) -> Result<(), Problem> {
    let host = host(request)?;
    let is_proved = request.extensions().get::<Proved>().is_some();
    if !is_proved && !is_address(&host) {
        let why = "ask by this server's address, or by localhost: it proves to nobody who it is, and goes by no name";
        return Err(Problem::new(Code::Misdirected, why));
    }
    match [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method()) {
        true => Ok(()),
        false => own_site(request, &host),
    }
}

/// For routes whose GET does more than look, as one that has a gateway own a volume does: a picture in another site's page must not.
pub(crate) async fn own_site_only(request: Request, next: Next) -> Response {
    let mut response = match host(&request).and_then(|host| own_site(&request, &host)) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    response.extensions_mut().insert(Own);
    response
}

fn own_site(request: &Request, host: &Authority) -> Result<(), Problem> {
    if is_from_here(request, host) {
        return Ok(());
    }
    let why = "a page of another site has asked for this; ask from this server's own page, or without a browser";
    Err(Problem::new(Code::CrossSite, why))
}

fn host(request: &Request) -> Result<Authority, Problem> {
    let named = request.headers().get(HOST).and_then(|value| value.to_str().ok());
    let in_line = request.uri().authority().map(Authority::as_str);
    let host = in_line.or(named).and_then(|text| text.parse().ok());
    host.ok_or_else(|| {
        Problem::new(
            Code::BadRequest,
            "the request does not say which host it is for (Host: HOST:PORT)",
        )
    })
}

fn is_address(host: &Authority) -> bool {
    let name = host.host();
    let bare = name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(name);
    bare.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost")
}

/// Programs say nothing of it; browsers do.
fn is_from_here(request: &Request, host: &Authority) -> bool {
    let text = |name: &HeaderName| {
        request
            .headers()
            .get(name)
            .map(|value| value.to_str().unwrap_or_default())
    };
    let of_same_origin = |origin: &str| {
        let behind = origin
            .strip_prefix("https://")
            .or_else(|| origin.strip_prefix("http://"));
        behind.is_some_and(|rest| rest.eq_ignore_ascii_case(host.as_str()))
    };
    text(&ORIGIN).is_none_or(of_same_origin)
        && text(&SEC_FETCH_SITE).is_none_or(|site| ["same-origin", "none"].contains(&site))
}
