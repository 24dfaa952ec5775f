//! Stock tools: found, run to their end with a limit, their output kept.

use crate::process::{Process, dying_with_us};
use amita_terminal::error::{Failure, Result};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

/// Where tools lie that an ordinary user's PATH may lack.
const SYSTEM_FOLDERS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/bin"];

/// What a tool printed and how it ended.
#[derive(Debug)]
pub struct Output {
    /// The program.
    pub name: String,
    pub status: ExitStatus,
    /// Standard output and standard error, as they came.
    pub text: String,
}

impl Output {
    /// # Errors
    /// When the tool ended otherwise than with 0; with the end of what it said.
    pub fn success(self) -> Result<Output> {
        if self.status.success() {
            return Ok(self);
        }
        let lines: Vec<&str> = self.text.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines[lines.len().saturating_sub(12)..].join("\n  ");
        Err(Failure::new(format!(
            "{} ended with {}:\n  {last}",
            self.name, self.status
        )))
    }
}

/// The path of a tool.
///
/// # Errors
/// Names the Debian package when it is not installed.
pub fn find(name: &str) -> Result<PathBuf> {
    if name.contains('/') {
        return Ok(PathBuf::from(name));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SYSTEM_FOLDERS.iter().map(PathBuf::from));
    for folder in folders {
        let candidate = folder.join(name);
        if candidate.is_file() {
            return Ok(candidate);
        }
    }
    let package = match name {
        "fio" => "fio",
        "nbdcopy" | "nbdinfo" => "libnbd-bin",
        "mke2fs" | "e2fsck" => "e2fsprogs",
        "qemu-img" | "qemu-io" => "qemu-utils",
        "iscsi-ls" | "iscsi-inq" | "iscsi-test-cu" => "libiscsi-bin",
        "etcd" => "etcd-server",
        "certtool" => "gnutls-bin",
        "setpriv" => "util-linux",
        other => other,
    };
    Err(
        Failure::new(format!("the tool {name} is not installed")).advice(format!(
            "Install it (on Debian: apt-get install {package}), then run this again."
        )),
    )
}

/// Runs a tool to its end. What it prints goes to a file in `folder`, and comes back as text.
///
/// # Errors
/// When the tool is not installed, cannot be started, takes longer than `limit` (it is killed then), or this process
/// was told to end. How the tool ended is not judged: see [`Output::success`].
pub fn run<S: AsRef<std::ffi::OsStr>>(
    folder: &Path,
    name: &str,
    arguments: impl IntoIterator<Item = S>,
    limit: Duration,
) -> Result<Output> {
    let mut tool = start(folder, name, arguments)?;
    let status = tool.wait(limit)?;
    let text = std::fs::read_to_string(tool.log()).unwrap_or_default();
    // It is in the text; many files of tools that ended well would hide the logs that matter.
    let _ = std::fs::remove_file(tool.log());
    Ok(Output {
        name: tool.name().to_owned(),
        status,
        text,
    })
}

/// Starts a tool, and leaves it running under its guard.
///
/// # Errors
/// When the tool is not installed or cannot be started.
pub fn start<S: AsRef<std::ffi::OsStr>>(
    folder: &Path,
    name: &str,
    arguments: impl IntoIterator<Item = S>,
) -> Result<Process> {
    let program = find(name)?;
    find("setpriv")?;
    let mut command = dying_with_us(&program);
    command.args(arguments).current_dir(folder);
    let short = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Process::spawn(&short, command, &fresh_log(folder, &short))
}

/// A name for a log that does not exist yet.
fn fresh_log(folder: &Path, name: &str) -> PathBuf {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    folder.join(format!("{name}-{}-{number}.log", std::process::id()))
}
