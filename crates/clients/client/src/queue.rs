//! A queue: the requests of one thread, and what has become of them, by two rings of one sender and one receiver.

use crate::error::Error;
use crate::payload::{Done, Payload};
use crate::session::{MAX_REQUESTS, Volume, check_length};
use amita_reactor::mailbox::{Receiver, Sender};
use amita_reactor::{BufMut, Doorbell, Pool, Slice};
use amita_types::io::IoError;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// A request, on its way to the core.
#[derive(Debug)]
pub(crate) struct Command {
    /// The queue's number of it.
    pub(crate) slot: u32,
    pub(crate) volume: Volume,
    pub(crate) what: What,
}

/// What a request asks for.
#[derive(Debug)]
pub(crate) enum What {
    Read { offset: u64, bytes: u32 },
    Write { offset: u64, data: Slice },
    Flush,
    Discard { offset: u64, bytes: u64 },
    WriteZeroes { offset: u64, bytes: u64 },
    Changed { offset: u64 },
    Allocated { offset: u64 },
    ChangedChunks { offset: u64 },
}

/// One thread's requests to a [`Client`](crate::Client). Send it to the thread that is to use it.
///
/// Where a request is started, an error says that it was not. Once started it ends in exactly one [`Done`].
pub struct Queue {
    commands: Sender<Command>,
    ended: Receiver<Done>,
    bell: Doorbell,
    pool: Pool,
    /// The caller's tags, by slot.
    tags: Vec<u64>,
    free: Vec<u32>,
    /// Does somebody look at the event file?
    watched: bool,
}

impl Queue {
    pub(crate) fn new(
        commands: Sender<Command>,
        ended: Receiver<Done>,
        bell: Doorbell,
        pool: Pool,
        depth: usize,
    ) -> Queue {
        Queue {
            commands,
            ended,
            bell,
            pool,
            tags: vec![0; depth],
            free: (0..depth as u32).rev().collect(),
            watched: false,
        }
    }

    /// Memory for a write, as [`Local::buffer`](crate::Local::buffer).
    #[must_use]
    pub fn buffer(&self, bytes: usize) -> Option<BufMut> {
        self.pool.take(bytes)
    }

    /// As [`Local::write`](crate::Local::write). That the volume is no longer open is told by the request's end.
    ///
    /// # Errors
    /// It is not begun: a bad range or length, too much under way, or the client has ended.
    pub fn write(&mut self, volume: &Volume, offset: u64, data: Slice, tag: u64) -> Result<(), Error> {
        let bytes = data.len() as u64;
        check_length(bytes)?;
        self.start(volume, offset, bytes, What::Write { offset, data }, tag)
    }

    /// As [`Local::read`](crate::Local::read).
    ///
    /// # Errors
    /// As [`Queue::write`].
    pub fn read(&mut self, volume: &Volume, offset: u64, bytes: u32, tag: u64) -> Result<(), Error> {
        check_length(bytes.into())?;
        self.start(volume, offset, bytes.into(), What::Read { offset, bytes }, tag)
    }

    /// As [`Local::flush`](crate::Local::flush).
    ///
    /// # Errors
    /// As [`Queue::write`].
    pub fn flush(&mut self, volume: &Volume, tag: u64) -> Result<(), Error> {
        self.start(volume, 0, 0, What::Flush, tag)
    }

    /// As [`Local::discard`](crate::Local::discard).
    ///
    /// # Errors
    /// As [`Queue::write`].
    pub fn discard(&mut self, volume: &Volume, offset: u64, bytes: u64, tag: u64) -> Result<(), Error> {
        self.start(volume, offset, bytes, What::Discard { offset, bytes }, tag)
    }

    /// As [`Local::write_zeroes`](crate::Local::write_zeroes).
    ///
    /// # Errors
    /// As [`Queue::write`].
    pub fn write_zeroes(&mut self, volume: &Volume, offset: u64, bytes: u64, tag: u64) -> Result<(), Error> {
        self.start(volume, offset, bytes, What::WriteZeroes { offset, bytes }, tag)
    }

    /// As [`Local::changed`](crate::Local::changed). That the volume was not opened so is told by the request's end.
    ///
    /// # Errors
    /// As [`Queue::write`].
    pub fn changed(&mut self, volume: &Volume, offset: u64, tag: u64) -> Result<(), Error> {
        self.start(volume, offset, 1, What::Changed { offset }, tag)
    }

    /// As [`Local::allocated`](crate::Local::allocated).
    ///
    /// # Errors
    /// As [`Queue::write`].
    pub fn allocated(&mut self, volume: &Volume, offset: u64, tag: u64) -> Result<(), Error> {
        self.start(volume, offset, 1, What::Allocated { offset }, tag)
    }

    /// As [`Local::changed_chunks`](crate::Local::changed_chunks). That the volume was not opened so is told by the request's end.
    ///
    /// # Errors
    /// As [`Queue::write`].
    pub fn changed_chunks(&mut self, volume: &Volume, offset: u64, tag: u64) -> Result<(), Error> {
        self.start(volume, offset, 1, What::ChangedChunks { offset }, tag)
    }

    fn start(&mut self, volume: &Volume, offset: u64, bytes: u64, what: What, tag: u64) -> Result<(), Error> {
        volume.check(offset, bytes)?;
        if self.commands.is_closed() {
            return Err(Error::Ended);
        }
        let Some(slot) = self.free.pop() else {
            return Err(Error::Full { most: self.tags.len() });
        };
        self.tags[slot as usize] = tag;
        let command = Command {
            slot,
            volume: *volume,
            what,
        };
        // The ring has room for the whole depth.
        assert!(
            self.commands.send(command).is_ok(),
            "a queue's ring is as long as the queue"
        );
        Ok(())
    }

    /// Appends what has ended to `done`. Does not block, and is no system call (unless the event file is used).
    pub fn poll(&mut self, done: &mut Vec<Done>) {
        if !self.watched {
            return self.take(done);
        }
        // Who looks at the event file is told of what comes from now on.
        self.bell.silence();
        loop {
            let armed = self.bell.arm();
            self.take(done);
            if armed {
                return;
            }
        }
    }

    fn take(&mut self, done: &mut Vec<Done>) {
        while let Some(mut ended) = self.ended.pop() {
            let slot = ended.tag as u32;
            ended.tag = self.tags[slot as usize];
            self.free.push(slot);
            done.push(ended);
        }
        if self.ended.is_closed() && self.under_way() > 0 {
            self.take_lost(done);
        }
    }

    /// The core has ended: what it still had comes first, and the rest is lost.
    fn take_lost(&mut self, done: &mut Vec<Done>) {
        let mut lost = vec![true; self.tags.len()];
        while let Some(mut ended) = self.ended.pop() {
            let slot = ended.tag as u32;
            ended.tag = self.tags[slot as usize];
            self.free.push(slot);
            done.push(ended);
        }
        for slot in &self.free {
            lost[*slot as usize] = false;
        }
        for (slot, tag) in self.tags.iter().enumerate().filter(|(slot, _)| lost[*slot]) {
            self.free.push(slot as u32);
            done.push(Done {
                tag: *tag,
                result: Err(IoError::Lost),
                payload: Payload::default(),
            });
        }
    }

    /// Waits until something has ended, which is appended to `done`, or until the limit. With nothing under way it does
    /// not wait.
    pub fn wait(&mut self, limit: Duration, done: &mut Vec<Done>) {
        let before = done.len();
        self.bell.silence();
        self.take(done);
        if done.len() > before || self.under_way() == 0 {
            return;
        }
        let ended = &mut self.ended;
        self.bell.wait(limit, || ended.has_any() || ended.is_closed());
        self.poll(done);
    }

    /// How many requests have been started and not been handed out as ended.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.tags.len() - self.free.len()
    }

    /// How many requests may be under way.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.tags.len()
    }

    /// A file that becomes readable when something has ended after a [`Queue::poll`] that found nothing more; the next
    /// poll makes it unreadable again. From this call on each poll sees to that.
    pub fn event_fd(&mut self) -> BorrowedFd<'_> {
        if !std::mem::replace(&mut self.watched, true) {
            // Something may lie there already, that nobody would ever ring for.
            self.bell.arm();
            if self.ended.has_any() {
                self.bell.waker().wake();
            }
        }
        self.bell.fd()
    }
}

/// How deep may a queue be?
pub(crate) fn check_depth(depth: usize) -> Result<(), Error> {
    if (1..=MAX_REQUESTS).contains(&depth) {
        return Ok(());
    }
    let why = format!("{depth} requests; 1 to {MAX_REQUESTS} are allowed");
    Err(Error::Setting { setting: "depth", why })
}
