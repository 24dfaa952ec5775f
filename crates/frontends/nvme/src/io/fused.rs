//! Compare and Write, fused: two commands that follow each other in one queue and are done as one (NVM Command Set 1.1,
//! 2.1.4 and 3.3.1; NVM Express Base 2.1, 3.4.2).

use super::issue::Step;
use super::*;
use amita_frontend::slots::SlotId;
use amita_types::io::Op;

const FIRST: u8 = 1;
const SECOND: u8 = 2;

impl Queue {
    /// Takes one of a pair.
    pub(super) fn fused_command(&mut self, command: &Command, data: Slice, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        match (command.opcode(), command.fuse()) {
            (opcode::COMPARE, FIRST) => {
                self.break_fused(cx)?;
                let (target, length) = self.fused_range(command)?;
                let what = Gathering::Compare;
                let work = Work::Gather { what, asked: false };
                let slot = self.bring(command, work, target, length, data, cx)?;
                self.fused = Some(slot);
                Ok(())
            }
            (opcode::WRITE, SECOND) => {
                // "[...] Command Aborted due to Missing Fused Command."
                let first = self.fused.take().ok_or(status::MISSING_FUSED)?;
                self.second(command, first, data, cx).or_else(|refusal| {
                    if let Refusal::Status(_) = refusal {
                        self.fail_partner(first, cx)?;
                    }
                    Err(refusal)
                })
            }
            _ => {
                self.break_fused(cx)?;
                Err(status::INVALID_FIELD.into())
            }
        }
    }

    fn second(&mut self, command: &Command, first: SlotId, data: Slice, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        let (target, length) = self.fused_range(command)?;
        let compare = self.slots.get_mut(first);
        // "If the LBA ranges do not match, the commands should be aborted with [...] Invalid Field."
        if compare.target != target || compare.length != length {
            return Err(status::INVALID_FIELD.into());
        }
        let what = Gathering::Write { first };
        let work = Work::Gather { what, asked: false };
        let second = self.bring(command, work, target, length, data, cx)?;
        if let Some(write) = self.slots.busy_mut(second)
            && matches!(write.work, Work::Gather { .. })
        {
            write.partner = Some(first);
            self.slots.get_mut(first).partner = Some(second);
        }
        Ok(())
    }

    fn fused_range(&self, command: &Command) -> Result<(Target, u32), Status> {
        let namespace = self.namespace(command)?;
        let (target, length) = range(command, &namespace, true)?;
        if length > port::MAX_PAIR_BYTES || !is_one_piece(&target, length) {
            return Err(status::ATOMIC_UNIT);
        }
        Ok((target, length))
    }

    /// Another command has come where the second of a pair should have.
    pub(crate) fn break_fused(&mut self, cx: &mut Cx<'_>) -> Step {
        let Some(first) = self.fused.take() else { return Ok(()) };
        self.slots.get_mut(first).fail(status::MISSING_FUSED);
        self.finish_if_complete(first, cx)
    }

    /// The other one of a pair has failed.
    pub(crate) fn fail_partner(&mut self, slot: SlotId, cx: &mut Cx<'_>) -> Step {
        let Some(request) = self.slots.busy_mut(slot) else {
            return Ok(());
        };
        request.partner = None;
        request.fail(status::FAILED_FUSED);
        self.finish_if_complete(slot, cx)
    }

    /// The data of the first is here.
    pub(crate) fn compare_gathered(&mut self, first: SlotId, cx: &mut Cx<'_>) -> Step {
        let second = self.slots.get_mut(first).partner;
        let second = second.filter(|second| self.slots.get_mut(*second).gathered);
        match second {
            Some(second) => self.run_pair(first, second, cx),
            None => Ok(()),
        }
    }

    /// The data of the second is here.
    pub(crate) fn write_gathered(&mut self, second: SlotId, first: SlotId, cx: &mut Cx<'_>) -> Step {
        match self.slots.get_mut(first).gathered {
            true => self.run_pair(first, second, cx),
            false => Ok(()),
        }
    }

    /// Does both as one.
    fn run_pair(&mut self, first: SlotId, second: SlotId, cx: &mut Cx<'_>) -> Step {
        let compare = self.slots.get_mut(first);
        compare.partner = None;
        compare.work = Work::Wait;
        let expected = std::mem::take(&mut compare.buffer);
        let write = self.slots.get_mut(second);
        write.partner = None;
        write.work = Work::Pair { first };
        write.issued = true;
        let new = std::mem::take(&mut write.buffer);
        let (offset, length) = (write.target.offset, write.length);
        let Some(mut both) = cx.pool.take(expected.len() + new.len()) else {
            // Memory is short; the host may try again.
            write.fail(status::INTERNAL);
            return self.finish_if_complete(second, cx);
        };
        both[..expected.len()].copy_from_slice(&expected);
        both[expected.len()..].copy_from_slice(&new);
        self.submit(second, 0, Op::CompareAndWrite { offset, length }, both.freeze(), cx);
        Ok(())
    }

    /// Answers both of a pair, the first one first.
    pub(crate) fn finish_pair(&mut self, second: SlotId, first: SlotId, cx: &mut Cx<'_>) {
        // When one of the two fails, the other is aborted because of that.
        let (compared, written) = match self.slots.get_mut(second).failure {
            None => (Status::SUCCESS, Status::SUCCESS),
            Some(status::COMPARE_FAILURE) => {
                // It is the first that did not find what it looked for.
                let at = self.slots.get_mut(second).failed_at.take();
                self.slots.get_mut(first).failed_at = at;
                (status::COMPARE_FAILURE, status::FAILED_FUSED)
            }
            Some(failure) => (status::FAILED_FUSED, failure),
        };
        self.finish(first, compared, 0, cx);
        self.finish(second, written, 0, cx);
    }
}
