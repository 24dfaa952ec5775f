//! What the owners of volumes say of syncing stores, and whether it is enough.
//!
//! A syncing store is taken into the in-sync set when the owner of every volume of the pool has said, under the volume's
//! present generation, that the store holds all of that volume in that group ([`Whole`]). A claim stays true for as long
//! as the store is syncing without a break (`since`) and the generation is the present one: a new owner may find, after
//! its takeover, writes that the old owner never heard the answers of (R2, R5, R6).
//!
//! What a watch tells is a hint, so the promotion compares: the group's record (nothing happened to the syncing store)
//! and the pool's `raised` record, which every raise of a generation and every new name of a volume rewrites: half of
//! what a renaming writes looks like a deletion. The second compare is worth something
//! only if all volumes are known as they were when `raised` was last written. A watch tells changes in the order of
//! their revisions, but the two records of one transaction one after the other; and a watch that starts anew tells all
//! records in the order of their keys. Hence [`Claims::raised_by`]: no promotion rests on a `raised` newer than the
//! revision up to which everything is known.

use amita_types::map::{Syncing, Volume, Whole};
use amita_types::{Generation, GroupIndex, NodeId, PoolId, VolumeId};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
struct KnownVolume {
    id: VolumeId,
    pool: String,
    generation: Generation,
    owner: Option<NodeId>,
}

#[derive(Clone, Debug)]
struct KnownWhole {
    mod_revision: u64,
    /// `None`: not readable; it says nothing.
    whole: Option<Whole>,
}

/// All volumes, and all that was said of syncing stores.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// By their keys: a deletion tells nothing else.
    volumes: BTreeMap<String, KnownVolume>,
    /// Volumes whose records cannot be read: which pool they lie in is not known, so that nothing is promoted anywhere.
    unreadable: BTreeSet<String>,
    whole: BTreeMap<(PoolId, VolumeId), KnownWhole>,
    /// The revision at which a generation of the pool's volumes was last raised.
    pub(super) raised: BTreeMap<PoolId, u64>,
    /// Something changed since the end of the last batch.
    pub(super) changed: bool,
}

impl Claims {
    pub(super) fn volume(&mut self, key: &str, volume: Option<Volume>) {
        self.changed = true;
        match volume {
            Some(volume) => {
                self.unreadable.remove(key);
                let known = KnownVolume {
                    id: volume.id,
                    pool: volume.pool,
                    generation: volume.generation,
                    owner: volume.owner,
                };
                self.volumes.insert(key.to_owned(), known);
            }
            None => {
                self.unreadable.insert(key.to_owned());
            }
        }
    }

    /// The owner of a volume, if the volume is known.
    pub(super) fn owner_of(&self, key: &str) -> Option<Option<NodeId>> {
        self.volumes.get(key).map(|volume| volume.owner)
    }

    pub(super) fn volume_gone(&mut self, key: &str) {
        self.changed = true;
        self.volumes.remove(key);
        self.unreadable.remove(key);
    }

    pub(super) fn whole(&mut self, pool: PoolId, volume: VolumeId, mod_revision: u64, whole: Option<Whole>) {
        self.changed = true;
        let whole = whole.filter(|whole| whole.volume == volume);
        let known = KnownWhole { mod_revision, whole };
        self.whole.insert((pool, volume), known);
    }

    pub(super) fn whole_gone(&mut self, pool: PoolId, volume: VolumeId, revision: u64) {
        if self
            .whole
            .get(&(pool, volume))
            .is_some_and(|known| known.mod_revision < revision)
        {
            self.whole.remove(&(pool, volume));
        }
    }

    /// The revision of the pool's `raised` record that a promotion has to compare (zero: there is none), if all that was
    /// written up to it is known.
    pub(super) fn raised_by(&self, pool: PoolId, complete: u64) -> Option<u64> {
        let raised = self.raised.get(&pool).copied().unwrap_or(0);
        (raised <= complete && self.unreadable.is_empty()).then_some(raised)
    }

    /// The volumes of the pool that were ever opened, and what their present owners say.
    pub(super) fn of_pool<'a>(&'a self, pool: PoolId, name: &str) -> PoolClaims<'a> {
        let mut claims = Vec::new();
        for volume in self.volumes.values() {
            if volume.pool != name || volume.generation == Generation(0) {
                continue;
            }
            let whole = self
                .whole
                .get(&(pool, volume.id))
                .and_then(|known| known.whole.as_ref());
            match whole.filter(|whole| whole.generation == volume.generation) {
                Some(whole) => claims.push(whole),
                None => return PoolClaims(None),
            }
        }
        PoolClaims(Some(claims))
    }

    /// What was said of volumes that are no more: the keys' pool and volume, and their revisions.
    pub(super) fn orphans(&self) -> Vec<(PoolId, VolumeId, u64)> {
        if !self.unreadable.is_empty() {
            return Vec::new();
        }
        let there: BTreeSet<VolumeId> = self.volumes.values().map(|volume| volume.id).collect();
        let whole = self.whole.iter().filter(|((_, volume), _)| !there.contains(volume));
        whole
            .map(|((pool, volume), known)| (*pool, *volume, known.mod_revision))
            .collect()
    }
}

/// What the present owners of a pool's volumes say: `None` where one of them has not said anything.
pub(super) struct PoolClaims<'a>(Option<Vec<&'a Whole>>);

impl PoolClaims<'_> {
    /// Does every owner say that this store is whole in this group?
    pub(super) fn agree(&self, group: GroupIndex, syncing: &Syncing) -> bool {
        self.0.as_ref().is_some_and(|claims| {
            claims.iter().all(|whole| {
                // They are in order of the group.
                let start = whole.members.partition_point(|member| member.group < group);
                let of_group = whole.members[start..].iter().take_while(|member| member.group == group);
                of_group
                    .into_iter()
                    .any(|member| (member.store, member.since) == (syncing.store, syncing.since))
            })
        })
    }
}
