//! The steps of an end, as the model has them (`tools/model/src/mirror`), under the names of decision 081's rules.

use super::Refused;
use crate::faults::{Fault, is_off};
use amita_types::map::{
    MAX_POINTS, Mirror, MirrorPass, MirrorRole, PassPlace, Point, PointName, Returning, Seen, Standing,
};
use amita_types::{MirrorEpoch, VolumeId};

/// The longest name of a mirror: those of its snapshots, which have a point, an epoch and a part of its number behind it, are names still.
pub const MAX_NAME_BYTES: usize = 64;
/// The shortest interval between points, and the usual one, in seconds.
pub const LEAST_INTERVAL_S: u64 = 10;
/// The same where nobody says.
pub const DEFAULT_INTERVAL_S: u64 = 60;
/// A secondary keeps at most so many points beside the one that it is at: the common one, and one that comes, have room still.
pub const MOST_KEPT: usize = MAX_POINTS - 4;
/// A primary keeps so many points, the newest, that the other end has not said it is at: one of them is what that brings.
pub const UNCLAIMED_POINTS: usize = 8;
/// The other end's epoch is at most so much above all that this one knows, and a point's number at most this: what is larger is no count of
/// promotions, or of points, and would leave no room above it.
const MAX_EPOCHS_AHEAD: u64 = 1 << 20;
const MAX_NUMBER: u64 = 1 << 48;

type Result<T> = std::result::Result<T, Refused>;

/// What somebody has to do for an end, next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// As primary: cut points when it is asked, and let old ones go.
    Serve,
    /// Close all volumes, cut the last point, and hand over.
    HandOver,
    /// Make all volumes what its point is, open them, and say that it is primary.
    BecomePrimary,
    /// Close all volumes, and wait.
    Wait,
    /// Bring its volumes back to the common point.
    Return,
    /// Follow a primary, or one that was handed over.
    Follow,
    /// Go over to a later epoch.
    GoOver,
    /// Close at once: a later epoch was heard of.
    Depose,
    /// Nothing: its removal was begun.
    Leave,
}

/// What a pass is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    pub to: PointName,
    pub base: Option<PointName>,
}

/// What a mirror's snapshots of a point are called.
#[must_use]
pub fn snapshots_of(mirror: &Mirror, point: PointName) -> String {
    format!("mirror-{}-{point}", called(mirror))
}

/// What a mirror is called in its snapshots' names: a part of its number is in it, for what a mirror of the same name has left stays the operator's.
pub(crate) fn called(mirror: &Mirror) -> String {
    let name: String = mirror.name.chars().take(MAX_NAME_BYTES).collect();
    let number: String = mirror.id.to_string().chars().take(8).collect();
    format!("{name}-{number}")
}

/// The label by which a mirror's snapshots are known.
#[must_use]
pub fn label_of(mirror: &Mirror) -> (String, String) {
    (super::MIRROR_LABEL.to_owned(), mirror.id.to_string())
}

/// The newest point that both have, as far as one knows.
#[must_use]
pub fn common(own: &Standing, other: &Standing) -> Option<PointName> {
    let there = own.points.iter().map(|point| point.name);
    there.filter(|name| other.find(*name).is_some()).max()
}

/// How old the point is that a secondary is at, in seconds: by the other end's clock, which has said when it was cut and what the time is; since
/// then by this one's. None: it is at none, or the other end was never seen.
#[must_use]
pub fn lag(mirror: &Mirror, now: u64) -> Option<u64> {
    let point = mirror.standing.find(mirror.standing.point?)?;
    let seen = mirror.seen.as_ref()?;
    let since = now.saturating_sub(seen.at);
    // That clock was set back since: by it the point is of later, and would be of no age until it comes there again.
    if let Some(arrived_at) = point.arrived_at.filter(|_| point.cut_at > seen.clock) {
        return Some(now.saturating_sub(arrived_at));
    }
    Some(seen.clock.saturating_sub(point.cut_at).saturating_add(since))
}

/// Can the other end be that? What is noted of it stands in this cluster's metadata, and the next epoch and the next number are taken above it: one
/// that shows more than can be noted, or what leaves no room, is not believed.
///
/// # Errors
/// It cannot be: why.
pub fn check(own: &Mirror, other: &Standing) -> Result<()> {
    let absurd = |why: String| Err(Refused::Absurd(why));
    if other.points.len() > MAX_POINTS {
        return absurd(format!("{} points; {MAX_POINTS} are the most", other.points.len()));
    }
    let heard = own.seen.as_ref().map_or(MirrorEpoch(0), |seen| seen.standing.epoch);
    let most = own.standing.epoch.max(heard).0.saturating_add(MAX_EPOCHS_AHEAD);
    if other.epoch.0 > most || other.declined.is_some_and(|declined| declined.0 > most) {
        return absurd(format!("epoch {}, far above all that are known here", other.epoch));
    }
    // Who may be written, or was, is in an epoch that it has taken itself. Whoever follows is in this end's.
    let has_taken = match other.role {
        MirrorRole::Primary | MirrorRole::Demoting | MirrorRole::Promoting => true,
        MirrorRole::Secondary => other.handed,
        MirrorRole::Deposed => false,
    };
    if has_taken && (other.epoch.0 % 2 == 1) == own.odd {
        return absurd(format!(
            "{}, in epoch {}, which is one of this end's",
            other.role, other.epoch
        ));
    }
    let names = other.points.iter().map(|point| point.name).chain(other.point);
    for name in names {
        if name.epoch > other.epoch || name.number > MAX_NUMBER {
            return absurd(format!("point {name} in epoch {}", other.epoch));
        }
    }
    Ok(())
}

/// The steps of an end. Each says no, or changes the record, which is then written if nobody has changed it meanwhile.
pub(crate) trait Steps {
    fn next(&self) -> Next;
    fn next_epoch(&self) -> MirrorEpoch;
    fn is_known(&self) -> bool;
    fn see(&mut self, seen: Seen) -> Result<()>;
    fn begin_cut(&mut self, epoch: MirrorEpoch, now: u64) -> Result<Point>;
    fn end_cut(&mut self, point: &Point) -> Result<()>;
    fn demote(&mut self) -> Result<()>;
    fn hand(&mut self, last: &Point) -> Result<()>;
    fn begin_pass(&mut self, sizes: &[u64]) -> Result<Begun>;
    fn arrive(&mut self, to: PointName, snapshots: String, now: u64) -> Result<()>;
    fn promote(&mut self) -> Result<()>;
    fn force(&mut self) -> Result<()>;
    fn decline(&mut self) -> Result<()>;
    fn take_back(&mut self) -> Result<()>;
    fn gone_back(&mut self, snapshots: String) -> Result<()>;
    fn ready(&mut self) -> Result<()>;
    fn depose(&mut self, heard: MirrorEpoch) -> Result<()>;
    fn follow(&mut self) -> Result<()>;
    fn begin_return(&mut self) -> Result<Option<PointName>>;
    fn give_up_return(&mut self, is_given_up: bool) -> bool;
    fn returned(&mut self, volume: VolumeId) -> Result<()>;
    fn end_return(&mut self, snapshots: String) -> Result<()>;
    fn let_go(&mut self) -> Vec<Point>;
    fn leave(&mut self, deletes: bool) -> Result<()>;
}

fn role(mirror: &Mirror, wanted: MirrorRole, text: &'static str) -> Result<()> {
    match mirror.standing.role == wanted {
        true => stays(mirror),
        false => Err(wrong(mirror, text)),
    }
}

/// Its removal was not begun.
fn stays(mirror: &Mirror) -> Result<()> {
    match mirror.leaving {
        true => Err(Refused::Leaving),
        false => Ok(()),
    }
}

fn wrong(mirror: &Mirror, wanted: &'static str) -> Refused {
    Refused::Role {
        is: mirror.standing.role,
        handed: mirror.standing.handed,
        wanted,
    }
}

fn joined(mirror: &Mirror) -> Result<()> {
    match mirror.joining {
        true => Err(Refused::Joining),
        false => Ok(()),
    }
}

/// Nothing has gone back.
const NOT_BEGUN: Returning = Returning {
    to: None,
    done: Vec::new(),
    were: Vec::new(),
    given_up: false,
};

fn seen(mirror: &Mirror) -> Result<&Standing> {
    mirror.seen.as_ref().map(|seen| &seen.standing).ok_or(Refused::Unheard)
}

/// The other end was demoted in order, and this one may be promoted by that: its last point.
fn handed(mirror: &Mirror) -> Result<(MirrorEpoch, PointName)> {
    // To decline is allowed to one that is being removed, too.
    if mirror.standing.role != MirrorRole::Secondary {
        return Err(wrong(mirror, "a secondary"));
    }
    let other = seen(mirror)?;
    let last = other
        .point
        .filter(|_| other.role == MirrorRole::Secondary && other.handed);
    // T7: what was handed over in an epoch of before is worth nothing.
    match last.filter(|_| other.epoch >= mirror.standing.epoch) {
        Some(last) => Ok((other.epoch, last)),
        None => Err(Refused::NotHanded {
            is: other.role,
            epoch: other.epoch,
        }),
    }
}

/// It is to be promoted: no pass goes on.
fn begin_promotion(mirror: &mut Mirror, epoch: MirrorEpoch) {
    mirror.pass = None;
    mirror.cutting = None;
    mirror.returning = None;
    // One that was being left is not; records of before have that as `joining`.
    (mirror.joining, mirror.leaving) = (false, false);
    if is_off(Fault::PromoteAsItIs) {
        mirror.begun = None;
    }
    let standing = &mut mirror.standing;
    (standing.role, standing.epoch, standing.handed) = (MirrorRole::Promoting, epoch, false);
}

impl Steps for Mirror {
    fn next(&self) -> Next {
        let later = self
            .seen
            .as_ref()
            .is_some_and(|seen| seen.standing.epoch > self.standing.epoch);
        match self.standing.role {
            _ if self.leaving => Next::Leave,
            MirrorRole::Deposed if self.returning.as_ref().is_some_and(|returning| !returning.given_up) => Next::Return,
            MirrorRole::Deposed => Next::Wait,
            MirrorRole::Primary if later && self.never_deposed => Next::Serve,
            MirrorRole::Secondary if later && self.is_known() => Next::GoOver,
            _ if later => Next::Depose,
            MirrorRole::Primary => Next::Serve,
            MirrorRole::Demoting => Next::HandOver,
            MirrorRole::Promoting => Next::BecomePrimary,
            MirrorRole::Secondary => Next::Follow,
        }
    }

    /// The next epoch of its own that is larger than all that it knows.
    fn next_epoch(&self) -> MirrorEpoch {
        let other = self.seen.as_ref().map_or(MirrorEpoch(0), |seen| seen.standing.epoch);
        let known = self.standing.epoch.max(other).0;
        match known % 2 == u64::from(self.odd) {
            true => MirrorEpoch(known.saturating_add(2)),
            false => MirrorEpoch(known.saturating_add(1)),
        }
    }

    /// Has the other end the point that this one is at? One that is at none has nothing to lose (T14).
    fn is_known(&self) -> bool {
        let Some(point) = self.standing.point else { return true };
        self.seen
            .as_ref()
            .is_some_and(|seen| seen.standing.find(point).is_some())
    }

    /// The other end was looked at. Whoever notes it holds the claim, so that no earlier look is noted behind a later one.
    /// What those snapshots are called there is nothing for this end, and is not kept.
    fn see(&mut self, mut seen: Seen) -> Result<()> {
        check(self, &seen.standing)?;
        for point in &mut seen.standing.points {
            (point.snapshots, point.arrived_at) = (String::new(), None);
        }
        self.split &= seen.standing.epoch != self.standing.epoch;
        self.seen = Some(seen);
        Ok(())
    }

    /// A point is to be cut, in this epoch; one that was begun and has come to nothing is given up.
    fn begin_cut(&mut self, epoch: MirrorEpoch, now: u64) -> Result<Point> {
        let role = self.standing.role;
        if !matches!(role, MirrorRole::Primary | MirrorRole::Demoting) {
            return Err(wrong(self, "a primary"));
        }
        let own = self.standing.epoch;
        if own != epoch {
            return Err(Refused::Epoch { own, asked: epoch });
        }
        if self.standing.points.len() >= MAX_POINTS {
            self.let_go();
        }
        // The last one is cut in any case: else a demotion would have no end.
        if self.standing.points.len() >= MAX_POINTS && role == MirrorRole::Primary {
            return Err(Refused::Full);
        }
        self.number = self.number.saturating_add(1);
        // T10: its name has its epoch.
        let name = PointName {
            epoch,
            number: self.number,
        };
        let point = Point {
            name,
            cut_at: now,
            snapshots: snapshots_of(self, name),
            arrived_at: None,
        };
        self.cutting = Some(point.clone());
        Ok(point)
    }

    /// Its snapshots are there: it is a point, if the end is still what it was when it was begun.
    fn end_cut(&mut self, point: &Point) -> Result<()> {
        role(self, MirrorRole::Primary, "a primary")?;
        if self.cutting.as_ref() != Some(point) || point.name.epoch != self.standing.epoch {
            return Err(Refused::NoSuch(point.name));
        }
        self.cutting = None;
        self.standing.points.push(point.clone());
        Ok(())
    }

    fn demote(&mut self) -> Result<()> {
        role(self, MirrorRole::Primary, "a primary")?;
        // What is being cut may be of before, and is no last point.
        self.cutting = None;
        self.standing.role = MirrorRole::Demoting;
        Ok(())
    }

    /// Its last point is there: it was cut when nobody could write any more (T5), as who calls this has seen.
    fn hand(&mut self, last: &Point) -> Result<()> {
        role(self, MirrorRole::Demoting, "one that is being demoted")?;
        if self.cutting.as_ref() != Some(last) || last.name.epoch != self.standing.epoch {
            return Err(Refused::NoSuch(last.name));
        }
        self.cutting = None;
        (self.begun, self.pass) = (None, None);
        let standing = &mut self.standing;
        (standing.role, standing.handed, standing.point) = (MirrorRole::Secondary, true, Some(last.name));
        standing.points.push(last.clone());
        Ok(())
    }

    /// A pass to the other end's newest point is begun, or goes over into one to that. It is noted before anything is written (T2).
    fn begin_pass(&mut self, sizes: &[u64]) -> Result<Begun> {
        role(self, MirrorRole::Secondary, "a secondary")?;
        joined(self)?;
        let other = seen(self)?;
        if other.epoch != self.standing.epoch {
            return Err(Refused::Epoch {
                own: self.standing.epoch,
                asked: other.epoch,
            });
        }
        if !other.serves() {
            return Err(Refused::NotServing { is: other.role });
        }
        let newest = other.newest().ok_or(Refused::Nothing)?;
        if Some(newest.name) == self.standing.point {
            return Err(Refused::Nothing);
        }
        let (to, cut_at) = (newest.name, newest.cut_at);
        // T3: with what it is *at*, whatever was begun since.
        let known = match is_off(Fault::CompareWithBegun) {
            true => self.begun.or(self.standing.point),
            false => self.standing.point,
        };
        let base = known.filter(|point| other.find(*point).is_some());
        let clears = base.is_none() && !self.fresh;
        let places = sizes.iter().map(|bytes| PassPlace {
            total_bytes: *bytes,
            ..PassPlace::default()
        });
        self.pass = Some(MirrorPass {
            to,
            cut_at,
            base,
            clears,
            places: places.collect(),
            set: None,
        });
        (self.begun, self.fresh) = (Some(to), false);
        Ok(Begun { to, base })
    }

    /// All volumes are at the point, in one set (T1), sealed under the generations that the pass was made by (T4), as who calls this has seen.
    fn arrive(&mut self, to: PointName, snapshots: String, now: u64) -> Result<()> {
        role(self, MirrorRole::Secondary, "a secondary")?;
        joined(self)?;
        let Some(pass) = self.pass.as_ref().filter(|pass| pass.to == to) else {
            return Err(Refused::NoSuch(to));
        };
        let is_whole = pass.places.iter().all(|place| place.whole) || is_off(Fault::ArriveInParts);
        if pass.places.len() != self.volumes.len() || !is_whole {
            return Err(Refused::NotWhole { to });
        }
        let cut_at = pass.cut_at;
        if self.standing.points.len() >= MAX_POINTS {
            self.let_go();
        }
        (self.pass, self.begun) = (None, None);
        self.number = self.number.max(to.number);
        self.standing.point = Some(to);
        self.standing.points.retain(|point| point.name != to);
        self.standing.points.push(Point {
            name: to,
            cut_at,
            snapshots,
            arrived_at: Some(now),
        });
        Ok(())
    }

    /// In order: at the other end's last point, and at no other (T6), by a demotion that was not declined here (T9).
    fn promote(&mut self) -> Result<()> {
        let (epoch, last) = handed(self)?;
        stays(self)?;
        let own = self.standing.point;
        if self.standing.declined.is_some_and(|declined| declined >= epoch) {
            return Err(Refused::Declined { epoch });
        }
        if own != Some(last) {
            return Err(Refused::NotAtLast { own, last });
        }
        let epoch = self.next_epoch();
        begin_promotion(self, epoch);
        Ok(())
    }

    /// By an operator's word: at the point that it is at. One that was deposed keeps what it is; also where it was to go back, and nothing of it has,
    /// as whoever has given that up has seen.
    fn force(&mut self) -> Result<()> {
        let is_left = |returning: &Returning| returning.given_up && returning.done.is_empty();
        if self.returning.as_ref().is_some_and(|returning| !is_left(returning)) {
            return Err(Refused::Returning);
        }
        match self.standing.role {
            // T13: who follows without a common point has none. One that was primary is what it is until the first pass is begun.
            MirrorRole::Secondary | MirrorRole::Deposed
                if self.standing.point.is_none() && (self.begun.is_some() || self.fresh) =>
            {
                return Err(Refused::NoPoint);
            }
            MirrorRole::Secondary | MirrorRole::Deposed => {}
            _ => return Err(wrong(self, "a secondary, or one that was deposed")),
        }
        let epoch = self.next_epoch();
        begin_promotion(self, epoch);
        self.split = true;
        Ok(())
    }

    /// The other end may take its demotion back: this one is never promoted by it.
    fn decline(&mut self) -> Result<()> {
        let (epoch, _) = handed(self)?;
        self.standing.declined = self.standing.declined.max(Some(epoch));
        Ok(())
    }

    /// T8: when the other end has declined it.
    fn take_back(&mut self) -> Result<()> {
        stays(self)?;
        let epoch = self.standing.epoch;
        if self.standing.role != MirrorRole::Secondary || !self.standing.handed {
            return Err(wrong(self, "one that was demoted, and is not followed yet"));
        }
        if seen(self)?.declined != Some(epoch) {
            return Err(Refused::NotDeclined { epoch });
        }
        let epoch = self.next_epoch();
        begin_promotion(self, epoch);
        Ok(())
    }

    /// All volumes were reverted to the point, and these snapshots are of what they are now: they are the point's from now on (T15).
    fn gone_back(&mut self, snapshots: String) -> Result<()> {
        role(self, MirrorRole::Promoting, "one that is being promoted")?;
        let name = self.standing.point.ok_or(Refused::NoPoint)?;
        let done = self.returning.as_ref().map_or(&[][..], |returning| &returning.done);
        if self.begun.is_some() && !self.volumes.iter().all(|volume| done.contains(&volume.id)) {
            return Err(Refused::Returning);
        }
        let found = self.standing.points.iter_mut().find(|point| point.name == name);
        found.ok_or(Refused::NoSuch(name))?.snapshots = snapshots;
        (self.begun, self.returning) = (None, None);
        Ok(())
    }

    /// It is what it is to begin with (T2), and its volumes are open.
    fn ready(&mut self) -> Result<()> {
        role(self, MirrorRole::Promoting, "one that is being promoted")?;
        if self.begun.is_some() {
            return Err(Refused::NotWhole {
                to: self.begun.unwrap_or_default(),
            });
        }
        self.standing.role = MirrorRole::Primary;
        Ok(())
    }

    /// It hears of a later epoch, and has what the other end has not: it closes, and waits for an operator's word (T14).
    fn depose(&mut self, heard: MirrorEpoch) -> Result<()> {
        stays(self)?;
        let own = self.standing.epoch;
        if heard <= own {
            return Err(Refused::NotLater { own });
        }
        match self.standing.role {
            MirrorRole::Deposed => return Err(wrong(self, "any other")),
            MirrorRole::Secondary if self.is_known() => return Err(wrong(self, "one that the other end has not got")),
            MirrorRole::Primary if self.never_deposed => return Err(Refused::NeverDeposed),
            _ => {}
        }
        self.pass = None;
        self.cutting = None;
        // What was gone back to for a promotion is not what an operator has it go back to: all of it is done anew (`begun` says that it has to be).
        self.returning = None;
        (self.standing.role, self.standing.handed) = (MirrorRole::Deposed, false);
        Ok(())
    }

    /// By itself an end goes over to a later epoch only where the other end has its point (T14).
    fn follow(&mut self) -> Result<()> {
        role(self, MirrorRole::Secondary, "a secondary")?;
        if !self.is_known() {
            return Err(Refused::OwnData);
        }
        let other = seen(self)?;
        let (epoch, own) = (other.epoch, self.standing.epoch);
        if epoch <= own {
            return Err(Refused::NotLater { own });
        }
        if !other.serves() {
            return Err(Refused::NotServing { is: other.role });
        }
        self.pass = None;
        (self.standing.epoch, self.standing.handed) = (epoch, false);
        self.split = false;
        Ok(())
    }

    /// By an operator's word a deposed end goes back to the newest point that both have (T11).
    fn begin_return(&mut self) -> Result<Option<PointName>> {
        role(self, MirrorRole::Deposed, "one that was deposed")?;
        let other = seen(self)?;
        let own = self.standing.epoch;
        if other.epoch <= own {
            return Err(Refused::NotLater { own });
        }
        if !other.serves() {
            return Err(Refused::NotServing { is: other.role });
        }
        let to = common(&self.standing, other);
        match &mut self.returning {
            // What was to be promoted by force, and was not: it goes on with what was begun.
            Some(returning) if returning.given_up => {
                returning.given_up = false;
                Ok(returning.to)
            }
            Some(_) => Err(Refused::Returning),
            None => {
                self.returning = Some(Returning { to, ..NOT_BEGUN });
                Ok(to)
            }
        }
    }

    /// What goes back stands still, so that it can be seen that nothing has; or goes on. Does it stand?
    fn give_up_return(&mut self, is_given_up: bool) -> bool {
        let is_deposed = self.standing.role == MirrorRole::Deposed;
        match self
            .returning
            .as_mut()
            .filter(|returning| is_deposed && returning.done.is_empty())
        {
            Some(returning) => {
                returning.given_up = is_given_up;
                is_given_up
            }
            None => false,
        }
    }

    /// A volume is what it was at that point.
    fn returned(&mut self, volume: VolumeId) -> Result<()> {
        stays(self)?;
        let wanted = "one whose volumes go back to a point";
        if !matches!(self.standing.role, MirrorRole::Deposed | MirrorRole::Promoting) {
            return Err(wrong(self, wanted));
        }
        let to = self
            .standing
            .point
            .filter(|_| self.standing.role == MirrorRole::Promoting);
        let returning = match self.standing.role {
            MirrorRole::Promoting => self.returning.get_or_insert(Returning { to, ..NOT_BEGUN }),
            _ => match &mut self.returning {
                Some(returning) if !returning.given_up => returning,
                _ => return Err(wrong(self, wanted)),
            },
        };
        if !returning.done.contains(&volume) {
            returning.done.push(volume);
        }
        Ok(())
    }

    /// All have gone back, and these snapshots are of what they are now (T15); or there is no common point, and they are of what they were.
    /// From now on it follows. Without a common point it has none (T13).
    fn end_return(&mut self, snapshots: String) -> Result<()> {
        role(self, MirrorRole::Deposed, "one that was deposed")?;
        let Some(returning) = &self.returning else {
            return Err(wrong(self, "one whose volumes go back to a point"));
        };
        let is_done = |id: &VolumeId| returning.done.contains(id);
        if returning.to.is_some() && !self.volumes.iter().all(|volume| is_done(&volume.id)) {
            return Err(Refused::Returning);
        }
        let to = returning.to;
        let epoch = seen(self)?.epoch;
        if epoch <= self.standing.epoch {
            return Err(Refused::NotLater {
                own: self.standing.epoch,
            });
        }
        let standing = &mut self.standing;
        match to {
            Some(to) => {
                let found = standing.points.iter_mut().find(|point| point.name == to);
                found.ok_or(Refused::NoSuch(to))?.snapshots = snapshots;
                standing.points.retain(|point| point.name <= to);
            }
            None => standing.points.clear(),
        }
        (standing.role, standing.epoch, standing.point) = (MirrorRole::Secondary, epoch, to);
        standing.handed = false;
        (self.begun, self.pass, self.returning, self.split) = (None, None, None, false);
        Ok(())
    }

    /// The points that it needs no more. As primary it keeps the newest that the other end has said it is at, and [`UNCLAIMED_POINTS`] of those that
    /// nobody has claimed: that end brings one of the newest, and what lies between is no base of anything. As secondary so many as are to be kept,
    /// and the one that it is at. The newest common one stays in any case (T16).
    fn let_go(&mut self) -> Vec<Point> {
        let keep = self.keep as usize;
        let standing = &mut self.standing;
        let other = self.seen.as_ref().map(|seen| &seen.standing);
        let shared = other.and_then(|other| common(standing, other));
        let mut names: Vec<PointName> = standing.points.iter().map(|point| point.name).collect();
        names.sort_unstable();
        let newest = |count: usize| names.get(names.len().saturating_sub(count)).copied();
        let (from, at) = match standing.role {
            MirrorRole::Primary | MirrorRole::Demoting => {
                let claimed = other.and_then(|other| other.point.filter(|point| standing.find(*point).is_some()));
                (newest(UNCLAIMED_POINTS).max(claimed), claimed)
            }
            MirrorRole::Secondary if !standing.handed => {
                let point = standing.point;
                (newest(1 + keep).min(point), point)
            }
            _ => (None, None),
        };
        let Some(from) = from else { return Vec::new() };
        let stays = |point: &Point| point.name >= from || Some(point.name) == shared || Some(point.name) == at;
        let (kept, gone) = std::mem::take(&mut standing.points).into_iter().partition(stays);
        standing.points = kept;
        gone
    }

    /// An end that is no primary is to be removed, and follows nobody from then on: its volumes are opened as they are, which is what its point is, or,
    /// where it has none, whatever was brought; or they go (`deletes`). What it is stays noted, its point and what was begun since as well: a removal that
    /// comes to nothing is begun again by that, or ended by a promotion by force.
    fn leave(&mut self, deletes: bool) -> Result<()> {
        if !matches!(self.standing.role, MirrorRole::Secondary | MirrorRole::Deposed) {
            return Err(wrong(self, "a secondary, or one that was deposed"));
        }
        if !deletes {
            let goes_back = self.returning.as_ref().is_some_and(|returning| returning.to.is_some());
            match (goes_back, self.begun, self.standing.point) {
                // It goes back no further: its volumes were to be deleted.
                (true, ..) if self.leaving => return Err(Refused::Leaving),
                (true, ..) => return Err(Refused::Returning),
                (_, Some(_), Some(at)) => return Err(Refused::Begun { at }),
                _ => {}
            }
            // Hosts write here: nobody is promoted by what was handed over.
            self.standing.handed = false;
        }
        (self.pass, self.cutting, self.leaving) = (None, None, true);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
