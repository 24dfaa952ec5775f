//! The store: events in, effects out.
//!
//! [`Store`] owns its parts, and has the events and queries (here, `io`, `look`); each part owns what needs it alone:
//! the log, the writer of checkpoints, the changes under way, the index, the fences, the credits. What needs several of
//! them is a function of a module beneath, which has one of the store's concerns:
//!
//! | module | what |
//! | --- | --- |
//! | `env` | what surrounds the decisions: time, device, memory, effects, figures |
//! | `io` | device operations under way, and what their end means |
//! | `request`, `answer` | who asks is let in; what is answered, with leases and credits |
//! | `change` | what a change changes, by its kind |
//! | `op` | accepted changes, from request to durable; what waits to become one |
//! | `write` | what changes a chunk is checked: does it follow the last change? |
//! | `queue` | the changes of a chunk, in their order (the list is kept by `op`), are made ready to be logged |
//! | `leaves` | leaves of the index are read and dropped |
//! | `snapshot` | snapshots are dropped, chunks deleted and cloned |
//! | `merge` | sub-block writes are merged with what was there |
//! | `roll` | roll-forwards are collected from their parts |
//! | `join`, `mend` | a store is brought up to date, and repaired |
//! | `restore` | what has rotted is replaced where it lies |
//! | `commit`, `pages` | the changes of a pass become one batch: data and log in parallel |
//! | `log` | how far the log is written, applied and verified; batches under way |
//! | `durable` | a batch is durable: its changes become visible and are answered |
//! | `read`, `verify`, `list` | reads, and what else asks and changes nothing |
//! | `blocks` | blocks are read from the device and checked |
//! | `fence` | fences wait, drain and are logged |
//! | `discard` | the device is told what holds nothing any more |
//! | `trace` | how long answers take, and with what |
//! | `sweep` | chunks that nothing needs any more are dropped |
//! | `count` | what volumes and snapshots hold is counted for who asks |
//! | `space` | what is free, granted and kept back |
//! | `checkpoint` | the whole state goes to the disk while I/O goes on |
//! | `superblocks` | one of the two is whole at any moment |
//! | `mount`, `replay` | superblock, checkpoint, log: the way back |
//! | `look` | what others ask of a store, the offline tools among them |
//! | `check` | what must hold between events, looked at in tests only |

mod answer;
pub(crate) mod blocks;
mod change;
#[cfg(any(test, feature = "planted"))]
mod check;
mod checkpoint;
mod commit;
mod count;
mod differ;
mod discard;
mod durable;
mod env;
mod fence;
mod inherit;
mod io;
mod join;
mod leaves;
mod list;
mod log;
mod look;
mod mend;
mod merge;
mod mount;
mod op;
mod pages;
mod queue;
mod read;
mod replay;
mod request;
mod restore;
mod roll;
mod snapshot;
mod space;
mod states;
mod superblocks;
mod sweep;
mod trace;
mod verify;
mod write;

use crate::config::Config;
use crate::fences::{Fences, VolumeKey};
use crate::format::superblock::{Checkpoint, Superblock};
use crate::format::{Geometry, PAGE_BYTES};
use crate::index::Index;
use crate::status::{MountReport, State, Status};
use amita_reactor::{BufMut, FileInfo, Pool, Segments, Slice, Time};
use amita_types::holdings::Holdings;
use amita_types::message::{Answer, Refusal, Request};
use amita_types::{ClusterId, Generation, NodeId, RequestId, StoreId, TraceId};
use std::collections::VecDeque;
use std::collections::vec_deque::Drain;
use std::sync::Arc;

pub use count::{AskedVolume, Count, Question, VolumeFigures};
pub use trace::Times;

use env::Env;
use space::Space;

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
struct Requester {
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
    state: State,
    /// Time, device, memory, what is to be done, and figures.
    env: Env,
    superblock: Superblock,
    /// The way back, until the store serves.
    mount: Option<Box<mount::Mount>>,
    report: MountReport,
    /// What is durable, chunk by chunk.
    index: Index,
    leaf_waits: leaves::LeafWaits,
    /// Whose the slots are.
    space: Space,
    /// Whose the volumes and groups are.
    fences: Fences,
    /// What was accepted, and is not durable.
    ops: op::Ops,
    reads: read::Reads,
    restores: restore::Restores,
    log: log::Log,
    checkpoint: checkpoint::Writer,
    sweep: sweep::Sweep,
    counts: count::Counts,
}

impl Store {
    /// Starts to mount what is on the file; effects follow. Requests are refused with `Busy` until [`Store::state`] is
    /// [`State::Serving`].
    #[must_use]
    pub fn open(config: Config, file: FileInfo, pool: Pool) -> Store {
        let mut store = Store {
            config,
            state: State::Mounting,
            env: Env::new(file, pool),
            superblock: no_superblock(),
            mount: None,
            report: MountReport::default(),
            index: Index::default(),
            leaf_waits: leaves::LeafWaits::default(),
            space: Space::default(),
            fences: Fences::default(),
            ops: op::Ops::default(),
            reads: read::Reads::default(),
            restores: restore::Restores::default(),
            log: log::Log::default(),
            checkpoint: checkpoint::Writer::default(),
            sweep: sweep::Sweep::default(),
            counts: count::Counts::default(),
        };
        mount::start(&mut store);
        store
    }

    /// Mounts what is on the file anew. What was learnt of the file holds on: where it has holes, every write is
    /// flushed (rule D3).
    ///
    /// The links of those who ask stand meanwhile: they are answered in the store's name, and what was answered before
    /// leaves.
    pub fn mount_anew(&mut self) {
        let mut anew = Store::open(self.config.clone(), self.env.file.clone(), self.env.pool.clone());
        anew.env.id = self.env.id;
        let answers = self.env.effects.drain(..);
        let answers = answers.filter(|effect| matches!(effect, Effect::Answer { .. }));
        let first: VecDeque<Effect> = answers.chain(anew.env.effects.drain(..)).collect();
        anew.env.effects = first;
        *self = anew;
    }

    /// A sequencer asks. `payload` is what travels beside the request. Whoever calls vouches for the asker; what comes from
    /// other nodes comes by [`Store::request_from`].
    pub fn request(&mut self, now: Time, link: LinkId, request: Request, payload: Slice) {
        self.env.now = now;
        request::take(self, None, link, request, payload);
    }

    /// A sequencer of this node asks: it is heard as the owner of the volume, and as nobody else (rule R14).
    pub fn request_from(&mut self, now: Time, from: NodeId, link: LinkId, request: Request, payload: Slice) {
        self.env.now = now;
        request::take(self, Some(from), link, request, payload);
    }

    /// The asker is gone: its credits return, after a while (rule R7). What it asked for goes on.
    pub fn link_closed(&mut self, now: Time, link: LinkId) {
        self.env.now = now;
        let in_flight = self.space.credits.close(link);
        space::linger(self, in_flight);
        self.ops.rolls.drop_of_link(link);
        self.ops.forget_fence_askers(link);
    }

    /// What the metadata says that stores may hold: what nothing needs any more is dropped from now on. `None`: the
    /// metadata is not to be believed at present, and nothing is dropped on its word.
    pub fn sweep(&mut self, now: Time, holdings: Option<Arc<Holdings>>) {
        self.env.now = now;
        sweep::begin(self, holdings);
    }

    /// Counts what volumes and their snapshots hold, in steps beside everything else; is to be asked again, with the same question,
    /// until it is done.
    pub fn count(&mut self, now: Time, question: &Arc<Question>) -> Count {
        self.env.now = now;
        count::ask(self, question)
    }

    /// The pass ends: what was accepted in it goes to the disk as one batch, and a checkpoint that is under way gets
    /// on by a step.
    pub fn end_pass(&mut self, now: Time) {
        self.env.now = now;
        match self.state {
            State::Serving => {
                fence::advance(self);
                sweep::step(self);
                count::step(self);
                commit::run(self);
                checkpoint::step(self);
                leaves::evict(&self.config, &mut self.index, &self.space);
                self.index.listings.drop_old(self.env.now);
                discard::step(self);
                self.log.flush(&mut self.env);
            }
            State::Mounting => mount::go_on(self, |mount, store| {
                mount.read_again_due(store);
                Ok(())
            }),
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
        let serving = matches!(self.state, State::Serving);
        let of_service = [
            self.log.mark_deadline(self.config.idle_mark_after),
            self.sweep.deadline(),
            self.counts.deadline(),
        ];
        let others = [
            self.ops.fence_deadline(),
            self.mount.as_ref().and_then(|mount| mount.deadline()),
        ];
        let of_service = of_service.into_iter().filter(|_| serving);
        of_service.chain(others).flatten().min()
    }

    fn waiting_requests(&self) -> usize {
        self.ops.len()
            + self.ops.resends.len()
            + self.reads.len()
            + self.restores.len()
            + self.leaf_waits.reads
            + self.ops.fences.len()
    }

    /// Is it served?
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The number of this mount, once it serves: it goes up with each, and is on the disk before anything else is
    /// written.
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
            id: self.env.id,
            cluster: self.superblock.cluster,
            size_bytes: geometry.size_bytes,
            capacity_bytes: geometry.capacity_bytes(),
            free_bytes: (u64::from(self.space.allocator.free() + self.space.freed.slots())
                + self.checkpoint.retired()
                + self.space.discards.slots(self.config.faults))
                * page,
            log_pages: geometry.log_pages,
            log_pages_used: self.log.pages_used(),
            chunks: self.index.len() as u64,
            blocks: self.space.map.count() - self.index.pages(),
            index_bytes: self.index.memory_bytes()
                + self.space.map.memory_bytes()
                + self.space.allocator.memory_bytes(),
            index_limit_bytes: self.config.index_bytes,
            leaf_bytes: self.index.leaf_bytes(),
            leaf_pages: self.index.pages(),
            credits_granted: self.space.credits.granted(),
            mount: self.report,
            counters: self.env.counters,
        }
    }

    /// What is to be done, in order.
    pub fn effects(&mut self) -> Drain<'_, Effect> {
        self.env.effects.drain(..)
    }

    /// After an I/O error of unknown outcome nothing that is in memory can be trusted to be on the disk: everything is
    /// refused until the store is mounted anew.
    fn poison(&mut self, why: String) {
        if !matches!(self.state, State::Serving) {
            return;
        }
        self.state = State::Poisoned(why);
        let mut askers: Vec<Requester> = self.ops.drain().filter_map(|op| op.asker).collect();
        askers.extend(self.ops.resends.drain(..).map(|resend| resend.asker));
        askers.extend(self.reads.drain());
        askers.extend(self.restores.drain());
        askers.extend(self.leaf_waits.drain().iter().map(|read| read.asker));
        askers.extend(self.ops.fences.drain(..).filter_map(|pending| pending.asker));
        self.ops.rolls.clear();
        self.sweep = sweep::Sweep::default();
        self.counts = count::Counts::default();
        self.log.abandon();
        for asker in askers {
            self.env.refuse(asker, Refusal::Poisoned);
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
