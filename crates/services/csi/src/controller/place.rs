//! Where volumes lie, and from where they may be used: which of a class's pools is the nearest, and what Kubernetes is told of it (decision 095).

use super::Controller;
use crate::api::{Pool, Volume};
use crate::labels;
use crate::topology::{Place, Reach, Requirement};
use crate::wire::common::Topology;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use tonic::Status;

/// Where the stores of each pool stand, by the pool's name.
pub(super) type Places = BTreeMap<String, BTreeSet<Place>>;

/// Which pools a volume may lie in.
#[derive(Clone, Debug, Default)]
pub(super) struct Choice {
    /// The best one first; none: nothing is said of it.
    pub(super) pools: Vec<String>,
    /// Those that were not chosen, for they lie elsewhere.
    pub(super) elsewhere: Vec<String>,
    places: Places,
    reach: Reach,
    requirement: Requirement,
}

impl Choice {
    /// May a volume of this pool be it?
    pub(super) fn allows(&self, pool: &str) -> bool {
        self.pools.is_empty() || self.pools.iter().any(|name| name == pool)
    }

    /// From where a volume of this pool can be used; none: from everywhere.
    pub(super) fn accessible(&self, driver: &str, pool: &str) -> Vec<Topology> {
        let none = BTreeSet::new();
        let places = self.places.get(pool).unwrap_or(&none);
        self.requirement.accessible(driver, places, self.reach)
    }
}

impl Controller {
    /// The pools by their names, and where they lie.
    pub(super) async fn pools_and_places(&self) -> Result<(BTreeMap<String, Pool>, Places), Status> {
        let pools = self.api.pools().await?;
        let nodes = self.api.nodes().await?.into_iter();
        let nodes: BTreeMap<String, Place> = nodes
            .map(|node| {
                let (site, rack) = (node.site, node.rack);
                (node.name, Place { site, rack })
            })
            .collect();
        let stores = self.api.stores().await?.into_iter();
        let stores: BTreeMap<String, Place> = stores
            .filter_map(|store| Some((store.id, nodes.get(&store.node)?.clone())))
            .collect();
        let of = |pool: &Pool| pool.stores.iter().filter_map(|id| stores.get(id).cloned()).collect();
        let places = pools.iter().map(|pool| (pool.name.clone(), of(pool))).collect();
        Ok((
            pools.into_iter().map(|pool| (pool.name.clone(), pool)).collect(),
            places,
        ))
    }

    /// What a class can only be where the driver is told of places.
    pub(super) fn may_reach(&self, reach: Reach) -> Result<(), Status> {
        match reach == Reach::Everywhere || self.has_places {
            true => Ok(()),
            false => Err(Status::invalid_argument(format!(
                "accessibleFrom is {}, and the driver is not told of places (--topology, at the controller and at every node)",
                reach.text()
            ))),
        }
    }

    /// Which of these pools, and in which order.
    pub(super) async fn choose(
        &self,
        mut names: Vec<String>,
        reach: Reach,
        requirement: Requirement,
    ) -> Result<Choice, Status> {
        self.may_reach(reach)?;
        if reach == Reach::Everywhere && names.len() < 2 {
            return Ok(Choice {
                pools: names,
                ..Choice::default()
            });
        }
        let (pools, places) = self.pools_and_places().await?;
        if let Some(unknown) = names.iter().find(|name| !pools.contains_key(*name)) {
            return Err(Status::invalid_argument(format!("there is no pool {unknown:?}")));
        }
        let (mut near, elsewhere): (Vec<_>, Vec<_>) = names
            .drain(..)
            .partition(|name| requirement.allows(&places[name], reach));
        if near.is_empty() {
            return Err(Status::resource_exhausted(format!(
                "no pool of the class ({}) has a store in a {} from which the volume is to be used ({}); where nodes stand: amita node place",
                elsewhere.join(", "),
                reach.text(),
                match requirement.is_empty() {
                    true => "any that has a name".to_owned(),
                    false => requirement.to_string(),
                }
            )));
        }
        let free = |name: &String| pools[name].free_bytes / u64::from(pools[name].copies.unwrap_or(1).max(1));
        near.sort_by_key(|name| (requirement.distance(&places[name]), Reverse(free(name))));
        Ok(Choice {
            pools: near,
            elsewhere,
            places,
            reach,
            requirement,
        })
    }

    /// From where volumes can be used, of those that are not reached from everywhere; of these nothing is asked.
    pub(super) async fn places_of(&self, volumes: &[&Volume]) -> Result<Places, Status> {
        match volumes.iter().any(|volume| labels::reach(volume) != Reach::Everywhere) {
            true => Ok(self.pools_and_places().await?.1),
            false => Ok(Places::new()),
        }
    }

    /// From where a volume can be used; none: from everywhere.
    pub(super) fn accessible(&self, volume: &Volume, places: &Places) -> Vec<Topology> {
        let none = BTreeSet::new();
        let places = places.get(&volume.pool).unwrap_or(&none);
        Requirement::default().accessible(self.driver(), places, labels::reach(volume))
    }

    /// A volume that is bound to a place moves only to a pool that is there as well: Kubernetes was told for good from where it can be used.
    pub(super) async fn may_move(&self, volume: &Volume, pool: &str) -> Result<(), Status> {
        let reach = labels::reach(volume);
        if reach == Reach::Everywhere {
            return Ok(());
        }
        let places = self.pools_and_places().await?.1;
        let there = places.get(pool);
        let there = there.ok_or_else(|| Status::invalid_argument(format!("there is no pool {pool:?}")))?;
        let told = |places: &BTreeSet<Place>| Requirement::default().accessible(self.driver(), places, reach);
        let (now, then) = (self.accessible(volume, &places), told(there));
        match now.iter().all(|place| then.contains(place)) {
            true => Ok(()),
            false => Err(Status::invalid_argument(format!(
                "volume {} is used from each {} that pool {} has stores in (accessibleFrom), and pool {pool} has not one in each of them",
                volume.name,
                reach.text(),
                volume.pool
            ))),
        }
    }
}
