use super::vectors::{DATA_KEY, TWEAK_KEY, VECTORS};
use super::*;
use aes::Aes256;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use proptest::prelude::*;
use std::sync::Barrier;
use std::thread;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().map(|digit| digit.to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn key(hex: &str) -> [u8; KEY_BYTES] {
    bytes(hex).try_into().unwrap()
}

fn encrypt(xts: &Xts, tweak: u128, plain: &[u8]) -> Vec<u8> {
    let mut sealed = vec![0xee; plain.len()];
    xts.encrypt(tweak, plain, &mut sealed);
    sealed
}

fn decrypt(xts: &Xts, tweak: u128, sealed: &[u8]) -> Vec<u8> {
    let mut plain = vec![0xee; sealed.len()];
    xts.decrypt(tweak, sealed, &mut plain);
    plain
}

#[test]
fn known_answers_of_ieee_1619() {
    let xts = Xts::new(&key(DATA_KEY), &key(TWEAK_KEY));
    let plain: Vec<u8> = (0..512).map(|at| at as u8).collect();
    for (number, sealed) in VECTORS {
        let sealed = bytes(sealed);
        assert_eq!(sealed.len(), 512, "unit {number:x}");
        assert!(encrypt(&xts, number, &plain) == sealed, "unit {number:x}");
        assert!(decrypt(&xts, number, &sealed) == plain, "unit {number:x}");
    }
}

/// FIPS 197, C.3: with a tweak key and a tweak of their own this is all that XTS adds to AES-256.
#[test]
fn it_is_aes_between_masks() {
    let data: Vec<u8> = (0..32).collect();
    let (plain, sealed) = (
        bytes("00112233445566778899aabbccddeeff"),
        bytes("8ea2b7ca516745bfeafc49904b496089"),
    );
    let xts = Xts::new(&data[..].try_into().unwrap(), &key(TWEAK_KEY));
    let mut mask = Array(77_u128.to_le_bytes());
    Aes256::new(&key(TWEAK_KEY).into()).encrypt_block(&mut mask);
    let masked = |bytes: &[u8]| -> Vec<u8> { bytes.iter().zip(mask).map(|(byte, mask)| byte ^ mask).collect() };
    assert_eq!(encrypt(&xts, 77, &masked(&plain)), masked(&sealed));
}

/// Each thread gets what one thread alone gets, in both directions, while others work with the same keys.
#[test]
fn threads_share_the_keys() {
    const THREADS: u128 = 8;
    const UNITS: u128 = 200;
    let xts = Xts::new(&key(DATA_KEY), &key(TWEAK_KEY));
    let plain = |number: u128| -> Vec<u8> { (0..4096).map(|at| (at as u128 * 31 + number) as u8).collect() };
    let alone: Vec<Vec<u8>> = (0..THREADS * UNITS)
        .map(|number| encrypt(&xts, number << 64 | number, &plain(number)))
        .collect();
    let start = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (xts, alone, start) = (&xts, &alone, &start);
            scope.spawn(move || {
                start.wait();
                for number in thread * UNITS..(thread + 1) * UNITS {
                    let tweak = number << 64 | number;
                    let sealed = encrypt(xts, tweak, &plain(number));
                    assert!(sealed == alone[number as usize], "unit {number}");
                    assert!(decrypt(xts, tweak, &sealed) == plain(number), "unit {number}");
                }
            });
        }
    });
}

#[test]
fn it_goes_to_other_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Xts>();
}

#[test]
#[should_panic(expected = "both halves are the same")]
fn equal_halves_are_refused() {
    Xts::new(&[1; 32], &[1; 32]);
}

#[test]
#[should_panic(expected = "a unit of 32 bytes into 16")]
fn both_units_are_as_long() {
    Xts::new(&[1; 32], &[2; 32]).encrypt(0, &[0; 32], &mut [0; 16]);
}

#[test]
#[should_panic(expected = "a unit of 0 bytes")]
fn an_empty_unit_is_none() {
    Xts::new(&[1; 32], &[2; 32]).encrypt(0, &[], &mut []);
}

#[test]
#[should_panic(expected = "a unit of 24 bytes")]
fn a_unit_is_of_whole_aes_blocks() {
    Xts::new(&[1; 32], &[2; 32]).decrypt(0, &[0; 24], &mut [0; 24]);
}

#[test]
#[should_panic(expected = "a unit of 4112 bytes")]
fn a_unit_is_a_block_at_most() {
    Xts::new(&[1; 32], &[2; 32]).encrypt(0, &[0; 4112], &mut [0; 4112]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Another implementation gives the same, for units of any length.
    #[test]
    fn another_implementation_agrees(
        data: [u8; 32], second: [u8; 32], tweak: u128, seed: [u8; 16], blocks in 1_usize..=MAX_BLOCKS,
    ) {
        let plain: Vec<u8> = (0..blocks * 16).map(|at| seed[at % 16] ^ (at / 16) as u8).collect();
        let theirs = xts_mode::Xts128::new(Aes256::new(&data.into()), Aes256::new(&second.into()));
        let mut sealed = plain.clone();
        theirs.encrypt_sector(&mut sealed, Array(tweak.to_le_bytes()));
        let ours = Xts::new(&data, &second);
        prop_assert!(encrypt(&ours, tweak, &plain) == sealed);
        prop_assert!(decrypt(&ours, tweak, &sealed) == plain);
    }
}
