//! A store of the shape of 1 TiB: a sparse file with a full index, mounted. Payload is not written (no disk here would
//! hold it): only what the store itself must find again goes to the file, and a mount reads nothing else, once the log
//! is verified.

use crate::figures::{Figures, Table};
use crate::measure::resident_bytes;
use crate::rider::{self, CHUNK_BYTES, Durable, Opening, Rider};
use std::path::Path;
use std::time::{Duration, Instant};

const STORE_BYTES: u64 = 1 << 40;
/// Slots are what is left beside the log and the checkpoints: a few chunks fewer than 2^18.
const CHUNKS: u64 = STORE_BYTES / CHUNK_BYTES / 32 * 31;
/// Longer than a store is silent before it writes down that its log is verified.
const SILENCE: Duration = Duration::from_secs(2);
const MIB: f64 = (1 << 20) as f64;

/// Fills and mounts; `blocks` of each chunk's 1024 get data.
pub fn measure(folder: &Path, blocks: u32, log_bytes: Option<u64>, figures: &mut Figures) -> Result<(), String> {
    let path = folder.join(format!("amita-store-tib-{}", std::process::id()));
    let measured = run(&path, blocks, log_bytes, figures);
    let removed = std::fs::remove_file(&path);
    measured?;
    removed.map_err(|error| format!("{}: {error}", path.display()))
}

fn run(path: &Path, blocks: u32, log_bytes: Option<u64>, figures: &mut Figures) -> Result<(), String> {
    rider::make_sparse(path, STORE_BYTES, log_bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    let opening = Opening {
        durable: Durable::Kept,
        payload_is_dropped: true,
        ..Opening::default()
    };
    println!("## A store of 1 TiB, {blocks} blocks of each of {CHUNKS} chunks, payload dropped\n");
    let (mut rider, _) = Rider::open(path, CHUNKS, opening)?;
    let (resident, started) = (resident_bytes(), Instant::now());
    rider.fill(blocks);
    let filled = started.elapsed();
    rider.idle(SILENCE);
    let (status, memory) = (rider.status(), resident_bytes().saturating_sub(resident));
    drop(rider);
    let resident = resident_bytes();
    let (rider, took) = Rider::open(path, CHUNKS, opening)?;
    let (mounted, mounted_memory) = (rider.status(), resident_bytes().saturating_sub(resident));
    if mounted.blocks != status.blocks {
        return Err(format!(
            "{} blocks were written, {} are there",
            status.blocks, mounted.blocks
        ));
    }
    let mut table = Table::new(&["1 TiB", "value", "unit"]);
    let mut row = |label: &str, name: &str, value: f64, unit: &str| {
        let cell = figures.note(&format!("tib.{name}"), value, unit);
        table.row([label.to_owned(), cell, unit.to_owned()]);
    };
    row("blocks in the index", "blocks", status.blocks as f64, "blocks");
    row("filled in", "fill_seconds", filled.as_secs_f64(), "s");
    row(
        "log written",
        "log_mib",
        status.counters.log_pages as f64 * 4096.0 / MIB,
        "MiB",
    );
    row(
        "checkpoints meanwhile",
        "checkpoints",
        status.counters.checkpoints as f64,
        "",
    );
    row(
        "bytes of them",
        "checkpoint_mib",
        status.counters.checkpoint_bytes as f64 / MIB,
        "MiB",
    );
    row(
        "memory of the index, as it counts",
        "index_mib",
        status.index_bytes as f64 / MIB,
        "MiB",
    );
    row(
        "bytes of it for a block",
        "bytes_per_block",
        status.index_bytes as f64 / status.blocks.max(1) as f64,
        "bytes",
    );
    row(
        "memory that the process grew by",
        "resident_mib",
        memory as f64 / MIB,
        "MiB",
    );
    row("mount", "mount_seconds", took.as_secs_f64(), "s");
    row(
        "read by the mount",
        "mount_mib",
        mounted.mount.bytes_read as f64 / MIB,
        "MiB",
    );
    row(
        "records replayed",
        "mount_records",
        mounted.mount.records_replayed as f64,
        "",
    );
    row(
        "memory after the mount, as the index counts",
        "mounted_index_mib",
        mounted.index_bytes as f64 / MIB,
        "MiB",
    );
    row(
        "memory that the mount took",
        "mounted_resident_mib",
        mounted_memory as f64 / MIB,
        "MiB",
    );
    table.print();
    Ok(())
}
