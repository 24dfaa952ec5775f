//! The key file: a passphrase in one line, of its owner alone, kept apart from the cluster and from the repository.

use amita_backup::{Cost, DRAWN, is_drawn};
use amita_keys::Zeroizing;
use amita_terminal::error::{Failure, Kind, Result};
use aws_lc_rs::rand;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

const DRAWN_BYTES: usize = 32;
/// The longest file of a secret.
const MAX_BYTES: u64 = 4096;
const OTHERS: u32 = 0o077;

/// A passphrase.
pub struct Key(Zeroizing<String>);

impl Key {
    /// Reads a key file.
    ///
    /// # Errors
    /// It cannot be read, others could read it, or it has no passphrase.
    pub fn load(path: &Path) -> Result<Key> {
        Key::find(path)?.ok_or_else(|| {
            Failure::new(format!("there is no key file {}", path.display()))
                .kind(Kind::NotFound)
                .advice("Name the one that the repository was made with. `amita backup repository init` makes a new one for a new vault.")
        })
    }

    /// The same; `None`: it is not there.
    ///
    /// # Errors
    /// As [`Key::load`].
    pub fn find(path: &Path) -> Result<Option<Key>> {
        match open(path) {
            Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
            _ => {}
        }
        let text = read(path, "key file")?;
        let line = text.lines().next().unwrap_or_default();
        if line.is_empty() {
            let what = format!(
                "the key file {} must have one line of 1 to {MAX_BYTES} bytes",
                path.display()
            );
            return Err(Failure::new(what).kind(Kind::Unreadable));
        }
        Ok(Some(Key(Zeroizing::new(line.to_owned()))))
    }

    /// Draws a new one and writes it to a new file, durably.
    ///
    /// # Errors
    /// There is a file, or it cannot be written.
    pub fn make(path: &Path) -> Result<Key> {
        let cannot = |why: String| Failure::new(format!("the key file {} cannot be made: {why}", path.display()));
        let mut bits = Zeroizing::new([0; DRAWN_BYTES]);
        rand::fill(&mut bits[..]).map_err(|_| cannot("the machine has no random numbers".to_owned()))?;
        let mut text = Zeroizing::new(String::with_capacity(DRAWN.len() + 2 * DRAWN_BYTES + 1));
        text.push_str(DRAWN);
        for byte in bits.iter() {
            for digit in [byte >> 4, byte & 15] {
                text.push(char::from_digit(digit.into(), 16).unwrap_or('0'));
            }
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let write = || {
            let mut file = options.open(path)?;
            file.write_all(text.as_bytes())?;
            file.write_all(b"\n")?;
            file.sync_all()?;
            File::open(folder)?.sync_all()
        };
        write().map_err(|why: std::io::Error| cannot(why.to_string()))?;
        Ok(Key(text))
    }

    /// What is sealed by it.
    pub fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// What it is to cost to try one.
    pub fn cost(&self) -> Cost {
        match is_drawn(self.bytes()) {
            true => Cost::OF_RANDOM_BITS,
            false => Cost::default(),
        }
    }
}

/// Opens a file to read it, and nothing else: a pipe that nobody writes, or a device, would keep a node waiting for ever.
///
/// # Errors
/// It cannot be opened, or is no regular file.
pub fn open(path: &Path) -> std::io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(std::io::Error::other("it is no regular file")),
    }
}

/// What a file of a secret has, which must be of this user alone. `what` it is to people.
///
/// # Errors
/// It cannot be read, others could read it, or it is too long.
pub fn read(path: &Path, what: &str) -> Result<Zeroizing<String>> {
    let shown = path.display();
    let refused = |why: String| Failure::new(format!("the {what} {shown} {why}")).kind(Kind::Unreadable);
    let cannot = |why: std::io::Error| refused(format!("cannot be read: {why}"));
    let file = open(path).map_err(cannot)?;
    // Of the open file, not of the name: they cannot be exchanged in between.
    let facts = file.metadata().map_err(cannot)?;
    if facts.mode() & OTHERS != 0 {
        let mode = facts.mode() & 0o7777;
        let advice = format!("`chmod 600 {shown}` mends that. Who has read it meanwhile knows what it has.");
        return Err(refused(format!("can be read by others (mode {mode:04o})")).advice(advice));
    }
    let own = rustix::process::geteuid().as_raw();
    if facts.uid() != own && own != 0 {
        return Err(refused("belongs to another user".to_owned()));
    }
    // With room for all of it: a string that grows leaves copies behind.
    let mut text = Zeroizing::new(String::with_capacity(MAX_BYTES as usize + 1));
    let read = file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(cannot)?;
    match read as u64 > MAX_BYTES {
        true => Err(refused(format!("is longer than {MAX_BYTES} bytes"))),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests;
