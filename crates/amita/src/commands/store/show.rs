//! How structures are shown to people and to scripts.

use amita_store::MountReport;
use amita_store::format::superblock::{Fault, Superblock};
use amita_store::offline::Report;
use amita_terminal::error::{Context, Result};
use amita_terminal::size;
use serde_json::{Value, json};
use std::io::{ErrorKind, Write};

/// Prints JSON, one value a line.
pub(super) fn print(values: &[Value]) -> Result<()> {
    let lines: String = values.iter().map(|value| format!("{value}\n")).collect();
    print_text(&lines)
}

/// Prints one JSON value over several lines.
pub(super) fn print_pretty(value: &Value) -> Result<()> {
    print_text(&format!("{value:#}\n"))
}

/// Prints text. A reader that has seen enough (`| head`) is no failure.
pub(super) fn print_text(text: &str) -> Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context(|| "cannot write to standard output".to_owned()),
    }
}

/// The report of a check.
pub(super) fn report(path: &str, report: &Report) -> Value {
    super::check::value(path, report)
}

/// What a mount found.
pub(super) fn mount(report: &MountReport) -> Value {
    json!({
        "records_replayed": report.records_replayed,
        "records_verified": report.records_verified,
        "bytes_read": report.bytes_read,
        "ended_short": report.ended_short,
        "batches_dropped": report.batches_dropped,
        "leaves_lost": report.leaves_lost,
        "superblock_damaged": report.superblock_damaged,
    })
}

/// A superblock, or why it is none.
pub(super) fn superblock(found: &std::result::Result<Superblock, Fault>) -> Value {
    match found {
        Err(fault) => json!({ "fault": format!("{fault:?}") }),
        Ok(s) => json!({
            "generation": s.generation,
            "store": s.store,
            "cluster": (s.cluster.0 != 0).then_some(s.cluster),
            "size_bytes": s.geometry.size_bytes,
            "log_offset": s.geometry.log_offset,
            "log_pages": s.geometry.log_pages,
            "checkpoint_offsets": s.geometry.checkpoint_offsets,
            "checkpoint_pages": s.geometry.checkpoint_pages,
            "slots_offset": s.geometry.slots_offset,
            "slots": s.geometry.slots,
            "checkpoint": {
                "id": s.checkpoint.id,
                "area": s.checkpoint.area,
                "pages": s.checkpoint.pages,
                "last_sum": s.checkpoint.last_sum,
                "tail": s.checkpoint.tail,
                "tail_sum": s.checkpoint.tail_sum,
            },
            "mount": s.mount,
            "mount_start": s.mount_start,
        }),
    }
}

/// The same in a line.
pub(super) fn superblock_line(found: &std::result::Result<Superblock, Fault>) -> String {
    match found {
        Err(fault) => format!("cannot be used: {fault}"),
        Ok(s) => format!(
            "generation {}, checkpoint {}, log from page {}, mount {} from page {}",
            s.generation, s.checkpoint.id, s.checkpoint.tail, s.mount, s.mount_start
        ),
    }
}

/// The cluster of a store.
pub(super) fn cluster(superblock: &Superblock) -> String {
    if superblock.cluster.0 == 0 {
        "none yet".to_owned()
    } else {
        superblock.cluster.to_string()
    }
}

/// Bytes, exactly and readably.
pub(super) fn bytes(bytes: u64) -> String {
    format!("{bytes} ({})", size::show(bytes))
}

/// In GiB.
pub(super) fn gib(bytes: u64) -> String {
    format!("{:.3}", bytes as f64 / (1u64 << 30) as f64)
}
