//! What volumes were before they were reverted goes when nothing needs it any more: no snapshot of it is left, hidden ones included; or the
//! volume itself is gone for good, and nothing was cloned from it.

use super::clone::{has_clones, unpin};
use super::deletion::{Fate, leftovers};
use super::snapshot::is_sealed;
use super::subsystem::{put, unchanged, uses_guard};
use super::trash::no_closing;
use super::volume::believable;
use super::{AdminError, Result, get, list, parse, tries};
use amita_metadata::{Call, KeyValue, Op, Transact};
use amita_types::VolumeId;
use amita_types::map::{self, Snapshot, Volume};
use std::collections::BTreeMap;

/// Former data that is looked at in one go: each costs a read.
const LOOKED_AT: usize = 32;

/// Who looks at former data from time to time.
#[derive(Debug, Default)]
pub struct FormerSweep {
    /// The last one that was looked at.
    behind: VolumeId,
    /// What held each at the last look.
    held_by: BTreeMap<VolumeId, Holder>,
}

/// Why former data stays.
#[derive(Debug)]
struct Holder {
    /// The key of a snapshot of it.
    snapshot: String,
    /// The volume that it is of.
    volume: String,
}

/// What has gone.
#[derive(Debug, Default)]
pub struct Swept {
    /// By number, with the name of the volume that it was of, if that is there.
    pub gone: Vec<(VolumeId, Option<String>)>,
    /// What cannot go, and why.
    pub failed: Vec<(VolumeId, AdminError)>,
}

impl FormerSweep {
    /// Some of the former data that nothing needs goes. What cannot go keeps no other from going.
    ///
    /// # Errors
    /// The metadata is suspected or away.
    pub fn sweep(&mut self, meta: &dyn Transact) -> Result<Swept> {
        use amita_metadata::Error::{Unavailable, Unknown};
        let mut swept = Swept::default();
        let found = meta.txn(&Call::prefix(map::volume_key(".")))?;
        let hidden = found.values(0).iter().filter_map(|found| found.json::<Volume>().ok());
        let mut all: Vec<Volume> = hidden.filter(Volume::is_former).collect();
        self.held_by
            .retain(|data, _| all.iter().any(|volume| volume.id == *data));
        if all.is_empty() {
            return Ok(swept);
        }
        believable(meta)?;
        all.sort_by_key(|volume| volume.id);
        let next = all.partition_point(|volume| volume.id <= self.behind);
        all.rotate_left(next);
        let mut chains = None;
        for volume in all.iter().take(LOOKED_AT) {
            self.behind = volume.id;
            let ended = match self.is_held(meta, volume.id) {
                Ok(true) => Ok(None),
                Ok(false) => self.look(meta, volume, &mut chains),
                Err(why) => Err(why),
            };
            match ended {
                Ok(Some(of)) => swept.gone.push((volume.id, of)),
                Ok(None) => {}
                Err(why @ AdminError::Suspected { .. }) => return Err(why),
                Err(AdminError::Metadata(why @ (Unavailable { .. } | Unknown { .. }))) => return Err(why.into()),
                Err(why) => swept.failed.push((volume.id, why)),
            }
        }
        Ok(swept)
    }

    /// Is what held it at the last look there still? All snapshots of it, and all volumes, are many.
    fn is_held(&self, meta: &dyn Transact, data: VolumeId) -> Result<bool> {
        let Some(holder) = self.held_by.get(&data) else {
            return Ok(false);
        };
        let keys = [holder.snapshot.clone(), map::volume_key(&holder.volume)];
        let reply = meta.txn(&Call {
            then: keys.into_iter().map(|key| Op::Get { key }).collect(),
            ..Call::default()
        })?;
        let snapshot = reply.value(0).is_some_and(holds);
        let volume = reply.value(1).and_then(|found| found.json::<Volume>().ok());
        Ok(snapshot && volume.is_some_and(|volume| volume.former.contains(&data)))
    }

    /// Looks what holds it; what nothing holds goes.
    fn look(
        &mut self,
        meta: &dyn Transact,
        former: &Volume,
        chains: &mut Option<Chains>,
    ) -> Result<Option<Option<String>>> {
        self.held_by.remove(&former.id);
        let Some(snapshot) = first_snapshot(meta, former.id)? else {
            return end(meta, former.id);
        };
        // What the bin has of it goes by the bin's rules.
        if !meta.txn(&Call::get(map::trash_key(former.id)))?.values(0).is_empty() {
            return Ok(None);
        }
        let chains = match chains {
            Some(chains) => chains,
            none => none.insert(Chains::read(meta)?),
        };
        match chains.of.get(&former.id) {
            Some(volume) => {
                let volume = volume.clone();
                self.held_by.insert(former.id, Holder { snapshot, volume });
                Ok(None)
            }
            // It may be of one that nobody can read, which the status tells of.
            None if !chains.all_read => Ok(None),
            None => end(meta, former.id),
        }
    }
}

/// Which volume former data is of.
struct Chains {
    /// The volume's name, by the former data's number.
    of: BTreeMap<VolumeId, String>,
    /// The record of every volume could be read.
    all_read: bool,
}

impl Chains {
    fn read(meta: &dyn Transact) -> Result<Chains> {
        let found = meta.txn(&Call::prefix(map::volume_key("")))?;
        let mut chains = Chains {
            of: BTreeMap::new(),
            all_read: true,
        };
        for record in found.values(0) {
            match record.json::<Volume>() {
                Ok(volume) => {
                    let former = volume.former.iter().map(|data| (*data, volume.name.clone()));
                    chains.of.extend(former);
                }
                Err(_) => chains.all_read = false,
            }
        }
        Ok(chains)
    }
}

/// Does a record of a snapshot hold the data that it is of? A mark does not: nobody takes a snapshot of former data, so that nothing will ever be
/// compared with it when the last other one is gone. One that was begun does not: it is void. One that nobody can read does.
fn holds(record: &KeyValue) -> bool {
    let snapshot = record.json::<Snapshot>();
    snapshot.map_or(true, |snapshot| is_sealed(&snapshot) && !snapshot.is_only_marked())
}

/// The key of a snapshot that holds the data.
fn first_snapshot(meta: &dyn Transact, data: VolumeId) -> Result<Option<String>> {
    let found = meta.txn(&Call::prefix(map::snapshots_prefix(data)))?;
    Ok(found
        .values(0)
        .iter()
        .find(|found| holds(found))
        .map(|found| found.key.clone()))
}

/// The volume whose former data it is, by name; it may be a deleted one that is kept. Where the record of any volume cannot be read nobody
/// knows.
fn volume_of(meta: &dyn Transact, former: &Volume) -> Result<Option<Volume>> {
    let all: Vec<Volume> = list(meta, &map::volume_key(""))?;
    let mut all = all.into_iter();
    Ok(all.find(|volume| !volume.is_former() && volume.former.contains(&former.id)))
}

/// Void snapshots whose names go in one transaction: they are never many. A name that stays is nobody's, and can be had again.
const VOID: usize = 32;

/// Marks of former data go with it, and what was begun and is void; their names are the volume's.
fn forget_names(meta: &dyn Transact, call: &mut Call, former: &Volume) -> Result<()> {
    let found = meta.txn(&Call::prefix(map::snapshots_prefix(former.id)))?;
    let mut void = 0;
    for record in found.values(0) {
        let snapshot: Snapshot = parse(record)?;
        void += usize::from(!is_sealed(&snapshot));
        if snapshot.mark || (!is_sealed(&snapshot) && void <= VOID) {
            call.compares.push(unchanged(&record.key, record.mod_revision));
            call.then.push(Op::Delete {
                key: map::snapshot_name_key(former.host(), &snapshot.name),
            });
        }
    }
    Ok(())
}

/// It goes; the name of the volume that it was of, if that is there. None: something needs it, or it is gone.
fn end(meta: &dyn Transact, data: VolumeId) -> Result<Option<Option<String>>> {
    let key = map::volume_key(&map::hidden_name(data));
    for _ in tries(meta) {
        // Who makes a clone raises it.
        let (uses, guard) = uses_guard(meta)?;
        let Some((found, revision)) = get::<Volume>(meta, &key)?.filter(|(found, _)| found.is_former()) else {
            return Ok(None);
        };
        let of = volume_of(meta, &found)?;
        let is_needed = match &of {
            // No snapshot of it is taken any more: what has none gets none.
            Some(_) => first_snapshot(meta, data)?.is_some(),
            None => has_clones(meta, data)?,
        };
        if is_needed {
            return Ok(None);
        }
        let purge = Fate::Purge {
            snapshots: true,
            now: 0,
        };
        let mut call = Call {
            compares: vec![
                unchanged(&key, revision),
                unchanged(&map::counter_key("namespaces"), guard),
            ],
            then: leftovers(meta, &purge, &found)?,
            otherwise: Vec::new(),
        };
        call.then.extend([Op::Delete { key: key.clone() }, no_closing(data)]);
        if of.is_some() {
            forget_names(meta, &mut call, &found)?;
        }
        if let Some((held, less)) = unpin(meta, &found)? {
            call.compares.push(held);
            call.then.push(less);
        }
        if let Some(of) = &of {
            let of_key = map::volume_key(&of.name);
            let Some((mut now, of_revision)) = get::<Volume>(meta, &of_key)?.filter(|(now, _)| now.id == of.id) else {
                continue;
            };
            now.former.retain(|former| *former != data);
            call.compares.push(unchanged(&of_key, of_revision));
            call.then.push(put(of_key, &now));
        }
        if found.keys.is_some() {
            // As in the transaction of the trash.
            call.then.push(put(map::counter_key("namespaces"), &(uses + 1)));
        }
        if meta.txn(&call)?.succeeded {
            return Ok(Some(of.map(|of| of.name).filter(|name| !map::is_hidden(name))));
        }
    }
    Err(AdminError::TooManyRaces { key })
}
