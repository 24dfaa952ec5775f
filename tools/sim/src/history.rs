//! What the clients asked and what came of it, in the order in which it happened.
//!
//! The order is a count of events, not the clock: two events of one virtual instant still have an order. An operation
//! whose outcome is not known (its connection broke, its client gave up, it ended in an error) may take effect at any
//! time after its start, or never.

mod cut;
mod written;

use crate::stamp::{SECTORS_PER_BLOCK, Sector, Stamp};
use amita_reactor::Time;
use amita_testkit::linear::{self, Action, Step, Violation, Width};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// A host that loses a connection and sends a write again at once by another can be quicker than what is on its way from the first
/// gateway to the owner: for so long after the loss the first one may still be carried out.
pub const LATE: Duration = Duration::from_secs(1);
/// More executions than this of one write are not looked for.
const MAX_OTHERS: u32 = 6;

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

#[derive(Clone, Debug)]
pub struct Operation {
    /// Who asked.
    pub client: u32,
    pub kind: Kind,
    pub first: Sector,
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
    /// The gateway that the host asked, and when, where that one carries it out or nobody does. Until then the host had it.
    pub asked_of: Option<(usize, Time)>,
    /// It was asked of a gateway that lost the volume since, and was not answered: the event at which its successor had
    /// acknowledged something. What it has not done by then it must never do.
    pub taken_from: Option<u64>,
    /// How often the host has sent it again, as it was: while it is not answered it may be carried out as often as it was sent.
    pub sent_again: u32,
    /// When the host last sent it again because it had lost the connection, and not because the gateway had said so: the
    /// gateway may not have known yet.
    pub lost_at: Option<Time>,
    /// The target has said that nothing of it, as often as it was sent, takes effect after this event.
    pub over: Option<u64>,
}

/// What blocks hold: eight stamps each.
pub type Held = BTreeMap<u64, Vec<Stamp>>;

/// The operations of one run.
#[derive(Clone, Debug, Default)]
pub struct History {
    operations: Vec<Operation>,
    events: u64,
}

/// A block whose operations no single register can have answered so.
#[derive(Clone, Debug)]
pub struct BlockViolation {
    /// The block of the volume.
    pub block: u64,
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
            asked_of: None,
            taken_from: None,
            sent_again: 0,
            lost_at: None,
            over: None,
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
    /// stamp of its own: the product does not look at what is written, and so the two can be told apart. Zeros cannot; but
    /// zeros that are read later than the answer allows are those of the first one, because no other is left.
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

    /// The same because its connection broke, and not because nothing came in time: the gateway may not know that yet, so that
    /// the first one may be carried out for [`LATE`] after the break, whatever is answered meanwhile.
    pub fn repeat_broken(&mut self, now: Time, id: OperationId) -> OperationId {
        self.operations[id.0 as usize].lost_at = Some(now);
        self.repeat(now, id)
    }

    /// A host sends an operation once more, as it was, because a gateway has said that it cannot, or because it has lost
    /// (`lost`) the connection.
    pub fn sent_again(&mut self, now: Time, id: OperationId, lost: bool) {
        let operation = &mut self.operations[id.0 as usize];
        assert!(operation.completed.is_none(), "operation {} has its answer", id.0);
        operation.sent_again += 1;
        if lost {
            operation.lost_at = Some(now);
        }
    }

    /// The target has said that an operation, which it has not answered, is over: it was aborted, or its session is another one now.
    /// What was sent by another way before that may still come.
    pub fn over(&mut self, id: OperationId) {
        let event = self.next_event();
        let operation = &mut self.operations[id.0 as usize];
        if operation.sent_again == 0 && operation.kind != Kind::Read {
            operation.over.get_or_insert(event);
        }
    }

    /// A host is fenced off: nothing that it has asked for takes effect from now on, by whatever way it was sent.
    pub fn fence(&mut self, client: u32) -> u64 {
        let event = self.next_event();
        for operation in &mut self.operations {
            if operation.client == client && operation.completed.is_none() && operation.kind != Kind::Read {
                operation.over.get_or_insert(event);
            }
        }
        event
    }

    /// The same for what a host asks for that was fenced off at that event.
    pub fn asked_when_fenced(&mut self, id: OperationId, event: u64) {
        let operation = &mut self.operations[id.0 as usize];
        if operation.kind != Kind::Read {
            operation.over = Some(event);
        }
    }

    /// Is it one that was never to take effect?
    #[must_use]
    pub fn is_barred(&self, id: OperationId) -> bool {
        let operation = self.get(id);
        operation.over.is_some_and(|event| event < operation.invoked.0)
    }

    /// The last event by then.
    fn event_by(&self, by: Time) -> u64 {
        let events = self
            .operations
            .iter()
            .flat_map(|operation| [Some(operation.invoked), operation.completed]);
        let before = events.flatten().filter(|(_, time)| *time <= by);
        before.map(|(event, _)| event).max().unwrap_or(0)
    }

    /// What a write that was sent several times may have done besides: no more often than it was sent, and not after its answer.
    /// `late`: but until then, where a connection of the host broke.
    fn others(&self, operation: &Operation, step: &Step, late: Option<u64>) -> Vec<Step> {
        let Action::Write { sectors, stamp } = step.action else {
            return Vec::new();
        };
        if stamp == Stamp::ZERO {
            return Vec::new();
        }
        let end = operation.completed.map(|(event, _)| event);
        let again = Step {
            completed: None,
            void_after: operation.over.or(end.map(|end| late.map_or(end, |late| late.max(end)))),
            action: Action::Again { sectors, stamp },
            ..*step
        };
        vec![again; operation.sent_again.min(MAX_OTHERS) as usize]
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
        operation.taken_from
    }

    /// The host asks this gateway, which carries the operation out or nobody does.
    pub fn asked_of(&mut self, now: Time, id: OperationId, gateway: usize) {
        self.operations[id.0 as usize].asked_of = Some((gateway, now));
    }

    /// Volumes were taken from their gateways (`raised`: when and by whom, for each volume; `place` says in which volume an
    /// operation lies, and in which chunk). What a gateway had when its volume was taken takes effect before the first thing
    /// that its successor acknowledges in that chunk, because that one has made all copies equal first and no copy takes
    /// anything of the old one after that; or never. Returns of how many operations that is known.
    pub fn take_over(
        &mut self,
        raised: &BTreeMap<u64, Vec<(Time, usize)>>,
        place: impl Fn(Sector) -> (u64, u64),
    ) -> u64 {
        // By chunk: when the volume was raised, by whom, and when something was acknowledged that was asked after that.
        type Acknowledged = Vec<(Time, usize, u64)>;
        let mut acknowledged: BTreeMap<(u64, u64), Acknowledged> = BTreeMap::new();
        for operation in &self.operations {
            let (Some((gateway, asked)), Some((event, _))) = (operation.asked_of, operation.completed) else {
                continue;
            };
            let chunk = place(operation.first);
            let raises = raised.get(&chunk.0).into_iter().flatten();
            let mut own = raises.filter(|(at, by)| *by == gateway && *at < asked);
            let Some((at, _)) = own.next_back() else { continue };
            acknowledged.entry(chunk).or_default().push((*at, gateway, event));
        }
        let mut known = 0;
        for operation in &mut self.operations {
            let (Some((gateway, asked)), None) = (operation.asked_of, operation.completed) else {
                continue;
            };
            let later = acknowledged.get(&place(operation.first)).into_iter().flatten();
            let later = later.filter(|(at, by, _)| *by != gateway && *at > asked);
            operation.taken_from = later.map(|(.., event)| *event).min();
            known += u64::from(operation.taken_from.is_some());
        }
        known
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

    #[must_use]
    pub fn get(&self, id: OperationId) -> &Operation {
        &self.operations[id.0 as usize]
    }

    /// All operations in the order of their start.
    #[must_use]
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The last event so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    fn next_event(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    /// Cuts the history into one per block: order is promised per block.
    #[must_use]
    pub fn blocks(&self) -> BTreeMap<u64, Vec<Step>> {
        self.steps(false)
    }

    fn steps(&self, late: bool) -> BTreeMap<u64, Vec<Step>> {
        let mut blocks: BTreeMap<u64, Vec<Step>> = BTreeMap::new();
        for (index, operation) in self.operations.iter().enumerate() {
            let id = OperationId(index as u32);
            // What a reader finds of it nobody has written.
            if self.is_barred(id) {
                continue;
            }
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
                let late = late.then_some(operation.lost_at).flatten();
                let late = late.map(|at| self.event_by(at.plus(LATE)));
                let void_after = self.void_after(operation);
                let void_after = void_after.map(|event| late.map_or(event, |late| late.max(event)));
                let is_done = matches!(operation.outcome, Outcome::Done(_));
                // Its answer was on the way when it was over.
                let end = |event: u64| operation.over.filter(|_| is_done).map_or(event, |over| over.min(event));
                let step = Step {
                    invoked: operation.invoked.0,
                    completed: operation.completed.map(|(event, _)| end(event)),
                    void_after: operation.over.or(void_after),
                    action,
                };
                let steps = blocks.entry(block).or_default();
                steps.push(step);
                steps.extend(self.others(operation, &step, late));
                sector = upto;
            }
        }
        blocks
    }

    /// Is every block linearizable? Says how many are so only because a write may come late by right ([`LATE`]).
    pub fn check(&self) -> Result<u64, BlockViolation> {
        let mut excused = 0;
        for (block, steps) in self.blocks() {
            excused += u64::from(self.check_block(block, &steps, None)?);
        }
        Ok(excused)
    }

    /// Could a block hold this now, when nothing is under way any more? It must be what some order of its operations leaves
    /// that explains all their answers: everything that was acknowledged, and what was not, or not.
    pub fn could_hold(&self, block: u64, found: &[Stamp]) -> Result<(), BlockViolation> {
        let mut steps = self.blocks().remove(&block).unwrap_or_default();
        let mut values = [Stamp::ZERO; SECTORS_PER_BLOCK];
        values.copy_from_slice(found);
        let read = Step {
            invoked: self.events + 1,
            completed: Some(self.events + 2),
            void_after: None,
            action: Action::Read {
                sectors: Width::MAX,
                values,
            },
        };
        steps.push(read);
        self.check_block(block, &steps, Some(read)).map(drop)
    }

    /// Could all these blocks hold this at one moment between two events, if everything had stopped then? Each must be what
    /// some order of its operations until then leaves that explains their answers: everything that was acknowledged by then, and what
    /// was under way, or not. (What was under way may be in it before hosts can see it: they cannot tell that from a crash.)
    ///
    /// Between two events of a block all moments are alike to it.
    pub fn check_cut(&self, held: &Held, between: (u64, u64)) -> Result<(), String> {
        let on_time = self.blocks();
        let late = self.operations.iter().any(|operation| operation.lost_at.is_some());
        let late = late.then(|| self.steps(true));
        let mut moments = cut::Moments::all(between);
        for (&block, values) in held {
            let mut explained = cut::Moments::none();
            for moment in cut::moments_of(on_time.get(&block), between) {
                let holds = |steps: &BTreeMap<u64, Vec<Step>>| {
                    let mut steps = cut::until(steps.get(&block), moment.0);
                    steps.push(cut::read_at(values, moment.0));
                    linear::check(&steps).is_ok()
                };
                if holds(&on_time) || late.as_ref().is_some_and(holds) {
                    explained.add(moment);
                }
            }
            let both = moments.both(&explained);
            if both.is_empty() {
                return Err(format!(
                    "between events {} and {} block {block} held {values:?} at {explained}, and the blocks before it held theirs at \
                     {moments}\n{}",
                    between.0,
                    between.1,
                    self.story(block)
                ));
            }
            moments = both;
        }
        Ok(())
    }

    /// Is it so only because a write may come late? `read`: the last of the steps, which is not of the history.
    fn check_block(&self, block: u64, steps: &[Step], read: Option<Step>) -> Result<bool, BlockViolation> {
        let checked = linear::check(steps);
        if checked.is_err() && self.operations.iter().any(|operation| operation.lost_at.is_some()) {
            let mut steps = self.steps(true).remove(&block).unwrap_or_default();
            steps.extend(read);
            if linear::check(&steps).is_ok() {
                return Ok(true);
            }
        }
        checked.map_err(|violation| {
            let story = self.story(block);
            BlockViolation {
                block,
                violation,
                story,
            }
        })?;
        Ok(false)
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
                    None => match operation.taken_from {
                        Some(event) => format!("outcome unknown, not after #{event}"),
                        None => "outcome unknown".to_owned(),
                    },
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

#[cfg(test)]
mod tests;
