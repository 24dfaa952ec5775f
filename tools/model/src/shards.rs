//! The sequencers of one volume on the cores of one gateway, while other gateways take it over and it comes back.
//!
//! Core 0 has the directory: when the volume was opened under a new generation it tells each core to make a sequencer. A sequencer
//! that finds itself deposed stops, and its core tells the others to drop theirs. Messages between two cores keep their order; those
//! of two senders do not.

use stateright::{Model, Property};

/// The rules as switches.
#[derive(Clone, Copy, Debug)]
pub struct Shards {
    /// A core that is told to make a sequencer stops the older one that it finds: its I/O ends as lost.
    pub stops_older: bool,
    /// A core remembers the newest generation that it was told to drop, and makes no sequencer of that one or an older one.
    pub remembers: bool,
    /// Only core 0 tells cores what to do: who finds itself deposed tells core 0.
    pub one_sender: bool,
    /// How often another gateway takes the volume over.
    pub takeovers: u8,
    /// How many pieces of I/O come.
    pub pieces: u8,
}

/// Cores, the directory's included.
const CORES: usize = 3;

/// What cores say to one another, with a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Word {
    /// Make a sequencer.
    Make(u8),
    Drop(u8),
    /// To core 0: a sequencer was deposed.
    Deposed(u8),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Core {
    /// The generation of its sequencer; 0: it has none.
    pub shard: u8,
    /// The generation of the sequencer that has I/O under way; 0: none.
    pub busy: u8,
    /// The newest generation that it was told to drop, where it remembers.
    pub dropped: u8,
    /// What each core has said to it and it has not read.
    pub inward: [Vec<Word>; CORES],
}

/// The whole state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The generation in the metadata.
    pub generation: u8,
    /// The generation under which the directory has it open; 0: it does not.
    pub open: u8,
    pub cores: [Core; CORES],
    /// How often it may still be taken over, and how many pieces may still come.
    pub left: (u8, u8),
    /// Some I/O has ended as lost.
    pub lost: bool,
}

/// A step; numbers are cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Another gateway takes the volume over.
    TakeOver,
    /// It is opened here again.
    Open,
    /// A piece of I/O begins.
    Begin(usize),
    End(usize),
    /// A sequencer finds itself deposed.
    Stop(usize),
    /// A core reads what another one has said.
    Read(usize, usize),
}

impl Shards {
    fn tell_all(s: &mut State, from: usize, word: Word) {
        s.cores.iter_mut().for_each(|core| core.inward[from].push(word));
    }

    fn drop_shard(&self, s: &mut State, at: usize, generation: u8) {
        if at == 0 && s.open == generation {
            s.open = 0;
        }
        let core = &mut s.cores[at];
        if self.remembers {
            core.dropped = core.dropped.max(generation);
        }
        if core.shard == generation {
            s.lost |= core.busy == generation;
            core.busy = if core.busy == generation { 0 } else { core.busy };
            core.shard = 0;
        }
    }

    fn read(&self, s: &mut State, at: usize, word: Word) {
        match word {
            Word::Make(generation) if self.remembers && generation <= s.cores[at].dropped => {}
            Word::Make(generation) => {
                let core = &mut s.cores[at];
                if self.stops_older && core.busy != 0 {
                    (core.busy, s.lost) = (0, true);
                }
                core.shard = generation;
            }
            Word::Drop(generation) => self.drop_shard(s, at, generation),
            Word::Deposed(generation) => Self::tell_all(s, 0, Word::Drop(generation)),
        }
    }

    /// What happens by itself some time.
    #[must_use]
    pub fn is_fair(s: &State, action: &Action) -> bool {
        match action {
            Action::End(_) | Action::Read(..) => true,
            // A sequencer that asks stores for something is told; word of the record's change may have come before there was one.
            Action::Stop(at) => s.cores[*at].busy != 0,
            _ => false,
        }
    }

    /// No I/O is under way.
    #[must_use]
    pub fn is_idle(s: &State) -> bool {
        s.cores.iter().all(|core| core.busy == 0)
    }

    /// Every core has the sequencer that the directory thinks it has.
    #[must_use]
    pub fn agrees(s: &State) -> bool {
        s.cores.iter().all(|core| core.shard == s.open)
    }
}

/// The name of the property that a core has one sequencer of a volume, of a generation that was ours.
pub const ONE: &str = "no sequencer has a generation that was never raised";
/// What happens somewhere: I/O ends as lost.
pub const LOST: &str = "I/O ends as lost";
/// What happens somewhere: the volume comes back and is used.
pub const BACK: &str = "the volume is open again on every core, with I/O";

impl Model for Shards {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let core = Core {
            shard: 1,
            ..Core::default()
        };
        vec![State {
            generation: 1,
            open: 1,
            cores: [core.clone(), core.clone(), core],
            left: (self.takeovers, self.pieces),
            lost: false,
        }]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        actions.extend([Action::TakeOver, Action::Open]);
        for core in 0..CORES {
            actions.extend([Action::Begin(core), Action::End(core), Action::Stop(core)]);
            actions.extend((0..CORES).map(|from| Action::Read(from, core)));
        }
    }

    fn next_state(&self, s: &State, action: Action) -> Option<State> {
        let mut next = s.clone();
        match action {
            // Only what is open here is worth taking over.
            Action::TakeOver if s.open == s.generation => {
                next.left.0 = s.left.0.checked_sub(1)?;
                next.generation += 1;
            }
            Action::Open if s.open == 0 => {
                next.generation += 1;
                next.open = next.generation;
                let word = Word::Make(next.open);
                Self::tell_all(&mut next, 0, word);
            }
            Action::Begin(at) if s.cores[at].shard != 0 && s.cores[at].busy == 0 => {
                next.left.1 = s.left.1.checked_sub(1)?;
                next.cores[at].busy = s.cores[at].shard;
            }
            // Only the sequencer that has begun it can end it.
            Action::End(at) if s.cores[at].busy != 0 && s.cores[at].busy == s.cores[at].shard => {
                if s.cores[at].busy != s.generation {
                    return None;
                }
                next.cores[at].busy = 0;
            }
            // A sequencer hears of it by what it asks the stores, or by the record's change.
            Action::Stop(at) if s.cores[at].shard != 0 && s.cores[at].shard < s.generation => {
                let generation = s.cores[at].shard;
                let core = &mut next.cores[at];
                if core.busy == generation {
                    (core.busy, next.lost) = (0, true);
                }
                if self.one_sender {
                    core.shard = 0;
                    next.cores[0].inward[at].push(Word::Deposed(generation));
                } else {
                    self.drop_shard(&mut next, at, generation);
                    for to in (0..CORES).filter(|to| *to != at) {
                        next.cores[to].inward[at].push(Word::Drop(generation));
                    }
                }
            }
            Action::Read(from, at) if !s.cores[at].inward[from].is_empty() => {
                let word = next.cores[at].inward[from].remove(0);
                self.read(&mut next, at, word);
            }
            _ => return None,
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE, |_, s: &State| {
                s.cores.iter().all(|core| core.shard.max(core.busy) <= s.generation)
            }),
            Property::sometimes(LOST, |_, s: &State| s.lost),
            Property::sometimes(BACK, |_, s: &State| {
                s.open > 1 && s.cores.iter().all(|core| core.shard == s.open) && !Self::is_idle(s)
            }),
        ]
    }
}
