//! Reads: leases, what is held back, and what a client may see.

use crate::config::Rule;
use crate::state::{Asked, Entry, FENCED, Fault, IN, LEASE, Life, NONE, Read, Replication, SYNCING, State, WHOLE, bit};

impl Replication {
    /// A member answers something, and grants a lease by it.
    ///
    /// In the product every answer grants a lease. An answer that does nothing else, when somebody reads, is as good
    /// here.
    #[must_use]
    pub fn renew_lease(&self, s: &State, q: usize, m: usize) -> Option<State> {
        let known = s.stores[m].known[q];
        let reading = s.left.reads + s.left.compares > 0 || s.sequencers[q].is_reading();
        let accepted = self.accepted(s, m);
        if !reading || known.flags & LEASE != 0 || !self.serves(s, &accepted, q, m) {
            return None;
        }
        let mut next = s.clone();
        next.stores[m].known[q].flags |= LEASE;
        next.stores[m].leased |= 1 << self.volume(q);
        Some(next)
    }

    /// A compare-and-write has its turn.
    #[must_use]
    pub fn compare(&self, s: &State, q: usize, kind: usize) -> Option<State> {
        let (chunk, sequencer) = (self.size.kinds[kind].chunk, &s.sequencers[q]);
        let busy = sequencer.comparing != 0 || sequencer.is_reading();
        if busy || !sequencer.chunks[chunk].open || chunk % self.size.volumes != self.volume(q) {
            return None;
        }
        let mut next = s.clone();
        next.left.compares = s.left.compares.checked_sub(1)?;
        // What it reads by, as one that reads does.
        next.left.reads += 1;
        next.sequencers[q].comparing = kind as u8 + 1;
        Some(next)
    }

    /// Whether a compare-and-write has a chunk for itself.
    #[must_use]
    pub fn is_compared(&self, s: &State, q: usize, chunk: usize) -> bool {
        let comparing = usize::from(s.sequencers[q].comparing);
        comparing != 0 && self.size.kinds[comparing - 1].chunk == chunk
    }

    /// What was found is as expected: the write that was to follow gets its version.
    fn compared(&self, s: &State, q: usize, found: Entry) -> Option<State> {
        let kind = usize::from(s.sequencers[q].comparing) - 1;
        let mut next = s.clone();
        next.sequencers[q].comparing = 0;
        let place = self.size.kinds[kind];
        let before = self.content(s, s.sequencers[q].chunks[place.chunk].issued)[place.block];
        let mut next = self.issue(&next, q, kind)?;
        next.writes[usize::from(s.written)].compared = true;
        if before != found {
            next.fault = Fault::ComparedOther;
        }
        Some(next)
    }

    /// A client asks for a block, and the request is sent.
    #[must_use]
    pub fn inquire(&self, s: &State, q: usize, chunk: usize, block: usize) -> Option<State> {
        let sequencer = &s.sequencers[q];
        if !self.size.travel || !sequencer.chunks[chunk].open || sequencer.is_reading() {
            return None;
        }
        let left = s.left.reads.checked_sub(1)?;
        let mut next = s.clone();
        next.left.reads = left;
        next.sequencers[q].asked = Some(self.asks(s, q, chunk, block));
        Some(next)
    }

    fn asks(&self, s: &State, q: usize, chunk: usize, block: usize) -> Asked {
        let seen = (1..=s.written)
            .filter(|id| {
                let write = &s.writes[usize::from(*id) - 1];
                let kind = self.kind(write);
                write.seen && kind.chunk == chunk && kind.block == block
            })
            .fold(0, |mask, id| mask | bit(id));
        Asked {
            place: (chunk as u8, block as u8),
            least: s.sequencers[q].chunks[chunk].committed,
            seen,
        }
    }

    /// Whether this is what a compare-and-write waits for, if there is one: its own block, when nothing else is under
    /// way.
    fn may_read(&self, s: &State, q: usize, chunk: usize, block: usize) -> bool {
        let Some(kind) = usize::from(s.sequencers[q].comparing).checked_sub(1) else {
            return true;
        };
        let place = self.size.kinds[kind];
        let settled = self.in_flight(s, q, chunk).next().is_none() || !self.off.holds(Rule::CompareSettled);
        (place.chunk, place.block) == (chunk, block) && settled
    }

    /// A member answers a read.
    #[must_use]
    pub fn read(&self, s: &State, q: usize, m: usize, chunk: usize, block: usize) -> Option<State> {
        let sequencer = &s.sequencers[q];
        let known = s.stores[m].known[q];
        let accepted = self.accepted(s, m);
        let disk = &s.stores[m].disk;
        let held = disk.chunks[chunk];
        let roles = if self.off.holds(Rule::SyncingServesNothing) {
            IN
        } else {
            IN | SYNCING
        };
        if !sequencer.chunks[chunk].open
            || sequencer.read.is_some()
            || known.flags & FENCED == 0
            || known.flags & roles == 0
            || !self.serves(s, &accepted, q, m)
            || (!disk.in_sync && self.off.holds(Rule::SyncingServesNothing))
            || (held.base != NONE && self.off.holds(Rule::IncompleteServesNothing))
            || self.is_rotten(s, m, chunk, block)
            || !self.may_read(s, q, chunk, block)
        {
            return None;
        }
        let (asked, left) = match sequencer.asked {
            Some(asked) if asked.place == (chunk as u8, block as u8) => (asked, s.left.reads),
            None if !self.size.travel => (self.asks(s, q, chunk, block), s.left.reads.checked_sub(1)?),
            _ => return None,
        };
        if self.version(s, held.stream) < self.version(s, asked.least) && self.off.holds(Rule::Least) {
            return None;
        }
        let mut next = s.clone();
        next.left.reads = left;
        next.sequencers[q].asked = None;
        next.sequencers[q].read = Some(Read {
            place: asked.place,
            entry: held.blocks[block],
            seen: asked.seen,
        });
        Some(next)
    }

    /// The read's answer goes to the client.
    #[must_use]
    pub fn complete(&self, s: &State, q: usize) -> Option<State> {
        let read = s.sequencers[q].read?;
        if s.sequencers[q].life != Life::Running {
            return None;
        }
        let grantors: Vec<usize> = (0..self.size.stores)
            .filter(|m| {
                let flags = s.stores[*m].known[q].flags;
                let whole = flags & SYNCING != 0 && self.chunks(q).all(|chunk| flags & (WHOLE << chunk) != 0);
                flags & IN != 0 || (whole && self.off.holds(Rule::LeasesSyncing))
            })
            .collect();
        let members = grantors.len();
        let leases = grantors
            .iter()
            .filter(|m| s.stores[**m].known[q].flags & LEASE != 0)
            .count();
        if leases + self.size.min_copies <= members && self.off.holds(Rule::Leases) {
            return None;
        }
        let last = read.entry.last;
        if last != 0 && self.off.holds(Rule::HoldReads) {
            let write = &s.writes[usize::from(last) - 1];
            let roles = if self.off.holds(Rule::HoldReadsSyncing) {
                IN | SYNCING
            } else {
                IN
            };
            if usize::from(write.q) == q && !write.acked && !self.everywhere(s, q, last, roles) {
                return None;
            }
        }
        let mut next = s.clone();
        next.sequencers[q].read = None;
        if last != 0 {
            next.writes[usize::from(last) - 1].seen = true;
        }
        let stale = (1..=s.written).any(|id| read.seen & bit(id) != 0 && !self.follows(s, last, id));
        if stale {
            next.fault = Fault::StaleRead;
        } else if self.content(s, last)[usize::from(read.place.1)] != read.entry {
            next.fault = Fault::TornRead;
        }
        if s.sequencers[q].comparing != 0 && next.fault == Fault::None {
            return self.compared(&next, q, read.entry);
        }
        Some(next)
    }
}
