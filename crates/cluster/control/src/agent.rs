//! The control threads of a node.
//!
//! * one keeps the node's lease: gone, the coordinator takes the node for dead;
//! * one reads all records and watches for changes;
//! * a few carry out the metadata calls of the node's cores, which never wait for them;
//! * one runs the coordinator, and campaigns to be it;
//! * one looks from time to time whether copies are to be looked at;
//! * one takes and deletes snapshots by policies;
//! * one writes events.
//!
//! While the metadata is away they try again, slower and slower, and say so once. Idle, they renew the lease three times
//! in its life and otherwise sleep. Metadata that does not go on from what was seen of it ([`crate::past`]) is as good as away: nobody
//! hears what it says, and nothing is asked of it.

mod insight;
mod journal;
mod lead;
mod lease;
mod policies;
mod schedule;
mod standing;
mod watcher;

pub use insight::Insight;
pub use journal::Journal;
pub use policies::{Policies, PolicyReport};

use crate::past::{Past, PastFile};
use amita_metadata::{Call, Client, Error, Reply, WatchStop};
use amita_types::{NodeId, StoreId};
use standing::Standing;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use watcher::Watcher;

/// Threads that carry out the cores' calls: enough that one slow call does not hold up an eviction.
const WORKERS: usize = 4;
/// The most calls of the cores that wait: a sequencer has one or two for each group that changes.
const MAX_CALLS: usize = 4096;
/// The first and the longest pause while the metadata is away: when it is back, every node must renew its lease in time.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// The process number in the liveness record of a process that has stopped in good order: its key may be taken over at
/// once. It stays until its lease ends, so that a node that is only started anew is not taken for dead.
pub const STOPPED: u32 = 0;

/// What an agent is told.
#[derive(Clone, Debug)]
pub struct Config {
    pub node: NodeId,
    /// Made anew at each start of the process.
    pub session: u64,
    /// The lease's time to live, in seconds. etcd rounds small ones up.
    pub lease_ttl_s: u64,
    /// May this node be the coordinator?
    pub coordinate: bool,
    /// The coordinator's settings.
    pub coordinator: crate::coordinator::Config,
    /// The copies of a volume are looked at when the last look was asked for so long ago; `None`: only on demand.
    pub scrub_every: Option<Duration>,
    /// The lease is given back at the end: nobody waits for this process to come again.
    pub leave: bool,
    /// What the node knows of the metadata's past.
    pub past: Past,
    /// Where that is kept for the next start; none: nowhere.
    pub past_file: Option<PastFile>,
}

/// How often all copies are looked at, unless set otherwise.
pub const SCRUB_EVERY: Duration = Duration::from_secs(14 * 24 * 3600);

impl Config {
    /// The usual settings of a node.
    #[must_use]
    pub fn new(node: NodeId, session: u64) -> Config {
        Config {
            node,
            session,
            lease_ttl_s: 5,
            coordinate: true,
            coordinator: crate::coordinator::Config::default(),
            scrub_every: Some(SCRUB_EVERY),
            leave: false,
            past: Past::default(),
            past_file: None,
        }
    }
}

/// What an agent tells.
#[derive(Debug)]
pub enum Notice {
    /// A record is there, changed, or is gone.
    Record {
        key: String,
        /// The value, or `None` where it is gone.
        value: Option<Vec<u8>>,
        /// Its modification revision.
        revision: u64,
        /// The revision of its creation; 0 where it is gone.
        created: u64,
    },
    /// What the metadata says now does not go on from what was told of it: it is as good as away until [`Notice::Believed`].
    Doubted {
        /// What was found, and what to do.
        why: String,
        /// It is an older copy of itself; nothing else is known to be wrong with it.
        is_older: bool,
    },
    /// It does again: all records are told anew.
    Believed,
    /// All records were told, as they were at this revision.
    Settled {
        /// The metadata's.
        revision: u64,
    },
    /// All that has changed together was told.
    Seen,
    /// A call of [`Agent::call`] ended.
    Reply { call: u64, result: Result<Reply, Error> },
    /// The lease has ended, and a new one is taken when all clones of the sender are gone: before, hosts are to be dropped, which may
    /// have gone on by other gateways meanwhile.
    Lapsed {
        /// Held by whoever has hosts to drop.
        dropped: Sender<usize>,
    },
    /// An operator should see this.
    Warn(String),
    /// An operator may want to see this.
    Info(String),
}

/// Where notices go. Called from the agent's threads; it must not block for long.
pub type Sink = Arc<dyn Fn(Notice) + Send + Sync>;

/// Another process serves as this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameTaken {
    pub node: NodeId,
    /// The other process.
    pub pid: u32,
}

impl fmt::Display for NameTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "another process (pid {} on its host) serves as node {} and holds its lease; give this node another name, \
             or stop the other process",
            self.pid, self.node
        )
    }
}

impl std::error::Error for NameTaken {}

/// A flag that ends waits.
#[derive(Default)]
struct Stop {
    stopped: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Stop {
    fn is_set(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    fn set(&self) {
        self.stopped.store(true, Ordering::Release);
        let _held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.changed.notify_all();
    }

    /// Waits, but no longer than that; true when stopped.
    fn wait(&self, longest: Duration) -> bool {
        let until = Instant::now() + longest;
        let mut held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.is_set() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            held = self
                .changed
                .wait_timeout(held, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }
}

/// Pauses that grow, and one warning per outage.
struct Patience {
    next: Duration,
    said: bool,
}

impl Patience {
    fn new() -> Patience {
        Patience {
            next: PAUSES.0,
            said: false,
        }
    }

    fn failed(&mut self, stop: &Stop, sink: &Sink, what: &str, why: &Error) {
        if !self.said {
            sink(Notice::Warn(format!("{what}: {why}; I/O goes on, trying again")));
            self.said = true;
        }
        stop.wait(self.next);
        self.next = (self.next * 2).min(PAUSES.1);
    }

    fn worked(&mut self, sink: &Sink, what: &str) {
        if self.said {
            sink(Notice::Info(format!("{what}: the metadata answers again")));
        }
        *self = Patience::new();
    }
}

type Work = Box<dyn FnOnce(&Client) + Send>;

/// The control threads of a node; dropped, they end.
pub struct Agent {
    work: Option<Sender<Work>>,
    sink: Sink,
    stop: Arc<Stop>,
    watch: Arc<Mutex<Option<WatchStop>>>,
    events: Sender<lead::Input>,
    threads: Vec<JoinHandle<()>>,
    /// Calls that wait or are under way.
    waiting: Arc<AtomicUsize>,
    standing: Standing,
    endpoints: String,
    services: Services,
    journal: Journal,
    policies: Policies,
    insight: Insight,
}

/// What a node says of its stores: a handle, also for work that [`Agent::run`] runs.
#[derive(Clone)]
pub struct Services(lease::Shared);

impl Services {
    /// The store is mounted and serves: to be shown.
    pub fn serves(&self, store: StoreId) {
        self.0.mark(store, true);
    }

    /// The store has failed, or was closed: to be shown.
    pub fn fails(&self, store: StoreId) {
        self.0.mark(store, false);
    }

    /// Has the node's liveness record say so. Where the metadata does not answer, it is done when the lease is renewed.
    pub fn show(&self, client: &Client) {
        self.0.show(client);
    }
}

impl Agent {
    /// Takes the node's lease and starts the threads. Blocks until the lease is held.
    ///
    /// # Errors
    /// Another process holds the lease of this node and goes on renewing it.
    pub fn start(client: &Client, config: &Config, sink: Sink) -> Result<Agent, NameTaken> {
        let stop = Arc::new(Stop::default());
        let held = lease::take(client, config, &sink, &stop)?;
        let (work, queue) = channel::<Work>();
        let (events, inputs) = channel();
        let (told, drafts) = channel();
        let journal = Journal::new(told);
        let watch = Arc::new(Mutex::new(None));
        let standing = Standing::new(client.endpoints());
        let mut threads = Vec::new();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..WORKERS {
            let (client, queue) = (client.clone(), queue.clone());
            threads.push(thread("amita-call", move || worker(&client, &queue)));
        }
        let shared = lease::Shared::new(config, held);
        {
            let (client, config, sink, stop) = (client.clone(), config.clone(), sink.clone(), stop.clone());
            let (shared, standing) = (shared.clone(), standing.clone());
            let journal = journal.clone();
            threads.push(thread("amita-lease", move || {
                lease::keep(&client, &config, &sink, &stop, &shared, &standing, &journal)
            }));
        }
        {
            let (client, sink, stop, watch) = (client.clone(), sink.clone(), stop.clone(), watch.clone());
            let (events, standing) = (events.clone(), standing.clone());
            let (past, file) = (config.past.clone(), config.past_file.clone());
            threads.push(thread("amita-watch", move || {
                let watcher = Watcher {
                    client: &client,
                    sink: &sink,
                    stop: &stop,
                    current: &watch,
                    events: &events,
                    standing: &standing,
                };
                watcher.run(past, file);
            }));
        }
        {
            let (client, config, sink, stop) = (client.clone(), config.clone(), sink.clone(), stop.clone());
            let (standing, journal) = (standing.clone(), journal.clone());
            threads.push(thread("amita-schedule", move || {
                schedule::run(&client, &config, &sink, &stop, &standing, &journal)
            }));
        }
        let policies = Policies::default();
        {
            let (client, config, sink, stop) = (client.clone(), config.clone(), sink.clone(), stop.clone());
            let (standing, journal, policies) = (standing.clone(), journal.clone(), policies.clone());
            threads.push(thread("amita-policies", move || {
                policies::run(&client, &config, &sink, &stop, &standing, &journal, &policies)
            }));
        }
        {
            let (client, config, sink) = (client.clone(), config.clone(), sink.clone());
            let shared = shared.clone();
            let journal = journal.clone();
            threads.push(thread("amita-lead", move || {
                lead::run(&client, &config, &sink, &inputs, &shared, &journal)
            }));
        }
        {
            let (client, config, stop, journal) = (client.clone(), config.clone(), stop.clone(), journal.clone());
            threads.push(thread("amita-events", move || {
                journal::run(&client, &config, &drafts, &journal, &stop)
            }));
        }
        let insight = Insight::new(client.clone(), journal.clone(), shared.clone(), standing.clone());
        Ok(Agent {
            work: Some(work),
            sink,
            stop,
            watch,
            events,
            threads,
            waiting: Arc::new(AtomicUsize::new(0)),
            standing,
            endpoints: client.endpoints(),
            services: Services(shared),
            journal,
            policies,
            insight,
        })
    }

    /// Carries out a call on one of the agent's threads; [`Notice::Reply`] tells its end. It never blocks; when too many
    /// calls wait, that end is told at once, and from the caller's thread.
    pub fn call(&self, number: u64, call: Call) {
        let (sink, waiting) = (self.sink.clone(), Arc::clone(&self.waiting));
        if waiting.fetch_add(1, Ordering::Relaxed) >= MAX_CALLS {
            waiting.fetch_sub(1, Ordering::Relaxed);
            let what = format!("{MAX_CALLS} calls of this node wait for it already");
            let result = Err(Error::Unavailable {
                what,
                endpoints: self.endpoints.clone(),
            });
            sink(Notice::Reply { call: number, result });
            return;
        }
        let standing = self.standing.clone();
        self.run(move |client| {
            let result = standing.allow().and_then(|()| client.txn(&call));
            waiting.fetch_sub(1, Ordering::Relaxed);
            sink(Notice::Reply { call: number, result });
        });
    }

    /// What the node says of its stores.
    #[must_use]
    pub fn services(&self) -> Services {
        self.services.clone()
    }

    /// Where events go.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// What the node knows of its part in the cluster.
    #[must_use]
    pub fn insight(&self) -> &Insight {
        &self.insight
    }

    /// What has become of the policies of snapshots.
    #[must_use]
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// A store is mounted and serves: the node's liveness record names it from now on. It does not block.
    pub fn store_serves(&self, store: StoreId) {
        self.services.serves(store);
        let services = self.services();
        self.run(move |client| services.show(client));
    }

    /// A store has failed: the node's liveness record no longer names it. It does not block.
    pub fn store_failed(&self, store: StoreId) {
        self.services.fails(store);
        let services = self.services();
        self.run(move |client| services.show(client));
    }

    /// Runs something that needs the metadata on one of the agent's threads.
    pub fn run(&self, work: impl FnOnce(&Client) + Send + 'static) {
        if let Some(queue) = &self.work {
            // The workers live as long as the queue.
            let _ = queue.send(Box::new(work));
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stop.set();
        self.work = None;
        if let Some(watch) = self.watch.lock().unwrap_or_else(PoisonError::into_inner).take() {
            watch.stop();
        }
        let _ = self.events.send(lead::Input::Stop);
        self.journal.stop();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}

fn thread(name: &str, run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .expect("the system gives a node a dozen threads")
}

fn worker(client: &Client, queue: &Mutex<Receiver<Work>>) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match next {
            Ok(work) => work(client),
            Err(_) => return,
        }
    }
}
