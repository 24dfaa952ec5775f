//! Histories of machines: clocks that differ and machines that sleep, disks that hang, or that cannot be read for a
//! while.

use super::cluster::{MS, cut_off_together, hot, plan, random};
use super::{Scenario, history, plant};
use crate::cluster::Setup;
use crate::faults::Fault;
#[cfg(feature = "planted")]
use amita_store::Fault as StoreFault;
use std::time::Duration;

/// The owner's clock is a tenth slow and the others' are a tenth fast, when the owner is cut off together with its
/// store.
fn clocks_differ(seed: u64) -> Setup {
    let mut setup = cut_off_together(seed);
    setup.clocks = vec![900_000, 1_100_000, 1_100_000];
    // What differs grows with the lease.
    setup.settings.lease = Duration::from_millis(1000);
    setup.silent_for = Duration::from_millis(1200);
    setup
}

/// Hosts stay at the owner, whose machine stands still; the others go on elsewhere, and write.
fn owner_sleeps(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = cut_off_together(seed);
    setup.profile.depth = 4;
    setup.host_patience = Duration::from_millis(1500);
    let for_ns = random.within(2500 * MS, 6000 * MS);
    let at = random.within(20, 150) as u32;
    setup.plan = plan([
        (at, 0, Fault::Suspend { node: 0, for_ns }),
        (at, 0, Fault::Move { gateway: 1 }),
    ]);
    setup
}

/// The same, and no clock shows it.
fn owner_paused(seed: u64) -> Setup {
    let mut setup = owner_sleeps(seed);
    setup.settings.confirm_reads = true;
    for step in &mut setup.plan.steps {
        if let Fault::Suspend { node, for_ns } = step.fault {
            step.fault = Fault::Pause { node, for_ns };
        }
    }
    setup
}

/// All of a member's disk, or some of its writes, hang until the work is over, while the volume is read.
fn disk_hangs(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = hot(seed);
    setup.profile.clients = 6;
    setup.profile.operations = 1500;
    setup.profile.pause_ns = 20 * MS;
    setup.profile.readers = 3;
    // Hosts wait: whatever goes on, goes on at this owner.
    setup.host_patience = Duration::from_secs(50);
    setup.expect_progress = Some(Duration::from_secs(8));
    let (reads, writes) = *random.pick(&[(0, 1000), (1000, 1000), (0, 30)]);
    let at = random.within(50, 300) as u32;
    setup.plan = plan([(
        at,
        0,
        Fault::HangingDisk {
            node: 1 + seed as usize % 2,
            reads,
            writes,
            for_ns: 40_000 * MS,
        },
    )]);
    setup
}

/// Of two members one is away, so that the other one has what is acknowledged alone. It loses power, and its disk
/// cannot be read for a while when it comes back.
fn last_copy(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = hot(seed);
    (setup.copies, setup.min_copies) = (2, 1);
    setup.profile.read_percent = 20;
    setup.profile.pause_ns = 3 * MS;
    setup.settings.idle_mark_after = Duration::from_secs(5);
    let at = random.within(60, 150) as u32;
    let mut steps = Vec::new();
    for node in 0..3 {
        steps.push((
            at + 20 * node as u32,
            random.below(20 * MS),
            Fault::ReadErrors {
                node,
                per_mille: random.within(200, 700) as u32,
                for_ns: 1200 * MS,
            },
        ));
        steps.push((
            at + 20 * node as u32,
            random.below(20 * MS),
            Fault::PowerCut {
                node,
                for_ns: random.within(20 * MS, 500 * MS),
            },
        ));
    }
    setup.plan = plan(steps);
    setup
}

/// The owner's node and another one never reach each other, in one direction or both, and a third stands still for
/// moments.
fn never_together(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = Setup::quiet(seed);
    setup.host_patience = Duration::from_secs(50);
    // The member is evicted when it was silent for too long, and every step of that takes its time; then all goes on.
    setup.expect_progress = Some(Duration::from_secs(8));
    let other = 1 + seed as usize % 2;
    setup.apart = match seed / 2 % 3 {
        0 => vec![(0, other)],
        1 => vec![(other, 0)],
        _ => vec![(0, other), (other, 0)],
    };
    setup.plan = plan((0..3).map(|round| {
        let for_ns = random.within(50 * MS, 400 * MS);
        (
            40 + round * 60,
            random.below(20 * MS),
            Fault::Freeze {
                node: random.below(3) as usize,
                for_ns,
            },
        )
    }));
    setup
}

pub fn all() -> Vec<Scenario> {
    let scenario = |name, story, setup, broken| history(name, story, setup, 100, broken);
    // Where there is no switch, these scenarios have not met what their rule forbids: tests of the sequencer show that.
    vec![
        Scenario {
            broken: None,
            ..scenario(
                "R4: an owner counts less of a lease than the store",
                "S1's clock is slow and M2's is fast: M2 has let S2 in, and S1 still reads by its lease.",
                clocks_differ,
                |_| {},
            )
        },
        Scenario {
            broken: None,
            ..scenario(
                "R4: a clock counts what the machine sleeps",
                "S1's machine sleeps; S2 waits the leases out and acknowledges; S1 wakes, and by its clock they hold.",
                owner_sleeps,
                |_| {},
            )
        },
        Scenario {
            broken: None,
            ..scenario(
                "R4: without clocks each read is confirmed",
                "S1's machine is paused, and no clock shows it: reads rest on answers to what was sent after them.",
                owner_paused,
                |_| {},
            )
        },
        Scenario {
            broken: None,
            seeds: 30,
            ..scenario(
                "R12: a disk that hangs goes, though its store speaks",
                "M2's disk ends nothing any more, or not everything; M2 renews leases; writes wait for it for ever.",
                disk_hangs,
                |_| {},
            )
        },
        Scenario {
            broken: None,
            seeds: 40,
            ..scenario(
                "R12: who reaches enough goes on",
                "The owner and M2 never reach each other, M3 reaches both: writes go on without M2 within 8 s.",
                never_together,
                |_| {},
            )
        },
        scenario(
            "D4: what a mount cannot read it does not take for torn",
            "The last member loses power; a read of its last batch fails at the mount; the batch was acknowledged.",
            last_copy,
            plant!(plants => plants.store = plants.store.with(StoreFault::UnreadableIsTorn)),
        ),
    ]
}
