//! A backup of some volumes, whoever has asked for it: an operator by `amita backup run`, a policy, or a task.
//!
//! Each takes snapshots of its own, but for a task that is for a snapshot which there is: that one is read, and stays as it is, and the next backup goes
//! on from what there was before, or from that snapshot as long as it is there. What an earlier one has put that did not come to its end is found by the names of its pieces, so
//! nothing has to be remembered of that one.

use super::base::{self, Before, Subject};
use super::by::By;
use super::changes::Changes;
use super::failure::Described as _;
use super::target::Target;
use crate::commands::volume::data::Way;
use crate::commands::volume::diff;
use amita_backup::{Sent, Session, SessionId, Vault, VolumePoint};
use amita_metadata::Transact;
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::interrupt;
use amita_terminal::progress::{self, ProgressBar};
use amita_types::map::{BackedSnapshot, Snapshot};
use serde::Serialize;
use std::time::Duration;

/// What is backed up, how, and as who.
pub struct Task<'a> {
    pub by: By<'a>,
    pub way: &'a Way,
    /// The volumes: several are one point, of one moment.
    pub subjects: &'a [Subject],
    /// All of them is read, and no earlier point counted on.
    pub is_full: bool,
    /// The longest wait for the snapshots.
    pub patience: Duration,
    /// What its session is called in the journal, before where it works.
    pub session: &'a str,
    /// What the point is called, which is made once for a volume; none: as its snapshots, which nobody else's are called as.
    pub point: Option<&'a str>,
    /// The one volume's snapshot that is backed up, which is somebody else's, and stays; none: one is taken.
    pub snapshot: Option<&'a BackedSnapshot>,
    /// How far it is.
    pub shows: Shows<'a>,
}

/// To whom it is shown how far a backup is.
#[derive(Clone, Copy)]
pub enum Shows<'a> {
    /// To nobody.
    Nobody,
    /// To who has given the command.
    Terminal,
    /// To who looks at this bar.
    Bar(&'a ProgressBar),
}

/// What was made.
pub struct Made {
    pub session: SessionId,
    pub point: u64,
    /// When its snapshots were taken, in seconds since 1970.
    pub taken_at: u64,
    pub volumes: Vec<VolumeSummary>,
    pub sent: Sent,
    /// What else is to be said: what of earlier backups could not be tidied up.
    pub notes: Vec<String>,
}

/// What is to be said where something of a vault is lost: no change is counted from a point that needs it.
pub fn lost(vault: &Vault) -> Option<String> {
    let (_, _, lost) = vault.state().waiting();
    (lost > 0).then(|| {
        format!(
            "{lost} packs of the repository were found damaged or missing: of a volume whose last point needs them all is read, and put again \
             what the volume still has of it. Older points may not be whole: see `amita backup verify`"
        )
    })
}

/// Locks all that the vault's points need, where that is wished: this one is made, by this process or before.
///
/// # Errors
/// Not all of it could be locked; or it was to end.
pub fn lock(vault: &mut Vault, target: &Target, point: Option<u64>) -> Result<()> {
    let Some(until) = target.locked_until() else {
        return Ok(());
    };
    let locked = vault.retain(until, &interrupt::caught).described();
    locked.map_err(|mut failure| {
        let what = match point {
            Some(point) => format!("point {point} is made, but not all that it needs is locked"),
            None => "not all that the points need is locked".to_owned(),
        };
        failure.what = format!("{what}: {}", failure.what);
        failure
    })
}

/// How a volume was read.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "way", rename_all = "snake_case")]
pub enum How {
    /// All of it: there is no point of it yet, or none is to be counted on.
    Whole,
    /// What changed since a point.
    Changes { since: u64 },
    /// All of it, compared with a point, because it is not known what changed since.
    Compared { with: u64, why: String },
}

#[derive(Serialize)]
pub struct VolumeSummary {
    pub volume: String,
    pub size_bytes: u64,
    /// What was read of it.
    pub read_bytes: u64,
    #[serde(flatten)]
    pub how: How,
}

impl Task<'_> {
    fn listed(&self) -> Result<Vec<Vec<Snapshot>>> {
        self.subjects
            .iter()
            .map(|subject| subject.snapshots(&self.by))
            .collect()
    }

    /// Makes a point of the volumes.
    ///
    /// # Errors
    /// It cannot be made: nothing of it is left but what was put, which the next one finds.
    pub fn back_up(&self, vault: &mut Vault) -> Result<Made> {
        let listed = self.listed()?;
        vault.refresh().described()?;
        for (subject, snapshots) in self.subjects.iter().zip(&listed) {
            subject.check(snapshots, vault, None, self.is_full)?;
        }
        // A volume has room for only so many snapshots: what sessions that are dead have left goes before there are more.
        let mut notes = Vec::new();
        for (subject, snapshots) in self.subjects.iter().zip(&listed) {
            let spared = subject.spared(snapshots, vault);
            notes.extend(subject.clean(&self.by, snapshots, vault, spared.as_deref(), false));
        }
        let mut session = vault.begin(self.session).described()?;
        let work = Work {
            task: self,
            name: match self.snapshot {
                Some(given) => given.name.clone(),
                None => base::name_of(session.vault(), session.id()),
            },
            label: base::label(session.vault(), session.id()),
        };
        let done = work.run(&mut session);
        let (id, sent) = (session.id(), session.sent());
        let Worked {
            point,
            taken_at,
            volumes,
            listed,
        } = match done {
            Ok(done) => done,
            Err(failure) => {
                // What was handed over is put, so that the next one finds it. The failure that is told is the first one.
                let _ = session.flush();
                let _ = session.end();
                work.undo();
                return Err(failure);
            }
        };
        for note in work.settle(&mut session, &listed) {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        // The point is there: a session that is open still is seen to by the next one.
        if let Err(why) = session.end() {
            log::warn!("session {id} could not say that it has ended: {why}");
        }
        Ok(Made {
            session: id,
            point,
            taken_at,
            volumes,
            sent,
            notes,
        })
    }
}

/// What may be counted on of what there is of a volume: nothing, where that needs what is lost. All of the volume is read then, and what it still
/// has of that is put again.
fn countable(vault: &Vault, subject: &Subject, before: Before) -> Result<Before> {
    let base = before.base.as_ref().map(|(point, _)| *point);
    for point in base.into_iter().chain(before.newest) {
        let is_lost = vault.is_lost(point, &subject.identity, &interrupt::caught);
        if is_lost.described()? {
            log::warn!(
                "point {point} of volume {} needs what is lost; so all of the volume is read, and no earlier point counted on",
                subject.volume.name
            );
            return Ok(Before::default());
        }
    }
    Ok(before)
}

/// A task whose session has begun.
struct Work<'a> {
    task: &'a Task<'a>,
    /// Of its snapshots.
    name: String,
    label: String,
}

/// What the session has come to.
struct Worked {
    point: u64,
    taken_at: u64,
    volumes: Vec<VolumeSummary>,
    /// The volumes' snapshots, as they were when its own had been taken.
    listed: Vec<Vec<Snapshot>>,
}

impl Work<'_> {
    fn run(&self, session: &mut Session<'_>) -> Result<Worked> {
        let Task {
            by,
            subjects,
            is_full,
            patience,
            snapshot,
            ..
        } = self.task;
        let snapshots = match snapshot {
            None => base::take(by, subjects, &self.name, &self.label, *patience)?,
            Some(given) => base::given(by, subjects, given)?,
        };
        // Now each of two that began at one time sees the other's snapshots.
        let listed = self.task.listed()?;
        session.refresh().described()?;
        for (subject, others) in subjects.iter().zip(&listed) {
            subject.check(others, session.vault(), Some(session.id()), *is_full)?;
        }
        let taken_at = snapshots.first().map_or(0, |snapshot| snapshot.taken_at);
        let (mut made, mut volumes) = (Vec::new(), Vec::new());
        for ((subject, snapshot), others) in subjects.iter().zip(&snapshots).zip(&listed) {
            let (volume, summary) = self.volume(session, subject, snapshot, others)?;
            made.push(volume);
            volumes.push(summary);
        }
        // What was read is the volume's own: another one may have got its name meanwhile.
        for (subject, snapshot) in subjects.iter().zip(&snapshots) {
            let own = subject.own_snapshot(by, &self.name)?;
            if own.number != snapshot.number {
                let what = format!(
                    "volume {} has another snapshot {} by now",
                    subject.volume.name, self.name
                );
                return Err(Failure::new(what).kind(Kind::Conflict));
            }
        }
        let at = taken_at as i64;
        let point = match self.task.point {
            // Whoever else has taken himself for the one that is to make it.
            Some(name) => session.publish_once(name, at, made),
            None => session.publish(&self.name, at, made),
        };
        let point = point.described()?;
        Ok(Worked {
            point,
            taken_at,
            volumes,
            listed,
        })
    }

    fn volume(
        &self,
        session: &mut Session<'_>,
        subject: &Subject,
        snapshot: &Snapshot,
        others: &[Snapshot],
    ) -> Result<(VolumePoint, VolumeSummary)> {
        let before = match self.task.is_full {
            true => Before::default(),
            false => countable(session.vault(), subject, subject.before(others, session.vault()))?,
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
        let bar = || match self.task.shows {
            Shows::Terminal => progress::bar(&format!("backing up {volume}"), snapshot.size_bytes),
            Shows::Nobody => ProgressBar::hidden(),
            Shows::Bar(bar) => {
                bar.set_length(snapshot.size_bytes);
                bar.clone()
            }
        };
        let whole = || {
            let data = self.task.way.open(&format!("{volume}@{}", self.name))?;
            Ok::<_, Failure>(Changes::whole(data, snapshot.size_bytes, bar()))
        };
        let why = match &before.base {
            None => "its snapshot of that point, or the mark of it, is not there any more".to_owned(),
            Some((since, older)) => {
                let sides = |meta: &dyn Transact| diff::sides(meta, volume, older, Some(&self.name));
                match self.task.by.read(sides).and_then(|sides| sides.open(self.task.way)) {
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

    /// The point is made: the next backup goes on from its snapshots, and what was before goes. What of that could not be done is told: each is done
    /// for itself.
    fn settle(&self, session: &mut Session<'_>, listed: &[Vec<Snapshot>]) -> Vec<String> {
        let task = self.task;
        let mark = |subject: &Subject| base::keep_mark(&task.by, &subject.volume.name, &self.name);
        let marks = task.subjects.iter().filter(|_| task.snapshot.is_none());
        let mut left: Vec<String> = marks.filter_map(mark).collect();
        // What others have begun since these were listed is not among them.
        if let Err(why) = session.refresh().described() {
            left.push(format!(
                "what earlier backups have left stays until the next one: {}",
                why.what
            ));
            return left;
        }
        for (subject, snapshots) in task.subjects.iter().zip(listed) {
            // Behind a snapshot that is not its own, what the next one goes on from is what this one went on from.
            let but = match task.snapshot {
                None => Some(self.name.clone()),
                Some(_) => subject.spared(snapshots, session.vault()),
            };
            left.extend(subject.clean(&task.by, snapshots, session.vault(), but.as_deref(), task.is_full));
        }
        left
    }

    /// No point is made: its snapshots are of no use.
    fn undo(&self) {
        if self.task.snapshot.is_some() {
            return;
        }
        for subject in self.task.subjects {
            let volume = &subject.volume.name;
            if let Err(why) = base::delete(&self.task.by, volume, &self.name) {
                log::warn!(
                    "snapshot {volume}@{} stays until the next backup: {}",
                    self.name,
                    why.what
                );
            }
        }
    }
}

#[cfg(test)]
mod tests;
