//! The server: `/metrics` for Prometheus, `/traces` and `/top` for `amita trace` and `amita top`, `/space` for who wants to know what
//! volumes hold. It only reads.
//!
//! It runs on a thread of its own, asks the cores when it is asked, and costs nothing in between. Nobody is asked for a
//! password, so it shows no more than figures and the names of volumes and stores, and listens on loopback unless it is told
//! otherwise.

use super::pages::{NodePage, TracesPage};
use super::report::NodeReport;
use super::space::{MAX_QUESTION_BYTES, SpacePage, SpaceQuestion, StoreQuestions};
use super::text;
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};

/// Connections at once; more are closed as they come.
const MAX_CONNECTIONS: usize = 32;
/// A connection may be open for so long, whatever it does.
const LONGEST_CONNECTION: Duration = Duration::from_secs(60);
/// The head of a request must be there in so long.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause after a failed accept, so that failing does not become a loop.
const ACCEPT_REST: Duration = Duration::from_millis(50);
/// Traces in one answer, if the question does not say.
const TRACES: usize = 10;

/// What the cores are asked for, besides what they have counted.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The traces that they keep.
    pub traces: bool,
    /// The cluster's figures, which the metadata is asked for.
    pub figures: bool,
    /// What volumes hold.
    pub space: Option<Arc<StoreQuestions>>,
}

/// Asks the cores.
pub type CollectReport = Arc<dyn Fn(Wanted) -> NodeReport + Send + Sync>;

/// A server that runs. Dropped, it ends.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens, and answers from a thread of its own.
    ///
    /// # Errors
    /// The address cannot be bound, or a thread cannot be had.
    pub fn start(address: SocketAddr, ask: CollectReport) -> io::Result<Server> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(1)
            .build()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("amita-observe".to_owned())
            .spawn(move || {
                let _ = rustix::process::nice(crate::worker::NICENESS);
                runtime.block_on(async {
                    tokio::select! {
                        () = accept(&listener, &ask) => {}
                        _ = stopped => {}
                    }
                });
            })?;
        Ok(Server {
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: &tokio::net::TcpListener, ask: &CollectReport) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_REST).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            continue;
        };
        let ask = ask.clone();
        tokio::spawn(async move {
            let _place = place;
            let _ = tokio::time::timeout(LONGEST_CONNECTION, serve(stream, ask)).await;
        });
    }
}

async fn serve(stream: TcpStream, ask: CollectReport) {
    let service = service_fn(move |request| answer(request, ask.clone()));
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    // A peer that breaks the rules, or goes away, ends its own connection only.
    let _ = connection.await;
}

async fn answer(request: Request<Incoming>, ask: CollectReport) -> Result<Response<String>, Infallible> {
    let (path, query) = (
        request.uri().path().to_owned(),
        request.uri().query().unwrap_or_default().to_owned(),
    );
    let named = request.headers().get(HOST).map(HeaderValue::to_str);
    let in_line = request.uri().host().map(Ok);
    if ![named, in_line]
        .into_iter()
        .flatten()
        .all(|host| host.is_ok_and(is_ours))
    {
        return Ok(plain(
            StatusCode::MISDIRECTED_REQUEST,
            "ask by this server's address, by localhost, or by this machine's own name\n",
        ));
    }
    if path == "/space" && request.method() == Method::POST {
        return Ok(space(request.into_body(), ask).await);
    }
    if request.method() != Method::GET {
        return Ok(plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered here\n"));
    }
    // The cores answer at the end of a pass; one that hangs is waited for a little.
    let made = tokio::task::spawn_blocking(move || page(&path, &query, &ask)).await;
    Ok(made.unwrap_or_else(|_| plain(StatusCode::INTERNAL_SERVER_ERROR, "the page could not be made\n")))
}

/// What the stores have counted of what the question names. Nothing is changed by it: it is POST because it may be long.
async fn space(body: Incoming, ask: CollectReport) -> Response<String> {
    let question = match read(body).await {
        Ok(bytes) => serde_json::from_slice::<SpaceQuestion>(&bytes).map_err(|why| format!("{why}\n")),
        Err(why) => Err(why),
    };
    let stores = match question.and_then(|question| question.for_stores()) {
        Ok(stores) => stores,
        Err(why) => return plain(StatusCode::BAD_REQUEST, &why),
    };
    let wanted = Wanted {
        space: Some(Arc::new(stores)),
        ..Wanted::default()
    };
    let made = tokio::task::spawn_blocking(move || json(&SpacePage::new(&ask(wanted)))).await;
    made.unwrap_or_else(|_| plain(StatusCode::INTERNAL_SERVER_ERROR, "the page could not be made\n"))
}

async fn read(mut body: Incoming) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|why| format!("{why}\n"))?;
        let data = frame.data_ref().map_or(&[][..], |data| data.as_ref());
        if bytes.len() + data.len() > MAX_QUESTION_BYTES {
            return Err(format!("a question has {MAX_QUESTION_BYTES} bytes at most\n"));
        }
        bytes.extend_from_slice(data);
    }
    Ok(bytes)
}

/// Is this a way to name this server that no stranger can give to it? A page of the web can have a browser ask under a name of
/// its own, which it lets point here (DNS rebinding), and would be let read the answer.
fn is_ours(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    };
    let bare = name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(name);
    let machine = rustix::system::uname();
    bare.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || name.as_bytes().eq_ignore_ascii_case(machine.nodename().to_bytes())
}

fn page(path: &str, query: &str, ask: &CollectReport) -> Response<String> {
    match path {
        "/" => plain(
            StatusCode::OK,
            "/metrics\n/top\n/traces?slow=1&volume=NAME&count=N\n/space (POST)\n",
        ),
        "/metrics" => with_type(
            text::render(&ask(Wanted {
                figures: true,
                ..Wanted::default()
            })),
            "text/plain; version=0.0.4; charset=utf-8",
        ),
        "/top" => json(&NodePage::new(&ask(Wanted::default()))),
        "/traces" => match Question::parse(query) {
            Ok(question) => json(&TracesPage::new(
                &ask(Wanted {
                    traces: true,
                    ..Wanted::default()
                }),
                question.slow,
                question.volume.as_deref(),
                question.count,
            )),
            Err(why) => plain(StatusCode::BAD_REQUEST, &why),
        },
        _ => plain(StatusCode::NOT_FOUND, "there is no such page; see /\n"),
    }
}

/// What a question for traces names.
#[derive(Debug, PartialEq, Eq)]
struct Question {
    slow: bool,
    volume: Option<String>,
    count: usize,
}

impl Question {
    /// (The names of volumes are letters, digits, `-`, `_` and `.`: nothing of them needs to be escaped.)
    fn parse(query: &str) -> Result<Question, String> {
        let mut question = Question {
            slow: false,
            volume: None,
            count: TRACES,
        };
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, "1"));
            match name {
                "slow" => question.slow = value == "1" || value == "true",
                "volume" => question.volume = Some(value.to_owned()),
                "count" => {
                    question.count = value.parse().map_err(|_| "the count is no number\n".to_owned())?;
                }
                _ => return Err("a question has slow, volume and count\n".to_owned()),
            }
        }
        Ok(question)
    }
}

fn plain(status: StatusCode, text: &str) -> Response<String> {
    let mut response = Response::new(text.to_owned());
    *response.status_mut() = status;
    response
}

fn with_type(text: String, kind: &'static str) -> Response<String> {
    let mut response = Response::new(text);
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn json(value: &impl serde::Serialize) -> Response<String> {
    match serde_json::to_string(value) {
        Ok(text) => with_type(text, "application/json"),
        Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "the page could not be made\n"),
    }
}

#[cfg(test)]
mod tests;
