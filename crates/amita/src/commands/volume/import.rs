//! `amita volume import`.
//!
//! How far it has come stands in the metadata, with the volume ([`map::About`]): everything before that place is written, and a write
//! that is answered is durable. What lies behind it is cleared before an import goes on, so that nothing of the first attempt is left
//! where the image has a hole. Each attempt puts a number of its own there once it has the volume open ([`admin::take_import`]): one that stood still
//! meanwhile, and wakes, says nothing any more of what another one has cleared, or has filled and given to hosts.

mod by_api;

pub(super) use by_api::run as run_by_api;

use super::data::{Access, BLOCK_BYTES, Data, PIECE_BYTES, Way, runs};
use super::ended::Ended;
use super::image::{Format, Source, modified_ns};
use crate::admin::{Admin, Described};
use crate::cli::Endpoints;
use amita_control::access::Action;
use amita_control::admin::{self, AdminError, ExportSpec};
use amita_metadata::Transact;
use amita_terminal::error::{Context, Failure, Kind, Result};
use amita_terminal::progress::{self, ProgressBar};
use amita_terminal::table::print;
use amita_terminal::{interrupt, size};
use amita_types::map::{About, Export, Import, Volume};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// How often the place is noted: what an import loses when its machine does.
const NOTE_EVERY: Duration = Duration::from_secs(30);

/// `amita volume import`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The image; `-`: standard input, raw
    pub file: PathBuf,
    /// The volume's name
    pub name: String,
    /// The pool that holds it
    #[arg(long, value_name = "NAME", required_unless_present_any = ["force", "resume"])]
    pub pool: Option<String>,
    /// What the image is, instead of what its head says
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// The volume's size, where it is to be larger than the image; of standard input, which does not tell how long it is, it has to be
    /// given
    #[arg(long, value_name = "SIZE", value_parser = size::parse_blocks)]
    pub size: Option<u64>,
    /// Standard input may end before --size: what is behind it reads as zeros
    #[arg(long)]
    pub pad: bool,
    /// Go on with an import that was interrupted, from the place that the metadata knows
    #[arg(long, conflicts_with = "force")]
    pub resume: bool,
    /// Into a volume that exists: what it holds is lost
    #[arg(long)]
    pub force: bool,
    /// Read also the files that the image names (backing files): for images whose maker you trust
    #[arg(long)]
    pub follow: bool,
    /// Where the volume is made now: encrypted at rest. An image does not say whether what it was made of is; without this the volume is not
    #[arg(long, conflicts_with_all = ["force", "resume"])]
    pub encrypted: bool,
    #[command(flatten)]
    pub access: Access,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Serialize)]
struct Summary {
    volume: String,
    id: u64,
    /// At rest; an image does not say whether what it was made of is.
    encrypted: bool,
    size_bytes: u64,
    format: &'static str,
    image_bytes: u64,
    /// Of those, what was written: not holes, not zeros.
    written_bytes: u64,
    /// Where it went on; 0: it began anew.
    resumed_at_bytes: u64,
    seconds: f64,
}

pub(super) fn run(arguments: &Arguments, endpoints: &Endpoints, admin: &Admin) -> Result<()> {
    let start = Instant::now();
    let is_stdin = arguments.file == Path::new("-");
    let (source, format, image_bytes) = open(arguments)?;
    let mark = Import {
        format: format.name().to_owned(),
        image_bytes,
        modified_ns: if is_stdin { 0 } else { modified_ns(&arguments.file)? },
        done_bytes: 0,
        ails: None,
        attempt: None,
    };
    let way = arguments.access.way(endpoints, admin)?;
    let target = prepare(arguments, &mark, endpoints, admin)?;
    interrupt::catch();
    let lent = lend(&way, &target, admin)?;
    let mut from = 0;
    let mut copy = Copy {
        pads: arguments.pad,
        bar: progress::bar("importing", image_bytes),
        ..Copy::of(source, target.import.clone(), &target.volume)
    };
    // One action, however long it takes: how far it is stands in the volume's record, and not in the audit log.
    let copied = admin.act(Action::VolumeImport, &arguments.name, |meta| {
        let data = way.open(&arguments.name).map_err(Ended::Copy)?;
        copy.begin(target.begins_anew, meta)?;
        from = copy.import.done_bytes;
        copy.copy_into(data, target.is_empty, meta)?;
        admin::end_import(meta, &target.volume, &copy.import)?;
        Ok::<(), Ended>(())
    });
    copy.bar.finish_and_clear();
    match copied {
        Ok(()) => {}
        // What was there is as it was.
        Err(Ended::Copy(failure)) if target.begins_anew && copy.import.attempt.is_none() => return Err(failure),
        Err(Ended::Copy(failure)) => return Err(left(failure, &copy, arguments, is_stdin)),
        Err(Ended::Admin(why)) => return Err(why).described(),
    }
    if lent {
        let ended = admin.act(Action::VolumeUnexport, &arguments.name, |meta| {
            admin::unexport_volume(meta, &arguments.name)
        });
        ended.described()?;
    }
    let summary = Summary {
        volume: target.volume.name.clone(),
        id: target.volume.id.0,
        encrypted: target.volume.keys.is_some(),
        size_bytes: target.volume.size_bytes,
        format: format.name(),
        image_bytes,
        written_bytes: copy.written_bytes,
        resumed_at_bytes: from,
        seconds: start.elapsed().as_secs_f64(),
    };
    tell(arguments, &summary)
}

/// Opens the image: what it is, and how long.
fn open(arguments: &Arguments) -> Result<(Source, Format, u64)> {
    let is_stdin = arguments.file == Path::new("-");
    if is_stdin && arguments.resume {
        return Err(usage(
            "what came by a pipe does not come again: begin anew, with --force",
        ));
    }
    if arguments.pad && !is_stdin {
        return Err(usage("--pad is for standard input: a file tells how long it is"));
    }
    let (source, format) = match is_stdin {
        true => Source::stdin(arguments.format)?,
        false => Source::open(&arguments.file, arguments.format, arguments.follow)?,
    };
    let image_bytes = match (source.size_bytes(), arguments.size) {
        (Some(0), None) => {
            return Err(usage(
                "the image has no bytes, and a volume has at least 4096; say --size",
            ));
        }
        (Some(bytes), _) => bytes,
        (None, Some(size)) => size,
        (None, None) => return Err(usage("nobody knows how long standard input is; say --size")),
    };
    Ok((source, format, image_bytes))
}

/// Says what was done.
fn tell(arguments: &Arguments, summary: &Summary) -> Result<()> {
    print(arguments.json, summary, || {
        format!(
            "Volume {}, which is {}, has {}: {} of data were written in {:.1} s, all else is zeros and takes no space.\n",
            summary.volume,
            match summary.encrypted {
                true => "encrypted at rest",
                false => "not encrypted at rest",
            },
            size::show(summary.size_bytes),
            size::show(summary.written_bytes),
            summary.seconds
        )
    })
}

/// What is written, and from where.
struct Target {
    volume: Volume,
    import: Import,
    /// Nobody has written to it.
    is_empty: bool,
    /// There is no mark of this import yet: it is put where the volume is open.
    begins_anew: bool,
}

/// How large the volume is to be, at least.
fn wanted_bytes(arguments: &Arguments, image_bytes: u64) -> Result<u64> {
    if arguments.size.is_some_and(|size| size < image_bytes) {
        return Err(usage(&format!(
            "--size is less than the {image_bytes} bytes of the image: what does not fit would be lost"
        )));
    }
    let wanted = arguments.size.unwrap_or(0).max(image_bytes);
    Ok(wanted.next_multiple_of(BLOCK_BYTES as u64))
}

/// Makes the volume, or takes the one that is there.
fn prepare(arguments: &Arguments, mark: &Import, endpoints: &Endpoints, admin: &Admin) -> Result<Target> {
    let name = &arguments.name;
    let wanted = wanted_bytes(arguments, mark.image_bytes)?;
    let existing = admin
        .status()?
        .volumes
        .into_iter()
        .find(|found| &found.volume.name == name);
    let Some(found) = existing else {
        if arguments.resume {
            return Err(
                Failure::new(format!("there is no volume {name:?}, so no import to go on with"))
                    .kind(Kind::NotFound)
                    .advice("Begin without --resume."),
            );
        }
        let Some(pool) = &arguments.pool else {
            return Err(usage(&format!(
                "there is no volume {name:?}, and a new one needs --pool"
            )));
        };
        let about = About {
            import: Some(mark.clone()),
            ..super::now()
        };
        let keys = match arguments.encrypted {
            true => Some(arguments.access.keys.needed(endpoints)?),
            false => None,
        };
        let made = admin.act(Action::VolumeImport, name, |meta| match &keys {
            Some(keys) => admin::make_encrypted_volume(meta, name, pool, wanted, Some(&about), keys),
            None => admin::make_volume(meta, name, pool, wanted, Some(&about)),
        });
        return Ok(Target {
            volume: made.described()?,
            import: mark.clone(),
            is_empty: true,
            begins_anew: false,
        });
    };
    if let Some(pool) = arguments.pool.as_ref().filter(|pool| **pool != found.volume.pool) {
        return Err(usage(&format!(
            "volume {name} is in pool {}, not in {pool}",
            found.volume.pool
        ))
        .kind(Kind::Conflict));
    }
    if arguments.resume {
        return match found.import {
            None => Err(Failure::new(format!("no import into volume {name} was interrupted"))
                .kind(Kind::Conflict)
                .advice("Either it has come to its end, or the volume was not made by an import. --force writes over it.")),
            Some(was) if !was.is_of(mark) => Err(Failure::new(format!(
                "the import into volume {name} was of another image, or the image was changed since: it was {} with {} bytes",
                was.format, was.image_bytes
            ))
            .kind(Kind::Conflict)
            .advice("--force begins anew.")),
            Some(was) => Ok(Target {
                volume: found.volume,
                import: was,
                is_empty: false,
                begins_anew: false,
            }),
        };
    }
    if !arguments.force {
        let failure = Failure::new(match found.import {
            Some(_) => format!("an import into volume {name} was interrupted"),
            None => format!("there is a volume {name:?} already"),
        });
        return Err(failure.kind(Kind::Conflict).advice(match found.import {
            Some(_) => "--resume goes on with it; --force begins anew.",
            None => "--force writes over it: what it holds is lost. Or choose another name.",
        }));
    }
    let mut volume = found.volume;
    if volume.size_bytes < wanted {
        let resized = admin.act(Action::VolumeResize, name, |meta| {
            admin::resize_volume(meta, name, wanted)
        });
        volume = resized.described()?;
    }
    // Before it is taken from whoever has it.
    admin::may_import(&admin.reader(), &volume).described()?;
    Ok(Target {
        volume,
        import: mark.clone(),
        is_empty: false,
        begins_anew: true,
    })
}

/// A client goes through nodes, which serve it what is exported to it: a volume that is exported to nobody is exported to it for as long
/// as the import takes. Is it, and so to be taken away again? Also where an import that was interrupted has left it so.
fn lend(way: &Way, target: &Target, admin: &Admin) -> Result<bool> {
    let Some(client) = way.client() else { return Ok(false) };
    let name = &target.volume.name;
    let mine = Export {
        volume: target.volume.id,
        clients: vec![client.to_owned()],
        tenants: Vec::new(),
        any_client: false,
        read_only: false,
        shared: false,
    };
    let volumes = admin.status()?.volumes.into_iter();
    let found = volumes
        .filter(|found| found.volume.id == target.volume.id)
        .find_map(|found| found.export);
    if let Some(export) = found {
        return Ok(export == mine && target.import.done_bytes > 0);
    }
    let spec = ExportSpec {
        clients: mine.clients,
        ..ExportSpec::default()
    };
    let exported = admin.act(Action::VolumeExport, name, |meta| {
        admin::export_volume(meta, name, &spec)
    });
    exported.described()?;
    Ok(true)
}

pub(super) struct Copy<'a> {
    source: Source,
    volume: &'a Volume,
    pub import: Import,
    bar: ProgressBar,
    pub written_bytes: u64,
    noted: Instant,
    /// The stream may be shorter.
    pads: bool,
}

impl<'a> Copy<'a> {
    /// Of an image into a volume, from where the record says; nobody is shown how far it is.
    pub(super) fn of(source: Source, import: Import, volume: &'a Volume) -> Copy<'a> {
        Copy {
            source,
            volume,
            import,
            bar: ProgressBar::hidden(),
            written_bytes: 0,
            noted: Instant::now(),
            pads: false,
        }
    }

    /// The volume is open: from here on nobody says how far the import is who had it before, and has stood still since. `anew`: there was none, or what it
    /// was does not matter.
    fn begin(&mut self, anew: bool, meta: &dyn Transact) -> std::result::Result<(), AdminError> {
        let attempt = Uuid::new_v4();
        if !anew {
            self.import = admin::take_import(meta, self.volume, &self.import, attempt)?;
            return Ok(());
        }
        let opened = Volume {
            generation: admin::volume(meta, &self.volume.name)?.generation,
            ..self.volume.clone()
        };
        let import = Import {
            attempt: Some(attempt),
            ..self.import.clone()
        };
        admin::begin_import(meta, &opened, &import)?;
        self.import = import;
        Ok(())
    }

    /// Copies into the volume that is open, and closes it. `is_empty`: nobody has written to it. How far it is, is noted in `meta`.
    pub(super) fn copy_into(
        &mut self,
        mut data: Data,
        is_empty: bool,
        meta: &dyn Transact,
    ) -> std::result::Result<(), Ended> {
        if data.size_bytes() < self.import.image_bytes {
            return Err(Ended::Copy(Failure::new("the volume is smaller than the image")));
        }
        let copied = self.copy(&mut data, is_empty, meta);
        // What was begun may be done after all: then it is not done again.
        let place = match &copied {
            Ok(()) => self.import.image_bytes,
            Err(_) => data.place().unwrap_or(self.import.done_bytes),
        };
        let mut noted = Ok(());
        if copied.is_err() {
            self.import.done_bytes = place.max(self.import.done_bytes);
            noted = self.note(meta);
        }
        data.close();
        match (copied, noted) {
            // It is not there in part: it is another one's, and perhaps whole.
            (Err(_), Err(why @ AdminError::ImportTaken { .. })) => Err(Ended::Admin(why)),
            // The failure that is told is the first one.
            (copied, _) => copied.map_err(Ended::Copy),
        }
    }

    fn copy(&mut self, data: &mut Data, is_empty: bool, meta: &dyn Transact) -> Result<()> {
        let end = self.import.image_bytes;
        let mut at = self.import.done_bytes;
        if !is_empty {
            data.clear(at)?;
        }
        let mut piece = vec![0; PIECE_BYTES as usize];
        while at < end {
            interrupt::check()?;
            self.bar.set_position(at);
            let read = |why: std::io::Error| Failure::new(format!("the image cannot be read at byte {at}: {why}"));
            let (is_data, until) = self.source.extent(at, end).map_err(read)?;
            // Pieces begin with a block; what is left of one is read with it.
            let whole = until / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
            if !is_data && (until == end || whole > at) {
                at = if until == end { end } else { whole };
                continue;
            }
            let until = until
                .next_multiple_of(BLOCK_BYTES as u64)
                .min(end)
                .min(at + PIECE_BYTES);
            let bytes = &mut piece[..(until - at) as usize];
            let found = self.source.read(at, bytes).map_err(read)?;
            for (start, stop) in runs(&bytes[..found], BLOCK_BYTES) {
                data.write(at + start as u64, &bytes[start..stop])?;
                self.written_bytes += (stop - start) as u64;
            }
            if found < bytes.len() {
                // The stream has ended.
                data.finish()?;
                let bytes = at + found as u64;
                return match self.pads && bytes > 0 {
                    true => Ok(()),
                    false => Err(Failure::new(format!(
                        "standard input ended after {bytes} of {end} bytes: was whoever wrote it cut short?"
                    ))
                    .advice("If that was all of it, --pad has the rest of the volume read as zeros.")),
                };
            }
            at = until;
            if self.noted.elapsed() > NOTE_EVERY {
                self.import.done_bytes = data.place().unwrap_or(at).max(self.import.done_bytes);
                self.note(meta).described()?;
            }
        }
        if let Source::Stream(stream) = &mut self.source {
            let more = stream.read(&mut [0]).context(|| "standard input".to_owned())?;
            if more > 0 {
                return Err(Failure::new(format!(
                    "standard input has more than the {end} bytes of --size"
                )));
            }
        }
        data.finish()
    }

    fn note(&mut self, meta: &dyn Transact) -> std::result::Result<(), AdminError> {
        self.noted = Instant::now();
        admin::note_import(meta, self.volume, &self.import).map(drop)
    }
}

/// What a failure leaves, and what to do.
fn left(mut failure: Failure, copy: &Copy<'_>, arguments: &Arguments, is_stdin: bool) -> Failure {
    let (name, done) = (&arguments.name, copy.import.done_bytes);
    failure.what = format!(
        "{}: volume {name} is there, and holds the first {} of {} of the image",
        failure.what,
        size::show(done),
        size::show(copy.import.image_bytes)
    );
    let next = match is_stdin {
        true => format!("`amita volume import - {name} --force` begins anew"),
        false => "The same command with --resume goes on there, with --force it begins anew".to_owned(),
    };
    let advice = format!("{next}; `amita volume delete {name}` removes what is there.");
    failure.advice = match failure.advice.is_empty() {
        true => advice,
        false => format!("{} {advice}", failure.advice),
    };
    failure
}

fn usage(why: &str) -> Failure {
    Failure::new(why).kind(Kind::Usage)
}
