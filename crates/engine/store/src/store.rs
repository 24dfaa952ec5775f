//! The store: events in, effects out. Each file beneath has one of its concerns:
//!
//! | file | what |
//! | --- | --- |
//! | `io` | device operations under way |
//! | `op` | accepted changes: from request to durable |
//! | `write` | what changes a chunk is checked and put in the order of its chunk |
//! | `leaf` | leaves of the index are read and dropped |
//! | `snapshot` | snapshots are dropped, chunks deleted and cloned |
//! | `merge` | changes are made ready; sub-block writes are merged with what was there |
//! | `roll` | roll-forwards are collected from their parts |
//! | `join`, `mend` | a store is brought up to date, and repaired |
//! | `commit`, `pages` | the changes of a pass become one batch: data and log in parallel |
//! | `durable` | a batch is durable: its changes become visible and are answered |
//! | `read`, `verify`, `list` | reads, and what else asks and changes nothing |
//! | `fence` | fences wait, drain and are logged |
//! | `discard` | the device is told what holds nothing any more |
//! | `trace` | how long answers take, and with what |
//! | `sweep` | chunks that nothing needs any more are dropped |
//! | `space` | what is free, granted and kept back |
//! | `checkpoint` | the whole state goes to the disk while I/O goes on; superblocks |
//! | `mount`, `replay` | superblock, checkpoint, log: the way back |
//! | `check` | what must hold between events, looked at in tests only |

#[cfg(any(test, feature = "planted"))]
mod check;
mod checkpoint;
mod commit;
mod discard;
mod durable;
mod fence;
mod io;
mod join;
mod leaf;
mod list;
mod look;
mod mend;
mod merge;
mod mount;
mod op;
mod pages;
pub(crate) mod read;
mod replay;
mod roll;
mod snapshot;
mod space;
mod sweep;
mod trace;
mod verify;
mod write;

use crate::allocator::{Allocator, Freed, ReadWindow};
use crate::config::Config;
use crate::credits::{AccountId, Credits};
use crate::faults::{self, Fault};
use crate::fences::{Fences, VolumeKey};
use crate::format::record::Fence;
use crate::format::superblock::{Checkpoint, Superblock};
use crate::format::{Geometry, PAGE_BYTES};
use crate::index::Index;
use crate::slot_map::SlotMap;
use crate::status::{Counters, MountReport, State, Status};
use amita_reactor::buggify::{Point, buggify};
use amita_reactor::{BufMut, FileInfo, Pool, Segments, Slice, Time};
use amita_types::message::{Answer, AnswerBody, Refusal, Request, RequestBody};
use amita_types::{ClusterId, Generation, RequestId, StoreId, TraceId};
use std::collections::VecDeque;
use std::collections::vec_deque::Drain;

pub use trace::Times;

/// Who asks: answers and credits go by it. Never reused while the store is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// Names a device operation that the store has asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoId(pub u64);

/// What the owner of a store must do for it.
#[derive(Debug)]
pub enum Effect {
    /// Fill the buffer from `offset` of the store's file; ends in [`Store::read_done`].
    Read {
        /// Comes back.
        io: IoId,
        /// In bytes.
        offset: u64,
        /// To be filled whole.
        buffer: BufMut,
    },
    /// Write the segments, one after the other, from `offset`; ends in [`Store::write_done`].
    Write {
        /// Comes back.
        io: IoId,
        /// In bytes.
        offset: u64,
        /// What to write.
        data: Segments,
    },
    /// Make every completed write durable; ends in [`Store::flush_done`].
    Flush {
        /// Comes back.
        io: IoId,
    },
    /// Tell the device that these bytes are needed no more; what they read as afterwards is undefined. Ends in
    /// [`Store::discard_done`].
    Discard {
        /// Comes back.
        io: IoId,
        /// In bytes.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// Tell the asker.
    Answer {
        /// Who asked.
        link: LinkId,
        /// What to tell.
        answer: Answer,
        /// Goes with it.
        payload: Slice,
    },
}

/// Who asked for something, and as the owner of what.
#[derive(Clone, Copy, Debug)]
struct Asker {
    link: LinkId,
    id: RequestId,
    volume: Option<VolumeKey>,
    generation: Generation,
    received: Time,
    trace: TraceId,
}

/// One disk.
#[derive(Debug)]
pub struct Store {
    config: Config,
    file: FileInfo,
    pool: Pool,
    state: State,
    now: Time,
    effects: VecDeque<Effect>,
    ios: io::Ios,
    flush_failed: bool,

    id: StoreId,
    superblock: Superblock,
    mount: Option<Box<mount::Mount>>,
    report: MountReport,

    index: Index,
    leaf_waits: leaf::LeafWaits,
    /// Which slots are in use, as of what is durable.
    slot_map: SlotMap,
    /// Which slots may be written: not in use, and not just given back.
    allocator: Allocator,
    freed: Freed,
    window: ReadWindow,
    fences: Fences,
    credits: Credits,
    space: space::Space,
    discard: discard::Discards,

    ops: op::Ops,
    rolls: Vec<roll::StagedRoll>,
    resends: Vec<op::Resend>,
    fence_queue: Vec<fence::PendingFence>,
    reads: read::Reads,
    log: commit::Log,
    checkpoint: checkpoint::Writer,
    sweep: sweep::Sweep,
    counters: Counters,
    times: Times,
    /// Of what is being answered.
    course: trace::Course,
}

impl Store {
    /// Starts to mount what is on the file; effects follow. Requests are refused with `Busy` until [`Store::state`] is
    /// [`State::Serving`].
    #[must_use]
    pub fn open(config: Config, file: FileInfo, pool: Pool) -> Store {
        let mut store = Store {
            config,
            file,
            pool,
            state: State::Mounting,
            now: Time::default(),
            effects: VecDeque::new(),
            ios: io::Ios::default(),
            flush_failed: false,
            id: StoreId::default(),
            superblock: no_superblock(),
            mount: None,
            report: MountReport::default(),
            index: Index::default(),
            leaf_waits: leaf::LeafWaits::default(),
            slot_map: SlotMap::default(),
            allocator: Allocator::new(1),
            freed: Freed::default(),
            window: ReadWindow::default(),
            fences: Fences::default(),
            credits: Credits::default(),
            space: space::Space::default(),
            discard: discard::Discards::default(),
            ops: op::Ops::default(),
            rolls: Vec::new(),
            resends: Vec::new(),
            fence_queue: Vec::new(),
            reads: read::Reads::default(),
            log: commit::Log::default(),
            checkpoint: checkpoint::Writer::default(),
            sweep: sweep::Sweep::default(),
            counters: Counters::default(),
            times: Times::default(),
            course: trace::Course::default(),
        };
        store.mount_start();
        store
    }

    /// Mounts what is on the file anew. What was learnt of the file holds on: where it has holes, every write is flushed (rule
    /// D3).
    ///
    /// The links of those who ask stand meanwhile: they are answered in the store's name, and what was answered before leaves.
    pub fn mount_anew(&mut self) {
        let mut anew = Store::open(self.config.clone(), self.file.clone(), self.pool.clone());
        anew.id = self.id;
        let answers = self.effects.drain(..);
        let answers = answers.filter(|effect| matches!(effect, Effect::Answer { .. }));
        let first: VecDeque<Effect> = answers.chain(anew.effects.drain(..)).collect();
        anew.effects = first;
        *self = anew;
    }

    /// A sequencer asks. `payload` is what travels beside the request.
    pub fn request(&mut self, now: Time, link: LinkId, request: Request, payload: Slice) {
        self.now = now;
        let scope = request.scope;
        let mut asker = Asker {
            link,
            id: request.id,
            volume: None,
            generation: scope.generation,
            received: now,
            trace: request.trace,
        };
        let refusal = match self.state {
            State::Serving if request.store == self.id => None,
            State::Serving | State::Refused(_) => Some(Refusal::NoSuchStore),
            State::Mounting => Some(Refusal::Busy),
            State::Poisoned(_) => Some(Refusal::Poisoned),
        };
        if let Some(refusal) = refusal {
            return self.refuse(asker, refusal);
        }
        let room =
            if matches!(request.body, RequestBody::Fence { .. }) && !self.config.faults.has(Fault::FenceWaitsForRoom) {
                // Whoever takes over is let in whatever the old owners ask for: fences have room of their own.
                self.fence_queue.len() < self.config.max_requests
            } else {
                self.waiting_requests() < self.config.max_requests
            };
        if !room || buggify(Point::StoreBusy) {
            return self.refuse(asker, Refusal::Busy);
        }
        if let RequestBody::Fence {
            owner,
            in_sync,
            syncing,
            blocks_per_chunk,
            given_back,
        } = request.body
        {
            let fence = Fence {
                volume: scope.volume,
                generation: scope.generation,
                owner,
                group: scope.group,
                epoch: scope.epoch,
                blocks_per_chunk,
                in_sync: in_sync.into_iter().collect(),
                syncing: syncing.into_iter().collect(),
            };
            return self.fence(asker, fence, given_back);
        }
        let scope = faults::let_in(self.config.faults, &self.fences, scope);
        let right = match self.fences.check(&scope) {
            Ok(right) => right,
            Err(refusal) => return self.refuse(asker, refusal),
        };
        asker.volume = Some(right.volume);
        let account = AccountId::new(link, request.id);
        let ended = self.credits.open(account, scope.volume, scope.generation);
        self.linger(ended);
        self.dispatch(asker, &scope, right, request.body, payload);
    }

    /// The asker is gone: its credits return, after a while (rule R7). What it asked for goes on.
    pub fn link_closed(&mut self, now: Time, link: LinkId) {
        self.now = now;
        let in_flight = self.credits.close(link);
        self.linger(in_flight);
        self.drop_staged_of(link);
        self.forget_fence_askers(link);
    }

    /// The pass ends: what was accepted in it goes to the disk as one batch, and a checkpoint that is under way gets
    /// on by a step.
    pub fn end_pass(&mut self, now: Time) {
        self.now = now;
        match self.state {
            State::Serving => {
                self.advance_fences();
                self.sweep_step();
                self.commit();
                self.checkpoint_step();
                self.evict_leaves();
                self.index.listings.drop_old(self.now);
                self.discard_step();
                self.flush_step();
            }
            State::Mounting => self.mount_read_again(),
            State::Refused(_) | State::Poisoned(_) => {}
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Time) {
        self.end_pass(now);
    }

    /// When [`Store::tick`] is to be called next; `None`: only when something happens.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let deadlines = [
            self.fence_deadline(),
            self.mark_deadline(),
            self.sweep_deadline(),
            self.mount_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    fn waiting_requests(&self) -> usize {
        self.ops.len() + self.resends.len() + self.reads.len() + self.leaf_waits.reads + self.fence_queue.len()
    }

    /// Memory for what makes room again (a batch, a merge, a checkpoint): where the pool has none left, the heap helps
    /// out, because writes that hold memory become durable only by taking some. The limits on batches bound it.
    fn take_surely(&self, bytes: usize) -> BufMut {
        let buffer = self.pool.take(bytes).or_else(|| Pool::heap().take(bytes));
        buffer.expect("the heap has no bound")
    }

    /// Is it served?
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The number of this mount, once it serves: it goes up with each, and is on the disk before anything else is written.
    #[must_use]
    pub fn mount_number(&self) -> u64 {
        self.superblock.mount
    }

    /// Its figures.
    #[must_use]
    pub fn status(&self) -> Status {
        let geometry = &self.superblock.geometry;
        let page = PAGE_BYTES as u64;
        Status {
            id: self.id,
            cluster: self.superblock.cluster,
            size_bytes: geometry.size_bytes,
            capacity_bytes: geometry.capacity_bytes(),
            free_bytes: (u64::from(self.allocator.free() + self.freed.slots())
                + self.checkpoint.retired()
                + self.discarding())
                * page,
            log_pages: geometry.log_pages,
            log_pages_used: self.log.next - self.log.tail,
            chunks: self.index.len() as u64,
            blocks: self.slot_map.count() - self.index.pages(),
            index_bytes: self.index.memory_bytes() + self.slot_map.memory_bytes() + self.allocator.memory_bytes(),
            leaf_bytes: self.index.leaf_bytes(),
            leaf_pages: self.index.pages(),
            credits_granted: self.credits.granted(),
            mount: self.report,
            counters: self.counters,
        }
    }

    /// What is to be done, in order.
    pub fn effects(&mut self) -> Drain<'_, Effect> {
        self.effects.drain(..)
    }

    fn answer(&mut self, asker: Asker, body: AnswerBody, payload: Slice) {
        // Who writes is topped up. What came with the answers to reads would lie idle, and be given back each time.
        let credit_blocks = match body {
            AnswerBody::Done | AnswerBody::Fenced => self.grant(&asker, 0),
            _ => 0,
        };
        self.answer_granting(asker, body, payload, credit_blocks);
    }

    fn answer_granting(&mut self, asker: Asker, body: AnswerBody, payload: Slice, credit_blocks: u32) {
        let promise_ms = match asker.volume {
            Some(_) if buggify(Point::NoPromise) => 0,
            Some(volume) => self
                .fences
                .promise(volume, asker.generation, self.now, self.config.promise),
            None => 0,
        };
        self.push_answer(asker, promise_ms, credit_blocks, Ok(body), payload);
    }

    fn refuse(&mut self, asker: Asker, refusal: Refusal) {
        self.counters.refused += 1;
        self.push_answer(asker, 0, 0, Err(refusal), Slice::default());
    }

    fn push_answer(
        &mut self,
        asker: Asker,
        promise_ms: u16,
        credit_blocks: u32,
        result: Result<AnswerBody, Refusal>,
        payload: Slice,
    ) {
        let trace = self.time_answer(&asker, &result);
        let answer = Answer {
            id: asker.id,
            store: self.id,
            promise_ms,
            credit_blocks,
            trace,
            result,
        };
        self.effects.push_back(Effect::Answer {
            link: asker.link,
            answer,
            payload,
        });
    }

    /// After an I/O error of unknown outcome nothing that is in memory can be trusted to be on the disk: everything is
    /// refused until the store is mounted anew.
    fn poison(&mut self, why: String) {
        if !matches!(self.state, State::Serving) {
            return;
        }
        self.state = State::Poisoned(why);
        let mut askers: Vec<Asker> = self.ops.drain().filter_map(|op| op.asker).collect();
        askers.extend(self.resends.drain(..).map(|resend| resend.asker));
        askers.extend(self.reads.drain());
        askers.extend(self.leaf_waits.drain().iter().map(|read| read.asker));
        askers.extend(self.fence_queue.drain(..).filter_map(|pending| pending.asker));
        self.rolls.clear();
        self.sweep = sweep::Sweep::default();
        self.log.abandon();
        for asker in askers {
            self.refuse(asker, Refusal::Poisoned);
        }
    }
}

/// What stands in the superblock's place until one has been read.
fn no_superblock() -> Superblock {
    Superblock {
        generation: 0,
        store: StoreId(0),
        cluster: ClusterId(0),
        geometry: Geometry {
            size_bytes: 0,
            log_offset: 0,
            log_pages: 0,
            checkpoint_offsets: [0, 0],
            checkpoint_pages: 0,
            slots_offset: 0,
            slots: 0,
        },
        checkpoint: Checkpoint {
            area: 0,
            id: 0,
            pages: 0,
            last_sum: 0,
            tail: 0,
            tail_sum: 0,
        },
        mount: 0,
        mount_start: 0,
    }
}
