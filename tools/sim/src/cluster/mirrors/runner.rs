//! Who is at an end of a mirror (decision 081): the turns of `amita`'s runner, in their order and by the same functions of `amita_control::admin`. What
//! it writes goes by a gateway of the simulation that may open what is closed for the mirror. The product's own runner stands in the program `amita`,
//! on threads and clocks of the system, which the simulation has none of: what is written here is what is written there, but for times and sizes,
//! which fit volumes of some chunks.

mod pass;

pub(super) use pass::is_alone;

use super::Wall;
use super::wire::{Did, FarAnswer, FarAsk, FarWhy, Link};
use crate::cluster::moves::line::{Ask, End, Line};
use amita_control::admin::{self, AdminError, Cutting};
use amita_control::mirror::{Next, next};
use amita_metadata::{Call, Compare, Op, Transact};
use amita_types::map::{self, Mirror, MirrorRole, PointName, Seen, Standing};
use amita_types::{MirrorEpoch, NodeId, VolumeId};
use std::cell::Cell;
use std::time::Duration;

/// The other end is looked at so often at least, by the cluster's clock.
const LOOK: Duration = Duration::from_secs(5);
/// What is being done by others is looked at so often.
const SOON: Duration = Duration::from_millis(25);
/// Where nothing is to be done it rests so long, where nothing changes.
const REST: Duration = Duration::from_millis(500);
/// And looks so often whether something has.
const WATCH: Duration = Duration::from_millis(100);
/// What is left of points of before is looked for so often, by the cluster's clock.
const SWEEP: Duration = Duration::from_secs(60);
/// How often it is looked whether it is wanted still.
const WANTED_EVERY: Duration = Duration::from_millis(60);

/// What a runner is told when it begins.
#[derive(Clone)]
pub(super) struct Begins {
    pub mirror: String,
    /// The node that it is at.
    pub node: NodeId,
    /// What the key of who is at it holds.
    pub value: Vec<u8>,
    pub wall: Wall,
    pub plants: amita_control::Faults,
}

/// Why it does not go on.
pub(super) enum Failure {
    /// Its process is gone, or another one is at it.
    Lost,
    /// The record says something else by now.
    CalledOff,
    Said(String),
}

pub(super) type Result<T> = std::result::Result<T, Failure>;

impl From<AdminError> for Failure {
    fn from(why: AdminError) -> Failure {
        Failure::Said(why.to_string())
    }
}

impl From<FarWhy> for Failure {
    fn from(why: FarWhy) -> Failure {
        Failure::Said(why.text().to_owned())
    }
}

fn said(why: impl Into<String>) -> Failure {
    Failure::Said(why.into())
}

enum Turned {
    Again,
    Rest(Duration),
    Gone,
}

/// What the record says for as long as the work goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Goal {
    role: MirrorRole,
    epoch: MirrorEpoch,
    to: Option<PointName>,
}

impl Goal {
    fn of(record: &Mirror) -> Goal {
        Goal {
            role: record.standing.role,
            epoch: record.standing.epoch,
            to: record.pass.as_ref().map(|pass| pass.to),
        }
    }
}

/// Takes the key, and works until it does not go on here.
pub(super) fn run(line: &Line, begins: &Begins) {
    #[cfg(feature = "planted")]
    amita_control::plant_here(begins.plants);
    let key = map::mirror_runner_key(&begins.mirror);
    let take = Call {
        compares: vec![Compare::ModRevision {
            key: key.clone(),
            equals: 0,
        }],
        then: vec![Op::Put {
            key: key.clone(),
            value: begins.value.clone(),
            lease: None,
        }],
        otherwise: Vec::new(),
    };
    let claim = match line.txn(&take) {
        Ok(reply) if reply.succeeded => reply.revision,
        // If that was done after all, the key goes with its lease.
        _ => return line.say(Ask::Ended(None)),
    };
    line.say(Ask::Hit("mirror.runner"));
    let mut turn = Turn {
        line,
        name: begins.mirror.clone(),
        node: begins.node,
        wall: begins.wall.clone(),
        plants: begins.plants,
        claim,
        looked: None,
        link: None,
        unheard: None,
        answered: None,
        asked: None,
        swept: None,
        closed: None,
        goal: Cell::new(None),
        wanted: Cell::new(line.now()),
        called_off: Cell::new(false),
        lost: Cell::new(false),
        opened: Vec::new(),
    };
    let why = turn.run();
    // It is given up, as its lease would be.
    let drop = Call {
        compares: vec![Compare::ModRevision {
            key: key.clone(),
            equals: claim,
        }],
        then: vec![Op::Delete { key }],
        otherwise: Vec::new(),
    };
    let _ = line.txn(&drop);
    line.say(Ask::Ended(why));
}

/// What a secondary does next of passes.
enum Wish {
    GoOn,
    Begin,
    Cut,
    Nothing,
}

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
    if Some(newest.name) != record.standing.point {
        return Wish::Begin;
    }
    match other.role {
        MirrorRole::Secondary => Wish::Nothing,
        _ if newest.is_young(there, record.interval_s) => Wish::Nothing,
        _ => Wish::Cut,
    }
}

pub(super) struct Turn<'a> {
    line: &'a Line,
    name: String,
    node: NodeId,
    wall: Wall,
    plants: amita_control::Faults,
    claim: u64,
    looked: Option<Duration>,
    link: Option<Link>,
    unheard: Option<String>,
    answered: Option<PointName>,
    /// Since when it does not ask for a point.
    asked: Option<Duration>,
    swept: Option<Duration>,
    closed: Option<(MirrorRole, MirrorEpoch)>,
    goal: Cell<Option<Goal>>,
    wanted: Cell<Duration>,
    called_off: Cell<bool>,
    lost: Cell<bool>,
    /// Which volumes of the mirror are open.
    opened: Vec<usize>,
}

impl Turn<'_> {
    fn is_over(&self) -> bool {
        self.lost.get() || self.line.is_cut()
    }

    fn lose(&self) -> Failure {
        self.lost.set(true);
        Failure::Lost
    }

    fn check(&self) -> Result<()> {
        if self.is_over() {
            return Err(Failure::Lost);
        }
        if self.called_off.get() {
            return Err(Failure::CalledOff);
        }
        if self.line.now().saturating_sub(self.wanted.get()) < WANTED_EVERY {
            return Ok(());
        }
        self.wanted.set(self.line.now());
        let keys = [map::mirror_key(&self.name), map::mirror_runner_key(&self.name)];
        let call = Call {
            then: keys.map(|key| Op::Get { key }).to_vec(),
            ..Call::default()
        };
        let Ok(reply) = self.line.txn(&call) else { return Ok(()) };
        let record: Option<Mirror> = reply.value(0).and_then(|found| found.json().ok());
        let is_so = record.is_some_and(|record| {
            let is_paused = record.paused.is_some() && record.pass.is_some();
            !is_paused && self.goal.get().is_none_or(|goal| goal == Goal::of(&record))
        });
        if !is_so {
            self.called_off.set(true);
            return Err(Failure::CalledOff);
        }
        match reply.value(1).is_some_and(|found| found.mod_revision == self.claim) {
            true => Ok(()),
            false => Err(self.lose()),
        }
    }

    fn rest(&self, time: Duration) -> Result<()> {
        self.check()?;
        self.line.rest(time);
        self.check()
    }

    /// Why it does not go on here.
    fn run(&mut self) -> Option<String> {
        loop {
            let turned = self.turn();
            self.close_all();
            if self.is_over() {
                return None;
            }
            match turned {
                Ok(Turned::Again) => {}
                Ok(Turned::Gone) => return None,
                Ok(Turned::Rest(time)) => self.watch(time),
                Err(_) if self.called_off.take() => self.line.say(Ask::Hit("mirror.called_off")),
                Err(Failure::Lost | Failure::CalledOff) => return None,
                Err(Failure::Said(why)) => {
                    let noted = admin::note_mirror(self.line, &self.name, self.claim, &|record| {
                        record.ails = Some(why.clone());
                    });
                    drop(noted);
                    return Some(why);
                }
            }
            self.goal.set(None);
        }
    }

    /// Rests, until something of the record has changed.
    fn watch(&self, time: Duration) {
        let until = self.line.now() + time;
        let call = Call::get(map::mirror_key(&self.name));
        let revision = |line: &Line| {
            let reply = line.txn(&call).ok()?;
            reply.value(0).map(|found| found.mod_revision)
        };
        let before = revision(self.line);
        while self.line.now() < until && !self.is_over() {
            self.line.rest(WATCH.min(until.saturating_sub(self.line.now())));
            if time > WATCH && revision(self.line) != before {
                return;
            }
        }
    }

    fn now(&self) -> Duration {
        self.wall.at(self.line)
    }

    fn look(&mut self, record: &mut Mirror, now: Duration) -> Result<()> {
        let every = LOOK.min(Duration::from_secs(record.interval_s) / 2);
        let is_due = |looked: Duration| now < looked || now - looked >= every;
        if !self.looked.is_none_or(is_due) {
            return Ok(());
        }
        self.looked = Some(now);
        match self.line.far(FarAsk::Look) {
            Ok(FarAnswer::Link(link)) => {
                let seen = Seen {
                    standing: link.standing.clone(),
                    at: now.as_secs(),
                    clock: link.clock,
                };
                match admin::see_mirror(self.line, &self.name, self.claim, &seen) {
                    Ok(Some(after)) => {
                        *record = after;
                        (self.link, self.unheard) = (Some(link), None);
                    }
                    Ok(None) => return Err(self.lose()),
                    Err(why) => self.unheard = Some(why.to_string()),
                }
            }
            Ok(_) => self.unheard = Some("it answers something else".to_owned()),
            Err(why) => self.unheard = Some(why.text().to_owned()),
        }
        Ok(())
    }

    fn turn(&mut self) -> Result<Turned> {
        let now = self.now();
        let mut record = match admin::mirror(self.line, &self.name) {
            Err(AdminError::NoSuch { what: "mirror", .. }) => return Ok(Turned::Gone),
            found => found?,
        };
        self.look(&mut record, now)?;
        self.goal.set(Some(Goal::of(&record)));
        let rest = Turned::Rest(REST);
        match next(&record) {
            Next::Serve => {
                self.tidy(now)?;
                Ok(rest)
            }
            Next::HandOver => self.hand_over(&record, now),
            Next::BecomePrimary => self.become_primary(&record, now),
            Next::Depose => {
                let heard = record.seen.as_ref().map_or(MirrorEpoch(0), |seen| seen.standing.epoch);
                admin::depose_mirror(self.line, &self.name, heard)?;
                admin::close_mirrored(self.line, &self.name)?;
                self.line.say(Ask::Hit("mirror.deposed"));
                self.looked = None;
                Ok(Turned::Again)
            }
            Next::Wait => match self.close(&record)? {
                true => Ok(rest),
                false => Ok(Turned::Again),
            },
            Next::Return => self.go_back(&record, now),
            Next::GoOver => {
                if !record.seen.as_ref().is_some_and(|seen| seen.standing.serves()) {
                    return Ok(rest);
                }
                match admin::follow_mirror(self.line, &self.name, self.claim)? {
                    Some(_) => {
                        self.line.say(Ask::Hit("mirror.went_over"));
                        Ok(Turned::Again)
                    }
                    None => Err(self.lose()),
                }
            }
            Next::Follow => self.follow(&record, now),
            // Removal is not played.
            Next::Leave => Ok(rest),
        }
    }

    fn tidy(&mut self, now: Duration) -> Result<()> {
        let gone = admin::let_points_go(self.line, &self.name)?;
        let is_due = |swept: Duration| now < swept || now - swept >= SWEEP;
        if gone > 0 || self.swept.is_none_or(is_due) {
            if admin::sweep_points(self.line, &self.name)? > 0 {
                self.line.say(Ask::Hit("mirror.let_go"));
            }
            self.swept = Some(now);
        }
        Ok(())
    }

    fn close(&mut self, record: &Mirror) -> Result<bool> {
        let so = (record.standing.role, record.standing.epoch);
        if self.closed == Some(so) {
            return Ok(true);
        }
        let is_closed = admin::close_mirrored(self.line, &self.name)?;
        self.closed = is_closed.then_some(so);
        Ok(is_closed)
    }

    fn hand_over(&mut self, record: &Mirror, now: Duration) -> Result<Turned> {
        if !self.plants.has(amita_control::Fault::HandOverOpen) && !self.close(record)? {
            return Ok(Turned::Again);
        }
        match admin::cut_point(self.line, &self.name, record.standing.epoch, now)? {
            Cutting::Cut(_) => {
                self.line.say(Ask::Hit("mirror.handed_over"));
                self.looked = None;
                Ok(Turned::Again)
            }
            Cutting::Waiting => Ok(Turned::Rest(SOON)),
        }
    }

    fn become_primary(&mut self, record: &Mirror, now: Duration) -> Result<Turned> {
        if record.begun.is_some() {
            // T2: what a pass has begun to write is no moment's, and is not kept.
            let to = record
                .standing
                .point
                .ok_or_else(|| said("there is no point to be promoted at"))?;
            self.line.say(Ask::Hit("mirror.promoted_in_a_pass"));
            return self.revert_all(record, (to, false), now);
        }
        if !admin::open_mirrored(self.line, &self.name)? {
            return Ok(Turned::Again);
        }
        admin::ready_mirror(self.line, &self.name)?;
        self.line.say(Ask::Hit("mirror.promoted"));
        self.looked = None;
        Ok(Turned::Again)
    }

    fn go_back(&mut self, record: &Mirror, now: Duration) -> Result<Turned> {
        // T12: nobody else writes there any more.
        if !self.close(record)? {
            return Ok(Turned::Again);
        }
        match record.returning.as_ref().and_then(|returning| returning.to) {
            Some(to) => self.revert_all(record, (to, true), now),
            None => {
                self.line.say(Ask::Hit("mirror.none_common"));
                self.gone_back(now)
            }
        }
    }

    fn revert_all(&mut self, record: &Mirror, (to, keep): (PointName, bool), now: Duration) -> Result<Turned> {
        let done: &[VolumeId] = record.returning.as_ref().map_or(&[][..], |returning| &returning.done);
        let Some(left) = record.volumes.iter().find(|volume| !done.contains(&volume.id)) else {
            return self.gone_back(now);
        };
        let point = record.standing.find(to).cloned();
        let point = point.ok_or_else(|| said(format!("point {to} is not there any more")))?;
        self.revert(record, left.id, &point, keep)?;
        match admin::returned(self.line, &self.name, self.claim, left.id)? {
            Some(_) => Ok(Turned::Again),
            None => Err(self.lose()),
        }
    }

    fn gone_back(&mut self, now: Duration) -> Result<Turned> {
        match admin::gone_back(self.line, &self.name, self.claim, now)? {
            Some(true) => {
                self.line.say(Ask::Hit("mirror.gone_back"));
                self.looked = None;
                Ok(Turned::Again)
            }
            Some(false) => Ok(Turned::Rest(SOON)),
            None => Err(self.lose()),
        }
    }

    fn follow(&mut self, record: &Mirror, now: Duration) -> Result<Turned> {
        let rest = Turned::Rest(REST);
        let (Some(seen), None) = (&record.seen, &record.paused) else {
            return Ok(rest);
        };
        if let Some(why) = &self.unheard {
            return Err(said(why.clone()));
        }
        let there = seen.clock.saturating_add(now.as_secs().saturating_sub(seen.at));
        let is_due = |asked: Duration| now < asked || now - asked >= LOOK;
        match wish(record, &seen.standing, there) {
            Wish::Nothing => {
                self.tidy(now)?;
                Ok(rest)
            }
            Wish::Cut if !self.asked.is_none_or(is_due) => Ok(rest),
            Wish::Cut => match self.line.far(FarAsk::Cut(record.standing.epoch)) {
                Err(FarWhy::Conflict(_)) if self.looked != Some(now) => {
                    self.looked = None;
                    Ok(Turned::Again)
                }
                Err(why) => Err(why.into()),
                Ok(FarAnswer::Cut(Some(point))) => {
                    let was_told = self.answered.replace(point.name) == Some(point.name);
                    if was_told || Some(point.name) == record.standing.point {
                        self.asked = Some(now);
                        return Ok(rest);
                    }
                    self.looked = None;
                    Ok(Turned::Again)
                }
                Ok(_) => Ok(Turned::Rest(SOON)),
            },
            Wish::Begin => self.begin(record, now),
            Wish::GoOn => self.bring(record, now),
        }
    }

    fn begin(&mut self, record: &Mirror, now: Duration) -> Result<Turned> {
        let sizes = self.sizes(record)?;
        match admin::begin_pass(self.line, &self.name, self.claim, &sizes)? {
            Some((record, _)) => self.bring(&record, now),
            None => Err(self.lose()),
        }
    }

    fn bring(&mut self, record: &Mirror, now: Duration) -> Result<Turned> {
        self.goal.set(Some(Goal::of(record)));
        let sizes = self.sizes(record)?;
        self.pass(record, &sizes)?;
        self.looked = None;
        self.tidy(now)?;
        Ok(Turned::Again)
    }

    fn sizes(&self, record: &Mirror) -> Result<Vec<u64>> {
        let there = self.link.as_ref().map_or(&[][..], |link| &link.sizes);
        let size = |name: &str| there.iter().find(|(named, _)| named == name).map(|(_, size)| *size);
        let sizes = record.volumes.iter().map(|volume| size(&volume.name));
        sizes
            .map(|size| size.ok_or_else(|| said("the other end has not this volume in this mirror")))
            .collect()
    }

    fn close_all(&mut self) {
        for at in std::mem::take(&mut self.opened) {
            self.line.say(Ask::Close(End::Nth(at)));
        }
    }

    fn did(&self, what: Did) {
        self.line.say(Ask::Did(Box::new(what)));
    }
}
