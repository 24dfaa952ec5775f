//! An allocator that counts what the calling thread asks of the system's. A test that counts makes it its own:
//!
//! ```
//! use amita_testkit::allocations::{self, Counting};
//!
//! #[global_allocator]
//! static ALLOCATOR: Counting = Counting;
//!
//! # fn main() {
//! let before = allocations::count();
//! let boxed = std::hint::black_box(Box::new(1_u64));
//! assert_eq!(allocations::count() - before, 1);
//! # drop(boxed);
//! # }
//! ```
//!
//! Only the calling thread's are counted: the test harness has a thread that allocates when it likes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The allocator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static LARGEST: Cell<usize> = const { Cell::new(0) };
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST_HELD: Cell<isize> = const { Cell::new(0) };
}

/// Allocations and reallocations of this thread since it began.
#[must_use]
pub fn count() -> u64 {
    COUNT.get()
}

/// The largest of this thread's since [`forget_largest`], in bytes.
#[must_use]
pub fn largest() -> usize {
    LARGEST.get()
}

/// Begins anew with the largest.
pub fn forget_largest() {
    LARGEST.set(0);
}

/// Bytes that this thread has been given since it began, less those that it has given back: below zero if it gave back what
/// others had been given.
#[must_use]
pub fn held() -> isize {
    HELD.get()
}

/// The most of [`held`] since [`forget_most_held`].
#[must_use]
pub fn most_held() -> isize {
    MOST_HELD.get()
}

/// Begins anew with the most.
pub fn forget_most_held() {
    MOST_HELD.set(HELD.get());
}

fn note(bytes: usize) {
    COUNT.set(COUNT.get() + 1);
    LARGEST.set(LARGEST.get().max(bytes));
    HELD.set(HELD.get().saturating_add_unsigned(bytes));
    MOST_HELD.set(MOST_HELD.get().max(HELD.get()));
}

fn note_back(bytes: usize) {
    HELD.set(HELD.get().saturating_sub_unsigned(bytes));
}

// SAFETY: everything is passed on to the system's allocator as it came; the counters are thread-local, are initialized at
// compile time, have no destructor, and so neither allocate nor go away before their thread.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note_back(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        note_back(layout.size());
        note(bytes);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}
