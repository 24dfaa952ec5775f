//! GET LBA STATUS (SBC-3): which blocks are mapped. The volume is asked chunk by chunk, as far as the answer has room.

#[cfg(test)]
mod tests;

use crate::block::out_of_range;
use crate::device::Scope;
use crate::plan::{Answer, Place, Plan};
use crate::sense::Sense;
use amita_types::BLOCK_BYTES;

/// The most chunks that one command looks at: "the device server may return fewer descriptors".
pub const MAX_CHUNKS: u32 = 256;
/// The most descriptors of one answer.
const MAX_DESCRIPTORS: usize = 1024;

const HEADER_BYTES: u64 = 8;
const DESCRIPTOR_BYTES: u64 = 16;

/// What is under way of such a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LbaStatus {
    pub place: Place,
    /// The first byte that is asked for.
    begin: u64,
    /// The first that is not known yet.
    next: u64,
    /// The size of the volume.
    end: u64,
    /// Where the allocation length ends.
    allocation: u64,
    chunks: u32,
    /// Bytes that are alike: where they end, and whether they are mapped.
    runs: Vec<(u64, bool)>,
}

/// Begins.
pub(crate) fn begin(scope: &Scope<'_>) -> Result<Plan, Sense> {
    let (unit, lba) = (scope.unit, scope.cdb.u64(2));
    if lba >= unit.blocks() {
        return Err(out_of_range(unit, lba));
    }
    let begin = lba * u64::from(unit.block_bytes);
    Ok(Plan::Blocks(LbaStatus {
        place: Place::of(unit),
        begin,
        next: begin,
        end: unit.size_bytes,
        allocation: u64::from(scope.cdb.u32(10)),
        chunks: 0,
        runs: Vec::new(),
    }))
}

impl LbaStatus {
    /// Any byte of the chunk whose allocation is to be asked for next ([`amita_types::io::Op::Allocation`]); `None`: the answer is there.
    #[must_use]
    pub fn next(&self) -> Option<u64> {
        let room = self.allocation.saturating_sub(HEADER_BYTES) / DESCRIPTOR_BYTES;
        let room = usize::try_from(room).unwrap_or(usize::MAX).min(MAX_DESCRIPTORS);
        // The last run may go on, so that one more than there is room for has to begin.
        let is_wanted = self.next < self.end && self.chunks < MAX_CHUNKS && self.runs.len() <= room && room > 0;
        is_wanted.then_some(self.next)
    }

    /// The allocation of that chunk: a bit a block of 4 KiB ([`amita_types::io::Payload::Allocation`]); `None`: none of it is mapped.
    ///
    /// # Panics
    /// When none was asked for.
    pub fn found(&mut self, blocks: Option<&[u64; 16]>) {
        assert!(self.next < self.end, "an allocation that nobody has asked for");
        let chunk_bytes = u64::from(self.place.chunk_bytes);
        let chunk = self.next / chunk_bytes * chunk_bytes;
        let chunk_end = chunk.saturating_add(chunk_bytes).min(self.end);
        self.chunks += 1;
        while self.next < chunk_end {
            let index = ((self.next - chunk) / u64::from(BLOCK_BYTES)) as usize;
            let is_mapped = blocks.is_some_and(|bits| bits[index / 64 % 16] >> (index % 64) & 1 == 1);
            let block_end = chunk + (index as u64 + 1) * u64::from(BLOCK_BYTES);
            self.next = match blocks {
                Some(_) => block_end.min(chunk_end),
                None => chunk_end,
            };
            match self.runs.last_mut() {
                Some((run_end, run_mapped)) if *run_mapped == is_mapped => *run_end = self.next,
                _ => self.runs.push((self.next, is_mapped)),
            }
        }
    }

    /// The answer, of what was found.
    #[must_use]
    pub fn answer(&self) -> Answer {
        const MAPPED: u8 = 0;
        const DEALLOCATED: u8 = 1;
        let block = u64::from(self.place.block_bytes);
        let mut data = vec![0; HEADER_BYTES as usize];
        let mut from = self.begin;
        for &(end, is_mapped) in self.runs.iter().take(MAX_DESCRIPTORS) {
            let status = if is_mapped { MAPPED } else { DEALLOCATED };
            let count = u32::try_from((end - from) / block).unwrap_or(u32::MAX);
            data.extend((from / block).to_be_bytes());
            data.extend(count.to_be_bytes());
            data.extend([status, 0, 0, 0]);
            from = end;
        }
        // PARAMETER DATA LENGTH counts what follows it.
        let length = (data.len() - 4) as u32;
        data[..4].copy_from_slice(&length.to_be_bytes());
        Answer::with_data(data, self.allocation)
    }
}
