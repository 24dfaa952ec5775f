//! The way back after a kill at full load: nothing is closed, requests are under way, the log is as full as it gets.

use crate::bed::Bed;
use crate::figures::{Figures, number};
use crate::rider::Opening;
use crate::shape::{Places, Shape};
use std::time::{Duration, Instant};

/// The load.
const SHAPE: Shape = Shape::write(4096, 128);
/// For so long the fullest log is looked for.
const LOOK: Duration = Duration::from_secs(3);
/// And so long waited for it to come again.
const PATIENCE: Duration = Duration::from_secs(10);

/// Fills the log, drops the store where it stands, and mounts it.
pub fn measure(bed: &Bed, opening: Opening, figures: &mut Figures) -> Result<(), String> {
    let (mut rider, _) = bed.open(opening)?;
    let mut places = Places::new(5);
    let (started, mut fullest) = (Instant::now(), 0);
    rider.load(SHAPE, &mut places, |rider, _| {
        fullest = fullest.max(rider.status().log_pages_used);
        started.elapsed() < LOOK
    });
    let started = Instant::now();
    rider.load(SHAPE, &mut places, |rider, _| {
        rider.status().log_pages_used < fullest * 98 / 100 && started.elapsed() < PATIENCE
    });
    let status = rider.status();
    drop(rider);
    let (rider, took) = bed.open(opening)?;
    let mount = rider.status().mount;
    println!(
        "Mount after a kill at {}, {} of {} log pages in use: {} s, {} MiB read ({} records replayed, {} of them checked \
         against their data; {} batches that were not whole dropped); {} blocks in the index\n",
        SHAPE.label(),
        figures.note("mount.log_pages", status.log_pages_used as f64, "pages"),
        status.log_pages,
        figures.note("mount.seconds", took.as_secs_f64(), "s"),
        number(figures_mib(figures, "mount.bytes_read", mount.bytes_read)),
        mount.records_replayed,
        mount.records_verified,
        mount.batches_dropped,
        rider.status().blocks,
    );
    Ok(())
}

fn figures_mib(figures: &mut Figures, name: &str, bytes: u64) -> f64 {
    figures.note(name, bytes as f64, "bytes");
    bytes as f64 / f64::from(1 << 20)
}
