//! How often something may be told of that strangers cause: a log that is bounded must not be filled by them.
//!
//! What is told of for ever takes the place of something else: so the pauses are to be such that it stays a part of what is kept.
//! And whoever makes most noise must not hide what others do: so each has an allowance of its own beside the common one. A few who make
//! noise together can use up the common one none the less: so what is told says too how much of all others is told nowhere.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// So many have an allowance of their own at a time; all others share one.
const MAX_SOURCES: usize = 1024;

/// So many at once, one more after each pause; what is above is counted.
#[derive(Clone, Debug)]
struct Allowance {
    most: u32,
    left: u32,
    pause: Duration,
    since: Instant,
    missed: u64,
}

impl Allowance {
    fn new(limit: Limit, now: Instant) -> Allowance {
        Allowance {
            most: limit.most,
            left: limit.most,
            pause: limit.pause,
            since: now,
            missed: 0,
        }
    }

    fn has_one(&mut self, now: Instant) -> bool {
        let pauses = now.saturating_duration_since(self.since).as_nanos() / self.pause.as_nanos().max(1);
        let pauses = u32::try_from(pauses).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(pauses).min(self.most);
        self.since += self.pause.saturating_mul(pauses);
        self.left > 0
    }

    /// Is as much left as of one made anew?
    fn is_whole(&mut self, now: Instant) -> bool {
        self.has_one(now) && self.left == self.most
    }
}

/// How much may be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// So many at once,
    pub most: u32,
    /// and one more after each such pause.
    pub pause: Duration,
}

impl Limit {
    /// How many that are in so long a time.
    #[must_use]
    pub fn within(self, time: Duration) -> u64 {
        let pauses = time.as_nanos() / self.pause.as_nanos().max(1);
        u64::from(self.most).saturating_add(u64::try_from(pauses).unwrap_or(u64::MAX))
    }
}

/// What was not told of, as it is known when something is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// Of the same source, since the last one that was told.
    pub own: u64,
    /// Of all others, up to now, that nothing has told.
    pub others: u64,
}

impl Missed {
    /// In words, to be put behind what is told; nothing where nothing was missed.
    #[must_use]
    pub fn text(self) -> String {
        let own = format!("{} more of theirs were refused since the last such record", self.own);
        let others = format!("{} refusals of others are in no record so far", self.others);
        match (self.own, self.others) {
            (0, 0) => String::new(),
            (_, 0) => format!(" ({own})"),
            (0, _) => format!(" ({others})"),
            _ => format!(" ({own}; {others})"),
        }
    }
}

/// Of those who have no allowance of their own.
const SHARED: &str = "";

/// An allowance for each source, and one for all of them together.
#[derive(Clone, Debug)]
pub struct Allowances {
    each: Limit,
    all: Allowance,
    of: HashMap<String, Allowance>,
}

impl Allowances {
    /// None of which anything was told yet.
    #[must_use]
    pub fn new(each: Limit, all: Limit, now: Instant) -> Allowances {
        Allowances {
            each,
            all: Allowance::new(all, now),
            of: HashMap::new(),
        }
    }

    /// May one of this source be told of now? Then, how many were not.
    pub fn take(&mut self, source: &str, now: Instant) -> Option<Missed> {
        let all = self.all.has_one(now);
        let own = self.of(source, now);
        if !(own.has_one(now) && all) {
            own.missed = own.missed.saturating_add(1);
            return None;
        }
        own.left -= 1;
        let missed = std::mem::take(&mut own.missed);
        self.all.left -= 1;
        let others = self.of.values().fold(0_u64, |sum, own| sum.saturating_add(own.missed));
        if self.of.contains_key(source) && source != SHARED {
            return Some(Missed { own: missed, others });
        }
        // Of whom those are that share one is not known.
        let others = others.saturating_add(missed);
        Some(Missed { own: 0, others })
    }

    /// May one of this source be told of now? None is taken.
    pub fn has_one(&mut self, source: &str, now: Instant) -> bool {
        self.all.has_one(now) && self.of(source, now).has_one(now)
    }

    /// So many more of this source were not told of. The empty name: of whom is not known.
    pub fn miss(&mut self, source: &str, count: u64, now: Instant) {
        if count > 0 {
            let own = self.of(source, now);
            own.missed = own.missed.saturating_add(count);
        }
    }

    fn of(&mut self, source: &str, now: Instant) -> &mut Allowance {
        let is_known = self.of.contains_key(source);
        if !is_known && self.of.len() >= MAX_SOURCES {
            let mut missed = 0_u64;
            self.of.retain(|_, own| {
                let stays = !own.is_whole(now);
                missed = missed.saturating_add(if stays { 0 } else { own.missed });
                stays
            });
            let others = self.of.entry(SHARED.to_owned());
            let others = others.or_insert_with(|| Allowance::new(self.each, now));
            others.missed = others.missed.saturating_add(missed);
        }
        let has_own = is_known || self.of.len() < MAX_SOURCES;
        let source = if has_own { source } else { SHARED };
        self.of
            .entry(source.to_owned())
            .or_insert_with(|| Allowance::new(self.each, now))
    }
}

/// What counts as one source of a stranger: an address of IPv4, and a network of 64 bits of IPv6, of which one machine can have all
/// addresses.
#[must_use]
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}
