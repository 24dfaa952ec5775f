//! A disk that fails on command: a store's file as a node sees it through a file system of our own, FUSE, in this very
//! process. Beneath lies a plain file; in between, reads, writes and flushes are slowed, held up or refused with the
//! errors that a kernel gives. So the node under test is the binary that ships, and its errors come out of `io_uring` as
//! they do from a bad disk.
//!
//! The mount is gone again before anybody uses it: the file is opened once, the mount point is let go, and nodes open it
//! by `/proc/PID/fd/N`. So nothing is left behind however this process ends, and with it ends the disk: whatever is
//! under way then fails.
//!
//! It needs `/dev/fuse` and the right to mount. Where these are missing, [`FaultyDisk::open`] says so.

mod fuse;

use amita_terminal::error::{Context, Failure, Result};
use fuse::Server;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many operations a disk does side by side; further ones wait in the kernel.
const THREADS: usize = 8;

/// What is wrong with a disk. The default: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskFaults {
    /// So many of a thousand reads fail with `EIO`.
    pub read_errors_per_mille: u32,
    /// So many of a thousand writes fail with `EIO`, and may have been done in part.
    pub write_errors_per_mille: u32,
    /// So many of a thousand flushes fail with `EIO`.
    pub flush_errors_per_mille: u32,
    /// Writes fail with `ENOSPC`.
    pub full: bool,
    /// Each operation takes so much longer.
    pub delay: Duration,
    /// Nothing completes until this is taken back.
    pub stalled: bool,
    /// The sector at this byte is bad: whatever touches it fails with `EIO`, reads and writes.
    pub bad_sector: Option<u64>,
}

impl DiskFaults {
    /// Every operation fails, as of a disk that was pulled.
    #[must_use]
    pub fn lost() -> DiskFaults {
        DiskFaults {
            read_errors_per_mille: 1000,
            write_errors_per_mille: 1000,
            flush_errors_per_mille: 1000,
            ..DiskFaults::default()
        }
    }
}

/// How often the disk failed in each way, since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounts {
    /// Operations that ended well.
    pub done: u64,
    /// Operations that ended in an error.
    pub failed: u64,
    /// Operations that were held up.
    pub delayed: u64,
}

/// The file beneath, and what is wrong with it.
struct Disk {
    file: File,
    size_bytes: u64,
    faults: Mutex<DiskFaults>,
    changed: Condvar,
    draws: AtomicU64,
    done: AtomicU64,
    failed: AtomicU64,
    delayed: AtomicU64,
}

/// One operation, for the drawing of faults.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Read,
    Write,
    Flush,
}

impl Disk {
    fn faults(&self) -> MutexGuard<'_, DiskFaults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits as the disk makes one wait; then: does this operation fail?
    fn judge(&self, operation: Operation) -> io::Result<()> {
        let mut faults = self.faults();
        if faults.stalled || !faults.delay.is_zero() {
            self.delayed.fetch_add(1, Ordering::Relaxed);
        }
        while faults.stalled {
            faults = self.changed.wait(faults).unwrap_or_else(PoisonError::into_inner);
        }
        let now = *faults;
        drop(faults);
        if !now.delay.is_zero() {
            std::thread::sleep(now.delay);
        }
        let per_mille = match operation {
            Operation::Read => now.read_errors_per_mille,
            Operation::Write => now.write_errors_per_mille,
            Operation::Flush => now.flush_errors_per_mille,
        };
        let draw = amita_types::layout::mix(self.draws.fetch_add(1, Ordering::Relaxed));
        let error = if draw % 1000 < u64::from(per_mille) {
            Some(rustix::io::Errno::IO)
        } else if operation == Operation::Write && now.full {
            Some(rustix::io::Errno::NOSPC)
        } else {
            None
        };
        let counter = if error.is_some() { &self.failed } else { &self.done };
        counter.fetch_add(1, Ordering::Relaxed);
        error.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Does it touch the bad sector?
    fn spare(&self, offset: u64, bytes: usize) -> io::Result<()> {
        let bad = self.faults().bad_sector;
        let touched = bad.is_some_and(|bad| (offset..offset.saturating_add(bytes as u64)).contains(&bad));
        if touched {
            self.failed.fetch_add(1, Ordering::Relaxed);
            return Err(rustix::io::Errno::IO.into());
        }
        Ok(())
    }

    fn read(&self, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        self.spare(offset, bytes)?;
        self.judge(Operation::Read)?;
        let left = self.size_bytes.saturating_sub(offset);
        let mut data = vec![0; bytes.min(usize::try_from(left).unwrap_or(usize::MAX))];
        self.file.read_exact_at(&mut data, offset)?;
        Ok(data)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<usize> {
        if offset.saturating_add(data.len() as u64) > self.size_bytes {
            return Err(rustix::io::Errno::NOSPC.into());
        }
        self.spare(offset, data.len())?;
        if let Err(error) = self.judge(Operation::Write) {
            // What failed may be there in part: the first half, in whole sectors.
            let part = data.len() / 2 / 512 * 512;
            self.file.write_all_at(&data[..part], offset)?;
            return Err(error);
        }
        self.file.write_all_at(data, offset)?;
        Ok(data.len())
    }

    fn flush(&self) -> io::Result<()> {
        self.judge(Operation::Flush)?;
        self.file.sync_data()
    }
}

/// A store's file behind a disk that fails on command.
pub struct FaultyDisk {
    disk: Arc<Disk>,
    /// Keeps the file system there; and nodes open it through this.
    seen: File,
}

impl std::fmt::Debug for FaultyDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultyDisk")
            .field("path", &self.path())
            .field("faults", &*self.disk.faults())
            .finish()
    }
}

impl FaultyDisk {
    /// Puts a disk without faults in front of a file. `folder` lends a place to mount for a moment.
    ///
    /// # Errors
    /// When the file cannot be opened, there is no `/dev/fuse`, or this process may not mount.
    pub fn open(beneath: &Path, folder: &Path) -> Result<FaultyDisk> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(beneath)
            .context(|| format!("cannot open {}", beneath.display()))?;
        let size_bytes = file
            .metadata()
            .context(|| format!("cannot ask for the size of {}", beneath.display()))?
            .len();
        let disk = Arc::new(Disk {
            file,
            size_bytes,
            faults: Mutex::new(DiskFaults::default()),
            changed: Condvar::new(),
            draws: AtomicU64::new(0),
            done: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            delayed: AtomicU64::new(0),
        });
        let point = tempfile::Builder::new()
            .prefix("disk-")
            .tempdir_in(folder)
            .context(|| format!("cannot make a folder in {}", folder.display()))?;
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .context(|| "cannot open /dev/fuse".to_owned())?;
        let options = format!(
            "fd={},rootmode=40000,user_id={},group_id={}",
            device.as_raw_fd(),
            rustix::process::getuid().as_raw(),
            rustix::process::getgid().as_raw()
        );
        let options = CString::new(options).map_err(|_| Failure::new("a zero byte in the options of a mount"))?;
        mount(
            "amita-disk",
            point.path(),
            "fuse",
            MountFlags::NOSUID | MountFlags::NODEV,
            options.as_c_str(),
        )
        .map_err(io::Error::from)
        .context(|| "cannot mount a FUSE file system".to_owned())?;
        let device = Arc::new(device);
        for _ in 0..THREADS {
            let server = Server::new(Arc::clone(&device), Arc::clone(&disk));
            std::thread::Builder::new()
                .name("disk".to_owned())
                .spawn(move || server.run())
                .context(|| "cannot start a thread for a disk".to_owned())?;
        }
        let seen = OpenOptions::new()
            .read(true)
            .write(true)
            .open(point.path().join(fuse::FILE_NAME));
        unmount(point.path(), UnmountFlags::DETACH)
            .map_err(io::Error::from)
            .context(|| "cannot let the mount point go".to_owned())?;
        let seen = seen.context(|| "cannot open a file on our own file system".to_owned())?;
        Ok(FaultyDisk { disk, seen })
    }

    /// Where nodes open it, while this is there.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.seen.as_raw_fd()))
    }

    /// From now on this is wrong with it.
    pub fn set(&self, faults: DiskFaults) {
        *self.disk.faults() = faults;
        self.disk.changed.notify_all();
    }

    /// What it has done so far.
    #[must_use]
    pub fn counts(&self) -> DiskCounts {
        DiskCounts {
            done: self.disk.done.load(Ordering::Relaxed),
            failed: self.disk.failed.load(Ordering::Relaxed),
            delayed: self.disk.delayed.load(Ordering::Relaxed),
        }
    }
}

/// Nobody waits for a disk that is gone: what it held up goes on.
impl Drop for FaultyDisk {
    fn drop(&mut self) {
        self.set(DiskFaults::default());
    }
}

#[cfg(test)]
mod tests;
