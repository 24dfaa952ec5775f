//! What is around the decisions: the time, the device and what it was asked, memory, what is to be done, and figures.

use super::io::{Io, Ios};
use super::trace::{Course, Times};
use super::{Effect, Requester};
use crate::status::Counters;
use amita_reactor::{BufMut, FileInfo, Pool, Segments, Slice, Time};
use amita_types::StoreId;
use amita_types::message::{Answer, AnswerBody, Problem, Refusal};
use std::collections::VecDeque;

/// What every part of a store acts by.
#[derive(Debug)]
pub(super) struct Env {
    /// Whose it is.
    pub id: StoreId,
    /// When what is being handled happened.
    pub now: Time,
    pub file: FileInfo,
    pub pool: Pool,
    /// What is to be done, in order.
    pub effects: VecDeque<Effect>,
    pub ios: Ios,
    pub flush_failed: bool,
    pub counters: Counters,
    pub times: Times,
    /// Of what is being answered.
    pub course: Course,
}

impl Env {
    pub fn new(file: FileInfo, pool: Pool) -> Env {
        Env {
            id: StoreId::default(),
            now: Time::default(),
            file,
            pool,
            effects: VecDeque::new(),
            ios: Ios::default(),
            flush_failed: false,
            counters: Counters::default(),
            times: Times::default(),
            course: Course::default(),
        }
    }

    pub fn start_read(&mut self, io: Io, offset: u64, buffer: BufMut) {
        self.counters.device_bytes_read += buffer.len() as u64;
        let io = self.ios.begin(self.now, io);
        self.effects.push_back(Effect::Read { io, offset, buffer });
    }

    pub fn start_write(&mut self, io: Io, offset: u64, data: Segments) {
        self.counters.device_bytes_written += data.iter().map(|slice| slice.len() as u64).sum::<u64>();
        let io = self.ios.begin(self.now, io);
        self.effects.push_back(Effect::Write { io, offset, data });
    }

    pub fn start_flush(&mut self, io: Io) {
        self.counters.flushes += 1;
        let io = self.ios.begin(self.now, io);
        self.effects.push_back(Effect::Flush { io });
    }

    pub fn start_discard(&mut self, io: Io, offset: u64, bytes: u64) {
        self.counters.discarded_bytes += bytes;
        let io = self.ios.begin(self.now, io);
        self.effects.push_back(Effect::Discard { io, offset, bytes });
    }

    /// Memory for what makes room again (a batch, a merge, a checkpoint): where the pool has none left, the heap helps
    /// out, because writes that hold memory become durable only by taking some. The limits on batches bound it.
    pub fn take_surely(&self, bytes: usize) -> BufMut {
        let buffer = self.pool.take(bytes).or_else(|| Pool::heap().take(bytes));
        buffer.expect("the heap has no bound")
    }

    pub fn refuse(&mut self, asker: Requester, refusal: Refusal) {
        self.counters.refused += 1;
        self.answer(asker, 0, 0, Err(refusal), Slice::default());
    }

    /// What was asked cannot be asked.
    pub fn invalid(&mut self, asker: Requester, what: Problem) {
        self.refuse(asker, Refusal::Invalid { what });
    }

    /// Tells the asker, with a lease for so long (rule R4) and so many credits (rule R7).
    pub fn answer(
        &mut self,
        asker: Requester,
        lease_ms: u16,
        credit_blocks: u32,
        result: Result<AnswerBody, Refusal>,
        payload: Slice,
    ) {
        let trace = self.time_answer(&asker, &result);
        let answer = Answer {
            id: asker.id,
            store: self.id,
            lease_ms,
            credit_blocks,
            waited: Default::default(),
            trace,
            result,
        };
        self.effects.push_back(Effect::Answer {
            link: asker.link,
            answer,
            payload,
        });
    }
}
