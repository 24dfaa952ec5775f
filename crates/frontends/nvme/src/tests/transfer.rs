//! R2Ts and the data that answers them.

use super::*;
use crate::wire::fatal;
use std::collections::VecDeque;

fn start(max_r2t: u32) -> (World, Host) {
    let mut world = World::new();
    let admin = Host::admin(&mut world);
    let io = Host::io_with(&mut world, &admin, 1, 0, max_r2t, 0);
    (world, io)
}

fn r2ts(host: &mut Host) -> Vec<(u16, u32, u32)> {
    let pdus = host.pdus();
    pdus.iter()
        .map(|pdu| {
            assert_eq!(pdu.kind, kind::R2T);
            (u16_at(&pdu.header, 2), u32_at(&pdu.header, 4), u32_at(&pdu.header, 8))
        })
        .collect()
}

#[test]
fn as_many_as_the_host_allows_are_outstanding() {
    for (max, seen) in [(1, 1), (3, 3), (100, 8)] {
        let (mut world, mut host) = start(max);
        host.command(&mut world, write(1, 1, 0, 256));
        let asked = r2ts(&mut host);
        assert_eq!(asked.len(), seen);
        let bytes = pattern(0, 1 << 20);
        // Answered in the other order; each answer brings the next R2T.
        let mut open = asked;
        while let Some((tag, offset, length)) = open.pop() {
            assert_eq!(length, 128 << 10);
            let piece = &bytes[offset as usize..(offset + length) as usize];
            let pdu = host.data_pdu(1, tag, offset, piece, true);
            host.send(&mut world, &pdu);
            if host.output.len() > 24 || open.is_empty() && host.output[0] == kind::RESPONSE {
                break;
            }
            open.extend(r2ts(&mut host));
        }
        assert_eq!(host.one().status(), (0, 0));
        assert!(world.volumes.read(volume(&world, 1), 0, 1 << 20) == bytes);
    }
}

#[test]
fn data_that_was_not_asked_for_ends_the_connection() {
    let asked = |host: &mut Host, world: &mut World| {
        host.command(world, write(1, 1, 0, 2));
        u16_at(&host.one().header, 2)
    };
    type Case = fn(&Host, u16) -> Vec<u8>;
    let cases: [(&str, Case, u16, u32); 9] = [
        (
            "tag",
            |host, tag| host.data_pdu(1, tag + 1, 0, &[0; 4096], false),
            fatal::INVALID_HEADER,
            10,
        ),
        (
            "command",
            |host, tag| host.data_pdu(2, tag, 0, &[0; 4096], false),
            fatal::INVALID_HEADER,
            8,
        ),
        (
            "order",
            |host, tag| host.data_pdu(1, tag, 4096, &[0; 4096], true),
            fatal::OUT_OF_RANGE,
            12,
        ),
        (
            "length",
            |host, tag| host.data_pdu(1, tag, 0, &[0; 8196], true),
            fatal::OUT_OF_RANGE,
            16,
        ),
        (
            "offset",
            |host, tag| host.data_pdu(1, tag, 8192, &[0; 4096], true),
            fatal::OUT_OF_RANGE,
            12,
        ),
        (
            "overflow",
            |host, tag| host.data_pdu(1, tag, u32::MAX - 3, &[0; 4096], true),
            fatal::OUT_OF_RANGE,
            12,
        ),
        (
            "last too early",
            |host, tag| host.data_pdu(1, tag, 0, &[0; 4096], true),
            fatal::INVALID_HEADER,
            1,
        ),
        (
            "not the last",
            |host, tag| host.data_pdu(1, tag, 0, &[0; 8192], false),
            fatal::INVALID_HEADER,
            1,
        ),
        (
            "DATAL",
            |host, tag| {
                let mut bytes = host.data_pdu(1, tag, 0, &[0; 4096], false);
                bytes[17] = 0x20;
                bytes
            },
            fatal::INVALID_HEADER,
            16,
        ),
    ];
    for (what, bytes, status, info) in cases {
        let (mut world, mut host) = start(1);
        let tag = asked(&mut host, &mut world);
        let bytes = bytes(&host, tag);
        host.send(&mut world, &bytes);
        host.settle(&mut world);
        let last = host.pdus().pop().expect("a C2HTermReq");
        assert_eq!(last.fatal(), (status, info), "{what}");
    }
    // Twice the same.
    let (mut world, mut host) = start(1);
    let tag = asked(&mut host, &mut world);
    let bytes = host.data_pdu(1, tag, 0, &[0; 8192], true);
    host.send(&mut world, &bytes);
    assert_eq!(host.one().status(), (0, 0));
    host.send(&mut world, &bytes);
    host.ends_with(&mut world, fatal::INVALID_HEADER, 10);
}

#[test]
fn a_data_pdu_has_at_most_what_was_told() {
    let (mut world, mut host) = start(1);
    host.command(&mut world, write(1, 1, 0, 256));
    let tag = u16_at(&host.one().header, 2);
    let bytes = host.data_pdu(1, tag, 0, &[0; (128 << 10) + 4], true);
    host.send(&mut world, &bytes);
    host.ends_with(&mut world, fatal::LIMIT_EXCEEDED, 4);
}

#[test]
fn a_failed_write_waits_for_the_data_that_was_asked_for() {
    let (mut world, mut host) = start(4);
    world.service.fault = Some((0, amita_types::io::IoError::NoSpace));
    host.command(&mut world, write(1, 1, 0, 256));
    let asked = r2ts(&mut host);
    assert_eq!(asked.len(), 4);
    // The first answer brings one more before the volume has refused the piece; after that nothing is asked for.
    let mut open = VecDeque::from(asked);
    while let Some((tag, offset, length)) = open.pop_front() {
        assert_eq!(host.output.len(), 0);
        let pdu = host.data_pdu(1, tag, offset, &vec![1; length as usize], true);
        host.send(&mut world, &pdu);
        if !open.is_empty() {
            open.extend(r2ts(&mut host));
            assert!(open.len() <= 4);
        }
    }
    assert_eq!(host.one().status(), (0, 0x81));
    let bytes = pattern(0, 4096);
    world.service.fault = None;
    assert_eq!(host.run(&mut world, write(2, 1, 0, 1), &bytes).0, (0, 0));
}
