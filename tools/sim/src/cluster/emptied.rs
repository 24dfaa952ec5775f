//! In some runs everything is deleted in the end, when all is judged: the nodes start again, the operator deletes the clones, the
//! snapshots and the volumes, and every slot of every store is free.

use super::deletion::seconds;
use super::operator::Desk;
use super::{Cluster, volume_name};
use amita_control::admin::{AdminError, Deletion};
use std::time::Duration;

/// One run of so many.
const ONE_IN: u64 = 6;
/// In one of so many of these snapshots are deleted one by one, and not with their volumes.
const SNAPSHOTS_FIRST_ONE_IN: u64 = 2;
/// Stores have given everything back so long after it was deleted.
const GIVEN_BACK: Duration = Duration::from_secs(60);
/// How long clones take to be deleted, each after those that were made of it.
const CLONES_GO: Duration = Duration::from_secs(30);
/// Between two looks, and the patience with an owner that says nothing.
const LOOK: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(10);

impl Cluster {
    /// Where nothing waits for ever and nothing is damaged, in some runs: everything goes, and nothing is left.
    pub(super) fn judge_emptied(&mut self) -> Result<(), String> {
        let is_whole = self.blocked.is_empty() && !self.ledger.is_anything_damaged();
        if !self.setup.seed.is_multiple_of(ONE_IN) || !is_whole {
            return Ok(());
        }
        self.tell(|| "everything is deleted".to_owned());
        for member in 0..self.nodes.len() {
            if !self.nodes[member].is_up() {
                self.start(member);
            }
        }
        self.delete_passing();
        let limit = self.world.now().plus(CLONES_GO);
        while self.delete_clones() || self.is_passing() {
            if self.world.now() >= limit {
                return Err(format!(
                    "clones are not deleted within {CLONES_GO:?}\n{}",
                    self.describe()
                ));
            }
            self.rest(LOOK)?;
        }
        if (self.setup.seed / ONE_IN).is_multiple_of(SNAPSHOTS_FIRST_ONE_IN) {
            self.delete_snapshots()?;
            self.wait_for("stores keep what was of snapshots", |cluster| {
                cluster.kept_for_nothing().into_iter().map(|(_, what)| what).collect()
            })?;
        }
        for volume in (0..self.setup.volumes).chain(self.setup.scratch()) {
            self.purge(&volume_name(volume))?;
        }
        self.wait_for("everything is deleted, and stores are not empty", Cluster::not_empty)?;
        for member in 0..self.nodes.len() {
            self.end(member, true);
            for place in 0..self.setup.stores {
                let found = self.judge_offline(member, place, Some(0))?.unwrap_or_default();
                if found.chunks + found.clones + found.states + found.leaf_pages + found.blocks + found.shared > 0 {
                    return Err(format!(
                        "everything is deleted, and on a disk of node {} is {found:?}",
                        member + 1
                    ));
                }
            }
        }
        self.coverage.hit("space.emptied");
        Ok(())
    }

    fn delete_snapshots(&mut self) -> Result<(), String> {
        let now = self.world.now();
        let marked = std::mem::take(&mut self.snapshots.marked);
        for taken in std::mem::take(&mut self.snapshots.taken).into_iter().chain(marked) {
            let desk = Desk::new(&mut self.metadata, now);
            let (volume, name) = (volume_name(taken.volume), &taken.name);
            amita_control::admin::delete_snapshot(&desk, &volume, name)
                .map_err(|why| format!("{volume}@{name} cannot be deleted: {why}"))?;
            self.coverage.hit("space.emptied_snapshots");
        }
        Ok(())
    }

    fn purge(&mut self, name: &str) -> Result<(), String> {
        let mut deletion = Deletion::new(name, true, seconds(self.world.now()));
        let until = self.world.now().plus(PATIENCE);
        let failed = |why: AdminError| format!("{name} cannot be deleted: {why}");
        loop {
            let now = self.world.now();
            let desk = Desk::new(&mut self.metadata, now);
            match deletion.step(&desk).map_err(failed)? {
                Some(_) => return Ok(()),
                None if now >= until => return deletion.give_up(&desk).map(drop).map_err(failed),
                None => self.rest(LOOK)?,
            }
        }
    }

    /// Waits until nothing is left of what `left` tells of.
    fn wait_for(&mut self, what: &str, left: impl Fn(&Cluster) -> Vec<String>) -> Result<(), String> {
        let limit = self.world.now().plus(GIVEN_BACK);
        loop {
            let some = left(self);
            if some.is_empty() {
                return Ok(());
            }
            if self.world.now() >= limit {
                return Err(format!(
                    "{what} after {GIVEN_BACK:?}: {:?}\n{}",
                    &some[..some.len().min(8)],
                    self.describe()
                ));
            }
            self.rest(LOOK)?;
        }
    }

    /// What is in use on which store.
    fn not_empty(&self) -> Vec<String> {
        let mut left = Vec::new();
        for node in &self.nodes {
            for store in node.each_core().flat_map(|core| core.stores().each()) {
                let status = store.status();
                let is_serving = matches!(store.state(), amita_store::State::Serving);
                let is_free = status.free_bytes == status.capacity_bytes;
                if !is_serving || !is_free || status.chunks + status.blocks + status.leaf_pages > 0 {
                    let lacking = status.capacity_bytes - status.free_bytes;
                    left.push(format!(
                        "store {} ({:?}) has {} chunks, {} blocks, {} leaves, and {lacking} bytes are not free",
                        status.id,
                        store.state(),
                        status.chunks,
                        status.blocks,
                        status.leaf_pages
                    ));
                }
            }
        }
        left
    }
}
