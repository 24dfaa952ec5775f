//! `amita backup restore`.
//!
//! Into a volume, as [`super::pour`] has it; or into a file, which has its name when it is whole.

use super::by::By;
use super::failure::{Described as _, carried};
use super::points::{self, Which};
use super::pour::{self, Held, What, held};
use super::target::Target;
use crate::admin::{Admin, Described as _};
use crate::cli::Endpoints;
use crate::commands::volume::data::{Access, Way};
use crate::commands::volume::ended::Ended;
use crate::commands::volume::now;
use amita_backup::Sink;
use amita_control::access::Action;
use amita_control::admin;
use amita_terminal::error::{Context, Failure, Kind, Result};
use amita_terminal::progress::{self, ProgressBar};
use amita_terminal::table::print;
use amita_terminal::{interrupt, size};
use amita_types::map::{About, Import, Volume};
use serde::Serialize;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What its session is called.
const SESSION: &str = "a restore";

/// `amita backup restore`.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("into").required(true).args(["to", "to_file"])))]
pub struct Arguments {
    /// The point: its number, or `latest`
    #[arg(value_name = "POINT", value_parser = points::parse)]
    pub point: Which,
    #[command(flatten)]
    pub target: Target,
    /// Which of the point's volumes, by the name that it had; where the point has one alone it need not be said
    #[arg(long, value_name = "NAME")]
    pub volume: Option<String>,
    /// The new volume's name, in the cluster of --metadata, whichever that is
    #[arg(long, value_name = "VOLUME")]
    pub to: Option<String>,
    /// The pool that holds it
    #[arg(long, value_name = "NAME", conflicts_with = "to_file", required_unless_present_any = ["to_file", "resume"])]
    pub pool: Option<String>,
    /// Go on with a restore of the same into this volume that was interrupted
    #[arg(long, conflicts_with = "to_file")]
    pub resume: bool,
    /// A raw image with holes, on this machine: no cluster is needed
    #[arg(long, value_name = "FILE")]
    pub to_file: Option<PathBuf>,
    /// Write over a file that exists
    #[arg(long, conflicts_with = "to")]
    pub force: bool,
    /// Where the volume is made now: encrypted at rest, also where it was not when it was backed up
    #[arg(long, conflicts_with_all = ["resume", "to_file"])]
    pub encrypted: bool,
    /// Where the volume is made now: not encrypted at rest, also where it was when it was backed up, which takes an administrator
    #[arg(long, conflicts_with_all = ["encrypted", "resume", "to_file"])]
    pub plain: bool,
    #[command(flatten)]
    pub access: Access,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

impl Arguments {
    /// Is a volume that is made now encrypted at rest? Without a word as it `was` when it was backed up.
    fn makes_encrypted(&self, was: bool) -> bool {
        self.encrypted || (was && !self.plain)
    }

    /// As what making it stands in the audit log. What was encrypted is never had in the clear by whoever may only fill volumes.
    fn action(&self, was: bool) -> Action {
        match was && !self.makes_encrypted(was) {
            true => Action::VolumeDecrypt,
            false => Action::VolumeImport,
        }
    }

    /// Why it cannot be encrypted, where nobody has asked for that.
    fn or_plain(&self, why: Failure) -> Failure {
        if self.encrypted {
            return why;
        }
        let what = format!(
            "the volume was encrypted at rest when it was backed up, and so is what is restored: {}",
            why.what
        );
        let advice = format!(
            "{} Or --plain makes a volume that is not encrypted, for an administrator.",
            why.advice
        );
        Failure { what, ..why }.advice(advice.trim_start().to_owned())
    }
}

#[derive(Serialize)]
struct Summary {
    point: u64,
    /// What the volume was called.
    volume: String,
    /// The new volume, or the file.
    to: String,
    /// What was made is encrypted at rest; a file never is.
    encrypted: bool,
    size_bytes: u64,
    /// Of those, what was written: not zeros.
    written_bytes: u64,
    /// Where it went on; 0: it began anew.
    resumed_at_bytes: u64,
    seconds: f64,
}

pub fn run(arguments: &Arguments, endpoints: &Endpoints) -> Result<()> {
    let start = Instant::now();
    let mut vault = arguments.target.open(endpoints.insecure_network())?;
    let what = What::find(&vault, arguments.point, arguments.volume.as_deref())?;
    let (to, encrypted, written_bytes, resumed_at_bytes) = match (&arguments.to_file, &arguments.to) {
        (Some(file), _) => {
            check_file(file, arguments.force)?;
            interrupt::catch();
            let written = held(&mut vault, SESSION, |vault| into_file(vault, &what, file))?;
            (file.display().to_string(), false, written, 0)
        }
        (None, to) => {
            let name = to.as_deref().unwrap_or_default();
            let admin = Admin::connect(endpoints)?;
            let why = "it owns the new volume meanwhile";
            let way = arguments
                .access
                .way_of_gateway(endpoints, &admin, "volumes are restored", why)?;
            admin.permit(Action::VolumeImport)?;
            let (volume, import) = prepare(arguments, name, &what, (endpoints, &admin))?;
            interrupt::catch();
            let from = import.done_bytes;
            let written = held(&mut vault, SESSION, |vault| {
                into_volume(vault, &what, (&volume, import), &way, &admin)
            })?;
            (name.to_owned(), volume.keys.is_some(), written, from)
        }
    };
    if what.encrypted && !encrypted {
        log::warn!("volume {} was encrypted at rest, and {to} is not", what.name);
    }
    let summary = Summary {
        point: what.point,
        volume: what.name,
        to,
        encrypted,
        size_bytes: what.bytes,
        written_bytes,
        resumed_at_bytes,
        seconds: start.elapsed().as_secs_f64(),
    };
    print(arguments.json, &summary, || {
        format!(
            "Volume {} as it was at point {} is in {}, {}: {} of data in {}, {:.1} s.\n",
            summary.volume,
            summary.point,
            summary.to,
            match summary.encrypted {
                true => "encrypted at rest",
                false => "not encrypted at rest",
            },
            size::show(summary.written_bytes),
            size::show(summary.size_bytes),
            summary.seconds
        )
    })
}

fn check_file(file: &Path, force: bool) -> Result<()> {
    match std::fs::metadata(file) {
        Ok(facts) if !facts.is_file() => Err(Failure::new(format!(
            "{} is no file, and only files are restored into",
            file.display()
        ))
        .kind(Kind::Usage)),
        Ok(_) if !force => Err(Failure::new(format!("{} exists", file.display()))
            .kind(Kind::Conflict)
            .advice("--force writes over it: what it holds is lost.")),
        _ => Ok(()),
    }
}

/// A file that is filled.
struct Filling<'a> {
    file: &'a File,
    bar: ProgressBar,
    written_bytes: u64,
}

impl Sink for Filling<'_> {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        interrupt::check().map_err(carried)?;
        self.file.write_all_at(bytes, offset)?;
        self.written_bytes += bytes.len() as u64;
        self.bar.set_position(offset + bytes.len() as u64);
        Ok(())
    }

    fn zeros(&mut self, _: u64, _: u64) -> io::Result<()> {
        // A new file has nothing but holes.
        interrupt::check().map_err(carried)
    }
}

/// Opens the file that is filled, as the only one who fills it: of two restores to one name each would write into the other's. Where it is made
/// now, and is to hold in the clear what was encrypted at rest (`is_private`), nobody but its user reads it.
fn alone(partial: &Path, is_private: bool) -> Result<File> {
    let cannot = || format!("cannot write {}", partial.display());
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    options.mode(if is_private { 0o600 } else { 0o666 });
    let opened = options.open(partial).context(cannot)?;
    let is_taken = match opened.try_lock() {
        Err(TryLockError::WouldBlock) => true,
        // One that has just ended may have given the file its name.
        Ok(()) => {
            let own = opened.metadata().context(cannot)?;
            !std::fs::metadata(partial).is_ok_and(|facts| (facts.dev(), facts.ino()) == (own.dev(), own.ino()))
        }
        // Some file systems have no locks.
        Err(TryLockError::Error(_)) => false,
    };
    match is_taken {
        true => Err(Failure::new(format!("another restore writes {}", partial.display()))
            .kind(Kind::Conflict)
            .advice("Wait for it, or name another file.")),
        false => Ok(opened),
    }
}

fn into_file(held: &Held<'_>, what: &What, file: &Path) -> Result<u64> {
    let mut partial = file.as_os_str().to_owned();
    partial.push(".amita-restore");
    let partial = PathBuf::from(partial);
    let cannot = || format!("cannot write {}", partial.display());
    let opened = alone(&partial, what.encrypted)?;
    let fill = || {
        opened.set_len(0).context(cannot)?;
        opened.set_len(what.bytes).context(cannot)?;
        let mut filling = Filling {
            file: &opened,
            bar: progress::bar("restoring", what.bytes),
            written_bytes: 0,
        };
        let restored = held.reader(what)?.restore(0, what.bytes, &mut filling);
        filling.bar.finish_and_clear();
        restored.described()?;
        filling.file.sync_all().context(cannot)?;
        std::fs::rename(&partial, file).context(|| format!("cannot write {}", file.display()))?;
        let folder = match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .context(cannot)?;
        Ok(filling.written_bytes)
    };
    let filled = fill();
    if filled.is_err() {
        // It is no image yet.
        let _ = std::fs::remove_file(&partial);
    }
    filled
}

/// Makes the volume, or takes the one of the restore that was interrupted.
fn prepare(
    arguments: &Arguments,
    name: &str,
    what: &What,
    (endpoints, admin): (&Endpoints, &Admin),
) -> Result<(Volume, Import)> {
    let pool = arguments.pool.as_deref().unwrap_or_default();
    let existing = admin
        .status()?
        .volumes
        .into_iter()
        .find(|found| found.volume.name == name);
    match (existing, arguments.resume) {
        (None, false) => {
            let about = About {
                import: Some(what.mark.clone()),
                ..now()
            };
            let keys = match arguments.makes_encrypted(what.encrypted) {
                true => Some(
                    arguments
                        .access
                        .keys
                        .needed(endpoints)
                        .map_err(|why| arguments.or_plain(why))?,
                ),
                false => None,
            };
            let made = admin.act(arguments.action(what.encrypted), name, |meta| match &keys {
                Some(keys) => admin::make_encrypted_volume(meta, name, pool, what.bytes, Some(&about), keys),
                None => admin::make_volume(meta, name, pool, what.bytes, Some(&about)),
            });
            Ok((made.described()?, what.mark.clone()))
        }
        (None, true) => Err(
            Failure::new(format!("there is no volume {name:?}, so no restore to go on with"))
                .kind(Kind::NotFound)
                .advice("Begin without --resume."),
        ),
        (Some(found), true) => match found.import {
            Some(was) if was.is_of(&what.mark) => {
                // Somebody else may have begun it, by a program that did not ask for it.
                if what.encrypted && found.volume.keys.is_none() {
                    let decrypts = admin.act(Action::VolumeDecrypt, name, |_| Ok::<_, admin::AdminError>(()));
                    decrypts.described()?;
                }
                Ok((found.volume, was))
            }
            _ => Err(
                Failure::new(format!("no restore of this point into volume {name} was interrupted"))
                    .kind(Kind::Conflict)
                    .advice("Name the same point and volume of it as then; or restore into a new volume."),
            ),
        },
        (Some(_), false) => Err(Failure::new(format!("there is a volume {name:?} already"))
            .kind(Kind::Conflict)
            .advice(
                "Choose another name: a restore writes over nothing. One that was interrupted goes on with --resume.",
            )),
    }
}

fn into_volume(
    held: &Held<'_>,
    what: &What,
    (volume, import): (&Volume, Import),
    way: &Way,
    admin: &Admin,
) -> Result<u64> {
    let bar = progress::bar("restoring", what.bytes);
    let poured = pour::into_volume(held, what, (volume, import), way, &By::Operator(admin), &bar);
    bar.finish_and_clear();
    match poured {
        Ok(written) => Ok(written),
        Err(Ended::Copy(mut failure)) => {
            let name = &volume.name;
            let next = format!(
                "volume {name} is there in part: the same command with --resume goes on; `amita volume delete {name}` removes it."
            );
            failure.advice = format!("{} {next}", failure.advice).trim_start().to_owned();
            Err(failure)
        }
        Err(Ended::Admin(why)) => Err(why).described(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{self, Command};
    use crate::commands::backup;
    use std::ffi::OsString;

    fn arguments(more: &str) -> std::result::Result<Arguments, cli::Unread> {
        let line = format!("amita backup restore latest --repository r --key-file k --to v --pool p{more}");
        match cli::read(line.split(' ').map(OsString::from))?.0.command {
            Command::Backup(command) => match *command {
                backup::Command::Restore(arguments) => Ok(arguments),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_was_encrypted_is_so_again_unless_somebody_says_otherwise() {
        for (more, was, is) in [
            ("", false, false),
            ("", true, true),
            (" --plain", true, false),
            (" --plain", false, false),
            (" --encrypted", false, true),
            (" --encrypted", true, true),
        ] {
            let read = arguments(more).unwrap();
            assert_eq!(read.makes_encrypted(was), is, "{more:?} {was}");
            let decrypts = read.action(was) == Action::VolumeDecrypt;
            assert_eq!(decrypts, was && !is, "{more:?} {was}");
        }
        arguments(" --plain --encrypted").unwrap_err();
        let no_keys = || Failure::new("no volume keys").advice("Pass --volume-keys FILE.");
        let told = arguments("").unwrap().or_plain(no_keys());
        assert!(told.what.contains("encrypted at rest when"), "{told}");
        assert!(
            told.advice.contains("--volume-keys") && told.advice.contains("--plain"),
            "{told}"
        );
        assert_eq!(arguments(" --encrypted").unwrap().or_plain(no_keys()), no_keys());
    }

    #[test]
    fn of_two_restores_to_one_file_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (partial, file) = (folder.path().join("a.amita-restore"), folder.path().join("a"));
        let first = alone(&partial, false).unwrap();
        first.write_all_at(b"data", 0).unwrap();
        let second = alone(&partial, false).unwrap_err();
        assert_eq!(second.kind, Kind::Conflict);
        std::fs::rename(&partial, &file).unwrap();
        alone(&partial, false).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"data");
        drop(first);
        // What a killed one has left is nobody's.
        std::fs::write(&partial, "left").unwrap();
        alone(&partial, false).unwrap();
    }

    #[test]
    fn what_was_encrypted_is_in_a_file_of_its_users_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = alone(&folder.path().join("a"), true).unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
    }
}
