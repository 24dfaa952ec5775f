//! A block, the unique view of it ([`BufMut`]) and the shared view ([`Slice`]).
//!
//! Who may touch which byte: a block's bytes are divided among the views of it. A byte is in at most one `BufMut`, or
//! in any number of `Slice`s, never in both. Views are made only by dividing or cloning views (and whole, when a block
//! is taken), so this holds by construction; `refs` counts the views, and only who finds itself alone may take bytes
//! back that were given away ([`BufMut::reclaim`]).

use super::BLOCK_ALIGNMENT;
use super::arena::Arena;
use crate::sync::{AtomicU32, Ordering, fence};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Bound, Deref, DerefMut, RangeBounds};
use std::ptr::{self, NonNull};

/// Payload in several pieces, in order.
pub type Segments = Vec<Slice>;

/// Book-keeping of one block. Those of an arena live as long as the arena; those of the heap live with their bytes.
pub(super) struct Block {
    /// Views of this block; 0 while it is free.
    pub refs: AtomicU32,
    /// Position + 1 of the next free block of the class; 0 at the end of the list.
    pub next: AtomicU32,
    pub class: u32,
    pub start: NonNull<u8>,
    pub bytes: usize,
    /// Null for a block of the heap.
    pub arena: *const Arena,
}

/// More views of one block than any program makes; beyond it a leak of references would wrap the count and free
/// memory that is in use.
const MAX_REFS: u32 = u32::MAX / 2;

impl Block {
    /// A zeroed block of the heap with one view.
    pub fn on_heap(bytes: usize, alignment: usize) -> NonNull<Block> {
        assert!(bytes > 0, "an empty view has no block");
        let layout = Layout::from_size_align(bytes, alignment).expect("a payload fits the address space");
        // SAFETY: the layout's size is not zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
        // The alignment of a heap block is kept in `class`, for its release.
        NonNull::from(Box::leak(Box::new(Block {
            refs: AtomicU32::new(1),
            next: AtomicU32::new(0),
            class: alignment as u32,
            start,
            bytes,
            arena: ptr::null(),
        })))
    }

    fn retain(block: NonNull<Block>) {
        // SAFETY: the caller holds a view, so the block lives.
        let before = unsafe { block.as_ref() }.refs.fetch_add(1, Ordering::Relaxed);
        if before > MAX_REFS {
            std::process::abort();
        }
    }

    /// Ends one view; the last one gives the block back.
    fn release(block: NonNull<Block>) {
        // SAFETY: the caller's view keeps the block alive until the count is lowered.
        let header = unsafe { block.as_ref() };
        // A single view needs no atomic subtraction: nobody else can make another from it meanwhile.
        if header.refs.load(Ordering::Acquire) != 1 {
            if header.refs.fetch_sub(1, Ordering::Release) != 1 {
                return;
            }
            fence(Ordering::Acquire);
        }
        if header.arena.is_null() {
            let layout = Layout::from_size_align(header.bytes, header.class as usize).expect("as it was allocated");
            // SAFETY: this was the last view, and `on_heap` allocated both with these layouts.
            unsafe {
                dealloc(header.start.as_ptr(), layout);
                drop(Box::from_raw(block.as_ptr()));
            }
        } else {
            header.refs.store(0, Ordering::Relaxed);
            // SAFETY: an arena outlives its blocks in use (see `Pool`'s drop).
            unsafe { &*header.arena }.give_back(header);
        }
    }
}

/// A range of a block that nobody else sees: to read into, or to fill.
pub struct BufMut {
    start: NonNull<u8>,
    len: usize,
    block: Option<NonNull<Block>>,
}

// SAFETY: a `BufMut` owns its bytes alone, and the block's count is atomic.
unsafe impl Send for BufMut {}
// SAFETY: `&BufMut` only reads.
unsafe impl Sync for BufMut {}

impl BufMut {
    /// A buffer without bytes or memory.
    #[must_use]
    pub fn empty() -> BufMut {
        BufMut {
            start: NonNull::dangling(),
            len: 0,
            block: None,
        }
    }

    /// The first `len` bytes of a block that has just been taken (its one view is the caller's).
    pub(super) fn of_block(block: NonNull<Block>, len: usize) -> BufMut {
        // SAFETY: the caller hands over the block's only view, so the block lives.
        let header = unsafe { block.as_ref() };
        assert!(
            len <= header.bytes,
            "a view of {len} bytes in a block of {}",
            header.bytes
        );
        BufMut {
            start: header.start,
            len,
            block: Some(block),
        }
    }

    /// Forgets the bytes from `len` on; a longer `len` changes nothing.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Makes the first `len` bytes immutable and hands them out; the rest stays here.
    #[must_use]
    pub fn split_to(&mut self, len: usize) -> Slice {
        self.split_front(len).freeze()
    }

    /// Cuts the buffer: what follows the first `len` bytes is handed out, and may be joined again.
    #[must_use]
    pub fn split_off(&mut self, len: usize) -> BufMut {
        let front = self.split_front(len);
        std::mem::replace(self, front)
    }

    fn split_front(&mut self, len: usize) -> BufMut {
        assert!(len <= self.len, "{len} bytes split from a buffer of {}", self.len);
        let front = BufMut {
            start: self.start,
            len,
            block: self.block,
        };
        // SAFETY: `len` is inside this view.
        self.start = unsafe { self.start.add(len) };
        self.len -= len;
        if let Some(block) = self.block {
            Block::retain(block);
        }
        front
    }

    /// Makes all of it immutable.
    #[must_use]
    pub fn freeze(self) -> Slice {
        let this = std::mem::ManuallyDrop::new(self);
        Slice {
            start: this.start,
            len: this.len,
            block: this.block,
        }
    }

    /// Appends a buffer that follows this one in the same block; gives it back where it does not.
    pub fn join(&mut self, next: BufMut) -> Result<(), BufMut> {
        // SAFETY: one past the end of a view is a valid address of its block.
        let end = unsafe { self.start.add(self.len) };
        if self.block.is_none() || self.block != next.block || end != next.start {
            return Err(next);
        }
        self.len += next.len;
        Ok(())
    }

    /// Takes the whole block back when nobody else looks at it (any more), and says whether so.
    pub fn reclaim(&mut self) -> bool {
        let Some(block) = self.block else { return false };
        // SAFETY: this view keeps the block alive.
        let header = unsafe { block.as_ref() };
        // Acquire: who dropped another view may have read its bytes, and that came before.
        if header.refs.load(Ordering::Acquire) != 1 {
            return false;
        }
        self.start = header.start;
        self.len = header.bytes;
        true
    }
}

impl Drop for BufMut {
    fn drop(&mut self) {
        if let Some(block) = self.block {
            Block::release(block);
        }
    }
}

impl Deref for BufMut {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the view's bytes are initialized (mapped or allocated as zeros) and change only through it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for BufMut {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: no other view has these bytes.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Default for BufMut {
    fn default() -> BufMut {
        BufMut::empty()
    }
}

impl fmt::Debug for BufMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BufMut({} bytes)", self.len)
    }
}

/// An immutable range of bytes. Cloning it counts a reference and copies nothing.
pub struct Slice {
    start: NonNull<u8>,
    len: usize,
    /// None where the bytes are static.
    block: Option<NonNull<Block>>,
}

// SAFETY: nobody writes the bytes of a slice, and the block's count is atomic.
unsafe impl Send for Slice {}
// SAFETY: as above.
unsafe impl Sync for Slice {}

impl Slice {
    /// Copies bytes to the heap: for control paths and tests.
    #[must_use]
    pub fn copy_from(bytes: &[u8]) -> Slice {
        if bytes.is_empty() {
            return Slice::default();
        }
        let alignment = if bytes.len() < BLOCK_ALIGNMENT {
            align_of::<u64>()
        } else {
            BLOCK_ALIGNMENT
        };
        let mut copy = BufMut::of_block(Block::on_heap(bytes.len(), alignment), bytes.len());
        copy.copy_from_slice(bytes);
        copy.freeze()
    }

    /// Bytes that live for ever.
    #[must_use]
    pub fn from_static(bytes: &'static [u8]) -> Slice {
        Slice {
            start: NonNull::from(bytes).cast(),
            len: bytes.len(),
            block: None,
        }
    }

    /// A part of it. Panics when the range is not inside, as the slices of the language do: the caller has checked.
    #[must_use]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Slice {
        let from = match range.start_bound() {
            Bound::Included(&from) => from,
            Bound::Excluded(&from) => from + 1,
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(&to) => to + 1,
            Bound::Excluded(&to) => to,
            Bound::Unbounded => self.len,
        };
        assert!(
            from <= to && to <= self.len,
            "range {from}..{to} of a slice of {}",
            self.len
        );
        if from == to {
            return Slice::default();
        }
        if let Some(block) = self.block {
            Block::retain(block);
        }
        // SAFETY: `from` is inside this view.
        let start = unsafe { self.start.add(from) };
        Slice {
            start,
            len: to - from,
            block: self.block,
        }
    }

    /// Hands out the first `len` bytes; the rest stays here.
    #[must_use]
    pub fn split_to(&mut self, len: usize) -> Slice {
        if len == self.len {
            return std::mem::take(self);
        }
        let front = self.slice(..len);
        self.skip(len);
        front
    }

    /// Forgets the first `len` bytes.
    pub fn skip(&mut self, len: usize) {
        assert!(len <= self.len, "{len} bytes skipped in a slice of {}", self.len);
        if len == self.len {
            *self = Slice::default();
            return;
        }
        // SAFETY: `len` is inside this view.
        self.start = unsafe { self.start.add(len) };
        self.len -= len;
    }

    /// Appends a slice that follows this one in the same block; gives it back where it does not. An empty slice takes
    /// whatever comes.
    pub fn join(&mut self, next: Slice) -> Result<(), Slice> {
        if next.is_empty() {
            return Ok(());
        }
        if self.is_empty() {
            *self = next;
            return Ok(());
        }
        // SAFETY: one past the end of a view is a valid address of its block.
        let end = unsafe { self.start.add(self.len) };
        if self.block.is_none() || self.block != next.block || end != next.start {
            return Err(next);
        }
        self.len += next.len;
        Ok(())
    }
}

impl Clone for Slice {
    fn clone(&self) -> Slice {
        if let Some(block) = self.block {
            Block::retain(block);
        }
        Slice {
            start: self.start,
            len: self.len,
            block: self.block,
        }
    }
}

impl Drop for Slice {
    fn drop(&mut self) {
        if let Some(block) = self.block {
            Block::release(block);
        }
    }
}

impl Default for Slice {
    fn default() -> Slice {
        Slice {
            start: NonNull::dangling(),
            len: 0,
            block: None,
        }
    }
}

impl Deref for Slice {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the bytes are initialized, alive while this view is, and nobody writes them.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Slice {
    fn eq(&self, other: &Slice) -> bool {
        **self == **other
    }
}

impl Eq for Slice {}

impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slice({} bytes)", self.len)
    }
}
