//! Opening what is to be looked at.

use super::Common;
use amita_store::offline::Offline;
use amita_store::{Config, MountError};
use amita_terminal::error::{Failure, Kind, Result};
use std::fs::File;
use std::path::Path;

/// How often a mount is tried of a store that is written meanwhile.
const ATTEMPTS: usize = 3;

/// Opens a file or a device for reading only; nobody is kept from it.
pub(in crate::commands) fn file(path: &Path) -> Result<File> {
    let shown = path.display();
    refuse_to_wait(path)?;
    let file = File::open(path).map_err(|error| {
        let failure = Failure::new(format!("cannot open {shown}: {error}")).kind(Kind::Unreadable);
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => failure.advice("Run this as a user who may read it."),
            _ => failure,
        }
    })?;
    let found = file.metadata().map_err(|error| cannot(path, &error.to_string()))?;
    if found.is_dir() {
        return Err(cannot(path, "it is a folder"));
    }
    Ok(file)
}

/// Whoever opens a FIFO waits for somebody that writes into it, and no store lies in one, nor in a socket or a terminal.
///
/// # Errors
/// It is neither a file nor a block device. What is not there is left to whoever opens it.
pub(in crate::commands) fn refuse_to_wait(path: &Path) -> Result<()> {
    use std::os::unix::fs::FileTypeExt as _;
    let Ok(found) = std::fs::metadata(path) else {
        return Ok(());
    };
    let kind = found.file_type();
    match kind.is_fifo() || kind.is_socket() || kind.is_char_device() {
        true => Err(cannot(path, "it is neither a file nor a block device")),
        false => Ok(()),
    }
}

/// What cannot be read.
pub(super) fn cannot(path: &Path, why: &str) -> Failure {
    Failure::new(format!("cannot read {}: {why}", path.display())).kind(Kind::Unreadable)
}

pub(super) fn config(common: &Common) -> Config {
    Config {
        index_bytes: common.memory,
        ..Config::default()
    }
}

/// Mounts it. A refusal of a store that is being written may be of the moment only: it counts when it comes twice.
pub(in crate::commands) fn mounted<'a>(file: &'a File, common: &Common) -> Result<Offline<&'a File>> {
    let mut before: Option<MountError> = None;
    for _ in 0..ATTEMPTS {
        match Offline::open(file, config(common)) {
            Ok(offline) => return Ok(offline),
            Err(error) if before.as_ref() == Some(&error) => break,
            Err(error) => before = Some(error),
        }
    }
    let why = before.map_or_else(String::new, |error| refused(&common.path, &error).what);
    let advice = "`amita store check` says more, and `amita store dump --superblocks`, --log-pages and --checkpoint print what is there.";
    Err(Failure::new(why).kind(Kind::Unreadable).advice(advice))
}

/// Why it cannot be mounted.
pub(super) fn refused(path: &Path, error: &MountError) -> Failure {
    let shown = path.display();
    let failure = Failure::new(format!("{shown}: {error}"));
    match error {
        MountError::NotAStore
        | MountError::Device { .. }
        | MountError::NewerFormat { .. }
        | MountError::UnknownFeatures { .. } => failure.kind(Kind::Unreadable),
        MountError::IndexTooLarge { .. } => failure
            .kind(Kind::Unreadable)
            .advice("Give it more memory: --memory 16G."),
        _ => failure,
    }
}
