//! What was changed between snapshots, and since each of them (S5; `docs/decisions/045`).
//!
//! Every store in sync lists each view of a chunk: as the snapshots have it that live, and as it is. What it then says was changed between
//! two of them must be just the blocks whose entries have another version there. All stores list the same entries of a snapshot, so
//! all say the same. Since a snapshot of which only the mark is kept each says the same as the others, too. And it is what the judge knows by itself: where the contents of a block differ, by what was read, it is among
//! them; where they do not, somebody has asked to write it meanwhile.

use super::Mounted;
use crate::cluster::node::home;
use crate::cluster::{Cluster, volume_name};
use crate::excuse::Excuse;
use crate::stamp::Stamp;
use amita_types::io::Differs;
use amita_types::message::{AnswerBody, Change, DifferRequest, DiffersAnswer, Refusal, RequestBody, Scope};
use amita_types::{BLOCK_BYTES, BlockIndex, ChunkIndex, SnapshotId, StoreId, Version};
use std::collections::BTreeMap;

/// What stores say of the views of all chunks.
#[derive(Default)]
pub(super) struct Views {
    /// What the first store lists of a chunk of a volume for a snapshot.
    listed: BTreeMap<(u64, u64, SnapshotId), (StoreId, Vec<Change>)>,
    /// What was changed in a chunk of a volume between two views.
    changed: BTreeMap<(u64, u64), Vec<Changed>>,
    /// What the first store says was changed in a chunk of a volume since a snapshot of which only the mark is kept.
    since_marks: BTreeMap<(u64, u64, SnapshotId), (StoreId, Differs)>,
}

struct Changed {
    since: SnapshotId,
    at: SnapshotId,
    differs: Differs,
}

/// The views of a chunk as one store lists them: from the oldest snapshot that lives to the chunk as it is. None: where the list is
/// damaged.
pub(super) type Listed = Vec<(SnapshotId, Option<Vec<Change>>)>;

/// Which pairs of so many views are asked for: each with the next one, with the first and with the last.
fn pairs(views: usize) -> impl Iterator<Item = (usize, usize)> {
    let all = (0..views).flat_map(move |older| (older + 1..views).map(move |newer| (older, newer)));
    all.filter(move |(older, newer)| newer - older == 1 || *older == 0 || newer + 1 == views)
}

fn has(bits: &[u64; 16], block: u16) -> bool {
    bits[usize::from(block) / 64] >> (block % 64) & 1 == 1
}

/// What has another version in the newer list, and which of that has data there.
fn compared(older: &[Change], newer: &[Change]) -> Differs {
    let before: BTreeMap<BlockIndex, Version> = older.iter().map(|entry| (entry.block, entry.version)).collect();
    let mut differs = Differs::default();
    let mut gone = before.clone();
    for entry in newer {
        gone.remove(&entry.block);
        if before.get(&entry.block) != Some(&entry.version) {
            let (word, bit) = (usize::from(entry.block.0) / 64, 1 << (entry.block.0 % 64));
            differs.changed[word] |= bit;
            differs.allocated[word] |= if entry.sum.is_some() { bit } else { 0 };
        }
    }
    for block in gone.into_keys() {
        differs.changed[usize::from(block.0) / 64] |= 1 << (block.0 % 64);
    }
    differs
}

impl Cluster {
    /// What a store lists of a chunk of a volume, for each of these snapshots and as it is; and what it says was changed between
    /// them.
    pub(super) fn look_at_views(
        &mut self,
        mounted: &mut Mounted,
        scope: Scope,
        (volume, chunk): (u64, u64),
        live: &[SnapshotId],
        views: &mut Views,
    ) -> Result<Listed, String> {
        let mut listed = Listed::new();
        for &snapshot in live.iter().chain([&SnapshotId::HEAD]) {
            let entries = self.list_entries(mounted, Scope { snapshot, ..scope }, ChunkIndex(chunk))?;
            if entries.is_none() {
                self.excuse(Excuse::DamagedCopy, Some(volume), home(mounted.store).0)
                    .map_err(|why| format!("{why}: a list of chunk {chunk}, snapshot {snapshot}"))?;
                self.coverage.hit("judge.damaged_list");
            }
            listed.push((snapshot, entries));
        }
        // Copies of the chunk as it is are compared elsewhere.
        for (snapshot, entries) in &listed[..live.len()] {
            let Some(entries) = entries else { continue };
            let first = views.listed.entry((volume, chunk, *snapshot));
            let (store, first) = first.or_insert_with(|| (mounted.store, entries.clone()));
            if first != entries {
                let at = first.iter().zip(entries).find(|(a, b)| a != b);
                return Err(format!(
                    "snapshot {snapshot} of {} has {} entries of chunk {chunk} on {}, and {} on {store}; the first that differ: {at:?}",
                    volume_name(volume),
                    entries.len(),
                    mounted.store,
                    first.len(),
                ));
            }
            self.coverage
                .add("judge.snapshot_lists", u64::from(*store != mounted.store));
        }
        for (older, newer) in pairs(listed.len()) {
            let (since, at) = (listed[older].0, listed[newer].0);
            let scope = Scope { snapshot: at, ..scope };
            let body = RequestBody::Differ(DifferRequest {
                chunk: ChunkIndex(chunk),
                since,
                least: Version::NONE,
                newest: None,
            });
            let (answer, _) = self.ask(mounted, scope, body)?;
            let differs = match answer.result {
                Ok(AnswerBody::Differs(DiffersAnswer { differs, .. })) => *differs,
                Err(Refusal::Damaged { .. }) => {
                    self.excuse(Excuse::DamagedCopy, Some(volume), home(mounted.store).0)
                        .map_err(|why| format!("{why}: what differs in chunk {chunk} since snapshot {since}"))?;
                    continue;
                }
                other => {
                    return Err(format!(
                        "store {}, what was changed in chunk {chunk} between {since} and {at}: {other:?}",
                        mounted.store
                    ));
                }
            };
            let (Some(before), Some(now)) = (&listed[older].1, &listed[newer].1) else {
                continue;
            };
            let expected = compared(before, now);
            if differs != expected {
                return Err(format!(
                    "store {} says {differs:x?} was changed in chunk {chunk} of {} between snapshots {since} and {at}, and lists entries \
                     of other versions in {expected:x?}",
                    mounted.store,
                    volume_name(volume),
                ));
            }
            self.coverage.hit("judge.changes_asked");
            let known = views.changed.entry((volume, chunk)).or_default();
            if !known.iter().any(|known| (known.since, known.at) == (since, at)) {
                known.push(Changed { since, at, differs });
            }
        }
        Ok(listed)
    }

    /// What a store says was changed in a chunk of a volume since those of its snapshots of which only marks are kept: what the others say.
    /// Who has had the chunk all the time (`stayed`) knows it.
    pub(super) fn look_at_marks(
        &mut self,
        mounted: &mut Mounted,
        scope: Scope,
        (volume, chunk): (u64, u64),
        stayed: bool,
        views: &mut Views,
    ) -> Result<(), String> {
        let marks = self.snapshots.marked.iter().filter(|marked| marked.volume == volume);
        let marks: Vec<SnapshotId> = marks.map(|marked| marked.number).collect();
        for since in marks {
            let body = RequestBody::Differ(DifferRequest {
                chunk: ChunkIndex(chunk),
                since,
                least: Version::NONE,
                newest: None,
            });
            let (answer, _) = self.ask(mounted, scope, body)?;
            let differs = match answer.result {
                Ok(AnswerBody::Differs(DiffersAnswer { differs, .. })) => *differs,
                Err(Refusal::Damaged { .. }) => {
                    self.excuse(Excuse::DamagedCopy, Some(volume), home(mounted.store).0)
                        .map_err(|why| format!("{why}: what differs in chunk {chunk} since mark {since}"))?;
                    continue;
                }
                // It was deleted in the source while it was brought here: the others know it.
                Err(Refusal::Invalid { .. }) if !stayed => {
                    self.coverage.hit("judge.mark_unknown");
                    continue;
                }
                other => {
                    return Err(format!(
                        "store {}, what was changed in chunk {chunk} since mark {since} of {}: {other:?}",
                        mounted.store,
                        volume_name(volume)
                    ));
                }
            };
            let first = views.since_marks.entry((volume, chunk, since));
            let (store, first) = first.or_insert((mounted.store, differs));
            if *first != differs {
                return Err(format!(
                    "since mark {since} of {} store {} says {differs:x?} was changed in chunk {chunk}, and {store} {first:x?}",
                    volume_name(volume),
                    mounted.store,
                ));
            }
            self.coverage.hit(match stayed {
                true => "judge.mark_asked",
                false => "judge.mark_brought",
            });
        }
        Ok(())
    }

    /// What was changed since a mark is told, and nothing that nobody has asked to write.
    fn judge_marks(&mut self, views: &Views) -> Result<(), String> {
        let chunk_blocks = u64::from(self.setup.chunk_bytes / BLOCK_BYTES);
        for (&(volume, chunk, since), (store, differs)) in &views.since_marks {
            let mut all = self.snapshots.marked.iter();
            let Some(marked) = all.find(|marked| (marked.volume, marked.number) == (volume, since)) else {
                continue;
            };
            let first = volume * self.setup.blocks + chunk * chunk_blocks;
            let (mut told, mut written) = (0, 0);
            for index in 0..chunk_blocks as u16 {
                let block = first + u64::from(index);
                let is_changed = has(&differs.changed, index);
                let was_written = self.history.was_written_after(block, marked.between.1);
                let wrong = match is_changed {
                    false if was_written => "is not told as changed",
                    true if !self.is_written_anew(volume)
                        && !self.history.may_be_written(block, (marked.between.0, u64::MAX)) =>
                    {
                        "is told as changed, and nobody has asked for that"
                    }
                    _ => {
                        told += u64::from(is_changed);
                        written += u64::from(was_written);
                        continue;
                    }
                };
                return Err(format!(
                    "block {block} {wrong} since mark {since} of {} by store {store}\n{}",
                    volume_name(volume),
                    self.history.story(block)
                ));
            }
            self.coverage.add("judge.mark_changes", told);
            self.coverage.add("judge.mark_written", written);
        }
        Ok(())
    }

    /// What stores say was changed is what was: nothing is missing, and nothing is told that nobody has asked to write. `read`: what the
    /// closing reads returned.
    pub(super) fn judge_changes(&mut self, views: &Views, read: &BTreeMap<u64, Vec<Stamp>>) -> Result<(), String> {
        self.judge_marks(views)?;
        let chunk_blocks = u64::from(self.setup.chunk_bytes / BLOCK_BYTES);
        for (&(volume, chunk), changed) in &views.changed {
            let first = volume * self.setup.blocks + chunk * chunk_blocks;
            let taken = |number: SnapshotId| {
                let mut all = self.snapshots.taken.iter();
                all.find(|taken| (taken.volume, taken.number) == (volume, number))
            };
            for Changed { since, at, differs } in changed {
                // One that the operator was not told of yet was looked at by its lists alone.
                let Some(older) = taken(*since) else { continue };
                let newer = taken(*at);
                let (held, told) = match (newer, *at) {
                    (Some(newer), _) => (&newer.held, newer.between.1),
                    (None, SnapshotId::HEAD) => (read, u64::MAX),
                    (None, _) => continue,
                };
                let (mut seen, mut written, mut alike) = (0, 0, 0);
                for index in 0..chunk_blocks as u16 {
                    let block = first + u64::from(index);
                    let (Some(before), Some(now)) = (older.held.get(&block), held.get(&block)) else {
                        continue;
                    };
                    let (is_changed, has_data) = (has(&differs.changed, index), has(&differs.allocated, index));
                    let wrong = match is_changed {
                        false if before != now => Some("is not told as changed"),
                        true if !has_data && now.iter().any(|stamp| *stamp != Stamp::ZERO) => Some("is told as zeros"),
                        true if before == now
                            && !self.is_written_anew(volume)
                            && !self.history.may_be_written(block, (older.between.0, told)) =>
                        {
                            Some("is told as changed, and nobody has asked for that")
                        }
                        _ => None,
                    };
                    if let Some(wrong) = wrong {
                        return Err(format!(
                            "block {block} {wrong} between snapshots {since} and {at} of {}: it was {before:?}, and is {now:?}\n{}",
                            volume_name(volume),
                            self.history.story(block)
                        ));
                    }
                    seen += 1;
                    written += u64::from(before != now);
                    alike += u64::from(is_changed && before == now);
                }
                self.coverage.add("judge.changes_blocks", seen);
                self.coverage.add("judge.changes_written", written);
                self.coverage.add("judge.changes_alike", alike);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
