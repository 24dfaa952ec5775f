//! Histories of members that are brought up to date.

use super::cluster::{MS, hot, plan, random};
use super::{Scenario, history, plant};
use crate::cluster::{Setup, patience};
use crate::faults::Fault;
use std::time::Duration;

/// A member is gone for long enough to be evicted, and comes back by a slow network, while clients write parts of
/// blocks all over a small volume: what it is sent meets what it lacks.
fn slow_return(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = hot(seed);
    setup.profile.clients = 5;
    setup.profile.depth = 4;
    setup.profile.operations = 2500;
    // What is wrong stays so until whole blocks are written over it: nearly all writes are of parts.
    (setup.profile.read_percent, setup.profile.part_percent) = (10, 90);
    (setup.profile.hot_percent, setup.profile.max_blocks) = (60, 1);
    setup.profile.pause_ns = 12 * MS;
    setup.coordinator = Some(patience(200));
    (setup.copies, setup.min_copies) = if random.percent(50) { (2, 1) } else { (3, 2) };
    let node = random.below(3) as usize;
    let slow = if random.percent(50) { node } else { (node + 1) % 3 };
    let mut steps = Vec::new();
    for round in 0..2 {
        let at = 20 + 1000 * round;
        steps.push((at, 0, Fault::Kill { node, for_ns: 500 * MS }));
        let (extra_ns, for_ns) = (random.within(5, 60) * MS, 2500 * MS);
        steps.push((
            at,
            400 * MS,
            Fault::SlowNetwork {
                node: slow,
                extra_ns,
                for_ns,
            },
        ));
    }
    setup.plan = plan(steps);
    setup
}

/// Owners follow one another while a member is brought up to date, and the coordinator takes it in.
fn relay(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = hot(seed);
    setup.profile.clients = 4;
    setup.profile.operations = 1500;
    setup.profile.pause_ns = 12 * MS;
    let mut coordinator = patience(200);
    coordinator.rejoin_pause = Duration::from_millis(10);
    setup.coordinator = Some(coordinator);
    (setup.copies, setup.min_copies) = if random.percent(50) { (2, 1) } else { (3, 2) };
    let mut steps = Vec::new();
    for round in 0..4 {
        let at = 20 + 300 * round;
        let node = random.below(3) as usize;
        steps.push((at, 0, Fault::Kill { node, for_ns: 400 * MS }));
        for _ in 0..12 {
            let gateway = (node + 1 + random.below(2) as usize) % 3;
            steps.push((at, random.within(400, 1600) * MS, Fault::Move { gateway }));
        }
    }
    setup.plan = plan(steps);
    setup
}

/// The owner's node goes with writes that no other has, and is brought up to date; then another node goes, and the first one forgets that it was:
/// it is back with what was given up, and cannot be spared.
fn forgets_its_return(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = hot(seed);
    setup.profile.clients = 4;
    setup.profile.depth = 4;
    setup.profile.operations = 5000;
    (setup.profile.read_percent, setup.profile.part_percent) = (60, 0);
    (setup.profile.hot_percent, setup.profile.hot_blocks) = (50, 6);
    setup.profile.max_blocks = 1;
    setup.profile.pause_ns = 4 * MS;
    setup.log_bytes = 256 * 4096;
    setup.refused_for = Duration::from_millis(20);
    let mut coordinator = patience(100);
    coordinator.rejoin_pause = Duration::from_millis(10);
    setup.coordinator = Some(coordinator);
    let mut steps = Vec::new();
    for round in 0..4 {
        let at = 30 + 1200 * round;
        // Who is slow hears of the last writes too late.
        for node in [1, 2] {
            let (extra_ns, for_ns) = (30 * MS, 70 * MS);
            steps.push((at, 0, Fault::SlowNetwork { node, extra_ns, for_ns }));
        }
        let kill = |node, for_ns| Fault::Kill { node, for_ns };
        steps.push((at, random.within(40, 60) * MS, kill(0, random.within(60, 100) * MS)));
        steps.push((at, random.within(100, 140) * MS, Fault::Move { gateway: 1 }));
        let gone = random.within(300, 450);
        steps.push((at, gone * MS, kill(2, 500 * MS)));
        let for_ns = random.within(5, 20) * MS;
        let lost = Fault::LostEnd { node: 0, for_ns };
        steps.push((at, (gone + random.within(60, 150)) * MS, lost));
        steps.push((at, (gone + 1500) * MS, Fault::Move { gateway: 0 }));
    }
    setup.plan = plan(steps);
    setup
}

/// The histories of members that are brought up to date.
pub fn all() -> Vec<Scenario> {
    vec![
        history(
            "R5: what was skipped is compared again",
            "b at 40 is to be replaced, and a part of b is written at 41 before that: b at 41 lies on what was wrong.",
            slow_return,
            400,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::TrustMends)),
        ),
        history(
            "R1: blocks are the same when their checksums are",
            "A part of b is written at 41 to all members, one of which had another b: both say 41, and differ.",
            slow_return,
            100,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::CompareVersions)),
        ),
        history(
            "R2: a raise of the generation stops promotions",
            "The coordinator has read that all owners call a member whole; a new owner comes, which has never heard of it.",
            relay,
            100,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::RaiseSilently)),
        ),
        // No seed is known that finds `TrustDoubted`: the tests `doubt` of the sequencer have its history.
        history(
            "R8: who has forgotten is in doubt until it was compared",
            "M1 alone has W2, which is given up; it is brought up to date, and forgets that: it gets what is newer, still has W2's block, and is read.",
            forgets_its_return,
            200,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::ClearUnlooked)),
        ),
    ]
}
