//! Histories of gateways and of the hosts that go to several of them: of openings, forwarded I/O, and planned moves (R9 and R10).

use super::cluster::{MS, hot, plan, random};
use super::{Scenario, history, plant};
use crate::cluster::{Fronted, Protocol, Setup};
use crate::faults::{Fault, Lost};
use std::time::Duration;

/// Hosts with several paths that write a few blocks all the time.
pub(super) fn several_paths(seed: u64) -> Setup {
    let mut setup = hot(seed);
    setup.shared_hosts = 6;
    setup.profile.clients = 6;
    setup.profile.depth = 2;
    setup.profile.operations = 1000;
    setup.profile.pause_ns = 20 * MS;
    setup.profile.read_percent = 40;
    (setup.profile.part_percent, setup.profile.max_blocks) = (0, 1);
    setup
}

/// One gateway after the other stands still for longer than its hosts wait.
fn frozen_gateways(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = several_paths(seed);
    let freeze = |round: u32| {
        let (node, for_ns) = (random.below(3) as usize, random.within(3050, 5000) * MS);
        (50 + round * 300, random.below(5 * MS), Fault::Freeze { node, for_ns })
    };
    setup.plan = plan((0..4).map(freeze).collect::<Vec<_>>());
    setup
}

/// A gateway does not reach the others, nor they it, for longer than its hosts wait; it runs, and the metadata is
/// there.
fn gateways_apart(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = several_paths(seed);
    let apart = |round: u32| {
        let side = vec![random.below(3) as usize];
        let lost = *random.pick(&[Lost::Both, Lost::Outgoing, Lost::Incoming]);
        let for_ns = random.within(3050, 4800) * MS;
        let (at, delay) = (50 + round * 300, random.below(5 * MS));
        let metadata = false;
        let fault = Fault::Partition {
            side,
            lost,
            metadata,
            for_ns,
        };
        (at, delay, fault)
    };
    setup.plan = plan((0..4).map(apart).collect::<Vec<_>>());
    setup
}

/// As before, and hosts write nothing but zeros, and what tells that they are gone.
fn clears_apart(seed: u64) -> Setup {
    let mut setup = gateways_apart(seed);
    setup.profile.read_percent = 35;
    setup.profile.clear_percent = 30;
    setup
}

/// As before, and nobody is taken for dead meanwhile: what a gateway has for the owner waits.
fn owner_out_of_reach(seed: u64) -> Setup {
    Setup {
        silent_for: Duration::from_secs(30),
        ..gateways_apart(seed)
    }
}

/// Connections between gateways break while hosts compare and write.
fn compares_cut(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = several_paths(seed);
    setup.profile.compare_percent = 60;
    setup.profile.read_percent = 40;
    (setup.profile.operations, setup.profile.clients, setup.shared_hosts) = (600, 3, 3);
    setup.profile.pause_ns = 2 * MS;
    let cut = |round: u32| {
        let a = random.below(3) as usize;
        let b = (a + 1 + random.below(2) as usize) % 3;
        (20 + round * 15, random.below(2 * MS), Fault::Cut { a, b })
    };
    setup.plan = plan((0..40).map(cut).collect::<Vec<_>>());
    setup
}

/// Hosts that speak NVMe/TCP to all gateways, and notice soon when one says nothing.
fn nvme_hosts(seed: u64) -> Setup {
    let mut setup = several_paths(seed);
    setup.shared_hosts = 0;
    setup.fronted = Some(Fronted {
        keep_alive: Duration::from_secs(2),
        reconnect: Duration::from_millis(300),
        ..Fronted::usual(Protocol::Nvme)
    });
    setup
}

/// Programs lose the way to one gateway after the other, each time for longer than they look for another one.
fn programs_apart(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = several_paths(seed);
    (setup.shared_hosts, setup.expect_no_failures) = (0, true);
    (setup.profile.compare_percent, setup.profile.clear_percent) = (0, 0);
    setup.fronted = Some(Fronted {
        patience: Duration::from_secs(60),
        ..Fronted::usual(Protocol::Client)
    });
    let apart = |round: u32| {
        let fault = Fault::HostsApart {
            gateway: round as usize % 3,
            host: None,
            lost: *random.pick(&[Lost::Both, Lost::Outgoing, Lost::Incoming]),
            for_ns: random.within(90, 120) * 1000 * MS,
        };
        (50 + round * 200, random.below(5 * MS), fault)
    };
    setup.plan = plan((0..4).map(apart).collect::<Vec<_>>());
    setup
}

/// A gateway reaches neither hosts nor the others, and runs; when the others are there again, hosts are not yet.
fn isolated_gateways(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = nvme_hosts(seed);
    setup.silent_for = Duration::from_secs(30);
    let mut faults = Vec::new();
    for round in 0..5 {
        let gateway = random.below(3) as usize;
        let at = 50 + round * 180;
        let from_hosts = Fault::HostsApart {
            gateway,
            host: None,
            lost: Lost::Both,
            for_ns: random.within(7000, 8000) * MS,
        };
        let from_others = Fault::Partition {
            side: vec![gateway],
            lost: Lost::Both,
            metadata: false,
            for_ns: random.within(3200, 5500) * MS,
        };
        faults.push((at, random.below(2 * MS), from_others));
        faults.push((at, random.within(2, 12) * MS, from_hosts));
    }
    setup.plan = plan(faults);
    setup
}

/// A gateway hears nothing of its hosts for longer than they wait for an answer, and for less than their keep alive time; what they had sent by
/// then comes when it hears them again, though they have closed those connections.
fn held_up(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = nvme_hosts(seed);
    if let Some(fronted) = &mut setup.fronted {
        (fronted.keep_alive, fronted.io_timeout) = (Duration::from_secs(5), Duration::from_secs(3));
        fronted.lingers = true;
    }
    let deaf = |round: u32| {
        let fault = Fault::HostsApart {
            gateway: random.below(3) as usize,
            host: None,
            lost: Lost::Incoming,
            for_ns: random.within(3050, 4800) * MS,
        };
        (50 + round * 180, random.below(5 * MS), fault)
    };
    setup.plan = plan((0..5).map(deaf).collect::<Vec<_>>());
    setup
}

/// A gateway reaches its hosts and the metadata, and no other gateway.
fn gateways_alone(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = nvme_hosts(seed);
    setup.silent_for = Duration::from_millis(700);
    let rounds = 4;
    let alone = |round: u32| {
        let fault = Fault::Partition {
            side: vec![random.below(3) as usize],
            lost: Lost::Both,
            metadata: false,
            for_ns: random.within(4000, 6000) * MS,
        };
        (50 + round * 220, random.below(5 * MS), fault)
    };
    setup.plan = plan((0..rounds).map(alone).collect::<Vec<_>>());
    // The first opening, each time an owner is the one that is alone, and the closing host.
    setup.most_takeovers = Some(1 + rounds + 4);
    setup
}

/// A host that opens volumes for itself goes from gateway to gateway, beside others that have I/O at all of them.
fn given_away(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = several_paths(seed);
    (setup.shared_hosts, setup.polite_hosts, setup.expect_no_failures) = (5, true, true);
    setup.profile.pause_ns = 4 * MS;
    let to = |round: u32| {
        let gateway = random.below(3) as usize;
        (50 + round * 60, random.below(5 * MS), Fault::Move { gateway })
    };
    setup.plan = plan((0..14).map(to).collect::<Vec<_>>());
    setup
}

/// The operator moves the volume from gateway to gateway while hosts use it by all of them.
fn planned_moves(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = several_paths(seed);
    (setup.expect_no_failures, setup.expect_no_eviction) = (true, true);
    setup.profile.compare_percent = 20;
    let wish = |round: u32| {
        let gateway = random.below(3) as usize;
        (50 + round * 100, random.below(5 * MS), Fault::PlannedMove { gateway })
    };
    setup.plan = plan((0..12).map(wish).collect::<Vec<_>>());
    setup
}

/// The operator drains disks, changes his mind, and works on nodes, under load: nobody may notice.
pub(super) fn planned_work(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = several_paths(seed);
    setup.expect_no_failures = true;
    (setup.nodes, setup.cores, setup.groups) = (4, vec![1; 4], 4);
    (setup.profile.operations, setup.profile.pause_ns) = (2000, 4 * MS);
    if let Some(coordinator) = &mut setup.coordinator {
        coordinator.plan_pause = Duration::from_millis(50);
        coordinator.rejoin_pause = Duration::from_millis(10);
    }
    let work = |round: u32| {
        let (node, for_ns) = (random.below(4) as usize, random.within(100, 800) * MS);
        let fault = match random.below(4) {
            0 => Fault::Maintenance { node, for_ns },
            _ => Fault::Drain { node, for_ns },
        };
        (50 + round * 100, random.below(5 * MS), fault)
    };
    setup.plan = plan((0..15).map(work).collect::<Vec<_>>());
    setup
}

/// As [`planned_moves`], while connections between gateways break: a volume goes away and comes back within
/// milliseconds.
fn moves_cut(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = several_paths(seed);
    (setup.profile.operations, setup.profile.pause_ns) = (1200, 4 * MS);
    let mut faults = Vec::new();
    for round in 0..30 {
        let (a, other) = (random.below(3) as usize, random.below(2) as usize);
        let b = (a + 1 + other) % 3;
        faults.push((30 + round * 35, random.below(5 * MS), Fault::PlannedMove { gateway: a }));
        faults.push((30 + round * 35, random.below(30 * MS), Fault::Cut { a, b }));
    }
    setup.plan = plan(faults);
    setup
}

/// Hosts take a volume to and fro between gateways with several cores whose mail is slow: an owner that does not answer
/// in time is passed over, and finds out core by core, while its hosts open the volume again.
fn opened_again(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = hot(seed);
    setup.cores = vec![4; 3];
    setup.links_per_peer = 2;
    setup.profile.clients = 8;
    setup.profile.depth = 4;
    setup.profile.operations = 1500;
    // Each core of each owner is granted its share.
    setup.store_bytes *= 8;
    (setup.blocks, setup.profile.blocks) = (128, 128);
    setup.profile.hot_percent = 10;
    // Whoever does not end is noticed.
    setup.host_patience = Duration::from_secs(1000);
    setup.settings.release_timeout = Duration::from_millis(30);
    setup.settings.store_timeout = Duration::from_secs(20);
    setup.silent_for = Duration::from_secs(20);
    setup.slow_mail = Some((random.within(5, 60), Duration::from_millis(400)));
    let go = |round: u32| {
        let gateway = random.below(3) as usize;
        (20 + round * 30, random.below(20 * MS), Fault::Move { gateway })
    };
    setup.plan = plan((0..45).map(go).collect::<Vec<_>>());
    setup
}

pub fn all() -> Vec<Scenario> {
    let scenario = |name, story, setup, broken| history(name, story, setup, 100, broken);
    vec![
        // Without the rule alone the others cover for it: a host that has gone takes along what waits, and what is old
        // is refused.
        Scenario {
            broken: None,
            seeds: 20,
            ..scenario(
                "R9: a gateway that stood still drops its hosts",
                "G1 freezes with W1 unread; the host repeats W1 by G2 and then writes W2; G1 wakes and forwards W1.",
                frozen_gateways,
                |_| {},
            )
        },
        Scenario {
            seeds: 100,
            ..scenario(
                "R9: what was on the way for long is not carried out",
                "W1 lies between G1 and the owner; the host repeats it by G2; the network heals and brings W1.",
                gateways_apart,
                // What came late was meant for an older generation: here either rule does without the other.
                plant!(plants => {
                    plants.node = plants.node.with(amita_node::Fault::AnyAge);
                    plants.node = plants.node.with(amita_node::Fault::AnyGeneration);
                }),
            )
        },
        Scenario {
            seeds: 100,
            ..scenario(
                "R9: what was cleared long ago is not cleared again",
                "The same with a clear: zeros have no stamp, and would hide what was written after them.",
                clears_apart,
                plant!(plants => {
                    plants.node = plants.node.with(amita_node::Fault::AnyAge);
                    plants.node = plants.node.with(amita_node::Fault::AnyGeneration);
                }),
            )
        },
        // Without the rule no seed has failed yet: see the mutant `keep-for-gone-hosts`. With it, seed 31 of every run
        // holds.
        Scenario {
            broken: None,
            seeds: 20,
            ..scenario(
                "R9: what waits for a host that has gone goes with it",
                "G1 does not reach the owner; the host leaves and repeats W1 by G2; later G1 reaches it and forwards W1.",
                owner_out_of_reach,
                |_| {},
            )
        },
        Scenario {
            seeds: 10,
            ..scenario(
                "R9: a compare-and-write is not repeated",
                "The link breaks after it was carried out and before the answer: the second one finds what the first has written.",
                compares_cut,
                plant!(plants => {
                    plants.node = plants.node.with(amita_node::Fault::CarryOutAgain);
                    plants.node = plants.node.with(amita_node::Fault::RepeatCompare);
                }),
            )
        },
        Scenario {
            seeds: 30,
            ..scenario(
                "R9: a forwarded write is not carried out as a new one",
                "W1 is carried out and its answer lost; another host reads it and compares and writes W2; W1 again undoes W2.",
                compares_cut,
                plant!(plants => plants.node = plants.node.with(amita_node::Fault::CarryOutAgain)),
            )
        },
        Scenario {
            seeds: 30,
            ..scenario(
                "R9: an owner knows what it has carried out",
                "As before, and W1 is asked for again under its own tag: the owner answers it and does not do it again.",
                compares_cut,
                plant!(plants => plants.node = plants.node.with(amita_node::Fault::NoWindow)),
            )
        },
        Scenario {
            seeds: 80,
            ..scenario(
                "R9: a host that is silent takes along what has grown old",
                "G1 runs and reaches nobody; its host repeats W1 by G2 and writes W2; G1 reaches the owner again, and not the host.",
                isolated_gateways,
                plant!(plants => plants.keep_silent_hosts = true),
            )
        },
        // Without the rule 40 seeds hold as well: the mutant `believe-silent-hosts` shows it to be needed, by a seed of moves.
        Scenario {
            broken: None,
            seeds: 20,
            ..scenario(
                "R9: what a host sent before it gave the path up is not carried out",
                "G1 does not hear its host, which repeats W1 by G2 and writes W2; G1 hears it again, and the first that it hears is W1.",
                held_up,
                |_| {},
            )
        },
        Scenario {
            seeds: 20,
            ..scenario(
                "R10: a program that is not heard any more gives its volume up",
                "Its machine vanishes, or the way to it: its gateway waits for it for ever, and no other one may open the volume.",
                programs_apart,
                plant!(plants => plants.node = plants.node.with(amita_node::Fault::UnwatchedHosts)),
            )
        },
        // Without the rule no seed has failed yet: hosts go by the owner's path, and the gateway that is alone has
        // nothing to take over for.
        Scenario {
            broken: None,
            seeds: 10,
            ..scenario(
                "R10: a gateway that reaches nobody deposes nobody",
                "G1 reaches hosts and the metadata only; it takes the volume, the others take it back, and so on.",
                gateways_alone,
                |_| {},
            )
        },
        Scenario {
            seeds: 20,
            ..scenario(
                "R10: a volume that is given away has nothing under way",
                "Nobody has opened it, and it is in use all the same, by NVMe: to drop it at once fails that I/O.",
                given_away,
                plant!(plants => plants.node = plants.node.with(amita_node::Fault::CutOnRelease)),
            )
        },
        Scenario {
            broken: None,
            seeds: 20,
            ..scenario(
                "R9: a planned move is not noticed by hosts",
                "The owner ends what is under way, holds back what comes, and the next owner carries it out.",
                planned_moves,
                |_| {},
            )
        },
        scenario(
            "R9: what waited at an owner is not carried out when it is owner again",
            "G1 hands over while W1 waits there; G3 takes W1 to G2, which ends it; G1 takes over and carries W1 out.",
            moves_cut,
            // What is sent once under one generation is not carried out twice either.
            plant!(plants => {
                plants.node = plants.node.with(amita_node::Fault::AnyGeneration);
                plants.node = plants.node.with(amita_node::Fault::CarryOutAgain);
                plants.node = plants.node.with(amita_node::Fault::NoWindow);
            }),
        ),
        // Without the rule no seed has failed yet: a test of the core (`core::tests` in `amita-node`) switches it off.
        Scenario {
            broken: None,
            seeds: 40,
            ..scenario(
                "R10: an older sequencer is ended before a newer one takes its place",
                "Core 1 finds the volume lost, core 0 opens it again: core 2 hears of the second first, and its I/O never ends.",
                opened_again,
                |_| {},
            )
        },
    ]
}
