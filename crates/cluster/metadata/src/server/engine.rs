//! The thread that owns the keys and the file: takes what waits, carries it out, commits once, answers.
//!
//! Nothing is answered, and no watch told, before it is durable. When a commit fails nobody knows what the file holds: it
//! is opened anew, and what is found there is what holds. Where that fails as well nothing is answered; it is tried again.
//!
//! A disk that is nearly full is noticed before it is: what would change something is refused, as etcd does when its space is
//! used up, and leases that are over end when there is room again. Reads, and the renewal of leases, go on.

use super::disk::{Changed, Disk};
use super::owners::Owners;
use super::queue::Queue;
use super::quota::Quota;
use super::shares::{Good, Holder, Share};
use super::space::Space;
use super::{Config, StartError};
use crate::call::{Batch, Call, Event, LeaseId, Op, Reply};
use crate::error::Refusal;
use crate::model::State;
use crate::wire::convert::Span;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// The most requests of one commit beside renewals, and how long they are carried out before it, so that no answer, and no
/// renewal that comes meanwhile, waits long for others.
const MOST_AT_ONCE: usize = 256;
const LONGEST_PASS: Duration = Duration::from_millis(50);
/// Batches that wait for a watcher's connection. A watcher that is further behind is told more when it has taken them.
const WATCH_QUEUE: usize = 2;
/// The most watches of all clients.
pub(super) const MAX_WATCHES: usize = 4096;
/// Catching up, a watch gets about so many bytes at once.
const CATCH_UP_BYTES: usize = 128 * 1024;
/// What one batch is counted as at most: a revision is never cut in two, however large it is.
const MAX_BATCH_BYTES: usize = 32 * 1024 * 1024;

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
    /// There are too many watches, or the holder has too many.
    TooManyWatches,
    /// The answer would hold more bytes than are left, or than the holder may have. Nothing was done.
    TooManyBytes,
    /// The holder has that many leases.
    TooManyLeases(usize),
    /// It is somebody else's.
    Denied,
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
    /// Changes, the newest revision, and what they hold.
    Changes(u64, Batch, Share),
    /// The history does not reach back so far.
    Compacted(u64),
}

impl std::fmt::Debug for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Share")
    }
}

/// What a watch is told by.
pub(super) struct Told {
    events: mpsc::Receiver<WatchEvent>,
    waits: Arc<AtomicBool>,
    engine: Queue,
}

impl Told {
    /// The next; the engine is told when it waits for room.
    pub(super) async fn next(&mut self) -> Option<WatchEvent> {
        let event = self.events.recv().await;
        if self.waits.swap(false, Ordering::SeqCst) {
            self.engine.look();
        }
        event
    }
}

/// How large everything is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) keys_bytes: usize,
    pub(super) history_bytes: usize,
    /// Something is refused for want of space.
    pub(super) no_space: bool,
}

#[derive(Clone, Debug)]
pub(super) struct LeaseFacts {
    pub(super) ttl_s: u64,
    pub(super) left_s: u64,
    pub(super) keys: Vec<String>,
}

/// What the engine is asked. Each answer comes with the newest revision.
pub(super) enum EngineRequest {
    Txn {
        call: Call,
        holder: Arc<Holder>,
        answer: Answer<(Reply, Share)>,
    },
    Grant {
        id: Option<LeaseId>,
        ttl_s: u64,
        holder: Arc<Holder>,
        answer: Answer<LeaseId>,
    },
    KeepAlive(LeaseId, Whose, Answer<u64>),
    Revoke(LeaseId, Whose, Answer<()>),
    TimeToLive(LeaseId, Answer<LeaseFacts>),
    Leases(Answer<Vec<LeaseId>>),
    Sizes(Answer<Sizes>),
    Compact(u64, Answer<()>),
    Watch {
        span: Span,
        from_revision: u64,
        holder: Arc<Holder>,
        answer: Answer<Told>,
    },
}

/// Whose leases somebody may touch: their own, and those of others if that is said.
#[derive(Clone)]
pub(super) struct Whose {
    pub(super) holder: Arc<Holder>,
    pub(super) also_others: bool,
}

/// The running engine.
pub(super) struct Engine {
    requests: Queue,
    thread: JoinHandle<()>,
}

impl Engine {
    pub(super) fn start(config: &Config) -> Result<Engine, StartError> {
        let started = Instant::now();
        let (disk, state, owners) = Disk::open(&config.path, Duration::ZERO)?;
        let requests = Queue::default();
        let mut work = Work {
            started,
            state,
            disk,
            owners,
            quota: Quota::new(config.quota_bytes),
            reserved: config.reserved.clone(),
            requests: requests.clone(),
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
            .spawn(move || work.run())
            .map_err(StartError::Resources)?;
        Ok(Engine { requests, thread })
    }

    pub(super) fn requests(&self) -> Queue {
        self.requests.clone()
    }

    pub(super) fn stop(self) {
        self.requests.stop();
        let _ = self.thread.join();
    }
}

struct Watcher {
    span: Span,
    /// The first revision that it was not told.
    next: u64,
    sender: mpsc::Sender<WatchEvent>,
    /// There is more to tell when there is room.
    waits: Arc<AtomicBool>,
    /// Its holder has too many bytes on their way: when it is looked at again, and the bytes that it waits for.
    starved: Option<(Duration, usize)>,
    holder: Arc<Holder>,
    _place: Share,
}

struct Work {
    started: Instant,
    state: State,
    disk: Disk,
    owners: Owners,
    quota: Quota,
    /// Prefixes of keys that may use the quota's reserve.
    reserved: Vec<String>,
    requests: Queue,
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

/// Changes that found no bytes left are tried again after this.
const STARVED_PAUSE: Duration = Duration::from_millis(100);

/// An answer that waits for the commit.
type Ready = Box<dyn FnOnce(Option<&Failure>, u64)>;

impl Drop for Work {
    fn drop(&mut self) {
        self.requests.end();
    }
}

impl Work {
    fn run(&mut self) {
        loop {
            let mut ready: Vec<Ready> = Vec::new();
            let retry = self.poisoned.as_ref().map(|(_, tried)| *tried + REOPEN_PAUSE);
            let deadline = match self.over_since {
                Some(seen) => Some(seen + SPACE_PAUSE),
                None => self.state.deadline(),
            };
            let again = self.watchers.iter().filter_map(|watcher| watcher.starved);
            let again = again.map(|(until, _)| until).min();
            let next = deadline.into_iter().chain(retry).chain(again).min();
            let goes_on = self.requests.wait(next.map(|next| next.saturating_sub(self.now())));
            let now = self.now();
            self.reopen(now);
            // All that came before `now`: whoever has said that he lives loses no lease below.
            while let Some(renewal) = self.requests.renewal() {
                ready.extend(self.take(now, renewal));
            }
            for _ in 0..MOST_AT_ONCE {
                let Some(request) = self.requests.other() else { break };
                ready.extend(self.take(now, request));
                if self.now() >= now + LONGEST_PASS {
                    break;
                }
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
            if !goes_on {
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
            for id in self.state.tick(now) {
                self.owners.remove(id);
                self.changed.ended.push(id);
            }
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
            EngineRequest::Txn { call, holder, answer } => match self.admit(&call, &holder) {
                Ok(share) => {
                    let result = self.state.txn(&call);
                    Some(later(answer, result.map(|reply| (reply, share))))
                }
                Err(failure) => {
                    let _ = answer.send(Err(failure));
                    None
                }
            },
            EngineRequest::Grant {
                id,
                ttl_s,
                holder,
                answer,
            } => {
                let held = self.owners.count(holder.name());
                if held >= holder.most_leases() {
                    let _ = answer.send(Err(Failure::TooManyLeases(held)));
                    return None;
                }
                let result = self.state.lease_grant(now, ttl_s, id);
                if let Ok(id) = result {
                    self.owners.add(id, Arc::clone(holder.name()));
                    self.changed.granted.push((id, ttl_s, Arc::clone(holder.name())));
                }
                Some(later(answer, result))
            }
            EngineRequest::KeepAlive(id, whose, answer) => {
                if !self.is_touchable(id, &whose) {
                    let _ = answer.send(Err(Failure::Denied));
                    return None;
                }
                let result = self.state.lease_keepalive(now, id);
                Some(later(answer, result))
            }
            EngineRequest::Revoke(id, whose, answer) => {
                if !self.is_touchable(id, &whose) {
                    let _ = answer.send(Err(Failure::Denied));
                    return None;
                }
                let result = self.state.lease_revoke(id);
                if result.is_ok() {
                    self.owners.remove(id);
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
            EngineRequest::Sizes(answer) => {
                let keys_bytes = self.state.keys_bytes();
                let sizes = Sizes {
                    keys_bytes,
                    history_bytes: self.state.history_bytes(),
                    no_space: self.quota.alarm(keys_bytes) | !self.space.is_left(),
                };
                Some(later(answer, Ok(sizes)))
            }
            EngineRequest::Compact(revision, answer) => {
                // What is compacted must be in the file's keys already.
                if let Err(failure) = self.commit() {
                    refuse(EngineRequest::Compact(revision, answer), &failure);
                    return None;
                }
                let result = self.state.compact(revision);
                self.changed.compacted |= result.is_ok();
                Some(later(answer, result))
            }
            EngineRequest::Watch {
                span,
                from_revision,
                holder,
                answer,
            } => {
                self.watchers.retain(|watcher| !watcher.sender.is_closed());
                let Some(place) = holder.take(Good::Watches, 1) else {
                    let _ = answer.send(Err(Failure::TooManyWatches));
                    return None;
                };
                let (sender, events) = mpsc::channel(WATCH_QUEUE);
                let waits = Arc::new(AtomicBool::new(false));
                let next = if from_revision == 0 {
                    self.state.revision() + 1
                } else {
                    from_revision
                };
                self.watchers.push(Watcher {
                    span,
                    next,
                    sender,
                    waits: Arc::clone(&waits),
                    starved: None,
                    holder,
                    _place: place,
                });
                let told = Told {
                    events,
                    waits,
                    engine: self.requests.clone(),
                };
                Some(later(answer, Ok(told)))
            }
        }
    }

    /// May it be carried out: is there room for what it adds, and for its answer?
    fn admit(&mut self, call: &Call, holder: &Arc<Holder>) -> Result<Share, Failure> {
        call.check()?;
        let growth = self.state.growth_bytes(call);
        let reserved = self.state.puts_only(call, &self.reserved);
        if !self.quota.admits(self.state.keys_bytes(), growth, reserved) {
            return Err(Failure::NoSpace);
        }
        let bytes = self.state.answer_bytes(call, Good::Bytes.most());
        holder.take(Good::Bytes, bytes).ok_or(Failure::TooManyBytes)
    }

    /// Leases that were granted to an address are anybody's: nobody was asked who they are.
    fn is_touchable(&self, id: LeaseId, whose: &Whose) -> bool {
        let owner = self.owners.owner(id);
        whose.also_others || owner.is_none_or(|owner| owner == whose.holder.name() || Holder::is_address(owner))
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
            Ok((disk, state, owners)) => {
                log::warn!(
                    "the metadata file {} was opened anew, after: {what}; the metadata is at revision {}",
                    self.path.display(),
                    state.revision()
                );
                (self.disk, self.state, self.owners) = (disk, state, owners);
                self.changed = Changed::default();
                self.poisoned = None;
                // They may have been told nothing that the file has not; but where they go on from, it has to be seen anew.
                self.watchers.clear();
            }
            Err(why) => *what = why.to_string(),
        }
    }

    /// Tells every watcher what it has not seen, as far as there is room.
    fn tell(&mut self) {
        let (state, now) = (&self.state, self.now());
        self.watchers.retain_mut(|watcher| tell(state, watcher, now));
    }

    /// Forgets old history when it is too long or too large, in steps.
    fn shorten(&mut self) {
        if let Some(to) = self.state.excess(self.history, self.quota.history_bytes()) {
            self.state.compact(to).expect("it lies within the history");
            // It reaches the file with the next commit: a restart before that only remembers more.
        }
        self.quota.alarm(self.state.keys_bytes());
    }
}

/// Would it change what is in the file?
fn changes(ask: &EngineRequest) -> bool {
    match ask {
        EngineRequest::Txn { call, .. } => call.then.iter().chain(&call.otherwise).any(Op::is_write),
        EngineRequest::Grant { .. } | EngineRequest::Revoke(..) | EngineRequest::Compact(..) => true,
        EngineRequest::KeepAlive(..)
        | EngineRequest::TimeToLive(..)
        | EngineRequest::Leases(..)
        | EngineRequest::Sizes(..)
        | EngineRequest::Watch { .. } => false,
    }
}

/// Tells a watcher as much as there is room for; `false`: it has ended.
fn tell(state: &State, watcher: &mut Watcher, now: Duration) -> bool {
    // What it is to be told is looked for in the history, which is long, and passes are many: not before there is room for it.
    if let Some((until, bytes)) = watcher.starved {
        if now < until {
            return !watcher.sender.is_closed();
        }
        if watcher.holder.take(Good::Bytes, bytes).is_none() {
            watcher.starved = Some((now + STARVED_PAUSE, bytes));
            return !watcher.sender.is_closed();
        }
        watcher.starved = None;
    }
    while watcher.next <= state.revision() {
        let mut place = watcher.sender.try_reserve();
        if place.is_err() {
            // It says so when it has taken something; perhaps it just has.
            watcher.waits.store(true, Ordering::SeqCst);
            place = watcher.sender.try_reserve();
        }
        let Ok(place) = place else { break };
        let Ok(changes) = state.changes(watcher.span.prefix(), watcher.next) else {
            place.send(WatchEvent::Compacted(state.compacted()));
            return false;
        };
        let (batch, bytes) = gather(changes, &watcher.span);
        // Everything up to the last change that is told; where nothing more was found, everything that there is.
        let seen = if bytes >= CATCH_UP_BYTES {
            batch.revision
        } else {
            state.revision()
        };
        if !batch.events.is_empty() {
            let bytes = bytes.min(MAX_BATCH_BYTES);
            let Some(share) = watcher.holder.take(Good::Bytes, bytes) else {
                watcher.starved = Some((now + STARVED_PAUSE, bytes));
                break;
            };
            place.send(WatchEvent::Changes(state.revision(), batch, share));
        }
        watcher.next = seen + 1;
    }
    !watcher.sender.is_closed()
}

/// As many changes as are told at once, and their bytes.
fn gather(changes: impl Iterator<Item = Batch>, span: &Span) -> (Batch, usize) {
    looks();
    let (mut all, mut bytes) = (Batch::default(), 0);
    for mut batch in changes {
        batch.events.retain(|event| span.matches(event.key()));
        if batch.events.is_empty() {
            continue;
        }
        bytes += batch.events.iter().map(Event::size_bytes).sum::<usize>();
        all.revision = batch.revision;
        all.events.append(&mut batch.events);
        if bytes >= CATCH_UP_BYTES {
            break;
        }
    }
    (all, bytes)
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
        EngineRequest::Txn { answer, .. } => send(answer, failure),
        EngineRequest::Grant { answer, .. } => send(answer, failure),
        EngineRequest::KeepAlive(_, _, answer) => send(answer, failure),
        EngineRequest::Revoke(_, _, answer) | EngineRequest::Compact(_, answer) => send(answer, failure),
        EngineRequest::Sizes(answer) => send(answer, failure),
        EngineRequest::TimeToLive(_, answer) => send(answer, failure),
        EngineRequest::Leases(answer) => send(answer, failure),
        EngineRequest::Watch { answer, .. } => send(answer, failure),
    }
}

/// Counts looks into the history, in tests: the same number on every machine.
#[cfg(not(test))]
#[inline(always)]
fn looks() {}

#[cfg(test)]
use tests::looks;

#[cfg(test)]
mod tests;
