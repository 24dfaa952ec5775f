//! What a node does about mirrors: it looks which of them nobody is at, and is at some of them (decision 081).
//!
//! Who is at a mirror holds a key on a lease, and goes on for as long as it does: each end has something to be done for as long as it stands. At most
//! [`WORKING`] of a node's mirrors move data at one time; the others are looked after, and wait with their data, or are left to other nodes. Nothing of it is on the path of an I/O, and
//! where there are no mirrors it costs a watch of the metadata.

mod clock;
mod far;
mod goal;
mod hands;
mod renewal;
mod turn;
mod work;

use crate::commands::claim::Claim;
use crate::commands::volume::Gateways;
use crate::commands::worker::{self, AGAIN, Worker, spread};
use amita_api::panics::Unwinding;
use amita_client::Config;
use amita_control::admin;
use amita_metadata::{Call, Client, Error, Op};
use amita_node::serve::ServeConfig;
use amita_terminal::interrupt;
use amita_types::map::{self, Mirror, MirrorRole, Volume};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use work::{Work, Worked};

/// Mirrors that move data on a node at one time: each takes the memory of a gateway.
const WORKING: usize = 2;
/// Mirrors that a node is at, at one time. Where more wait, those that rest take turns.
const MOST: usize = 16;
/// What has failed is tried again after this, by whichever node.
const RETRY: Duration = Duration::from_secs(5);
/// What moves data is left so long to others, where this node moves as much as it may: they may have room. Then it is at it all the same, for somebody
/// has to look at the other end.
const FULL: Duration = Duration::from_secs(5);
/// What a node has no key for is left so long to others. Then it tries, and it is told what lacks.
const KEYLESS: Duration = Duration::from_secs(30);
/// So many records are read by one call.
const AT_ONCE: usize = 96;
/// How often it is looked without a word of a change.
const LONGEST_REST: Duration = Duration::from_secs(60);

/// A node's part in mirrors. It ends when it is dropped: others go on then.
#[derive(Debug)]
pub struct Mirrors {
    _worker: Worker,
}

impl Mirrors {
    /// Of a node with these settings, and with the identity of that folder. None: it reaches the metadata by a password, which is its own,
    /// and its gateways would not.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(client: Client, node: &ServeConfig, identity: Option<&Path>) -> std::io::Result<Option<Mirrors>> {
        let Some(config) = Gateways::config(node, identity) else {
            log::info!("this node reaches the metadata by a password, and so is at no mirrors: others are");
            return Ok(None);
        };
        let (name, seal_key) = (node.name.clone(), node.seal_key.clone());
        let worker = Worker::start("amita-mirrors", "looks after mirrors", move |stop| {
            Node {
                client,
                config,
                name,
                seal_key,
                stop,
                working: Arc::default(),
                others_wait: Arc::default(),
            }
            .run();
        });
        worker.map(|worker| Some(Mirrors { _worker: worker }))
    }
}

struct Node {
    client: Client,
    config: Config,
    name: String,
    /// The file of the cluster's sealing key.
    seal_key: Option<PathBuf>,
    stop: Arc<AtomicBool>,
    /// How many mirrors move data here.
    working: Arc<AtomicUsize>,
    /// There are mirrors that nobody is at, and no room for them here.
    others_wait: Arc<AtomicBool>,
}

/// What there is, at a revision.
struct Found {
    /// Those that nobody is at, and the revisions of their records.
    free: Vec<(Mirror, u64)>,
    /// Those of them that this node has not all keys for.
    keyless: BTreeSet<String>,
    revision: u64,
}

/// How long a mirror that nobody is at is still left to others, if that is so since then.
fn left(ails: bool, is_keyless: bool, is_full: bool, since: Duration) -> Duration {
    let rests = [(ails, RETRY), (is_keyless, KEYLESS), (is_full, FULL)];
    let rest = rests
        .into_iter()
        .filter(|(is_so, _)| *is_so)
        .map(|(_, rest)| rest)
        .max();
    rest.unwrap_or_default().saturating_sub(since)
}

/// Does it move data, most of the time? What is promoted, or goes back, moves none: it is reverted.
fn moves_data(mirror: &Mirror) -> bool {
    let standing = &mirror.standing;
    let follows =
        standing.role == MirrorRole::Secondary && !standing.handed && mirror.paused.is_none() && !mirror.leaving;
    follows && (mirror.pass.is_some() || standing.point.is_none())
}

impl Node {
    fn stops(&self) -> bool {
        interrupt::caught() || self.stop.load(Ordering::Relaxed)
    }

    fn run(&self) {
        let mut at: BTreeMap<String, JoinHandle<()>> = BTreeMap::new();
        // Since when something is seen to be nobody's, and when this node was at it last.
        let mut seen: BTreeMap<(String, u64), Instant> = BTreeMap::new();
        let mut tried: BTreeMap<String, Instant> = BTreeMap::new();
        while !self.stops() {
            at.retain(|_, thread| !thread.is_finished());
            // Others say that the metadata is away.
            let Ok(found) = self.look() else {
                worker::rest(AGAIN, &|| self.stops());
                continue;
            };
            let key = |mirror: &Mirror, revision: u64| (mirror.name.clone(), revision);
            seen.retain(|known, _| found.free.iter().any(|(mirror, of)| key(mirror, *of) == *known));
            let is_busy = self.working.load(Ordering::Relaxed) >= WORKING;
            let mut free: Vec<(&Mirror, Duration)> = Vec::new();
            for (mirror, revision) in &found.free {
                let since = *seen.entry(key(mirror, *revision)).or_insert_with(Instant::now);
                let is_keyless = found.keyless.contains(&mirror.name);
                let is_full = is_busy && moves_data(mirror);
                let left = left(mirror.ails.is_some(), is_keyless, is_full, since.elapsed());
                free.push((mirror, left));
            }
            // Those that this node was not at for longest come first.
            free.sort_by_key(|(mirror, _)| tried.get(&mirror.name).copied());
            let (due, others, waits) = choose(&free, &at.keys().cloned().collect());
            self.others_wait.store(others, Ordering::Relaxed);
            if due.is_empty() {
                let has_ended = || self.stops() || at.values().any(JoinHandle::is_finished);
                worker::wait(
                    &self.client,
                    &map::mirroring_prefix(),
                    found.revision,
                    waits,
                    &has_ended,
                );
                continue;
            }
            worker::rest(spread(), &|| self.stops());
            for name in due {
                tried.insert(name.clone(), Instant::now());
                if let Some(thread) = self.begin(&name) {
                    at.insert(name, thread);
                }
            }
            tried.retain(|name, last| at.contains_key(name) || last.elapsed() < LONGEST_REST);
        }
        for (_, thread) in at {
            if thread.join().is_err() {
                log::error!("who is at a mirror has panicked");
            }
        }
    }

    fn look(&self) -> Result<Found, Error> {
        let reply = self.client.txn(&Call::prefix(map::mirroring_prefix()))?;
        let all = reply.values(0);
        let keys: BTreeSet<&str> = all.iter().map(|found| found.key.as_str()).collect();
        let records = all
            .iter()
            .filter(|found| found.key.starts_with(&map::mirrors_prefix()))
            .filter_map(|found| Some((found.json::<Mirror>().ok()?, found.mod_revision)));
        let free: Vec<(Mirror, u64)> = records
            .filter(|(mirror, _)| !keys.contains(map::mirror_runner_key(&mirror.name).as_str()))
            .collect();
        Ok(Found {
            keyless: self.keyless(&free)?,
            free,
            revision: reply.revision,
        })
    }

    /// Which of these this node cannot do all for: it cannot ask the other end, or cannot open what is encrypted.
    fn keyless(&self, free: &[(Mirror, u64)]) -> Result<BTreeSet<String>, Error> {
        let mut keyless = BTreeSet::new();
        if self.seal_key.is_none() {
            let sealed = free.iter().filter(|(mirror, _)| !mirror.peer.token.is_empty());
            keyless.extend(sealed.map(|(mirror, _)| mirror.name.clone()));
        }
        if self.config.volume_keys.is_some() {
            return Ok(keyless);
        }
        let opened = free
            .iter()
            .filter(|(mirror, _)| mirror.standing.role != MirrorRole::Primary);
        let volumes: Vec<(&Mirror, &str)> = opened
            .flat_map(|(mirror, _)| mirror.volumes.iter().map(move |volume| (mirror, volume.name.as_str())))
            .collect();
        for some in volumes.chunks(AT_ONCE) {
            let reads = some.iter().map(|(_, name)| Op::Get {
                key: map::volume_key(name),
            });
            let reply = self.client.txn(&Call {
                then: reads.collect(),
                ..Call::default()
            })?;
            for (at, (mirror, _)) in some.iter().enumerate() {
                let found: Option<Volume> = reply.value(at).and_then(|found| found.json().ok());
                if found.is_some_and(|found| found.keys.is_some()) {
                    keyless.insert(mirror.name.clone());
                }
            }
        }
        Ok(keyless)
    }

    /// Is at a mirror from now on, if nobody else is.
    fn begin(&self, mirror: &str) -> Option<JoinHandle<()>> {
        let what = format!("mirror {mirror}");
        let claim = match Claim::take(&self.client, map::mirror_runner_key(mirror), &what, &self.name) {
            Ok(claim) => claim?,
            // Others say that the metadata is away.
            Err(_) => return None,
        };
        let (client, config) = (self.client.clone(), self.config.clone());
        let (mirror, node, seal_key) = (mirror.to_owned(), self.name.clone(), self.seal_key.clone());
        let (stop, working) = (Arc::clone(&self.stop), Arc::clone(&self.working));
        let others_wait = Arc::clone(&self.others_wait);
        let thread = std::thread::Builder::new().name("amita-mirror".to_owned());
        let thread = thread.spawn(move || {
            let (meta, by) = (client.clone(), claim.revision);
            // What waits for the other end, or for volumes, ends when the node does, or when the claim is lost.
            let (told, lost) = (Arc::clone(&stop), Arc::clone(&claim.lost));
            let _ending = interrupt::ending(move || told.load(Ordering::Relaxed) || lost.load(Ordering::Relaxed));
            // It has no part in the way of I/O: what it comes over ends no node, and is told as all else that ails it.
            let _unwinding = Unwinding::begin();
            let made = std::panic::catch_unwind(AssertUnwindSafe(|| {
                let work = Work::new((client, config), &mirror, &claim, stop, seal_key);
                work.sharing((working, WORKING), others_wait).run()
            }));
            match made {
                Ok(Worked::Ended) => log::debug!("mirror {mirror} is left to others"),
                Ok(Worked::Left(why)) => log::info!("mirror {mirror} does not go on here: {why}"),
                Err(_) => panicked(&meta, &mirror, by, &node),
            }
            drop(claim);
        });
        thread
            .inspect_err(|why| log::warn!("{what}: no thread for it: {why}"))
            .ok()
    }
}

/// What of the free ones is to be begun; whether others of them are due as well, and there is no room; and how soon it is looked again. Each comes
/// with how long it is left alone still; `at`: where this node is.
fn choose(free: &[(&Mirror, Duration)], at: &BTreeSet<String>) -> (Vec<String>, bool, Duration) {
    let (mut due, mut others, mut waits) = (Vec::new(), false, LONGEST_REST);
    for (mirror, left) in free {
        if at.contains(&mirror.name) {
            continue;
        }
        match left.is_zero() {
            true if at.len() + due.len() >= MOST => others = true,
            true => due.push(mirror.name.clone()),
            false => waits = waits.min(*left),
        }
    }
    (due, others, waits)
}

/// Whoever takes it up next does so after a while.
fn panicked(meta: &Client, mirror: &str, claim: u64, node: &str) {
    log::error!("being at mirror {mirror} has panicked here");
    let why = format!("node {node} has panicked at it: see that node's log");
    if let Err(more) = admin::note_mirror(meta, mirror, claim, &|record| record.ails = Some(why.clone())) {
        log::debug!("why mirror {mirror} does not go on is not noted: {more}");
    }
}

#[cfg(test)]
mod tests;
