//! The leave to move one window, and who hands it out.

use super::{Level, Pace, PaceStatus};
use amita_reactor::Time;
use amita_types::recovery::Recovery;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// A core's pace, as all its sequencers share it. They run one after the other on one thread: nothing is locked.
#[derive(Clone, Debug)]
pub struct Pacer(Rc<RefCell<Pace>>);

impl Pacer {
    /// See [`Pace::new`].
    #[must_use]
    pub fn new(settings: &Recovery, cores: u16) -> Pacer {
        Pacer(Rc::new(RefCell::new(Pace::new(settings, cores))))
    }

    /// See [`Pace::set`].
    pub fn set(&self, settings: &Recovery, cores: u16) {
        self.0.borrow_mut().set(settings, cores);
    }

    /// See [`Pace::client`].
    pub fn client(&self, now: Time, write: bool, latency: Duration) {
        self.0.borrow_mut().client(now, write, latency);
    }

    /// So late is it.
    pub fn tell(&self, now: Time) {
        self.0.borrow_mut().advance(now);
    }

    /// See [`Pace::status`].
    #[must_use]
    pub fn status(&self) -> PaceStatus {
        self.0.borrow().status()
    }

    /// The leave for a window, which ends with it.
    ///
    /// # Errors
    /// It may not start before that moment.
    pub fn start(&self, now: Time, level: Level) -> Result<Pass, Time> {
        self.0.borrow_mut().start(now, level)?;
        Ok(self.pass(now, level))
    }

    /// The same for what a copy of a volume reads: see [`Pace::start_copy`].
    ///
    /// # Errors
    /// It may not start before that moment.
    pub fn start_copy(&self, now: Time) -> Result<Pass, Time> {
        self.0.borrow_mut().start_copy(now)?;
        Ok(self.pass(now, Level::Rebalance))
    }

    /// The leave for a window that clients wait for.
    #[must_use]
    pub fn force(&self, now: Time, level: Level) -> Pass {
        self.0.borrow_mut().force(now, level);
        self.pass(now, level)
    }

    fn pass(&self, now: Time, level: Level) -> Pass {
        Pass {
            pacer: self.clone(),
            level,
            started: now,
            bytes: 0,
            requests: 0,
        }
    }
}

/// The leave to move one window. Dropped, it has ended.
#[derive(Debug)]
pub struct Pass {
    pacer: Pacer,
    level: Level,
    started: Time,
    bytes: u64,
    requests: u32,
}

impl Pass {
    /// The window moves so much, by so many requests.
    pub fn add(&mut self, bytes: u64, requests: u32) {
        self.bytes += bytes;
        self.requests += requests;
    }

    /// Has it begun so long ago that it hangs?
    #[must_use]
    pub fn is_old(&self, now: Time) -> bool {
        now.since(self.started) >= super::LONGEST_WINDOW
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut pace = self.pacer.0.borrow_mut();
        let now = pace.now;
        pace.end(now, self.level, self.started, self.bytes, self.requests);
    }
}
