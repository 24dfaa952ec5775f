//! The folders of a cluster that is made for an hour: logs here, the stores' files where they are fast.

use amita_terminal::error::{Context, Failure, Kind, Result};
use amita_terminal::size;
use rustix::fs::statvfs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// `f_type` of tmpfs (linux/magic.h).
const TMPFS_MAGIC: u32 = 0x0102_1994;
/// Where Linux keeps memory-backed files.
const MEMORY_FOLDER: &str = "/dev/shm";

/// The folders; what was made here is removed with it.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
    stores: PathBuf,
    memory: bool,
    made: Vec<PathBuf>,
    keep: bool,
}

impl Scratch {
    /// Makes the folders. Without `stores`, the stores' files go to memory where `bytes` of them have room, else beside
    /// the logs.
    ///
    /// # Errors
    /// When a folder cannot be made, holds something already, or has no room.
    pub fn make(name: &str, folder: Option<&Path>, stores: Option<&Path>, bytes: u64) -> Result<Scratch> {
        let mut made = Vec::new();
        let folder = match folder {
            Some(given) => {
                take_folder(given, &mut made)?;
                given
                    .canonicalize()
                    .context(|| format!("cannot find {}", given.display()))?
            }
            None => temporary(name, &std::env::temp_dir(), &mut made)?,
        };
        let mut scratch = Scratch {
            stores: folder.clone(),
            folder,
            memory: false,
            made,
            keep: false,
        };
        if let Some(given) = stores {
            take_folder(given, &mut scratch.made)?;
            scratch.stores = given
                .canonicalize()
                .context(|| format!("cannot find {}", given.display()))?;
        } else if room(Path::new(MEMORY_FOLDER)).is_some_and(|free| free >= bytes + bytes / 4) {
            scratch.stores = temporary(name, Path::new(MEMORY_FOLDER), &mut scratch.made)?;
        }
        scratch.memory = is_memory(&scratch.stores);
        let free = room(&scratch.stores).unwrap_or_default();
        if free < bytes {
            return Err(Failure::new(format!(
                "{} has {} free, and the stores need {}",
                scratch.stores.display(),
                size::show(free),
                size::show(bytes)
            ))
            .advice("Name another folder with --store-dir, or a smaller volume with --size."));
        }
        Ok(scratch)
    }

    /// For logs and the metadata.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// For the stores' files.
    #[must_use]
    pub fn stores(&self) -> &Path {
        &self.stores
    }

    /// In words, for a table: where the stores' files are and what is beneath.
    #[must_use]
    pub fn backing(&self) -> String {
        format!("{}, {}", self.kind(), self.stores.display())
    }

    /// What is beneath the stores' files.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        if self.memory {
            "memory (tmpfs)"
        } else {
            "files on a disk"
        }
    }

    /// Are the stores' files in memory?
    #[must_use]
    pub fn is_memory(&self) -> bool {
        self.memory
    }

    /// The folders stay.
    pub fn keep(&mut self) {
        self.keep = true;
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        for folder in self.made.iter().rev() {
            if let Err(error) = std::fs::remove_dir_all(folder) {
                log::warn!("cannot remove {}: {error}", folder.display());
            }
        }
    }
}

/// A folder that was named: made if it is not there, else it must be empty, so that nothing of its owner is touched.
fn take_folder(path: &Path, made: &mut Vec<PathBuf>) -> Result<()> {
    match std::fs::read_dir(path) {
        Ok(mut entries) => match entries.next() {
            None => refuse_loose(path),
            Some(_) => Err(Failure::new(format!("the folder {} is not empty", path.display()))
                .kind(Kind::Conflict)
                .advice("Name another one; or, when a cluster was left there, end it: amita demo --stop --dir DIR.")),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let mut maker = std::fs::DirBuilder::new();
            let made_it = maker.recursive(true).mode(0o700).create(path);
            made_it.context(|| format!("cannot make the folder {}", path.display()))?;
            made.push(
                path.canonicalize()
                    .context(|| format!("cannot find {}", path.display()))?,
            );
            Ok(())
        }
        Err(error) => Err(Failure::new(format!(
            "cannot use the folder {}: {error}",
            path.display()
        ))),
    }
}

/// What others may put into the folder, or take out of it, would be taken for the cluster's own.
fn refuse_loose(path: &Path) -> Result<()> {
    let facts = std::fs::metadata(path).context(|| format!("cannot look at {}", path.display()))?;
    let mode = facts.permissions().mode() & 0o777;
    if mode & 0o022 == 0 {
        return Ok(());
    }
    Err(Failure::new(format!(
        "others can write into the folder {} (mode {mode:04o}), which is to hold a cluster's files",
        path.display()
    ))
    .kind(Kind::Unreadable)
    .advice(format!("Give it to its owner alone: chmod 700 {}", path.display())))
}

fn temporary(name: &str, parent: &Path, made: &mut Vec<PathBuf>) -> Result<PathBuf> {
    let folder = tempfile::Builder::new()
        .prefix(&format!("amita-{name}-"))
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir_in(parent)
        .context(|| format!("cannot make a folder in {}", parent.display()))?;
    let path = folder.keep();
    made.push(path.clone());
    Ok(path)
}

fn room(path: &Path) -> Option<u64> {
    let found = statvfs(path).ok()?;
    Some(found.f_bavail * found.f_frsize)
}

fn is_memory(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|found| found.f_type as u32 == TMPFS_MAGIC)
}

#[cfg(test)]
mod tests;
