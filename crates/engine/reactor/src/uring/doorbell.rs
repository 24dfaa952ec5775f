//! How a thread that is no core waits for one: at an event file, which is written only while the thread sleeps or has
//! asked for it.

use super::pace::Pace;
use super::sys;
use super::{EventFile, UringConfig};
use crate::waker::Waker;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The bell of one thread. Whoever has its [`Waker`] rings it; that costs a system call only while it is armed.
pub struct Doorbell {
    file: Arc<EventFile>,
    waker: Waker,
    pace: Pace,
    /// The most that one wait gives way before it blocks.
    yields: u32,
    armed: bool,
}

impl Doorbell {
    /// A bell that is not armed.
    ///
    /// # Errors
    /// The process may not open more files.
    pub fn new() -> io::Result<Doorbell> {
        let file = Arc::new(EventFile(sys::event_file_to_poll()?));
        Ok(Doorbell {
            waker: Waker::new(Box::new(file.clone())),
            file,
            pace: Pace::default(),
            yields: UringConfig::default().yields,
            armed: false,
        })
    }

    /// What rings it, from any thread.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Becomes readable when an armed bell rings.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.0.as_fd()
    }

    /// From now on a ring makes [`Doorbell::fd`] readable; false when it rang already, so that it is worth looking again
    /// (and it is not armed).
    pub fn arm(&mut self) -> bool {
        self.armed = self.armed || self.waker.fall_asleep();
        if !self.armed {
            self.waker.take_note();
        }
        self.armed
    }

    /// What rang is being seen to: makes the file unreadable again, and not armed.
    pub fn silence(&mut self) {
        if std::mem::take(&mut self.armed) {
            self.waker.awake();
            if self.waker.take_note() {
                sys::drain(&self.file.0);
            }
        }
    }

    /// Waits until `ready` says so, but no longer than `limit`: it gives way for a moment, as long as that has paid, and
    /// then blocks until the bell rings. `ready` is to look at what the ringing announces.
    pub fn wait(&mut self, limit: Duration, mut ready: impl FnMut() -> bool) {
        self.pace.begin();
        while self.pace.should_yield(self.yields) {
            self.pace.give_way();
            if ready() {
                return self.pace.found();
            }
        }
        let start = Instant::now();
        loop {
            // Armed, then looked: what comes after the look rings.
            let armed = self.arm();
            if ready() {
                break;
            }
            let left = limit.saturating_sub(start.elapsed());
            if left.is_zero() {
                break;
            }
            if armed {
                sys::wait_readable(&self.file.0, left);
                self.silence();
            }
        }
        self.silence();
        self.pace.blocked(start.elapsed());
    }
}

#[cfg(test)]
mod tests;
