//! Commands that failed, on their way to the Error Information log page: see [`crate::failure`].

use super::Queue;
use super::role::Role;
use crate::Cx;
use crate::command::{Command, Status};
use crate::failure::Failure;
use crate::hub::Call;
use amita_frontend::engine::Engine;

impl Role {
    /// A command has failed; `at`: at which byte of the volume, where that is known. False: there is no controller yet that
    /// could tell of it.
    ///
    /// The register is told at once of what fails on an I/O queue, before the host is, unless it is being told of others.
    pub(super) fn note_failure(
        &mut self,
        engine: &Engine<Queue>,
        command: &Command,
        status: Status,
        at: Option<u64>,
        cx: &mut Cx<'_>,
    ) -> bool {
        match self {
            Role::New | Role::Connecting { .. } | Role::Proving(_) => false,
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
                self.tell_failures(engine, cx);
                true
            }
        }
    }

    fn tell_failures(&mut self, engine: &Engine<Queue>, cx: &mut Cx<'_>) {
        let Role::Io(role) = self else { return };
        if role.telling || role.failures.is_empty() {
            return;
        }
        role.telling = true;
        let failures = std::mem::take(&mut role.failures);
        cx.service.register(engine.front(), 0, Box::new(Call::Failed(failures)));
    }

    /// The register has taken what failed.
    pub(super) fn failures_noted(&mut self, engine: &Engine<Queue>, cx: &mut Cx<'_>) {
        if let Role::Io(role) = self {
            role.telling = false;
        }
        self.tell_failures(engine, cx);
    }
}
