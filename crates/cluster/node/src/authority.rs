//! Whom a store of this node believes: by what this node itself has read in the metadata (R14).
//!
//! A fence says who owns a volume, under which generation, and who the members of a group are. All of it stands in the metadata
//! before anybody fences by it, and a store keeps what it is told for good. So a fence is compared with this node's own view, and
//! whoever sends one proves nothing by what it knows. A view may be behind: then this node asks the metadata itself
//! ([`Inquiry`]), and what neither knows yet is told to come again. (Decision 029.)

mod inquiry;

pub use inquiry::{AUTHORITY, Inquiry};

use crate::view::View;
use amita_types::message::{FenceRequest, InheritRequest, Problem, Refusal, Scope};
use amita_types::{BLOCK_BYTES, Epoch, Generation, NodeId, PoolId, StoreId, map};

/// What the metadata says of a volume and of a group of its pool.
struct Known<'a> {
    generation: Generation,
    owner: Option<NodeId>,
    pool: PoolId,
    chunk_bytes: u32,
    epoch: Epoch,
    in_sync: &'a [StoreId],
    syncing: &'a [map::Syncing],
}

impl<'a> Known<'a> {
    /// Nothing of a group yet. What a pool is never changes, so that the view's word on it is as good as a fresh one; `None`: it has none.
    fn of_volume(view: &View, volume: &map::Volume) -> Option<Known<'a>> {
        Some(Known {
            generation: volume.generation,
            owner: volume.owner,
            pool: view.pool_of(&volume.pool)?,
            chunk_bytes: view.chunk_bytes(&volume.pool)?,
            epoch: Epoch(0),
            in_sync: &[],
            syncing: &[],
        })
    }

    fn with_group(self, epoch: Epoch, in_sync: &'a [StoreId], syncing: &'a [map::Syncing]) -> Known<'a> {
        Known {
            epoch,
            in_sync,
            syncing,
            ..self
        }
    }
}

/// Is a fence that comes from this node what the metadata says, as the watch has told?
///
/// # Errors
/// `Busy` where the view knows less than the fence; `Fenced` and `StaleEpoch` where it knows more; `Invalid` where the two
/// contradict each other.
pub fn judge(view: &View, from: NodeId, scope: &Scope, fence: &FenceRequest) -> Result<(), Refusal> {
    // Nothing is known of it: it was made a moment ago, or was deleted, which the store knows better. Nobody is told which.
    let Some(volume) = view.volume_of(scope.volume) else {
        return Err(Refusal::Busy);
    };
    let known = Known::of_volume(view, volume).ok_or(Refusal::Busy)?;
    judge_volume(&known, from, scope, fence)?;
    let group = view.group(known.pool, scope.group.index).ok_or(Refusal::Busy)?;
    let known = known.with_group(group.epoch, &group.in_sync, &group.syncing);
    judge_group(&known, scope, fence)
}

/// Was a clone made from what its owner says? What it comes from stands in its record from the first; of that only the farthest may
/// leave, when it needs them no more (S13).
///
/// # Errors
/// `Busy` where this node has not heard of the volume yet, or one of the two has not heard that parents have left; `Invalid` where its
/// record says otherwise.
pub fn judge_parents(view: &View, scope: &Scope, inherit: &InheritRequest) -> Result<(), Refusal> {
    let volume = view.volume_of(scope.volume).ok_or(Refusal::Busy)?;
    let known = volume.parents.iter().map(|parent| (parent.volume, parent.number));
    let named = inherit.parents.iter().copied();
    match known.len() == named.len() {
        _ if known.zip(named).any(|(known, named)| known != named) => Err(Refusal::Invalid {
            what: Problem::Snapshot,
        }),
        true => Ok(()),
        false => Err(Refusal::Busy),
    }
}

/// Who owns the volume, and in which pool it is.
fn judge_volume(known: &Known, from: NodeId, scope: &Scope, fence: &FenceRequest) -> Result<(), Refusal> {
    let contradicts = |what| Err(Refusal::Invalid { what });
    if scope.generation > known.generation {
        return Err(Refusal::Busy);
    }
    if scope.generation < known.generation {
        let generation = known.generation;
        return Err(Refusal::Fenced { generation });
    }
    if known.owner != Some(from) || fence.owner != from {
        return contradicts(Problem::Members);
    }
    if scope.group.pool != known.pool || u32::from(fence.blocks_per_chunk) != known.chunk_bytes / BLOCK_BYTES {
        return contradicts(Problem::Range);
    }
    Ok(())
}

/// Who the group's members are.
fn judge_group(known: &Known, scope: &Scope, fence: &FenceRequest) -> Result<(), Refusal> {
    if scope.epoch > known.epoch {
        return Err(Refusal::Busy);
    }
    if scope.epoch < known.epoch {
        let epoch = known.epoch;
        return Err(Refusal::StaleEpoch { epoch });
    }
    // More may be syncing than there are places for.
    let is_syncing = |store: &StoreId| known.syncing.iter().any(|syncing| syncing.store == *store);
    if !is_same(&fence.in_sync, known.in_sync) || !fence.syncing.iter().all(is_syncing) {
        let what = Problem::Members;
        return Err(Refusal::Invalid { what });
    }
    Ok(())
}

/// The same stores, in whatever order?
fn is_same(some: &[StoreId], others: &[StoreId]) -> bool {
    some.len() == others.len() && others.iter().all(|store| some.contains(store))
}

#[cfg(test)]
mod tests;
