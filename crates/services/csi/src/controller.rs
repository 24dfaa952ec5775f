//! The controller: volumes, snapshots and who has them, as requests of the API.
//!
//! A call looks, does the first thing that is missing, and goes on; it may be cut at each request, and is then sent again, perhaps to another
//! controller.

mod capacity;
mod changes;
mod create;
mod delete;
mod expand;
mod fence;
mod group;
pub(crate) mod inline;
mod list;
mod modify;
mod place;
mod publish;
mod snapshot;
mod target;

#[cfg(test)]
pub(crate) use publish::FENCED;
pub use publish::context;

use crate::Driver;
use crate::api::{Api, Tagged, Trouble, Volume};
use crate::busy::{Busy, Hold};
use crate::capability::{Sharing, Use};
use crate::grpc::unary;
use crate::id::VolumeId;
use crate::labels;
use crate::wire::common::CapacityRange;
use crate::wire::controller as wire;
use http::{Request, Response};
use hyper::body::Incoming;
use std::future::ready;
use std::time::Duration;
use tonic::Status;
use tonic::body::Body;

/// Volumes are multiples of this.
const BLOCK_BYTES: u64 = 4096;
/// The smallest volume: what a file system fits on is the file system's to say.
const MIN_BYTES: u64 = 1 << 20;
/// The largest (docs/limits.md).
const MAX_BYTES: u64 = 1 << 56;
/// How often a volume is looked at for one change.
const LOOKS: u32 = 5;
/// The size where nothing is said.
const USUAL_BYTES: u64 = 1 << 30;
/// A host that was taken off a list has no connection at any gateway that reaches the metadata after one second (docs/operating/nvme.md): twice as long is
/// waited, so that who comes next finds what it had reserved, and that it reserves nothing any more.
const CUT_OFF: Duration = Duration::from_secs(2);

/// The controller.
#[derive(Clone)]
pub struct Controller {
    api: Api,
    driver: Driver,
    busy: Busy,
    cut_off: Duration,
    /// It is told where nodes stand.
    has_places: bool,
}

/// A volume that was looked up by its id.
#[derive(Clone)]
pub(crate) struct Found {
    pub(crate) id: VolumeId,
    pub(crate) tagged: Tagged<Volume>,
}

impl Found {
    pub(crate) fn volume(&self) -> &Volume {
        &self.tagged.thing
    }

    pub(crate) fn name(&self) -> &str {
        &self.tagged.thing.name
    }
}

/// What is changed of a volume.
#[derive(Clone, Copy, Debug)]
enum Change<'a> {
    Size(u64),
    Label(&'a str, &'a str),
}

/// How large a volume is to be, as its pods see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    required: u64,
    /// 0: as large as one likes.
    limit: u64,
    /// Bytes that it has beside these.
    head: u64,
}

impl Sizes {
    fn read(range: Option<&CapacityRange>, head: u64) -> Result<Sizes, Status> {
        let CapacityRange {
            required_bytes,
            limit_bytes,
        } = range.cloned().unwrap_or_default();
        let (Ok(required), Ok(limit)) = (u64::try_from(required_bytes), u64::try_from(limit_bytes)) else {
            return Err(Status::invalid_argument("a size is negative"));
        };
        Ok(Sizes { required, limit, head })
    }

    /// The size of a volume that shows `least` bytes already: what its pods are to see. The volume itself has [`Sizes::raw`] of it.
    fn choose(self, least: u64) -> Result<u64, Status> {
        let wanted = match (self.required, self.limit) {
            (0, 0) => USUAL_BYTES,
            (0, limit) => USUAL_BYTES.min(limit / BLOCK_BYTES * BLOCK_BYTES),
            (required, _) => required.checked_next_multiple_of(BLOCK_BYTES).unwrap_or(u64::MAX),
        };
        // Nothing is said of its size: it is what it began as.
        let wanted = if self.required == 0 && least > 0 { least } else { wanted };
        let bytes = wanted.max(least).max(MIN_BYTES);
        let most = MAX_BYTES - self.head;
        match self.allows(bytes) && bytes <= most {
            true => Ok(bytes),
            false => Err(Status::out_of_range(format!(
                "it would have {bytes} bytes: that is more than may be ({}); volumes have {MIN_BYTES} to {most} bytes, in steps of \
                 {BLOCK_BYTES}",
                if self.limit == 0 { most } else { self.limit.min(most) }
            ))),
        }
    }

    /// What a volume has whose pods see so much.
    fn raw(self, bytes: u64) -> u64 {
        bytes.saturating_add(self.head)
    }

    fn allows(self, bytes: u64) -> bool {
        bytes >= self.required && (self.limit == 0 || bytes <= self.limit)
    }
}

fn missing(what: &str) -> Status {
    Status::invalid_argument(format!("there is no {what}"))
}

fn no_volume(id: &str) -> Status {
    Status::not_found(format!("there is no volume {id:?}"))
}

/// Another controller has made the same, renamed it or taken it away since it was looked for: whoever asks again finds it as it is.
fn crossed(why: Trouble) -> Status {
    match why.is("exists") || why.is_not_found() {
        true => Status::aborted(why.to_string()),
        false => why.into(),
    }
}

/// The largest number that the specification has room for.
fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// May a volume be used so?
fn may_be_used(volume: &Volume, wanted: &Use) -> Result<(), String> {
    let is_read = wanted.sharing == Sharing::Readers || wanted.reads_only;
    match (labels::is_read_only(volume), wanted.sharing) {
        (true, _) if !is_read => Err(format!("volume {} was made to be only read", volume.name)),
        (false, Sharing::Readers) => Err(format!(
            "volume {} may be written, so that several nodes cannot read it as one: clone it, or a snapshot, with the access mode \
             ReadOnlyMany alone",
            volume.name
        )),
        _ => Ok(()),
    }
}

impl Controller {
    /// On an API.
    #[must_use]
    pub fn new(driver: Driver, api: Api) -> Controller {
        Controller {
            api,
            driver,
            busy: Busy::default(),
            cut_off: CUT_OFF,
            has_places: false,
        }
    }

    /// The same that is told where nodes stand.
    #[must_use]
    pub fn with_places(self) -> Controller {
        Controller {
            has_places: true,
            ..self
        }
    }

    /// The same where hosts are cut off at once.
    #[cfg(test)]
    pub(crate) fn at_once(self) -> Controller {
        Controller {
            cut_off: Duration::ZERO,
            ..self
        }
    }

    pub(crate) fn driver(&self) -> &str {
        &self.driver.name
    }

    pub(crate) fn hold(&self, what: impl Into<String>) -> Result<Hold, Status> {
        self.busy.take(what)
    }

    /// One call changes a volume at a time, whatever name stands in its id.
    pub(crate) fn hold_volume(&self, id: &VolumeId) -> Result<Hold, Status> {
        self.hold(format!("volume number {}", id.number))
    }

    /// The same of an id as a request has it; none: it is one that no volume has.
    pub(crate) fn hold_named(&self, id: &str) -> Result<Option<Hold>, Status> {
        VolumeId::parse(id).map(|id| self.hold_volume(&id)).transpose()
    }

    /// No snapshot is taken of a volume while it is deleted: what is looked at before would not be all.
    pub(crate) fn hold_snapshots(&self, id: &VolumeId) -> Result<Hold, Status> {
        self.hold(format!("the snapshots of volume number {}", id.number))
    }

    /// Whether it is the volume of an id, and not another one of its name.
    fn is_it(&self, volume: &Volume, id: &VolumeId) -> bool {
        volume.id == id.number && labels::get(&volume.labels, labels::DRIVER) == self.driver()
    }

    /// The volume of an id, also one that was renamed, or deleted and kept for its snapshots; none: there is none.
    pub(crate) async fn look_up(&self, id: &VolumeId) -> Result<Option<Found>, Status> {
        let at_its_name = self.api.volume(&id.name).await?;
        let found = match at_its_name.filter(|found| self.is_it(&found.thing, id)) {
            Some(found) => Some(found),
            None => {
                let all = self.api.volumes((labels::DRIVER, self.driver())).await?;
                let Some(renamed) = all.into_iter().find(|found| found.id == id.number) else {
                    return Ok(None);
                };
                let found = self.api.volume(&renamed.name).await?;
                found.filter(|found| self.is_it(&found.thing, id))
            }
        };
        let named = found.and_then(|tagged| {
            let id = labels::volume_id(self.driver(), &tagged.thing)?;
            Some(Found { id, tagged })
        });
        Ok(named)
    }

    /// The volume of an id as a request has it, for those who use it.
    pub(crate) async fn find(&self, id: &str) -> Result<Found, Status> {
        match self.find_with_deleted(id).await? {
            found if labels::is_deleted(found.volume()) => Err(no_volume(id)),
            found => Ok(found),
        }
    }

    /// The same with one that was deleted, and is kept for its snapshots.
    pub(crate) async fn find_with_deleted(&self, id: &str) -> Result<Found, Status> {
        if id.is_empty() {
            return Err(missing("volume id"));
        }
        let parsed = VolumeId::parse(id).ok_or_else(|| no_volume(id))?;
        self.look_up(&parsed).await?.ok_or_else(|| no_volume(id))
    }

    /// Changes a volume as it was looked at. What is shown of it has its owner, too, which comes and goes, and it may have been renamed: then it is looked at
    /// anew. None: it is gone.
    async fn change(&self, found: &Found, change: Change<'_>) -> Result<Option<Volume>, Status> {
        let mut tagged = found.tagged.clone();
        for _ in 0..LOOKS {
            let done = match change {
                Change::Size(bytes) => self.api.resize(&tagged, bytes).await.map(|grown| Some(grown.thing)),
                Change::Label(key, value) => self
                    .api
                    .label(&tagged, key, value)
                    .await
                    .map(|labelled| Some(labelled.thing)),
            };
            match done {
                Err(why) if why.is("changed") || why.is_not_found() => match self.look_up(&found.id).await? {
                    Some(now) => tagged = now.tagged,
                    None => return Ok(None),
                },
                done => return Ok(done?),
            }
        }
        Err(Status::aborted(format!(
            "volume {} changes again and again",
            found.name()
        )))
    }

    pub(crate) async fn route(self, method: &str, request: Request<Incoming>) -> Option<Response<Body>> {
        Some(match method {
            "CreateVolume" => unary(request, |q: wire::CreateVolumeRequest| self.create(q)).await,
            "DeleteVolume" => unary(request, |q: wire::DeleteVolumeRequest| self.delete(q)).await,
            "ControllerPublishVolume" => {
                unary(request, |q: wire::ControllerPublishVolumeRequest| self.publish(q)).await
            }
            "ControllerUnpublishVolume" => {
                unary(request, |q: wire::ControllerUnpublishVolumeRequest| self.unpublish(q)).await
            }
            "ValidateVolumeCapabilities" => {
                unary(request, |q: wire::ValidateVolumeCapabilitiesRequest| self.validate(q)).await
            }
            "ListVolumes" => unary(request, |q: wire::ListVolumesRequest| self.list(q)).await,
            "ControllerGetVolume" => unary(request, |q: wire::ControllerGetVolumeRequest| self.get(q)).await,
            "GetCapacity" => unary(request, |q: wire::GetCapacityRequest| self.capacity(q)).await,
            "ControllerGetCapabilities" => {
                unary(request, |_: wire::ControllerGetCapabilitiesRequest| {
                    ready(Ok(capabilities()))
                })
                .await
            }
            "CreateSnapshot" => unary(request, |q: wire::CreateSnapshotRequest| self.create_snapshot(q)).await,
            "DeleteSnapshot" => unary(request, |q: wire::DeleteSnapshotRequest| self.delete_snapshot(q)).await,
            "ListSnapshots" => unary(request, |q: wire::ListSnapshotsRequest| self.list_snapshots(q)).await,
            "GetSnapshot" => unary(request, |q: wire::GetSnapshotRequest| self.get_snapshot(q)).await,
            "ControllerExpandVolume" => unary(request, |q: wire::ControllerExpandVolumeRequest| self.expand(q)).await,
            "ControllerModifyVolume" => unary(request, |q: wire::ControllerModifyVolumeRequest| self.modify(q)).await,
            _ => return None,
        })
    }
}

fn capabilities() -> wire::ControllerGetCapabilitiesResponse {
    use wire::ControllerServiceCapabilityRPCType as Rpc;
    let all = [
        Rpc::CreateDeleteVolume,
        Rpc::PublishUnpublishVolume,
        Rpc::ListVolumes,
        Rpc::GetCapacity,
        Rpc::CreateDeleteSnapshot,
        Rpc::ListSnapshots,
        Rpc::CloneVolume,
        Rpc::ExpandVolume,
        Rpc::ListVolumesPublishedNodes,
        Rpc::GetVolume,
        Rpc::SingleNodeMultiWriter,
        Rpc::ModifyVolume,
        Rpc::GetSnapshot,
    ];
    let capability = |kind: Rpc| wire::ControllerServiceCapability {
        r#type: Some(wire::ControllerServiceCapabilityTypeOneOf::Rpc(
            wire::ControllerServiceCapabilityRPC { r#type: kind as i32 },
        )),
    };
    wire::ControllerGetCapabilitiesResponse {
        capabilities: all.into_iter().map(capability).collect(),
    }
}

#[cfg(test)]
mod tests;
