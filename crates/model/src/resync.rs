//! The return of a member: Join, compare, Mend, Whole (`docs/decisions/015-resync.md`).

use crate::config::Rule;
use crate::history::Version;
use crate::state::{BLOCKS, Change, Entry, FENCED, IN, JOINED, NONE, Replication, SYNCING, State, WHOLE, bit};

impl Replication {
    /// The syncing member, as far as a sequencer knows.
    #[must_use]
    pub fn target(&self, s: &State, q: usize) -> Option<usize> {
        self.members(s, q, SYNCING).next()
    }

    fn ready(&self, s: &State, q: usize, m: usize) -> bool {
        let accepted = self.accepted(s, m);
        let adopted = self.members(s, q, IN).all(|m| s.stores[m].known[q].flags & FENCED != 0);
        self.serves(s, &accepted, q, m) && (adopted || !self.off.holds(Rule::AdoptBeforeResync))
    }

    /// Before the first write of a chunk to the syncing member: where its stream goes on.
    #[must_use]
    pub fn join(&self, s: &State, q: usize, chunk: usize) -> Option<State> {
        let m = self.target(s, q)?;
        let held = &s.sequencers[q].chunks[chunk];
        if !held.open || s.stores[m].known[q].flags & (JOINED << chunk) != 0 || !self.ready(s, q, m) {
            return None;
        }
        let mut next = s.clone();
        let unacked = self.in_flight(s, q, chunk).fold(0, |mask, id| mask | bit(id));
        let known = &mut next.stores[m].known[q];
        known.flags |= JOINED << chunk;
        if self.off.holds(Rule::JoinSendsInFlight) {
            known.link |= unacked;
        }
        let on_disk = self.accepted(s, m).chunks[chunk];
        let (stream, at) = (self.version(s, on_disk.stream), self.version(s, held.committed));
        let own = stream.0 == self.generation(q) || !self.off.holds(Rule::JoinGeneration);
        let follows = own && at <= stream;
        let equal = on_disk.base == NONE && (stream == at || !self.off.holds(Rule::JoinVersion));
        if follows || equal || !self.off.holds(Rule::Join) {
            return Some(next);
        }
        self.accept(
            &mut next,
            m,
            Change::Join {
                chunk: chunk as u8,
                at: held.committed,
            },
        )
        .then_some(next)
    }

    /// The syncing member lists its entries, those that are accepted and not yet durable included.
    #[must_use]
    pub fn list_target(&self, s: &State, q: usize, chunk: usize) -> Option<State> {
        let m = self.target(s, q)?;
        let flags = s.stores[m].known[q].flags;
        if flags & (JOINED << chunk) == 0 || flags & (WHOLE << chunk) != 0 || !self.ready(s, q, m) {
            return None;
        }
        if s.sequencers[q].chunks[chunk].target.is_some() {
            return None;
        }
        let listed = self.accepted(s, m).chunks[chunk];
        let mut next = s.clone();
        next.sequencers[q].chunks[chunk].target = Some((listed.base, listed.blocks));
        Some(next)
    }

    /// A member in sync lists its entries.
    #[must_use]
    pub fn list_source(&self, s: &State, q: usize, chunk: usize, m: usize) -> Option<State> {
        let target = self.target(s, q)?;
        let flags = s.stores[target].known[q].flags;
        let disk = &s.stores[m].disk;
        let held = &s.sequencers[q].chunks[chunk];
        if flags & (JOINED << chunk) == 0
            || flags & (WHOLE << chunk) != 0
            || s.stores[m].known[q].flags & IN == 0
            || !self.serves(s, &self.accepted(s, m), q, m)
            || !disk.in_sync
            || disk.chunks[chunk].base != NONE
            || held.source.is_some()
        {
            return None;
        }
        let mut next = s.clone();
        next.sequencers[q].chunks[chunk].source = Some(disk.chunks[chunk].blocks);
        Some(next)
    }

    /// What the lists differ in is mended; if nothing, the chunk is said to be whole.
    #[must_use]
    pub fn decide(&self, s: &State, q: usize, chunk: usize) -> Option<State> {
        let m = self.target(s, q)?;
        let held = &s.sequencers[q].chunks[chunk];
        let ((base, target), source) = (held.target?, held.source?);
        let link = s.stores[m].known[q].link;
        let waits = self.in_flight(s, q, chunk).any(|id| link & bit(id) != 0);
        let joined = s.stores[m].known[q].flags & (JOINED << chunk) != 0;
        if !self.ready(s, q, m) || !joined || (waits && self.off.holds(Rule::WholeBehind)) {
            return None;
        }
        let mut next = s.clone();
        let held = &mut next.sequencers[q].chunks[chunk];
        (held.target, held.source) = (None, None);
        // A chunk that stayed whole has nothing to be compared.
        let floor = if base == NONE { None } else { Some(self.floor(s, base)) };
        let mut differs = false;
        for block in 0..BLOCKS {
            let (from, to) = (source[block], target[block]);
            let (from_version, to_version) = (self.version(s, from.last), self.version(s, to.last));
            let newer = |version| floor.is_some_and(|floor| version > floor);
            let listed = newer(from_version) || (newer(to_version) && self.off.holds(Rule::CompareTarget));
            let equal =
                from_version == to_version && (from.sectors == to.sectors || !self.off.holds(Rule::CompareContent));
            if !listed || equal {
                continue;
            }
            let newer =
                to_version > from_version || (to_version == from_version && !self.off.holds(Rule::MendEqualVersion));
            let own = to_version.0 == self.generation(q) && newer;
            if own && self.off.holds(Rule::SkipNewer) {
                differs |= self.off.holds(Rule::SkipIsDifference);
                continue;
            }
            if from_version < to_version && !self.off.holds(Rule::TakeWhatDiffers) {
                continue;
            }
            differs = true;
            if !self.mend(&mut next, m, chunk, block, to, from) {
                return None;
            }
        }
        if differs && self.off.holds(Rule::WholeBehind) {
            return Some(next);
        }
        let whole = Change::Whole {
            q: q as u8,
            chunk: chunk as u8,
        };
        if !self.off.holds(Rule::WholeDurable) {
            self.answer(&mut next, m, whole);
        }
        self.accept(&mut next, m, whole).then_some(next)
    }

    /// Above which version entries are compared: a window behind the base.
    fn floor(&self, s: &State, base: u8) -> Version {
        let (generation, counter) = self.version(s, base);
        let back = if self.off.holds(Rule::BaseWindow) {
            self.size.window
        } else {
            0
        };
        (generation, counter.saturating_sub(back))
    }

    fn mend(&self, s: &mut State, m: usize, chunk: usize, block: usize, expect: Entry, put: Entry) -> bool {
        let entry = self.accepted(s, m).chunks[chunk].blocks[block];
        if entry != expect && self.off.holds(Rule::ExactEntry) {
            return true;
        }
        self.accept(
            s,
            m,
            Change::Mend {
                chunk: chunk as u8,
                block: block as u8,
                put,
            },
        )
    }
}
