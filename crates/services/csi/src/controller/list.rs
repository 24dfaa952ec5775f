//! What there is: ListVolumes, ControllerGetVolume, ValidateVolumeCapabilities.

use super::{Controller, Found, may_be_used, missing, signed};
use crate::api::{Target, Volume};
use crate::capability;
use crate::id::{self, VolumeId};
use crate::labels;
use crate::parameters::{Class, Mutable};
use crate::protocol::NodeId;
use crate::wire::common::{self, Topology};
use crate::wire::controller::{
    ControllerGetVolumeRequest, ControllerGetVolumeResponse, ControllerGetVolumeResponseVolumeStatus,
    ListVolumesRequest, ListVolumesResponse, ListVolumesResponseEntry, ListVolumesResponseVolumeStatus,
    ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse, ValidateVolumeCapabilitiesResponseConfirmed,
};
use std::collections::BTreeMap;
use tonic::Status;

/// Before the name behind which a list goes on.
const BEHIND: &str = "behind:";

/// A piece of a list that is in the order of `key`, and where it goes on.
pub(super) fn piece<T>(
    mut all: Vec<T>,
    most: i32,
    token: &str,
    key: impl Fn(&T) -> String,
) -> Result<(Vec<T>, String), Status> {
    let most = usize::try_from(most).map_err(|_| Status::invalid_argument("the number of entries is negative"))?;
    if !token.is_empty() {
        let behind = token.strip_prefix(BEHIND);
        let behind =
            behind.ok_or_else(|| Status::aborted(format!("{token:?} is no token of a list of this driver")))?;
        all.retain(|item| key(item).as_str() > behind);
    }
    let mut next = String::new();
    if most > 0 && all.len() > most {
        all.truncate(most);
        next = all
            .last()
            .map_or_else(String::new, |last| format!("{BEHIND}{}", key(last)));
    }
    Ok((all, next))
}

fn as_wire(id: &VolumeId, volume: &Volume, accessible_topology: Vec<Topology>) -> common::Volume {
    common::Volume {
        capacity_bytes: signed(labels::seen(volume)),
        volume_id: id.to_string(),
        accessible_topology,
        ..Default::default()
    }
}

/// The nodes of a list of hosts.
fn nodes(hosts: &[String]) -> Vec<String> {
    hosts
        .iter()
        .filter_map(|nqn| id::host_of(nqn))
        .map(|host| host.to_string())
        .collect()
}

/// The nodes of a list of initiators.
fn nodes_of(target: &Target) -> Vec<String> {
    let all = target
        .initiators
        .iter()
        .filter_map(|access| NodeId::of_initiator(&access.initiator));
    all.map(|node| node.to_string()).collect()
}

impl Controller {
    pub(super) async fn list(self, request: ListVolumesRequest) -> Result<ListVolumesResponse, Status> {
        let all = self.api.volumes((labels::DRIVER, self.driver())).await?;
        let all = all.into_iter().filter(|volume| !labels::is_deleted(volume));
        let mut all: Vec<(VolumeId, Volume)> = all
            .filter_map(|volume| Some((labels::volume_id(self.driver(), &volume)?, volume)))
            .collect();
        all.sort_by(|one, other| one.1.name.cmp(&other.1.name));
        let key = |(_, volume): &(VolumeId, Volume)| volume.name.clone();
        let (all, next_token) = piece(all, request.max_entries, &request.starting_token, key)?;
        let places = self
            .places_of(&all.iter().map(|(_, volume)| volume).collect::<Vec<_>>())
            .await?;
        let subsystems = self.api.subsystems().await?.into_iter();
        let mut hosts: BTreeMap<String, Vec<String>> =
            subsystems.map(|found| (found.name, nodes(&found.hosts))).collect();
        for target in self.api.targets().await? {
            let nodes = nodes_of(&target);
            hosts.entry(target.name).or_default().extend(nodes);
        }
        let entry = |(id, volume): &(VolumeId, Volume)| {
            let published = hosts.get(&id.subsystem(self.driver())).cloned();
            ListVolumesResponseEntry {
                volume: Some(as_wire(id, volume, self.accessible(volume, &places))),
                status: Some(ListVolumesResponseVolumeStatus {
                    published_node_ids: published.unwrap_or_default(),
                }),
            }
        };
        Ok(ListVolumesResponse {
            entries: all.iter().map(entry).collect(),
            next_token,
        })
    }

    pub(super) async fn get(self, request: ControllerGetVolumeRequest) -> Result<ControllerGetVolumeResponse, Status> {
        let found = self.find(&request.volume_id).await?;
        let places = self.places_of(&[found.volume()]).await?;
        let name = found.id.subsystem(self.driver());
        let mut published = match self.api.subsystem(&name).await? {
            Some(subsystem) => nodes(&subsystem.thing.hosts),
            None => Vec::new(),
        };
        if let Some(target) = self.api.target(&name).await? {
            published.extend(nodes_of(&target.thing));
        }
        Ok(ControllerGetVolumeResponse {
            volume: Some(as_wire(
                &found.id,
                found.volume(),
                self.accessible(found.volume(), &places),
            )),
            status: Some(ControllerGetVolumeResponseVolumeStatus {
                published_node_ids: published,
            }),
        })
    }

    pub(super) async fn validate(
        self,
        request: ValidateVolumeCapabilitiesRequest,
    ) -> Result<ValidateVolumeCapabilitiesResponse, Status> {
        if request.volume_capabilities.is_empty() {
            return Err(missing("volume capability"));
        }
        let found = self.find(&request.volume_id).await?;
        match confirm(&found, &request) {
            Err(message) => Ok(ValidateVolumeCapabilitiesResponse {
                confirmed: None,
                message,
            }),
            Ok(()) => Ok(ValidateVolumeCapabilitiesResponse {
                confirmed: Some(ValidateVolumeCapabilitiesResponseConfirmed {
                    volume_context: request.volume_context,
                    volume_capabilities: request.volume_capabilities,
                    parameters: request.parameters,
                    mutable_parameters: request.mutable_parameters,
                }),
                message: String::new(),
            }),
        }
    }
}

/// Can the volume be used in all of these ways? Else, in words, why not.
fn confirm(found: &Found, request: &ValidateVolumeCapabilitiesRequest) -> Result<(), String> {
    for wanted in &request.volume_capabilities {
        may_be_used(found.volume(), &capability::read(wanted)?)?;
    }
    let class = Class::read(&request.parameters)?;
    let reach = labels::reach(found.volume());
    // Without parameters nothing is asked of it.
    if !request.parameters.is_empty() && class.reach != reach {
        return Err(format!(
            "volume {} is reached from {} (accessibleFrom), and {} is asked for",
            found.name(),
            reach.text(),
            class.reach.text()
        ));
    }
    Mutable::read(&request.mutable_parameters)?;
    Ok(())
}
