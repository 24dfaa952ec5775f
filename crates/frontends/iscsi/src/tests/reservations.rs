//! What a gateway has heard of reservations, and what their owner says: a word of it may be long on its way.

use super::copies::copy;
use super::functions::{function, response};
use super::*;
use amita_types::io::{IoError, Op};

const CONFLICT: u8 = 0x18;
/// ASYMMETRIC ACCESS STATE TRANSITION: the host tries again.
const NOT_NOW: (u8, [u8; 3]) = (2, [2, 0x04, 0x0a]);
const RESERVE: u8 = 1;
const REGISTER_AND_IGNORE: u8 = 6;

/// PERSISTENT RESERVE OUT at logical unit 1, for exclusive access of registrants.
fn reserve_out(host: &mut Host, world: &mut World, action: u8, keys: (u8, u8)) {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1], cdb[2], cdb[8]) = (0x5f, action, 6, 24);
    let mut list = [0; 24];
    (list[7], list[15]) = keys;
    assert_eq!(host.run(world, command(1, 0xa0, 24, cdb), &list).told(), GOOD);
}

fn register(host: &mut Host, world: &mut World, key: u8) {
    reserve_out(host, world, REGISTER_AND_IGNORE, (0, key));
}

/// A gateway, one session that has reserved logical unit 1, of which the gateway has heard, and another session.
fn reserved() -> (World, Host, Host) {
    let mut world = World::new();
    let mut holder = Host::session_of(&mut world, 1, &[]);
    let mut other = Host::session_of(&mut world, 2, &[]);
    register(&mut holder, &mut world, 7);
    reserve_out(&mut holder, &mut world, RESERVE, (7, 0));
    let mut catalog = Catalog::clone(&world.port.catalog());
    let scsi = Arc::make_mut(&mut catalog.scsi);
    scsi.revision += 1;
    scsi.reservations = world.service.reservations().into_iter().collect();
    world.set(catalog);
    for host in [&mut holder, &mut other] {
        world.service.events.push_back((host.id, Event::Settings));
        host.settle(&mut world);
    }
    (world, holder, other)
}

fn mode_sense() -> Header {
    let mut cdb = [0; 16];
    (cdb[0], cdb[2], cdb[4]) = (0x1a, 0x3f, 252);
    command(1, 0xc0, 252, cdb)
}

/// Commands that do no I/O, or other I/O than that of the logical unit to which they are sent: MODE SENSE, GET LBA STATUS, MODE SELECT, and EXTENDED COPY
/// from there.
fn commands(host: &mut Host, world: &mut World) -> Vec<(Header, Vec<u8>)> {
    let (mut blocks, mut select) = ([0; 16], [0; 16]);
    (blocks[0], blocks[1], blocks[13]) = (0x9e, 0x12, 24);
    (select[0], select[1], select[8]) = (0x55, 0x10, 8);
    vec![
        (mode_sense(), Vec::new()),
        (command(1, 0xc0, 24, blocks), Vec::new()),
        (command(1, 0xa0, 8, select), vec![0; 8]),
        copy(host, world, &[(1, 0, 1, 3, 4)]),
    ]
}

#[test]
fn who_has_registered_is_served_by_a_gateway_that_has_not_heard_of_it() {
    let (mut world, mut holder, mut other) = reserved();
    let data = pattern(5, 4096);
    assert_eq!(holder.run(&mut world, write(1, 3, 1), &data).told(), GOOD);
    let expected: Vec<Outcome> = commands(&mut holder, &mut world)
        .into_iter()
        .map(|(header, list)| holder.run(&mut world, header, &list))
        .collect();
    assert!(expected.iter().all(|outcome| outcome.told() == GOOD));
    assert!(world.volumes.read(world.volume(0), 4 * 4096, 4096) == data);
    let around = pattern(6, 4096);
    assert_eq!(holder.run(&mut world, write(0, 32, 8), &around).told(), GOOD);
    for (header, list) in commands(&mut other, &mut world) {
        let outcome = other.run(&mut world, header, &list);
        assert_eq!((outcome.status, outcome.data), (CONFLICT, Vec::new()));
    }
    assert!(world.volumes.read(world.volume(0), 4 * 4096, 4096) == around);
    register(&mut other, &mut world, 8);
    // The session that has registered, and one in its place, which is the same nexus.
    for _ in 0..2 {
        for ((header, list), expected) in commands(&mut other, &mut world).into_iter().zip(&expected) {
            assert_eq!(other.run(&mut world, header, &list), *expected);
        }
        other.close(&mut world);
        other = Host::session_of(&mut world, 2, &[]);
    }
    assert!(world.volumes.read(world.volume(0), 4 * 4096, 4096) == data);
}

#[test]
fn an_owner_is_asked_by_io_that_moves_nothing() {
    let (mut world, _, mut other) = reserved();
    let asks = [
        Op::Allocation { offset: 0 },
        Op::Allocation { offset: 0 },
        Op::Clear { offset: 0, length: 0 },
        Op::Clear { offset: 0, length: 0 },
    ];
    for ((header, list), ask) in commands(&mut other, &mut world).into_iter().zip(asks) {
        world.runs = false;
        other.give(&mut world, header, &list);
        let queue: Vec<Op> = world.service.queue.iter().map(|piece| piece.op).collect();
        assert_eq!(queue, [ask]);
        assert!(
            world
                .service
                .queue
                .iter()
                .all(|piece| piece.source().volume == world.volume(1))
        );
        world.runs = true;
        world.service.fault = Some((0, IoError::Unavailable));
        other.settle(&mut world);
        world.service.fault = None;
        assert_eq!(other.one().status(), NOT_NOW, "nobody knows whether it is refused");
    }
}

#[test]
fn what_an_owner_is_asked_about_can_be_aborted() {
    let (mut world, _, mut other) = reserved();
    register(&mut other, &mut world, 8);
    world.runs = false;
    let tag = other.give(&mut world, mode_sense(), &[]);
    other.give(&mut world, function(1, 1, tag, 0), &[]);
    assert_eq!(other.pdus(), [], "its owner has not answered");
    world.runs = true;
    other.settle(&mut world);
    assert_eq!(response(&other.one()), 0, "and nobody hears of the task");
    assert_eq!(other.run(&mut world, mode_sense(), &[]).told(), GOOD);
}
