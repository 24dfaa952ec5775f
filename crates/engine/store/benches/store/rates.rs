//! Rates, CPU and bytes beside fio: short windows in turn, so that what disturbs the machine disturbs all of them, and
//! the median of each round's ratios.

use crate::bed::Bed;
use crate::figures::{Figures, Table, Target};
use crate::fio::Way;
use crate::measure::{Window, median};
use crate::rider::Rider;
use crate::shape::{Places, Shape};
use std::time::Duration;

/// What the store must reach: a part of fio's IOPS and of its bandwidth, and CPU beyond fio's at depth 32.
const IOPS_RATIO: f64 = 0.9;
const BANDWIDTH_RATIO: f64 = 0.95;
const WRITE_MORE_US: f64 = 3.0;
const READ_MORE_US: f64 = 1.5;
/// Device bytes per byte of data, the log included and checkpoints left out.
const WRITTEN_DEPTH_32: f64 = 1.15;
const WRITTEN_DEPTH_1: f64 = 2.0;

/// What is judged; all is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// Rates, CPU and bytes.
    All,
    /// CPU beside the second fio, and bytes: the file is in memory. Rates are not, because there a write at depth 1 is two
    /// copies that the one core makes one after the other, of data and of log.
    Costs,
    /// Nothing: it is there to compare.
    Nothing,
}

/// How long, how often, and beside what.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    pub time: Duration,
    pub rounds: u32,
    /// Begins the figures' names: empty, or with a dot at its end.
    pub prefix: &'static str,
    /// The fio that rates are judged by.
    pub beside: Way,
    /// Another one, that is shown as well.
    pub and: Option<Way>,
    pub judged: Judged,
}

/// The windows of one shape.
struct Measured {
    store: Vec<Window>,
    alone: Vec<Window>,
    beside: Vec<Window>,
    and: Vec<Window>,
    /// Bytes: of data, written to the device, of these checkpoints.
    data: u64,
    device: u64,
    checkpoints: u64,
    /// Batches and flushes, those of checkpoints included.
    batches: u64,
    flushes: u64,
}

fn measure(rider: &mut Rider, bed: &mut Bed, shape: Shape, rounds: Rounds) -> Result<Measured, String> {
    let mut measured = Measured {
        store: Vec::new(),
        alone: Vec::new(),
        beside: Vec::new(),
        and: Vec::new(),
        data: 0,
        device: 0,
        checkpoints: 0,
        batches: 0,
        flushes: 0,
    };
    for round in 0..rounds.rounds {
        let mut places = Places::new(u64::from(round));
        measured.beside.push(bed.fio.window(rounds.beside, shape, rounds.time)?);
        let before = rider.counters();
        measured.store.push(rider.window(shape, &mut places, rounds.time));
        let after = rider.counters();
        measured.data += after.data_bytes - before.data_bytes;
        measured.device += after.device_bytes_written - before.device_bytes_written;
        measured.checkpoints += after.checkpoint_bytes - before.checkpoint_bytes;
        measured.batches += after.batches - before.batches;
        measured.flushes += after.flushes - before.flushes;
        if let Some(and) = rounds.and {
            measured.and.push(bed.fio.window(and, shape, rounds.time)?);
        }
        measured
            .alone
            .push(rider.alone(shape, Bed::region(), &mut places, rounds.time));
    }
    Ok(measured)
}

fn of(windows: &[Window], figure: impl Fn(&Window) -> f64) -> f64 {
    median(windows.iter().map(figure))
}

fn between(a: &[Window], b: &[Window], figure: impl Fn(&Window, &Window) -> f64) -> f64 {
    median(a.iter().zip(b).map(|(a, b)| figure(a, b)))
}

/// 4 KiB at random.
pub fn small(
    rider: &mut Rider,
    bed: &mut Bed,
    shapes: &[Shape],
    rounds: Rounds,
    figures: &mut Figures,
) -> Result<(), String> {
    let (and, and_name) = match rounds.and {
        Some(Way::Calls) => ("ratio to psync", "iops_ratio_psync"),
        Some(Way::Ring) => ("ratio to fio that is not durable", "iops_ratio_not_durable"),
        Some(Way::RingDurable) => ("ratio to durable fio", "iops_ratio_durable"),
        None => ("", ""),
    };
    let mut head = vec![
        "4 KiB random",
        "fio IOPS",
        "store IOPS",
        "ratio",
        "fio CPU us",
        "store CPU us",
        "more us",
    ];
    head.extend([
        "driver alone IOPS",
        "its CPU us",
        "written per byte",
        "checkpoints per byte",
        "writes per batch",
    ]);
    head.extend((!and.is_empty()).then_some(and));
    let mut table = Table::new(&head);
    for &shape in shapes {
        let measured = measure(rider, bed, shape, rounds)?;
        let key = |figure: &str| format!("{}{}.{figure}", rounds.prefix, shape.name());
        let ratio = |fio: &[Window]| between(&measured.store, fio, |store, fio| store.iops() / fio.iops());
        let by = match rounds.judged {
            Judged::Costs => &measured.and,
            Judged::All | Judged::Nothing => &measured.beside,
        };
        let more = between(&measured.store, by, |store, fio| store.cpu_us() - fio.cpu_us());
        let when = |judged: bool, target: Target| if judged { target } else { Target::None };
        let costs = rounds.judged != Judged::Nothing;
        let more_target = match (shape.depth, shape.write) {
            (32, true) => when(costs, Target::AtMost(WRITE_MORE_US)),
            (32, false) => when(costs, Target::AtMost(READ_MORE_US)),
            _ => Target::None,
        };
        let iops_target = when(rounds.judged == Judged::All, Target::AtLeast(IOPS_RATIO));
        let mut cells = vec![
            format!("{}, depth {}", shape.verb(), shape.depth),
            figures.note(&key("fio_iops"), of(&measured.beside, Window::iops), "IOPS"),
            figures.note(&key("iops"), of(&measured.store, Window::iops), "IOPS"),
            figures.put(&key("iops_ratio"), ratio(&measured.beside), "of fio's", iops_target),
            figures.note(&key("fio_cpu_us"), of(by, Window::cpu_us), "us"),
            figures.note(&key("cpu_us"), of(&measured.store, Window::cpu_us), "us"),
            figures.put(&key("cpu_more_us"), more, "us", more_target),
            figures.note(&key("driver_iops"), of(&measured.alone, Window::iops), "IOPS"),
            figures.note(&key("driver_cpu_us"), of(&measured.alone, Window::cpu_us), "us"),
        ];
        if shape.write {
            let data = measured.data.max(1) as f64;
            let target = match shape.depth {
                1 => when(costs, Target::AtMost(WRITTEN_DEPTH_1)),
                32 => when(costs, Target::AtMost(WRITTEN_DEPTH_32)),
                _ => Target::None,
            };
            let written = (measured.device - measured.checkpoints) as f64 / data;
            // One page of the log for a block of data is 2, and the odd page that only moves the mark is no more.
            let written = (written * 100.0).round() / 100.0;
            cells.push(figures.put(&key("written_per_byte"), written, "bytes", target));
            let checkpoints = measured.checkpoints as f64 / data;
            cells.push(figures.note(&key("checkpoints_per_byte"), checkpoints, "bytes"));
            let per = |count: u64| data / 4096.0 / count.max(1) as f64;
            cells.push(figures.note(&key("writes_per_batch"), per(measured.batches), "writes"));
            if measured.flushes > 0 {
                figures.note(&key("writes_per_flush"), per(measured.flushes), "writes");
            }
        } else {
            cells.extend([String::new(), String::new(), String::new()]);
        }
        if !and.is_empty() {
            cells.push(figures.note(&key(and_name), ratio(&measured.and), "of fio's"));
        }
        table.row(cells);
    }
    table.print();
    Ok(())
}

/// 128 KiB, one after the other.
pub fn large(
    rider: &mut Rider,
    bed: &mut Bed,
    shapes: &[Shape],
    rounds: Rounds,
    figures: &mut Figures,
) -> Result<(), String> {
    let mut table = Table::new(&[
        "128 KiB sequential",
        "fio MiB/s",
        "store MiB/s",
        "ratio",
        "driver alone MiB/s",
    ]);
    for &shape in shapes {
        let measured = measure(rider, bed, shape, rounds)?;
        let key = |figure: &str| format!("{}{}.{figure}", rounds.prefix, shape.name());
        let ratio = between(&measured.store, &measured.beside, |store, fio| {
            store.iops() / fio.iops()
        });
        let target = match rounds.judged {
            Judged::All => Target::AtLeast(BANDWIDTH_RATIO),
            Judged::Costs | Judged::Nothing => Target::None,
        };
        table.row([
            format!("{}, depth {}", shape.verb(), shape.depth),
            figures.note(&key("fio_mib_s"), of(&measured.beside, Window::mib_s), "MiB/s"),
            figures.note(&key("mib_s"), of(&measured.store, Window::mib_s), "MiB/s"),
            figures.put(&key("bandwidth_ratio"), ratio, "of fio's", target),
            figures.note(&key("driver_mib_s"), of(&measured.alone, Window::mib_s), "MiB/s"),
        ]);
    }
    table.print();
    Ok(())
}
