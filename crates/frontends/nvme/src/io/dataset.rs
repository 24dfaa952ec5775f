//! Dataset Management: what is deallocated reads as zeros (NVM Command Set 1.1, 3.3.3).

use super::*;
use crate::wire::{u32_at, u64_at};
use amita_frontend::pieces::Pieces;
use amita_frontend::slots::SlotId;

/// Bytes of a range.
const RANGE_BYTES: u32 = 16;
/// The attribute "deallocate" (dword 11).
const DEALLOCATE: u32 = 1 << 2;

impl Queue {
    pub(super) fn dataset_command(
        &mut self,
        command: &Command,
        namespace: &Namespace,
        data: Slice,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refusal> {
        let count = (command.dword(10) & 0xff) + 1;
        let what = Gathering::Dataset;
        let work = Work::Gather { what, asked: false };
        self.bring(command, work, target(namespace, 0), count * RANGE_BYTES, data, cx)?;
        Ok(())
    }

    /// The ranges are here.
    pub(crate) fn dataset(&mut self, slot: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
        let request = self.engine.request(slot);
        let (command, data) = (request.own.command, std::mem::take(&mut request.own.buffer));
        request.own.work = Work::Dataset { next: 0 };
        // What the ranges hold is cut one by one.
        request.plan = Plan::Clear(Pieces::default());
        let mut ranges = std::mem::take(&mut request.own.ranges);
        let checked = self.namespace(&command).and_then(|namespace| {
            for range in data.chunks_exact(RANGE_BYTES as usize) {
                // All ranges are looked at before anything is done.
                ranges.push(bytes(&namespace, u64_at(range, 8), u32_at(range, 4).into())?);
            }
            Ok(())
        });
        if command.dword(11) & DEALLOCATE == 0 {
            // "Integral dataset for read" and "for write" are hints.
            ranges.clear();
        }
        let request = self.engine.request(slot);
        request.own.ranges = ranges;
        if let Err(status) = checked {
            request.fail(status, None);
        }
        self.start(slot, cx)
    }
}
