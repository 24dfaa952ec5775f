//! What stores hold of clones (S6 to S8, S13): all in sync hold the same of each chunk, whole, or none has made it; and what they list is
//! what its guest knows of it. What each store is to count of it (`docs/decisions/047`) follows from the same lists: a clone
//! uses what it has made, and of what it has not made what its nearest parent's snapshot lists.

use super::figures::Expected;
use super::{Mounted, scope};
use crate::cluster::Cluster;
use crate::cluster::node::{home, store_id};
use crate::excuse::Excuse;
use crate::faults::Member;
use amita_types::message::{AnswerBody, Change, OpenRequest, OpenedAnswer, RequestBody, Scope};
use amita_types::{
    BLOCK_BYTES, ChunkId, ChunkIndex, Generation, GroupId, PoolId, SnapshotId, StoreId, Version, VolumeId, map,
};
use std::collections::{BTreeMap, BTreeSet};

/// What the first store in sync holds of a chunk of a clone: its version, none where it is not made, and what it lists of it, its own or
/// inherited.
#[derive(Default)]
pub(super) struct OfClones(BTreeMap<(VolumeId, u64), (StoreId, Version, Vec<Change>)>);

/// Of which volumes, and groups, a store takes requests of the next generation.
type Fenced = BTreeSet<(VolumeId, GroupId)>;

impl Cluster {
    /// What a store is to count of a clone; none: it is in sync in none of its groups, or cannot be mounted.
    pub(super) fn look_at_clone(
        &mut self,
        mounted: &mut Option<Mounted>,
        (member, place): (Member, usize),
        index: usize,
        live: &BTreeMap<VolumeId, BTreeSet<SnapshotId>>,
        seen: &mut OfClones,
    ) -> Result<Option<Expected>, String> {
        let Some((record, root, pool, blocks)) = self.clone_there(index) else {
            return Ok(None);
        };
        let per_chunk = u64::from(self.setup.chunk_bytes / BLOCK_BYTES);
        let mut expected: Option<Expected> = None;
        let mut fenced = Fenced::new();
        for chunk in 0..blocks.div_ceil(per_chunk) {
            let id = ChunkId {
                volume: record.place(),
                index: ChunkIndex(chunk),
            };
            let id = GroupId {
                pool,
                index: id.group(self.setup.groups),
            };
            let group = self.group(id)?;
            if !group.in_sync.contains(&store_id(member, place)) {
                continue;
            }
            if mounted.is_none() {
                *mounted = self.mount(member, place)?;
            }
            let Some(mounted) = mounted.as_mut() else {
                return Ok(None);
            };
            let expected = expected.get_or_insert_default();
            let at = self.scope_of(mounted, &mut fenced, (pool, &group), &record)?;
            let name = &record.name;
            let body = RequestBody::Open(OpenRequest {
                chunk: ChunkIndex(chunk),
            });
            let (answer, _) = self.ask(mounted, at, body)?;
            let Ok(AnswerBody::Opened(OpenedAnswer {
                version,
                incomplete: None,
                ..
            })) = answer.result
            else {
                let store = mounted.store;
                return Err(format!(
                    "store {store}, in sync, chunk {chunk} of {name}: {:?}",
                    answer.result
                ));
            };
            let mut listed = Vec::new();
            if version > Version::NONE {
                let live = live.get(&record.id).into_iter().flatten();
                for &snapshot in live.chain([&SnapshotId::HEAD]) {
                    let entries = self.list_entries(mounted, Scope { snapshot, ..at }, ChunkIndex(chunk))?;
                    listed.push((snapshot, entries));
                }
            } else {
                let mut inherited = Some(Vec::new());
                for parent in &record.parents {
                    let parent_record = self.volume_by_id(parent.volume)?;
                    let from = self.scope_of(mounted, &mut fenced, (pool, &group), &parent_record)?;
                    let from = Scope {
                        snapshot: parent.number,
                        ..from
                    };
                    inherited = self.list_entries(mounted, from, ChunkIndex(chunk))?;
                    if inherited.as_ref().is_none_or(|entries| !entries.is_empty()) {
                        self.coverage.hit("judge.clone_inherits");
                        break;
                    }
                }
                listed.push((SnapshotId::HEAD, inherited));
            }
            expected.add(&listed);
            let Some((_, Some(entries))) = listed.pop() else {
                self.excuse(Excuse::DamagedCopy, Some(root), home(mounted.store).0)
                    .map_err(|why| format!("{why}: a list of chunk {chunk} of {name}"))?;
                continue;
            };
            if self.clones_wait() || self.has_blocked(id) {
                continue;
            }
            self.compare_clone(mounted.store, (&record, chunk), (version, &entries), seen)?;
            self.judge_contents(
                mounted.store,
                index,
                &record,
                chunk * per_chunk..blocks.min((chunk + 1) * per_chunk),
                &entries,
            )?;
        }
        Ok(expected)
    }

    /// All in sync have the same.
    fn compare_clone(
        &mut self,
        store: StoreId,
        (record, chunk): (&map::Volume, u64),
        (version, entries): (Version, &[Change]),
        seen: &mut OfClones,
    ) -> Result<(), String> {
        let first = seen.0.entry((record.id, chunk));
        let (other, first_version, first_entries) = first.or_insert_with(|| (store, version, entries.to_vec()));
        if (*first_version, first_entries.as_slice()) != (version, entries) {
            let at = first_entries.iter().zip(entries).find(|(a, b)| a != b);
            return Err(format!(
                "in-sync copies of chunk {chunk} of {} differ: {store} holds {version} with {} entries, {other} {first_version} with {}; \
                 the first that differ: {at:?}",
                record.name,
                entries.len(),
                first_entries.len(),
            ));
        }
        self.coverage.add("judge.clone_copies", u64::from(*other != store));
        Ok(())
    }

    /// What is listed with data is what the guest knows to be there.
    fn judge_contents(
        &mut self,
        store: StoreId,
        index: usize,
        record: &map::Volume,
        blocks: std::ops::Range<u64>,
        entries: &[Change],
    ) -> Result<(), String> {
        let data = entries.iter().filter(|entry| entry.sum.is_some());
        let data: BTreeSet<u64> = data.map(|entry| blocks.start + u64::from(entry.block.0)).collect();
        for block in blocks {
            let Some(has_data) = self.clone_has_data(index, block) else {
                continue;
            };
            if has_data != data.contains(&block) {
                let what = if has_data { "has no data" } else { "has data" };
                return Err(format!(
                    "block {block} of {} {what} by what store {store} lists, and its guest knows better",
                    record.name
                ));
            }
            self.coverage.hit("judge.clone_contents");
        }
        Ok(())
    }

    /// Requests for a volume, in a group of a store that is mounted alone, which takes them.
    fn scope_of(
        &mut self,
        mounted: &mut Mounted,
        fenced: &mut Fenced,
        (pool, group): (PoolId, &map::Group),
        record: &map::Volume,
    ) -> Result<Scope, String> {
        let scope = scope(pool, group, record.id, Generation(record.generation.0 + 1));
        if fenced.insert((record.id, scope.group)) {
            self.let_in(mounted, scope, group)?;
        }
        Ok(scope)
    }

    /// The record of a volume, under whatever name.
    fn volume_by_id(&self, id: VolumeId) -> Result<map::Volume, String> {
        let prefix = map::volume_key("");
        let mut records = self.metadata.state().keys().filter(|kv| kv.key.starts_with(&prefix));
        let found = records.find_map(|kv| kv.json::<map::Volume>().ok().filter(|volume| volume.id == id));
        found.ok_or_else(|| format!("a clone comes from volume {id}, which has no record"))
    }
}
