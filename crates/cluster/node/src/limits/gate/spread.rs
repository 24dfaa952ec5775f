//! Where less is lent than is wanted, what comes is spread over the time until more does.
//!
//! A lender that has too little lends once a round: at 4,000 operations a second 12 at a time. Let pass at once they would be a clump at
//! every store, and what a neighbour's host asks for just then would wait for all of them. What waits for tokens waits no longer for that:
//! the last of a round's tokens is let go when the next round begins.

use amita_qos::lease::{LEASE, ROUNDS};
use amita_reactor::driver::Time;
use std::time::Duration;

/// From one round of a lender to the next.
const ROUND: Duration = LEASE.checked_div(ROUNDS).expect("there are rounds");
/// In so many parts, each a look at the clock: the first at once, and the last one when the next round has begun, not a moment before. What is out
/// asks for more then, and one who asks within a round is lent nothing, and asks again after a quarter of a lease.
const PARTS: u64 = 12;
const PART: u64 = (ROUND.as_nanos() as u64).div_ceil(PARTS - 1);

/// From one part to the next.
pub(super) const STEP: Duration = Duration::from_nanos(PART);

/// Tokens that are let go part by part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spread {
    since: Time,
    tokens: u64,
    spent: u64,
}

impl Spread {
    /// Of so many tokens, all that are there.
    pub fn new(now: Time, tokens: u64) -> Spread {
        Spread {
            since: now,
            tokens,
            spent: 0,
        }
    }

    /// How many may be spent now; none: all.
    pub fn free(&self, now: Time) -> Option<u64> {
        let part = now.since(self.since).as_nanos() as u64 / PART + 1;
        (part < PARTS).then(|| self.let_go(part).saturating_sub(self.spent))
    }

    /// So many are spent.
    pub fn spend(&mut self, tokens: u64) {
        self.spent = self.spent.saturating_add(tokens);
    }

    /// When more may be spent than now, and as many as are needed if that comes to pass; none: all may be spent now.
    pub fn more_at(&self, now: Time, needed: u64) -> Option<Time> {
        let part = now.since(self.since).as_nanos() as u64 / PART + 1;
        let fits = |part: &u64| self.let_go(*part) >= self.spent.saturating_add(needed);
        let next = (part + 1..PARTS).find(fits).unwrap_or(PARTS);
        (part < PARTS).then(|| self.since.plus(Duration::from_nanos((next - 1) * PART)))
    }

    /// The first `part` of the parts.
    fn let_go(&self, part: u64) -> u64 {
        let tokens = (u128::from(self.tokens) * u128::from(part)).div_ceil(u128::from(PARTS));
        u64::try_from(tokens).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(parts: u64) -> Time {
        Time(1_000_000 + parts * PART)
    }

    #[test]
    fn tokens_are_let_go_part_by_part() {
        let mut spread = Spread::new(at(0), 12);
        let mut passed = Vec::new();
        let mut now = at(0);
        while let Some(free) = spread.free(now) {
            (0..free).for_each(|_| spread.spend(1));
            passed.push(free);
            now = spread.more_at(now, 1).expect("not all is let go");
        }
        assert_eq!(passed, [1; 11]);
        assert_eq!(
            (now, spread.more_at(now, 1)),
            (at(11), None),
            "the last one is free with all"
        );
        assert!(at(11).since(at(0)) >= ROUND, "its lender has something again");
    }

    #[test]
    fn a_large_one_is_waited_for_once() {
        let spread = Spread::new(at(0), 300 << 10);
        assert_eq!(spread.free(at(0)), Some(25 << 10));
        assert_eq!(spread.more_at(at(0), 128 << 10), Some(at(5)));
        assert_eq!(spread.free(at(5)), Some(150 << 10));
        // There is no such part: when all is free it is known what lacks.
        assert_eq!(spread.more_at(at(5), 512 << 10), Some(at(11)));
        assert_eq!(spread.more_at(at(5), 1), Some(at(6)), "later than now");
        assert_eq!(spread.free(at(11)), None);
    }
}
