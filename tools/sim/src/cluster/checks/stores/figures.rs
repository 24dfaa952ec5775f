//! What volumes hold, to the block (`docs/decisions/047`): what a store counts is what its lists say, what the judge knows of the
//! contents, and, all volumes together, what the offline check finds on its disk.
//!
//! Along one history a version names what it has written (S5), so the views of a block that list one version share one slot. Only a
//! store that was mended may have it in two (`docs/decisions/041`), or one whose disk did not read: a scrub replaces the block elsewhere.

use super::Mounted;
use super::views::Listed;
use crate::cluster::node::{disk, home};
use crate::cluster::{Cluster, SETTLE};
use crate::faults::Member;
use amita_reactor::Driver;
use amita_reactor::sim::World;
use amita_store::offline::{CheckOptions, Counts, Offline, ReadAt};
use amita_store::{AskedVolume, Count, Question, VolumeFigures};
use amita_types::{BlockIndex, GroupIndex, PoolId, SnapshotId, Version, VolumeId, map};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

/// With whom a volume shares what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kin {
    /// With nobody.
    Alone,
    /// It has clones.
    Cloned,
    /// It is a clone; perhaps it has clones as well.
    Clone,
    /// It was one, and has let go of its parents.
    Flat,
}

/// What one store is to count of one volume.
#[derive(Default)]
pub(super) struct Expected {
    used: u64,
    held: u64,
    unique: BTreeMap<SnapshotId, u64>,
    /// Of all views together, what has data: what it has at most.
    most: u64,
    /// Some of its lists are damaged.
    is_unknown: bool,
}

impl Expected {
    /// A chunk more.
    pub fn add(&mut self, listed: &Listed) {
        let mut holders: BTreeMap<(BlockIndex, Version), (u64, SnapshotId)> = BTreeMap::new();
        for (snapshot, entries) in listed {
            let Some(entries) = entries else {
                self.is_unknown = true;
                return;
            };
            let data = entries.iter().filter(|entry| entry.sum.is_some());
            let mut count = 0;
            for entry in data {
                count += 1;
                let (views, only) = holders.entry((entry.block, entry.version)).or_default();
                (*views, *only) = (*views + 1, *snapshot);
            }
            self.most += count;
            if *snapshot == SnapshotId::HEAD {
                self.used += count;
            }
        }
        self.held += holders.len() as u64;
        let own = holders.into_values();
        for (_, snapshot) in own.filter(|(views, only)| *views == 1 && *only != SnapshotId::HEAD) {
            *self.unique.entry(snapshot).or_default() += 1;
        }
    }
}

/// A disk of the simulated world.
struct OnDisk<'a> {
    world: RefCell<&'a mut World>,
    disk: String,
    bytes: u64,
}

impl ReadAt for OnDisk<'_> {
    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        if offset + buffer.len() as u64 > self.bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.world.borrow_mut().read_disk(&self.disk, offset, buffer);
        Ok(())
    }
}

impl Cluster {
    /// Counts, and compares with what was listed of each volume. Returns what all volumes have together on the store; none: it
    /// cannot know.
    pub(super) fn judge_figures(
        &mut self,
        mounted: &mut Mounted,
        expected: &BTreeMap<u64, Expected>,
        clones: &BTreeMap<VolumeId, (usize, Expected)>,
    ) -> Result<Option<u64>, String> {
        let live = self.live_snapshots();
        let forgets = self.setup.plants.count_without_parents;
        let asked = |volume: VolumeId| AskedVolume {
            volume,
            place: None,
            live: live.get(&volume).into_iter().flatten().copied().collect(),
            ..AskedVolume::default()
        };
        let stayed = self.always_in_sync();
        for pool in (1..=self.setup.pools).map(PoolId) {
            let mut speaks_for = BTreeSet::new();
            let mut has_stayed = !self.ledger.may_be_mended(home(mounted.store).0);
            for group in self.groups().filter(|group| group.pool == pool) {
                if self.group(group)?.in_sync.contains(&mounted.store) {
                    speaks_for.insert(group.index);
                    has_stayed &= stayed.contains(&(group, mounted.store));
                }
            }
            let mut of_pool: BTreeMap<VolumeId, (Kin, AskedVolume, &Expected)> = BTreeMap::new();
            for (volume, expected) in expected {
                if self.pool_of(*volume) == pool {
                    let kin = match self.is_cloned(*volume) {
                        true => Kin::Cloned,
                        false => Kin::Alone,
                    };
                    let id = self.data_of(*volume);
                    of_pool.insert(id, (kin, asked(id), expected));
                }
            }
            for (id, (index, expected)) in clones {
                if let Some((record, _, of, _)) = self.clone_there(*index)
                    && of == pool
                {
                    let parents = record.parents.iter().filter(|_| !forgets);
                    let question = AskedVolume {
                        place: Some(record.place()),
                        parents: parents.map(|parent| (parent.volume, parent.number)).collect(),
                        ..asked(*id)
                    };
                    let kin = match record.parents.is_empty() {
                        true => Kin::Flat,
                        false => Kin::Clone,
                    };
                    of_pool.insert(*id, (kin, question, expected));
                }
            }
            if of_pool.is_empty() {
                continue;
            }
            let question = Question {
                number: u64::from(pool.0),
                groups: self.setup.groups,
                speaks_for,
                volumes: of_pool.values().map(|(_, asked, _)| asked.clone()).collect(),
            };
            let Some(counted) = self.count(mounted, question)? else {
                continue;
            };
            for ((id, (kin, _, expected)), figures) in of_pool.iter().zip(counted.iter()) {
                if !expected.is_unknown {
                    self.judge_figures_of((*id, *kin), figures, expected, has_stayed)
                        .map_err(|why| format!("store {}: {why}", mounted.store))?;
                }
            }
        }
        let prefix = map::volume_key("");
        let records = self.metadata.state().keys().filter(|kv| kv.key.starts_with(&prefix));
        let records = records.filter_map(|kv| kv.json::<map::Volume>().ok());
        let records = records.map(|volume| AskedVolume {
            parents: (volume.parents.iter().map(|parent| (parent.volume, parent.number))).collect(),
            ..asked(volume.id)
        });
        let mut all: Vec<AskedVolume> = records.collect();
        all.sort_by_key(|asked| asked.volume);
        let question = Question {
            number: 0,
            groups: self.setup.groups,
            speaks_for: (0..self.setup.groups).map(GroupIndex).collect(),
            volumes: all.into(),
        };
        let Some(counted) = self.count(mounted, question)? else {
            return Ok(None);
        };
        // What several use is told by each of them.
        let mut users: BTreeMap<u32, u64> = BTreeMap::new();
        for (number, blocks) in counted.iter().flat_map(|volume| &volume.users) {
            *users.entry(*number).or_default() += blocks;
        }
        let shares = users.into_iter().map(|(number, blocks)| blocks / u64::from(number));
        Ok(Some(shares.sum()))
    }

    fn judge_figures_of(
        &mut self,
        (volume, kin): (VolumeId, Kin),
        figures: &VolumeFigures,
        expected: &Expected,
        has_stayed: bool,
    ) -> Result<(), String> {
        let name = format!("volume {volume} ({kin:?})");
        let unique: BTreeMap<SnapshotId, u64> = figures.unique.iter().copied().collect();
        let is_right = figures.used == expected.used
            && match has_stayed {
                // What others share with it is nobody's own.
                true => figures.held == expected.held && (kin != Kin::Alone || unique == expected.unique),
                false => (expected.held..=expected.most).contains(&figures.held),
            };
        if !is_right {
            return Err(format!(
                "{name} has {figures:?}, and its lists say {} used, {} held (at most {}), unique {:?}",
                expected.used, expected.held, expected.most, expected.unique
            ));
        }
        // Where something waits for ever, or a leaf is wrong, states that stand for nothing may wait as well.
        if figures.freeing > 0 && self.blocked.is_empty() && !self.ledger.is_anything_damaged() {
            return Err(format!("{name} has {} blocks that nobody gives back", figures.freeing));
        }
        self.coverage.hit(match (kin, has_stayed) {
            (Kin::Alone, true) => "judge.figures",
            (Kin::Alone, false) => "judge.figures_mended",
            (Kin::Cloned, _) => "judge.figures_cloned",
            (Kin::Clone, true) => "judge.figures_clone",
            (Kin::Clone, false) => "judge.figures_clone_mended",
            (Kin::Flat, _) => "judge.figures_flat",
        });
        self.coverage.add(
            "judge.figures_unique",
            u64::from(has_stayed && kin == Kin::Alone && !unique.is_empty()),
        );
        Ok(())
    }

    /// None: the store cannot know, for a leaf of it is wrong, or a chunk is not whole.
    fn count(&mut self, mounted: &mut Mounted, question: Question) -> Result<Option<Arc<[VolumeFigures]>>, String> {
        let question = Arc::new(question);
        let limit = self.world.now().plus(SETTLE);
        loop {
            let now = mounted.driver.now();
            match mounted.service.count(now, &question) {
                Count::Done(figures) => return Ok(Some(figures)),
                Count::Counting { .. } | Count::Busy => {
                    mounted.driver.again();
                    self.step_mounted(mounted, limit)?;
                }
                Count::Unknown(why) => {
                    let member = home(mounted.store).0;
                    if question.number > 0 && !self.ledger.is_rotten(member) {
                        return Err(format!("store {} does not count: {why}", mounted.store));
                    }
                    self.coverage.hit("judge.figures_unknown");
                    return Ok(None);
                }
            }
        }
    }

    /// The offline check finds nothing wrong on the disk of a store that nobody serves, and as much as volumes have on it (`held`).
    /// Says how much there is of everything; none: what rots is not looked at.
    pub(in crate::cluster) fn judge_offline(
        &mut self,
        member: Member,
        place: usize,
        held: Option<u64>,
    ) -> Result<Option<Counts>, String> {
        if self.ledger.is_rotten(member) {
            return Ok(None);
        }
        let name = disk(member, place);
        let on_disk = OnDisk {
            world: RefCell::new(&mut self.world),
            disk: name.clone(),
            bytes: self.setup.store_bytes,
        };
        let config = amita_store::Config::default();
        let mut offline = Offline::open(on_disk, config).map_err(|why| format!("{name} cannot be looked at: {why}"))?;
        let report = offline.check(&CheckOptions::default(), &mut |_| {});
        if !report.is_clean() {
            let problems = &report.problems[..report.problems.len().min(4)];
            return Err(format!("the check of {name} finds {problems:?}"));
        }
        let counts = offline.counts();
        self.coverage.hit("judge.checked_offline");
        // What is not whole is not counted.
        if let Some(held) = held.filter(|_| counts.incomplete == 0 && self.blocked.is_empty()) {
            if held != counts.blocks {
                return Err(format!(
                    "volumes have {held} blocks on {name}, and the check finds {counts:?}"
                ));
            }
            self.coverage.hit(match counts.shared {
                0 => "judge.offline_figures",
                _ => "judge.offline_shared",
            });
        }
        Ok(Some(counts))
    }
}

#[cfg(test)]
mod tests;
