//! Volumes that the session has locked for itself (RESERVE of SPC-2): what it has of them it gives up when it ends. Where a connection breaks
//! instead, the node sees that its front is gone; and [resets](super::resets) give up whosever they are.

use super::Session;
use crate::Cx;
use amita_frontend::reservation::Command;
use amita_types::VolumeId;
use std::collections::BTreeSet;

/// What a session knows of its locks.
#[derive(Debug, Default)]
pub(super) struct Locks {
    /// Volumes that it may have locked: it has asked for that.
    volumes: BTreeSet<VolumeId>,
    /// What was asked of volumes here and is not answered, by serials of tasks.
    pending: BTreeSet<u64>,
}

impl Locks {
    /// The session asks for that.
    pub fn note(&mut self, volume: VolumeId, command: &Command) {
        if matches!(command, Command::Lock { .. }) {
            self.volumes.insert(volume);
        }
    }

    /// Has all been answered?
    pub fn are_settled(&self) -> bool {
        self.pending.is_empty()
    }
}

/// The tag of what is asked for here, or of a reset. Those of tasks are even: they have no piece.
pub(super) fn tag(serial: u64) -> u64 {
    serial << 1 | 1
}

/// Is that the answer to something that was asked for here?
pub(super) fn answered(session: &mut Session, answered: u64) -> bool {
    let serial = answered >> 1;
    let is_ours = answered == tag(serial) && session.locks.pending.remove(&serial);
    if is_ours {
        session.functions.ended(serial);
    }
    is_ours
}

fn ask(session: &mut Session, volumes: Vec<VolumeId>, command: &Command, cx: &mut Cx<'_>) -> Vec<u64> {
    let (front, host) = (session.engine.front(), session.nexus.key());
    let mut serials = Vec::with_capacity(volumes.len());
    for volume in volumes {
        session.task_serial += 1;
        let serial = session.task_serial;
        session.locks.pending.insert(serial);
        cx.service.reserve(front, tag(serial), volume, host, command.clone());
        serials.push(serial);
    }
    serials
}

/// The nexus is lost, or was reset: it has locked nothing. Returns the serials of what is to be waited for.
pub(super) fn give_up(session: &mut Session, cx: &mut Cx<'_>) -> Vec<u64> {
    let volumes = std::mem::take(&mut session.locks.volumes).into_iter().collect();
    ask(session, volumes, &Command::Unlock, cx)
}
