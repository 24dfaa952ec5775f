//! In place with a journal (each block is written to the journal, and from there to its place), beside data and record
//! in parallel to fresh slots: the device operations of both, on the real driver over the same file, nothing else.

use super::{Pick, Rng, cpu, folders, median};
use amita_reactor::uring::{UringConfig, UringDriver};
use amita_reactor::{Driver, FileId, FileInfo, Outcome, Pool, PoolConfig, Segments, Slice, Token, Wait};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

const PAGE: u64 = 4096;
/// The journal, or the log: 64 MiB at the front of the file.
const JOURNAL_PAGES: u64 = 16 << 10;
const DATA_PAGES: u64 = 112 << 10;
/// Blocks on their way from the journal to their places: beyond that hosts wait.
const MAX_PLACING: usize = 256;
const ROUNDS: usize = 3;
const TIME: Duration = Duration::from_millis(1000);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Data to slots that follow one another, and a log page, at once.
    Run,
    /// Data to slots that lie anywhere, and a log page, at once: free space in pieces of one block.
    Scattered,
    /// A header and the data to the journal; then each block to its place.
    Journal,
}

const WAYS: [(&str, Way); 3] = [
    ("data and record in parallel, one run", Way::Run),
    ("the same, free space in single blocks", Way::Scattered),
    ("journal, then in place", Way::Journal),
];

const FOREGROUND: Token = Token(1);
const PLACING: Token = Token(2);

struct Bench {
    driver: UringDriver,
    file: FileId,
    info: FileInfo,
    blocks: Vec<Slice>,
    page: Slice,
    completions: Vec<amita_reactor::Completion>,
    spare: Vec<Segments>,
    rng: Rng,
    next_page: u64,
    next_run: u64,
    foreground: usize,
    placing: usize,
    writes: u64,
    bytes: u64,
}

impl Bench {
    fn open(path: &Path) -> Bench {
        let pool = Pool::new(PoolConfig::default()).expect("128 MiB of address space");
        let mut driver = UringDriver::new(UringConfig::default(), pool).expect("io_uring");
        let (file, info) = driver.open(path).expect("the file was just made");
        let mut block = |byte: u8| {
            let mut block = driver.pool().take(PAGE as usize).expect("a fresh pool");
            block.fill(byte);
            block.freeze()
        };
        // Every other one, so that the blocks are not neighbours in memory, as payloads of different writes are not.
        let blocks = (0..64).map(&mut block).step_by(2).collect();
        let page = block(255);
        Bench {
            driver,
            file,
            info,
            blocks,
            page,
            completions: Vec::new(),
            spare: Vec::new(),
            rng: Rng(1),
            next_page: 0,
            next_run: 0,
            foreground: 0,
            placing: 0,
            writes: 0,
            bytes: 0,
        }
    }

    fn write(&mut self, page: u64, slices: impl Iterator<Item = Slice>, token: Token) {
        let mut data = self.spare.pop().unwrap_or_default();
        data.extend(slices);
        self.writes += 1;
        self.bytes += data.len() as u64 * PAGE;
        let count = if token == FOREGROUND {
            &mut self.foreground
        } else {
            &mut self.placing
        };
        *count += 1;
        self.driver.write(self.file, page * PAGE, data, token);
    }

    /// Polls until no foreground operation is under way, and few enough blocks are being placed.
    fn wait(&mut self, most_placing: usize) {
        while self.foreground > 0 || self.placing > most_placing {
            self.driver.poll(Wait::UntilEvent, &mut self.completions);
            for completion in self.completions.drain(..) {
                match completion.outcome {
                    Outcome::Written { mut data, result } => {
                        result.expect("the write");
                        data.clear();
                        self.spare.push(data);
                        let count = if completion.token == FOREGROUND {
                            &mut self.foreground
                        } else {
                            &mut self.placing
                        };
                        *count -= 1;
                    }
                    Outcome::Flushed { result } => {
                        result.expect("the flush");
                        self.foreground -= 1;
                    }
                    _ => {}
                }
            }
        }
    }

    /// Where `count` pages lie together in a circle of `pages`.
    fn advance(next: &mut u64, pages: u64, count: u64) -> u64 {
        if *next + count > pages {
            *next = 0;
        }
        *next += count;
        *next - count
    }

    /// `depth` writes of a block are made durable.
    fn pass(&mut self, way: Way, depth: usize) {
        let count = depth as u64;
        let data: Vec<Slice> = self.blocks[..depth].to_vec();
        match way {
            Way::Run | Way::Scattered => {
                let log = Self::advance(&mut self.next_page, JOURNAL_PAGES, 1);
                self.write(log, std::iter::once(self.page.clone()), FOREGROUND);
                if way == Way::Run {
                    let run = JOURNAL_PAGES + Self::advance(&mut self.next_run, DATA_PAGES, count);
                    self.write(run, data.into_iter(), FOREGROUND);
                } else {
                    for block in data {
                        let place = JOURNAL_PAGES + self.rng.below(DATA_PAGES);
                        self.write(place, std::iter::once(block), FOREGROUND);
                    }
                }
                self.wait(MAX_PLACING);
                self.flush();
            }
            Way::Journal => {
                let at = Self::advance(&mut self.next_page, JOURNAL_PAGES, count + 1);
                let header = self.page.clone();
                self.write(at, std::iter::once(header).chain(data.iter().cloned()), FOREGROUND);
                self.wait(MAX_PLACING);
                self.flush();
                // Acknowledged: the rest is done beside the next pass.
                for block in data {
                    let place = JOURNAL_PAGES + self.rng.below(DATA_PAGES);
                    self.write(place, std::iter::once(block), PLACING);
                }
            }
        }
    }

    fn flush(&mut self) {
        if self.info.volatile_cache {
            self.foreground += 1;
            self.driver.flush(self.file, FOREGROUND);
            self.wait(MAX_PLACING);
        }
    }
}

#[derive(Default)]
struct Figures {
    per_second: Vec<f64>,
    cpu_us: Vec<f64>,
    bytes: f64,
    writes: f64,
}

/// What a journal saves that is placed only when it is full: blocks that were overwritten meanwhile are placed once. Bytes
/// written per byte, at depth 32.
fn absorbed(pick: &Pick) -> f64 {
    const WINDOWS: u64 = 20;
    let mut rng = Rng(1);
    let mut placed = 0;
    for _ in 0..WINDOWS {
        let mut blocks: Vec<u64> = (0..JOURNAL_PAGES).map(|_| pick.block(&mut rng)).collect();
        blocks.sort_unstable();
        blocks.dedup();
        placed += blocks.len() as u64;
    }
    1.0 + 1.0 / 32.0 + placed as f64 / (WINDOWS * JOURNAL_PAGES) as f64
}

pub fn run() {
    for (name, pick) in Pick::all(DATA_PAGES) {
        println!(
            "\njournal: placed only when {} MiB are full, {name} over {} MiB: {:.2} device bytes per byte",
            JOURNAL_PAGES >> 8,
            DATA_PAGES >> 8,
            absorbed(&pick)
        );
    }
    for (name, folder) in folders() {
        let path = folder.join("amita-alternatives");
        make(&path);
        let mut bench = Bench::open(&path);
        println!(
            "\njournal: {name}, alignment {}, volatile cache: {}; for each 4 KiB that is acknowledged",
            bench.info.alignment, bench.info.volatile_cache
        );
        println!("| depth | way | writes/s | CPU us | device bytes per byte | device writes |");
        println!("| --- | --- | --- | --- | --- | --- |");
        for depth in [1, 32] {
            let mut all: [Figures; 3] = Default::default();
            // In turns, so that what else the machine does hits all alike.
            for _ in 0..ROUNDS {
                for ((_, way), figures) in WAYS.iter().zip(&mut all) {
                    measure(&mut bench, *way, depth, figures);
                }
            }
            for ((name, _), figures) in WAYS.iter().zip(all) {
                println!(
                    "| {depth} | {name} | {:.0} | {:.2} | {:.2} | {:.2} |",
                    median(figures.per_second),
                    median(figures.cpu_us),
                    figures.bytes,
                    figures.writes
                );
            }
        }
        drop(bench);
        let _ = std::fs::remove_file(&path);
    }
}

fn measure(bench: &mut Bench, way: Way, depth: usize, figures: &mut Figures) {
    let (started, spent) = (Instant::now(), cpu());
    let (writes, bytes) = (bench.writes, bench.bytes);
    let mut done = 0;
    while started.elapsed() < TIME {
        bench.pass(way, depth);
        done += depth;
    }
    bench.wait(0);
    let done = done as f64;
    figures.per_second.push(done / started.elapsed().as_secs_f64());
    figures.cpu_us.push((cpu() - spent).as_secs_f64() * 1e6 / done);
    figures.bytes = (bench.bytes - bytes) as f64 / (done * PAGE as f64);
    figures.writes = (bench.writes - writes) as f64 / done;
}

/// Written whole: nothing is allocated while it is measured.
fn make(path: &Path) {
    let mut file = std::fs::File::create(path).expect("the folder can be written");
    let zeros = vec![0; 1 << 20];
    for _ in 0..(JOURNAL_PAGES + DATA_PAGES) * PAGE / zeros.len() as u64 {
        file.write_all(&zeros).expect("there is space");
    }
    file.sync_all().expect("a disk");
}
