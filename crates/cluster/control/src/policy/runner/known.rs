//! A policy and its run: what is due is begun, volumes come in their turn, and what has come of them is written down.

use super::job::{self, Job, Outcome};
use super::set::SetJob;
use super::{Catalog, Clock, Fence, Known, LATE, MOST_BACK, MOST_QUEUED, NOTED_EVERY, Result, TOLD_AGAIN};
use crate::admin::{AdminError, unchanged};
use crate::events::{Draft, Kind};
use crate::policy::naming;
use crate::policy::schedule::Schedule;
use amita_metadata::{Call, Op, Transact};
use amita_types::VolumeId;
use amita_types::map::{self, Policy, PolicyRuns, Run};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

impl Known {
    pub(super) fn new(policy: Policy, revision: u64, runs: PolicyRuns, runs_revision: u64) -> Known {
        Known {
            schedule: Schedule::parse(&policy.schedule, &policy.zone),
            policy,
            revision,
            runs,
            runs_revision,
            next: None,
            set: None,
            queue: None,
            more: false,
            jobs: BTreeMap::new(),
            ended: BTreeMap::new(),
            noted: Duration::ZERO,
        }
    }

    /// What the metadata says now.
    pub(super) fn renew(&mut self, policy: Policy, revision: u64, runs: PolicyRuns, runs_revision: u64) {
        if runs_revision != self.runs_revision {
            // Somebody else has led in between, or our own note was done though nobody said so: its cursor counts.
            *self = Known::new(policy, revision, runs, runs_revision);
        } else if revision != self.revision {
            self.schedule = Schedule::parse(&policy.schedule, &policy.zone);
            (self.policy, self.revision, self.next) = (policy, revision, None);
            // It may be for other volumes, and by other rules.
            self.queue = None;
            self.jobs.values_mut().for_each(Job::judge_anew);
        }
    }

    /// Begins what is due.
    pub(super) fn begin(&mut self, meta: &dyn Transact, fence: &Fence, now: u64, told: &mut Vec<Draft>) -> Result<()> {
        let name = self.policy.name.clone();
        let current = match self.policy.paused {
            true => "paused".to_owned(),
            false => format!("{} in {}", self.policy.schedule, self.policy.zone),
        };
        if self.runs.schedule != current {
            let mut runs = self.runs.clone();
            (runs.schedule, runs.after) = (current, now);
            return self.note(meta, fence, runs);
        }
        if self.runs.after > now.saturating_add(MOST_BACK) {
            let text = format!(
                "policy {name}: the clock of the node that leads is {} s behind the policy's last run; times count from now on",
                self.runs.after - now
            );
            let runs = PolicyRuns {
                after: now,
                ..self.runs.clone()
            };
            self.note(meta, fence, runs)?;
            told.push(Draft::new(Kind::PolicyMissed, [&name], text));
            return Ok(());
        }
        let Ok(schedule) = &self.schedule else { return Ok(()) };
        if self.policy.paused || self.runs.run.is_some() {
            return Ok(());
        }
        let after = self.runs.after;
        if self.next.is_none_or(|(behind, _)| behind != after) {
            self.next = Some((after, schedule.next_after(after)));
        }
        let is_due = self.next.and_then(|(_, next)| next).is_some_and(|next| next <= now);
        let Some((due, passed)) = is_due.then(|| schedule.last_between(after, now)).flatten() else {
            return Ok(());
        };
        let mut runs = self.runs.clone();
        let is_late = now - due > LATE;
        let missed = passed + u64::from(is_late);
        runs.after = due;
        runs.missed = runs.missed.saturating_add(missed);
        runs.untold = runs.untold.saturating_add(missed);
        runs.run = Some(Run {
            due,
            began: now,
            template: self.policy.template.clone(),
            together: self.policy.together,
            ..Run::default()
        });
        let is_told = runs.untold > 0 && is_again(runs.told_missed, now);
        let text = format!(
            "policy {name}: {} of its times {} passed without a run: nobody led, the metadata was away, or a run before was not at its \
             end. One run is made in their place, for {}",
            runs.untold,
            if runs.untold == 1 { "has" } else { "have" },
            naming::name("", "{time}", due)
        );
        if is_told {
            (runs.untold, runs.told_missed) = (0, now);
        }
        self.note(meta, fence, runs)?;
        if is_told {
            told.push(Draft::new(Kind::PolicyMissed, [&name], text));
        }
        Ok(())
    }

    /// Reads which volumes come next.
    pub(super) fn fill(&mut self, meta: &dyn Transact, catalog: &mut Catalog) -> Result<()> {
        let Some(run) = self.runs.run.as_ref().filter(|run| !awaits_set(run)) else {
            return Ok(());
        };
        if self.policy.paused || self.queue.as_ref().is_some_and(|queue| !queue.is_empty() || !self.more) {
            return Ok(());
        }
        let is_new = |volume: &VolumeId| {
            volume.0 > run.cursor && !self.jobs.contains_key(volume) && !self.ended.contains_key(volume)
        };
        let mut found: VecDeque<(VolumeId, String)> = catalog
            .of(meta, &self.policy.target)?
            .filter(|(volume, _)| is_new(volume))
            .map(|(volume, name)| (volume, name.to_owned()))
            .collect();
        found.make_contiguous().sort();
        let named: &[VolumeId] = match &self.policy.target {
            map::Target::Volume(volume) => std::slice::from_ref(volume),
            map::Target::Volumes(volumes) => volumes,
            map::Target::Label { .. } | map::Target::Pool(_) => &[],
        };
        let is_there = |volume: &VolumeId| found.binary_search_by_key(volume, |(found, _)| *found).is_ok();
        let lost: Vec<VolumeId> = named
            .iter()
            .copied()
            .filter(|volume| is_new(volume) && !is_there(volume))
            .collect();
        self.more = found.len() > MOST_QUEUED;
        found.truncate(MOST_QUEUED);
        for volume in lost {
            self.ended.insert(volume, Outcome::lost(&self.policy, volume));
        }
        self.queue = Some(found);
        Ok(())
    }

    /// Begins with the set of the run, if it is to have one.
    pub(super) fn start_set(&mut self, clock: Clock) -> bool {
        let Some(run) = self.runs.run.as_ref().filter(|run| awaits_set(run)) else {
            return false;
        };
        if self.policy.paused || self.set.is_some() {
            return false;
        }
        let snapshot = naming::name(&self.policy.name, &run.template, run.due);
        // As long as the next run is not due; one that never comes is far away.
        let next = self.schedule.as_ref().ok().and_then(|times| times.next_after(run.due));
        let time = next.map_or(Duration::MAX, |next| Duration::from_secs(next - run.due));
        self.set = Some(SetJob::new(snapshot, time, clock.steady));
        true
    }

    /// Goes on with the set of the run. What has become of it is written down before anything is done with a volume: whoever leads next
    /// takes no other one in its place.
    pub(super) fn go_on_with_set(
        &mut self,
        meta: &dyn Transact,
        fence: &Fence,
        catalog: &mut Catalog,
        clock: Clock,
    ) -> Result<()> {
        let held = self.held(fence);
        let Some(set) = &mut self.set else { return Ok(()) };
        if self.policy.paused {
            set.withdraw(meta)?;
            self.set = None;
            return Ok(());
        }
        let Some(ended) = set.go_on(meta, &self.policy, &held, catalog, clock)? else {
            return Ok(());
        };
        let mut runs = self.runs.clone();
        let Some(run) = &mut runs.run else { return Ok(()) };
        runs.sets = runs.sets.saturating_add(u64::from(ended.id.is_some()));
        runs.sets_void = runs.sets_void.saturating_add(ended.void);
        run.set = Some(ended);
        self.note(meta, fence, runs)?;
        self.set = None;
        Ok(())
    }

    pub(super) fn start_one(&mut self, clock: Clock) -> bool {
        let is_on = |run: &&Run| !self.policy.paused && !awaits_set(run);
        let Some(run) = self.runs.run.as_ref().filter(is_on) else {
            return false;
        };
        // One that takes long has those behind it remembered.
        if self.ended.len() >= MOST_QUEUED {
            return false;
        }
        let Some((volume, name)) = self.queue.as_mut().and_then(VecDeque::pop_front) else {
            return false;
        };
        let snapshot = naming::name(&self.policy.name, &run.template, run.due);
        self.jobs.insert(volume, Job::new(volume, name, snapshot, clock.steady));
        true
    }

    /// Counts what is at its end, and ends the run.
    pub(super) fn end(
        &mut self,
        meta: &dyn Transact,
        fence: &Fence,
        clock: Clock,
        told: &mut Vec<Draft>,
    ) -> Result<()> {
        let Some(mut run) = self.runs.run.clone() else {
            return Ok(());
        };
        let mut runs = self.runs.clone();
        // Everything up to the first one that is not at its end.
        let queued = self.queue.iter().flatten().next().map(|(volume, _)| *volume);
        let open = self.jobs.keys().next().copied().into_iter().chain(queued).min();
        let done: Vec<VolumeId> = self
            .ended
            .keys()
            .copied()
            .take_while(|volume| open.is_none_or(|open| *volume < open))
            .collect();
        for volume in &done {
            if let Some(outcome) = self.ended.get(volume) {
                outcome.count(&mut run, &mut runs);
                run.cursor = volume.0;
            }
        }
        let nothing_left = self.queue.as_ref().is_some_and(VecDeque::is_empty) && !self.more;
        let is_over = self.jobs.is_empty() && self.set.is_none() && (nothing_left || self.policy.paused);
        let is_time = clock.steady.saturating_sub(self.noted) >= NOTED_EVERY || clock.steady < self.noted;
        if !is_over && (done.is_empty() || !is_time) {
            return Ok(());
        }
        let mut event = None;
        let now = clock.wall.as_secs();
        if is_over {
            if !nothing_left {
                job::note(
                    &mut run,
                    "the policy was paused: volumes behind these were not looked at",
                );
            }
            run.ended = Some(now);
            runs.runs = runs.runs.saturating_add(1);
            event = tell(&self.policy, &mut runs, &run, now);
            (runs.run, runs.last) = (None, Some(run));
        } else {
            runs.run = Some(run);
        }
        self.note(meta, fence, runs)?;
        self.noted = clock.steady;
        self.ended.retain(|volume, _| !done.contains(volume));
        if is_over {
            (self.queue, self.more) = (None, false);
            self.ended.clear();
        }
        told.extend(event);
        Ok(())
    }

    /// The policy is there as it is known here, and this node leads.
    pub(super) fn held(&self, fence: &Fence) -> Vec<(String, u64)> {
        let policy = (map::policy_key(&self.policy.name), self.revision);
        std::iter::once(policy).chain(fence.clone()).collect()
    }

    /// Writes what has become of it, if the policy is there as it is known here, and this node leads.
    pub(super) fn note(&mut self, meta: &dyn Transact, fence: &Fence, runs: PolicyRuns) -> Result<()> {
        let key = map::policy_runs_key(self.policy.id);
        let held = self.held(fence);
        let mut compares = vec![unchanged(&key, self.runs_revision)];
        compares.extend(held.iter().map(|(key, revision)| unchanged(key, *revision)));
        let value = serde_json::to_vec(&runs).expect("numbers and texts");
        let call = Call {
            compares,
            then: vec![Op::Put {
                key: key.clone(),
                value,
                lease: None,
            }],
            otherwise: Vec::new(),
        };
        let reply = meta.txn(&call)?;
        if !reply.succeeded {
            // Somebody has changed the policy, or leads instead: what is so is read at the next step.
            return Err(AdminError::TooManyRaces { key });
        }
        (self.runs, self.runs_revision) = (runs, reply.revision);
        Ok(())
    }
}

/// Is its set neither taken nor given up?
fn awaits_set(run: &Run) -> bool {
    run.together && run.set.is_none()
}

/// What is to be told of a run that has ended.
fn tell(policy: &Policy, runs: &mut PolicyRuns, run: &Run, now: u64) -> Option<Draft> {
    let name = &policy.name;
    if run.failed == 0 {
        // One that fails and does not by turns is told of once an hour, either way.
        if runs.told_failing == 0 || !is_again(runs.told_works, now) {
            return None;
        }
        (runs.told_failing, runs.told_works) = (0, now);
        let text = format!("policy {name} does what it should again");
        return Some(Draft::new(Kind::PolicyWorks, [name], text));
    }
    if !is_again(runs.told_fails.max(runs.told_failing), now) {
        return None;
    }
    (runs.told_failing, runs.told_fails) = (now, now);
    let text = format!("policy {name}: {} volumes failed: {}", run.failed, run.why.join("; "));
    Some(Draft::new(Kind::PolicyFails, [name], text))
}

/// Was it told so long ago, or never, that it is told again?
pub(super) fn is_again(told: u64, now: u64) -> bool {
    told == 0 || now >= told.saturating_add(TOLD_AGAIN) || now < told
}
