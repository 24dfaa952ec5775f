//! What volumes were before they were reverted goes when nothing needs it any more: no snapshot of it is left, hidden ones included; or the
//! volume itself is gone for good, and nothing was cloned from it.

use super::clone::{has_clones, unpin};
use super::deletion::{Fate, leftovers};
use super::subsystem::{put, unchanged, uses_guard};
use super::volume::believable;
use super::{AdminError, RACES, Result, get};
use amita_metadata::{Call, Op, Transact};
use amita_types::VolumeId;
use amita_types::map::{self, Volume};
use std::collections::BTreeMap;

/// Former data that is looked at in one go: each costs a read.
const LOOKED_AT: usize = 32;

/// Who looks at former data from time to time.
#[derive(Debug, Default)]
pub struct FormerSweep {
    /// The last one that was looked at.
    behind: VolumeId,
    /// The key of a snapshot that each had at the last look.
    held_by: BTreeMap<VolumeId, String>,
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
        for volume in all.iter().take(LOOKED_AT) {
            self.behind = volume.id;
            let ended = match self.is_held(meta, volume.id)? {
                true if is_in_a_chain(meta, volume)? => Ok(None),
                _ => end(meta, volume.id),
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

    /// Has it a snapshot? One that is known from the last look is asked for first: all are many.
    fn is_held(&mut self, meta: &dyn Transact, data: VolumeId) -> Result<bool> {
        if let Some(key) = self.held_by.get(&data)
            && !meta.txn(&Call::get(key.clone()))?.values(0).is_empty()
        {
            return Ok(true);
        }
        let first = first_snapshot(meta, data)?;
        match &first {
            Some(key) => drop(self.held_by.insert(data, key.clone())),
            None => drop(self.held_by.remove(&data)),
        }
        Ok(first.is_some())
    }
}

fn first_snapshot(meta: &dyn Transact, data: VolumeId) -> Result<Option<String>> {
    let found = meta.txn(&Call::prefix(map::snapshots_prefix(data)))?;
    Ok(found.values(0).first().map(|found| found.key.clone()))
}

/// The volume whose former data it is, by name; it may be a deleted one that is kept.
fn volume_of(meta: &dyn Transact, former: &Volume) -> Result<Option<Volume>> {
    let found = meta.txn(&Call::prefix(map::volume_key("")))?;
    let mut all = found.values(0).iter().filter_map(|found| found.json::<Volume>().ok());
    Ok(all.find(|volume| !volume.is_former() && volume.former.contains(&former.id)))
}

/// Is the volume there still? What the bin has of it goes by the bin's rules.
fn is_in_a_chain(meta: &dyn Transact, former: &Volume) -> Result<bool> {
    let in_bin = !meta.txn(&Call::get(map::trash_key(former.id)))?.values(0).is_empty();
    Ok(in_bin || volume_of(meta, former)?.is_some())
}

/// It goes; the name of the volume that it was of, if that is there. None: something needs it, or it is gone.
fn end(meta: &dyn Transact, data: VolumeId) -> Result<Option<Option<String>>> {
    let key = map::volume_key(&map::hidden_name(data));
    for _ in 0..RACES {
        // Who makes a clone raises it.
        let (_, guard) = uses_guard(meta)?;
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
        call.then.push(Op::Delete { key: key.clone() });
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
        if meta.txn(&call)?.succeeded {
            return Ok(Some(of.map(|of| of.name).filter(|name| !map::is_hidden(name))));
        }
    }
    Err(AdminError::TooManyRaces { key })
}
