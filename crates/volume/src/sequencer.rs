//! The sequencer of one open volume on one core: the single owner of its chunks there.
//!
//! It gives every write of a chunk its version, sends it to every in-sync member of the chunk's group at once, and
//! acknowledges it when all have answered. It reads from one member. When a member fails it moves the group to a new
//! epoch without it; when it is itself replaced, it stops. `docs/protocol.md` tells the whole story; the rules are
//! cited where they are obeyed.
//!
//! It is a pure state machine: events come in by the public methods, each with the time; what is to be done goes out as
//! [`Effect`]s. The rooms:
//!
//! * [`submit`](self): I/O is checked and queued at its chunk.
//! * `group`: a group is fenced on first touch, after every change of epoch and after every reconnection.
//! * `open`, `roll`: a chunk is opened on first touch; members that are behind are rolled forward.
//! * `write`, `read`: the path of an I/O.
//! * `store`: links, silence, promises, credits.
//! * `metadata`: evictions, and reading records back.

mod group;
mod metadata;
mod open;
mod read;
mod roll;
mod store;
mod submit;
mod write;

use crate::config::Config;
use crate::io::{CallId, Effect, IoError, Opened, Payload, StopReason, Warning};
use crate::task::{Kind, List, Members, NIL, Tasks};
use amita_cluster::map::{self, PoolKind};
use amita_cluster::message::{Answer, AnswerBody, MAX_MEMBERS, Problem, Refusal, Request, RequestBody, Scope};
use amita_cluster::{BLOCK_BYTES, ChunkIndex, GroupId, RequestId, StoreId, Version};
use amita_reactor::{Slice, Time};
use arrayvec::ArrayVec;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::collections::vec_deque::Drain;

/// How often things happened. They feed the status page, and tests that want to see each rare path taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Writes and clears that were acknowledged.
    pub writes: u64,
    /// Reads that were answered.
    pub reads: u64,
    /// Chunks that were opened.
    pub opened: u64,
    /// Members of chunks that were rolled forward (R6).
    pub rolled: u64,
    /// Groups that lost a member by our own compare-and-set.
    pub evicted: u64,
    /// Groups found at a new epoch that another sequencer had set.
    pub adopted: u64,
    /// Writes that were sent again.
    pub resent: u64,
    /// Reads that were held until their version was everywhere (R3).
    pub held: u64,
    /// Reads that waited for promises (R4).
    pub unpromised: u64,
    /// Requests for a promise.
    pub confirms: u64,
    /// Writes that waited for credits (R7).
    pub credit_waits: u64,
    /// Reads that were also sent to a second member.
    pub hedged: u64,
    /// Refusals because of an older epoch.
    pub stale_epochs: u64,
    /// Refusals by a member that did not know our fence (any more).
    pub not_fenced: u64,
    /// Compare-and-sets whose outcome was unknown and read back (R6).
    pub unknown: u64,
    /// Compare-and-sets that another one had overtaken.
    pub lost_races: u64,
    /// Copies that failed their checksum.
    pub damaged: u64,
}

/// What an operator sees of a sequencer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// It has ended.
    pub stopped: bool,
    /// I/Os that were submitted and have not ended.
    pub ios: usize,
    /// Chunks that were touched.
    pub chunks: usize,
    /// Groups in which writes wait because too few members are left.
    pub stuck_groups: Vec<GroupId>,
    /// How often things happened.
    pub counters: Counters,
}

/// One of the volume's stores.
#[derive(Debug)]
struct Store {
    id: StoreId,
    local: bool,
    /// There is a link to it.
    up: bool,
    /// Surely dead, or silent for too long: groups that are touched go on without it. Cleared when it speaks.
    lost: bool,
    /// When it was found lost: the first one goes first.
    lost_at: Time,
    /// It has said that it cannot serve; reported once.
    unfit: bool,
    /// Answers that are owed on something sent or to be sent.
    awaited: u32,
    /// Of those, writes: their end may bring credits.
    writes: u32,
    /// Payload bytes of writes that it has not answered.
    bytes: u64,
    /// The last answer, or when there began to be something to answer.
    heard: Time,
    /// Its last answer was `Busy`.
    refusing: bool,
    /// Blocks that may be written before it grants more (R7).
    credit: u64,
    /// Until then it accepts no newer generation (R4).
    promise_until: Time,
    /// The length of its last promise.
    promise: std::time::Duration,
    /// The request for a promise or credits that is under way.
    confirm: u32,
    /// When the last one was sent.
    confirm_at: Time,
}

/// One group of the pool.
#[derive(Debug)]
struct Group {
    id: GroupId,
    record: map::Group,
    revision: u64,
    /// The stores (by index) that were in sync when the volume was opened; a member's position is its place here.
    members: ArrayVec<u32, MAX_MEMBERS>,
    /// Who of them is in sync by the record.
    current: Members,
    /// Who has adopted the record's epoch and our generation, on its present link.
    ready: Members,
    /// Who must be evicted though its store speaks: it cannot apply what it should.
    doomed: Members,
    /// Who is left alone for a moment, because it said `Busy`.
    paused: Members,
    /// Warned of: missing, and too few to evict it.
    missed: Members,
    touched: bool,
    /// Its record is to be read again; and whether the call under way does so.
    reread: bool,
    rereading: bool,
    /// A member knows of a newer epoch: until the record has been read nothing is fenced.
    in_doubt: bool,
    /// The task of its fence, while members have to adopt it.
    fence: u32,
    /// Chunks that wait to be opened, or are being opened.
    opening: Vec<u32>,
    /// Chunks with writes that are not acknowledged.
    busy: Vec<u32>,
}

/// One chunk of the volume, once touched.
#[derive(Debug)]
struct Chunk {
    index: ChunkIndex,
    group: u32,
    state: ChunkState,
    /// The version given out last.
    issued: Version,
    /// The newest version that every in-sync member has.
    committed: Version,
    /// Writes that have a version, in its order; the first is the one after `committed`.
    writes: List,
    write_count: u32,
    /// I/O that waits: for the chunk's opening, for credits, for a limit.
    queued_writes: List,
    queued_clears: List,
    queued_reads: List,
    /// Reads whose answer waits for `committed` (R3) or for promises (R4).
    held: List,
    /// Members that refused a write and to which writes are sent again once all that they have is answered.
    stalled: Members,
    /// The place in the group's list of busy chunks.
    busy_at: u32,
    /// Stands in [`Sequencer::blocked`].
    blocked: bool,
    /// Members that could not give what a roll-forward needs.
    bad_sources: Members,
}

#[derive(Debug)]
enum ChunkState {
    /// Never touched, or the last opening failed.
    Closed,
    /// Waits until its group is fenced.
    Waiting,
    Opening(Box<open::Opening>),
    Open,
}

/// The sequencer. See the module.
#[derive(Debug)]
pub struct Sequencer {
    config: Config,
    volume: map::Volume,
    volume_revision: u64,
    owner: amita_cluster::NodeId,
    generation: amita_cluster::Generation,
    pool: map::Pool,
    chunk_bytes: u32,
    blocks_per_chunk: u16,
    min_copies: usize,
    id_base: u64,
    stores: Vec<Store>,
    store_index: FxHashMap<StoreId, u32>,
    groups: Vec<Group>,
    /// Groups that were touched, in order.
    touched: Vec<u32>,
    chunks: Vec<Chunk>,
    chunk_index: FxHashMap<ChunkIndex, u32>,
    tasks: Tasks,
    /// I/Os that were submitted and have not ended.
    ios: usize,
    /// Payload bytes of writes without an acknowledgement.
    bytes: u64,
    /// Chunks whose queues could not be emptied; looked at again when something has changed.
    blocked: VecDeque<u32>,
    retry_blocked: bool,
    /// Openings under way, and whether one has ended since others had to wait.
    openings: usize,
    retry_openings: bool,
    /// Reads that have their answer and lack promises.
    unpromised: Vec<u32>,
    /// Members that are left alone until then.
    pauses: Vec<(Time, u32, usize)>,
    metadata: metadata::Metadata,
    /// The next moment at which something may be due; [`Time`]'s end when nothing is.
    wake: Time,
    stopped: bool,
    counters: Counters,
    effects: VecDeque<Effect>,
}

const NEVER: Time = Time(u64::MAX);
/// A store that cannot serve and cannot be evicted is asked again after so many pauses of a busy one.
const UNFIT_PAUSES: u32 = 100;

impl Sequencer {
    /// A sequencer of an opened volume. `id_base` stands above the low 40 bits of every id that it makes and differs from
    /// that of every other sequencer of the node. No store counts as connected until [`Sequencer::store_up`].
    ///
    /// # Panics
    /// When `opened` is not what an [`crate::Opener`] has checked.
    #[must_use]
    pub fn new(config: Config, opened: Opened, id_base: u64, now: Time) -> Sequencer {
        let PoolKind::Replicated { min_copies, .. } = opened.pool.kind else {
            panic!("the opener refuses other kinds of pools");
        };
        assert_eq!(opened.groups.len(), opened.pool.groups as usize, "every group was read");
        let mut sequencer = Sequencer {
            chunk_bytes: opened.pool.chunk_bytes,
            blocks_per_chunk: (opened.pool.chunk_bytes / BLOCK_BYTES) as u16,
            min_copies: usize::from(min_copies),
            volume: opened.volume,
            volume_revision: opened.volume_revision,
            owner: opened.owner,
            generation: opened.generation,
            pool: opened.pool,
            id_base,
            stores: Vec::new(),
            store_index: FxHashMap::default(),
            groups: Vec::new(),
            touched: Vec::new(),
            chunks: Vec::new(),
            chunk_index: FxHashMap::default(),
            tasks: Tasks::new(id_base),
            ios: 0,
            bytes: 0,
            blocked: VecDeque::new(),
            retry_blocked: false,
            openings: 0,
            retry_openings: false,
            unpromised: Vec::new(),
            pauses: Vec::new(),
            metadata: metadata::Metadata::new(&config),
            wake: NEVER,
            stopped: false,
            counters: Counters::default(),
            effects: VecDeque::new(),
            config,
        };
        for (record, revision) in opened.groups {
            sequencer.add_group(now, record, revision);
        }
        sequencer
    }

    fn add_group(&mut self, now: Time, record: map::Group, revision: u64) {
        assert_eq!(record.index.0 as usize, self.groups.len(), "groups come in order");
        let mut members = ArrayVec::new();
        for &id in &record.in_sync {
            members.push(self.store_number(now, id));
        }
        self.groups.push(Group {
            id: GroupId {
                pool: self.pool.id,
                index: record.index,
            },
            current: Members::first(members.len()),
            members,
            record,
            revision,
            ready: Members::NONE,
            doomed: Members::NONE,
            paused: Members::NONE,
            missed: Members::NONE,
            touched: false,
            reread: false,
            rereading: false,
            in_doubt: false,
            fence: NIL,
            opening: Vec::new(),
            busy: Vec::new(),
        });
    }

    fn store_number(&mut self, now: Time, id: StoreId) -> u32 {
        if let Some(&number) = self.store_index.get(&id) {
            return number;
        }
        let number = self.stores.len() as u32;
        self.stores.push(Store {
            id,
            local: self.config.local_stores.contains(&id),
            up: false,
            lost: false,
            lost_at: now,
            unfit: false,
            awaited: 0,
            writes: 0,
            bytes: 0,
            heard: now,
            refusing: false,
            credit: 0,
            promise_until: Time(0),
            promise: std::time::Duration::ZERO,
            confirm: NIL,
            confirm_at: Time(0),
        });
        self.store_index.insert(id, number);
        number
    }

    /// The volume's id.
    #[must_use]
    pub fn volume(&self) -> amita_cluster::VolumeId {
        self.volume.id
    }

    /// Our generation.
    #[must_use]
    pub fn generation(&self) -> amita_cluster::Generation {
        self.generation
    }

    /// The stores that hold the volume: those whose links it wants to hear of.
    pub fn store_ids(&self) -> impl Iterator<Item = StoreId> + '_ {
        self.stores.iter().map(|store| store.id)
    }

    /// Has every I/O ended?
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.ios == 0
    }

    /// Has it ended?
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// How often things happened.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What an operator sees.
    #[must_use]
    pub fn status(&self) -> Status {
        let stuck = |group: &&Group| group.touched && !group.missed.and(group.current).is_empty();
        Status {
            stopped: self.stopped,
            ios: self.ios,
            chunks: self.chunks.len(),
            stuck_groups: self.groups.iter().filter(stuck).map(|group| group.id).collect(),
            counters: self.counters,
        }
    }

    /// What is to be done, in order.
    pub fn effects(&mut self) -> Drain<'_, Effect> {
        self.effects.drain(..)
    }

    /// When [`Sequencer::tick`] is wanted at the latest. An earlier call does no harm.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        (self.wake != NEVER).then_some(self.wake)
    }

    /// Ends it, because the volume is closed or given to another gateway: I/O under way is answered
    /// [`IoError::Lost`]. Whoever wants to lose nothing waits for [`Sequencer::is_idle`] first.
    pub fn release(&mut self) {
        self.stop(StopReason::Released);
    }

    /// A store has answered.
    pub fn answer(&mut self, now: Time, answer: Answer, payload: Slice) {
        if self.stopped {
            return;
        }
        let Some(&store) = self.store_index.get(&answer.store) else {
            return;
        };
        let at_work = !matches!(answer.result, Err(Refusal::Busy));
        self.heard(now, store, answer.credit_blocks, at_work);
        if let Some((slot, position)) = self.awaited(answer.id, store) {
            let member = Awaited { slot, position, store };
            if answer.result.is_ok() && answer.promise_ms > 0 {
                // Only what was done under our generation is a promise to us (R4).
                self.promised(slot, position, store, answer.promise_ms);
            }
            match answer.result {
                Ok(body) => self.accepted(now, member, body, payload),
                Err(refusal) => self.refused(now, member, &refusal),
            }
        }
        self.finish(now);
    }

    /// The task and position that an answer belongs to, where it is still awaited.
    fn awaited(&self, id: RequestId, store: u32) -> Option<(u32, usize)> {
        let slot = self.tasks.find(id)?;
        let task = &self.tasks[slot];
        let position = self.groups[task.group as usize]
            .members
            .iter()
            .position(|&member| member == store)?;
        task.waiting.has(position).then_some((slot, position))
    }

    fn accepted(&mut self, now: Time, member: Awaited, body: AnswerBody, payload: Slice) {
        let Awaited { slot, position, .. } = member;
        match (&self.tasks[slot].kind, body) {
            (Kind::Write(_), AnswerBody::Done) => self.written(now, slot, position),
            (Kind::Read(_), AnswerBody::Data { version, sums }) => {
                self.data_arrived(now, slot, position, version, &sums, payload);
            }
            (Kind::Read(_), AnswerBody::Allocation { allocated }) => {
                self.allocation_arrived(now, slot, position, allocated);
            }
            (Kind::Fence { .. }, AnswerBody::Fenced) => self.fenced(now, slot, position),
            (Kind::Confirm, AnswerBody::Confirmed) => self.confirmed(slot, position),
            (Kind::Orphan, _) => self.settle_and_drop(slot, position),
            (Kind::Open(_), body) => self.opening_answered(now, slot, position, body, &payload),
            (_, body) => {
                // An answer to another question: the store is not to be trusted with this group.
                let refusal = format!("an answer that was not asked for: {body:?}");
                self.misbehaved(now, slot, position, refusal);
            }
        }
    }

    /// Refusals whose meaning does not depend on what was asked come here first.
    fn refused(&mut self, now: Time, member: Awaited, refusal: &Refusal) {
        let Awaited { slot, position, store } = member;
        let group = self.tasks[slot].group;
        match refusal {
            Refusal::Fenced { generation } if *generation > self.generation => {
                return self.stop(StopReason::Deposed {
                    generation: *generation,
                });
            }
            Refusal::StaleEpoch { .. } => {
                // R2: whoever refuses for an old epoch has learned of a new one; the metadata says which.
                self.counters.stale_epochs += 1;
                self.unready(group, position);
                self.groups[group as usize].in_doubt = true;
                self.reread(group);
            }
            Refusal::NotFenced | Refusal::Fenced { .. } => {
                self.counters.not_fenced += 1;
                self.unready(group, position);
            }
            Refusal::Busy => self.pause(now, group, position, self.config.busy_pause),
            Refusal::Poisoned | Refusal::NoSuchStore => {
                if !self.stores[store as usize].unfit {
                    self.stores[store as usize].unfit = true;
                    self.warn_refused(group, store, refusal);
                }
                self.lose(now, store);
                self.pause(now, group, position, self.config.busy_pause * UNFIT_PAUSES);
            }
            _ => {}
        }
        match self.tasks[slot].kind {
            Kind::Write(_) => self.write_refused(now, slot, position, refusal),
            Kind::Read(_) => self.read_refused(now, slot, position, refusal),
            Kind::Fence { .. } => self.fence_refused(now, slot, position, refusal),
            Kind::Confirm => self.confirmed(slot, position),
            Kind::Orphan => self.settle_and_drop(slot, position),
            Kind::Open(_) => self.opening_refused(now, slot, position, refusal),
            Kind::Free => unreachable!("nothing is awaited from a task that has ended"),
        }
        self.send_fence(now, group);
    }

    /// A member of a group does what no store of this protocol does: it is evicted.
    fn misbehaved(&mut self, now: Time, slot: u32, position: usize, refusal: String) {
        let group = self.tasks[slot].group;
        let store = self.stores[self.groups[group as usize].members[position] as usize].id;
        self.effects.push_back(Effect::Warn(Warning::Refused {
            group: self.groups[group as usize].id,
            store,
            refusal,
        }));
        self.doom(group, position);
        let store = self.groups[group as usize].members[position];
        let what = Problem::Range;
        self.refused(now, Awaited { slot, position, store }, &Refusal::Invalid { what });
    }

    fn warn_refused(&mut self, group: u32, store: u32, refusal: &Refusal) {
        self.effects.push_back(Effect::Warn(Warning::Refused {
            group: self.groups[group as usize].id,
            store: self.stores[store as usize].id,
            refusal: format!("{refusal:?}"),
        }));
    }

    /// Sends a task's request to a member. The task awaits it already.
    fn send(&mut self, now: Time, slot: u32, position: usize, body: RequestBody, payload: Slice) {
        let task = &mut self.tasks[slot];
        debug_assert!(task.waiting.has(position) && !task.sent.has(position));
        task.sent.add(position);
        if task.sent_at[position] == Time(0) {
            task.sent_at[position] = now;
        }
        let group = &self.groups[task.group as usize];
        let store = self.stores[group.members[position] as usize].id;
        let request = Request {
            id: self.tasks.id(slot),
            store,
            scope: Scope {
                volume: self.volume.id,
                generation: self.generation,
                group: group.id,
                epoch: group.record.epoch,
            },
            body,
        };
        self.effects.push_back(Effect::Send {
            store,
            request,
            payload,
        });
    }

    /// A task awaits an answer of a member from now on.
    fn expect(&mut self, now: Time, slot: u32, position: usize) {
        let task = &mut self.tasks[slot];
        assert!(!task.waiting.has(position), "one answer of each member is awaited");
        task.waiting.add(position);
        task.sent.remove(position);
        task.sent_at[position] = Time(0);
        let number = self.groups[task.group as usize].members[position];
        let store = &mut self.stores[number as usize];
        if store.awaited == 0 {
            if store.up && !store.refusing {
                store.heard = now;
            }
            let due = store.heard.plus(self.config.store_timeout);
            self.arm(due);
        }
        let store = &mut self.stores[number as usize];
        store.awaited += 1;
        if let Kind::Write(write) = &self.tasks[slot].kind {
            store.writes += 1;
            store.bytes += write.payload.len() as u64;
        }
    }

    /// A task awaits no answer of a member any more.
    fn settle(&mut self, slot: u32, position: usize) {
        let task = &mut self.tasks[slot];
        assert!(task.waiting.has(position), "settled once");
        task.waiting.remove(position);
        let number = self.groups[task.group as usize].members[position];
        let store = &mut self.stores[number as usize];
        store.awaited -= 1;
        if let Kind::Write(write) = &self.tasks[slot].kind {
            store.writes -= 1;
            store.bytes -= write.payload.len() as u64;
        }
    }

    fn settle_all(&mut self, slot: u32) {
        for position in self.tasks[slot].waiting.iter() {
            self.settle(slot, position);
        }
    }

    fn settle_and_drop(&mut self, slot: u32, position: usize) {
        self.settle(slot, position);
        if self.tasks[slot].waiting.is_empty() {
            self.tasks.remove(slot);
        }
    }

    fn arm(&mut self, at: Time) {
        self.wake = self.wake.min(at);
    }

    fn done(&mut self, io: crate::io::IoId, result: Result<(), IoError>, payload: Payload) {
        assert!(self.ios > 0, "every I/O ends once");
        self.ios -= 1;
        self.effects.push_back(Effect::Done { io, result, payload });
    }

    /// Every event ends here: what has become possible is done.
    fn finish(&mut self, now: Time) {
        if !self.stopped {
            self.recheck_promises(now);
            self.retry_openings(now);
            self.retry_blocked(now);
            self.reconfigure(now);
        }
        #[cfg(test)]
        if self.tasks.len() < 3000 {
            self.check();
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Time) {
        if self.stopped || now < self.wake {
            return;
        }
        let late = now.since(self.wake);
        if late >= self.config.store_timeout / 4 {
            // It was we who stood still (a frozen process): nobody is blamed for that time.
            for store in &mut self.stores {
                store.heard = store.heard.plus(late).min(now);
            }
        }
        self.wake = NEVER;
        self.end_pauses(now);
        self.hedge(now);
        self.listen_for_silence(now);
        self.finish(now);
        self.arm_again(now);
    }

    /// Sets the next moment at which something is due.
    fn arm_again(&mut self, now: Time) {
        if let Some(slot) = self.tasks.oldest() {
            self.arm(self.tasks[slot].asked_at.plus(self.hedge_after()));
        }
        for index in 0..self.pauses.len() {
            self.arm(self.pauses[index].0);
        }
        self.arm_silence(now);
        if let Some(at) = self.metadata.due() {
            self.arm(at);
        }
    }

    /// Ends it: nothing is acknowledged any more, whatever arrives.
    fn stop(&mut self, reason: StopReason) {
        if self.stopped {
            return;
        }
        self.stopped = true;
        self.wake = NEVER;
        for slot in self.tasks.slots() {
            let io = match &mut self.tasks[slot].kind {
                Kind::Write(write) => {
                    write.payload = Slice::default();
                    (!write.told).then_some(write.io)
                }
                Kind::Read(read) => {
                    read.found = None;
                    Some(read.io)
                }
                _ => None,
            };
            if let Some(io) = io {
                self.done(io, Err(IoError::Lost), Payload::None);
            }
        }
        assert_eq!(self.ios, 0, "every I/O ends once");
        self.effects.push_back(Effect::Stop { reason });
    }
}

/// An answer that was awaited.
#[derive(Clone, Copy)]
struct Awaited {
    slot: u32,
    position: usize,
    store: u32,
}

/// The id of the next call to the metadata.
fn call_id(id_base: u64, count: u64) -> CallId {
    CallId(id_base | count & ((1 << crate::task::ID_BITS) - 1))
}

#[cfg(any(test, feature = "planted"))]
mod check;
#[cfg(test)]
mod tests;
