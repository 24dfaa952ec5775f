//! A machine with a stock Debian kernel under emulation, to meet a gateway with the host software that people run.
//!
//! `tests/guest/run` boots it (see there, and `docs/testing.md`) and stays as the emulator's process. An agent in the
//! guest runs scripts for us, several at a time if need be; it speaks over a virtio-serial port, which is a Unix socket on
//! this side, so that the network under test has no part in it. What listens on this machine's 127.0.0.1 is at [`US`] in
//! the guest, what listens on an address of [`shared`] is at the same address.

use crate::process::{Process, dying_with_us};
use crate::tool::Output;
use amita_terminal::error::{Context, Failure, Result};
use amita_terminal::interrupt;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// This machine's loopback, as the guest sees it.
pub const US: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 2, 2));
/// An address of this machine's that is the same in the guest: 127.0.1.`number`. A gateway that is to be found by what it
/// says of itself, in a discovery log, listens there.
#[must_use]
pub fn shared(number: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(127, 0, 1, number))
}

/// How long a boot may take. It takes five seconds on an idle machine; the image may have to be built first.
const BOOT_PATIENCE: Duration = Duration::from_secs(300);
/// How often an emulator that aborts is started.
const BOOTS: usize = 4;
/// How often a waiting thread looks whether this process was told to end, or the emulator is gone.
const LOOK: Duration = Duration::from_millis(100);
/// The most bytes of one frame of the agent's.
const FRAME_LIMIT: usize = 1 << 20;
/// The most output of one command that is kept. What comes after it is dropped, which the output says.
const OUTPUT_LIMIT: usize = 16 << 20;
/// The bytes before a frame's data: kind, number of the command, length (see `tests/guest/agent`).
const HEADER_BYTES: usize = 9;

/// What guest is wanted.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its host name. Its host NQN comes from it, so two guests with different names are two hosts.
    pub name: String,
    /// Virtual processors.
    pub cpus: u32,
    /// Memory. Whatever is written in the guest is in there as well.
    pub memory_mib: u32,
    /// Ports of this machine's 127.0.0.1 that lead to ports of the guest.
    pub forwards: Vec<(u16, u16)>,
    /// Files of this machine that are SATA disks of the guest: `/dev/sda` and on, once `ahci` and `sd_mod` are loaded there.
    pub sata: Vec<PathBuf>,
    /// Folders of this machine that are at the same path in the guest.
    pub shares: Vec<PathBuf>,
    /// For its socket and its logs.
    pub folder: PathBuf,
}

impl Config {
    /// A small guest.
    #[must_use]
    pub fn new(name: &str, folder: &Path) -> Config {
        Config {
            name: name.to_owned(),
            cpus: 2,
            memory_mib: 1024,
            forwards: Vec::new(),
            sata: Vec::new(),
            shares: Vec::new(),
            folder: folder.to_owned(),
        }
    }
}

/// A running guest. It is killed when this is dropped, and when the thread that booted it ends.
#[derive(Debug)]
pub struct Guest {
    name: String,
    console: PathBuf,
    process: Process,
    socket: UnixStream,
    commands: Arc<Commands>,
    reader: Option<JoinHandle<()>>,
}

/// What is known of the commands that were sent, shared with the thread that reads the channel.
#[derive(Debug, Default)]
struct Commands {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    ready: bool,
    gone: bool,
    next: u32,
    known: HashMap<u32, Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    output: Vec<u8>,
    status: Option<i32>,
}

impl Commands {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is whole between any two statements: a thread that panicked left nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, kind: u8, number: u32, data: &[u8]) {
        let mut state = self.lock();
        match kind {
            b'H' => state.ready = true,
            b'O' => {
                if let Some(progress) = state.known.get_mut(&number) {
                    let room = OUTPUT_LIMIT.saturating_sub(progress.output.len());
                    progress.output.extend_from_slice(&data[..data.len().min(room)]);
                }
            }
            b'E' => {
                if let (Some(progress), Ok(bytes)) = (state.known.get_mut(&number), data.try_into()) {
                    progress.status = Some(i32::from_le_bytes(bytes));
                }
            }
            _ => state.gone = true,
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Reads until the channel ends.
    fn read(&self, socket: &mut UnixStream) {
        let mut header = [0; HEADER_BYTES];
        let mut data = Vec::new();
        while socket.read_exact(&mut header).is_ok() {
            let [kind, n0, n1, n2, n3, l0, l1, l2, l3] = header;
            let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
            if length > FRAME_LIMIT {
                break;
            }
            data.resize(length, 0);
            if socket.read_exact(&mut data).is_err() {
                break;
            }
            self.take(kind, u32::from_le_bytes([n0, n1, n2, n3]), &data);
        }
        self.lock().gone = true;
        self.changed.notify_all();
    }
}

/// The folder with the scripts that make guests.
fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/guest")
}

/// The folder of what guests are made from (see `tests/guest/build`): the emulator, the kernel, the first root.
///
/// # Errors
/// When it is not there and cannot be built.
pub fn files() -> Result<PathBuf> {
    let build = scripts().join("build");
    let output = std::process::Command::new(&build)
        .output()
        .context(|| format!("cannot run {}", build.display()))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::new(format!("{} failed:\n{words}", build.display())));
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

/// The emulator that guests run on, ready for arguments, with no machine yet: for what QEMU does with images and servers without one.
/// It is killed when the thread that starts it ends.
///
/// # Errors
/// As of [`files`].
pub fn emulator() -> Result<std::process::Command> {
    let tools = files()?.join("tools");
    let mut command = dying_with_us(&tools.join("lib64/ld-linux-x86-64.so.2"));
    command
        .arg("--library-path")
        .arg(tools.join("usr/lib/x86_64-linux-gnu"));
    command.arg(tools.join("usr/bin/qemu-system-x86_64"));
    command.args(["-nodefaults", "-no-user-config", "-display", "none"]);
    Ok(command)
}

/// Does this say that the emulator found a fault of its own?
fn is_abort(said: &str) -> bool {
    said.contains("qemu-system-x86_64: ") && said.contains("Assertion `")
}

impl Guest {
    /// Boots a guest, and waits until it takes commands. An emulator that aborts meanwhile is started again: QEMU 7.2 does so at times with
    /// several processors, while the guest's kernel lays out its devices (`iotlb_to_section`).
    ///
    /// # Errors
    /// When it does not come up: with what its console and the emulator said.
    pub fn boot(config: &Config) -> Result<Guest> {
        for _ in 1..BOOTS {
            match Guest::boot_once(config) {
                Err(why) if is_abort(&why.to_string()) => println!("the emulator is started again: {why}"),
                other => return other,
            }
        }
        Guest::boot_once(config)
    }

    fn boot_once(config: &Config) -> Result<Guest> {
        let path = config.folder.join(format!("{}.agent", config.name));
        let console = config.folder.join(format!("{}.console", config.name));
        let mut command = dying_with_us(&scripts().join("run"));
        command.args(["--name", &config.name]);
        command.args([
            "--cpus",
            &config.cpus.to_string(),
            "--memory",
            &config.memory_mib.to_string(),
        ]);
        for (here, there) in &config.forwards {
            command.arg("--forward").arg(format!("{here}:{there}"));
        }
        for (name, paths) in [("--sata", &config.sata), ("--share", &config.shares)] {
            for path in paths {
                command.arg(name).arg(path);
            }
        }
        command.arg("--console").arg(&console).arg("--agent").arg(&path);
        let log = config.folder.join(format!("{}.log", config.name));
        let mut process = Process::spawn(&config.name, command, &log)?;

        let until = Instant::now() + BOOT_PATIENCE;
        let socket = interrupt::poll(BOOT_PATIENCE, LOOK, || match process.ended()? {
            Some(status) => Err(Failure::new(format!(
                "the guest {} did not start, its emulator ended with {status}:\n  {}",
                config.name,
                process.last_words()
            ))),
            None => Ok(UnixStream::connect(&path).ok()),
        })?
        .ok_or_else(|| {
            Failure::new(format!(
                "the guest {} has no channel: {}",
                config.name,
                process.last_words()
            ))
        })?;
        let mut reading = socket
            .try_clone()
            .context(|| "cannot open the channel to the guest twice".to_owned())?;
        let commands = Arc::new(Commands::default());
        let reader = {
            let commands = Arc::clone(&commands);
            std::thread::spawn(move || commands.read(&mut reading))
        };
        let guest = Guest {
            name: config.name.clone(),
            console,
            process,
            socket,
            commands,
            reader: Some(reader),
        };
        let booted = guest.wait_until(until, |state| state.ready.then_some(()))?;
        booted.ok_or_else(|| {
            Failure::new(format!(
                "the guest {} did not come up within {} s; its console:\n  {}",
                guest.name,
                BOOT_PATIENCE.as_secs(),
                guest.console_end(30)
            ))
        })?;
        Ok(guest)
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The last lines of what its kernel said.
    #[must_use]
    pub fn console_end(&self, lines: usize) -> String {
        let text = std::fs::read(&self.console).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n  ")
    }

    /// Waits for something to be so; `None` when the time is over.
    fn wait_until<T>(&self, until: Instant, mut look: impl FnMut(&mut State) -> Option<T>) -> Result<Option<T>> {
        let mut state = self.commands.lock();
        loop {
            if let Some(found) = look(&mut state) {
                return Ok(Some(found));
            }
            if state.gone {
                drop(state);
                return Err(Failure::new(format!(
                    "the guest {} is gone; its console:\n  {}\nand its emulator:\n  {}",
                    self.name,
                    self.console_end(30),
                    self.process.last_words()
                )));
            }
            interrupt::check()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            state = self
                .commands
                .changed
                .wait_timeout(state, left.min(LOOK))
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    fn send(&self, kind: u8, number: u32, data: &[u8]) -> Result<()> {
        let length = u32::try_from(data.len()).context(|| "a script is too long".to_owned())?;
        let mut frame = Vec::with_capacity(HEADER_BYTES + data.len());
        frame.push(kind);
        frame.extend_from_slice(&number.to_le_bytes());
        frame.extend_from_slice(&length.to_le_bytes());
        frame.extend_from_slice(data);
        (&self.socket)
            .write_all(&frame)
            .context(|| format!("cannot send to the guest {}", self.name))
    }

    /// Starts a script of bash, as root. It goes on by itself; see [`Running`].
    ///
    /// # Errors
    /// When the guest is gone.
    pub fn start(&self, script: &str) -> Result<Running<'_>> {
        let number = {
            let mut state = self.commands.lock();
            let number = state.next;
            state.next += 1;
            state.known.insert(number, Progress::default());
            number
        };
        let running = Running {
            guest: self,
            number,
            script: script.to_owned(),
        };
        self.send(b'R', number, script.as_bytes())?;
        Ok(running)
    }

    /// Runs a script of bash to its end, as root. How it ended is not judged: see [`Output::success`].
    ///
    /// # Errors
    /// When it takes longer than `limit` (it is killed then), or the guest is gone.
    pub fn run(&self, script: &str, limit: Duration) -> Result<Output> {
        self.start(script)?.wait(limit)
    }

    /// Waits for the end of the machine, which comes by itself when what runs in it turns it off, or has it start anew.
    ///
    /// # Errors
    /// When it goes on for longer than `limit`: with the last words of its console.
    pub fn await_end(&self, limit: Duration) -> Result<()> {
        let until = Instant::now() + limit;
        let mut state = self.commands.lock();
        while !state.gone {
            interrupt::check()?;
            if Instant::now() >= until {
                drop(state);
                return Err(Failure::new(format!(
                    "the guest {} did not end within {} s; its console:\n  {}",
                    self.name,
                    limit.as_secs(),
                    self.console_end(30)
                )));
            }
            state = self
                .commands
                .changed
                .wait_timeout(state, LOOK)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        Ok(())
    }

    /// Kills it, as a power cut would.
    pub fn kill(&mut self) {
        self.process.kill();
        if let Some(reader) = self.reader.take() {
            // It ends with the channel. It cannot have panicked in a way that matters here.
            let _ = reader.join();
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A command that runs in a guest. It is killed when this is dropped.
#[derive(Debug)]
pub struct Running<'a> {
    guest: &'a Guest,
    number: u32,
    script: String,
}

impl Running<'_> {
    /// What it has printed so far.
    #[must_use]
    pub fn so_far(&self) -> String {
        let state = self.guest.commands.lock();
        let progress = state.known.get(&self.number);
        progress.map_or_else(String::new, |progress| text(&progress.output))
    }

    #[must_use]
    pub fn has_ended(&self) -> bool {
        let state = self.guest.commands.lock();
        state.gone
            || state
                .known
                .get(&self.number)
                .is_none_or(|progress| progress.status.is_some())
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it takes longer than `limit` (it is killed then), or the guest is gone.
    pub fn wait(self, limit: Duration) -> Result<Output> {
        let status = self.guest.wait_until(Instant::now() + limit, |state| {
            state.known.get(&self.number).and_then(|progress| progress.status)
        })?;
        let Some(status) = status else {
            return Err(Failure::new(format!(
                "in the guest {} this did not end within {} s:\n{}\nIt said:\n{}\nThe console:\n  {}",
                self.guest.name,
                limit.as_secs(),
                self.script,
                self.so_far(),
                self.guest.console_end(20)
            )));
        };
        Ok(Output {
            name: format!("guest {}: {}", self.guest.name, first_line(&self.script)),
            // As wait(2) has it: the exit status is the second byte.
            status: ExitStatus::from_raw((status & 0xff) << 8),
            text: self.so_far(),
        })
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let left = self.guest.commands.lock().known.remove(&self.number);
        if left.is_some_and(|progress| progress.status.is_none()) {
            // When the guest is gone, so is the command.
            let _ = self.guest.send(b'K', self.number, &[]);
        }
    }
}

fn text(output: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(output).into_owned();
    if output.len() >= OUTPUT_LIMIT {
        text.push_str("\n(more was printed, and dropped)");
    }
    text
}

fn first_line(script: &str) -> &str {
    script
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default()
}
