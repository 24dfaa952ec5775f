//! A protocol, for one connection of a host.

use crate::service::{Event, StorageService};
use amita_reactor::{Inbox, Outbox, Pool, Time};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Whether a connection goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Flow {
    Go,
    /// Close it now. What the host should still have got was sent before this was said.
    Close {
        reason: CloseReason,
    },
}

/// Why a front closes its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// The host has said good-bye.
    Goodbye,
    /// The host did not finish its handshake in time, or did not take what it was sent at the end.
    Timeout,
    /// The host's machine has not acknowledged for long what it was sent.
    Unheard,
    /// The host broke the protocol, and nothing that follows could be understood: what it did.
    Protocol(&'static str),
    /// The host asked for what it cannot have, by a way that knows no error answer: what it was.
    Refused(String),
    /// TLS failed: why.
    Tls(String),
    /// The volume is no longer served here, or answered so that a reply that had begun could not be finished.
    Storage(&'static str),
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseReason::Goodbye => f.write_str("the host disconnected"),
            CloseReason::Timeout => f.write_str("the host was too slow"),
            CloseReason::Unheard => f.write_str("the host's machine does not answer any more"),
            CloseReason::Protocol(what) => write!(f, "the host broke the protocol: {what}"),
            CloseReason::Refused(what) => write!(f, "refused: {what}"),
            CloseReason::Tls(what) => write!(f, "TLS failed: {what}"),
            CloseReason::Storage(what) => f.write_str(what),
        }
    }
}

/// A protocol's state machine for one connection.
///
/// Its caller owns the connection and its two boxes. In each pass it calls [`Front::received`] when bytes have come in,
/// [`Front::event`] for each event, [`Front::tick`] when [`Front::deadline`] has come, and last, for every front that
/// had any of these *or a finished send*, [`Front::end_pass`] once; then it sends what the outbox holds, and receives
/// more if [`Front::wants_input`]. That is how limits work: a front that holds as much as it may leaves the rest of the
/// inbox where it is and wants no input, and goes on in `end_pass` when I/O has ended or the host has taken its answers.
/// (The caller may leave a receive standing when input is no longer wanted; it just starts no further one.)
///
/// After [`Flow::Close`] the connection is closed and [`Front::closed`] is called, also when the host has gone by itself.
/// (All other calls change nothing then.)
pub trait Front {
    /// Handles what is in the inbox: all of it, but for an incomplete frame at its end or what its limits forbid.
    fn received(
        &mut self,
        now: Time,
        inbox: &mut Inbox,
        outbox: &mut Outbox,
        pool: &Pool,
        service: &mut dyn StorageService,
    ) -> Flow;

    /// Handles what came back from the service.
    fn event(
        &mut self,
        now: Time,
        event: Event,
        outbox: &mut Outbox,
        pool: &Pool,
        service: &mut dyn StorageService,
    ) -> Flow;

    /// Time has passed.
    fn tick(&mut self, now: Time, outbox: &mut Outbox, pool: &Pool, service: &mut dyn StorageService) -> Flow;

    /// When [`Front::tick`] wants to be called; `None`: not before something else happens.
    fn deadline(&self) -> Option<Time>;

    /// Shall more be received?
    fn wants_input(&self) -> bool;

    /// Has the host still to show that it may be here? Whoever accepts connections keeps few of those, from one address fewer, so that those
    /// who only connect are in nobody's way. The answer changes once, to false.
    fn is_stranger(&self) -> bool {
        false
    }

    /// Has the host shown by more than where it comes from that it may be here? While strangers flood, others from its address are let in.
    /// The answer changes once, to true.
    fn is_known(&self) -> bool {
        !self.is_stranger()
    }

    /// The client that the host has proven to be, for a bound on what one has. The answer changes once, from `None`.
    fn client(&self) -> Option<Arc<str>> {
        None
    }

    /// How long the host's machine may be silent, where the protocol itself never asks for it; `None`: that is the protocol's affair.
    fn peer_patience(&self) -> Option<Duration> {
        None
    }

    /// Itself, as what it is: for who knows of which protocol it may be, and looks at what it says of its session.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }

    /// The size of block to receive into (`Inbox::start_receive`): small while little is known of the host.
    fn receive_bytes(&self) -> usize;

    /// The last call of a pass: starts what waited for room, and takes up input that was left lying.
    fn end_pass(
        &mut self,
        now: Time,
        inbox: &mut Inbox,
        outbox: &mut Outbox,
        pool: &Pool,
        service: &mut dyn StorageService,
    ) -> Flow;

    /// The connection is gone: gives back what the service holds for it.
    fn closed(&mut self, service: &mut dyn StorageService);
}
