//! How long a fault is felt: one fault at a time is injected into the owner's node or another one while a crowd works;
//! then it ends and everything heals. Measured, not judged: a machine's figures are its own.

use crate::clients::{Crowd, Recorder};
use crate::plan::{Fault, Protocol};
use crate::world::{PATIENCE, Shape, World, disks_missing};
use amita_reactor::Time;
use amita_sim::history::Operation;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const BEFORE: Duration = Duration::from_secs(1);
/// A frozen node is noticed in 1.3 s, and a session's lease lapses after 5 s: what is hit for longer is out for good.
const LENGTH: Duration = Duration::from_secs(4);
const AFTER: Duration = Duration::from_secs(3);
/// So often each; the longest counts.
const ROUNDS: u64 = 2;
/// The nodes whose pauses are told apart: that of the volume's owner, and one with a copy only.
const OWNER: usize = 0;
const MEMBER: usize = 2;

fn faults(node: usize) -> Vec<(&'static str, Fault)> {
    let slow = Duration::from_millis(20);
    vec![
        ("process killed", Fault::Kill(node)),
        ("process frozen", Fault::Freeze(node)),
        ("one core stands still", Fault::CoreStopped(node)),
        ("fabric links cut once", Fault::Cut(node)),
        ("fabric links 20 ms slower", Fault::SlowLinks(node, slow)),
        ("one message of 100 late by 200 ms", Fault::LossyLinks(node, slow * 10)),
        ("hears nothing", Fault::Deaf(node)),
        ("is not heard", Fault::Mute(node)),
        ("isolated from other nodes", Fault::Isolated(node)),
        ("cut off from nodes and hosts", Fault::CutOff(node)),
        ("host links cut once", Fault::HostsCut(node)),
        ("host links held", Fault::HostsHeld(node, true, true)),
        ("metadata killed", Fault::MetadataKilled),
        ("metadata frozen", Fault::MetadataFrozen),
        ("2 % of the disk's operations fail", Fault::DiskErrors(node, 20)),
        ("disk gone", Fault::DiskLost(node)),
        ("disk 20 ms slower", Fault::SlowDisk(node, slow)),
        ("disk completes nothing", Fault::StalledDisk(node)),
        ("disk full", Fault::FullDisk(node)),
    ]
}

/// What a fault cost, in time.
#[derive(Clone, Copy, Debug, Default)]
struct Pause {
    /// The longest time in which no client had an answer.
    all: Duration,
    /// The longest time in which one of them had none.
    one: Duration,
}

fn longest_gap(mut answers: Vec<Time>) -> Duration {
    answers.sort_unstable();
    let gaps = answers.windows(2).map(|two| two[1].0 - two[0].0);
    Duration::from_nanos(gaps.max().unwrap_or_default())
}

fn pause_of(operations: &[Operation]) -> Pause {
    let mut of_client: BTreeMap<u32, Vec<Time>> = BTreeMap::new();
    let answered = operations.iter().filter_map(|o| Some((o.client, o.completed?.1)));
    for (client, at) in answered {
        of_client.entry(client).or_default().push(at);
    }
    Pause {
        all: longest_gap(of_client.values().flatten().copied().collect()),
        one: of_client.into_values().map(longest_gap).max().unwrap_or_default(),
    }
}

fn measure(world: &mut World, number: u32, fault: Fault, protocol: Protocol) -> Pause {
    let volume = format!("p{number}");
    world.make_volume(&volume, "32M");
    // Whoever is asked first becomes the owner; clients begin there.
    let recorder = Arc::new(Recorder::new(number));
    let gateways = world.gateways();
    recorder.read_all(gateways[OWNER], &volume, PATIENCE).expect("read");
    let seed = u64::from(number);
    let crowd = match protocol {
        Protocol::Nbd => Crowd::start(&recorder, &gateways, &volume, seed),
        Protocol::Nvme => {
            let subsystem = world.offer(&volume);
            Crowd::start_hosts(&recorder, &world.portals(), &subsystem, seed)
        }
    };
    std::thread::sleep(BEFORE);
    let fault = world.begin(fault);
    std::thread::sleep(LENGTH);
    world.finish(fault);
    std::thread::sleep(AFTER);
    let pause = pause_of(&recorder.operations());
    crowd.finish();
    // A store that was poisoned comes back by itself: nobody restarts its node.
    world.heal(&[]);
    for &gateway in &gateways {
        recorder
            .read_all(gateway, &volume, PATIENCE)
            .expect("all blocks are read");
    }
    let whole = world.observer.await_whole(PATIENCE).expect("not interrupted");
    assert!(whole, "not all copies are in sync again:\n{}", world.missing_copies());
    if let Err(violation) = recorder.check() {
        panic!("not one order explains what the clients of {volume} saw:\n{violation}");
    }
    pause
}

#[test]
#[ignore = "measures, for 40 minutes"]
fn of_each_fault() {
    let disks = disks_missing();
    if let Some(why) = &disks {
        println!("faults of disks are left out: {why}");
    }
    let mut world = World::start(
        Shape {
            disks: disks.is_none(),
            etcd: false,
        },
        1,
    );
    println!("longest pause in ms, nobody served / one client not served");
    println!("| fault | node | NBD | NVMe/TCP |\n| --- | --- | --- | --- |");
    let mut number = 0;
    for (name, node) in [("owner", OWNER), ("copy only", MEMBER)] {
        for (what, fault) in faults(node) {
            if fault.needs_disk() && disks.is_some() {
                continue;
            }
            let mut row = format!("| {what} | {name} |");
            for protocol in [Protocol::Nbd, Protocol::Nvme] {
                let mut worst = Pause::default();
                for _ in 0..ROUNDS {
                    number += 1;
                    let pause = measure(&mut world, number, fault, protocol);
                    worst.all = worst.all.max(pause.all);
                    worst.one = worst.one.max(pause.one);
                }
                row += &format!(" {} / {} |", worst.all.as_millis(), worst.one.as_millis());
            }
            println!("{row}");
        }
    }
    world.end(&["does not serve"]);
}
