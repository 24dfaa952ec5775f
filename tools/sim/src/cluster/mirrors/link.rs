//! The way between the two clusters: it delays, reorders and loses what goes by it, and is cut.

use super::wire::{FarAnswer, FarAsk, FarWhy};
use crate::random::Random;
use amita_reactor::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Nothing comes sooner.
pub(super) const LEAST_NS: u64 = 4_000_000;
const USUAL_NS: u64 = 12_000_000;
/// Where it is slow, this is the most.
const SLOW_NS: u64 = 2_500_000_000;
/// Who asks waits for so long.
const PATIENCE: Duration = Duration::from_millis(1500);

/// What goes by it.
pub(super) enum Message {
    Ask(FarAsk),
    Answer(Result<FarAnswer, FarWhy>),
}

/// Who asked, and which of its requests that was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Which {
    pub end: usize,
    pub serial: u64,
    pub request: u64,
}

pub(super) struct Link {
    random: Random,
    order: u64,
    requests: u64,
    /// What is on its way, with the end that it goes to.
    due: BTreeMap<(Time, u64), (usize, Which, Message)>,
    /// What is waited for, and how long.
    waits: BTreeMap<Which, Time>,
    cut_until: Time,
    slow_until: Time,
    pub lost: u64,
    pub late: u64,
}

impl Link {
    pub fn new(random: Random) -> Link {
        Link {
            random,
            order: 0,
            requests: 0,
            due: BTreeMap::new(),
            waits: BTreeMap::new(),
            cut_until: Time(0),
            slow_until: Time(0),
            lost: 0,
            late: 0,
        }
    }

    pub fn cut(&mut self, until: Time) {
        self.cut_until = self.cut_until.max(until);
    }

    pub fn slow(&mut self, until: Time) {
        self.slow_until = self.slow_until.max(until);
    }

    pub fn heal(&mut self) {
        (self.cut_until, self.slow_until) = (Time(0), Time(0));
    }

    pub fn is_cut(&self, now: Time) -> bool {
        now < self.cut_until
    }

    fn send(&mut self, now: Time, to: usize, which: Which, message: Message) {
        if self.is_cut(now) {
            self.lost += 1;
            return;
        }
        let most = match now < self.slow_until {
            true => SLOW_NS,
            false => USUAL_NS,
        };
        let at = Time(now.0 + self.random.within(LEAST_NS, most));
        self.order += 1;
        self.due.insert((at, self.order), (to, which, message));
    }

    pub fn ask(&mut self, now: Time, end: usize, serial: u64, ask: FarAsk) {
        self.requests += 1;
        let which = Which {
            end,
            serial,
            request: self.requests,
        };
        self.waits.insert(which, now.plus(PATIENCE));
        self.send(now, 1 - end, which, Message::Ask(ask));
    }

    pub fn answer(&mut self, now: Time, which: Which, answer: Result<FarAnswer, FarWhy>) {
        self.send(now, which.end, which, Message::Answer(answer));
    }

    /// When something is next due.
    pub fn next(&self) -> Option<Time> {
        let due = self.due.keys().next().map(|(at, _)| *at);
        due.into_iter().chain(self.waits.values().copied()).min()
    }

    /// What has come to this end by now.
    pub fn come(&mut self, now: Time, end: usize) -> Vec<(Which, Message)> {
        let mut come = Vec::new();
        let due: Vec<(Time, u64)> = self
            .due
            .iter()
            .filter(|((at, _), (to, ..))| *at <= now && *to == end)
            .map(|(key, _)| *key)
            .collect();
        for key in due {
            let (_, which, message) = self.due.remove(&key).expect("it was found");
            match message {
                // It was cut meanwhile.
                _ if self.is_cut(now) => self.lost += 1,
                Message::Answer(_) if self.waits.remove(&which).is_none() => self.late += 1,
                message => come.push((which, message)),
            }
        }
        let over: Vec<Which> = self
            .waits
            .iter()
            .filter(|(which, until)| which.end == end && **until <= now)
            .map(|(which, _)| *which)
            .collect();
        for which in over {
            self.waits.remove(&which);
            let why = FarWhy::Unheard("the other end does not answer".to_owned());
            come.push((which, Message::Answer(Err(why))));
        }
        come
    }
}
