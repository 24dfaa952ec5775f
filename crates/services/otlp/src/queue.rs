//! What waits to be sent, and who has been told of what.

use crate::spans::Kept;
use amita_node::observe::KeptTraces;
use std::collections::VecDeque;

/// Traces that wait: no more than so many; the oldest go for the newest.
#[derive(Debug)]
pub struct Queue {
    most: usize,
    waiting: VecDeque<Kept>,
}

impl Queue {
    /// None wait yet.
    #[must_use]
    pub fn new(most: usize) -> Queue {
        Queue {
            most,
            waiting: VecDeque::new(),
        }
    }

    /// Puts these at the end; how many had to go for them.
    pub fn push(&mut self, traces: impl IntoIterator<Item = Kept>) -> u64 {
        let mut dropped = 0;
        for trace in traces {
            self.waiting.push_back(trace);
            if self.waiting.len() > self.most {
                self.waiting.pop_front();
                dropped += 1;
            }
        }
        dropped
    }

    /// The next ones, oldest first: no more than so many.
    pub fn take(&mut self, most: usize) -> Vec<Kept> {
        let count = most.min(self.waiting.len());
        self.waiting.drain(..count).collect()
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Does none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// How far each core has told what it has kept.
#[derive(Debug, Default)]
pub struct Cursor {
    after: Vec<u64>,
}

impl Cursor {
    /// The number of the last trace that each core has told of.
    #[must_use]
    pub fn after(&self) -> &[u64] {
        &self.after
    }

    /// Takes what a core has told: each trace once, in the order of its numbers; and how many were pushed out before they could be told.
    pub fn take(&mut self, answer: &mut KeptTraces) -> (Vec<amita_node::trace::Trace>, u64) {
        if self.after.len() <= answer.core {
            self.after.resize(answer.core + 1, 0);
        }
        let after = &mut self.after[answer.core];
        let mut traces = std::mem::take(&mut answer.traces);
        traces.retain(|trace| trace.number > *after && trace.number <= answer.last);
        traces.sort_unstable_by_key(|trace| trace.number);
        traces.dedup_by_key(|trace| trace.number);
        let told = answer.last.saturating_sub(*after);
        *after = (*after).max(answer.last);
        let lost = told - traces.len() as u64;
        (traces, lost)
    }
}

#[cfg(test)]
mod tests;
