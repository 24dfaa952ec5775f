//! `amita backup run`.
//!
//! Each run takes snapshots of its own. What an earlier one has put that did not come to its end is found by the names of its pieces, so
//! nothing has to be remembered of that run.

use super::base::{self, Before, Subject};
use super::changes::Changes;
use super::failure::Described as _;
use super::sessions;
use super::target::Target;
use crate::admin::Admin;
use crate::cli::Endpoints;
use crate::commands::volume::data::{Access, Way};
use crate::commands::volume::diff;
use amita_backup::{Session, VolumePoint};
use amita_control::access::Action;
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::progress;
use amita_terminal::table::print;
use amita_terminal::{interrupt, size};
use amita_types::map::Snapshot;
use serde::Serialize;
use std::time::{Duration, Instant};

/// The shortest and the longest time that is waited for snapshots, in seconds.
const TIMEOUT_S: std::ops::RangeInclusive<u64> = 1..=86_400;

/// `amita backup run`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The volumes: several are one point, of one moment
    #[arg(required = true, value_name = "VOLUME")]
    pub volumes: Vec<String>,
    #[command(flatten)]
    pub target: Target,
    /// Read all of the volumes, and count on no earlier point: for a repository of which something was lost. What is there is not sent again
    #[arg(long)]
    pub full: bool,
    /// Take a session for dead that still backs one of the volumes up, as far as the repository knows; if it is not, it makes no point
    #[arg(long, value_name = "SESSION")]
    pub fence: Vec<u64>,
    /// How long to wait for the snapshots, in seconds, up to a day
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(TIMEOUT_S))]
    pub timeout: u64,
    #[command(flatten)]
    pub access: Access,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

/// How a volume was read.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "way", rename_all = "snake_case")]
enum How {
    /// All of it: there is no point of it yet, or none is to be counted on.
    Whole,
    /// What changed since a point.
    Changes { since: u64 },
    /// All of it, compared with a point, because it is not known what changed since.
    Compared { with: u64, why: String },
}

#[derive(Serialize)]
struct VolumeSummary {
    volume: String,
    size_bytes: u64,
    /// What was read of it.
    read_bytes: u64,
    #[serde(flatten)]
    how: How,
}

#[derive(Serialize)]
struct Summary {
    vault: String,
    point: u64,
    session: u64,
    /// In seconds since 1970.
    taken_at: u64,
    volumes: Vec<VolumeSummary>,
    /// Pieces that were put, and their bytes before compression.
    pieces: u64,
    raw_bytes: u64,
    /// Pieces that were there already.
    found_pieces: u64,
    /// Bytes of packs that went to the repository.
    sent_bytes: u64,
    seconds: f64,
}

pub fn run(arguments: &Arguments, endpoints: &Endpoints) -> Result<()> {
    let start = Instant::now();
    let admin = Admin::connect(endpoints)?;
    let way = arguments.access.way_of_gateway(
        endpoints,
        &admin,
        "volumes are backed up",
        "what was changed is told to gateways alone",
    )?;
    for action in [Action::SnapshotCreate, Action::SnapshotDelete] {
        admin.permit(action)?;
    }
    let volumes = &arguments.volumes;
    if let Some(twice) = (1..volumes.len()).find(|at| volumes[..*at].contains(&volumes[*at])) {
        return Err(Failure::new(format!("volume {} is named twice", volumes[twice])).kind(Kind::Usage));
    }
    let subjects: Vec<Subject> = volumes
        .iter()
        .map(|name| Subject::find(&admin, name))
        .collect::<Result<_>>()?;
    let mut vault = arguments.target.open(endpoints.insecure_network())?;
    sessions::fence(&mut vault, &arguments.fence)?;
    let (_, _, lost) = vault.state().waiting();
    if lost > 0 && !arguments.full {
        log::warn!(
            "{lost} packs of the repository were found damaged or missing, and what did not change is counted from points that may need them; \
             --full puts again what the volumes still have of it"
        );
    }
    let listed = snapshots_of(&subjects, &admin)?;
    vault.refresh().described()?;
    for (subject, snapshots) in subjects.iter().zip(&listed) {
        subject.check(snapshots, &vault, None, arguments.full)?;
    }
    interrupt::catch();
    let mut session = vault.begin("a backup").described()?;
    let work = Work {
        arguments,
        admin: &admin,
        way: &way,
        subjects: &subjects,
        name: base::name_of(session.vault(), session.id()),
        label: base::label(session.vault(), session.id()),
    };
    let done = work.run(&mut session);
    let (id, sent, vault_id) = (session.id(), session.sent(), session.vault().id().to_string());
    let (point, taken_at, volumes) = match done {
        Ok(done) => done,
        Err(failure) => {
            // What was handed over is put, so that the next run finds it. The failure that is told is the first one.
            let _ = session.flush();
            let _ = session.end();
            work.undo();
            return Err(failure);
        }
    };
    work.settle(&mut session);
    // The point is there: a session that is open still is seen to by the next one.
    if let Err(why) = session.end() {
        log::warn!("session {id} could not say that it has ended: {why}");
    }
    if let Some(until) = arguments.target.locked_until() {
        vault.retain(until).described().map_err(|mut failure| {
            failure.what = format!(
                "point {point} is made, but not all that it needs is locked: {}",
                failure.what
            );
            failure
        })?;
    }
    let summary = Summary {
        vault: vault_id,
        point,
        session: id.0,
        taken_at,
        volumes,
        pieces: sent.pieces,
        raw_bytes: sent.raw_bytes,
        found_pieces: sent.found,
        sent_bytes: sent.pack_bytes,
        seconds: start.elapsed().as_secs_f64(),
    };
    print(arguments.json, &summary, || text(&summary))
}

fn snapshots_of(subjects: &[Subject], admin: &Admin) -> Result<Vec<Vec<Snapshot>>> {
    subjects.iter().map(|subject| subject.snapshots(admin)).collect()
}

fn text(summary: &Summary) -> String {
    let mut text = String::new();
    for VolumeSummary {
        volume,
        size_bytes,
        read_bytes,
        how,
    } in &summary.volumes
    {
        let (read, whole) = (size::show(*read_bytes), size::show(*size_bytes));
        text.push_str(&match how {
            How::Whole => format!("Volume {volume}: all of {whole} was read.\n"),
            How::Changes { since } => {
                format!("Volume {volume}: {read} of {whole} changed since point {since}, and were read.\n")
            }
            How::Compared { with, why } => {
                format!("Volume {volume}: all of {whole} was read and compared with point {with}: {why}.\n")
            }
        });
    }
    text.push_str(&format!(
        "Point {} is made: {} in {} new pieces, of which {} went to the repository; {} pieces were there. {:.1} s.\n",
        summary.point,
        size::show(summary.raw_bytes),
        summary.pieces,
        size::show(summary.sent_bytes),
        summary.found_pieces,
        summary.seconds
    ));
    text
}

/// What a run works with.
struct Work<'a> {
    arguments: &'a Arguments,
    admin: &'a Admin,
    way: &'a Way,
    subjects: &'a [Subject],
    /// Of its snapshots.
    name: String,
    label: String,
}

impl Work<'_> {
    /// The point, when its snapshots were taken, and what was read.
    fn run(&self, session: &mut Session<'_>) -> Result<(u64, u64, Vec<VolumeSummary>)> {
        let patience = Duration::from_secs(self.arguments.timeout);
        let snapshots = base::take(self.admin, self.subjects, &self.name, &self.label, patience)?;
        // Now each of two that began at one time sees the other's snapshots.
        let listed = snapshots_of(self.subjects, self.admin)?;
        session.refresh().described()?;
        for (subject, others) in self.subjects.iter().zip(&listed) {
            subject.check(others, session.vault(), Some(session.id()), self.arguments.full)?;
        }
        let taken_at = snapshots.first().map_or(0, |snapshot| snapshot.taken_at);
        let (mut made, mut summaries) = (Vec::new(), Vec::new());
        for (subject, snapshot) in self.subjects.iter().zip(&snapshots) {
            let (volume, summary) = self.volume(session, subject, snapshot)?;
            made.push(volume);
            summaries.push(summary);
        }
        let point = session.publish(&self.name, taken_at as i64, made).described()?;
        Ok((point, taken_at, summaries))
    }

    fn volume(
        &self,
        session: &mut Session<'_>,
        subject: &Subject,
        snapshot: &Snapshot,
    ) -> Result<(VolumePoint, VolumeSummary)> {
        let before = match self.arguments.full {
            true => Before::default(),
            false => subject.before(self.admin, session.vault())?,
        };
        let (mut how, mut changes) = self.open(subject, snapshot, &before)?;
        let mut read_bytes = 0;
        loop {
            let (parent, compares) = match &how {
                How::Whole => (None, false),
                How::Changes { since } => (Some(*since), false),
                How::Compared { with, .. } => (Some(*with), true),
            };
            let volume = amita_backup::Volume {
                identity: subject.identity.clone(),
                bytes: snapshot.size_bytes,
                encrypted: subject.volume.keys.is_some(),
                snapshot: base::versions(snapshot),
                parent,
                compares,
            };
            let made = session.backup(&volume, &mut changes);
            read_bytes += changes.read_bytes;
            changes.close();
            match made {
                Err(why) if why.is_damage() && parent.is_some() => {
                    log::warn!(
                        "the repository: {why}; so all of volume {} is read, and no earlier point counted on",
                        subject.volume.name
                    );
                    (how, changes) = self.open(subject, snapshot, &Before::default())?;
                }
                made => {
                    let summary = VolumeSummary {
                        volume: subject.volume.name.clone(),
                        size_bytes: snapshot.size_bytes,
                        read_bytes,
                        how,
                    };
                    return Ok((made.described()?, summary));
                }
            }
        }
    }

    /// Opens the snapshot, to be told what changed since the last point where that can be.
    fn open(&self, subject: &Subject, snapshot: &Snapshot, before: &Before) -> Result<(How, Changes)> {
        let volume = &subject.volume.name;
        let bar = || progress::bar(&format!("backing up {volume}"), snapshot.size_bytes);
        let whole = || {
            let data = self.way.open(&format!("{volume}@{}", self.name))?;
            Ok::<_, Failure>(Changes::whole(data, snapshot.size_bytes, bar()))
        };
        let why = match &before.base {
            None => "its snapshot of that point, or the mark of it, is not there any more".to_owned(),
            Some((since, older)) => {
                let sides = diff::sides(&self.admin.reader(), volume, older, Some(&self.name));
                match sides.and_then(|sides| sides.open(self.way)) {
                    Ok(data) => {
                        let changes = Changes::since(data, snapshot.size_bytes, bar());
                        return Ok((How::Changes { since: *since }, changes));
                    }
                    Err(failure) if failure.kind == Kind::Interrupted => return Err(failure),
                    Err(failure) => failure.what,
                }
            }
        };
        let how = match before.newest {
            None => How::Whole,
            Some(with) => How::Compared { with, why },
        };
        Ok((how, whole()?))
    }

    /// The point is made: the next backup goes on from its snapshots, and what was before goes.
    fn settle(&self, session: &mut Session<'_>) {
        for subject in self.subjects {
            base::keep_mark(self.admin, &subject.volume.name, &self.name);
        }
        if let Err(why) = self.clean(session) {
            log::warn!("what earlier backups have left stays until the next one: {}", why.what);
        }
    }

    fn clean(&self, session: &mut Session<'_>) -> Result<()> {
        let listed = snapshots_of(self.subjects, self.admin)?;
        session.refresh().described()?;
        for (subject, snapshots) in self.subjects.iter().zip(&listed) {
            subject.clean(self.admin, snapshots, session.vault(), &self.name, self.arguments.full)?;
        }
        Ok(())
    }

    /// No point is made: its snapshots are of no use.
    fn undo(&self) {
        for subject in self.subjects {
            let volume = &subject.volume.name;
            if let Err(why) = base::delete(self.admin, volume, &self.name) {
                log::warn!(
                    "snapshot {volume}@{} stays until the next backup: {}",
                    self.name,
                    why.what
                );
            }
        }
    }
}
