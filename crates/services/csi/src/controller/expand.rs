//! ControllerExpandVolume: a volume grows while it is used; its host sees it at once.

use super::{Change, Controller, Sizes, signed};
use crate::capability::{self, Access};
use crate::labels;
use crate::wire::controller::{ControllerExpandVolumeRequest, ControllerExpandVolumeResponse};
use tonic::Status;

impl Controller {
    pub(super) async fn expand(
        self,
        request: ControllerExpandVolumeRequest,
    ) -> Result<ControllerExpandVolumeResponse, Status> {
        let used = request.volume_capability.as_ref().map(capability::read).transpose();
        let used = used.map_err(Status::invalid_argument)?;
        let _hold = self.hold_named(&request.volume_id)?;
        let found = self.find(&request.volume_id).await?;
        let range = request.capacity_range.as_ref();
        let range = range.ok_or_else(|| super::missing("capacity range"))?;
        let sizes = Sizes::read(Some(range), labels::head_bytes(found.volume()))?;
        if labels::is_read_only(found.volume()) {
            return Err(Status::failed_precondition("it is only read, and stays what it is"));
        }
        let wanted = sizes.raw(sizes.choose(labels::seen(found.volume()))?);
        let bytes = match found.volume().size_bytes < wanted {
            true => {
                let grown = self.change(&found, Change::Size(wanted)).await?;
                grown
                    .ok_or_else(|| Status::not_found("the volume was deleted"))?
                    .size_bytes
            }
            false => found.volume().size_bytes,
        };
        // A raw disk grows by itself, but for what decrypts it.
        let is_by_secret = labels::is_by_secret(found.volume());
        Ok(ControllerExpandVolumeResponse {
            capacity_bytes: signed(labels::seen_of(found.volume(), bytes)),
            node_expansion_required: is_by_secret || used.is_none_or(|used| used.access != Access::Block),
        })
    }
}
