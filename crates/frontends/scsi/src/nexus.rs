//! What is kept of an initiator port and a target port (an I_T nexus: SAM-5): a session of iSCSI.

use crate::sense::{Code, Format, code};
use crate::unit::{Alua, Catalog, Target, Unit};
use amita_frontend::HostKey;
use aws_lc_rs::digest::{Context, SHA256};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An initiator port of iSCSI: its name and the initiator's part of the session's identifier (RFC 7143, 4.4.1: the port's name is
/// both, as `NAME,i,0xISID`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InitiatorPort {
    /// Its iSCSI name, canonical.
    pub name: Arc<str>,
    pub isid: [u8; 6],
}
