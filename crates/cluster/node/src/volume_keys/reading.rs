//! Reading files that may lie where nothing answers: on a mount whose server is away, say, where a read hangs for as long as that is, and
//! nobody can end it.
//!
//! Each read is a thread's of its own, and is waited for only so long. While one hangs nobody reads that path again, and whoever wants it is
//! told so at once: there is one such thread for a path, and there are [`MAX_UNDER_WAY`] at most.

use super::file::KeyFileError;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// A file of some lines is read within this, or its file system does not answer.
pub(super) const LIMIT: Duration = Duration::from_secs(3);
/// Files of which reads are under way in one process: those that hang among them.
const MAX_UNDER_WAY: usize = 16;

/// What came of it.
pub(super) type Text = Result<Zeroizing<String>, KeyFileError>;

/// The paths that are being read, and since when.
struct UnderWay {
    paths: Mutex<BTreeMap<PathBuf, Instant>>,
    ended: Condvar,
}

static UNDER_WAY: UnderWay = UnderWay {
    paths: Mutex::new(BTreeMap::new()),
    ended: Condvar::new(),
};

impl UnderWay {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Instant>> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for who reads the same path, for as long as that may take, and is the next one.
    fn begin(&'static self, path: &Path, limit: Duration) -> Result<Reading, KeyFileError> {
        let hangs = || KeyFileError::Hangs {
            seconds: limit.as_secs(),
        };
        let mut paths = self.lock();
        while let Some(began) = paths.get(path) {
            let left = limit.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Err(hangs());
            }
            (paths, _) = self
                .ended
                .wait_timeout(paths, left)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if paths.len() >= MAX_UNDER_WAY {
            return Err(KeyFileError::TooManyHang { files: MAX_UNDER_WAY });
        }
        paths.insert(path.to_owned(), Instant::now());
        Ok(Reading(path.to_owned(), self))
    }
}

/// One read, until it ends, however it does.
struct Reading(PathBuf, &'static UnderWay);

impl Drop for Reading {
    fn drop(&mut self) {
        self.1.lock().remove(&self.0);
        self.1.ended.notify_all();
    }
}

/// What `read` makes of the file there, within this time.
///
/// # Errors
/// What it says; that it hangs, or hung already; that too many others do.
pub(super) fn within(path: &Path, limit: Duration, read: impl FnOnce(&Path) -> Text + Send + 'static) -> Text {
    let reading = UNDER_WAY.begin(path, limit)?;
    let (done, heard) = sync_channel(1);
    let body = move || {
        let text = read(&reading.0);
        // The next one may begin before this one is told of.
        drop(reading);
        // Where nobody waits any more it is wiped.
        let _ = done.send(text);
    };
    std::thread::Builder::new()
        .name("amita-key-file".to_owned())
        .spawn(body)?;
    heard.recv_timeout(limit).unwrap_or(Err(KeyFileError::Hangs {
        seconds: limit.as_secs(),
    }))
}

#[cfg(test)]
mod tests;
