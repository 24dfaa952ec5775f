//! Histories of initiators: hosts that use several gateways by iSCSI.

use super::cluster::{MS, plan, random};
use super::gateways::several_paths;
use super::{Scenario, history, plant};
use crate::cluster::{Fronted, Initiators, Protocol, Setup};
use crate::faults::{Fault, Lost};
use std::time::Duration;

/// Initiators that write a few blocks all the time, each by all gateways in turn.
fn initiators(seed: u64) -> Setup {
    let mut setup = several_paths(seed);
    setup.shared_hosts = 0;
    setup.profile.clients = 4;
    setup.fronted = Some(Fronted {
        keep_alive: Duration::from_secs(2),
        reconnect: Duration::from_millis(300),
        ..Fronted::usual(Protocol::Iscsi)
    });
    setup
}

fn with(mut setup: Setup, change: impl FnOnce(&mut Fronted, &mut Initiators)) -> Setup {
    if let Some(fronted) = &mut setup.fronted {
        let mut iscsi = fronted.iscsi;
        change(fronted, &mut iscsi);
        fronted.iscsi = iscsi;
    }
    setup
}

/// Initiators take their paths in turn, whoever owns the volume.
fn by_all_paths(fronted: &mut Fronted, iscsi: &mut Initiators) {
    (fronted.round_robin, iscsi.multibus) = (true, true);
}

/// The network of one gateway after the other is slow, to the others and not to hosts.
fn slow_gateways(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = initiators(seed);
    let slow = |round: u32| {
        let node = random.below(3) as usize;
        let extra_ns = random.within(150, 450) * MS;
        let for_ns = random.within(1000, 2500) * MS;
        let fault = Fault::SlowNetwork { node, extra_ns, for_ns };
        (30 + round * 150, random.below(5 * MS), fault)
    };
    setup.plan = plan((0..6).map(slow).collect::<Vec<_>>());
    setup
}

/// Commands are aborted that take as long as that.
fn impatient(seed: u64) -> Setup {
    let change = |fronted: &mut Fronted, iscsi: &mut Initiators| {
        fronted.io_timeout = Duration::from_millis(120);
        by_all_paths(fronted, iscsi);
    };
    with(slow_gateways(seed), change)
}

/// Sessions are reinstated while such commands are under way.
fn reinstating(seed: u64) -> Setup {
    let change = |fronted: &mut Fronted, iscsi: &mut Initiators| {
        iscsi.reinstates = Some(Duration::from_millis(150));
        by_all_paths(fronted, iscsi);
    };
    with(slow_gateways(seed), change)
}

/// Hosts fence one another off.
fn fencing(seed: u64) -> Setup {
    let mut setup = initiators(seed);
    setup.profile.operations = 2000;
    setup.profile.read_percent = 30;
    with(setup, |_, iscsi| iscsi.reserves = Some(5))
}

/// The same where every other host speaks NVMe/TCP, and one of these registers: there is one reservation.
fn fencing_both(seed: u64) -> Setup {
    let setup = fencing(seed);
    with(setup, |_, iscsi| {
        (iscsi.beside_nvme, iscsi.first_registers) = (true, true);
    })
}

/// The same while disks take their time.
fn fencing_slowly(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = fencing(seed);
    let slow = |round: u32| {
        let node = random.below(3) as usize;
        // Not so slow that an operation takes 5 s, for then the store has failed.
        let (factor, for_ns) = (random.within(100, 600) as u32, 4000 * MS);
        (
            30 + round * 150,
            random.below(5 * MS),
            Fault::SlowDisk { node, factor, for_ns },
        )
    };
    setup.plan = plan((0..10).map(slow).collect::<Vec<_>>());
    setup
}

/// Gateways die, the one that owns the volume among them, and come back.
fn gateways_die(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = with(initiators(seed), by_all_paths);
    let kill = |round: u32| {
        let (node, for_ns) = (random.below(3) as usize, random.within(300, 1500) * MS);
        (30 + round * 100, random.below(5 * MS), Fault::Kill { node, for_ns })
    };
    setup.plan = plan((0..9).map(kill).collect::<Vec<_>>());
    setup
}

/// The same while initiators have zeros copied over what they have written, and copy what they read.
fn copying(seed: u64) -> Setup {
    let mut setup = gateways_die(seed);
    (setup.profile.read_percent, setup.profile.clear_percent) = (40, 30);
    with(setup, |_, iscsi| iscsi.copies = true)
}

/// A gateway hears nothing of its initiators, and they perhaps nothing of it, for longer than they wait for an answer to a NOP, and for less than it
/// waits before it asks; what they had sent by then comes when it hears them again, though they have closed those connections.
fn held_up(seed: u64) -> Setup {
    let mut random = random(seed);
    let mut setup = with(initiators(seed), |fronted, iscsi| {
        fronted.keep_alive = Duration::from_secs(1);
        iscsi.replacement = Duration::ZERO;
        by_all_paths(fronted, iscsi);
    });
    let deaf = |round: u32| {
        let fault = Fault::HostsApart {
            gateway: random.below(3) as usize,
            host: None,
            lost: *random.pick(&[Lost::Both, Lost::Incoming]),
            for_ns: random.within(3300, 3900) * MS,
        };
        (50 + round * 180, random.below(5 * MS), fault)
    };
    setup.plan = plan((0..5).map(deaf).collect::<Vec<_>>());
    setup
}

pub fn all() -> Vec<Scenario> {
    let scenario = |name, story, setup, broken| history(name, story, setup, 40, broken);
    vec![
        scenario(
            "I1: what nobody knows to be written is not answered as written",
            "W1 is on its way to the owner when that dies: its initiator is told that the access is changing, and asks again.",
            gateways_die,
            plant!(plants => plants.iscsi = plants.iscsi.with(amita_iscsi::Fault::TrustLost)),
        ),
        scenario(
            "I1: what a copy has not written is not answered as copied",
            "Zeros are copied over W1, and the owner dies under a piece of that: its initiator is told that the access is changing.",
            copying,
            plant!(plants => plants.iscsi = plants.iscsi.with(amita_iscsi::Fault::TrustPieces)),
        ),
        scenario(
            "R10: who owns a volume now says so to the hosts that it has",
            "The owner dies and G2 has the volume; a session that G2 had before that tells of it.",
            gateways_die,
            plant!(plants => plants.iscsi = plants.iscsi.with(amita_iscsi::Fault::DeafToSettings)),
        ),
        scenario(
            "R9: a task that was aborted writes nothing any more",
            "W1 waits in G1; its initiator aborts it, and writes W2 by G2 when it is told that W1 is over.",
            impatient,
            plant!(plants => plants.iscsi = plants.iscsi.with(amita_iscsi::Fault::AbortAtOnce)),
        ),
        scenario(
            "R9: a session begins when nothing is left of the one before",
            "W1 waits in G1; its initiator logs in anew, and writes W2 by G2 when it is let in.",
            reinstating,
            plant!(plants => plants.iscsi = plants.iscsi.with(amita_iscsi::Fault::ReinstateAtOnce)),
        ),
        scenario(
            "R9: what an initiator sent before it gave the path up is not carried out",
            "G1 does not hear its initiator, which closes the connection, repeats W1 by G2 and writes W2; then its kernel's W1 comes to G1.",
            held_up,
            plant!(plants => plants.iscsi = plants.iscsi.with(amita_iscsi::Fault::BelieveSilentHosts)),
        ),
        scenario(
            "R9: a host that was fenced off writes nothing, by no gateway",
            "H2 preempts H1's key; H1 does not know that, and goes on by all of its paths.",
            fencing,
            plant!(plants => plants.node = plants.node.with(amita_node::Fault::AnyHost)),
        ),
        scenario(
            "R9: a host that was fenced off by another protocol writes nothing",
            "H2 speaks iSCSI and preempts H1's key; H1 speaks NVMe/TCP, does not know that, and goes on by all of its paths.",
            fencing_both,
            plant!(plants => plants.node = plants.node.with(amita_node::Fault::AnyHost)),
        ),
        scenario(
            "R9: a host is fenced off when what it has under way is over",
            "H1's W1 is with slow stores when H2 preempts its key; H2 writes W2 when it is told that this is done.",
            fencing_slowly,
            plant!(plants => plants.node = plants.node.with(amita_node::Fault::PreemptAtOnce)),
        ),
    ]
}
