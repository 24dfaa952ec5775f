//! Moments at which all blocks are looked at together: behind an event, and before the next one.

use crate::stamp::{SECTORS_PER_BLOCK, Stamp};
use amita_testkit::linear::{Action, Step, Width};
use std::collections::BTreeSet;
use std::fmt;

/// Moments, as ranges of the events behind which they lie, both ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Moments(Vec<(u64, u64)>);

impl Moments {
    pub fn all(between: (u64, u64)) -> Moments {
        Moments(vec![between])
    }

    pub fn none() -> Moments {
        Moments(Vec::new())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One more range, behind those that there are.
    pub fn add(&mut self, range: (u64, u64)) {
        self.0.push(range);
    }

    /// Those of both.
    pub fn both(&self, other: &Moments) -> Moments {
        let mut both = Vec::new();
        for &(first, last) in &self.0 {
            for &(from, to) in &other.0 {
                let (first, last) = (first.max(from), last.min(to));
                if first <= last {
                    both.push((first, last));
                }
            }
        }
        Moments(both)
    }
}

impl fmt::Display for Moments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no moment");
        }
        let ranges: Vec<String> = self.0.iter().map(|(a, b)| format!("#{a} to #{b}")).collect();
        f.write_str(&ranges.join(", "))
    }
}

/// What was asked for until this event, with the answers that were given until then.
pub(super) fn until(steps: Option<&Vec<Step>>, event: u64) -> Vec<Step> {
    let asked = steps.into_iter().flatten().filter(|step| step.invoked <= event);
    let known = asked.filter_map(|step| {
        let completed = step.completed.filter(|completed| *completed <= event);
        let changes = match step.action {
            Action::Write { .. } | Action::Again { .. } => true,
            Action::Read { .. } => false,
            Action::Compare { found_other, .. } => !found_other,
        };
        (completed.is_some() || changes).then_some(Step { completed, ..*step })
    });
    known.collect()
}

/// Ranges of moments between two events that are alike to a block with these steps.
pub(super) fn moments_of(steps: Option<&Vec<Step>>, (first, last): (u64, u64)) -> Vec<(u64, u64)> {
    let steps = steps.into_iter().flatten();
    let events = steps.flat_map(|step| [Some(step.invoked), step.completed, step.void_after]);
    let begins: BTreeSet<u64> = events
        .flatten()
        .filter(|event| (first + 1..=last).contains(event))
        .collect();
    let mut ranges = Vec::new();
    let mut from = first;
    for begin in begins {
        ranges.push((from, begin - 1));
        from = begin;
    }
    ranges.push((from, last));
    ranges
}

/// A look behind this event, and behind all that [`until`] has left of the others.
pub(super) fn read_at(held: &[Stamp], event: u64) -> Step {
    let mut values = [Stamp::ZERO; SECTORS_PER_BLOCK];
    values.copy_from_slice(held);
    Step {
        invoked: event + 1,
        completed: Some(event + 2),
        void_after: None,
        action: Action::Read {
            sectors: Width::MAX,
            values,
        },
    }
}
