//! In which order a store is given what is asked of it, when that is more than it does at once.
//!
//! # The story
//! Three volumes, a scrub and a rebuild want the same disk. What it has been given it does as it likes, so the order is made in front of it: of what is under
//! way there is a depth, and beyond that requests wait here, as if they were still on their link. The store has not seen them: their right, their account and
//! what they follow are looked at when it is given them, not when they came. All that waiting may change is the order among volumes.
//!
//! # What keeps its place
//! * *All of a volume is one line* ([`amita_qos::lines`]), whatever it is for and by whichever links it came. So each chunk's history, and each question behind
//!   a write, comes as it was sent (R1, R5, R8).
//! * *Fences, credits and lists of a volume's chunks do not wait*, and its whole line goes before them: what was accepted before a fence is what came before it (R6), and what
//!   an account has was not promised twice (R7).
//! * *What opens, joins or forms a chunk does not wait* either; its line goes up to the last request about that chunk.
//! * *A lease is renewed at once* (R4): it is about nothing that waits.
//! * *An account's number* comes back for another volume's sequencer: what waits of the one before goes first, so that the store sees them one after the other, as
//!   it counts them (R7).
//! * *A link that closes* has what waits of it go first: the store is told as if nothing had waited.
//! * *Nothing waits for long*: [`LONGEST`], then it goes, whatever is under way, and what is before it. Who waits for a store takes it for hung after seconds, and for sick
//!   where a part of its answers takes more than 50 ms; a lease holds for 250 ms. A store that cannot keep up is given everything as it comes, as ever.
//!
//! There is an order only where something was said of a volume of the cluster; without that nothing stands between links and stores.

use amita_qos::lines::{Handed, Standings, Tally};
use amita_qos::scheduler::Config;
use amita_qos::{Class, Cost, DepthLimits, Direction, Faults, LineId, Lines, Ticket};
use amita_reactor::Slice;
use amita_reactor::driver::Time;
use amita_store::{AccountId, LinkId};
use amita_types::map::{Priority, USUAL_WEIGHT};
use amita_types::message::{Purpose, Request, RequestBody, Waited};
use amita_types::{BLOCK_BYTES, ChunkIndex, MAX_IO_BYTES, NodeId, RequestId, VolumeId};
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;
use std::num::NonZeroU16;
use std::time::Duration;

/// Nothing waits for longer, and a look: well below what answers may take before their store is thought sick.
pub const LONGEST: Duration = Duration::from_millis(40);
/// How often it is looked for what has waited so long.
const LOOK: Duration = Duration::from_millis(5);
/// What a store has under way at once, while latency targets are missed, and else: what saturates an NVMe device.
pub const DEPTH: DepthLimits = DepthLimits { least: 4, most: 64 };
/// So many times as much where the device's cache is flushed: one flush, however long, is for all that is under way.
const FLUSHED_TIMES: u32 = 4;
/// Requests that wait at a store. What comes beyond goes on at once, behind its line: the store refuses what is too much.
const MOST_WAITING: usize = 4096;
/// So many lines are kept at least, though nothing waits in them.
const KEPT_LINES: usize = 1024;
/// There are no more: as many as a cluster has volumes. Numbers of volumes come from the network; what is of another one goes at once, and the store refuses it.
const MOST_LINES: usize = 1 << 16;
/// A line that was not used for so long is forgotten, where there are many; and how often that is looked for.
const IDLE: Duration = Duration::from_secs(1);

/// A request on its way to its store.
#[derive(Debug)]
pub struct Passing {
    /// The node that it came from.
    pub from: NodeId,
    /// By which link.
    pub link: LinkId,
    /// What is asked.
    pub request: Request,
    /// What travels beside it.
    pub payload: Slice,
}

impl Passing {
    fn account(&self) -> AccountId {
        AccountId::new(self.link, self.request.id)
    }
}

/// What has become of requests at a store since it has an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnCounts {
    /// Requests that have been given to the store, by their classes.
    pub passed: [u64; Class::ALL.len()],
    /// Of those, that have waited.
    pub held: [u64; Class::ALL.len()],
    /// For how long, together.
    pub held_ns: [u64; Class::ALL.len()],
    /// The longest of them.
    pub longest: Duration,
    /// Out of their turn, and before what came before them: the latter never.
    pub tally: Tally,
    /// Requests that wait.
    pub waiting: usize,
    /// Under way, and how many may be.
    pub depth: (u32, u32),
}

/// A line by its volume.
#[derive(Debug)]
struct Line {
    id: LineId,
    /// When something came last.
    used: Time,
}

/// Where a request stands.
enum Place {
    /// It waits for its turn.
    Line(Class, Cost),
    /// It goes at once, behind what waits about that chunk.
    Behind(ChunkIndex),
    /// It goes at once, behind all of its volume.
    BehindAll,
    /// It goes at once.
    Beside,
}

/// The order of one store.
#[derive(Debug)]
pub struct Turns {
    lines: Lines<Passing>,
    volumes: FxHashMap<VolumeId, Line>,
    priorities: FxHashMap<VolumeId, Priority>,
    /// Whose requests wait, of which volume, and how many.
    accounts: FxHashMap<AccountId, (VolumeId, u32)>,
    /// What the store has not answered, and how long that had waited.
    under_way: FxHashMap<(LinkId, RequestId), (Ticket, Duration)>,
    /// When it is looked next whether something has waited for long.
    look_at: Option<Time>,
    /// When lines are looked for that may be forgotten.
    forget_at: Option<Time>,
    /// Something may go that waits.
    due: Option<Time>,
    counts: TurnCounts,
}

impl Turns {
    /// Of a store that has so much under way at once; `flushes`: its device has a volatile cache.
    #[must_use]
    pub fn new(depth: DepthLimits, flushes: bool, faults: Faults) -> Turns {
        let times = if flushes { FLUSHED_TIMES } else { 1 };
        let depth = DepthLimits {
            most: depth.most.saturating_mul(times),
            ..depth
        };
        let config = Config {
            waiting: MOST_WAITING,
            depth,
            faults,
            ..Config::default()
        };
        Turns {
            lines: Lines::new(config),
            volumes: FxHashMap::default(),
            priorities: FxHashMap::default(),
            accounts: FxHashMap::default(),
            under_way: FxHashMap::default(),
            look_at: None,
            forget_at: None,
            due: None,
            counts: TurnCounts::default(),
        }
    }

    /// How a volume stands from now on; none: as all do of which nothing is said.
    pub fn set(&mut self, now: Time, volume: VolumeId, priority: Option<Priority>) {
        match priority {
            Some(priority) => self.priorities.insert(volume, priority),
            None => self.priorities.remove(&volume),
        };
        if let Some(line) = self.volumes.get(&volume) {
            self.lines.set(now, line.id, standings(priority));
        }
    }

    /// A request comes. What goes with that, and because of it, is [taken](Turns::take).
    pub fn come(&mut self, now: Time, passing: Passing) {
        self.let_account_go(now, &passing);
        let volume = passing.request.scope.volume;
        match place(&passing) {
            Place::Line(class, cost) => return self.wait(now, volume, class, cost, passing),
            Place::Behind(chunk) => self.pull(now, volume, |of| of.request.body.chunk() == Some(chunk)),
            Place::BehindAll => self.pull(now, volume, |_| true),
            Place::Beside => {}
        }
        self.lines.pass(passing);
    }

    /// Requests of another volume wait that bear the number of this one's account: that is another sequencer's by now.
    fn let_account_go(&mut self, now: Time, passing: &Passing) {
        if self.accounts.is_empty() {
            return;
        }
        let account = passing.account();
        if let Some(&(volume, _)) = self.accounts.get(&account)
            && volume != passing.request.scope.volume
        {
            self.pull(now, volume, |of| of.account() == account);
        }
    }

    fn wait(&mut self, now: Time, volume: VolumeId, class: Class, cost: Cost, passing: Passing) {
        let known = self.volumes.len();
        let line = match self.volumes.entry(volume) {
            Entry::Occupied(known) => known.into_mut(),
            // It has no line, so nothing of it waits.
            Entry::Vacant(_) if known >= MOST_LINES => return self.lines.pass(passing),
            Entry::Vacant(place) => {
                let priority = self.priorities.get(&volume).copied();
                let id = self.lines.add(standings(priority));
                if known >= KEPT_LINES && self.forget_at.is_none() {
                    self.forget_at = Some(now.plus(IDLE));
                }
                place.insert(Line { id, used: now })
            }
        };
        line.used = now;
        let id = line.id;
        let account = passing.account();
        if let Err(passing) = self.lines.push(now, id, class, passing, cost) {
            // As the store would say: it has too much to do. What is before it goes first.
            self.lines.pull(now, id, |_| true);
            return self.lines.pass(passing);
        }
        let waiting = self.accounts.entry(account).or_insert((volume, 0));
        *waiting = (volume, waiting.1 + 1);
        self.go(now);
        if self.look_at.is_none() && self.lines.waiting() > 0 {
            self.look_at = Some(now.plus(LOOK));
        }
    }

    fn pull(&mut self, now: Time, volume: VolumeId, is_so: impl Fn(&Passing) -> bool) {
        if let Some(line) = self.volumes.get(&volume) {
            self.lines.pull(now, line.id, is_so);
        }
    }

    /// Whatever may go now goes. To be asked at the end of a pass.
    pub fn go(&mut self, now: Time) {
        self.due = None;
        self.lines.go(now);
        if self.look_at.is_some_and(|at| at <= now) {
            self.lines.hurry(now, LONGEST);
            self.look_at = (self.lines.waiting() > 0).then(|| now.plus(LOOK));
        }
        self.forget_idle(now);
    }

    /// Nothing of what the store was given is under way there: it owes no answer.
    pub fn settle(&mut self, now: Time) {
        for (_, (ticket, _)) in self.under_way.drain() {
            self.lines.done(now, ticket);
        }
    }

    /// Is something under way?
    #[must_use]
    pub fn is_owed(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Everything goes now: there is to be no order any more, or the store does not serve.
    pub fn let_all_go(&mut self, now: Time) {
        self.lines.pull_all(now, |_| true);
        (self.due, self.look_at) = (None, None);
        self.forget_idle(now);
    }

    /// A link closes: what waits of it goes, before the store is told.
    pub fn link_closed(&mut self, now: Time, link: LinkId) {
        self.lines.pull_all(now, |of| of.link == link);
    }

    /// The next one for the store.
    pub fn take(&mut self, now: Time) -> Option<Passing> {
        let Handed { item: passing, turn } = self.lines.take()?;
        let Some(turn) = turn else {
            return Some(passing);
        };
        let account = passing.account();
        if let Entry::Occupied(mut waiting) = self.accounts.entry(account) {
            waiting.get_mut().1 -= 1;
            if waiting.get().1 == 0 {
                waiting.remove();
            }
        }
        // Of what comes again while it is under way the first answer counts for the last.
        let before = self
            .under_way
            .insert((passing.link, passing.request.id), (turn.ticket, turn.waited));
        if let Some((before, _)) = before {
            self.lines.done(now, before);
        }
        let (place, waited) = (turn.class as usize, turn.waited);
        self.counts.passed[place] += 1;
        if !waited.is_zero() {
            self.counts.held[place] += 1;
            self.counts.held_ns[place] += waited.as_nanos() as u64;
            self.counts.longest = self.counts.longest.max(waited);
        }
        Some(passing)
    }

    /// The store has answered: how long had that waited?
    pub fn answered(&mut self, now: Time, link: LinkId, id: RequestId) -> Waited {
        let Some((ticket, waited)) = self.under_way.remove(&(link, id)) else {
            return Waited::default();
        };
        self.lines.done(now, ticket);
        if self.due.is_none() && self.lines.is_due() {
            self.due = Some(now);
        }
        Waited::of(waited)
    }

    /// When [`Turns::go`] is wanted, though nothing comes.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.due.into_iter().chain(self.look_at).chain(self.forget_at).min()
    }

    /// Does nothing wait?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.waiting() == 0
    }

    /// What has become of requests.
    #[must_use]
    pub fn counts(&self) -> TurnCounts {
        TurnCounts {
            tally: self.lines.tally(),
            waiting: self.lines.waiting(),
            depth: self.lines.depth(),
            ..self.counts
        }
    }

    /// Lines in which nothing waits, and nothing has come for long, are forgotten now and then where there are many.
    fn forget_idle(&mut self, now: Time) {
        if self.forget_at.is_none_or(|at| at > now) {
            return;
        }
        let lines = &mut self.lines;
        self.volumes.retain(|_, line| {
            let stays = !lines.is_empty(line.id) || now.since(line.used) < IDLE;
            if !stays {
                lines.remove(now, line.id);
            }
            stays
        });
        self.forget_at = (self.volumes.len() > KEPT_LINES).then(|| now.plus(IDLE));
    }
}

fn standings(priority: Option<Priority>) -> Standings {
    let priority = priority.unwrap_or_default();
    Standings {
        weight: NonZeroU16::new(priority.weight()).unwrap_or(USUAL),
        reservation: priority.reservation.unwrap_or(0),
        latency_target: priority
            .latency_target_us
            .map(|target_us| Duration::from_micros(target_us.into())),
    }
}

/// [`USUAL_WEIGHT`]
const USUAL: NonZeroU16 = NonZeroU16::MIN.saturating_add(USUAL_WEIGHT - 1);

/// Whether a request may wait, and what it is for: as it says itself, or else its kind.
fn place(passing: &Passing) -> Place {
    let body = &passing.request.body;
    let line = |by_kind, direction, bytes: u32| {
        let class = match passing.request.purpose {
            Purpose::Unsaid => by_kind,
            Purpose::Client => Class::Client,
            Purpose::Recovery => Class::Recovery,
            Purpose::Move => Class::Move,
            Purpose::Scrub => Class::Scrub,
            Purpose::Backup => Class::Backup,
        };
        Place::Line(class, Cost::piece(direction, bytes))
    };
    let carried = passing.payload.len() as u32;
    match body {
        RequestBody::Read(read) => {
            let bytes = u32::from(read.range.count).saturating_mul(BLOCK_BYTES);
            line(Class::Client, Direction::Read, bytes.min(MAX_IO_BYTES))
        }
        RequestBody::Write(_) => line(Class::Client, Direction::Write, carried),
        RequestBody::Clear(_) => line(Class::Client, Direction::Write, 0),
        RequestBody::Allocation(_) | RequestBody::Differ(_) => line(Class::Client, Direction::Read, 0),
        RequestBody::Verify(_) => line(Class::Scrub, Direction::Read, MAX_IO_BYTES),
        RequestBody::Mend(_) | RequestBody::Put(_) | RequestBody::Restore(_) => {
            line(Class::Recovery, Direction::Write, carried)
        }
        RequestBody::RenewLease => Place::Beside,
        RequestBody::Fence(_) | RequestBody::Settle(_) | RequestBody::Chunks(_) => Place::BehindAll,
        RequestBody::Open(_)
        | RequestBody::Changes(_)
        | RequestBody::Roll(_)
        | RequestBody::RetainSnapshots(_)
        | RequestBody::Clone(_)
        | RequestBody::Inherit(_)
        | RequestBody::Join(_)
        | RequestBody::Whole(_)
        | RequestBody::States(_)
        | RequestBody::Frame(_)
        | RequestBody::Close(_)
        | RequestBody::Mark(_) => body.chunk().map_or(Place::BehindAll, Place::Behind),
    }
}

#[cfg(test)]
mod tests;
