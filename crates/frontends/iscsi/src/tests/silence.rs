//! What comes behind a silence: its host may have gone before.

use super::functions::{function, response};
use super::*;
use crate::negotiation::Wishes;

pub(super) const SILENCE_MS: u64 = 1500;
const PATIENCE_MS: u64 = 3000;

pub(super) fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

/// The tag of the question that was put, and nothing else was sent.
pub(super) fn question(host: &mut Host) -> u32 {
    let asked = host.one().header;
    assert_eq!((asked.opcode(), asked.task_tag()), (opcode::NOP_IN, NO_TAG));
    assert_ne!(asked.target_tag(), NO_TAG);
    asked.target_tag()
}

/// The answer to it.
pub(super) fn answer(host: &Host, question: u32) -> Vec<u8> {
    let header = Header::new(0x40 | opcode::NOP_OUT, 0x80)
        .with_task_tag(NO_TAG)
        .with_target_tag(question)
        .with_u32(24, host.cmd_sn);
    pdu(header, &[], host.digests)
}

/// A host that was not heard for so long.
fn silent_for(time: u64, keys: &[(&str, &str)], config: Config) -> (World, Host) {
    let mut world = World::with(config);
    let host = Host::session_of(&mut world, 1, keys);
    world.pass(ms(time));
    (world, host)
}

fn silent() -> (World, Host) {
    silent_for(SILENCE_MS, &[], Config::default())
}

pub(super) fn block(world: &World, number: u64) -> Vec<u8> {
    world.volumes.read(world.volume(1), number * 4096, 4096)
}

pub(super) const NOTHING: [u8; 4096] = [0; 4096];

/// Data may come unasked behind its command.
fn unasked() -> Config {
    Config {
        wishes: Wishes {
            initial_r2t: false,
            ..Wishes::default()
        },
        ..Config::default()
    }
}

#[test]
fn waits_until_the_host_has_answered() {
    let (mut world, mut host) = silent_for(SILENCE_MS - 1, &[], Config::default());
    let data = pattern(1, 4096);
    let tag = host.give(&mut world, write(1, 0, 1), &data);
    assert_eq!(host.one().header.task_tag(), tag, "it was heard a moment ago");
    let (mut world, mut host) = silent();
    let tag = host.give(&mut world, write(1, 0, 1), &data);
    let asked = question(&mut host);
    assert_eq!(block(&world, 0), NOTHING);
    world.pass(ms(900));
    host.tick(&mut world);
    assert_eq!((host.pdus(), block(&world, 0)), (vec![], NOTHING.to_vec()));
    let bytes = answer(&host, asked);
    host.send(&mut world, &bytes);
    let done = host.one();
    assert_eq!((done.header.task_tag(), done.status()), (tag, GOOD));
    assert_eq!(block(&world, 0), data);
    // It is there, and is not asked again.
    world.pass(ms(SILENCE_MS - 1));
    assert_eq!(host.run(&mut world, read(1, 0, 1), &[]).data, data);
}

#[test]
fn comes_to_nothing_when_the_host_does_not_answer() {
    let (mut world, mut host) = silent();
    host.give(&mut world, write(1, 0, 1), &pattern(1, 4096));
    question(&mut host);
    let by = world.now.plus(ms(PATIENCE_MS));
    while host.closed.is_none() {
        world.now = host.front.deadline().expect("a deadline");
        assert!(world.now <= by);
        host.tick(&mut world);
    }
    assert_eq!((host.closed.clone(), world.now), (Some(CloseReason::Timeout), by));
    host.gone(&mut world);
    world.service.run();
    assert_eq!((block(&world, 0), world.board.sessions()), (NOTHING.to_vec(), 0));
}

/// A kernel sends whatever the host had sent before it gave the path up: pings of its own, and answers to older questions.
#[test]
fn is_not_believed_for_other_answers() {
    let (mut world, mut host) = silent();
    let ping = Header::new(0x40 | opcode::NOP_OUT, 0x80).with_target_tag(NO_TAG);
    let mut bytes = Vec::new();
    for header in [ping, write(1, 0, 1), ping] {
        let header = host.numbered(header);
        let data = pattern(
            1,
            if header.opcode() == opcode::SCSI_COMMAND {
                4096
            } else {
                0
            },
        );
        bytes.extend(pdu(header, &data, host.digests));
    }
    host.send(&mut world, &bytes);
    let said = host.pdus();
    let questions: Vec<u32> = said.iter().map(|pdu| pdu.header.target_tag()).collect();
    assert_eq!(
        said.len(),
        3,
        "two pings are answered, and one question is put: {said:?}"
    );
    let asked = *questions.iter().find(|tag| **tag != NO_TAG).expect("a question");
    for tag in [asked.wrapping_sub(1), asked + 1, NO_TAG, 0] {
        let bytes = answer(&host, tag);
        host.send(&mut world, &bytes);
        assert_eq!((host.pdus(), block(&world, 0)), (vec![], NOTHING.to_vec()), "{tag}");
    }
    let bytes = answer(&host, asked);
    host.send(&mut world, &bytes);
    assert_eq!(host.one().status(), GOOD);
}

#[test]
fn is_not_believed_for_an_answer_that_was_held_up() {
    let (mut world, mut host) = silent();
    host.give(&mut world, write(1, 0, 1), &pattern(1, 4096));
    let mut asked = question(&mut host);
    for _ in 0..2 {
        world.pass(ms(1000));
        let late = answer(&host, asked);
        host.send(&mut world, &late);
        asked = question(&mut host);
        assert_eq!(block(&world, 0), NOTHING);
    }
    let bytes = answer(&host, asked);
    host.send(&mut world, &bytes);
    assert_eq!(host.one().status(), GOOD);
    // An idle host was asked as well, and its answer comes with what it has sent since.
    for (after, waits) in [(999, false), (1000, true)] {
        while host.output.is_empty() {
            world.now = host.front.deadline().expect("a deadline");
            host.tick(&mut world);
        }
        let asked = question(&mut host);
        let mut bytes = answer(&host, asked);
        world.pass(ms(after));
        let header = host.numbered(read(1, 0, 1));
        bytes.extend(pdu(header, &[], host.digests));
        host.send(&mut world, &bytes);
        let said = host.pdus();
        assert_eq!(said.iter().any(|pdu| pdu.kind() == opcode::NOP_IN), waits, "{said:?}");
        let Some(asked) = said.first().filter(|_| waits) else {
            continue;
        };
        let bytes = answer(&host, asked.header.target_tag());
        host.send(&mut world, &bytes);
        assert_eq!(host.one().header.task_tag(), header.task_tag());
    }
}

#[test]
fn waits_also_when_it_is_data_of_a_command_from_before() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    let tag = host.give(&mut world, write(1, 0, 1), &[]);
    let asked_for = host.one().header.target_tag();
    // Nobody looks meanwhile: the data is what is seen first.
    world.pass(ms(2900));
    let data = pattern(1, 4096);
    let bytes = host.data_out(tag, asked_for, 0, 0, &data, true);
    host.send(&mut world, &bytes);
    let asked = question(&mut host);
    assert_eq!(block(&world, 0), NOTHING);
    let bytes = answer(&host, asked);
    host.send(&mut world, &bytes);
    assert_eq!((host.one().status(), block(&world, 0)), (GOOD, data));
    // Its session ends when that does not come, with the command; what comes behind a silence does not keep it.
    let tag = host.give(&mut world, write(1, 0, 1), &[]);
    let asked_for = host.one().header.target_tag();
    let last = world.now.plus(ms(PATIENCE_MS + 250));
    world.pass(ms(2900));
    let bytes = host.data_out(tag, asked_for, 0, 0, &NOTHING, true);
    host.send(&mut world, &bytes);
    while host.closed.is_none() {
        world.now = host.front.deadline().expect("a deadline");
        host.tick(&mut world);
    }
    assert!(world.now <= last);
}

/// All in one read, as it came: it is taken in its order, and the window does not grow meanwhile.
#[test]
fn keeps_its_order() {
    let keys = [("InitialR2T", "No"), ("FirstBurstLength", "8192")];
    let (mut world, mut host) = silent_for(SILENCE_MS, &keys, unasked());
    let mut bytes = Vec::new();
    let mut tags = Vec::new();
    let immediate = |mut header: Header| {
        header.0[0] |= 0x40;
        header
    };
    let first = host.cmd_sn;
    let unasked = command(1, 0x20, 8192, cdb10(WRITE, 0, 2));
    let steps = [
        (write(1, 0, 1), 1),
        (unasked, 2),
        (immediate(command(1, 0x80, 0, TEST_UNIT_READY)), 0),
        (write(1, 0, 1), 3),
        (read(1, 0, 2), 0),
    ];
    for (header, data) in steps {
        let header = host.numbered(header);
        let here = if data == 0 { 0 } else { 4096 };
        bytes.extend(pdu(header, &pattern(data, here), host.digests));
        if data == 2 {
            bytes.extend(host.data_out(header.task_tag(), NO_TAG, 0, 4096, &pattern(9, 4096), true));
        }
        tags.push(header.task_tag());
    }
    host.send(&mut world, &bytes);
    let window = host.max_cmd_sn;
    let asked = question(&mut host);
    assert_eq!(
        host.max_cmd_sn,
        window.max(first + u32::from(Config::default().commands) - 1)
    );
    let bytes = answer(&host, asked);
    host.send(&mut world, &bytes);
    let said = host.pdus();
    let mut ended: Vec<u32> = said.iter().map(|pdu| pdu.header.task_tag()).collect();
    ended.sort_unstable();
    assert_eq!(ended, tags);
    let read = said.iter().find(|pdu| pdu.kind() == opcode::DATA_IN).expect("data");
    assert!(read.data == [pattern(3, 4096), pattern(9, 4096)].concat());
    assert_eq!(host.max_cmd_sn, first + 3 + u32::from(Config::default().commands));
}

#[test]
fn waits_also_when_it_resets() {
    let (mut world, mut host) = silent();
    let mut other = Host::session_of(&mut world, 2, &[]);
    world.runs = false;
    let tag = other.give(&mut world, write(1, 0, 1), &pattern(1, 4096));
    host.give(&mut world, function(5, 1, 0, 0), &[]);
    let asked = question(&mut host);
    world.runs = true;
    other.settle(&mut world);
    let done = other.one();
    assert_eq!(
        (done.header.task_tag(), done.status()),
        (tag, GOOD),
        "nobody has reset it"
    );
    let bytes = answer(&host, asked);
    host.send(&mut world, &bytes);
    for _ in 0..3 {
        other.settle(&mut world);
        host.settle(&mut world);
    }
    assert_eq!(response(&host.one()), 0);
}

/// Linux answers no question any more when it has sent a logout; NOPs and texts change nothing.
#[test]
fn is_taken_at_once_where_it_does_no_harm() {
    let (mut world, mut host) = silent();
    let ping = Header::new(opcode::NOP_OUT, 0x80).with_target_tag(NO_TAG);
    let text = Header::new(opcode::TEXT, 0x80).with_target_tag(NO_TAG);
    for (header, data, kind) in [
        (ping, &b""[..], opcode::NOP_IN),
        (text, b"SendTargets=\0", opcode::TEXT_RESPONSE),
    ] {
        let tag = host.give(&mut world, header, data);
        let said = host.one();
        assert_eq!((said.kind(), said.header.task_tag()), (kind, tag));
    }
    // It is not forgotten by that.
    host.give(&mut world, write(1, 0, 1), &pattern(1, 4096));
    question(&mut host);
    let bye = Header::new(0x40 | opcode::LOGOUT, 0x80).with_u16(20, 1);
    host.give(&mut world, bye, &[]);
    assert_eq!(host.one().kind(), opcode::LOGOUT_RESPONSE);
    assert_eq!(
        (host.closed.clone(), block(&world, 0)),
        (Some(CloseReason::Goodbye), NOTHING.to_vec())
    );
    let (mut world, mut host) = silent();
    host.give(&mut world, bye, &[]);
    assert_eq!(host.one().kind(), opcode::LOGOUT_RESPONSE, "and nothing is asked");
}

/// Whatever the host sends before it hears the question is read, and there is room for as much as else.
#[test]
fn is_bounded() {
    let config = Config {
        write_bytes: 256 << 10,
        gather_bytes: 128 << 10,
        commands: 16,
        ..unasked()
    };
    let keys = [("InitialR2T", "No"), ("FirstBurstLength", "65536")];
    let (mut world, mut host) = silent_for(SILENCE_MS, &keys, config.clone());
    let length = 64 << 10;
    let mut bytes = Vec::new();
    let mut tags = Vec::new();
    for number in 0..8 {
        let header = host.numbered(command(1, 0x20, length, cdb10(WRITE, number * 16, 16)));
        let data = pattern(u64::from(number), length as usize);
        bytes.extend(pdu(header, &data[..4096], host.digests));
        bytes.extend(host.data_out(header.task_tag(), NO_TAG, 0, 4096, &data[4096..], true));
        tags.push(header.task_tag());
    }
    host.send(&mut world, &bytes);
    let said = host.pdus();
    let busy: Vec<(u32, u8)> = said[1..]
        .iter()
        .map(|pdu| (pdu.header.task_tag(), pdu.status().0))
        .collect();
    let expected: Vec<(u32, u8)> = tags[4..].iter().map(|tag| (*tag, 0x08)).collect();
    assert_eq!((said[0].kind(), busy), (opcode::NOP_IN, expected));
    let bytes = answer(&host, said[0].header.target_tag());
    host.send(&mut world, &bytes);
    let said = host.pdus();
    let ended: Vec<(u32, u8)> = said.iter().map(|pdu| (pdu.header.task_tag(), pdu.status().0)).collect();
    let expected: Vec<(u32, u8)> = tags[..4].iter().map(|tag| (*tag, 0)).collect();
    assert_eq!(ended, expected);
    assert!(block(&world, 63) == pattern(3, 65_536)[61_440..]);
    assert!(block(&world, 64) == NOTHING);
    // The window is as wide as before.
    host.give(&mut world, command(1, 0x80, 0, TEST_UNIT_READY), &[]);
    assert_eq!(host.one().status(), GOOD);
    assert_eq!(host.max_cmd_sn, host.cmd_sn + 15);

    // Who sends data without end that was not announced has broken the protocol.
    let (mut world, mut host) = silent_for(SILENCE_MS, &keys, config);
    let header = host.numbered(command(1, 0x20, length, cdb10(WRITE, 0, 16)));
    host.send(&mut world, &pdu(header, &[], host.digests));
    question(&mut host);
    let more = host.data_out(header.task_tag(), NO_TAG, 0, 0, &pattern(1, 8192), false);
    let mut sent = 0;
    while host.closed.is_none() && sent < 4 << 20 {
        host.send(&mut world, &more);
        sent += 8192;
    }
    assert!(
        matches!(host.closed, Some(CloseReason::Protocol(_))),
        "{:?}",
        host.closed
    );
    assert!(sent < 2 << 20, "{sent} bytes");
}

/// It may be silent for hours, or send pings: that ends nothing, and its next command takes a round trip more.
#[test]
fn of_a_host_with_nothing_to_do_ends_nothing() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    let ping = Header::new(0x40 | opcode::NOP_OUT, 0x80).with_target_tag(NO_TAG);
    for _ in 0..50 {
        world.pass(ms(5000));
        host.tick(&mut world);
        host.give(&mut world, ping, &[]);
        assert_eq!(host.one().header.target_tag(), NO_TAG, "nothing is asked");
    }
    host.give(&mut world, read(1, 0, 1), &[]);
    let asked = question(&mut host);
    let bytes = answer(&host, asked);
    host.send(&mut world, &bytes);
    assert_eq!(host.one().kind(), opcode::DATA_IN);
    assert_eq!(host.closed, None);
}

/// Who is there to discover changes nothing.
#[test]
fn of_who_discovers_is_believed() {
    let mut world = World::new();
    let mut host = super::discovery::discovery(&mut world, INITIATOR, &[]);
    world.pass(ms(PATIENCE_MS));
    let (found, _) = super::discovery::targets(&mut world, &mut host, "All");
    assert!(!found.is_empty());
}
