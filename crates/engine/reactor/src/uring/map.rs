//! Files in memory, mapped: a read or a write is a copy, without a call of the kernel.
//!
//! For 4 KiB that is a third of what `preadv` or `pwritev` take. A page that the file system has not allocated yet is
//! never touched by the mapping: the kernel could then only answer a lack of memory by killing the process. So a bit for
//! each page says whether it is there; the first write to a page is an ordinary one, which can fail as others do, and what
//! is read from a page that is not there is read by a call. Whoever cuts such a file short while it is served ends the
//! process, which says so on standard error.
//!
//! Whole pages are written past the caches: what is on a disk is not read again soon, and a line that is overwritten whole
//! need not be fetched first.

use crate::buf::Segments;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

const PAGE: usize = 4096;

/// A mapped file.
pub(super) struct Map {
    base: NonNull<u8>,
    bytes: usize,
    /// A bit for each page that surely has memory.
    there: Vec<u64>,
}

// SAFETY: it owns its mapping, which is as good on any thread.
unsafe impl Send for Map {}

impl Map {
    /// Maps a file of so many bytes, which is in memory.
    pub fn new(file: &File, bytes: u64) -> io::Result<Map> {
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        if bytes == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: a new mapping, anywhere.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).expect("a mapping is never at address 0");
        tell_of_lost_pages();
        let there = vec![0; bytes.div_ceil(PAGE * 64)];
        let mut map = Map { base, bytes, there };
        map.look(file);
        Ok(map)
    }

    /// Finds the pages that are there. Where the file system cannot tell, none is known to be.
    fn look(&mut self, file: &File) {
        let seek = |from: usize, whence| {
            // SAFETY: no memory involved.
            let at = unsafe { libc::lseek(file.as_raw_fd(), from as i64, whence) };
            usize::try_from(at).ok()
        };
        let mut from = 0;
        while let Some(data) = seek(from, libc::SEEK_DATA)
            && let Some(hole) = seek(data, libc::SEEK_HOLE)
            && hole > data
        {
            self.note(data as u64, hole.min(self.bytes).saturating_sub(data));
            from = hole;
        }
    }

    fn pages(offset: usize, bytes: usize) -> std::ops::Range<usize> {
        offset / PAGE..(offset + bytes).div_ceil(PAGE)
    }

    fn has(&self, offset: u64, bytes: usize) -> bool {
        let Ok(offset) = usize::try_from(offset) else {
            return false;
        };
        offset.checked_add(bytes).is_some_and(|end| end <= self.bytes)
            && Map::pages(offset, bytes).all(|page| self.there[page / 64] >> (page % 64) & 1 == 1)
    }

    /// These bytes were written by the kernel: their pages are there.
    pub fn note(&mut self, offset: u64, bytes: usize) {
        let end = (offset as usize).saturating_add(bytes).min(self.bytes);
        if let Some(bytes) = end.checked_sub(offset as usize) {
            for page in Map::pages(offset as usize, bytes) {
                self.there[page / 64] |= 1 << (page % 64);
            }
        }
    }

    /// A hole is about to be punched: its pages are not there any more.
    pub fn forget(&mut self, offset: u64, bytes: u64) {
        let start = usize::try_from(offset).map_or(self.bytes, |offset| offset.min(self.bytes));
        let end = start.saturating_add(usize::try_from(bytes).unwrap_or(usize::MAX));
        for page in Map::pages(start, end.min(self.bytes) - start) {
            self.there[page / 64] &= !(1 << (page % 64));
        }
    }

    /// Fills the buffer; `false`, and nothing done, where a page is missing.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> bool {
        if !self.has(offset, buffer.len()) {
            return false;
        }
        // SAFETY: the range is inside the mapping and its pages exist; the buffer is the caller's own memory. What another
        // process writes there meanwhile is a race of bytes, as it is with a call: checksums tell.
        unsafe {
            ptr::copy_nonoverlapping(
                self.base.as_ptr().add(offset as usize),
                buffer.as_mut_ptr(),
                buffer.len(),
            );
        }
        true
    }

    /// Writes the segments, `bytes` in all; `false`, and nothing done, where a page is missing.
    pub fn write(&mut self, offset: u64, data: &Segments, bytes: usize) -> bool {
        if !self.has(offset, bytes) {
            return false;
        }
        let mut at = offset as usize;
        for piece in data {
            // SAFETY: as above; the pieces are `bytes` in all.
            unsafe { copy_past_caches(self.base.as_ptr().add(at), piece) };
            at += piece.len();
        }
        debug_assert_eq!(at, offset as usize + bytes);
        fence();
        true
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference into it outlives a call.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// All that a handler of a signal can do is to write what stands ready.
const LOST_PAGE: &[u8] =
    b"a file in memory that is served was cut short, or its memory is broken (SIGBUS): the process ends. Find out who \
has truncated it, and start the process again: what was in the file is brought to it from other copies, or is lost.\n";

/// What was done about the signal before: the runtime finds stacks that overflow by it.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// From now on the process says why before it ends by a page that is gone.
fn tell_of_lost_pages() {
    BEFORE.get_or_init(|| {
        // SAFETY: both structures are ours, and all zeros are a valid one; the handler calls nothing but what a handler may.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            let mut wanted: libc::sigaction = std::mem::zeroed();
            wanted.sa_sigaction = lost_page as *const () as libc::sighandler_t;
            wanted.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut before);
            libc::sigaction(libc::SIGBUS, &raw const wanted, ptr::null_mut());
            before
        }
    });
}

/// Writes the line and gives the signal back: the access is made again, and ends the process as it would have.
extern "C" fn lost_page(signal: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: `write` and `sigaction` may be called in a handler; nothing is allocated, and nothing is waited for.
    unsafe {
        libc::write(libc::STDERR_FILENO, LOST_PAGE.as_ptr().cast(), LOST_PAGE.len());
        match BEFORE.get() {
            Some(before) => libc::sigaction(signal, before, ptr::null_mut()),
            // It came between the two lines above, of another thread.
            None => libc::raise(libc::SIGABRT),
        };
    }
}

/// Copies to memory that is not looked at soon.
///
/// # Safety
/// `to` is valid for writes of all of `from`, which is elsewhere.
#[cfg(target_arch = "x86_64")]
unsafe fn copy_past_caches(to: *mut u8, from: &[u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    const LINE: usize = 64;
    const LANE: usize = size_of::<__m128i>();
    let streamed = if to.addr().is_multiple_of(LINE) {
        from.len() / LINE * LINE
    } else {
        0
    };
    // SAFETY: all of it is inside the two ranges that the caller vouches for; `to` is aligned for a stream where one is
    // made.
    unsafe {
        for line in (0..streamed).step_by(LINE) {
            for lane in (line..line + LINE).step_by(LANE) {
                let value = _mm_loadu_si128(from.as_ptr().add(lane).cast());
                _mm_stream_si128(to.add(lane).cast(), value);
            }
        }
        ptr::copy_nonoverlapping(from.as_ptr().add(streamed), to.add(streamed), from.len() - streamed);
    }
}

/// Streamed writes are ordered before what follows.
#[cfg(target_arch = "x86_64")]
fn fence() {
    // SAFETY: every processor of this architecture has it.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn copy_past_caches(to: *mut u8, from: &[u8]) {
    // SAFETY: the caller vouches for it.
    unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
}

#[cfg(not(target_arch = "x86_64"))]
fn fence() {}

#[cfg(test)]
mod tests;
