//! A planned move inside the owner: a directory and the cores that hold a volume's sequencers, and the messages between
//! them.
//!
//! The directory says `Leave` to each core. A core takes nothing in any more, ends what it has, and says `Left` again
//! and again. When every core has, the volume is released and its leases are given back: whoever still works then may
//! serve a stale read. Where it takes too long the directory says `Stay`, and may be asked again later. Messages
//! between two cores keep their order.

use stateright::{Model, Property};

/// The rule as a switch.
#[derive(Clone, Copy, Debug)]
pub struct HandOver {
    /// `Leave` and `Left` carry the number of the attempt, and only what is said of the present one counts.
    pub numbered: bool,
    /// How often the directory is asked.
    pub asks: u8,
    /// How many pieces of I/O come.
    pub pieces: u8,
}

const CORES: usize = 2;
/// Most messages on a way; a core that cannot say more says it later.
const MOST: usize = 4;

/// What is said, with the number of the attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Word {
    /// By the directory: end what you have.
    Leave(u8),
    /// By the directory: go on.
    Stay,
    /// By a core: nothing is under way here.
    Left(u8),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Core {
    /// The attempt for which it takes nothing in.
    pub leaving: Option<u8>,
    /// I/O is under way.
    pub busy: bool,
    /// What the directory has said and it has not read.
    pub inward: Vec<Word>,
    /// What it has said and the directory has not read.
    pub outward: Vec<Word>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Directory {
    /// The volume is open.
    Open,
    /// It waits for these cores (a mask).
    Leaving(u8),
    /// The volume is released.
    Released,
}

/// The whole state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub directory: Directory,
    /// The newest attempt.
    pub attempt: u8,
    pub cores: [Core; CORES],
    /// How many pieces of I/O may still come.
    pub pieces: u8,
}

/// A step; numbers are cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Another gateway asks for the volume.
    Ask,
    /// It takes too long.
    GiveUp,
    /// I/O begins.
    Begin(usize),
    /// I/O ends.
    End(usize),
    /// A core reads what the directory has said.
    Obey(usize),
    /// A core says that it has nothing under way.
    Say(usize),
    /// The directory reads what a core has said.
    Hear(usize),
}

impl Model for HandOver {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            directory: Directory::Open,
            attempt: 0,
            cores: Default::default(),
            pieces: self.pieces,
        }]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        actions.extend([Action::Ask, Action::GiveUp]);
        for core in 0..CORES {
            actions.extend([Action::Begin(core), Action::End(core), Action::Obey(core)]);
            actions.extend([Action::Say(core), Action::Hear(core)]);
        }
    }

    fn next_state(&self, s: &State, action: Action) -> Option<State> {
        let mut next = s.clone();
        match action {
            Action::Ask if s.directory == Directory::Open && s.attempt < self.asks => {
                next.attempt += 1;
                next.directory = Directory::Leaving((1 << CORES) - 1);
                (next.cores.iter_mut()).for_each(|core| core.inward.push(Word::Leave(next.attempt)));
            }
            Action::GiveUp if matches!(s.directory, Directory::Leaving(_)) => {
                next.directory = Directory::Open;
                next.cores.iter_mut().for_each(|core| core.inward.push(Word::Stay));
            }
            Action::Begin(core) if s.cores[core].leaving.is_none() && !s.cores[core].busy => {
                next.pieces = s.pieces.checked_sub(1)?;
                next.cores[core].busy = true;
            }
            Action::End(core) if s.cores[core].busy => next.cores[core].busy = false,
            Action::Obey(core) if !s.cores[core].inward.is_empty() => {
                let core = &mut next.cores[core];
                core.leaving = match core.inward.remove(0) {
                    Word::Leave(attempt) => Some(attempt),
                    _ => None,
                };
            }
            Action::Say(core) if !s.cores[core].busy && s.cores[core].outward.len() < MOST => {
                let attempt = s.cores[core].leaving?;
                // Saying it twice in a row makes no other run than saying it twice with a pause.
                if s.cores[core].outward.last() == Some(&Word::Left(attempt)) {
                    return None;
                }
                next.cores[core].outward.push(Word::Left(attempt));
            }
            Action::Hear(core) if !s.cores[core].outward.is_empty() => {
                let word = next.cores[core].outward.remove(0);
                if let Directory::Leaving(missing) = s.directory
                    && (word == Word::Left(s.attempt) || !self.numbered)
                {
                    let missing = missing & !(1 << core);
                    next.directory = match missing {
                        0 => Directory::Released,
                        missing => Directory::Leaving(missing),
                    };
                }
            }
            _ => return None,
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ENDED, |_, s: &State| {
                s.directory != Directory::Released || s.cores.iter().all(|core| !core.busy && core.leaving.is_some())
            }),
            Property::sometimes(RELEASED, |_, s: &State| {
                s.directory == Directory::Released && s.attempt > 1 && s.pieces == 0
            }),
        ]
    }
}

/// The name of the property that leases are given back by those only that have ended.
pub const ENDED: &str = "when a volume is released no core works on it, or begins to";
/// What happens somewhere.
pub const RELEASED: &str = "a second attempt succeeds after I/O";

impl HandOver {
    /// What happens by itself some time.
    #[must_use]
    pub fn is_fair(action: &Action) -> bool {
        !matches!(action, Action::Ask | Action::Begin(_))
    }

    /// The volume is either open on every core, or released.
    #[must_use]
    pub fn is_settled(s: &State) -> bool {
        match s.directory {
            Directory::Open => s.cores.iter().all(|core| core.leaving.is_none()),
            Directory::Leaving(_) => false,
            Directory::Released => true,
        }
    }
}
