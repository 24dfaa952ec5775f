//! What runs on a core: a service, pass by pass, on a thread of its own.
//!
//! The loop is the one that the experiments on loopback found cheapest: drain everything that came in, handle all of
//! it, hand everything over with one call (one write per store and one send per peer), and only then wait.

#[allow(unsafe_code)]
mod affinity;

use crate::driver::{Completion, Driver, Wait};
use crate::waker::Waker;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};

pub use affinity::{allowed_cpus, pin};

/// Completions of one pass for which there is room from the start.
const COMPLETIONS: usize = 256;

/// Everything above the driver, on one core: told what has ended, it starts what follows.
pub trait Service {
    /// One pass: handles all `completions` (and leaves the vector empty), drains mailboxes, and starts what follows,
    /// one write per store and one send per peer. Says whether it has work left that does not wait for a completion.
    fn pass(&mut self, driver: &mut dyn Driver, completions: &mut Vec<Completion>) -> Wait;
}

/// Ends the loops of a set of cores.
#[derive(Clone, Default)]
pub struct Stop {
    shared: Arc<StopShared>,
}

#[derive(Default)]
struct StopShared {
    stopped: AtomicBool,
    /// Taken when a core starts and when all stop, never in between.
    wakers: Mutex<Vec<Waker>>,
}

impl Stop {
    /// Not stopped.
    #[must_use]
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Ends the loops, each after its present pass.
    pub fn stop(&self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        for waker in self
            .shared
            .wakers
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .iter()
        {
            waker.wake();
        }
    }

    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.shared.stopped.load(Ordering::Relaxed)
    }

    fn add(&self, waker: Waker) {
        self.shared
            .wakers
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .push(waker);
    }
}

/// Runs a service on this thread until it is stopped.
pub fn run(driver: &mut dyn Driver, service: &mut dyn Service, stop: &Stop) {
    stop.add(driver.waker());
    let mut completions = Vec::with_capacity(COMPLETIONS);
    let mut wait = Wait::No;
    while !stop.is_stopped() {
        driver.poll(wait, &mut completions);
        wait = service.pass(driver, &mut completions);
    }
}

/// Where a core runs.
#[derive(Clone, Debug, Default)]
pub struct CoreConfig {
    /// Its number among the cores of this process; names its thread.
    pub index: usize,
    /// The processor to stay on; None: wherever the system puts it (see [`placement`]).
    pub cpu: Option<usize>,
}

/// Which processors `cores` cores shall stay on. `pin` is the setting; without it they stay put only when there are at
/// least as many processors as cores: two cores bound to one processor would wait for each other while another idles.
#[must_use]
pub fn placement(cores: usize, pin: Option<bool>) -> Vec<Option<usize>> {
    let allowed = allowed_cpus();
    let pinned = !allowed.is_empty() && pin.unwrap_or(allowed.len() >= cores);
    (0..cores)
        .map(|core| pinned.then(|| allowed[core % allowed.len()]))
        .collect()
}

/// A running core.
pub struct Core {
    index: usize,
    thread: JoinHandle<()>,
}

/// A core ended by a panic, which is a fault of the program.
#[derive(Debug)]
pub struct Panicked {
    pub core: usize,
    /// What it said.
    pub message: String,
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "core {} panicked: {}", self.core, self.message)
    }
}

impl std::error::Error for Panicked {}

impl Core {
    /// Waits for the core's end.
    pub fn join(self) -> Result<(), Panicked> {
        self.thread.join().map_err(|panic| {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Panicked {
                core: self.index,
                message: text.unwrap_or_else(|| "without a word".to_owned()),
            }
        })
    }

    /// Has it ended?
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }
}

/// Stops all cores when one of them panics: half a process must not go on.
struct StopAll(Stop);

impl Drop for StopAll {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
    }
}

/// Starts a core: `build` makes its driver and its service on the new thread (so that they need not be `Send`), and an
/// error of it is returned here.
pub fn spawn<D, S, B>(config: CoreConfig, stop: Stop, build: B) -> io::Result<Core>
where
    D: Driver + 'static,
    S: Service + 'static,
    B: FnOnce() -> io::Result<(D, S)> + Send + 'static,
{
    let (tell, told) = mpsc::channel();
    let index = config.index;
    let thread = thread::Builder::new().name(format!("core-{index}")).spawn(move || {
        let _stop_all = StopAll(stop.clone());
        let pinned = config.cpu.map_or(Ok(()), affinity::pin);
        let (mut driver, mut service) = match pinned.and_then(|()| build()) {
            Ok(built) => built,
            Err(error) => {
                let _ = tell.send(Err(error));
                return;
            }
        };
        let _ = tell.send(Ok(()));
        run(&mut driver, &mut service, &stop);
    })?;
    match told.recv() {
        Ok(built) => built.map(|()| Core { index, thread }),
        // It panicked while building; its end says how.
        Err(_) => Ok(Core { index, thread }),
    }
}

#[cfg(test)]
mod tests;
