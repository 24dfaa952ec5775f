//! Histories of members that are brought up to date.

use super::cluster::{MS, hot, plan, random};
use super::{Scenario, history, plant};
use crate::cluster::{Setup, patience};
use crate::faults::Fault;

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
    coordinator.rejoin_pause = std::time::Duration::from_millis(10);
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
    ]
}
