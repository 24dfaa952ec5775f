//! Device operations under way: what their end means.

use super::{IoId, Store, blocks, checkpoint, count, discard, durable, leaves, merge, mount, restore};
use crate::index::OpSlot;
use amita_reactor::{BufMut, Segments, Time};
use std::io;
use std::time::Duration;

/// What an operation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Io {
    /// A part of a batch: data or log.
    Batch {
        batch: u64,
        log: bool,
    },
    /// The flush that batches share.
    Flush,
    /// A part of a read.
    Read {
        read: u32,
        part: u32,
    },
    /// One block of a part that could not be read as a whole.
    Probe {
        read: u32,
        part: u32,
        n: u32,
    },
    /// A block that a sub-block write is merged with.
    Base {
        op: OpSlot,
        which: usize,
        window: u64,
    },
    Leaf {
        mem: u32,
    },
    /// A leaf, for who counts.
    Count {
        walk: u64,
    },
    /// What has rotted is looked at, or replaced.
    Restore {
        at: u32,
    },
    /// The flush after it.
    RestoreFlush {
        at: u32,
    },
    /// A part of a checkpoint.
    Checkpoint,
    /// The flush between a checkpoint and its superblock.
    CheckpointFlush,
    Superblock,
    /// The flush after it.
    SuperblockFlush,
    /// A read of the mount.
    Mount,
    /// The flush before the mount's superblocks.
    MountFlush,
    /// Slots that hold nothing.
    Discard,
}

/// All operations under way.
#[derive(Debug, Default)]
pub(super) struct Ios {
    /// The count tells a place's operations apart. It has 16 bits, so that an id fits the 48 bits that a token has for
    /// it; an id comes back exactly once, so a count that starts over cannot be mistaken.
    places: Vec<Place>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place {
    count: u16,
    kind: Option<Io>,
    /// When it was started.
    started: Time,
}

impl Ios {
    pub fn begin(&mut self, now: Time, io: Io) -> IoId {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place {
                count: 0,
                kind: None,
                started: now,
            });
            self.places.len() as u32 - 1
        });
        let it = &mut self.places[place as usize];
        it.count = it.count.wrapping_add(1);
        it.kind = Some(io);
        it.started = now;
        IoId(u64::from(it.count) << 32 | u64::from(place))
    }

    /// When the oldest of those under way was started.
    pub fn oldest(&self) -> Option<Time> {
        let under_way = self.places.iter().filter(|place| place.kind.is_some());
        under_way.map(|place| place.started).min()
    }

    /// Ends one; `None` when there is no such operation under way.
    pub fn end(&mut self, id: IoId) -> Option<Io> {
        let place = id.0 as u32;
        let it = self.places.get_mut(place as usize)?;
        if u64::from(it.count) != id.0 >> 32 {
            return None;
        }
        let io = it.kind.take()?;
        self.free.push(place);
        Some(io)
    }
}

impl Store {
    /// A read ended.
    pub fn read_done(&mut self, now: Time, io: IoId, buffer: BufMut, result: io::Result<()>) {
        self.env.now = now;
        match self.env.ios.end(io) {
            Some(Io::Read { read, part }) => blocks::part_done(self, read, part, buffer, result),
            Some(Io::Probe { read, part, n }) => blocks::probe_done(self, read, part, n, &buffer, result),
            Some(Io::Base { op, which, window }) => merge::base_done(self, op, which, window, buffer, result),
            Some(Io::Leaf { mem }) if self.mount.is_some() => {
                mount::go_on(self, |mount, store| mount.leaf_read(store, mem, &buffer, &result));
            }
            Some(Io::Leaf { mem }) => leaves::read_done(self, mem, &buffer, &result),
            Some(Io::Restore { at }) => restore::looked(self, at, buffer, &result),
            Some(Io::Count { walk }) => count::read_done(self, walk, &buffer, &result),
            Some(Io::Mount) => mount::go_on(self, |mount, store| mount.read_done(store, buffer, result)),
            other => debug_assert!(false, "a read ended that was {other:?}"),
        }
    }

    /// A write ended.
    pub fn write_done(&mut self, now: Time, io: IoId, data: Segments, result: io::Result<()>) {
        self.env.now = now;
        self.log.spare.recycle(data);
        let io = self.env.ios.end(io);
        // What it should have replaced was no block's content before, nor is it now.
        if let Some(Io::Restore { at }) = io {
            return restore::written(self, at, result.is_ok());
        }
        if let Err(error) = result {
            return self.device_failed("a write", &error);
        }
        match io {
            Some(Io::Batch { batch, log }) => durable::written(self, batch, log),
            Some(Io::Checkpoint) => checkpoint::written(self),
            Some(Io::Superblock) => checkpoint::superblock_written(self),
            other => debug_assert!(false, "a write ended that was {other:?}"),
        }
    }

    /// A flush ended.
    pub fn flush_done(&mut self, now: Time, io: IoId, result: io::Result<()>) {
        self.env.now = now;
        let io = self.env.ios.end(io);
        if let Err(error) = result {
            self.env.flush_failed = true;
            return self.device_failed("a flush", &error);
        }
        match io {
            Some(Io::Flush) => durable::flushed(self),
            Some(Io::RestoreFlush { at }) => restore::flushed(self, at),
            Some(Io::CheckpointFlush) => checkpoint::flushed(self),
            Some(Io::SuperblockFlush) => checkpoint::superblock_flushed(self),
            Some(Io::MountFlush) => mount::go_on(self, |mount, store| {
                mount.flushed(store);
                Ok(())
            }),
            other => debug_assert!(false, "a flush ended that was {other:?}"),
        }
    }

    /// A discard ended.
    pub fn discard_done(&mut self, now: Time, io: IoId, result: &io::Result<()>) {
        self.env.now = now;
        match self.env.ios.end(io) {
            Some(Io::Discard) => discard::ended(self, result),
            other => debug_assert!(false, "a discard ended that was {other:?}"),
        }
    }

    fn device_failed(&mut self, what: &str, error: &io::Error) {
        if self.mount.is_some() {
            mount::go_on(self, |mount, _| Err(mount.device_failed(what, error)));
        } else {
            self.poison(format!(
                "{what} failed ({error}), so it is not known what the device holds; \
                 the store serves nothing until it is mounted anew"
            ));
        }
    }

    /// Has a flush failed? What it should have made durable may be read and be lost all the same (Linux keeps what it could
    /// not write as if it were written), so nobody can tell by reading what the device holds.
    #[must_use]
    pub fn flush_failed(&self) -> bool {
        self.env.flush_failed
    }

    /// When the oldest operation was started that the device has not ended.
    #[must_use]
    pub fn oldest_io(&self) -> Option<Time> {
        self.env.ios.oldest()
    }

    /// The device does not end what it was asked: whoever waits for it goes elsewhere, and nothing more is asked.
    pub fn device_hangs(&mut self, now: Time, waited: Duration) {
        self.env.now = now;
        let why = format!("the device has not ended an operation for {} s", waited.as_secs());
        if self.mount.is_some() {
            let error = io::Error::new(io::ErrorKind::TimedOut, why);
            mount::go_on(self, |mount, _| Err(mount.device_failed("an operation", &error)));
        } else {
            self.poison(format!(
                "{why}; the store is mounted anew when it has. If it never does, replace the device"
            ));
        }
    }
}
