//! The two ends of a byte stream in buffers: what came in and is not parsed yet, and what waits to be sent.

use crate::buf::{BufMut, Pool, Segments, Slice};
use std::collections::VecDeque;

/// A receive is not worth its call with less room than this in the block, in bytes.
const MIN_RECEIVE_BYTES: usize = 4096;

/// Bytes that came in: contiguous, parsed in place; payloads leave as slices of the block that they arrived in.
///
/// A frame that does not fit what is left of a block is carried over to the next one; that copy is all there is, and
/// it is of at most one frame's beginning per block.
#[derive(Debug, Default)]
pub struct Inbox {
    /// Received and not taken.
    data: Slice,
    /// The free rest of the block that `data` ends in; None while a receive has it.
    tail: Option<BufMut>,
    /// The frame at the front of `data` has this many bytes (0: not known).
    needed: usize,
}

impl Inbox {
    /// Nothing received.
    #[must_use]
    pub fn new() -> Inbox {
        Inbox::default()
    }

    /// Memory to receive into: the rest of the present block, or a new one of `class_bytes` (more if [`Inbox::need`]
    /// said so). None when the pool is exhausted: try again when something has been given back. To be followed by
    /// [`Inbox::received`].
    #[must_use]
    pub fn start_receive(&mut self, pool: &Pool, class_bytes: usize) -> Option<BufMut> {
        let missing = self.needed.saturating_sub(self.data.len()).max(MIN_RECEIVE_BYTES);
        let whole = self.needed.max(self.data.len() + MIN_RECEIVE_BYTES);
        // With nothing to carry over a new block costs no copy, and a long receive takes more with one call.
        let wanted = if self.data.is_empty() {
            missing.max(class_bytes / 8)
        } else {
            missing
        };
        if let Some(mut tail) = self.tail.take() {
            if self.data.is_empty() {
                // When nobody looks at what the block held before, start over at its front: warm memory, no pool.
                tail.reclaim();
            }
            if tail.len() >= wanted {
                return Some(tail);
            }
            self.tail = Some(tail);
        }
        let Some(mut block) = pool.take(class_bytes.max(whole)) else {
            return self.tail.take_if(|tail| tail.len() >= missing);
        };
        if !self.data.is_empty() {
            block[..self.data.len()].copy_from_slice(&self.data);
            self.data = block.split_to(self.data.len());
        }
        self.tail = None;
        Some(block)
    }

    /// Gives back the memory of [`Inbox::start_receive`], with `bytes` received at its front (0 after an error).
    pub fn received(&mut self, mut buffer: BufMut, bytes: usize) {
        if bytes > 0 {
            let front = buffer.split_to(bytes);
            self.data
                .join(front)
                .expect("a receive continues the block that the data ends in");
        }
        self.tail = Some(buffer);
    }

    /// Gives the block back, if nothing in it is waiting to be parsed and it is larger than `most` bytes: for a stream
    /// that has become quiet. The next receive takes another one, of the size that is asked for then.
    pub fn trim(&mut self, most: usize) {
        if self.data.is_empty() {
            self.tail.take_if(|tail| {
                tail.reclaim();
                tail.len() > most
            });
        }
    }

    /// What came in and was not taken, contiguous.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Takes the first `bytes`, without copying. Panics if there are fewer: the parser has looked.
    #[must_use]
    pub fn take(&mut self, bytes: usize) -> Slice {
        self.needed = 0;
        self.data.split_to(bytes)
    }

    /// Drops the first `bytes`.
    pub fn skip(&mut self, bytes: usize) {
        self.needed = 0;
        self.data.skip(bytes);
    }

    /// Bytes that came in and were not taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Is there nothing to parse?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// The frame at the front has `bytes` bytes in all: the next block shall be large enough for it to be contiguous.
    /// Forgotten with the next [`Inbox::take`] or [`Inbox::skip`]. The caller has checked `bytes` against its limits.
    pub fn need(&mut self, bytes: usize) {
        self.needed = bytes;
    }
}

/// Small pieces (headers, answers) are packed into blocks of this many bytes.
const HEAD_BYTES: usize = 16 << 10;

#[cold]
fn heap_block(bytes: usize) -> BufMut {
    Pool::heap().take(bytes).expect("the heap is no pool that ends")
}

/// A send carries at most this many segments: what the kernel takes in one call (`UIO_MAXIOV`).
pub const MAX_SEND_SEGMENTS: usize = 1024;

/// A send carries at most about this many bytes, so that the memory that one slow peer holds stays bounded, and so
/// that large payloads do not overrun the cache (both measured: beyond half a mebibyte nothing is gained).
pub const MAX_SEND_BYTES: usize = 512 << 10;

/// Bytes that wait to be sent, in order. One send is under way at a time; what is queued meanwhile goes out together
/// with the next: one send per peer and pass.
#[derive(Debug, Default)]
pub struct Outbox {
    queue: VecDeque<Slice>,
    queued_bytes: usize,
    /// Where small pieces are packed.
    head: BufMut,
    /// The vector of the last send, for the next.
    spare: Segments,
    under_way: bool,
}

impl Outbox {
    /// Nothing to send.
    #[must_use]
    pub fn new() -> Outbox {
        Outbox::default()
    }

    /// Queues a copy of a small piece; pieces that follow each other go out as one segment.
    pub fn append(&mut self, pool: &Pool, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if self.queue.is_empty() && !self.under_way {
            // All that was packed before has gone: start over, in warm memory.
            self.head.reclaim();
        }
        if self.head.len() < bytes.len() {
            match pool.take(HEAD_BYTES.max(bytes.len())) {
                Some(block) => self.head = block,
                // An answer must go out even when the pool is exhausted, or nothing would ever be given back. A block of the heap
                // for each piece would cost several times what the pieces have.
                None => self.head = heap_block(HEAD_BYTES.max(bytes.len())),
            }
        }
        self.head[..bytes.len()].copy_from_slice(bytes);
        let piece = self.head.split_to(bytes.len());
        self.push(piece);
    }

    /// Gives back the memory that small pieces are packed in, if nothing waits to be sent: for a stream that has become quiet.
    pub fn trim(&mut self) {
        if self.queue.is_empty() && !self.under_way {
            self.head = BufMut::default();
        }
    }

    /// Queues a payload by reference.
    pub fn push(&mut self, piece: Slice) {
        if piece.is_empty() {
            return;
        }
        self.queued_bytes += piece.len();
        let piece = match self.queue.back_mut() {
            Some(last) => last.join(piece).err(),
            None => Some(piece),
        };
        self.queue.extend(piece);
    }

    /// Bytes queued and not yet handed to a send.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Is a send under way?
    #[must_use]
    pub fn is_sending(&self) -> bool {
        self.under_way
    }

    /// What to send now; None while a send is under way or nothing is queued. To be followed by [`Outbox::sent`].
    #[must_use]
    pub fn next_send(&mut self) -> Option<Segments> {
        if self.under_way || self.queue.is_empty() {
            return None;
        }
        let mut segments = std::mem::take(&mut self.spare);
        let mut bytes = 0;
        while segments.len() < MAX_SEND_SEGMENTS
            && let Some(piece) = self
                .queue
                .pop_front_if(|piece| bytes == 0 || bytes + piece.len() <= MAX_SEND_BYTES)
        {
            bytes += piece.len();
            segments.push(piece);
        }
        self.queued_bytes -= bytes;
        self.under_way = true;
        Some(segments)
    }

    /// The send has ended; its vector comes back.
    pub fn sent(&mut self, mut segments: Segments) {
        segments.clear();
        self.spare = segments;
        self.under_way = false;
    }
}

#[cfg(test)]
mod tests;
