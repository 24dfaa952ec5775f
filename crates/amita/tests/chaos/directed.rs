//! Faults one at a time, where what is right is more than that one order explains the answers.

use crate::cycle;
use crate::plan::{Fault, Injection, Plan, Protocol};
use crate::world::{PATIENCE, Shape, World, disks_missing};
use amita_harness::fio::{self, Job};
use amita_harness::nbd::{Client, NbdRequest};
use amita_harness::tool;
use amita_terminal::interrupt;
use std::collections::BTreeMap;
use std::time::Duration;

pub const VOLUME: &str = "v";
pub const BLOCK: usize = 4096;
const NO_SPACE: i32 = 28;

/// How long gateways are frozen: `AMITA_CHAOS_FREEZE_SECONDS`, or 5 s.
fn freeze_length() -> Duration {
    let seconds = std::env::var("AMITA_CHAOS_FREEZE_SECONDS").ok();
    let seconds = seconds.and_then(|text| text.parse().ok()).unwrap_or(5);
    Duration::from_secs(seconds)
}

pub fn open(world: &World, node: usize) -> Client {
    let address = world.cluster.nodes()[node].nbd;
    let opened = interrupt::poll(PATIENCE, Duration::from_millis(20), || {
        Ok(Client::open(address, VOLUME, PATIENCE).ok())
    });
    opened.expect("polled").expect("the volume opens")
}

/// A block that says what it is.
pub fn block(number: u64, round: u64) -> Vec<u8> {
    let word = (number << 32 | round).to_le_bytes();
    word.iter().copied().cycle().take(BLOCK).collect()
}

fn try_read(client: &mut Client, number: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; BLOCK];
    client.read(number * BLOCK as u64, &mut bytes).map(|()| bytes)
}

pub fn read(client: &mut Client, number: u64) -> Vec<u8> {
    try_read(client, number).expect("read")
}

/// An injection every `every`, `count` times.
fn again_and_again(seed: u64, fault: impl Fn(usize) -> Fault, every: Duration, length: Duration, count: usize) -> Plan {
    let injections = (0..count).map(|number| Injection {
        at: Duration::from_millis(500) + every * number as u32,
        fault: fault(number),
        length,
    });
    Plan {
        seed,
        injections: injections.collect(),
        length: Duration::from_secs(1) + every * count as u32,
        protocol: Protocol::Nbd,
    }
}

#[test]
fn a_frozen_gateway_that_wakes_changes_nothing_and_serves_nothing() {
    let mut world = World::start(Shape::default(), 1);
    world.make_volume(VOLUME, "16M");
    let blocks = 32;
    let mut old = open(&world, 0);
    for number in 0..blocks {
        old.write(number * BLOCK as u64, &block(number, 1)).expect("written");
    }
    world.begin(Fault::Freeze(0));
    // What its hosts send now lies in its sockets, unread, when it wakes: writes, and reads of what they had written.
    let mut asked = BTreeMap::new();
    for number in 0..blocks {
        let (offset, data) = (number * BLOCK as u64, block(number, 2));
        let ask = if number % 2 == 0 {
            NbdRequest::Write { offset, data: &data }
        } else {
            NbdRequest::Read {
                offset,
                bytes: BLOCK as u32,
            }
        };
        asked.insert(old.ask(ask).expect("sent"), number);
    }
    let mut new = open(&world, 1);
    for number in 0..blocks {
        assert!(
            read(&mut new, number) == block(number, 1),
            "block {number} after the takeover"
        );
        new.write(number * BLOCK as u64, &block(number, 3)).expect("written");
    }
    std::thread::sleep(freeze_length());
    world.finish(Fault::Freeze(0));
    // It may refuse, or drop the connection; or find itself owner again and do what it was asked, later than round 3:
    // but then it was asked by nobody, since the volume has a host elsewhere.
    while let Ok(answered) = old.answer() {
        let number = asked[&answered.handle];
        if let Ok(data) = answered.result {
            assert_eq!(
                number % 2,
                1,
                "block {number}: a write of before the freeze was carried out"
            );
            assert!(data != block(number, 1), "block {number}: a stale read was answered");
        }
        if old.under_way() == 0 {
            break;
        }
    }
    for number in 0..blocks {
        assert!(
            read(&mut new, number) == block(number, 3),
            "block {number} after it woke"
        );
    }
    new.close();
    // And by itself it serves what is right: once it has a lease again, for which it drops those who came before.
    let (woken, shown) = interrupt::poll(PATIENCE, Duration::from_millis(50), || {
        let mut client = open(&world, 0);
        let shown: Result<Vec<_>, _> = (0..blocks).map(|number| try_read(&mut client, number)).collect();
        Ok(shown.ok().map(|shown| (client, shown)))
    })
    .expect("polled")
    .expect("the woken gateway serves");
    for (number, shown) in (0..).zip(shown) {
        assert!(shown == block(number, 3), "block {number} by the woken gateway");
    }
    woken.close();
    world.end(&[]);
}

/// Hosts with several paths, who repeat at once by another path what one does not answer in time.
fn over_nvme(plan: Plan) -> Plan {
    Plan {
        protocol: Protocol::Nvme,
        ..plan
    }
}

/// A gateway whose cores and lease go on, and whom neither its hosts nor the owner can reach, has what hosts had sent
/// it: they repeat it elsewhere, and go on. When it is reached again it may not carry that out any more. (It is cut off
/// for longer than its hosts wait, 2 s, and its links to the owner last, and for less than it would itself take to miss
/// its hosts.)
#[test]
fn what_a_gateway_held_while_it_was_cut_off_is_not_carried_out_late() {
    let mut world = World::start(Shape::default(), 5);
    // Its peers reach it again before its hosts do, whose word that they have gone TCP sends later and later.
    let injections = (0..6).flat_map(|number| {
        let (at, node) = (Duration::from_millis(500 + 5500 * number as u64), number % 3);
        let injection = |fault, length| Injection {
            at,
            fault,
            length: Duration::from_millis(length),
        };
        [
            injection(Fault::Isolated(node), 2800),
            injection(Fault::HostsHeld(node, true, true), 3900),
        ]
    });
    let plan = Plan {
        seed: 5,
        injections: injections.collect(),
        length: Duration::from_secs(34),
        protocol: Protocol::Nvme,
    };
    cycle::run(&mut world, 1, &plan);
    world.end(&[]);
}

/// The same where one core stands still, and the process's other threads keep its lease.
#[test]
#[ignore = "as long as several others: scripts/soak runs it"]
fn what_a_core_had_read_when_it_stood_still_is_not_carried_out_late() {
    let mut world = World::start(Shape::default(), 6);
    let plan = again_and_again(
        6,
        |number| Fault::CoreStopped(number % 3),
        Duration::from_millis(5000),
        Duration::from_millis(3500),
        3,
    );
    cycle::run(&mut world, 1, &over_nvme(plan));
    assert!(
        world.cores_stopped() > 0,
        "no core stood still: is tracing allowed here?"
    );
    world.end(&[]);
}

#[test]
fn links_cut_in_the_middle_of_frames_cost_no_place_in_sync() {
    let mut world = World::start(Shape::default(), 2);
    let plan = again_and_again(
        2,
        |number| Fault::Cut(number % 3),
        Duration::from_millis(300),
        Duration::ZERO,
        24,
    );
    cycle::run(&mut world, 1, &plan);
    // A link that breaks again and again is dialled again after a pause, at most 1 s; and one that is quiet is not in
    // the middle of a frame.
    let cut = world.links_cut();
    assert!(cut >= 6, "only {cut} links were cut in the middle of a frame");
    assert!(
        world.observer.is_whole().expect("asked"),
        "a store was evicted because links broke"
    );
    world.end(&[]);
}

#[test]
fn fio_verifies_over_lossy_links_while_a_disk_dies() {
    let disks = disks_missing().is_none();
    let mut world = World::start(Shape { disks, etcd: false }, 3);
    world.make_volume(VOLUME, "32M");
    let mut more = fio::verify_options(3);
    more.push("--rate_iops=1500".to_owned());
    let job = Job {
        name: "verify".to_owned(),
        target: fio::nbd(&world.cluster.uri(0, VOLUME)),
        pattern: "randwrite",
        block_bytes: 4096,
        depth: 8,
        offset_bytes: 0,
        size_bytes: 16 << 20,
        run: None,
        more,
        also: Vec::new(),
    };
    let folder = world.folder().to_owned();
    let fio = job.start(&folder).expect("fio starts");
    let lossy = |node| Fault::LossyLinks(node, Duration::from_millis(250));
    world.begin(lossy(1));
    world.begin(lossy(2));
    std::thread::sleep(Duration::from_secs(1));
    // Where no disk can be made to fail, its node dies.
    let fault = if disks { Fault::DiskLost(2) } else { Fault::Kill(2) };
    world.begin(fault);
    fio.finish(PATIENCE).expect("every block is right");
    // Groups that nobody writes to meanwhile need not know of it.
    let groups = world.observer.groups().expect("asked");
    let evicted = groups.iter().filter(|(group, _)| group.in_sync.len() == 2).count();
    assert!(
        evicted > 0,
        "writes went on, and the store of the dead disk is in sync everywhere"
    );
    world.heal(&[2]);
    for node in 0..3 {
        let mut job = job.clone();
        job.target = fio::nbd(&world.cluster.uri(node, VOLUME));
        job.more = fio::verify_options(3);
        job.more.push("--verify_only".to_owned());
        job.run(&folder, PATIENCE).expect("every block is right there too");
    }
    world.end(&["does not serve"]);
}

#[test]
fn a_node_away_for_longer_than_its_lease_returns_with_all_that_it_missed() {
    let mut world = World::start(Shape::default(), 6);
    world.make_volume(VOLUME, "32M");
    let mut client = open(&world, 0);
    // Some of the groups have data, the others none.
    let blocks = 64;
    let place = |number: u64| number * 97 % 8192;
    let write = |client: &mut Client, round| {
        for number in 0..blocks {
            let offset = place(number) * BLOCK as u64;
            client.write(offset, &block(number, round)).expect("written");
        }
    };
    write(&mut client, 1);
    world.begin(Fault::Kill(2));
    write(&mut client, 2);
    let evicted = interrupt::poll(PATIENCE, Duration::from_millis(100), || {
        let groups = world.observer.groups()?;
        Ok(groups.iter().all(|(group, _)| group.in_sync.len() == 2).then_some(()))
    });
    assert!(evicted.expect("polled").is_some(), "a node without a lease is in sync");
    world.heal(&[]);
    write(&mut client, 3);
    assert!(
        world.observer.await_whole(PATIENCE).expect("not interrupted"),
        "not all copies are in sync again: {}",
        world.missing_copies()
    );
    client.close();
    // Only its copy and one other are left.
    world.begin(Fault::Kill(0));
    let mut client = open(&world, 2);
    for number in 0..blocks {
        let mut bytes = vec![0; BLOCK];
        client.read(place(number) * BLOCK as u64, &mut bytes).expect("read");
        assert!(bytes == block(number, 3), "block {number} by the node that returned");
    }
    client.close();
    world.heal(&[]);
    world.end(&[]);
}

#[test]
fn a_full_cluster_refuses_and_keeps_what_it_has() {
    // Stores of 64 MiB, and a volume that is larger than what they hold.
    let mut world = World::sized(Shape::default(), 4, 64 << 20);
    world.make_volume(VOLUME, "96M");
    let mut client = open(&world, 0);
    let piece_blocks = 32u64;
    let piece = |number: u64, round: u64| {
        let blocks = (0..piece_blocks).map(|at| block(number * piece_blocks + at, round));
        blocks.collect::<Vec<_>>().concat()
    };
    let offset = |number: u64| number * piece_blocks * BLOCK as u64;
    let pieces = (96u64 << 20) / (piece_blocks * BLOCK as u64);
    let mut held = 0;
    while held < pieces {
        match client.write(offset(held), &piece(held, 1)) {
            Ok(()) => held += 1,
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(NO_SPACE), "{error}");
                break;
            }
        }
    }
    assert!(held > 100 && held < pieces, "{held} of {pieces} pieces were taken");
    // The power fails while it is full.
    client.close();
    world.begin(Fault::KillAll);
    world.heal(&[]);
    let mut client = open(&world, 1);
    let mut bytes = vec![0; (piece_blocks as usize) * BLOCK];
    for number in 0..held {
        client.read(offset(number), &mut bytes).expect("read");
        assert!(bytes == piece(number, 1), "piece {number} is not what was acknowledged");
    }
    // What is trimmed can be written again.
    for number in 0..held / 2 {
        let (offset, bytes) = (offset(number), bytes.len() as u32);
        client.ask(NbdRequest::Trim { offset, bytes }).expect("sent");
        client.answer().expect("answered").result.expect("trimmed");
    }
    let again = interrupt::poll(PATIENCE, Duration::from_millis(50), || {
        Ok(client.write(offset(held), &piece(held, 2)).is_ok().then_some(()))
    });
    assert!(
        again.expect("polled").is_some(),
        "nothing can be written after trimming"
    );
    for number in 0..held / 4 {
        client.write(offset(number), &piece(number, 2)).expect("written");
    }
    for number in 0..=held {
        client.read(offset(number), &mut bytes).expect("read");
        let expected = match number {
            number if number < held / 4 || number == held => piece(number, 2),
            number if number < held / 2 => vec![0; bytes.len()],
            number => piece(number, 1),
        };
        assert!(bytes == expected, "piece {number} is not what was acknowledged");
    }
    client.close();
    world.end(&[]);
}

#[test]
fn etcd_is_killed_a_node_dies_meanwhile_and_etcd_returns() {
    tool::find("etcd").expect("etcd is installed");
    let mut world = World::start(
        Shape {
            disks: false,
            etcd: true,
        },
        5,
    );
    world.make_volume(VOLUME, "16M");
    let mut client = open(&world, 0);
    client.write(0, &block(0, 1)).expect("written");
    world.begin(Fault::MetadataKilled);
    for round in 2..50 {
        client.write(0, &block(0, round)).expect("written without metadata");
        assert!(read(&mut client, 0) == block(0, round), "read without metadata");
    }
    world.begin(Fault::Kill(2));
    let writer = std::thread::spawn(move || client.write(0, &block(0, 50)).map(|()| client));
    std::thread::sleep(Duration::from_secs(1));
    assert!(
        !writer.is_finished(),
        "a write was answered by two stores while three were in sync"
    );
    world.finish(Fault::MetadataKilled);
    let mut client = writer.join().expect("it ended").expect("the write goes on");
    assert!(read(&mut client, 0) == block(0, 50));
    client.close();
    world.heal(&[]);
    let mut client = open(&world, 2);
    assert!(read(&mut client, 0) == block(0, 50), "by the node that was dead");
    client.close();
    world.end(&[]);
}
