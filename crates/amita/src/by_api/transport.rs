//! One node is asked by its API: by HTTPS, which the node proves itself by; in plain text on loopback only. Redirections are not followed.

use super::LONGEST;
use super::body::Body;
use super::place::Place;
use amita_identity::{Expected, Live, Role, server_name};
use http::header::{AUTHORIZATION, CONTENT_TYPE, ETAG, HOST, RETRY_AFTER, USER_AGENT};
use http::{HeaderName, HeaderValue, Method, Request, Response};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::fmt;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

/// A node has so long to be reached, and to say that it is there.
const PATIENCE: Duration = Duration::from_secs(5);
/// While a command is carried out, the node is asked so often whether it is still there,
const LOOK: Duration = Duration::from_secs(10);
/// and is given up when it was not so often, one after another.
const MISSES: u32 = 2;
/// A node that says nothing of a command for so long has forgotten it.
const LONGEST_ANSWER: Duration = LONGEST.saturating_add(Duration::from_secs(60));
/// The most addresses of a name that are tried.
const MOST_TRIED: usize = 4;
/// The longest answer: a command's, whose every character may be escaped.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// What a node answers that is there, to who it knows.
pub(super) const SELF: &str = "/api/v1/self";
/// Where commands are sent to.
const COMMANDS: &str = "/api/v1/commands";
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Whom nodes are believed by, and what is shown to them.
#[derive(Clone)]
pub struct Proof {
    tls: Option<Arc<ClientConfig>>,
    /// They are known by their names in the cluster; otherwise by the host's.
    by_cluster: bool,
    token: Option<HeaderValue>,
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Proof")
    }
}

impl Proof {
    /// Nothing is proved.
    #[must_use]
    pub fn none() -> Proof {
        Proof {
            tls: None,
            by_cluster: false,
            token: None,
        }
    }

    /// By an identity of the cluster.
    #[must_use]
    pub fn by_identity(live: &Arc<Live>) -> Proof {
        Proof {
            tls: Some(live.client_config(Expected::any(&[Role::Node, Role::Gateway]))),
            by_cluster: true,
            token: None,
        }
    }

    /// By what is made already: nodes are known by their names in a cluster.
    #[must_use]
    pub fn by_cluster(tls: Arc<ClientConfig>) -> Proof {
        Proof {
            tls: Some(tls),
            by_cluster: true,
            token: None,
        }
    }

    /// Nodes show what they show to browsers, by one of these authorities.
    ///
    /// # Errors
    /// TLS cannot be had.
    pub fn by_authorities(roots: RootCertStore) -> Result<Proof, String> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|why| format!("TLS: {why}"))?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        // By this a node knows that its certificate for browsers is wanted.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Proof {
            tls: Some(Arc::new(config)),
            by_cluster: false,
            token: None,
        })
    }

    /// With a token.
    ///
    /// # Errors
    /// It has what no token has.
    pub fn with_token(self, token: &str) -> Result<Proof, String> {
        let value = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut value = value.map_err(|_| "the token has signs that no token has".to_owned())?;
        value.set_sensitive(true);
        let token = Some(value);
        Ok(Proof { token, ..self })
    }
}

/// What is asked of a node.
#[derive(Clone, Debug)]
pub struct Question {
    /// How.
    pub method: Method,
    /// The path, with its parameters.
    pub path: String,
    /// The body, in JSON.
    pub body: Option<String>,
    /// By which it is done once, however often it is sent.
    pub key: Option<String>,
    /// What else stands in its head.
    pub headers: Vec<(HeaderName, String)>,
}

impl Question {
    /// For what lies there.
    #[must_use]
    pub fn get(path: &str) -> Question {
        Question {
            method: Method::GET,
            path: path.to_owned(),
            body: None,
            key: None,
            headers: Vec::new(),
        }
    }

    /// With a body.
    #[must_use]
    pub fn with_body(method: Method, path: &str, body: String, key: Option<String>) -> Question {
        Question {
            method,
            body: Some(body),
            key,
            ..Question::get(path)
        }
    }

    /// That a command be carried out.
    #[must_use]
    pub fn command(body: String, key: Option<String>) -> Question {
        Question::with_body(Method::POST, COMMANDS, body, key)
    }

    /// With a header more.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: impl Into<String>) -> Question {
        self.headers.push((name, value.into()));
        self
    }
}

/// What a node has answered.
#[derive(Clone, Debug)]
pub struct Said {
    /// The status.
    pub status: u16,
    /// When it may be asked again, in seconds.
    pub retry_after: Option<u64>,
    /// The entity tag.
    pub tag: Option<String>,
    /// The body.
    pub body: Vec<u8>,
    /// What is asked was sent; otherwise the node has refused to hear of it.
    pub is_sent: bool,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// It was not sent.
    Before(String),
    /// It may have been carried out.
    Perhaps(String),
}

/// Why a node that is asked at once says nothing that is of use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unsaid {
    /// Nobody is there, or says anything.
    Silent(String),
    /// It is not believed: by another proof perhaps.
    Unbelieved(String),
    /// It has begun to answer, and not ended.
    CutOff(String),
}

impl Unsaid {
    /// In words.
    #[must_use]
    pub fn why(self) -> String {
        match self {
            Unsaid::Silent(why) | Unsaid::Unbelieved(why) | Unsaid::CutOff(why) => why,
        }
    }
}

/// Asks a node, and waits for what it says.
///
/// # Errors
/// The node is not there, or is gone before it has answered.
pub async fn send(place: &Place, proof: &Proof, question: &Question) -> Result<Said, NoAnswer> {
    // First whether anybody is there who knows us: what is not sent is not done.
    let (mut connection, said) = reach(place, proof, SELF).await.map_err(NoAnswer::Before)?;
    if said.status != 200 {
        return Ok(said);
    }
    let asked = async {
        connection
            .ask(question)
            .await
            .map(|said| Said { is_sent: true, ..said })
    };
    while_there(place, proof, asked).await.map_err(NoAnswer::Perhaps)
}

/// The same of a node that is asked nothing before, for who may ask nothing else: what it says within `limit`, of at most so many bytes.
///
/// # Errors
/// The node is not there, says nothing in time, or too much. It may have been carried out all the same.
pub async fn send_at_once(
    place: &Place,
    proof: &Proof,
    question: &Question,
    (limit, most): (Duration, usize),
) -> Result<Said, Unsaid> {
    let mut connection = reach_at_once(place, proof).await?;
    let asked = timeout(limit, async {
        let request = connection.request(question, Body::of(question.body.as_deref()));
        let begun = connection.begin(request.map_err(Unsaid::Silent)?).await;
        let said = said_within(begun.map_err(Unsaid::Silent)?, most).await;
        said.map_err(Unsaid::CutOff)
    });
    let silent = |_| {
        Err(Unsaid::Silent(format!(
            "it has not answered within {} s",
            limit.as_secs()
        )))
    };
    let told = asked.await.unwrap_or_else(silent)?;
    Ok(Said { is_sent: true, ..told })
}

/// Waits for an answer, while the node is there: a machine that has lost its power ends no connection.
///
/// # Errors
/// What `answer` says; or the node is gone, or says nothing for too long.
pub(super) async fn while_there(
    place: &Place,
    proof: &Proof,
    answer: impl Future<Output = Result<Said, String>>,
) -> Result<Said, String> {
    let silent = |_| Err(format!("it has not answered within {} s", LONGEST_ANSWER.as_secs()));
    let mut answer = std::pin::pin!(timeout(LONGEST_ANSWER, answer));
    let mut misses = 0;
    loop {
        tokio::select! {
            said = &mut answer => return said.unwrap_or_else(silent),
            () = sleep(LOOK) => {}
        }
        tokio::select! {
            said = &mut answer => return said.unwrap_or_else(silent),
            there = reach(place, proof, SELF) => match there {
                Ok(_) => misses = 0,
                Err(why) => {
                    misses += 1;
                    if misses >= MISSES {
                        return Err(format!("it is gone: {why}"));
                    }
                }
            },
        }
    }
}

/// Which release a node has; none: it does not say.
pub async fn release(place: &Place, proof: &Proof) -> Option<String> {
    let (_, said) = reach(place, proof, "/api").await.ok()?;
    let versions: serde_json::Value = serde_json::from_slice(&said.body).ok()?;
    versions["software"].as_str().map(str::to_owned)
}

/// Connects, and asks for something that costs nothing.
pub(super) async fn reach(place: &Place, proof: &Proof, path: &str) -> Result<(Connection, Said), String> {
    let reached = timeout(PATIENCE, async {
        let mut connection = connect(place, proof).await.map_err(Unsaid::why)?;
        let said = connection.ask(&Question::get(path)).await?;
        Ok((connection, said))
    });
    let silent = |_| Err(format!("it does not answer within {} s", PATIENCE.as_secs()));
    reached.await.unwrap_or_else(silent)
}

/// Connects, and asks nothing.
pub(super) async fn reach_at_once(place: &Place, proof: &Proof) -> Result<Connection, Unsaid> {
    let silent = |_| {
        Err(Unsaid::Silent(format!(
            "it does not answer within {} s",
            PATIENCE.as_secs()
        )))
    };
    timeout(PATIENCE, connect(place, proof)).await.unwrap_or_else(silent)
}

pub(super) struct Connection {
    sender: SendRequest<Body>,
    driven: JoinHandle<()>,
    authority: String,
    token: Option<HeaderValue>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driven.abort();
    }
}

async fn connect(place: &Place, proof: &Proof) -> Result<Connection, Unsaid> {
    let found = lookup_host((place.host(), place.port())).await;
    let found = found.map_err(|why| Unsaid::Silent(format!("{} is not found: {why}", place.host())))?;
    let mut last = Unsaid::Silent(format!("{} has no address", place.host()));
    for address in found.take(MOST_TRIED) {
        match connect_to(address, place, proof).await {
            Ok(connection) => return Ok(connection),
            Err(why) => last = why,
        }
    }
    Err(last)
}

async fn connect_to(address: SocketAddr, place: &Place, proof: &Proof) -> Result<Connection, Unsaid> {
    // A name that leads elsewhere by now is another machine's.
    if !place.is_tls() && !address.ip().to_canonical().is_loopback() {
        let why = format!("{address} is another machine, and is asked by HTTPS only");
        return Err(Unsaid::Silent(why));
    }
    let stream = TcpStream::connect(address).await;
    let stream = stream.map_err(|why| Unsaid::Silent(format!("it cannot be reached: {why}")))?;
    let _ = stream.set_nodelay(true);
    if !place.is_tls() {
        return shake_hands(stream, place, proof).await.map_err(Unsaid::Silent);
    }
    let config = proof.tls.clone();
    let config = config.ok_or_else(|| Unsaid::Unbelieved("there is nothing to believe it by".to_owned()))?;
    let name = match proof.by_cluster {
        true => server_name(),
        false => ServerName::try_from(place.host().to_owned())
            .map_err(|_| Unsaid::Unbelieved(format!("{} is no name of a server", place.host())))?,
    };
    let stream = TlsConnector::from(config).connect(name, stream).await;
    let stream = stream.map_err(|why| Unsaid::Unbelieved(format!("it is not believed: {why}")))?;
    shake_hands(stream, place, proof).await.map_err(Unsaid::Silent)
}

async fn shake_hands<S>(stream: S, place: &Place, proof: &Proof) -> Result<Connection, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let made = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) = made.map_err(|why| format!("HTTP: {why}"))?;
    let driven = tokio::spawn(async move {
        // How it ended is seen by who asks.
        let _ = connection.await;
    });
    Ok(Connection {
        sender,
        driven,
        authority: place.to_string(),
        token: proof.token.clone(),
    })
}

impl Connection {
    pub(super) fn request(&self, question: &Question, body: Body) -> Result<Request<Body>, String> {
        let mut request = Request::builder()
            .method(&question.method)
            .uri(&question.path)
            .header(HOST, &self.authority)
            .header(USER_AGENT, concat!("amita/", env!("CARGO_PKG_VERSION")));
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token.clone());
        }
        if question.body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(key) = &question.key {
            request = request.header(IDEMPOTENCY_KEY, key);
        }
        for (name, value) in &question.headers {
            request = request.header(name, value);
        }
        request.body(body).map_err(|why| why.to_string())
    }

    pub(super) async fn begin(&mut self, request: Request<Body>) -> Result<Response<Incoming>, String> {
        let failed = |why: hyper::Error| format!("it does not answer: {why}");
        self.sender.ready().await.map_err(failed)?;
        self.sender.send_request(request).await.map_err(failed)
    }

    async fn ask(&mut self, question: &Question) -> Result<Said, String> {
        let request = self.request(question, Body::of(question.body.as_deref()))?;
        said(self.begin(request).await?).await
    }
}

/// All of an answer.
pub(super) async fn said(response: Response<Incoming>) -> Result<Said, String> {
    said_within(response, MAX_ANSWER_BYTES).await
}

/// The same of so many bytes at most.
pub(super) async fn said_within(response: Response<Incoming>, most: usize) -> Result<Said, String> {
    let text = |name: HeaderName| response.headers().get(name).and_then(|value| value.to_str().ok());
    let (tag, retry_after) = (text(ETAG).map(str::to_owned), text(RETRY_AFTER));
    Ok(Said {
        status: response.status().as_u16(),
        retry_after: retry_after.and_then(|value| value.parse().ok()),
        tag,
        body: read(response.into_body(), most).await?,
        is_sent: false,
    })
}

async fn read(mut body: Incoming, most: usize) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|why| format!("its answer is cut off: {why}"))?;
        let data = frame.data_ref().map_or(&[][..], |data| data.as_ref());
        if bytes.len() + data.len() > most {
            return Err(format!("it answers with more than {most} bytes"));
        }
        bytes.extend_from_slice(data);
    }
    Ok(bytes)
}
