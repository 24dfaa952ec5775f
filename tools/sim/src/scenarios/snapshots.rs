//! Histories of snapshots (R11).

use super::cluster::{MS, hot, plan, random};
use super::{Scenario, history, plant};
use crate::cluster::Setup;
use crate::cluster::operator::{Chore, Chores};
use crate::faults::Fault;
use crate::random::Random;
use std::time::Duration;

/// A small volume of many chunks, so that each host writes by several cores, one after the other; and a snapshot now and then.
fn busy(seed: u64, random: &mut Random) -> Setup {
    let mut setup = hot(seed);
    setup.cores = vec![3; setup.nodes];
    (setup.chunk_bytes, setup.groups) = (16 << 10, 4);
    (setup.blocks, setup.profile.blocks) = (48, 48);
    setup.profile.clients = 4;
    setup.profile.depth = 1;
    setup.profile.operations = 1200;
    setup.profile.pause_ns = 50_000;
    (setup.profile.hot_percent, setup.profile.max_blocks) = (0, 1);
    (setup.profile.read_percent, setup.profile.part_percent) = (30, 0);
    let steps = (0..16).map(|turn| (20 + turn * 60 + random.below(40) as u32, Chore::Snapshot(0)));
    setup.chores = Chores {
        steps: steps.collect(),
        first_blocks: None,
    };
    setup
}

/// What one core has for another comes late.
fn cores_apart(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = busy(seed, &mut random);
    setup.slow_mail = Some((random.within(100, 600), Duration::from_millis(3)));
    setup
}

/// Stores are far from the gateway and links break, so that much is under way, and sent again.
fn links_break(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = busy(seed, &mut random);
    setup.profile.depth = 6;
    setup.profile.hot_percent = 70;
    setup.plan = plan((0..14).map(|turn| {
        let fault = match random.percent(50) {
            true => Fault::Cut {
                a: 0,
                b: 1 + random.below(2) as usize,
            },
            false => Fault::SlowNetwork {
                node: 1 + random.below(2) as usize,
                extra_ns: random.within(1, 20) * MS,
                for_ns: 100 * MS,
            },
        };
        (20 + turn * 70, random.below(3 * MS), fault)
    }));
    setup
}

/// Blocks rot under writes of parts of them, where no copy can be spared: members are rolled forward.
fn rotten_parts(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = busy(seed, &mut random);
    (setup.copies, setup.min_copies) = (2, 2);
    setup.profile.depth = 6;
    (setup.profile.read_percent, setup.profile.part_percent) = (5, 95);
    (setup.blocks, setup.profile.blocks) = (16, 16);
    setup.plan = plan((0..30).map(|turn| {
        let node = random.below(3) as usize;
        let blocks = random.within(2, 8);
        (20 + turn * 35, random.below(2 * MS), Fault::Rot { node, blocks })
    }));
    setup
}

/// The end of one member's log rots, and its process is gone for a moment, while snapshots are taken; where no copy can be spared, or where the
/// next owner opens the chunks.
fn ends_are_lost(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = busy(seed, &mut random);
    setup.copies = random.within(2, 3) as u8;
    setup.min_copies = 2;
    setup.profile.depth = 3;
    (setup.profile.read_percent, setup.profile.part_percent) = (10, 20);
    // Back before anybody takes it for silent.
    (setup.silent_for, setup.refused_for) = (Duration::from_secs(3), Duration::from_secs(2));
    let node = random.below(3) as usize;
    let mut steps = Vec::new();
    for turn in 0..14 {
        let at = 20 + turn * 80;
        let for_ns = random.within(5, 40) * MS;
        steps.push((at, random.below(20) * MS, Fault::LostEnd { node, for_ns }));
        if random.percent(50) {
            let gateway = random.below(3) as usize;
            steps.push((at + 50, random.below(20) * MS, Fault::Move { gateway }));
        }
    }
    setup.plan = plan(steps);
    setup
}

/// Blocks of one member rot that the volume shares with its snapshots, or that only those have.
fn shared_rot(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = busy(seed, &mut random);
    (setup.copies, setup.min_copies) = (3, 2);
    setup.scrubbed_last = true;
    let node = random.below(3) as usize;
    setup.plan = plan((0..12).map(|turn| (60 + turn * 70, random.below(2 * MS), Fault::Rot { node, blocks: 6 })));
    setup
}

/// Nodes go and come back, one after the other, while snapshots are taken; what they were last given may be given up.
fn members_return(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = busy(seed, &mut random);
    setup.silent_for = Duration::from_millis(60);
    setup.profile.operations = 2400;
    (setup.profile.depth, setup.profile.part_percent) = (3, 20);
    let mut steps = Vec::new();
    for turn in 0..6 {
        let at = 40 + turn * 180;
        let node = random.below(3) as usize;
        let for_ns = random.within(100, 160) * MS;
        steps.push(match random.percent(60) {
            true => (at, random.below(20) * MS, Fault::Kill { node, for_ns }),
            false => (at, random.below(20) * MS, Fault::PowerCut { node, for_ns }),
        });
    }
    setup.plan = plan(steps);
    setup
}

/// Gateways stand still while others take the volume, and come back with what they had.
fn owners_change(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = busy(seed, &mut random);
    setup.silent_for = Duration::from_millis(400);
    setup.slow_mail = Some((random.within(50, 300), Duration::from_millis(5)));
    let mut steps = Vec::new();
    for turn in 0..10 {
        let at = 30 + turn * 100;
        let node = random.below(3) as usize;
        let for_ns = random.within(20, 900) * MS;
        steps.push((at, 0, Fault::Freeze { node, for_ns }));
        let gateway = (node + 1) % 3;
        steps.push((at, random.below(20) * MS, Fault::Move { gateway }));
    }
    setup.plan = plan(steps);
    setup
}

/// Two volumes with owners of their own, of which snapshots are taken at one moment again and again.
fn of_two_volumes(seed: u64, random: &mut Random) -> Setup {
    let mut setup = busy(seed, random);
    setup.cores = vec![2; setup.nodes];
    setup.volumes = 2;
    (setup.blocks, setup.profile.blocks) = (32, 32);
    setup.profile.volumes = 2;
    setup.profile.clients = 6;
    setup.profile.operations = 3000;
    setup.store_bytes *= 2;
    setup.chores.steps = (0..24)
        .map(|turn| (40 + turn * 110 + random.below(60) as u32, Chore::SnapshotSet))
        .collect();
    setup
}

/// The owners hear of one another late, up to longer than they hold.
fn owners_apart(seed: u64) -> Setup {
    // Seeds before this one find nothing where who has adopted lets go alone.
    let seed = seed + 68;
    let mut random = random(seed);
    let mut setup = of_two_volumes(seed, &mut random);
    setup.silent_for = Duration::from_secs(5);
    let mut steps = vec![(0, 0, Fault::Move { gateway: 1 }), (5, 0, Fault::Move { gateway: 2 })];
    for turn in 0..12 {
        let at = 30 + turn * 220;
        steps.push((
            at,
            0,
            Fault::SlowNetwork {
                node: random.below(3) as usize,
                extra_ns: match random.percent(50) {
                    true => random.within(1, 30) * MS,
                    false => random.within(310, 450) * MS,
                },
                for_ns: random.within(200, 1500) * MS,
            },
        ));
        if random.percent(30) {
            steps.push((
                at + 100,
                0,
                Fault::Move {
                    gateway: random.below(3) as usize,
                },
            ));
        }
    }
    setup.plan = plan(steps);
    setup
}

/// Volumes of a set get other owners between its rounds.
fn owners_of_sets_change(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = of_two_volumes(seed, &mut random);
    setup.silent_for = Duration::from_millis(600);
    let mut steps = Vec::new();
    for turn in 0..24 {
        let at = 30 + turn * 110;
        steps.push((
            at,
            random.below(5 * MS),
            Fault::SlowNetwork {
                node: random.below(3) as usize,
                extra_ns: random.within(2, 60) * MS,
                for_ns: 150 * MS,
            },
        ));
        steps.push((
            at + random.below(60) as u32,
            random.below(40 * MS),
            Fault::Move {
                gateway: random.below(3) as usize,
            },
        ));
    }
    setup.plan = plan(steps);
    setup
}

/// The histories of snapshots.
pub fn all() -> Vec<Scenario> {
    vec![
        history(
            "R11: nobody hears of what carries a number before all cores do",
            "Core 0 has adopted 1 and acknowledges W1; then the host writes W2 by core 1, which has not: W2 without W1.",
            cores_apart,
            200,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::NoCutHold)),
        ),
        history(
            "R11: a number is released when all cores carry it",
            "The same, of an owner that waits for the first core only.",
            cores_apart,
            200,
            plant!(plants => plants.node = plants.node.with(amita_node::Fault::ReleaseEarly)),
        ),
        history(
            "R11: the number belongs to the version",
            "W1 reaches M1, the link to M2 breaks, 1 is adopted, and the resend says 1: snapshot 1 has W1 on M1 only.",
            links_break,
            200,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::NumberWhenSent)),
        ),
        history(
            "R11: a member is rolled forward from state to state",
            "W1(0) meets a rotten block at M2, which gets it together with W2(1): its snapshot 1 has no W1.",
            rotten_parts,
            200,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::RollAcross)),
        ),
        history(
            "R11: what a member has forgotten comes back in its snapshots, too",
            "M2 is back without W1(0), which it has answered; 1 is sealed; M2 gets W1 together with W2(1): its snapshot 1 has no W1.",
            ends_are_lost,
            200,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::RollAcross)),
        ),
        history(
            "S12: what has rotted is replaced where it lies",
            "Snapshot 1 and the head share a block that rots on M2: a repair gives the head another slot, and 1 keeps the bad one.",
            shared_rot,
            200,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::RepairHeadsAlone)),
        ),
        history(
            "R11: whole means with snapshots",
            "M2 is away while 1 and 2 are taken, and comes back: its head is mended, it is promoted, and has neither.",
            members_return,
            200,
            plant!(plants => {
                plants.volume = plants.volume.with(amita_sequencer::Fault::BringHeadsAlone);
                plants.store = plants.store.with(amita_store::Fault::WholeWithoutStates);
            }),
        ),
        history(
            "R11: a number that is not sealed ends with its owner",
            "S1 adopts 1 and is deposed; S2 seals it, while S1's other core still gives out W2(0).",
            owners_change,
            300,
            plant!(plants => {
                plants.volume = plants.volume.with(amita_sequencer::Fault::KeepUnsealed);
                plants.node = plants.node.with(amita_node::Fault::SealAnothers);
            }),
        ),
        history(
            "R11: a set lets go together",
            "A has adopted and lets go: W1(1) of A is acknowledged, B has not adopted, and W2(0) of B is in the set.",
            owners_apart,
            200,
            plant!(plants => plants.node = plants.node.with(amita_node::Fault::LetGoAlone)),
        ),
        // No seed is known that finds `OneRound`: the tests of `amita_node::sets` have its history.
        Scenario {
            broken: None,
            ..history(
                "R11: who has let go says so in a second round",
                "A has held for 300 ms, and lets go by itself before B adopts: its word of before does not count.",
                owners_apart,
                300,
                |_| {},
            )
        },
        // No seed is known that finds `LeaveSets`: the tests of the opener have its history.
        Scenario {
            broken: None,
            ..history(
                "R11: a set is void with the owner of any of its volumes",
                "A is taken over when it is prepared; its new owner acknowledges W1(1), and then B adopts, and gives out W2(0) before.",
                owners_of_sets_change,
                300,
                |_| {},
            )
        },
    ]
}
