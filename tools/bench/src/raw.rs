//! The backing alone, by fio beside the path through Amita: what the stores' files could do at best.

use crate::micros;
use crate::report::Figures;
use amita_harness::fio::{Job, Report};
use amita_harness::scratch::Scratch;
use amita_terminal::error::Result;
use std::path::Path;
use std::time::Duration;

/// Longer than any run may take beyond its time.
const SLACK: Duration = Duration::from_secs(60);

/// fio's engine and target for a file or a device.
#[must_use]
pub fn target(path: &Path, is_memory: bool) -> Vec<String> {
    // Memory has no queue: what is asked of it is done in the call. A disk is asked as the stores ask it.
    let engine: &[&str] = if is_memory {
        &["--ioengine=psync"]
    } else {
        &["--ioengine=io_uring", "--direct=1"]
    };
    let engine = engine.iter().map(|&option| option.to_owned());
    engine.chain([format!("--filename={}", path.display())]).collect()
}

/// One file of `size_bytes`, random 4 KiB, at depths 1 and 32.
///
/// # Errors
/// When fio fails.
pub fn measure(scratch: &Scratch, size_bytes: u64, run: Duration, figures: &mut Figures) -> Result<()> {
    let file = scratch.stores().join("raw");
    let target = target(&file, scratch.is_memory());
    let job = |name: &str, pattern, block_bytes, depth, run| Job {
        name: format!("raw-{name}"),
        target: target.clone(),
        pattern,
        block_bytes,
        depth,
        offset_bytes: 0,
        size_bytes,
        run,
        more: Vec::new(),
        also: Vec::new(),
    };
    let folder = scratch.folder();
    // Written full first: a file with holes is another thing to measure.
    job("fill", "write", 1 << 20, 4, None).run(folder, SLACK * 5)?;
    let half = run / 2;
    let one = |name: &str, pattern, depth| -> Result<Report> {
        job(name, pattern, 4096, depth, Some(half)).run(folder, half + SLACK)
    };
    let write_1 = one("write1", "randwrite", 1)?.write;
    let write_32 = one("write32", "randwrite", 32)?.write;
    let read_1 = one("read1", "randread", 1)?.read;
    let read_32 = one("read32", "randread", 32)?.read;
    figures.note(
        "raw.write.4k.qd1.latency_us",
        "backing alone: write, depth 1",
        micros(write_1.latency.mean),
        "us",
    );
    figures.note(
        "raw.read.4k.qd1.latency_us",
        "backing alone: read, depth 1",
        micros(read_1.latency.mean),
        "us",
    );
    figures.note(
        "raw.write.4k.qd32.iops",
        "backing alone: write, depth 32",
        write_32.iops,
        "IOPS",
    );
    figures.note(
        "raw.read.4k.qd32.iops",
        "backing alone: read, depth 32",
        read_32.iops,
        "IOPS",
    );
    // It has served its purpose, and its room is the stores'.
    if let Err(error) = std::fs::remove_file(&file) {
        log::warn!("cannot remove {}: {error}", file.display());
    }
    Ok(())
}
