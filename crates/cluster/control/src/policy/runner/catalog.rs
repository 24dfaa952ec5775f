//! The volumes that there are, read once a step and only where they are needed.

use crate::admin::{AdminError, Tally};
use amita_metadata::{Call, KeyValue, Op, Reply, Transact};
use amita_types::VolumeId;
use amita_types::map::{self, About, Copying, Target, Volume};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;

/// What is read.
#[derive(Default)]
pub(crate) struct Catalog {
    volumes: Option<Vec<Volume>>,
    /// Those of them that are to be copies, and are none yet: no policy is for them.
    copying: BTreeSet<VolumeId>,
    abouts: Option<Vec<About>>,
    /// The records of volumes, and of what is known of them, that cannot be read: their keys, and why.
    unreadable: Vec<(String, String)>,
    /// How many snapshots there are in pools that have a quota: it outlives the step.
    pub tally: Tally,
}

/// Where a volume is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It has this name.
    Named(String),
    /// It is deleted, and may come back, or is gone for good.
    Gone,
}

impl Catalog {
    /// Nothing is read yet.
    pub fn of_step(tally: Tally) -> Catalog {
        Catalog {
            tally,
            ..Catalog::default()
        }
    }

    fn volumes(&mut self, meta: &dyn Transact) -> Result<&[Volume], AdminError> {
        if self.volumes.is_none() {
            let mut call = Call::prefix(map::volume_key(""));
            call.then.push(copies());
            let reply = meta.txn(&call)?;
            self.unreadable = unreadable::<Volume>(&reply, 0);
            self.volumes = Some(listed(&reply, 0));
            self.copying = copying(&reply, 1);
        }
        Ok(self.volumes.as_deref().unwrap_or_default())
    }

    /// Labels and volumes at one moment: by a revert in between, a volume would be without its labels.
    fn read_both(&mut self, meta: &dyn Transact) -> Result<(), AdminError> {
        let mut call = Call::prefix(map::about_prefix());
        call.then.push(Op::Prefix {
            key: map::volume_key(""),
        });
        call.then.push(copies());
        let reply = meta.txn(&call)?;
        self.unreadable = unreadable::<About>(&reply, 0);
        self.unreadable.extend(unreadable::<Volume>(&reply, 1));
        self.abouts = Some(readable(&reply, 0));
        self.volumes = Some(listed(&reply, 1));
        self.copying = copying(&reply, 2);
        Ok(())
    }

    /// The volumes that a policy is for, by the numbers by which hosts know them, which a revert does not change, with their names; in any
    /// order.
    pub fn of(
        &mut self,
        meta: &dyn Transact,
        target: &Target,
    ) -> Result<impl Iterator<Item = (VolumeId, &str)>, AdminError> {
        let meant = self.records(meta, target)?;
        Ok(meant.map(|volume| (volume.host(), volume.name.as_str())))
    }

    /// Their records, in any order.
    pub fn records(
        &mut self,
        meta: &dyn Transact,
        target: &Target,
    ) -> Result<impl Iterator<Item = &Volume>, AdminError> {
        let labelled: BTreeSet<VolumeId> = match target {
            Target::Label { key, value } => {
                if self.abouts.is_none() {
                    self.read_both(meta)?;
                }
                let all = self.abouts.iter().flatten();
                all.filter(|about| about.labels.get(key) == Some(value))
                    .map(|about| about.volume)
                    .collect()
            }
            _ => BTreeSet::new(),
        };
        let is_meant = move |volume: &&Volume| match target {
            Target::Volume(id) => volume.host() == *id,
            Target::Volumes(ids) => ids.contains(&volume.host()),
            Target::Label { .. } => labelled.contains(&volume.id),
            Target::Pool(pool) => volume.pool == *pool,
        };
        self.volumes(meta)?;
        // What is closed for a mirror has snapshots of that alone: in the middle of a pass one of ours would be of no moment.
        let whole = |volume: &&Volume| !self.copying.contains(&volume.id) && volume.closed.is_none();
        Ok(self.volumes.iter().flatten().filter(whole).filter(is_meant))
    }

    /// Records that cannot be read and by which a policy may be for more volumes than were found, or for others: their keys, and why. `is_found`: of
    /// those that it names, all are there.
    pub fn in_doubt(&self, target: &Target, is_found: bool) -> Vec<(String, String)> {
        let of_volumes = map::volume_key("");
        let is_in_doubt = |key: &str| match key.strip_prefix(of_volumes.as_str()) {
            // What is in the recycle bin is nobody's.
            Some(name) => !is_found && !map::is_hidden(name),
            None => {
                let volumes = self.volumes.iter().flatten().map(|volume| volume.id);
                let mut abouts = volumes.filter(|id| !self.copying.contains(id)).map(map::about_key);
                matches!(target, Target::Label { .. }) && abouts.any(|about| about == key)
            }
        };
        let all = self.unreadable.iter();
        all.filter(|(key, _)| is_in_doubt(key)).cloned().collect()
    }

    /// Where a volume is that has not the name that it had.
    pub fn find(&mut self, meta: &dyn Transact, volume: VolumeId) -> Result<Found, AdminError> {
        let found = self.volumes(meta)?.iter().find(|found| found.host() == volume);
        Ok(found.map_or(Found::Gone, |found| Found::Named(found.name.clone())))
    }

    /// The name of the one volume that a policy is for; none: that is deleted, or it is for others.
    pub fn name_of(&mut self, meta: &dyn Transact, target: &Target) -> Result<Option<String>, AdminError> {
        let Target::Volume(volume) = target else {
            return Ok(None);
        };
        Ok(match self.find(meta, *volume)? {
            Found::Named(name) => Some(name),
            Found::Gone => None,
        })
    }

    /// All that a volume is and was; nothing: it is gone.
    pub fn chain(&mut self, meta: &dyn Transact, volume: VolumeId) -> Result<Vec<VolumeId>, AdminError> {
        let found = self.volumes(meta)?.iter().find(|found| found.host() == volume);
        Ok(found.map(|found| found.chain().collect()).unwrap_or_default())
    }
}

fn copies() -> Op {
    Op::Prefix {
        key: map::copying_prefix(),
    }
}

fn copying(reply: &Reply, at: usize) -> BTreeSet<VolumeId> {
    let all: Vec<Copying> = readable(reply, at);
    all.iter()
        .filter(|found| !found.whole)
        .map(|found| found.volume)
        .collect()
}

/// One that cannot be read is no reason to leave all others without snapshots; `amita status` tells of it.
fn readable<T: DeserializeOwned>(reply: &Reply, at: usize) -> Vec<T> {
    reply.values(at).iter().filter_map(|found| found.json().ok()).collect()
}

fn unreadable<T: DeserializeOwned>(reply: &Reply, at: usize) -> Vec<(String, String)> {
    let why = |found: &KeyValue| {
        let what = serde_json::from_slice::<T>(&found.value).err()?.to_string();
        Some((found.key.clone(), what))
    };
    reply.values(at).iter().filter_map(why).collect()
}

/// The volumes that are not in the recycle bin, nor hidden for another reason.
fn listed(reply: &Reply, at: usize) -> Vec<Volume> {
    let mut all: Vec<Volume> = readable(reply, at);
    all.retain(|volume| !map::is_hidden(&volume.name));
    all
}
