//! What a store says about itself.

use crate::error::MountError;
use amita_types::{ClusterId, StoreId};
use std::time::Duration;

/// Is the store served?
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is being read; requests get `Busy`.
    Mounting,
    Serving,
    /// It cannot be served; requests get `NoSuchStore`.
    Refused(MountError),
    /// It met an I/O error of unknown outcome and serves nothing until it is mounted anew. The text says which.
    Poisoned(String),
}

/// What a mount found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountReport {
    /// Reads that had to be made again because they had failed.
    pub read_again: u64,
    /// Records of the log that were replayed.
    pub records_replayed: u64,
    /// Records that lay beyond the verified mark, so that their data was read back.
    pub records_verified: u64,
    /// Bytes read in all.
    pub bytes_read: u64,
    /// The log ended in a batch that was not whole: what a crash leaves. Never anything that was acknowledged.
    pub ended_short: bool,
    /// Batches that were dropped there.
    pub batches_dropped: u64,
    /// Leaves that replay needed and that cannot be read: what they held is lost, and refused as damaged.
    pub leaves_lost: u64,
    /// One of the two superblocks was damaged; the other one served.
    pub superblock_damaged: bool,
    /// How long it took.
    pub duration: Duration,
}

/// Counts since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reads answered with data.
    pub reads: u64,
    /// Writes answered as done.
    pub writes: u64,
    /// Clears answered as done.
    pub clears: u64,
    /// Roll-forwards applied.
    pub rolls: u64,
    /// Snapshots of chunks, and chunks, dropped.
    pub drops: u64,
    /// Chunks cloned.
    pub clones: u64,
    /// Chunks that have become incomplete.
    pub joins: u64,
    /// Entries replaced to bring the store up to date or to repair it.
    pub mended: u64,
    /// Blocks that had rotted and were replaced where they lay (S12).
    pub restored: u64,
    /// Such blocks that the device did not take.
    pub unrestored: u64,
    /// Entries put into states that it lacked (S6).
    pub state_entries: u64,
    /// Chunks dropped because nothing needs them any more.
    pub swept: u64,
    /// States of chunks dropped because no snapshot needs them any more (S9).
    pub trimmed: u64,
    /// Fences answered.
    pub fences: u64,
    /// Requests refused.
    pub refused: u64,
    /// Resends of a write that was known already (R8).
    pub resends: u64,
    /// Sub-block writes that had to read first.
    pub merges: u64,
    /// Batches written.
    pub batches: u64,
    /// Pages of the log written.
    pub log_pages: u64,
    /// Bytes of data written (payload, in whole blocks).
    pub data_bytes: u64,
    /// Bytes written to the device in all, checkpoints and superblocks included.
    pub device_bytes_written: u64,
    /// Bytes of checkpoints written.
    pub checkpoint_bytes: u64,
    /// Bytes read from the device.
    pub device_bytes_read: u64,
    /// Leaves read back because they were not in memory.
    pub leaf_reads: u64,
    /// Leaves written by checkpoints.
    pub leaf_writes: u64,
    /// Pages of states written by checkpoints.
    pub state_pages: u64,
    /// Checkpoints completed.
    pub checkpoints: u64,
    /// Flushes issued.
    pub flushes: u64,
    /// Bytes that the device was told are needed no more.
    pub discarded_bytes: u64,
    /// Blocks found damaged when they were read.
    pub damaged: u64,
    /// Payload blocks that were copied because the device wants another alignment.
    pub copied_blocks: u64,
    /// Passes in which accepted writes had to wait for space in the log.
    pub log_waits: u64,
    /// Pages written only to move the verified mark.
    pub mark_pages: u64,
}

impl Counters {
    /// Each event with its name, in their order.
    #[must_use]
    pub fn events(&self) -> [(&'static str, u64); 28] {
        // All of them are named, so that a new one is not forgotten: here, or by `bytes`.
        let Counters {
            reads,
            writes,
            clears,
            rolls,
            drops,
            clones,
            joins,
            mended,
            restored,
            unrestored,
            state_entries,
            swept,
            trimmed,
            fences,
            refused,
            resends,
            merges,
            batches,
            log_pages,
            data_bytes: _,
            device_bytes_written: _,
            checkpoint_bytes: _,
            device_bytes_read: _,
            leaf_reads,
            leaf_writes,
            state_pages,
            checkpoints,
            flushes,
            discarded_bytes: _,
            damaged,
            copied_blocks,
            log_waits,
            mark_pages,
        } = *self;
        [
            ("reads", reads),
            ("writes", writes),
            ("clears", clears),
            ("rolls", rolls),
            ("drops", drops),
            ("clones", clones),
            ("joins", joins),
            ("mended", mended),
            ("restored", restored),
            ("unrestored", unrestored),
            ("state_entries", state_entries),
            ("swept", swept),
            ("trimmed", trimmed),
            ("fences", fences),
            ("refused", refused),
            ("resends", resends),
            ("merges", merges),
            ("batches", batches),
            ("log_pages", log_pages),
            ("leaf_reads", leaf_reads),
            ("leaf_writes", leaf_writes),
            ("state_pages", state_pages),
            ("checkpoints", checkpoints),
            ("flushes", flushes),
            ("damaged", damaged),
            ("copied_blocks", copied_blocks),
            ("log_waits", log_waits),
            ("mark_pages", mark_pages),
        ]
    }

    /// Each count of bytes with its name.
    #[must_use]
    pub fn bytes(&self) -> [(&'static str, u64); 5] {
        [
            ("data", self.data_bytes),
            ("checkpoint", self.checkpoint_bytes),
            ("discarded", self.discarded_bytes),
            ("written", self.device_bytes_written),
            ("read", self.device_bytes_read),
        ]
    }
}

/// A snapshot of a store's figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The store; nil until its superblock has been read.
    pub id: StoreId,
    /// Its cluster; nil when it has not joined one.
    pub cluster: ClusterId,
    /// Bytes of the file.
    pub size_bytes: u64,
    /// Bytes for data.
    pub capacity_bytes: u64,
    /// Bytes of data slots that are free, those included that wait for the log (rule D1).
    pub free_bytes: u64,
    /// Pages of the log.
    pub log_pages: u64,
    /// Pages that replay would read now.
    pub log_pages_used: u64,
    /// Chunks known.
    pub chunks: u64,
    /// Slots that hold data; one that snapshots and clones share counts once.
    pub blocks: u64,
    /// Memory of the index and of the map of slots in bytes.
    pub index_bytes: u64,
    /// The most that it may be: beyond that, what the index needs for a write is not there, and the write is refused.
    pub index_limit_bytes: u64,
    /// Of that, the part that is given back when it grows beyond the budget: leaves of the index.
    pub leaf_bytes: u64,
    /// Slots that hold leaves, and pages of states.
    pub leaf_pages: u64,
    /// Blocks granted to askers and not used yet (R7).
    pub credits_granted: u64,
    /// What the mount found.
    pub mount: MountReport,
    /// Counts.
    pub counters: Counters,
}
