//! GetCapacity, and which pool is meant.

use super::{Controller, MAX_BYTES, MIN_BYTES, signed};
use crate::api::PoolDetails;
use crate::capability;
use crate::parameters::{Class, Mutable};
use crate::topology::{Reach, Requirement};
use crate::wire::controller::{GetCapacityRequest, GetCapacityResponse};
use tonic::Status;

/// Bytes that the quota of a pool leaves; none: it has none.
pub(super) fn left(found: &PoolDetails) -> Option<u64> {
    let most = found.quota.provisioned_bytes?;
    Some(most.saturating_sub(found.asked.provisioned_bytes))
}

/// Bytes that volumes may have yet: what is free for all copies of a block, and no more than the quota leaves.
fn free(found: &PoolDetails) -> (u64, Option<u64>) {
    let copies = found.pool.copies.unwrap_or(1).max(1);
    let left = left(found);
    let free = found.pool.free_bytes / u64::from(copies);
    (left.map_or(free, |left| left.min(free)), left)
}

impl Controller {
    pub(super) async fn capacity(self, request: GetCapacityRequest) -> Result<GetCapacityResponse, Status> {
        let class = Class::read(&request.parameters).map_err(Status::invalid_argument)?;
        let can = request
            .volume_capabilities
            .iter()
            .all(|wanted| capability::read(wanted).is_ok());
        if !can {
            return Ok(GetCapacityResponse::default());
        }
        self.may_reach(class.reach)?;
        let head = class.head_bytes();
        let mut names = class.pools;
        if names.is_empty() {
            names = self.api.pools().await?.into_iter().map(|pool| pool.name).collect();
        }
        // What is reached from everywhere has the same room wherever it is asked for.
        if let Some(at) = request.accessible_topology.filter(|_| class.reach != Reach::Everywhere) {
            let (_, places) = self.pools_and_places().await?;
            let wanted = Requirement::read(self.driver(), &[at], &[]);
            names.retain(|name| places.get(name).is_none_or(|places| wanted.allows(places, class.reach)));
            if names.is_empty() {
                return Ok(GetCapacityResponse::default());
            }
        }
        let mut best = (0, None);
        for name in names {
            let none = || Status::invalid_argument(format!("there is no pool {name:?}"));
            let found = free(&self.api.pool(&name).await?.ok_or_else(none)?);
            if found.0 >= best.0 {
                best = found;
            }
        }
        let (available, left) = best;
        // Volumes are thin: one may be larger than what is free, and no larger than the quota.
        let most = left.map_or(MAX_BYTES, |left| left.min(MAX_BYTES));
        Ok(GetCapacityResponse {
            available_capacity: signed(available.saturating_sub(head)),
            maximum_volume_size: Some(signed(most.saturating_sub(head))),
            minimum_volume_size: Some(signed(MIN_BYTES)),
        })
    }

    /// The pool where none is said.
    pub(super) async fn only_pool(&self) -> Result<String, Status> {
        let mut names: Vec<String> = self.api.pools().await?.into_iter().map(|pool| pool.name).collect();
        match (names.pop(), names.is_empty()) {
            (Some(only), true) => Ok(only),
            (None, _) => Err(Status::failed_precondition(
                "the cluster has no pool (`amita pool create`)",
            )),
            (Some(last), false) => Err(Status::invalid_argument(format!(
                "the class names no pool, and there are several: {}, {last}",
                names.join(", ")
            ))),
        }
    }

    /// The pool that mutable parameters name, or the one that has so many copies.
    pub(super) async fn pool_of(&self, wish: &Mutable) -> Result<Option<String>, Status> {
        let Some(copies) = wish.copies else {
            return Ok(wish.pool.clone());
        };
        let pools = self.api.pools().await?.into_iter();
        let mut fit: Vec<String> = pools
            .filter(|pool| pool.copies == Some(copies))
            .map(|pool| pool.name)
            .filter(|name| wish.pool.as_ref().is_none_or(|wanted| wanted == name))
            .collect();
        match (fit.pop(), fit.is_empty()) {
            (Some(only), true) => Ok(Some(only)),
            (None, _) => Err(Status::invalid_argument(format!(
                "no pool that may be meant has {copies} copies"
            ))),
            (Some(last), false) => Err(Status::invalid_argument(format!(
                "several pools have {copies} copies: {}, {last}; name one (pool)",
                fit.join(", ")
            ))),
        }
    }
}
