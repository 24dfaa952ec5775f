//! What each end does.

use super::{Action, End, Key, Mirror, Pass, Role, Rule, Set, State, TWO};

/// The next epoch of its own that is larger than all that it knows.
fn epoch(s: &State, one: usize) -> u8 {
    let end = &s.ends[one];
    let known = end.record.epoch.max(end.seen.epoch);
    if known % 2 == one as u8 { known + 2 } else { known + 1 }
}

/// The name of the next point that it cuts.
fn key(rules: Mirror, end: &End) -> Key {
    let epoch = if rules.keeps(Rule::Epochs) { end.record.epoch } else { 0 };
    (epoch, end.number + 1)
}

/// The newest point that both have, as far as this end knows.
fn common(end: &End) -> Option<Key> {
    let there = end.record.has.iter().flatten();
    there.filter(|key| end.seen.has.contains(&Some(**key))).max().copied()
}

impl Mirror {
    pub(super) fn volume_step(self, s: &mut State, action: Action) -> bool {
        match action {
            Action::Write(one, volume) => {
                let newest = s.newest();
                let end = &mut s.ends[one];
                if !end.open[volume] || s.given >= self.writes {
                    return false;
                }
                s.given += 1;
                end.heads[volume] = s.given;
                s.past[usize::from(s.given)] = end.heads;
                let role = end.record.role;
                if end.record.epoch == newest && matches!(role, Role::Primary | Role::Demoting) {
                    s.truth = end.heads;
                }
                s.moved[one] |= end.record.epoch > 0;
                true
            }
            Action::Open(one, volume) => {
                let end = &mut s.ends[one];
                let may = end.record.role == Role::Primary && !end.open[volume];
                end.open[volume] |= may;
                may
            }
            Action::Close(one, volume) => {
                let end = &mut s.ends[one];
                let may = end.record.role != Role::Primary && end.open[volume];
                end.open[volume] &= !may;
                may
            }
            Action::Look(one) => {
                s.ends[one].seen = s.ends[1 - one].record;
                true
            }
            Action::Cut(one) => {
                let end = &mut s.ends[one];
                if end.record.role != Role::Primary || s.cuts >= self.cuts {
                    return false;
                }
                s.cuts += 1;
                let (key, set) = (key(self, end), end.heads);
                end.add(key, set)
            }
            Action::Lose(one) => {
                let end = &mut s.ends[one];
                let oldest = end.record.has.iter().flatten().min().copied();
                let many = end.record.has.iter().flatten().count() > 1;
                let Some(oldest) = oldest.filter(|key| many && end.record.point != Some(*key)) else {
                    return false;
                };
                end.forget(|key| key == oldest);
                s.losses += 1;
                s.losses <= self.losses
            }
            _ => false,
        }
    }

    pub(super) fn pass_step(self, s: &mut State, action: Action) -> bool {
        match action {
            Action::Begin(one) => {
                let other = s.ends[1 - one];
                let end = &mut s.ends[one];
                // The request names the epoch, and the near end compares it.
                let follows = end.record.role == Role::Secondary && other.record.epoch == end.record.epoch;
                let serves = other.record.role == Role::Primary || other.record.handed;
                let Some(to) = other.newest().filter(|to| Some(*to) != end.record.point) else {
                    return false;
                };
                if !follows || !serves || end.pass.is_some() {
                    return false;
                }
                let base = match end.begun {
                    Some(begun) if !self.keeps(Rule::Base) => Some(begun),
                    _ => end.record.point,
                };
                let base = base.and_then(|key| other.place(key)).map(|place| other.points[place]);
                let target = other.place(to).map(|place| other.points[place]).unwrap_or_default();
                let mut left = [None; TWO];
                for volume in 0..TWO {
                    let differs = base.is_none_or(|base| base[volume] != target[volume]);
                    left[volume] = differs.then_some(target[volume]);
                }
                end.begun = Some(to);
                end.pass = Some(Pass {
                    to,
                    left,
                    whole: base.is_none(),
                });
                true
            }
            Action::Bring(one, volume) => {
                let end = &mut s.ends[one];
                let Some(value) = end.pass.as_mut().and_then(|pass| pass.left[volume].take()) else {
                    return false;
                };
                end.heads[volume] = value;
                // Its stores adopt a runner's generation with its first write, and refuse older ones.
                end.late = end.late.filter(|(of, _)| usize::from(*of) != volume);
                true
            }
            Action::Arrive(one) => {
                let end = &mut s.ends[one];
                let Some(pass) = end.pass else { return false };
                let is_there = |left: &Option<u8>| left.is_none();
                let whole = pass.left.iter().all(is_there);
                if !whole && (self.keeps(Rule::Together) || !pass.left.iter().any(is_there)) {
                    return false;
                }
                if self.keeps(Rule::Adopted) {
                    end.late = None;
                }
                (end.record.point, end.begun, end.pass) = (Some(pass.to), None, None);
                s.healed |= end.was_deposed;
                s.differed |= end.was_deposed && !pass.whole;
                end.add(pass.to, end.heads)
            }
            Action::Die(one) => {
                let end = &mut s.ends[one];
                let may = end.pass.is_some() && s.deaths < self.deaths;
                end.leave();
                s.deaths += 1;
                may
            }
            Action::Land(one) => {
                let end = &mut s.ends[one];
                let Some((volume, value)) = end.late.take() else {
                    return false;
                };
                end.heads[usize::from(volume)] = value;
                true
            }
            _ => false,
        }
    }

    pub(super) fn role_step(self, s: &mut State, action: Action) -> bool {
        match action {
            Action::Demote(one) => {
                let end = &mut s.ends[one];
                let may = end.record.role == Role::Primary && s.demotions < self.demotions;
                end.record.role = Role::Demoting;
                s.demotions += 1;
                may
            }
            Action::Hand(one) => {
                let end = &mut s.ends[one];
                let closed = end.open == [false; TWO] || !self.keeps(Rule::Fenced);
                if end.record.role != Role::Demoting || !closed {
                    return false;
                }
                let (key, set) = (key(self, end), end.heads);
                end.begun = None;
                (end.record.role, end.record.handed, end.record.point) = (Role::Secondary, true, Some(key));
                end.add(key, set)
            }
            Action::Promote(one) => {
                let epoch = epoch(s, one);
                let end = &mut s.ends[one];
                let (own, seen) = (end.record, end.seen);
                let is_free = own.role == Role::Secondary && seen.role == Role::Secondary && seen.handed;
                let current = seen.epoch >= own.epoch || !self.keeps(Rule::Current);
                let at_last = own.point == seen.point || !self.keeps(Rule::AtLast);
                let open = own.declined <= seen.epoch || !self.keeps(Rule::Word);
                let may = is_free && current && at_last && open && own.point.is_some();
                end.begin(epoch);
                may
            }
            Action::Force(one) => {
                let epoch = epoch(s, one);
                let end = &mut s.ends[one];
                let own = end.record;
                let has = own.point.is_some() || !self.keeps(Rule::Whole);
                // One that was deposed keeps what it is.
                let may = own.role == Role::Deposed || own.role == Role::Secondary && has;
                let may = may && s.forces < self.forces;
                s.forced |= end.begun.is_some();
                end.begin(epoch);
                s.said = true;
                s.forces += 1;
                may
            }
            Action::Decline(one) => {
                let end = &mut s.ends[one];
                let (own, seen) = (end.record, end.seen);
                let is_free = own.role == Role::Secondary && seen.role == Role::Secondary && seen.handed;
                end.record.declined = seen.epoch + 1;
                is_free && seen.epoch >= own.epoch && own.declined <= seen.epoch
            }
            Action::TakeBack(one) => {
                let epoch = epoch(s, one);
                let end = &mut s.ends[one];
                let (own, seen) = (end.record, end.seen);
                let declined = match self.keeps(Rule::Declined) {
                    true => seen.declined == own.epoch + 1,
                    false => seen.role == Role::Secondary && seen.epoch <= own.epoch,
                };
                let may = own.role == Role::Secondary && own.handed && declined;
                end.begin(epoch);
                s.back = true;
                may
            }
            Action::Ready(one) => self.ready(s, one),
            Action::Depose(one) => {
                let end = &mut s.ends[one];
                // What the other one has not got may be all that there is of it.
                let follows = end.record.role == Role::Secondary && end.is_known();
                let may = !follows && end.record.role != Role::Deposed && end.seen.epoch > end.record.epoch;
                end.leave();
                (end.record.role, end.record.handed, end.was_deposed) = (Role::Deposed, false, true);
                may
            }
            Action::Resync(one) => {
                let end = &mut s.ends[one];
                let seen = end.seen;
                let closed = end.open == [false; TWO] || !self.keeps(Rule::Closed);
                let serves = seen.role == Role::Primary || seen.handed;
                if end.record.role != Role::Deposed || !closed || !serves || seen.epoch <= end.record.epoch {
                    return false;
                }
                let common = common(end);
                end.record.role = Role::Secondary;
                (end.record.epoch, end.record.point) = (seen.epoch, common);
                if let Some(place) = common.and_then(|key| end.place(key))
                    && self.keeps(Rule::Common)
                {
                    end.go_back(end.points[place], self.keeps(Rule::Adopted));
                }
                if common.is_none() && !self.keeps(Rule::Whole) {
                    end.record.point = end.newest();
                }
                end.begun = None;
                end.forget(|key| common.is_none_or(|common| key > common));
                true
            }
            Action::Follow(one) => {
                let end = &mut s.ends[one];
                let seen = end.seen;
                let serves = seen.role == Role::Primary || seen.handed;
                let follows = end.record.role == Role::Secondary && (end.is_known() || !self.keeps(Rule::Waits));
                let may = follows && serves && seen.epoch > end.record.epoch;
                end.leave();
                (end.record.epoch, end.record.handed) = (seen.epoch, false);
                let point = end.record.point.and_then(|key| end.place(key));
                let point = point.map(|place| end.points[place]);
                s.given_up |= may && point.is_some_and(|set| !s.ends[1 - one].has_been(set));
                may
            }
            _ => false,
        }
    }

    fn ready(self, s: &mut State, one: usize) -> bool {
        let newest = s.newest();
        let end = &mut s.ends[one];
        if end.record.role != Role::Promoting {
            return false;
        }
        let is_newest = end.record.epoch == newest;
        let place = end.record.point.and_then(|key| end.place(key));
        let point = place.map(|place| end.points[place]);
        if let Some(point) = point.filter(|_| end.begun.is_some() && self.keeps(Rule::GoBack)) {
            end.go_back(point, self.keeps(Rule::Adopted));
        }
        end.begun = None;
        end.record.role = Role::Primary;
        let heads = end.heads;
        s.mixed |= !s.is_moment(heads);
        if s.said && is_newest {
            s.truth = heads;
        }
        true
    }
}

impl End {
    /// Has the other end the point that this one is at? One that is at none has nothing to lose.
    fn is_known(&self) -> bool {
        self.record.point.is_none() || self.seen.has.contains(&self.record.point)
    }

    /// Is one of its points this?
    fn has_been(&self, set: Set) -> bool {
        let there = self.record.has.iter().zip(self.points);
        there.filter(|(key, _)| key.is_some()).any(|(_, found)| found == set)
    }

    /// It is to be promoted, in this epoch.
    fn begin(&mut self, epoch: u8) {
        self.leave();
        (self.record.role, self.record.epoch, self.record.handed) = (Role::Promoting, epoch, false);
    }

    /// All volumes are what they were at a point, and nothing of a runner of before lands there.
    fn go_back(&mut self, set: Set, adopted: bool) {
        self.heads = set;
        if adopted {
            self.late = None;
        }
    }
}
