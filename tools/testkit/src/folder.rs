//! Temporary folders.

use std::path::Path;

const MEMORY: &str = "/dev/shm";

/// A folder in memory where there is one, for files that many tests write at once.
///
/// # Panics
/// When it cannot be made.
#[must_use]
pub fn in_memory() -> tempfile::TempDir {
    let parent = if Path::new(MEMORY).is_dir() { MEMORY } else { "/tmp" };
    tempfile::tempdir_in(parent).expect("a temporary folder")
}
