use super::*;
use amita_types::VolumeId;
use amita_types::map::{KeyName, KeyNumber};
use proptest::prelude::*;

fn key(number: u32) -> KeyName {
    KeyName {
        volume: VolumeId(1),
        image: VolumeId(1),
        number: KeyNumber(number),
    }
}

fn version(generation: u32) -> Version {
    Version::new(Generation(generation), 7).unwrap()
}

fn rewrite() -> Rewrite {
    let ring = KeyRing::new(key(1)).rekeyed(Generation(5), key(2)).unwrap();
    Rewrite::begin(&ring).unwrap()
}

fn run(blocks: u16, generation: u32) -> Run {
    let version = if generation == 0 {
        Version::NONE
    } else {
        version(generation)
    };
    Run { blocks, version }
}

#[test]
fn one_key_needs_none() {
    assert_eq!(Rewrite::begin(&KeyRing::new(key(1))), None);
}

#[test]
fn what_is_older_is_found_beside_one_another() {
    let runs = [
        run(2, 4),
        run(1, 3),
        run(3, 5),
        run(1, 0),
        run(2, 1),
        run(0, 1),
        run(1, 4),
        run(4, 6),
    ];
    let stale = rewrite().stale(BlockIndex(10), &runs);
    assert_eq!(stale, [BlockRange::new(10, 3), BlockRange::new(17, 3)]);
    assert!(rewrite().stale(BlockIndex(0), &[run(8, 5), run(8, 0)]).is_empty());
}

#[test]
fn the_mark_moves_chunk_by_chunk() {
    let mut rewrite = rewrite();
    assert!(!rewrite.done(ChunkIndex(1)), "chunk 0 is before it");
    assert!(rewrite.done(ChunkIndex(0)) && rewrite.done(ChunkIndex(1)));
    assert!(!rewrite.done(ChunkIndex(0)), "a second time");
    assert!(!rewrite.is_done(3));
    assert!(rewrite.done(ChunkIndex(2)) && rewrite.is_done(3));
    // A volume that has grown since has all it got with the new key; one that shrank is done as well.
    assert!(rewrite.is_done(2));
}

#[test]
fn a_newer_key_begins_again() {
    let ring = KeyRing::new(key(1)).rekeyed(Generation(5), key(2)).unwrap();
    let ring = ring.rekeyed(Generation(8), key(3)).unwrap();
    let again = Rewrite::begin(&ring).unwrap();
    let from = Generation(8);
    assert_eq!(
        again,
        Rewrite {
            from,
            next: ChunkIndex(0)
        }
    );
    assert!(again.is_stale(version(5)) && !again.is_stale(version(8)));
}

#[test]
fn it_stands_in_the_volumes_record() {
    let text = serde_json::to_string(&rewrite()).unwrap();
    assert_eq!(text, r#"{"from":5,"next":0}"#);
    assert_eq!(serde_json::from_str::<Rewrite>(&text).unwrap(), rewrite());
}

proptest! {
    /// Block by block it is the same.
    #[test]
    fn every_block_that_is_older_and_no_other(first in 0_u16..500, runs in prop::collection::vec((0_u16..5, 0_u32..8), 0..40)) {
        let runs: Vec<Run> = runs.into_iter().map(|(blocks, generation)| run(blocks, generation)).collect();
        let rewrite = rewrite();
        let versions = runs.iter().flat_map(|run| (0..run.blocks).map(|_| run.version));
        let blocks = versions.zip(first..).filter(|(version, _)| rewrite.is_stale(*version)).map(|(_, block)| block);
        let found: Vec<u16> = rewrite.stale(BlockIndex(first), &runs).iter().flat_map(|range| range.iter()).map(|block| block.0).collect();
        prop_assert_eq!(found, blocks.collect::<Vec<_>>());
        let ranges = rewrite.stale(BlockIndex(first), &runs);
        prop_assert!(ranges.windows(2).all(|pair| pair[0].end() < u32::from(pair[1].first.0)), "neighbours are one");
    }
}
