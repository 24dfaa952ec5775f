//! A folder as an object store.
//!
//! An object is written under a name of its own in `.new`, synced, and linked to its name: a link is made only where there is nothing, and
//! half an object never has a name. Folders are synced before a put is confirmed.
//!
//! Others may write there, too. So nothing but regular files is opened, none that a symbolic link of theirs names, and none is read that is longer
//! than objects are.

use super::{Listed, MAX_OBJECT_BYTES, ObjectStore, Put, Retention, Room, StoreError};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Where objects are written before they have their names. No object's name begins with a dot.
const NEW: &str = ".new";
/// No object lies deeper.
const MAX_PARTS: usize = 3;

/// A folder, local or mounted; several processes and machines may use it at once. (NFS keeps the contract from version 3 on: links are
/// exclusive there.)
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    /// Held open: what it lies on is not unmounted meanwhile, so that nothing is put where it was mounted.
    _held: File,
    made: AtomicU64,
}

fn told(error: &io::Error) -> StoreError {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreError::Full,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::InvalidData => {
            StoreError::Refused(error.to_string())
        }
        _ if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => StoreError::Refused(NO_FILE.to_owned()),
        _ => StoreError::Unknown(error.to_string()),
    }
}

const NO_FILE: &str = "it is no regular file";

/// Opens an object to read it: a pipe that nobody writes would be waited for, and a link may lead to what has no end.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(ErrorKind::InvalidData, NO_FILE)),
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let too_long = || io::Error::new(ErrorKind::InvalidData, "it is longer than any object");
    let file = open(path)?;
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    if length > MAX_OBJECT_BYTES {
        return Err(too_long());
    }
    let mut bytes = Vec::with_capacity(length);
    // It may grow meanwhile.
    file.take(MAX_OBJECT_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    match bytes.len() > MAX_OBJECT_BYTES {
        true => Err(too_long()),
        false => Ok(bytes),
    }
}

fn read_range(path: &Path, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut file = open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(length as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// `None`: it is not there.
fn found(read: io::Result<Vec<u8>>) -> Result<Option<Vec<u8>>, StoreError> {
    match read {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(told(&error)),
    }
}

fn is_name(name: &str) -> bool {
    let good = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    name.split('/').all(good)
}

impl Folder {
    /// A folder that is there already: one that is made by mistake would lie where a disk was to be mounted.
    ///
    /// # Errors
    /// When it is none, or cannot be used.
    pub fn open(root: &Path) -> io::Result<Folder> {
        if !fs::metadata(root)?.is_dir() {
            return Err(io::Error::new(ErrorKind::NotADirectory, "it is no folder"));
        }
        Ok(Folder {
            root: root.to_path_buf(),
            _held: File::open(root)?,
            made: AtomicU64::new(0),
        })
    }

    fn path(&self, name: &str) -> Result<PathBuf, StoreError> {
        let good = is_name(name).then(|| self.root.join(name));
        good.ok_or_else(|| StoreError::Refused(format!("{name:?} is no name of an object")))
    }

    /// Makes the folders above an object, and syncs those that hold a new one.
    fn make_folders(&self, folder: &Path) -> io::Result<()> {
        if folder == self.root || folder.is_dir() {
            return Ok(());
        }
        if let Some(above) = folder.parent() {
            self.make_folders(above)?;
            match fs::create_dir(folder) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
                _ => File::open(above)?.sync_all()?,
            }
        }
        Ok(())
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<Put> {
        let folder = path.parent().unwrap_or(&self.root);
        self.make_folders(folder)?;
        self.make_folders(&self.root.join(NEW))?;
        let mut tag = [0; 8];
        aws_lc_rs::rand::fill(&mut tag).map_err(|_| io::Error::other("no random numbers"))?;
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let unnamed = self
            .root
            .join(NEW)
            .join(format!("{:016x}-{number}", u64::from_le_bytes(tag)));
        let result = write_new(&unnamed, path, bytes);
        // What stays behind after a crash is no object; `Folder::tidy` removes it.
        let _ = fs::remove_file(&unnamed);
        let put = result?;
        // Also of what was there: its own put may not have come so far.
        File::open(folder)?.sync_all()?;
        Ok(put)
    }

    /// Removes what crashed puts have left. Only while nobody else writes: a put that is under way fails otherwise, and is tried again.
    ///
    /// # Errors
    /// When the folder cannot be read or written.
    pub fn tidy(&self) -> io::Result<usize> {
        let entries = match fs::read_dir(self.root.join(NEW)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
            entries => entries?,
        };
        let mut removed = 0;
        for entry in entries {
            fs::remove_file(entry?.path())?;
            removed += 1;
        }
        Ok(removed)
    }

    /// The names of files that begin with `prefix`.
    fn walk(
        folder: &Path,
        name: &str,
        prefix: &str,
        room: &mut Room,
        found: &mut Vec<String>,
    ) -> Result<(), StoreError> {
        let entries = match fs::read_dir(folder) {
            // Removed meanwhile, or not there yet.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(|error| told(&error))?,
        };
        for entry in entries {
            let entry = entry.map_err(|error| told(&error))?;
            let Ok(own) = entry.file_name().into_string() else {
                continue;
            };
            let name = if name.is_empty() { own } else { format!("{name}/{own}") };
            if !is_name(&name) {
                continue;
            }
            let kind = entry.file_type().map_err(|error| told(&error))?;
            // Each folder on the way is open meanwhile.
            let leads_on = name.split('/').count() < MAX_PARTS;
            if kind.is_dir() && leads_on && (name.starts_with(prefix) || prefix.starts_with(&format!("{name}/"))) {
                Folder::walk(&entry.path(), &name, prefix, room, found)?;
            } else if kind.is_file() && name.starts_with(prefix) {
                room.take(&name)?;
                found.push(name);
            }
        }
        Ok(())
    }
}

/// Writes under a name of its own, and gives it the object's where there is none.
fn write_new(unnamed: &Path, path: &Path, bytes: &[u8]) -> io::Result<Put> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(unnamed)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    match fs::hard_link(unnamed, path) {
        Ok(()) => Ok(Put::New),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(Put::Exists),
        // File systems without links (FAT, some FUSE): a rename that replaces nothing.
        Err(_) => rename_new(unnamed, path),
    }
}

fn rename_new(from: &Path, to: &Path) -> io::Result<Put> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(Put::New),
        Err(rustix::io::Errno::EXIST) => Ok(Put::Exists),
        Err(error) => Err(error.into()),
    }
}

impl ObjectStore for Folder {
    fn put(&self, name: &str, bytes: &[u8], retain: Option<Retention>) -> Result<Put, StoreError> {
        if retain.is_some() {
            return Err(NO_LOCKS);
        }
        self.write(&self.path(name)?, bytes).map_err(|error| told(&error))
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        found(read(&self.path(name)?))
    }

    fn get_range(&self, name: &str, offset: u64, length: usize) -> Result<Option<Vec<u8>>, StoreError> {
        found(read_range(&self.path(name)?, offset, length))
    }

    fn list(&self, prefix: &str, after: &str, most: usize) -> Result<Vec<Listed>, StoreError> {
        let mut names = Vec::new();
        Folder::walk(&self.root, "", prefix, &mut Room::default(), &mut names)?;
        names.retain(|name| name.as_str() > after);
        names.sort_unstable();
        let mut found = Vec::new();
        for name in names {
            if found.len() >= most {
                break;
            }
            // Of those alone that are told: by a network each is a question.
            match fs::symlink_metadata(self.root.join(&name)) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                facts => found.push(Listed {
                    bytes: facts.map_err(|error| told(&error))?.len(),
                    name,
                }),
            }
        }
        Ok(found)
    }

    fn delete(&self, name: &str) -> Result<(), StoreError> {
        match fs::remove_file(self.path(name)?) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(told(&error)),
            _ => Ok(()),
        }
    }

    fn retain(&self, _: &str, _: Retention) -> Result<(), StoreError> {
        Err(NO_LOCKS)
    }
}

/// Whoever may write a folder may delete in it: a lock that says otherwise would protect from nobody.
const NO_LOCKS: StoreError = StoreError::Unsupported("a folder has no locks");
