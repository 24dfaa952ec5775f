use super::*;

#[test]
fn what_was_filled_is_read_back() {
    let mut bytes = vec![0xaa; 3 * SECTOR_BYTES];
    fill(&mut bytes, 7, Sector(21), Stamp(9));
    assert_eq!(parse(&bytes, 7, Sector(21)), Ok(vec![Stamp(9); 3]));
    assert_eq!(parse(&[0; SECTOR_BYTES], 7, Sector(5)), Ok(vec![Stamp::ZERO]));
}

#[test]
fn any_flipped_bit_is_seen() {
    let mut good = vec![0; SECTOR_BYTES];
    fill(&mut good, 1, Sector(2), Stamp(3));
    for bit in 0..SECTOR_BYTES * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(parse_sector(&bad, 1, Sector(2)).is_err(), "bit {bit}");
    }
    let mut torn = good.clone();
    torn[256..].fill(0);
    assert!(
        parse_sector(&torn, 1, Sector(2)).is_err(),
        "half a sector of zeros is torn"
    );
}

#[test]
fn a_sector_in_the_wrong_place_is_named() {
    let mut bytes = vec![0; SECTOR_BYTES];
    fill(&mut bytes, 1, Sector(2), Stamp(3));
    let misplaced = |sector| {
        Err(Corrupt::Misplaced {
            sector,
            belongs: (1, Sector(2)),
            stamp: Stamp(3),
        })
    };
    assert_eq!(parse_sector(&bytes, 1, Sector(4)), misplaced(Sector(4)));
    assert_eq!(parse_sector(&bytes, 2, Sector(2)), misplaced(Sector(2)));
}
