//! Histories of volumes that move to another pool while they are used (M1 to M8 of `docs/decisions/080`).

use super::cluster::{MS, hot, plan, random};
use super::{Scenario, history, plant};
use crate::cluster::operator::{Chore, Chores};
use crate::cluster::{Cloning, Migrating, Setup};
use crate::faults::Fault;
use crate::random::Random;
use std::time::Duration;

/// A small volume that is written and read all the time, and moves to the other pool, and back.
fn moved(seed: u64, random: &mut Random) -> Setup {
    let mut setup = hot(seed);
    setup.nodes = 5;
    setup.pools = 2;
    setup.cores = vec![1, 2, 1, 1, 1];
    setup.clocks = vec![1_000_000; 5];
    setup.store_bytes *= 4;
    (setup.chunk_bytes, setup.groups) = (16 << 10, 4);
    (setup.blocks, setup.profile.blocks) = (24, 24);
    setup.profile.clients = 5;
    setup.profile.depth = 2;
    // For as long as a move takes.
    setup.profile.operations = 3000;
    setup.profile.pause_ns = 20_000_000;
    setup.profile.blocks_per_chunk = 4;
    (setup.profile.hot_percent, setup.profile.max_blocks) = (60, 2);
    (setup.profile.read_percent, setup.profile.part_percent) = (40, 20);
    let mut steps = Vec::new();
    for turn in 0..3 {
        steps.push((20 + turn * 900 + random.below(100) as u32, Chore::Migrate(0)));
        steps.push((300 + turn * 900 + random.below(500) as u32, Chore::Snapshot(0)));
    }
    steps.sort_by_key(|(at, _)| *at);
    setup.chores = Chores {
        steps,
        first_blocks: None,
    };
    setup.migrating = Migrating {
        movers: 2,
        ..Migrating::default()
    };
    setup
}

fn quiet(seed: u64) -> Setup {
    moved(seed, &mut random(seed))
}

/// The mover is so slow that its owner lets go again and again.
fn late(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = moved(seed, &mut random);
    setup.migrating.slow_calls = Duration::from_millis(random.within(2, 12));
    setup.migrating.short_holds = true;
    setup
}

/// The same, and owners are taken over.
fn late_and_taken(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = late(seed);
    let mut steps = Vec::new();
    for turn in 0..24 {
        let gateway = random.below(3) as usize;
        steps.push((40 + turn * 120, random.below(60 * MS), Fault::Move { gateway }));
    }
    setup.plan = plan(steps);
    setup
}

/// The owner hears of no switch, and hosts go to another gateway, but for those who read.
fn unheard(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = moved(seed, &mut random);
    setup.migrating.hosts_go = true;
    setup.profile.clients = 6;
    (setup.loyal_hosts, setup.profile.readers) = (3, 3);
    setup.polite_hosts = false;
    setup
}

/// Snapshots are cloned before, while and after their volume moves, and both go.
fn cloned(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = moved(seed, &mut random);
    setup.store_bytes *= 2;
    setup.cloning = Cloning {
        percent: 100,
        most: 4,
        again_percent: 30,
        gone_percent: 30,
        write_percent: 25,
        flat_percent: 30,
        ..Cloning::default()
    };
    let mut steps = setup.chores.steps.clone();
    steps.extend((0..8).map(|turn| (400 + turn * 300, Chore::Unsnapshot(random.below(8)))));
    steps.sort_by_key(|(at, _)| *at);
    setup.chores.steps = steps;
    setup
}

/// Movers stand still, are cut off and go, and others go on; moves are taken back.
fn movers_go(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = moved(seed, &mut random);
    setup.migrating.trouble_per_mille = 25;
    let mut steps = setup.chores.steps.clone();
    for turn in 0..5 {
        let chore = match random.percent(50) {
            true => Chore::CancelMigration(0),
            false => Chore::PauseMigration(0),
        };
        steps.push((100 + turn * 500 + random.below(400) as u32, chore));
    }
    steps.sort_by_key(|(at, _)| *at);
    setup.chores.steps = steps;
    setup
}

/// The end of one member's log rots, and its process is gone for a moment, while its volume moves; no copy can be spared. Hosts do little, so that
/// the mover is often the first to ask that member.
fn ends_are_lost(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = moved(seed, &mut random);
    (setup.copies, setup.min_copies) = (2, 2);
    (setup.profile.clients, setup.profile.depth) = (4, 2);
    setup.profile.pause_ns = 60_000_000;
    (setup.profile.read_percent, setup.profile.hot_percent) = (15, 20);
    // Back before anybody takes it for silent.
    (setup.silent_for, setup.refused_for) = (Duration::from_secs(3), Duration::from_secs(2));
    let node = random.below(3) as usize;
    setup.plan = plan((0..70).map(|turn| {
        let for_ns = random.within(2, 20) * MS;
        (30 + turn * 40, random.below(60 * MS), Fault::LostEnd { node, for_ns })
    }));
    setup
}

/// The histories of moves.
pub fn all() -> Vec<Scenario> {
    vec![
        history(
            "M1: the switch compares what the volume is",
            "V's owner lets go, or another one takes V, and acknowledges W; the mover has read that it is held, and puts T in its place: no W.",
            late_and_taken,
            100,
            plant!(plants => plants.metadata.blind_switch = true),
        ),
        history(
            "M2: its owner holds from before the last snapshot until the switch",
            "V's owner has taken the last snapshot, and acknowledges W; the mover brings that snapshot and switches: W is nowhere.",
            quiet,
            100,
            plant!(plants => plants.node = plants.node.with(amita_node::Fault::NoHold)),
        ),
        // No seed is known that finds `ReadOnHold`: the model has its history.
        Scenario {
            broken: None,
            ..history(
                "M3: it holds reads too",
                "V's owner hears of no switch; T's new owner acknowledges W, and a host that has stayed reads by the old one what was before.",
                unheard,
                200,
                |_| {},
            )
        },
        history(
            "M4: a hold ends by the metadata's word alone",
            "V's owner holds until its time is up, lets go, and acknowledges W; its record says that it holds, and the switch is made.",
            late,
            100,
            plant!(plants => plants.node = plants.node.with(amita_node::Fault::LetGoUnasked)),
        ),
        history(
            "M7: what a volume was stays for what was cloned of it",
            "V moves, and C comes from a snapshot of what it was; that goes, and C reads zeros.",
            cloned,
            100,
            plant!(plants => plants.forget_pins = true),
        ),
        history(
            "R8: what was changed is asked of who has everything",
            "M2 is back without W, which it has answered; the mover asks it what was changed: W's block was not, and is not brought.",
            ends_are_lost,
            100,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::BlindMaps)),
        ),
        // No seed is known that finds `blind_claim`: who opens the target behind another one raises its generation, and what was noted under
        // the one before does not count. The tests of `amita_control::admin` have its history.
        Scenario {
            broken: None,
            ..history(
                "P1: what a mover notes is noted by the claim",
                "A mover stands still, another one goes on; the first one wakes up, and notes of a pass that it is done.",
                movers_go,
                100,
                |_| {},
            )
        },
    ]
}
