//! The file that is measured: a store, and behind it, in the same file, a region for fio and for the driver alone.

use crate::fio::Fio;
use crate::rider::{self, CHUNK_BYTES, Durable, Opening, Rider};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of the store: small, so that it is written over several times in a run.
pub const STORE_BYTES: u64 = 512 << 20;
/// Bytes of its log: small, so that several checkpoints fall into each stretch.
pub const LOG_BYTES: u64 = 8 << 20;
/// Chunks of the volume: it takes 7/8 of the store's slots.
pub const CHUNKS: u64 = 108;
/// Bytes of the region behind the store: as many as the volume has.
const REGION_BYTES: u64 = CHUNKS * CHUNK_BYTES;

/// A file, removed when it goes.
pub struct Bed {
    path: PathBuf,
    /// In words.
    pub what: String,
    /// Is the file in memory?
    pub memory: bool,
    /// Is what the device has acknowledged lost in a power cut, unless it is flushed?
    pub volatile: bool,
    pub fio: Fio,
}

impl Bed {
    /// Makes the file in a folder and writes all of it.
    pub fn make(folder: &Path) -> Result<Bed, String> {
        let path = folder.join(format!("amita-store-bench-{}", std::process::id()));
        let problem = |error: std::io::Error| format!("{}: {error}", path.display());
        let guard = Removed(&path);
        rider::make(&path, STORE_BYTES, Some(LOG_BYTES)).map_err(problem)?;
        let file = File::options().write(true).open(&path).map_err(problem)?;
        file.set_len(STORE_BYTES + REGION_BYTES).map_err(problem)?;
        drop(file);
        let mut fio = Fio::new(&path, Bed::region());
        fio.fill()?;
        let flushing = Opening {
            durable: Durable::ByFlush,
            ..Opening::default()
        };
        let (rider, _) = Rider::open(&path, 0, flushing)?;
        let info = rider.info().clone();
        drop(rider);
        let what = match (info.inline, info.volatile_cache) {
            (true, _) => format!("{}: memory, read and written inline", folder.display()),
            (false, volatile) => format!(
                "{}: O_DIRECT, alignment {}, {}",
                folder.display(),
                info.alignment,
                if volatile {
                    "a volatile write cache"
                } else {
                    "no volatile write cache"
                }
            ),
        };
        std::mem::forget(guard);
        Ok(Bed {
            path,
            what,
            memory: info.inline,
            volatile: info.volatile_cache,
            fio,
        })
    }

    /// Where fio and the driver alone may write: start and length in bytes.
    pub fn region() -> (u64, u64) {
        (STORE_BYTES, REGION_BYTES)
    }

    /// Mounts the store.
    pub fn open(&self, opening: Opening) -> Result<(Rider, Duration), String> {
        Rider::open(&self.path, CHUNKS, opening)
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Removes a file that was made halfway.
struct Removed<'a>(&'a Path);

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.0);
    }
}
