//! Who lends: the bucket, and what each holder may still spend.

use super::{Ask, Grant, HolderId, LeaseEpoch, MAX_HOLDERS, Standing};
use crate::bucket::{Limit, Meter, PARTS, Spending};
use crate::faults::{Fault, Faults};
use crate::heap::Heap;
use amita_reactor::Time;
use arrayvec::ArrayVec;
use std::time::Duration;

/// Grants that a holder has not told of. It tells of them with every ask.
const UNTOLD: usize = 8;
/// While there is less than is wanted, it is lent once in this part of a lease: a holder asks four times in one, so that what it has not
/// told of has a place, and grants are not crumbs.
pub const ROUNDS: u32 = 16;
/// Of what is there, one turn takes a part of that size, divided by those who want some.
const TURN: u64 = 4;
/// A turn is no smaller than what comes in within this part of a lease.
const LEAST_TURN: u32 = 32;

/// How a grantor is made.
#[derive(Clone, Copy, Debug)]
pub struct GrantorConfig {
    /// Which of the limit's grantors it is.
    pub epoch: LeaseEpoch,
    /// How long tokens are lent for.
    pub lease: Duration,
    /// And to who is slow to hear.
    pub long_lease: Duration,
    /// What the largest request costs.
    pub largest: u64,
    /// What is set apart.
    pub standing: Standing,
    /// Rules that are switched off.
    pub faults: Faults,
}

impl GrantorConfig {
    fn lease_of(&self, is_long: bool) -> Duration {
        match is_long {
            true => self.long_lease,
            false => self.lease,
        }
    }
}

/// Why a limit cannot be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// What is lent takes room in the burst: with less the rate is not reached.
    #[error("a limit that several gateways share needs a burst of at least {least}")]
    Burst {
        /// The least burst.
        least: u64,
    },
    /// It would leave less than half of the rate to be lent.
    #[error("standing shares may take half of the rate at most")]
    Standing,
}

/// What is lent to a holder.
#[derive(Debug)]
struct Lent {
    holder: HolderId,
    is_long: bool,
    asked: Time,
    /// How far apart its last two asks were.
    apart: Duration,
    number: u64,
    sent: Time,
    spent: u128,
    /// What it told that it has.
    told: u128,
    /// What it was granted since, by number.
    untold: ArrayVec<(u64, u64), UNTOLD>,
    want: u64,
    least: u64,
    /// Its turn.
    start: u128,
    /// What it gets in the round that is being made.
    round: u64,
    /// What had not been told of when its lease ended; only [`Fault::TakeBackLate`] looks at it.
    ended: u128,
}

impl Lent {
    /// It is silent for half of the lease: a grant would have lapsed when it comes. Half of a long one is long, and it has its turn meanwhile, which
    /// others wait for: there it is twice as long as its asks are apart.
    fn is_stale(&self, now: Time, config: &GrantorConfig) -> bool {
        let most = match self.is_long {
            true => (2 * self.apart).max(config.lease).min(config.long_lease / 2),
            false => config.lease / 2,
        };
        now.since(self.asked) > most
    }

    fn out(&self) -> u128 {
        self.told + self.untold.iter().map(|&(_, tokens)| u128::from(tokens)).sum::<u128>()
    }
}

/// The bucket of one limit, of which others spend.
#[derive(Debug)]
pub struct Grantor {
    config: GrantorConfig,
    limit: Limit,
    meter: Meter,
    /// It may lend until then.
    mandate: Time,
    /// Until then what a predecessor has lent may be spent.
    quiet: Time,
    /// Until then what a predecessor has lent for long may be spent: up to [`Grantor::long_room`].
    reserved: Time,
    /// Has that moment not come yet?
    is_reserved: bool,
    /// What is out with all holders, in tokens.
    out: u128,
    /// Of that, for long.
    long_out: u128,
    places: Vec<Option<Lent>>,
    /// Places by when their leases end.
    ends: Heap,
    /// Places that want some, by their turns.
    order: Heap,
    /// Who wants some for long while there is no room, and its turn.
    skipped: Vec<(u32, u128)>,
    turn: u128,
    /// There is too little: nothing is lent before then.
    round: Time,
    granted: u64,
}

impl Grantor {
    /// The first of a limit: full, and bound to nothing that went before.
    ///
    /// # Errors
    /// The limit cannot be shared.
    pub fn first(now: Time, limit: Limit, config: GrantorConfig) -> Result<Grantor, LeaseError> {
        let shared = shared(&limit, &config)?;
        let spending = Spending::Whole {
            largest: config.largest,
        };
        Ok(Grantor {
            config,
            limit,
            meter: Meter::new(now, &shared, spending),
            mandate: Time(0),
            quiet: Time(0),
            reserved: Time(0),
            is_reserved: false,
            out: 0,
            long_out: 0,
            places: Vec::new(),
            ends: Heap::default(),
            order: Heap::default(),
            skipped: Vec::new(),
            turn: 0,
            round: Time(0),
            granted: 0,
        })
    }

    /// The successor of one whose mandate has ended, or ends within `mandate` by this clock. It begins empty, and fills from the
    /// moment at which the last lease of that one has ended.
    ///
    /// # Errors
    /// The limit cannot be shared.
    pub fn succeed(now: Time, limit: Limit, config: GrantorConfig, mandate: Duration) -> Result<Grantor, LeaseError> {
        let mut grantor = Grantor::first(now, limit, config)?;
        let mandate = match config.faults.has(Fault::ForgetMandate) {
            true => Duration::ZERO,
            false => mandate,
        };
        if !config.faults.has(Fault::BeginAtOnce) {
            grantor.quiet = now.plus(mandate).plus(config.lease);
        }
        if !config.faults.has(Fault::ForgetLongLeases) {
            grantor.reserved = now.plus(mandate).plus(config.long_lease);
            grantor.is_reserved = true;
        }
        if !config.faults.has(Fault::BeginFull) {
            grantor.meter.empty();
        }
        Ok(grantor)
    }

    /// The least burst with which a limit of that rate can be shared: what comes in within two leases, and two largest requests. Half
    /// of it can be lent for long, and with the other half all still goes on.
    #[must_use]
    pub fn least_burst(rate: u64, lease: Duration, largest: u64) -> u64 {
        let lent = u128::from(rate) * (2 * lease).as_nanos() / 1_000_000_000;
        u64::try_from(lent)
            .unwrap_or(u64::MAX)
            .saturating_add(largest.saturating_mul(2))
    }

    /// Its epoch.
    #[must_use]
    pub fn epoch(&self) -> LeaseEpoch {
        self.config.epoch
    }

    /// It may lend until then, by its own clock: whoever has made it grantor makes no other before.
    pub fn mandate(&mut self, until: Time) {
        self.mandate = self.mandate.max(until);
    }

    /// It lends no more: it has consented to a successor.
    pub fn end(&mut self) {
        self.mandate = Time(0);
        self.places.clear();
        (self.out, self.long_out) = (0, 0);
        self.order = Heap::default();
        self.ends = Heap::default();
    }

    /// Another limit, from now on. Nothing jumps.
    ///
    /// # Errors
    /// It cannot be shared; the old one holds.
    pub fn set(&mut self, now: Time, limit: Limit) -> Result<(), LeaseError> {
        let shared = shared(&limit, &self.config)?;
        self.advance(now);
        let lent = self.lent();
        self.meter.change(now, &shared, lent, self.config.faults);
        self.limit = limit;
        Ok(())
    }

    /// What was saved is gone: the limit did not hold for a while. What is lent, or owed, stays.
    pub fn drain(&mut self, now: Time) {
        self.advance(now);
        self.meter.empty();
    }

    /// The limit.
    #[must_use]
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// What takes room, in parts: what is lent, and what a predecessor may have lent for long.
    fn lent(&self) -> i128 {
        if self.config.faults.has(Fault::LentTakesNoRoom) {
            return 0;
        }
        let reserved = if self.is_reserved { self.long_room() } else { 0 };
        (self.out as i128 + i128::from(reserved)) * PARTS
    }

    /// What can be lent for long, in tokens.
    fn long_room(&self) -> u64 {
        self.capacity() / 2
    }

    /// Brings everything up to `now`: what comes in, and what ends, one after the other. What came in while there was no room for
    /// it does not come later.
    fn advance(&mut self, now: Time) {
        self.meter.pause(self.quiet.min(now));
        if self.is_reserved && now >= self.reserved {
            self.advance_to(self.reserved);
            self.is_reserved = false;
        }
        self.advance_to(now);
    }

    fn advance_to(&mut self, now: Time) {
        while let Some((end, place)) = self.ends.peek() {
            let end = Time(u64::try_from(end).unwrap_or(u64::MAX));
            if end > now {
                break;
            }
            self.meter.accrue(end, self.lent());
            self.ends.remove(place);
            self.lease_ends(now, place);
        }
        self.meter.accrue(now, self.lent());
    }

    /// What a holder may have left is taken for spent.
    fn lease_ends(&mut self, now: Time, place: u32) {
        let slot = &mut self.places[place as usize];
        let Some(lent) = slot else { return };
        let out = lent.out();
        let lease = self.config.lease_of(lent.is_long);
        self.out -= out;
        self.long_out -= if lent.is_long { out } else { 0 };
        lent.ended += out;
        lent.told = 0;
        lent.untold.clear();
        let is_silent = now.since(lent.asked) >= lease;
        if is_silent && !self.config.faults.has(Fault::TakeBackLate) {
            *slot = None;
            self.order.remove(place);
        } else {
            self.ends.set(place, u128::from(now.plus(lease).0));
        }
    }

    /// A holder asks. What it is lent is told by [`Grantor::poll`].
    pub fn ask(&mut self, now: Time, ask: &Ask) {
        if ask.epoch != self.config.epoch {
            return;
        }
        self.advance(now);
        let Some(place) = self.place_of(now, ask) else { return };
        let Some(lent) = &mut self.places[place as usize] else {
            return;
        };
        if ask.number <= lent.number && !self.config.faults.has(Fault::HearOldAsks) || ask.is_long != lent.is_long {
            return;
        }
        let lease = self.config.lease_of(lent.is_long);
        let before = lent.out();
        // A holder may owe; what it says is no more than it was given: it is one of ours, and what it says binds nobody else.
        let left = ask.taken.saturating_sub(ask.spent).saturating_sub(ask.gone);
        lent.untold.retain(|(number, _)| *number > ask.heard);
        // It may be heard after the lease of what it tells of has ended, and that was taken for spent: by a statement nothing gets more.
        lent.told = 0;
        let counted = before - lent.out();
        lent.told = match self.config.faults.has(Fault::ReviveLapsed) {
            true => left,
            false => left.min(counted),
        };
        let after = lent.out();
        let mut spent = ask.spent.saturating_sub(lent.spent);
        let mut back = before.saturating_sub(after);
        if self.config.faults.has(Fault::TakeBackLate) {
            back += std::mem::take(&mut lent.ended);
        }
        spent = spent.min(back);
        back -= spent;
        if lent.number > 0 {
            lent.apart = now.since(lent.asked);
        }
        (lent.spent, lent.number, lent.sent, lent.asked) = (ask.spent, ask.number, ask.sent, now);
        (lent.want, lent.least) = (ask.want, ask.least.min(ask.want));
        if lent.want > 0 {
            lent.start = lent.start.max(self.turn);
            self.order.set(place, lent.start);
        } else {
            self.order.remove(place);
        }
        self.out = self.out - before + after;
        if lent.is_long {
            self.long_out = self.long_out - before + after;
        }
        if !self.ends.contains(place) {
            // It may hold tokens that were taken for spent; or nothing, and its place is free when it has been silent for a lease.
            self.ends.set(place, u128::from(now.plus(lease).0));
        }
        // Given back, or never taken: a negative sum takes nothing out.
        self.meter.spend(-(back as i128 * PARTS));
        self.meter.accrue(now, self.lent());
    }

    /// The place of a holder, a new one if there is room.
    fn place_of(&mut self, now: Time, ask: &Ask) -> Option<u32> {
        let known = |lent: &Option<Lent>| lent.as_ref().is_some_and(|lent| lent.holder == ask.holder);
        if let Some(place) = self.places.iter().position(known) {
            return Some(place as u32);
        }
        let place = match self.places.iter().position(Option::is_none) {
            Some(place) => place,
            None if self.places.len() < MAX_HOLDERS => {
                self.places.push(None);
                self.ends.reserve(self.places.len());
                self.order.reserve(self.places.len());
                self.places.len() - 1
            }
            None => return None,
        };
        self.places[place] = Some(Lent {
            holder: ask.holder,
            is_long: ask.is_long,
            asked: now,
            // The second one comes when the first had its answer.
            apart: self.config.lease_of(ask.is_long),
            number: 0,
            sent: ask.sent,
            spent: ask.spent,
            told: 0,
            untold: ArrayVec::new(),
            want: 0,
            least: 0,
            start: 0,
            round: 0,
            ended: 0,
        });
        Some(place as u32)
    }

    /// Lends what there is to those who want it, by turns; to be called after asks, and at [`Grantor::wake_at`].
    pub fn poll(&mut self, now: Time, mut emit: impl FnMut(Grant)) {
        self.advance(now);
        if now >= self.mandate && !self.config.faults.has(Fault::LendWithoutMandate) {
            return;
        }
        if now < self.round {
            return;
        }
        let (mut available, mut for_long) = (self.available(), self.available_for_long());
        let (most_to_one, long_room) = (self.most_to_one(), self.long_room());
        let least_turn = self.least_turn();
        while let Some((start, place)) = self.order.peek() {
            let waiting = self.order.len() as u64;
            let Some(lent) = self.places[place as usize].as_mut() else {
                self.order.remove(place);
                continue;
            };
            if lent.is_stale(now, &self.config) || lent.untold.is_full() {
                // It asks again; a grant would have lapsed when it comes, or could not be counted.
                self.order.remove(place);
                continue;
            }
            let needed = lent
                .least
                .max(1)
                .min(if lent.is_long { long_room } else { most_to_one });
            if lent.is_long && for_long < needed {
                // What the others of its kind hold is no reason for the rest to wait.
                self.order.remove(place);
                self.skipped.push((place, start));
                continue;
            }
            if available < needed {
                break;
            }
            let turn = (available / (TURN * waiting)).max(least_turn).max(needed);
            let most = if lent.is_long {
                for_long.min(available)
            } else {
                available
            };
            let tokens = turn.min(lent.want).min(most);
            available -= tokens;
            if lent.is_long {
                for_long -= tokens;
            }
            lent.round += tokens;
            lent.want -= tokens;
            lent.least = lent.least.saturating_sub(tokens);
            lent.start = start + u128::from(tokens);
            self.turn = start;
            self.meter.spend(i128::from(tokens) * PARTS);
            if lent.want > 0 {
                self.order.set(place, lent.start);
            } else {
                self.order.remove(place);
            }
        }
        for (place, start) in self.skipped.drain(..) {
            self.order.set(place, start);
        }
        if !self.order.is_empty() {
            self.round = now.plus(self.config.lease / ROUNDS);
        }
        self.hand_out(now, &mut emit);
    }

    /// What comes in within a [`LEAST_TURN`]th of a lease.
    fn least_turn(&self) -> u64 {
        let part = u128::from(self.limit.rate()) * (self.config.lease / LEAST_TURN).as_nanos() / 1_000_000_000;
        u64::try_from(part).unwrap_or(u64::MAX)
    }

    fn available(&self) -> u64 {
        let tokens = self.meter.available().max(0) / PARTS;
        u64::try_from(tokens).unwrap_or(u64::MAX)
    }

    /// What can be lent for long now. What that takes is counted when it is handed out.
    fn available_for_long(&self) -> u64 {
        if self.config.faults.has(Fault::LendAllForLong) {
            return u64::MAX;
        }
        if self.is_reserved && !self.config.faults.has(Fault::LendLongEarly) {
            return 0;
        }
        let out = u64::try_from(self.long_out).unwrap_or(u64::MAX);
        self.long_room().saturating_sub(out)
    }

    /// More than that is never available at once.
    fn most_to_one(&self) -> u64 {
        self.capacity() - if self.is_reserved { self.long_room() } else { 0 }
    }

    fn capacity(&self) -> u64 {
        u64::try_from(self.meter.capacity() / PARTS).unwrap_or(u64::MAX)
    }

    fn hand_out(&mut self, now: Time, emit: &mut impl FnMut(Grant)) {
        for (place, lent) in self.places.iter_mut().enumerate() {
            let Some(lent) = lent.as_mut().filter(|lent| lent.round > 0) else {
                continue;
            };
            let tokens = std::mem::take(&mut lent.round);
            self.granted += 1;
            // There is room: who has none was not given a turn.
            lent.untold.push((self.granted, tokens));
            self.out += u128::from(tokens);
            self.long_out += u128::from(if lent.is_long { tokens } else { 0 });
            let end = now.plus(self.config.lease_of(lent.is_long));
            self.ends.set(place as u32, u128::from(end.0));
            emit(Grant {
                epoch: self.config.epoch,
                holder: lent.holder,
                number: self.granted,
                tokens,
                sent: lent.sent,
            });
        }
    }

    /// When there is something to lend to whoever waits; none without a mandate.
    #[must_use]
    pub fn wake_at(&self, now: Time) -> Option<Time> {
        if now >= self.mandate {
            return None;
        }
        let (_, place) = self.order.peek()?;
        let lent = self.places[place as usize].as_ref()?;
        let most = if lent.is_long {
            self.long_room()
        } else {
            self.most_to_one()
        };
        let needed = lent.least.max(1).min(most);
        let ready = self.meter.ready_at(i128::from(needed) * PARTS);
        // Room may be what is lacking: it comes when leases end.
        let end = self
            .ends
            .peek()
            .map_or(ready, |(end, _)| Time(u64::try_from(end).unwrap_or(u64::MAX)));
        let room = self.meter.capacity() - self.lent() >= i128::from(needed) * PARTS;
        let room = room && (!lent.is_long || self.available_for_long() >= needed);
        Some(if room { ready.max(self.quiet) } else { end }.max(self.round))
    }

    /// Tokens that are out, and holders that there are.
    #[must_use]
    pub fn lent_out(&self) -> (u128, usize) {
        (self.out, self.places.iter().flatten().count())
    }
}

/// The part of a limit that is lent.
fn shared(limit: &Limit, config: &GrantorConfig) -> Result<Limit, LeaseError> {
    let Standing { rate, holders } = config.standing;
    // A holder's clock may run a tenth fast, the grantor's a tenth slow: 1.1 / 0.9.
    let apart = (u128::from(rate) * u128::from(holders) * 5).div_ceil(4);
    let apart = u64::try_from(apart).unwrap_or(u64::MAX);
    if apart > limit.rate() / 2 {
        return Err(LeaseError::Standing);
    }
    let bursts = config
        .largest
        .saturating_mul(if rate > 0 { u64::from(holders) } else { 0 });
    let least = Grantor::least_burst(limit.rate(), config.lease, config.largest).saturating_add(bursts);
    if limit.burst() < least {
        return Err(LeaseError::Burst { least });
    }
    if config.faults.has(Fault::LendStanding) {
        return Ok(*limit);
    }
    Ok(limit.less(apart, bursts))
}
