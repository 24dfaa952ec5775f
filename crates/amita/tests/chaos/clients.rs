//! What clients ask and see, and the clients over NBD (those over NVMe/TCP: [`crate::host`]): they write stamps, read them, trim and make zeros, many at once on the same few blocks, and note what
//! they asked and what came of it. The simulator's checker judges (`amita_sim::history`): an operation lies between the
//! moment before it was sent and the moment after its answer was read; one whose connection broke, that ended in an
//! error, or that nobody waited for to its end, may happen at any time or never.

use amita_harness::nbd::{Answered, Client, Handle, NbdRequest};
use amita_reactor::Time;
use amita_sim::history::{History, Kind, Operation, OperationId};
use amita_sim::random::Random;
use amita_sim::stamp::{self, SECTOR_BYTES, SECTORS_PER_BLOCK, Sector};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a client waits for an answer until it turns to another gateway.
const PATIENCE: Duration = Duration::from_secs(4);
/// The pause after a gateway that does not serve.
const RETRY: Duration = Duration::from_millis(30);
/// Clients of a cycle.
pub const CLIENTS: usize = 12;
/// Hosts of a cycle over NVMe/TCP, each with as many paths as there are gateways.
pub const HOSTS: usize = 6;
/// The most requests of one client under way.
const MAX_DEPTH: u64 = 6;
const CHUNK_BLOCKS: u64 = 1024;
/// The regions that the clients fight for: each this many blocks, half on either side of the end of a chunk.
pub const REGION_BLOCKS: u64 = 24;
/// The chunks at whose ends they lie.
pub const REGION_CHUNKS: [u64; 3] = [1, 2, 3];
/// The longest operation, in blocks.
const MAX_BLOCKS: u64 = 16;

/// The first block of a region.
pub fn region(chunk: u64) -> u64 {
    chunk * CHUNK_BLOCKS - REGION_BLOCKS / 2
}

/// What all clients of a volume saw.
pub struct Recorder {
    history: Mutex<History>,
    /// The volume's number in stamps.
    pub volume: u32,
    started: Instant,
    /// Reads that returned what nobody can have written there.
    corrupt: Mutex<Vec<String>>,
    /// Errors that were answered, and ways in which connections broke.
    errors: Mutex<BTreeMap<String, u64>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a history holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Operations asked for.
    pub asked: u64,
    /// Of those, answered without error.
    pub done: u64,
}

impl Recorder {
    pub fn new(volume: u32) -> Recorder {
        Recorder {
            history: Mutex::new(History::new()),
            volume,
            started: Instant::now(),
            corrupt: Mutex::new(Vec::new()),
            errors: Mutex::new(BTreeMap::new()),
        }
    }

    fn now(&self) -> Time {
        Time(self.started.elapsed().as_nanos() as u64)
    }

    pub fn invoke(&self, client: u32, kind: Kind, first: Sector, sectors: u32) -> OperationId {
        lock(&self.history).invoke(self.now(), client, kind, first, sectors)
    }

    pub fn complete(&self, id: OperationId, data: &[u8]) {
        let (kind, first) = {
            let history = lock(&self.history);
            let operation = history.get(id);
            (operation.kind, operation.first)
        };
        let stamps = if kind == Kind::Read {
            match stamp::parse(data, self.volume, first) {
                Ok(stamps) => stamps,
                Err(corrupt) => return lock(&self.corrupt).push(format!("operation {}: {corrupt}", id.0)),
            }
        } else {
            Vec::new()
        };
        lock(&self.history).complete(self.now(), id, stamps);
    }

    /// A write or clear, whose outcome is not known, is sent once more, by another gateway: as that one. `broken`: its
    /// connection broke.
    pub fn repeat(&self, id: OperationId, broken: bool) -> OperationId {
        let now = self.now();
        let mut history = lock(&self.history);
        match broken {
            true => history.repeat_broken(now, id),
            false => history.repeat(now, id),
        }
    }

    pub fn error(&self, what: String) {
        *lock(&self.errors).entry(what).or_default() += 1;
    }

    /// Errors that were answered and ways in which connections broke, and how often.
    pub fn errors(&self) -> BTreeMap<String, u64> {
        lock(&self.errors).clone()
    }

    pub fn tally(&self) -> Tally {
        let history = lock(&self.history);
        let operations = history.operations();
        Tally {
            asked: operations.len() as u64,
            done: operations.iter().filter(|o| o.completed.is_some()).count() as u64,
        }
    }

    /// All of them so far.
    pub fn operations(&self) -> Vec<Operation> {
        lock(&self.history).operations().to_vec()
    }

    /// Does one order explain everything that clients saw?
    pub fn check(&self) -> Result<(), String> {
        let corrupt = lock(&self.corrupt);
        if !corrupt.is_empty() {
            return Err(corrupt.join("\n"));
        }
        let checked = lock(&self.history).check();
        checked.map(drop).map_err(|violation| violation.to_string())
    }

    /// Reads all regions by one gateway.
    pub fn read_all(&self, gateway: SocketAddr, export: &str, patience: Duration) -> Result<(), String> {
        let until = Instant::now() + patience;
        loop {
            match self.try_read_all(gateway, export) {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() > until => {
                    return Err(format!("{export} cannot be read by {gateway}: {error}"));
                }
                Err(_) => std::thread::sleep(RETRY),
            }
        }
    }

    fn try_read_all(&self, gateway: SocketAddr, export: &str) -> std::io::Result<()> {
        let mut client = Client::open(gateway, export, PATIENCE)?;
        for chunk in REGION_CHUNKS {
            let first = Sector(region(chunk) * SECTORS_PER_BLOCK as u64);
            let sectors = REGION_BLOCKS as u32 * SECTORS_PER_BLOCK as u32;
            let id = self.invoke(u32::MAX, Kind::Read, first, sectors);
            let mut data = vec![0; sectors as usize * SECTOR_BYTES];
            client.read(first.0 * SECTOR_BYTES as u64, &mut data)?;
            self.complete(id, &data);
        }
        client.close();
        Ok(())
    }
}

/// Where an operation goes: mostly one block; sometimes a part of one, or many, over the end of a chunk too.
pub fn place(random: &mut Random, kind: Kind) -> (Sector, u32) {
    let chunk = *random.pick(&REGION_CHUNKS);
    let start = region(chunk);
    let per_block = SECTORS_PER_BLOCK as u64;
    match random.below(10) {
        // Clears are of whole blocks: of a part a trim may do nothing.
        0 | 1 if kind != Kind::Clear => {
            let block = start + random.below(REGION_BLOCKS);
            let from = random.below(per_block);
            let sectors = random.within(1, per_block - from);
            (Sector(block * per_block + from), sectors as u32)
        }
        2 => {
            let blocks = random.within(2, MAX_BLOCKS);
            let block = start + random.below(REGION_BLOCKS - blocks + 1);
            (Sector(block * per_block), (blocks * per_block) as u32)
        }
        _ => {
            let block = start + random.below(REGION_BLOCKS);
            (Sector(block * per_block), per_block as u32)
        }
    }
}

/// Clients at work. They end with this.
pub struct Crowd {
    stop: Arc<AtomicBool>,
    /// Where most of them go.
    gateway: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<()>>,
}

impl Crowd {
    pub fn start(recorder: &Arc<Recorder>, gateways: &[SocketAddr], export: &str, seed: u64) -> Crowd {
        let stop = Arc::new(AtomicBool::new(false));
        let gateway = Arc::new(AtomicUsize::new(0));
        let threads = (0..CLIENTS as u32)
            .map(|number| {
                let mut random = Random::new(seed).fork(100 + u64::from(number));
                let worker = Worker {
                    number,
                    recorder: Arc::clone(recorder),
                    gateways: gateways.to_vec(),
                    export: export.to_owned(),
                    stop: Arc::clone(&stop),
                    shared: Arc::clone(&gateway),
                    at: 0,
                    // Few stay where they are answered; so two gateways may want the volume.
                    stays: random.percent(10),
                    depth: random.within(1, MAX_DEPTH) as usize,
                    under_way: BTreeMap::new(),
                    random,
                };
                std::thread::Builder::new()
                    .name(format!("client {number}"))
                    .spawn(move || worker.run())
                    .expect("a thread")
            })
            .collect();
        Crowd { stop, gateway, threads }
    }

    /// Starts hosts over NVMe/TCP, each with a path to every gateway.
    pub fn start_hosts(recorder: &Arc<Recorder>, gateways: &[SocketAddr], subsystem: &str, seed: u64) -> Crowd {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..HOSTS as u32)
            .map(|number| {
                let mut random = Random::new(seed).fork(200 + u64::from(number));
                let host = crate::host::Worker {
                    number,
                    recorder: Arc::clone(recorder),
                    gateways: gateways.to_vec(),
                    subsystem: subsystem.to_owned(),
                    stop: Arc::clone(&stop),
                    depth: random.within(1, MAX_DEPTH) as usize,
                    random,
                };
                std::thread::Builder::new()
                    .name(format!("host {number}"))
                    .spawn(move || host.run())
                    .expect("a thread")
            })
            .collect();
        Crowd {
            stop,
            gateway: Arc::new(AtomicUsize::new(0)),
            threads,
        }
    }

    /// They go to another gateway.
    pub fn turn_to(&self, gateway: usize) {
        self.gateway.store(gateway, Ordering::Relaxed);
    }

    /// Ends them; each waits for what it has under way, as long as its patience lasts.
    pub fn finish(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() && !std::thread::panicking() {
                panic!("a client panicked");
            }
        }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.end();
    }
}

struct Worker {
    number: u32,
    recorder: Arc<Recorder>,
    gateways: Vec<SocketAddr>,
    export: String,
    stop: Arc<AtomicBool>,
    shared: Arc<AtomicUsize>,
    at: usize,
    stays: bool,
    depth: usize,
    under_way: BTreeMap<Handle, Option<OperationId>>,
    random: Random,
}

impl Worker {
    fn run(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            if !self.stays {
                self.at = self.shared.load(Ordering::Relaxed);
            }
            match Client::open(self.gateways[self.at], &self.export, PATIENCE) {
                Ok(mut client) => {
                    if self.work(&mut client).is_ok() {
                        client.close();
                    } else {
                        self.turn();
                    }
                    self.under_way.clear();
                }
                Err(_) => self.turn(),
            }
        }
    }

    /// Goes to another gateway; whoever follows the crowd takes it along, unless it has gone already.
    fn turn(&mut self) {
        let next = (self.at + 1) % self.gateways.len();
        if !self.stays {
            let _ = self
                .shared
                .compare_exchange(self.at, next, Ordering::Relaxed, Ordering::Relaxed);
        }
        self.at = next;
        std::thread::sleep(RETRY);
    }

    /// Works on one connection until it breaks, the crowd has gone elsewhere, or all is over.
    fn work(&mut self, client: &mut Client) -> std::io::Result<()> {
        loop {
            let ends =
                self.stop.load(Ordering::Relaxed) || (!self.stays && self.shared.load(Ordering::Relaxed) != self.at);
            while !ends && client.under_way() < self.depth {
                self.ask(client)?;
            }
            if client.under_way() == 0 {
                return Ok(());
            }
            let Answered { handle, result } = match client.answer() {
                Ok(answered) => answered,
                Err(error) => {
                    self.recorder.error(format!("{:?}", error.kind()));
                    return Err(error);
                }
            };
            let operation = self.under_way.remove(&handle).flatten();
            match (result, operation) {
                (Ok(data), Some(id)) => self.recorder.complete(id, &data),
                (Ok(_), None) => {}
                (Err(error), _) => {
                    self.recorder.error(format!("answered {error}"));
                    return Err(error);
                }
            }
            // The history is to be long, not endless.
            if self.random.percent(60) {
                std::thread::sleep(Duration::from_micros(self.random.within(200, 3000)));
            }
        }
    }

    fn ask(&mut self, client: &mut Client) -> std::io::Result<()> {
        let what = self.random.below(100);
        if what < 3 {
            let handle = client.ask(NbdRequest::Flush)?;
            self.under_way.insert(handle, None);
            return Ok(());
        }
        let kind = match what {
            3..50 => Kind::Write,
            50..88 => Kind::Read,
            _ => Kind::Clear,
        };
        let (first, sectors) = place(&mut self.random, kind);
        let (offset, bytes) = (first.0 * SECTOR_BYTES as u64, sectors * SECTOR_BYTES as u32);
        let id = self.recorder.invoke(self.number, kind, first, sectors);
        let mut data = Vec::new();
        let ask = match kind {
            Kind::Write => {
                data.resize(bytes as usize, 0);
                stamp::fill(&mut data, self.recorder.volume, first, id.stamp());
                NbdRequest::Write { offset, data: &data }
            }
            Kind::Read => NbdRequest::Read { offset, bytes },
            Kind::Clear if self.random.percent(60) => NbdRequest::Trim { offset, bytes },
            Kind::Clear => NbdRequest::WriteZeroes { offset, bytes },
            Kind::Compare => unreachable!("NBD has no such request, and none is drawn"),
        };
        let handle = client.ask(ask)?;
        self.under_way.insert(handle, Some(id));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(recorder: &Recorder) -> (OperationId, Vec<u8>) {
        let id = recorder.invoke(0, Kind::Write, Sector(8), 8);
        let mut data = vec![0; 4096];
        stamp::fill(&mut data, recorder.volume, Sector(8), id.stamp());
        recorder.complete(id, &[]);
        (id, data)
    }

    fn shows(recorder: &Recorder, data: &[u8]) {
        let id = recorder.invoke(1, Kind::Read, Sector(8), 8);
        recorder.complete(id, data);
    }

    #[test]
    fn what_is_lost_stale_torn_or_foreign_is_found() {
        let recorder = Recorder::new(1);
        let (_, first) = written(&recorder);
        shows(&recorder, &first);
        let (_, second) = written(&recorder);
        shows(&recorder, &second);
        assert_eq!(recorder.check(), Ok(()));
        assert_eq!(recorder.tally(), Tally { asked: 4, done: 4 });

        let stale = Recorder::new(1);
        let (_, first) = written(&stale);
        written(&stale);
        shows(&stale, &first);
        assert!(stale.check().is_err());

        let lost = Recorder::new(1);
        written(&lost);
        shows(&lost, &[0; 4096]);
        assert!(lost.check().is_err());

        let torn = Recorder::new(1);
        let (_, mut data) = written(&torn);
        data[700] ^= 1;
        shows(&torn, &data);
        assert!(torn.check().is_err());

        let foreign = Recorder::new(1);
        let (_, _) = written(&foreign);
        let (_, data) = written(&Recorder::new(2));
        shows(&foreign, &data);
        assert!(foreign.check().is_err());
    }
}
