//! The whole state goes to the disk while I/O goes on, and the log's tail moves behind it.
//!
//! The checkpoint is fuzzy (rule D5): a step writes some chunks as they are now, with the log's position now, and
//! replay applies only later records to them. When all are written and flushed, the superblocks are changed, one after
//! the other; from then on replay begins where the log was when the checkpoint began. Until then the old checkpoint and
//! the old tail hold.

use super::{Store, io::Io};
use crate::State;
use crate::format::PAGE_BYTES;
use crate::format::checkpoint::{CHUNK_BYTES, GROUP_BYTES, PageWriter, VOLUME_BYTES};
use crate::format::record::Fence;
use crate::format::superblock::{Checkpoint, OFFSETS, Superblock};
use crate::index::ChunkKey;
use amita_cluster::{Generation, NodeId, VolumeId};
use amita_reactor::Slice;

/// Bytes of one step: a bound for the work of one pass. It holds the largest chunk several times over.
const STEP_BYTES: usize = 128 << 10;
/// A checkpoint begins when this part of the log is used: 1/2, so that the other half can fill while it is written.
const BEGIN_AT: u64 = 2;

/// Where a checkpoint is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    /// Items are being written.
    Items,
    /// All items are written, and being flushed.
    Flush,
    /// The superblocks are being changed.
    Superblock,
}

/// The writer of checkpoints and superblocks.
#[derive(Debug, Default)]
pub(super) struct Writer {
    phase: Phase,
    /// The next group, volume and chunk to write.
    groups: usize,
    volumes: usize,
    chunks: u32,
    /// Pages written so far, and the checksum of the last.
    pages: u64,
    last_sum: u32,
    tail: u64,
    tail_sum: u32,
    /// Is a write under way?
    writing: bool,
    update: Option<Update>,
}

/// A change of the superblocks.
#[derive(Clone, Copy, Debug)]
struct Update {
    new: Superblock,
    /// Which of the two is being written.
    copy: usize,
}

impl Store {
    /// One step of a checkpoint, if one is due or under way.
    pub(super) fn checkpoint_step(&mut self) {
        match self.checkpoint.phase {
            Phase::Idle if self.checkpoint_due() => {
                self.checkpoint = Writer {
                    phase: Phase::Items,
                    tail: self.log.applied,
                    tail_sum: self.log.applied_sum,
                    ..Writer::default()
                };
                self.checkpoint_items();
            }
            Phase::Items if !self.checkpoint.writing => self.checkpoint_items(),
            Phase::Idle | Phase::Items | Phase::Flush | Phase::Superblock => {}
        }
    }

    fn checkpoint_due(&self) -> bool {
        let used = self.log.next - self.log.tail;
        let due = used > self.superblock.geometry.log_pages / BEGIN_AT || self.log.full;
        due && self.log.applied > self.log.tail
    }

    fn checkpoint_id(&self) -> u64 {
        self.superblock.checkpoint.id + 1
    }

    fn checkpoint_area(&self) -> u32 {
        1 - self.superblock.checkpoint.area
    }

    fn checkpoint_items(&mut self) {
        if self.checkpoint_written_all() {
            return self.checkpoint_close();
        }
        let mut buffer = self.take_surely(STEP_BYTES);
        let first = self.checkpoint.pages;
        let mut writer = PageWriter::new(&mut buffer, self.id, self.checkpoint_id(), first);
        while writer.space() >= GROUP_BYTES
            && let Some(group) = self.fences.groups().get(self.checkpoint.groups)
        {
            writer.group(&Fence {
                volume: VolumeId(0),
                generation: Generation(0),
                owner: NodeId(0),
                group: group.id,
                epoch: group.epoch,
                blocks_per_chunk: group.blocks_per_chunk,
                in_sync: group.in_sync.clone(),
            });
            self.checkpoint.groups += 1;
        }
        while writer.space() >= VOLUME_BYTES
            && let Some(volume) = self.fences.volumes().get(self.checkpoint.volumes)
        {
            writer.volume(volume.id, volume.generation.0, volume.owner);
            self.checkpoint.volumes += 1;
        }
        while (self.checkpoint.chunks as usize) < self.index.len() {
            let key = ChunkKey(self.checkpoint.chunks);
            if writer.space() < self.index.dump_bytes(key) + CHUNK_BYTES {
                break;
            }
            let chunk = self.index.chunk(key);
            // What is accepted and not durable is not in it: replay brings that.
            writer.chunk(chunk.id, chunk.durable, self.log.applied);
            self.index.dump(key, &mut writer);
            self.checkpoint.chunks += 1;
        }
        let filled = writer.finish();
        assert!(filled.pages > 0, "a step writes something");
        buffer.truncate(filled.pages * PAGE_BYTES);
        self.checkpoint.pages += filled.pages as u64;
        self.checkpoint.last_sum = filled.last_sum;
        let geometry = &self.superblock.geometry;
        if self.checkpoint.pages > geometry.checkpoint_pages {
            // The index always fits, but what is written at different times may together be more: chunks that were
            // written down have shrunk since, and others grown. Begin again; the old checkpoint still holds.
            self.checkpoint = Writer::default();
            return;
        }
        let offset = geometry.checkpoint_offsets[self.checkpoint_area() as usize] + first * PAGE_BYTES as u64;
        self.checkpoint.writing = true;
        self.counters.checkpoint_bytes += buffer.len() as u64;
        self.start_write(Io::Checkpoint, offset, vec![buffer.freeze()]);
    }

    fn checkpoint_written_all(&self) -> bool {
        let writer = &self.checkpoint;
        writer.groups >= self.fences.groups().len()
            && writer.volumes >= self.fences.volumes().len()
            && writer.chunks as usize >= self.index.len()
    }

    pub(super) fn checkpoint_written(&mut self) {
        if matches!(self.state, State::Serving) {
            self.checkpoint.writing = false;
        }
    }

    fn checkpoint_close(&mut self) {
        if self.file.volatile_cache {
            self.checkpoint.phase = Phase::Flush;
            self.start_flush(Io::CheckpointFlush);
        } else {
            self.checkpoint_flushed();
        }
    }

    pub(super) fn checkpoint_flushed(&mut self) {
        if !matches!(self.state, State::Serving) {
            return;
        }
        self.checkpoint.phase = Phase::Superblock;
        let new = Superblock {
            generation: self.superblock.generation + 1,
            checkpoint: Checkpoint {
                area: self.checkpoint_area(),
                id: self.checkpoint_id(),
                pages: self.checkpoint.pages,
                last_sum: self.checkpoint.last_sum,
                tail: self.checkpoint.tail,
                tail_sum: self.checkpoint.tail_sum,
            },
            ..self.superblock
        };
        self.update_superblocks(new);
    }

    /// Writes both superblocks, one after the other, each flushed before the next: one of them is whole at any moment.
    pub(super) fn update_superblocks(&mut self, new: Superblock) {
        assert!(self.checkpoint.update.is_none(), "one change at a time");
        self.checkpoint.update = Some(Update { new, copy: 0 });
        self.write_superblock();
    }

    fn write_superblock(&mut self) {
        if let Some(update) = self.checkpoint.update {
            let page = Slice::copy_from(&update.new.encode());
            self.start_write(Io::Superblock, OFFSETS[update.copy], vec![page]);
        }
    }

    pub(super) fn superblock_written(&mut self) {
        if self.file.volatile_cache {
            self.start_flush(Io::SuperblockFlush);
        } else {
            self.superblock_flushed();
        }
    }

    pub(super) fn superblock_flushed(&mut self) {
        if !matches!(self.state, State::Serving | State::Mounting) {
            return;
        }
        let Some(update) = &mut self.checkpoint.update else {
            return;
        };
        if update.copy == 0 {
            update.copy = 1;
            return self.write_superblock();
        }
        self.superblock = update.new;
        self.checkpoint.update = None;
        if self.mount.is_some() {
            return self.mount_finished();
        }
        // Records before the tail are never replayed again: what they freed can be reused (rule D1).
        self.log.tail = self.superblock.checkpoint.tail;
        self.log.durable_mark = self.log.durable_mark.max(self.log.tail);
        self.checkpoint.phase = Phase::Idle;
        self.counters.checkpoints += 1;
        self.reclaim();
    }
}
