//! What nodes have in common that look for work nobody is at: a thread that ends with the node, and when each of them stands for it.

use amita_metadata::{Client, Waited};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often it is looked whether to end.
pub const LOOK: Duration = Duration::from_millis(250);
/// Its end is waited for so long: others go on.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// How soon the metadata is asked again when it is away.
pub const AGAIN: Duration = Duration::from_secs(1);
/// Nodes stand for something within this, not all at once.
const SPREAD: Duration = Duration::from_millis(400);

/// A thread of a node. It is told to end when this is dropped.
#[derive(Debug)]
pub struct Worker {
    /// What it does, for the log.
    what: &'static str,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// `work` ends soon after it is told to.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(
        name: &str,
        what: &'static str,
        work: impl FnOnce(Arc<AtomicBool>) + Send + 'static,
    ) -> std::io::Result<Worker> {
        let stop: Arc<AtomicBool> = Arc::default();
        let told = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = Some(thread.spawn(move || work(told))?);
        Ok(Worker { what, stop, thread })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return };
        let began = Instant::now();
        while !thread.is_finished() && began.elapsed() < END_PATIENCE {
            std::thread::sleep(Duration::from_millis(20));
        }
        if thread.is_finished() && thread.join().is_err() {
            log::error!("what {} has panicked", self.what);
        }
    }
}

/// A time within [`SPREAD`].
pub fn spread() -> Duration {
    let mut random = [0; 1];
    amita_keys::system_random(&mut random);
    SPREAD * u32::from(random[0]) / 255
}

/// Waits for a change below the prefix since that revision, for so long at most, or until `ends` says so.
pub fn wait(client: &Client, prefix: &str, revision: u64, longest: Duration, ends: &dyn Fn() -> bool) {
    let mut watch = client.watch(prefix, revision + 1);
    let began = Instant::now();
    while !ends() && began.elapsed() < longest {
        match watch.wait(LOOK.min(longest.saturating_sub(began.elapsed()))) {
            Waited::Nothing => {}
            Waited::Item(Ok(_)) => return,
            Waited::Item(Err(_)) | Waited::Ended => return rest(AGAIN, ends),
        }
    }
}

/// Rests for so long, or until `ends` says so.
pub fn rest(pause: Duration, ends: &dyn Fn() -> bool) {
    let began = Instant::now();
    while !ends() && began.elapsed() < pause {
        std::thread::sleep(LOOK.min(pause));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_told_to_end_and_waited_for() {
        let ended: Arc<AtomicBool> = Arc::default();
        let told = Arc::clone(&ended);
        let worker = Worker::start("amita-test", "is tried", move |stop| {
            rest(Duration::from_secs(60), &|| stop.load(Ordering::Relaxed));
            told.store(true, Ordering::Relaxed);
        });
        let worker = worker.expect("a thread");
        assert!(!ended.load(Ordering::Relaxed));
        drop(worker);
        assert!(ended.load(Ordering::Relaxed));
    }

    #[test]
    fn nodes_stand_for_work_within_a_moment() {
        assert!((0..64).all(|_| spread() <= SPREAD));
    }
}
