//! Reads: promises, what is held back, and what a client may see.

use crate::config::Rule;
use crate::state::{FENCED, Fault, IN, Life, NONE, PROMISE, Read, Replication, SYNCING, State, WHOLE, bit};

impl Replication {
    /// A member answers something, and promises.
    ///
    /// In the product every answer promises. An answer that only promises, when somebody reads, is as good here.
    #[must_use]
    pub fn confirm(&self, s: &State, q: usize, m: usize) -> Option<State> {
        let known = s.stores[m].known[q];
        let reading = s.left.reads > 0 || s.sequencers[q].read.is_some();
        let accepted = self.accepted(s, m);
        if !reading || known.flags & PROMISE != 0 || !self.serves(s, &accepted, q, m) {
            return None;
        }
        let mut next = s.clone();
        next.stores[m].known[q].flags |= PROMISE;
        next.stores[m].promised |= 1 << self.volume(q);
        Some(next)
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
        {
            return None;
        }
        let least = self.version(s, sequencer.chunks[chunk].committed);
        if self.version(s, held.stream) < least && self.off.holds(Rule::Least) {
            return None;
        }
        let left = s.left.reads.checked_sub(1)?;
        let mut next = s.clone();
        next.left.reads = left;
        let seen = (1..=s.written)
            .filter(|id| {
                let write = &s.writes[usize::from(*id) - 1];
                let kind = self.kind(write);
                write.seen && kind.chunk == chunk && kind.block == block
            })
            .fold(0, |mask, id| mask | bit(id));
        next.sequencers[q].read = Some(Read {
            place: (chunk as u8, block as u8),
            entry: held.blocks[block],
            seen,
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
        let promisers: Vec<usize> = (0..self.size.stores)
            .filter(|m| {
                let flags = s.stores[*m].known[q].flags;
                let whole = flags & SYNCING != 0 && self.chunks(q).all(|chunk| flags & (WHOLE << chunk) != 0);
                flags & IN != 0 || (whole && self.off.holds(Rule::PromisesSyncing))
            })
            .collect();
        let members = promisers.len();
        let promises = promisers
            .iter()
            .filter(|m| s.stores[**m].known[q].flags & PROMISE != 0)
            .count();
        if promises + self.size.min_copies <= members && self.off.holds(Rule::Promises) {
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
        Some(next)
    }
}
