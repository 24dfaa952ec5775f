//! What this node, as the owner of volumes, says of stores that are being brought up to date: on core 0 only.
//!
//! Each core's sequencer says it of its own chunks. When all cores have, the volume's claim is written to the metadata
//! ([`amita_types::map::Whole`]), under the condition that the volume's record is still ours. The coordinator takes a store
//! into a group when the owners of all volumes have claimed it. Claims that are no longer of use are left out when the
//! record is next written.

use crate::view::View;
use amita_metadata::{Call, Compare, Error, Op, Reply};
use amita_reactor::driver::Time;
use amita_sequencer::{CallId, Opened};
use amita_types::map::{self, Whole, WholeMember};
use amita_types::{Generation, GroupIndex, PoolId, StoreId, VolumeId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// After a call that failed.
const RETRY: Duration = Duration::from_millis(200);

/// The claims of one volume.
struct Volume {
    name: String,
    pool: PoolId,
    generation: Generation,
    /// Of the volume's record, which must not have changed.
    revision: u64,
    /// Of the claim's own record, as last known: a claim whose outcome was unknown, and that is written late, must not take the
    /// place of a newer one.
    written: u64,
    /// Which cores have said it.
    said: BTreeMap<Member, BTreeSet<usize>>,
    /// Something is to be written.
    dirty: bool,
    call: Option<CallId>,
    retry: Option<Time>,
}

/// A member of a group, by the epoch since which it is syncing.
type Member = (GroupIndex, StoreId, amita_types::Epoch);

pub struct Claims {
    cores: usize,
    /// Ids of calls: below this stands a count.
    base: u64,
    count: u64,
    /// Something is to be written, or under way.
    busy: bool,
    volumes: BTreeMap<VolumeId, Volume>,
}

impl Claims {
    /// None; `base` stands above the low 20 bits of every call's id.
    pub fn new(cores: usize, base: u64) -> Claims {
        Claims {
            cores,
            base,
            count: 0,
            busy: false,
            volumes: BTreeMap::new(),
        }
    }

    /// A volume was opened here: what was said of it under older generations counts no more.
    pub fn opened(&mut self, opened: &Opened) {
        let volume = Volume {
            name: opened.volume.name.clone(),
            pool: opened.pool.id,
            generation: opened.generation,
            revision: opened.volume_revision,
            written: 0,
            said: BTreeMap::new(),
            dirty: false,
            call: None,
            retry: None,
        };
        self.volumes.insert(opened.volume.id, volume);
    }

    /// A volume is ours no longer.
    pub fn lost(&mut self, volume: VolumeId, generation: Generation) {
        if self.volumes.get(&volume).is_some_and(|v| v.generation == generation) {
            self.volumes.remove(&volume);
        }
    }

    /// The sequencer of `core` says that a store holds everything of its chunks.
    pub fn said(&mut self, volume: VolumeId, generation: Generation, core: usize, member: Member) {
        let cores = self.cores;
        let Some(volume) = self.volumes.get_mut(&volume).filter(|v| v.generation == generation) else {
            return;
        };
        let said = volume.said.entry(member).or_default();
        said.insert(core);
        volume.dirty |= said.len() == cores;
        self.busy |= volume.dirty;
    }

    /// The calls that are to be made now.
    pub fn calls(&mut self, now: Time, view: &View) -> Vec<(CallId, Call)> {
        let mut calls = Vec::new();
        if !self.busy {
            return calls;
        }
        for (&id, volume) in &mut self.volumes {
            let waits = volume.retry.is_some_and(|at| at > now);
            if !volume.dirty || volume.call.is_some() || waits {
                continue;
            }
            let pool = volume.pool;
            // By what was last seen; a record that is not known yet is newer than the claim, not older.
            volume.said.retain(|&(group, store, since), _| {
                let known = view.group(pool, group);
                known.is_none_or(|known| {
                    known.epoch < since
                        || known
                            .syncing
                            .iter()
                            .any(|syncing| (syncing.store, syncing.since) == (store, since))
                })
            });
            let whole = volume.said.iter().filter(|(_, said)| said.len() == self.cores);
            let record = Whole {
                volume: id,
                generation: volume.generation,
                members: whole
                    .map(|(&(group, store, since), _)| WholeMember { group, store, since })
                    .collect(),
            };
            let key = map::volume_key(&volume.name);
            let claim = map::whole_key(volume.pool, id);
            let unchanged = |key: &String, equals| Compare::ModRevision {
                key: key.clone(),
                equals,
            };
            let call = Call {
                compares: vec![unchanged(&key, volume.revision), unchanged(&claim, volume.written)],
                then: vec![Op::Put {
                    key: claim.clone(),
                    value: serde_json::to_vec(&record).expect("a record of numbers"),
                    lease: None,
                }],
                otherwise: vec![Op::Get { key }, Op::Get { key: claim }],
            };
            self.count = (self.count + 1) & 0xf_ffff;
            let number = CallId(self.base | self.count);
            volume.call = Some(number);
            volume.dirty = false;
            calls.push((number, call));
        }
        self.busy = self
            .volumes
            .values()
            .any(|volume| volume.dirty || volume.call.is_some());
        calls
    }

    /// A call has ended; `false`: it is none of ours.
    pub fn ended(&mut self, now: Time, call: CallId, result: &Result<Reply, Error>) -> bool {
        let Some((&id, volume)) = self.volumes.iter_mut().find(|(_, v)| v.call == Some(call)) else {
            return call.0 & !0xf_ffff == self.base;
        };
        volume.call = None;
        volume.retry = None;
        match result {
            Ok(reply) if reply.succeeded => volume.written = reply.revision,
            Ok(reply) => {
                // The volume's record has changed: is it still ours?
                let record = reply.value(0);
                let ours = record.and_then(|value| value.json::<map::Volume>().ok());
                match (record, ours) {
                    (Some(value), Some(record)) if record.id == id && record.generation == volume.generation => {
                        volume.revision = value.mod_revision;
                        volume.written = reply.value(1).map_or(0, |claim| claim.mod_revision);
                        volume.dirty = true;
                    }
                    // Its sequencers will find out, too.
                    _ => drop(self.volumes.remove(&id)),
                }
            }
            Err(_) => {
                volume.dirty = true;
                volume.retry = Some(now.plus(RETRY));
            }
        }
        true
    }

    /// When [`Claims::calls`] is next wanted.
    pub fn deadline(&self) -> Option<Time> {
        if !self.busy {
            return None;
        }
        let wants = self.volumes.values().filter(|v| v.dirty && v.call.is_none());
        wants.map(|v| v.retry.unwrap_or(Time(0))).min()
    }
}

#[cfg(test)]
mod tests;
