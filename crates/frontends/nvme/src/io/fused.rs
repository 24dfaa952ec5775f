//! Compare and Write, fused: two commands that follow each other in one queue and are done as one (NVM Command Set 1.1,
//! 2.1.4 and 3.3.1; NVM Express Base 2.1, 3.4.2).

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
        let compare = self.engine.request(first);
        // "If the LBA ranges do not match, the commands should be aborted with [...] Invalid Field."
        if compare.own.target != target || compare.own.length != length {
            return Err(status::INVALID_FIELD.into());
        }
        let what = Gathering::Write { first };
        let work = Work::Gather { what, asked: false };
        let second = self.bring(command, work, target, length, data, cx)?;
        if let Some(write) = self.engine.busy(second)
            && matches!(write.own.work, Work::Gather { .. })
        {
            write.own.partner = Some(first);
            self.engine.request(first).own.partner = Some(second);
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
    pub(crate) fn break_fused(&mut self, cx: &mut Cx<'_>) -> Result<(), End> {
        let Some(first) = self.fused.take() else { return Ok(()) };
        self.engine.request(first).fail(status::MISSING_FUSED, None);
        self.finish_if_complete(first, cx)
    }

    /// The other one of a pair has failed.
    pub(crate) fn fail_partner(&mut self, slot: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
        let Some(request) = self.engine.busy(slot) else {
            return Ok(());
        };
        request.own.partner = None;
        request.fail(status::FAILED_FUSED, None);
        self.finish_if_complete(slot, cx)
    }

    /// The data of the first is here.
    pub(crate) fn compare_gathered(&mut self, first: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
        let second = self.engine.request(first).own.partner;
        let second = second.filter(|second| self.engine.request(*second).own.gathered);
        match second {
            Some(second) => self.run_pair(first, second, cx),
            None => Ok(()),
        }
    }

    /// The data of the second is here.
    pub(crate) fn write_gathered(&mut self, second: SlotId, first: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
        match self.engine.request(first).own.gathered {
            true => self.run_pair(first, second, cx),
            false => Ok(()),
        }
    }

    /// Does both as one.
    fn run_pair(&mut self, first: SlotId, second: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
        let compare = self.engine.request(first);
        compare.own.partner = None;
        compare.own.work = Work::Wait;
        let expected = std::mem::take(&mut compare.own.buffer);
        let write = self.engine.request(second);
        write.own.partner = None;
        write.own.work = Work::Pair { first };
        write.issued = true;
        let new = std::mem::take(&mut write.own.buffer);
        let (offset, length) = (write.own.target.offset, write.own.length);
        let Some(mut both) = cx.pool.take(expected.len() + new.len()) else {
            // Memory is short; the host may try again.
            write.fail(status::INTERNAL, None);
            return self.finish_if_complete(second, cx);
        };
        both[..expected.len()].copy_from_slice(&expected);
        both[expected.len()..].copy_from_slice(&new);
        let submission = Submission {
            data: both.freeze(),
            ..Submission::of(Op::CompareAndWrite { offset, length })
        };
        self.submit(second, submission, cx);
        Ok(())
    }

    /// Answers both of a pair, the first one first.
    pub(crate) fn finish_pair(&mut self, second: SlotId, first: SlotId, cx: &mut Cx<'_>) {
        // When one of the two fails, the other is aborted because of that.
        let (compared, written) = match self.engine.request(second).failure {
            None => (Status::SUCCESS, Status::SUCCESS),
            Some(status::COMPARE_FAILURE) => {
                // It is the first that did not find what it looked for.
                let at = self.engine.request(second).failed_at.take();
                self.engine.request(first).failed_at = at;
                (status::COMPARE_FAILURE, status::FAILED_FUSED)
            }
            Some(failure) => (status::FAILED_FUSED, failure),
        };
        self.complete(first, compared, 0, cx);
        self.complete(second, written, 0, cx);
    }
}
