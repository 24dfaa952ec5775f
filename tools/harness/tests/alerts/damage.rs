//! Bytes that rot on a disk, and a sector that takes no others.

use crate::disks::on_faulty_disks;
use crate::world::{Plan, VOLUME, World};
use amita_harness::faulty_disk::DiskFaults;
use std::os::unix::fs::FileExt;
use std::path::Path;

fn block() -> Vec<u8> {
    (0..4096_u32).map(|number| (number * 31 + 7) as u8).collect()
}

/// Where these bytes lie in a store's file.
fn places(path: &Path, bytes: &[u8]) -> Vec<u64> {
    let image = std::fs::read(path).expect("read");
    let blocks = (0_u64..).zip(image.chunks_exact(4096));
    let found: Vec<u64> = blocks
        .filter(|(_, block)| *block == bytes)
        .map(|(place, _)| place * 4096)
        .collect();
    assert!(!found.is_empty(), "the block lies on the store as it is");
    found
}

/// Flips a bit of the copy of these bytes, wherever they lie.
fn rots(path: &Path, bytes: &[u8]) {
    let file = std::fs::OpenOptions::new().write(true).open(path).expect("opened");
    for place in places(path, bytes) {
        file.write_all_at(&[bytes[1000] ^ 4], place + 1000).expect("flipped");
    }
    file.sync_all().expect("on the disk");
}

#[test]
#[ignore = "minutes, on a machine that does nothing else"]
fn a_scrub_finds_rot() {
    let mut world = World::of(Plan::default());
    let mut client = world.open(0);
    let block = block();
    client.write(0, &block).expect("written");
    world.fault("a bit of a store's file is flipped, and a scrub finds it");
    rots(&world.cluster.nodes()[1].stores[0], &block);
    let found = world.json(&["volume", "scrub", VOLUME]);
    assert_eq!(found["report"]["repaired"], 1, "{found}");
    world.fires("AmitaCopiesDamaged", VOLUME);
    // It was repaired by the scrub.
    world.mended();
    world.ends("AmitaCopiesDamaged");
    client.close();
    world.is_quiet();
}

/// A block of a snapshot is put right where it lies, if its disk takes it.
#[test]
#[ignore = "minutes, on a machine that does nothing else"]
fn a_sector_stays_bad() {
    let (mut world, disks) = on_faulty_disks(&[]);
    let mut client = world.open(0);
    let block = block();
    client.write(0, &block).expect("written");
    world.done(&["volume", "snapshot", "create", VOLUME, "before"]);
    client.write(0, &[9; 4096]).expect("written");
    let beneath = world.scratch.stores().join("n2.store");
    world.fault("a sector with a block of a snapshot is bad, reads and writes; a scrub meets it");
    disks[1].set(DiskFaults {
        bad_sector: Some(places(&beneath, &block)[0]),
        ..DiskFaults::default()
    });
    world.json(&["volume", "scrub", VOLUME]);
    world.fires("AmitaCopiesUnrestored", VOLUME);
    world.mended();
    disks[1].set(DiskFaults::default());
    world.json(&["volume", "scrub", VOLUME]);
    world.ends("AmitaCopiesUnrestored");
    client.close();
    world.is_quiet();
}
