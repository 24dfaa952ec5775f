//! Data of writes: with the command, unasked behind it, and asked for.

use super::*;
use crate::negotiation::Wishes;

/// A world in which data may come unasked, and a host that has agreed to that.
fn unasked(config: Config) -> (World, Host) {
    let mut world = World::with(Config {
        wishes: Wishes {
            initial_r2t: false,
            ..Wishes::default()
        },
        ..config
    });
    let keys = [
        ("InitialR2T", "No"),
        ("FirstBurstLength", "65536"),
        ("MaxRecvDataSegmentLength", "262144"),
    ];
    let host = Host::session_of(&mut world, 1, &keys);
    (world, host)
}

#[test]
fn any_part_of_the_data_may_come_with_the_command() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    for lun in 0..2u16 {
        let block = BLOCKS[usize::from(lun)] as usize;
        for (lba, count, immediate) in [
            (0u32, 1u16, block),
            (0, 1, block / 2),
            (3, 9, 5),
            (7, 40, 4096),
            (1, 100, 10_000),
            (250, 200, 65_536),
            (2, 30, block * 7 + 1),
        ] {
            let data = pattern(u64::from(lba) + immediate as u64, usize::from(count) * block);
            let immediate = immediate.min(data.len()).min(65_536);
            let outcome = host.run_with(&mut world, write(lun, lba, count), &data, immediate);
            assert_eq!(
                (outcome.told(), outcome.residual),
                (GOOD, (0, 0)),
                "{immediate} of {}",
                data.len()
            );
            let at = u64::from(lba) * block as u64;
            assert!(
                world.volumes.read(world.volume(lun), at, data.len()) == data,
                "{immediate}"
            );
        }
    }
}

#[test]
fn r2ts_ask_for_pieces_in_order() {
    let mut world = World::new();
    let keys = [("MaxOutstandingR2T", "2"), ("MaxBurstLength", "1048576")];
    let mut host = Host::session_of(&mut world, 1, &keys);
    let data = pattern(8, 128 * 4096);
    let tag = host.give(&mut world, write(1, 16, 128), &[]);
    let mut expected = 0;
    let mut seen = 0;
    let mut open = host.pdus();
    assert_eq!(open.len(), 2, "as many as were agreed on");
    while !open.is_empty() {
        let mut next = Vec::new();
        for r2t in open.drain(..) {
            if r2t.kind() != opcode::R2T {
                assert_eq!((r2t.status(), seen), (GOOD, 128 * 4096));
                continue;
            }
            let header = &r2t.header;
            assert_eq!((header.task_tag(), header.u32_at(36)), (tag, expected), "R2TSN");
            let (offset, length) = (header.u32_at(40), header.u32_at(44));
            assert_eq!(offset, seen);
            // No piece crosses a place where I/O is cut.
            let end = 16 * 4096 + offset + length;
            assert!(length <= 128 << 10 && (end % (128 << 10) == 0 || offset + length == 128 * 4096));
            expected += 1;
            seen += length;
            // In several PDUs.
            let piece = &data[offset as usize..(offset + length) as usize];
            let parts: Vec<&[u8]> = piece.chunks(50_000).collect();
            let mut at = offset;
            for (number, part) in parts.iter().enumerate() {
                let is_last = number + 1 == parts.len();
                let bytes = host.data_out(tag, header.target_tag(), number as u32, at, part, is_last);
                host.send(&mut world, &bytes);
                at += part.len() as u32;
            }
            next.extend(host.pdus());
        }
        open = next;
    }
    assert!(world.volumes.read(world.volume(1), 16 * 4096, data.len()) == data);
}

#[test]
fn data_that_comes_unasked() {
    let (mut world, mut host) = unasked(Config::default());
    // So much with the command, so much behind it, in PDUs of this length; the rest is asked for.
    for (immediate, behind, part) in [(0, 65_536, 8192), (4096, 61_440, 20_000), (100, 1000, 300), (512, 0, 1)] {
        let data = pattern(immediate as u64, 40 * 4096);
        let header = write(1, 60, 40).with_byte(1, 0x20 | 1);
        let tag = host.give(&mut world, header, &data[..immediate]);
        assert_eq!(host.pdus(), [], "nothing is asked for before");
        let first = &data[immediate..immediate + behind];
        let parts: Vec<&[u8]> = match behind {
            0 => vec![&first[..0]],
            _ => first.chunks(part).collect(),
        };
        let mut at = immediate as u32;
        for (number, part) in parts.iter().enumerate() {
            let is_last = number + 1 == parts.len();
            let bytes = host.data_out(tag, NO_TAG, number as u32, at, part, is_last);
            host.send(&mut world, &bytes);
            at += part.len() as u32;
        }
        let outcome = host.follow(&mut world, tag, &data);
        assert_eq!((outcome.told(), outcome.residual), (GOOD, (0, 0)));
        assert!(
            world.volumes.read(world.volume(1), 60 * 4096, data.len()) == data,
            "{immediate}, {behind}"
        );
    }
}

/// What is written of a block of the volume is written at once, whatever the host's own blocks are and wherever its first data ends.
#[test]
fn nobody_sees_half_of_a_block_of_the_volume() {
    let start = 6 * 512;
    for (immediate, behind) in [
        (4096, None),
        (512, None),
        (1024, None),
        (6000, None),
        (0, Some(9 * 512)),
        (512, Some(4096)),
        (100, Some(9900)),
    ] {
        let (mut world, mut host) = unasked(Config::default());
        let volume = world.volume(0);
        let data = pattern(immediate as u64 + 1, 32 * 512);
        let header = match behind {
            None => write(0, 6, 32),
            Some(_) => write(0, 6, 32).with_byte(1, 0x20 | 1),
        };
        let tag = host.give(&mut world, header, &data[..immediate]);
        let mut first = immediate;
        if let Some(behind) = behind {
            first += behind;
            let bytes = host.data_out(tag, NO_TAG, 0, immediate as u32, &data[immediate..first], true);
            host.send(&mut world, &bytes);
        }
        let whole = (start + first) / 4096 * 4096;
        let held = world.volumes.read(volume, start as u64, data.len());
        let written = whole.saturating_sub(start);
        assert!(held[..written] == data[..written], "{immediate}, {behind:?}");
        assert!(held[written..].iter().all(|byte| *byte == 0), "{immediate}, {behind:?}");
        let outcome = host.follow(&mut world, tag, &data);
        assert_eq!((outcome.told(), outcome.residual), (GOOD, (0, 0)));
        let held = world.volumes.read(volume, start as u64, data.len());
        assert!(held == data, "{immediate}, {behind:?}");
    }
}

#[test]
fn what_was_not_agreed_on_is_an_error() {
    // RFC 7143, 11.4.7.2: unexpected unsolicited data; and more than the first burst.
    const UNEXPECTED: (u8, [u8; 3]) = (2, [0xb, 0x0c, 0x0c]);
    const AMOUNT: (u8, [u8; 3]) = (2, [0xb, 0x0c, 0x0d]);
    let mut world = World::new();
    let mut host = Host::session_of(&mut world, 1, &[("ImmediateData", "No")]);
    let data = pattern(1, 4096);
    assert_eq!(
        host.run_with(&mut world, write(1, 0, 1), &data, 4096).told(),
        UNEXPECTED
    );
    assert_eq!(host.run_with(&mut world, write(1, 0, 1), &data, 0).told(), GOOD);
    let mut host = Host::session_of(&mut world, 2, &[("FirstBurstLength", "4096")]);
    let data = pattern(1, 8192);
    assert_eq!(host.run_with(&mut world, write(1, 0, 2), &data, 8192).told(), AMOUNT);
    assert_eq!(world.volumes.read(world.volume(1), 4096, 4096), [0; 4096]);
    // More is announced than may come: what comes is not waited for by anybody else.
    let header = write(1, 0, 2).with_byte(1, 0x20 | 1);
    let tag = host.give(&mut world, header, &[]);
    assert_eq!(host.pdus(), []);
    let bytes = host.data_out(tag, NO_TAG, 0, 0, &data[..4096], true);
    host.send(&mut world, &bytes);
    assert_eq!(host.one().status(), UNEXPECTED);
}

#[test]
fn data_out_of_its_order_ends_the_session() {
    type Change = fn(&mut Header);
    let changes: [(&str, Change); 4] = [
        ("offset", |header| *header = header.with_u32(40, 4)),
        ("beyond", |header| *header = header.with_u32(40, 4096)),
        ("not the last", |header| header.0[1] = 0),
        ("unasked", |header| *header = header.with_target_tag(NO_TAG)),
    ];
    for (what, change) in changes {
        let mut world = World::new();
        let mut host = Host::session(&mut world);
        let tag = host.give(&mut world, write(1, 0, 1), &[]);
        let r2t = host.one();
        let mut header = Header::new(opcode::DATA_OUT, 0x80)
            .with_task_tag(tag)
            .with_target_tag(r2t.header.target_tag());
        change(&mut header);
        host.send(&mut world, &pdu(header, &[1; 4096], host.digests));
        host.settle(&mut world);
        let reject = host.one();
        assert_eq!((reject.kind(), reject.header.0[2]), (opcode::REJECT, 4), "{what}");
        assert_eq!(reject.data[16..20], tag.to_be_bytes(), "it shows the header");
        assert!(
            matches!(host.closed, Some(CloseReason::Protocol(_))),
            "{what}: {:?}",
            host.closed
        );
        assert_eq!(world.volumes.read(world.volume(1), 0, 4096), [0; 4096]);
    }
}

/// RFC 7143, 7.9: a DataSN out of its order says that other PDUs were damaged.
#[test]
fn a_wrong_number_of_data_ends_its_task() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    let data = pattern(3, 4096);
    for numbers in [[0, 0], [1, 0], [0, u32::MAX], [27, 28]] {
        let tag = host.give(&mut world, write(1, 0, 1), &[]);
        let transfer = host.one().header.target_tag();
        let first = host.data_out(tag, transfer, numbers[0], 0, &data[..1024], false);
        let second = host.data_out(tag, transfer, numbers[1], 1024, &data[1024..], true);
        host.send(&mut world, &first);
        host.send(&mut world, &second);
        let pdus = host.pdus();
        assert_eq!(pdus.len(), 2, "{numbers:?}: {pdus:?}");
        assert_eq!((pdus[0].kind(), pdus[0].header.0[2]), (opcode::REJECT, 2));
        assert_eq!(pdus[1].status(), (2, [0xb, 0x47, 0x05]));
        assert_eq!(world.volumes.read(world.volume(1), 0, 4096), [0; 4096]);
    }
    assert_eq!(host.run(&mut world, write(1, 0, 1), &data).told(), GOOD);
}

#[test]
fn damaged_data_ends_its_task() {
    let mut world = World::new();
    let keys = [("HeaderDigest", "CRC32C"), ("DataDigest", "CRC32C")];
    let mut host = Host::session_of(&mut world, 1, &keys);
    let tag = host.give(&mut world, write(1, 0, 1), &[]);
    let r2t = host.one();
    let mut bytes = host.data_out(tag, r2t.header.target_tag(), 0, 0, &pattern(1, 4096), true);
    bytes[100] ^= 1;
    host.send(&mut world, &bytes);
    let pdus = host.pdus();
    assert_eq!(
        (pdus[0].kind(), pdus[0].header.0[2]),
        (opcode::REJECT, 2),
        "data digest error"
    );
    // RFC 7143, 7.8: protocol service CRC error.
    assert_eq!(pdus[1].status(), (2, [0xb, 0x47, 0x05]));
    assert_eq!(world.volumes.read(world.volume(1), 0, 4096), [0; 4096]);
    assert_eq!(
        host.run(&mut world, write(1, 0, 1), &pattern(1, 4096)).told(),
        GOOD,
        "the session goes on"
    );
    // A command whose data is damaged leaves a gap that nothing fills.
    let header = host.numbered(write(1, 0, 1));
    let mut bytes = pdu(header, &pattern(1, 4096), host.digests);
    bytes[100] ^= 1;
    host.send(&mut world, &bytes);
    host.settle(&mut world);
    assert_eq!(host.one().header.0[2], 2);
    assert!(matches!(host.closed, Some(CloseReason::Protocol(_))));
}

#[test]
fn a_damaged_header_ends_the_session() {
    let mut world = World::new();
    let mut host = Host::session_of(&mut world, 1, &[("HeaderDigest", "CRC32C")]);
    let header = host.numbered(read(1, 0, 1));
    let mut bytes = pdu(header, &[], host.digests);
    bytes[20] ^= 1;
    host.send(&mut world, &bytes);
    assert!(matches!(host.closed, Some(CloseReason::Protocol(_))));
    assert_eq!(host.pdus(), []);
}
