//! DeleteVolume. One that has snapshots stays under another name, for them, and goes with the last.

use super::{Change, Controller, Found, missing};
use crate::api::OnDelete;
use crate::id::VolumeId;
use crate::labels;
use crate::parameters::on_delete;
use crate::wire::controller::{DeleteVolumeRequest, DeleteVolumeResponse};
use tonic::Status;

impl Controller {
    pub(super) async fn delete(self, request: DeleteVolumeRequest) -> Result<DeleteVolumeResponse, Status> {
        if request.volume_id.is_empty() {
            return Err(missing("volume id"));
        }
        let Some(id) = VolumeId::parse(&request.volume_id) else {
            return Ok(DeleteVolumeResponse {});
        };
        let _hold = self.hold(id.to_string())?;
        if let Some(found) = self.look_up(&id).await? {
            self.end_of_service(&found).await?;
            self.end(&found).await?;
        }
        Ok(DeleteVolumeResponse {})
    }

    /// Nobody has it; what was left of publishing goes.
    async fn end_of_service(&self, found: &Found) -> Result<(), Status> {
        let Some(subsystem) = self.api.subsystem(&found.id.subsystem(self.driver())).await? else {
            return Ok(());
        };
        match subsystem.thing.hosts.is_empty() {
            true => Ok(self.api.delete_subsystem(&subsystem).await?),
            false => Err(Status::failed_precondition(format!(
                "volume {} is published to {}",
                found.name(),
                subsystem.thing.hosts.join(", ")
            ))),
        }
    }

    /// Deletes a volume, or has it wait for its snapshots.
    pub(super) async fn end(&self, found: &Found) -> Result<(), Status> {
        let snapshots = self.api.snapshots(found.name()).await?;
        let driver = self.driver();
        let is_needed = snapshots
            .iter()
            .any(|taken| labels::snapshot_id(driver, &found.id, taken).is_some());
        if !is_needed {
            let how = labels::get(&found.volume().labels, labels::ON_DELETE);
            let how = on_delete(how).unwrap_or(OnDelete::Recycle);
            return self.change(found, Change::Delete(how)).await.map(drop);
        }
        if !labels::is_deleted(found.volume()) {
            self.change(found, Change::Label(labels::DELETED, "1")).await?;
        }
        let gone = found.id.gone_name();
        if found.name() != gone {
            self.api.rename(found.name(), &gone).await?;
        }
        Ok(())
    }
}
