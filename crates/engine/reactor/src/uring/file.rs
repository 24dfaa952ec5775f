//! Opening files and devices: what is beneath, and what may be expected of it.

use super::sys::{self, DirectIo};
use crate::driver::{FileInfo, in_use};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Without better knowledge direct I/O wants offsets in multiples of this, in bytes.
const COMMON_ALIGNMENT: u32 = 4096;

/// Where the kernel describes its block devices.
const DEVICES: &str = "/sys/dev/block";

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

/// An open and locked file or device.
pub(super) struct Opened {
    pub file: File,
    pub info: FileInfo,
    pub way: Way,
    pub is_device: bool,
}

/// Opens for reading and writing, locked. Errors name the path.
///
/// With `write_through`, a write to a disk with a volatile cache ends when it is past that (`O_DSYNC`): the kernel sends it
/// as a `FUA` write where the disk knows that, else a flush behind it, one for all writes that wait for one.
pub(super) fn open(path: &Path, write_through: bool) -> io::Result<Opened> {
    open_plain(path, write_through).map_err(|error| match error.kind() {
        io::ErrorKind::ResourceBusy => error,
        kind => io::Error::new(kind, format!("{}: {error}", path.display())),
    })
}

fn open_plain(path: &Path, write_through: bool) -> io::Result<Opened> {
    let about = std::fs::metadata(path)?;
    let kind = about.file_type();
    let is_device = kind.is_block_device();
    if !kind.is_file() && !is_device {
        let text = "neither a file nor a block device";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    // O_EXCL on a block device: not while it is mounted or otherwise claimed.
    let flags = if is_device { libc::O_EXCL } else { 0 };
    let with = |flags: i32| OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
    let number = if is_device { about.rdev() } else { about.dev() };
    let volatile = has_volatile_cache(Path::new(DEVICES), libc::major(number), libc::minor(number));
    let through = volatile && write_through;
    let dsync = if through { libc::O_DSYNC } else { 0 };
    let opened = match with(flags | libc::O_DIRECT | dsync) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => (with(flags)?, false),
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => return Err(in_use(path)),
        other => (other?, true),
    };
    let direct = sys::direct_io(path);
    // Memory takes O_DIRECT in newer kernels, and means nothing by it. A file whose data goes through a journal, say, takes
    // it too, and is written by the cache all the same.
    let (file, way) = match opened {
        (file, _) if !is_device && sys::is_in_memory(&file)? => (with(flags)?, Way::Memory),
        (file, false) => (file, Way::Cached),
        (_, true) if !is_device && direct == DirectIo::Refused => (with(flags)?, Way::Cached),
        (file, true) => {
            let memory_alignment = match direct {
                DirectIo::Aligned { memory, .. } => memory,
                DirectIo::Unknown | DirectIo::Refused => 512,
            };
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
    if through {
        // What was written before, by a process that was killed or while the setting was another, may be read back out
        // of the cache and still be lost. With the lock held, all of it has ended: after this it is durable.
        file.sync_data()?;
    }
    let about = file.metadata()?;
    let info = if is_device {
        about_device(&file, number, way, volatile && !through)?
    } else {
        about_file(&file, &about, way, direct, volatile, through)?
    };
    Ok(Opened {
        file,
        info,
        way,
        is_device,
    })
}

fn about_device(device: &File, number: u64, way: Way, volatile: bool) -> io::Result<FileInfo> {
    let (size_bytes, sector) = sys::block_device(device)?;
    let is_direct = matches!(way, Way::Direct { .. });
    let (major, minor) = (libc::major(number), libc::minor(number));
    let devices = Path::new(DEVICES);
    Ok(FileInfo {
        size_bytes,
        alignment: if is_direct { sector } else { 1 },
        volatile_cache: !is_direct || volatile,
        inline: false,
        discard: can_discard(devices, major, minor),
        discard_makes_holes: false,
        holes: false,
    })
}

fn about_file(
    file: &File,
    about: &Metadata,
    way: Way,
    direct: DirectIo,
    volatile: bool,
    through: bool,
) -> io::Result<FileInfo> {
    let size_bytes = about.len();
    let in_memory = way == Way::Memory;
    let alignment = match (way, direct) {
        (Way::Direct { .. }, DirectIo::Aligned { offset, .. }) => offset,
        (Way::Direct { .. }, _) => COMMON_ALIGNMENT,
        (Way::Memory | Way::Cached, _) => 1,
    };
    let holes = !in_memory && has_holes(file, size_bytes)?;
    let volatile_cache = match way {
        Way::Memory => false,
        Way::Cached => true,
        // A write that goes through the cache brings what the file system has to note of it along.
        Way::Direct { .. } => (holes || volatile) && !through,
    };
    Ok(FileInfo {
        size_bytes,
        alignment,
        volatile_cache,
        inline: in_memory,
        discard: can_punch(file, size_bytes),
        discard_makes_holes: !in_memory,
        holes,
    })
}

/// Would a write somewhere in the file change more than data? What the file system has converted, but not yet noted for
/// good, looks as if it were done; so that is written out first.
fn has_holes(file: &File, size_bytes: u64) -> io::Result<bool> {
    file.sync_all()?;
    // A file system that cannot tell is taken to have them: as above, doubt means a flush.
    Ok(!sys::is_written_whole(file, size_bytes, sys::EXTENTS).unwrap_or(false))
}

/// Can the file system beneath punch holes? Only trying tells; behind the end there is nothing to lose.
fn can_punch(file: &File, size_bytes: u64) -> bool {
    let behind = size_bytes.next_multiple_of(u64::from(COMMON_ALIGNMENT));
    sys::punch(file.as_raw_fd(), behind, u64::from(COMMON_ALIGNMENT)).is_ok()
}

/// Does a device acknowledge writes that a power cut takes? What cannot be found out is taken for volatile: a flush
/// too many costs time, one too few costs data.
fn has_volatile_cache(devices: &Path, major: u32, minor: u32) -> bool {
    setting(devices, major, minor, "write_cache").is_none_or(|setting| setting.trim() != "write through")
}

/// Does a device take discards?
fn can_discard(devices: &Path, major: u32, minor: u32) -> bool {
    let most = setting(devices, major, minor, "discard_max_bytes");
    most.is_some_and(|most| most.trim().parse::<u64>().is_ok_and(|most| most > 0))
}

/// What the kernel says of a device's queue.
fn setting(devices: &Path, major: u32, minor: u32, name: &str) -> Option<String> {
    let device = devices.join(format!("{major}:{minor}"));
    // A partition has no queue of its own; its directory lies in that of the disk.
    let queues: [PathBuf; 2] = [device.join("queue"), device.join("../queue")];
    queues
        .iter()
        .find_map(|queue| std::fs::read_to_string(queue.join(name)).ok())
}

#[cfg(test)]
mod tests;
