//! Runs in which links are measured: minutes of a little work, in which links are bad for a while, or none is.
//!
//! Nodes look at their links every ten seconds, as the product does; what it decides it decides sooner here, and connections without traffic
//! are asked more often, so that a minute is enough to find a link bad and some minutes to find it well.

use crate::cluster::Setup;
use crate::faults::{Bad, Fault, Lost, Member, Step};
use crate::random::Random;
use amita_types::link::Network;
use amita_types::recovery::{SickNetworks, SickPolicy, SlowPolicy};
use std::time::Duration;

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;
/// The work of such a run ends within this.
const WORK: Duration = Duration::from_secs(1200);
/// A little work: some operations a second for some minutes.
const OPERATIONS: u32 = 600;
const PAUSE_NS: u64 = 2 * S;
/// Less work, that lasts for longer than what was left rests at first.
const LASTING_PAUSE_NS: u64 = 10 * S;
const LASTING_WORK: Duration = Duration::from_secs(2400);
/// Links are bad from here on, when nodes have measured them a first time.
const FIRST: u64 = 60;

/// Links between nodes are measured.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// What the operator has set when the run begins.
    pub settings: SickNetworks,
    /// Between two questions over a connection without traffic.
    pub idle_ping: Duration,
    /// Has each node two networks?
    pub two: bool,
}

fn random(seed: u64) -> Random {
    Random::new(seed).fork(61)
}

/// Nothing is wrong, and links are measured.
fn well(seed: u64, random: &mut Random, policy: SickPolicy) -> Setup {
    let mut setup = Setup::quiet(seed);
    (setup.nodes, setup.groups) = (4, 4);
    (setup.cores, setup.clocks) = (vec![1; 4], vec![1_000_000; 4]);
    (setup.profile.clients, setup.profile.depth) = (3, 2);
    (setup.profile.operations, setup.profile.pause_ns) = (OPERATIONS, PAUSE_NS);
    setup.host_patience = Duration::from_secs(10);
    setup.work = WORK;
    if let Some(coordinator) = &mut setup.coordinator {
        // A store behind a bad link looks slow, and would leave first.
        coordinator.slow_stores.policy = SlowPolicy::Off;
    }
    setup.measured = Some(Measured {
        settings: SickNetworks {
            policy,
            after_s: *random.pick(&[10, 10, 15]),
            rest_s: *random.pick(&[30, 60, 120]),
            per_hour: 4,
        },
        idle_ping: Duration::from_millis(*random.pick(&[500, 500, 800])),
        two: false,
    });
    setup
}

/// The same where each node has two networks; times are the product's, as what is given up when is what is looked at.
fn two(seed: u64, random: &mut Random) -> Setup {
    let mut setup = well(seed, random, SickPolicy::Isolate);
    (setup.refused_for, setup.silent_for) = (amita_node::REFUSED_FOR, amita_node::SILENT_FOR);
    if let Some(measured) = &mut setup.measured {
        measured.two = true;
    }
    setup
}

fn others(nodes: usize, node: Member) -> Vec<Member> {
    (0..nodes).filter(|other| *other != node).collect()
}

fn lossy(random: &mut Random) -> Bad {
    let per_mille = random.within(40, 70) as u32;
    Bad::Lossy { per_mille }
}

fn late(random: &mut Random) -> Bad {
    let extra_ns = random.within(25, 60) * MS;
    Bad::Late { extra_ns }
}

fn way(random: &mut Random) -> Lost {
    *random.pick(&[Lost::Both, Lost::Outgoing, Lost::Incoming])
}

/// All links of a node are bad, for minutes.
fn sick_node(setup: &mut Setup, random: &mut Random, bad: Bad) {
    let node = random.below(setup.nodes as u64) as usize;
    let fault = Fault::BadLinks {
        node,
        peers: others(setup.nodes, node),
        bad,
        way: way(random),
        networks: vec![Network::First],
        for_ns: random.within(150, 200) * S,
    };
    setup.plan.steps = vec![at(FIRST, fault)];
    setup.plan.victims = vec![node];
}

/// The second network is late for some seconds in which the first one begins to refuse: a connection by it takes longer than refusals that
/// would be a death if they were all that there is, and not as long as silence.
fn hesitate(setup: &mut Setup, random: &mut Random) {
    let Some(&node) = setup.plan.victims.first() else {
        return;
    };
    let late = Fault::BadLinks {
        node,
        peers: others(setup.nodes, node),
        bad: late(random),
        way: Lost::Both,
        networks: vec![Network::Second],
        for_ns: 4 * S,
    };
    for step in &mut setup.plan.steps {
        step.delay_ns = S;
    }
    setup.plan.steps.insert(0, at(FIRST, late));
}

fn at(after_operations: u64, fault: Fault) -> Step {
    Step {
        after_operations: after_operations as u32,
        delay_ns: 0,
        fault,
    }
}

impl Setup {
    /// Links are measured: eight forms in turn, each run of one by its seed; the last one has nodes with two networks, in four forms.
    #[must_use]
    pub fn measuring(seed: u64) -> Setup {
        match seed / 40 % 8 {
            0 => Setup::sick_lossy(seed),
            1 => Setup::sick_late(seed),
            2 => Setup::sick_cut(seed),
            3 => Setup::sick_and_needed(seed),
            4 => Setup::well_networks(seed),
            5 => Setup::sick_and_tolerated(seed),
            7 => match seed / 320 % 4 {
                0 => Setup::first_cut(seed),
                1 if seed / 1280 % 2 == 1 => Setup::first_lasting(seed),
                1 => Setup::first_lossy(seed),
                2 => Setup::both_sick(seed),
                _ => Setup::two_at_random(seed),
            },
            _ => Setup::sick_at_random(seed),
        }
    }

    /// A node's links lose some of a hundred segments, in one direction or both: it is isolated, and again where its rest is over before.
    #[must_use]
    pub fn sick_lossy(seed: u64) -> Setup {
        let mut random = random(seed);
        let mut setup = well(seed, &mut random, SickPolicy::Isolate);
        let bad = lossy(&mut random);
        sick_node(&mut setup, &mut random, bad);
        setup
    }

    /// A node's links are late; it would rest for longer than they are.
    #[must_use]
    pub fn sick_late(seed: u64) -> Setup {
        let mut random = random(seed);
        let mut setup = well(seed, &mut random, SickPolicy::Isolate);
        if let Some(measured) = &mut setup.measured {
            measured.settings.rest_s = 900;
        }
        let bad = late(&mut random);
        sick_node(&mut setup, &mut random, bad);
        setup
    }

    /// A node reaches no other one, or none reaches it, and all of them reach the metadata.
    #[must_use]
    pub fn sick_cut(seed: u64) -> Setup {
        let mut random = random(seed);
        let mut setup = well(seed, &mut random, SickPolicy::Isolate);
        sick_node(&mut setup, &mut random, Bad::Cut);
        setup
    }

    /// A node's links by the first of two networks are cut, or refused on the way while the second one is late to answer. Whoever lives is reached
    /// by the second one, and nobody leaves.
    #[must_use]
    pub fn first_cut(seed: u64) -> Setup {
        let mut random = random(seed);
        let mut setup = two(seed, &mut random);
        let bad = *random.pick(&[Bad::Cut, Bad::Refused, Bad::Refused]);
        sick_node(&mut setup, &mut random, bad);
        if bad == Bad::Refused {
            hesitate(&mut setup, &mut random);
        }
        setup.expect_no_eviction = true;
        setup
    }

    /// They are lossy, or late, and are left for the second network.
    #[must_use]
    pub fn first_lossy(seed: u64) -> Setup {
        let mut random = random(seed);
        let mut setup = two(seed, &mut random);
        let bad = match random.percent(70) {
            true => lossy(&mut random),
            false => late(&mut random),
        };
        sick_node(&mut setup, &mut random, bad);
        setup
    }

    /// They are for longer than the first rest: what was left is tried again, and left again.
    #[must_use]
    pub fn first_lasting(seed: u64) -> Setup {
        let mut setup = Setup::first_lossy(seed);
        let mut random = Random::new(seed).fork(63);
        (setup.profile.pause_ns, setup.work) = (LASTING_PAUSE_NS, LASTING_WORK);
        for step in &mut setup.plan.steps {
            if let Fault::BadLinks { for_ns, .. } = &mut step.fault {
                *for_ns = random.within(800, 900) * S;
            }
        }
        setup
    }

    /// The first network is lossy while the second one is cut, and then is lossy as well: there is nowhere to go, and then nothing better.
    #[must_use]
    pub fn both_sick(seed: u64) -> Setup {
        let mut random = random(seed);
        let mut setup = two(seed, &mut random);
        let node = random.below(setup.nodes as u64) as usize;
        let spoilt = |network: Network, bad: Bad, (after_s, for_s): (u64, u64)| Step {
            delay_ns: after_s * S,
            ..at(
                FIRST,
                Fault::BadLinks {
                    node,
                    peers: others(setup.nodes, node),
                    bad,
                    way: Lost::Both,
                    networks: vec![network],
                    for_ns: for_s * S,
                },
            )
        };
        let steps = vec![
            spoilt(Network::Second, Bad::Cut, (0, 150)),
            spoilt(Network::First, lossy(&mut random), (0, 400)),
            spoilt(Network::Second, lossy(&mut random), (150, 250)),
        ];
        (setup.plan.steps, setup.plan.victims) = (steps, vec![node]);
        setup
    }

    /// As with one network, by one or both of two.
    #[must_use]
    pub fn two_at_random(seed: u64) -> Setup {
        let mut setup = Setup::sick_at_random(seed);
        let mut random = Random::new(seed).fork(62);
        if let Some(measured) = &mut setup.measured {
            measured.two = true;
        }
        for step in &mut setup.plan.steps {
            if let Fault::BadLinks { networks, bad, .. } = &mut step.fault {
                *networks = match random.below(4) {
                    0 => Network::ALL.to_vec(),
                    1 => vec![Network::Second],
                    _ => vec![Network::First],
                };
                if *bad == Bad::Cut && random.percent(50) {
                    *bad = Bad::Refused;
                }
            }
        }
        setup
    }

    /// A node's links are lossy, and one other copy is all that would be left.
    #[must_use]
    pub fn sick_and_needed(seed: u64) -> Setup {
        let mut random = random(seed);
        let mut setup = well(seed, &mut random, SickPolicy::Isolate);
        (setup.copies, setup.min_copies) = (2, 1);
        let bad = lossy(&mut random);
        sick_node(&mut setup, &mut random, bad);
        setup
    }

    /// A node's links are bad, and the policy isolates nobody.
    #[must_use]
    pub fn sick_and_tolerated(seed: u64) -> Setup {
        let mut random = random(seed);
        let policy = [SickPolicy::Off, SickPolicy::Avoid, SickPolicy::Propose][seed as usize % 3];
        let mut setup = well(seed, &mut random, policy);
        let bad = if random.percent(50) {
            lossy(&mut random)
        } else {
            late(&mut random)
        };
        sick_node(&mut setup, &mut random, bad);
        setup
    }

    /// No link is bad for long enough to be called so: processes die and stand still, connections break, and once packets are lost for seconds,
    /// or some links are cut for a moment.
    #[must_use]
    pub fn well_networks(seed: u64) -> Setup {
        let mut random = random(seed);
        let mut setup = well(seed, &mut random, SickPolicy::Isolate);
        let nodes = setup.nodes as u64;
        let mut steps = Vec::new();
        for round in 0..5 {
            let node = random.below(nodes) as usize;
            let b = (node + 1 + random.below(nodes - 1) as usize) % setup.nodes;
            let fault = match random.below(4) {
                0 => Fault::Kill {
                    node,
                    for_ns: random.within(20, 4000) * MS,
                },
                1 => Fault::CoordinatorPowerCut { for_ns: 3 * S },
                2 => Fault::Freeze {
                    node,
                    for_ns: random.within(100, 3000) * MS,
                },
                _ => Fault::Cut { a: node, b },
            };
            steps.push(at(FIRST + 100 * round, fault));
        }
        let node = random.below(nodes) as usize;
        let moment = if random.percent(60) {
            Fault::BadLinks {
                node,
                peers: others(setup.nodes, node),
                bad: Bad::Lossy { per_mille: 300 },
                way: way(&mut random),
                networks: vec![Network::First],
                for_ns: random.within(2, 6) * S,
            }
        } else {
            Fault::Partition {
                side: vec![node],
                lost: way(&mut random),
                metadata: false,
                for_ns: random.within(50, 400) * MS,
            }
        };
        steps.push(at(random.within(FIRST, 500), moment));
        steps.sort_by_key(|step| step.after_operations);
        setup.plan.steps = steps;
        setup
    }

    /// Nodes and single links, one after the other or at once, bad in any way; coordinators die, slow stores may leave, the operator changes
    /// his mind.
    #[must_use]
    pub fn sick_at_random(seed: u64) -> Setup {
        let mut random = random(seed);
        let policy = *random.pick(&[
            SickPolicy::Isolate,
            SickPolicy::Isolate,
            SickPolicy::Isolate,
            SickPolicy::Avoid,
            SickPolicy::Propose,
            SickPolicy::Off,
        ]);
        let mut setup = well(seed, &mut random, policy);
        setup.nodes = *random.pick(&[3, 4, 5, 5]);
        setup.cores = (0..setup.nodes).map(|_| 1 + usize::from(random.percent(20))).collect();
        setup.clocks = vec![1_000_000; setup.nodes];
        setup.groups = *random.pick(&[1, 2, 4]);
        if let Some(coordinator) = &mut setup.coordinator
            && random.percent(40)
        {
            coordinator.slow_stores.policy = SlowPolicy::Evict;
        }
        let mut steps = Vec::new();
        for round in 0..random.within(1, 3) {
            let node = random.below(setup.nodes as u64) as usize;
            let mut peers = others(setup.nodes, node);
            if random.percent(30) {
                peers = vec![*random.pick(&peers)];
            }
            let bad = match random.below(5) {
                0 | 1 => lossy(&mut random),
                2 | 3 => late(&mut random),
                _ => Bad::Cut,
            };
            let fault = Fault::BadLinks {
                node,
                peers,
                bad,
                way: way(&mut random),
                networks: vec![Network::First],
                for_ns: random.within(60, 240) * S,
            };
            steps.push(at(FIRST + round * random.within(60, 250), fault));
        }
        if random.percent(40) {
            steps.push(at(
                random.within(FIRST, 550),
                Fault::CoordinatorPowerCut { for_ns: 3 * S },
            ));
        }
        if random.percent(40) {
            let policy = *random.pick(&[SickPolicy::Isolate, SickPolicy::Avoid, SickPolicy::Off]);
            steps.push(at(random.within(FIRST, 550), Fault::SickNetworks { policy }));
        }
        steps.sort_by_key(|step| step.after_operations);
        setup.plan.steps = steps;
        setup
    }
}
