//! Commands that failed, on their way to the Error Information log page: see [`crate::failure`].

use super::fabrics::Role;
use super::*;
use crate::failure::Failure;
use crate::hub::Call;

impl Queue {
    /// A command has failed; `at`: at which byte of the volume, where that is known. False: there is no controller yet that
    /// could tell of it.
    ///
    /// The register is told at once of what fails on an I/O queue, before the host is, unless it is being told of others.
    pub(super) fn note_failure(&mut self, command: &Command, status: Status, at: Option<u64>, cx: &mut Cx<'_>) -> bool {
        match &mut self.role {
            Role::New | Role::Connecting { .. } => false,
            Role::Admin(role) => {
                role.admin.note(&Failure::of(0, command, status, None));
                true
            }
            Role::Io(role) => {
                let namespace = role
                    .subsystem
                    .as_ref()
                    .and_then(|known| known.namespace(command.nsid()));
                let lba = namespace.and_then(|namespace| Some(at? / u64::from(namespace.block_bytes)));
                role.failures
                    .push(Failure::of(role.connect.queue, command, status, lba));
                self.tell_failures(cx);
                true
            }
        }
    }

    /// Answers a command that failed, and keeps it for the log.
    pub(super) fn respond_failed(
        &mut self,
        command: &Command,
        status: Status,
        at: Option<u64>,
        result: u64,
        cx: &mut Cx<'_>,
    ) {
        let more = match self.note_failure(command, status, at, cx) {
            true => MORE,
            false => 0,
        };
        self.respond_with(command.id(), status.to_field() | more, result, cx);
    }

    fn tell_failures(&mut self, cx: &mut Cx<'_>) {
        let Role::Io(role) = &mut self.role else { return };
        if role.telling || role.failures.is_empty() {
            return;
        }
        role.telling = true;
        let failures = std::mem::take(&mut role.failures);
        cx.service
            .register(self.engine.front(), 0, Box::new(Call::Failed(failures)));
    }

    /// The register has taken what failed.
    pub(super) fn failures_noted(&mut self, cx: &mut Cx<'_>) {
        if let Role::Io(role) = &mut self.role {
            role.telling = false;
        }
        self.tell_failures(cx);
    }
}
