//! How many connections a listener takes, and whose: a pure state machine that both drivers ask.
//!
//! A connection costs some 40 us of a core until it is closed again, whoever made it: so whoever can connect can take the core, by
//! connecting often enough. Therefore a listener has a rate of connections from strangers, and among them each address has a
//! smaller one of its own. Whoever would be above a rate is not let in at all, and the kernel does that for nothing: a
//! [`Rule`] says whose requests to connect (SYN) it drops, unseen by this process. What is dropped the other end's kernel asks
//! again a second later; nobody sees an error. What comes in before the rule stands is closed at once ([`Verdict::Refuse`]), before
//! anything is made for it.
//!
//! Addresses that are *known* (those of nodes of the cluster, of hosts that have shown that they may be here) have a rate of their own,
//! and come in while no stranger does.
#![warn(missing_docs)]

use crate::driver::Time;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

/// For so long nobody is let in who is above his rate: long enough for what is saved up meanwhile, and comes in at once when it is
/// over, to be worth the change of the rule (which costs some 50 us), and far shorter than the second after which a request to
/// connect is repeated.
const PAUSE: Duration = Duration::from_millis(250);

/// So long after strangers were last above their rate the listener's backlog stays short ([`Admission::is_pressed`]).
const CALM: Duration = Duration::from_secs(5);

/// Addresses share so many buckets: the memory that strangers can make a listener keep (2 KiB).
const SOURCE_BUCKETS: usize = 256;

/// Addresses that are kept out by themselves; when there are more, no stranger is let in.
const MAX_KEPT_OUT: usize = 32;

/// What one holder of addresses is told from another by: an IPv4 address, or the first 64 bits of an IPv6 one, which is what a site has
/// to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// An IPv4 address, mapped into IPv6 or not.
    V4(u32),
    /// An IPv6 network.
    V6(u64),
}

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Source {
        match address.to_canonical() {
            IpAddr::V4(address) => Source::V4(address.into()),
            IpAddr::V6(address) => Source::V6((u128::from(address) >> 64) as u64),
        }
    }
}

/// So many a second, and so many at once after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// In the long run; at least 1.
    pub per_second: u32,
    /// After nobody has come for a while; at least 1.
    pub burst: u32,
}

/// How many connections a listener takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptLimits {
    /// From all addresses that are not known, together.
    pub strangers: Rate,
    /// Of those, from one address.
    pub source: Rate,
    /// From all known addresses together.
    pub known: Rate,
}

/// The generic cell rate algorithm (ITU-T I.371).
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// When it will be as if nobody had come.
    full_at: Time,
}

impl Bucket {
    fn has(self, now: Time, rate: Rate) -> bool {
        self.full_at.since(now) + step(rate) <= step(rate) * rate.burst.max(1)
    }

    fn take(&mut self, now: Time, rate: Rate) {
        self.full_at = self.full_at.max(now).plus(step(rate));
    }
}

fn step(rate: Rate) -> Duration {
    Duration::from_secs(1) / rate.per_second.max(1)
}

/// What becomes of a connection that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is taken.
    Admit,
    /// It is closed at once.
    Refuse,
}

/// Whose requests to connect the kernel lets pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule<'a> {
    /// Everybody's but these sources'.
    AllBut(&'a [Source]),
    /// Only those of known sources.
    Known(&'a BTreeSet<Source>),
    /// Nobody's.
    Nobody,
}

impl Rule<'_> {
    /// Does it let that source pass?
    #[must_use]
    pub fn passes(&self, source: Source) -> bool {
        match self {
            Rule::AllBut(kept_out) => !kept_out.contains(&source),
            Rule::Known(known) => known.contains(&source),
            Rule::Nobody => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Open,
    KnownOnly,
    Shut,
}

/// The connections of one listener.
#[derive(Debug)]
pub struct Admission {
    limits: AcceptLimits,
    known: BTreeSet<Source>,
    known_bucket: Bucket,
    strangers: Bucket,
    sources: Box<[Bucket; SOURCE_BUCKETS]>,
    /// So that nobody can choose addresses that share a bucket with another's.
    salt: u64,
    door: Door,
    /// Strangers that are kept out though others are let in, by address.
    kept_out: Vec<Source>,
    /// When what is not let in now is let in again, if anybody is not.
    until: Option<Time>,
    /// When strangers will have been below their rate for a while, if they were above it.
    calm_at: Option<Time>,
    /// The rule, or whether strangers press, has changed since this was last asked.
    changed: bool,
}

impl Admission {
    /// For a listener to which nobody has come yet. The salt is what nobody outside knows.
    #[must_use]
    pub fn new(limits: AcceptLimits, salt: u64) -> Admission {
        Admission {
            limits,
            known: BTreeSet::new(),
            known_bucket: Bucket::default(),
            strangers: Bucket::default(),
            sources: Box::new([Bucket::default(); SOURCE_BUCKETS]),
            salt: salt | 1,
            door: Door::Open,
            kept_out: Vec::new(),
            until: None,
            calm_at: None,
            changed: false,
        }
    }

    /// From now on that address is known, or is not.
    pub fn set_known(&mut self, address: IpAddr, is_known: bool) {
        let source = Source::from(address);
        let is_new = match is_known {
            true => self.known.insert(source),
            false => self.known.remove(&source),
        };
        if is_known {
            let before = self.kept_out.len();
            self.kept_out.retain(|other| *other != source);
            self.changed |= self.kept_out.len() != before;
        }
        self.changed |= is_new && self.door == Door::KnownOnly;
    }

    /// A connection has come in from there; from nobody knows where, if it has gone already, and is of no use to anybody. (That is what a
    /// flood of resets looks like: it costs what others cost.)
    pub fn arrive(&mut self, now: Time, address: Option<IpAddr>) -> Verdict {
        self.look(now);
        let Some(source) = address.map(Source::from) else {
            take(&mut self.strangers, now, self.limits.strangers);
            if !self.strangers.has(now, self.limits.strangers) {
                self.shut(now, Door::KnownOnly);
            }
            return Verdict::Refuse;
        };
        if self.known.contains(&source) {
            let rate = self.limits.known;
            let verdict = take(&mut self.known_bucket, now, rate);
            if !self.known_bucket.has(now, rate) {
                self.shut(now, Door::Shut);
            }
            return verdict;
        }
        let place = self.place(source);
        let (all, own) = (self.limits.strangers, self.limits.source);
        // Whoever has used up his own takes nothing of what all share.
        let is_free = self.sources[place].has(now, own) && self.strangers.has(now, all);
        if is_free {
            self.sources[place].take(now, own);
            self.strangers.take(now, all);
        }
        if !self.strangers.has(now, all) {
            self.shut(now, Door::KnownOnly);
        } else if !self.sources[place].has(now, own) {
            self.keep_out(now, source);
        }
        match is_free {
            true => Verdict::Admit,
            false => Verdict::Refuse,
        }
    }

    /// Lets time pass; to be called at [`Admission::due`].
    pub fn look(&mut self, now: Time) {
        if self.until.is_some_and(|until| until <= now) {
            self.until = None;
            self.door = Door::Open;
            self.kept_out.clear();
            self.changed = true;
        }
        if self.calm_at.is_some_and(|at| at <= now) {
            self.calm_at = None;
            self.changed = true;
        }
    }

    /// When the rule changes by itself.
    #[must_use]
    pub fn due(&self) -> Option<Time> {
        match (self.until, self.calm_at) {
            (Some(until), Some(calm)) => Some(until.min(calm)),
            (until, calm) => until.or(calm),
        }
    }

    /// Until when somebody is not let in, if anybody is not.
    #[must_use]
    pub fn until(&self) -> Option<Time> {
        self.until
    }

    /// Whose requests to connect the kernel is to let pass.
    #[must_use]
    pub fn rule(&self) -> Rule<'_> {
        match self.door {
            Door::Open => Rule::AllBut(&self.kept_out),
            Door::KnownOnly => Rule::Known(&self.known),
            Door::Shut => Rule::Nobody,
        }
    }

    /// Do strangers come faster than they may? Then few may wait to be accepted: who waits there is refused when his turn comes, and keeps
    /// out those who are known meanwhile.
    #[must_use]
    pub fn is_pressed(&self) -> bool {
        self.calm_at.is_some()
    }

    /// Has the rule, or whether strangers press, changed since this was last asked?
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    fn place(&self, source: Source) -> usize {
        let number = match source {
            Source::V4(number) => u64::from(number),
            Source::V6(number) => number,
        };
        (number.wrapping_mul(self.salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
    }

    fn keep_out(&mut self, now: Time, source: Source) {
        if self.door != Door::Open || self.kept_out.contains(&source) {
            return;
        }
        if self.kept_out.len() == MAX_KEPT_OUT {
            return self.shut(now, Door::KnownOnly);
        }
        self.kept_out.push(source);
        self.until.get_or_insert(now.plus(PAUSE));
        self.changed = true;
    }

    fn shut(&mut self, now: Time, door: Door) {
        if self.door == Door::Shut || self.door == door {
            return;
        }
        self.door = door;
        self.until = Some(now.plus(PAUSE));
        self.calm_at = Some(now.plus(CALM));
        self.changed = true;
    }
}

fn take(bucket: &mut Bucket, now: Time, rate: Rate) -> Verdict {
    if !bucket.has(now, rate) {
        return Verdict::Refuse;
    }
    bucket.take(now, rate);
    Verdict::Admit
}

const _: () = assert!(SOURCE_BUCKETS == 1 << (64 - 56), "a hash names one of them");

#[cfg(test)]
mod tests;
