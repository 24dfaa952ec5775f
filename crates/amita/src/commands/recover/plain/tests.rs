//! What is taken for plain.

use super::is_plain;
use aws_lc_rs::digest::{SHA256, digest};

/// As ciphertext is: nothing in it tells one value from another.
fn noise(seed: u64) -> Vec<u8> {
    let part = |at: u64| {
        let of = [seed.to_le_bytes(), at.to_le_bytes()].concat();
        digest(&SHA256, &of).as_ref().to_vec()
    };
    (0..128).flat_map(part).collect()
}

#[test]
fn what_has_no_structure_is_never_taken_for_plain() {
    for seed in 0..1000 {
        let block = noise(seed);
        assert_eq!(block.len(), 4096);
        assert!(!is_plain(&block), "block {seed}");
    }
}

#[test]
fn what_hosts_write_is() {
    assert!(is_plain(&[0; 4096]), "zeros");
    let text = "a line of a log\n".repeat(256);
    assert!(is_plain(text.as_bytes()), "text");
    // A file system's, an archive's or LUKS's header: something, and nothing behind.
    let mut header = noise(1);
    header[3900..].fill(0);
    assert!(is_plain(&header), "a tail of zeros");
    let numbers: Vec<u8> = (0..1024_u32).flat_map(|at| (at * 977).to_le_bytes()).collect();
    assert!(is_plain(&numbers), "a table of numbers");
}
