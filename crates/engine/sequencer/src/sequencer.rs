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
//! * `write`, `read`: the life of an I/O; `pipeline`: whose turn it is in a chunk; `resend`: what members have not got.
//! * `sync`, `join`, `mend`: members that have missed something are brought up to date; `progress`: how far they have come.
//! * `catch_up`: a member whose block has rotted under a write of a part of it.
//! * `care`: clients are spared, and slow stores noticed.
//! * `scrub`: copies are looked at, and damaged blocks repaired.
//! * `store`: links, silence, promises; `credits`: what stores have granted.
//! * `metadata`: evictions, and reading records back.
//! * `answer`, `exchange`: what comes in is sorted out; what goes out is counted until it is answered.
//! * `faults`: what is done wrong where a rule is switched off.
//! * `state`, `status`: what is known of stores, groups and chunks; what an operator sees.

mod answer;
mod care;
mod catch_up;
mod exchange;
mod faults;
mod group;
mod join;
mod mend;
mod metadata;
mod open;
mod pipeline;
mod progress;
mod read;
mod resend;
mod roll;
mod scrub;
mod state;
mod status;
mod store;
mod submit;
mod sync;
mod write;

pub use progress::SyncProgress;
pub use status::{Counters, Status};

use crate::config::Config;
use crate::io::{CallId, Course, Effect, Opened, StopReason};
use crate::members::{ByPosition, Members, Position, Seats};
use crate::table::{ChunkSlot, GroupSlot, StoreSlot, Table, TaskSlot};
use crate::task::{Kind, Tasks};
use amita_reactor::buggify::{Point, buggify};
use amita_reactor::{Slice, Time};
use amita_types::io::{IoError, Payload};
use amita_types::map::{self, PoolKind};
use amita_types::{BLOCK_BYTES, ChunkIndex, Epoch, GroupId, StoreId};
use rustc_hash::FxHashMap;
use state::{Ask, Chunk, Group, Store};
use std::collections::vec_deque::Drain;
use std::collections::{BTreeSet, VecDeque};

/// The sequencer. See the module.
#[derive(Debug)]
pub struct Sequencer {
    config: Config,
    volume: map::Volume,
    volume_revision: u64,
    owner: amita_types::NodeId,
    generation: amita_types::Generation,
    /// The generation before ours, if its owner has handed the volume over (R4).
    given_back: Option<amita_types::Generation>,
    pool: map::Pool,
    chunk_bytes: u32,
    blocks_per_chunk: u16,
    min_copies: usize,
    id_base: u64,
    stores: Table<StoreSlot, Store>,
    store_index: FxHashMap<StoreId, StoreSlot>,
    groups: Table<GroupSlot, Group>,
    /// Groups that were touched, in order.
    touched: Vec<GroupSlot>,
    chunks: Table<ChunkSlot, Chunk>,
    chunk_index: FxHashMap<ChunkIndex, ChunkSlot>,
    tasks: Tasks,
    /// I/Os that were submitted and have not ended.
    ios: usize,
    /// Payload bytes of writes without an acknowledgement.
    bytes: u64,
    /// Chunks whose queues could not be emptied; looked at again when something has changed.
    blocked: VecDeque<ChunkSlot>,
    retry_blocked: bool,
    /// Openings under way, and the groups with chunks that wait until one of them has ended.
    openings: usize,
    starved: VecDeque<GroupSlot>,
    /// Reads that have their answer and lack promises.
    unpromised: Vec<TaskSlot>,
    /// Groups with members to be brought up to date, which must be touched for it.
    to_touch: Vec<GroupSlot>,
    /// Groups in which writes wait because too few members are left.
    stuck: BTreeSet<GroupSlot>,
    silence: store::Silence,
    syncs: sync::Syncs,
    scrubs: scrub::Scrubs,
    care: crate::health::Care,
    /// When stores are asked again for credits that they did not have.
    settle_again: Time,
    /// Before that no store has credits that have not been used for a while.
    credits_due: Time,
    /// Members that are left alone until then.
    pauses: Vec<(Time, GroupSlot, Position)>,
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
    /// The volume has grown to this size, as its record says; it never shrinks.
    pub fn resized(&mut self, size_bytes: u64) {
        self.volume.size_bytes = size_bytes.max(self.volume.size_bytes);
    }

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
            given_back: opened.given_back,
            pool: opened.pool,
            id_base,
            stores: Table::new(),
            store_index: FxHashMap::default(),
            groups: Table::new(),
            touched: Vec::new(),
            chunks: Table::new(),
            chunk_index: FxHashMap::default(),
            tasks: Tasks::new(id_base),
            ios: 0,
            bytes: 0,
            blocked: VecDeque::new(),
            retry_blocked: false,
            openings: 0,
            starved: VecDeque::new(),
            unpromised: Vec::new(),
            to_touch: Vec::new(),
            stuck: BTreeSet::new(),
            silence: store::Silence::default(),
            syncs: sync::Syncs::default(),
            scrubs: scrub::Scrubs::default(),
            care: crate::health::Care::new(&amita_types::recovery::Recovery::default(), 1),
            settle_again: NEVER,
            credits_due: NEVER,
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
        let members: Seats = record.in_sync.iter().map(|&id| self.store_number(now, id)).collect();
        let group = self.groups.push(Group {
            id: GroupId {
                pool: self.pool.id,
                index: record.index,
            },
            current: Members::first(members.len()),
            syncing: Members::NONE,
            since: ByPosition::filled(Epoch(0)),
            entered: Members::NONE,
            whole: Members::NONE,
            members,
            record,
            revision,
            ready: Members::NONE,
            to_evict: Members::NONE,
            paused: Members::NONE,
            missed: Members::NONE,
            touched: false,
            hinted: false,
            reread: false,
            rereading: false,
            in_doubt: false,
            fence: None,
            opening: Vec::new(),
            waiting: VecDeque::new(),
            starved: false,
            opens: false,
            busy: Vec::new(),
            chunks: Vec::new(),
        });
        self.count_behind(now, group, true);
        if !self.groups[group].record.syncing.is_empty() {
            self.seat_newcomers(now, group);
            self.to_touch.push(group);
            self.arm(now);
        }
    }

    fn store_number(&mut self, now: Time, id: StoreId) -> StoreSlot {
        if let Some(&number) = self.store_index.get(&id) {
            return number;
        }
        let number = self.stores.push(Store {
            id,
            local: self.config.local_stores.contains(&id),
            up: false,
            lost: false,
            lost_at: now,
            unfit: false,
            awaited: 0,
            via: None,
            owes: false,
            missed: 0,
            behind_in: 0,
            writes: 0,
            bytes: 0,
            heard: now,
            poisoned: false,
            refusing: false,
            worked: false,
            served: Time(0),
            owes_since: now,
            look_at: now.plus(self.config.store_timeout),
            stuck: false,
            credit: 0,
            in_doubt: Vec::new(),
            promise_until: Time(0),
            promise: std::time::Duration::ZERO,
            confirmed: Time(0),
            watch: self.care.health().number(id),
            charged_at: now,
            confirm: None,
            confirm_at: Time(0),
            idle_since: NEVER,
            settle: None,
            asked: Ask { at: Time(0), want: 0 },
            answered: None,
            full: None,
        });
        self.store_index.insert(id, number);
        number
    }

    /// The volume's id.
    #[must_use]
    pub fn volume(&self) -> amita_types::VolumeId {
        self.volume.id
    }

    /// The volume's name.
    #[must_use]
    pub fn volume_name(&self) -> &str {
        &self.volume.name
    }

    #[cfg(test)]
    pub(crate) fn core(&self) -> u16 {
        self.config.core
    }

    /// Our generation.
    #[must_use]
    pub fn generation(&self) -> amita_types::Generation {
        self.generation
    }

    /// The stores that it knows of: those that hold the volume, and others that it has heard of.
    pub fn store_ids(&self) -> impl Iterator<Item = StoreId> + '_ {
        self.stores.iter().map(|store| store.id)
    }

    /// Has every I/O ended?
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.ios == 0
    }

    /// Is nothing under way at all: no I/O, no fence, no opening, no answer that is owed, no call to the metadata?
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.stopped || (self.tasks.len() == 0 && self.metadata.is_quiet())
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
        Status {
            stopped: self.stopped,
            ios: self.ios,
            chunks: self.chunks.len(),
            stuck_groups: self.stuck.iter().map(|&group| self.groups[group].id).collect(),
            syncs: self.progress(NEVER).collect(),
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

    fn arm(&mut self, at: Time) {
        self.wake = self.wake.min(at);
    }

    fn done(&mut self, io: crate::io::IoId, result: Result<(), IoError>, payload: Payload, course: Course) {
        assert!(self.ios > 0, "every I/O ends once");
        self.ios -= 1;
        self.effects.push_back(Effect::Done {
            io,
            result,
            payload,
            course,
        });
    }

    /// When a task passed which step.
    fn course(&self, slot: TaskSlot) -> Course {
        let task = &self.tasks[slot];
        let store = |number: Option<StoreSlot>| number.map(|number| self.stores[number].id);
        let (answered, last) = task.answered;
        Course {
            sent: task.first_sent,
            answered,
            last: store(last),
            missed: store(task.missed),
        }
    }

    /// Every event ends here: what has become possible is done.
    fn finish(&mut self, now: Time) {
        self.go_on(now);
        self.look_over();
    }

    fn go_on(&mut self, now: Time) {
        if self.stopped {
            return;
        }
        self.recheck_promises(now);
        self.advance_background(now);
        self.retry_openings(now);
        self.retry_blocked(now);
        if buggify(Point::Reread)
            && let Some(&group) = self.touched.first()
        {
            self.reread(group);
        }
        self.reconfigure(now);
    }

    fn look_over(&self) {
        #[cfg(test)]
        if self.tasks.len() < 3000 && self.groups.len() + self.chunks.len() < 500 {
            crate::table::without_counting(|| self.check());
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
                store.owes_since = now;
                if store.idle_since != NEVER {
                    store.idle_since = store.idle_since.plus(late).min(now);
                }
            }
        }
        self.wake = NEVER;
        self.end_pauses(now);
        self.hedge(now);
        self.listen_for_silence(now);
        if now >= self.settle_again {
            self.settle_again = NEVER;
            self.retry_blocked = true;
        }
        self.return_credits(now);
        self.go_on(now);
        if !self.stopped {
            self.arm_again(now);
        }
        self.look_over();
    }

    /// Sets the next moment at which something is due.
    fn arm_again(&mut self, now: Time) {
        if let Some(slot) = self.tasks.oldest() {
            self.arm(self.tasks[slot].asked_at.plus(self.hedge_after()));
        }
        self.arm(self.due());
        self.arm_silence(now);
    }

    /// The next moment at which something is due, besides looking for members that are slow or silent.
    fn due(&self) -> Time {
        let pauses = self.pauses.iter().map(|&(at, ..)| at);
        let asked = [self.metadata.due(), self.sync_due()].into_iter().flatten();
        asked
            .chain(pauses)
            .fold(self.settle_again.min(self.credits_due), Time::min)
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
                let course = self.course(slot);
                self.done(io, Err(IoError::Lost), Payload::None, course);
            }
        }
        assert_eq!(self.ios, 0, "every I/O ends once");
        self.effects.push_back(Effect::Stop { reason });
    }
}

/// The id of the next call to the metadata.
fn call_id(id_base: u64, count: u64) -> CallId {
    CallId(id_base | count & ((1 << crate::task::ID_BITS) - 1))
}

#[cfg(any(test, feature = "planted"))]
mod check;
mod compare;
mod credits;
#[cfg(test)]
mod tests;
