//! What a chunk is for its snapshots (S5, S6), and what may be trimmed (S9): one chunk, its members, and one that comes back.
//!
//! A write carries the newest number. A store that meets a larger one keeps the chunk as it was: a state, which is named by the
//! version that it ends with. Members are evicted and come back; snapshots are taken, sealed and deleted; owners change, and make
//! copies equal in one record. A member that comes back is *incomplete* until its head and every live snapshot are what the others
//! have: the states are framed, mended, called whole, and then the head is.
//!
//! # Coarser than life
//! An owner lists, compares and says `Whole` in one step (in life `Whole` goes behind the writes that were compared, on one link); a
//! state's content is right or wrong as a whole; a takeover's fences and roll-forwards are one step; nobody crashes. What a state shares with its neighbours is the store's, not the protocol's.

use stateright::{Model, Property};

mod chunk;
mod steps;

pub use chunk::{Chunk, Role, View, WRITES};

/// Stores, at most.
pub const STORES: usize = 3;
/// Snapshots, at most.
pub const SNAPSHOTS: usize = 2;

/// What being in sync means.
pub const WHOLE: &str = "a store in sync has every sealed and live snapshot, and the head";
/// A snapshot was brought to a member that had not been there.
pub const BROUGHT: &str = "a store that was away when a snapshot was taken is alone in sync";
/// Both snapshots were.
pub const BOTH: &str = "a store has brought two snapshots";
/// A deleted snapshot's state goes.
pub const TRIMMED: &str = "a deleted snapshot is trimmed, and a newer one is sealed";
/// An owner ends what another one has begun.
pub const RESUMED: &str = "a second owner promotes a store that the first one had begun to bring up to date";

/// What can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rule {
    /// S5: an incomplete chunk makes no state.
    IncompleteMakesNone,
    /// S2: a raise voids a number that is not sealed, so that a roll-forward may be one record.
    Void,
    /// S6: live snapshots are brought, not heads alone.
    States,
    /// S6: snapshots that the owner has adopted since it read which are live are needed too.
    AdoptedSince,
    /// S6: a state that is being brought is durably open.
    OpenDurably,
    /// S6: states are brought before the head is called whole, which is what a chunk that has joined lacks durably.
    StatesFirst,
    /// States are brought of sealed snapshots only.
    SealedOnly,
    /// States are brought when the source has all older writes of the chunk.
    SettledAtSource,
    /// S9: numbers above what a list goes up to are live.
    UpTo,
    /// S9: a state that stands for several snapshots goes with the last of them.
    LastOfState,
}

/// The bounds, and the rules.
#[derive(Clone, Copy, Debug)]
pub struct States {
    /// What is switched off.
    pub off: u16,
    /// Stores, at most [`STORES`].
    pub stores: usize,
    /// Writes, at most [`WRITES`].
    pub writes: u8,
    /// Snapshots that are taken, at most [`SNAPSHOTS`].
    pub snapshots: u8,
    /// How often a member is evicted.
    pub evictions: u8,
    /// How often one comes back.
    pub returns: u8,
    /// How often the volume is taken over.
    pub raises: u8,
    /// Snapshots that are deleted.
    pub deletions: u8,
}

impl Default for States {
    fn default() -> Self {
        Self {
            off: 0,
            stores: 2,
            writes: 3,
            snapshots: 2,
            evictions: 2,
            returns: 1,
            raises: 1,
            deletions: 0,
        }
    }
}

impl States {
    /// The same without this rule.
    #[must_use]
    pub fn without(self, rule: Rule) -> Self {
        Self {
            off: self.off | 1 << rule as u16,
            ..self
        }
    }

    fn keeps(&self, rule: Rule) -> bool {
        self.off & (1 << rule as u16) == 0
    }
}

/// The volume's records, and the writes of the chunk as all owners together have ordered them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Volume {
    /// The number of each write; versions count from 1, and 0 is what was there before.
    pub numbers: Vec<u8>,
    /// Versions that no store in sync had when the chunk was opened, as bits.
    pub lost: u8,
    /// The newest number.
    pub number: u8,
    /// Numbers that are sealed, and that are live (taken, neither void nor deleted), as bits.
    pub sealed: u8,
    /// See above.
    pub live: u8,
}

impl Volume {
    /// The number of a version.
    #[must_use]
    pub fn number_of(&self, version: u8) -> u8 {
        match version {
            0 => 0,
            version => self.numbers[usize::from(version) - 1],
        }
    }

    /// Versions of the history, in order.
    pub fn versions(&self) -> impl DoubleEndedIterator<Item = u8> + '_ {
        (0..=self.numbers.len() as u8).filter(|version| self.lost & (1 << version) == 0)
    }

    /// With which version a snapshot ends.
    #[must_use]
    pub fn end_of(&self, number: u8) -> u8 {
        let mut older = self.versions().filter(|version| self.number_of(*version) < number);
        older.next_back().unwrap_or(0)
    }
}

/// What the owner knows and no store or record does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Snapshots that a member must have, as bits.
    pub needed: u8,
    /// The state under way: store, number, version, and whether its content has been sent.
    pub bringing: Option<(u8, u8, u8, bool)>,
    /// With [`Rule::StatesFirst`] off: states that are still to be brought, as bits.
    pub todo: u8,
    /// It has taken over.
    pub second: bool,
}

/// The whole state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Records and history.
    pub volume: Volume,
    /// The chunk on each store.
    pub chunks: [Chunk; STORES],
    /// The owner.
    pub owner: Owner,
    /// What may still happen: evictions, returns, takeovers, deletions.
    pub left: [u8; 4],
}

impl State {
    /// Stores in sync.
    pub fn in_sync(&self) -> impl Iterator<Item = usize> + '_ {
        (0..STORES).filter(|store| self.chunks[*store].role == Role::InSync)
    }

    fn whole(&self) -> bool {
        self.in_sync().all(|store| {
            let chunk = &self.chunks[store];
            let head = !chunk.incomplete && !chunk.holes;
            let numbers =
                (1..=SNAPSHOTS as u8).filter(|number| self.volume.sealed & self.volume.live & (1 << number) != 0);
            head && { numbers }.all(|number| {
                let view = chunk.view(number);
                view.version == self.volume.end_of(number) && view.good && !view.open
            })
        })
    }
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The owner gives a write out.
    Write,
    /// A store has the next one.
    Apply(usize),
    /// A snapshot is taken.
    Take,
    /// It is sealed.
    Seal,
    /// A snapshot is deleted.
    Delete(u8),
    /// A store is told what is kept.
    Tell(usize),
    /// It trims a state.
    Trim(usize, u8),
    /// A member leaves.
    Evict(usize),
    /// A store is listed as syncing.
    Return(usize),
    /// It joins the chunk's history.
    Join(usize),
    /// What differs in its head is mended.
    MendHead(usize),
    /// A state is begun there.
    Frame(usize, u8),
    /// Its content is sent.
    Mend,
    /// It is called whole.
    Whole,
    /// The head is called whole.
    WholeHead(usize),
    /// It is claimed, and promoted.
    Promote(usize),
    /// The volume is taken over, and the chunk is opened.
    Raise,
}

impl Model for States {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut chunks: [Chunk; STORES] = Default::default();
        for chunk in &mut chunks[..self.stores] {
            chunk.role = Role::InSync;
        }
        vec![State {
            volume: Volume {
                numbers: Vec::new(),
                lost: 0,
                number: 0,
                sealed: 0,
                live: 0,
            },
            chunks,
            owner: Owner::default(),
            left: [self.evictions, self.returns, self.raises, self.deletions],
        }]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        actions.extend([
            Action::Write,
            Action::Take,
            Action::Seal,
            Action::Mend,
            Action::Whole,
            Action::Raise,
        ]);
        actions.extend((1..=self.snapshots).map(Action::Delete));
        for store in 0..self.stores {
            actions.extend([
                Action::Apply(store),
                Action::Evict(store),
                Action::Return(store),
                Action::Join(store),
            ]);
            actions.extend([
                Action::MendHead(store),
                Action::WholeHead(store),
                Action::Promote(store),
            ]);
            if self.deletions > 0 {
                actions.push(Action::Tell(store));
            }
            actions.extend(
                (1..=self.snapshots).flat_map(|number| [Action::Frame(store, number), Action::Trim(store, number)]),
            );
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        self.step(&mut next, action)?;
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(WHOLE, |_, s: &State| s.whole()),
            Property::sometimes(BROUGHT, |_, s: &State| {
                s.in_sync().count() == 1 && s.in_sync().any(|store| s.chunks[store].brought != 0)
            }),
            Property::sometimes(BOTH, |_, s: &State| s.chunks.iter().any(|chunk| chunk.brought == 0b110)),
            Property::sometimes(TRIMMED, |_, s: &State| {
                s.volume.sealed == 0b110 && s.in_sync().any(|store| s.chunks[store].trimmed)
            }),
            Property::sometimes(RESUMED, |_, s: &State| {
                s.owner.second
                    && s.in_sync()
                        .any(|store| s.chunks[store].brought != 0 && s.chunks[store].resumed)
            }),
        ]
    }
}
