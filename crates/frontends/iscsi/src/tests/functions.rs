//! Task management.

use super::*;
use std::collections::BTreeSet;

pub(super) fn function(code: u8, lun: u16, meant: u32, ref_cmd_sn: u32) -> Header {
    let mut header = Header::new(0x40 | opcode::TASK_MANAGEMENT, 0x80 | code)
        .with_target_tag(meant)
        .with_u32(32, ref_cmd_sn);
    header.0[8..10].copy_from_slice(&lun.to_be_bytes());
    header
}

pub(super) fn response(pdu: &Pdu) -> u8 {
    assert_eq!(pdu.kind(), opcode::TASK_MANAGEMENT_RESPONSE, "{pdu:?}");
    pdu.header.0[2]
}

/// An aborted write that is under way lands first; and then the answer goes out, and nothing of it happens any more.
#[test]
fn a_task_is_aborted_when_nothing_of_it_can_happen_any_more() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    world.runs = false;
    let data = pattern(1, 4096);
    let tag = host.give(&mut world, write(1, 0, 1), &data);
    assert_eq!(world.service.queue.len(), 1);
    host.give(&mut world, function(1, 1, tag, 0), &[]);
    assert_eq!(host.pdus(), [], "it is under way");
    world.runs = true;
    host.settle(&mut world);
    assert_eq!(response(&host.one()), 0, "and nobody hears of the task");
    world.volumes.fill(world.volume(1), 9);
    host.settle(&mut world);
    assert_eq!(world.volumes.read(world.volume(1), 0, 4096), [9; 4096]);
}

#[test]
fn a_write_that_was_asked_for_is_aborted_at_once() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    let tag = host.give(&mut world, write(1, 0, 1), &[]);
    let r2t = host.one();
    host.give(&mut world, function(1, 1, tag, 0), &[]);
    assert_eq!(response(&host.one()), 0);
    // Data that comes late is of no harm, and does nothing, for a task of the same tag either.
    let late = host.data_out(tag, r2t.header.target_tag(), 0, 0, &pattern(7, 4096), true);
    host.send(&mut world, &late);
    assert_eq!(host.pdus(), []);
    host.next_tag = tag;
    host.give(&mut world, write(1, 0, 1), &[]);
    let again = host.one();
    assert_ne!(again.header.target_tag(), r2t.header.target_tag());
    host.send(&mut world, &late);
    assert_eq!((host.pdus(), host.closed.clone()), (vec![], None));
    let data = pattern(3, 4096);
    let bytes = host.data_out(tag, again.header.target_tag(), 0, 0, &data, true);
    host.send(&mut world, &bytes);
    assert_eq!(host.one().status(), GOOD);
    assert_eq!(world.volumes.read(world.volume(1), 0, 4096), data);
}

#[test]
fn a_part_that_waits_for_another_try_is_not_tried_again() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    world.service.fault = Some((0, amita_types::io::IoError::Busy));
    let tag = host.give(&mut world, write(1, 0, 1), &pattern(1, 4096));
    assert_eq!(host.pdus(), []);
    host.give(&mut world, function(1, 1, tag, 0), &[]);
    assert_eq!(response(&host.one()), 0);
    world.service.fault = None;
    world.pass(Duration::from_secs(1));
    host.tick(&mut world);
    assert_eq!(world.volumes.read(world.volume(1), 0, 4096), [0; 4096]);
}

#[test]
fn tasks_that_are_none() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    host.give(&mut world, function(1, 1, 12_345, host.cmd_sn - 1), &[]);
    assert_eq!(response(&host.one()), 1, "task does not exist");
    world.runs = false;
    let tag = host.give(&mut world, read(1, 0, 1), &[]);
    host.give(&mut world, function(1, 0, tag, 0), &[]);
    assert_eq!(response(&host.one()), 1, "of another logical unit");
    world.runs = true;
    host.settle(&mut world);
    assert_eq!(host.pdus().len(), 1);
}

/// RFC 7143, 11.5.5: a command that was numbered and never sent.
#[test]
fn a_command_that_never_came_is_not_missed() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    let missing = host.cmd_sn;
    host.cmd_sn += 1;
    let behind = host.give(&mut world, command(0, 0x80, 0, TEST_UNIT_READY), &[]);
    assert_eq!(host.pdus(), [], "it waits for its turn");
    host.give(&mut world, function(1, 0, 9999, missing), &[]);
    let pdus = host.pdus();
    let answered: BTreeMap<u32, u8> = pdus.iter().map(|pdu| (pdu.header.task_tag(), pdu.kind())).collect();
    assert_eq!(answered.get(&behind), Some(&opcode::SCSI_RESPONSE));
    assert!(
        pdus.iter()
            .any(|pdu| pdu.kind() == opcode::TASK_MANAGEMENT_RESPONSE && response(pdu) == 0)
    );
}

#[test]
fn a_set_of_tasks_is_aborted() {
    for code in [2, 4] {
        let mut world = World::new();
        let mut host = Host::session(&mut world);
        world.runs = false;
        for lba in 0..5 {
            host.give(&mut world, read(1, lba, 1), &[]);
        }
        let other = host.give(&mut world, read(0, 0, 1), &[]);
        host.give(&mut world, function(code, 1, NO_TAG, 0), &[]);
        assert_eq!(host.pdus(), []);
        world.runs = true;
        host.settle(&mut world);
        let pdus = host.pdus();
        assert_eq!(pdus.len(), 2, "{pdus:?}");
        assert!(pdus.iter().any(|pdu| pdu.header.task_tag() == other));
        assert!(
            pdus.iter()
                .any(|pdu| pdu.kind() == opcode::TASK_MANAGEMENT_RESPONSE && response(pdu) == 0)
        );
        host.give(&mut world, function(code, 9, NO_TAG, 0), &[]);
        assert_eq!(response(&host.one()), 2, "no such logical unit");
    }
}

#[test]
fn a_reset_concerns_all_sessions() {
    let mut world = World::new();
    let mut host = Host::session_of(&mut world, 1, &[]);
    let mut other = Host::session_of(&mut world, 2, &[]);
    world.runs = false;
    let ended = other.give(&mut world, write(1, 0, 1), &pattern(1, 4096));
    let spared = other.give(&mut world, read(0, 0, 1), &[]);
    host.give(&mut world, function(5, 1, NO_TAG, 0), &[]);
    other.settle(&mut world);
    host.settle(&mut world);
    assert_eq!(host.pdus(), [], "a write of the other one is under way");
    world.runs = true;
    other.settle(&mut world);
    host.settle(&mut world);
    assert_eq!(response(&host.one()), 0);
    let pdus = other.pdus();
    assert_eq!(pdus.len(), 2, "{pdus:?}");
    let of = |kind| pdus.iter().find(|pdu| pdu.kind() == kind).expect("an answer");
    assert_eq!(
        of(opcode::DATA_IN).header.task_tag(),
        spared,
        "of the other logical unit"
    );
    // TASK ABORTED: its host repeats it at once.
    let answer = of(opcode::SCSI_RESPONSE);
    assert_eq!((answer.header.task_tag(), answer.status().0), (ended, 0x40));
    // Both hear of it with their next command (SAM-5: unit attention, 29h).
    for host in [&mut host, &mut other] {
        let outcome = host.run(&mut world, command(1, 0x80, 0, TEST_UNIT_READY), &[]);
        assert_eq!((outcome.status, outcome.sense[..2].to_vec()), (2, vec![6, 0x29]));
        assert_eq!(
            host.run(&mut world, command(0, 0x80, 0, TEST_UNIT_READY), &[]).told(),
            GOOD
        );
    }
}

#[test]
fn the_whole_target_is_reset() {
    let mut world = World::new();
    let mut host = Host::session_of(&mut world, 1, &[]);
    let mut other = Host::session_of(&mut world, 2, &[]);
    host.give(&mut world, function(6, 0, NO_TAG, 0), &[]);
    other.settle(&mut world);
    host.settle(&mut world);
    assert_eq!(response(&host.one()), 0);
    assert_eq!((&host.closed, &other.closed), (&None, &None));
    host.give(&mut world, function(7, 0, NO_TAG, 0), &[]);
    other.settle(&mut world);
    host.settle(&mut world);
    let pdus = host.pdus();
    assert_eq!(response(&pdus[0]), 0);
    assert_eq!(pdus[1].kind(), opcode::ASYNC);
    assert!(
        host.closed.is_some() && other.closed.is_some(),
        "a cold reset ends the sessions"
    );
    let mut strict = World::with(Config {
        target_resets: false,
        ..Config::default()
    });
    let mut host = Host::session(&mut strict);
    host.give(&mut strict, function(6, 0, NO_TAG, 0), &[]);
    assert_eq!(response(&host.one()), 6, "not authorized");
}

#[test]
fn who_sees_some_of_a_target_does_not_reset_the_rest() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    world.change(&mut [&mut host], |_, target| {
        let masked = amita_scsi::unit::Access {
            name: INITIATOR.into(),
            mask: Some(vec![1]),
        };
        target.initiators[0] = Arc::new(masked);
    });
    for code in [6, 7] {
        host.give(&mut world, function(code, 0, NO_TAG, 0), &[]);
        assert_eq!(response(&host.one()), 6, "not authorized");
    }
    host.give(&mut world, function(5, 0, NO_TAG, 0), &[]);
    assert_eq!(response(&host.one()), 2, "it does not see that logical unit");
    host.give(&mut world, function(5, 1, NO_TAG, 0), &[]);
    assert_eq!((response(&host.one()), &host.closed), (0, &None));
}

#[test]
fn what_there_is_not() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    for (code, expected) in [(3, 5), (8, 4), (9, 5), (10, 5), (11, 5), (12, 5), (99, 5)] {
        host.give(&mut world, function(code, 1, 1, 0), &[]);
        assert_eq!(response(&host.one()), expected, "function {code}");
    }
    // RFC 7144, where both ends have it.
    let mut host = Host::session_of(&mut world, 5, &[("iSCSIProtocolLevel", "2")]);
    world.runs = false;
    let tag = host.give(&mut world, read(1, 0, 1), &[]);
    for (code, lun, meant, expected) in [
        (9, 1, tag, 7),
        (9, 1, 999, 0),
        (10, 1, 0, 7),
        (10, 0, 0, 0),
        (12, 1, 0, 5),
    ] {
        host.give(&mut world, function(code, lun, meant, 0), &[]);
        assert_eq!(response(&host.one()), expected, "function {code}");
    }
    host.give(&mut world, function(11, 1, 0, 0), &[]);
    world.runs = true;
    host.settle(&mut world);
    assert_eq!(response(&host.one()), 0);
}

#[test]
fn functions_are_few() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    world.runs = false;
    let tag = host.give(&mut world, read(1, 0, 1), &[]);
    // One for each task that there may be.
    for _ in 0..128 + 16 {
        host.give(&mut world, function(1, 1, tag, 0), &[]);
    }
    assert_eq!(host.pdus(), []);
    host.give(&mut world, function(1, 1, tag, 0), &[]);
    assert_eq!((host.one().header.0[2], host.closed.clone()), (6, None));
    world.runs = true;
    host.settle(&mut world);
    assert_eq!(host.pdus().len(), 128 + 16);
}

/// A host whose volume stands still aborts all that it has there, and waits for no answer in between.
#[test]
fn all_tasks_are_aborted_at_once() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    world.runs = false;
    let tags: Vec<u32> = (0..128)
        .map(|lba| host.give(&mut world, read(1, lba, 1), &[]))
        .collect();
    let mut bytes = Vec::new();
    for tag in tags {
        let header = host.numbered(function(1, 1, tag, 0));
        bytes.extend(pdu(header, &[], host.digests));
    }
    host.send(&mut world, &bytes);
    assert_eq!(host.pdus(), []);
    world.runs = true;
    host.settle(&mut world);
    let answers: Vec<u8> = host.pdus().iter().map(response).collect();
    assert_eq!(answers, [0; 128]);
}

/// A reservation that its owner may still make: who aborts the command is answered when that is settled, and a session that takes this one's place
/// begins behind it.
#[test]
fn what_an_owner_is_asked_for_is_waited_for() {
    const REGISTER_AND_IGNORE: u8 = 6;
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    let mut cdb = [0; 16];
    (cdb[0], cdb[1], cdb[8]) = (0x5f, REGISTER_AND_IGNORE, 24);
    let mut list = [0; 24];
    list[15] = 7;
    let register = host.numbered(command(1, 0xa0, 24, cdb));
    let abort = host.numbered(function(1, 1, register.task_tag(), 0));
    let bytes = [pdu(register, &list, host.digests), pdu(abort, &[], host.digests)].concat();
    host.receive(&mut world, &bytes);
    host.end_pass(&mut world);
    host.fetch();
    assert_eq!(host.pdus(), [], "its owner has not answered");
    host.settle(&mut world);
    assert_eq!(response(&host.one()), 0, "and nobody hears of the task");
    let reserved = world.service.reservations();
    assert!(reserved.iter().any(|(_, state)| !state.registrants.is_empty()));
}

/// The next command, with that number.
fn late(host: &mut Host, world: &mut World, header: Header, number: u32) -> u32 {
    let next = std::mem::replace(&mut host.cmd_sn, number);
    let tag = host.give(world, header, &[]);
    host.cmd_sn = next;
    tag
}

/// RFC 7143, 4.2.3.3: what was sent before the function is of the task set, whether its turn has come or not.
#[test]
fn commands_that_wait_for_their_turn_are_reset_too() {
    for code in [2, 4, 5] {
        let mut world = World::new();
        let mut host = Host::session(&mut world);
        let missing = host.cmd_sn;
        host.cmd_sn += 1;
        host.give(&mut world, write(1, 0, 1), &pattern(1, 4096));
        let other = host.give(&mut world, read(0, 0, 1), &[]);
        // Of a logical unit that is not there nothing is ended.
        host.give(&mut world, function(code, 9, NO_TAG, 0), &[]);
        assert_eq!(response(&host.one()), 2);
        host.give(&mut world, function(code, 1, NO_TAG, 0), &[]);
        assert_eq!(response(&host.one()), 0);
        let behind = host.give(&mut world, read(1, 0, 1), &[]);
        let ready = command(0, 0x80, 0, TEST_UNIT_READY);
        let first = late(&mut host, &mut world, ready, missing);
        let answered: BTreeSet<u32> = host.pdus().iter().map(|pdu| pdu.header.task_tag()).collect();
        assert_eq!(answered, BTreeSet::from([first, other, behind]), "function {code}");
        assert_eq!(world.volumes.read(world.volume(1), 0, 4096), [0; 4096]);
    }
}

#[test]
fn commands_behind_a_logout_are_not_begun() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    let missing = host.cmd_sn;
    host.cmd_sn += 1;
    host.give(&mut world, write(1, 0, 1), &pattern(1, 4096));
    late(&mut host, &mut world, Header::new(opcode::LOGOUT, 0x80), missing);
    assert_eq!(host.one().kind(), opcode::LOGOUT_RESPONSE);
    assert_eq!(world.volumes.read(world.volume(1), 0, 4096), [0; 4096]);
}
