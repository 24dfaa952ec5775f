//! CPU time of processes, from `/proc`.

use amita_terminal::error::{Context, Failure, Result};
use std::time::Duration;

/// `/proc/PID/stat` counts in hundredths of a second on every Linux (USER_HZ is part of the kernel's interface).
const TICK: Duration = Duration::from_millis(10);

/// The CPU time, user's and kernel's, that a process has used; threads that have ended count.
///
/// # Errors
/// When there is no such process.
pub fn of_process(pid: u32) -> Result<Duration> {
    let [user, kernel, ..] = fields(&format!("/proc/{pid}/stat"))?;
    Ok(TICK * (user + kernel) as u32)
}

/// The CPU time of all children of this process that have ended and were waited for.
///
/// # Errors
/// When `/proc` is not there.
pub fn of_children() -> Result<Duration> {
    let [_, _, user, kernel] = fields("/proc/self/stat")?;
    Ok(TICK * (user + kernel) as u32)
}

/// The CPU time of the calling thread, in nanoseconds' resolution.
///
/// # Errors
/// When the kernel keeps no scheduler statistics.
pub fn of_this_thread() -> Result<Duration> {
    const PATH: &str = "/proc/thread-self/schedstat";
    let text = std::fs::read_to_string(PATH).context(|| format!("cannot read {PATH}"))?;
    let nanoseconds = text.split_whitespace().next().and_then(|field| field.parse().ok());
    nanoseconds
        .map(Duration::from_nanos)
        .ok_or_else(|| Failure::new(format!("{PATH} is not as expected: {text:?}")))
}

/// utime, stime, cutime, cstime of a `stat` file (proc(5)).
fn fields(path: &str) -> Result<[u64; 4]> {
    let text = std::fs::read_to_string(path).context(|| format!("cannot read {path}"))?;
    parse_stat(&text).ok_or_else(|| Failure::new(format!("{path} is not as expected: {text:?}")))
}

fn parse_stat(text: &str) -> Option<[u64; 4]> {
    // The second field is the program's name in parentheses and may hold anything, also spaces and parentheses.
    let rest = &text[text.rfind(')')? + 1..];
    // The first field of the rest is the third of the file; utime is the fourteenth.
    let mut numbers = rest.split_whitespace().skip(11).map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    Some([next()?, next()?, next()?, next()?])
}

/// The CPU time that a set of processes uses from now on.
#[derive(Clone, Debug)]
pub struct Meter {
    before: Vec<(u32, Duration)>,
}

impl Meter {
    /// Starts measuring. A process that cannot be read counts from nothing.
    #[must_use]
    pub fn start(pids: impl IntoIterator<Item = u32>) -> Meter {
        Meter {
            before: pids
                .into_iter()
                .map(|pid| (pid, of_process(pid).unwrap_or_default()))
                .collect(),
        }
    }

    /// What was used since. What a process that has died meanwhile has used is not known and left out.
    #[must_use]
    pub fn used(&self) -> Duration {
        self.before
            .iter()
            .map(|&(pid, before)| of_process(pid).map_or(Duration::ZERO, |now| now.saturating_sub(before)))
            .sum()
    }
}

#[cfg(test)]
mod tests;
