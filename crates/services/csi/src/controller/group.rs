//! `GroupController`: snapshots of several volumes at one moment.

use super::snapshot::{as_wire, time};
use super::{Controller, Found, crossed, missing, no_volume};
use crate::api::Set;
use crate::grpc::unary;
use crate::id::{self, GroupId, SnapshotId, VolumeId};
use crate::labels::{self, Labels};
use crate::wire::common::Snapshot;
use crate::wire::group as wire;
use http::{Request, Response};
use hyper::body::Incoming;
use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use tonic::body::Body;
use tonic::{Code, Status};

/// Volumes of a set, at most (docs/limits.md).
const MOST_VOLUMES: usize = 1024;

impl Controller {
    pub(crate) async fn route_group(self, method: &str, request: Request<Incoming>) -> Option<Response<Body>> {
        Some(match method {
            "GroupControllerGetCapabilities" => {
                let say = |_: wire::GroupControllerGetCapabilitiesRequest| ready(Ok(capabilities()));
                unary(request, say).await
            }
            "CreateVolumeGroupSnapshot" => {
                unary(request, |q: wire::CreateVolumeGroupSnapshotRequest| {
                    self.create_group(q)
                })
                .await
            }
            "DeleteVolumeGroupSnapshot" => {
                unary(request, |q: wire::DeleteVolumeGroupSnapshotRequest| {
                    self.delete_group(q)
                })
                .await
            }
            "GetVolumeGroupSnapshot" => {
                unary(request, |q: wire::GetVolumeGroupSnapshotRequest| self.get_group(q)).await
            }
            _ => return None,
        })
    }

    pub(super) async fn create_group(
        self,
        request: wire::CreateVolumeGroupSnapshotRequest,
    ) -> Result<wire::CreateVolumeGroupSnapshotResponse, Status> {
        let wanted = request.name;
        if wanted.is_empty() {
            return Err(missing("name"));
        }
        let ids: BTreeSet<String> = request.source_volume_ids.into_iter().collect();
        if ids.is_empty() || ids.len() > MOST_VOLUMES {
            let why = format!(
                "there are {} source volumes; there can be 1 to {MOST_VOLUMES}",
                ids.len()
            );
            return Err(Status::invalid_argument(why));
        }
        let known = ids.iter().filter_map(|id| VolumeId::parse(id)).collect::<BTreeSet<_>>();
        let holds = known.iter().map(|id| self.hold_snapshots(id));
        let _hold = (
            self.hold(format!("group {wanted}"))?,
            holds.collect::<Result<Vec<_>, _>>()?,
        );
        let mut sources = Vec::new();
        for id in &ids {
            match self.find_with_deleted(id).await {
                Err(why) if why.code() == Code::NotFound => {
                    self.end_rest(&wanted, &known).await?;
                    return Err(why);
                }
                found => sources.push(found?),
            }
        }
        let names: Vec<String> = sources.iter().map(|of| of.name().to_owned()).collect();
        let set = match self.taken_together(&wanted).await? {
            None => {
                if let Some(gone) = sources.iter().find(|of| labels::is_deleted(of.volume())) {
                    return Err(no_volume(&gone.id.to_string()));
                }
                let own = [(labels::DRIVER, self.driver()), (labels::GROUP, wanted.as_str())];
                let own: Labels = own.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
                let taken = self.api.take_set(&id::snapshot_name(&wanted), &names, &own).await;
                match taken {
                    Err(why) if why.is("exists") => match self.taken_together(&wanted).await? {
                        // Another controller was faster.
                        Some(_) => return Err(Status::aborted(why.to_string())),
                        None => return Err(why.into()),
                    },
                    taken => taken.map_err(crossed)?,
                }
            }
            Some(set) if set.volumes.iter().collect::<BTreeSet<_>>() == names.iter().collect() => set,
            Some(set) => {
                for of in &sources {
                    let now = self.look_up(&of.id).await?;
                    if now.is_none_or(|now| now.name() != of.name()) {
                        let why = format!("volume {} was renamed or deleted meanwhile", of.name());
                        return Err(Status::aborted(why));
                    }
                }
                let why = format!("there are snapshots {wanted} already, of {}", set.volumes.join(", "));
                return Err(Status::already_exists(why));
            }
        };
        for of in &sources {
            if !self.keeps_snapshots(&of.id).await? {
                self.end_rest(&wanted, &known).await?;
                return Err(no_volume(&of.id.to_string()));
            }
        }
        Ok(wire::CreateVolumeGroupSnapshotResponse {
            group_snapshot: Some(self.group(&set, &sources).await?),
        })
    }

    /// A volume of a group is gone, and its snapshot with it: nobody has told of the group, or all of it is to go. None of them without the others.
    async fn end_rest(&self, wanted: &str, volumes: &BTreeSet<VolumeId>) -> Result<(), Status> {
        let Some(set) = self.taken_together(wanted).await? else {
            return Ok(());
        };
        let left = self.sources_of(&set).await?;
        // Of other volumes it is another group.
        let is_wanted = |of: &Found| volumes.iter().any(|id| id.number == of.id.number);
        if left.iter().all(is_wanted) {
            for of in left {
                let (volume, name) = (of.id, set.name.clone());
                self.end_snapshot(&SnapshotId { volume, name }).await?;
            }
        }
        Ok(())
    }

    /// The set that was taken under a name.
    async fn taken_together(&self, wanted: &str) -> Result<Option<Set>, Status> {
        let taken = self.api.all_snapshots((labels::GROUP, wanted)).await?.into_iter();
        let mut own = taken.filter(|taken| labels::get(&taken.labels, labels::DRIVER) == self.driver());
        let Some(number) = own.find_map(|taken| taken.set) else {
            return Ok(None);
        };
        self.set(number).await
    }

    async fn set(&self, number: u64) -> Result<Option<Set>, Status> {
        Ok(self.api.sets().await?.into_iter().find(|set| set.id == number))
    }

    async fn group(&self, set: &Set, sources: &[Found]) -> Result<wire::VolumeGroupSnapshot, Status> {
        let mut snapshots: Vec<Snapshot> = Vec::new();
        for of in sources {
            let gone = || Status::aborted(format!("snapshot {} of {} was deleted meanwhile", set.name, of.name()));
            let taken = self.api.snapshot(of.name(), &set.name).await?.ok_or_else(gone)?;
            let id = labels::snapshot_id(self.driver(), &of.id, &taken.thing).ok_or_else(gone)?;
            snapshots.push(as_wire(&id, &taken.thing, labels::head_bytes(of.volume())));
        }
        let group_snapshot_id = GroupId {
            set: set.id,
            name: set.name.clone(),
        };
        Ok(wire::VolumeGroupSnapshot {
            group_snapshot_id: group_snapshot_id.to_string(),
            snapshots,
            creation_time: Some(time(set.taken_at)),
            ready_to_use: true,
        })
    }

    /// The volumes of a set that are this driver's, also deleted ones that wait for their snapshots.
    async fn sources_of(&self, set: &Set) -> Result<Vec<Found>, Status> {
        let all = self.api.volumes((labels::DRIVER, self.driver())).await?;
        let ids: BTreeMap<&str, VolumeId> = all
            .iter()
            .filter_map(|volume| Some((volume.name.as_str(), labels::volume_id(self.driver(), volume)?)))
            .collect();
        let mut sources = Vec::new();
        for name in &set.volumes {
            if let Some(id) = ids.get(name.as_str()) {
                sources.extend(self.look_up(id).await?);
            }
        }
        Ok(sources)
    }

    pub(super) async fn delete_group(
        self,
        request: wire::DeleteVolumeGroupSnapshotRequest,
    ) -> Result<wire::DeleteVolumeGroupSnapshotResponse, Status> {
        let done = wire::DeleteVolumeGroupSnapshotResponse {};
        if request.group_snapshot_id.is_empty() {
            return Err(missing("group snapshot id"));
        }
        let Some(group) = GroupId::parse(&request.group_snapshot_id) else {
            return Ok(done);
        };
        let named = of_group(&group, &request.snapshot_ids)?;
        let _hold = self.hold(format!("group {group}"))?;
        let mut all: BTreeSet<SnapshotId> = named.into_iter().collect();
        if let Some(set) = self.set(group.set).await?.filter(|set| set.name == group.name) {
            all.extend(self.sources_of(&set).await?.into_iter().map(|of| SnapshotId {
                volume: of.id,
                name: group.name.clone(),
            }));
        }
        for id in &all {
            self.end_snapshot(id).await?;
        }
        Ok(done)
    }

    pub(super) async fn get_group(
        self,
        request: wire::GetVolumeGroupSnapshotRequest,
    ) -> Result<wire::GetVolumeGroupSnapshotResponse, Status> {
        if request.group_snapshot_id.is_empty() {
            return Err(missing("group snapshot id"));
        }
        let none = || Status::not_found(format!("there is no group {:?}", request.group_snapshot_id));
        let group = GroupId::parse(&request.group_snapshot_id).ok_or_else(none)?;
        of_group(&group, &request.snapshot_ids)?;
        let set = self
            .set(group.set)
            .await?
            .filter(|set| set.name == group.name)
            .ok_or_else(none)?;
        let sources = self.sources_of(&set).await?;
        Ok(wire::GetVolumeGroupSnapshotResponse {
            group_snapshot: Some(self.group(&set, &sources).await?),
        })
    }
}

/// The snapshots of a request, which are to be of its group.
fn of_group(group: &GroupId, ids: &[String]) -> Result<Vec<SnapshotId>, Status> {
    let read = |text: &String| {
        let found = SnapshotId::parse(text).filter(|found| found.name == group.name);
        found.ok_or_else(|| Status::invalid_argument(format!("snapshot {text:?} is none of group {group}")))
    };
    ids.iter().map(read).collect()
}

fn capabilities() -> wire::GroupControllerGetCapabilitiesResponse {
    use wire::GroupControllerServiceCapabilityRPCType as Rpc;
    let snapshots = wire::GroupControllerServiceCapabilityRPC {
        r#type: Rpc::CreateDeleteGetVolumeGroupSnapshot as i32,
    };
    wire::GroupControllerGetCapabilitiesResponse {
        capabilities: vec![wire::GroupControllerServiceCapability {
            r#type: Some(wire::GroupControllerServiceCapabilityTypeOneOf::Rpc(snapshots)),
        }],
    }
}
