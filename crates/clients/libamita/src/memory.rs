//! Memory of the application, where reads go and what writes are copied from: a leaf over pointers that C vouches for.

use crate::failure::{Failure, Result};
use amita_client::Payload;
use std::ffi::{c_int, c_void};

/// The most vectors of one request, as for `readv(2)`.
const MAX_VECTORS: usize = 1024;

/// Memory that a read fills. C has promised that it stays, and that nobody touches it, until the completion is returned.
pub(crate) struct Target {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: whoever reaps fills it, from one thread at a time; C's promise holds for any thread.
unsafe impl Send for Target {}

impl Target {
    /// # Errors
    /// NULL.
    pub(crate) fn new(start: *mut c_void, bytes: usize) -> Result<Target> {
        if start.is_null() {
            return Err(Failure::null("the memory of a read"));
        }
        Ok(Target {
            start: start.cast(),
            bytes,
        })
    }
}

/// Spreads what a read has brought over its targets, which are as long as that together.
pub(crate) fn fill(targets: &mut [Target], payload: &Payload) {
    let mut targets = targets.iter_mut();
    let (mut at, mut room) = (std::ptr::null_mut::<u8>(), 0);
    for part in payload.parts() {
        let mut rest: &[u8] = part;
        while !rest.is_empty() {
            if room == 0 {
                let Some(target) = targets.next() else { return };
                (at, room) = (target.start, target.bytes);
                continue;
            }
            let bytes = rest.len().min(room);
            // SAFETY: `room` bytes from `at` are left of a target, which is C's promise; the pool's memory is elsewhere.
            unsafe {
                std::ptr::copy_nonoverlapping(rest.as_ptr(), at, bytes);
                at = at.add(bytes);
            }
            room -= bytes;
            rest = &rest[bytes..];
        }
    }
}

/// Copies the memory of a write.
///
/// # Safety
/// `bytes` from `start` are readable.
pub(crate) unsafe fn copy(start: *const c_void, to: &mut [u8]) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(start.cast::<u8>(), to.as_mut_ptr(), to.len()) };
}

/// The vectors of a request, checked.
///
/// # Safety
/// `count` of them are readable at `vectors`.
pub(crate) unsafe fn vectors<'a>(vectors: *const libc::iovec, count: c_int) -> Result<(&'a [libc::iovec], usize)> {
    if vectors.is_null() {
        return Err(Failure::null("the list of vectors"));
    }
    let count = usize::try_from(count).unwrap_or(0);
    if !(1..=MAX_VECTORS).contains(&count) {
        return Err(Failure::new(
            libc::EINVAL,
            format!("{count} vectors; 1 to {MAX_VECTORS} are allowed"),
        ));
    }
    // SAFETY: the caller's promise.
    let vectors = unsafe { std::slice::from_raw_parts(vectors, count) };
    let mut total = 0usize;
    for vector in vectors {
        if vector.iov_base.is_null() && vector.iov_len > 0 {
            return Err(Failure::null("the memory of a vector"));
        }
        total = total.saturating_add(vector.iov_len);
    }
    Ok((vectors, total))
}
