//! What goes wrong with two clusters and the way between them, what operators do meanwhile, and how all of that ends.

use super::command::{self, Command};
use super::{GOES_ON, MS, NAME, Pair, Role};
use crate::campaign::Run;
use crate::faults::Fault;
use amita_reactor::Time;
use amita_types::map::{Mirror, MirrorRole};
use std::sync::atomic::Ordering;

impl Pair {
    pub(super) fn let_go_wrong(&mut self, now: Time, end: usize) {
        if self.ends[end].faults_at.is_some_and(|at| at <= now) {
            let most = self.setup.faults_ms.unwrap_or(1000);
            self.ends[end].faults_at = Some(Time(now.0 + self.random.within(MS, most * 2 * MS)));
            let fault = self.any_fault(end);
            self.coverage.hit("mirror.fault");
            self.ends[end].cluster.inject_one(now, fault);
        }
        if self.link_at.is_some_and(|at| at <= now) {
            let most = self.setup.link_ms.unwrap_or(1000);
            self.link_at = Some(Time(now.0 + self.random.within(MS, most * 2 * MS)));
            let until = Time(now.0 + self.random.within(100 * MS, 7000 * MS));
            match self.random.percent(60) {
                true => self.link.cut(until),
                false => self.link.slow(until),
            }
            self.coverage.hit("mirror.link_fault");
        }
        if self.clocks_at.is_some_and(|at| at <= now) {
            let most = self.setup.clocks_ms.unwrap_or(1000);
            self.clocks_at = Some(Time(now.0 + self.random.within(MS, most * 2 * MS)));
            let seconds = *self.random.pick(&[7, 40, 300, 4000]);
            let by = if self.random.percent(50) { seconds } else { -seconds };
            self.ends[end].wall.set_by.fetch_add(by, Ordering::Relaxed);
            self.coverage.hit("mirror.clock_set");
        }
        if self.commands_at.is_some_and(|at| at <= now) {
            let most = self.setup.commands_ms.unwrap_or(1000);
            self.commands_at = Some(Time(now.0 + self.random.within(MS, most * 2 * MS)));
            self.command_any(now, end);
        }
    }

    fn any_fault(&mut self, end: usize) -> Fault {
        let nodes = self.ends[end].cluster.nodes.len() as u64;
        let node = self.random.below(nodes) as usize;
        let short = self.random.within(5 * MS, 400 * MS);
        let long = self.random.within(300 * MS, 3000 * MS);
        match self.random.below(9) {
            0 | 1 => Fault::Kill { node, for_ns: short },
            2 => Fault::PowerCut { node, for_ns: short },
            3 | 4 => Fault::Freeze { node, for_ns: long },
            5 => Fault::MetadataCutOff { node, for_ns: long },
            6 => Fault::WatchLate { node, for_ns: long },
            7 => Fault::MetadataAway { for_ns: long },
            _ => Fault::MetadataLossy {
                percent: 30,
                for_ns: long,
            },
        }
    }

    /// Something goes wrong with who is at a pass, while it writes.
    pub(super) fn trouble_runner(&mut self, now: Time, end: usize, serial: u64) {
        let Some(node) = self.ends[end].cluster.process_at(serial) else {
            return;
        };
        let (short, long) = (
            self.random.within(5 * MS, 200 * MS),
            self.random.within(300 * MS, 3000 * MS),
        );
        let fault = match self.random.below(3) {
            0 => Fault::Kill { node, for_ns: short },
            1 => Fault::Freeze { node, for_ns: long },
            _ => Fault::MetadataCutOff { node, for_ns: long },
        };
        self.coverage.hit("mirror.trouble");
        self.ends[end].cluster.inject_one(now, fault);
    }

    /// The other end is lost from sight while a pass writes, and an operator promotes this one by force.
    pub(super) fn force_in_a_pass(&mut self, now: Time, end: usize) {
        self.link.cut(Time(now.0 + self.random.within(4000 * MS, 9000 * MS)));
        self.command(now, end, Command::Force);
    }

    pub(super) fn is_commanded(&self) -> bool {
        let is_it = |role: &Role| matches!(role, Role::Operator);
        (0..2).any(|end| self.has(end, is_it))
    }

    pub(super) fn command(&mut self, now: Time, end: usize, command: Command) {
        let Some(member) = self.any_node(now, end, false) else {
            return;
        };
        let wall = self.ends[end].wall.clone();
        self.tell(end, || format!("the operator: {command:?}"));
        self.begin(end, member, Role::Operator, move |line| {
            command::run(line, NAME, &wall, command);
        });
    }

    /// Operators do something that fits what an end is, or does not.
    fn command_any(&mut self, now: Time, end: usize) {
        if self.is_commanded() && self.random.percent(80) {
            return;
        }
        let Some(record) = self.record(end) else { return };
        let (standing, is_paused) = (record.standing.clone(), record.paused.is_some());
        let other = self
            .record(1 - end)
            .map(|other| other.standing.clone())
            .unwrap_or_default();
        let is_away = self.link.is_cut(now);
        let random = &mut self.random;
        let command = match standing.role {
            MirrorRole::Primary if random.percent(70) => Command::Demote,
            MirrorRole::Primary => Command::Pause,
            MirrorRole::Secondary if is_paused => Command::Resume,
            MirrorRole::Secondary if standing.handed => *random.pick(&[Command::TakeBack, Command::Force]),
            MirrorRole::Secondary if other.handed => {
                *random.pick(&[Command::Promote, Command::Promote, Command::Force])
            }
            MirrorRole::Secondary if is_away => Command::Force,
            MirrorRole::Secondary => *random.pick(&[Command::Pause, Command::Force, Command::Promote]),
            MirrorRole::Deposed => *random.pick(&[Command::Resync, Command::Resync, Command::Force]),
            MirrorRole::Demoting | MirrorRole::Promoting => return,
        };
        self.command(now, end, command);
        // What was demoted is promoted somewhere, mostly.
        if command == Command::Demote && self.random.percent(60) {
            self.command(now, 1 - end, Command::Promote);
        }
    }

    /// Every fault ends.
    pub(super) fn heal(&mut self) {
        self.healed = true;
        self.resizes.end();
        self.link.heal();
        for end in 0..2 {
            self.tell(end, || "everything heals".to_owned());
            self.ends[end].cluster.heal();
        }
    }

    /// There is one primary, and the other end arrives at a point that was cut since: operators do what is theirs to do, and all else goes on by itself.
    pub(super) fn go_on(&mut self) -> Result<(), String> {
        let healed = self.now();
        let limit = healed.plus(GOES_ON);
        let mut again = healed;
        loop {
            let now = self.now();
            let has_arrived = |record: &Mirror| {
                let standing = &record.standing;
                let is_new = standing
                    .point
                    .is_some_and(|point| self.judge.is_cut_behind(point, healed));
                standing.role == MirrorRole::Secondary && !standing.handed && is_new
            };
            let is_primary = |record: &Mirror| record.standing.role == MirrorRole::Primary;
            let goes_on =
                |end: usize| self.record(end).is_some_and(has_arrived) && self.record(1 - end).is_some_and(is_primary);
            let has_arrived = goes_on(0) || goes_on(1);
            if has_arrived && !self.is_commanded() && !self.is_resizing() {
                self.coverage.hit("mirror.judged_goes_on");
                return Ok(());
            }
            if now >= limit {
                let shown: Vec<String> = (0..2)
                    .map(|end| format!("{:#?}\n{}", self.record(end), self.ends[end].cluster.describe()))
                    .collect();
                return Err(format!(
                    "nothing is wrong any more, and after {GOES_ON:?} the far end has not arrived at a new point: {}",
                    shown.join("\n")
                ));
            }
            if now >= again && !self.is_commanded() {
                again = now.plus(std::time::Duration::from_secs(2));
                self.set_right(now);
            }
            self.step(limit)?;
        }
    }

    /// What an operator does about ends that wait for him.
    fn set_right(&mut self, now: Time) {
        let both = [0, 1].map(|end: usize| {
            self.record(end)
                .map(|record| (record.standing.clone(), record.paused.is_some()))
        });
        let [Some(one), Some(other)] = both else { return };
        let all = [one, other];
        for end in 0..2 {
            let (own, is_paused) = &all[end];
            let (there, _) = &all[1 - end];
            let waits = |role: MirrorRole| matches!(role, MirrorRole::Secondary | MirrorRole::Deposed);
            let command = match own.role {
                _ if *is_paused => Command::Resume,
                MirrorRole::Deposed if there.role == MirrorRole::Primary && there.epoch > own.epoch => Command::Resync,
                MirrorRole::Secondary if there.handed && !own.handed && there.epoch >= own.epoch => Command::Promote,
                // Nobody is to be followed: the one with the later epoch is to be written.
                MirrorRole::Secondary | MirrorRole::Deposed
                    if waits(there.role) && !there.handed && own.epoch >= there.epoch && own.point.is_some() =>
                {
                    Command::Force
                }
                MirrorRole::Secondary if own.handed && there.handed && own.epoch > there.epoch => Command::Force,
                _ => continue,
            };
            return self.command(now, end, command);
        }
    }

    /// Hosts read all that the primary has.
    pub(super) fn read_in_the_end(&mut self) -> Result<(), String> {
        self.reads_once = true;
        let limit = self.now().plus(GOES_ON);
        // One that writes has to end first.
        let before = self.read_all;
        while self.read_all < before + 2 {
            if self.now() >= limit {
                return Err("hosts do not come to read all in the end".to_owned());
            }
            self.step(limit)?;
        }
        self.coverage.hit("mirror.read_in_the_end");
        Ok(())
    }

    pub(super) fn finish(mut self, failure: Option<String>) -> Run {
        self.coverage.merge(&self.judge.coverage);
        self.coverage.add("mirror.link_lost", self.link.lost);
        self.coverage.add("mirror.link_late", self.link.late);
        let mut trace = 0;
        let [one, other] = self.ends;
        for end in [one, other] {
            drop(end.processes);
            let run = end.cluster.finish(None);
            trace = amita_types::layout::mix(trace ^ run.trace);
            self.coverage.merge(&run.coverage);
        }
        Run {
            trace,
            coverage: self.coverage,
            failure,
        }
    }
}
