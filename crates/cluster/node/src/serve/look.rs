//! The stores, looked at before the node is known to anybody: what cannot be served is refused before anything is registered.

use super::{Level, Log, ServeError};
use amita_store::MountError;
use amita_store::format::superblock::{Fault, Superblock};
use amita_store::offline;
use amita_types::ClusterId;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A process that was killed a moment ago holds its stores a little longer than it lives.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// What a path is, as far as its superblocks tell.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    /// `None`: a mount must say what is wrong with it.
    pub(super) superblock: Option<Superblock>,
}

/// The stores of a start: those that may serve, and why the others cannot.
#[derive(Debug, Default)]
pub(super) struct Looked {
    pub(super) found: Vec<Found>,
    pub(super) failures: Vec<String>,
}

/// Looks at each path.
pub(super) fn look(paths: &[PathBuf], log: &Log) -> Result<Looked, ServeError> {
    let mut looked = Looked::default();
    for path in paths {
        match superblock(path, log) {
            Ok(superblock) => {
                let found = Found {
                    path: path.clone(),
                    superblock,
                };
                let same = |other: &&Found| match (&other.superblock, &found.superblock) {
                    (Some(one), Some(other)) => one.store == other.store,
                    _ => false,
                };
                if let Some(other) = looked.found.iter().find(same) {
                    return Err(ServeError::Setting {
                        setting: "store",
                        why: format!(
                            "{} and {} are the same store, or one is a copy of the other; name the one that was served last",
                            other.path.display(),
                            path.display()
                        ),
                    });
                }
                looked.found.push(found);
            }
            Err(why) => looked.failures.push(why),
        }
    }
    looked.check()?;
    Ok(looked)
}

impl Looked {
    /// Those of another cluster cannot serve.
    pub(super) fn refuse_others(&mut self, cluster: ClusterId) -> Result<(), ServeError> {
        self.refuse(|superblock| {
            let other = superblock.cluster != ClusterId(0) && superblock.cluster != cluster;
            Ok(other.then(|| {
                MountError::OtherCluster {
                    store: superblock.store,
                    found: superblock.cluster,
                    expected: cluster,
                }
                .to_string()
            }))
        })
    }

    /// Those that `refuse` has a reason against cannot serve.
    pub(super) fn refuse(
        &mut self,
        mut refuse: impl FnMut(&Superblock) -> Result<Option<String>, ServeError>,
    ) -> Result<(), ServeError> {
        let mut kept = Vec::new();
        for found in std::mem::take(&mut self.found) {
            match found.superblock.as_ref().map(&mut refuse).transpose()?.flatten() {
                None => kept.push(found),
                Some(why) => self.failures.push(format!("store {}: {why}", found.path.display())),
            }
        }
        self.found = kept;
        self.check()
    }

    /// A cluster that a store says that it belongs to.
    pub(super) fn belongs(&self) -> Option<(&Path, ClusterId)> {
        let joined = self.found.iter().filter_map(|found| {
            let cluster = found.superblock.as_ref()?.cluster;
            (cluster != ClusterId(0)).then_some((found.path.as_path(), cluster))
        });
        joined.into_iter().next()
    }

    /// One that can serve is enough: the log says what is wrong with the others.
    fn check(&self) -> Result<(), ServeError> {
        if self.found.is_empty() && !self.failures.is_empty() {
            return Err(ServeError::NoStore {
                failures: self.failures.clone(),
            });
        }
        Ok(())
    }
}

fn superblock(path: &Path, log: &Log) -> Result<Option<Superblock>, String> {
    let failed = |why: &io::Error| ServeError::store(path, why).to_string();
    let facts = std::fs::metadata(path).map_err(|why| failed(&why))?;
    let kind = facts.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        // Opening a FIFO would wait for whoever writes it.
        return Err(failed(&io::Error::other("it is neither a file nor a block device")));
    }
    let mode = facts.permissions().mode() & 0o777;
    if kind.is_file() && mode & 0o077 != 0 {
        return Err(format!(
            "store {path} can be read or written by others (mode {mode:04o}), and all data of its volumes is there: it is not \
             served. `chmod 600 {path}` mends that; then start the node again",
            path = path.display()
        ));
    }
    // The rights of a disk are the system's, and come anew with each boot; its group is the system's own (`disk`).
    if mode & 0o007 != 0 {
        log(
            Level::Warn,
            &format!(
                "store {path} can be read or written by others (mode {mode:04o}): all data of its volumes is there; \
                 `chmod o-rwx {path}` mends that",
                path = path.display()
            ),
        );
    }
    let file = File::open(path).map_err(|why| failed(&why))?;
    let until = Instant::now() + LOCK_PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(LOCK_PATIENCE / 20),
            Err(TryLockError::WouldBlock) => {
                let busy = io::Error::new(io::ErrorKind::ResourceBusy, "it is in use");
                return Err(failed(&busy));
            }
            Err(TryLockError::Error(why)) => return Err(failed(&why)),
        }
    }
    let superblocks = offline::superblocks(&file);
    if superblocks.iter().all(|found| matches!(found, Err(Fault::Magic))) {
        return Err(format!("store {}: {}", path.display(), MountError::NotAStore));
    }
    Ok(offline::newest(&superblocks))
}
