//! What processes use while something is measured, from `/proc`: CPU and switches; and what everybody else on the machine
//! does at the same time.
//!
//! A [`Window`] is two looks. The one at the end must come while all that counts still runs.

use amita_harness::cpu;
use amita_terminal::error::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A process that is watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    /// How the table calls it: `client`, `n1`, `metadata`, `fio`.
    pub name: String,
    /// Its number.
    pub pid: u32,
}

/// What a process has used since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Look {
    cpu: Duration,
    voluntary: u64,
    involuntary: u64,
}

/// What a process used within a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// CPU time, user's and kernel's.
    pub cpu: Duration,
    /// Times that a thread went to sleep.
    pub voluntary: u64,
    /// Times that a thread was put aside for another.
    pub involuntary: u64,
}

/// What everybody else did within a window, in percent of one core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Foreign {
    /// Processes that are not ours.
    pub percent: f64,
    /// What the host of this virtual machine took away.
    pub steal_percent: f64,
}

impl Foreign {
    /// Both together.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.percent + self.steal_percent
    }

    /// Is a run beside this worth nothing?
    #[must_use]
    pub fn disturbs(&self, limit_percent: f64) -> bool {
        self.sum() > limit_percent
    }
}

/// What was used between two looks.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    /// How long it was.
    pub length: Duration,
    /// By the name of the process.
    pub by_name: BTreeMap<String, Used>,
    /// The others.
    pub foreign: Foreign,
}

/// The first of two looks.
#[derive(Clone, Debug)]
pub struct Window {
    watched: Vec<(Watched, Look)>,
    machine: Machine,
    own: Duration,
    start: Instant,
}

impl Window {
    /// Looks for the first time.
    ///
    /// # Errors
    /// When a process is not there.
    pub fn open(watched: &[Watched]) -> Result<Window> {
        let looks = watched.iter().map(|one| Ok((one.clone(), look(one.pid)?)));
        Ok(Window {
            watched: looks.collect::<Result<_>>()?,
            machine: machine()?,
            own: cpu::of_process(std::process::id())?,
            start: Instant::now(),
        })
    }

    /// Looks for the second time.
    ///
    /// # Errors
    /// When a process has ended.
    pub fn close(self) -> Result<Usage> {
        let length = self.start.elapsed();
        let mut ours = cpu::of_process(std::process::id())?.saturating_sub(self.own);
        let mut by_name: BTreeMap<String, Used> = BTreeMap::new();
        for (one, before) in self.watched {
            let now = look(one.pid)?;
            let used = by_name.entry(one.name).or_default();
            let cpu = now.cpu.saturating_sub(before.cpu);
            ours += cpu;
            used.cpu += cpu;
            used.voluntary += now.voluntary.saturating_sub(before.voluntary);
            used.involuntary += now.involuntary.saturating_sub(before.involuntary);
        }
        let foreign = foreign(self.machine, machine()?, ours, length);
        Ok(Usage {
            length,
            by_name,
            foreign,
        })
    }
}

impl Usage {
    /// The CPU of all of them.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        self.by_name.values().map(|used| used.cpu).sum()
    }
}

/// CPU time of the whole machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Machine {
    busy: Duration,
    steal: Duration,
}

fn machine() -> Result<Machine> {
    const PATH: &str = "/proc/stat";
    let text = std::fs::read_to_string(PATH).context(|| format!("cannot read {PATH}"))?;
    Ok(parse_machine(&text))
}

/// The first line of `/proc/stat` (proc(5)): user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice, in
/// hundredths of a second. What guests use is in user and nice already.
fn parse_machine(text: &str) -> Machine {
    const TICK: Duration = Duration::from_millis(10);
    let fields = text.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let ticks: Vec<u32> = fields.map(|field| field.parse().unwrap_or_default()).collect();
    let tick = |index: usize| TICK * ticks.get(index).copied().unwrap_or_default();
    Machine {
        busy: tick(0) + tick(1) + tick(2) + tick(5) + tick(6),
        steal: tick(7),
    }
}

fn foreign(before: Machine, after: Machine, ours: Duration, length: Duration) -> Foreign {
    let percent = |time: Duration| 100.0 * time.as_secs_f64() / length.as_secs_f64().max(1e-9);
    Foreign {
        percent: percent(after.busy.saturating_sub(before.busy).saturating_sub(ours)),
        steal_percent: percent(after.steal.saturating_sub(before.steal)),
    }
}

fn look(pid: u32) -> Result<Look> {
    let mut found = Look {
        cpu: cpu::of_process(pid)?,
        ..Look::default()
    };
    let tasks = format!("/proc/{pid}/task");
    for task in std::fs::read_dir(&tasks).context(|| format!("cannot read {tasks}"))? {
        // A thread may end between the list and the look; what it did is small.
        let Ok(text) = task.and_then(|task| std::fs::read_to_string(task.path().join("status"))) else {
            continue;
        };
        found.voluntary += field(&text, "voluntary_ctxt_switches");
        found.involuntary += field(&text, "nonvoluntary_ctxt_switches");
    }
    Ok(found)
}

/// The number in a line `name: number`; zero where there is none.
fn field(text: &str, name: &str) -> u64 {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let found = lines.into_iter().find(|(key, _)| *key == name);
    found
        .and_then(|(_, value)| value.trim().parse().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
