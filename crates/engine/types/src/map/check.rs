//! What the records of a pool and of its groups must be before anything is built on them: who may write a key may have written
//! anything there. One definition, for who opens volumes, for who owns them, and for the coordinator.

use super::{Group, Pool, PoolKind};
use crate::id::Epoch;
use crate::layout::{BLOCK_BYTES, MAX_BLOCKS_PER_CHUNK};
use crate::message::MAX_MEMBERS;

/// Most groups of a pool: each may have a fence under way.
pub const MAX_GROUPS: u32 = 8192;

impl Pool {
    /// Is it a pool that this version can serve?
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        if !self.groups.is_power_of_two() || self.groups > MAX_GROUPS {
            return Err(format!(
                "{} groups; a power of two up to {MAX_GROUPS} is needed",
                self.groups
            ));
        }
        let most = MAX_BLOCKS_PER_CHUNK * BLOCK_BYTES;
        if !self.chunk_bytes.is_power_of_two() || !(BLOCK_BYTES..=most).contains(&self.chunk_bytes) {
            return Err(format!(
                "chunks of {} bytes; a power of two from {BLOCK_BYTES} to {most} is needed",
                self.chunk_bytes
            ));
        }
        match self.kind {
            PoolKind::Replicated { copies, min_copies } if min_copies == 0 || min_copies > copies => Err(format!(
                "at least {min_copies} of {copies} copies; one is the least, all of them the most"
            )),
            PoolKind::Replicated { copies, .. } if usize::from(copies) > MAX_MEMBERS => {
                Err(format!("{copies} copies; {MAX_MEMBERS} are the most"))
            }
            PoolKind::Replicated { .. } => Ok(()),
        }
    }
}

impl Group {
    /// Can its sets be those of a group?
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn check(&self) -> Result<(), String> {
        let (in_sync, syncing) = (self.in_sync.len(), self.syncing.len());
        if in_sync == 0 || in_sync > MAX_MEMBERS {
            return Err(format!("{in_sync} stores in sync; 1 to {MAX_MEMBERS} are possible"));
        }
        if in_sync + syncing > MAX_MEMBERS || self.members.len() > MAX_MEMBERS {
            return Err(format!(
                "{} members, {in_sync} stores in sync and {syncing} syncing; {MAX_MEMBERS} are the most",
                self.members.len()
            ));
        }
        let holds = self.in_sync.iter().chain(self.syncing.iter().map(|own| &own.store));
        if is_any_twice(holds) || is_any_twice(self.members.iter()) {
            return Err("a store is listed twice".to_owned());
        }
        if self.epoch > Epoch::MAX {
            return Err(format!("epoch {}; {} is the last", self.epoch, Epoch::MAX));
        }
        if self.syncing.iter().any(|own| own.since > self.epoch) {
            return Err(format!("a store is syncing since after epoch {}", self.epoch));
        }
        Ok(())
    }
}

/// Of so few that each may be compared with each.
fn is_any_twice<T: PartialEq>(mut items: impl Iterator<Item = T> + Clone) -> bool {
    while let Some(item) = items.next() {
        if items.clone().any(|other| other == item) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests;
