//! What comes back of a request.

use amita_reactor::Slice;
use amita_types::io::{ChangedChunks, Differs, IoError};

/// A request that has ended.
#[derive(Debug)]
pub struct Done {
    /// The caller's.
    pub tag: u64,
    /// How it ended. Writes, discards and zeroings that succeed are durable on every in-sync store.
    pub result: Result<(), IoError>,
    /// What a read brings: exactly the bytes that were asked for; of a question for what was changed or has data what
    /// [`crate::Volume::extents`] reads, and of one for chunks what [`Payload::changed_chunks`] does.
    /// Empty for all else.
    pub payload: Payload,
}

/// Bytes in parts, in order: they lie where the network or the store has put them. They hold memory of the client's pool
/// (a part of few bytes can hold a block of 256 KiB): take out what you need, and let go.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    pub(crate) first: Slice,
    pub(crate) rest: Vec<Slice>,
}

impl Payload {
    /// As [`Payload::differs`] reads it.
    pub(crate) fn of_differs(differs: &Differs) -> Slice {
        let words = differs.changed.iter().chain(&differs.allocated);
        let bytes: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
        Slice::copy_from(&bytes)
    }

    /// What was changed, if that is what was asked for.
    pub(crate) fn differs(&self) -> Option<Differs> {
        let mut differs = Differs::default();
        let (bytes, rest) = self.first.as_chunks();
        let Differs { changed, allocated } = &mut differs;
        let words = changed.iter_mut().chain(allocated);
        if bytes.len() != words.size_hint().0 || !rest.is_empty() {
            return None;
        }
        for (word, bytes) in words.zip(bytes) {
            *word = u64::from_le_bytes(*bytes);
        }
        Some(differs)
    }

    /// Which chunks may have been changed, if that is what was asked for ([`crate::Queue::changed_chunks`]).
    #[must_use]
    pub fn changed_chunks(&self) -> Option<ChangedChunks> {
        ChangedChunks::read(&self.first).filter(|_| self.rest.is_empty())
    }

    /// How many bytes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts().map(|part| part.len()).sum()
    }

    /// Is there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first.is_empty() && self.rest.is_empty()
    }

    /// The parts, in order.
    pub fn parts(&self) -> impl Iterator<Item = &Slice> {
        let first = (!self.first.is_empty()).then_some(&self.first);
        first.into_iter().chain(&self.rest)
    }

    /// Copies all bytes to the front of `to`; returns how many.
    ///
    /// # Panics
    /// When `to` is shorter.
    pub fn copy_to(&self, to: &mut [u8]) -> usize {
        let mut at = 0;
        for part in self.parts() {
            to[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        at
    }

    /// All bytes, copied.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len()];
        self.copy_to(&mut bytes);
        bytes
    }
}
