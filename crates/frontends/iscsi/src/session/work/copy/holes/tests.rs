use super::*;

const KIB: u64 = 1 << 10;

/// A map in which the blocks from each first one to before each second one are allocated.
fn blocks(allocated: &[(usize, usize)]) -> [u64; 16] {
    let mut blocks = [0; 16];
    for block in allocated.iter().flat_map(|&(first, end)| first..end) {
        blocks[block / 64] |= 1 << (block % 64);
    }
    blocks
}

fn runs(blocks: &[u64; 16], from: u64, end: u64) -> Vec<(u64, bool)> {
    let (mut at, mut found) = (from, Vec::new());
    while at < end {
        let Run { length, is_hole } = run(blocks, at, end);
        assert!(length > 0 && at + length <= end, "{length} from {at} to {end}");
        found.push((length, is_hole));
        at += length;
    }
    found
}

#[test]
fn long_holes_are_told_from_data_with_short_ones() {
    let whole = 1024 * KIB;
    assert_eq!(runs(&blocks(&[]), 0, whole), [(whole, true)]);
    assert_eq!(runs(&blocks(&[(0, 1024)]), 512, 40 * KIB), [(40 * KIB - 512, false)]);
    // 16 blocks are a hole of its own; 15 are not, but for the last ones.
    assert_eq!(
        runs(&blocks(&[(0, 1), (17, 18), (33, 34)]), 0, 140 * KIB),
        [(4 * KIB, false), (64 * KIB, true), (68 * KIB, false), (4 * KIB, true)],
    );
    // One that goes on behind what is asked for counts as far as that goes, from inside a block on.
    assert_eq!(
        runs(&blocks(&[(0, 2)]), 4608, 12 * KIB + 512),
        [(8 * KIB - 4608, false), (4 * KIB + 512, true)],
    );
    // Data has no end of its own where it is longer than a piece.
    assert_eq!(runs(&blocks(&[(0, 256)]), 0, whole), [(whole, false)]);
    let spread: Vec<_> = (0..64).map(|index| (4 * index, 4 * index + 1)).collect();
    let found = runs(&blocks(&spread), 0, whole);
    assert!(
        found.iter().all(|(length, is_hole)| !is_hole || *length == 12 * KIB),
        "{found:?}"
    );
    assert_eq!(found.iter().map(|(length, _)| length).sum::<u64>(), whole);
}
