//! What hinders that a store is drained by itself. A drain moves copies before it lets go of any, so it never takes a group below what its
//! pool wants; what it can do is to fill the other stores, and to move much of a cluster because of a word that many disks say at once.

use crate::gather::Facts;
use amita_control::admin::{DrainOutlook, PoolStatus, StoreStatus};
use amita_types::StoreId;
use amita_types::map::StoreDuty;

/// Where more than one in so many stores is on a disk that predicts its failure, a person is to see why.
const ONE_IN: usize = 4;

/// Why a store is not drained by itself now; none: nothing hinders. `failing`: how many stores are on disks that predict their failure;
/// `outlook`: what a drain would lead to. The sentence has no figures in it that change by themselves.
#[must_use]
pub fn hindrance(
    facts: &Facts,
    store: StoreId,
    failing: usize,
    outlook: &Result<DrainOutlook, String>,
) -> Option<String> {
    let status = &facts.status;
    let Some(own) = status.stores.iter().find(|own| own.store.id == store) else {
        return Some("there is no such store any more".to_owned());
    };
    if !own.alive {
        return Some("its node does not serve it: what has to be done about that comes first".to_owned());
    }
    if failing > (status.stores.len() / ONE_IN).max(1) {
        return Some(format!(
            "more than one in {ONE_IN} stores is on such a disk: a person is to see why"
        ));
    }
    if let Some(why) = others_drain(facts) {
        return Some(why);
    }
    let outlook = match outlook {
        Ok(outlook) => outlook,
        Err(why) => {
            return Some(format!(
                "nobody can say what would follow: {}",
                why.trim_end_matches('.')
            ));
        }
    };
    let unmet: usize = status.pools.iter().map(|pool| pool.outlook.unmet).sum();
    if outlook.all.unmet > unmet {
        return Some("the rule of a pool could not be met without it: add a store first".to_owned());
    }
    let mut pools = status.pools.iter().filter(|pool| pool.stores.contains(&store));
    let pool = pools.find_map(|pool| too_full(facts, own, pool));
    pool.or_else(|| fills_one(facts, own, outlook))
}

/// A drain that is under way, or that is paused: what it has still to move will take room as well.
fn others_drain(facts: &Facts) -> Option<String> {
    let is_drained = |other: &&StoreStatus| other.store.duty == StoreDuty::Draining && other.named > 0;
    let mut drained: Vec<&StoreStatus> = facts.status.stores.iter().filter(is_drained).collect();
    // One that goes on ends by itself, one that is paused waits for a person, who is to know.
    drained.sort_by_key(|other| !other.store.drain_stands_still());
    drained.first().map(|other| match other.store.drain_stands_still() {
        true => format!(
            "the drain of store {id} is paused, and one is at a time: let it go on (`amita job resume drain-{id}`) or end it \
             (`amita disk drain {id} --undo`)",
            id = other.store.id
        ),
        false => format!("store {} is being drained, and one is at a time", other.store.id),
    })
}

/// Would a single store that gets copies be near full? Where copies lie in distinct domains only few stores may be able to take them,
/// however much is free elsewhere.
fn fills_one(facts: &Facts, own: &StoreStatus, outlook: &DrainOutlook) -> Option<String> {
    let most = facts.thresholds.near_full_percent;
    outlook.gains.iter().find_map(|(store, millionths)| {
        let other = facts.status.stores.iter().find(|other| other.store.id == *store);
        let (Some(moved), Some(space)) = (own.space, other.and_then(|other| other.space)) else {
            return Some(format!("how full store {store} would be is not known"));
        };
        let gets = u128::from(moved.used_bytes()) * u128::from(*millionths) / 1_000_000;
        let used = u128::from(space.used_bytes()) + gets;
        let percent = (used * 100)
            .checked_div(u128::from(space.capacity_bytes))
            .unwrap_or(u128::MAX);
        (gets > 0 && percent >= u128::from(most)).then(|| {
            format!("store {store}, which gets copies of it, could be more than {most} % full then: add a store first")
        })
    })
}

/// Would the stores that are left for a pool be near full?
fn too_full(facts: &Facts, own: &StoreStatus, pool: &PoolStatus) -> Option<String> {
    let name = &pool.pool.name;
    let takes = |other: &&StoreStatus| {
        let of_class = pool.pool.class.as_ref().is_none_or(|class| other.store.class == *class);
        let is_other = other.store.id != own.store.id;
        is_other && of_class && other.alive && other.store.weight > 0 && other.store.duty != StoreDuty::Draining
    };
    let unknown = || Some(format!("how full the stores of pool {name} are is not known"));
    let Some(moved) = own.space else { return unknown() };
    let (mut used, mut capacity) = (u128::from(moved.used_bytes()), 0_u128);
    for other in facts.status.stores.iter().filter(takes) {
        let Some(space) = other.space else { return unknown() };
        used += u128::from(space.used_bytes());
        capacity += u128::from(space.capacity_bytes);
    }
    let percent = (used * 100).checked_div(capacity).unwrap_or(u128::MAX);
    let most = facts.thresholds.near_full_percent;
    (percent >= u128::from(most))
        .then(|| format!("without it the stores of pool {name} would be more than {most} % full: add a store first"))
}
