//! The return of a member: Join, compare, Mend, Whole (`docs/decisions/015-resync.md`).

use crate::config::Rule;
use crate::history::Version;
use crate::state::{BLOCKS, Change, ENTERED, IN, JOINED, NONE, Replication, SYNCING, State, WHOLE, bit};

impl Replication {
    /// The syncing member, as far as a sequencer knows.
    #[must_use]
    pub fn target(&self, s: &State, q: usize) -> Option<usize> {
        self.members(s, q, SYNCING).next()
    }

    fn ready(&self, s: &State, q: usize, m: usize) -> bool {
        self.serves(s, &self.accepted(s, m), q, m) && s.stores[m].known[q].flags & ENTERED != 0
    }

    /// Whether what was given out before the join, or before the pass, is on every member in sync.
    fn settled(&self, s: &State, q: usize, chunk: usize) -> bool {
        let held = &s.sequencers[q].chunks[chunk];
        self.version(s, held.committed) >= self.version(s, held.mark) || !self.off.holds(Rule::SettleFirst)
    }

    /// Before the first write of a chunk to the syncing member, and before anything is compared: where its stream goes on. What
    /// was given out before it was fenced does not go to it.
    #[must_use]
    pub fn join(&self, s: &State, q: usize, chunk: usize) -> Option<State> {
        let m = self.target(s, q)?;
        let known = s.stores[m].known[q];
        let held = &s.sequencers[q].chunks[chunk];
        if !held.open || known.flags & (JOINED << chunk) != 0 || !self.ready(s, q, m) {
            return None;
        }
        let first = self.in_flight(s, q, chunk).find(|id| known.link & bit(*id) != 0);
        let at = first.map_or(held.issued, |id| s.writes[usize::from(id) - 1].after);
        let mut next = s.clone();
        next.sequencers[q].chunks[chunk].mark = held.issued;
        next.stores[m].known[q].flags |= JOINED << chunk;
        let on_disk = self.accepted(s, m).chunks[chunk];
        let (stream, from) = (self.version(s, on_disk.stream), self.version(s, at));
        let own = stream.0 == self.generation(q) || !self.off.holds(Rule::JoinGeneration);
        let follows = own && from <= stream;
        let equal = stream == from || (on_disk.base == NONE && !self.off.holds(Rule::JoinVersion));
        if follows || equal || !self.off.holds(Rule::Join) {
            return Some(next);
        }
        self.accept(&mut next, m, Change::Join { chunk: chunk as u8, at })
            .then_some(next)
    }

    /// The lists of chunks show one version everywhere, and whole: there is nothing to do, not even to open the chunk.
    #[must_use]
    pub fn equal(&self, s: &State, q: usize, chunk: usize) -> Option<State> {
        let m = self.target(s, q)?;
        let held = &s.sequencers[q].chunks[chunk];
        let (disk, accepted) = (s.stores[m].disk.chunks[chunk], self.accepted(s, m).chunks[chunk]);
        if s.stores[m].known[q].flags & (WHOLE << chunk) != 0
            || !self.ready(s, q, m)
            || !self.fenced(s, q)
            || disk != accepted
            || disk.base != NONE
            || (held.open && held.issued != disk.stream && self.off.holds(Rule::EqualSettled))
        {
            return None;
        }
        for member in self.members(s, q, IN) {
            let listed = &s.stores[member].disk;
            let same =
                listed.in_sync && listed.chunks[chunk].base == NONE && listed.chunks[chunk].stream == disk.stream;
            if !same || !self.serves(s, &self.accepted(s, member), q, member) {
                return None;
            }
        }
        let mut next = s.clone();
        next.stores[m].known[q].flags |= WHOLE << chunk;
        Some(next)
    }

    /// The syncing member lists its entries, those that are accepted and not yet durable included.
    #[must_use]
    pub fn list_target(&self, s: &State, q: usize, chunk: usize) -> Option<State> {
        let m = self.target(s, q)?;
        let flags = s.stores[m].known[q].flags;
        if flags & (JOINED << chunk) == 0 || flags & (WHOLE << chunk) != 0 || !self.ready(s, q, m) {
            return None;
        }
        if s.sequencers[q].chunks[chunk].target.is_some() || !self.settled(s, q, chunk) {
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
            || !self.settled(s, q, chunk)
        {
            return None;
        }
        let mut next = s.clone();
        next.sequencers[q].chunks[chunk].source = Some(disk.chunks[chunk].blocks);
        Some(next)
    }

    /// What the lists differ in is mended. If all of it could be, the chunk is said to be whole; else it is compared again.
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
        (held.target, held.source, held.mark) = (None, None, held.issued);
        // A chunk that stayed whole has nothing to be compared.
        let floor = if base == NONE { None } else { Some(self.floor(s, base)) };
        let mut again = false;
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
                again |= self.off.holds(Rule::SkipIsDifference);
                continue;
            }
            if from_version < to_version && !self.off.holds(Rule::TakeWhatDiffers) {
                continue;
            }
            let entry = self.accepted(&next, m).chunks[chunk].blocks[block];
            if entry != to && self.off.holds(Rule::ExactEntry) {
                again |= self.off.holds(Rule::MissIsDifference);
                continue;
            }
            let (chunk, block) = (chunk as u8, block as u8);
            if !self.accept(
                &mut next,
                m,
                Change::Mend {
                    chunk,
                    block,
                    put: from,
                },
            ) {
                return None;
            }
        }
        if again && self.off.holds(Rule::WholeBehind) {
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
}
