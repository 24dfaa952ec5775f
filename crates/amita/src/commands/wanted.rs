//! Is what a runner does for a record of the metadata wanted still, and the runner's? And at which rate?

use super::pace::Rate;
use amita_metadata::{Call, Client, Op};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::interrupt;
use serde::de::DeserializeOwned;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the record is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// What the record says of the work: none, that it is not wanted any more.
type Says<R> = dyn Fn(&R) -> Option<Rate>;

/// Work for a record of type `R`, by whoever holds a key on a lease.
pub(super) struct Wanted<R> {
    client: Client,
    /// The record's, and its runner's.
    keys: [String; 2],
    claim: u64,
    lost: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    says: RefCell<Option<Box<Says<R>>>>,
    rate: Cell<Rate>,
    looked: Cell<Instant>,
    /// Something of it has said no.
    called_off: Cell<bool>,
}

impl<R: DeserializeOwned> Wanted<R> {
    /// `claim`: the revision by which the runner's key came to be. `lost`: it is another's by now. `stop`: this node ends.
    pub fn new(
        client: Client,
        (record, runner): (String, String),
        claim: u64,
        (lost, stop): (Arc<AtomicBool>, Arc<AtomicBool>),
    ) -> Wanted<R> {
        Wanted {
            client,
            keys: [record, runner],
            claim,
            lost,
            stop,
            says: RefCell::new(None),
            rate: Cell::new(None),
            looked: Cell::new(Instant::now()),
            called_off: Cell::new(false),
        }
    }

    /// This node ends, or another one is at it.
    pub fn is_over(&self) -> bool {
        // By a signal reads and writes end before whoever started this says that it ends: nothing ails the work.
        interrupt::caught() || self.stop.load(Ordering::Relaxed) || self.lost.load(Ordering::Relaxed)
    }

    /// From now on it is wanted for as long as `says` has it so of the record, which is `now`.
    pub fn go_by(&self, now: &R, says: impl Fn(&R) -> Option<Rate> + 'static) {
        self.rate.set(says(now).flatten());
        self.says.replace(Some(Box::new(says)));
    }

    /// From now on it is wanted whatever the record says.
    pub fn go_by_nothing(&self) {
        self.says.replace(None);
    }

    /// It was called off, and what the record says now is to be done; told once.
    pub fn was_called_off(&self) -> bool {
        self.called_off.take()
    }

    /// As the record had it when it was looked at last.
    pub fn rate(&self) -> Rate {
        self.rate.get().filter(|rate| *rate > 0)
    }

    /// # Errors
    /// It is not wanted any more, or another's.
    pub fn check(&self) -> Result<()> {
        if self.is_over() {
            return Err(self.no("this node ends, or another one is at it"));
        }
        if self.called_off.get() {
            return Err(self.no("it was called off"));
        }
        let says = self.says.borrow();
        let Some(says) = says.as_ref().filter(|_| self.looked.get().elapsed() >= LOOK) else {
            return Ok(());
        };
        self.looked.set(Instant::now());
        let call = Call {
            then: self.keys.iter().map(|key| Op::Get { key: key.clone() }).collect(),
            ..Call::default()
        };
        // The work needs no metadata before its place is noted.
        let Ok(reply) = self.client.txn(&call) else {
            return Ok(());
        };
        let record: Option<R> = reply.value(0).and_then(|found| found.json().ok());
        match record.and_then(|record| says(&record)) {
            Some(rate) => self.rate.set(rate),
            None => return Err(self.no("it was called off")),
        }
        match reply.value(1).is_some_and(|found| found.mod_revision == self.claim) {
            true => Ok(()),
            false => Err(self.lose()),
        }
    }

    /// Another node is at it.
    pub fn lose(&self) -> Failure {
        self.lost.store(true, Ordering::Relaxed);
        self.no("another node is at it")
    }

    fn no(&self, why: &str) -> Failure {
        self.called_off.set(true);
        Failure::new(why).kind(Kind::Interrupted)
    }

    /// # Errors
    /// It is not wanted any more.
    pub fn rest(&self, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        loop {
            self.check()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
    }
}
