//! The model as the checker sees it: where it begins, what may happen next, what must always hold.

use stateright::{Model, Property};

use crate::config::{Rule, Start};
use crate::state::{
    BLOCKS, CHUNKS, Change, Chunk, Disk, Entry, FENCED, Fault, IN, Known, Left, Life, NONE, Replication, SEQUENCERS,
    STORES, Sequencer, State, Store, TAIL, VOLUMES, WRITES, Write,
};

/// A step. Numbers are sequencers, stores, chunks, blocks, in this order; stores are numbered anew after each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A gateway reads the group before it raises the generation (a rule switched off).
    ReadEarly(usize),
    /// A gateway raises a volume's generation and reads the group.
    Raise(usize),
    /// A sequencer reads a newer epoch of the group, and its generation.
    Adopt(usize),
    /// A fence reaches a store.
    Fence(usize, usize),
    /// A store says what version of a chunk it holds.
    Ask(usize, usize, usize),
    /// All stores in sync say what version of a chunk they hold.
    AskAll(usize, usize),
    /// A store is rolled forward.
    Roll(usize, usize, usize),
    /// A chunk is open.
    Opened(usize, usize),
    /// A write of a kind is given out.
    Issue(usize, usize),
    /// A write on the link reaches a store: the chunk's oldest one, or (links without order) the next after so many.
    Deliver(usize, usize, usize, usize),
    /// A chunk's oldest write is acknowledged.
    Acknowledge(usize, usize),
    /// A store grants a lease.
    RenewLease(usize, usize),
    /// A read is sent for.
    Inquire(usize, usize, usize),
    /// A compare-and-write has its turn.
    Compare(usize, usize),
    /// A fence is sent.
    SendFence(usize, usize),
    /// A store answers a read.
    Read(usize, usize, usize, usize),
    /// A client gets the answer.
    Complete(usize),
    /// A chunk is joined on the syncing store.
    Join(usize, usize),
    /// A chunk is seen to be equal and whole everywhere.
    Equal(usize, usize),
    /// The syncing store lists a chunk.
    ListTarget(usize, usize),
    /// A store in sync lists a chunk.
    ListSource(usize, usize, usize),
    /// The lists are compared, and what follows is sent.
    Decide(usize, usize),
    /// An owner claims that all is whole.
    Claim(usize),
    /// The coordinator sees all claims.
    Look,
    /// The coordinator promotes.
    Promote,
    /// The coordinator evicts.
    Evict(usize),
    /// A sequencer evicts.
    EvictBy(usize, usize),
    /// The syncing store is dropped.
    Drop(usize),
    /// A store becomes a syncing one.
    Add(usize),
    /// The oldest accepted change of a store becomes durable.
    Flush(usize),
    /// A store starts anew.
    Crash(usize),
    /// A disk loses a write that it had called durable.
    Lie(usize, usize),
    /// A link breaks.
    Reset(usize, usize),
    /// The leases that a store has granted run out.
    Expire(usize, usize),
    /// A block rots.
    Rot(usize, usize, usize),
    /// A member that refuses a write of a part of a rotten block is rolled forward.
    Heal(usize, usize, usize),
    /// What no member can merge is withdrawn (a rule switched off).
    Withdraw(usize, usize),
}

impl Replication {
    fn start(&self, start: &Start) -> State {
        let mut writes = [Write::default(); WRITES];
        let (mut inside, mut outside) = ([0; CHUNKS], [0; CHUNKS]);
        for (i, past) in start.past.iter().enumerate() {
            let (id, chunk) = (i as u8 + 1, self.size.kinds[past.kind].chunk);
            let after = if past.inside { inside[chunk] } else { outside[chunk] };
            let counter = if after == 0 {
                1
            } else {
                writes[usize::from(after) - 1].counter + 1
            };
            writes[i] = Write {
                q: NONE,
                counter,
                after,
                kind: past.kind as u8,
                acked: past.inside,
                seen: past.inside,
                compared: false,
                dead: false,
            };
            if past.inside {
                inside[chunk] = id;
            }
            if past.outside {
                outside[chunk] = id;
            }
        }
        let empty = Chunk {
            stream: 0,
            base: NONE,
            blocks: [Entry::default(); BLOCKS],
        };
        let disk = Disk {
            generation: [0; VOLUMES],
            epoch: 0,
            in_sync: false,
            chunks: [empty; CHUNKS],
        };
        let none = Store {
            in_sync: false,
            syncing: false,
            since: 0,
            claims: [(0, 0); VOLUMES],
            disk,
            tail: [Change::None; TAIL],
            leased: 0,
            silent: false,
            lied: false,
            rot: 0,
            known: [Known::default(); SEQUENCERS],
        };
        let mut state = State {
            generation: [0; VOLUMES],
            epoch: 1,
            raised: 0,
            look: None,
            written: start.past.len() as u8,
            writes,
            sequencers: [Sequencer::default(); SEQUENCERS],
            stores: [none; STORES],
            left: Left {
                evictions: self.size.evictions,
                additions: self.size.additions,
                crashes: self.size.crashes,
                resets: self.size.resets,
                reads: self.size.reads,
                lies: self.size.lies,
                rots: self.size.rots,
                compares: self.size.compares,
            },
            fault: Fault::None,
        };
        for m in 0..self.size.stores {
            let member = m >= start.out;
            let store = &mut state.stores[m];
            store.in_sync = member;
            store.silent = self.size.silent && m == start.out;
            store.disk.in_sync = member;
            store.disk.epoch = u8::from(member);
            for volume in 0..self.size.volumes {
                store.disk.generation[volume] = u8::from(member);
            }
            let streams = if member { inside } else { outside };
            for (chunk, stream) in streams.into_iter().enumerate().take(self.size.chunks) {
                let blocks = self.content(&state, stream);
                state.stores[m].disk.chunks[chunk] = Chunk {
                    stream,
                    base: NONE,
                    blocks,
                };
            }
        }
        for volume in 0..self.size.volumes {
            let q = volume * self.size.generations;
            state.generation[volume] = 1;
            state.sequencers[q].life = Life::Running;
            state.sequencers[q].epoch = 1;
            for store in &mut state.stores[start.out..self.size.stores] {
                store.known[q].flags = IN | FENCED;
            }
            for chunk in self.chunks(q) {
                let held = &mut state.sequencers[q].chunks[chunk];
                (held.open, held.issued, held.committed) = (true, inside[chunk], inside[chunk]);
            }
        }
        self.canonical(&mut state);
        state
    }

    /// States that differ in nothing but the names of stores become one.
    fn canonical(&self, s: &mut State) {
        self.tidy(s);
        s.stores[..self.size.stores].sort_unstable();
    }

    fn sound(&self, store: &Store) -> bool {
        store.in_sync && !store.lied
    }

    /// The first state that breaks anything is the one that is reported: breadth first, its way is as short as any.
    fn is_first(&self, s: &State) -> bool {
        self.first.get_or_init(|| s.clone()) == s
    }

    /// In sync means: every chunk is whole, and holds block for block what the history says at its version.
    fn whole(&self, s: &State) -> bool {
        s.stores.iter().filter(|store| self.sound(store)).all(|store| {
            store.disk.chunks[..self.size.chunks]
                .iter()
                .all(|chunk| chunk.base == NONE && chunk.blocks == self.content(s, chunk.stream))
        })
    }

    /// Every acknowledged write is durable on every store in sync, `min_copies` at least, so that any one of them is
    /// enough.
    fn kept(&self, s: &State) -> bool {
        (1..=s.written)
            .filter(|id| s.writes[usize::from(*id) - 1].acked)
            .all(|id| {
                let chunk = self.chunk_of(s, id);
                let has = |store: &Store| self.follows(s, store.disk.chunks[chunk].stream, id);
                let in_sync = s.stores.iter().filter(|store| store.in_sync).count();
                in_sync >= self.size.min_copies && s.stores.iter().filter(|store| self.sound(store)).all(has)
            })
    }

    /// Of two stores in sync one holds a prefix of what the other holds.
    fn agree(&self, s: &State) -> bool {
        (0..self.size.chunks).all(|chunk| {
            let streams = || {
                s.stores
                    .iter()
                    .filter(|store| self.sound(store))
                    .map(|store| store.disk.chunks[chunk].stream)
            };
            streams().all(|a| streams().all(|b| self.follows(s, a, b) || self.follows(s, b, a)))
        })
    }
}

/// The name of the property that no acknowledged write is lost.
pub const KEPT: &str = "an acknowledged write is durable on every store in sync";
/// The name of the property that a store in sync is whole.
pub const IN_SYNC_IS_WHOLE: &str = "a store in sync is whole, block for block";
/// The name of the property that stores in sync agree.
pub const AGREE: &str = "of two stores in sync one holds a prefix of the other's history";
/// The name of the property that clients see no fault.
pub const CLIENTS: &str = "reads are linearizable, also across a takeover";

/// What happens somewhere at every size.
pub const ACKNOWLEDGED: &str = "a write is acknowledged";
/// What happens somewhere where stores come back.
pub const PROMOTED: &str = "a store that came back is in sync beside all others";
/// What happens somewhere where there are takeovers.
pub const TAKEN_OVER: &str = "a new owner has opened a chunk";
/// What happens somewhere where somebody compares.
pub const COMPARED: &str = "a compare-and-write is acknowledged";
/// What happens somewhere where there are reads.
pub const READ_RETURNED: &str = "a client has got its read's answer";

impl Model for Replication {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        self.size.starts.iter().map(|start| self.start(start)).collect()
    }

    fn actions(&self, s: &State, actions: &mut Vec<Action>) {
        for volume in 0..self.size.volumes {
            actions.push(Action::Raise(volume));
            if !self.off.holds(Rule::RaiseThenRead) {
                actions.push(Action::ReadEarly(volume));
            }
        }
        for q in (0..self.sequencers()).filter(|q| s.sequencers[*q].life == Life::Running) {
            actions.extend([Action::Adopt(q), Action::Claim(q), Action::Complete(q)]);
            actions.extend((0..self.size.kinds.len()).map(|kind| Action::Issue(q, kind)));
            if s.left.compares > 0 {
                actions.extend((0..self.size.kinds.len()).map(|kind| Action::Compare(q, kind)));
            }
            for chunk in self.chunks(q) {
                actions.extend([
                    Action::AskAll(q, chunk),
                    Action::Opened(q, chunk),
                    Action::Acknowledge(q, chunk),
                    Action::Join(q, chunk),
                    Action::Equal(q, chunk),
                    Action::ListTarget(q, chunk),
                    Action::Decide(q, chunk),
                ]);
                if self.size.travel && s.left.reads > 0 {
                    actions.extend((0..BLOCKS).map(|block| Action::Inquire(q, chunk, block)));
                }
                if !self.off.holds(Rule::RotKeepsVersions) {
                    actions.push(Action::Withdraw(q, chunk));
                }
            }
            for m in (0..self.size.stores).filter(|m| s.stores[*m].known[q].flags != 0) {
                actions.extend([Action::Fence(q, m), Action::RenewLease(q, m), Action::Reset(q, m)]);
                if self.size.travel {
                    actions.push(Action::SendFence(q, m));
                }
                if self.size.sequencers_evict {
                    actions.push(Action::EvictBy(q, m));
                }
                for chunk in self.chunks(q) {
                    actions.extend([
                        Action::Ask(q, chunk, m),
                        Action::Roll(q, chunk, m),
                        Action::Deliver(q, m, chunk, 0),
                        Action::ListSource(q, chunk, m),
                    ]);
                    if !self.size.ordered {
                        actions.push(Action::Deliver(q, m, chunk, 1));
                    }
                    if self.size.rots > 0 {
                        actions.push(Action::Heal(q, chunk, m));
                    }
                    if s.left.reads > 0 || s.sequencers[q].asked.is_some() {
                        actions.extend((0..BLOCKS).map(|block| Action::Read(q, m, chunk, block)));
                    }
                }
            }
        }
        actions.push(Action::Promote);
        if self.looks() {
            actions.push(Action::Look);
        }
        for m in 0..self.size.stores {
            if self.size.coordinator {
                actions.push(Action::Evict(m));
            }
            actions.extend([Action::Drop(m), Action::Add(m), Action::Flush(m), Action::Crash(m)]);
            actions.extend((0..self.size.volumes).map(|volume| Action::Expire(m, volume)));
            if s.left.rots > 0 {
                let places = (0..self.size.chunks).flat_map(|chunk| (0..BLOCKS).map(move |block| (chunk, block)));
                actions.extend(places.map(|(chunk, block)| Action::Rot(m, chunk, block)));
            }
            if s.left.lies > 0 {
                actions.extend((0..self.size.chunks).map(|chunk| Action::Lie(m, chunk)));
            }
        }
    }

    fn next_state(&self, s: &State, action: Action) -> Option<State> {
        let mut next = match action {
            Action::ReadEarly(volume) => self.read_early(s, volume),
            Action::Raise(volume) => self.raise(s, volume),
            Action::Adopt(q) => self.adopt(s, q),
            Action::Fence(q, m) => self.fence(s, q, m),
            Action::AskAll(q, chunk) if self.asks_all() => self.ask_all(s, q, chunk),
            Action::AskAll(..) => None,
            Action::Ask(..) if self.asks_all() => None,
            Action::Ask(q, chunk, m) => self.ask(s, q, chunk, m),
            Action::Roll(q, chunk, m) => self.roll(s, q, chunk, m),
            Action::Opened(q, chunk) => self.opened(s, q, chunk),
            Action::Issue(q, kind) => self.issue(s, q, kind),
            Action::Deliver(q, m, chunk, skip) => self.deliver(s, q, m, chunk, skip),
            Action::Acknowledge(q, chunk) => self.acknowledge(s, q, chunk),
            Action::RenewLease(q, m) => self.renew_lease(s, q, m),
            Action::Inquire(q, chunk, block) => self.inquire(s, q, chunk, block),
            Action::Compare(q, kind) => self.compare(s, q, kind),
            Action::SendFence(q, m) => self.send_fence(s, q, m),
            Action::Read(q, m, chunk, block) => self.read(s, q, m, chunk, block),
            Action::Complete(q) => self.complete(s, q),
            Action::Join(q, chunk) => self.join(s, q, chunk),
            Action::Equal(q, chunk) => self.equal(s, q, chunk),
            Action::ListTarget(q, chunk) => self.list_target(s, q, chunk),
            Action::ListSource(q, chunk, m) => self.list_source(s, q, chunk, m),
            Action::Decide(q, chunk) => self.decide(s, q, chunk),
            Action::Claim(q) => self.claim(s, q),
            Action::Look => self.look(s),
            Action::Promote => self.promote(s),
            Action::Evict(m) => self.evict(s, m, None),
            Action::EvictBy(q, m) => self.evict(s, m, Some(q)),
            Action::Drop(m) => self.drop_syncing(s, m),
            Action::Add(m) => self.add(s, m),
            Action::Flush(m) if s.stores[m].tail[0] == Change::None => None,
            Action::Flush(m) => {
                let mut next = s.clone();
                self.flush(&mut next, m).then_some(next)
            }
            Action::Crash(m) => self.crash(s, m),
            Action::Lie(m, chunk) => self.lie(s, m, chunk),
            Action::Reset(q, m) => self.reset(s, q, m),
            Action::Expire(m, volume) => self.expire(s, m, volume),
            Action::Rot(m, chunk, block) => self.rots(s, m, chunk, block),
            Action::Heal(q, chunk, m) => self.heal(s, q, chunk, m),
            Action::Withdraw(q, chunk) => self.withdraw(s, q, chunk),
        }?;
        self.canonical(&mut next);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(KEPT, |model: &Self, s| model.kept(s) || !model.is_first(s)),
            Property::always(IN_SYNC_IS_WHOLE, |model: &Self, s| model.whole(s) || !model.is_first(s)),
            Property::always(AGREE, |model: &Self, s| model.agree(s) || !model.is_first(s)),
            Property::always(CLIENTS, |model: &Self, s: &State| {
                s.fault == Fault::None || !model.is_first(s)
            }),
            Property::sometimes(ACKNOWLEDGED, |_, s: &State| {
                s.writes.iter().any(|write| write.acked && write.q != NONE)
            }),
            Property::sometimes(PROMOTED, |model: &Self, s: &State| {
                let in_sync = s.stores.iter().filter(|store| store.in_sync).count();
                model.size.additions > s.left.additions && in_sync == model.size.stores
            }),
            Property::sometimes(TAKEN_OVER, |model: &Self, s: &State| {
                (0..model.sequencers())
                    .any(|q| model.generation(q) > 1 && model.chunks(q).any(|chunk| s.sequencers[q].chunks[chunk].open))
            }),
            Property::sometimes(COMPARED, |_, s: &State| {
                s.writes.iter().any(|write| write.compared && write.acked)
            }),
            Property::sometimes(READ_RETURNED, |model: &Self, s: &State| {
                model.size.reads > s.left.reads && s.sequencers.iter().all(|sequencer| !sequencer.is_reading())
            }),
        ]
    }
}

impl Replication {
    /// What happens by itself some time: not faults, not requests, not what somebody decides.
    #[must_use]
    pub fn is_fair(&self, action: &Action) -> bool {
        let asks = matches!(action, Action::Read(..)) && !self.size.travel;
        !asks
            && !matches!(
                action,
                Action::ReadEarly(_)
                    | Action::Raise(_)
                    | Action::Issue(..)
                    | Action::Inquire(..)
                    | Action::Compare(..)
                    | Action::Evict(_)
                    | Action::EvictBy(..)
                    | Action::Drop(_)
                    | Action::Add(_)
                    | Action::Crash(_)
                    | Action::Lie(..)
                    | Action::Reset(..)
                    | Action::Rot(..)
            )
    }
}
