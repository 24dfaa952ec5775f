//! The Unix socket of a gateway: whoever may open the file is let in, so that its rights are the proof.
//!
//! Nobody else may put a socket of his own in its place, so that it lies in a folder of this process's user alone, beneath folders
//! in which nobody else may rename that one; where it is for a group as well, that group may pass through, and not open it: whoever can
//! open the folder can lock it. The folder is locked while a socket in it is looked at, made or removed: of two
//! processes that find the socket of a dead one, one takes its place, and the other finds the first.

use super::{Level, Log, ServeConfig, ServeError};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::fs::{File, Permissions, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Its owner may open it.
pub const OWNER_ALONE: u32 = 0o600;
/// And the group that its folder belongs to.
pub const OWNER_AND_GROUP: u32 = 0o660;

/// The longest path of a socket, in bytes (`sun_path` of `unix(7)`, without its last zero).
const MAX_PATH_BYTES: usize = 107;
/// How long a start waits for another process to let go of the socket or its folder: the kernel ends what a killed process
/// had listen a little later than the process.
const PATIENCE: Duration = Duration::from_secs(2);
/// The pause between looks at it.
const PAUSE: Duration = Duration::from_millis(20);

/// A socket that this process has made. Dropped, it is removed.
#[derive(Debug)]
pub(crate) struct LocalSocket {
    path: PathBuf,
    /// Device and inode: what somebody else has made there since stays.
    identity: (u64, u64),
    /// While it is open the number is given to no other file.
    _pin: OwnedFd,
}

/// What is found at the path of a socket.
enum Found {
    Nothing,
    /// A socket that nobody listens at any more.
    Left,
    /// Another process serves there.
    Served,
}

/// Can the settings be, and is nobody else there? Nothing is changed.
pub(super) fn check(config: &ServeConfig) -> Result<(), ServeError> {
    let Some(path) = &config.nbd_socket else { return Ok(()) };
    let mode = config.nbd_socket_mode;
    if ![OWNER_ALONE, OWNER_AND_GROUP].contains(&mode) {
        return bad(format!(
            "mode {mode:04o}; choose 0600, or 0660 for the group of its folder"
        ));
    }
    if path.as_os_str().len() > MAX_PATH_BYTES {
        let length = path.as_os_str().len();
        return bad(format!(
            "{}: a path of {length} bytes, and a socket's has at most {MAX_PATH_BYTES}",
            path.display()
        ));
    }
    let folder = folder_of(path)?;
    check_folder(folder, mode)?;
    await_free(config, path, folder).map(drop)
}

impl LocalSocket {
    /// Makes the socket that the settings ask for, in the place of one that a dead process has left; none: they ask for none.
    pub(super) fn bind(config: &ServeConfig, log: &Log) -> Result<Option<(LocalSocket, UnixListener)>, ServeError> {
        let Some(path) = &config.nbd_socket else {
            return Ok(None);
        };
        let folder = folder_of(path)?;
        let group = check_folder(folder, config.nbd_socket_mode)?;
        let (locked, found) = await_free(config, path, folder)?;
        let failed = |why: &io::Error| ServeError::local_socket(path, why);
        if matches!(found, Found::Left) {
            std::fs::remove_file(path).map_err(|why| failed(&why))?;
            let text = format!(
                "{}: took the place of a socket that nobody serves any more",
                path.display()
            );
            log(Level::Info, &text);
        }
        let listener = UnixListener::bind(path).map_err(|why| failed(&why))?;
        // Until it has its rights the folder's keep others out.
        let made = set_rights(path, config.nbd_socket_mode, group).and_then(|()| {
            let pin = open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
            Ok((std::fs::symlink_metadata(path)?, pin))
        });
        let (made, pin) = made.map_err(|why| {
            let _ = std::fs::remove_file(path);
            failed(&why)
        })?;
        drop(locked);
        let socket = LocalSocket {
            path: path.clone(),
            identity: (made.dev(), made.ino()),
            _pin: pin,
        };
        Ok(Some((socket, listener)))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        // Who waits for the folder does so to take the place: what is left then is replaced as that of a dead process.
        let _locked = self.path.parent().map(|folder| lock(folder, PATIENCE));
        let is_own = |found: std::fs::Metadata| (found.dev(), found.ino()) == self.identity;
        if std::fs::symlink_metadata(&self.path).is_ok_and(is_own) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn bad<T>(why: String) -> Result<T, ServeError> {
    Err(ServeError::Setting {
        setting: "nbd-socket",
        why,
    })
}

fn folder_of(path: &Path) -> Result<&Path, ServeError> {
    match path.parent() {
        Some(folder) if path.is_absolute() => Ok(folder),
        _ => bad(format!("{} is no absolute path of a file in a folder", path.display())),
    }
}

/// May nobody but this process's user, and with `mode` the folder's group, come to a socket in there? Returns that group.
fn check_folder(folder: &Path, mode: u32) -> Result<u32, ServeError> {
    let shown = folder.display();
    let wanted = if mode == OWNER_AND_GROUP { 0o710 } else { 0o700 };
    let of_its_own =
        format!("`install -d -m {wanted:o} {shown}/amita` makes a folder of its own: name a path in there");
    let facts = match std::fs::metadata(folder) {
        Ok(facts) if facts.is_dir() => facts,
        Ok(_) => return bad(format!("{shown} is no folder")),
        Err(why) if why.kind() == io::ErrorKind::NotFound => {
            return bad(format!(
                "there is no folder {shown}: `install -d -m {wanted:o} {shown}` makes it"
            ));
        }
        Err(why) => return bad(format!("the folder {shown} cannot be looked at: {why}")),
    };
    if facts.uid() != rustix::process::geteuid().as_raw() {
        return bad(format!(
            "the folder {shown} belongs to user {}, who could put another socket in its place. {of_its_own}",
            facts.uid()
        ));
    }
    let open = facts.mode() & 0o777;
    if open & !wanted == 0 {
        check_above(folder)?;
        return Ok(facts.gid());
    }
    let advice = match facts.mode() & 0o1000 {
        0 => format!("`chmod {wanted:o} {shown}` mends that"),
        // A place for everybody's files, such as /tmp, is to stay one.
        _ => of_its_own,
    };
    bad(format!(
        "others can get into the folder {shown} (mode {open:04o}), and a socket's rights are the proof of its clients. {advice}"
    ))
}

/// May nobody else rename the folder, by the folders above it? As it is written, and as links in that lead.
fn check_above(folder: &Path) -> Result<(), ServeError> {
    let ours = rustix::process::geteuid().as_raw();
    let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    for above in folder.ancestors().skip(1).chain(real.ancestors().skip(1)) {
        let shown = above.display();
        let facts = match std::fs::metadata(above) {
            Ok(facts) => facts,
            Err(why) => return bad(format!("the folder {shown} cannot be looked at: {why}")),
        };
        let sticky = facts.mode() & 0o1000 != 0;
        let whose = match facts.uid() {
            0 => None,
            other => (other != ours).then(|| format!("it belongs to user {other}")),
        };
        let is_open = facts.mode() & 0o022 != 0 && !sticky;
        let why = whose.or_else(|| is_open.then(|| format!("it has mode {:04o}", facts.mode() & 0o7777)));
        if let Some(why) = why {
            return bad(format!(
                "others could put another folder in the place of {}, by {shown}: {why}. Name a path beneath folders that only \
                 root or this process's user can change, such as /run/amita",
                folder.display()
            ));
        }
    }
    Ok(())
}

fn set_rights(path: &Path, mode: u32, group: u32) -> io::Result<()> {
    if mode == OWNER_AND_GROUP {
        chown(path, None, Some(group))?;
    }
    std::fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Locks the folder and looks at the path, until nobody serves there; the lock, and what is there.
fn await_free(config: &ServeConfig, path: &Path, folder: &Path) -> Result<(File, Found), ServeError> {
    let failed = |why: &io::Error| ServeError::local_socket(path, why);
    let until = Instant::now() + PATIENCE;
    loop {
        config.check_interrupted()?;
        let locked = lock(folder, PATIENCE).map_err(|why| failed(&why))?;
        match look(path)? {
            Found::Served if Instant::now() < until => {}
            Found::Served => return Err(failed(&io::ErrorKind::AddrInUse.into())),
            found => return Ok((locked, found)),
        }
        drop(locked);
        std::thread::sleep(PAUSE);
    }
}

/// Keeps other processes from what is done in here.
fn lock(folder: &Path, patience: Duration) -> io::Result<File> {
    let file = File::open(folder)?;
    let until = Instant::now() + patience;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => {
                let why = format!("another process holds a lock on {}", folder.display());
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, why));
            }
            Err(TryLockError::Error(why)) => return Err(why),
        }
    }
}

fn look(path: &Path) -> Result<Found, ServeError> {
    let failed = |why: &io::Error| ServeError::local_socket(path, why);
    match std::fs::symlink_metadata(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(why) => return Err(failed(&why)),
        Ok(facts) if !facts.file_type().is_socket() => {
            return bad(format!(
                "{} is there, and is no socket: it stays as it is. Name another path",
                path.display()
            ));
        }
        Ok(_) => {}
    }
    // Not one that blocks: it would wait where as many wait as may.
    let dial = || {
        let socket = socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
            None,
        )?;
        connect(&socket, &SocketAddrUnix::new(path)?)
    };
    match dial() {
        Ok(()) | Err(Errno::AGAIN) => Ok(Found::Served),
        Err(Errno::CONNREFUSED) => Ok(Found::Left),
        Err(Errno::NOENT) => Ok(Found::Nothing),
        Err(why) => Err(failed(&why.into())),
    }
}

#[cfg(test)]
mod tests;
