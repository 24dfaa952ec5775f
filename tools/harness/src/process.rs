//! A process under guard: it ends when its guard goes.

use amita_terminal::error::{Context, Failure, Result};
use amita_terminal::interrupt;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// How long a process that was asked to end may take before it is killed: a machine whose disk stalls for seconds fails no test.
const STOP_PATIENCE: Duration = Duration::from_secs(60);

/// A running process in a group of its own, with what it prints in a file.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: String,
    log: PathBuf,
    ended: Option<ExitStatus>,
    guarded: bool,
}

/// Starts a program by `setpriv`, which has the kernel kill it when the thread that started it ends: also when that
/// thread never got to its guards.
#[must_use]
pub fn dying_with_us(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args([
        OsStr::new("--pdeathsig"),
        OsStr::new("KILL"),
        OsStr::new("--"),
        program.as_os_str(),
    ]);
    without_settings(&mut command);
    command
}

/// What somebody has exported for another cluster is not for ours.
pub(crate) fn without_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("AMITA_") {
            command.env_remove(name);
        }
    }
}

impl Process {
    /// Starts a process; standard output and error go to the end of the file `log`.
    ///
    /// # Errors
    /// When the log cannot be opened or the program cannot be started.
    pub fn spawn(name: &str, mut command: Command, log: &Path) -> Result<Process> {
        let file = File::options()
            .create(true)
            .append(true)
            .open(log)
            .context(|| format!("cannot open the log {} of {name}", log.display()))?;
        let second = file
            .try_clone()
            .context(|| format!("cannot open the log {} twice", log.display()))?;
        command
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(second)
            .process_group(0);
        let child = command
            .spawn()
            .context(|| format!("cannot start {name} ({:?})", command.get_program()))?;
        Ok(Process {
            child,
            name: name.to_owned(),
            log: log.to_owned(),
            ended: None,
            guarded: true,
        })
    }

    /// Its name in messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where its output goes.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The end of what it has printed.
    #[must_use]
    pub fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n  ")
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// When the kernel does not know the process.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = self
                .child
                .try_wait()
                .context(|| format!("cannot ask for {}", self.name))?;
        }
        Ok(self.ended)
    }

    /// Waits for its end, at most for `limit`.
    ///
    /// # Errors
    /// When it goes on for longer, or this process was told to end.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let name = self.name.clone();
        interrupt::poll(limit, Duration::from_millis(5), || self.ended())?
            .ok_or_else(|| Failure::new(format!("{name} did not end within {} s", limit.as_secs())))
    }

    /// Sends a signal to the process alone.
    ///
    /// # Errors
    /// When it has ended already.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        if self.ended.is_some() {
            return Err(Failure::new(format!("{} has ended already", self.name)));
        }
        kill_process(pid_of(&self.child), signal).context(|| format!("cannot signal {}", self.name))
    }

    /// Kills it with its whole group, and waits for the end.
    pub fn kill(&mut self) {
        if self.ended.is_none() {
            // It may have ended in between: then there is nobody to kill, which is what is wanted.
            let _ = kill_process_group(pid_of(&self.child), Signal::KILL);
            self.ended = self.child.wait().ok();
        }
    }

    /// Asks it to end, and kills it when it takes too long. Returns how it ended.
    pub fn stop(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() && self.signal(Signal::TERM).is_ok() {
            let until = std::time::Instant::now() + STOP_PATIENCE;
            while self.ended().is_ok_and(|ended| ended.is_none()) && std::time::Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        self.kill();
        self.ended
    }

    /// Takes the guard away: the process goes on after this one.
    pub fn leave(mut self) -> u32 {
        self.guarded = false;
        self.pid()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.guarded {
            self.kill();
        }
    }
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_child(child)
}
