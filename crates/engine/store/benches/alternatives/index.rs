//! The index in a library's tree on the disk, beside the store's own in memory. `redb` stands for such libraries: a
//! copy-on-write B-tree with durable transactions, which this project uses already.

use super::hollow::Hollow;
use super::{Rng, cpu, folders, median};
use redb::{Database, Durability, ReadableDatabase, StorageBackend, TableDefinition};
use rustc_hash::FxHashMap;
use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Blocks of the volume: 4 GiB.
const BLOCKS: u64 = 1 << 20;
/// Updates of one pass, made durable together.
const PASS: u64 = 32;
const PASSES: u64 = 3_000;
const LOOKUPS: u64 = 1 << 20;
const ROUNDS: usize = 3;

/// (chunk, block) as one number, to slot, checksum and version.
const TABLE: TableDefinition<u64, [u8; 16]> = TableDefinition::new("blocks");

/// What a database writes.
#[derive(Debug, Default)]
struct Counts {
    bytes: AtomicU64,
    writes: AtomicU64,
    syncs: AtomicU64,
}

#[derive(Debug)]
struct Counting {
    inner: redb::backends::FileBackend,
    counts: Arc<Counts>,
}

impl StorageBackend for Counting {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.inner.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.counts.syncs.fetch_add(1, Ordering::Relaxed);
        self.inner.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.counts.bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        self.counts.writes.fetch_add(1, Ordering::Relaxed);
        self.inner.write(offset, data)
    }
}

/// The figures of one kind of index.
struct Figures {
    update_us: f64,
    lookup_us: f64,
    bytes: f64,
    /// Device writes and flushes of one pass.
    writes: f64,
    syncs: f64,
    per_second: f64,
}

impl Figures {
    fn print(&self, name: &str) {
        println!(
            "| {name} | {:.2} | {:.3} | {:.0} | {:.1} | {:.1} | {:.0} |",
            self.update_us, self.lookup_us, self.bytes, self.writes, self.syncs, self.per_second
        );
    }
}

/// CPU time of one of `count`, in us.
fn each(count: u64, work: impl FnOnce()) -> f64 {
    let before = cpu();
    work();
    (cpu() - before).as_secs_f64() * 1e6 / count as f64
}

fn value(rng: &mut Rng) -> [u8; 16] {
    let mut value = [0; 16];
    value[..8].copy_from_slice(&rng.next().to_le_bytes());
    value[8..].copy_from_slice(&rng.next().to_le_bytes());
    value
}

fn library(path: &std::path::Path) -> Figures {
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)
        .expect("the folder can be written");
    let counts = Arc::new(Counts::default());
    let backend = Counting {
        inner: redb::backends::FileBackend::new(file).expect("a file of its own"),
        counts: counts.clone(),
    };
    let db: Database = Database::builder()
        .create_with_backend(backend)
        .expect("a fresh database");
    let mut rng = Rng(1);
    for first in (0..BLOCKS).step_by(1 << 16) {
        let txn = db.begin_write().expect("one writer");
        {
            let mut table = txn.open_table(TABLE).expect("one table");
            for block in first..first + (1 << 16) {
                table.insert(block, value(&mut rng)).expect("an entry");
            }
        }
        txn.commit().expect("a commit");
    }
    let taken = || {
        let [bytes, writes, syncs] = [&counts.bytes, &counts.writes, &counts.syncs].map(|c| c.load(Ordering::Relaxed));
        [bytes as f64, writes as f64, syncs as f64]
    };
    let before = taken();
    let started = Instant::now();
    let mut update_us = Vec::new();
    for _ in 0..ROUNDS {
        update_us.push(each(PASSES * PASS, || {
            for _ in 0..PASSES {
                let mut txn = db.begin_write().expect("one writer");
                txn.set_durability(Durability::Immediate).expect("no savepoints");
                {
                    let mut table = txn.open_table(TABLE).expect("one table");
                    for _ in 0..PASS {
                        let block = rng.below(BLOCKS);
                        table.insert(block, value(&mut rng)).expect("an entry");
                    }
                }
                txn.commit().expect("a commit");
            }
        }));
    }
    let passes = (ROUNDS as u64 * PASSES) as f64;
    let per_second = passes * PASS as f64 / started.elapsed().as_secs_f64();
    let after = taken();
    let lookups = (0..ROUNDS).map(|_| {
        each(LOOKUPS, || {
            let txn = db.begin_read().expect("a reader");
            let table = txn.open_table(TABLE).expect("one table");
            for _ in 0..LOOKUPS {
                black_box(
                    table
                        .get(rng.below(BLOCKS))
                        .expect("it is there")
                        .expect("it is there")
                        .value(),
                );
            }
        })
    });
    let lookup_us = median(lookups.collect());
    Figures {
        update_us: median(update_us),
        lookup_us,
        bytes: (after[0] - before[0]) / (passes * PASS as f64),
        writes: (after[1] - before[1]) / passes,
        syncs: (after[2] - before[2]) / passes,
        per_second,
    }
}

/// The store's index without the store: a hash of chunks, their map pages of 64 entries in an arena, and a log record for
/// each update, with a checksum for each page of the log.
#[derive(Default)]
struct Model {
    chunks: FxHashMap<u64, u32>,
    heads: Vec<[u32; 16]>,
    arena: Vec<[[u8; 16]; 64]>,
    page: Vec<u8>,
}

impl Model {
    fn place(&self, block: u64) -> (usize, usize) {
        let head = self.heads[self.chunks[&(block >> 10)] as usize];
        (head[(block >> 6 & 15) as usize] as usize, (block & 63) as usize)
    }

    fn update(&mut self, block: u64, value: [u8; 16]) {
        let (page, entry) = self.place(block);
        self.arena[page][entry] = value;
        self.page.extend_from_slice(&[1; 32]);
        self.page.extend_from_slice(&block.to_le_bytes());
        self.page.extend_from_slice(&value);
    }
}

fn model() -> Figures {
    let mut rng = Rng(1);
    let mut model = Model::default();
    for chunk in 0..BLOCKS >> 10 {
        let first = model.arena.len() as u32;
        model.chunks.insert(chunk, model.heads.len() as u32);
        model.heads.push(std::array::from_fn(|part| first + part as u32));
        model.arena.extend((0..16).map(|_| [[0; 16]; 64]));
    }
    let started = Instant::now();
    let updates = (0..ROUNDS).map(|_| {
        each(PASSES * PASS, || {
            for _ in 0..PASSES {
                model.page.clear();
                for _ in 0..PASS {
                    let block = rng.below(BLOCKS);
                    let value = value(&mut rng);
                    model.update(block, value);
                }
                model.page.resize(4092, 0);
                black_box(amita_types::crc32c(&model.page));
            }
        })
    });
    let update_us = median(updates.collect());
    let per_second = (ROUNDS as u64 * PASSES * PASS) as f64 / started.elapsed().as_secs_f64();
    let lookups = (0..ROUNDS).map(|_| {
        each(LOOKUPS, || {
            for _ in 0..LOOKUPS {
                let (page, entry) = model.place(rng.below(BLOCKS));
                black_box(model.arena[page][entry]);
            }
        })
    });
    Figures {
        update_us,
        lookup_us: median(lookups.collect()),
        bytes: 4096.0 / PASS as f64,
        writes: 1.0,
        syncs: 1.0,
        per_second,
    }
}

/// The whole store, with request, checks, allocation, order, the block's checksum, log page and answer; its index's
/// memory in bytes.
fn store() -> (Figures, u64) {
    let mut hollow = Hollow::new(6 << 30, BLOCKS >> 10);
    let mut rng = Rng(1);
    let pass = |hollow: &mut Hollow, block: &mut dyn FnMut() -> u64| {
        for _ in 0..PASS {
            hollow.write(block());
        }
        hollow.answers(PASS as usize);
    };
    for first in (0..BLOCKS).step_by(PASS as usize) {
        let mut blocks = first..;
        pass(&mut hollow, &mut || blocks.next().expect("without end"));
    }
    let before = hollow.store.status().counters;
    let started = Instant::now();
    let updates = (0..ROUNDS).map(|_| {
        each(PASSES * PASS, || {
            for _ in 0..PASSES {
                pass(&mut hollow, &mut || rng.below(BLOCKS));
            }
        })
    });
    let update_us = median(updates.collect());
    let per_second = (ROUNDS as u64 * PASSES * PASS) as f64 / started.elapsed().as_secs_f64();
    let after = hollow.store.status().counters;
    let updates = (ROUNDS as u64 * PASSES * PASS) as f64;
    let written = (after.device_bytes_written - before.device_bytes_written) as f64;
    let data = (after.data_bytes - before.data_bytes) as f64;
    let reads = (0..ROUNDS).map(|_| {
        each(LOOKUPS / 8, || {
            for _ in 0..LOOKUPS / 8 / PASS {
                for _ in 0..PASS {
                    let block = rng.below(BLOCKS);
                    hollow.read(block);
                }
                hollow.answers(PASS as usize);
            }
        })
    });
    let lookup_us = median(reads.collect());
    let figures = Figures {
        update_us,
        lookup_us,
        bytes: (written - data) / updates,
        writes: (after.log_pages - before.log_pages) as f64 / (updates / PASS as f64),
        syncs: 1.0,
        per_second,
    };
    (figures, hollow.store.status().index_bytes)
}

pub fn run() {
    println!("\nindex: {BLOCKS} blocks, random updates, {PASS} made durable together; CPU us, bytes beside the data");
    println!("| index | update | lookup | bytes per update | writes per pass | flushes per pass | updates/s |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for (name, folder) in folders() {
        let path = folder.join("amita-alternatives-index");
        let figures = library(&path);
        let size = std::fs::metadata(&path).map_or(0, |file| file.len());
        figures.print(&format!("redb, {name} ({} MiB)", size >> 20));
        let _ = std::fs::remove_file(&path);
    }
    model().print("the store's structure alone, nothing written");
    let (figures, memory) = store();
    figures.print(&format!(
        "the whole store, device that forgets ({} MiB of memory)",
        memory >> 20
    ));
}
