//! Heads, and the writer against answers of every sort. Against a real store: `tests/memo.rs`.

use super::page::Head;
use super::*;
use proptest::prelude::*;

fn head() -> Head {
    Head {
        number: 7,
        life: 2,
        revision: 0x0102_0304_0506,
        length_bytes: 5000,
        sum: 0x9192_9394,
    }
}

#[test]
fn a_first_page_says_what_was_written() {
    assert_eq!(Head::decode(&head().encode()), Some(head()));
    assert_eq!(Head::decode(&[0; 4096]), None);
    assert_eq!(Head::decode(&[]), None);
    let too_long = Head {
        length_bytes: MAX_CONTENT_BYTES + 1,
        ..head()
    };
    assert_eq!(Head::decode(&too_long.encode()), None, "no place holds that much");
}

proptest! {
    #[test]
    fn any_flipped_bit_of_a_first_page_is_found(at in 0..4096usize, bit in 0..8u8) {
        let mut page = head().encode();
        page[at] ^= 1 << bit;
        prop_assert_eq!(Head::decode(&page), None);
    }
}

#[test]
fn places_do_not_overlap_and_lie_in_whole_chunks() {
    let last = MAX_CONTENT_BYTES / 4096 - 1;
    assert_eq!(head_position(0), (ChunkIndex(0), BlockIndex(0)));
    assert_eq!(content_position(0, 0), (ChunkIndex(0), BlockIndex(1)));
    assert_eq!(
        content_position(0, last),
        (ChunkIndex(PLACE_CHUNKS - 1), BlockIndex(1023))
    );
    assert_eq!(head_position(1), (ChunkIndex(PLACE_CHUNKS), BlockIndex(0)));
}
