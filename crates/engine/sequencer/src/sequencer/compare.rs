//! Compare-and-write: what a chunk holds is compared, and written where it is as expected, with no write between.
//!
//! One at a time in a chunk. From the moment that it is the next one, no other write of the chunk gets a version; when
//! those that have one are acknowledged, the range is read as any read is (checked, held, promised: R3, R4). What it
//! brings is what every later write finds. If it is as expected, the new bytes are sequenced as the next write of the
//! chunk, and only then do others go on. A new owner cannot come between: a promise stood when the answer was given out,
//! and the write that follows is fenced with everything else of this generation.

use super::Sequencer;
use crate::io::Course;
use crate::table::{ChunkSlot, GroupSlot, TaskSlot};
use crate::task::{Kind, Read, Write};
use amita_reactor::Time;
use amita_types::TraceId;
use amita_types::io::{IoError, Payload};

impl Sequencer {
    /// Goes on with the chunk's compare-and-write, or begins the next one.
    pub(super) fn kick_compare(&mut self, now: Time, chunk: ChunkSlot) {
        let state = &mut self.chunks[chunk];
        if state.comparing.is_none() {
            let Some(slot) = state.queued_compares.head() else {
                return;
            };
            self.tasks.unlink(&mut state.queued_compares, slot);
            state.comparing = Some(slot);
            self.tasks.push(&mut state.compared, slot);
        }
        let state = &mut self.chunks[chunk];
        let Some(slot) = state.compared.head() else { return };
        if let Kind::Write(_) = self.tasks[slot].kind {
            self.try_write(now, slot);
        } else if state.write_count == 0 {
            self.tasks.unlink(&mut state.compared, slot);
            if !self.try_read(now, slot) {
                self.tasks.push(&mut self.chunks[chunk].queued_reads, slot);
            }
        }
    }

    /// The chunk's compare-and-write has ended, or its write has a version: others go on.
    pub(super) fn end_compare(&mut self, chunk: ChunkSlot, slot: TaskSlot) {
        let state = &mut self.chunks[chunk];
        if state.comparing == Some(slot) {
            state.comparing = None;
            self.block(chunk);
            self.intake.is_due = true;
        }
    }

    /// What the range holds is here, and may be given out. It has left the slot.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn compare_found(
        &mut self,
        slot: TaskSlot,
        chunk: ChunkSlot,
        group: GroupSlot,
        (trace, asked_at): (TraceId, Time),
        read: Read,
        found: &Payload,
        course: Course,
    ) {
        let half = read.compare.len() / 2;
        let (expected, new) = (read.compare.slice(..half), read.compare.slice(half..));
        let is_equal = match found {
            Payload::Data(data) => data[..] == expected[..],
            Payload::Zeros(_) => expected.iter().all(|byte| *byte == 0),
            Payload::None | Payload::Allocation(_) => unreachable!("the range was read"),
        };
        assert_eq!(self.chunks[chunk].comparing, Some(slot), "one at a time");
        if !is_equal {
            self.end_compare(chunk, slot);
            return self.done(read.io, Err(IoError::Miscompare), Payload::None, course);
        }
        let offset_bytes = (read.op.offset() % u64::from(self.owned.chunk_bytes)) as u32;
        let write = Write::new(read.io, false, (offset_bytes, half as u32), read.range, new);
        let slot = self.tasks.add(Kind::Write(write), group, Some(chunk));
        self.tasks[slot].trace = trace;
        self.tasks[slot].asked_at = asked_at;
        let state = &mut self.chunks[chunk];
        state.comparing = Some(slot);
        self.tasks.push(&mut state.compared, slot);
        self.block(chunk);
        self.intake.is_due = true;
    }
}
