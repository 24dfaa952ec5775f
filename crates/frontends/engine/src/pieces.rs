//! Cutting a range of a volume into pieces that the sequencer takes: each lies in one chunk, and one with data is at
//! most [`MAX_IO_BYTES`] long and touches at most `MAX_IO_BLOCKS` blocks.
//!
//! Cuts inside a range fall on block boundaries, so that only its two ends can be parts of a block: those are the only
//! places where a store has to read, merge and write.

use amita_types::{BLOCK_BYTES, MAX_IO_BYTES};

#[cfg(test)]
mod tests;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// Bytes of a volume that lie in one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The first byte, in the volume.
    pub offset: u64,
    /// How many bytes: more than zero.
    pub length: u32,
}

/// Is this a size of chunks that ranges can be cut by? (A power of two, one block to 4 GiB.)
#[must_use]
pub fn is_chunk_size(chunk_bytes: u32) -> bool {
    chunk_bytes.is_power_of_two() && chunk_bytes >= BLOCK_BYTES
}

/// The end of the first piece of `offset .. end`.
#[must_use]
pub fn piece_end(offset: u64, end: u64, chunk_bytes: u32) -> u64 {
    let chunk_end = (offset | u64::from(chunk_bytes - 1)).saturating_add(1);
    // From the start of its block: a start inside a block must not make the piece touch one block more than a message may.
    let longest = round_down(offset).saturating_add(u64::from(MAX_IO_BYTES));
    end.min(chunk_end).min(longest)
}

fn round_down(offset: u64) -> u64 {
    offset & !(BLOCK - 1)
}

fn round_up(offset: u64) -> u64 {
    round_down(offset.saturating_add(BLOCK - 1))
}

/// Does the range begin or end inside a block?
#[must_use]
pub fn has_partial_blocks(offset: u64, length: u64) -> bool {
    (offset | length) & (BLOCK - 1) != 0
}

/// The pieces of a range: see [`pieces`] and [`clears`].
#[derive(Clone, Copy, Debug)]
pub struct Pieces {
    next: u64,
    end: u64,
    chunk_bytes: u32,
    whole_blocks: bool,
}

impl Default for Pieces {
    fn default() -> Self {
        Pieces {
            next: 0,
            end: 0,
            chunk_bytes: BLOCK_BYTES,
            whole_blocks: false,
        }
    }
}

impl Pieces {
    /// Where the next piece begins; the end of the range when there is none.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.next
    }

    /// Is there none left?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.next >= self.end
    }

    /// How many bytes are left.
    #[must_use]
    pub fn left_bytes(&self) -> u64 {
        self.end.saturating_sub(self.next)
    }

    /// The next piece, which stays the next.
    #[must_use]
    pub fn peek(&self) -> Option<Piece> {
        self.clone().next()
    }
}

impl Iterator for Pieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if self.is_empty() {
            return None;
        }
        let offset = self.next;
        self.next = if self.whole_blocks {
            let chunk_end = (offset | u64::from(self.chunk_bytes - 1)).saturating_add(1);
            self.end.min(chunk_end)
        } else {
            piece_end(offset, self.end, self.chunk_bytes)
        };
        // A chunk is at most 2^31 bytes.
        Some(Piece {
            offset,
            length: (self.next - offset) as u32,
        })
    }
}

/// The pieces of `offset .. offset + length` for reading or writing, in order.
///
/// # Panics
/// When [`is_chunk_size`] denies `chunk_bytes`: it is checked when a volume is opened.
#[must_use]
pub fn pieces(offset: u64, length: u64, chunk_bytes: u32) -> Pieces {
    assert!(is_chunk_size(chunk_bytes), "{chunk_bytes} bytes are no chunk size");
    Pieces {
        next: offset,
        end: offset.saturating_add(length),
        chunk_bytes,
        whole_blocks: false,
    }
}

/// The pieces of the whole blocks inside `offset .. offset + length` for clearing, in order; a piece is up to a chunk
/// long. The range is rounded inward: blocks of which only a part is meant are left alone.
///
/// # Panics
/// When [`is_chunk_size`] denies `chunk_bytes`.
#[must_use]
pub fn clears(offset: u64, length: u64, chunk_bytes: u32) -> Pieces {
    assert!(is_chunk_size(chunk_bytes), "{chunk_bytes} bytes are no chunk size");
    let end = round_down(offset.saturating_add(length));
    Pieces {
        next: round_up(offset),
        end,
        chunk_bytes,
        whole_blocks: true,
    }
}

/// One step of making a range read as zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZeroStep {
    /// Write zeros here.
    Write(Piece),
    /// Clear these whole blocks.
    Clear(Piece),
}

/// The steps that make a range read as zeros: see [`zeroes`].
#[derive(Clone, Copy, Debug)]
pub struct Zeroes {
    next: u64,
    end: u64,
    chunk_bytes: u32,
    holes: bool,
}

impl Zeroes {
    /// Is there none left?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.next >= self.end
    }
}

impl Iterator for Zeroes {
    type Item = ZeroStep;

    fn next(&mut self) -> Option<ZeroStep> {
        if self.is_empty() {
            return None;
        }
        let offset = self.next;
        let whole = self.holes && offset.is_multiple_of(BLOCK) && self.end - offset >= BLOCK;
        let end = if whole {
            let chunk_end = (offset | u64::from(self.chunk_bytes - 1)).saturating_add(1);
            round_down(self.end).min(chunk_end)
        } else if self.holes {
            self.end.min(round_down(offset).saturating_add(BLOCK))
        } else {
            piece_end(offset, self.end, self.chunk_bytes)
        };
        self.next = end;
        let piece = Piece {
            offset,
            length: (end - offset) as u32,
        };
        Some(if whole {
            ZeroStep::Clear(piece)
        } else {
            ZeroStep::Write(piece)
        })
    }
}

/// The steps that make `offset .. offset + length` read as zeros. With `holes`, whole blocks are cleared and only the
/// ends that are parts of blocks are written; without, zeros are written everywhere.
///
/// # Panics
/// When [`is_chunk_size`] denies `chunk_bytes`.
#[must_use]
pub fn zeroes(offset: u64, length: u64, chunk_bytes: u32, holes: bool) -> Zeroes {
    assert!(is_chunk_size(chunk_bytes), "{chunk_bytes} bytes are no chunk size");
    Zeroes {
        next: offset,
        end: offset.saturating_add(length),
        chunk_bytes,
        holes,
    }
}
