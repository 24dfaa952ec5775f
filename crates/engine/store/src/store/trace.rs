//! How long answers take, and with what: the store's part of a traced I/O, and histograms of all.
//!
//! The moments are those of passes, so that nothing reads a clock for it; the core that runs the store refines them in
//! passes that hold a traced request (`Driver::refresh`).

use super::Requester;
use super::env::Env;
use amita_reactor::Time;
use amita_reactor::histogram::Histogram;
use amita_types::message::{AnswerBody, Refusal};
use amita_types::trace::StoreTrace;

/// How long the store takes, since it was opened.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// From a read's receipt to its answer.
    pub reads: Histogram,
    /// From the receipt of a write or clear to its answer.
    pub writes: Histogram,
    /// Traced writes: from the receipt until the device's operations are started.
    pub issue: Histogram,
    /// From there until the data is on the device, or read from it.
    pub data: Histogram,
    /// From the start of the operations until the page of the log is on the device.
    pub log: Histogram,
    /// From the last of both until the device's cache is flushed, where it has one.
    pub flush: Histogram,
    /// From there until the answer: everything that was logged earlier must be durable.
    pub answer: Histogram,
}

/// When what is being answered passed which step; the beginning of time for those that it does not have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Course {
    pub issued: Time,
    pub data: Time,
    pub log: Time,
    pub durable: Time,
}

impl Env {
    /// Counts an answer that is given now; what a traced one brings along.
    pub fn time_answer(&mut self, asker: &Requester, result: &Result<AnswerBody, Refusal>) -> Option<Box<StoreTrace>> {
        let took = self.now.since(asker.received);
        match result {
            Ok(AnswerBody::Done) => self.times.writes.record(took),
            Ok(AnswerBody::Data(_)) => self.times.reads.record(took),
            _ => {}
        }
        if !asker.trace.is_some() {
            return None;
        }
        let since = |at: Time| StoreTrace::since(asker.received.0, at.0);
        let trace = Box::new(StoreTrace {
            id: asker.trace,
            issued_ns: since(self.course.issued),
            data_ns: since(self.course.data),
            log_ns: since(self.course.log),
            durable_ns: since(self.course.durable),
            answered_ns: since(self.now),
        });
        if result.is_ok() {
            self.count_stages(asker.received);
        }
        Some(trace)
    }

    fn count_stages(&mut self, received: Time) {
        let Course {
            issued,
            data,
            log,
            durable,
        } = self.course;
        if issued < received {
            return;
        }
        self.times.issue.record(issued.since(received));
        if data >= issued {
            self.times.data.record(data.since(issued));
        }
        if log >= issued {
            self.times.log.record(log.since(issued));
            self.times.flush.record(durable.since(log.max(data)));
            self.times.answer.record(self.now.since(durable));
        }
    }
}
