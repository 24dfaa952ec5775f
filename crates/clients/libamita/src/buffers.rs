//! Buffers that C holds: memory of a client's pool, to be filled for a write, or what a read or a question has brought.

use crate::failure::{Failure, Result};
use crate::handles::{Handle, Kind, Table};
use amita_client::{BufMut, Payload, Pool, Slice};
use std::ffi::c_void;

enum Buffer {
    /// To be written to.
    Fresh(BufMut),
    /// To be read.
    Filled(Slice),
    /// What was changed. Nothing but extents, and never written to a volume.
    Changes(Vec<Extent>),
}

/// Blocks that follow each other and were changed, as the header has it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Extent {
    offset: u64,
    length: u64,
    is_zero: u32,
    reserved: u32,
}

impl From<amita_client::Extent> for Extent {
    fn from(extent: amita_client::Extent) -> Extent {
        Extent {
            offset: extent.offset,
            length: extent.length,
            is_zero: extent.is_zero.into(),
            reserved: 0,
        }
    }
}

static BUFFERS: Table<Buffer> = Table::new(Kind::Buffer);

fn bad() -> Failure {
    Failure::bad_handle("buffer")
}

/// Takes memory of a pool.
pub(crate) fn alloc(pool: &Pool, bytes: usize) -> Result<Handle> {
    let most = amita_client::MAX_READ_WRITE_BYTES as usize;
    if !(1..=most).contains(&bytes) {
        let text = format!("a buffer of {bytes} bytes; 1 to {most} are allowed");
        return Err(Failure::new(libc::EINVAL, text));
    }
    let buffer = pool.take(bytes).ok_or_else(|| {
        let text = format!(
            "no {bytes} bytes of the client's memory are free: let requests end, give buffers back, or set buffer_bytes \
             higher"
        );
        Failure::new(libc::ENOMEM, text)
    })?;
    Ok(BUFFERS.lock().insert(Buffer::Fresh(buffer)))
}

/// Keeps what a read has brought, in one piece.
pub(crate) fn keep(pool: &Pool, payload: &Payload) -> Handle {
    let mut parts = payload.parts();
    let slice = match (parts.next(), parts.next()) {
        (Some(only), None) => only.clone(),
        _ => gather(pool, payload),
    };
    BUFFERS.lock().insert(Buffer::Filled(slice))
}

/// Keeps extents.
pub(crate) fn keep_changes(extents: impl Iterator<Item = amita_client::Extent>) -> Handle {
    let extents = extents.map(Extent::from).collect();
    BUFFERS.lock().insert(Buffer::Changes(extents))
}

/// Where the extents of a buffer are, and how many; they stay there until it is freed.
pub(crate) fn changes(handle: Handle) -> Result<(*const Extent, usize)> {
    match BUFFERS.lock().get(handle) {
        Some(Buffer::Changes(extents)) => Ok((extents.as_ptr(), extents.len())),
        Some(_) => Err(no_changes()),
        None => Err(bad()),
    }
}

fn no_changes() -> Failure {
    let text = "the buffer holds no extents: amita_aio_changed() brings those";
    Failure::new(libc::EINVAL, text)
}

fn only_changes() -> Failure {
    let text = "the buffer holds extents: amita_changes() reads them, and they are not written to a volume";
    Failure::new(libc::EINVAL, text)
}

fn gather(pool: &Pool, payload: &Payload) -> Slice {
    match pool.take(payload.len()) {
        Some(mut buffer) => {
            payload.copy_to(&mut buffer);
            buffer.freeze()
        }
        None => Slice::copy_from(&payload.to_vec()),
    }
}

/// What a buffer holds, for a write: from now on it is only read, here and by C.
pub(crate) fn share(handle: Handle) -> Result<Slice> {
    let mut buffers = BUFFERS.lock();
    let buffer = buffers.get(handle).ok_or_else(bad)?;
    if matches!(buffer, Buffer::Changes(_)) {
        return Err(only_changes());
    }
    let slice = match std::mem::replace(buffer, Buffer::Filled(Slice::default())) {
        Buffer::Fresh(buffer) => buffer.freeze(),
        Buffer::Filled(slice) => slice,
        Buffer::Changes(_) => return Err(only_changes()),
    };
    *buffer = Buffer::Filled(slice.clone());
    Ok(slice)
}

/// How long is it?
pub(crate) fn length(handle: Handle) -> Result<usize> {
    match BUFFERS.lock().get(handle) {
        Some(Buffer::Fresh(buffer)) => Ok(buffer.len()),
        Some(Buffer::Filled(slice)) => Ok(slice.len()),
        Some(Buffer::Changes(_)) => Err(only_changes()),
        None => Err(bad()),
    }
}

/// Where is it?
pub(crate) fn data(handle: Handle) -> Result<*mut c_void> {
    match BUFFERS.lock().get(handle) {
        Some(Buffer::Fresh(buffer)) => Ok(buffer.as_mut_ptr().cast()),
        Some(Buffer::Filled(slice)) => Ok(slice.as_ptr().cast_mut().cast()),
        Some(Buffer::Changes(_)) => Err(only_changes()),
        None => Err(bad()),
    }
}

/// Gives it back.
pub(crate) fn free(handle: Handle) -> Result<()> {
    let taken = BUFFERS.lock().take(handle);
    taken.map(drop).ok_or_else(bad)
}
