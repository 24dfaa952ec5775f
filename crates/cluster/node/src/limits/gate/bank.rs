//! The tokens of one thing that is limited at one gate: a volume's, or those that a tenant or a pool has for all its volumes; and what its lender
//! is asked for.

use super::lanes::tokens;
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
                (Some(_), None) => *holder = None,
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
            if now >= self.open[place] && holder.tokens(now) < needed {
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
                let passes = holder.spend(now, tokens(cost, counts_bytes));
                debug_assert!(passes, "it was asked just now");
            }
        }
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
        for (place, grant) in &answer.grants {
            if let Some(holder) = &mut self.holders[*place] {
                holder.grant(now, grant);
            }
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
        for (place, holder) in self.holders.iter_mut().enumerate() {
            let last = holder.take().and_then(|holder| holder.give_back(now));
            self.farewells.extend(last.map(|ask| (place, ask)));
        }
    }
}
