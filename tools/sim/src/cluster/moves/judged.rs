//! What is judged of moves, and how they end.

use crate::cluster::Cluster;
use crate::cluster::operator::Desk;
use amita_control::admin;
use amita_types::SnapshotId;
use amita_types::map::{self, SnapshotState};
use std::time::Duration;

/// Moves come to their end within this, now that nothing is wrong.
const ENDS: Duration = Duration::from_secs(90);

impl Cluster {
    /// All that were taken are there, by their numbers and names. Marks need not be.
    pub(super) fn judge_moved_snapshots(&mut self, volume: u64, record: &map::Volume) -> Result<(), String> {
        let state = self.metadata.state();
        let found = |number: SnapshotId| {
            let found = state.get(&map::snapshot_key(record.id, number))?;
            found.json::<map::Snapshot>().ok()
        };
        for taken in self.snapshots.taken.iter().filter(|taken| taken.volume == volume) {
            let there = found(taken.number);
            if there.as_ref().is_none_or(|there| there.name != taken.name) {
                return Err(format!(
                    "{} has moved, and of its snapshot {} ({}) there is {there:?}",
                    record.name, taken.number, taken.name
                ));
            }
        }
        let gone: Vec<SnapshotId> = self
            .snapshots
            .marked
            .iter()
            .filter(|marked| marked.volume == volume && found(marked.number).is_none())
            .map(|marked| marked.number)
            .collect();
        let kept = self.snapshots.taken.iter().filter(|taken| taken.volume == volume);
        let kept = kept.count() as u64;
        self.snapshots
            .marked
            .retain(|marked| marked.volume != volume || !gone.contains(&marked.number));
        self.coverage.add("migrate.snapshots", kept);
        Ok(())
    }

    /// Moves that are under way come to their end, now that nothing is wrong any more, and nothing is left of them.
    pub(in crate::cluster) fn end_migrations(&mut self) -> Result<(), String> {
        self.migrations.ended = true;
        if !self.migrations.is_on() {
            return Ok(());
        }
        for record in self.moving_records().iter().filter(|record| record.paused.is_some()) {
            let now = self.world.now();
            let desk = Desk::new(&mut self.metadata, now);
            admin::pause_copy(&desk, record.volume, None).map_err(|why| format!("a move does not go on: {why}"))?;
        }
        let limit = self.world.now().plus(ENDS);
        while !self.moving_records().is_empty() {
            self.take_back_stalled()?;
            if self.world.now() >= limit {
                if self.may_block_at_all() || self.ledger.is_anything_damaged() {
                    self.coverage.hit("migrate.waits");
                    return Ok(());
                }
                return Err(format!(
                    "nothing is wrong any more, and after {ENDS:?} these moves have not ended: {:?}\n{}",
                    self.moving_records(),
                    self.describe()
                ));
            }
            self.step(limit)?;
        }
        self.coverage.hit("migrate.all_ended");
        self.judge_left_over()
    }

    /// A number of the target that came to nothing stays used (S1), and the move says that it is to be begun anew.
    pub(super) fn take_back_stalled(&mut self) -> Result<(), String> {
        for record in self.moving_records() {
            let is_used_up = record
                .ails
                .as_ref()
                .is_some_and(|why| why.contains("is used up where it is to be"));
            if is_used_up && !record.cancelled {
                let now = self.world.now();
                let desk = Desk::new(&mut self.metadata, now);
                admin::cancel_copy(&desk, record.volume).map_err(|why| why.to_string())?;
                self.coverage.hit("migrate.used_up");
            }
        }
        Ok(())
    }

    /// Nothing is left of moves that have ended.
    pub(super) fn judge_left_over(&self) -> Result<(), String> {
        for kv in self.metadata.state().keys() {
            let is_volume = kv.key.starts_with(&map::volume_key(""));
            if is_volume {
                let volume: map::Volume = kv.json().map_err(|why| why.to_string())?;
                if map::is_moving_name(&volume.name) {
                    return Err(format!("all moves have ended, and there is a target: {volume:?}"));
                }
                if volume.lineage.moving.is_some() && !volume.is_former() {
                    return Err(format!("all moves have ended, and one says that it moves: {volume:?}"));
                }
            }
            if kv.key.starts_with("/amita/snapshots/") {
                let snapshot: map::Snapshot = kv.json().map_err(|why| why.to_string())?;
                let is_of_moves =
                    snapshot.labels.contains_key(admin::COPY_LABEL) || snapshot.labels.contains_key(admin::POINT_LABEL);
                let is_former = self
                    .metadata
                    .state()
                    .get(&map::volume_key(&map::hidden_name(snapshot.volume)))
                    .is_some();
                if is_of_moves && !is_former && !self.is_void(&snapshot) {
                    return Err(format!(
                        "all moves have ended, and there is a snapshot of one: {snapshot:?}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// One whose number was raised over stays until its name is taken again (S1): nobody sees it.
    pub(super) fn is_void(&self, snapshot: &map::Snapshot) -> bool {
        let SnapshotState::Taking(generation) = snapshot.state else {
            return false;
        };
        let records = self.metadata.state().keys();
        let mut volumes = records.filter(|kv| kv.key.starts_with(&map::volume_key("")));
        volumes
            .find_map(|kv| {
                kv.json::<map::Volume>()
                    .ok()
                    .filter(|found| found.id == snapshot.volume)
            })
            .is_some_and(|found| found.generation > generation && !found.lineage.taking)
    }

    /// Nobody holds any more, and nobody is slowed, when all was read in the end.
    pub(in crate::cluster) fn judge_holds(&mut self) -> Result<(), String> {
        let mut cores = self.nodes.iter().flat_map(|node| node.each_core());
        if cores.any(|core| core.waited_for_moves() > 0) {
            self.coverage.hit("migrate.waited");
        }
        let all_ended = self.migrations.is_on() && self.moving_records().is_empty();
        for (member, node) in self.nodes.iter().enumerate().filter(|_| all_ended) {
            if node.each_core().any(amita_node::Core::slows_hosts) && self.blocked.is_empty() {
                return Err(format!(
                    "all moves have ended, and node {} slows hosts of a volume",
                    member + 1
                ));
            }
        }
        for volume in 0..self.setup.volumes {
            let record = self.volume(volume)?;
            if self.migrations.is_on() && self.blocked.is_empty() && record.lineage.held {
                return Err(format!("all was read, and {} is held: {record:?}", record.name));
            }
        }
        Ok(())
    }
}
