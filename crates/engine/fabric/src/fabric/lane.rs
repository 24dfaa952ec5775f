//! One link to a peer: its connection by one of the peer's networks, and what goes on beside it by the other one.

use crate::backoff::{Jitter, pause};
use crate::config::Timeouts;
use crate::event::Link;
use crate::limits::MAX_ATTEMPTS;
use amita_reactor::Time;
use amita_types::link::Network;
use arrayvec::ArrayVec;

/// One link to a peer, through all its connections.
#[derive(Debug)]
pub(super) struct Lane {
    /// Which of the links between the two nodes.
    pub(super) index: u16,
    /// The network by which it goes, or is dialled first.
    pub(super) network: Network,
    /// Its connection, up or in the handshake.
    pub(super) link: Option<Link>,
    pub(super) up: bool,
    /// The one beside it, in the handshake.
    pub(super) beside: Option<Link>,
    /// When one is to be begun.
    pub(super) beside_due: Option<Time>,
    /// It is to have the link as soon as it is up, though that is well.
    pub(super) moves: bool,
    /// The one beside it has said its hello, and has the link at the other end: until it is up, or has ended, the link's own network is
    /// left alone, or a hello by that one would end it.
    pub(super) yields: bool,
    /// Has the other network refused, too, when it was last tried, since the link was up? Not while it is tried again.
    pub(super) beside_refused: bool,
    /// The link was refused, which says nothing before the other network has said something.
    pub(super) withheld: bool,
    /// Attempts to connect that are under way. More than one when earlier ones took too long: any may still succeed.
    pub(super) attempts: ArrayVec<Attempt, { 2 * MAX_ATTEMPTS }>,
    /// Attempts that failed since the link was last up for a while.
    pub(super) failures: u32,
    /// Attempts in a row that the peer's host has refused.
    pub(super) refusals: u32,
    /// When to try again; `None` while there is a connection, or an attempt that may still be in time.
    pub(super) due: Option<Time>,
    /// Why the peer or this end refused the last time, by each network; told once.
    pub(super) refused: [Option<String>; 2],
}

#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) number: u64,
    pub(super) network: Network,
    /// When it will have taken too long; `None` when it has, and that was told.
    pub(super) patience: Option<Time>,
}

impl Lane {
    pub(super) fn new(index: u16, now: Time) -> Lane {
        Lane {
            index,
            network: Network::First,
            link: None,
            up: false,
            beside: None,
            beside_due: None,
            moves: false,
            yields: false,
            beside_refused: false,
            withheld: false,
            attempts: ArrayVec::new(),
            failures: 0,
            refusals: 0,
            due: Some(now),
            refused: [None, None],
        }
    }

    pub(super) fn has(&self, link: Link) -> bool {
        self.link == Some(link) || self.beside == Some(link)
    }

    /// Its connections of all kinds.
    pub(super) fn connections(&self) -> impl Iterator<Item = Link> + use<> {
        self.link.into_iter().chain(self.beside)
    }

    /// Is an attempt by that network under way that may still be in time?
    pub(super) fn is_calling(&self, network: Network) -> bool {
        let mut attempts = self.attempts.iter();
        attempts.any(|attempt| attempt.network == network && attempt.patience.is_some())
    }

    /// Counts an attempt by that network, if there may be one more. When the bound is reached the kernel still tries; its next result is
    /// what goes on from here.
    pub(super) fn begin(&mut self, network: Network, number: u64, patience: Time) -> bool {
        let under_way = self.attempts.iter().filter(|attempt| attempt.network == network);
        let attempt = Attempt {
            number,
            network,
            patience: Some(patience),
        };
        under_way.count() < MAX_ATTEMPTS && self.attempts.try_push(attempt).is_ok()
    }

    /// The other network is tried at that time, or before.
    pub(super) fn try_beside(&mut self, at: Time) {
        self.beside_due = Some(self.beside_due.map_or(at, |due| due.min(at)));
    }

    /// Ends what took too long; `tell`: that it did. The next attempt by the link's own network is put off, as if there were no other.
    pub(super) fn lose_patience(
        &mut self,
        timeouts: &Timeouts,
        jitter: &mut Jitter,
        now: Time,
        has_second: bool,
        mut tell: impl FnMut(bool),
    ) {
        let is_late = |attempt: &Attempt| attempt.patience.is_some_and(|end| end <= now);
        for place in 0..self.attempts.len() {
            if !is_late(&self.attempts[place]) {
                continue;
            }
            self.attempts[place].patience = None;
            if self.attempts[place].network != self.network {
                if let Some(certain) = self.beside_failed(now, timeouts, false) {
                    tell(certain);
                }
                continue;
            }
            if self.link.is_some() || self.yields {
                continue;
            }
            tell(false);
            self.withheld = false;
            let wait = pause(timeouts.backoff_first, timeouts.backoff_last, self.failures, jitter);
            self.failures = self.failures.saturating_add(1);
            self.due = Some(now.plus(wait));
            if has_second {
                self.try_beside(now);
            }
        }
    }

    /// The other network did not work either; did it refuse? What that says of the peer, if anything.
    pub(super) fn beside_failed(&mut self, now: Time, timeouts: &Timeouts, certain: bool) -> Option<bool> {
        self.moves = false;
        // What is refused beside a link that is up says nothing of the time after it.
        self.beside_refused = certain && !self.up;
        let was_withheld = std::mem::take(&mut self.withheld);
        if self.link.is_some() {
            return None;
        }
        // It waits for no word of the first one, whose attempts may all be with the kernel.
        self.try_beside(now.plus(timeouts.backoff_last));
        (was_withheld || !certain).then_some(certain)
    }

    /// It goes by the first network again, where it went by the second: that leads elsewhere now. What is to be ended.
    pub(super) fn forget_second(&mut self, now: Time) -> Option<Link> {
        self.attempts.retain(|attempt| attempt.network == Network::First);
        (self.beside_due, self.moves, self.beside_refused, self.withheld) = (None, false, false, false);
        let is_used = std::mem::take(&mut self.network) == Network::Second;
        if is_used && self.link.is_none() {
            self.due = Some(now);
        }
        // What was beside it goes by the first one then, and is not needed.
        if is_used { self.link } else { self.beside }
    }
}
