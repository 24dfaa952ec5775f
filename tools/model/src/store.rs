//! A store: what it accepts, what becomes durable and is answered then, what a start leaves.

use crate::config::Rule;
use crate::state::{
    CHUNKS, Change, Disk, ENTERED, FENCED, IN, JOINED, Known, LEASE, Life, NONE, Replication, SYNCING, State, TAIL,
    WHOLE, bit,
};

impl Replication {
    /// What a store goes by: what is durable and all that it has accepted beyond.
    #[must_use]
    pub fn accepted(&self, s: &State, m: usize) -> Disk {
        let mut disk = s.stores[m].disk;
        for change in &s.stores[m].tail {
            self.change(s, &mut disk, *change);
        }
        disk
    }

    fn change(&self, s: &State, disk: &mut Disk, change: Change) {
        match change {
            Change::None => {}
            Change::Fence { q, epoch, in_sync } => {
                disk.generation[self.volume(usize::from(q))] = self.generation(usize::from(q));
                disk.epoch = epoch;
                disk.in_sync = in_sync;
            }
            Change::Write(id) => {
                let chunk = self.chunk_of(s, id);
                self.apply(s, &mut disk.chunks[chunk], id);
            }
            Change::Roll {
                chunk, stream, blocks, ..
            } => {
                let chunk = &mut disk.chunks[usize::from(chunk)];
                chunk.stream = stream;
                chunk.blocks = blocks;
            }
            Change::Join { chunk, at } => {
                let chunk = &mut disk.chunks[usize::from(chunk)];
                let marks = self.off.holds(Rule::JoinMarks);
                if marks && (chunk.base == NONE || !self.off.holds(Rule::BaseKept)) {
                    chunk.base = chunk.stream;
                }
                chunk.stream = at;
            }
            Change::Mend { chunk, block, put } => {
                disk.chunks[usize::from(chunk)].blocks[usize::from(block)] = put;
            }
            Change::Whole { chunk, .. } => disk.chunks[usize::from(chunk)].base = NONE,
        }
    }

    /// A store accepts a change. `false`: too much is under way there (a bound of the model).
    pub fn accept(&self, s: &mut State, m: usize, change: Change) -> bool {
        let Some(free) = s.stores[m].tail.iter().position(|change| *change == Change::None) else {
            return false;
        };
        s.stores[m].tail[free] = change;
        if !self.size.volatile {
            while s.stores[m].tail[0] != Change::None {
                self.flush(s, m);
            }
        }
        true
    }

    /// The oldest change becomes durable, and is answered.
    pub fn flush(&self, s: &mut State, m: usize) -> bool {
        let change = s.stores[m].tail[0];
        if change == Change::None {
            return false;
        }
        let mut disk = s.stores[m].disk;
        self.change(s, &mut disk, change);
        s.stores[m].disk = disk;
        s.stores[m].tail.rotate_left(1);
        s.stores[m].tail[TAIL - 1] = Change::None;
        self.answer(s, m, change);
        true
    }

    /// A member has adopted a fence. A syncing one gets every write from now on.
    pub fn fence_answered(&self, s: &mut State, q: usize, m: usize) {
        let known = &mut s.stores[m].known[q];
        known.flags |= FENCED | if known.flags & SYNCING != 0 { ENTERED } else { 0 };
    }

    /// The answer to a change arrives.
    pub fn answer(&self, s: &mut State, m: usize, change: Change) {
        match change {
            Change::Fence { q, epoch, .. } if s.sequencers[usize::from(q)].epoch == epoch => {
                self.fence_answered(s, usize::from(q), m);
            }
            Change::Write(id) => {
                let write = s.writes[usize::from(id) - 1];
                let known = &mut s.stores[m].known[usize::from(write.q)];
                if known.link & bit(id) == 0 && !write.acked {
                    known.answered |= bit(id);
                }
            }
            Change::Roll {
                q,
                chunk,
                stream,
                last: true,
                ..
            } => {
                let known = &mut s.stores[m].known[usize::from(q)];
                if known.open[usize::from(chunk)] != 0 {
                    known.open[usize::from(chunk)] = stream + 1;
                }
            }
            Change::Whole { q, chunk } => {
                let known = &mut s.stores[m].known[usize::from(q)];
                if known.flags & (JOINED << chunk) != 0 {
                    known.flags |= WHOLE << chunk;
                }
            }
            _ => {}
        }
    }

    /// Whether the store answers a request of this sequencer, other than a fence.
    #[must_use]
    pub fn serves(&self, s: &State, accepted: &Disk, q: usize, m: usize) -> bool {
        s.sequencers[q].life == Life::Running
            && !s.stores[m].silent
            && s.stores[m].known[q].flags & FENCED != 0
            && accepted.generation[self.volume(q)] == self.generation(q)
            && (accepted.epoch == s.sequencers[q].epoch || !self.off.holds(Rule::StoreEpoch))
    }

    /// A write arrives: the oldest of the chunk on the link, but for the `skip` oldest ones.
    pub fn deliver(&self, s: &State, q: usize, m: usize, chunk: usize, skip: usize) -> Option<State> {
        let link = s.stores[m].known[q].link;
        let mut on_link = (1..=s.written).filter(|id| link & bit(*id) != 0 && self.chunk_of(s, *id) == chunk);
        let id = on_link.nth(skip)?;
        let accepted = self.accepted(s, m);
        let flags = s.stores[m].known[q].flags;
        let behind_join = flags & SYNCING == 0 || flags & (JOINED << chunk) != 0;
        if !behind_join || !self.serves(s, &accepted, q, m) {
            return None;
        }
        let stream = self.version(s, accepted.chunks[chunk].stream);
        let version = self.version(s, id);
        let after = self.version(s, s.writes[usize::from(id) - 1].after);
        if stream == after && self.refuses(s, m, id) {
            return None;
        }
        let mut next = s.clone();
        if stream == after || (version > stream && !self.off.holds(Rule::Predecessor)) {
            next.stores[m].known[q].link &= !bit(id);
            let kind = self.kind(&s.writes[usize::from(id) - 1]);
            self.renew(&mut next, m, chunk, kind.block);
            return self.accept(&mut next, m, Change::Write(id)).then_some(next);
        }
        if stream.0 != version.0 || stream.1 < version.1 {
            return None;
        }
        // A resend. It is answered with the original, if that is under way, else at once.
        next.stores[m].known[q].link &= !bit(id);
        let under_way = s.stores[m].tail.contains(&Change::Write(id));
        if !under_way || !self.off.holds(Rule::ResendDurable) {
            self.answer(&mut next, m, Change::Write(id));
        }
        Some(next)
    }

    /// A store starts anew: what was not durable is gone, and its links are new.
    #[must_use]
    pub fn crash(&self, s: &State, m: usize) -> Option<State> {
        let left = s.left.crashes.checked_sub(1)?;
        let mut next = s.clone();
        next.left.crashes = left;
        let joining = self.joining(s, m);
        next.stores[m].tail = [Change::None; TAIL];
        next.stores[m].leased = if self.off.holds(Rule::WaitAfterStart) {
            (1 << self.size.volumes) - 1
        } else {
            0
        };
        for q in 0..self.sequencers() {
            self.new_link(&mut next, q, m, &joining);
        }
        Some(next)
    }

    /// A disk loses its newest write, though it had called it durable, and its store starts anew.
    #[must_use]
    pub fn lie(&self, s: &State, m: usize, chunk: usize) -> Option<State> {
        let left = s.left.lies.checked_sub(1)?;
        let mut next = s.clone();
        next.left.lies = left;
        let held = &mut next.stores[m].disk.chunks[chunk];
        if held.stream == 0 || held.base != NONE {
            return None;
        }
        held.stream = s.writes[usize::from(held.stream) - 1].after;
        held.blocks = self.content(s, held.stream);
        next.stores[m].lied = true;
        next.left.crashes += 1;
        self.crash(&next, m)
    }

    /// A link breaks: what was on it is lost, in both directions, and all that is not acknowledged will be sent again.
    pub fn new_link(&self, s: &mut State, q: usize, m: usize, joining: &[bool; CHUNKS]) {
        let known = &mut s.stores[m].known[q];
        known.flags &= !FENCED;
        known.answered = 0;
        known.fence = (0, false);
        known.link = known.due;
        if known.flags & SYNCING == 0 {
            return;
        }
        for (chunk, joining) in joining.iter().enumerate() {
            if *joining {
                // The answer will not come: it is asked again.
                known.flags &= !(JOINED << chunk);
            }
            if self.off.holds(Rule::PassEndsWithLink) {
                let held = &mut s.sequencers[q].chunks[chunk];
                (held.target, held.source, held.mark) = (None, None, held.issued);
            }
        }
    }

    /// The chunks whose join is not durable yet.
    fn joining(&self, s: &State, m: usize) -> [bool; CHUNKS] {
        std::array::from_fn(|chunk| {
            self.under_way(
                s,
                m,
                |change| matches!(change, Change::Join { chunk: joining, .. } if usize::from(*joining) == chunk),
            )
        })
    }

    /// A link breaks by itself.
    #[must_use]
    pub fn reset(&self, s: &State, q: usize, m: usize) -> Option<State> {
        if s.stores[m].known[q].flags & FENCED == 0 {
            return None;
        }
        let left = s.left.resets.checked_sub(1)?;
        let mut next = s.clone();
        next.left.resets = left;
        let joining = self.joining(s, m);
        self.new_link(&mut next, q, m, &joining);
        Some(next)
    }

    /// So much time goes by that no lease of this store to the volume's owners up to now is left.
    #[must_use]
    pub fn expire(&self, s: &State, m: usize, volume: usize) -> Option<State> {
        if s.stores[m].leased & (1 << volume) == 0 {
            return None;
        }
        let mut next = s.clone();
        next.stores[m].leased &= !(1 << volume);
        for q in (0..self.sequencers()).filter(|q| self.volume(*q) == volume) {
            next.stores[m].known[q].flags &= !LEASE;
        }
        Some(next)
    }

    /// Forgets what can have no effect any more, so that more states are equal.
    pub fn tidy(&self, s: &mut State) {
        let reading = s.left.reads + s.left.compares > 0 || s.sequencers.iter().any(|q| q.is_reading());
        for q in 0..self.sequencers() {
            let volume = self.volume(q);
            let deposed = s.generation[volume] > self.generation(q);
            if s.sequencers[q].life == Life::Stopped {
                s.sequencers[q] = crate::state::Sequencer {
                    life: Life::Stopped,
                    ..Default::default()
                };
                for store in &mut s.stores {
                    store.known[q] = Known::default();
                }
                continue;
            }
            for store in &mut s.stores[..self.size.stores] {
                let known = &mut store.known[q];
                if known.flags & (IN | SYNCING) == 0 {
                    *known = Known::default();
                }
                if deposed && store.disk.generation[volume] > self.generation(q) {
                    known.link = 0;
                    known.flags &= !(JOINED | JOINED << 1);
                    known.open = [0; CHUNKS];
                }
            }
        }
        if !reading {
            for store in &mut s.stores {
                store.leased = 0;
                for known in &mut store.known {
                    known.flags &= !LEASE;
                }
            }
        }
    }

    /// Whether a store has a change under way that this test picks.
    #[must_use]
    pub fn under_way(&self, s: &State, m: usize, test: impl Fn(&Change) -> bool) -> bool {
        s.stores[m].tail.iter().any(test)
    }
}
