//! Which machine this is: what a figure is worth nothing without.

use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::{Command, Stdio};

/// Facts of the machine and of what was measured on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// Linux's release.
    pub kernel: String,
    /// Memory in GiB.
    pub memory_gib: f64,
    /// `kvm`, `none`; `unknown` where nobody says.
    pub virtualization: String,
    /// The version of the program.
    pub version: String,
    /// The commit of the folder that it was run in, with `+` where something was changed; empty outside of one.
    pub commit: String,
    /// Seconds since 1970.
    pub time: u64,
}

impl Machine {
    /// This one, now.
    #[must_use]
    pub fn here() -> Machine {
        let info = rustix::system::sysinfo();
        let memory = (info.totalram as u64).saturating_mul(u64::from(info.mem_unit)) as f64;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Machine {
            cpu: processor(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
            cores: amita_reactor::core::allowed_cpus().len(),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            memory_gib: (memory / f64::from(1 << 30) * 10.0).round() / 10.0,
            virtualization: virtualization(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: commit(),
            time: now.map(|time| time.as_secs()).unwrap_or_default(),
        }
    }

    /// Machines of one kind have this in common; fit for a file's name.
    #[must_use]
    pub fn kind(&self) -> String {
        let text = format!("{} {} cores {}", self.cpu, self.cores, self.virtualization).to_lowercase();
        let text = text.replace("(r)", "").replace("(tm)", "");
        let words = text
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join("-")
    }

    /// In words.
    #[must_use]
    pub fn describe(&self) -> String {
        let commit = if self.commit.is_empty() {
            String::new()
        } else {
            format!(" ({})", self.commit)
        };
        format!(
            "{}, {} cores, {} GiB, Linux {}, virtualization: {}; amita {}{commit}",
            self.cpu, self.cores, self.memory_gib, self.kernel, self.virtualization, self.version
        )
    }
}

fn processor(cpuinfo: &str) -> String {
    let lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let name = lines.into_iter().find(|(key, _)| key.trim() == "model name");
    name.map_or_else(|| "unknown processor".to_owned(), |(_, name)| name.trim().to_owned())
}

/// What a command prints, if it is there and ends well.
fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let output = output.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn virtualization() -> String {
    // It ends with 1 where it says "none".
    let output = Command::new("systemd-detect-virt")
        .arg("--vm")
        .stderr(Stdio::null())
        .output();
    let told = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    if let Some(told) = told.ok().filter(|told| !told.is_empty()) {
        return told;
    }
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let guest = cpuinfo.contains(" hypervisor");
    match guest {
        true if Path::new("/dev/kvm").exists() || kvm_clock() => "kvm",
        true => "unknown hypervisor",
        false => "none",
    }
    .to_owned()
}

fn kvm_clock() -> bool {
    let path = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    std::fs::read_to_string(path).is_ok_and(|text| text.contains("kvm-clock"))
}

fn commit() -> String {
    let Some(commit) = said("git", &["rev-parse", "--short", "HEAD"]) else {
        return String::new();
    };
    let changed = said("git", &["status", "--porcelain", "--untracked-files=no"]);
    let mark = if changed.is_none_or(|text| text.is_empty()) {
        ""
    } else {
        "+"
    };
    format!("{commit}{mark}")
}

#[cfg(test)]
mod tests;
