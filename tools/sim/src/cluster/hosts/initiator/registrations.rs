//! What an initiator has to do with the persistent reservation that the hosts of a volume keep: each path registers the host's key,
//! and without that it is not used; a host that is to fence another one off preempts its key, and aborts what it has under way.

use super::super::linux::HostEffect;
use super::wire::{Command, Verdict};
use super::{Initiator, State, What};
use amita_reactor::Time;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// Service actions of PERSISTENT RESERVE OUT (SPC-4).
mod action {
    pub const RESERVE: u8 = 1;
    pub const CLEAR: u8 = 3;
    pub const PREEMPT_AND_ABORT: u8 = 5;
    pub const REGISTER_AND_IGNORE: u8 = 6;
}
const CONFLICT: u8 = 0x18;
const AGAIN: Duration = Duration::from_millis(50);
/// So long after a command was lost nothing of it is carried out any more.
const SETTLED: Duration = Duration::from_secs(3);

/// A command that is not answered for so long is asked for again, in another session.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Register(usize),
    Reserve(usize),
    Preempt { victim: u32 },
    Clear(usize),
}

#[derive(Debug)]
pub(super) struct Registrations {
    number: u32,
    /// The reservation's type; none: the host has nothing to do with any.
    kind: Option<u8>,
    registered: BTreeSet<usize>,
    steps: VecDeque<Step>,
    /// What is under way, by which path, and since when.
    doing: Option<(Step, usize, Time)>,
    next_at: Time,
    lost_at: Option<Time>,
    /// Nothing is registered meanwhile.
    holds_still: bool,
    /// Reservations come to their end: set when they are to, and when it is done.
    ends: bool,
    ended: bool,
}

/// The key of the host of that number.
pub fn key(number: u32) -> u64 {
    0xa000 + u64::from(number)
}

impl Registrations {
    pub(super) fn new(number: u32, kind: Option<u8>) -> Registrations {
        Registrations {
            number,
            kind,
            registered: BTreeSet::new(),
            steps: VecDeque::new(),
            doing: None,
            next_at: Time::default(),
            lost_at: None,
            holds_still: false,
            ends: false,
            ended: false,
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        match self.doing {
            Some((.., since)) => Some(since.plus(PATIENCE)),
            None if self.holds_still || self.ended => None,
            None => (!self.steps.is_empty()).then_some(self.next_at),
        }
    }

    /// The path by which something is under way that takes too long.
    pub(super) fn late(&self, now: Time) -> Option<usize> {
        let (_, path, since) = self.doing?;
        (now >= since.plus(PATIENCE)).then_some(path)
    }

    /// A session has ended, and what it was asked for is not known to be done.
    pub(super) fn lost(&mut self, now: Time, path: usize) {
        if let Some((step, ..)) = self.doing.take_if(|(_, by, _)| *by == path) {
            self.lost_at = Some(now);
            self.next_at = now.plus(AGAIN);
            self.steps.push_front(step);
        }
    }
}

impl Initiator {
    /// May the path be used, as far as reservations go?
    pub(super) fn is_admitted(&self, path: usize) -> bool {
        let registrations = &self.registrations;
        registrations.kind.is_none() || registrations.ended || registrations.registered.contains(&path)
    }

    /// Is it one that may be fenced off now? Nothing of it that would register it may be under way.
    pub fn can_be_fenced(&self, now: Time) -> bool {
        let registrations = &self.registrations;
        let is_settled = registrations.lost_at.is_none_or(|at| now >= at.plus(SETTLED));
        let is_idle = registrations.doing.is_none() && registrations.steps.is_empty();
        is_idle && is_settled && !registrations.registered.is_empty() && !registrations.ends
    }

    /// Fences another host off; [`HostEffect::Fenced`] says how that went.
    pub fn fence(&mut self, now: Time, victim: u32) {
        self.registrations.steps.push_back(Step::Preempt { victim });
        self.keep_registered(now);
    }

    /// It registers nothing meanwhile; or may again.
    pub fn hold_still(&mut self, now: Time, still: bool) {
        self.registrations.holds_still = still;
        self.keep_registered(now);
    }

    /// The reservation is to come to its end, and all registrations with it. Returns whether it has, as far as this host goes.
    pub fn end_reservation(&mut self, now: Time) -> bool {
        if self.registrations.kind.is_some() && !self.registrations.ends {
            self.registrations.ends = true;
            self.registrations.steps.clear();
            self.keep_registered(now);
        }
        self.registrations.kind.is_none() || self.registrations.ended
    }

    /// Does what is due.
    pub(super) fn keep_registered(&mut self, now: Time) {
        let is_live = |path: &super::Path| path.usable && path.state == State::Live;
        let live: Vec<usize> = (0..self.paths.len())
            .filter(|index| is_live(&self.paths[*index]))
            .collect();
        let registrations = &mut self.registrations;
        let Some(kind) = registrations.kind.filter(|_| !registrations.ended) else {
            return;
        };
        if registrations.doing.is_some() || registrations.holds_still {
            return;
        }
        if registrations.steps.is_empty() {
            match live.first() {
                Some(&path) if registrations.ends => {
                    registrations.steps.extend([Step::Register(path), Step::Clear(path)]);
                }
                _ if registrations.ends => return,
                _ => {
                    let missing = live.iter().filter(|path| !registrations.registered.contains(path));
                    registrations
                        .steps
                        .extend(missing.flat_map(|path| [Step::Register(*path), Step::Reserve(*path)]));
                }
            }
        }
        if now < registrations.next_at {
            return;
        }
        let Some(step) = registrations.steps.front().copied() else {
            return;
        };
        let path = match step {
            Step::Register(path) | Step::Reserve(path) | Step::Clear(path) => {
                Some(path).filter(|path| live.contains(path))
            }
            Step::Preempt { .. } => live
                .iter()
                .copied()
                .find(|path| registrations.registered.contains(path)),
        };
        let Some(path) = path else {
            // By another path, once there is one.
            match step {
                Step::Preempt { .. } => registrations.next_at = now.plus(AGAIN),
                _ => registrations.steps.clear(),
            }
            return;
        };
        registrations.steps.pop_front();
        registrations.doing = Some((step, path, now));
        let own = key(registrations.number);
        self.tell(|| format!("{step:?} by path {path}"));
        let (action, keys) = match step {
            Step::Register(_) => (action::REGISTER_AND_IGNORE, (0, own)),
            Step::Reserve(_) => (action::RESERVE, (own, 0)),
            Step::Preempt { victim } => (action::PREEMPT_AND_ABORT, (own, key(victim))),
            Step::Clear(_) => (action::CLEAR, (own, 0)),
        };
        let mut cdb = [0; 16];
        (cdb[0], cdb[1], cdb[2], cdb[8]) = (0x5f, action, kind, 24);
        let mut list = [0; 24];
        list[..8].copy_from_slice(&keys.0.to_be_bytes());
        list[8..16].copy_from_slice(&keys.1.to_be_bytes());
        let command = Command {
            lun: self.settings.lun,
            cdb,
            write: list.to_vec(),
            read: 0,
        };
        let conn = self.paths[path].conn;
        if let Some(conn) = self.conns.get_mut(&conn) {
            conn.wire.submit(What::Reserve, command);
        }
    }

    pub(super) fn reserved(&mut self, now: Time, path: usize, verdict: Verdict) {
        let registrations = &mut self.registrations;
        let Some((step, by, _)) = registrations.doing.take() else {
            return;
        };
        debug_assert_eq!(path, by, "one after the other");
        let is_done = verdict.status == 0;
        self.tell(|| format!("{step:?} by path {path} has ended: {verdict:?}"));
        let registrations = &mut self.registrations;
        // Whoever comes second to reserve finds it reserved, and who preempts twice finds nobody.
        let is_over = is_done || verdict.status == CONFLICT;
        match step {
            _ if !is_over => {
                // Nobody knows whether it was done, or it was not begun.
                if verdict.sense[0] != 6 {
                    registrations.lost_at = Some(now);
                    registrations.next_at = now.plus(AGAIN);
                }
                registrations.steps.push_front(step);
            }
            Step::Register(path) if is_done => {
                registrations.registered.insert(path);
                self.taken.push("iscsi.registered");
            }
            Step::Reserve(_) if is_done => {
                self.taken.push("iscsi.reserved");
                self.acts.push_back(HostEffect::Reserved);
            }
            Step::Preempt { victim } => self.acts.push_back(HostEffect::Fenced { victim, is_done }),
            Step::Clear(_) if is_done => {
                registrations.ended = true;
                self.taken.push("iscsi.cleared");
            }
            _ => {}
        }
        self.send_waiting(now);
        self.keep_registered(now);
    }
}
