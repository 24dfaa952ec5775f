//! One call and its answer: which endpoint, how often, how long, and what a failure means.

use super::connection::{Connection, Endpoint};
use super::{MAX_ENDPOINTS, Options};
use crate::call::LeaseId;
use crate::error::{Error, Refusal};
use crate::wire::{path, words};
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
            return Err(Refusal::Server {
                code: "endpoint".to_owned(),
                message,
            }
            .into());
        }
        let endpoints = endpoints
            .iter()
            .map(|text| Endpoint::parse(text.as_ref()))
            .collect::<Result<_, _>>()?;
        Ok(Shared {
            endpoints,
            options,
            current: Mutex::default(),
            connections: AtomicU64::new(1),
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
        for step in 0..self.endpoints.len() {
            let index = (current.index + step) % self.endpoints.len();
            let endpoint = &self.endpoints[index];
            let number = self.connections.fetch_add(1, Ordering::Relaxed);
            match Connection::open(endpoint, number, &self.options).await {
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

    /// A method with one request and one answer.
    pub(super) async fn unary<M1, M2>(
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
        let send = |connection: Connection| -> Pin<Box<dyn Future<Output = Result<M2, Status>> + Send>> {
            let request = Request::new(message.clone());
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
        let send = |connection: Connection| -> Pin<Box<dyn Future<Output = Result<M2, Status>> + Send>> {
            let request = Request::new(tokio_stream::once(message.clone()));
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
        self.carry_out(send, effect, context).await
    }

    async fn carry_out<M2>(
        &self,
        send: impl Fn(Connection) -> Pin<Box<dyn Future<Output = Result<M2, Status>> + Send>>,
        effect: Effect,
        context: Context,
    ) -> Result<M2, Error> {
        let deadline = Instant::now() + self.options.timeout;
        let mut last = format!("no answer within {:?}", self.options.timeout);
        // Each endpoint gets its chance; one more, because the connection at hand may have died unnoticed.
        for _ in 0..=self.endpoints.len() {
            let connection = match tokio::time::timeout_at(deadline, self.connection()).await {
                Ok(connection) => connection?,
                Err(_) => break,
            };
            let patience = if effect == Effect::Repeatable && self.endpoints.len() > 1 {
                // A server that hangs leaves time to ask another.
                deadline.min(Instant::now() + self.options.timeout / 3)
            } else {
                deadline
            };
            let call = tokio::time::timeout_at(patience, send(connection.clone()));
            let (verdict, what) = match self.unless_frozen(&connection, call).await {
                Some(Ok(Ok(answer))) => return Ok(answer),
                Some(Ok(Err(status))) => (judge(&status, context), words_of(&status)),
                Some(Err(_)) => (Verdict::PerhapsDone, "no answer in time".to_owned()),
                None => (Verdict::PerhapsDone, "the server does not say anything".to_owned()),
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
        (Code::Unavailable | Code::ResourceExhausted, words::TOO_MANY_REQUESTS) => Verdict::NotDone,
        // etcd has no space any more and says so *after* it has applied the transaction that met that (its `applierV3`'s
        // quota; an answer that is too large for us is told by the same code): what was asked for may have been done.
        (Code::ResourceExhausted | Code::DataLoss, _) => Verdict::PerhapsDone,
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
