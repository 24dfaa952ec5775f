//! A store on the real driver, beside the same driver without a store: 4 KiB random writes and reads, IOPS, CPU per
//! operation (all threads, kernel included), and bytes written to the device per byte of data.
//!
//! `cargo bench -p amita-store [-- SECONDS]`. The file lies in `/dev/shm` (memory: the store's own cost), then in the
//! target folder's temporary one (a disk; `AMITA_BENCH_DIR` names another).

use amita_cluster::message::{AnswerBody, MemberSet, Request, RequestBody, Scope};
use amita_cluster::{
    BLOCK_BYTES, BlockRange, ChunkIndex, ClusterId, Epoch, Generation, GroupId, NodeId, RequestId, SnapshotId, StoreId,
    Version, VolumeId,
};
use amita_reactor::uring::{UringConfig, UringDriver};
use amita_reactor::{Completion, Driver, FileId, FileInfo, Outcome, Pool, PoolConfig, Slice, Token, Wait};
use amita_store::{Config, Effect, FormatParams, IoId, LinkId, State, Store};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const STORE_BYTES: u64 = 640 << 20;
const CHUNKS: u64 = 64;
const BLOCKS: u64 = 1024;
const LINK: LinkId = LinkId(1);

/// CPU time of this process.
fn cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the structure that it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        amita_cluster::layout::mix(self.0) % n
    }
}

fn new_driver() -> UringDriver {
    let pool = Pool::new(PoolConfig::default()).expect("128 MiB of address space");
    UringDriver::new(UringConfig::default(), pool).expect("io_uring")
}

fn make(path: &Path) {
    let params = FormatParams {
        store: StoreId(1),
        cluster: ClusterId(1),
        size_bytes: STORE_BYTES,
        log_bytes: None,
    };
    let mut file = std::fs::File::create(path).expect("the folder can be written");
    for (offset, bytes) in amita_store::format(&params).expect("the size is possible") {
        file.seek(SeekFrom::Start(offset)).unwrap();
        file.write_all(&bytes).unwrap();
    }
    file.sync_all().unwrap();
}

/// The figures of one run.
struct Figures {
    iops: f64,
    cpu_us: f64,
    /// Device bytes per byte of data: without and with checkpoints.
    written: Option<(f64, f64)>,
}

struct Rider {
    driver: UringDriver,
    file: FileId,
    store: Store,
    completions: Vec<Completion>,
    versions: Vec<Version>,
    next: u64,
    under_way: usize,
    payload: Slice,
    sum: u32,
}

impl Rider {
    fn open(path: &Path) -> (Rider, FileInfo) {
        let mut driver = new_driver();
        let (file, info) = driver.open(path).expect("the file was just made");
        let store = Store::open(Config::default(), info.clone(), driver.pool().clone());
        let mut payload = driver.pool().take(BLOCK_BYTES as usize).expect("a fresh pool");
        for (at, byte) in payload.iter_mut().enumerate() {
            *byte = (at * 7) as u8;
        }
        let payload = payload.freeze();
        let mut rider = Rider {
            driver,
            file,
            store,
            completions: Vec::new(),
            versions: vec![Version::NONE; CHUNKS as usize],
            next: 0,
            under_way: 0,
            sum: amita_cluster::crc32c(&payload),
            payload,
        };
        while *rider.store.state() == State::Mounting {
            rider.pass();
        }
        assert_eq!(*rider.store.state(), State::Serving);
        rider.fence();
        (rider, info)
    }

    fn ask(&mut self, body: RequestBody, payload: Slice) {
        self.next += 1;
        self.under_way += 1;
        let request = Request {
            id: RequestId(self.next),
            store: StoreId(1),
            scope: Scope {
                volume: VolumeId(1),
                generation: Generation(1),
                group: GroupId::default(),
                epoch: Epoch(1),
                snapshot: SnapshotId::HEAD,
            },
            body,
        };
        let now = self.driver.now();
        self.store.request(now, LINK, request, payload);
    }

    fn fence(&mut self) {
        let mut in_sync = MemberSet::new();
        in_sync.push(StoreId(1));
        let body = RequestBody::Fence {
            owner: NodeId(1),
            in_sync,
            blocks_per_chunk: BLOCKS as u16,
        };
        self.ask(body, Slice::default());
        while self.under_way > 0 {
            self.pass();
        }
    }

    fn write(&mut self, chunk: u64, block: u64) {
        let previous = self.versions[chunk as usize];
        let version = previous.next(Generation(1)).expect("few writes");
        self.versions[chunk as usize] = version;
        let body = RequestBody::Write {
            chunk: ChunkIndex(chunk),
            offset_bytes: block as u32 * BLOCK_BYTES,
            length_bytes: BLOCK_BYTES,
            version,
            previous,
            sums: [self.sum].into_iter().collect(),
        };
        self.ask(body, self.payload.clone());
    }

    fn read(&mut self, chunk: u64, block: u64) {
        let body = RequestBody::Read {
            chunk: ChunkIndex(chunk),
            range: BlockRange::new(block as u16, 1),
            least: Version::NONE,
        };
        self.ask(body, Slice::default());
    }

    /// One pass, as a core of a node makes it.
    fn pass(&mut self) -> usize {
        self.store.end_pass(self.driver.now());
        let mut answered = 0;
        for effect in self.store.effects() {
            match effect {
                Effect::Read { io, offset, buffer } => self.driver.read(self.file, offset, buffer, Token(io.0)),
                Effect::Write { io, offset, data } => self.driver.write(self.file, offset, data, Token(io.0)),
                Effect::Flush { io } => self.driver.flush(self.file, Token(io.0)),
                Effect::Answer { answer, payload, .. } => {
                    match answer.result {
                        Ok(AnswerBody::Data { .. }) => assert_eq!(payload.len(), BLOCK_BYTES as usize),
                        Ok(_) => {}
                        Err(refusal) => panic!("{refusal:?}"),
                    }
                    answered += 1;
                }
            }
        }
        self.under_way -= answered;
        let wait = if answered > 0 { Wait::No } else { Wait::UntilEvent };
        self.driver.poll(wait, &mut self.completions);
        let now = self.driver.now();
        for completion in self.completions.drain(..) {
            let io = IoId(completion.token.0);
            match completion.outcome {
                Outcome::Read { buffer, result } => self.store.read_done(now, io, buffer, result),
                Outcome::Written { data, result } => self.store.write_done(now, io, data, result),
                Outcome::Flushed { result } => self.store.flush_done(now, io, result),
                _ => {}
            }
        }
        answered
    }

    fn fill(&mut self) {
        for chunk in 0..CHUNKS {
            for block in 0..BLOCKS {
                self.write(chunk, block);
                while self.under_way >= 64 {
                    self.pass();
                }
            }
        }
        while self.under_way > 0 {
            self.pass();
        }
    }

    fn measure(&mut self, write: bool, depth: usize, time: Duration) -> Figures {
        let mut rng = Rng(1);
        let before = self.store.status().counters;
        let (started, cpu_before) = (Instant::now(), cpu());
        let mut done = 0;
        while started.elapsed() < time {
            while self.under_way < depth {
                let (chunk, block) = (rng.below(CHUNKS), rng.below(BLOCKS));
                if write {
                    self.write(chunk, block);
                } else {
                    self.read(chunk, block);
                }
            }
            done += self.pass();
        }
        let (elapsed, spent) = (started.elapsed(), cpu() - cpu_before);
        while self.under_way > 0 {
            self.pass();
        }
        let after = self.store.status().counters;
        let device = (after.device_bytes_written - before.device_bytes_written) as f64;
        let checkpoints = (after.checkpoint_bytes - before.checkpoint_bytes) as f64;
        let data = (after.data_bytes - before.data_bytes) as f64;
        Figures {
            iops: f64::from(done as u32) / elapsed.as_secs_f64(),
            cpu_us: spent.as_secs_f64() * 1e6 / f64::from(done as u32),
            written: write.then_some(((device - checkpoints) / data, device / data)),
        }
    }
}

/// The same driver and file without a store.
fn raw(path: &Path, write: bool, depth: usize, time: Duration) -> Figures {
    let mut driver = new_driver();
    let (file, _) = driver.open(path).expect("the file was just made");
    let mut completions = Vec::new();
    let mut rng = Rng(2);
    let mut payload = driver.pool().take(BLOCK_BYTES as usize).unwrap();
    payload.fill(5);
    let payload = payload.freeze();
    let slots = STORE_BYTES / u64::from(BLOCK_BYTES);
    let mut spare: Vec<Vec<Slice>> = Vec::new();
    let (started, cpu_before) = (Instant::now(), cpu());
    let (mut under_way, mut done) = (0, 0);
    while started.elapsed() < time || under_way > 0 {
        while under_way < depth && started.elapsed() < time {
            let offset = rng.below(slots) * u64::from(BLOCK_BYTES);
            if write {
                let mut data = spare.pop().unwrap_or_default();
                data.push(payload.clone());
                driver.write(file, offset, data, Token(0));
            } else {
                let buffer = driver.pool().take(BLOCK_BYTES as usize).unwrap();
                driver.read(file, offset, buffer, Token(0));
            }
            under_way += 1;
        }
        driver.poll(Wait::UntilEvent, &mut completions);
        for completion in completions.drain(..) {
            match completion.outcome {
                Outcome::Read { result, .. } => result.unwrap(),
                Outcome::Written { mut data, result } => {
                    result.unwrap();
                    data.clear();
                    spare.push(data);
                }
                _ => continue,
            }
            under_way -= 1;
            done += 1;
        }
    }
    Figures {
        iops: f64::from(done) / started.elapsed().as_secs_f64(),
        cpu_us: (cpu() - cpu_before).as_secs_f64() * 1e6 / f64::from(done),
        written: None,
    }
}

fn bench(name: &str, folder: &Path, time: Duration) {
    let path = folder.join("amita-store-bench");
    make(&path);
    let (mut rider, info) = Rider::open(&path);
    println!(
        "\n{name}: {} ({})",
        folder.display(),
        match (info.inline, info.volatile_cache) {
            (true, _) => "memory, read and written inline".to_owned(),
            (false, volatile) => format!("alignment {}, volatile cache: {volatile}", info.alignment),
        }
    );
    rider.fill();
    println!("| 4 KiB random | depth | IOPS | raw IOPS | CPU us | raw CPU us | written per byte | with checkpoints |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    let mut rows = Vec::new();
    for write in [true, false] {
        for depth in [1, 32, 128] {
            rows.push((write, depth, rider.measure(write, depth, time)));
        }
    }
    let counters = rider.store.status().counters;
    drop(rider);
    let started = Instant::now();
    let (rider, _) = Rider::open(&path);
    let (mount, took) = (rider.store.status().mount, started.elapsed());
    drop(rider);
    for (write, depth, figures) in rows {
        let raw = raw(&path, write, depth, time);
        let (without, with) = figures.written.unwrap_or_default();
        println!(
            "| {} | {depth} | {:.0} | {:.0} | {:.2} | {:.2} | {without:.3} | {with:.3} |",
            if write { "write" } else { "read" },
            figures.iops,
            raw.iops,
            figures.cpu_us,
            raw.cpu_us,
        );
    }
    println!(
        "checkpoints: {}; copied blocks: {}; mount: {} records, {} bytes in {:.1} ms",
        counters.checkpoints,
        counters.copied_blocks,
        mount.records_replayed,
        mount.bytes_read,
        took.as_secs_f64() * 1e3
    );
    let _ = std::fs::remove_file(path);
}

fn main() {
    let seconds = std::env::args()
        .find_map(|argument| argument.parse::<f64>().ok())
        .unwrap_or(1.0);
    let time = Duration::from_secs_f64(seconds);
    bench("memory", Path::new("/dev/shm"), time);
    let folder =
        std::env::var_os("AMITA_BENCH_DIR").map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    bench("disk", &folder, time);
}
