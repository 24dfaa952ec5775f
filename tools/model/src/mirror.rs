//! Volumes that are mirrored to another cluster (decision 081): points, promotions in order and by force, and splits.
//!
//! Two ends, each with a record of its own that its own cluster keeps, and a set of two volumes of one block each, so that a point of the
//! set that is put together from two moments shows. Contents are the numbers of writes. Of each other the ends know what they saw when
//! they last looked, which may be long ago: a link that is cut is one at which nobody looks. A cluster that is down is one whose steps do not
//! happen. A runner of passes may die with a write on its way, which lands whenever it likes.
//!
//! A point's name is the epoch in which it was cut, and a number. Ends take epochs of their own only (even ones, odd ones), so that none is
//! taken twice.

mod steps;

use stateright::{Model, Property};

/// Ends; volumes of the set.
const TWO: usize = 2;
/// The most points of an end.
const POINTS: usize = 8;
/// The most writes, plus the beginning.
const PAST: usize = 6;

/// A point is a moment.
pub const ONE_MOMENT: &str = "each point of an end is what the set was at one moment";
/// So is what a promoted end begins with.
pub const PROMOTED: &str = "who is promoted begins with what the set was at one moment";
/// Nothing is lost.
pub const NOT_LOST: &str =
    "the end that may be written has all that was acknowledged, unless a forced promotion was said";
/// Never two.
pub const ONE_END: &str = "one end may be written, unless a forced promotion was said";
/// Nothing is thrown away.
pub const KEPT: &str = "what one end alone has goes by an operator's word only";
/// Fail-over in order.
pub const MOVED: &str = "the other end is promoted in order, and written to";
/// And back.
pub const MOVED_BACK: &str = "the first end is promoted again, and written to";
/// A demotion is taken back.
pub const TAKEN_BACK: &str = "a demotion is taken back, and the end is written to again";
/// By force.
pub const FORCED: &str = "an end is promoted by force in the middle of a pass, and written to";
/// A split heals.
pub const HEALED: &str = "an end that was written to behind a split has a later point of the other one";
/// By what differs.
pub const BY_DIFFERENCE: &str = "it has got that by what differs from a common point";

/// What can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rule {
    /// The far end is at a point when all volumes of the set have it.
    Together,
    /// Who is promoted goes back to its point, where a pass was begun since.
    GoBack,
    /// A pass compares with the point that the far end is at, not with one that it was on its way to.
    Base,
    /// Where a point is taken, or gone back to, the stores have adopted the runner's generation.
    Adopted,
    /// The last point of an end that is demoted is cut when nobody can write any more.
    Fenced,
    /// It is promoted in order who is at the last point of who was demoted.
    AtLast,
    /// A demotion is worth something in its own epoch only. Not needed alone.
    Current,
    /// A demotion is taken back when the other end has declined it.
    Declined,
    /// Who has declined a demotion is not promoted by it.
    Word,
    /// Points are named by their epochs, too.
    Epochs,
    /// Who was deposed goes back to a common point before it follows.
    Common,
    /// It does so when nobody can write any more.
    Closed,
    /// Who follows without a common point has no point until all was copied.
    Whole,
    /// An end whose point the other one has not got waits for an operator's word.
    Waits,
}

/// The rules, and the size.
#[derive(Clone, Copy, Debug)]
pub struct Mirror {
    /// What is switched off.
    pub off: u16,
    /// The most writes, points that are cut by time, demotions, promotions by force, deaths of runners, and points that are lost.
    pub writes: u8,
    pub cuts: u8,
    pub demotions: u8,
    pub forces: u8,
    pub deaths: u8,
    pub losses: u8,
}

impl Mirror {
    /// The same without this rule.
    #[must_use]
    pub fn without(self, rule: Rule) -> Self {
        Self {
            off: self.off | 1 << rule as u16,
            ..self
        }
    }

    fn keeps(self, rule: Rule) -> bool {
        self.off & (1 << rule as u16) == 0
    }
}

/// What the record of an end says that it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// Hosts may write.
    #[default]
    Primary,
    /// No more: its last point is being cut.
    Demoting,
    /// It follows, or is free to be followed.
    Secondary,
    /// It is made what its point is.
    Promoting,
    /// It has heard of a later epoch, and has what the other end has not.
    Deposed,
}

/// What the two volumes are.
pub type Set = [u8; TWO];

/// The name of a point: its epoch and its number. Later ones are larger.
pub type Key = (u8, u8);

/// A pass that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pass {
    /// The point.
    pub to: Key,
    /// What each volume is to be; none: it is that.
    pub left: [Option<u8>; TWO],
    /// Nothing was compared.
    pub whole: bool,
}

/// What an end shows to the other one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shown {
    pub role: Role,
    pub epoch: u8,
    /// The point that a secondary is at.
    pub point: Option<Key>,
    /// It was demoted in order, in its epoch, and `point` is its last one.
    pub handed: bool,
    /// The epoch whose demotion it has declined, plus one.
    pub declined: u8,
    /// The points that it has.
    pub has: [Option<Key>; POINTS],
}

/// An end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct End {
    /// Its record.
    pub record: Shown,
    /// What the points are.
    pub points: [Set; POINTS],
    /// What the volumes are.
    pub heads: Set,
    /// Owners that serve hosts.
    pub open: [bool; TWO],
    /// The number of the newest point that it knows.
    pub number: u8,
    /// A pass was begun since the point.
    pub begun: Option<Key>,
    /// The pass.
    pub pass: Option<Pass>,
    /// A write of a runner that is dead: the volume, and what it would be.
    pub late: Option<(u8, u8)>,
    /// What it knows of the other end.
    pub seen: Shown,
    /// It was deposed.
    pub was_deposed: bool,
}

/// The whole state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    pub ends: [End; TWO],
    /// Writes that were acknowledged: what the set was behind each.
    pub past: [Set; PAST],
    pub given: u8,
    /// What the set is, by the newest epoch.
    pub truth: Set,
    /// A promotion by force was said, and the ends have not agreed since.
    pub said: bool,
    /// What was done so far.
    pub cuts: u8,
    pub demotions: u8,
    pub forces: u8,
    pub deaths: u8,
    pub losses: u8,
    /// What began was no moment.
    pub mixed: bool,
    /// An end has followed by itself, and had what the other one had not.
    pub given_up: bool,
    /// What has been seen.
    pub moved: [bool; TWO],
    pub back: bool,
    pub forced: bool,
    pub healed: bool,
    pub differed: bool,
}

/// A step, of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A host writes to a volume, and is told so.
    Write(usize, usize),
    /// A gateway opens a volume for hosts.
    Open(usize, usize),
    /// It knows that it may not any more: all stores have adopted another generation.
    Close(usize, usize),
    /// It looks at the other end.
    Look(usize),
    /// The near end cuts a point: all volumes at one moment.
    Cut(usize),
    /// A runner of the far end begins a pass to the near end's newest point.
    Begin(usize),
    /// A volume is that.
    Bring(usize, usize),
    /// The far end is at the point.
    Arrive(usize),
    /// Its runner dies.
    Die(usize),
    /// What it had sent lands.
    Land(usize),
    /// An operator demotes it.
    Demote(usize),
    /// It is demoted: its last point is cut.
    Hand(usize),
    /// An operator promotes it in order.
    Promote(usize),
    /// An operator promotes it by force.
    Force(usize),
    /// It has declined the other end's demotion.
    Decline(usize),
    /// It takes its demotion back.
    TakeBack(usize),
    /// It is what it is to begin with.
    Ready(usize),
    /// It hears of a later epoch, and closes: it was not demoted, or the other end has not got its last point.
    Depose(usize),
    /// What was deposed is to follow.
    Resync(usize),
    /// A secondary whose point the other end has goes over to a later epoch.
    Follow(usize),
    /// Its oldest point is lost.
    Lose(usize),
}

impl State {
    fn is_moment(&self, set: Set) -> bool {
        self.past[..=usize::from(self.given)].contains(&set)
    }

    /// The newest epoch that an end has.
    fn newest(&self) -> u8 {
        self.ends.iter().map(|end| end.record.epoch).max().unwrap_or_default()
    }

    fn holds(&self, end: &End) -> bool {
        end.record.role != Role::Primary || end.record.epoch != self.newest() || self.said || end.heads == self.truth
    }
}

impl End {
    fn place(&self, key: Key) -> Option<usize> {
        self.record.has.iter().position(|found| *found == Some(key))
    }

    fn add(&mut self, key: Key, set: Set) -> bool {
        let free = self.record.has.iter().position(Option::is_none);
        let Some(place) = self.place(key).or(free) else {
            return false;
        };
        (self.record.has[place], self.points[place]) = (Some(key), set);
        self.number = self.number.max(key.1);
        true
    }

    fn forget(&mut self, which: impl Fn(Key) -> bool) {
        let mut kept: Vec<(Key, Set)> = (self.record.has.iter().zip(self.points))
            .filter_map(|(key, set)| key.filter(|key| !which(*key)).map(|key| (key, set)))
            .collect();
        kept.sort_unstable();
        (self.record.has, self.points) = ([None; POINTS], [Set::default(); POINTS]);
        for (place, (key, set)) in kept.into_iter().enumerate() {
            (self.record.has[place], self.points[place]) = (Some(key), set);
        }
    }

    fn newest(&self) -> Option<Key> {
        self.record.has.iter().flatten().max().copied()
    }

    /// The runner stands still, perhaps with a write on its way.
    fn leave(&mut self) {
        let Some(pass) = self.pass.take() else { return };
        let sent = pass
            .left
            .iter()
            .zip(0..)
            .find_map(|(left, volume)| left.map(|value| (volume, value)));
        self.late = self.late.or(sent);
    }
}

impl Model for Mirror {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State::default();
        for end in &mut state.ends {
            end.add((0, 0), Set::default());
        }
        let far = &mut state.ends[1].record;
        (far.role, far.point) = (Role::Secondary, Some((0, 0)));
        for one in 0..TWO {
            state.ends[one].seen = state.ends[1 - one].record;
        }
        vec![state]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        for end in 0..TWO {
            for volume in 0..TWO {
                actions.extend([
                    Action::Write(end, volume),
                    Action::Open(end, volume),
                    Action::Close(end, volume),
                    Action::Bring(end, volume),
                ]);
            }
            actions.extend([
                Action::Look(end),
                Action::Cut(end),
                Action::Begin(end),
                Action::Arrive(end),
                Action::Die(end),
                Action::Land(end),
                Action::Demote(end),
                Action::Hand(end),
                Action::Promote(end),
                Action::Force(end),
                Action::Decline(end),
                Action::TakeBack(end),
                Action::Ready(end),
                Action::Depose(end),
                Action::Resync(end),
                Action::Follow(end),
                Action::Lose(end),
            ]);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        let may = self.volume_step(&mut next, action)
            || self.pass_step(&mut next, action)
            || self.role_step(&mut next, action);
        if next.ends[0].record.epoch == next.ends[1].record.epoch {
            next.said = false;
        }
        (may && next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_MOMENT, |_, s: &State| {
                s.ends.iter().all(|end| {
                    let there = end.record.has.iter().zip(end.points).filter(|(key, _)| key.is_some());
                    there.map(|(_, set)| set).all(|set| s.is_moment(set))
                })
            }),
            Property::always(PROMOTED, |_, s: &State| !s.mixed),
            Property::always(NOT_LOST, |_, s: &State| s.ends.iter().all(|end| s.holds(end))),
            Property::always(ONE_END, |_, s: &State| {
                s.said || s.ends.iter().any(|end| end.open == [false; TWO])
            }),
            // Where points are lost, what was there may be there no more.
            Property::always(KEPT, |_, s: &State| !s.given_up || s.losses > 0),
            Property::sometimes(MOVED, |_, s: &State| s.moved[1] && s.forces == 0),
            Property::sometimes(MOVED_BACK, |_, s: &State| s.moved == [true; TWO] && s.forces == 0),
            Property::sometimes(TAKEN_BACK, |_, s: &State| s.back && s.moved[0] && s.forces == 0),
            Property::sometimes(FORCED, |_, s: &State| s.forced && s.moved[1]),
            Property::sometimes(HEALED, |_, s: &State| s.healed),
            Property::sometimes(BY_DIFFERENCE, |_, s: &State| s.healed && s.differed),
        ]
    }
}
