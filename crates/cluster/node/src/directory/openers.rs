//! The openers that run at one time.

use super::CLOSINGS;
use amita_reactor::driver::Time;
use amita_sequencer::Opener;
use amita_types::VolumeId;
use std::collections::{BTreeMap, BTreeSet};

/// Openers that run at one time; more wait for nothing and are refused.
pub(super) const MAX_OPENERS: usize = 1024;
/// Openers beside them that do nothing but wait for the keys of encrypted volumes: these keep nobody from opening others. More end at once.
pub(super) const MAX_WAITING: usize = 1024;

/// The openers that run.
#[derive(Default)]
pub(super) struct Openers {
    /// By their numbers, with the names of their volumes.
    pub running: BTreeMap<u32, (String, Opener)>,
    /// Those of them that wait for keys.
    waiting: BTreeSet<u32>,
    next: u32,
}

impl Openers {
    pub fn is_full(&self) -> bool {
        self.running.len() - self.waiting.len() >= MAX_OPENERS
    }

    /// Looks whether one waits for keys, as it did not before or does no more; it ends where too many do.
    pub fn sort(&mut self, number: u32) {
        let Some((_, opener)) = self.running.get_mut(&number) else {
            self.waiting.remove(&number);
            return;
        };
        if !opener.awaits_keys() {
            self.waiting.remove(&number);
        } else if self.waiting.contains(&number) || self.waiting.len() < MAX_WAITING {
            self.waiting.insert(number);
        } else {
            opener.give_up_keys();
        }
    }

    /// Takes out one that has ended.
    pub fn remove(&mut self, number: u32) {
        self.running.remove(&number);
        self.waiting.remove(&number);
    }

    /// May time pass for it? One whose keys have come goes on when there is room for one more.
    fn may_go_on(&self, number: u32) -> bool {
        !self.is_full() || !self.waiting.contains(&number)
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
        self.waiting.retain(|number| self.running.contains_key(number));
    }

    pub fn deadline(&self) -> Option<Time> {
        let running = self.running.iter().filter(|(number, _)| self.may_go_on(**number));
        running.filter_map(|(_, (_, opener))| opener.deadline()).min()
    }

    /// Those that are to be told that time has passed: as each of them is come to, [`Openers::at`] has it or not.
    pub fn due(&self, now: Time) -> Vec<u32> {
        self.running
            .iter()
            .filter(|(_, (_, opener))| opener.deadline().is_some_and(|at| at <= now))
            .map(|(number, _)| *number)
            .collect()
    }

    /// One that is due, if it may go on now.
    pub fn at(&mut self, number: u32) -> Option<&mut Opener> {
        match self.may_go_on(number) {
            true => self.get_mut(number),
            false => None,
        }
    }
}
