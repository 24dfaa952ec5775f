//! What the objects of a backup hold, once they are open, out of any bytes; and keys, which anybody may have written.
//! Used by `tests/fuzz.rs` on stable, and under libFuzzer by the target in `fuzz/`.
//!
//! What must hold: nothing panics, nothing takes memory for more than is there, and what a parser takes is within its limits.

use amita_backup::{Branch, Directory, Entry, KeySlot, LEAF_BYTES, Leaf, MAX_PIECE_BYTES, State, VaultId};

const BLOCK_BYTES: u64 = amita_backup::BLOCK_BYTES as u64;

/// Names of so many packs, with their count before them.
fn names(count: u8) -> Vec<u8> {
    let each = (0..count).flat_map(|name| [name + 1, name]);
    std::iter::once(count).chain(each).collect()
}

/// A directory of two pieces: 4 KiB as they are, and 8 KiB compressed to 100 bytes.
fn directory() -> Vec<u8> {
    let mut bytes = vec![2];
    bytes.extend([7; 24]);
    bytes.extend([0, 0x80, 0x20, 0x90, 0x20]);
    bytes.extend([8; 24]);
    bytes.extend([0x80, 0x80, 0x40, 116]);
    bytes
}

/// A point of a volume of 4 KiB.
fn point() -> Vec<u8> {
    let mut bytes = vec![1, b'p'];
    bytes.extend(1_700_000_000_i64.to_le_bytes());
    bytes.push(1);
    bytes.extend([1; 16]);
    bytes.extend([2; 16]);
    bytes.extend([1, b'v', 0x80, 0x20, 3, 4, 0, 1]);
    bytes.extend([9; 24]);
    bytes
}

/// A pack, as entries and checkpoints have it behind its name.
fn pack() -> Vec<u8> {
    let mut bytes = vec![5; 32];
    bytes.extend([0x80, 0x40]);
    bytes.extend(directory());
    bytes
}

/// One of each, behind the byte that says what it is.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut leaf = vec![0, 2];
    for skip in 0..2 {
        leaf.extend([3, 4, skip]);
        leaf.extend([6; 24]);
    }
    let mut branch = vec![1];
    branch.extend([1; 128]);
    branch.extend([6; 24 * 128]);
    let state = [
        vec![4],
        vec![9; 32],
        vec![40, 1, 3, 1, b's', 9],
        vec![1, 3, 0],
        pack(),
        vec![1, 5],
        point(),
        vec![0, 8],
        names(1),
        names(2),
        names(0),
    ];
    let mut seeds = vec![
        leaf,
        branch,
        [vec![2], directory()].concat(),
        state.concat(),
        vec![5; 157],
    ];
    let entries = [
        vec![1, 1, b'l'],
        [vec![2, 1, 1, 0], pack()].concat(),
        [vec![3, 1], point()].concat(),
        vec![4, 1],
        vec![5, 1],
        vec![6, 1],
        vec![7, 2, 3, 4],
    ];
    seeds.extend(entries.map(|entry| [vec![3], entry].concat()));
    seeds.extend((8..12).map(|kind| [vec![3, kind], names(3)].concat()));
    let mut key = vec![5];
    key.extend(b"AMITABK1\x01");
    key.resize(157, 0);
    seeds.push(key);
    seeds
}

/// Bytes as what their first one says.
pub fn parse(input: &[u8]) {
    let Some((kind, bytes)) = input.split_first() else {
        return;
    };
    match kind % 6 {
        0 => {
            if let Ok(leaf) = Leaf::parse(bytes) {
                let mut end = 0;
                for extent in leaf.extents() {
                    assert!(extent.start >= end && extent.blocks > 0);
                    end = extent.start + extent.blocks;
                    assert!(u64::from(extent.skip + extent.blocks) * BLOCK_BYTES <= MAX_PIECE_BYTES as u64);
                }
                assert!(u64::from(end) * BLOCK_BYTES <= LEAF_BYTES);
            }
        }
        1 => {
            if let Ok(branch) = Branch::parse(bytes) {
                assert_eq!(branch.leaves().len(), 1024);
                assert_eq!(branch.leaves().iter().flatten().count() * 24 + 128, bytes.len());
            }
        }
        2 => drop(Directory::parse(bytes)),
        3 => {
            if let Ok(entry) = Entry::parse(bytes) {
                // Whatever it says, a vault without anything takes it or refuses it.
                let mut state = State::default();
                let before = state.number();
                let taken = state.apply(entry).is_ok();
                assert_eq!(state.number(), before + u64::from(taken));
            }
        }
        4 => {
            if let Ok((_, state)) = State::parse(bytes) {
                let (packs, _) = state.packs();
                assert!(packs + state.points().len() + state.sessions().len() <= bytes.len());
            }
        }
        _ => {
            if let Ok(slot) = KeySlot::parse(bytes) {
                assert_eq!(slot.bytes(), bytes);
                assert!(VaultId::parse(&slot.vault().to_string()) == Some(slot.vault()));
            }
        }
    }
}

/// The seeds are what they are meant to be.
#[test]
fn seeds_are_taken() {
    for seed in seeds() {
        let (kind, bytes) = seed.split_first().expect("a kind");
        let taken = match kind {
            0 => Leaf::parse(bytes).is_ok(),
            1 => Branch::parse(bytes).is_ok(),
            2 => Directory::parse(bytes).is_ok(),
            3 => Entry::parse(bytes).is_ok(),
            4 => State::parse(bytes).is_ok(),
            // Their checksum is no one's to guess.
            _ => true,
        };
        assert!(taken, "{seed:?}");
    }
}
