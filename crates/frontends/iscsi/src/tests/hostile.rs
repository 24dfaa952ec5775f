//! Bytes that come in any pieces, and bytes that make no sense.

use super::*;
use proptest::prelude::*;

/// Commands whose outcome does not depend on each other, and the data that is asked for, as one stream: R2Ts have tags that are known,
/// one after the other.
fn stream(host: &mut Host, commands: &[(u8, u8, u16)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (mut lba, mut transfer) = (0u32, 0);
    for &(kind, count, immediate) in commands {
        let count = u16::from(count % 4) + 1;
        // What is asked for is one piece.
        if lba % 32 + u32::from(count) > 32 {
            lba = lba.next_multiple_of(32);
        }
        let data = pattern(u64::from(lba) * 13, usize::from(count) * 4096);
        let header = match kind % 4 {
            0 => read(1, lba, count),
            1 => Header::new(opcode::NOP_OUT, 0x80).with_target_tag(NO_TAG),
            _ => write(1, lba, count),
        };
        let header = host.numbered(header);
        let tag = header.task_tag();
        match kind % 4 {
            2 | 3 => {
                let immediate = if kind % 4 == 2 {
                    data.len()
                } else {
                    usize::from(immediate) % data.len()
                };
                bytes.extend(pdu(header, &data[..immediate], host.digests));
                if immediate < data.len() {
                    transfer += 1;
                    let rest = &data[immediate..];
                    let cut = rest.len() / 2;
                    let (first, second) = rest.split_at(cut);
                    let mut number = 0;
                    if !first.is_empty() {
                        bytes.extend(host.data_out(tag, transfer, number, immediate as u32, first, false));
                        number += 1;
                    }
                    bytes.extend(host.data_out(tag, transfer, number, (immediate + cut) as u32, second, true));
                }
            }
            _ => bytes.extend(pdu(header, &[], host.digests)),
        }
        lba += u32::from(count);
    }
    bytes
}

/// What each task brought, and what the disk holds.
type Seen = (BTreeMap<u32, (Vec<u8>, u8)>, Vec<u8>);

fn play(commands: &[(u8, u8, u16)], digests: (bool, bool), cuts: &[usize]) -> Seen {
    let mut world = World::new();
    let digest = |wanted| if wanted { "CRC32C" } else { "None" };
    let keys = [
        ("HeaderDigest", digest(digests.0)),
        ("DataDigest", digest(digests.1)),
        ("MaxRecvDataSegmentLength", "8192"),
    ];
    let mut host = Host::session_of(&mut world, 1, &keys);
    let filled = pattern(0, 1 << 20);
    let volume = world.volume(1);
    // What reads find. The memory's volume is as it would be after a write.
    for chunk in 0..8u32 {
        let part = &filled[chunk as usize * (128 << 10)..(chunk as usize + 1) * (128 << 10)];
        assert_eq!(
            host.run_with(&mut world, write(1, chunk * 32, 32), part, 65_536).told(),
            GOOD
        );
    }
    // So many R2Ts there were: their tags are known from here on.
    let asked = {
        let tag = host.give(&mut world, write(1, 0, 1), &[]);
        let r2t = host.one();
        let bytes = host.data_out(tag, r2t.header.target_tag(), 0, 0, &filled[..4096], true);
        host.send(&mut world, &bytes);
        host.one();
        r2t.header.target_tag()
    };
    let bytes = renumbered(&mut host, commands, asked);
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    for pair in cuts.windows(2) {
        host.send(&mut world, &bytes[pair[0]..pair[1]]);
    }
    assert_eq!(host.closed, None);
    let mut outcomes: BTreeMap<u32, (Vec<u8>, u8)> = BTreeMap::new();
    for pdu in host.pdus() {
        let outcome = outcomes.entry(pdu.header.task_tag()).or_insert((Vec::new(), 0xff));
        match pdu.kind() {
            opcode::DATA_IN => {
                outcome.0.extend(pdu.data);
                if pdu.header.flags() & 1 != 0 {
                    outcome.1 = pdu.header.0[3];
                }
            }
            opcode::SCSI_RESPONSE => outcome.1 = pdu.status().0,
            opcode::NOP_IN => outcome.1 = 0,
            opcode::R2T => {}
            other => panic!("a PDU of type {other:x}"),
        }
    }
    assert!(outcomes.values().all(|outcome| outcome.1 == 0), "{outcomes:?}");
    (outcomes, world.volumes.read(volume, 0, 1 << 20))
}

/// The stream, with the tags of R2Ts behind that one.
fn renumbered(host: &mut Host, commands: &[(u8, u8, u16)], asked: u32) -> Vec<u8> {
    let digests = host.digests;
    let bytes = stream(host, commands);
    let mut out = Vec::new();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let (mut header, data, behind) = split(rest, digests.0, digests.1);
        if header.opcode() == opcode::DATA_OUT {
            header = header.with_target_tag(header.target_tag() + asked);
        }
        out.extend(pdu(header, &data, digests));
        rest = behind;
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_does_not_matter_where_the_stream_is_cut(
        commands in prop::collection::vec((any::<u8>(), any::<u8>(), any::<u16>()), 1..20),
        digests in any::<(bool, bool)>(),
        cuts in prop::collection::vec(any::<usize>(), 0..60),
    ) {
        let whole = play(&commands, digests, &[]);
        prop_assert_eq!(whole.0.len(), commands.len());
        let cut = play(&commands, digests, &cuts);
        prop_assert!(whole == cut);
    }

    /// Whatever comes behind a login: nobody else is concerned, and the register forgets who has gone.
    #[test]
    fn any_bytes_in_a_session(
        parts in prop::collection::vec((any::<u8>(), any::<u8>(), prop::collection::vec(any::<u8>(), 0..120)), 1..30),
    ) {
        let mut world = World::new();
        let mut other = Host::session_of(&mut world, 9, &[]);
        let mut host = Host::session(&mut world);
        for (kind, flags, mut bytes) in parts {
            let mut header = Header::new(kind, flags);
            let count = bytes.len().min(40);
            header.0[8..8 + count].copy_from_slice(&bytes[..count]);
            // Often with the number that is expected.
            if kind & 1 == 0 {
                header = header.with_u32(24, host.cmd_sn);
            }
            bytes.truncate(usize::from(flags) % 100);
            let message = pdu(header, &bytes, (false, false));
            host.send(&mut world, &message);
            if host.closed.is_some() {
                break;
            }
        }
        other.settle(&mut world);
        host.settle(&mut world);
        if other.closed.is_none() {
            // A reset may have come by chance: it is heard of.
            for _ in 0..4 {
                other.output.clear();
                let header = other.numbered(command(1, 0x80, 0, TEST_UNIT_READY));
                other.send(&mut world, &pdu(header, &[], (false, false)));
            }
            prop_assert!(!other.output.is_empty());
        }
        host.close(&mut world);
        other.close(&mut world);
        prop_assert_eq!(world.board.sessions(), 0);
    }

    /// Whatever strangers send.
    #[test]
    fn any_bytes_of_a_stranger(bytes in prop::collection::vec(any::<u8>(), 0..2000), is_login: bool) {
        let mut world = World::new();
        let mut host = Host::open(&mut world);
        let mut bytes = bytes;
        if is_login && bytes.len() >= 48 {
            bytes[0] = 0x43;
            bytes[4..8].copy_from_slice(&[0, 0, 0, 100]);
        }
        host.send(&mut world, &bytes);
        prop_assert!(host.outbox.queued_bytes() < 64 << 10);
        host.close(&mut world);
        prop_assert_eq!(world.board.sessions(), 0);
    }
}

#[test]
fn byte_by_byte() {
    let commands = [(0, 3, 0), (2, 2, 0), (3, 1, 700), (1, 0, 0), (3, 0, 0), (0, 1, 0)];
    for digests in [(false, false), (true, true)] {
        let all: Vec<usize> = (0..60_000).collect();
        assert!(play(&commands, digests, &[]) == play(&commands, digests, &all));
    }
}
