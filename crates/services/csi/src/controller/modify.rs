//! ControllerModifyVolume: limits, how a volume stands among others, and the pool that holds a volume.

use super::{Controller, missing};
use crate::parameters::Mutable;
use crate::wire::controller::{ControllerModifyVolumeRequest, ControllerModifyVolumeResponse};
use tonic::Status;

impl Controller {
    pub(super) async fn modify(
        self,
        request: ControllerModifyVolumeRequest,
    ) -> Result<ControllerModifyVolumeResponse, Status> {
        if request.volume_id.is_empty() {
            return Err(missing("volume id"));
        }
        let wish = Mutable::read(&request.mutable_parameters).map_err(Status::invalid_argument)?;
        let _hold = self.hold_named(&request.volume_id)?;
        let found = self.find(&request.volume_id).await?;
        self.limit(found.name(), &wish).await?;
        if let Some(pool) = self.pool_of(&wish).await?.filter(|pool| *pool != found.volume().pool) {
            self.may_move(found.volume(), &pool).await?;
            self.move_to(found.name(), &pool).await?;
        }
        Ok(ControllerModifyVolumeResponse {})
    }

    /// Its limits, and how it stands among others.
    pub(super) async fn limit(&self, volume: &str, wish: &Mutable) -> Result<(), Status> {
        if wish.limits_something() {
            let there = self.api.limits(volume).await?;
            let wanted = wish.over(there.clone());
            if wanted != there {
                self.api.set_limits(volume, &wanted).await?;
            }
        }
        if wish.orders_something() {
            let there = self.api.priority(volume).await?;
            let wanted = wish.ordered(there.clone());
            if wanted != there {
                self.api.set_priority(volume, &wanted).await?;
            }
        }
        Ok(())
    }

    /// Begins a move, or says how it is: it is done when the volume lies there.
    async fn move_to(&self, volume: &str, pool: &str) -> Result<(), Status> {
        let jobs = self.api.jobs().await?;
        if !jobs.iter().any(|job| job.kind == "migrate" && job.object == volume) {
            let begun = self.api.migrate(volume, pool).await;
            begun.map_err(|why| match why.is_not_found() {
                true => Status::invalid_argument(why.to_string()),
                false => why.into(),
            })?;
        }
        Err(Status::aborted(format!(
            "volume {volume} is moving to pool {pool}: ask again"
        )))
    }
}
