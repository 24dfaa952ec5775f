//! What is measured of the links to one peer by one of its networks.

use super::{BAD_PPM, BAD_ROUNDS, KEPT_ROUNDS, LATE_TIMES, LATE_US, MIN_LOST, MIN_SENT, WELL_PPM, WELL_ROUNDS};
use amita_reactor::driver::PathCounts;
use amita_types::NodeId;
use amita_types::link::{BadLink, LinkTrouble, Network, loss_ppm};
use std::collections::VecDeque;

/// What is known of them.
#[derive(Debug, Default)]
pub(super) struct Side {
    /// What was sent and lost in each round, the newest last.
    pub(super) rounds: VecDeque<(u64, u64)>,
    /// In this round.
    now: (u64, u64),
    pub(super) total: (u64, u64),
    pub(super) round_trip_us: Option<u32>,
    pub(super) least_us: Option<u32>,
    /// The last round in which there was a connection.
    pub(super) reached: Option<u64>,
    pub(super) bad: Option<LinkTrouble>,
    /// Rounds in a row that speak against what it is called.
    against: u32,
}

/// What a round says of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Bad(LinkTrouble),
    Well,
    /// Nothing or too little was sent, or it is between the two.
    Unclear,
}

impl Side {
    /// A connection has sent, and lost, so much more.
    pub(super) fn take(&mut self, round: u64, (sent, lost): (u64, u64), counts: &PathCounts) {
        if self.reached.replace(round) != Some(round) {
            self.round_trip_us = None;
        }
        self.now = (self.now.0 + sent, self.now.1 + lost);
        self.total = (self.total.0 + sent, self.total.1 + lost);
        if counts.least_us > 0 {
            // Connections may go by different ways: the best says how the peer can be reached.
            self.round_trip_us = self.round_trip_us.into_iter().chain([counts.round_trip_us]).min();
            self.least_us = self.least_us.into_iter().chain([counts.least_us]).min();
        }
    }

    /// The newest rounds that say something together: what was sent and lost in them.
    pub(super) fn window(&self) -> (u64, u64) {
        let (mut sent, mut lost) = (0, 0);
        for (round_sent, round_lost) in self.rounds.iter().rev() {
            (sent, lost) = (sent + round_sent, lost + round_lost);
            if sent >= MIN_SENT {
                break;
            }
        }
        (sent, lost)
    }

    /// Was something lost in several of the newest rounds, or is the newest enough by itself? What was lost in one moment stays in the window
    /// of an idle link for minutes.
    fn goes_on(&self) -> bool {
        let enough = self.rounds.back().is_some_and(|(sent, _)| *sent >= MIN_SENT);
        let mut left = MIN_SENT;
        let mut lossy = 0;
        for (sent, lost) in self.rounds.iter().rev() {
            lossy += u32::from(*lost > 0);
            left = left.saturating_sub(*sent);
            if left == 0 {
                break;
            }
        }
        enough || lossy >= BAD_ROUNDS
    }

    fn sign(&self, cut: bool) -> Sign {
        if cut {
            return Sign::Bad(LinkTrouble::Cut);
        }
        // What old rounds say was counted then, and a round trip of old is none of now.
        if self.rounds.back().is_none_or(|(sent, _)| *sent == 0) {
            return Sign::Unclear;
        }
        let (sent, lost) = self.window();
        let loss = loss_ppm(sent, lost);
        if sent >= MIN_SENT && lost >= MIN_LOST && loss >= BAD_PPM && self.goes_on() {
            return Sign::Bad(LinkTrouble::Loss);
        }
        if let (Some(now), Some(least)) = (self.round_trip_us, self.least_us)
            && now >= LATE_US.max(least.saturating_mul(LATE_TIMES))
        {
            return Sign::Bad(LinkTrouble::Late);
        }
        match sent >= MIN_SENT && loss < WELL_PPM {
            true => Sign::Well,
            false => Sign::Unclear,
        }
    }

    pub(super) fn end_round(&mut self, cut: bool) {
        self.rounds.push_back(std::mem::take(&mut self.now));
        let mut sent: u64 = self.rounds.iter().map(|(sent, _)| sent).sum();
        while let Some((oldest, _)) = self.rounds.front()
            && (self.rounds.len() > KEPT_ROUNDS || sent - oldest >= MIN_SENT)
        {
            sent -= oldest;
            self.rounds.pop_front();
        }
        let sign = self.sign(cut);
        match (sign, self.bad) {
            // What it is called bad for may change: it is bad all the same.
            (Sign::Bad(what), Some(_)) => (self.bad, self.against) = (Some(what), 0),
            (Sign::Bad(what), None) => {
                self.against += 1;
                if self.against >= BAD_ROUNDS {
                    (self.bad, self.against) = (Some(what), 0);
                }
            }
            (Sign::Well, Some(_)) => {
                self.against += 1;
                if self.against >= WELL_ROUNDS {
                    (self.bad, self.against) = (None, 0);
                }
            }
            // Silence proves nothing. Whoever is not reached any more is forgotten.
            (Sign::Unclear, Some(_)) => {}
            (Sign::Well | Sign::Unclear, None) => self.against = 0,
        }
    }

    pub(super) fn is_measured(&self) -> bool {
        self.bad.is_some() || self.window().0 >= MIN_SENT
    }

    /// What there is to say against it, if anything.
    pub(super) fn bad_link(&self, peer: NodeId, network: Network) -> Option<BadLink> {
        let (sent, lost) = self.window();
        Some(BadLink {
            peer,
            network,
            what: self.bad?,
            sent,
            lost,
            round_trip_us: self.round_trip_us.unwrap_or(0),
            least_us: self.least_us.unwrap_or(0),
        })
    }

    /// What was measured is none of now; what was counted stays.
    pub(super) fn forget(&mut self) {
        *self = Side {
            total: self.total,
            reached: self.reached,
            ..Side::default()
        };
    }
}
