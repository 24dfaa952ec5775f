//! Capsules that come and completions that go. The submission queue exists only in the host's and our counts of them.

use crate::Cx;
use crate::command::{COMPLETION_BYTES, Status};
use crate::wire::Link;

/// Capsules that come and completions that go.
pub(crate) struct Capsules {
    pub link: Link,
    sq: Submission,
    pub(super) ids: Ids,
}

impl Capsules {
    pub(super) fn new(link: Link) -> Capsules {
        Capsules {
            link,
            // Until it is connected there is the one command that connects it.
            sq: Submission::new(2, true),
            ids: Ids::default(),
        }
    }

    /// A command has come; false when the queue had no entry for it.
    pub(super) fn receive(&mut self) -> bool {
        self.sq.receive(self.ids.len())
    }

    /// The Connect command has told the size of the queue.
    pub(super) fn resize(&mut self, entries: u16, flow_control: bool) {
        self.sq.resize(entries, flow_control);
    }

    /// Does the host get every completion, for the head of the queue that it tells?
    pub fn has_flow_control(&self) -> bool {
        self.sq.has_flow_control()
    }

    /// Sends a completion (NVM Express Base 2.1, 4.2.1).
    pub(super) fn respond(&mut self, id: u16, status: Status, result: u64, cx: &mut Cx<'_>) {
        self.respond_with(id, status.to_field(), result, cx);
    }

    /// The same, with the status field as it is sent.
    pub(super) fn respond_with(&mut self, id: u16, status_field: u16, result: u64, cx: &mut Cx<'_>) {
        let mut completion = [0; COMPLETION_BYTES];
        completion[..8].copy_from_slice(&result.to_le_bytes());
        completion[8..10].copy_from_slice(&self.sq.report().to_le_bytes());
        completion[12..14].copy_from_slice(&id.to_le_bytes());
        completion[14..].copy_from_slice(&status_field.to_le_bytes());
        self.link.respond(&completion, cx.outbox, cx.pool);
    }
}

/// The submission queue's counts (NVM Express Base 2.1, 3.3.1.5, flow control of Fabrics).
#[derive(Clone, Copy, Debug)]
struct Submission {
    entries: u16,
    flow_control: bool,
    /// Commands that came, modulo the entries: the head, as each is taken as it comes.
    head: u16,
    /// Commands that came since the head was told.
    untold: u16,
}

impl Submission {
    pub fn new(entries: u16, flow_control: bool) -> Submission {
        Submission {
            entries,
            flow_control,
            head: 0,
            untold: 0,
        }
    }

    /// The Connect command has told the size; it is the first command itself.
    pub fn resize(&mut self, entries: u16, flow_control: bool) {
        *self = Submission {
            head: 1 % entries,
            untold: 1,
            ..Submission::new(entries, flow_control)
        };
    }

    /// A command has come, while so many are under way; false when there was no entry for it.
    pub fn receive(&mut self, under_way: usize) -> bool {
        // A queue is full when all but one of its entries are taken; without flow control they are taken until their
        // commands are completed.
        let taken = match self.flow_control {
            true => usize::from(self.untold),
            false => under_way,
        };
        if taken >= usize::from(self.entries) {
            return false;
        }
        self.untold = self.untold.saturating_add(1);
        self.head = (self.head + 1) % self.entries;
        true
    }

    /// The head, for a completion.
    pub fn report(&mut self) -> u16 {
        if !self.flow_control {
            // "A value of FFFFh [...] SQ flow control is disabled" in the answer to Connect; later it means nothing.
            return 0xffff;
        }
        self.untold = 0;
        self.head
    }

    pub fn has_flow_control(&self) -> bool {
        self.flow_control
    }
}

/// The identifiers of the commands under way.
#[derive(Debug, Default)]
pub(super) struct Ids(Vec<u16>);

impl Ids {
    /// Adds one; false when it is there.
    pub fn insert(&mut self, id: u16) -> bool {
        // A few dozen, side by side: nothing finds one faster.
        if self.0.contains(&id) {
            return false;
        }
        self.0.push(id);
        true
    }

    pub fn remove(&mut self, id: u16) {
        if let Some(index) = self.0.iter().position(|known| *known == id) {
            self.0.swap_remove(index);
        }
    }

    /// All of them, which are gone then.
    pub fn take(&mut self) -> Vec<u16> {
        std::mem::take(&mut self.0)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}
