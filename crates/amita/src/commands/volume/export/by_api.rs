//! `amita volume export` by the API: what comes is written as it comes, into a file beside, which gets its name when all of it is there and durable.

use super::{Arguments, OWN, Summary, Target, check, check_file, tell};
use crate::admin::Described as _;
use crate::by_api::rest::{Rest, encode};
use crate::by_api::stream::{Coming, SILENCE};
use crate::by_api::transport::Question;
use crate::commands::volume::data::PIECE_BYTES;
use crate::commands::volume::image::Format;
use amita_control::admin;
use amita_terminal::error::{Context as _, Failure, Kind, Result};
use amita_terminal::progress::{self, ProgressBar};
use amita_terminal::{interrupt, size};
use serde::Deserialize;
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tempfile::NamedTempFile;

/// What is asked of the volume beforehand. Nodes of before encrypt nothing, and do not say so.
#[derive(Deserialize)]
struct Known {
    #[serde(default)]
    encrypted: bool,
}

/// Copies it.
///
/// # Errors
/// It is refused, no node answers, it is cut off, or the file cannot be written: then there is none.
pub(in crate::commands::volume) fn run(arguments: &Arguments, rest: &Rest) -> Result<()> {
    let start = Instant::now();
    let (name, file) = (&arguments.volume, &arguments.file);
    let is_stdout = file == Path::new("-");
    check(arguments, is_stdout)?;
    if !is_stdout {
        check_file(arguments)?;
    }
    let (volume, snapshot) = admin::split(name).described()?;
    let mut path = format!("/api/v1/volumes/{}/export", encode(volume));
    if let Some(snapshot) = snapshot {
        path.push_str(&format!("?snapshot={}", encode(snapshot)));
    }
    let known: Known = rest.get(&format!("/api/v1/volumes/{}", encode(volume)))?;
    // The rights of a new file otherwise are for the umask to say.
    let mode = if known.encrypted { OWN } else { 0o666 };
    interrupt::catch();
    let (_, node, mut coming) = rest.open(&Question::get(&path))?;
    let bytes = coming
        .length
        .ok_or_else(|| Failure::new(format!("{node} does not say how long {name} is")))?;
    let real = real(file);
    let part = (!is_stdout).then(|| part(&real, mode)).transpose()?;
    let target = match (&part, arguments.format) {
        (None, _) => Target::Stdout,
        (Some(part), Format::Raw) => raw(part, bytes).context(|| format!("cannot write {}", file.display()))?,
        (Some(part), Format::Qcow2) => Target::qcow2_in(part.path(), bytes, true)?,
    };
    let mut copy = Copy {
        file,
        target,
        bar: progress::bar("exporting", bytes),
        bytes,
        done_bytes: 0,
        written_bytes: 0,
    };
    let copied = copy.run(rest, &mut coming);
    copy.bar.finish_and_clear();
    copied.map_err(|failure| copy.cut(failure, &node))?;
    let Copy {
        target, written_bytes, ..
    } = copy;
    drop(target);
    if let Some(part) = part {
        keep(part, &real, arguments.force)?;
    }
    let summary = Summary {
        volume: name.clone(),
        file: file.display().to_string(),
        format: arguments.format.name(),
        size_bytes: bytes,
        written_bytes,
        resumed_at_bytes: 0,
        seconds: start.elapsed().as_secs_f64(),
    };
    tell(arguments, &summary, snapshot.is_some())
}

/// The file that a name leads to: what is written takes its place, and not that of a symbolic link.
fn real(file: &Path) -> PathBuf {
    std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned())
}

/// The folder that a file is in.
fn folder(file: &Path) -> &Path {
    file.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// A file beside that goes when the command does.
fn part(file: &Path, mode: u32) -> Result<NamedTempFile> {
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(file.file_name().unwrap_or_default());
    let made = tempfile::Builder::new()
        .prefix(&prefix)
        .suffix(".amita-part")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(folder(file));
    made.context(|| format!("cannot write beside {}", file.display()))
}

fn raw(part: &NamedTempFile, bytes: u64) -> std::io::Result<Target> {
    let file = part.as_file().try_clone()?;
    file.set_len(bytes)?;
    Ok(Target::Raw(file))
}

/// Gives it its name. Its folder is durable then, too.
fn keep(part: NamedTempFile, file: &Path, force: bool) -> Result<()> {
    let kept = match force {
        true => part.persist(file),
        false => part.persist_noclobber(file),
    };
    kept.map_err(|why| match why.error.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::new(format!("{} was made by others meanwhile", file.display()))
            .kind(Kind::Conflict)
            .advice("--force writes over it: what it holds is lost."),
        _ => Failure::new(format!("cannot write {}: {}", file.display(), why.error)),
    })?;
    let synced = File::open(folder(file)).and_then(|folder| folder.sync_all());
    synced.context(|| {
        format!(
            "{} is written, and may not outlast a crash of this machine",
            file.display()
        )
    })
}

struct Copy<'a> {
    file: &'a Path,
    target: Target,
    bar: ProgressBar,
    bytes: u64,
    done_bytes: u64,
    written_bytes: u64,
}

impl Copy<'_> {
    fn run(&mut self, rest: &Rest, coming: &mut Coming) -> Result<()> {
        let mut piece: Vec<u8> = Vec::with_capacity(2 * PIECE_BYTES as usize);
        while let Some(bytes) = rest.next(coming, SILENCE)? {
            piece.extend_from_slice(&bytes);
            if piece.len() as u64 >= PIECE_BYTES {
                // What is written begins with a block, or a cluster, wherever it was cut on its way.
                let whole = piece.len() / PIECE_BYTES as usize * PIECE_BYTES as usize;
                self.write(&piece[..whole])?;
                piece.drain(..whole);
            }
        }
        self.write(&piece)?;
        if self.done_bytes != self.bytes {
            return Err(Failure::new("it has ended before its end").kind(Kind::Unreachable));
        }
        self.target.sync().map_err(|why| self.target.failed(self.file, &why))
    }

    fn write(&mut self, piece: &[u8]) -> Result<()> {
        if self.done_bytes + piece.len() as u64 > self.bytes {
            return Err(Failure::new("more comes than was announced"));
        }
        let written = self.target.write(self.done_bytes, piece);
        self.written_bytes += written.map_err(|why| self.target.failed(self.file, &why))?;
        self.done_bytes += piece.len() as u64;
        self.bar.set_position(self.done_bytes);
        Ok(())
    }

    /// What a failure leaves, and what to do.
    fn cut(&self, failure: Failure, node: &str) -> Failure {
        if failure.kind == Kind::Unread {
            return failure;
        }
        let what = format!(
            "{}: {node} has sent {} of {}",
            failure.what,
            size::show(self.done_bytes),
            size::show(self.bytes)
        );
        let left = match self.target {
            Target::Stdout => "What was written to standard output is not the whole",
            _ => "Nothing of it is left",
        };
        let advice = format!("{} {left}: give the command again.", failure.advice);
        Failure { what, ..failure }.advice(advice.trim_start().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn a_file_has_its_name_when_it_is_whole_and_nothing_is_left_of_another_one() {
        let home = tempfile::tempdir().expect("a folder");
        let file = home.path().join("db.raw");
        let there = || std::fs::read_dir(home.path()).expect("a folder").count();
        drop(part(&file, 0o666).expect("a part"));
        assert_eq!(there(), 0);
        let made = part(&file, 0o666).expect("a part");
        assert!(matches!(raw(&made, 8192), Ok(Target::Raw(_))));
        assert_eq!((there(), file.exists()), (1, false));
        keep(made, &file, false).expect("kept");
        assert_eq!((there(), std::fs::metadata(&file).expect("a file").len()), (1, 8192));
        // Others' is written over where that was said.
        let refused = keep(part(&file, 0o666).expect("a part"), &file, false).expect_err("it exists");
        assert_eq!((refused.kind, there()), (Kind::Conflict, 1));
        keep(part(&file, 0o666).expect("a part"), &file, true).expect("kept");
        assert_eq!(std::fs::metadata(&file).expect("a file").len(), 0);
        // A link goes on leading there.
        let link = home.path().join("link");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        let made = part(&real(&link), OWN).expect("a part");
        raw(&made, 4096).expect("long");
        keep(made, &real(&link), true).expect("kept");
        assert!(std::fs::symlink_metadata(&link).expect("a link").is_symlink());
        assert_eq!(std::fs::metadata(&file).expect("a file").len(), 4096);
    }
}
