//! The Connect command, and controllers that come and go.

use super::*;
use crate::MAX_CONTROLLERS;

fn try_connect(world: &mut World, command: Sqe, data: &[u8]) -> (Host, (u8, u8), u32) {
    let mut host = Host::greeted(world, 0, 0, 1);
    host.command_with(world, command, data);
    let answer = host.one();
    (host, answer.status(), answer.result())
}

/// The place of the wrong parameter, in the data.
const IN_DATA: u32 = 1 << 16;

#[test]
fn an_admin_queue_connects() {
    let mut world = World::new();
    let (_, status, result) = try_connect(
        &mut world,
        connect_command(0, 32, 0),
        &connect_data(NQN, HOST, 1, 0xffff),
    );
    assert_eq!(status, (0, 0));
    assert_eq!(result & 0xffff, 3 << 6, "the node's number and a slot");
    let (_, status, second) = try_connect(
        &mut world,
        connect_command(0, 32, 0),
        &connect_data(NQN, HOST, 1, 0xffff),
    );
    assert_eq!((status, second), ((0, 0), result + 1));
    for name in [DISCOVERY, "nqn.2026-01.test:discovery"] {
        let data = connect_data(name, "nqn.2026-01.test:anybody", 9, 0xffff);
        assert_eq!(try_connect(&mut world, connect_command(0, 32, 0), &data).1, (0, 0));
    }
}

#[test]
fn what_may_not_connect() {
    let mut world = World::new();
    let good = connect_data(NQN, HOST, 1, 0xffff);
    let admin = connect_command(0, 32, 0);
    let mut format = admin;
    format.0[40] = 1;
    let mut size = admin;
    size.0[44..46].fill(0);
    let mut large = admin;
    large.0[44..46].copy_from_slice(&1024u16.to_le_bytes());
    let unnamed = connect_data("", HOST, 1, 0xffff);
    let unended = {
        let mut data = good.clone();
        data[256..512].fill(b'n');
        data
    };
    let cases = [
        ("format", format, good.clone(), (1, 0x80), 0),
        ("size 0", size, good.clone(), (1, 0x82), 44),
        ("size", large, good.clone(), (1, 0x82), 44),
        ("static", admin, connect_data(NQN, HOST, 1, 5), (1, 0x82), IN_DATA | 16),
        (
            "subsystem",
            admin,
            connect_data("nqn.2026-01.test:b", HOST, 1, 0xffff),
            (1, 0x82),
            IN_DATA | 256,
        ),
        ("no subsystem", admin, unnamed, (1, 0x82), IN_DATA | 256),
        ("no end", admin, unended, (1, 0x82), IN_DATA | 256),
        (
            "host",
            admin,
            connect_data(NQN, "nqn.2026-01.test:x", 1, 0xffff),
            (1, 0x84),
            IN_DATA | 512,
        ),
        (
            "no host",
            admin,
            connect_data(NQN, "", 1, 0xffff),
            (1, 0x82),
            IN_DATA | 512,
        ),
        ("no id", admin, connect_data(NQN, HOST, 0, 0xffff), (1, 0x82), IN_DATA),
        (
            "queue",
            connect_command(1, 32, 0),
            connect_data(NQN, HOST, 1, 5),
            (1, 0x82),
            IN_DATA | 16,
        ),
        (
            "discovery queue",
            connect_command(1, 32, 0),
            connect_data(DISCOVERY, HOST, 1, 5),
            (1, 0x82),
            42,
        ),
    ];
    for (what, command, data, status, result) in cases {
        let (host, seen, told) = try_connect(&mut world, command, &data);
        assert_eq!((seen, told), (status, result), "{what}");
        assert!(
            matches!(host.closed, Some(CloseReason::Refused(_))),
            "{what}: {:?}",
            host.closed
        );
    }
    assert_eq!(world.board.controllers(), 0);
}

#[test]
fn nothing_goes_before_connect_and_connect_goes_once() {
    let mut world = World::new();
    let mut host = Host::greeted(&mut world, 0, 0, 1);
    host.command(&mut world, read(1, 1, 0, 1));
    assert_eq!(host.one().status(), (0, 0x0c));
    host.command(&mut world, Sqe::new(0x7f, 2, 4).dword(11, 0x14));
    assert_eq!(host.one().status(), (0, 0x0c));
    let mut admin = Host::admin(&mut world);
    let again = connect_data(NQN, HOST, 1, 0xffff);
    admin.command_with(&mut world, connect_command(0, 32, 0), &again);
    assert_eq!(admin.one().status(), (0, 0x0c));
    assert_eq!(admin.closed, None);
}

#[test]
fn data_of_connect_may_come_by_r2t() {
    let mut world = World::new();
    let mut host = Host::greeted(&mut world, 0, 3, 1);
    let command = connect_command(0, 32, 0).transport(1024);
    let (status, _) = host.run(&mut world, command, &connect_data(NQN, HOST, 1, 0xffff));
    assert_eq!(status, (0, 0));
}

#[test]
fn io_queues_join_an_enabled_controller_of_their_host() {
    let mut world = World::new();
    let mut admin = Host::admin(&mut world);
    let number = admin.controller;
    let good = connect_data(NQN, HOST, 1, number);
    let cases = [
        (
            connect_command(1, 128, 0),
            connect_data(NQN, HOST, 2, number),
            (1, 0x82),
            IN_DATA,
        ),
        (
            connect_command(1, 128, 0),
            connect_data(NQN, HOST, 1, number + 1),
            (1, 0x82),
            IN_DATA | 16,
        ),
        (connect_command(129, 128, 0), good.clone(), (1, 0x82), 42),
        (connect_command(1, 128, 0), good.clone(), (0, 0), u32::from(number)),
        (connect_command(1, 128, 0), good.clone(), (0, 0x0c), 0),
        (connect_command(2, 1024, 0), good.clone(), (0, 0), u32::from(number)),
    ];
    let mut queues = Vec::new();
    for (command, data, status, result) in cases {
        let (host, seen, told) = try_connect(&mut world, command, &data);
        assert_eq!((seen, told), (status, result));
        if status == (0, 0) {
            queues.push(host);
        }
    }
    // The controller is disabled: its queues end, and nobody joins.
    admin.property_set(&mut world, 0x14, 0);
    for host in &mut queues {
        host.settle(&mut world);
        assert!(
            matches!(host.closed, Some(CloseReason::Refused(_))),
            "{:?}",
            host.closed
        );
    }
    assert_eq!(try_connect(&mut world, connect_command(1, 128, 0), &good).1, (0, 0x0c));
    admin.property_set(&mut world, 0x14, 0x0046_0001);
    assert_eq!(try_connect(&mut world, connect_command(1, 128, 0), &good).1, (0, 0));
}

#[test]
fn a_dead_admin_queue_takes_its_io_queues_along() {
    let mut world = World::new();
    let admin = Host::admin(&mut world);
    let mut io = Host::io(&mut world, &admin);
    world.runs = false;
    admin.close(&mut world);
    // Even before the register has told it.
    io.receive(
        &mut world,
        &pdu(kind::COMMAND, 0, &read(1, 1, 0, 1).0, &[], (false, false)),
    );
    assert!(matches!(io.closed, Some(CloseReason::Refused(_))));
    assert!(world.service.queue.is_empty());
    io.close(&mut world);
    assert_eq!(world.board.controllers(), 0);
}

#[test]
fn the_numbers_of_a_subsystem_run_out_and_come_back() {
    let mut world = World::new();
    let from = |world: &mut World, address: usize| {
        world.peer = [127, 0, 0, 1 + address as u8].into();
        Host::admin(world)
    };
    let mut admins: Vec<Host> = (0..MAX_CONTROLLERS).map(|at| from(&mut world, at / 16)).collect();
    let mut numbers: Vec<u16> = admins.iter().map(|host| host.controller).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), MAX_CONTROLLERS);
    let data = connect_data(NQN, HOST, 1, 0xffff);
    assert_eq!(try_connect(&mut world, connect_command(0, 32, 0), &data).1, (1, 0x81));
    let free = admins.pop().unwrap();
    let number = free.controller;
    free.close(&mut world);
    assert_eq!(Host::admin(&mut world).controller, number);
}

#[test]
fn ten_thousand_connections_leave_nothing_behind() {
    let mut world = World::new();
    for _ in 0..10_000 {
        let mut host = Host::greeted(&mut world, 0, 0, 1);
        host.command_with(
            &mut world,
            connect_command(0, 32, 0),
            &connect_data(NQN, HOST, 1, 0xffff),
        );
        assert_eq!(host.one().status(), (0, 0));
        host.close(&mut world);
    }
    assert_eq!(world.board.controllers(), 0);
    assert!(world.service.events.is_empty());
}

#[test]
fn a_host_that_is_removed_is_not_served_any_more() {
    let mut world = World::new();
    let mut admin = Host::admin(&mut world);
    let mut io = Host::io(&mut world, &admin);
    world.change(&mut [&mut admin, &mut io], |subsystem| subsystem.namespaces.truncate(1));
    assert_eq!((&admin.closed, &io.closed), (&None, &None));
    assert_eq!(io.run(&mut world, read(1, 2, 0, 1), &[]).0, (0, 0x0b));
    assert_eq!(io.run(&mut world, read(1, 1, 0, 1), &[]).0, (0, 0));
    world.change(&mut [&mut admin, &mut io], |subsystem| subsystem.hosts.clear());
    assert!(matches!(admin.closed, Some(CloseReason::Refused(_))));
    assert!(matches!(io.closed, Some(CloseReason::Refused(_))));
}

#[test]
fn a_queue_can_be_disconnected() {
    let mut world = World::new();
    let admin = Host::admin(&mut world);
    let mut io = Host::io(&mut world, &admin);
    world.runs = false;
    io.command(&mut world, read(5, 1, 0, 1));
    io.command(&mut world, Sqe::new(0x7f, 6, 8));
    let answers = io.pdus();
    assert_eq!(answers.len(), 2);
    for answer in answers {
        assert_eq!(answer.status(), if answer.id() == 5 { (0, 0x08) } else { (0, 0) });
    }
    assert_eq!(io.closed, Some(CloseReason::Goodbye));
    // Its number is free again.
    Host::io(&mut world, &admin);
}

/// NVM Express Base 2.1, 5.1.25.2.1: fewer queues can be asked for, as long as there has been none; and 6.3: a queue beyond
/// them is an invalid parameter.
#[test]
fn the_number_of_queues_holds() {
    let mut world = World::new();
    let mut admin = Host::admin(&mut world);
    let queues = |count: u32| {
        Sqe::new(9, 5, 0)
            .dword(10, 7)
            .dword(11, (count - 1) << 16 | (count - 1))
    };
    let connect = |world: &mut World, admin: &Host, queue| {
        let mut host = Host::greeted(world, 0, 0, 1);
        let data = connect_data(NQN, HOST, 1, admin.controller);
        host.command_with(world, connect_command(queue, 128, 0), &data);
        let answer = host.one();
        (host, answer.status(), answer.result())
    };
    assert_eq!(admin.run(&mut world, queues(65536), &[]).0, (0, 2));
    admin.command(&mut world, queues(2));
    let answer = admin.one();
    assert_eq!((answer.status(), answer.result()), ((0, 0), 1 << 16 | 1));
    let (_, status, place) = connect(&mut world, &admin, 3);
    assert_eq!((status, place), ((1, 0x82), 42), "byte 42 of the command: the queue");
    let (io, status, _) = connect(&mut world, &admin, 2);
    assert_eq!(status, (0, 0));
    assert_eq!(admin.run(&mut world, queues(8), &[]).0, (0, 0x0c), "there is a queue");
    let (status, _) = admin.run(&mut world, Sqe::new(0x0a, 5, 0).dword(10, 7), &[]);
    assert_eq!(status, (0, 0));
    io.close(&mut world);
    assert_eq!(admin.run(&mut world, queues(8), &[]).0, (0, 0x0c), "there was a queue");
    assert_eq!(connect(&mut world, &admin, 3).1, (1, 0x82));
    // After a reset it is as at the beginning.
    admin.property_set(&mut world, 0x14, 0);
    admin.property_set(&mut world, 0x14, 0x0046_0001);
    assert_eq!(connect(&mut world, &admin, 128).1, (0, 0));
    admin.property_set(&mut world, 0x14, 0);
    admin.property_set(&mut world, 0x14, 0x0046_0001);
    assert_eq!(admin.run(&mut world, queues(3), &[]).0, (0, 0));
    assert_eq!(connect(&mut world, &admin, 3).1, (0, 0));
}

/// Identify 13h: the controllers of the subsystem, of whatever host, in order.
#[test]
fn the_controllers_are_listed() {
    let mut world = World::new();
    let mut first = Host::admin_of(&mut world, 1);
    let second = Host::admin_of(&mut world, 2);
    let list = |world: &mut World, host: &mut Host, cns, nsid| {
        let (status, page) = host.run(world, Sqe::new(6, 5, nsid).dword(10, cns).transport(4096), &[]);
        assert_eq!(status, (0, 0));
        let count = usize::from(u16_at(&page, 0));
        (1..=count).map(|index| u16_at(&page, 2 * index)).collect::<Vec<_>>()
    };
    let mut both = vec![first.controller, second.controller];
    both.sort_unstable();
    assert_eq!(list(&mut world, &mut first, 0x13, 0), both);
    assert_eq!(list(&mut world, &mut first, 0x12, 1), both);
    assert_eq!(list(&mut world, &mut first, 0x12, 77), [0u16; 0]);
    second.close(&mut world);
    assert_eq!(list(&mut world, &mut first, 0x13, 0), [first.controller]);
}
