//! Who may begin a handshake, and who has to leave when there is no room.
//!
//! A handshake costs this core as much as some tens of writes, and whoever asks for one has proven nothing. So there is a rate
//! of them, and a bound of those that are under way; both apart for the addresses of known peers, so that strangers cannot
//! keep them out, and among strangers no address can take all.

use crate::config::Limits;
use crate::event::Link;
use crate::limits::HANDSHAKES_PER_SOURCE;
use amita_reactor::Time;
use std::collections::VecDeque;
use std::net::IpAddr;

/// Strangers' addresses share so many buckets: the memory that they can make this end keep.
const SOURCE_BUCKETS: usize = 64;

/// An address, as far as one holder of addresses is told from another: an IPv6 one by its first 64 bits, which is what a
/// site has to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Source(u64);

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Source {
        match address.to_canonical() {
            IpAddr::V4(address) => Source(u32::from(address).into()),
            IpAddr::V6(address) => Source((u128::from(address) >> 64) as u64),
        }
    }
}

/// Lets so many pass in a second; after a pause, those of a second at once. (The generic cell rate algorithm, ITU-T I.371.)
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// When it will be as if nobody had come.
    full_at: Time,
}

impl Bucket {
    fn has(self, now: Time, per_second: u32) -> bool {
        per_second > 0 && self.full_at.since(now) < SECOND - step(per_second) + std::time::Duration::from_nanos(1)
    }

    fn take(&mut self, now: Time, per_second: u32) {
        self.full_at = self.full_at.max(now).plus(step(per_second));
    }
}

const SECOND: std::time::Duration = std::time::Duration::from_secs(1);

fn step(per_second: u32) -> std::time::Duration {
    SECOND / per_second.max(1)
}

/// Connections without a hello, and those that are saying goodbye, oldest first.
#[derive(Debug, Default)]
pub(super) struct Share {
    links: VecDeque<(Link, Source)>,
    bucket: Bucket,
}

impl Share {
    /// Who has to leave: the oldest of the address that has most.
    fn victim(&self) -> Option<Link> {
        let of = |source: Source| self.links.iter().filter(|(_, other)| *other == source).count();
        // The first of the largest: `max_by_key` gives the last.
        self.links
            .iter()
            .rev()
            .max_by_key(|(_, source)| of(*source))
            .map(|(link, _)| *link)
    }
}

/// The two shares.
#[derive(Debug)]
pub(super) struct Gate {
    known: Share,
    strangers: Share,
    sources: [Bucket; SOURCE_BUCKETS],
    /// So that nobody can choose addresses that share a bucket with another's.
    salt: u64,
}

impl Gate {
    pub(super) fn new(salt: u64) -> Gate {
        Gate {
            known: Share::default(),
            strangers: Share::default(),
            sources: [Bucket::default(); SOURCE_BUCKETS],
            salt: salt | 1,
        }
    }

    fn share(&mut self, is_known: bool) -> &mut Share {
        if is_known { &mut self.known } else { &mut self.strangers }
    }

    /// May it begin a handshake now? Counts it if so.
    pub(super) fn admits(&mut self, now: Time, source: Source, is_known: bool, limits: &Limits) -> bool {
        if is_known {
            let (rate, bucket) = (limits.known_handshakes_per_second, &mut self.known.bucket);
            let is_free = bucket.has(now, rate);
            if is_free {
                bucket.take(now, rate);
            }
            return is_free;
        }
        let place = source.0.wrapping_mul(self.salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        let rate = limits.handshakes_per_second;
        let (all, own) = (&mut self.strangers.bucket, &mut self.sources[place as usize]);
        let of_one = HANDSHAKES_PER_SOURCE.min(rate);
        // Whoever has used up his own takes nothing of what all share.
        let is_free = own.has(now, of_one) && all.has(now, rate);
        if is_free {
            own.take(now, of_one);
            all.take(now, rate);
        }
        is_free
    }

    /// Who has to leave before one more can come in, if anybody.
    pub(super) fn victim(&self, is_known: bool, limits: &Limits) -> Option<Link> {
        let (share, most) = if is_known {
            (&self.known, limits.known_handshakes)
        } else {
            (&self.strangers, limits.handshakes)
        };
        (share.links.len() >= most).then(|| share.victim()).flatten()
    }

    /// Who has to leave when there are too many connections of all kinds.
    pub(super) fn any_victim(&self) -> Option<Link> {
        self.strangers.victim().or_else(|| self.known.victim())
    }

    pub(super) fn push(&mut self, link: Link, source: Source, is_known: bool) {
        self.share(is_known).links.push_back((link, source));
    }

    pub(super) fn remove(&mut self, link: Link) {
        for share in [&mut self.known, &mut self.strangers] {
            share.links.retain(|(other, _)| *other != link);
        }
    }

    pub(super) fn contains(&self, link: Link) -> bool {
        let has = |share: &Share| share.links.iter().any(|(other, _)| *other == link);
        has(&self.strangers) || has(&self.known)
    }
}

#[cfg(test)]
mod tests;
