//! One call and its answer: which endpoint, how often, how long, and what a failure means.

use super::connection::{Connection, Endpoint, Line};
use super::user::{Token, refused};
use super::{MAX_ENDPOINTS, Options};
use crate::call::LeaseId;
use crate::error::{Error, Refusal};
use crate::wire::{self, path, words};
use http::uri::PathAndQuery;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

/// The most bytes of one answer: all keys of a very large cluster. More is refused by the decoder.
pub(super) const MAX_ANSWER_BYTES: usize = 256 * 1024 * 1024;

/// A server that owes an answer for so long is asked whether it lives, and one that does not answer that within as long is
/// given up: a member that is frozen (its host hangs, its process is stopped) says nothing, and others do. One that lives
/// may take its time, as in an election.
const FROZEN_AFTER: Duration = Duration::from_millis(300);

/// How often a call asks for another token.
const MOST_RENEWALS: u32 = 2;
/// The most bytes of an answer with a token.
const MAX_TOKEN_BYTES: usize = 64 * 1024;

type Answer<M> = Pin<Box<dyn Future<Output = Result<M, Status>> + Send>>;

/// Why there is no token. Nothing of a call was sent.
#[derive(Debug)]
pub(super) enum Untold {
    /// The user is not let in.
    Refused(Error),
    /// The server has not said.
    Lost(String),
}

/// May a call be sent a second time when nobody knows what became of the first?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Yes: it changes nothing, or the same twice.
    Repeatable,
    /// No.
    Once,
}

/// What a server's error is about, where its words do not say.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Context {
    pub(super) lease: Option<LeaseId>,
    pub(super) revision: u64,
}

/// What the background thread's tasks and the callers share.
pub(super) struct Shared {
    endpoints: Vec<Endpoint>,
    pub(super) options: Options,
    current: Mutex<Current>,
    connections: AtomicU64,
    token: Mutex<Option<Token>>,
    tokens: AtomicU64,
}

#[derive(Default)]
struct Current {
    /// The endpoint to try first: the last that worked.
    index: usize,
    connection: Option<Connection>,
}

/// What became of a call that failed.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Surely not done; another endpoint may do it.
    NotDone,
    PerhapsDone,
    /// Surely not done, and nobody will.
    Refused(Refusal),
}

impl Shared {
    pub(super) fn new<E: AsRef<str>>(endpoints: &[E], options: Options) -> Result<Shared, Error> {
        if endpoints.is_empty() || endpoints.len() > MAX_ENDPOINTS {
            let message = format!("{} metadata endpoints; name 1 to {MAX_ENDPOINTS}", endpoints.len());
            return Err(Error::Setting { why: message });
        }
        let endpoints = endpoints
            .iter()
            .map(|text| Endpoint::parse(text.as_ref(), &options))
            .collect::<Result<Vec<Endpoint>, _>>()?;
        Ok(Shared {
            endpoints,
            options,
            current: Mutex::default(),
            connections: AtomicU64::new(1),
            token: Mutex::default(),
            tokens: AtomicU64::new(1),
        })
    }

    pub(super) fn endpoints(&self) -> String {
        let names: Vec<String> = self.endpoints.iter().map(ToString::to_string).collect();
        names.join(", ")
    }

    /// The open connection, or a new one to the first endpoint that accepts.
    pub(super) async fn connection(&self) -> Result<Connection, Error> {
        let mut current = self.current.lock().await;
        if let Some(connection) = current.connection.as_ref().filter(|connection| !connection.is_closed()) {
            return Ok(connection.clone());
        }
        current.connection = None;
        let mut why = Vec::new();
        let (first, count) = (current.index, self.endpoints.len());
        // Where there is another server, one that is frozen must not use the call's time up.
        let patience = match count {
            1 => self.options.ping_timeout,
            _ => self.options.connect_timeout,
        };
        for step in 0..count {
            let index = (first + step) % count;
            // A call that ends in the middle leaves the next one to begin behind this server.
            current.index = (index + 1) % count;
            let endpoint = &self.endpoints[index];
            let number = self.connections.fetch_add(1, Ordering::Relaxed);
            match Connection::open(endpoint, number, &self.options, patience).await {
                Ok(connection) => {
                    *current = Current {
                        index,
                        connection: Some(connection.clone()),
                    };
                    return Ok(connection);
                }
                Err(error) => why.push(format!("{endpoint}: {error}")),
            }
        }
        Err(Error::Unavailable {
            what: why.join("; "),
            endpoints: self.endpoints(),
        })
    }

    /// Gives a connection up and turns to the next endpoint, unless somebody has already.
    pub(super) async fn give_up(&self, connection: &Connection) {
        let mut current = self.current.lock().await;
        if current
            .connection
            .as_ref()
            .is_some_and(|own| own.number == connection.number)
        {
            current.connection = None;
            current.index = (current.index + 1) % self.endpoints.len();
        }
    }

    /// A method with one request and one answer; by which connection it came.
    pub(super) async fn unary<M1, M2>(
        &self,
        path: &'static str,
        message: M1,
        effect: Effect,
        context: Context,
    ) -> Result<(M2, Line), Error>
    where
        M1: prost::Message + Clone + Default + 'static,
        M2: prost::Message + Default + 'static,
    {
        let send = |connection: Connection, token: Option<Token>| -> Answer<M2> {
            let mut request = Request::new(message.clone());
            Token::attach(token.as_ref(), &mut request);
            Box::pin(async move {
                let mut grpc = connection.grpc(MAX_ANSWER_BYTES);
                let path = PathAndQuery::from_static(path);
                grpc.unary(request, path, ProstCodec::<M1, M2>::new())
                    .await
                    .map(tonic::Response::into_inner)
            })
        };
        self.carry_out(send, effect, context).await
    }

    /// A method of streams, used for one request and one answer.
    pub(super) async fn single<M1, M2>(
        &self,
        path: &'static str,
        message: M1,
        effect: Effect,
        context: Context,
    ) -> Result<M2, Error>
    where
        M1: prost::Message + Clone + Default + 'static,
        M2: prost::Message + Default + 'static,
    {
        let send = |connection: Connection, token: Option<Token>| -> Answer<M2> {
            let mut request = Request::new(tokio_stream::once(message.clone()));
            Token::attach(token.as_ref(), &mut request);
            Box::pin(async move {
                let mut grpc = connection.grpc(MAX_ANSWER_BYTES);
                let path = PathAndQuery::from_static(path);
                let answers = grpc.streaming(request, path, ProstCodec::<M1, M2>::new()).await?;
                answers
                    .into_inner()
                    .message()
                    .await?
                    .ok_or_else(|| Status::unknown("the answer is missing"))
            })
        };
        let (answer, _) = self.carry_out(send, effect, context).await?;
        Ok(answer)
    }

    async fn carry_out<M2>(
        &self,
        send: impl Fn(Connection, Option<Token>) -> Answer<M2>,
        effect: Effect,
        context: Context,
    ) -> Result<(M2, Line), Error> {
        let deadline = Instant::now() + self.options.timeout;
        let mut last = format!("no answer within {:?}", self.options.timeout);
        let mut renewed = 0;
        // Each endpoint gets its chance; one more, because the connection at hand may have died unnoticed.
        let mut attempts = 0;
        while attempts <= self.endpoints.len() {
            let connection = match tokio::time::timeout_at(deadline, self.connection()).await {
                Ok(connection) => connection?,
                Err(_) => break,
            };
            let token = match tokio::time::timeout_at(deadline, self.token(&connection)).await {
                Ok(Ok(token)) => token,
                Ok(Err(Untold::Refused(error))) => return Err(error),
                Ok(Err(Untold::Lost(what))) => {
                    self.give_up(&connection).await;
                    last = format!("{}: {what}", connection.endpoint);
                    attempts += 1;
                    continue;
                }
                Err(_) => break,
            };
            let patience = if effect == Effect::Repeatable && self.endpoints.len() > 1 {
                // A server that hangs leaves time to ask another.
                deadline.min(Instant::now() + self.options.timeout / 3)
            } else {
                deadline
            };
            let call = tokio::time::timeout_at(patience, send(connection.clone(), token.clone()));
            let ended = self.unless_frozen(&connection, call).await;
            if let (Some(Ok(Err(status))), Some(token)) = (&ended, &token)
                && is_stale(status)
                && renewed < MOST_RENEWALS
            {
                // It is refused before anything is done.
                self.forget(token).await;
                renewed += 1;
                continue;
            }
            attempts += 1;
            let (verdict, what) = match ended {
                Some(Ok(Ok(answer))) => return Ok((answer, connection.line())),
                Some(Ok(Err(status))) => (judge(&status, context), words_of(&status)),
                Some(Err(_)) => (Verdict::PerhapsDone, "no answer in time".to_owned()),
                None => (Verdict::PerhapsDone, "the server does not say anything".to_owned()),
            };
            // What a server of TLS was told plainly it has not even read.
            let (verdict, what) = match connection.refusal() {
                Some(why) => (Verdict::NotDone, why),
                None => (verdict, what),
            };
            if let Verdict::Refused(reason) = verdict {
                return Err(reason.into());
            }
            self.give_up(&connection).await;
            if verdict == Verdict::PerhapsDone && effect == Effect::Once {
                return Err(Error::Unknown {
                    what,
                    endpoint: connection.endpoint.to_string(),
                });
            }
            last = format!("{}: {what}", connection.endpoint);
            if Instant::now() >= deadline {
                break;
            }
        }
        Err(Error::Unavailable {
            what: last,
            endpoints: self.endpoints(),
        })
    }

    /// The token of our user; `None` without a user. Nothing is asked of a server that has given one.
    pub(super) async fn token(&self, connection: &Connection) -> Result<Option<Token>, Untold> {
        let Some(user) = &self.options.user else {
            return Ok(None);
        };
        let mut current = self.token.lock().await;
        if let Some(token) = &*current {
            return Ok(Some(token.clone()));
        }
        let request = wire::AuthenticateRequest {
            name: user.name.clone(),
            password: user.password().map_err(Untold::Refused)?.to_string(),
        };
        let mut grpc = connection.grpc(MAX_TOKEN_BYTES);
        let codec = ProstCodec::<wire::AuthenticateRequest, wire::AuthenticateResponse>::new();
        let asked = grpc.unary(
            Request::new(request),
            PathAndQuery::from_static(path::AUTHENTICATE),
            codec,
        );
        let value = match asked.await {
            Ok(response) => {
                let token = response.into_inner().token.parse();
                Some(token.map_err(|_| Untold::Lost("its token is not readable".to_owned()))?)
            }
            // An embedded server knows who we are by our certificate.
            Err(status) if status.message() == words::NO_USERS || status.code() == Code::Unimplemented => None,
            Err(status) if status.message() == words::WRONG_PASSWORD => {
                return Err(Untold::Refused(refused(format!(
                    "the metadata at {} does not let user {} in: look at the name, and at the password in {}",
                    connection.endpoint,
                    user.name,
                    user.file().display()
                ))));
            }
            Err(status) => return Err(Untold::Lost(connection.refusal().unwrap_or_else(|| words_of(&status)))),
        };
        let number = self.tokens.fetch_add(1, Ordering::Relaxed);
        let token = Token { value, number };
        *current = Some(token.clone());
        Ok(Some(token))
    }

    /// Has the next call ask for another token, unless one has already.
    pub(super) async fn forget(&self, token: &Token) {
        let mut current = self.token.lock().await;
        if current.as_ref().is_some_and(|own| own.number == token.number) {
            *current = None;
        }
    }

    /// Waits for a call's end; `None`: its server is frozen. Where there is no other endpoint there is nothing to be gained.
    async fn unless_frozen<T>(&self, connection: &Connection, call: impl Future<Output = T>) -> Option<T> {
        let mut call = pin!(call);
        if self.endpoints.len() == 1 {
            return Some(call.await);
        }
        loop {
            if let Ok(ended) = tokio::time::timeout(FROZEN_AFTER, &mut call).await {
                return Some(ended);
            }
            let mut grpc = connection.grpc(MAX_ANSWER_BYTES);
            let question = PathAndQuery::from_static(path::STATUS);
            let asked = grpc.unary(Request::new(()), question, ProstCodec::<(), ()>::new());
            tokio::select! {
                ended = &mut call => return Some(ended),
                // Any answer will do, also that it does not know the question.
                answer = tokio::time::timeout(FROZEN_AFTER, asked) => if answer.is_err() { return None },
            }
        }
    }
}

/// Does a server want another token? Tokens end with the server that gave them, with time, and when users are changed.
pub(super) fn is_stale(status: &Status) -> bool {
    is_stale_text(status.message())
}

pub(super) fn is_stale_text(message: &str) -> bool {
    [words::BAD_TOKEN, words::OLD_TOKEN, words::NO_USER_NAMED]
        .iter()
        .any(|stale| message.contains(stale))
}

/// What becomes of a change when etcd says that it has no space (for the simulator, whose metadata says so too).
#[must_use]
pub fn told_no_space(endpoint: &str) -> Error {
    let status = Status::resource_exhausted(words::NO_SPACE);
    match judge(&status, Context::default()) {
        Verdict::Refused(reason) => reason.into(),
        Verdict::NotDone => Error::Unavailable {
            what: words_of(&status),
            endpoints: endpoint.to_owned(),
        },
        Verdict::PerhapsDone => Error::Unknown {
            what: words_of(&status),
            endpoint: endpoint.to_owned(),
        },
    }
}

/// What a server's status, or a broken connection's, says of the call. In doubt it may have been done.
fn judge(status: &Status, context: Context) -> Verdict {
    let server = || Refusal::Server {
        code: format!("{:?}", status.code()),
        message: status.message().to_owned(),
    };
    match (status.code(), status.message()) {
        (Code::Unavailable | Code::ResourceExhausted, words::TOO_MANY_REQUESTS)
        | (Code::ResourceExhausted, words::TOO_MANY_BYTES) => Verdict::NotDone,
        // etcd has no space any more and says so *after* it has applied the transaction that met that (its `applierV3`'s
        // quota; an answer that is too large for us is told by the same code): what was asked for may have been done.
        (Code::ResourceExhausted | Code::DataLoss, _) => Verdict::PerhapsDone,
        (_, words::NO_USER_NAMED) => Verdict::Refused(Refusal::Server {
            code: "user".to_owned(),
            message: "the metadata has users: name one (--metadata-user, --metadata-password-file)".to_owned(),
        }),
        (Code::PermissionDenied, words::PERMISSION_DENIED) => Verdict::Refused(Refusal::Server {
            code: "PermissionDenied".to_owned(),
            message:
                "the metadata does not allow that to our user or certificate: grant its role the keys (etcdctl role \
                      grant-permission), or name another user"
                    .to_owned(),
        }),
        (Code::OutOfRange, words::COMPACTED) => Verdict::Refused(Refusal::Compacted {
            compacted: context.revision,
        }),
        (Code::NotFound, words::LEASE_NOT_FOUND) => {
            Verdict::Refused(context.lease.map_or_else(server, Refusal::LeaseNotFound))
        }
        (
            Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::Unauthenticated,
            _,
        ) => Verdict::Refused(server()),
        _ => Verdict::PerhapsDone,
    }
}

/// The status in words, with the cause beneath it.
pub(super) fn words_of(status: &Status) -> String {
    let mut text = if status.message().is_empty() {
        status.code().description().to_owned()
    } else {
        status.message().to_owned()
    };
    let mut source = std::error::Error::source(status);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
