//! What the clients asked and what came of it, in the order in which it happened.
//!
//! The order is a count of events, not the clock: two events of one virtual instant still have an order. An operation
//! whose outcome is not known (its connection broke, its client gave up, it ended in an error) may take effect at any
//! time after its start, or never.

use crate::linear::{self, Action, Step, Violation, Width};
use crate::stamp::{SECTORS_PER_BLOCK, Sector, Stamp};
use amita_reactor::Time;
use std::collections::BTreeMap;
use std::fmt;

/// An operation of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub u32);

impl OperationId {
    /// The stamp of the write that this operation is. Operations count from 0, stamps from 1.
    #[must_use]
    pub fn stamp(self) -> Stamp {
        Stamp(self.0 + 1)
    }
}

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Write the operation's stamp.
    Write,
    /// Make zeros.
    Clear,
    /// Read.
    Read,
    /// Write the operation's stamp if the sectors, all of one block, hold what was expected.
    Compare,
}

/// What became of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Not answered yet, or never: it may have been done, or be done later.
    Unknown,
    /// Done. For a read: the stamp of every sector.
    Done(Vec<Stamp>),
    /// A compare-and-write that found something else than was expected, and wrote nothing.
    Miscompare,
}

/// One operation.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Who asked.
    pub client: u32,
    /// What for.
    pub kind: Kind,
    /// The first sector.
    pub first: Sector,
    /// How many sectors.
    pub sectors: u32,
    /// When it was asked: the event's number and the clock.
    pub invoked: (u64, Time),
    /// When it was answered; as above.
    pub completed: Option<(u64, Time)>,
    /// What became of it.
    pub outcome: Outcome,
    /// What a compare-and-write expects in each sector; empty for others.
    pub expected: Vec<Stamp>,
    /// The host has repeated it by another gateway: this is the repetition. When that is acknowledged the host goes on,
    /// and what it had sent before must never take effect after that (R9).
    pub repeated_by: Option<OperationId>,
}

/// The operations of one run.
#[derive(Clone, Debug, Default)]
pub struct History {
    operations: Vec<Operation>,
    events: u64,
    /// A write may be carried out twice before it is answered.
    pub may_repeat: bool,
}

/// A block whose operations no single register can have answered so.
#[derive(Clone, Debug)]
pub struct BlockViolation {
    /// The block of the volume.
    pub block: u64,
    /// What is wrong.
    pub violation: Violation,
    /// The block's operations, for a person to read.
    pub story: String,
}

impl fmt::Display for BlockViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}: {}\n{}", self.block, self.violation, self.story)
    }
}

impl History {
    /// Nothing has happened.
    #[must_use]
    pub fn new() -> History {
        History::default()
    }

    /// A client asks.
    pub fn invoke(&mut self, now: Time, client: u32, kind: Kind, first: Sector, sectors: u32) -> OperationId {
        let id = OperationId(self.operations.len() as u32);
        let invoked = (self.next_event(), now);
        let outcome = Outcome::Unknown;
        self.operations.push(Operation {
            client,
            kind,
            first,
            sectors,
            invoked,
            completed: None,
            outcome,
            expected: Vec::new(),
            repeated_by: None,
        });
        id
    }

    /// A client asks for a compare-and-write.
    pub fn invoke_compare(&mut self, now: Time, client: u32, first: Sector, expected: Vec<Stamp>) -> OperationId {
        let sectors = expected.len() as u32;
        assert_eq!(
            first.block(),
            Sector(first.0 + u64::from(sectors) - 1).block(),
            "blocks are judged one by one, so it lies in one"
        );
        let id = self.invoke(now, client, Kind::Compare, first, sectors);
        self.operations[id.0 as usize].expected = expected;
        id
    }

    /// A host sends a write or a clear, whose outcome it does not know, once more, by another gateway. The second write has a
    /// stamp of its own: the product does not look at what is written, and so the two can be told apart.
    pub fn repeat(&mut self, now: Time, id: OperationId) -> OperationId {
        let Operation {
            client,
            kind,
            first,
            sectors,
            completed,
            ..
        } = self.operations[id.0 as usize];
        assert!(
            matches!(kind, Kind::Write | Kind::Clear) && completed.is_none(),
            "only what may not have been done"
        );
        let again = self.invoke(now, client, kind, first, sectors);
        self.operations[id.0 as usize].repeated_by = Some(again);
        again
    }

    /// A compare-and-write has found something else.
    pub fn miscompared(&mut self, now: Time, id: OperationId) {
        let completed = Some((self.next_event(), now));
        let operation = &mut self.operations[id.0 as usize];
        assert!(
            operation.completed.is_none() && operation.kind == Kind::Compare,
            "operation {} has no such answer",
            id.0
        );
        operation.completed = completed;
        operation.outcome = Outcome::Miscompare;
    }

    /// The event from which on an operation must not take effect, though its outcome is unknown.
    fn void_after(&self, operation: &Operation) -> Option<u64> {
        let mut last = operation;
        while let Some(again) = last.repeated_by {
            last = self.get(again);
            if let Some((event, _)) = last.completed {
                return Some(event);
            }
        }
        None
    }

    /// The operation is done; a read with one stamp a sector, others with none.
    pub fn complete(&mut self, now: Time, id: OperationId, read: Vec<Stamp>) {
        let completed = Some((self.next_event(), now));
        let operation = &mut self.operations[id.0 as usize];
        assert!(operation.completed.is_none(), "operation {} is answered twice", id.0);
        let expected = if operation.kind == Kind::Read {
            operation.sectors as usize
        } else {
            0
        };
        assert_eq!(read.len(), expected, "a read has a stamp for each of its sectors");
        operation.completed = completed;
        operation.outcome = Outcome::Done(read);
    }

    /// The operation.
    #[must_use]
    pub fn get(&self, id: OperationId) -> &Operation {
        &self.operations[id.0 as usize]
    }

    /// All operations in the order of their start.
    #[must_use]
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    fn next_event(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    /// Cuts the history into one per block: order is promised per block.
    #[must_use]
    pub fn blocks(&self) -> BTreeMap<u64, Vec<Step>> {
        let mut blocks: BTreeMap<u64, Vec<Step>> = BTreeMap::new();
        for (index, operation) in self.operations.iter().enumerate() {
            let id = OperationId(index as u32);
            let end = operation.first.0 + u64::from(operation.sectors);
            let mut sector = operation.first.0;
            while sector < end {
                let block = Sector(sector).block();
                let upto = end.min((block + 1) * SECTORS_PER_BLOCK as u64);
                let mut sectors: Width = 0;
                let mut values = [Stamp::ZERO; SECTORS_PER_BLOCK];
                for at in sector..upto {
                    sectors |= 1 << Sector(at).in_block();
                    if let Outcome::Done(read) = &operation.outcome
                        && operation.kind == Kind::Read
                    {
                        values[Sector(at).in_block()] = read[(at - operation.first.0) as usize];
                    }
                }
                let action = match operation.kind {
                    Kind::Write => Action::Write {
                        sectors,
                        stamp: id.stamp(),
                    },
                    Kind::Clear => Action::Write {
                        sectors,
                        stamp: Stamp::ZERO,
                    },
                    Kind::Read => Action::Read { sectors, values },
                    Kind::Compare => {
                        for at in sector..upto {
                            values[Sector(at).in_block()] = operation.expected[(at - operation.first.0) as usize];
                        }
                        Action::Compare {
                            sectors,
                            expected: values,
                            stamp: id.stamp(),
                            found_other: operation.outcome == Outcome::Miscompare,
                        }
                    }
                };
                blocks.entry(block).or_default().push(Step {
                    invoked: operation.invoked.0,
                    completed: operation.completed.map(|(event, _)| event),
                    void_after: self.void_after(operation),
                    action,
                });
                sector = upto;
            }
        }
        blocks
    }

    /// Is every block linearizable?
    pub fn check(&self) -> Result<(), BlockViolation> {
        for (block, steps) in self.blocks() {
            let checked = match self.may_repeat {
                true => linear::check_repeated(&steps),
                false => linear::check(&steps),
            };
            checked.map_err(|violation| {
                let story = self.story(block);
                BlockViolation {
                    block,
                    violation,
                    story,
                }
            })?;
        }
        Ok(())
    }

    /// The operations that touch a block, one a line.
    #[must_use]
    pub fn story(&self, block: u64) -> String {
        use fmt::Write;
        let mut story = String::new();
        let (start, end) = (block * SECTORS_PER_BLOCK as u64, (block + 1) * SECTORS_PER_BLOCK as u64);
        for (index, operation) in self.operations.iter().enumerate() {
            let last = operation.first.0 + u64::from(operation.sectors);
            if operation.first.0 >= end || last <= start {
                continue;
            }
            let id = OperationId(index as u32);
            let what = match operation.kind {
                Kind::Write => format!("write {}", id.stamp()),
                Kind::Clear => "clear".to_owned(),
                Kind::Read => "read".to_owned(),
                Kind::Compare => {
                    let expected: Vec<String> = operation.expected.iter().map(Stamp::to_string).collect();
                    format!("write {} over {}", id.stamp(), summary(&expected))
                }
            };
            let done = match (&operation.completed, &operation.outcome) {
                (Some((event, time)), Outcome::Done(read)) => {
                    let values: Vec<String> = (start.max(operation.first.0)..end.min(last))
                        .filter_map(|at| read.get((at - operation.first.0) as usize))
                        .map(Stamp::to_string)
                        .collect();
                    format!("done #{event} at {} us {}", time.0 / 1000, summary(&values))
                }
                (Some((event, time)), _) => format!("miscompare #{event} at {} us", time.0 / 1000),
                _ => match operation.repeated_by {
                    Some(again) => format!("outcome unknown, sent again as {}", again.stamp()),
                    None => "outcome unknown".to_owned(),
                },
            };
            let _ = writeln!(
                story,
                "  client {} #{} at {} us: {what} sectors {}..{}: {done}",
                operation.client,
                operation.invoked.0,
                operation.invoked.1.0 / 1000,
                operation.first.0,
                last,
            );
        }
        story
    }
}

/// `[w1 w1 w1]` as `w1`.
fn summary(values: &[String]) -> String {
    match values.split_first() {
        Some((first, rest)) if rest.iter().all(|value| value == first) => first.clone(),
        _ => values.join(" "),
    }
}
