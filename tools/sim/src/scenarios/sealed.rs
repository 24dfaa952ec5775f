//! Histories of encrypted volumes (S14, S15 of `docs/protocol.md`).

use super::clones::{cloned, members_return};
use super::cluster::random;
use super::{Runs, Scenario, plant};
use crate::cluster::{Sealed, Setup};

/// A volume that is written a part of a block at a time, with snapshots and clones.
fn in_parts(seed: u64) -> Setup {
    let mut setup = cloned(seed, &mut random(seed));
    setup.profile.part_percent = 60;
    setup.profile.clear_percent = 20;
    setup.profile.max_blocks = 3;
    setup.profile.operations = 800;
    setup.sealed = Some(Sealed::new(seed));
    setup
}

/// The same, of which clones are made and written to.
fn cloned_much(seed: u64) -> Setup {
    let mut setup = in_parts(seed);
    setup.cloning.write_percent = 60;
    setup
}

/// Members are away, and are brought up to date.
fn brought(seed: u64) -> Setup {
    let mut setup = members_return(seed);
    setup.sealed = Some(Sealed::new(seed));
    setup
}

/// The histories of encrypted volumes.
pub fn all() -> Vec<Scenario> {
    let scenario = |name, story, setup, seeds, broken| Scenario {
        name,
        story,
        runs: Runs::Cluster(setup),
        hostile: |_| {},
        broken: Some(broken),
        seeds,
    };
    vec![
        scenario(
            "S14: what is sent again is the same ciphertext",
            "A link ends under W1; what is sent again is encrypted anew: M2 has other bytes in W1's version than M1.",
            brought,
            60,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::SealAgain)),
        ),
        scenario(
            "S14: a clone has a key of its own",
            "P and its clone C both get to one generation, and each writes (8, 41) of one block, by one key: two contents.",
            cloned_much,
            100,
            plant!(plants => plants.keys.shared_key = true),
        ),
        scenario(
            "S14: what was written has the key of its generation",
            "C reads what it has from P by its own key: noise.",
            cloned_much,
            60,
            plant!(plants => plants.keys.present_key = true),
        ),
        scenario(
            "S14: the version goes with the bytes",
            "T is brought W1's block under the version that it had before: the sum is right, and the text is noise.",
            brought,
            100,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::MendUnderOwn)),
        ),
        scenario(
            "S15: ciphertext is never merged",
            "A write of half a block goes out as it is, and stores merge it with the other half of other ciphertext.",
            in_parts,
            60,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::MergeCiphertext)),
        ),
        scenario(
            "S15: a hole is no ciphertext",
            "A block that was cleared lies between two that were not, and is decrypted: noise.",
            in_parts,
            60,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::DecryptHoles)),
        ),
    ]
}
