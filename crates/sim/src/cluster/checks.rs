//! What is judged when a run is over.

use super::coordinator::{Caller, holder};
use super::node::{CLUSTER, at_place, disk, node_id, place, store_id};
use super::{Cluster, POOL, SETTLE, VOLUME};
use crate::faults::Member;
use crate::history::{Kind, Outcome};
use crate::solo::count_store;
use crate::solo::service::StoreService;
use crate::stamp::{self, SECTORS_PER_BLOCK, Sector, Stamp};
use amita_cluster::map;
use amita_cluster::message::{Answer, AnswerBody, Change, Refusal, Request, RequestBody, Scope};
use amita_cluster::{
    BLOCK_BYTES, BlockIndex, BlockRange, ChunkId, ChunkIndex, Epoch, Generation, GroupId, MAX_IO_BLOCKS, NodeId,
    RequestId, SnapshotId, StoreId, Version,
};
use amita_control::coordinator::election_key;
use amita_meta::Event;
use amita_reactor::Slice;
use amita_reactor::sim::SimDriver;
use amita_store::{LinkId, State};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What one store holds of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Copy {
    version: Version,
    /// None where the list of them is damaged.
    entries: Option<Vec<Change>>,
    /// The stamps of each block; none where the block is damaged.
    blocks: Vec<Option<Vec<Stamp>>>,
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
    /// Counts what a node's parts have done; called before they go.
    pub(super) fn count_node(&mut self, member: Member) {
        for core in self.nodes[member].each_core() {
            for store in core.stores().each() {
                let status = store.status();
                count_store(&mut self.coverage, &status.counters);
                self.coverage
                    .add("store.records_replayed", status.mount.records_replayed);
                self.coverage
                    .add("store.mount_ended_short", u64::from(status.mount.ended_short));
            }
            for (_, sequencer) in core.shards().each() {
                count_sequencer(&mut self.coverage, &sequencer.status().counters);
            }
        }
    }

    /// Does some group wait for members that can neither serve nor lawfully be evicted?
    pub(super) fn is_blocked_by_right(&self) -> bool {
        (0..self.setup.groups).any(|index| {
            let Ok(group) = self.group(amita_cluster::GroupIndex(index)) else {
                return false;
            };
            let serving = (0..self.nodes.len())
                .filter(|member| group.in_sync.contains(&store_id(*member)))
                .filter(|member| self.nodes[*member].store_failed.is_none())
                .count();
            serving < usize::from(self.setup.min_copies).min(group.in_sync.len())
        })
    }

    /// The cluster in a few lines, for a failure's message.
    pub(super) fn describe(&self) -> String {
        use std::fmt::Write;
        let mut text = String::new();
        let _ = writeln!(text, "hosts are at node {}", self.hosts.gateway() + 1);
        if let Ok(volume) = self.volume() {
            let _ = writeln!(
                text,
                "volume: generation {}, owner {:?}",
                volume.generation, volume.owner
            );
        }
        for index in 0..self.setup.groups {
            if let Ok(group) = self.group(amita_cluster::GroupIndex(index)) {
                let _ = writeln!(
                    text,
                    "group {index}: epoch {}, in sync {:?}",
                    group.epoch, group.in_sync
                );
            }
        }
        for (member, node) in self.nodes.iter().enumerate() {
            let _ = writeln!(
                text,
                "node {}: up {}, store failed: {:?}",
                member + 1,
                node.is_up(),
                node.store_failed
            );
            for core in node.each_core() {
                for store in core.stores().each() {
                    let _ = writeln!(text, "  store {:?}: {:?}", store.state(), store.status());
                }
                for (_, sequencer) in core.shards().each() {
                    let _ = writeln!(text, "  {:?}", sequencer.status());
                }
            }
        }
        text
    }

    /// The volume's generation and the groups' epochs only go up, in-sync sets only shrink, and never below the least.
    pub(super) fn judge_metadata(&mut self) -> Result<(), String> {
        let mut groups: BTreeMap<String, map::Group> = BTreeMap::new();
        let mut volume: Option<map::Volume> = None;
        let (mut live, mut elected): (BTreeSet<String>, _) = (BTreeSet::new(), None);
        let mut counts = (0, 0);
        let mut evicted = 0;
        let lives = format!("{}live/", map::PREFIX);
        let state = self.metadata.state();
        for batch in state.history_after(state.compacted()) {
            for event in &batch.events {
                let kv = match event {
                    Event::Put(kv) => kv,
                    Event::Delete { key, .. } => {
                        live.remove(key);
                        elected = elected.filter(|_| *key != election_key());
                        continue;
                    }
                };
                if kv.key.starts_with(&lives) {
                    live.insert(kv.key.clone());
                } else if kv.key == election_key() {
                    elected = holder(kv);
                }
                if kv.key.starts_with(&map::groups_prefix(POOL)) {
                    let now: map::Group = kv.json().map_err(|error| error.to_string())?;
                    if let Some(before) = groups.insert(kv.key.clone(), now.clone()) {
                        let wrong = |why| format!("{}: {why}: from {before:?} to {now:?}", kv.key);
                        judge_group(&before, &now, usize::from(self.setup.min_copies)).map_err(wrong)?;
                        // R2, R12: the owner moves an epoch, or the coordinator to evict the dead.
                        let owner = volume.as_ref().and_then(|volume| volume.owner);
                        let is_live = |store| {
                            let home = (0..self.setup.nodes).find(|member| store_id(*member) == store);
                            home.is_some_and(|member| live.contains(&map::live_key(node_id(member))))
                        };
                        match self.metadata.author(kv.mod_revision) {
                            Some((node, Caller::Core(..))) if Some(*node) == owner => {}
                            Some((node, Caller::Coordinator)) if Some(*node) == elected => {
                                judge_eviction(&before, &now, is_live).map_err(wrong)?;
                                evicted += 1;
                            }
                            _ => return Err(wrong("neither the owner nor the coordinator moved the epoch")),
                        }
                        counts.0 += 1;
                    }
                } else if kv.key == map::volume_key(super::hosts::VOLUME_NAME) {
                    let now: map::Volume = kv.json().map_err(|error| error.to_string())?;
                    if let Some(before) = volume.replace(now.clone()) {
                        let taken = now.owner != before.owner;
                        if now.generation < before.generation || (taken && now.generation == before.generation) {
                            return Err(format!("the volume's ownership went from {before:?} to {now:?}"));
                        }
                        counts.1 += 1;
                    }
                }
            }
        }
        self.coverage.add("coordinator.evicted", evicted);
        self.coverage.add("metadata.groups_changed", counts.0);
        self.coverage.add("metadata.volume_changed", counts.1);
        if counts.1 > 1 {
            self.coverage.hit("run.taken_over");
        }
        if counts.0 > 0 {
            self.coverage.hit("run.evicted");
            if self.setup.expect_no_eviction {
                return Err("a member lost its place though nothing failed".to_owned());
            }
        }
        Ok(())
    }

    /// Cuts the power of all, mounts each store alone and compares what the in-sync ones hold.
    pub(super) fn judge_stores(&mut self) -> Result<(), String> {
        for member in 0..self.nodes.len() {
            self.end(member, true);
        }
        let expected = self.closing_reads();
        let chunk_blocks = u64::from(self.setup.chunk_bytes / BLOCK_BYTES);
        let volume = self.volume()?;
        let mut groups = BTreeMap::new();
        for index in 0..self.setup.groups {
            let index = amita_cluster::GroupIndex(index);
            groups.insert(index, self.group(index)?);
        }
        let mut copies: BTreeMap<(u64, Member), Copy> = BTreeMap::new();
        for member in 0..self.nodes.len() {
            let mine: Vec<_> = groups
                .values()
                .filter(|group| group.in_sync.contains(&store_id(member)))
                .collect();
            if mine.is_empty() {
                continue;
            }
            let mut mounted = self.mount(member)?;
            for group in mine {
                let chunks = (0..self.setup.blocks.div_ceil(chunk_blocks)).filter(|chunk| {
                    let id = ChunkId {
                        volume: VOLUME,
                        index: ChunkIndex(*chunk),
                    };
                    id.group(self.setup.groups) == group.index
                });
                let chunks: Vec<u64> = chunks.collect();
                if chunks.is_empty() {
                    // Nobody has touched the group: no owner has fenced it.
                    continue;
                }
                self.judge_fence(&mut mounted, group, volume.generation)?;
                let scope = scope(group, Generation(volume.generation.0 + 1));
                for chunk in chunks {
                    let blocks = chunk_blocks.min(self.setup.blocks - chunk * chunk_blocks) as u16;
                    let copy = self.read_copy(&mut mounted, scope, chunk, blocks)?;
                    copies.insert((chunk, member), copy);
                }
            }
            drop(mounted);
            self.world.power_cut(place(member, 0));
        }
        self.compare(&copies, &expected)
    }

    /// What the closing reads returned, block by block.
    fn closing_reads(&self) -> BTreeMap<u64, Vec<Stamp>> {
        let mut blocks = BTreeMap::new();
        for operation in self.history.operations() {
            if let (super::CLOSING_HOST, Kind::Read, Outcome::Done(read)) =
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
        copies: &BTreeMap<(u64, Member), Copy>,
        expected: &BTreeMap<u64, Vec<Stamp>>,
    ) -> Result<(), String> {
        let chunk_blocks = u64::from(self.setup.chunk_bytes / BLOCK_BYTES);
        let mut first: BTreeMap<u64, (Member, &Copy)> = BTreeMap::new();
        for (&(chunk, member), copy) in copies {
            let &mut (other, model) = first.entry(chunk).or_insert((member, copy));
            let listed = copy.entries.as_ref().zip(model.entries.as_ref());
            if listed.is_none() {
                if !self.hosts.rot {
                    return Err(format!("a list of chunk {chunk} is damaged, unhit"));
                }
                self.coverage.hit("judge.damaged_copy");
                if model.entries.is_none() {
                    first.insert(chunk, (member, copy));
                }
            }
            let (mine, theirs) = listed.unwrap_or((&NOTHING, &NOTHING));
            if (copy.version, mine) != (model.version, theirs) {
                let at = mine.iter().zip(theirs).find(|(a, b)| a != b);
                return Err(format!(
                    "in-sync copies of chunk {chunk} differ: node {} holds {} with {} entries, node {} {} with {}; \
                     the first that differ: {at:?}",
                    member + 1,
                    copy.version,
                    mine.len(),
                    other + 1,
                    model.version,
                    theirs.len(),
                ));
            }
            for (index, block) in copy.blocks.iter().enumerate() {
                let number = chunk * chunk_blocks + index as u64;
                match (block, expected.get(&number)) {
                    (None, _) if self.hosts.rot => self.coverage.hit("judge.damaged_copy"),
                    (None, _) => return Err(format!("block {number} is damaged on node {}, unhit", member + 1)),
                    (Some(_), None) if self.hosts.rot || self.hosts.disk_errors => {}
                    (Some(_), None) => return Err(format!("block {number} was not read in the end")),
                    (Some(found), Some(read)) if found != read => {
                        return Err(format!(
                            "block {number} on node {} holds {found:?}, but a host read {read:?} in the end:\n{}",
                            member + 1,
                            self.history.story(number)
                        ));
                    }
                    (Some(_), Some(_)) => self.coverage.hit("judge.blocks_compared"),
                }
            }
        }
        Ok(())
    }

    fn mount(&mut self, member: Member) -> Result<Mounted, String> {
        let mut driver = self.world.driver(place(member, 0));
        let config = amita_store::Config {
            cluster: Some(CLUSTER),
            planted: self.setup.plants.store,
            ..amita_store::Config::default()
        };
        let disk = disk(member);
        let service = StoreService::open(&mut driver, Path::new(&disk), config).map_err(|error| error.to_string())?;
        let mut mounted = Mounted {
            driver,
            service,
            store: store_id(member),
            next_id: 1,
        };
        let limit = self.world.now().plus(SETTLE);
        loop {
            match mounted.service.state() {
                State::Serving => return Ok(mounted),
                State::Mounting => self.step_mounted(&mut mounted, limit)?,
                other => {
                    return Err(format!(
                        "the in-sync store of node {} cannot be mounted: {other:?}",
                        member + 1
                    ));
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
    fn judge_fence(&mut self, mounted: &mut Mounted, group: &map::Group, generation: Generation) -> Result<(), String> {
        let body = RequestBody::Fence {
            syncing: Vec::new(),
            owner: NodeId(99),
            in_sync: group.in_sync.iter().copied().collect(),
            blocks_per_chunk: (self.setup.chunk_bytes / BLOCK_BYTES) as u16,
        };
        let closed = self.closed_under;
        if closed > Generation(1) {
            let (answer, _) = self.ask(mounted, scope(group, Generation(closed.0 - 1)), body.clone())?;
            if !matches!(answer.result, Err(Refusal::Fenced { .. })) {
                let (store, older) = (mounted.store, closed.0 - 1);
                return Err(format!(
                    "store {store} lets generation {older} in after {closed}: {:?}",
                    answer.result
                ));
            }
        }
        // Where the owner knows the epoch: a change that nobody has told it of yet, no store has adopted. What the
        // coordinator did, an owner learns when it asks for the same.
        let counts = self.metadata.counts;
        let key = map::group_key(POOL, group.index);
        let revision = self.metadata.state().get(&key).map_or(0, |record| record.mod_revision);
        let by_owner = matches!(self.metadata.author(revision), Some((_, Caller::Core(..))));
        if group.epoch > Epoch(1) && by_owner && counts.unknown_done + counts.unknown_late == 0 {
            let older = Scope {
                epoch: Epoch(group.epoch.0 - 1),
                ..scope(group, generation)
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
        let (answer, _) = self.ask(mounted, scope(group, Generation(generation.0 + 1)), body)?;
        match answer.result {
            Ok(AnswerBody::Fenced) => Ok(()),
            other => Err(format!(
                "store {} refuses the next generation: {other:?}",
                mounted.store
            )),
        }
    }

    fn read_copy(&mut self, mounted: &mut Mounted, scope: Scope, chunk: u64, blocks: u16) -> Result<Copy, String> {
        let index = ChunkIndex(chunk);
        let (answer, _) = self.ask(mounted, scope, RequestBody::Open { chunk: index })?;
        let Ok(AnswerBody::Opened {
            version,
            incomplete: None,
        }) = answer.result
        else {
            return Err(format!("store {}, chunk {chunk}: {:?}", mounted.store, answer.result));
        };
        let mut entries = Vec::new();
        let mut from = BlockIndex(0);
        let entries = loop {
            let body = RequestBody::Changes {
                chunk: index,
                since: Version::NONE,
                from,
            };
            let (answer, _) = self.ask(mounted, scope, body)?;
            match answer.result {
                Ok(AnswerBody::Changes { entries: some, more }) => {
                    entries.extend(some);
                    match more {
                        Some(next) => from = next,
                        None => break Some(entries),
                    }
                }
                Err(Refusal::Damaged { .. }) => break None,
                other => {
                    return Err(format!("store {}, changes of chunk {chunk}: {other:?}", mounted.store));
                }
            }
        };
        let mut found = Vec::new();
        let mut first = 0;
        while first < blocks {
            let count = (blocks - first).min(MAX_IO_BLOCKS as u16);
            match self.read_blocks(mounted, scope, chunk, BlockRange::new(first, count), version)? {
                Some(stamps) => found.extend(stamps.chunks(SECTORS_PER_BLOCK).map(|block| Some(block.to_vec()))),
                None => {
                    for block in first..first + count {
                        found.push(self.read_blocks(mounted, scope, chunk, BlockRange::new(block, 1), version)?);
                    }
                }
            }
            first += count;
        }
        Ok(Copy {
            version,
            entries,
            blocks: found,
        })
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
        let body = RequestBody::Read {
            chunk: ChunkIndex(chunk),
            range,
            least,
        };
        let (answer, payload) = self.ask(mounted, scope, body)?;
        let chunk_blocks = u64::from(self.setup.chunk_bytes / BLOCK_BYTES);
        let first = Sector((chunk * chunk_blocks + u64::from(range.first.0)) * SECTORS_PER_BLOCK as u64);
        match answer.result {
            Ok(AnswerBody::Data { .. }) if payload.is_empty() => {
                Ok(Some(vec![Stamp::ZERO; usize::from(range.count) * SECTORS_PER_BLOCK]))
            }
            Ok(AnswerBody::Data { .. }) => stamp::parse(&payload, 1, first)
                .map(Some)
                .map_err(|corrupt| format!("store {} holds data that {corrupt}", mounted.store)),
            Err(Refusal::Damaged { .. }) => Ok(None),
            other => Err(format!(
                "store {}, a read of chunk {chunk} {range:?}: {other:?}",
                mounted.store
            )),
        }
    }
}

fn scope(group: &map::Group, generation: Generation) -> Scope {
    Scope {
        volume: VOLUME,
        generation,
        group: GroupId {
            pool: POOL,
            index: group.index,
        },
        epoch: group.epoch,
        snapshot: SnapshotId::HEAD,
    }
}

fn judge_group(before: &map::Group, now: &map::Group, min_copies: usize) -> Result<(), &'static str> {
    if now.epoch <= before.epoch && now.in_sync != before.in_sync {
        return Err("the in-sync set changed without a new epoch");
    }
    if now.epoch < before.epoch {
        return Err("the epoch went back");
    }
    if now.in_sync.iter().any(|store| !before.in_sync.contains(store)) {
        return Err("a store came back that nobody brought up to date");
    }
    if now.in_sync.len() < min_copies {
        return Err("fewer are in sync than the pool allows");
    }
    Ok(())
}

/// A coordinator only takes stores out, and only those of nodes whose key was gone at that very moment.
fn judge_eviction(
    before: &map::Group,
    now: &map::Group,
    is_live: impl Fn(StoreId) -> bool,
) -> Result<(), &'static str> {
    let is_kept = |store: &StoreId| now.in_sync.contains(store);
    let mut gone = before.in_sync.iter().filter(|store| !is_kept(store)).peekable();
    if gone.peek().is_none() {
        return Err("the coordinator moved an epoch and evicted nobody");
    }
    if gone.any(|store| is_live(*store)) {
        return Err("the coordinator evicted a store whose node lives");
    }
    let left: Vec<StoreId> = before.in_sync.iter().copied().filter(is_kept).collect();
    let expected = map::Group {
        epoch: before.epoch.next(),
        in_sync: left,
        ..before.clone()
    };
    if *now != expected {
        return Err("the coordinator changed more than the dead stores' places");
    }
    Ok(())
}

/// A sequencer's counters, as paths.
fn count_sequencer(coverage: &mut crate::coverage::Coverage, counters: &amita_volume::Counters) {
    coverage.add("volume.writes", counters.writes);
    coverage.add("volume.reads", counters.reads);
    coverage.add("volume.opened", counters.opened);
    coverage.add("volume.rolled", counters.rolled);
    coverage.add("volume.evicted", counters.evicted);
    coverage.add("volume.adopted", counters.adopted);
    coverage.add("volume.resent", counters.resent);
    coverage.add("volume.held", counters.held);
    coverage.add("volume.unpromised", counters.unpromised);
    coverage.add("volume.confirms", counters.confirms);
    coverage.add("volume.credit_waits", counters.credit_waits);
    coverage.add("volume.hedged", counters.hedged);
    coverage.add("volume.stale_epochs", counters.stale_epochs);
    coverage.add("volume.not_fenced", counters.not_fenced);
    coverage.add("volume.unknown", counters.unknown);
    coverage.add("volume.lost_races", counters.lost_races);
    coverage.add("volume.damaged", counters.damaged);
}
