//! What NVMe/TCP adds to an I/O, and what a host sees when its gateway dies or its volume moves.
//!
//! The host is one of user space, on a thread of this process whose CPU is not counted: what a real host spends is its
//! own affair, and there is no kernel here whose driver could be measured. Everything else, the target's side, is on
//! one core, and the same I/O by the client library beside it, in turns, on the same cluster.

pub mod added;
pub mod gateways;
pub mod paths;
pub mod trip;

use crate::case::Mix;
use crate::report::Figures;
use crate::testbed::Product;
use crate::usage::Foreign;
use crate::{median, micros};
use added::{Sample, Turn};
use amita_terminal::error::Result;
use amita_terminal::interrupt;
use amita_terminal::progress::Steps;
use gateways::{FIRST, Gateways, SECOND};
use paths::Writer;
use std::time::{Duration, Instant};

/// CPU that NVMe/TCP may add to one I/O at depth 32.
const ADDED_CPU_US: f64 = 4.0;
/// Latency that it may add at depth 1, beyond a round trip on loopback.
const ADDED_LATENCY_US: f64 = 15.0;
/// The longest time without an acknowledgement when a gateway is killed, and when a volume moves.
const FAILOVER_SECONDS: f64 = 1.0;
const MOVE_SECONDS: f64 = 0.1;

pub const DEEP: u16 = 32;
/// How often each of those that are compared has its turn. The middle difference counts.
pub const TURNS: usize = 3;
/// Of one measurement.
pub const DEEP_TIME: Duration = Duration::from_millis(2000);
pub const SHALLOW_TIME: Duration = Duration::from_millis(1000);
/// Writes before something is done to the path.
const BEFORE: Duration = Duration::from_secs(1);
/// Writes after it: longer than any pause that is still a pause.
const AFTER_KILL: Duration = Duration::from_secs(5);
const AFTER_MOVE: Duration = Duration::from_secs(2);

/// Measures and judges all of it, on a cluster of its own.
///
/// # Errors
/// When something does not start, or an I/O fails. Never for a figure.
pub fn measure(steps: &mut Steps, product: &Product, figures: &mut Figures) -> Result<()> {
    let mut gateways = steps.step("starting three nodes and two gateways", || Gateways::start(product))?;
    let mut foreign = Vec::new();
    for mix in [Mix::Write, Mix::Read] {
        let turns = steps.step(&format!("nvme and libamita, 4k {mix} at depth {DEEP}"), || {
            take_turns(&mut gateways, mix, DEEP, DEEP_TIME)
        })?;
        foreign.extend(turns.iter().flat_map(Turn::foreign));
        judge_cpu(mix, &turns, figures);
        let turns = steps.step(&format!("nvme and libamita, 4k {mix} at depth 1"), || {
            take_turns(&mut gateways, mix, 1, SHALLOW_TIME)
        })?;
        foreign.extend(turns.iter().flat_map(Turn::foreign));
        judge_latency(mix, &turns, figures);
    }
    for mix in [Mix::Write, Mix::Read] {
        let (deep, shallow) = steps.step(
            &format!("nvme by a gateway that does not own the volume, {mix}"),
            || {
                gateways.own(FIRST)?;
                let deep = gateways.by_nvme(SECOND, mix, DEEP, DEEP_TIME)?;
                let shallow = gateways.by_nvme(SECOND, mix, 1, SHALLOW_TIME)?;
                // If it had taken the volume over, these would be figures of something else.
                gateways.expect_owner(FIRST)?;
                Ok((deep, shallow))
            },
        )?;
        foreign.extend([deep.foreign, shallow.foreign]);
        figures.note(
            &format!("nvme.forwarded.{mix}.4k.qd{DEEP}.cpu_us"),
            &format!("{mix} 4k qd{DEEP} by nvme, not at the owner: CPU of all but the host, one core"),
            deep.cpu_us,
            "us",
        );
        figures.note(
            &format!("nvme.forwarded.{mix}.4k.qd1.latency_us"),
            &format!("{mix} 4k qd1 by nvme, not at the owner: latency, one core"),
            shallow.latency_us,
            "us",
        );
    }
    pauses(steps, &mut gateways, figures)?;
    note_foreign(&foreign, figures);
    Ok(())
}

/// One after the other, so that an hour of the machine that is unlike the one before is so for both.
fn take_turns(gateways: &mut Gateways, mix: Mix, depth: u16, time: Duration) -> Result<Vec<Turn>> {
    gateways.own(FIRST)?;
    let core = gateways.core();
    (0..TURNS)
        .map(|_| {
            interrupt::check()?;
            let local = gateways.by_library(mix, depth, time)?;
            let nvme = gateways.by_nvme(FIRST, mix, depth, time)?;
            let (request, answer) = trip::sizes(mix);
            let trip = trip::latency(request, answer, core)?;
            gateways.expect_owner(FIRST)?;
            Ok(Turn {
                local,
                remote: nvme,
                trip,
            })
        })
        .collect()
}

fn judge_cpu(mix: Mix, turns: &[Turn], figures: &mut Figures) {
    let name = |rest: &str| format!("nvme.{mix}.4k.qd{DEEP}.{rest}");
    let label = |rest: &str| format!("{mix} 4k qd{DEEP} by nvme, one core: {rest}");
    let value = median(turns.iter().map(Turn::added_cpu_us));
    let text = label("CPU of all but the host, less CPU of all by libamita");
    figures.at_most(&name("added_cpu_us"), &text, value, "us", ADDED_CPU_US);
    let of = |sample: fn(&Turn) -> f64| median(turns.iter().map(sample));
    figures.note(
        &name("cpu_us"),
        &label("CPU of all but the host"),
        of(|turn| turn.remote.cpu_us),
        "us",
    );
    figures.note(
        &name("libamita_cpu_us"),
        &label("the same I/O by libamita, CPU of all"),
        of(|turn| turn.local.cpu_us),
        "us",
    );
    figures.note(
        &name("iops"),
        &label("rate, the host on the same core"),
        of(|turn| turn.remote.iops),
        "IOPS",
    );
}

fn judge_latency(mix: Mix, turns: &[Turn], figures: &mut Figures) {
    let name = |rest: &str| format!("nvme.{mix}.4k.qd1.{rest}");
    let label = |rest: &str| format!("{mix} 4k qd1 by nvme, one core: {rest}");
    let value = median(turns.iter().map(Turn::added_latency_us));
    let text = label("latency, less that by libamita, less a loopback round trip of the same sizes");
    figures.at_most(&name("added_latency_us"), &text, value, "us", ADDED_LATENCY_US);
    let of = |sample: fn(&Turn) -> f64| median(turns.iter().map(sample));
    let (nvme, local) = (of(|turn| turn.remote.latency_us), of(|turn| turn.local.latency_us));
    figures.note(&name("latency_us"), &label("latency"), nvme, "us");
    figures.note(
        &name("libamita_latency_us"),
        &label("latency of the same I/O by libamita"),
        local,
        "us",
    );
    let (request, answer) = trip::sizes(mix);
    let text = label(&format!(
        "loopback round trip, {request} bytes there and {answer} back, both ends on the core"
    ));
    let trip = median(turns.iter().map(|turn| micros(turn.trip)));
    figures.note(&name("round_trip_us"), &text, trip, "us");
}

/// A move first: the kill takes a gateway away.
fn pauses(steps: &mut Steps, gateways: &mut Gateways, figures: &mut Figures) -> Result<()> {
    gateways.free()?;
    let pause = steps.step("moving a volume while a host writes by nvme", || {
        gateways.own(FIRST)?;
        let writer = Writer::start(vec![gateways.settings(FIRST)], gateways::NSID)?;
        interrupt::sleep(BEFORE)?;
        let begun = Instant::now();
        gateways.own(SECOND)?;
        interrupt::sleep(AFTER_MOVE)?;
        writer.finish(begun)
    })?;
    let text = "longest gap of a host that writes by one gateway while the volume moves to another";
    let seconds = pause.length.as_secs_f64();
    figures.at_most("nvme.move_s", text, seconds, "s", MOVE_SECONDS);
    figures.note(
        "nvme.move_retries",
        "writes that the host had to repeat then",
        f64::from(pause.retries),
        "writes",
    );

    let pause = steps.step("killing the gateway that a host writes by", || {
        gateways.own(FIRST)?;
        let writer = Writer::start(
            vec![gateways.settings(FIRST), gateways.settings(SECOND)],
            gateways::NSID,
        )?;
        interrupt::sleep(BEFORE)?;
        let killed = Instant::now();
        gateways.kill(FIRST);
        interrupt::sleep(AFTER_KILL)?;
        writer.finish(killed)
    })?;
    let text = "longest gap of a host with two paths when the gateway in use, the owner, is killed";
    let seconds = pause.length.as_secs_f64();
    figures.at_most("nvme.failover_s", text, seconds, "s", FAILOVER_SECONDS);
    figures.note(
        "nvme.usual_gap_s",
        "what 999 of 1000 gaps stayed below before the kill",
        pause.usual.as_secs_f64(),
        "s",
    );
    Ok(())
}

fn note_foreign(foreign: &[Foreign], figures: &mut Figures) {
    figures.note(
        "nvme.foreign_percent",
        "foreign load beside the nvme rows, the middle one, of one core",
        median(foreign.iter().map(Foreign::sum)),
        "%",
    );
    println!(
        "NVMe/TCP: the host is one of user space on the core of the nodes, its CPU left out. Beside the kernel's target \
         and SPDK's nothing was measured here: docs/benchmarks/nvme.md says why."
    );
}

/// A sample's figures, of what was seen.
pub fn sample(operations: f64, cpu: Duration, length: Duration, latency_us: f64, foreign: Foreign) -> Sample {
    Sample {
        cpu_us: micros(cpu) / operations.max(1.0),
        latency_us,
        iops: operations / length.as_secs_f64().max(1e-9),
        foreign,
    }
}
