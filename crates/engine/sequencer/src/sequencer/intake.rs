//! What hosts have asked for and was not ended, in sum; and what of it stands by.

use crate::table::{ChunkSlot, TaskSlot};
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(super) struct Intake {
    /// I/Os that were submitted and have not ended.
    pub ios: usize,
    /// Payload bytes of writes without an acknowledgement.
    pub bytes: u64,
    /// Chunks whose queues could not be emptied.
    pub blocked: VecDeque<ChunkSlot>,
    /// Something has changed: they are looked at again.
    pub is_due: bool,
    /// Reads that have their answer and lack leases.
    pub unleased: Vec<TaskSlot>,
}
