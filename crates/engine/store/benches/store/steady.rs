//! The steady state: the store is written over several times, and no second of what follows may fall far behind the
//! others, checkpoints included. Beside it stands the driver alone, second by second on the same device: what that
//! cannot hold, no store on it can.

use crate::bed::{Bed, CHUNKS, LOG_BYTES, STORE_BYTES};
use crate::figures::{Figures, Target, number};
use crate::measure::{Meter, median};
use crate::rider::{CHUNK_BYTES, Rider};
use crate::shape::{Places, Shape};
use std::time::Duration;

/// The worst window must reach this part of the median.
const WORST_RATIO: f64 = 0.7;
/// How often all of the store is written before.
const TIMES: u64 = 3;
const SHAPE: Shape = Shape::write(4096, 32);
/// Stretches of windows, of the store and of the driver alone in turn.
const STRETCHES: u32 = 4;
const WINDOWS: u32 = 6;
const WINDOW: Duration = Duration::from_secs(1);

/// Writes the store over `TIMES` times, with 4 KiB at random.
pub fn age(rider: &mut Rider) {
    let before = rider.counters().data_bytes;
    let bytes = TIMES * STORE_BYTES;
    let mut places = Places::new(77);
    rider.load(SHAPE, &mut places, |rider, done| {
        // The counters are gathered at a price; the answers say about as much.
        done * 4096 < bytes || rider.counters().data_bytes - before < bytes
    });
    rider.drain();
}

/// Measures on a store that is aged.
pub fn measure(rider: &mut Rider, figures: &mut Figures) {
    let before = rider.counters();
    let (mut store, mut alone) = (Vec::new(), Vec::new());
    for stretch in 0..STRETCHES {
        let mut places = Places::new(1000 + u64::from(stretch));
        let (mut meter, mut counted) = (Meter::start(), 0);
        let mut windows = 0;
        rider.load(SHAPE, &mut places, |_, done| {
            if meter.elapsed() >= WINDOW {
                store.push((done - counted) as f64 / meter.elapsed().as_secs_f64());
                (meter, counted) = (Meter::start(), done);
                windows += 1;
            }
            windows < WINDOWS
        });
        rider.drain();
        for _ in 0..WINDOWS {
            alone.push(rider.alone(SHAPE, Bed::region(), &mut places, WINDOW).iops());
        }
    }
    let after = rider.counters();
    let worst = |windows: &[f64]| windows.iter().copied().fold(f64::INFINITY, f64::min);
    let (store_median, alone_median) = (median(store.iter().copied()), median(alone.iter().copied()));
    let data = (after.data_bytes - before.data_bytes) as f64;
    let checkpoints = (after.checkpoint_bytes - before.checkpoint_bytes) as f64;
    let device = (after.device_bytes_written - before.device_bytes_written) as f64;
    let ratio = worst(&store) / store_median;
    println!(
        "Steady state, {} MiB store ({} MiB log, {} MiB volume) written {TIMES} times over, then {} windows of 1 s, {}:",
        STORE_BYTES >> 20,
        LOG_BYTES >> 20,
        (CHUNKS * CHUNK_BYTES) >> 20,
        store.len(),
        SHAPE.label(),
    );
    println!(
        "* median {} IOPS, worst {}: {} of the median; {} checkpoints in it; driver alone: median {}, worst {} of it",
        figures.note("steady.iops", store_median, "IOPS"),
        number(worst(&store)),
        figures.put(
            "steady.worst_ratio",
            ratio,
            "of the median",
            Target::AtLeast(WORST_RATIO)
        ),
        figures.note(
            "steady.checkpoints",
            (after.checkpoints - before.checkpoints) as f64,
            ""
        ),
        number(alone_median),
        figures.note(
            "steady.driver_worst_ratio",
            worst(&alone) / alone_median,
            "of the median"
        ),
    );
    println!(
        "* written per byte of data: {}, and {} for checkpoints\n",
        figures.note("steady.written_per_byte", (device - checkpoints) / data, "bytes"),
        figures.note("steady.checkpoints_per_byte", checkpoints / data, "bytes"),
    );
}
