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
//! and come in while no stranger does. Each of them has a share of it ([`KNOWN_SHARES`]), so that one of them does not keep out the others.
#![warn(missing_docs)]

use crate::driver::Time;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::net::IpAddr;
use std::time::Duration;

/// For so long nobody is let in who is above his rate: long enough for what is saved up meanwhile, and comes in at once when it is
/// over, to be worth the change of the rule (which costs some 50 us), and far shorter than the second after which a request to
/// connect is repeated.
const PAUSE: Duration = Duration::from_millis(250);

/// So long after anybody was last above his rate the listener's backlog stays short ([`Admission::is_pressed`]).
const CALM: Duration = Duration::from_secs(5);

/// Addresses share so many buckets: the memory that strangers can make a listener keep (2 KiB).
const SOURCE_BUCKETS: usize = 256;

/// Addresses that are kept out by themselves; when there are more, no stranger is let in.
const MAX_KEPT_OUT: usize = 32;

/// Each known address has this part of what all of them have.
const KNOWN_SHARES: u32 = 4;

/// While somebody is kept out so many are refused whose handshakes began before; then what would complete them is dropped too. It bounds
/// what those cost who begin thousands of handshakes, and complete them when nobody is let in.
const MAX_LATE: u32 = 256;

/// What one stranger is told from another by: an IPv4 address, or the first 64 bits of an IPv6 one, which is what a site has to itself.
/// Known are whole addresses: who shares a network with a node is a stranger all the same.
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
    /// From all known addresses together; from one of them a quarter of it.
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
#[derive(Clone, Copy, Debug)]
pub struct Rule<'a> {
    door: Door,
    known: &'a BTreeMap<IpAddr, u64>,
    kept_known: &'a [IpAddr],
    kept_out: &'a [Source],
    is_strict: bool,
}

/// Whom a rule names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// One address.
    Address(IpAddr),
    /// All of an IPv6 network.
    Network(u64),
}

impl Rule<'_> {
    /// Does it let everybody pass?
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.door == Door::Open && self.kept_out.is_empty() && self.kept_known.is_empty()
    }

    /// Is even what completes a handshake dropped that began before?
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.is_strict
    }

    /// Does it let a request from that address pass?
    #[must_use]
    pub fn passes(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        if self.kept_known.contains(&address) {
            return false;
        }
        let is_known = self.known.contains_key(&address);
        match self.door {
            Door::Open => is_known || !self.kept_out.contains(&address.into()),
            Door::KnownOnly => is_known,
            Door::Shut => false,
        }
    }

    /// The rule as a list: the first that names an address says whether it passes; of an address that nobody names the rule says it
    /// itself, which is the second value. Those who pass are in the order in which they became known.
    #[must_use]
    pub fn list(&self) -> (Vec<(Named, bool)>, bool) {
        let mut passing: Vec<(u64, IpAddr)> = match self.door {
            Door::Shut => return (Vec::new(), false),
            Door::KnownOnly => self.known.iter().map(|(address, since)| (*since, *address)).collect(),
            // IPv4 addresses are not kept out when they are known, or not as these.
            Door::Open if self.kept_out.is_empty() => Vec::new(),
            Door::Open => {
                let known = self.known.iter().map(|(address, since)| (*since, *address));
                known
                    .filter(|(_, address)| self.kept_out.contains(&Source::from(*address)))
                    .collect()
            }
        };
        passing.retain(|(_, address)| !self.kept_known.contains(address));
        passing.sort_unstable();
        let passing = passing.into_iter().map(|(_, address)| (Named::Address(address), true));
        if self.door == Door::KnownOnly {
            return (passing.collect(), false);
        }
        let kept_known = self.kept_known.iter().map(|address| (Named::Address(*address), false));
        let kept_out = self.kept_out.iter().map(|source| match source {
            Source::V4(address) => (Named::Address(IpAddr::V4((*address).into())), false),
            Source::V6(network) => (Named::Network(*network), false),
        });
        (kept_known.chain(passing).chain(kept_out).collect(), true)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Open,
    KnownOnly,
    Shut,
}

/// What all have, and each of them.
#[derive(Debug)]
struct Budget {
    all: Bucket,
    each: Box<[Bucket; SOURCE_BUCKETS]>,
}

/// What has been used up of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UsedUp {
    Nothing,
    Own,
    All,
}

impl Budget {
    fn new() -> Budget {
        Budget {
            all: Bucket::default(),
            each: Box::new([Bucket::default(); SOURCE_BUCKETS]),
        }
    }

    /// For the one at that place. Whoever has used up his own takes nothing of what all share.
    fn take(&mut self, now: Time, place: usize, (all, own): (Rate, Rate)) -> (Verdict, UsedUp) {
        let each = &mut self.each[place];
        let is_free = each.has(now, own) && self.all.has(now, all);
        if is_free {
            each.take(now, own);
            self.all.take(now, all);
        }
        let used_up = match (self.all.has(now, all), each.has(now, own)) {
            (false, _) => UsedUp::All,
            (true, false) => UsedUp::Own,
            (true, true) => UsedUp::Nothing,
        };
        let verdict = if is_free { Verdict::Admit } else { Verdict::Refuse };
        (verdict, used_up)
    }

    /// For one who cannot be told from others; is it used up?
    fn take_for_all(&mut self, now: Time, rate: Rate) -> bool {
        if self.all.has(now, rate) {
            self.all.take(now, rate);
        }
        !self.all.has(now, rate)
    }
}

/// The connections of one listener.
#[derive(Debug)]
pub struct Admission {
    limits: AcceptLimits,
    /// Each with a number that grows with each that becomes known.
    known: BTreeMap<IpAddr, u64>,
    next_known: u64,
    known_budget: Budget,
    strangers: Budget,
    /// So that nobody can choose addresses that share a bucket with another's.
    salt: u64,
    door: Door,
    /// Strangers that are kept out though others are let in, by address.
    kept_out: Vec<Source>,
    /// Known addresses that are kept out though others are let in.
    kept_known: Vec<IpAddr>,
    /// Those who were refused since somebody is kept out.
    late: u32,
    /// When what is not let in now is let in again, if anybody is not.
    until: Option<Time>,
    /// When all will have been below their rates for a while, if they were above.
    calm_at: Option<Time>,
    /// The rule, or whether too many press, has changed since this was last asked.
    changed: bool,
}

impl Admission {
    /// For a listener to which nobody has come yet. The salt is what nobody outside knows.
    #[must_use]
    pub fn new(limits: AcceptLimits, salt: u64) -> Admission {
        Admission {
            limits,
            known: BTreeMap::new(),
            next_known: 0,
            known_budget: Budget::new(),
            strangers: Budget::new(),
            salt,
            door: Door::Open,
            kept_out: Vec::new(),
            kept_known: Vec::new(),
            late: 0,
            until: None,
            calm_at: None,
            changed: false,
        }
    }

    /// From now on that address is known, or is not.
    pub fn set_known(&mut self, address: IpAddr, is_known: bool) {
        let address = address.to_canonical();
        let is_new = match is_known {
            true if self.known.contains_key(&address) => false,
            true => {
                self.next_known += 1;
                self.known.insert(address, self.next_known);
                true
            }
            false => self.known.remove(&address).is_some(),
        };
        let is_named = self.door == Door::KnownOnly || self.kept_out.contains(&address.into());
        self.changed |= is_new && is_named;
    }

    /// A connection has come in from there; from nobody knows where, if the kernel does not say. (One that is gone already is of no use to
    /// anybody, but it has cost what others cost.)
    pub fn arrive(&mut self, now: Time, address: Option<IpAddr>) -> Verdict {
        self.look(now);
        let verdict = match address.map(|address| address.to_canonical()) {
            None => self.arrive_from_nowhere(now),
            Some(address) if self.known.contains_key(&address) => self.arrive_known(now, address),
            Some(address) => self.arrive_strange(now, address.into()),
        };
        if verdict == Verdict::Refuse && self.until.is_some() && self.late <= MAX_LATE {
            self.late += 1;
            self.changed |= self.is_strict();
        }
        verdict
    }

    /// While no stranger is let in it was none.
    fn arrive_from_nowhere(&mut self, now: Time) -> Verdict {
        match self.door {
            Door::Open if self.strangers.take_for_all(now, self.limits.strangers) => self.shut(now, Door::KnownOnly),
            Door::KnownOnly if self.known_budget.take_for_all(now, self.limits.known) => self.shut(now, Door::Shut),
            _ => {}
        }
        Verdict::Refuse
    }

    fn arrive_known(&mut self, now: Time, address: IpAddr) -> Verdict {
        let number = match address {
            IpAddr::V4(address) => u128::from(u32::from(address)),
            IpAddr::V6(address) => u128::from(address),
        };
        let place = self.place(number);
        let all = self.limits.known;
        let own = Rate {
            per_second: all.per_second / KNOWN_SHARES,
            burst: all.burst / KNOWN_SHARES,
        };
        let (verdict, used_up) = self.known_budget.take(now, place, (all, own));
        match used_up {
            UsedUp::All => self.shut(now, Door::Shut),
            UsedUp::Own => self.keep_known_out(now, address),
            UsedUp::Nothing => {}
        }
        verdict
    }

    fn arrive_strange(&mut self, now: Time, source: Source) -> Verdict {
        let number = match source {
            Source::V4(number) => u128::from(number),
            Source::V6(number) => u128::from(number) << 64,
        };
        let place = self.place(number);
        let (all, own) = (self.limits.strangers, self.limits.source);
        let (verdict, used_up) = self.strangers.take(now, place, (all, own));
        match used_up {
            UsedUp::All => self.shut(now, Door::KnownOnly),
            UsedUp::Own => self.keep_out(now, source),
            UsedUp::Nothing => {}
        }
        verdict
    }

    /// Lets time pass; to be called at [`Admission::due`].
    pub fn look(&mut self, now: Time) {
        if self.until.is_some_and(|until| until <= now) {
            self.until = None;
            self.door = Door::Open;
            self.kept_out.clear();
            self.kept_known.clear();
            self.late = 0;
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
        Rule {
            door: self.door,
            known: &self.known,
            kept_known: &self.kept_known,
            kept_out: &self.kept_out,
            is_strict: self.is_strict(),
        }
    }

    fn is_strict(&self) -> bool {
        self.late > MAX_LATE
    }

    /// Does anybody come faster than he may? Then few may wait to be accepted: who waits there is refused when his turn comes, and keeps
    /// out all others meanwhile.
    #[must_use]
    pub fn is_pressed(&self) -> bool {
        self.calm_at.is_some()
    }

    /// Has the rule, or whether too many press, changed since this was last asked?
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Neighbours have places of their own, whatever the salt.
    fn place(&self, number: u128) -> usize {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.salt);
        hasher.write_u128(number);
        (hasher.finish() >> 56) as usize
    }

    fn keep_out(&mut self, now: Time, source: Source) {
        if self.door != Door::Open || self.kept_out.contains(&source) {
            return;
        }
        if self.kept_out.len() == MAX_KEPT_OUT {
            return self.shut(now, Door::KnownOnly);
        }
        self.kept_out.push(source);
        self.pause(now);
    }

    fn keep_known_out(&mut self, now: Time, address: IpAddr) {
        if self.door != Door::Shut && !self.kept_known.contains(&address) && self.kept_known.len() < MAX_KEPT_OUT {
            self.kept_known.push(address);
            self.pause(now);
        }
    }

    /// Somebody is kept out: until then, or until the others are let in again who are.
    fn pause(&mut self, now: Time) {
        self.until.get_or_insert(now.plus(PAUSE));
        self.calm_at = Some(now.plus(CALM));
        self.changed = true;
    }

    fn shut(&mut self, now: Time, door: Door) {
        if self.door == Door::Shut || self.door == door {
            return;
        }
        self.door = door;
        self.until = Some(now.plus(PAUSE));
        self.pause(now);
    }
}

const _: () = assert!(SOURCE_BUCKETS == 1 << (64 - 56), "a hash names one of them");

#[cfg(test)]
mod tests;
