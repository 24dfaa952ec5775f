//! What one session may hold, and what becomes of who asks for more.

use super::*;
use crate::negotiation::Wishes;

fn small() -> Config {
    Config {
        read_bytes: 256 << 10,
        write_bytes: 256 << 10,
        gather_bytes: 128 << 10,
        commands: 8,
        ..Config::default()
    }
}

#[test]
fn the_window_is_what_there_is_room_for() {
    let mut world = World::with(small());
    let mut host = Host::session(&mut world);
    world.runs = false;
    assert_eq!(host.max_cmd_sn, host.cmd_sn + 7);
    let first = host.cmd_sn;
    let tags: Vec<u32> = (0..8).map(|lba| host.give(&mut world, read(1, lba, 1), &[])).collect();
    assert_eq!(host.pdus(), [], "nothing is done");
    // One beyond the window is silently ignored (4.2.2.1).
    host.give(&mut world, read(1, 9, 1), &[]);
    world.runs = true;
    host.settle(&mut world);
    let answered: Vec<u32> = host.pdus().iter().map(|pdu| pdu.header.task_tag()).collect();
    assert_eq!(answered, tags);
    assert_eq!(host.max_cmd_sn, first + 15);
    host.cmd_sn -= 1;
    assert_eq!(
        host.run(&mut world, read(1, 0, 1), &[]).told(),
        GOOD,
        "its number is still expected"
    );
}

#[test]
fn numbers_that_came_before_are_ignored() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    host.cmd_sn -= 1;
    host.give(&mut world, command(0, 0x80, 0, TEST_UNIT_READY), &[]);
    assert_eq!(host.pdus(), []);
    assert_eq!(
        host.run(&mut world, command(0, 0x80, 0, TEST_UNIT_READY), &[]).told(),
        GOOD
    );
}

#[test]
fn a_host_that_does_not_fetch_holds_no_more_than_its_limit() {
    let mut world = World::with(small());
    let mut host = Host::session(&mut world);
    host.fetches = false;
    for lba in 0..8 {
        host.give(&mut world, read(1, lba * 16, 200), &[]);
    }
    let held = host.outbox.queued_bytes() + world.service.queue.len() * (128 << 10);
    assert!(held <= 2 * (256 << 10), "{held}");
    host.fetches = true;
    host.settle(&mut world);
    let mut bytes = 0;
    for pdu in host.pdus() {
        bytes += pdu.data.len();
    }
    assert_eq!(bytes, 8 * 200 * 4096);
}

#[test]
fn what_is_asked_for_is_within_the_limit() {
    let mut world = World::with(small());
    let mut host = Host::session_of(&mut world, 1, &[("MaxOutstandingR2T", "8")]);
    let tags: Vec<u32> = (0..4)
        .map(|at| host.give(&mut world, write(1, at * 64, 64), &[]))
        .collect();
    let asked = host.pdus();
    let bytes: u32 = asked.iter().map(|pdu| pdu.header.u32_at(44)).sum();
    assert!((128 << 10..=256 << 10).contains(&bytes), "{bytes}");
    // All of them are carried out, each in its turn.
    let data = pattern(6, 64 * 4096);
    let mut open = asked;
    let mut done = Vec::new();
    while !open.is_empty() {
        let mut answers = Vec::new();
        for pdu in open.drain(..) {
            let header = &pdu.header;
            if pdu.kind() != opcode::R2T {
                assert_eq!(pdu.status(), GOOD);
                done.push(header.task_tag());
                continue;
            }
            let (offset, length) = (header.u32_at(40), header.u32_at(44));
            let piece = &data[offset as usize..(offset + length) as usize];
            answers.extend(host.data_out(header.task_tag(), header.target_tag(), 0, offset, piece, true));
        }
        host.send(&mut world, &answers);
        open = host.pdus();
    }
    done.sort_unstable();
    assert_eq!(done, tags);
}

/// Data that comes with commands waits in the inbox, and that room comes back without further input.
#[test]
fn data_without_room_waits() {
    let mut world = World::with(Config {
        commands: 16,
        ..small()
    });
    let mut host = Host::session(&mut world);
    world.runs = false;
    let data = pattern(2, 16 * 4096);
    let mut bytes = Vec::new();
    for at in 0..16 {
        let header = host.numbered(write(1, at * 16, 16));
        bytes.extend(pdu(header, &data, host.digests));
    }
    let mut taken = host.receive(&mut world, &bytes);
    assert!(taken < bytes.len(), "it stops listening");
    assert!(world.service.queue.len() <= 4, "{}", world.service.queue.len());
    world.runs = true;
    for _ in 0..100 {
        host.settle(&mut world);
        taken += host.receive(&mut world, &bytes[taken..]);
    }
    host.settle(&mut world);
    assert_eq!(taken, bytes.len());
    let pdus = host.pdus();
    assert_eq!(pdus.len(), 16);
    assert!(pdus.iter().all(|pdu| pdu.status() == GOOD));
}

/// A volume that stands still takes the session's room for data that comes with commands. What lies behind such a command is heard all the same: the
/// session went on being cut off, with all its logical units, since its host seemed to be silent.
#[test]
fn a_volume_that_stands_still_keeps_the_session_from_nothing() {
    let mut world = World::with(Config {
        commands: 16,
        ..small()
    });
    let mut host = Host::session(&mut world);
    world.runs = false;
    let data = pattern(2, 16 * 4096);
    let mut bytes = Vec::new();
    for at in 0..8 {
        let header = host.numbered(write(1, at * 16, 16));
        bytes.extend(pdu(header, &data, host.digests));
    }
    let ping = host.numbered(Header::new(0x40 | opcode::NOP_OUT, 0x80).with_target_tag(NO_TAG));
    bytes.extend(pdu(ping, &[], host.digests));
    let taken = host.receive(&mut world, &bytes);
    assert!(taken < bytes.len() && !host.front.wants_input());
    world.now = host.front.deadline().expect("a deadline");
    host.tick(&mut world);
    host.send(&mut world, &bytes[taken..]);
    let pdus = host.pdus();
    assert!(pdus.iter().any(|pdu| pdu.header.task_tag() == ping.task_tag()));
    let full = pdus.iter().filter(|pdu| pdu.kind() == opcode::SCSI_RESPONSE);
    let full: Vec<(u8, [u8; 3])> = full.map(Pdu::status).collect();
    assert_eq!(full, [(0x28, [0; 3]); 4], "TASK SET FULL");
    // When the volume goes on, data is waited for again.
    world.runs = true;
    host.settle(&mut world);
    assert_eq!(host.pdus().len(), 4);
    assert_eq!(host.run_with(&mut world, write(1, 0, 16), &data, 65_536).told(), GOOD);
    assert_eq!(host.closed, None);
}

/// While a command waits for data that comes unasked, one without room does not hold up what is behind it.
#[test]
fn nothing_waits_for_what_lies_behind_it() {
    let mut world = World::with(Config {
        wishes: Wishes {
            initial_r2t: false,
            ..Wishes::default()
        },
        ..small()
    });
    let mut host = Host::session_of(&mut world, 1, &[("InitialR2T", "No"), ("FirstBurstLength", "65536")]);
    let data = pattern(2, 16 * 4096);
    let open: Vec<u32> = (0..6)
        .map(|at| host.give(&mut world, write(1, at * 16, 16).with_byte(1, 0x20 | 1), &[]))
        .collect();
    // For four there is room. The others are told so when their data has come, too.
    let mut answers = Vec::new();
    for tag in &open {
        answers.extend(host.data_out(*tag, NO_TAG, 0, 0, &data, true));
    }
    host.send(&mut world, &answers);
    let told: BTreeMap<u32, u8> = host
        .pdus()
        .iter()
        .map(|pdu| (pdu.header.task_tag(), pdu.status().0))
        .collect();
    assert_eq!(told.len(), 6);
    assert_eq!(told.values().filter(|status| **status == 0).count(), 4);
    assert_eq!(
        told.values().filter(|status| **status == 0x28).count(),
        2,
        "TASK SET FULL"
    );
}

#[test]
fn what_is_needed_as_a_whole_is_bounded() {
    let mut world = World::with(small());
    let mut host = Host::session(&mut world);
    let mut cdb = [0; 16];
    (cdb[0], cdb[13]) = (0x89, 16);
    // COMPARE AND WRITE of 64 KiB takes 128 KiB.
    host.give(&mut world, command(1, 0xa0, 128 << 10, cdb), &[]);
    assert_eq!(host.one().kind(), opcode::R2T);
    host.give(&mut world, command(1, 0xa0, 128 << 10, cdb), &[]);
    assert_eq!(host.one().status().0, 0x28);
}

#[test]
fn immediate_commands_are_few() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    world.runs = false;
    let immediate = read(1, 0, 1).with_byte(0, 0x40 | opcode::SCSI_COMMAND);
    for _ in 0..16 {
        host.give(&mut world, immediate, &[]);
    }
    assert_eq!(host.pdus(), []);
    host.give(&mut world, immediate, &[]);
    let reject = host.one();
    assert_eq!((reject.kind(), reject.header.0[2]), (opcode::REJECT, 6));
    world.runs = true;
    host.settle(&mut world);
    assert_eq!(host.pdus().len(), 16);
}

#[test]
fn a_tag_that_is_in_use_is_refused() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    world.runs = false;
    host.give(&mut world, read(1, 0, 1), &[]);
    host.next_tag -= 1;
    host.give(&mut world, read(1, 1, 1), &[]);
    let reject = host.one();
    assert_eq!(
        (reject.kind(), reject.header.0[2]),
        (opcode::REJECT, 7),
        "task in progress"
    );
    world.runs = true;
    host.settle(&mut world);
    assert_eq!(host.pdus().len(), 1);
}

#[test]
fn the_volume_is_busy_for_a_while() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    world.service.fault = Some((0, amita_types::io::IoError::Busy));
    host.give(&mut world, write(1, 0, 1), &pattern(1, 4096));
    assert_eq!(host.pdus(), []);
    world.service.fault = None;
    world.pass(Duration::from_millis(5));
    host.tick(&mut world);
    assert_eq!(host.one().status(), GOOD);
}
