//! Is there one order of the operations on a block that explains all their answers?
//!
//! A block is a register of [`SECTORS_PER_BLOCK`] sectors that are written and read together. A history of it is
//! *linearizable* (Herlihy and Wing, 1990) when every operation can be given one moment between its start and its
//! answer such that every read returns what the last writes before it left. Blocks are independent objects, so checking
//! each one checks all of them (locality).
//!
//! The search is Wing and Gong's (1993) with Lowe's memory of visited configurations (2017): repeatedly choose, among
//! the operations that no unplaced operation precedes, the one that comes next; go back when stuck; never visit a pair
//! of (placed operations, register) twice. Some reductions, each of which neither loses nor gains an order, keep it
//! small:
//!
//! * A read that may come next and agrees with the register is placed at once: it changes nothing, so it can be moved
//!   to the front of any order that explains the rest. Unless something must not come after it.
//! * A write of unknown outcome whose stamp is never read is left out: taking it out of an order changes no answer.
//!   One whose stamp *is* read has happened before the first answer that shows it, so it becomes a write with that
//!   answer as its end. (Stamps are unique.)
//! * Clears of unknown outcome have no stamp of their own. They stay optional, and of several that cover the same
//!   sectors the earliest is used first.
//!
//! A compare-and-write that was done is a read and a write at one moment; one that found something else is a read of
//! anything but what it expected. A write that nobody has read may be what it found, if no other write stands between
//! them in every order: such writes of unknown outcome stay, optional.
//!
//! A write of unknown outcome that its host has repeated by another gateway must not take effect after the answer to the
//! repetition (R9): it has that answer's event as its end, and need not have happened.
//!
//! Of two configurations that differ only in which optional operations they have used up, the one that has used fewer can
//! do all that the other can; the other is not visited.
//!
//! A history without an order may have very many beginnings that have one. So a search that takes long looks once whether a
//! read alone shows that there is none ([`Search::unexplained`]).
//!
//! The checker never says yes without an order in hand. It gives up, which counts as a failure, after
//! [`MAX_CONFIGURATIONS`].

use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// One bit for each sector of a block.
pub type Width = u8;

/// Sectors of a block.
pub const SECTORS_PER_BLOCK: usize = Width::BITS as usize;

/// The number of a write; what a sector holds. [`Stamp::ZERO`] is a sector of zeros: never written, or cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(pub u32);

impl Stamp {
    /// A sector of zeros.
    pub const ZERO: Stamp = Stamp(0);
    /// Stands for every stamp that no read returned, where these need not be told apart.
    pub const UNREAD: Stamp = Stamp(u32::MAX);
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Stamp::ZERO => f.write_str("zeros"),
            Stamp::UNREAD => f.write_str("unread"),
            Stamp(number) => write!(f, "w{number}"),
        }
    }
}

/// The register: the stamp of each sector.
pub type Values = [Stamp; SECTORS_PER_BLOCK];

/// Configurations visited before the search gives up. Real runs need a few times as many as they have operations.
pub const MAX_CONFIGURATIONS: usize = 1_000_000;

/// A search that has visited so many looks for a read that nothing explains. Most never come here.
const LONG: usize = 1_000;

/// What an operation did to one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Wrote (or cleared, with [`Stamp::ZERO`]) these sectors.
    Write {
        sectors: Width,
        /// What they hold then. Unique, except for zero.
        stamp: Stamp,
    },
    /// Read these sectors.
    Read {
        sectors: Width,
        /// What they held; others are not looked at.
        values: Values,
    },
    /// May have written the same again, once: its host has sent it again before it was answered.
    Again {
        sectors: Width,
        /// The stamp of the write.
        stamp: Stamp,
    },
    /// Wrote these sectors if they held what was expected.
    Compare {
        sectors: Width,
        /// What they were to hold; others are not looked at.
        expected: Values,
        /// What they hold then. Unique.
        stamp: Stamp,
        /// They held something else, and nothing was written.
        found_other: bool,
    },
}

/// An operation on one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The number of the event of its start; unique in its history.
    pub invoked: u64,
    /// The number of the event of its answer, if there was one.
    pub completed: Option<u64>,
    /// Without an answer: it must not have taken effect after this event.
    pub void_after: Option<u64>,
    pub action: Action,
}

/// No register can have answered so.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// A read returned a stamp that no write had put there by then.
    FromNowhere {
        /// The start of the read.
        read: u64,
        /// What it returned.
        stamp: Stamp,
    },
    /// No order explains the answers.
    NoOrder {
        /// The operations (by their start) that could not be placed in the longest order found; the first answered of
        /// them is the one to look at.
        unplaced: Vec<u64>,
        /// What the register held there.
        values: Values,
    },
    /// The search was given up.
    Undecided,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::FromNowhere { read, stamp } => {
                write!(
                    f,
                    "the read #{read} returned {stamp}, which nobody had written there by then"
                )
            }
            Violation::NoOrder { unplaced, values } => {
                write!(f, "not linearizable: stuck at the register [")?;
                for value in values {
                    write!(f, " {value}")?;
                }
                write!(f, " ], where none of these can come next:")?;
                unplaced.iter().take(6).try_for_each(|start| write!(f, " #{start}"))
            }
            Violation::Undecided => write!(f, "undecided after {MAX_CONFIGURATIONS} configurations"),
        }
    }
}

impl std::error::Error for Violation {}

/// Checks the history of one block, whose sectors are all zero at first.
pub fn check(steps: &[Step]) -> Result<(), Violation> {
    let steps = reduce(steps)?;
    Search::new(&steps).run()
}

fn agrees(register: &Values, sectors: Width, values: &Values) -> bool {
    (0..SECTORS_PER_BLOCK).all(|at| sectors & 1 << at == 0 || register[at] == values[at])
}

fn apply(register: &mut Values, sectors: Width, stamp: Stamp) {
    for (at, value) in register.iter_mut().enumerate() {
        if sectors & 1 << at != 0 {
            *value = stamp;
        }
    }
}

/// Leaves out what cannot matter, gives an end to what must have happened, and orders by start.
fn reduce(steps: &[Step]) -> Result<Vec<Step>, Violation> {
    let mut writes: BTreeMap<Stamp, (u64, Width)> = BTreeMap::new();
    for step in steps {
        let (sectors, stamp) = match step.action {
            Action::Write { sectors, stamp }
            | Action::Compare {
                sectors,
                stamp,
                found_other: false,
                ..
            } => (sectors, stamp),
            Action::Compare { .. } | Action::Read { .. } | Action::Again { .. } => continue,
        };
        if stamp != Stamp::ZERO {
            let before = writes.insert(stamp, (step.invoked, sectors));
            assert!(before.is_none(), "the stamp {stamp} was given out twice");
        }
    }
    // The end of the first read that shows each stamp.
    let mut shown: BTreeMap<Stamp, u64> = BTreeMap::new();
    // Those that must be told apart.
    let mut named: BTreeSet<Stamp> = BTreeSet::new();
    for step in steps {
        let (sectors, values, completed) = match (step.action, step.completed) {
            (Action::Read { sectors, values }, Some(completed)) => (sectors, values, completed),
            (
                Action::Compare {
                    sectors,
                    expected,
                    found_other: false,
                    ..
                },
                Some(completed),
            ) => (sectors, expected, completed),
            (Action::Compare { expected, .. }, _) => {
                named.extend(expected);
                continue;
            }
            _ => continue,
        };
        for (at, stamp) in values.into_iter().enumerate() {
            if sectors & 1 << at == 0 || stamp == Stamp::ZERO {
                continue;
            }
            match writes.get(&stamp) {
                Some((invoked, written)) if *invoked < completed && written & 1 << at != 0 => {
                    shown
                        .entry(stamp)
                        .and_modify(|first| *first = completed.min(*first))
                        .or_insert(completed);
                }
                _ => {
                    return Err(Violation::FromNowhere {
                        read: step.invoked,
                        stamp,
                    });
                }
            }
        }
    }
    named.extend(shown.keys());
    let miscompares = Miscompares::of(steps);
    let mut reduced: Vec<Step> = Vec::with_capacity(steps.len());
    for step in steps {
        let mut step = *step;
        if step.completed.is_none() {
            match step.action {
                Action::Read { .. } => continue,
                Action::Again { stamp, .. } if !named.contains(&stamp) && !miscompares.may_find(&step) => continue,
                Action::Again { .. } | Action::Write { stamp: Stamp::ZERO, .. } => {}
                Action::Write { stamp, .. } | Action::Compare { stamp, .. } => match shown.get(&stamp) {
                    Some(first) => {
                        step.completed = Some(step.void_after.map_or(*first, |void| void.min(*first)));
                        step.void_after = None;
                    }
                    // What an unanswered compare-and-write may have found.
                    None if named.contains(&stamp) || miscompares.may_find(&step) => {}
                    None => continue,
                },
            }
        }
        reduced.push(step);
    }
    for step in &mut reduced {
        if let Action::Write { stamp, .. } | Action::Compare { stamp, .. } | Action::Again { stamp, .. } =
            &mut step.action
            && *stamp != Stamp::ZERO
            && !named.contains(stamp)
        {
            *stamp = Stamp::UNREAD;
        }
    }
    reduced.sort_by_key(|step| step.invoked);
    Ok(reduced)
}

/// Which writes can be what a compare-and-write found instead of what it expected.
struct Miscompares {
    /// The start and the answer of each.
    all: Vec<(u64, u64)>,
    /// The writes that certainly happened: start, answer, sectors.
    certain: Vec<(u64, u64, Width)>,
}

impl Miscompares {
    fn of(steps: &[Step]) -> Miscompares {
        let mut miscompares = Miscompares {
            all: Vec::new(),
            certain: Vec::new(),
        };
        for step in steps {
            match (step.action, step.completed) {
                (Action::Compare { found_other: true, .. }, completed) => {
                    miscompares.all.push((step.invoked, completed.unwrap_or(u64::MAX)));
                }
                (Action::Write { sectors, .. } | Action::Compare { sectors, .. }, Some(completed)) => {
                    miscompares.certain.push((step.invoked, completed, sectors));
                }
                _ => {}
            }
        }
        miscompares
    }

    /// Can one of them have found what this operation wrote? Not those that were answered before it, nor those before
    /// which another write covered it in every order.
    fn may_find(&self, write: &Step) -> bool {
        let (Action::Write { sectors, .. } | Action::Again { sectors, .. } | Action::Compare { sectors, .. }) =
            write.action
        else {
            return false;
        };
        let end = write.completed.or(write.void_after).unwrap_or(u64::MAX);
        self.all.iter().any(|(invoked, completed)| {
            let is_covered = || {
                let between = |(start, done, covers): &(u64, u64, Width)| {
                    *start > end && done < invoked && sectors & !covers == 0
                };
                self.certain.iter().any(between)
            };
            *completed > write.invoked && !is_covered()
        })
    }
}

/// The placed operations: all below `lowest`, and those whose bit is set above it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
struct Placed {
    lowest: usize,
    /// Bit `i` of word `w`: the operation `lowest / 64 * 64 + 64 * w + i`.
    words: Vec<u64>,
}

impl Placed {
    fn base(&self) -> usize {
        self.lowest / 64 * 64
    }

    fn has(&self, index: usize) -> bool {
        index < self.lowest
            || self
                .words
                .get((index - self.base()) / 64)
                .is_some_and(|word| word & 1 << (index % 64) != 0)
    }

    fn put(&mut self, index: usize) {
        let word = (index - self.base()) / 64;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (index % 64);
        while self.has(self.lowest) {
            self.lowest += 1;
            if self.lowest.is_multiple_of(64) {
                self.words.remove(0);
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Configuration {
    /// Of those that must happen. The optional ones count as placed here.
    placed: Placed,
    /// The optional ones that have happened and could happen still, in ascending order.
    used: Vec<usize>,
    count: usize,
    register: Values,
    /// The latest start of what is placed.
    latest: u64,
}

impl Configuration {
    fn place(&mut self, steps: &[Step], index: usize) {
        let step = &steps[index];
        if step.completed.is_some() {
            self.placed.put(index);
        } else if let Err(at) = self.used.binary_search(&index) {
            self.used.insert(at, index);
        }
        self.count += 1;
        self.latest = self.latest.max(step.invoked);
        self.used.retain(|index| !is_void(&steps[*index], self.latest));
    }

    fn may_use(&self, steps: &[Step], index: usize) -> bool {
        !is_void(&steps[index], self.latest) && self.used.binary_search(&index).is_err()
    }
}

/// Too late for it, once something is placed that began at `latest`?
fn is_void(step: &Step, latest: u64) -> bool {
    step.void_after.is_some_and(|end| latest > end)
}

struct Search<'a> {
    steps: &'a [Step],
    /// Those of unknown outcome, in the order of their starts.
    optional: Vec<usize>,
    /// The reads that returned each stamp.
    readers: BTreeMap<Stamp, Vec<usize>>,
    /// What something may have found that did not expect it, by index.
    may_be_found: Vec<bool>,
    /// The writes that may happen again, so that what is gone may come back.
    again: BTreeMap<Stamp, Vec<usize>>,
    /// What was used up when each was visited.
    seen: FxHashMap<(Placed, Values), Vec<Vec<usize>>>,
    visited: usize,
    stack: Vec<Configuration>,
    longest: Configuration,
}

impl<'a> Search<'a> {
    fn new(steps: &'a [Step]) -> Search<'a> {
        let optional: Vec<usize> = (0..steps.len())
            .filter(|index| steps[*index].completed.is_none())
            .collect();
        let mut start = Configuration {
            placed: Placed::default(),
            used: Vec::new(),
            count: 0,
            register: Values::default(),
            latest: 0,
        };
        optional.iter().for_each(|index| start.placed.put(*index));
        let mut readers: BTreeMap<Stamp, Vec<usize>> = BTreeMap::new();
        for (index, step) in steps.iter().enumerate() {
            if let Action::Read { sectors, values } = &step.action {
                for at in (0..SECTORS_PER_BLOCK).filter(|at| sectors & 1 << at != 0) {
                    let readers = readers.entry(values[at]).or_default();
                    if readers.last() != Some(&index) {
                        readers.push(index);
                    }
                }
            }
        }
        let mut again: BTreeMap<Stamp, Vec<usize>> = BTreeMap::new();
        for index in &optional {
            if let Action::Again { stamp, .. } = steps[*index].action {
                again.entry(stamp).or_default().push(*index);
            }
        }
        let miscompares = Miscompares::of(steps);
        Search {
            steps,
            again,
            readers,
            may_be_found: steps.iter().map(|step| miscompares.may_find(step)).collect(),
            optional,
            seen: FxHashMap::default(),
            visited: 0,
            stack: vec![start.clone()],
            longest: start,
        }
    }

    fn run(mut self) -> Result<(), Violation> {
        let mut next = Vec::new();
        while let Some(mut here) = self.stack.pop() {
            if self.place_reads(&mut here) {
                return Ok(());
            }
            if here.count > self.longest.count {
                self.longest = here.clone();
            }
            if !self.is_new(&here) {
                continue;
            }
            self.visited += 1;
            if self.visited > MAX_CONFIGURATIONS {
                return Err(Violation::Undecided);
            }
            if self.visited == LONG
                && let Some(read) = self.unexplained()
            {
                return Err(Violation::NoOrder {
                    unplaced: vec![read],
                    values: self.longest.register,
                });
            }
            self.choices(&here, &mut next);
            // The last pushed is tried first: what the register explains now, though something becomes void by it, before what
            // changes the register; of either the one that is answered earliest.
            next.sort_by_key(|index| {
                let answered = self.steps[*index].completed.unwrap_or(u64::MAX);
                std::cmp::Reverse((!self.is_explained(&here.register, *index), answered))
            });
            for index in next.drain(..) {
                let mut child = here.clone();
                if self.is_explained(&here.register, index) {
                    child.place(self.steps, index);
                    self.stack.push(child);
                    continue;
                }
                let (sectors, stamp) = match self.steps[index].action {
                    Action::Write { sectors, stamp } => {
                        self.place_hidden(&mut child, sectors, index);
                        (sectors, stamp)
                    }
                    Action::Again { sectors, stamp } | Action::Compare { sectors, stamp, .. } => (sectors, stamp),
                    Action::Read { .. } => unreachable!("only what writes"),
                };
                if self.is_missed(&here, sectors) {
                    continue;
                }
                child.place(self.steps, index);
                apply(&mut child.register, sectors, stamp);
                self.stack.push(child);
            }
        }
        let longest = &self.longest;
        let mut unplaced: Vec<&Step> = (longest.placed.lowest..self.steps.len())
            .filter(|index| !longest.placed.has(*index))
            .map(|index| &self.steps[index])
            .collect();
        unplaced.sort_by_key(|step| step.completed);
        Err(Violation::NoOrder {
            unplaced: unplaced.iter().map(|step| step.invoked).collect(),
            values: longest.register,
        })
    }

    /// The start of a read that no write explains, whatever the order. In an order the last write before a read that covers one
    /// of its sectors, if there is one, put there what it returned; and nothing is between the two that wrote something else there, or
    /// read something else: nothing that certainly happened, and began when that write had to be over, and was answered when the
    /// read had not begun.
    fn unexplained(&self) -> Option<u64> {
        let is_explained = |read: &Step, at: usize, stamp: Stamp| {
            let shows_other = |step: &&Step| match &step.action {
                Action::Read { sectors, values } => sectors & 1 << at != 0 && values[at] != stamp,
                Action::Write { sectors, stamp: put }
                | Action::Compare {
                    sectors,
                    stamp: put,
                    found_other: false,
                    ..
                } => sectors & 1 << at != 0 && *put != stamp,
                Action::Again { .. } | Action::Compare { .. } => false,
            };
            // The latest start of what was answered before the read, and is not what it returned.
            let before = |step: &&Step| step.completed.is_some_and(|completed| completed < read.invoked);
            let others = self.steps.iter().filter(before).filter(shows_other);
            let latest = others.map(|step| step.invoked).max();
            let begins = (stamp == Stamp::ZERO).then_some(0);
            let sources = self.steps.iter().filter_map(|step| match &step.action {
                Action::Write { sectors, stamp: put }
                | Action::Again { sectors, stamp: put }
                | Action::Compare {
                    sectors,
                    stamp: put,
                    found_other: false,
                    ..
                } if sectors & 1 << at != 0 && *put == stamp => (Some(step.invoked) < read.completed)
                    .then(|| step.completed.or(step.void_after).unwrap_or(u64::MAX)),
                _ => None,
            });
            begins
                .into_iter()
                .chain(sources)
                .any(|over| latest.is_none_or(|latest| over >= latest))
        };
        self.steps.iter().find_map(|step| match &step.action {
            Action::Read { sectors, values } => (0..SECTORS_PER_BLOCK)
                .any(|at| sectors & 1 << at != 0 && !is_explained(step, at, values[at]))
                .then_some(step.invoked),
            _ => None,
        })
    }

    /// False if one like it was visited that had used up no more.
    fn is_new(&mut self, here: &Configuration) -> bool {
        let visited = self.seen.entry((here.placed.clone(), here.register)).or_default();
        let is_within = |few: &[usize], many: &[usize]| few.iter().all(|index| many.binary_search(index).is_ok());
        if visited.iter().any(|used| is_within(used, &here.used)) {
            return false;
        }
        visited.retain(|used| !is_within(&here.used, used));
        visited.push(here.used.clone());
        true
    }

    /// Calls `visit` for every unplaced operation that no unplaced one precedes, the optional ones first, else in the
    /// order of their starts. True when nothing that was answered is left.
    fn minimal(&self, here: &Configuration, mut visit: impl FnMut(usize)) -> bool {
        let mut bound = u64::MAX;
        for index in here.placed.lowest..self.steps.len() {
            // Sorted by start: nothing further on can be answered before `bound`.
            if self.steps[index].invoked >= bound {
                break;
            }
            if !here.placed.has(index) {
                bound = bound.min(self.steps[index].completed.unwrap_or(u64::MAX));
            }
        }
        let precedes = |index: &usize| self.steps[*index].invoked < bound;
        self.optional
            .iter()
            .copied()
            .take_while(precedes)
            .filter(|index| here.may_use(self.steps, *index))
            .for_each(&mut visit);
        (here.placed.lowest..self.steps.len())
            .take_while(precedes)
            .filter(|index| !here.placed.has(*index))
            .for_each(visit);
        bound == u64::MAX
    }

    /// Is this a read, or a compare-and-write that found something else, that agrees with the register?
    fn is_explained(&self, register: &Values, index: usize) -> bool {
        match &self.steps[index].action {
            Action::Read { sectors, values } => agrees(register, *sectors, values),
            Action::Compare {
                sectors,
                expected,
                found_other: true,
                ..
            } => !agrees(register, *sectors, expected),
            _ => false,
        }
    }

    /// Places the reads that may come next, agree and make nothing void; true when all that was answered is placed.
    fn place_reads(&self, here: &mut Configuration) -> bool {
        let mut reads: Vec<usize> = Vec::new();
        loop {
            let harmless = self.harmless(here);
            let done = self.minimal(here, |index| {
                if self.steps[index].invoked <= harmless && self.is_explained(&here.register, index) {
                    reads.push(index);
                }
            });
            if done || reads.is_empty() {
                return done;
            }
            reads.drain(..).for_each(|index| here.place(self.steps, index));
        }
    }

    /// Does an unplaced read still have to see what one of these sectors holds?
    fn is_missed(&self, here: &Configuration, sectors: Width) -> bool {
        (0..SECTORS_PER_BLOCK).filter(|at| sectors & 1 << at != 0).any(|at| {
            let stamp = here.register[at];
            // Zeros come back with a clear.
            stamp != Stamp::ZERO
                && !self
                    .again
                    .get(&stamp)
                    .is_some_and(|again| again.iter().any(|index| here.may_use(self.steps, *index)))
                && self.readers.get(&stamp).is_some_and(|readers| {
                    readers.iter().any(|reader| {
                        !here.placed.has(*reader)
                            && matches!(&self.steps[*reader].action, Action::Read { sectors, values }
                                if sectors & 1 << at != 0 && values[at] == stamp)
                    })
                })
        })
    }

    /// What begins by then can be placed without making anything void that could still happen.
    fn harmless(&self, here: &Configuration) -> u64 {
        let live = self.optional.iter().filter(|index| here.may_use(self.steps, **index));
        let first = live.filter_map(|index| self.steps[*index].void_after).min();
        first.unwrap_or(u64::MAX).max(here.latest)
    }

    /// Places the unread writes that may come next and that a write of these sectors, `but`, covers: nobody can tell.
    fn place_hidden(&self, here: &mut Configuration, sectors: Width, but: usize) {
        let harmless = self.harmless(here).max(self.steps[but].invoked);
        let mut hidden: Vec<usize> = Vec::new();
        self.minimal(here, |index| {
            if let Action::Write {
                sectors: covered,
                stamp: Stamp::UNREAD,
            } = self.steps[index].action
                && covered & !sectors == 0
                && index != but
                && self.steps[index].completed.is_some()
                && !self.may_be_found[index]
                && self.steps[index].invoked <= harmless
            {
                hidden.push(index);
            }
        });
        hidden.into_iter().for_each(|index| here.place(self.steps, index));
    }

    /// The writes that may come next: of several that leave the same register, the one that is answered first. And the
    /// reads that make something void: what they make void may have to come first.
    fn choices(&self, here: &Configuration, next: &mut Vec<usize>) {
        let mut unknown: Vec<(Width, Stamp, u64)> = Vec::new();
        let mut unread: Vec<(Width, usize)> = Vec::new();
        let harmless = self.harmless(here);
        self.minimal(here, |index| {
            let step = &self.steps[index];
            let (sectors, stamp) = match &step.action {
                Action::Write { sectors, stamp } | Action::Again { sectors, stamp } => (*sectors, *stamp),
                Action::Compare {
                    sectors,
                    expected,
                    found_other: false,
                    ..
                } => {
                    if agrees(&here.register, *sectors, expected) {
                        next.push(index);
                    }
                    return;
                }
                _ if self.is_explained(&here.register, index) => return next.push(index),
                _ => return,
            };
            if step.completed.is_none() {
                // Of those that do the same, the one that began and must end first.
                let end = step.void_after.unwrap_or(u64::MAX);
                let is_like = |other: &(Width, Stamp, u64)| other.0 == sectors && other.1 == stamp && other.2 <= end;
                if unknown.iter().any(is_like) {
                    return;
                }
                unknown.push((sectors, stamp, end));
            } else if stamp == Stamp::UNREAD && step.invoked <= harmless {
                match unread.iter_mut().find(|(width, _)| *width == sectors) {
                    Some((_, first)) if self.steps[*first].completed <= step.completed => {}
                    Some((_, first)) => *first = index,
                    None => unread.push((sectors, index)),
                }
                return;
            }
            next.push(index);
        });
        next.extend(unread.into_iter().map(|(_, index)| index));
    }
}

#[cfg(test)]
mod tests;
