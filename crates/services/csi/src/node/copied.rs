//! The start of a disk, copied into memory. Who has a disk may show one thing to who looks at it and another one to who uses it; of a copy both see the same.

use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};

/// A copy, until it is dropped.
pub trait Copied: Send {
    /// Where programs of this machine find it.
    fn path(&self) -> String;
    /// Writes pieces of it to the disk. Each is there before the next one is begun.
    ///
    /// # Errors
    /// As the kernel says.
    fn write_back(&self, device: &str, pieces: &[Range<u64>]) -> io::Result<()>;
}

/// In no file system: it goes with this process, however that ends.
struct InMemory(File);

impl Copied for InMemory {
    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    fn write_back(&self, device: &str, pieces: &[Range<u64>]) -> io::Result<()> {
        let disk = OpenOptions::new().write(true).open(device)?;
        for piece in pieces {
            let bytes = usize::try_from(piece.end.saturating_sub(piece.start)).map_err(io::Error::other)?;
            let mut bytes = vec![0; bytes];
            self.0.read_exact_at(&mut bytes, piece.start)?;
            disk.write_all_at(&bytes, piece.start)?;
            disk.sync_all()?;
        }
        Ok(())
    }
}

/// Copies so many bytes of a disk.
pub(super) fn copy(device: &str, bytes: u64) -> io::Result<Box<dyn Copied>> {
    let mut all = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
    File::open(device)?.read_exact(&mut all)?;
    // Machines may refuse one that could be run (vm.memfd_noexec, Linux 6.3), and older kernels do not know the word.
    let made = memfd_create("amita-copy", MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL);
    let made = match made {
        Err(rustix::io::Errno::INVAL) => memfd_create("amita-copy", MemfdFlags::CLOEXEC),
        made => made,
    };
    let mut copy = File::from(made?);
    copy.set_permissions(Permissions::from_mode(0o600))?;
    copy.write_all(&all)?;
    Ok(Box::new(InMemory(copy)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_copy_stays_what_it_was_and_is_written_back_where_that_is_wanted() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        let device = path.display().to_string();
        fs::write(&path, [1; 64]).expect("written");
        copy(&device, 65).map(|_| ()).expect_err("it has less");
        let copy = copy(&device, 32).expect("copied");
        fs::write(&path, [2; 64]).expect("written");
        let kept = copy.path();
        assert_eq!(fs::read(&kept).expect("read"), [1; 32]);
        assert_eq!(
            fs::metadata(&kept).expect("it is there").permissions().mode() & 0o777,
            0o600
        );
        // A program may have written to it.
        fs::write(&kept, [3; 32]).expect("written");
        copy.write_back(&device, &[16..32, 0..8]).expect("written back");
        let wanted = [[3; 8].as_slice(), &[2; 8], &[3; 16], &[2; 32]].concat();
        assert_eq!(fs::read(&path).expect("read"), wanted);
    }
}
