//! The metadata: linearizable records, changed by compare-and-set; and the coordinator, which changes the group's
//! record.

use crate::config::Rule;
use crate::state::{IN, Known, Life, Replication, SYNCING, State, Store, WHOLE};

impl Replication {
    /// Evicts a member that is in sync. By the coordinator, or (`by`) by a sequencer whose volume is still its own.
    #[must_use]
    pub fn evict(&self, s: &State, m: usize, by: Option<usize>) -> Option<State> {
        let in_sync = s.stores.iter().filter(|store| store.in_sync).count();
        let least = if self.off.holds(Rule::MinCopies) {
            self.size.min_copies
        } else {
            0
        };
        if !s.stores[m].in_sync || in_sync <= least {
            return None;
        }
        let left = s.left.evictions.checked_sub(1)?;
        let mut next = s.clone();
        next.left.evictions = left;
        next.stores[m].in_sync = false;
        next.epoch += 1;
        match by {
            None => Some(next),
            Some(q) => {
                let own = s.generation[self.volume(q)] == self.generation(q) && s.sequencers[q].epoch == s.epoch;
                if s.sequencers[q].life == Life::Running && own && self.off.holds(Rule::SequencerEvicts) {
                    self.adopt(&next, q)
                } else {
                    None
                }
            }
        }
    }

    /// Drops a syncing member.
    #[must_use]
    pub fn drop_syncing(&self, s: &State, m: usize) -> Option<State> {
        if !s.stores[m].syncing {
            return None;
        }
        let left = s.left.evictions.checked_sub(1)?;
        let mut next = s.clone();
        next.left.evictions = left;
        next.stores[m].syncing = false;
        next.stores[m].since = 0;
        next.look = None;
        // Old claims stay in the metadata; they name their stint. They matter only where that is not compared.
        if self.off.holds(Rule::ClaimSince) {
            next.stores[m].claims = Default::default();
        }
        next.epoch += 1;
        Some(next)
    }

    /// Adds a store that comes back as a syncing member.
    #[must_use]
    pub fn add(&self, s: &State, m: usize) -> Option<State> {
        let store = &s.stores[m];
        if store.in_sync || store.syncing || s.stores.iter().any(|store| store.syncing) {
            return None;
        }
        let left = s.left.additions.checked_sub(1)?;
        let mut next = s.clone();
        next.left.additions = left;
        next.epoch += 1;
        next.stores[m].syncing = true;
        next.stores[m].since = next.epoch;
        Some(next)
    }

    /// An owner writes its claim: all that its volume has in the group is whole on the syncing member.
    #[must_use]
    pub fn claim(&self, s: &State, q: usize) -> Option<State> {
        let m = self.target(s, q)?;
        let volume = self.volume(q);
        let known = s.stores[m].known[q];
        let whole = |chunk| known.flags & (WHOLE << chunk) != 0;
        let all = if self.off.holds(Rule::ClaimAllChunks) {
            self.chunks(q).all(whole)
        } else {
            self.chunks(q).any(whole)
        };
        let claim = (self.generation(q), known.since);
        let store = &s.stores[m];
        let since = store.syncing && store.since == known.since;
        if !all || store.claims[volume] >= claim || (!since && self.off.holds(Rule::ClaimSince)) {
            return None;
        }
        let mut next = s.clone();
        next.stores[m].claims[volume] = claim;
        Some(next)
    }

    fn claimed(&self, s: &State, store: &Store) -> bool {
        (0..self.size.volumes).all(|volume| {
            let (generation, since) = store.claims[volume];
            generation != 0
                && (generation == s.generation[volume] || !self.off.holds(Rule::ClaimGeneration))
                && (since == store.since || !self.off.holds(Rule::ClaimSince))
        })
    }

    /// The coordinator looks at the claims.
    #[must_use]
    pub fn look(&self, s: &State) -> Option<State> {
        let store = s.stores.iter().find(|store| store.syncing)?;
        let look = Some((s.epoch, s.raised));
        if !self.claimed(s, store) || s.look == look {
            return None;
        }
        let mut next = s.clone();
        next.look = look;
        Some(next)
    }

    /// The coordinator promotes. With all comparisons this is one step with its look: nothing has changed since.
    #[must_use]
    pub fn promote(&self, s: &State) -> Option<State> {
        let m = s.stores.iter().position(|store| store.syncing)?;
        let (epoch, raised) = match s.look {
            Some(look) => look,
            None if self.claimed(s, &s.stores[m]) => (s.epoch, s.raised),
            None => return None,
        };
        if (epoch != s.epoch && self.off.holds(Rule::PromotionEpoch))
            || (raised != s.raised && self.off.holds(Rule::Raised))
        {
            return None;
        }
        let mut next = s.clone();
        next.look = None;
        next.epoch += 1;
        let store = &mut next.stores[m];
        (store.syncing, store.in_sync, store.since) = (false, true, 0);
        store.claims = Default::default();
        Some(next)
    }

    /// Whether the coordinator's look and its promotion are two steps.
    #[must_use]
    pub fn looks(&self) -> bool {
        !self.off.holds(Rule::PromotionEpoch) || !self.off.holds(Rule::Raised)
    }

    /// A new gateway raises the volume's generation, and reads the group in a step that begins after that.
    #[must_use]
    pub fn raise(&self, s: &State, volume: usize) -> Option<State> {
        let generation = s.generation[volume];
        if usize::from(generation) == self.size.generations {
            return None;
        }
        let q = volume * self.size.generations + usize::from(generation);
        let mut next = s.clone();
        next.generation[volume] += 1;
        next.raised += 1;
        next.sequencers[q].life = Life::Running;
        if s.sequencers[q].life == Life::Unborn {
            self.read_group(&mut next, q);
        } else if self.off.holds(Rule::RaiseThenRead) {
            return None;
        }
        Some(next)
    }

    /// The rule switched off: a gateway reads the group before it raises the generation.
    #[must_use]
    pub fn read_early(&self, s: &State, volume: usize) -> Option<State> {
        let generation = s.generation[volume];
        if usize::from(generation) == self.size.generations || self.off.holds(Rule::RaiseThenRead) {
            return None;
        }
        let q = volume * self.size.generations + usize::from(generation);
        if s.sequencers[q].life != Life::Unborn {
            return None;
        }
        let mut next = s.clone();
        next.sequencers[q].life = Life::Early;
        self.read_group(&mut next, q);
        Some(next)
    }

    /// A sequencer reads the group's record.
    pub fn read_group(&self, s: &mut State, q: usize) {
        let mut target_left = false;
        for store in &mut s.stores[..self.size.stores] {
            let old = store.known[q];
            let known = &mut store.known[q];
            let role = if store.in_sync { IN } else { 0 } | if store.syncing { SYNCING } else { 0 };
            let promoted = old.flags & SYNCING != 0 && role == IN;
            let stays = promoted || (old.flags & (IN | SYNCING) == role && old.since == store.since);
            if !stays {
                target_left |= old.flags & SYNCING != 0;
                *known = Known {
                    flags: old.flags & crate::state::LEASE,
                    ..Known::default()
                };
            } else if promoted {
                target_left = true;
            }
            known.flags = role | known.flags & !(IN | SYNCING | crate::state::FENCED);
            known.since = store.since;
            known.open = Default::default();
        }
        let sequencer = &mut s.sequencers[q];
        sequencer.epoch = s.epoch;
        for chunk in &mut sequencer.chunks {
            chunk.rolled = false;
            if target_left {
                (chunk.target, chunk.source) = (None, None);
            }
        }
    }

    /// A sequencer reads the group's record and its own generation, in one transaction.
    #[must_use]
    pub fn adopt(&self, s: &State, q: usize) -> Option<State> {
        if s.sequencers[q].life != Life::Running || s.sequencers[q].epoch == s.epoch {
            return None;
        }
        let mut next = s.clone();
        let deposed = s.generation[self.volume(q)] != self.generation(q);
        let foreign = s.stores[..self.size.stores].iter().any(|store| {
            let known = store.known[q];
            store.in_sync
                && known.flags & IN == 0
                && !(known.flags & SYNCING != 0 && self.chunks(q).all(|chunk| known.flags & (WHOLE << chunk) != 0))
        });
        if (deposed && self.off.holds(Rule::GenerationWithEpoch)) || (foreign && self.off.holds(Rule::ForeignPromotion))
        {
            next.sequencers[q].life = Life::Stopped;
        } else {
            self.read_group(&mut next, q);
        }
        Some(next)
    }
}
