//! `amita volume export`.
//!
//! What was written is made durable, and only then the place is noted, in a file beside: an export that goes on believes nothing
//! that a crash could have taken. That the volume is the same still is told by its generation, which each new owner raises; a
//! snapshot never changes, and its number is given once.

mod by_api;

pub(super) use by_api::run as run_by_api;

use super::data::{Access, BLOCK_BYTES, Data, Way, runs};
use super::image::Format;
use crate::admin::{Admin, Described};
use crate::cli::Endpoints;
use amita_control::admin;
use amita_metadata::Transact;
use amita_terminal::error::{Context, Failure, Kind, Result};
use amita_terminal::progress::{self, ProgressBar};
use amita_terminal::table::print;
use amita_terminal::{interrupt, output, size};
use imago::file::File as ImageFile;
use imago::qcow2::Qcow2;
use imago::{
    DenyImplicitOpenGate, FormatAccess, FormatCreateBuilder, FormatDriverBuilder, Storage, StorageCreateOptions,
};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often the place is noted.
const NOTE_EVERY: Duration = Duration::from_secs(5);
/// A qcow2 gives space by clusters: 64 KiB is what qemu-img makes.
const CLUSTER_BYTES: usize = 64 << 10;

/// `amita volume export`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The volume's name, or VOLUME@SNAPSHOT: what the volume was then, while others go on writing
    pub volume: String,
    /// The image to be made; `-`: standard output, raw. Of an encrypted volume it is of its owner alone (mode 0600)
    pub file: PathBuf,
    /// What to make
    #[arg(long, value_name = "FORMAT", default_value = "raw")]
    pub format: Format,
    /// Go on with a raw export into this file that was interrupted
    #[arg(long, conflicts_with = "force")]
    pub resume: bool,
    /// Write over a file that exists
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub access: Access,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

/// The mode of an image of an encrypted volume: it has the volume's text, in the clear.
const OWN: u32 = 0o600;

/// The file beside an export that is not at its end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Place {
    cluster: String,
    volume: u64,
    /// Of the volume: who has it now. Of a snapshot nobody's.
    generation: u32,
    /// The snapshot's number; 0: the volume itself.
    #[serde(default)]
    snapshot: u32,
    pub size_bytes: u64,
    /// Everything before is in the file, and durable.
    done_bytes: u64,
    /// What is encrypted at rest is not read by everybody as an image either.
    #[serde(default)]
    encrypted: bool,
}

#[derive(Debug, Serialize)]
struct Summary {
    volume: String,
    file: String,
    format: &'static str,
    size_bytes: u64,
    /// Of those, what was written: not zeros.
    written_bytes: u64,
    /// Where it went on; 0: it began anew.
    resumed_at_bytes: u64,
    seconds: f64,
}

pub(super) fn run(arguments: &Arguments, endpoints: &Endpoints, admin: &Admin) -> Result<()> {
    let start = Instant::now();
    let (name, file) = (&arguments.volume, &arguments.file);
    let is_stdout = file == Path::new("-");
    check(arguments, is_stdout)?;
    let way = arguments.access.way(endpoints, admin)?;
    let before = place_of(&admin.reader(), name)?;
    if !is_stdout {
        check_file(arguments)?;
    }
    let resumed = match arguments.resume {
        true => resumed(file, &before)?,
        false => 0,
    };
    interrupt::catch();
    let (mut data, now) = open(&way, &admin.reader(), name, &before)?;
    let place = Place {
        done_bytes: resumed,
        ..now
    };
    let target = match (is_stdout, arguments.format) {
        (true, _) => Target::Stdout,
        (false, Format::Raw) => Target::raw(file, &place, arguments.force)?,
        (false, Format::Qcow2) => Target::qcow2(file, &place, arguments.force)?,
    };
    let mut copy = Copy {
        target,
        file,
        bar: progress::bar("exporting", place.size_bytes),
        place,
        written_bytes: 0,
        noted: Instant::now(),
    };
    let copied = copy.run(&mut data);
    data.close();
    copy.bar.finish_and_clear();
    if let Err(failure) = copied {
        return Err(copy.left(failure));
    }
    let summary = Summary {
        volume: name.clone(),
        file: file.display().to_string(),
        format: arguments.format.name(),
        size_bytes: copy.place.size_bytes,
        written_bytes: copy.written_bytes,
        resumed_at_bytes: resumed,
        seconds: start.elapsed().as_secs_f64(),
    };
    tell(arguments, &summary, copy.place.snapshot != 0)
}

/// Says what was done.
fn tell(arguments: &Arguments, summary: &Summary, is_snapshot: bool) -> Result<()> {
    let text = format!(
        "{} {} is in {}: {} of data in {}, {:.1} s.\n",
        if is_snapshot { "Snapshot" } else { "Volume" },
        summary.volume,
        summary.file,
        size::show(summary.written_bytes),
        size::show(summary.size_bytes),
        summary.seconds
    );
    if arguments.file == Path::new("-") {
        output::beside(text.replace(" is in -:", " is written:").trim_end());
        return Ok(());
    }
    print(arguments.json, summary, || text)
}

fn check(arguments: &Arguments, is_stdout: bool) -> Result<()> {
    let refused = match arguments {
        Arguments {
            format: Format::Qcow2, ..
        } if is_stdout => "a qcow2 cannot be written to a pipe: its parts are written in any order. Write it to a file",
        Arguments { json: true, .. } if is_stdout => "standard output is the image, so there is no place for JSON",
        Arguments { resume: true, .. } if is_stdout => "what went into a pipe is not known: begin anew",
        Arguments {
            format: Format::Qcow2,
            resume: true,
            ..
        } => "an export as qcow2 cannot go on where it was: begin anew, with --force; or export as raw",
        _ => return Ok(()),
    };
    Err(Failure::new(refused).kind(Kind::Usage))
}

/// May the file be written?
fn check_file(arguments: &Arguments) -> Result<()> {
    let file = &arguments.file;
    let shown = file.display();
    let Ok(facts) = std::fs::metadata(file) else {
        return Ok(());
    };
    if !facts.is_file() {
        return Err(
            Failure::new(format!("{shown} is no file, and only files are exported into"))
                .kind(Kind::Usage)
                .advice("To a device or a pipe: `amita volume export VOLUME -`, and what it says to standard output."),
        );
    }
    if arguments.force || arguments.resume {
        return Ok(());
    }
    Err(match beside(file).exists() {
        true => Failure::new(format!("an export into {shown} was interrupted"))
            .kind(Kind::Conflict)
            .advice("--resume goes on with it; --force begins anew."),
        false => Failure::new(format!("{shown} exists"))
            .kind(Kind::Conflict)
            .advice("--force writes over it: what it holds is lost."),
    })
}

/// Opens the volume, or the snapshot, if it is what it was found to be.
pub(super) fn open(way: &Way, meta: &dyn Transact, name: &str, before: &Place) -> Result<(Data, Place)> {
    let data = way.open(name)?;
    // The opening itself raises the generation where another owner had it.
    let place = place_of(meta, name)?;
    let is_it = (place.volume, place.snapshot) == (before.volume, before.snapshot);
    if !is_it || data.size_bytes() < place.size_bytes {
        data.close();
        return Err(Failure::new(format!("{name} was changed meanwhile")).kind(Kind::Conflict));
    }
    Ok((data, place))
}

/// The volume, or the snapshot, as the metadata has it, and nothing done.
pub(super) fn place_of(meta: &dyn Transact, name: &str) -> Result<Place> {
    let (volume_name, snapshot_name) = admin::split(name).described()?;
    let volume = admin::volume(meta, volume_name).described()?;
    // What is to be a copy, and is none yet, is no data of anybody's: nor are its snapshots before it is whole.
    admin::none_copies(meta, &volume).described()?;
    let place = Place {
        cluster: admin::cluster(meta).described()?.id.to_string(),
        volume: volume.id.0,
        generation: volume.generation.0,
        snapshot: 0,
        size_bytes: volume.size_bytes,
        done_bytes: 0,
        encrypted: volume.keys.is_some(),
    };
    let Some(snapshot_name) = snapshot_name else {
        return Ok(place);
    };
    let snapshot = admin::snapshot(meta, volume_name, snapshot_name).described()?;
    Ok(Place {
        volume: snapshot.volume.0,
        generation: 0,
        snapshot: snapshot.number.0,
        size_bytes: snapshot.size_bytes,
        ..place
    })
}

/// Where an export goes on.
fn resumed(file: &Path, now: &Place) -> Result<u64> {
    let beside = beside(file);
    let text = std::fs::read_to_string(&beside).map_err(|why| {
        Failure::new(format!(
            "no export into {} was interrupted: {}: {why}",
            file.display(),
            beside.display()
        ))
        .kind(Kind::NotFound)
        .advice("Begin without --resume.")
    })?;
    let was: Place = serde_json::from_str(&text).context(|| beside.display().to_string())?;
    let refused = |why: &str| {
        let what = format!("the export into {} cannot go on: {why}", file.display());
        Err(Failure::new(what).kind(Kind::Conflict).advice("--force begins anew."))
    };
    if (&was.cluster, was.volume) != (&now.cluster, now.volume) {
        return refused("it was of another volume");
    }
    if was.snapshot != now.snapshot {
        return refused(match now.snapshot {
            0 => "it was of a snapshot of the volume",
            _ => "it was of the volume itself, or of another snapshot",
        });
    }
    if was.generation != now.generation || was.size_bytes != now.size_bytes {
        return refused("others have had the volume since, and the image would be of two times");
    }
    let length = std::fs::metadata(file)
        .context(|| format!("cannot read {}", file.display()))?
        .len();
    if length < was.done_bytes {
        return refused("the file has become shorter");
    }
    Ok(was.done_bytes)
}

/// Where the place is noted.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".amita-export");
    PathBuf::from(name)
}

/// What is written.
enum Target {
    Raw(File),
    Qcow2(Box<FormatAccess<ImageFile>>),
    Stdout,
}

impl Target {
    /// Behind the place nothing is left of an earlier attempt.
    fn raw(path: &Path, place: &Place, force: bool) -> Result<Target> {
        let failed = || format!("cannot write {}", path.display());
        let mut options = OpenOptions::new();
        options.write(true);
        match (place.done_bytes, force) {
            (0, true) => options.create(true).truncate(true),
            (0, false) if !beside(path).exists() => options.create_new(true),
            _ => &mut options,
        };
        if place.encrypted {
            options.mode(OWN);
        }
        let file = options.open(path).context(failed)?;
        if place.encrypted {
            file.set_permissions(Permissions::from_mode(OWN)).context(failed)?;
        }
        file.set_len(place.done_bytes).context(failed)?;
        file.set_len(place.size_bytes).context(failed)?;
        Ok(Target::Raw(file))
    }

    fn qcow2(path: &Path, place: &Place, force: bool) -> Result<Target> {
        let failed = || format!("cannot write {}", path.display());
        let mut force = force;
        if place.encrypted {
            // Made beforehand: what makes a qcow2 asks for no mode.
            let mut options = OpenOptions::new();
            options.write(true).mode(OWN);
            let file = match force {
                true => options.create(true).truncate(true).open(path),
                false => options.create_new(true).open(path),
            };
            let made = file.and_then(|file| file.set_permissions(Permissions::from_mode(OWN)));
            made.context(failed)?;
            force = true;
        }
        Target::qcow2_in(path, place.size_bytes, force)
    }

    /// The same in a file that has the mode that it is to have.
    fn qcow2_in(path: &Path, size_bytes: u64, force: bool) -> Result<Target> {
        let failed = || format!("cannot write {}", path.display());
        let options = StorageCreateOptions::new().filename(path).overwrite(force);
        let file = ImageFile::create_open(options).context(failed)?;
        let builder = Qcow2::<ImageFile>::create_builder(file).size(size_bytes);
        let image = builder
            .create_open(DenyImplicitOpenGate::default(), |file| {
                Ok(Qcow2::<ImageFile>::builder(file).backing(None).write(true))
            })
            .context(failed)?;
        Ok(Target::Qcow2(Box::new(FormatAccess::new(image))))
    }

    /// Writes what is not zeros; how much that was.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> std::io::Result<u64> {
        let unit = match self {
            Target::Raw(_) => BLOCK_BYTES,
            Target::Qcow2(_) => CLUSTER_BYTES,
            Target::Stdout => {
                std::io::stdout().write_all(bytes)?;
                return Ok(bytes.len() as u64);
            }
        };
        let mut written = 0;
        for (start, end) in runs(bytes, unit) {
            let (at, run) = (offset + start as u64, &bytes[start..end]);
            match self {
                Target::Raw(file) => file.write_all_at(run, at)?,
                Target::Qcow2(image) => image.write(run, at)?,
                Target::Stdout => {}
            }
            written += run.len() as u64;
        }
        Ok(written)
    }

    fn failed(&self, file: &Path, why: &std::io::Error) -> Failure {
        let failure = Failure::new(format!("cannot write {}: {why}", file.display()));
        match (self, why.kind()) {
            (Target::Stdout, std::io::ErrorKind::BrokenPipe) => failure.kind(Kind::Unread),
            _ => failure,
        }
    }

    fn sync(&self) -> std::io::Result<()> {
        match self {
            Target::Raw(file) => file.sync_all(),
            Target::Qcow2(image) => {
                image.flush()?;
                image.sync()
            }
            Target::Stdout => std::io::stdout().flush(),
        }
    }
}

struct Copy<'a> {
    target: Target,
    file: &'a Path,
    bar: ProgressBar,
    place: Place,
    written_bytes: u64,
    noted: Instant,
}

impl Copy<'_> {
    fn run(&mut self, data: &mut Data) -> Result<()> {
        if matches!(self.target, Target::Raw(_)) {
            self.note()?;
        }
        let (from, end) = (self.place.done_bytes, self.place.size_bytes);
        data.each_piece(from, end, |offset, bytes| {
            self.written_bytes += self.target.write(offset, bytes).map_err(|why| self.failed(&why))?;
            self.place.done_bytes = offset + bytes.len() as u64;
            self.bar.set_position(self.place.done_bytes);
            if self.noted.elapsed() > NOTE_EVERY && matches!(self.target, Target::Raw(_)) {
                self.note()?;
            }
            Ok(())
        })?;
        self.target.sync().map_err(|why| self.failed(&why))?;
        match std::fs::remove_file(beside(self.file)) {
            Err(why) if why.kind() != std::io::ErrorKind::NotFound => Err(self.failed(&why)),
            _ => Ok(()),
        }
    }

    /// First the data, then the place.
    fn note(&mut self) -> Result<()> {
        self.noted = Instant::now();
        let beside = beside(self.file);
        let write = || {
            self.target.sync()?;
            let mut new = beside.clone().into_os_string();
            new.push(".new");
            let mut file = File::create(&new)?;
            file.write_all(serde_json::to_string(&self.place)?.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&new, &beside)
        };
        write().context(|| format!("cannot note how far the export is, in {}", beside.display()))
    }

    fn failed(&self, why: &std::io::Error) -> Failure {
        self.target.failed(self.file, why)
    }

    /// What a failure leaves, and what to do.
    fn left(&mut self, mut failure: Failure) -> Failure {
        let next = match self.target {
            Target::Stdout => return failure,
            Target::Qcow2(_) => "an unfinished image: the same command with --force begins anew",
            Target::Raw(_) => match self.note() {
                Ok(()) => "a part of the image: the same command with --resume goes on, with --force it begins anew",
                Err(_) => "a part of the image: the same command with --force begins anew",
            },
        };
        let shown = self.file.display();
        failure.advice = format!("{} {shown} is there, {next}.", failure.advice)
            .trim_start()
            .to_owned();
        failure
    }
}

#[cfg(test)]
mod tests;
