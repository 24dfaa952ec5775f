//! One turn of whoever is at a mirror: the other end is looked at, and what is next is done. What is next is decided by this end's record alone
//! ([`amita_control::mirror::next`]); each step of it is one transaction of [`amita_control::admin`], done again where it was cut short.

use super::far::Far;
use super::hands::Hands;
use crate::admin::Described;
use amita_api::mirror::MirrorLink;
use amita_control::admin::{self, AdminError, Cutting};
use amita_control::mirror::{Next, next};
use amita_metadata::Transact;
use amita_terminal::error::{Failure, Kind, Result};
use amita_types::map::{Mirror, MirrorRole, PointName, Seen, Standing};
use amita_types::{MirrorEpoch, VolumeId};
use std::time::Duration;

/// The other end is looked at so often at least.
const LOOK: Duration = Duration::from_secs(5);
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

/// What is known between two turns of one claim.
pub(super) struct Turn {
    name: String,
    claim: u64,
    /// When the other end was looked at last, and what it said; or why it said nothing.
    looked: Option<Duration>,
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
            looked: None,
            link: None,
            unheard: None,
            answered: None,
            asks: Duration::ZERO,
            cutting: None,
            swept: None,
            closed: None,
        }
    }

    /// When the other end was heard last, in this claim.
    pub fn is_heard(&self) -> bool {
        self.link.is_some() && self.unheard.is_none()
    }

    /// Looks, and does what is next. `far`: none, the other end is not known yet, or cannot be asked from here. `now`: since 1970.
    ///
    /// # Errors
    /// It does not go on: why.
    pub fn turn(
        &mut self,
        meta: &dyn Transact,
        far: Option<&dyn Far>,
        hands: &mut dyn Hands,
        now: Duration,
    ) -> Result<Turned> {
        let mut record = match admin::mirror(meta, &self.name) {
            Err(AdminError::NoSuch { what: "mirror", .. }) => return Ok(Turned::Gone),
            found => found.described()?,
        };
        let every = LOOK.min(Duration::from_secs(record.interval_s) / 2);
        if let Some(far) = far
            && self.looked.is_none_or(|looked| now.saturating_sub(looked) >= every)
        {
            self.looked = Some(now);
            match far.look() {
                Ok(link) => {
                    let seen = Seen {
                        standing: link.standing.clone(),
                        at: now.as_secs(),
                        clock: link.clock,
                    };
                    match admin::see_mirror(meta, &self.name, self.claim, &seen).described() {
                        Ok(Some(after)) => {
                            record = after;
                            (self.link, self.unheard) = (Some(link), None);
                        }
                        Ok(None) => return Ok(Turned::Lost),
                        // What is to be done without the other end is done, whatever that says of itself.
                        Err(why) => self.unheard = Some(why),
                    }
                }
                Err(why) => self.unheard = Some(why),
            }
        }
        let rest = Turned::Rest(every);
        match next(&record) {
            Next::Serve => {
                self.tidy(meta, now)?;
                Ok(rest)
            }
            Next::HandOver => self.hand_over(meta, &record, now),
            Next::BecomePrimary => self.become_primary(meta, &record, hands, now),
            Next::Depose => {
                let heard = record.seen.as_ref().map_or(MirrorEpoch(0), |seen| seen.standing.epoch);
                admin::depose_mirror(meta, &self.name, heard).described()?;
                admin::close_mirrored(meta, &self.name).described()?;
                self.look_at_once();
                Ok(Turned::Again)
            }
            Next::Wait => {
                // Whoever has deposed it may have ended before.
                match self.close(meta, &record)? {
                    true => Ok(rest),
                    false => Ok(Turned::Again),
                }
            }
            Next::Return => self.go_back(meta, &record, hands, now),
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
            Next::Follow => self.follow(meta, &record, far, hands, now, every),
        }
    }

    /// The next turn looks at the other end.
    fn look_at_once(&mut self) {
        self.looked = None;
    }

    /// Lets points go that nobody needs any more, and what is left of them.
    fn tidy(&mut self, meta: &dyn Transact, now: Duration) -> Result<()> {
        let gone = admin::let_points_go(meta, &self.name).described()?;
        if gone > 0 || self.swept.is_none_or(|swept| now.saturating_sub(swept) >= SWEEP) {
            admin::sweep_points(meta, &self.name).described()?;
            self.swept = Some(now);
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

    fn hand_over(&mut self, meta: &dyn Transact, record: &Mirror, now: Duration) -> Result<Turned> {
        if !self.close(meta, record)? {
            return Ok(Turned::Again);
        }
        match admin::cut_point(meta, &self.name, record.standing.epoch, now).described()? {
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
        now: Duration,
    ) -> Result<Turned> {
        if record.begun.is_some() {
            // T2: what a pass has begun to write is no moment's, and is not kept.
            let to = record.standing.point;
            let to = to.ok_or_else(|| Failure::new("there is no point to be promoted at").kind(Kind::Conflict))?;
            return self.revert_all(meta, record, (to, false), hands, now);
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
        now: Duration,
    ) -> Result<Turned> {
        // T12: nobody else writes there any more.
        if !self.close(meta, record)? {
            return Ok(Turned::Again);
        }
        match record.returning.as_ref().and_then(|returning| returning.to) {
            Some(to) => self.revert_all(meta, record, (to, true), hands, now),
            // What it was is kept as a set of its own.
            None => self.gone_back(meta, now),
        }
    }

    /// Makes the next volume what it was at the point; and when all are, notes that.
    fn revert_all(
        &mut self,
        meta: &dyn Transact,
        record: &Mirror,
        (to, keep): (PointName, bool),
        hands: &mut dyn Hands,
        now: Duration,
    ) -> Result<Turned> {
        let done: &[VolumeId] = record.returning.as_ref().map_or(&[][..], |returning| &returning.done);
        let Some(left) = record.volumes.iter().find(|volume| !done.contains(&volume.id)) else {
            return self.gone_back(meta, now);
        };
        let point = record.standing.find(to).cloned();
        let point =
            point.ok_or_else(|| Failure::new(format!("point {to} is not there any more")).kind(Kind::NotFound))?;
        if !hands.may_work() {
            return Ok(Turned::NoRoom(ROOM));
        }
        hands.revert(record, left.id, &point, keep)?;
        match admin::returned(meta, &self.name, self.claim, left.id).described()? {
            Some(_) => Ok(Turned::Again),
            None => Ok(Turned::Lost),
        }
    }

    fn gone_back(&mut self, meta: &dyn Transact, now: Duration) -> Result<Turned> {
        match admin::gone_back(meta, &self.name, self.claim, now).described()? {
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
        record: &Mirror,
        far: Option<&dyn Far>,
        hands: &mut dyn Hands,
        now: Duration,
        every: Duration,
    ) -> Result<Turned> {
        let rest = Turned::Rest(every);
        let (Some(far), Some(seen), None) = (far, &record.seen, &record.paused) else {
            return Ok(rest);
        };
        if let Some(why) = &self.unheard {
            return Err(why.clone());
        }
        let there = seen.clock.saturating_add(now.as_secs().saturating_sub(seen.at));
        match wish(record, &seen.standing, there) {
            Wish::Nothing => {
                self.tidy(meta, now)?;
                Ok(rest)
            }
            Wish::Cut if now < self.asks => Ok(rest),
            // First: a point that is cut is brought, and what is begun is no point's until it is.
            Wish::Cut | Wish::Begin | Wish::GoOn if !hands.may_work() => Ok(Turned::NoRoom(ROOM)),
            Wish::Cut => match far.cut(record.standing.epoch) {
                // It has as many points as can be, or is something else by now: what it is is looked at before that is believed.
                Err(why) if why.kind == Kind::Conflict && self.looked != Some(now) => {
                    self.look_at_once();
                    Ok(Turned::Again)
                }
                Err(why) => Err(why),
                Ok(Some(point)) => {
                    let was_told = self.answered.replace(point.name) == Some(point.name);
                    self.cutting = None;
                    if was_told || Some(point.name) == record.standing.point {
                        // Its interval is longer than ours; or it does not show what it says.
                        self.asks = now + every;
                        return Ok(rest);
                    }
                    self.look_at_once();
                    Ok(Turned::Again)
                }
                Ok(None) => {
                    // It may stand still there.
                    let since = *self.cutting.get_or_insert(now);
                    match now.saturating_sub(since) < PROMPT {
                        true => Ok(Turned::Rest(SOON)),
                        false => Ok(rest),
                    }
                }
            },
            Wish::Begin => {
                let sizes = self.sizes(record)?;
                match admin::begin_pass(meta, &self.name, self.claim, &sizes).described()? {
                    Some((record, _)) => self.bring(meta, &record, far, hands, now),
                    None => Ok(Turned::Lost),
                }
            }
            Wish::GoOn => self.bring(meta, record, far, hands, now),
        }
    }

    fn bring(
        &mut self,
        meta: &dyn Transact,
        record: &Mirror,
        far: &dyn Far,
        hands: &mut dyn Hands,
        now: Duration,
    ) -> Result<Turned> {
        let sizes = self.sizes(record)?;
        hands.bring(record, far, &sizes)?;
        // The other end lets go of what it hears of.
        self.look_at_once();
        self.tidy(meta, now)?;
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
