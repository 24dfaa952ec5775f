//! What a node serves beside the API: the page for browsers, at `/` and at each path that is not the API's.
//!
//! Who asks is not looked at: the page is the same for everybody, and is nothing without the API, which does look.

use crate::problem::{Code, Problem};
use crate::session::Api;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, Method};

/// What answers for the page: none where it has nothing of that path.
pub type Page = fn(&Method, &str, &HeaderMap) -> Option<http::Response<axum::body::Bytes>>;

/// Answers for the page, and passes on what is the API's.
pub(crate) async fn beside(State(api): State<Api>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let page = api.page().filter(|_| !is_of_the_api(path));
    let Some(page) = page else {
        return next.run(request).await;
    };
    page(request.method(), path, request.headers()).map_or_else(nothing, |answer| answer.map(Body::from))
}

fn is_of_the_api(path: &str) -> bool {
    path == "/openapi.json" || path == "/api" || path.starts_with("/api/")
}

fn nothing() -> Response {
    let why = "there is nothing at this path; / is the page, /openapi.json has all paths of the API";
    Problem::new(Code::NotFound, why).into_response()
}
