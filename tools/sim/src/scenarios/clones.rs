//! Histories of clones (R11: S6 to S9 of `docs/protocol.md`).

use super::cluster::{MS, hot, plan, random};
use super::{Scenario, history, plant};
use crate::cluster::operator::{Chore, Chores};
use crate::cluster::{Cloning, Setup};
use crate::faults::Fault;
use crate::random::Random;
use std::time::Duration;

/// A small volume of several chunks, of which snapshots are taken and cloned.
pub(super) fn cloned(seed: u64, random: &mut Random) -> Setup {
    let mut setup = hot(seed);
    setup.cores = vec![2; setup.nodes];
    (setup.chunk_bytes, setup.groups) = (16 << 10, 4);
    (setup.blocks, setup.profile.blocks) = (32, 32);
    setup.profile.clients = 3;
    setup.profile.depth = 2;
    setup.profile.operations = 1200;
    setup.profile.pause_ns = 50_000;
    (setup.profile.hot_percent, setup.profile.max_blocks) = (20, 1);
    setup.profile.blocks_per_chunk = 4;
    (setup.profile.read_percent, setup.profile.part_percent) = (20, 10);
    let steps = (0..6).map(|turn| (60 + turn * 150 + random.below(60) as u32, Chore::Snapshot(0)));
    setup.chores = Chores {
        steps: steps.collect(),
        first_blocks: None,
    };
    setup.cloning = Cloning {
        percent: 100,
        most: 5,
        again_percent: 30,
        gone_percent: 20,
        flat_percent: 0,
        write_percent: 25,
        late: false,
        shrunk_percent: 0,
        idle_percent: 0,
        reverted_percent: 0,
    };
    setup
}

fn quiet(seed: u64) -> Setup {
    let mut random = random(seed);
    cloned(seed, &mut random)
}

/// The operator deletes snapshots as well.
fn deleted(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = cloned(seed, &mut random);
    let mut steps = setup.chores.steps.clone();
    steps.extend((0..12).map(|turn| (100 + turn * 80, Chore::Unsnapshot(random.below(8)))));
    steps.sort_by_key(|(at, _)| *at);
    setup.chores.steps = steps;
    setup
}

/// What is cloned is flattened, and what it was made from goes.
fn flattened(seed: u64) -> Setup {
    let mut setup = deleted(seed);
    setup.cloning.flat_percent = 100;
    setup
}

/// A member is away, and is called whole for clones of which nobody has made a chunk; these are flattened before it comes in sync, what they
/// were made from goes, and then their owners go, so that all is opened anew.
fn flattened_meanwhile(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = cloned(seed, &mut random);
    setup.profile.operations = 2400;
    (setup.cloning.flat_percent, setup.cloning.late) = (100, true);
    (setup.cloning.again_percent, setup.cloning.gone_percent) = (0, 0);
    // Who comes back is called whole so long before it comes in sync.
    setup.coordinator_lag = Duration::from_millis(random.within(50, 600));
    let mut steps = Vec::new();
    for turn in 0..6 {
        let at = 90 + turn * 300;
        let node = (turn as usize + random.below(2) as usize) % 3;
        let for_ns = random.within(700, 1200) * MS;
        steps.push((at, random.below(20) * MS, Fault::Kill { node, for_ns }));
    }
    setup.plan = plan(steps);
    setup
}

/// The volume and its clones are made smaller and larger again, beside snapshots of them and deletions.
fn shrunk(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = deleted(seed);
    setup.cloning.shrunk_percent = 100;
    let mut steps = setup.chores.steps.clone();
    steps.extend((0..8).map(|turn| (90 + turn * 120 + random.below(60) as u32, Chore::Shrink(0))));
    steps.sort_by_key(|(at, _)| *at);
    setup.chores.steps = steps;
    setup
}

/// Clones are made again what they were, forth and back, while nodes are cut off from each other and from the metadata.
fn reverted(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = cloned(seed, &mut random);
    setup.profile.operations = 2400;
    setup.cloning = Cloning {
        write_percent: 60,
        reverted_percent: 100,
        flat_percent: 20,
        shrunk_percent: 30,
        ..setup.cloning
    };
    let mut steps = Vec::new();
    for turn in 0..6 {
        let at = 300 + turn * 300 + random.below(100) as u32;
        let node = random.below(setup.nodes as u64) as usize;
        // For longer than a lease: it wakes up as the owner of what the volume was.
        let for_ns = random.within(2800, 4500) * MS;
        let fault = match random.below(6) {
            0 => Fault::Kill { node, for_ns },
            1 => Fault::MetadataCutOff { node, for_ns },
            _ => Fault::Freeze { node, for_ns },
        };
        steps.push((at, random.below(20) * MS, fault));
    }
    setup.plan = plan(steps);
    setup
}

/// Nodes go and come back, one after the other, so that who came back is soon asked alone.
pub(super) fn members_return(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = cloned(seed, &mut random);
    setup.silent_for = Duration::from_millis(60);
    setup.profile.operations = 2400;
    (setup.copies, setup.min_copies) = (2, 1);
    let mut steps = Vec::new();
    for turn in 0..7 {
        let at = 90 + turn * 160;
        let node = (turn as usize + random.below(2) as usize) % 3;
        let for_ns = random.within(100, 220) * MS;
        steps.push((at, random.below(20) * MS, Fault::Kill { node, for_ns }));
    }
    setup.plan = plan(steps);
    setup
}

/// Owners go while their writes are on some members only, and what they wrote to is cloned.
fn owners_go(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = cloned(seed, &mut random);
    setup.silent_for = Duration::from_millis(200);
    setup.profile.depth = 6;
    (setup.profile.hot_percent, setup.profile.read_percent) = (0, 0);
    let mut steps = Vec::new();
    for turn in 0..6 {
        let at = 40 + turn * 150;
        for b in 1..3 {
            let fault = Fault::SlowNetwork {
                node: b,
                extra_ns: random.within(1, 40) * MS,
                for_ns: 60 * MS,
            };
            steps.push((at, random.below(3 * MS), fault));
        }
        let node = random.below(3) as usize;
        let for_ns = random.within(100, 400) * MS;
        steps.push((at + 5, random.below(6 * MS), Fault::Kill { node, for_ns }));
    }
    setup.plan = plan(steps);
    setup
}

/// The histories of clones.
pub fn all() -> Vec<Scenario> {
    vec![
        history(
            "R11: what is absent of a clone is its parent's",
            "C has no chunk of its own; its owner opens it as one that was never written, and it reads as zeros.",
            quiet,
            60,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::InheritNothing)),
        ),
        history(
            "R11: a clone's chunk is made with all entries",
            "C's chunk is made at its parent's version, and has nothing of what that has: W1 and zeros.",
            quiet,
            60,
            plant!(plants => plants.store = plants.store.with(amita_store::Fault::ClonesNothing)),
        ),
        history(
            "R11: a clone holds its parent",
            "P's snapshot is deleted while C, which comes from it, has not made its chunks; stores trim what C would have.",
            deleted,
            100,
            plant!(plants => plants.forget_pins = true),
        ),
        history(
            "R11: parents first",
            "T comes back, and C's owner claims it before P's has brought the snapshot; C's chunk is made there of less, or not at all.",
            members_return,
            300,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::ParentsLast)),
        ),
        history(
            "R11: a clone lets go of its parents when all is made",
            "C's parents leave its record when a chunk is not made; P's snapshot goes, and C reads zeros.",
            flattened,
            100,
            plant!(plants => plants.flatten_unmade = true),
        ),
        history(
            "R11: a volume shrinks when its end is empty",
            "V, or a clone of it, is made smaller as it is, and grows again: what it had, or what its parent has, is there again.",
            shrunk,
            100,
            plant!(plants => plants.shrink_uncleared = true),
        ),
        history(
            "R11: a volume is reverted behind a generation that all have adopted",
            "C is reverted when G2 owns it and no store has heard of that; G1, which has not, acknowledges W2 to what C was.",
            reverted,
            200,
            plant!(plants => plants.revert_unadopted = true),
        ),
        history(
            "R11: who comes back makes chunks before the others",
            "T is brought up to date and has listed C's chunks; one is made, not on T; T is called whole, and C lets go of its parents.",
            flattened_meanwhile,
            100,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::MakeWithoutComing)),
        ),
        // Without the rule the members of the clone are rolled forward, and the parent's owner does the same later, unless the one
        // that has more is evicted in between: a test of the sequencer switches it off.
        Scenario {
            broken: None,
            ..history(
                "R11: what is shared is settled first",
                "S1 wrote W1 to M1 alone and died; P's snapshot is taken, and nobody has opened the chunk: C has W1 on M1, and not on M2.",
                owners_go,
                100,
                |_| {},
            )
        },
    ]
}
