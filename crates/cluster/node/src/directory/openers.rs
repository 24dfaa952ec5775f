//! The openers that run at one time.

use super::CLOSINGS;
use amita_reactor::driver::Time;
use amita_sequencer::Opener;
use amita_types::VolumeId;
use std::collections::BTreeMap;

/// Openers that run at one time; more wait for nothing and are refused.
pub(super) const MAX_OPENERS: usize = 1024;

/// The openers that run.
#[derive(Default)]
pub(super) struct Openers {
    /// By their numbers, with the names of their volumes.
    pub running: BTreeMap<u32, (String, Opener)>,
    next: u32,
}

impl Openers {
    pub fn is_full(&self) -> bool {
        self.running.len() >= MAX_OPENERS
    }

    pub fn get_mut(&mut self, number: u32) -> Option<&mut Opener> {
        self.running.get_mut(&number).map(|(_, opener)| opener)
    }

    /// A number that the next opener is to have.
    pub fn take_number(&mut self) -> u32 {
        let number = self.next;
        self.next = (self.next + 1) % CLOSINGS;
        number
    }

    /// The name by which one opens this volume, once it has read that.
    pub fn name_of(&self, volume: VolumeId) -> Option<&String> {
        let mut running = self.running.values();
        running.find_map(|(name, opener)| (opener.volume() == Some(volume)).then_some(name))
    }

    /// Ends the one of this volume: what it has asked for finds nobody.
    pub fn end(&mut self, name: &str) {
        self.running.retain(|_, (running, _)| running != name);
    }

    pub fn deadline(&self) -> Option<Time> {
        self.running.values().filter_map(|(_, opener)| opener.deadline()).min()
    }

    /// Those that are to be told that time has passed.
    pub fn due(&self, now: Time) -> Vec<u32> {
        self.running
            .iter()
            .filter(|(_, (_, opener))| opener.deadline().is_some_and(|at| at <= now))
            .map(|(number, _)| *number)
            .collect()
    }
}
