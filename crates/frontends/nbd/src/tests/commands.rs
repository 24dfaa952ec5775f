//! Every command, legal and illegal.

use super::*;
use crate::wire::{Errno, chunk, command_flag as flag};
use amita_types::io::{IoError, Op};

const SIZE: u64 = 16 * MIB;

/// What it is, the command, its flags, offset and length, and the error that it gets.
type Case = (&'static str, u16, u16, u64, u32, Option<Errno>);

#[test]
fn commands_that_are_refused_and_how() {
    let ok = None;
    let (inval, nospc) = (Some(Errno::Inval), Some(Errno::NoSpc));
    use command::{BLOCK_STATUS, CACHE, FLUSH, READ, TRIM, WRITE, WRITE_ZEROES};
    let cases: &[Case] = &[
        ("the last byte", READ, 0, SIZE - 1, 1, ok),
        ("beyond the end", READ, 0, SIZE - 1, 2, inval),
        ("far beyond the end", READ, 0, u64::MAX, 1, inval),
        ("an offset that wraps", READ, 0, u64::MAX - 5, 100, inval),
        ("longer than the maximum", READ, 0, 0, (32 << 20) + 1, inval),
        ("nothing", READ, 0, 0, 0, ok),
        ("nothing at the end", READ, 0, SIZE, 0, ok),
        ("nothing beyond the end", READ, 0, SIZE + 1, 0, inval),
        ("FUA on a read", READ, flag::FUA, 0, 512, ok),
        ("NO_HOLE on a read", READ, flag::NO_HOLE, 0, 512, inval),
        ("REQ_ONE on a read", READ, flag::REQ_ONE, 0, 512, inval),
        ("an unknown flag", READ, 1 << 9, 0, 512, inval),
        ("payload length", READ, 1 << 5, 0, 512, inval),
        ("a write", WRITE, 0, 0, 512, ok),
        ("a durable write", WRITE, flag::FUA, 0, 512, ok),
        ("a write beyond the end", WRITE, 0, SIZE - 511, 512, nospc),
        ("a write of nothing", WRITE, 0, 0, 0, ok),
        ("a write with DF", WRITE, flag::DF, 0, 512, inval),
        ("a write longer than the maximum", WRITE, 0, 0, (32 << 20) + 1, inval),
        ("a flush", FLUSH, 0, 0, 0, ok),
        ("a flush with FUA", FLUSH, flag::FUA, 0, 0, ok),
        ("a flush of a place", FLUSH, 0, 1, 0, inval),
        ("a flush of a length", FLUSH, 0, 0, 1, inval),
        ("a trim", TRIM, 0, 5, 100_000, ok),
        ("a trim of less than a block", TRIM, 0, 5, 10, ok),
        ("a trim of all", TRIM, flag::FUA, 0, SIZE as u32, ok),
        ("a trim beyond the end", TRIM, 0, 1, SIZE as u32, inval),
        ("a trim with NO_HOLE", TRIM, flag::NO_HOLE, 0, 512, inval),
        ("a cache", CACHE, 0, 0, SIZE as u32, ok),
        ("a cache beyond the end", CACHE, 0, 1, SIZE as u32, inval),
        ("a cache with DF", CACHE, flag::DF, 0, 1, inval),
        ("zeroes", WRITE_ZEROES, 0, 5, 100_000, ok),
        (
            "zeroes without holes",
            WRITE_ZEROES,
            flag::NO_HOLE | flag::FUA,
            5,
            100_000,
            ok,
        ),
        ("zeroes beyond the end", WRITE_ZEROES, 0, 1, SIZE as u32, nospc),
        ("fast zeroes", WRITE_ZEROES, flag::FAST_ZERO, 4096, 8192, ok),
        (
            "fast zeroes with an edge",
            WRITE_ZEROES,
            flag::FAST_ZERO,
            4096,
            8191,
            Some(Errno::NotSup),
        ),
        (
            "fast zeroes without holes",
            WRITE_ZEROES,
            flag::FAST_ZERO | flag::NO_HOLE,
            0,
            4096,
            Some(Errno::NotSup),
        ),
        (
            "fast zeroes beyond the end",
            WRITE_ZEROES,
            flag::FAST_ZERO,
            SIZE,
            4096,
            nospc,
        ),
        ("status beyond the end", BLOCK_STATUS, 0, SIZE, 1, inval),
        ("status of nothing", BLOCK_STATUS, 0, 0, 0, inval),
        ("status with DF", BLOCK_STATUS, flag::DF, 0, 512, inval),
        ("resize", 8, 0, 0, 0, inval),
        ("an unknown command", 999, 0, 0, 512, inval),
    ];
    for structured in [false, true] {
        let mut client = Client::started(structured);
        for (number, (what, command, flags, offset, length, errno)) in cases.iter().enumerate() {
            let cookie = 1000 + number as u64;
            client.send(&request(*flags, *command, cookie, *offset, *length));
            if *command == WRITE {
                client.send(&vec![0xaa; *length as usize]);
            }
            assert_eq!(client.closed, None, "{what}");
            let expected = errno.map_or(0, |errno| errno as u32);
            if structured && (*command == READ || errno.is_some()) {
                let chunks = client.chunks();
                let last = chunks.last().unwrap();
                assert_eq!((last.cookie, last.flags), (cookie, chunk::FLAG_DONE), "{what}");
                match errno {
                    Some(_) => {
                        assert_eq!((chunks.len(), last.kind), (1, chunk::ERROR), "{what}");
                        let mut reader = Reader(&last.payload);
                        assert_eq!(reader.u32(), Some(expected), "{what}");
                        let text = reader.u16().unwrap();
                        assert!(
                            text > 0 && usize::from(text) == reader.0.len(),
                            "{what}: an error has a text"
                        );
                    }
                    None => assert!(chunks.iter().all(|chunk| chunk.kind < 3), "{what}"),
                }
            } else {
                assert_eq!(client.simple(), (cookie, expected), "{what}, structured: {structured}");
                let data = if *command == READ && errno.is_none() {
                    *length as usize
                } else {
                    0
                };
                assert_eq!(client.output.len(), data, "{what}");
                client.output.clear();
            }
        }
    }
}

#[test]
fn df_reads() {
    let mut client = Client::started(true);
    client.send(&write(1, 0, &pattern(0, 100_000)));
    client.output.clear();
    for length in [512u32, 65_536, 1 << 20] {
        client.send(&request(flag::DF, command::READ, 9, 100, length));
        let chunks = client.chunks();
        assert_eq!(chunks.len(), 1, "not fragmented");
        assert_eq!(
            (chunks[0].kind, chunks[0].flags),
            (chunk::OFFSET_DATA, chunk::FLAG_DONE)
        );
        assert_eq!(chunks[0].payload[..8], 100u64.to_be_bytes());
        assert_eq!(
            chunks[0].payload[8..],
            client.volumes.read(client.volume, 100, length as usize)
        );
    }
    client.send(&request(flag::DF, command::READ, 9, 0, (1 << 20) + 1));
    assert_eq!(client.structured_read(9, 0, 0), Err(Errno::Overflow as u32));
    // Without structured replies the flag was not offered.
    let mut client = Client::started(false);
    client.send(&request(flag::DF, command::READ, 9, 0, 512));
    assert_eq!(client.simple(), (9, Errno::Inval as u32));
}

#[test]
fn a_read_only_export_is_not_written() {
    for (command, length) in [
        (command::WRITE, 512),
        (command::TRIM, 4096),
        (command::WRITE_ZEROES, 4096),
    ] {
        let mut client = Client::greeted();
        client.volumes.add("ro", MIB, 4096, true);
        client.send(&option(opt::GO, &info("ro", &[])));
        client.output.clear();
        client.send(&request(0, command, 3, 0, length));
        if command == command::WRITE {
            client.send(&[1; 512]);
        }
        assert_eq!(client.simple(), (3, Errno::Perm as u32));
        client.send(&request(0, command::READ, 4, 0, 1));
        assert_eq!(client.simple(), (4, 0), "and the connection goes on");
    }
}

#[test]
fn what_is_written_is_read() {
    let ranges = [
        (0, 1),
        (1, 511),
        (4095, 2),
        (4096, 4096),
        (100, 128 << 10),
        ((1 << 20) - 1, 2),
        (5 << 20, 5 << 20),
        (3, 4096),
    ];
    for structured in [false, true] {
        let mut client = Client::started(structured);
        let mut model = vec![0; SIZE as usize];
        for (number, (offset, length)) in ranges.into_iter().enumerate() {
            let data = pattern(offset + number as u64 * 77, length);
            model[offset as usize..offset as usize + length].copy_from_slice(&data);
            client.send(&write(number as u64, offset, &data));
            assert_eq!(client.simple(), (number as u64, 0));
            for (from, length) in [(offset, length), (offset.saturating_sub(3), length + 5)] {
                client.send(&request(0, command::READ, 99, from, length as u32));
                let expected = &model[from as usize..from as usize + length];
                if structured {
                    assert!(client.structured_read(99, from, length).as_deref() == Ok(expected));
                } else {
                    assert_eq!(client.simple(), (99, 0));
                    assert!(client.take(length) == expected, "{from} {length}");
                }
            }
        }
    }
}

#[test]
fn holes_are_told_as_holes() {
    let mut client = Client::started(true);
    client.send(&write(1, 128 << 10, &[7; 4096]));
    client.output.clear();
    client.send(&request(0, command::READ, 2, 0, 384 << 10));
    let kinds: Vec<_> = client
        .chunks()
        .iter()
        .map(|chunk| (chunk.kind, chunk.flags, chunk.payload.len()))
        .collect();
    let data = (128 << 10) + 8;
    assert_eq!(
        kinds,
        [
            (chunk::OFFSET_HOLE, 0, 12),
            (chunk::OFFSET_DATA, 0, data),
            (chunk::OFFSET_HOLE, chunk::FLAG_DONE, 12)
        ]
    );
}

#[test]
fn errors_of_the_volume_are_told() {
    let cases = [
        (IoError::NoSpace, Errno::NoSpc),
        (IoError::Unavailable, Errno::Io),
        (IoError::Damaged, Errno::Io),
        (IoError::ReadOnly, Errno::Perm),
    ];
    let mib = 1u32 << 20;
    for (error, errno) in cases {
        for structured in [false, true] {
            let mut client = Client::started(structured);
            client.service.fault = Some((MIB + 200_000, error));
            client.send(&write(1, 0, &vec![1; 2 << 20]));
            client.send(&request(0, command::WRITE_ZEROES, 1, 0, 2 * mib));
            client.send(&request(0, command::TRIM, 1, 0, 2 * mib));
            for _ in 0..3 {
                if structured {
                    let header = client.take(20);
                    assert_eq!(header[6..8], chunk::ERROR.to_be_bytes());
                    let length = u32::from_be_bytes(header[16..].try_into().unwrap());
                    let payload = client.take(length as usize);
                    assert_eq!(payload[..4], (errno as u32).to_be_bytes());
                } else {
                    assert_eq!(client.simple(), (1, errno as u32));
                }
            }
            assert!(client.output.is_empty());
            client.send(&request(0, command::READ, 2, MIB, mib));
            if structured {
                assert_eq!(client.structured_read(2, MIB, mib as usize), Err(errno as u32));
                client.send(&request(flag::DF, command::READ, 3, MIB, mib));
                let chunks = client.chunks();
                assert_eq!(
                    (chunks.len(), chunks[0].kind),
                    (1, chunk::ERROR_OFFSET),
                    "an error and no content"
                );
                client.send(&request(0, command::BLOCK_STATUS, 3, 0, mib));
                assert_eq!(client.chunks()[0].kind, chunk::BLOCK_STATUS, "the fault is elsewhere");
            } else {
                assert_eq!(client.simple(), (2, errno as u32), "the verdict comes before the data");
                assert!(client.output.is_empty());
            }
            assert_eq!(client.closed, None, "an error ends a request, not the connection");
            client.send(&request(0, command::READ, 9, 0, 4096));
            assert!(!client.output.is_empty());
        }
    }
}

#[test]
fn an_error_in_the_middle_of_a_long_simple_reply_ends_the_connection() {
    let mut client = Client::started(false);
    client.service.fault = Some((3 * MIB, IoError::Damaged));
    client.send(&request(0, command::READ, 2, 0, 8 << 20));
    assert_eq!(client.simple(), (2, 0));
    assert!(client.output.len() < 8 << 20);
    assert!(matches!(client.closed, Some(CloseReason::Storage(_))));
    // At its beginning it can be told.
    let mut client = Client::started(false);
    client.service.fault = Some((0, IoError::Damaged));
    client.send(&request(0, command::READ, 2, 0, 8 << 20));
    assert_eq!(client.simple(), (2, Errno::Io as u32));
    assert_eq!(client.closed, None);
    client.service.fault = None;
    client.send(&request(0, command::READ, 3, 0, 8 << 20));
    assert_eq!(client.simple(), (3, 0));
    assert_eq!(client.take(8 << 20).len(), 8 << 20);
}

#[test]
fn a_busy_volume_is_asked_again() {
    let mut client = Client::started(false);
    client.service.fault = Some((0, IoError::Busy));
    client.send(&write(5, 0, &[9; 4096]));
    assert!(client.output.is_empty(), "no answer yet");
    let at = client.front.deadline().expect("it will be tried again");
    for _ in 0..3 {
        client.now = client.now.plus(std::time::Duration::from_millis(10));
        let flow = client
            .front
            .tick(client.now, &mut client.outbox, &client.pool, &mut client.service);
        assert_eq!(flow, Flow::Go);
        client.settle();
    }
    assert!(client.now >= at && client.output.is_empty());
    client.service.fault = None;
    client.now = client.now.plus(std::time::Duration::from_millis(10));
    let flow = client
        .front
        .tick(client.now, &mut client.outbox, &client.pool, &mut client.service);
    assert_eq!(flow, Flow::Go);
    client.settle();
    assert_eq!(client.simple(), (5, 0));
    assert_eq!(
        client.volumes.read(client.volume, 0, 4096),
        [9; 4096],
        "the payload was kept"
    );
    assert_eq!(client.front.deadline(), None);
}

#[test]
fn a_lost_volume_ends_the_connection() {
    let mut client = Client::started(true);
    client.service.fault = Some((0, IoError::Lost));
    client.send(&request(0, command::READ, 2, 0, 512));
    assert!(matches!(client.closed, Some(CloseReason::Storage(_))));
    let mut client = Client::started(true);
    let lost = |volume: VolumeId| amita_frontend::service::Event::Lost {
        source: volume.into(),
        why: "taken over".into(),
    };
    client.service.events.push_back((FRONT, lost(VolumeId(4711))));
    client.settle();
    assert_eq!(client.closed, None, "another volume is no concern of this connection");
    client.service.events.push_back((FRONT, lost(client.volume)));
    client.settle();
    assert!(matches!(client.closed, Some(CloseReason::Storage(_))));
}

/// The volume was closed to hosts, as an end of a mirror that is not written: a client that only loses its connection asks again when it is let in.
#[test]
fn of_a_closed_volume_all_that_is_under_way_fails_and_the_session_ends() {
    for structured in [false, true] {
        let mut client = Client::started(structured);
        client.runs = false;
        client.send(&write(1, 0, &pattern(0, 300_000)));
        client.send(&write(2, 1 << 20, &[1; 4096]));
        // Half of one that is on its way.
        let half = write(3, 2 << 20, &pattern(0, 300_000));
        client.send(&half[..half.len() - 1]);
        client.service.fault = Some((1 << 20, IoError::Closed));
        (client.runs, client.fetches) = (true, false);
        client.settle();
        assert_eq!(client.closed, None, "what was under way is answered first");
        let lost = amita_frontend::service::Event::Lost {
            source: client.volume.into(),
            why: "closed".into(),
        };
        client.service.events.push_back((FRONT, lost));
        client.settle();
        client.fetches = true;
        client.settle();
        let mut ended = Vec::new();
        while !client.output.is_empty() {
            // What has no payload may be answered by a simple reply, also where structured ones were agreed on.
            let is_simple = client
                .output
                .starts_with(&crate::wire::SIMPLE_REPLY_MAGIC.to_be_bytes());
            let (cookie, errno) = match is_simple {
                true => client.simple(),
                false => {
                    let header = client.take(20);
                    let cookie = u64::from_be_bytes(header[8..16].try_into().unwrap());
                    let length = u32::from_be_bytes(header[16..].try_into().unwrap());
                    let payload = client.take(length as usize);
                    let errno = payload.first_chunk().map_or(0, |errno| u32::from_be_bytes(*errno));
                    (cookie, errno)
                }
            };
            ended.push((cookie, errno));
        }
        let errno = Errno::Shutdown as u32;
        assert!(ended.contains(&(2, errno)) && ended.contains(&(3, errno)), "{ended:?}");
        assert!(
            matches!(client.closed, Some(CloseReason::Storage(_))),
            "{:?}",
            client.closed
        );
        assert!(!client.front.wants_input());
    }
}

#[test]
fn a_disconnect_waits_for_what_is_under_way() {
    let mut client = Client::started(false);
    client.runs = false;
    client.send(&write(1, 0, &pattern(0, 300_000)));
    client.send(&[request(0, command::DISC, 0, 0, 0), b"rubbish".to_vec()].concat());
    assert_eq!(client.closed, None);
    assert!(!client.front.wants_input());
    client.runs = true;
    client.settle();
    assert_eq!(client.simple(), (1, 0), "the write was answered");
    assert_eq!(client.closed, Some(CloseReason::Goodbye));
    assert!(client.volumes.read(client.volume, 0, 300_000) == pattern(0, 300_000));
}

#[test]
fn a_client_that_does_not_fetch_its_last_answers_is_not_waited_for_long() {
    let mut client = Client::started(false);
    client.fetches = false;
    client.send(&write(1, 0, &[1; 512]));
    client.send(&request(0, command::DISC, 0, 0, 0));
    assert_eq!(client.closed, None);
    let at = client.front.deadline().expect("a limit");
    client.now = at;
    let flow = client
        .front
        .tick(client.now, &mut client.outbox, &client.pool, &mut client.service);
    assert_eq!(
        flow,
        Flow::Close {
            reason: CloseReason::Goodbye
        }
    );
}

#[test]
fn payloads_are_passed_on_without_a_copy() {
    let mut client = Client::started(false);
    client.runs = false;
    client.receive(&write(1, 0, &pattern(0, 8192)));
    let submitted = &client.service.queue[0];
    assert!(matches!(
        submitted.op,
        Op::Write {
            offset: 0,
            length: 8192
        }
    ));
    client.service.run();
    client.deliver();
    client.output.clear();
    client.fetch();
    client.receive(&request(0, command::READ, 1, 0, 8192));
    client.service.run();
    let at = match &client.service.events[0].1 {
        amita_frontend::service::Event::Done {
            payload: amita_types::io::Payload::Data(data),
            ..
        } => data.as_ptr(),
        other => panic!("{other:?}"),
    };
    client.deliver();
    let segments = client.outbox.next_send().unwrap();
    assert!(
        segments
            .iter()
            .any(|segment| segment.as_ptr() == at && segment.len() == 8192)
    );
}
