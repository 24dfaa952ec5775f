//! What it costs others when snapshots are deleted: of a volume of the shape of 1 TiB, of which some chunks have a block each, and
//! of one whose every block was written again.

use super::{LIMIT, Operator, Room, ms, settled};
use crate::report::Figures;
use crate::testbed::{Product, Stores, Testbed};
use amita_harness::fio::{self, Job, Report};
use amita_terminal::error::{Failure, Result};
use amita_terminal::interrupt;
use amita_terminal::progress::Steps;
use std::time::{Duration, Instant};

/// What the client's p99 may grow to while states are dropped.
const P99_RATIO: f64 = 1.2;
/// A client is measured so long at a time.
const SLICE: Duration = Duration::from_secs(3);
/// The most slices beside one deletion.
const SLICES: usize = 40;
/// The client's own part of the volume, before everything else.
const REGION: u64 = 32 << 20;

/// What a volume is like, and how it is written again after the snapshot.
struct Shape {
    name: &'static str,
    label: &'static str,
    room: Room,
    /// fio's pattern, its block, and where it begins and ends.
    pattern: &'static str,
    block_bytes: u32,
    offset: u64,
    /// Writes after which a pattern with holes is at its end: fio itself may begin anew there. 0: it ends by itself.
    writes: u64,
}

const SHAPES: [Shape; 2] = [
    Shape {
        name: "sparse",
        // A store drops the states of 100 chunks a second beside a busy client.
        label: "1 TiB with 4,096 chunks of a block each",
        room: Room {
            store_bytes: 2 << 30,
            volume_bytes: 1 << 40,
        },
        // One of each 256 MiB.
        pattern: "write:262140k",
        block_bytes: 4096,
        offset: 64 << 20,
        writes: 4096,
    },
    Shape {
        name: "dense",
        label: "512 MiB, every block written again",
        room: Room {
            store_bytes: 2 << 30,
            volume_bytes: (512 << 20) + (64 << 20),
        },
        pattern: "write",
        block_bytes: 128 << 10,
        offset: 64 << 20,
        writes: 0,
    },
];

pub(super) fn measure(
    steps: &mut Steps,
    product: &Product,
    start: &impl Fn(&Product, Room) -> Result<Testbed>,
    figures: &mut Figures,
) -> Result<()> {
    for shape in &SHAPES {
        let label = format!("a snapshot is deleted of {}", shape.label);
        steps.step(&label, || {
            let testbed = start(product, shape.room)?;
            delete(&testbed, shape, &label, figures)
        })?;
    }
    Ok(())
}

fn delete(testbed: &Testbed, shape: &Shape, label: &str, figures: &mut Figures) -> Result<()> {
    let mut operator = Operator::of(testbed)?;
    let stores = testbed.stores()?;
    let free = || free_bytes(&stores);
    client(testbed, "warm")?;
    fill(testbed, shape)?;
    // What the snapshot keeps of the client's part is no part of what is measured.
    operator.take()?;
    fill(testbed, shape)?;
    let full_bytes = settled(&free)?;
    let before = client(testbed, "before")?;
    let (began, said) = (Instant::now(), operator.delete(0)?);
    let (mut during, mut seen) = (Vec::new(), Vec::new());
    loop {
        let running = job(testbed, "during").start(testbed.scratch.folder())?;
        while began.elapsed() < SLICE * (during.len() as u32 + 1) {
            interrupt::sleep(Duration::from_millis(50))?;
            seen.push((began.elapsed(), free()?));
        }
        during.push(running.finish(SLICE + LIMIT)?);
        if freeing_bytes(testbed)? == 0 {
            break;
        }
        if during.len() == SLICES {
            return Err(Failure::new("the space of a snapshot does not come back"));
        }
    }
    let freed = settled(&free)?.saturating_sub(full_bytes);
    // Behind: what the log has not moved on from is free a little later.
    let enough = full_bytes + freed / 100 * 95;
    let back = seen.iter().find(|(_, free)| *free >= enough).map(|(at, _)| *at);
    let took = back.unwrap_or_else(|| began.elapsed());
    let name = format!("snapshot.delete.{}", shape.name);
    figures.note(&format!("{name}.ms"), &format!("{label}: the command"), ms(said), "ms");
    figures.note(
        &format!("{name}.s"),
        &format!("{label}: until its space is back, on all stores"),
        took.as_secs_f64(),
        "s",
    );
    figures.note(
        &format!("{name}.gib_s"),
        &format!("{label}: freed of all stores"),
        freed as f64 / f64::from(1 << 30) / took.as_secs_f64().max(1e-9),
        "GiB/s",
    );
    let p99 = |report: &Report| report.read.latency.p99.max(report.write.latency.p99).as_secs_f64();
    let worst = during.iter().map(p99).fold(0.0, f64::max);
    figures.at_most(
        &format!("{name}.p99_ratio"),
        &format!("{label}: a client's p99 meanwhile, of that before"),
        worst / p99(&before).max(1e-9),
        "",
        P99_RATIO,
    );
    Ok(())
}

fn job(testbed: &Testbed, name: &str) -> Job {
    let mut job = Job {
        name: name.to_owned(),
        target: fio::nbd(&testbed.cluster.uri(0, &testbed.volumes[0])),
        pattern: "randrw",
        block_bytes: 4096,
        depth: 8,
        offset_bytes: 0,
        size_bytes: REGION,
        run: Some(SLICE),
        more: Vec::new(),
        also: Vec::new(),
    };
    job.more.push("--rwmixread=70".to_owned());
    job
}

/// The client whose figures count: mostly reads, like most.
fn client(testbed: &Testbed, name: &str) -> Result<Report> {
    job(testbed, name).run(testbed.scratch.folder(), SLICE + LIMIT)
}

fn fill(testbed: &Testbed, shape: &Shape) -> Result<()> {
    let mut job = Job {
        name: "fill".to_owned(),
        target: fio::nbd(&testbed.cluster.uri(0, &testbed.volumes[0])),
        pattern: shape.pattern,
        block_bytes: shape.block_bytes,
        depth: 32,
        offset_bytes: shape.offset,
        size_bytes: shape.room.volume_bytes - shape.offset,
        run: None,
        more: Vec::new(),
        also: Vec::new(),
    };
    if shape.writes > 0 {
        job.more.push(format!("--number_ios={}", shape.writes));
    }
    job.run(testbed.scratch.folder(), LIMIT * 5).map(drop)
}

/// What stores have still of what nothing needs any more. It asks all stores to look: not while a client is measured.
fn freeing_bytes(testbed: &Testbed) -> Result<u64> {
    let output = testbed
        .cluster
        .amita(["volume", "show", &testbed.volumes[0], "--json"])?;
    let shown: serde_json::Value = serde_json::from_str(&output.success()?.text).map_err(super::failed)?;
    shown["freeing_bytes"]
        .as_u64()
        .ok_or_else(|| Failure::new("it is not known what a volume's stores still free"))
}

/// Of all stores, as their nodes tell.
fn free_bytes(stores: &Stores) -> Result<u64> {
    stores
        .free()
        .ok_or_else(|| Failure::new("a node does not tell of its store"))
}
