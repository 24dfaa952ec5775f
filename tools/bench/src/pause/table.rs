//! The rows: one failure each, on a cluster of its own.

use super::testbed::{Testbed, Wants};
use crate::report::Figures;
use crate::testbed::Product;
use amita_harness::faulty_disk::DiskFaults;
use amita_harness::rotation::exchange_authority;
use amita_terminal::error::{Failure, Result};
use amita_terminal::interrupt;
use amita_terminal::progress::Steps;
use std::time::Duration;

/// What the crash of a node may cost; and what is as quickly certain: a disk that answers with errors, a coordinator.
const CRASH_SECONDS: f64 = 0.3;
/// What a frozen node may cost: only its silence tells; and a disk that is slow.
const FREEZE_SECONDS: f64 = 2.0;
/// What a node that returns may cost beyond what is usual, and metadata that is away.
const RETURN_SECONDS: f64 = 0.05;
/// How long a frozen node stays so, and the metadata is away.
const FROZEN: Duration = Duration::from_secs(5);
const AWAY: Duration = Duration::from_secs(2);
/// Writes after the last that is done: longer than what any of it may cost.
const AFTER: Duration = Duration::from_secs(4);
/// How long a node that returns may take until it is in sync.
const SYNC: Duration = Duration::from_secs(30);
/// What an operation of the slow disk takes: 50 times what a flash disk does.
const SLOW: Duration = Duration::from_millis(5);
/// The probe writes by this node, and another fails.
const GATEWAY: usize = 0;
const VICTIM: usize = 2;

/// Measures all rows.
///
/// # Errors
/// When a cluster does not start, or writes do not go on. Never for a figure.
pub fn table(steps: &mut Steps, product: &Product, figures: &mut Figures) -> Result<()> {
    let mut row = |name: &str, wants: Wants, measure: &dyn Fn(Testbed, &mut Figures) -> Result<()>| {
        steps.step(name, || {
            // What this machine cannot do is left out and said; figures that were not measured are not shown.
            match Testbed::start(wants, product) {
                Ok(testbed) => measure(testbed, figures),
                Err(why) if wants.disk => {
                    eprintln!("  {name} is not measured: {why}");
                    Ok(())
                }
                Err(why) => Err(why),
            }
        })
    };
    let (plain, disk) = (
        Wants::default(),
        Wants {
            disk: true,
            etcd: false,
        },
    );
    let etcd = Wants {
        disk: false,
        etcd: true,
    };
    row("a node crashes", plain, &crash)?;
    row("a node freezes and wakes", plain, &freeze)?;
    row("a node returns", plain, &returns)?;
    row("a disk is lost", disk, &disk_loss)?;
    row("a disk is slow", disk, &slow_disk)?;
    row("the metadata restarts", etcd, &metadata)?;
    row("the coordinator's node crashes", plain, &coordinator)?;
    // Nobody proves anything where links are insecure, and there is nothing to exchange.
    let closed = product.closed();
    steps.step("the authority and every certificate are exchanged", || {
        rotation(Testbed::start(plain, &closed)?, figures)
    })
}

fn crash(mut testbed: Testbed, figures: &mut Figures) -> Result<()> {
    let pause = testbed.measure(GATEWAY, AFTER, |testbed| {
        testbed.cluster.kill_node(VICTIM);
        Ok(())
    })?;
    let seconds = pause.length.as_secs_f64();
    figures.at_most(
        "pause.crash_s",
        "pause when a node crashes",
        seconds,
        "s",
        CRASH_SECONDS,
    );
    Ok(())
}

fn freeze(mut testbed: Testbed, figures: &mut Figures) -> Result<()> {
    let pause = testbed.measure(GATEWAY, AFTER, |testbed| {
        testbed.cluster.freeze_node(VICTIM)?;
        interrupt::sleep(FROZEN)?;
        testbed.cluster.thaw_node(VICTIM)
    })?;
    let (label, seconds) = (
        "pause when a node freezes for 5 s and wakes",
        pause.length.as_secs_f64(),
    );
    figures.at_most("pause.freeze_s", label, seconds, "s", FREEZE_SECONDS);
    Ok(())
}

/// The node was away, missed writes, and comes back: the longest gap until it is in sync again, and a little longer.
fn returns(mut testbed: Testbed, figures: &mut Figures) -> Result<()> {
    let crashed = testbed.measure(GATEWAY, AFTER, |testbed| {
        testbed.cluster.kill_node(VICTIM);
        Ok(())
    })?;
    let mut whole = false;
    let pause = testbed.measure(GATEWAY, AFTER, |testbed| {
        testbed.cluster.start_node(VICTIM)?;
        testbed.cluster.await_node(VICTIM)?;
        whole = testbed.observer.await_whole(SYNC)?;
        Ok(())
    })?;
    if !whole {
        eprintln!(
            "  the pause while a node returns is not measured: it is not in sync after {} s",
            SYNC.as_secs()
        );
        return Ok(());
    }
    let (label, seconds) = ("pause while a node returns", pause.length.as_secs_f64());
    let target = RETURN_SECONDS + crashed.usual.as_secs_f64();
    figures.at_most("pause.return_s", label, seconds, "s", target);
    Ok(())
}

fn disk_loss(mut testbed: Testbed, figures: &mut Figures) -> Result<()> {
    let pause = testbed.measure(GATEWAY, AFTER, |testbed| {
        set_disk(testbed, DiskFaults::lost());
        Ok(())
    })?;
    let (label, seconds) = ("pause when a disk fails every operation", pause.length.as_secs_f64());
    figures.at_most("pause.disk_loss_s", label, seconds, "s", CRASH_SECONDS);
    Ok(())
}

fn slow_disk(mut testbed: Testbed, figures: &mut Figures) -> Result<()> {
    let pause = testbed.measure(GATEWAY, AFTER, |testbed| {
        let slow = DiskFaults {
            delay: SLOW,
            ..DiskFaults::default()
        };
        set_disk(testbed, slow);
        Ok(())
    })?;
    let (label, seconds) = ("pause when a disk is 50 times slower", pause.length.as_secs_f64());
    figures.at_most("pause.slow_disk_s", label, seconds, "s", FREEZE_SECONDS);
    Ok(())
}

/// Commands beside it take CPU of their own, so the usual gap is not that of a quiet machine.
fn rotation(mut testbed: Testbed, figures: &mut Figures) -> Result<()> {
    let pause = testbed.measure(GATEWAY, AFTER, |testbed| exchange_authority(&testbed.cluster))?;
    let label = "pause while the authority and every certificate are exchanged";
    let target = RETURN_SECONDS + pause.usual.as_secs_f64();
    figures.at_most("pause.rotation_s", label, pause.length.as_secs_f64(), "s", target);
    Ok(())
}

fn set_disk(testbed: &Testbed, faults: DiskFaults) {
    if let Some(disk) = testbed.disk() {
        disk.set(faults);
    }
}

fn metadata(mut testbed: Testbed, figures: &mut Figures) -> Result<()> {
    let pause = testbed.measure(GATEWAY, AFTER, |testbed| {
        testbed.kill_metadata();
        interrupt::sleep(AWAY)?;
        testbed.start_metadata()
    })?;
    let label = format!("pause when {} is killed and restarted", testbed.metadata());
    let target = RETURN_SECONDS + pause.usual.as_secs_f64();
    let seconds = pause.length.as_secs_f64();
    figures.at_most("pause.metadata_restart_s", &label, seconds, "s", target);
    Ok(())
}

/// The node that dies runs the coordinator as well: nobody is there to tell that it is dead, and the probe's gateway
/// makes the eviction itself (R12).
fn coordinator(mut testbed: Testbed, figures: &mut Figures) -> Result<()> {
    let elected = testbed.observer.coordinator()?;
    let mut victim = None;
    for (index, node) in testbed.cluster.nodes().iter().enumerate() {
        if Some(testbed.observer.node(&node.name)?) == elected {
            victim = Some(index);
        }
    }
    let victim = victim.ok_or_else(|| Failure::new("no node is the coordinator"))?;
    let gateway = usize::from(victim == 0);
    let pause = testbed.measure(gateway, AFTER, |testbed| {
        testbed.cluster.kill_node(victim);
        Ok(())
    })?;
    let (label, seconds) = ("pause when the coordinator's node crashes", pause.length.as_secs_f64());
    figures.at_most("pause.coordinator_kill_s", label, seconds, "s", CRASH_SECONDS);
    Ok(())
}
