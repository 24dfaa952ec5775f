//! Opening files and devices: what is beneath, and what may be expected of it.

use super::sys;
use crate::driver::{FileInfo, in_use};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Without better knowledge direct I/O wants offsets in multiples of this, in bytes.
const COMMON_ALIGNMENT: u32 = 4096;

/// A process that was killed a moment ago may hold its lock for so long, until the kernel has ended what it had under
/// way.
const LOCK_PATIENCE: Duration = Duration::from_millis(500);

/// How reads and writes of a file are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// In memory: at once.
    Memory,
    /// Through the kernel's cache (direct I/O was refused): at once where the cache has it, else by the ring.
    Cached,
    /// Direct, by the ring; memory must be aligned to so many bytes.
    Direct { memory_alignment: u32 },
}

/// Opens for reading and writing, locked. Errors name the path.
pub(super) fn open(path: &Path) -> io::Result<(File, FileInfo, Way)> {
    open_plain(path).map_err(|error| match error.kind() {
        io::ErrorKind::ResourceBusy => error,
        kind => io::Error::new(kind, format!("{}: {error}", path.display())),
    })
}

fn open_plain(path: &Path) -> io::Result<(File, FileInfo, Way)> {
    let kind = std::fs::metadata(path)?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        let text = "neither a file nor a block device";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    // O_EXCL on a block device: not while it is mounted or otherwise claimed.
    let flags = if kind.is_block_device() { libc::O_EXCL } else { 0 };
    let with = |flags: i32| OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
    let opened = match with(flags | libc::O_DIRECT) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => (with(flags)?, false),
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => return Err(in_use(path)),
        other => (other?, true),
    };
    // Memory takes O_DIRECT in newer kernels, and means nothing by it.
    let (file, way) = match opened {
        (file, _) if !kind.is_block_device() && sys::is_in_memory(&file)? => (with(flags)?, Way::Memory),
        (file, false) => (file, Way::Cached),
        (file, true) => {
            let memory_alignment = sys::direct_alignment(path).map_or(512, |(memory, _)| memory);
            (file, Way::Direct { memory_alignment })
        }
    };
    let started = Instant::now();
    while !sys::lock(&file)? {
        if started.elapsed() > LOCK_PATIENCE {
            return Err(in_use(path));
        }
        thread::sleep(LOCK_PATIENCE / 20);
    }
    let about = file.metadata()?;
    let (size_bytes, alignment) = match (kind.is_block_device(), way) {
        (true, Way::Direct { .. }) => sys::block_device(&file)?,
        (true, _) => (sys::block_device(&file)?.0, 1),
        (false, Way::Direct { .. }) => {
            let alignment = sys::direct_alignment(path).map_or(COMMON_ALIGNMENT, |(_, offset)| offset);
            (about.len(), alignment)
        }
        (false, _) => (about.len(), 1),
    };
    let volatile_cache = match way {
        Way::Memory => false,
        Way::Cached => true,
        Way::Direct { .. } => {
            let device = if kind.is_block_device() {
                about.rdev()
            } else {
                about.dev()
            };
            has_volatile_cache(Path::new("/sys/dev/block"), libc::major(device), libc::minor(device))
        }
    };
    let info = FileInfo {
        size_bytes,
        alignment,
        volatile_cache,
        inline: way == Way::Memory,
    };
    Ok((file, info, way))
}

/// Does a device acknowledge writes that a power cut takes? What cannot be found out is taken for volatile: a flush
/// too many costs time, one too few costs data.
fn has_volatile_cache(devices: &Path, major: u32, minor: u32) -> bool {
    let device = devices.join(format!("{major}:{minor}"));
    // A partition has no queue of its own; its directory lies in that of the disk.
    let queues: [PathBuf; 2] = [device.join("queue/write_cache"), device.join("../queue/write_cache")];
    let setting = queues.iter().find_map(|queue| std::fs::read_to_string(queue).ok());
    setting.is_none_or(|setting| setting.trim() != "write through")
}

#[cfg(test)]
mod tests;
