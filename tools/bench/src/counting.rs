//! System calls and allocations of processes, counted by `perf` while a run goes on.
//!
//! Counting costs: so it has a run of its own, whose other figures are thrown away. System calls are the kernel's
//! tracepoint `raw_syscalls:sys_enter`; allocations are probes on the C library's allocator, which Rust's programs and
//! fio call alike. Both need root, and a kernel that has them; where they are not there, nothing is said of them.

use crate::usage::Watched;
use amita_harness::tool;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Entries into the kernel.
    SystemCalls,
    /// Calls of the allocator that take memory.
    Allocations,
}

/// The calls that take memory.
const ALLOCATORS: [&str; 5] = ["malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc"];
/// How long a command beside the counted time may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The probes' group: this process's, so that nobody else's are touched.
fn group() -> String {
    format!("amita_bench_{}", std::process::id())
}

/// Can count; what it set up goes with it.
#[derive(Debug)]
pub struct Counter {
    event: Event,
    /// For what `perf` prints.
    folder: tempfile::TempDir,
}

impl Counter {
    /// Sets it up; `None` where this machine cannot.
    #[must_use]
    pub fn new(event: Event) -> Option<Counter> {
        let counter = Counter {
            event,
            folder: tempfile::tempdir().ok()?,
        };
        let folder = counter.folder.path();
        if event == Event::Allocations {
            let library = c_library()?;
            let group = group();
            let probes = ALLOCATORS.map(|name| format!("{group}:{name}={name}"));
            let mut arguments = vec!["probe".to_owned(), "-q".to_owned(), "-x".to_owned(), library];
            arguments.extend(probes.into_iter().flat_map(|probe| ["-a".to_owned(), probe]));
            perf(folder, &arguments, PATIENCE)?;
        }
        // It may be there and not be allowed: this process can be asked.
        let own = Watched {
            name: "own".to_owned(),
            pid: std::process::id(),
        };
        counter.count(&[own], Duration::from_millis(10))?;
        Some(counter)
    }

    /// Counts for `time`, by the names of the processes; `None` when that fails.
    #[must_use]
    pub fn count(&self, watched: &[Watched], time: Duration) -> Option<BTreeMap<String, u64>> {
        let events = match self.event {
            Event::SystemCalls => "raw_syscalls:sys_enter".to_owned(),
            Event::Allocations => format!("{}:*", group()),
        };
        let seconds = format!("{:.3}", time.as_secs_f64());
        let started: Option<Vec<_>> = watched
            .iter()
            .map(|one| {
                let pid = one.pid.to_string();
                let arguments = ["stat", "-x", ",", "-e", &events, "-p", &pid, "sleep", &seconds];
                let process = tool::start(self.folder.path(), "perf", arguments).ok()?;
                Some((one.name.clone(), process))
            })
            .collect();
        let mut counts = BTreeMap::new();
        for (name, mut process) in started? {
            let status = process.wait(time + PATIENCE).ok()?;
            let text = std::fs::read_to_string(process.log()).ok()?;
            // It was read, and many such files would hide the logs that matter.
            let _ = std::fs::remove_file(process.log());
            if !status.success() {
                return None;
            }
            *counts.entry(name).or_default() += sum(&text)?;
        }
        Some(counts)
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        if self.event == Event::Allocations {
            let delete = ["probe", "-q", "-d", &format!("{}:*", group())].map(str::to_owned);
            if perf(self.folder.path(), &delete, PATIENCE).is_none() {
                let group = group();
                log::warn!("the probes {group}:* on the C library are still there: perf probe -d '{group}:*'");
            }
        }
    }
}

fn perf(folder: &Path, arguments: &[String], limit: Duration) -> Option<()> {
    let output = tool::run(folder, "perf", arguments, limit).ok()?;
    output.status.success().then_some(())
}

/// The C library that this program has loaded.
fn c_library() -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    paths
        .into_iter()
        .find(|path| path.rsplit('/').next().is_some_and(|name| name.starts_with("libc.so")))
        .map(str::to_owned)
}

/// The sum of the counts in `perf stat -x,`'s lines; `None` where there is none, or one cannot be counted here. A process
/// that slept all the time is "not counted", and did nothing.
fn sum(text: &str) -> Option<u64> {
    let lines = text.lines().filter(|line| line.contains(',') && !line.starts_with('#'));
    let counts: Option<Vec<u64>> = lines
        .map(|line| match line.split(',').next()? {
            "<not counted>" => Some(0),
            count => count.parse().ok(),
        })
        .collect();
    counts
        .filter(|counts| !counts.is_empty())
        .map(|counts| counts.iter().sum())
}

#[cfg(test)]
mod tests;
