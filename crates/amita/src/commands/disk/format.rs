//! Making a store.

#[cfg(test)]
mod tests;

use super::FormatArguments;
use super::contents::Ends;
use amita_store::FormatParams;
use amita_terminal::confirm;
use amita_terminal::error::{Context, Failure, Kind, Result};
use amita_terminal::interrupt;
use amita_terminal::say_line;
use amita_terminal::{progress, size};
use amita_types::{ClusterId, StoreId};
use std::fs::{File, TryLockError};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// On a block device this refuses one that is mounted or otherwise in use (open(2)).
const O_EXCL: i32 = rustix::fs::OFlags::EXCL.bits() as i32;

pub(super) fn run(arguments: &FormatArguments) -> Result<()> {
    interrupt::catch();
    let path = &arguments.path;
    let shown = path.display();
    let target = Target::open(path)?;
    let size_bytes = target.size(arguments.size)?;
    if !arguments.force {
        target.refuse_if_in_use()?;
    }
    target.refuse_without_room(size_bytes)?;
    if arguments.force && !target.made {
        let lost = format!("What is on {shown} is overwritten, all of it.");
        confirm::destroys(arguments.yes, &shown.to_string(), &lost)?;
    }
    let store = StoreId(uuid::Uuid::new_v4().as_u128());
    let params = FormatParams {
        store,
        cluster: ClusterId::default(),
        size_bytes,
        log_bytes: None,
    };
    let outcome = amita_store::format(&params)
        .context(|| format!("cannot make a store of {shown}"))
        .and_then(|format| write(&target, format));
    if let Err(failure) = outcome {
        if target.made {
            // Half a store is of no use to anybody, and a full disk wants its room back.
            let _ = std::fs::remove_file(path);
        }
        return Err(failure);
    }
    if arguments.json {
        let made = serde_json::json!({ "path": path, "store": store, "size_bytes": size_bytes });
        say_line!("{made}");
    } else {
        say_line!("{shown} is store {store}, {}.", size::show(size_bytes));
    }
    Ok(())
}

struct Target<'a> {
    path: &'a Path,
    file: File,
    is_device: bool,
    made: bool,
}

impl Target<'_> {
    fn open(path: &Path) -> Result<Target<'_>> {
        let shown = path.display();
        let found = match std::fs::metadata(path) {
            Ok(found) => Some(found),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(Failure::new(format!("cannot look at {shown}: {error}"))),
        };
        let is_device = found.as_ref().is_some_and(|found| found.file_type().is_block_device());
        if found.as_ref().is_some_and(|found| !is_device && !found.is_file()) {
            return Err(Failure::new(format!("{shown} is neither a block device nor a file")));
        }
        let mut options = File::options();
        // Whoever can read it has all data of its volumes.
        options.read(true).write(true).create(found.is_none()).mode(0o600);
        if is_device {
            options.custom_flags(O_EXCL);
        }
        let file = options.open(path).map_err(|error| {
            let failure = Failure::new(format!("cannot open {shown}: {error}"));
            match error.kind() {
                std::io::ErrorKind::ResourceBusy => failure
                    .kind(Kind::Conflict)
                    .advice("It is mounted or in use. Unmount it, or name another disk."),
                std::io::ErrorKind::PermissionDenied => failure.advice("Run this as a user who may write there."),
                std::io::ErrorKind::NotFound => failure.kind(Kind::NotFound).advice("Make its folder first."),
                _ => failure,
            }
        })?;
        match file.try_lock() {
            Ok(()) => Ok(Target {
                path,
                file,
                is_device,
                made: found.is_none(),
            }),
            Err(TryLockError::WouldBlock) => Err(Failure::new(format!("{shown} is in use by another process"))
                .kind(Kind::Conflict)
                .advice("A node serves it. Stop that node first, if this is the disk that you mean.")),
            Err(TryLockError::Error(error)) => Err(Failure::new(format!("cannot lock {shown}: {error}"))),
        }
    }

    /// How large the store is to be.
    fn size(&self, given: Option<u64>) -> Result<u64> {
        let shown = self.path.display();
        let there = (&self.file)
            .seek(SeekFrom::End(0))
            .context(|| format!("cannot measure {shown}"))?;
        match given {
            Some(size_bytes) if self.is_device && size_bytes > there => Err(Failure::new(format!(
                "{shown} has {}, less than the {} that were asked for",
                size::show(there),
                size::show(size_bytes)
            ))
            .kind(Kind::Usage)),
            Some(size_bytes) => Ok(size_bytes),
            None if there == 0 => {
                if self.made {
                    // It is of no use to anybody, and was not there before.
                    let _ = std::fs::remove_file(self.path);
                }
                Err(
                    Failure::new(format!("how large is {shown} to be? It does not exist, or is empty"))
                        .kind(Kind::Usage)
                        .advice("Give its size: --size 100G."),
                )
            }
            None => Ok(there / 4096 * 4096),
        }
    }

    /// A file is written full: where that cannot end well, it is not begun.
    fn refuse_without_room(&self, size_bytes: u64) -> Result<()> {
        if self.is_device {
            return Ok(());
        }
        let shown = self.path.display();
        let found = self.file.metadata().context(|| format!("cannot look at {shown}"))?;
        let disk = rustix::fs::fstatvfs(&self.file).context(|| format!("cannot look at the disk of {shown}"))?;
        // st_blocks counts units of 512 bytes whatever the file system's block is (stat(2)).
        let room = disk.f_bavail * disk.f_frsize + std::os::unix::fs::MetadataExt::blocks(&found) * 512;
        if size_bytes <= room {
            return Ok(());
        }
        if self.made {
            // It is of no use to anybody, and was not there before.
            let _ = std::fs::remove_file(self.path);
        }
        Err(Failure::new(format!(
            "the disk beneath {shown} has room for {}, less than the {} that were asked for",
            size::show(room),
            size::show(size_bytes)
        ))
        .advice("Give a smaller --size, or make room: a store's file is written full, never thin."))
    }

    /// Nothing that might be somebody's data is overwritten without being told to.
    fn refuse_if_in_use(&self) -> Result<()> {
        let shown = self.path.display();
        let ends = Ends::read(&self.file).context(|| format!("cannot read {shown}"))?;
        let what = match super::list::Found::in_front(&ends.front) {
            super::list::Found::Store(superblock) => format!("holds the store {}", superblock.store),
            super::list::Found::Damaged(_) => "holds a damaged store".to_owned(),
            super::list::Found::Nothing => match ends.what() {
                Some(what) => format!("is not empty: {what}"),
                None => return Ok(()),
            },
        };
        Err(Failure::new(format!("{shown} {what}; it was not touched"))
            .kind(Kind::Conflict)
            .advice("Check the path. To destroy what is there, give --force."))
    }
}

fn write(target: &Target<'_>, mut format: amita_store::Format) -> Result<()> {
    let shown = target.path.display();
    if !target.is_device {
        // Also a file that was there before.
        let owner_only = std::fs::Permissions::from_mode(0o600);
        target
            .file
            .set_permissions(owner_only)
            .map_err(|error| failed(target.path, &error))?;
        let size_bytes = format.superblock().geometry.size_bytes;
        target
            .file
            .set_len(size_bytes)
            .map_err(|error| failed(target.path, &error))?;
    }
    let bar = progress::bar(&format!("formatting {shown}"), format.total_bytes());
    let mut flushed = false;
    loop {
        interrupt::check()?;
        if format.zeros_done() && !flushed {
            target.file.sync_all().map_err(|error| failed(target.path, &error))?;
            flushed = true;
        }
        let Some((offset, data)) = format.next() else { break };
        target
            .file
            .write_all_at(&data, offset)
            .map_err(|error| failed(target.path, &error))?;
        bar.set_position(format.done_bytes());
    }
    target.file.sync_all().map_err(|error| failed(target.path, &error))?;
    bar.finish_and_clear();
    Ok(())
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    let failure = Failure::new(format!("cannot write {}: {error}", path.display()));
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            failure.advice("Give a smaller --size, or make room: a store's file is written full, never thin.")
        }
        _ => failure,
    }
}
