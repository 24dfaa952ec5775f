//! Histories of encrypted volumes (S14, S15 of `docs/protocol.md`).

use super::clones::{cloned, members_return};
use super::cluster::{MS, plan, random};
use super::{Scenario, history, plant};
use crate::cluster::{Sealed, Setup};
use crate::faults::Fault;

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

/// The same, of which clones are made and written to, while owners follow one another, so that both get to the same generations.
fn cloned_much(seed: u64) -> Setup {
    let mut random = random(seed).fork(1);
    let mut setup = in_parts(seed);
    setup.profile.part_percent = 10;
    setup.cloning.write_percent = 60;
    let moves = (0..20).map(|turn| {
        let gateway = random.below(3) as usize;
        (50 + turn * 35, random.below(20) * MS, Fault::Move { gateway })
    });
    setup.plan = plan(moves);
    setup
}

/// Links end while writes are under way, and are there again at once.
fn links_end(seed: u64) -> Setup {
    let mut random = random(seed).fork(1);
    let mut setup = in_parts(seed);
    setup.profile.depth = 6;
    let cuts = (0..40).map(|turn| {
        let a = random.below(3) as usize;
        let b = (a + 1 + random.below(2) as usize) % 3;
        (20 + turn * 18, random.below(5) * MS, Fault::Cut { a, b })
    });
    setup.plan = plan(cuts);
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
    vec![
        history(
            "S14: what is sent again is the same ciphertext",
            "A link ends under W1; what is sent again is encrypted anew: M2 has other bytes in W1's version than M1.",
            links_end,
            60,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::SealAgain)),
        ),
        history(
            "S14: a clone has a key of its own",
            "P and its clone C both get to one generation, and each writes (8, 41) of one block, by one key: two contents.",
            cloned_much,
            100,
            plant!(plants => plants.keys.shared_key = true),
        ),
        history(
            "S14: what was written has the key of its generation",
            "C reads what it has from P by its own key: noise.",
            cloned_much,
            60,
            plant!(plants => plants.keys.present_key = true),
        ),
        history(
            "S14: the version goes with the bytes",
            "T is brought W1's block under the version that it had before: the sum is right, and the text is noise.",
            brought,
            100,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::MendUnderOwn)),
        ),
        history(
            "S15: ciphertext is never merged",
            "A write of half a block goes out as it is, and stores merge it with the other half of other ciphertext.",
            in_parts,
            60,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::MergeCiphertext)),
        ),
        history(
            "S15: a hole is no ciphertext",
            "A block that was cleared lies between two that were not, and is decrypted: noise.",
            in_parts,
            60,
            plant!(plants => plants.volume = plants.volume.with(amita_sequencer::Fault::DecryptHoles)),
        ),
    ]
}
