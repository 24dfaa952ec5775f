//! Reads with less memory for the index than it has: 100 %, 50 % and 10 % of the maps.

use crate::bed::Bed;
use crate::figures::{Figures, Table};
use crate::measure::{Window, median};
use crate::rider::Opening;
use crate::shape::{Places, Shape};
use std::time::Duration;

const SHAPE: Shape = Shape::read(4096, 32);
/// Bytes of a leaf in memory: 128 entries of 16 bytes.
const LEAF_BYTES: u64 = 128 * 16;
const ROUNDS: u64 = 3;
/// Before what is measured, so that what fits the budget is in memory.
const WARM_UP: Duration = Duration::from_millis(500);

/// Mounts the store once with each budget and reads at random.
pub fn measure(bed: &Bed, opening: Opening, time: Duration, figures: &mut Figures) -> Result<(), String> {
    let (rider, _) = bed.open(opening)?;
    let status = rider.status();
    // What is always there, and all leaves as they are when they are changed.
    let fixed = status.index_bytes - status.leaf_bytes;
    let leaves = status.leaf_pages * LEAF_BYTES;
    drop(rider);
    let mut table = Table::new(&[
        SHAPE.label().as_str(),
        "budget bytes",
        "index bytes",
        "IOPS",
        "bytes read per read",
    ]);
    for percent in [100, 50, 10] {
        let budget = fixed + leaves * percent / 100;
        let key = |figure: &str| format!("maps{percent}.{}.{figure}", SHAPE.name());
        let label = format!("{percent} % of the maps");
        // All of it needs no bound.
        let index_bytes = (percent < 100).then_some(budget);
        let mut rider = match bed.open(Opening { index_bytes, ..opening }) {
            Ok((rider, _)) => rider,
            Err(why) => {
                table.row([label, budget.to_string(), "-".to_owned(), why, "-".to_owned()]);
                continue;
            }
        };
        let mut windows = Vec::new();
        rider.window(SHAPE, &mut Places::new(99), WARM_UP);
        let before = rider.counters();
        for round in 0..ROUNDS {
            windows.push(rider.window(SHAPE, &mut Places::new(round), time));
        }
        let after = rider.counters();
        let reads = (after.reads - before.reads).max(1) as f64;
        let read = (after.device_bytes_read - before.device_bytes_read) as f64 / reads;
        table.row([
            label,
            budget.to_string(),
            figures.note(&key("index_bytes"), rider.status().index_bytes as f64, "bytes"),
            figures.note(&key("iops"), median(windows.iter().map(Window::iops)), "IOPS"),
            figures.note(&key("bytes_read"), read, "bytes"),
        ]);
    }
    table.print();
    Ok(())
}
