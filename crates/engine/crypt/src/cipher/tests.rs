use super::*;
use amita_types::Generation;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn cipher(seed: u8) -> BlockCipher {
    let mut next = seed;
    BlockCipher::new(&DataKey::generate(&mut |bytes: &mut [u8]| {
        for byte in bytes {
            next = next.wrapping_mul(5).wrapping_add(17);
            *byte = next;
        }
    }))
}

fn version(generation: u32, counter: u64) -> Version {
    Version::new(Generation(generation), counter).unwrap()
}

fn place(chunk: u64, block: u16) -> Place {
    Place::new(ChunkIndex(chunk), BlockIndex(block)).unwrap()
}

fn encrypt(cipher: &BlockCipher, place: Place, version: Version, plain: &[u8]) -> Vec<u8> {
    let mut sealed = vec![0; UNIT];
    cipher.encrypt(place, version, plain, &mut sealed);
    sealed
}

fn decrypt(cipher: &BlockCipher, place: Place, version: Version, sealed: &[u8]) -> Vec<u8> {
    let mut plain = vec![0; UNIT];
    cipher.decrypt(place, version, sealed, &mut plain);
    plain
}

/// How many of the AES blocks are the same.
fn same(one: &[u8], other: &[u8]) -> usize {
    let pairs = one.chunks(16).zip(other.chunks(16));
    pairs.filter(|(one, other)| one == other).count()
}

#[test]
fn the_tweak_is_version_above_place() {
    // By hand: generation 2, counter 3; chunk 5, block 6 of 1,024.
    let tweak = tweak(place(5, 6), version(2, 3));
    assert_eq!(tweak, (2_u128 << 40 | 3) << 64 | (5 * 1024 + 6));
    let expected = cipher(1);
    let plain = [7; UNIT];
    let mut sealed = [0; UNIT];
    expected.0.encrypt(tweak, &plain, &mut sealed);
    assert!(encrypt(&expected, place(5, 6), version(2, 3), &plain) == sealed);
}

#[test]
fn a_place_is_one_block_of_one_chunk() {
    assert_eq!(Place::new(ChunkIndex(0), BlockIndex(1024)), None);
    assert_eq!(Place::new(ChunkIndex(u64::MAX / 1024 + 1), BlockIndex(0)), None);
    assert_eq!(Place::new(ChunkIndex(u64::MAX), BlockIndex(1023)), None);
    // The last chunk of the largest volume that 64 bits of bytes can have, in chunks of one block.
    assert!(Place::new(ChunkIndex(u64::MAX / 4096), BlockIndex(0)).is_some());
    let all = (0..4).flat_map(|chunk| (0..1024).map(move |block| place(chunk, block)));
    assert_eq!(all.collect::<BTreeSet<_>>().len(), 4096);
}

#[test]
fn what_opens_under_anything_else_is_noise() {
    let (one, other) = (cipher(1), cipher(2));
    let (at, when) = (place(9, 8), version(3, 77));
    let plain: Vec<u8> = (0..UNIT).map(|at| (at / 16) as u8).collect();
    let sealed = encrypt(&one, at, when, &plain);
    assert!(decrypt(&one, at, when, &sealed) == plain);
    assert_eq!(same(&sealed, &plain), 0);
    let wrong = [
        decrypt(&other, at, when, &sealed),
        decrypt(&one, place(9, 9), when, &sealed),
        decrypt(&one, place(8, 8), when, &sealed),
        decrypt(&one, at, version(3, 78), &sealed),
        decrypt(&one, at, version(4, 77), &sealed),
    ];
    for noise in wrong {
        assert_eq!(same(&noise, &plain), 0);
    }
}

#[test]
fn the_same_bytes_again_look_like_others() {
    let cipher = cipher(1);
    let plain = [0; UNIT];
    let mut seen = BTreeSet::new();
    for counter in 1..=4 {
        for block in 0..4 {
            let sealed = encrypt(&cipher, place(0, block), version(1, counter), &plain);
            for part in sealed.chunks(16) {
                assert!(seen.insert(part.to_vec()), "an AES block twice");
            }
        }
    }
}

/// What a store that lies can do with XTS, and what not: the decision rests on it.
#[test]
fn a_changed_byte_spoils_sixteen() {
    let cipher = cipher(3);
    let plain = [5; UNIT];
    let mut sealed = encrypt(&cipher, place(1, 1), version(1, 1), &plain);
    sealed[100] ^= 1;
    let opened = decrypt(&cipher, place(1, 1), version(1, 1), &sealed);
    assert_eq!(same(&opened, &plain), UNIT / 16 - 1);
    assert!(opened[..96] == plain[..96] && opened[112..] == plain[112..]);
}

#[test]
#[should_panic(expected = "whole blocks, with a version")]
fn half_a_block_is_not_encrypted() {
    cipher(1).encrypt(place(0, 0), version(1, 1), &[0; 2048], &mut [0; 2048]);
}

#[test]
#[should_panic(expected = "whole blocks, with a version")]
fn a_hole_is_not_decrypted() {
    cipher(1).decrypt(place(0, 0), Version::NONE, &[0; UNIT], &mut [0; UNIT]);
}

proptest! {
    #[test]
    fn no_tweak_is_of_two_places_or_versions(
        one in (0_u64..1 << 40, 0_u16..1024, 0_u32..1 << 24, 0_u64..1 << 40),
        other in (0_u64..1 << 40, 0_u16..1024, 0_u32..1 << 24, 0_u64..1 << 40),
    ) {
        let of = |(chunk, block, generation, counter)| tweak(place(chunk, block), version(generation, counter));
        prop_assert_eq!(of(one) == of(other), one == other);
    }
}
