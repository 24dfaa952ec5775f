//! A namespace goes while commands are under way that wait for the host: it may wait until the volume is somebody else's.

use super::*;
use std::collections::VecDeque;

const INVALID_NAMESPACE: (u8, u8) = (0, 0x0b);

fn remove(world: &mut World, host: &mut Host, nsid: u32) {
    world.change(&mut [host], |subsystem| {
        subsystem.namespaces.retain(|namespace| namespace.nsid != nsid);
    });
}

fn start(config: Config) -> (World, Host) {
    let mut world = World::with(config);
    let admin = Host::admin(&mut world);
    let io = Host::io_with(&mut world, &admin, 1, 0, 100, 0);
    (world, io)
}

/// Answers all R2Ts with bytes of that value; the completions by their command.
fn answer(world: &mut World, host: &mut Host, asked: &[Pdu], value: u8) -> Vec<(u16, (u8, u8))> {
    let mut open: VecDeque<Pdu> = asked.iter().cloned().collect();
    let mut ended = Vec::new();
    while let Some(pdu) = open.pop_front() {
        match pdu.kind {
            kind::R2T => {
                let (id, tag) = (u16_at(&pdu.header, 0), u16_at(&pdu.header, 2));
                let (offset, length) = (u32_at(&pdu.header, 4), u32_at(&pdu.header, 8));
                let data = host.data_pdu(id, tag, offset, &vec![value; length as usize], true);
                host.send(world, &data);
                open.extend(host.pdus());
            }
            kind::RESPONSE => ended.push((pdu.id(), pdu.status())),
            other => panic!("PDU of kind {other}"),
        }
    }
    ended.sort_unstable();
    ended
}

#[test]
fn data_that_a_host_holds_back_is_not_written_any_more() {
    let (mut world, mut host) = start(Config::default());
    host.command(&mut world, write(1, 1, 0, 64));
    host.command(&mut world, write(2, 2, 0, 512));
    host.command(&mut world, write(3, 2, 0, 512).opcode(0x05));
    let asked = host.pdus();
    assert!(asked.len() >= 3 && asked.iter().all(|pdu| pdu.kind == kind::R2T));
    let gone = volume(&world, 2);
    remove(&mut world, &mut host, 2);
    let ended = answer(&mut world, &mut host, &asked, 9);
    assert_eq!(ended, [(1, (0, 0)), (2, INVALID_NAMESPACE), (3, INVALID_NAMESPACE)]);
    assert!(host.closed.is_none());
    assert!(world.volumes.read(volume(&world, 1), 0, 64 * 4096) == [9; 64 * 4096]);
    assert_eq!(world.volumes.allocated_bytes(gone), 0);
}

/// Its volume is in another pool from now on, by another number: it is the same disk to the host, and what is under way is carried out.
#[test]
fn a_namespace_whose_volume_has_moved_takes_nothing_with_it() {
    let (mut world, mut host) = start(Config::default());
    host.command(&mut world, write(1, 2, 0, 64));
    let asked = host.pdus();
    assert!(asked.iter().all(|pdu| pdu.kind == kind::R2T));
    let moved = world.volumes.add("elsewhere", 16 << 20, 1 << 20, false);
    world.change(&mut [&mut host], |subsystem| {
        let found = subsystem.namespaces.iter_mut().find(|namespace| namespace.nsid == 2);
        Arc::make_mut(found.expect("it is there")).volume = moved;
    });
    assert_eq!(answer(&mut world, &mut host, &asked, 9), [(1, (0, 0))]);
    assert_eq!(host.run(&mut world, read(900, 2, 0, 8), &[]).0, (0, 0));
    assert!(host.closed.is_none());
}

/// Another disk has its number: that one is not written.
#[test]
fn another_namespace_of_the_same_number_gets_nothing_of_it() {
    let (mut world, mut host) = start(Config::default());
    host.command(&mut world, write(1, 2, 0, 64));
    let asked = host.pdus();
    let other = world.volumes.add("other", 16 << 20, 1 << 20, false);
    world.change(&mut [&mut host], |subsystem| {
        let found = subsystem.namespaces.iter_mut().find(|namespace| namespace.nsid == 2);
        let found = Arc::make_mut(found.expect("it is there"));
        (found.volume, found.uuid) = (other, [77; 16]);
    });
    assert_eq!(answer(&mut world, &mut host, &asked, 9), [(1, INVALID_NAMESPACE)]);
    assert_eq!(world.volumes.allocated_bytes(other), 0);
}

#[test]
fn what_a_host_does_not_fetch_is_not_read_any_more() {
    let (mut world, mut host) = start(Config::default());
    let gone = volume(&world, 1);
    host.command(&mut world, write(1, 1, 0, 256));
    let asked = host.pdus();
    assert_eq!(answer(&mut world, &mut host, &asked, 1), [(1, (0, 0))]);
    host.fetches = false;
    let count = (world.port.config().read_bytes >> 20) as u16 + 8;
    for id in 1..=count {
        host.command(&mut world, read(id, 1, 0, 256));
    }
    remove(&mut world, &mut host, 1);
    world.volumes.fill(gone, 2);
    host.fetches = true;
    host.settle(&mut world);
    let mut refused = 0;
    let pdus = host.pdus();
    for pdu in &pdus {
        assert!(!pdu.data.contains(&2), "another's data");
        refused += usize::from(pdu.kind == kind::RESPONSE && pdu.status() == INVALID_NAMESPACE);
    }
    assert!(refused >= 8, "{refused} of {count}");
    assert!(host.closed.is_none());
    assert_eq!(host.run(&mut world, read(900, 2, 0, 8), &[]).0, (0, 0));
}

#[test]
fn what_waits_for_room_is_not_begun_any_more() {
    let config = Config {
        write_bytes: 1 << 20,
        ..Config::default()
    };
    let (mut world, mut host) = start(config);
    let gone = volume(&world, 2);
    host.command(&mut world, write(1, 2, 0, 3));
    let asked = host.pdus();
    assert_eq!(answer(&mut world, &mut host, &asked, 7), [(1, (0, 0))]);
    host.command(&mut world, write(1, 1, 0, 256));
    let asked = host.pdus();
    // It is no whole block of the volume's that is to be zeros, so that zeros are written.
    let zeroes = write(2, 2, 0, 3).opcode(0x08);
    host.command(&mut world, zeroes);
    assert!(host.pdus().is_empty(), "there is no room");
    remove(&mut world, &mut host, 2);
    let told = host.one();
    assert_eq!((told.id(), told.status()), (2, INVALID_NAMESPACE));
    assert_eq!(answer(&mut world, &mut host, &asked, 9), [(1, (0, 0))]);
    assert_eq!(world.volumes.read(gone, 0, 1536), [7; 1536]);
}

#[test]
fn what_the_volume_was_too_busy_for_is_not_tried_again() {
    let (mut world, mut host) = start(Config::default());
    let gone = volume(&world, 2);
    world.service.fault = Some((0, amita_types::io::IoError::Busy));
    host.command_with(&mut world, write(1, 2, 0, 8).capsule(4096), &[7; 4096]);
    host.command(&mut world, read(2, 2, 0, 8));
    host.command(&mut world, read(3, 1, 0, 1));
    assert!(host.pdus().is_empty());
    let again = host.front.deadline().expect("a time for another try");
    world.service.fault = None;
    remove(&mut world, &mut host, 2);
    let mut ended: Vec<_> = host.pdus().iter().map(|pdu| (pdu.id(), pdu.status())).collect();
    ended.sort_unstable();
    assert_eq!(ended, [(1, INVALID_NAMESPACE), (2, INVALID_NAMESPACE)]);
    world.now = again;
    host.tick(&mut world);
    let answered: Vec<u16> = host.pdus().iter().map(Pdu::id).collect();
    assert_eq!(answered, [3, 3], "the data and the end of what is left");
    assert_eq!(world.volumes.allocated_bytes(gone), 0);
    assert_eq!(host.run(&mut world, read(4, 1, 0, 1), &[]).0, (0, 0));
}
