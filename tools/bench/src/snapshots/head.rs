//! The head of a volume that has snapshots, beside one that has none: two clusters that take turns, as links' modes do.

use super::{Operator, Room, TAKING_MS, ms};
use crate::case::{Case, Front, Mix, Placement};
use crate::client::Clients;
use crate::measure::{Measure, SystemUnderTest};
use crate::median;
use crate::report::Figures;
use crate::row::Row;
use crate::site::Site;
use crate::testbed::{Product, Testbed};
use amita_terminal::error::Result;
use amita_terminal::interrupt;
use amita_terminal::progress::Steps;
use std::time::{Duration, Instant};

/// So many snapshots.
const COUNTS: [u32; 2] = [10, 1000];
/// What the head keeps of its rate, and what its CPU may grow to.
const RATE_LEFT: f64 = 0.97;
const CPU_RATIO: f64 = 1.03;
const DEPTH: u32 = 32;
/// How often each of the two has its turn. The middle one counts.
const TURNS: usize = 5;
const TURN: Duration = Duration::from_millis(2000);
/// Bytes that are worked on: each block is written many times in a turn.
const REGION: u64 = 32 << 20;
/// What blocks of a thousand snapshots take, each with what is written in its few milliseconds.
const ROOM: Room = Room {
    store_bytes: 3 << 30,
    volume_bytes: 64 << 20,
};
/// Snapshots whose taking is measured with nobody writing.
const TAKINGS: usize = 31;

pub(super) fn measure(
    steps: &mut Steps,
    measuring: &mut Measure,
    product: &Product,
    start: &impl Fn(&Product, Room) -> Result<Testbed>,
    figures: &mut Figures,
) -> Result<()> {
    let mut sites = Vec::new();
    for name in ["with snapshots", "without"] {
        let testbed = steps.step(&format!("three nodes, {name}"), || start(product, ROOM))?;
        sites.push(Site::new(testbed, Clients::default(), REGION));
    }
    let mut operator = Operator::of(&sites[0].testbed)?;
    measuring.time = TURN;
    let mut loaded = Vec::new();
    for count in COUNTS {
        steps.step(&format!("{count} snapshots of a volume that is written to"), || {
            let writes = case(Mix::Write);
            sites[0].ready(&writes)?;
            while operator.taken < count {
                loaded.extend(take_under_load(&mut sites[0], &writes, &mut operator, count)?);
            }
            // The first write of each block after the last snapshot is another matter.
            measuring.alone(&mut sites[0], &writes).map(drop)
        })?;
        for mix in [Mix::Write, Mix::Read] {
            let case = case(mix);
            let turns = steps.step(&format!("head with {count} snapshots, {}", case.label()), || {
                take_turns(measuring, &mut sites, &case)
            })?;
            judge(&case, count, &turns, figures);
        }
    }
    let idle = steps.step("snapshots with nobody writing", || {
        (0..TAKINGS).map(|_| operator.take()).collect::<Result<Vec<_>>>()
    })?;
    for (name, label, times) in [
        ("idle", "nobody writing", idle),
        ("loaded", "beside writes of 4 KiB at depth 32", loaded),
    ] {
        let took = median(times.iter().copied().map(ms));
        let label = format!("a snapshot is taken, {label} (median of {})", times.len());
        figures.at_most(&format!("snapshot.take.{name}_ms"), &label, took, "ms", TAKING_MS);
    }
    Ok(())
}

fn case(mix: Mix) -> Case {
    Case {
        placement: Placement::TwoCores,
        ..Case::new(Front::Libamita, mix, DEPTH)
    }
}

/// Takes snapshots for as long as a turn lasts.
fn take_under_load(site: &mut Site, case: &Case, operator: &mut Operator, count: u32) -> Result<Vec<Duration>> {
    let mut running = site.start(case, TURN)?;
    running.begun()?;
    let began = Instant::now();
    let mut took = Vec::new();
    // A little earlier, so that the last one has writes beside it too.
    while operator.taken < count && began.elapsed() < TURN * 3 / 4 {
        took.push(operator.take()?);
    }
    running.ended()?;
    running.finish(case.mix)?;
    Ok(took)
}

/// With snapshots, and without.
fn take_turns(measuring: &Measure, sites: &mut [Site], case: &Case) -> Result<Vec<[Row; 2]>> {
    for site in sites.iter_mut() {
        site.ready(case)?;
    }
    (0..TURNS)
        .map(|_| {
            interrupt::check()?;
            Ok([
                measuring.alone(&mut sites[0], case)?,
                measuring.alone(&mut sites[1], case)?,
            ])
        })
        .collect()
}

fn judge(case: &Case, count: u32, turns: &[[Row; 2]], figures: &mut Figures) {
    let name = format!("snapshot.head.{}.n{count}", case.point());
    let label = format!("head with {count} snapshots, {}", case.label());
    let ratio = |of: fn(&Row) -> f64| median(turns.iter().map(|[with, without]| of(with) / of(without).max(1e-9)));
    let (rate, cpu) = (ratio(|row| row.iops), ratio(|row| row.cpu_total_us));
    figures.at_least(
        &format!("{name}.iops_ratio"),
        &format!("{label}: rate, of that without"),
        rate,
        "",
        RATE_LEFT,
    );
    figures.at_most(
        &format!("{name}.cpu_ratio"),
        &format!("{label}: CPU, of that without"),
        cpu,
        "",
        CPU_RATIO,
    );
}
