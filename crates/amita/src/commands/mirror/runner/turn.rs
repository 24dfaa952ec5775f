//! One turn of whoever is at a mirror: the other end is looked at, and what is next is done. What is next is decided by this end's record alone
//! ([`amita_control::mirror::next`]); each step of it is one transaction of [`amita_control::admin`], done again where it was cut short.

use super::clock::Clock;
use super::far::Far;
use super::hands::Hands;
use crate::admin::Described;
use amita_api::mirror::MirrorLink;
use amita_control::admin::{self, AdminError, Cutting};
use amita_control::mirror::{Next, Refused, next};
use amita_metadata::Transact;
use amita_terminal::error::{Failure, Kind, Result};
use amita_types::map::{Mirror, MirrorRole, PointName, Seen, Standing};
use amita_types::{MirrorEpoch, VolumeId};
use std::time::Duration;

/// The other end is looked at so often at least.
const LOOK: Duration = Duration::from_secs(5);
/// Where that has failed, what an end has to do by itself, while hosts wait for it, is not held up by it again before this.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// What is being done by others is looked at so often: snapshots that are taken, a point that is cut there.
const SOON: Duration = Duration::from_millis(250);
/// For so long that is likely to be done at once.
const PROMPT: Duration = Duration::from_secs(3);
/// Room for work on this node is looked for so often.
const ROOM: Duration = Duration::from_secs(1);
/// What is left of points of before is looked for so often.
const SWEEP: Duration = Duration::from_secs(60);

/// What has come of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turned {
    /// There is more to be done.
    Again,
    /// Nothing is, for so long, where nothing changes.
    Rest(Duration),
    /// There is, and no room for it on this node.
    NoRoom(Duration),
    /// Another node is at it.
    Lost,
    /// There is no such mirror any more.
    Gone,
}

/// What is known between two turns of one claim. Times are counted ones ([`Clock::counted`]).
pub(super) struct Turn {
    name: String,
    claim: u64,
    /// When the first turn was.
    begun: Option<Duration>,
    /// When the last look at the other end was over, and what it said; or why it said nothing.
    looked: Option<Duration>,
    /// It is looked at in the next turn, whatever the time is.
    is_to_look: bool,
    /// It was, in this one.
    has_looked: bool,
    link: Option<MirrorLink>,
    unheard: Option<Failure>,
    /// The newest point that it has said that it has, when it was asked for a newer one.
    answered: Option<PointName>,
    /// It is not asked for one before.
    asks: Duration,
    /// Since when it has been cutting one.
    cutting: Option<Duration>,
    swept: Option<Duration>,
    /// In which role and epoch all volumes were seen to be closed.
    closed: Option<(MirrorRole, MirrorEpoch)>,
}

/// What a secondary does next of passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    /// The pass that was begun goes on.
    GoOn,
    /// One to the newest point is begun.
    Begin,
    /// The other end is asked for a newer point.
    Cut,
    Nothing,
}

/// What a look at the other end has come to.
enum Looked {
    /// It answers: the record, with what it is.
    Noted(Box<Mirror>),
    /// It says nothing, or nothing that can be noted.
    Nothing,
    /// Another node is at the mirror.
    Lost,
}

/// Do hosts wait for what this end does next by itself? Then that is not held up by an end that may be dead.
pub(super) fn acts_first(record: &Mirror) -> bool {
    matches!(next(record), Next::HandOver | Next::BecomePrimary | Next::Return)
}

/// By this end's record, and what it has seen: `there` is the other end's clock.
fn wish(record: &Mirror, other: &Standing, there: u64) -> Wish {
    if record.standing.handed || other.epoch != record.standing.epoch || !other.serves() {
        return Wish::Nothing;
    }
    let has = |point: PointName| other.find(point).is_some();
    if let Some(pass) = &record.pass
        && has(pass.to)
        && pass.base.is_none_or(has)
    {
        return Wish::GoOn;
    }
    let Some(newest) = other.newest() else {
        return match other.role {
            MirrorRole::Primary => Wish::Cut,
            _ => Wish::Nothing,
        };
    };
    // However old it is: points that nobody brings are not to become more.
    if Some(newest.name) != record.standing.point {
        return Wish::Begin;
    }
    match other.role {
        // Its last one: there is no later one.
        MirrorRole::Secondary => Wish::Nothing,
        // By the clock that it was cut by, as that goes on.
        _ if newest.is_young(there, record.interval_s) => Wish::Nothing,
        _ => Wish::Cut,
    }
}

impl Turn {
    pub fn new(name: &str, claim: u64) -> Turn {
        Turn {
            name: name.to_owned(),
            claim,
            begun: None,
            looked: None,
            is_to_look: false,
            has_looked: false,
            link: None,
            unheard: None,
            answered: None,
            asks: Duration::ZERO,
            cutting: None,
            swept: None,
            closed: None,
        }
    }

    /// Has the other end answered the last look?
    pub fn is_heard(&self) -> bool {
        self.link.is_some() && self.unheard.is_none()
    }

    /// Why it has not.
    pub fn unheard(&self) -> Option<&Failure> {
        self.unheard.as_ref()
    }

    /// Looks, and does what is next; where hosts wait for what this end does by itself, that comes first. `far`: none, the other end is not known yet, or
    /// cannot be asked from here.
    ///
    /// # Errors
    /// It does not go on: why.
    pub fn turn(
        &mut self,
        meta: &dyn Transact,
        far: Option<&dyn Far>,
        hands: &mut dyn Hands,
        clock: &dyn Clock,
    ) -> Result<Turned> {
        let mut record = match admin::mirror(meta, &self.name) {
            Err(AdminError::NoSuch { what: "mirror", .. }) => return Ok(Turned::Gone),
            found => found.described()?,
        };
        let every = LOOK.min(Duration::from_secs(record.interval_s) / 2);
        self.has_looked = false;
        let counted = clock.counted();
        let begun = *self.begun.get_or_insert(counted);
        let acts = acts_first(&record);
        let looked = self.looked.or(acts.then_some(begun));
        let rests = match acts && !self.is_heard() {
            true => LOOK_AGAIN,
            false => every,
        };
        let is_time = looked.is_none_or(|looked| counted.saturating_sub(looked) >= rests);
        if let Some(far) = far
            && (is_time || self.is_to_look && !acts)
        {
            match self.look(meta, far, clock)? {
                Looked::Noted(after) => record = *after,
                Looked::Nothing => {}
                Looked::Lost => return Ok(Turned::Lost),
            }
        }
        let turned = self.step(meta, (&record, every), far, hands, clock);
        // It is tried again by somebody, who may know no more than this one: whether there is a later epoch is looked for in between.
        if let (Some(far), true, Err(why)) = (far, acts && self.looked.is_none(), &turned)
            && why.kind != Kind::Interrupted
            && matches!(self.look(meta, far, clock)?, Looked::Lost)
        {
            return Ok(Turned::Lost);
        }
        turned
    }

    /// Looks at the other end, and notes what it is, or why it says nothing.
    ///
    /// # Errors
    /// That was called off.
    fn look(&mut self, meta: &dyn Transact, far: &dyn Far, clock: &dyn Clock) -> Result<Looked> {
        let looked = far.look();
        if let Err(why) = &looked
            && why.kind == Kind::Interrupted
        {
            return Err(why.clone());
        }
        // It may have taken long: what comes next has its time from now on.
        (self.looked, self.is_to_look, self.has_looked) = (Some(clock.counted()), false, true);
        let noted = looked.and_then(|link| {
            let seen = Seen {
                standing: link.standing.clone(),
                at: clock.wall().as_secs(),
                clock: link.clock,
            };
            let after = admin::see_mirror(meta, &self.name, self.claim, &seen).described()?;
            Ok((after, link))
        });
        match noted {
            Ok((Some(after), link)) => {
                (self.link, self.unheard) = (Some(link), None);
                Ok(Looked::Noted(Box::new(after)))
            }
            Ok((None, _)) => Ok(Looked::Lost),
            // What is to be done without the other end is done, whatever that says of itself.
            Err(why) => {
                self.unheard = Some(why);
                Ok(Looked::Nothing)
            }
        }
    }

    /// Does what is next by the record.
    fn step(
        &mut self,
        meta: &dyn Transact,
        (record, every): (&Mirror, Duration),
        far: Option<&dyn Far>,
        hands: &mut dyn Hands,
        clock: &dyn Clock,
    ) -> Result<Turned> {
        let rest = Turned::Rest(every);
        match next(record) {
            Next::Serve => {
                self.tidy(meta, clock)?;
                Ok(rest)
            }
            Next::HandOver => self.hand_over(meta, record, clock),
            Next::BecomePrimary => self.become_primary(meta, record, hands, clock),
            Next::Depose => {
                let heard = record.seen.as_ref().map_or(MirrorEpoch(0), |seen| seen.standing.epoch);
                admin::depose_mirror(meta, &self.name, heard).described()?;
                admin::close_mirrored(meta, &self.name).described()?;
                self.look_at_once();
                Ok(Turned::Again)
            }
            Next::Wait => {
                // Whoever has deposed it may have ended before.
                match self.close(meta, record)? {
                    true => Ok(rest),
                    false => Ok(Turned::Again),
                }
            }
            Next::Return => self.go_back(meta, record, hands, clock),
            Next::GoOver => {
                let is_followed = record.seen.as_ref().is_some_and(|seen| seen.standing.serves());
                // It is promoted, and serves when its volumes are open.
                if !is_followed {
                    return Ok(rest);
                }
                match admin::follow_mirror(meta, &self.name, self.claim).described()? {
                    Some(_) => Ok(Turned::Again),
                    None => Ok(Turned::Lost),
                }
            }
            Next::Follow => self.follow(meta, (record, every), far, hands, clock),
            // Whoever removes it does all of that; where he was cut short it is told.
            Next::Leave => Err(Failure::new(Refused::Leaving.to_string()).kind(Kind::Conflict)),
        }
    }

    /// The next turn looks at the other end.
    fn look_at_once(&mut self) {
        self.is_to_look = true;
    }

    /// Lets points go that nobody needs any more, and what is left of them.
    fn tidy(&mut self, meta: &dyn Transact, clock: &dyn Clock) -> Result<()> {
        let (gone, counted) = (admin::let_points_go(meta, &self.name).described()?, clock.counted());
        if gone > 0 || self.swept.is_none_or(|swept| counted.saturating_sub(swept) >= SWEEP) {
            admin::sweep_points(meta, &self.name).described()?;
            self.swept = Some(counted);
        }
        Ok(())
    }

    /// All volumes are closed; `false`: the record says something else by now.
    fn close(&mut self, meta: &dyn Transact, record: &Mirror) -> Result<bool> {
        let so = (record.standing.role, record.standing.epoch);
        if self.closed == Some(so) {
            return Ok(true);
        }
        let is_closed = admin::close_mirrored(meta, &self.name).described()?;
        self.closed = is_closed.then_some(so);
        Ok(is_closed)
    }

    fn hand_over(&mut self, meta: &dyn Transact, record: &Mirror, clock: &dyn Clock) -> Result<Turned> {
        if !self.close(meta, record)? {
            return Ok(Turned::Again);
        }
        match admin::cut_point(meta, &self.name, record.standing.epoch, clock.wall()).described()? {
            Cutting::Cut(_) => {
                self.look_at_once();
                Ok(Turned::Again)
            }
            Cutting::Waiting => Ok(Turned::Rest(SOON)),
        }
    }

    fn become_primary(
        &mut self,
        meta: &dyn Transact,
        record: &Mirror,
        hands: &mut dyn Hands,
        clock: &dyn Clock,
    ) -> Result<Turned> {
        if record.begun.is_some() {
            // T2: what a pass has begun to write is no moment's, and is not kept.
            let to = record.standing.point;
            let to = to.ok_or_else(|| Failure::new("there is no point to be promoted at").kind(Kind::Conflict))?;
            return self.revert_all(meta, record, (to, false), hands, clock);
        }
        if !admin::open_mirrored(meta, &self.name).described()? {
            return Ok(Turned::Again);
        }
        admin::ready_mirror(meta, &self.name).described()?;
        self.look_at_once();
        Ok(Turned::Again)
    }

    fn go_back(
        &mut self,
        meta: &dyn Transact,
        record: &Mirror,
        hands: &mut dyn Hands,
        clock: &dyn Clock,
    ) -> Result<Turned> {
        // T12: nobody else writes there any more.
        if !self.close(meta, record)? {
            return Ok(Turned::Again);
        }
        match record.returning.as_ref().and_then(|returning| returning.to) {
            Some(to) => self.revert_all(meta, record, (to, true), hands, clock),
            // What it was is kept as a set of its own.
            None => self.gone_back(meta, clock),
        }
    }

    /// Makes the next volume what it was at the point; and when all are, notes that.
    fn revert_all(
        &mut self,
        meta: &dyn Transact,
        record: &Mirror,
        (to, keep): (PointName, bool),
        hands: &mut dyn Hands,
        clock: &dyn Clock,
    ) -> Result<Turned> {
        let done: &[VolumeId] = record.returning.as_ref().map_or(&[][..], |returning| &returning.done);
        let Some(left) = record.volumes.iter().find(|volume| !done.contains(&volume.id)) else {
            return self.gone_back(meta, clock);
        };
        let point = record.standing.find(to).cloned();
        let point =
            point.ok_or_else(|| Failure::new(format!("point {to} is not there any more")).kind(Kind::NotFound))?;
        // It waits for no room: hosts wait for it, and it moves no data.
        hands.revert(record, left.id, &point, keep)?;
        match admin::returned(meta, &self.name, self.claim, left.id).described()? {
            Some(_) => Ok(Turned::Again),
            None => Ok(Turned::Lost),
        }
    }

    fn gone_back(&mut self, meta: &dyn Transact, clock: &dyn Clock) -> Result<Turned> {
        match admin::gone_back(meta, &self.name, self.claim, clock.wall()).described()? {
            Some(true) => {
                self.look_at_once();
                Ok(Turned::Again)
            }
            Some(false) => Ok(Turned::Rest(SOON)),
            None => Ok(Turned::Lost),
        }
    }

    fn follow(
        &mut self,
        meta: &dyn Transact,
        (record, every): (&Mirror, Duration),
        far: Option<&dyn Far>,
        hands: &mut dyn Hands,
        clock: &dyn Clock,
    ) -> Result<Turned> {
        let rest = Turned::Rest(every);
        let (Some(far), None) = (far, &record.paused) else {
            return Ok(rest);
        };
        if let Some(why) = &self.unheard {
            return Err(why.clone());
        }
        let Some(seen) = &record.seen else {
            return Ok(rest);
        };
        let (wall, counted) = (clock.wall().as_secs(), clock.counted());
        let there = seen.clock.saturating_add(wall.saturating_sub(seen.at));
        match wish(record, &seen.standing, there) {
            Wish::Nothing => {
                self.tidy(meta, clock)?;
                Ok(rest)
            }
            Wish::Cut if counted < self.asks => Ok(rest),
            // First: a point that is cut is brought, and what is begun is no point's until it is.
            Wish::Cut | Wish::Begin | Wish::GoOn if !hands.may_work() => Ok(Turned::NoRoom(ROOM)),
            Wish::Cut => match far.cut(record.standing.epoch) {
                // It has as many points as can be, or is something else by now: what it is is looked at before that is believed.
                Err(why) if why.kind == Kind::Conflict && !self.has_looked => {
                    self.look_at_once();
                    Ok(Turned::Again)
                }
                Err(why) => Err(why),
                Ok(Some(point)) => {
                    let was_told = self.answered.replace(point.name) == Some(point.name);
                    self.cutting = None;
                    if was_told || Some(point.name) == record.standing.point {
                        // Its interval is longer than ours; or it does not show what it says.
                        self.asks = counted + every;
                        return Ok(rest);
                    }
                    self.look_at_once();
                    Ok(Turned::Again)
                }
                Ok(None) => {
                    // It may stand still there.
                    let since = *self.cutting.get_or_insert(counted);
                    match counted.saturating_sub(since) < PROMPT {
                        true => Ok(Turned::Rest(SOON)),
                        false => Ok(rest),
                    }
                }
            },
            Wish::Begin => self.begin(meta, record, far, hands, clock),
            Wish::GoOn => self.bring(meta, record, far, hands, clock),
        }
    }

    fn begin(
        &mut self,
        meta: &dyn Transact,
        record: &Mirror,
        far: &dyn Far,
        hands: &mut dyn Hands,
        clock: &dyn Clock,
    ) -> Result<Turned> {
        let sizes = self.sizes(record)?;
        match admin::begin_pass(meta, &self.name, self.claim, &sizes).described()? {
            Some((record, _)) => self.bring(meta, &record, far, hands, clock),
            None => Ok(Turned::Lost),
        }
    }

    fn bring(
        &mut self,
        meta: &dyn Transact,
        record: &Mirror,
        far: &dyn Far,
        hands: &mut dyn Hands,
        clock: &dyn Clock,
    ) -> Result<Turned> {
        let sizes = self.sizes(record)?;
        hands.bring(record, far, &sizes)?;
        // The other end lets go of what it hears of.
        self.look_at_once();
        self.tidy(meta, clock)?;
        Ok(Turned::Again)
    }

    /// What the volumes have at the other end, in the order of the mirror's.
    fn sizes(&self, record: &Mirror) -> Result<Vec<u64>> {
        let there = self.link.as_ref().map_or(&[][..], |link| &link.volumes);
        let size = |name: &str| {
            there
                .iter()
                .find(|volume| volume.name == name)
                .map(|volume| volume.size_bytes)
        };
        let sizes = record.volumes.iter().map(|volume| {
            size(&volume.name).ok_or_else(|| {
                Failure::new(format!("the other end has no volume {} in this mirror", volume.name)).kind(Kind::Conflict)
            })
        });
        sizes.collect()
    }
}

#[cfg(test)]
mod tests;
