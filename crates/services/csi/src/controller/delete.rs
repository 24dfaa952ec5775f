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
        let _hold = (self.hold_volume(&id)?, self.hold_snapshots(&id)?);
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
        let snapshots = self.api.every_snapshot(found.name()).await?;
        let driver = self.driver();
        let is_needed = snapshots
            .iter()
            .filter(|taken| !taken.mark && !taken.hidden)
            .any(|taken| labels::snapshot_id(driver, &found.id, taken).is_some());
        if !is_needed {
            let how = labels::get(&found.volume().labels, labels::ON_DELETE);
            let how = match on_delete(how).unwrap_or(OnDelete::Recycle) {
                OnDelete::Keep(0) => OnDelete::Now,
                // What is kept for no time goes for good, which what has snapshots does with them only.
                OnDelete::Recycle if !snapshots.is_empty() && self.keeps_nothing(&found.volume().pool).await? => {
                    OnDelete::Now
                }
                how => how,
            };
            return self
                .change(found, Change::Delete(how, !snapshots.is_empty()))
                .await
                .map(drop);
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

    /// Are deleted volumes of a pool kept for no time?
    async fn keeps_nothing(&self, pool: &str) -> Result<bool, Status> {
        let found = self.api.pool(pool).await?;
        Ok(found.is_some_and(|pool| pool.recycle_seconds == Some(0)))
    }
}
