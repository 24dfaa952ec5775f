//! The functions of `include/amita.h`: their words are there.
//!
//! # Safety
//! For all of them: pointers are NULL or point to what the header says, for as long as it says. Handles need no promise.
#![allow(clippy::missing_safety_doc, reason = "said once, above")]
#![allow(missing_docs, reason = "the header has them")]

use crate::failure::{Failure, Result, last, sentence, tell};
use crate::handles::{Handle, Kind};
use crate::memory::{self, Target};
use crate::options::{INLINE, LogFunction, Options, Texts};
use crate::port::{Completion, IoRequest};
use crate::{buffers, inline, threaded};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Runs a function's body: what C gets is 0 or a count, or a negative errno.
fn guarded(body: impl FnOnce() -> Result<c_int>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => value,
        Ok(Err(failure)) => tell(failure),
        Err(_) => tell(Failure::new(
            libc::ENOTRECOVERABLE,
            "a fault of the library; its words are on standard error",
        )),
    }
}

/// As [`guarded`], for functions whose error is another value.
fn guarded_or<T>(otherwise: T, body: impl FnOnce() -> Result<T>) -> T {
    let mut value = otherwise;
    guarded(|| {
        value = body()?;
        Ok(0)
    });
    value
}

/// Runs the same on a queue of either kind.
macro_rules! on_queue {
    ($queue:expr, $act:expr) => {
        if $queue.is_inline() {
            inline::with_queue($queue, $act)
        } else {
            threaded::with_queue($queue, $act)
        }
    };
}

/// Runs the same on a queue of either kind, for a function that returns 0.
macro_rules! request {
    ($queue:expr, $act:expr) => {
        guarded(|| on_queue!($queue, $act).map(|()| 0))
    };
}

/// The memory to write a result to.
unsafe fn out<'a, T>(pointer: *mut MaybeUninit<T>, what: &str) -> Result<&'a mut MaybeUninit<T>> {
    // SAFETY: NULL, or C's promise.
    unsafe { pointer.as_mut() }.ok_or_else(|| Failure::null(what))
}

/// A text of C.
unsafe fn text(pointer: *const c_char, what: &str) -> Result<Option<String>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: C's promise.
    let text = unsafe { CStr::from_ptr(pointer) };
    match text.to_str() {
        Ok(text) => Ok(Some(text.to_owned())),
        Err(_) => Err(Failure::new(libc::EINVAL, format!("{what} is no UTF-8"))),
    }
}

/// A function of C for log lines.
struct LogTo(unsafe extern "C" fn(*mut c_void, c_int, *const c_char), *mut c_void);

// SAFETY: the header says that it is called from any thread.
unsafe impl Send for LogTo {}
// SAFETY: as above.
unsafe impl Sync for LogTo {}

impl LogTo {
    fn call(&self, level: c_int, text: &str) {
        let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
        // SAFETY: C's promise for the function and its argument; the text is alive.
        unsafe { (self.0)(self.1, level, text.as_ptr()) };
    }
}

fn log_to(function: LogFunction, argument: *mut c_void) -> Option<impl Fn(c_int, &str) + Send + Sync + 'static> {
    let log = LogTo(function?, argument);
    Some(move |level: c_int, text: &str| log.call(level, text))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn amita_options_init_sized(options: *mut MaybeUninit<Options>, size: usize) {
    guarded(|| {
        if size == size_of::<Options>() {
            // SAFETY: as the module says.
            unsafe { out(options, "options") }?.write(Options::usual());
        } else if size >= size_of::<usize>() && !options.is_null() {
            // A program of another version: it has no more room than it says, and is refused by the size that it has.
            // SAFETY: C's promise, for so many bytes; the size comes first.
            unsafe {
                options.cast::<u8>().write_bytes(0, size);
                options.cast::<usize>().write(size);
            }
        }
        Ok(0)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn amita_connect(options: *const Options, client: *mut MaybeUninit<Handle>) -> c_int {
    guarded(|| {
        // SAFETY: as the module says, here and below.
        let client = unsafe { out(client, "client") }?;
        client.write(Handle::NULL);
        // SAFETY: the size comes first, and says how much of the rest is there.
        let size = unsafe { options.cast::<usize>().as_ref() }.ok_or_else(|| Failure::null("options"))?;
        if *size != size_of::<Options>() {
            let text = format!(
                "options: {size} bytes, this library's have {}; call amita_options_init() first, and use its own header",
                size_of::<Options>()
            );
            return Err(Failure::new(libc::EINVAL, text));
        }
        // SAFETY: it is not NULL, and as long as it is to be.
        let options = unsafe { &*options };
        // SAFETY: texts of C.
        let texts = unsafe {
            Texts {
                metadata: text(options.metadata, "metadata")?,
                name: text(options.name, "name")?,
                fabric: text(options.fabric, "fabric")?,
                stores: text(options.stores, "stores")?,
            }
        };
        let config = options.config(texts, log_to(options.log, options.log_argument))?;
        client.write(match options.flags & INLINE {
            0 => threaded::connect(&config)?,
            _ => inline::connect(&config)?,
        });
        Ok(0)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn amita_close(client: Handle) -> c_int {
    guarded(|| {
        match client.is_inline() {
            true => inline::close(client)?,
            false => threaded::close(client)?,
        }
        Ok(0)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn amita_open(client: Handle, name: *const c_char, volume: *mut MaybeUninit<Handle>) -> c_int {
    guarded(|| {
        // SAFETY: as the module says.
        let (volume, name) = unsafe { (out(volume, "volume")?, text(name, "name")?) };
        volume.write(Handle::NULL);
        let name = name.ok_or_else(|| Failure::null("the volume's name"))?;
        let opened = if client.is_inline() {
            inline::with_client(client, |port| Ok(port.engine.open(&name)?))?
        } else {
            threaded::client(client)?.open(&name)?
        };
        volume.write(threaded::add_volume(client, opened));
        Ok(0)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn amita_open_since(
    client: Handle,
    name: *const c_char,
    snapshot: *const c_char,
    volume: *mut MaybeUninit<Handle>,
) -> c_int {
    guarded(|| {
        // SAFETY: as the module says, here and below.
        let volume = unsafe { out(volume, "volume") }?;
        volume.write(Handle::NULL);
        // SAFETY: texts of C.
        let (name, snapshot) = unsafe { (text(name, "name")?, text(snapshot, "snapshot")?) };
        let name = name.ok_or_else(|| Failure::null("the volume's name"))?;
        let snapshot = snapshot.ok_or_else(|| Failure::null("the snapshot's name"))?;
        let opened = if client.is_inline() {
            inline::with_client(client, |port| Ok(port.engine.open_since(&name, &snapshot)?))?
        } else {
            threaded::client(client)?.open_since(&name, &snapshot)?
        };
        volume.write(threaded::add_volume(client, opened));
        Ok(0)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn amita_close_volume(volume: Handle) -> c_int {
    guarded(|| {
        let (client, open) = threaded::volume(volume)?;
        let closed = if client.is_inline() {
            inline::with_client(client, |port| Ok(port.engine.close_volume(&open)))?
        } else {
            threaded::client(client)?.close_volume(&open)
        };
        threaded::take_volume(volume)?;
        closed?;
        Ok(0)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn amita_size(volume: Handle) -> u64 {
    guarded_or(0, || Ok(threaded::volume(volume)?.1.size_bytes()))
}

#[unsafe(no_mangle)]
pub extern "C" fn amita_chunk_bytes(volume: Handle) -> u32 {
    guarded_or(0, || Ok(threaded::volume(volume)?.1.chunk_bytes()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn amita_queue_create(client: Handle, depth: u32, queue: *mut MaybeUninit<Handle>) -> c_int {
    guarded(|| {
        // SAFETY: as the module says.
        let queue = unsafe { out(queue, "queue") }?;
        queue.write(Handle::NULL);
        queue.write(match client.is_inline() {
            true => inline::create_queue(client, depth as usize)?,
            false => threaded::create_queue(client, depth as usize)?,
        });
        Ok(0)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn amita_queue_destroy(queue: Handle) -> c_int {
    guarded(|| {
        if !queue.is(Kind::Queue) {
            return Err(Failure::bad_handle("queue"));
        }
        match queue.is_inline() {
            true => inline::destroy_queue(queue)?,
            false => threaded::destroy_queue(queue)?,
        }
        Ok(0)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn amita_aio_read(
    queue: Handle,
    volume: Handle,
    data: *mut c_void,
    bytes: usize,
    offset: u64,
    user: *mut c_void,
) -> c_int {
    request!(queue, |port| {
        let target = Target::new(data, bytes)?;
        port.read_into(volume, offset, std::iter::once(target), bytes, user)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn amita_aio_readv(
    queue: Handle,
    volume: Handle,
    vectors: *const libc::iovec,
    count: c_int,
    offset: u64,
    user: *mut c_void,
) -> c_int {
    request!(queue, |port| {
        // SAFETY: as the module says.
        let (vectors, total) = unsafe { memory::vectors(vectors, count) }?;
        let used = vectors.iter().filter(|vector| vector.iov_len > 0);
        let targets = used.filter_map(|vector| Target::new(vector.iov_base, vector.iov_len).ok());
        port.read_into(volume, offset, targets, total, user)
    })
}

/// More than a request may have is not copied only to be refused.
fn check_length(bytes: usize) -> Result<()> {
    let most = amita_client::MAX_READ_WRITE_BYTES as usize;
    if (1..=most).contains(&bytes) {
        return Ok(());
    }
    let text = format!("a read or write of {bytes} bytes; 1 to {most} are allowed");
    Err(Failure::new(libc::EINVAL, text))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn amita_aio_write(
    queue: Handle,
    volume: Handle,
    data: *const c_void,
    bytes: usize,
    offset: u64,
    user: *mut c_void,
) -> c_int {
    request!(queue, |port| {
        if data.is_null() {
            return Err(Failure::null("the memory of a write"));
        }
        check_length(bytes)?;
        // SAFETY: as the module says.
        let data = port.copy_of(bytes, |to| unsafe { memory::copy(data, to) });
        port.start(volume, IoRequest::Write { offset, data }, user)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn amita_aio_writev(
    queue: Handle,
    volume: Handle,
    vectors: *const libc::iovec,
    count: c_int,
    offset: u64,
    user: *mut c_void,
) -> c_int {
    request!(queue, |port| {
        // SAFETY: as the module says, here and below.
        let (vectors, total) = unsafe { memory::vectors(vectors, count) }?;
        check_length(total)?;
        let data = port.copy_of(total, |mut to| {
            for vector in vectors.iter().filter(|vector| vector.iov_len > 0) {
                let (front, rest) = to.split_at_mut(vector.iov_len);
                // SAFETY: as above.
                unsafe { memory::copy(vector.iov_base, front) };
                to = rest;
            }
        });
        port.start(volume, IoRequest::Write { offset, data }, user)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn amita_aio_flush(queue: Handle, volume: Handle, user: *mut c_void) -> c_int {
    request!(queue, |port| port.start(volume, IoRequest::Flush, user))
}

#[unsafe(no_mangle)]
pub extern "C" fn amita_aio_discard(
    queue: Handle,
    volume: Handle,
    bytes: u64,
    offset: u64,
    user: *mut c_void,
) -> c_int {
    request!(queue, |port| port.start(
        volume,
        IoRequest::Discard { offset, bytes },
        user
    ))
}

#[unsafe(no_mangle)]
pub extern "C" fn amita_aio_write_zeroes(
    queue: Handle,
    volume: Handle,
    bytes: u64,
    offset: u64,
    user: *mut c_void,
) -> c_int {
    request!(queue, |port| port.start(
        volume,
        IoRequest::WriteZeroes { offset, bytes },
        user
    ))
}

#[unsafe(no_mangle)]
pub extern "C" fn amita_aio_changed(queue: Handle, volume: Handle, offset: u64, user: *mut c_void) -> c_int {
    request!(queue, |port| port.changed(volume, offset, user))
}

/// The places for completions.
unsafe fn places<'a>(
    completions: *mut MaybeUninit<Completion>,
    max: c_int,
) -> Result<&'a mut [MaybeUninit<Completion>]> {
    let max = usize::try_from(max).unwrap_or(0);
    if completions.is_null() || max == 0 {
        return Err(Failure::new(
            libc::EINVAL,
            "no room for completions: give at least one place",
        ));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts_mut(completions, max) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn amita_poll(queue: Handle, completions: *mut MaybeUninit<Completion>, max: c_int) -> c_int {
    guarded(|| {
        // SAFETY: as the module says.
        let places = unsafe { places(completions, max) }?;
        on_queue!(queue, |port| Ok(port.reap(None, places) as c_int))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn amita_wait(
    queue: Handle,
    completions: *mut MaybeUninit<Completion>,
    max: c_int,
    timeout_ms: c_int,
) -> c_int {
    guarded(|| {
        // SAFETY: as the module says.
        let places = unsafe { places(completions, max) }?;
        // A hundred years are no limit.
        const NONE: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
        let limit = u64::try_from(timeout_ms).map_or(NONE, Duration::from_millis);
        on_queue!(queue, |port| Ok(port.reap(Some(limit), places) as c_int))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn amita_event_fd(queue: Handle) -> c_int {
    guarded(|| {
        if queue.is_inline() {
            let text = "a client that is AMITA_INLINE has no event file: its core runs only while it is called";
            return Err(Failure::new(libc::ENOTSUP, text));
        }
        use std::os::fd::AsRawFd;
        threaded::with_queue(queue, |port| Ok(port.engine.event_fd().as_raw_fd()))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn amita_under_way(queue: Handle) -> c_int {
    guarded(|| on_queue!(queue, |port| Ok(port.under_way() as c_int)))
}

#[unsafe(no_mangle)]
pub extern "C" fn amita_alloc(client: Handle, bytes: usize) -> Handle {
    guarded_or(Handle::NULL, || {
        if client.is_inline() {
            inline::with_client(client, |port| buffers::alloc(port.pool(), bytes))
        } else {
            buffers::alloc(threaded::client(client)?.pool(), bytes)
        }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn amita_free(buffer: Handle) -> c_int {
    guarded(|| buffers::free(buffer).map(|()| 0))
}

#[unsafe(no_mangle)]
pub extern "C" fn amita_data(buffer: Handle) -> *mut c_void {
    guarded_or(std::ptr::null_mut(), || buffers::data(buffer))
}

#[unsafe(no_mangle)]
pub extern "C" fn amita_length(buffer: Handle) -> usize {
    guarded_or(0, || buffers::length(buffer))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn amita_changes(buffer: Handle, extents: *mut MaybeUninit<*const buffers::Extent>) -> c_int {
    guarded(|| {
        // SAFETY: as the module says.
        let extents = unsafe { out(extents, "extents") }?;
        extents.write(std::ptr::null());
        let (first, count) = buffers::changes(buffer)?;
        extents.write(first);
        // At most as many as a chunk has blocks.
        Ok(count as c_int)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn amita_aio_write_buffer(
    queue: Handle,
    volume: Handle,
    buffer: Handle,
    offset: u64,
    user: *mut c_void,
) -> c_int {
    request!(queue, |port| {
        let data = buffers::share(buffer)?;
        port.start(volume, IoRequest::Write { offset, data }, user)?;
        buffers::free(buffer)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn amita_aio_read_buffer(
    queue: Handle,
    volume: Handle,
    bytes: usize,
    offset: u64,
    user: *mut c_void,
) -> c_int {
    request!(queue, |port| port.read_buffer(volume, offset, bytes, user))
}

#[unsafe(no_mangle)]
pub extern "C" fn amita_error() -> *const c_char {
    last()
}

#[unsafe(no_mangle)]
pub extern "C" fn amita_strerror(error: c_int) -> *const c_char {
    sentence(error).as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn amita_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
