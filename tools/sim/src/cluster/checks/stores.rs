//! What the disks hold in the end: the power of all nodes is cut, each in-sync store is mounted on its own, and what it
//! holds is compared with its peers, block for block, and with the last reads. So is what it holds of each snapshot, what it says was
//! changed between them, and what it counts.

mod clones;
mod figures;
mod views;

use crate::cluster::hosts::CLOSING_HOST;
use crate::cluster::node::{CLUSTER, at_place, disk, home, place, store_id};
use crate::cluster::{Cluster, SETTLE};
use crate::excuse::Excuse;
use crate::faults::Member;
use crate::history::{Kind, Outcome};
use crate::solo::service::StoreService;
use crate::stamp::{self, SECTORS_PER_BLOCK, Sector, Stamp};
use amita_reactor::Slice;
use amita_reactor::sim::SimDriver;
use amita_store::{LinkId, State};
use amita_types::map;
use amita_types::message::{
    Answer, AnswerBody, Change, ChangesAnswer, ChangesRequest, FenceRequest, OpenRequest, OpenedAnswer, ReadRequest,
    Refusal, Request, RequestBody, Scope,
};
use amita_types::{
    BLOCK_BYTES, BlockIndex, BlockRange, ChunkId, ChunkIndex, Epoch, Generation, GroupId, NodeId, PoolId, RequestId,
    SnapshotId, StoreId, Version, VolumeId,
};
use clones::OfClones;
use figures::Expected;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use views::Views;

/// A change of a group that was made so long ago has been adopted by its members.
const SETTLED: Duration = Duration::from_secs(2);

/// What one store holds of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Copy {
    version: Version,
    /// None where the list of them is damaged.
    entries: Option<Vec<Change>>,
    /// The stamps of each block that was looked at; none where the block is damaged.
    blocks: BTreeMap<u16, Option<Vec<Stamp>>>,
}

/// In place of a list that is damaged.
static NOTHING: Vec<Change> = Vec::new();

/// A store that is mounted on its own, to be looked into.
struct Mounted {
    driver: SimDriver,
    service: StoreService,
    store: StoreId,
    next_id: u64,
}

impl Cluster {
    /// Cuts the power of all, mounts each store alone and compares what the in-sync ones hold.
    pub(in crate::cluster) fn judge_stores(&mut self) -> Result<(), String> {
        self.disarm();
        if let Some(sealed) = &self.setup.sealed {
            self.coverage.add("sealed.payloads", sealed.verdict()?);
        }
        for member in 0..self.nodes.len() {
            self.end(member, true);
        }
        let expected = self.closing_reads();
        let beyond = expected.keys().filter(|block| self.shrinks.beyond.contains(block));
        self.coverage.add("judge.beyond_read", beyond.count() as u64);
        let chunk_blocks = u64::from(self.setup.chunk_bytes / BLOCK_BYTES);
        let chunks = self.setup.blocks.div_ceil(chunk_blocks);
        let all_ranges = self.closing_ranges();
        let stayed = self.always_in_sync();
        let live = self.live_snapshots();
        let mut copies: BTreeMap<(u64, StoreId), Copy> = BTreeMap::new();
        let mut views = Views::default();
        let mut of_clones = OfClones::default();
        for (member, place) in self.places_of_stores() {
            let mut mounted = None;
            let mut figures: BTreeMap<u64, Expected> = BTreeMap::new();
            for number in 0..self.setup.volumes {
                let volume = self.volume(number)?;
                let live: Vec<SnapshotId> = live.get(&volume.id).into_iter().flatten().copied().collect();
                let mut fenced = Vec::new();
                for chunk in 0..chunks {
                    let id = ChunkId {
                        volume: volume.id,
                        index: ChunkIndex(chunk),
                    };
                    let index = id.group(self.setup.groups);
                    let pool = self.pool_of(number);
                    let group = self.group(GroupId { pool, index })?;
                    if !group.in_sync.contains(&store_id(member, place)) {
                        continue;
                    }
                    let mounted = match &mut mounted {
                        Some(mounted) => mounted,
                        none => match self.mount(member, place)? {
                            Some(found) => none.insert(found),
                            // It cannot be mounted, and that has a cause: there is nothing to be seen.
                            None => break,
                        },
                    };
                    let scope = |generation: u32| scope(pool, &group, volume.id, Generation(generation));
                    if !fenced.contains(&index) {
                        let waits = self.has_blocked(GroupId { pool, index });
                        let closed = if waits {
                            Generation(0)
                        } else {
                            self.closed_under[number as usize]
                        };
                        self.judge_fence(mounted, &scope, &group, number, (volume.generation, closed))?;
                        fenced.push(index);
                    }
                    let first = number * self.setup.blocks + chunk * chunk_blocks;
                    let ranges: Vec<BlockRange> = all_ranges
                        .iter()
                        .filter(|(at, _)| (first..first + chunk_blocks).contains(at))
                        .map(|(at, count)| BlockRange::new((at - first) as u16, *count as u16))
                        .collect();
                    let copy = self.read_copy(mounted, scope(volume.generation.0 + 1), chunk, &ranges)?;
                    copies.insert((number * chunks + chunk, store_id(member, place)), copy);
                    if !stayed.contains(&(GroupId { pool, index }, store_id(member, place))) {
                        self.coverage.hit("judge.snapshots_brought");
                    }
                    self.read_snapshots(mounted, scope(volume.generation.0 + 1), (number, chunk), &ranges)?;
                    let scope = scope(volume.generation.0 + 1);
                    let has_stayed = stayed.contains(&(GroupId { pool, index }, store_id(member, place)));
                    self.look_at_marks(mounted, scope, (number, chunk), has_stayed, &mut views)?;
                    let listed = self.look_at_views(mounted, scope, (number, chunk), &live, &mut views)?;
                    figures.entry(number).or_default().add(&listed);
                }
            }
            let mut clones: BTreeMap<VolumeId, (usize, Expected)> = BTreeMap::new();
            for index in 0..self.clones_count() {
                let looked = self.look_at_clone(&mut mounted, (member, place), index, &live, &mut of_clones)?;
                if let (Some(expected), Some((record, ..))) = (looked, self.clone_there(index)) {
                    clones.insert(record.id, (index, expected));
                }
            }
            if let Some(mut mounted) = mounted.take() {
                let held = self.judge_figures(&mut mounted, &figures, &clones)?;
                self.world.power_cut(crate::cluster::node::place(member, 0));
                drop(mounted);
                self.judge_offline(member, place, held)?;
            }
        }
        self.compare(&copies, &expected)?;
        self.judge_changes(&views, &expected)
    }

    fn places_of_stores(&self) -> impl Iterator<Item = (Member, usize)> + use<> {
        let stores = self.setup.stores;
        (0..self.nodes.len()).flat_map(move |member| (0..stores).map(move |place| (member, place)))
    }

    /// What the closing reads returned, block by block.
    fn closing_reads(&self) -> BTreeMap<u64, Vec<Stamp>> {
        let mut blocks = BTreeMap::new();
        for operation in self.history.operations() {
            if let (CLOSING_HOST.., Kind::Read, Outcome::Done(read)) =
                (operation.client, operation.kind, &operation.outcome)
            {
                for (index, stamps) in read.chunks(SECTORS_PER_BLOCK).enumerate() {
                    blocks.insert(operation.first.block() + index as u64, stamps.to_vec());
                }
            }
        }
        blocks
    }

    fn compare(
        &mut self,
        copies: &BTreeMap<(u64, StoreId), Copy>,
        expected: &BTreeMap<u64, Vec<Stamp>>,
    ) -> Result<(), String> {
        let chunk_blocks = u64::from(self.setup.chunk_bytes / BLOCK_BYTES);
        let all_written = self.written_blocks();
        let mut first: BTreeMap<u64, (StoreId, &Copy)> = BTreeMap::new();
        for (&(chunk, store), copy) in copies {
            let blocks = chunk * chunk_blocks..(chunk + 1) * chunk_blocks;
            let volume = Some(blocks.start / self.setup.blocks);
            let waits = self.is_blocked(blocks.start);
            let &mut (other, model) = first.entry(chunk).or_insert((store, copy));
            let (name, node, other) = (store_name(store), home(store).0, store_name(other));
            let listed = copy.entries.as_ref().zip(model.entries.as_ref());
            if listed.is_none() {
                let damaged = if copy.entries.is_none() {
                    node
                } else {
                    home(first[&chunk].0).0
                };
                self.excuse(Excuse::DamagedCopy, volume, damaged)
                    .map_err(|why| format!("{why}: a list of chunk {chunk}"))?;
                self.coverage.hit("judge.damaged_copy");
                if model.entries.is_none() {
                    first.insert(chunk, (store, copy));
                }
            }
            let (mine, theirs) = listed.unwrap_or((&NOTHING, &NOTHING));
            if (copy.version, mine) != (model.version, theirs) && !waits {
                // What the longest copy has more is rotten: nobody could open the chunk, and hosts were told so.
                let is_read = expected.range(blocks.clone()).next().is_some();
                let at = mine.iter().zip(theirs).find(|(a, b)| a != b);
                let differ = format!(
                    "in-sync copies of chunk {chunk} differ: {name} holds {} with {} entries, {other} {} with {}; \
                     the first that differ: {at:?}",
                    copy.version,
                    mine.len(),
                    model.version,
                    theirs.len(),
                );
                if is_read || copy.version == model.version {
                    return Err(differ);
                }
                self.excuse(Excuse::Unopened, volume, node)
                    .map_err(|why| format!("{differ}; {why}"))?;
            }
            // A pass that writes all of a volume writes zeros, too.
            let is_anew = volume.is_some_and(|volume| self.is_written_anew(volume));
            let written = copy
                .entries
                .iter()
                .flatten()
                .filter(|entry| !is_anew || entry.sum.is_some())
                .map(|entry| blocks.start + u64::from(entry.block.0));
            if let Some(number) = written.clone().find(|number| !all_written.contains(number)) {
                return Err(format!("{name} lists block {number}, which nobody has written"));
            }
            self.coverage.add("judge.entries_explained", written.count() as u64);
            for (index, block) in &copy.blocks {
                let number = chunk * chunk_blocks + u64::from(*index);
                match (block, expected.get(&number)) {
                    (None, _) => {
                        self.excuse(Excuse::DamagedCopy, volume, node)
                            .map_err(|why| format!("{why}: block {number} on {name}"))?;
                        self.coverage.hit("judge.damaged_copy");
                    }
                    (Some(found), Some(read)) if found == read => self.coverage.hit("judge.blocks_compared"),
                    // Not compared with what was read last, so with all that was acknowledged.
                    (Some(found), None) => {
                        if !waits {
                            self.excuse(Excuse::Unread, volume, node)
                                .map_err(|why| format!("{why}: block {number}\n{}", self.history.story(number)))?;
                        }
                        self.history
                            .could_hold(number, found)
                            .map_err(|why| format!("block {number} on {name} holds {found:?}: {why}"))?;
                        self.coverage.hit("judge.blocks_explained");
                    }
                    (Some(found), Some(read)) => {
                        return Err(format!(
                            "block {number} on {name} holds {found:?}, but a host read {read:?} in the end:\n{}",
                            self.history.story(number)
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// None: it cannot be mounted, rightly.
    fn mount(&mut self, member: Member, number: usize) -> Result<Option<Mounted>, String> {
        let mut driver = self.world.driver(place(member, 0));
        let config = amita_store::Config {
            cluster: Some(CLUSTER),
            faults: self.setup.plants.store,
            ..amita_store::Config::default()
        };
        let disk = disk(member, number);
        let service = StoreService::open(&mut driver, Path::new(&disk), config).map_err(|error| error.to_string())?;
        let mut mounted = Mounted {
            driver,
            service,
            store: store_id(member, number),
            next_id: 1,
        };
        let limit = self.world.now().plus(SETTLE);
        loop {
            match mounted.service.state() {
                State::Serving => return Ok(Some(mounted)),
                State::Mounting => self.step_mounted(&mut mounted, limit)?,
                other => {
                    let why = format!("{}, in sync, cannot be mounted: {other:?}", store_name(mounted.store));
                    if !self.ledger.is_rotten(member) {
                        return Err(why);
                    }
                    self.excuse(Excuse::StoreFailed, None, member)?;
                    return Ok(None);
                }
            }
        }
    }

    fn step_mounted(&mut self, mounted: &mut Mounted, limit: amita_reactor::Time) -> Result<(), String> {
        let Some(place) = self.world.next_until(limit) else {
            return Err(format!("store {} does not answer", mounted.store));
        };
        let _ = at_place(place);
        let mut completions = Vec::new();
        mounted.driver.run(&mut mounted.service, &mut completions);
        Ok(())
    }

    fn ask(&mut self, mounted: &mut Mounted, scope: Scope, body: RequestBody) -> Result<(Answer, Slice), String> {
        let id = RequestId(mounted.next_id);
        mounted.next_id += 1;
        mounted.service.ask(
            LinkId(1),
            Request {
                id,
                store: mounted.store,
                scope,
                trace: amita_types::TraceId::NONE,
                purpose: Default::default(),
                body,
            },
            Slice::default(),
        );
        mounted.driver.again();
        let limit = self.world.now().plus(SETTLE);
        loop {
            if let Some((_, answer, payload)) = mounted.service.take_answers().pop() {
                return Ok((answer, payload));
            }
            self.step_mounted(mounted, limit)?;
        }
    }

    /// The door must be shut to an older generation, after a power cut too, and open to a newer one.
    fn judge_fence(
        &mut self,
        mounted: &mut Mounted,
        scope: &impl Fn(u32) -> Scope,
        group: &map::Group,
        volume: u64,
        (generation, closed): (Generation, Generation),
    ) -> Result<(), String> {
        let body = self.fence_of(group);
        if closed > Generation(1) {
            self.coverage.hit("judge.generation_fenced");
            let (answer, _) = self.ask(mounted, scope(closed.0 - 1), body.clone())?;
            if !matches!(answer.result, Err(Refusal::Fenced { .. })) {
                let (store, older) = (mounted.store, closed.0 - 1);
                return Err(format!(
                    "store {store} lets generation {older} in after {closed}: {:?}",
                    answer.result
                ));
            }
        }
        // Where it was not made at the very end: whoever made it has told the members since, and what the coordinator did the
        // owner has learned by its watch.
        let key = map::group_key(self.pool_of(volume), group.index);
        let revision = self.metadata.state().get(&key).map_or(0, |record| record.mod_revision);
        let is_sure = self.metadata.made_at(revision).plus(SETTLED) < self.world.now();
        let path = if is_sure {
            "judge.epoch_fenced"
        } else {
            "judge.epoch_unsure"
        };
        self.coverage.add(path, u64::from(group.epoch > Epoch(1)));
        if group.epoch > Epoch(1) && is_sure && closed > Generation(0) {
            let older = Scope {
                epoch: Epoch(group.epoch.0 - 1),
                ..scope(generation.0)
            };
            let (answer, _) = self.ask(mounted, older, body.clone())?;
            if !matches!(answer.result, Err(Refusal::StaleEpoch { .. })) {
                let (store, epoch) = (mounted.store, older.epoch);
                return Err(format!(
                    "store {store} takes epoch {epoch}, which is over: {:?}",
                    answer.result
                ));
            }
        }
        self.let_in(mounted, scope(generation.0 + 1), group)
    }

    fn fence_of(&self, group: &map::Group) -> RequestBody {
        RequestBody::Fence(FenceRequest {
            syncing: Vec::new(),
            owner: NodeId(99),
            in_sync: group.in_sync.clone(),
            blocks_per_chunk: (self.setup.chunk_bytes / BLOCK_BYTES) as u16,
            given_back: None,
        })
    }

    /// A store takes the next generation of a volume.
    fn let_in(&mut self, mounted: &mut Mounted, scope: Scope, group: &map::Group) -> Result<(), String> {
        let (answer, _) = self.ask(mounted, scope, self.fence_of(group))?;
        match answer.result {
            Ok(AnswerBody::Fenced) => Ok(()),
            other => Err(format!(
                "store {} refuses the next generation: {other:?}",
                mounted.store
            )),
        }
    }

    fn read_copy(
        &mut self,
        mounted: &mut Mounted,
        scope: Scope,
        chunk: u64,
        ranges: &[BlockRange],
    ) -> Result<Copy, String> {
        let index = ChunkIndex(chunk);
        let (answer, _) = self.ask(mounted, scope, RequestBody::Open(OpenRequest { chunk: index }))?;
        let Ok(AnswerBody::Opened(OpenedAnswer {
            version,
            incomplete: None,
            ..
        })) = answer.result
        else {
            return Err(format!("store {}, chunk {chunk}: {:?}", mounted.store, answer.result));
        };
        let entries = self.list_entries(mounted, scope, index)?;
        let mut found = BTreeMap::new();
        for &range in ranges {
            let (first, count) = (range.first.0, range.count);
            match self.read_blocks(mounted, scope, chunk, range, version)? {
                Some(stamps) => {
                    let stamps = stamps.chunks(SECTORS_PER_BLOCK).map(|block| Some(block.to_vec()));
                    found.extend((first..).zip(stamps));
                }
                None => {
                    for block in first..first + count {
                        let stamps = self.read_blocks(mounted, scope, chunk, BlockRange::new(block, 1), version)?;
                        found.insert(block, stamps);
                    }
                }
            }
        }
        Ok(Copy {
            version,
            entries,
            blocks: found,
        })
    }

    /// What the store lists of a chunk, in the scope's snapshot; none where the list is damaged.
    fn list_entries(
        &mut self,
        mounted: &mut Mounted,
        scope: Scope,
        chunk: ChunkIndex,
    ) -> Result<Option<Vec<Change>>, String> {
        let mut entries = Vec::new();
        let mut from = BlockIndex(0);
        loop {
            let body = RequestBody::Changes(ChangesRequest {
                chunk,
                since: Version::NONE,
                from,
            });
            let (answer, _) = self.ask(mounted, scope, body)?;
            match answer.result {
                Ok(AnswerBody::Changes(ChangesAnswer { entries: some, more })) => {
                    entries.extend(some);
                    match more {
                        Some(next) => from = next,
                        None => return Ok(Some(entries)),
                    }
                }
                Err(Refusal::Damaged { .. }) => return Ok(None),
                other => {
                    let chunk = chunk.0;
                    return Err(format!("store {}, changes of chunk {chunk}: {other:?}", mounted.store));
                }
            }
        }
    }

    /// What the store holds of a chunk in the snapshots that were taken: the same as any other in-sync store.
    fn read_snapshots(
        &mut self,
        mounted: &mut Mounted,
        scope: Scope,
        (volume, chunk): (u64, u64),
        ranges: &[BlockRange],
    ) -> Result<(), String> {
        let chunk_blocks = u64::from(self.setup.chunk_bytes / BLOCK_BYTES);
        let first = volume * self.setup.blocks + chunk * chunk_blocks;
        for index in 0..self.snapshots.taken.len() {
            if self.snapshots.taken[index].volume != volume {
                continue;
            }
            let number = self.snapshots.taken[index].number;
            // What was written behind the end that it had is not moved, if the volume grew while it was taken.
            let size_blocks = self.size_of_moved(volume, scope.volume, number);
            let scope = Scope {
                snapshot: number,
                ..scope
            };
            for range in ranges.iter().flat_map(|range| range.iter()) {
                if size_blocks.is_some_and(|blocks| chunk * chunk_blocks + u64::from(range.0) >= blocks) {
                    continue;
                }
                let one = BlockRange::new(range.0, 1);
                let found = self.read_blocks(mounted, scope, chunk, one, Version::NONE);
                let found = found.map_err(|why| format!("snapshot {}: {why}", number.0))?;
                let block = first + u64::from(range.0);
                let Some(found) = found else {
                    let node = home(mounted.store).0;
                    if self.setup.scrubbed_last {
                        let store = store_name(mounted.store);
                        let number = number.0;
                        return Err(format!(
                            "block {block} of snapshot {number} is damaged on {store}, which was scrubbed (S12)"
                        ));
                    }
                    self.excuse(Excuse::DamagedCopy, Some(volume), node)
                        .map_err(|why| format!("{why}: block {block} of snapshot {}", number.0))?;
                    self.coverage.hit("judge.damaged_snapshot");
                    continue;
                };
                let held = self.snapshots.taken[index]
                    .held
                    .entry(block)
                    .or_insert_with(|| found.clone());
                if *held != found {
                    return Err(format!(
                        "block {block} of snapshot {} is {found:?} on {}, and {held:?} on another store in sync\n{}",
                        number.0,
                        store_name(mounted.store),
                        self.history.story(block)
                    ));
                }
                self.coverage.hit("judge.snapshot_copies");
            }
        }
        Ok(())
    }

    /// The stamps of a range; none where some of it is damaged.
    fn read_blocks(
        &mut self,
        mounted: &mut Mounted,
        scope: Scope,
        chunk: u64,
        range: BlockRange,
        least: Version,
    ) -> Result<Option<Vec<Stamp>>, String> {
        let body = RequestBody::Read(ReadRequest {
            chunk: ChunkIndex(chunk),
            range,
            least,
            versions: self.setup.sealed.is_some(),
            newest: None,
        });
        let (answer, payload) = self.ask(mounted, scope, body)?;
        let chunk_blocks = u64::from(self.setup.chunk_bytes / BLOCK_BYTES);
        let number = self.number_of(scope.volume).unwrap_or(scope.volume.0 - 1);
        let base = number * self.setup.blocks + chunk * chunk_blocks;
        let first = Sector((base + u64::from(range.first.0)) * SECTORS_PER_BLOCK as u64);
        match answer.result {
            Ok(AnswerBody::Data(_)) if payload.is_empty() => {
                Ok(Some(vec![Stamp::ZERO; usize::from(range.count) * SECTORS_PER_BLOCK]))
            }
            Ok(AnswerBody::Data(data)) => {
                let place = (ChunkIndex(chunk), range);
                let plain = match &self.setup.sealed {
                    Some(sealed) => sealed.open(scope.volume, place, &data.runs, &payload)?,
                    None => payload.to_vec(),
                };
                stamp::parse(&plain, 1, first)
                    .map(Some)
                    .map_err(|corrupt| format!("store {} holds data that {corrupt}", mounted.store))
            }
            Err(Refusal::Damaged { .. }) => Ok(None),
            other => Err(format!(
                "store {}, a read of chunk {chunk} {range:?}: {other:?}",
                mounted.store
            )),
        }
    }
}

fn scope(pool: PoolId, group: &map::Group, volume: VolumeId, generation: Generation) -> Scope {
    let index = group.index;
    Scope {
        volume,
        generation,
        group: GroupId { pool, index },
        epoch: group.epoch,
        snapshot: SnapshotId::HEAD,
    }
}

fn store_name(store: StoreId) -> String {
    let (member, place) = home(store);
    format!("store {} of node {}", place + 1, member + 1)
}
