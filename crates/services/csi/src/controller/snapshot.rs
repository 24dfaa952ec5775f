//! Snapshots: CreateSnapshot, DeleteSnapshot, ListSnapshots, GetSnapshot.

use super::list::piece;
use super::{Controller, Found, crossed, missing, no_volume, signed};
use crate::api;
use crate::id::{self, GroupId, SnapshotId, VolumeId};
use crate::labels::{self, Labels};
use crate::wire::common::{Snapshot, Timestamp};
use crate::wire::controller::{
    CreateSnapshotRequest, CreateSnapshotResponse, DeleteSnapshotRequest, DeleteSnapshotResponse, GetSnapshotRequest,
    GetSnapshotResponse, ListSnapshotsRequest, ListSnapshotsResponse, ListSnapshotsResponseEntry,
};
use std::collections::BTreeMap;
use tonic::Status;

/// A time of the API.
pub(crate) fn time(seconds: u64) -> Timestamp {
    Timestamp {
        seconds: signed(seconds),
        nanos: 0,
    }
}

/// A snapshot as it is told: as large as what pods see of a volume that is made of it. `head`: bytes of its volume that they do not see.
pub(crate) fn as_wire(id: &SnapshotId, found: &api::Snapshot, head: u64) -> Snapshot {
    let group = found.set.map(|set| GroupId {
        set,
        name: found.name.clone(),
    });
    let group = group.filter(|_| found.labels.contains_key(labels::GROUP));
    Snapshot {
        size_bytes: signed(found.size_bytes.saturating_sub(head)),
        snapshot_id: id.to_string(),
        source_volume_id: id.volume.to_string(),
        creation_time: Some(time(found.taken_at)),
        ready_to_use: true,
        group_snapshot_id: group.map_or_else(String::new, |group| group.to_string()),
        accessible_topology: Vec::new(),
    }
}

impl Controller {
    pub(super) async fn create_snapshot(
        self,
        request: CreateSnapshotRequest,
    ) -> Result<CreateSnapshotResponse, Status> {
        let wanted = request.name;
        if wanted.is_empty() {
            return Err(missing("name"));
        }
        if let Some(unknown) = request
            .parameters
            .keys()
            .find(|key| !key.starts_with("csi.storage.k8s.io/"))
        {
            return Err(Status::invalid_argument(format!(
                "{unknown:?} is no parameter of a snapshot"
            )));
        }
        let of = VolumeId::parse(&request.source_volume_id);
        let _hold = (
            self.hold(format!("snapshot {wanted}"))?,
            of.map(|of| self.hold_snapshots(&of)).transpose()?,
        );
        let of = self.find_with_deleted(&request.source_volume_id).await?;
        let snapshot = match self.taken_before(&of, &wanted).await? {
            Some(taken) => taken,
            None if labels::is_deleted(of.volume()) => return Err(no_volume(&request.source_volume_id)),
            None => {
                let own = [(labels::DRIVER, self.driver()), (labels::NAME, wanted.as_str())];
                let own: Labels = own.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
                let name = id::snapshot_name(&wanted);
                match self.api.take_snapshot(of.name(), &name, &own).await {
                    Err(why) if why.is("exists") => return Err(self.taken_meanwhile(&of, &name, why).await?),
                    taken => taken.map_err(crossed)?,
                }
            }
        };
        let head = labels::head_bytes(of.volume());
        let id = SnapshotId {
            volume: of.id,
            name: snapshot.name.clone(),
        };
        if !self.keeps_snapshots(&id.volume).await? {
            return Err(no_volume(&request.source_volume_id));
        }
        Ok(CreateSnapshotResponse {
            snapshot: Some(as_wire(&id, &snapshot, head)),
        })
    }

    /// A snapshot that was not there before: another controller was faster, or it is somebody else's.
    async fn taken_meanwhile(&self, of: &Found, name: &str, why: api::Trouble) -> Result<Status, Status> {
        let there = self.api.snapshot(of.name(), name).await?;
        let is_own = there.is_none_or(|there| labels::get(&there.thing.labels, labels::DRIVER) == self.driver());
        Ok(match is_own {
            true => Status::aborted(why.to_string()),
            false => why.into(),
        })
    }

    /// Does a volume that has a snapshot stay for it? Who has taken one asks, for who deletes may have looked before: a volume that is marked, and has not been
    /// renamed for its snapshots, may go with all of them. It is not for this call to end its snapshot: another one may have found it, and told of it.
    pub(super) async fn keeps_snapshots(&self, volume: &VolumeId) -> Result<bool, Status> {
        let Some(now) = self.look_up(volume).await? else {
            return Ok(false);
        };
        match labels::is_deleted(now.volume()) && now.name() != now.id.gone_name() {
            false => Ok(true),
            true => Err(Status::aborted(format!(
                "volume {} is being deleted: whether its snapshots stay is not known yet",
                now.name()
            ))),
        }
    }

    /// A name stands for one snapshot, whichever volume it is of.
    async fn taken_before(&self, of: &Found, wanted: &str) -> Result<Option<api::Snapshot>, Status> {
        let named = self.api.all_snapshots((labels::NAME, wanted)).await?;
        let mut named = named
            .into_iter()
            .filter(|taken| labels::get(&taken.labels, labels::DRIVER) == self.driver());
        let Some(taken) = named.next() else {
            return Ok(None);
        };
        // It may have been deleted, and renamed, since it was looked up.
        let is_of_it = taken.volume == of.name()
            || self
                .look_up(&of.id)
                .await?
                .is_some_and(|now| now.name() == taken.volume);
        match is_of_it {
            true => Ok(Some(taken)),
            false => Err(Status::already_exists(format!(
                "there is a snapshot {wanted} already, of volume {}",
                taken.volume
            ))),
        }
    }

    pub(super) async fn delete_snapshot(
        self,
        request: DeleteSnapshotRequest,
    ) -> Result<DeleteSnapshotResponse, Status> {
        if request.snapshot_id.is_empty() {
            return Err(missing("snapshot id"));
        }
        if let Some(id) = SnapshotId::parse(&request.snapshot_id) {
            self.end_snapshot(&id).await?;
        }
        Ok(DeleteSnapshotResponse {})
    }

    /// Deletes a snapshot, and its volume where that was deleted before and has no other.
    pub(crate) async fn end_snapshot(&self, id: &SnapshotId) -> Result<(), Status> {
        // Whatever name stands in its volume's id.
        let _hold = self.hold(format!("snapshot {} of volume number {}", id.name, id.volume.number))?;
        let Some(of) = self.look_up(&id.volume).await? else {
            return Ok(());
        };
        if let Some(found) = self.api.snapshot(of.name(), &id.name).await? {
            if labels::snapshot_id(self.driver(), &of.id, &found.thing).is_none() {
                return Err(Status::failed_precondition(format!(
                    "snapshot {} is none of this driver's",
                    id.name
                )));
            }
            self.api.delete_snapshot(&found).await?;
        }
        // Behind it: who marks the volume after this sees that the snapshot is gone.
        let Some(now) = self.look_up(&of.id).await? else {
            return Ok(());
        };
        if now.name() != of.name() {
            let why = format!(
                "volume {} was renamed while its snapshot {} was deleted",
                now.name(),
                id.name
            );
            return Err(Status::aborted(why));
        }
        match labels::is_deleted(now.volume()) {
            true => self.end(now).await,
            false => Ok(()),
        }
    }

    pub(super) async fn get_snapshot(self, request: GetSnapshotRequest) -> Result<GetSnapshotResponse, Status> {
        if request.snapshot_id.is_empty() {
            return Err(missing("snapshot id"));
        }
        let none = || Status::not_found(format!("there is no snapshot {:?}", request.snapshot_id));
        let id = SnapshotId::parse(&request.snapshot_id).ok_or_else(none)?;
        let snapshot = self.snapshot(&id).await?.ok_or_else(none)?;
        Ok(GetSnapshotResponse {
            snapshot: Some(snapshot),
        })
    }

    /// A snapshot of this driver's; none: there is none.
    pub(crate) async fn snapshot(&self, id: &SnapshotId) -> Result<Option<Snapshot>, Status> {
        let Some(of) = self.look_up(&id.volume).await? else {
            return Ok(None);
        };
        let found = self.api.snapshot(of.name(), &id.name).await?;
        Ok(found.and_then(|found| {
            let id = labels::snapshot_id(self.driver(), &of.id, &found.thing)?;
            Some(as_wire(&id, &found.thing, labels::head_bytes(of.volume())))
        }))
    }

    pub(super) async fn list_snapshots(self, request: ListSnapshotsRequest) -> Result<ListSnapshotsResponse, Status> {
        let mut all = match (request.snapshot_id.as_str(), request.source_volume_id.as_str()) {
            ("", "") => self.every_snapshot().await?,
            ("", volume) => self.snapshots_of(volume).await?,
            (snapshot, volume) => {
                let id = SnapshotId::parse(snapshot);
                let found = match &id {
                    Some(id) => self.snapshot(id).await?,
                    None => None,
                };
                let is_of = |found: &Snapshot| volume.is_empty() || found.source_volume_id == volume;
                found.filter(is_of).into_iter().collect()
            }
        };
        all.sort_by(|one, other| one.snapshot_id.cmp(&other.snapshot_id));
        let key = |snapshot: &Snapshot| snapshot.snapshot_id.clone();
        let (all, next_token) = piece(all, request.max_entries, &request.starting_token, key)?;
        let entries = all.into_iter().map(|snapshot| ListSnapshotsResponseEntry {
            snapshot: Some(snapshot),
        });
        Ok(ListSnapshotsResponse {
            entries: entries.collect(),
            next_token,
        })
    }

    async fn snapshots_of(&self, volume: &str) -> Result<Vec<Snapshot>, Status> {
        let Some(id) = VolumeId::parse(volume) else {
            return Ok(Vec::new());
        };
        let Some(of) = self.look_up(&id).await? else {
            return Ok(Vec::new());
        };
        let all = self.api.snapshots(of.name()).await?;
        let own = all.iter().filter_map(|taken| {
            let id = labels::snapshot_id(self.driver(), &of.id, taken)?;
            Some(as_wire(&id, taken, labels::head_bytes(of.volume())))
        });
        Ok(own.collect())
    }

    async fn every_snapshot(&self) -> Result<Vec<Snapshot>, Status> {
        let driver = self.driver();
        let volumes = self.api.volumes((labels::DRIVER, driver)).await?;
        let of: BTreeMap<String, (VolumeId, u64)> = volumes
            .into_iter()
            .filter_map(|volume| {
                let known = (labels::volume_id(driver, &volume)?, labels::head_bytes(&volume));
                Some((volume.name, known))
            })
            .collect();
        let all = self.api.all_snapshots((labels::DRIVER, driver)).await?;
        let own = all.iter().filter_map(|taken| {
            let (volume, head) = of.get(&taken.volume)?;
            let id = labels::snapshot_id(driver, volume, taken)?;
            Some(as_wire(&id, taken, *head))
        });
        Ok(own.collect())
    }
}
