//! What 4 KiB random writes make a disk write, by arithmetic from the format's constants: for disks that no bench can
//! write over. The disk is full of blocks that were written at random, the worst that an index can be.

use crate::bed::{LOG_BYTES, STORE_BYTES};
use crate::figures::{Figures, Table, Target, number};
use amita_store::format::geometry::Geometry;
use amita_store::format::page::RECORDS_BYTES;
use amita_store::format::{PAGE_BYTES, checkpoint, record};

const TIB: u64 = 1 << 40;
/// A checkpoint begins when this part of the log is in use.
const BEGIN_AT: u64 = 2;
/// Entries of a leaf, which is a page.
const LEAF_ENTRIES: u64 = 128;
const BLOCKS_PER_CHUNK: u64 = 1024;
/// A chunk's line in the directory: its head, and where its eight leaves are.
const CHUNK_LINE_BYTES: u64 =
    (checkpoint::Head::BYTES + checkpoint::RawChunk::BYTES + 8 * checkpoint::RawLeaf::BYTES) as u64;

/// What a checkpoint writes: the leaves of the index that changed since the last one, and the directory and the map of
/// slots whole.
struct Leaves {
    count: f64,
    directory_bytes: f64,
}

impl Leaves {
    fn of(geometry: &Geometry) -> Leaves {
        let blocks = u64::from(geometry.slots);
        // A chunk's line with all its leaves; of the map one bit a slot.
        let chunks = blocks.div_ceil(BLOCKS_PER_CHUNK) * CHUNK_LINE_BYTES;
        let slots = blocks.div_ceil(u64::from(checkpoint::SLOTS_PER_ITEM)) * checkpoint::SLOTS_BYTES;
        Leaves {
            count: blocks.div_ceil(LEAF_ENTRIES) as f64,
            directory_bytes: (chunks + slots) as f64,
        }
    }

    /// Bytes of a checkpoint after so many writes at random: a leaf that is met twice is written once.
    fn changed_bytes(&self, writes: f64) -> f64 {
        // 1 - (1 - 1/n)^w, in a form that keeps its digits when n is large.
        let met = -(writes * (-1.0 / self.count).ln_1p()).exp_m1();
        self.count * met * PAGE_BYTES as f64 + self.directory_bytes
    }
}

/// Prints and notes it.
pub fn print(figures: &mut Figures) {
    let head = [
        "4 KiB random writes, by arithmetic",
        "log MiB",
        "written per byte",
        "checkpoint GiB",
    ];
    let more = ["a checkpoint for GiB of data", "checkpoints per byte"];
    let mut table = Table::new(&[&head[..], &more[..]].concat());
    let disks = [
        (STORE_BYTES, Some(LOG_BYTES), "bench", "this bench's store"),
        (TIB, None, "1tib", "1 TiB"),
        (16 * TIB, None, "16tib", "16 TiB"),
    ];
    for (size_bytes, log_bytes, name, disk) in disks {
        let geometry = match Geometry::divide(size_bytes, log_bytes) {
            Ok(geometry) => geometry,
            Err(error) => {
                println!("{disk}: {error}");
                continue;
            }
        };
        for depth in [32_u32, 1] {
            let records = depth as usize * record::write_bytes(1, 1);
            let pages = records.div_ceil(RECORDS_BYTES) as f64;
            let writes_per_page = f64::from(depth) / pages;
            let writes = (geometry.log_pages / BEGIN_AT) as f64 * writes_per_page;
            let checkpoint = Leaves::of(&geometry).changed_bytes(writes);
            let data = writes * PAGE_BYTES as f64;
            let key = |figure: &str| format!("arithmetic.{name}.qd{depth}.{figure}");
            let limit = if depth == 1 { 2.0 } else { 1.15 };
            let written = 1.0 + 1.0 / writes_per_page;
            let gib = f64::from(1 << 30);
            table.row([
                format!("{disk}, depth {depth}"),
                number(geometry.log_pages as f64 * PAGE_BYTES as f64 / f64::from(1 << 20)),
                figures.put(&key("written_per_byte"), written, "bytes", Target::AtMost(limit)),
                figures.note(&key("checkpoint_gib"), checkpoint / gib, "GiB"),
                figures.note(&key("data_gib"), data / gib, "GiB"),
                figures.note(&key("checkpoints_per_byte"), checkpoint / data, "bytes"),
            ]);
        }
    }
    table.print();
}
