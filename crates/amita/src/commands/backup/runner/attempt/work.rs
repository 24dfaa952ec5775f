//! What an attempt does in the repository: points are made, what they need is locked, and what no rule keeps is given up.

use super::super::super::base::Subject;
use super::super::super::by::By;
use super::super::super::failure::{Described as _, Trouble, carried, trouble};
use super::super::super::target::{self, Target};
use super::super::super::task::{self, Shows, Task};
use super::super::super::{prune, sessions};
use super::super::tasks;
use super::found::{Had, given_up, is_left};
use super::{Attempt, Outcome, Records, said};
use crate::admin::Described as _;
use crate::commands::volume::data::Way;
use amita_backup::{SessionId, State, Vault};
use amita_control::admin;
use amita_control::backups::{plan, session_name};
use amita_metadata::Call;
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::interrupt;
use amita_types::map::{self, BackupRepository};
use amita_types::{ClusterId, VolumeId};
use std::cell::RefCell;
use std::time::Duration;

/// The longest wait for snapshots.
const PATIENCE: Duration = Duration::from_secs(60);
/// A volume that has answered nothing for so long has failed.
const STALL: Duration = Duration::from_secs(120);

/// A volume by its number, and the name that it had when the attempt began.
pub type Named = (VolumeId, String);

/// What an attempt works on.
pub struct Work {
    pub repository: BackupRepository,
    pub cluster: ClusterId,
    pub volumes: Vec<Named>,
    /// What its sessions are called, and its points.
    pub session: String,
    pub point: String,
}

/// A run has a point of these volumes.
pub struct Made {
    /// The newest one.
    pub point: Option<u64>,
    /// So many of them were in points of it before.
    pub before: u64,
    /// What was made now; nothing: an attempt of before has made all.
    pub now: Option<task::Made>,
    /// Of those that were made now, where others of the same moment were there.
    pub late: Vec<String>,
}

impl Attempt<'_> {
    /// Makes what is to be made, and gives up what no rule keeps.
    pub(super) fn back_up(&self, records: &mut Records, outcome: &mut Outcome) -> Result<()> {
        self.ends.comes_to("the repository is opened, and its journal read");
        let policy = records.policy.clone();
        let repository = records.repository.clone().ok_or_else(|| {
            Failure::new(format!(
                "there is no backup repository {}, or its record cannot be read",
                policy.repository
            ))
        })?;
        let target = Target::of(&repository)?;
        let mut vault = target.open(self.config.insecure_network)?;
        let cluster = admin::cluster(self.client).described()?.id;
        let admin::BackupVolumes { volumes, lacks } = admin::backup_volumes(self.client, &policy).described()?;
        for lack in lacks {
            outcome.fails(&Failure::new(lack));
        }
        let points = vault.state().points().values();
        let points = points.map(|point| (point.name.as_str(), u64::try_from(point.time).unwrap_or(0)));
        let point = plan::run_name(&policy, &records.runs, points);
        let work = Work {
            repository,
            cluster,
            volumes,
            session: session_name(cluster, &policy),
            point,
        };
        // In a vault that was set back, or is another one, nobody is taken for dead and nothing is given up: a person has to look at it.
        let mut is_sure = match self.is_what_it_was(&mut vault, &work.volumes) {
            Ok(()) => true,
            Err(failure) if is_away(&failure) || trouble(&failure) == Trouble::Repository => return Err(failure),
            Err(failure) => {
                outcome.notes(&format!("nothing is given up: {}", failure.what));
                false
            }
        };
        if is_sure {
            self.ends.comes_to("sessions are looked for that are dead");
            self.fence(&mut vault, &work)?;
            target::checkpoint(&mut vault);
        }
        if let Some(lost) = task::lost(&vault) {
            outcome.notes(&lost);
        }
        let groups: Vec<&[Named]> = match policy.together {
            true if work.volumes.is_empty() => Vec::new(),
            true => vec![&work.volumes],
            false => work.volumes.chunks(1).collect(),
        };
        let mut last: Option<u64> = None;
        for group in groups {
            interrupt::check()?;
            match self.group(&mut vault, group, &work) {
                Ok(made) => {
                    last = last.max(made.point);
                    self.count(records, outcome, &made)?;
                }
                Err(failure) if interrupt::caught() => return Err(failure),
                Err(failure) => match trouble(&failure) {
                    Trouble::Volume => outcome.fails(&failure),
                    Trouble::Doubt => {
                        is_sure = false;
                        outcome.fails(&failure);
                    }
                    // The rest of the volumes would come to the same.
                    Trouble::Repository => return Err(failure),
                    Trouble::Full => {
                        if is_sure && let Err(why) = self.give_up(&mut vault, records, &work, outcome) {
                            outcome.notes(&said(&why));
                        }
                        return Err(failure);
                    }
                },
            }
        }
        // Whoever has made the points: it may have ended before all was locked.
        self.ends.comes_to("what the points need is locked");
        match task::lock(&mut vault, &target, last) {
            Ok(()) => {}
            Err(failure) if is_away(&failure) => return Err(failure),
            // What is not locked is no reason to keep what no rule keeps.
            Err(failure) => outcome.fails(&failure),
        }
        if is_sure {
            self.give_up(&mut vault, records, &work, outcome)?;
            target::checkpoint(&mut vault);
        }
        Ok(())
    }

    /// Is the vault what it was when the volumes were backed up into it before? Each volume remembers that, and so does this process.
    ///
    /// # Errors
    /// It is not; or that cannot be known.
    fn is_what_it_was(&self, vault: &mut Vault, volumes: &[Named]) -> Result<()> {
        let by = By::Node(self.client);
        let mut seen = Vec::new();
        for (id, name) in volumes {
            let subject = Subject::numbered(&by, *id, name)?;
            let snapshots = subject.snapshots(&by)?;
            seen.push((subject, snapshots));
        }
        vault.check_head(vault.head()).described()?;
        vault.refresh().described()?;
        for (subject, snapshots) in &seen {
            interrupt::check()?;
            subject.remembers(snapshots, vault)?;
        }
        Ok(())
    }

    /// Takes for dead whoever was at the policy before, and whoever was at one that comes here no more: else what they have begun holds up for ever
    /// that anything is removed.
    fn fence(&self, vault: &mut Vault, work: &Work) -> Result<()> {
        sessions::fence_named(vault, &work.session)?;
        self.fence_left(vault, work.cluster, &work.repository.name)
    }

    /// Takes for dead whoever was at a policy that comes to this repository no more, and whose process is gone.
    pub(in super::super) fn fence_left(&self, vault: &mut Vault, cluster: ClusterId, repository: &str) -> Result<()> {
        // In this order: whoever has begun before these records were read, and has no key by then, has lost it.
        let begun = sessions::of_policies(vault, cluster);
        if !begun.is_empty() {
            let reply = self.client.txn(&Call::prefix(map::backups_prefix()));
            let reply = reply.map_err(admin::AdminError::Metadata).described()?;
            let left = begun.iter().filter(|begun| is_left(reply.values(0), repository, begun));
            let left: Vec<SessionId> = left.map(|begun| begun.session).collect();
            sessions::fence_all(vault, left, "its policy is deleted or paused, or of another repository")?;
        }
        tasks::fence_left(self.client, vault, cluster)?;
        sessions::fence(vault, &[])
    }

    /// A point of one volume, or of several at one moment, as far as the run has none.
    fn group(&self, vault: &mut Vault, volumes: &[Named], work: &Work) -> Result<Made> {
        let names: Vec<&str> = volumes.iter().map(|(_, name)| name.as_str()).collect();
        self.ends.comes_to(format!("a point is made of {}", names.join(", ")));
        let subjects: Vec<Subject> = volumes
            .iter()
            .map(|(id, name)| Subject::numbered(&By::Node(self.client), *id, name))
            .collect::<Result<_>>()?;
        vault.refresh().described()?;
        let had = Had::of(vault.state(), &work.point, work.cluster, &subjects);
        let (there, missing): (Vec<Subject>, Vec<Subject>) = subjects.into_iter().partition(|subject| had.has(subject));
        let before = there.len() as u64;
        if missing.is_empty() {
            return Ok(Made {
                point: had.point,
                before,
                now: None,
                late: Vec::new(),
            });
        }
        let way = Way::of(self.config.clone(), None).stalling(STALL);
        let task = Task {
            by: By::Node(self.client),
            way: &way,
            subjects: &missing,
            is_full: false,
            patience: PATIENCE,
            session: &work.session,
            point: Some(&work.point),
            snapshot: None,
            shows: Shows::Nobody,
        };
        match task.back_up(vault) {
            Ok(now) => {
                let late = missing.iter().filter(|_| before > 0);
                Ok(Made {
                    point: Some(now.point),
                    before,
                    late: late.map(|subject| subject.volume.name.clone()).collect(),
                    now: Some(now),
                })
            }
            // Its answer got lost, or one that was at the policy before has made it all the same.
            Err(failure) => {
                let found = vault.refresh().ok();
                let had = found.map(|()| Had::of(vault.state(), &work.point, work.cluster, &missing));
                match had.filter(|had| missing.iter().all(|subject| had.has(subject))) {
                    Some(had) => Ok(Made {
                        point: had.point,
                        before: before + missing.len() as u64,
                        now: None,
                        late: Vec::new(),
                    }),
                    None => Err(failure),
                }
            }
        }
    }

    /// Notes that there is a point.
    fn count(&self, records: &mut Records, outcome: &mut Outcome, made: &Made) -> Result<()> {
        outcome.volumes += made.before;
        let Some(now) = &made.now else { return Ok(()) };
        outcome.volumes += now.volumes.len() as u64;
        if !made.late.is_empty() {
            outcome.notes(&format!(
                "of {} there is a point of a later moment than of the other volumes: those were in one already when the run was gone on with",
                made.late.join(", ")
            ));
        }
        for note in &now.notes {
            outcome.notes(note);
        }
        let read: u64 = now.volumes.iter().map(|volume| volume.read_bytes).sum();
        let sent = now.sent.pack_bytes;
        let mut runs = records.runs.clone();
        runs.points = runs.points.saturating_add(1);
        runs.read_bytes = runs.read_bytes.saturating_add(read);
        runs.sent_bytes = runs.sent_bytes.saturating_add(sent);
        if let Some(run) = &mut runs.run {
            run.points += 1;
            run.volumes = outcome.volumes;
            run.read_bytes = run.read_bytes.saturating_add(read);
            run.sent_bytes = run.sent_bytes.saturating_add(sent);
        }
        match self.note_surely(records, &runs) {
            true => Ok(()),
            false => {
                self.ends.lose();
                Err(Failure::interrupted())
            }
        }
    }

    /// Gives up the policy's own points that no rule keeps, and removes what nothing needs any more.
    pub(super) fn give_up(
        &self,
        vault: &mut Vault,
        records: &mut Records,
        work: &Work,
        outcome: &mut Outcome,
    ) -> Result<()> {
        interrupt::check()?;
        self.ends.comes_to("it is looked which points no rule keeps");
        self.is_what_it_was(vault, &work.volumes).map_err(|mut failure| {
            failure.what = format!("nothing is given up: {}", failure.what);
            failure
        })?;
        let gone = given_up(&records.policy, work.cluster, vault.state())?;
        let (condemned, swept, _) = vault.state().waiting();
        // What is locked waits for days: nothing is read for that each time.
        let waits = condemned > 0 || (swept > 0 && work.repository.lock_days.is_none()) || records.runs.prune_owed;
        if gone.is_empty() && !waits {
            return Ok(());
        }
        if gone.is_empty() {
            if !self.owes(records) {
                return Err(Failure::interrupted());
            }
        } else {
            self.ends.comes_to("points are given up that no rule keeps");
            self.forget(vault, records, work.cluster, &gone)?;
        }
        self.ends.comes_to("what no point needs is removed");
        let pruned = prune::prune_vault(vault, &work.session)?;
        records.runs.prune_owed = false;
        if !pruned.waiting.is_empty() {
            outcome.notes(&format!(
                "what nothing needs any more is removed when these are over: {}",
                pruned.waiting.join(", ")
            ));
        }
        Ok(())
    }

    /// Gives these points up, if that is right at the very moment: by the rules that the policy has then, of the points that are there then, and by
    /// the node that has the policy's key.
    fn forget(&self, vault: &mut Vault, records: &mut Records, cluster: ClusterId, gone: &[u64]) -> Result<()> {
        let held = RefCell::new(&mut *records);
        let is_right = |state: &State| {
            if interrupt::caught() || self.ends.why().is_some() {
                return Err(Failure::interrupted());
            }
            let now = given_up(&held.borrow().policy, cluster, state)?;
            if let Some(kept) = gone.iter().find(|point| !now.contains(*point)) {
                return Err(Failure::new(format!(
                    "nothing is given up: as the repository's points are by now, point {kept} stays, or is gone"
                )));
            }
            match self.owes(&mut held.borrow_mut()) {
                true => Ok(()),
                false => Err(Failure::interrupted()),
            }
        };
        let guard = |state: &State| is_right(state).map_err(|why| amita_backup::Error::Unwanted(carried(why)));
        vault.forget_if(gone, &guard).described()?;
        let forgotten = gone.len() as u64;
        records.runs.forgotten = records.runs.forgotten.saturating_add(forgotten);
        if let Some(run) = &mut records.runs.run {
            run.forgotten += forgotten;
        }
        Ok(())
    }
}

/// Does all else come to the same, as far as can be seen?
fn is_away(failure: &Failure) -> bool {
    matches!(failure.kind, Kind::Unreachable | Kind::Interrupted)
}
