//! A folder as an object store.
//!
//! An object is written under a name of its own in `.new`, synced, and linked to its name: a link is made only where there is nothing, and
//! half an object never has a name. Folders are synced before a put is confirmed.
//!
//! Others may write there, too. So nothing but regular files is opened, none that a symbolic link of theirs names, and none is read that is longer
//! than objects are.

use super::{Listed, MAX_OBJECT_BYTES, ObjectStore, Put, Retention, Room, StoreError};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, statat, unlinkat};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Where objects are written before they have their names. No object's name begins with a dot.
const NEW: &str = ".new";
/// What lies there for so long, in seconds, was left: no put takes a day.
const LEFT_S: i64 = 86_400;
/// So many of these are removed at one time: the next pruning goes on.
const MAX_TIDIED: usize = 10_000;
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
        let unnamed = self.root.join(NEW).join(self.unnamed()?);
        let result = write_new(&unnamed, path, bytes);
        // What stays behind after a crash is no object; pruning removes it a day later.
        let _ = fs::remove_file(&unnamed);
        let put = result?;
        // Also of what was there: its own put may not have come so far.
        File::open(folder)?.sync_all()?;
        Ok(put)
    }

    /// What nothing is called yet in `.new`.
    fn unnamed(&self) -> io::Result<String> {
        let mut tag = [0; 8];
        aws_lc_rs::rand::fill(&mut tag).map_err(|_| io::Error::other("no random numbers"))?;
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        Ok(format!("{:016x}-{number}", u64::from_le_bytes(tag)))
    }

    /// By the open folder, and no name of it: nothing goes where a link of somebody else's leads. How old something is its file system alone tells,
    /// by what is made now: whoever puts may be another machine, with another clock.
    fn remove_left(&self) -> io::Result<usize> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let new = match rustix::fs::open(self.root.join(NEW), flags, Mode::empty()) {
            // Nobody has put anything yet, or nobody puts here.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(0),
            new => new?,
        };
        let name = self.unnamed()?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let made = openat(&new, &name, flags, Mode::RUSR | Mode::WUSR)?;
        let now = fstat(&made);
        unlinkat(&new, &name, AtFlags::empty())?;
        let now = now?.st_mtime;
        let mut removed = 0;
        for entry in Dir::read_from(&new)? {
            let entry = entry?;
            let name = entry.file_name();
            if !is_unnamed(name.to_bytes()) {
                continue;
            }
            // What is gone meanwhile, or may not be removed by this user, is passed over.
            let Ok(facts) = statat(&new, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let is_file = FileType::from_raw_mode(facts.st_mode) == FileType::RegularFile;
            let is_left = is_file && now.saturating_sub(facts.st_mtime) > LEFT_S;
            if is_left && unlinkat(&new, name, AtFlags::empty()).is_ok() {
                removed += 1;
            }
            if removed == MAX_TIDIED {
                break;
            }
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

/// As [`Folder::unnamed`] makes them: what somebody else has there stays.
fn is_unnamed(name: &[u8]) -> bool {
    let mut parts = name.splitn(2, |byte| *byte == b'-');
    let (tag, number) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    tag.len() == 16
        && tag.iter().all(u8::is_ascii_hexdigit)
        && !number.is_empty()
        && number.iter().all(u8::is_ascii_digit)
}

/// Writes under a name of its own, and gives it the object's where there is none.
fn write_new(unnamed: &Path, path: &Path, bytes: &[u8]) -> io::Result<Put> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(unnamed)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    call(unnamed, path)
}

fn call(unnamed: &Path, path: &Path) -> io::Result<Put> {
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

    fn tidy(&self) -> Result<usize, StoreError> {
        self.remove_left().map_err(|error| told(&error))
    }
}

/// Whoever may write a folder may delete in it: a lock that says otherwise would protect from nobody.
const NO_LOCKS: StoreError = StoreError::Unsupported("a folder has no locks");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_put_whose_file_was_tidied_away_may_be_done_again() {
        let folder = amita_testkit::folder::in_memory();
        let called = call(&folder.path().join("gone"), &folder.path().join("object"));
        assert!(matches!(told(&called.unwrap_err()), StoreError::Unknown(_)));
    }
}
