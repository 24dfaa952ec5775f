//! What a queue is, and for whom.

use super::End;
use super::silence::Watch;
use crate::admin::{Admin, ControllerShared};
use crate::catalog::{HostAccess, Subsystem};
use crate::connection::connect::Connect;
use crate::failure::Failures;
use crate::hub::{Gate, Party, Shared};
use crate::tls::PskIdentity;
use amita_frontend::front::CloseReason;
use amita_frontend::service::HostKey;
use amita_frontend::slots::SlotId;
use amita_reactor::Time;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// What is known of a connection beside what it says.
#[derive(Clone, Debug)]
pub(crate) struct Login {
    /// Where it has come in.
    pub local: SocketAddr,
    /// Where it comes from, as hosts are told apart by that.
    pub peer: IpAddr,
    /// Who has shown by TLS to be there.
    pub tls: Option<Box<PskIdentity>>,
    /// What the settings said of that host when its key was chosen.
    pub access: Option<Arc<HostAccess>>,
}

/// What the queue is.
pub(crate) enum Role {
    /// Not connected.
    New,
    /// The register is being asked, for this command.
    Connecting {
        slot: SlotId,
        connect: Box<Connect>,
        asked: Asked,
    },
    /// Connect is answered, and the host has still to prove itself: it has no controller yet, nor a queue of one.
    Proving(Box<Connect>),
    /// The admin queue of a controller.
    Admin(Box<AdminRole>),
    /// An I/O queue.
    Io(Box<IoRole>),
}

/// What the register is being asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Which number the controller would have: Connect is answered with it.
    Number,
    /// For a place, of a host that has nothing to prove (any more): Connect is answered then.
    Place,
    /// For a place, of a host that has proven itself just now: then it gets this, the last message of its authentication.
    PlaceOfProven(Vec<u8>),
}

/// The admin queue.
pub(crate) struct AdminRole {
    pub admin: Admin,
    pub party: Party,
    pub shared: Arc<ControllerShared>,
    /// That of the I/O queues, while the controller is enabled.
    pub gate: Option<Arc<Gate>>,
    pub host: HostKey,
}

/// An I/O queue.
pub(crate) struct IoRole {
    /// The subsystem of the moment; none when it was removed.
    pub subsystem: Option<Arc<Subsystem>>,
    pub connect: Box<Connect>,
    pub shared: Shared,
    pub host: HostKey,
    /// What has failed and the register has not been told.
    pub failures: Failures,
    /// Is the register being told of others?
    pub telling: bool,
}

impl Role {
    /// The subsystem of an I/O queue.
    pub(crate) fn subsystem(&self) -> Option<&Arc<Subsystem>> {
        match self {
            Role::Io(role) => role.subsystem.as_ref(),
            _ => None,
        }
    }

    /// The identifier of an I/O queue's host.
    pub(crate) fn host_id(&self) -> [u8; 16] {
        match self {
            Role::Io(role) => role.connect.party.host_id,
            _ => [0; 16],
        }
    }

    /// The host, as reservations know it.
    pub(crate) fn host(&self) -> HostKey {
        match self {
            Role::Io(role) => role.host,
            Role::Admin(role) => role.host,
            _ => HostKey::NONE,
        }
    }

    pub(crate) fn is_admin(&self) -> bool {
        matches!(self, Role::Admin(_))
    }

    /// Who has connected, and to what.
    pub(super) fn party(&self) -> Option<Party> {
        match self {
            Role::New => None,
            Role::Connecting { connect, .. } | Role::Proving(connect) => Some(connect.party.clone()),
            Role::Admin(role) => Some(role.party.clone()),
            Role::Io(role) => Some(role.connect.party.clone()),
        }
    }

    /// An I/O queue whose controller is gone does nothing any more.
    pub(super) fn check_gate(&self) -> Result<(), End> {
        match self {
            Role::Io(role) if role.shared.gate.is_shut() => {
                Err(End::Now(CloseReason::Refused("the controller is gone".into())))
            }
            _ => Ok(()),
        }
    }

    /// When time matters next to the controller, or to who watches the host.
    pub(super) fn deadline(&self, watch: &Watch) -> Option<Time> {
        match self {
            Role::Admin(role) => role.admin.deadline(),
            Role::Io(_) => watch.look_at,
            _ => None,
        }
    }
}
