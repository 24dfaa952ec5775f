//! Locks: the exclusive reservations of SPC-2 (RESERVE, RELEASE), which old clusters and some appliances know alone.
//!
//! A lock is one nexus's, and ends with it: by RELEASE, by a reset of the logical unit, and when the nexus is lost. So it is kept with the
//! connection by which it was taken. That connection's gateway gives it up when the connection is gone, and the volume's owner when the gateway
//! is: by naming the very lock ([`Command::Expire`](super::Command::Expire)), so that it does not matter how late or how often it is said. A
//! nexus that logs in again and locks anew has another lock.
//!
//! Persistent reservations and locks exclude each other (SPC-2 5.5.1; SPC-4, "Exceptions to SPC-2 RESERVE and RELEASE behavior"): whoever
//! comes first has it.

use super::{Command, Refusal, State};
use crate::service::{FrontId, HostKey};
use serde::{Deserialize, Serialize};

/// A connection of a host, of all in the cluster and for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Connection {
    /// The run of its gateway's program: the session by which that lives in the cluster.
    pub run: u64,
    /// The core there, and its front on that ([`FrontId`]).
    pub core: u16,
    /// See `core`.
    pub front: u64,
}

/// The volume is this host's alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    pub host: HostKey,
    /// It ends with this.
    pub by: Connection,
}

impl Command {
    /// The same, as it comes by that connection: what a front has said of it does not count.
    #[must_use]
    pub fn by(self, run: u64, core: u16, front: FrontId) -> Command {
        match self {
            Command::Lock { .. } => Command::Lock {
                by: Connection {
                    run,
                    core,
                    front: front.0,
                },
            },
            command => command,
        }
    }
}

impl State {
    /// Does a lock keep everybody from that? "[...] all PERSISTENT RESERVE IN commands and all PERSISTENT RESERVE OUT commands shall conflict
    /// regardless of initiator" (SPC-2 5.5.1). Looking is not kept from hosts of NVMe, which know no locks; a front of SCSI refuses it.
    pub(super) fn is_kept_by_lock(&self, command: &Command) -> bool {
        let is_free = matches!(
            command,
            Command::Report
                | Command::Persist(_)
                | Command::Lock { .. }
                | Command::Unlock
                | Command::Reset
                | Command::Expire(_)
        );
        self.locked.is_some() && !is_free
    }

    /// What registrants say of RESERVE and RELEASE: nothing, where nobody is registered. To who holds the persistent reservation, or shares in
    /// one that is for registrants, both are good and change nothing (SPC-4, "Exceptions [...]"); to all others they conflict (SPC-2 5.5.1).
    fn ignores_locks_of(&self, host: HostKey) -> Result<bool, Refusal> {
        if self.registrants.is_empty() {
            return Ok(false);
        }
        let is_shared = self.held.is_some_and(|held| held.kind.is_for_registrants());
        match self.is_holder(host) || is_shared && self.registrant(host).is_some() {
            true => Ok(true),
            false => Err(Refusal::Conflict),
        }
    }

    pub(super) fn lock(&mut self, lock: Lock) -> Result<(), Refusal> {
        if self.ignores_locks_of(lock.host)? {
            return Ok(());
        }
        match self.locked {
            Some(other) if other.host != lock.host => Err(Refusal::Conflict),
            // Who has it may lock again, and has it by this connection then.
            _ => {
                self.locked = Some(lock);
                Ok(())
            }
        }
    }

    /// "It is not an error for an initiator to release what it has not reserved" (SPC-2, RELEASE).
    pub(super) fn unlock(&mut self, host: HostKey) -> Result<(), Refusal> {
        if !self.ignores_locks_of(host)? {
            self.locked.take_if(|lock| lock.host == host);
        }
        Ok(())
    }

    pub(super) fn expire(&mut self, lock: Lock) {
        self.locked.take_if(|known| *known == lock);
    }
}
