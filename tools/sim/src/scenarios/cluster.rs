//! Histories of a cluster.

use super::gateways::planned_work;
use super::{Scenario, history, plant};
use crate::cluster::{Passers, Setup};
use crate::faults::{Fault, Lost, Plan, Step};
use crate::random::Random;
#[cfg(feature = "planted")]
use amita_store::Fault as StoreFault;
use std::time::Duration;

pub(super) const MS: u64 = 1_000_000;
const LONG: u64 = 4000 * MS;

pub(super) fn plan(steps: impl IntoIterator<Item = (u32, u64, Fault)>) -> Plan {
    let steps = steps.into_iter().map(|(after_operations, delay_ns, fault)| Step {
        after_operations,
        delay_ns,
        fault,
    });
    Plan {
        steps: steps.collect(),
        victims: Vec::new(),
    }
}

pub(super) fn random(seed: u64) -> Random {
    Random::new(seed).fork(2)
}

/// One or two hot blocks, written and read all the time.
pub(super) fn hot(seed: u64) -> Setup {
    let mut setup = Setup::quiet(seed);
    setup.profile.hot_blocks = 2;
    setup.profile.hot_percent = 90;
    setup.profile.read_percent = 50;
    setup.profile.max_blocks = 2;
    setup.profile.clear_percent = 0;
    setup
}

/// Connections between the gateway and the others break again and again.
fn cuts(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = hot(seed);
    setup.profile.read_percent = 20;
    setup.profile.depth = 8;
    setup.profile.pause_ns = 300_000;
    setup.plan = plan((0..12).map(|index| {
        (
            index * 20,
            random.below(2 * MS),
            Fault::Cut {
                a: 0,
                b: 1 + index as usize % 2,
            },
        )
    }));
    setup
}

/// The gateway's own store is quick, the others are far; then the gateway's node loses power for good.
fn read_goes_back(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = hot(seed);
    let at = random.within(20, 150) as u32;
    setup.plan = plan([
        (
            at,
            0,
            Fault::SlowNetwork {
                node: 0,
                extra_ns: 30 * MS,
                for_ns: 300 * MS,
            },
        ),
        (
            at + 5,
            random.within(10, 60) * MS,
            Fault::PowerCut { node: 0, for_ns: LONG },
        ),
    ]);
    setup
}

/// The gateway and its store are cut off together, with hosts that stay and read. Little is written, so that reads do
/// not wait for writes that cannot end.
pub(super) fn cut_off_together(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = hot(seed);
    setup.profile.clients = 6;
    setup.profile.depth = 1;
    setup.profile.operations = 1500;
    setup.profile.pause_ns = 20 * MS;
    setup.profile.hot_percent = 0;
    setup.profile.max_blocks = 1;
    (setup.profile.blocks, setup.blocks) = (16, 16);
    (setup.loyal_hosts, setup.profile.readers) = (4, 4);
    setup.silent_for = Duration::from_millis(500);
    let at = random.within(20, 150) as u32;
    let (side, lost) = (vec![0], Lost::Both);
    setup.plan = plan([
        (
            at,
            0,
            Fault::Partition {
                side,
                lost,
                metadata: true,
                for_ns: 6000 * MS,
            },
        ),
        (at, 0, Fault::Move { gateway: 1 }),
    ]);
    setup
}

/// Hosts go from gateway to gateway, a link breaks now and then, and a node lies.
fn node_lies(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = hot(seed);
    setup.liar = true;
    setup.profile.pause_ns = 4_000_000;
    setup.plan = plan((0..6).map(|index| {
        let gateway = random.below(3) as usize;
        let fault = match index % 2 {
            0 => Fault::Move { gateway },
            _ => Fault::Cut {
                a: gateway,
                b: (gateway + 1) % 3,
            },
        };
        (30 * (index + 1), random.below(20 * MS), fault)
    }));
    setup
}

/// The gateway loses power, and the watch of one of the two others has been silent for a while: the two are the least number of
/// copies.
fn late_watch(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = hot(seed);
    let at = random.within(20, 100) as u32;
    // Hosts stay where they are: at M3's node there is nothing to ask for.
    setup.host_patience = Duration::from_secs(60);
    setup.expect_progress = Some(Duration::from_secs(5));
    setup.plan = plan([
        (
            at,
            0,
            Fault::WatchLate {
                node: 2,
                for_ns: 5 * LONG,
            },
        ),
        (
            at + 3,
            random.within(0, 60) * MS,
            Fault::PowerCut {
                node: 0,
                for_ns: 5 * LONG,
            },
        ),
        (at + 3, 80 * MS, Fault::Move { gateway: 1 }),
    ]);
    setup
}

/// Takeovers while members are behind: writes are under way everywhere and the gateway dies.
fn roll_forwards(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = Setup::quiet(seed);
    // Chunks with more blocks than one part of a roll-forward carries.
    (setup.chunk_bytes, setup.blocks) = (128 * 4096, 256);
    (setup.profile.blocks, setup.profile.blocks_per_chunk) = (256, 128);
    setup.profile.read_percent = 10;
    setup.profile.max_blocks = 32;
    setup.profile.depth = 16;
    setup.profile.pause_ns = 200_000;
    let mut steps = Vec::new();
    for round in 0..4 {
        let (at, slow) = (30 + round * 50, 1 + (round as usize + seed as usize) % 2);
        steps.push((
            at,
            0,
            Fault::SlowNetwork {
                node: slow,
                extra_ns: 40 * MS,
                for_ns: 100 * MS,
            },
        ));
        steps.push((
            at + 12,
            random.below(20 * MS),
            Fault::Kill {
                node: 0,
                for_ns: 50 * MS,
            },
        ));
        // The new gateway is cut off from those that it brings up to date, or dies in the middle.
        let next = 1 + random.below(2) as usize;
        steps.push((
            at + 12,
            random.within(100, 700) * MS,
            Fault::Kill {
                node: next,
                for_ns: 30 * MS,
            },
        ));
    }
    setup.plan = plan(steps);
    setup.refused_for = Duration::from_millis(2000);
    setup
}

/// Gateways take over from each other while the old one still evicts.
fn rival_gateways(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = hot(seed);
    setup.min_copies = 1;
    setup.loyal_hosts = 1;
    setup.profile.clients = 4;
    setup.profile.operations = 800;
    setup.host_patience = Duration::from_millis(500);
    let mut steps = Vec::new();
    for round in 0..3 {
        let at = 20 + 60 * round + random.below(30) as u32;
        let side = vec![random.below(3) as usize];
        let lost = *random.pick(&[Lost::Both, Lost::Outgoing, Lost::Incoming]);
        steps.push((
            at,
            0,
            Fault::Partition {
                side,
                lost,
                metadata: false,
                for_ns: random.within(300, 2500) * MS,
            },
        ));
        steps.push((
            at,
            random.below(800 * MS),
            Fault::Move {
                gateway: random.below(3) as usize,
            },
        ));
    }
    setup.plan = plan(steps);
    setup
}

/// A member's disk forgets the end of its log, and the node starts again.
fn shorter_log(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = hot(seed);
    setup.profile.read_percent = 80;
    setup.volatile_cache = false;
    // Nobody is evicted here: the member comes back at once.
    setup.coordinator = None;
    setup.refused_for = Duration::from_millis(3000);
    setup.profile.operations = 600;
    // The gateway reads from its own store where it has one: some groups are without it.
    (setup.nodes, setup.groups, setup.cores) = (4, 4, vec![1; 4]);
    let node = 1 + random.below(3) as usize;
    let at = 50 + random.below(300) as u32;
    setup.plan = plan([
        (
            at,
            0,
            Fault::LyingDisk {
                node,
                per_mille: 1000,
                for_ns: 4 * MS,
            },
        ),
        (at, 4 * MS - 1, Fault::Kill { node, for_ns: MS }),
    ]);
    setup
}

/// The hosts go from gateway to gateway, on disks that are as small as what two owners may be granted.
fn many_takeovers(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = hot(seed);
    setup.store_bytes = 16 << 20;
    setup.expect_no_eviction = true;
    let moves = (1..16).map(|round| {
        (
            round * 15,
            random.below(5 * MS),
            Fault::Move {
                gateway: round as usize % 3,
            },
        )
    });
    setup.plan = plan(moves.collect::<Vec<_>>());
    setup
}

/// Nothing worse than broken connections and lost answers.
fn lost_answers(seed: u64) -> Setup {
    Setup {
        expect_no_eviction: true,
        ..cuts(seed)
    }
}

/// Two of three members are gone for long: what is left may not go on alone.
fn below_min_copies(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = hot(seed);
    let at = random.within(20, 150) as u32;
    setup.plan = plan([
        (at, 0, Fault::PowerCut { node: 1, for_ns: LONG }),
        (
            at,
            random.within(0, 600) * MS,
            Fault::PowerCut { node: 2, for_ns: LONG },
        ),
    ]);
    setup
}

/// A takeover while some members cannot be reached by the new gateway, and are by the old one.
fn half_fenced(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = hot(seed);
    setup.profile.clients = 4;
    setup.profile.depth = 2;
    setup.profile.operations = 2000;
    setup.profile.pause_ns = 4 * MS;
    setup.loyal_hosts = 2;
    setup.host_patience = Duration::from_millis(700);
    setup.min_copies = *random.pick(&[1, 2]);
    let at = random.within(20, 150) as u32;
    let side = vec![0, 1 + random.below(2) as usize];
    let side = if random.percent(50) { side } else { vec![0] };
    setup.plan = plan([(
        at,
        0,
        Fault::Partition {
            side,
            lost: Lost::Both,
            metadata: false,
            for_ns: 2500 * MS,
        },
    )]);
    setup
}

/// Blocks rot on one member.
fn rot(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = hot(seed);
    setup.profile.read_percent = 70;
    setup.profile.hot_percent = 50;
    let node = random.below(3) as usize;
    setup.plan = plan((1..8).map(|index| (index * 25, 0, Fault::Rot { node, blocks: 6 })));
    setup
}

/// A member is gone for a moment, so that it is evicted, and is brought up to date while clients go on writing to a few
/// blocks; and again.
fn returns(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = hot(seed);
    setup.profile.clients = 5;
    setup.profile.depth = 4;
    setup.profile.operations = 1200;
    setup.profile.read_percent = 20;
    setup.profile.part_percent = 30;
    setup.profile.pause_ns = 30 * MS;
    setup.coordinator = Some(crate::cluster::patience(200));
    let node = random.below(3) as usize;
    let mut steps = vec![(20, 0, Fault::Kill { node, for_ns: 500 * MS })];
    for round in 1..4 {
        // While it is brought up to date it is gone again for a moment, or only its connections are.
        let (at, delay) = (20 + round * 250, random.below(600 * MS));
        let fault = match random.below(3) {
            0 => Fault::Kill { node, for_ns: 500 * MS },
            1 => Fault::SlowDisk {
                node: (node + 1) % 3,
                factor: 100,
                for_ns: 300 * MS,
            },
            _ => Fault::Cut {
                a: node,
                b: (node + 1) % 3,
            },
        };
        steps.push((at, delay, fault));
    }
    setup.plan = plan(steps);
    setup
}

/// Two copies, both of which must be there: a rotten one cannot be evicted.
fn rot_at_the_least(seed: u64) -> Setup {
    let mut setup = rot_under_parts(seed);
    (setup.copies, setup.min_copies) = (2, 2);
    setup.expect_no_eviction = true;
    setup
}

/// A large volume is discarded on small disks: much more of it than the stores could remember the chunks of.
fn discarded(seed: u64) -> Setup {
    let mut setup = Setup::cramped(seed);
    let blocks_per_chunk = 8;
    setup.chunk_bytes = blocks_per_chunk as u32 * 4096;
    (setup.blocks, setup.profile.blocks) = (600 * blocks_per_chunk, 600 * blocks_per_chunk);
    setup.profile.blocks_per_chunk = blocks_per_chunk;
    (setup.profile.clear_percent, setup.profile.read_percent) = (80, 5);
    (setup.profile.hot_percent, setup.profile.operations) = (0, 1500);
    setup
}

/// As before, and blocks are written in parts while one member's data rots.
fn rot_under_parts(seed: u64) -> Setup {
    let mut setup = rot(seed);
    setup.profile.part_percent = 60;
    setup.profile.read_percent = 40;
    setup
}

/// The first gateway's node dies.
fn node_dies(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = hot(seed);
    let at = random.within(20, 150) as u32;
    setup.plan = plan([(
        at,
        0,
        Fault::PowerCut {
            node: random.below(3) as usize,
            for_ns: LONG,
        },
    )]);
    setup
}

/// A disk is many times slower than the others, and answers all the same.
fn slow_disk(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = hot(seed);
    setup.profile.clients = 4;
    setup.profile.depth = 1;
    setup.profile.operations = 2500;
    setup.profile.pause_ns = 20 * MS;
    if let Some(coordinator) = &mut setup.coordinator {
        coordinator.slow_stores.after_s = 6;
        coordinator.slow_stores.rest_s = 4;
    }
    setup.plan = plan([(
        random.within(20, 60) as u32,
        0,
        Fault::SlowDisk {
            node: random.below(3) as usize,
            factor: 200,
            for_ns: 12_000 * MS,
        },
    )]);
    setup
}

/// No coordinator at all.
fn no_coordinator(seed: u64) -> Setup {
    Setup {
        coordinator: None,
        ..node_dies(seed)
    }
}

/// A node dies, and just when it is to be evicted the coordinator's node dies too: five nodes, so that all groups can
/// spare the one or the other at least.
fn coordinator_dies(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = Setup::quiet(seed);
    (setup.nodes, setup.groups, setup.cores, setup.min_copies) = (5, 4, vec![1; 5], 1);
    let at = random.within(10, 60) as u32;
    let node = random.below(5) as usize;
    setup.plan = plan([
        (at, 0, Fault::PowerCut { node, for_ns: 3 * LONG }),
        (
            at,
            random.within(1, 3000) * MS,
            Fault::CoordinatorPowerCut { for_ns: 2 * LONG },
        ),
    ]);
    setup
}

/// The data of stores moves away and back while clients go on, and stores are told late what they may hold.
fn moves_back(seed: u64) -> Setup {
    let mut setup = hot(seed);
    setup.nodes = 4;
    setup.cores = vec![1; 4];
    setup.groups = 4;
    setup.profile.operations = 1500;
    setup.profile.pause_ns = 6 * MS;
    setup.store_bytes *= 4;
    setup.passers = Passers {
        volumes: 2,
        drains: 6,
        late_ns: 3000 * MS,
    };
    setup
}

pub fn all() -> Vec<Scenario> {
    let scenario = |name, story, setup, broken| history(name, story, setup, 100, broken);
    vec![
        Scenario {
            hostile: plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::ResendOutOfOrder)),
            ..scenario(
                "R1: writes that arrive out of order are refused",
                "After a broken connection W2 comes before W1: a store that took it would never get W1.",
                cuts,
                plant!(plants => plants.store = plants.store.with(StoreFault::AnyPredecessor)),
            )
        },
        Scenario {
            seeds: 30,
            // It shows that the history is survived; without the rule the store's own tests fail.
            broken: None,
            ..scenario(
                "R13: a copy that moved away goes, and one that is listed again stays",
                "Late word of the epoch without it reaches a store that is listed again: it drops what it has just been given.",
                moves_back,
                plant!(plants => plants.store = plants.store.with(StoreFault::DropRelisted)),
            )
        },
        scenario(
            "R3: a read is held until every member has what it shows",
            "v10 is on M2 only, S1 reads it from M2; S1 and M2 die; S2 opens the others at v9: the read went back.",
            read_goes_back,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::NoHold)),
        ),
        scenario(
            "R4: reads stand on leases",
            "S1 and M1 are cut off together; M1 is evicted, S2 acknowledges on M2 and M3; S1 still reads from M1.",
            cut_off_together,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::NoLeases)),
        ),
        // Without the rule random seeds find it (the mutant `mends-anything`), this scenario does not.
        Scenario {
            broken: None,
            ..scenario(
                "R5: a pull replaces only the entry that it was issued against",
                "A late pull of b at 40 overwrites b at 51, which the member has got in the meantime.",
                returns,
                |_| {},
            )
        },
        scenario(
            "R5: a member is whole when it has been compared",
            "A member that takes new writes says the newest version, and never got those that it missed.",
            returns,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::WholeAtOnce)),
        ),
        scenario(
            "R6: half a roll-forward is none",
            "A roll-forward that stops in the middle leaves two stores with one label that differ.",
            roll_forwards,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::RollInParts)),
        ),
        scenario(
            "R6: the generation is raised before the epochs are read",
            "Between the two the old owner evicts a member, and the new one believes in a set that is no more.",
            rival_gateways,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::ReadGroupsBeforeRaise)),
        ),
        scenario(
            "R7: space is settled before a version is given out",
            "v10 is on M1, M2 and M3 is full: it can be neither completed nor undone.",
            Setup::cramped,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::NoCredits)),
        ),
        scenario(
            "R7: planned work is seen by no client",
            "A disk is drained; its record is written anew, and its credits are counted anew at one end of the link only.",
            planned_work,
            plant!(plants => plants.node = plants.node.with(amita_node::Fault::UpAtEachRecord)),
        ),
        scenario(
            "R7: a clear never finds a store without room for it",
            "Each clear of what was never written leaves a chunk: the index is full of them, and a good store goes.",
            discarded,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::ClearWhatIsNotThere)),
        ),
        // Without the rule the member is evicted before anybody reads from it: the scenario does not meet its history
        // any more.
        Scenario {
            broken: None,
            ..scenario(
                "R8: a read names the least version that it must include",
                "A store's disk forgets the end of its log: after a start it has old blocks with good checksums.",
                shorter_log,
                |_| {},
            )
        },
        Scenario {
            broken: None,
            seeds: 20,
            ..scenario(
                "R10: a store that is slow leaves, and comes back",
                "A disk answers, many times slower than its peers: each write waits for it, and no timeout finds it.",
                slow_disk,
                |_| {},
            )
        },
        Scenario {
            broken: None,
            ..scenario(
                "R7: a takeover returns what the owner before was granted",
                "Each takeover left its predecessor's credits granted: after some, an empty store was full.",
                many_takeovers,
                |_| {},
            )
        },
        Scenario {
            broken: None,
            ..scenario(
                "R8: a lost answer evicts no good store",
                "Connections break with answers on them: the writes are sent again, and answered again.",
                lost_answers,
                |_| {},
            )
        },
        scenario(
            "R10: an in-sync set never shrinks below its least",
            "Two of three members are away; writes wait for one of them instead of going on with one copy.",
            below_min_copies,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::IgnoreMinCopies)),
        ),
        scenario(
            "R10: a group is served when all of its members are fenced",
            "S2 fences the members that it reaches and serves; S1 goes on with those that S2 did not reach.",
            half_fenced,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::ServeHalfFenced)),
        ),
        Scenario {
            broken: None,
            ..scenario(
                "R12: any sequencer evicts by itself",
                "There is no coordinator in this cluster at all, a node dies, and writes go on.",
                no_coordinator,
                |_| {},
            )
        },
        Scenario {
            broken: None,
            ..scenario(
                "R12: the coordinator's node dies",
                "A node dies, and the coordinator's with it: another one is elected and evicts the stores of both.",
                coordinator_dies,
                |_| {},
            )
        },
        scenario(
            "R14: a fence says what the metadata says",
            "M2 owns nothing, and fences V1 under generations, at epochs and with members of its choice: stores keep them.",
            node_lies,
            plant!(plants => plants.node = plants.node.with(amita_node::Fault::AnyFence)),
        ),
        scenario(
            "R14: a volume is released to whoever may have it",
            "M2 asks for V1 under a generation that nobody has, or as if the operator wanted it there: its hosts lose it.",
            node_lies,
            plant!(plants => plants.node = plants.node.with(amita_node::Fault::AnyRelease)),
        ),
        scenario(
            "R14: only the owner asks",
            "M2 has read the generation and the epoch in the metadata, and writes, rolls forward and drops chunks by them.",
            node_lies,
            plant!(plants => plants.store = plants.store.with(StoreFault::AnyAsker)),
        ),
        scenario(
            "R14: a store's answer comes from its node",
            "M3 is asked what M2 is asked, under one number, and refuses in M2's name: M2 loses its place, and nothing is wrong.",
            Setup::infiltrated,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::AnyAnswer)),
        ),
        Scenario {
            seeds: 40,
            ..scenario(
                "R14: a store's node whose watch is late asks the metadata",
                "The owner dies; M3's watch tells it nothing; at the least number of copies the new owner waits for M3's watch.",
                late_watch,
                plant!(plants => plants.node = plants.node.with(amita_node::Fault::WatchOnly)),
            )
        },
        scenario(
            "I1: a write is acknowledged when every in-sync member has it",
            "An acknowledgement by the first answer is lost with its giver.",
            read_goes_back,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::AcknowledgeEarly)),
        ),
        scenario(
            "D7: a part of a rotten block is not written",
            "The part is merged with what has rotted, and the block gets a fresh, valid checksum.",
            rot_under_parts,
            plant!(plants => plants.store = plants.store.with(StoreFault::FreshSum)),
        ),
        // Without the rule writes wait for ever, and the cluster's judge excuses that: a rotten copy at the least
        // number of copies counts as one that is away by right.
        Scenario {
            broken: None,
            ..scenario(
                "D7: a part of a rotten block is written at the least number of copies",
                "M2 cannot carry the write out, and cannot be evicted: the write, and all behind it, wait for ever.",
                rot_at_the_least,
                |_| {},
            )
        },
        scenario(
            "I3: what does not match its checksum is not served",
            "Bits of one member's data rot; reads go to another member.",
            rot,
            plant!(plants => plants.store = plants.store.with(StoreFault::SumUnchecked)),
        ),
        scenario(
            "R2: an eviction compares the volume's generation",
            "A deposed sequencer moves the epoch and acknowledges by it.",
            rival_gateways,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::SkipGenerationCheck)),
        ),
    ]
}
