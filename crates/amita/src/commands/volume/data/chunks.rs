//! Which chunks may have been changed: told by whoever sequences them, many at one time (decision 045), so that of a large volume of which little
//! was changed not every chunk is asked for.

use super::{Data, LOOK, MOST_REQUESTS, described};
use amita_client::ChangedSearch;
use amita_terminal::error::Result;

impl Data {
    /// May something of the chunk that holds this byte have been changed? Where it is not known it may.
    pub fn may_be_changed(&self, offset: u64) -> bool {
        self.known.may_be_changed(offset / self.chunk_bytes())
    }

    /// Asks which chunks may have been changed from the one on that holds this byte, if that is not known. Returns to where it was asked: the first byte
    /// of a chunk behind this one. Not where so few chunks are left that all of them can be asked for at one time, or something else is under way.
    ///
    /// # Errors
    /// The client has ended, or the command is to. That nobody knows is none.
    pub fn learn_changed(&mut self, offset: u64) -> Result<u64> {
        let chunk = self.chunk_bytes();
        let (first, end) = (offset / chunk, self.size_bytes().div_ceil(chunk));
        if self.known.has(first) {
            return Ok(self.known.end() * chunk);
        }
        if end.saturating_sub(first) <= MOST_REQUESTS as u64 || !self.is_idle() {
            return Ok(u64::MAX);
        }
        let mut search = ChangedSearch::new(first, end);
        loop {
            let questions = search.questions();
            if questions.is_empty() {
                break;
            }
            for asked in &questions {
                let offset = asked * chunk;
                let started = self.queue.changed_chunks(&self.volume, offset, offset);
                started.map_err(|why| described(&why))?;
                self.under_way.begin(offset, 0);
            }
            for asked in questions {
                while self.under_way.is_oldest_done() == Some(false) {
                    self.take(LOOK)?;
                }
                let told = self.under_way.pop_done().filter(|(_, done)| done.result.is_ok());
                let told = told.and_then(|(_, done)| done.payload.changed_chunks());
                search.answered(asked, told.as_ref());
            }
        }
        self.known = search;
        Ok(self.known.end() * chunk)
    }
}
