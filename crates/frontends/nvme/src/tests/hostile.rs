//! Bytes that come in any pieces.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Blocks of 4 KiB between two places where commands are cut.
const ATOM_BLOCKS: u64 = 32;

/// Commands whose outcome does not depend on each other, and the data of their R2Ts, as one stream. Each begins behind
/// where the last one ended, so that it has a range of its own, and is one piece, so that its R2Ts are known.
fn stream(host: &Host, commands: &[(u8, u8, bool)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut first = 0;
    for (index, &(kind, count, in_capsule)) in commands.iter().enumerate() {
        let (id, count) = (index as u16 + 1, u32::from(count % 4) + 1);
        let length = count as usize * 4096;
        if first % ATOM_BLOCKS + u64::from(count) > ATOM_BLOCKS {
            first = first.next_multiple_of(ATOM_BLOCKS);
        }
        let data = pattern(first * 13, length);
        match kind % 5 {
            0 => bytes.extend(host.capsule(read(id, 1, first, count), &[])),
            1 | 2 if in_capsule => bytes.extend(host.capsule(write(id, 1, first, count).capsule(length), &data)),
            1 | 2 => {
                bytes.extend(host.capsule(write(id, 1, first, count), &[]));
                // No other R2T is outstanding, so that its tag is known.
                let cut = if kind % 5 == 1 { length } else { length / 2 };
                bytes.extend(host.data_pdu(id, 0, 0, &data[..cut], cut == length));
                if cut < length {
                    bytes.extend(host.data_pdu(id, 0, cut as u32, &data[cut..], true));
                }
            }
            3 => bytes.extend(host.capsule(Sqe::new(8, id, 1).blocks(first, count), &[])),
            _ => bytes.extend(host.capsule(write(id, 1, first, count).opcode(5).capsule(length), &data)),
        }
        first += u64::from(count);
    }
    bytes
}

/// What each command brought, and what the disk holds.
type Seen = (BTreeMap<u16, (Vec<u8>, (u8, u8))>, Vec<u8>);

fn outcome(host: &mut Host, world: &World) -> Seen {
    let mut outcomes: BTreeMap<u16, (Vec<u8>, (u8, u8))> = BTreeMap::new();
    for pdu in host.pdus() {
        match pdu.kind {
            kind::C2H_DATA => outcomes.entry(pdu.id()).or_default().0.extend(pdu.data),
            kind::RESPONSE => outcomes.entry(pdu.id()).or_default().1 = pdu.status(),
            kind::R2T => {}
            other => panic!("a PDU of type {other}"),
        }
    }
    (outcomes, world.volumes.read(volume(world, 1), 0, 1 << 20))
}

fn play(commands: &[(u8, u8, bool)], digests: u8, cuts: &[usize]) -> Seen {
    let mut world = World::new();
    let admin = Host::admin(&mut world);
    let mut host = Host::io_with(&mut world, &admin, 1, digests, 1, 0);
    // What reads and compares find.
    let filled = pattern(0, 1 << 20);
    assert_eq!(host.run(&mut world, write(99, 1, 0, 256), &filled).0, (0, 0));
    let bytes = stream(&host, commands);
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    for pair in cuts.windows(2) {
        host.send(&mut world, &bytes[pair[0]..pair[1]]);
    }
    assert_eq!(host.closed, None);
    outcome(&mut host, &world)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_does_not_matter_where_the_stream_is_cut(
        commands in prop::collection::vec((any::<u8>(), any::<u8>(), any::<bool>()), 1..20),
        digests in 0u8..4,
        cuts in prop::collection::vec(any::<usize>(), 0..60),
    ) {
        let whole = play(&commands, digests, &[]);
        prop_assert_eq!(whole.0.len(), commands.len());
        let cut = play(&commands, digests, &cuts);
        prop_assert!(whole == cut);
    }
}

#[test]
fn byte_by_byte() {
    let commands = [
        (0, 3, false),
        (1, 2, false),
        (2, 1, false),
        (1, 0, true),
        (4, 0, false),
        (3, 3, false),
    ];
    for digests in [0, 3] {
        let all: Vec<usize> = (0..80_000).collect();
        assert!(play(&commands, digests, &[]) == play(&commands, digests, &all));
    }
}

/// Settings are checked where they are made; what slips through there must not end who serves others.
#[test]
fn a_namespace_that_cannot_be_is_not_there_for_io_either() {
    const INVALID_NAMESPACE: (u8, u8) = (0, 0x0b);
    const SOUND: (u32, u32) = (1 << 20, 4096);
    const DEALLOCATE: u32 = 1 << 25;
    let mut world = World::new();
    let admin = Host::admin(&mut world);
    let mut host = Host::io(&mut world, &admin);
    let commands = [
        read(1, 1, 0, 1),
        write(1, 1, 0, 1),
        Sqe::new(0x08, 1, 1).blocks(0, 300).dword(12, 299 | DEALLOCATE),
        Sqe::new(0x0c, 1, 1).blocks(0, 200),
        Sqe::new(0, 1, 1),
    ];
    for bad in [
        (0, 4096),
        (u32::MAX, 4096),
        (3 << 20, 4096),
        (512, 4096),
        (1 << 20, 0),
        (1 << 20, 4097),
    ] {
        for (shape, status) in [(bad, INVALID_NAMESPACE), (SOUND, (0, 0))] {
            world.change(&mut [&mut host], |subsystem| {
                let namespace = Arc::make_mut(&mut subsystem.namespaces[0]);
                (namespace.chunk_bytes, namespace.block_bytes) = shape;
            });
            for command in commands {
                let told = host.run(&mut world, command, &[7; 4096]).0;
                assert_eq!(told, status, "{shape:?}");
            }
            assert_eq!(host.run(&mut world, read(1, 2, 0, 1), &[]).0, (0, 0), "the other one");
        }
    }
}
