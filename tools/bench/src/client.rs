//! Who asks for I/O: load generators that use the client library, or fio. Either is started with a case, says when the
//! measured time begins and ends, and tells what it saw.

use crate::case::{Case, Front, Mix, Order, Placement};
use crate::load::driver::Driver;
use crate::load::protocol::{Job, Outcome};
use crate::row::{Done, Latency};
use crate::testbed::Testbed;
use crate::usage::Watched;
use amita_harness::fio;
use amita_terminal::error::{Failure, Result};
use amita_terminal::interrupt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Load before the measured time: what is cold then is warm.
const RAMP: Duration = Duration::from_millis(500);
/// What fio needs to start, by NBD or on a file, and runs on for when the measured time is over.
pub const FIO_START: Duration = Duration::from_millis(250);
const FIO_REST: Duration = Duration::from_millis(250);
/// How long fio may take beyond its own time.
const FIO_SLACK: Duration = Duration::from_secs(60);
/// Where chance begins: each run of a case does the same.
const SEED: u64 = 0xA117A;

/// A client that was told what to do.
pub enum Running<'a> {
    /// Load generators.
    Library {
        /// All do the same at the same time.
        drivers: &'a mut [Driver],
        /// How long is measured.
        time: Duration,
    },
    Fio {
        /// The process.
        running: fio::Running,
        /// When the measured time begins.
        begin: Instant,
        /// How long is measured.
        time: Duration,
    },
}

/// Where a client is to run.
#[must_use]
pub fn client_cpus(cpus: &[usize], placement: Placement) -> Vec<usize> {
    match placement {
        // On a machine with one processor that is the one.
        Placement::TwoCores => cpus.get(1).or(cpus.first()).copied().into_iter().collect(),
        Placement::OneCore => cpus.iter().copied().take(1).collect(),
        Placement::Free | Placement::Spread => cpus.to_vec(),
    }
}

/// The job of a case for a load generator.
#[must_use]
pub fn job(case: &Case, size_bytes: u64, time: Duration) -> Job {
    Job {
        mix: case.mix,
        order: case.order,
        block_bytes: case.block_bytes,
        depth: case.depth,
        size_bytes,
        ramp_seconds: RAMP.as_secs_f64(),
        seconds: time.as_secs_f64(),
        rate: case.load.map(|load| load.rate),
        ios: None,
        seed: SEED,
    }
}

/// fio's job of a case on these targets: the engine's options, once for each volume.
#[must_use]
pub fn fio_job(case: &Case, targets: &[Vec<String>], size_bytes: u64, time: Duration, cpus: &[usize]) -> fio::Job {
    let pattern = match (case.order, case.mix) {
        (Order::Random, Mix::Read) => "randread",
        (Order::Random, Mix::Write) => "randwrite",
        (Order::Random, Mix::Mixed) => "randrw",
        (Order::Sequential, Mix::Read) => "read",
        (Order::Sequential, Mix::Write) => "write",
        (Order::Sequential, Mix::Mixed) => "rw",
    };
    let cpus: Vec<String> = cpus.iter().map(ToString::to_string).collect();
    let mut more = vec![
        format!("--cpus_allowed={}", cpus.join(",")),
        "--randrepeat=1".to_owned(),
    ];
    if case.mix == Mix::Mixed {
        more.push(format!("--rwmixread={}", case.mix.read_percent()));
    }
    let mut targets = targets.iter().cloned();
    fio::Job {
        name: case.key(),
        target: targets.next().unwrap_or_default(),
        pattern,
        block_bytes: case.block_bytes,
        depth: case.depth,
        offset_bytes: 0,
        size_bytes,
        run: Some(time + FIO_REST),
        more,
        also: targets.collect(),
    }
}

impl Running<'_> {
    /// Starts load generators.
    ///
    /// # Errors
    /// When one has ended.
    pub fn library<'a>(drivers: &'a mut [Driver], job: &Job) -> Result<Running<'a>> {
        for driver in drivers.iter_mut() {
            driver.run(job)?;
        }
        Ok(Running::Library {
            drivers,
            time: Duration::from_secs_f64(job.seconds),
        })
    }

    /// Starts fio, which takes up to `start` until its first I/O.
    ///
    /// # Errors
    /// When it is not installed.
    pub fn fio(mut job: fio::Job, folder: &Path, start: Duration) -> Result<Running<'static>> {
        let before = RAMP + start;
        job.more.push(format!("--ramp_time={}ms", before.as_millis()));
        Ok(Running::Fio {
            running: job.start(folder)?,
            begin: Instant::now() + before,
            time: job.run.unwrap_or_default().saturating_sub(FIO_REST),
        })
    }

    /// The client's processes.
    #[must_use]
    pub fn watched(&self) -> Vec<Watched> {
        match self {
            Running::Library { drivers, .. } => drivers.iter().map(Driver::watched).collect(),
            Running::Fio { running, .. } => vec![Watched {
                name: "fio".to_owned(),
                pid: running.pid(),
            }],
        }
    }

    /// Waits until the measured time begins.
    ///
    /// # Errors
    /// When it does not.
    pub fn begun(&mut self) -> Result<()> {
        match self {
            Running::Library { drivers, .. } => drivers.iter_mut().try_for_each(|driver| driver.begun(RAMP)),
            Running::Fio { begin, .. } => sleep_until(*begin),
        }
    }

    /// Waits until it is over; all processes run still.
    ///
    /// # Errors
    /// When an I/O has failed.
    pub fn ended(&mut self) -> Result<()> {
        match self {
            Running::Library { drivers, time } => drivers.iter_mut().try_for_each(|driver| driver.ended(*time)),
            Running::Fio { begin, time, running } => {
                sleep_until(*begin + *time)?;
                // Before its time only a failure ends it: the report says which.
                running.has_ended().map(drop)
            }
        }
    }

    /// What it saw.
    ///
    /// # Errors
    /// When an I/O has failed, or none was done.
    pub fn finish(self, mix: Mix) -> Result<Done> {
        let done = match self {
            Running::Library { drivers, .. } => {
                let mut all = Outcome::default();
                for driver in drivers {
                    all.add(&driver.outcome()?);
                }
                done_by_library(&all)
            }
            Running::Fio { running, time, .. } => done_by_fio(&running.finish(time + FIO_SLACK)?, mix),
        };
        if done.iops <= 0.0 {
            return Err(Failure::new("no I/O was done in the measured time"));
        }
        Ok(done)
    }
}

fn sleep_until(until: Instant) -> Result<()> {
    interrupt::sleep(until.saturating_duration_since(Instant::now()))
}

fn done_by_library(outcome: &Outcome) -> Done {
    Done {
        iops: outcome.iops(),
        read: Latency::of(&outcome.read),
        write: Latency::of(&outcome.write),
        noise: outcome.noise(),
    }
}

fn done_by_fio(report: &fio::Report, mix: Mix) -> Done {
    let (read, write) = (report.read, report.write);
    let iops = read.iops + write.iops;
    let error = match mix {
        Mix::Read => read.iops_error,
        Mix::Write => write.iops_error,
        Mix::Mixed => read.iops_error + write.iops_error,
    };
    Done {
        iops,
        read: read.latency.into(),
        write: write.latency.into(),
        noise: error / iops.max(1e-9),
    }
}

/// The clients of one cluster: load generators are kept from run to run, and end when another front wants the volumes.
#[derive(Default)]
pub struct Clients {
    drivers: Vec<Driver>,
    volumes: u32,
    /// Bytes of each volume, from its start, that were written.
    filled: Vec<u64>,
    started: u32,
}

impl Clients {
    /// With a load generator that runs already, on volumes that are not filled.
    #[must_use]
    pub fn of(driver: Driver) -> Clients {
        Clients {
            drivers: vec![driver],
            ..Clients::default()
        }
    }

    /// Readies the clients for a case: volumes opened and filled, processes on their cores.
    ///
    /// # Errors
    /// When a client does not start, or an I/O fails.
    pub fn ready(&mut self, testbed: &Testbed, case: &Case, region_bytes: u64) -> Result<()> {
        testbed.place(case.placement)?;
        let names = &testbed.volumes[..case.volumes as usize];
        if case.front == Front::Nbd {
            // The volumes can have one owner.
            self.drivers.clear();
            self.volumes = 0;
            return self.fill_by_fio(testbed, names, region_bytes);
        }
        if self.drivers.is_empty() {
            self.started += 1;
            let name = format!("client-{}", self.started);
            self.drivers.push(Driver::start(&name, &testbed.cluster, &[])?);
        }
        let cpus = client_cpus(testbed.cpus(), case.placement);
        let is_new = self.is_new(names.len(), region_bytes);
        for driver in &mut self.drivers {
            driver.keep_on(&cpus)?;
            if self.volumes != case.volumes {
                driver.open(names)?;
            }
            if is_new {
                driver.fill(region_bytes)?;
            }
        }
        self.volumes = case.volumes;
        self.note_filled(names.len(), region_bytes);
        Ok(())
    }

    fn is_new(&self, volumes: usize, region_bytes: u64) -> bool {
        (0..volumes).any(|volume| self.filled.get(volume).copied().unwrap_or_default() < region_bytes)
    }

    fn note_filled(&mut self, volumes: usize, region_bytes: u64) {
        self.filled.resize(self.filled.len().max(volumes), 0);
        for filled in &mut self.filled[..volumes] {
            *filled = region_bytes.max(*filled);
        }
    }

    fn fill_by_fio(&mut self, testbed: &Testbed, names: &[String], region_bytes: u64) -> Result<()> {
        if !self.is_new(names.len(), region_bytes) {
            return Ok(());
        }
        let mut targets = nbd_targets(testbed, names).into_iter();
        let job = fio::Job {
            name: "fill".to_owned(),
            target: targets.next().unwrap_or_default(),
            pattern: "write",
            block_bytes: 128 << 10,
            depth: 16,
            offset_bytes: 0,
            size_bytes: region_bytes,
            run: None,
            more: Vec::new(),
            also: targets.collect(),
        };
        job.run(testbed.cluster.folder(), 5 * FIO_SLACK)?;
        self.note_filled(names.len(), region_bytes);
        Ok(())
    }

    /// Starts the case; [`Clients::ready`] came first.
    ///
    /// # Errors
    /// When the client does not start.
    pub fn start(&mut self, testbed: &Testbed, case: &Case, region_bytes: u64, time: Duration) -> Result<Running<'_>> {
        if case.front == Front::Nbd {
            let targets = nbd_targets(testbed, &testbed.volumes[..case.volumes as usize]);
            let job = fio_job(
                case,
                &targets,
                region_bytes,
                time,
                &client_cpus(testbed.cpus(), case.placement),
            );
            return Running::fio(job, testbed.cluster.folder(), FIO_START);
        }
        Running::library(&mut self.drivers, &job(case, region_bytes, time))
    }

    /// The load generators that run.
    pub fn drivers(&mut self) -> &mut [Driver] {
        &mut self.drivers
    }
}

fn nbd_targets(testbed: &Testbed, names: &[String]) -> Vec<Vec<String>> {
    names
        .iter()
        .map(|name| fio::nbd(&testbed.cluster.uri(0, name)))
        .collect()
}
