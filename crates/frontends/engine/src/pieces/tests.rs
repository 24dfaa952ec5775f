use super::*;
use amita_types::{BlockRange, MAX_IO_BLOCKS};
use proptest::prelude::*;

fn covers(list: &[Piece], offset: u64, end: u64) {
    let mut at = offset;
    for piece in list {
        assert_eq!(piece.offset, at, "no gap and no overlap");
        assert!(piece.length > 0);
        at += u64::from(piece.length);
    }
    assert_eq!(at, end);
}

fn in_one_chunk(piece: &Piece, chunk: u32) -> bool {
    let chunk = u64::from(chunk);
    piece.offset / chunk == (piece.offset + u64::from(piece.length) - 1) / chunk
}

#[test]
fn an_aligned_range_is_cut_at_the_longest_io_and_at_chunks() {
    let chunk = 4 << 20;
    let list: Vec<_> = pieces(4096, 128 * 1024, chunk).collect();
    assert_eq!(
        list,
        [Piece {
            offset: 4096,
            length: 128 * 1024
        }],
        "an aligned range of the longest I/O is one piece"
    );
    let list: Vec<_> = pieces((4 << 20) - 4096, 8192, chunk).collect();
    assert_eq!(
        list,
        [
            Piece {
                offset: (4 << 20) - 4096,
                length: 4096
            },
            Piece {
                offset: 4 << 20,
                length: 4096
            }
        ],
        "a chunk's end is a cut"
    );
}

#[test]
fn the_last_bytes_of_the_address_space_are_cut_without_overflow() {
    let list: Vec<_> = pieces(u64::MAX - 10, 100, 4096).collect();
    covers(&list, u64::MAX - 10, u64::MAX);
    assert_eq!(clears(u64::MAX - 10, 100, 4096).count(), 0);
}

#[test]
fn trims_leave_partial_blocks_alone() {
    assert_eq!(clears(1, 4095, 1 << 20).count(), 0, "no whole block inside");
    assert_eq!(
        clears(1, 8191, 1 << 20).collect::<Vec<_>>(),
        [Piece {
            offset: 4096,
            length: 4096
        }]
    );
    assert_eq!(
        clears(0, 3 << 20, 2 << 20).count(),
        2,
        "one piece a chunk, however long"
    );
}

proptest! {
    #[test]
    fn pieces_cover_the_range_and_obey_the_limits(
        offset in 0u64..1 << 40, length in 0u64..8 << 20, shift in 12u32..23,
    ) {
        let chunk = 1u32 << shift;
        let list: Vec<_> = pieces(offset, length, chunk).collect();
        covers(&list, offset, offset + length);
        for piece in &list {
            prop_assert!(piece.length <= MAX_IO_BYTES);
            prop_assert!(in_one_chunk(piece, chunk));
            let inside = (piece.offset % u64::from(chunk)) as u32;
            prop_assert!(u32::from(BlockRange::of_bytes(inside, piece.length).count) <= MAX_IO_BLOCKS);
        }
        for piece in list.iter().skip(1) {
            prop_assert!(piece.offset.is_multiple_of(BLOCK), "only the two ends may be parts of blocks");
        }
    }

    #[test]
    fn zeroes_cover_the_range_and_clear_whole_blocks_only(
        offset in 0u64..1 << 40, length in 0u64..8 << 20, shift in 12u32..23, holes: bool,
    ) {
        let chunk = 1u32 << shift;
        let mut list = Vec::new();
        let mut cleared = 0;
        for step in zeroes(offset, length, chunk, holes) {
            match step {
                ZeroStep::Clear(piece) => {
                    prop_assert!(holes);
                    prop_assert!(!has_partial_blocks(piece.offset, piece.length.into()));
                    cleared += u64::from(piece.length);
                    list.push(piece);
                }
                ZeroStep::Write(piece) => {
                    prop_assert!(piece.length <= MAX_IO_BYTES);
                    list.push(piece);
                }
            }
        }
        covers(&list, offset, offset + length);
        for piece in &list {
            prop_assert!(in_one_chunk(piece, chunk));
        }
        let trimmed: u64 = clears(offset, length, chunk).map(|piece| u64::from(piece.length)).sum();
        prop_assert_eq!(cleared, if holes { trimmed } else { 0 }, "a trim takes exactly what write-zeroes may clear");
    }
}
