//! Files of secrets and of trust: read only when nobody else could have touched them, written whole or not at all.

use crate::error::IdentityError;
use rustix::fs::{FlockOperation, flock};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use zeroize::Zeroizing;

type Result<T> = std::result::Result<T, IdentityError>;

/// The longest file of an identity: two roots, a chain, a list of some thousand revoked certificates.
pub(crate) const MAX_FILE_BYTES: u64 = 1 << 20;
/// The longest file of a key.
pub(crate) const MAX_KEY_BYTES: u64 = 16 << 10;

const FOLDER_MODE: u32 = 0o700;
const SECRET_MODE: u32 = 0o600;
const PUBLIC_MODE: u32 = 0o644;

/// Is a file for this user's eyes only, or may others read it?
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Privacy {
    Secret,
    /// Others may read it; nobody else may write it.
    Public,
}

impl Privacy {
    fn mode(self) -> u32 {
        match self {
            Privacy::Secret => SECRET_MODE,
            Privacy::Public => PUBLIC_MODE,
        }
    }
}

/// `allowed`: the bits that may be set.
fn check(path: &Path, found: &std::fs::Metadata, allowed: u32) -> Result<()> {
    let user = rustix::process::geteuid().as_raw();
    // What root owns is as safe as this process is.
    if found.uid() != user && found.uid() != 0 {
        return Err(IdentityError::Owner {
            path: path.to_owned(),
            owner: found.uid(),
            user,
        });
    }
    let mode = found.mode() & 0o7777;
    if mode & 0o777 & !allowed != 0 {
        return Err(IdentityError::Loose {
            path: path.to_owned(),
            mode,
            wanted: allowed,
        });
    }
    Ok(())
}

/// Is this a folder of this user's alone? `false`: it is not there.
pub(crate) fn check_folder(path: &Path) -> Result<bool> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => check(path, &found, FOLDER_MODE).map(|()| true),
        Ok(_) => Err(IdentityError::content(path, "a folder is wanted, and this is none")),
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(false),
        Err(why) => Err(IdentityError::file(path, "look at it")(why)),
    }
}

/// Makes a folder of this user's alone, with those above it; one that is there is checked.
pub(crate) fn make_folder(path: &Path) -> Result<()> {
    if check_folder(path)? {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(IdentityError::file(parent, "make it"))?;
    }
    DirBuilder::new()
        .mode(FOLDER_MODE)
        .create(path)
        .map_err(IdentityError::file(path, "make it"))?;
    sync_folder(
        path.parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or(".".as_ref()),
    )
}

fn sync_folder(path: &Path) -> Result<()> {
    let wrong = |why| IdentityError::file(path, "write it")(why);
    File::open(path).map_err(wrong)?.sync_all().map_err(wrong)
}

/// A file's text; none if it is not there. Refused when others could have read a secret, or written anything.
pub(crate) fn read(path: &Path, privacy: Privacy, longest: u64) -> Result<Option<Zeroizing<String>>> {
    let Some((file, bytes)) = open(path, privacy, longest)? else {
        return Ok(None);
    };
    // Room for all of it at once: a text that grows leaves copies of a secret behind.
    let mut text = Zeroizing::new(String::with_capacity(bytes as usize + 1));
    file.take(longest)
        .read_to_string(&mut text)
        .map_err(IdentityError::file(path, "read it"))?;
    Ok(Some(text))
}

/// A file's bytes, text or not, under the same conditions. For what is no secret itself.
pub(crate) fn read_bytes(path: &Path, privacy: Privacy, longest: u64) -> Result<Option<Vec<u8>>> {
    let Some((file, bytes)) = open(path, privacy, longest)? else {
        return Ok(None);
    };
    let mut found = Vec::with_capacity(bytes as usize + 1);
    file.take(longest)
        .read_to_end(&mut found)
        .map_err(IdentityError::file(path, "read it"))?;
    Ok(Some(found))
}

/// A file that may be read, and its length in bytes.
fn open(path: &Path, privacy: Privacy, longest: u64) -> Result<Option<(File, u64)>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(IdentityError::file(path, "read it")(why)),
    };
    // Of the open file, not of the name: they cannot be exchanged in between.
    let found = file.metadata().map_err(IdentityError::file(path, "look at it"))?;
    if !found.is_file() {
        return Err(IdentityError::content(path, "not a regular file"));
    }
    check(path, &found, privacy.mode())?;
    if found.len() > longest {
        return Err(IdentityError::content(
            path,
            format!("longer than {longest} bytes, which no such file is"),
        ));
    }
    Ok(Some((file, found.len())))
}

/// Writes a file whole: under another name first, then renamed; durable when this returns.
pub(crate) fn write(path: &Path, privacy: Privacy, text: &str) -> Result<()> {
    write_bytes(path, privacy, text.as_bytes())
}

/// The same for what may be no text.
pub(crate) fn write_bytes(path: &Path, privacy: Privacy, bytes: &[u8]) -> Result<()> {
    let wrong = |why| IdentityError::file(path, "write it")(why);
    let folder = path.parent().expect("a file in a folder");
    let mut name = path.file_name().expect("a file in a folder").to_owned();
    name.push(".new");
    let new = folder.join(name);
    // What a crash has left: it was never used.
    match std::fs::remove_file(&new) {
        Err(why) if why.kind() != ErrorKind::NotFound => return Err(wrong(why)),
        _ => {}
    }
    let written = || {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(privacy.mode())
            .open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&new, path)
    };
    written().map_err(wrong)?;
    sync_folder(folder)
}

/// Renames inside of one folder, durably.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<()> {
    std::fs::rename(from, to).map_err(IdentityError::file(from, "rename it"))?;
    sync_folder(from.parent().expect("a file in a folder"))
}

/// Adds a line to a file of this user's alone, durably.
pub(crate) fn append(path: &Path, line: &str) -> Result<()> {
    let wrong = |why| IdentityError::file(path, "write it")(why);
    let is_new = !path.exists();
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(SECRET_MODE)
        .open(path)
        .map_err(wrong)?;
    file.write_all(format!("{line}\n").as_bytes()).map_err(wrong)?;
    file.sync_all().map_err(wrong)?;
    if is_new {
        sync_folder(path.parent().expect("a file in a folder"))?;
    }
    Ok(())
}

/// Held while a folder is changed: one process at a time. It ends with the value.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "the lock is the open file's")] File);

/// Waits until nobody else changes the folder.
pub(crate) fn lock(folder: &Path) -> Result<Lock> {
    let path = folder.join("lock");
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(SECRET_MODE)
        .open(&path)
        .map_err(IdentityError::file(&path, "write it"))?;
    flock(&file, FlockOperation::LockExclusive).map_err(|why| IdentityError::file(&path, "lock it")(why.into()))?;
    Ok(Lock(file))
}
