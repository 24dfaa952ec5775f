//! The benchmark's side: starts a load generator, tells it, and hears it.

use crate::load::protocol::{Answer, Command, Job, Outcome};
use crate::usage::Watched;
use amita_harness::cluster::{Cluster, Links};
use amita_harness::process::dying_with_us;
use amita_harness::{affinity, ports};
use amita_identity::Role;
use amita_terminal::error::{Context, Failure, Result};
use amita_terminal::interrupt;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long it may take beyond a run's own time.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long it may take to end, when it is asked to.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// A load generator that runs; it ends with this.
#[derive(Debug)]
pub struct Driver {
    name: String,
    child: Child,
    commands: Option<ChildStdin>,
    answers: Receiver<String>,
    log: PathBuf,
}

impl Driver {
    /// Starts one that has joined the cluster, with these stores in its process.
    ///
    /// # Errors
    /// When it does not connect: with its last words.
    pub fn start(name: &str, cluster: &Cluster, stores: &[PathBuf]) -> Result<Driver> {
        let log = cluster.folder().join(format!("{name}.log"));
        let said = File::create(&log).context(|| format!("cannot make {}", log.display()))?;
        let mut command = dying_with_us(&amita::own_binary()?);
        let fabric = SocketAddr::from(([127, 0, 0, 1], ports::free()));
        command.args(["load-generator", "--name", name, "--metadata", cluster.endpoint()]);
        command.args(["--fabric", &fabric.to_string()]);
        let role = if stores.is_empty() { Role::Gateway } else { Role::Node };
        if let Some(identity) = cluster.identity(role, name)? {
            command.arg("--identity").arg(identity);
        }
        if cluster.links() == Links::Secret {
            command.args(["--links", "secret"]);
        }
        for store in stores {
            command.arg("--store").arg(store);
        }
        let doing = || format!("cannot start the load generator {name}");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(said)
            .spawn()
            .context(doing)?;
        let (commands, output) = (child.stdin.take(), child.stdout.take());
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            let lines = output.into_iter().flat_map(|output| BufReader::new(output).lines());
            for line in lines.map_while(std::result::Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut driver = Driver {
            name: name.to_owned(),
            child,
            commands,
            answers,
            log,
        };
        driver.expect(&Answer::Ready, PATIENCE)?;
        Ok(driver)
    }

    /// The process.
    #[must_use]
    pub fn watched(&self) -> Watched {
        Watched {
            name: "client".to_owned(),
            pid: self.child.id(),
        }
    }

    /// Keeps it on these processors.
    ///
    /// # Errors
    /// When it has ended.
    pub fn keep_on(&self, cpus: &[usize]) -> Result<()> {
        affinity::keep_on(self.child.id(), cpus)
    }

    /// Opens volumes, in place of those that are open.
    ///
    /// # Errors
    /// When one cannot be opened.
    pub fn open(&mut self, volumes: &[String]) -> Result<()> {
        self.tell(&Command::Open(volumes.to_vec()))?;
        self.expect(&Answer::Ready, PATIENCE)
    }

    /// Writes each block of the regions once.
    ///
    /// # Errors
    /// When an I/O fails.
    pub fn fill(&mut self, size_bytes: u64) -> Result<()> {
        self.tell(&Command::Fill { size_bytes })?;
        self.expect(&Answer::Ready, 5 * PATIENCE)
    }

    /// Starts a run.
    ///
    /// # Errors
    /// When it has ended.
    pub fn run(&mut self, job: &Job) -> Result<()> {
        self.tell(&Command::Run(job.clone()))
    }

    /// Waits until the measured time begins, at most for this and some patience.
    ///
    /// # Errors
    /// When it does not begin.
    pub fn begun(&mut self, limit: Duration) -> Result<()> {
        self.expect(&Answer::Begun, limit + PATIENCE)
    }

    /// Waits until the measured time is over.
    ///
    /// # Errors
    /// When an I/O fails, or it takes too long.
    pub fn ended(&mut self, limit: Duration) -> Result<()> {
        self.expect(&Answer::Ended, limit + PATIENCE)
    }

    /// What it came to.
    ///
    /// # Errors
    /// When an I/O fails, or it takes too long.
    pub fn outcome(&mut self) -> Result<Outcome> {
        match self.answer(PATIENCE)? {
            Answer::Done(outcome) => Ok(outcome),
            other => Err(self.unexpected(&other)),
        }
    }

    fn tell(&mut self, command: &Command) -> Result<()> {
        let line = serde_json::to_string(command).context(|| "cannot write JSON".to_owned())?;
        let told = match &mut self.commands {
            Some(commands) => writeln!(commands, "{line}").and_then(|()| commands.flush()),
            None => Ok(()),
        };
        told.map_err(|error| self.failed(&format!("cannot be told what to do ({error})")))
    }

    fn expect(&mut self, expected: &Answer, limit: Duration) -> Result<()> {
        let answer = self.answer(limit)?;
        if answer == *expected {
            Ok(())
        } else {
            Err(self.unexpected(&answer))
        }
    }

    fn answer(&mut self, limit: Duration) -> Result<Answer> {
        let until = Instant::now() + limit;
        loop {
            interrupt::check()?;
            match self.answers.recv_timeout(Duration::from_millis(50)) {
                Ok(line) => {
                    return match serde_json::from_str(&line) {
                        Ok(Answer::Failed(why)) => Err(self.failed(&why)),
                        Ok(answer) => Ok(answer),
                        Err(_) => Err(self.failed(&format!("said {line:?}"))),
                    };
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() < until => {}
                Err(RecvTimeoutError::Timeout) => {
                    return Err(self.failed(&format!("does not answer within {} s", limit.as_secs())));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.failed("has ended")),
            }
        }
    }

    fn unexpected(&self, answer: &Answer) -> Failure {
        self.failed(&format!("answers {answer:?} out of turn"))
    }

    fn failed(&self, what: &str) -> Failure {
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        let last = lines[lines.len().saturating_sub(8)..].join("\n  ");
        Failure::new(format!("the load generator {} {what}\n  {last}", self.name))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The end of its input is its sign to end: it gives its volumes back then.
        self.commands = None;
        let until = Instant::now() + STOP_PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        // It may have ended: then there is nobody to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
