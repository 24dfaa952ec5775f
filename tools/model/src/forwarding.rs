//! R9 on its own: a gateway that forwards what a host asks for, while the host has another way.
//!
//! A host writes W1 by gateway 1. If it hears nothing for its keep-alive, or is told that this path fails, it writes W1 again by
//! gateway 2 **at once**, and then W2 to the same place. Whatever of W1 is still at gateway 1, on a link, or waiting at an owner must
//! not be carried out after that. A second host compares and writes to the same place: what it has replaced must not come back.
//!
//! Links between the host and gateway 1 are cut and heal, in one direction or both; links between gateways break and are replaced;
//! the volume's owner changes, to gateway 1 itself too; gateway 1's lease lapses and it registers again; each core stands still for
//! as long as it likes between two steps. Gateway 2 is as quick as can be. Time is a [`Zone`]: each process counts with a clock of
//! its own that drifts.

use stateright::{Model, Property};

use crate::zone::{Drift, Zone};

/// What a request's age is counted from, at whoever judges it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// From when it was sent to the owner: anew each time that it is sent again.
    Sending,
    /// From when gateway 1 read it from its host.
    Received,
    /// From when gateway 1 last read anything from its host.
    Heard,
    /// From when gateway 1 sent the newest answer of which it knows that the host has it.
    Answered,
}

/// What can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rule {
    /// A core that did not run for a while drops its hosts before it reads from them.
    Pulse,
    /// The owner refuses what comes from a gateway that is not registered.
    Living,
    /// A forwarded request is carried out under the generation that it names, and no other.
    NamesGeneration,
    /// What was sent under one generation is not sent under another.
    OneGeneration,
    /// The age is judged by the core that sequences, as it sequences: not when the request arrives at some core of the owner.
    JudgedWhereSequenced,
    /// The age is judged too when gateway 1 is the owner itself.
    JudgedHere,
    /// A gateway whose lease has lapsed drops its hosts before it registers again.
    DropsBeforeRegistering,
    /// The owner remembers what it has carried out, and answers a repetition from memory.
    Window,
    /// What it remembers outlives the link.
    WindowOutlivesLink,
    /// A host is told that its path fails, or is dropped, only when nothing that was sent for it can be carried out any more.
    EndsWhenDead,
}

/// Gateway 1's rules as they were when a review found that they let old requests be carried out.
pub const BEFORE: &[Rule] = &[
    Rule::OneGeneration,
    Rule::JudgedWhereSequenced,
    Rule::JudgedHere,
    Rule::DropsBeforeRegistering,
    Rule::Window,
    Rule::WindowOutlivesLink,
    Rule::EndsWhenDead,
];

/// Who owns the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// A gateway to which gateway 1 forwards.
    First,
    /// Another one.
    Second,
    /// Gateway 1 itself.
    Here,
}

/// The bounds, and the rules.
#[derive(Clone, Debug)]
pub struct Forwarding {
    /// What requests are dated by.
    pub evidence: Evidence,
    /// What is switched off.
    pub off: u16,
    /// The host's keep-alive, in units of time.
    pub keep_alive: i32,
    /// The oldest that may be carried out, in the same units.
    pub stale_after: i32,
    /// For how long a core may stand still before it drops its hosts.
    pub freeze: i32,
    /// How far clocks may run off.
    pub drift: Drift,
    /// How long what is known of an owner's clock is good for.
    pub clock_lasts: i32,
    /// While nothing is cut, gateway 1 answers the host at once and what is sent arrives at once: a host that gives gateway 1 up by
    /// itself does so a whole keep-alive after a cut.
    pub prompt: bool,
    /// Directions between the host and gateway 1 are cut one by one, too.
    pub one_way: bool,
    /// What the host has sent may still arrive when the host has given it up.
    pub late: bool,
    /// The host closes its connections at any moment, and not only when its keep-alive was not answered.
    pub abrupt: bool,
    /// How often that connection is cut.
    pub cuts: u8,
    /// How often a link between gateways breaks.
    pub breaks: u8,
    /// How often a lease lapses.
    pub lapses: u8,
    /// How often gateway 1 drops its hosts, or tells them that the path fails, of its own accord.
    pub drops: u8,
    /// Whether a second host compares and writes.
    pub compares: bool,
    /// Who owns the volume, one after the other.
    pub owners: Vec<Owner>,
}

impl Default for Forwarding {
    /// The mended rules, with no faults yet, in milliseconds.
    fn default() -> Self {
        Self {
            evidence: Evidence::Answered,
            off: 0,
            keep_alive: 5_000,
            stale_after: 2_500,
            freeze: 1_000,
            drift: Drift(100),
            clock_lasts: 2_500,
            prompt: false,
            one_way: false,
            late: false,
            abrupt: false,
            cuts: 0,
            breaks: 0,
            lapses: 0,
            drops: 0,
            compares: false,
            owners: vec![Owner::First],
        }
    }
}

impl Forwarding {
    /// These rules do not hold.
    #[must_use]
    pub fn without(mut self, rules: &[Rule]) -> Self {
        self.off = rules.iter().fold(self.off, |off, rule| off | 1 << *rule as u8);
        self
    }

    fn holds(&self, rule: Rule) -> bool {
        self.off & 1 << rule as u8 == 0
    }

    /// The most real time that a request may have aged that a judge finds fresh. What is known of the judge's clock is off by as
    /// much as both clocks have run apart since it was heard.
    fn fresh(&self) -> i32 {
        let Drift(drift) = self.drift;
        let apart = i64::from(self.clock_lasts.max(self.stale_after)) * 2 * i64::from(drift) / i64::from(1_000 - drift);
        self.drift.longest(self.stale_after + apart as i32)
    }

    fn largest(&self) -> i32 {
        self.fresh().max(self.drift.longest(self.keep_alive)) + 1
    }

    fn owner(&self, s: &State) -> Owner {
        self.owners[usize::from(s.generation) - 1]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// It has not written yet.
    Idle,
    /// It has written W1 by gateway 1.
    Waiting,
    /// It has given that up, and writes W1 by gateway 2.
    GaveUp,
    /// Gateway 1 has answered.
    Answered,
    /// W1 and then W2 were acknowledged.
    Done,
}

/// Where W1 is at gateway 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// Nowhere.
    None,
    /// On its way from the host.
    Coming,
    /// Not read yet.
    Socket,
    Waiting,
    /// It was sent to the owner.
    Sent,
    Ended,
}

/// What travels between the host and gateway 1 to keep them alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Beat {
    /// Nothing.
    None,
    /// Gateway 1 has answered the host.
    Answer,
    /// The host has the answer; that it has it is on its way back.
    Receipt,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// W1 was carried out after its host had gone on.
    Ghost,
    /// W1 was carried out again after somebody had compared with it, and replaced it.
    Clobber,
}

/// Readings of which the rules speak: clocks of the zone.
mod clock {
    /// Since what the age is counted from.
    pub const EVIDENCE: usize = 1;
    /// Since the host last heard from gateway 1.
    pub const HOST: usize = 2;
    /// The age of what was sent last.
    pub const SENT: usize = 3;
    /// The age of what an owner holds.
    pub const HELD: usize = 4;
    /// Since the answer was sent that is on its way.
    pub const ANSWER: usize = 5;
    /// Since W1 came to gateway 1's socket.
    pub const SOCKET: usize = 6;
    /// One more than there are.
    pub const ALL: usize = 7;
}

/// The whole state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub host: Host,
    /// Nothing comes from the host to gateway 1.
    pub cut_in: bool,
    /// Nothing comes from gateway 1 to the host.
    pub cut_out: bool,
    /// What keeps the connection alive.
    pub beat: Beat,
    /// Gateway 1 has the host's connection.
    pub connected: bool,
    /// W1 at gateway 1.
    pub work: Work,
    /// The generation under which it was sent first; 0: it was not.
    pub first: u8,
    /// The generation named by what is on the link; 0: nothing is.
    pub wire: u8,
    /// The generation named by what waits at an owner, checked; 0: nothing does.
    pub held: u8,
    /// The link by which that came is gone.
    pub orphan: bool,
    /// The answer is on the link.
    pub answer: bool,
    /// The generation whose owner remembers that it has carried W1 out; 0: none.
    pub remembered: u8,
    /// An answer was given from memory.
    pub recalled: bool,
    /// W1 was carried out older than a core may stand still.
    pub patient: bool,
    /// The volume's generation.
    pub generation: u8,
    /// Gateway 1 is registered.
    pub registered: bool,
    /// What the place holds: nothing, W1, W2, or what was written by comparison.
    pub value: u8,
    /// The second host's comparison was acknowledged.
    pub compared: bool,
    /// What may still happen: cuts, breaks, lapses, drops.
    pub left: [u8; 4],
    /// What went wrong.
    pub fault: Option<Fault>,
    /// Time.
    pub zone: Zone<{ clock::ALL }>,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The host writes W1 by gateway 1.
    Write,
    /// W1 comes to gateway 1's socket.
    Arrive,
    /// Gateway 1 reads it.
    Read,
    /// Gateway 1 hears something else of the host, and answers.
    Beat,
    /// Gateway 1 hears something of the host that it does not answer yet.
    Hear,
    /// The answer comes to the host.
    BeatBack,
    /// Gateway 1 learns that the host has the answer.
    BeatSeen,
    /// The host gives up gateway 1.
    GiveUp,
    /// Gateway 1 learns of it.
    Gone,
    /// The host's W1 and W2 are carried out by gateway 2.
    ByOther,
    /// The host's W2 is carried out, after W1 was answered.
    Next,
    /// The second host compares with W1, and writes.
    Compare,
    /// Directions are cut: from the host, to the host.
    Cut(bool, bool),
    Heal,
    /// Gateway 1 sends W1 to the owner.
    Forward,
    /// The owner takes it in, on some core.
    Take,
    /// W1 is refused: from the link, or where it waits.
    Refuse(bool),
    /// W1 is sequenced: from the link, or from where it waits.
    Sequence(bool),
    /// Gateway 1 is the owner, and sequences W1 itself.
    SequenceHere,
    /// Gateway 1 has the owner's answer.
    Answered,
    /// A link between gateways breaks, and is replaced.
    Break,
    /// The volume goes to its next owner.
    Move,
    /// Gateway 1 tells the host that this path fails.
    PathError,
    /// Gateway 1 drops the host's connection.
    Drop,
    /// The lease of gateway 1 lapses.
    Lapse,
    /// Gateway 1 registers again.
    Register,
}

const CUTS: usize = 0;
const BREAKS: usize = 1;
const LAPSES: usize = 2;
const DROPS: usize = 3;

impl Forwarding {
    fn is_near(&self, s: &State) -> bool {
        s.connected && matches!(s.host, Host::Idle | Host::Waiting)
    }

    /// Fresh readings only, where a rule wants that.
    fn judged(&self, s: State, rule: Rule, clock: usize) -> Option<State> {
        if !self.holds(rule) {
            return Some(s);
        }
        let zone = s.zone.at_most(clock, self.fresh())?;
        Some(State { zone, ..s })
    }

    /// Nothing that was sent can be carried out any more: it is meant for an owner that was deposed, or gateway 1 waits for its own
    /// clock to say so.
    fn is_dead(&self, s: State) -> Option<State> {
        if s.first != s.generation && self.holds(Rule::OneGeneration)
            || s.first == 0
            || s.work == Work::Ended
            || !self.holds(Rule::EndsWhenDead)
        {
            return Some(s);
        }
        let zone = s.zone.above(clock::SENT, self.fresh())?;
        Some(State { zone, ..s })
    }

    fn carried_out(&self, s: &mut State, age: usize) {
        s.patient |= s.zone.at_most(age, self.drift.longest(self.freeze)).is_none();
        if self.holds(Rule::Window) && s.remembered == s.generation {
            s.recalled = true;
            return;
        }
        s.fault = match (s.host, s.compared) {
            (Host::Done, _) => Some(Fault::Ghost),
            (_, true) => Some(Fault::Clobber),
            _ => s.fault,
        };
        (s.value, s.remembered) = (1, s.generation);
    }

    fn answer_host(&self, s: &mut State) {
        s.work = Work::Ended;
        if s.connected && s.host == Host::Waiting && !s.cut_out {
            s.host = Host::Answered;
        }
    }

    fn spend(s: &State, what: usize) -> Option<State> {
        let mut next = *s;
        next.left[what] = s.left[what].checked_sub(1)?;
        Some(next)
    }

    fn of_host(&self, s: &State, action: Action) -> Option<State> {
        let mut next = *s;
        match action {
            Action::Write if s.host == Host::Idle && s.connected => {
                (next.host, next.work) = (Host::Waiting, Work::Coming)
            }
            Action::Arrive if s.work == Work::Coming && !s.cut_in => {
                if s.host != Host::Waiting && !self.late {
                    return None;
                }
                next.work = Work::Socket;
                next.zone.reset(clock::SOCKET);
            }
            Action::Read if s.work == Work::Socket => {
                if self.holds(Rule::Pulse) {
                    next.zone = s.zone.at_most(clock::SOCKET, self.drift.longest(self.freeze))?;
                }
                next.work = Work::Waiting;
                if matches!(self.evidence, Evidence::Received | Evidence::Heard) {
                    next.zone.reset(clock::EVIDENCE);
                }
            }
            Action::Beat if self.is_near(s) && s.beat == Beat::None && !s.cut_in => {
                next.beat = Beat::Answer;
                next.zone.reset(clock::ANSWER);
                if self.evidence == Evidence::Heard {
                    next.zone.reset(clock::EVIDENCE);
                }
            }
            Action::Hear if self.is_near(s) && self.evidence == Evidence::Heard && !s.cut_in => {
                next.zone.reset(clock::EVIDENCE);
            }
            Action::BeatBack if self.is_near(s) && s.beat == Beat::Answer && !s.cut_out => {
                next.zone.reset(clock::HOST);
                next.beat = match self.evidence {
                    Evidence::Answered => Beat::Receipt,
                    _ => Beat::None,
                };
            }
            Action::BeatSeen if s.connected && s.beat == Beat::Receipt && !s.cut_in => {
                next.zone.copy(clock::EVIDENCE, clock::ANSWER);
                next.beat = Beat::None;
            }
            Action::GiveUp if s.host == Host::Waiting => {
                if !self.abrupt && (s.connected || s.cut_out) {
                    if self.prompt && !s.cut_in && !s.cut_out {
                        return None;
                    }
                    next.zone = s.zone.at_least(clock::HOST, self.drift.shortest(self.keep_alive))?;
                }
                next.host = Host::GaveUp;
            }
            Action::Gone if s.connected && s.host == Host::GaveUp && !s.cut_in => {
                if matches!(s.work, Work::Coming | Work::Socket) {
                    return None;
                }
                (next.connected, next.work) = (false, Work::Ended);
            }
            Action::ByOther if s.host == Host::GaveUp => (next.host, next.value) = (Host::Done, 2),
            Action::Next if s.host == Host::Answered => (next.host, next.value) = (Host::Done, 2),
            Action::Compare if self.compares && !s.compared && s.value == 1 => (next.compared, next.value) = (true, 3),
            Action::Cut(inward, outward) if !s.cut_in && !s.cut_out => {
                next = Self::spend(s, CUTS)?;
                (next.cut_in, next.cut_out) = (inward, outward);
                if self.prompt {
                    next.zone.reset(clock::HOST);
                }
            }
            Action::Cut(true, true) if s.cut_in != s.cut_out => {
                next = Self::spend(s, CUTS)?;
                (next.cut_in, next.cut_out) = (true, true);
            }
            Action::Heal if s.cut_in || s.cut_out => (next.cut_in, next.cut_out) = (false, false),
            _ => return None,
        }
        Some(next)
    }

    fn of_gateways(&self, s: &State, action: Action) -> Option<State> {
        let mut next = *s;
        let owner = self.owner(s);
        let moved = self.holds(Rule::OneGeneration) && s.first != 0 && s.first != s.generation;
        match action {
            Action::Forward if s.work == Work::Waiting && owner != Owner::Here && s.wire == 0 && !moved => {
                if s.first == 0 {
                    next.first = s.generation;
                }
                (next.work, next.wire) = (Work::Sent, s.generation);
                match self.evidence {
                    Evidence::Sending => next.zone.reset(clock::SENT),
                    _ => next.zone.copy(clock::SENT, clock::EVIDENCE),
                }
            }
            Action::Take if s.wire != 0 && s.held == 0 && (s.registered || !self.holds(Rule::Living)) => {
                if !self.holds(Rule::JudgedWhereSequenced) {
                    next.zone = s.zone.at_most(clock::SENT, self.fresh())?;
                }
                (next.held, next.wire, next.orphan) = (s.wire, 0, false);
                next.zone.copy(clock::HELD, clock::SENT);
            }
            Action::Refuse(from_link) => {
                let (named, age) = if from_link {
                    (s.wire, clock::SENT)
                } else {
                    (s.held, clock::HELD)
                };
                let gone = named != s.generation || (from_link && !s.registered && self.holds(Rule::Living));
                if named == 0 {
                    return None;
                }
                if !gone {
                    next.zone = s.zone.above(age, self.drift.shortest(self.stale_after))?;
                }
                let known = from_link || !s.orphan;
                if from_link {
                    next.wire = 0;
                } else {
                    next.held = 0;
                }
                if known && s.work == Work::Sent {
                    next.work = Work::Waiting;
                }
            }
            Action::Sequence(from_link) => {
                let (named, age) = if from_link {
                    (s.wire, clock::SENT)
                } else {
                    (s.held, clock::HELD)
                };
                let living = s.registered || !from_link || !self.holds(Rule::Living);
                if named == 0 || !living || self.owners[usize::from(named) - 1] != owner || owner == Owner::Here {
                    return None;
                }
                if named != s.generation && self.holds(Rule::NamesGeneration) {
                    return None;
                }
                if from_link || self.holds(Rule::JudgedWhereSequenced) {
                    next.zone = s.zone.at_most(age, self.fresh())?;
                }
                self.carried_out(&mut next, age);
                let known = from_link || !s.orphan;
                if from_link {
                    next.wire = 0;
                } else {
                    next.held = 0;
                }
                next.answer = known && s.work == Work::Sent;
            }
            Action::SequenceHere if s.work == Work::Waiting && owner == Owner::Here && !moved => {
                next = self.judged(next, Rule::JudgedHere, clock::EVIDENCE)?;
                self.carried_out(&mut next, clock::EVIDENCE);
                self.answer_host(&mut next);
            }
            Action::Answered if s.answer => {
                next.answer = false;
                self.answer_host(&mut next);
            }
            Action::Break if s.wire != 0 || s.held != 0 || s.answer => {
                next = Self::spend(s, BREAKS)?;
                (next.wire, next.answer, next.orphan) = (0, false, true);
                if !self.holds(Rule::WindowOutlivesLink) {
                    next.remembered = 0;
                }
                if s.work == Work::Sent {
                    next.work = Work::Waiting;
                }
            }
            Action::Move if usize::from(s.generation) < self.owners.len() => {
                next.generation += 1;
                next.answer = false;
                if s.wire != 0 {
                    // It lies before the old owner, on a link that nobody looks at any more.
                    if s.held == 0 {
                        next.zone.copy(clock::HELD, clock::SENT);
                        next.held = s.wire;
                    }
                    next.wire = 0;
                }
                next.orphan = true;
                if s.work == Work::Sent {
                    next.work = Work::Waiting;
                }
            }
            Action::PathError if s.work == Work::Waiting && s.connected => {
                next = self.is_dead(Self::spend(s, DROPS)?)?;
                next.work = Work::Ended;
                if s.host == Host::Waiting && !s.cut_out {
                    next.host = Host::GaveUp;
                }
            }
            Action::Drop if s.connected => {
                next = self.is_dead(if s.registered { Self::spend(s, DROPS)? } else { *s })?;
                (next.connected, next.work) = (false, Work::Ended);
            }
            Action::Lapse if s.registered => {
                next = Self::spend(s, LAPSES)?;
                next.registered = false;
            }
            Action::Register if !s.registered => {
                if s.connected && self.holds(Rule::DropsBeforeRegistering) {
                    return None;
                }
                next.registered = true;
            }
            _ => return None,
        }
        Some(next)
    }

    /// Forgets what can have no effect any more, and lets time pass.
    fn settle(&self, s: &mut State) {
        if s.work == Work::Ended || s.work == Work::None && !s.connected {
            s.zone.forget(clock::EVIDENCE);
            if s.wire == 0 {
                s.zone.forget(clock::SENT);
            }
        }
        if s.first == 0 {
            s.zone.forget(clock::SENT);
        }
        if s.held == 0 {
            s.zone.forget(clock::HELD);
            s.orphan = false;
        }
        if !s.connected || s.work == Work::Ended || !matches!(s.host, Host::Idle | Host::Waiting) {
            s.beat = if s.beat == Beat::Receipt && s.connected && s.work != Work::Ended {
                Beat::Receipt
            } else {
                Beat::None
            };
        }
        if s.beat == Beat::None {
            s.zone.forget(clock::ANSWER);
        }
        if s.work != Work::Socket {
            s.zone.forget(clock::SOCKET);
        }
        if !matches!(s.host, Host::Idle | Host::Waiting) {
            s.zone.forget(clock::HOST);
        }
        s.zone.pass();
        s.zone.limit(self.largest());
    }
}

/// The name of the property that no old request is carried out.
pub const GHOST: &str = "nothing is carried out for a host that has gone on";
/// The name of the property that no request is carried out twice where somebody may see it.
pub const CLOBBER: &str = "what a comparison has replaced does not come back";
/// What happens somewhere: the host is answered by gateway 1.
pub const ANSWERED: &str = "the host has its answer by gateway 1";
/// What happens somewhere: the host goes on by gateway 2.
pub const WENT_ON: &str = "the host has gone on by gateway 2";
/// What happens somewhere: a request that waited for long was carried out.
pub const PATIENT: &str = "what is older than a core may stand still is carried out";
/// What happens somewhere: a repetition was answered from memory.
pub const RECALLED: &str = "a repetition is answered from memory";

impl Model for Forwarding {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut first = State {
            host: Host::Idle,
            cut_in: false,
            cut_out: false,
            beat: Beat::None,
            connected: true,
            work: Work::None,
            first: 0,
            wire: 0,
            held: 0,
            orphan: false,
            answer: false,
            remembered: 0,
            recalled: false,
            patient: false,
            generation: 1,
            registered: true,
            value: 0,
            compared: false,
            left: [self.cuts, self.breaks, self.lapses, self.drops],
            fault: None,
            zone: Zone::new(),
        };
        self.settle(&mut first);
        vec![first]
    }

    fn actions(&self, s: &State, actions: &mut Vec<Action>) {
        use Action::{
            Answered, Arrive, Beat, BeatBack, BeatSeen, Break, ByOther, Compare, Cut, Drop, Forward, GiveUp, Gone,
            Heal, Hear, Lapse, Move, Next, PathError, Read, Refuse, Register, Sequence, SequenceHere, Take, Write,
        };
        if s.fault.is_some() {
            return;
        }
        actions.extend([
            Write, Arrive, Read, Beat, Hear, BeatBack, BeatSeen, GiveUp, Gone, ByOther, Next, Compare,
        ]);
        actions.extend([Cut(true, true), Heal, Forward, Take, Refuse(true), Refuse(false)]);
        actions.extend([Sequence(true), Sequence(false), SequenceHere, Answered, Break, Move]);
        actions.extend([PathError, Drop, Lapse, Register]);
        if self.one_way {
            actions.extend([Cut(true, false), Cut(false, true)]);
        }
    }

    fn next_state(&self, s: &State, action: Action) -> Option<State> {
        let mut next = self.of_host(s, action).or_else(|| self.of_gateways(s, action))?;
        self.settle(&mut next);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(GHOST, |_, s: &State| s.fault != Some(Fault::Ghost)),
            Property::always(CLOBBER, |_, s: &State| s.fault != Some(Fault::Clobber)),
            Property::sometimes(ANSWERED, |_, s: &State| s.host == Host::Answered),
            Property::sometimes(WENT_ON, |_, s: &State| s.host == Host::Done && s.work == Work::Ended),
            Property::sometimes(PATIENT, |_, s: &State| s.patient),
            Property::sometimes(RECALLED, |_, s: &State| s.recalled),
        ]
    }
}
