//! The sequencer's share of an I/O: nanoseconds of a 4 KiB write to three members, and of a read from one, with stores
//! that answer at once. The CRC-32C of the block (once for a write, once for a read) is part of it.
//!
//! `cargo bench -p amita-sequencer`

#[path = "../tests/common/mod.rs"]
mod common;

use amita_reactor::Slice;
use amita_sequencer::{Config, IoId, Sequencer};
use amita_types::io::Op;
use amita_types::{BLOCK_BYTES, StoreId};
use common::{SERVER, Stores, opened};
use std::time::Instant;

const DEPTH: u64 = 32;
const ROUNDS: u64 = 20_000;
const CHUNK_BYTES: u64 = 4 << 20;
const CHUNKS: u64 = 64;
/// Of a round of messages.
const TRIP_NS: u64 = 10_000;

struct Bench {
    sequencer: Sequencer,
    stores: Stores,
    at: u64,
}

impl Bench {
    fn round(&mut self, write: bool) {
        for _ in 0..DEPTH {
            self.at += 1;
            let offset = self.at * 7919 % (CHUNKS * CHUNK_BYTES / u64::from(BLOCK_BYTES)) * u64::from(BLOCK_BYTES);
            let length = BLOCK_BYTES;
            let (op, data) = if write {
                (Op::Write { offset, length }, self.stores.block.clone())
            } else {
                (Op::Read { offset, length }, Slice::default())
            };
            self.sequencer.submit(self.stores.now, IoId(self.at), op, data);
        }
        self.stores.settle(&mut self.sequencer, TRIP_NS);
    }

    fn measure(&mut self, name: &str, write: bool) {
        for _ in 0..ROUNDS / 10 {
            self.round(write);
        }
        let start = Instant::now();
        for _ in 0..ROUNDS {
            self.round(write);
        }
        let each = start.elapsed().as_nanos() as f64 / (ROUNDS * DEPTH) as f64;
        println!("{name:<44} {each:8.0} ns");
    }
}

fn main() {
    let block = Slice::copy_from(&[5; BLOCK_BYTES as usize]);
    let sum = amita_types::crc32c(&block);
    let start = Instant::now();
    for _ in 0..100_000 {
        std::hint::black_box(amita_types::crc32c(std::hint::black_box(&block)));
    }
    println!(
        "{:<44} {:8.0} ns",
        "volume.crc32c.4k",
        start.elapsed().as_nanos() as f64 / 100_000.0
    );
    let stores = Stores::new(block, sum, 1);
    let mut bench = Bench {
        sequencer: Sequencer::new(Config::default(), opened(CHUNKS, 64), 1 << 40, stores.now),
        stores,
        at: 0,
    };
    for store in 1..=3 {
        bench.sequencer.store_up(bench.stores.now, StoreId(store), SERVER);
    }
    bench.measure("volume.write.4k.copies3.qd32.cpu_ns", true);
    bench.measure("volume.read.4k.qd32.cpu_ns", false);
    assert!(bench.stores.done > 0);
}
