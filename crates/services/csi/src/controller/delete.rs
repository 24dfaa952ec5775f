//! DeleteVolume. One that has snapshots stays under another name, for them, and goes with the last.

use super::{Change, Controller, Found, LOOKS, crossed, missing};
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
            self.end(found).await?;
        }
        Ok(DeleteVolumeResponse {})
    }

    /// Nobody has it; what was left of publishing goes.
    async fn end_of_service(&self, found: &Found) -> Result<(), Status> {
        let name = found.id.subsystem(self.driver());
        let published =
            |to: String| Status::failed_precondition(format!("volume {} is published to {to}", found.name()));
        if let Some(subsystem) = self.api.subsystem(&name).await? {
            match subsystem.thing.hosts.is_empty() {
                true => self.api.delete_subsystem(&subsystem).await.map_err(crossed)?,
                false => return Err(published(subsystem.thing.hosts.join(", "))),
            }
        }
        if let Some(target) = self.api.target(&name).await? {
            match target.thing.initiators.is_empty() {
                true => self.api.delete_target(&target).await.map_err(crossed)?,
                false => return Err(published(target.thing.names().join(", "))),
            }
        }
        Ok(())
    }

    /// Deletes a volume, or has it wait for its snapshots.
    ///
    /// A snapshot may be taken meanwhile, by another controller. So the volume is marked before it is looked for the last time which there are, and whoever
    /// takes one looks for the mark behind it: of the two one sees the other. For as long as a marked volume has its name, somebody may be about to delete it
    /// who has seen no snapshot; by the name of one that is gone nobody deletes it who has not looked behind that.
    pub(super) async fn end(&self, found: Found) -> Result<(), Status> {
        if labels::is_deleted(found.volume()) {
            return self.end_marked(found).await;
        }
        // What may not go is told before anything is done.
        self.fate(&found).await?;
        self.change(&found, Change::Label(labels::DELETED, "1")).await?;
        match self.look_up(&found.id).await? {
            Some(marked) => self.end_marked(marked).await,
            None => Ok(()),
        }
    }

    async fn end_marked(&self, found: Found) -> Result<(), Status> {
        let mut found = found;
        for _ in 0..LOOKS {
            let Some(how) = self.fate(&found).await? else {
                let gone = found.id.gone_name();
                if found.name() != gone {
                    self.api.rename(found.name(), &gone).await.map_err(crossed)?;
                }
                return Ok(());
            };
            if how == OnDelete::Now {
                self.end_own_snapshots(&found).await?;
            }
            match self.api.delete_volume(&found.tagged, how).await {
                // Its owner comes and goes; or it was renamed, for a snapshot: which there are is looked at anew.
                Err(why) if why.is("changed") || why.is_not_found() => match self.look_up(&found.id).await? {
                    Some(now) => found = now,
                    None => return Ok(()),
                },
                done => return Ok(done?),
            }
        }
        Err(Status::aborted(format!(
            "volume {} changes again and again",
            found.name()
        )))
    }

    /// How a volume is deleted; none: it waits for its snapshots. Those of an operator's are not the driver's to destroy.
    async fn fate(&self, found: &Found) -> Result<Option<OnDelete>, Status> {
        let snapshots = self.api.snapshots(found.name()).await.map_err(crossed)?;
        let driver = self.driver();
        if snapshots
            .iter()
            .any(|taken| labels::snapshot_id(driver, &found.id, taken).is_some())
        {
            return Ok(None);
        }
        let how = labels::get(&found.volume().labels, labels::ON_DELETE);
        let how = match on_delete(how).unwrap_or(OnDelete::Recycle) {
            OnDelete::Keep(0) => OnDelete::Now,
            // What is kept for no time goes for good.
            OnDelete::Recycle if !snapshots.is_empty() && self.keeps_nothing(&found.volume().pool).await? => {
                OnDelete::Now
            }
            how => how,
        };
        let others: Vec<&str> = snapshots
            .iter()
            .filter(|taken| labels::get(&taken.labels, labels::DRIVER) != driver)
            .map(|taken| taken.name.as_str())
            .collect();
        if how == OnDelete::Now && !others.is_empty() {
            return Err(Status::failed_precondition(format!(
                "volume {} is to go for good, and has snapshots that the driver has not taken: {}; delete them, and it goes",
                found.name(),
                others.join(", ")
            )));
        }
        Ok(Some(how))
    }

    /// Snapshots that the driver has taken for itself go with their volume.
    pub(super) async fn end_own_snapshots(&self, found: &Found) -> Result<(), Status> {
        for taken in self.api.snapshots(found.name()).await.map_err(crossed)? {
            if labels::get(&taken.labels, labels::DRIVER) != self.driver()
                || labels::snapshot_id(self.driver(), &found.id, &taken).is_some()
            {
                continue;
            }
            if let Some(tagged) = self.api.snapshot(found.name(), &taken.name).await? {
                self.api.delete_snapshot(&tagged).await?;
            }
        }
        Ok(())
    }

    /// Are deleted volumes of a pool kept for no time?
    async fn keeps_nothing(&self, pool: &str) -> Result<bool, Status> {
        let found = self.api.pool(pool).await?;
        Ok(found.is_some_and(|pool| pool.recycle_seconds == Some(0)))
    }
}
