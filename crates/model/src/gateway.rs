//! R9 on its own: a gateway that forwards, freezes, and wakes up.
//!
//! A host writes W1 by gateway 1, hears nothing, repeats it by gateway 2 once the lease of gateway 1 has lapsed, and then writes W2
//! to the same place. Whatever gateway 1 still has of W1 must not arrive at the owner after that.

use stateright::{Model, Property};

/// R9, and its two halves as switches.
#[derive(Clone, Copy, Debug)]
pub struct Gateways {
    /// The owner refuses what carries a session that has lapsed.
    pub session: bool,
    /// A gateway whose lease has lapsed drops what it had read and its connections, before it goes on under a new session.
    pub drops_input: bool,
}

/// What the host has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// Nothing.
    Idle,
    /// W1 by gateway 1.
    First,
    /// W1 again, by gateway 2.
    Again,
    /// W1 is acknowledged.
    Acknowledged,
    /// W2 by gateway 2.
    Second,
    /// W2 is acknowledged.
    Done,
}

/// The whole state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The host.
    pub host: Host,
    /// W1 is in gateway 1, not forwarded.
    pub input: bool,
    /// The session that gateway 1 goes by.
    pub session: u8,
    /// The session of gateway 1 that took the host's connection.
    pub connected: u8,
    /// The session of gateway 1 that has not lapsed; 0: none.
    pub valid: u8,
    /// W1 on its way to the owner, with its session; 0: not.
    pub forwarded: u8,
    /// What the place holds.
    pub value: u8,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The host goes on.
    Host,
    /// Gateway 1 forwards what it has.
    Forward,
    /// The owner takes what gateway 1 forwarded.
    Take,
    /// The lease of gateway 1 lapses.
    Lapse,
    /// Gateway 1 notices, and gets a new session.
    Renew,
    /// What gateway 2 has forwarded arrives.
    Other,
}

impl Model for Gateways {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            host: Host::Idle,
            input: false,
            session: 1,
            connected: 0,
            valid: 1,
            forwarded: 0,
            value: 0,
        }]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        use Action::{Forward, Host, Lapse, Other, Renew, Take};
        actions.extend([Host, Forward, Take, Lapse, Renew, Other]);
    }

    fn next_state(&self, s: &State, action: Action) -> Option<State> {
        let mut next = *s;
        match action {
            Action::Host => {
                next.host = match s.host {
                    Host::Idle => Host::First,
                    Host::First if s.valid != s.connected => Host::Again,
                    Host::Acknowledged => Host::Second,
                    _ => return None,
                };
                if next.host == Host::First {
                    (next.input, next.connected) = (true, s.session);
                }
            }
            Action::Forward if s.input && s.forwarded == 0 => {
                next.input = false;
                next.forwarded = s.session;
            }
            Action::Take if s.forwarded != 0 => {
                next.forwarded = 0;
                if s.forwarded == s.valid || !self.session {
                    next.value = 1;
                }
            }
            Action::Lapse if s.valid == 1 => next.valid = 0,
            Action::Renew if s.valid == 0 => {
                (next.session, next.valid) = (2, 2);
                next.input &= !self.drops_input;
            }
            Action::Other => {
                (next.host, next.value) = match s.host {
                    Host::Again => (Host::Acknowledged, 1),
                    Host::Second => (Host::Done, 2),
                    _ => return None,
                };
            }
            _ => return None,
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("what was acknowledged last is there", |_, s: &State| {
                s.host != Host::Done || s.value == 2
            }),
            Property::sometimes("W2 is acknowledged", |_, s: &State| s.host == Host::Done),
        ]
    }
}
