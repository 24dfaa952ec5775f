//! Being at a mirror, for as long as its key is held: turn after turn.

use super::clock::Machine;
use super::far::Far;
use super::goal;
use super::hands::{Gateway, now};
use super::renewal::Renewal;
use super::turn::{Turn, Turned, acts_first};
use crate::admin::Described;
use crate::commands::claim::Claim;
use crate::commands::mirror::link::Link;
use crate::commands::wanted::Wanted;
use crate::commands::worker;
use amita_client::Config;
use amita_control::admin;
use amita_metadata::{Call, Client};
use amita_terminal::error::{Failure, Kind, Result};
use amita_types::map::{self, MAX_AILS_BYTES, Mirror, MirrorPeer, MirrorRole};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Where there is no room for its data, a mirror is left to others after this.
const NO_ROOM: Duration = Duration::from_secs(5);
/// Where others wait, one that rests is left after this.
const TURN: Duration = Duration::from_secs(2);
/// What is done without the other end is waited for so long by who cannot ask that.
const UNHEARD: Duration = Duration::from_secs(60);

/// How it went.
pub(super) enum Worked {
    /// Others are at it, or may be; or it is gone.
    Ended,
    /// It is tried again: why it does not go on.
    Left(String),
}

/// Why something does not go on, and what to do about it.
fn in_words(why: &Failure) -> String {
    match why.advice.is_empty() {
        true => why.what.clone(),
        false => format!("{}. {}", why.what.trim_end_matches('.'), why.advice),
    }
}

/// Is it told of this end that it does not hear the other one? One that follows is left for that; and of one that becomes something, what it waits for
/// is another thing.
fn is_told(record: &Mirror) -> bool {
    matches!(record.standing.role, MirrorRole::Primary | MirrorRole::Deposed) && record.returning.is_none()
}

/// The other end cannot be asked from here: is the mirror left to who can? What can be done without that is done first, and waited for: points that are
/// cut, and volumes that go back, while hosts wait for them. Where that takes `long`, the other end may be in a later epoch, which somebody has to hear of.
fn is_left(record: &Mirror, turned: Turned, long: Duration) -> bool {
    matches!(turned, Turned::Rest(_)) && (!acts_first(record) || long >= UNHEARD)
}

/// Being at one mirror.
pub(super) struct Work {
    client: Client,
    config: Config,
    name: String,
    claim: u64,
    wanted: Rc<Wanted<Mirror>>,
    renewal: Rc<Renewal>,
    working: (Arc<AtomicUsize>, usize),
    others_wait: Arc<AtomicBool>,
    /// The way to the other end, as the record said it.
    link: Option<(MirrorPeer, Link)>,
    clock: Machine,
    began: Instant,
}

impl Work {
    pub fn new(
        (client, config): (Client, Config),
        name: &str,
        claim: &Claim,
        stop: Arc<AtomicBool>,
        seal_key: Option<PathBuf>,
    ) -> Work {
        let keys = (map::mirror_key(name), map::mirror_runner_key(name));
        let wanted = Wanted::new(client.clone(), keys, claim.revision, (Arc::clone(&claim.lost), stop));
        Work {
            client,
            config,
            name: name.to_owned(),
            claim: claim.revision,
            wanted: Rc::new(wanted),
            renewal: Rc::new(Renewal::new(name, claim.revision, seal_key)),
            working: (Arc::default(), 1),
            others_wait: Arc::default(),
            link: None,
            clock: Machine::new(),
            began: Instant::now(),
        }
    }

    /// With those that this node is at beside it: of these so many move data at one time.
    pub fn sharing(mut self, working: (Arc<AtomicUsize>, usize), others_wait: Arc<AtomicBool>) -> Work {
        (self.working, self.others_wait) = (working, others_wait);
        self
    }

    /// For as long as the key is held, and it goes on.
    pub fn run(mut self) -> Worked {
        let mut turn = Turn::new(&self.name, self.claim);
        let mut hands = Gateway::new(
            (self.client.clone(), self.config.clone()),
            (self.name.as_str(), self.claim),
            (Rc::clone(&self.wanted), Rc::clone(&self.renewal)),
            self.working.clone(),
        );
        let mut without_room: Option<Instant> = None;
        loop {
            if self.wanted.is_over() {
                return Worked::Ended;
            }
            let (turned, revision) = match self.turn(&mut turn, &mut hands) {
                Ok(done) => done,
                Err(_) if self.wanted.is_over() => return Worked::Ended,
                // Paused, or promoted: the record says so.
                Err(_) if self.wanted.was_called_off() => continue,
                Err(why) => return self.leave(&why),
            };
            let rests = match turned {
                Turned::Again => Duration::ZERO,
                Turned::Rest(rests) | Turned::NoRoom(rests) => rests,
                Turned::Lost | Turned::Gone => return Worked::Ended,
            };
            let since = match turned {
                Turned::NoRoom(_) => Some(without_room.unwrap_or_else(Instant::now)),
                _ => None,
            };
            without_room = since;
            if since.is_some_and(|since| since.elapsed() >= NO_ROOM) {
                return Worked::Ended;
            }
            if rests.is_zero() {
                continue;
            }
            hands.give_room();
            if self.others_wait.load(Ordering::Relaxed) && self.began.elapsed() >= TURN {
                return Worked::Ended;
            }
            let ends = || self.wanted.is_over();
            worker::wait(&self.client, &map::mirror_key(&self.name), revision, rests, &ends);
        }
    }

    /// One turn, and the revision at which it began.
    fn turn(&mut self, turn: &mut Turn, hands: &mut Gateway) -> Result<(Turned, u64)> {
        let reply = self.client.txn(&Call::get(map::mirror_key(&self.name)));
        let reply = reply.map_err(|why| crate::admin::metadata_failure(&why))?;
        let Some(record) = reply.value(0).and_then(|found| found.json::<Mirror>().ok()) else {
            return Ok((Turned::Gone, reply.revision));
        };
        let unreached = self.reach(&record).err();
        let far = self.link.as_ref().map(|(_, link)| link as &dyn Far);
        // Whoever is to promote it, or has paused it, waits for no end that may be dead.
        goal::go_by(&self.wanted, &record);
        let turned = turn.turn(&self.client, far, hands, &self.clock);
        self.wanted.go_by_nothing();
        // Also where nothing else goes on: without a token nothing will.
        let is_called_off = turned.as_ref().is_err_and(|why| why.kind == Kind::Interrupted);
        if turn.is_heard()
            && !is_called_off
            && let Some((peer, link)) = &self.link
        {
            self.renewal.look(&self.client, &record, (peer, link), now());
        }
        let turned = turned?;
        if let Some(why) = unreached.filter(|_| is_left(&record, turned, self.began.elapsed())) {
            return Err(why);
        }
        if matches!(turned, Turned::Again | Turned::Rest(_)) {
            let unheard = turn.unheard().filter(|_| is_told(&record)).map(in_words);
            let ails = unheard.or_else(|| self.renewal.ails(&record, now()));
            // What is too long would be cut off where it is noted, and be another thing each time.
            let ails = ails.map(|why| why.chars().take(MAX_AILS_BYTES / 4).collect::<String>());
            if record.ails != ails {
                self.note(&|record| record.ails.clone_from(&ails))?;
            }
        }
        Ok((turned, reply.revision))
    }

    /// Has a way to the other end, where that is known.
    fn reach(&mut self, record: &Mirror) -> Result<()> {
        let peer = &record.peer;
        if self.link.as_ref().is_some_and(|(of, _)| of == peer) {
            return Ok(());
        }
        self.link = None;
        // Not told of yet.
        if peer.addresses.is_empty() || peer.token.is_empty() {
            return Ok(());
        }
        let key = self.renewal.sealing()?;
        let wanted = Rc::clone(&self.wanted);
        let link = Link::of(record, key.as_ref())?.wanted(move || wanted.check());
        self.link = Some((peer.clone(), link));
        Ok(())
    }

    fn note(&self, by: &dyn Fn(&mut Mirror)) -> Result<()> {
        match admin::note_mirror(&self.client, &self.name, self.claim, by).described()? {
            Some(_) => Ok(()),
            None => Err(self.wanted.lose()),
        }
    }

    /// It does not go on: why is noted, and whoever takes it up next does so after a while.
    fn leave(&self, why: &Failure) -> Worked {
        let mut what = in_words(why);
        let record = admin::mirror(&self.client, &self.name).ok();
        if let Some(more) = record.and_then(|record| self.renewal.ails(&record, now())) {
            what = format!("{}. And {more}", what.trim_end_matches('.'));
        }
        if let Err(more) = self.note(&|record| record.ails = Some(what.clone())) {
            log::debug!("why mirror {} does not go on is not noted: {}", self.name, more.what);
        }
        Worked::Left(what)
    }
}

#[cfg(test)]
mod tests;
