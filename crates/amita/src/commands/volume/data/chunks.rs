//! Which chunks may have been changed: told by whoever sequences them, many at one time (decision 045), so that of a large volume of which little
//! was changed not every chunk is asked for.

use super::{Data, described};
use amita_client::{CHANGED_CHUNKS, ChangedChunks};
use amita_terminal::error::Result;

/// Fewer than this are asked for one by one: they are under way at one time.
const FEW: u64 = super::MOST_REQUESTS as u64;
/// So many cores are asked at one time at most.
const MOST_AT_ONCE: usize = 64;

/// What is known of some chunks.
#[derive(Default)]
pub(super) struct Known {
    /// The first one's index.
    first: u64,
    chunks: ChangedChunks,
    is_asked: bool,
}

impl Known {
    fn place(&self, chunk: u64) -> Option<usize> {
        let at = usize::try_from(chunk.checked_sub(self.first)?).ok()?;
        (self.is_asked && at < CHANGED_CHUNKS).then_some(at)
    }

    fn may_be_changed(&self, chunk: u64) -> bool {
        let at = self.place(chunk);
        at.and_then(|at| self.chunks.of(at)).unwrap_or(true)
    }
}

impl Data {
    /// May something of the chunk that holds this byte have been changed? Where it is not known it may.
    pub fn may_be_changed(&self, offset: u64) -> bool {
        self.known.may_be_changed(offset / self.chunk_bytes())
    }

    /// Asks which chunks may have been changed from this byte on, if that is not known, and nothing else is under way.
    ///
    /// # Errors
    /// The client has ended, or the command is to. That nobody knows is none.
    pub fn learn_changed(&mut self, offset: u64) -> Result<()> {
        let chunk = self.chunk_bytes();
        let first = offset / chunk;
        let count = self.size_bytes().div_ceil(chunk).saturating_sub(first);
        if count <= FEW || self.known.place(first).is_some() || self.under_way.place().is_some() {
            return Ok(());
        }
        let count = CHANGED_CHUNKS.min(usize::try_from(count).unwrap_or(usize::MAX));
        let mut chunks = ChangedChunks::default();
        // Each core answers for its own: one is asked first, for it may be the only one, and then more and more of them.
        let mut at_once = 1;
        loop {
            let unknown = (0..count).filter(|&at| chunks.of(at).is_none());
            let unknown: Vec<usize> = unknown.take(at_once).collect();
            if unknown.is_empty() {
                break;
            }
            for at in &unknown {
                let offset = (first + *at as u64) * chunk;
                let started = self.queue.changed_chunks(&self.volume, offset, offset);
                started.map_err(|why| described(&why))?;
                self.under_way.begin(offset, 0);
            }
            for _ in &unknown {
                while self.under_way.is_oldest_done() == Some(false) {
                    self.take(super::LOOK)?;
                }
                let told = self.under_way.pop_done().filter(|(_, done)| done.result.is_ok());
                if let Some(told) = told.and_then(|(_, done)| done.payload.changed_chunks()) {
                    chunks.merge(&told);
                }
            }
            // Whoever has opened the volume since, and whose version has no such answer, knows of none.
            if unknown.iter().any(|&at| chunks.of(at).is_none()) {
                break;
            }
            at_once = MOST_AT_ONCE.min(2 * at_once);
        }
        self.known = Known {
            first,
            chunks,
            is_asked: true,
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_answers_for_may_have_been_changed() {
        let mut known = Known {
            first: 1000,
            ..Known::default()
        };
        assert!(known.may_be_changed(1000), "it was not asked");
        known.is_asked = true;
        known.chunks.answer(1, false);
        known.chunks.answer(2, true);
        assert_eq!(
            [999, 1000, 1001, 1002].map(|chunk| known.may_be_changed(chunk)),
            [true, true, false, true]
        );
        let behind = 1000 + CHANGED_CHUNKS as u64;
        known.chunks.answer(CHANGED_CHUNKS - 1, false);
        assert!(!known.may_be_changed(behind - 1));
        assert!(known.may_be_changed(behind));
        assert_eq!(
            (known.place(behind - 1), known.place(behind)),
            (Some(CHANGED_CHUNKS - 1), None)
        );
    }
}
