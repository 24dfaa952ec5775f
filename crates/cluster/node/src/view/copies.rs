//! Volumes that are to be copies: until they are whole, nobody uses them (decision 080, P5).

use super::{Change, View, number, parse};
use crate::control::Record;
use amita_types::VolumeId;
use amita_types::map::{self, Copying};

impl View {
    pub(super) fn apply_copying(&mut self, rest: &str, record: &Record) -> Change {
        // Who is at a copy is of no interest.
        let volume = rest.strip_prefix("to/");
        let Some(volume) = volume.and_then(|volume| number(volume, record, map::copying_key)) else {
            return Change::Nothing;
        };
        let found = record.value.as_ref().map(|value| parse::<Copying>(&record.key, value));
        // What cannot be read says that it is no copy yet.
        let is_copying = found
            .as_ref()
            .is_some_and(|found| found.as_ref().map_or(true, |found| !found.whole));
        let has_changed = match is_copying {
            true => self.copying.insert(volume),
            false => self.copying.remove(&volume),
        };
        match (found, has_changed) {
            (Some(Err(why)), _) => Change::Unreadable(why),
            (_, true) => Change::Export,
            (_, false) => Change::Nothing,
        }
    }

    /// Is a volume to be a copy, and is none yet?
    #[must_use]
    pub fn is_copying(&self, volume: VolumeId) -> bool {
        self.copying.contains(&volume)
    }
}
