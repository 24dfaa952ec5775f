//! What a node does about copies: it looks which are to be made and that nobody is at, and makes some of them.
//!
//! Nothing of it is on the path of an I/O. Where no copies are to be made it costs a watch of the metadata.

use super::pass::{Work, Worked};
use crate::commands::claim::Claim;
use crate::commands::volume::gateway::Gateways;
use crate::commands::worker::{self, AGAIN, Worker, spread};
use amita_api::panics::Unwinding;
use amita_client::Config;
use amita_control::admin;
use amita_metadata::{Call, Client, Error, Op};
use amita_node::serve::ServeConfig;
use amita_terminal::interrupt;
use amita_types::VolumeId;
use amita_types::map::{self, Copying, Volume};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Copies that a node makes at one time: each takes the memory of two gateways.
const MOST: usize = 2;
/// What has failed is tried again after this, by whichever node.
const RETRY: Duration = Duration::from_secs(5);
/// What is encrypted is left so long to nodes that have volume keys by one that has none. Then it tries, and it is told what lacks.
const KEYLESS: Duration = Duration::from_secs(30);
/// Of so many copies the volumes are read by one call, two of each.
const AT_ONCE: usize = 48;
/// How often it is looked without a word of a change.
const LONGEST_REST: Duration = Duration::from_secs(60);

/// A node's part in copies. It ends when it is dropped: others go on then.
#[derive(Debug)]
pub struct Copies {
    _worker: Worker,
}

impl Copies {
    /// Of a node with these settings, and with the identity of that folder. None: it reaches the metadata by a password, which is its own,
    /// and its copies' gateways would not.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(client: Client, node: &ServeConfig, identity: Option<&Path>) -> std::io::Result<Option<Copies>> {
        let Some(mut config) = Gateways::config(node, identity) else {
            log::info!("this node reaches the metadata by a password, and so makes no copies of volumes: others do");
            return Ok(None);
        };
        // Moves are among them, and what those read is no host's.
        config.moves = true;
        let name = node.name.clone();
        let worker = Worker::start("amita-copies", "makes copies", move |stop| {
            let node = Node {
                client,
                config,
                name,
                stop,
            };
            node.run();
        });
        worker.map(|worker| Some(Copies { _worker: worker }))
    }
}

struct Node {
    client: Client,
    config: Config,
    name: String,
    stop: Arc<AtomicBool>,
}

/// What there is, at a revision.
struct Found {
    /// Those that somebody is to be at and nobody is, and the revisions of their records.
    free: Vec<(Copying, u64)>,
    /// Those of them that this node has no volume keys for.
    keyless: BTreeSet<VolumeId>,
    revision: u64,
}

/// How long a copy that nobody is at is still left to others, if that is so since then.
fn left(ails: bool, is_keyless: bool, since: Duration) -> Duration {
    let rest = match (is_keyless, ails) {
        (true, _) => KEYLESS,
        (false, true) => RETRY,
        (false, false) => Duration::ZERO,
    };
    rest.saturating_sub(since)
}

impl Node {
    fn stops(&self) -> bool {
        interrupt::caught() || self.stop.load(Ordering::Relaxed)
    }

    fn run(&self) {
        let mut at: BTreeMap<VolumeId, JoinHandle<()>> = BTreeMap::new();
        // Since when what has failed is seen to be nobody's.
        let mut failed: BTreeMap<(VolumeId, u64), Instant> = BTreeMap::new();
        while !self.stops() {
            at.retain(|_, thread| !thread.is_finished());
            // Others say that the metadata is away.
            let Ok(found) = self.look() else {
                worker::rest(AGAIN, &|| self.stops());
                continue;
            };
            let key = |copying: &Copying, revision: u64| (copying.volume, revision);
            failed.retain(|failed, _| found.free.iter().any(|(copying, of)| key(copying, *of) == *failed));
            let free: Vec<(&Copying, Duration)> = found
                .free
                .iter()
                .map(|(copying, revision)| {
                    let since = failed.entry(key(copying, *revision)).or_insert_with(Instant::now);
                    let is_keyless = found.keyless.contains(&copying.volume);
                    (copying, left(copying.ails.is_some(), is_keyless, since.elapsed()))
                })
                .collect();
            let (due, waits) = choose(&free, &at.keys().copied().collect());
            if due.is_empty() {
                let ends = || self.stops() || at.values().any(JoinHandle::is_finished);
                worker::wait(&self.client, &map::copies_prefix(), found.revision, waits, &ends);
                continue;
            }
            worker::rest(spread(), &|| self.stops());
            for volume in due {
                if let Some(thread) = self.begin(volume) {
                    at.insert(volume, thread);
                }
            }
        }
        for (_, thread) in at {
            if thread.join().is_err() {
                log::error!("a copy has panicked");
            }
        }
    }

    fn look(&self) -> Result<Found, Error> {
        let reply = self.client.txn(&Call::prefix(map::copies_prefix()))?;
        let all = reply.values(0);
        let keys: BTreeSet<&str> = all.iter().map(|found| found.key.as_str()).collect();
        let records = all
            .iter()
            .filter(|found| found.key.starts_with(&map::copying_prefix()))
            .filter_map(|found| Some((found.json::<Copying>().ok()?, found.mod_revision)));
        let free: Vec<(Copying, u64)> = records
            .filter(|(copying, _)| copying.is_due() && !keys.contains(map::copier_key(copying.volume).as_str()))
            .collect();
        Ok(Found {
            keyless: self.keyless(&free)?,
            free,
            revision: reply.revision,
        })
    }

    /// Which of these need keys, where this node was given none: what is to be encrypted, and what moves and is so now. What is encrypted has encrypted
    /// copies; and what is only to be tidied up needs no key.
    fn keyless(&self, free: &[(Copying, u64)]) -> Result<BTreeSet<VolumeId>, Error> {
        let mut keyless = BTreeSet::new();
        if self.config.volume_keys.is_some() {
            return Ok(keyless);
        }
        let copied = free.iter().map(|(copying, _)| copying);
        let copied: Vec<&Copying> = copied.filter(|copying| !copying.cancelled && !copying.whole).collect();
        for some in copied.chunks(AT_ONCE) {
            // One that moves keeps its name until it has.
            let names = some.iter().flat_map(|copying| [&copying.name, &copying.of]);
            let reply = self.client.txn(&Call {
                then: names
                    .map(|name| Op::Get {
                        key: map::volume_key(name),
                    })
                    .collect(),
                ..Call::default()
            })?;
            for (at, copying) in some.iter().enumerate() {
                let volume = |at: usize| reply.value(at).and_then(|found| found.json::<Volume>().ok());
                let target = volume(2 * at).filter(|target| target.id == copying.volume);
                let source = volume(2 * at + 1).filter(|source| source.lineage.moving == Some(copying.volume));
                if target.into_iter().chain(source).any(|volume| volume.keys.is_some()) {
                    keyless.insert(copying.volume);
                }
            }
        }
        Ok(keyless)
    }

    /// Begins to make a copy, if nobody else does.
    fn begin(&self, volume: VolumeId) -> Option<JoinHandle<()>> {
        let claim = match Claim::take(
            &self.client,
            map::copier_key(volume),
            &format!("copy {volume}"),
            &self.name,
        ) {
            Ok(claim) => claim?,
            // Others say that the metadata is away.
            Err(_) => return None,
        };
        let (client, config, stop) = (self.client.clone(), self.config.clone(), Arc::clone(&self.stop));
        let name = self.name.clone();
        let thread = std::thread::Builder::new().name("amita-copy".to_owned());
        let thread = thread.spawn(move || {
            let (meta, by) = (client.clone(), claim.revision);
            // It has no part in the way of I/O: what it comes over ends no node, and is told as all else that ails it.
            let _unwinding = Unwinding::begin();
            let made = std::panic::catch_unwind(AssertUnwindSafe(|| {
                Work::new(client, config, volume, &claim, stop).run()
            }));
            match made {
                Ok(Worked::Ended) => log::info!("copy {volume} is done with here"),
                Ok(Worked::Left(why)) => log::info!("copy {volume} does not go on here: {why}"),
                Err(_) => panicked(&meta, volume, by, &name),
            }
            drop(claim);
        });
        thread
            .inspect_err(|why| log::warn!("copy {volume}: no thread for it: {why}"))
            .ok()
    }
}

/// What of the free ones is to be begun, and how soon it is looked again. Each comes with how long it is left alone still; `at`: what is made here.
fn choose(free: &[(&Copying, Duration)], at: &BTreeSet<VolumeId>) -> (Vec<VolumeId>, Duration) {
    let (mut due, mut waits) = (Vec::new(), LONGEST_REST);
    for (copying, left) in free {
        // What is only to be removed needs no gateways: it waits for no copies, which may take days.
        let most = MOST + usize::from(copying.cancelled || copying.whole);
        if at.contains(&copying.volume) || at.len() + due.len() >= most {
            // The end of what is made here is waited for in any case: to look for it would cost all records each time.
            continue;
        }
        match left.is_zero() {
            true => due.push(copying.volume),
            false => waits = waits.min(*left),
        }
    }
    (due, waits)
}

/// Whoever takes it up next does so after a while.
fn panicked(meta: &Client, volume: VolumeId, claim: u64, node: &str) {
    log::error!("making copy {volume} has panicked here");
    let why = format!("making it has panicked on node {node}: see that node's log");
    if let Err(more) = admin::note_copy(meta, volume, claim, &|record| record.ails = Some(why.clone())) {
        log::debug!("why copy {volume} does not go on is not noted: {more}");
    }
}

#[cfg(test)]
mod tests;
