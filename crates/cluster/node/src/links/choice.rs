//! By which of its two networks a peer is sent to: a pure judgement, once in a round.
//!
//! What each core does by itself, within a second or so, is to call a peer by its other network where the one in use says nothing
//! (`amita_fabric`). What is decided here is the rest: that a link which loses packets, or is late, is left for the other one; when the
//! first network is tried again; and what is told.
//!
//! * A link that is bad is left if the other network of the same peer is not known to be bad, where the policy lets nodes be avoided. The
//!   connections move when they are up there; where they do not come up within [`MOVE_ROUNDS`], they stay. What is called bad still and has
//!   lost nothing of late is about to be well, and is not left.
//! * Nothing is asked for within [`STAY_ROUNDS`] of the last move.
//! * What was left for being bad is tried again after [`REST_ROUNDS`], what was cut every [`STAY_ROUNDS`]. Nobody sends there meanwhile,
//!   so nobody can say that it is well: what was measured before is forgotten when they are back, and when the first connection of either
//!   end is ([`super::Links`]). Each further time within [`CLEAN_ROUNDS`] it rests for twice as long. While the peer says that it is bad
//!   it is not tried again either, for [`LONGEST_REST_ROUNDS`] at most: both might wait for each other. What the peer has said before
//!   that is no reason to leave it again.

use super::WELL_PPM;
use super::side::is_late;
use amita_types::link::{Accusation, BadLink, LinkTrouble, Network};
use amita_types::recovery::SickPolicy;

/// The least rounds between two moves of one peer's connections, and between attempts to have a cut network again: a minute.
pub(super) const STAY_ROUNDS: u64 = 6;
/// The longest such pause.
const LONGEST_STAY_ROUNDS: u64 = 60;
/// Connections that have not moved within so many rounds do not: the other network cannot be had.
const MOVE_ROUNDS: u64 = 3;
/// Connections that were by the other network at so many looks in a row have left the first: at one look they may be on their way.
const AWAY_ROUNDS: u32 = 2;
/// A link that was left for being bad is tried again after ten minutes, and
const REST_ROUNDS: u64 = 60;
/// after an hour at most.
const LONGEST_REST_ROUNDS: u64 = 360;
/// Who was well for an hour has a clean slate.
const CLEAN_ROUNDS: u64 = 360;

/// What a round has found of a peer that has two networks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// By which of them connections of this node go.
    pub(super) on: [bool; 2],
    /// By which of them connections of either end go.
    pub(super) used: [bool; 2],
    /// What is bad of each, as this node finds.
    pub(super) own: [Option<BadLink>; 2],
    /// The same as the peer finds of what it sends here.
    pub(super) told: [Option<Accusation>; 2],
}

/// Does what was measured last speak against it? Exactly what does not is what makes it well in the end.
fn goes_on(link: &BadLink) -> bool {
    link.what == LinkTrouble::Cut || link.loss_ppm() >= WELL_PPM || is_late(link.round_trip_us, link.least_us)
}

impl Seen {
    /// Does either end find something bad of it?
    fn is_bad(&self, network: Network) -> bool {
        self.own[network.index()].is_some() || self.told[network.index()].is_some()
    }
}

/// What was decided, or was seen, of which somebody is to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tale {
    /// A network was left.
    Left(Left),
    /// It would have been, if the policy let it.
    Would(Left),
    /// What was left is used again.
    Back(Network),
}

/// A link that was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// As it was then; by the network that was left.
    pub link: BadLink,
    /// Did this node find that, and not the peer?
    pub own: bool,
}

/// What comes of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// The connections are to go by that network.
    pub(super) steer: Option<Network>,
    pub(super) tale: Option<Tale>,
    /// What was measured of this network is not to count any more.
    pub(super) forget: Option<Network>,
}

#[derive(Clone, Copy, Debug)]
enum Why {
    Bad(Left),
    Rested,
}

/// Of one peer.
#[derive(Debug, Default)]
pub(super) struct Choice {
    /// The network that its connections are to go by.
    wanted: Network,
    /// They were told, in that round, to go by the other one.
    moving: Option<(u64, Why)>,
    /// Looks in a row that have found all of them by the other one.
    away: u32,
    /// Nothing is asked for before this round.
    next: u64,
    /// What was left is tried again in this round.
    back_at: Option<u64>,
    /// How often a network was left since all was well for long, and when one was last left or returned to.
    leavings: u32,
    last: u64,
    left: Option<Left>,
    /// What would have been done was told.
    proposed: bool,
    /// What the peer said of each network when that was used again.
    heard: [Option<Accusation>; 2],
}

impl Choice {
    /// The network that its connections are to go by.
    pub(super) fn wanted(&self) -> Network {
        self.wanted
    }

    /// What was left, if something was.
    pub(super) fn left(&self) -> Option<&Left> {
        self.left.as_ref()
    }

    /// Are the connections about to leave that network?
    pub(super) fn is_leaving(&self, network: Network) -> bool {
        self.moving.is_some() && self.wanted == network
    }

    /// The peer has one network.
    pub(super) fn reset(&mut self) {
        *self = Choice::default();
    }

    /// What is to be done about a peer that has two networks.
    pub(super) fn decide(&mut self, round: u64, policy: SickPolicy, cut: BadLink, seen: &Seen) -> Step {
        let before = self.wanted;
        let step = self.step(round, policy, cut, seen);
        for network in Network::ALL {
            let told = seen.told[network.index()];
            let has_fallen_back = before != network && self.wanted == network;
            let is_back = has_fallen_back || step.tale == Some(Tale::Back(network));
            if is_back || !self.says_still(network, told) {
                self.heard[network.index()] = told.filter(|_| is_back);
            }
        }
        step
    }

    /// Does the peer still say what it did when this end came back to that network? Of one that it has left it says what it found before, and whom
    /// it names for all of those may change.
    fn says_still(&self, network: Network, now: Option<Accusation>) -> bool {
        let before = self.heard[network.index()];
        before
            .zip(now)
            .is_some_and(|(before, now)| now == before || !now.in_use && !before.in_use)
    }

    fn step(&mut self, round: u64, policy: SickPolicy, cut: BadLink, seen: &Seen) -> Step {
        let other = self.wanted.other();
        let (is_here, is_there) = (seen.on[self.wanted.index()], seen.on[other.index()]);
        if let Some((since, why)) = self.moving {
            return self.go_on(round, (is_here, is_there), since, why);
        }
        if is_there && !is_here {
            return self.is_away(round, cut);
        }
        self.away = 0;
        if is_here && self.left.is_some_and(|left| left.link.network == self.wanted) {
            return self.is_back(round, self.wanted);
        }
        if is_there && round >= self.next {
            // A core has taken what it could get.
            self.next = round + STAY_ROUNDS;
            return Step {
                steer: Some(self.wanted),
                ..Step::default()
            };
        }
        if self.back_at.is_some_and(|at| at <= round) {
            // Who is back there already has found it bad: that is measured, and would be forgotten.
            let is_bad_now = seen.used[other.index()] && seen.own[other.index()].is_some();
            if is_bad_now || seen.told[other.index()].is_some() && round < self.last + LONGEST_REST_ROUNDS {
                // The peer has not tried it again yet; where both wait for each other it is tried all the same.
                self.back_at = Some(round + STAY_ROUNDS);
                return Step::default();
            }
            return self.rested(round);
        }
        if is_here {
            self.judge(round, policy, seen)
        } else {
            Step::default()
        }
    }

    /// Is the link in use to be left?
    fn judge(&mut self, round: u64, policy: SickPolicy, seen: &Seen) -> Step {
        let other = self.wanted.other();
        let place = self.wanted.index();
        if !seen.is_bad(self.wanted) {
            self.proposed = false;
            return Step::default();
        }
        let own = seen.own[place].filter(goes_on).map(|link| (link, true));
        // What the peer has said before is of before.
        let told = seen.told[place].filter(|said| goes_on(&said.link));
        let told = told.filter(|said| !self.says_still(self.wanted, Some(*said)));
        let told = told.map(|said| (said.link, false));
        let Some((link, own)) = own.or(told) else {
            return Step::default();
        };
        // Who is cut off is reached by no network, or by the other one already.
        if link.what == LinkTrouble::Cut || seen.is_bad(other) || round < self.next {
            return Step::default();
        }
        let left = Left { link, own };
        match policy {
            SickPolicy::Off => Step::default(),
            SickPolicy::Propose => Step {
                tale: (!std::mem::replace(&mut self.proposed, true)).then_some(Tale::Would(left)),
                ..Step::default()
            },
            SickPolicy::Avoid | SickPolicy::Isolate => {
                self.moving = Some((round, Why::Bad(left)));
                Step {
                    steer: Some(other),
                    ..Step::default()
                }
            }
        }
    }

    /// The connections are on their way to the other network.
    fn go_on(&mut self, round: u64, (is_here, is_there): (bool, bool), since: u64, why: Why) -> Step {
        let other = self.wanted.other();
        if is_here || !is_there {
            if round >= since + MOVE_ROUNDS {
                self.moving = None;
                self.next = round + STAY_ROUNDS;
                self.back_at = self.back_at.map(|_| round + self.rest());
            }
            return Step::default();
        }
        (self.wanted, self.moving, self.away) = (other, None, 0);
        match why {
            Why::Rested => self.is_back(round, other),
            Why::Bad(left) => {
                self.count(round);
                self.left = Some(left);
                self.next = round + STAY_ROUNDS;
                self.back_at = Some(round + self.rest());
                Step {
                    tale: Some(Tale::Left(left)),
                    ..Step::default()
                }
            }
        }
    }

    /// All connections go by the other network, though nobody has said so: by this one they cannot be had.
    fn is_away(&mut self, round: u64, cut: BadLink) -> Step {
        self.away = self.away.saturating_add(1);
        if self.away == AWAY_ROUNDS {
            self.count(round);
            let left = Left { link: cut, own: true };
            self.left = Some(left);
            self.next = round + self.stay();
            // They are back where they were, sooner than was meant, and stay there: that is measured again, and the other one rests.
            let is_back = std::mem::take(&mut self.wanted) == Network::Second;
            self.back_at = is_back.then(|| round + self.rest());
            return Step {
                tale: Some(Tale::Left(left)),
                ..Step::default()
            };
        }
        let is_due = self.away > AWAY_ROUNDS && round >= self.next;
        if is_due {
            self.next = round + self.stay();
        }
        // A process that is started listens by one network before the other: before that is told of as a cut, it is tried once.
        let is_due = is_due || self.away == 1;
        Step {
            steer: is_due.then_some(self.wanted),
            ..Step::default()
        }
    }

    /// What was left is used again.
    fn is_back(&mut self, round: u64, network: Network) -> Step {
        self.left = None;
        self.back_at = None;
        self.proposed = false;
        self.last = round;
        self.next = round + STAY_ROUNDS;
        Step {
            tale: Some(Tale::Back(network)),
            forget: Some(network),
            ..Step::default()
        }
    }

    /// What was left for being bad has rested for long enough.
    fn rested(&mut self, round: u64) -> Step {
        self.back_at = None;
        let other = self.wanted.other();
        if self.wanted == Network::First {
            // Nothing goes there, and nothing is to.
            self.left = None;
            return Step {
                forget: Some(other),
                ..Step::default()
            };
        }
        self.back_at = Some(round);
        self.moving = Some((round, Why::Rested));
        Step {
            steer: Some(other),
            ..Step::default()
        }
    }

    fn count(&mut self, round: u64) {
        if round >= std::mem::replace(&mut self.last, round) + CLEAN_ROUNDS {
            self.leavings = 0;
        }
        self.leavings = self.leavings.saturating_add(1);
    }

    fn doubled(&self, rounds: u64, most: u64) -> u64 {
        (rounds << self.leavings.saturating_sub(1).min(8)).min(most)
    }

    fn rest(&self) -> u64 {
        self.doubled(REST_ROUNDS, LONGEST_REST_ROUNDS)
    }

    fn stay(&self) -> u64 {
        self.doubled(STAY_ROUNDS, LONGEST_STAY_ROUNDS)
    }
}

#[cfg(test)]
mod tests;
