//! One host against another, at gateways of a cluster.

use crate::bystander::Bystander;
use crate::world::{World, eventually, stamped};
use amita_nvme_host::{Controller, Error, Host, Queue, Settings, commands};
use std::net::SocketAddr;

const ANN: &str = "nqn.2014-08.com.example:ann";
const BOB: &str = "nqn.2014-08.com.example:bob";
const BLOCK: usize = 4096;
/// Exclusive access (NVM Command Set, reservation type).
const EXCLUSIVE: u8 = 2;
/// Their keys.
const HERS: u64 = 0xa11;
const HIS: u64 = 0xb0b;
/// Reservation Conflict (NVMe Base 2.1, generic command status).
const CONFLICT: u16 = 0x83;

/// A subsystem with one volume, for these hosts; its qualified name.
fn subsystem(world: &World, name: &str, hosts: &[&str]) -> String {
    world.amita_done(&["volume", "create", name, "--pool", "demo", "--size", "4M"]);
    let made = world.json(&["subsystem", "create", name]);
    world.amita_done(&["namespace", "add", name, name]);
    for host in hosts {
        world.amita_done(&["host", "allow", name, host]);
    }
    made["nqn"].as_str().expect("a name").to_owned()
}

/// A controller and an I/O queue of it.
struct Disk {
    _controller: Controller,
    queue: Queue,
}

impl Disk {
    fn connect(address: SocketAddr, nqn: &str, host: &Host) -> Result<Disk, Error> {
        let mut controller = Controller::connect(&Settings::new(address, nqn), host)?;
        controller.enable()?;
        controller.call(&commands::queues(1))?.good("Number of Queues")?;
        let queue = controller.io_queue(1, 16)?;
        Ok(Disk {
            _controller: controller,
            queue,
        })
    }

    /// Waits until the gateway knows that the host may.
    fn open(address: SocketAddr, nqn: &str, host: &Host) -> Disk {
        let mut found = None;
        eventually("the host is let in", || {
            found = Disk::connect(address, nqn, host).ok();
            found.is_some()
        });
        found.expect("a disk")
    }

    fn write(&mut self, block: u64, data: &[u8]) -> Result<(), Error> {
        let request = commands::write(1, block, 1, data.to_vec());
        self.queue.call(&request)?.good("Write").map(drop)
    }

    fn read(&mut self, block: u64) -> Result<Vec<u8>, Error> {
        Ok(self.queue.call(&commands::read(1, block, 1, BLOCK))?.good("Read")?.data)
    }
}

fn conflicts<T: std::fmt::Debug>(found: Result<T, Error>, what: &str) {
    match found {
        Err(Error::Command { status, .. }) => assert_eq!(status.number(), CONFLICT, "{what}: {status}"),
        other => panic!("{what}: {other:?}"),
    }
}

#[test]
fn a_host_is_kept_from_what_is_anothers() {
    let world = World::with_volume();
    for host in [ANN, BOB] {
        world.amita_done(&["host", "add", host]);
    }
    let hers = subsystem(&world, "hers", &[ANN]);
    let both = subsystem(&world, "both", &[ANN, BOB]);
    let (ann, bob) = (Host::named(ANN), Host::named(BOB));
    let bystander = Bystander::start(&world, 2);
    let nvme = |node: usize| world.cluster.nodes()[node].nvme;
    let block = stamped(0, 7);
    let mut disk = Disk::open(nvme(0), &hers, &ann);
    disk.write(0, &block).expect("it is hers");

    // What is hers is not there for him, under his name or with her identifier, at any gateway.
    let disguised = Host {
        nqn: BOB.to_owned(),
        id: ann.id,
    };
    for node in 0..3 {
        for host in [&bob, &disguised] {
            assert!(
                Disk::connect(nvme(node), &hers, host).is_err(),
                "he is let in at gateway {node}"
            );
        }
    }

    // What both may use: while she reserves it he neither reads nor writes nor takes it over.
    let mut hers_of_both = Disk::open(nvme(0), &both, &ann);
    let mut his = Disk::open(nvme(1), &both, &bob);
    hers_of_both.write(1, &block).expect("written");
    let register = commands::reservation_register(1, 0, false, 0, 0, HERS);
    hers_of_both
        .queue
        .call(&register)
        .and_then(|done| done.good("Register"))
        .expect("registered");
    let acquire = commands::reservation_acquire(1, 0, EXCLUSIVE, HERS, 0);
    hers_of_both
        .queue
        .call(&acquire)
        .and_then(|done| done.good("Acquire"))
        .expect("reserved");
    conflicts(his.read(1), "he reads");
    conflicts(his.write(1, &stamped(1, 1)), "he writes");
    let attempts = [
        (
            "preempts without being registered",
            commands::reservation_acquire(1, 1, EXCLUSIVE, HIS, HERS),
        ),
        (
            "preempts with her key",
            commands::reservation_acquire(1, 1, EXCLUSIVE, HERS, HERS),
        ),
        (
            "releases with her key",
            commands::reservation_release(1, 0, EXCLUSIVE, HERS),
        ),
        (
            "clears with her key",
            commands::reservation_release(1, 1, EXCLUSIVE, HERS),
        ),
    ];
    for (what, request) in attempts {
        conflicts(his.queue.call(&request).and_then(|done| done.good("it")), what);
    }
    // Nor as her: while she is there, and when she has gone, her identifier is hers.
    let is_refused = |node: usize| {
        let taken = Disk::connect(nvme(node), &both, &disguised).and_then(|mut disk| {
            let register = commands::reservation_register(1, 0, true, 0, 0, HIS);
            disk.queue.call(&register)?.good("Register")?;
            disk.read(1)
        });
        taken.is_err()
    };
    assert!((0..3).all(is_refused), "he has passed for her");
    drop(hers_of_both);
    assert!((0..3).all(is_refused), "he has passed for her while she is away");
    conflicts(his.read(1), "he reads while she is away");

    let mut again = Disk::open(nvme(2), &both, &ann);
    assert!(again.read(1).expect("it is reserved for her") == block);
    assert!(disk.read(0).expect("it is hers") == block);
    bystander.unharmed(&world, 0);
    eventually("it is told of", || {
        let log = std::fs::read_to_string(world.cluster.node_log(0)).expect("a log");
        log.contains("the connection of a host at")
    });
    world.end(&["the connection of a host at"]);
}
