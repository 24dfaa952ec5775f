//! R4 on its own, in time: leases that end on each side by its own clock.
//!
//! Two stores are in sync. An owner reads from them; every message of it takes time. A successor evicts at most one of
//! them, fences the other, which waits until the lease that it has granted is over *by its own clock*, and then
//! acknowledges a write W2. The evicted one was told nothing and answers whoever asks with what was there before. What
//! keeps the owner from serving that is the lease that the other store once gave, as far as it goes *by the owner's
//! clock*. Clocks drift, and may stand still while their machine does; stores start anew, with another setting; the
//! owner may hand the volume over and give its leases back.

use stateright::{Model, Property};

use crate::zone::{Drift, Zone};

/// What can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rule {
    /// The owner counts a lease from its sending of the request, not from the answer's arrival.
    FromSending,
    /// The moment that a read's leases are judged by is not older than its answer.
    FreshNow,
    /// A read needs more leases than members can be evicted, not just one.
    Enough,
    /// A store that has started waits as if it had granted a lease just before.
    WaitAfterStart,
    /// It waits for the longest lease that it has ever been set to grant, and not for the present setting.
    LongestSetting,
    /// Clocks count the time for which their machine stands still.
    CountPauses,
    /// An owner serves nothing any more before it gives its leases back.
    StopsFirst,
    /// What was given back counts at a store that knows the volume by exactly that generation.
    Exactly,
}

/// The bounds, and the rules.
#[derive(Clone, Debug)]
pub struct Leases {
    /// What is switched off.
    pub off: u16,
    /// How long a lease lasts, in units of time.
    pub lease: i32,
    /// How much of it the owner counts, in hundredths.
    pub counted: i32,
    /// How far clocks may run off.
    pub drift: Drift,
    /// How often a store starts anew.
    pub starts: u8,
    /// What a lease lasts by the setting with which stores start anew.
    pub lease_later: i32,
    /// How often the owner's machine stands still.
    pub pauses: u8,
    /// Whether the owner hands the volume over.
    pub hands_over: bool,
    /// Whether there is an owner in between that touches no store, and gives back leases that it never had.
    pub between: bool,
    /// How often a read is asked for.
    pub reads: u8,
    /// Each read is confirmed by both stores after it was asked for, and no clock is looked at.
    pub confirms: bool,
}

impl Default for Leases {
    /// The mended rules, in microseconds.
    fn default() -> Self {
        Self {
            off: 0,
            lease: 250_000,
            counted: 80,
            drift: Drift(100),
            starts: 0,
            lease_later: 250_000,
            pauses: 0,
            hands_over: false,
            between: false,
            reads: 1,
            confirms: false,
        }
    }
}

/// Stores.
const BOTH: usize = 2;
/// Clocks of a store's zone: since the owner sent a request.
const SENT: usize = 1;
/// Since the store granted its last lease.
const GIVEN: usize = 3;
/// Since the owner sent what brought the lease that it has.
const KEPT: usize = 5;
/// Since the store started.
const STARTED: usize = 7;
const CLOCKS: usize = 9;

/// A request for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// There is none.
    None,
    /// On its way to the store.
    Sent,
    /// The lease is on its way to the owner.
    Granted,
}

/// A store, and what the owner has of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Store {
    /// The generation that it obeys: 1 is the owner's.
    pub generation: u8,
    /// The successor has evicted it.
    pub evicted: bool,
    /// It has W2.
    pub written: bool,
    /// It has granted a lease, and the time is not known to be over.
    pub leased: bool,
    /// It has started, and has not yet waited for the leases that it may have granted.
    pub started: bool,
    /// The owner asks for a lease.
    pub request: Request,
    /// The owner has a lease.
    pub kept: bool,
    /// The owner's clock has stood still since it sent the request, and since it sent what brought the lease.
    pub stood: [bool; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Read {
    /// There is none.
    None,
    /// A client asks; whether W2 was acknowledged before.
    Asked(bool),
    /// A store has answered: that, and whether with W2.
    Answered(bool, bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Successor {
    /// It has not begun.
    Waits,
    /// It has raised the generation; what was given back, 0: nothing.
    Raised(u8),
    /// W2 is acknowledged.
    Written,
}

/// The whole state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub stores: [Store; BOTH],
    /// A read by the owner.
    pub read: Read,
    /// The owner has found its leases good, as of the moment that its pass goes by.
    pub judged: bool,
    /// The owner has given its leases back.
    pub given_back: bool,
    pub successor: Successor,
    /// What may still happen: reads, starts, pauses.
    pub left: [u8; 3],
    /// A client got something older than what was acknowledged before it asked.
    pub stale: bool,
    /// A client got an answer.
    pub served: bool,
    /// The successor has written while a lease to the owner ran.
    pub early: bool,
    /// Time.
    pub zone: Zone<CLOCKS>,
}

/// A step; numbers are stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The owner asks for a lease.
    Ask(usize),
    /// The store grants a lease.
    Grant(usize),
    /// The lease comes to the owner.
    Keep(usize),
    /// A client asks the owner.
    Read,
    /// A store answers the read.
    Answer(usize),
    /// The owner looks at its clock, and finds its leases good.
    Judge,
    /// The client has the answer.
    Serve,
    /// The owner's machine stands still.
    Pause,
    /// The owner gives its leases back.
    GiveBack,
    /// The successor raises the generation, and evicts a store, or none.
    Raise(Option<usize>),
    /// A store adopts the successor's fence.
    Fence(usize),
    /// W2 is on every store in sync.
    Write,
    /// A store starts anew.
    Start(usize),
}

const READS: usize = 0;
const STARTS: usize = 1;
const PAUSES: usize = 2;

impl Leases {
    /// These rules do not hold.
    #[must_use]
    pub fn without(mut self, rules: &[Rule]) -> Self {
        self.off = rules.iter().fold(self.off, |off, rule| off | 1 << *rule as u8);
        self
    }

    fn holds(&self, rule: Rule) -> bool {
        self.off & 1 << rule as u8 == 0
    }

    /// The most real time for which the owner holds to a lease.
    fn held(&self) -> i32 {
        self.drift.longest(self.lease / 100 * self.counted)
    }

    /// The least real time after which a store, having granted a lease of that length, lets a successor in.
    fn over(&self, lease: i32) -> i32 {
        self.drift.shortest(lease)
    }

    fn good(&self, s: &State) -> Option<Zone<CLOCKS>> {
        let mut zone = s.zone;
        let mut count = 0;
        for (m, store) in s.stores.iter().enumerate().filter(|(_, store)| store.kept) {
            if store.stood[1] || self.confirms {
                count += 1;
            } else if let Some(narrowed) = zone.below(KEPT + m, self.held()) {
                zone = narrowed;
                count += 1;
            }
        }
        let needed = if self.holds(Rule::Enough) { BOTH } else { 1 };
        (count >= needed).then_some(zone)
    }

    fn fence(&self, s: &State, m: usize) -> Option<State> {
        let Successor::Raised(given_back) = s.successor else {
            return None;
        };
        let mut next = *s;
        let store = &mut next.stores[m];
        if store.evicted || store.generation == 3 {
            return None;
        }
        let known = if self.holds(Rule::Exactly) {
            given_back == store.generation
        } else {
            given_back >= store.generation
        };
        if !known && store.leased {
            next.zone = next.zone.at_least(GIVEN + m, self.over(self.lease))?;
        }
        if !known && store.started {
            let wait = if self.holds(Rule::LongestSetting) {
                self.lease.max(self.lease_later)
            } else {
                self.lease_later
            };
            if self.holds(Rule::WaitAfterStart) {
                next.zone = next.zone.at_least(STARTED + m, self.over(wait))?;
            }
        }
        (store.generation, store.leased, store.started) = (3, false, false);
        Some(next)
    }

    fn settle(&self, s: &mut State) {
        for (m, store) in s.stores.iter().enumerate() {
            let waits = !store.evicted && store.generation == 1;
            for (needed, clock) in [
                (store.request != Request::None, SENT),
                (store.leased && waits, GIVEN),
                (store.kept, KEPT),
                (store.started && waits, STARTED),
            ] {
                if !needed {
                    s.zone.forget(clock + m);
                }
            }
        }
        s.zone.pass();
        let longest = self.drift.longest(self.lease.max(self.lease_later));
        s.zone.limit(longest + 1);
    }
}

/// The name of the property that reads are not stale.
pub const FRESH: &str = "no read returns what was there before an acknowledged write";
/// What happens somewhere: a read is served.
pub const SERVED: &str = "a read is served";
/// What happens somewhere: the successor writes.
pub const WRITTEN: &str = "the successor has written";
/// What happens somewhere: the successor did not have to wait.
pub const EARLY: &str = "the successor has written while a lease ran that was given back";

impl Model for Leases {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let store = Store {
            generation: 1,
            evicted: false,
            written: false,
            leased: false,
            started: false,
            request: Request::None,
            kept: false,
            stood: [false; 2],
        };
        let mut first = State {
            stores: [store; BOTH],
            read: Read::None,
            judged: false,
            given_back: false,
            successor: Successor::Waits,
            left: [self.reads, self.starts, self.pauses],
            stale: false,
            served: false,
            early: false,
            zone: Zone::new(),
        };
        self.settle(&mut first);
        vec![first]
    }

    fn actions(&self, s: &State, actions: &mut Vec<Action>) {
        if s.stale {
            return;
        }
        actions.extend([
            Action::Read,
            Action::Judge,
            Action::Serve,
            Action::Pause,
            Action::GiveBack,
            Action::Write,
        ]);
        // Stores are alike: which one is evicted is all the same.
        actions.extend([None, Some(0)].map(Action::Raise));
        for m in 0..BOTH {
            actions.extend([Action::Ask(m), Action::Grant(m), Action::Keep(m)]);
            actions.extend([Action::Answer(m), Action::Fence(m), Action::Start(m)]);
        }
    }

    fn next_state(&self, s: &State, action: Action) -> Option<State> {
        let mut next = *s;
        let serves = !s.given_back || !self.holds(Rule::StopsFirst);
        match action {
            Action::Ask(m) if serves && s.stores[m].request == Request::None => {
                next.stores[m].request = Request::Sent;
                next.stores[m].stood[0] = false;
                next.zone.reset(SENT + m);
            }
            Action::Grant(m) if s.stores[m].request == Request::Sent && s.stores[m].generation == 1 => {
                next.stores[m].request = Request::Granted;
                next.stores[m].leased = true;
                next.zone.reset(GIVEN + m);
            }
            Action::Keep(m) if s.stores[m].request == Request::Granted => {
                next.stores[m].request = Request::None;
                next.stores[m].kept = true;
                if self.holds(Rule::FromSending) {
                    next.stores[m].stood[1] = s.stores[m].stood[0];
                    next.zone.copy(KEPT + m, SENT + m);
                } else {
                    next.stores[m].stood[1] = false;
                    next.zone.reset(KEPT + m);
                }
            }
            Action::Read if s.read == Read::None && serves => {
                next.left[READS] = s.left[READS].checked_sub(1)?;
                next.read = Read::Asked(s.successor == Successor::Written);
                next.judged &= !self.holds(Rule::FreshNow);
                if self.confirms {
                    // What was asked before does not count.
                    for store in &mut next.stores {
                        (store.kept, store.request) = (false, Request::None);
                    }
                }
            }
            Action::Answer(m) if s.stores[m].generation == 1 => {
                let Read::Asked(before) = s.read else { return None };
                next.read = Read::Answered(before, s.stores[m].written);
            }
            Action::Judge if !s.judged => {
                if self.holds(Rule::FreshNow) && !matches!(s.read, Read::Answered(..)) {
                    return None;
                }
                next.zone = self.good(s)?;
                next.judged = true;
            }
            Action::Serve if s.judged => {
                let Read::Answered(before, found) = s.read else {
                    return None;
                };
                (next.read, next.judged, next.served) = (Read::None, false, true);
                next.stale = before && !found;
            }
            Action::Pause => {
                next.left[PAUSES] = s.left[PAUSES].checked_sub(1)?;
                for store in &mut next.stores {
                    store.stood = [!self.holds(Rule::CountPauses); 2];
                }
            }
            Action::GiveBack if self.hands_over && !s.given_back && s.successor == Successor::Waits => {
                if self.holds(Rule::StopsFirst) && s.read != Read::None {
                    return None;
                }
                next.given_back = true;
            }
            Action::Raise(evicted) if s.successor == Successor::Waits => {
                let given_back = match (s.given_back, self.between) {
                    (true, _) => 1,
                    (false, true) => 2,
                    (false, false) => 0,
                };
                next.successor = Successor::Raised(given_back);
                if let Some(m) = evicted {
                    next.stores[m].evicted = true;
                }
            }
            Action::Fence(m) => next = self.fence(s, m)?,
            Action::Write if matches!(s.successor, Successor::Raised(_)) => {
                let mut members = next.stores.iter_mut().filter(|store| !store.evicted);
                if !members.all(|store| store.generation == 3) {
                    return None;
                }
                for store in next.stores.iter_mut().filter(|store| !store.evicted) {
                    store.written = true;
                }
                next.successor = Successor::Written;
                next.early = s.given_back && self.good(s).is_some();
            }
            Action::Start(m) => {
                next.left[STARTS] = s.left[STARTS].checked_sub(1)?;
                let store = &mut next.stores[m];
                (store.leased, store.started) = (false, true);
                if store.request == Request::Granted {
                    store.request = Request::None;
                }
                next.zone.reset(STARTED + m);
            }
            _ => return None,
        }
        self.settle(&mut next);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(FRESH, |_, s: &State| !s.stale),
            Property::sometimes(SERVED, |_, s: &State| s.served),
            Property::sometimes(WRITTEN, |_, s: &State| s.successor == Successor::Written),
            Property::sometimes(EARLY, |_, s: &State| s.early),
        ]
    }
}
