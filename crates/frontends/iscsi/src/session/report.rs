//! What a session is, for a person who looks.

use super::Session;
use crate::negotiation::Agreed;
use amita_reactor::Time;
use std::net::SocketAddr;

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionReport {
    /// The initiator's name.
    pub initiator: String,
    /// Has it proven that the name is its own?
    pub is_proven: bool,
    /// The target's name; none: it is there to discover.
    pub target: Option<String>,
    /// The initiator's part of the session's identifier, and the target's.
    pub isid: [u8; 6],
    pub tsih: u16,
    /// The tag of the portal group, and which of its portals the initiator has come to, as far as that is known.
    pub tag: u16,
    pub portal: Option<SocketAddr>,
    /// When the login was over, and when something came last, on the clock of whoever drives the session.
    pub since: Time,
    pub heard: Time,
    /// What was agreed on, and the most data of a PDU to the target, which was declared.
    pub agreed: Agreed,
    pub max_receive: usize,
    /// Commands that may be under way, and tasks that are.
    pub commands: u16,
    pub under_way: usize,
}

impl Session {
    /// The names of the initiator and of the target.
    pub fn ends(&self) -> (&str, Option<&str>) {
        (&self.names.initiator, self.names.target.as_deref())
    }

    /// `portal`: the one that the initiator has come to.
    pub fn report(&self, portal: Option<SocketAddr>) -> SessionReport {
        SessionReport {
            initiator: self.names.initiator.clone(),
            is_proven: self.rests_on.is_some(),
            target: self.names.target.clone(),
            isid: self.isid,
            tsih: self.tsih,
            tag: self.catalog.tag().unwrap_or_default(),
            portal,
            since: self.since,
            heard: self.watch.heard_at(),
            agreed: self.agreed.clone(),
            max_receive: self.link.max_receive,
            commands: self.port.config().commands,
            under_way: self.tags.len(),
        }
    }
}
