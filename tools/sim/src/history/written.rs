//! Which blocks may have been written meanwhile.

use super::{History, Kind};

impl History {
    /// May a block have been written, or cleared, between two events? Not where nothing was asked for that touches it, or where that
    /// was answered before, and sent once.
    #[must_use]
    pub fn may_be_written(&self, block: u64, (from, to): (u64, u64)) -> bool {
        let touches = |first: u64, last: u64| (first..=last).contains(&block);
        self.operations.iter().any(|operation| {
            let last = super::Sector(operation.first.0 + u64::from(operation.sectors) - 1);
            let was_done = operation.completed.is_some_and(|(event, _)| event < from);
            let comes_late = operation.sent_again > 0 || operation.lost_at.is_some();
            operation.kind != Kind::Read
                && touches(operation.first.block(), last.block())
                && operation.invoked.0 <= to
                && (!was_done || comes_late)
        })
    }

    /// Was a block written, by what was asked for after an event and acknowledged?
    #[must_use]
    pub fn was_written_after(&self, block: u64, from: u64) -> bool {
        self.operations.iter().any(|operation| {
            let last = super::Sector(operation.first.0 + u64::from(operation.sectors) - 1);
            operation.kind == Kind::Write
                && matches!(operation.outcome, super::Outcome::Done(_))
                && (operation.first.block()..=last.block()).contains(&block)
                && operation.invoked.0 > from
        })
    }
}
