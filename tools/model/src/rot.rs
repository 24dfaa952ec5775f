//! Rotten blocks: what can be read no more, and what a write of a part of one leads to.
//!
//! A write of a part of a block is merged with what the store has. Where that is rotten the store refuses, and all that was sent
//! behind it waits. Evicting the store helps while there are enough others; at `min_copies` the write, and its chunk, would wait for
//! good. So the sequencer **rolls the store forward from a good member, as when it opens a chunk**: whole blocks, one record, from the
//! store's version to the one that the good member has. Where nobody has the block whole the entry travels as one that is damaged: it
//! has its version, and cannot be read. (The host is told so then; here the write counts as ended all the same.) To withdraw the write
//! instead is wrong: a store that was evicted may have applied it, and comes back with a version of the owner's own generation.

use crate::config::Rule;
use crate::state::{BLOCKS, Change, Entry, FENCED, IN, Id, Replication, State, bit};

impl Replication {
    fn place(chunk: usize, block: usize) -> u8 {
        1 << (chunk * BLOCKS + block)
    }

    /// Whether a store cannot read a block.
    #[must_use]
    pub fn is_rotten(&self, s: &State, m: usize, chunk: usize, block: usize) -> bool {
        s.stores[m].rot & Self::place(chunk, block) != 0
    }

    /// A block was replaced.
    pub fn renew(&self, s: &mut State, m: usize, chunk: usize, block: usize) {
        s.stores[m].rot &= !Self::place(chunk, block);
    }

    #[must_use]
    pub fn rots(&self, s: &State, m: usize, chunk: usize, block: usize) -> Option<State> {
        let left = s.left.rots.checked_sub(1)?;
        if s.stores[m].disk.chunks[chunk].blocks[block].last == 0 || self.is_rotten(s, m, chunk, block) {
            return None;
        }
        let mut next = s.clone();
        next.left.rots = left;
        next.stores[m].rot |= Self::place(chunk, block);
        Some(next)
    }

    /// Whether a store refuses a write because it would have to be merged with what cannot be read.
    #[must_use]
    pub fn refuses(&self, s: &State, m: usize, id: Id) -> bool {
        let kind = self.kind(&s.writes[usize::from(id) - 1]);
        kind.sectors != 0b11 && self.is_rotten(s, m, kind.chunk, kind.block)
    }

    /// The write that a member refuses: its next one of the chunk.
    fn refused(&self, s: &State, q: usize, chunk: usize, m: usize) -> Option<Id> {
        let known = s.stores[m].known[q];
        let disk = self.accepted(s, m);
        let id = (1..=s.written).find(|id| known.link & bit(*id) != 0 && self.chunk_of(s, *id) == chunk)?;
        let next = disk.chunks[chunk].stream == s.writes[usize::from(id) - 1].after;
        let may = known.flags & IN != 0 && known.flags & FENCED != 0 && self.serves(s, &disk, q, m);
        (next && may && self.refuses(s, m, id)).then_some(id)
    }

    /// Whether a store can read all that it has above a version.
    #[must_use]
    pub fn can_bring(&self, s: &State, m: usize, chunk: usize, above: Id) -> bool {
        let blocks = s.stores[m].disk.chunks[chunk].blocks;
        let mut newer = (0..blocks.len()).filter(|block| self.version(s, blocks[*block].last) > self.version(s, above));
        newer.all(|block| !self.is_rotten(s, m, chunk, block))
    }

    /// A member that refuses is brought to where a good one is.
    #[must_use]
    pub fn heal(&self, s: &State, q: usize, chunk: usize, m: usize) -> Option<State> {
        let id = self.refused(s, q, chunk, m)?;
        if !self.off.holds(Rule::RotHeals) || !s.sequencers[q].chunks[chunk].open {
            return None;
        }
        let from = self.accepted(s, m).chunks[chunk];
        let good = |source: &usize| {
            let disk = &s.stores[*source].disk.chunks[chunk];
            self.serves(s, &self.accepted(s, *source), q, *source)
                && self.version(s, disk.stream) > self.version(s, from.stream)
        };
        let best = |source: &usize| good(source) && self.can_bring(s, *source, chunk, from.stream);
        let any = |source: &usize| good(source) && self.off.holds(Rule::RotTravels);
        let source = (self.members(s, q, IN).find(best)).or_else(|| self.members(s, q, IN).find(any));
        let Some(source) = source else {
            return self.mark(s, q, chunk, m, id);
        };
        let held = s.stores[source].disk.chunks[chunk];
        let mut next = s.clone();
        let (mut blocks, mut stream) = (from.blocks, held.stream);
        let rotten = self.kind(&s.writes[usize::from(id) - 1]).block;
        if self.off.holds(Rule::RotHealsToVersion) {
            for (block, entry) in held.blocks.iter().enumerate() {
                if self.version(s, entry.last) > self.version(s, from.stream) {
                    blocks[block] = *entry;
                    self.renew(&mut next, m, chunk, block);
                    if self.is_rotten(s, source, chunk, block) {
                        next.stores[m].rot |= Self::place(chunk, block);
                    }
                }
            }
        } else {
            // The rule switched off: what the good member has now goes by the version of the write that was refused.
            (blocks[rotten], stream) = (held.blocks[rotten], id);
            blocks[rotten].last = id;
            self.renew(&mut next, m, chunk, rotten);
        }
        self.rolled(&mut next, q, m, chunk, (stream, blocks)).then_some(next)
    }

    /// No member can merge a write: each has it as an entry that cannot be read.
    fn mark(&self, s: &State, q: usize, chunk: usize, m: usize, id: Id) -> Option<State> {
        let refused = |m: usize| self.refused(s, q, chunk, m) == Some(id);
        if !self.off.holds(Rule::RotTravels) || !self.members(s, q, IN).all(refused) {
            return None;
        }
        let mut held = self.accepted(s, m).chunks[chunk];
        self.apply(s, &mut held, id);
        let mut next = s.clone();
        self.rolled(&mut next, q, m, chunk, (id, held.blocks)).then_some(next)
    }

    /// A member has rolled forward, and so has answered what it was sent up to there.
    fn rolled(&self, s: &mut State, q: usize, m: usize, chunk: usize, to: (Id, [Entry; BLOCKS])) -> bool {
        let (stream, blocks) = to;
        let roll = Change::Roll {
            q: q as u8,
            chunk: chunk as u8,
            stream,
            blocks,
            last: true,
        };
        for id in 1..=s.written {
            if self.chunk_of(s, id) != chunk || !self.follows(s, stream, id) {
                continue;
            }
            let known = &mut s.stores[m].known[q];
            if known.link & bit(id) != 0 {
                known.link &= !bit(id);
                known.answered |= known.due & bit(id);
            }
        }
        self.accept(s, m, roll)
    }

    /// The rule switched off: what no member can merge is withdrawn, and so is what was sent behind it.
    #[must_use]
    pub fn withdraw(&self, s: &State, q: usize, chunk: usize) -> Option<State> {
        let first = self.in_flight(s, q, chunk).next()?;
        let refused = |m: usize| self.refused(s, q, chunk, m) == Some(first);
        if self.off.holds(Rule::RotKeepsVersions) || !self.members(s, q, IN).all(refused) || self.target(s, q).is_some()
        {
            return None;
        }
        let mut next = s.clone();
        for id in self.in_flight(s, q, chunk) {
            next.writes[usize::from(id) - 1].dead = true;
            for store in &mut next.stores {
                let known = &mut store.known[q];
                known.link &= !bit(id);
                known.due &= !bit(id);
                known.answered &= !bit(id);
            }
        }
        let held = &mut next.sequencers[q].chunks[chunk];
        held.top = held.issued;
        held.issued = s.writes[usize::from(first) - 1].after;
        Some(next)
    }

    /// Whether every write that the volumes' present owners have given out has ended, well or not.
    #[must_use]
    pub fn is_quiet(&self, s: &State) -> bool {
        (0..self.sequencers()).all(|q| {
            let deposed = s.generation[self.volume(q)] != self.generation(q);
            deposed || self.chunks(q).all(|chunk| self.in_flight(s, q, chunk).next().is_none())
        })
    }
}
