use super::*;
use amita_testkit::Random;
use amita_types::VolumeId;
use amita_types::map::KeyNumber;

fn name(image: u64, number: u32) -> KeyName {
    KeyName {
        volume: VolumeId(image),
        image: VolumeId(image),
        number: KeyNumber(number),
    }
}

fn data_key(seed: u64) -> DataKey {
    let mut random = Random::new(seed);
    DataKey::generate(&mut |bytes: &mut [u8]| bytes.fill_with(|| random.bits() as u8))
}

fn version(generation: u32, counter: u64) -> Version {
    Version::new(Generation(generation), counter).unwrap()
}

fn run(blocks: u16, version: Version) -> Run {
    Run { blocks, version }
}

const CHUNK: ChunkIndex = ChunkIndex(11);

/// Keys 1 up to generation 4, and 2 from 5 on.
fn keychain() -> Keychain {
    let ring = KeyRing::new(name(1, 1)).rekeyed(Generation(5), name(1, 2)).unwrap();
    Keychain::new(&ring, vec![(name(1, 2), data_key(2)), (name(1, 1), data_key(1))]).unwrap()
}

fn older() -> Keychain {
    Keychain::new(&KeyRing::new(name(1, 1)), vec![(name(1, 1), data_key(1))]).unwrap()
}

fn plain(blocks: u16, seed: u8) -> Vec<u8> {
    (0..usize::from(blocks) * UNIT)
        .map(|at| (at / UNIT) as u8 ^ seed)
        .collect()
}

fn seal(keychain: &Keychain, range: BlockRange, version: Version, plain: &[u8]) -> Result<Vec<u8>, SealError> {
    let mut sealed = vec![0; plain.len()];
    keychain
        .seal((CHUNK, range), version, plain, &mut sealed)
        .map(|()| sealed)
}

fn open(keychain: &Keychain, range: BlockRange, runs: &[Run], sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
    let mut plain = vec![0xee; sealed.len()];
    keychain.open((CHUNK, range), runs, sealed, &mut plain).map(|()| plain)
}

#[test]
fn a_read_finds_blocks_of_several_writes_and_keys_and_holes() {
    let (before, now) = (older(), keychain());
    let old = seal(&before, BlockRange::new(3, 4), version(4, 9), &plain(4, 1)).unwrap();
    let new = seal(&now, BlockRange::new(5, 1), version(5, 10), &plain(1, 2)).unwrap();
    // Blocks 3 to 8: two of the old write, one of the new one, the old one's last, and two that were never written or cleared.
    let sealed = [&old[..2 * UNIT], &new, &old[3 * UNIT..], &[0; 2 * UNIT]].concat();
    let runs = [
        run(2, version(4, 9)),
        run(1, version(5, 10)),
        run(1, version(4, 9)),
        run(2, Version::NONE),
    ];
    let found = open(&now, BlockRange::new(3, 6), &runs, &sealed).unwrap();
    let expected = [
        &plain(4, 1)[..2 * UNIT],
        &plain(1, 2),
        &plain(4, 1)[3 * UNIT..],
        &[0; 2 * UNIT],
    ]
    .concat();
    assert!(found == expected);
    // A part of it, as another read has it.
    let found = open(
        &now,
        BlockRange::new(4, 1),
        &runs[..1].iter().map(|one| run(1, one.version)).collect::<Vec<_>>(),
        &old[UNIT..2 * UNIT],
    );
    assert!(found.unwrap() == plain(4, 1)[UNIT..2 * UNIT]);
}

#[test]
fn writes_have_the_newest_key_or_none() {
    let keychain = keychain();
    let range = BlockRange::new(0, 1);
    for old in [version(4, 1), version(1, 1), Version::NONE] {
        let from = Generation(5);
        let refused = seal(&keychain, range, old, &plain(1, 0)).unwrap_err();
        assert_eq!(refused, SealError::Era { version: old, from });
    }
    assert!(seal(&keychain, range, version(5, 1), &plain(1, 0)).is_ok());
    assert!(seal(&keychain, range, version(6, 1), &plain(1, 0)).is_ok());
}

#[test]
fn only_whole_blocks_of_a_chunk_are_encrypted() {
    let keychain = keychain();
    let refused = |range: BlockRange, bytes: usize| {
        let blocks = range.count;
        let shape = SealError::Shape { bytes, blocks };
        assert_eq!(
            seal(&keychain, range, version(5, 1), &vec![0; bytes]).unwrap_err(),
            shape
        );
    };
    refused(BlockRange::new(0, 1), 512);
    refused(BlockRange::new(0, 1), 2 * UNIT);
    refused(BlockRange::new(0, 2), UNIT);
    refused(BlockRange::new(0, 2), 2 * UNIT - 1);
    refused(BlockRange::new(1023, 2), 2 * UNIT);
}

#[test]
fn an_answer_that_no_store_gives_is_refused() {
    let keychain = keychain();
    let (range, when) = (BlockRange::new(0, 2), version(5, 1));
    let sealed = seal(&keychain, range, when, &plain(2, 0)).unwrap();
    let refused = |runs: &[Run], sealed: &[u8]| open(&keychain, range, runs, sealed).unwrap_err();
    let shape = |bytes, versioned| OpenError::Shape {
        bytes,
        versioned,
        blocks: 2,
    };
    assert_eq!(refused(&[], &sealed), shape(2 * UNIT, 0));
    assert_eq!(refused(&[run(1, when)], &sealed), shape(2 * UNIT, 1));
    assert_eq!(refused(&[run(2, when), run(1, when)], &sealed), shape(2 * UNIT, 3));
    assert_eq!(
        refused(&[run(u16::MAX, when), run(3, when)], &sealed),
        shape(2 * UNIT, 65_538)
    );
    assert_eq!(refused(&[run(2, when)], &sealed[..UNIT]), shape(UNIT, 2));
    // Ciphertext that is called a hole would be served as it is, or hide data.
    let hole = OpenError::Hole { block: BlockIndex(1) };
    assert_eq!(refused(&[run(1, when), run(1, Version::NONE)], &sealed), hole);
}

/// S15: a hole is no ciphertext, and zeros that a host has written are not a hole.
#[test]
fn zeros_that_were_written_are_encrypted() {
    let keychain = keychain();
    let range = BlockRange::new(0, 1);
    let zeros = [0; UNIT];
    let sealed = seal(&keychain, range, version(5, 1), &zeros).unwrap();
    assert!(sealed != zeros);
    assert!(open(&keychain, range, &[run(1, version(5, 1))], &sealed).unwrap() == zeros);
    assert!(open(&keychain, range, &[run(1, Version::NONE)], &zeros).unwrap() == zeros);
}

#[test]
fn a_volume_waits_for_all_its_keys() {
    let ring = KeyRing::new(name(1, 1)).rekeyed(Generation(5), name(1, 2)).unwrap();
    let missing = |keys| Keychain::new(&ring, keys).unwrap_err();
    assert_eq!(missing(vec![]).missing, [name(1, 1), name(1, 2)]);
    let one = missing(vec![(name(1, 2), data_key(2)), (name(2, 1), data_key(3))]);
    assert_eq!(one.missing, [name(1, 1)]);
    assert_eq!(
        one.to_string(),
        "1 of 2 data keys are not there, the first of them 1 of volume 1 (image 1)"
    );
}

/// A key that is another one than its record says would open as noise; that is why it is checked before it gets here.
#[test]
fn a_wrong_key_gives_noise() {
    let range = BlockRange::new(0, 1);
    let sealed = seal(&older(), range, version(1, 1), &plain(1, 7)).unwrap();
    let wrong = Keychain::new(&KeyRing::new(name(1, 1)), vec![(name(1, 1), data_key(9))]).unwrap();
    let noise = open(&wrong, range, &[run(1, version(1, 1))], &sealed).unwrap();
    let expected = plain(1, 7);
    assert!(
        noise
            .chunks(16)
            .zip(expected.chunks(16))
            .all(|(one, other)| one != other)
    );
}
