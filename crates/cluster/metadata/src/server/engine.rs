//! The thread that owns the keys and the file: takes what waits, carries it out, commits once, answers.
//!
//! Nothing is answered, and no watch told, before it is durable. When a commit fails nobody knows what the file holds: it
//! is opened anew, and what is found there is what holds. Where that fails as well nothing is answered; it is tried again.
//!
//! A disk that is nearly full is noticed before it is: what would change something is refused, as etcd does when its space is
//! used up, and leases that are over end when there is room again. Reads, and the renewal of leases, go on.

use super::disk::{Changed, Disk};
use super::space::Space;
use super::{Config, StartError};
use crate::call::{Batch, Call, LeaseId, Op, Reply};
use crate::error::Refusal;
use crate::model::State;
use crate::wire::convert::Span;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// Requests that wait for the engine; more are refused with "too many requests".
const QUEUE: usize = 1024;
/// The most requests of one commit, so that no answer waits long for others.
const MOST_AT_ONCE: usize = 256;
/// Batches that wait for a watcher's connection. A watcher that is further behind is cut off; its client asks anew.
const WATCH_QUEUE: usize = 256;
/// The most watches of all clients.
pub(super) const MAX_WATCHES: usize = 4096;
/// Catching up, a watch gets about so many bytes at once.
const CATCH_UP_BYTES: usize = 512 * 1024;
/// Compaction spares this part of the history when it is too long, so that it is not done at every request.
const COMPACT_SLACK: usize = 16;

/// Why a request got no answer.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// The model refused it.
    Refused(Refusal),
    /// The commit failed: perhaps it is on the disk.
    CommitFailed(String),
    /// An earlier commit failed.
    Poisoned(String),
    /// The disk is full: nothing was changed.
    NoSpace,
    /// There are too many watches.
    TooManyWatches,
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        Failure::Refused(refusal)
    }
}

pub(super) type Answer<T> = oneshot::Sender<Result<(u64, T), Failure>>;

/// What a watch's channel carries.
#[derive(Debug)]
pub(super) enum WatchEvent {
    /// Changes, and the newest revision.
    Changes(u64, Batch),
    /// The history does not reach back so far.
    Compacted(u64),
}

#[derive(Clone, Debug)]
pub(super) struct LeaseFacts {
    pub(super) ttl_s: u64,
    pub(super) left_s: u64,
    pub(super) keys: Vec<String>,
}

/// What the engine is asked. Each answer comes with the newest revision.
pub(super) enum EngineRequest {
    Txn(Call, Answer<Reply>),
    Grant {
        id: Option<LeaseId>,
        ttl_s: u64,
        answer: Answer<LeaseId>,
    },
    KeepAlive(LeaseId, Answer<u64>),
    Revoke(LeaseId, Answer<()>),
    TimeToLive(LeaseId, Answer<LeaseFacts>),
    Leases(Answer<Vec<LeaseId>>),
    Compact(u64, Answer<()>),
    Watch {
        span: Span,
        from_revision: u64,
        answer: Answer<mpsc::Receiver<WatchEvent>>,
    },
    Stop,
}

/// The running engine.
pub(super) struct Engine {
    requests: SyncSender<EngineRequest>,
    thread: JoinHandle<()>,
}

impl Engine {
    pub(super) fn start(config: &Config) -> Result<Engine, StartError> {
        let started = Instant::now();
        let (disk, state) = Disk::open(&config.path, Duration::ZERO)?;
        let (requests, waiting) = sync_channel(QUEUE);
        let mut work = Work {
            started,
            state,
            disk,
            watchers: Vec::new(),
            history: config.history.max(1),
            path: config.path.clone(),
            poisoned: None,
            space: Space::new(&config.path),
            over_since: None,
            changed: Changed::default(),
        };
        let thread = std::thread::Builder::new()
            .name("amita-meta-keys".to_owned())
            .spawn(move || work.run(&waiting))
            .map_err(StartError::Resources)?;
        Ok(Engine { requests, thread })
    }

    pub(super) fn requests(&self) -> SyncSender<EngineRequest> {
        self.requests.clone()
    }

    pub(super) fn stop(self) {
        // A thread that has ended needs no request to end.
        let _ = self.requests.send(EngineRequest::Stop);
        let _ = self.thread.join();
    }
}

struct Watcher {
    span: Span,
    /// The first revision that it was not told.
    next: u64,
    sender: mpsc::Sender<WatchEvent>,
}

struct Work {
    started: Instant,
    state: State,
    disk: Disk,
    watchers: Vec<Watcher>,
    history: usize,
    path: PathBuf,
    /// A commit has failed, and the file could not be opened anew yet: why, and when that was tried last.
    poisoned: Option<(String, Duration)>,
    space: Space,
    /// Leases are over, and there is no room to write that: when that was seen last.
    over_since: Option<Duration>,
    changed: Changed,
}

/// How often is looked whether there is room again for what waits for it.
const SPACE_PAUSE: Duration = Duration::from_secs(1);
/// A file that cannot be opened anew is tried again after this.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);

/// An answer that waits for the commit.
type Ready = Box<dyn FnOnce(Option<&Failure>, u64)>;

impl Work {
    fn run(&mut self, waiting: &Receiver<EngineRequest>) {
        loop {
            let mut ready: Vec<Ready> = Vec::new();
            let mut stop = false;
            let retry = self.poisoned.as_ref().map(|(_, tried)| *tried + REOPEN_PAUSE);
            let deadline = match self.over_since {
                Some(seen) => Some(seen + SPACE_PAUSE),
                None => self.state.deadline(),
            };
            let first = match deadline.into_iter().chain(retry).min() {
                None => waiting.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(deadline) => waiting.recv_timeout(deadline.saturating_sub(self.now())),
            };
            let now = self.now();
            self.reopen(now);
            match first {
                Ok(ask) => {
                    let more = std::iter::once(ask).chain(waiting.try_iter().take(MOST_AT_ONCE - 1));
                    for ask in more {
                        stop |= matches!(ask, EngineRequest::Stop);
                        ready.extend(self.take(now, ask));
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => stop = true,
            }
            self.end_leases(now);
            // Whatever was carried out in this pass and is not surely durable may be on the disk.
            let failure = self.commit().err().map(|failure| match failure {
                Failure::Poisoned(what) => Failure::CommitFailed(what),
                failure => failure,
            });
            let revision = self.state.revision();
            for answer in ready {
                answer(failure.as_ref(), revision);
            }
            if failure.is_none() {
                self.tell();
                self.shorten();
            } else {
                self.watchers.clear();
            }
            if stop {
                return;
            }
        }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Ends the leases that are over, where there is room to write that.
    fn end_leases(&mut self, now: Duration) {
        self.over_since = None;
        if self.state.deadline().is_none_or(|deadline| deadline > now) {
            return;
        }
        if self.space.is_left() {
            self.changed.ended.extend(self.state.tick(now));
        } else {
            self.over_since = Some(now);
        }
    }

    /// Carries out one request on the model; the answer waits for the commit. A watch's first changes come before those
    /// of later requests, because it starts from a revision.
    fn take(&mut self, now: Duration, ask: EngineRequest) -> Option<Ready> {
        if let Some((what, _)) = &self.poisoned {
            refuse(ask, &Failure::Poisoned(what.clone()));
            return None;
        }
        if changes(&ask) && !self.space.is_left() {
            refuse(ask, &Failure::NoSpace);
            return None;
        }
        match ask {
            EngineRequest::Txn(call, answer) => {
                let result = self.state.txn(&call);
                Some(later(answer, result))
            }
            EngineRequest::Grant { id, ttl_s, answer } => {
                let result = self.state.lease_grant(now, ttl_s, id);
                if let Ok(id) = result {
                    self.changed.granted.push((id, ttl_s));
                }
                Some(later(answer, result))
            }
            EngineRequest::KeepAlive(id, answer) => {
                let result = self.state.lease_keepalive(now, id);
                Some(later(answer, result))
            }
            EngineRequest::Revoke(id, answer) => {
                let result = self.state.lease_revoke(id);
                if result.is_ok() {
                    self.changed.ended.push(id);
                }
                Some(later(answer, result))
            }
            EngineRequest::TimeToLive(id, answer) => {
                let facts = self.state.lease(id).map(|lease| LeaseFacts {
                    ttl_s: lease.ttl_s,
                    left_s: lease.expires.saturating_sub(now).as_secs(),
                    keys: lease.keys.iter().cloned().collect(),
                });
                Some(later(answer, facts.ok_or(Refusal::LeaseNotFound(id))))
            }
            EngineRequest::Leases(answer) => {
                let leases = self.state.leases().map(|(id, _)| id).collect();
                Some(later(answer, Ok(leases)))
            }
            EngineRequest::Compact(revision, answer) => {
                // What is compacted must be in the file's keys already.
                let result = match self.commit() {
                    Ok(()) => self.state.compact(revision),
                    Err(failure) => {
                        refuse(EngineRequest::Compact(revision, answer), &failure);
                        return None;
                    }
                };
                Some(later(answer, result))
            }
            EngineRequest::Watch {
                span,
                from_revision,
                answer,
            } => {
                self.watchers.retain(|watcher| !watcher.sender.is_closed());
                if self.watchers.len() >= MAX_WATCHES {
                    refuse(
                        EngineRequest::Watch {
                            span,
                            from_revision,
                            answer,
                        },
                        &Failure::TooManyWatches,
                    );
                    return None;
                }
                let (sender, receiver) = mpsc::channel(WATCH_QUEUE);
                let next = if from_revision == 0 {
                    self.state.revision() + 1
                } else {
                    from_revision
                };
                self.watchers.push(Watcher { span, next, sender });
                Some(later(answer, Ok(receiver)))
            }
            EngineRequest::Stop => None,
        }
    }

    /// Makes the model's changes durable, if there are any.
    fn commit(&mut self) -> Result<(), Failure> {
        if let Some((what, _)) = &self.poisoned {
            return Err(Failure::Poisoned(what.clone()));
        }
        if self.state.revision() == self.disk.revision() && self.changed.is_empty() {
            return Ok(());
        }
        let changed = std::mem::take(&mut self.changed);
        let now = self.now();
        self.disk.commit(&self.state, &changed).map_err(|what| {
            log::error!(
                "the metadata file {} could not be written: {what}; nothing is changed until it can",
                self.path.display()
            );
            self.poisoned = Some((what.clone(), now.saturating_sub(REOPEN_PAUSE)));
            Failure::CommitFailed(what)
        })
    }

    /// After a commit that failed: what the file has is what holds.
    fn reopen(&mut self, now: Duration) {
        let Some((what, tried)) = &mut self.poisoned else {
            return;
        };
        if now < *tried + REOPEN_PAUSE {
            return;
        }
        *tried = now;
        // One process has the file open once.
        self.disk.close();
        match Disk::open(&self.path, now) {
            Ok((disk, state)) => {
                log::warn!(
                    "the metadata file {} was opened anew, after: {what}; the metadata is at revision {}",
                    self.path.display(),
                    state.revision()
                );
                (self.disk, self.state) = (disk, state);
                self.changed = Changed::default();
                self.poisoned = None;
                // They may have been told nothing that the file has not; but where they go on from, it has to be seen anew.
                self.watchers.clear();
            }
            Err(why) => *what = why.to_string(),
        }
    }

    /// Tells every watcher what it has not seen. One that is too slow is dropped.
    fn tell(&mut self) {
        let state = &self.state;
        self.watchers.retain_mut(|watcher| tell(state, watcher));
    }

    /// Forgets old history when it is too long, in steps.
    fn shorten(&mut self) {
        let excess = self.state.history_len().saturating_sub(self.history);
        if excess > self.history / COMPACT_SLACK {
            let to = self.state.compacted() + excess as u64;
            self.state.compact(to).expect("it lies within the history");
            // It reaches the file with the next commit: a restart before that only remembers more.
        }
    }
}

/// Would it change what is in the file?
fn changes(ask: &EngineRequest) -> bool {
    let writes = |op: &Op| matches!(op, Op::Put { .. } | Op::Delete { .. });
    match ask {
        EngineRequest::Txn(call, _) => call.then.iter().chain(&call.otherwise).any(writes),
        EngineRequest::Grant { .. } | EngineRequest::Revoke(..) | EngineRequest::Compact(..) => true,
        EngineRequest::KeepAlive(..)
        | EngineRequest::TimeToLive(..)
        | EngineRequest::Leases(..)
        | EngineRequest::Watch { .. }
        | EngineRequest::Stop => false,
    }
}

fn tell(state: &State, watcher: &mut Watcher) -> bool {
    if watcher.next > state.revision() {
        return !watcher.sender.is_closed();
    }
    let mut pending: Option<(usize, Batch)> = None;
    let send = |sender: &mpsc::Sender<WatchEvent>, batch: Batch| {
        sender.try_send(WatchEvent::Changes(state.revision(), batch)).is_ok()
    };
    let changes = match state.changes(watcher.span.prefix(), watcher.next) {
        Ok(changes) => changes,
        Err(_) => {
            // If its queue is full it is dropped without a word, asks anew, and hears this then.
            let _ = watcher.sender.try_send(WatchEvent::Compacted(state.compacted()));
            return false;
        }
    };
    for mut batch in changes {
        batch.events.retain(|event| watcher.span.matches(event.key()));
        if batch.events.is_empty() {
            continue;
        }
        let bytes: usize = batch.events.iter().map(size_of).sum();
        match &mut pending {
            Some((size, whole)) if *size + bytes <= CATCH_UP_BYTES => {
                *size += bytes;
                whole.revision = batch.revision;
                whole.events.append(&mut batch.events);
            }
            _ => {
                if let Some((_, whole)) = pending.replace((bytes, batch))
                    && !send(&watcher.sender, whole)
                {
                    return false;
                }
            }
        }
    }
    watcher.next = state.revision() + 1;
    pending.is_none_or(|(_, whole)| send(&watcher.sender, whole)) && !watcher.sender.is_closed()
}

fn size_of(event: &crate::call::Event) -> usize {
    let value = if let crate::call::Event::Put(value) = event {
        value.value.len()
    } else {
        0
    };
    event.key().len() + value
}

/// Holds an answer back until the commit. Whoever asked may have gone away meanwhile.
fn later<T: 'static>(answer: Answer<T>, result: Result<T, Refusal>) -> Ready {
    Box::new(move |failure, revision| {
        let result = match failure {
            Some(failure) => Err(failure.clone()),
            None => result.map(|value| (revision, value)).map_err(Failure::from),
        };
        let _ = answer.send(result);
    })
}

fn refuse(ask: EngineRequest, failure: &Failure) {
    fn send<T>(answer: Answer<T>, failure: &Failure) {
        let _ = answer.send(Err(failure.clone()));
    }
    match ask {
        EngineRequest::Txn(_, answer) => send(answer, failure),
        EngineRequest::Grant { answer, .. } => send(answer, failure),
        EngineRequest::KeepAlive(_, answer) => send(answer, failure),
        EngineRequest::Revoke(_, answer) | EngineRequest::Compact(_, answer) => send(answer, failure),
        EngineRequest::TimeToLive(_, answer) => send(answer, failure),
        EngineRequest::Leases(answer) => send(answer, failure),
        EngineRequest::Watch { answer, .. } => send(answer, failure),
        EngineRequest::Stop => {}
    }
}
