//! What went wrong, how the controller is, and what it runs: error information (01h), SMART (02h), firmware slot (03h).

use super::super::page::Page;
use super::Logs;
use crate::admin::scope::Scope;
use crate::command::MORE;
use crate::failure::{Failure, Failures, MAX_FAILURES};

const ENTRY_BYTES: usize = 64;

impl Logs {
    /// Keeps a command that failed; the oldest is forgotten. Each has a number of its own, which rises by one.
    pub fn note(&mut self, failure: &Failure) {
        self.error_count += 1;
        self.errors.truncate(MAX_FAILURES - 1);
        self.errors.push_front((self.error_count, *failure));
    }

    /// Keeps what failed on I/O queues. What was forgotten on its way has had its numbers, so that the health log counts it
    /// and a host that follows the numbers sees that it has missed something.
    pub fn take(&mut self, failures: &Failures) {
        self.error_count += failures.forgotten();
        failures.kept().for_each(|failure| self.note(failure));
    }

    /// The volumes lie on many disks: there is no temperature, wear or time in use that would be the controller's. What it
    /// has done for its host is counted.
    pub(super) fn health_page(&self, scope: &Scope) -> Page {
        let counters = scope.session.shared.counters();
        // "In thousands of 512 byte units, rounded up."
        let data_units = |bytes: u64| u128::from(bytes.div_ceil(512 * 1000));
        let mut page = Page::new(512);
        page.u8(3, 100) // available spare, in per cent
            .u128(32, data_units(counters.read_bytes))
            .u128(48, data_units(counters.written_bytes))
            .u128(64, counters.reads.into())
            .u128(80, counters.writes.into())
            .u128(160, counters.media_errors.into())
            .u128(176, self.error_count.into());
        page
    }

    /// Newest first.
    pub(super) fn error_page(&self) -> Page {
        const TRANSPORT_TCP: u8 = 3;
        let mut page = Page::new(MAX_FAILURES * ENTRY_BYTES);
        for (index, (count, failure)) in self.errors.iter().enumerate() {
            let at = index * ENTRY_BYTES;
            page.u64(at, *count)
                .u16(at + 8, failure.queue)
                .u16(at + 10, failure.command)
                .u16(at + 12, failure.status.to_field() | MORE)
                .u16(at + 14, failure.location)
                .u64(at + 16, failure.lba)
                .u32(at + 24, failure.nsid)
                .u8(at + 29, if failure.is_of_transport() { TRANSPORT_TCP } else { 0 })
                .u8(at + 31, failure.opcode)
                .u8(at + 63, 1); // LPVER: the opcode is told
        }
        page
    }
}

/// One slot, with this version.
pub(super) fn firmware() -> Page {
    let mut page = Page::new(512);
    page.u8(0, 1).ascii(8, 8, env!("CARGO_PKG_VERSION"));
    page
}
