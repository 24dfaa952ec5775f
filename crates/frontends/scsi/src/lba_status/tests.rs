use super::*;
use crate::sense::code;
use crate::testing::{CHUNK_BYTES, Host, SIZE_BYTES, sixteen};
use proptest::prelude::*;

fn status_of(host: &mut Host, lba: u64, allocation: u32) -> LbaStatus {
    match host.send(0, &sixteen(0x9e, 0x12, lba, allocation)) {
        Plan::Blocks(status) => status,
        other => panic!("no status: {other:?}"),
    }
}

/// Answers all that is asked, by a map of 4 KiB blocks.
fn run(mut status: LbaStatus, is_mapped: impl Fn(u64) -> bool) -> (Vec<(u64, u32, u8)>, Vec<u8>) {
    while let Some(offset) = status.next() {
        let chunk = offset / u64::from(CHUNK_BYTES) * 1024;
        let mut bits = [0_u64; 16];
        for block in (0..1024).filter(|block| is_mapped(chunk + block)) {
            bits[(block / 64) as usize] |= 1 << (block % 64);
        }
        status.found((bits != [0; 16]).then_some(&bits));
    }
    let data = status.answer().data;
    let descriptors = data.get(8..).unwrap_or_default().chunks_exact(16);
    let descriptors = descriptors.map(|bytes| {
        let lba = crate::block::be_u64(bytes);
        (lba, crate::block::be_u32(&bytes[8..]), bytes[12])
    });
    (descriptors.collect(), data)
}

#[test]
fn mapped_and_not() {
    let mut host = Host::one();
    let (found, data) = run(status_of(&mut host, 0, 1024), |block| block < 2 || block == 1024);
    assert_eq!(
        found,
        [(0, 16, 0), (16, 8176, 1), (8192, 8, 0), (8200, 131_072 - 8200, 1)]
    );
    assert_eq!(data[..8], [0, 0, 0, 4 + 64, 0, 0, 0, 0]);
}

#[test]
fn it_begins_at_the_block_that_was_asked_for() {
    let mut host = Host::one();
    let (found, _) = run(status_of(&mut host, 3, 24), |block| block == 0);
    assert_eq!(
        found,
        [(3, 5, 0)],
        "as much as there is room for, inside a physical block"
    );
    let (found, _) = run(status_of(&mut host, 131_071, 1024), |_| true);
    assert_eq!(found, [(131_071, 1, 0)]);
    let sense = host.sense(0, &sixteen(0x9e, 0x12, 131_072, 24));
    assert_eq!((sense.code, sense.information), (code::LBA_OUT_OF_RANGE, Some(131_072)));
}

#[test]
fn no_room_asks_for_nothing() {
    let mut host = Host::one();
    for allocation in [0, 7, 8, 23] {
        let status = status_of(&mut host, 0, allocation);
        assert_eq!(status.next(), None);
        assert_eq!(status.answer().data.len(), usize::min(8, allocation as usize));
    }
}

#[test]
fn a_long_volume_is_told_in_parts() {
    let mut host = Host::one();
    host.change(|unit| unit.size_bytes = 1 << 44);
    host.settle();
    let mut status = status_of(&mut host, 0, 1024);
    let mut chunks = 0;
    while status.next().is_some() {
        status.found(None);
        chunks += 1;
    }
    assert_eq!(chunks, MAX_CHUNKS);
    assert_eq!(status.answer().data[16..21], [0, 0x20, 0, 0, 1], "1 GiB");
}

proptest! {
    #[test]
    fn runs_are_those_of_the_map(
        map in proptest::collection::vec(any::<bool>(), 64), lba in 0..SIZE_BYTES / 512, room in 1..40_u32,
    ) {
        let mut host = Host::one();
        // A bit for 1 MiB: 256 blocks of 4 KiB, 2,048 of 512 bytes.
        let (found, _) = run(status_of(&mut host, lba, 8 + 16 * room), |block| map[(block / 256) as usize]);
        prop_assert!(!found.is_empty() && found.len() <= room as usize);
        let mut next = lba;
        for (first, count, status) in found {
            prop_assert_eq!(first, next);
            for block in [first, first + u64::from(count) - 1] {
                prop_assert_eq!(status == 0, map[(block / 2048) as usize]);
            }
            next = first + u64::from(count);
        }
        prop_assert!(next <= SIZE_BYTES / 512);
    }
}
