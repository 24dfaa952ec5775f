//! A volume that moves to another pool (M1 to M6 of decision 080): the last pass, and the switch.
//!
//! A volume of one chunk has two stores in its pool, and its target two in the other one. Its first owner may stand still at any moment, and a
//! second one take the volume over. A mover has made a pass, or is at it still, when its lease ends; a second one goes on. Contents are
//! the numbers of writes: a larger one is newer. Passes before the last one stand for all of them.

use stateright::{Model, Property};

/// Stores of each pool.
const STORES: usize = 2;
/// Owners of the volume in its old pool, and movers.
const TWO: usize = 2;
/// Last snapshots.
const MOST_CUTS: u8 = 2;

/// Nothing is lost.
pub const NOT_LOST: &str = "what the name stands for has all that was acknowledged";
/// Nothing old is shown.
pub const NOT_STALE: &str = "no read shows less than was acknowledged before it";
/// It ends.
pub const MOVED: &str = "a volume is moved, and written to in its new pool";
/// It is given up.
pub const TAKEN_OVER: &str = "a switch that was sent fails, because the volume was taken over";
/// It is tried again.
pub const LET_GO: &str = "an owner lets go, and the volume is moved later";

/// What can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rule {
    /// M1: the switch compares the generation under which the last snapshot was sealed.
    Compare,
    /// M2: the owner gives nothing out from the last snapshot on.
    Hold,
    /// M3: nor does it answer reads.
    HoldReads,
    /// M4: it lets go only behind a transaction that takes back what the record says of it, and that the switch compares.
    Record,
    /// M5: the target's stores have adopted the generation of whoever made the last pass.
    Adopted,
    /// M6: what the volume was is opened by nobody behind the switch.
    OldName,
}

/// The rules.
#[derive(Clone, Copy, Debug)]
pub struct Moving {
    /// What is switched off.
    pub off: u8,
    /// The most writes.
    pub writes: u8,
}

impl Moving {
    /// The same without this rule.
    #[must_use]
    pub fn without(self, rule: Rule) -> Self {
        Self {
            off: self.off | 1 << rule as u8,
            ..self
        }
    }

    fn keeps(self, rule: Rule) -> bool {
        self.off & (1 << rule as u8) == 0
    }
}

/// The chunk on a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Store {
    /// The generation that it has adopted.
    pub fence: u8,
    /// The newest write that it has.
    pub value: u8,
}

/// How far an owner goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Hold {
    /// It serves.
    #[default]
    No,
    /// It has taken the last snapshot, and gives nothing out.
    Holds,
    /// It knows that the name stands for the target.
    Gone,
}

/// An owner of the volume in its old pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owner {
    /// It has opened the chunk.
    pub open: bool,
    /// The write that it has given out, and that is not acknowledged; 0: none.
    pub out: u8,
    /// How far it goes.
    pub hold: Hold,
}

/// The transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sent {
    /// Nobody has sent it.
    #[default]
    No,
    /// It is on its way, for a snapshot of this generation, and the how manieth last one it is.
    Of(u8, u8),
    /// It was refused.
    Refused,
    /// It was made.
    Made,
}

/// The whole state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// The volume's generation in the old pool.
    pub generation: u8,
    /// Its stores there.
    pub old: [Store; STORES],
    /// Its owners there.
    pub owners: [Owner; TWO],
    /// The stores of the target.
    pub new: [Store; STORES],
    /// Which mover has the lease.
    pub mover: u8,
    /// What the first mover's pass brings, and to which stores it has.
    pub pass: Option<u8>,
    pub brought: [bool; STORES],
    /// The last snapshot: the generation under which it was sealed, and what it has.
    pub last: Option<(u8, u8)>,
    /// How many last snapshots were taken.
    pub cuts: u8,
    /// The volume's record says that its owner holds.
    pub held: bool,
    /// The switch.
    pub sent: Sent,
    /// Its owner in the new pool has opened it.
    pub opened: bool,
    /// Writes that were given out.
    pub given: u8,
    /// The newest that is acknowledged.
    pub acknowledged: u8,
    /// A read has shown less.
    pub stale: bool,
    /// An owner has let go.
    pub let_go: bool,
    /// It was written to in the new pool.
    pub written: bool,
    /// A switch was refused.
    pub refused: bool,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// An owner gives a write out.
    Give(usize),
    /// It is on a store.
    Land(usize, usize),
    /// It is acknowledged.
    Acknowledge(usize),
    /// An owner answers a read.
    Read(usize),
    /// A second owner raises the volume's generation.
    Raise,
    /// A store of the old pool adopts it.
    Fence(usize),
    /// It makes the copies equal, and serves.
    Open,
    /// The first mover begins its pass, to a snapshot that was sealed by then.
    Pass,
    /// What it brings is on a store: whenever that may be.
    Bring(usize),
    /// Its lease ends, and the second mover comes.
    Claim,
    /// A store of the target adopts the mover's generation.
    Adopt(usize),
    /// An owner takes the last snapshot: all stores have adopted its generation.
    Cut(usize),
    /// The mover brings it to a store.
    BringLast(usize),
    /// The owner lets go.
    LetGo(usize),
    /// The mover sends the switch.
    Send,
    /// The metadata decides.
    Decide,
    /// The owner hears what it has decided.
    Hear(usize),
    /// The mover hears that it was refused.
    Again,
    /// An owner opens the target: its stores adopt it, and are made equal.
    OpenNew,
    /// A write there.
    WriteNew,
}

/// The generation of an owner, or of a mover, by its place.
fn generation(place: usize) -> u8 {
    place as u8 + 1
}

impl Moving {
    fn owner_step(self, s: &mut State, action: Action) -> bool {
        match action {
            Action::Give(owner) => {
                let at = &mut s.owners[owner];
                let held = at.hold != Hold::No && (self.keeps(Rule::Hold) || at.hold == Hold::Gone);
                let may = at.open && at.out == 0 && !held && s.given < self.writes;
                s.given += 1;
                at.out = s.given;
                may
            }
            Action::Land(owner, store) => {
                let (write, at) = (s.owners[owner].out, &mut s.old[store]);
                let may = write > at.value && at.fence <= generation(owner);
                at.value = write;
                may
            }
            Action::Acknowledge(owner) => {
                let write = s.owners[owner].out;
                let may = write > 0 && s.old.iter().all(|store| store.value >= write);
                s.owners[owner].out = 0;
                s.acknowledged = s.acknowledged.max(write);
                may
            }
            Action::Read(owner) => {
                let at = s.owners[owner];
                let held = at.hold == Hold::Gone || at.hold == Hold::Holds && self.keeps(Rule::HoldReads);
                let may = at.open && !held && s.old[0].fence <= generation(owner) && s.old[0].value < s.acknowledged;
                s.stale = true;
                may
            }
            Action::Raise => {
                let may = s.generation == 1 && (s.sent != Sent::Made || !self.keeps(Rule::OldName));
                (s.generation, s.held) = (2, false);
                may
            }
            Action::Fence(store) => {
                let may = s.generation == 2 && s.old[store].fence == 1;
                s.old[store].fence = 2;
                may
            }
            Action::Open => {
                let may = s.old.iter().all(|store| store.fence == 2) && !s.owners[1].open;
                let newest = s.old.iter().map(|store| store.value).max().unwrap_or_default();
                s.old.iter_mut().for_each(|store| store.value = newest);
                s.owners[1].open = true;
                may
            }
            Action::Cut(owner) => {
                let at = &mut s.owners[owner];
                let adopted = s.old.iter().all(|store| store.fence == generation(owner));
                let may = at.open && at.out == 0 && at.hold == Hold::No && adopted && s.cuts < MOST_CUTS;
                at.hold = Hold::Holds;
                s.last = Some((generation(owner), s.old[0].value));
                (s.cuts, s.held) = (s.cuts + 1, true);
                // The record is of its owner's generation still, and of this volume.
                may && s.generation == generation(owner) && s.sent != Sent::Made
            }
            Action::LetGo(owner) => {
                let is_ours = s.generation == generation(owner) && s.sent != Sent::Made;
                let is_others = s.generation != generation(owner);
                let at = &mut s.owners[owner];
                let may = at.hold == Hold::Holds && (is_ours || is_others || !self.keeps(Rule::Record));
                at.hold = Hold::No;
                s.let_go = true;
                s.held &= !(is_ours && self.keeps(Rule::Record));
                may
            }
            Action::Hear(owner) => {
                let at = &mut s.owners[owner];
                let may = at.hold == Hold::Holds && s.sent == Sent::Made;
                at.hold = Hold::Gone;
                may
            }
            _ => false,
        }
    }

    fn mover_step(self, s: &mut State, action: Action) -> bool {
        match action {
            Action::Pass => {
                let may = s.pass.is_none() && s.mover == 1;
                s.pass = Some(s.old.iter().map(|store| store.value).min().unwrap_or_default());
                may
            }
            Action::Bring(store) => {
                let may = s.pass.is_some() && !s.brought[store] && s.new[store].fence <= 1;
                s.brought[store] = true;
                s.new[store].value = s.pass.unwrap_or_default();
                may
            }
            Action::Claim => {
                let may = s.mover == 1;
                s.mover = 2;
                may
            }
            Action::Adopt(store) => {
                let at = &mut s.new[store];
                let may = at.fence < s.mover;
                at.fence = s.mover;
                may
            }
            Action::BringLast(store) => {
                let Some((_, value)) = s.last else { return false };
                let at = &mut s.new[store];
                // The first mover makes its passes one after the other.
                let may = at.fence <= s.mover && at.value != value && (s.mover == 2 || s.brought[store]);
                at.value = value;
                may && s.sent == Sent::No && !s.opened
            }
            Action::Send => {
                let adopted = s.new.iter().all(|store| store.fence == s.mover) || !self.keeps(Rule::Adopted);
                let Some((of, _)) = s.last else { return false };
                let may = s.sent == Sent::No && s.is_brought() && adopted;
                s.sent = Sent::Of(of, s.cuts);
                may
            }
            Action::Again => {
                let may = s.sent == Sent::Refused;
                s.sent = Sent::No;
                may
            }
            Action::Decide => {
                let Sent::Of(of, cut) = s.sent else { return false };
                let is_it = s.generation == of && s.held && s.cuts == cut || !self.keeps(Rule::Compare);
                s.sent = if is_it { Sent::Made } else { Sent::Refused };
                s.refused |= !is_it;
                true
            }
            Action::OpenNew => {
                let may = s.sent == Sent::Made && !s.opened;
                let newest = s.new.iter().map(|store| store.value).max().unwrap_or_default();
                s.new = [Store {
                    fence: 3,
                    value: newest,
                }; STORES];
                s.opened = true;
                may
            }
            Action::WriteNew => {
                let may = s.opened && s.given < self.writes;
                s.given += 1;
                s.new.iter_mut().for_each(|store| store.value = s.given);
                (s.acknowledged, s.written) = (s.given, true);
                may
            }
            _ => false,
        }
    }
}

impl State {
    /// Is the last snapshot on all stores of the target?
    fn is_brought(&self) -> bool {
        self.last
            .is_some_and(|(_, value)| self.new.iter().all(|store| store.value == value))
    }
}

impl Model for Moving {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let store = Store { fence: 1, value: 0 };
        let mut state = State {
            generation: 1,
            old: [store; STORES],
            mover: 1,
            ..State::default()
        };
        state.owners[0].open = true;
        vec![state]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        actions.extend([
            Action::Raise,
            Action::Open,
            Action::Pass,
            Action::Claim,
            Action::Send,
            Action::Again,
            Action::Decide,
            Action::OpenNew,
            Action::WriteNew,
        ]);
        for one in 0..TWO {
            actions.extend([
                Action::Give(one),
                Action::Acknowledge(one),
                Action::Read(one),
                Action::Cut(one),
                Action::LetGo(one),
                Action::Hear(one),
            ]);
        }
        for store in 0..STORES {
            actions.extend((0..TWO).map(|owner| Action::Land(owner, store)));
            actions.extend([
                Action::Fence(store),
                Action::Bring(store),
                Action::Adopt(store),
                Action::BringLast(store),
            ]);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        if self.owner_step(&mut next, action) {
            return Some(next);
        }
        next = *state;
        self.mover_step(&mut next, action).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NOT_LOST, |_, s: &State| {
                s.sent != Sent::Made || s.new.iter().all(|store| store.value >= s.acknowledged)
            }),
            Property::always(NOT_STALE, |_, s: &State| !s.stale),
            Property::sometimes(MOVED, |_, s: &State| s.written),
            Property::sometimes(TAKEN_OVER, |_, s: &State| s.refused),
            Property::sometimes(LET_GO, |_, s: &State| s.let_go && s.written),
        ]
    }
}
