//! A watch that outlives outages: whenever its stream breaks it asks anew from the revision that it has not seen. One for who
//! has to know whether it is still the same metadata keeps to the connection that he has read by, and ends with its stream: what
//! answers after a break may be an older copy, which others have written to since.

use super::Client;
use super::connection::Line;
use super::exchange::{MAX_ANSWER_BYTES, Shared, Untold, is_stale, is_stale_text, words_of};
use super::user::Token;
use crate::call::{Batch, Event};
use crate::error::{Error, Refusal};
use crate::wire::convert::{prefix_range, revision, signed, unsigned};
use crate::wire::{self, path, words};
use http::uri::PathAndQuery;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;
use tonic_prost::ProstCodec;

/// Batches that wait for the reader; then the server's stream is no longer read, and it waits.
const QUEUE: usize = 64;
/// The pauses between attempts, while no server answers.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// A member that lags behind the others is at an older revision for a moment. One that is still there after so many
/// attempts (a second and a half) is no longer what it was: it was restored from an older copy, and would be silent until
/// it comes to the revision that was asked for.
const BEHIND_ATTEMPTS: u32 = 5;

/// The changes of the keys with a prefix, in order: an iterator that blocks until there is one. It ends when it is
/// stopped, and after an error ([`Refusal::Compacted`]: read everything anew, and watch from there).
#[derive(Debug)]
pub struct Watch {
    batches: mpsc::Receiver<Result<Batch, Error>>,
    stop: WatchStop,
    client: Client,
}

/// Ends a watch from another thread.
#[derive(Clone, Debug)]
pub struct WatchStop(Arc<Notify>);

impl WatchStop {
    /// The watch's `next` returns `None`, now or as soon as it has handed over what it had.
    pub fn stop(&self) {
        self.0.notify_one();
    }
}

/// What came within the time given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waited {
    /// Changes, or the error that ends the watch.
    Item(Result<Batch, Error>),
    Nothing,
    /// The watch has ended.
    Ended,
}

impl Watch {
    /// `line`: it is by that connection, and does not outlive its stream.
    pub(super) fn start(client: Client, prefix: &str, from_revision: u64, line: Option<Line>) -> Watch {
        let (sender, batches) = mpsc::channel(QUEUE);
        let stop = WatchStop(Arc::new(Notify::new()));
        let task = Task {
            shared: Arc::clone(&client.inner.shared),
            prefix: prefix.to_owned(),
            next: from_revision,
            sender,
            line,
            pause: FIRST_PAUSE,
            behind: 0,
            denied: false,
        };
        client.inner.handle.spawn(task.run(stop.clone()));
        Watch { batches, stop, client }
    }

    /// What ends the watch.
    #[must_use]
    pub fn stopper(&self) -> WatchStop {
        self.stop.clone()
    }

    /// Waits for the next batch, but no longer than `longest`.
    pub fn wait(&mut self, longest: Duration) -> Waited {
        let batches = &mut self.batches;
        // The time-out is made inside: it needs the runtime's clock.
        match self
            .client
            .inner
            .handle
            .block_on(async { tokio::time::timeout(longest, batches.recv()).await })
        {
            Ok(Some(item)) => Waited::Item(item),
            Ok(None) => Waited::Ended,
            Err(_) => Waited::Nothing,
        }
    }
}

impl Iterator for Watch {
    type Item = Result<Batch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.blocking_recv()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

struct Task {
    shared: Arc<Shared>,
    prefix: String,
    /// The first revision that was not handed over. Zero: whatever comes first.
    next: u64,
    sender: mpsc::Sender<Result<Batch, Error>>,
    /// The connection that it keeps to.
    line: Option<Line>,
    pause: Duration,
    /// How often in a row the server was behind.
    behind: u32,
    /// The last attempt was denied: etcd says so also when it is the token that is not good any more.
    denied: bool,
}

/// Why a stream of the server ended.
enum End {
    /// Nobody reads any more.
    Unread,
    /// It broke: ask anew.
    Broken,
    /// It cannot go on.
    Failed(Error),
}

impl Task {
    async fn run(mut self, stop: WatchStop) {
        let stopped = stop.0.notified();
        let work = async {
            loop {
                match self.stream().await {
                    End::Unread => return,
                    End::Failed(error) => {
                        // A reader that is gone needs no error.
                        let _ = self.sender.send(Err(error)).await;
                        return;
                    }
                    End::Broken if self.line.is_some() => {
                        let broken = Error::Unavailable {
                            what: "the stream of a watch has ended".to_owned(),
                            endpoints: self.shared.endpoints(),
                        };
                        let _ = self.sender.send(Err(broken)).await;
                        return;
                    }
                    End::Broken => {
                        tokio::time::sleep(self.pause).await;
                        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                    }
                }
            }
        };
        tokio::select! {
            () = work => {}
            () = stopped => {}
        }
    }

    /// One stream, until it ends.
    async fn stream(&mut self) -> End {
        let Ok(connection) = self.shared.connection().await else {
            return End::Broken;
        };
        if self.line.is_some_and(|line| line != connection.line()) {
            return End::Broken;
        }
        let token = match self.shared.token(&connection).await {
            Ok(token) => token,
            Err(Untold::Refused(error)) => return End::Failed(error),
            Err(Untold::Lost(_)) => {
                self.shared.give_up(&connection).await;
                return End::Broken;
            }
        };
        let (key, range_end) = prefix_range(&self.prefix);
        let create = wire::WatchCreateRequest {
            key,
            range_end,
            start_revision: signed(self.next),
            ..Default::default()
        };
        let create = wire::WatchRequest {
            request_union: Some(wire::WatchUnion::Create(create)),
        };
        // The requests' side stays open for as long as the watch is wanted, and no longer: HTTP/2 keeps a stream until both sides
        // have ended, and the server has only so many for us.
        let (asks, asked) = mpsc::channel(1);
        // There is room for one.
        let _ = asks.try_send(create);
        let mut request = Request::new(ReceiverStream::new(asked));
        // A member that is cut off from the others ends the stream instead of staying silent.
        request
            .metadata_mut()
            .insert("hasleader", tonic::metadata::MetadataValue::from_static("true"));
        Token::attach(token.as_ref(), &mut request);
        let codec = ProstCodec::<wire::WatchRequest, wire::WatchResponse>::new();
        let mut grpc = connection.grpc(MAX_ANSWER_BYTES);
        let opening = grpc.streaming(request, PathAndQuery::from_static(path::WATCH), codec);
        let mut responses = match tokio::time::timeout(self.shared.options.timeout, opening).await {
            Ok(Ok(responses)) => responses.into_inner(),
            Ok(Err(status)) if status.code() == tonic::Code::Unimplemented => {
                let refusal = Refusal::Server {
                    code: "Unimplemented".to_owned(),
                    message: words_of(&status),
                };
                return End::Failed(refusal.into());
            }
            Ok(Err(status)) if is_stale(&status) && token.is_some() => {
                self.renew(token.as_ref()).await;
                return End::Broken;
            }
            Ok(Err(_)) | Err(_) => {
                self.shared.give_up(&connection).await;
                return End::Broken;
            }
        };
        loop {
            let response = match responses.message().await {
                Ok(Some(response)) => response,
                Ok(None) => return End::Broken,
                Err(status) if is_stale(&status) && token.is_some() => {
                    self.renew(token.as_ref()).await;
                    return End::Broken;
                }
                Err(_) => {
                    self.shared.give_up(&connection).await;
                    return End::Broken;
                }
            };
            if response.canceled && token.is_some() && self.is_denied_for_the_first_time(&response.cancel_reason) {
                self.renew(token.as_ref()).await;
                return End::Broken;
            }
            match self.take(response).await {
                Ok(()) => self.pause = FIRST_PAUSE,
                Err(end) => return end,
            }
        }
    }

    async fn renew(&self, token: Option<&Token>) {
        if let Some(token) = token {
            self.shared.forget(token).await;
        }
    }

    fn is_denied_for_the_first_time(&mut self, reason: &str) -> bool {
        let denied = is_stale_text(reason) || reason.contains(words::PERMISSION_DENIED);
        denied && !std::mem::replace(&mut self.denied, denied)
    }

    async fn take(&mut self, response: wire::WatchResponse) -> Result<(), End> {
        if response.compact_revision > 0 {
            let compacted = unsigned(response.compact_revision, "compact_revision").unwrap_or(0);
            return Err(End::Failed(Refusal::Compacted { compacted }.into()));
        }
        if response.canceled {
            let message = response.cancel_reason;
            if message.is_empty() || message.contains("no leader") {
                return Err(End::Broken);
            }
            return Err(End::Failed(
                Refusal::Server {
                    code: "watch".to_owned(),
                    message,
                }
                .into(),
            ));
        }
        // What cannot be read is asked for again: it may have been cut on its way.
        let newest = revision(response.header.as_ref()).map_err(|_| End::Broken)?;
        if response.created && self.next == 0 {
            self.next = newest + 1;
        }
        if response.created && newest + 1 < self.next {
            self.behind += 1;
            if self.behind < BEHIND_ATTEMPTS {
                return Err(End::Broken);
            }
            let (seen, found) = (self.next - 1, newest);
            return Err(End::Failed(Refusal::WentBack { seen, found }.into()));
        }
        (self.behind, self.denied) = (0, false);
        let events: Vec<Event> = response
            .events
            .into_iter()
            .map(Event::try_from)
            .collect::<Result<_, _>>()
            .map_err(|_| End::Broken)?;
        let Some(last) = events.last() else { return Ok(()) };
        let batch = Batch {
            revision: last.revision(),
            events,
        };
        // A revision is told once and in order: a server that goes back is not one to go on with.
        if batch.events.iter().any(|event| event.revision() < self.next)
            || !batch.events.is_sorted_by_key(Event::revision)
        {
            return Err(End::Broken);
        }
        self.next = batch.revision + 1;
        self.sender.send(Ok(batch)).await.map_err(|_| End::Unread)
    }
}
