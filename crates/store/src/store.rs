//! The store: events in, effects out.

use crate::config::Config;
use crate::status::{Counters, MountReport, State, Status};
use amita_cluster::message::{Answer, Refusal, Request};
use amita_cluster::{ClusterId, StoreId};
use amita_reactor::{BufMut, FileInfo, Pool, Segments, Slice, Time};
use std::collections::VecDeque;
use std::collections::vec_deque::Drain;
use std::io;

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

/// One disk.
pub struct Store {
    state: State,
    effects: VecDeque<Effect>,
    _config: Config,
    _file: FileInfo,
    _pool: Pool,
}

impl Store {
    /// Starts to mount what is on the file; effects follow.
    #[must_use]
    pub fn open(config: Config, file: FileInfo, pool: Pool) -> Store {
        Store {
            state: State::Mounting,
            effects: VecDeque::new(),
            _config: config,
            _file: file,
            _pool: pool,
        }
    }

    /// A sequencer asks.
    pub fn request(&mut self, _now: Time, link: LinkId, request: Request, _payload: Slice) {
        self.effects.push_back(Effect::Answer {
            link,
            answer: Answer {
                id: request.id,
                store: request.store,
                promise_ms: 0,
                credit_blocks: 0,
                result: Err(Refusal::Busy),
            },
            payload: Slice::default(),
        });
    }

    /// The asker is gone: its credits return.
    pub fn link_closed(&mut self, _now: Time, _link: LinkId) {}

    /// A read ended.
    pub fn read_done(&mut self, _now: Time, _io: IoId, _buffer: BufMut, _result: io::Result<()>) {}

    /// A write ended.
    pub fn write_done(&mut self, _now: Time, _io: IoId, _data: Segments, _result: io::Result<()>) {}

    /// A flush ended.
    pub fn flush_done(&mut self, _now: Time, _io: IoId, _result: io::Result<()>) {}

    /// The pass ends: what was accepted goes to the disk.
    pub fn end_pass(&mut self, _now: Time) {}

    /// Time has passed.
    pub fn tick(&mut self, _now: Time) {}

    /// When [`Store::tick`] is to be called next.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        None
    }

    /// Is it served?
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Its figures.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            id: StoreId(0),
            cluster: ClusterId(0),
            size_bytes: 0,
            capacity_bytes: 0,
            free_bytes: 0,
            log_pages: 0,
            log_pages_used: 0,
            chunks: 0,
            blocks: 0,
            index_bytes: 0,
            credits_granted: 0,
            mount: MountReport::default(),
            counters: Counters::default(),
        }
    }

    /// What is to be done, in order.
    pub fn effects(&mut self) -> Drain<'_, Effect> {
        self.effects.drain(..)
    }
}
