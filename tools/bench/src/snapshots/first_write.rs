//! What the first write of a block after a snapshot costs beyond the next one.

use super::{LIMIT, Operator, Room};
use crate::median;
use crate::report::Figures;
use crate::testbed::{NODES, Product, Testbed};
use crate::usage::Window;
use amita_harness::fio::{self, Job};
use amita_terminal::error::Result;
use amita_terminal::interrupt;
use amita_terminal::progress::Steps;

/// What its CPU may grow to, of the nodes alone: what the client takes does not grow.
const CPU_RATIO: f64 = 1.3;
/// How often: a pass of first writes, and one of others. The middle one counts.
const TURNS: u32 = 5;
const REGION: u64 = 128 << 20;
const ROOM: Room = Room {
    store_bytes: 3 << 30,
    volume_bytes: REGION,
};

/// What one pass over the region came to, for each write.
#[derive(Clone, Copy, Debug)]
struct Pass {
    cpu_us: f64,
    /// Bytes that the stores wrote, each.
    device_bytes: f64,
}

pub(super) fn measure(
    steps: &mut Steps,
    product: &Product,
    start: &impl Fn(&Product, Room) -> Result<Testbed>,
    figures: &mut Figures,
) -> Result<()> {
    let testbed = steps.step("three nodes for first writes", || start(product, ROOM))?;
    let mut operator = Operator::of(&testbed)?;
    let turns = steps.step("first writes after a snapshot, and others", || {
        pass(&testbed)?;
        (0..TURNS)
            .map(|_| {
                interrupt::check()?;
                operator.take()?;
                Ok((pass(&testbed)?, pass(&testbed)?))
            })
            .collect::<Result<Vec<_>>>()
    })?;
    let middle = |of: &dyn Fn(&(Pass, Pass)) -> f64| median(turns.iter().map(of));
    figures.at_most(
        "snapshot.first_write.cpu_ratio",
        "first write of a block after a snapshot, NBD, 4 KiB, depth 32: nodes' CPU, of that of the next one",
        middle(&|(first, next)| first.cpu_us / next.cpu_us),
        "",
        CPU_RATIO,
    );
    for (name, label, of) in [
        ("first_write", "first write of a block after a snapshot", 0),
        ("next_write", "next write of a block", 1),
    ] {
        let pass = |turn: &(Pass, Pass)| if of == 0 { turn.0 } else { turn.1 };
        figures.note(
            &format!("snapshot.{name}.cpu_us"),
            &format!("{label}: nodes' CPU"),
            middle(&|turn| pass(turn).cpu_us),
            "us",
        );
        figures.note(
            &format!("snapshot.{name}.device_bytes"),
            &format!("{label}: bytes that each store writes"),
            middle(&|turn| pass(turn).device_bytes),
            "B",
        );
    }
    Ok(())
}

/// Writes each block of the region once, in an order by chance.
fn pass(testbed: &Testbed) -> Result<Pass> {
    let job = Job {
        name: "pass".to_owned(),
        target: fio::nbd(&testbed.cluster.uri(0, &testbed.volumes[0])),
        pattern: "randwrite",
        block_bytes: 4096,
        depth: 32,
        offset_bytes: 0,
        size_bytes: REGION,
        run: None,
        more: Vec::new(),
        also: Vec::new(),
    };
    let stores = testbed.stores()?;
    let before = stores.wrote();
    let window = Window::open(&testbed.watched())?;
    let report = job.run(testbed.scratch.folder(), LIMIT)?;
    let usage = window.close()?;
    let wrote = before
        .zip(stores.wrote())
        .map(|(before, after)| after.saturating_sub(before));
    let writes = report.write.ios.max(1) as f64;
    Ok(Pass {
        cpu_us: usage.cpu().as_secs_f64() * 1e6 / writes,
        device_bytes: wrote.unwrap_or_default() as f64 / writes / NODES as f64,
    })
}
