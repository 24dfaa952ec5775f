//! A sequencer: fence, open, write.

use crate::config::Rule;
use crate::state::{Change, ENTERED, FENCED, IN, Id, Life, NONE, Replication, SYNCING, State, Write, bit};

impl Replication {
    /// The members that a sequencer knows of and that have one of the roles.
    pub fn members(&self, s: &State, q: usize, roles: u16) -> impl Iterator<Item = usize> {
        (0..self.size.stores).filter(move |m| s.stores[*m].known[q].flags & roles != 0)
    }

    /// Whether every member in sync has answered the fence of the sequencer's epoch. What syncing ones hold is looked
    /// at when they join.
    #[must_use]
    pub fn fenced(&self, s: &State, q: usize) -> bool {
        let fenced = |m: usize| s.stores[m].known[q].flags & FENCED != 0;
        if self.off.holds(Rule::FenceAll) {
            self.members(s, q, IN).all(fenced)
        } else {
            self.members(s, q, IN).any(fenced)
        }
    }

    /// A fence is sent to a member.
    #[must_use]
    pub fn send_fence(&self, s: &State, q: usize, m: usize) -> Option<State> {
        let known = s.stores[m].known[q];
        let sequencer = &s.sequencers[q];
        let member = known.flags & (IN | SYNCING) != 0 && known.flags & FENCED == 0;
        let under_way = (s.stores[m].tail.iter())
            .any(|change| matches!(change, Change::Fence { q: of, epoch, .. } if usize::from(*of) == q && *epoch == sequencer.epoch));
        if !self.size.travel || sequencer.life != Life::Running || !member || known.fence.0 != 0 || under_way {
            return None;
        }
        let mut next = s.clone();
        next.stores[m].known[q].fence = (sequencer.epoch, known.flags & IN != 0);
        Some(next)
    }

    /// A fence reaches a member.
    #[must_use]
    pub fn fence(&self, s: &State, q: usize, m: usize) -> Option<State> {
        let known = s.stores[m].known[q];
        let sequencer = &s.sequencers[q];
        let (epoch, in_sync) = if self.size.travel {
            known.fence
        } else {
            (sequencer.epoch, known.flags & IN != 0)
        };
        let member = known.flags & (IN | SYNCING) != 0 && known.flags & FENCED == 0;
        if sequencer.life != Life::Running || epoch == 0 || (!self.size.travel && !member) {
            return None;
        }
        let (volume, generation) = (self.volume(q), self.generation(q));
        let accepted = self.accepted(s, m);
        let mut next = s.clone();
        next.stores[m].known[q].fence = (0, false);
        if accepted.generation[volume] > generation || accepted.epoch > epoch {
            // It is refused.
            return self.size.travel.then_some(next);
        }
        let leased = s.stores[m].leased & (1 << volume) != 0;
        if accepted.generation[volume] < generation && leased && self.off.holds(Rule::WaitLeases) {
            return None;
        }
        let disk = &s.stores[m].disk;
        if disk.generation[volume] == generation && disk.epoch == epoch {
            if epoch == sequencer.epoch && member {
                self.fence_answered(&mut next, q, m);
            }
            return Some(next);
        }
        let change = Change::Fence {
            q: q as u8,
            epoch,
            in_sync,
        };
        if self.under_way(s, m, |other| *other == change) {
            return None;
        }
        if self.off.holds(Rule::Drain) {
            return self.accept(&mut next, m, change).then_some(next);
        }
        // The rule switched off: it is answered before what was accepted earlier is durable.
        let store = &mut next.stores[m];
        store.disk.generation[volume] = generation;
        store.disk.epoch = epoch;
        store.disk.in_sync = in_sync;
        self.answer(&mut next, m, change);
        Some(next)
    }

    /// A member in sync says what version of a chunk it holds.
    #[must_use]
    pub fn ask(&self, s: &State, q: usize, chunk: usize, m: usize) -> Option<State> {
        let known = s.stores[m].known[q];
        if s.sequencers[q].chunks[chunk].open || known.flags & IN == 0 || known.open[chunk] != 0 || !self.fenced(s, q) {
            return None;
        }
        let accepted = self.accepted(s, m);
        let disk = &s.stores[m].disk;
        let whole = disk.chunks[chunk].base == NONE || !self.off.holds(Rule::IncompleteServesNothing);
        if !self.serves(s, &accepted, q, m) || !disk.in_sync || !whole {
            return None;
        }
        let mut next = s.clone();
        next.stores[m].known[q].open[chunk] = disk.chunks[chunk].stream + 1;
        Some(next)
    }

    /// Whether it is all the same in which order members are asked: nothing can change a fenced and drained member's
    /// answer.
    #[must_use]
    pub fn asks_all(&self) -> bool {
        self.off.holds(Rule::Drain) && self.off.holds(Rule::FenceAll) && self.size.lies == 0
    }

    /// All members in sync say what version of a chunk they hold.
    #[must_use]
    pub fn ask_all(&self, s: &State, q: usize, chunk: usize) -> Option<State> {
        if s.sequencers[q].chunks[chunk].open || !self.fenced(s, q) {
            return None;
        }
        let mut next: Option<State> = None;
        for m in self
            .members(s, q, IN)
            .filter(|m| s.stores[*m].known[q].open[chunk] == 0)
        {
            next = Some(self.ask(next.as_ref().unwrap_or(s), q, chunk, m)?);
        }
        next
    }

    fn longest(&self, s: &State, q: usize, chunk: usize) -> Option<(Id, bool)> {
        let (mut longest, mut equal): (Option<Id>, bool) = (None, true);
        for m in self.members(s, q, IN) {
            let known = s.stores[m].known[q];
            if known.open[chunk] == 0 {
                if self.off.holds(Rule::FenceAll) || known.flags & FENCED != 0 {
                    return None;
                }
                continue;
            }
            let id = known.open[chunk] - 1;
            equal &= longest.is_none_or(|longest| longest == id);
            longest = match longest {
                Some(longest) if self.version(s, longest) >= self.version(s, id) => Some(longest),
                _ => Some(id),
            };
        }
        longest.map(|longest| (longest, equal))
    }

    /// A shorter member is brought to where the longest is.
    #[must_use]
    pub fn roll(&self, s: &State, q: usize, chunk: usize, m: usize) -> Option<State> {
        let known = s.stores[m].known[q];
        if s.sequencers[q].chunks[chunk].open || known.open[chunk] == 0 || known.flags & IN == 0 {
            return None;
        }
        let (longest, _) = self.longest(s, q, chunk)?;
        let from = known.open[chunk] - 1;
        let source = self
            .members(s, q, IN)
            .find(|m| s.stores[*m].known[q].open[chunk] == longest + 1 && self.can_bring(s, *m, chunk, from))?;
        let accepted = self.accepted(s, m);
        let rolling = self.under_way(s, m, |change| matches!(change, Change::Roll { .. }));
        if from == longest || rolling || !self.serves(s, &accepted, q, m) || accepted.chunks[chunk].stream != from {
            return None;
        }
        let mut blocks = accepted.chunks[chunk].blocks;
        let mut next = s.clone();
        next.sequencers[q].chunks[chunk].rolled = true;
        for (block, entry) in s.stores[source].disk.chunks[chunk].blocks.iter().enumerate() {
            if self.version(s, entry.last) > self.version(s, from) {
                blocks[block] = *entry;
                self.renew(&mut next, m, chunk, block);
                if !self.off.holds(Rule::AtomicRoll) {
                    let part = Change::Roll {
                        q: q as u8,
                        chunk: chunk as u8,
                        stream: longest,
                        blocks,
                        last: false,
                    };
                    if !self.accept(&mut next, m, part) {
                        return None;
                    }
                }
            }
        }
        let change = Change::Roll {
            q: q as u8,
            chunk: chunk as u8,
            stream: longest,
            blocks,
            last: true,
        };
        self.accept(&mut next, m, change).then_some(next)
    }

    /// All members are equal: the chunk is open.
    #[must_use]
    pub fn opened(&self, s: &State, q: usize, chunk: usize) -> Option<State> {
        let held = &s.sequencers[q].chunks[chunk];
        if s.sequencers[q].life != Life::Running || held.open || !self.fenced(s, q) {
            return None;
        }
        let (longest, equal) = self.longest(s, q, chunk)?;
        let moved = s.epoch != s.sequencers[q].epoch && self.off.holds(Rule::EndCheck);
        if !equal || (held.rolled && moved) {
            return None;
        }
        let mut next = s.clone();
        let held = &mut next.sequencers[q].chunks[chunk];
        held.open = true;
        held.rolled = false;
        (held.issued, held.committed) = (longest, longest);
        for store in &mut next.stores {
            store.known[q].open[chunk] = 0;
        }
        let lost = (1..=s.written).any(|id| {
            s.writes[usize::from(id) - 1].seen && self.chunk_of(s, id) == chunk && !self.follows(s, longest, id)
        });
        // A deposed owner may open what it likes: it has no leases, so it shows nothing to anybody.
        if lost && s.generation[self.volume(q)] == self.generation(q) {
            next.fault = crate::state::Fault::OpenedWithout;
        }
        Some(next)
    }

    /// The unacknowledged writes of a chunk, oldest first.
    pub fn in_flight(&self, s: &State, q: usize, chunk: usize) -> impl Iterator<Item = Id> {
        (1..=s.written).filter(move |id| {
            let write = &s.writes[usize::from(*id) - 1];
            usize::from(write.q) == q && !write.acked && !write.dead && self.kind(write).chunk == chunk
        })
    }

    /// A write gets its version and goes to every member.
    #[must_use]
    pub fn issue(&self, s: &State, q: usize, kind: usize) -> Option<State> {
        let chunk = self.size.kinds[kind].chunk;
        if s.sequencers[q].life != Life::Running
            || chunk % self.size.volumes != self.volume(q)
            || !s.sequencers[q].chunks[chunk].open
            || (self.is_compared(s, q, chunk) && self.off.holds(Rule::CompareAlone))
            || usize::from(s.written) == self.size.writes
            || self.in_flight(s, q, chunk).count() >= usize::from(self.size.window)
        {
            return None;
        }
        let mut next = s.clone();
        next.written += 1;
        let id = next.written;
        let held = &mut next.sequencers[q].chunks[chunk];
        let newest = if held.top == 0 { held.issued } else { held.top };
        let (_, counter) = self.version(s, newest);
        let write = Write {
            q: q as u8,
            counter: counter + 1,
            after: held.issued,
            kind: kind as u8,
            ..Write::default()
        };
        next.writes[usize::from(s.written)] = write;
        (held.issued, held.top) = (id, 0);
        for store in &mut next.stores {
            let flags = store.known[q].flags;
            if flags & (IN | ENTERED) != 0 {
                store.known[q].link |= bit(id);
                store.known[q].due |= bit(id);
            }
        }
        Some(next)
    }

    /// Whether every member whose answer is required has answered a write.
    #[must_use]
    pub fn everywhere(&self, s: &State, q: usize, id: Id, roles: u16) -> bool {
        self.members(s, q, roles).all(|m| {
            let known = s.stores[m].known[q];
            known.due & bit(id) == 0 || known.answered & bit(id) != 0
        })
    }

    /// The oldest unacknowledged write of a chunk is acknowledged.
    #[must_use]
    pub fn acknowledge(&self, s: &State, q: usize, chunk: usize) -> Option<State> {
        let id = self.in_flight(s, q, chunk).next()?;
        let roles = if self.off.holds(Rule::SyncingAnswers) {
            IN | SYNCING
        } else {
            IN
        };
        if s.sequencers[q].life != Life::Running || !self.everywhere(s, q, id, roles) {
            return None;
        }
        let mut next = s.clone();
        let write = &mut next.writes[usize::from(id) - 1];
        (write.acked, write.seen) = (true, true);
        next.sequencers[q].chunks[chunk].committed = id;
        for store in &mut next.stores {
            let known = &mut store.known[q];
            known.answered &= !bit(id);
            known.due &= !bit(id);
            if self.off.holds(Rule::SyncingAnswers) || known.flags & SYNCING == 0 {
                known.link &= !bit(id);
            }
        }
        Some(next)
    }
}
