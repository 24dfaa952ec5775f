//! A thousand clones of one golden image: what it takes to make them, what they take, and how they are read when many begin at once.

use super::{LIMIT, Operator, Room, failed, ms};
use crate::median;
use crate::report::Figures;
use crate::testbed::{Product, Testbed};
use amita_control::admin;
use amita_harness::fio::{self, Job};
use amita_terminal::error::{Failure, Result};
use amita_terminal::interrupt;
use amita_terminal::progress::Steps;
use amita_types::VolumeId;
use amita_types::map::About;
use std::time::{Duration, Instant};

const CLONES: usize = 1000;
/// Machines that boot at one time.
const STORM: usize = 32;
/// Storms of each kind, each of machines that have not been there before. The middle one counts.
const TURNS: usize = 3;
/// What each machine reads: all of the image.
const IMAGE: u64 = 64 << 20;
const READ_BYTES: u32 = 16 << 10;
/// What is left of the rate at which as many read one volume.
const RATE_LEFT: f64 = 0.9;
const ROOM: Room = Room {
    store_bytes: 2 << 30,
    volume_bytes: IMAGE,
};

pub(super) fn measure(
    steps: &mut Steps,
    product: &Product,
    start: &impl Fn(&Product, Room) -> Result<Testbed>,
    figures: &mut Figures,
) -> Result<()> {
    let testbed = steps.step("three nodes for clones", || start(product, ROOM))?;
    let mut operator = Operator::of(&testbed)?;
    let image = [testbed.volumes[0].clone()];
    job(&testbed, "image", &image, "write", 128 << 10).run(testbed.scratch.folder(), LIMIT)?;
    operator.take()?;
    let before = free_bytes(&testbed)?;
    let took = steps.step(&format!("{CLONES} clones of one snapshot"), || make(&operator))?;
    let made = free_bytes(&testbed)?;
    figures.note(
        "clones.make_ms",
        &format!("a clone is made (median of {CLONES})"),
        median(took.into_iter().map(ms)),
        "ms",
    );
    let per = |from: u64, to: u64, clones: usize| from.saturating_sub(to) as f64 / clones as f64;
    figures.note(
        "clones.made_bytes",
        "a clone takes of all stores, when it is made",
        per(before, made, CLONES),
        "B",
    );
    let mut turns = Vec::new();
    steps.step(
        &format!("{STORM} machines boot at once, of clones and of one volume"),
        || {
            for turn in 0..TURNS {
                interrupt::check()?;
                let clones: Vec<String> = (turn * STORM..(turn + 1) * STORM).map(name).collect();
                for clone in &clones {
                    testbed.cluster.offer_by_nbd(clone)?;
                }
                let one = storm(&testbed, &vec![image[0].clone(); STORM])?;
                turns.push([one, storm(&testbed, &clones)?, storm(&testbed, &clones)?]);
            }
            Ok(())
        },
    )?;
    let ratio = |of: usize| median(turns.iter().map(|turn| turn[0].as_secs_f64() / turn[of].as_secs_f64()));
    for (of, point, label) in [(1, "first", "never read before"), (2, "again", "read before")] {
        figures.at_least(
            &format!("clones.storm.{point}_ratio"),
            &format!("{STORM} clones, {label}, are read at once: rate, of as many readers of one volume"),
            ratio(of),
            "",
            RATE_LEFT,
        );
    }
    let read = free_bytes(&testbed)?;
    figures.note(
        "clones.read_bytes",
        &format!(
            "a clone of {} MiB takes of all stores, when all of it was read",
            IMAGE >> 20
        ),
        per(made, read, TURNS * STORM),
        "B",
    );
    Ok(())
}

fn name(number: usize) -> String {
    format!("clone-{number}")
}

fn make(operator: &Operator) -> Result<Vec<Duration>> {
    (0..CLONES)
        .map(|number| {
            interrupt::check()?;
            let began = Instant::now();
            admin::clone_volume(
                &operator.meta,
                &operator.volume,
                "s0",
                &name(number),
                &About::of(VolumeId(0)),
            )
            .map_err(failed)?;
            Ok(began.elapsed())
        })
        .collect()
}

/// One reader of each, all at once: how long it takes, the opening included.
fn storm(testbed: &Testbed, volumes: &[String]) -> Result<Duration> {
    let job = job(testbed, "storm", volumes, "randread", READ_BYTES);
    let began = Instant::now();
    job.run(testbed.scratch.folder(), LIMIT)?;
    Ok(began.elapsed())
}

/// Each block of each volume, once.
fn job(testbed: &Testbed, name: &str, volumes: &[String], pattern: &'static str, block_bytes: u32) -> Job {
    let mut targets = volumes.iter().map(|volume| fio::nbd(&testbed.cluster.uri(0, volume)));
    Job {
        name: name.to_owned(),
        target: targets.next().unwrap_or_default(),
        pattern,
        block_bytes,
        depth: 4,
        offset_bytes: 0,
        size_bytes: IMAGE,
        run: None,
        more: vec!["--thread".to_owned()],
        also: targets.collect(),
    }
}

/// Of all stores, when it does not change any more.
fn free_bytes(testbed: &Testbed) -> Result<u64> {
    let stores = testbed.stores()?;
    super::settled(&|| {
        let free = stores.free();
        free.ok_or_else(|| Failure::new("a node does not tell of its store"))
    })
}
