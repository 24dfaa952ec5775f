//! What a core and the control plane of its node have for each other.

use crate::control::{FromCore, ToCore};
use amita_metadata::Call;
use amita_sequencer::CallId;
use std::collections::VecDeque;

/// The queues of one core from and to the control plane.
#[derive(Default)]
pub(super) struct ControlPlane {
    /// To be handled in the next pass.
    pub(super) inbox: VecDeque<ToCore>,
    pub(super) outbox: Vec<FromCore>,
}

impl ControlPlane {
    pub(super) fn tell(&mut self, what: FromCore) {
        self.outbox.push(what);
    }

    /// A line for the node's log.
    pub(super) fn warn(&mut self, text: String) {
        self.tell(FromCore::Warning(text));
    }

    /// Asks the metadata.
    pub(super) fn call(&mut self, call: CallId, request: Call) {
        self.tell(FromCore::Metadata { call, request });
    }
}
