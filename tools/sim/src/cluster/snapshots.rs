//! Snapshots that an operator takes while hosts work, and what is judged of them (S1 to S7).
//!
//! Each must be taken, or refused with a reason, in bounded time once nothing is wrong any more. In the end every store in sync
//! must hold every one that was taken, all of them the same; and what they hold must be what a crash could
//! have left at *one* moment between the wish and the word that it is taken, of all blocks together: all that was acknowledged by then, or
//! seen by a read, and nothing that was asked for later.

use super::operator::Desk;
use super::{Cluster, SETTLE, node_id, volume_name};
use crate::faults::Member;
use crate::stamp::Stamp;
use amita_control::admin::{self, SetTaking, TakingState};
use amita_metadata::Event;
use amita_reactor::Time;
use amita_types::map::{self, SnapshotSet, SnapshotState, SnapshotWish};
use amita_types::{BLOCK_BYTES, GroupId, PoolId, SnapshotId, StoreId, VolumeId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The prefix of all volumes' snapshots.
const SNAPSHOTS: &str = "/amita/snapshots/";

/// Two events of the history.
type Between = (u64, u64);

/// Snapshots of a run.
#[derive(Default)]
pub struct Snapshots {
    /// Those that are wished and not answered, by their volume.
    wished: BTreeMap<u64, Wished>,
    /// Those that are taken.
    pub taken: Vec<Taken>,
    /// Those that are deleted, and of which the mark is kept.
    pub marked: Vec<Taken>,
    /// The set of all volumes that is wished and not answered, and the last event of the history before it was asked for.
    wished_set: Option<(SnapshotSet, u64)>,
    /// Sets that are taken: the events between which each was, and its volumes' numbers.
    sets: Vec<(Between, Vec<(u64, SnapshotId)>)>,
    /// Volumes that were opened for one, and not for any host: the first gateway that a host asks has them.
    pub unused: BTreeSet<u64>,
    /// The metadata's revision at which they were looked at last.
    looked: u64,
    /// Wishes, counted.
    asked: u64,
}

struct Wished {
    wish: SnapshotWish,
    /// The data that the volume had then.
    data: VolumeId,
    /// The last event of the history before it was asked for.
    asked: u64,
}

/// One that is taken.
pub struct Taken {
    pub volume: u64,
    pub name: String,
    pub number: SnapshotId,
    /// The blocks that its record says it has.
    pub blocks: u64,
    /// The events of the history between which it was taken.
    pub between: (u64, u64),
    /// What stores in sync hold of it, by the block; none where no copy of it is intact.
    pub held: BTreeMap<u64, Vec<Stamp>>,
}

impl Snapshots {
    /// One is deleted.
    pub(super) fn forget(&mut self, volume: Option<u64>, number: SnapshotId) {
        let is_another = |taken: &Taken| (Some(taken.volume), taken.number) != (volume, number);
        self.taken.retain(is_another);
        self.marked.retain(is_another);
    }
}

impl Cluster {
    /// The operator wants a snapshot.
    pub(super) fn wish_snapshot(&mut self, now: Time, volume: u64) {
        self.snapshots.asked += 1;
        let name = format!("s{}", self.snapshots.asked);
        let desk = Desk::new(&mut self.metadata, now);
        let wished = admin::ask_snapshot(
            &desk,
            &volume_name(volume),
            &name,
            BTreeMap::new(),
            Duration::from_nanos(now.0),
        );
        match wished {
            Ok(wish) => {
                let asked = self.history.events();
                let record = self.volume(volume);
                let data = record.as_ref().map_or(self.data_of(volume), |record| record.id);
                self.snapshots.wished.insert(volume, Wished { wish, data, asked });
                let never_opened = record.is_ok_and(|record| record.owner.is_none());
                if never_opened {
                    self.snapshots.unused.insert(volume);
                }
                self.coverage.hit("operator.snapshot");
            }
            // One at a time.
            Err(_) => self.coverage.hit("operator.snapshot_too_many"),
        }
    }

    /// The operator wants snapshots of all volumes, at one moment (S4).
    pub(super) fn wish_set(&mut self, now: Time) {
        if self.snapshots.wished_set.is_some() {
            return self.coverage.hit("operator.set_too_many");
        }
        self.snapshots.asked += 1;
        let name = format!("s{}", self.snapshots.asked);
        let volumes: Vec<String> = (0..self.setup.volumes).map(volume_name).collect();
        let desk = Desk::new(&mut self.metadata, now);
        let asked_at = Duration::from_nanos(now.0);
        let Ok(set) = admin::ask_set(&desk, &volumes, &name, BTreeMap::new(), asked_at) else {
            // One at a time of each volume.
            return self.coverage.hit("operator.set_too_many");
        };
        self.snapshots.wished_set = Some((set, self.history.events()));
        for volume in 0..self.setup.volumes {
            if self.volume(volume).is_ok_and(|record| record.owner.is_none()) {
                self.snapshots.unused.insert(volume);
            }
        }
        self.coverage.hit("operator.set");
    }

    /// Looks whether the set that was wished is taken.
    fn look_at_set(&mut self, now: Time) -> Result<(), String> {
        let Some((set, asked)) = self.snapshots.wished_set.clone() else {
            return Ok(());
        };
        let desk = Desk::new(&mut self.metadata, now);
        match admin::set_state(&desk, &set).map_err(|error| error.to_string())? {
            SetTaking::Waiting | SetTaking::Decided { .. } => return Ok(()),
            SetTaking::Taken(snapshots) => {
                let between = (asked, self.history.events());
                let mut numbers: Vec<(u64, SnapshotId)> = Vec::new();
                for volume in 0..self.setup.volumes {
                    let own = snapshots
                        .iter()
                        .find(|found| self.number_of(found.volume) == Some(volume));
                    let Some(own) = own else { continue };
                    numbers.push((volume, own.number));
                    self.snapshots.taken.push(Taken {
                        volume,
                        name: set.name.clone(),
                        number: own.number,
                        blocks: own.size_bytes / u64::from(BLOCK_BYTES),
                        between,
                        held: BTreeMap::new(),
                    });
                }
                self.tell(|| format!("set {} is taken: {numbers:?}", set.id));
                self.snapshots.sets.push((between, numbers));
                self.coverage.hit("snapshot.set_taken");
            }
            SetTaking::Void(voided) => {
                self.tell(|| format!("set {} is void: {}", set.id, voided.why));
                self.coverage.hit("snapshot.set_void");
            }
            other => return Err(format!("a set has come to nothing that is known: {other:?}")),
        }
        self.snapshots.wished_set = None;
        Ok(())
    }

    /// The operator deletes one of the snapshots that there are, the oldest or any.
    pub(super) fn delete_snapshot(&mut self, now: Time, turn: u64) {
        let taken = &mut self.snapshots.taken;
        if taken.is_empty() {
            return;
        }
        let (place, of) = (turn as usize % taken.len(), taken.len() as u64);
        let gone = taken.remove(place);
        let marks = (turn / of).is_multiple_of(2);
        let desk = Desk::new(&mut self.metadata, now);
        let deletes = if marks {
            admin::mark_snapshot
        } else {
            admin::delete_snapshot
        };
        match deletes(&desk, &volume_name(gone.volume), &gone.name) {
            // It stays, for as long as its clones need it.
            Ok(snapshot) if snapshot.hidden => self.coverage.hit("operator.snapshot_hidden"),
            Ok(snapshot) if snapshot.mark => {
                self.coverage.hit("operator.snapshot_marked");
                self.tell(|| format!("snapshot {} of {} is marked", gone.number.0, volume_name(gone.volume)));
                return self.snapshots.marked.push(gone);
            }
            Ok(_) => self.coverage.hit("operator.snapshot_deleted"),
            Err(why) => {
                self.hosts
                    .violation
                    .get_or_insert(format!("a snapshot cannot be deleted: {why}"));
            }
        }
        self.tell(|| format!("snapshot {} of {} is deleted", gone.number.0, volume_name(gone.volume)));
    }

    /// The snapshots that live, by their volume.
    pub(super) fn live_snapshots(&self) -> BTreeMap<VolumeId, BTreeSet<SnapshotId>> {
        let mut live: BTreeMap<VolumeId, BTreeSet<SnapshotId>> = BTreeMap::new();
        for record in self.metadata.state().keys() {
            let snapshot = record
                .key
                .starts_with(SNAPSHOTS)
                .then(|| record.json::<map::Snapshot>());
            let Some(Ok(snapshot)) = snapshot else { continue };
            if matches!(snapshot.state, SnapshotState::Sealed(_)) && !snapshot.is_only_marked() {
                live.entry(snapshot.volume).or_default().insert(snapshot.number);
            }
        }
        live
    }

    /// Those of which only the mark is left, by their volume.
    fn marks(&self) -> BTreeSet<(VolumeId, SnapshotId)> {
        let records = self.metadata.state().keys();
        let records = records.filter(|record| record.key.starts_with(SNAPSHOTS));
        let snapshots = records.filter_map(|record| record.json::<map::Snapshot>().ok());
        let marked = snapshots.filter(map::Snapshot::is_only_marked);
        marked.map(|snapshot| (snapshot.volume, snapshot.number)).collect()
    }

    /// What stores keep of their chunks that stands for no snapshot, or for no mark, and at which node.
    pub(super) fn kept_for_nothing(&self) -> Vec<(Member, String)> {
        let (live, marks) = (self.live_snapshots(), self.marks());
        let mut left = Vec::new();
        for (member, node) in self.nodes.iter().enumerate() {
            for store in node.each_core().flat_map(|core| core.stores().each()) {
                if !matches!(store.state(), amita_store::State::Serving) {
                    continue;
                }
                for (chunk, above, to) in store.held_states() {
                    let of_volume = live.get(&chunk.volume).into_iter().flatten();
                    if !of_volume
                        .into_iter()
                        .any(|number| (above.0 + 1..=to.0).contains(&number.0))
                    {
                        let (node, first) = (node_id(member), above.0 + 1);
                        left.push((member, format!("{chunk} on {node} for snapshots {first} to {}", to.0)));
                    }
                }
                for (chunk, above, to) in store.held_marks() {
                    let of = (chunk.volume, SnapshotId(above.0 + 1))..=(chunk.volume, to);
                    if marks.range(of).next().is_none() {
                        let node = node_id(member);
                        left.push((member, format!("a mark of {chunk} on {node}, of snapshot {}", to.0)));
                    }
                }
            }
        }
        left
    }

    /// Looks whether what was wished is taken.
    pub(super) fn look_at_snapshots(&mut self, now: Time) -> Result<(), String> {
        let revision = self.metadata.state().revision();
        let is_anything = !self.snapshots.wished.is_empty() || self.snapshots.wished_set.is_some();
        if !is_anything || std::mem::replace(&mut self.snapshots.looked, revision) == revision {
            return Ok(());
        }
        self.look_at_set(now)?;
        let volumes: Vec<u64> = self.snapshots.wished.keys().copied().collect();
        for volume in volumes {
            let wished = &self.snapshots.wished[&volume];
            let key = map::snapshot_wish_key(wished.data);
            let record = self.metadata.state().get(&key);
            let waits = record.and_then(|found| found.json::<SnapshotWish>().ok());
            if waits.is_some_and(|wish| wish.refused.is_none()) {
                continue;
            }
            let desk = Desk::new(&mut self.metadata, now);
            let state = admin::snapshot_state(&desk, &wished.wish).map_err(|error| error.to_string())?;
            let between = (wished.asked, self.history.events());
            self.snapshots.wished.remove(&volume);
            match state {
                TakingState::Taken(snapshot) => {
                    self.tell(|| format!("snapshot {} of {} is taken", snapshot.number.0, volume_name(volume)));
                    self.coverage.hit("snapshot.taken");
                    self.snapshots.taken.push(Taken {
                        volume,
                        name: snapshot.name,
                        number: snapshot.number,
                        blocks: snapshot.size_bytes / u64::from(BLOCK_BYTES),
                        between,
                        held: BTreeMap::new(),
                    });
                    self.clone_taken(now, self.snapshots.taken.len() - 1)?;
                }
                TakingState::Refused(why) => {
                    self.coverage.hit("snapshot.refused");
                    self.tell(|| format!("a snapshot of {} is refused: {why}", volume_name(volume)));
                }
                other => {
                    return Err(format!(
                        "a wish for a snapshot has gone, and came to nothing: {other:?}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Every wish is answered, now that nothing is wrong any more.
    pub(super) fn end_snapshots(&mut self) -> Result<(), String> {
        let limit = self.world.now().plus(SETTLE);
        while let Some(volume) = self.snapshots.wished.keys().next().copied() {
            if self.world.now() >= limit {
                if self.snapshots.wished.keys().all(|volume| self.may_block_in(*volume)) {
                    self.coverage.hit("snapshot.waits");
                    return Ok(());
                }
                let (name, describe) = (volume_name(volume), self.describe());
                return Err(format!(
                    "nothing is wrong any more, and after {SETTLE:?} a snapshot of {name} is not taken\n{describe}"
                ));
            }
            self.step(limit)?;
            self.look_at_snapshots(self.world.now())?;
        }
        // The longest that an owner waits for a leader, and the record's removal.
        let limit = self.world.now().plus(SETTLE * 3);
        while let Some((set, _)) = &self.snapshots.wished_set {
            if self.world.now() >= limit {
                if (0..self.setup.volumes).any(|volume| self.may_block_in(volume)) {
                    self.coverage.hit("snapshot.set_waits");
                    return Ok(());
                }
                let (id, describe) = (set.id, self.describe());
                return Err(format!(
                    "nothing is wrong any more, and after {:?} set {id} is neither taken nor void\n{describe}",
                    SETTLE * 3
                ));
            }
            self.step(limit)?;
            self.look_at_snapshots(self.world.now())?;
        }
        Ok(())
    }

    /// The stores that were in sync in a group from the first record to the last: what the others hold of snapshots was brought to
    /// them in part.
    pub(super) fn always_in_sync(&self) -> BTreeSet<(GroupId, StoreId)> {
        let state = self.metadata.state();
        let mut stayed: BTreeMap<GroupId, BTreeSet<StoreId>> = BTreeMap::new();
        for pool in (1..=self.setup.pools).map(PoolId) {
            let prefix = map::groups_prefix(pool);
            for event in state.history_after(state.compacted()).flat_map(|batch| &batch.events) {
                let Event::Put(kv) = event else { continue };
                let record = kv.key.starts_with(&prefix).then(|| kv.json::<map::Group>().ok());
                let Some(record) = record.flatten() else { continue };
                let index = record.index;
                let now: BTreeSet<StoreId> = record.in_sync.into_iter().collect();
                stayed
                    .entry(GroupId { pool, index })
                    .and_modify(|stores| stores.retain(|store| now.contains(store)))
                    .or_insert(now);
            }
        }
        let pairs = stayed.into_iter();
        pairs
            .flat_map(|(group, stores)| stores.into_iter().map(move |store| (group, store)))
            .collect()
    }

    /// Each was the volume at one moment, and has all of that: whoever reads, clones or carries one does not look behind its end.
    pub(super) fn judge_cuts(&mut self) -> Result<(), String> {
        for index in 0..self.snapshots.taken.len() {
            let taken = &self.snapshots.taken[index];
            let (number, volume) = (taken.number.0, volume_name(taken.volume));
            let blocks = taken.held.len() as u64;
            let end = taken.volume * self.setup.blocks + taken.blocks;
            let behind = taken
                .held
                .range(end..)
                .find(|(_, stamps)| stamps.iter().any(|stamp| *stamp != Stamp::ZERO));
            if let Some((block, stamps)) = behind {
                let has = taken.blocks;
                return Err(format!(
                    "snapshot {number} of {volume} has {has} blocks, and behind its end block {block} holds {stamps:?}"
                ));
            }
            let is_short = taken.blocks < self.setup.blocks;
            self.coverage
                .add("judge.short_snapshots", u64::from(is_short && blocks > 0));
            self.history
                .check_cut(&taken.held, taken.between)
                .map_err(|why| format!("snapshot {number} of {volume} is no moment of it: {why}"))?;
            self.coverage.add("judge.snapshot_blocks", blocks);
            // Where nobody has written anything there is nothing to be seen.
            self.coverage.hit(match blocks {
                0 => "judge.snapshots_unseen",
                _ => "judge.snapshots",
            });
        }
        self.judge_sets()
    }

    /// The snapshots of each set were all volumes at one moment (S4): what is in one and was sent when something of another volume was
    /// acknowledged is in it only with that.
    fn judge_sets(&mut self) -> Result<(), String> {
        for (between, numbers) in &self.snapshots.sets {
            let of_set = self.snapshots.taken.iter();
            let of_set = of_set.filter(|taken| numbers.contains(&(taken.volume, taken.number)));
            // Blocks are numbered through all volumes.
            let held: BTreeMap<u64, Vec<Stamp>> = of_set.flat_map(|taken| taken.held.clone()).collect();
            self.history
                .check_cut(&held, *between)
                .map_err(|why| format!("the set of {numbers:?} is no moment of the volumes: {why}"))?;
            self.coverage.hit("judge.sets");
            self.coverage.add("judge.set_blocks", held.len() as u64);
        }
        Ok(())
    }
}
