//! The web page of a cluster, inside the program: its files, and the answers that a browser gets of them (docs/web.md).
//!
//! The files are those of `web/dist` when the program was built. A path is one of theirs, letter by letter, or nothing: nothing is decoded,
//! joined or looked up on a disk, so that there is no path that leads anywhere else.
#![deny(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

#[cfg(test)]
#[path = "../build/pack.rs"]
mod pack;
#[cfg(test)]
mod tests;

use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    ETAG, HeaderName, IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

/// The word in `index.html` that each answer has a nonce of its own for (`web/vite.config.ts`).
const NONCE_PLACE: &str = "__AMITA_CSP_NONCE__";
/// As many as the policy of content's specification wants at least (Content Security Policy Level 3, section 7.1).
const NONCE_BYTES: usize = 16;
const INDEX: &str = "/index.html";
/// Names below it have a hash of what is in them.
const HASHED: &str = "/assets/";
/// As long as is usual for what never changes: a year.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

/// Said where the program was built without the page.
const NO_PAGE: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Amita</title></head>\n\
    <body><h1>This build of Amita has no page</h1>\n\
    <p>The program was built without it. <code>make</code> builds one that has it (<code>make demo</code>, <code>make release</code>), \
    and so does <code>scripts/build-web</code> followed by <code>cargo build</code>.</p>\n\
    <p>The API is here all the same: <a href=\"openapi.json\">openapi.json</a> says what there is to ask for. \
    <code>amita status</code> says how the cluster is.</p>\n</body></html>\n";

/// A file of the page, as it was built.
#[derive(Debug)]
struct File {
    /// Beginning with `/`.
    path: &'static str,
    media: &'static str,
    /// An entity tag (RFC 9110, section 8.8.3), quotes included.
    tag: &'static str,
    plain: &'static [u8],
    /// Where it is much shorter.
    gzip: Option<&'static [u8]>,
}

static BUILT: &[File] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Does this build have the page?
#[must_use]
pub fn is_built() -> bool {
    !BUILT.is_empty()
}

/// What a browser gets that asks for `path`; none: the page has nothing of that name.
#[must_use]
pub fn answer(method: &Method, path: &str, headers: &HeaderMap) -> Option<Response<Bytes>> {
    Site(BUILT).answer(method, path, headers)
}

/// Files, and what is answered of them.
#[derive(Clone, Copy)]
struct Site(&'static [File]);

impl Site {
    fn answer(self, method: &Method, path: &str, headers: &HeaderMap) -> Option<Response<Bytes>> {
        let path = if path == "/" { INDEX } else { path };
        let file = self.0.iter().find(|file| file.path == path);
        if file.is_none() && !(path == INDEX && self.0.is_empty()) {
            return None;
        }
        if ![Method::GET, Method::HEAD].contains(method) {
            let mut response = Response::new(Bytes::new());
            *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            set(&mut response, ALLOW, "GET, HEAD");
            return Some(response);
        }
        let mut response = match file {
            None => without_page(),
            Some(file) if path == INDEX => index(file),
            Some(file) => whole(file, headers),
        };
        set(&mut response, X_CONTENT_TYPE_OPTIONS, "nosniff");
        set(&mut response, REFERRER_POLICY, "no-referrer");
        if response.status() != StatusCode::NOT_MODIFIED {
            let length = HeaderValue::from(response.body().len());
            response.headers_mut().insert(CONTENT_LENGTH, length);
        }
        if method == Method::HEAD {
            response.body_mut().clear();
        }
        Some(response)
    }
}

/// The entrance: a new nonce each time, so that nobody keeps it.
fn index(file: &File) -> Response<Bytes> {
    let nonce = nonce();
    let text = String::from_utf8_lossy(file.plain).replace(NONCE_PLACE, &nonce);
    let mut response = Response::new(Bytes::from(text));
    set(&mut response, CONTENT_TYPE, file.media);
    set(&mut response, CACHE_CONTROL, "no-store");
    set_policy(&mut response, Some(&nonce));
    response
}

/// A file as it is.
fn whole(file: &File, headers: &HeaderMap) -> Response<Bytes> {
    let gzip = file.gzip.filter(|_| takes_gzip(headers));
    let mut response = Response::new(Bytes::from_static(gzip.unwrap_or(file.plain)));
    let kept = if file.path.starts_with(HASHED) {
        FOR_EVER
    } else {
        "no-cache"
    };
    set(&mut response, CACHE_CONTROL, kept);
    // One tag for both codings would be wrong: it is of the bytes that are sent (RFC 9110, section 8.8.1).
    let tag = match gzip {
        Some(_) => format!("{}-gzip\"", file.tag.trim_end_matches('"')),
        None => file.tag.to_owned(),
    };
    set(&mut response, ETAG, &tag);
    if file.gzip.is_some() {
        set(&mut response, VARY, "accept-encoding");
    }
    set_policy(&mut response, None);
    if has_seen(headers, &tag) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response.body_mut().clear();
        return response;
    }
    set(&mut response, CONTENT_TYPE, file.media);
    if gzip.is_some() {
        set(&mut response, CONTENT_ENCODING, "gzip");
    }
    response
}

fn without_page() -> Response<Bytes> {
    let mut response = Response::new(Bytes::from_static(NO_PAGE.as_bytes()));
    *response.status_mut() = StatusCode::NOT_FOUND;
    set(&mut response, CONTENT_TYPE, "text/html; charset=utf-8");
    set(&mut response, CACHE_CONTROL, "no-store");
    set_policy(&mut response, None);
    response
}

fn set(response: &mut Response<Bytes>, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// What may run, and where from. Styles that antd makes while it runs carry the nonce; nothing else is let in that is not a file of the page.
fn set_policy(response: &mut Response<Bytes>, nonce: Option<&str>) {
    let style = nonce.map_or_else(String::new, |nonce| format!(" 'nonce-{nonce}'"));
    let policy = format!(
        "default-src 'self'; script-src 'self'; style-src 'self'{style}; object-src 'none'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    );
    set(response, CONTENT_SECURITY_POLICY, &policy);
}

fn nonce() -> String {
    let mut bytes = [0; NONCE_BYTES];
    // A system that has no random numbers could not have made a connection by TLS, either.
    rand::fill(&mut bytes).expect("the system gives random numbers");
    STANDARD.encode(bytes)
}

/// RFC 9110, section 12.5.3: named, or meant by `*`, and not with a weight of nothing.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(ACCEPT_ENCODING).iter();
    let codings = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','));
    let mut any = false;
    for coding in codings {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let wanted = weight.is_none_or(|weight| weight.parse().is_ok_and(|weight: f32| weight > 0.0));
        match name {
            _ if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") => return wanted,
            "*" => any = wanted,
            _ => {}
        }
    }
    any
}

/// RFC 9110, section 13.1.2: compared weakly.
fn has_seen(headers: &HeaderMap, tag: &str) -> bool {
    let lines = headers.get_all(IF_NONE_MATCH).iter();
    let mut tags = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','));
    tags.any(|seen| {
        let seen = seen.trim();
        seen == "*" || seen.strip_prefix("W/").unwrap_or(seen) == tag
    })
}
