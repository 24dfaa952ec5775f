//! The tokens of one thing that is limited at one gate: a volume's, or those that a tenant or a pool has for all its volumes; and what its lender
//! is asked for.

use super::lanes::tokens;
use super::spread::Spread;
use crate::limits::{Answer, Asks};
use amita_qos::lease::{HolderConfig, HolderId, LEASE, LONG_LEASE, LeaseEpoch};
use amita_qos::limits::{BUCKETS, largest, own};
use amita_qos::{Cost, Faults, Holder, Limits};
use amita_reactor::driver::Time;
use std::array;
use std::time::Duration;

/// A lender that lends nothing now is asked again after this.
pub(super) const PAUSE: Duration = Duration::from_millis(12);
/// One that cannot be reached is asked again after that at first, after twice as long each time, and never later than this.
const LONGEST_PAUSE: Duration = Duration::from_millis(400);
/// So many times twice as long, and it is longer than that.
const DOUBLINGS: u32 = 6;

/// Answers that take longer than that are slow: by clocks that are off, two fifths of a lease are left of what they bring.
const SLOW: Duration = Duration::from_millis(20);
/// And those that take less are not.
const FAST: Duration = Duration::from_millis(10);
/// So many slow answers, one after the other, and long leases are asked for.
const SLOW_ANSWERS: u32 = 2;
/// So many fast ones, and they are not any more.
const FAST_ANSWERS: u32 = 16;

/// The third of each measure's places.
const BOTH: usize = 2;

/// Is the limit at a place one of reads and writes together?
pub(super) fn is_of_both(place: usize) -> bool {
    place % 3 == BOTH
}

/// Does it count the operations of a lane?
pub(super) fn counts(place: usize, lane: usize) -> bool {
    is_of_both(place) || place % 3 == lane
}

/// Names of holders at one gate: each life of each has its own.
#[derive(Debug)]
pub(super) struct Names {
    /// Which node and core.
    pub place: u64,
    pub session: u64,
    pub lives: u64,
}

impl Names {
    fn next(&mut self) -> HolderId {
        self.lives += 1;
        HolderId {
            place: self.place,
            session: self.session.rotate_left(32) ^ self.lives,
        }
    }
}

/// What holds a piece of I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    /// A limit of its direction.
    Own,
    /// One of both directions.
    Both,
}

#[derive(Debug)]
pub(super) struct Bank {
    holders: [Option<Holder>; BUCKETS],
    /// What a holder has, where it was less than it wanted.
    spread: [Option<Spread>; BUCKETS],
    /// What was wanted by the last asks.
    wanted: [u64; BUCKETS],
    /// Until then the lender knows nothing of the limit, and it holds nothing.
    open: [Time; BUCKETS],
    /// The newest that was heard of.
    epoch: LeaseEpoch,
    /// Asks are under way since then.
    pub asked: Option<Time>,
    /// Nothing is asked before that.
    pub rests_until: Time,
    /// So many asks, one after the other, have reached nobody.
    unreached: u32,
    /// Are long leases asked for? And so many answers, one after the other, have said that they should not be, or should.
    is_long: bool,
    contrary: u32,
    /// The last asks of holders that are not needed any more.
    farewells: Asks,
}

impl Bank {
    pub fn new() -> Bank {
        Bank {
            holders: array::from_fn(|_| None),
            spread: [None; BUCKETS],
            wanted: [0; BUCKETS],
            open: [Time(0); BUCKETS],
            epoch: LeaseEpoch::default(),
            asked: None,
            rests_until: Time(0),
            unreached: 0,
            is_long: false,
            contrary: 0,
            farewells: Asks::new(),
        }
    }

    /// The newest lender that was heard of.
    pub fn epoch(&self) -> LeaseEpoch {
        self.epoch
    }

    /// Are long leases asked for?
    pub fn is_long(&self) -> bool {
        self.is_long
    }

    /// What there is is held by these limits.
    pub fn hold_by(&mut self, now: Time, limits: &Limits, names: &mut Names, faults: Faults) {
        for (place, (holder, limit)) in self.holders.iter_mut().zip(limits.in_order()).enumerate() {
            match (&*holder, limit) {
                (None, Some(_)) => {
                    let config = HolderConfig {
                        lease: if self.is_long { LONG_LEASE } else { LEASE },
                        is_long: self.is_long,
                        largest: largest(place),
                        standing_rate: 0,
                        faults,
                    };
                    let made = Holder::new(now, names.next(), self.epoch, config);
                    *holder = Some(made.expect("without a standing share there is no limit"));
                }
                (Some(_), None) => (*holder, self.spread[place]) = (None, None),
                _ => {}
            }
        }
    }

    /// A lender of that epoch is heard of. What older ones have lent or said is void.
    pub fn adopt(&mut self, epoch: LeaseEpoch) {
        if epoch <= self.epoch {
            return;
        }
        self.epoch = epoch;
        self.open = [Time(0); BUCKETS];
        self.spread = [None; BUCKETS];
        self.hurry();
        for holder in self.holders.iter_mut().flatten() {
            holder.adopt(epoch);
        }
    }

    /// What keeps a piece of I/O of that cost from passing, if so much is kept for another one.
    pub fn lack(&mut self, now: Time, cost: Cost, kept: &[u64; BUCKETS]) -> Option<Lack> {
        let mut found = None;
        for (place, counts_bytes) in own(cost.direction) {
            let Some(holder) = &mut self.holders[place] else {
                continue;
            };
            let needed = tokens(cost, counts_bytes).min(largest(place)) + kept[place];
            if now < self.open[place] {
                continue;
            }
            let free = self.spread[place].and_then(|spread| spread.free(now));
            if holder.tokens(now).min(free.unwrap_or(u64::MAX)) < needed {
                if !is_of_both(place) {
                    return Some(Lack::Own);
                }
                found = Some(Lack::Both);
            }
        }
        found
    }

    /// A piece passes that lacks nothing.
    pub fn spend(&mut self, now: Time, cost: Cost) {
        for (place, counts_bytes) in own(cost.direction) {
            if let Some(holder) = &mut self.holders[place]
                && now >= self.open[place]
            {
                let tokens = tokens(cost, counts_bytes);
                if let Some(spread) = &mut self.spread[place] {
                    spread.spend(tokens);
                }
                let passes = holder.spend(now, tokens);
                debug_assert!(passes, "it was asked just now");
            }
        }
    }

    /// Is something kept back that it has, until others have passed?
    pub fn is_spread(&self, now: Time) -> bool {
        self.spread.iter().flatten().any(|spread| spread.free(now).is_some())
    }

    /// When some of what is kept back is free for what waits (as for [`Bank::wish`]).
    pub fn more_at(&self, now: Time, wanted: &[(u64, u64); BUCKETS]) -> Option<Time> {
        let of = |(place, spread): (usize, &Option<Spread>)| {
            let (waiting, head) = wanted[place];
            spread.filter(|_| waiting > 0)?.more_at(now, head.min(largest(place)))
        };
        self.spread.iter().enumerate().filter_map(of).min()
    }

    /// What to ask the lender now; else when to look again, if that is known. `wanted`: for the limit at a place, what waits, and what the next one
    /// of it costs.
    pub fn wish(&mut self, now: Time, wanted: &[(u64, u64); BUCKETS]) -> (Asks, Option<Time>) {
        let mut asks = std::mem::take(&mut self.farewells);
        let mut next: Option<Time> = None;
        for (place, holder) in self.holders.iter_mut().enumerate() {
            let Some(holder) = holder else { continue };
            let (waiting, head) = wanted[place];
            if let Some(ask) = holder.ask(now, waiting, head) {
                self.wanted[place] = ask.want;
                asks.push((place, ask));
            } else if waiting > 0 || holder.tokens(now) > 0 {
                let at = match holder.ask_at(head) {
                    at if at > now => at,
                    _ => now.plus(PAUSE),
                };
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        }
        // By that the answer is known to be one to these.
        asks.iter_mut().for_each(|(_, ask)| ask.sent = now);
        (asks, next)
    }

    /// The lender cannot be reached: it is left alone for longer each time.
    pub fn leave_alone(&mut self, now: Time) {
        let pause = PAUSE * (1 << self.unreached.min(DOUBLINGS));
        self.unreached = self.unreached.saturating_add(1);
        self.rests_until = now.plus(pause.min(LONGEST_PAUSE));
    }

    /// What was asked has come to nothing: it is asked again soon.
    pub fn pause(&mut self, now: Time) {
        self.asked = None;
        self.rests_until = self.rests_until.max(now.plus(PAUSE));
    }

    /// It is reached, or there may be another one.
    pub fn hurry(&mut self) {
        (self.unreached, self.rests_until) = (0, Time(0));
    }

    /// The lender has answered. Are leases of the other kind to be asked for from now on? Then [`Bank::hold_by`] makes holders for them.
    pub fn answered(&mut self, now: Time, answer: &Answer) -> bool {
        self.hurry();
        self.adopt(answer.epoch);
        for holder in self.holders.iter_mut().flatten() {
            holder.answered(answer.sent);
        }
        let mut lent = [0_u64; BUCKETS];
        for (place, grant) in &answer.grants {
            if let Some(holder) = &mut self.holders[*place]
                && holder.grant(now, grant)
            {
                lent[*place] = lent[*place].saturating_add(grant.tokens);
            }
        }
        for (place, lent) in lent.into_iter().enumerate().filter(|(_, lent)| *lent > 0) {
            // Over a slow way what a round trip brings has to be spent before the next one.
            let is_less = !self.is_long && lent < self.wanted[place];
            let holder = self.holders[place].as_mut().filter(|_| is_less);
            self.spread[place] = holder.map(|holder| Spread::new(now, holder.tokens(now)));
        }
        // Like tokens: from the ask on, and no longer than a short lease, so that a late answer says nothing: when the lender has heard of
        // the limit it lends the first token a lease later. Nor does one say anything that lends no more.
        let is_lender = answer.epoch == self.epoch;
        for place in answer.open.iter().filter(|_| is_lender) {
            self.open[*place] = self.open[*place].max(answer.sent.min(now).plus(LEASE * 4 / 5));
        }
        // Of one that was given up it says nothing, nor that the newest has ended.
        let took = self
            .asked
            .take_if(|asked| *asked == answer.sent)
            .map(|asked| now.since(asked));
        let says_something = self.is_long || !answer.grants.is_empty();
        let changes = took.is_some_and(|took| says_something && self.is_out_of_step(took));
        if changes {
            self.change_leases(now);
        }
        changes
    }

    /// An answer took so long: are the leases that are asked for the wrong ones?
    fn is_out_of_step(&mut self, took: Duration) -> bool {
        let (is_contrary, most) = match self.is_long {
            true => (took < FAST, FAST_ANSWERS),
            false => (took > SLOW, SLOW_ANSWERS),
        };
        self.contrary = if is_contrary { self.contrary + 1 } else { 0 };
        self.contrary >= most
    }

    /// A holder is for leases of one kind: others take the places of these, which give back what they have.
    fn change_leases(&mut self, now: Time) {
        (self.is_long, self.contrary) = (!self.is_long, 0);
        self.spread = [None; BUCKETS];
        for (place, holder) in self.holders.iter_mut().enumerate() {
            let last = holder.take().and_then(|holder| holder.give_back(now));
            self.farewells.extend(last.map(|ask| (place, ask)));
        }
    }
}
