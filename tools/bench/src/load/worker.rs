//! The load generator's side: one core of the client library, in this thread.

use crate::load::plan::{Arrivals, Ios};
use crate::load::protocol::{Answer, Command, Job, Outcome};
use amita::cli::Endpoints;
use amita_client::{Config, Done, Local, Protection, Slice, Volume};
use amita_terminal::error::{Context, Failure, Result};
use amita_testkit::Random;
use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

/// How long it sleeps at most while nobody tells it anything: the client must be called some ten times a second.
const NAP: Duration = Duration::from_millis(20);
/// Under way at once at most, where a rate is asked for: what is more waits its turn, and its waiting counts.
const MAX_OPEN: usize = 512;
/// Different buffers that writes take their data from.
const BUFFERS: usize = 16;
/// Bytes of one I/O, and I/Os at once, when a volume is filled.
const FILL_BYTES: u32 = 128 << 10;
const FILL_DEPTH: u32 = 16;

/// What the process is told at its start.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Its name in the cluster
    #[arg(long)]
    pub name: String,
    /// Where the nodes reach it
    #[arg(long)]
    pub fabric: SocketAddr,
    /// Where the metadata is
    #[arg(long, value_name = "http://HOST:PORT[,...]")]
    pub metadata: String,
    /// The folder of its identity
    #[arg(long, value_name = "DIR")]
    pub identity: Option<PathBuf>,
    /// What protects its links
    #[arg(long, default_value_t = Protection::Auth)]
    pub links: Protection,
    /// A store in this very process
    #[arg(long = "store")]
    pub stores: Vec<PathBuf>,
    /// Memory for I/O
    #[arg(long, default_value = "256M", value_parser = amita_terminal::size::parse_blocks)]
    pub buffers: u64,
}

/// Serves the benchmark until its standard input ends.
///
/// # Errors
/// When the cluster cannot be reached, or an I/O fails: it is told to the benchmark as well.
pub fn run(arguments: &Arguments) -> Result<()> {
    let result = serve(arguments);
    if let Err(failure) = &result {
        // Whoever should hear it may be gone.
        let _ = say(&Answer::Failed(failure.to_string()));
    }
    result
}

fn serve(arguments: &Arguments) -> Result<()> {
    let mut config = Config::new(Endpoints::of(&arguments.metadata).list()?);
    config.name = Some(arguments.name.clone());
    config.fabric = Some(arguments.fabric);
    config.identity.clone_from(&arguments.identity);
    config.links = arguments.links;
    config.stores.clone_from(&arguments.stores);
    config.buffer_bytes = usize::try_from(arguments.buffers).unwrap_or(usize::MAX);
    let local = Local::connect(&config).context(|| "cannot join the cluster".to_owned())?;
    let mut worker = Worker {
        local,
        volumes: Vec::new(),
        done: Vec::with_capacity(MAX_OPEN),
    };
    say(&Answer::Ready)?;
    let commands = commands();
    loop {
        match commands.try_recv() {
            Ok(command) => worker.obey(command?)?,
            Err(TryRecvError::Empty) => worker.local.wait(NAP, &mut worker.done),
            Err(TryRecvError::Disconnected) => break,
        }
    }
    worker.local.close();
    Ok(())
}

/// Commands, read by a thread of their own: the client must be called while nobody says anything.
fn commands() -> Receiver<Result<Command>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let command = line
                .context(|| "cannot read a command".to_owned())
                .and_then(|line| serde_json::from_str(&line).context(|| format!("not a command: {line:?}")));
            if sender.send(command).is_err() {
                return;
            }
        }
    });
    receiver
}

fn say(answer: &Answer) -> Result<()> {
    let line = serde_json::to_string(answer).context(|| "cannot write JSON".to_owned())?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .context(|| "cannot answer".to_owned())
}

struct Worker {
    local: Local,
    volumes: Vec<Volume>,
    done: Vec<Done>,
}

/// An I/O under way.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    volume: usize,
    read: bool,
    /// Since the run began.
    start_ns: u64,
}

impl Worker {
    fn obey(&mut self, command: Command) -> Result<()> {
        match command {
            Command::Open(names) => {
                self.volumes.clear();
                for name in names {
                    let volume = self
                        .local
                        .open(&name)
                        .context(|| format!("cannot open volume {name}"))?;
                    self.volumes.push(volume);
                }
                say(&Answer::Ready)
            }
            Command::Fill { size_bytes } => {
                let blocks = size_bytes / u64::from(FILL_BYTES) * self.volumes.len() as u64;
                let job = Job {
                    mix: crate::case::Mix::Write,
                    order: crate::case::Order::Sequential,
                    block_bytes: FILL_BYTES,
                    depth: FILL_DEPTH,
                    size_bytes,
                    ramp_seconds: 0.0,
                    seconds: 3600.0,
                    rate: None,
                    ios: Some(blocks),
                    seed: 1,
                };
                Run::new(self, &job)?.go(&mut |_| Ok(()))?;
                say(&Answer::Ready)
            }
            Command::Run(job) => {
                let outcome = Run::new(self, &job)?.go(&mut |answer| say(&answer))?;
                say(&Answer::Done(outcome))
            }
        }
    }
}

/// One run.
struct Run<'a> {
    worker: &'a mut Worker,
    job: &'a Job,
    ios: Vec<Ios>,
    data: Vec<Slice>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    started: u64,
    begin: Instant,
    outcome: Outcome,
}

impl<'a> Run<'a> {
    fn new(worker: &'a mut Worker, job: &'a Job) -> Result<Run<'a>> {
        let volumes = worker.volumes.len();
        if volumes == 0 {
            return Err(Failure::new("no volume is open"));
        }
        if let Some(small) = worker
            .volumes
            .iter()
            .find(|volume| volume.size_bytes() < job.size_bytes)
        {
            return Err(Failure::new(format!(
                "a volume has {} bytes, and the region {}",
                small.size_bytes(),
                job.size_bytes
            )));
        }
        let slots = if job.rate.is_some() {
            MAX_OPEN
        } else {
            job.depth as usize * volumes
        };
        let tenths = if job.ios.is_some() {
            0
        } else {
            (job.seconds * 10.0) as usize
        };
        Ok(Run {
            ios: (0..volumes).map(|volume| Ios::new(job, volume as u64)).collect(),
            data: data(worker, job)?,
            slots: vec![Slot::default(); slots],
            free: (0..slots).rev().collect(),
            started: 0,
            begin: Instant::now(),
            outcome: Outcome {
                tenths: vec![0; tenths],
                ..Outcome::default()
            },
            worker,
            job,
        })
    }

    fn now_ns(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }

    /// Starts an I/O; there is a free slot.
    fn start(&mut self, volume: usize, start_ns: u64) -> Result<()> {
        let Some(slot) = self.free.pop() else {
            return Err(Failure::new("more I/Os than places for them"));
        };
        let io = self.ios[volume].draw();
        self.slots[slot] = Slot {
            volume,
            read: io.read,
            start_ns,
        };
        self.started += 1;
        let (local, target) = (&mut self.worker.local, &self.worker.volumes[volume]);
        let begun = if io.read {
            local.read(target, io.offset, self.job.block_bytes, slot as u64)
        } else {
            let data = self.data[self.started as usize % self.data.len()].clone();
            local.write(target, io.offset, data, slot as u64)
        };
        begun.context(|| format!("cannot start an I/O at {}", io.offset))
    }

    /// Runs to the end of its time, or of its I/Os; what is under way then is waited for.
    fn go(mut self, say: &mut dyn FnMut(Answer) -> Result<()>) -> Result<Outcome> {
        let ramp_ns = (self.job.ramp_seconds * 1e9) as u64;
        let end_ns = ramp_ns + (self.job.seconds * 1e9) as u64;
        let limit = self.job.ios.unwrap_or(u64::MAX);
        let mut arrivals = self.job.rate.map(|rate| Arrivals::new(rate, self.job.seed));
        let (mut begun, mut ended) = (false, false);
        let mut counted_from = 0;
        if arrivals.is_none() {
            for index in 0..self.slots.len() {
                if self.started < limit {
                    self.start(index % self.ios.len(), 0)?;
                }
            }
        }
        loop {
            let mut done = std::mem::take(&mut self.worker.done);
            done.clear();
            if arrivals.is_some() && !ended {
                // The next one is due any moment, and a sleep is late by more than an I/O takes.
                self.worker.local.poll(&mut done);
                if done.is_empty() {
                    std::thread::yield_now();
                }
            } else {
                self.worker.local.wait(NAP, &mut done);
            }
            let now_ns = self.now_ns();
            let in_time = now_ns < end_ns;
            if !begun && now_ns >= ramp_ns {
                (begun, counted_from) = (true, now_ns);
                say(Answer::Begun)?;
            }
            for one in done.drain(..) {
                let slot = one.tag as usize;
                if let Err(error) = one.result {
                    return Err(Failure::new(format!("an I/O failed: {error}")));
                }
                self.worker.local.recycle(one.payload);
                let Slot { volume, read, start_ns } = self.slots[slot];
                self.free.push(slot);
                // By the clock, all that were to start in the measured time count, however late they end.
                let counts = if arrivals.is_some() {
                    start_ns >= ramp_ns
                } else {
                    begun && in_time
                };
                if counts {
                    self.count(read, now_ns.saturating_sub(start_ns));
                    let tenth = (now_ns.saturating_sub(ramp_ns) / 100_000_000) as usize;
                    if let Some(tenth) = self.outcome.tenths.get_mut(tenth) {
                        *tenth += 1;
                    }
                }
                if arrivals.is_none() && in_time && self.started < limit {
                    self.start(volume, now_ns)?;
                }
            }
            self.worker.done = done;
            if let Some(arrivals) = &mut arrivals {
                while in_time && arrivals.due_ns() <= now_ns && !self.free.is_empty() {
                    let volume = self.started as usize % self.ios.len();
                    self.start(volume, arrivals.due_ns())?;
                    arrivals.advance();
                }
            }
            let idle = self.free.len() == self.slots.len();
            if !ended && (!in_time || (self.started >= limit && idle)) {
                ended = true;
                self.outcome.seconds = (now_ns - counted_from) as f64 / 1e9;
                say(Answer::Ended)?;
                if let Some(arrivals) = &mut arrivals {
                    self.unserved(arrivals, end_ns);
                }
            }
            if ended && idle {
                return Ok(self.outcome);
            }
        }
    }

    fn count(&mut self, read: bool, ns: u64) {
        if read {
            self.outcome.read.record(ns);
        } else {
            self.outcome.write.record(ns);
        }
    }

    /// Those that were due and could not be started have waited until the end at least.
    fn unserved(&mut self, arrivals: &mut Arrivals, end_ns: u64) {
        while arrivals.due_ns() < end_ns {
            let read = self.ios[0].draw().read;
            self.count(read, end_ns - arrivals.due_ns());
            self.outcome.unserved += 1;
            arrivals.advance();
        }
    }
}

/// What writes write: buffers of the client's own memory, filled once with what cannot be compressed.
fn data(worker: &mut Worker, job: &Job) -> Result<Vec<Slice>> {
    if job.mix.read_percent() == 100 {
        return Ok(Vec::new());
    }
    let mut random = Random::new(job.seed);
    let mut all = Vec::with_capacity(BUFFERS);
    for _ in 0..BUFFERS {
        let mut buffer = worker
            .local
            .buffer(job.block_bytes as usize)
            .ok_or_else(|| Failure::new("no memory left for the data of writes: give more with --buffers"))?;
        for eight in buffer.chunks_exact_mut(8) {
            eight.copy_from_slice(&random.bits().to_le_bytes());
        }
        all.push(buffer.freeze());
    }
    Ok(all)
}
