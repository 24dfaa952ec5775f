//! What is zeroed, trimmed and told to be allocated.

use super::*;
use crate::wire::{chunk, command_flag as flag, state};

const SIZE: u64 = 16 * MIB;

/// Flags, offset and length of a request for the status, and the extents (length and flags) of the answer.
type StatusCase = (u16, u64, u32, &'static [(u32, u32)]);

#[test]
fn zeroes_and_trims_touch_what_they_should() {
    let cases = [
        (command::WRITE_ZEROES, 0, true),
        (command::WRITE_ZEROES, flag::NO_HOLE, true),
        (command::TRIM, 0, false),
    ];
    for (command, flags, edges) in cases {
        let mut client = Client::started(false);
        let data = pattern(1, 3 << 20);
        client.send(&write(1, 0, &data));
        let (offset, length) = (5000u64, 2_200_000u32);
        client.send(&request(flags, command, 2, offset, length));
        client.send(&request(0, command::READ, 3, 0, 1 << 20));
        client.output.clear();
        let end = offset + u64::from(length);
        let (first, last) = (offset.next_multiple_of(4096), end / 4096 * 4096);
        let (zero_first, zero_last) = if edges { (offset, end) } else { (first, last) };
        let mut expected = data;
        expected[zero_first as usize..zero_last as usize].fill(0);
        assert!(
            client.volumes.read(client.volume, 0, 3 << 20) == expected,
            "{command} {flags}"
        );
        let kept = if flags == flag::NO_HOLE {
            3 << 20
        } else {
            (3 << 20) - (last - first)
        };
        assert_eq!(client.volumes.allocated_bytes(client.volume), kept, "{command} {flags}");
    }
}

fn extents(client: &mut Client) -> Vec<(u32, u32)> {
    let chunks = client.chunks();
    assert_eq!(chunks.len(), 1);
    assert_eq!(
        (chunks[0].kind, chunks[0].flags),
        (chunk::BLOCK_STATUS, chunk::FLAG_DONE)
    );
    let mut reader = Reader(&chunks[0].payload);
    assert_eq!(reader.u32(), Some(crate::wire::BASE_ALLOCATION_ID));
    let mut extents = Vec::new();
    while let (Some(length), Some(flags)) = (reader.u32(), reader.u32()) {
        extents.push((length, flags));
    }
    assert!(reader.is_empty());
    extents
}

#[test]
fn block_status() {
    const HOLE: u32 = state::HOLE | state::ZERO;
    let mut client = Client::started(true);
    client.send(&write(1, 3 * MIB - 4096, &vec![1; 8192]));
    client.output.clear();
    let cases: &[StatusCase] = &[
        (
            0,
            0,
            SIZE as u32,
            &[
                (3 * MIB as u32 - 4096, HOLE),
                (8192, 0),
                ((SIZE - 3 * MIB) as u32 - 4096, HOLE),
            ],
        ),
        (flag::REQ_ONE, 0, SIZE as u32, &[(3 * MIB as u32 - 4096, HOLE)]),
        (flag::REQ_ONE, 3 * MIB - 100, 4000, &[(4000, 0)]),
        (
            flag::REQ_ONE,
            3 * MIB + 4096,
            (SIZE - 3 * MIB) as u32 - 4096,
            &[((SIZE - 3 * MIB) as u32 - 4096, HOLE)],
        ),
        (0, 3 * MIB - 4097, 2, &[(1, HOLE), (1, 0)]),
        (0, SIZE - 1, 1, &[(1, HOLE)]),
    ];
    for (flags, offset, length, expected) in cases {
        client.send(&request(*flags, command::BLOCK_STATUS, 4, *offset, *length));
        assert_eq!(extents(&mut client), *expected, "{flags} {offset} {length}");
    }
    // Every second block: more extents than one reply has.
    let mut client = Client::with(Config::default(), 64 * MIB, 4 << 20);
    client.send(&3u32.to_be_bytes());
    client.output.clear();
    client.start(true);
    for block in 0..5000 {
        client.send(&write(1, block * 8192, &[1; 4096]));
    }
    client.output.clear();
    client.send(&request(0, command::BLOCK_STATUS, 4, 0, 64 << 20));
    let extents = extents(&mut client);
    assert!((4096..5000).contains(&extents.len()), "{}", extents.len());
    assert!(
        extents
            .iter()
            .enumerate()
            .all(|(i, extent)| *extent == (4096, if i % 2 == 0 { 0 } else { HOLE }))
    );
}

#[test]
fn status_of_a_large_range_is_told_in_part() {
    let mut client = Client::with(Config::default(), 8 << 30, 4 << 20);
    client.send(&3u32.to_be_bytes());
    client.output.clear();
    client.start(true);
    client.send(&request(0, command::BLOCK_STATUS, 4, 4097, u32::MAX - 4097));
    assert_eq!(
        extents(&mut client),
        [((1 << 30) - 4097, 3)],
        "a gibibyte, to the end of a chunk"
    );
}
