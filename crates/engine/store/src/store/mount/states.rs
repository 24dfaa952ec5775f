//! The pages of states that the checkpoint names are read, many at once where they lie side by side.

use super::{Mount, Phase, STEP_PAGES};
use crate::error::MountError;
use crate::format::{PAGE_BYTES, states};
use crate::store::Store;

impl Mount {
    /// Reads the pages from this one on, of those that lie side by side.
    pub(super) fn read_state_pages(&mut self, store: &mut Store, at: usize) -> Result<(), MountError> {
        let all = &self.loaded.state_pages;
        let first = all[at].slot;
        let most = if self.reading.narrow { 1 } else { STEP_PAGES };
        let beside = (0..most)
            .zip(&all[at..])
            .take_while(|(n, page)| u64::from(page.slot.0) == u64::from(first.0) + n);
        let bytes = beside.count() * PAGE_BYTES;
        self.read(store, store.superblock.geometry.slot_offset(first), bytes);
        Ok(())
    }

    /// Takes their states over. One that is wrong is read once more; then the store is refused, as where a page of the checkpoint
    /// itself is wrong: nobody knows what it said.
    pub(super) fn state_pages_read(&mut self, store: &mut Store, at: usize, buffer: &[u8]) -> Result<(), MountError> {
        let slots = store.superblock.geometry.slots;
        for (n, page) in (at..).zip(buffer.chunks_exact(PAGE_BYTES)) {
            let look = self.loaded.state_pages[n];
            let chunk = store.index.chunk(look.chunk).id;
            let decoded = states::decode(page, store.env.id, chunk, look.sum, slots);
            let decoded = match decoded {
                Err(_) if !self.loaded.state_page_again => {
                    self.loaded.state_page_again = true;
                    store.report.read_again += 1;
                    self.phase = Phase::States(n);
                    return Ok(());
                }
                decoded => decoded.and_then(|decoded| store.index.load_state_page(look, &decoded)),
            };
            decoded.map_err(|what| MountError::CheckpointDamaged {
                offset: store.superblock.geometry.slot_offset(look.slot),
                what: format!("the page has states of chunk {chunk}: {what}"),
            })?;
            self.loaded.state_page_again = false;
            self.phase = Phase::States(n + 1);
        }
        Ok(())
    }
}
