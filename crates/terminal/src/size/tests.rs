use super::{parse, parse_blocks, show};

#[test]
fn sizes_are_read_with_and_without_units() {
    assert_eq!(parse("4096"), Ok(4096));
    assert_eq!(parse("64K"), Ok(64 << 10));
    assert_eq!(parse("1.5g"), Ok(3 << 29));
    assert_eq!(parse("2TiB"), Ok(2 << 40));
    assert_eq!(parse("10 MB"), Ok(10 << 20));
}

#[test]
fn what_is_no_size_is_refused_with_words() {
    for text in ["", "K", "1X", "-1", "1..2", "99999999999999999999", "1e3"] {
        assert!(parse(text).is_err(), "{text:?} was taken for a size");
    }
    assert!(parse("17179869184G").unwrap_err().contains("too large"));
}

#[test]
fn a_size_that_is_no_multiple_of_the_block_names_its_neighbours() {
    let error = parse_blocks("10000").unwrap_err();
    assert!(error.contains("8192") && error.contains("12288"), "{error}");
    assert!(parse_blocks("0").is_err());
    let largest = parse_blocks("18446744073709551615").unwrap_err();
    assert!(largest.ends_with("the nearest is 18446744073709547520"), "{largest}");
    assert_eq!(parse_blocks("8K"), Ok(8192));
}

#[test]
fn sizes_are_shown_short() {
    assert_eq!(show(0), "0 B");
    assert_eq!(show(1 << 30), "1 GiB");
    assert_eq!(show(3 << 29), "1.5 GiB");
}
