//! The thread of a node that tells what its machine is like, and stamps its clock; and the one that looks at the disks of all nodes where
//! it is the coordinator. A disk of its own that hangs holds up neither: each disk is asked by a thread of its own.
//!
//! Facts are read every few minutes, and written when they have changed, else once an hour. A disk that does not answer in time hangs, they
//! say; where it has answered since the round before, but late, they say what. A stamp of the clock is written once a minute, in large
//! clusters as many seconds apart as there are nodes: the cluster as a whole writes one stamp a second at most. Whoever sees the first
//! stamp of a neighbour answers with one of its own, so that a node which has just come is compared at once. Where the metadata is away
//! nothing is written, and no I/O ever waits for any of this.

use crate::clocks::{Sights, neighbours};
use crate::collect::{Below, Figures, Looks, Root, Serving, addresses, device, disks, host, nics, synchronised};
use crate::doctor::{Doctor, Heard};
use crate::inventory::{Certificate, Clock, Inventory, Known, Setting, VERSION, clock_key, facts_key, of_key, short};
use amita_control::records::inventory_prefix;
use amita_metadata::client::{Waited, Watch, WatchStop};
use amita_metadata::{Call, Client, Event, Transact};
use amita_types::NodeId;
use amita_types::map;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Facts are read so often.
const READ_EVERY: Duration = Duration::from_secs(300);
/// Facts that are the same are written so often: who reads them sees that the node still tells.
const WRITE_EVERY: Duration = Duration::from_secs(3600);
/// When a neighbour's clock was seen for the first time, facts are written so soon.
const SOON: Duration = Duration::from_secs(2);
/// Disks have so long to answer: each is asked several questions, and the kernel waits two seconds for one.
const PATIENCE: Duration = Duration::from_secs(10);
/// Stamps lie so far apart at least.
const STAMP_EVERY: Duration = Duration::from_secs(60);
/// Answers to stamps lie so far apart.
const ANSWER_EVERY: Duration = Duration::from_millis(500);
/// The thread looks so often whether it is to end.
const LOOK: Duration = Duration::from_millis(250);
/// Looks between a watch that has failed and the next one: metadata that refuses is not asked all the time.
const REWATCH_LOOKS: u32 = 20;

/// What the thread is told by the node that it tells of.
pub struct Sources {
    /// The node's number.
    pub node: NodeId,
    /// The version of its program.
    pub program: String,
    /// How many addresses of the metadata it was given.
    pub metadata_addresses: usize,
    /// The paths of its stores.
    pub stores: Vec<PathBuf>,
    /// What it serves, and where.
    pub serving: Vec<Serving>,
    /// Settings that an operator may have changed.
    pub settings: Vec<Setting>,
    /// Its certificate; none: it has no identity.
    pub certificate: Box<dyn Fn() -> Option<Certificate> + Send>,
    /// What it has counted of its stores since it was asked before.
    pub figures: Box<dyn FnMut() -> Result<Vec<Figures>, String> + Send>,
    /// Is it the coordinator, as far as it knows? Then it looks at the disks of all nodes.
    pub leads: Box<dyn Fn() -> bool + Send>,
}

/// A stamp of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    /// Milliseconds since 1970.
    at_ms: u64,
}

/// The threads; dropped, they end as soon as the metadata has answered what it was asked: nobody waits for that.
#[derive(Debug)]
pub struct Keeper {
    stop: Arc<AtomicBool>,
    watch: WatchStop,
}

impl Keeper {
    /// Starts them.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(client: Client, mut sources: Sources) -> std::io::Result<Keeper> {
        let stop = Arc::new(AtomicBool::new(false));
        let watch = client.watch(&inventory_prefix(), 0);
        let stopper = watch.stopper();
        let heard = Arc::new(Heard::default());
        // The time of the start tells one process of a node from the next.
        let mut doctor = Doctor::new(sources.node, now_ms());
        let leads = std::mem::replace(&mut sources.leads, Box::new(|| false));
        let (of_nodes, meta, told) = (Arc::clone(&heard), client.clone(), Arc::clone(&stop));
        std::thread::Builder::new()
            .name("amita-doctor".to_owned())
            .spawn(move || {
                while !told.load(Ordering::Acquire) {
                    see_to_disks(&mut doctor, &of_nodes, &*leads, &meta);
                    std::thread::sleep(LOOK);
                }
            })?;
        let told = Arc::clone(&stop);
        std::thread::Builder::new()
            .name("amita-inventory".to_owned())
            .spawn(move || {
                let mut teller = Teller::new(sources, Root::default());
                teller.heard = heard;
                teller.run(&client, watch, &told);
            })
            .inspect_err(|_| stop.store(true, Ordering::Release))?;
        Ok(Keeper { stop, watch: stopper })
    }
}

/// Looks at the disks of all nodes, where that is due and this node's to do. What fails is done at the next time.
fn see_to_disks(doctor: &mut Doctor, heard: &Heard, leads: &(dyn Fn() -> bool + Send), meta: &dyn Transact) {
    heard.tell(doctor);
    if !doctor.is_due(Instant::now()) || !leads() {
        return;
    }
    if let Err(why) = doctor.look(meta, now_ms() / 1000) {
        log::debug!("the disks of the cluster were not looked at: {why}");
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.watch.stop();
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

struct Teller {
    sources: Sources,
    root: Root,
    sights: Sights,
    neighbours: Vec<NodeId>,
    stamp_every: Duration,
    /// What was written last, and when.
    written: Option<(Inventory, Instant)>,
    read_at: Option<Instant>,
    /// Since when disks are being looked at for facts.
    looking_since: Option<Instant>,
    looks: Looks,
    stamped_at: Option<Instant>,
    /// A neighbour that was not seen before waits for a stamp of ours, and others for what was seen of it.
    answer: bool,
    tell_at: Option<Instant>,
    /// What who looks at disks is told.
    heard: Arc<Heard>,
}

impl Teller {
    fn new(sources: Sources, root: Root) -> Teller {
        Teller {
            heard: Arc::default(),
            sources,
            looks: looks_beneath(&root),
            root,
            sights: Sights::default(),
            neighbours: Vec::new(),
            stamp_every: STAMP_EVERY,
            written: None,
            read_at: None,
            looking_since: None,
            stamped_at: None,
            answer: false,
            tell_at: None,
        }
    }

    fn run(&mut self, client: &Client, mut watch: Watch, stop: &AtomicBool) {
        while !stop.load(Ordering::Acquire) {
            self.tell(client);
            match watch.wait(LOOK) {
                Waited::Item(Ok(batch)) => {
                    let mine = now_ms();
                    batch.events.iter().for_each(|event| self.hear(event, mine));
                }
                Waited::Nothing => {}
                // It could not go on where it was: stamps of before are worth nothing anyway.
                Waited::Item(Err(_)) | Waited::Ended => {
                    for _ in 0..REWATCH_LOOKS {
                        if stop.load(Ordering::Acquire) {
                            return;
                        }
                        std::thread::sleep(LOOK);
                    }
                    watch = client.watch(&inventory_prefix(), 0);
                }
            }
        }
    }

    /// What came by the watch.
    fn hear(&mut self, event: &Event, mine: u64) {
        let Event::Put(record) = event else { return };
        let node = match of_key(&record.key) {
            Some((node, "clock")) => node,
            Some((_, "facts")) => return self.heard.facts(),
            _ => return,
        };
        if !self.neighbours.contains(&node) {
            // It may have come since the nodes were read.
            if self.neighbours.len() < 2 * crate::clocks::NEIGHBOURS && node != self.sources.node {
                self.neighbours.push(node);
            } else {
                return;
            }
        }
        let Ok(stamp) = record.json::<Stamp>() else { return };
        if self.sights.saw(node, stamp.at_ms, mine) {
            self.answer = true;
            self.tell_at.get_or_insert_with(|| Instant::now() + SOON);
        }
    }

    /// Writes what is due. What fails is tried again at its time: nothing rests on it.
    fn tell(&mut self, meta: &dyn Transact) {
        let due = |at: Option<Instant>, every: Duration| at.is_none_or(|at| at.elapsed() >= every);
        let soon = self.tell_at.is_some_and(|at| Instant::now() >= at);
        if self.looking_since.is_none() && (due(self.read_at, READ_EVERY) || soon) {
            (self.read_at, self.tell_at) = (Some(Instant::now()), None);
            self.find_neighbours(meta);
            self.looks.begin(&self.sources.stores);
            self.looking_since = self.read_at;
        }
        let since = self.looking_since;
        if since.is_some_and(|since| self.looks.have_ended() || since.elapsed() >= PATIENCE) {
            self.looking_since = None;
            self.write_facts(meta);
        }
        if due(self.stamped_at, self.stamp_every) || (self.answer && due(self.stamped_at, ANSWER_EVERY)) {
            (self.stamped_at, self.answer) = (Some(Instant::now()), false);
            let stamp = Stamp { at_ms: now_ms() };
            write(
                meta,
                clock_key(self.sources.node),
                &serde_json::to_vec(&stamp).unwrap_or_default(),
            );
        }
    }

    fn find_neighbours(&mut self, meta: &dyn Transact) {
        let Ok(reply) = meta.txn(&Call::prefix(map::node_key(""))) else {
            return;
        };
        let nodes = reply
            .values(0)
            .iter()
            .filter_map(|record| record.json::<map::Node>().ok());
        let all: Vec<NodeId> = nodes.filter(|node| !node.client).map(|node| node.id).collect();
        self.neighbours = neighbours(self.sources.node, &all);
        self.sights.keep(&self.neighbours);
        self.stamp_every = STAMP_EVERY.max(Duration::from_secs(all.len() as u64));
        self.heard.nodes(all.len());
    }

    fn write_facts(&mut self, meta: &dyn Transact) {
        let key = facts_key(self.sources.node);
        if self.written.is_none() {
            // The disks' past is in what the process before has written.
            let Ok(reply) = meta.txn(&Call::get(key.as_str())) else {
                return;
            };
            let before = reply.value(0).and_then(|record| Inventory::decode(&record.value).ok());
            let long_ago = Instant::now().checked_sub(WRITE_EVERY);
            self.written = before.zip(long_ago);
        }
        let inventory = self.read(now_ms() / 1000);
        let is_told = self
            .written
            .as_ref()
            .is_some_and(|(before, at)| at.elapsed() < WRITE_EVERY && before.lasting() == inventory.lasting());
        if !is_told && write(meta, key, &inventory.encode()) {
            self.written = Some((inventory, Instant::now()));
        }
    }

    fn read(&mut self, now: u64) -> Inventory {
        let sources = &mut self.sources;
        let figures = (sources.figures)();
        let before = self.written.as_ref().map_or(&[][..], |(before, _)| &before.disks);
        let looks = &self.looks;
        let devices = sources.stores.iter().map(|path| (path.clone(), looks.found(path)));
        let nics = addresses().and_then(|all| nics(&self.root, &all, &sources.serving));
        Inventory {
            version: VERSION,
            taken_at: now,
            program: short(&sources.program),
            metadata_addresses: sources.metadata_addresses,
            host: host(&self.root, crate::collect::uring()),
            clock: Clock {
                synchronised: synchronised(),
                seen: self.sights.least(),
            },
            nics: nics.into(),
            disks: disks(devices.collect(), &figures, before, now),
            certificate: Known::Is((sources.certificate)()),
            settings: sources.settings.clone(),
            left_out: Vec::new(),
        }
    }
}

fn looks_beneath(root: &Root) -> Looks {
    let root = root.clone();
    Looks::by(move |path| device(&root, path, &Below::HERE))
}

fn write(meta: &dyn Transact, key: String, value: &[u8]) -> bool {
    match meta.txn(&Call::put(key, value)) {
        Ok(_) => true,
        Err(why) => {
            log::debug!("what the machine is like was not told: {why}");
            false
        }
    }
}

#[cfg(test)]
mod tests;
