//! Lines that keep their order, whatever their requests are for: what a store has of each volume.
//!
//! # The story
//! A volume's owner writes block 7, and sends the store that is being brought up to date what it lacks of block 7; a resend follows, and a question
//! what the chunk holds. Each is right only behind those before it (R1, R5, R8). So all of a volume is one line, strictly in the order of coming. Yet its
//! clients are to have a client's part of the store, and its rebuild a rebuild's: were a line one flow, a volume could pass its rebuild off as clients' work.
//!
//! # Mechanism
//! Each class of a line is a flow of the [`Scheduler`], and each request of that class has an entry in it. When it is a flow's turn, its first request in the
//! line goes, and what stands before that in the line goes first, at the charge of the flow whose turn it is. So a client's write behind four mends of a
//! rebuild takes them along, waits for no turn of a class that has less of a part, and its volume's clients pay for them; and the parts of classes, and those
//! of volumes among the clients, are what they should be.
//!
//! What must not wait at all, and must not go before others of its line, has those [pulled](Lines::pull): as many as must be before it.

use crate::faults::Fault;
use crate::limits::Cost;
use crate::scheduler::{Class, Config, Dispatch, Flow, FlowError, FlowId, Scheduler, Standing, Ticket};
use crate::tracker::Elsewhere;
use amita_reactor::Time;
use std::collections::VecDeque;
use std::num::NonZeroU16;
use std::time::Duration;

/// A line, until it is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LineId(u32);

/// How a line stands among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standings {
    /// Of each of its classes, among the flows of that class.
    pub weight: NonZeroU16,
    /// Of its clients: work a second.
    pub reservation: u64,
    /// Of its clients.
    pub latency_target: Option<Duration>,
}

impl Standings {
    fn flow(&self, class: Class) -> Flow {
        let flow = Flow {
            weight: self.weight,
            ..Flow::new(class, Standing::Versioned)
        };
        match class {
            Class::Client => Flow {
                reservation: self.reservation,
                latency_target: self.latency_target,
                ..flow
            },
            _ => flow,
        }
    }
}

/// What goes now.
#[derive(Debug)]
pub struct Handed<T> {
    /// What was put in.
    pub item: T,
    /// Of what stood in a line.
    pub turn: Option<Turn>,
}

/// How something came to its turn.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// What it is for.
    pub class: Class,
    /// To be given back when it has ended.
    pub ticket: Ticket,
    /// How long it was in its line.
    pub waited: Duration,
}

/// What has become of lines, since they were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// What went out of its turn: before something of its line that must not go before it, or because it had waited for long.
    pub pulled: u64,
    /// What went before something that came before it in its line: never, but for planted faults.
    pub overtakes: u64,
}

#[derive(Debug)]
struct Waiting<T> {
    item: T,
    class: Class,
    number: u64,
    came: Time,
}

#[derive(Debug)]
struct Line<T> {
    standings: Standings,
    flows: [Option<FlowId>; Class::ALL.len()],
    waiting: VecDeque<Waiting<T>>,
    /// The number of the last one that went.
    passed: u64,
}

impl<T> Line<T> {
    fn new(standings: Standings) -> Line<T> {
        Line {
            standings,
            flows: [None; Class::ALL.len()],
            waiting: VecDeque::new(),
            passed: 0,
        }
    }
}

/// All lines of one server.
#[derive(Debug)]
pub struct Lines<T> {
    /// Its items are the places of lines.
    scheduler: Scheduler<u32>,
    lines: Vec<Line<T>>,
    free: Vec<u32>,
    ready: VecDeque<Handed<T>>,
    /// When something came, and in which line, since nothing waited; what has gone meanwhile stays for as long as what waits may.
    arrivals: VecDeque<(Time, u32)>,
    /// Numbers what comes.
    came: u64,
    tally: Tally,
    overtakes: bool,
}

impl<T> Lines<T> {
    /// Without lines.
    #[must_use]
    pub fn new(config: Config) -> Lines<T> {
        Lines {
            overtakes: config.faults.has(Fault::OvertakeInLine),
            scheduler: Scheduler::new(config),
            lines: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            arrivals: VecDeque::new(),
            came: 0,
            tally: Tally::default(),
        }
    }

    /// A line in which nothing waits.
    pub fn add(&mut self, standings: Standings) -> LineId {
        let line = Line::new(standings);
        match self.free.pop() {
            Some(at) => {
                self.lines[at as usize] = line;
                LineId(at)
            }
            None => {
                self.lines.push(line);
                LineId(self.lines.len() as u32 - 1)
            }
        }
    }

    /// It stands otherwise from now on. What waits stays where it is.
    pub fn set(&mut self, now: Time, LineId(at): LineId, standings: Standings) {
        let line = &mut self.lines[at as usize];
        line.standings = standings;
        for class in Class::ALL {
            if let Some(flow) = line.flows[class as usize] {
                let set = self.scheduler.set(now, flow, standings.flow(class), &[]);
                set.expect("it has no limits");
            }
        }
    }

    /// A line goes. Nothing may wait in it; what is under way ends as ever.
    pub fn remove(&mut self, now: Time, LineId(at): LineId) {
        let line = &mut self.lines[at as usize];
        assert!(line.waiting.is_empty(), "what waits is not lost");
        for flow in line.flows.iter_mut().filter_map(Option::take) {
            self.scheduler.remove(now, flow);
        }
        self.free.push(at);
    }

    /// Something waits from now on, behind all others of its line.
    ///
    /// # Errors
    /// There is no place for it.
    pub fn push(&mut self, now: Time, LineId(at): LineId, class: Class, item: T, cost: Cost) -> Result<(), T> {
        let Ok(flow) = self.flow(at, class) else {
            return Err(item);
        };
        if self.waiting() == 0 {
            self.arrivals.clear();
        }
        let put = self.scheduler.enqueue(now, flow, at, cost, Elsewhere::default());
        if put.is_err() {
            return Err(item);
        }
        self.came += 1;
        self.arrivals.push_back((now, at));
        self.lines[at as usize].waiting.push_back(Waiting {
            item,
            class,
            number: self.came,
            came: now,
        });
        Ok(())
    }

    fn flow(&mut self, at: u32, class: Class) -> Result<FlowId, FlowError> {
        let line = &mut self.lines[at as usize];
        if let Some(flow) = line.flows[class as usize] {
            return Ok(flow);
        }
        let flow = self.scheduler.add(line.standings.flow(class), &[])?;
        line.flows[class as usize] = Some(flow);
        Ok(flow)
    }

    /// Whatever may go now goes: [`Lines::take`] has it.
    pub fn go(&mut self, now: Time) {
        while let Some(Dispatch { item: at, ticket }) = self.scheduler.next(now) {
            let line = &mut self.lines[at as usize];
            let mut classes = line.flows.iter().zip(Class::ALL);
            let class = classes.find_map(|(flow, class)| (*flow == Some(ticket.flow)).then_some(class));
            let is_of_class = |waiting: &Waiting<T>| Some(waiting.class) == class;
            let first = match self.overtakes {
                false => line.waiting.iter().position(is_of_class),
                true => line.waiting.iter().rposition(is_of_class),
            };
            let first = first.expect("each entry of a flow is of something that waits");
            if self.overtakes {
                let waiting = line.waiting.remove(first).expect("it was found there");
                self.hand(now, at, waiting, ticket);
                continue;
            }
            self.pull_first(now, at, first, Some(ticket.flow));
            let waiting = self.lines[at as usize].waiting.pop_front();
            self.hand(now, at, waiting.expect("it was found behind those"), ticket);
        }
    }

    /// All of the line up to the last one that is so goes now: something must not go before that, and does not wait.
    pub fn pull(&mut self, now: Time, LineId(at): LineId, is_so: impl Fn(&T) -> bool) {
        let waiting = &self.lines[at as usize].waiting;
        let last = waiting.iter().rposition(|waiting| is_so(&waiting.item));
        self.pull_first(now, at, last.map_or(0, |last| last + 1), None);
    }

    /// All of all lines goes now.
    pub fn pull_all(&mut self, now: Time, is_so: impl Fn(&T) -> bool) {
        if self.waiting() == 0 {
            return;
        }
        for at in 0..self.lines.len() as u32 {
            self.pull(now, LineId(at), &is_so);
        }
    }

    /// Whatever has waited for so long goes now, and what is before it. To be asked now and then while something waits: it looks at
    /// what came before that, and not at all lines.
    pub fn hurry(&mut self, now: Time, longest: Duration) {
        while let Some(&(came, at)) = self.arrivals.front()
            && now.since(came) >= longest
        {
            self.arrivals.pop_front();
            let waiting = &self.lines[at as usize].waiting;
            let late = waiting.partition_point(|waiting| now.since(waiting.came) >= longest);
            self.pull_first(now, at, late, None);
        }
    }

    /// The first of a line go, at the charge of that flow, or each at that of its own.
    fn pull_first(&mut self, now: Time, at: u32, count: usize, payer: Option<FlowId>) {
        for _ in 0..count {
            let line = &mut self.lines[at as usize];
            let waiting = line.waiting.pop_front().expect("they were counted");
            let flow = line.flows[waiting.class as usize].expect("it has an entry there");
            let dispatch = self.scheduler.pull(now, flow, payer.unwrap_or(flow));
            let dispatch = dispatch.expect("each that waits has an entry");
            self.tally.pulled += 1;
            self.hand(now, at, waiting, dispatch.ticket);
        }
    }

    fn hand(&mut self, now: Time, at: u32, waiting: Waiting<T>, ticket: Ticket) {
        let line = &mut self.lines[at as usize];
        self.tally.overtakes += u64::from(waiting.number < line.passed);
        line.passed = line.passed.max(waiting.number);
        // One that is older waits still.
        let older = line.waiting.front();
        self.tally.overtakes += u64::from(older.is_some_and(|older| older.number < waiting.number));
        let turn = Turn {
            class: waiting.class,
            ticket,
            waited: now.since(waiting.came),
        };
        self.ready.push_back(Handed {
            item: waiting.item,
            turn: Some(turn),
        });
    }

    /// Something goes that stands in no line, behind all that goes already.
    pub fn pass(&mut self, item: T) {
        self.ready.push_back(Handed { item, turn: None });
    }

    /// What goes now, in its order.
    #[inline]
    pub fn take(&mut self) -> Option<Handed<T>> {
        self.ready.pop_front()
    }

    /// One has ended.
    pub fn done(&mut self, now: Time, ticket: Ticket) {
        self.scheduler.done(now, ticket);
    }

    /// Requests that wait, of all lines.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.scheduler.waiting()
    }

    /// Does nothing wait in the line?
    #[must_use]
    pub fn is_empty(&self, LineId(at): LineId) -> bool {
        self.lines[at as usize].waiting.is_empty()
    }

    /// Does something wait for which there is room by now?
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.scheduler.waiting() > 0 && self.scheduler.has_room()
    }

    /// Requests under way, and how many may be.
    #[must_use]
    pub fn depth(&self) -> (u32, u32) {
        self.scheduler.depth()
    }

    /// What has become of lines.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }
}

#[cfg(test)]
mod tests;
