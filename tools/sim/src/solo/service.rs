//! The store on its driver, as a node's core has it.

use amita_reactor::core::Service;
use amita_reactor::{Completion, Driver, FileId, Outcome, Slice, Time, TimerId, Token, Wait};
use amita_store::{Config, Count, Effect, IoId, LinkId, Question, State, Status, Store};
use amita_types::message::{Answer, Request};
use std::io;
use std::path::Path;
use std::sync::Arc;

const TIMER: Token = Token(u64::MAX);

/// One store, its file, and what it is asked.
pub struct StoreService {
    store: Store,
    file: FileId,
    asks: Vec<(LinkId, Request, Slice)>,
    asked: u64,
    answers: Vec<(Time, Answer, Slice)>,
    timer: Option<(Time, TimerId)>,
    world_time: Time,
}

impl StoreService {
    /// Opens the disk and begins to mount.
    pub fn open(driver: &mut dyn Driver, disk: &Path, config: Config) -> io::Result<StoreService> {
        let (file, info) = driver.open(disk)?;
        let store = Store::open(config, info, driver.pool().clone());
        let world_time = Time::default();
        Ok(StoreService {
            store,
            file,
            asks: Vec::new(),
            asked: 0,
            answers: Vec::new(),
            timer: None,
            world_time,
        })
    }

    /// Asks in the next pass.
    pub fn ask(&mut self, link: LinkId, request: Request, payload: Slice) {
        self.asked += 1;
        self.asks.push((link, request, payload));
    }

    /// How often it was asked.
    pub fn asked(&self) -> u64 {
        self.asked
    }

    /// What it has answered since, and when.
    pub fn take_answers(&mut self) -> Vec<(Time, Answer, Slice)> {
        std::mem::take(&mut self.answers)
    }

    /// Is it served?
    pub fn state(&self) -> &State {
        self.store.state()
    }

    /// What volumes hold: to be asked again, pass by pass, until it is counted.
    pub fn count(&mut self, now: Time, question: &Arc<Question>) -> Count {
        self.store.count(now, question)
    }

    /// What must hold between events: all of it, or what is cheap. Panics where it does not.
    #[cfg(feature = "planted")]
    pub fn check(&self, everything: bool) {
        match everything {
            true => self.store.check(),
            false => self.store.check_sums(),
        }
    }

    /// Builds that do not have the checks.
    #[cfg(not(feature = "planted"))]
    pub fn check(&self, _: bool) {}

    /// Its figures.
    pub fn status(&self) -> Status {
        self.store.status()
    }

    /// The time of the world, which goes on when the process's clock starts anew.
    pub fn set_world_time(&mut self, now: Time) {
        self.world_time = now;
    }

    fn carry_out(&mut self, driver: &mut dyn Driver) {
        for effect in self.store.effects() {
            match effect {
                Effect::Read { io, offset, buffer } => driver.read(self.file, offset, buffer, Token(io.0)),
                Effect::Write { io, offset, data } => driver.write(self.file, offset, data, Token(io.0)),
                Effect::Flush { io } => driver.flush(self.file, Token(io.0)),
                Effect::Discard { io, offset, bytes } => driver.discard(self.file, offset, bytes, Token(io.0)),
                Effect::Answer { answer, payload, .. } => self.answers.push((self.world_time, answer, payload)),
            }
        }
    }
}

impl Service for StoreService {
    fn pass(&mut self, driver: &mut dyn Driver, completions: &mut Vec<Completion>) -> Wait {
        let now = driver.now();
        for completion in completions.drain(..) {
            let io = IoId(completion.token.0);
            match completion.outcome {
                Outcome::Read { buffer, result } => self.store.read_done(now, io, buffer, result),
                Outcome::Written { data, result } => self.store.write_done(now, io, data, result),
                Outcome::Flushed { result } => self.store.flush_done(now, io, result),
                Outcome::Discarded { result } => self.store.discard_done(now, io, &result),
                Outcome::Timer => self.timer = None,
                _ => {}
            }
        }
        for (link, request, payload) in self.asks.drain(..) {
            self.store.request(now, link, request, payload);
        }
        if self.store.deadline().is_some_and(|at| at <= now) {
            self.store.tick(now);
        }
        self.carry_out(driver);
        self.store.end_pass(now);
        self.carry_out(driver);
        if let Some(at) = self.store.deadline()
            && self.timer.is_none_or(|(set, _)| at < set)
        {
            if let Some((_, timer)) = self.timer.take() {
                driver.cancel_timer(timer);
            }
            self.timer = Some((at, driver.timer(at, TIMER)));
        }
        Wait::UntilEvent
    }
}
