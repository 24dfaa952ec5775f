//! How much room the disk beneath the metadata's file has.

use std::path::{Path, PathBuf};

/// So much must be free for a change to be begun: a commit writes some dozens of pages of 4 KiB, and the file's own upkeep
/// wants some.
const RESERVE_BYTES: u64 = 4 << 20;
/// There is room again when so much is free: a disk at the border does not make it one thing now and another then.
const ENOUGH_BYTES: u64 = RESERVE_BYTES * 3 / 2;

/// The disk's room, looked at before something is changed.
#[derive(Debug)]
pub(super) struct Space {
    path: PathBuf,
    full: bool,
    free: fn(&Path) -> Option<u64>,
}

impl Space {
    pub(super) fn new(path: &Path) -> Space {
        Space {
            path: path.to_owned(),
            full: false,
            free,
        }
    }

    /// Is there room for a change? Says it when that has changed.
    pub(super) fn is_left(&mut self) -> bool {
        // Where the system does not say, the commit will.
        let Some(free) = (self.free)(&self.path) else {
            return true;
        };
        let shown = self.path.display();
        if !self.full && free < RESERVE_BYTES {
            self.full = true;
            log::error!(
                "the disk of the metadata file {shown} is full ({} KiB are free): nothing is changed, and what is there can \
                 be read; make room, and it goes on by itself",
                free >> 10
            );
        } else if self.full && free >= ENOUGH_BYTES {
            self.full = false;
            log::warn!("the disk of the metadata file {shown} has room again: changes are made again");
        }
        !self.full
    }
}

/// Bytes that are free where the file is.
fn free(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_full_before_it_is_and_has_room_only_with_some_to_spare() {
        let mut space = Space {
            path: PathBuf::new(),
            full: false,
            free: |_| Some(RESERVE_BYTES),
        };
        assert!(space.is_left());
        space.free = |_| Some(RESERVE_BYTES - 1);
        assert!(!space.is_left());
        space.free = |_| Some(ENOUGH_BYTES - 1);
        assert!(!space.is_left(), "it is at the border");
        space.free = |_| Some(ENOUGH_BYTES);
        assert!(space.is_left());
        space.free = |_| None;
        assert!(space.is_left(), "nobody knows");
    }
}
