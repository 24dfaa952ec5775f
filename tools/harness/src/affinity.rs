//! Which processors other processes may run on: all of their threads, those that they start later included.

use amita_terminal::error::{Context, Result};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Keeps all threads of a process on these processors.
///
/// # Errors
/// When there is no such process, or no such processor.
pub fn keep_on(pid: u32, cpus: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU) {
        set.set(cpu);
    }
    let folder = format!("/proc/{pid}/task");
    // Twice: a thread that another one started meanwhile may have been missed.
    for _ in 0..2 {
        for task in std::fs::read_dir(&folder).context(|| format!("cannot read {folder}"))? {
            let Ok(task) = task else { continue };
            let number = task.file_name().to_string_lossy().parse().ok();
            let Some(thread) = number.and_then(rustix::thread::Pid::from_raw) else {
                continue;
            };
            match sched_setaffinity(Some(thread), &set) {
                // It has ended meanwhile.
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                failed => failed.context(|| format!("cannot keep process {pid} on processors {cpus:?}"))?,
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::keep_on;
    use std::process::Command;

    #[test]
    fn a_process_stays_where_it_is_told() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
        let cpu = amita_reactor::core::allowed_cpus()[0];
        let kept = keep_on(child.id(), &[cpu]);
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("its status");
        child.kill().expect("killed");
        child.wait().expect("ended");
        kept.expect("kept");
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        assert_eq!(list.map(str::trim), Some(cpu.to_string().as_str()));
        assert!(keep_on(child.id(), &[cpu]).is_err(), "it has ended");
    }
}
