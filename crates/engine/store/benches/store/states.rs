//! What a chunk's states cost: memory, checkpoints, and the writes of the chunk itself, with so many of them.
//!
//! A volume of a few chunks, in memory. Before each state one block of each chunk is written, so that each has
//! one leaf of its own: the usual case is a little more, the best one nothing.

use crate::figures::{Figures, Table, number};
use crate::measure::{give_memory_back, median, resident_bytes};
use crate::rider::{self, CHUNK_BYTES, Durable, Opening, Rider};
use crate::shape::{Places, Shape};
use std::path::Path;
use std::time::Duration;

/// Sparse, and large enough for all states: of each a block and a leaf.
const STORE_BYTES: u64 = 4 << 30;
/// Small, so that checkpoints fall into each window.
const LOG_BYTES: u64 = 8 << 20;
const CHUNKS: u64 = 8;
/// States of each chunk.
const STATES: [u32; 4] = [0, 10, 1_000, 10_000];
const SHAPE: Shape = Shape::write(4096, 32);
const WINDOWS: u32 = 5;
/// Checkpoints whose bytes are counted.
const CHECKPOINTS: u64 = 4;
const MIB: f64 = (1 << 20) as f64;

/// Makes a store for each number of states, in a folder in memory.
pub fn measure(folder: &Path, window: Duration, figures: &mut Figures) -> Result<(), String> {
    println!("## {CHUNKS} chunks with so many states each, every one with one leaf of its own\n");
    let mut table = Table::new(&[
        "states a chunk",
        "memory a state, as counted (B)",
        "as the process grew (B)",
        "checkpoint a state (B)",
        "a checkpoint (MiB)",
        "write 4k qd32 (us of CPU)",
        "and read of the oldest (us of CPU)",
    ]);
    let path = folder.join(format!("amita-store-states-{}", std::process::id()));
    let (mut without, mut bare) = (None, None);
    for states in STATES {
        let found = run(&path, states, window);
        let removed = std::fs::remove_file(&path);
        let found = found?;
        removed.map_err(|error| format!("{}: {error}", path.display()))?;
        let bare = bare.get_or_insert(found.clone());
        let all = f64::from(states) * CHUNKS as f64;
        let each = |now: f64, before: f64| {
            if states == 0 {
                0.0
            } else {
                (now - before).max(0.0) / all
            }
        };
        let mut cells = vec![number(f64::from(states))];
        let mut note = |name: &str, value: f64, unit: &str| {
            cells.push(figures.note(&format!("states.{states}.{name}"), value, unit));
        };
        note("memory_bytes", each(found.counted, bare.counted), "bytes");
        note("resident_bytes", each(found.resident, bare.resident), "bytes");
        note("checkpoint_bytes", each(found.checkpoint, bare.checkpoint), "bytes");
        note("checkpoint_mib", found.checkpoint / MIB, "MiB");
        note("write_cpu_us", found.write_us, "us");
        note("read_oldest_cpu_us", found.read_us, "us");
        table.row(cells);
        let without = *without.get_or_insert(found.write_us);
        println!(
            "{states} states: a write costs {} of what it costs without.",
            number(found.write_us / without)
        );
    }
    println!();
    table.print();
    Ok(())
}

#[derive(Clone)]
struct Found {
    /// Bytes of the index without leaves, by its own count, and of the process, after a mount.
    counted: f64,
    resident: f64,
    /// Bytes of a checkpoint at rest.
    checkpoint: f64,
    write_us: f64,
    read_us: f64,
}

fn run(path: &Path, states: u32, window: Duration) -> Result<Found, String> {
    rider::make_sparse(path, STORE_BYTES, Some(LOG_BYTES)).map_err(|error| format!("{}: {error}", path.display()))?;
    let opening = Opening {
        durable: Durable::Kept,
        // Leaves of old states go: what is left is what states take.
        index_bytes: Some(64 << 20),
        ..Opening::default()
    };
    let (mut rider, _) = Rider::open(path, CHUNKS, opening)?;
    rider.fill(1024);
    rider.window(SHAPE, &mut Places::new(5), window);
    for state in 0..states {
        rider.take_snapshot();
        for chunk in 0..CHUNKS {
            let block = u64::from(state).wrapping_mul(0x9e37_79b9) % 1024;
            rider.write_one(chunk * CHUNK_BYTES + block * 4096);
        }
    }
    // Every leaf of the chunks themselves is changed once after the last of them, and the rest of the old ones goes.
    rider.window(SHAPE, &mut Places::new(6), window);
    let mut places = Places::new(7);
    let writes: Vec<f64> = (0..WINDOWS)
        .map(|_| rider.window(SHAPE, &mut places, window).cpu_us())
        .collect();
    // From the end of one checkpoint to the end of another.
    let mut until = |checkpoints: u64| {
        let end = rider.counters().checkpoints + checkpoints;
        rider.load(SHAPE, &mut places, |rider, _| rider.counters().checkpoints < end);
        rider.counters()
    };
    let (first, last) = (until(1), until(CHECKPOINTS));
    let bytes = last.checkpoint_bytes - first.checkpoint_bytes;
    // The pages of leaves that changed meanwhile are counted with it.
    let leaves = (last.leaf_writes - first.leaf_writes) * 4096;
    let reads = rider.read_snapshot(states.min(1), window);
    // What a mount takes has no leaves in it.
    drop(rider);
    give_memory_back();
    let before = resident_bytes();
    let (rider, _) = Rider::open(path, CHUNKS, opening)?;
    let status = rider.status();
    let resident = resident_bytes().saturating_sub(before);
    Ok(Found {
        counted: (status.index_bytes - status.leaf_bytes) as f64,
        resident: resident as f64,
        checkpoint: bytes.saturating_sub(leaves) as f64 / CHECKPOINTS as f64,
        write_us: median(writes),
        read_us: reads.cpu_us(),
    })
}
