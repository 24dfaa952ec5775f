//! Who reads a snapshot when (S7): one chunk on two members, snapshot 1, and readers that ask the members themselves.
//!
//! The first owner gives out W1 and takes snapshot 1, before or after it; the second one may do so too. A takeover fences the members one after the
//! other, makes unequal copies equal by what is sent behind each other on a link, and evicts one of them. A reader looks at the
//! records, asks one member after the other, and may be as late as it likes. What readers have found is compared.

use stateright::{Model, Property};

/// Members.
const MEMBERS: usize = 2;
/// Owners.
const OWNERS: usize = 2;

/// A sealed snapshot does not change.
pub const FINAL: &str = "everybody who reads a snapshot reads the same";
/// It is read.
pub const READ: &str = "a snapshot is read by somebody who is not its owner, with W1";
/// It is read without W1.
pub const WITHOUT: &str = "a snapshot without W1 is read";
/// It is read after a takeover and an eviction.
pub const LATER: &str = "a snapshot is read after a takeover and an eviction";

/// What can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rule {
    /// A snapshot is read by others when it is sealed.
    Sealed,
    /// It is sealed when nothing older is without its acknowledgement.
    Settled,
    /// All members in sync are asked, and say the same.
    AskAll,
    /// A member has adopted the epoch under which it is asked.
    AdoptedEpoch,
    /// It has adopted the generation that took the snapshot, or a later one.
    AdoptedGeneration,
    /// A number is taken when all stores have adopted its owner's generation (S2).
    FencesFirst,
    /// Before the seal the owner waits for older writes of the chunk.
    OwnerWaits,
}

/// The rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct Share {
    /// What is switched off.
    pub off: u8,
}

impl Share {
    /// The same without this rule.
    #[must_use]
    pub fn without(self, rule: Rule) -> Self {
        Self {
            off: self.off | 1 << rule as u8,
        }
    }

    fn keeps(self, rule: Rule) -> bool {
        self.off & (1 << rule as u8) == 0
    }
}

/// A member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// The generation and the epoch that it has adopted.
    pub fence: (u8, u8),
    /// It has W1.
    pub has: bool,
    /// A roll-forward with W1 is on its way to it.
    pub rolling: bool,
}

/// W1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Write {
    /// Who gave it out; 0: nobody.
    pub owner: u8,
    /// Its number.
    pub number: u8,
    /// It is acknowledged.
    pub acknowledged: bool,
}

/// Somebody who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reader {
    /// The epoch and the members as it has read them.
    pub epoch: u8,
    /// Members in sync, as bits.
    pub in_sync: u8,
    /// What they have said.
    pub answers: [Option<bool>; MEMBERS],
}

/// The whole state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The volume's generation.
    pub generation: u8,
    /// Who took the number; 0: nobody has.
    pub taken: u8,
    /// It is sealed.
    pub sealed: bool,
    /// The group's epoch.
    pub epoch: u8,
    /// Members in sync, as bits.
    pub in_sync: u8,
    /// The members.
    pub members: [Member; MEMBERS],
    /// The owners that have adopted the number, as bits.
    pub adopted: u8,
    /// The owner that has the chunk open.
    pub open: u8,
    /// W1.
    pub write: Write,
    /// Who reads at present.
    pub reader: Option<Reader>,
    /// What was read: without W1, with W1.
    pub read: [bool; 2],
}

/// A step. Owners are numbered from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// W1 gets its version.
    Give(u8),
    /// It reaches a member.
    Land(usize),
    /// It is acknowledged.
    Acknowledge,
    /// Snapshot 1 is taken.
    Take(u8),
    /// Its owner's core adopts it.
    Adopt(u8),
    /// It is sealed.
    Seal(u8),
    /// The volume is taken over.
    Raise,
    /// A member adopts generation and epoch.
    Fence(usize),
    /// The chunk is opened: copies are equal, or what the longer one has is sent to the other.
    Open,
    /// It arrives.
    Rolled(usize),
    /// The owner evicts a member.
    Evict(usize),
    /// The owner reads the snapshot.
    Own(u8),
    /// A reader reads the records.
    Look,
    /// It asks a member.
    Ask(usize),
    /// It believes what it has heard.
    Believe,
}

impl Share {
    fn step(self, s: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Give(owner) => {
                let may = s.write.owner == 0 && s.open >= owner && s.generation >= owner;
                (s.write.owner, s.write.number) = (owner, (s.adopted >> owner) & 1);
                may.then_some(())
            }
            Action::Land(m) => {
                let member = &mut s.members[m];
                let may = !member.has && s.write.owner > 0 && member.fence.0 == s.write.owner && !s.write.acknowledged;
                member.has = true;
                may.then_some(())
            }
            Action::Acknowledge => {
                let all = (s.members.iter().enumerate()).all(|(m, member)| s.in_sync & (1 << m) == 0 || member.has);
                // Whoever was deposed knows the members of before.
                let all = all && (s.write.owner == s.generation || s.members.iter().all(|member| member.has));
                let may = all && s.write.owner > 0 && !s.write.acknowledged;
                s.write.acknowledged = true;
                may.then_some(())
            }
            Action::Take(owner) => {
                let fenced = self.fenced(s, owner) || !self.keeps(Rule::FencesFirst);
                let may = s.taken == 0 && s.generation == owner && fenced;
                s.taken = owner;
                may.then_some(())
            }
            Action::Adopt(owner) => {
                let may = s.taken == owner && s.adopted & (1 << owner) == 0;
                s.adopted |= 1 << owner;
                may.then_some(())
            }
            Action::Seal(owner) => {
                let settled = s.write.owner != owner || s.write.number > 0 || s.write.acknowledged;
                let may = s.taken == owner && s.generation == owner && s.adopted & (1 << owner) != 0 && !s.sealed;
                s.sealed = true;
                (may && (settled || !self.keeps(Rule::Settled))).then_some(())
            }
            Action::Raise => {
                let may = s.generation == 1;
                s.generation = 2;
                if s.taken > 0 && !s.sealed {
                    // Void; the next owner may take another one, which this model calls by the same name. Who has read the void
                    // one reads it no more.
                    s.taken = 0;
                    s.read = [false; 2];
                    s.reader = None;
                }
                // The next owner carries the number that it reads from its first write on.
                s.adopted |= u8::from(s.taken > 0) << 2;
                may.then_some(())
            }
            Action::Fence(m) => {
                let member = &mut s.members[m];
                let may = member.fence != (s.generation, s.epoch) && s.in_sync & (1 << m) != 0;
                // What was sent before on this link has arrived.
                let may = may && !member.rolling;
                member.fence = (s.generation, s.epoch);
                may.then_some(())
            }
            Action::Open => {
                let may = s.open < s.generation
                    && self.fenced(s, s.generation)
                    && s.members.iter().all(|member| !member.rolling);
                let longest = s.in_sync_members().any(|m| s.members[m].has);
                let mut equal = true;
                for m in s.in_sync_members() {
                    s.members[m].rolling = longest && !s.members[m].has;
                    equal &= !s.members[m].rolling;
                }
                if equal {
                    s.open = s.generation;
                }
                may.then_some(())
            }
            Action::Rolled(m) => {
                let member = &mut s.members[m];
                let may = member.rolling;
                (member.rolling, member.has) = (false, true);
                may.then_some(())
            }
            Action::Evict(m) => {
                let may = s.in_sync == 0b11;
                s.in_sync &= !(1 << m);
                s.epoch += 1;
                may.then_some(())
            }
            Action::Own(owner) => {
                let mine =
                    s.taken == owner && s.adopted & (1 << owner) != 0 && s.open == owner && s.generation == owner;
                let waits = s.write.owner == owner
                    && s.write.number == 0
                    && !s.write.acknowledged
                    && self.keeps(Rule::OwnerWaits);
                let m = s.in_sync_members().next()?;
                if !mine || waits || !self.fenced(s, owner) {
                    return None;
                }
                s.read[usize::from(s.inside(m))] = true;
                Some(())
            }
            Action::Look => {
                let may = s.reader.is_none() && s.taken > 0 && (s.sealed || !self.keeps(Rule::Sealed));
                s.reader = Some(Reader {
                    epoch: s.epoch,
                    in_sync: s.in_sync,
                    answers: [None; MEMBERS],
                });
                may.then_some(())
            }
            Action::Ask(m) => {
                let inside = s.inside(m);
                let reader = s.reader.as_mut()?;
                let member = s.members[m];
                let epoch = member.fence.1 == reader.epoch || !self.keeps(Rule::AdoptedEpoch);
                let generation = member.fence.0 >= s.taken || !self.keeps(Rule::AdoptedGeneration);
                if reader.in_sync & (1 << m) == 0 || reader.answers[m].is_some() || !epoch || !generation {
                    return None;
                }
                reader.answers[m] = Some(inside);
                Some(())
            }
            Action::Believe => {
                let reader = s.reader.take()?;
                let mut heard = reader.answers.iter().flatten();
                let first = *heard.next()?;
                let all = (0..MEMBERS).all(|m| reader.in_sync & (1 << m) == 0 || reader.answers[m] == Some(first));
                s.read[usize::from(first)] = true;
                (all || !self.keeps(Rule::AskAll)).then_some(())
            }
        }
    }

    fn fenced(self, s: &State, owner: u8) -> bool {
        s.in_sync_members().all(|m| s.members[m].fence == (owner, s.epoch))
    }
}

impl State {
    fn in_sync_members(&self) -> impl Iterator<Item = usize> + use<> {
        let in_sync = self.in_sync;
        (0..MEMBERS).filter(move |m| in_sync & (1 << m) != 0)
    }

    /// W1 belongs to the snapshot, by what a member has.
    fn inside(&self, m: usize) -> bool {
        self.members[m].has && self.write.number == 0
    }
}

impl Model for Share {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let member = Member {
            fence: (1, 1),
            has: false,
            rolling: false,
        };
        vec![State {
            generation: 1,
            taken: 0,
            sealed: false,
            epoch: 1,
            in_sync: 0b11,
            members: [member; MEMBERS],
            adopted: 0,
            open: 1,
            write: Write::default(),
            reader: None,
            read: [false; 2],
        }]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        actions.extend([
            Action::Acknowledge,
            Action::Raise,
            Action::Open,
            Action::Look,
            Action::Believe,
        ]);
        for owner in 1..=OWNERS as u8 {
            actions.extend([
                Action::Give(owner),
                Action::Take(owner),
                Action::Adopt(owner),
                Action::Seal(owner),
                Action::Own(owner),
            ]);
        }
        for m in 0..MEMBERS {
            actions.extend([
                Action::Land(m),
                Action::Fence(m),
                Action::Rolled(m),
                Action::Evict(m),
                Action::Ask(m),
            ]);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        self.step(&mut next, action)?;
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(FINAL, |_, s: &State| s.read != [true; 2]),
            Property::sometimes(READ, |_, s: &State| s.read[1]),
            Property::sometimes(WITHOUT, |_, s: &State| s.read[0] && s.write.acknowledged),
            Property::sometimes(LATER, |_, s: &State| {
                s.read[1] && s.generation == 2 && s.in_sync != 0b11 && s.taken == 2
            }),
        ]
    }
}
