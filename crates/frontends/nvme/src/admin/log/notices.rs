//! Reservation notifications (80h; NVM Express Base 2.1, 5.1.12.1.32): a host reads them one by one.

use super::super::page::Page;
use amita_frontend::reservation::Notice;
use std::collections::VecDeque;

/// Notifications that wait to be read. "When more occur, the oldest are lost", which the count shows.
const WAITING: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    count: u64,
    nsid: u32,
    notice: Notice,
}

#[derive(Debug, Default)]
pub(crate) struct Notices {
    count: u64,
    waiting: VecDeque<Entry>,
}

impl Notices {
    pub fn push(&mut self, nsid: u32, notice: Notice) {
        self.count = self.count.checked_add(1).unwrap_or(1);
        if self.waiting.len() >= WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(Entry {
            count: self.count,
            nsid,
            notice,
        });
    }

    /// The namespace is gone.
    pub fn forget(&mut self, nsid: u32) {
        self.waiting.retain(|entry| entry.nsid != nsid);
    }

    /// The oldest; an empty page when there is none.
    pub fn page(&self) -> Page {
        let mut page = Page::new(64);
        if let Some(entry) = self.waiting.front() {
            // "Number of available log pages": besides this one.
            page.u64(0, entry.count)
                .u8(8, entry.notice as u8)
                .u8(9, (self.waiting.len() - 1).min(255) as u8)
                .u32(12, entry.nsid);
        }
        page
    }

    /// The oldest was read. Is there another?
    pub fn next(&mut self) -> bool {
        self.waiting.pop_front();
        !self.waiting.is_empty()
    }
}
