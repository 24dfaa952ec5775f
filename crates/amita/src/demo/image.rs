//! A real file system: made from a real folder, copied in, copied out, checked.

use amita_harness::tool;
use amita_terminal::error::{Context, Failure, Result};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(120);
/// Folders that a machine with this program has, in order of preference.
const SOURCES: [&str; 5] = ["crates", "docs", "/usr/share/doc", "/usr/share/perl5", "/etc/ssl"];
/// A file system wants room for more than its files.
const FILL: f64 = 0.6;

/// A folder whose files fit an image of `image_bytes`.
///
/// # Errors
/// When none of those that are tried does.
pub fn source(image_bytes: u64) -> Result<PathBuf> {
    let most = (image_bytes as f64 * FILL) as u64;
    SOURCES
        .iter()
        .filter_map(|&candidate| Path::new(candidate).canonicalize().ok())
        .find(|folder| (1..=most).contains(&bytes_of(folder, most, 8)))
        .ok_or_else(|| {
            Failure::new(format!(
                "none of {SOURCES:?} is a folder that fits an image of {image_bytes} bytes"
            ))
        })
}

/// Bytes of the files of a folder, each rounded up to blocks; stops counting above `most`.
fn bytes_of(folder: &Path, most: u64, depth: u32) -> u64 {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && depth > 0 {
            sum += 4096 + bytes_of(&entry.path(), most, depth - 1);
        } else if kind.is_file() {
            sum += entry.metadata().map_or(0, |found| found.len().next_multiple_of(4096));
        }
        if sum > most {
            break;
        }
    }
    sum
}

/// Makes an ext4 image of `bytes` with the files of a folder in it.
///
/// # Errors
/// What mke2fs says.
pub fn make(folder: &Path, image: &Path, source: &Path, bytes: u64) -> Result<()> {
    let file = File::create(image).context(|| format!("cannot make {}", image.display()))?;
    file.set_len(bytes)
        .context(|| format!("cannot make {} {bytes} bytes long", image.display()))?;
    let arguments = ["-q", "-t", "ext4", "-F", "-d"].map(std::ffi::OsStr::new);
    let arguments = arguments.into_iter().chain([source.as_os_str(), image.as_os_str()]);
    tool::run(folder, "mke2fs", arguments, PATIENCE)?.success().map(drop)
}

/// Copies with nbdcopy, from or to a file or an export.
///
/// # Errors
/// What nbdcopy says.
pub fn copy(folder: &Path, source: &str, target: &str) -> Result<()> {
    tool::run(folder, "nbdcopy", [source, target], PATIENCE)?
        .success()
        .map(drop)
}

/// The front of `copied` is the image, byte for byte, and an intact file system.
///
/// # Errors
/// Names the first byte that differs; or what e2fsck says.
pub fn check(folder: &Path, image: &Path, copied: &Path) -> Result<()> {
    let bytes = compare(image, copied)?;
    let file = File::options()
        .write(true)
        .open(copied)
        .context(|| format!("cannot open {}", copied.display()))?;
    file.set_len(bytes)
        .context(|| format!("cannot cut {}", copied.display()))?;
    let arguments = [std::ffi::OsStr::new("-fn"), copied.as_os_str()];
    tool::run(folder, "e2fsck", arguments, PATIENCE)?.success().map(drop)
}

/// Compares all of `image` with as much of `copied`. Returns how many bytes that are.
fn compare(image: &Path, copied: &Path) -> Result<u64> {
    const STEP: usize = 1 << 20;
    let open = |path: &Path| File::open(path).context(|| format!("cannot open {}", path.display()));
    let (mut left, mut right) = (open(image)?, open(copied)?);
    let (mut a, mut b) = (vec![0; STEP], vec![0; STEP]);
    let mut at = 0u64;
    loop {
        let length = left
            .read(&mut a)
            .context(|| format!("cannot read {}", image.display()))?;
        if length == 0 {
            return Ok(at);
        }
        right
            .read_exact(&mut b[..length])
            .context(|| format!("cannot read {} at byte {at}", copied.display()))?;
        if let Some(differs) = (0..length).find(|&byte| a[byte] != b[byte]) {
            return Err(Failure::new(format!(
                "what was read back differs from what was written, first at byte {} of the volume",
                at + differs as u64
            )));
        }
        at += length as u64;
    }
}

#[cfg(test)]
mod tests;
