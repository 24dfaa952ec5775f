//! Copies of volumes that were being made (decision 080), in metadata that are older than what the stores hold.
//!
//! The records may say of a copy that it is none yet, which was done since, and has been used: whoever goes on with it writes over what hosts
//! have written. The target's generation tells: who makes the copy notes the one that it has opened the target by before it writes, so a store that knows of a later
//! one was told of it by somebody else, or by another one who was at the copy.

use super::{RecoverError, Word};
use amita_types::map::{self, Copying};
use amita_types::{Generation, VolumeId};
use std::collections::{BTreeMap, BTreeSet};

/// Decides of each copy that the records do not know to be whole whether it goes on, by what is said of it; what is to be told of that.
///
/// `opened` has the newest generation of each volume that has a record, as the records or a store knew it. Where a later one may have been
/// lost with a store (`may_be_newer`) no copy goes on unasked.
///
/// # Errors
/// A word lacks on one that may be whole, or is said of one that cannot be.
pub(super) fn decide(
    records: &mut BTreeMap<String, Vec<u8>>,
    opened: &BTreeMap<VolumeId, Generation>,
    may_be_newer: bool,
    word: &Word,
) -> Result<Vec<String>, RecoverError> {
    let prefix = map::copying_prefix();
    let found = records.iter().filter(|(key, _)| key.starts_with(&prefix));
    let mut undecided: BTreeMap<VolumeId, (String, Copying)> = BTreeMap::new();
    let mut gone = Vec::new();
    for (key, value) in found {
        let Ok(copying) = serde_json::from_slice::<Copying>(value) else {
            continue;
        };
        match opened.get(&copying.volume) {
            // The target is deleted. Whoever takes a copy back removes the snapshot that was taken for it, too.
            None if !copying.whole => gone.push((key.clone(), copying)),
            None => {}
            Some(newest)
                if !copying.whole && !copying.cancelled && (may_be_newer || *newest > copying.place.generation) =>
            {
                undecided.insert(copying.volume, (key.clone(), copying));
            }
            Some(_) => {}
        }
    }
    let asked: BTreeSet<VolumeId> = undecided.keys().copied().collect();
    word.decides_copies(&asked)?;
    for (key, mut copying) in gone {
        copying.cancelled = true;
        records.insert(key, text_of(&copying));
    }
    let mut notes = Vec::new();
    for (volume, (key, mut copying)) in undecided {
        let (name, of) = (copying.name.clone(), copying.of.clone());
        notes.push(match word.whole.contains(&volume) {
            true => {
                copying.whole = true;
                format!("volume {name} is used as it lies, as was said: it was a whole copy of {of}")
            }
            false => {
                (copying.place.mixed, copying.place.pass_bytes) = (true, 0);
                format!("volume {name} is copied anew from {of}, as was said: what it holds is written over")
            }
        });
        records.insert(key, text_of(&copying));
    }
    Ok(notes)
}

fn text_of(copying: &Copying) -> Vec<u8> {
    serde_json::to_vec(copying).expect("records of the metadata are plain data")
}
